//! Logs: to standard error, and none at all unless the environment asks for them.

use std::env;
use std::io::{self, IsTerminal as _};

use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

/// The variable that says what to log, such as `debug` or `chained_gpc::runtime=trace`. Processes that are started inherit it.
const VARIABLE: &str = "GPC_LOG";

/// Starts logging if [`VARIABLE`] says so.
///
/// # Errors
/// When it says something that is no filter.
pub(super) fn start() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let Some(wanted) = env::var_os(VARIABLE).filter(|wanted| !wanted.is_empty()) else { return Ok(()) };
    let filter = filter(&wanted.to_string_lossy())?;
    // Colours are for a terminal; in a file they would be rubbish.
    let (colours, stderr) = (io::stderr().is_terminal(), io::stderr);
    let lines = tracing_subscriber::fmt::layer().with_ansi(colours).with_writer(stderr);
    Ok(tracing_subscriber::registry().with(lines).with(filter).try_init()?)
}

fn filter(wanted: &str) -> Result<Targets, String> {
    let wrong = |error: &dyn std::fmt::Display| {
        format!("{VARIABLE}={wanted:?}: {error}; write error, warn, info, debug or trace")
    };
    if wanted.contains('[') {
        return Err(wrong(&"nothing here is logged by spans"));
    }
    // Nothing between two commas is nothing wanted.
    let parts: Vec<&str> = wanted.split(',').filter(|part| !part.trim().is_empty()).collect();
    parts.join(",").parse::<Targets>().map_err(|error| wrong(&error))
}

#[cfg(test)]
mod tests {
    use super::*;

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
