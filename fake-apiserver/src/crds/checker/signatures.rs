//! Decides which functions rules can call with which types, and what comes of it. The signatures are data, a line each, a
//! function without or with a target before its dot. Answers to the declarations of `cel-go` and of
//! `k8s.io/apiserver/pkg/cel/library`.

use std::collections::HashMap;
use std::sync::LazyLock;

use super::types::{DURATION, TIMESTAMP, Type};

/// One way to call a function; the target is the first parameter.
pub(super) struct Signature {
    pub(super) member: bool,
    pub(super) parameters: Vec<Type>,
    pub(super) result: Type,
}

static SIGNATURES: LazyLock<HashMap<&'static str, Vec<Signature>>> = LazyLock::new(|| {
    let mut all: HashMap<&'static str, Vec<Signature>> = HashMap::new();
    for (name, signature) in include_str!("signatures.txt").lines().filter_map(read) {
        all.entry(name).or_default().push(signature);
    }
    all
});

/// All ways to call a function.
pub(super) fn of(name: &str) -> &'static [Signature] {
    SIGNATURES.get(name).map_or(&[], Vec::as_slice)
}

fn read(line: &'static str) -> Option<(&'static str, Signature)> {
    let (call, result) = line.rsplit_once(' ')?;
    let (head, member) = call.strip_prefix("fn ").map_or((call, true), |call| (call, false));
    let (head, target) = if member {
        let (target, rest) = head
            .split_once(").")
            .map_or_else(|| head.split_once('.'), |(target, rest)| Some((target, rest)))?;
        (rest, Some(target.trim_end_matches(')')))
    } else {
        (head, None)
    };
    let (name, rest) = head.split_once('(')?;
    let mut parameters = Vec::new();
    if let Some(target) = target {
        // Its closing brackets were cut off.
        let closing = target.matches('(').count() - target.matches(')').count();
        parameters.push(type_of(&format!("{target}{}", ")".repeat(closing)))?);
    }
    let mut rest = rest.strip_suffix(')')?;
    while !rest.is_empty() {
        let end = end_of_first(rest);
        parameters.push(type_of(&rest[..end])?);
        rest = rest[end..].strip_prefix(',').unwrap_or(&rest[end..]);
    }
    Some((name, Signature { member, parameters, result: type_of(result)? }))
}

/// Where the first of several types ends.
fn end_of_first(text: &str) -> usize {
    let mut depth = 0_usize;
    for (at, letter) in text.char_indices() {
        match letter {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => return at,
            _ => {}
        }
    }
    text.len()
}

fn type_of(text: &str) -> Option<Type> {
    if let Some((outer, inner)) = text.split_once('(') {
        let inner = inner.strip_suffix(')')?;
        let first = type_of(&inner[..end_of_first(inner)]).map(Box::new)?;
        return Some(match outer {
            "list" => Type::List(first),
            "optional" => Type::Optional(first),
            "type" => Type::Of(first),
            "map" => Type::Map(first, Box::new(type_of(inner[end_of_first(inner)..].strip_prefix(',')?)?)),
            _ => return None,
        });
    }
    Some(match text {
        "dyn" => Type::Dyn,
        "A" => Type::Open(0),
        "B" => Type::Open(1),
        "bool" => Type::Plain("bool"),
        "int" => Type::Plain("int"),
        "uint" => Type::Plain("uint"),
        "double" => Type::Plain("double"),
        "string" => Type::Plain("string"),
        "bytes" => Type::Plain("bytes"),
        "duration" => DURATION,
        "timestamp" => TIMESTAMP,
        "url" => Type::Plain("kubernetes.URL"),
        "quantity" => Type::Plain("kubernetes.Quantity"),
        "format" => Type::Plain("kubernetes.NamedFormat"),
        "semver" => Type::Plain("kubernetes.Semver"),
        "ip" => Type::Plain("net.IP"),
        "cidr" => Type::Plain("net.CIDR"),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_a_signature() {
        for line in include_str!("signatures.txt").lines() {
            let (name, signature) = read(line).unwrap_or_else(|| panic!("{line}"));
            let target = usize::from(signature.member);
            let shown: Vec<String> = signature.parameters[target..].iter().map(Type::to_string).collect();
            assert!(line.contains(&format!("{name}(")), "{line}: {name} {shown:?}");
        }
        assert_eq!(of("getQuery")[0].result.to_string(), "map(string, list(string))");
        assert_eq!(of("containsIP")[1].parameters.len(), 2);
    }
}
