//! The processes of a copy, one on each host, and the failures of hosts.

use std::collections::BTreeMap;
use std::time::Duration;

use chained_gpc::runtime::{CallError, CallHandle, Node, Outcome, Peers};
use chained_gpc::wire::Status;
use chained_gpc::{Call, Id, IdList, TimeLimit};
use gpc_launch::NodeSettings;
use gpc_launch::remote::{RemoteLaunch, RemotePlan};
use ring::rand::{SecureRandom as _, SystemRandom};

use crate::Failure;
use crate::by_host;
use crate::cause::{Names, explain};
use crate::interrupt::Interrupt;
use crate::joining::refuse_taken;
use crate::launching::start_remote;
use crate::limits::cannot_start;
use crate::trust::Trust;

/// Interval at which a waiting command checks for a signal: too short for a person to notice.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Time that the processes have to end by themselves.
const END_LIMIT: Duration = Duration::from_secs(2);

/// Time limit of a call for one piece: even a line of 64 kbit/s carries one in that time. A process that is lost is
/// noticed long before.
const PIECE_LIMIT: Duration = Duration::from_secs(3600);

/// A number that no other copy of a file has.
///
/// # Errors
/// If the system gives no random bytes.
pub(crate) fn token() -> Result<u64, String> {
    let mut bytes = [0; 8];
    SystemRandom::new().fill(&mut bytes).map_err(|_| "the system gives no random bytes".to_owned())?;
    Ok(u64::from_le_bytes(bytes))
}

/// Which processes.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Where {
    /// Started on hosts.
    Started(Box<RemotePlan>),
    /// Running nodes, which this one joins as this id.
    Joined { me: Id, peers: Peers, trust: Trust },
}

impl Where {
    /// Number of processes, without this one.
    pub(super) fn count(&self) -> usize {
        match self {
            Where::Started(plan) => plan.hosts.len(),
            Where::Joined { peers, .. } => peers.len(),
        }
    }
}

/// Processes that were started or joined.
pub(super) struct Processes {
    node: Node,
    remote: Option<RemoteLaunch>,
}

impl Processes {
    /// Starts the processes, or joins those that run. Hosts that do not answer have failed then.
    ///
    /// # Errors
    /// If nothing can be started, the id is taken, or a signal ends the start.
    pub(super) fn open(place: &Where, interrupt: &Interrupt) -> Result<Processes, Failure> {
        let settings = NodeSettings::default();
        let (builder, remote) = match place {
            Where::Started(plan) => {
                let remote = start_remote(plan, settings, || interrupt.signal().is_some())?;
                (remote.root(Node::builder(0)), Some(remote))
            }
            Where::Joined { me, peers, trust } => {
                refuse_taken(*me, peers)?;
                (trust.clone().apply(Node::builder(*me).peers(peers.clone())), None)
            }
        };
        let node = settings.apply(builder).start().map_err(cannot_start("this node"))?;
        Ok(Processes { node, remote })
    }

    /// All of them. `interrupted`: whether a signal requests the end.
    pub(super) fn hosts<'a>(
        &'a self,
        place: &'a Where,
        interrupted: &'a dyn Fn() -> bool,
        limit: Option<TimeLimit>,
    ) -> Hosts<'a> {
        let (names, left) = match place {
            Where::Started(plan) => (HostNames::Listed(plan), (1..=plan.processes()).collect()),
            Where::Joined { me, peers, .. } => {
                (HostNames::Ids(peers), peers.ids().filter(|id| id != me).collect())
            }
        };
        let (node, remote) = (&self.node, self.remote.as_ref());
        Hosts { node, remote, names, interrupted, limit, left, failed: BTreeMap::new() }
    }

    /// Ends the processes.
    pub(super) fn close(self) {
        if let Some(remote) = self.remote {
            remote.end(END_LIMIT);
        }
        self.node.shutdown(Duration::ZERO);
    }
}

/// What processes are called.
#[derive(Clone, Copy, Debug)]
pub(crate) enum HostNames<'a> {
    /// By their hosts.
    Listed(&'a RemotePlan),
    /// By their ids.
    Ids(&'a Peers),
}

/// Processes that take or send files, and which of them have failed.
pub(crate) struct Hosts<'a> {
    pub(crate) node: &'a Node,
    pub(crate) remote: Option<&'a RemoteLaunch>,
    pub(crate) names: HostNames<'a>,
    /// Whether a signal requests the end.
    pub(crate) interrupted: &'a dyn Fn() -> bool,
    pub(crate) limit: Option<TimeLimit>,
    /// Those that have not failed.
    pub(crate) left: Vec<Id>,
    pub(crate) failed: BTreeMap<Id, String>,
}

impl Hosts<'_> {
    /// The ids that have not failed.
    pub(super) fn left(&self) -> &[Id] {
        &self.left
    }

    /// Starts a partial call over some of them, in which this process takes no part. None if there are none.
    ///
    /// # Errors
    /// If the call is refused.
    pub(super) fn call(&self, call: Call, ids: &[Id]) -> Result<Option<CallHandle>, CallError> {
        let ids = match IdList::from_ids(ids.iter().copied()) {
            Ok(list) if !ids.is_empty() => list,
            _ => return Ok(None),
        };
        let limit = self.limit.as_ref().map_or(PIECE_LIMIT, |limit| limit.left().unwrap_or_default());
        self.node.call(call.ids(ids).partial().watch().limit(limit.max(Duration::from_millis(1)))).map(Some)
    }

    /// Waits for a call, and notes the ids that have failed. None after a signal, or if the time is over.
    ///
    /// # Errors
    /// That of the call as a whole.
    pub(super) fn wait(&mut self, mut handle: CallHandle) -> Result<Option<Outcome>, Failure> {
        // Ends: the call has a time limit.
        let ended = loop {
            if let Some(ended) = handle.wait_for(POLL_INTERVAL) {
                break ended;
            }
            if self.is_interrupted() {
                handle.cancel();
                return Ok(None);
            }
        };
        if self.is_over() {
            return Err(self.late());
        }
        let outcome = ended?;
        for id in outcome.ids().iter() {
            if outcome.status(id) != Some(Status::Done) {
                let why = match outcome.cause(id) {
                    Some(cause) => explain(cause, &Names::default(), None, self.remote, self.peers()).message,
                    None => "it may not have received the piece".into(),
                };
                self.fail(id, why);
            }
        }
        Ok(Some(outcome))
    }

    /// Notes that an id has failed; the first reason counts.
    pub(super) fn fail(&mut self, id: Id, why: String) {
        self.left.retain(|left| *left != id);
        self.failed.entry(id).or_insert(why);
    }

    /// Whether a signal has come.
    pub(super) fn is_interrupted(&self) -> bool {
        (self.interrupted)()
    }

    fn is_over(&self) -> bool {
        self.limit.as_ref().is_some_and(|limit| limit.left().is_none())
    }

    fn late(&self) -> Failure {
        "the time limit has passed: files that were not complete are not in their places; raise --time-limit"
            .into()
    }

    fn peers(&self) -> Option<&Peers> {
        match self.names {
            HostNames::Listed(_) => None,
            HostNames::Ids(peers) => Some(peers),
        }
    }

    /// The name of the host of an id, or of the id if only that is known.
    pub(super) fn name(&self, id: Id) -> String {
        match self.names {
            HostNames::Listed(plan) => {
                let host = id.checked_sub(1).and_then(|place| plan.hosts.get(place as usize));
                host.map_or_else(|| id.to_string(), |host| host.name.clone())
            }
            HostNames::Ids(_) => id.to_string(),
        }
    }

    /// Returns a line for each reason of a failure, with the hosts that have it.
    pub(super) fn failures(&self) -> Vec<String> {
        let what = match self.names {
            HostNames::Listed(_) => "host",
            HostNames::Ids(_) => "id",
        };
        let failed: Vec<(String, &String)> =
            self.failed.iter().map(|(id, why)| (self.name(*id), why)).collect();
        by_host::lines(what, failed.iter().map(|(name, why)| (name.as_str(), (*why).clone())))
    }
}
