//! Blocking client of services over HTTP, for programs that are not asynchronous.
//!
//! `exchange` builds requests and interprets answers, and `retry` decides what is repeated; both are without I/O.
//! `requests` sends the requests. [`Client`] is the blocking interface. A [`Subscription`] receives notifications:
//! events of a stream, which `events` reads.
//!
//! ```no_run
//! use std::time::Duration;
//!
//! use gpc_rendezvous::client::{Client, ClientOptions};
//! use gpc_rendezvous::{Handle, Scope, Token, RankChoice};
//!
//! let client = Client::new(&ClientOptions::default())?;
//! let handle: Handle = std::env::var("GPC_JOB_HANDLE")?.parse()?;
//! let token = gpc_rendezvous::client::draw_token()?;
//! let own = client.register(&handle, RankChoice::Assign, &token, "where I am found", None)?;
//! let all = client.wait(&handle, Scope::Top, Some(&token), Duration::from_secs(60))?;
//! println!("rank {}: {} bytes of level {}", own.rank, all.data.len(), all.level);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod blocking;
mod connector;
mod error;
mod events;
mod exchange;
mod names;
mod options;
mod permits;
mod requests;
mod retry;
mod subscription;
mod trusted;
mod url;
mod without_signals;

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use blocking::block;
use bytes::Bytes;
use chained_gpc::Job;
use tokio::runtime::{Builder, Runtime};

pub use error::ClientError;
#[cfg(feature = "http")]
pub(crate) use exchange::EVENT_DATA_MAX;
pub use options::ClientOptions;
pub(crate) use requests::{Requester, after};
#[cfg(all(test, feature = "store"))]
pub(crate) use retry::{DESTROYED, Failure, Retry};
pub use subscription::{Notification, Stopper, Subscription};
#[cfg(feature = "http")]
pub(crate) use trusted::Trusted;
pub use url::{ServiceUrl, UrlError};

pub use crate::service_thread::draw_token;

use crate::machine::{Completion, Handle, Properties, RankChoice, Registration, Scope, Spec, Token, Unit};

/// A client of services. Threads can share it and wait at the same time.
pub struct Client {
    runtime: Arc<Runtime>,
    requester: Requester,
    limit: Duration,
}

impl Client {
    /// A client without connections.
    ///
    /// # Errors
    /// Returns an error if the file of certificates cannot be used, or the runtime cannot be created.
    pub fn new(options: &ClientOptions) -> Result<Client, ClientError> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        Ok(Client { runtime: Arc::new(runtime), requester: Requester::new(options)?, limit: options.limit })
    }

    /// A client that shares the connections, with another time limit for services that do not answer.
    #[must_use]
    pub fn within(&self, limit: Duration) -> Client {
        Client { runtime: Arc::clone(&self.runtime), requester: self.requester.clone(), limit }
    }

    /// Creates a resource at a service.
    ///
    /// # Errors
    /// The service's fault, or the reason for a missing answer. A request whose answer was lost is not repeated: the
    /// resource may exist until its lifetime has passed.
    pub fn create(&self, service: &ServiceUrl, spec: &Spec) -> Result<Handle, ClientError> {
        self.block(self.requester.create(service, spec, after(self.limit)))
    }

    /// Registers data: arbitrary bytes at a resource of level 1, else level-n data of the level below. `token` is
    /// unique to the registrant ([`draw_token`]); if the request is repeated with it, the service gives the same
    /// answer. A `lease` requires the registrant to send a request with its token at least this often, or to wait,
    /// until the rendezvous is complete. Otherwise it is withdrawn.
    ///
    /// # Errors
    /// The service's fault, or the reason for a missing answer.
    pub fn register(
        &self,
        handle: &Handle,
        rank: RankChoice,
        token: &Token,
        data: impl Into<Bytes>,
        lease: Option<Duration>,
    ) -> Result<Registration, ClientError> {
        let until = after(self.limit);
        self.block(self.requester.register(handle, rank, token, data.into(), lease.map(millis), until))
    }

    /// Withdraws a registration before the rendezvous is complete.
    ///
    /// # Errors
    /// The service's fault, or the reason for a missing answer.
    pub fn withdraw(&self, handle: &Handle, rank: u64, token: &Token) -> Result<(), ClientError> {
        self.block(self.requester.withdraw(handle, rank, token, after(self.limit)))
    }

    /// Waits until the rendezvous is complete or has failed, at most `limit`. With the token of a registrant or
    /// controlling task, its lease holds meanwhile. The wait continues across a restart of the service.
    ///
    /// # Errors
    /// [`ClientError::NotYet`] at the time limit, a fault if the rendezvous cannot complete, or the reason for a
    /// missing answer.
    pub fn wait(
        &self,
        handle: &Handle,
        of: Scope,
        token: Option<&Token>,
        limit: Duration,
    ) -> Result<Completion, ClientError> {
        let completion = self.block(self.requester.wait(handle, of, token, after(limit)))?;
        completion.ok_or(ClientError::NotYet { limit })
    }

    /// Subscribes to the notifications of a resource: the number of registrants, the completion or the fault. Late
    /// subscribers receive the present state first. With the token of a registrant or controlling task, its lease holds
    /// while the subscription lasts.
    ///
    /// # Errors
    /// The service's fault, or the reason for a missing answer.
    pub fn subscribe(
        &self,
        handle: &Handle,
        of: Scope,
        token: Option<&Token>,
    ) -> Result<Subscription, ClientError> {
        let shared = (Arc::clone(&self.runtime), self.requester.clone());
        Subscription::open(shared, (handle, of, token), self.limit)
    }

    /// Asks for the properties of a resource.
    ///
    /// # Errors
    /// The service's fault, or the reason for a missing answer.
    pub fn properties(&self, handle: &Handle) -> Result<Properties, ClientError> {
        self.block(self.requester.properties(handle, after(self.limit)))
    }

    /// Destroys a resource. Its waits are answered with a fault.
    ///
    /// # Errors
    /// The service's fault, or the reason for a missing answer.
    pub fn destroy(&self, handle: &Handle) -> Result<(), ClientError> {
        self.block(self.requester.destroy(handle, after(self.limit)))
    }

    /// Destroys the resources of a job at a service, and returns their number.
    ///
    /// # Errors
    /// The service's fault, or the reason for a missing answer.
    pub fn end_job(&self, service: &ServiceUrl, job: Job) -> Result<u64, ClientError> {
        self.block(self.requester.end_job(service, job, after(self.limit)))
    }

    /// Registers a controlling task, or renews its lease. If it is lost before the rendezvous is complete, waits are
    /// answered with its name. A `lease` requires it to renew at least this often, or to wait with its token.
    ///
    /// # Errors
    /// The service's fault, or the reason for a missing answer.
    pub fn control(
        &self,
        handle: &Handle,
        unit: Unit,
        name: &str,
        token: &Token,
        lease: Option<Duration>,
    ) -> Result<(), ClientError> {
        let until = after(self.limit);
        self.block(self.requester.control(handle, unit, name, token, lease.map(millis), until))
    }

    /// Removes a controlling task. If its unit is `lost`, the rendezvous fails with this reason.
    ///
    /// # Errors
    /// The service's fault, or the reason for a missing answer.
    pub fn release(
        &self,
        handle: &Handle,
        unit: Unit,
        token: &Token,
        lost: Option<&str>,
    ) -> Result<(), ClientError> {
        self.block(self.requester.release(handle, unit, token, lost, after(self.limit)))
    }

    fn block<T>(&self, asked: impl Future<Output = Result<T, ClientError>>) -> Result<T, ClientError> {
        block(&self.runtime, asked)
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Client")
    }
}

fn millis(time: Duration) -> u64 {
    // Rounded up: a short lease is not one of no time.
    u64::try_from(time.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}
