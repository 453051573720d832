//! Decodes commands from a byte stream that arrives in pieces of any size.

use std::fmt;

use bytes::{Bytes, BytesMut};
use zeroize::Zeroize as _;

use super::Command;

/// A complete command, or expected bytes without a head.
#[derive(Clone, PartialEq, Eq)]
pub enum Frame {
    /// A command and its payload.
    Command(Command, Bytes),
    /// Bytes without a head. They may be the key, and are wiped from memory when the last copy is dropped.
    Raw(Bytes),
}

/// Shows the number of bytes only, because they may be the key.
impl fmt::Debug for Frame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Frame::Command(command, payload) => write!(f, "Command({command}, {} bytes)", payload.len()),
            Frame::Raw(bytes) => write!(f, "Raw({} bytes)", bytes.len()),
        }
    }
}

/// A head with an invalid length.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{command} with a length of {len}; allowed are 0 to {most}")]
pub struct FrameError {
    /// The command.
    pub command: Command,
    /// The length in the head.
    pub len: i32,
    /// The longest allowed length.
    pub most: usize,
}

/// Most bytes reserved before they arrive. For a longer payload, memory grows with the bytes that arrive.
const AT_FIRST: usize = 4096;

/// Reader of one connection's commands.
pub struct Reader {
    /// The head, as far as it has arrived.
    head: [u8; 8],
    have: usize,
    /// The payload in progress, or bytes without a head.
    part: Option<Part>,
}

/// Shows the number of bytes only, because they may be the key.
impl fmt::Debug for Reader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let missing = self.part.as_ref().map(|part| part.missing);
        f.debug_struct("Reader")
            .field("held", &self.held())
            .field("missing", &missing)
            .finish_non_exhaustive()
    }
}

struct Part {
    /// `None` for bytes without a head.
    command: Option<Command>,
    missing: usize,
    bytes: BytesMut,
}

impl Part {
    fn new(command: Option<Command>, len: usize) -> Part {
        Part { command, missing: len, bytes: BytesMut::with_capacity(len.min(AT_FIRST)) }
    }

    fn frame(mut self) -> Frame {
        let bytes = std::mem::take(&mut self.bytes);
        match self.command {
            Some(command) => Frame::Command(command, bytes.freeze()),
            None => Frame::Raw(Bytes::from_owner(Wiped(bytes))),
        }
    }
}

/// Wipes bytes without a head that are dropped before they are complete.
impl Drop for Part {
    fn drop(&mut self) {
        if self.command.is_none() {
            self.bytes.zeroize();
        }
    }
}

/// Bytes that may be the key.
struct Wiped(BytesMut);

impl AsRef<[u8]> for Wiped {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl Drop for Wiped {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl Default for Reader {
    fn default() -> Reader {
        Reader::new()
    }
}

impl Reader {
    /// A reader at the start of a command.
    pub fn new() -> Reader {
        Reader { head: [0; 8], have: 0, part: None }
    }

    /// Expects `len` bytes without a head next. May be called between two commands only.
    pub fn expect_raw(&mut self, len: usize) {
        debug_assert!(self.is_between(), "a command is under way");
        self.part = Some(Part::new(None, len));
    }

    /// Whether no part of a command has arrived.
    pub fn is_between(&self) -> bool {
        self.have == 0 && self.part.is_none()
    }

    /// Bytes held for the command in progress.
    pub fn held(&self) -> usize {
        self.part.as_ref().map_or(0, |part| part.bytes.len())
    }

    /// Consumes bytes from the front of `bytes`, at most to the end of one command. Returns `None` if all are consumed
    /// and the command is incomplete. `most` returns the longest payload that a command may have.
    ///
    /// # Errors
    /// Returns an error if the length is negative or over that limit: the rest of the stream cannot be decoded then.
    pub fn take(
        &mut self,
        bytes: &mut &[u8],
        most: impl FnOnce(Command) -> usize,
    ) -> Result<Option<Frame>, FrameError> {
        if self.part.is_none() {
            let taken = bytes.len().min(8 - self.have);
            let (head, rest) = bytes.split_at(taken);
            self.head[self.have..self.have + taken].copy_from_slice(head);
            (self.have, *bytes) = (self.have + taken, rest);
            if self.have < 8 {
                return Ok(None);
            }
            self.part = Some(self.begun(most)?);
            self.have = 0;
        }
        let Some(part) = &mut self.part else { return Ok(None) };
        let (taken, rest) = bytes.split_at(bytes.len().min(part.missing));
        part.bytes.extend_from_slice(taken);
        part.missing -= taken.len();
        *bytes = rest;
        match part.missing {
            0 => Ok(self.part.take().map(Part::frame)),
            _ => Ok(None),
        }
    }

    fn begun(&self, most: impl FnOnce(Command) -> usize) -> Result<Part, FrameError> {
        let number = u64::from_be_bytes(self.head);
        let (command, len) = (Command::of((number >> 32) as u32), number as u32 as i32);
        let most = most(command);
        match usize::try_from(len) {
            Ok(len) if len <= most => Ok(Part::new(Some(command), len)),
            _ => Err(FrameError { command, len, most }),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::wire::{Label, coll, command};

    proptest! {
        /// The commands are the same, however the bytes are split.
        #[test]
        fn pieces_make_no_difference(
            payloads in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..50), 1..6),
            cuts in prop::collection::vec(1usize..9, 1..200),
        ) {
            let sent: Vec<Bytes> = payloads.iter().map(|payload| coll(Label::H_PORT, Some(7), [payload.as_slice()])).collect();
            let whole = sent.concat();
            let (mut reader, mut frames, mut at) = (Reader::new(), Vec::new(), 0);
            let mut cuts = cuts.into_iter().cycle();
            while at < whole.len() {
                let end = whole.len().min(at + cuts.next().unwrap());
                let mut piece = &whole[at..end];
                while !piece.is_empty() {
                    frames.extend(reader.take(&mut piece, |_| 100).unwrap());
                }
                at = end;
            }
            let expected: Vec<Frame> =
                sent.iter().map(|bytes| Frame::Command(Command::Coll, bytes.slice(8..))).collect();
            prop_assert_eq!(frames, expected);
            prop_assert!(reader.is_between());
        }
    }

    #[test]
    fn a_command_without_a_payload_is_whole_with_its_head() {
        let (mut reader, done) = (Reader::new(), command(Command::Done, &[]));
        let frame = reader.take(&mut &done[..], |_| 0).unwrap();
        assert_eq!(frame, Some(Frame::Command(Command::Done, Bytes::new())));
        reader.expect_raw(3);
        let mut bytes = &b"abcrest"[..];
        assert_eq!(reader.take(&mut bytes, |_| 0).unwrap(), Some(Frame::Raw(Bytes::from_static(b"abc"))));
        assert_eq!(bytes, b"rest");
    }

    /// The key arrived as bytes without a head, and appeared wherever the reader's output was displayed.
    #[test]
    fn bytes_are_not_shown() {
        let mut reader = Reader::new();
        reader.expect_raw(8);
        assert_eq!(reader.take(&mut &[77; 5][..], |_| 0).unwrap(), None);
        assert_eq!(format!("{reader:?}"), "Reader { held: 5, missing: Some(3), .. }");
        let raw = reader.take(&mut &[77; 3][..], |_| 0).unwrap().unwrap();
        assert_eq!(format!("{raw:?}"), "Raw(8 bytes)");
        assert_eq!(raw, Frame::Raw(vec![77; 8].into()));
        let mut bytes = &command(Command::Impi, &[77])[..];
        assert_eq!(format!("{:?}", reader.take(&mut bytes, |_| 4).unwrap()), "Some(Command(IMPI, 4 bytes))");
    }

    #[test]
    fn a_length_is_not_believed() {
        let head = |len: i32| [0x434F_4C4C_u32.to_be_bytes(), len.to_be_bytes()].concat();
        for len in [101, i32::MAX, -1, i32::MIN] {
            let error = Reader::new().take(&mut &head(len)[..], |_| 100).unwrap_err();
            assert_eq!((error.command, error.len), (Command::Coll, len));
        }
        let mut reader = Reader::new();
        assert_eq!(reader.take(&mut &head(i32::MAX)[..], |_| usize::MAX), Ok(None));
        assert!(reader.part.is_some_and(|part| part.bytes.capacity() <= AT_FIRST));
    }
}
