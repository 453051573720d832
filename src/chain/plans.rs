//! Plans: what repeated calls to the same ids, in the same tree and with the same functions have in common, computed
//! once.
//!
//! A runtime calls the same groups many times. A plan holds their split and the frames to the children. The bytes of a
//! request are the key of its plan.

use std::hash::{BuildHasher, Hasher};
use std::sync::Arc;

use gpc_trees::sorting::sort_by;
use gpc_trees::{Group, Id, IdList, send_order};
use smallvec::SmallVec;

use super::seeded_hash::{Seeded, SeededMap};
use super::sizes::Sizes;
use crate::branch_hint::{likely, unlikely};
use crate::wire::Request;
use crate::wire::short::{Particulars, PlanKey, PlanOwned, Template};

/// Number of places for keys that were used once.
const ASKED_MAX: usize = 64;

/// Number of keys in one place.
const ASKED_OF_A_PLACE: usize = 4;

/// Maximum number of children in a plan: 64 plans of this size take some MiB. A larger call uses the general path,
/// where the cost of each child dominates.
const CHILDREN_MAX: u32 = 1_024;

/// The common part of calls of one kind.
#[derive(Debug)]
pub(super) struct Plan {
    key: PlanOwned,
    pub(super) ids: IdList,
    /// In list order.
    pub(super) children: SmallVec<[PlannedChild; 6]>,
    /// Indexes of the children in the order in which they get the request.
    pub(super) order: SmallVec<[u32; 6]>,
    /// Children by id, if there are many.
    by_id: Vec<(Id, u32)>,
    templates: SmallVec<[Template; 4]>,
    /// Number of children that are leaves.
    alone: usize,
    pub(super) reply_wanted: bool,
    pub(super) forward_first: bool,
}

/// A child in a plan.
#[derive(Clone, Copy, Debug)]
pub(super) struct PlannedChild {
    pub(super) id: Id,
    pub(super) group: Group,
    /// Index of the template; leaves share one.
    template: u32,
}

/// Up to this many children are searched linearly.
const LOOKED_THROUGH: usize = 8;

impl Plan {
    /// Returns the plan of a request to `me`; `None` if the request must use the general path.
    fn new(me: Id, key: &PlanKey<'_>) -> Option<Plan> {
        let (ids, tree) = (key.ids()?, key.tree()?);
        let fit = tree.fan_out(ids.len()).is_some_and(|fan_out| fan_out <= CHILDREN_MAX);
        let merged = key.callback().is_some() && ids.len() > 1;
        if ids.first() != Some(me) || !fit || merged {
            return None;
        }
        let groups = tree.split(ids.len()).ok()?;
        let mut templates: SmallVec<[Template; 4]> = SmallVec::new();
        let mut alone = None;
        let mut children: SmallVec<[PlannedChild; 6]> = SmallVec::new();
        for &group in &groups {
            let mut made = || {
                templates.push(Template::new(key, &ids.slice(group)));
                templates.len() as u32 - 1
            };
            let template = if group.len == 1 { *alone.get_or_insert_with(made) } else { made() };
            children.push(PlannedChild { id: ids.id(group.start)?, group, template });
        }
        let alone = groups.iter().filter(|group| group.len == 1).count();
        let order = send_order(&groups).into_iter().map(|index| index as u32).collect();
        let mut by_id = Vec::new();
        if children.len() > LOOKED_THROUGH {
            by_id.extend(children.iter().zip(0..).map(|(child, index)| (child.id, index)));
            sort_by(&mut by_id, Ord::cmp);
        }
        let (reply_wanted, forward_first) = (key.reply_wanted(), key.forward_first());
        Some(Plan {
            key: key.to_owned(),
            ids,
            children,
            order,
            by_id,
            templates,
            alone,
            reply_wanted,
            forward_first,
        })
    }

    pub(super) fn key(&self) -> PlanKey<'_> {
        self.key.key()
    }

    /// Returns the index of a child.
    pub(super) fn child(&self, id: Id) -> Option<usize> {
        if likely(self.by_id.is_empty()) {
            return self.children.iter().position(|child| child.id == id);
        }
        let place = self.by_id.binary_search_by_key(&id, |(id, _)| *id).ok()?;
        Some(self.by_id[place].1 as usize)
    }

    /// The template of the frame to a child, and the child's id if children share the template.
    pub(super) fn template(&self, child: &PlannedChild) -> (&Template, Option<Id>) {
        (&self.templates[child.template as usize], Some(child.id).filter(|_| child.group.len == 1))
    }

    /// Whether several children are leaves: their frames differ in the id alone.
    pub(super) fn has_many_alone(&self) -> bool {
        self.alone > 1
    }

    /// Returns the request to the ids of a group; the group of all ids gives the received request.
    pub(super) fn request(&self, of: &Particulars<'_>, group: Group) -> Option<Request> {
        of.request(&self.key(), self.ids.slice(group))
    }
}

/// The plans of one node.
#[derive(Debug)]
pub(super) struct Plans {
    plans: Vec<Arc<Plan>>,
    plans_max: usize,
    /// Index of the last found plan.
    last: usize,
    by_hash: SeededMap<u64, u32>,
    seeded: Seeded,
    /// Index of the oldest plan, which the next one replaces if the table is full.
    oldest: usize,
    /// Hashes of keys that were used once. A plan costs as much as a call on the general path, so only a key that is
    /// used again gets a plan. Empty before the first key.
    asked: Vec<[u64; ASKED_OF_A_PLACE]>,
    /// Number of recorded keys; it selects the key that the next one replaces in a place.
    turns: usize,
}

impl Plans {
    pub(super) fn new(seed: u64, sizes: &Sizes) -> Plans {
        let seeded = Seeded::new(seed);
        let (plans, by_hash, asked) = (Vec::new(), SeededMap::with_hasher(seeded), Vec::new());
        let plans_max = usize::from(sizes.plans.max(1));
        Plans { plans, plans_max, last: 0, by_hash, seeded, oldest: 0, asked, turns: 0 }
    }

    /// Returns the stored or new plan of a request to `me`; `None` if the request must use the general path.
    #[inline(always)]
    pub(super) fn find(&mut self, me: Id, key: &PlanKey<'_>, at_once: bool) -> Option<&Arc<Plan>> {
        if unlikely(self.plans.get(self.last).is_none_or(|plan| plan.key != *key)) {
            self.last = self.find_other(me, key, at_once)?;
        }
        self.plans.get(self.last)
    }

    /// Returns the index of a plan other than the last one. Out of line: making a plan needs much stack.
    #[inline(never)]
    fn find_other(&mut self, me: Id, key: &PlanKey<'_>, at_once: bool) -> Option<usize> {
        let hash = self.hash(key);
        match self.search(hash, key) {
            Some(place) => Some(place),
            None if !at_once && !self.record_use(hash) => None,
            None => Some(self.add(hash, Plan::new(me, key)?)),
        }
    }

    /// The last found plan.
    pub(super) fn found(&self) -> Option<&Arc<Plan>> {
        self.plans.get(self.last)
    }

    /// Of the last found plan: whether a reply is requested, and whether a callback merges it.
    pub(super) fn form(&self) -> (bool, bool) {
        self.found().map_or((false, false), |plan| (plan.reply_wanted, plan.key().callback().is_some()))
    }

    /// Records the use of a key with this hash. Returns whether the key was used before, not long ago. If several keys
    /// share a place, one of them remains known.
    fn record_use(&mut self, hash: u64) -> bool {
        if self.asked.is_empty() {
            self.asked = vec![[0; ASKED_OF_A_PLACE]; ASKED_MAX];
        }
        let place = &mut self.asked[hash as usize % ASKED_MAX];
        if place.contains(&hash) {
            return true;
        }
        self.turns = self.turns.wrapping_add(1);
        place[self.turns % ASKED_OF_A_PLACE] = hash;
        false
    }

    /// Whether a plan is still stored.
    pub(super) fn holds(&self, plan: &Arc<Plan>) -> bool {
        let found = self.found().is_some_and(|found| Arc::ptr_eq(found, plan));
        found || self.plans.iter().any(|held| Arc::ptr_eq(held, plan))
    }

    /// Number of names without a plan.
    pub(super) fn leaks(&self) -> usize {
        self.by_hash.len().saturating_sub(self.plans.len())
    }

    fn hash(&self, key: &PlanKey<'_>) -> u64 {
        let mut hasher = self.seeded.build_hasher();
        key.numbers().for_each(|number| hasher.write_u64(number));
        hasher.finish()
    }

    fn search(&self, hash: u64, key: &PlanKey<'_>) -> Option<usize> {
        let place = *self.by_hash.get(&hash)? as usize;
        self.plans.get(place).is_some_and(|plan| plan.key == *key).then_some(place)
    }

    fn add(&mut self, hash: u64, plan: Plan) -> usize {
        let plan = Arc::new(plan);
        let place = match self.plans.len() {
            full if full >= self.plans_max => {
                let place = self.oldest;
                self.oldest = (place + 1) % full;
                let gone = self.hash(&self.plans[place].key());
                // Two plans with one hash have one entry: that of the later plan.
                if self.by_hash.get(&gone).is_some_and(|at| *at as usize == place) {
                    self.by_hash.remove(&gone);
                }
                self.plans[place] = plan;
                place
            }
            place => {
                self.plans.push(plan);
                place
            }
        };
        self.by_hash.insert(hash, place as u32);
        place
    }
}

#[cfg(test)]
mod tests {
    use gpc_trees::Tree;
    use proptest::prelude::*;

    use super::*;
    use crate::wire::CallId;
    use crate::wire::short::{KeyBuffer, PlanParts};

    proptest! {
        /// For any sequence of keys, a found plan belongs to its key, and the number of plans is bounded.
        #[test]
        fn a_plan_is_that_of_its_key(asked in prop::collection::vec((0u64..150, 1u32..20, any::<bool>()), 1..400), seed: u64, plans_max in prop_oneof![Just(0u16), Just(1), Just(2), Just(64)]) {
            let mut plans = Plans::new(seed, &Sizes { plans: plans_max, ..Sizes::default() });
            let mut room = KeyBuffer::default();
            for (func, n, at_once) in asked {
                let ids = IdList::range(7..7 + n);
                let key = PlanKey::new(&PlanParts::of(func, &Tree::Binomial, &ids), &mut room).unwrap();
                let found = plans.find(7, &key, at_once);
                prop_assert!(found.is_some() || !at_once);
                let Some(plan) = found else { continue };
                prop_assert_eq!(plan.key(), key);
                prop_assert_eq!(&plan.ids, &ids);
                let groups = Tree::Binomial.split(n).unwrap();
                let planned: Vec<Group> = plan.children.iter().map(|child| child.group).collect();
                prop_assert_eq!(&planned[..], &groups[..]);
                for (index, child) in plan.children.iter().enumerate() {
                    prop_assert_eq!((child.id, plan.child(child.id)), (7 + child.group.start, Some(index)));
                }
                prop_assert_eq!(plan.child(6), None);
            }
            prop_assert!(plans.plans.len().max(plans.by_hash.len()) <= usize::from(plans_max.max(1)));
        }
    }

    #[test]
    fn a_key_that_is_used_once_gets_no_plan() {
        let (mut plans, mut room) = (Plans::new(1, &Sizes::default()), KeyBuffer::default());
        let ids = IdList::range(7..9);
        for func in 0..1000 {
            let key = PlanKey::new(&PlanParts::of(func, &Tree::Binomial, &ids), &mut room).unwrap();
            assert!(plans.find(7, &key, false).is_none());
        }
        assert!(plans.plans.is_empty());
    }

    #[test]
    fn a_request_for_the_general_path_gets_no_plan() {
        let (mut plans, mut room) = (Plans::new(1, &Sizes::default()), KeyBuffer::default());
        let wide = IdList::range(7..7 + CHILDREN_MAX + 2);
        for (tree, me, ids) in [(Tree::Flat, 7, &wide), (Tree::Binomial, 8, &IdList::range(7..9))] {
            let key = PlanKey::new(&PlanParts::of(1, &tree, ids), &mut room).unwrap();
            assert!(plans.find(me, &key, true).is_none());
        }
        let many = IdList::from_ids((0..600).map(|id| id * 2)).unwrap();
        assert!(PlanKey::new(&PlanParts::of(1, &Tree::Binomial, &many), &mut room).is_none());
        let callback = PlanParts { callback: Some(3), ..PlanParts::of(1, &Tree::Binomial, &wide) };
        let key = PlanKey::new(&callback, &mut room).unwrap();
        assert!(plans.find(7, &key, true).is_none(), "replies are merged one by one");
    }

    #[test]
    fn a_request_of_a_plan_goes_to_its_group() {
        let (mut plans, mut room, ids) =
            (Plans::new(1, &Sizes::default()), KeyBuffer::default(), IdList::range(7..20));
        let key = PlanKey::new(&PlanParts::of(1, &Tree::Binomial, &ids), &mut room).unwrap();
        let plan = plans.find(7, &key, true).unwrap();
        let call = CallId { root: 7, sequence: 3 };
        let of =
            Particulars { call, position: 3, total: 40, limit: 5, age: 0, left: 0, header: b"h", data: b"d" };
        let request = plan.request(&of, plan.children[1].group).unwrap();
        assert_eq!((request.call, request.ids.first()), (call, Some(plan.children[1].id)));
    }
}
