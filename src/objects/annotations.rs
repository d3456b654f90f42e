//! The annotations and finalizers by which the controller, the scheduler and provisioners talk to each other.
//!
//! Answers to upstream's `component-helpers/storage/volume/pv_helpers.go`, where these keys are defined.

/// On a claim: binding is complete; from then on the claim is never bound anew.
pub const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";
/// On a claim or a volume: the binding was made by the controller, not given by the user.
pub const BOUND_BY_CONTROLLER: &str = "pv.kubernetes.io/bound-by-controller";
/// On a volume: the name of the provisioner that made it.
pub const PROVISIONED_BY: &str = "pv.kubernetes.io/provisioned-by";
/// On a claim or a volume: the CSI driver that serves it in place of an in-tree plugin.
pub const MIGRATED_TO: &str = "pv.kubernetes.io/migrated-to";
/// On a claim: the provisioner that is to make its volume.
pub const STORAGE_PROVISIONER: &str = "volume.kubernetes.io/storage-provisioner";
/// On a claim: the older name of [`STORAGE_PROVISIONER`]; both are written.
pub const BETA_STORAGE_PROVISIONER: &str = "volume.beta.kubernetes.io/storage-provisioner";
/// On a claim: the node that the scheduler chose, for provisioners that care where the volume is.
pub const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
/// On a claim or a volume: the older way to name a class; it wins over the field.
pub const BETA_CLASS: &str = "volume.beta.kubernetes.io/storage-class";
/// On a class: `"true"` makes it the default.
pub const DEFAULT_CLASS: &str = "storageclass.kubernetes.io/is-default-class";
/// On a class: the older name of [`DEFAULT_CLASS`].
pub const BETA_DEFAULT_CLASS: &str = "storageclass.beta.kubernetes.io/is-default-class";
/// On a volume: its capacity before a resize that the file system has not followed yet.
pub const PRE_RESIZE_CAPACITY: &str = "volume.alpha.kubernetes.io/pre-resize-capacity";
/// On a `CSINode`: the in-tree plugins, separated by commas, that are migrated on that node.
pub const MIGRATED_PLUGINS: &str = "storage.alpha.kubernetes.io/migrated-plugins";

/// The finalizer that keeps an in-tree volume until its storage is deleted.
pub const IN_TREE_FINALIZER: &str = "kubernetes.io/pv-controller";
/// The provisioner of classes whose volumes are made by hand.
pub const NO_PROVISIONER: &str = "kubernetes.io/no-provisioner";
/// The prefix of in-tree plugin names.
pub const IN_TREE_PREFIX: &str = "kubernetes.io/";
