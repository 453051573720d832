//! Names of jobs and processes: those of PMIx, and those of the domain.

use std::collections::BTreeSet;

use gpc_pmix::server::{ALL, Process};

use crate::names::{GroupId, Member};

/// The namespaces of a domain: the names of the groups' databases.
#[derive(Debug)]
pub(super) struct Names {
    prefix: String,
}

impl Names {
    pub(super) fn new(domain: &str) -> Names {
        Names { prefix: format!("kvs_{domain}_") }
    }

    /// The namespace of a group.
    pub(super) fn namespace(&self, group: GroupId) -> String {
        format!("{}{}", self.prefix, group.0)
    }

    /// The group of a namespace; `None` if it is not of this domain.
    pub(super) fn group(&self, namespace: &str) -> Option<GroupId> {
        let number = namespace.strip_prefix(&self.prefix)?;
        number.parse().ok().map(GroupId).filter(|group| self.namespace(*group) == namespace)
    }

    /// A process; `None` if it stands for all of its job, or is not of this domain.
    pub(super) fn member(&self, process: &Process) -> Option<Member> {
        let group = self.group(&process.namespace)?;
        // Greater numbers have special meanings.
        (process.rank < ALL - 16).then_some(Member { group, rank: process.rank })
    }

    pub(super) fn process(&self, member: Member) -> Process {
        Process { namespace: self.namespace(member.group), rank: member.rank }
    }

    /// The groups that processes belong to; `None` if one is not of this domain.
    pub(super) fn groups(&self, processes: &[Process]) -> Option<BTreeSet<GroupId>> {
        processes.iter().map(|process| self.group(&process.namespace)).collect()
    }
}
