//! Requests that are cancelled or answered at any point of their transfer.

use super::*;

/// Credit of an outbox: the number of small requests that it sends now.
fn credit(outbox: &mut Outbox) -> usize {
    (100..110).for_each(|sequence| outbox.push(small(sequence)));
    let mut frames = Frames::default();
    frames.take(&drain(outbox, usize::MAX));
    frames.counts[2] as usize
}

#[test]
fn a_request_cancelled_before_it_began_costs_nothing() {
    let mut waiting = Outbox::new();
    waiting.push(small(1));
    waiting.push(Message::Cancel(call(1)));
    assert!(waiting.is_idle() && !waiting.prepare());

    let mut admitted = outbox();
    admitted.push(request(1, IdList::range(4..6), Body::whole(vec![1; 1 << 20])));
    admitted.push(Message::Cancel(call(1)));
    assert!(admitted.is_idle() && !admitted.prepare());
    assert_eq!(credit(&mut admitted), HIWATER as usize);
}

/// An answer to a call whose request had not left yet lost its credit for good.
#[test]
fn a_request_answered_before_it_began_costs_nothing() {
    let mut outbox = outbox();
    outbox.push(request(1, IdList::range(4..6), Body::whole(vec![1; 1 << 20])));
    outbox.stop_request(call(1));
    assert!(outbox.is_idle() && !outbox.prepare());
    assert_eq!(credit(&mut outbox), HIWATER as usize);
}

#[test]
fn a_request_cancelled_within_its_prefix_is_abandoned() {
    for answered in [false, true] {
        let (mut outbox, mut inbox) = (outbox(), greeted());
        outbox.push(request(1, scattered(1 << 20), Body::whole("data")));
        let mut events = feed(&mut inbox, drain(&mut outbox, 300_000));
        match answered {
            true => outbox.stop_request(call(1)),
            false => outbox.push(Message::Cancel(call(1))),
        }
        // The chain has not accepted it yet: this is the end of a request from another parent.
        inbox.drop_request(call(1));
        assert!(!inbox.is_idle());
        events.extend(feed(&mut inbox, drain(&mut outbox, usize::MAX)));
        assert_eq!(ends(&events), [(0, "abandoned"), (1, "cancel")]);
        assert!(outbox.is_idle() && inbox.is_idle());
        assert_eq!(credit(&mut outbox), HIWATER as usize - 1, "its credit comes back from the peer alone");
    }
}

#[test]
fn a_request_cancelled_within_its_data_leaves_nothing() {
    for dropped in [false, true] {
        let (mut outbox, mut inbox) = (outbox(), greeted());
        outbox.push(request(1, IdList::range(4..6), Body::whole(vec![1; 4 << 20])));
        let mut events = feed(&mut inbox, drain(&mut outbox, 300_000));
        assert_eq!(ends(&events), [(1, "request")]);
        if dropped {
            inbox.drop_request(call(1));
            events.extend(feed(&mut inbox, drain(&mut outbox, 1 << 20)));
        }
        outbox.push(Message::Cancel(call(1)));
        events.extend(feed(&mut inbox, drain(&mut outbox, usize::MAX)));
        assert_eq!(ends(&events), [(1, "request"), (1, "cancel")]);
        assert!(outbox.is_idle() && inbox.is_idle());
    }
}

#[test]
fn a_request_cancelled_when_it_has_left_is_told() {
    let (mut outbox, mut inbox) = (outbox(), greeted());
    outbox.push(small(1));
    outbox.push(Message::Cancel(call(1)));
    outbox.stop_request(call(1));
    let events = feed(&mut inbox, drain(&mut outbox, usize::MAX));
    assert_eq!(ends(&events), [(1, "request"), (1, "cancel")]);
}

#[test]
fn a_call_may_be_sent_again_behind_its_cancel() {
    let (mut outbox, mut inbox) = (outbox(), greeted());
    outbox.push(request(1, IdList::range(4..6), Body::whole(vec![1; 1 << 20])));
    let mut events = feed(&mut inbox, drain(&mut outbox, 300_000));
    outbox.push(Message::Cancel(call(1)));
    outbox.push(request(1, IdList::range(4..6), Body::whole(vec![2; 1 << 20])));
    events.extend(feed(&mut inbox, drain(&mut outbox, usize::MAX)));
    assert_eq!(ends(&events), [(1, "request"), (1, "cancel"), (1, "request"), (1, "data")]);
    let data = events.iter().rev().find_map(|event| match event {
        Event::Request(request) => request.data.bytes(),
        _ => None,
    });
    assert_eq!(data.unwrap(), vec![2; 1 << 20]);
}

/// A link that was replaced wrote the segments of its long messages behind its GOODBYE, and so did what came later.
#[test]
fn nothing_leaves_behind_a_goodbye() {
    let (mut outbox, mut inbox) = (outbox(), greeted());
    outbox.push(request(1, IdList::range(4..6), Body::whole(vec![1; 1 << 20])));
    let mut events = feed(&mut inbox, drain(&mut outbox, 300_000));
    outbox.push(Message::Release(call(2)));
    outbox.push_goodbye(&Goodbye { reason: GoodbyeReason::Duplicate, text: "so long".into() });
    for message in [Message::Pong, small(3), request(4, IdList::range(4..6), Body::whole(vec![1; 1 << 20]))] {
        outbox.push(message);
    }
    outbox.push_credit(1);
    outbox.release_spare_memory();
    events.extend(feed(&mut inbox, drain(&mut outbox, usize::MAX)));
    assert!(matches!(&events[events.len() - 2..], [Event::Release(_), Event::Goodbye(_)]), "{events:?}");
    outbox.release_spare_memory();
    outbox.push(Message::Pong);
    outbox.charge_backlog().unwrap();
    assert!(outbox.small_bytes().is_none() && !outbox.prepare() && outbox.is_idle());
}
