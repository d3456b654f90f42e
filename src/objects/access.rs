//! Sets of access modes, in full and in short: `RWO,ROX`.
//!
//! Says which modes a set has, which set comes first, and how it is written. It never says whether a volume fits a
//! claim; that is [`super::claim::access_modes_fit`]. Answers to upstream's `GetAccessModesAsString` and
//! `GetAccessModesFromString` (`pkg/apis/core/v1/helper/helpers.go`), by which its index groups volumes.

use std::cmp::Reverse;
use std::fmt;

/// One writer node.
pub const READ_WRITE_ONCE: &str = "ReadWriteOnce";
/// Many reader nodes.
pub const READ_ONLY_MANY: &str = "ReadOnlyMany";
/// Many writer nodes.
pub const READ_WRITE_MANY: &str = "ReadWriteMany";
/// One writer pod.
pub const READ_WRITE_ONCE_POD: &str = "ReadWriteOncePod";

/// Bit, name and short name of each mode, in the order in which they are written. The bits order sets of one size by
/// the names of their modes: a set with the first name comes first.
const MODES: [(u8, &str, &str); 4] = [
    (2, READ_WRITE_ONCE, "RWO"),
    (8, READ_ONLY_MANY, "ROX"),
    (4, READ_WRITE_MANY, "RWX"),
    (1, READ_WRITE_ONCE_POD, "RWOP"),
];

/// A set of access modes. Sets compare by size first: smaller sets are tried first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ModeSet {
    size: u32,
    bits: Reverse<u8>,
}

impl ModeSet {
    fn of_bits(bits: u8) -> Self {
        ModeSet { size: bits.count_ones(), bits: Reverse(bits) }
    }

    /// The set of these modes. Repeated ones count once, and those that do not exist not at all: the API server
    /// takes none, and upstream leaves them out too.
    #[must_use]
    pub fn new(modes: &[String]) -> Self {
        let known = MODES.iter().filter(|(_, name, _)| modes.iter().any(|mode| mode == name));
        Self::of_bits(known.fold(0, |bits, (bit, ..)| bits | bit))
    }

    /// Reads the short form; what is no mode is left out.
    #[must_use]
    pub fn from_short(text: &str) -> Self {
        let known = MODES.iter().filter(|(.., short)| text.split(',').any(|mode| mode == *short));
        Self::of_bits(known.fold(0, |bits, (bit, ..)| bits | bit))
    }

    /// The names of the modes.
    pub fn modes(self) -> impl Iterator<Item = &'static str> {
        MODES.iter().filter(move |(bit, ..)| self.bits.0 & bit != 0).map(|(_, name, _)| *name)
    }

    /// Whether every one of `wanted` is in the set.
    #[must_use]
    pub fn offers(self, wanted: &[String]) -> bool {
        wanted.iter().all(|mode| self.modes().any(|offered| offered == mode))
    }
}

/// The short form, in upstream's order.
impl fmt::Display for ModeSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let offered = MODES.iter().filter(|(bit, ..)| self.bits.0 & bit != 0);
        for (index, (.., short)) in offered.enumerate() {
            let comma = if index == 0 { "" } else { "," };
            write!(f, "{comma}{short}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[rstest::rstest]
    #[case("RWOP", "RWO,ROX")]
    #[case("ROX", "RWX")]
    #[case("RWX", "RWO")]
    #[case("RWO", "RWOP")]
    #[case("ROX,RWOP", "RWO,RWX")]
    fn smaller_sets_come_first_and_equal_ones_by_the_names_of_their_modes(
        #[case] first: &str,
        #[case] second: &str,
    ) {
        assert!(ModeSet::from_short(first) < ModeSet::from_short(second));
    }

    #[test]
    fn a_mode_that_does_not_exist_is_offered_by_no_set() {
        let modes = ["ReadWriteOnce".to_owned(), "Often".to_owned()];
        assert!(!ModeSet::new(&modes).offers(&modes));
        assert!(ModeSet::new(&modes).offers(&modes[..1]));
    }
}
