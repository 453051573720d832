//! The rendezvous service without I/O: any requests in any order, time, lost nodes, results from above, and restarts
//! from the stored state.
//!
//! Input: steps, each a byte that chooses the step and the bytes of its choices. This module is not part of the
//! targets' library, because the project's main package, which replays that library, knows nothing of this service;
//! `crates/gpc-rendezvous/tests/fuzz_corpus.rs` replays this one.

use std::collections::BTreeSet;

use bytes::Bytes;
use chained_gpc::wire::level::{Limits as LevelLimits, validate};
use chained_gpc::{Job, Secret};
use gpc_rendezvous::machine::{
    Input as Happens, MISSING_MAX, OVERHEAD, Output, ParentOutcome, RandomValues, Service, Ticket,
};
use gpc_rendezvous::{
    Answer, Completion, Fault, FaultKind, Handle, Joint, Life, Limits, Parent, Properties, RankChoice,
    Request, ResourceId, Scope, Spec, Token, Unit,
};

use super::input::Input;
use maps::Maps;

#[path = "../../crates/gpc-rendezvous/tests/support/maps.rs"]
mod maps;

/// Maximum number of steps of one input: each step checks all resources.
const STEPS: usize = 500;

/// Returns small limits, so that each of them is reached.
fn limits() -> Limits {
    let mut limits = Limits::default();
    (limits.capacity, limits.level, limits.data, limits.held) = (6, 3, 40, 12 * OVERHEAD);
    (limits.resources, limits.waiting) = (4, 5);
    (limits.lifetime, limits.lifetime_max) = (1000, 5000);
    limits
}

struct Driven {
    service: Service,
    kept: Maps,
    now: u64,
    tickets: u64,
    /// Requests without an answer.
    open: BTreeSet<Ticket>,
}

/// Drives a service through the steps.
pub fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let (service, kept) = (Service::new(limits()), Maps::default());
    let mut driven = Driven { service, kept, now: 1000, tickets: 0, open: BTreeSet::new() };
    for _ in 0..STEPS {
        if input.is_empty() {
            break;
        }
        driven.step(&mut input);
        driven.check();
    }
    driven.now += 1 << 40;
    driven.handle(Happens::Tick);
    assert!(driven.service.is_empty() && driven.open.is_empty(), "{:?}", driven.service);
    assert_eq!(driven.kept, Maps::default());
}

fn id(input: &mut Input<'_>) -> ResourceId {
    ResourceId([input.byte() % 6; 16])
}

fn token(input: &mut Input<'_>) -> Token {
    let name = input.pick(&["a", "b", "c", "d", "e", "f", "g"]);
    Token::new(name).expect("a letter is a token")
}

fn wanted(input: &mut Input<'_>) -> RankChoice {
    match input.byte() {
        low @ 0..8 => RankChoice::Rank(low.into()),
        255 => RankChoice::Rank(u64::MAX),
        _ => RankChoice::Assign,
    }
}

fn unit(input: &mut Input<'_>) -> Unit {
    match input.byte() & 7 {
        7 => Unit::Own,
        rank => Unit::Rank(rank.into()),
    }
}

fn life(input: &mut Input<'_>) -> Life {
    match input.byte() {
        0..64 => Life::Unseen,
        255 => Life::Lease(u64::MAX),
        low @ 64..160 => Life::Lease(u64::from(low) - 64),
        member => Life::Member(u32::from(member) % 3),
    }
}

/// Returns arbitrary bytes or level-n data.
fn brought(input: &mut Input<'_>) -> Bytes {
    match input.byte() {
        low @ 0..48 => Bytes::copy_from_slice(input.bytes(low.into())),
        _ => {
            let data = input.pick(&["0 ", "1 0 ", "2 1 a1 b", "1 1 1 a", "2 0 1 1 b", "1 1 1 1 a"]);
            Bytes::from_static(data.as_bytes())
        }
    }
}

/// The data of a completion from above.
const ABOVE: &[u8] = b"0 ";

fn completion(input: &mut Input<'_>) -> ParentOutcome {
    match input.flag() {
        true => ParentOutcome::Failed(Fault::new(FaultKind::AboveFailed, "nobody answers")),
        false => {
            ParentOutcome::Completed(Completion { level: 1, data: Bytes::from_static(ABOVE), joint: None })
        }
    }
}

fn create(input: &mut Input<'_>) -> Request {
    let (capacity, level) = (input.byte() % 8, input.byte() % 6);
    let lifetime = Some(u64::from(input.word())).filter(|lifetime| *lifetime < 6000);
    let options = input.byte();
    let job = (options & 1 == 1).then_some(Job([options >> 6; 16]));
    let parent = (options & 2 == 2).then(|| {
        let handle = Handle::new("http://above", ResourceId([options; 16])).expect("a handle");
        Parent { handle, rank: wanted(input) }
    });
    let joint = options & 4 == 4;
    let secret = Secret::new(&[options; 32]).expect("a secret");
    let random =
        RandomValues { id: id(input), token: token(input), joint: Some(Joint { job: Job([9; 16]), secret }) };
    // Level 5 means that no level is given.
    let (capacity, level) = (capacity.into(), Some(u64::from(level)).filter(|level| *level < 5));
    Request::Create { spec: Spec { capacity, level, lifetime, job, joint, parent }, random }
}

fn request(input: &mut Input<'_>, now: u64) -> Request {
    match input.byte() % 16 {
        0 | 1 => create(input),
        2..=6 => {
            let (resource, rank, token) = (id(input), wanted(input), token(input));
            Request::Register { resource, rank, token, data: brought(input).into(), life: life(input) }
        }
        7 => Request::Withdraw { resource: id(input), rank: u64::from(input.byte()), token: token(input) },
        8 | 9 => {
            let (resource, of) = (id(input), if input.flag() { Scope::Own } else { Scope::Top });
            let until = input.flag().then(|| now + u64::from(input.byte()));
            let token = input.flag().then(|| token(input));
            Request::Wait { resource, of, until, token }
        }
        10 | 11 => {
            let (resource, unit, token) = (id(input), unit(input), token(input));
            let name = "n".repeat(usize::from(input.byte()) * 2);
            Request::Control { resource, unit, name, token, life: life(input) }
        }
        12 => {
            let (resource, unit, token) = (id(input), unit(input), token(input));
            Request::Release { resource, unit, token, lost: input.flag().then(|| "\u{202e}lost\n".into()) }
        }
        13 => Request::Registrant { resource: id(input), rank: input.byte().into() },
        14 if input.flag() => Request::EndJob(Job([input.byte() >> 6; 16])),
        14 => Request::Destroy(id(input)),
        _ => Request::Properties(id(input)),
    }
}

impl Driven {
    fn step(&mut self, input: &mut Input<'_>) {
        match input.byte() % 24 {
            0..=15 => {
                self.tickets += 1;
                let ticket = Ticket(self.tickets);
                let request = request(input, self.now);
                let waits = matches!(request, Request::Wait { .. });
                assert!(self.open.insert(ticket));
                self.handle(Happens::Ask(ticket, request));
                assert!(waits || !self.open.contains(&ticket), "it is answered at once");
            }
            16 => {
                let ticket = Ticket(u64::from(input.byte()));
                self.handle(Happens::Cancelled(ticket));
                self.open.remove(&ticket);
            }
            17 => {
                let member = u32::from(input.byte()) % 3;
                self.handle(Happens::Lost { member, why: "the link\nis cut".into() });
            }
            18 => {
                let id = id(input);
                let above = completion(input);
                self.handle(Happens::ParentOutcome(id, above));
            }
            19 => self.restart(),
            20 => {
                // The clock is set back.
                let now = self.now;
                self.now = now.saturating_sub(u64::from(input.byte()));
                self.handle(Happens::Tick);
                self.now = now;
            }
            _ => {
                self.now += u64::from(input.byte()) * if input.flag() { 1 } else { 20 };
                self.handle(Happens::Tick);
            }
        }
    }

    fn handle(&mut self, happens: Happens) {
        self.service.handle(self.now, happens);
        self.drain();
    }

    fn drain(&mut self) {
        while let Some(output) = self.service.next_output() {
            match output {
                Output::Answer(ticket, outcome) => {
                    assert!(self.open.remove(&ticket), "nobody waits for {outcome:?}");
                    if let Ok(Answer::Completed(Completion { level, data, .. })) = outcome {
                        assert!(validate(level, &data, LevelLimits::default()).is_ok(), "{level} {data:?}");
                    }
                }
                Output::Store(change) => self.kept.save(&[change]),
                Output::ParentAction(..) => {}
            }
        }
    }

    /// Returns all resources as seen from outside.
    fn list(&mut self) -> Vec<Properties> {
        self.service.handle(self.now, Happens::Ask(Ticket(0), Request::List { most: usize::MAX }));
        match self.service.next_output() {
            Some(Output::Answer(Ticket(0), Ok(Answer::List(list)))) => list,
            other => panic!("{other:?}"),
        }
    }

    /// Restarts the service. The stored state must be there again, without the waiting requests.
    fn restart(&mut self) {
        let unseen = |list: Vec<Properties>| -> Vec<Properties> {
            list.into_iter().map(|one| Properties { waiting: 0, ..one }).collect()
        };
        let before = unseen(self.list());
        self.service = Service::restored(limits(), self.kept.load(), self.now);
        self.open.clear();
        self.drain();
        assert_eq!(unseen(self.list()), before);
    }

    fn check(&mut self) {
        let (bounds, list) = (limits(), self.list());
        let (resources, waiting, held) = self.service.load();
        assert!(resources <= bounds.resources && waiting <= bounds.waiting && held <= bounds.held);
        assert_eq!(resources, list.len());
        assert_eq!(waiting, list.iter().map(|one| one.waiting).sum::<usize>());
        assert_eq!(waiting, self.open.len());
        let mut seen = 0;
        for one in list {
            assert!(one.tally <= one.capacity, "{one:?}");
            assert!(!one.completed || one.tally == one.capacity, "{one:?}");
            assert_eq!(one.missing.len(), MISSING_MAX.min((one.capacity - one.tally) as usize), "{one:?}");
            assert!(one.expires > self.now && one.missing.iter().all(|rank| *rank < one.capacity), "{one:?}");
            let known = one.failed.is_some() || one.completed && one.above.is_none();
            assert!(!known || one.waiting == 0, "{one:?}");
            seen += one.bytes + OVERHEAD * (1 + u64::from(one.tally));
        }
        // The other bytes are held for controlling tasks, and for the data from above, which all resources share.
        assert!(held >= seen, "{held} {seen}");
        let rest = (held - seen) % OVERHEAD;
        assert!(rest == 0 || rest == ABOVE.len() as u64, "{held} {seen}");
        assert!(self.service.deadline().is_none_or(|at| at > self.now), "something is due");
    }
}
