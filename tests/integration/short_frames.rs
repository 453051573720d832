//! Short requests and responses. They are read in place with the same result as by the parser of all frames, or left to
//! that parser. They are written like all other frames.

use std::sync::Arc;
use std::time::Duration;

use crate::wire_support::{read, written};
use bytes::BytesMut;
use chained_gpc::link::Event;
use chained_gpc::wire::message::{Answer, SubtreeReply};
use chained_gpc::wire::short::{KeyBuffer, ShortRequest, ShortResponse, Template, delay};
use chained_gpc::wire::{Body, CallId, Message, ReplyLimits, Request, Response};
use gpc_trees::{IdList, Tree};
use proptest::prelude::*;

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>(), 0..200)
}

fn requests() -> impl Strategy<Value = Request> {
    let ids = prop::sample::select(vec!["7", "7-8", "7-70", "7,9,11,3", "7,100-200,3-5"]);
    let words = (any::<u32>(), any::<u64>(), any::<u64>(), prop::option::of(1u64..), 0u32..1 << 20);
    let bits = (any::<bool>(), any::<bool>(), any::<bool>(), prop::bool::weighted(0.2), any::<bool>());
    let times = (0u64..1 << 40, any::<u32>(), any::<u32>());
    (ids, bytes(), bytes(), words, bits, times).prop_map(|(ids, header, data, words, bits, times)| {
        let (root, sequence, func, callback, position) = words;
        let (reply_wanted, forward_first, odd, partial, flat) = bits;
        let (limit, age, left) = times;
        Request {
            position,
            total: position + (1 << 20),
            func,
            callback,
            reply_wanted,
            forward_first,
            // What is odd of a call that fails as a whole.
            reply_limits: match odd && !partial && flat {
                true => ReplyLimits { header_max: limit, data_max: u64::MAX },
                false => ReplyLimits::UNLIMITED,
            },
            partial,
            skipped: u32::from(partial && odd),
            adopted: partial && odd,
            limit: Duration::from_micros(limit),
            age: Duration::from_millis(age.into()),
            left: Duration::from_millis(left.into()),
            tree: Ok(if flat { Tree::Flat } else { Tree::Binomial }),
            header: header.into(),
            data: Body::whole(data),
            ..Request::new(CallId { root, sequence }, ids.parse::<IdList>().expect("a list"))
        }
    })
}

fn responses() -> impl Strategy<Value = Response> {
    let answer = prop_oneof![
        1 => Just(Answer::Completed),
        4 => (bytes(), bytes(), any::<u16>()).prop_map(|(header, data, level)| {
            Answer::Reply(SubtreeReply { level, header: header.into(), data: data.into(), ..SubtreeReply::default() })
        }),
    ];
    (any::<u32>(), any::<u64>(), answer)
        .prop_map(|(root, sequence, answer)| Response { call: CallId { root, sequence }, answer })
}

/// The request that the parser of all frames reads.
fn parsed(frame: &[u8]) -> Arc<Request> {
    let events = read(frame);
    match events.as_deref() {
        Ok([Event::Request(request)]) => request.clone(),
        _ => panic!("one request, not {events:?}"),
    }
}

fn same(short: &ShortRequest<'_>, request: &Request) {
    let ids = short.plan.ids().expect("a list");
    let again = short.particulars.request(&short.plan, ids).expect("a tree that everybody knows");
    assert_eq!(format!("{again:?}"), format!("{request:?}"));
}

proptest! {
    /// A request that waits before it is read has so much less time, and nothing else of it changes.
    #[test]
    fn a_frame_that_waits_has_less_time(request in requests(), us in 0u64..1 << 41) {
        let waited = Duration::from_micros(us);
        let mut frame = written(Message::Request(Arc::new(request.clone()))).to_vec();
        delay(&mut frame, waited);
        let ms = u32::try_from(us / 1000).unwrap_or(u32::MAX);
        let less = |time: Duration| Duration::from_millis((time.as_millis() as u32).saturating_sub(ms).into());
        let expected = Request {
            limit: request.limit.saturating_sub(waited),
            age: Duration::from_millis((request.age.as_millis() as u32).saturating_add(ms).into()),
            left: less(request.left),
            ..request
        };
        prop_assert_eq!(format!("{:?}", parsed(&frame)), format!("{expected:?}"));
    }

    #[test]
    fn a_request_is_read_as_by_the_parser_of_all_frames(request in requests(), rest in bytes()) {
        let frame = written(Message::Request(Arc::new(request.clone())));
        let all = [&frame[..], &rest].concat();
        let short = ShortRequest::parse(&all);
        prop_assert_eq!(short.is_some(), !request.partial && request.reply_limits.is_unlimited());
        let Some((short, behind)) = short else {
            let (mut room, data) = (KeyBuffer::default(), request.data.as_bytes().unwrap());
            prop_assert_eq!(ShortRequest::of(&request, &data, &mut room), None);
            return Ok(());
        };
        prop_assert_eq!(behind, &rest[..]);
        same(&short, &parsed(&frame));
        // It equals the short form of the request.
        let (mut room, data) = (KeyBuffer::default(), request.data.as_bytes().unwrap());
        prop_assert_eq!(ShortRequest::of(&request, &data, &mut room), Some(short));
    }

    #[test]
    fn a_request_that_is_cut_or_changed_is_never_misread(request in requests(), at: prop::sample::Index, byte: u8, cut: bool) {
        let mut frame = written(Message::Request(Arc::new(request))).to_vec();
        let at = at.index(frame.len());
        if cut {
            prop_assert!(ShortRequest::parse(&frame[..at]).is_none());
            return Ok(());
        }
        frame[at] = byte;
        let Some((short, _)) = ShortRequest::parse(&frame) else { return Ok(()) };
        match (short.plan.ids(), short.plan.tree()) {
            (Some(ids), Some(_)) if u64::from(short.particulars.position) + u64::from(ids.len()) <= u64::from(short.particulars.total) => same(&short, &parsed(&frame)),
            // Such a plan is not made, or not used.
            _ => prop_assert!(!matches!(read(&frame).as_deref(), Ok([Event::Request(good)]) if good.tree.is_ok())),
        }
    }

    #[test]
    fn a_template_writes_what_the_long_way_writes(request in requests(), child in requests()) {
        let (mut room, mut childs_room) = (KeyBuffer::default(), KeyBuffer::default());
        let (data, childs_data) = (request.data.as_bytes().unwrap(), child.data.as_bytes().unwrap());
        let Some(short) = ShortRequest::of(&request, &data, &mut room) else { return Ok(()) };
        let Some(of) = ShortRequest::of(&child, &childs_data, &mut childs_room) else { return Ok(()) };
        let expected = of.particulars.request(&short.plan, child.ids.clone()).unwrap();
        let template = Template::new(&short.plan, &child.ids);
        let mut frame = BytesMut::from(&b"before"[..]);
        template.fill(&of.particulars, None, &mut frame);
        prop_assert_eq!(frame.len(), 6 + template.frame_len(&of.particulars));
        prop_assert_eq!(&frame[6..], &written(Message::Request(Arc::new(expected)))[..]);
    }

    #[test]
    fn children_with_nobody_below_share_a_template(request in requests(), id: u32) {
        let (mut room, data) = (KeyBuffer::default(), request.data.as_bytes().unwrap());
        let Some(short) = ShortRequest::of(&request, &data, &mut room) else { return Ok(()) };
        let alone = |id: u32| IdList::from_ids([id]).unwrap();
        let mut frame = BytesMut::new();
        Template::new(&short.plan, &alone(3)).fill(&short.particulars, Some(id), &mut frame);
        let expected = short.particulars.request(&short.plan, alone(id)).unwrap();
        let expected = written(Message::Request(Arc::new(expected)));
        prop_assert_eq!(&frame[..], &expected[..]);
        // The frames to two ids differ only in the id.
        let (mut other, mut copy) = (BytesMut::new(), BytesMut::from(&b"before"[..]));
        Template::new(&short.plan, &alone(3)).fill(&short.particulars, None, &mut other);
        Template::copy(&other, id, short.particulars.position, &mut copy);
        prop_assert_eq!(&copy[6..], &expected[..]);
    }

    #[test]
    fn a_response_is_read_as_by_the_parser_of_all_frames(response in responses(), rest in bytes()) {
        let frame = written(Message::Response(response.clone()));
        let all = [&frame[..], &rest].concat();
        let Some((short, behind)) = ShortResponse::parse(&all) else { panic!("{response:?} is short") };
        prop_assert_eq!((behind, short.call), (&rest[..], response.call));
        match response.answer {
            Answer::Reply(reply) => {
                let (header, data) = short.reply.unwrap();
                prop_assert_eq!((short.level, header, data), (reply.level, &reply.header.to_bytes()[..], &reply.data.to_bytes()[..]));
            }
            _ => prop_assert_eq!(short.reply, None),
        }
    }

    #[test]
    fn a_response_that_is_cut_or_changed_is_never_misread(response in responses(), at: prop::sample::Index, byte: u8, cut: bool) {
        let mut frame = written(Message::Response(response)).to_vec();
        let at = at.index(frame.len());
        if cut {
            prop_assert!(ShortResponse::parse(&frame[..at]).is_none());
            return Ok(());
        }
        frame[at] = byte;
        let Some((short, _)) = ShortResponse::parse(&frame) else { return Ok(()) };
        let events = read(&frame);
        let Ok([Event::Response(parsed)]) = events.as_deref() else { panic!("the other parser says {events:?}") };
        prop_assert_eq!(short.call, parsed.call);
        match (&parsed.answer, short.reply) {
            (Answer::Completed, None) => {}
            (Answer::Reply(reply), Some((header, data))) => {
                prop_assert_eq!((short.level, header, data), (reply.level, &reply.header.to_bytes()[..], &reply.data.to_bytes()[..]));
            }
            (answer, reply) => panic!("{reply:?} is {answer:?}"),
        }
    }
}

#[test]
fn what_is_long_is_left_to_the_other_parser() {
    let of = |ids: IdList, data: usize| {
        let tree = Ok(Tree::Binomial);
        let data = Body::whole(vec![1; data]);
        Request { tree, data, ..Request::new(CallId { root: 1, sequence: 2 }, ids) }
    };
    let is_short =
        |request: Request| ShortRequest::parse(&written(Message::Request(Arc::new(request)))).is_some();
    let scattered = |n: u32| IdList::from_ids((0..n).map(|id| id * 2)).unwrap();
    assert!(is_short(of(scattered(256), 1000)) && !is_short(of(scattered(257), 1000)));
    assert!(is_short(of(IdList::range(0..1 << 20), 16_000)) && !is_short(of(IdList::range(0..9), 17_000)));
}
