//! Decides how durations, labels and selectors read in a cell. Answers to
//! `k8s.io/apimachinery/pkg/util/duration` and `.../pkg/labels`.

use jiff::Timestamp;
use serde_json::Value;

/// The time since, roughly, or that it is unknown.
pub(super) fn since(time: &str, now: Timestamp) -> String {
    if time.is_empty() {
        return "<unknown>".to_owned();
    }
    match time.parse::<Timestamp>() {
        Ok(time) => duration(now.as_second() - time.as_second()),
        Err(_) => "<invalid>".to_owned(),
    }
}

/// A duration in two or three figures.
pub(super) fn duration(seconds: i64) -> String {
    let (minutes, hours) = (seconds / 60, seconds / 3600);
    let days = hours / 24;
    let with_rest = |main: i64, unit: &str, rest: i64, small: &str| {
        if rest == 0 { format!("{main}{unit}") } else { format!("{main}{unit}{rest}{small}") }
    };
    match () {
        () if seconds < -1 => "<invalid>".to_owned(),
        () if seconds < 0 => "0s".to_owned(),
        () if seconds < 120 => format!("{seconds}s"),
        () if minutes < 10 => with_rest(minutes, "m", seconds % 60, "s"),
        () if minutes < 180 => format!("{minutes}m"),
        () if hours < 8 => with_rest(hours, "h", minutes % 60, "m"),
        () if hours < 48 => format!("{hours}h"),
        () if hours < 24 * 8 => with_rest(days, "d", hours % 24, "h"),
        () if hours < 24 * 365 * 2 => format!("{days}d"),
        () if hours < 24 * 365 * 8 => with_rest(days / 365, "y", days % 365, "d"),
        () => format!("{}y", days / 365),
    }
}

/// `a=b,c=d`, or that there is none.
pub(super) fn labels(labels: Option<&Value>) -> String {
    let pairs = label_pairs(labels);
    if pairs.is_empty() { "<none>".to_owned() } else { pairs.join(",") }
}

fn label_pairs(labels: Option<&Value>) -> Vec<String> {
    let mut pairs: Vec<(&str, &str)> = labels
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
        .map(|(key, value)| (key.as_str(), value.as_str().unwrap_or_default()))
        .collect();
    pairs.sort_unstable();
    pairs.iter().map(|(key, value)| format!("{key}={value}")).collect()
}

/// A label selector as one text, empty when it is missing or selects everything.
pub(crate) fn selector(selector: Option<&Value>) -> String {
    let Some(selector) = selector.filter(|selector| selector.is_object()) else { return String::new() };
    let mut requirements: Vec<(String, String)> = label_pairs(selector.get("matchLabels"))
        .into_iter()
        .map(|pair| (pair.split('=').next().unwrap_or_default().to_owned(), pair))
        .collect();
    for one in selector["matchExpressions"].as_array().into_iter().flatten() {
        let key = one["key"].as_str().unwrap_or_default();
        let mut values: Vec<&str> =
            one["values"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        values.sort_unstable();
        let values = values.join(",");
        let text = match one["operator"].as_str() {
            Some("In") => format!("{key} in ({values})"),
            Some("NotIn") => format!("{key} notin ({values})"),
            Some("DoesNotExist") => format!("!{key}"),
            _ => key.to_owned(),
        };
        requirements.push((key.to_owned(), text));
    }
    requirements.sort_by(|one, other| one.0.cmp(&other.0));
    requirements.into_iter().map(|(_, text)| text).collect::<Vec<_>>().join(",")
}

/// A label selector, or that there is none.
pub(super) fn selector_or_none(value: Option<&Value>) -> String {
    Some(selector(value)).filter(|text| !text.is_empty()).unwrap_or_else(|| "<none>".to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn durations_have_two_or_three_figures() {
        let cases = [
            (-5, "<invalid>"),
            (-1, "0s"),
            (119, "119s"),
            (120, "2m"),
            (125, "2m5s"),
            (600, "10m"),
            (10_799, "179m"),
            (10_800, "3h"),
            (3 * 3600 + 60, "3h1m"),
            (47 * 3600, "47h"),
            (49 * 3600, "2d1h"),
            (200 * 3600, "8d"),
            (730 * 86_400, "2y"),
            (731 * 86_400, "2y1d"),
            (3000 * 86_400, "8y"),
        ];
        for (seconds, expected) in cases {
            assert_eq!(duration(seconds), expected, "{seconds}");
        }
    }

    #[test]
    fn selectors_are_sorted_by_key() {
        let value = json!({"matchLabels": {"z": "1"}, "matchExpressions": [
            {"key": "a", "operator": "In", "values": ["y", "x"]}, {"key": "b", "operator": "DoesNotExist"}]});
        assert_eq!(selector(Some(&value)), "a in (x,y),!b,z=1");
        assert_eq!(selector_or_none(None), "<none>");
    }
}
