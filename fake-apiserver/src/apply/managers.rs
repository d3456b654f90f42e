//! Decides how the managers of an object are kept in its `metadata.managedFields`: who is who, in which order
//! they stand, and how many updaters are remembered. Answers to
//! `k8s.io/apimachinery/pkg/util/managedfields/internal/managedfields.go` and `capmanagers.go`.

use serde_json::{Map, Value};

use crate::apply::set::Set;

/// How many updaters an object remembers; of more than that the oldest become one.
const MOST_UPDATERS: usize = 10;
const ANCIENT: &str = "ancient-changes";

/// What tells managers apart. One who applies is the same in every version.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Identity {
    pub(crate) manager: String,
    pub(crate) applies: bool,
    /// Empty for those who apply.
    pub(crate) api_version: String,
    pub(crate) subresource: String,
}

/// A manager and what belongs to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) identity: Identity,
    /// The version in which the fields are named.
    pub(crate) api_version: String,
    pub(crate) time: Option<String>,
    pub(crate) fields: Set,
}

/// The managers of one object, each once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Managers(Vec<Entry>);

impl Identity {
    /// The words in which a conflict names a manager.
    pub(crate) fn shown(&self) -> String {
        let mut shown = format!("{:?}", self.manager);
        if !self.subresource.is_empty() {
            shown = format!("{shown} with subresource {:?}", self.subresource);
        }
        if self.applies { shown } else { format!("{shown} using {}", self.api_version) }
    }
}

impl Managers {
    /// Reads `managedFields`, or says what makes them unreadable.
    pub(crate) fn decode(list: &Value) -> Result<Self, String> {
        let mut managers = Self::default();
        for (place, entry) in list.as_array().into_iter().flatten().enumerate() {
            let text = |field: &str| entry.get(field).and_then(Value::as_str).unwrap_or_default();
            let applies = match text("operation") {
                "Apply" => true,
                "Update" => false,
                _ => return Err("operation must be `Apply` or `Update`".into()),
            };
            let api_version = text("apiVersion");
            if api_version.is_empty() {
                return Err("apiVersion must not be empty".into());
            }
            if text("fieldsType") != "FieldsV1" {
                return Err(format!("invalid fieldsType in managed fields entry {place}"));
            }
            let fields = entry.get("fieldsV1").filter(|fields| !fields.is_null());
            let fields = fields.map_or_else(|| Ok(Set::default()), Set::decode)?;
            let identity = Identity {
                manager: text("manager").to_owned(),
                applies,
                api_version: if applies { String::new() } else { api_version.to_owned() },
                subresource: text("subresource").to_owned(),
            };
            let time = Some(text("time")).filter(|time| !time.is_empty()).map(str::to_owned);
            managers.put(Entry { identity, api_version: api_version.to_owned(), time, fields });
        }
        Ok(managers)
    }

    /// The managers as `managedFields`: appliers first, each part by time and name.
    pub(crate) fn encode(mut self) -> Option<Value> {
        // In whole seconds the times are as long as each other, so that texts order as times do.
        self.0.sort_by(|a, b| a.place().cmp(&b.place()));
        let list: Vec<Value> = self.0.into_iter().map(Entry::encode).collect();
        (!list.is_empty()).then_some(Value::Array(list))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn get(&self, identity: &Identity) -> Option<&Entry> {
        self.0.iter().find(|entry| entry.identity == *identity)
    }

    /// Takes out what belongs to a manager.
    pub(crate) fn take(&mut self, identity: &Identity) -> Option<Entry> {
        let place = self.0.iter().position(|entry| entry.identity == *identity)?;
        Some(self.0.remove(place))
    }

    pub(crate) fn get_mut(&mut self, identity: &Identity) -> Option<&mut Entry> {
        self.0.iter_mut().find(|entry| entry.identity == *identity)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Entry> {
        self.0.iter()
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Entry> {
        self.0.iter_mut()
    }

    /// Replaces the entry of that identity.
    pub(crate) fn put(&mut self, entry: Entry) {
        match self.get_mut(&entry.identity) {
            Some(old) => *old = entry,
            None => self.0.push(entry),
        }
    }

    /// Adds an entry beside one of that identity, if there is one: so it is written, and read as the last of them.
    pub(crate) fn push(&mut self, entry: Entry) {
        self.0.push(entry);
    }

    pub(crate) fn retain(&mut self, keep: impl FnMut(&Entry) -> bool) {
        self.0.retain(keep);
    }

    /// Makes one of the oldest updaters when there are too many.
    pub(crate) fn cap(&mut self) {
        if self.0.len() <= MOST_UPDATERS {
            return;
        }
        let mut updaters: Vec<(Option<String>, Identity)> = self
            .iter()
            .filter(|entry| !entry.identity.applies)
            .map(|entry| (entry.time.clone(), entry.identity.clone()))
            .collect();
        let mut count = updaters.len();
        updaters.sort();
        let mut first: Vec<Identity> = Vec::new();
        for (time, identity) in updaters {
            if count <= MOST_UPDATERS {
                break;
            }
            let version = &identity.api_version;
            let Some(before) = first.iter().find(|one| one.api_version == *version).cloned() else {
                first.push(identity);
                continue;
            };
            let bucket = Identity { manager: ANCIENT.into(), subresource: String::new(), ..identity.clone() };
            if self.get(&bucket).is_none()
                && let Some(one) = self.get_mut(&before)
            {
                one.identity = bucket.clone();
            }
            let Some(merged) = self.get(&identity).map(|entry| entry.fields.clone()) else { continue };
            self.retain(|entry| entry.identity != identity);
            if let Some(one) = self.get_mut(&bucket) {
                one.fields = std::mem::take(&mut one.fields).union(merged);
                one.time = time;
            }
            count -= 1;
        }
    }
}

impl Entry {
    /// Where it stands among the others.
    fn place(&self) -> (bool, &str, &str, &str, &str) {
        let Identity { manager, applies, subresource, .. } = &self.identity;
        (!applies, self.time.as_deref().unwrap_or_default(), manager, &self.api_version, subresource)
    }

    fn encode(self) -> Value {
        let Identity { manager, applies, subresource, .. } = self.identity;
        let mut entry = Map::new();
        let operation = if applies { "Apply" } else { "Update" };
        let texts = [
            ("manager", manager),
            ("operation", operation.to_owned()),
            ("apiVersion", self.api_version),
            ("time", self.time.unwrap_or_default()),
            ("fieldsType", "FieldsV1".to_owned()),
            ("subresource", subresource),
        ];
        for (name, text) in texts.into_iter().filter(|(_, text)| !text.is_empty()) {
            entry.insert(name.into(), text.into());
        }
        entry.insert("fieldsV1".into(), self.fields.encode());
        Value::Object(entry)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn updater(name: &str, second: u32, field: &str) -> Value {
        let mut fields = Map::new();
        fields.insert(format!("f:{field}"), json!({}));
        json!({
            "manager": name, "operation": "Update", "apiVersion": "v1", "time": format!("2026-01-01T00:00:{second:02}Z"),
            "fieldsType": "FieldsV1", "fieldsV1": fields,
        })
    }

    #[test]
    fn managers_are_written_as_they_were_read() {
        let list = json!([
            {"manager": "a", "operation": "Apply", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": {"f:b": {}}, "subresource": "status"},
            updater("b", 1, "x"),
        ]);
        assert_eq!(Managers::decode(&list).unwrap().encode().unwrap(), list);
    }

    #[test]
    fn what_is_no_manager_is_refused() {
        for (field, wrong) in [("operation", "Merge"), ("apiVersion", ""), ("fieldsType", "")] {
            let mut entry = updater("a", 1, "x");
            entry[field] = wrong.into();
            assert!(Managers::decode(&json!([entry])).is_err(), "{field}");
        }
    }

    #[test]
    fn the_oldest_of_too_many_updaters_become_one() {
        let list: Vec<Value> =
            (0..12).map(|i| updater(&format!("m{i:02}"), 12 - i, &format!("x{i}"))).collect();
        let mut managers = Managers::decode(&json!(list)).unwrap();
        managers.cap();
        let list = managers.encode().unwrap();
        assert_eq!(list.as_array().unwrap().len(), 10);
        assert_eq!(list[0]["manager"], "ancient-changes");
        assert_eq!(list[0]["fieldsV1"], json!({"f:x11": {}, "f:x10": {}, "f:x9": {}}));
        assert_eq!(list[0]["time"], "2026-01-01T00:00:03Z");
    }
}
