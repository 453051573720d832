//! The first frame of a link: its parser and the receiving side of a link must read it as docs/wire.md describes it,
//! however the reads cut it.
//!
//! Input: a byte that says how many cuts follow, the cuts, and the payload.

use chained_gpc::link::{Event, Inbox};
use chained_gpc::wire::Hello;
use chained_gpc::wire::frame::{FIRST_MAX, FrameError, FrameHeader, Kind};

use super::input::Input;
use super::wire::{ALL, feed};

/// Reads the bytes as the payload of a HELLO.
pub fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let count = input.byte();
    let (cuts, payload) = (input.cuts(count), input.rest());
    let parsed = Hello::parse(payload);
    assert_eq!(parsed.as_ref().ok(), by_the_document(payload).as_ref(), "{payload:02x?}");
    match &parsed {
        Ok(hello) => assert_eq!(hello.emit(), payload),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
    let header = FrameHeader { length: payload.len() as u32, kind: Kind::Hello, flags: 0 };
    let frame = [&header.emit()[..], payload].concat();
    let mut inbox = Inbox::new();
    let (events, result) = feed(&mut inbox, &frame, &cuts, &ALL);
    match (parsed, &events[..]) {
        (Ok(hello), [Event::Hello(heard)]) => {
            assert!(hello == *heard && result.is_ok() && inbox.is_idle(), "{hello:?} {heard:?} {result:?}");
            let (events, second) = feed(&mut inbox, &frame, &cuts, &ALL);
            assert!(events.is_empty() && second.is_err(), "a second hello is refused: {events:?}");
        }
        // Nothing is read of a payload over the limit of first frames.
        (Err(_), []) if payload.len() > FIRST_MAX => {
            let extra = (payload.len() - FIRST_MAX) as u64;
            assert_eq!(result, Err(FrameError::TooMuch { kind: Kind::Hello, extra }));
        }
        (Err(error), []) => assert_eq!(result, Err(error)),
        (parsed, events) => panic!("{parsed:?} but {events:?}"),
    }
}

/// Decodes a payload according to the section HELLO of the document.
fn by_the_document(payload: &[u8]) -> Option<Hello> {
    let u32_at = |at: usize| Some(u32::from_le_bytes(payload.get(at..at + 4)?.try_into().ok()?));
    let low_and_high = (u32_at(16)?, u32_at(20)?);
    let hello = Hello {
        from: u32_at(8)?,
        to: u32_at(12)?,
        incarnation: u64::from(low_and_high.0) | u64::from(low_and_high.1) << 32,
        generation: u32_at(24)?,
        hiwater: u32_at(28)?,
        job: chained_gpc::Job(payload.get(32..48)?.try_into().ok()?),
        rings: false,
        extents: false,
    };
    let fixed = payload.starts_with(b"cGPC\x04\x00\x00\x00");
    (fixed && payload.len() == 48 && hello.hiwater > 0).then_some(hello)
}
