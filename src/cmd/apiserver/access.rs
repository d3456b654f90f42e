//! Who may ask the API server, and by which address and certificate.
//!
//! Decides from flags which credentials there are, refuses to be open to a network without any, and writes the kubeconfig of an
//! administrator. Never serves. Answers to `--token-auth-file`, `--client-ca-file` and the serving options of kube-apiserver.

use std::io::{Error, ErrorKind, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use clap::Args;
use fake_apiserver::{Tls, Token};
use serde_json::{Value, json};

/// Flags about who may come in.
#[derive(Debug, Args)]
pub(super) struct Access {
    /// Serve HTTPS, with a certificate that is made for this run. With a data folder its authority is the same in each run.
    #[arg(long, env = "PVBIND_TLS", conflicts_with = "tls_cert_file")]
    tls: bool,
    /// The certificate to show, with its chain, in PEM form.
    #[arg(long, env = "PVBIND_TLS_CERT_FILE", value_name = "FILE", requires = "tls_private_key_file")]
    tls_cert_file: Option<PathBuf>,
    /// Its key.
    #[arg(long, env = "PVBIND_TLS_PRIVATE_KEY_FILE", value_name = "FILE", requires = "tls_cert_file")]
    tls_private_key_file: Option<PathBuf>,
    /// The authorities whose certificates say who a client is; clients without one need a token.
    #[arg(long, env = "PVBIND_CLIENT_CA_FILE", value_name = "FILE", requires = "tls_cert_file")]
    client_ca_file: Option<PathBuf>,
    /// The bearer token of an administrator; whoever has no credentials is refused.
    #[arg(long, env = "PVBIND_TOKEN", value_name = "TOKEN")]
    token: Option<String>,
    /// A file of tokens, as kube-apiserver reads it: token,user,uid,"group1,group2".
    #[arg(long, env = "PVBIND_TOKEN_AUTH_FILE", value_name = "FILE")]
    token_auth_file: Option<PathBuf>,
    /// Where to write a kubeconfig with which an administrator gets in.
    #[arg(long, visible_alias = "write-kubeconfig", env = "PVBIND_KUBECONFIG_OUT", value_name = "FILE")]
    pub(super) kubeconfig_out: Option<PathBuf>,
}

/// What the flags come to.
pub(super) struct Prepared {
    pub(super) tls: Option<Tls>,
    pub(super) tokens: Vec<Token>,
    pub(super) credentials_required: bool,
    /// What clients have to trust, in PEM form.
    authority: Option<String>,
    /// The certificate and key of an administrator, in PEM form.
    admin: Option<(String, String)>,
}

impl Access {
    /// Reads files, makes certificates, and refuses what would be open to everybody.
    pub(super) fn prepare(&self, listen: SocketAddr, folder: Option<&Path>) -> Result<Prepared, String> {
        let mut tokens: Vec<Token> = self.token.iter().map(|token| Token::admin(token)).collect();
        if let Some(file) = &self.token_auth_file {
            let read = Token::read_all(&read(file)?);
            tokens.extend(read.map_err(|error| format!("{}: {error}", file.display()))?);
        }
        if tokens.iter().any(|token| token.token.is_empty()) {
            return Err("a token is empty: give --token a value, or leave it out".to_owned());
        }
        let open = !listen.ip().is_loopback();
        let credentials_required = self.client_ca_file.is_some() || self.tls && open;
        if open && tokens.is_empty() && !credentials_required {
            return Err(format!(
                "refuses to serve everybody on {listen} without credentials: add --token or --token-auth-file, with --tls so that \
                 they stay secret, or listen on 127.0.0.1"
            ));
        }
        let mut prepared = Prepared { tls: None, tokens, credentials_required, authority: None, admin: None };
        if self.tls {
            let made = match folder {
                Some(folder) => Tls::generate_in(folder, &[listen.ip()]),
                None => Tls::generate(&[listen.ip()]),
            };
            let made = made.map_err(|error| error.to_string())?;
            prepared.tls = Some(made.tls);
            prepared.authority = Some(made.authority);
            prepared.admin = Some(made.admin);
        } else if let Some((certificate, key)) =
            self.tls_cert_file.as_ref().zip(self.tls_private_key_file.as_ref())
        {
            let clients = self.client_ca_file.as_deref().map(read).transpose()?;
            let tls = Tls::read(&read(certificate)?, &read(key)?, clients.as_deref());
            let named = |error| format!("{} and {}: {error}", certificate.display(), key.display());
            prepared.tls = Some(tls.map_err(named)?);
        }
        Ok(prepared)
    }

    /// Writes the kubeconfig that was asked for, for the owner's eyes alone.
    pub(super) fn write_kubeconfig(&self, prepared: &Prepared, url: &str) -> std::io::Result<()> {
        let Some(file) = &self.kubeconfig_out else { return Ok(()) };
        let text = prepared.kubeconfig(url)?;
        write_secret(file, text.as_bytes())
            .map_err(|error| Error::new(error.kind(), format!("kubeconfig {}: {error}", file.display())))
    }
}

impl Prepared {
    /// What clients have to trust, where it was made for this run, in PEM form.
    pub(super) fn authority(&self) -> Option<&str> {
        self.authority.as_deref()
    }

    /// What an administrator needs to get in by this address, in YAML.
    pub(super) fn kubeconfig(&self, url: &str) -> std::io::Result<String> {
        serde_saphyr::to_string(&kubeconfig(self, url)).map_err(Error::other)
    }
}

fn read(file: &Path) -> Result<String, String> {
    std::fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))
}

/// A file that others cannot read, also where there was one that they could.
fn write_secret(file: &Path, text: &[u8]) -> std::io::Result<()> {
    use std::os::unix::fs::OpenOptionsExt;
    if let Err(error) = std::fs::remove_file(file)
        && error.kind() != ErrorKind::NotFound
    {
        return Err(error);
    }
    std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(file)?.write_all(text)
}

fn kubeconfig(prepared: &Prepared, url: &str) -> Value {
    let encoded = |pem: &str| k8s_openapi::ByteString(pem.as_bytes().to_vec());
    let mut cluster = json!({"server": url});
    if let Some(authority) = &prepared.authority {
        cluster["certificate-authority-data"] = json!(encoded(authority));
    }
    let user = match (prepared.tokens.first(), &prepared.admin) {
        (Some(token), _) => json!({"token": token.token}),
        (None, Some((certificate, key))) => {
            json!({"client-certificate-data": encoded(certificate), "client-key-data": encoded(key)})
        }
        (None, None) => json!({}),
    };
    json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "pvbind",
        "clusters": [{"name": "pvbind", "cluster": cluster}],
        "users": [{"name": "admin", "user": user}],
        "contexts": [{"name": "pvbind", "context": {"cluster": "pvbind", "user": "admin"}}],
    })
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        access: Access,
    }

    fn prepare(listen: &str, flags: &[&str]) -> Result<Prepared, String> {
        let line =
            Line::try_parse_from(["apiserver"].iter().chain(flags)).map_err(|error| error.to_string())?;
        line.access.prepare(listen.parse().expect("an address"), None)
    }

    #[test]
    fn a_network_is_served_with_credentials_alone() {
        for (listen, flags, good) in [
            ("127.0.0.1:0", &[][..], true),
            ("[::1]:0", &[], true),
            ("0.0.0.0:0", &[], false),
            ("10.1.2.3:0", &[], false),
            ("0.0.0.0:0", &["--token", "t"], true),
            ("0.0.0.0:0", &["--tls"], true),
            ("127.0.0.1:0", &["--token", ""], false),
        ] {
            let prepared = prepare(listen, flags);
            assert_eq!(prepared.is_ok(), good, "{listen} {flags:?} {:?}", prepared.err());
        }
        let open = prepare("0.0.0.0:0", &["--tls"]).expect("it is served");
        assert!(open.credentials_required);
    }

    #[test]
    fn the_kubeconfig_has_what_gets_an_administrator_in() {
        let with_token = prepare("127.0.0.1:0", &["--tls", "--token", "t"]).expect("flags");
        let config = kubeconfig(&with_token, "https://127.0.0.1:1");
        assert_eq!(config["users"][0]["user"], json!({"token": "t"}));
        assert!(config["clusters"][0]["cluster"]["certificate-authority-data"].is_string());
        let with_certificate = prepare("127.0.0.1:0", &["--tls"]).expect("flags");
        let config = kubeconfig(&with_certificate, "https://127.0.0.1:1");
        assert!(config["users"][0]["user"]["client-key-data"].is_string());
    }
}
