//! `gpc impi client`: takes part for the hosts of a file, and prints what it has learned of all clusters.

use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Instant;

use gpc_impi::client::{ClientEvent, ClientSettings, Cluster};
use gpc_impi::hosts_file;
use gpc_impi::session::Session;

use super::command::Command;
use super::methods::{self, Environment};
use super::shown::show;
use super::trace;
use crate::args::impi::{ClientArgs, Value, Values};
use crate::files::{read_text, shown};
use crate::refused::Refused;
use crate::{CommandResult, logs, say};

/// Default number of packets after which a host acknowledges, and of unacknowledged packets: those of
/// [`gpc_impi::client::Host::new`].
const ACKMARK: u32 = 16;
const HIWATER: u32 = 32;

/// Runs the sub-command. Without a program to run, a signal ends the process at once: its connection closes, and the
/// server reports that.
pub(super) fn run(args: &ClientArgs) -> CommandResult {
    logs::start_warnings();
    if args.time_limit.duration().is_zero() {
        return Err(Refused::from("--time-limit 0s leaves no time to join; such as 10m does").into());
    }
    let methods = methods::of_client(args.auth.as_ref(), &Environment::of_this_process())?;
    let mut settings = ClientSettings::new(args.rank, methods, cluster(args)?);
    settings.own_labels = !args.plain;
    let began = Instant::now();
    let session = Session::join(&args.server, settings, args.time_limit.into(), |event| match args.trace {
        true => {
            // If standard error is closed, nothing is left to report that to. Texts from peers are escaped in events.
            let _ = writeln!(io::stderr().lock(), "{}", trace::client_line(began.elapsed(), event));
        }
        false if trace::is_doubt(event) => say(&event.to_string()),
        false => {}
    })?;
    show(session.learned(), args)?;
    let status = match args.command.split_first() {
        Some((program, arguments)) => Command::start(program, arguments)?.wait()?,
        None => ExitCode::SUCCESS,
    };
    let finished = session.finish();
    // If the program has failed, its exit status is that of the command.
    match finished {
        Err(error) if status == ExitCode::SUCCESS => return Err(error.into()),
        Err(error) => say(&error.to_string()),
        Ok(()) => {}
    }
    if args.trace {
        let line = trace::client_line(began.elapsed(), &ClientEvent::Ended);
        let _ = writeln!(io::stderr().lock(), "{line}");
    }
    Ok(status)
}

/// Returns the cluster of a hosts file, with the values from the arguments.
fn cluster(args: &ClientArgs) -> Result<Cluster, Refused> {
    let (ackmark, hiwater) = flow(&args.values)?;
    let path = &args.hosts;
    let hosts = hosts_file::parse(&read_text(path, "hosts file").map_err(Refused::File)?);
    let mut hosts = hosts.map_err(|error| Refused::File(format!("{}: {error}", shown(path))))?;
    hosts_file::number(&mut hosts, args.rank);
    for host in &mut hosts {
        (host.ackmark, host.hiwater) = (ackmark, hiwater);
    }
    let mut cluster = Cluster::new(hosts);
    cluster.datalen = args.values.datalen.0;
    cluster.tag_ub = args.values.tag_ub.0;
    cluster.coll_xsize = args.values.coll_xsize.0;
    cluster.coll_maxlinear = args.values.coll_maxlinear.0;
    Ok(cluster)
}

/// Returns ackmark and hiwater; the default of each fits the other.
fn flow(values: &Values) -> Result<(Option<u32>, Option<u32>), Refused> {
    let said = |value: Option<Value<u32>>| value.and_then(|value| value.0);
    let (ackmark, hiwater) = (said(values.ackmark), said(values.hiwater));
    if let (Some(ackmark), Some(hiwater)) = (ackmark, hiwater)
        && ackmark > hiwater
    {
        return Err(Refused::Usage(format!(
            "--ackmark {ackmark} is more than --hiwater {hiwater}: a host would wait for acknowledgements that never come"
        )));
    }
    let least = hiwater.map_or(ACKMARK, |hiwater| hiwater.min(ACKMARK));
    let most = ackmark.map_or(HIWATER, |ackmark| ackmark.max(HIWATER));
    Ok((
        values.ackmark.map_or(Some(least), |value| value.0),
        values.hiwater.map_or(Some(most), |value| value.0),
    ))
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::args::impi::{ImpiArgs, ImpiCommand};
    use crate::args::{Args, Command};

    fn values(words: &[&str]) -> Result<(Option<u32>, Option<u32>), String> {
        let mut line = vec!["gpc", "impi", "client", "0", "server:1", "--hosts", "f"];
        line.extend(words);
        let Ok(Args { command: Command::Impi(ImpiArgs { command: ImpiCommand::Client(args) }) }) =
            Args::try_parse_from(line)
        else {
            panic!("{words:?}")
        };
        flow(&args.values).map_err(|error| error.to_string())
    }

    #[test]
    fn ackmark_and_hiwater_fit_each_other() {
        assert_eq!(values(&[]), Ok((Some(16), Some(32))));
        assert_eq!(values(&["--ackmark", "100"]), Ok((Some(100), Some(100))));
        assert_eq!(values(&["--hiwater", "8"]), Ok((Some(8), Some(8))));
        assert_eq!(values(&["--ackmark", "none", "--hiwater", "8"]), Ok((None, Some(8))));
        assert_eq!(values(&["--ackmark", "100", "--hiwater", "none"]), Ok((Some(100), None)));
        assert_eq!(values(&["--ackmark", "3", "--hiwater", "3"]), Ok((Some(3), Some(3))));
        let error = values(&["--ackmark", "4", "--hiwater", "3"]).unwrap_err();
        assert!(error.contains("--ackmark 4 is more than --hiwater 3"), "{error}");
    }
}
