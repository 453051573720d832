//! A resource as a meeting needs it, wherever it is.
#![allow(clippy::disallowed_methods, reason = "waits have time limits")]

use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;

use crate::machine::{
    Completion, Fault, FaultKind, Handle, Life, Of, Properties, Registered, Token, Unit, Wanted,
};
use crate::native;

/// A resource that is asked by whatever means. Each question waits for its answer, with a limit of its own. That a service over HTTP is not reached is a fault of the kind [`Unavailable`](FaultKind::Unavailable), since it may be started again; that one on a node is not, of the kind
/// [`AboveFailed`](FaultKind::AboveFailed).
pub trait Resource: Send + Sync {
    /// The same, whose questions but waits are tried for so long at most, where that can be chosen.
    fn within(&self, limit: Duration) -> Box<dyn Resource + '_>;

    /// Registers for as long as the registrant is seen to live. With the same token it may be asked again.
    ///
    /// # Errors
    /// What the service says.
    fn register(&self, rank: Wanted, token: &Token, data: Bytes) -> Result<Registered, Fault>;

    /// Takes a registration back, before the rendezvous is complete.
    ///
    /// # Errors
    /// What the service says.
    fn withdraw(&self, rank: u64, token: &Token) -> Result<(), Fault>;

    /// Waits for a completion; `None` if it has not come within the limit.
    ///
    /// # Errors
    /// What the service says.
    fn wait(&self, of: Of, token: &Token, limit: Duration) -> Result<Option<Completion>, Fault>;

    /// Says that this task controls a unit, for as long as it is seen to live.
    ///
    /// # Errors
    /// What the service says.
    fn control(&self, unit: Unit, name: &str, token: &Token) -> Result<(), Fault>;

    /// Says that this task no longer controls a unit; why that will never come, if so.
    ///
    /// # Errors
    /// What the service says.
    fn release(&self, unit: Unit, token: &Token, lost: Option<String>) -> Result<(), Fault>;

    /// What is known of it.
    ///
    /// # Errors
    /// What the service says.
    fn properties(&self) -> Result<Properties, Fault>;
}

/// A resource by means of a client of its service.
#[derive(Clone, Debug)]
pub struct Reached<C> {
    client: C,
    handle: Handle,
}

impl<C> Reached<C> {
    /// The resource with this handle.
    pub fn new(client: C, handle: Handle) -> Reached<C> {
        Reached { client, handle }
    }
}

/// How a task is seen to live by a service on a node: by its link.
const LINKED: Life = Life::Member(0);

/// By a link that is proved and watched.
impl Resource for Reached<native::Client> {
    fn within(&self, _: Duration) -> Box<dyn Resource + '_> {
        Box::new(self.clone())
    }

    fn register(&self, rank: Wanted, token: &Token, data: Bytes) -> Result<Registered, Fault> {
        self.client.register(&self.handle, rank, token, data, LINKED).map_err(fault)
    }

    fn withdraw(&self, rank: u64, token: &Token) -> Result<(), Fault> {
        self.client.withdraw(&self.handle, rank, token).map_err(fault)
    }

    fn wait(&self, of: Of, token: &Token, limit: Duration) -> Result<Option<Completion>, Fault> {
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

    /// How long a task is believed to live after its last word. It says one at least every [`RENEW`].
    const LEASE: Duration = Duration::from_secs(30);

    /// By leases.
    impl Resource for Reached<Arc<Client>> {
        fn within(&self, limit: Duration) -> Box<dyn Resource + '_> {
            Box::new(Reached::new(Arc::new(self.client.within(limit)), self.handle.clone()))
        }

        fn register(&self, rank: Wanted, token: &Token, data: Bytes) -> Result<Registered, Fault> {
            self.client.register(&self.handle, rank, token, data, Some(LEASE)).map_err(fault)
        }

        fn withdraw(&self, rank: u64, token: &Token) -> Result<(), Fault> {
            self.client.withdraw(&self.handle, rank, token).map_err(fault)
        }

        fn wait(&self, of: Of, token: &Token, limit: Duration) -> Result<Option<Completion>, Fault> {
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
            lost @ (ClientError::Unreachable { .. } | ClientError::Certificate { .. }) => {
                Fault::new(FaultKind::Unavailable, lost.to_string())
            }
            other => Fault::new(FaultKind::AboveFailed, other.to_string()),
        }
    }
}

/// How often a task that waits elsewhere says that it lives.
pub(super) const RENEW: Duration = Duration::from_secs(10);

/// How long is waited before a service that was not reached is asked again.
const AGAIN: Duration = Duration::from_millis(500);

/// When waits end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Until {
    at: Instant,
}

impl Until {
    pub(crate) fn after(limit: Duration) -> Until {
        Until { at: native::after(limit) }
    }

    /// What is left of it.
    pub(crate) fn left(&self) -> Duration {
        self.at.saturating_duration_since(Instant::now())
    }

    /// Waits for a completion, and says meanwhile at other resources, by `renew`, that this task lives. A service that is not reached is asked again: it may be started again.
    pub(crate) fn wait(
        &self,
        resource: &dyn Resource,
        of: Of,
        token: &Token,
        renew: impl Fn(),
    ) -> Result<Option<Completion>, Fault> {
        let mut unreached = None;
        // Ends: the time passes.
        loop {
            let left = self.left();
            match resource.wait(of, token, left.min(RENEW)) {
                Ok(None) => unreached = None,
                Err(fault) if fault.kind == FaultKind::Unavailable => {
                    // The first cause since it was there: what comes when no time is left says less.
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

    /// A limit without an end was added to the time of the clock, which panicked.
    #[test]
    fn a_meeting_may_have_the_longest_limit() {
        let until = Until::after(Duration::MAX);
        assert!(until.left() > Duration::from_secs(86_400 * 365));
    }
}
