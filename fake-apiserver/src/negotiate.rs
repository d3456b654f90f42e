//! Decides which of the forms that the server can write a client gets, from its `Accept` header: clauses by
//! their weight, each with the parameters that ask for another shape. Never writes anything. Answers to
//! `k8s.io/apiserver/pkg/endpoints/handlers/negotiation` and to the clauses of `goautoneg` that it reads.

use std::cmp::Ordering;

/// How an answer is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Json,
    Yaml,
    Protobuf,
}

impl Form {
    /// All of them, the one for clients without a wish first.
    pub(crate) const ALL: [Self; 3] = [Self::Json, Self::Yaml, Self::Protobuf];

    pub(crate) fn media_type(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::Yaml => "application/yaml",
            Self::Protobuf => "application/vnd.kubernetes.protobuf",
        }
    }

    fn subtype(self) -> &'static str {
        match self {
            Self::Json => "json",
            Self::Yaml => "yaml",
            Self::Protobuf => "vnd.kubernetes.protobuf",
        }
    }

    /// Whether events can be written one after the other in this form.
    pub(crate) fn streams(self) -> bool {
        self != Self::Yaml
    }
}

/// The kind into which an answer is to be turned.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Convert {
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) kind: String,
}

/// What was agreed on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Choice {
    pub(crate) form: Form,
    pub(crate) pretty: bool,
    pub(crate) convert: Option<Convert>,
}

/// Whether the header asks for nothing but what everybody gets.
pub(crate) fn is_plain(accept: &str) -> bool {
    matches!(accept, "" | "*/*" | "application/json" | "application/json, */*")
}

/// The best of what the client takes; `allows` says which conversions the endpoint knows.
pub(crate) fn choose(accept: &str, allows: impl Fn(Form, Option<&Convert>) -> bool) -> Option<Choice> {
    if accept.is_empty() {
        return Some(Choice { form: Form::Json, pretty: false, convert: None });
    }
    clauses(accept).iter().find_map(|clause| {
        let forms = Form::ALL.into_iter().filter(|form| clause.takes(*form));
        forms
            .filter_map(|form| clause.options(form))
            .find(|choice| allows(choice.form, choice.convert.as_ref()))
    })
}

/// Whether any clause names one of the forms, or takes everything: what a route asks before anything else.
pub(crate) fn names_a_form(accept: &str) -> bool {
    accept.is_empty()
        || accept.split(',').any(|clause| {
            let named = clause.split(';').next().unwrap_or_default().trim();
            named == "*/*" || Form::ALL.iter().any(|form| form.media_type() == named)
        })
}

/// One of the alternatives in the header.
struct Clause<'a> {
    main: &'a str,
    sub: &'a str,
    weight: f32,
    parameters: Vec<(&'a str, &'a str)>,
}

impl<'a> Clause<'a> {
    /// Nothing where it is malformed: such a clause is passed over.
    fn parse(text: &'a str) -> Option<Self> {
        let mut parts = text.split(';');
        let (main, sub) = match parts.next().unwrap_or_default().split_once('/') {
            Some((main, sub)) => (main.trim_matches(' '), sub.trim_matches(' ')),
            None => (text.split(';').next().unwrap_or_default().trim_matches(' '), ""),
        };
        let sub = match (main, sub) {
            ("*", "") => "*",
            (_, "") => return None,
            (_, sub) if sub.contains('/') => return None,
            (_, sub) => sub,
        };
        let mut clause = Self { main, sub, weight: 1.0, parameters: Vec::new() };
        for (name, value) in parts.filter_map(|part| part.split_once('=')) {
            if value.is_empty() || value.contains('=') {
                continue;
            }
            match name.trim_matches(' ') {
                "q" => clause.weight = value.parse().unwrap_or(0.0),
                name => clause.parameters.push((name, value.trim_matches(' '))),
            }
        }
        Some(clause)
    }

    fn takes(&self, form: Form) -> bool {
        match (self.main, self.sub) {
            ("*" | "application", "*") => true,
            ("application", sub) => sub == form.subtype(),
            _ => false,
        }
    }

    /// Reads the parameters; nothing when one of them asks for what no endpoint does.
    fn options(&self, form: Form) -> Option<Choice> {
        let mut choice = Choice { form, pretty: false, convert: None };
        for (name, value) in &self.parameters {
            match *name {
                "as" => choice.convert.get_or_insert_default().kind = String::from(*value),
                "g" => choice.convert.get_or_insert_default().group = String::from(*value),
                "v" => choice.convert.get_or_insert_default().version = String::from(*value),
                "stream" if !form.streams() || *value != "watch" => return None,
                "sv" => return None,
                "pretty" => choice.pretty = *value == "1",
                _ => {}
            }
        }
        Some(choice)
    }

    /// Upstream's order, which is no order: it compares weights only one way. With an insertion sort it is at
    /// least always the same.
    fn before(&self, other: &Self) -> bool {
        self.weight.partial_cmp(&other.weight) == Some(Ordering::Greater)
            || self.main != "*" && other.main == "*"
            || self.sub != "*" && other.sub == "*"
    }
}

/// The clauses, best first.
fn clauses(accept: &str) -> Vec<Clause<'_>> {
    let mut clauses: Vec<Clause<'_>> = Vec::new();
    // More than anybody sends: a header that is all commas must not cost time that grows with its square.
    for clause in accept.split(',').take(100).filter_map(|text| Clause::parse(text.trim_matches(' '))) {
        let better = clauses.iter().rev().take_while(|other| clause.before(other)).count();
        clauses.insert(clauses.len() - better, clause);
    }
    clauses
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(accept: &str, expected: Option<(Form, &str)>) {
        let table = |form: Form, convert: Option<&Convert>| {
            convert.is_none_or(|convert| {
                form != Form::Protobuf && convert.kind == "Table" && convert.version == "v1"
            })
        };
        let found = choose(accept, table);
        let found = found
            .as_ref()
            .map(|choice| (choice.form, choice.convert.as_ref().map_or("", |convert| convert.kind.as_str())));
        assert_eq!(found, expected, "{accept}");
    }

    #[test]
    fn the_first_clause_that_can_be_served_wins() {
        check("", Some((Form::Json, "")));
        check("*/*", Some((Form::Json, "")));
        check("*", Some((Form::Json, "")));
        check("application/*", Some((Form::Json, "")));
        check("application/yaml", Some((Form::Yaml, "")));
        check("application/yaml,application/json", Some((Form::Yaml, "")));
        check("application/json;as=Table;v=v1;g=meta.k8s.io", Some((Form::Json, "Table")));
        check("application/json;as=Table;v=v9;g=meta.k8s.io", None);
        check("application/json;as=Table;v=v9;g=meta.k8s.io, application/json", Some((Form::Json, "")));
        check("application/vnd.kubernetes.protobuf,application/json", Some((Form::Protobuf, "")));
        check("application/vnd.kubernetes.protobuf;as=Table;v=v1,application/json", Some((Form::Json, "")));
        check("text/html, image/png", None);
    }

    #[test]
    fn weights_come_before_the_order() {
        check("application/json;q=0.5,application/yaml;q=0.9", Some((Form::Yaml, "")));
        check("*/*;q=0.1,application/yaml", Some((Form::Yaml, "")));
        check("application/yaml;q=nonsense,application/json", Some((Form::Json, "")));
    }

    #[test]
    fn yaml_is_no_stream() {
        check("application/json;stream=watch", Some((Form::Json, "")));
        check("application/yaml;stream=watch", None);
        check("application/json;stream=other", None);
    }

    #[test]
    fn a_route_asks_for_exact_names() {
        assert!(names_a_form("text/html, application/yaml;q=0.2"));
        assert!(names_a_form("*/*"));
        assert!(!names_a_form("application/*"));
        assert!(!names_a_form("application/xml"));
    }
}
