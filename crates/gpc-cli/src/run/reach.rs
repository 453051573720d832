//! How tools find and query domains: at the sockets of heads on this machine, or through running nodes on any host.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use chained_gpc::runtime::{Functions, Node};
use chained_gpc::wire::Shown;
use gpc_bnr::client::Tool;
use gpc_bnr::host::Serving;
use gpc_bnr::request::{Answer, Request};
use gpc_bnr::{Fault, FaultKind};
use gpc_trees::Id;

use super::heads;
use super::nodes::leading;
use crate::Failure;
use crate::args::run::DomainArgs;
use crate::files::read_peers;
use crate::joining::refuse_taken;
use crate::limits::cannot_start;
use crate::refused::Refused;
use crate::trust::Trust;

/// Time limit for nodes to list their domains. Nodes that do not run are usually detected at once.
const LISTED: Duration = Duration::from_secs(10);

/// Maximum number of nodes that an error names.
const NAMED_MAX: usize = 4;

/// Where to look for domains.
pub(super) enum Reach {
    /// On this machine, among the jobs of this user.
    OwnHost,
    /// At the running nodes of a peers file.
    PeersFile(Nodes),
}

/// Running nodes, and the node of this process, which takes no part in what they run.
pub(super) struct Nodes {
    node: Node,
    serving: Serving,
    ids: Vec<Id>,
    file: PathBuf,
}

/// A domain that was found.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct DomainLocation {
    /// Its name.
    pub(super) domain: String,
    /// How to query it.
    pub(super) way: DomainAccess,
}

/// How to query a domain.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum DomainAccess {
    /// At the socket of its head, a process of this machine.
    Head {
        /// Process number of the head.
        pid: u32,
        /// Path of the socket.
        path: PathBuf,
    },
    /// Through the first of these nodes that answers.
    By(Vec<Id>),
}

impl Reach {
    /// Opens what the arguments select. With a peers file, this process becomes a node.
    ///
    /// # Errors
    /// If the file or the secret cannot be used, the id is in use, or the node cannot be started.
    pub(super) fn open(of: &DomainArgs) -> Result<Reach, Failure> {
        let (Some(file), Some(me)) = (&of.peers, of.id) else {
            return match of.trust.secret_file {
                Some(_) => Err(Box::new(Refused::from(
                    "--secret-file goes with --peers FILE: what this user runs on this machine needs none",
                ))),
                None => Ok(Reach::OwnHost),
            };
        };
        let peers = read_peers(file).map_err(Refused::File)?;
        let trust = Trust::read(&of.trust, me, &peers)?;
        refuse_taken(me, &peers)?;
        let ids: Vec<Id> = peers.ids().filter(|id| *id != me).collect();
        if ids.is_empty() {
            return Err(Refused::File(format!("{} names no node that could be asked", file.display())).into());
        }
        let functions = Functions::new();
        let serving = leading(&functions)?;
        let builder = trust.apply(Node::builder(me).peers(peers).functions(&functions));
        let node = builder.start().map_err(cannot_start("this node"))?;
        serving.attach(node.caller());
        Ok(Reach::PeersFile(Nodes { node, serving, ids, file: file.clone() }))
    }

    /// Returns the running domains.
    ///
    /// # Errors
    /// If no node answers.
    pub(super) fn domains(&self) -> Result<Vec<DomainLocation>, Failure> {
        match self {
            Reach::OwnHost => Ok(heads::running()
                .into_iter()
                .map(|head| DomainLocation {
                    domain: head.domain,
                    way: DomainAccess::Head { pid: head.pid, path: head.path },
                })
                .collect()),
            Reach::PeersFile(nodes) => nodes.domains(),
        }
    }

    /// Whether a domain has ended since it was found.
    pub(super) fn has_ended(&self, found: &DomainLocation) -> bool {
        let domains = self.domains();
        domains.is_ok_and(|domains| !domains.iter().any(|other| other.domain == found.domain))
    }

    /// Returns the error for the case that no domain is found.
    pub(super) fn nothing(&self) -> String {
        match self {
            Reach::OwnHost => {
                "this user runs nothing on this machine: there is no `gpc run` that could be asked".into()
            }
            Reach::PeersFile(nodes) => {
                format!("the nodes of {} that answer run nothing", nodes.file.display())
            }
        }
    }

    /// Sends a request to a domain.
    ///
    /// # Errors
    /// The error of the request; the message names the domain.
    pub(super) fn ask(
        &self,
        found: &DomainLocation,
        request: &Request,
        limit: Duration,
    ) -> Result<Answer, Failure> {
        let refused = |fault: Fault| -> Failure {
            let text = fault.to_string();
            format!("domain {}: {}", found.domain, Shown(&text)).into()
        };
        match (&found.way, self) {
            (DomainAccess::Head { pid, path }, _) => {
                let tool = Tool::connect(path, limit).map_err(|error| {
                    format!("the head of domain {} (process {pid}) does not answer: {error}", found.domain)
                })?;
                tool.ask(request).map_err(refused)
            }
            (DomainAccess::By(ids), Reach::PeersFile(nodes)) => {
                nodes.ask(ids, &found.domain, request, limit).map_err(refused)
            }
            (DomainAccess::By(_), Reach::OwnHost) => Err("there is no node to ask by".into()),
        }
    }

    /// Ends the node of this process, if it has one.
    pub(super) fn close(self) {
        if let Reach::PeersFile(nodes) = self {
            nodes.node.shutdown(Duration::ZERO);
        }
    }
}

impl Nodes {
    fn domains(&self) -> Result<Vec<DomainLocation>, Failure> {
        let mut by = BTreeMap::<String, Vec<Id>>::new();
        let mut absent = Vec::new();
        let said = self.serving.domains_of(&self.ids, LISTED);
        let asked = said.len();
        for (id, names) in said {
            match names {
                Ok(names) => names.into_iter().for_each(|name| by.entry(name).or_default().push(id)),
                Err(fault) => {
                    tracing::debug!(id, %fault, "a node does not say which domains it has a part in");
                    absent.push(fault.to_string());
                }
            }
        }
        if absent.len() == asked {
            let why: Vec<String> = absent.iter().take(NAMED_MAX).map(|why| Shown(why).to_string()).collect();
            let file = self.file.display();
            return Err(format!("no node of {file} answers: {}", why.join("; ")).into());
        }
        Ok(by
            .into_iter()
            .map(|(domain, ids)| DomainLocation { domain, way: DomainAccess::By(ids) })
            .collect())
    }

    /// Asks the first node that is still in the domain: a node may have been lost since the domain was found.
    fn ask(&self, ids: &[Id], domain: &str, request: &Request, limit: Duration) -> Result<Answer, Fault> {
        let mut last = Fault::new(FaultKind::NodeLost, "no node has a part in it");
        for id in ids {
            match self.serving.ask_by(*id, domain, request, limit) {
                Err(fault) if [FaultKind::NodeLost, FaultKind::DomainEnded].contains(&fault.kind) => {
                    last = fault;
                }
                said => return said,
            }
        }
        Err(last)
    }
}
