//! Progress of long simulations on a terminal.

use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use gpc_sim::{Report, Scenario, run_observed};

/// Time that a simulation may take before a terminal shows progress.
const SILENCE: Duration = Duration::from_millis(500);

/// A progress bar on standard error, if that is a terminal.
pub(super) struct Progress {
    bar: ProgressBar,
    begun: Instant,
}

impl Progress {
    /// Creates a bar for this number of `things`. If the number is not known, it is 0, and things are counted.
    pub(super) fn new(length: u64, things: &'static str) -> Progress {
        let template = match length {
            0 => "simulating: {pos} {msg}, {elapsed} so far",
            _ => "simulating {wide_bar} {pos}/{len} {msg}, {eta} left",
        };
        let bar = ProgressBar::hidden();
        bar.set_style(ProgressStyle::with_template(template).expect("the templates are well formed"));
        bar.set_length(length);
        bar.set_message(things);
        Progress { bar, begun: Instant::now() }
    }

    /// Creates a bar for the messages of these runs. A call without faults has a request and an answer for each id but
    /// its root; with faults the number is unknown.
    pub(super) fn of_messages(scenarios: &[Scenario]) -> Progress {
        let of = |scenario: &Scenario| 2 * u64::from(scenario.n - 1) * u64::from(scenario.calls);
        let is_known = |scenario: &Scenario| scenario.faults.is_empty() && scenario.crashes.is_none();
        let length = if scenarios.iter().all(is_known) { scenarios.iter().map(of).sum() } else { 0 };
        Progress::new(length, "messages")
    }

    /// Sets the number of things so far.
    pub(super) fn at(&self, position: u64) {
        // Long data take more than one message per request.
        let most = self.bar.length().filter(|length| *length > 0).unwrap_or(u64::MAX);
        self.bar.set_position(position.min(most));
        self.show();
    }

    /// Counts one more.
    pub(super) fn one_more(&self) {
        self.bar.inc(1);
        self.show();
    }

    fn show(&self) {
        if self.bar.is_hidden() && self.begun.elapsed() >= SILENCE {
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
        }
    }

    /// Runs a scenario after `before` messages of earlier runs. Returns the report, and the messages of all runs.
    pub(super) fn run(&self, scenario: &Scenario, before: u64) -> (Report, u64) {
        let (report, _) = run_observed(scenario, |messages| self.at(before + messages));
        let all = before + report.messages;
        (report, all)
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
