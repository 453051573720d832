//! The errors of an agent.

use std::io;

use super::task::TaskError;

/// Why a process cannot run as the agent that it was started as.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AgentError {
    /// The agent above has gone.
    #[error("the process that started this agent has gone")]
    ParentGone,
    /// The task or the address book is invalid.
    #[error("what this agent was told: {0}")]
    Task(#[from] TaskError),
    /// The orders are too long, or in the wrong order.
    #[error("this agent was told {0}")]
    BadOrders(&'static str),
    /// A system call has failed.
    #[error("cannot {0}: {1}")]
    System(&'static str, #[source] io::Error),
}
