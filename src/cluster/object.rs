//! One object of any kind that decisions look at.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::{Key, Kind};
use crate::objects::{
    Capacity, Claim, Class, CsiDriver, CsiNode, Node, Pod, Volume, name, namespace, version,
};

/// An object, shared and never changed in place.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "each variant is named after the one thing that it holds")]
pub enum Object {
    Claim(Arc<Claim>),
    Volume(Arc<Volume>),
    Class(Arc<Class>),
    Pod(Arc<Pod>),
    Node(Arc<Node>),
    CsiNode(Arc<CsiNode>),
    CsiDriver(Arc<CsiDriver>),
    Capacity(Arc<Capacity>),
}

macro_rules! conversions {
    ($($variant:ident $as:ident $type:ty, $what:literal;)*) => {
        $(
            impl From<$type> for Object {
                fn from(object: $type) -> Self {
                    Object::$variant(Arc::new(object))
                }
            }
        )*
        impl Object {
            $(
                #[doc = concat!("The object, if it is a ", $what, ".")]
                #[must_use]
                pub fn $as(&self) -> Option<&Arc<$type>> {
                    match self {
                        Object::$variant(object) => Some(object),
                        _ => None,
                    }
                }
            )*

            /// The object's kind.
            #[must_use]
            pub fn kind(&self) -> Kind {
                match self {
                    $(Object::$variant(_) => Kind::$variant,)*
                }
            }

            /// The object's metadata.
            #[must_use]
            pub fn metadata(&self) -> &ObjectMeta {
                match self {
                    $(Object::$variant(object) => &object.metadata,)*
                }
            }
        }
    };
}

conversions! {
    Claim as_claim Claim, "claim";
    Volume as_volume Volume, "volume";
    Class as_class Class, "class";
    Pod as_pod Pod, "pod";
    Node as_node Node, "node";
    CsiNode as_csi_node CsiNode, "`CSINode`";
    CsiDriver as_csi_driver CsiDriver, "`CSIDriver`";
    Capacity as_capacity Capacity, "`CSIStorageCapacity`";
}

impl Object {
    /// The object's key.
    #[must_use]
    pub fn key(&self) -> Key {
        let meta = self.metadata();
        Key::new(self.kind(), namespace(meta), name(meta))
    }

    /// The object's version as a number.
    #[must_use]
    pub fn version(&self) -> u64 {
        version(self.metadata())
    }
}

#[cfg(test)]
impl Object {
    /// An object of a kind, as a test writes it.
    pub(crate) fn written(kind: Kind, value: serde_json::Value) -> Self {
        fn parsed<T: serde::de::DeserializeOwned>(value: serde_json::Value) -> Object
        where
            Object: From<T>,
        {
            Object::from(serde_json::from_value::<T>(value).unwrap())
        }
        match kind {
            Kind::Node => parsed::<Node>(value),
            Kind::CsiNode => parsed::<CsiNode>(value),
            Kind::CsiDriver => parsed::<CsiDriver>(value),
            Kind::Capacity => parsed::<Capacity>(value),
            Kind::Class => parsed::<Class>(value),
            Kind::Volume => parsed::<Volume>(value),
            Kind::Claim => parsed::<Claim>(value),
            Kind::Pod => parsed::<Pod>(value),
        }
    }
}
