//! Writes the trace of one call: its critical path, and the ids that take the most time.

use std::io::{self, Write};
use std::time::Duration;

use chained_gpc::runtime::{Trace, TracedId};

use crate::output::{Align, shown_ns, write_columns};

/// Ids that are listed besides the path.
const STRAGGLERS: usize = 5;

/// Ids without times that are named.
const MISSING_MAX: usize = 16;

/// Writes the trace.
///
/// # Errors
/// If the output fails.
pub(crate) fn write(trace: &Trace, out: &mut dyn Write) -> io::Result<()> {
    let path = trace.path();
    writeln!(out, "\ncritical path, {}: each id waited last for the next one", shown(trace.total()))?;
    write_ids(&path, out)?;
    writeln!(out, "\nids that took the most time themselves, with their link")?;
    write_ids(&trace.stragglers(STRAGGLERS), out)?;
    let missing = trace.missing();
    if !missing.is_empty() {
        let named: Vec<String> = missing.iter().take(MISSING_MAX).map(ToString::to_string).collect();
        let more = match missing.len() {
            all if all > MISSING_MAX => format!(", ... ({all} in all)"),
            _ => String::new(),
        };
        writeln!(out, "\nids without times: {}{more}", named.join(", "))?;
    }
    Ok(())
}

fn write_ids(ids: &[&TracedId], out: &mut dyn Write) -> io::Result<()> {
    let columns = ["id", "begins", "queue", "func", "callbacks", "link", "total"];
    let columns = columns.map(|name| (name, Align::Right));
    let lines: Vec<Vec<String>> = ids
        .iter()
        .map(|one| {
            let times = [one.begins, one.queue, one.func, one.callbacks, one.link, one.total];
            let times = times.map(|time| if one.is_known { shown(time) } else { "-".into() });
            std::iter::once(one.id.to_string()).chain(times).collect()
        })
        .collect();
    write_columns(&columns, &lines, out)
}

pub(super) fn shown(time: Duration) -> String {
    shown_ns(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX))
}
