//! Decides which names a definition is given, and says in its status whether they and it are accepted: the work
//! of two controllers of the real server, done here at once with the write, as two writes of their own. Never
//! refuses a definition. Answers to `k8s.io/apiextensions-apiserver/pkg/controller/status` and `.../establish`.

use serde_json::{Value, json};

use crate::object::{at, map_mut, strings, text};

/// The names that other definitions of the group hold.
#[derive(Debug, Default)]
pub(crate) struct Taken {
    resources: Vec<String>,
    kinds: Vec<String>,
}

impl Taken {
    /// From the other definitions of the same group.
    pub(crate) fn by<'a>(definitions: impl Iterator<Item = &'a Value>) -> Self {
        let mut taken = Self::default();
        for definition in definitions {
            let names = &definition["status"]["acceptedNames"];
            for name in ["plural", "singular"] {
                taken.resources.push(text(names, &[name]).to_owned());
            }
            taken.resources.extend(strings(names, &["shortNames"]).into_iter().map(str::to_owned));
            for name in ["kind", "listKind"] {
                taken.kinds.push(text(names, &[name]).to_owned());
            }
        }
        taken
    }
}

/// Gives a definition its names as far as they are free, and says in its conditions how that went. Says whether the status
/// has changed.
pub(crate) fn accept(definition: &mut Value, taken: &Taken, now: &str) -> bool {
    let wanted = definition["spec"]["names"].clone();
    let before = definition["status"].clone();
    if at(&before, &["acceptedNames"]) == Some(&wanted) {
        return false;
    }
    let mut accepted = before["acceptedNames"].clone();
    let mut conflict: Option<(&str, String)> = None;
    for (name, reason, used) in [
        ("plural", "PluralConflict", &taken.resources),
        ("singular", "SingularConflict", &taken.resources),
        ("shortNames", "ShortNamesConflict", &taken.resources),
        ("kind", "KindConflict", &taken.kinds),
        ("listKind", "ListKindConflict", &taken.kinds),
    ] {
        match in_use(&wanted, &accepted, name, used) {
            Some(message) => conflict = Some((reason, message)),
            None => match wanted.get(name) {
                Some(value) => accepted[name] = value.clone(),
                None => drop(accepted.as_object_mut().and_then(|accepted| accepted.remove(name))),
            },
        }
    }
    match wanted.get("categories") {
        Some(value) => accepted["categories"] = value.clone(),
        None => drop(accepted.as_object_mut().and_then(|accepted| accepted.remove("categories"))),
    }
    map_mut(definition, "status").insert("acceptedNames".into(), accepted);
    let ok = conflict.is_none();
    let (reason, message) = conflict.unwrap_or(("NoConflicts", "no conflicts found".to_owned()));
    set_condition(definition, "NamesAccepted", ok, reason, &message, now);
    if !is_true(definition, "Established") {
        let (reason, message) = if ok {
            ("Installing", "the initial names have been accepted")
        } else {
            ("NotAccepted", "not all names are accepted")
        };
        set_condition(definition, "Established", false, reason, message, now);
    }
    definition["status"] != before
}

/// Says that a definition whose names are accepted is served. Says whether that is news.
pub(crate) fn establish(definition: &mut Value, now: &str) -> bool {
    if !is_true(definition, "NamesAccepted") || is_true(definition, "Established") {
        return false;
    }
    let message = "the initial names have been accepted";
    set_condition(definition, "Established", true, "InitialNamesAccepted", message, now);
    true
}

fn in_use(wanted: &Value, accepted: &Value, name: &str, used: &[String]) -> Option<String> {
    let quoted = |name: &str| format!("\"{name}\" is already in use");
    if name == "shortNames" {
        let ours = strings(accepted, &[name]);
        let clashes = strings(wanted, &[name]).into_iter();
        let clashes: Vec<String> = clashes
            .filter(|short| !ours.contains(short) && used.iter().any(|one| one == short))
            .map(quoted)
            .collect();
        return match &clashes[..] {
            [] => None,
            [one] => Some(one.clone()),
            several => Some(format!("[{}]", several.join(", "))),
        };
    }
    let wanted = text(wanted, &[name]);
    (wanted != text(accepted, &[name]) && used.iter().any(|one| one == wanted)).then(|| quoted(wanted))
}

pub(crate) fn is_true(definition: &Value, condition: &str) -> bool {
    let conditions = definition["status"]["conditions"].as_array();
    conditions.into_iter().flatten().any(|one| one["type"] == condition && one["status"] == "True")
}

/// Sets a condition; its time moves only when its status does.
pub(crate) fn set_condition(
    definition: &mut Value,
    condition: &str,
    status: bool,
    reason: &str,
    message: &str,
    now: &str,
) {
    let status = if status { "True" } else { "False" };
    let new = json!({"type": condition, "status": status, "lastTransitionTime": now, "reason": reason, "message": message});
    let conditions = map_mut(definition, "status").entry("conditions").or_insert(Value::Null);
    if !conditions.is_array() {
        *conditions = json!([]);
    }
    let Value::Array(conditions) = conditions else { return };
    match conditions.iter_mut().find(|one| one["type"] == condition) {
        None => conditions.push(new),
        Some(old) => {
            let since = old["lastTransitionTime"].clone();
            let same = old["status"] == status;
            *old = new;
            if same {
                old["lastTransitionTime"] = since;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn definition(plural: &str, kind: &str, short: &str) -> Value {
        json!({"spec": {"names": {"plural": plural, "singular": kind.to_lowercase(), "kind": kind,
            "listKind": format!("{kind}List"), "shortNames": [short]}},
            "status": {"conditions": null, "acceptedNames": {"plural": "", "kind": ""}}})
    }

    #[test]
    fn free_names_are_accepted_and_then_served() {
        let mut one = definition("as", "A", "a");
        assert!(accept(&mut one, &Taken::default(), "t1"));
        assert_eq!(one["status"]["acceptedNames"], one["spec"]["names"]);
        assert!(is_true(&one, "NamesAccepted") && !is_true(&one, "Established"));
        assert!(establish(&mut one, "t2") && !establish(&mut one, "t3"));
        assert_eq!(one["status"]["conditions"][1]["lastTransitionTime"], "t2");
        assert!(!accept(&mut one, &Taken::default(), "t4"));
    }

    #[test]
    fn names_that_are_taken_are_not_accepted() {
        let mut first = definition("as", "A", "a");
        accept(&mut first, &Taken::default(), "t1");
        let mut second = definition("bs", "A", "a");
        assert!(accept(&mut second, &Taken::by(std::iter::once(&first)), "t1"));
        let condition = &second["status"]["conditions"][0];
        assert_eq!(
            (&condition["status"], &condition["reason"]),
            (&json!("False"), &json!("ListKindConflict"))
        );
        assert_eq!(condition["message"], "\"AList\" is already in use");
        assert_eq!(second["status"]["acceptedNames"], json!({"plural": "bs", "kind": ""}));
        assert!(!establish(&mut second, "t2"));
        assert_eq!(second["status"]["conditions"][1]["reason"], "NotAccepted");
    }
}
