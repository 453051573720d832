//! Resolves host names of services within the time limit of the request: a resolver that hangs must delay neither the
//! request nor the end of the client.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use chained_gpc::Resolver;
use hyper_util::client::legacy::connect::dns::Name;
use tokio::time::Instant;
use tower_service::Service;

/// Longest time of a look-up, the same as for a connection attempt.
pub(super) const LIMIT: Duration = Duration::from_secs(5);

/// Shortest time of a look-up. A request is also sent when its time limit passes: a wait then asks whether the
/// rendezvous is complete by now.
const LEAST: Duration = Duration::from_millis(100);

tokio::task_local! {
    /// End of the time limit of the request, for look-ups of its connection: the connector passes only the name.
    pub(super) static UNTIL: Instant;
}

/// The resolver of HTTP connections.
#[derive(Clone, Debug)]
pub(super) struct Names {
    resolver: Resolver,
    limit: Duration,
}

impl Names {
    pub(super) fn new(limit: Duration) -> Names {
        Names { resolver: Resolver::system(), limit }
    }
}

impl Service<Name> for Names {
    type Response = std::vec::IntoIter<SocketAddr>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Self::Response>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, name: Name) -> Self::Future {
        let Names { resolver, limit } = self.clone();
        let left = UNTIL.try_with(|until| until.saturating_duration_since(Instant::now()));
        let limit = look_up_limit(left.ok(), limit);
        Box::pin(async move {
            // The task is bounded by the limit, and so is the shutdown of the runtime, which waits for it.
            let found = tokio::task::spawn_blocking(move || resolver.host(name.as_str(), limit));
            let found = found.await.map_err(io::Error::other)??;
            // The connector sets the port.
            let addresses: Vec<SocketAddr> = found.into_iter().map(|ip| SocketAddr::new(ip, 0)).collect();
            Ok(addresses.into_iter())
        })
    }
}

/// Time limit of a look-up, for a request with this time left.
fn look_up_limit(left: Option<Duration>, limit: Duration) -> Duration {
    left.map_or(limit, |left| left.max(LEAST).min(limit))
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn a_look_up_has_the_time_of_its_request_within_its_own() {
        let millis = Duration::from_millis;
        for (left, expected) in [
            (None, 5000),
            (Some(9000), 5000),
            (Some(5000), 5000),
            (Some(1000), 1000),
            (Some(100), 100),
            (Some(0), 100),
        ] {
            assert_eq!(look_up_limit(left.map(millis), LIMIT), millis(expected), "{left:?}");
        }
    }

    /// If a name server did not answer, the request and the end of the program were delayed, whatever limit the client
    /// had.
    #[test]
    fn a_resolver_that_hangs_ends_the_attempt_and_not_the_program() {
        let (release, held) = channel::<()>();
        let held = Mutex::new(held);
        let resolver = Resolver::by(move |_| {
            let _ = held.lock().map(|held| held.recv());
            Ok(Vec::new())
        });
        let mut names = Names { resolver, limit: Duration::from_millis(20) };
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let error = runtime.block_on(names.call("head.cluster".parse().unwrap())).unwrap_err().to_string();
        assert!(error.contains("`head.cluster`") && error.contains("does not answer"), "{error}");
        drop(runtime);
        drop(release);
    }

    /// A look-up lasted for its own limit of 5 s, although the caller had given the request 1 s. Its error then came
    /// too late, so the message did not name the look-up.
    #[test]
    fn a_look_up_ends_with_the_time_limit_of_the_request() {
        let (release, held) = channel::<()>();
        let held = Mutex::new(held);
        let resolver = Resolver::by(move |_| {
            let _ = held.lock().map(|held| held.recv());
            Ok(Vec::new())
        });
        // With this limit of the look-up the test does not end.
        let names = Names { resolver, limit: Duration::from_secs(86_400) };
        let mut tcp = hyper_util::client::legacy::connect::HttpConnector::new_with_resolver(names);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let until = Instant::now() + Duration::from_millis(20);
        let connected = runtime
            .block_on(UNTIL.scope(until, async { tcp.call("http://head.cluster:1".parse().unwrap()).await }));
        let error = std::error::Error::source(&connected.unwrap_err()).unwrap().to_string();
        assert!(error.contains("`head.cluster`") && error.contains("does not answer"), "{error}");
        drop(runtime);
        drop(release);
    }
}
