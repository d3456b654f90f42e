//! Decides whether a text is a schedule of a cron job or the name of a time zone. Never computes when a job
//! runs. Answers to `github.com/robfig/cron/v3` and `validateTimeZone`.

use super::field::{Causes, Field};

const MONTHS: &[&str] = &["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const DAYS: &[&str] = &["sun", "mon", "tue", "wed", "thu", "fri", "sat"];
const NAMED: &[&str] = &["@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"];

pub(super) fn check(schedule: &Field<'_>, causes: &mut Causes) {
    let text = schedule.text();
    let timed = text.starts_with("TZ=") || text.starts_with("CRON_TZ=");
    let rest = if timed { text.split_once(' ').map_or("", |(_, rest)| rest) } else { text };
    if !is_schedule(rest.trim()) {
        causes.push(schedule.invalid(
            "expected exactly 5 fields that name minutes, hours, days, months and days of the week",
        ));
    }
    if text.contains("TZ") {
        causes.push(schedule.invalid("cannot use TZ or CRON_TZ in schedule, use timeZone field instead"));
    }
}

fn is_schedule(text: &str) -> bool {
    if let Some(every) = text.strip_prefix("@every ") {
        return is_duration(every);
    }
    if text.starts_with('@') {
        return NAMED.contains(&text);
    }
    let fields: Vec<&str> = text.split_whitespace().collect();
    let [minute, hour, day, month, weekday] = fields[..] else { return false };
    is_field(minute, 0, 59, &[], 0)
        && is_field(hour, 0, 23, &[], 0)
        && is_field(day, 1, 31, &[], 0)
        && is_field(month, 1, 12, MONTHS, 1)
        && is_field(weekday, 0, 6, DAYS, 0)
}

fn is_field(text: &str, least: u32, most: u32, words: &[&str], first: u32) -> bool {
    let number = |text: &str| {
        let lower = text.to_lowercase();
        let named = words.iter().zip(first..).find(|(word, _)| **word == lower).map(|(_, number)| number);
        named.or_else(|| text.parse().ok())
    };
    text.split(',').all(|part| {
        let (range, step) = part.split_once('/').map_or((part, None), |(range, step)| (range, Some(step)));
        if step.is_some_and(|step| !step.parse::<u32>().is_ok_and(|step| step > 0)) {
            return false;
        }
        if matches!(range, "*" | "?") {
            return true;
        }
        let (from, to) = range.split_once('-').unwrap_or((range, range));
        match (number(from), number(to)) {
            (Some(from), Some(to)) => from >= least && to <= most && from <= to,
            _ => false,
        }
    })
}

/// A duration as Go writes it, such as `1h30m`.
fn is_duration(text: &str) -> bool {
    let mut rest = text;
    while !rest.is_empty() {
        let digits =
            rest.find(|letter: char| !letter.is_ascii_digit() && letter != '.').unwrap_or(rest.len());
        let (number, after) = rest.split_at(digits);
        let units = ["ns", "us", "ms", "s", "m", "h"];
        let Some(unit) = units.into_iter().find(|unit| after.starts_with(unit)) else { return false };
        if number.parse::<f64>().is_err() {
            return false;
        }
        rest = &after[unit.len()..];
    }
    !text.is_empty()
}

/// Whether a time zone can exist. Its data is asked where the program was built with it.
pub(super) fn zone(zone: &Field<'_>, causes: &mut Causes) {
    let name = zone.text();
    if name.is_empty() {
        causes.push(zone.invalid("timeZone must be nil or non-empty string"));
        return;
    }
    let fits = |part: &str| {
        let letters = part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-_+".contains(&byte));
        !part.is_empty()
            && part.len() <= 14
            && letters
            && !part.starts_with('-')
            && part != "."
            && part != ".."
    };
    if !name.split('/').all(fits) {
        causes.push(zone.invalid(&format!("unknown time zone {name}")));
        return;
    }
    if name.eq_ignore_ascii_case("local") {
        causes.push(
            zone.invalid(
                "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones",
            ),
        );
    } else if jiff::tz::TimeZone::get(name).is_err() {
        causes.push(zone.invalid(&format!("unknown time zone {name}")));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedules_have_five_fields_a_name_or_a_period() {
        for (text, fits) in [
            ("*/5 * * * *", true),
            ("0 0 1 jan mon-fri", true),
            ("1,2 3-4 ? * 0", true),
            ("@hourly", true),
            ("@every 1h30m", true),
            ("60 * * * *", false),
            ("* * * *", false),
            ("* * 0 * *", false),
            ("*/0 * * * *", false),
            ("5-1 * * * *", false),
            ("@often", false),
            ("@every soon", false),
            ("hello", false),
        ] {
            assert_eq!(is_schedule(text), fits, "{text}");
        }
    }
}
