//! The header of a piece of a file, as bytes. The bytes of the piece are the data of the call.
//!
//! Numbers are little-endian: token (8), offset (8), length of the file (8), its permissions (4), what the destination
//! is (1), SHA-256 of the piece (32), length of the name (2), name, destination.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use ring::digest::SHA256;

/// Length of a SHA-256, bytes.
pub(super) const DIGEST: usize = 32;

/// A digest.
pub(super) type Digest = [u8; DIGEST];

/// The SHA-256 of some bytes.
pub(super) fn digest(bytes: &[u8]) -> Digest {
    let mut digest = Digest::default();
    digest.copy_from_slice(ring::digest::digest(&SHA256, bytes).as_ref());
    digest
}

/// What the destination of a file is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Destination {
    /// The path of the file, or a folder for it.
    Path = 0,
    /// A folder for it.
    Folder = 1,
    /// The name of a job, whose processes execute it.
    Job = 2,
}

impl Destination {
    fn of(byte: u8) -> Option<Destination> {
        [Destination::Path, Destination::Folder, Destination::Job]
            .into_iter()
            .find(|known| *known as u8 == byte)
    }
}

/// A piece of a file, and where the file goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Piece<'a> {
    /// Names the copy of one file.
    pub(super) token: u64,
    /// Of its first byte in the file.
    pub(super) offset: u64,
    /// Length of the file.
    pub(super) total: u64,
    /// Permission bits of the file.
    pub(super) mode: u32,
    /// What `to` is.
    pub(super) destination: Destination,
    pub(super) digest: Digest,
    /// Name of the file, without folders.
    pub(super) name: &'a OsStr,
    pub(super) to: &'a Path,
}

impl<'a> Piece<'a> {
    /// The header of a request. The name has less than 64 KiB, as names of files have.
    pub(super) fn header(&self) -> Vec<u8> {
        let Piece { token, offset, total, mode, destination, digest, name, to } = self;
        let name = name.as_bytes();
        let length = u16::try_from(name.len()).unwrap_or(u16::MAX);
        let mut bytes = Vec::new();
        for number in [token, offset, total] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        bytes.extend_from_slice(&mode.to_le_bytes());
        bytes.push(*destination as u8);
        bytes.extend_from_slice(digest);
        bytes.extend_from_slice(&length.to_le_bytes());
        bytes.extend_from_slice(&name[..length.into()]);
        bytes.extend_from_slice(to.as_os_str().as_bytes());
        bytes
    }

    /// Parses a header; `None` if it is not one, or the name has a folder in it.
    pub(super) fn parse(header: &'a [u8]) -> Option<Piece<'a>> {
        let (token, rest) = header.split_first_chunk()?;
        let (offset, rest) = rest.split_first_chunk()?;
        let (total, rest) = rest.split_first_chunk()?;
        let (mode, rest) = rest.split_first_chunk()?;
        let (&destination, rest) = rest.split_first()?;
        let destination = Destination::of(destination)?;
        let (&digest, rest) = rest.split_first_chunk()?;
        let (length, rest) = rest.split_first_chunk()?;
        let (name, to) = rest.split_at_checked(u16::from_le_bytes(*length).into())?;
        let is_name =
            !matches!(name, b"" | b"." | b"..") && !name.iter().any(|byte| matches!(byte, b'/' | 0));
        if !is_name || to.is_empty() || to.contains(&0) {
            return None;
        }
        Some(Piece {
            token: u64::from_le_bytes(*token),
            offset: u64::from_le_bytes(*offset),
            total: u64::from_le_bytes(*total),
            mode: u32::from_le_bytes(*mode),
            destination,
            digest,
            name: OsStr::from_bytes(name),
            to: Path::new(OsStr::from_bytes(to)),
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn piece<'a>(name: &'a str, to: &'a str) -> Piece<'a> {
        let (name, to) = (OsStr::new(name), Path::new(to));
        Piece {
            token: 7,
            offset: 1 << 40,
            total: 1 << 41,
            mode: 0o640,
            destination: Destination::Folder,
            digest: [5; DIGEST],
            name,
            to,
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_piece_or_refused(bytes in prop::collection::vec(any::<u8>(), 60..90)) {
            if let Some(piece) = Piece::parse(&bytes) {
                prop_assert_eq!(piece.header(), bytes);
            }
        }

        #[test]
        fn a_header_that_is_cut_is_refused_or_has_a_shorter_destination(cut in 0usize..80) {
            let header = piece("a.txt", "/tmp/x").header();
            let read = Piece::parse(&header[..cut.min(header.len())]);
            prop_assert_eq!(read.is_some(), cut > header.len() - "/tmp/x".len());
        }
    }

    /// A name with a folder would leave the destination that the user has named.
    #[test]
    fn a_name_has_no_folder() {
        assert_eq!(Piece::parse(&piece("a", "x").header()), Some(piece("a", "x")));
        for name in ["", ".", "..", "a/b", "../a", "a\0"] {
            assert_eq!(Piece::parse(&piece(name, "x").header()), None, "{name:?}");
        }
        assert_eq!(Piece::parse(&piece("a", "").header()), None);
    }
}
