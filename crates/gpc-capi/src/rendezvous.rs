//! A client of rendezvous services: what its handles stand for, and its errors as statuses.

use std::ffi::{CString, c_int};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError, TryLockError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use gpc_rendezvous::client::{Client, ClientError, Notification, Stopper, Subscription};
use gpc_rendezvous::{Completion, Fault};

use crate::error::{Error, Origin, Result};
use crate::handles::{Kind, Object};
use crate::status::*;

/// A client.
pub(crate) struct Service {
    pub(crate) client: Client,
    /// How long a service may be out of reach.
    pub(crate) limit: Duration,
}

impl Object for Service {
    const KIND: Kind = Kind::Rendezvous;
}

/// The data of all, and their joint job and secret.
pub(crate) struct Completed(pub(crate) Completion);

impl Object for Completed {
    const KIND: Kind = Kind::Completion;
}

/// A notification, as a subscription stores it for C.
pub(crate) enum Notified {
    Tally(u32, u32),
    Completed(Completion),
    /// Status, number of the fault, message.
    Failed(c_int, u32, CString),
}

/// A subscription.
pub(crate) struct Subscribed {
    stopper: Stopper,
    reader: Reader,
}

/// Who reads the notifications.
enum Reader {
    /// The application: the stream, and the last notification that it has got.
    Application(Mutex<(Box<Subscription>, Option<Arc<Notified>>)>),
    /// A thread, until it is joined.
    Thread(Mutex<Option<JoinHandle<()>>>),
}

impl Object for Subscribed {
    const KIND: Kind = Kind::Subscription;
}

impl Subscribed {
    /// A subscription whose notifications the application asks for.
    pub(crate) fn polled(subscription: Subscription) -> Subscribed {
        let stopper = subscription.stopper();
        Subscribed { stopper, reader: Reader::Application(Mutex::new((Box::new(subscription), None))) }
    }

    /// A subscription with a thread, which calls `notify` with each notification. It begins when something is sent: the
    /// application knows the handle then. A service may be out of reach for `limit`.
    pub(crate) fn threaded(
        mut subscription: Subscription,
        limit: Duration,
        mut notify: impl FnMut(&Notified) + Send + 'static,
    ) -> Result<(Subscribed, Sender<()>)> {
        let stopper = subscription.stopper();
        let (go, goes) = channel();
        let run = move || {
            if goes.recv().is_err() {
                // It has no handle.
                return;
            }
            // Ends: with the last notification, or when the subscription is freed.
            loop {
                let notified = match subscription.next_while_reached(limit) {
                    Ok(Some(notification)) => Notified::of(notification),
                    // Another function of the library has ended it, or it is over.
                    Ok(None) | Err(ClientError::Stopped) => return,
                    Err(error) => Notified::lost(error),
                };
                notify(&notified);
                if !matches!(notified, Notified::Tally(..)) {
                    return;
                }
            }
        };
        let thread = thread::Builder::new().name("gpc-notify".into()).spawn(run)?;
        Ok((Subscribed { stopper, reader: Reader::Thread(Mutex::new(Some(thread))) }, go))
    }

    /// The next notification; `None` after the last one.
    pub(crate) fn next(&self, limit: Duration) -> Result<Option<Arc<Notified>>> {
        let Reader::Application(shared) = &self.reader else {
            return Err(Error::new(
                CGPC_ERR_UNSUPPORTED,
                "a function receives the notifications of this subscription: it was passed to cgpc_rendezvous_subscribe",
            ));
        };
        let mut reader = match shared.try_lock() {
            Ok(reader) => reader,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => {
                return Err(Error::new(CGPC_ERR_BUSY, "another thread waits for this subscription"));
            }
        };
        let (subscription, last) = &mut *reader;
        *last = subscription.next(limit)?.map(Notified::of).map(Arc::new);
        Ok(last.clone())
    }

    /// Ends it. Its function does not run afterwards, unless it calls this.
    pub(crate) fn end(&self) {
        self.stopper.stop();
        if let Reader::Thread(thread) = &self.reader {
            let thread = thread.lock().unwrap_or_else(PoisonError::into_inner).take();
            // A function that frees its own subscription runs on this thread, which ends with it.
            if let Some(thread) = thread.filter(|own| own.thread().id() != thread::current().id()) {
                // A panic of the thread was reported there.
                let _ = thread.join();
            }
        }
    }
}

impl Notified {
    fn of(notification: Notification) -> Notified {
        match notification {
            Notification::Tally { tally, capacity } => Notified::Tally(tally, capacity),
            Notification::Completed(completion) => Notified::Completed(completion),
            Notification::Failed(fault) => Notified::failed(Error::from(&fault)),
        }
    }

    /// The service is not reached any more.
    fn lost(error: ClientError) -> Notified {
        Notified::failed(error.into())
    }

    fn failed(error: Error) -> Notified {
        let fault = error.cause.map_or(0, |cause| cause.kind.into());
        Notified::Failed(error.status, fault, error.c_message())
    }
}

impl From<&Fault> for Error {
    fn from(fault: &Fault) -> Error {
        let mut error = Error::new(CGPC_ERR_FAULT, fault.message.clone());
        error.cause = Some(Origin { kind: fault.kind.number(), ..Origin::default() });
        error
    }
}

impl From<ClientError> for Error {
    fn from(error: ClientError) -> Error {
        let status = match &error {
            ClientError::Fault(fault) => return Error::from(fault),
            ClientError::NotYet { .. } => CGPC_PENDING,
            ClientError::Url(_) | ClientError::NoAuthority { .. } | ClientError::Authority { .. } => {
                CGPC_ERR_ARGUMENT
            }
            ClientError::Stopped => CGPC_ERR_STATE,
            ClientError::OnAsyncThread => CGPC_ERR_DEADLOCK,
            ClientError::System(_) => CGPC_ERR_SYSTEM,
            _ => CGPC_ERR_SERVER,
        };
        Error::new(status, error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use gpc_rendezvous::FaultKind;

    use super::*;

    #[test]
    fn a_fault_has_its_number_and_no_cause_of_a_call() {
        let error = Error::from(ClientError::Fault(Fault::new(FaultKind::RankTaken, "taken")));
        assert_eq!((error.status, &*error.message), (CGPC_ERR_FAULT, "taken"));
        assert_eq!(error.cause.unwrap(), Origin { kind: 6, ..Origin::default() });
        let Notified::Failed(status, fault, message) = Notified::failed(error) else { panic!("it failed") };
        assert_eq!((status, fault, message.to_str()), (CGPC_ERR_FAULT, 6, Ok("taken")));
    }

    #[test]
    fn each_error_of_a_client_has_its_status() {
        let limit = Duration::ZERO;
        let service = String::new;
        for (error, status) in [
            (ClientError::NotYet { limit }, CGPC_PENDING),
            (ClientError::Stopped, CGPC_ERR_STATE),
            (ClientError::OnAsyncThread, CGPC_ERR_DEADLOCK),
            (ClientError::NoAuthority { service: service() }, CGPC_ERR_ARGUMENT),
            (ClientError::Unreachable { service: service(), why: service() }, CGPC_ERR_SERVER),
            (ClientError::Nonsense { service: service(), what: service() }, CGPC_ERR_SERVER),
        ] {
            assert_eq!(Error::from(error).status, status);
        }
    }
}
