//! Frames: the 8-byte header in front of everything on a link, and the size limits (docs/wire.md, "Frame").

/// Version of the wire format.
pub const VERSION: u16 = 4;

/// Length of a frame's header, in bytes.
pub const FRAME_HEADER: usize = 8;

/// Maximum payload of a frame, in bytes. A small call behind a frame of this size waits about a millisecond, and the
/// system call is still cheap beside the copy.
pub const FRAME_MAX: usize = 1 << 20;

/// Bytes of a body that a sender puts into one frame: the measured best for bulk data over TCP and over Unix sockets.
///
/// Measured with 64 MiB down a chain of 8 processes, in ms of CPU per process over TCP and over Unix sockets: segments
/// of 64 KiB 35.1 and 21.2, 128 KiB 31.6 and 20.4, 256 KiB 30.9 and 19.7, 512 KiB 30.9 and 20.5. A bare C program with
/// 256 KiB takes 25.8 and 17.2.
pub const SEGMENT: usize = 256 << 10;

/// Bytes of the data of a request or a response that a sender may send before the receiver extends the window. A node
/// holds at most this much of a body that passes through it, for each link and call.
///
/// It is large enough to keep the link busy while segments and their acknowledgements travel (a megabyte takes 8 ms at
/// 1 Gbit/s). It is small enough that a node can hold a thousand such calls.
pub const WINDOW: u64 = 4 << 20;

/// Bytes of a request's data that a sender puts into one piece of sealed memory. Measured with 64 MiB down a chain of 8
/// processes on two cores.
pub const EXTENT: usize = 2 << 20;

/// Minimum length of data passed by descriptor, in bytes. Below it, the system calls to pass a descriptor cost more
/// than two copies. It also bounds the descriptors and mappings of a body by the body's length.
pub const EXTENT_MIN: usize = SEGMENT;

/// Maximum length of data passed by one descriptor, in bytes: half a window. A receiver extends the window in quarters,
/// so three quarters of it are free once the receiver has consumed what arrived. A piece therefore always fits
/// eventually.
pub const EXTENT_MAX: usize = WINDOW as usize / 2;

/// Maximum payload of a link's first frame, in bytes: the largest hello with proof, or a goodbye. A peer that has not
/// identified itself takes no more memory.
pub const FIRST_MAX: usize = 512;

/// Maximum length of a request header, in bytes: the source demands less than ARMCI_GPC_HLEN, which is 64 KiB. Reply
/// headers are not bounded by it: an aggregate has those of all ids.
pub const HEADER_MAX: usize = (64 << 10) - 1;

/// Maximum length of ids, shape and header of a request, in bytes: eight million scattered ids with their shape.
pub const PREFIX_MAX: usize = 64 << 20;

/// Maximum length of a response's report, in bytes: eight million ids of which no two neighbours have the same status.
pub const REPORT_MAX: usize = 64 << 20;

/// Maximum length of a response's trace, in bytes: three million ids.
pub const TRACE_MAX: usize = 64 << 20;

/// The kind of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Kind {
    /// Identity of the sender.
    Hello = 1,
    /// A call begins.
    Request = 2,
    /// A call ends.
    Response = 3,
    /// The next part of a body.
    Segment = 4,
    /// A call is cancelled.
    Cancel = 5,
    /// Number of requests consumed.
    Credit = 6,
    /// The link ends.
    Goodbye = 7,
    /// A retained answer is no longer needed.
    Release = 8,
    /// The child has another parent.
    Moved = 9,
    /// Heartbeat request.
    Ping = 10,
    /// Heartbeat.
    Pong = 11,
    /// Limit up to which the data of a request or response may be sent.
    Window = 12,
    /// The next part of a body lies in sealed memory.
    Extent = 13,
    /// The sender stops answering for a while.
    Pause = 14,
    /// What calls of the receiver wait for.
    Stragglers = 15,
}

impl Kind {
    const ALL: [Kind; 15] = [
        Kind::Hello,
        Kind::Request,
        Kind::Response,
        Kind::Segment,
        Kind::Cancel,
        Kind::Credit,
        Kind::Goodbye,
        Kind::Release,
        Kind::Moved,
        Kind::Ping,
        Kind::Pong,
        Kind::Window,
        Kind::Extent,
        Kind::Pause,
        Kind::Stragglers,
    ];

    /// The flag bits defined for this kind.
    fn known_flags(self) -> u8 {
        match self {
            Kind::Request => {
                flags::REPLY_WANTED
                    | flags::FORWARD_FIRST
                    | flags::PARTIAL
                    | flags::ADOPTED
                    | flags::REPLY_LIMITS
                    | flags::TRACE
                    | flags::SCATTER
            }
            Kind::Segment | Kind::Window => flags::OF_RESPONSE,
            Kind::Hello => flags::RINGS | flags::EXTENTS,
            _ => 0,
        }
    }
}

/// Flag bits of the frame header.
pub mod flags {
    /// HELLO, the second on a link: the shared memory that came with the first hello is used from here on.
    pub const RINGS: u8 = 1;
    /// HELLO: once bytes go through rings, the sender accepts data of requests by descriptor.
    pub const EXTENTS: u8 = 2;
    /// REQUEST: replies are collected.
    pub const REPLY_WANTED: u8 = 1;
    /// REQUEST: forward before executing func.
    pub const FORWARD_FIRST: u8 = 2;
    /// REQUEST: partial call, which goes on without lost ids.
    pub const PARTIAL: u8 = 4;
    /// REQUEST: a parent that was lost may already have sent it.
    pub const ADOPTED: u8 = 8;
    /// REQUEST: the body begins with limits for what one id writes.
    pub const REPLY_LIMITS: u8 = 16;
    /// REQUEST: the reply brings the times of all ids.
    pub const TRACE: u8 = 32;
    /// REQUEST: the data are one part for each id of the slice, and the lengths of the parts follow the header.
    pub const SCATTER: u8 = 64;
    /// SEGMENT, WINDOW: belongs to a response, not to a request.
    pub const OF_RESPONSE: u8 = 1;
}

/// A frame's header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FrameHeader {
    /// Bytes of payload that follow.
    pub length: u32,
    /// Kind of the payload.
    pub kind: Kind,
    /// Flag bits of the kind.
    pub flags: u8,
}

impl FrameHeader {
    /// Reads and checks a header.
    pub fn parse(bytes: [u8; FRAME_HEADER]) -> Result<FrameHeader, FrameError> {
        let length = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        if length as usize > FRAME_MAX {
            return Err(FrameError::TooLong { length });
        }
        let kind = Kind::ALL.into_iter().find(|kind| *kind as u8 == bytes[4]);
        let kind = kind.ok_or(FrameError::UnknownKind { kind: bytes[4] })?;
        if bytes[5] & !kind.known_flags() != 0 || bytes[6..8] != [0, 0] {
            return Err(FrameError::UnknownFlags { kind, flags: bytes[5] });
        }
        Ok(FrameHeader { length, kind, flags: bytes[5] })
    }

    /// Returns the header's bytes.
    pub fn emit(self) -> [u8; FRAME_HEADER] {
        let length = self.length.to_le_bytes();
        [length[0], length[1], length[2], length[3], self.kind as u8, self.flags, 0, 0]
    }
}

/// A violation of the frame format by a peer. The link is closed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FrameError {
    /// The length field is over the limit.
    #[error("a frame of {length} bytes is over the limit of {FRAME_MAX}")]
    TooLong {
        /// Announced length.
        length: u32,
    },
    /// No kind has this number.
    #[error("frame kind {kind} is unknown")]
    UnknownKind {
        /// Received kind.
        kind: u8,
    },
    /// A flag or reserved bit that this version does not know is set.
    #[error("flags {flags:#04x} or reserved bits of a {kind:?} frame are unknown")]
    UnknownFlags {
        /// The frame's kind.
        kind: Kind,
        /// Received flags.
        flags: u8,
    },
    /// The payload ends within its fixed part.
    #[error("a {kind:?} frame of {length} bytes is too short: {needed} are needed")]
    TooShort {
        /// The frame's kind.
        kind: Kind,
        /// Bytes of payload present.
        length: usize,
        /// Bytes of its fixed part.
        needed: usize,
    },
    /// More bytes than the frame, or the body they belong to, announced.
    #[error("a {kind:?} frame brings {extra} bytes more than announced")]
    TooMuch {
        /// The frame's kind.
        kind: Kind,
        /// Number of excess bytes.
        extra: u64,
    },
    /// A field has an invalid value.
    #[error("{field} of a {kind:?} frame is {value}: {expected}")]
    BadField {
        /// The frame's kind.
        kind: Kind,
        /// Name of the field.
        field: &'static str,
        /// Received value.
        value: u64,
        /// Valid values.
        expected: &'static str,
    },
    /// A frame that is not allowed at this point.
    #[error("a {kind:?} frame came {when}")]
    OutOfPlace {
        /// The frame's kind.
        kind: Kind,
        /// The situation.
        when: &'static str,
    },
    /// A frame that arrives in pieces is buffered until it is complete, and the buffer exceeds a limit.
    #[error("a {kind:?} frame of {length} bytes came in pieces, and {why}")]
    NoMemory {
        /// The frame's kind.
        kind: Kind,
        /// Bytes of its payload.
        length: usize,
        /// The limit that it exceeds.
        why: String,
    },
    /// The memory that an EXTENT frame announces is invalid.
    #[error("the sealed memory of a request's data: {0}")]
    Extent(String),
    /// The id list of a request is invalid.
    #[error("the id list of a request: {0}")]
    Ids(String),
    /// The explicit shape of a request is invalid.
    #[error("the shape of a request: {0}")]
    Shape(String),
    /// The hello is invalid.
    #[error(transparent)]
    Hello(#[from] HelloError),
}

/// A first frame that is not a hello of this protocol.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HelloError {
    /// The peer speaks another protocol.
    #[error("the peer does not speak this protocol: its first bytes are {0:02x?}")]
    Magic([u8; 4]),
    /// The peer speaks another version of the protocol.
    #[error(
        "the peer speaks version {0} of the wire, this side version {VERSION}: run the same release on both"
    )]
    Version(u16),
}

/// Reads fixed-width little-endian fields from a slice whose length was checked once.
pub(crate) struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    /// The fields of the first `needed` bytes of a payload.
    pub(crate) fn new(kind: Kind, payload: &'a [u8], needed: usize) -> Result<Fields<'a>, FrameError> {
        match payload.get(..needed) {
            Some(fixed) => Ok(Fields(fixed)),
            None => Err(FrameError::TooShort { kind, length: payload.len(), needed }),
        }
    }

    /// The next `N` bytes; the fixed part's length covers every field that its parser reads.
    pub(crate) fn take<const N: usize>(&mut self) -> [u8; N] {
        let (field, rest) = self.0.split_first_chunk::<N>().expect("the fixed part covers every field");
        self.0 = rest;
        *field
    }

    pub(crate) fn u8(&mut self) -> u8 {
        u8::from_le_bytes(self.take())
    }

    pub(crate) fn u16(&mut self) -> u16 {
        u16::from_le_bytes(self.take())
    }

    pub(crate) fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.take())
    }

    pub(crate) fn u64(&mut self) -> u64 {
        u64::from_le_bytes(self.take())
    }
}

/// Checks that a field which must be zero is zero.
pub(crate) fn zero(kind: Kind, field: &'static str, value: u64) -> Result<(), FrameError> {
    match value {
        0 => Ok(()),
        _ => Err(FrameError::BadField { kind, field, value, expected: "it must be zero" }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_read_back_as_written() {
        let header = FrameHeader { length: 70_000, kind: Kind::Request, flags: 3 };
        assert_eq!(header.emit(), [0x70, 0x11, 1, 0, 2, 3, 0, 0]);
        assert_eq!(FrameHeader::parse(header.emit()), Ok(header));
        for kind in Kind::ALL {
            for flags in [0, kind.known_flags()] {
                let longest = FrameHeader { length: FRAME_MAX as u32, kind, flags };
                assert_eq!(FrameHeader::parse(longest.emit()), Ok(longest));
            }
        }
        let of_response = [Kind::Segment, Kind::Window].map(Kind::known_flags);
        assert_eq!(of_response, [flags::OF_RESPONSE; 2]);
    }

    #[test]
    fn headers_out_of_bounds_are_refused() {
        let refused = |bytes| FrameHeader::parse(bytes).unwrap_err();
        assert_eq!(refused([1, 0, 16, 0, 2, 0, 0, 0]), FrameError::TooLong { length: (1 << 20) + 1 });
        assert_eq!(refused([0, 0, 0, 0, 0, 0, 0, 0]), FrameError::UnknownKind { kind: 0 });
        assert_eq!(refused([0, 0, 0, 0, 16, 0, 0, 0]), FrameError::UnknownKind { kind: 16 });
        assert!(matches!(
            refused([0, 0, 0, 0, 1, 4, 0, 0]),
            FrameError::UnknownFlags { kind: Kind::Hello, .. }
        ));
        for bytes in [[0, 0, 0, 0, 2, 128, 0, 0], [0, 0, 0, 0, 2, 0, 1, 0], [0, 0, 0, 0, 2, 0, 0, 1]] {
            assert!(matches!(refused(bytes), FrameError::UnknownFlags { .. }));
        }
    }
}
