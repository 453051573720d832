//! Draws the faults that a run uses: a theme of faults that find more together, or any of the allowed ones.

use super::{Fault, FaultSet};
use crate::random::Random;

/// Faults that find more in combination, and rarely meet if each is drawn alone.
const THEMES: [&[Fault]; 45] = [
    &[Fault::Refused, Fault::Crash],
    &[Fault::Refused, Fault::Orphan],
    &[Fault::Refused, Fault::Link],
    &[Fault::Refused, Fault::Partition],
    &[Fault::Refused, Fault::Link, Fault::Crash],
    &[Fault::Close, Fault::Orphan],
    &[Fault::Close, Fault::Crash, Fault::Refused],
    &[Fault::Limits, Fault::Orphan, Fault::Crash],
    &[Fault::Limits, Fault::Hang],
    &[Fault::SecondParent, Fault::Delay],
    &[Fault::SecondParent, Fault::Orphan],
    &[Fault::Duplicate, Fault::Delay, Fault::Restart],
    &[Fault::Duplicate, Fault::Link],
    &[Fault::Pause, Fault::Link],
    &[Fault::Pause, Fault::Crash],
    &[Fault::Announced, Fault::Orphan],
    &[Fault::Partition, Fault::Delay],
    &[Fault::Restart, Fault::Orphan, Fault::Hang],
    &[Fault::Fresh, Fault::Orphan, Fault::Partition],
    &[Fault::Hang, Fault::Fail, Fault::Callback],
    &[Fault::GiveUp, Fault::Twice, Fault::Delay],
    &[Fault::GiveUp, Fault::Fail, Fault::Twice],
    &[Fault::Fresh, Fault::SecondParent],
    &[Fault::Restart, Fault::SecondParent, Fault::Duplicate],
    &[Fault::Announced, Fault::Link],
    &[Fault::Fresh, Fault::Orphan, Fault::Delay],
    &[Fault::GiveUp, Fault::Callback, Fault::Orphan],
    &[Fault::Forged, Fault::Orphan],
    &[Fault::Forged, Fault::Crash, Fault::Delay],
    &[Fault::Close, Fault::GiveUp, Fault::Fail],
    &[Fault::Announced, Fault::Pause],
    &[Fault::Announced, Fault::Partition, Fault::Link],
    &[Fault::Announced, Fault::Restart],
    &[Fault::Pause, Fault::Slow, Fault::Partition],
    &[Fault::Link, Fault::Restart],
    &[Fault::Link, Fault::Fresh],
    &[Fault::GiveUp, Fault::Hang],
    &[Fault::Limits, Fault::Callback, Fault::Fail],
    &[Fault::Pause, Fault::Hang],
    &[Fault::Hang, Fault::Partition],
    &[Fault::Announced, Fault::Link, Fault::Restart],
    &[Fault::Limits, Fault::Orphan, Fault::Delay],
    &[Fault::Malformed, Fault::Fail, Fault::Callback],
    &[Fault::Malformed, Fault::Orphan],
    &[Fault::Malformed, Fault::Link, Fault::Limits],
];

/// The themes as sets.
pub(crate) fn themes() -> impl Iterator<Item = FaultSet> {
    THEMES.into_iter().map(|theme| theme.iter().copied().collect())
}

/// Offset of the seed of the stream that draws long replies. It is a stream of its own, so all other draws of a run are
/// the same with and without this fault.
pub(crate) const LONG_REPLY_STREAM: u64 = 0x6c6f_6e67_7265_706c;

/// One of this many runs has long replies, if other faults are allowed, too.
const LONG_REPLY_PARTS: u64 = 6;

/// Draws the faults of a run and its theme, if it has one. Up to two allowed faults are all used.
pub(crate) fn some_of(random: &mut Random, seed: u64, allowed: FaultSet) -> (FaultSet, Option<FaultSet>) {
    if allowed.iter().count() <= 2 {
        return (allowed, None);
    }
    let others = allowed.iter().filter(|fault| *fault != Fault::LongReply).collect();
    let (mut used, theme) = some_of_others(random, others);
    let is_long = Random::new(seed.wrapping_add(LONG_REPLY_STREAM)).chance(1, LONG_REPLY_PARTS);
    used.extend_with(Some(Fault::LongReply).filter(|fault| allowed.has(*fault) && is_long));
    (used, theme)
}

fn some_of_others(random: &mut Random, allowed: FaultSet) -> (FaultSet, Option<FaultSet>) {
    let all: Vec<Fault> = allowed.iter().collect();
    if all.len() <= 2 {
        return (allowed, None);
    }
    if random.chance(1, 2)
        && let Some(theme) = random.pick(&THEMES)
    {
        let of_theme = |fault: &Fault| theme.contains(fault) || random.chance(1, 16);
        let used: FaultSet = all.iter().copied().filter(of_theme).collect();
        if theme.iter().any(|fault| used.has(*fault)) {
            return (used, Some(theme.iter().copied().collect()));
        }
    }
    // With many faults few calls complete, and defects of complete calls stay hidden.
    let parts = *random.pick(&[4, 8, 16]).unwrap_or(&4);
    let mut used: FaultSet = all.iter().copied().filter(|_| random.chance(1, parts)).collect();
    used.extend_with(random.pick(&all).copied());
    (used, None)
}

impl FaultSet {
    fn extend_with(&mut self, fault: Option<Fault>) {
        fault.into_iter().for_each(|fault| self.insert(fault));
    }
}
