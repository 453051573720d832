//! The request to read a piece of a file of a host, and its reply, as bytes. Numbers are little-endian.
//!
//! The request: offset (8), most bytes (4), path. The reply: length of the file (8), its permissions (4), what changes
//! with the file (24), SHA-256 of the piece (32); the piece is the data of the reply.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use super::piece::Digest;

/// Most bytes that one request reads.
pub(super) const MOST: u32 = 16 << 20;

/// A piece that is to be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct ReadRequest<'a> {
    pub(super) offset: u64,
    /// Most bytes, at most [`MOST`].
    pub(super) most: u32,
    pub(super) path: &'a Path,
}

/// What was found there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct ReadReply {
    /// Length of the file.
    pub(super) total: u64,
    /// Permission bits of the file.
    pub(super) mode: u32,
    /// Numbers that differ if the file was replaced or written meanwhile.
    pub(super) changed: [u64; 3],
    /// Of the piece.
    pub(super) digest: Digest,
}

impl<'a> ReadRequest<'a> {
    pub(super) fn header(&self) -> Vec<u8> {
        let mut bytes = self.offset.to_le_bytes().to_vec();
        bytes.extend_from_slice(&self.most.to_le_bytes());
        bytes.extend_from_slice(self.path.as_os_str().as_bytes());
        bytes
    }

    /// Parses a header; `None` if it is not one.
    pub(super) fn parse(header: &'a [u8]) -> Option<ReadRequest<'a>> {
        let (offset, rest) = header.split_first_chunk()?;
        let (most, path) = rest.split_first_chunk()?;
        let most = u32::from_le_bytes(*most);
        let is_path = !path.is_empty() && !path.contains(&0);
        let path = Path::new(OsStr::from_bytes(path));
        (is_path && most <= MOST).then(|| ReadRequest { offset: u64::from_le_bytes(*offset), most, path })
    }
}

impl ReadReply {
    pub(super) fn header(&self) -> Vec<u8> {
        let mut bytes = self.total.to_le_bytes().to_vec();
        bytes.extend_from_slice(&self.mode.to_le_bytes());
        self.changed.iter().for_each(|number| bytes.extend_from_slice(&number.to_le_bytes()));
        bytes.extend_from_slice(&self.digest);
        bytes
    }

    /// Parses a header; `None` if it is not one.
    pub(super) fn parse(header: &[u8]) -> Option<ReadReply> {
        let (total, rest) = header.split_first_chunk()?;
        let (mode, mut rest) = rest.split_first_chunk()?;
        let mut changed = [0; 3];
        for number in &mut changed {
            let (bytes, more) = rest.split_first_chunk()?;
            (*number, rest) = (u64::from_le_bytes(*bytes), more);
        }
        let digest = rest.try_into().ok()?;
        Some(ReadReply {
            total: u64::from_le_bytes(*total),
            mode: u32::from_le_bytes(*mode),
            changed,
            digest,
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn any_bytes_are_a_message_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            if let Some(asked) = ReadRequest::parse(&bytes) {
                prop_assert!(asked.most <= MOST);
                prop_assert_eq!(asked.header(), &bytes[..]);
            }
            if let Some(found) = ReadReply::parse(&bytes) {
                prop_assert_eq!(found.header(), bytes);
            }
        }

        #[test]
        fn what_is_written_is_read(offset: u64, most in 0..=MOST, total: u64, mode: u32, changed: [u64; 3]) {
            let asked = ReadRequest { offset, most, path: Path::new("/var/log/x") };
            let header = asked.header();
            prop_assert_eq!(ReadRequest::parse(&header), Some(asked));
            let found = ReadReply { total, mode, changed, digest: [3; 32] };
            prop_assert_eq!(ReadReply::parse(&found.header()), Some(found));
        }
    }
}
