//! Input that no honest peer sends: messages changed on the way, forged messages, and arbitrary bytes. All of it
//! arrives as bytes, through the receiving side of a link.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use chained_gpc::chain::{Input as Happened, Node};
use chained_gpc::link::{Context, Event};
use chained_gpc::wire::message::{Answer, Local, Partial, Response, SubtreeReply};
use chained_gpc::wire::{
    Body, CallId, Cause, CauseKind, Coverage, Failure, Message, Parts, Payload, Report, Request, Stage,
    Status,
};
use gpc_trees::{Id, IdList, Tree};

use super::super::input::Input;
use super::super::wire::{feed, greeted, written};
use super::op::{SPANS, busy_link, id, reply_limits, tree};
use super::world::{Parcel, World};

/// A node as the receiving side of its link to a peer sees it.
struct Seen<'a> {
    node: &'a Node,
    peer: Id,
}

impl Context for Seen<'_> {
    fn tree(&self, _id: u64) -> Option<Tree> {
        None
    }

    fn awaits(&self, call: CallId) -> bool {
        self.node.awaits(self.peer, call)
    }

    fn reply_max(&self) -> u64 {
        self.node.config().reply_max
    }
}

/// Changes one byte of a message under way.
pub(super) fn change(world: &mut World, input: &mut Input<'_>) {
    let (link, place, change) = (busy_link(world, input), input.word(), input.byte());
    let Some((from, to)) = link else { return };
    let queue = world.links.entry((from, to)).or_default();
    let Some(Parcel::Message(message, _)) = queue.front() else { return };
    if matches!(message, Message::Response(Response { answer: Answer::Arriving(_), .. })) {
        return;
    }
    let mut bytes = written(message.clone(), &[]);
    queue.pop_front();
    let place = usize::from(place) % bytes.len();
    bytes[place] ^= change;
    hear(world, from, to, &bytes);
}

/// Feeds a node the bytes of the input as they are.
pub(super) fn bytes(world: &mut World, input: &mut Input<'_>) {
    let (from, to, length) = (id(world, input), id(world, input), input.byte());
    let bytes = input.bytes(length.into());
    if from != to {
        hear(world, from, to, bytes);
    }
}

/// Forges a message of any kind with plausible content.
pub(super) fn message(world: &mut World, input: &mut Input<'_>) {
    let (from, to, kind) = (id(world, input), id(world, input), input.byte());
    let call = call(world, input);
    let message = match kind % 8 {
        0..=2 => request(world, input, to, call),
        3..=4 => Message::Response(Response { call, answer: answer(input) }),
        5 => Message::Cancel(call),
        6 => Message::Release(call),
        _ => Message::Moved(call),
    };
    if from != to {
        hear(world, from, to, &written(message, &[]));
    }
}

/// Returns the name of a call that may exist.
fn call(world: &World, input: &mut Input<'_>) -> CallId {
    let choice = input.byte();
    let root = u32::from(choice & 7) % world.n;
    CallId { root, sequence: 1000 + u64::from(choice >> 3) % 4 + 1_000_000 * world.run_of(root) }
}

fn request(world: &World, input: &mut Input<'_>, to: Id, call: CallId) -> Message {
    let (which, turn, flags) = (input.word(), input.byte(), input.byte());
    let scatters = turn & 128 != 0;
    let mut others: Vec<Id> = (0..=world.n).filter(|at| *at != to && which >> at & 1 == 0).collect();
    let turn = usize::from(turn).checked_rem(others.len()).unwrap_or_default();
    others.rotate_left(turn);
    let ids = IdList::from_ids(std::iter::once(to).chain(others)).expect("distinct ids");
    let (tree, ids) = tree(input, ids);
    let mut span = || input.pick(&SPANS);
    let (limit, age, left) = (span(), span(), span());
    let data = input.below(5);
    let lengths = (0..ids.len() as usize).map(|place| if place == 0 { data as u64 } else { 0 });
    let parts = scatters.then(|| Parts::of_lengths(lengths).map(Box::new)).flatten();
    let request = Request {
        call,
        position: to,
        total: 2 * world.n + 2,
        func: 7,
        callback: (flags & 1 != 0).then_some(9),
        // The highest bit of the skipped parents, which are few.
        local: Local { trace: flags & 128 != 0, ..Local::default() },
        reply_limits: reply_limits(which),
        reply_wanted: flags & 2 == 0,
        forward_first: flags & 4 != 0,
        partial: flags & 8 != 0,
        adopted: flags & 16 != 0,
        skipped: u32::from(flags >> 5),
        limit,
        age: age.min(Duration::from_secs(1 << 20)),
        left,
        tree: Ok(tree),
        ids,
        header: Bytes::new(),
        data: Body::default(),
        parts,
    };
    Message::Request(Arc::new(request.with_body(Body::whole(vec![6; data]))))
}

fn answer(input: &mut Input<'_>) -> Answer {
    let (kind, level) = (input.byte(), input.byte() % 3);
    let text = |input: &mut Input<'_>| -> Payload {
        let length = input.below(12);
        Bytes::copy_from_slice(input.bytes(length)).into()
    };
    let reply = |input: &mut Input<'_>| SubtreeReply {
        level: level.into(),
        header: text(input),
        data: text(input),
        ..SubtreeReply::default()
    };
    match kind % 4 {
        0 => Answer::Completed,
        1 => Answer::Reply(reply(input)),
        2 => {
            // The number may be that of a known kind or of an unknown one.
            let id = input.byte();
            let cause = Cause::new(id.into(), Stage::Func, CauseKind::from_number(id.into()), "forged");
            Answer::Failed(Box::new(Failure { cause, coverage: coverage(input) }))
        }
        _ => {
            let (reply, coverage) = (reply(input), coverage(input));
            Answer::Partial(Box::new(Partial { reply, report: Report { causes: vec![], coverage } }))
        }
    }
}

fn coverage(input: &mut Input<'_>) -> Coverage {
    let mut coverage = Coverage::new();
    for _ in 0..input.below(5) {
        let run = input.byte();
        let status = Status::from_wire(run & 3).expect("one of four");
        coverage.push(status, u32::from(run >> 2) % 9);
    }
    coverage
}

/// Feeds a node bytes on the link from a peer. A violation of the protocol breaks the link.
fn hear(world: &mut World, from: Id, to: Id, bytes: &[u8]) {
    world.honest = false;
    let Some(node) = world.nodes.get(&to) else { return };
    let (events, result) = feed(&mut greeted(), bytes, &[], &Seen { node, peer: from });
    for event in events {
        let message = match event {
            Event::Request(request) => {
                *world.owed.entry((to, from)).or_default() += 1;
                Message::Request(request)
            }
            Event::Response(response) => Message::Response(response),
            Event::Oversized { call, bytes, .. } => {
                let message = format!("a reply of {bytes} bytes");
                let cause = Cause::new(from, Stage::Reply, CauseKind::OverLimit, message);
                let failure = Failure { cause, coverage: Coverage::new() };
                Message::Response(Response { call, answer: Answer::Failed(Box::new(failure)) })
            }
            Event::Cancel(call) => Message::Cancel(call),
            Event::Release(call) => Message::Release(call),
            Event::Moved(call) => Message::Moved(call),
            Event::Ping => Message::Ping,
            Event::Pong => Message::Pong,
            Event::Stragglers(calls) => Message::Stragglers(calls),
            Event::Pause(length) => Message::Pause(length),
            Event::DataArrived(call) | Event::StreamedData(call) => {
                world.input(to, Happened::DataArrived(call));
                continue;
            }
            Event::Goodbye(_) | Event::Hello(_) => return world.lose(from, to),
            Event::ReplyArrived(call) => {
                world.input(to, Happened::ReplyArrived { from, call });
                continue;
            }
            Event::RequestAbandoned | Event::Credit(_) | Event::Window(_) | Event::DataGrew => continue,
            Event::ReplyStarted | Event::UnawaitedReply(_) | Event::RequestStarted { .. } => continue,
            // The memory of this node has no bound.
            Event::RequestRefused(_) | Event::DataRefused { .. } | Event::ReplyRefused { .. } => {
                panic!("refused by no limit: {event:?}")
            }
        };
        world.input(to, Happened::Message { from, message });
    }
    if result.is_err() {
        world.lose(from, to);
    }
}
