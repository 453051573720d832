//! `gpc rendezvous show`: prints the progress of a rendezvous.

use std::io::{self, Write};
use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use chained_gpc::Shown;
use gpc_rendezvous::variables::Variables;
use gpc_rendezvous::{Fault, Properties};
use serde::Serialize;

use super::arguments::{client, handle};
use crate::args::rendezvous::{ShowArgs, ShowOutput};
use crate::duration::brief;
use crate::output::write_json;
use crate::{CommandResult, stdout};

/// Runs the sub-command.
pub(super) fn run(args: &ShowArgs) -> CommandResult {
    let variables = Variables::of_this_process()?;
    let handle = handle(&args.at, &variables)?;
    let found = client(&args.access, &variables)?.properties(&handle)?;
    match args.output {
        ShowOutput::Json => stdout::write(|out| write_json(&PropertiesShape::of(&found), out))?,
        ShowOutput::Table => {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            let lines = lines(&found, now.as_millis() as u64);
            stdout::write(|out| write_lines(&lines, out))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn write_lines(lines: &[(&str, String)], out: &mut dyn Write) -> io::Result<()> {
    let width = lines.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    lines.iter().try_for_each(|(name, text)| writeln!(out, "{name:<width$}  {text}"))
}

/// Returns the lines to print; `now` is in milliseconds since 1970.
fn lines(found: &Properties, now: u64) -> Vec<(&'static str, String)> {
    let state = match (&found.failed, found.completed) {
        (Some(fault), _) => format!("failed ({}): {}", fault.kind, Shown(&fault.message)),
        (None, true) => "complete".into(),
        (None, false) => "open".into(),
    };
    let mut lines = vec![
        ("resource", format!("{}…", found.id.short())),
        ("state", state),
        ("level", found.level.to_string()),
        ("registered", format!("{} of {}", found.tally, found.capacity)),
    ];
    if found.tally < found.capacity {
        lines.push(("missing", missing(found)));
    }
    lines.extend([
        ("bytes", found.bytes.to_string()),
        ("waiting", found.waiting.to_string()),
        ("created", format!("{} ago", brief(Duration::from_millis(now.saturating_sub(found.created))))),
        ("expires", format!("in {}", brief(Duration::from_millis(found.expires.saturating_sub(now))))),
    ]);
    lines.extend(found.job.map(|job| ("job", job.short().to_string())));
    lines.extend(found.above.as_ref().map(|above| ("above", Shown(above).to_string())));
    lines
}

/// Returns the missing ranks, as far as they are known.
fn missing(found: &Properties) -> String {
    let ranks: Vec<String> = found.missing.iter().map(u32::to_string).collect();
    let all = u64::from(found.capacity - found.tally);
    let more = all.saturating_sub(ranks.len() as u64);
    match (more, found.missing.len()) {
        (0, _) => ranks.join(", "),
        (more, 0) => format!("{more} ranks"),
        (more, _) => format!("{} and {more} more", ranks.join(", ")),
    }
}

#[derive(Serialize)]
struct PropertiesShape<'a> {
    id: String,
    level: u16,
    capacity: u32,
    tally: u32,
    missing: &'a [u32],
    bytes: u64,
    completed: bool,
    failed: Option<FaultShape<'a>>,
    waiting: usize,
    created: u64,
    expires: u64,
    job: Option<String>,
    above: Option<&'a str>,
}

#[derive(Serialize)]
struct FaultShape<'a> {
    code: &'static str,
    detail: &'a str,
    rank: Option<u64>,
    task: Option<&'a str>,
}

impl PropertiesShape<'_> {
    fn of(found: &Properties) -> PropertiesShape<'_> {
        let fault = |fault: &Fault| fault.kind.code();
        let failed = found.failed.as_ref().map(|failed| FaultShape {
            code: fault(failed),
            detail: &failed.message,
            rank: failed.rank,
            task: failed.task.as_deref(),
        });
        PropertiesShape {
            id: found.id.to_string(),
            level: found.level,
            capacity: found.capacity,
            tally: found.tally,
            missing: &found.missing,
            bytes: found.bytes,
            completed: found.completed,
            failed,
            waiting: found.waiting,
            created: found.created,
            expires: found.expires,
            job: found.job.map(|job| job.to_string()),
            above: found.above.as_deref(),
        }
    }
}

#[cfg(test)]
mod tests {
    use gpc_rendezvous::{FaultKind, ResourceId};

    use super::*;

    fn found() -> Properties {
        Properties {
            id: ResourceId([1; 16]),
            level: 1,
            capacity: 20,
            tally: 2,
            missing: vec![0, 3],
            bytes: 7,
            completed: false,
            failed: None,
            waiting: 1,
            created: 1_000,
            expires: 3_601_000,
            job: None,
            above: None,
        }
    }

    fn text(found: &Properties) -> String {
        let mut out = Vec::new();
        write_lines(&lines(found, 61_000), &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn what_is_known_stands_in_columns() {
        let expected = "resource    01010101…\nstate       open\nlevel       1\nregistered  2 of 20\nmissing     0, 3 and 16 more\nbytes       7\nwaiting     1\ncreated     1m00s ago\nexpires     in 59m00s\n";
        assert_eq!(text(&found()), expected);
    }

    #[test]
    fn what_a_service_says_is_harmless() {
        let fault = Fault::new(FaultKind::ControllerLost, "\u{1b}[2Jgone");
        let shown = text(&Properties { failed: Some(fault), above: Some("\r".into()), ..found() });
        assert!(shown.contains("failed (controller-lost): \\u{1b}[2Jgone"), "{shown}");
        assert!(!shown.contains(['\r', '\u{1b}']));
    }
}
