//! Errors of the HTTP client.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use chained_gpc::Shown;

use super::url::UrlError;
use crate::machine::Fault;

/// Why a request has failed, as far as is known.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// The service rejects the request, or the rendezvous cannot complete.
    #[error("{}", Shown(&.0.message))]
    Fault(Fault),
    /// The service does not answer.
    #[error(
        "the rendezvous service at {service} cannot be reached: {why}; see that it runs there (`gpc rendezvous serve`), and that the URL is right"
    )]
    Unreachable {
        /// URL of the service.
        service: String,
        /// The last attempt and its failure.
        why: String,
    },
    /// The service answers that it is not available: it is ending, or cannot write its store.
    #[error("the rendezvous service at {service} refuses the request for now: {why}; try again later")]
    Unavailable {
        /// URL of the service.
        service: String,
        /// Its reason.
        why: String,
    },
    /// The certificate of the service is not valid.
    #[error("the rendezvous service at {service} is not believed: {why}")]
    Certificate {
        /// URL of the service.
        service: String,
        /// What is wrong with the certificate, and the remedy.
        why: String,
    },
    /// The answer is not one of a rendezvous service, or is malformed.
    #[error(
        "what answers at {service} is no rendezvous service that is understood here: {what}; check the URL"
    )]
    Nonsense {
        /// URL of the service.
        service: String,
        /// The answer.
        what: String,
    },
    /// The rendezvous is not complete within the limit.
    #[error(
        "the rendezvous was not complete within {} s: `gpc rendezvous show` says how many are there, and who is missing",
        limit.as_secs_f64()
    )]
    NotYet {
        /// The limit.
        limit: Duration,
    },
    /// The subscription was ended by its [`Stopper`](super::Stopper).
    #[error("the subscription was ended by another thread")]
    Stopped,
    /// The text is not the URL of a service.
    #[error(transparent)]
    Url(#[from] UrlError),
    /// The URL is one of https, and no certificate authority is configured.
    #[error(
        "{service} is a URL of https: name the file with the certificate of the authority that has signed the service's (GPC_RENDEZVOUS_CA_FILE, --ca FILE)"
    )]
    NoAuthority {
        /// URL of the service.
        service: String,
    },
    /// The service requires a token, and this service's token may not be sent there.
    #[error(
        "the service at {service} wants a token, and that of this service goes over http to no other host that it was not told of: start it with `gpc rendezvous serve --above {service}`, or have the one above serve https"
    )]
    Withheld {
        /// URL of the service.
        service: String,
    },
    /// The file of certificates cannot be used.
    #[error("{}: {why}", file.display())]
    Authority {
        /// The file.
        file: PathBuf,
        /// The reason.
        why: String,
    },
    /// The calling thread runs asynchronous tasks, which a blocking wait would delay.
    #[error(
        "a blocking client cannot be used on a thread that runs asynchronous tasks: give it a thread of its own"
    )]
    OnAsyncThread,
    /// A system call has failed.
    #[error("cannot speak to a rendezvous service: {0}")]
    System(#[from] io::Error),
}

impl ClientError {
    /// The fault of the service, if there is one.
    pub fn fault(&self) -> Option<&Fault> {
        match self {
            ClientError::Fault(fault) => Some(fault),
            _ => None,
        }
    }
}
