//! Certificates for one test.

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
};

/// Who is vouched for, as what.
#[derive(Clone, Copy)]
pub enum For {
    /// Somebody who serves.
    Server,
    /// Somebody who asks.
    Client,
}

/// Somebody who vouches for others.
pub struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Default for Authority {
    fn default() -> Self {
        Self::new()
    }
}

impl Authority {
    /// One that nobody else trusts.
    #[must_use]
    pub fn new() -> Self {
        let mut params = CertificateParams::new([]).expect("no names");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, "a test's authority");
        let key = KeyPair::generate().expect("a key");
        Authority(CertifiedIssuer::self_signed(params, key).expect("an authority"))
    }

    /// The certificate, in PEM form.
    #[must_use]
    pub fn pem(&self) -> String {
        self.0.pem()
    }

    /// A certificate and its key, in PEM form, for somebody on this machine.
    #[must_use]
    pub fn issue(&self, name: &str, whom: For) -> (String, String) {
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::new(["127.0.0.1".to_owned()]).expect("an address");
        params.distinguished_name.push(DnType::CommonName, name);
        params.extended_key_usages.push(match whom {
            For::Server => ExtendedKeyUsagePurpose::ServerAuth,
            For::Client => ExtendedKeyUsagePurpose::ClientAuth,
        });
        let certificate = params.signed_by(&key, &self.0).expect("a certificate");
        (certificate.pem(), key.serialize_pem())
    }
}
