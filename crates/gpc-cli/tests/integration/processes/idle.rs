//! Cost of an idle node: no link, no wake-up, no reading of the clock.
#![allow(
    clippy::disallowed_methods,
    reason = "an idle node wakes every ten seconds, so that it is told how many have passed"
)]

use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::processes::support::{Gpc, run};

/// Returns the system calls of each process of a run, and the arguments of the process; `None` without strace.
fn traced(line: &str) -> Option<Vec<(String, Vec<String>)>> {
    let folder = tempfile::tempdir().unwrap();
    let mut strace = Command::new("strace");
    strace.args(["-ff", "-s", "4096", "-o"]).arg(folder.path().join("trace"));
    let output = strace.arg(env!("CARGO_BIN_EXE_gpc")).args(line.split_whitespace()).output();
    match output {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return None,
        output => {
            let output = output.unwrap();
            let said = String::from_utf8_lossy(&output.stderr);
            if said.contains("Operation not permitted") {
                return None;
            }
            assert!(output.status.success(), "{said}");
        }
    }
    let traces = fs::read_dir(folder.path()).unwrap().map(|file| file.unwrap().path());
    let calls = traces.map(|path| {
        let text = fs::read_to_string(path).unwrap();
        let calls: Vec<String> = text.lines().map(str::to_owned).collect();
        let started = calls.iter().find(|call| call.starts_with("execve(")).cloned();
        (started.unwrap_or_default(), calls)
    });
    Some(calls.collect())
}

/// Returns the number of times that a system call occurs.
fn count(calls: &[String], name: &str) -> usize {
    calls.iter().filter(|call| call.starts_with(&format!("{name}("))).count()
}

#[test]
fn a_process_that_is_never_called_sleeps_from_its_start_to_its_end() {
    for (link, wait) in [("unix", "adaptive"), ("tcp", "block"), ("unix", "spin:1ms"), ("shm", "adaptive")] {
        let line = format!("call echo -n 4 --ids 0-2 --tree flat --repeat 300 --link {link} --wait {wait}");
        let Some(processes) = traced(&line) else {
            eprintln!("skipped: needs strace, and leave to trace");
            return;
        };
        let connects: usize = processes.iter().map(|(_, calls)| count(calls, "connect")).sum();
        assert_eq!(connects, 2, "{line}: one link for each id that is called, and none before");
        let idle = processes.iter().find(|(started, _)| started.contains(r#""--id", "3"]"#));
        let (_, calls) = idle.expect("id 3 has been started");
        let begun = calls.iter().position(|call| call.starts_with("epoll_wait(")).expect("it waits");
        let waits = |call: &&String| call.starts_with("epoll_wait(") || call.starts_with("timerfd_settime(");
        let sleeps: Vec<&String> = calls[begun..].iter().take_while(waits).collect();
        // The timer expires after ten seconds, and is set again; the last sleep ends with the process.
        let begins = |name: &str| sleeps.iter().filter(|call| call.starts_with(name)).count();
        assert_eq!(begins("timerfd_settime") + 1, begins("epoll_wait"), "{sleeps:?}");
        assert!(calls[..begun].iter().any(|call| call.contains("it_value={tv_sec=10, ")), "{calls:?}");
        assert_eq!(count(calls, "epoll_wait"), begins("epoll_wait"), "it wakes for nothing else: {calls:?}");
        assert_eq!(count(calls, "accept4") + count(calls, "clone3") + count(calls, "sched_yield"), 0);
    }
}

/// Returns the number of context switches of the threads of a process, voluntary or not: each time they had the core.
fn switches(pid: u32) -> u64 {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).unwrap().map(|task| task.unwrap().path());
    let of_task = |path: std::path::PathBuf| {
        let status = fs::read_to_string(path.join("status")).unwrap();
        let counts = status.lines().filter_map(|line| line.split_once("ctxt_switches:"));
        counts.map(|(_, count)| count.trim().parse::<u64>().unwrap()).sum::<u64>()
    };
    tasks.map(of_task).sum()
}

#[test]
fn a_node_that_has_worked_is_idle_again() {
    for wait in ["block", "adaptive"] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("peers");
        let address = |id| format!("unix:{}/{id}.sock", folder.path().display());
        fs::write(&path, format!("1 {}\n2 {}\n", address(1), address(2))).unwrap();
        let peers = format!("--peers {}", path.display());
        let nodes = [1, 2].map(|id| {
            let node = Gpc::start(&format!("node --id {id} --listen {} {peers} --wait {wait}", address(id)));
            node.until_said(&format!("gpc: id {id} listens"));
            node
        });
        let call = |more: &str| {
            let ended = run(&format!("call echo {peers} --id 0 --tree chain {more}"));
            assert_eq!(ended.code(), Some(0), "{}", ended.stderr);
        };
        call("--ids 0-2 --repeat 100");
        let [worker, idle] = nodes.each_ref().map(|node| node.process().pid.as_raw_nonzero().get() as u32);
        let (begun, before) = (Instant::now(), [switches(worker), switches(idle)]);
        call("--ids 0-1 --repeat 3000 --wait block");
        let after = [switches(worker), switches(idle)];
        // The node may have been seen before it slept, and it wakes every ten seconds.
        let most = 100 + begun.elapsed().as_secs() / Duration::from_secs(10).as_secs();
        let [worked, woken] = [after[0] - before[0], after[1] - before[1]];
        assert!(woken <= most, "{wait}: an idle node has had the core {woken} times, the other {worked}");
        for node in nodes {
            node.process().kill(Signal::TERM);
            assert_eq!(node.end().code(), Some(0));
        }
    }
}
