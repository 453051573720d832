//! Prints the messages of a server on a separate thread, so that a slow reader of standard error does not delay the
//! session.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use crate::limits::cannot_start;

/// Maximum number of lines waiting to be written. One read of the server leads to some thousands at most; a line has
/// some hundred bytes.
const LINES_MAX: usize = 16_384;

/// Time that the end waits for the remaining lines: enough for a slow terminal.
const END: Duration = Duration::from_secs(2);

/// Writes lines in order.
#[derive(Debug)]
pub(super) struct LineWriter(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    lines: Mutex<Lines>,
    /// Signals new lines, or the end of lines.
    more: Condvar,
    /// Signals that all lines are written.
    written: Condvar,
}

#[derive(Debug, Default)]
struct Lines {
    waiting: VecDeque<String>,
    /// Lines dropped for lack of room since the last line that had room.
    dropped: u64,
    closed: bool,
    ended: bool,
}

impl LineWriter {
    /// Starts to write to standard error.
    ///
    /// # Errors
    /// If the system provides no thread.
    pub(super) fn start() -> io::Result<LineWriter> {
        LineWriter::to(io::stderr())
    }

    fn to(mut out: impl Write + Send + 'static) -> io::Result<LineWriter> {
        let shared = Arc::new(Shared::default());
        let writes = Arc::clone(&shared);
        let thread = thread::Builder::new().name("gpc-teller".into()).spawn(move || writes.write(&mut out));
        // The thread is not joined, since it may be in a write that never ends.
        thread.map_err(cannot_start("a thread"))?;
        Ok(LineWriter(shared))
    }

    /// Adds a line, without a line break. If too many wait, it is dropped and counted.
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

    /// Adds the last line, if any, which is never dropped, and waits a bounded time until all is written. Returns
    /// whether all is written.
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
        // Ends when no more lines are to come.
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
                // If standard error is closed, nothing is left to report that to.
                let _ = out.write_all(format!("{line}\n").as_bytes());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, Sender, channel};

    use super::*;

    /// A writer that accepts nothing until it is released, and then passes everything on.
    struct Slow(Receiver<()>, Sender<String>);

    impl Write for Slow {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            // An error: the sender is dropped, and nothing holds the writer any more.
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
        let writer = LineWriter::to(Slow(went, told)).unwrap();
        writer.line("first".into());
        go.send(()).unwrap();
        assert_eq!(lines.recv().unwrap(), "first\n");
        // Some lines are taken by the thread, and wait there; the queue holds as many as it has room for.
        let count = 3 * LINES_MAX;
        (0..count).for_each(|number| writer.line(number.to_string()));
        drop(go);
        assert!(writer.end(Some("last".into())));
        let lines: Vec<String> = lines.iter().collect();
        let numbers = lines.iter().filter(|line| line.trim_end().parse::<usize>().is_ok()).count();
        assert_eq!(lines.last().map(String::as_str), Some("last\n"));
        let of = |line: &String| {
            let rest = line
                .strip_prefix("gpc: ")?
                .strip_suffix(" lines were dropped: they are not read fast enough\n");
            rest?.parse::<usize>().ok()
        };
        // Lines may be dropped in several places: before and after the thread takes the waiting ones.
        assert_eq!(numbers + lines.iter().filter_map(of).sum::<usize>(), count);
        assert!((LINES_MAX..=2 * LINES_MAX).contains(&numbers), "{numbers}");
    }
}
