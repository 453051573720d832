//! Starts node processes on other hosts, through a tree, and ends them, as `gpc call --hosts` does, for programs of
//! your own.
//!
//! A [`RemoteLaunch`] runs a command such as `ssh` for some hosts, which starts this program there as an *agent*. An
//! agent is one of the nodes, and starts its share of the others: those of its own host, and agents on further hosts.
//! So the time of the start grows with the depth of the tree, not with the number of hosts, and the work of each host
//! stays small.
//!
//! Needs the feature `noise`, since links between hosts are authenticated and encrypted.
//!
//! ```no_run
//! use gpc_launch::remote::{RemoteLaunch, RemotePlan, is_agent, run_agent};
//! use chained_gpc::{Call, Functions, Node};
//!
//! /// The arguments of a started process.
//! const AGENT: [&str; 1] = ["--agent"];
//!
//! fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let functions = Functions::new();
//!     let pid = functions.func("pid", |_, reply| {
//!         reply.data = std::process::id().to_le_bytes().to_vec();
//!         Ok(())
//!     })?;
//!     // A process started below.
//!     if is_agent(std::env::args_os(), &AGENT) {
//!         return Ok(run_agent(&functions)?);
//!     }
//!     let hosts = ["node1", "node2"];
//!     let launch = RemoteLaunch::start(&RemotePlan::new(hosts, std::env::current_exe()?, &AGENT))?;
//!     let node = launch.root(Node::builder(0)).functions(&functions).start()?;
//!     let outcome = node.call(Call::new(pid).ids(0..3))?.wait()?;
//!     println!("{} processes", outcome.replies()?.len());
//!     launch.end(std::time::Duration::from_secs(5));
//!     Ok(())
//! }
//! ```
//!
//! # What is started
//!
//! A *slot* of a host is room for one process, and each slot gets one. Ids follow the slots of the list of hosts from 1
//! on: if the first host has two slots, ids 1 and 2 are there. The
//! process that starts them is the root, id 0, which does not listen. On each host the first id's process runs `RSH...
//! HOST PROGRAM ARGUMENTS...`; it starts its siblings on that host without that command. Standard input and standard
//! output are lines of text: the orders of the process, and its reports. Its standard error is forwarded to that of the
//! root.
//!
//! 1. Each agent receives its share of the hosts, listens, reports its addresses with a new public key, and starts the
//!    others.
//! 2. The addresses travel up the tree. An error names a host that does not report within [`RemotePlan::start_limit`],
//!    whose command ends, or that prints something else, with its output. The agent above starts the rest of its share
//!    itself. If the connection is dropped at once, as a busy ssh server does, it is tried again after a pause.
//! 3. Job, secret and the addresses and keys of all travel down the same pipes, and the agents become nodes. The secret
//!    is drawn for this launch; no command line and no environment contains it.
//!
//! If all processes run on one machine, they listen on loopback. Otherwise each listens at the address that ssh has
//! reached, or at an address of [`RemotePlan::network`].
//!
//! # How everything is ended
//!
//! If an agent's standard input ends, or nothing arrives for two minutes, the agent ends, with all that it has started.
//! So everything ends when the root ends in any way. If a host in the middle is lost, everything below it ends. A
//! command that is still trying to reach a host is ended by the system with the process that runs it (Linux).

mod agent;
mod agent_error;
mod answer;
mod driver;
mod error;
mod lines;
mod network;
mod process;
mod retry;
mod root;
mod session;
mod share;
mod starting;
mod task;
mod tied;
mod words;

pub use agent::{is_agent, run_agent};
pub use agent_error::AgentError;
pub use error::{LostProcesses, RemoteError, unnamed};
pub use network::{Network, NetworkError};
pub use root::{RemoteLaunch, RemotePlan};
pub use share::REMOTE_PROCESSES_MAX;
pub use task::TaskError;
