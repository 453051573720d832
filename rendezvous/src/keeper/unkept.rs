//! What a store could not keep: the changes, which are tried again, and the answers that wait until they are safe.
//!
//! The service goes on meanwhile. A request that needs the store is refused; a read is answered; a wait goes on, and learns of a change when that is kept. Nothing is lost that was acknowledged, and nothing is acknowledged that may be lost.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;

use crate::machine::{Answer, Change, Fault, FaultKind, Millis, Output, Request, ResourceId, Ticket, Unit};
use crate::store::StoreError;

/// How long after a failure the store is tried again: at first, and at most. An attempt opens the file anew and reads it, while no request is answered.
const AGAIN_FIRST: Millis = 100;
const AGAIN_MOST: Millis = 2000;

/// What a request asks of the store.
#[derive(Clone, Copy, Debug)]
pub(super) enum Asks {
    /// Nothing.
    Read,
    /// Nothing; its answer follows from what others have changed.
    Wait(ResourceId, Option<Millis>),
    /// Perhaps a change, of this resource where it is known.
    Write(Option<ResourceId>),
}

impl Asks {
    pub(super) fn of(request: &Request) -> Asks {
        match request {
            Request::Properties(_) | Request::Registrant { .. } | Request::List { .. } => Asks::Read,
            Request::Wait { resource, until, .. } => Asks::Wait(*resource, *until),
            Request::Register { resource, .. }
            | Request::Withdraw { resource, .. }
            | Request::Control { resource, .. }
            | Request::Release { resource, .. }
            | Request::Destroy(resource) => Asks::Write(Some(*resource)),
            Request::Create { .. } | Request::EndJob(_) => Asks::Write(None),
        }
    }
}

/// Which part of a resource a change is of. The resource itself comes first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Part {
    Whole,
    Registrant(u32),
    Controller(Unit),
}

/// Changes that are not kept, and what waits for them.
#[derive(Debug)]
pub(super) struct Unkept {
    /// The last change of each part: as many as there are parts, since no new ones are taken.
    changes: BTreeMap<(ResourceId, Part), Change>,
    /// In order. Answers of waits, at most as many as may wait, and what is to be done above.
    outputs: VecDeque<(Option<Millis>, Output)>,
    /// Most answers that wait.
    most: usize,
    /// Why the store has not taken them.
    pub(super) error: StoreError,
    /// When it is tried again.
    pub(super) again: Millis,
    pause: Millis,
}

impl Unkept {
    pub(super) fn new(error: StoreError, most: usize) -> Unkept {
        let (changes, outputs) = (BTreeMap::new(), VecDeque::new());
        Unkept { changes, outputs, most, error, again: 0, pause: AGAIN_FIRST }
    }

    /// The store has failed once more.
    pub(super) fn failed(&mut self, now: Millis, error: StoreError) {
        self.error = error;
        self.again = now.saturating_add(self.pause);
        self.pause = (self.pause * 2).min(AGAIN_MOST);
    }

    /// Changes that are to be kept with the others.
    pub(super) fn add(&mut self, changes: Vec<Change>) {
        for change in changes {
            let key = match &change {
                Change::Resource(id, _) => (*id, Part::Whole),
                Change::Registrant(id, rank, ..) | Change::Withdrawn(id, rank) => {
                    (*id, Part::Registrant(*rank))
                }
                Change::Lease(id, rank, kept) => {
                    // Its data are not kept yet.
                    let key = (*id, Part::Registrant(*rank));
                    if let Some(Change::Registrant(_, _, registrant, _)) = self.changes.get_mut(&key) {
                        *registrant = kept.clone();
                        continue;
                    }
                    key
                }
                Change::Controller(id, unit, _) | Change::Released(id, unit) => {
                    (*id, Part::Controller(*unit))
                }
                Change::Ended(id) => {
                    let parts = (Bound::Included((*id, Part::Whole)), Bound::Unbounded);
                    let of_it = self.changes.range(parts).map(|(key, _)| *key);
                    let of_it: Vec<_> = of_it.take_while(|(of, _)| of == id).collect();
                    of_it.iter().for_each(|key| drop(self.changes.remove(key)));
                    (*id, Part::Whole)
                }
            };
            self.changes.insert(key, change);
        }
    }

    /// All that is to be kept.
    pub(super) fn changes(&self) -> Vec<Change> {
        self.changes.values().cloned().collect()
    }

    /// Whether something of this resource is not kept.
    fn concerns(&self, id: ResourceId) -> bool {
        let first = self.changes.range((id, Part::Whole)..).next();
        first.is_some_and(|((of, _), _)| *of == id)
    }

    /// What becomes of an output: given now, perhaps as a refusal, or held back.
    pub(super) fn pass(&mut self, asks: Option<Asks>, output: Output) -> Option<Output> {
        let (concerned, until) = match (asks, &output) {
            (_, Output::Up(id, _)) => (self.concerns(*id), None),
            (Some(Asks::Wait(id, until)), Output::Answer(_, answer)) => {
                let is_outcome = !matches!(answer, Ok(Answer::NotYet));
                (is_outcome && self.concerns(id), until)
            }
            (Some(Asks::Write(id)), Output::Answer(ticket, Ok(_))) => {
                let refused = id.is_none_or(|id| self.concerns(id));
                let ticket = *ticket;
                return Some(if refused { Output::Answer(ticket, Err(self.fault())) } else { output });
            }
            _ => (false, None),
        };
        match output {
            output if !concerned => Some(output),
            Output::Answer(ticket, _) if self.outputs.len() >= self.most => {
                Some(Output::Answer(ticket, Err(self.fault())))
            }
            output => {
                self.outputs.push_back((until, output));
                None
            }
        }
    }

    /// Those whose wait is over by now.
    pub(super) fn late(&mut self, now: Millis) -> Vec<Ticket> {
        let mut late = Vec::new();
        self.outputs.retain(|(until, output)| match output {
            Output::Answer(ticket, _) if until.is_some_and(|until| until <= now) => {
                late.push(*ticket);
                false
            }
            _ => true,
        });
        late
    }

    /// What waited for the changes, which are kept now.
    pub(super) fn released(self) -> impl Iterator<Item = Output> {
        self.outputs.into_iter().map(|(_, output)| output)
    }

    /// What a request is told that needs the store.
    pub(super) fn fault(&self) -> Fault {
        let error = &self.error;
        let message = format!(
            "the service cannot write its store, so it takes nothing that it has to keep; it tries again: ask again later ({error})"
        );
        Fault::new(FaultKind::Unavailable, message)
    }
}
