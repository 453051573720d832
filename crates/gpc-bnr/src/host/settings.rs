//! Parameters of the head of a domain.

use std::collections::BTreeMap;
use std::fmt;
use std::os::unix::net::UnixListener;

use chained_gpc::trees::Id;

use super::helper::PmixCommand;
use super::input::HostInput;
use super::outflow::Writer;
use super::serving::Serving;
use super::supervisor::SupervisorCommand;
use crate::limits::Limits;

/// Parameters of the head of a domain.
#[non_exhaustive]
pub struct HostSettings {
    /// The id of the head.
    pub me: Id,
    /// The nodes of the domain, the head first.
    pub nodes: Vec<Id>,
    /// Whether the head runs processes as well. Always true if it is the only node.
    pub runs: bool,
    /// Number of processes that each node is to run before any runs more. If it is empty, they are divided evenly.
    pub slots: BTreeMap<Id, u32>,
    /// The addresses by which nodes reach each other, without ports. A node without one is reached by `127.0.0.1`.
    pub addresses: BTreeMap<Id, String>,
    /// The supervisor's command.
    pub supervisor: SupervisorCommand,
    /// The command of the PMIx server; `None`: programs that need one are refused at the head's node.
    pub pmix: Option<PmixCommand>,
    /// The bounds of the domain.
    pub limits: Limits,
    /// Listener for commands of the same user.
    pub tools: Option<UnixListener>,
    /// Writes output; if `None`, output is dropped.
    pub output: Option<Writer>,
    /// The node that reaches the others, with [`Serving::attach`] called; `None` for a domain of one node.
    pub serving: Option<Serving>,
    /// Standard input for rank 0, if that process is on this node. Without it, a [`Feeder`](super::Feeder) passes the
    /// input.
    pub input: Option<HostInput>,
    /// Whether processes connect to a loopback port, for programs that do not know `PMI_FD`.
    pub pmi_port: bool,
}

impl HostSettings {
    /// A domain of one node, without a socket for commands and without a writer for output.
    pub fn new(supervisor: SupervisorCommand) -> HostSettings {
        HostSettings {
            me: 0,
            nodes: vec![0],
            runs: true,
            slots: BTreeMap::new(),
            addresses: BTreeMap::new(),
            supervisor,
            pmix: None,
            limits: Limits::default(),
            tools: None,
            output: None,
            serving: None,
            input: None,
            pmi_port: false,
        }
    }
}

impl fmt::Debug for HostSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostSettings")
            .field("me", &self.me)
            .field("nodes", &self.nodes)
            .finish_non_exhaustive()
    }
}
