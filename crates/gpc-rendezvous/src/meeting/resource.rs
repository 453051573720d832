//! Resource interface for meetings, independent of where the resource is.
#![allow(clippy::disallowed_methods, reason = "waits have time limits")]

use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;

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
    const LEASE: Duration = Duration::from_secs(30);

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

/// End of a time limit for waits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadline {
    at: Instant,
}

impl Deadline {
    pub(crate) fn after(limit: Duration) -> Deadline {
        Deadline { at: native::after(limit) }
    }

    /// Time left.
    pub(crate) fn left(&self) -> Duration {
        self.at.saturating_duration_since(Instant::now())
    }

    /// Waits for a completion, and calls `renew` meanwhile to renew leases at other resources. An unreachable service
    /// is asked again, because it may be restarted.
    pub(crate) fn wait(
        &self,
        resource: &dyn Resource,
        of: Scope,
        token: &Token,
        renew: impl Fn(),
    ) -> Result<Option<Completion>, Fault> {
        let mut unreached = None;
        // Ends: when the time limit has passed.
        loop {
            let left = self.left();
            match resource.wait(of, token, left.min(RENEW)) {
                Ok(None) => unreached = None,
                Err(fault) if fault.kind == FaultKind::Unavailable => {
                    // Keep the first cause since the service was last reached: later causes, near the time limit, are
                    // less specific.
                    unreached.get_or_insert(fault);
                    thread::sleep(AGAIN.min(self.left()));
                }
                ended => return ended,
            }
            if left.is_zero() {
                return unreached.map_or(Ok(None), Err);
            }
            renew();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Adding an unlimited duration to the clock's time panicked.
    #[test]
    fn a_meeting_may_have_the_longest_limit() {
        let until = Deadline::after(Duration::MAX);
        assert!(until.left() > Duration::from_secs(86_400 * 365));
    }
}
