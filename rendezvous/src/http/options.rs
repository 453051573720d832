//! What a server is started with.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use crate::client::ServiceUrl;
use crate::machine::Limits;
use crate::store::Store;
use crate::token::ServiceToken;

/// What a server is started with.
#[non_exhaustive]
pub struct Options {
    /// Where it listens. With port 0 the system chooses one.
    pub listen: SocketAddr,
    /// The URL of the service, which stands in handles: what clients reach it by, if that is not the address that it listens at. The service's paths follow it.
    pub url: Option<String>,
    /// What clients must send, `Authorization: Bearer TOKEN`.
    pub token: Option<ServiceToken>,
    /// What the page asks for where [`token`](Self::token) is `None`. Without either nobody sees the page.
    pub page_token: Option<ServiceToken>,
    /// File with the certificates (PEM) of the authority that has signed those of services above that are reached over https: this service registers the data of resources with a parent there.
    pub ca: Option<PathBuf>,
    /// Services on other hosts that get the token over plain HTTP, when this one registers data of its resources there. Clients say where the resources above are, so no other service gets it, but over https or on this host.
    pub above: Vec<ServiceUrl>,
    /// Where what is registered outlives the process.
    pub store: Option<Box<dyn Store>>,
    /// What the service allows.
    pub limits: Limits,
    /// Listen beyond loopback though there is no token: whoever reaches the port may do everything.
    pub insecure: bool,
    /// Speak HTTP over TLS.
    pub tls: Option<Tls>,
    /// Most connections. Beyond it the one that has been idle for longest is closed, and where none is idle the newest is refused.
    pub connections: usize,
    /// Most server-sent streams.
    pub streams: usize,
    /// Most bytes of bodies that are under way together.
    pub bodies: u64,
    /// Most bytes of data that are on their way to clients together, at most [`Limits::held`]; the same data are counted once. Once it is reached, no further data leave.
    pub answers: u64,
    /// Threads that serve.
    pub threads: usize,
    /// How long clients may take.
    pub times: Times,
}

/// How long clients may take.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Times {
    /// For the handshake of TLS, and for the head of a request from its first byte on.
    pub head: Duration,
    /// Between two requests on a connection.
    pub idle: Duration,
    /// Without a byte of a body that is awaited, and without taking a byte of an answer. What comes faster than it must gives no more than this time again.
    pub silent: Duration,
}

/// Slowest that a body may come, bytes a second: 64 MiB take 17 minutes then.
pub(super) const BODY_RATE_MIN: u64 = 64 << 10;

/// Slowest that an answer may be taken while few bytes are on their way, bytes a second.
pub(super) const RATE_MIN: u64 = 16 << 10;

/// Certificate and key of a server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Tls {
    /// File with the certificates, the server's own first, PEM.
    pub cert: PathBuf,
    /// File with the private key, PEM.
    pub key: PathBuf,
}

impl Options {
    /// A server at this address, without a token, a store or TLS, with limits that a machine of a few GiB stands.
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
