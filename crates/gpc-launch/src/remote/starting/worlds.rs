//! Launches over hosts in virtual time: agents start each other, and die, hang, speak late, lie, or repeat themselves.
//! Each has a session with the agent above it, and a start of its own. A model says how each id ends up.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;

use proptest::prelude::*;

use super::super::agent_error::AgentError;
use super::super::session::{Order, Session};
use super::super::task::{ALIVE, Task};
use super::tests::{LIMIT, here, hosts};
use super::*;
use crate::NodeSettings;

/// What the process of an id does, each time that it is started.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fate {
    Well,
    /// Well, but its greeting comes after this time.
    LateGreeting(Duration),
    /// Well, but its report comes this time after its greeting.
    LateReport(Duration),
    /// Its command ends at once.
    Refused,
    /// Well, but the first connections to its host are dropped, this many.
    Dropped(u32),
    Silent,
    /// It greets, and hangs.
    Mute,
    /// It reports, and hangs.
    Hangs,
    /// It reports, and ends.
    Dies,
    /// It sends lines of another program.
    Babbles,
    /// It sends the lines of [`LIES`] with this index.
    Lies(usize),
    /// It reports, and then only that it waits.
    Waits,
}

/// Lines after the greeting; `ID` is the agent's id.
const LIES: [&[&str]; 8] = [
    &["here 0"],
    &["here ID", "here ID"],
    &["here ID", "lost ID 1 x", "lost ID 1 x", "lost ID 1 x"],
    &["down ID 1 x"],
    &["wait", "wait", "here ID"],
    &["here ID", "down ID 2 x"],
    &["here ID", "go"],
    &[GREETING],
];

impl Fate {
    fn is_well(self) -> bool {
        match self {
            Fate::Dropped(times) => times < ATTEMPTS_MAX,
            other => matches!(other, Fate::Well | Fate::LateGreeting(_) | Fate::LateReport(_)),
        }
    }

    /// A part of the reason that is reported.
    fn cause(self) -> &'static str {
        match self {
            Fate::Refused => "exit status 255: ssh: No route to host",
            Fate::Dropped(_) => "exit status 255 at each attempt: Connection reset by peer",
            Fate::Silent | Fate::Mute => "it did not answer within 30 s",
            Fate::LateGreeting(_) | Fate::LateReport(_) | Fate::Well => "it did not answer within 30 s",
            Fate::Hangs => "it fell silent for 30 s",
            Fate::Dies => "killed by signal 9 (SIGKILL)",
            Fate::Babbles => "it says much that is nothing of this program, such as `y`",
            Fate::Lies(_) => "which no agent says here",
            Fate::Waits => "it was still starting others after",
        }
    }
}

/// Bytes and ends on their way.
enum Event {
    /// The process begins to read and write.
    Begin(usize),
    /// A line of the agent above.
    Order(usize, String),
    /// A line for the agent above.
    Report(usize, String),
    /// The agent above sees the end of the process.
    End(usize, &'static str),
}

/// A process. The root is the first one: it has no session.
struct Process {
    id: Id,
    /// Its host; the root is on none of them.
    host: String,
    starting: Starting,
    session: Option<Session>,
    /// The index of the process that has started it, and its number there.
    parent: Option<(usize, usize)>,
    is_alive: bool,
    has_book: bool,
    fate: Fate,
}

struct World {
    processes: Vec<Process>,
    fates: BTreeMap<Id, Fate>,
    /// Number of connections that were dropped, by id.
    dropped: BTreeMap<Id, u32>,
    fan_out: NonZeroU32,
    /// By time, then in the order in which they were sent.
    events: BTreeMap<(Duration, usize), Event>,
    sent: usize,
    /// Number of steps, which has a bound: an agent that is due and does nothing would be asked for ever.
    steps: usize,
    now: Duration,
    /// Reports to the root.
    up: Vec<Answer>,
    starts: usize,
    /// Whether the root still runs.
    has_root: bool,
}

impl World {
    fn new(fan_out: u32, fates: BTreeMap<Id, Fate>) -> World {
        let fan_out = NonZeroU32::new(fan_out).unwrap();
        let root = Process {
            id: 0,
            host: String::new(),
            starting: Starting::new(fan_out, LIMIT, 7),
            session: None,
            parent: None,
            is_alive: true,
            has_book: false,
            fate: Fate::Well,
        };
        World {
            processes: vec![root],
            fates,
            dropped: BTreeMap::new(),
            fan_out,
            events: BTreeMap::new(),
            sent: 0,
            steps: 0,
            now: Duration::ZERO,
            up: Vec::new(),
            starts: 0,
            has_root: true,
        }
    }

    /// Starts all hosts, until the state of each is known.
    fn start(&mut self, share: &Share) {
        self.processes[0].starting.start_all(share, self.now);
        self.settle();
        while !self.processes[0].starting.is_done() {
            assert!(self.step(Duration::MAX), "nothing is due, and the start is not over");
        }
    }

    /// Lets virtual time pass.
    fn pass(&mut self, time: Duration) {
        let until = self.now + time;
        while self.step(until) {}
        self.now = until;
    }

    /// Handles all that is due next, if that is not after `until`.
    fn step(&mut self, until: Duration) -> bool {
        let event = self.events.first_key_value().map(|((time, _), _)| *time);
        let timers = (0..self.processes.len()).filter_map(|place| self.timer(place));
        let Some(next) = timers.chain(event).min().filter(|next| *next <= until) else { return false };
        self.steps += 1;
        assert!(self.steps < 100_000, "the time does not pass");
        self.now = self.now.max(next);
        while let Some(entry) = self.events.first_entry().filter(|entry| entry.key().0 <= self.now) {
            let event = entry.remove();
            self.handle(event);
            self.settle();
        }
        for place in 0..self.processes.len() {
            if self.timer(place).is_some() {
                self.tick(place);
            }
        }
        self.settle();
        true
    }

    /// When the process is to be asked next.
    fn timer(&self, place: usize) -> Option<Duration> {
        let process = self.processes.get(place).filter(|process| process.is_alive)?;
        if process.parent.is_none() && !self.has_root {
            return None;
        }
        let starting = process.starting.deadline();
        let session = process.session.as_ref().filter(|_| process.fate.is_well());
        let session = session.map(|session| self.now + session.wait_limit(self.now));
        starting.into_iter().chain(session).min()
    }

    fn tick(&mut self, place: usize) {
        let now = self.now;
        self.processes[place].starting.tick(now);
        if self.processes[place].session.as_ref().is_some_and(|session| session.is_abandoned(now)) {
            self.end(place, "exit status 0");
        }
    }

    /// Carries out all actions of all processes, and sends their reports.
    fn settle(&mut self) {
        let mut place = 0;
        while place < self.processes.len() {
            while let Some(output) = self.processes[place].starting.next_output() {
                self.carry_out(place, output);
            }
            let now = self.now;
            let process = &mut self.processes[place];
            if process.is_alive && process.fate.is_well() {
                let is_complete = process.starting.is_done();
                let report = process.session.as_mut().and_then(|session| session.report(is_complete, now));
                report.into_iter().for_each(|report| self.report(place, &report.to_string()));
            }
            place += 1;
        }
    }

    fn send(&mut self, after: Duration, event: Event) {
        self.sent += 1;
        self.events.insert((self.now + after, self.sent), event);
    }

    fn report(&mut self, place: usize, line: &str) {
        self.send(Duration::ZERO, Event::Report(place, line.into()));
    }

    fn carry_out(&mut self, place: usize, output: Output) {
        let children = |world: &World, agent: Option<usize>| -> Vec<usize> {
            let of = |child: &usize| {
                let (parent, number) = world.processes[*child].parent.unwrap_or((usize::MAX, 0));
                parent == place && agent.is_none_or(|agent| agent == number)
            };
            (0..world.processes.len()).filter(of).collect()
        };
        match output {
            Output::Up(answer) if place == 0 => self.up.push(answer),
            Output::Up(answer) => self.report(place, &answer.to_string()),
            Output::Log { .. } => {}
            Output::KeepAlive => {
                let agents = children(self, None);
                agents
                    .into_iter()
                    .for_each(|child| self.send(Duration::ZERO, Event::Order(child, ALIVE.into())));
            }
            Output::Kill { agent } => {
                let killed = children(self, Some(agent));
                killed.into_iter().for_each(|child| self.end(child, "killed"));
            }
            Output::Spawn { agent, share, same_host } => {
                assert_eq!(same_host, self.processes[place].host == share[0].name, "{share:?}");
                self.spawn(place, agent, &share);
            }
        }
    }

    fn spawn(&mut self, parent: usize, number: usize, share: &Share) {
        self.starts += 1;
        let (child, id) = (self.processes.len(), share[0].first);
        let fate = self.fate_of(id, parent == 0 || self.processes[parent].host != share[0].name);
        self.processes.push(Process {
            id,
            host: share[0].name.clone(),
            starting: Starting::new(self.fan_out, LIMIT, 7),
            session: Some(Session::new(self.now)),
            parent: Some((parent, number)),
            is_alive: true,
            has_book: false,
            fate,
        });
        let begins = if let Fate::LateGreeting(after) = fate { after } else { Duration::ZERO };
        self.send(begins, Event::Begin(child));
        let task = Task {
            limit: LIMIT,
            fan_out: self.fan_out,
            network: None,
            rsh: vec!["ssh".into()],
            program: "gpc".into(),
            arguments: vec![OsString::from("--agent")],
            settings: NodeSettings::default(),
            share: share.clone(),
        };
        // Its report precedes the start of others.
        let reads = if let Fate::LateReport(after) = fate { after } else { begins };
        let text = task.text_for(share);
        text.lines().for_each(|line| self.send(reads, Event::Order(child, line.into())));
    }

    /// The fate of a process that is started now. Connections are dropped on the way to another host.
    fn fate_of(&mut self, id: Id, other_host: bool) -> Fate {
        match self.fates.get(&id).copied().unwrap_or(Fate::Well) {
            Fate::Dropped(times) => {
                let dropped = self.dropped.entry(id).or_default();
                *dropped += 1;
                if other_host && *dropped <= times { Fate::Dropped(0) } else { Fate::Well }
            }
            other => other,
        }
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Begin(place) => self.begin(place),
            Event::Order(place, line) => self.order(place, &line),
            Event::Report(place, line) => {
                let (parent, number) = self.processes[place].parent.unwrap();
                if self.processes[parent].is_alive {
                    self.processes[parent].starting.line(number, &line, self.now);
                }
            }
            Event::End(place, how) => {
                let (parent, number) = self.processes[place].parent.unwrap();
                if self.processes[parent].is_alive {
                    self.processes[parent].starting.end(number, how, self.now);
                }
            }
        }
    }

    fn begin(&mut self, place: usize) {
        let Process { id, fate, is_alive, parent, .. } = self.processes[place];
        if !is_alive {
            return;
        }
        let report = here(id).to_string();
        let lines: Vec<&str> = match fate {
            Fate::Silent => vec![],
            Fate::Refused => {
                let (parent, number) = parent.unwrap();
                self.processes[parent].starting.log_line(number, "ssh: No route to host");
                return self.end(place, "exit status 255");
            }
            Fate::Dropped(_) => {
                let (parent, number) = parent.unwrap();
                self.processes[parent].starting.log_line(number, "Connection reset by peer");
                return self.end(place, "exit status 255");
            }
            Fate::Babbles => vec!["y"; NOISE_MAX as usize + 1],
            Fate::Mute | Fate::LateReport(_) | Fate::Lies(_) => vec!["Welcome", GREETING],
            _ => vec!["Welcome", GREETING, &report],
        };
        lines.iter().for_each(|line| self.report(place, line));
        match fate {
            Fate::LateReport(after) => self.send(after, Event::Report(place, report)),
            Fate::Dies => self.end(place, "killed by signal 9 (SIGKILL)"),
            Fate::Lies(index) => {
                for line in LIES[index] {
                    let line = line.replace("here ID", &report).replace("ID", &id.to_string());
                    self.report(place, &line);
                }
            }
            Fate::Waits => {
                for quarter in 1..4 * LIMITS_EACH * 300 {
                    self.send(LIMIT / 4 * quarter, Event::Report(place, "wait".into()));
                }
            }
            _ => {}
        }
    }

    fn order(&mut self, place: usize, line: &str) {
        let now = self.now;
        let process = &mut self.processes[place];
        if !process.is_alive || !process.fate.is_well() {
            return;
        }
        let session = process.session.as_mut().unwrap();
        match session.receive(format!("{line}\n").as_bytes(), now) {
            Ok(orders) => orders.into_iter().for_each(|order| match order {
                Order::Task(task) => process.starting.start_below(&task.share, now),
                Order::Book(_) => process.has_book = true,
            }),
            Err(AgentError::ParentGone) => panic!("a session says nothing of that"),
            Err(error) => panic!("id {}: {error}", process.id),
        }
        if line == super::super::task::GO {
            self.send_below(place, line);
        }
    }

    fn send_below(&mut self, place: usize, line: &str) {
        let below = |process: &Process| process.parent.is_some_and(|(parent, _)| parent == place);
        let below: Vec<usize> =
            (0..self.processes.len()).filter(|&child| below(&self.processes[child])).collect();
        below.into_iter().for_each(|child| self.send(Duration::ZERO, Event::Order(child, line.into())));
    }

    /// Ends a process, with all that it has started: their standard input ends.
    fn end(&mut self, place: usize, how: &'static str) {
        if !std::mem::take(&mut self.processes[place].is_alive) {
            return;
        }
        self.send(Duration::ZERO, Event::End(place, how));
        let below = |child: &usize| self.processes[*child].parent.is_some_and(|(parent, _)| parent == place);
        let below: Vec<usize> = (0..self.processes.len()).filter(below).collect();
        below.into_iter().for_each(|child| self.end(child, "exit status 0"));
    }

    /// The ids of the processes that run.
    fn alive(&self) -> BTreeSet<Id> {
        self.processes.iter().skip(1).filter(|process| process.is_alive).map(|process| process.id).collect()
    }

    /// The ids that were reported as running, and those that were not, each with the reason. Fails if one is reported
    /// twice.
    fn result(&self) -> (BTreeSet<Id>, BTreeMap<Id, String>) {
        let (mut there, mut gone) = (BTreeSet::new(), BTreeMap::new());
        for answer in &self.up {
            match answer {
                Answer::Started(here) => assert!(there.insert(here.id), "{} twice", here.id),
                Answer::Down(down) => (down.first..down.first + down.count)
                    .for_each(|id| assert_eq!(gone.insert(id, down.why.clone()), None, "{id} twice")),
                other => panic!("{other} goes up to nobody"),
            }
        }
        (there, gone)
    }

    /// Fails if an agent that runs waits for another, or knows one that does not run.
    fn nothing_is_left(&self) {
        for process in self.processes.iter().filter(|process| process.is_alive) {
            let Starting { agents, waiting, outputs, .. } = &process.starting;
            assert!(process.starting.is_done() && waiting.is_empty() && outputs.is_empty());
            for agent in agents.iter().flatten() {
                assert!(agent.phase == Phase::Done && agent.answers.is_empty(), "{agent:?}");
                assert!(self.alive().contains(&agent.share[0].first), "{agent:?}");
            }
        }
    }
}

fn fate(other: Fate) -> impl Strategy<Value = Fate> {
    let milliseconds = |range: std::ops::Range<u64>| range.prop_map(Duration::from_millis);
    prop_oneof![
        12 => Just(Fate::Well),
        2 => milliseconds(0..30_000).prop_map(Fate::LateGreeting),
        2 => milliseconds(0..30_000).prop_map(Fate::LateReport),
        1 => Just(Fate::Refused),
        2 => (1..=ATTEMPTS_MAX).prop_map(Fate::Dropped),
        1 => Just(Fate::Silent),
        1 => Just(Fate::Mute),
        1 => Just(Fate::Hangs),
        1 => Just(Fate::Dies),
        1 => Just(Fate::Babbles),
        2 => (0..LIES.len()).prop_map(Fate::Lies),
        3 => Just(other),
    ]
}

fn fates(other: Fate) -> impl Strategy<Value = BTreeMap<Id, Fate>> {
    prop::collection::vec(fate(other), 60).prop_map(|fates| (1..).zip(fates).collect())
}

proptest! {
    #![proptest_config(ProptestConfig { max_shrink_iters: 100, ..ProptestConfig::with_cases(64) })]

    /// The model: an id runs if its own process does well, and so does the first process of its host. Any other id is
    /// named, with its host and what happened there. Then all live as long as the root does.
    #[test]
    fn each_id_runs_or_is_named_with_the_first_cause(
        count in 1u32..16, each in 1u32..4, fan_out in 1u32..6, fates in fates(Fate::Well),
        killed in prop::collection::vec(any::<prop::sample::Index>(), 0..3),
    ) {
        let share = hosts(count, each);
        let mut world = World::new(fan_out, fates.clone());
        world.start(&share);
        let (there, gone) = world.result();
        for id in 1..=count * each {
            let host = &share[((id - 1) / each) as usize];
            let of_id = match fates[&id] {
                // No connection leads to a process of the same host.
                Fate::Dropped(_) if id != host.first => Fate::Well,
                other => other,
            };
            let cause = if fates[&host.first].is_well() { of_id } else { fates[&host.first] };
            prop_assert_eq!(there.contains(&id), cause.is_well(), "id {} with {:?}", id, cause);
            let why = gone.get(&id).map_or("", String::as_str);
            prop_assert_eq!(!why.is_empty(), !cause.is_well());
            prop_assert!(cause.is_well() || why.starts_with(&format!("host {}: ", host.name)), "{}", why);
            prop_assert!(cause.is_well() || why.contains(cause.cause()), "id {}, {:?}: {}", id, cause, why);
        }
        prop_assert!(world.now <= LIMIT * LIMITS_EACH * (count * each));
        // Those that are given up have ended.
        world.pass(Duration::ZERO);
        prop_assert_eq!(&world.alive(), &there);
        world.nothing_is_left();
        live_and_end(&mut world, &there, &killed)?;
    }

    /// Agents that only wait do not keep a start open, and nothing is left of it.
    #[test]
    fn a_start_ends_whatever_the_agents_say(count in 1u32..10, each in 1u32..3, fan_out in 1u32..4, fates in fates(Fate::Waits)) {
        let mut world = World::new(fan_out, fates);
        world.start(&hosts(count, each));
        let ids = count * each;
        let (there, gone) = world.result();
        let all: BTreeSet<Id> = there.iter().chain(gone.keys()).copied().collect();
        prop_assert_eq!((all.len(), there.len() + gone.len()), (ids as usize, ids as usize));
        // Each failed agent costs at most the limit of its share, and removes an id from the rest.
        prop_assert!(world.now <= LIMIT * LIMITS_EACH * ids * (ids + 1) / 2, "{:?}", world.now);
        world.pass(Duration::ZERO);
        prop_assert_eq!(world.alive(), there);
        world.nothing_is_left();
    }
}

/// The rest of a launch: the addresses arrive, hours pass, some processes are killed, and the root hangs.
fn live_and_end(
    world: &mut World,
    there: &BTreeSet<Id>,
    killed: &[prop::sample::Index],
) -> Result<(), TestCaseError> {
    world.send_below(0, super::super::task::GO);
    world.pass(Duration::from_secs(3600));
    prop_assert_eq!(&world.alive(), there);
    prop_assert!(
        world
            .processes
            .iter()
            .filter(|process| process.is_alive)
            .all(|process| process.id == 0 || process.has_book)
    );
    let starts = world.starts;
    let reported = world.up.len();
    for index in killed {
        let alive: Vec<usize> =
            (1..world.processes.len()).filter(|&place| world.processes[place].is_alive).collect();
        if !alive.is_empty() {
            world.end(*index.get(&alive), "killed by signal 9 (SIGKILL)");
            world.pass(Duration::from_secs(1));
        }
    }
    let mut lost = BTreeSet::new();
    for answer in &world.up[reported..] {
        let Answer::Lost(loss) = answer else { panic!("{answer} after the start") };
        prop_assert!(loss.why.ends_with(": killed by signal 9 (SIGKILL)"), "{}", loss.why);
        lost.extend(loss.first..loss.first + loss.count);
    }
    let alive = world.alive();
    prop_assert_eq!(&alive, &there.difference(&lost).copied().collect());
    prop_assert_eq!(world.starts, starts, "nothing is started again");
    world.nothing_is_left();
    // The root hangs: each agent ends after two minutes of silence, or with the agent above it.
    world.has_root = false;
    world.pass(Duration::from_secs(100));
    prop_assert_eq!(&world.alive(), &alive);
    world.pass(Duration::from_secs(21));
    prop_assert_eq!(world.alive(), BTreeSet::new());
    Ok(())
}

#[test]
fn all_are_started_through_a_tree() {
    let mut world = World::new(4, BTreeMap::new());
    world.start(&hosts(64, 2));
    assert_eq!(world.result().0, (1..=128).collect());
    let of_root =
        world.processes.iter().filter(|process| process.parent.is_some_and(|(parent, _)| parent == 0));
    assert_eq!((of_root.count(), world.starts), (4, 128));
}

/// A process was to start the next one of its host, and failed. The next one is started from the first one, and not
/// through the command for other hosts, which a process on a host may not be able to run.
#[test]
fn siblings_of_a_lost_process_are_started_on_their_host() {
    // `carry_out` compares each start with the host.
    let mut world = World::new(1, BTreeMap::from([(2, Fate::Refused)]));
    world.start(&hosts(1, 3));
    assert_eq!(world.result().0, BTreeSet::from([1, 3]));
}

/// A greeting and a report each have the whole limit.
#[test]
fn a_process_may_speak_until_its_limit_and_not_at_it() {
    for (after, is_there) in
        [(LIMIT - Duration::from_nanos(1), true), (LIMIT + Duration::from_nanos(1), false)]
    {
        for fate in [Fate::LateGreeting(after), Fate::LateReport(after)] {
            let mut world = World::new(1, BTreeMap::from([(2, fate)]));
            world.start(&hosts(3, 1));
            let (there, gone) = world.result();
            assert_eq!(there.contains(&2), is_there, "{fate:?}");
            assert!(there.contains(&1) && there.contains(&3));
            assert!(gone.values().all(|why| why.contains(fate.cause())));
        }
    }
}

#[test]
fn hosts_that_are_all_down_are_not_tried_all_at_once() {
    let mut world = World::new(8, (1..=400).map(|id| (id, Fate::Silent)).collect());
    world.start(&hosts(400, 1));
    assert_eq!((world.result().1.len(), world.starts), (400, 400));
    // 64 at a time.
    assert!((LIMIT * 7..=LIMIT * 10).contains(&world.now), "{:?}", world.now);
    // A larger fan-out raises the number.
    let mut wide = World::new(400, (1..=400).map(|id| (id, Fate::Silent)).collect());
    wide.start(&hosts(400, 1));
    assert_eq!(wide.now, LIMIT);
}
