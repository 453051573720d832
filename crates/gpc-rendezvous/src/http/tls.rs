//! Certificate and key of a server, read from files.

use std::io;

use super::options::Tls;

/// Accepts TLS connections.
#[cfg(feature = "tls")]
pub(super) type Acceptor = tokio_rustls::TlsAcceptor;

/// A type without values: this program is built without TLS.
#[cfg(not(feature = "tls"))]
#[derive(Clone, Debug)]
pub(super) enum Acceptor {}

/// Reads certificate and key.
///
/// # Errors
/// Returns an error if a file cannot be read, or lacks the certificate or key.
#[cfg(feature = "tls")]
pub(super) fn acceptor(tls: &Tls) -> io::Result<Acceptor> {
    use std::sync::Arc;

    use rustls::pki_types::pem::PemObject as _;
    use rustls::pki_types::{CertificateDer, PrivateKeyDer};

    use crate::certificate_file;

    let wrong = |file: &std::path::Path, what: &str, why: String| {
        io::Error::new(io::ErrorKind::InvalidInput, format!("{}: no {what} is in it: {why}", file.display()))
    };
    let pem = |file: &std::path::Path, what: &str| {
        certificate_file::read(file).map_err(|error| {
            let why = format!("{}: the {what} cannot be read: {error}", file.display());
            io::Error::new(error.kind(), why)
        })
    };
    let certificates = CertificateDer::pem_slice_iter(&pem(&tls.cert, "certificate (PEM)")?)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| wrong(&tls.cert, "certificate (PEM)", error.to_string()))?;
    let key = PrivateKeyDer::from_pem_slice(&pem(&tls.key, "private key (PEM)")?)
        .map_err(|error| wrong(&tls.key, "private key (PEM)", error.to_string()))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?
        .with_no_client_auth()
        .with_single_cert(certificates, key)
        .map_err(|error| wrong(&tls.cert, "certificate that goes with the key", error.to_string()))?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config).into())
}

/// Reports that this program is built without TLS.
///
/// # Errors
/// Always returns an error.
#[cfg(not(feature = "tls"))]
pub(super) fn acceptor(_: &Tls) -> io::Result<Acceptor> {
    let message = "this program was built without TLS: build it with the feature `tls`";
    Err(io::Error::new(io::ErrorKind::Unsupported, message))
}
