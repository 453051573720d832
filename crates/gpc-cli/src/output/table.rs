//! Writes the replies as a table for people, and a summary.
//!
//! A reply contains foreign bytes: control characters are escaped before they reach the terminal, and long data are cut
//! at its width.

use std::io::{self, IsTerminal as _, Write};

use super::{Content, FirstCause, Missing, Outcome, Repeat, RootPart, shown_us};
use chained_gpc::wire::Shown;
use chained_gpc::wire::shown::is_obeyed;

/// Maximum width of the header column, in characters: the data are more important.
const HEADER_MAX: usize = 32;

/// Minimum width of the data column, in characters, however narrow the terminal.
const DATA_MIN: usize = 20;

/// Space between columns, in characters.
const GAP: usize = 2;

/// Maximum width of a line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Width {
    /// This number of characters.
    Columns(usize),
    /// No maximum: for files and pipes.
    Unlimited,
}

impl Width {
    /// Returns the width of the terminal on standard output, if it is one.
    pub fn of_stdout() -> Width {
        let out = io::stdout();
        if !out.is_terminal() {
            return Width::Unlimited;
        }
        match rustix::termios::tcgetwinsize(&out) {
            Ok(size) if size.ws_col > 0 => Width::Columns(size.ws_col.into()),
            _ => Width::Columns(80),
        }
    }

    fn less(self, columns: usize) -> Width {
        match self {
            Width::Columns(all) => Width::Columns(all.saturating_sub(columns)),
            Width::Unlimited => Width::Unlimited,
        }
    }

    fn at_least(self, columns: usize) -> Width {
        match self {
            Width::Columns(all) => Width::Columns(all.max(columns)),
            Width::Unlimited => Width::Unlimited,
        }
    }
}

/// Writes the replies by id, in the caller's order, and the summary.
///
/// # Errors
/// If the output fails.
pub fn write_table(outcome: &Outcome, width: Width, out: &mut dyn Write) -> io::Result<()> {
    if !outcome.replies.is_empty() {
        write_replies(outcome, width, out)?;
        writeln!(out)?;
    }
    if outcome.lists_missing() {
        write_missing(&outcome.missing, out)?;
        writeln!(out)?;
    }
    write_summary(outcome, out)
}

fn write_replies(outcome: &Outcome, width: Width, out: &mut dyn Write) -> io::Result<()> {
    let replies = &outcome.replies;
    let has_headers = replies.iter().any(|reply| !reply.header.is_empty());
    let headers: Vec<String> = match has_headers {
        true => replies.iter().map(|reply| shown(&reply.header, Width::Columns(HEADER_MAX))).collect(),
        false => vec![],
    };
    let id_width = replies.iter().map(|reply| reply.id.to_string().len()).max().unwrap_or(0).max("id".len());
    let header_width =
        headers.iter().map(|header| header.chars().count()).max().unwrap_or(0).max("header".len());
    let before_data = id_width + GAP + if has_headers { header_width + GAP } else { 0 };
    let data_width = width.less(before_data).at_least(DATA_MIN);

    let mut line = |id: &str, header: &str, data: &str| {
        let text = match has_headers {
            true => format!("{id:>id_width$}  {header:<header_width$}  {data}"),
            false => format!("{id:>id_width$}  {data}"),
        };
        writeln!(out, "{}", text.trim_end())
    };
    line("id", "header", "data")?;
    for (index, reply) in replies.iter().enumerate() {
        let header = headers.get(index).map_or("", String::as_str);
        let numbers = outcome.reduced.as_ref().map(|reduced| Content(reduced.to_string().into_bytes()));
        line(&reply.id.to_string(), header, &shown(numbers.as_ref().unwrap_or(&reply.data), data_width))?;
    }
    Ok(())
}

/// Writes the ids that are not done, each with what is known of it.
fn write_missing(missing: &[Missing], out: &mut dyn Write) -> io::Result<()> {
    let widest = missing.iter().map(|missing| missing.id.to_string().len()).max().unwrap_or(0);
    let id_width = widest.max("id".len());
    let status_width = "unreached".len();
    writeln!(out, "{:>id_width$}  {:<status_width$}  why", "id", "status")?;
    for Missing { id, status, cause } in missing {
        let why = cause.as_ref().map_or(String::new(), |cause| {
            let FirstCause { stage, message, .. } = cause;
            format!("{stage}{}: {}", cause.detail(), Shown(message))
        });
        writeln!(out, "{}", format!("{id:>id_width$}  {status:<status_width$}  {why}").trim_end())?;
    }
    Ok(())
}

fn write_summary(outcome: &Outcome, out: &mut dyn Write) -> io::Result<()> {
    let Outcome { func, tree, nodes, root, level, wall_us, coverage, .. } = outcome;
    let levels = if *level == 1 { "level" } else { "levels" };
    let part = match outcome.root_part {
        RootPart::Listed => String::new(),
        RootPart::Added => format!(", id {root} among them as the root, which --ids leaves out"),
        RootPart::Watching => format!(", called by id {root}, which only watches"),
    };
    let merged = outcome.callback.as_ref().map_or(String::new(), |callback| format!(" and {callback}"));
    writeln!(
        out,
        "{func}{merged} over {nodes} {}{part}: {tree} tree, {level} {levels}",
        if *nodes == 1 { "id" } else { "ids" }
    )?;
    write!(out, "done {} of {nodes}", coverage.done)?;
    for (count, name) in
        [(coverage.failed, "failed"), (coverage.unreached, "unreached"), (coverage.unknown, "unknown")]
    {
        if count > 0 {
            write!(out, ", {name} {count}")?;
        }
    }
    write!(out, " in {}", shown_us(*wall_us))?;
    match level {
        // A call that failed did not pass through all its levels.
        _ if !outcome.is_complete() => writeln!(out)?,
        0 => writeln!(out)?,
        _ => writeln!(out, ", {} per level", shown_us(wall_us / u64::from(*level)))?,
    }
    if outcome.no_reply {
        let callback = outcome.callback.as_ref();
        let merged = callback.map_or(String::new(), |callback| format!("; {callback} got empty replies"));
        writeln!(out, "no replies were requested: an id that is done has executed {func}{merged}")?;
    }
    if let Some(Repeat { calls, median_us, p90_us, p99_us }) = outcome.repeat {
        let [median, p90, p99] = [median_us, p90_us, p99_us].map(shown_us);
        let calls = if calls == 1 { "1 call".into() } else { format!("{calls} calls") };
        writeln!(out, "{calls}: median {median}, p90 {p90}, p99 {p99}")?;
    }
    Ok(())
}

/// Formats bytes in one line, with control characters escaped, and `…` at the end if it is cut.
fn shown(content: &Content, width: Width) -> String {
    let max = match width {
        Width::Columns(max) => max,
        Width::Unlimited => usize::MAX,
    };
    let mut shown = String::new();
    let mut count = 0;
    // Place to cut, such that the `…` still fits.
    let mut cut = 0;
    // A character takes at least one byte, so later bytes would be cut in any case.
    let head = &content.0[..content.0.len().min(max.saturating_mul(4).saturating_add(4))];
    for piece in String::from_utf8_lossy(head).chars().map(escaped) {
        count += piece.chars().count();
        if count > max {
            shown.truncate(cut);
            shown.push('…');
            return shown;
        }
        shown.push_str(&piece);
        if count < max {
            cut = shown.len();
        }
    }
    shown
}

/// Escapes a character that would move the cursor, or change colours or the text direction.
fn escaped(c: char) -> String {
    if is_obeyed(c) { c.escape_default().to_string() } else { c.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn content_is_cut_and_escaped() {
        let cut = |text: &str, max| shown(&Content::from(text), Width::Columns(max));
        assert_eq!(cut("hello", 5), "hello");
        assert_eq!(cut("hello!", 5), "hell…");
        assert_eq!(cut("äöü", 2), "ä…");
        assert_eq!(cut("a\x1b[31m\n", 20), r"a\u{1b}[31m\n");
        assert_eq!(cut("ab\n", 3), "ab…", "an escape is not cut in two");
        assert_eq!(shown(&Content::from("a".repeat(500)), Width::Unlimited).len(), 500);
        assert_eq!(shown(&Content(vec![b'a', 0xff]), Width::Unlimited), "a\u{fffd}");
    }

    proptest! {
        #[test]
        fn nothing_that_a_terminal_obeys_gets_through(
            bytes in prop::collection::vec(any::<u8>(), 0..80),
            max in 1usize..60,
        ) {
            let shown = shown(&Content(bytes), Width::Columns(max));
            prop_assert!(shown.chars().count() <= max);
            prop_assert!(!shown.chars().any(char::is_control));
        }
    }
}
