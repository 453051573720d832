//! Groups, the built-in splits and their closed forms.
//!
//! Two rules produce all six built-in trees: *nearly equal parts* (chain 1, binary 2, k-ary k, flat as many as there
//! are ids) and *growing groups* (binomial 2, k-nomial k). A split depends only on the number of ids. Source: *Trees*
//! in the design; ids 0 and 1 of the chained GPC text are binary and binomial.

use crate::sorting::sort_by_key;
use smallvec::SmallVec;
use std::cmp::Reverse;

/// Consecutive positions of a slice whose position 0 is the receiver. The first member is the receiver's
/// child, the rest is the child's subtree.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Group {
    /// The child's position in the slice, at least 1.
    pub start: u32,
    /// Number of ids: the child and its descendants.
    pub len: u32,
}

/// The groups of one split, in list order. Up to 8 need no allocation.
pub type Groups = SmallVec<[Group; 8]>;

/// Indexes of groups; see [`send_order`].
pub type SendOrder = SmallVec<[usize; 8]>;

/// Returns the order in which groups are sent: the largest first, because its subtree takes longest; equal ones in list
/// order.
pub fn send_order(groups: &[Group]) -> SendOrder {
    let mut order: SendOrder = (0..groups.len()).collect();
    sort_by_key(&mut order, |&index| Reverse(groups[index].len));
    order
}

/// Appends `min(k, n - 1)` nearly equal parts, the larger ones first. `n` and `k` are at least 1.
pub(crate) fn parts(n: u32, k: u32, groups: &mut Groups) {
    let rest = n - 1;
    let count = k.min(rest);
    if count == 0 {
        return;
    }
    groups.reserve(count as usize);
    let (len, larger) = (rest / count, rest % count);
    let mut start = 1;
    for part in 0..count {
        let len = len + u32::from(part < larger);
        groups.push(Group { start, len });
        // Wraps only after the last group of a list of u32::MAX ids.
        start = start.wrapping_add(len);
    }
}

/// Appends `k - 1` groups of each size 1, k, k^2, ... , the last one cut short. `n` is at least 1, `k` at
/// least 2.
pub(crate) fn growing(n: u32, k: u32, groups: &mut Groups) {
    let mut left = n - 1;
    let mut size = 1u32;
    while left > 0 {
        for _ in 1..k {
            let len = size.min(left);
            groups.push(Group { start: n - left, len });
            left -= len;
            if left == 0 {
                return;
            }
        }
        // No overflow: the groups so far hold size * k - 1 positions, fewer than there are.
        size *= k;
    }
}

/// Returns the least d with 1 + k + ... + k^d >= n: nearly equal parts fill a level before they begin the next.
pub(crate) fn parts_depth(n: u32, k: u32) -> u32 {
    if k == 1 {
        return n - 1;
    }
    let (n, k) = (u64::from(n), u64::from(k));
    let (mut depth, mut level, mut total) = (0, 1u64, 1u64);
    // At most 32 iterations without overflow: level < 2^32 before each.
    while total < n {
        level *= k;
        total += level;
        depth += 1;
    }
    depth
}

/// Returns the greatest d with 1 + k + ... + k^(d-1) <= n - 1.
pub(crate) fn growing_depth(n: u32, k: u32) -> u32 {
    let (n, k) = (u64::from(n), u64::from(k));
    let (mut depth, mut size, mut total) = (0, 1u64, 0u64);
    // At most 32 iterations without overflow: size < 2^32 before each.
    while total + size < n {
        total += size;
        size *= k;
        depth += 1;
    }
    depth
}

/// Returns j (k - 1) + ceil(n / k^j) - 1 with the greatest j for which k^j <= n: j full rounds of k - 1 groups, then
/// the rest in groups of k^j.
pub(crate) fn growing_fan_out(n: u32, k: u32) -> u32 {
    let (n, k) = (u64::from(n), u64::from(k));
    let (mut rounds, mut size) = (0u64, 1u64);
    while size * k <= n {
        size *= k;
        rounds += 1;
    }
    let fan_out = rounds * (k - 1) + n.div_ceil(size) - 1;
    u32::try_from(fan_out).expect("each group holds an id, so there are fewer groups than ids")
}
