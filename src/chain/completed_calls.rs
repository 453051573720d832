//! Completed calls: calls that have ended at this id. A request for one of them comes from a second parent, and is not
//! executed again.
//!
//! Source: the ARMCI design of chained GPC (2007), "Exceptions" 1. A partial call may be requested again until its
//! root's time limit has passed, so it is remembered at least that long; any other call only as long as frames may be
//! in transit. Nothing is forgotten because time passes: a process that was stopped reads old messages after all time
//! limits.

use std::collections::{BTreeMap, VecDeque};

use gpc_trees::Id;

use super::completed_partial_calls::CompletedPartialCalls;
use super::seeded_hash::{Seeded, SeededMap, SeededSet};
use super::sizes::Sizes;
use crate::branch_hint::{likely, unlikely};
use crate::wire::CallId;

/// Number of ended calls that are remembered. A second request is delayed by at most a few frames of one link against
/// another, so after a thousand further calls none is in transit. The memory stays at some tens of KiB.
const REMEMBERED: usize = 1024;

/// Number of calls of one root that are remembered as bits, up to the last one that ended: several times the number
/// that may be in flight on a link.
const WINDOW: u64 = 4096;

/// Number of words that a window stores inline: enough for a node that has had few calls. The simulator runs a million
/// such nodes.
const FEW: usize = 2;

/// The bits of a window.
#[derive(Debug)]
enum Bits {
    /// Words with bits, and their places; a word without bits is free.
    Few([(u8, u64); FEW]),
    All(Box<[u64; WINDOW as usize / 64]>),
}

impl Bits {
    #[inline(always)]
    fn get(&self, word: usize) -> u64 {
        match self {
            Bits::All(bits) => bits[word],
            Bits::Few(few) => {
                let there = few.iter().filter(|(place, _)| usize::from(*place) == word);
                there.fold(0, |all, (_, bits)| all | bits)
            }
        }
    }

    #[inline(always)]
    fn set(&mut self, word: usize, bits: u64) {
        match self {
            Bits::All(all) => all[word] = bits,
            Bits::Few(_) => self.set_of_few(word, bits),
        }
    }

    #[inline(never)]
    fn set_of_few(&mut self, word: usize, bits: u64) {
        let Bits::Few(few) = self else { return };
        let there = few.iter().position(|(place, bits)| usize::from(*place) == word && *bits != 0);
        match there.or_else(|| few.iter().position(|(_, bits)| *bits == 0)) {
            Some(free) => few[free] = (word as u8, bits),
            None => {
                let mut all = Box::new([0; WINDOW as usize / 64]);
                few.iter().for_each(|(place, bits)| all[usize::from(*place)] = *bits);
                all[word] = bits;
                *self = Bits::All(all);
            }
        }
    }
}

/// The last calls of one root, which numbers them in increasing order.
#[derive(Debug)]
struct Window {
    root: Id,
    /// The run of the root that these calls belong to, as far as this id has been linked with it.
    run: Option<u64>,
    /// Highest number of an ended call.
    last: u64,
    /// Whether a call has ended; the bit of number n is at n modulo [`WINDOW`].
    bits: Bits,
    /// Number of bits that are set.
    ones: u32,
}

impl Window {
    fn new(call: CallId, run: Option<u64>) -> Window {
        Window { root: call.root, run, last: call.sequence, bits: Bits::Few([(0, 0); FEW]), ones: 0 }
    }

    /// Returns the word and the bit of a number, if it is not too old.
    fn place(&self, sequence: u64) -> Option<(usize, u64)> {
        let at = sequence % WINDOW;
        (self.last.saturating_sub(sequence) < WINDOW).then_some((at as usize / 64, 1 << (at % 64)))
    }

    fn contains(&self, sequence: u64) -> bool {
        sequence <= self.last
            && self.place(sequence).is_some_and(|(word, bit)| self.bits.get(word) & bit != 0)
    }

    /// Records a number. Returns whether it stays remembered here for at least a thousand further ended calls, or until
    /// `forgotten` is called for it. A number far behind the last one may not: too few calls will have ended since when
    /// it is dropped.
    fn add(&mut self, sequence: u64, mut forgotten: impl FnMut(u64)) -> bool {
        let Some((word, bit)) = self.place(sequence) else { return false };
        if sequence > self.last {
            // A jump, for example to another run of the root, clears at most the whole window.
            let first = (self.last + 1).max(sequence.saturating_sub(WINDOW - 1));
            let ended = self.last;
            for place in first..=sequence {
                self.clear(place, ended, &mut forgotten);
            }
            self.last = sequence;
        }
        self.ones += u32::from(self.bits.get(word) & bit == 0);
        self.bits.set(word, self.bits.get(word) | bit);
        self.last - sequence <= REMEMBERED as u64
    }

    /// Fast path: records the number after the last one, if its bit is free or belongs to a number that need not be
    /// remembered any more. Returns whether it did.
    #[inline(always)]
    fn add_next(&mut self, sequence: u64) -> bool {
        let (word, bit) = ((sequence % WINDOW) as usize / 64, 1 << (sequence % 64));
        let bits = self.bits.get(word);
        let there = bits & bit != 0;
        let next =
            self.last.checked_add(1) == Some(sequence) && (!there || self.ones as usize > 2 * REMEMBERED);
        if likely(next) {
            self.bits.set(word, bits | bit);
            self.ones += u32::from(!there);
            self.last = sequence;
        }
        next
    }

    /// Drops the numbers for which `stays` is false; returns whether any is left.
    fn retain(&mut self, stays: impl Fn(u64) -> bool) -> bool {
        let mut left = None;
        for sequence in self.last.saturating_sub(WINDOW - 1)..=self.last {
            let (word, bit) = ((sequence % WINDOW) as usize / 64, 1 << (sequence % 64));
            match self.bits.get(word) & bit != 0 {
                true if stays(sequence) => left = Some(sequence),
                true => {
                    self.bits.set(word, self.bits.get(word) & !bit);
                    self.ones -= 1;
                }
                false => {}
            }
        }
        self.last = left.unwrap_or(self.last);
        left.is_some()
    }

    /// Clears the bit for a number, which may belong to an older one up to `ended`.
    fn clear(&mut self, number: u64, ended: u64, forgotten: &mut impl FnMut(u64)) {
        let (word, bit) = ((number % WINDOW) as usize / 64, 1 << (number % 64));
        if self.bits.get(word) & bit == 0 {
            return;
        }
        self.bits.set(word, self.bits.get(word) & !bit);
        self.ones -= 1;
        // Up to a thousand of the remaining numbers may have ended before the old one, as far as it was behind; the
        // rest ended after it. With fewer than two thousand left, the old number may still be needed.
        if (self.ones as usize) < 2 * REMEMBERED {
            let before = (ended % WINDOW + WINDOW - number % WINDOW) % WINDOW;
            forgotten(ended - before);
        }
    }
}

/// Calls that no window remembers. At most a thousand that ended one by one, and those that windows have dropped since:
/// at most as many as the windows remembered.
#[derive(Debug)]
struct OldCalls {
    /// Each with the count of ended calls at the time when it was added.
    order: VecDeque<(u64, CallId)>,
    calls: SeededSet<CallId>,
}

impl OldCalls {
    fn new(seed: u64) -> Box<OldCalls> {
        Box::new(OldCalls { order: VecDeque::new(), calls: SeededSet::with_hasher(Seeded::new(seed)) })
    }

    fn remember(&mut self, call: CallId, ended: u64) {
        if self.calls.insert(call) {
            self.order.push_back((ended, call));
        }
    }

    /// Drops the calls of a root for which `stays` is false.
    fn retain_of(&mut self, root: Id, stays: impl Fn(u64) -> bool) {
        let stays = |call: &CallId| call.root != root || stays(call.sequence);
        self.order.retain(|(_, call)| stays(call));
        self.calls.retain(stays);
    }

    /// Drops the calls that were added a thousand ended calls ago.
    fn forget(&mut self, ended: u64) {
        while let Some((at, call)) = self.order.front()
            && at + REMEMBERED as u64 <= ended
        {
            self.calls.remove(call);
            self.order.pop_front();
        }
    }
}

/// The calls that ended here most recently.
#[derive(Debug)]
pub(super) struct CompletedCalls {
    windows: Vec<Window>,
    windows_max: u16,
    /// Index of the window used last.
    used: u32,
    seed: u64,
    /// Indexes of the windows by root, if there are several.
    places: Option<Box<SeededMap<Id, u32>>>,
    /// The incarnations of the linked peers.
    incarnations: BTreeMap<Id, u64>,
    /// Calls that are too old for their root's window, or whose root has none. Most nodes have none.
    old: Option<Box<OldCalls>>,
    /// Number of calls that have ended.
    ended: u64,
    pub(super) partial: CompletedPartialCalls,
}

impl CompletedCalls {
    pub(super) fn new(seed: u64, sizes: &Sizes) -> CompletedCalls {
        CompletedCalls {
            windows: Vec::new(),
            windows_max: sizes.windows,
            used: 0,
            seed,
            places: None,
            incarnations: BTreeMap::new(),
            old: None,
            ended: 0,
            partial: CompletedPartialCalls::default(),
        }
    }

    /// Number of linked peers.
    pub(super) fn links(&self) -> usize {
        self.incarnations.len()
    }

    /// Number of leaked entries: those that belong to no call and no window.
    pub(super) fn leaks(&self) -> usize {
        let of_old = |old: &OldCalls| old.order.len().abs_diff(old.calls.len());
        let places = self.places.as_ref().map_or(0, |places| places.len()).saturating_sub(self.windows.len());
        places + self.old.as_deref().map_or(0, of_old) + self.partial.leaks()
    }

    #[inline(always)]
    pub(super) fn add(&mut self, call: CallId) {
        let usual = self.windows.get_mut(self.used as usize).filter(|window| window.root == call.root);
        if likely(self.old.is_none() && usual.is_some_and(|window| window.add_next(call.sequence))) {
            self.ended += 1;
        } else {
            self.add_any(call);
        }
    }

    #[inline(never)]
    fn add_any(&mut self, call: CallId) {
        self.ended += 1;
        self.old.as_mut().into_iter().for_each(|old| old.forget(self.ended));
        self.old.take_if(|old| old.order.is_empty());
        let place = self.window(call.root).or_else(|| self.add_window(call));
        let Some(place) = place else { return self.add_old(call) };
        self.used = place as u32;
        let CompletedCalls { windows, seed, old, ended, .. } = self;
        let (root, ended) = (call.root, *ended);
        let in_order = windows[place].add(call.sequence, |sequence| {
            let old = old.get_or_insert_with(|| OldCalls::new(*seed));
            old.remember(CallId { root, sequence }, ended);
        });
        if !in_order {
            self.add_old(call);
        }
    }

    /// Returns the index of a root's window.
    #[inline(always)]
    fn window(&self, root: Id) -> Option<usize> {
        match self.windows.get(self.used as usize) {
            Some(window) if likely(window.root == root) => Some(self.used as usize),
            Some(_) => self.places.as_ref()?.get(&root).map(|place| *place as usize),
            None => None,
        }
    }

    fn add_window(&mut self, call: CallId) -> Option<usize> {
        let place = self.windows.len();
        if place >= usize::from(self.windows_max) {
            return None;
        }
        if place == 0 {
            // Most nodes have calls of one root.
            self.windows.reserve_exact(1);
        }
        self.windows.push(Window::new(call, self.incarnations.get(&call.root).copied()));
        if place > 0 {
            let seed = self.seed;
            let new = || Box::new(SeededMap::with_hasher(Seeded::new(seed)));
            let places = self.places.get_or_insert_with(new);
            if place == 1 {
                // The first window was the only one, which is found without a table.
                places.insert(self.windows[0].root, 0);
            }
            places.insert(call.root, place as u32);
        }
        Some(place)
    }

    fn add_old(&mut self, call: CallId) {
        let seed = self.seed;
        let old = self.old.get_or_insert_with(|| OldCalls::new(seed));
        old.remember(call, self.ended);
    }

    /// Records a link with a run of an id. If it is another run than the one whose calls are remembered, the calls of
    /// the earlier run are forgotten: the new run numbers its calls from its own incarnation, and if its clock was set
    /// back it may reuse numbers of the earlier run.
    ///
    /// Numbers that only the new run can have assigned arrived through other ids before its link, and stay. Partial
    /// calls stay until their time has passed, because children of the earlier run may still ask for them.
    pub(super) fn linked(&mut self, root: Id, run: u64) {
        self.incarnations.insert(root, run);
        let Some(place) = self.window(root) else { return };
        if let Some(before) = self.windows[place].run.replace(run).filter(|before| *before != run) {
            let stays = |sequence: u64| sequence >= run && (run > before || sequence < before);
            self.forget(root, place, stays);
        }
    }

    /// Records that the link is gone.
    pub(super) fn unlinked(&mut self, root: Id) {
        self.incarnations.remove(&root);
    }

    /// Drops the calls of a root, except those for which `stays` is true.
    fn forget(&mut self, root: Id, place: usize, stays: impl Fn(u64) -> bool) {
        self.old.as_mut().into_iter().for_each(|old| old.retain_of(root, &stays));
        self.old.take_if(|old| old.order.is_empty());
        if self.windows[place].retain(stays) {
            return;
        }
        self.windows.swap_remove(place);
        if let Some(places) = &mut self.places {
            places.remove(&root);
            self.windows.get(place).into_iter().for_each(|moved| {
                places.insert(moved.root, place as u32);
            });
        }
        self.used = 0;
    }

    #[inline(always)]
    pub(super) fn contains(&self, call: CallId) -> bool {
        let window = self.window(call.root).map(|place| &self.windows[place]);
        let further = self.old.is_some() | !self.partial.is_empty();
        unlikely(window.is_some_and(|window| window.contains(call.sequence)))
            || (unlikely(further) && self.contains_further(call))
    }

    #[inline(never)]
    fn contains_further(&self, call: CallId) -> bool {
        self.old.as_ref().is_some_and(|old| old.calls.contains(&call)) || self.partial.contains(call)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::chain::Time;

    fn call(sequence: u64) -> CallId {
        CallId { root: 1, sequence }
    }

    /// Number of calls that no window remembers: in the queue, and in the set.
    fn old(completed: &CompletedCalls) -> (usize, usize) {
        completed.old.as_ref().map_or((0, 0), |old| (old.order.len(), old.calls.len()))
    }

    #[test]
    fn the_last_of_each_root_are_known_and_no_more() {
        let mut completed = CompletedCalls::new(1, &Sizes::default());
        for sequence in 0..10_000 {
            completed.add(call(sequence));
            completed.add(call(sequence));
        }
        assert!(completed.contains(call(9999)) && completed.contains(call(10_000 - 4096)));
        assert!(!completed.contains(call(10_000 - 4097)) && !completed.contains(call(10_000)));
        assert!(completed.old.is_none());
    }

    #[test]
    fn strangers_with_many_names_take_no_more_memory() {
        let mut completed = CompletedCalls::new(1, &Sizes::default());
        (0..5000).for_each(|root| completed.add(CallId { root, sequence: 7 }));
        let lengths = (completed.windows.len(), old(&completed).0, old(&completed).1);
        assert_eq!(lengths, (64, 1024, 1024));
        assert!(completed.contains(CallId { root: 4999, sequence: 7 }));
        assert!(completed.contains(CallId { root: 0, sequence: 7 }));
    }

    /// A call that had waited for its subtree ended after four thousand later ones, and was forgotten six calls later.
    #[test]
    fn one_that_ends_late_is_known_as_long_as_others() {
        let mut completed = CompletedCalls::new(1, &Sizes::default());
        (1..=4090).for_each(|sequence| completed.add(call(sequence)));
        completed.add(call(0));
        for sequence in 4091..4090 + REMEMBERED as u64 {
            completed.add(call(sequence));
            assert!(completed.contains(call(0)), "{} calls later", sequence - 4090);
        }
    }

    /// For a root whose other calls had gone elsewhere, the next number took the bit of a number one window earlier,
    /// which was then forgotten.
    #[test]
    fn one_whose_place_the_next_number_takes_is_known_as_long_as_others() {
        let mut completed = CompletedCalls::new(1, &Sizes::default());
        for sequence in [1, WINDOW, WINDOW + 1] {
            completed.add(call(sequence));
            assert!(completed.contains(call(1)), "{sequence} has ended");
        }
        for sequence in WINDOW + 2..WINDOW + REMEMBERED as u64 {
            completed.add(call(sequence));
            assert!(completed.contains(call(1)), "{sequence} has ended");
        }
    }

    /// The number after the highest possible one was taken for the next one, and the numbers before it were forgotten.
    /// The highest number was never remembered.
    #[test]
    fn the_last_numbers_there_are_are_known_like_others() {
        let mut completed = CompletedCalls::new(1, &Sizes::default());
        let numbers = [u64::MAX - 2, u64::MAX - 1, u64::MAX, 0, 2, WINDOW - 1];
        for (at, &sequence) in numbers.iter().enumerate() {
            assert!(!completed.contains(call(sequence)), "{sequence}");
            completed.add(call(sequence));
            assert!(numbers[..=at].iter().all(|&number| completed.contains(call(number))), "{sequence}");
        }
    }

    /// A run whose clock was behind that of the earlier run had new calls rejected as already ended.
    #[test]
    fn the_calls_of_a_root_are_forgotten_with_its_run_and_no_other_s() {
        let mut completed = CompletedCalls::new(1, &Sizes::default());
        let of = |root: Id, sequence: u64| CallId { root, sequence };
        for root in [1, 2, 3] {
            completed.linked(root, 50);
            // The last one is too far behind for the window, and belongs to no run.
            [9000, 9001, 5].iter().for_each(|&sequence| completed.add(of(root, sequence)));
        }
        completed.unlinked(1);
        completed.linked(1, 50);
        assert!(
            [9000, 9001, 5].iter().all(|&sequence| completed.contains(of(1, sequence))),
            "it is the same"
        );
        // The run is remembered longer than its link.
        completed.unlinked(1);
        completed.linked(1, 40);
        assert!(![9000, 9001, 5].iter().any(|&sequence| completed.contains(of(1, sequence))));
        for root in [2, 3] {
            assert!([9000, 9001, 5].iter().all(|&sequence| completed.contains(of(root, sequence))), "{root}");
        }
        completed.add(of(1, 5));
        completed.add(of(3, 9002));
        assert!(
            completed.contains(of(1, 5))
                && !completed.contains(of(1, 9000))
                && completed.contains(of(3, 9002))
        );
        let places = completed.places.as_ref().map(|places| places.len());
        assert_eq!((completed.windows.len(), places, old(&completed).0), (3, Some(3), 2));
    }

    /// A call of a new run had arrived through another parent before the run's link. It was forgotten with the calls of
    /// the earlier run, and executed again when it came from its root. The simulator found it.
    #[test]
    fn what_only_the_new_run_can_have_numbered_so_is_known_though_its_link_comes_later() {
        for (before, run) in [(1000, 5000), (5000, 1000), (1000, 1_000_000), (1_000_000, 1000)] {
            let mut completed = CompletedCalls::new(1, &Sizes::default());
            completed.linked(1, before);
            (before..before + 20).for_each(|sequence| completed.add(call(sequence)));
            (run..run + 10).step_by(2).for_each(|sequence| completed.add(call(sequence)));
            completed.linked(1, run);
            let known = |completed: &CompletedCalls, first: u64| {
                (first..first + 20).filter(|&sequence| completed.contains(call(sequence))).count()
            };
            assert_eq!((known(&completed, before), known(&completed, run)), (0, 5), "{before} then {run}");
            // The root continues as usual.
            (run + 10..run + 20).for_each(|sequence| completed.add(call(sequence)));
            assert_eq!(known(&completed, run), 15, "{before} then {run}");
        }
    }

    /// For calls that arrived through other ids, the run of the root is unknown until its link is up.
    #[test]
    fn calls_that_came_through_others_are_kept_when_their_root_links_for_the_first_time() {
        let mut completed = CompletedCalls::new(1, &Sizes::default());
        completed.add(call(7));
        completed.linked(1, 50);
        assert!(completed.contains(call(7)));
        completed.linked(1, 49);
        assert!(!completed.contains(call(7)));
    }

    /// When a root began anew, all its remembered calls were moved to the shared list, and the calls of other roots
    /// there were forgotten.
    #[test]
    fn a_root_that_begins_anew_makes_nobody_forgotten() {
        let mut completed = CompletedCalls::new(1, &Sizes::default());
        let of = |root: Id, sequence: u64| CallId { root, sequence };
        for root in [1, 2] {
            (0..500).for_each(|sequence| completed.add(of(root, sequence)));
        }
        completed.add(of(2, 1 << 40));
        completed.add(of(1, 1 << 40));
        assert!(
            (0..500)
                .all(|sequence| completed.contains(of(1, sequence)) && completed.contains(of(2, sequence)))
        );
        (0..REMEMBERED as u64).for_each(|more| completed.add(of(1, (1 << 40) + 1 + more)));
        assert!(completed.old.is_none());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]
        /// For calls of any number of runs that end in any order, the last thousand are remembered, and no call is that
        /// has not ended.
        #[test]
        fn the_last_thousand_are_known(
            bursts in prop::collection::vec((0u32..70, 0u64..5, 1u64..5000, 1usize..900), 1..30),
            windows in prop_oneof![Just(0u16), Just(1), Just(2), Just(64)],
        ) {
            let sizes = Sizes { windows, ..Sizes::default() };
            let (mut completed, mut ended) = (CompletedCalls::new(3, &sizes), VecDeque::new());
            let (mut at, mut all) = ([1u64 << 40; 70], std::collections::BTreeSet::new());
            for (root, kind, step, length) in bursts {
                let place = &mut at[root as usize];
                for _ in 0..length {
                    *place = match kind {
                        0 => place.saturating_sub(step),
                        1 => *place + step,
                        2 => *place + step % 7,
                        _ => *place + 1,
                    };
                    let call = CallId { root, sequence: *place };
                    // A call ends once.
                    if !all.insert(call) {
                        continue;
                    }
                    completed.add(call);
                    ended.push_back(call);
                    if ended.len() > REMEMBERED {
                        ended.pop_front();
                    }
                }
                if kind == 4 {
                    *place += 1 << 30;
                }
                for call in &ended {
                    let next = CallId { sequence: call.sequence + 1, ..*call };
                    prop_assert!(completed.contains(*call), "{call}");
                    prop_assert!(!completed.contains(next) || all.contains(&next), "{next}");
                }
                prop_assert!(old(&completed).0 <= REMEMBERED + usize::from(windows) * 2 * REMEMBERED);
                prop_assert_eq!(old(&completed).0, old(&completed).1);
            }
        }
    }

    #[test]
    fn a_partial_call_is_known_whatever_comes_between() {
        let mut completed = CompletedCalls::new(1, &Sizes::default());
        let at = Time::from_nanos;
        completed.partial.add(call(0), at(100));
        (1..5000).for_each(|sequence| completed.partial.add(call(2 * sequence), at(50)));
        (10_000..20_000).for_each(|sequence| completed.add(call(sequence)));
        assert!(completed.contains(call(0)) && completed.contains(call(2)) && !completed.contains(call(1)));
    }
}
