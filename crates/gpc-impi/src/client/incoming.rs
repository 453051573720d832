//! Commands of the server as they arrive, within the limits of a client; and what all clients check of them.

use bytes::Bytes;

use super::Violation;
use crate::wire::{CLIENTS_MAX, Command, Frame, FrameError, Label, Method, Methods, Reader};

/// Longest list of all clients' versions: it is divided as soon as it arrives.
const VERSIONS_MAX: usize = 1 << 20;

/// Longest payload of an unknown command: a longer one is treated as garbage.
const OTHER_MAX: usize = 1 << 20;

/// Most unknown commands and labels. Each is an event, and an endless stream of them would keep the client busy until
/// its time limit. An honest server sends only the clients' own labels.
const NEEDLESS_MAX: u32 = 4096;

/// Longest payload of a command with one number, or none.
const COMMAND_MAX: usize = 64;

/// Reads commands, and counts what the server sends.
#[derive(Debug)]
pub(super) struct Incoming {
    reader: Reader,
    /// Most bytes that the server may send.
    bytes_max: usize,
    /// Bytes received from the server.
    received: usize,
    /// Number of unknown commands and labels, and of repeated client numbers, from the server.
    needless: u32,
}

impl Incoming {
    /// The first 8 bytes are the server's choice of a method, without a head.
    pub(super) fn new(bytes_max: usize) -> Incoming {
        let mut reader = Reader::new();
        reader.expect_raw(8);
        Incoming { reader, bytes_max, received: 0, needless: 0 }
    }

    /// The next command. If there is none yet, all bytes are taken.
    pub(super) fn take(&mut self, bytes: &mut &[u8]) -> Result<Option<Frame>, Violation> {
        let left = self.bytes_max.saturating_sub(self.received.saturating_add(8));
        let most = |command| match command {
            Command::Coll => left,
            Command::Other(_) => left.min(OTHER_MAX),
            _ => left.min(COMMAND_MAX),
        };
        let frame = self.reader.take(bytes, most)?;
        if let Some(Frame::Command(_, payload)) = &frame {
            self.received = self.received.saturating_add(8 + payload.len());
            // The limit may be exceeded by the head of a command without a payload.
            if self.received > self.bytes_max {
                return Err(Violation::Bytes(self.bytes_max));
            }
        }
        Ok(frame)
    }

    /// Counts input that a server may send, but need not.
    pub(super) fn needless(&mut self) -> Result<(), Violation> {
        self.needless += 1;
        if self.needless > NEEDLESS_MAX { Err(Violation::Needless(NEEDLESS_MAX)) } else { Ok(()) }
    }

    /// Bytes that are held.
    pub(super) fn held(&self) -> usize {
        self.reader.held()
    }
}

/// The server's choice of a method, and the key if it is to be sent. The server does not answer the key; the second
/// number of its choice is ignored.
pub(super) fn chosen(methods: &Methods, chosen: &[u8]) -> Result<(Method, Option<Bytes>), Violation> {
    let which = chosen.first_chunk().map_or(u32::MAX, |which| u32::from_be_bytes(*which));
    match (which, &methods.key) {
        (0, _) if methods.none => Ok((Method::None, None)),
        (1, Some(key)) => Ok((Method::Key, Some(Bytes::from_owner(key.bytes())))),
        _ => Err(Violation::Method { which, mask: methods.mask() }),
    }
}

/// The number of clients.
pub(super) fn clients(payload: &[u8]) -> Result<u32, Violation> {
    length(Command::Impi, 4, payload.len())?;
    let number = payload.first_chunk().map_or(0, |number| i32::from_be_bytes(*number));
    match u32::try_from(number) {
        Ok(size @ 1..=CLIENTS_MAX) => Ok(size),
        _ => Err(Violation::Size(number)),
    }
}

/// Label, mask and values of a broadcast.
pub(super) fn broadcast(mut payload: Bytes) -> Result<(Label, u32, Bytes), Violation> {
    let Some(head) = payload.first_chunk::<8>().map(|head| u64::from_be_bytes(*head)) else {
        return Err(Violation::Coll(payload.len()));
    };
    let (label, mask, values) = (Label((head >> 32) as u32), head as u32, payload.split_off(8));
    if label == Label::C_VERSION && values.len() > VERSIONS_MAX {
        let (len, most) = (i32::try_from(values.len()).unwrap_or(i32::MAX), VERSIONS_MAX);
        return Err(FrameError { command: Command::Coll, len, most }.into());
    }
    Ok((label, mask, values))
}

/// Checks the length of a command's payload.
pub(super) fn length(command: Command, expected: usize, found: usize) -> Result<(), Violation> {
    if expected == found { Ok(()) } else { Err(Violation::Length { command, expected, found }) }
}
