//! Decides whether the rules by which a job is taken as done make sense: how many of which indexes. Answers to
//! `validateSuccessPolicy` of `kubernetes/pkg/apis/batch/validation`.

use super::super::field::{Causes, Field};
use crate::status::Cause;

/// How many rules of success there may be, and how long a text that names indexes.
const MOST_RULES: usize = 20;
const LONGEST_INDEXES: usize = 65_536;

/// What is wrong with the policy of a job, where it has one.
pub(super) fn policy(spec: &Field<'_>, causes: &mut Causes) {
    let policy = spec.at("successPolicy");
    if !policy.is_set() {
        return;
    }
    if spec.at("completionMode").text() != "Indexed" {
        causes.push(policy.invalid("requires indexed completion mode"));
        return;
    }
    if policy.at("rules").is_empty() {
        causes.push(
            policy
                .at("rules")
                .required("at least one rules must be specified when the successPolicy is specified"),
        );
    }
    if policy.at("rules").len() > MOST_RULES {
        let most = i64::try_from(MOST_RULES).unwrap_or(i64::MAX);
        causes.push(Cause::too_many(policy.at("rules").path.as_str(), policy.at("rules").len(), most));
    }
    let all = spec.at("completions").number().unwrap_or(0);
    for rule in policy.at("rules").items() {
        let (count, indexes) = (rule.at("succeededCount"), rule.at("succeededIndexes"));
        if !count.is_set() && !indexes.is_set() {
            causes
                .push(rule.required("at least one of succeededCount or succeededIndexes must be specified"));
        }
        let mut named = 0;
        if indexes.is_set() {
            if indexes.text().len() > LONGEST_INDEXES {
                causes.push(Cause::too_long(indexes.path.as_str(), LONGEST_INDEXES));
            }
            match count_indexes(indexes.text(), all) {
                Ok(found) => named = found,
                Err(why) => {
                    causes.push(indexes.invalid(&format!("error parsing succeededIndexes: {why}")));
                }
            }
        }
        count.at_least(0, causes);
        let Some(number) = count.number() else { continue };
        for (most, what, counts) in [
            (all, "the number of specified completions", true),
            (named, "the number of indexes in the specified succeededIndexes field", indexes.is_set()),
        ] {
            if counts && number > most {
                causes.push(count.invalid(&format!("must be less than or equal to {most} ({what})")));
            }
        }
    }
}

/// How many indexes a text such as `1,3-5` names, each below the number of completions, or what is wrong with it.
fn count_indexes(text: &str, completions: i64) -> Result<i64, String> {
    let (mut last, mut total) = (None, 0);
    for interval in text.split(',').filter(|_| !text.is_empty()) {
        let ends: Vec<&str> = interval.split('-').collect();
        if ends.len() > 2 {
            return Err(format!(
                "the fragment {interval:?} violates the requirement that an index interval can have at most two parts separated by '-'"
            ));
        }
        let mut numbers = Vec::new();
        for end in &ends {
            let number: i64 =
                end.parse().map_err(|_| format!("cannot convert string to integer for index: {end:?}"))?;
            if number >= completions {
                return Err(format!("too large index: {end:?}"));
            }
            numbers.push(number);
        }
        let (first, end) = (numbers[0], numbers[numbers.len() - 1]);
        let before = if numbers.len() == 2 && first >= end {
            Some((first, end))
        } else {
            last.filter(|last| *last >= first).map(|last| (last, first))
        };
        if let Some((previous, current)) = before {
            return Err(format!("non-increasing order, previous: {previous}, current: {current}"));
        }
        total += end - first + 1;
        last = Some(end);
    }
    Ok(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indexes_are_counted_or_said_to_be_wrong() {
        let check = |text: &str, expected: Result<i64, &str>| {
            assert_eq!(count_indexes(text, 10), expected.map_err(str::to_owned), "{text}");
        };
        check("", Ok(0));
        check("1,3-5,9", Ok(5));
        check("x", Err("cannot convert string to integer for index: \"x\""));
        check("1,", Err("cannot convert string to integer for index: \"\""));
        check("10", Err("too large index: \"10\""));
        check("3-3", Err("non-increasing order, previous: 3, current: 3"));
        check("1-4,4", Err("non-increasing order, previous: 4, current: 4"));
        let three = "the fragment \"1-2-3\" violates the requirement that an index interval can have at most two parts separated by '-'";
        check("1-2-3", Err(three));
    }
}
