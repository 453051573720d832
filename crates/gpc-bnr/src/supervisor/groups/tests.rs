//! Groups on a machine that the test plays: its processes, their signals, and the time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::*;
use crate::supervisor::tree::Tree;

/// The supervisor.
const ME: i32 = 1;

/// A process of the machine.
#[derive(Clone, Debug)]
struct Proc {
    parent: i32,
    process_group: i32,
    tag: Option<Vec<u8>>,
    /// It has no environment at the moment.
    loads: bool,
    /// It ends by SIGTERM.
    ends: bool,
    /// It does not end by SIGKILL.
    stays: bool,
}

struct Fake {
    processes: BTreeMap<i32, Proc>,
    /// Children of the supervisor that have ended.
    zombies: Vec<(i32, Exit)>,
    signals: Vec<(i32, Signal)>,
    memory_kills: u64,
    millis: Arc<AtomicU64>,
    pauses: Vec<Duration>,
}

fn pid(number: i32) -> Pid {
    Pid::from_raw(number).unwrap()
}

impl Fake {
    fn dies(&mut self, number: i32, exit: Exit) {
        let Some(gone) = self.processes.remove(&number) else { return };
        if gone.parent == ME {
            self.zombies.push((number, exit));
        }
        for orphan in self.processes.values_mut().filter(|process| process.parent == number) {
            orphan.parent = ME;
        }
    }

    fn signal(&mut self, number: i32, signal: Signal) {
        let Some(process) = self.processes.get(&number) else { return };
        self.signals.push((number, signal));
        let ends = signal == Signal::KILL && !process.stays || signal == Signal::TERM && process.ends;
        if ends {
            self.dies(number, Exit::Signal(signal.as_raw() as u8));
        }
    }
}

impl System for Fake {
    fn me(&self) -> Pid {
        pid(ME)
    }

    fn take_ended(&mut self) -> EndedChild {
        if self.zombies.is_empty() {
            let childless = !self.processes.values().any(|process| process.parent == ME);
            return if childless { EndedChild::NoChildren } else { EndedChild::NoneYet };
        }
        let (number, exit) = self.zombies.remove(0);
        EndedChild::Ended(pid(number), exit)
    }

    fn tree(&self) -> Tree {
        let mut children: HashMap<Pid, Vec<Pid>> = HashMap::new();
        for (number, process) in &self.processes {
            children.entry(pid(process.parent)).or_default().push(pid(*number));
        }
        for (number, _) in &self.zombies {
            children.entry(pid(ME)).or_default().push(pid(*number));
        }
        Tree::Built(children)
    }

    fn process_group(&self, of: Pid) -> Option<Pid> {
        self.processes.get(&of.as_raw_nonzero().get()).map(|process| pid(process.process_group))
    }

    fn tag(&self, of: Pid) -> Variable {
        match self.processes.get(&of.as_raw_nonzero().get()) {
            Some(process) if process.loads => Variable::NotNow,
            Some(process) => Variable::Value(process.tag.clone()),
            None => Variable::NotNow,
        }
    }

    fn has_child_in(&self, process_group: Pid) -> bool {
        let group = process_group.as_raw_nonzero().get();
        self.processes.values().any(|process| process.parent == ME && process.process_group == group)
    }

    fn signal_process_group(&mut self, process_group: Pid, signal: Signal) {
        let group = process_group.as_raw_nonzero().get();
        let all = self.processes.iter().filter(|(_, process)| process.process_group == group);
        all.map(|(number, _)| *number)
            .collect::<Vec<_>>()
            .into_iter()
            .for_each(|number| self.signal(number, signal));
    }

    fn signal_child(&mut self, child: Pid, signal: Signal) {
        self.signal(child.as_raw_nonzero().get(), signal);
    }

    fn signal_below(&mut self, found_with: Pid, below: Pid, signal: Signal) {
        let number = below.as_raw_nonzero().get();
        let parent = self.processes.get(&number).map(|process| process.parent);
        if parent.is_some_and(|parent| parent == ME || pid(parent) == found_with) {
            self.signal(number, signal);
        }
    }

    fn memory_kills(&self) -> Option<u64> {
        Some(self.memory_kills)
    }

    fn make_cgroup(&mut self) -> Option<Cgroup> {
        None
    }

    fn pause(&mut self, pause: Duration) {
        self.pauses.push(pause);
        self.millis.fetch_add(pause.as_millis() as u64, Ordering::Relaxed);
    }
}

struct Rig {
    groups: Groups<Fake>,
    clock: Clock,
    millis: Arc<AtomicU64>,
}

const fn member(group: u32, rank: u32) -> Member {
    Member { group: GroupId(group), rank }
}

fn tag(group: u32) -> Vec<u8> {
    format!("d/g{group}").into_bytes()
}

impl Rig {
    fn new() -> Rig {
        let millis = Arc::new(AtomicU64::new(7_000));
        let read = millis.clone();
        let system = Fake {
            processes: BTreeMap::new(),
            zombies: Vec::new(),
            signals: Vec::new(),
            memory_kills: 3,
            millis: millis.clone(),
            pauses: Vec::new(),
        };
        let clock = Clock::reading(move || Duration::from_millis(read.load(Ordering::Relaxed)));
        Rig { groups: Groups::new(system), clock, millis }
    }

    /// A process of a group, which leads its own process group.
    fn starts(&mut self, number: i32, group: u32, rank: u32) {
        self.adds(number, ME, number, Some(group));
        self.groups.insert(member(group, rank), pid(number), &[(GROUP.to_vec(), tag(group))], false);
    }

    fn adds(&mut self, number: i32, parent: i32, process_group: i32, of: Option<u32>) {
        let tag = of.map(tag);
        let process = Proc { parent, process_group, tag, loads: false, ends: false, stays: false };
        self.groups.system.processes.insert(number, process);
    }

    fn of(&mut self, number: i32) -> &mut Proc {
        self.groups.system.processes.get_mut(&number).unwrap()
    }

    fn kill(&mut self, group: u32, grace: Option<u64>) {
        self.groups.kill(GroupId(group), self.clock.now(), grace.map(Duration::from_millis));
    }

    fn now(&mut self) -> Vec<SupervisorEvent> {
        self.at(0)
    }

    /// Moves the clock, collects ended children and takes the steps that are due.
    fn at(&mut self, millis: u64) -> Vec<SupervisorEvent> {
        self.millis.fetch_add(millis, Ordering::Relaxed);
        let mut events = Vec::new();
        for _ in 0..3 {
            self.groups.reap(|event| events.push(event));
            self.groups.step(&self.clock, |event| events.push(event));
        }
        events
    }

    fn signals(&mut self) -> Vec<(i32, Signal)> {
        std::mem::take(&mut self.groups.system.signals)
    }

    /// Nothing is left in the tables.
    fn is_empty(&self) {
        let groups = &self.groups;
        assert!(groups.groups.is_empty() && groups.running.is_empty() && groups.descendants.is_empty());
        assert_eq!((groups.next(), groups.cgroup.is_none()), (None, true));
    }
}

const EMPTIED: fn(u32) -> SupervisorEvent = |group| SupervisorEvent::Emptied(GroupId(group));

fn ended(group: u32, rank: u32, signal: u8) -> SupervisorEvent {
    SupervisorEvent::Ended(member(group, rank), Exit::Signal(signal))
}

#[test]
fn a_group_is_asked_to_end_and_is_killed_after_the_grace() {
    let mut rig = Rig::new();
    rig.starts(10, 1, 0);
    rig.starts(11, 1, 1);
    rig.starts(20, 2, 0);
    rig.of(11).ends = true;
    rig.kill(1, Some(2_000));
    assert_eq!(rig.groups.next(), Some(Duration::ZERO));
    assert_eq!(rig.now(), [ended(1, 1, 15)]);
    let mut signals = rig.signals();
    signals.sort_by_key(|(number, _)| *number);
    assert_eq!(signals, [(10, Signal::TERM), (11, Signal::TERM)]);
    assert_eq!((rig.at(1_999), rig.signals()), (Vec::new(), Vec::new()));
    assert_eq!(rig.at(1), [ended(1, 0, 9), EMPTIED(1)]);
    assert_eq!(rig.groups.next(), None, "the other group is not being killed");
    rig.kill(2, None);
    assert_eq!(rig.now(), [ended(2, 0, 9), EMPTIED(2)]);
    rig.is_empty();
}

/// A group counted as empty although a detached descendant of a process that had ended was left.
#[test]
fn descendants_are_killed_wherever_they_have_gone() {
    let mut rig = Rig::new();
    rig.starts(10, 1, 0);
    // In the process group; detached, with and without its variables; and below those.
    rig.adds(11, 10, 10, Some(1));
    rig.adds(12, 10, 12, Some(1));
    rig.adds(13, 11, 13, None);
    rig.adds(14, 13, 14, None);
    rig.adds(15, 10, 15, None);
    rig.adds(20, ME, 20, None);
    rig.groups.insert(member(2, 0), pid(20), &[], false);
    rig.kill(1, Some(1_000));
    assert_eq!(rig.now(), []);
    assert_eq!(rig.signals(), [(10, Signal::TERM), (11, Signal::TERM)]);
    // One ends below its parent, which takes its exit status. The processes end, and leave the others here.
    rig.groups.system.dies(15, Exit::Code(0));
    for number in [10, 11] {
        rig.groups.system.dies(number, Exit::Code(0));
    }
    assert_eq!(rig.at(1), [SupervisorEvent::Ended(member(1, 0), Exit::Code(0))]);
    assert_eq!(rig.at(999), [EMPTIED(1)]);
    assert_eq!(rig.groups.system.processes.keys().collect::<Vec<_>>(), [&20]);
    rig.groups.system.dies(20, Exit::Code(3));
    assert_eq!(rig.now(), [SupervisorEvent::Ended(member(2, 0), Exit::Code(3))]);
    rig.kill(2, None);
    assert_eq!(rig.now(), [EMPTIED(2)]);
    rig.is_empty();
}

#[test]
fn an_adopted_process_belongs_to_its_process_group_or_its_variable() {
    let mut rig = Rig::new();
    rig.starts(10, 1, 0);
    rig.starts(20, 2, 0);
    for number in [10, 20] {
        rig.groups.system.dies(number, Exit::Code(0));
    }
    rig.now();
    // Their parents have ended. The first has lost its variables, the second its process group.
    rig.adds(11, ME, 10, None);
    rig.adds(12, ME, 12, Some(1));
    rig.adds(21, ME, 21, Some(2));
    rig.groups.childless = false;
    rig.kill(1, None);
    assert_eq!(rig.now(), [EMPTIED(1)]);
    assert_eq!(rig.groups.system.processes.keys().collect::<Vec<_>>(), [&21]);
    rig.kill(2, None);
    assert_eq!(rig.now(), [EMPTIED(2)]);
    rig.is_empty();
}

/// The rest of a group was assigned to no group while it loaded a program, and its group was reported as empty.
#[test]
fn a_child_of_unknown_group_delays_the_end_for_a_second() {
    let mut rig = Rig::new();
    rig.starts(10, 1, 0);
    rig.starts(20, 2, 0);
    rig.groups.system.dies(10, Exit::Code(0));
    rig.adds(11, ME, 11, Some(1));
    rig.of(11).loads = true;
    rig.now();
    rig.kill(1, None);
    assert_eq!(rig.now(), []);
    let again = rig.groups.next().unwrap();
    assert!(again <= rig.clock.now() + UNKNOWN_PAUSE);
    rig.of(11).loads = false;
    assert_eq!(rig.at(500), [EMPTIED(1)]);
    assert!(!rig.groups.system.processes.contains_key(&11));
    // It stays unknown.
    rig.adds(21, ME, 21, None);
    rig.of(21).loads = true;
    rig.starts(30, 3, 0);
    rig.groups.system.dies(20, Exit::Code(0));
    rig.now();
    rig.kill(2, None);
    assert_eq!((rig.now(), rig.at(999)), (vec![], vec![]));
    assert_eq!(rig.at(1), [EMPTIED(2)]);
}

/// A process without any mark of its group ends with the last group that is killed, and not before.
#[test]
fn a_process_of_no_group_ends_with_the_last_one() {
    let mut rig = Rig::new();
    rig.starts(10, 1, 0);
    rig.starts(20, 2, 0);
    rig.adds(30, ME, 30, None);
    rig.groups.insert(member(3, 0), pid(30), &[], false);
    rig.adds(40, ME, 40, None);
    // Group 3 has no variable either.
    for group in [2, 3] {
        rig.kill(group, None);
        assert_eq!(rig.now(), [ended(group, 0, 9), EMPTIED(group)]);
        assert!(rig.groups.system.processes.contains_key(&40));
    }
    rig.kill(1, None);
    assert_eq!(rig.now(), [ended(1, 0, 9), EMPTIED(1)]);
    assert!(rig.groups.system.processes.is_empty());
    rig.is_empty();
}

/// A process that cannot be killed is given up after 10 s; its end is reported as any other.
#[test]
fn a_process_that_does_not_end_is_given_up_after_ten_seconds() {
    let mut rig = Rig::new();
    rig.starts(10, 1, 0);
    rig.of(10).stays = true;
    rig.kill(1, None);
    assert_eq!((rig.now(), rig.at(9_999)), (vec![], vec![]));
    assert!(rig.signals().len() > 1, "it is killed again");
    assert_eq!(rig.at(1), [ended(1, 0, 9), EMPTIED(1)]);
    rig.is_empty();
    // Its late end is reported to nobody.
    rig.of(10).stays = false;
    rig.groups.system.dies(10, Exit::Signal(9));
    assert_eq!(rig.now(), []);
}

#[test]
fn a_kill_for_lack_of_memory_is_told_from_others() {
    let mut rig = Rig::new();
    for (number, rank) in [(10, 0), (11, 1), (12, 2), (13, 3)] {
        rig.starts(number, 1, rank);
    }
    let dies = |rig: &mut Rig, number, signal| {
        rig.groups.system.dies(number, Exit::Signal(signal));
        rig.now()
    };
    assert_eq!(dies(&mut rig, 10, 9), [ended(1, 0, 9)], "the count has not changed");
    rig.groups.system.memory_kills += 1;
    assert_eq!(dies(&mut rig, 11, 6), [ended(1, 1, 6)]);
    assert_eq!(dies(&mut rig, 12, 9), [SupervisorEvent::Ended(member(1, 2), Exit::OutOfMemory)]);
    assert_eq!(dies(&mut rig, 13, 9), [ended(1, 3, 9)], "each is counted once");
    rig.starts(20, 2, 0);
    rig.groups.system.memory_kills += 1;
    rig.kill(2, None);
    assert_eq!(rig.now(), [ended(2, 0, 9), EMPTIED(2)], "it was killed here");
}

#[test]
fn a_signal_reaches_the_running_processes_of_a_group() {
    let mut rig = Rig::new();
    rig.starts(10, 1, 0);
    rig.starts(11, 1, 1);
    rig.starts(20, 2, 0);
    rig.groups.system.dies(11, Exit::Code(0));
    rig.now();
    rig.adds(11, ME, 11, None);
    for (number, signal) in
        [(10, Some(Signal::USR1)), (20, Some(Signal::STOP)), (18, Some(Signal::CONT)), (255, None)]
    {
        rig.groups.signal(GroupId(1), number, Recipients::All);
        assert_eq!(
            rig.signals(),
            signal.map(|signal| (10, signal)).into_iter().collect::<Vec<_>>(),
            "{number}"
        );
    }
    rig.groups.signal(GroupId(9), 10, Recipients::All);
    assert_eq!(rig.signals(), []);
}

/// The id of a process group was signalled after another process could have got it.
#[test]
fn a_process_group_that_is_gone_is_not_signalled() {
    let mut rig = Rig::new();
    rig.starts(10, 1, 0);
    rig.starts(11, 1, 1);
    rig.groups.system.dies(10, Exit::Code(0));
    rig.now();
    // Another program's process, below nobody here.
    rig.adds(10, 999, 10, None);
    rig.kill(1, Some(1));
    rig.now();
    rig.at(10);
    assert!(rig.groups.system.processes.contains_key(&10));
}

#[test]
fn a_group_that_is_killed_is_known_until_it_is_empty() {
    let mut rig = Rig::new();
    rig.starts(10, 1, 0);
    assert!(!rig.groups.is_killed(GroupId(1)));
    rig.kill(1, Some(50));
    rig.kill(1, None);
    assert!(rig.groups.is_killed(GroupId(1)) && !rig.groups.is_killed(GroupId(2)));
    assert_eq!(rig.now(), [ended(1, 0, 9), EMPTIED(1)], "the second order does not wait");
    assert!(!rig.groups.is_killed(GroupId(1)));
    // A group that has nothing here.
    rig.kill(5, Some(1_000));
    assert_eq!(rig.now(), [EMPTIED(5)]);
    rig.is_empty();
}

#[test]
fn the_end_kills_everything_below_and_waits_ten_seconds_at_most() {
    let mut rig = Rig::new();
    rig.starts(10, 1, 0);
    rig.adds(11, 10, 11, None);
    rig.adds(12, 11, 12, None);
    let clock = rig.clock.clone();
    let begun = clock.now();
    rig.groups.end(&clock);
    assert!(rig.groups.system.processes.is_empty() && clock.now() - begun <= PAUSE_MAX);
    rig.starts(20, 2, 0);
    rig.of(20).stays = true;
    let begun = clock.now();
    rig.groups.end(&clock);
    let took = clock.now() - begun;
    assert!((EMPTY_LIMIT..EMPTY_LIMIT + PAUSE_MAX).contains(&took), "{took:?}");
    let pauses = &rig.groups.system.pauses;
    assert!(pauses.contains(&PAUSE) && pauses.iter().all(|pause| *pause <= PAUSE_MAX), "{pauses:?}");
}

/// The process id of a descendant that had ended was used again, and its new process was killed.
#[test]
fn the_id_of_an_ended_descendant_may_be_used_again() {
    let mut rig = Rig::new();
    rig.starts(10, 1, 0);
    rig.starts(20, 2, 0);
    rig.adds(11, 10, 11, None);
    rig.kill(1, Some(1_000));
    rig.now();
    rig.groups.system.dies(10, Exit::Code(0));
    rig.starts(12, 1, 1);
    rig.groups.system.dies(11, Exit::Code(0));
    rig.now();
    rig.adds(11, ME, 11, Some(2));
    assert_eq!(rig.at(1_000), [ended(1, 1, 9), EMPTIED(1)]);
    assert!(rig.groups.system.processes.contains_key(&11));
}

/// What a process leaves in its process group is asked to end as well.
#[test]
fn the_process_group_of_an_ended_process_is_asked_to_end() {
    let mut rig = Rig::new();
    rig.starts(10, 1, 0);
    rig.starts(12, 1, 1);
    rig.adds(11, 10, 10, None);
    rig.of(11).ends = true;
    rig.groups.system.dies(10, Exit::Code(0));
    rig.now();
    rig.kill(1, Some(1_000));
    rig.now();
    assert!(rig.signals().contains(&(11, Signal::TERM)));
    assert_eq!(rig.at(1_000), [ended(1, 1, 9), EMPTIED(1)]);
    rig.is_empty();
}

/// A process that reads a terminal is in the process group of the command, which gets no signal from here.
#[test]
fn a_process_in_the_process_group_of_others_gets_signals_alone() {
    let mut rig = Rig::new();
    // The command, its shell, and a child of rank 0 that stays in the same process group.
    let command = 5;
    rig.adds(command, command, command, None);
    rig.adds(20, ME, command, Some(1));
    rig.groups.insert(member(1, 0), pid(20), &[(GROUP.to_vec(), tag(1))], true);
    rig.adds(21, 20, command, Some(1));
    rig.starts(30, 1, 1);
    rig.groups.signal(GroupId(1), 10, Recipients::All);
    rig.groups.signal(GroupId(1), 2, Recipients::NotJoined);
    let sent = std::mem::take(&mut rig.groups.system.signals);
    assert_eq!(sent, [(20, Signal::USR1), (30, Signal::USR1), (30, Signal::INT)]);
    rig.groups.kill(GroupId(1), rig.clock.now(), Some(Duration::from_secs(2)));
    rig.groups.step(&rig.clock, drop);
    let mut sent = std::mem::take(&mut rig.groups.system.signals);
    sent.sort_by_key(|(number, _)| *number);
    assert_eq!(sent, [20, 21, 30].map(|number| (number, Signal::TERM)));
    rig.millis.fetch_add(2_000, Ordering::Relaxed);
    rig.groups.step(&rig.clock, drop);
    assert!(rig.groups.system.processes.keys().all(|number| *number == command), "the command runs on");
}
