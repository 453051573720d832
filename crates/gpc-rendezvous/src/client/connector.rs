//! Connector of the HTTP client: over TCP, and over TLS if that is built in.

use std::error::Error;
use std::path::Path;
use std::time::Duration;

use super::error::ClientError;
use super::names::{self, Names};
use super::url::ServiceUrl;
use super::without_signals::WithoutSignals;

/// Time limit for a connection attempt.
const CONNECT: Duration = Duration::from_secs(5);

/// Silence after which the system asks whether the other end is there, the time between such questions, and how many
/// stay without an answer: the end of a host is noticed within a minute.
const KEEPALIVE: Duration = Duration::from_secs(15);
const KEEPALIVE_UNANSWERED: u32 = 3;

type HttpConnector = WithoutSignals<hyper_util::client::legacy::connect::HttpConnector<Names>>;

#[cfg(feature = "tls")]
pub(super) type Connector = hyper_rustls::HttpsConnector<HttpConnector>;
#[cfg(not(feature = "tls"))]
pub(super) type Connector = HttpConnector;

fn tcp() -> HttpConnector {
    let names = Names::new(names::LIMIT);
    let mut tcp = hyper_util::client::legacy::connect::HttpConnector::new_with_resolver(names);
    tcp.set_connect_timeout(Some(CONNECT));
    tcp.set_nodelay(true);
    tcp.set_keepalive(Some(KEEPALIVE));
    tcp.set_keepalive_interval(Some(KEEPALIVE));
    tcp.set_keepalive_retries(Some(KEEPALIVE_UNANSWERED));
    // With TLS, accept https URLs as well.
    tcp.enforce_http(cfg!(not(feature = "tls")));
    WithoutSignals(tcp)
}

/// A connector over TCP and TLS. It accepts certificates that this authority has signed.
#[cfg(feature = "tls")]
pub(super) fn new(ca: Option<&Path>) -> Result<Connector, ClientError> {
    use std::sync::Arc;

    use rustls::pki_types::CertificateDer;
    use rustls::pki_types::pem::PemObject as _;

    use crate::certificate_file;

    let mut roots = rustls::RootCertStore::empty();
    if let Some(file) = ca {
        let error = |why: String| ClientError::Authority { file: file.to_owned(), why };
        let bytes = certificate_file::read(file).map_err(|why| error(why.to_string()))?;
        for certificate in CertificateDer::pem_slice_iter(&bytes) {
            let certificate = certificate.map_err(|why| error(why.to_string()))?;
            roots.add(certificate).map_err(|why| error(why.to_string()))?;
        }
        if roots.is_empty() {
            return Err(error(
                "it has no certificate: write it in PEM, from `-----BEGIN CERTIFICATE-----` on".into(),
            ));
        }
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(std::io::Error::other)?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(hyper_rustls::HttpsConnectorBuilder::new()
        .with_tls_config(config)
        .https_or_http()
        .enable_http1()
        .wrap_connector(tcp()))
}

/// A connector over TCP.
#[cfg(not(feature = "tls"))]
pub(super) fn new(_: Option<&Path>) -> Result<Connector, ClientError> {
    Ok(tcp())
}

/// The error for an https URL if no authority is configured.
pub(super) fn no_authority(service: &ServiceUrl) -> ClientError {
    match cfg!(feature = "tls") {
        true => ClientError::NoAuthority { service: service.as_str().to_owned() },
        false => ClientError::System(std::io::Error::new(
            std::io::ErrorKind::Unsupported,
            "the URL is one of https, and this program was built without TLS",
        )),
    }
}

/// If the error is about a service's certificate, returns the reason. A retry would give the same result.
#[cfg(feature = "tls")]
pub(super) fn refused(error: &(dyn Error + 'static)) -> Option<String> {
    use rustls::CertificateError;

    /// What `webpki` says of a certificate of an authority. `openssl req -x509` makes such ones.
    const OF_AUTHORITY: &str = "CaUsedAsEndEntity";

    let rustls::Error::InvalidCertificate(why) = error.downcast_ref()? else { return None };
    Some(match why {
        // `BadSignature` occurs if an authority of the same name has another key.
        CertificateError::UnknownIssuer | CertificateError::BadSignature => {
            "no authority in the CA file has signed its certificate: name the file of the one that has (GPC_RENDEZVOUS_CA_FILE, --ca FILE)".into()
        }
        CertificateError::Other(other) if other.to_string().contains(OF_AUTHORITY) => {
            "its certificate is that of an authority, which signs others: sign one for the service with it, or make one with `openssl req -x509 -addext basicConstraints=critical,CA:FALSE`".into()
        }
        _ => format!("{error}; see that its certificate holds now and for the host in the URL, and that the CA file is the right one (GPC_RENDEZVOUS_CA_FILE, --ca FILE)"),
    })
}

#[cfg(not(feature = "tls"))]
pub(super) fn refused(_: &(dyn Error + 'static)) -> Option<String> {
    None
}

/// A hint, if an error suggests that the service speaks http although the URL says https.
#[cfg(feature = "tls")]
pub(super) fn plain(error: &(dyn Error + 'static)) -> &'static str {
    match error.downcast_ref() {
        Some(rustls::Error::InvalidMessage(_)) => "; the URL says https: is it http?",
        _ => "",
    }
}

#[cfg(not(feature = "tls"))]
pub(super) fn plain(_: &(dyn Error + 'static)) -> &'static str {
    ""
}
