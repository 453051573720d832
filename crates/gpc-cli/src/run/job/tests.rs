//! A job whose domain, signals and time the test plays.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Sender, SyncSender};

use gpc_bnr::{Death, Limits, Readers, Spec, StartError};
use signal_hook::consts::{SIGINT, SIGTERM, SIGUSR1};

use super::super::head::AnswerCallback;
use super::super::output::OutputPlan;
use super::super::plan::NodePlacement;
use super::*;
use crate::args::{Args, Command};

/// What happens at a time, in milliseconds.
enum Happening {
    Event(HostEvent),
    Signal(i32),
    /// A signal of a terminal.
    Typed(i32),
    /// All output is written from now on.
    Written,
}

struct Fake {
    millis: Arc<AtomicU64>,
    events: (Sender<HostEvent>, Receiver<HostEvent>),
    signals: Sender<Arrived>,
    script: RefCell<Vec<(u64, Happening)>>,
    asked: RefCell<Vec<Request>>,
    signalled: RefCell<Vec<u8>>,
    /// The answer to the start of the command at the time limit.
    commanded: RefCell<Option<Result<Answer, Fault>>>,
    /// Signals for processes that the terminal has not reached.
    typed: RefCell<Vec<u8>>,
    /// The answer to the start; without one the start takes for ever.
    started: RefCell<Option<Result<Answer, Fault>>>,
    groups: RefCell<Vec<GroupStatus>>,
    freed: RefCell<BTreeSet<GroupId>>,
    /// Whether kills are answered.
    kills: bool,
    is_written: RefCell<bool>,
    /// The waits for that.
    drains: RefCell<Vec<SyncSender<()>>>,
    unanswered: RefCell<Vec<AnswerCallback>>,
}

impl Fake {
    /// The specs of all starts.
    fn spawns(&self) -> Vec<Vec<Spec>> {
        let specs = |request: &Request| match request {
            Request::SpawnMultiple { specs, .. } => Some(specs.clone()),
            _ => None,
        };
        self.asked.borrow().iter().filter_map(specs).collect()
    }

    fn now(&self) -> u64 {
        self.millis.load(Ordering::Relaxed)
    }

    /// Time passes, up to the next thing that happens.
    fn passes(&self, limit: Duration) {
        let until = self.now() + limit.as_millis() as u64;
        let next = self.script.borrow().first().map_or(until, |(at, _)| (*at).max(self.now()));
        self.millis.store(next.min(until), Ordering::Relaxed);
        assert!(self.now() < 36_000_000, "the job waits for ever");
        while self.script.borrow().first().is_some_and(|(at, _)| *at <= self.now()) {
            match self.script.borrow_mut().remove(0).1 {
                Happening::Event(event) => self.events.0.send(event).unwrap(),
                Happening::Signal(number) => {
                    self.signals.send(Arrived { number, by_terminal: false }).unwrap();
                }
                Happening::Typed(number) => {
                    self.signals.send(Arrived { number, by_terminal: true }).unwrap();
                }
                Happening::Written => {
                    self.is_written.replace(true);
                    self.drains.borrow_mut().drain(..).for_each(|drained| drained.send(()).unwrap());
                }
            }
        }
    }
}

impl Head for Fake {
    fn events(&self) -> &Receiver<HostEvent> {
        &self.events.1
    }

    fn receive<T>(&self, from: &Receiver<T>, limit: Duration) -> Result<T, RecvTimeoutError> {
        for is_last in [false, true] {
            match from.try_recv() {
                Ok(message) => return Ok(message),
                Err(mpsc::TryRecvError::Disconnected) => return Err(RecvTimeoutError::Disconnected),
                Err(mpsc::TryRecvError::Empty) if is_last => {}
                Err(mpsc::TryRecvError::Empty) => self.passes(limit),
            }
        }
        Err(RecvTimeoutError::Timeout)
    }

    fn ask(&self, request: Request, _: Duration) -> Result<Answer, Fault> {
        assert!(self.asked.borrow().len() < 1_000, "the job asks for ever");
        self.asked.borrow_mut().push(request.clone());
        match request {
            Request::Subscribe(group) if self.freed.borrow().contains(&group) => {
                Err(Fault::new(FaultKind::NoGroup, "freed"))
            }
            Request::Groups | Request::Status(_) => Ok(Answer::Groups(self.groups.borrow().clone())),
            _ => Ok(Answer::Done),
        }
    }

    fn ask_then(&self, request: Request, callback: AnswerCallback) {
        self.asked.borrow_mut().push(request.clone());
        let answer = match self.spawns().len() {
            ..=1 => self.started.borrow_mut().take(),
            _ => self.commanded.borrow_mut().take(),
        };
        match (request, answer) {
            (Request::SpawnMultiple { .. }, Some(answer)) => callback(answer),
            (Request::Kill(_), _) if self.kills => callback(Ok(Answer::Done)),
            _ => self.unanswered.borrow_mut().push(callback),
        }
    }

    fn drain(&self) -> Receiver<()> {
        let (sender, drained) = mpsc::sync_channel(1);
        match *self.is_written.borrow() {
            true => sender.send(()).unwrap(),
            false => self.drains.borrow_mut().push(sender),
        }
        drained
    }

    fn signal_all(&self, signal: u8) {
        self.signalled.borrow_mut().push(signal);
    }

    fn signal_others(&self, signal: u8) {
        self.typed.borrow_mut().push(signal);
    }

    fn read_input(&self) -> Reading {
        Reading::default()
    }
}

struct Rig {
    places: Places,
    fake: Fake,
    plan: RunPlan,
    signals: Signals,
}

const FIRST: GroupId = GroupId(1);

fn death(group: u32, rank: u32, exit: Exit) -> Happening {
    let member = Member { group: GroupId(group), rank };
    Happening::Event(HostEvent::Death(Death { member, exit, finalized: true }))
}

fn status(group: u32, state: GroupState, size: u32) -> GroupStatus {
    let member = |rank| MemberStatus { rank, node: 0, pid: Some(1), death: None };
    GroupStatus {
        group: GroupId(group),
        parent: None,
        state,
        database: String::new(),
        program: Vec::new(),
        age: Duration::ZERO,
        members: (0..size).map(member).collect(),
    }
}

impl Rig {
    /// A job of two processes, whose start is answered at once and whose output is written.
    fn new(on_death: OnDeath, script: Vec<(u64, Happening)>) -> Rig {
        let (sender, signals) = Signals::played();
        let spawned = Answer::Spawned { group: FIRST, errors: vec![0, 0], same_domain: true };
        let fake = Fake {
            millis: Arc::new(AtomicU64::new(0)),
            events: mpsc::channel(),
            signals: sender,
            script: RefCell::new(script),
            asked: RefCell::default(),
            signalled: RefCell::default(),
            commanded: RefCell::default(),
            typed: RefCell::default(),
            started: RefCell::new(Some(Ok(spawned))),
            groups: RefCell::default(),
            freed: RefCell::default(),
            kills: true,
            is_written: RefCell::new(true),
            drains: RefCell::default(),
            unanswered: RefCell::default(),
        };
        let plan = RunPlan {
            specs: vec![Spec { count: 2, program: b"p".to_vec(), ..Spec::default() }],
            on_death,
            nodes: NodePlacement::OwnNode,
            output: OutputPlan::default(),
            print_exits: false,
            time_limit: None,
            timeout_signal: None,
            on_timeout: None,
            pmi_port: false,
            programs: Vec::new(),
            input: StdinSource::None,
            readers: Readers::None,
            limits: Limits::default(),
        };
        Rig { places: Places::default(), fake, plan, signals }
    }

    fn limit(mut self, limit: &str) -> Rig {
        self.plan.time_limit = Some(limit.parse().unwrap());
        self
    }

    /// Runs the job. Returns its end, the status of its failures, and the number of warnings.
    fn run(&self) -> (JobEnd, Option<u8>, usize) {
        let millis = self.fake.millis.clone();
        let clock = Clock::reading(move || Duration::from_millis(millis.load(Ordering::Relaxed)));
        let mut job = Job::new(&self.fake, &self.plan, &self.signals, &clock, &self.places);
        let end = job.run();
        let warned = job.warned;
        (end, job.into_ends().0.status(), warned)
    }

    fn has_asked(&self, request: &Request) -> bool {
        self.fake.asked.borrow().contains(request)
    }
}

#[test]
fn a_job_ends_with_its_last_process() {
    let rig =
        Rig::new(OnDeath::Kill, vec![(10, death(1, 1, Exit::Code(0))), (2_000, death(1, 0, Exit::Code(0)))]);
    assert!(matches!(rig.run(), (JobEnd::Ended, None, 0)));
    assert_eq!(rig.fake.now(), 2_000);
    assert!(rig.has_asked(&Request::Subscribe(FIRST)) && !rig.has_asked(&Request::Kill(FIRST)));
}

/// Both sides of the time limit. Killed processes have the grace period and ten seconds.
#[test]
fn a_job_has_its_time_limit_and_not_less() {
    let ends = |at| vec![(0, death(1, 1, Exit::Code(0))), (at, death(1, 0, Exit::Code(0)))];
    let rig = Rig::new(OnDeath::Kill, ends(29_999)).limit("30s");
    assert!(matches!(rig.run(), (JobEnd::Ended, None, 0)));
    let mut rig = Rig::new(OnDeath::Kill, ends(60_000)).limit("30s");
    rig.fake.groups.replace(vec![status(1, GroupState::Running, 2), status(2, GroupState::Ended, 1)]);
    rig.fake.kills = false;
    assert!(matches!(rig.run(), (JobEnd::TimedOut, None, 0)));
    assert!(rig.has_asked(&Request::Kill(FIRST)) && !rig.has_asked(&Request::Kill(GroupId(2))));
    assert_eq!(rig.fake.now(), 40_000 + Limits::default().grace.as_millis() as u64);
    let rig = Rig::new(OnDeath::Kill, ends(60_000)).limit("30s");
    rig.fake.groups.replace(vec![status(1, GroupState::Running, 2)]);
    assert!(matches!(rig.run(), (JobEnd::TimedOut, None, 0)));
    assert_eq!(rig.fake.now(), 30_000, "the kill was answered at once");
}

#[test]
fn the_time_limit_holds_for_the_start_and_for_the_output() {
    let rig = Rig::new(OnDeath::Kill, Vec::new()).limit("5s");
    rig.fake.started.take();
    assert!(matches!(rig.run(), (JobEnd::TimedOut, ..)));
    assert_eq!(rig.fake.now(), 5_000);
    let ends = || vec![(0, death(1, 1, Exit::Code(0))), (0, death(1, 0, Exit::Code(0)))];
    let rig = Rig::new(OnDeath::Kill, ends()).limit("5s");
    rig.fake.is_written.replace(false);
    assert!(matches!(rig.run(), (JobEnd::TimedOut, ..)));
    let mut script = ends();
    script.push((4_999, Happening::Written));
    let rig = Rig::new(OnDeath::Kill, script).limit("5s");
    rig.fake.is_written.replace(false);
    assert!(matches!(rig.run(), (JobEnd::Ended, None, 0)));
    assert_eq!(rig.fake.now(), 4_999);
}

/// A job whose first group had failed waited for what that had spawned.
#[test]
fn one_failed_process_ends_the_job_and_what_it_has_spawned() {
    let script = || {
        vec![
            (1, Happening::Event(HostEvent::Spawned { group: GroupId(2), count: 1 })),
            (5, death(1, 0, Exit::Code(3))),
            (6, death(1, 1, Exit::Signal(15))),
            (90, death(2, 0, Exit::Code(0))),
        ]
    };
    let rig = Rig::new(OnDeath::Kill, script());
    rig.fake.groups.replace(vec![status(1, GroupState::Ended, 2), status(2, GroupState::Running, 1)]);
    assert!(matches!(rig.run(), (JobEnd::Ended, Some(3), 0)));
    assert!(rig.has_asked(&Request::Kill(GroupId(2))) && rig.fake.now() == 6);
    let rig = Rig::new(OnDeath::Notify, script());
    assert!(matches!(rig.run(), (JobEnd::Ended, Some(3), 0)));
    assert!(!rig.has_asked(&Request::Kill(GroupId(2))) && rig.fake.now() == 90);
    assert!(rig.has_asked(&Request::Subscribe(GroupId(2))));
}

/// A command on many hosts ran nowhere, since one of them could start no process.
#[test]
fn a_job_that_starts_partly_goes_on_without_what_was_left_out() {
    let refusal = |group| {
        let error = StartError::new(11, StartError::NOT_EXECUTED, "no process");
        StartFailure { group, node: 1, ranks: vec![1], program: b"p".to_vec(), error }
    };
    // The reason may arrive before or after the answer to the start.
    for at in [0, 1] {
        let script = vec![
            (at, Happening::Event(HostEvent::NotStarted(refusal(FIRST)))),
            (2, death(1, 1, Exit::Never)),
            (2, Happening::Event(HostEvent::NotStarted(refusal(GroupId(2))))),
            (9, death(1, 0, Exit::Code(0))),
        ];
        let mut rig = Rig::new(OnDeath::Notify, script);
        rig.plan.specs[0].info.push(("start".into(), b"partial".to_vec()));
        let spawned = Answer::Spawned { group: FIRST, errors: vec![0, 11], same_domain: true };
        rig.fake.started.replace(Some(Ok(spawned)));
        let clock = Clock::reading({
            let millis = rig.fake.millis.clone();
            move || Duration::from_millis(millis.load(Ordering::Relaxed))
        });
        let mut job = Job::new(&rig.fake, &rig.plan, &rig.signals, &clock, &rig.places);
        assert!(matches!(job.run(), JobEnd::Ended));
        assert_eq!((rig.fake.now(), job.warned), (9, 1), "only the start of the spawned group is warned of");
        let (failures, _, left_out) = job.into_ends();
        assert_eq!((failures.status(), left_out), (None, vec![refusal(FIRST)]));
    }
}

#[test]
fn a_job_waits_for_groups_that_it_finds_at_its_end() {
    let mut script = vec![(0, death(1, 1, Exit::Code(0))), (0, death(1, 0, Exit::Code(0)))];
    script.push((700, death(5, 0, Exit::Code(9))));
    let rig = Rig::new(OnDeath::Kill, script);
    let mut never = status(4, GroupState::Killed, 1);
    let member = Member { group: GroupId(4), rank: 0 };
    never.members[0].death = Some(Death { member, exit: Exit::Never, finalized: true });
    let groups = [
        (1, GroupState::Ended, 2),
        (2, GroupState::Open, 1),
        (3, GroupState::Derived, 1),
        (5, GroupState::Running, 1),
        (6, GroupState::Running, 1),
    ];
    let groups = groups.map(|(group, state, size)| status(group, state, size));
    rig.fake.groups.replace(groups.into_iter().chain([never]).collect());
    // One is freed in the meantime.
    rig.fake.freed.replace([GroupId(6)].into());
    assert!(matches!(rig.run(), (JobEnd::Ended, Some(9), 0)));
    assert_eq!(rig.fake.now(), 700);
    for (group, is_watched) in [(2, false), (3, false), (4, false), (5, true), (6, true)] {
        assert_eq!(rig.has_asked(&Request::Subscribe(GroupId(group))), is_watched, "{group}");
    }
}

#[test]
fn a_signal_is_forwarded_and_the_second_that_ends_is_obeyed() {
    let script = vec![
        (1, Happening::Signal(SIGUSR1)),
        (2, Happening::Signal(SIGUSR1)),
        (3, Happening::Signal(SIGINT)),
        (1_000, Happening::Signal(SIGTERM)),
    ];
    let rig = Rig::new(OnDeath::Kill, script);
    assert!(matches!(rig.run(), (JobEnd::Signalled(SIGTERM), None, 0)));
    assert_eq!(*rig.fake.signalled.borrow(), [SIGUSR1, SIGUSR1, SIGINT].map(|signal| signal as u8));
    // Before the processes run, the first one ends the job.
    let rig = Rig::new(OnDeath::Kill, vec![(1, Happening::Signal(SIGUSR1)), (2, Happening::Signal(SIGINT))]);
    rig.fake.started.take();
    assert!(matches!(rig.run(), (JobEnd::Signalled(SIGINT), None, 0)));
    // And so it does when only the output is left.
    let script = vec![
        (0, death(1, 1, Exit::Code(0))),
        (0, death(1, 0, Exit::Code(0))),
        (9, Happening::Signal(SIGINT)),
    ];
    let rig = Rig::new(OnDeath::Kill, script);
    rig.fake.is_written.replace(false);
    assert!(matches!(rig.run(), (JobEnd::Signalled(SIGINT), None, 0)));
}

/// A job asked again every 50 ms whether all nodes had written their output. Over 64 hosts an answer took longer, so
/// each question came before the answer to the last one, and the job went on for 10 s.
#[test]
fn a_job_asks_once_whether_all_output_is_written() {
    let script = vec![
        (0, death(1, 1, Exit::Code(0))),
        (0, death(1, 0, Exit::Code(0))),
        (900, Happening::Signal(SIGINT)),
    ];
    let rig = Rig::new(OnDeath::Kill, script);
    rig.fake.is_written.replace(false);
    assert!(matches!(rig.run(), (JobEnd::Signalled(SIGINT), None, 0)));
    assert_eq!(rig.fake.drains.borrow().len(), 1);
}

/// Signals that end the job shorten the wait for killed processes.
#[test]
fn a_signal_ends_the_wait_for_killed_processes() {
    let mut rig = Rig::new(OnDeath::Kill, vec![(2_000, Happening::Signal(SIGINT))]).limit("1s");
    rig.fake.groups.replace(vec![status(1, GroupState::Running, 2)]);
    rig.fake.kills = false;
    assert!(matches!(rig.run(), (JobEnd::TimedOut, None, 0)));
    assert_eq!(rig.fake.now(), 2_000);
}

#[test]
fn what_is_not_started_has_its_reasons() {
    let failure = StartFailure {
        group: FIRST,
        node: 0,
        ranks: vec![1],
        program: b"p".to_vec(),
        error: StartError::new(2, 127, "no"),
    };
    let rig = Rig::new(OnDeath::Kill, Vec::new());
    rig.fake.events.0.send(HostEvent::NotStarted(failure.clone())).unwrap();
    rig.fake.started.replace(Some(Ok(Answer::Spawned {
        group: FIRST,
        errors: vec![0, 2],
        same_domain: true,
    })));
    let (JobEnd::NotStarted(failures, errors), None, 0) = rig.run() else { panic!("it was started") };
    assert_eq!((failures, errors), (vec![failure.clone()], vec![0, 2]));
    // That of a spawned group is a warning.
    let script = vec![
        (1, Happening::Event(HostEvent::NotStarted(failure))),
        (2, death(1, 1, Exit::Code(0))),
        (2, death(1, 0, Exit::Code(0))),
    ];
    assert!(matches!(Rig::new(OnDeath::Kill, script).run(), (JobEnd::Ended, None, 1)));
    let rig = Rig::new(OnDeath::Kill, Vec::new());
    rig.fake.started.replace(Some(Err(Fault::new(FaultKind::NotStarted, "no node"))));
    assert!(matches!(rig.run(), (JobEnd::Refused(_), None, 0)));
}

#[test]
fn the_end_of_the_domain_and_of_the_output_end_the_job() {
    let lost = vec![(1, Happening::Event(HostEvent::Ended))];
    assert!(matches!(Rig::new(OnDeath::Kill, lost).run(), (JobEnd::Lost, None, 0)));
    let error = io::ErrorKind::BrokenPipe.into();
    let unread = vec![(1, Happening::Event(HostEvent::Output(error)))];
    assert!(matches!(Rig::new(OnDeath::Kill, unread).run(), (JobEnd::Unread(_), None, 0)));
}

/// A process that reads the terminal gets its signals from there: it got each of them twice.
#[test]
fn a_signal_of_the_terminal_goes_to_those_that_it_has_not_reached() {
    let script =
        vec![(1, Happening::Typed(SIGINT)), (2, Happening::Signal(SIGUSR1)), (3, Happening::Typed(SIGINT))];
    let rig = Rig::new(OnDeath::Kill, script);
    assert!(matches!(rig.run(), (JobEnd::Signalled(SIGINT), None, 0)));
    assert_eq!((&*rig.fake.typed.borrow(), &*rig.fake.signalled.borrow()), (&vec![2], &vec![10]));
}

/// A hung job was killed before a debugger or a handler of a signal could say where it hung.
#[test]
fn a_command_and_a_signal_come_before_the_kill() {
    let ends = |at| vec![(at, death(1, 1, Exit::Signal(3))), (at, death(1, 0, Exit::Signal(3)))];
    let mut rig = Rig::new(OnDeath::Kill, ends(32_000)).limit("30s");
    rig.plan.timeout_signal = Some(3);
    rig.plan.on_timeout = Some("gdb".into());
    rig.fake.groups.replace(vec![status(1, GroupState::Running, 2)]);
    rig.fake.commanded.replace(Some(Ok(command_runs())));
    rig.fake.script.borrow_mut().insert(0, (31_000, death(9, 0, Exit::Code(0))));
    assert!(matches!(rig.run(), (JobEnd::TimedOut, None, 0)));
    assert_eq!(*rig.fake.signalled.borrow(), [3]);
    let spawns = rig.fake.spawns();
    assert_eq!((spawns.len(), &spawns[1][0].env[0].1[..]), (2, &b"1"[..]), "the ids of its processes");
    assert_eq!(rig.fake.now(), 32_000, "all have ended");
    assert!(!rig.has_asked(&Request::Kill(GroupId(9))));
    // Processes that ignore the signal have five seconds.
    let mut rig = Rig::new(OnDeath::Kill, ends(60_000)).limit("30s");
    rig.plan.timeout_signal = Some(3);
    rig.fake.groups.replace(vec![status(1, GroupState::Running, 2)]);
    assert!(matches!(rig.run(), (JobEnd::TimedOut, None, 0)));
    assert!(rig.has_asked(&Request::Kill(FIRST)) && rig.fake.now() == 35_000, "{}", rig.fake.now());
}

/// Names of files could not have the hosts of other nodes.
#[test]
fn files_have_the_names_of_listed_hosts_or_those_that_nodes_report() {
    let folder = tempfile::tempdir().unwrap();
    let peers = folder.path().join("peers");
    std::fs::write(&peers, "0 127.0.0.1:7000\n1 127.0.0.1:7001\n2 127.0.0.1:7002\n").unwrap();
    let joined = format!("--peers {} --id 0", peers.display());
    for (words, names) in [("--hosts a,b", ["a", "b"]), (&joined, ["n1", "n2"])] {
        let begun = HostEvent::Begun(vec![(1, "n1".into()), (2, "n2".into())]);
        let ends = [0, 1].map(|rank| (300, death(1, rank, Exit::Code(0))));
        let script = [(200, Happening::Event(begun))].into_iter().chain(ends);
        let mut rig = Rig::new(OnDeath::Kill, script.collect());
        let line = format!("gpc run {words} --out-file out.%h p");
        let Ok(Args { command: Command::Run(args) }) = Args::read(line.split(' ')) else { panic!("{line}") };
        let plan = RunPlan::new(&args).unwrap();
        (rig.plan.nodes, rig.plan.output) = (plan.nodes, plan.output);
        let mut group = status(1, GroupState::Running, 2);
        group.members.iter_mut().for_each(|member| member.node = member.rank + 1);
        rig.fake.groups.replace(vec![group]);
        assert!(matches!(rig.run(), (JobEnd::Ended, None, 0)), "{line}");
        assert_eq!(
            rig.fake.asked.borrow().len(),
            4,
            "nothing twice, and nothing before the nodes have begun"
        );
        let hosts = [0, 1].map(|rank| rig.places.of(Member { group: FIRST, rank }).host);
        assert_eq!(
            hosts.map(|host| host.to_str().map(str::to_owned)),
            names.map(|name| Some(name.to_owned()))
        );
    }
}

fn command_runs() -> Answer {
    Answer::Spawned { group: GroupId(9), errors: vec![0], same_domain: true }
}

/// A command that hangs delays the kill for a minute, and for no longer than a signal takes.
#[test]
fn a_command_has_a_minute_and_its_end_is_no_failure_of_the_job() {
    let script = || vec![(100_000, death(1, 1, Exit::Signal(9))), (100_000, death(1, 0, Exit::Signal(9)))];
    let rig = |script| {
        let mut rig = Rig::new(OnDeath::Kill, script).limit("30s");
        rig.plan.on_timeout = Some("gdb".into());
        rig.plan.print_exits = true;
        rig.fake.groups.replace(vec![status(1, GroupState::Running, 2)]);
        rig.fake.commanded.replace(Some(Ok(command_runs())));
        rig
    };
    let hangs = rig(script());
    assert!(matches!(hangs.run(), (JobEnd::TimedOut, None, 0)));
    assert!(hangs.has_asked(&Request::Kill(GroupId(9))));
    assert_eq!(hangs.fake.now(), 90_000);
    let signalled = rig([(40_000, Happening::Signal(SIGINT))].into_iter().chain(script()).collect());
    assert!(matches!(signalled.run(), (JobEnd::TimedOut, None, 0)));
    assert_eq!(signalled.fake.now(), 40_000);
    let fails = rig([(31_000, death(9, 0, Exit::Code(3)))].into_iter().chain(script()).collect());
    assert!(matches!(fails.run(), (JobEnd::TimedOut, None, 0)));
    assert_eq!((fails.fake.now(), fails.has_asked(&Request::Kill(GroupId(9)))), (31_000, false));
    // Output that could not be written was reported as a time limit.
    let closed = || HostEvent::Output(std::io::ErrorKind::BrokenPipe.into());
    let unread = rig([(31_000, Happening::Event(closed()))].into_iter().chain(script()).collect());
    assert!(matches!(unread.run(), (JobEnd::Unread(_), None, 0)));
    // One that never starts has as long.
    let never = rig(script());
    never.fake.commanded.take();
    assert!(matches!(never.run(), (JobEnd::TimedOut, None, 0)));
    assert_eq!(never.fake.now(), 90_000);
}
