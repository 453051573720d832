//! Resolves host names of services within a time limit: a resolver that hangs must delay neither the request nor the
//! end of the client.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use chained_gpc::Resolver;
use hyper_util::client::legacy::connect::dns::Name;
use tower_service::Service;

/// Time limit of a look-up, the same as for a connection attempt.
pub(super) const LIMIT: Duration = Duration::from_secs(5);

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

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::mpsc::channel;

    use super::*;

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
}
