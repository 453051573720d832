//! The HTTP server: its listener, threads and shutdown.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use axum::http::Uri;
use chained_gpc::Shown;
use chained_gpc::bootstrap::host_addresses;
use socket2::{SockRef, TcpKeepalive};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{Semaphore, watch};
use tokio::time::{Instant, sleep};

use super::budget::Budget;
use super::connection;
use super::host::Names;
use super::links::Links;
use super::options::Options;
use super::page::LOGINS_MAX;
use super::poller::Pollers;
use super::response_budget::ResponseBudget;
use super::routes::router;
use super::sessions::Sessions;
use super::shared::Shared;
use super::tls::{Acceptor, acceptor};
use super::wrong_tokens::{LogLimit, WrongTokens};
use crate::client::ClientOptions;
use crate::machine::{Handle, ID_LENGTH, ResourceId};
use crate::parent_driver::{self, ParentDriver};
use crate::service_thread::{Desk, ServiceThread};

/// Most connections that wait to be accepted: some 10,000 tasks may connect at one moment.
const BACKLOG: i32 = 4096;

/// Most new connections that wait for another to close.
const WAITING_MAX: usize = 256;

/// Most open pages: each gets the whole list several times a second.
const PAGES_MAX: usize = 64;

/// Pause after a failed accept, when the system is short of descriptors or memory.
const SHORT: Duration = Duration::from_millis(20);

/// Time that a dropped server gives to requests in progress.
const DROP_LIMIT: Duration = Duration::from_secs(1);

/// Response to a connection that finds no slot.
const FULL: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\nconnection: close\r\ncontent-type: application/problem+json\r\ncontent-length: 183\r\n\r\n{\"type\":\"urn:gpc:rendezvous:fault:service-full\",\"title\":\"The service is full\",\"status\":503,\"detail\":\"too many connections are served: come again a little later\",\"code\":\"service-full\"}";

/// A rendezvous service over HTTP. Dropping it ends the service.
#[derive(Debug)]
pub struct Server {
    url: String,
    address: SocketAddr,
    desk: Desk,
    service_thread: Option<ServiceThread>,
    /// The service's part as controlling task.
    _parent_driver: ParentDriver,
    stopping: watch::Sender<bool>,
    /// Receives a message when all connections have ended.
    ended: Receiver<()>,
    runtime: Option<Runtime>,
}

impl Server {
    /// Starts a service and its server, on threads of their own.
    ///
    /// # Errors
    /// Returns an error if the address cannot be listened at, the store or certificate cannot be read, the URL is
    /// invalid, or a thread cannot start. Also if the server would listen beyond loopback without a token, so that
    /// every host could use it.
    pub fn start(options: Options) -> io::Result<Server> {
        check(&options)?;
        let acceptor = options.tls.as_ref().map(acceptor).transpose()?;
        let listener = listen(options.listen)?;
        let address = listener.local_addr()?;
        let scheme = if acceptor.is_some() { "https" } else { "http" };
        let (url, authority) = named(options.url.as_deref(), scheme, address)?;
        let threads = options.threads.max(1);
        let mut runtime = Builder::new_multi_thread();
        let runtime = runtime.worker_threads(threads).thread_name("rendezvous-http").enable_all().build()?;
        let asked = ClientOptions { token: options.token.clone(), ca: options.ca, ..Default::default() };
        let handle = runtime.handle().clone();
        let parent_driver = parent_driver::new(handle, &url, &options.limits, &asked, &options.above);
        let (on_parent_action, parent_driver) = parent_driver.map_err(io::Error::other)?;
        let service_thread = ServiceThread::start(options.limits, options.store, on_parent_action)?;
        let desk = service_thread.desk().clone();
        parent_driver.begin(&desk);
        let response_budget = ResponseBudget::new(options.answers.min(options.limits.held));
        let shared = Arc::new(Shared {
            desk: desk.clone(),
            path: path_of(&url),
            url: url.clone(),
            names: Names { loopback: address.ip().is_loopback(), authority, scheme },
            limits: options.limits,
            token: options.token,
            page_token: options.page_token,
            bodies: Budget::new(options.bodies, options.times.silent),
            response_budget: Arc::clone(&response_budget),
            pages: Arc::new(Semaphore::new(PAGES_MAX)),
            streams: Arc::new(Semaphore::new(options.streams.min(Semaphore::MAX_PERMITS))),
            logins: Semaphore::new(LOGINS_MAX),
            form_limit: options.times.head,
            wrong_tokens: WrongTokens::default(),
            sessions: Sessions::default(),
            pollers: Pollers::new(desk.clone()),
        });
        let (stopping, stop) = watch::channel(false);
        let (last, ended) = channel();
        let links = Links::new(options.connections, options.times, response_budget);
        let listener = {
            let _entered = runtime.enter();
            TcpListener::from_std(listener)?
        };
        runtime.spawn(accept(listener, links, router(shared), acceptor, stop, last));
        let (service_thread, runtime) = (Some(service_thread), Some(runtime));
        Ok(Server {
            url,
            address,
            desk,
            service_thread,
            _parent_driver: parent_driver,
            stopping,
            ended,
            runtime,
        })
    }

    /// URL of the service, which its handles contain.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Address at which it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The desk that submits requests from within this process.
    pub fn desk(&self) -> &Desk {
        &self.desk
    }

    /// Ends the service and answers all waits. Responses in progress have this time to be taken.
    pub fn shutdown(mut self, limit: Duration) {
        self.end(limit);
    }

    fn end(&mut self, limit: Duration) {
        let Some(runtime) = self.runtime.take() else { return };
        self.stopping.send_replace(true);
        // Answers all waits.
        self.service_thread = None;
        if self.ended.recv_timeout(limit) == Err(RecvTimeoutError::Timeout) {
            tracing::debug!("connections were cut when the service ended");
        }
        runtime.shutdown_background();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end(DROP_LIMIT);
    }
}

/// Rejects a service that is open to all hosts, unless it is meant to be.
fn check(options: &Options) -> io::Result<()> {
    let Options { listen, token, insecure, tls, .. } = options;
    if listen.ip().is_loopback() {
        return Ok(());
    }
    match (token, insecure) {
        (None, false) => Err(invalid(format!(
            "{listen} is reached from other machines, and without a token everybody there could use the service: give it a secret, listen on 127.0.0.1, or say that it may be insecure"
        ))),
        (None, true) => {
            tracing::warn!(%listen, "whoever reaches this port can use the service: it has no token");
            Ok(())
        }
        (Some(_), _) => {
            if tls.is_none() {
                tracing::warn!(%listen, "the token and all data travel in the clear: give the service a certificate, or a network of its own");
            }
            Ok(())
        }
    }
}

fn invalid(message: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, message)
}

fn listen(address: SocketAddr) -> io::Result<std::net::TcpListener> {
    let listening = || -> io::Result<std::net::TcpListener> {
        let socket =
            socket2::Socket::new(socket2::Domain::for_address(address), socket2::Type::STREAM, None)?;
        socket.set_reuse_address(true)?;
        socket.bind(&address.into())?;
        socket.listen(BACKLOG)?;
        socket.set_nonblocking(true)?;
        Ok(socket.into())
    };
    listening().map_err(|error| io::Error::new(error.kind(), format!("cannot listen at {address}: {error}")))
}

/// The URL of the service, and the host and port in it.
fn named(url: Option<&str>, scheme: &str, address: SocketAddr) -> io::Result<(String, String)> {
    let url = match url {
        Some(url) => url.trim_end_matches('/').to_owned(),
        None if address.ip().is_unspecified() => {
            format!("{scheme}://{}/rendezvous", reached(scheme, address, &host_addresses())?)
        }
        None => format!("{scheme}://{address}/rendezvous"),
    };
    let parsed = url.parse::<Uri>().ok();
    let authority = parsed.filter(|uri| matches!(uri.scheme_str(), Some("http" | "https")));
    let authority = authority.and_then(|uri| uri.authority().map(|authority| authority.as_str().to_owned()));
    match (Handle::new(&*url, ResourceId([0; ID_LENGTH])), authority) {
        (Ok(_), Some(authority)) => Ok((url, authority)),
        _ => Err(invalid(format!(
            "{} is no URL of a service: write http://HOST:PORT/rendezvous, without a query",
            Shown(&url)
        ))),
    }
}

/// The path of a URL, without a trailing slash.
fn path_of(url: &str) -> String {
    url.parse::<Uri>().map(|url| url.path().trim_end_matches('/').to_owned()).unwrap_or_default()
}

/// The address at which other hosts reach a server that listens at all addresses; `known` are this host's. A bare host
/// name would not do: other hosts may not resolve it, or resolve it to another host.
fn reached(scheme: &str, listens: SocketAddr, known: &[IpAddr]) -> io::Result<SocketAddr> {
    let name = |why: &str| {
        invalid(format!(
            "{why}: give the service the URL by which others reach it (`gpc rendezvous serve --url {scheme}://HOST:{}/rendezvous`), or one address to listen at",
            listens.port()
        ))
    };
    if scheme == "https" {
        return Err(name(
            "handles need a name that is in the certificate, and a server at all addresses has none",
        ));
    }
    // A server at `::` is reachable over IPv4 and IPv6.
    let usable = |ip: &&IpAddr| listens.is_ipv6() || ip.is_ipv4();
    let ip = known
        .iter()
        .find(usable)
        .ok_or_else(|| name("no address of this host is known that others reach"))?;
    Ok(SocketAddr::new(*ip, listens.port()))
}

/// Accepts connections until the server stops. Sends on `last` when the last connection has ended.
async fn accept(
    listener: TcpListener,
    links: Arc<Links>,
    router: axum::Router,
    acceptor: Option<Acceptor>,
    stopping: watch::Receiver<bool>,
    last: std::sync::mpsc::Sender<()>,
) {
    let last = Arc::new(EndSignal(last));
    let mut stop = stopping.clone();
    let (waiting, failed) = (Arc::new(Semaphore::new(WAITING_MAX)), LogLimit::default());
    // Ends: when the server stops.
    loop {
        let accepted = tokio::select! {
            biased;
            _ = stop.wait_for(|stopping| *stopping) => break,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, from)) => {
                // A connection that waits for another to close does not delay later ones.
                let (link, turn) = (links.place(), Arc::clone(&waiting).try_acquire_owned().ok());
                if link.is_none() && turn.is_none() {
                    refuse(&stream);
                    continue;
                }
                let (links, last) = (Arc::clone(&links), Arc::clone(&last));
                let (router, acceptor, stopping) = (router.clone(), acceptor.clone(), stopping.clone());
                tokio::spawn(async move {
                    let link = match link {
                        Some(link) => Some(link),
                        None => links.place_of_another().await,
                    };
                    drop(turn);
                    match link {
                        Some(link) => {
                            prepare(&stream);
                            connection::serve(stream, from, link, router, acceptor, stopping).await;
                        }
                        None => refuse(&stream),
                    }
                    drop(last);
                });
            }
            Err(error) => {
                if let Some(last) = failed.logged(Instant::now()) {
                    tracing::warn!(%error, "no connection can be accepted{last}");
                }
                links.close_one();
                sleep(SHORT).await;
            }
        }
    }
}

/// Sends a message when its last clone is dropped: all connections have ended.
struct EndSignal(std::sync::mpsc::Sender<()>);

impl Drop for EndSignal {
    fn drop(&mut self) {
        let _ = self.0.send(());
    }
}

/// Sets socket options: small answers are sent without delay, and a client whose machine has gone is detected within
/// two minutes.
fn prepare(stream: &TcpStream) {
    let _ = stream.set_nodelay(true);
    let alive = TcpKeepalive::new().with_time(Duration::from_secs(30)).with_interval(Duration::from_secs(15));
    let _ = SockRef::from(stream).set_tcp_keepalive(&alive.with_retries(4));
}

/// Sends the response for a full server, if that is possible without blocking.
fn refuse(stream: &TcpStream) {
    let _ = stream.try_read(&mut [0; 4096]);
    let _ = stream.try_write(FULL);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A service that listened at 0.0.0.0 put the bare name of its host into handles, and other hosts could not resolve
    /// it.
    #[test]
    fn handles_have_an_address_that_others_reach() {
        let ip = |text: &str| text.parse::<IpAddr>().unwrap();
        let at = |text: &str| text.parse::<SocketAddr>().unwrap();
        let known = [ip("fd00::7"), ip("10.1.2.3")];
        assert_eq!(reached("http", at("0.0.0.0:41"), &known).unwrap(), at("10.1.2.3:41"));
        assert_eq!(reached("http", at("[::]:41"), &known).unwrap(), at("[fd00::7]:41"));
        for (scheme, listens, known, expected) in [
            ("http", "0.0.0.0:41", &known[..1], "no address of this host is known that others reach"),
            ("http", "[::]:41", &[], "no address of this host is known that others reach"),
            ("https", "0.0.0.0:41", &known[..], "a name that is in the certificate"),
        ] {
            let error = reached(scheme, at(listens), known).unwrap_err().to_string();
            assert!(
                error.contains(expected) && error.contains(&format!("--url {scheme}://HOST:41")),
                "{error}"
            );
        }
        let (url, authority) = named(None, "http", at("127.0.0.1:41")).unwrap();
        assert_eq!((&*url, &*authority), ("http://127.0.0.1:41/rendezvous", "127.0.0.1:41"));
        let (url, _) = named(Some("https://head.cluster:9/r/"), "https", at("0.0.0.0:41")).unwrap();
        assert_eq!(url, "https://head.cluster:9/r");
    }
}
