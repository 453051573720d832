//! What a server says on standard error while it serves: from a thread of its own, so that whoever does not read that holds up no session.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use crate::limits::cannot_start;

/// Lines that wait to be written. One read of the server leads to some thousands at most; a line has some hundred bytes.
const LINES_MAX: usize = 16_384;

/// How long the end waits for what is left to be written: long enough for a slow terminal.
const END: Duration = Duration::from_secs(2);

/// Writes lines in order.
#[derive(Debug)]
pub(super) struct Teller(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    lines: Mutex<Lines>,
    /// There are more lines, or no more will come.
    more: Condvar,
    /// All is written.
    written: Condvar,
}

#[derive(Debug, Default)]
struct Lines {
    waiting: VecDeque<String>,
    /// Lines for which there was no room, since the last one that had some.
    dropped: u64,
    closed: bool,
    ended: bool,
}

impl Teller {
    /// To standard error.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub(super) fn start() -> io::Result<Teller> {
        Teller::to(io::stderr())
    }

    fn to(mut out: impl Write + Send + 'static) -> io::Result<Teller> {
        let shared = Arc::new(Shared::default());
        let writes = Arc::clone(&shared);
        let thread = thread::Builder::new().name("gpc-teller".into()).spawn(move || writes.write(&mut out));
        // Nobody waits for it: it may be in a write that never ends.
        thread.map_err(cannot_start("a thread"))?;
        Ok(Teller(shared))
    }

    /// A line, without a line break. It is dropped, and counted, where too many wait.
    pub(super) fn line(&self, line: String) {
        let mut lines = self.0.lock();
        if lines.waiting.len() >= LINES_MAX {
            lines.dropped += 1;
            return;
        }
        lines.say_dropped();
        lines.waiting.push_back(line);
        self.0.more.notify_one();
    }

    /// The last line, if there is one, which is not dropped; waits until all is written, but not for ever. Whether it is.
    pub(super) fn end(self, last: Option<String>) -> bool {
        let mut lines = self.0.lock();
        lines.say_dropped();
        lines.waiting.extend(last);
        lines.closed = true;
        self.0.more.notify_one();
        let waited = self.0.written.wait_timeout_while(lines, END, |lines| !lines.ended);
        let (lines, _) = waited.unwrap_or_else(PoisonError::into_inner);
        lines.ended
    }
}

impl Lines {
    fn say_dropped(&mut self) {
        if self.dropped > 0 {
            let dropped = std::mem::take(&mut self.dropped);
            self.waiting
                .push_back(format!("gpc: {dropped} lines were dropped: they are not read fast enough"));
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Lines> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self, out: &mut impl Write) {
        // Ends: when no more will come.
        loop {
            let waits = |lines: &mut Lines| lines.waiting.is_empty() && !lines.closed;
            let lines = self.more.wait_while(self.lock(), waits);
            let mut lines = lines.unwrap_or_else(PoisonError::into_inner);
            if lines.waiting.is_empty() {
                lines.ended = true;
                return self.written.notify_all();
            }
            let some = std::mem::take(&mut lines.waiting);
            drop(lines);
            for line in some {
                // Nowhere is left to report that standard error is closed.
                let _ = out.write_all(format!("{line}\n").as_bytes());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, Sender, channel};

    use super::*;

    /// Takes nothing until it is told to; then passes everything on.
    struct Slow(Receiver<()>, Sender<String>);

    impl Write for Slow {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            // An error: whoever held it up has gone.
            let _ = self.0.recv();
            self.1.send(String::from_utf8(bytes.to_vec()).unwrap()).unwrap();
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn what_is_not_read_is_dropped_and_counted_and_the_last_line_comes() {
        let (go, went) = channel();
        let (told, lines) = channel();
        let teller = Teller::to(Slow(went, told)).unwrap();
        teller.line("first".into());
        go.send(()).unwrap();
        assert_eq!(lines.recv().unwrap(), "first\n");
        // Some of them are taken, and wait to be written; as many as there is room for wait as well.
        let count = 3 * LINES_MAX;
        (0..count).for_each(|number| teller.line(number.to_string()));
        drop(go);
        assert!(teller.end(Some("last".into())));
        let lines: Vec<String> = lines.iter().collect();
        let numbers = lines.iter().filter(|line| line.trim_end().parse::<usize>().is_ok()).count();
        assert_eq!(lines.last().map(String::as_str), Some("last\n"));
        let of = |line: &String| {
            let rest = line
                .strip_prefix("gpc: ")?
                .strip_suffix(" lines were dropped: they are not read fast enough\n");
            rest?.parse::<usize>().ok()
        };
        // They may have been dropped in several places: before those that wait to be written are taken, and afterwards.
        assert_eq!(numbers + lines.iter().filter_map(of).sum::<usize>(), count);
        assert!((LINES_MAX..=2 * LINES_MAX).contains(&numbers), "{numbers}");
    }
}
