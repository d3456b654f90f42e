//! Decides how the number of replicas is read and written through `/scale`, by each kind of write, and who owns it then. Never
//! changes anything else. Answers to the scale storage of `kubernetes/pkg/registry/apps` and of
//! `k8s.io/apiextensions-apiserver/pkg/registry/customresource`.

use serde_json::{Value, json};

use crate::answer::Answer;
use crate::apply::Replicas;
use crate::crds::{self, UNSET};
use crate::kinds::{self, Kind, split_api_version};
use crate::object::{Object, at, map_mut, metadata_mut, text};
use crate::patch::Patch;
use crate::request::Request;
use crate::routes::Target;
use crate::server::Server;
use crate::status::{Cause, Result, Status};
use crate::table;
use crate::validate;
use crate::verbs::apply::{self, APPLY};
use crate::verbs::fields::{self, Fields};
use crate::verbs::options::WriteOptions;
use crate::verbs::{body, settle_namespace, update};

/// What a request wants a scale to be.
enum Wish {
    Replaced { scale: Value, warnings: Vec<String> },
    Patched(Patch),
    Applied { configuration: Value, repeated: Vec<String> },
}

pub(crate) fn scale(server: &Server, request: &Request, target: &Target) -> Result<Answer> {
    let kind = &target.kind;
    let missing = || Status::not_found(&kind.group, &kind.plural, &target.name);
    if request.method == "GET" {
        let current =
            server.lock().get(target.index, &target.key()).map(Object::apart).ok_or_else(missing)?;
        let (shown, set) = shown(kind, &seen(kind, &current.value))?;
        return if set { Ok(Answer::json(200, &shown)) } else { Err(crds::unset_scale(kind)) };
    }
    let scaled = Target { kind: kinds::scale(), subresource: "scale".into(), ..target.clone() };
    let (options, wish) = read(server, request, target, &scaled)?;
    let mut store = server.lock();
    let current = store.get(target.index, &target.key()).map(Object::apart).ok_or_else(missing)?;
    let object = seen(kind, &current.value);
    let (mut before, set) = shown(kind, &object)?;
    if !set {
        before["spec"]["replicas"] = UNSET.into();
    }
    let version = kind.api_version();
    let replicas = Replicas { api_version: &version, path: &|version| path(kind, version) };
    let managers = &object["metadata"]["managedFields"];
    fields::store(&mut before, replicas.to_scale(managers));
    let given_uid = matches!(&wish, Wish::Replaced { .. });
    let (scale, warnings) = wish.carry_out(server, request, target, &scaled, &options, &before)?;
    check(server, target, &scaled, &scale, current.uid(), given_uid)?;
    let owners = replicas
        .to_object(managers, &scale["metadata"]["managedFields"])
        .filter(|_| server.options.managed_fields);
    let next = scaled_to(kind, object, &scale, given_uid);
    let main = Target { subresource: String::new(), ..target.clone() };
    let fields = Fields::Settled(owners);
    let object = update::write(server, &mut store, &main, &current, next, fields, options.dry)?;
    server.announce(&store);
    let (after, _) = shown(kind, &seen(kind, &object.value))?;
    Ok(Answer::json(200, &after).with_warnings(warnings))
}

/// What is wanted, as far as it can be known before the object is.
fn read(
    server: &Server,
    request: &Request,
    target: &Target,
    scaled: &Target,
) -> Result<(WriteOptions, Wish)> {
    if request.method == "PUT" {
        let options = WriteOptions::read(request, "UpdateOptions")?;
        let read = body::object(server, request, &scaled.kind, &options);
        let (mut scale, warnings) = read.map_err(|refusal| {
            // Where scales are none of its kinds, the real server has no words for what is wrong with one.
            let why = "no kind is registered for the type v1.Scale in scheme \"pkg/runtime/scheme.go:111\"";
            let nameless = refusal.code == 400 && target.kind.definition.is_some();
            if nameless { Status::bad_request(why) } else { refusal }
        })?;
        fits(scaled, &mut scale)?;
        return Ok((options, Wish::Replaced { scale, warnings }));
    }
    if request.content_type == APPLY {
        let options = WriteOptions::read(request, "PatchOptions")?;
        let (configuration, repeated) = apply::read(&request.body)?;
        return Ok((options, Wish::Applied { configuration, repeated }));
    }
    let patch = Patch::parse(&request.content_type, &request.body)?;
    Ok((WriteOptions::read(request, "PatchOptions")?, Wish::Patched(patch)))
}

/// Whether a scale is that of the object which the URL names.
fn fits(scaled: &Target, scale: &mut Value) -> Result<()> {
    update::check_name(scaled, scale)?;
    settle_namespace(scaled, scale)
}

impl Wish {
    /// The scale that is wanted, with its managers, and what there is to warn of.
    fn carry_out(
        self,
        server: &Server,
        request: &Request,
        target: &Target,
        scaled: &Target,
        options: &WriteOptions,
        before: &Value,
    ) -> Result<(Value, Vec<String>)> {
        let (mut scale, warnings) = match self {
            Self::Replaced { scale, warnings } => (scale, warnings),
            Self::Patched(patch) => {
                let value = patch.apply(&scaled.kind, before)?;
                update::check_type(scaled, &value)?;
                let (mut scale, warnings) = body::patched(server, request, &scaled.kind, value, options)?;
                fits(scaled, &mut scale)?;
                (scale, warnings)
            }
            Self::Applied { configuration, repeated } => {
                apply::check(&scaled.kind, &configuration)?;
                let (scale, managers) = applied(server, target, scaled, options, before, &configuration)?;
                let mut scale = scale.unwrap_or_else(|| before.clone());
                fields::store(&mut scale, managers);
                let warned = apply::judge_repeated(repeated, options.validation)?;
                fits(scaled, &mut scale)?;
                return Ok((scale, warned));
            }
        };
        let managers = fields::after_update(server, scaled, Some(before), &scale, &options.manager, "scale");
        fields::store(&mut scale, managers);
        Ok((scale, warnings))
    }
}

/// What a configuration makes of a scale: nothing where it stays as it is; and its managers.
fn applied(
    server: &Server,
    target: &Target,
    scaled: &Target,
    options: &WriteOptions,
    before: &Value,
    configuration: &Value,
) -> Result<(Option<Value>, Option<Value>)> {
    // The real server can't make a custom resource's scale of what it merged: any change by applying ends so.
    let custom = target.kind.definition.is_some();
    let why = "to proper version: request to convert CR to an invalid group/version: autoscaling/v1";
    if custom && before["metadata"].get("managedFields").is_none() && server.options.managed_fields {
        let live = "live object (/; autoscaling/v1, Kind=Scale)";
        return Err(Status::untranslated(format!(
            "failed to create manager for existing fields: failed to convert {live} {why}"
        )));
    }
    let force = options.force || !server.options.managed_fields;
    let applied = fields::apply(server, scaled, Some(before), configuration, &options.manager, force)
        .map_err(|conflicts| apply::conflict(&conflicts))?;
    if custom && applied.object.is_some() {
        let metadata = |field| text(configuration, &["metadata", field]);
        let new = format!("{}/{}; autoscaling/v1, Kind=Scale", metadata("namespace"), metadata("name"));
        return Err(Status::untranslated(format!("failed to convert new object ({new}) {why}")));
    }
    Ok((applied.object, applied.managers))
}

/// Refuses a scale that can't be.
fn check(
    server: &Server,
    target: &Target,
    scaled: &Target,
    scale: &Value,
    uid: &str,
    given_uid: bool,
) -> Result<()> {
    let kind = &target.kind;
    let replicas = at(scale, &["spec", "replicas"]).and_then(Value::as_i64).unwrap_or(0);
    if kind.definition.is_some() {
        return if replicas == UNSET { Err(crds::empty_scale(kind)) } else { Ok(()) };
    }
    if !server.is_raw() {
        let mut causes = validate::create(&scaled.kind, scale);
        if replicas < 0 {
            let why = "must be greater than or equal to 0";
            causes.push(Cause::invalid("spec.replicas", replicas, why));
        }
        if !causes.is_empty() {
            return Err(Status::invalid_object(&scaled.kind, &target.name, &causes));
        }
    }
    let wanted = text(scale, &["metadata", "uid"]);
    if wanted.is_empty() || wanted == uid || given_uid {
        return Ok(());
    }
    let why = format!("Precondition failed: UID in precondition: {wanted}, UID in object meta: {uid}");
    Err(Status::conflict(&kind.group, &format!("{}/scale", kind.plural), &target.name, &why))
}

/// The object with the number of its scale, and with what the writer insists on.
fn scaled_to(kind: &Kind, mut object: Value, scale: &Value, given_uid: bool) -> Value {
    let replicas = at(scale, &["spec", "replicas"]).cloned().unwrap_or_else(|| 0.into());
    let version = text(scale, &["metadata", "resourceVersion"]);
    if kind.definition.is_some() {
        crds::set_replicas(kind, &mut object, replicas);
    } else {
        map_mut(&mut object, "spec").insert("replicas".into(), replicas);
    }
    // A custom resource goes on from its last version where nothing is said of versions.
    if kind.definition.is_none() || !version.is_empty() {
        metadata_mut(&mut object).insert("resourceVersion".into(), version.into());
    }
    let uid = text(scale, &["metadata", "uid"]);
    if given_uid && !uid.is_empty() {
        metadata_mut(&mut object).insert("uid".into(), uid.into());
    }
    object
}

/// The object in the version of the request.
fn seen(kind: &Kind, stored: &Value) -> Value {
    kind.view(stored).unwrap_or_else(|| stored.clone())
}

/// Where a version of a kind keeps the number.
fn path(kind: &Kind, api_version: &str) -> Option<Vec<String>> {
    if let Some(version) = &kind.definition {
        return version.path_of_replicas(api_version);
    }
    let known = match split_api_version(api_version) {
        ("", "v1") => kind.group.is_empty(),
        ("apps", "v1" | "v1beta1" | "v1beta2") => kind.group == "apps",
        _ => false,
    };
    known.then(|| vec!["spec".to_owned(), "replicas".to_owned()])
}

/// The scale of an object, and whether its number was ever set.
fn shown(kind: &Kind, object: &Value) -> Result<(Value, bool)> {
    let (replicas, status) = if kind.definition.is_some() {
        crds::scale_of(kind, object).map_err(Status::untranslated)?
    } else {
        let number = |path: &[&str]| at(object, path).and_then(Value::as_i64);
        let mut status = json!({"replicas": number(&["status", "replicas"]).unwrap_or(0)});
        let selector = at(object, &["spec", "selector"]);
        let selector = match &*kind.kind {
            "ReplicationController" => table::selector(Some(&json!({"matchLabels": selector}))),
            _ => table::selector(selector),
        };
        if !selector.is_empty() {
            status["selector"] = selector.into();
        }
        (Some(number(&["spec", "replicas"]).unwrap_or(0)), status)
    };
    let mut metadata = json!({});
    for field in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
        if let Some(one) = object["metadata"].get(field) {
            metadata[field] = one.clone();
        }
    }
    let spec = match replicas {
        None | Some(0) => json!({}),
        Some(replicas) => json!({"replicas": replicas}),
    };
    let scale = json!({
        "kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": metadata, "spec": spec, "status": status,
    });
    Ok((scale, replicas.is_some()))
}
