//! The header of a message over the network of the program, and the kinds of these messages.
//!
//! Source: docs/wire.md, "Messages over the program's network".

/// Version of the messages; both sides have the same one.
const VERSION: u8 = 1;

/// Length of the header, bytes.
pub(crate) const HEADER: usize = 16;

/// Flag: the receiver of the message has opened the connection.
const OPENED_BY_RECEIVER: u8 = 1;

/// What a message is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// The next bytes of a connection. The first of these opens it.
    Bytes = 1,
    /// Number of bytes that the peer may have sent in all, as a `u64`.
    Room = 2,
    /// The end of a connection.
    End = 3,
}

/// The header of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Record {
    pub(crate) kind: Kind,
    /// Whether the receiver of the message has opened the connection.
    pub(crate) opened_by_receiver: bool,
    /// Number of messages that the sender has sent on the connection before.
    pub(crate) sequence: u32,
    /// Number of the connection, unique for its opener.
    pub(crate) connection: u64,
}

/// Why bytes are not a valid message.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub(crate) enum RecordError {
    #[error("a message of {0} bytes is shorter than the header of {HEADER}")]
    Short(usize),
    #[error("its version is {0}, and that of this node is {VERSION}: use the same version in all processes")]
    Version(u8),
    #[error("its kind is {0}, its flags are {1}: no node sends such messages")]
    Unknown(u8, u8),
}

impl Record {
    pub(crate) fn emit(self) -> [u8; HEADER] {
        let mut bytes = [0; HEADER];
        let flags = if self.opened_by_receiver { OPENED_BY_RECEIVER } else { 0 };
        bytes[..4].copy_from_slice(&[self.kind as u8, VERSION, flags, 0]);
        bytes[4..8].copy_from_slice(&self.sequence.to_le_bytes());
        bytes[8..].copy_from_slice(&self.connection.to_le_bytes());
        bytes
    }

    /// Separates the header of a message from what follows it.
    pub(crate) fn parse(message: &[u8]) -> Result<(Record, &[u8]), RecordError> {
        let (header, rest) =
            message.split_first_chunk::<HEADER>().ok_or(RecordError::Short(message.len()))?;
        let [kind, version, flags, zero, a, b, c, d, connection @ ..] = *header;
        if version != VERSION {
            return Err(RecordError::Version(version));
        }
        let kind = match kind {
            1 => Kind::Bytes,
            2 => Kind::Room,
            3 => Kind::End,
            _ => return Err(RecordError::Unknown(kind, flags)),
        };
        if flags & !OPENED_BY_RECEIVER != 0 || zero != 0 {
            return Err(RecordError::Unknown(kind as u8, flags));
        }
        let record = Record {
            kind,
            opened_by_receiver: flags == OPENED_BY_RECEIVER,
            sequence: u32::from_le_bytes([a, b, c, d]),
            connection: u64::from_le_bytes(connection),
        };
        Ok((record, rest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_parses_as_it_was_made_and_nothing_else_parses() {
        for kind in [Kind::Bytes, Kind::Room, Kind::End] {
            let record = Record { kind, opened_by_receiver: kind == Kind::Room, sequence: 7, connection: 9 };
            let message = [&record.emit()[..], b"rest"].concat();
            assert_eq!(Record::parse(&message), Ok((record, &b"rest"[..])));
            assert_eq!(Record::parse(&message[..15]), Err(RecordError::Short(15)));
            for (place, value) in [(0, 0), (0, 4), (1, 2), (2, 2), (3, 1)] {
                let mut message = message.clone();
                message[place] = value;
                assert!(Record::parse(&message).is_err(), "{kind:?}: {value} at {place}");
            }
        }
    }
}
