//! Decides what one version of a custom resource is, read from its definition: schema, subresources, columns, names.
//! And how an object that is stored in one version is shown in another: nothing but the version's name changes,
//! and what the other does not know is dropped. Never calls a webhook. Answers to
//! `k8s.io/apiextensions-apiserver/pkg/apiserver/customresource_handler.go` and `.../conversion/nop_converter.go`.

use std::cmp::Ordering;
use std::sync::Arc;

use serde_json::Value;

use super::prune::{drop_nulls, fill, prune};
use super::schema::{Schema, settle_numbers};
use crate::object::{as_map_mut, at, strings, text};
use crate::schema::Link;
use crate::table::custom::CustomColumn;

/// A version.
#[derive(Debug)]
pub(crate) struct Version {
    /// The name of the definition.
    pub(crate) definition: String,
    pub(crate) served: bool,
    /// The `apiVersion` in which objects are stored.
    storage: String,
    own: String,
    /// Whether a webhook is to convert objects.
    by_webhook: bool,
    pub(crate) schema: Arc<Schema>,
    /// The schema as it was given, for those who publish it.
    pub(crate) published: Option<Value>,
    /// The tree by which configurations are applied.
    pub(crate) tree: Link,
    /// The schemas of all versions: an object may be stored in any of them.
    schemas: Arc<Vec<(String, Arc<Schema>)>>,
    pub(crate) status: bool,
    pub(crate) scale: Option<Scale>,
    /// Where each version has its number of replicas; an empty path where it has no scale.
    replicas: Vec<(String, String)>,
    pub(crate) columns: Vec<CustomColumn>,
    /// The fields besides name and namespace by which objects can be selected.
    pub(crate) selectable: Vec<String>,
    pub(crate) singular: String,
    pub(crate) list_kind: String,
    pub(crate) short_names: Vec<String>,
    pub(crate) categories: Vec<String>,
    /// What is said of each use, where the version is on its way out.
    pub(crate) warning: Option<String>,
}

/// Where a scale finds its numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Scale {
    pub(crate) spec: String,
    pub(crate) status: String,
    pub(crate) selector: String,
}

impl Version {
    /// All versions of a definition, the preferred one first, each with its name.
    pub(crate) fn all(definition: &Value) -> Vec<(String, Self)> {
        let versions = definition["spec"]["versions"].as_array().map(Vec::as_slice).unwrap_or_default();
        let storage = versions.iter().find(|version| version["storage"] == true).or(versions.first());
        let Some(storage) = storage else { return Vec::new() };
        let group = text(definition, &["spec", "group"]);
        let schemas = versions.iter().map(|version| {
            let schema = Schema::read(&version["schema"]["openAPIV3Schema"]);
            (format!("{group}/{}", text(version, &["name"])), Arc::new(schema))
        });
        let schemas: Arc<Vec<(String, Arc<Schema>)>> = Arc::new(schemas.collect());
        let mut all: Vec<(String, Self)> = versions
            .iter()
            .map(|version| {
                let name = text(version, &["name"]).to_owned();
                let read = Self::read(definition, version, storage, schemas.clone());
                (name, read)
            })
            .collect();
        all.sort_by(|(a, _), (b, _)| by_priority(a, b));
        all
    }

    fn read(
        definition: &Value,
        version: &Value,
        storage: &Value,
        schemas: Arc<Vec<(String, Arc<Schema>)>>,
    ) -> Self {
        let spec = &definition["spec"];
        let names = &definition["status"]["acceptedNames"];
        let api_version =
            |version: &Value| format!("{}/{}", text(spec, &["group"]), text(version, &["name"]));
        let owned = |path: &str| strings(names, &[path]).into_iter().map(str::to_owned).collect();
        let replicas = spec["versions"].as_array().into_iter().flatten();
        let replicas = replicas.map(|version| {
            let path = text(version, &["subresources", "scale", "specReplicasPath"]);
            (api_version(version), path.trim_start_matches('.').to_owned())
        });
        let scale = at(version, &["subresources", "scale"]).map(|scale| Scale {
            spec: text(scale, &["specReplicasPath"]).to_owned(),
            status: text(scale, &["statusReplicasPath"]).to_owned(),
            selector: text(scale, &["labelSelectorPath"]).to_owned(),
        });
        let own = api_version(version);
        let columns = version["additionalPrinterColumns"].as_array().into_iter().flatten();
        let selectable = version["selectableFields"].as_array().into_iter().flatten();
        Self {
            definition: text(definition, &["metadata", "name"]).to_owned(),
            served: version["served"] == true,
            by_webhook: spec["conversion"]["strategy"] == "Webhook",
            storage: api_version(storage),
            schema: of_version(&schemas, &own).unwrap_or_default(),
            own,
            schemas,
            published: at(version, &["schema", "openAPIV3Schema"]).cloned(),
            tree: crate::schema::custom(Some(&version["schema"]["openAPIV3Schema"]), false),
            status: at(version, &["subresources", "status"]).is_some(),
            scale,
            replicas: replicas.collect(),
            columns: columns.map(CustomColumn::read).collect(),
            selectable: selectable
                .map(|field| text(field, &["jsonPath"]).trim_start_matches('.').to_owned())
                .collect(),
            singular: text(names, &["singular"]).to_owned(),
            list_kind: text(names, &["listKind"]).to_owned(),
            short_names: owned("shortNames"),
            categories: owned("categories"),
            warning: deprecation(spec, version),
        }
    }

    /// Where a version has its number of replicas: nothing when there is no such version, and no steps when it has no scale.
    pub(crate) fn path_of_replicas(&self, api_version: &str) -> Option<Vec<String>> {
        let (_, path) = self.replicas.iter().find(|(version, _)| version == api_version)?;
        Some(path.split('.').filter(|step| !step.is_empty()).map(str::to_owned).collect())
    }

    /// Why objects can't be had in this version: they are stored in another one, and a webhook is to convert them.
    pub(crate) fn unconverted(&self) -> Option<String> {
        let stored = &self.storage;
        (self.by_webhook && self.own != *stored)
            .then(|| format!("this server calls no webhooks, and has the objects in {stored} alone"))
    }

    /// The subresources that there are.
    pub(crate) fn subresources(&self) -> &'static [&'static str] {
        match (self.status, self.scale.is_some()) {
            (true, true) => &["status", "scale"],
            (true, false) => &["status"],
            (false, true) => &["scale"],
            (false, false) => &[],
        }
    }

    /// An object that came in, as it is stored.
    pub(crate) fn to_stored(&self, value: &mut Value) {
        settle_numbers(value);
        if self.own != self.storage {
            as_map_mut(value).insert("apiVersion".into(), self.storage.as_str().into());
            if let Some(stored) = of_version(&self.schemas, &self.storage) {
                prune(value, &stored);
                drop_nulls(value, Some(&stored));
            }
        }
    }

    /// A stored object, as it is shown; nothing when it is shown as it is stored. What the schema has gained or lost
    /// since the object was written shows too.
    pub(crate) fn shown(&self, stored: &Value) -> Option<Value> {
        let mut value = stored.clone();
        let version = text(stored, &["apiVersion"]);
        // One of a version that is gone is read as one of its own.
        let schema = of_version(&self.schemas, version).unwrap_or_else(|| self.schema.clone());
        prune(&mut value, &schema);
        drop_nulls(&mut value, Some(&schema));
        fill(&mut value, &schema);
        if self.own != version {
            prune(&mut value, &self.schema);
            drop_nulls(&mut value, Some(&self.schema));
        }
        as_map_mut(&mut value).insert("apiVersion".into(), self.own.as_str().into());
        (value != *stored).then_some(value)
    }
}

fn of_version(schemas: &[(String, Arc<Schema>)], version: &str) -> Option<Arc<Schema>> {
    schemas.iter().find(|(name, _)| name == version).map(|(_, schema)| schema.clone())
}

/// What is said of a version that is on its way out: its own words, or those that name a better one.
fn deprecation(spec: &Value, version: &Value) -> Option<String> {
    if version["deprecated"] != true {
        return None;
    }
    if let Some(warning) = at(version, &["deprecationWarning"]).and_then(Value::as_str) {
        return Some(warning.to_owned());
    }
    let (group, kind) = (text(spec, &["group"]), text(spec, &["names", "kind"]));
    let own = text(version, &["name"]);
    let better = spec["versions"].as_array().into_iter().flatten();
    let better = better.filter(|one| one["served"] == true && one["deprecated"] != true);
    let better =
        better.map(|one| text(one, &["name"])).filter(|name| by_priority(name, own) == Ordering::Less);
    let instead = better.min_by(|a, b| by_priority(a, b));
    let instead = instead.map(|name| format!("; use {group}/{name} {kind}")).unwrap_or_default();
    Some(format!("{group}/{own} {kind} is deprecated{instead}"))
}

/// The order in which versions are preferred: stable ones, then betas, then alphas, each from the newest; others last.
pub(crate) fn by_priority(a: &str, b: &str) -> Ordering {
    let parts = |name: &str| -> Option<(u8, u64, u64)> {
        let rest = name.strip_prefix('v')?;
        let end = rest.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(rest.len());
        let (major, stage) = rest.split_at(end);
        let major = major.parse().ok()?;
        let (rank, minor) = match stage {
            "" => (2, ""),
            _ if stage.starts_with("beta") => (1, &stage[4..]),
            _ if stage.starts_with("alpha") => (0, &stage[5..]),
            _ => return None,
        };
        let minor = if rank == 2 { 0 } else { minor.parse().ok()? };
        Some((rank, major, minor))
    };
    match (parts(a), parts(b)) {
        (Some(a), Some(b)) => b.cmp(&a),
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (None, None) => a.cmp(b),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn definition() -> Value {
        let version = |name: &str, served: bool, storage: bool, fields: Value| {
            json!({"name": name, "served": served, "storage": storage, "schema": {"openAPIV3Schema": {"type": "object",
                "properties": {"spec": {"type": "object", "properties": fields}}}}})
        };
        let size = json!({"type": "integer"});
        json!({"metadata": {"name": "as.x.y"}, "spec": {"group": "x.y", "names": {"kind": "A"}, "versions": [
            version("v1beta1", true, false, json!({"size": size, "color": {"type": "string", "default": "red"}})),
            version("v1", true, true, json!({"size": size, "mode": {"type": "string", "default": "slow"}})),
            version("v1alpha1", false, false, json!({})),
        ]}, "status": {"acceptedNames": {"kind": "A", "listKind": "AList", "singular": "a"}}})
    }

    #[test]
    fn versions_are_in_order_of_preference() {
        let names: Vec<String> = Version::all(&definition()).into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["v1", "v1beta1", "v1alpha1"]);
        let mut names = ["v1alpha1", "foo", "v2beta3", "v10", "v2", "v2beta10", "bar"];
        names.sort_by(|a, b| by_priority(a, b));
        assert_eq!(names, ["v10", "v2", "v2beta10", "v2beta3", "v1alpha1", "bar", "foo"]);
    }

    #[test]
    fn an_object_is_stored_in_one_version_and_shown_in_each() {
        let all = Version::all(&definition());
        let (stable, beta) = (&all[0].1, &all[1].1);
        let mut value = json!({"apiVersion": "x.y/v1beta1", "kind": "A", "metadata": {"name": "n"},
            "spec": {"size": 2.0, "color": "blue"}});
        beta.to_stored(&mut value);
        let stored =
            json!({"apiVersion": "x.y/v1", "kind": "A", "metadata": {"name": "n"}, "spec": {"size": 2}});
        assert_eq!(value, stored);
        assert_eq!(stable.shown(&stored).unwrap()["spec"], json!({"size": 2, "mode": "slow"}));
        let shown = beta.shown(&stored).unwrap();
        assert_eq!((&shown["apiVersion"], &shown["spec"]), (&json!("x.y/v1beta1"), &json!({"size": 2})));
    }

    #[test]
    fn a_deprecated_version_says_which_to_use() {
        let mut definition = definition();
        definition["spec"]["versions"][0]["deprecated"] = true.into();
        let all = Version::all(&definition);
        assert_eq!(all[1].1.warning.as_deref(), Some("x.y/v1beta1 A is deprecated; use x.y/v1 A"));
        definition["spec"]["versions"][0]["deprecationWarning"] = "no more".into();
        assert_eq!(Version::all(&definition)[1].1.warning.as_deref(), Some("no more"));
    }
}
