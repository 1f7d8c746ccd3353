//! TLS by rustls with ring, configured by what node:tls calls ca, cert, key, servername, rejectUnauthorized.

use std::sync::Arc;

use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use tokio_rustls::rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use tokio_rustls::rustls::{ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};

use super::{TlsSettings, Trouble};

/// What connections with these settings are made with.
pub(super) fn connector(settings: &TlsSettings) -> Result<TlsConnector, Trouble> {
    let provider = Arc::new(ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(|error| unusable("protocol versions", &error))?;
    let builder = if settings.accept_any {
        builder.dangerous().with_custom_certificate_verifier(Arc::new(AcceptAny(provider)))
    } else {
        builder.with_root_certificates(roots(settings)?)
    };
    let config = match &settings.identity {
        None => builder.with_no_client_auth(),
        Some((certificate, key)) => {
            let chain = certificates("cert", certificate)?;
            let key = PrivateKeyDer::from_pem_slice(key).map_err(|error| unusable("key", &error))?;
            builder.with_client_auth_cert(chain, key).map_err(|error| unusable("cert and key", &error))?
        }
    };
    Ok(TlsConnector::from(Arc::new(config)))
}

/// The name the server's certificate is checked for.
pub(super) fn server_name(settings: &TlsSettings, host: &str) -> Result<ServerName<'static>, Trouble> {
    let name = settings.server_name.as_deref().unwrap_or(host);
    ServerName::try_from(name.to_owned()).map_err(|error| unusable("servername", &error))
}

fn roots(settings: &TlsSettings) -> Result<RootCertStore, Trouble> {
    let mut roots = RootCertStore::empty();
    if let Some(pem) = &settings.authorities {
        for certificate in certificates("ca", pem)? {
            roots.add(certificate).map_err(|error| unusable("ca", &error))?;
        }
    } else {
        // A certificate of the system's that can't be read is the system's affair, as long as others can.
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    }
    Ok(roots)
}

fn certificates(option: &str, pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, Trouble> {
    let found: Vec<_> =
        CertificateDer::pem_slice_iter(pem).collect::<Result<_, _>>().map_err(|error| unusable(option, &error))?;
    if found.is_empty() {
        return Err(unusable(option, &"no certificate in PEM form"));
    }
    Ok(found)
}

fn unusable(option: &str, why: &dyn std::fmt::Display) -> Trouble {
    Trouble::definite("ERR_TLS", format!("the TLS option {option} can't be used: {why}"))
}

/// For `rejectUnauthorized: false`: encrypts without knowing for whom.
#[derive(Debug)]
struct AcceptAny(Arc<CryptoProvider>);

impl ServerCertVerifier for AcceptAny {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
