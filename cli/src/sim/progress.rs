//! What a terminal shows while a simulation takes long.

use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use chained_gpc::sim::{Report, Scenario, run_observed};

/// How long a simulation may take before a terminal shows that it is under way.
const SILENCE: Duration = Duration::from_millis(500);

/// A bar on standard error, where that is a terminal.
pub(super) struct Progress {
    bar: ProgressBar,
    begun: Instant,
}

impl Progress {
    /// Of so many `things`; where their number is not known, it is 0, and they are counted.
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

    /// Of the messages of these runs. A call without faults has a request and an answer for each id but its root; with faults nobody knows.
    pub(super) fn of_messages(scenarios: &[Scenario]) -> Progress {
        let of = |scenario: &Scenario| 2 * u64::from(scenario.n - 1) * u64::from(scenario.calls);
        let is_known = |scenario: &Scenario| scenario.faults.is_empty() && scenario.crashes.is_none();
        let length = if scenarios.iter().all(is_known) { scenarios.iter().map(of).sum() } else { 0 };
        Progress::new(length, "messages")
    }

    /// Shows how many there have been.
    pub(super) fn at(&self, position: u64) {
        // Long data have more messages than one for each request.
        let most = self.bar.length().filter(|length| *length > 0).unwrap_or(u64::MAX);
        self.bar.set_position(position.min(most));
        self.show();
    }

    /// Shows that there has been one more.
    pub(super) fn one_more(&self) {
        self.bar.inc(1);
        self.show();
    }

    fn show(&self) {
        if self.bar.is_hidden() && self.begun.elapsed() >= SILENCE {
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
        }
    }

    /// Runs a scenario whose messages come after those of the runs before it; the messages of all.
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
