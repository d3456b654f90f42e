//! Decides a pod's priority by its class, and that there is one default class. Answers to
//! `kubernetes/plugin/pkg/admission/priority`.

use serde_json::{Value, json};

use crate::object::{Object, map_mut, text};
use crate::routes::Target;
use crate::server::Server;
use crate::status::{Result, Status};
use crate::store::Store;

/// The classes that every cluster has.
const SYSTEM: &[(&str, i64, &str)] = &[
    (
        "system-cluster-critical",
        2_000_000_000,
        "Used for system critical pods that must run in the cluster, but can be moved to another node if necessary.",
    ),
    (
        "system-node-critical",
        2_000_001_000,
        "Used for system critical pods that must not be moved from their current node.",
    ),
];

/// Makes the classes that every cluster has.
pub(crate) fn bootstrap(server: &Server, store: &mut Store) {
    let Some(index) = store.kinds.named("PriorityClass") else { return };
    for (name, value, description) in SYSTEM.iter().rev() {
        if store.get(index, name).is_some() {
            continue;
        }
        let class = json!({
            "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
            "metadata": {
                "name": name, "uid": server.uid(), "generation": 1, "creationTimestamp": server.timestamp(),
            },
            "value": value, "description": description, "preemptionPolicy": "PreemptLowerPriority",
        });
        store.put(index, (*name).into(), class);
    }
}

fn default_class(store: &Store) -> Option<std::sync::Arc<Object>> {
    let index = store.kinds.named("PriorityClass")?;
    let classes = store.list(index);
    let marked = classes.values().filter(|class| class.value["globalDefault"] == true);
    marked.min_by_key(|class| class.value["value"].as_i64()).cloned()
}

/// Gives a new pod its priority.
pub(super) fn establish(store: &Store, target: &Target, pod: &mut Value) -> Result<()> {
    let named = text(pod, &["spec", "priorityClassName"]).to_owned();
    let refused = |why: String| Err(Status::forbidden("", "pods", text(pod, &["metadata", "name"]), &why));
    let class = if named.is_empty() {
        default_class(store)
    } else {
        let index = store.kinds.named("PriorityClass");
        let class = index.and_then(|index| store.get(index, &named)).cloned();
        if class.is_none() {
            return refused(format!("no PriorityClass with name {named} was found"));
        }
        class
    };
    let number = class.as_ref().and_then(|class| class.value["value"].as_i64()).unwrap_or(0);
    let policy = match &class {
        Some(class) => text(&class.value, &["preemptionPolicy"]),
        None => "PreemptLowerPriority",
    };
    if let Some(given) = pod["spec"]["priority"].as_i64().filter(|given| *given != number) {
        return refused(format!(
            "the integer value of priority ({given}) must not be provided in pod spec; priority admission controller computed {number} from the given PriorityClass name"
        ));
    }
    let given = text(pod, &["spec", "preemptionPolicy"]);
    if !given.is_empty() && given != policy {
        return refused(format!(
            "the string value of PreemptionPolicy ({given}) must not be provided in pod spec; priority admission controller computed {policy} from the given PriorityClass name"
        ));
    }
    let policy = policy.to_owned();
    let name = class.map(|class| class.name().to_owned());
    tracing::trace!(pod = %target.name, number, "a pod has its priority");
    let spec = map_mut(pod, "spec");
    spec.insert("priority".into(), number.into());
    spec.insert("preemptionPolicy".into(), policy.into());
    if let Some(name) = name {
        spec.insert("priorityClassName".into(), name.into());
    }
    Ok(())
}

/// Refuses a second default class.
pub(super) fn one_default(store: &Store, target: &Target, class: &Value, creates: bool) -> Result<()> {
    let name = text(class, &["metadata", "name"]);
    if class["globalDefault"] != true {
        return Ok(());
    }
    let Some(other) = default_class(store).filter(|other| creates || other.name() != name) else {
        return Ok(());
    };
    let why =
        format!("PriorityClass {} is already marked as default. Only one default can exist", other.name());
    Err(Status::forbidden(&target.kind.group, &target.kind.plural, name, &why))
}
