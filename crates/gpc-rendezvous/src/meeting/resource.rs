//! Resource interface for meetings, independent of where the resource is.
#![allow(clippy::disallowed_methods, reason = "an unreachable service is asked again after a pause")]

use std::thread;
use std::time::Duration;

use bytes::Bytes;
use chained_gpc::TimeLimit;

use crate::machine::{
    Completion, Fault, FaultKind, Handle, Life, Properties, RankChoice, Registration, Scope, Token, Unit,
};
use crate::native;

/// Access to a resource. Each method blocks until the answer, with a time limit of its own. If a service over HTTP is
/// not reached, the fault has the kind [`Unavailable`](FaultKind::Unavailable), because the service may be restarted.
/// For a service on a node the kind is [`AboveFailed`](FaultKind::AboveFailed).
pub trait Resource: Send + Sync {
    /// The same resource, with this time limit for all requests except waits, if the client supports that.
    fn within(&self, limit: Duration) -> Box<dyn Resource + '_>;

    /// Registers data, until the registrant is found to be lost. The request may be repeated with the same token.
    ///
    /// # Errors
    /// The service's fault.
    fn register(&self, rank: RankChoice, token: &Token, data: Bytes) -> Result<Registration, Fault>;

    /// Withdraws a registration before the rendezvous is complete.
    ///
    /// # Errors
    /// The service's fault.
    fn withdraw(&self, rank: u64, token: &Token) -> Result<(), Fault>;

    /// Waits for a completion. Returns `None` if the rendezvous is not complete within the limit.
    ///
    /// # Errors
    /// The service's fault.
    fn wait(&self, of: Scope, token: &Token, limit: Duration) -> Result<Option<Completion>, Fault>;

    /// Registers this task as the controlling task of a unit, until it is found to be lost.
    ///
    /// # Errors
    /// The service's fault.
    fn control(&self, unit: Unit, name: &str, token: &Token) -> Result<(), Fault>;

    /// Removes this task as controlling task. If its unit will never register, `lost` is the reason.
    ///
    /// # Errors
    /// The service's fault.
    fn release(&self, unit: Unit, token: &Token, lost: Option<String>) -> Result<(), Fault>;

    /// Asks for the properties of the resource.
    ///
    /// # Errors
    /// The service's fault.
    fn properties(&self) -> Result<Properties, Fault>;
}

/// A resource accessed by a client of its service.
#[derive(Clone, Debug)]
pub struct ClientResource<C> {
    client: C,
    handle: Handle,
}

impl<C> ClientResource<C> {
    /// The resource with this handle.
    pub fn new(client: C, handle: Handle) -> ClientResource<C> {
        ClientResource { client, handle }
    }
}

/// Liveness at a service on a node: by the link.
const LINKED: Life = Life::Member(0);

/// Liveness is tracked by a proved link.
impl Resource for ClientResource<native::Client> {
    fn within(&self, _: Duration) -> Box<dyn Resource + '_> {
        Box::new(self.clone())
    }

    fn register(&self, rank: RankChoice, token: &Token, data: Bytes) -> Result<Registration, Fault> {
        self.client.register(&self.handle, rank, token, data, LINKED).map_err(fault)
    }

    fn withdraw(&self, rank: u64, token: &Token) -> Result<(), Fault> {
        self.client.withdraw(&self.handle, rank, token).map_err(fault)
    }

    fn wait(&self, of: Scope, token: &Token, limit: Duration) -> Result<Option<Completion>, Fault> {
        self.client.wait(&self.handle, of, Some(token), limit).map_err(fault)
    }

    fn control(&self, unit: Unit, name: &str, token: &Token) -> Result<(), Fault> {
        self.client.control(&self.handle, unit, name, token, LINKED).map_err(fault)
    }

    fn release(&self, unit: Unit, token: &Token, lost: Option<String>) -> Result<(), Fault> {
        self.client.release(&self.handle, unit, token, lost).map_err(fault)
    }

    fn properties(&self) -> Result<Properties, Fault> {
        self.client.properties(&self.handle).map_err(fault)
    }
}

fn fault(error: native::ClientError) -> Fault {
    match error {
        native::ClientError::Fault(fault) => fault,
        other => Fault::new(FaultKind::AboveFailed, other.to_string()),
    }
}

#[cfg(feature = "client")]
mod http {
    //! A resource of a service over HTTP.

    use std::sync::Arc;

    use super::*;
    use crate::client::{Client, ClientError};

    /// Lease of a task. The task renews it at least every [`RENEW`].
    pub(super) const LEASE: Duration = Duration::from_secs(30);

    /// Liveness is tracked by leases.
    impl Resource for ClientResource<Arc<Client>> {
        fn within(&self, limit: Duration) -> Box<dyn Resource + '_> {
            Box::new(ClientResource::new(Arc::new(self.client.within(limit)), self.handle.clone()))
        }

        fn register(&self, rank: RankChoice, token: &Token, data: Bytes) -> Result<Registration, Fault> {
            self.client.register(&self.handle, rank, token, data, Some(LEASE)).map_err(fault)
        }

        fn withdraw(&self, rank: u64, token: &Token) -> Result<(), Fault> {
            self.client.withdraw(&self.handle, rank, token).map_err(fault)
        }

        fn wait(&self, of: Scope, token: &Token, limit: Duration) -> Result<Option<Completion>, Fault> {
            match self.client.wait(&self.handle, of, Some(token), limit) {
                Ok(completion) => Ok(Some(completion)),
                Err(ClientError::NotYet { .. }) => Ok(None),
                Err(error) => Err(fault(error)),
            }
        }

        fn control(&self, unit: Unit, name: &str, token: &Token) -> Result<(), Fault> {
            self.client.control(&self.handle, unit, name, token, Some(LEASE)).map_err(fault)
        }

        fn release(&self, unit: Unit, token: &Token, lost: Option<String>) -> Result<(), Fault> {
            self.client.release(&self.handle, unit, token, lost.as_deref()).map_err(fault)
        }

        fn properties(&self) -> Result<Properties, Fault> {
            self.client.properties(&self.handle).map_err(fault)
        }
    }

    fn fault(error: ClientError) -> Fault {
        match error {
            ClientError::Fault(fault) => fault,
            lost @ (ClientError::Unreachable { .. }
            | ClientError::Unavailable { .. }
            | ClientError::Certificate { .. }) => Fault::new(FaultKind::Unavailable, lost.to_string()),
            other => Fault::new(FaultKind::AboveFailed, other.to_string()),
        }
    }
}

/// Interval at which a task renews its leases while it waits.
pub(super) const RENEW: Duration = Duration::from_secs(10);

/// Pause before an unreachable service is asked again.
const AGAIN: Duration = Duration::from_millis(500);

/// Waits for a completion within a time limit, and calls `renew` meanwhile to renew leases at other resources. An
/// unreachable service is asked again, because it may be restarted.
pub(crate) fn wait_within(
    limit: &TimeLimit,
    resource: &dyn Resource,
    of: Scope,
    token: &Token,
    renew: impl Fn(),
) -> Result<Option<Completion>, Fault> {
    let mut wait = Wait::default();
    // Ends: when the time limit has passed.
    loop {
        let left = limit.left().unwrap_or_default();
        match wait.take(resource.wait(of, token, left.min(RENEW)), left) {
            Step::End(ended) => return ended,
            Step::Pause => thread::sleep(AGAIN.min(limit.left().unwrap_or_default())),
            Step::Renew => {}
        }
        renew();
    }
}

/// State of a wait that takes several requests.
#[derive(Default)]
struct Wait {
    /// The first cause since the service was last reached: later causes, near the time limit, are less specific.
    unreached: Option<Fault>,
}

/// What follows an answer.
#[derive(PartialEq, Debug)]
enum Step {
    End(Result<Option<Completion>, Fault>),
    /// The service is not reached: pause, then renew the leases and ask again.
    Pause,
    /// Renew the leases and ask again.
    Renew,
}

impl Wait {
    /// Handles the answer to a request that was sent when `left` was left of the time limit.
    fn take(&mut self, answer: Result<Option<Completion>, Fault>, left: Duration) -> Step {
        let step = match answer {
            Ok(None) => {
                self.unreached = None;
                Step::Renew
            }
            Err(fault) if fault.kind == FaultKind::Unavailable => {
                self.unreached.get_or_insert(fault);
                Step::Pause
            }
            ended => return Step::End(ended),
        };
        match left.is_zero() {
            true => Step::End(self.unreached.take().map_or(Ok(None), Err)),
            false => step,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::sync::{Arc, Mutex};

    use chained_gpc::Clock;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn fault(kind: FaultKind, message: &str) -> Fault {
        Fault::new(kind, message)
    }

    fn completion() -> Completion {
        Completion { level: 1, data: "1 1 x".into(), joint: None }
    }

    #[test]
    fn a_wait_ends_with_its_time_and_the_first_cause_since_the_service_was_reached() {
        let unavailable = |message| Err(fault(FaultKind::Unavailable, message));
        let mut wait = Wait::default();
        assert_eq!(wait.take(unavailable("early"), SECOND), Step::Pause);
        assert_eq!(wait.take(Ok(None), SECOND), Step::Renew);
        assert_eq!(wait.take(unavailable("first"), SECOND), Step::Pause);
        assert_eq!(wait.take(unavailable("second"), SECOND), Step::Pause);
        assert_eq!(wait.take(unavailable("third"), Duration::ZERO), Step::End(unavailable("first")));
        let mut wait = Wait::default();
        assert_eq!(wait.take(unavailable("early"), SECOND), Step::Pause);
        assert_eq!(wait.take(Ok(None), Duration::ZERO), Step::End(Ok(None)));
        for ended in [Ok(Some(completion())), Err(fault(FaultKind::Expired, "over"))] {
            assert_eq!(Wait::default().take(ended.clone(), SECOND), Step::End(ended));
        }
    }

    /// A resource that does not complete, whose waits last as long as they may by a clock that they move.
    #[derive(Default)]
    struct Incomplete {
        millis: Arc<AtomicU64>,
        waits: Mutex<Vec<u64>>,
    }

    impl Resource for Incomplete {
        fn within(&self, _: Duration) -> Box<dyn Resource + '_> {
            unreachable!()
        }

        fn register(&self, _: RankChoice, _: &Token, _: Bytes) -> Result<Registration, Fault> {
            unreachable!()
        }

        fn withdraw(&self, _: u64, _: &Token) -> Result<(), Fault> {
            unreachable!()
        }

        fn wait(&self, _: Scope, _: &Token, limit: Duration) -> Result<Option<Completion>, Fault> {
            self.waits.lock().unwrap().push(limit.as_millis() as u64);
            self.millis.fetch_add(limit.as_millis() as u64, Ordering::Relaxed);
            Ok(None)
        }

        fn control(&self, _: Unit, _: &str, _: &Token) -> Result<(), Fault> {
            unreachable!()
        }

        fn release(&self, _: Unit, _: &Token, _: Option<String>) -> Result<(), Fault> {
            unreachable!()
        }

        fn properties(&self) -> Result<Properties, Fault> {
            unreachable!()
        }
    }

    /// One renewal may be lost.
    #[cfg(feature = "client")]
    #[test]
    fn a_lease_outlasts_two_renewals() {
        assert!(2 * RENEW < http::LEASE);
    }

    /// Leases of 30 s are renewed at least every 10 s. The last request is sent at the time limit, so that a completion
    /// just before it counts.
    #[test]
    fn a_long_wait_renews_every_ten_seconds_and_asks_a_last_time_at_its_limit() {
        let (resource, renewed) = (Incomplete::default(), AtomicU64::new(0));
        let read = Arc::clone(&resource.millis);
        let clock = Clock::reading(move || Duration::from_millis(read.load(Ordering::Relaxed)));
        let token = Token::new("t").unwrap();
        let renew = || {
            renewed.fetch_add(1, Ordering::Relaxed);
        };
        let ended = wait_within(&clock.limit(25 * SECOND), &resource, Scope::Own, &token, renew);
        assert_eq!((ended, renewed.into_inner()), (Ok(None), 3));
        assert_eq!(*resource.waits.lock().unwrap(), [10_000, 10_000, 5_000, 0]);
    }
}
