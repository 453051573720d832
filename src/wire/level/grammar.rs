//! The grammar of level-n data, written once: a state machine that every decoder drives.
//!
//! It holds no input. Each step takes what it can from the front of a chunk and gives back at most one event, so a
//! chunk may end anywhere, inside a count as well as inside bytes. It must never recurse (the depth of the data is
//! the peer's choice) and never reserve memory for what a count promises.

use std::num::NonZero;

use smallvec::SmallVec;

use super::{LevelError, LevelErrorKind, MAX_LEVEL};

/// Open values with members to come that are held without an allocation: a binary tree of 65,536 processes has as many.
const OPEN_INLINE: usize = 16;

/// What a decoder accepts. The default accepts all the format can say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Highest level. Bounds the decoder's memory to sixteen bytes for each.
    pub level: u16,
    /// Largest sum of the counts of all values of level 1 and above, that is, the number of all values but the
    /// outermost. `u64::MAX` is no limit. A count over it is refused when it is read, before its members come.
    pub members: u64,
    /// Largest level-0 value, in bytes. `u64::MAX` is no limit. Refused when the count is read, like `members`.
    pub leaf_bytes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { level: MAX_LEVEL, members: u64::MAX, leaf_bytes: u64::MAX }
    }
}

/// One step through level-n data that arrive in chunks.
///
/// Shape: a level-0 value is `LeafStart`, any number of `Piece`s whose lengths add up to `len` (none for an empty
/// value), `LeafEnd`. A value of a higher level is `Open`, its `count` members, `Close`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event<'a> {
    /// A value of `level` 1 or above begins.
    Open {
        /// Its level; the members are one lower.
        level: u16,
        /// How many members it says it has: a promise, not yet kept.
        count: u64,
    },
    /// A level-0 value begins.
    LeafStart {
        /// How many bytes it says it has: a promise, not yet kept.
        len: u64,
    },
    /// The next bytes of the level-0 value, borrowed from the chunk; never empty.
    Piece(&'a [u8]),
    /// The level-0 value is complete.
    LeafEnd,
    /// The innermost open value is complete.
    Close,
}

/// A count of which some digits have been read.
#[derive(Debug, Clone, Copy, Default)]
struct Count {
    value: u64,
    /// At most 20: leading zeros are refused and 21 digits overflow.
    digits: u8,
}

#[derive(Debug, Clone)]
enum State {
    /// Reading the count that begins a value.
    Count(Count),
    /// Inside level-0 bytes, of which `left` are still to come.
    Content { left: u64 },
    /// A value has just ended. With no value open around it, all is complete.
    Between,
    /// An error was found; it is given again for ever.
    Failed(LevelError),
}

/// An open value with members that have not begun.
#[derive(Debug, Clone, Copy)]
struct Open {
    /// How many values are open with it, itself and those around it.
    depth: u16,
    /// Its members that have not begun.
    left: NonZero<u64>,
}

/// The state machine.
#[derive(Debug, Clone)]
pub(super) struct Grammar {
    level: u16,
    limits: Limits,
    /// Bytes taken so far.
    position: u64,
    /// Sum of the counts read so far, for [`Limits::members`].
    members: u64,
    /// How many values are open.
    depth: u16,
    /// The innermost of them with members that have not begun, if there is one. A value that is lower than those beside it is the only member of others, up to their level, so that most open values
    /// have none, and the end of many is the end of one.
    inner: Option<Open>,
    /// The others of that kind, outermost first.
    open: SmallVec<[Open; OPEN_INLINE]>,
    state: State,
}

impl Grammar {
    /// Ready for the first byte of data of `level`. A level over the limit is reported by the first step.
    pub(super) fn new(level: u16, limits: Limits) -> Self {
        let mut grammar = Self {
            level,
            limits,
            position: 0,
            members: 0,
            depth: 0,
            inner: None,
            open: SmallVec::new(),
            state: State::Count(Count::default()),
        };
        if level > limits.level {
            grammar.fail_at(0, LevelErrorKind::LevelOverLimit { level, limit: limits.level });
        }
        grammar
    }

    /// Bytes taken so far.
    pub(super) fn position(&self) -> u64 {
        self.position
    }

    /// Whether the outermost value has ended.
    pub(super) fn is_complete(&self) -> bool {
        matches!(self.state, State::Between) && self.depth == 0
    }

    /// Takes bytes from the front of `input` up to the next event; `None` when all of `input` is taken.
    ///
    /// Call again until `None`, also with nothing left: the last byte may have ended several values.
    pub(super) fn step<'a>(&mut self, input: &mut &'a [u8]) -> Result<Option<Event<'a>>, LevelError> {
        loop {
            match self.state {
                State::Count(count) => return self.read_count(count, input),
                State::Content { left } => return Ok(self.read_content(left, input)),
                State::Failed(error) => return Err(error),
                State::Between if self.depth == 0 && input.is_empty() => return Ok(None),
                State::Between if self.depth == 0 => {
                    return Err(self.fail_at(self.position, LevelErrorKind::LeftOver));
                }
                // The only way round the loop, and once: the next member's count comes.
                State::Between if self.innermost_left() > 0 => {
                    self.begin_next();
                    self.state = State::Count(Count::default());
                }
                State::Between => {
                    self.depth -= 1;
                    return Ok(Some(Event::Close));
                }
            }
        }
    }

    /// The next level-0 value, if it lies beside the one before and its count is short; else nothing is taken. Most do, and of most data all but the first.
    #[inline]
    pub(super) fn leaf_beside<'a>(&mut self, input: &mut &'a [u8]) -> Option<&'a [u8]> {
        if !matches!(self.state, State::Between) {
            return None;
        }
        let inner = self.inner.filter(|inner| inner.depth == self.level)?;
        let (leaf, rest) = short_leaf(input, self.limits.leaf_bytes)?;
        self.take_member(inner);
        self.position += (input.len() - rest.len()) as u64;
        *input = rest;
        Some(leaf)
    }

    /// The next level-0 value, if it lies whole in `input` and nothing on the way to it is wrong or long; else nothing more is taken than what was right, and [`step`](Self::step) goes on from there.
    ///
    /// What is whole and small needs no events in between: this is what most callers read, once for each process.
    #[inline(never)]
    pub(super) fn leaf<'a>(&mut self, input: &mut &'a [u8]) -> Option<&'a [u8]> {
        if matches!(self.state, State::Between) {
            self.begin_next()?;
        } else if !matches!(self.state, State::Count(Count { digits: 0, .. })) {
            return None;
        }
        let before = input.len();
        let leaf = self.walk_to_leaf(input);
        self.position += (before - input.len()) as u64;
        self.state = match leaf {
            Some(_) => State::Between,
            None => State::Count(Count::default()),
        };
        leaf
    }

    /// Takes the counts of the values that the next level-0 value is the first in, and itself. Where one is wrong or long or not there, or nothing is in a value, all before it have been taken.
    #[inline]
    fn walk_to_leaf<'a>(&mut self, input: &mut &'a [u8]) -> Option<&'a [u8]> {
        // Each round takes two bytes or more.
        while self.depth < self.level {
            let ones = ones(input).min(self.level - self.depth);
            if ones > 0 {
                self.add_members(u64::from(ones))?;
                *input = &input[2 * usize::from(ones)..];
                self.depth += ones;
                continue;
            }
            let (count, rest) = short_count(input)?;
            let count = count as u64;
            // The first of its members begins.
            let left = count.checked_sub(1)?;
            self.add_members(count)?;
            *input = rest;
            self.enter(left);
        }
        let (leaf, rest) = short_leaf(input, self.limits.leaf_bytes)?;
        *input = rest;
        Some(leaf)
    }

    /// Counts members in, if they are within the limit.
    #[inline]
    fn add_members(&mut self, count: u64) -> Option<()> {
        let members = self.members.saturating_add(count);
        if members > self.limits.members {
            return None;
        }
        self.members = members;
        Some(())
    }

    /// Ends the open values that have no member left, and begins the next member of the one around them, whose count comes now; none if that was the last.
    #[inline]
    fn begin_next(&mut self) -> Option<()> {
        let inner = self.inner?;
        self.depth = inner.depth;
        self.take_member(inner);
        Some(())
    }

    /// A member of the innermost open value that has any begins.
    #[inline]
    fn take_member(&mut self, inner: Open) {
        self.inner = match NonZero::new(inner.left.get() - 1) {
            Some(left) => Some(Open { left, ..inner }),
            None => self.open.pop(),
        };
    }

    /// A value begins around what comes, with so many members to come after the one that comes first, if any does.
    #[inline]
    fn enter(&mut self, left: u64) {
        self.depth += 1;
        if let Some(left) = NonZero::new(left)
            && let Some(around) = self.inner.replace(Open { depth: self.depth, left })
        {
            self.open.push(around);
        }
    }

    /// Members of the innermost open value that have not begun.
    fn innermost_left(&self) -> u64 {
        self.inner.filter(|inner| inner.depth == self.depth).map_or(0, |inner| inner.left.get())
    }

    /// Whether the outermost value ends in front of `input`, and nothing follows.
    pub(super) fn ends(&self, input: &[u8]) -> bool {
        matches!(self.state, State::Between) && input.is_empty() && self.inner.is_none()
    }

    /// After the last step: whether the input ended where the outermost value does.
    pub(super) fn finish(&self) -> Result<(), LevelError> {
        let kind = match self.state {
            State::Between if self.depth == 0 => return Ok(()),
            State::Failed(error) => return Err(error),
            State::Count(Count { digits: 1.., .. }) => LevelErrorKind::CountCut,
            State::Content { left } => LevelErrorKind::LeafCut { missing: left },
            State::Count(_) | State::Between if self.depth == 0 => LevelErrorKind::Empty,
            // The member whose count was awaited has been taken off already.
            State::Count(_) | State::Between => {
                let missing = self.innermost_left() + 1;
                LevelErrorKind::MembersMissing { level: self.next_level() + 1, missing }
            }
        };
        Err(LevelError { position: self.position, kind })
    }

    /// The level of the value that begins next, or whose count is being read.
    fn next_level(&self) -> u16 {
        self.level - self.depth
    }

    fn read_count<'a>(
        &mut self,
        mut count: Count,
        input: &mut &'a [u8],
    ) -> Result<Option<Event<'a>>, LevelError> {
        while let Some((&byte, rest)) = input.split_first() {
            let start = self.position - u64::from(count.digits);
            match (byte, count.digits) {
                (b'0'..=b'9', _) => count = self.add_digit(count, byte - b'0', start)?,
                (b' ', 1..) => {
                    *input = rest;
                    self.position += 1;
                    return self.begin_value(count.value, start).map(Some);
                }
                (b' ', 0) => return Err(self.fail_at(start, LevelErrorKind::EmptyCount)),
                (b'+' | b'-', 0) => return Err(self.fail_at(start, LevelErrorKind::Sign { found: byte })),
                (_, 0) => return Err(self.fail_at(start, LevelErrorKind::NotADigit { found: byte })),
                _ => return Err(self.fail_at(self.position, LevelErrorKind::MissingSpace { found: byte })),
            }
            *input = rest;
            self.position += 1;
        }
        self.state = State::Count(count);
        Ok(None)
    }

    fn add_digit(&mut self, count: Count, digit: u8, start: u64) -> Result<Count, LevelError> {
        if count.digits > 0 && count.value == 0 {
            return Err(self.fail_at(start, LevelErrorKind::LeadingZero));
        }
        let value = count.value.checked_mul(10).and_then(|value| value.checked_add(u64::from(digit)));
        match value {
            Some(value) => Ok(Count { value, digits: count.digits + 1 }),
            None => Err(self.fail_at(start, LevelErrorKind::CountOverflow)),
        }
    }

    /// A count that began at `start` has been read, with its space.
    fn begin_value(&mut self, count: u64, start: u64) -> Result<Event<'static>, LevelError> {
        let level = self.next_level();
        if level == 0 {
            let limit = self.limits.leaf_bytes;
            if count > limit {
                return Err(self.fail_at(start, LevelErrorKind::LeafOverLimit { len: count, limit }));
            }
            self.state = State::Content { left: count };
            return Ok(Event::LeafStart { len: count });
        }
        let limit = self.limits.members;
        self.members = self.members.saturating_add(count);
        if self.members > limit {
            let members = self.members;
            return Err(self.fail_at(start, LevelErrorKind::MembersOverLimit { members, limit }));
        }
        self.enter(count);
        self.state = State::Between;
        Ok(Event::Open { level, count })
    }

    fn read_content<'a>(&mut self, left: u64, input: &mut &'a [u8]) -> Option<Event<'a>> {
        if left == 0 {
            self.state = State::Between;
            return Some(Event::LeafEnd);
        }
        if input.is_empty() {
            return None;
        }
        // More than a `usize` holds is more than the chunk holds.
        let cut = usize::try_from(left).map_or(input.len(), |left| left.min(input.len()));
        let (piece, rest) = input.split_at(cut);
        *input = rest;
        self.position += cut as u64;
        self.state = State::Content { left: left - cut as u64 };
        Some(Event::Piece(piece))
    }

    fn fail_at(&mut self, position: u64, kind: LevelErrorKind) -> LevelError {
        let error = LevelError { position, kind };
        self.state = State::Failed(error);
        error
    }
}

/// Digits of a count that is read at once: more than data have that lie in one piece.
const SHORT_DIGITS: usize = 9;

/// The count at the start of some bytes, and what follows its space; none if it is not there whole, or wrong, or long.
#[inline]
fn short_count(bytes: &[u8]) -> Option<(usize, &[u8])> {
    // Most have a digit or two.
    match *bytes {
        [one @ b'0'..=b'9', b' ', ref rest @ ..] => return Some((usize::from(one - b'0'), rest)),
        [ten @ b'1'..=b'9', one @ b'0'..=b'9', b' ', ref rest @ ..] => {
            return Some((usize::from(ten - b'0') * 10 + usize::from(one - b'0'), rest));
        }
        _ => {}
    }
    let first = bytes.first()?.wrapping_sub(b'0');
    if first > 9 {
        return None;
    }
    let mut count = usize::from(first);
    for at in 1..=SHORT_DIGITS {
        match *bytes.get(at)? {
            b' ' => return Some((count, &bytes[at + 1..])),
            digit @ b'0'..=b'9' if count > 0 => count = count * 10 + usize::from(digit - b'0'),
            _ => return None,
        }
    }
    None
}

/// How many counts of one the bytes begin with, of the first four: what makes a low value one of a higher level.
///
/// A run of them ends at the lowest bit that is another: a count and its space are sixteen.
#[inline]
fn ones(bytes: &[u8]) -> u16 {
    const FOUR: u64 = u64::from_le_bytes(*b"1 1 1 1 ");
    match bytes.first_chunk::<8>() {
        Some(first) => ((u64::from_le_bytes(*first) ^ FOUR).trailing_zeros() / 16) as u16,
        None => u16::from(bytes.starts_with(b"1 ")),
    }
}

/// The content of a level-0 value that is all of some bytes; none if they are something else, or its count is long.
#[inline]
pub(crate) fn whole_leaf(bytes: &[u8]) -> Option<&[u8]> {
    short_leaf(bytes, u64::MAX).filter(|(_, rest)| rest.is_empty()).map(|(leaf, _)| leaf)
}

/// The level-0 value at the start of some bytes, and what follows it; none if it is not there whole, or wrong, or longer than this.
#[inline]
fn short_leaf(bytes: &[u8], most: u64) -> Option<(&[u8], &[u8])> {
    let (count, rest) = short_count(bytes)?;
    rest.split_at_checked(count).filter(|_| count as u64 <= most)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_promised_count_reserves_nothing() {
        let levels = OPEN_INLINE + 1;
        let mut grammar = Grammar::new(levels as u16, Limits::default());
        let input = "1000000000000000000 ".repeat(levels);
        let mut rest = input.as_bytes();
        while grammar.step(&mut rest).unwrap().is_some() {}
        assert_eq!(grammar.open.len(), OPEN_INLINE);
        assert!(!grammar.open.spilled());
    }

    #[test]
    fn an_error_is_given_again() {
        let mut grammar = Grammar::new(0, Limits::default());
        let first = grammar.step(&mut &b"x"[..]).unwrap_err();
        assert_eq!(grammar.step(&mut &b"0 "[..]), Err(first));
        assert_eq!(grammar.finish(), Err(first));
        assert!(!grammar.is_complete());
    }
}
