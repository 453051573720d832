//! Programs that use BNR's Rust interface, under `gpc run`: real processes on one node and on three.
#![cfg(all(feature = "bnr", target_os = "linux"))]
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test that cannot go on fails; what a process prints is read"
)]

use std::collections::BTreeSet;
use std::process::{Command, Output};
use std::thread;
use std::time::Duration;

use gpc_bnr::client::Process;
use gpc_bnr::names::{Member, Set};
use gpc_bnr::request::{GroupState, Pair};
use gpc_bnr::{Exit, FaultKind, Limits, OnDeath, Spec};

/// Variable with the role of a started process.
const ROLE: &str = "GPC_TEST_ROLE";

/// Time limit of every step, after which a test has failed.
const PATIENCE: Duration = Duration::from_secs(60);

/// The test that performs the role in [`ROLE`].
const ENTRY: &str = "run_client::each_finds_all_others";

fn this_program() -> String {
    std::env::current_exe().unwrap().to_str().unwrap().to_owned()
}

fn arguments() -> [&'static str; 4] {
    ["--exact", ENTRY, "--nocapture", "--test-threads=1"]
}

/// Runs this test again, as this number of processes with this role.
fn run(options: &[&str], count: u32, role: &str) -> Output {
    // Tests of the tools, which run beside, do not see this run.
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_gpc"));
    command.env("XDG_RUNTIME_DIR", folder.path());
    command.args(["run", "--time-limit", "120s", "-n", &count.to_string()]).args(options);
    command.arg("--env").arg(format!("{ROLE}={role}")).arg(this_program()).args(arguments());
    command.output().unwrap()
}

/// Checks that all processes succeed.
fn ends_well(options: &[&str], count: u32, role: &str) {
    let output = run(options, count, role);
    let said = [output.stdout, output.stderr].concat();
    assert!(output.status.success(), "{role} {options:?}: {}", String::from_utf8_lossy(&said));
}

const NODES: [&[&str]; 2] = [&[], &["--nodes", "3"]];

/// Performs a role.
fn role(name: &str) {
    let process = Process::init().unwrap();
    match name {
        "exchange" => exchange(&process),
        "databases" => databases(&process),
        "threads" => threads(&process),
        "death" => death(&process),
        "spawns" => spawns(&process),
        "spawned" => spawned(&process),
        "missing" => missing(&process),
        "merged" => merged(&process),
        "kills" => kills(&process),
        "kills, fails" => kills_and_fails(&process),
        "fails after" => fails_after(&process),
        "waits" => drop(process.barrier()),
        other => panic!("{other}"),
    }
    process.finalize().unwrap();
}

fn key(rank: u32, round: u32) -> String {
    format!("{rank}-{round}")
}

/// Every fence delivers all that was put since the last one.
fn exchange(process: &Process) {
    let (database, everybody) = (process.database(), process.everybody());
    for round in 0..20 {
        process.put(database, key(process.rank(), round), vec![round as u8; 1000], None).unwrap();
        process.commit(database).unwrap();
        process.fence(&everybody, Some(PATIENCE)).unwrap();
        for rank in 0..process.size() {
            assert_eq!(process.get(database, key(rank, round)), Ok(vec![round as u8; 1000]));
        }
    }
    // Each half fences separately.
    let half = |rank: u32| rank < process.size() / 2;
    let mine = process.some((0..process.size()).filter(|rank| half(*rank) == half(process.rank())));
    for _ in 0..5 {
        process.fence(&mine, Some(PATIENCE)).unwrap();
    }
    process.barrier().unwrap();
}

fn databases(process: &Process) {
    let rank = process.rank();
    assert_eq!(process.limits(), Ok(Limits::default()));
    if rank == 0 {
        assert_eq!(process.create(Some("shared")), Ok("shared".into()));
        assert_eq!(process.create(Some("shared")).unwrap_err().kind, FaultKind::DatabaseExists);
        process.deposit("who", "rank 0").unwrap();
        assert_eq!(process.deposit("who", "again").unwrap_err().kind, FaultKind::NameExists);
    }
    process.barrier().unwrap();
    assert_eq!(process.lookup("who"), Ok(b"rank 0".to_vec()));
    process.put("shared", key(rank, 0), "first", None).unwrap();
    process.put("shared", key(rank, 0), "last", Some(0)).unwrap();
    process.put("shared", "of all", key(rank, 1), None).unwrap();
    process.put("shared", vec![b'k'; 1000], "v", None).unwrap();
    process.put("nowhere", "k", "v", None).unwrap();
    assert_eq!(process.commit("shared").unwrap_err().kind, FaultKind::TooLarge);
    assert_eq!(process.commit("shared"), Ok(()));
    assert_eq!(process.commit("nowhere").unwrap_err().kind, FaultKind::NoDatabase);
    process.barrier().unwrap();
    let mut snapshot = process.iterate("shared").unwrap();
    assert_eq!(snapshot.len(), process.size() as usize + 1);
    assert_eq!(snapshot.first().unwrap().key, key(0, 0).into_bytes());
    // If several ranks put a key, the highest rank wins, on all nodes.
    assert_eq!(process.get("shared", "of all"), Ok(key(process.size() - 1, 1).into_bytes()));
    assert_eq!(process.get("shared", "nothing").unwrap_err().kind, FaultKind::NotFound);
    process.barrier().unwrap();
    if rank == 0 {
        assert!(process.databases().unwrap().contains(&"shared".to_owned()));
        process.destroy("shared").unwrap();
        process.withdraw("who").unwrap();
    }
    process.barrier().unwrap();
    assert_eq!(process.lookup("who").unwrap_err().kind, FaultKind::NotFound);
    assert_eq!(process.iterate("shared").unwrap_err().kind, FaultKind::NoDatabase);
    assert!(process.get("shared", "of all").is_err());
}

/// Threads fence at the same time, each with its tag.
fn threads(process: &Process) {
    thread::scope(|scope| {
        for number in 0..4_u32 {
            scope.spawn(move || {
                let database = process.database();
                for round in 0..25 {
                    let own = |rank: u32| format!("{rank}-{number}-{round}");
                    process.put(database, own(process.rank()), own(0), None).unwrap();
                    process.commit(database).unwrap();
                    let tag = format!("thread {number}");
                    process.fence_by(&process.everybody(), Some(PATIENCE), tag.as_bytes()).unwrap();
                    let next = (process.rank() + 1) % process.size();
                    assert_eq!(process.get(database, own(next)), Ok(own(0).into_bytes()));
                }
            });
        }
    });
}

/// The last rank kills itself: all others learn of that before their fence fails, and then fence without it.
fn death(process: &Process) {
    let last = process.size() - 1;
    let deaths = process.subscribe(process.group()).unwrap();
    process.barrier().unwrap();
    if process.rank() == last {
        std::process::abort();
    }
    let fault = process.barrier().unwrap_err();
    assert_eq!(fault.kind, FaultKind::MemberDied, "{fault}");
    let told = deaths.try_next().expect("it is told before the fence fails");
    assert_eq!(told.member, Member { group: process.group(), rank: last });
    assert_eq!((told.exit, fault.deaths.first()), (Exit::Signal(6), Some(&told)));
    assert_eq!(process.barrier().unwrap_err().kind, FaultKind::MemberDied);
    // Until all of them meet, no other process ends.
    assert_eq!(deaths.try_next(), None);
    process.fence(&process.some(0..last), Some(PATIENCE)).unwrap();
}

fn spec(count: u32) -> Spec {
    Spec {
        count,
        program: this_program().into(),
        args: arguments().map(|word| word.as_bytes().to_vec()).into(),
        env: vec![(ROLE.into(), b"spawned".to_vec())],
        ..Spec::default()
    }
}

fn preput() -> Vec<Pair> {
    vec![Pair { key: b"greeting".to_vec(), value: b"hello".to_vec() }]
}

/// All processes open and close a group, into which two of them spawn. Then they merge with it, and meet.
fn spawns(process: &Process) {
    let everybody = process.everybody();
    let group = process.open(&everybody, Some(PATIENCE)).unwrap();
    if process.rank() == 0 {
        assert_eq!(process.status(group).unwrap().state, GroupState::Open);
        process.spawn(group, vec![spec(2)], preput(), Some(OnDeath::Kill)).unwrap();
        process.spawn(group, vec![spec(1)], Vec::new(), None).unwrap();
    }
    process.barrier().unwrap();
    let started = process.close(&everybody, group, Some(PATIENCE)).unwrap();
    assert_eq!((started.group, started.errors.as_slice(), started.same_domain), (group, &[0; 3][..], true));
    assert_eq!(process.size_of(group), Ok(3));
    let refused = process.spawn(group, vec![spec(1)], Vec::new(), None).unwrap_err();
    assert_eq!(refused.kind, FaultKind::GroupClosed);
    let both = process.merge(process.group(), group, Some(PATIENCE)).unwrap();
    let set = Set::Group(both);
    process.put(process.database(), "to you", "from the parents", None).unwrap();
    process.commit(process.database()).unwrap();
    process.fence(&set, Some(PATIENCE)).unwrap();
    process.fence(&set, Some(PATIENCE)).unwrap();
    let deaths = process.subscribe(group).unwrap();
    let ended: BTreeSet<u32> = (0..3).map(|_| deaths.wait(PATIENCE).unwrap().member.rank).collect();
    assert_eq!(ended, BTreeSet::from([0, 1, 2]));
    process.barrier().unwrap();
}

/// A program that cannot be started is reported, and is no fault.
fn missing(process: &Process) {
    let missing = Spec { program: b"/there/is/no/such/program".to_vec(), ..spec(2) };
    let failed = process.spawn_multiple(vec![missing], Vec::new(), OnDeath::Kill).unwrap();
    assert_eq!(failed.errors, [2, 2]);
    let status = process.status(failed.group).unwrap();
    assert!(status.members.iter().all(|member| member.death.is_some_and(|death| death.exit == Exit::Never)));
    println!("it goes on");
}

/// Starts a group that merges with its parents. One of its processes dies, and all parents learn of that through the
/// merged group.
fn merged(process: &Process) {
    if process.parent().is_some() {
        let both = process.merge(process.group(), process.parent().unwrap(), Some(PATIENCE)).unwrap();
        process.fence(&Set::Group(both), Some(PATIENCE)).unwrap();
        std::process::exit(if process.rank() == 1 { 9 } else { 0 });
    }
    let everybody = process.everybody();
    let group = process.open(&everybody, Some(PATIENCE)).unwrap();
    if process.rank() == 0 {
        let child = Spec { env: vec![(ROLE.into(), b"merged".to_vec())], ..spec(2) };
        process.spawn(group, vec![child], Vec::new(), Some(OnDeath::Notify)).unwrap();
    }
    process.barrier().unwrap();
    process.close(&everybody, group, Some(PATIENCE)).unwrap();
    let both = process.merge(process.group(), group, Some(PATIENCE)).unwrap();
    let deaths = process.subscribe(both).unwrap();
    process.fence(&Set::Group(both), Some(PATIENCE)).unwrap();
    let ended: BTreeSet<Member> = (0..2).map(|_| deaths.wait(PATIENCE).unwrap().member).collect();
    assert_eq!(ended, BTreeSet::from([0, 1].map(|rank| Member { group, rank })));
    process.barrier().unwrap();
    println!("told of both");
}

/// Starts a group, and kills it when it is no longer needed.
fn kills(process: &Process) {
    let child = Spec { env: vec![(ROLE.into(), b"waits".to_vec())], ..spec(2) };
    let child = Spec { count: 1, ..child };
    let waits = Spec { program: b"sleep".to_vec(), args: vec![b"1000".to_vec()], ..spec(2) };
    let started = process.spawn_multiple(vec![child, waits], Vec::new(), OnDeath::Kill).unwrap();
    process.kill(started.group).unwrap();
}

/// The same; later it fails.
fn kills_and_fails(process: &Process) {
    let waits = Spec { program: b"sleep".to_vec(), args: vec![b"1000".to_vec()], ..spec(2) };
    let started = process.spawn_multiple(vec![waits], Vec::new(), OnDeath::Kill).unwrap();
    process.kill(started.group).unwrap();
    std::process::exit(6);
}

/// Fails after a process that it has spawned.
fn fails_after(process: &Process) {
    let fails = Spec { program: b"sh".to_vec(), args: ["-c", "exit 3"].map(Into::into).to_vec(), ..spec(1) };
    let started = process.spawn_multiple(vec![fails], Vec::new(), OnDeath::Notify).unwrap();
    let deaths = process.subscribe(started.group).unwrap();
    assert_eq!(deaths.wait(PATIENCE).unwrap().exit, Exit::Code(3));
    std::process::exit(4);
}

fn spawned(process: &Process) {
    assert_eq!((process.size(), process.spec()), (3, process.rank() / 2));
    assert_eq!(process.get(process.database(), "greeting"), Ok(b"hello".to_vec()));
    let parent = process.parent().unwrap();
    let both = process.merge(process.group(), parent, Some(PATIENCE)).unwrap();
    let set = Set::Group(both);
    process.fence(&set, Some(PATIENCE)).unwrap();
    let database = process.status(parent).unwrap().database;
    assert_eq!(process.get(&database, "to you"), Ok(b"from the parents".to_vec()));
    process.fence(&set, Some(PATIENCE)).unwrap();
}

#[test]
fn each_finds_all_others() {
    if let Ok(name) = std::env::var(ROLE) {
        return role(&name);
    }
    NODES.iter().for_each(|nodes| ends_well(nodes, 6, "exchange"));
}

#[test]
fn databases_and_names_are_those_of_the_domain() {
    NODES.iter().for_each(|nodes| ends_well(nodes, 4, "databases"));
}

#[test]
fn threads_fence_at_the_same_time() {
    NODES.iter().for_each(|nodes| ends_well(nodes, 4, "threads"));
}

#[test]
fn groups_are_spawned_and_merged() {
    NODES.iter().for_each(|nodes| ends_well(nodes, 3, "spawns"));
}

/// `subscribe` for a merged group returned success, but no death was ever reported.
#[test]
fn the_deaths_of_a_merged_group_are_reported() {
    for nodes in NODES {
        let output = run(nodes, 2, "merged");
        let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        assert!(said.matches("told of both").count() == 2 && !said.contains("panicked"), "{said}");
    }
}

/// A program that killed one of its own groups made `gpc run` end with status 143.
#[test]
fn a_group_that_a_process_kills_is_no_failure() {
    for nodes in NODES {
        let output = run(nodes, 1, "kills");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(0), "{said}");
        assert!(said.contains("gpc: g1.0 has killed g2: 3 processes ended by that"), "{said}");
    }
}

/// `gpc run` watched spawned groups only after the first group had ended. So it did not count what a process had killed
/// before it failed.
#[test]
fn what_was_killed_before_a_failure_is_counted() {
    for nodes in NODES {
        let output = run(nodes, 1, "kills, fails");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(6), "{said}");
        assert!(said.contains("gpc: g1.0 has killed g2: 2 processes ended by that"), "{said}");
    }
}

/// Nor did it name the failure of a spawned group that came first.
#[test]
fn of_failures_in_several_groups_the_first_counts() {
    for nodes in NODES {
        let output = run(nodes, 1, "fails after");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(3), "{said}");
        let [first, then] = ["gpc: g2.0: ended with status 3", "gpc: g1.0: ended with status 4"];
        assert!(said.find(first).is_some_and(|at| said.find(then).is_some_and(|later| at < later)), "{said}");
    }
}

#[test]
fn what_cannot_be_started_is_told() {
    let output = run(&[], 1, "missing");
    let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert!(said.contains("it goes on") && !said.contains("panicked"), "{said}");
}

#[test]
fn a_death_is_reported_before_the_fence_fails() {
    for nodes in NODES {
        let options = [nodes, &["--on-death", "notify"]].concat();
        let output = run(&options, 5, "death");
        let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        // The first failure is that of the process that killed itself; failed assertions of the others would give
        // status 101.
        assert_eq!(output.status.code(), Some(134), "{options:?}: {said}");
        assert!(!said.contains("g1.0:") && !said.contains("panicked"), "{said}");
    }
}
