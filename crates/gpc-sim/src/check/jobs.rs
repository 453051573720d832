//! Checks jobs: the executing id, its position, the asking id, and the reply to merge.

use std::collections::{BTreeMap, BTreeSet};

use gpc_trees::Id;

use super::Observation;
use super::book::Book;
use super::findings::Findings;
use super::record::Record;
use crate::large::LARGE;
use crate::ranges::{NAMES, forget};
use chained_gpc::chain::{Job, Work};
use chained_gpc::wire::{CallId, Message};

const NAME: &str = "jobs";

/// Ids that have asked an id for its part of a call, and ids that have answered it.
#[derive(Default)]
struct Senders {
    requesters: BTreeSet<Id>,
    heard: BTreeSet<Id>,
}

/// Messages received by each id, against which its jobs are judged. Bounded by the calls of a run.
#[derive(Default)]
pub(super) struct Jobs {
    calls: BTreeMap<(Id, CallId), Senders>,
    /// Number of jobs that have not ended; several for a call that starts anew while its function runs.
    running: BTreeMap<(Id, CallId), usize>,
    /// A large call has started, whose jobs are not counted.
    blind: bool,
}

impl Jobs {
    #[inline(always)]
    pub(super) fn observe(&mut self, book: &Book, seen: &Observation<'_>, findings: &mut Findings) {
        match seen {
            Observation::Received { at, from, message: Message::Request(request) }
                if book.small(request.call).is_some() =>
            {
                self.calls.entry((*at, request.call)).or_default().requesters.insert(*from);
            }
            Observation::Received { at, from, message: Message::Response(response) }
                if book.small(response.call).is_some_and(|record| record.plan.callback) =>
            {
                self.calls.entry((*at, response.call)).or_default().heard.insert(*from);
            }
            Observation::Started { plan, .. } => self.blind |= plan.ids.len() > LARGE,
            Observation::Ran { id, call, .. } => {
                let running = self.running.get_mut(&(*id, *call));
                running.into_iter().for_each(|running| *running = running.saturating_sub(1));
            }
            Observation::Held { id, held, .. } if !self.blind => {
                let its = self.running.range((*id, NAMES[0])..=(*id, NAMES[1]));
                let running = its.map(|(_, running)| *running).sum::<usize>();
                if held.jobs != running {
                    findings.add(NAME, format!("id {id} counts {} jobs, and has {running}", held.jobs));
                }
            }
            Observation::Job { id, job } => {
                if !self.blind {
                    *self.running.entry((*id, job.call)).or_default() += 1;
                }
                let wrong = book.small(job.call).and_then(|record| self.wrong(record, *id, job));
                let what = wrong.map(|what| format!("a function of call {} at id {id} {what}", job.call));
                what.into_iter().for_each(|what| findings.add(NAME, what));
            }
            Observation::Ended { id } => {
                forget(&mut self.calls, (*id, NAMES[0])..=(*id, NAMES[1]));
                forget(&mut self.running, (*id, NAMES[0])..=(*id, NAMES[1]));
            }
            _ => {}
        }
    }

    fn wrong(&self, record: &Record, id: Id, job: &Job) -> Option<String> {
        let request = &job.request;
        if job.me != id || request.ids.first() != Some(id) {
            return Some(format!("is told that it is {}, of ids {}", job.me, request.ids));
        }
        let place = (request.position, request.total);
        if record.position(id).is_some_and(|position| place != (position, record.plan.ids.len())) {
            return Some(format!("is told that its place is {} of {}", place.0, place.1));
        }
        let senders = self.calls.get(&(id, job.call));
        match job.parent {
            None if record.root() != Some(id) => return Some("is told that it has no parent".into()),
            Some(parent) if !senders.is_some_and(|senders| senders.requesters.contains(&parent)) => {
                return Some(format!("is told that its parent is {parent}, which has not asked"));
            }
            _ => {}
        }
        match &job.work {
            Work::Callback { from, .. } if !senders.is_some_and(|senders| senders.heard.contains(from)) => {
                Some(format!("merges a reply of {from}, which has sent none"))
            }
            _ => None,
        }
    }
}
