//! Broadcasts through the clients' own nodes, at a client: it says where its node listens, passes on what it is given, and takes what comes to its node as if the server had sent it.
//!
//! The node itself is the driver's. It goes beyond the source: see [`wire::Relay`](crate::wire::Relay).

use bytes::Bytes;
use chained_gpc::{Tree, TreeName};

use super::answers::Answer;
use super::machine::{Client, Fault};
use super::{ClientEvent, ClientOutput, Wrong};
use crate::wire::{Command, FrameError, JOB_LEN, Label, NodeAt, Relay, RelayError};

/// What has become of a client's node.
#[derive(Debug)]
pub enum RelayInput {
    /// It listens there; `None`: there is none.
    Listens(Option<NodeAt>),
    /// It was called, with the payload of a COLL.
    Came(Bytes),
    /// The call that was [made](RelayOutput::Call) for this label has ended: these clients, by the bits of their ranks, have what it carried.
    Reached(Label, u32),
}

/// What is wanted of a client's node.
#[derive(Debug)]
pub enum RelayOutput {
    /// It is to listen, and where it does is to be [said](RelayInput::Listens).
    Listen,
    /// It is to be started.
    Start {
        /// The tree that its calls go along.
        tree: Tree,
        /// Its job.
        job: [u8; JOB_LEN],
        /// By client rank, where the nodes listen: its own among them.
        nodes: Vec<Option<NodeAt>>,
    },
    /// It is to call all other nodes, with the payload of a COLL, and whom it has reached is to be [said](RelayInput::Reached).
    Call(Label, Bytes),
}

/// How far it has come.
#[derive(Debug, Default)]
pub(super) struct Relaying {
    /// Whether the driver can have a node.
    wanted: bool,
    phase: Phase,
}

#[derive(Debug, Default)]
enum Phase {
    /// The server has not asked.
    #[default]
    Unasked,
    /// The driver is to say where its node listens.
    Asked(Tree),
    /// The server was told, if there is a node.
    Told(Option<Tree>),
    /// Broadcasts go through the nodes, and this client has none.
    Beside,
    /// Broadcasts go through the nodes, this client's among them; this label's is passed on by it.
    On(Option<Label>),
}

impl Client {
    /// The driver can have a node through which broadcasts go: it is [asked for](RelayOutput::Listen) when the server wants that. Without this the server is told that there is none.
    pub fn relaying(mut self) -> Client {
        self.relaying.wanted = true;
        self
    }

    /// Takes what has become of the node.
    pub(super) fn relay(&mut self, input: RelayInput) -> Result<(), Fault> {
        match input {
            RelayInput::Listens(node) => {
                if let Phase::Asked(tree) = &self.relaying.phase {
                    let tree = tree.clone();
                    self.tell(node, tree);
                }
            }
            RelayInput::Reached(label, mask) => {
                if let Phase::On(calling @ Some(_)) = &mut self.relaying.phase
                    && *calling == Some(label)
                {
                    *calling = None;
                    self.send(Relay::Reached(label, mask | 1 << self.settings.rank).to_bytes());
                    self.event(ClientEvent::Reached(label, mask));
                }
            }
            RelayInput::Came(payload) => {
                if let Phase::On(_) = self.relaying.phase {
                    self.came(payload)?;
                }
            }
        }
        Ok(())
    }

    fn tell(&mut self, node: Option<NodeAt>, tree: Tree) {
        self.send(Relay::Node(node).to_bytes());
        self.event(ClientEvent::Node(node));
        self.relaying.phase = Phase::Told(node.map(|_| tree));
    }

    /// What others pass on counts against what the server may send.
    fn came(&mut self, payload: Bytes) -> Result<(), Fault> {
        let most = self.settings.bytes_max.saturating_sub(self.received);
        if payload.len() > most {
            let len = i32::try_from(payload.len()).unwrap_or(i32::MAX);
            return Err(Wrong::from(FrameError { command: Command::Coll, len, most }).into());
        }
        self.received += payload.len();
        if let Some((label, _)) = head(&payload) {
            self.event(ClientEvent::Relayed(label, payload.len() - 8));
        }
        self.answered(payload)
    }

    /// The server has sent one of these commands.
    pub(super) fn relay_said(&mut self, said: Relay) -> Result<(), Fault> {
        let early = Wrong::Early(Command::Other(said.number()));
        match (said, &mut self.relaying.phase) {
            (Relay::Tree(name), Phase::Unasked) => {
                let tree = name.parse::<TreeName>().ok().and_then(|name| name.built_in());
                let tree = tree.ok_or(Wrong::Relay(RelayError::Tree(name)))?;
                if self.relaying.wanted {
                    self.relaying.phase = Phase::Asked(tree);
                    self.outputs.push_back(ClientOutput::Relay(RelayOutput::Listen));
                } else {
                    self.tell(None, tree);
                }
            }
            (Relay::Nodes { job, nodes }, Phase::Told(tree)) => {
                let own = nodes.get(self.settings.rank as usize).is_some_and(Option::is_some);
                if nodes.len() != self.size as usize || own != tree.is_some() {
                    return Err(Wrong::Nodes { entries: nodes.len(), size: self.size, own }.into());
                }
                self.relaying.phase = match tree.take() {
                    None => Phase::Beside,
                    Some(tree) => {
                        self.outputs.push_back(ClientOutput::Relay(RelayOutput::Start { tree, job, nodes }));
                        Phase::On(None)
                    }
                };
            }
            (Relay::Broadcast(payload), Phase::On(calling @ None)) => {
                let Some((label, _)) = head(&payload) else { return Err(Wrong::Coll(payload.len()).into()) };
                *calling = Some(label);
                let at = self.outputs.len();
                self.answered(payload.clone())?;
                // The others wait for it: it goes before what this client says next.
                self.outputs.insert(at, ClientOutput::Relay(RelayOutput::Call(label, payload)));
            }
            _ => return Err(early.into()),
        }
        Ok(())
    }

    /// Whether it is the same broadcast again, or an earlier one with the values of fewer clients: once through the tree, and once from the server, since it was not known to have come.
    pub(super) fn is_repeated(&self, label: Label, mask: u32, values: &Bytes) -> bool {
        let same = |answer: &Answer| {
            answer.mask == mask && answer.values == values || answer.mask != mask && mask & !answer.mask == 0
        };
        matches!(self.relaying.phase, Phase::On(_)) && self.answers.get(&label).is_some_and(same)
    }
}

/// The label and the mask of a COLL from the server.
fn head(payload: &[u8]) -> Option<(Label, u32)> {
    let head = u64::from_be_bytes(*payload.first_chunk()?);
    Some((Label((head >> 32) as u32), head as u32))
}
