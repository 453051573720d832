//! How much memory what peers send may take: a bound for a node, and bounds for its links within it.
//!
//! Whoever holds bytes of a peer has a [`Share`] of a budget, which grows by what has come and never by what was announced, and is given back when it is dropped. What does not fit is refused,
//! and never waits: else calls would wait for each other's memory. A budget without a bound counts nothing.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// What is held, and how much may be. Cloning shares it.
#[derive(Clone, Default)]
pub struct Budget(Option<Arc<Inner>>);

struct Inner {
    /// What it is for, for people.
    name: String,
    used: AtomicU64,
    most: Most,
    /// What is taken of this one is taken of that one, too.
    within: Budget,
}

type Find = Box<dyn Fn() -> u64 + Send + Sync>;

/// How many bytes a budget has.
enum Most {
    Bytes(u64),
    /// As many as this says, which is asked when the first of them are taken that are not few.
    Found(Find, OnceLock<u64>),
    /// So many parts, of how many, of what it is within.
    Part(u64, u64),
}

/// Bytes that are there without asking how many there are: a node that does little asks for nothing.
const FEW: u64 = 1 << 20;

impl Inner {
    fn most(&self) -> u64 {
        match &self.most {
            Most::Bytes(most) => *most,
            Most::Found(find, found) => *found.get_or_init(&**find),
            Most::Part(parts, of) => self.within.most() / of * parts,
        }
    }

    fn has(&self, bytes: u64) -> bool {
        match &self.most {
            Most::Bytes(most) => bytes <= *most,
            Most::Found(..) | Most::Part(..) if bytes <= self.few() => true,
            Most::Found(..) | Most::Part(..) => bytes <= self.most(),
        }
    }

    fn few(&self) -> u64 {
        match &self.most {
            Most::Bytes(_) => 0,
            Most::Found(..) => FEW,
            Most::Part(parts, of) => self.within.0.as_ref().map_or(0, |within| within.few()) / of * parts,
        }
    }
}

impl Budget {
    /// Without a bound.
    pub fn unbounded() -> Budget {
        Budget(None)
    }

    /// At most so many bytes; `name` says whose they are.
    pub fn new(most: u64, name: impl Into<String>) -> Budget {
        Budget::within(&Budget::unbounded(), Most::Bytes(most), name.into())
    }

    /// At most as many bytes as `find` says when more than a few are taken.
    pub fn found(find: impl Fn() -> u64 + Send + Sync + 'static, name: impl Into<String>) -> Budget {
        Budget::within(&Budget::unbounded(), Most::Found(Box::new(find), OnceLock::new()), name.into())
    }

    /// At most so many parts, `of` how many, of this budget.
    pub fn part(&self, parts: u64, of: u64, name: impl Into<String>) -> Budget {
        Budget::within(self, Most::Part(parts, of), name.into())
    }

    fn within(within: &Budget, most: Most, name: String) -> Budget {
        let (used, within) = (AtomicU64::new(0), within.clone());
        Budget(Some(Arc::new(Inner { name, used, most, within })))
    }

    /// How many bytes it has in all; as many as a number holds without a bound.
    pub fn most(&self) -> u64 {
        self.0.as_ref().map_or(u64::MAX, |inner| inner.most())
    }

    /// Whether it has no bound.
    pub fn is_unbounded(&self) -> bool {
        self.0.is_none()
    }

    /// Bytes taken.
    pub fn used(&self) -> u64 {
        self.0.as_ref().map_or(0, |inner| inner.used.load(Ordering::Relaxed))
    }

    /// An empty share.
    pub fn share(&self) -> Share {
        Share { budget: self.clone(), bytes: 0 }
    }

    /// Whether there is nothing left: of it, or of one that it is a part of.
    pub fn is_spent(&self) -> bool {
        self.spent().is_some()
    }

    /// Why something was refused, in words; whatever was there for it at the moment.
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

    /// The one with the least left, of this and those that it is a part of.
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

/// Bytes of a budget that somebody holds; given back when it is dropped.
#[derive(Debug, Default)]
pub struct Share {
    budget: Budget,
    bytes: u64,
}

impl Share {
    /// Takes so many more; false when they are not there, and then nothing has changed.
    #[must_use]
    pub fn grow(&mut self, bytes: u64) -> bool {
        let taken = bytes == 0 || self.budget.take(bytes);
        if taken {
            self.bytes += bytes;
        }
        taken
    }

    /// Holds so many, whatever it held before; false when they are not there, and then nothing has changed.
    #[must_use]
    pub fn hold(&mut self, bytes: u64) -> bool {
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

    /// The budget that it is of.
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

/// Bytes and the share that they take, which goes with the last that reads them.
#[derive(Debug, Default)]
pub struct Counted<T> {
    /// The bytes.
    pub bytes: T,
    /// What they take.
    pub share: Share,
}

impl Counted<Vec<u8>> {
    /// Nothing yet, of a budget.
    pub fn of(budget: &Budget) -> Counted<Vec<u8>> {
        Counted { bytes: Vec::new(), share: budget.share() }
    }

    /// Appends what has come of so many bytes that were announced; false where there is no memory for it, and then what is there stays.
    #[must_use]
    pub fn append(&mut self, bytes: &[u8], announced: u64) -> bool {
        let len = self.bytes.len();
        if self.bytes.capacity() - len < bytes.len() {
            // It doubles, but for the last time: then it is as long as what was announced.
            let missing = usize::try_from(announced - len as u64).unwrap_or(usize::MAX);
            let doubled = len + len.max(bytes.len()).min(missing);
            if !self.make_room(doubled) && !self.make_room(len + bytes.len()) {
                return false;
            }
        }
        self.bytes.extend_from_slice(bytes);
        true
    }

    /// Makes room for so many bytes in all; false where there is no memory for them, and then what is there stays.
    #[must_use]
    pub fn make_room(&mut self, len: usize) -> bool {
        let capacity = self.bytes.capacity();
        if len <= capacity {
            return true;
        }
        let more = len - self.bytes.len();
        let made = self.share.hold(len as u64) && self.bytes.try_reserve_exact(more).is_ok();
        if !made {
            // What it takes is less than what was asked for.
            let _ = self.share.hold(capacity as u64);
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
    use super::*;

    #[test]
    fn a_part_takes_of_the_whole_and_gives_back_what_it_took() {
        let node = Budget::new(100, "this node");
        let links = [node.part(3, 5, "link 1"), node.part(3, 5, "link 2")];
        let (mut one, mut two) = (links[0].share(), links[1].share());
        assert!(one.grow(60) && !one.grow(1) && links[0].is_spent() && !node.is_spent());
        assert!(!two.grow(41) && two.grow(40) && two.hold(40));
        assert_eq!((node.used(), links[1].used(), links[1].is_spent()), (100, 40, true));
        assert!(links[1].refusal().contains("this node may hold 100"), "{}", links[1].refusal());
        assert!(one.hold(10) && links[0].refusal().contains("link 1 may hold 60"));
        assert_eq!((one.bytes(), node.used()), (10, 50));
        drop((one, two));
        assert_eq!((node.used(), links[0].used(), links[1].used()), (0, 0, 0));
    }

    #[test]
    fn without_a_bound_all_is_taken_and_nothing_counted() {
        let budget = Budget::unbounded();
        let mut share = budget.share();
        assert!(share.grow(u64::MAX / 2) && share.hold(3));
        assert_eq!((budget.used(), budget.most(), budget.is_spent()), (0, u64::MAX, false));
    }

    #[test]
    fn what_there_is_is_asked_for_when_more_than_a_few_bytes_are_taken() {
        let node = Budget::found(|| 2 * FEW, "this node");
        let asked = |budget: &Budget| matches!(&budget.0.as_ref().unwrap().most, Most::Found(_, found) if found.get().is_some());
        let link = node.part(1, 2, "a link");
        let mut share = link.share();
        assert!(share.grow(FEW / 2) && !asked(&node));
        assert!(share.grow(FEW / 2) && asked(&node) && !share.grow(1) && link.is_spent());
        let mut other = node.share();
        assert!(!other.grow(FEW + 1) && other.grow(FEW) && node.is_spent());
    }

    /// What was announced by a peer is added to what is held.
    #[test]
    fn sums_that_no_number_holds_are_refused() {
        let budget = Budget::new(u64::MAX - 1, "this node");
        let mut share = budget.share();
        assert!(share.grow(9) && !share.grow(u64::MAX - 5) && share.bytes() == 9);
        assert_eq!(budget.used(), 9);
    }
}
