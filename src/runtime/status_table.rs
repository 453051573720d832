//! The status of each id of a call: looked up by id, and listed in the caller's order.
//!
//! A report has the statuses as runs over the tree order, and this module stores them as such. Time and memory of a
//! query depend on the number of runs and of ranges of ids, not on the number of ids. The first query builds an index,
//! so a call without queries pays nothing. Only a list of many ranges needs a map with an entry for each id.

use std::collections::HashMap;
use std::sync::OnceLock;

use gpc_trees::{Group, Id, IdList};

use crate::wire::{Coverage, Status};

/// Maximum number of ranges that are searched linearly, which is cheaper than a map.
const FEW_RUNS: usize = 8;

/// The ids of a call and their statuses.
#[derive(Clone, Debug)]
pub(super) struct StatusTable {
    /// The ids in tree order.
    ids: IdList,
    /// The ids in the caller's order.
    asked: IdList,
    coverage: Coverage,
    index: OnceLock<Box<Index>>,
}

#[derive(Clone, Debug)]
struct Index {
    /// Index of each id in the tree order; `None` if a search of the list is as fast.
    places: Option<HashMap<Id, u32>>,
    id_statuses: IdStatuses,
}

#[derive(Clone, Debug)]
enum IdStatuses {
    /// All ids have this status.
    All(Status),
    /// The runs of equal status, by their first index.
    Runs(Vec<Run>),
}

/// Consecutive ids in tree order with the same status.
#[derive(Clone, Copy, Debug)]
struct Run {
    start: u32,
    status: Status,
    /// Number of earlier ids with the same status.
    before: u32,
}

impl StatusTable {
    /// Creates the table; `ids` is in tree order, `asked` are the same ids in the caller's order.
    pub(super) fn new(ids: IdList, asked: IdList, coverage: Coverage) -> StatusTable {
        StatusTable { ids, asked, coverage, index: OnceLock::new() }
    }

    /// The ids in tree order.
    pub(super) fn ids(&self) -> &IdList {
        &self.ids
    }

    pub(super) fn coverage(&self) -> &Coverage {
        &self.coverage
    }

    /// Whether every id is done.
    pub(super) fn is_complete(&self) -> bool {
        self.coverage.counts().done == self.ids.len()
    }

    /// The status of an id; `None` if it is not of the call.
    pub(super) fn status(&self, id: Id) -> Option<Status> {
        self.status_and_rank(id).map(|(status, _)| status)
    }

    /// The index of the part of an id among those of all done ids, in tree order; `None` if the id is not done.
    pub(super) fn part(&self, id: Id) -> Option<usize> {
        let (status, before) = self.status_and_rank(id)?;
        (status == Status::Done).then_some(before as usize)
    }

    /// The ids with this status, in the caller's order.
    pub(super) fn ids_with(&self, status: Status) -> IdList {
        let list = |ids: &mut dyn Iterator<Item = Id>| {
            IdList::from_ids(ids).expect("the ids of a list are distinct, and so are some of them")
        };
        if self.ids == self.asked {
            let mut start = 0u32;
            let mut ranges = Vec::new();
            for &(status_and_rank, count) in self.coverage.runs() {
                // Bounded by the number of ids, whatever a report contains.
                let len = count.min(self.ids.len() - start);
                if status_and_rank == status {
                    ranges.extend(self.ids.slice(Group { start, len }).runs());
                }
                start += len;
            }
            return IdList::from_runs(ranges).expect("runs of a list are distinct, and so are some of them");
        }
        list(&mut self.asked.iter().filter(|id| self.status(*id) == Some(status)))
    }

    /// The status of an id, and the number of earlier ids with the same status.
    fn status_and_rank(&self, id: Id) -> Option<(Status, u32)> {
        let index = self.index.get_or_init(|| Box::new(Index::new(&self.ids, &self.coverage)));
        let place = match &index.places {
            Some(places) => *places.get(&id)?,
            None => self.ids.position(id)?,
        };
        match &index.id_statuses {
            IdStatuses::All(status) => Some((*status, place)),
            // If a report is too short, the remaining ids are unknown: they may have executed.
            IdStatuses::Runs(runs) => {
                let run = runs[..runs.partition_point(|run| run.start <= place)].last()?;
                Some((run.status, run.before + (place - run.start)))
            }
        }
    }
}

impl PartialEq for StatusTable {
    /// Compares without the index, which a query may have built or not.
    fn eq(&self, other: &StatusTable) -> bool {
        (&self.ids, &self.asked, &self.coverage) == (&other.ids, &other.asked, &other.coverage)
    }
}

impl Eq for StatusTable {}

impl Index {
    fn new(ids: &IdList, coverage: &Coverage) -> Index {
        let few = ids.runs().nth(FEW_RUNS).is_none();
        let places = (!few).then(|| ids.iter().zip(0..).collect());
        let id_statuses = match coverage.runs() {
            [(status, count)] if *count == ids.len() => IdStatuses::All(*status),
            _ => {
                let (mut start, mut before, mut runs) = (0u32, [0u32; 4], Vec::new());
                // If a report is too short, the remaining ids are unknown: they may have executed.
                let rest = (Status::Unknown, u32::MAX);
                for (status, count) in coverage.runs().iter().copied().chain([rest]) {
                    // Bounded by the number of ids, whatever a report contains.
                    let len = count.min(ids.len() - start);
                    if len > 0 {
                        runs.push(Run { start, status, before: before[status as usize] });
                    }
                    before[status as usize] += len;
                    start += len;
                }
                IdStatuses::Runs(runs)
            }
        };
        Index { places, id_statuses }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const STATUSES: [Status; 4] = [Status::Done, Status::Failed, Status::Unreached, Status::Unknown];

    fn status_table(ids: &[Id], order: &[usize], statuses: &[Status]) -> StatusTable {
        let asked: Vec<Id> = order.iter().map(|&place| ids[place]).collect();
        let list = |ids: &[Id]| IdList::from_ids(ids.iter().copied()).expect("distinct ids");
        let mut coverage = Coverage::new();
        statuses.iter().for_each(|status| coverage.push(*status, 1));
        StatusTable::new(list(ids), list(&asked), coverage)
    }

    /// A query about a call over all possible ids took 32 GiB, or minutes.
    #[test]
    fn questions_cost_nothing_for_each_id() {
        let ids = IdList::range(0..Id::MAX);
        let mut coverage = Coverage::new();
        for (status, count) in
            [(Status::Done, 7), (Status::Unknown, 1 << 30), (Status::Unreached, Id::MAX - 7 - (1 << 30))]
        {
            coverage.push(status, count);
        }
        let status_table = StatusTable::new(ids.clone(), ids, coverage);
        assert_eq!(
            (status_table.status(6), status_table.status(7)),
            (Some(Status::Done), Some(Status::Unknown))
        );
        assert_eq!((status_table.part(6), status_table.part(7)), (Some(6), None));
        assert_eq!(status_table.status(Id::MAX - 1), Some(Status::Unreached));
        assert_eq!(status_table.ids_with(Status::Unknown), IdList::range(7..7 + (1 << 30)));
        assert_eq!(status_table.ids_with(Status::Failed).len(), 0);
    }

    /// Ids with their statuses, and the caller's order as indexes into them: ranges and scattered ids.
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
        /// Compares with the plain lists that it represents.
        #[test]
        fn every_question_is_answered_as_by_a_list((ids, order, statuses) in calls()) {
            let status_table = status_table(&ids, &order, &statuses);
            for (place, id) in ids.iter().enumerate() {
                prop_assert_eq!(status_table.status(*id), Some(statuses[place]));
                let done = statuses[..place].iter().filter(|status| **status == Status::Done).count();
                prop_assert_eq!(status_table.part(*id), (statuses[place] == Status::Done).then_some(done));
            }
            let stranger = ids.iter().max().expect("one at least") + 1;
            prop_assert_eq!((status_table.status(stranger), status_table.part(stranger)), (None, None));
            for status in STATUSES {
                let ids_with: Vec<Id> =
                    order.iter().filter(|place| statuses[**place] == status).map(|place| ids[*place]).collect();
                prop_assert_eq!(status_table.ids_with(status).iter().collect::<Vec<_>>(), ids_with);
            }
            prop_assert_eq!(status_table.is_complete(), statuses.iter().all(|status| *status == Status::Done));
        }
    }

    /// An index of a million ids in one range, all of them done, took 4 MB and a look-up of each id.
    #[test]
    fn a_range_of_ids_with_one_status_has_no_entry_for_each() {
        let ids = IdList::range(5..1_000_005);
        let index = Index::new(&ids, &Coverage::all(Status::Done, ids.len()));
        assert!(index.places.is_none() && matches!(index.id_statuses, IdStatuses::All(Status::Done)));
    }

    /// The root stores reports of its children unchanged. A look-up in a report of too few ids must not fail. A report
    /// of too many ids must not make a list longer than the call.
    #[test]
    fn a_report_of_another_length_never_exceeds_the_call() {
        let table = status_table(&[3, 4, 5], &[0, 1, 2], &[Status::Done]);
        assert_eq!((table.status(3), table.status(5)), (Some(Status::Done), Some(Status::Unknown)));
        let table =
            status_table(&[3, 4], &[1, 0], &[Status::Failed, Status::Unreached, Status::Done, Status::Done]);
        assert_eq!(table.ids_with(Status::Unreached), IdList::range(4..5));
        assert!(table.ids_with(Status::Done).is_empty());
    }
}
