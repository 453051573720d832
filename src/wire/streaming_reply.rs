//! Streaming reply: the reply of a subtree whose data are still arriving.
//!
//! Its level, its header and all lengths are known. Its data are parts that are present and parts that are still
//! arriving, each of the latter with the [`Body`] that the link reads from. An id aggregates streaming replies like
//! complete ones, by prepending, and forwards them before all bytes have arrived. Source: the ARMCI design of chained
//! GPC (2007), "The action for any response" 2, for long replies.

use bytes::Bytes;

use super::level::{Joiner, LevelLimit, MAX_LEVEL, aggregate_parts};
use super::subtree_reply::SubtreeReply;
use super::{Body, Payload};

/// A subtree's reply with data still arriving. Its call has no callback, so the data are level-n data.
#[derive(Clone, Debug, Default)]
pub struct StreamingReply {
    /// Height above the leaves.
    pub level: u16,
    /// Reply header, whole.
    pub header: Payload,
    /// Reply data.
    pub data: StreamingData,
}

impl StreamingReply {
    /// Length of header and data together when complete, in bytes; saturates at `u64::MAX`.
    pub fn len(&self) -> u64 {
        (self.header.len() as u64).saturating_add(self.data.len())
    }

    /// Whether header and data are both empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the reply with complete data; `None` while some are still arriving, or if they were forwarded and
    /// dropped.
    pub fn whole(&self) -> Option<SubtreeReply> {
        let mut data = Payload::new();
        for part in &self.data.parts {
            match part {
                StreamingPart::Arrived(bytes) => data.push(bytes.clone()),
                StreamingPart::Arriving(body) => data.append(&body.payload()?),
            }
        }
        Some(SubtreeReply { level: self.level, header: self.header.clone(), data, ..SubtreeReply::default() })
    }
}

/// Data in parts, some of which may still be arriving. No part is empty.
#[derive(Clone, Debug, Default)]
pub struct StreamingData {
    parts: Vec<StreamingPart>,
    len: u64,
}

/// One part of a [`StreamingData`].
#[derive(Clone, Debug)]
pub enum StreamingPart {
    /// Present bytes.
    Arrived(Bytes),
    /// Bytes that were still arriving when the part was added.
    Arriving(Body),
}

impl StreamingData {
    /// Total length when complete, in bytes; saturates at `u64::MAX`.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether the length is zero.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The parts in order.
    pub fn parts(&self) -> &[StreamingPart] {
        &self.parts
    }

    /// Returns the parts in order.
    pub fn into_parts(self) -> Vec<StreamingPart> {
        self.parts
    }

    /// Returns bytes from `offset`, at most `max` and from one part; empty if they have not arrived or were dropped.
    pub fn read(&self, mut offset: u64, max: usize) -> Bytes {
        for part in &self.parts {
            let len = match part {
                StreamingPart::Arrived(bytes) => bytes.len() as u64,
                StreamingPart::Arriving(body) => body.len(),
            };
            if offset >= len {
                offset -= len;
                continue;
            }
            return match part {
                StreamingPart::Arrived(bytes) => {
                    let start = offset as usize;
                    bytes.slice(start..start.saturating_add(max).min(bytes.len()))
                }
                StreamingPart::Arriving(body) => body.read(offset, max),
            };
        }
        Bytes::new()
    }

    /// Appends present bytes.
    pub fn push_arrived(&mut self, payload: &Payload) {
        self.len = self.len.saturating_add(payload.len() as u64);
        self.parts.extend(payload.parts().map(|part| StreamingPart::Arrived(part.into())));
    }

    /// Appends a body that is still arriving.
    pub fn push_arriving(&mut self, body: Body) {
        if !body.is_empty() {
            self.len = self.len.saturating_add(body.len());
            self.parts.push(StreamingPart::Arriving(body));
        }
    }
}

impl From<Body> for StreamingData {
    fn from(body: Body) -> StreamingData {
        let mut data = StreamingData::default();
        data.push_arriving(body);
        data
    }
}

/// A child's reply, complete or streaming.
#[derive(Debug)]
pub enum ChildReply {
    /// The complete reply.
    Whole(SubtreeReply),
    /// A reply with data still arriving.
    Arriving(StreamingReply),
}

impl ChildReply {
    fn level(&self) -> u16 {
        match self {
            ChildReply::Whole(reply) => reply.level,
            ChildReply::Arriving(reply) => reply.level,
        }
    }

    fn header(&self) -> &Payload {
        match self {
            ChildReply::Whole(reply) => &reply.header,
            ChildReply::Arriving(reply) => &reply.header,
        }
    }
}

/// Aggregates an id's own header and data with its children's replies, like [`aggregate`](super::level::aggregate) does
/// for complete data.
///
/// # Errors
/// If a child's data are of level [`MAX_LEVEL`]: there is no level above it.
pub fn aggregate_streaming(
    own: Option<(Bytes, Bytes)>,
    children: &[ChildReply],
) -> Result<StreamingReply, LevelLimit> {
    let (own_header, own_data) = own.unzip();
    let header = aggregate_parts(own_header, children.iter().map(|child| (child.level(), child.header())))?;
    let highest = children.iter().map(ChildReply::level).max().unwrap_or_default();
    if highest == MAX_LEVEL {
        return Err(LevelLimit);
    }
    let mut data = StreamingData::default();
    let mut joiner = Joiner::with_capacity(0);
    joiner.count(children.len() + usize::from(own_data.is_some()));
    if let Some(bytes) = own_data {
        joiner.lift(highest);
        joiner.count(bytes.len());
        joiner.bytes(bytes);
    }
    for child in children {
        joiner.lift(highest - child.level());
        match child {
            ChildReply::Whole(reply) => joiner.payload(&reply.data),
            ChildReply::Arriving(reply) => {
                for part in reply.data.parts() {
                    match part {
                        StreamingPart::Arrived(bytes) => joiner.bytes(bytes.clone()),
                        StreamingPart::Arriving(body) => {
                            data.push_arrived(
                                &std::mem::replace(&mut joiner, Joiner::with_capacity(0)).finish(),
                            );
                            data.push_arriving(body.clone());
                        }
                    }
                }
            }
        }
    }
    data.push_arrived(&joiner.finish());
    Ok(StreamingReply { level: header.level, header: header.data, data })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::wire::BodyWriter;
    use crate::wire::level::{Leaves, Leveled, Limits, aggregate};

    /// Level-n data of one leaf.
    fn leaf(level: u16, bytes: &[u8]) -> Payload {
        let mut value = aggregate(Some(Bytes::copy_from_slice(bytes)), &[]).unwrap();
        for _ in 0..level {
            value = aggregate(None, &[value]).unwrap();
        }
        value.data
    }

    /// The same reply, arriving in one body.
    fn arriving(reply: &SubtreeReply) -> (StreamingReply, BodyWriter) {
        let (body, writer) = Body::arriving(reply.data.len() as u64);
        (StreamingReply { level: reply.level, header: reply.header.clone(), data: body.into() }, writer)
    }

    proptest! {
        /// The aggregate of streaming replies equals the aggregate of the complete replies.
        #[test]
        fn it_is_the_aggregate_of_the_whole_replies(
            own in proptest::option::of((0usize..40, 0usize..6000)),
            children in proptest::collection::vec((0u16..4, 0usize..6000, any::<bool>()), 1..6),
        ) {
            let own = own.map(|(header, data)| (vec![b'h'; header], vec![b'o'; data]));
            let whole: Vec<SubtreeReply> = (0u8..).zip(&children).map(|(place, &(level, len, _))| SubtreeReply {
                level,
                header: leaf(level, &[place]),
                data: leaf(level, &vec![place; len]), ..SubtreeReply::default() }).collect();
            let mut writers = Vec::new();
            let mixed: Vec<ChildReply> = whole.iter().zip(&children).map(|(reply, &(_, _, late))| {
                if !late {
                    return ChildReply::Whole(reply.clone());
                }
                let (arriving, writer) = arriving(reply);
                writers.push((writer, reply.data.to_bytes()));
                ChildReply::Arriving(arriving)
            }).collect();
            let made = aggregate_streaming(own.clone().map(|(header, data)| (header.into(), data.into())), &mixed).unwrap();
            let leveled = |pick: fn(&SubtreeReply) -> Payload| {
                whole.iter().map(|reply| Leveled { level: reply.level, data: pick(reply) }).collect::<Vec<_>>()
            };
            let (own_header, own_data) = own.map(|(h, d)| (Bytes::from(h), Bytes::from(d))).unzip();
            let header = aggregate(own_header, &leveled(|reply| reply.header.clone())).unwrap();
            let data = aggregate(own_data, &leveled(|reply| reply.data.clone())).unwrap();
            prop_assert_eq!(made.len(), (header.data.len() + data.data.len()) as u64);
            prop_assert_eq!(made.whole().is_some(), writers.is_empty());
            for (mut writer, bytes) in writers {
                prop_assert_eq!(writer.push(&bytes), bytes.len());
            }
            let mut read = Vec::new();
            while (read.len() as u64) < made.data.len() {
                let piece = made.data.read(read.len() as u64, 1000);
                prop_assert!(!piece.is_empty() && piece.len() <= 1000);
                read.extend_from_slice(&piece);
            }
            prop_assert!(made.data.read(made.data.len(), 9).is_empty());
            let made = made.whole().unwrap();
            prop_assert_eq!(&read[..], &made.data.to_bytes()[..]);
            prop_assert_eq!((made.level, &made.header, &made.data), (data.level, &header.data, &data.data));
            let bytes = made.data.to_bytes();
            prop_assert!(Leaves::new(made.level, &bytes, Limits::default()).all(|leaf| leaf.is_ok()));
        }
    }

    #[test]
    fn there_is_no_level_above_the_highest_and_lengths_do_not_overflow() {
        let child = |level, len| {
            let data = StreamingData::from(Body::arriving(len).0);
            ChildReply::Arriving(StreamingReply { level, header: Payload::new(), data })
        };
        assert_eq!(aggregate_streaming(None, &[child(MAX_LEVEL, 1)]).err(), Some(LevelLimit));
        let huge = aggregate_streaming(None, &[child(0, u64::MAX), child(1, 2)]).unwrap();
        assert_eq!((huge.level, huge.len()), (2, u64::MAX));
    }
}
