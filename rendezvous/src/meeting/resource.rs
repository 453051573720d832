//! A resource as a meeting needs it, wherever it is.

use std::time::Duration;

use bytes::Bytes;

use crate::machine::{Completion, Fault, FaultKind, Handle, Life, Of, Registered, Token, Unit, Wanted};
use crate::native;

/// A resource that is asked by whatever means. Each question waits for its answer, with a limit of its own; that a service is not reached is a fault of the kind [`AboveFailed`](FaultKind::AboveFailed).
pub trait Resource: Send + Sync {
    /// Registers for as long as the registrant is seen to live. With the same token it may be asked again.
    ///
    /// # Errors
    /// What the service says.
    fn register(&self, rank: Wanted, token: &Token, data: Bytes) -> Result<Registered, Fault>;

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

    /// The first ranks that have not registered.
    ///
    /// # Errors
    /// What the service says.
    fn missing(&self) -> Result<Vec<u32>, Fault>;
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
    fn register(&self, rank: Wanted, token: &Token, data: Bytes) -> Result<Registered, Fault> {
        self.client.register(&self.handle, rank, token, data, LINKED).map_err(fault)
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

    fn missing(&self) -> Result<Vec<u32>, Fault> {
        self.client.properties(&self.handle).map(|properties| properties.missing).map_err(fault)
    }
}

fn fault(error: native::ClientError) -> Fault {
    match error {
        native::ClientError::Fault(fault) => fault,
        other => Fault::new(FaultKind::AboveFailed, other.to_string()),
    }
}
