//! What a launch starts: the ids, the program and its settings.

use std::ffi::OsString;
use std::io;
use std::ops::Range;
use std::path::PathBuf;

use gpc_trees::Id;

use super::NodeSettings;
use chained_gpc::link::peering::Secret;
use chained_gpc::runtime::{LinkKind, Peers};

/// What to start: the ids, the program and its settings.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Plan {
    /// Ids of the nodes to start, a process for each; at most [`PROCESSES_MAX`](super::PROCESSES_MAX).
    pub ids: Range<Id>,
    /// The kind of their sockets, TCP on loopback or Unix sockets; [`LinkKind::DEFAULT`] by default.
    pub link: LinkKind,
    /// The program that each process runs, usually [the one that runs](super::this_program).
    pub exe: PathBuf,
    /// Its arguments before the id, which is the last one. By them the program [recognizes](super::own_id) that a
    /// launch has started it.
    pub arguments: Vec<OsString>,
    /// Settings of all nodes.
    pub settings: NodeSettings,
    /// Other nodes that the started ones link with, such as a listening node of this process; none by default. A node
    /// that only makes calls need not be among them. If they name no job, one is drawn for the launch: its
    /// [peers](super::Launch::peers) name it.
    pub others: Peers,
    /// The secret of the job, if nodes that are started elsewhere have it already. `None`, the default, draws one for
    /// the launch (with the feature `noise` of this crate, without which links are not authenticated).
    pub secret: Option<Secret>,
}

impl Plan {
    /// Creates a plan with the defaults; its fields may be changed.
    pub fn new(ids: Range<Id>, exe: impl Into<PathBuf>, arguments: &[&str]) -> Plan {
        Plan {
            ids,
            link: LinkKind::DEFAULT,
            exe: exe.into(),
            arguments: arguments.iter().map(OsString::from).collect(),
            settings: NodeSettings::default(),
            others: Peers::new(),
            secret: None,
        }
    }

    /// Returns the plan's secret, or a new one if the crate can authenticate links.
    pub(super) fn secret_or_drawn(&self) -> io::Result<Option<Secret>> {
        match &self.secret {
            Some(secret) => Ok(Some(secret.clone())),
            None if cfg!(feature = "noise") => Secret::random().map(Some),
            None => Ok(None),
        }
    }
}
