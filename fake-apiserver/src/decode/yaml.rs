//! Decides what YAML says as JSON, and which key it says twice. Answers to `sigs.k8s.io/yaml`.

use serde_json::Value;

/// The value, where the last of two equal keys counts, and the first key that is there twice.
pub(crate) fn read(body: &[u8]) -> Result<(Value, Option<String>), String> {
    let text = std::str::from_utf8(body).map_err(|error| format!("yaml: {error}"))?;
    let first_line =
        |error: &serde_saphyr::Error| error.to_string().lines().next().unwrap_or_default().to_owned();
    let error = match serde_saphyr::from_str::<Value>(text) {
        Ok(value) => return Ok((value, None)),
        Err(error) => first_line(&error),
    };
    let last = serde_saphyr::options! { duplicate_keys: serde_saphyr::DuplicateKeyPolicy::LastWins };
    match serde_saphyr::from_str_with_options::<Value>(text, last) {
        Ok(value) => Ok((value, Some(repeated(&error)))),
        Err(_) => Err(format!("yaml: {error}")),
    }
}

/// The parser's words for a key that is there twice, in Go's.
fn repeated(error: &str) -> String {
    let between = |from: &str, to: &str| {
        let (_, rest) = error.split_once(from)?;
        rest.split_once(to).map(|(found, _)| found.trim().to_owned())
    };
    match (between("line ", " column"), between("duplicate mapping key: ", ", set")) {
        (Some(line), Some(key)) => format!("line {line}: key {} already set in map", Value::from(key)),
        _ => error.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_last_of_two_keys_counts_and_is_named() {
        let (value, repeated) = read(b"a: 1\nb: {c: 1, c: 2}\n").unwrap();
        assert_eq!(value, json!({"a": 1, "b": {"c": 2}}));
        assert_eq!(repeated.as_deref(), Some("line 2: key \"c\" already set in map"));
        assert_eq!(read(b"a: 1").unwrap(), (json!({"a": 1}), None));
        assert!(read(b"a: b: c").is_err());
    }
}
