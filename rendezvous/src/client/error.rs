//! Why a client has no answer, or none that it can use.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use chained_gpc::Shown;

use super::url::UrlError;
use crate::machine::Fault;

/// Why something that a service was asked for was not done, as far as is known.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// The service refuses, or the rendezvous will never be complete.
    #[error("{}", Shown(&.0.message))]
    Fault(Fault),
    /// Nobody answers, or no longer.
    #[error(
        "the rendezvous service at {service} cannot be reached: {why}; see that it runs there (`gpc rendezvous serve`), and that the URL is right"
    )]
    Unreachable {
        /// The URL of the service.
        service: String,
        /// What was tried last, and how that went.
        why: String,
    },
    /// Its certificate is not one to believe.
    #[error("the rendezvous service at {service} is not believed: {why}")]
    Certificate {
        /// The URL of the service.
        service: String,
        /// What is wrong with its certificate, and what to do about it.
        why: String,
    },
    /// Something else answers than a service, or one that says what makes no sense.
    #[error(
        "what answers at {service} is no rendezvous service that is understood here: {what}; check the URL"
    )]
    Nonsense {
        /// The URL of the service.
        service: String,
        /// What it says.
        what: String,
    },
    /// The rendezvous is not complete by now.
    #[error(
        "the rendezvous was not complete within {} s: `gpc rendezvous show` says how many are there, and who is missing",
        limit.as_secs_f64()
    )]
    NotYet {
        /// How long was waited.
        limit: Duration,
    },
    /// A text that is no URL of a service.
    #[error(transparent)]
    Url(#[from] UrlError),
    /// The URL says `https`, and nothing says whose certificates count.
    #[error(
        "{service} is a URL of https: name the file with the certificate of the authority that has signed the service's (GPC_RENDEZVOUS_CA_FILE, --ca FILE)"
    )]
    NoAuthority {
        /// The URL of the service.
        service: String,
    },
    /// The service wants the token, which does not go there.
    #[error(
        "the service at {service} wants a token, and that of this service goes over http to no other host that it was not told of: start it with `gpc rendezvous serve --above {service}`, or have the one above serve https"
    )]
    Withheld {
        /// The URL of the service.
        service: String,
    },
    /// The file of certificates cannot be used.
    #[error("{}: {why}", file.display())]
    Authority {
        /// The file.
        file: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// A wait of the calling thread would hold up an asynchronous task.
    #[error(
        "a blocking client cannot be used on a thread that runs asynchronous tasks: give it a thread of its own"
    )]
    OnAsyncThread,
    /// The system gives nothing to work with.
    #[error("cannot speak to a rendezvous service: {0}")]
    System(#[from] io::Error),
}

impl ClientError {
    /// What the service has said, if it has.
    pub fn fault(&self) -> Option<&Fault> {
        match self {
            ClientError::Fault(fault) => Some(fault),
            _ => None,
        }
    }
}
