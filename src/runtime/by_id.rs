//! What became of each id of a call: looked up by id, and listed in the caller's order.
//!
//! The wire tells it as runs over the tree order, and so it is kept: what a question takes, in time and in memory, depends on how often neighbours fared differently and on how many ranges the ids are, not on how many ids there are. An index is made at
//! the first question; a call whose caller asks nothing pays nothing. Only a list of many ranges needs a map with an entry for each id.

use std::collections::HashMap;
use std::sync::OnceLock;

use gpc_trees::{Group, Id, IdList};

use crate::wire::{Coverage, Status};

/// Ranges that are looked through one by one: fewer than what a map costs.
const FEW_RUNS: usize = 8;

/// The ids of a call, with what became of each.
#[derive(Clone, Debug)]
pub(super) struct ById {
    /// Tree order.
    ids: IdList,
    /// The caller's order.
    asked: IdList,
    coverage: Coverage,
    index: OnceLock<Box<Index>>,
}

#[derive(Clone, Debug)]
struct Index {
    /// Places in the tree order; none where a look at the list takes no longer.
    places: Option<HashMap<Id, u32>>,
    fates: Fates,
}

#[derive(Clone, Debug)]
enum Fates {
    /// All fared alike.
    All(Status),
    /// By the place at which each run of ids begins that fared alike.
    Runs(Vec<Run>),
}

/// Neighbours in tree order that fared alike.
#[derive(Clone, Copy, Debug)]
struct Run {
    start: u32,
    status: Status,
    /// Of how many ids before them the status is the same.
    before: u32,
}

impl ById {
    /// Of ids in tree order, and the same in the caller's.
    pub(super) fn new(ids: IdList, asked: IdList, coverage: Coverage) -> ById {
        ById { ids, asked, coverage, index: OnceLock::new() }
    }

    /// In tree order.
    pub(super) fn ids(&self) -> &IdList {
        &self.ids
    }

    /// In the caller's order.
    pub(super) fn asked(&self) -> &IdList {
        &self.asked
    }

    pub(super) fn coverage(&self) -> &Coverage {
        &self.coverage
    }

    /// Whether every id is done.
    pub(super) fn is_complete(&self) -> bool {
        self.coverage.counts().done == self.ids.len()
    }

    /// What became of an id; none if it is not of the call.
    pub(super) fn status(&self, id: Id) -> Option<Status> {
        self.fate(id).map(|(status, _)| status)
    }

    /// Of how many ids before it in tree order an id that is done has the part behind.
    pub(super) fn part(&self, id: Id) -> Option<usize> {
        let (status, before) = self.fate(id)?;
        (status == Status::Done).then_some(before as usize)
    }

    /// The ids of which something is true, in the caller's order.
    pub(super) fn those(&self, status: Status) -> IdList {
        let list = |ids: &mut dyn Iterator<Item = Id>| {
            IdList::from_ids(ids).expect("the ids of a list are distinct, and so are some of them")
        };
        if self.ids == self.asked {
            let mut start = 0u32;
            let mut ranges = Vec::new();
            for &(fate, count) in self.coverage.runs() {
                // No more than there are ids, whatever a report says.
                let len = count.min(self.ids.len() - start);
                if fate == status {
                    ranges.extend(self.ids.slice(Group { start, len }).runs());
                }
                start += len;
            }
            return IdList::from_runs(ranges).expect("runs of a list are distinct, and so are some of them");
        }
        list(&mut self.asked.iter().filter(|id| self.status(*id) == Some(status)))
    }

    /// The status of an id, and of how many before it the status is the same.
    fn fate(&self, id: Id) -> Option<(Status, u32)> {
        let index = self.index.get_or_init(|| Box::new(Index::new(&self.ids, &self.coverage)));
        let place = match &index.places {
            Some(places) => *places.get(&id)?,
            None => self.ids.position(id)?,
        };
        match &index.fates {
            Fates::All(status) => Some((*status, place)),
            // A report that is too short says nothing of the rest, and that may have run.
            Fates::Runs(runs) => {
                let run = runs[..runs.partition_point(|run| run.start <= place)].last()?;
                Some((run.status, run.before + (place - run.start)))
            }
        }
    }
}

impl PartialEq for ById {
    /// Whether anybody has asked makes no difference.
    fn eq(&self, other: &ById) -> bool {
        (&self.ids, &self.asked, &self.coverage) == (&other.ids, &other.asked, &other.coverage)
    }
}

impl Eq for ById {}

impl Index {
    fn new(ids: &IdList, coverage: &Coverage) -> Index {
        let few = ids.runs().nth(FEW_RUNS).is_none();
        let places = (!few).then(|| ids.iter().zip(0..).collect());
        let fates = match coverage.runs() {
            [(status, count)] if *count == ids.len() => Fates::All(*status),
            _ => {
                let (mut start, mut before, mut runs) = (0u32, [0u32; 4], Vec::new());
                // A report that is too short says nothing of the rest, and that may have run.
                let rest = (Status::Unknown, u32::MAX);
                for (status, count) in coverage.runs().iter().copied().chain([rest]) {
                    // No more than there are ids, whatever a report says.
                    let len = count.min(ids.len() - start);
                    if len > 0 {
                        runs.push(Run { start, status, before: before[status as usize] });
                    }
                    before[status as usize] += len;
                    start += len;
                }
                Fates::Runs(runs)
            }
        };
        Index { places, fates }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const STATUSES: [Status; 4] = [Status::Done, Status::Failed, Status::Unreached, Status::Unknown];

    fn by_id(ids: &[Id], order: &[usize], statuses: &[Status]) -> ById {
        let asked: Vec<Id> = order.iter().map(|&place| ids[place]).collect();
        let list = |ids: &[Id]| IdList::from_ids(ids.iter().copied()).expect("distinct ids");
        let mut coverage = Coverage::new();
        statuses.iter().for_each(|status| coverage.push(*status, 1));
        ById::new(list(ids), list(&asked), coverage)
    }

    /// A question about a call over all ids that there are took 32 GiB, or minutes.
    #[test]
    fn questions_cost_nothing_for_each_id() {
        let ids = IdList::range(0..Id::MAX);
        let mut coverage = Coverage::new();
        for (status, count) in
            [(Status::Done, 7), (Status::Unknown, 1 << 30), (Status::Unreached, Id::MAX - 7 - (1 << 30))]
        {
            coverage.push(status, count);
        }
        let by_id = ById::new(ids.clone(), ids, coverage);
        assert_eq!((by_id.status(6), by_id.status(7)), (Some(Status::Done), Some(Status::Unknown)));
        assert_eq!((by_id.part(6), by_id.part(7)), (Some(6), None));
        assert_eq!(by_id.status(Id::MAX - 1), Some(Status::Unreached));
        assert_eq!(by_id.those(Status::Unknown), IdList::range(7..7 + (1 << 30)));
        assert_eq!(by_id.those(Status::Failed).len(), 0);
    }

    /// Ids with what became of each, and the caller's order as places in theirs: ranges and scattered ones.
    fn calls() -> impl Strategy<Value = (Vec<Id>, Vec<usize>, Vec<Status>)> {
        let ids = prop_oneof![
            (0u32..1000, 1u32..60).prop_map(|(first, count)| (first..first + count).collect::<Vec<Id>>()),
            prop::collection::hash_set(0u32..100, 1..60).prop_map(|ids| ids.into_iter().collect()),
        ];
        ids.prop_flat_map(|ids| {
            let order = Just((0..ids.len()).collect::<Vec<usize>>());
            let order = prop_oneof![order.clone(), order.prop_shuffle()];
            let same = prop::sample::select(&STATUSES[..]).prop_map({
                let count = ids.len();
                move |status| vec![status; count]
            });
            let each = prop::collection::vec(prop::sample::select(&STATUSES[..]), ids.len());
            (Just(ids), order, prop_oneof![1 => same, 3 => each])
        })
    }

    proptest! {
        /// Against the plain lists that it stands for.
        #[test]
        fn every_question_is_answered_as_by_a_list((ids, order, statuses) in calls()) {
            let by_id = by_id(&ids, &order, &statuses);
            for (place, id) in ids.iter().enumerate() {
                prop_assert_eq!(by_id.status(*id), Some(statuses[place]));
                let done = statuses[..place].iter().filter(|status| **status == Status::Done).count();
                prop_assert_eq!(by_id.part(*id), (statuses[place] == Status::Done).then_some(done));
            }
            let stranger = ids.iter().max().expect("one at least") + 1;
            prop_assert_eq!((by_id.status(stranger), by_id.part(stranger)), (None, None));
            for status in STATUSES {
                let those: Vec<Id> =
                    order.iter().filter(|place| statuses[**place] == status).map(|place| ids[*place]).collect();
                prop_assert_eq!(by_id.those(status).iter().collect::<Vec<_>>(), those);
            }
            prop_assert_eq!(by_id.is_complete(), statuses.iter().all(|status| *status == Status::Done));
        }
    }

    /// An index of a million ids in one range, all of which are done, took 4 MB and a look at each.
    #[test]
    fn a_range_of_ids_that_all_fared_alike_has_no_entry_each() {
        let ids = IdList::range(5..1_000_005);
        let index = Index::new(&ids, &Coverage::all(Status::Done, ids.len()));
        assert!(index.places.is_none() && matches!(index.fates, Fates::All(Status::Done)));
    }

    /// The root takes reports from its children as they are: too few ids must not make a lookup fail, nor too many a list longer than the call.
    #[test]
    fn a_report_of_another_length_is_no_more_than_what_it_says() {
        let told = by_id(&[3, 4, 5], &[0, 1, 2], &[Status::Done]);
        assert_eq!((told.status(3), told.status(5)), (Some(Status::Done), Some(Status::Unknown)));
        let told = by_id(&[3, 4], &[1, 0], &[Status::Failed, Status::Unreached, Status::Done, Status::Done]);
        assert_eq!(told.those(Status::Unreached), IdList::range(4..5));
        assert!(told.those(Status::Done).is_empty());
    }
}
