//! Agents that start each other in virtual time, and fail in every way.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::super::answer::StartReport;
use super::*;
use chained_gpc::peering::PublicKey;

const LIMIT: Duration = Duration::from_secs(30);

fn hosts(count: u32, each: u32) -> Share {
    let host = |place| HostIds { first: 1 + place * each, count: each, name: format!("h{place}") };
    (0..count).map(host).collect()
}

fn here(id: Id) -> Answer {
    Answer::Started(StartReport {
        id,
        loopback: "127.0.0.1:5".parse().unwrap(),
        address: None,
        key: PublicKey([0; 32]),
        place: "a".into(),
    })
}

/// The outcome of the start of an agent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fate {
    Well,
    /// Its command ends at once.
    Refused,
    /// It sends nothing.
    Silent,
    /// It reports, and ends while it is starting others.
    Dies,
    /// It sends invalid lines.
    Babbles,
}

/// Agents that start each other in virtual time.
struct World {
    agents: Vec<Simulated>,
    /// By the first id of a share: the outcome of the process of that id, each time it is started.
    fates: BTreeMap<Id, Fate>,
    up: Vec<Answer>,
    starts: usize,
    now: Duration,
}

struct Simulated {
    starting: Starting,
    /// The index of the agent that started it, and its number there.
    parent: Option<(usize, usize)>,
    alive: bool,
    done: bool,
}

impl World {
    fn new(fan_out: u32, fates: BTreeMap<Id, Fate>) -> World {
        let starting = Starting::new(NonZeroU32::new(fan_out).unwrap(), LIMIT);
        let root = Simulated { starting, parent: None, alive: true, done: false };
        World { agents: vec![root], fates, up: Vec::new(), starts: 0, now: Duration::ZERO }
    }

    fn run(&mut self, share: &Share) {
        self.agents[0].starting.start_all(share, self.now);
        while !self.agents[0].starting.is_done() {
            while self.step() {}
            let open = self.agents.iter().filter(|agent| agent.alive);
            let Some(next) = open.filter_map(|agent| agent.starting.deadline()).min() else { break };
            if self.agents[0].starting.is_done() {
                break;
            }
            self.now = next;
            // An agent that waits for another reports that before it would be taken for lost.
            for place in 1..self.agents.len() {
                if self.agents[place].alive && !self.agents[place].done {
                    self.say(place, "wait");
                }
            }
            for agent in self.agents.iter_mut().filter(|agent| agent.alive) {
                agent.starting.tick(self.now);
            }
        }
        while self.step() {}
    }

    /// Carries out one action of one agent; returns whether there was one.
    fn step(&mut self) -> bool {
        for place in 0..self.agents.len() {
            if !self.agents[place].alive {
                continue;
            }
            if let Some(output) = self.agents[place].starting.next_output() {
                self.carry_out(place, output);
                return true;
            }
            let agent = &mut self.agents[place];
            if place > 0 && !agent.done && agent.starting.is_done() {
                agent.done = true;
                self.say(place, "done");
                return true;
            }
        }
        false
    }

    fn say(&mut self, place: usize, line: &str) {
        let (parent, number) = self.agents[place].parent.unwrap();
        self.agents[parent].starting.line(number, line, self.now);
    }

    fn carry_out(&mut self, place: usize, output: Output) {
        match output {
            Output::Up(answer) if place == 0 => self.up.push(answer),
            Output::Up(answer) => self.say(place, &answer.to_string()),
            Output::Log { .. } => {}
            Output::Kill { agent } => {
                let child = self.agents.iter().position(|child| child.parent == Some((place, agent)));
                child.into_iter().for_each(|child| self.end(child));
            }
            Output::Spawn { agent, share, .. } => self.spawn(place, agent, &share),
        }
    }

    fn spawn(&mut self, place: usize, number: usize, share: &Share) {
        self.starts += 1;
        let (id, now) = (share[0].first, self.now);
        let fate = self.fates.get(&id).copied().unwrap_or(Fate::Well);
        let parent = &mut self.agents[place].starting;
        match fate {
            Fate::Silent => return,
            Fate::Refused => {
                parent.log_line(number, "ssh: No route to host");
                return parent.fail(number, "exit status 255", now);
            }
            Fate::Babbles => {
                for _ in 0..=NOISE_MAX {
                    parent.line(number, "y", now);
                }
                return;
            }
            Fate::Dies | Fate::Well => {}
        }
        parent.line(number, "Welcome to this machine", now);
        parent.line(number, GREETING, now);
        parent.line(number, &here(id).to_string(), now);
        if fate == Fate::Dies && (share.len() > 1 || share[0].count > 1) {
            return self.agents[place].starting.fail(number, "killed by signal 9 (SIGKILL)", now);
        }
        let mut starting = Starting::new(parent.fan_out, LIMIT);
        starting.start_below(share, now);
        self.agents.push(Simulated { starting, parent: Some((place, number)), alive: true, done: false });
    }

    fn end(&mut self, place: usize) {
        self.agents[place].alive = false;
        let below = (0..self.agents.len()).filter(|&other| {
            self.agents[other].alive && self.agents[other].parent.is_some_and(|(parent, _)| parent == place)
        });
        below.collect::<Vec<_>>().into_iter().for_each(|child| self.end(child));
    }

    /// The ids that run, and those that do not.
    fn result(&self) -> (Vec<Id>, Vec<Id>) {
        let (mut there, mut gone) = (Vec::new(), Vec::new());
        for answer in &self.up {
            match answer {
                Answer::Started(here) => there.push(here.id),
                Answer::Down(down) => gone.extend(down.first..down.first + down.count),
                other => panic!("{other} goes up to nobody"),
            }
        }
        there.sort_unstable();
        gone.sort_unstable();
        (there, gone)
    }
}

fn fate() -> impl Strategy<Value = Fate> {
    prop_oneof![
        4 => Just(Fate::Well),
        1 => Just(Fate::Refused),
        1 => Just(Fate::Silent),
        1 => Just(Fate::Dies),
        1 => Just(Fate::Babbles),
    ]
}

proptest! {
    /// With any outcomes, each id is reported once, as running or not, and a lost host costs no other.
    #[test]
    fn each_id_is_known_once_and_a_lost_host_costs_itself_alone(
        count in 1u32..40, each in 1u32..4, fan_out in 1u32..9, fates in proptest::collection::vec(fate(), 120),
    ) {
        let fates: BTreeMap<Id, Fate> = (1..).zip(fates).filter(|(_, fate)| *fate != Fate::Well).collect();
        let mut world = World::new(fan_out, fates.clone());
        let share = hosts(count, each);
        world.run(&share);
        let (there, gone) = world.result();
        let mut all = [there.clone(), gone.clone()].concat();
        all.sort_unstable();
        prop_assert_eq!(all, (1..=count * each).collect::<Vec<_>>());
        for id in gone {
            // The process itself has failed, or the first process of its host.
            let host = &share[((id - 1) / each) as usize];
            prop_assert!(fates.contains_key(&id) || fates.contains_key(&host.first), "{id} of {host:?}");
        }
    }

    /// Invalid lines do no harm.
    #[test]
    fn any_lines_are_taken_or_cost_the_agent(lines in proptest::collection::vec("(chained-gpc-agent 1|done|wait|down [1-9] [1-9] x|lost 2 1 y|[a-z ]{0,9})", 0..20)) {
        let mut starting = Starting::new(NonZeroU32::new(2).unwrap(), LIMIT);
        starting.start_all(&hosts(5, 1), Duration::ZERO);
        for line in lines {
            starting.line(0, &line, Duration::ZERO);
        }
        let outputs: Vec<Output> = std::iter::from_fn(|| starting.next_output()).collect();
        let killed = outputs.iter().filter(|output| matches!(output, Output::Kill { .. })).count();
        let there = outputs.iter().any(|output| matches!(output, Output::Up(Answer::Started(_))));
        prop_assert!(killed <= 1 && !there);
    }
}

#[test]
fn all_are_started_through_a_tree() {
    let mut world = World::new(4, BTreeMap::new());
    world.run(&hosts(64, 2));
    assert_eq!(world.result().0, (1..=128).collect::<Vec<_>>());
    let own = world.agents.iter().filter(|agent| agent.parent.is_some_and(|(parent, _)| parent == 0)).count();
    assert_eq!((own, world.starts), (4, 128));
}

#[test]
fn why_a_host_is_lost_is_said_with_its_own_words() {
    let mut starting = Starting::new(NonZeroU32::new(2).unwrap(), LIMIT);
    starting.start_all(&hosts(2, 3), Duration::ZERO);
    starting.log_line(0, "ssh: connect to host h0 port 22: No route to host\r");
    starting.fail(0, "exit status 255", Duration::ZERO);
    starting.line(1, "Last login: today", Duration::ZERO);
    starting.tick(LIMIT);
    let ups: Vec<Answer> = std::iter::from_fn(|| starting.next_output())
        .filter_map(|output| if let Output::Up(answer) = output { Some(answer) } else { None })
        .collect();
    let [Answer::Down(first), Answer::Down(second)] = &ups[..] else { panic!("{ups:?}") };
    assert_eq!((first.first, first.count), (1, 3));
    assert_eq!(first.why, "host h0: exit status 255: ssh: connect to host h0 port 22: No route to host");
    assert_eq!(
        second.why,
        "host h1: it did not answer within 30 s: it said `Last login: today`, which is nothing of this program"
    );
    assert!(starting.is_done());
}

#[test]
fn who_is_lost_after_that_takes_its_share_along_and_nobody_is_started_again() {
    let mut starting = Starting::new(NonZeroU32::new(1).unwrap(), LIMIT);
    starting.start_all(&hosts(2, 1), Duration::ZERO);
    for line in [GREETING, &here(1).to_string(), &here(2).to_string(), "done", "lost 2 1 host h1: killed"] {
        starting.line(0, line, Duration::ZERO);
    }
    assert!(starting.is_done());
    starting.fail(0, "exit status 1", LIMIT);
    let outputs: Vec<Output> = std::iter::from_fn(|| starting.next_output()).collect();
    let lost = |first, count, why| Output::Up(Answer::Lost(LossReport::new(first, count, why)));
    assert_eq!(outputs[1..3], [Output::Up(here(1)), Output::Up(here(2))]);
    assert_eq!(
        outputs[3..],
        [lost(2, 1, "host h1: killed"), Output::Kill { agent: 0 }, lost(1, 2, "host h0: exit status 1")]
    );
}

#[test]
fn hosts_that_are_all_down_are_not_tried_all_at_once() {
    let fates = (1..=2000).map(|id| (id, Fate::Silent)).collect();
    let mut world = World::new(8, fates);
    world.run(&hosts(2000, 1));
    assert_eq!(world.result().1.len(), 2000);
    assert_eq!(world.starts, 2000);
    // 64 at a time.
    assert!(world.now <= LIMIT * 40, "{:?}", world.now);
}
