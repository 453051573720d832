//! Options of a server.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use crate::client::ServiceUrl;
use crate::machine::Limits;
use crate::store::Store;
use crate::token::ServiceToken;

/// Options of a server.
#[non_exhaustive]
pub struct Options {
    /// Address to listen at. If the port is 0, the system chooses one.
    pub listen: SocketAddr,
    /// URL of the service in its handles, if clients reach it by another URL than the address it listens at. The paths
    /// of the service follow this URL.
    pub url: Option<String>,
    /// Token that clients must send, as `Authorization: Bearer TOKEN`.
    pub token: Option<ServiceToken>,
    /// Token for the page if [`token`](Self::token) is `None`. If both are `None`, the page is closed.
    pub page_token: Option<ServiceToken>,
    /// File with the certificates (PEM) of the authority for https services that own parent resources. This service
    /// registers data there.
    pub ca: Option<PathBuf>,
    /// Services on other hosts that receive the token over plain HTTP, when this one registers data with a parent
    /// there. Clients name the parents, so any other service gets the token only over https or on this host.
    pub above: Vec<ServiceUrl>,
    /// Persistent storage for the service's state.
    pub store: Option<Box<dyn Store>>,
    /// Limits of the service.
    pub limits: Limits,
    /// Allows listening beyond loopback without a token: every host that reaches the port has full access.
    pub insecure: bool,
    /// Certificate and key, to serve HTTP over TLS.
    pub tls: Option<Tls>,
    /// Most connections. Beyond this the connection that has been idle longest is closed, or one without an admitted
    /// request. If there is neither, the newest is rejected.
    pub connections: usize,
    /// Most server-sent streams.
    pub streams: usize,
    /// Most bytes of request bodies in progress.
    pub bodies: u64,
    /// Most bytes of response data in progress, at most [`Limits::held`]; shared data count once. When it is reached,
    /// further data are rejected.
    pub answers: u64,
    /// Number of server threads.
    pub threads: usize,
    /// Time limits for clients.
    pub times: Times,
}

/// Time limits for clients.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Times {
    /// For the TLS handshake, and for the head of a request from its first byte.
    pub head: Duration,
    /// Between two requests on a connection.
    pub idle: Duration,
    /// Without a byte of an expected body, and without taking a byte of an answer. A fast transfer restores at most
    /// this time.
    pub silent: Duration,
}

/// Lowest rate of a request body, bytes a second: 64 MiB take 17 minutes at this rate.
pub(super) const BODY_RATE_MIN: u64 = 64 << 10;

/// Lowest rate at which a client must take an answer while little data are in progress, bytes a second.
pub(super) const RATE_MIN: u64 = 16 << 10;

/// Certificate and key of a server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Tls {
    /// File with the certificates (PEM), the server's own first.
    pub cert: PathBuf,
    /// File with the private key (PEM).
    pub key: PathBuf,
}

impl Options {
    /// Options for a server at this address, without a token, a store or TLS. The limits suit a machine with a few GiB
    /// of memory.
    pub fn new(listen: SocketAddr) -> Options {
        Options {
            listen,
            url: None,
            token: None,
            page_token: None,
            ca: None,
            above: Vec::new(),
            store: None,
            limits: Limits::default(),
            insecure: false,
            tls: None,
            connections: 16_384,
            streams: 4096,
            bodies: 512 << 20,
            answers: 512 << 20,
            threads: std::thread::available_parallelism().map_or(1, usize::from).min(4),
            times: Times::default(),
        }
    }
}

impl Default for Times {
    fn default() -> Times {
        Times {
            head: Duration::from_secs(10),
            idle: Duration::from_secs(75),
            silent: Duration::from_secs(30),
        }
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("listen", &self.listen)
            .field("url", &self.url)
            .finish_non_exhaustive()
    }
}
