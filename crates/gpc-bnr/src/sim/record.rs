//! The record of a run: observations for the checkers, the hash of all events, and the lines of a trace.

use std::fmt;

use super::seen::Seen;
use super::time::{BEGIN, MS};

/// Most lines of a trace.
const LINES_MAX: usize = 1 << 20;

/// The record of a run.
pub(super) struct Record {
    seen: Vec<Seen>,
    /// Times of `seen`, in microseconds.
    times: Vec<u64>,
    pub(super) hash: u64,
    lines: Option<Vec<String>>,
}

impl Record {
    /// `trace`: whether to keep a line for each event.
    pub(super) fn new(trace: bool) -> Record {
        Record {
            seen: Vec::new(),
            times: Vec::new(),
            hash: 0xcbf2_9ce4_8422_2325,
            lines: trace.then(Vec::new),
        }
    }

    /// Adds a line, with the time and the number of events so far.
    pub(super) fn say(&mut self, now: u64, events: u64, text: fmt::Arguments<'_>) {
        if let Some(lines) = self.lines.as_mut().filter(|lines| lines.len() < LINES_MAX) {
            let since = now - BEGIN;
            lines.push(format!("{:>7}.{:03} ms {:>6}  {text}", since / MS, since % MS, events));
        }
    }

    /// Adds an observation.
    pub(super) fn see(&mut self, now: u64, events: u64, seen: Seen) {
        if self.lines.is_some() {
            self.say(now, events, format_args!("   {seen:?}"));
        }
        self.fold([now, 1, self.seen.len() as u64]);
        self.seen.push(seen);
        self.times.push(now);
    }

    /// Adds to the hash.
    pub(super) fn fold(&mut self, words: [u64; 3]) {
        for word in words {
            self.hash = (self.hash ^ word).wrapping_mul(0x0000_0100_0000_01b3).rotate_left(29);
        }
    }

    pub(super) fn take_lines(&mut self) -> Vec<String> {
        self.lines.take().unwrap_or_default()
    }

    /// The observations and their times, for the checkers.
    pub(super) fn take_history(&mut self) -> (Vec<Seen>, Vec<u64>) {
        (std::mem::take(&mut self.seen), std::mem::take(&mut self.times))
    }
}
