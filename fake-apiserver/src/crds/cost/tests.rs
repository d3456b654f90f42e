//! Estimates of rules beside those that a real server names when there are very many values.

use serde_json::{Value, json};

use super::Declared;
use crate::crds::program::{Scope, check_types};

#[track_caller]
fn check(schema: &Value, rules: &[(&str, u64)]) {
    let declared = Declared::of(schema, false).unwrap();
    let scope = Scope { schema, root: false, declared: &declared };
    for (rule, expected) in rules {
        let found = check_types(rule, &scope, false).unwrap().unwrap();
        assert_eq!(found.1, *expected, "{rule}");
    }
}

#[test]
fn what_a_text_costs_follows_its_length() {
    check(
        &json!({"type": "string", "maxLength": 10}),
        &[
            ("self == 'abc'", 2),
            ("self.startsWith('abcdefghijklm')", 3),
            ("self.contains(self)", 18),
            ("self.matches('^[a-z]+$')", 11),
            ("self + self == self", 15),
            ("self.replace('', 'xy') == self", 14),
            ("ip(self).family() == 4", 7),
            ("!format.uuid().validate(self).hasValue()", 132),
            ("quantity(self) == quantity('1')", 7),
            ("bytes(self).size() > 3", 7),
            ("self < 'b' || true", 2),
        ],
    );
    check(&json!({"type": "string"}), &[("self.contains('abc')", 314_574), ("self == 'abc'", 2)]);
}

#[test]
fn loops_turn_as_often_as_there_can_be_items() {
    check(
        &json!({"type": "array", "maxItems": 6, "items": {"type": "string", "maxLength": 5}}),
        &[
            ("self.all(x, x == 'abcdefghijklmnopqrstu')", 38),
            ("self.exists(i, x, i > 1 && x == self[0])", 68),
            ("self.filter(x, x in self).size() == 1", 140),
            ("sets.contains(self, ['a', 'b'])", 24),
            ("self.isSorted()", 19),
            ("self.transformMap(i, x, i > 1, x).size() > 1", 70),
            ("self.slice(1, 3) == self", 16),
        ],
    );
    let map = json!({"type": "object", "maxProperties": 4, "additionalProperties": {"type": "integer"}});
    check(&map, &[("self.all(k, self[k] > 1)", 30), ("'a' in self", 2)]);
}

#[test]
fn the_dearer_of_two_branches_counts_and_presence_is_free() {
    check(
        &json!({"type": "object", "properties": {
            "a": {"type": "string", "maxLength": 10}, "n": {"type": "integer"},
            "p": {"x-kubernetes-int-or-string": true},
            "l": {"type": "array", "maxItems": 3, "items": {"type": "integer"}},
        }}),
        &[
            ("has(self.a) && self.n > 1", 4),
            ("self.p == 5", 3),
            ("self.n > 1 ? self.a == 'b' : self.l[0] == 1", 6),
            ("{'x': self.a}.x == self.a", 35),
            ("dyn(self.a) == self.p", 9),
            ("self.l.map(x, x * 2).sum() > 3", 59),
        ],
    );
}

#[test]
fn loops_in_loops_are_estimated_once() {
    let list = json!({"type": "array", "items": {"type": "integer"}});
    let mut rule = "x == 1".to_owned();
    for _ in 0..20 {
        rule = format!("{{'a': 1}}.transformMap(k, x, {rule}).size() > 1");
    }
    let declared = Declared::of(&list, false).unwrap();
    let scope = Scope { schema: &list, root: false, declared: &declared };
    let rule = format!("self.all(x, {rule})");
    assert!(check_types(&rule, &scope, false).unwrap().unwrap().1 > 10_000_000);
}
