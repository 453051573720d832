//! Level-n data: the vector of the original implementation, and one example of every kind of invalid data.

use bytes::Bytes;
use chained_gpc::wire::level::{
    Event, Leaves, LevelError, LevelErrorKind, Leveled, Limits, StreamDecoder, Token, Tokens, aggregate,
    validate,
};

/// Two subjobs of two processes, each of which registered the bytes 1 2 3; base64.
const TWO_BY_TWO: &str = "MiAyIDMgAQIDMyABAgMyIDMgAQIDMyABAgM=";

fn base64(text: &str) -> Vec<u8> {
    const DIGITS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let (mut bytes, mut bits, mut held) = (Vec::new(), 0u32, 0);
    for byte in text.trim_end_matches('=').bytes() {
        let digit = DIGITS.iter().position(|&digit| digit == byte).expect("a base64 digit");
        (bits, held) = (bits << 6 | digit as u32, held + 6);
        if held >= 8 {
            held -= 8;
            bytes.push((bits >> held) as u8);
        }
    }
    bytes
}

#[test]
fn the_original_vector_is_decoded() {
    let data = base64(TWO_BY_TWO);
    assert_eq!(data, b"2 2 3 \x01\x02\x033 \x01\x02\x032 3 \x01\x02\x033 \x01\x02\x03");
    let leaves: Vec<_> = Leaves::new(2, &data, Limits::default()).collect();
    assert_eq!(leaves, [Ok(&[1, 2, 3][..]); 4]);

    let (job, process) = (Token::Open { level: 1, count: 2 }, Token::Leaf(&[1, 2, 3]));
    let multijob = Token::Open { level: 2, count: 2 };
    let close = Token::Close;
    let tokens: Vec<_> = Tokens::new(2, &data, Limits::default()).map(Result::unwrap).collect();
    assert_eq!(tokens, [multijob, job, process, process, close, job, process, process, close, close]);
}

#[test]
fn the_original_vector_is_encoded() {
    let process = aggregate(Some(Bytes::from_static(&[1, 2, 3])), &[]).unwrap();
    let subjob = aggregate(None, &[process.clone(), process]).unwrap();
    let multijob = aggregate(None, &[subjob.clone(), subjob]).unwrap();
    assert_eq!(multijob, Leveled { level: 2, data: base64(TWO_BY_TWO).into() });
}

/// Judges `data` whole and byte by byte.
fn judge(level: u16, data: &[u8]) -> Result<u64, LevelError> {
    let whole = validate(level, data, Limits::default());
    let (mut decoder, mut leaves) = (StreamDecoder::new(level, Limits::default()), 0);
    let mut sink = |event: Event<'_>| leaves += u64::from(event == Event::LeafEnd);
    let fed = data.chunks(1).try_for_each(|byte| decoder.feed(byte, &mut sink));
    assert_eq!(fed.and_then(|()| decoder.finish()).map(|()| leaves), whole);
    whole
}

#[test]
fn good_data() {
    for (level, data, leaves) in [
        (0, &b"0 "[..], 1),
        (0, b"1  ", 1),
        (0, b"10 0123456789", 1),
        (1, b"0 ", 0),
        (1, b"3 0 0 0 ", 3),
        (2, b"2 0 0 ", 0),
        (2, b"2 1 2 ab0 ", 1),
        (3, b"1 1 1 5 1 1 1", 1),
    ] {
        assert_eq!(judge(level, data), Ok(leaves), "level {level}: {}", data.escape_ascii());
    }
}

#[test]
fn bad_data_are_named_with_their_place() {
    use LevelErrorKind::*;
    let missing = |level, missing| MembersMissing { level, missing };
    for (level, data, position, kind) in [
        (0, &b""[..], 0, Empty),
        (3, b"", 0, Empty),
        (0, b" ", 0, EmptyCount),
        (1, b"2 1 a 1 b", 5, EmptyCount),
        (0, b"x", 0, NotADigit { found: b'x' }),
        (1, b"2 1 a\n1 b", 5, NotADigit { found: b'\n' }),
        (0, b"+1 a", 0, Sign { found: b'+' }),
        (1, b"1 -1 a", 2, Sign { found: b'-' }),
        (0, b"00 ", 0, LeadingZero),
        (1, b"1 01 a", 2, LeadingZero),
        (0, b"18446744073709551616 ", 0, CountOverflow),
        (1, b"1 99999999999999999999 ", 2, CountOverflow),
        (0, b"18446744073709551615 ", 21, LeafCut { missing: u64::MAX }),
        (0, b"1a", 1, MissingSpace { found: b'a' }),
        (1, b"12-3 ", 2, MissingSpace { found: b'-' }),
        (0, b"12\t", 2, MissingSpace { found: b'\t' }),
        (1, b"1", 1, CountCut),
        (1, b"2 0", 3, CountCut),
        (0, b"3 ab", 4, LeafCut { missing: 1 }),
        (1, b"1 3 ", 4, LeafCut { missing: 3 }),
        (1, b"3 1 a", 5, missing(1, 2)),
        (2, b"2 1 1 a", 7, missing(2, 1)),
        (3, b"1 1 1 ", 6, missing(1, 1)),
        (1, b"1000000000000000000 ", 20, missing(1, 1_000_000_000_000_000_000)),
        (0, b"1 ab", 3, LeftOver),
        (1, b"0 0 ", 2, LeftOver),
        (2, b"1 1 1 a1 b", 7, LeftOver),
    ] {
        let error = LevelError { position, kind };
        assert_eq!(judge(level, data), Err(error), "level {level}: {}", data.escape_ascii());
    }
}

#[test]
fn errors_say_what_where_and_what_was_expected() {
    let text = |level, data: &[u8]| judge(level, data).unwrap_err().to_string();
    for (text, expected) in [
        (
            text(1, b"2 11 0123456789a01 a"),
            "byte 16: count has a leading zero; expected a decimal number without",
        ),
        (text(0, b"\xff"), r"byte 0: expected a count, found '\xff'"),
        (text(0, b"2x"), "byte 1: expected a space or a digit after the count, found 'x'"),
        (text(1, b"-1 "), "byte 0: count has a sign '-'; expected digits alone"),
        (text(1, b"3 0 "), "byte 4: input ends inside level 1 data; expected 2 more members"),
        (text(0, b"5 ab"), "byte 4: input ends inside level 0 data; expected 3 more bytes"),
        (text(0, b"0 0"), "byte 2: bytes left over; expected the end of the data"),
    ] {
        assert_eq!(text, format!("level data: {expected}"));
    }
}
