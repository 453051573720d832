//! Whether a call that fails by its time limit names the right id on a busy machine: `cargo bench --bench late [-- LIMIT_MS:CALLS...]`.
//!
//! Eight programs at once, each of eight processes in a binary tree, make one call of a function that outlasts the limit at id 3 alone, beside 16 processes that compute. The call opens the links that it goes over. A whole call is right if its cause names id 3, a partial one if it
//! names nobody else and all others are done. Prints how many were right, and how long after the limit the calls ended.
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

use chained_gpc::launch::{Launch, Launched, Plan, own_id};
use chained_gpc::{Call, CallError, CauseKind, Functions, Id, IdList, Status};

const STARTED: [&str; 1] = ["--started-as"];

/// Processes of one program; the one whose function outlasts the limit.
const IDS: Id = 8;
const WRONG: Id = 3;

/// Programs at a time.
const PROGRAMS: usize = 8;

/// Processes that compute meanwhile.
const LOAD: usize = 16;

/// How often the function that outlasts the limit looks whether its call is over.
const LOOK: Duration = Duration::from_millis(20);

/// Processes that compute; they end with this, or with the process that started them.
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

/// Computes until the parent is gone.
fn spin() {
    let parent = parent_id();
    let mut number = 1u64;
    while parent_id() == parent {
        for _ in 0..10_000_000 {
            number = std::hint::black_box(number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
        }
    }
}

/// Whether a call said what is true.
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

/// One program: a call, which prints a line. The first one of a program opens the links on its way.
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

/// What so many programs print that begin together.
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

/// Runs programs until so many calls have been made; prints what came of them.
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
            // Ends: its call has a limit.
            while request.me() == WRONG && !request.is_cancelled() {
                thread::sleep(LOOK);
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
            // `cargo bench` says so; `cargo test` only sees that it runs.
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
