//! A request to one id alone is read in place as the parser of all frames reads it, or is left to that.

mod wire_support;

use std::sync::Arc;
use std::time::Duration;

use chained_gpc::runtime::link::Event;
use chained_gpc::wire::leaf::LeafRequest;
use chained_gpc::wire::{Body, CallId, Message, Request};
use gpc_trees::IdList;
use proptest::prelude::*;
use wire_support::{read, written};

const ME: u32 = 7;

fn requests() -> impl Strategy<Value = Request> {
    let ids = prop_oneof![4 => Just(7u32..8), 1 => Just(7..9), 1 => Just(6..7)];
    let bytes = || prop::collection::vec(any::<u8>(), 0..200);
    let words = (any::<u32>(), any::<u64>(), any::<u32>(), prop::option::of(1u32..));
    let bits = (any::<bool>(), any::<bool>(), any::<bool>(), prop::bool::weighted(0.2));
    (ids, bytes(), bytes(), words, bits, 0u64..1 << 40).prop_map(|(ids, header, data, words, bits, limit)| {
        let (root, sequence, func, callback) = words;
        let (reply_wanted, forward_first, odd, partial) = bits;
        Request {
            func,
            callback,
            reply_wanted,
            forward_first,
            partial,
            skipped: u32::from(partial && odd),
            adopted: partial && odd,
            limit: Duration::from_micros(limit),
            header: header.into(),
            data: Body::whole(data),
            ..Request::new(CallId { root, sequence }, IdList::range(ids))
        }
    })
}

proptest! {
    #[test]
    fn it_is_read_as_by_the_parser_of_all_frames(request in requests(), rest in prop::collection::vec(any::<u8>(), 0..30)) {
        let frame = written(Message::Request(Arc::new(request.clone())));
        let bytes = [&frame[..], &rest].concat();
        let leaf = LeafRequest::parse(&bytes, ME);
        let alone = request.ids.len() == 1 && request.ids.first() == Some(ME);
        prop_assert_eq!(leaf.is_some(), alone && !request.partial);
        let Some((leaf, behind)) = leaf else { return Ok(()) };
        prop_assert_eq!(behind, &rest[..]);
        let events = read(&frame).unwrap();
        let [Event::Request(parsed)] = &events[..] else { panic!("one request, not {events:?}") };
        prop_assert_eq!((leaf.head.call, leaf.head.func, leaf.head.limit), (parsed.call, parsed.func, parsed.limit));
        prop_assert_eq!(leaf.head.callback, parsed.callback.unwrap_or(0));
        prop_assert_eq!((leaf.reply_wanted, leaf.header), (parsed.reply_wanted, &parsed.header[..]));
        prop_assert_eq!(leaf.data, &parsed.data.bytes().unwrap()[..]);
    }

    #[test]
    fn what_is_cut_or_changed_is_never_misread(request in requests(), at: prop::sample::Index, byte: u8, cut: bool) {
        let mut frame = written(Message::Request(Arc::new(request))).to_vec();
        let at = at.index(frame.len());
        if cut {
            prop_assert!(LeafRequest::parse(&frame[..at], ME).is_none());
            return Ok(());
        }
        frame[at] = byte;
        if let Some((leaf, _)) = LeafRequest::parse(&frame, ME) {
            let events = read(&frame);
            let Ok([Event::Request(parsed)]) = events.as_deref() else { panic!("the other parser says {events:?}") };
            prop_assert_eq!((leaf.head.call, leaf.data), (parsed.call, &parsed.data.bytes().unwrap()[..]));
            prop_assert_eq!(parsed.ids.iter().collect::<Vec<_>>(), [ME]);
            prop_assert!(!parsed.partial && !parsed.adopted && parsed.skipped == 0 && parsed.tree.is_ok());
        }
    }
}
