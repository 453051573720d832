//! Finds the members that have not entered a collective request whose time limit has passed. The coordinator asks their
//! nodes and reports to all members.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use chained_gpc::trees::Id;

use super::Domain;
use super::outgoing::CallPurpose;
use crate::fault::{Fault, FaultKind};
use crate::names::Member;
use crate::order::{Meeting, Order, Purpose, Report};

/// Most members that a fault lists.
const MISSING_MAX: usize = 64;

/// Most ranges of ranks in the message, and most nodes without an answer: a few lines of a terminal.
const RANGES_MAX: usize = 16;
const NODES_MAX: usize = 4;

/// Time limit for the nodes' answers. It extends the members' own limit by at most this much; a live node answers at
/// once.
pub(super) const PATIENCE: Duration = Duration::from_secs(1);

impl Domain {
    /// The living members here that have not arrived: the first ones, and the number of further ones.
    pub(super) fn missing_here(&self, meeting: &Meeting, purpose: &Purpose) -> (Vec<Member>, u64) {
        let epochs = self.collective.epochs.get(meeting);
        let mut missing = self.living_here(&meeting.set, purpose);
        missing.retain(|member| epochs.is_none_or(|epochs| !epochs.has_entered(*member, meeting.epoch)));
        let more = missing.len().saturating_sub(MISSING_MAX);
        missing.truncate(MISSING_MAX);
        (missing, more as u64)
    }

    /// At the coordinator of a request that fails with `fault`, since a time limit has passed: asks its nodes for
    /// missing members. Returns false if the request is unknown here.
    pub(super) fn query_missing(&mut self, meeting: &Meeting, fault: &Fault) -> bool {
        let purpose = self.purpose_of(meeting);
        let Some(collection) = self.collection_for(meeting, &purpose) else { return false };
        collection.late = Some(fault.clone());
        let nodes = collection.nodes.clone();
        if let Some(call) = collection.call.take() {
            self.cancel_call(call);
        }
        let me = self.me();
        let others: Vec<Id> = nodes.into_iter().filter(|id| *id != me && !self.lost.contains(id)).collect();
        if others.is_empty() {
            self.missing_known(meeting, Vec::new());
        } else {
            let order = Arc::new(Order::Missing { meeting: meeting.clone(), purpose });
            self.call(others, order, true, PATIENCE, CallPurpose::Missing(meeting.clone()));
        }
        true
    }

    /// The nodes have reported their missing members: fails the request with a fault that lists them.
    pub(super) fn missing_known(&mut self, meeting: &Meeting, reports: Vec<(Id, Result<Report, Fault>)>) {
        let Some(collection) = self.collective.collections.get_mut(meeting) else { return };
        let Some(mut fault) = collection.late.take() else { return };
        let purpose = self.purpose_of(meeting);
        let (mut missing, mut more) = self.missing_here(meeting, &purpose);
        let mut silent = Vec::new();
        for (id, report) in reports {
            match report {
                Ok(Report::Missing(members, others)) => {
                    missing.extend(members);
                    more = more.saturating_add(others);
                }
                _ => silent.push(id),
            }
        }
        missing.sort_unstable();
        more = more.saturating_add(missing.len().saturating_sub(MISSING_MAX) as u64);
        missing.truncate(MISSING_MAX);
        fault.message += &describe(&missing, more, &silent);
        fault.missing = missing;
        debug_assert_eq!(fault.kind, FaultKind::TimedOut);
        self.finish_meeting(meeting, fault);
    }
}

/// The end of the message, after the member whose time limit has passed.
fn describe(missing: &[Member], more: u64, silent: &[Id]) -> String {
    let mut text = String::new();
    if !missing.is_empty() {
        let ranges = ranges(missing);
        let shown: Vec<&str> = ranges.iter().take(RANGES_MAX).map(|(text, _)| text.as_str()).collect();
        let left: usize = ranges.iter().skip(RANGES_MAX).map(|(_, count)| count).sum();
        let more = more.saturating_add(left as u64);
        text += &format!(": {}", shown.join(", "));
        if more > 0 {
            // Writing to a String cannot fail.
            let _ = write!(text, " and {more} more");
        }
        text += if missing.len() as u64 + more == 1 { " has not come" } else { " have not come" };
    } else if silent.is_empty() {
        text += ": all members have come, too late";
    }
    if !silent.is_empty() {
        let nodes: Vec<String> = silent.iter().take(NODES_MAX).map(Id::to_string).collect();
        let more = if silent.len() > NODES_MAX { " and others" } else { "" };
        let _ = write!(text, "; of the members on node {}{more} it is not known", nodes.join(", "));
    }
    text
}

/// Groups sorted members into ranges of ranks, each with its size.
fn ranges(members: &[Member]) -> Vec<(String, usize)> {
    let follows = |a: &Member, b: &Member| a.group == b.group && a.rank.checked_add(1) == Some(b.rank);
    let runs = members.chunk_by(follows).map(|run| {
        let last = match run {
            [_, .., last] => format!("-{}", last.rank),
            _ => String::new(),
        };
        (format!("{}{last}", run[0]), run.len())
    });
    runs.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::{GroupId, Rank};

    fn members(group: u32, ranks: impl IntoIterator<Item = Rank>) -> Vec<Member> {
        ranks.into_iter().map(|rank| Member { group: GroupId(group), rank }).collect()
    }

    #[test]
    fn members_are_named_as_ranges_and_the_list_has_an_end() {
        assert_eq!(describe(&members(1, [3]), 0, &[]), ": g1.3 has not come");
        let two = [members(1, [0, 1, 2, 5]), members(2, [6])].concat();
        assert_eq!(describe(&two, 7, &[]), ": g1.0-2, g1.5, g2.6 and 7 more have not come");
        let many = describe(&members(1, (0..64).map(|rank| 2 * rank)), 100, &[]);
        assert!(many.contains("g1.30 and 148 more"), "{many}");
        assert_eq!(describe(&[], 0, &[]), ": all members have come, too late");
        assert_eq!(describe(&[], 0, &[4, 5]), "; of the members on node 4, 5 it is not known");
    }
}
