//! The cleartext that the connecting side sends before its proof: protocol, version, and whether records will be
//! sealed.
//!
//! Source: docs/wire.md, "Proof". The proof is bound to the preamble: changing a bit of it breaks the proof.

use crate::wire::frame::VERSION;

/// Length of a preamble, in bytes.
pub(super) const PREAMBLE: usize = 8;

/// First bytes of a preamble. Read as the length of a frame they exceed the limit of frames.
const MAGIC: [u8; 4] = *b"cGPC";

/// The only flag.
const ENCRYPT: u16 = 1;

/// A preamble of this version.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Preamble {
    /// Whether all bytes after the hellos are sealed too.
    pub(super) encrypt: bool,
}

/// Why a preamble is rejected; logged here and not sent to the other side.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub(super) enum PreambleError {
    #[error("it speaks version {0} of the protocol, and this node speaks version {VERSION}")]
    Version(u16),
    #[error("its preamble has unknown flags {0:#x}")]
    Flags(u16),
}

impl Preamble {
    /// Whether the bytes start a preamble rather than a frame.
    pub(super) fn begins(bytes: [u8; PREAMBLE]) -> bool {
        bytes[..4] == MAGIC
    }

    pub(super) fn parse(bytes: [u8; PREAMBLE]) -> Result<Preamble, PreambleError> {
        let [_, _, _, _, version @ .., low, high] = bytes;
        let (version, flags) = (u16::from_le_bytes(version), u16::from_le_bytes([low, high]));
        match (version, flags) {
            (VERSION, flags @ (0 | ENCRYPT)) => Ok(Preamble { encrypt: flags == ENCRYPT }),
            (VERSION, flags) => Err(PreambleError::Flags(flags)),
            (version, _) => Err(PreambleError::Version(version)),
        }
    }

    pub(super) fn emit(self) -> [u8; PREAMBLE] {
        let mut bytes = [0; PREAMBLE];
        bytes[..4].copy_from_slice(&MAGIC);
        bytes[4..6].copy_from_slice(&VERSION.to_le_bytes());
        bytes[6..].copy_from_slice(&u16::from(self.encrypt).to_le_bytes());
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_preamble_parses_as_emitted_and_invalid_ones_are_rejected() {
        for encrypt in [false, true] {
            let bytes = Preamble { encrypt }.emit();
            assert!(Preamble::begins(bytes));
            assert_eq!(Preamble::parse(bytes), Ok(Preamble { encrypt }));
        }
        assert_eq!(Preamble::parse(*b"cGPC\x02\0\0\0"), Err(PreambleError::Version(2)));
        assert_eq!(Preamble::parse([b'c', b'G', b'P', b'C', 4, 0, 2, 0]), Err(PreambleError::Flags(2)));
        assert!(!Preamble::begins([48, 0, 0, 0, 1, 0, 0, 0]), "the header of a hello");
    }
}
