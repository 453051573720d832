//! Plans: what calls have in common that go to the same ids in the same tree to do the same, worked out once.
//!
//! A runtime calls the same groups over and over. Their split, the limits of their children and the frames to them stay the same; a plan holds these, and is found by the bytes of a request that say so.

use std::hash::{BuildHasher, Hasher};
use std::sync::Arc;

use gpc_trees::{Group, Id, IdList, send_order};
use smallvec::SmallVec;

use super::seeded_hash::{Seeded, SeededMap};
use super::sizes::Sizes;
use crate::hint::{likely, unlikely};
use crate::wire::Request;
use crate::wire::short::{Particulars, PlanKey, PlanOwned, Template};

/// Names of plans that have been asked for once.
const ASKED_MAX: usize = 64;

/// Names that share a place.
const ASKED_OF_A_PLACE: usize = 4;

/// Most children of a plan: 64 plans of the largest size take some MiB. A call to more of them takes the general path, where each child costs the same and there are many.
const CHILDREN_MAX: u32 = 1_024;

/// What calls of one kind have in common.
#[derive(Debug)]
pub(super) struct Plan {
    key: PlanOwned,
    pub(super) ids: IdList,
    /// In list order.
    pub(super) children: SmallVec<[PlannedChild; 6]>,
    /// The indexes of the children in the order in which they get their requests.
    pub(super) order: SmallVec<[u32; 6]>,
    /// The children by their ids, where they are not few.
    by_id: Vec<(Id, u32)>,
    templates: SmallVec<[Template; 4]>,
    /// Children with nobody below them.
    alone: usize,
    pub(super) reply_wanted: bool,
    pub(super) forward_first: bool,
}

/// A child in a plan.
#[derive(Clone, Copy, Debug)]
pub(super) struct PlannedChild {
    pub(super) id: Id,
    pub(super) group: Group,
    /// Which template; children with nobody below them have one together.
    template: u32,
}

/// So many children are looked through one by one.
const LOOKED_THROUGH: usize = 8;

impl Plan {
    /// The plan of a request to `me`; none of one that is not to go this way.
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
            by_id.sort_unstable();
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

    /// The index of a child.
    pub(super) fn child(&self, id: Id) -> Option<usize> {
        if likely(self.by_id.is_empty()) {
            return self.children.iter().position(|child| child.id == id);
        }
        let place = self.by_id.binary_search_by_key(&id, |(id, _)| *id).ok()?;
        Some(self.by_id[place].1 as usize)
    }

    /// How the frame to a child is made, and the id that it takes if children share it.
    pub(super) fn template(&self, child: &PlannedChild) -> (&Template, Option<Id>) {
        (&self.templates[child.template as usize], Some(child.id).filter(|_| child.group.len == 1))
    }

    /// Whether several children have nobody below them: their frames differ in the id alone.
    pub(super) fn has_many_alone(&self) -> bool {
        self.alone > 1
    }

    /// The request that goes to the ids of a group, or, with all of them, has come here.
    pub(super) fn request(&self, of: &Particulars<'_>, group: Group) -> Option<Request> {
        of.request(&self.key(), self.ids.slice(group))
    }
}

/// The plans of one node.
#[derive(Debug)]
pub(super) struct Plans {
    plans: Vec<Arc<Plan>>,
    plans_max: usize,
    /// The one that was asked for last.
    last: usize,
    by_hash: SeededMap<u64, u32>,
    seeded: Seeded,
    /// Where the next one goes when there are as many as may be: the oldest.
    oldest: usize,
    /// The hashes of those that were asked for once, each at a place of its own: a plan costs as much as a call by the general path, so there is none for what is never asked for again. Empty before the first.
    asked: Vec<[u64; ASKED_OF_A_PLACE]>,
    /// How often one was forgotten for another.
    turns: usize,
}

impl Plans {
    pub(super) fn new(seed: u64, sizes: &Sizes) -> Plans {
        let seeded = Seeded::new(seed);
        let (plans, by_hash, asked) = (Vec::new(), SeededMap::with_hasher(seeded), Vec::new());
        let plans_max = usize::from(sizes.plans.max(1));
        Plans { plans, plans_max, last: 0, by_hash, seeded, oldest: 0, asked, turns: 0 }
    }

    /// The plan of a request to `me`: the one there is, or a new one. None if it is not to go this way.
    pub(super) fn find(&mut self, me: Id, key: &PlanKey<'_>, at_once: bool) -> Option<&Arc<Plan>> {
        if unlikely(self.plans.get(self.last).is_none_or(|plan| plan.key != *key)) {
            self.last = self.find_other(me, key, at_once)?;
        }
        self.plans.get(self.last)
    }

    /// Where the plan of a request is that is not the last one's. Aside, as what makes a plan needs much of the stack.
    #[inline(never)]
    fn find_other(&mut self, me: Id, key: &PlanKey<'_>, at_once: bool) -> Option<usize> {
        let hash = self.hash(key);
        match self.search(hash, key) {
            Some(place) => Some(place),
            None if !at_once && !self.is_asked_again(hash) => None,
            None => Some(self.add(hash, Plan::new(me, key)?)),
        }
    }

    /// The one that was found last.
    pub(super) fn found(&self) -> Option<&Arc<Plan>> {
        self.plans.get(self.last)
    }

    /// Of the one that was found last: whether a reply is wanted, and whether a callback merges it.
    pub(super) fn form(&self) -> (bool, bool) {
        self.found().map_or((false, false), |plan| (plan.reply_wanted, plan.key().callback().is_some()))
    }

    /// Whether a plan of this hash has been asked for before, not long ago. Kinds that take turns at one place do not lose sight of each other: one of the two remains.
    fn is_asked_again(&mut self, hash: u64) -> bool {
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

    /// Whether a plan is still one of the node's.
    pub(super) fn holds(&self, plan: &Arc<Plan>) -> bool {
        let found = self.found().is_some_and(|found| Arc::ptr_eq(found, plan));
        found || self.plans.iter().any(|held| Arc::ptr_eq(held, plan))
    }

    /// Names that belong to no plan.
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
                // Two plans of one hash have one entry: the later one's.
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
    use crate::wire::short::PlanParts as Of;

    fn of<'a>(func: u64, tree: &'a Tree, ids: &'a IdList) -> Of<'a> {
        Of { func, callback: None, tree, ids, reply_wanted: true, forward_first: false }
    }

    proptest! {
        /// Whatever is asked for, and however many, what is found is of what was asked for.
        #[test]
        fn a_plan_is_that_of_its_key(asked in prop::collection::vec((0u64..150, 1u32..20, any::<bool>()), 1..400), seed: u64, plans_max in prop_oneof![Just(0u16), Just(1), Just(2), Just(64)]) {
            let mut plans = Plans::new(seed, &Sizes { plans: plans_max, ..Sizes::default() });
            let mut room = Vec::new();
            for (func, n, at_once) in asked {
                let ids = IdList::range(7..7 + n);
                let key = PlanKey::new(&of(func, &Tree::Binomial, &ids), &mut room).unwrap();
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
    fn what_is_asked_for_once_gets_no_plan() {
        let (mut plans, mut room) = (Plans::new(1, &Sizes::default()), Vec::new());
        let ids = IdList::range(7..9);
        for func in 0..1000 {
            let key = PlanKey::new(&of(func, &Tree::Binomial, &ids), &mut room).unwrap();
            assert!(plans.find(7, &key, false).is_none());
        }
        assert!(plans.plans.is_empty());
    }

    #[test]
    fn what_cannot_go_this_way_gets_none() {
        let (mut plans, mut room) = (Plans::new(1, &Sizes::default()), Vec::new());
        let wide = IdList::range(7..7 + CHILDREN_MAX + 2);
        for (tree, me, ids) in [(Tree::Flat, 7, &wide), (Tree::Binomial, 8, &IdList::range(7..9))] {
            let key = PlanKey::new(&of(1, &tree, ids), &mut room).unwrap();
            assert!(plans.find(me, &key, true).is_none());
        }
        let many = IdList::from_ids((0..600).map(|id| id * 2)).unwrap();
        assert!(PlanKey::new(&of(1, &Tree::Binomial, &many), &mut room).is_none());
        let callback = Of { callback: Some(3), ..of(1, &Tree::Binomial, &wide) };
        let key = PlanKey::new(&callback, &mut room).unwrap();
        assert!(plans.find(7, &key, true).is_none(), "replies are merged one by one");
    }

    #[test]
    fn a_request_of_a_plan_goes_to_its_group() {
        let (mut plans, mut room, ids) = (Plans::new(1, &Sizes::default()), Vec::new(), IdList::range(7..20));
        let key = PlanKey::new(&of(1, &Tree::Binomial, &ids), &mut room).unwrap();
        let plan = plans.find(7, &key, true).unwrap();
        let call = CallId { root: 7, sequence: 3 };
        let of =
            Particulars { call, position: 3, total: 40, limit: 5, age: 0, left: 0, header: b"h", data: b"d" };
        let request = plan.request(&of, plan.children[1].group).unwrap();
        assert_eq!((request.call, request.ids.first()), (call, Some(plan.children[1].id)));
    }
}
