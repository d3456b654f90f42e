//! Decides which named formats rules may hold texts to. Answers to `k8s.io/apiserver/pkg/cel/library/format.go`.

use cel::common::types::{CelOptional, CelString, Type};
use cel::common::value::Val;
use cel::{DeclarationError, Env};

use super::{Kind, Opaque, some, texts};
use crate::crds::formats::holds;
use crate::validate::names;

static FORMAT: Type = Type::new_unspecified_type("kubernetes.NamedFormat");

/// What is wrong with a text.
type Check = fn(&str) -> Vec<String>;

/// A format: its name, and the check.
#[derive(Clone, Copy, Debug)]
pub(super) struct Format(&'static str, Check);

impl PartialEq for Format {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl Kind for Format {
    fn kind() -> &'static Type {
        &FORMAT
    }
}

const FORMATS: &[Format] = &[
    Format("dns1123Label", names::label),
    Format("dns1123Subdomain", names::subdomain),
    Format("dns1035Label", names::label_1035),
    Format("qualifiedName", |text| names::qualified_name(text).into_iter().collect()),
    Format("dns1123LabelPrefix", |text| names::label(&prefix(text))),
    Format("dns1123SubdomainPrefix", |text| names::subdomain(&prefix(text))),
    Format("dns1035LabelPrefix", |text| names::label_1035(&prefix(text))),
    Format("labelValue", |text| names::label_value(text).into_iter().collect()),
    Format("uri", |text| super::urls::mistake(text).into_iter().collect()),
    Format("uuid", |text| otherwise("uuid", text, "does not match the UUID format")),
    Format("byte", |text| otherwise("byte", text, "invalid base64")),
    Format("date", |text| otherwise("date", text, "invalid date")),
    Format("datetime", |text| otherwise("date-time", text, "invalid datetime")),
];

/// A prefix may end in a dash, which a name may not: something follows it.
fn prefix(text: &str) -> String {
    match text.strip_suffix('-') {
        Some(rest) if !rest.is_empty() => format!("{rest}a"),
        _ => text.to_owned(),
    }
}

fn otherwise(format: &str, text: &str, why: &str) -> Vec<String> {
    if holds(format, text) { Vec::new() } else { vec![why.to_owned()] }
}

pub(super) fn declare(env: &mut Env) -> std::result::Result<(), DeclarationError> {
    env.add_type(FORMAT.to_owned())?;
    cel::add_overload!(env, fn named: (CelString) -> CelOptional, name = "format.named")?;
    cel::add_member_overload!(env, fn validate: (Opaque<Format>, CelString) -> CelOptional)?;
    macro_rules! constant {
        ($($place:literal: $name:literal),*) => {$(
            env.add_overload($name, $name, vec![], |_| Ok(cel::common::value::CowVal::owned(Opaque(FORMATS[$place]))))?;
        )*};
    }
    constant!(
        0: "format.dns1123Label", 1: "format.dns1123Subdomain", 2: "format.dns1035Label", 3: "format.qualifiedName",
        4: "format.dns1123LabelPrefix", 5: "format.dns1123SubdomainPrefix", 6: "format.dns1035LabelPrefix",
        7: "format.labelValue", 8: "format.uri", 9: "format.uuid", 10: "format.byte", 11: "format.date",
        12: "format.datetime"
    );
    Ok(())
}

fn named(name: &CelString<'_>) -> CelOptional<'static> {
    let found = FORMATS.iter().find(|format| format.0 == name.inner());
    some(found.map(|format| Box::new(Opaque(*format)) as Box<dyn Val>))
}

fn validate(format: &Opaque<Format>, text: &CelString<'_>) -> CelOptional<'static> {
    let mistakes = (format.0.1)(text.inner());
    some((!mistakes.is_empty()).then(|| Box::new(texts(mistakes)) as Box<dyn Val>))
}
