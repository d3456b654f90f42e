//! Decides how the tokens of service accounts are signed and checked: JSON Web Tokens, HS256 with a key that
//! only this server has. Never says whether what a token names still exists. Answers to
//! `kubernetes/pkg/serviceaccount/jwt.go`, which signs with a private key instead, so that others can check.

use std::path::Path;

use ring::hmac;
use ring::rand::{SecureRandom, SystemRandom};
use serde_json::{Value, json};

use crate::auth::ISSUER;
use crate::continuation::{base64, unbase64};
use crate::kept;
use crate::log::OpenError;
use crate::options::Ids;

/// The longest token that is looked at.
const LONGEST: usize = 16 * 1024;

/// Where a folder has its key.
const FILE: &str = "token.key";
/// A shorter key could be guessed.
const SHORTEST: usize = 16;

/// The secret with which tokens are signed.
pub(crate) struct Key(hmac::Key);

impl Key {
    /// A key that nobody can guess; with a seed, the same one each time, as tests want it.
    pub(crate) fn new(ids: Ids) -> Self {
        let mut secret = [0; 32];
        if let Ids::Seeded(seed) = ids {
            secret[..8].copy_from_slice(&seed.to_le_bytes());
        } else if let Some(random) = random() {
            secret = random;
        } else {
            tracing::error!("the system has no random numbers: tokens of service accounts can be forged");
        }
        Self(hmac::Key::new(hmac::HMAC_SHA256, &secret))
    }

    /// The key of a folder, so that tokens stay good when its server starts again; with a seed, as without the folder.
    pub(crate) fn of(folder: &Path, ids: Ids) -> Result<Self, OpenError> {
        if let Ids::Seeded(_) = ids {
            return Ok(Self::new(ids));
        }
        let path = folder.join(FILE);
        let secret = kept::secret(&path, || Some(random()?.to_vec())).map_err(OpenError::io(&path))?;
        if secret.len() < SHORTEST {
            let why = format!("a key has at least {SHORTEST} bytes");
            return Err(OpenError::Damaged { path, offset: 0, why });
        }
        Ok(Self(hmac::Key::new(hmac::HMAC_SHA256, &secret)))
    }

    /// A token with these claims.
    pub(crate) fn sign(&self, claims: &Value) -> String {
        let header = json!({"alg": "HS256", "typ": "JWT"}).to_string();
        let signed = format!("{}.{}", base64(header.as_bytes()), base64(claims.to_string().as_bytes()));
        let signature = hmac::sign(&self.0, signed.as_bytes());
        format!("{signed}.{}", base64(signature.as_ref()))
    }

    /// The claims of a token that was signed with this key and is valid now, in seconds.
    pub(crate) fn verify(&self, token: &str, now: i64) -> Option<Value> {
        let (signed, signature) = token.rsplit_once('.').filter(|_| token.len() <= LONGEST)?;
        hmac::verify(&self.0, signed.as_bytes(), &unbase64(signature).ok()?).ok()?;
        let (_, claims) = signed.split_once('.')?;
        let claims: Value = serde_json::from_slice(&unbase64(claims).ok()?).ok()?;
        let time = |name: &str| claims[name].as_i64();
        let valid = claims["iss"] == ISSUER && time("exp")? > now && time("nbf")? <= now;
        valid.then_some(claims)
    }
}

/// What nobody can guess, if the system has it.
fn random() -> Option<[u8; 32]> {
    let mut secret = [0; 32];
    SystemRandom::new().fill(&mut secret).ok().map(|()| secret)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claims() -> Value {
        json!({"iss": ISSUER, "exp": 200, "nbf": 100, "sub": "a"})
    }

    #[test]
    fn a_token_is_good_between_its_times() {
        let key = Key::new(Ids::Seeded(1));
        let token = key.sign(&claims());
        assert_eq!(key.verify(&token, 100), Some(claims()));
        assert_eq!(key.verify(&token, 199), Some(claims()));
        assert_eq!(key.verify(&token, 99), None);
        assert_eq!(key.verify(&token, 200), None);
    }

    #[test]
    fn other_keys_and_changed_claims_are_noticed() {
        let key = Key::new(Ids::Seeded(1));
        let token = key.sign(&claims());
        assert_eq!(Key::new(Ids::Seeded(2)).verify(&token, 150), None);
        let mut parts: Vec<&str> = token.split('.').collect();
        let forged = base64(json!({"iss": ISSUER, "exp": 999, "nbf": 0}).to_string().as_bytes());
        parts[1] = &forged;
        assert_eq!(key.verify(&parts.join("."), 150), None);
        let unsigned = format!("{}.{}.", base64(br#"{"alg":"none"}"#), parts[1]);
        for nonsense in ["", ".", "..", "a.b.c", &unsigned] {
            assert_eq!(key.verify(nonsense, 150), None, "{nonsense}");
        }
    }
}
