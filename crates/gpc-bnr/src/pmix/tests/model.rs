//! Every upcall gets exactly one answer, whatever the domain answers and in whatever order, and whoever ends meanwhile.

use std::collections::BTreeSet;

use gpc_pmix::server::{ALL, Application, Event, Order, Upcall};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;

use super::{Node, fault, info, layout, member, process};
use crate::domain::Serial;
use crate::exit::Exit;
use crate::fault::FaultKind;
use crate::names::GroupId;
use crate::pmix::Action;
use crate::request::{Answer, Client, Request};
use crate::spec::OnDeath;

#[derive(Clone, Debug)]
enum Step {
    Call(Upcall),
    /// One of the requests is answered, well or with a fault.
    Answer(Index, bool),
    Ends(u32),
    /// The helper is done with what it was told.
    Registers,
}

fn upcall() -> impl Strategy<Value = Upcall> {
    let processes = prop_oneof![
        Just(vec![process(1, ALL)]),
        Just(vec![process(1, 0), process(1, 2)]),
        Just(vec![process(1, 1), process(2, 0)]),
        Just(vec![process(2, ALL)]),
        Just(vec![process(1, ALL), process(3, ALL)]),
    ];
    let rank = 0..4_u32;
    (0..12, processes, rank).prop_map(|(kind, processes, rank)| {
        let (of, info) = (process(1, rank), vec![info("key", b"v"), info("pmix.wait", &[])]);
        let keys = vec!["key".to_owned()];
        match kind {
            0 => Upcall::Finalized(of),
            1 | 2 => Upcall::Fence { processes, data: vec![1], info: Vec::new() },
            3 => Upcall::Connect { processes, info: Vec::new() },
            4 => Upcall::Fetch { process: of, info: Vec::new() },
            5 => Upcall::Publish { process: of, info },
            6 => Upcall::Lookup { process: of, keys, info },
            7 => Upcall::Unpublish { process: of, keys, info },
            8 => {
                let application = Application {
                    program: b"p".to_vec(),
                    arguments: Vec::new(),
                    environment: Vec::new(),
                    folder: None,
                    count: 1,
                    info: Vec::new(),
                };
                Upcall::Spawn { process: of, info: Vec::new(), applications: vec![application] }
            }
            9 | 10 => {
                Upcall::Group { constructs: kind == 9, name: "group".into(), processes, info: Vec::new() }
            }
            _ => Upcall::Disconnect { processes, info: Vec::new() },
        }
    })
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => upcall().prop_map(Step::Call),
        6 => (any::<Index>(), any::<bool>()).prop_map(|(at, well)| Step::Answer(at, well)),
        1 => (0..4_u32).prop_map(Step::Ends),
        2 => Just(Step::Registers),
    ]
}

/// What the domain would answer.
fn answer(request: &Request) -> Answer {
    match request {
        Request::Exchange { data, .. } => Answer::Value(data.clone()),
        Request::Lookup { .. } => Answer::Value(b"no value of a translation".to_vec()),
        Request::Fetch(_) => Answer::Value(Vec::new()),
        Request::SpawnMultiple { .. } => {
            Answer::Spawned { group: GroupId(3), errors: vec![0], same_domain: true }
        }
        Request::Layout(group) => Answer::Layout(layout(group.0, OnDeath::Kill)),
        _ => Answer::Done,
    }
}

#[derive(Default)]
struct World {
    open: Vec<(Client, Serial, Request)>,
    registers: Vec<String>,
    answered: BTreeSet<u64>,
}

impl World {
    fn take(&mut self, node: &mut Node) {
        for action in node.actions() {
            match action {
                Action::Request { client, serial, request } => {
                    assert!(self.open.iter().all(|(_, known, _)| *known != serial), "a serial twice");
                    self.open.push((client, serial, request));
                }
                Action::Order(Order::Register(job)) => self.registers.push(job.namespace),
                Action::Order(Order::Answer { serial, .. }) => {
                    assert!(self.answered.insert(serial), "{serial} is answered twice");
                }
                _ => {}
            }
        }
    }

    fn answer(&mut self, node: &mut Node, at: usize, well: bool) {
        let (client, serial, request) = self.open.swap_remove(at);
        let answer = if well { Ok(answer(&request)) } else { Err(fault(FaultKind::NotFound)) };
        node.translation.answered(client, serial, answer);
        self.take(node);
    }

    fn register(&mut self, node: &mut Node) {
        for namespace in std::mem::take(&mut self.registers) {
            node.event(Event::Registered { namespace, failed: None });
        }
        self.take(node);
    }

    fn step(&mut self, node: &mut Node, step: Step) {
        match step {
            Step::Call(upcall) => {
                node.upcall += 1;
                node.translation.event(Event::Upcall { serial: node.upcall, upcall });
            }
            Step::Answer(at, well) if !self.open.is_empty() => {
                let at = at.index(self.open.len());
                return self.answer(node, at, well);
            }
            Step::Answer(..) => {}
            Step::Ends(rank) => {
                node.translation.ended(member(1, rank), Exit::Code(0));
                // The domain answers a process no more.
                self.open.retain(|(client, ..)| *client != Client::Process(member(1, rank)));
            }
            Step::Registers => return self.register(node),
        }
        self.take(node);
    }
}

proptest! {
    #[test]
    fn every_upcall_is_answered_once(steps in vec(step(), 0..60)) {
        let mut node = Node::with_group(OnDeath::Kill);
        let mut world = World::default();
        steps.into_iter().for_each(|step| world.step(&mut node, step));
        // Everything is answered in the end.
        for _ in 0..10 {
            while !world.open.is_empty() {
                world.answer(&mut node, 0, true);
            }
            world.register(&mut node);
            world.take(&mut node);
        }
        prop_assert_eq!(world.answered, (1..=node.upcall).collect::<BTreeSet<u64>>());
    }
}
