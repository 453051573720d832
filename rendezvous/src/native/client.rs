//! Asks a service on a node, by calls over its one id.
#![allow(
    clippy::disallowed_methods,
    reason = "what fails in passing is asked again, with pauses and a limit"
)]

use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use chained_gpc::{Call, CallError, Caller, CauseKind, FuncHandle, Id, Job};

use super::codec::{Ask, CodecError, decode_answer};
use super::url::{NotNative, service_of, service_url};
use crate::machine::{
    Answer, Completion, Fault, FaultKind, Handle, Life, Of, Properties, Registered, Spec, Token, Unit, Wanted,
};

/// How long an answer may take that the service has at once.
const LIMIT: Duration = Duration::from_secs(60);

/// Longest limit that is counted, a hundred years: beyond it nobody waits.
const LIMIT_MAX: Duration = Duration::from_secs(100 * 365 * 86_400);

/// What a wait has beyond its own limit, for its answer to come.
const SLACK: Duration = Duration::from_secs(10);

/// How long is waited before what failed in passing is asked again, each time; the number of them bounds how often.
const PAUSES: [Duration; 4] = [
    Duration::from_millis(20),
    Duration::from_millis(50),
    Duration::from_millis(100),
    Duration::from_millis(200),
];

/// Asks the service of one node. Cheap to clone. Its methods wait, so the thread that drives the node does not call them.
#[derive(Clone, Debug)]
pub struct Client {
    caller: Caller,
    service: Id,
    url: String,
}

/// Why a service has not done what it was asked.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// It refuses, or the rendezvous has ended without being complete.
    #[error(transparent)]
    Fault(#[from] Fault),
    /// It was not reached, or did not answer. What was asked may have been done: ask again with the same token.
    #[error("the rendezvous service on id {id}: {error}")]
    Call {
        /// Its node.
        id: Id,
        /// What became of the call.
        #[source]
        error: CallError,
    },
    /// It answers nonsense.
    #[error("the rendezvous service on id {id} answers nonsense: {error}")]
    Nonsense {
        /// Its node.
        id: Id,
        /// What is wrong.
        #[source]
        error: CodecError,
    },
    /// The handle is that of a resource elsewhere.
    #[error(transparent)]
    NotNative(#[from] NotNative),
    /// The handle is that of another service.
    #[error("this handle is not of the service on id {0}")]
    OtherService(Id),
}

impl Client {
    /// Asks the service on this id of the caller's job.
    pub fn new(caller: Caller, job: Job, service: Id) -> Client {
        Client { caller, service, url: service_url(job, service) }
    }

    /// Asks the service of a handle. That its job is the caller's the caller knows.
    ///
    /// # Errors
    /// When the service is on no node.
    pub fn of(caller: Caller, handle: &Handle) -> Result<Client, ClientError> {
        let (job, service) = service_of(handle.service())?;
        Ok(Client::new(caller, job, service))
    }

    /// A new resource; its handle. Where the answer is lost, a resource may be left that nobody knows, until its lifetime has passed.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn create(&self, spec: &Spec) -> Result<Handle, ClientError> {
        match self.ask(&Ask::Create(spec.clone()), LIMIT)? {
            Answer::Created(resource) => Handle::new(self.url.clone(), resource)
                .map_err(|_| self.nonsense(CodecError::Field("its URL cannot stand in a handle"))),
            _ => Err(self.other()),
        }
    }

    /// Registers. What it brings is shared, not copied. With the same token it may be asked again.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn register(
        &self,
        handle: &Handle,
        rank: Wanted,
        token: &Token,
        data: Bytes,
        life: Life,
    ) -> Result<Registered, ClientError> {
        let (resource, token) = (self.resource(handle)?, token.clone());
        match self.ask(&Ask::Register { resource, rank, token, data, life }, LIMIT)? {
            Answer::Registered(registered) => Ok(registered),
            _ => Err(self.other()),
        }
    }

    /// Takes a registration back.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn withdraw(&self, handle: &Handle, rank: u64, token: &Token) -> Result<(), ClientError> {
        self.done(&Ask::Withdraw { resource: self.resource(handle)?, rank, token: token.clone() })
    }

    /// Waits for a completion; `None` if it has not come within the limit.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn wait(
        &self,
        handle: &Handle,
        of: Of,
        token: Option<&Token>,
        limit: Duration,
    ) -> Result<Option<Completion>, ClientError> {
        let (resource, token) = (self.resource(handle)?, token.cloned());
        let millis = u64::try_from(limit.as_millis()).unwrap_or(u64::MAX);
        match self.ask(&Ask::Wait { resource, of, limit: millis, token }, limit.saturating_add(SLACK))? {
            Answer::Completed(completion) => Ok(Some(completion)),
            Answer::NotYet => Ok(None),
            _ => Err(self.other()),
        }
    }

    /// What is known of a resource.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn properties(&self, handle: &Handle) -> Result<Properties, ClientError> {
        match self.ask(&Ask::Properties(self.resource(handle)?), LIMIT)? {
            Answer::Properties(properties) => Ok(*properties),
            _ => Err(self.other()),
        }
    }

    /// What the registrant of a rank has registered.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn registrant(&self, handle: &Handle, rank: u64) -> Result<Bytes, ClientError> {
        match self.ask(&Ask::Registrant { resource: self.resource(handle)?, rank }, LIMIT)? {
            Answer::Data(data) => Ok(data),
            _ => Err(self.other()),
        }
    }

    /// Says that this task controls a unit.
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
        self.done(&Ask::Control { resource, unit, name, token, life })
    }

    /// Says that a controlling task ends; why its unit will never come, if so.
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
        self.done(&Ask::Release { resource: self.resource(handle)?, unit, token: token.clone(), lost })
    }

    /// Destroys a resource.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn destroy(&self, handle: &Handle) -> Result<(), ClientError> {
        self.done(&Ask::Destroy(self.resource(handle)?))
    }

    /// Destroys the resources of a job; how many there were.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn end_job(&self, job: Job) -> Result<usize, ClientError> {
        match self.ask(&Ask::EndJob(job), LIMIT)? {
            Answer::Ended(count) => Ok(count),
            _ => Err(self.other()),
        }
    }

    fn done(&self, ask: &Ask) -> Result<(), ClientError> {
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

    /// Asks, and again what failed in passing.
    fn ask(&self, ask: &Ask, limit: Duration) -> Result<Answer, ClientError> {
        let until = after(limit);
        let mut pauses = PAUSES.into_iter();
        // Ends: there are so many pauses.
        loop {
            let error = match self.try_ask(ask, until.saturating_duration_since(Instant::now())) {
                Err(error) if self.may_ask_again(ask, &error) => error,
                ended => return ended,
            };
            match pauses.next().filter(|pause| Instant::now() + *pause < until) {
                Some(pause) => thread::sleep(pause),
                None => return Err(error),
            }
        }
    }

    fn try_ask(&self, ask: &Ask, limit: Duration) -> Result<Answer, ClientError> {
        let call_error = |error| ClientError::Call { id: self.service, error };
        let (header, data) = ask.encode();
        let call = Call::new(FuncHandle::named(ask.operation().function())).ids([self.service]);
        let call = call.header(header).data(data).limit(limit);
        // A node that asks itself takes part.
        let call = if self.caller.id() == Some(self.service) { call } else { call.watch() };
        let outcome = self.caller.call(call).and_then(chained_gpc::CallHandle::wait).map_err(call_error)?;
        let replies = outcome.replies().map_err(|_| self.other())?;
        let reply = replies.into_iter().next().ok_or_else(|| self.other())?;
        decode_answer(&reply.header, reply.data)
            .map_err(|error| self.nonsense(error))?
            .map_err(ClientError::Fault)
    }

    /// Whether a call failed in passing, and asking twice does no harm.
    fn may_ask_again(&self, ask: &Ask, error: &ClientError) -> bool {
        let error = match error {
            ClientError::Call { error, .. } => error,
            // It has done nothing.
            ClientError::Fault(fault) => return fault.kind == FaultKind::ServiceFull,
            _ => return false,
        };
        let passing = match error {
            CallError::Busy => true,
            CallError::Failed(failed) => matches!(
                failed.cause().kind,
                CauseKind::Unreachable
                    | CauseKind::LinkLost
                    | CauseKind::LostIncarnation
                    | CauseKind::Busy
                    | CauseKind::NoMemory
            ),
            _ => false,
        };
        let reached =
            error.failed_call().is_some_and(|failed| !failed.never_reached().contains(self.service));
        passing && !(reached && matches!(ask, Ask::Create(_)))
    }
}

/// When a limit is over: no clock counts as far as the longest one reaches.
pub(crate) fn after(limit: Duration) -> Instant {
    Instant::now() + limit.min(LIMIT_MAX)
}
