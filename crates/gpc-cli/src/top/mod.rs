//! `gpc top`: what running nodes do, as a table that is painted anew each second.
#![allow(clippy::disallowed_methods, reason = "views follow each other by the clock")]

mod recordings;
mod view;

use std::io::{self, IsTerminal as _, Write as _};
use std::process::ExitCode;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use chained_gpc::runtime::Outcome;
use chained_gpc::{Metrics, Recording};

use self::recordings::{late_calls, slowest_ids};
use self::view::{Sample, Size, view};
use super::args::TopArgs;
use super::asking::Asking;
use super::interrupt::Interrupt;
use super::trace::analysis::Answers;
use super::{CommandResult, stdout};

/// Size of a view where standard output is no terminal: it has all nodes.
const UNBOUNDED: Size = Size { rows: usize::MAX, columns: usize::MAX };

/// Shortest interval: a view is for people.
const INTERVAL_MIN: Duration = Duration::from_millis(100);

/// Ended calls that each node reports: they show at which id a function is slow.
const ENDED: usize = 16;

/// Begins and ends the use of the terminal's second screen, without a cursor.
const BEGIN: &str = "\x1b[?1049h\x1b[?25l";
const END: &str = "\x1b[?25h\x1b[?1049l";

/// Restores the terminal, however the command ends.
struct Screen;

impl Screen {
    fn begin() -> io::Result<Screen> {
        let mut out = io::stdout().lock();
        out.write_all(BEGIN.as_bytes())?;
        out.flush()?;
        Ok(Screen)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        let mut out = io::stdout().lock();
        let _ = out.write_all(END.as_bytes()).and_then(|()| out.flush());
    }
}

/// Runs the sub-command.
pub(super) fn run(args: &TopArgs) -> CommandResult {
    let interval = args.interval.duration().max(INTERVAL_MIN);
    let (wake, woken) = channel::<()>();
    let _interrupt = Interrupt::listen(move || drop(wake))?;
    let asking = Asking::start(&args.peers, args.id, &args.trust)?;
    let screen = io::stdout().is_terminal().then(Screen::begin).transpose()?;
    let begun = Instant::now();
    let (mut before, mut shown) = (None, 0);
    // Ends: after `count` views, or with a signal.
    while args.count.is_none_or(|count| shown < count) {
        let asked = Instant::now();
        let (metrics, calls) =
            (asking.ask(Metrics::call(), interval)?, asking.ask(Recording::call(ENDED), interval)?);
        let now = sample(&asking, &metrics.wait()?, &calls.wait()?, begun);
        paint(&view(before.as_ref(), &now, size(screen.is_some()))?, screen.is_some())?;
        (before, shown) = (Some(now), shown + 1);
        let last = args.count.is_some_and(|count| shown == count);
        let pause = if last { Duration::ZERO } else { interval.saturating_sub(asked.elapsed()) };
        // Nothing is ever sent: a signal drops the other end.
        if woken.recv_timeout(pause) == Err(RecvTimeoutError::Disconnected) {
            break;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// What each node has answered.
fn sample(asking: &Asking, metrics: &Outcome, calls: &Outcome, begun: Instant) -> Sample {
    let read = |data: &[u8]| {
        let text = std::str::from_utf8(data).map_err(|error| error.to_string())?;
        Metrics::parse(text).map_err(|error| error.to_string())
    };
    let nodes = asking.answers(metrics, read).into_iter().collect();
    let recordings: Answers = asking.answers(calls, Recording::parse).into_iter().collect();
    Sample { at: begun.elapsed(), nodes, late: late_calls(&recordings), slowest: slowest_ids(&recordings) }
}

/// Size of the terminal.
fn size(is_terminal: bool) -> Size {
    let size = is_terminal.then(|| rustix::termios::tcgetwinsize(io::stdout()).ok()).flatten();
    // A terminal that does not tell its size says 0.
    let size = size.filter(|size| size.ws_row > 0 && size.ws_col > 0);
    size.map_or(UNBOUNDED, |size| Size { rows: size.ws_row.into(), columns: size.ws_col.into() })
}

/// Writes a view: over the last one, if there is a screen.
fn paint(lines: &[String], over: bool) -> io::Result<()> {
    stdout::write(|out| {
        if !over {
            lines.iter().try_for_each(|line| writeln!(out, "{line}"))?;
            return writeln!(out);
        }
        // Each line is cleared behind its end, and all below the last one: a screen that is cleared first flickers.
        write!(out, "\x1b[H")?;
        for (place, line) in lines.iter().enumerate() {
            let end = if place + 1 < lines.len() { "\r\n" } else { "" };
            write!(out, "{line}\x1b[K{end}")?;
        }
        write!(out, "\x1b[J")
    })
}
