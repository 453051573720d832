//! Level-n data: read by every decoder and by a plain one, printed again, and aggregated from parts.
//!
//! Input: a byte of options (how many cuts, and the constants below) and the cuts; then a level and the data, or the
//! parts to aggregate.

use bytes::Bytes;
use chained_gpc::wire::level::{
    Event, Leaves, LevelError, Leveled, Limits, StreamDecoder, Token, Tokens, aggregate, validate,
};

use super::input::{Input, pieces};
use super::memory;

/// Data are aggregated, not read.
const BUILD: u8 = 8;
/// Limits precede the level.
const LIMITED: u8 = 16;

/// Maximum number of bytes that a decoder may hold for each byte read. An open value takes two bytes of data and
/// sixteen of memory, in a vector that doubles and exists twice while it grows.
const HELD_PER_BYTE: usize = 32;

/// Reads level-n data, or aggregates them.
pub fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let options = input.byte();
    let cuts = input.cuts(options);
    if options & BUILD != 0 {
        return put_together(&mut input);
    }
    let limits = match options & LIMITED {
        0 => Limits::default(),
        _ => Limits {
            level: input.byte().into(),
            members: input.byte().into(),
            leaf_bytes: input.byte().into(),
        },
    };
    let level = level(&mut input);
    read(level, input.rest(), limits, &cuts);
}

/// Returns a level: usually a low one, and now and then one near the maximum.
fn level(input: &mut Input<'_>) -> u16 {
    match input.byte() {
        255 => input.word(),
        low => low.into(),
    }
}

fn read(level: u16, data: &[u8], limits: Limits, cuts: &[usize]) {
    let whole: Result<Vec<Token<'_>>, LevelError> = Tokens::new(level, data, limits).collect();
    let streamed = stream(level, data, limits, cuts);
    let leaves: Result<Vec<&[u8]>, LevelError> = Leaves::new(level, data, limits).collect();
    let valid = memory::bounded(data.len(), HELD_PER_BYTE, || validate(level, data, limits));
    let tokens = match whole {
        Ok(tokens) => tokens,
        Err(error) => {
            assert_eq!((streamed.err(), leaves.err(), valid.err()), (Some(error), Some(error), Some(error)));
            assert!(error.position <= data.len() as u64 && !error.to_string().is_empty(), "{error}");
            return assert!(!fits(by_the_format(level, data).as_deref(), level, limits), "{error}");
        }
    };
    assert!(fits(by_the_format(level, data).as_deref(), level, limits), "{tokens:?}");
    assert_eq!(Some(&tokens), by_the_format(level, data).as_ref());
    let (printed, of_stream) = (print(&tokens), streamed.expect("the same data, the same limits"));
    assert_eq!((&printed[..], &of_stream[..]), (data, data));
    let expected: Vec<&[u8]> = tokens
        .iter()
        .filter_map(|token| match token {
            Token::Leaf(leaf) => Some(*leaf),
            Token::Open { .. } | Token::Close => None,
        })
        .collect();
    assert_eq!(leaves.as_ref(), Ok(&expected));
    assert_eq!(valid, Ok(expected.len() as u64));
}

/// Prints the data from the events of a decoder that gets them in pieces.
fn stream(level: u16, data: &[u8], limits: Limits, cuts: &[usize]) -> Result<Vec<u8>, LevelError> {
    let (mut decoder, mut printed) = (StreamDecoder::new(level, limits), Vec::new());
    let mut sink = |event: Event<'_>| match event {
        Event::Open { count, .. } | Event::LeafStart { len: count } => {
            printed.extend_from_slice(format!("{count} ").as_bytes());
        }
        Event::Piece(bytes) => printed.extend_from_slice(bytes),
        Event::LeafEnd | Event::Close => {}
    };
    let fed = pieces(data, cuts).try_for_each(|piece| decoder.feed(piece, &mut sink));
    if fed.is_ok() {
        assert_eq!(decoder.position(), data.len() as u64);
    }
    let complete = decoder.is_complete();
    let finished = decoder.finish();
    assert_eq!(complete, finished.is_ok());
    assert!(fed.is_ok() || fed == finished, "an error is given again");
    finished.map(|()| printed)
}

/// Returns the tokens of the data according to the two rules of the format; `None` if the data break them.
fn by_the_format(level: u16, data: &[u8]) -> Option<Vec<Token<'_>>> {
    let (mut tokens, mut rest) = (Vec::new(), data);
    // Number of members that each open value still has, the outermost first.
    let mut open: Vec<u64> = Vec::new();
    loop {
        let space = rest.iter().position(|byte| *byte == b' ')?;
        let digits = std::str::from_utf8(&rest[..space]).ok()?;
        let count: u64 = digits.parse().ok().filter(|count: &u64| count.to_string() == digits)?;
        rest = &rest[space + 1..];
        let here = level - open.len() as u16;
        match here {
            0 => {
                let (leaf, after) = rest.split_at_checked(usize::try_from(count).ok()?)?;
                tokens.push(Token::Leaf(leaf));
                rest = after;
            }
            _ => {
                tokens.push(Token::Open { level: here, count });
                open.push(count);
            }
        }
        while open.pop_if(|left| *left == 0).is_some() {
            tokens.push(Token::Close);
        }
        match open.last_mut() {
            None => return rest.is_empty().then_some(tokens),
            Some(left) => *left -= 1,
        }
    }
}

/// Whether there are tokens, and all of them are within the limits.
fn fits(tokens: Option<&[Token<'_>]>, level: u16, limits: Limits) -> bool {
    let Some(tokens) = tokens else { return false };
    let mut members = 0u64;
    for token in tokens {
        match token {
            Token::Open { count, .. } => members = members.saturating_add(*count),
            Token::Leaf(leaf) if leaf.len() as u64 > limits.leaf_bytes => return false,
            Token::Leaf(_) | Token::Close => {}
        }
    }
    level <= limits.level && members <= limits.members
}

fn print(tokens: &[Token<'_>]) -> Vec<u8> {
    let mut printed = Vec::new();
    for token in tokens {
        match token {
            Token::Open { count, .. } => printed.extend_from_slice(format!("{count} ").as_bytes()),
            Token::Leaf(leaf) => {
                printed.extend_from_slice(format!("{} ", leaf.len()).as_bytes());
                printed.extend_from_slice(leaf);
            }
            Token::Close => {}
        }
    }
    printed
}

/// Maximum number of bytes of long leaves that one input may make: enough for parts that are passed on by reference,
/// few enough to be quick.
const LONG_MAX: usize = 12 << 10;

/// Maximum level, and number of parts, that one input may make: each part is lifted by two bytes a level, and all of it
/// is read several times.
const HIGH: u16 = 40;
const PARTS: usize = 300;

/// An aggregate, and the leaves that it must have.
struct Built {
    leveled: Leveled,
    leaves: Vec<Bytes>,
}

/// Makes leaves and aggregates them, the last few at a time, and in the end all that are left.
fn put_together(input: &mut Input<'_>) {
    let (mut stack, mut long): (Vec<Built>, usize) = (Vec::new(), 0);
    for _ in 0..PARTS {
        if input.is_empty() {
            break;
        }
        let deed = input.byte();
        let own = match deed & 3 {
            0 => None,
            1 => Some(Bytes::new()),
            2 => Some(Bytes::copy_from_slice(input.bytes(usize::from(deed >> 4)))),
            _ if long > LONG_MAX => Some(Bytes::new()),
            _ => Some(input.bytes(1).repeat(1 + usize::from(input.byte()) * 64).into()),
        };
        long += own.as_ref().map_or(0, Bytes::len);
        let most = usize::from(deed >> 2 & 3);
        let children = stack.split_off(stack.len().saturating_sub(most));
        stack.push(aggregated(own, children));
        if stack.last().is_some_and(|built| built.leveled.level > HIGH) {
            break;
        }
    }
    let all = aggregated(None, stack);
    let data = all.leveled.data.to_bytes();
    assert_eq!(data.len(), all.leveled.data.len());
    assert!(all.leveled.data.parts().all(|part| !part.is_empty()));
    let leaves: Result<Vec<&[u8]>, LevelError> =
        Leaves::new(all.leveled.level, &data, Limits::default()).collect();
    assert_eq!(leaves.expect("an aggregate is level-n data"), all.leaves);
    read(all.leveled.level, &data, Limits::default(), &[1000]);
}

fn aggregated(own: Option<Bytes>, children: Vec<Built>) -> Built {
    let own_leaf = own.clone();
    let (leveled, below): (Vec<Leveled>, Vec<Vec<Bytes>>) =
        children.into_iter().map(|built| (built.leveled, built.leaves)).unzip();
    let level = match (leveled.iter().map(|child| child.level).max(), &own) {
        (Some(highest), _) => highest + 1,
        (None, Some(_)) => 0,
        (None, None) => 1,
    };
    let leveled = aggregate(own, &leveled).expect("far below the highest level");
    assert_eq!(leveled.level, level);
    Built { leveled, leaves: own_leaf.into_iter().chain(below.into_iter().flatten()).collect() }
}
