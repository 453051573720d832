//! What a waiting `gpc call` shows: a line on a terminal that is painted anew, or one line in a log.

use std::cell::{Cell, RefCell};
use std::time::Duration;

use indicatif::{HumanBytes, ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::cause::{waiting, with_waiting};
use super::plan::CallPlan;
use super::say;
use chained_gpc::runtime::CallHandle;
use chained_gpc::{CallState, Clock, Id, IdList, Straggler, TimeLimit};

/// Time that a call may take before a terminal shows progress.
const SILENCE: Duration = Duration::from_millis(500);

/// How often a terminal shows anew what the call waits for. Heartbeats report it about as often.
const EVERY: Duration = Duration::from_secs(1);

/// Time after which a log gets one line: the first if the straggler is known, the second if only the awaited children
/// are. A report from three levels below takes up to 9 s with default heartbeats.
const LOGGED_AFTER: [Duration; 2] = [Duration::from_secs(5), Duration::from_secs(9)];

/// Progress of long calls.
pub(super) struct Progress {
    bar: ProgressBar,
    /// What is called.
    what: String,
    clock: Clock,
    silence: TimeLimit,
    /// When the call has begun.
    begun: Cell<Duration>,
    /// When to ask next what it waits for.
    next: RefCell<TimeLimit>,
    is_logged: Cell<bool>,
}

impl Progress {
    pub(super) fn new(plan: &CallPlan, count: u32, clock: &Clock) -> Progress {
        let style = match count {
            1 => "{spinner} {elapsed} {wide_msg}",
            // As wide as the terminal: a longer line would wrap, and its pieces would remain.
            _ => "{pos}/{len} calls: {wide_msg}",
        };
        // Draws on standard error, and only if that is a terminal.
        let bar = ProgressBar::hidden();
        bar.set_style(ProgressStyle::with_template(style).expect("the templates are well formed"));
        bar.set_length(count.into());
        let data = match plan.data.len() as u64 {
            0 => String::new(),
            len => format!(" with {}", HumanBytes(len)),
        };
        let what = format!("{} over {} ids{data}", plan.called.func_name, plan.ids.len());
        bar.set_message(what.clone());
        let (silence, next) = (clock.limit(SILENCE), RefCell::new(clock.limit(EVERY)));
        let (begun, is_logged) = (Cell::new(clock.now()), Cell::new(false));
        Progress { bar, what, clock: clock.clone(), silence, begun, next, is_logged }
    }

    /// A call begins.
    pub(super) fn begin(&self) {
        // What an earlier call waited for is over.
        self.bar.set_message(self.what.clone());
        self.begun.set(self.clock.now());
        self.next.replace(self.clock.limit(EVERY));
    }

    /// A call has ended.
    pub(super) fn made(&self) {
        self.bar.inc(1);
        self.show();
    }

    /// A call goes on.
    pub(super) fn waiting(&self, plan: &CallPlan, handle: &CallHandle) {
        self.bar.tick();
        self.show();
        if !self.next.borrow().is_over() {
            return;
        }
        self.next.replace(self.clock.limit(EVERY));
        // After a second the terminal shows progress, if there is one.
        let (is_log, waited) = (self.bar.is_hidden(), self.clock.now() - self.begun.get());
        if is_log && (self.is_logged.get() || waited < LOGGED_AFTER[0]) {
            return;
        }
        let Some((straggler, call)) = handle.progress().map(|it| (it.straggler, it.call)) else {
            return;
        };
        let is_known = straggler.state != CallState::Children;
        if is_log && !is_known && waited < LOGGED_AFTER[1] {
            return;
        }
        let awaited =
            if is_known { doing(plan, &straggler) } else { awaited(call.awaited, call.awaited_count) };
        let text = format!("{}: {awaited}", self.what);
        match is_log {
            true => say(&text),
            false => self.bar.set_message(text),
        }
        self.is_logged.set(is_log);
    }

    fn show(&self) {
        if self.bar.is_hidden() && self.silence.is_over() {
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// Returns what the id does that a call waits for.
fn doing(plan: &CallPlan, straggler: &Straggler) -> String {
    let does = straggler.text(Some(&plan.called.func_name), plan.called.callback_name.as_deref());
    with_waiting(does, &waiting(plan, straggler.id))
}

/// Returns which children have not answered; `count` is the number of all such children.
fn awaited(mut children: Vec<Id>, count: u32) -> String {
    let more = match (count as usize).saturating_sub(children.len()) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    children.sort_unstable();
    let ids = IdList::from_ids(children).map_or_else(|_| "?".into(), |ids| ids.to_string());
    format!("no answer yet of ids {ids}{more}, or of the ids below them")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn children_that_have_not_answered_are_named_in_order() {
        let ids = vec![32, 1, 2, 3];
        assert_eq!(awaited(ids.clone(), 4), "no answer yet of ids 1-3,32, or of the ids below them");
        assert_eq!(awaited(ids, 90), "no answer yet of ids 1-3,32 and 86 more, or of the ids below them");
    }
}
