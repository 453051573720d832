//! The root: its plan, and what it makes of the reports.

use super::*;
use crate::remote::answer::LossReport;

/// A root of three hosts, at the place `here`.
fn supervisor(is_partial: bool) -> Supervisor {
    let plan = RemotePlan { partial: is_partial, ..RemotePlan::new(["a", "b", "c"], "gpc", &["--agent"]) };
    let task = Task {
        limit: plan.start_limit,
        fan_out: plan.fan_out,
        network: None,
        rsh: plan.rsh.clone(),
        program: "gpc".into(),
        arguments: Vec::new(),
        settings: plan.settings,
        share: plan.share().unwrap(),
    };
    Supervisor {
        driver: Driver::new(task, ("gpc".into(), Vec::new()), Clock::reading(|| Duration::ZERO)),
        stop: UnixStream::pair().unwrap().1,
        shared: Arc::default(),
        partial: is_partial,
        root: ("here".into(), Secret::new(&[7; 32]).unwrap(), PrivateKey::random().unwrap()),
        running: BTreeMap::new(),
    }
}

fn report(id: Id, address: Option<&str>, place: &str) -> Answer {
    Answer::Started(StartReport {
        id,
        loopback: format!("127.0.0.1:{id}").parse().unwrap(),
        address: address.map(|address| address.parse().unwrap()),
        key: chained_gpc::PublicKey([id as u8; 32]),
        place: place.into(),
    })
}

fn loss(first: Id, count: u32, why: &str) -> Answer {
    Answer::Lost(LossReport::new(first, count, why))
}

/// A launch with the state of this root, and no thread.
fn launch(supervisor: &Supervisor) -> RemoteLaunch {
    let (_, secret, key) = supervisor.root.clone();
    RemoteLaunch { peers: Peers::new(), secret, key, shared: supervisor.shared.clone(), thread: None }
}

#[test]
fn processes_of_one_place_meet_on_loopback_and_others_at_their_addresses() {
    let mut here = supervisor(false);
    here.record_reports(vec![report(2, Some("10.0.0.2:9"), "here"), report(1, None, "here")]);
    let peers = here.introduce().unwrap();
    let at = |peers: &Peers, id| peers.address(id).map(|address| address.to_string());
    assert_eq!(
        (at(&peers, 1).unwrap(), at(&peers, 2).unwrap()),
        ("127.0.0.1:1".into(), "127.0.0.1:2".into())
    );
    assert_eq!((peers.key(2), peers.len()), (Some(chained_gpc::PublicKey([2; 32])), 2));
    assert!(peers.job().is_some_and(|job| !job.is_none()));
    // One process on another machine is enough.
    let mut apart = supervisor(false);
    apart.record_reports(vec![report(1, Some("10.0.0.1:8"), "here"), report(2, Some("10.0.0.2:9"), "there")]);
    let peers = apart.introduce().unwrap();
    assert_eq!((at(&peers, 1).unwrap(), at(&peers, 2).unwrap()), ("10.0.0.1:8".into(), "10.0.0.2:9".into()));
    assert_eq!(apart.shared.running.load(Ordering::Relaxed), 2);
}

#[test]
fn a_process_that_no_other_host_reaches_counts_as_lost() {
    for is_partial in [false, true] {
        let mut root = supervisor(is_partial);
        root.record_reports(vec![report(1, Some("10.0.0.1:8"), "x"), report(2, None, "y")]);
        let why = "id 2, host b: it has no address, or none in the network, that other hosts reach";
        match root.introduce() {
            Ok(peers) => assert!(is_partial && peers.len() == 1 && peers.address(2).is_none()),
            Err(error) => assert!(!is_partial && error.to_string().ends_with(why), "{error}"),
        }
        let lost = launch(&root).lost();
        assert_eq!((lost.len(), lost[0].to_string().as_str()), (1, why));
    }
}

#[test]
fn the_root_knows_which_processes_run_and_why_others_do_not() {
    let mut root = supervisor(false);
    root.record_reports((1..=3).map(|id| report(id, None, "here")).collect());
    root.record_reports(vec![loss(2, 2, "host b: killed"), loss(3, 1, "host c: later")]);
    assert_eq!(root.running.keys().copied().collect::<Vec<_>>(), [1]);
    assert_eq!(root.shared.running.load(Ordering::Relaxed), 1);
    let launch = launch(&root);
    let first = |ids: &[Id]| launch.first_lost(&IdList::from_ids(ids.iter().copied()).unwrap());
    assert_eq!((first(&[3, 2, 1]), first(&[3]), first(&[1])), (Some(2), Some(3), None));
    // The first report is the cause.
    assert_eq!(launch.why_lost(3, Duration::ZERO).as_deref(), Some("host b: killed"));
    assert_eq!((launch.why_lost(1, Duration::ZERO), launch.why_lost(4, Duration::ZERO)), (None, None));
    let error = root.introduce().unwrap_err().to_string();
    assert!(error.starts_with("3 processes could not be started\nids 2-3, host b: killed\n"), "{error}");
    // A waiting caller is notified of a loss.
    let shared = root.shared.clone();
    let waiting = std::thread::spawn(move || launch.why_lost(1, Duration::from_secs(60)));
    root.record_reports(vec![loss(1, 1, "host a: at last")]);
    assert_eq!(waiting.join().unwrap().as_deref(), Some("host a: at last"));
    assert_eq!(shared.running.load(Ordering::Relaxed), 0);
}

/// The lowest id is the cause that a caller is told, in whatever order the losses are reported.
#[test]
fn the_lowest_lost_id_is_told() {
    let mut root = supervisor(false);
    root.record_reports(vec![loss(3, 1, "host c: killed"), loss(1, 2, "host a: killed")]);
    let first = |ids: &[Id]| launch(&root).first_lost(&IdList::from_ids(ids.iter().copied()).unwrap());
    assert_eq!((first(&[3, 2]), first(&[0, 3])), (Some(2), Some(3)));
}

#[test]
fn the_limit_of_the_end_reaches_the_thread() {
    let root = supervisor(false);
    launch(&root).end(Duration::from_millis(5250));
    assert_eq!(root.shared.end_limit.load(Ordering::Relaxed), 5250);
}

#[test]
fn losses_have_a_bound() {
    let mut root = supervisor(true);
    for number in 0..2 * LOST_MAX {
        root.record_reports(vec![loss(1 + number as Id % 3, 1, "host a: again")]);
    }
    assert_eq!(launch(&root).lost().len(), LOST_MAX);
}

#[test]
fn a_plan_is_checked_and_knows_the_hosts_of_its_ids() {
    let slots = |name: &str, slots| HostSlots { name: name.into(), slots };
    let plan = |hosts: &[(&str, u32)]| {
        let hosts = hosts.iter().map(|&(name, count)| slots(name, count));
        RemotePlan::new(hosts, "gpc", &["--agent"])
    };
    let error = |plan: &RemotePlan| plan.check().unwrap_err().to_string();
    let two = plan(&[("a", 3), ("b", 1), ("c", 2)]);
    assert!(two.check().is_ok());
    let ids: Vec<(Id, &str)> = two.ids().collect();
    assert_eq!(ids, [(1, "a"), (2, "a"), (3, "a"), (4, "b"), (5, "c"), (6, "c")]);
    assert_eq!((two.processes(), two.processes_per_host_max().get()), (6, 3));
    let share = two.share().unwrap();
    assert_eq!(
        share.iter().map(|host| (host.first, host.count)).collect::<Vec<_>>(),
        [(1, 3), (4, 1), (5, 2)]
    );
    assert_eq!(error(&plan(&[])), "no host is named");
    let option = plan(&[("a", 1), ("-oProxyCommand=b", 1)]);
    assert!(error(&option).starts_with("`-oProxyCommand=b` is no name of a host"));
    assert!(error(&plan(&[("a", 1), ("b", 1), ("a", 1)])).starts_with("host a is named twice"));
    assert!(error(&plan(&[("a", 1), ("b", 0)])).starts_with("host b has no slot"));
    assert!(error(&plan(&[("a", 9000), ("b", 9000)])).starts_with("18000 processes are too many"));
    assert!(plan(&[("a", REMOTE_PROCESSES_MAX - 1), ("b", 1)]).check().is_ok());
    assert!(error(&plan(&[("a", REMOTE_PROCESSES_MAX), ("b", 1)])).contains("too many"));
    assert!(error(&plan(&[("a", u32::MAX), ("b", u32::MAX)])).contains("too many"));
    assert!(RemotePlan { rsh: Vec::new(), ..two }.check().is_ok());
}

#[test]
fn a_command_that_ends_at_once_or_cannot_be_run_is_named() {
    let mut plan = RemotePlan::new(["a"], "gpc", &["--no-such-test-argument"]);
    for (shell, why) in
        [("false", "exit status 1"), ("/nowhere/ssh", "cannot run /nowhere/ssh: No such file")]
    {
        plan.rsh = vec![shell.into()];
        let error = RemoteLaunch::start(&plan).unwrap_err().to_string();
        assert!(
            error.starts_with(&format!("1 process could not be started\nid 1, host a: {why}")),
            "{error}"
        );
    }
}

/// A caller that asks why an id was lost may ask before the agent has reported it.
#[test]
fn a_wait_for_the_reason_ends_with_the_report() {
    let mut here = supervisor(true);
    let launch = launch(&here);
    let (asks, asked) = channel();
    let (tells, told) = channel();
    thread::spawn(move || {
        asks.send(()).unwrap();
        tells.send(launch.why_lost(2, Duration::from_secs(3600)))
    });
    asked.recv().unwrap();
    here.record_reports(vec![loss(2, 1, "its host is gone")]);
    // A wake-up takes milliseconds; the caller itself would wait for an hour.
    let why = told.recv_timeout(Duration::from_secs(10)).expect("the report wakes the caller");
    assert_eq!(why.as_deref(), Some("its host is gone"));
}
