//! Decides in which shape and form an answer goes out: as it is, as a table, as metadata alone; as JSON,
//! indented or not, or as YAML. Never decides what to answer, and costs nothing where plain JSON is wanted.
//! Answers to `k8s.io/apiserver/pkg/endpoints/handlers/response.go` and `.../responsewriters`.

mod indent;

use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Map, Value, json};

use crate::answer::{Answer, Content, PROTOBUF_STREAM};
use crate::kinds::Kind;
use crate::negotiate::{self, Choice, Convert, Form};
use crate::options::Now;
use crate::protobuf;
use crate::request::Request;
use crate::routes::Target;
use crate::status::{Result, Status};
use crate::table;
use crate::verbs::strategy;

/// What an answer is turned into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    Table,
    Metadata,
    MetadataList,
}

/// What each row of a table shows of its object beside the cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Include {
    Nothing,
    Metadata,
    Object,
}

/// How the objects of one request are shown.
pub(crate) struct Presentation {
    shape: Option<Shape>,
    form: Form,
    api_version: &'static str,
    include: Include,
    kind: Arc<Kind>,
    now: Now,
    /// Whether columns were shown already: a watch shows them once.
    begun: bool,
}

/// Answers a request to a resource in the shape and form that the client wants.
pub(crate) fn resource(
    now: &Now,
    request: &Request,
    target: &Target,
    handle: impl FnOnce() -> Answer,
) -> Answer {
    let pretty = request.query.get("pretty");
    if pretty.is_empty() && negotiate::is_plain(&request.accept) {
        return handle();
    }
    if !target.kind.custom && !negotiate::names_a_form(&request.accept) {
        // The route of a list is that of its watches too, and offers what those can be written in.
        let lists = request.method == "GET" && target.name.is_empty();
        return not_acceptable_route(lists).into();
    }
    let watches = request.query.flag("watch") && request.method == "GET" && target.name.is_empty();
    let choice = negotiate::choose(&request.accept, |form, convert| shows(&target.kind, form, convert));
    let Some(choice) = choice.filter(|choice| !watches || choice.form.streams()) else {
        return refusal(request, &not_acceptable(&target.kind, watches));
    };
    let answer = handle();
    if answer.code >= 400 {
        return in_form(answer, &error_form(request));
    }
    let streams = matches!(answer.content, Content::Watch(_)) && choice.form == Form::Protobuf;
    let shaped = if choice.convert.is_some() || streams {
        let presentation = Presentation::of(request, target, &choice, now.clone());
        presentation.and_then(|presentation| answer.shown(presentation))
    } else {
        Ok(answer)
    };
    match shaped {
        Ok(answer) => in_form(answer, &Choice { pretty: is_pretty(request, &choice), ..choice }),
        Err(status) => refusal(request, &status),
    }
}

/// Answers something that is no resource, such as discovery, in the form that the client wants.
pub(crate) fn other(request: &Request, handle: impl FnOnce() -> Answer) -> Answer {
    unshaped(request, |form| form != Form::Protobuf, handle)
}

/// Answers a review, which has all forms of a resource, though nobody keeps it, and no other shape.
pub(crate) fn review(request: &Request, handle: impl FnOnce() -> Answer) -> Answer {
    unshaped(request, |_| true, handle)
}

fn unshaped(request: &Request, has: impl Fn(Form) -> bool, handle: impl FnOnce() -> Answer) -> Answer {
    if request.query.get("pretty").is_empty() && negotiate::is_plain(&request.accept) {
        return handle();
    }
    let answer = handle();
    let Some(choice) = negotiate::choose(&request.accept, |form, convert| has(form) && convert.is_none())
    else {
        // What is no JSON, such as the health checks, is served to everybody.
        let fails = answer.code < 400 && answer.content_type == Form::Json.media_type();
        return match (fails, negotiate::names_a_form(&request.accept)) {
            (false, _) => answer,
            (true, true) => {
                let types = media_types(None, false);
                not_accepted(format!("only the following media types are accepted: {types}")).into()
            }
            (true, false) => not_acceptable_route(false).into(),
        };
    };
    in_form(answer, &Choice { pretty: is_pretty(request, &choice), ..choice })
}

/// A refusal in the form that the client wants, or JSON where it wants none that a refusal has.
pub(crate) fn refusal(request: &Request, status: &Status) -> Answer {
    in_form(Box::new(status.clone()).into(), &error_form(request))
}

fn error_form(request: &Request) -> Choice {
    let choice = negotiate::choose(&request.accept, |_, convert| convert.is_none());
    let choice = choice.unwrap_or(Choice { form: Form::Json, pretty: false, convert: None });
    Choice { pretty: is_pretty(request, &choice), ..choice }
}

fn is_pretty(request: &Request, choice: &Choice) -> bool {
    match request.query.get("pretty") {
        "" => choice.pretty,
        text => matches!(text, "1" | "t" | "T" | "true" | "True" | "TRUE"),
    }
}

fn in_form(mut answer: Answer, choice: &Choice) -> Answer {
    let Content::Ready(body) = &answer.content else { return answer };
    if answer.content_type != Form::Json.media_type() {
        return answer;
    }
    let written = match choice.form {
        Form::Json if choice.pretty => Some(indent::indent(body)),
        Form::Json => None,
        Form::Yaml => serde_json::from_slice::<Value>(body)
            .ok()
            .and_then(|value| serde_saphyr::to_string(&value).ok())
            .map(Bytes::from),
        // What has no numbers goes out as JSON, and says so.
        Form::Protobuf => {
            let value = serde_json::from_slice::<Value>(body).ok();
            value.and_then(|value| protobuf::write(&value)).map(Bytes::from)
        }
    };
    if let Some(written) = written {
        answer.content_type = choice.form.media_type();
        answer.content = Content::Ready(written);
    }
    answer
}

/// Whether a kind can be shown in that form and shape: not every kind has numbers, and tables neither.
fn shows(kind: &Kind, form: Form, convert: Option<&Convert>) -> bool {
    match convert {
        None => form != Form::Protobuf || protobuf::knows(kind),
        Some(convert) => {
            let known = convert.group == "meta.k8s.io" && api_version(convert).is_some();
            let shape = shape(convert).filter(|_| known);
            shape.is_some_and(|shape| form != Form::Protobuf || shape != Shape::Table)
        }
    }
}

fn shape(convert: &Convert) -> Option<Shape> {
    match convert.kind.as_str() {
        "Table" => Some(Shape::Table),
        "PartialObjectMetadata" => Some(Shape::Metadata),
        "PartialObjectMetadataList" => Some(Shape::MetadataList),
        _ => None,
    }
}

fn api_version(convert: &Convert) -> Option<&'static str> {
    match convert.version.as_str() {
        "v1" => Some("meta.k8s.io/v1"),
        "v1beta1" => Some("meta.k8s.io/v1beta1"),
        _ => None,
    }
}

fn media_types(kind: Option<&Kind>, watches: bool) -> String {
    let without = kind.is_some_and(|kind| !protobuf::knows(kind));
    let forms = Form::ALL
        .into_iter()
        .filter(|form| (*form != Form::Protobuf || !without) && (!watches || form.streams()));
    let ending = if watches { ";stream=watch" } else { "" };
    forms.map(|form| format!("{}{ending}", form.media_type())).collect::<Vec<_>>().join(", ")
}

fn not_acceptable(kind: &Kind, watches: bool) -> Box<Status> {
    not_accepted(format!("only the following media types are accepted: {}", media_types(Some(kind), watches)))
}

/// What a route says that has none of the forms, before any handler looks.
fn not_acceptable_route(lists: bool) -> Box<Status> {
    let streams = if lists { format!(", {}", media_types(None, true)) } else { String::new() };
    let types = media_types(None, false);
    let message = format!("406: Not Acceptable\n\nAvailable representations: {types}{streams}");
    let mut refusal = not_accepted(message);
    refusal.details = Some(json!({}));
    refusal
}

fn not_accepted(message: String) -> Box<Status> {
    Box::new(Status::new(406, "NotAcceptable", message))
}

impl Answer {
    fn shown(mut self, mut presentation: Presentation) -> Result<Self> {
        self.content = match self.content {
            Content::Ready(body) => {
                let Ok(value) = serde_json::from_slice::<Value>(&body) else {
                    return Err(Status::untranslated("the answer cannot be shown in another shape"));
                };
                if value["kind"] == "Status" {
                    Content::Ready(body)
                } else {
                    Content::Ready(presentation.show(value)?.to_string().into())
                }
            }
            Content::Watch(mut body) => {
                if presentation.form == Form::Protobuf {
                    self.content_type = PROTOBUF_STREAM;
                }
                body.show_as(presentation);
                Content::Watch(body)
            }
        };
        Ok(self)
    }
}

impl Presentation {
    fn of(request: &Request, target: &Target, choice: &Choice, now: Now) -> Result<Self> {
        let shape = choice.convert.as_ref().and_then(shape);
        let api_version = choice.convert.as_ref().and_then(api_version).unwrap_or_default();
        let include = match request.query.get("includeObject") {
            "" | "Metadata" => Include::Metadata,
            "None" => Include::Nothing,
            "Object" => Include::Object,
            other if shape == Some(Shape::Table) => {
                let other = Value::from(other);
                return Err(Status::bad_request(format!(
                    "Unable to convert to Table as requested: includeObject: Invalid value: {other}: must be 'Metadata', 'Object', 'None', or empty"
                )));
            }
            _ => Include::Metadata,
        };
        Ok(Self {
            shape,
            form: choice.form,
            api_version,
            include,
            kind: target.kind.clone(),
            now,
            begun: false,
        })
    }

    fn show(&mut self, value: Value) -> Result<Value> {
        let is_list =
            value.get("items").is_some() && value["kind"].as_str().is_some_and(|kind| kind.ends_with("List"));
        let Some(shape) = self.shape else { return Ok(value) };
        match (shape, is_list) {
            (Shape::Table, _) => Ok(self.table(value, is_list)),
            (Shape::Metadata, true) => Err(not_accepted(format!(
                "you requested PartialObjectMetadata, but the requested object is a list ({})",
                self.internal_type("List")
            ))),
            (Shape::Metadata, false) => Ok(self.metadata(&value)),
            (Shape::MetadataList, false) => Err(not_accepted(format!(
                "you requested PartialObjectMetadataList, but the requested object is not a list ({})",
                self.internal_type("")
            ))),
            (Shape::MetadataList, true) => {
                let items: Vec<Value> = items(&value).map(|item| self.metadata(item)).collect();
                let metadata = list_metadata(&value);
                Ok(json!({
                    "kind": "PartialObjectMetadataList", "apiVersion": self.api_version, "metadata": metadata,
                    "items": items,
                }))
            }
        }
    }

    /// The name of the type in upstream's code, which its messages show.
    fn internal_type(&self, ending: &str) -> String {
        if self.kind.custom {
            return format!("*unstructured.Unstructured{ending}");
        }
        let group = self.kind.group.split('.').next().unwrap_or_default();
        format!("*{}.{}{ending}", if group.is_empty() { "core" } else { group }, self.kind.kind)
    }

    fn metadata(&self, value: &Value) -> Value {
        let mut metadata = value["metadata"].clone();
        strategy::forget_carried(&self.kind, &mut metadata);
        json!({"kind": "PartialObjectMetadata", "apiVersion": self.api_version, "metadata": metadata})
    }

    fn table(&mut self, mut value: Value, is_list: bool) -> Value {
        let printer = table::printer(&self.kind, &value);
        let metadata = if is_list { list_metadata(&value) } else { version_alone(&value) };
        let objects = if is_list {
            match value["items"].take() {
                Value::Array(items) => items,
                _ => Vec::new(),
            }
        } else {
            vec![value]
        };
        let now = (self.now)();
        let rows: Vec<Value> = objects.into_iter().map(|object| self.row(&printer, object, now)).collect();
        let rows = if rows.is_empty() && printer.is_default() { Value::Null } else { rows.into() };
        let columns = if self.begun { Value::Null } else { printer.definitions() };
        json!({
            "kind": "Table", "apiVersion": self.api_version, "metadata": metadata,
            "columnDefinitions": columns, "rows": rows,
        })
    }

    fn row(&self, printer: &table::Printer<'_>, mut object: Value, now: jiff::Timestamp) -> Value {
        let (cells, conditions) = printer.row(&object, now);
        let ends_initial = object["metadata"]["annotations"]["k8s.io/initial-events-end"] == "true";
        let shown = match self.include {
            Include::Object => {
                if let Some(fields) = object.as_object_mut() {
                    fields.entry("kind").or_insert_with(|| Value::from(&*self.kind.kind));
                    fields.entry("apiVersion").or_insert_with(|| self.kind.api_version().into());
                }
                object
            }
            Include::Nothing if !ends_initial => Value::Null,
            Include::Nothing | Include::Metadata => self.metadata(&object),
        };
        let mut row = json!({"cells": cells, "object": shown});
        if let Some(conditions) = conditions {
            row["conditions"] = conditions;
        }
        row
    }

    /// One line of a watch; false when the object has no such shape, which ends the watch.
    pub(crate) fn line(&mut self, line: &[u8], out: &mut Vec<u8>) -> bool {
        let Ok(mut event) = serde_json::from_slice::<Value>(line) else { return true };
        let object = event["object"].take();
        let shown = if object["kind"] == "Status" { Ok(object) } else { self.show(object) };
        let Ok(shown) = shown else { return false };
        self.begun = true;
        let kind = event["type"].as_str().unwrap_or_default();
        if self.form == Form::Protobuf {
            if protobuf::write_event(kind, &shown, out).is_none() {
                tracing::warn!(kind = %self.kind.kind, "an event has no form in protocol buffers");
            }
            return true;
        }
        out.extend_from_slice(json!({"type": kind, "object": shown}).to_string().as_bytes());
        out.push(b'\n');
        true
    }
}

fn items(list: &Value) -> impl Iterator<Item = &Value> {
    list["items"].as_array().into_iter().flatten()
}

/// What the table of one object says of itself; one that was never stored has no version.
fn version_alone(object: &Value) -> Value {
    let version = object["metadata"].get("resourceVersion").filter(|version| !version.is_null());
    version.map_or_else(|| json!({}), |version| json!({"resourceVersion": version}))
}

/// What a list says of itself, without what is empty.
fn list_metadata(list: &Value) -> Value {
    let mut metadata = Map::new();
    for field in ["resourceVersion", "continue", "remainingItemCount"] {
        if let Some(value) = list["metadata"].get(field).filter(|value| !value.is_null() && *value != "") {
            metadata.insert(field.into(), value.clone());
        }
    }
    metadata.into()
}
