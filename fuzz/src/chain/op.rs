//! The operations on the world, each chosen by a byte of the input.

use std::num::NonZeroU32;
use std::time::Duration;

use chained_gpc::chain::{Input as Happened, JobResult, Start};
use chained_gpc::wire::{Body, Parts, ReplyLimits};
use gpc_trees::{Id, IdList, Layout, Limits, Radix, Tree};

use super::super::input::Input;
use super::forge;
use super::world::{Parcel, World};

/// Time limits, from zero to beyond the end of time.
pub(super) const SPANS: [Duration; 8] = [
    Duration::from_secs(60),
    Duration::from_millis(1),
    Duration::from_millis(50),
    Duration::from_secs(1),
    Duration::from_secs(5),
    Duration::ZERO,
    Duration::from_micros(1),
    Duration::from_micros(u64::MAX),
];

/// Applies the next operation of the input.
pub(super) fn next(world: &mut World, input: &mut Input<'_>) {
    match input.byte() % 32 {
        0..=9 => deliver(world, input, false),
        10 => deliver(world, input, true),
        11..=15 => end_job(world, input, false),
        16 => end_job(world, input, true),
        17..=18 => start(world, input),
        19 => {
            let (index, most) = (input.below(world.arriving.len()), input.byte());
            world.feed(index, most.into());
        }
        20 => duplicate(world, input),
        21 => drop_message(world, input),
        22 => {
            let (a, b) = (id(world, input), id(world, input));
            if a != b && world.nodes.contains_key(&a) && world.nodes.contains_key(&b) {
                world.lose(a, b);
            }
        }
        23 => forge::change(world, input),
        24 => forge::message(world, input),
        25 => forge::bytes(world, input),
        26 => answer(world, input),
        27 => world.pass(world.deadline().unwrap_or_default()),
        28 => world.pass(world.now.saturating_add(input.pick(&SPANS).as_nanos() as u64 / 4)),
        29 => world.kill(id(world, input), input.flag()),
        30 => world.restart(id(world, input)),
        _ => give_up(world, input),
    }
}

pub(super) fn id(world: &World, input: &mut Input<'_>) -> Id {
    input.below(world.n as usize) as Id
}

/// Chooses a link with something under way.
pub(super) fn busy_link(world: &World, input: &mut Input<'_>) -> Option<(Id, Id)> {
    let busy = world.busy();
    busy.get(input.below(busy.len())).copied()
}

fn deliver(world: &mut World, input: &mut Input<'_>, slow: bool) {
    if let Some(link) = busy_link(world, input) {
        world.deliver(link, slow);
    }
}

fn duplicate(world: &mut World, input: &mut Input<'_>) {
    let Some(queue) = busy_link(world, input).and_then(|link| world.links.get_mut(&link)) else { return };
    if let Some(Parcel::Message(message, sent)) = queue.front() {
        let twin = Parcel::Message(message.clone(), *sent);
        queue.push_front(twin);
    }
}

fn drop_message(world: &mut World, input: &mut Input<'_>) {
    let Some(queue) = busy_link(world, input).and_then(|link| world.links.get_mut(&link)) else { return };
    if let Some(Parcel::Message(..)) = queue.front() {
        queue.pop_front();
    }
}

fn end_job(world: &mut World, input: &mut Input<'_>, badly: bool) {
    let index = input.below(world.jobs.len());
    if world.jobs.is_empty() {
        return;
    }
    match if badly { input.byte() % 4 } else { 4 } {
        0 => world.end_job(index, |_| JobResult::Failed("it fails".into())),
        1 => world.end_job(index, |_| JobResult::Refused("no such function".into())),
        2 => world.end_job(index, |_| JobResult::Deferred),
        3 => {
            // The answer arrives before the function ends.
            let (id, call) = (world.jobs[index].0, world.jobs[index].1.call);
            let reply = world.made(index);
            world.input(id, Happened::Answered { call, result: Ok(reply) });
            world.end_job(index, |_| JobResult::Deferred);
            world.deferred.retain(|deferred| !deferred.merges || (deferred.at, deferred.call) != (id, call));
        }
        _ => world.end_job(index, JobResult::Replied),
    }
}

/// Delivers a deferred answer. The token of a func stays until a callback of its call runs at that id, and may be used
/// again.
fn answer(world: &mut World, input: &mut Input<'_>) {
    let (index, good) = (input.below(world.deferred.len()), input.below(4) > 0);
    let Some(deferred) = world.deferred.get(index).cloned() else { return };
    // A second answer of a callback would count as that of the next callback.
    if deferred.merges {
        world.deferred.swap_remove(index);
    }
    let result = if good { Ok(deferred.reply) } else { Err("it was dropped".into()) };
    world.input(deferred.at, Happened::Answered { call: deferred.call, result });
}

fn give_up(world: &mut World, input: &mut Input<'_>) {
    let ticket = input.below(world.calls.len() + 1);
    if let Some(root) = world.calls.get(ticket).map(|call| call.root) {
        world.input(root, Happened::GiveUp { ticket: ticket as u64 });
    } else if let Some(node) = world.nodes.get_mut(&0) {
        node.close();
    }
}

/// Starts a call on some of the ids, and sometimes on an id that has no node.
fn start(world: &mut World, input: &mut Input<'_>) {
    let (root, which, turn, options) = (id(world, input), input.word(), input.byte(), input.byte());
    let mut others: Vec<Id> = (0..=world.n).filter(|at| *at != root && which >> at & 1 == 0).collect();
    let follow = turn & 128 != 0;
    let turn = usize::from(turn).checked_rem(others.len()).unwrap_or_default();
    others.rotate_left(turn);
    // Bit 9 leaves the root out of the list, which every node must reject.
    let first = Some(root).filter(|_| which >> 9 & 1 == 0);
    let ids = IdList::from_ids(first.into_iter().chain(others)).expect("distinct ids");
    let (tree, ids) = tree(input, ids);
    let (limit, data) = (input.pick(&SPANS), input.below(9));
    // Each id has its own number, so often.
    let scattered: Vec<Vec<u8>> = ids.iter().map(|id| vec![id as u8; data % (2 + id as usize)]).collect();
    let scatters = options & 32 != 0;
    let lengths = || Parts::of_lengths(scattered.iter().map(|part| part.len() as u64)).map(Box::new);
    let start = Start {
        callback: (options & 1 != 0).then_some(9),
        reply_wanted: options & 2 == 0,
        forward_first: options & 4 != 0,
        partial: options & 8 != 0,
        watch: options & 16 != 0,
        limit,
        tree,
        parts: scatters.then(lengths).flatten(),
        follow,
        ids,
        reply_limits: reply_limits(which),
        header: vec![7; usize::from(options >> 6)].into(),
        data: Body::whole(if scatters { scattered.concat() } else { vec![8; data] }),
        ..Start::new(7)
    };
    world.start(root, start);
}

/// Limits for replies, from the bits of a word that choose no id: most calls have none.
pub(super) fn reply_limits(which: u16) -> ReplyLimits {
    match which >> 10 & 1 {
        0 => ReplyLimits::UNLIMITED,
        _ => ReplyLimits { header_max: u64::from(which >> 11 & 3), data_max: u64::from(which >> 13) },
    }
}

/// Chooses a tree, and puts the list in its order.
pub(super) fn tree(input: &mut Input<'_>, ids: IdList) -> (Tree, IdList) {
    let choice = input.byte();
    let tree = match choice % 8 {
        0 => Tree::Binary,
        1 => Tree::Binomial,
        2 => Tree::Chain,
        3 => Tree::Flat,
        4 => Tree::Kary(NonZeroU32::MIN.saturating_add(u32::from(choice >> 3))),
        5 => Tree::Knomial(Radix::new(2 + u32::from(choice >> 3)).expect("at least 2")),
        6 => Tree::from_wire(0x8000_0006, 1024 + 97 * u32::from(choice >> 3)).expect("a lag over 1"),
        _ => {
            let parent =
                |position: u32| position.checked_sub(1).map(|last| u32::from(choice >> 3) % (last + 1));
            let parents: Vec<Option<u32>> = (0..ids.len()).map(parent).collect();
            let layout = Layout::from_parents(&parents, &Limits::default()).and_then(|layout| {
                let ids = layout.apply(&ids)?;
                Ok((layout.tree(), ids))
            });
            return layout.unwrap_or((Tree::Binary, ids));
        }
    };
    (tree, ids)
}
