//! The first bytes of the sides of a connection: lengths, refusals, and the parsed frames. In these worlds the text of
//! sealed records is readable, but only their sender can make them.

use chained_gpc::link::peering::{FIRST_LENGTH, LENGTH_BYTES, SECOND_LENGTH, TAG, THIRD_LENGTH};
use chained_gpc::wire::Hello;
use chained_gpc::wire::frame::{FRAME_HEADER, FrameHeader, Kind, flags};
use chained_gpc::wire::head::{Goodbye, GoodbyeReason};

/// Bytes of the preamble and the first message, and of those with the third message.
pub(super) const FIRST_END: usize = 8 + LENGTH_BYTES + FIRST_LENGTH;
pub(super) const THIRD_END: usize = FIRST_END + LENGTH_BYTES + THIRD_LENGTH;

/// Bytes of the second message.
pub(super) const SECOND_END: usize = LENGTH_BYTES + SECOND_LENGTH;

/// The refusal of a proof.
pub(super) const REFUSED: [u8; LENGTH_BYTES] = [0; LENGTH_BYTES];

/// Answer to a hello in clear where a proof is required: GOODBYE (refused), `refused`.
pub(super) const REFUSED_IN_CLEAR: &[u8] = b"\x08\x00\x00\x00\x07\x00\x00\x00\x02refused";

/// First frame of a side.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum FirstFrame {
    Hello(Hello),
    Goodbye(GoodbyeReason),
    /// A frame that must not come first.
    Wrong,
}

/// Parses the second frame, if both are complete.
pub(super) fn second(bytes: &[u8], sealed: bool) -> Option<FirstFrame> {
    first(bytes, sealed)?;
    let length = match sealed {
        false => FRAME_HEADER + FrameHeader::parse(*bytes.first_chunk()?).ok()?.length as usize,
        true => LENGTH_BYTES + usize::from(u16::from_le_bytes(*bytes.first_chunk()?)),
    };
    first(bytes.get(length..)?, sealed)
}

/// Parses the first frame after the proof, if it is complete.
pub(super) fn first(bytes: &[u8], sealed: bool) -> Option<FirstFrame> {
    let frame = match sealed {
        false => bytes,
        true => {
            let length = u16::from_le_bytes(*bytes.first_chunk()?);
            bytes.get(LENGTH_BYTES..LENGTH_BYTES + usize::from(length))?.split_last_chunk::<TAG>()?.0
        }
    };
    let header = *frame.first_chunk()?;
    let Ok(FrameHeader { length, kind, flags: set }) = FrameHeader::parse(header) else {
        return Some(FirstFrame::Wrong);
    };
    let payload = frame.get(FRAME_HEADER..FRAME_HEADER + length as usize)?;
    let is_set = |flag| set & flag != 0;
    Some(match kind {
        Kind::Hello => Hello::parse(payload).map_or(FirstFrame::Wrong, |hello| {
            FirstFrame::Hello(Hello { rings: is_set(flags::RINGS), extents: is_set(flags::EXTENTS), ..hello })
        }),
        Kind::Goodbye => {
            Goodbye::parse(payload).map_or(FirstFrame::Wrong, |goodbye| FirstFrame::Goodbye(goodbye.reason))
        }
        _ => FirstFrame::Wrong,
    })
}
