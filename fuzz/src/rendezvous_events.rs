//! The stream of a subscription: server-sent events, whole and in pieces, beside a plain reader of them.
//!
//! Input: a byte with the most bytes of an event; a byte that says how many cuts follow; the cuts; and the stream. The
//! reader is a part of the client, and this module takes in its file alone.
//! `crates/gpc-rendezvous/tests/fuzz_corpus.rs` replays this module.

use self::events::{Event, EventReader, TooLong};
use super::input::{Input, pieces};

#[path = "../../crates/gpc-rendezvous/src/client/events.rs"]
mod events;

/// Reads the stream.
pub fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let most = u64::from(input.byte());
    let count = input.byte();
    let cuts = input.cuts(count);
    let stream = input.rest();
    let whole = read(most, stream, &[]);
    for cuts in [&cuts[..], &[1]] {
        assert_eq!(whole, read(most, stream, cuts), "cut by {cuts:?}");
    }
    assert!(whole.0.iter().all(|event| event.data.len() as u64 <= most));
    assert_eq!(read(u64::MAX, stream, &[]), (plain(stream), None));
    let (events, end) = whole;
    // A bound leaves out the end of the stream, and nothing before it.
    assert!(plain(stream).starts_with(&events) && (end.is_some() || plain(stream) == events));
}

/// The events, and the error that ends the stream, if any.
fn read(most: u64, stream: &[u8], cuts: &[usize]) -> (Vec<Event>, Option<TooLong>) {
    let (mut reader, mut events) = (EventReader::new(most), Vec::new());
    for mut piece in pieces(stream, cuts) {
        loop {
            match reader.take(&mut piece) {
                Ok(Some(event)) => events.push(event),
                Ok(None) => break,
                Err(TooLong(bound)) => {
                    assert_eq!(bound, most);
                    return (events, Some(TooLong(bound)));
                }
            }
        }
        assert!(piece.is_empty(), "bytes are left");
    }
    (events, None)
}

/// The events of a whole stream, by the words of the standard.
fn plain(stream: &[u8]) -> Vec<Event> {
    let (mut lines, mut line, mut after_return) = (Vec::new(), Vec::new(), false);
    for byte in stream {
        match byte {
            b'\n' if after_return => {}
            b'\n' | b'\r' => lines.push(std::mem::take(&mut line)),
            byte => line.push(*byte),
        }
        after_return = *byte == b'\r';
    }
    let (mut events, mut name, mut data) = (Vec::new(), Vec::new(), Vec::<Vec<u8>>::new());
    for line in lines {
        let mut parts = line.splitn(2, |byte| *byte == b':');
        let (field, value) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        let value = value.strip_prefix(b" ").unwrap_or(value).to_vec();
        match field {
            _ if line.is_empty() => {
                let named = std::mem::take(&mut name);
                let named = if named.is_empty() { b"message".to_vec() } else { named };
                if !data.is_empty() {
                    let name = String::from_utf8_lossy(&named).into();
                    events.push(Event { name, data: std::mem::take(&mut data).join(&b'\n') });
                }
            }
            b"event" => name = value,
            b"data" => data.push(value),
            _ => {}
        }
    }
    events
}
