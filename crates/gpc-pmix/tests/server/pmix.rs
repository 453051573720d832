//! Clients of PMIx alone: each upcall that programs of Open MPI make seldom.

use std::path::{Path, PathBuf};
use std::process::Command;

use gpc_pmix::server::{Info, Order, Process, Upcall, Value};

use crate::node::World;

/// `PMIX_ERR_PROC_ABORTED`
const PROCESS_ABORTED: i32 = -7;

/// The client, compiled; `None` without the headers of PMIx.
fn client(folder: &Path) -> Option<PathBuf> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/server/programs/client.c");
    let program = folder.join("client");
    let said = Command::new("pkg-config").args(["--cflags", "pmix"]).output();
    let flags = said.map(|said| String::from_utf8_lossy(&said.stdout).into_owned()).unwrap_or_default();
    let flags = if flags.trim().is_empty() { DEBIAN.to_owned() } else { flags };
    let mut compiler = Command::new("cc");
    compiler.arg("-o").arg(&program).arg(source).args(flags.split_whitespace()).arg("-lpmix");
    let Ok(output) = compiler.output() else {
        println!("skipped: needs a C compiler");
        return None;
    };
    let errors = String::from_utf8_lossy(&output.stderr);
    if errors.contains("pmix.h: No such file") {
        println!("skipped: needs the headers of PMIx (Debian: libpmix-dev)");
        return None;
    }
    assert!(output.status.success(), "{errors}");
    Some(program)
}

const DEBIAN: &str = "-I/usr/lib/x86_64-linux-gnu/pmix2/include";

/// Runs the client as a job on these nodes. Returns the world and the output of each process.
fn run(hosts: &[&str], spread: &[Vec<u32>], argument: &str) -> Option<(World, Vec<String>)> {
    let folder = tempfile::tempdir().unwrap();
    let program = client(folder.path())?;
    let mut world = World::start(hosts)?;
    world.register("job", hosts, spread, None);
    world.run("job", &program, &[argument]);
    let outputs = world.finish();
    let text = outputs.into_iter().map(|(code, output)| {
        assert_eq!(code, Some(0), "{output}");
        output
    });
    let outputs = text.collect();
    Some((world, outputs))
}

#[test]
fn a_fence_brings_the_data_of_all_nodes() {
    let spread = [vec![0, 3], vec![1], vec![2, 4]];
    let Some((world, outputs)) = run(&["one", "two", "three"], &spread, "fence") else { return };
    assert_eq!(outputs, ["5 right\n"; 5]);
    assert!(!world.upcalls.iter().any(|upcall| matches!(upcall, Upcall::Fetch { .. })), "all data are there");
    world.end();
}

#[test]
fn data_that_no_fence_has_brought_are_fetched() {
    let spread = [vec![0, 1], vec![2]];
    let Some((world, outputs)) = run(&["one", "two"], &spread, "fetch") else { return };
    assert_eq!(outputs, ["3 right\n"; 3]);
    assert!(world.upcalls.iter().any(|upcall| matches!(upcall, Upcall::Fetch { .. })));
    world.end();
}

/// A list that the library compresses has zero bytes, and was cut there: 1,042 processes did not start, one did.
#[test]
fn a_job_of_more_than_a_thousand_processes_is_described_in_full() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = client(folder.path()) else { return };
    let hosts: Vec<String> = (0..16).map(|node| format!("a-node-with-a-long-name-{node}")).collect();
    let hosts: Vec<&str> = hosts.iter().map(String::as_str).collect();
    let spread: Vec<Vec<u32>> = (0..16).map(|node| (0..66).map(|rank| rank * 16 + node).collect()).collect();
    let Some(mut world) = World::start(&hosts[..1]) else { return };
    world.register("job", &hosts, &spread, None);
    let process = Process { namespace: "job".into(), rank: 16 };
    let variables = world.prepare(0, &process);
    let child = world.command(&program, &["facts"], &variables).spawn().unwrap();
    world.started.push(crate::node::Started { process, child });
    let outputs = world.finish();
    let peers = spread[0].iter().map(u32::to_string).collect::<Vec<_>>().join(",");
    let expected = format!(
        "size 1056 universe 1056 nodes 16 apps 1\nhere 66: {peers}\nlast {} local 65\nresolved 16 nodes, 66 peers from 15\n",
        hosts[15]
    );
    assert_eq!(outputs, [(Some(0), expected)]);
    world.end();
}

#[test]
fn a_death_that_the_node_reports_reaches_the_processes_that_listen() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = client(folder.path()) else { return };
    let hosts = ["one", "two"];
    let Some(mut world) = World::start(&hosts) else { return };
    world.register("job", &hosts, &[vec![0, 1], vec![2]], None);
    world.run("job", &program, &["event"]);
    let dead = Process { namespace: "other".into(), rank: 9 };
    // All listen before they are at their fence.
    world.serve_until("both nodes are at a fence", |world| {
        world.upcalls.iter().filter(|upcall| matches!(upcall, Upcall::Fence { .. })).count() == 2
    });
    let info = vec![Info::new("pmix.evproc", Value::process(&dead))];
    for node in 0..2 {
        let (source, info) = (dead.clone(), info.clone());
        world.order(node, &Order::Notify { code: PROCESS_ABORTED, source, to: "job".into(), info });
    }
    let outputs: Vec<String> = world.finish().into_iter().map(|(_, output)| output).collect();
    assert_eq!(outputs, ["event -7 of other:9, affected other\n"; 3]);
    world.end();
}

#[test]
fn a_notification_and_a_kill_reach_the_node() {
    let spread = [vec![0]];
    let Some((world, _)) = run(&["one"], &spread, "notify") else { return };
    let events = world.upcalls.iter().filter_map(|upcall| match upcall {
        Upcall::Event { code, source, .. } => Some((*code, source.rank)),
        _ => None,
    });
    assert_eq!(events.collect::<Vec<_>>(), [(PROCESS_ABORTED, 0)]);
    world.end();
    let Some((world, _)) = run(&["one"], &spread, "kill") else { return };
    let controls = world.upcalls.iter().filter_map(|upcall| match upcall {
        Upcall::Control { process, targets, info } => {
            Some((process.rank, targets[0].rank, info[0].key.clone()))
        }
        _ => None,
    });
    assert_eq!(controls.collect::<Vec<_>>(), [(0, 1, "pmix.jctrl.kill".to_owned())]);
    world.end();
}
