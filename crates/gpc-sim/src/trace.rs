//! Record of a run: a hash over every event, and optionally a line of text for each. Up to 16,384 ids the hash covers
//! the text of all lines and what nodes hold: two builds with equal hashes behave the same.

use std::fmt::{self, Write as _};

use gpc_trees::Id;

use super::large::LARGE;
use super::time::BEGIN;
use chained_gpc::wire::Message;
use chained_gpc::wire::message::Answer;

/// Largest number of lines in a trace; a long run must not use all memory.
const LINES_MAX: usize = 1 << 20;

/// The record of one run.
#[derive(Debug)]
pub(super) struct Trace {
    hash: u64,
    /// Whether the hash covers the text of lines; the text of millions of events would take longer than the events.
    deep: bool,
    lines: Option<Vec<String>>,
}

impl Trace {
    pub(super) fn new(text: bool, n: u32) -> Trace {
        Trace { hash: 0xcbf2_9ce4_8422_2325, deep: n <= LARGE, lines: text.then(Vec::new) }
    }

    /// FNV-1a over whole words.
    pub(super) fn fold(&mut self, words: [u64; 4]) {
        words.into_iter().for_each(|word| self.fold_one(word));
    }

    fn fold_one(&mut self, word: u64) {
        self.hash = (self.hash ^ word).wrapping_mul(0x0000_0100_0000_01b3).rotate_left(29);
    }

    /// Adds words that describe what a node holds, or does without a message.
    pub(super) fn fold_deep(&mut self, words: [u64; 4]) {
        if self.deep {
            self.fold(words);
        }
    }

    /// Adds a line to the hash and to the text, where the run has them.
    pub(super) fn say(&mut self, at: u64, text: fmt::Arguments<'_>) {
        if self.deep {
            // Writing to a hash never fails.
            let _ = HashWriter(self).write_fmt(text);
        }
        if let Some(lines) = &mut self.lines
            && lines.len() < LINES_MAX
        {
            let since = at.saturating_sub(BEGIN);
            lines.push(format!("{:>9}.{:03} us  {text}", since / 1000, since % 1000));
        }
    }

    pub(super) fn hash(&self) -> u64 {
        self.hash
    }

    pub(super) fn take_lines(&mut self) -> Vec<String> {
        self.lines.take().unwrap_or_default()
    }
}

/// A writer that adds text to the hash.
struct HashWriter<'a>(&'a mut Trace);

impl fmt::Write for HashWriter<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for bytes in text.as_bytes().chunks(8) {
            let word = bytes.iter().fold(bytes.len() as u64, |word, byte| word << 8 | u64::from(*byte));
            self.0.fold_one(word);
        }
        Ok(())
    }
}

/// A number for the kind and contents of a message, for the hash.
pub(super) fn digest(message: &Message) -> u64 {
    match message {
        Message::Request(request) => {
            1 | u64::from(request.ids.len()) << 8
                | u64::from(request.adopted) << 40
                | request.call.sequence << 41
        }
        Message::Response(response) => {
            let (kind, len) = match &response.answer {
                Answer::Completed => (0, 0),
                Answer::Reply(reply) => (1, reply.len()),
                Answer::Arriving(reply) => (4, reply.len()),
                Answer::Failed(failure) => (2, u64::from(failure.cause.id)),
                Answer::Partial(partial) => (3, partial.reply.len()),
            };
            2 | kind << 4 | len << 8
        }
        Message::Cancel(call) => 3 | call.sequence << 8,
        Message::Release(call) => 4 | call.sequence << 8,
        Message::Moved(call) => 5 | call.sequence << 8,
        Message::Ping => 6,
        Message::Pong => 7,
        Message::Stragglers(calls) => 9 | (calls.len() as u64) << 8,
        Message::Pause(length) => 8 | (length.as_nanos() as u64) << 8,
    }
}

/// A message as text.
pub(super) struct MessageText<'a>(pub(super) Id, pub(super) Id, pub(super) &'a Message);

impl fmt::Display for MessageText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let MessageText(from, to, message) = self;
        write!(f, "{from} -> {to}: ")?;
        match message {
            Message::Request(request) => {
                let adopted = if request.adopted { ", adopted" } else { "" };
                write!(f, "request {}, ids {}, {:?} left{adopted}", request.call, request.ids, request.limit)
            }
            Message::Response(response) => {
                write!(f, "response {}, ", response.call)?;
                match &response.answer {
                    Answer::Completed => f.write_str("completed"),
                    Answer::Reply(reply) => {
                        write!(f, "reply of {} bytes at level {}", reply.len(), reply.level)
                    }
                    Answer::Arriving(reply) => {
                        write!(f, "reply of {} bytes at level {}, still arriving", reply.len(), reply.level)
                    }
                    Answer::Failed(failure) => {
                        write!(f, "failed: {}, coverage {:?}", failure.cause, failure.coverage.runs())
                    }
                    Answer::Partial(partial) => {
                        write!(f, "partial reply of {} bytes", partial.reply.len())?;
                        let coverage = &partial.report.coverage;
                        write!(f, ", coverage {:?}", coverage.runs())?;
                        partial.report.causes.iter().try_for_each(|cause| write!(f, "; {cause}"))
                    }
                }
            }
            Message::Cancel(call) => write!(f, "cancel {call}"),
            Message::Release(call) => write!(f, "release {call}"),
            Message::Moved(call) => write!(f, "moved {call}"),
            Message::Ping => f.write_str("ping"),
            Message::Pong => f.write_str("pong"),
            Message::Stragglers(calls) => {
                f.write_str("stragglers")?;
                calls.iter().try_for_each(|(call, straggler)| write!(f, ", {call}: {straggler}"))
            }
            Message::Pause(length) if length.is_zero() => f.write_str("back from a pause"),
            Message::Pause(length) => write!(f, "pause of {length:?}"),
        }
    }
}
