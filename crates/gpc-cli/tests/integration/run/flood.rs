//! More output than is read.

use std::io::Read as _;
use std::process::Stdio;

use rustix::process::Pid;

use super::support::*;

/// Returns the clock ticks that processes have run.
fn ticks(processes: &[Process]) -> u64 {
    let ticks = |process: &Process| {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", process.pid.as_raw_nonzero())).unwrap();
        let rest: Vec<&str> = stat.rsplit_once(") ").unwrap().1.split(' ').collect();
        rest[11].parse::<u64>().unwrap() + rest[12].parse::<u64>().unwrap()
    };
    processes.iter().map(ticks).sum()
}

/// Waits until the writers are blocked by the reader, and run no more.
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
    until("all write", || place.writers().len() == writers);
    let yes = place.writers();
    stall(&yes);
    // Some output is read, and then nothing again.
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
        // A debug build of the program, the window of 1 MiB for each node, and some more.
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

/// A process requested a long value again and again, and read no answer: up to 512 MiB of answers were queued for each
/// such process.
#[test]
fn answers_that_are_not_read_stop_the_process_that_asks() {
    let place = Place::new();
    let go = place.path("go");
    // The hostile process, and one that reads and gets answers all the time.
    let script = format!(
        "{PMI}
        if [ $PMI_RANK = 0 ]; then
            put long $(printf 'x%.0s' {{1..60000}})
            exec yes \"cmd=get kvsname=$kvs key=long\" >&$PMI_FD
        fi
        until [ -e {go} ]; do sleep 0.01; done
        for ((i = 0; i < 50; i++)); do put own $i; get own; done
        echo \"read $line\"
        exec sleep 1000"
    );
    let run = Run::start(place.script("-n 2", &script));
    until("it asks", || place.writers().len() == 1);
    stall(&place.writers());
    std::fs::write(&go, "").unwrap();
    run.says("read cmd=get_result rc=0 msg=success value=49", 1);
    // A debug build of the program, and some answers.
    assert!(kib(run.pid(), "VmHWM") < 64 << 10, "{} KiB", kib(run.pid(), "VmHWM"));
    run.signal(rustix::process::Signal::TERM);
    let ended = run.ended();
    assert!(!ended.err.contains("not answered"), "{}", ended.err);
    place.empty();
}

/// Bytes of a line with its end, and number of lines of each of eight processes: 300 MB in all.
const LINE: usize = 100;
const LINES: usize = 375_000;

/// Maximum growth of a process of gpc, in KiB: the output that it holds does not depend on the total.
/// `benches/run/output` has the same bound for 10 GB.
const GROWTH_MAX: u64 = 16 << 10;

#[test]
fn a_lot_of_output_takes_no_more_memory_than_a_little() {
    let place = Place::new();
    let (go, end) = (place.path("go"), place.path("end"));
    let script = format!(
        "until [ -e {go} ]; do sleep 0.05; done; yes \"$(printf '%-3d%096d' $PMI_RANK 0)\" | head -c {}; until [ -e {end} ]; do sleep 0.05; done",
        LINE * LINES
    );
    let mut child =
        place.script("-n 8 --nodes 4 --pmix never", &script).stdout(Stdio::piped()).spawn().unwrap();
    let writers = || place.with(&go).iter().filter(|process| process.line.starts_with("bash")).count();
    until("all have begun", || writers() == 8);
    let own = || -> Vec<Pid> {
        let own = place.processes().into_iter().filter(|process| process.line.starts_with(EXE));
        own.map(|process| process.pid).collect()
    };
    // A copy of a supervisor that has not become a process of the program yet has its name.
    until("four nodes, and their supervisors", || own().len() == 8);
    let own = own();
    let before: Vec<u64> = own.iter().map(|pid| kib(*pid, "VmHWM")).collect();
    std::fs::write(&go, "").unwrap();
    let mut out = child.stdout.take().unwrap();
    let mut line = [0; LINE];
    let mut counts = [0; 8];
    let mut reader = std::io::BufReader::with_capacity(1 << 20, &mut out);
    for _ in 0..8 * LINES {
        reader.read_exact(&mut line).unwrap();
        assert!(line.ends_with(b"0\n") && line[3..LINE - 1].iter().all(|byte| *byte == b'0'), "a torn line");
        counts[usize::from(line[0] - b'0')] += 1;
    }
    assert_eq!(counts, [LINES; 8]);
    for (pid, before) in own.iter().zip(before) {
        let after = kib(*pid, "VmHWM");
        assert!(after < before + GROWTH_MAX, "{before} KiB have become {after}");
    }
    std::fs::write(&end, "").unwrap();
    assert_eq!(reader.read(&mut line).unwrap(), 0);
    assert_eq!(child.wait().unwrap().code(), Some(0));
    place.empty();
}
