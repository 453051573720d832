//! The grammar of level-n data, written once: a state machine that every decoder drives.
//!
//! It stores no input. Each step takes bytes from the front of a chunk and returns at most one event, so a chunk may
//! end anywhere, even inside a count. It never recurses, because the peer chooses the depth of the data, and never
//! reserves memory for announced members.

use std::num::NonZero;

use smallvec::SmallVec;

use super::{LevelError, LevelErrorKind, MAX_LEVEL};

/// Number of open values with members to come that need no allocation: a binary tree of 65,536 processes has as many.
const OPEN_INLINE: usize = 16;

/// Limits of a decoder. The default accepts everything that the format can express.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Highest level. It bounds the decoder's memory: sixteen bytes for each level.
    pub level: u16,
    /// Largest sum of the counts of all values of level 1 and above, which is the number of all values except the
    /// outermost. `u64::MAX` means no limit. A count over the limit is rejected when it is read, before its members
    /// arrive.
    pub members: u64,
    /// Largest level-0 value, in bytes. `u64::MAX` means no limit. Rejected when its count is read, like `members`.
    pub leaf_bytes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { level: MAX_LEVEL, members: u64::MAX, leaf_bytes: u64::MAX }
    }
}

/// One step through level-n data that arrive in chunks.
///
/// A level-0 value is `LeafStart`, any number of `Piece`s whose lengths add up to `len` (none for an empty value), then
/// `LeafEnd`. A value of a higher level is `Open`, its `count` members, then `Close`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event<'a> {
    /// A value of `level` 1 or above begins.
    Open {
        /// Level of the value; its members are one level lower.
        level: u16,
        /// Number of members announced; they may be missing.
        count: u64,
    },
    /// A level-0 value begins.
    LeafStart {
        /// Number of bytes announced; they may be missing.
        len: u64,
    },
    /// The next bytes of the level-0 value, borrowed from the chunk; never empty.
    Piece(&'a [u8]),
    /// The level-0 value is complete.
    LeafEnd,
    /// The innermost open value is complete.
    Close,
}

/// A count that is partly read.
#[derive(Debug, Clone, Copy, Default)]
struct Count {
    value: u64,
    /// At most 20: leading zeros are rejected and 21 digits overflow.
    digits: u8,
}

#[derive(Debug, Clone)]
enum State {
    /// Reading the count that begins a value.
    Count(Count),
    /// Inside level-0 bytes, with `left` bytes still to come.
    Content { left: u64 },
    /// A value has just ended. If no value is open around it, the data are complete.
    Between,
    /// An error was found; every further step returns it.
    Failed(LevelError),
}

/// An open value with members that have not begun.
#[derive(Debug, Clone, Copy)]
struct Open {
    /// Number of open values up to and including this one.
    depth: u16,
    /// Number of its members that have not begun.
    left: NonZero<u64>,
}

/// The state machine.
#[derive(Debug, Clone)]
pub(super) struct Grammar {
    level: u16,
    limits: Limits,
    /// Bytes read so far.
    position: u64,
    /// Sum of the counts read so far, for [`Limits::members`].
    members: u64,
    /// Number of open values.
    depth: u16,
    /// The innermost open value with members that have not begun, if any. A lower value beside higher ones is lifted by
    /// values of one member each, so most open values have none left and many of them end together.
    inner: Option<Open>,
    /// The other open values with members that have not begun, outermost first.
    open: SmallVec<[Open; OPEN_INLINE]>,
    state: State,
}

impl Grammar {
    /// Returns the grammar for data of `level`. A level over the limit is reported by the first step.
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

    /// Bytes read so far.
    pub(super) fn position(&self) -> u64 {
        self.position
    }

    /// Whether the outermost value has ended.
    pub(super) fn is_complete(&self) -> bool {
        matches!(self.state, State::Between) && self.depth == 0
    }

    /// Takes bytes from the front of `input` up to the next event. Returns `None` when all of `input` is taken.
    ///
    /// Call it until it returns `None`, even if `input` is empty: the last byte may have ended several values.
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
                // The only branch that loops, and only once: the count of the next member follows.
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

    /// Returns the next level-0 value if it directly follows the previous one and its count is short; otherwise takes
    /// nothing. Most values qualify: in most data, all but the first.
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

    /// Returns the next level-0 value if it is complete in `input` and all counts in front of it are valid and short.
    /// Otherwise it takes only the valid part, and [`step`](Self::step) continues from there.
    ///
    /// Complete, small values need no events in between. Most callers read such data, one value for each process.
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

    /// Takes the next level-0 value and the counts of the values that begin with it. At an invalid, long or missing
    /// count, or an empty value, it stops after the counts before it.
    #[inline]
    fn walk_to_leaf<'a>(&mut self, input: &mut &'a [u8]) -> Option<&'a [u8]> {
        // Each iteration takes two bytes or more.
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
            // The first member begins here.
            let left = count.checked_sub(1)?;
            self.add_members(count)?;
            *input = rest;
            self.enter(left);
        }
        let (leaf, rest) = short_leaf(input, self.limits.leaf_bytes)?;
        *input = rest;
        Some(leaf)
    }

    /// Adds to the number of members, if the sum is within the limit.
    #[inline]
    fn add_members(&mut self, count: u64) -> Option<()> {
        let members = self.members.saturating_add(count);
        if members > self.limits.members {
            return None;
        }
        self.members = members;
        Some(())
    }

    /// Ends the open values without members left, and begins the next member of the value around them, whose count
    /// follows. Returns `None` if the outermost value has ended.
    #[inline]
    fn begin_next(&mut self) -> Option<()> {
        let inner = self.inner?;
        self.depth = inner.depth;
        self.take_member(inner);
        Some(())
    }

    /// Begins a member of the innermost open value that has members left.
    #[inline]
    fn take_member(&mut self, inner: Open) {
        self.inner = match NonZero::new(inner.left.get() - 1) {
            Some(left) => Some(Open { left, ..inner }),
            None => self.open.pop(),
        };
    }

    /// Opens a value with `left` members after its first one.
    #[inline]
    fn enter(&mut self, left: u64) {
        self.depth += 1;
        if let Some(left) = NonZero::new(left)
            && let Some(around) = self.inner.replace(Open { depth: self.depth, left })
        {
            self.open.push(around);
        }
    }

    /// Number of members of the innermost open value that have not begun.
    fn innermost_left(&self) -> u64 {
        self.inner.filter(|inner| inner.depth == self.depth).map_or(0, |inner| inner.left.get())
    }

    /// Whether the outermost value ends in front of `input`, and `input` is empty.
    pub(super) fn ends(&self, input: &[u8]) -> bool {
        matches!(self.state, State::Between) && input.is_empty() && self.inner.is_none()
    }

    /// Call after the last step: checks that the input ended with the outermost value.
    pub(super) fn finish(&self) -> Result<(), LevelError> {
        let kind = match self.state {
            State::Between if self.depth == 0 => return Ok(()),
            State::Failed(error) => return Err(error),
            State::Count(Count { digits: 1.., .. }) => LevelErrorKind::CountCut,
            State::Content { left } => LevelErrorKind::LeafCut { missing: left },
            State::Count(_) | State::Between if self.depth == 0 => LevelErrorKind::Empty,
            // The member whose count is missing has already been subtracted.
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

    /// Begins the value whose count started at `start` and has been read, including its space.
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
        // A count over `usize::MAX` exceeds the length of the chunk.
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

/// Maximum number of digits of a count on the fast path: more than contiguous data have.
const SHORT_DIGITS: usize = 9;

/// Returns the count at the start of `bytes`, and the bytes after its space; `None` if it is incomplete, invalid or
/// long.
#[inline]
fn short_count(bytes: &[u8]) -> Option<(usize, &[u8])> {
    // Most counts have one or two digits.
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

/// Number of counts of one, at most four, at the start of `bytes`. Such counts lift a low value to a higher level.
///
/// The run ends at the lowest bit that differs; a count and its space are sixteen bits.
#[inline]
fn ones(bytes: &[u8]) -> u16 {
    const FOUR: u64 = u64::from_le_bytes(*b"1 1 1 1 ");
    match bytes.first_chunk::<8>() {
        Some(first) => ((u64::from_le_bytes(*first) ^ FOUR).trailing_zeros() / 16) as u16,
        None => u16::from(bytes.starts_with(b"1 ")),
    }
}

/// Returns the content of a level-0 value that fills `bytes`; `None` if they are anything else, or the count is long.
#[inline]
pub(crate) fn whole_leaf(bytes: &[u8]) -> Option<&[u8]> {
    short_leaf(bytes, u64::MAX).filter(|(_, rest)| rest.is_empty()).map(|(leaf, _)| leaf)
}

/// Returns the level-0 value at the start of `bytes`, and the bytes after it; `None` if it is incomplete, invalid, or
/// longer than `most`.
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
