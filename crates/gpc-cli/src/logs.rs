//! Logs to standard error. Unless the environment selects logs, only nodes that people run write any: warnings about
//! peers that they refuse, with the reason.
//!
//! Logs contain text from peers. Each entry is one bounded line without terminal control sequences, whatever the peers
//! sent.

use std::env;
use std::fmt::{self, Debug};
use std::io::{self, IsTerminal as _};

use tracing::field::Field;
use tracing::{Level, Subscriber};
use tracing_subscriber::field::MakeExt as _;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::fmt::format::{Writer, debug_fn};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use super::Failure;
use super::refused::Refused;
use chained_gpc::wire::Shown;

/// Environment variable that selects the logs, such as `debug` or `chained_gpc::runtime=trace`. Started processes
/// inherit it.
const VARIABLE: &str = "GPC_LOG";

/// Starts logging if [`VARIABLE`] is set.
///
/// # Errors
/// If the value is not a filter.
pub(super) fn start() -> Result<(), Failure> {
    let Some(wanted) = env::var_os(VARIABLE).filter(|wanted| !wanted.is_empty()) else { return Ok(()) };
    let filter = filter(&wanted.to_string_lossy()).map_err(Refused::Usage)?;
    Ok(subscriber(filter, io::stderr().is_terminal(), io::stderr).try_init()?)
}

/// Starts to log warnings, unless the environment selected other logs.
pub(super) fn start_warnings() {
    // Fails if logging has already started, as intended.
    let _ = subscriber(Targets::new().with_default(Level::WARN), io::stderr().is_terminal(), io::stderr)
        .try_init();
}

/// Returns a subscriber that writes lines for people, with colours only for a terminal.
fn subscriber(
    filter: Targets,
    colours: bool,
    to: impl for<'a> MakeWriter<'a> + Send + Sync + 'static,
) -> impl Subscriber + Send + Sync {
    let fields = debug_fn(write_field).delimited(" ");
    let lines = tracing_subscriber::fmt::layer().with_ansi(colours).with_writer(to).fmt_fields(fields);
    tracing_subscriber::registry().with(lines).with(filter)
}

fn write_field(out: &mut Writer<'_>, field: &Field, value: &dyn Debug) -> fmt::Result {
    let text = format!("{value:?}");
    match field.name() {
        "message" => write!(out, "{}", Shown(&text)),
        name => write!(out, "{name}={}", Shown(&text)),
    }
}

fn filter(wanted: &str) -> Result<Targets, String> {
    let wrong = |error: &dyn std::fmt::Display| {
        format!("{VARIABLE}={wanted:?}: {error}; write error, warn, info, debug or trace")
    };
    if wanted.contains('[') {
        return Err(wrong(&"nothing here is logged by spans"));
    }
    // Empty parts between commas are ignored.
    let parts: Vec<&str> = wanted.split(',').filter(|part| !part.trim().is_empty()).collect();
    parts.join(",").parse::<Targets>().map_err(|error| wrong(&error))
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::sync::{Arc, Mutex, PoisonError};

    use tracing::{debug, warn};

    use super::*;
    use chained_gpc::wire::shown::SHOWN_MAX;

    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap_or_else(PoisonError::into_inner).write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// A peer sent a goodbye with the sequences that clear a screen and write another line, and people who followed the
    /// log saw that line.
    #[test]
    fn what_a_peer_says_is_one_line_of_a_log() {
        let lines = Lines::default();
        let made = lines.clone();
        let said = format!("\u{1b}[2J\r\n{}\u{202e}\u{9b}31m", "x".repeat(65_536));
        tracing::subscriber::with_default(
            subscriber(Targets::new().with_default(tracing::Level::TRACE), false, move || made.clone()),
            || {
                debug!(peer = 7, why = said.as_str(), "link lost");
                warn!(text = %said, error = ?said, "{said}");
            },
        );
        let log = String::from_utf8(lines.0.lock().unwrap().clone()).unwrap();
        assert_eq!(log.lines().count(), 2, "{log:.500}");
        assert!(log.contains("link lost peer=7 why=\"\\u{1b}[2J\\r\\nxxx"), "{log:.500}");
        assert!(log.contains(": \\u{1b}[2J\\r\\nxxx"), "{log:.500}");
        assert!(log.chars().all(|c| c == '\n' || !chained_gpc::wire::shown::is_obeyed(c)));
        assert!(log.chars().count() < 4 * SHOWN_MAX + 500, "{} characters", log.chars().count());
    }

    #[test]
    fn what_is_to_be_logged_is_a_filter() {
        assert_eq!(filter("debug").unwrap().to_string(), "debug");
        assert!(filter("chained_gpc=trace,warn").is_ok());
        assert_eq!(filter("debug,").unwrap().to_string(), "debug");
        assert!(filter("[call]=debug").unwrap_err().contains("by spans"));
        let error = filter("a=b=c").unwrap_err();
        assert!(error.starts_with("GPC_LOG=\"a=b=c\": ") && error.contains("write error, warn"), "{error}");
    }
}
