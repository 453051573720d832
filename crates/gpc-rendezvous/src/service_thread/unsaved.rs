//! Changes that the store failed to take, to be retried, and the answers that wait until these changes are stored.
//!
//! The service continues meanwhile. Requests that need the store are rejected and reads are answered. Changes that no
//! request asks for, such as the end of a lifetime, take effect, and waits learn of them when they are stored. No
//! acknowledged change is lost, and no change is acknowledged before it is stored.
//!
//! A store that fails may have taken the changes nevertheless: if syncing the file fails, for example. So changes that
//! undo those of the refused requests are stored first.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;

use crate::machine::{Answer, Change, Fault, FaultKind, Millis, Output, Request, ResourceId, Ticket, Unit};
use crate::store::StoreError;

/// First and longest interval between retries. A retry opens and reads the file again, and delays all requests
/// meanwhile.
const AGAIN_FIRST: Millis = 100;
const AGAIN_MOST: Millis = 2000;

/// What a request needs from the store.
#[derive(Clone, Copy, Debug)]
pub(super) enum StoreUse {
    /// It reads.
    Read,
    /// It waits until this time for changes that other requests make to this resource.
    Wait(ResourceId, Option<Millis>),
    /// It may change this resource, or one that is yet unknown.
    Write(Option<ResourceId>),
}

impl StoreUse {
    pub(super) fn of(request: &Request) -> StoreUse {
        match request {
            Request::Properties(_) | Request::Registrant { .. } | Request::List { .. } => StoreUse::Read,
            Request::Wait { resource, until, .. } => StoreUse::Wait(*resource, *until),
            Request::Register { resource, .. }
            | Request::Withdraw { resource, .. }
            | Request::Control { resource, .. }
            | Request::Release { resource, .. }
            | Request::Destroy(resource) => StoreUse::Write(Some(*resource)),
            Request::Create { .. } | Request::EndJob(_) => StoreUse::Write(None),
        }
    }
}

/// The part of a resource that a change concerns. `Whole` sorts first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Part {
    Whole,
    Registrant(u32),
    Controller(Unit),
}

/// Changes that are yet to be stored, and outputs that wait for them.
#[derive(Debug)]
pub(super) struct UnsavedChanges {
    /// Undo what was refused when the store failed. There are as many as changes in that turn, and those that restore
    /// a resource that was to end.
    undoing: Vec<Change>,
    /// The last change of each part. Their number is bounded by the parts that exist, because new ones are rejected.
    changes: BTreeMap<(ResourceId, Part), Change>,
    /// Outputs held back, in order: answers to waits, at most `most`, and actions at parent resources.
    outputs: VecDeque<(Option<Millis>, Output)>,
    /// Most answers that are held back.
    most: usize,
    /// Why the store failed.
    pub(super) error: StoreError,
    /// Time of the next retry.
    pub(super) again: Millis,
    pause: Millis,
}

impl UnsavedChanges {
    pub(super) fn new(error: StoreError, most: usize) -> UnsavedChanges {
        let (changes, outputs) = (BTreeMap::new(), VecDeque::new());
        UnsavedChanges { undoing: Vec::new(), changes, outputs, most, error, again: 0, pause: AGAIN_FIRST }
    }

    /// Adds changes that undo those of refused requests. They are stored before all others.
    pub(super) fn undo(&mut self, changes: &[Change]) {
        self.undoing.extend_from_slice(changes);
    }

    /// Records another failure of the store, and sets the time of the next retry.
    pub(super) fn failed(&mut self, now: Millis, error: StoreError) {
        self.error = error;
        self.again = now.saturating_add(self.pause);
        self.pause = (self.pause * 2).min(AGAIN_MOST);
    }

    /// Adds changes, which replace earlier changes of the same parts.
    pub(super) fn add(&mut self, changes: Vec<Change>) {
        for change in changes {
            let key = match &change {
                Change::Resource(id, _) => (*id, Part::Whole),
                Change::Registrant(id, rank, ..) | Change::Withdrawn(id, rank) => {
                    (*id, Part::Registrant(*rank))
                }
                Change::Lease(id, rank, stored) => {
                    // If the registrant itself is yet to be stored, its lease is updated there, so that its data stay.
                    let key = (*id, Part::Registrant(*rank));
                    if let Some(Change::Registrant(_, _, registrant, _)) = self.changes.get_mut(&key) {
                        *registrant = stored.clone();
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

    /// All changes to store.
    pub(super) fn changes(&self) -> Vec<Change> {
        self.undoing.iter().chain(self.changes.values()).cloned().collect()
    }

    /// Whether a change of this resource is yet to be stored.
    fn concerns(&self, id: ResourceId) -> bool {
        let first = self.changes.range((id, Part::Whole)..).next();
        first.is_some_and(|((of, _), _)| *of == id)
    }

    /// Decides about an output: returns it, or a fault in its place, or holds it back.
    pub(super) fn pass(&mut self, store_use: Option<StoreUse>, output: Output) -> Option<Output> {
        let (concerned, until) = match (store_use, &output) {
            (_, Output::ParentAction(id, _)) => (self.concerns(*id), None),
            (Some(StoreUse::Wait(id, until)), Output::Answer(_, answer)) => {
                let is_outcome = !matches!(answer, Ok(Answer::NotYet));
                (is_outcome && self.concerns(id), until)
            }
            (Some(StoreUse::Write(id)), Output::Answer(ticket, Ok(_))) => {
                let refused = id.is_none_or(|id| self.concerns(id));
                let ticket = *ticket;
                return Some(if refused { Output::Answer(ticket, Err(self.uncertain())) } else { output });
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

    /// Removes the held-back answers whose wait has expired, and returns their tickets.
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

    /// The outputs that waited, once the changes are stored.
    pub(super) fn released(self) -> impl Iterator<Item = Output> {
        self.outputs.into_iter().map(|(_, output)| output)
    }

    /// The fault for a request that needs the store, and has changed nothing.
    pub(super) fn fault(&self) -> Fault {
        let error = &self.error;
        let message = format!(
            "the service cannot write its store, so it takes nothing that it has to keep, and nothing was changed: see that there is free disk space for it ({error})"
        );
        Fault::new(FaultKind::Unavailable, message)
    }

    /// The fault for a repeated request whose resource has changes that are yet to be stored, such as its new lease.
    fn uncertain(&self) -> Fault {
        let error = &self.error;
        let message = format!(
            "the service cannot write its store, so what was asked for may have been done, and a restart may undo it: see that there is free disk space for it ({error})"
        );
        Fault::new(FaultKind::Unavailable, message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::{Handle, ParentAction, RankChoice, StoredRegistrant, Token};

    const ID: ResourceId = ResourceId([5; 16]);
    const OTHER: ResourceId = ResourceId([4; 16]);

    fn unsaved(most: usize) -> UnsavedChanges {
        UnsavedChanges::new(StoreError { file: "/there".into(), why: "full".into() }, most)
    }

    fn stored(lease: Option<u64>) -> StoredRegistrant {
        StoredRegistrant { token: Token::new("t").unwrap(), lease }
    }

    fn registrant(id: ResourceId, rank: u32, lease: Option<u64>) -> Change {
        Change::Registrant(id, rank, stored(lease), "data".into())
    }

    #[test]
    fn the_last_change_of_each_part_is_stored_after_what_is_undone() {
        let mut unsaved = unsaved(9);
        unsaved.add(vec![registrant(ID, 1, None), registrant(ID, 2, None)]);
        unsaved.undo(&[Change::Withdrawn(ID, 7), Change::Ended(OTHER)]);
        unsaved.add(vec![Change::Withdrawn(ID, 1), Change::Lease(ID, 2, stored(Some(9)))]);
        unsaved.add(vec![Change::Lease(ID, 3, stored(None)), Change::Lease(ID, 3, stored(Some(8)))]);
        unsaved.add(vec![Change::Released(OTHER, Unit::Own)]);
        let expected = [
            Change::Withdrawn(ID, 7),
            Change::Ended(OTHER),
            Change::Released(OTHER, Unit::Own),
            Change::Withdrawn(ID, 1),
            registrant(ID, 2, Some(9)),
            Change::Lease(ID, 3, stored(Some(8))),
        ];
        assert_eq!(unsaved.changes(), expected);
        // An end replaces all parts of its resource, and no others.
        unsaved.add(vec![Change::Ended(ID)]);
        assert_eq!(unsaved.changes()[2..], [Change::Released(OTHER, Unit::Own), Change::Ended(ID)]);
    }

    /// A wait for an outcome of a resource, and its answer.
    fn outcome(ticket: u64, id: ResourceId) -> (Option<StoreUse>, Output) {
        let fault = Fault::new(FaultKind::Expired, "over");
        (Some(StoreUse::Wait(id, Some(100))), Output::Answer(Ticket(ticket), Err(fault)))
    }

    #[test]
    fn outcomes_of_unstored_changes_are_held_back_up_to_a_bound() {
        let mut unsaved = unsaved(2);
        unsaved.add(vec![Change::Ended(ID)]);
        let pass = |unsaved: &mut UnsavedChanges, (store_use, output): (Option<StoreUse>, Output)| {
            unsaved.pass(store_use, output)
        };
        // Another resource, whose id sorts before or behind.
        for other in [OTHER, ResourceId([6; 16])] {
            let (store_use, output) = outcome(1, other);
            assert_eq!(unsaved.pass(store_use, output.clone()), Some(output));
        }
        let not_yet = Output::Answer(Ticket(2), Ok(Answer::NotYet));
        assert_eq!(unsaved.pass(Some(StoreUse::Wait(ID, None)), not_yet.clone()), Some(not_yet));
        assert_eq!(pass(&mut unsaved, outcome(3, ID)), None);
        assert_eq!(pass(&mut unsaved, outcome(4, ID)), None);
        let Some(Output::Answer(Ticket(5), Err(fault))) = pass(&mut unsaved, outcome(5, ID)) else {
            panic!("it is held back")
        };
        assert_eq!(fault.kind, FaultKind::Unavailable);
        assert_eq!(unsaved.late(99), []);
        assert_eq!(unsaved.late(100), [Ticket(3), Ticket(4)]);
        assert_eq!(unsaved.released().count(), 0);
    }

    /// A repeated request with a new lease was acknowledged, and a restart would have forgotten the lease.
    #[test]
    fn a_write_is_acknowledged_if_nothing_of_its_resource_is_unstored() {
        let mut unsaved = unsaved(2);
        unsaved.add(vec![Change::Lease(ID, 0, stored(Some(9)))]);
        let mut kind = |id| {
            let done = Output::Answer(Ticket(1), Ok(Answer::Done));
            match unsaved.pass(Some(StoreUse::Write(id)), done) {
                Some(Output::Answer(_, answer)) => answer.map_err(|fault| fault.kind),
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(kind(Some(ID)), Err(FaultKind::Unavailable));
        assert_eq!(kind(None), Err(FaultKind::Unavailable));
        assert_eq!(kind(Some(OTHER)), Ok(Answer::Done));
    }
    /// After a crash a parent would know of the end of a unit that this service has forgotten.
    #[test]
    fn an_action_at_the_parent_waits_for_the_changes_of_its_resource() {
        let mut unsaved = unsaved(2);
        unsaved.add(vec![Change::Withdrawn(ID, 0)]);
        let action = |id| {
            let (handle, rank) = (Handle::new("http://a:1", ID).unwrap(), RankChoice::Assign);
            let (token, why) = (Token::new("t").unwrap(), "over".into());
            Output::ParentAction(id, ParentAction::Stop { handle, rank, token, why })
        };
        assert_eq!(unsaved.pass(None, action(OTHER)), Some(action(OTHER)));
        assert_eq!(unsaved.pass(None, action(ID)), None);
        assert_eq!(unsaved.late(Millis::MAX), []);
        assert_eq!(unsaved.released().collect::<Vec<_>>(), [action(ID)]);
    }

    /// A disk that was full at first may be broken by now.
    #[test]
    fn the_latest_reason_of_the_store_is_told() {
        let mut unsaved = unsaved(2);
        unsaved.failed(0, StoreError { file: "/there".into(), why: "broken".into() });
        assert!(unsaved.fault().message.contains("broken"), "{}", unsaved.fault());
    }
}
