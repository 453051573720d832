//! Peering with the real cryptography: two sides that authenticate each other, or one side that receives arbitrary
//! bytes in any cuts. A link must come up only from bytes that the real other side has written.
//!
//! Input: a byte of choices; then cuts and the received bytes for one side, or the operations on the bytes between two.

use std::collections::VecDeque;

use chained_gpc::chain::Time;
use chained_gpc::link::peering::{
    Book, FeedContext, HALF_OPEN_MAX, Identity, LENGTH_BYTES, LinkKey, Noise, Output, Peering, PrivateKey,
    PublicKey, RECORD_MAX, SECOND_LENGTH, Secret, Strictness, Transport,
};
use chained_gpc::wire::CauseKind;
use chained_gpc::{Id, Job};

use super::input::Input;

/// The only connection.
const KEY: LinkKey = LinkKey(0);

/// Maximum number of bytes that an accepted connection writes before its link is up: the second message, and an answer
/// in words.
const WRITTEN_MAX: usize = 1024;

/// A second in nanoseconds.
const SECOND: u64 = 1_000_000_000;

/// The peers that each side knows: the two sides, with their public keys if that is chosen.
#[derive(Debug)]
struct Two(Option<[PublicKey; 2]>);

impl Book for Two {
    fn contains(&self, id: Id) -> bool {
        id < 2
    }

    fn key(&self, id: Id) -> Option<PublicKey> {
        self.0.and_then(|keys| keys.get(id as usize).copied())
    }
}

fn private(id: Id) -> PrivateKey {
    PrivateKey::new([id as u8 + 1; 32])
}

/// One side whose randomness begins with `random`, and the state of its connection.
struct Side {
    peering: Peering<Two>,
    wrote: Vec<u8>,
    took: Vec<u8>,
    up: bool,
    closed: bool,
}

impl Side {
    fn new(id: Id, choices: u8, random: u8) -> Side {
        let mut next = random;
        let fill = move |bytes: &mut [u8]| {
            next = next.wrapping_add(1);
            bytes.fill(next);
            Ok(())
        };
        let secret = Secret::new(&[7; 32]).expect("a secret of this length is one");
        let noise = Noise::new(&secret, Job::default(), private(id), Box::new(fill));
        let me = Identity { me: id, incarnation: 5 + u64::from(id), job: Job::default(), hiwater: 8 };
        let strictness = Strictness { no_encryption: choices & 2 != 0, ..Strictness::default() };
        let keys = (choices & 4 != 0).then(|| [0, 1].map(|id| private(id).public()));
        let peering = Peering::new(me, Some(Box::new(noise)), strictness, Two(keys));
        Side { peering, wrote: Vec::new(), took: Vec::new(), up: false, closed: false }
    }

    /// Carries out the outputs; returns whether they brought the link up.
    fn settle(&mut self) -> bool {
        let before = self.up;
        while let Some(output) = self.peering.poll() {
            let of_ended =
                matches!(output, Output::Rejected { .. } | Output::Lost { .. } | Output::Unreached { .. });
            assert!(of_ended || !self.closed, "{output:?} is asked of a connection that is closed");
            match output {
                Output::Write { bytes, .. } => self.wrote.extend(bytes),
                Output::Finish { .. } | Output::Close { .. } | Output::Replaced { .. } => self.closed = true,
                Output::Up(_) => self.up = true,
                Output::Rejected { .. }
                | Output::SendPing { .. }
                | Output::Lost { .. }
                | Output::Unreached { .. } => {}
            }
        }
        assert!(self.wrote.len() <= WRITTEN_MAX && self.peering.half_open().count() <= HALF_OPEN_MAX);
        self.up != before
    }

    /// Feeds bytes as long as the greeting wants them; returns whether they brought the link up.
    fn hear(&mut self, now: Time, mut bytes: &[u8]) -> bool {
        let mut up = false;
        while let Some(wanted) = self.peering.wants(KEY)
            && !bytes.is_empty()
        {
            assert!((1..=RECORD_MAX).contains(&wanted), "{wanted}");
            let (first, rest) = bytes.split_at(wanted.min(bytes.len()));
            self.took.extend(first);
            self.peering.feed(now, KEY, first, &FeedContext::default());
            up |= self.settle();
            bytes = rest;
        }
        up
    }

    /// Ends the connection, unless it is closed or has become a link.
    fn end(&mut self) {
        if !self.closed && !self.up {
            self.peering.ended(KEY, None, CauseKind::LinkLost, "it has ended");
            self.settle();
            self.closed = true;
        }
    }

    /// Checks that after a long time no state is left of a connection without a link.
    fn rest(&mut self, now: u64) {
        self.peering.tick(Time::from_nanos(now + 100 * SECOND));
        self.settle();
        assert!(self.up || self.peering.wants(KEY).is_none(), "a greeting that never ends");
        assert_eq!((self.peering.half_open().count(), self.peering.next_deadline()), (0, None));
    }
}

fn way(choices: u8) -> Transport {
    if choices & 8 != 0 { Transport::Network } else { Transport::Loopback }
}

/// Runs one side or two.
pub fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let choices = input.byte();
    if choices & 1 == 1 { alone(choices, input) } else { both(choices, input) }
}

/// Runs one accepting side whose peer lacks the secret. The bytes of the peer may contain a recorded greeting.
fn alone(choices: u8, mut input: Input<'_>) {
    // The randomness differs from that of the recordings in the seeds.
    let mut side = Side::new(1, choices, 0x80);
    side.peering.add_incoming(Time::from_nanos(0), KEY, way(choices), Some(9));
    let count = input.byte();
    let cuts = input.cuts(count);
    let mut bytes = input.rest();
    let mut cuts = cuts.iter().cycle();
    while !bytes.is_empty() {
        let (first, rest) = bytes.split_at(cuts.next().copied().unwrap_or(usize::MAX).min(bytes.len()));
        side.hear(Time::from_nanos(1), first);
        bytes = rest;
    }
    assert!(!side.up, "somebody without the secret is linked");
    side.rest(0);
}

/// Runs two sides, with all that may happen to the bytes between them.
fn both(choices: u8, mut input: Input<'_>) {
    let mut sides = [Side::new(0, choices, 0), Side::new(1, choices, 0x40)];
    let mut now = 0;
    sides[1].peering.add_incoming(Time::from_nanos(now), KEY, way(choices), Some(9));
    sides[0].peering.add_outgoing(Time::from_nanos(now), KEY, 1);
    sides[0].peering.complete_outgoing(KEY, way(choices), false);
    sides[0].settle();
    let mut wires = [Wire::default(), Wire::default()];
    let mut honest = true;
    while !input.is_empty() {
        let (act, count) = (input.byte(), 1 + usize::from(input.byte()));
        let from = usize::from(act & 1);
        wires[from].take(&sides[from]);
        let under_way = &mut wires[from].under_way;
        let changed = match act >> 1 & 7 {
            1 => under_way.front_mut().map(|byte| *byte ^= act.rotate_left(2) | 1).is_some(),
            2 => under_way.drain(..count.min(under_way.len())).len() > 0,
            3 => {
                under_way.push_front(act);
                true
            }
            4 => {
                sides[from].end();
                true
            }
            5 => {
                now += count as u64 * SECOND / 16;
                sides[from].peering.tick(Time::from_nanos(now));
                sides[from].settle();
                now >= 10 * SECOND
            }
            _ => {
                deliver(&mut sides, &mut wires, from, count, now);
                false
            }
        };
        honest &= !changed;
    }
    // What is still under way arrives: eight round trips are more than a greeting has.
    for from in [0, 1].repeat(8) {
        wires[from].take(&sides[from]);
        deliver(&mut sides, &mut wires, from, usize::MAX, now);
    }
    assert!(!honest || sides.iter().all(|side| side.up), "nothing was changed, and there is no link");
    sides.iter_mut().for_each(|side| side.rest(now));
}

/// The bytes that one side has written and the other has not received.
#[derive(Default)]
struct Wire {
    taken: usize,
    under_way: VecDeque<u8>,
}

impl Wire {
    fn take(&mut self, from: &Side) {
        self.under_way.extend(&from.wrote[self.taken..]);
        self.taken = from.wrote.len();
    }
}

fn deliver(sides: &mut [Side; 2], wires: &mut [Wire; 2], from: usize, count: usize, now: u64) {
    let under_way = &mut wires[from].under_way;
    let bytes: Vec<u8> = under_way.drain(..count.min(under_way.len())).collect();
    let up = sides[1 - from].hear(Time::from_nanos(now), &bytes);
    let (here, there) = (&sides[1 - from], &sides[from]);
    if up {
        assert_eq!(here.took, there.wrote, "what came is not what the other side has written");
        // The accepting side is up once it has written the answer. The connecting side has not verified the answer yet,
        // so what it has read of that may be forged.
        let judged = if from == 0 { LENGTH_BYTES + SECOND_LENGTH } else { there.took.len() };
        assert!(there.took.len() >= judged, "what it has not heard yet was judged");
        assert!(here.wrote.starts_with(&there.took[..judged]), "what it has heard is not what was written");
        assert!(from == 0 || there.took == here.wrote, "who has connected is up when all was heard");
    }
}

/// Returns the bytes that the connecting side writes in a successful greeting, for the corpus.
pub fn recorded(choices: u8) -> Vec<u8> {
    let mut sides = [Side::new(0, choices, 0), Side::new(1, choices, 0x40)];
    sides[1].peering.add_incoming(Time::from_nanos(0), KEY, way(choices), Some(9));
    sides[0].peering.add_outgoing(Time::from_nanos(0), KEY, 1);
    sides[0].peering.complete_outgoing(KEY, way(choices), false);
    sides[0].settle();
    let mut wires = [Wire::default(), Wire::default()];
    for from in [0, 1, 0, 1] {
        wires[from].take(&sides[from]);
        deliver(&mut sides, &mut wires, from, usize::MAX, 0);
    }
    std::mem::take(&mut sides[0].wrote)
}
