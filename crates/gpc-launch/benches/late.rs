//! Benchmark of time limits on a busy machine: does a call that exceeds its limit name the right id? `cargo bench
//! --bench late [-- LIMIT_MS:CALLS...]`.
//!
//! Eight programs run at the same time, each of eight processes in a binary tree, beside 16 processes that compute.
//! Each program makes one call of a function that exceeds the limit at id 3 only; the call also opens its links. A
//! whole call is right if its cause names id 3. A partial call is right if no cause names another id and all other ids
//! are done. Prints the number of right calls, and how long after the limit the calls ended.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a program that measures, and prints"
)]

use std::os::unix::process::parent_id;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use chained_gpc::{Call, CallError, CauseKind, Functions, Id, IdList, Status};
use gpc_launch::{Launch, Launched, Plan, own_id};

const STARTED: [&str; 1] = ["--started-as"];

/// Processes of a program, and the one whose function exceeds the limit.
const IDS: Id = 8;
const WRONG: Id = 3;

/// Programs at a time.
const PROGRAMS: usize = 8;

/// Processes that compute meanwhile.
const LOAD: usize = 16;

/// Interval at which the slow function checks whether its call is over.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Processes that compute; they end when this value is dropped, or with the process that started them.
struct Load(Vec<Child>);

impl Load {
    fn start(count: usize) -> Load {
        let spin = |_| Command::new(std::env::current_exe().unwrap()).arg("--spin").spawn().unwrap();
        Load((0..count).map(spin).collect())
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Computes until the parent has ended.
fn spin() {
    let parent = parent_id();
    let mut number = 1u64;
    while parent_id() == parent {
        for _ in 0..10_000_000 {
            number = std::hint::black_box(number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
        }
    }
}

/// Checks the outcome of a call.
fn is_right(ended: Result<chained_gpc::Outcome, CallError>) -> Result<(), String> {
    match ended {
        Err(error) => match error.cause() {
            Some(cause) if (cause.id, cause.kind) == (WRONG, CauseKind::TimeLimit) => Ok(()),
            _ => Err(error.to_string()),
        },
        Ok(outcome) => {
            let named = outcome.causes().iter().all(|cause| cause.id == WRONG);
            let done =
                outcome.ids().iter().all(|id| (outcome.status(id) == Some(Status::Done)) != (id == WRONG));
            let failed = outcome.failed() == IdList::range(WRONG..WRONG + 1);
            if named && done && failed {
                Ok(())
            } else {
                Err(format!("{:?}, {:?}", outcome.causes(), outcome.coverage()))
            }
        }
    }
}

/// Runs one program: it makes a call that opens its links, and prints a line.
fn program(functions: &Functions, call: &Call, limit: Duration) {
    let launch = Launch::start(&Plan::new(1..IDS, std::env::current_exe().unwrap(), &STARTED)).unwrap();
    let node = launch.node(0).functions(functions).start().unwrap();
    let begun = Instant::now();
    let ended = node.call(call.clone().ids(0..IDS).limit(limit)).unwrap().wait();
    let late = begun.elapsed().saturating_sub(limit);
    match is_right(ended) {
        Ok(()) => println!("right {}", late.as_micros()),
        Err(why) => println!("wrong {} {why}", late.as_micros()),
    }
    launch.end(Duration::from_secs(10));
}

/// Starts programs at the same time; returns their output.
fn round(mode: &str, limit_ms: u64, programs: usize) -> Vec<String> {
    let start = |_| {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--program", mode, &limit_ms.to_string()]).stdout(Stdio::piped());
        command.spawn().unwrap()
    };
    let started: Vec<Child> = (0..programs).map(start).collect();
    let said = |child: Child| String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap();
    started.into_iter().map(|child| said(child).trim().to_owned()).collect()
}

/// Runs programs until that many calls have been made; prints the results.
fn row(limit_ms: u64, mode: &str, calls: usize, programs: usize) {
    let rounds = calls.div_ceil(programs);
    let lines: Vec<String> = (0..rounds).flat_map(|_| round(mode, limit_ms, programs)).collect();
    let (mut lates, mut wrong) = (Vec::new(), Vec::new());
    for line in &lines {
        let (kind, rest) = line.split_once(' ').unwrap();
        let (late, why) = rest.split_once(' ').unwrap_or((rest, ""));
        lates.push(late.parse::<u64>().unwrap());
        wrong.extend(Some(why.to_owned()).filter(|_| kind == "wrong"));
    }
    lates.sort_unstable();
    let all = lates.len();
    let [median, longest] = [lates[all / 2], lates[all - 1]].map(|us| us as f64 / 1000.0);
    println!(
        "limit {limit_ms} ms, {mode}: {} of {all} right; the calls ended {median:.1} ms after the limit (median), {longest:.1} ms (longest)",
        all - wrong.len()
    );
    wrong.iter().for_each(|why| println!("  wrong: {why}"));
}

fn main() {
    let functions = Functions::new();
    let outlasts = functions
        .func("outlasts", |request, _| {
            // This loop ends: the call has a limit.
            while request.me() == WRONG && !request.is_cancelled() {
                thread::sleep(POLL_INTERVAL);
            }
            Ok(())
        })
        .unwrap();
    if let Some(id) = own_id(std::env::args_os(), &STARTED) {
        return Launched::take(id).unwrap().serve(&functions).unwrap();
    }
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        ["--spin"] => spin(),
        ["--program", mode, limit_ms] => {
            let call = Call::new(outlasts);
            let call = if mode == "partial" { call.partial() } else { call };
            program(&functions, &call, Duration::from_millis(limit_ms.parse().unwrap()));
        }
        _ => {
            let rows = words.iter().filter_map(|word| {
                let (limit_ms, calls) = word.split_once(':')?;
                Some((limit_ms.parse().ok()?, calls.parse().ok()?))
            });
            let rows: Vec<(u64, usize)> = rows.collect();
            // `cargo bench` passes `--bench`; `cargo test` only checks that the program runs.
            let measured = words.contains(&"--bench");
            let (rows, load, programs) = match (measured, rows.is_empty()) {
                (false, _) => (vec![(200, 1)], 0, 1),
                (true, true) => (vec![(1_000, 50), (10_000, 50)], LOAD, PROGRAMS),
                (true, false) => (rows, LOAD, PROGRAMS),
            };
            let _load = Load::start(load);
            for (limit_ms, calls) in rows {
                row(limit_ms, "whole", calls, programs);
                row(limit_ms, "partial", calls, programs);
            }
        }
    }
}
