//! The first frame on a link: the sender's id, incarnation and job (docs/wire.md, "HELLO").

use gpc_trees::Id;

use super::Job;
use super::frame::{Fields, FrameError, HelloError, Kind, VERSION, zero};

const MAGIC: [u8; 4] = *b"cGPC";
const LENGTH: usize = 48;

/// Identity of one side of a link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hello {
    /// Id of the sender.
    pub from: Id,
    /// Id that the sender expects at the other side.
    pub to: Id,
    /// Run of the sender's id: nanoseconds since 1970 at its start.
    pub incarnation: u64,
    /// Count of first hellos between the two ids, as far as the sender knows.
    pub generation: u32,
    /// Number of unacknowledged requests that the sender accepts.
    pub hiwater: u32,
    /// The sender's job: nodes of different jobs do not link with each other.
    pub job: Job,
    /// Whether the sender has mapped the shared memory from the other side and uses its rings from this hello on. A
    /// flag of the frame, not a field of the payload.
    pub rings: bool,
    /// Whether the sender accepts data by descriptor once bytes go through rings. Also a flag of the frame.
    pub extents: bool,
}

impl Hello {
    /// Reads the payload of a HELLO frame; `rings` and `extents` are not part of it and stay false.
    pub fn parse(payload: &[u8]) -> Result<Hello, FrameError> {
        let mut fields = Fields::new(Kind::Hello, payload, LENGTH)?;
        let magic = fields.take();
        if magic != MAGIC {
            return Err(HelloError::Magic(magic).into());
        }
        let version = fields.u16();
        if version != VERSION {
            return Err(HelloError::Version(version).into());
        }
        zero(Kind::Hello, "zero", fields.u16().into())?;
        let hello = Hello {
            from: fields.u32(),
            to: fields.u32(),
            incarnation: fields.u64(),
            generation: fields.u32(),
            hiwater: fields.u32(),
            job: Job(fields.take()),
            rings: false,
            extents: false,
        };
        if payload.len() > LENGTH {
            return Err(FrameError::TooMuch { kind: Kind::Hello, extra: (payload.len() - LENGTH) as u64 });
        }
        if hello.hiwater == 0 {
            let expected = "a node must take at least one request";
            return Err(FrameError::BadField { kind: Kind::Hello, field: "hiwater", value: 0, expected });
        }
        Ok(hello)
    }

    /// Returns the payload of a HELLO frame.
    pub fn emit(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(LENGTH);
        bytes.extend_from_slice(&MAGIC);
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        bytes.extend_from_slice(&0u16.to_le_bytes());
        bytes.extend_from_slice(&self.from.to_le_bytes());
        bytes.extend_from_slice(&self.to.to_le_bytes());
        bytes.extend_from_slice(&self.incarnation.to_le_bytes());
        bytes.extend_from_slice(&self.generation.to_le_bytes());
        bytes.extend_from_slice(&self.hiwater.to_le_bytes());
        bytes.extend_from_slice(&self.job.0);
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hello() -> Hello {
        Hello {
            from: 3,
            to: 4,
            incarnation: 0x0102_0304_0506_0708,
            generation: 1,
            hiwater: 64,
            job: Job([7; 16]),
            rings: false,
            extents: false,
        }
    }

    #[test]
    fn a_hello_reads_back_as_written() {
        assert_eq!(Hello::parse(&hello().emit()), Ok(hello()));
    }

    #[test]
    fn what_is_no_hello_is_refused_with_its_reason() {
        let with = |place: usize, byte: u8| {
            let mut bytes = hello().emit();
            bytes[place] = byte;
            Hello::parse(&bytes).unwrap_err()
        };
        assert_eq!(with(0, b'H'), HelloError::Magic(*b"HGPC").into());
        assert_eq!(with(4, 9), HelloError::Version(9).into());
        assert!(matches!(with(6, 32), FrameError::BadField { field: "zero", value: 32, .. }));
        assert!(matches!(with(28, 0), FrameError::BadField { field: "hiwater", .. }));
        assert!(matches!(Hello::parse(&hello().emit()[..47]), Err(FrameError::TooShort { length: 47, .. })));
        let long = [hello().emit(), vec![0]].concat();
        assert!(matches!(Hello::parse(&long), Err(FrameError::TooMuch { extra: 1, .. })));
    }
}
