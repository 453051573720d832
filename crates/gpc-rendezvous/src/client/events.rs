//! Server-sent events: bytes of a stream to events, without I/O.
//!
//! Source: the HTML standard, "Server-sent events". Ids and times of reconnection are ignored: a subscription that
//! connects again receives the present state.

use std::mem;

/// An event.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Event {
    /// Its name: `message` if the service has sent none.
    pub(crate) name: String,
    /// Its data: the lines are separated by line feeds.
    pub(crate) data: Vec<u8>,
}

/// An event is longer than this number of bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct TooLong(pub(crate) u64);

/// Reads the events of one stream.
#[derive(Debug)]
pub(crate) struct EventReader {
    /// Most bytes of an event: of its lines so far and the line that is being read.
    most: u64,
    line: Vec<u8>,
    name: Vec<u8>,
    /// The lines of data, each with its line feed.
    data: Vec<u8>,
    /// Whether the last line ended with a carriage return: a line feed after it belongs to that end.
    returned: bool,
}

impl EventReader {
    pub(crate) fn new(most: u64) -> EventReader {
        EventReader { most, line: Vec::new(), name: Vec::new(), data: Vec::new(), returned: false }
    }

    /// Reads up to the end of the next event. If there is none, all bytes are taken.
    pub(crate) fn take(&mut self, bytes: &mut &[u8]) -> Result<Option<Event>, TooLong> {
        // Ends: each round takes at least a byte.
        while !bytes.is_empty() {
            if mem::take(&mut self.returned)
                && let Some(rest) = bytes.strip_prefix(b"\n")
            {
                *bytes = rest;
                continue;
            }
            let end = bytes.iter().position(|byte| matches!(byte, b'\n' | b'\r'));
            let (piece, rest) = bytes.split_at(end.unwrap_or(bytes.len()));
            if (self.line.len() + self.name.len() + self.data.len() + piece.len()) as u64 > self.most {
                return Err(TooLong(self.most));
            }
            self.line.extend_from_slice(piece);
            *bytes = rest;
            if let Some((ending, rest)) = rest.split_first() {
                (self.returned, *bytes) = (*ending == b'\r', rest);
                if let Some(event) = self.end_of_line() {
                    return Ok(Some(event));
                }
            }
        }
        Ok(None)
    }

    /// Interprets a line; an empty one ends an event. An event without data is none.
    fn end_of_line(&mut self) -> Option<Event> {
        let line = mem::take(&mut self.line);
        if line.is_empty() {
            let (name, mut data) = (mem::take(&mut self.name), mem::take(&mut self.data));
            data.pop()?;
            let name = if name.is_empty() { "message".into() } else { String::from_utf8_lossy(&name).into() };
            return Some(Event { name, data });
        }
        let colon = line.iter().position(|byte| *byte == b':').unwrap_or(line.len());
        let (field, value) = line.split_at(colon);
        let value = value.strip_prefix(b":").unwrap_or(value);
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match field {
            b"event" => self.name = value.to_vec(),
            b"data" => {
                self.data.extend_from_slice(value);
                self.data.push(b'\n');
            }
            // A comment, or a field that is not used here.
            _ => {}
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The events in these bytes, which arrive in pieces of this length.
    fn events(text: &[u8], piece: usize) -> Vec<(String, String)> {
        let mut reader = EventReader::new(1 << 10);
        let mut found = Vec::new();
        for mut bytes in text.chunks(piece) {
            while let Some(Event { name, data }) = reader.take(&mut bytes).unwrap() {
                found.push((name, String::from_utf8(data).unwrap()));
            }
        }
        found
    }

    #[test]
    fn events_are_told_apart_however_they_arrive() {
        let text = "event: tally\ndata: {}\n\n:\n\nevent:fault\r\ndata: a\r\ndata:b\r\n\r\nid: 7\rretry\rdata\rdata:  c\r\rdata: cut";
        let expected = [("tally", "{}"), ("fault", "a\nb"), ("message", "\n c")];
        for piece in 1..=text.len() {
            let found = events(text.as_bytes(), piece);
            let found: Vec<(&str, &str)> =
                found.iter().map(|(name, data)| (name.as_str(), data.as_str())).collect();
            assert_eq!(found, expected, "in pieces of {piece}");
        }
    }

    /// The bound holds for a line without an end, for the lines of one event together, and for comments one by one.
    #[test]
    fn an_event_has_a_longest_length() {
        let reads = |text: &str| {
            let mut reader = EventReader::new(10);
            let mut bytes = text.as_bytes();
            // Ends: each round takes an event.
            loop {
                match reader.take(&mut bytes) {
                    Ok(Some(_)) => {}
                    ended => return ended,
                }
            }
        };
        assert_eq!(reads("0123456789"), Ok(None));
        assert_eq!(reads("01234567890"), Err(TooLong(10)));
        assert_eq!(reads("data:12345\n\ndata:12345\n\n"), Ok(None));
        assert_eq!(reads("data:1\ndata:2\ndata:3\n"), Ok(None));
        assert_eq!(reads("data:1\ndata:2\ndata:33\n"), Err(TooLong(10)));
        assert_eq!(reads(&":comment\n\n".repeat(99)), Ok(None));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_alike_in_any_pieces(text in "(event|data|[:a \r\n]|é){0,40}", piece in 1_usize..9) {
            let whole = events(text.as_bytes(), text.len().max(1));
            prop_assert_eq!(events(text.as_bytes(), piece), whole);
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            let mut reader = EventReader::new(20);
            let mut rest = &bytes[..];
            while let Ok(Some(event)) = reader.take(&mut rest) {
                prop_assert!(event.data.len() <= 20);
            }
            prop_assert!(reader.line.len() + reader.data.len() <= 21);
        }
    }
}
