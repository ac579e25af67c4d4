//! The identity of an instance. Only the manager and the nodes of the instance have it.
//!
//! It is a certificate for TLS. The authority that signs it is made for this instance alone, and its key is thrown away.
//! All nodes share it: what one node may do, the others may, too. The nodes get it from the launcher's PMI, which only
//! processes of the same step can read. It must not be on a command line, in the environment of a job or in a log.

use std::fmt;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as TEXT;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, ExtendedKeyUsagePurpose, IsCa, KeyPair,
};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer, ServerName};
use rustls::server::WebPkiClientVerifier;
use rustls::version::TLS13;
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use tokio_rustls::{TlsAcceptor, TlsConnector};

/// The name in the certificate, which stands for any process of the instance.
const NAME: &str = "instance.jobtap.invalid";

/// The identity of one instance.
#[derive(Clone)]
pub struct Identity {
    authority: CertificateDer<'static>,
    certificate: CertificateDer<'static>,
    key: Vec<u8>,
}

/// Shows nothing: the key must not get into a log.
impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Identity")
    }
}

/// An identity can't be made or used.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    /// No certificate can be made.
    #[error("no certificate can be made for the instance: {0}")]
    Certificate(#[from] rcgen::Error),
    /// TLS can't be set up with it.
    #[error("the certificate of the instance can't be used: {0}")]
    Tls(#[from] rustls::Error),
    /// The verification of the other end can't be set up.
    #[error("the certificate of the instance can't be used: {0}")]
    Verifier(#[from] rustls::server::VerifierBuilderError),
    /// A text that isn't an identity.
    #[error("the launcher has handed over something else than the identity of an instance")]
    Damaged,
}

impl Identity {
    /// Makes the identity of a new instance.
    ///
    /// # Errors
    /// The system has no random numbers.
    pub fn new() -> Result<Self, IdentityError> {
        let mut authority = CertificateParams::new(Vec::new())?;
        authority.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate()?)?;
        let mut own = CertificateParams::new([NAME.to_owned()])?;
        own.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        let key = KeyPair::generate()?;
        let certificate = own.signed_by(&key, &authority)?;
        Ok(Self {
            authority: authority.der().clone(),
            certificate: certificate.der().clone(),
            key: key.serialize_der(),
        })
    }

    /// The identity as a text for the other nodes.
    pub fn encode(&self) -> String {
        [&*self.authority, &*self.certificate, &self.key].map(|part| TEXT.encode(part)).join(".")
    }

    /// The identity that [`encode`](Self::encode) has written.
    ///
    /// # Errors
    /// [`IdentityError::Damaged`] for any other text.
    pub fn decode(text: &str) -> Result<Self, IdentityError> {
        let parts: Result<Vec<Vec<u8>>, _> =
            text.split('.').map(|part| TEXT.decode(part)).collect();
        match <[Vec<u8>; 3]>::try_from(parts.map_err(|_| IdentityError::Damaged)?) {
            Ok([authority, certificate, key]) => {
                Ok(Self { authority: authority.into(), certificate: certificate.into(), key })
            }
            Err(_) => Err(IdentityError::Damaged),
        }
    }

    fn provider() -> Arc<CryptoProvider> {
        Arc::new(ring::default_provider())
    }

    fn roots(&self) -> Result<Arc<RootCertStore>, IdentityError> {
        let mut roots = RootCertStore::empty();
        roots.add(self.authority.clone())?;
        Ok(Arc::new(roots))
    }

    fn own_key(&self) -> PrivatePkcs8KeyDer<'static> {
        self.key.clone().into()
    }

    /// Accepts connections of the instance's nodes.
    pub(super) fn acceptor(&self) -> Result<TlsAcceptor, IdentityError> {
        let provider = Self::provider();
        let verifier =
            WebPkiClientVerifier::builder_with_provider(self.roots()?, Arc::clone(&provider));
        let config = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&TLS13])?
            .with_client_cert_verifier(verifier.build()?)
            .with_single_cert(vec![self.certificate.clone()], self.own_key().into())?;
        Ok(TlsAcceptor::from(Arc::new(config)))
    }

    /// Connects to the instance's manager, whatever its address.
    pub(super) fn connector(&self) -> Result<(TlsConnector, ServerName<'static>), IdentityError> {
        let config = ClientConfig::builder_with_provider(Self::provider())
            .with_protocol_versions(&[&TLS13])?
            .with_root_certificates(self.roots()?)
            .with_client_auth_cert(vec![self.certificate.clone()], self.own_key().into())?;
        let name = ServerName::try_from(NAME).map_err(|_| IdentityError::Damaged)?;
        Ok((TlsConnector::from(Arc::new(config)), name))
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    /// Whether a node with one identity reaches a manager with another, and the manager hears it.
    async fn meets(node: &Identity, manager: &Identity) -> bool {
        let (here, there) = tokio::io::duplex(64 * 1024);
        let (connector, name) = node.connector().unwrap();
        let acceptor = manager.acceptor().unwrap();
        let node = async {
            let mut stream = connector.connect(name, here).await.ok()?;
            stream.write_all(b"x").await.ok()?;
            stream.read_u8().await.ok()
        };
        let manager = async {
            let mut stream = acceptor.accept(there).await.ok()?;
            let byte = stream.read_u8().await.ok()?;
            stream.write_all(b"y").await.ok()?;
            Some(byte)
        };
        tokio::join!(node, manager) == (Some(b'y'), Some(b'x'))
    }

    #[tokio::test]
    async fn only_nodes_of_the_instance_are_heard() {
        let (own, other) = (Identity::new().unwrap(), Identity::new().unwrap());
        let handed_over = Identity::decode(&own.encode()).unwrap();
        assert!(meets(&handed_over, &own).await);
        assert!(!meets(&other, &own).await);
        // A certificate of another authority with the same name.
        let mixed = Identity { authority: own.authority.clone(), ..other.clone() };
        assert!(!meets(&mixed, &own).await);
        assert!(!meets(&own, &mixed).await);
    }

    #[test]
    fn a_damaged_identity_is_refused_and_a_key_is_not_shown() {
        let identity = Identity::new().unwrap();
        for text in ["", "a.b", "é.é.é", &format!("{}.x", identity.encode())] {
            assert!(Identity::decode(text).is_err(), "{text}");
        }
        assert_eq!(format!("{identity:?}"), "Identity");
    }
}
