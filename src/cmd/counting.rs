//! How the room that drivers report is counted; the same option for every command that places pods.

use clap::{ArgAction, Args};

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
}
