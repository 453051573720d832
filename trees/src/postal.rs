//! The fastest tree for given link costs: the optimal broadcast of Karp, Sahay, Santos and Schauser under LogP, in the
//! postal form of Bar-Noy and Kipnis.
//!
//! In LogP a node can start a send every gap (g, or the overhead o if that is longer), and the message is received L +
//! 2o after its start. Only the ratio of the two matters: λ = (L + 2o) / gap, the *lag*. Counted in gaps, a node that
//! knows the message at time s sends at s, s + 1, s + 2, ..., and each receiver knows it λ later. The number of nodes
//! that know it at time t is
//!
//! N(t) = sum over j of C(floor(t - jλ) + j, j),
//!
//! where the term j counts the nodes reached over j hops. The fastest split of n nodes takes the least t with N(t) >=
//! n; its child number i, from 0, heads at most N(t - λ - i) nodes. λ = 1 gives the binomial tree; a λ above the number
//! of nodes gives the flat one. Messages of k bytes lengthen both times by k G (LogGP).

use crate::sorting::sort_by;
use crate::split::{Group, Groups};
use std::collections::BTreeMap;
use std::fmt;
use std::num::NonZeroU32;

/// Units of a lag per gap: fine enough that rounding has no effect in a tree of a million ids.
const UNIT: u64 = 1024;

/// Counts saturate here, above the maximum length of a list.
const MANY: u64 = 1 << 33;

/// λ, the ratio of a message's delay to the time between two sends: at least 1, in steps of 1/1024.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Lag(NonZeroU32);

impl Lag {
    /// Returns the lag of this many 1,024ths; `None` below 1,024.
    pub fn from_1024ths(parts: u32) -> Option<Lag> {
        NonZeroU32::new(parts).filter(|parts| u64::from(parts.get()) >= UNIT).map(Lag)
    }

    /// The lag in 1,024ths.
    pub fn as_1024ths(self) -> u32 {
        self.0.get()
    }

    /// Returns the lag for LogGP costs in one unit of time: latency, overhead of a send and of a receipt, gap between
    /// sends, and gap per byte of a message of `bytes` bytes. `None` if the time between two sends is zero, or the
    /// ratio is too large.
    pub fn of_costs(latency: u64, overhead: u64, gap: u64, gap_per_byte: f64, bytes: u64) -> Option<Lag> {
        let long = (gap_per_byte * bytes as f64).max(0.0);
        let between = gap.max(overhead) as f64 + long;
        if between <= 0.0 {
            return None;
        }
        let delay = latency as f64 + 2.0 * overhead as f64 + long;
        let parts = (delay / between * UNIT as f64).round().max(UNIT as f64);
        (parts <= f64::from(u32::MAX)).then(|| Lag::from_1024ths(parts as u32)).flatten()
    }
}

impl fmt::Display for Lag {
    /// Prints a decimal with as few places as are needed to parse it back, at most four: `6.13` for 6,277 parts of
    /// 1,024.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = u64::from(self.0.get());
        // The nearest number with so many places, and what it is read as.
        let nearest = |places: u32| (parts * 10u64.pow(places) + UNIT / 2) / UNIT;
        let read = |places: u32| (nearest(places) * UNIT + 10u64.pow(places) / 2) / 10u64.pow(places);
        let places = (0..4).find(|&places| read(places) == parts).unwrap_or(4);
        let (shown, unit) = (nearest(places), 10u64.pow(places));
        let text = match places {
            0 => shown.to_string(),
            _ => format!("{}.{:0width$}", shown / unit, shown % unit, width = places as usize),
        };
        // Whole, so that a width of the caller's counts.
        f.pad(&text)
    }
}

/// Number of nodes that know the message at a time in 1,024ths of a gap; at most [`MANY`].
fn known(time: u64, lag: Lag) -> u64 {
    let lag = u64::from(lag.as_1024ths());
    let mut sum = 0;
    // Ends when the hops fill the time, because a lag is at least one gap.
    for hops in 0..=time / lag {
        sum += choose((time - hops * lag) / UNIT + hops, hops);
        if sum >= MANY {
            return MANY;
        }
    }
    sum
}

/// Returns C(n, k), at most [`MANY`]. The terms of a row grow up to its middle, so cutting off early is exact.
fn choose(n: u64, k: u64) -> u64 {
    let k = k.min(n - k);
    let mut result: u128 = 1;
    for step in 1..=k {
        result = result * u128::from(n - k + step) / u128::from(step);
        if result >= u128::from(MANY) {
            return MANY;
        }
    }
    u64::try_from(result).unwrap_or(MANY)
}

/// Returns the least time after which `n` nodes know the message.
fn least_time(n: u32, lag: Lag) -> u64 {
    let (mut low, mut high) = (0, u64::from(lag.as_1024ths()) + UNIT * u64::from(n));
    // At most 64 iterations: the range halves.
    while low < high {
        let middle = low + (high - low) / 2;
        match known(middle, lag) >= u64::from(n) {
            true => high = middle,
            false => low = middle + 1,
        }
    }
    low
}

/// Appends the groups of the fastest tree, the largest first. `n` is at least 1.
pub(crate) fn split(n: u32, lag: Lag, groups: &mut Groups) {
    let mut start = 1;
    for len in sizes(n, lag) {
        groups.push(Group { start, len });
        // Wraps only after the last group of a list of u32::MAX ids.
        start = start.wrapping_add(len);
    }
}

/// Returns the sizes of the groups, the largest first. No child heads more nodes than it can reach in time. The excess
/// capacity is taken from the largest groups, which keeps the tree as shallow as possible.
fn sizes(n: u32, lag: Lag) -> Vec<u32> {
    let (rest, time) = (n - 1, least_time(n, lag));
    let mut sizes: Vec<u32> = Vec::new();
    let mut room = 0u64;
    let mut until = time.checked_sub(u64::from(lag.as_1024ths()));
    while let Some(left) = until.filter(|_| sizes.len() < rest as usize) {
        let reached = known(left, lag).min(u64::from(rest));
        room += reached;
        sizes.push(reached as u32);
        until = left.checked_sub(UNIT);
    }
    let mut spare = room.saturating_sub(u64::from(rest));
    for len in &mut sizes {
        let cut = spare.min(u64::from(*len) - 1);
        *len -= cut as u32;
        spare -= cut;
    }
    sizes.truncate(sizes.len() - spare as usize);
    sort_by(&mut sizes, |one, other| other.cmp(one));
    sizes
}

/// Number of levels below the root: every size that occurs is split once, the largest first.
pub(crate) fn depth(n: u32, lag: Lag) -> u32 {
    let mut deepest = 0;
    // Size -> the deepest level at which it occurs.
    let mut pending = BTreeMap::from([(n, 0)]);
    while let Some((len, level)) = pending.pop_last() {
        deepest = deepest.max(level);
        for below in sizes(len, lag) {
            let known = pending.entry(below).or_insert(level + 1);
            *known = (*known).max(level + 1);
        }
    }
    deepest
}

/// Number of children of the root, which has the most.
pub(crate) fn fan_out(n: u32, lag: Lag) -> u32 {
    u32::try_from(sizes(n, lag).len()).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bytes_of_a_message_delay_its_arrival_and_the_next_one() {
        // 900 bytes at 1 ns each: 1000 ns from one message to the next, 2100 ns until one has arrived.
        assert_eq!(Lag::of_costs(1000, 100, 0, 1.0, 900).map(Lag::as_1024ths), Some(2150));
        assert_eq!(Lag::of_costs(1000, 100, 1100, 1.0, 900).map(Lag::as_1024ths), Some(1075));
        assert_eq!(Lag::of_costs(0, 0, 0, 0.0, 900), None);
    }

    /// Its text has as few decimals as are read back as the same lag, and is the nearest such number.
    #[test]
    fn a_lag_is_shown_as_a_floating_point_number_would_be() {
        for parts in (1024..9000).chain([u32::MAX - 1, u32::MAX]) {
            let lag = f64::from(parts) / 1024.0;
            let reads_back = |text: &String| {
                let read: f64 = text.parse().unwrap();
                (read * 1024.0).round() as u64 == u64::from(parts)
            };
            let shown = (0..=4).map(|places| format!("{lag:.places$}")).find(reads_back).unwrap();
            assert_eq!(Lag::from_1024ths(parts).unwrap().to_string(), shown);
        }
    }
}
