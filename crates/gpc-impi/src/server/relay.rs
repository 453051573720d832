//! Broadcasts through the clients' own nodes: who has one, which client passes a broadcast on, and who gets it from the server after all.
//!
//! The server asks all clients where their nodes listen, once C_VERSION shows that they all know what it asks. From then on a broadcast goes to one of them, the *root* of a call over all nodes, which says whom it has reached. The others get it from the server, as those do that have no node. One broadcast is under way at a time, so that each client gets them in order.
//!
//! It goes beyond the source: see [`wire::Relay`](crate::wire::Relay).

use std::collections::VecDeque;

use bytes::Bytes;
use chained_gpc::TreeName;

use super::machine::Output;
use super::{Event, Rank, Server, SettingsError, Stage};
use crate::wire::{self, JOB_LEN, Label, NodeAt, PRIVATE_MAJOR, Relay, TREE_MAX};

/// How broadcasts are to go through the clients' own nodes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RelaySettings {
    tree: String,
    job: [u8; JOB_LEN],
}

impl RelaySettings {
    /// Along a built-in tree, such as `binomial`; the job is drawn for this session alone.
    ///
    /// # Errors
    /// [`SettingsError::Tree`] when there is no such tree.
    pub fn new(tree: &str, job: [u8; JOB_LEN]) -> Result<RelaySettings, SettingsError> {
        let known = tree.parse::<TreeName>().is_ok_and(|name| name.built_in().is_some());
        match known && tree.len() <= TREE_MAX && tree.bytes().all(|byte| byte.is_ascii_graphic()) {
            true => Ok(RelaySettings { tree: tree.to_owned(), job }),
            false => Err(SettingsError::Tree(chained_gpc::Shown(tree).to_string())),
        }
    }
}

/// How far it has come.
#[derive(Debug, Default)]
pub(super) struct Relaying {
    phase: Phase,
    /// Broadcasts whose turn has not come, in order.
    waiting: VecDeque<Broadcast>,
}

/// How broadcasts go out.
#[derive(Debug, Default)]
enum Phase {
    /// From the server to each client.
    #[default]
    Plain,
    /// Not yet: by client rank, what has been answered to RELAY.
    Asking(Vec<Option<Option<NodeAt>>>),
    /// Through the nodes of these clients.
    On {
        /// The clients that have a node.
        nodes: u32,
        /// Who passes which broadcast on.
        under_way: Option<(Rank, Broadcast)>,
    },
}

/// A broadcast that is not everywhere.
#[derive(Debug)]
struct Broadcast {
    label: Label,
    /// The whole COLL.
    bytes: Bytes,
}

impl Relaying {
    /// Whether no broadcast waits.
    pub(super) fn is_idle(&self) -> bool {
        let busy = matches!(self.phase, Phase::Asking(_) | Phase::On { under_way: Some(_), .. });
        !busy && self.waiting.is_empty()
    }

    /// Bytes of clients that are held.
    pub(super) fn held(&self) -> usize {
        let under_way = match &self.phase {
            Phase::On { under_way: Some((_, broadcast)), .. } => broadcast.bytes.len(),
            _ => 0,
        };
        under_way + self.waiting.iter().map(|broadcast| broadcast.bytes.len()).sum::<usize>()
    }

    /// Whether something is to come of this client, and whatever it may send before that is early.
    pub(super) fn owes(&self, rank: Rank) -> bool {
        match &self.phase {
            Phase::Plain => false,
            Phase::Asking(answers) => answers.get(rank as usize).is_some_and(Option::is_none),
            Phase::On { under_way, .. } => under_way.as_ref().is_some_and(|(root, _)| *root == rank),
        }
    }

    /// Whom the session waits for, and at what.
    pub(super) fn waits(&self) -> Option<(Vec<Rank>, Stage)> {
        match &self.phase {
            Phase::Asking(answers) => {
                let silent = (0..).zip(answers).filter(|(_, answer)| answer.is_none());
                Some((silent.map(|(rank, _)| rank).collect(), Stage::Nodes))
            }
            Phase::On { under_way: Some((root, broadcast)), .. } => {
                Some((vec![*root], Stage::Reached(broadcast.label)))
            }
            _ => None,
        }
    }
}

impl Server {
    /// Sends a broadcast to all, by whichever way it goes.
    pub(super) fn deliver(&mut self, label: Label, bytes: Bytes) {
        if let Phase::Plain = self.relaying.phase {
            return self.send_all(&bytes);
        }
        self.relaying.waiting.push_back(Broadcast { label, bytes });
        self.relay_next();
    }

    /// C_VERSION was broadcast, with the values of these clients: asks all of them for their nodes, if they all know what it asks.
    pub(super) fn relay_begins(&mut self, values: &[(Rank, Bytes)]) {
        let Some(settings) = &self.settings.relay else { return };
        let knows = |list: &Bytes| {
            let lists = wire::divide(list, 1).unwrap_or_default();
            lists.iter().flatten().any(|version| version.major == PRIVATE_MAJOR)
        };
        let knowing: Vec<Rank> =
            values.iter().filter(|(_, list)| knows(list)).map(|(rank, _)| *rank).collect();
        let lacking: Vec<Rank> = (0..self.settings.clients).filter(|rank| !knowing.contains(rank)).collect();
        if !lacking.is_empty() {
            return self.event(Event::Unrelayed(lacking));
        }
        let asked = Relay::Tree(settings.tree.clone()).to_bytes();
        self.relaying.phase = Phase::Asking(vec![None; knowing.len()]);
        self.send_all(&asked);
    }

    /// One of these commands has come from a client.
    pub(super) fn relay_said(&mut self, rank: Rank, said: Relay) -> Result<(), String> {
        if !self.relaying.owes(rank) {
            let name = Relay::name_of(said.number()).unwrap_or_default();
            return Err(format!("{name} when it was not asked for"));
        }
        match (said, &mut self.relaying.phase) {
            (Relay::Node(node), Phase::Asking(answers)) => {
                answers[rank as usize] = Some(node);
                self.event(Event::Node(rank, node));
                self.relay_starts();
            }
            (Relay::Reached(label, reached), Phase::On { nodes, under_way }) => {
                let (nodes, awaited) = (*nodes, under_way.as_ref().map(|(_, broadcast)| broadcast.label));
                if Some(label) != awaited {
                    return Err(format!("REACHED of label {label}, which it does not pass on now"));
                }
                if reached & !nodes != 0 || reached >> rank & 1 == 0 {
                    return Err(format!(
                        "REACHED with mask {reached:#x}: it has its own bit, and others of {nodes:#x}, who have nodes"
                    ));
                }
                self.relayed(rank, nodes, reached);
            }
            (said, _) => {
                let name = Relay::name_of(said.number()).unwrap_or_default();
                return Err(format!("{name}, when another command was asked for"));
            }
        }
        // DONE may have waited for it.
        self.answer();
        Ok(())
    }

    /// Begins, when all have said where their nodes are.
    fn relay_starts(&mut self) {
        let Phase::Asking(answers) = &self.relaying.phase else { return };
        let Some(nodes) = answers.iter().copied().collect::<Option<Vec<Option<NodeAt>>>>() else { return };
        let mask: u32 =
            (0..).zip(&nodes).filter(|(_, node)| node.is_some()).fold(0, |mask, (rank, _)| mask | 1 << rank);
        self.relaying.phase = Phase::Plain;
        match &self.settings.relay {
            // A tree of one is no help.
            Some(settings) if mask.count_ones() > 1 => {
                let job = settings.job;
                self.send_all(&Relay::Nodes { job, nodes }.to_bytes());
                self.relaying.phase = Phase::On { nodes: mask, under_way: None };
            }
            _ => self.event(Event::Unrelayed(
                (0..self.settings.clients).filter(|rank| mask >> rank & 1 == 0).collect(),
            )),
        }
        self.relay_next();
    }

    /// Sends what waits, up to the next broadcast that is under way through the tree.
    fn relay_next(&mut self) {
        // Ends: each round takes a broadcast.
        loop {
            let nodes = match &self.relaying.phase {
                Phase::Plain => 0,
                Phase::On { nodes, under_way: None } => *nodes,
                _ => return,
            };
            let Some(broadcast) = self.relaying.waiting.pop_front() else { return };
            match self.relay_root(nodes) {
                Some(root) => self.relay(root, nodes, broadcast),
                None => self.send_all(&broadcast.bytes),
            }
        }
    }

    /// The client that passes a broadcast on: the first one that has a node and has not ended.
    fn relay_root(&self, nodes: u32) -> Option<Rank> {
        let here = |rank: &Rank| {
            let seat = self.seats.get(*rank as usize).and_then(Option::as_ref);
            nodes >> rank & 1 == 1 && seat.is_some_and(|seat| seat.conn.is_some() && !seat.ended)
        };
        (0..self.settings.clients).find(here)
    }

    fn relay(&mut self, root: Rank, nodes: u32, broadcast: Broadcast) {
        self.send_those(!nodes, &broadcast.bytes);
        // The payload is that of a COLL, and so it is shared.
        let payload = broadcast.bytes.slice(8..);
        self.send_those(1 << root, &Relay::broadcast_head(payload.len()));
        self.send_those(1 << root, &payload);
        self.relaying.phase = Phase::On { nodes, under_way: Some((root, broadcast)) };
    }

    /// A broadcast has come to its end in the tree.
    fn relayed(&mut self, root: Rank, nodes: u32, reached: u32) {
        let ended = Phase::On { nodes, under_way: None };
        if let Phase::On { under_way: Some((_, broadcast)), .. } =
            std::mem::replace(&mut self.relaying.phase, ended)
        {
            self.event(Event::Relayed { label: broadcast.label, root, reached, missed: nodes & !reached });
            self.send_those(nodes & !reached, &broadcast.bytes);
        }
        self.relay_next();
    }

    fn send_those(&mut self, clients: u32, bytes: &Bytes) {
        let seats = (0..).zip(self.seats.iter().flatten()).filter(|(rank, _)| clients >> rank & 1 == 1);
        let conns = seats.filter_map(|(_, seat)| seat.conn);
        self.outputs.extend(conns.map(|conn| Output::Send(conn, bytes.clone())));
    }
}
