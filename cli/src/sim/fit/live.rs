//! Calls on node processes of this machine, and how long they take.
//!
//! One set of processes serves all calls: a call over n ids is one over the first n of them, which is what `gpc call -n N` makes. The calls are made in rounds, some of each kind at a time, so that whatever else the machine
//! does strikes all kinds alike.

use std::time::{Duration, Instant};

use gpc_trees::Tree;
use indicatif::{ProgressBar, ProgressStyle};

use crate::interrupt::Interrupt;
use crate::launching;
use crate::quantile::percentile;
use crate::trust::Trust;
use crate::{Failure, builtin};
use chained_gpc::launch::Launch;
use chained_gpc::launch::NodeSettings;
use chained_gpc::runtime::{Call, FuncHandle, Functions, LinkKind, Node, Wait};

/// How long the processes have to end by themselves.
const END_LIMIT: Duration = Duration::from_secs(2);

/// How often a waiting command looks whether it was interrupted.
const LOOK: Duration = Duration::from_millis(50);

/// Calls of a kind that a round makes before it measures: they open links and bring the processes' memory back.
const WARM_UP: u32 = 3;

/// A kind of call.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Kind {
    pub(super) tree: Tree,
    pub(super) n: u32,
    pub(super) data_bytes: u32,
}

/// How long the calls of a kind took.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Times {
    pub(super) calls: usize,
    /// A quarter of the calls took no longer, nanoseconds.
    pub(super) quarter_ns: u64,
    /// Half of them.
    pub(super) median_ns: u64,
    /// Three quarters.
    pub(super) three_quarters_ns: u64,
}

impl Times {
    /// Of at least one call.
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

/// Starts so many processes, this one included, and measures; they have ended when this returns. `None` when it was interrupted.
///
/// # Errors
/// When a process cannot be started or a call fails.
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
    let launch = launching::start(1..most, link, watching, interrupt)?;
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
        // Draws on standard error, and only where that is a terminal.
        let style = ProgressStyle::with_template("measuring {wide_bar} {pos}/{len} rounds");
        let progress =
            ProgressBar::new(rounds.into()).with_style(style.expect("the template is well formed"));
        for round in 0..rounds {
            for place in 0..kinds.len() {
                // There and back: what a call leaves behind in the scheduler strikes other kinds the next time.
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
            if let Some(ended) = handle.wait_for(LOOK) {
                let took = begun.elapsed();
                ended?;
                return Ok(took);
            }
        }
    }
}

/// Measured calls of a round over so many ids: about as much work for every kind, and some where that is much.
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
