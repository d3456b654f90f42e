//! Decides whether a text is a name, a label or a key. Each check says what is wrong, or nothing. Answers to
//! `k8s.io/apimachinery/pkg/util/validation`.

const LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and \
    end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is \
    '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const LABEL_1035: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic \
    character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is \
    '[a-z]([-a-z0-9]*[a-z0-9])?')";
const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and \
    must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
    '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const WILDCARD: &str = "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must \
    consist of lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character (e.g. '*.example.com', \
    regex used for validation is '\\*\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const VALUE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must \
    start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is \
    '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";
const PART: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an \
    alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
    '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const QUALIFIED: &str = "a qualified name must consist of alphanumeric characters, '-', '_' or '.', and must start and end with \
    an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
    '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]') with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')";

fn is_label(text: &str) -> bool {
    let edge =
        |byte: Option<&u8>| byte.is_some_and(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
    let bytes = text.as_bytes();
    edge(bytes.first())
        && edge(bytes.last())
        && bytes.iter().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || *byte == b'-')
}

fn is_word(text: &str) -> bool {
    let edge = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let bytes = text.as_bytes();
    edge(bytes.first())
        && edge(bytes.last())
        && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'))
}

/// A name without dots, as namespaces have.
pub(crate) fn label(text: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    if text.len() > 63 {
        wrong.push("must be no more than 63 bytes".to_owned());
    }
    if !is_label(text) {
        wrong.push(LABEL.to_owned());
    }
    wrong
}

/// A name that starts with a letter, as kinds and resources have.
pub(crate) fn label_1035(text: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    if text.len() > 63 {
        wrong.push("must be no more than 63 bytes".to_owned());
    }
    if !is_label(text) || !text.starts_with(|first: char| first.is_ascii_lowercase()) {
        wrong.push(LABEL_1035.to_owned());
    }
    wrong
}

/// A name with dots, as most objects have.
pub(crate) fn subdomain(text: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    if text.len() > 253 {
        wrong.push("must be no more than 253 bytes".to_owned());
    }
    if !text.split('.').all(is_label) {
        wrong.push(SUBDOMAIN.to_owned());
    }
    wrong
}

/// All names below one, as `*.example.com` has them.
pub(crate) fn wildcard(text: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    if text.len() > 253 {
        wrong.push("must be no more than 253 bytes".to_owned());
    }
    if !text.strip_prefix("*.").is_some_and(|rest| rest.split('.').all(is_label)) {
        wrong.push(WILDCARD.to_owned());
    }
    wrong
}

/// A path below a domain, as `example.com/name`.
pub(crate) fn domain_path(text: &str) -> Vec<String> {
    let (domain, path) = text.split_once('/').unwrap_or_default();
    if domain.is_empty() || path.is_empty() {
        return vec!["must be a domain-prefixed path (such as \"acme.io/foo\")".to_owned()];
    }
    let mut wrong = subdomain(domain);
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"/-._~%!$&'()*+,;=:".contains(&byte);
    if !path.bytes().all(fits) {
        wrong.push(
            "Invalid path (regex used for validation is '[A-Za-z0-9/\\-._~%!$&'()*+,;=:]+')".to_owned(),
        );
    }
    wrong
}

/// The name of a port, as IANA has them.
pub(crate) fn port_name(text: &str) -> Vec<String> {
    let bytes = text.as_bytes();
    let mut wrong = Vec::new();
    if bytes.len() > 15 {
        wrong.push("must be no more than 15 characters".to_owned());
    }
    let fits = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || *byte == b'-';
    if bytes.is_empty() || !bytes.iter().all(fits) {
        wrong.push("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)".to_owned());
    }
    if !bytes.iter().any(u8::is_ascii_lowercase) {
        wrong.push("must contain at least one letter (a-z)".to_owned());
    }
    if text.contains("--") {
        wrong.push("must not contain consecutive hyphens".to_owned());
    }
    if text.starts_with('-') || text.ends_with('-') {
        wrong.push("must not begin or end with a hyphen".to_owned());
    }
    wrong
}

/// The name of an environment variable: whatever can be told from its value.
pub(crate) fn env_name(text: &str) -> Vec<String> {
    let printable = text.bytes().all(|byte| (b' '..=b'~').contains(&byte) && byte != b'=');
    if printable && !text.is_empty() {
        return Vec::new();
    }
    vec![
        "a valid environment variable name must consist only of printable ASCII characters other than '='"
            .to_owned(),
    ]
}

/// The key of a config map's or secret's data, which becomes a file.
pub(crate) fn data_key(text: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    if text.len() > 253 {
        wrong.push("must be no more than 253 bytes".to_owned());
    }
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    if text.is_empty() || !text.bytes().all(fits) {
        let what = "a valid config key must consist of alphanumeric characters, '-', '_' or '.'";
        let like = "'key.name',  or 'KEY_NAME',  or 'key-name'";
        wrong.push(format!("{what} (e.g. {like}, regex used for validation is '[-._a-zA-Z0-9]+')"));
    }
    if text == "." {
        wrong.push("must not be '.'".to_owned());
    }
    if text == ".." {
        wrong.push("must not be '..'".to_owned());
    } else if text.starts_with("..") {
        wrong.push("must not start with '..'".to_owned());
    }
    wrong
}

/// An address of either family, without leading zeros.
pub(crate) fn address(text: &str) -> Vec<String> {
    if text.parse::<std::net::IpAddr>().is_ok() {
        return Vec::new();
    }
    vec!["must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)".to_owned()]
}

/// The value of a label.
pub(crate) fn label_value(text: &str) -> Option<String> {
    label_values(text).into_iter().next()
}

/// All that is wrong with the value of a label.
pub(crate) fn label_values(text: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    if text.len() > 63 {
        wrong.push("must be no more than 63 bytes".to_owned());
    }
    if !text.is_empty() && !is_word(text) {
        wrong.push(VALUE.to_owned());
    }
    wrong
}

/// The key of a label or annotation, or a finalizer: `name` or `prefix/name`.
pub(crate) fn qualified_name(text: &str) -> Option<String> {
    qualified_names(text).into_iter().next()
}

/// All that is wrong with such a key.
pub(crate) fn qualified_names(text: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    let name = match text.split_once('/') {
        None => text,
        Some((prefix, name)) if !name.contains('/') => {
            if prefix.is_empty() {
                wrong.push("prefix part must be non-empty".to_owned());
            } else {
                wrong.extend(subdomain(prefix).into_iter().map(|why| format!("prefix part {why}")));
            }
            name
        }
        Some(_) => return vec![QUALIFIED.to_owned()],
    };
    if name.is_empty() {
        wrong.push("name part must be non-empty".to_owned());
    } else if name.len() > 63 {
        wrong.push("name part must be no more than 63 bytes".to_owned());
    }
    if !is_word(name) {
        wrong.push(PART.to_owned());
    }
    wrong
}

/// Whether two of these addresses, or ranges of them, are of one IP family.
pub(crate) fn shares_family<'a>(addresses: impl Iterator<Item = &'a str>) -> bool {
    let (newer, older): (Vec<&str>, Vec<&str>) = addresses.partition(|address| address.contains(':'));
    newer.len() > 1 || older.len() > 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_judged_as_upstream() {
        assert!(subdomain("a.b-c").is_empty());
        assert_eq!(subdomain("Bad_Name").len(), 1);
        assert_eq!(subdomain("").len(), 1);
        assert!(label("a-b").is_empty() && !label("a.b").is_empty());
        assert_eq!(qualified_name("example.com/MyName"), None);
        assert!(qualified_name("a b").is_some_and(|why| why.starts_with("name part must consist")));
        assert!(
            qualified_name("a/b/c").is_some()
                && qualified_name("/b").is_some()
                && qualified_name("a/").is_some()
        );
        assert_eq!(label_value(""), None);
        assert!(label_value("not valid").is_some());
    }
}
