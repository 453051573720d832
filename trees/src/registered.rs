//! User-defined split functions, registered under a name at every node.
//!
//! The wire carries only the id, a hash of the name, so registration by name gives the same id everywhere without a
//! collective step. The function is not trusted: its groups are checked at every split. Source: the chained GPC text,
//! user-defined tree ids.

use crate::error::{GroupFault, TreeError};
use crate::limits::MAX_FAN_OUT;
use crate::split::{Group, Groups};
use crate::split_name::{NameError, SplitName};
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// The bit that marks the ids of registered splits; built-in trees have small ids.
const REGISTERED: u64 = 1 << 63;

/// Returns the wire id of a registered split: the [`name_hash`] of its name with the top bit set.
pub fn tree_id(name: &str) -> u64 {
    name_hash(name) | REGISTERED
}

/// Returns the 64-bit FNV-1a hash of a name's bytes, the base of ids and handles; equal in every process.
pub const fn name_hash(name: &str) -> u64 {
    let bytes = name.as_bytes();
    let (mut hash, mut at) = (0xcbf2_9ce4_8422_2325_u64, 0);
    while at < bytes.len() {
        hash = (hash ^ bytes[at] as u64).wrapping_mul(0x0000_0100_0000_01b3);
        at += 1;
    }
    hash
}

/// A split function with its name and id. Cheap to clone; two are equal if they are clones of one.
///
/// Every node registers it under the same name, because each id splits its own slice. It need not be trusted: groups
/// that do not cover the list are rejected.
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
    /// Names a split function. The function receives n (at least 2) and pushes the groups of positions `1..n` in list
    /// order. It must be a pure function of n, the same on every node.
    ///
    /// # Errors
    /// If the text is not a valid [`SplitName`].
    pub fn new(
        name: &str,
        split: impl Fn(u32, &mut Groups) + Send + Sync + 'static,
    ) -> Result<Registered, NameError> {
        let name: SplitName = name.parse()?;
        Ok(Registered(Arc::new(Inner { id: tree_id(name.as_str()), name, split })))
    }

    /// Returns a split with an arbitrary id: names whose hashes collide take long to find.
    #[cfg(test)]
    pub(crate) fn with_id(name: &str, id: u64) -> Registered {
        let name = name.parse().expect("a test's name");
        Registered(Arc::new(Inner { id, name, split: |_: u32, _: &mut Groups| () }))
    }

    /// The id on the wire.
    pub fn id(&self) -> u64 {
        self.0.id
    }

    /// The name.
    pub fn name(&self) -> &SplitName {
        &self.0.name
    }

    /// Returns the function's groups, unchecked. The function is not called for a single id, which has no groups.
    ///
    /// # Errors
    /// If the function panics: the panic of a user's split must not end the node.
    pub(crate) fn answer(&self, n: u32) -> Result<Groups, TreeError> {
        if n <= 1 {
            return Ok(Groups::new());
        }
        let split = || {
            let mut groups = Groups::new();
            (self.0.split)(n, &mut groups);
            groups
        };
        // Unwind safety: the groups are dropped with the panic, and the function is responsible for its captured state.
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
    // Summed in 64 bits: the function may return any lengths.
    let covered: u64 = groups.iter().map(|group| u64::from(group.len)).sum();
    let mut end = 1u64;
    for (group, &Group { start, len }) in groups.iter().enumerate() {
        if len == 0 {
            return bad(GroupFault::Empty { group });
        }
        if end >= u64::from(n) {
            // All positions are covered, but a group is left: the sum below is too large.
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
