//! The calls that this id has lately ended: a request for one of them comes from a second parent, and is not executed again.
//!
//! Source: the ARMCI design of chained GPC (2007), "Exceptions" 1. A partial call may be asked for again until its root's time limit has passed, so it is known for as long at least; any other only
//! as long as frames may be under way. Time alone makes nothing forgotten: a process that was stopped reads what was sent to it when all time has passed.

use std::collections::VecDeque;

use gpc_trees::Id;

use super::few::FewMap;
use super::recent_partial::RecentPartial;
use super::seeded_hash::{Seeded, SeededMap, SeededSet};
use super::sizes::Sizes;
use crate::hint::{likely, unlikely};
use crate::wire::CallId;

/// How many ended calls are remembered. A second request is delayed by at most a few frames of one link against another, so a thousand calls
/// later nothing of it is under way; the memory stays at some tens of KiB.
const REMEMBERED: usize = 1024;

/// Calls of one root that are remembered as bits, up to the last that ended: several times those that may be in flight on a link.
const WINDOW: u64 = 4096;

/// Words of a window that lie in it side by side: those of the calls of a node that has had few. A million nodes of that kind are simulated.
const FEW: usize = 2;

/// The bits of a window.
#[derive(Debug)]
enum Bits {
    /// Words that have bits, and their places; a word without any is free.
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

/// The last calls of one root, which counts them up.
#[derive(Debug)]
struct Window {
    root: Id,
    /// Which run of the root these are calls of, as far as this id has been linked with it.
    run: Option<u64>,
    /// The highest number that has ended.
    last: u64,
    /// Whether a call has ended; that of number n stands at n modulo [`WINDOW`].
    bits: Bits,
    /// How many have ended that are remembered here.
    ones: u32,
}

impl Window {
    fn new(call: CallId, run: Option<u64>) -> Window {
        Window { root: call.root, run, last: call.sequence, bits: Bits::Few([(0, 0); FEW]), ones: 0 }
    }

    /// The word and the bit of a number, if it is not too old.
    fn place(&self, sequence: u64) -> Option<(usize, u64)> {
        let at = sequence % WINDOW;
        (self.last.saturating_sub(sequence) < WINDOW).then_some((at as usize / 64, 1 << (at % 64)))
    }

    fn contains(&self, sequence: u64) -> bool {
        sequence <= self.last
            && self.place(sequence).is_some_and(|(word, bit)| self.bits.get(word) & bit != 0)
    }

    /// Notes a number; says whether it is remembered here for a thousand ended calls at least, or until `forgotten` is called for it. One that is far behind the last may not be: too few will have ended since when it goes.
    fn add(&mut self, sequence: u64, mut forgotten: impl FnMut(u64)) -> bool {
        let Some((word, bit)) = self.place(sequence) else { return false };
        if sequence > self.last {
            // A jump, as of another run of the root, goes once over all.
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

    /// Notes the number behind the last one, as nearly always, if its place is free, or taken by one that need not be remembered any more; says whether it has.
    #[inline(always)]
    fn add_next(&mut self, sequence: u64) -> bool {
        let (word, bit) = ((sequence % WINDOW) as usize / 64, 1 << (sequence % 64));
        let there = self.bits.get(word) & bit != 0;
        let next =
            self.last.checked_add(1) == Some(sequence) && (!there || self.ones as usize > 2 * REMEMBERED);
        if next {
            self.bits.set(word, self.bits.get(word) | bit);
            self.ones += u32::from(!there);
            self.last = sequence;
        }
        next
    }

    /// Forgets the numbers that do not stay; says whether any is left.
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

    /// Makes room for a number where another one stands, of those up to `ended`.
    fn clear(&mut self, number: u64, ended: u64, forgotten: &mut impl FnMut(u64)) {
        let (word, bit) = ((number % WINDOW) as usize / 64, 1 << (number % 64));
        if self.bits.get(word) & bit == 0 {
            return;
        }
        self.bits.set(word, self.bits.get(word) & !bit);
        self.ones -= 1;
        // Of those that are left a thousand may have ended before it, as many as it was behind; the others have ended since.
        if (self.ones as usize) < 2 * REMEMBERED {
            let before = (ended % WINDOW + WINDOW - number % WINDOW) % WINDOW;
            forgotten(ended - before);
        }
    }
}

/// Calls that no window remembers. At most a thousand that ended one by one, and those that windows have given up since: no more than they remembered.
#[derive(Debug)]
struct Old {
    /// With the number of calls that had ended when each was put here.
    order: VecDeque<(u64, CallId)>,
    calls: SeededSet<CallId>,
}

impl Old {
    fn new(seed: u64) -> Box<Old> {
        Box::new(Old { order: VecDeque::new(), calls: SeededSet::with_hasher(Seeded::new(seed)) })
    }

    fn remember(&mut self, call: CallId, ended: u64) {
        if self.calls.insert(call) {
            self.order.push_back((ended, call));
        }
    }

    /// Forgets those of a root whose numbers do not stay.
    fn retain_of(&mut self, root: Id, stays: impl Fn(u64) -> bool) {
        let stays = |call: &CallId| call.root != root || stays(call.sequence);
        self.order.retain(|(_, call)| stays(call));
        self.calls.retain(stays);
    }

    /// Forgets those that were put here so many ended calls ago.
    fn forget(&mut self, ended: u64) {
        while let Some((at, call)) = self.order.front()
            && at + REMEMBERED as u64 <= ended
        {
            self.calls.remove(call);
            self.order.pop_front();
        }
    }
}

/// The last calls that ended here.
#[derive(Debug)]
pub(super) struct Recent {
    windows: Vec<Window>,
    windows_max: u16,
    /// The place of the one that was used last.
    used: u32,
    seed: u64,
    /// Where the windows are, when there are several.
    places: Option<Box<SeededMap<Id, u32>>>,
    /// The runs of those that this id is linked with.
    runs: FewMap<Id, u64>,
    /// Those that are too old for their root's window, or whose root has none. Most nodes have none of them.
    old: Option<Box<Old>>,
    /// How many calls have ended.
    ended: u64,
    pub(super) partial: RecentPartial,
}

impl Recent {
    pub(super) fn new(seed: u64, sizes: &Sizes) -> Recent {
        Recent {
            windows: Vec::new(),
            windows_max: sizes.windows,
            used: 0,
            seed,
            places: None,
            runs: FewMap::default(),
            old: None,
            ended: 0,
            partial: RecentPartial::default(),
        }
    }

    /// Whether nothing is remembered.
    pub(super) fn is_new(&self) -> bool {
        self.ended == 0 && self.runs.is_empty() && self.partial.is_empty() && self.windows.is_empty()
    }

    /// How many peers this id is linked with.
    pub(super) fn links(&self) -> usize {
        self.runs.len()
    }

    /// Entries that belong to no call and to no window.
    pub(super) fn strays(&self) -> usize {
        let of_old = |old: &Old| old.order.len().abs_diff(old.calls.len());
        let places = self.places.as_ref().map_or(0, |places| places.len()).saturating_sub(self.windows.len());
        places + self.old.as_deref().map_or(0, of_old) + self.partial.strays()
    }

    /// Gives back room that nothing is in.
    pub(super) fn release_room(&mut self) {
        self.windows.shrink_to_fit();
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
        let Recent { windows, seed, old, ended, .. } = self;
        let (root, ended) = (call.root, *ended);
        let in_order = windows[place].add(call.sequence, |sequence| {
            let old = old.get_or_insert_with(|| Old::new(*seed));
            old.remember(CallId { root, sequence }, ended);
        });
        if !in_order {
            self.add_old(call);
        }
    }

    /// Where the window of a root is.
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
        self.windows.push(Window::new(call, self.runs.get(&call.root).copied()));
        if place > 0 {
            let seed = self.seed;
            let new = || Box::new(SeededMap::with_hasher(Seeded::new(seed)));
            let places = self.places.get_or_insert_with(new);
            if place == 1 {
                // Until now it was the only one, which is found without a table.
                places.insert(self.windows[0].root, 0);
            }
            places.insert(call.root, place as u32);
        }
        Some(place)
    }

    fn add_old(&mut self, call: CallId) {
        let seed = self.seed;
        let old = self.old.get_or_insert_with(|| Old::new(seed));
        old.remember(call, self.ended);
    }

    /// This id is linked with a run of an id. If it is another one than that whose calls are remembered, it counts its own from its incarnation on, and those of the earlier one are no calls that have ended: where its clock was
    /// set back it may give the same numbers. What only the new run can have numbered so has come through others, before its link, and stays. Partial calls stay until their time has passed, since those of the earlier run may
    /// still be asked for by its children.
    pub(super) fn linked(&mut self, root: Id, run: u64) {
        self.runs.insert(root, run);
        let Some(place) = self.window(root) else { return };
        if let Some(before) = self.windows[place].run.replace(run).filter(|before| *before != run) {
            let stays = |sequence: u64| sequence >= run && (run > before || sequence < before);
            self.forget(root, place, stays);
        }
    }

    /// The link is gone.
    pub(super) fn unlinked(&mut self, root: Id) {
        self.runs.remove(&root);
    }

    /// Forgets the calls of a root, but for those with numbers that stay.
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

    /// How many calls no window remembers: in their order, and in the set.
    fn old(recent: &Recent) -> (usize, usize) {
        recent.old.as_ref().map_or((0, 0), |old| (old.order.len(), old.calls.len()))
    }

    #[test]
    fn the_last_of_each_root_are_known_and_no_more() {
        let mut recent = Recent::new(1, &Sizes::default());
        for sequence in 0..10_000 {
            recent.add(call(sequence));
            recent.add(call(sequence));
        }
        assert!(recent.contains(call(9999)) && recent.contains(call(10_000 - 4096)));
        assert!(!recent.contains(call(10_000 - 4097)) && !recent.contains(call(10_000)));
        assert!(recent.old.is_none());
    }

    #[test]
    fn strangers_with_many_names_take_no_more_memory() {
        let mut recent = Recent::new(1, &Sizes::default());
        (0..5000).for_each(|root| recent.add(CallId { root, sequence: 7 }));
        let lengths = (recent.windows.len(), old(&recent).0, old(&recent).1);
        assert_eq!(lengths, (64, 1024, 1024));
        assert!(recent.contains(CallId { root: 4999, sequence: 7 }));
        assert!(recent.contains(CallId { root: 0, sequence: 7 }));
    }

    /// A call that had waited for its subtree ended when four thousand later ones had, and was forgotten six calls later.
    #[test]
    fn one_that_ends_late_is_known_as_long_as_others() {
        let mut recent = Recent::new(1, &Sizes::default());
        (1..=4090).for_each(|sequence| recent.add(call(sequence)));
        recent.add(call(0));
        for sequence in 4091..4090 + REMEMBERED as u64 {
            recent.add(call(sequence));
            assert!(recent.contains(call(0)), "{} calls later", sequence - 4090);
        }
    }

    /// Of a root whose other calls had gone elsewhere, the number behind the last one took the place of one a window before it, and nobody knew that one any more.
    #[test]
    fn one_whose_place_the_next_number_takes_is_known_as_long_as_others() {
        let mut recent = Recent::new(1, &Sizes::default());
        for sequence in [1, WINDOW, WINDOW + 1] {
            recent.add(call(sequence));
            assert!(recent.contains(call(1)), "{sequence} has ended");
        }
        for sequence in WINDOW + 2..WINDOW + REMEMBERED as u64 {
            recent.add(call(sequence));
            assert!(recent.contains(call(1)), "{sequence} has ended");
        }
    }

    /// The number behind the last there is was taken for the next one, and those before it were forgotten; the last there is was never known.
    #[test]
    fn the_last_numbers_there_are_are_known_like_others() {
        let mut recent = Recent::new(1, &Sizes::default());
        let numbers = [u64::MAX - 2, u64::MAX - 1, u64::MAX, 0, 2, WINDOW - 1];
        for (at, &sequence) in numbers.iter().enumerate() {
            assert!(!recent.contains(call(sequence)), "{sequence}");
            recent.add(call(sequence));
            assert!(numbers[..=at].iter().all(|&number| recent.contains(call(number))), "{sequence}");
        }
    }

    /// A run whose clock was behind that of the one before had calls refused as ended that it had only begun.
    #[test]
    fn the_calls_of_a_root_are_forgotten_with_its_run_and_no_other_s() {
        let mut recent = Recent::new(1, &Sizes::default());
        let of = |root: Id, sequence: u64| CallId { root, sequence };
        for root in [1, 2, 3] {
            recent.linked(root, 50);
            // The last one is too far behind for the window, and of no run.
            [9000, 9001, 5].iter().for_each(|&sequence| recent.add(of(root, sequence)));
        }
        recent.unlinked(1);
        recent.linked(1, 50);
        assert!([9000, 9001, 5].iter().all(|&sequence| recent.contains(of(1, sequence))), "it is the same");
        // Which run it was is known longer than its link stands.
        recent.unlinked(1);
        recent.linked(1, 40);
        assert!(![9000, 9001, 5].iter().any(|&sequence| recent.contains(of(1, sequence))));
        for root in [2, 3] {
            assert!([9000, 9001, 5].iter().all(|&sequence| recent.contains(of(root, sequence))), "{root}");
        }
        recent.add(of(1, 5));
        recent.add(of(3, 9002));
        assert!(recent.contains(of(1, 5)) && !recent.contains(of(1, 9000)) && recent.contains(of(3, 9002)));
        let places = recent.places.as_ref().map(|places| places.len());
        assert_eq!((recent.windows.len(), places, old(&recent).0), (3, Some(3), 2));
    }

    /// A call of a new run had come through another parent before the run's link, was forgotten with those of the run before, and executed once more when it came from its root: the simulator found it.
    #[test]
    fn what_only_the_new_run_can_have_numbered_so_is_known_though_its_link_comes_later() {
        for (before, run) in [(1000, 5000), (5000, 1000), (1000, 1_000_000), (1_000_000, 1000)] {
            let mut recent = Recent::new(1, &Sizes::default());
            recent.linked(1, before);
            (before..before + 20).for_each(|sequence| recent.add(call(sequence)));
            (run..run + 10).step_by(2).for_each(|sequence| recent.add(call(sequence)));
            recent.linked(1, run);
            let known = |recent: &Recent, first: u64| {
                (first..first + 20).filter(|&sequence| recent.contains(call(sequence))).count()
            };
            assert_eq!((known(&recent, before), known(&recent, run)), (0, 5), "{before} then {run}");
            // It goes on as any other.
            (run + 10..run + 20).for_each(|sequence| recent.add(call(sequence)));
            assert_eq!(known(&recent, run), 15, "{before} then {run}");
        }
    }

    /// Whose link it was that its calls came on is not known of those that came through others.
    #[test]
    fn calls_that_came_through_others_are_kept_when_their_root_links_for_the_first_time() {
        let mut recent = Recent::new(1, &Sizes::default());
        recent.add(call(7));
        recent.linked(1, 50);
        assert!(recent.contains(call(7)));
        recent.linked(1, 49);
        assert!(!recent.contains(call(7)));
    }

    /// Whoever began anew had all that it remembered put where others remember theirs, and these were forgotten.
    #[test]
    fn a_root_that_begins_anew_makes_nobody_forgotten() {
        let mut recent = Recent::new(1, &Sizes::default());
        let of = |root: Id, sequence: u64| CallId { root, sequence };
        for root in [1, 2] {
            (0..500).for_each(|sequence| recent.add(of(root, sequence)));
        }
        recent.add(of(2, 1 << 40));
        recent.add(of(1, 1 << 40));
        assert!(
            (0..500).all(|sequence| recent.contains(of(1, sequence)) && recent.contains(of(2, sequence)))
        );
        (0..REMEMBERED as u64).for_each(|more| recent.add(of(1, (1 << 40) + 1 + more)));
        assert!(recent.old.is_none());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]
        /// In whatever order calls of however many runs of their roots end, the last thousand are known, and nothing is that has not ended.
        #[test]
        fn the_last_thousand_are_known(
            bursts in prop::collection::vec((0u32..70, 0u64..5, 1u64..5000, 1usize..900), 1..30),
            windows in prop_oneof![Just(0u16), Just(1), Just(2), Just(64)],
        ) {
            let sizes = Sizes { windows, ..Sizes::default() };
            let (mut recent, mut ended) = (Recent::new(3, &sizes), VecDeque::new());
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
                    recent.add(call);
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
                    prop_assert!(recent.contains(*call), "{call}");
                    prop_assert!(!recent.contains(next) || all.contains(&next), "{next}");
                }
                prop_assert!(old(&recent).0 <= REMEMBERED + usize::from(windows) * 2 * REMEMBERED);
                prop_assert_eq!(old(&recent).0, old(&recent).1);
            }
        }
    }

    #[test]
    fn a_partial_call_is_known_whatever_comes_between() {
        let mut recent = Recent::new(1, &Sizes::default());
        let at = Time::from_nanos;
        recent.partial.add(call(0), at(100));
        (1..5000).for_each(|sequence| recent.partial.add(call(2 * sequence), at(50)));
        (10_000..20_000).for_each(|sequence| recent.add(call(sequence)));
        assert!(recent.contains(call(0)) && recent.contains(call(2)) && !recent.contains(call(1)));
    }
}
