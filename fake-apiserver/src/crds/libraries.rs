//! Decides which functions rules may call besides those of the language: the libraries of the real server, one file each. Never
//! reads a rule. Answers to `k8s.io/apiserver/pkg/cel/{environment,library}` and to the libraries of `cel-go/ext` that it takes.

mod addresses;
mod amounts;
mod formats;
mod guarded;
mod lists;
mod loops;
mod networks;
mod releases;
mod sets;
mod texts;
mod times;
mod urls;

use std::any::Any;
use std::fmt::Debug;

use cel::common::types::{CelList, CelOptional, CelString, Type};
use cel::common::value::{CowVal, StaticVal, Val};
use cel::{DeclarationError, Env, ExecutionError};

pub(super) use loops::{MAP_OF, MERGED, ORDERED, PAIRS};
pub(super) use times::{duration, timestamp};

type Result<T> = std::result::Result<T, ExecutionError>;

/// The libraries, in the order in which their functions are found.
pub(super) fn declare(env: &mut Env) -> std::result::Result<(), DeclarationError> {
    cel::extensions::strings(env)?;
    cel::extensions::lists(env)?;
    addresses::declare(env)?;
    amounts::declare(env)?;
    formats::declare(env)?;
    guarded::declare(env)?;
    lists::declare(env)?;
    loops::declare(env)?;
    networks::declare(env)?;
    releases::declare(env)?;
    sets::declare(env)?;
    texts::declare(env)?;
    times::declare(env)?;
    urls::declare(env)
}

/// Something that rules handle without looking into it, such as a quantity.
pub(super) trait Kind: Clone + Debug + PartialEq + Send + Sync + 'static {
    /// The type that it has in the language.
    fn kind() -> &'static Type;

    /// Which of two is more, where that is known.
    fn order(&self, _other: &Self) -> Option<std::cmp::Ordering> {
        None
    }

    /// The sum with something, where there is one.
    fn plus(&self, _other: &dyn Val) -> Option<Box<dyn Val>> {
        None
    }

    /// The difference from something, where there is one.
    fn minus(&self, _other: &dyn Val) -> Option<Box<dyn Val>> {
        None
    }
}

/// One of those, as a value.
#[derive(Clone, Debug)]
pub(super) struct Opaque<T>(pub(super) T);

impl<T: Kind> Val for Opaque<T> {
    fn get_type(&self) -> &Type {
        T::kind()
    }

    fn cel_type() -> &'static Type {
        T::kind()
    }

    fn as_comparer(&self) -> Option<&dyn cel::common::traits::Comparer> {
        Some(self)
    }

    fn as_adder<'b, 'v>(&'b self) -> Option<&'b (dyn cel::common::traits::Adder + 'v)>
    where
        Self: 'v,
    {
        Some(self)
    }

    fn as_subtractor<'b, 'v>(&'b self) -> Option<&'b (dyn cel::common::traits::Subtractor + 'v)>
    where
        Self: 'v,
    {
        Some(self)
    }

    fn equals(&self, other: &dyn Val) -> bool {
        other.downcast_ref::<Self>().is_some_and(|other| other.0 == self.0)
    }

    fn clone_as_boxed<'v>(&self) -> Box<dyn Val + 'v>
    where
        Self: 'v,
    {
        Box::new(self.clone())
    }

    fn as_any(&self) -> Option<&dyn Any> {
        Some(self)
    }
}

impl<T: Kind> StaticVal for Opaque<T> {}

impl<T: Kind> cel::common::traits::Comparer for Opaque<T> {
    fn compare(&self, other: &dyn Val) -> Result<std::cmp::Ordering> {
        let other = other.downcast_ref::<Self>().and_then(|other| self.0.order(&other.0));
        other.ok_or_else(|| ExecutionError::function_error("_<_", "no such overload"))
    }
}

impl<T: Kind> cel::common::traits::Adder for Opaque<T> {
    fn add<'b, 'v>(&'b self, other: &(dyn Val + 'v)) -> Result<CowVal<'b, 'v>>
    where
        Self: 'v,
    {
        self.0.plus(other).map(CowVal::from).ok_or_else(|| failed("no such overload"))
    }
}

impl<T: Kind> cel::common::traits::Subtractor for Opaque<T> {
    fn sub<'b, 'v>(&'b self, other: &(dyn Val + 'v)) -> Result<CowVal<'b, 'v>>
    where
        Self: 'v,
    {
        self.0.minus(other).map(CowVal::from).ok_or_else(|| failed("no such overload"))
    }
}

fn text(text: impl Into<String>) -> CelString<'static> {
    CelString::from(text.into())
}

/// A list of texts.
fn texts(all: impl IntoIterator<Item = String>) -> CelList<'static> {
    list(all.into_iter().map(|one| Box::new(text(one)) as Box<dyn Val>).collect())
}

fn list<'v>(items: Vec<Box<dyn Val + 'v>>) -> CelList<'v> {
    CelList::from(items)
}

fn some<'v>(value: Option<Box<dyn Val + 'v>>) -> CelOptional<'v> {
    value.map_or_else(CelOptional::none, CelOptional::of)
}

/// The items of an argument that is a list.
fn items<'b, 'v>(value: &'b (dyn Val + 'v)) -> Result<Vec<&'b (dyn Val + 'v)>> {
    let mut found = Vec::new();
    let mut items = value.as_iterable().ok_or_else(|| failed("it is no list"))?.iter();
    while let Some(item) = items.next() {
        found.push(item);
    }
    Ok(found)
}

/// What an argument is, if it is of that type.
fn given<'b, 'v, T: cel::common::value::FromVal<'b, 'v>>(
    args: &'b [CowVal<'b, 'v>],
    place: usize,
) -> Result<&'b T> {
    let value = args.get(place).and_then(|value| value.as_ref().downcast_ref::<T>());
    value.ok_or_else(|| failed("no such overload"))
}

/// The end of an evaluation, in the real server's words.
fn failed(why: impl ToString) -> ExecutionError {
    ExecutionError::function_error("", why)
}

#[cfg(test)]
mod tests {
    use super::super::budget::OBJECT;
    use super::super::program::{ENVIRONMENT, compile};

    #[track_caller]
    fn check(rules: &[&str]) {
        for rule in rules {
            let program = compile(rule).unwrap().unwrap();
            let value = program.run(&cel::Context::with_env(ENVIRONMENT.clone()), &mut OBJECT.clone());
            assert_eq!(value.unwrap(), cel::Value::Bool(true), "{rule}");
        }
    }

    #[test]
    fn lists_and_sets() {
        check(&[
            "[1, 2, 3].isSorted() && !['b', 'a'].isSorted() && [].isSorted()",
            "[1, 2].sum() == 3 && [1.5, 2.0].sum() == 3.5 && [].sum() == 0",
            "[1, 5, 2].max() == 5 && ['b', 'a'].min() == 'a'",
            "[1, 5, 1].indexOf(1) == 0 && [1, 5, 1].lastIndexOf(1) == 2 && [1].indexOf(9) == -1",
            "sets.contains(['a', 'b'], ['a']) && !sets.contains(['a'], ['a', 'b'])",
            "sets.equivalent([1, 2], [2, 1, 1]) && sets.intersects([1], [2, 1]) && !sets.intersects([1], [])",
            "[3, 1, 2].sort() == [1, 2, 3] && [1, 1].distinct() == [1] && lists.range(2) == [0, 1]",
        ]);
    }

    #[test]
    fn texts_patterns_and_formats() {
        check(&[
            "'abc 123'.find('[0-9]+') == '123' && 'abc'.find('[0-9]') == ''",
            "'1 2 3'.findAll('[0-9]') == ['1', '2', '3'] && '1 2 3'.findAll('[0-9]', 2) == ['1', '2']",
            "'a,b'.split(',') == ['a', 'b'] && ['a', 'b'].join('-') == 'a-b' && ' x '.trim() == 'x'",
            "'aaa'.replace('a', 'b', 2) == 'bba' && 'abc'.replace('b', '') == 'ac' && 'Ab'.lowerAscii() == 'ab'",
            "'abc'.substring(1) == 'bc' && 'abc'.charAt(2) == 'c' && '%d-%s'.format([1, 'x']) == '1-x'",
            "!format.dns1123Label().validate('abc').hasValue() && format.dns1123Label().validate('A_').hasValue()",
            "!format.dns1123LabelPrefix().validate('abc-').hasValue() && format.named('uuid').hasValue()",
            "!format.named('nope').hasValue() && format.uuid().validate('x').value() == ['does not match the UUID format']",
        ]);
    }

    #[test]
    fn urls_addresses_and_networks() {
        check(&[
            "url('https://u@a.b:80/p/a?x=1&y=2&x=3#f').getHost() == 'a.b:80' && !isURL('a b') && isURL('/x')",
            "url('https://[::1]:80/p').getHostname() == '::1' && url('https://[::1]:80/p').getPort() == '80'",
            "url('https://a/p?x=1&x=3').getQuery()['x'] == ['1', '3'] && url('HTTP://a/p%20q').getScheme() == 'http'",
            "url('http://a/p%20q').getEscapedPath() == '/p%20q'",
            "ip('10.1.2.3').family() == 4 && ip('10.1.2.3').isGlobalUnicast() && !isIP('::ffff:1.2.3.4') && !isIP('1.2.3')",
            "ip('::1').isLoopback() && string(ip('::1')) == '::1' && !ip.isCanonical('2001:DB8::1') && ip('fe80::1').isLinkLocalUnicast()",
            "cidr('10.0.0.0/8').containsIP('10.1.1.1') && !cidr('10.0.0.0/8').containsIP(ip('11.0.0.1'))",
            "cidr('10.0.0.0/8').containsCIDR('10.1.0.0/16') && !cidr('10.0.0.0/8').containsCIDR('10.0.0.0/7')",
            "cidr('10.1.2.3/8').masked() == cidr('10.0.0.0/8') && cidr('::/0').prefixLength() == 0 && !isCIDR('1.2.3.4/33')",
        ]);
    }

    #[test]
    fn amounts_releases_and_times() {
        check(&[
            "quantity('1Gi').isGreaterThan(quantity('1G')) && quantity('1Gi').compareTo(quantity('1024Mi')) == 0",
            "quantity('50k').add(quantity('10k')).sub(1000) == quantity('59k') && sign(quantity('-1')) == -1",
            "!quantity('1.5').isInteger() && quantity('2k').asInteger() == 2000 && !isQuantity('x')",
            "semver('1.2.3').isLessThan(semver('1.10.0')) && semver('1.2.3').compareTo(semver('1.2.3-rc.1')) == 1",
            "semver('1.0.0-alpha.2').isLessThan(semver('1.0.0-alpha.10')) && isSemver('v1.2', true) && !isSemver('v1.2')",
            "semver('v01.2', true).major() == 1 && !isSemver('01.2.3') && semver('1.2.3+b') == semver('1.2.3')",
            "duration('1h30m') == duration('90m') && duration('1.5s').getMilliseconds() == 1500 && string(duration('90m')) == '5400s'",
            "timestamp('2020-01-02T03:04:05Z').getFullYear() == 2020 && timestamp('2020-01-02T03:04:05Z').getHours('+02:00') == 5",
            "timestamp('2020-01-01T00:00:00Z') + duration('1h') > timestamp('2020-01-01T00:00:00Z')",
            "timestamp('2020-01-01T00:00:05Z') - timestamp('2020-01-01T00:00:00Z') == duration('5s')",
        ]);
    }

    #[test]
    fn loops_with_two_variables() {
        check(&[
            "[1, 2].all(i, v, v == i + 1) && {'a': 1, 'b': 2}.exists(k, v, k == 'b' && v == 2)",
            "{'a': 1, 'b': 2}.existsOne(k, v, v > 1) && ![1, 1].exists_one(i, v, v == 1)",
            "[5, 6].transformList(i, v, i * v) == [0, 6] && [5, 6].transformList(i, v, i > 0, v) == [6]",
            "{'a': 1, 'b': 2}.transformMap(k, v, v * 2) == {'a': 2, 'b': 4} && {'a': 1, 'b': 2}.transformMap(k, v, v > 1, v) == {'b': 2}",
            "['x', 'y'].transformMapEntry(i, v, {v: i}) == {'x': 0, 'y': 1}",
            "[1, 2].all(i, v, [1, 2].all(j, w, i == j ? v == w : v != w))",
            "[1, 2].all(i, v, [3].all(v, v == 3) && v < 3)",
            "{'c': 1, 'a': 2, 'b': 3}.map(k, k) == ['a', 'b', 'c'] && {3: 'x', 1: 'y', 2: 'z'}.transformList(k, v, v) == ['y', 'z', 'x']",
        ]);
    }
}
