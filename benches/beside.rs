//! What a trace, types and a reduction cost: each is timed in turns with the same without it, and the ratio is that of
//! neighbouring turns. `cargo bench -p chained-gpc --features serde --bench beside`
#![allow(
    missing_docs,
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "a benchmark reads the clock and prints"
)]

use std::hint::black_box;
use std::time::{Duration, Instant};

use chained_gpc::reduce::{Reduction, bytes_of};
use chained_gpc::{Call, FuncHandle, Functions, LinkKind, LocalNodes, Placement, Tree};

/// Rounds, in each of which both have a turn of this length.
const ROUNDS: usize = 13;
const TURN: Duration = Duration::from_millis(200);

/// The argument and the result of the typed function.
type Argument = (u64, String);

fn main() {
    println!("{:<40} {:>9} {:>9}  ratio: median, least, greatest", "", "without", "with");
    for n in [8, 64] {
        for placement in [Placement::Inline, Placement::Default] {
            trace(n, placement);
        }
    }
    for n in [2, 8] {
        typed(n);
    }
    for bytes in [1 << 20, 16 << 20] {
        merge(bytes);
    }
}

fn echo(functions: &Functions) -> FuncHandle {
    let echo = functions.func("echo", |request, reply| {
        reply.data = request.data().to_vec();
        Ok(())
    });
    echo.expect("a fresh name")
}

fn trace(n: u32, placement: Placement) {
    let functions = Functions::new();
    let name = format!("trace of {n} ids, {placement:?}");
    let echo = echo(&functions.at(placement));
    let nodes = LocalNodes::start(n, LinkKind::Unix, &functions).expect("nodes start");
    let call = || Call::new(echo).ids(0..n).tree(Tree::Binomial).data(vec![7; 64]);
    let made = |call: Call| {
        let outcome = nodes.root().call(call).and_then(|call| call.wait()).expect("the call ends well");
        drop(black_box(outcome));
    };
    beside(&name, || made(call()), || made(call().trace()));
    // With limits of its replies a call takes the general path, as with a trace.
    let general = || call().reply_limits(64, 64);
    beside(&format!("{name}, general path"), || made(general()), || made(general().trace()));
}

fn typed(n: u32) {
    let functions = Functions::new();
    let bytes = echo(&functions);
    let typed = functions.typed("typed", |_, argument: Argument| Ok::<Argument, String>(argument));
    let typed = typed.expect("a fresh name");
    let nodes = LocalNodes::start(n, LinkKind::Shm, &functions).expect("nodes start");
    let wait = |call: Call| {
        let call = call.ids(0..n).tree(Tree::Flat);
        nodes.root().call(call).and_then(|call| call.wait()).expect("the call ends well")
    };
    let argument: Argument = (7, "a key of as many bytes as other calls have here: 64".into());
    beside(
        &format!("types, {n} ids"),
        || drop(black_box(wait(Call::new(bytes).data(vec![7; 54])).replies())),
        || {
            let call = Call::new(typed).typed(&argument).expect("it can be encoded");
            drop(black_box(wait(call).typed::<Argument>()));
        },
    );
}

/// Merging two replies, beside a loop over two arrays of numbers.
fn merge(bytes: u32) {
    let numbers: Vec<f64> = (0..bytes / 8).map(f64::from).collect();
    let (mut sum, more) = (numbers.clone(), numbers.clone());
    let (mut own, other) = (bytes_of(&numbers), bytes_of(&numbers));
    let reduction = Reduction::sum::<f64>();
    beside(
        &format!("merge of {bytes} bytes of f64"),
        || {
            sum.iter_mut().zip(black_box(&more)).for_each(|(own, more)| *own += more);
            black_box(&mut sum);
        },
        || reduction.merge(black_box(&mut own), black_box(&other)).expect("equal lengths"),
    );
}

/// Times both in turns, and prints the medians of the times and of the ratios.
fn beside(name: &str, mut without: impl FnMut(), mut with: impl FnMut()) {
    turn(&mut without);
    turn(&mut with);
    let mut rounds: Vec<[f64; 2]> = Vec::new();
    for round in 0..ROUNDS {
        // Each is first in half of the rounds.
        rounds.push(if round % 2 == 0 {
            let first = turn(&mut without);
            [first, turn(&mut with)]
        } else {
            let first = turn(&mut with);
            [turn(&mut without), first]
        });
    }
    let sorted = |value: fn(&[f64; 2]) -> f64| {
        let mut values: Vec<f64> = rounds.iter().map(value).collect();
        values.sort_by(f64::total_cmp);
        values
    };
    let (without, with) = (sorted(|it| it[0])[ROUNDS / 2], sorted(|it| it[1])[ROUNDS / 2]);
    let ratios = sorted(|it| it[1] / it[0]);
    let (median, least, greatest) = (ratios[ROUNDS / 2], ratios[0], ratios[ROUNDS - 1]);
    println!("{name:<40} {without:>6.1} us {with:>6.1} us  {median:.3}, {least:.3}, {greatest:.3}");
}

/// The median time of one execution in a turn, in microseconds.
fn turn(run: &mut impl FnMut()) -> f64 {
    let (begun, mut times) = (Instant::now(), Vec::new());
    while begun.elapsed() < TURN {
        let one = Instant::now();
        run();
        times.push(one.elapsed().as_secs_f64() * 1e6);
    }
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}
