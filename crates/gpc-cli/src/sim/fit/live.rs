//! Makes calls on node processes of this machine, and measures their times.
//!
//! One set of processes serves all calls: a call over n ids goes to the first n of them, as with `gpc call -n N`. The
//! calls are made in rounds, some of each kind at a time, so that other load on the machine affects all kinds alike.

use std::time::{Duration, Instant};

use gpc_trees::Tree;
use indicatif::{ProgressBar, ProgressStyle};

use crate::interrupt::Interrupt;
use crate::launching;
use crate::quantile::percentile;
use crate::trust::Trust;
use crate::{Failure, builtin};
use chained_gpc::runtime::{Call, FuncHandle, Functions, LinkKind, Node, Wait};
use gpc_launch::Launch;
use gpc_launch::NodeSettings;

/// Time that the processes have to end by themselves.
const END_LIMIT: Duration = Duration::from_secs(2);

/// Interval at which a waiting command checks for a signal.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Calls of a kind that a round makes before it measures. They open links, and bring the memory of the processes back.
const WARM_UP: u32 = 3;

/// A kind of call.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Kind {
    pub(super) tree: Tree,
    pub(super) n: u32,
    pub(super) data_bytes: u32,
}

/// Times of the calls of a kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Times {
    pub(super) calls: usize,
    /// A quarter of the calls took at most this time, in nanoseconds.
    pub(super) quarter_ns: u64,
    /// Half of the calls.
    pub(super) median_ns: u64,
    /// Three quarters of the calls.
    pub(super) three_quarters_ns: u64,
}

impl Times {
    /// Computes the quartiles of at least one call.
    fn of(mut times_ns: Vec<u64>) -> Times {
        times_ns.sort_unstable();
        let at = |percent| percentile(&times_ns, percent).unwrap_or_default();
        Times { calls: times_ns.len(), quarter_ns: at(25), median_ns: at(50), three_quarters_ns: at(75) }
    }
}

/// The node processes.
struct Live {
    node: Node,
    launch: Launch,
    echo: FuncHandle,
}

/// Starts this number of processes, this one included, and measures. All have ended when it returns. `None` if it was
/// interrupted.
///
/// # Errors
/// If a process cannot be started or a call fails.
pub(super) fn measure(
    kinds: &[Kind],
    most: u32,
    link: LinkKind,
    rounds: u32,
    interrupt: &Interrupt,
) -> Result<Option<Vec<Times>>, Failure> {
    let functions = Functions::new();
    builtin::register(&functions)?;
    let echo = functions.named("echo")?;
    let watching = NodeSettings::new(None, Wait::default(), link);
    let launch = launching::start(1..most, link, watching, &[], interrupt)?;
    let builder = Node::builder(0).functions(&functions).peers(launch.peers().clone());
    let builder = Trust::of_launch(&launch).apply(builder);
    let node = watching.apply(builder).start()?;
    let live = Live { node, launch, echo };
    let measured = live.rounds(kinds, rounds, interrupt);
    live.launch.end(END_LIMIT);
    live.node.shutdown(Duration::ZERO);
    measured
}

impl Live {
    fn rounds(
        &self,
        kinds: &[Kind],
        rounds: u32,
        interrupt: &Interrupt,
    ) -> Result<Option<Vec<Times>>, Failure> {
        let mut times_ns = vec![Vec::new(); kinds.len()];
        // Draws on standard error, and only if that is a terminal.
        let style = ProgressStyle::with_template("measuring {wide_bar} {pos}/{len} rounds");
        let progress =
            ProgressBar::new(rounds.into()).with_style(style.expect("the template is well formed"));
        for round in 0..rounds {
            for place in 0..kinds.len() {
                // The order alternates: the effect of a call on the scheduler then reaches other kinds the next time.
                let place = if round % 2 == 0 { place } else { kinds.len() - 1 - place };
                let (kind, times_ns) = (&kinds[place], &mut times_ns[place]);
                for call in 0..WARM_UP + calls_of(kind.n) {
                    let took = self.call(kind)?;
                    if interrupt.signal().is_some() {
                        return Ok(None);
                    }
                    if call >= WARM_UP {
                        times_ns.push(u64::try_from(took.as_nanos())?);
                    }
                }
            }
            progress.inc(1);
        }
        progress.finish_and_clear();
        Ok(Some(times_ns.into_iter().map(Times::of).collect()))
    }

    fn call(&self, kind: &Kind) -> Result<Duration, Failure> {
        let call =
            Call::new(self.echo)
                .ids(0..kind.n)
                .tree(kind.tree.clone())
                .data(vec![b'.'; kind.data_bytes as usize]);
        let begun = Instant::now();
        let mut handle = self.node.call(call)?;
        // Ends: the call has a time limit.
        loop {
            if let Some(ended) = handle.wait_for(POLL_INTERVAL) {
                let took = begun.elapsed();
                ended?;
                return Ok(took);
            }
        }
    }
}

/// Returns the number of measured calls of a round over this many ids: about the same work for every kind, and at least
/// a few calls.
fn calls_of(n: u32) -> u32 {
    (600 / (n + 20)).max(5)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quartiles_are_those_of_all_calls() {
        let times = Times::of((1..=100).rev().collect());
        assert_eq!(times, Times { calls: 100, quarter_ns: 25, median_ns: 50, three_quarters_ns: 75 });
        assert_eq!(Times::of(vec![7]), Times { calls: 1, quarter_ns: 7, median_ns: 7, three_quarters_ns: 7 });
    }
}
