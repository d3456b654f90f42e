//! How the room that drivers report is counted, and what it is worth; the same options for every command that places pods.

use clap::{ArgAction, Args};

use crate::decide::binder::storage::{Point, Scoring, Shape};
use crate::decide::{Settings, plugin};

/// See the [module's documentation](self).
#[derive(Clone, Copy, Debug, Args)]
pub struct Counting {
    /// Count volumes that are to be made together against each `CSIStorageCapacity`; `=false` compares each alone.
    #[arg(
        long,
        value_name = "BOOL",
        default_value_t = true,
        action = ArgAction::Set,
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true",
        env = "PVBIND_STRICT_CAPACITY"
    )]
    pub(super) strict_capacity: bool,
    /// Prefer nodes by how full storage would become: UTILIZATION:SCORE points, scores up to 10. Otherwise volumes that waste
    /// the least are preferred.
    #[arg(
        long,
        value_name = "SHAPE",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "0:10,100:0",
        value_parser = shape,
        env = "PVBIND_STORAGE_CAPACITY_SCORING"
    )]
    storage_capacity_scoring: Option<Shape>,
}

impl Counting {
    /// What decisions take for granted where stand-ins play the rest of a cluster.
    pub(super) fn among_stand_ins(&self, strict: bool) -> Settings {
        Settings {
            strict,
            strict_capacity: self.strict_capacity,
            scoring: self.scoring(),
            plugins: plugin::PROVISIONING,
            ..Settings::default()
        }
    }

    /// What the volumes on a node say for the node.
    pub(super) fn scoring(&self) -> Scoring {
        self.storage_capacity_scoring.map_or(Scoring::BestFit, Scoring::Capacity)
    }
}

/// Reads a shape such as `0:10,100:0`.
fn shape(text: &str) -> Result<Shape, String> {
    let point = |text: &str| {
        let (utilization, score) = text.split_once(':')?;
        let number = |text: &str| text.trim().parse().ok();
        Some(Point { utilization: number(utilization)?, score: number(score)? })
    };
    let points: Option<Vec<Point>> = text.split(',').map(point).collect();
    let points =
        points.ok_or_else(|| format!("{text:?} is no shape; write UTILIZATION:SCORE, such as 0:10,100:0"))?;
    Shape::configured(&points).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case("0:10,100:0", None)]
    #[case("50:5", None)]
    #[case("", Some("\"\" is no shape; write UTILIZATION:SCORE, such as 0:10,100:0"))]
    #[case("0:10;100:0", Some("\"0:10;100:0\" is no shape; write UTILIZATION:SCORE, such as 0:10,100:0"))]
    #[case("0:10,-1:0", Some("\"0:10,-1:0\" is no shape; write UTILIZATION:SCORE, such as 0:10,100:0"))]
    #[case("0:100", Some("shape[0].score: 100 is not in valid range [0, 10]"))]
    #[case("9:1,3:1", Some("shape[1].utilization: values must be sorted in increasing order"))]
    fn shapes_as_users_write_them(#[case] text: &str, #[case] refused: Option<&str>) {
        assert_eq!(shape(text).err().as_deref(), refused);
    }

    #[test]
    fn the_shape_that_is_meant_without_one_is_upstreams() {
        assert_eq!(shape("0:10,100:0"), Ok(Shape::default()));
    }
}
