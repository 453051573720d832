//! The trace of a call: what each id did for how long, and the path that decided how long the call took.

use std::collections::HashMap;
use std::time::Duration;

use bytes::Bytes;
use gpc_trees::{Group, Id, IdList, Tree};

use crate::wire::trace::{IdTimes, entries};

/// The parent of an id without times waited for that id last, if more than a tenth of the parent's time is
/// unexplained. If the id was lost long before, the parent only merges after its last answer.
const UNEXPLAINED_DIVISOR: u32 = 10;

/// The shape of a traced call, which the root remembers: all ids in tree order, this node first.
#[derive(Clone, Debug)]
pub(super) struct Traced {
    pub(super) ids: IdList,
    pub(super) tree: Tree,
    pub(super) forward_first: bool,
}

/// The times of the ids of a call: see [`Outcome::trace`](super::Outcome::trace).
///
/// All are durations at one id, so clocks of machines are not compared.
#[derive(Clone, PartialEq, Debug)]
pub struct Trace {
    /// In tree order.
    ids: Vec<TracedId>,
    places: HashMap<Id, u32>,
}

/// The times of one id.
#[derive(Clone, PartialEq, Debug)]
pub struct TracedId {
    /// The id.
    pub id: Id,
    /// The id that its answer went to.
    pub parent: Option<Id>,
    /// Whether its times are known. Those of an id that is lost or has failed, or whose parent had no room for them,
    /// are not; all durations are zero then.
    pub is_known: bool,
    /// When its request arrived, since the call began. This alone is an estimate: a request is assumed to travel as
    /// long as the answer.
    pub begins: Duration,
    /// How long func waited for its data or for a worker.
    pub queue: Duration,
    /// How long func took; zero at a root that only watches.
    pub func: Duration,
    /// How long callbacks took, all together.
    pub callbacks: Duration,
    /// From the arrival of the request to the answer.
    pub total: Duration,
    /// How long request and answer were on the link with the parent, together.
    pub link: Duration,
    /// When the answer arrived at the parent, since the request arrived there.
    pub answered: Duration,
    /// The child whose answer arrived last, or the child without times that this id waited for after that.
    pub last: Option<Id>,
}

impl TracedId {
    /// How long this id neither worked nor waited for a child with known times. `last` is the known child whose answer
    /// arrived last.
    fn unexplained(&self, last: Option<&TracedId>) -> Duration {
        let until = last.map_or(Duration::ZERO, |last| last.answered).max(self.queue + self.func);
        self.total.saturating_sub(until + self.callbacks)
    }

    /// The time spent at the id and on its link.
    pub fn own(&self) -> Duration {
        self.queue + self.func + self.callbacks + self.link
    }
}

impl Trace {
    /// Returns the trace of these bytes; `None` if they do not belong to this call.
    pub(super) fn new(traced: &Traced, bytes: &Bytes) -> Option<Trace> {
        let times: Vec<IdTimes> = entries(bytes).collect();
        if times.len() != traced.ids.len() as usize {
            return None;
        }
        let parents = parents(&traced.tree, &times);
        let mut ids: Vec<TracedId> = traced.ids.iter().zip(&times).map(|(id, times)| of(id, times)).collect();
        let mut lasts: Vec<Option<usize>> = vec![None; ids.len()];
        let mut lost: Vec<Option<usize>> = vec![None; ids.len()];
        // A parent stands before its children.
        for place in 1..ids.len() {
            let Some(above) = parents[place] else { continue };
            let (parent, above) = (&ids[above as usize], above as usize);
            let sent = if traced.forward_first { Duration::ZERO } else { parent.queue + parent.func };
            let (parent, begins) = (parent.id, parent.begins + sent);
            let one = &mut ids[place];
            one.parent = Some(parent);
            one.link = one.answered.saturating_sub(sent).saturating_sub(one.total);
            one.begins = begins + one.link / 2;
            let (answered, is_known) = (one.answered, one.is_known);
            if !is_known {
                lost[above].get_or_insert(place);
            } else if lasts[above].is_none_or(|last| ids[last].answered < answered) {
                lasts[above] = Some(place);
            }
        }
        for (place, (last, lost)) in lasts.into_iter().zip(lost).enumerate() {
            let waited = ids[place].unexplained(last.map(|last| &ids[last]));
            let last = lost.filter(|_| waited * UNEXPLAINED_DIVISOR > ids[place].total).or(last);
            ids[place].last = last.map(|last| ids[last].id);
        }
        let places = ids.iter().zip(0..).map(|(one, place)| (one.id, place)).collect();
        Some(Trace { ids, places })
    }

    /// All ids, in tree order.
    pub fn ids(&self) -> &[TracedId] {
        &self.ids
    }

    /// The times of an id; `None` if it is not of the call.
    pub fn get(&self, id: Id) -> Option<&TracedId> {
        self.places.get(&id).and_then(|place| self.ids.get(*place as usize))
    }

    /// The critical path, from the root on: each id waited last for the next one. The last id waited for its own
    /// function, has no children, or is without times: the call went on without it.
    pub fn path(&self) -> Vec<&TracedId> {
        let mut path: Vec<&TracedId> = self.ids.first().into_iter().collect();
        // Ends: each id stands behind its parent.
        while let Some(next) = path.last().and_then(|one| {
            let last = self.get(one.last?)?;
            (last.answered >= one.queue + one.func || !last.is_known).then_some(last)
        }) {
            path.push(next);
        }
        path
    }

    /// The ids with the most time of [their own](TracedId::own), the most first.
    pub fn stragglers(&self, most: usize) -> Vec<&TracedId> {
        let mut ids: Vec<&TracedId> = self.ids.iter().filter(|one| one.is_known).collect();
        ids.sort_by_key(|one| std::cmp::Reverse(one.own()));
        ids.truncate(most);
        ids
    }

    /// The ids whose times are not known.
    pub fn missing(&self) -> Vec<Id> {
        self.ids.iter().filter(|one| !one.is_known).map(|one| one.id).collect()
    }

    /// How long the call took at the root.
    pub fn total(&self) -> Duration {
        self.ids.first().map_or(Duration::ZERO, |root| root.total)
    }
}

fn of(id: Id, times: &IdTimes) -> TracedId {
    let known = |span: crate::wire::Span| span.duration().unwrap_or_default();
    TracedId {
        id,
        parent: None,
        is_known: times.total.duration().is_some(),
        begins: Duration::ZERO,
        queue: known(times.began),
        func: known(times.func),
        callbacks: known(times.callbacks),
        total: known(times.total),
        link: Duration::ZERO,
        answered: known(times.answered),
        last: None,
    }
}

/// The place of each id's parent: that in the tree, or the nearest known one above it, which has adopted the id.
fn parents(tree: &Tree, times: &[IdTimes]) -> Vec<Option<u32>> {
    let mut parents = vec![None; times.len()];
    let mut subtrees = vec![(tree.clone(), Group { start: 0, len: times.len() as u32 }, 0)];
    while let Some((tree, Group { start, len }, parent)) = subtrees.pop() {
        // The call went down this tree, so it can be split.
        for group in tree.split(len).unwrap_or_default() {
            let place = start + group.start;
            parents[place as usize] = Some(parent);
            let is_known = times[place as usize].total.duration().is_some();
            let below = if is_known { place } else { parent };
            if group.len > 1 {
                subtrees.push((tree.subtree(group), Group { start: place, len: group.len }, below));
            }
        }
    }
    parents
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Span;

    const MS: Duration = Duration::from_millis(1);

    /// func takes `func` ms; the answer leaves after `total` and arrives after `answered`.
    fn times(func: u32, total: u32, answered: u32) -> IdTimes {
        let span = |ms: u32| Span::of(ms * MS);
        IdTimes {
            began: span(1),
            func: span(func),
            callbacks: span(0),
            total: span(total),
            answered: span(answered),
        }
    }

    fn trace(tree: Tree, forward_first: bool, times: &[IdTimes]) -> Trace {
        let traced = Traced { ids: IdList::range(0..times.len() as u32), tree, forward_first };
        let bytes: Vec<u8> = times.iter().flat_map(IdTimes::emit).collect();
        Trace::new(&traced, &bytes.into()).expect("it has an entry for each id")
    }

    fn path(trace: &Trace) -> Vec<Id> {
        trace.path().into_iter().map(|one| one.id).collect()
    }

    /// Id 2 is slow, at the end of a chain; its link takes 4 ms.
    #[test]
    fn the_path_ends_at_the_id_that_was_late() {
        let chain = trace(Tree::Chain, false, &[times(2, 80, 0), times(3, 70, 76), times(50, 52, 60)]);
        assert_eq!((path(&chain), chain.total()), (vec![0, 1, 2], 80 * MS));
        let slow = chain.get(2).expect("it is there");
        assert_eq!((slow.parent, slow.queue, slow.func, slow.link), (Some(1), MS, 50 * MS, 4 * MS));
        // 1 + 2 until the root had sent it, half of the 3 ms of the link; the same below.
        assert_eq!(chain.get(1).unwrap().begins, Duration::from_micros(4_500));
        assert_eq!(slow.begins, Duration::from_micros(4_500 + 4_000 + 2_000));
        assert_eq!(chain.stragglers(1)[0].id, 2);
        assert!(chain.missing().is_empty());
    }

    /// With the request forwarded first, the function of the root may be the last that the call waits for.
    #[test]
    fn the_path_ends_at_the_root_if_its_function_is_last() {
        let quick = times(1, 2, 3);
        let flat = |func| trace(Tree::Flat, true, &[times(func, 40, 0), quick, times(1, 2, 9)]);
        assert_eq!((path(&flat(30)), path(&flat(2))), (vec![0], vec![0, 2]));
    }

    /// The root adopts the children of a lost id, so it receives their answers.
    #[test]
    fn the_ids_below_a_lost_one_belong_to_the_id_that_has_adopted_them() {
        let lost = trace(Tree::Chain, false, &[times(1, 80, 0), IdTimes::NONE, times(5, 10, 78)]);
        assert_eq!((lost.missing(), path(&lost)), (vec![1], vec![0, 2]));
        assert_eq!(lost.get(2).unwrap().parent, Some(0));
        assert_eq!(lost.get(2).unwrap().link, 66 * MS);
    }

    /// A partial call waited for a stopped process until its time limit. Its critical path ended at an id that had
    /// answered after 9 ms.
    #[test]
    fn the_path_ends_at_a_lost_id_that_the_call_waited_for() {
        let limit = trace(Tree::Flat, true, &[times(2, 3_000, 0), times(1, 2, 9), IdTimes::NONE]);
        assert_eq!((path(&limit), limit.get(0).unwrap().last), (vec![0, 2], Some(2)));
        // The highest of those that are lost.
        let chain = trace(Tree::Chain, false, &[times(2, 3_000, 0), IdTimes::NONE, IdTimes::NONE]);
        assert_eq!(path(&chain), [0, 1]);
        let own = trace(Tree::Flat, true, &[times(2_999, 3_000, 0), times(1, 2, 9), IdTimes::NONE]);
        assert_eq!(path(&own), [0], "its own function took the time");
    }

    #[test]
    fn bytes_of_another_call_are_no_trace() {
        let traced = Traced { ids: IdList::range(0..3), tree: Tree::Chain, forward_first: false };
        assert!(Trace::new(&traced, &Bytes::from(vec![0; 40])).is_none());
        assert!(Trace::new(&traced, &Bytes::new()).is_none());
    }

    /// As many ids as a simulated machine has, in any tree: the work is linear.
    #[test]
    fn a_trace_of_many_ids_is_read() {
        let many: Vec<IdTimes> = (0..100_000).map(|_| times(1, 2, 3)).collect();
        for tree in [Tree::Chain, Tree::Flat, Tree::Binomial] {
            let trace = trace(tree, false, &many);
            assert_eq!(trace.ids().len(), 100_000);
            assert!(trace.ids()[1..].iter().all(|one| one.parent.is_some()));
        }
    }
}
