//! Classes: which one a claim names, which one is the default, who binds.

use pvbind::cluster::{Cluster, Object};
use pvbind::decide::matching;
use pvbind::objects::{Claim, Class, annotations, claim, class as classes, name};
use serde_json::{Value, json};

use super::Row;

pub fn is_named(row: &Row) -> String {
    let claim: Claim = row.given("claim");
    let result = claim::has_class(&claim);
    row.check(json!({"result": result}), json!({"result": result}));
    let annotation =
        claim.metadata.annotations.iter().flatten().find(|(key, _)| **key == annotations::BETA_CLASS);
    let field = claim.spec.as_ref().and_then(|spec| spec.storage_class_name.as_ref());
    format!("annotation {:?}, field {field:?} -> {result}", annotation.map(|(_, value)| value))
}

pub fn delays_binding(row: &Row) -> String {
    let claim: Claim = row.given("claim");
    let cluster = knowing(row);
    let answer = matching::delays_binding(&cluster, &claim);
    let delay = *answer.as_ref().unwrap_or(&false);
    let error = answer.err().map(|reason| reason.to_string());
    row.check(json!({"delay": delay, "error": error.is_some()}), json!({"delay": delay, "error": error}));
    format!("class {:?} -> {}", claim::class(&claim), error.unwrap_or_else(|| delay.to_string()))
}

pub fn default(row: &Row) -> String {
    let cluster = knowing(row);
    let default = cluster.default_class().map(|class| name(&class.metadata));
    // Upstream can fail to list its cache; here there is nothing that could fail.
    row.check(json!({"class": default, "error": false}), json!({"class": default, "error": Value::Null}));
    let marked = |class: &Class| {
        let made = class.metadata.creation_timestamp.as_ref().map(|time| time.0.to_string());
        let mark = if classes::is_default(class) { "default" } else { "not marked" };
        format!("{} ({mark}, made {})", name(&class.metadata), made.as_deref().unwrap_or("at no time"))
    };
    let all: Vec<String> = cluster.classes().map(|class| marked(class)).collect();
    format!("{} -> {}", all.join(", "), default.unwrap_or("none"))
}

fn knowing(row: &Row) -> Cluster {
    let mut cluster = Cluster::new();
    for class in row.given::<Vec<Class>>("storageClasses") {
        cluster.show(Object::from(class));
    }
    cluster
}
