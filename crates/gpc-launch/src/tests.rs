//! Launches of real processes: what each gets, and how all of them end.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use chained_gpc::Clock;
use chained_gpc::runtime::{Address, Job, LinkKind, Peers};

/// Longer than anything takes that succeeds.
const PATIENCE: Duration = Duration::from_secs(60);

/// A shell's script that reads the control link to its end, as a node does.
const SERVE: &str = "exec 3<&1; while read -r line <&3; do :; done";

/// Processes that live for a minute, or until they are killed.
fn sleepers(ids: std::ops::Range<Id>) -> Plan {
    Plan { link: LinkKind::Unix, ..Plan::new(ids, "/bin/sleep", &["60"]) }
}

/// Shells that run a script, in which `$1` is the id.
fn shells(ids: std::ops::Range<Id>, script: &str, name: &Path) -> Plan {
    Plan::new(ids, "/bin/sh", &["-c", script, name.to_str().unwrap()])
}

/// The descriptors of a process, each with what it stands for, without those that it closes meanwhile.
fn descriptors(pid: u32) -> BTreeMap<u32, String> {
    let folder = fs::read_dir(format!("/proc/{pid}/fd")).unwrap();
    let descriptor = |entry: io::Result<fs::DirEntry>| {
        let entry = entry.ok()?;
        let what = fs::read_link(entry.path()).ok()?.to_str()?.to_owned();
        Some((entry.file_name().to_str()?.parse().ok()?, what))
    };
    folder.filter_map(descriptor).collect()
}

#[test]
fn statuses_are_described() {
    assert_eq!(describe(ExitStatus::from_raw(0)), "exit status 0");
    assert_eq!(describe(ExitStatus::from_raw(1 << 8)), "exit status 1");
    assert_eq!(describe(ExitStatus::from_raw(9)), "killed by signal 9 (SIGKILL)");
}

#[test]
fn what_cannot_be_started_is_said() {
    let plan = Plan { link: LinkKind::Tcp, ..Plan::new(1..3, "/nowhere/gpc", &[]) };
    let error = Launch::start(&plan).unwrap_err().to_string();
    assert!(error.starts_with("cannot start the process of id 1 (of 2): No such file"), "{error}");
    let error = Launch::start(&Plan { ids: 1..PROCESSES_MAX + 2, ..plan }).unwrap_err();
    assert!(matches!(error, LaunchError::TooMany { count: 4097 }));
}

/// A process that got the socket of another one answered for it, and one that held its control link open did not end.
#[test]
fn each_process_has_its_own_socket_and_control_link_and_nothing_else() {
    // So many that several threads start them.
    let launch = Launch::start(&sleepers(5..29)).unwrap();
    let sockets = fs::read_to_string("/proc/net/unix").unwrap();
    let mut links = BTreeSet::new();
    for id in 5..29 {
        let pid = launch.process_of(id).unwrap();
        let open = descriptors(pid);
        // Others than sockets may be those of whoever has started this test.
        let sockets_of: Vec<u32> =
            open.iter().filter(|(_, what)| what.starts_with("socket:")).map(|(number, _)| *number).collect();
        assert!(sockets_of.starts_with(&[0, 1]) && sockets_of.iter().all(|number| *number <= 2), "{open:?}");
        let Some(Address::Abstract(name)) = launch.peers().address(id) else { panic!("id {id}") };
        let inode = open[&0].strip_prefix("socket:[").unwrap().strip_suffix(']').unwrap();
        let line = sockets.lines().find(|line| line.ends_with(&format!(" @{name}"))).unwrap();
        assert!(line.split_whitespace().any(|word| word == inode), "id {id}: {line}, {inode}");
        assert!(links.insert(open[&1].clone()), "id {id}");
        // Its own group: Ctrl-C at the terminal reaches the parent alone.
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        let words: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
        assert_eq!(words[2], pid.to_string());
    }
    assert_eq!(launch.processes().collect::<BTreeSet<_>>().len(), 24);
    assert_eq!((launch.process_of(4), launch.process_of(29)), (None, None));
    let ended = launch.end(Duration::ZERO);
    assert_eq!((ended.killed, ended.failed), ((5..29).collect(), vec![]));
}

#[test]
fn each_process_gets_all_of_its_orders() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("orders");
    for others in [0, 20_000] {
        let mut plan = shells(1..4, "exec 3<&1; exec cat <&3 >\"$0.$1\"", &file);
        // More than the buffer of a socket. The copy of the link stays open until the process has ended.
        let address = |id: Id| Address::Tcp(([127, 1, (id >> 8) as u8, id as u8], 7000).into());
        plan.others = Peers::new();
        (100..100 + others).for_each(|id| drop(plan.others.insert(id, address(id))));
        let job = (others > 0).then_some(Job([5; 16]));
        job.into_iter().for_each(|job| plan.others.set_job(job));
        let mut launch = Launch::start(&plan).unwrap();
        assert_eq!(launch.exit_of(1, Duration::ZERO), None);
        let (peers, secret) = (launch.peers().clone(), launch.secret().cloned());
        assert_eq!(peers.len(), 3 + others as usize);
        assert!(peers.job().is_some_and(|drawn| job.is_none_or(|job| drawn == job)));
        assert_eq!(secret.is_some(), cfg!(feature = "noise"));
        let ended = launch.end(PATIENCE);
        assert_eq!((ended.killed, ended.failed), (vec![], vec![]));
        for id in 1..4 {
            let text = fs::read_to_string(folder.path().join(format!("orders.{id}"))).unwrap();
            assert!(text.ends_with("\nend\n"));
            let orders: Orders = text.parse().unwrap();
            assert_eq!((orders.peers(), &orders.secret), (peers.clone(), &secret));
            // The three, and this one.
            assert_eq!(orders.settings.processes, NonZeroU32::new(4));
        }
    }
}

#[test]
fn how_each_process_ends_is_reported() {
    let script = format!("case $1 in 3) exit 9;; esac; {SERVE}; case $1 in 2) exit 7;; esac");
    let mut launch = Launch::start(&shells(1..5, &script, Path::new("child"))).unwrap();
    let nothing = IdList::try_from([1, 2, 4]).unwrap();
    assert_eq!(launch.exit_of(3, PATIENCE).as_deref(), Some("exit status 9"));
    assert_eq!((launch.exit_of(1, Duration::ZERO), launch.exit_of(0, PATIENCE)), (None, None));
    assert_eq!(launch.exit_of(5, PATIENCE), None);
    assert_eq!(launch.first_ended(&nothing), None);
    assert_eq!(launch.first_ended(&IdList::try_from([4, 3]).unwrap()), Some(3));
    assert_eq!(launch.running, 3);
    let ended = launch.end(PATIENCE);
    let failed = [(2, "exit status 7".to_owned()), (3, "exit status 9".to_owned())];
    assert_eq!((ended.killed, ended.failed), (vec![], failed.to_vec()));
}

/// A program may print before it takes its control link: these bytes are not the end of the link.
#[test]
fn a_process_that_writes_to_its_control_link_lives_on() {
    let script = format!("echo hello; {SERVE}");
    let mut launch = Launch::start(&shells(1..2, &script, Path::new("child"))).unwrap();
    // Until the bytes have arrived.
    launch.reap(PATIENCE);
    assert_eq!((launch.running, launch.exit_of(1, Duration::ZERO)), (1, None));
    assert_eq!(launch.end(PATIENCE), Ended::default());
}

/// The limits of waits for processes, by a clock: nothing waits for the time.
#[test]
fn a_process_may_end_until_the_limit_and_is_killed_then() {
    // The first reading begins a limit, the others are those of the waits.
    let clock = |readings: &'static [u64]| {
        let count = AtomicUsize::new(0);
        Clock::reading(move || {
            let place = count.fetch_add(1, Ordering::Relaxed).min(readings.len() - 1);
            Duration::from_micros(readings[place])
        })
    };
    let mut launch = Launch::start(&sleepers(1..3)).unwrap();
    launch.clock = clock(&[0, 9_999_900, 10_000_000]);
    assert_eq!(launch.exit_of(1, Duration::from_secs(10)), None);
    launch.clock = clock(&[0, 119_999_900, 120_000_000]);
    assert_eq!(launch.end(Duration::from_secs(120)).killed, [1, 2]);
    // Those that end until then are not killed.
    let mut launch = Launch::start(&shells(1..3, SERVE, Path::new("child"))).unwrap();
    const READINGS: [u64; 7] = [0, 20_000_000, 20_000_000, 20_000_000, 20_000_000, 20_000_000, 30_000_000];
    launch.clock = clock(&READINGS);
    assert_eq!(launch.end(Duration::from_secs(30)), Ended::default());
}

#[test]
fn the_longest_limit_is_as_good_as_any() {
    let mut launch = Launch::start(&shells(1..2, "exit 4", Path::new("child"))).unwrap();
    assert_eq!(launch.exit_of(1, Duration::MAX).as_deref(), Some("exit status 4"));
}

#[test]
fn a_launch_that_is_dropped_or_given_up_leaves_no_process() {
    let launch = Launch::start(&shells(1..4, SERVE, Path::new("child"))).unwrap();
    let pids: Vec<u32> = launch.processes().collect();
    drop(launch);
    assert!(pids.iter().all(|pid| !Path::new(&format!("/proc/{pid}")).exists()));
    let folder = tempfile::tempdir().unwrap();
    let script = format!("echo $$ >\"$0.$1\"; {SERVE}");
    let plan = shells(1..4, &script, &folder.path().join("pid"));
    let calls = AtomicUsize::new(0);
    let refused = Launch::start_observed(&plan, |started| {
        assert_eq!(calls.fetch_add(1, Ordering::Relaxed), started);
        if started == 2 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    assert!(matches!(refused, Err(LaunchError::Stopped)));
    // Each of the two has written its number, unless it was killed before.
    for entry in fs::read_dir(folder.path()).unwrap() {
        let pid = fs::read_to_string(entry.unwrap().path()).unwrap();
        assert!(pid.is_empty() || !Path::new(&format!("/proc/{}", pid.trim())).exists());
    }
    assert!(!folder.path().join("pid.3").exists());
}

/// A started process that finds the variables of its parent's launcher would act as that launcher's process.
#[test]
fn a_started_process_has_no_variables_of_its_parents_launcher() {
    const ALONE: &str = "GPC_STARTS_WITH_VARIABLES";
    if std::env::var_os(ALONE).is_some() {
        let launch = Launch::start(&sleepers(3..4)).unwrap();
        let pid = launch.process_of(3).unwrap();
        let read = || fs::read(format!("/proc/{pid}/environ")).unwrap();
        let (mut environment, limit) = (read(), Clock::system().limit(Duration::from_secs(60)));
        // A process that has just been started shows an empty one for a moment.
        while environment.is_empty() && !limit.is_over() {
            std::thread::yield_now();
            environment = read();
        }
        let text = String::from_utf8_lossy(&environment).into_owned();
        assert!(text.contains("GPC_STARTS_WITH_VARIABLES=1") && !text.contains("PMI_RANK"), "{text}");
        launch.end(Duration::ZERO);
        return;
    }
    let name = "tests::a_started_process_has_no_variables_of_its_parents_launcher";
    let mut alone = Command::new(std::env::current_exe().unwrap());
    let output = alone.args([name, "--exact"]).env(ALONE, "1").env("PMI_RANK", "7").output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
}

/// Several threads start the processes. A launch of which one thread had stopped counted as whole, if the last one went
/// on.
#[test]
fn a_launch_that_any_of_its_threads_gives_up_has_failed() {
    let stops = AtomicUsize::new(0);
    let started = Launch::start_observed(&sleepers(5..29), |_| match std::thread::current().name() {
        Some("gpc-start") => {
            stops.fetch_add(1, Ordering::Relaxed);
            ControlFlow::Break(())
        }
        _ => ControlFlow::Continue(()),
    });
    // On one core there are no other threads.
    let expected = stops.load(Ordering::Relaxed) > 0;
    assert_eq!(matches!(started, Err(LaunchError::Stopped)), expected, "{started:?}");
}

/// A process keeps no copy of its listening socket as its standard input: its children would inherit it.
#[test]
fn a_launched_process_has_an_empty_standard_input() {
    // The process of the launch is this test again, with its id as the last argument.
    let last = std::env::args().next_back().unwrap_or_default();
    if let Ok(id) = last.parse::<Id>() {
        let launched = Launched::take(id);
        let input = fs::read_link("/proc/self/fd/0");
        let is_empty = input.is_ok_and(|input| input == Path::new("/dev/null"));
        std::process::exit(if launched.is_ok() && is_empty { 0 } else { 9 });
    }
    let name = "tests::a_launched_process_has_an_empty_standard_input";
    let plan = Plan::new(1..2, std::env::current_exe().unwrap(), &[name, "--exact"]);
    let mut launch = Launch::start(&plan).unwrap();
    assert_eq!(launch.exit_of(1, PATIENCE).as_deref(), Some("exit status 0"));
}

/// A plan has a secret when processes beside the launch have it too. With another one, the two cannot link.
#[test]
fn the_secret_of_a_plan_is_that_of_its_processes() {
    let secret = Secret::new(&[7; 32]).unwrap();
    let plan = Plan { secret: Some(secret.clone()), ..sleepers(1..2) };
    assert!(plan.secret_or_drawn().unwrap() == Some(secret));
}
