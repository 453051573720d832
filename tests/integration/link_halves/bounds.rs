//! Memory that a link holds for a peer that does not read is bounded.

use chained_gpc::link::{BODIES_MAX, Outbox};
use chained_gpc::wire::message::{Answer, SubtreeReply};
use chained_gpc::wire::{Body, Budget, Message, Payload, Response};
use gpc_trees::IdList;

use super::{call, request};

fn small(memory: u64, small: u64) -> Outbox {
    let mut outbox = Outbox::new();
    outbox.set_budgets(3, &Budget::new(memory, "a link"), &Budget::new(small, "id 3"));
    outbox
}

/// A peer that granted credit for four billion requests and read none had all of them written out for it.
#[test]
fn no_peer_takes_more_requests_than_the_wire_says() {
    let mut outbox = Outbox::new();
    outbox.add_credit(u32::MAX);
    outbox.add_credit(u32::MAX);
    for sequence in 0..2 * BODIES_MAX as u64 {
        let before = outbox.backlog();
        outbox.push(request(sequence, IdList::range(4..5), Body::default()));
        assert_eq!(outbox.backlog() > before, sequence < BODIES_MAX as u64, "{sequence}");
    }
}

#[test]
fn a_long_reply_that_does_not_fit_becomes_a_failure() {
    let mut outbox = small(100_000, 0);
    let long = |outbox: &mut Outbox, sequence| {
        let data = Payload::from(vec![7; 60_000]);
        let answer =
            Answer::Reply(SubtreeReply { level: 0, header: Payload::new(), data, ..SubtreeReply::default() });
        let before = outbox.backlog();
        outbox.push(Message::Response(Response { call: call(sequence), answer }));
        outbox.backlog() - before
    };
    assert_eq!((long(&mut outbox, 1), outbox.update_full(), outbox.response_count()), (60_000, false, 1));
    assert!(long(&mut outbox, 2) < 200 && outbox.update_full() && outbox.response_count() == 1);
    outbox.stop_response(call(1));
    assert!(!outbox.update_full() && long(&mut outbox, 3) == 60_000);
}

/// Each PING queued a PONG, and each long response without a waiting call a CANCEL: hundreds of megabytes in seconds.
#[test]
fn small_frames_wait_up_to_a_bound_and_pongs_do_not_pile_up() {
    let mut outbox = small(0, 1 << 20);
    (0..1000).for_each(|_| outbox.push(Message::Pong));
    assert_eq!(outbox.backlog(), 8);
    outbox.mark_written(8);
    outbox.push(Message::Pong);
    assert_eq!(outbox.backlog(), 8);
    let bytes_held = (1..).find_map(|sequence| {
        outbox.push(Message::Cancel(call(sequence)));
        outbox.charge_backlog().err().map(|why| (outbox.backlog(), why))
    });
    let (held, why) = bytes_held.unwrap();
    assert!(held <= (1 << 20) + 100 && why.contains("id 3 may hold 1048576 bytes"), "{held}: {why}");
    // Once the peer reads, it gets the rest, in order.
    let held = outbox.backlog() as usize;
    outbox.mark_written(held);
    assert!(outbox.is_idle() && outbox.charge_backlog().is_ok());
}
