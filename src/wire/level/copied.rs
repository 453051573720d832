//! Small aggregates, written straight to where they leave.

use bytes::BufMut;

use super::MAX_LEVEL;
use super::encode::{count, count_bytes, lift};

/// Highest level of a member that is lifted here: what lifts it by more is no small part any more.
const HIGHEST: u16 = 1_024;

/// An aggregate whose every part is copied: a process's own data, if it contributes, and its children's behind them.
#[derive(Clone, Copy, Debug)]
pub struct Copied<'a, I> {
    own: Option<&'a [u8]>,
    children: I,
    members: usize,
    /// The highest level of a child; none without children.
    highest: Option<u16>,
}

impl<'a, I: Iterator<Item = (u16, &'a [u8])> + Clone> Copied<'a, I> {
    /// The aggregate of these, each child's with its level; none if a level is too high for small parts.
    pub fn new(own: Option<&'a [u8]>, children: I) -> Option<Copied<'a, I>> {
        let (mut members, mut highest) = (usize::from(own.is_some()), None);
        for (level, _) in children.clone() {
            members += 1;
            highest = highest.max(Some(level));
        }
        let small = highest.is_none_or(|highest| highest <= HIGHEST);
        small.then_some(Copied { own, children, members, highest })
    }

    /// Its level.
    pub fn level(&self) -> u16 {
        const { assert!(HIGHEST < MAX_LEVEL, "there is a level above") };
        match (self.highest, self.own) {
            (Some(highest), _) => highest + 1,
            (None, Some(_)) => 0,
            (None, None) => 1,
        }
    }

    /// Its bytes.
    pub fn length(&self) -> usize {
        let lifted = |level: u16| usize::from(self.highest.unwrap_or(0) - level) * 2;
        let own = self.own.map_or(0, |own| lifted(0) + count_bytes(own.len()) + own.len());
        let children = self.children.clone().map(|(level, data)| lifted(level) + data.len());
        self.counted() + own + children.sum::<usize>()
    }

    /// Bytes of the count in front; data of level 0 have none.
    fn counted(&self) -> usize {
        if self.level() == 0 { 0 } else { count_bytes(self.members) }
    }

    /// Appends them.
    pub fn emit(&self, out: &mut impl BufMut) {
        let highest = self.highest.unwrap_or(0);
        if self.level() > 0 {
            count(out, self.members);
        }
        if let Some(own) = self.own {
            lift(out, highest);
            count(out, own.len());
            out.put_slice(own);
        }
        for (level, data) in self.children.clone() {
            lift(out, highest - level);
            out.put_slice(data);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::wire::Payload;
    use crate::wire::level::aggregate_parts;

    proptest! {
        /// Small or not, an aggregate is the same.
        #[test]
        fn it_is_what_the_other_way_makes(
            own in prop::option::of(prop::collection::vec(any::<u8>(), 0..30)),
            children in prop::collection::vec((0u16..1_024, prop::collection::vec(any::<u8>(), 0..30)), 0..6),
        ) {
            let slices = children.iter().map(|(level, data)| (*level, &data[..]));
            let copied = Copied::new(own.as_deref(), slices).unwrap();
            let mut bytes = Vec::new();
            copied.emit(&mut bytes);
            let payloads: Vec<Payload> = children.iter().map(|(_, data)| data.clone().into()).collect();
            let parts = children.iter().map(|(level, _)| *level).zip(&payloads);
            let expected = aggregate_parts(own.clone(), parts).unwrap();
            prop_assert_eq!((copied.level(), copied.length()), (expected.level, bytes.len()));
            prop_assert_eq!(&expected.data.to_bytes()[..], &bytes[..]);
        }
    }

    #[test]
    fn what_is_too_high_is_no_small_part() {
        assert!(Copied::new(None, [(1_025u16, &b"x"[..])].into_iter()).is_none());
    }
}
