//! Decides on whose behalf a request is made: headers may name another user, with groups and more. Never asks whether the one
//! who asks may do so: whoever is known may everything. Answers to
//! `k8s.io/apiserver/pkg/endpoints/filters/impersonation`.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::auth::User;
use crate::request::percent_decode;
use crate::status::{Result, Status};

const EXTRA: &str = "impersonate-extra-";
const ACCOUNT: &str = "system:serviceaccount:";
const ANONYMOUS: &str = "system:anonymous";

/// The user that the headers name, or the one who asks.
///
/// # Errors
/// When they name groups, a uid or something else, and nobody whose they would be.
pub(crate) fn user<'a>(
    headers: impl Iterator<Item = (&'a str, &'a str)>,
    asks: Arc<User>,
) -> Result<Arc<User>> {
    let (mut name, mut uid) = ("", "");
    let mut groups: Vec<String> = Vec::new();
    let mut extra: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (header, value) in headers {
        match header {
            "impersonate-user" => name = value,
            "impersonate-uid" => uid = value,
            "impersonate-group" => groups.push(value.to_owned()),
            _ => {
                if let Some(key) = header.strip_prefix(EXTRA) {
                    let key = percent_decode(&key.to_ascii_lowercase(), false);
                    extra.entry(key).or_default().push(value.to_owned());
                }
            }
        }
    }
    if name.is_empty() {
        if uid.is_empty() && groups.is_empty() && extra.is_empty() {
            return Ok(asks);
        }
        let why = format!(
            "requested groups {groups:?}, uid \"{uid}\" and extra {extra:?} without impersonating a user name"
        );
        return Err(Status::bad_request(why));
    }
    if groups.is_empty()
        && let Some((namespace, _)) = name.strip_prefix(ACCOUNT).and_then(|account| account.split_once(':'))
    {
        groups = vec!["system:serviceaccounts".into(), format!("system:serviceaccounts:{namespace}")];
    }
    let mut user = if name == ANONYMOUS {
        groups.push("system:unauthenticated".into());
        User { name: name.to_owned(), groups, ..User::default() }
    } else {
        User::new(name, uid, groups)
    };
    user.extra = extra;
    Ok(Arc::new(user))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(headers: &[(&str, &str)]) -> Result<Arc<User>> {
        user(headers.iter().copied(), User::trusted())
    }

    #[test]
    fn headers_name_somebody_else() {
        assert_eq!(named(&[("accept", "x")]).unwrap(), User::trusted());
        let bob = named(&[
            ("impersonate-user", "bob"),
            ("impersonate-group", "g"),
            ("impersonate-uid", "7"),
            ("impersonate-extra-a%2fb", "y"),
        ]);
        let bob = bob.unwrap();
        assert_eq!((bob.name.as_str(), bob.uid.as_str()), ("bob", "7"));
        assert_eq!(bob.groups, ["g", "system:authenticated"]);
        assert_eq!(bob.extra["a/b"], ["y"]);
        let account = named(&[("impersonate-user", "system:serviceaccount:n:s")]).unwrap();
        assert_eq!(
            account.groups,
            ["system:serviceaccounts", "system:serviceaccounts:n", "system:authenticated"]
        );
        let anonymous = named(&[("impersonate-user", "system:anonymous")]).unwrap();
        assert_eq!(anonymous.groups, ["system:unauthenticated"]);
    }

    #[test]
    fn a_group_alone_is_nobody() {
        for header in ["impersonate-group", "impersonate-uid", "impersonate-extra-x"] {
            assert_eq!(named(&[(header, "x")]).unwrap_err().code, 400, "{header}");
        }
    }
}
