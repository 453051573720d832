//! Tests of the codec against a model: a recursive parser and printer, without regard to memory or depth.

use bytes::Bytes;
use proptest::prelude::*;

use super::*;
use crate::wire::payload::Payload;

/// A value as level-n data encode it. All leaves are equally deep.
#[derive(Debug, Clone, PartialEq)]
enum Value {
    Leaf(Vec<u8>),
    Members(Vec<Value>),
}

impl Value {
    fn print(&self, out: &mut Vec<u8>) {
        match self {
            Value::Leaf(bytes) => {
                out.extend(format!("{} ", bytes.len()).bytes());
                out.extend(bytes);
            }
            Value::Members(members) => {
                out.extend(format!("{} ", members.len()).bytes());
                members.iter().for_each(|member| member.print(out));
            }
        }
    }

    fn printed(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.print(&mut out);
        out
    }

    fn tokens<'a>(&'a self, level: u16, out: &mut Vec<Token<'a>>) {
        match self {
            Value::Leaf(bytes) => out.push(Token::Leaf(bytes)),
            Value::Members(members) => {
                out.push(Token::Open { level, count: members.len() as u64 });
                members.iter().for_each(|member| member.tokens(level - 1, out));
                out.push(Token::Close);
            }
        }
    }

    fn leaves(&self) -> Vec<&[u8]> {
        match self {
            Value::Leaf(bytes) => vec![bytes],
            Value::Members(members) => members.iter().flat_map(Value::leaves).collect(),
        }
    }
}

/// Model of the decoder: recursive descent over complete data.
struct Model<'a> {
    data: &'a [u8],
    at: usize,
    limits: Limits,
    members: u64,
    tokens: Vec<Token<'a>>,
}

type Outcome<'a> = (Vec<Token<'a>>, Result<(), LevelError>);

impl<'a> Model<'a> {
    fn decode(level: u16, data: &'a [u8], limits: Limits) -> Outcome<'a> {
        let mut model = Model { data, at: 0, limits, members: 0, tokens: Vec::new() };
        let mut result = if level > limits.level {
            model.error(0, LevelErrorKind::LevelOverLimit { level, limit: limits.level })
        } else {
            model.value(level, LevelErrorKind::Empty)
        };
        if result.is_ok() && model.at < data.len() {
            result = model.error(model.at, LevelErrorKind::LeftOver);
        }
        (model.tokens, result)
    }

    fn error<T>(&self, at: usize, kind: LevelErrorKind) -> Result<T, LevelError> {
        Err(LevelError { position: at as u64, kind })
    }

    /// `at_end` is the error if the input ends before the value.
    fn value(&mut self, level: u16, at_end: LevelErrorKind) -> Result<(), LevelError> {
        if self.at == self.data.len() {
            return self.error(self.at, at_end);
        }
        let start = self.at;
        let count = self.count()?;
        if level == 0 {
            return self.leaf(start, count);
        }
        let (members, limit) = (self.members.saturating_add(count), self.limits.members);
        if members > limit {
            return self.error(start, LevelErrorKind::MembersOverLimit { members, limit });
        }
        self.members = members;
        self.tokens.push(Token::Open { level, count });
        for begun in 0..count {
            self.value(level - 1, LevelErrorKind::MembersMissing { level, missing: count - begun })?;
        }
        self.tokens.push(Token::Close);
        Ok(())
    }

    fn leaf(&mut self, start: usize, len: u64) -> Result<(), LevelError> {
        let limit = self.limits.leaf_bytes;
        if len > limit {
            return self.error(start, LevelErrorKind::LeafOverLimit { len, limit });
        }
        let there = &self.data[self.at..];
        if len > there.len() as u64 {
            return self
                .error(self.data.len(), LevelErrorKind::LeafCut { missing: len - there.len() as u64 });
        }
        self.tokens.push(Token::Leaf(&there[..len as usize]));
        self.at += len as usize;
        Ok(())
    }

    fn count(&mut self) -> Result<u64, LevelError> {
        let rest = &self.data[self.at..];
        let len = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let digits = std::str::from_utf8(&rest[..len]).unwrap();
        if len > 1 && digits.starts_with('0') {
            return self.error(self.at, LevelErrorKind::LeadingZero);
        }
        if len > 0 && digits.parse::<u64>().is_err() {
            return self.error(self.at, LevelErrorKind::CountOverflow);
        }
        let end = self.at + len;
        let kind = match (len, rest.get(len)) {
            (0, Some(b' ')) => LevelErrorKind::EmptyCount,
            (0, Some(&found @ (b'+' | b'-'))) => LevelErrorKind::Sign { found },
            (0, Some(&found)) => LevelErrorKind::NotADigit { found },
            (_, None) => LevelErrorKind::CountCut,
            (_, Some(b' ')) => {
                self.at = end + 1;
                return Ok(digits.parse().unwrap());
            }
            (_, Some(&found)) => LevelErrorKind::MissingSpace { found },
        };
        self.error(end, kind)
    }
}

/// Decodes `data` with the borrowing decoder.
fn borrowed(level: u16, data: &[u8], limits: Limits) -> Outcome<'_> {
    let mut tokens = Vec::new();
    let mut walk = Tokens::new(level, data, limits);
    for token in &mut walk {
        match token {
            Ok(token) => tokens.push(token),
            Err(error) => {
                assert_eq!(walk.next(), None, "a walk ends after its error");
                return (tokens, Err(error));
            }
        }
    }
    (tokens, Ok(()))
}

/// Output of the streaming decoder: tokens, with the pieces of each leaf joined.
#[derive(Debug, Default)]
struct Heard {
    tokens: Vec<OwnedToken>,
    leaf: Option<(u64, Vec<u8>)>,
}

/// An owned [`Token`].
#[derive(Debug, PartialEq)]
enum OwnedToken {
    Open(u16, u64),
    Leaf(Vec<u8>),
    Close,
}

impl Heard {
    /// Also checks that the events have their documented shape.
    fn hear(&mut self, event: Event<'_>) {
        match (event, &mut self.leaf) {
            (Event::Open { level, count }, None) => self.tokens.push(OwnedToken::Open(level, count)),
            (Event::Close, None) => self.tokens.push(OwnedToken::Close),
            (Event::LeafStart { len }, leaf @ None) => *leaf = Some((len, Vec::new())),
            (Event::Piece(piece), Some((_, bytes))) => {
                assert!(!piece.is_empty());
                bytes.extend(piece);
            }
            (Event::LeafEnd, leaf @ Some(_)) => {
                let (len, bytes) = leaf.take().unwrap();
                assert_eq!(len, bytes.len() as u64);
                self.tokens.push(OwnedToken::Leaf(bytes));
            }
            (event, leaf) => panic!("{event:?} inside {leaf:?}"),
        }
    }
}

/// Decodes `data` with the streaming decoder, cut into chunks at `cuts` (taken modulo the length).
fn streamed(
    level: u16,
    data: &[u8],
    cuts: &[usize],
    limits: Limits,
) -> (Vec<OwnedToken>, Result<(), LevelError>) {
    let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut % (data.len() + 1)).collect();
    cuts.extend([0, data.len()]);
    cuts.sort_unstable();
    let (mut decoder, mut heard) = (StreamDecoder::new(level, limits), Heard::default());
    for pair in cuts.windows(2) {
        if let Err(error) = decoder.feed(&data[pair[0]..pair[1]], &mut |event| heard.hear(event)) {
            assert_eq!(decoder.feed(b"0 ", &mut |event| panic!("{event:?} after an error")), Err(error));
            assert_eq!(decoder.finish(), Err(error));
            return (heard.tokens, Err(error));
        }
        assert_eq!(decoder.position(), pair[1] as u64);
    }
    let complete = decoder.is_complete();
    let result = decoder.finish();
    assert_eq!(complete, result.is_ok());
    (heard.tokens, result)
}

fn owned(tokens: &[Token<'_>]) -> Vec<OwnedToken> {
    let owned = |token: &Token<'_>| match *token {
        Token::Open { level, count } => OwnedToken::Open(level, count),
        Token::Leaf(bytes) => OwnedToken::Leaf(bytes.to_vec()),
        Token::Close => OwnedToken::Close,
    };
    tokens.iter().map(owned).collect()
}

/// Checks both decoders against the model, and returns their common result.
fn decode(level: u16, data: &[u8], cuts: &[usize], limits: Limits) -> Result<(), LevelError> {
    let (tokens, result) = Model::decode(level, data, limits);
    let shown = data.escape_ascii().to_string();
    assert_eq!(borrowed(level, data, limits), (tokens.clone(), result), "borrowed, level {level}: {shown}");
    let expected = (owned(&tokens), result);
    assert_eq!(streamed(level, data, cuts, limits), expected, "streamed, level {level}: {shown}");

    let leaf = |token: &Token<'_>| match *token {
        Token::Leaf(leaf) => Some(Ok(leaf.to_vec())),
        _ => None,
    };
    let leaves: Vec<_> = tokens.iter().filter_map(leaf).chain(result.err().map(Err)).collect();
    let given = Leaves::new(level, data, limits).map(|leaf| leaf.map(<[u8]>::to_vec));
    assert_eq!(given.collect::<Vec<_>>(), leaves, "leaves, level {level}: {shown}");
    assert_eq!(validate(level, data, limits), result.map(|()| leaves.len() as u64));
    result
}

fn value(level: u16) -> BoxedStrategy<Value> {
    if level == 0 {
        return prop::collection::vec(any::<u8>(), 0..14).prop_map(Value::Leaf).boxed();
    }
    prop::collection::vec(value(level - 1), 0..4).prop_map(Value::Members).boxed()
}

fn leveled_value() -> impl Strategy<Value = (u16, Value)> {
    (0u16..5).prop_flat_map(|level| value(level).prop_map(move |value| (level, value)))
}

fn cuts() -> impl Strategy<Value = Vec<usize>> {
    prop::collection::vec(any::<usize>(), 0..12)
}

/// Bytes that often resemble the beginning of level-n data.
fn garbage() -> impl Strategy<Value = Vec<u8>> {
    let likely = prop::sample::select(&b"0123459   +-a\xff"[..]);
    let piece = prop_oneof![
        8 => likely.prop_map(|byte| vec![byte]),
        8 => (0u64..6).prop_map(|count| format!("{count} ").into_bytes()),
        1 => any::<u64>().prop_map(|count| format!("{count} ").into_bytes()),
        1 => any::<u8>().prop_map(|byte| vec![byte]),
        1 => Just(b"18446744073709551616 ".to_vec()),
    ];
    prop::collection::vec(piece, 0..24).prop_map(|pieces| pieces.concat())
}

fn limits() -> impl Strategy<Value = Limits> {
    let tight = (0u16..6, 0u64..20, 0u64..14).prop_map(|(level, members, leaf_bytes)| Limits {
        level,
        members,
        leaf_bytes,
    });
    prop_oneof![3 => Just(Limits::default()), 1 => tight]
}

/// A low value, lifted to this level.
fn lifted_to(level: u16) -> impl Strategy<Value = Value> {
    (0..=level.min(2)).prop_flat_map(move |low| {
        value(low).prop_map(move |value| (low..level).fold(value, |member, _| Value::Members(vec![member])))
    })
}

/// Lifted values beside each other in a value of a higher level, with runs of counts of one of every length. One bit of
/// the bytes may be flipped.
fn lifted() -> impl Strategy<Value = (u16, Vec<u8>)> {
    let bit = prop::option::weighted(0.5, (any::<prop::sample::Index>(), 0u32..8));
    let values =
        (0u16..9).prop_flat_map(|level| (Just(level), prop::collection::vec(lifted_to(level), 1..4)));
    (values, bit).prop_map(|((level, members), bit)| {
        let mut data = Value::Members(members).printed();
        if let Some((at, bit)) = bit {
            let at = at.index(data.len());
            data[at] ^= 1 << bit;
        }
        (level + 1, data)
    })
}

/// A process of a tree: its contribution, and its children.
#[derive(Debug, Clone)]
struct Process {
    own: Option<Vec<u8>>,
    children: Vec<Process>,
}

impl Process {
    fn aggregate(&self) -> Leveled {
        let children: Vec<Leveled> = self.children.iter().map(Process::aggregate).collect();
        aggregate(self.own.clone().map(Bytes::from), &children).unwrap()
    }

    /// The model of aggregation: lifting wraps a value in a value of one member.
    fn model(&self) -> (u16, Value) {
        let children: Vec<(u16, Value)> = self.children.iter().map(Process::model).collect();
        let own = self.own.clone().map(|bytes| (0, Value::Leaf(bytes)));
        match (own, children.iter().map(|child| child.0).max()) {
            (Some(own), None) => own,
            (None, None) => (1, Value::Members(Vec::new())),
            (own, Some(highest)) => {
                let lift =
                    |(level, value)| (level..highest).fold(value, |value, _| Value::Members(vec![value]));
                (highest + 1, Value::Members(own.into_iter().chain(children).map(lift).collect()))
            }
        }
    }

    /// The contributions in tree order.
    fn contributions(&self) -> Vec<&[u8]> {
        self.own.as_deref().into_iter().chain(self.children.iter().flat_map(Process::contributions)).collect()
    }
}

fn process() -> impl Strategy<Value = Process> {
    let len = prop_oneof![8 => 0usize..40, 1 => 4080usize..4110, 1 => Just(10_000)];
    let own = prop::option::weighted(0.9, (any::<u8>(), len).prop_map(|(byte, len)| vec![byte; len]));
    let leaf = own.clone().prop_map(|own| Process { own, children: Vec::new() });
    leaf.prop_recursive(5, 24, 4, move |child| {
        let children = prop::collection::vec(child, 0..4);
        (own.clone(), children).prop_map(|(own, children)| Process { own, children })
    })
}

proptest! {
    #[test]
    fn what_is_printed_is_decoded(tree in leveled_value(), cuts in cuts()) {
        let (level, value) = tree;
        let data = value.printed();
        decode(level, &data, &cuts, Limits::default()).unwrap();
        let mut expected = Vec::new();
        value.tokens(level, &mut expected);
        prop_assert_eq!(borrowed(level, &data, Limits::default()), (expected, Ok(())));
        let leaves: Vec<&[u8]> = Leaves::new(level, &data, Limits::default()).map(Result::unwrap).collect();
        prop_assert_eq!(leaves, value.leaves());
    }

    #[test]
    fn garbage_is_judged_alike(level in 0u16..5, data in garbage(), cuts in cuts(), limits in limits()) {
        let _ = decode(level, &data, &cuts, limits);
    }

    /// Counts of one are read four at a time; each must be counted and followed by a space.
    #[test]
    fn lifted_values_are_judged_alike(tree in lifted(), cuts in cuts(), limits in limits()) {
        let _ = decode(tree.0, &tree.1, &cuts, Limits { level: MAX_LEVEL, ..limits });
    }

    #[test]
    fn a_changed_byte_is_judged_alike(
        tree in leveled_value(), at in any::<prop::sample::Index>(), byte in any::<u8>(), cuts in cuts(), limits in limits(),
    ) {
        let mut data = tree.1.printed();
        let at = at.index(data.len());
        data[at] = byte;
        let _ = decode(tree.0, &data, &cuts, limits);
    }

    #[test]
    fn every_truncation_is_an_error_at_the_end(tree in leveled_value(), cuts in cuts()) {
        let data = tree.1.printed();
        for len in 0..data.len() {
            let error = decode(tree.0, &data[..len], &cuts, Limits::default()).unwrap_err();
            prop_assert_eq!(error.position, len as u64);
        }
    }

    #[test]
    fn a_byte_more_is_left_over(tree in leveled_value(), byte in any::<u8>(), cuts in cuts()) {
        let mut data = tree.1.printed();
        let position = data.len() as u64;
        data.push(byte);
        let error = LevelError { position, kind: LevelErrorKind::LeftOver };
        prop_assert_eq!(decode(tree.0, &data, &cuts, Limits::default()), Err(error));
    }

    #[test]
    fn aggregation_lifts_as_the_model_does(process in process()) {
        let Leveled { level, data } = process.aggregate();
        let (expected_level, expected) = process.model();
        prop_assert_eq!(level, expected_level);
        prop_assert_eq!(&data, &Payload::from(expected.printed()));
        let data = data.to_bytes();
        let leaves: Vec<&[u8]> = Leaves::new(level, &data, Limits::default()).map(Result::unwrap).collect();
        prop_assert_eq!(leaves, process.contributions());
    }
}

#[test]
fn a_chain_of_all_levels_is_decoded_without_recursion() {
    let mut data = b"1 ".repeat(usize::from(MAX_LEVEL));
    data.extend(b"3 abc");
    let leaves: Vec<_> = Leaves::new(MAX_LEVEL, &data, Limits::default()).collect();
    assert_eq!(leaves, [Ok(&b"abc"[..])]);
    let (tokens, result) = streamed(MAX_LEVEL, &data, &[1, 3, 70_000], Limits::default());
    assert_eq!((tokens.len(), result), (2 * usize::from(MAX_LEVEL) + 1, Ok(())));

    data.truncate(data.len() - 5);
    let missing = LevelErrorKind::MembersMissing { level: 1, missing: 1 };
    let error = LevelError { position: 2 * u64::from(MAX_LEVEL), kind: missing };
    assert_eq!(validate(MAX_LEVEL, &data, Limits::default()), Err(error));
}

#[test]
fn limits_hold_to_the_number() {
    let data = b"2 2 3 abc0 1 1 x";
    let exact = Limits { level: 2, members: 5, leaf_bytes: 3 };
    decode(2, data, &[4], exact).unwrap();
    for (limits, position, kind) in [
        (Limits { level: 1, ..exact }, 0, LevelErrorKind::LevelOverLimit { level: 2, limit: 1 }),
        (Limits { members: 4, ..exact }, 11, LevelErrorKind::MembersOverLimit { members: 5, limit: 4 }),
        (Limits { leaf_bytes: 2, ..exact }, 4, LevelErrorKind::LeafOverLimit { len: 3, limit: 2 }),
    ] {
        assert_eq!(decode(2, data, &[5], limits), Err(LevelError { position, kind }));
    }
}

#[test]
fn counts_of_all_members_may_exceed_64_bits() {
    let data = format!("1 {} 1 {} ", u64::MAX, u64::MAX);
    let error = decode(4, data.as_bytes(), &[9], Limits::default()).unwrap_err();
    assert_eq!(error.kind, LevelErrorKind::MembersMissing { level: 1, missing: u64::MAX });
    let limits = Limits { members: u64::MAX - 1, ..Limits::default() };
    let kind = decode(4, data.as_bytes(), &[9], limits).unwrap_err().kind;
    assert_eq!(kind, LevelErrorKind::MembersOverLimit { members: u64::MAX, limit: u64::MAX - 1 });
}
