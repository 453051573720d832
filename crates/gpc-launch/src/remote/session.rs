//! The session of an agent with the agent above, without I/O: the orders that arrive, the reports that are due, and the
//! silence after which the agent above counts as gone.

use std::time::Duration;

use zeroize::Zeroizing;

use super::agent_error::AgentError;
use super::answer::Answer;
use super::lines::{Lines, TooLong};
use super::task::{ALIVE, GO, LINE_MAX, PART_MAX, START, Task};

/// Maximum silence before an agent ends; the agent above sends a keep-alive line every 15 s.
const SILENCE_MAX: Duration = Duration::from_secs(120);

/// Minimum time of a wait: a start may have a limit of a few nanoseconds.
const WAIT_MIN: Duration = Duration::from_millis(1);

/// A complete part of the orders.
#[derive(Debug)]
pub(super) enum Order {
    Task(Task),
    /// The text of the address book, which is forwarded unchanged.
    Book(Zeroizing<String>),
}

/// The session of one agent.
pub(super) struct Session {
    lines: Lines,
    /// Lines of the part that is being received.
    part: Zeroizing<String>,
    /// When the last bytes arrived.
    heard_at: Duration,
    /// When this agent last reported. Silence would make the agent above take it for lost.
    reported_at: Duration,
    /// The pause between two reports while this agent starts others; `None` before its task.
    pause: Option<Duration>,
    /// Whether it has reported every id of its share.
    is_done: bool,
    /// Whether it has received its address book.
    is_introduced: bool,
}

impl Session {
    /// Creates the session of an agent that starts now.
    pub(super) fn new(now: Duration) -> Session {
        Session {
            lines: Lines::new(LINE_MAX),
            part: Zeroizing::new(String::new()),
            heard_at: now,
            reported_at: now,
            pause: None,
            is_done: false,
            is_introduced: false,
        }
    }

    /// Accepts bytes of the agent above, and returns the orders that they complete.
    ///
    /// # Errors
    /// If the orders are invalid, too long, or in the wrong order.
    pub(super) fn receive(&mut self, bytes: &[u8], now: Duration) -> Result<Vec<Order>, AgentError> {
        self.heard_at = now;
        let mut lines: Vec<Zeroizing<String>> = Vec::new();
        let added = self.lines.add(bytes, |line| lines.push(Zeroizing::new(line.into())));
        added.map_err(|TooLong| AgentError::BadOrders("a line that is too long"))?;
        lines.iter().filter_map(|line| self.line(line, now).transpose()).collect()
    }

    fn line(&mut self, line: &str, now: Duration) -> Result<Option<Order>, AgentError> {
        if line == ALIVE {
            return Ok(None);
        }
        if self.is_introduced || self.part.len() + line.len() > PART_MAX {
            return Err(AgentError::BadOrders("more than there is to say"));
        }
        self.part.push_str(line);
        self.part.push('\n');
        if self.pause.is_none() && line == START {
            let task = Task::parse(&std::mem::take(&mut self.part))?;
            // A quarter of the silence after which this agent would be taken for lost.
            (self.pause, self.reported_at) = (Some(task.limit / 4), now);
            return Ok(Some(Order::Task(task)));
        }
        if self.pause.is_some() && line == GO {
            if !self.is_done {
                return Err(AgentError::BadOrders("to go before it was done"));
            }
            self.is_introduced = true;
            return Ok(Some(Order::Book(std::mem::take(&mut self.part))));
        }
        Ok(None)
    }

    /// Returns the report that is due. `is_complete` is whether the state of every id of the share is known.
    pub(super) fn report(&mut self, is_complete: bool, now: Duration) -> Option<Answer> {
        let pause = self.pause.filter(|_| !self.is_done)?;
        if is_complete {
            self.is_done = true;
            return Some(Answer::Done);
        }
        if now < self.reported_at.saturating_add(pause) {
            return None;
        }
        self.reported_at = now;
        Some(Answer::Wait)
    }

    /// Whether nothing has arrived for so long that the agent above counts as gone.
    pub(super) fn is_abandoned(&self, now: Duration) -> bool {
        now.saturating_sub(self.heard_at) > SILENCE_MAX
    }

    /// Maximum time to wait until [`report`](Self::report) or [`is_abandoned`](Self::is_abandoned) is asked again.
    pub(super) fn wait_limit(&self, now: Duration) -> Duration {
        let silence = self.heard_at.saturating_add(SILENCE_MAX);
        let report = self.pause.filter(|_| !self.is_done).map(|pause| self.reported_at.saturating_add(pause));
        report.map_or(silence, |report| report.min(silence)).saturating_sub(now).max(WAIT_MIN)
    }
}

#[cfg(test)]
mod tests;
