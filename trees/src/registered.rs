//! Split functions of one's own, registered under a name at every node.
//!
//! The wire carries only the id, a hash of the name, so registering by name gives the same id everywhere
//! without any collective step. The function is trusted with nothing: its groups are checked at every split.
//! Source: the chained GPC text, user-defined tree ids.

use crate::error::{GroupFault, TreeError};
use crate::limits::MAX_FAN_OUT;
use crate::split::{Group, Groups};
use crate::split_name::{NameError, SplitName};
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// The bit that tells the ids of registered splits from those of built-in trees, which are small.
const REGISTERED: u64 = 1 << 63;

/// The wire id of a registered split, from its name: its [`name_hash`] with the top bit set.
pub fn tree_id(name: &str) -> u64 {
    name_hash(name) | REGISTERED
}

/// The 64-bit FNV-1a hash of a name's bytes: what ids and handles are made of, the same in every process.
pub const fn name_hash(name: &str) -> u64 {
    let bytes = name.as_bytes();
    let (mut hash, mut at) = (0xcbf2_9ce4_8422_2325_u64, 0);
    while at < bytes.len() {
        hash = (hash ^ bytes[at] as u64).wrapping_mul(0x0000_0100_0000_01b3);
        at += 1;
    }
    hash
}

/// A split function with its name and id. Cheap to clone; two are equal where they are clones of one.
///
/// Every node registers it under the same name, since each id splits its own slice. It need not be trusted: groups that do not cover the list are refused.
///
/// ```
/// use gpc_trees::{Group, Groups, Limits, Registered, Tree};
///
/// // The next id alone, and all others below the one after it.
/// let comb = |n: u32, groups: &mut Groups| {
///     groups.push(Group { start: 1, len: 1 });
///     if n > 2 {
///         groups.push(Group { start: 2, len: n - 2 });
///     }
/// };
/// let tree = Tree::Registered(Registered::new("comb", comb)?);
/// let summary = tree.check(100, &Limits::default())?;
/// assert_eq!((summary.depth, summary.fan_out), (50, 2));
///
/// let hole = Tree::Registered(Registered::new("hole", |_, groups| groups.push(Group { start: 2, len: 1 }))?);
/// assert!(hole.check(3, &Limits::default()).is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Registered(Arc<Inner<SplitFn>>);

type SplitFn = dyn Fn(u32, &mut Groups) + Send + Sync;

struct Inner<F: ?Sized> {
    id: u64,
    name: SplitName,
    split: F,
}

impl Registered {
    /// Names a split function. It is given n (at least 2) and pushes the groups of positions `1..n` in list
    /// order; it must be a pure function of n, the same on every node.
    ///
    /// # Errors
    /// A text that is no [`SplitName`].
    pub fn new(
        name: &str,
        split: impl Fn(u32, &mut Groups) + Send + Sync + 'static,
    ) -> Result<Registered, NameError> {
        let name: SplitName = name.parse()?;
        Ok(Registered(Arc::new(Inner { id: tree_id(name.as_str()), name, split })))
    }

    /// One with an id that its name does not have: a hash that two names share takes long to find.
    #[cfg(test)]
    pub(crate) fn with_id(name: &str, id: u64) -> Registered {
        let name = name.parse().expect("a test's name");
        Registered(Arc::new(Inner { id, name, split: |_: u32, _: &mut Groups| () }))
    }

    /// The id that the wire carries.
    pub fn id(&self) -> u64 {
        self.0.id
    }

    /// The name.
    pub fn name(&self) -> &SplitName {
        &self.0.name
    }

    /// What the function says, not checked. It is not asked for a single id, which has no groups.
    ///
    /// # Errors
    /// When the function panics: what a user's split does is its own fault, and nobody else's end.
    pub(crate) fn answer(&self, n: u32) -> Result<Groups, TreeError> {
        if n <= 1 {
            return Ok(Groups::new());
        }
        let split = || {
            let mut groups = Groups::new();
            (self.0.split)(n, &mut groups);
            groups
        };
        // The groups are dropped with the panic; what the function has captured is its own affair.
        catch_unwind(AssertUnwindSafe(split))
            .map_err(|_| TreeError::BadGroups { n, fault: GroupFault::Panicked })
    }
}

/// Checks that groups cover positions `1..n` once each, in order, and are not too many.
pub(crate) fn check_groups(n: u32, groups: &[Group]) -> Result<(), TreeError> {
    if groups.len() > MAX_FAN_OUT as usize {
        let fan_out = u32::try_from(groups.len()).unwrap_or(u32::MAX);
        return Err(TreeError::FanOut { position: 0, fan_out, limit: MAX_FAN_OUT });
    }
    let bad = |fault| Err(TreeError::BadGroups { n, fault });
    // In 64 bits: lengths are whatever the function said.
    let covered: u64 = groups.iter().map(|group| u64::from(group.len)).sum();
    let mut end = 1u64;
    for (group, &Group { start, len }) in groups.iter().enumerate() {
        if len == 0 {
            return bad(GroupFault::Empty { group });
        }
        if end >= u64::from(n) {
            // All are covered and here is one more group: the sum below is too large.
            break;
        }
        if end != u64::from(start) {
            let expected = u32::try_from(end).expect("it is below n");
            return bad(GroupFault::Gap { group, expected, start });
        }
        end += u64::from(len);
    }
    if covered != u64::from(n - 1) {
        return bad(GroupFault::Sum { covered, rest: n - 1 });
    }
    Ok(())
}

impl PartialEq for Registered {
    fn eq(&self, other: &Registered) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Registered {}

impl fmt::Debug for Registered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Registered({}, {:#x})", self.name(), self.id())
    }
}
