//! Client of a service on a node: each request is a call over the service's id.
#![allow(
    clippy::disallowed_methods,
    reason = "what fails in passing is asked again, with pauses and a limit"
)]

use std::thread;
use std::time::Duration;

use bytes::Bytes;
use chained_gpc::{Call, CallError, Caller, CauseKind, Clock, FuncHandle, Id, Job};

use super::codec::{CodecError, WireRequest, decode_answer};
use super::url::{NotNative, service_of, service_url};
use crate::machine::{
    Answer, Completion, Fault, FaultKind, Handle, Life, Properties, RankChoice, Registration, Scope, Spec,
    Token, Unit,
};

/// Time limit for an answer that the service has immediately.
const LIMIT: Duration = Duration::from_secs(60);

/// Longest time limit of a call, a hundred years: a longer one would overflow the node's clock.
pub(crate) const LIMIT_MAX: Duration = Duration::from_secs(100 * 365 * 86_400);

/// Additional time for the answer to a wait, after the wait's own limit.
const SLACK: Duration = Duration::from_secs(10);

/// Pauses before a failed request is retried. Their number limits the retries.
const PAUSES: [Duration; 4] = [
    Duration::from_millis(20),
    Duration::from_millis(50),
    Duration::from_millis(100),
    Duration::from_millis(200),
];

/// Client of one node's service. Cheap to clone. Its methods block, so the thread that drives the node must not call
/// them.
#[derive(Clone, Debug)]
pub struct Client {
    caller: Caller,
    service: Id,
    url: String,
    clock: Clock,
}

/// Why a request has failed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// The service rejects the request, or the rendezvous cannot complete.
    #[error(transparent)]
    Fault(#[from] Fault),
    /// The service was not reached, or did not answer. It may have carried out the request: retry with the same token.
    #[error("the rendezvous service on id {id}: {error}")]
    Call {
        /// Id of the service's node.
        id: Id,
        /// Failure of the call.
        #[source]
        error: CallError,
    },
    /// The answer of the service is malformed.
    #[error("the rendezvous service on id {id} answers nonsense: {error}")]
    Nonsense {
        /// Id of the service's node.
        id: Id,
        /// What is malformed.
        #[source]
        error: CodecError,
    },
    /// The service of the handle is not on a node.
    #[error(transparent)]
    NotNative(#[from] NotNative),
    /// The handle belongs to another service.
    #[error("this handle is not of the service on id {0}")]
    OtherService(Id),
}

impl Client {
    /// A client of the service on this id of the caller's job.
    pub fn new(caller: Caller, job: Job, service: Id) -> Client {
        Client { caller, service, url: service_url(job, service), clock: Clock::system() }
    }

    /// A client of the service that a handle names. The caller must be a node of that service's job.
    ///
    /// # Errors
    /// Returns an error if the service is not on a node.
    pub fn of(caller: Caller, handle: &Handle) -> Result<Client, ClientError> {
        let (job, service) = service_of(handle.service())?;
        Ok(Client::new(caller, job, service))
    }

    /// Creates a resource and returns its handle. If the answer is lost, an unused resource may remain until its
    /// lifetime has passed.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn create(&self, spec: &Spec) -> Result<Handle, ClientError> {
        match self.ask(&WireRequest::Create(spec.clone()), LIMIT)? {
            Answer::Created(resource) => Handle::new(self.url.clone(), resource)
                .map_err(|_| self.nonsense(CodecError::Field("its URL cannot stand in a handle"))),
            _ => Err(self.other()),
        }
    }

    /// Registers data, which are shared and not copied. The request may be repeated with the same token.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn register(
        &self,
        handle: &Handle,
        rank: RankChoice,
        token: &Token,
        data: Bytes,
        life: Life,
    ) -> Result<Registration, ClientError> {
        let (resource, token) = (self.resource(handle)?, token.clone());
        match self.ask(&WireRequest::Register { resource, rank, token, data, life }, LIMIT)? {
            Answer::Registered(registered) => Ok(registered),
            _ => Err(self.other()),
        }
    }

    /// Withdraws a registration.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn withdraw(&self, handle: &Handle, rank: u64, token: &Token) -> Result<(), ClientError> {
        self.done(&WireRequest::Withdraw { resource: self.resource(handle)?, rank, token: token.clone() })
    }

    /// Waits for a completion. Returns `None` if the rendezvous is not complete within the limit.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn wait(
        &self,
        handle: &Handle,
        of: Scope,
        token: Option<&Token>,
        limit: Duration,
    ) -> Result<Option<Completion>, ClientError> {
        let (resource, token) = (self.resource(handle)?, token.cloned());
        let millis = u64::try_from(limit.as_millis()).unwrap_or(u64::MAX);
        match self
            .ask(&WireRequest::Wait { resource, of, limit: millis, token }, limit.saturating_add(SLACK))?
        {
            Answer::Completed(completion) => Ok(Some(completion)),
            Answer::NotYet => Ok(None),
            _ => Err(self.other()),
        }
    }

    /// Asks for the properties of a resource.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn properties(&self, handle: &Handle) -> Result<Properties, ClientError> {
        match self.ask(&WireRequest::Properties(self.resource(handle)?), LIMIT)? {
            Answer::Properties(properties) => Ok(*properties),
            _ => Err(self.other()),
        }
    }

    /// Asks for the data of the registrant with this rank.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn registrant(&self, handle: &Handle, rank: u64) -> Result<Bytes, ClientError> {
        match self.ask(&WireRequest::Registrant { resource: self.resource(handle)?, rank }, LIMIT)? {
            Answer::Data(data) => Ok(data),
            _ => Err(self.other()),
        }
    }

    /// Registers this task as the controlling task of a unit.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn control(
        &self,
        handle: &Handle,
        unit: Unit,
        name: &str,
        token: &Token,
        life: Life,
    ) -> Result<(), ClientError> {
        let (resource, name, token) = (self.resource(handle)?, name.to_owned(), token.clone());
        self.done(&WireRequest::Control { resource, unit, name, token, life })
    }

    /// Removes a controlling task. If its unit will never register, `lost` is the reason.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn release(
        &self,
        handle: &Handle,
        unit: Unit,
        token: &Token,
        lost: Option<String>,
    ) -> Result<(), ClientError> {
        self.done(&WireRequest::Release {
            resource: self.resource(handle)?,
            unit,
            token: token.clone(),
            lost,
        })
    }

    /// Destroys a resource.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn destroy(&self, handle: &Handle) -> Result<(), ClientError> {
        self.done(&WireRequest::Destroy(self.resource(handle)?))
    }

    /// Destroys the resources of a job and returns their number.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn end_job(&self, job: Job) -> Result<usize, ClientError> {
        match self.ask(&WireRequest::EndJob(job), LIMIT)? {
            Answer::Ended(count) => Ok(count),
            _ => Err(self.other()),
        }
    }

    fn done(&self, ask: &WireRequest) -> Result<(), ClientError> {
        match self.ask(ask, LIMIT)? {
            Answer::Done => Ok(()),
            _ => Err(self.other()),
        }
    }

    fn resource(&self, handle: &Handle) -> Result<crate::machine::ResourceId, ClientError> {
        match handle.service() == self.url {
            true => Ok(handle.resource()),
            false => Err(ClientError::OtherService(self.service)),
        }
    }

    fn other(&self) -> ClientError {
        self.nonsense(CodecError::Field("the answer is one to another question"))
    }

    fn nonsense(&self, error: CodecError) -> ClientError {
        ClientError::Nonsense { id: self.service, error }
    }

    /// Sends a request, and retries it after transient failures.
    fn ask(&self, ask: &WireRequest, limit: Duration) -> Result<Answer, ClientError> {
        let limit = self.clock.limit(limit.min(LIMIT_MAX));
        let mut pauses = PAUSES.into_iter();
        // Ends: the number of pauses is finite.
        loop {
            let error = match self.try_ask(ask, limit.left().unwrap_or_default()) {
                Err(error) if may_ask_again(ask, &error, self.service) => error,
                ended => return ended,
            };
            match pauses.next().filter(|pause| limit.left().is_some_and(|left| *pause < left)) {
                Some(pause) => thread::sleep(pause),
                None => return Err(error),
            }
        }
    }

    fn try_ask(&self, ask: &WireRequest, limit: Duration) -> Result<Answer, ClientError> {
        let call_error = |error| ClientError::Call { id: self.service, error };
        let (header, data) = ask.encode();
        let call = Call::new(FuncHandle::named(ask.operation().function())).ids([self.service]);
        let call = call.header(header).data(data).limit(limit);
        // The service's own node takes part in its call; other callers only watch.
        let call = if self.caller.id() == Some(self.service) { call } else { call.watch() };
        let outcome = self.caller.call(call).and_then(chained_gpc::CallHandle::wait).map_err(call_error)?;
        let replies = outcome.replies().map_err(|_| self.other())?;
        let reply = replies.into_iter().next().ok_or_else(|| self.other())?;
        decode_answer(&reply.header, reply.data)
            .map_err(|error| self.nonsense(error))?
            .map_err(ClientError::Fault)
    }
}

/// Whether a request failed for a transient reason, and a repetition does no harm.
fn may_ask_again(ask: &WireRequest, error: &ClientError, service: Id) -> bool {
    let error = match error {
        ClientError::Call { error, .. } => error,
        // The service is full and did not carry out the request.
        ClientError::Fault(fault) => return fault.kind == FaultKind::ServiceFull,
        _ => return false,
    };
    let passing = match error {
        CallError::Busy => true,
        CallError::Failed(failed) => is_transient(failed.cause().kind),
        _ => false,
    };
    let reached = error.failed_call().is_some_and(|failed| !failed.never_reached().contains(service));
    passing && !(reached && matches!(ask, WireRequest::Create(_)))
}

fn is_transient(kind: CauseKind) -> bool {
    matches!(
        kind,
        CauseKind::Unreachable
            | CauseKind::LinkLost
            | CauseKind::LostIncarnation
            | CauseKind::Busy
            | CauseKind::NoMemory
    )
}
