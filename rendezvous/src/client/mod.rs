//! A client of services over HTTP, for programs that wait for what they ask: no part of it needs an asynchronous program.
//!
//! `exchange` says what is asked and what answers mean, without I/O; `asking` does the asking, again after lost connections; [`Client`] is the blocking face of it.
//!
//! ```no_run
//! use std::time::Duration;
//!
//! use gpc_rendezvous::client::{Client, ClientOptions};
//! use gpc_rendezvous::{Handle, Of, Token, Wanted};
//!
//! let client = Client::new(&ClientOptions::default())?;
//! let handle: Handle = std::env::var("GPC_JOB_HANDLE")?.parse()?;
//! let token = gpc_rendezvous::client::draw_token()?;
//! let own = client.register(&handle, Wanted::Assign, &token, "where I am found", None)?;
//! let all = client.wait(&handle, Of::Top, Some(&token), Duration::from_secs(60))?;
//! println!("rank {}: {} bytes of level {}", own.rank, all.data.len(), all.level);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod asking;
mod connector;
mod error;
mod exchange;
mod names;
mod trusted;
mod turns;
mod url;

use std::fmt;
use std::future::Future;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use chained_gpc::Job;
use tokio::runtime::{Builder, Runtime};

pub(crate) use asking::{Asking, after};
pub use error::ClientError;
#[cfg(feature = "http")]
pub(crate) use trusted::Trusted;
pub use url::{ServiceUrl, UrlError};

pub use crate::keeper::draw_token;

use crate::machine::{Completion, Handle, Of, Properties, Registered, Spec, Token, Unit, Wanted};
use crate::token::ServiceToken;

/// How a client asks.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ClientOptions {
    /// The token of the services; they let nobody in without, except where they were told to.
    pub token: Option<ServiceToken>,
    /// File with the certificates (PEM) of the authority that has signed those of services with URLs of `https`; no other is believed.
    pub ca: Option<PathBuf>,
    /// How long to try when a service does not answer. Waits for a completion have limits of their own.
    pub limit: Duration,
    /// Longest data of a completion that are taken, bytes.
    pub data_max: u64,
}

impl Default for ClientOptions {
    fn default() -> ClientOptions {
        ClientOptions { token: None, ca: None, limit: Duration::from_secs(10), data_max: 2 << 30 }
    }
}

/// A client of services. Threads can share it; they wait at the same time.
pub struct Client {
    runtime: Arc<Runtime>,
    asking: Asking,
    limit: Duration,
}

impl Client {
    /// A client, which has no connection yet.
    ///
    /// # Errors
    /// When the file of certificates cannot be used, or the system gives nothing to wait with.
    pub fn new(options: &ClientOptions) -> Result<Client, ClientError> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        Ok(Client { runtime: Arc::new(runtime), asking: Asking::new(options)?, limit: options.limit })
    }

    /// The same, with the same connections, that tries for so long where a service does not answer.
    #[must_use]
    pub fn within(&self, limit: Duration) -> Client {
        Client { runtime: Arc::clone(&self.runtime), asking: self.asking.clone(), limit }
    }

    /// Creates a resource with a service.
    ///
    /// # Errors
    /// The service's fault, or why there is no answer. It may be that the resource was created and the answer lost; it ends with its lifetime then.
    pub fn create(&self, service: &ServiceUrl, spec: &Spec) -> Result<Handle, ClientError> {
        self.block(self.asking.create(service, spec, after(self.limit)))
    }

    /// Registers data: bytes of any kind where the resource is of level 1, else level-n data of the level below. `token` is the registrant's, which nobody else has ([`draw_token`]): asked again with it, the service answers the same. With a `lease` the registrant has to ask
    /// something with its token at least so often, or wait, until the rendezvous is complete; else it is withdrawn.
    ///
    /// # Errors
    /// The service's fault, or why there is no answer.
    pub fn register(
        &self,
        handle: &Handle,
        rank: Wanted,
        token: &Token,
        data: impl Into<Bytes>,
        lease: Option<Duration>,
    ) -> Result<Registered, ClientError> {
        let until = after(self.limit);
        self.block(self.asking.register(handle, rank, token, data.into(), lease.map(millis), until))
    }

    /// Takes a registration back, before the rendezvous is complete.
    ///
    /// # Errors
    /// The service's fault, or why there is no answer.
    pub fn withdraw(&self, handle: &Handle, rank: u64, token: &Token) -> Result<(), ClientError> {
        self.block(self.asking.withdraw(handle, rank, token, after(self.limit)))
    }

    /// Waits until the rendezvous is complete, or can no longer be, at most so long; with the token of a registrant or controlling task, its lease holds meanwhile. It goes on where a service is started again.
    ///
    /// # Errors
    /// [`ClientError::NotYet`] when the time is over, a fault when it will never be complete, or why there is no answer.
    pub fn wait(
        &self,
        handle: &Handle,
        of: Of,
        token: Option<&Token>,
        limit: Duration,
    ) -> Result<Completion, ClientError> {
        let completion = self.block(self.asking.wait(handle, of, token, after(limit)))?;
        completion.ok_or(ClientError::NotYet { limit })
    }

    /// What is known of a resource.
    ///
    /// # Errors
    /// The service's fault, or why there is no answer.
    pub fn properties(&self, handle: &Handle) -> Result<Properties, ClientError> {
        self.block(self.asking.properties(handle, after(self.limit)))
    }

    /// Destroys a resource; those who wait are told.
    ///
    /// # Errors
    /// The service's fault, or why there is no answer.
    pub fn destroy(&self, handle: &Handle) -> Result<(), ClientError> {
        self.block(self.asking.destroy(handle, after(self.limit)))
    }

    /// Destroys the resources of a job that a service has, and says how many those were.
    ///
    /// # Errors
    /// The service's fault, or why there is no answer.
    pub fn end_job(&self, service: &ServiceUrl, job: Job) -> Result<u64, ClientError> {
        self.block(self.asking.end_job(service, job, after(self.limit)))
    }

    /// Says that a controlling task is there: if it is lost before the rendezvous is complete, those who wait are told its name. With a `lease` it has to say so again at least so often, or wait with its token.
    ///
    /// # Errors
    /// The service's fault, or why there is no answer.
    pub fn control(
        &self,
        handle: &Handle,
        unit: Unit,
        name: &str,
        token: &Token,
        lease: Option<Duration>,
    ) -> Result<(), ClientError> {
        let until = after(self.limit);
        self.block(self.asking.control(handle, unit, name, token, lease.map(millis), until))
    }

    /// Says that a controlling task ends; with a reason for which its unit is `lost`, the rendezvous ends as well.
    ///
    /// # Errors
    /// The service's fault, or why there is no answer.
    pub fn release(
        &self,
        handle: &Handle,
        unit: Unit,
        token: &Token,
        lost: Option<&str>,
    ) -> Result<(), ClientError> {
        self.block(self.asking.release(handle, unit, token, lost, after(self.limit)))
    }

    fn block<T>(&self, asked: impl Future<Output = Result<T, ClientError>>) -> Result<T, ClientError> {
        match tokio::runtime::Handle::try_current() {
            Ok(_) => Err(ClientError::OnAsyncThread),
            Err(_) => self.runtime.block_on(asked),
        }
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Client")
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
