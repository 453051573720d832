//! `gpc impi client`: speaks for the hosts of a file, and prints what it has learned of all.

use std::io::{self, Read as _, Write};
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use gpc_impi::book::Book;
use gpc_impi::client::{ClientEvent, ClientSettings, Cluster, Learned};
use gpc_impi::hosts_file;
use gpc_impi::session::Session;
use gpc_impi::wire::Version;

use super::learned::{LearnedShape, write_table};
use super::methods::{self, Environment};
use super::trace;
use crate::args::impi::{ClientArgs, ClientOutput, Value, Values};
use crate::output::write_json;
use crate::refused::Refused;
use crate::{CommandResult, files, logs, say, stdout};

/// Longest hosts file that comes by standard input, as long as one that is a file.
const TEXT_MAX: u64 = 64 << 20;

/// After how many packets a host acknowledges, and how many may be unacknowledged, where nothing is said: those of [`gpc_impi::client::Host::new`].
const ACKMARK: u32 = 16;
const HIWATER: u32 = 32;

/// Runs the sub-command. A signal ends the process at once: its connection closes, and the server tells of it.
pub(super) fn run(args: &ClientArgs) -> CommandResult {
    logs::start_warnings();
    let methods = methods::of_client(args.auth.as_ref(), &Environment::of_this_process())?;
    let mut settings = ClientSettings::new(args.rank, methods, cluster(args)?);
    settings.own_labels = !args.plain;
    let began = Instant::now();
    let session = Session::join(&args.server, settings, args.time_limit.into(), |event| match args.trace {
        true => {
            // Nowhere is left to report that standard error is closed. Texts of peers are escaped in events.
            let _ = writeln!(io::stderr().lock(), "{}", trace::client_line(began.elapsed(), event));
        }
        false if trace::is_doubt(event) => say(&event.to_string()),
        false => {}
    })?;
    show(session.learned(), args)?;
    session.finish()?;
    if args.trace {
        let line = trace::client_line(began.elapsed(), &ClientEvent::Ended);
        let _ = writeln!(io::stderr().lock(), "{line}");
    }
    Ok(ExitCode::SUCCESS)
}

/// The cluster of a hosts file, with the values that are said of it.
fn cluster(args: &ClientArgs) -> Result<Cluster, Refused> {
    let (ackmark, hiwater) = flow(&args.values)?;
    let path = &args.hosts;
    let text = match path == Path::new("-") {
        true => standard_input().map_err(|error| format!("standard input: {error}")),
        false => files::read_text(path),
    };
    let hosts = hosts_file::parse(&text.map_err(Refused::File)?);
    let mut hosts = hosts.map_err(|error| Refused::File(format!("{}: {error}", path.display())))?;
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

/// ackmark and hiwater: where one is not said, it fits the other.
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

fn standard_input() -> io::Result<String> {
    let mut text = String::new();
    let read = io::stdin().lock().take(TEXT_MAX + 1).read_to_string(&mut text)?;
    match read as u64 > TEXT_MAX {
        true => Err(io::Error::other(format!("it is longer than {} MiB", TEXT_MAX >> 20))),
        false => Ok(text),
    }
}

/// Writes the files, then prints.
fn show(learned: &Learned, args: &ClientArgs) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let of_all = matches!(args.output, ClientOutput::Peers | ClientOutput::Hosts);
    if of_all || args.peers_out.is_some() || args.hosts_out.is_some() {
        let book = Book::of(learned, args.ports.into())?;
        book.distinct()?;
        left_out(learned, &book).iter().for_each(|text| say(text));
        for (path, text) in [(&args.peers_out, book.peers_text()), (&args.hosts_out, book.hosts_text())] {
            path.as_deref().map_or(Ok(()), |path| files::write_text(path, &text)).map_err(Refused::File)?;
        }
        match args.output {
            ClientOutput::Peers => stdout::write(|out| out.write_all(book.peers_text().as_bytes()))?,
            ClientOutput::Hosts => stdout::write(|out| out.write_all(book.hosts_text().as_bytes()))?,
            ClientOutput::Table | ClientOutput::Json => {}
        }
    }
    match args.output {
        ClientOutput::Table => stdout::write(|out| write_table(learned, out))?,
        ClientOutput::Json => stdout::write(|out| write_json(&LearnedShape::of(learned), out))?,
        ClientOutput::Peers | ClientOutput::Hosts => {}
    }
    Ok(())
}

/// What is said where files of peers and hosts do not have all processes, or name some that are no nodes of this project.
fn left_out(learned: &Learned, book: &Book) -> Vec<String> {
    let listed = |client: u32| book.entries.iter().filter(|entry| entry.who.client == client).count();
    let mut missing = Vec::new();
    let mut foreign = Vec::new();
    for (client, cluster) in (0..).zip(&learned.clusters) {
        let (listed, all) = (listed(client), cluster.procs());
        if listed < all {
            missing.push(format!("{} of {all} of client {client}", all - listed));
        }
        // Whoever knows the labels of this project has named its version.
        if listed > 0 && client != learned.rank && !cluster.versions.contains(&Version::OWN) {
            foreign.push(client.to_string());
        }
    }
    let mut said = Vec::new();
    if !missing.is_empty() {
        said.push(format!(
            "processes whose ports nobody has said are left out of files of peers and hosts: {}. The first of each host is there, at the port of its host; --ports plus-rank counts on from that, where all have agreed on it",
            missing.join(", ")
        ));
    }
    if !foreign.is_empty() {
        said.push(format!(
            "files of peers and hosts have processes of clients that have not named gpc's version: {}. Those of another MPI are no nodes, and no call reaches them",
            foreign.join(", ")
        ));
    }
    said
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
