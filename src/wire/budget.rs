//! Memory budgets for data from peers: a bound for a node, and bounds for its links within it.
//!
//! Each holder of a peer's bytes has a [`Share`] of a budget. A share grows by the bytes that arrive, never by what was
//! announced, and is returned when it is dropped. Bytes over the budget are refused at once: if they waited, calls
//! would wait for each other's memory. An unbounded budget counts nothing.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// A bound on memory, and the amount in use. Cloning shares it.
#[derive(Clone, Default)]
pub struct Budget(Option<Arc<Inner>>);

struct Inner {
    /// Name of the owner, for messages.
    name: String,
    used: AtomicU64,
    most: Capacity,
    /// Outer budget, from which the same bytes are taken too.
    within: Budget,
}

type CapacityFn = Box<dyn Fn() -> u64 + Send + Sync>;

/// Size of a budget.
enum Capacity {
    Bytes(u64),
    /// The size that this function returns. It is called once, when the first bytes beyond [`FEW`] are taken.
    Lazy(CapacityFn, OnceLock<u64>),
    /// A fraction of the outer budget: numerator and denominator.
    Part(u64, u64),
}

/// Bytes available before the size is looked up, so that a node with little traffic never looks it up.
const FEW: u64 = 1 << 20;

impl Inner {
    fn most(&self) -> u64 {
        match &self.most {
            Capacity::Bytes(most) => *most,
            Capacity::Lazy(find, found) => *found.get_or_init(&**find),
            Capacity::Part(parts, of) => self.within.most() / of * parts,
        }
    }

    fn has(&self, bytes: u64) -> bool {
        match &self.most {
            Capacity::Bytes(most) => bytes <= *most,
            Capacity::Lazy(..) | Capacity::Part(..) if bytes <= self.few() => true,
            Capacity::Lazy(..) | Capacity::Part(..) => bytes <= self.most(),
        }
    }

    fn few(&self) -> u64 {
        match &self.most {
            Capacity::Bytes(_) => 0,
            Capacity::Lazy(..) => FEW,
            Capacity::Part(parts, of) => self.within.0.as_ref().map_or(0, |within| within.few()) / of * parts,
        }
    }
}

impl Budget {
    /// Returns a budget without a bound.
    pub fn unbounded() -> Budget {
        Budget(None)
    }

    /// Returns a budget of `most` bytes; `name` is its owner in messages.
    pub fn new(most: u64, name: impl Into<String>) -> Budget {
        Budget::within(&Budget::unbounded(), Capacity::Bytes(most), name.into())
    }

    /// Returns a budget whose size is the result of `find`, which is called when more than a few bytes are taken.
    pub fn found(find: impl Fn() -> u64 + Send + Sync + 'static, name: impl Into<String>) -> Budget {
        Budget::within(&Budget::unbounded(), Capacity::Lazy(Box::new(find), OnceLock::new()), name.into())
    }

    /// Returns a budget of the fraction `parts` / `of` of this one.
    pub fn part(&self, parts: u64, of: u64, name: impl Into<String>) -> Budget {
        Budget::within(self, Capacity::Part(parts, of), name.into())
    }

    fn within(within: &Budget, most: Capacity, name: String) -> Budget {
        let (used, within) = (AtomicU64::new(0), within.clone());
        Budget(Some(Arc::new(Inner { name, used, most, within })))
    }

    /// Total size, in bytes; `u64::MAX` if unbounded.
    pub fn most(&self) -> u64 {
        self.0.as_ref().map_or(u64::MAX, |inner| inner.most())
    }

    /// Whether it is unbounded.
    pub fn is_unbounded(&self) -> bool {
        self.0.is_none()
    }

    /// Bytes in use.
    pub fn used(&self) -> u64 {
        self.0.as_ref().map_or(0, |inner| inner.used.load(Ordering::Relaxed))
    }

    /// Returns an empty share.
    pub fn share(&self) -> Share {
        Share { budget: self.clone(), bytes: 0 }
    }

    /// Whether it, or a budget around it, is used up.
    pub fn is_spent(&self) -> bool {
        self.spent().is_some()
    }

    /// Returns the reason of a refusal, for people, according to the budgets' present state.
    pub fn refusal(&self) -> String {
        let fullest = self.fullest();
        match fullest {
            Some(inner) => format!("refused by a limit: {} may hold {} bytes", inner.name, inner.most()),
            None => "refused by a limit: the system has no memory for it".into(),
        }
    }

    fn spent(&self) -> Option<&Inner> {
        let inner = self.0.as_deref()?;
        let used = inner.used.load(Ordering::Relaxed);
        if inner.has(used.saturating_add(1)) { inner.within.spent() } else { Some(inner) }
    }

    /// Returns the budget with the least left, of this one and those around it.
    fn fullest(&self) -> Option<&Inner> {
        let inner = self.0.as_deref()?;
        let left = |inner: &Inner| inner.most().saturating_sub(inner.used.load(Ordering::Relaxed));
        match inner.within.fullest() {
            Some(other) if left(other) < left(inner) => Some(other),
            _ => Some(inner),
        }
    }

    fn take(&self, bytes: u64) -> bool {
        let Some(inner) = &self.0 else { return true };
        let before = inner.used.fetch_add(bytes, Ordering::Relaxed);
        let taken = inner.has(before.saturating_add(bytes)) && inner.within.take(bytes);
        if !taken {
            inner.used.fetch_sub(bytes, Ordering::Relaxed);
        }
        taken
    }

    fn give(&self, bytes: u64) {
        if let Some(inner) = &self.0 {
            inner.used.fetch_sub(bytes, Ordering::Relaxed);
            inner.within.give(bytes);
        }
    }
}

impl fmt::Debug for Budget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Some(inner) => write!(f, "Budget({} of {} bytes)", self.used(), inner.most()),
            None => f.write_str("Budget(unbounded)"),
        }
    }
}

/// Bytes taken from a budget; returned when the share is dropped.
#[derive(Debug, Default)]
pub struct Share {
    budget: Budget,
    bytes: u64,
}

impl Share {
    /// Takes `bytes` more; returns false if they are not available, and then nothing has changed.
    #[must_use]
    pub fn grow(&mut self, bytes: u64) -> bool {
        let taken = bytes == 0 || self.budget.take(bytes);
        if taken {
            self.bytes += bytes;
        }
        taken
    }

    /// Changes the share to `bytes` in all; returns false if they are not available, and then nothing has changed.
    #[must_use]
    pub fn resize(&mut self, bytes: u64) -> bool {
        match bytes.checked_sub(self.bytes) {
            Some(more) => self.grow(more),
            None => {
                self.budget.give(self.bytes - bytes);
                self.bytes = bytes;
                true
            }
        }
    }

    /// Bytes held.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The budget of the share.
    pub fn budget(&self) -> &Budget {
        &self.budget
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        if self.bytes > 0 {
            self.budget.give(self.bytes);
        }
    }
}

/// Bytes with the share that they take. The share is returned with the last reader.
#[derive(Debug, Default)]
pub struct Counted<T> {
    /// The bytes.
    pub bytes: T,
    /// The share that they take.
    pub share: Share,
}

impl Counted<Vec<u8>> {
    /// Returns an empty buffer with a share of this budget.
    pub fn of(budget: &Budget) -> Counted<Vec<u8>> {
        Counted { bytes: Vec::new(), share: budget.share() }
    }

    /// Appends received bytes of a body of `announced` bytes; returns false if there is no memory for them, and then
    /// the buffer is unchanged.
    #[must_use]
    pub fn append(&mut self, bytes: &[u8], announced: u64) -> bool {
        let len = self.bytes.len();
        if self.bytes.capacity() - len < bytes.len() {
            // The capacity doubles, but never exceeds the announced length.
            let missing = usize::try_from(announced - len as u64).unwrap_or(usize::MAX);
            let doubled = len + len.max(bytes.len()).min(missing);
            if !self.make_room(doubled) && !self.make_room(len + bytes.len()) {
                return false;
            }
        }
        self.bytes.extend_from_slice(bytes);
        true
    }

    /// Grows the capacity to `len` bytes; returns false if there is no memory, and then the buffer is unchanged.
    #[must_use]
    pub fn make_room(&mut self, len: usize) -> bool {
        let capacity = self.bytes.capacity();
        if len <= capacity {
            return true;
        }
        let more = len - self.bytes.len();
        let made = self.share.resize(len as u64) && self.bytes.try_reserve_exact(more).is_ok();
        if !made {
            // This cannot fail: it returns bytes to the budget.
            let _ = self.share.resize(capacity as u64);
        }
        made
    }
}

impl<T: AsRef<[u8]>> AsRef<[u8]> for Counted<T> {
    fn as_ref(&self) -> &[u8] {
        self.bytes.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A change of a share: which, to how many bytes, and whether it is dropped instead.
    type Change = (usize, u64, bool);

    proptest! {
        /// Whatever grows, shrinks and goes: a budget has what its shares hold, a part never more than its bound, and
        /// what is refused changes nothing.
        #[test]
        fn budgets_have_what_their_shares_hold(changes in proptest::collection::vec((0usize..6, 0u64..40, any::<bool>()), 0..60)) {
            let node = Budget::new(100, "this node");
            let links = [node.part(1, 2, "link 1"), node.part(1, 2, "link 2"), node.part(1, 4, "link 3")];
            let most = [50, 50, 25];
            let mut shares: [Share; 6] = std::array::from_fn(|at| links[at % 3].share());
            let mut model = [0u64; 6];
            let of = |model: &[u64; 6], link: usize| model[link] + model[link + 3];
            for (at, bytes, drops) in changes as Vec<Change> {
                let link = at % 3;
                let others = |all: u64| all - model[at];
                let fits = others(of(&model, link)) + bytes <= most[link] && others(model.iter().sum()) + bytes <= 100;
                if drops {
                    shares[at] = links[link].share();
                    model[at] = 0;
                } else {
                    let shrinks = bytes <= model[at];
                    prop_assert_eq!(shares[at].resize(bytes), fits || shrinks);
                    if fits || shrinks {
                        model[at] = bytes;
                    }
                }
                prop_assert_eq!(shares[at].bytes(), model[at]);
                prop_assert_eq!(node.used(), model.iter().sum::<u64>());
                for link in 0..3 {
                    prop_assert_eq!(links[link].used(), of(&model, link));
                    prop_assert_eq!(links[link].is_spent(), of(&model, link) == most[link] || node.used() == 100);
                }
            }
            drop(shares);
            prop_assert_eq!(node.used(), 0);
        }
    }

    #[test]
    fn a_buffer_grows_within_its_announced_length_and_gives_back_what_it_could_not_get() {
        let budget = Budget::new(u64::MAX, "this node");
        let mut buffer = Counted::of(&budget);
        assert!(buffer.append(&[1; 60], 100) && buffer.append(&[2; 10], 100));
        assert_eq!((buffer.bytes.len(), buffer.bytes.capacity(), budget.used()), (70, 100, 100));
        // The system has no such memory.
        assert!(!buffer.make_room(usize::MAX / 2));
        assert_eq!((buffer.bytes.capacity(), budget.used(), buffer.share.bytes()), (100, 100, 100));
        drop(buffer);
        assert_eq!(budget.used(), 0);
        // Where the doubled length is too much, what has come may still fit.
        let tight = Budget::new(70, "this node");
        let mut buffer = Counted::of(&tight);
        assert!(buffer.append(&[1; 40], 1000) && buffer.append(&[2; 30], 1000) && !buffer.append(&[3], 1000));
        assert_eq!((buffer.bytes.len(), tight.used()), (70, 70));
    }

    #[test]
    fn a_part_takes_of_the_whole_and_gives_back_what_it_took() {
        let node = Budget::new(100, "this node");
        let links = [node.part(3, 5, "link 1"), node.part(3, 5, "link 2")];
        let (mut one, mut two) = (links[0].share(), links[1].share());
        assert!(one.grow(60) && !one.grow(1) && links[0].is_spent() && !node.is_spent());
        assert!(!two.grow(41) && two.grow(40) && two.resize(40));
        assert_eq!((node.used(), links[1].used(), links[1].is_spent()), (100, 40, true));
        assert!(links[1].refusal().contains("this node may hold 100"), "{}", links[1].refusal());
        assert!(one.resize(10) && links[0].refusal().contains("link 1 may hold 60"));
        assert_eq!((one.bytes(), node.used()), (10, 50));
        drop((one, two));
        assert_eq!((node.used(), links[0].used(), links[1].used()), (0, 0, 0));
    }

    #[test]
    fn without_a_bound_all_is_taken_and_nothing_counted() {
        let budget = Budget::unbounded();
        let mut share = budget.share();
        assert!(share.grow(u64::MAX / 2) && share.resize(3));
        assert_eq!((budget.used(), budget.most(), budget.is_spent()), (0, u64::MAX, false));
    }

    #[test]
    fn what_there_is_is_asked_for_when_more_than_a_few_bytes_are_taken() {
        let node = Budget::found(|| 2 * FEW, "this node");
        let asked = |budget: &Budget| matches!(&budget.0.as_ref().unwrap().most, Capacity::Lazy(_, found) if found.get().is_some());
        let link = node.part(1, 2, "a link");
        let mut share = link.share();
        assert!(share.grow(FEW / 2) && !asked(&node));
        assert!(share.grow(FEW / 2) && asked(&node) && !share.grow(1) && link.is_spent());
        let mut other = node.share();
        assert!(!other.grow(FEW + 1) && other.grow(FEW) && node.is_spent());
    }

    /// Lengths announced by a peer are added to the bytes held.
    #[test]
    fn sums_that_no_number_holds_are_refused() {
        let budget = Budget::new(u64::MAX - 1, "this node");
        let mut share = budget.share();
        assert!(share.grow(9) && !share.grow(u64::MAX - 5) && share.bytes() == 9);
        assert_eq!(budget.used(), 9);
    }
}
