//! Decides what there is to warn of in a pod or in the template of one: what is deprecated, what hides something else, what
//! can't mean what it seems to mean. Never refuses. Answers to `kubernetes/pkg/api/pod/warnings.go`.

use std::collections::HashSet;

use serde_json::Value;

use crate::object::at;
use crate::validate::field::Field;
use crate::validate::names;

/// Labels of nodes that have new names, or are gone.
const NODE_LABELS: &[(&str, &str)] = &[
    ("beta.kubernetes.io/arch", "deprecated since v1.14; use \"kubernetes.io/arch\" instead"),
    ("beta.kubernetes.io/os", "deprecated since v1.14; use \"kubernetes.io/os\" instead"),
    (
        "failure-domain.beta.kubernetes.io/region",
        "deprecated since v1.17; use \"topology.kubernetes.io/region\" instead",
    ),
    (
        "failure-domain.beta.kubernetes.io/zone",
        "deprecated since v1.17; use \"topology.kubernetes.io/zone\" instead",
    ),
    (
        "beta.kubernetes.io/instance-type",
        "deprecated since v1.17; use \"node.kubernetes.io/instance-type\" instead",
    ),
    ("app.kubernetes.io/created-by", "deprecated since v1.9"),
    (
        "scheduler.alpha.kubernetes.io/preferAvoidPods",
        "deprecated since v1.22; use Taints and Tolerations instead",
    ),
    ("node-role.kubernetes.io/master", "use \"node-role.kubernetes.io/control-plane\" instead"),
];

const ANNOTATIONS: &[(&str, &str)] = &[
    (
        "scheduler.alpha.kubernetes.io/critical-pod",
        "non-functional in v1.16+; use the \"priorityClassName\" field instead",
    ),
    ("security.alpha.kubernetes.io/sysctls", "non-functional in v1.11+; use the \"sysctls\" field instead"),
    (
        "security.alpha.kubernetes.io/unsafe-sysctls",
        "non-functional in v1.11+; use the \"sysctls\" field instead",
    ),
];

/// Volumes whose plugins are gone, as they are stored and as they are named here.
const GONE: &[(&str, &str, &str)] = &[
    ("photonPersistentDisk", "photonPersistentDisk", "deprecated in v1.11, non-functional in v1.16+"),
    ("gitRepo", "gitRepo", "deprecated in v1.11, and disabled by default in v1.33+"),
    ("scaleIO", "scaleIO", "deprecated in v1.16, non-functional in v1.22+"),
    ("flocker", "flocker", "deprecated in v1.22, non-functional in v1.25+"),
    ("storageos", "storageOS", "deprecated in v1.22, non-functional in v1.25+"),
    ("quobyte", "quobyte", "deprecated in v1.22, non-functional in v1.25+"),
    ("glusterfs", "glusterfs", "deprecated in v1.25, non-functional in v1.26+"),
    ("cephfs", "cephfs", "deprecated in v1.28, non-functional in v1.31+"),
    ("rbd", "rbd", "deprecated in v1.28, non-functional in v1.31+"),
];

const NO_SELECTOR: &str = "a null labelSelector results in matching no pod";

/// What there is to say of a pod, or of a template, which is at `pod.path`.
pub(super) fn of(pod: &Field<'_>) -> Vec<String> {
    let spec = pod.at("spec");
    let mut said = Vec::new();
    placing(&spec, &mut said);
    let annotations = pod.at("metadata.annotations");
    for (key, why) in ANNOTATIONS {
        if annotations.value.get(key).is_some() {
            said.push(format!("{}[{key}]: {why}", annotations.path));
        }
    }
    volumes(&spec, &mut said);
    super::paths::overlaps(&spec, &mut said);
    repeated(&spec.at("hostAliases"), "ip", &mut said);
    repeated(&spec.at("imagePullSecrets"), "name", &mut said);
    for secret in spec.at("imagePullSecrets").items() {
        let name = secret.at("name");
        if name.is_empty() {
            said.push(format!("{}: invalid empty name \"\"", name.path));
        }
    }
    for amount in ["memory", "ephemeral-storage"] {
        fractional(&spec.at("overhead"), amount, &mut said);
    }
    let containers = containers(&spec);
    for container in &containers {
        for amount in ["memory", "ephemeral-storage"] {
            for part in ["resources.limits", "resources.requests"] {
                fractional(&container.at(part), amount, &mut said);
            }
        }
        hidden_variables(&container.at("env"), &mut said);
    }
    super::ports::clashes(&containers, &mut said);
    let grace = spec.at("terminationGracePeriodSeconds");
    if grace.number().is_some_and(|seconds| seconds < 0) {
        said.push(format!(
            "{}: must be >= 0; negative values are invalid and will be treated as 1",
            grace.path
        ));
    }
    for side in ["podAffinity", "podAntiAffinity"] {
        affinity(&spec.at("affinity").at(side), &mut said);
    }
    said
}

/// What is said of the name of something whose pods are called after it.
pub(super) fn name(name: &str, whose: &str) -> Option<String> {
    let mut wrong: Vec<String> = Vec::new();
    if name.len() > 63 {
        wrong.push("must be no more than 63 characters".to_owned());
    }
    if let Some(why) = names::label(name).into_iter().find(|why| !why.starts_with("must be no more")) {
        let dots = names::subdomain(name).iter().all(|why| why.starts_with("must be no more"));
        wrong.push(if dots { "must not contain dots".to_owned() } else { why });
    }
    (!wrong.is_empty()).then(|| {
        let wrong = wrong.join(" ");
        format!(
            "metadata.name: this is used in {whose}, which can result in surprising behavior; a DNS label is recommended: [{wrong}]"
        )
    })
}

fn deprecated(label: &str) -> Option<&'static str> {
    NODE_LABELS.iter().find(|(old, _)| *old == label).map(|(_, why)| *why)
}

/// The nodes that a class of runtimes selects.
pub(super) fn runtime(class: &Field<'_>, said: &mut Vec<String>) {
    let selector = class.at("scheduling.nodeSelector");
    let old = selector.entries().into_iter().filter_map(|(label, _)| deprecated(label));
    said.extend(old.map(|why| format!("{}: {why}", selector.path)));
}

/// The terms of a selector of nodes.
pub(super) fn term(term: &Field<'_>, judges_values: bool, said: &mut Vec<String>) {
    for expression in term.at("matchExpressions").items() {
        let key = expression.at("key");
        if let Some(why) = deprecated(key.text()) {
            said.push(format!("{}: {} is {why}", key.path, key.text()));
        }
        for value in expression.at("values").items().iter().filter(|_| judges_values) {
            if let Some(why) = names::label_value(value.text()) {
                said.push(format!("{}: {} is invalid, {why}", value.path, value.text()));
            }
        }
    }
}

/// The topology keys that a storage class allows.
pub(super) fn topologies(class: &Field<'_>, said: &mut Vec<String>) {
    for topology in class.at("allowedTopologies").items() {
        for expression in topology.at("matchLabelExpressions").items() {
            let key = expression.at("key");
            said.extend(deprecated(key.text()).map(|why| format!("{}: {why}", key.path)));
        }
    }
}

fn placing(spec: &Field<'_>, said: &mut Vec<String>) {
    for (key, place) in spec.at("nodeSelector").entries() {
        said.extend(deprecated(key).map(|why| format!("{}: {why}", place.path)));
    }
    let nodes = spec.at("affinity.nodeAffinity");
    for one in nodes.at("requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms").items() {
        term(&one, false, said);
    }
    for one in nodes.at("preferredDuringSchedulingIgnoredDuringExecution").items() {
        term(&one.at("preference"), true, said);
    }
    for constraint in spec.at("topologySpreadConstraints").items() {
        let key = constraint.at("topologyKey");
        if let Some(why) = deprecated(key.text()) {
            said.push(format!("{}: {} is {why}", key.path, key.text()));
        }
        let selector = constraint.at("labelSelector");
        if !selector.is_set() {
            said.push(format!("{}: {NO_SELECTOR}", selector.path));
        }
    }
}

fn affinity(affinity: &Field<'_>, said: &mut Vec<String>) {
    let required = affinity.at("requiredDuringSchedulingIgnoredDuringExecution").items();
    let preferred = affinity.at("preferredDuringSchedulingIgnoredDuringExecution").items();
    let terms = required.into_iter().chain(preferred.iter().map(|term| term.at("podAffinityTerm")));
    for selector in terms.map(|term| term.at("labelSelector")).filter(|selector| !selector.is_set()) {
        said.push(format!("{}: {NO_SELECTOR}", selector.path));
    }
}

fn volumes(spec: &Field<'_>, said: &mut Vec<String>) {
    for volume in spec.at("volumes").items() {
        for (source, shown, why) in GONE {
            if volume.at(source).is_set() {
                said.push(format!("{}.{shown}: {why}", volume.path));
            }
        }
        claim(&volume.at("ephemeral.volumeClaimTemplate.spec"), said);
    }
}

/// The amounts of a claim, which are bytes.
pub(super) fn claim(spec: &Field<'_>, said: &mut Vec<String>) {
    for part in ["requests", "limits"] {
        fractional(&spec.at("resources").at(part), "storage", said);
    }
}

/// An amount that is no whole number of bytes; stored amounts are in their shortest form.
fn fractional(amounts: &Field<'_>, name: &str, said: &mut Vec<String>) {
    let amount = amounts.value.get(name).and_then(Value::as_str).unwrap_or_default();
    if amount.ends_with('m') || amount.ends_with("e-3") {
        let field = format!("{}[{name}]", amounts.path);
        said.push(format!("{field}: fractional byte value \"{amount}\" is invalid, must be an integer"));
    }
}

fn repeated(items: &Field<'_>, part: &str, said: &mut Vec<String>) {
    let mut seen = Vec::new();
    for one in items.items().iter().map(|item| item.at(part)) {
        if seen.contains(&one.text()) {
            said.push(format!("{}: duplicate {part} \"{}\"", one.path, one.text()));
        } else {
            seen.push(one.text());
        }
    }
}

/// All containers, in the order in which they are looked at.
fn containers<'a>(spec: &Field<'a>) -> Vec<Field<'a>> {
    let lists = ["initContainers", "containers", "ephemeralContainers"];
    lists.into_iter().flat_map(|list| spec.at(list).items()).collect()
}

/// Variables that are set twice, unless the second builds on the first.
fn hidden_variables(variables: &Field<'_>, said: &mut Vec<String>) {
    let mut seen: HashSet<&str> = HashSet::new();
    for variable in variables.items() {
        let name = variable.at("name").text();
        if seen.insert(name) {
            continue;
        }
        let (value, reference) = (variable.at("value").text(), format!("$({name})"));
        let from = at(variable.value, &["valueFrom"]).is_some();
        if from || value == reference || !value.contains(&reference) {
            said.push(format!(
                "{}: hides previous definition of \"{name}\", which may be dropped when using apply",
                variable.path
            ));
        }
    }
}
