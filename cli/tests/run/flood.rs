//! More output than anybody reads.

use std::io::Read as _;
use std::process::Stdio;

use rustix::process::Pid;

use super::support::*;

/// Clock ticks that processes have run.
fn ticks(processes: &[Process]) -> u64 {
    let ticks = |process: &Process| {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", process.pid.as_raw_nonzero())).unwrap();
        let rest: Vec<&str> = stat.rsplit_once(") ").unwrap().1.split(' ').collect();
        rest[11].parse::<u64>().unwrap() + rest[12].parse::<u64>().unwrap()
    };
    processes.iter().map(ticks).sum()
}

/// Waits until those who write wait for who reads: they run no more.
pub(crate) fn stall(writers: &[Process]) {
    let mut last = (ticks(writers), 0);
    until("the writers wait", || {
        let now = ticks(writers);
        last = if now == last.0 { (now, last.1 + 1) } else { (now, 0) };
        last.1 == 40
    });
}

fn flood(words: &str, writers: usize) {
    let place = Place::new();
    let mut child = place
        .script(words, "exec yes 0123456789012345678901234567890123456789")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut out = child.stdout.take().unwrap();
    let mut chunk = vec![0; 1 << 20];
    out.read_exact(&mut chunk).unwrap();
    until("all write", || {
        place.with("yes 0123").iter().filter(|process| process.line.starts_with("yes")).count() == writers
    });
    let yes: Vec<Process> =
        place.with("yes 0123").into_iter().filter(|process| process.line.starts_with("yes")).collect();
    stall(&yes);
    // Then some is read, and then nothing again.
    for _ in 0..64 {
        out.read_exact(&mut chunk).unwrap();
        assert!(
            chunk
                .split(|&byte| byte == b'\n')
                .all(|line| b"0123456789012345678901234567890123456789".ends_with(line) || line.len() <= 40)
        );
    }
    stall(&yes);
    let nodes: Vec<Pid> = place.with(env!("CARGO_BIN_EXE_gpc")).iter().map(|process| process.pid).collect();
    assert!(!nodes.is_empty());
    for pid in nodes {
        // A debug build of the program, the window of 1 MiB for each node, and room.
        assert!(kib(pid, "VmHWM") < 64 << 10, "{} KiB", kib(pid, "VmHWM"));
    }
    drop(out);
    let status = child.wait().unwrap();
    assert_eq!(status.code(), Some(141));
    place.empty();
}

#[test]
fn a_slow_reader_stops_the_writers_and_fills_no_memory() {
    flood("-n 4", 4);
}

#[test]
fn so_it_is_with_several_nodes() {
    flood("-n 4 --nodes 4", 4);
}
