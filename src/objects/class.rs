//! What a storage class says, and which one is the default.
//!
//! Answers to upstream's `pkg/volume/util/storageclass.go` and `component-helpers/storage/volume/helpers.go`.

use super::{Class, annotation, annotations, name};

/// Whether the class leaves binding to the scheduler; `None` when the class does not say, which upstream
/// treats as an error.
#[must_use]
pub fn delays_binding(class: &Class) -> Option<bool> {
    class.volume_binding_mode.as_deref().map(|mode| mode == "WaitForFirstConsumer")
}

/// Whether the class is marked as the default.
#[must_use]
pub fn is_default(class: &Class) -> bool {
    let says = |key| annotation(&class.metadata, key) == Some("true");
    says(annotations::DEFAULT_CLASS) || says(annotations::BETA_DEFAULT_CLASS)
}

/// The default among the classes: the newest, and among equally old ones the first by name.
pub fn default_of<'a>(classes: impl Iterator<Item = &'a Class>) -> Option<&'a Class> {
    classes.filter(|class| is_default(class)).min_by(|a, b| {
        let (older, newer) = (&a.metadata.creation_timestamp, &b.metadata.creation_timestamp);
        newer.cmp(older).then_with(|| name(&a.metadata).cmp(name(&b.metadata)))
    })
}

/// What happens to the class's volumes when their claims are gone; `Delete` when it does not say.
#[must_use]
pub fn reclaim_policy(class: &Class) -> &str {
    class.reclaim_policy.as_deref().unwrap_or(super::volume::DELETE)
}
