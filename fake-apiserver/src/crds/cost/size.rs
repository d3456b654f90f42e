//! Decides how sizes and costs are reckoned: whole numbers that stop at the largest there is. Never knows what they are of. Answers
//! to `SizeEstimate` of `cel-go/checker/cost.go`.

/// Between which bounds the size of a value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Size {
    pub(super) min: u64,
    pub(super) max: u64,
}

impl Size {
    pub(super) const UNKNOWN: Self = Self { min: 0, max: u64::MAX };

    pub(super) fn exactly(size: u64) -> Self {
        Self { min: size, max: size }
    }

    pub(super) fn plus(self, other: Self) -> Self {
        Self { min: self.min.saturating_add(other.min), max: self.max.saturating_add(other.max) }
    }

    pub(super) fn times(self, other: Self) -> Self {
        Self { min: self.min.saturating_mul(other.min), max: self.max.saturating_mul(other.max) }
    }

    /// The bounds that hold both.
    pub(super) fn or(self, other: Self) -> Self {
        Self { min: self.min.min(other.min), max: self.max.max(other.max) }
    }

    /// What it costs at most to go through it.
    pub(super) fn costs(self, each: f64) -> u64 {
        scaled(self.max, each)
    }
}

/// A number by a factor, rounded up.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "as the real server reckons: what is lost above 2^53 is lost there too, and a cast stops at the bounds"
)]
pub(super) fn scaled(number: u64, factor: f64) -> u64 {
    (number as f64 * factor).ceil() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_more_than_the_largest() {
        assert_eq!(scaled(31, 0.1), 4);
        assert_eq!(scaled(u64::MAX, 2.0), u64::MAX);
        assert_eq!(scaled(0, 2.0), 0);
        let (some, all) = (Size { min: 1, max: 3 }, Size::UNKNOWN);
        assert_eq!(some.plus(all), Size { min: 1, max: u64::MAX });
        assert_eq!(some.times(all), Size { min: 0, max: u64::MAX });
        assert_eq!(some.or(Size::exactly(5)), Size { min: 1, max: 5 });
    }
}
