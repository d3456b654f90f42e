//! Decides what rules may do with versions of programs. Answers to `k8s.io/apiserver/pkg/cel/library/semverlib.go` and
//! `github.com/blang/semver`.

use std::cmp::Ordering;

use cel::common::types::{CelBool, CelInt, CelString, Type};
use cel::{DeclarationError, Env};

use super::{Kind, Opaque, Result, failed};

static SEMVER: Type = Type::new_unspecified_type("kubernetes.Semver");

/// A version. What comes after a plus is kept, and counts for nothing.
#[derive(Clone, Debug)]
pub(super) struct Release {
    numbers: [u64; 3],
    pre: Vec<String>,
}

type Semver = Opaque<Release>;

impl PartialEq for Release {
    fn eq(&self, other: &Self) -> bool {
        self.compare(other).is_eq()
    }
}

impl Kind for Release {
    fn kind() -> &'static Type {
        &SEMVER
    }
}

pub(super) fn declare(env: &mut Env) -> std::result::Result<(), DeclarationError> {
    env.add_type(SEMVER.to_owned())?;
    cel::add_overload!(env, fn semver: (CelString) -> Result<Semver>)?;
    cel::add_overload!(env, fn semver_loosely: (CelString, CelBool) -> Result<Semver>, name = "semver")?;
    cel::add_overload!(env, fn is_semver: (CelString) -> CelBool, name = "isSemver")?;
    cel::add_overload!(env, fn is_semver_loosely: (CelString, CelBool) -> CelBool, name = "isSemver")?;
    cel::add_member_overload!(env, fn is_greater_than: (Semver, Semver) -> CelBool, name = "isGreaterThan")?;
    cel::add_member_overload!(env, fn is_less_than: (Semver, Semver) -> CelBool, name = "isLessThan")?;
    cel::add_member_overload!(env, fn compare_to: (Semver, Semver) -> CelInt, name = "compareTo")?;
    cel::add_member_overload!(env, fn major: (Semver) -> CelInt)?;
    cel::add_member_overload!(env, fn minor: (Semver) -> CelInt)?;
    cel::add_member_overload!(env, fn patch: (Semver) -> CelInt)
}

impl Release {
    fn parse(raw: &str) -> std::result::Result<Self, String> {
        if raw.is_empty() {
            return Err("Version string empty".to_owned());
        }
        let parts: Vec<&str> = raw.splitn(3, '.').collect();
        let [major, minor, rest] = parts[..] else {
            return Err("No Major.Minor.Patch elements found".to_owned());
        };
        let (rest, build) = rest.split_once('+').map_or((rest, None), |(rest, build)| (rest, Some(build)));
        let (patch, pre) = rest.split_once('-').map_or((rest, None), |(patch, pre)| (patch, Some(pre)));
        let numbers = [number(major, "major")?, number(minor, "minor")?, number(patch, "patch")?];
        let words = |all: Option<&str>| -> Vec<String> {
            all.into_iter().flat_map(|all| all.split('.')).map(str::to_owned).collect()
        };
        let (pre, build) = (words(pre), words(build));
        for word in pre.iter().chain(&build) {
            if word.is_empty() || !word.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-') {
                return Err(format!("Invalid character(s) found in prerelease {word:?}"));
            }
        }
        let leads = |word: &&String| {
            word.len() > 1 && word.starts_with('0') && word.bytes().all(|byte| byte.is_ascii_digit())
        };
        if let Some(word) = pre.iter().find(leads) {
            return Err(format!("Numeric PreRelease version must not contain leading zeroes {word:?}"));
        }
        Ok(Self { numbers, pre })
    }

    /// The same of something that people write: `v1`, `1.2`, `01.2.3`.
    fn parse_loosely(raw: &str) -> std::result::Result<Self, String> {
        let mut parts: Vec<String> =
            raw.strip_prefix('v').unwrap_or(raw).splitn(3, '.').map(str::to_owned).collect();
        for part in parts.iter_mut().filter(|part| part.len() > 1) {
            let trimmed = part.trim_start_matches('0');
            let digit = trimmed.bytes().next().is_some_and(|byte| byte.is_ascii_digit());
            *part = if digit { trimmed.to_owned() } else { format!("0{trimmed}") };
        }
        if parts.len() < 3 {
            let last = parts.last().map_or("", String::as_str);
            if last.contains(['+', '-']) {
                return Err("Short version cannot contain PreRelease/Build meta data".to_owned());
            }
            parts.resize(3, "0".to_owned());
        }
        Self::parse(&parts.join("."))
    }

    fn compare(&self, other: &Self) -> Ordering {
        let without = self.pre.is_empty().cmp(&other.pre.is_empty());
        self.numbers.cmp(&other.numbers).then(without).then_with(|| {
            let mut words = self.pre.iter().zip(&other.pre);
            let first =
                words.find_map(|(one, other)| Some(word_order(one, other)).filter(|order| order.is_ne()));
            first.unwrap_or_else(|| self.pre.len().cmp(&other.pre.len()))
        })
    }
}

/// Numbers come before words.
fn word_order(one: &str, other: &str) -> Ordering {
    let number =
        |word: &str| word.bytes().all(|byte| byte.is_ascii_digit()).then(|| (word.len(), word.to_owned()));
    match (number(one), number(other)) {
        (Some(one), Some(other)) => one.cmp(&other),
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (None, None) => one.cmp(other),
    }
}

fn number(text: &str, which: &str) -> std::result::Result<u64, String> {
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(format!("Invalid character(s) found in {which} number {text:?}"));
    }
    if text.len() > 1 && text.starts_with('0') {
        let which = format!("{}{}", which[..1].to_uppercase(), &which[1..]);
        return Err(format!("{which} number must not contain leading zeroes {text:?}"));
    }
    text.parse().map_err(|_| format!("strconv.ParseUint: parsing {text:?}: value out of range"))
}

fn semver(raw: &CelString<'_>) -> Result<Semver> {
    Release::parse(raw.inner()).map(Opaque).map_err(failed)
}

fn semver_loosely(raw: &CelString<'_>, loosely: &CelBool) -> Result<Semver> {
    if *loosely.inner() {
        Release::parse_loosely(raw.inner()).map(Opaque).map_err(failed)
    } else {
        semver(raw)
    }
}

fn is_semver(raw: &CelString<'_>) -> CelBool {
    semver(raw).is_ok().into()
}

fn is_semver_loosely(raw: &CelString<'_>, loosely: &CelBool) -> CelBool {
    semver_loosely(raw, loosely).is_ok().into()
}

fn is_greater_than(one: &Semver, other: &Semver) -> CelBool {
    one.0.compare(&other.0).is_gt().into()
}

fn is_less_than(one: &Semver, other: &Semver) -> CelBool {
    one.0.compare(&other.0).is_lt().into()
}

fn compare_to(one: &Semver, other: &Semver) -> CelInt {
    (one.0.compare(&other.0) as i64).into()
}

fn part(version: &Semver, place: usize) -> CelInt {
    i64::try_from(version.0.numbers[place]).unwrap_or(i64::MAX).into()
}

fn major(version: &Semver) -> CelInt {
    part(version, 0)
}

fn minor(version: &Semver) -> CelInt {
    part(version, 1)
}

fn patch(version: &Semver) -> CelInt {
    part(version, 2)
}
