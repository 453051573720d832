//! Frames: the 8-byte header before everything on a link, and the limits (docs/wire.md, "Frame").

/// The version of the wire that this code speaks.
pub const VERSION: u16 = 2;

/// Bytes of a frame's header.
pub const FRAME_HEADER: usize = 8;

/// Longest payload of a frame: a segment of a long message, small enough that a small call behind it on the link waits about a
/// millisecond, large enough that its system call is cheap beside its copy.
pub const FRAME_MAX: usize = 1 << 20;

/// Bytes of body that a sender puts into one frame: the measured best for bulk data over TCP and over Unix sockets. For 64 MiB down a chain of 8 processes each spends this many ms of its CPU on them over TCP and Unix sockets: by 64 KiB 35.1
/// and 21.2, by 128 KiB 31.6 and 20.4, by 256 KiB 30.9 and 19.7, by 512 KiB 30.9 and 20.5; a bare program in C by 256 KiB 25.8 and 17.2.
pub const SEGMENT: usize = 256 << 10;

/// Bytes of the data of a request or a response that a sender may send before the receiver says how far it may go on: what a node holds at most of a body that passes through it, for each link and call. Large enough that the
/// segments on a link and the answers to them keep it busy (a megabyte is 8 ms at 1 Gbit/s), small enough that a thousand such calls fit a node.
pub const WINDOW: u64 = 4 << 20;

/// Bytes of a request's data that a sender puts into one piece of sealed memory. Measured for 64 MiB down a chain of 8 processes of two cores.
pub const EXTENT: usize = 2 << 20;

/// Fewest bytes of data that come by descriptor: below it the calls of the system that hand one over cost more than two copies. It bounds the descriptors and mappings of a body by its length, too.
pub const EXTENT_MIN: usize = SEGMENT;

/// Most bytes of data that come by one descriptor: half a window. A receiver tells by the quarter how far the data may come, so three quarters of one are there as soon as it has taken what has come: no piece waits for ever.
pub const EXTENT_MAX: usize = WINDOW as usize / 2;

/// Longest payload of a link's first frame: a hello with more proof than any, or a goodbye. Whoever has not said who he is takes no more memory.
pub const FIRST_MAX: usize = 512;

/// Longest request header: the source's ARMCI_GPC_HLEN.
pub const HEADER_MAX: usize = 64 << 10;

/// Most bytes of ids, shape and header of a request: eight million scattered ids with their shape.
pub const PREFIX_MAX: usize = 64 << 20;

/// Most bytes of a response's report: eight million ids of which no two neighbours fared alike.
pub const REPORT_MAX: usize = 64 << 20;

/// What a frame is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Kind {
    /// Who I am.
    Hello = 1,
    /// A call begins.
    Request = 2,
    /// A call ends.
    Response = 3,
    /// The next part of a body.
    Segment = 4,
    /// Forget a call.
    Cancel = 5,
    /// Requests were consumed.
    Credit = 6,
    /// The link ends.
    Goodbye = 7,
    /// A kept answer is not needed any more.
    Release = 8,
    /// The child has another parent now.
    Moved = 9,
    /// Are you there?
    Ping = 10,
    /// Yes.
    Pong = 11,
    /// So far the data of a request, or of a response, may come.
    Window = 12,
    /// The next part of a body lies in sealed memory.
    Extent = 13,
    /// The sender answers nothing for a while.
    Pause = 14,
}

impl Kind {
    const ALL: [Kind; 14] = [
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
    ];

    /// The flag bits that mean something for this kind.
    fn known_flags(self) -> u8 {
        match self {
            Kind::Request => flags::REPLY_WANTED | flags::FORWARD_FIRST | flags::PARTIAL | flags::ADOPTED,
            Kind::Segment | Kind::Window => flags::OF_RESPONSE,
            Kind::Hello => flags::RINGS | flags::EXTENTS,
            _ => 0,
        }
    }
}

/// Flag bits of the frame header.
pub mod flags {
    /// HELLO, the second on a link: the shared memory that came with the first one is used from here on.
    pub const RINGS: u8 = 1;
    /// HELLO: once bytes go through rings, the sender takes data of requests by descriptor.
    pub const EXTENTS: u8 = 2;
    /// REQUEST: replies are collected.
    pub const REPLY_WANTED: u8 = 1;
    /// REQUEST: forward before executing.
    pub const FORWARD_FIRST: u8 = 2;
    /// REQUEST: the call goes on without those that are lost.
    pub const PARTIAL: u8 = 4;
    /// REQUEST: a parent that was lost may have sent it before.
    pub const ADOPTED: u8 = 8;
    /// SEGMENT, WINDOW: it is of a response, not of a request.
    pub const OF_RESPONSE: u8 = 1;
}

/// A frame's header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FrameHeader {
    /// Bytes of payload that follow.
    pub length: u32,
    /// What the payload is.
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

    /// The header's bytes.
    pub fn emit(self) -> [u8; FRAME_HEADER] {
        let length = self.length.to_le_bytes();
        [length[0], length[1], length[2], length[3], self.kind as u8, self.flags, 0, 0]
    }
}

/// Bytes from a peer that are no frame of this protocol. The link they came on is closed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FrameError {
    /// The length field is over the limit.
    #[error("a frame of {length} bytes is over the limit of {FRAME_MAX}")]
    TooLong {
        /// As announced.
        length: u32,
    },
    /// No kind has this number.
    #[error("frame kind {kind} is unknown")]
    UnknownKind {
        /// As received.
        kind: u8,
    },
    /// A flag or reserved bit that this version does not know.
    #[error("flags {flags:#04x} or reserved bits of a {kind:?} frame are unknown")]
    UnknownFlags {
        /// The frame's kind.
        kind: Kind,
        /// As received.
        flags: u8,
    },
    /// The payload ends before its fixed part does.
    #[error("a {kind:?} frame of {length} bytes is too short: {needed} are needed")]
    TooShort {
        /// The frame's kind.
        kind: Kind,
        /// Bytes of payload there are.
        length: usize,
        /// Bytes of its fixed part.
        needed: usize,
    },
    /// More bytes than the frame or the body they belong to announced.
    #[error("a {kind:?} frame brings {extra} bytes more than announced")]
    TooMuch {
        /// The frame's kind.
        kind: Kind,
        /// How many too many.
        extra: u64,
    },
    /// A field that holds what it must not.
    #[error("{field} of a {kind:?} frame is {value}: {expected}")]
    BadField {
        /// The frame's kind.
        kind: Kind,
        /// Which field.
        field: &'static str,
        /// As received.
        value: u64,
        /// What would be right.
        expected: &'static str,
    },
    /// A frame that must not come now.
    #[error("a {kind:?} frame came {when}")]
    OutOfPlace {
        /// The frame's kind.
        kind: Kind,
        /// In which situation.
        when: &'static str,
    },
    /// A frame whose bytes come one by one takes memory until it is whole.
    #[error("a {kind:?} frame of {length} bytes came in pieces, and {why}")]
    NoMemory {
        /// The frame's kind.
        kind: Kind,
        /// Bytes of its payload.
        length: usize,
        /// Which limit it is over.
        why: String,
    },
    /// The memory that an EXTENT frame speaks of.
    #[error("the sealed memory of a request's data: {0}")]
    Extent(String),
    /// The list of ids of a request.
    #[error("the id list of a request: {0}")]
    Ids(String),
    /// The explicit shape of a request.
    #[error("the shape of a request: {0}")]
    Shape(String),
    /// The hello.
    #[error(transparent)]
    Hello(#[from] HelloError),
}

/// A first frame that is no hello of this protocol.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HelloError {
    /// Another protocol, or none.
    #[error("the peer does not speak this protocol: its first bytes are {0:02x?}")]
    Magic([u8; 4]),
    /// Another version of it.
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

/// Errors unless a field that must be zero is.
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
    }

    #[test]
    fn headers_out_of_bounds_are_refused() {
        let refused = |bytes| FrameHeader::parse(bytes).unwrap_err();
        assert_eq!(refused([1, 0, 16, 0, 2, 0, 0, 0]), FrameError::TooLong { length: (1 << 20) + 1 });
        assert_eq!(refused([0, 0, 0, 0, 0, 0, 0, 0]), FrameError::UnknownKind { kind: 0 });
        assert_eq!(refused([0, 0, 0, 0, 15, 0, 0, 0]), FrameError::UnknownKind { kind: 15 });
        assert!(matches!(
            refused([0, 0, 0, 0, 1, 4, 0, 0]),
            FrameError::UnknownFlags { kind: Kind::Hello, .. }
        ));
        assert!(matches!(refused([0, 0, 0, 0, 2, 16, 0, 0]), FrameError::UnknownFlags { .. }));
    }
}
