//! Decides who asks: from a bearer token that was configured, from the token of a service account, or from a
//! client's certificate. Never decides what somebody may: whoever is known may everything. In one process,
//! and without configured credentials, everybody is trusted. Answers to
//! `k8s.io/apiserver/pkg/authentication` with `--authorization-mode=AlwaysAllow`, which has no anonymous users.

pub(crate) mod impersonate;
pub(crate) mod jwt;
pub(crate) mod reviews;
mod tokens;

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, LazyLock};

use serde_json::{Value, json};

use crate::object::{at, key_of, text};
use crate::options::Options;
use crate::server::Server;
use crate::status::Status;
pub use tokens::{Token, TokenFileError};

/// Who issues the tokens of service accounts, and for whom.
pub(crate) const ISSUER: &str = "https://kubernetes.default.svc";

/// Somebody who asks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct User {
    pub(crate) name: String,
    pub(crate) uid: String,
    pub(crate) groups: Vec<String>,
    pub(crate) extra: BTreeMap<String, Vec<String>>,
}

static TRUSTED: LazyLock<Arc<User>> =
    LazyLock::new(|| Arc::new(User::new("system:admin", "", vec!["system:masters".to_owned()])));

impl User {
    /// Somebody who is known, and therefore in the group of all who are.
    pub(crate) fn new(name: &str, uid: &str, mut groups: Vec<String>) -> Self {
        const KNOWN: &str = "system:authenticated";
        if !groups.iter().any(|group| group == KNOWN) {
            groups.push(KNOWN.to_owned());
        }
        Self { name: name.to_owned(), uid: uid.to_owned(), groups, extra: BTreeMap::new() }
    }

    /// Who asks where nobody has to say who they are.
    pub(crate) fn trusted() -> Arc<Self> {
        TRUSTED.clone()
    }

    /// The user as reviews show one.
    pub(crate) fn to_json(&self) -> Value {
        let mut user = json!({"username": self.name});
        if !self.uid.is_empty() {
            user["uid"] = self.uid.as_str().into();
        }
        user["groups"] = json!(self.groups);
        if !self.extra.is_empty() {
            user["extra"] = json!(self.extra);
        }
        user
    }
}

/// What the server knows of its users.
pub(crate) struct Authenticator {
    tokens: HashMap<String, Arc<User>>,
    required: bool,
    key: jwt::Key,
}

impl Authenticator {
    pub(crate) fn new(options: &Options, key: jwt::Key) -> Self {
        let users = options
            .tokens
            .iter()
            .map(|one| (one.token.clone(), Arc::new(User::new(&one.user, &one.uid, one.groups.clone()))));
        Self {
            tokens: users.collect(),
            required: !options.tokens.is_empty() || options.credentials_required,
            key,
        }
    }

    pub(crate) fn key(&self) -> &jwt::Key {
        &self.key
    }
}

/// The refusal for those whom nobody knows.
pub(crate) fn unauthorized() -> Box<Status> {
    Box::new(Status::new(401, "Unauthorized", "Unauthorized"))
}

/// Finds out who asks, by the `Authorization` header or by who has shown a certificate.
pub(crate) fn authenticate(
    server: &Server,
    authorization: &str,
    certified: Option<&Arc<User>>,
) -> Result<Arc<User>, Box<Status>> {
    let users = &server.users;
    if !users.required && authorization.is_empty() && certified.is_none() {
        return Ok(User::trusted());
    }
    if let Some(user) = certified {
        return Ok(user.clone());
    }
    let token = bearer(authorization);
    match token.and_then(|token| by_token(server, token, &[ISSUER]).ok()) {
        Some((user, _)) => Ok(user),
        None if users.required => Err(unauthorized()),
        None => Ok(User::trusted()),
    }
}

/// The token of a header that has one.
fn bearer(authorization: &str) -> Option<&str> {
    let mut parts = authorization.trim().splitn(3, ' ');
    let is_bearer = parts.next().is_some_and(|scheme| scheme.eq_ignore_ascii_case("bearer"));
    parts.next().filter(|token| is_bearer && !token.is_empty())
}

/// Whose token it is, and for which of the audiences it is meant; or why it is nobody's.
pub(crate) fn by_token(
    server: &Server,
    token: &str,
    audiences: &[&str],
) -> Result<(Arc<User>, Vec<String>), &'static str> {
    const UNKNOWN: &str = "invalid bearer token";
    if let Some(user) = server.users.tokens.get(token) {
        let own = audiences.contains(&ISSUER);
        return if own { Ok((user.clone(), vec![ISSUER.to_owned()])) } else { Err(UNKNOWN) };
    }
    let claims = server.users.key.verify(token, (server.options.now)().as_second()).ok_or(UNKNOWN)?;
    let meant: Vec<String> = claims["aud"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .filter(|audience| audiences.contains(audience))
        .map(str::to_owned)
        .collect();
    if meant.is_empty() || !still_exist(server, &claims["kubernetes.io"]) {
        return Err(UNKNOWN);
    }
    Ok((Arc::new(service_account(&claims)), meant))
}

/// Whether the service account of a token, and what the token is bound to, are the same as then.
fn still_exist(server: &Server, private: &Value) -> bool {
    let store = server.lock();
    let namespace = text(private, &["namespace"]);
    let bound = [("serviceaccount", "ServiceAccount"), ("pod", "Pod"), ("secret", "Secret")];
    let exists = |(field, kind): (&str, &str)| {
        let Some(reference) = private.get(field) else { return field != "serviceaccount" };
        let index = store.kinds.named(kind);
        let object = index.and_then(|index| store.get(index, &key_of(namespace, text(reference, &["name"]))));
        object.is_some_and(|object| {
            object.uid() == text(reference, &["uid"])
                && at(&object.value, &["metadata", "deletionTimestamp"]).is_none_or(Value::is_null)
        })
    };
    bound.into_iter().all(exists)
}

/// The user that a service account is.
fn service_account(claims: &Value) -> User {
    let private = &claims["kubernetes.io"];
    let namespace = text(private, &["namespace"]);
    let account = |field: &str| text(private, &["serviceaccount", field]);
    let groups = vec!["system:serviceaccounts".to_owned(), format!("system:serviceaccounts:{namespace}")];
    let name = format!("system:serviceaccount:{namespace}:{}", account("name"));
    let mut user = User::new(&name, account("uid"), groups);
    let mut add = |field: &str, value: String| {
        if !value.is_empty() {
            user.extra.insert(format!("authentication.kubernetes.io/{field}"), vec![value]);
        }
    };
    add("credential-id", format!("JTI={}", text(claims, &["jti"])));
    for (part, name, uid) in [("pod", "pod-name", "pod-uid"), ("node", "node-name", "node-uid")] {
        add(name, text(private, &[part, "name"]).to_owned());
        add(uid, text(private, &[part, "uid"]).to_owned());
    }
    user
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scheme_is_read_as_upstream_reads_it() {
        assert_eq!(bearer("Bearer abc"), Some("abc"));
        assert_eq!(bearer("bearer abc"), Some("abc"));
        assert_eq!(bearer("Bearer abc def"), Some("abc"));
        for none in ["", "Bearer", "Bearer ", "Bearer  abc", "Basic abc", "Token abc"] {
            assert_eq!(bearer(none), None, "{none}");
        }
    }
}
