//! Decides what calling a function costs at most, and how large what comes of it is. Where types are not known, the dearest of the
//! ways to call it counts. Never goes into the arguments. Answers to `functionCost` of `cel-go/checker/cost.go`, to
//! `k8s.io/apiserver/pkg/cel/library/cost.go` and to the estimates of `cel-go/ext/{lists,sets}.go`.

use cel::common::ast::operators;

use super::size::{Size, scaled};
use super::{Declared, Entries, Known, NEW_LIST, below};
use crate::crds::checker::Type;

/// What going through a letter costs, and an expression by the letter of its text.
const LETTER: f64 = 0.1;
const PATTERN: f64 = 0.25;
/// The longest expression behind a format, and the longest name of one.
const FORMAT_PATTERN: f64 = 128.0;
const FORMAT_NAME: u64 = 64;
/// How many bytes two networks have, the longer ones.
const TWO_ADDRESSES: u64 = 32;

/// What came of a call.
#[derive(Debug, Default)]
pub(super) struct Made {
    pub(super) cost: u64,
    pub(super) size: Option<Size>,
    pub(super) entries: Option<Entries>,
    pub(super) path: Vec<String>,
}

impl Made {
    fn costs(cost: u64) -> Self {
        Self { cost, ..Self::default() }
    }

    fn sized(cost: u64, size: Size) -> Self {
        Self { cost, size: Some(size), ..Self::default() }
    }
}

/// The cost of a call, with that of its arguments, but without that of its target.
pub(super) fn cost(declared: &Declared, name: &str, target: Option<&Known>, args: &[Known]) -> Made {
    let sum = || args.iter().fold(0, |sum: u64, arg| sum.saturating_add(arg.cost));
    match (name, args) {
        (operators::LOGICAL_AND | operators::LOGICAL_OR, _) => return Made::costs(sum()),
        (operators::CONDITIONAL, [asked, yes, no]) => {
            let cost = asked.cost.saturating_add(yes.cost.max(no.cost));
            let entries = yes.entries.zip(no.entries).map(|(yes, no)| yes.or(no));
            return Made { entries, ..Made::sized(cost, yes.size().or(no.size())) };
        }
        _ => {}
    }
    let made = of_lists(declared, name, target, args)
        .or_else(|| of_libraries(name, target, args))
        .or_else(|| of_texts(name, target, args))
        .or_else(|| of_operators(name, args));
    let mut made = made.unwrap_or_else(|| Made::costs(1));
    made.cost = made.cost.saturating_add(sum());
    made
}

fn is_text(form: &Type) -> bool {
    matches!(form, Type::Plain("string"))
}

fn is_texts(form: &Type) -> bool {
    matches!(form, Type::Plain("string" | "bytes"))
}

fn is_open(form: &Type) -> bool {
    matches!(form, Type::Dyn)
}

/// The size of the items of a list, and whether they are texts or bytes; nothing for what is no list.
fn items(declared: &Declared, list: &Known) -> Option<(Size, bool)> {
    let Type::List(of) = &list.form else { return None };
    let known = (!list.path.is_empty()).then(|| declared.size_at(&below(&list.path, "@items"))).flatten();
    Some((known.unwrap_or(Size::UNKNOWN), is_texts(of)))
}

/// Lists and sets of lists.
fn of_lists(declared: &Declared, name: &str, target: Option<&Known>, args: &[Known]) -> Option<Made> {
    let makes = |size: Size, each: f64| Made::sized(size.costs(each).saturating_add(1 + NEW_LIST), size);
    let number = |at: usize, default: u64| {
        let number = args.get(at).and_then(|arg| arg.number);
        number.map_or(default, |number| u64::try_from(number).unwrap_or(0))
    };
    Some(match (name, target, args) {
        ("sets.contains" | "sets.intersects" | "sets.equivalent", None, [one, other]) => {
            let each = if name == "sets.equivalent" { 2.0 } else { 1.0 };
            Made::costs(one.size().times(other.size()).costs(each).saturating_add(1))
        }
        ("slice", Some(list), [_, _]) => {
            makes(Size::exactly(number(1, list.size().max).wrapping_sub(number(0, 0))), 1.0)
        }
        ("lists.range", None, [_]) => makes(Size::exactly(number(0, u64::MAX)), 1.0),
        ("reverse", Some(list), []) if !is_text(&list.form) => makes(list.size(), 1.0),
        ("flatten", Some(list), []) => makes(list.size(), 1.0),
        ("flatten", Some(list), [_]) => {
            #[expect(clippy::cast_precision_loss, reason = "as the real server reckons")]
            let depth = number(0, u64::MAX) as f64;
            makes(list.size(), depth)
        }
        ("distinct", Some(list), []) => makes(list.size().times(list.size()), 2.0),
        ("sort" | "@sortByAssociatedKeys", Some(list), _) => {
            let by = args.first().unwrap_or(list);
            let texts = matches!(&by.form, Type::List(of) if is_texts(of) || is_open(of));
            makes(by.size().times(by.size()), if texts { 2.0 + LETTER } else { 2.0 })
        }
        ("isSorted" | "sum" | "max" | "min" | "indexOf" | "lastIndexOf", Some(target), _) => {
            Made::costs(match items(declared, target) {
                Some((item, true)) => target.size().max.saturating_mul(item.costs(LETTER).saturating_add(1)),
                Some((_, false)) => target.size().max,
                None => target.size().costs(LETTER),
            })
        }
        ("join", Some(list), _) => {
            let mut size = match items(declared, list) {
                Some((item, _)) => list.size().times(item),
                None => Size::exactly(0),
            };
            if let [between] = args {
                let gaps =
                    Size { min: list.size().min.saturating_sub(1), max: list.size().max.saturating_sub(1) };
                size = size.plus(between.size().times(gaps));
            }
            Made::sized(size.costs(LETTER), size)
        }
        _ => return None,
    })
}

/// Addresses, amounts, releases, formats and URLs.
fn of_libraries(name: &str, target: Option<&Known>, args: &[Known]) -> Option<Made> {
    let read = |arg: &Known| arg.size().costs(LETTER);
    Some(match (name, target, args) {
        ("url", None, [text]) => Made::sized(read(text), text.size()),
        ("ip", None, [text])
        | ("cidr" | "isIP" | "isCIDR" | "quantity" | "isQuantity" | "semver" | "isSemver", _, [text, ..]) => {
            Made::costs(read(text))
        }
        ("ip.isCanonical", _, [text]) => Made::costs(text.size().costs(2.0 * LETTER)),
        ("containsIP" | "containsCIDR", Some(_), [other]) => {
            let masks = if name == "containsIP" { 0 } else { scaled(TWO_ADDRESSES / 2, LETTER) + 1 };
            let both = scaled(TWO_ADDRESSES, LETTER) + masks;
            let parsed = is_text(&other.form) || is_open(&other.form);
            Made::costs(both.saturating_add(if parsed { read(other) } else { 0 }))
        }
        ("validate", Some(_), [text]) => Made::costs(scaled(read(text), FORMAT_PATTERN * PATTERN)),
        (operators::EQUALS, _, [one, other]) if one.form == other.form => match &one.form {
            Type::Plain("net.IP" | "net.CIDR" | "kubernetes.Quantity" | "kubernetes.Semver") => {
                Made::costs(1)
            }
            Type::Plain("kubernetes.NamedFormat") => Made::costs(scaled(FORMAT_NAME, LETTER)),
            Type::Plain("kubernetes.URL") => {
                Made::costs(other.size.unwrap_or(Size::exactly(1)).costs(LETTER))
            }
            _ => return None,
        },
        _ => return None,
    })
}

/// Texts, and what becomes of them.
fn of_texts(name: &str, target: Option<&Known>, args: &[Known]) -> Option<Made> {
    let read = |arg: &Known| arg.size().costs(LETTER);
    Some(match (name, target, args) {
        ("lowerAscii" | "upperAscii" | "substring" | "trim", Some(text), _) => {
            Made::sized(read(text), text.size())
        }
        ("replace", Some(text), [what, with, ..]) => {
            Made::sized(text.size().costs(2.0 * LETTER), replaced(text.size(), what.size(), with.size()))
        }
        ("split", Some(text), _) => {
            let most = args.get(1).and_then(|arg| arg.number);
            // A number below nothing is a very large one there.
            let most = most.map_or(text.size().max, i64::cast_unsigned);
            Made::sized(text.size().costs(2.0 * LETTER), Size { min: 0, max: most })
        }
        ("find" | "findAll", Some(text), [pattern, ..]) => {
            Made::sized(searched(text, pattern), Size { min: 0, max: text.size().max })
        }
        ("matches", Some(text), [pattern]) => Made::costs(searched(text, pattern)),
        ("contains", Some(text), [part]) => Made::costs(read(text).saturating_mul(read(part))),
        ("startsWith" | "endsWith", Some(_), [part]) => Made::costs(read(part)),
        ("format", Some(text), _) => Made::costs(read(text)),
        ("strings.quote", None, [text]) => {
            let Size { min, max } = text.size();
            let size = Size { min: min.saturating_add(2), max: max.wrapping_mul(2).wrapping_add(2) };
            Made::sized(read(text), size)
        }
        ("bytes", None, [text]) if is_text(&text.form) || is_open(&text.form) => {
            let Size { min, max } = text.size();
            Made::sized(read(text).max(1), Size { min, max: max.wrapping_mul(4) })
        }
        ("string", None, [bytes]) if matches!(bytes.form, Type::Plain("bytes") | Type::Dyn) => {
            let Size { min, max } = bytes.size();
            let least = u64::from(is_open(&bytes.form));
            Made::sized(read(bytes).max(least), Size { min: min / 4, max })
        }
        _ => return None,
    })
}

/// An expression takes as long as the text is, for each part of it.
fn searched(text: &Known, pattern: &Known) -> u64 {
    let letters = text.size().plus(Size::exactly(1)).costs(LETTER);
    letters.saturating_mul(pattern.size().costs(PATTERN))
}

/// How large a text is after each of its parts of one size was replaced by one of another.
fn replaced(text: Size, what: Size, with: Size) -> Size {
    let fitting = |whole: u64, part: u64| whole.div_ceil(part);
    // The longest: the shortest part is replaced by the longest, as often as it fits.
    let (most, kept) = if what.min == 0 {
        (text.max.saturating_add(1), text.max)
    } else if with.max <= what.min {
        (0, text.max)
    } else {
        (fitting(text.max, what.min), 0)
    };
    // The shortest: the other way round.
    let (least, left) = if what.max == 0 {
        (text.min.saturating_add(1), text.min)
    } else if what.max <= with.min {
        (0, text.min)
    } else {
        (fitting(text.min, what.max), 0)
    };
    Size { min: least, max: most }.times(with).plus(Size { min: left, max: kept })
}

/// What the language has for values of several types.
fn of_operators(name: &str, args: &[Known]) -> Option<Made> {
    let [one, other] = args else { return None };
    let shorter = one.size().max.min(other.size().max);
    let either = |has: fn(&Type) -> bool| has(&one.form) || has(&other.form);
    Some(match name {
        operators::EQUALS | operators::NOT_EQUALS => Made::costs(scaled(shorter, LETTER)),
        operators::LESS | operators::LESS_EQUALS | operators::GREATER | operators::GREATER_EQUALS => {
            match (either(is_texts), is_open(&one.form) && is_open(&other.form)) {
                (true, _) => Made::costs(scaled(shorter, LETTER)),
                (_, true) => Made::costs(scaled(shorter, LETTER).max(1)),
                _ => return None,
            }
        }
        operators::IN => match &other.form {
            Type::Map(..) => return None,
            Type::Dyn => Made::costs(other.size().max.max(1)),
            _ => Made::costs(other.size().max),
        },
        operators::ADD => {
            let lists = either(|form| matches!(form, Type::List(_)));
            let open = is_open(&one.form) && is_open(&other.form);
            if !lists && !open && !either(is_texts) {
                return None;
            }
            let size = one.size().plus(other.size());
            let entries = one.entries.zip(other.entries).map(|(one, other)| one.or(other));
            let cost = if lists { 1 } else { size.costs(LETTER).max(u64::from(open)) };
            Made { entries, ..Made::sized(cost, size) }
        }
        operators::INDEX => {
            let step = if matches!(one.form, Type::List(_)) { "@items" } else { "@values" };
            Made {
                cost: 1,
                size: one.entries.map(|entries| entries.value),
                entries: None,
                path: below(&one.path, step),
            }
        }
        _ => return None,
    })
}
