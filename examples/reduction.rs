//! A reduction: every id measures a value, and the replies are combined on the way up, so that the root gets a single
//! result.
//!
//! It is done twice: with a func and a callback, and with one function that has phases.
//!
//! `cargo run --example reduction`
#![allow(clippy::print_stdout, clippy::print_stderr)]

use chained_gpc::runtime::{FunctionError, FunctionResult};
use chained_gpc::{Call, Functions, LinkKind, LocalNodes, Phase, Reply, Tree};

const NODES: u32 = 64;

/// Minimum, maximum and sum of the values of a subtree.
#[derive(Clone, Copy)]
struct Stats {
    min: u64,
    max: u64,
    sum: u64,
}

impl Stats {
    fn of(value: u64) -> Stats {
        Stats { min: value, max: value, sum: value }
    }

    fn and(self, other: Stats) -> Stats {
        Stats { min: self.min.min(other.min), max: self.max.max(other.max), sum: self.sum + other.sum }
    }

    fn to_bytes(self) -> Vec<u8> {
        [self.min, self.max, self.sum].map(u64::to_le_bytes).concat()
    }

    fn from_bytes(bytes: &[u8]) -> Result<Stats, FunctionError> {
        let (words, []) = bytes.as_chunks::<8>() else { return Err("not whole words".into()) };
        let [min, max, sum] = words else { return Err("not three words".into()) };
        let [min, max, sum] = [min, max, sum].map(|word| u64::from_le_bytes(*word));
        Ok(Stats { min, max, sum })
    }
}

/// Stands for a measurement that differs at each id.
fn measure(id: u32) -> u64 {
    u64::from(id.wrapping_mul(2_654_435_761) >> 20)
}

fn merge(child: &[u8], own: &mut Reply) -> FunctionResult {
    own.data = Stats::from_bytes(&own.data)?.and(Stats::from_bytes(child)?).to_bytes();
    Ok(())
}

fn main() {
    if let Err(error) = run() {
        eprintln!("{error}");
        std::process::exit(1);
    }
}

fn run() -> Result<(), FunctionError> {
    let functions = Functions::new();
    let func = functions.func("measure", |request, reply| {
        reply.data = Stats::of(measure(request.me())).to_bytes();
        Ok(())
    })?;
    let callback = functions.callback("merge", |_, child, own| merge(child.data, own))?;
    let phased = functions.phased("measure and merge", |phase, request, own| match phase {
        Phase::Init => {
            own.data = Stats::of(measure(request.me())).to_bytes();
            Ok(())
        }
        Phase::Wait(child) => merge(child.data, own),
    })?;

    let nodes = LocalNodes::start(NODES, LinkKind::Unix, &functions)?;
    let expected = (0..NODES).map(|id| Stats::of(measure(id))).reduce(Stats::and).ok_or("no nodes")?;
    for (name, call) in [
        ("func and callback", Call::new(func).callback(callback)),
        ("one func with phases", Call::new(phased)),
    ] {
        let outcome = nodes.root().call(call.ids(0..NODES).tree(Tree::Binomial))?.wait()?;
        let Stats { min, max, sum } = Stats::from_bytes(outcome.data())?;
        println!("{name}: min {min}, max {max}, sum {sum}");
        assert_eq!((min, max, sum), (expected.min, expected.max, expected.sum));
    }
    Ok(())
}
