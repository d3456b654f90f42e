//! What the checker finds in rules, and what it lets through.

use serde_json::{Value, json};

use super::Comes;
use crate::crds::cost::Declared;
use crate::crds::program::{Scope, check_types};

fn comes(rule: &str, schema: &Value) -> Result<Option<Comes>, String> {
    let scope = Scope { schema, root: false, declared: &Declared::default() };
    check_types(rule, &scope, false).map(|found| found.map(|(comes, _)| comes))
}

/// Checks rules on an object with a text `a`, a number `b`, a list `l` of numbers and a map `m` of them.
#[track_caller]
fn check(rule: &str, expected: Option<&str>) {
    let number = json!({"type": "integer"});
    let schema = json!({"type": "object", "properties": {
        "a": {"type": "string"}, "b": number, "l": {"type": "array", "items": number},
        "m": {"type": "object", "additionalProperties": number}, "any": {"x-kubernetes-int-or-string": true},
    }});
    let found = comes(rule, &schema).err();
    let shown = found.as_deref().and_then(|found| found.strip_prefix("compilation failed: ERROR: <input>:"));
    assert_eq!(shown.and_then(|shown| shown.lines().next()), expected, "{rule}");
}

#[test]
fn what_does_not_fit_is_found_before_there_is_a_value() {
    for (rule, expected) in [
        ("self.zz == 1", "1:5: undefined field 'zz'"),
        ("has(self.zz)", "1:4: undefined field 'zz'"),
        ("self.b.c == 1", "1:7: type 'int' does not support field selection"),
        ("self.l.all(x, x.c == 1)", "1:16: type 'int' does not support field selection"),
        ("self.a > 1", "1:8: found no matching overload for '_>_' applied to '(string, int)'"),
        ("self.a == 1", "1:8: found no matching overload for '_==_' applied to '(string, int)'"),
        ("self.l[0] == 'a'", "1:11: found no matching overload for '_==_' applied to '(int, string)'"),
        ("'a' in self.a", "1:5: found no matching overload for '@in' applied to '(string, string)'"),
        ("!self.a", "1:1: found no matching overload for '!_' applied to '(string)'"),
        ("self.a && true", "1:5: expected type 'bool' but found 'string'"),
        (
            "self.b.startsWith('x')",
            "1:18: found no matching overload for 'startsWith' applied to 'int.(string)'",
        ),
        (
            "self.l.isSorted(1)",
            "1:16: found no matching overload for 'isSorted' applied to 'list(int).(int)'",
        ),
        ("url(1).getHost() == ''", "1:4: found no matching overload for 'url' applied to '(int)'"),
        ("self.a.foo()", "1:11: undeclared reference to 'foo' (in container '')"),
        ("self.m['a'] == 'b'", "1:13: found no matching overload for '_==_' applied to '(int, string)'"),
        ("[1, 'a'].size() == 2", "1:5: expected type 'int' but found 'string'"),
        (
            "self.l.map(x, x + 'a').size() > 0",
            "1:17: found no matching overload for '_+_' applied to '(int, string)'",
        ),
        (
            "self.l.map(x, string(x)).sum() == 1",
            "1:32: found no matching overload for '_==_' applied to '(string, int)'",
        ),
        (
            "self.m.all(k, v, k == v)",
            "1:20: found no matching overload for '_==_' applied to '(string, int)'",
        ),
        (
            "self.?a.orValue(1) == 'x'",
            "1:16: found no matching overload for 'orValue' applied to 'optional_type(string).(int)'",
        ),
        (
            "self.b.all(x, true)",
            "1:5: expression of type 'int' cannot be range of a comprehension (must be list, map, or dynamic)",
        ),
        ("self.a.matches('[')", "1:16: invalid matches argument"),
        ("\n  foo == 1", "2:3: undeclared reference to 'foo' (in container '')"),
    ] {
        check(rule, Some(expected));
    }
}

#[test]
fn what_may_fit_is_let_through() {
    for rule in [
        "self.b > 1.5 && self.any == 'x' && self.any > 5 && dyn(1) == 'a'",
        "self.l.map(x, x * 2).filter(x, x > 2) == [4, 6] && self.l == [] && {} == self.m",
        "self.l.transformMap(i, v, v).all(k, v, k == v) && self.m.transformList(k, v, k) == ['a']",
        "type(self.any) == int ? self.any == 5 : self.any == '5'",
        "'%d-%s'.format([1, 'x']) == '1-x' && sets.contains(self.l, [1]) && lists.range(3) == [0, 1, 2]",
        "format.named('uuid').hasValue() && !format.uuid().validate(self.a).hasValue() && ip.isCanonical(self.a)",
        "optional.of(self.a).orValue('') == '' && self.?m[?'a'].orValue(1) == 1 && self.l.first().value() == 1",
        "cidr(self.a).ip() == ip('1.2.3.4') && string(ip(self.a)) == self.a && url(self.a).getQuery()['x'] == ['1']",
        "timestamp(self.a) - timestamp('2020-01-01T00:00:00Z') < duration('1h') && duration(self.a).getHours() == 1",
        "self.l.sum() + self.b == self.l.max() && self.l.exists_one(x, x == 2) && self.l.sortBy(x, -x) == [1]",
    ] {
        check(rule, None);
    }
    assert_eq!(comes("self", &json!({"type": "string"})), Ok(Some(Comes::Text)));
    assert_eq!(comes("self", &json!({"type": "integer"})), Ok(Some(Comes::Other)));
}
