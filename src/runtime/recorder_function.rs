//! The built-in function that replies with the records of its node's flight recorder.
//!
//! Source: docs/wire.md, "The built-in functions". It runs on the event loop, in a class of its own: it must not wait
//! behind a function that hangs.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use gpc_trees::Id;

use super::call::Call;
use super::handles::{FuncHandle, number};
use super::metrics_function;
use super::request::{Deferred, Request};
use crate::chain::{CallState, RecordedCall, Recording, Reply};
use crate::wire::{CallId, Shown};

/// The name of the function; applications cannot register this name.
pub(super) const NAME: &str = "gpc:recorder";

/// The number of that name.
pub(super) const NUMBER: u64 = number(NAME);

/// First words of a reply.
const TITLE: &str = "gpc recorder 1";

/// Maximum number of calls in flight in one reply (the oldest), and of ended ones (the last): about 300 KiB.
const CALLS_MAX: usize = 1_024;

/// Maximum length of a function's name in a reply, characters.
const NAME_MAX: usize = 64;

/// Number of fields before the name.
const FIELDS: usize = 14;

/// The built-in function: the event loop replies.
pub(super) fn report(request: &Request<'_>, answer: Deferred) {
    let ended = std::str::from_utf8(request.header()).ok().and_then(|text| text.parse().ok());
    match ended {
        Some(ended) => request.report(move |recording| {
            let data = text(&recording, ended).into_bytes();
            answer.reply(Reply { data, ..Reply::default() });
        }),
        None => {
            let header = String::from_utf8_lossy(request.header());
            answer.fail(format!("`{}` is not a number of ended calls", Shown(&header)));
        }
    }
}

impl Recording {
    /// Returns a call that collects what the flight recorders of other nodes have, by a function that each node has:
    /// the calls in flight, and the last `ended` calls that ended, at most 1,024 of each. The caller adds the ids, and
    /// reads each reply with [`parse`](Self::parse). It is partial, and its tree is flat: ids that do not answer hold
    /// no other id up.
    ///
    /// ```
    /// use chained_gpc::{Functions, LinkKind, LocalNodes, Recording};
    ///
    /// let nodes = LocalNodes::start(3, LinkKind::Unix, &Functions::new())?;
    /// let outcome = nodes.root().call(Recording::call(8).ids(0..3))?.wait()?;
    /// for reply in outcome.replies()? {
    ///     let recording = Recording::parse(&reply.data)?;
    ///     assert_eq!((recording.me, recording.calls.len()), (reply.id, 0));
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn call(ended: usize) -> Call {
        let call = Call::new(FuncHandle::named(NAME)).header(ended.to_string());
        call.partial().tree(gpc_trees::Tree::Flat).forward_first()
    }

    /// Reads the reply of a node to [such a call](Self::call).
    ///
    /// # Errors
    /// If it is not such a reply; the error names the line.
    pub fn parse(reply: &[u8]) -> Result<Recording, RecordingError> {
        let text = std::str::from_utf8(reply).map_err(|_| RecordingError { line: 1 })?;
        let mut lines = text.lines();
        let me = lines.next().and_then(|line| line.strip_prefix(TITLE)?.trim().parse().ok());
        let mut recording = Recording { me: me.ok_or(RecordingError { line: 1 })?, calls: Vec::new() };
        for (line, number) in lines.zip(2..) {
            recording.calls.push(parse_call(line).ok_or(RecordingError { line: number })?);
        }
        Ok(recording)
    }
}

/// A reply that no node has made.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("line {line} is not one of a flight recorder: do all nodes run the same release?")]
pub struct RecordingError {
    /// Number of the line, from 1 on.
    pub line: usize,
}

/// The text of a recording. It omits the calls that collect records and metrics, which would soon be all.
fn text(recording: &Recording, ended: usize) -> String {
    let watches = |call: &RecordedCall| [NUMBER, metrics_function::NUMBER].contains(&call.func);
    let calls = recording.calls.iter().filter(|call| !watches(call));
    let (over, in_flight): (Vec<_>, Vec<_>) = calls.partition(|call| call.state.is_ended());
    let last = over.len().saturating_sub(ended.min(CALLS_MAX));
    let mut text = format!("{TITLE} {}\n", recording.me);
    for call in over[last..].iter().chain(in_flight.iter().take(CALLS_MAX)) {
        text += &Line(call).to_string();
    }
    text
}

/// One call as a line of text.
struct Line<'a>(&'a RecordedCall);

impl fmt::Display for Line<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let call = self.0;
        write!(f, "{} {} {:016x} ", call.call.root, call.call.sequence, call.func)?;
        write!(f, "{} {} {} ", Optional(call.parent), call.state as u8, call.age.as_nanos())?;
        let nanos = |at: Option<Duration>| Optional(at.map(|at| at.as_nanos()));
        write!(f, "{} {} {} ", nanos(call.began), nanos(call.ended), call.callbacks.as_nanos())?;
        let (last, at) = call.last.unzip();
        write!(f, "{} {} {} {} ", Optional(last), nanos(at), nanos(call.answered), call.awaited_count)?;
        let awaited: Vec<String> = call.awaited.iter().map(Id::to_string).collect();
        let awaited = Some(awaited.join(",")).filter(|ids| !ids.is_empty());
        let name = call.func_name.as_deref().unwrap_or_default();
        let name: String = Shown(name).to_string().chars().take(NAME_MAX).collect();
        writeln!(f, "{} {name}", Optional(awaited))
    }
}

/// A value, or `-`.
struct Optional<T>(Option<T>);

impl<T: fmt::Display> fmt::Display for Optional<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Some(value) => value.fmt(f),
            None => f.write_str("-"),
        }
    }
}

fn parse_call(line: &str) -> Option<RecordedCall> {
    let mut parts = line.splitn(FIELDS + 1, ' ');
    let mut next = || parts.next();
    fn number<T: std::str::FromStr>(field: &str) -> Option<T> {
        field.parse().ok()
    }
    fn optional<T: std::str::FromStr>(field: &str) -> Option<Option<T>> {
        if field == "-" { Some(None) } else { field.parse().ok().map(Some) }
    }
    let duration = |nanos: u64| Duration::from_nanos(nanos);
    let (root, sequence) = (number(next()?)?, number(next()?)?);
    let func = u64::from_str_radix(next()?, 16).ok()?;
    let parent = optional(next()?)?;
    let state = *CallState::ALL.get(number::<usize>(next()?)?)?;
    let age = duration(number(next()?)?);
    let (began, ended) = (optional(next()?)?.map(duration), optional(next()?)?.map(duration));
    let callbacks = duration(number(next()?)?);
    let (last, last_at) = (optional::<Id>(next()?)?, optional(next()?)?.map(duration));
    let answered = optional(next()?)?.map(duration);
    let awaited_count = number(next()?)?;
    let awaited = match next()? {
        "-" => Vec::new(),
        ids => ids.split(',').map(number).collect::<Option<Vec<Id>>>()?,
    };
    let name = Some(next()?).filter(|name| !name.is_empty());
    Some(RecordedCall {
        call: CallId { root, sequence },
        func,
        func_name: name.map(Arc::from),
        parent,
        state,
        age,
        began,
        ended,
        callbacks,
        last: last.zip(last_at),
        answers: Vec::new(),
        answered,
        awaited,
        awaited_count,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn duration() -> impl Strategy<Value = Duration> {
        (0..u64::from(u32::MAX)).prop_map(Duration::from_nanos)
    }

    prop_compose! {
        fn call()(
            (root, sequence, func) in (any::<u32>(), any::<u64>(), any::<u64>()),
            parent in any::<Option<u32>>(),
            state in prop::sample::select(CallState::ALL.to_vec()),
            (age, callbacks) in (duration(), duration()),
            (began, ended, answered) in (
                prop::option::of(duration()), prop::option::of(duration()), prop::option::of(duration())
            ),
            last in prop::option::of((any::<u32>(), duration())),
            (awaited, awaited_count) in (prop::collection::vec(any::<u32>(), 0..5), any::<u32>()),
            name in prop::option::of("[a-z:]([a-z :]{0,9}[a-z:])?"),
        ) -> RecordedCall {
            let (call, func_name) = (CallId { root, sequence }, name.map(Arc::from));
            RecordedCall {
                call, func, func_name, parent, state, age, began, ended, callbacks, last,
                answers: Vec::new(), answered, awaited, awaited_count,
            }
        }
    }

    proptest! {
        #[test]
        fn a_call_reads_as_it_is_written(call in call()) {
            prop_assert_eq!(parse_call(Line(&call).to_string().trim_end_matches('\n')), Some(call));
        }

        /// Another program may answer with anything.
        #[test]
        fn any_reply_is_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..80), more in "[0-9 -]{0,60}") {
            let _ = Recording::parse(&bytes);
            let _ = Recording::parse(format!("{TITLE} 7\n{more}\n").as_bytes());
        }

        /// The last ended calls and the oldest in flight, and none of the calls that collect them.
        #[test]
        fn a_reply_has_the_calls_that_count(calls in prop::collection::vec(call(), 0..12), most in 0usize..9) {
            let mut calls: Vec<RecordedCall> = calls;
            calls.sort_by_key(|call| !call.state.is_ended());
            calls.iter_mut().step_by(3).for_each(|call| call.func = NUMBER);
            calls.iter_mut().step_by(4).for_each(|call| call.func = metrics_function::NUMBER);
            let recording = Recording { me: 5, calls };
            let read = Recording::parse(text(&recording, most).as_bytes()).expect("it was just written");
            let watches = [NUMBER, metrics_function::NUMBER];
            let kept = recording.calls.iter().filter(|call| !watches.contains(&call.func));
            let over = kept.clone().filter(|call| call.state.is_ended()).count();
            let expected: Vec<RecordedCall> = kept.skip(over.saturating_sub(most)).cloned().collect();
            prop_assert_eq!((read.me, read.calls), (5, expected));
        }
    }

    #[test]
    fn a_line_that_is_no_call_is_named() {
        let at = |text: &str| Recording::parse(text.as_bytes()).map_err(|error| error.line);
        assert_eq!(at("something else"), Err(1));
        assert_eq!(at("gpc recorder 1 4\n"), Ok(Recording { me: 4, calls: Vec::new() }));
        assert_eq!(at("gpc recorder 1 4\n1 2 three\n"), Err(2));
    }
}
