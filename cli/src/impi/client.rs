//! `gpc impi client`: speaks for the hosts of a file, and prints what it has learned of all.

use std::io::{self, Read as _, Write};
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use chained_gpc::PrivateKey;
use chained_gpc::bootstrap::{SECRET_VARIABLE, named_or_variable, read_secret};
use gpc_impi::RelayOptions;
use gpc_impi::book::{Book, Ports};
use gpc_impi::client::{ClientEvent, ClientSettings, Cluster, Learned};
use gpc_impi::hosts_file;
use gpc_impi::session::{Session, SessionOptions};

use super::learned::{LearnedShape, write_table};
use super::methods::{self, Environment};
use super::trace;
use crate::args::impi::{ClientArgs, ClientOutput};
use crate::output::write_json;
use crate::refused::Refused;
use crate::{CommandResult, files, logs, say, stdout};

/// Longest hosts file that comes by standard input, as long as one that is a file.
const TEXT_MAX: u64 = 64 << 20;

/// Runs the sub-command. A signal ends the process at once: its connection closes, and the server tells of it.
pub(super) fn run(args: &ClientArgs) -> CommandResult {
    logs::start_warnings();
    let methods = methods::of_client(args.auth.as_ref(), &Environment::of_this_process())?;
    let mut settings = ClientSettings::new(args.rank, methods, cluster(&args.hosts)?);
    settings.own_labels = !args.plain;
    let began = Instant::now();
    let options = SessionOptions { limit: args.time_limit.into(), relay: relay(args)? };
    let session = Session::join_with(
        &args.server,
        settings,
        options,
        || true,
        |event| match args.trace {
            true => {
                // Nowhere is left to report that standard error is closed. Texts of peers are escaped in events.
                let _ = writeln!(io::stderr().lock(), "{}", trace::client_line(began.elapsed(), event));
            }
            false if trace::is_doubt(event) => say(&event.to_string()),
            false => {}
        },
    )?;
    print(session.learned(), args.output)?;
    session.finish()?;
    if args.trace {
        let line = trace::client_line(began.elapsed(), &ClientEvent::Ended);
        let _ = writeln!(io::stderr().lock(), "{line}");
    }
    Ok(ExitCode::SUCCESS)
}

/// What a node has for the server's broadcasts; a client without the labels of this project needs none.
fn relay(args: &ClientArgs) -> Result<Option<RelayOptions>, Box<dyn std::error::Error + Send + Sync>> {
    if args.plain {
        return Ok(None);
    }
    let file = named_or_variable(args.secret_file.as_deref(), SECRET_VARIABLE);
    let secret = file.map(|path| read_secret(&path)).transpose();
    let secret = secret.map_err(|error| Refused::File(error.to_string()))?;
    let key = match &secret {
        Some(_) => {
            let key = PrivateKey::random()?;
            let public = key.public();
            Some((key, public))
        }
        None => None,
    };
    Ok(Some(RelayOptions { secret, key, insecure: false }))
}

/// The cluster of a hosts file.
fn cluster(path: &Path) -> Result<Cluster, Refused> {
    let text = match path == Path::new("-") {
        true => standard_input().map_err(|error| format!("standard input: {error}")),
        false => files::read_text(path),
    };
    let hosts = hosts_file::parse(&text.map_err(Refused::File)?);
    let mut hosts = hosts.map_err(|error| Refused::File(format!("{}: {error}", path.display())))?;
    hosts_file::number(&mut hosts);
    Ok(Cluster::new(hosts))
}

fn standard_input() -> io::Result<String> {
    let mut text = String::new();
    let read = io::stdin().lock().take(TEXT_MAX + 1).read_to_string(&mut text)?;
    match read as u64 > TEXT_MAX {
        true => Err(io::Error::other(format!("it is longer than {} MiB", TEXT_MAX >> 20))),
        false => Ok(text),
    }
}

fn print(learned: &Learned, output: ClientOutput) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let book = || -> Result<Book, gpc_impi::book::BookError> {
        let book = Book::of(learned, Ports::OwnOrFirst)?;
        book.distinct()?;
        Ok(book)
    };
    match output {
        ClientOutput::Table => stdout::write(|out| write_table(learned, out))?,
        ClientOutput::Json => stdout::write(|out| write_json(&LearnedShape::of(learned), out))?,
        ClientOutput::Peers => {
            let text = book()?.peers_text();
            stdout::write(|out| out.write_all(text.as_bytes()))?;
        }
        ClientOutput::Hosts => {
            let text = book()?.hosts_text();
            stdout::write(|out| out.write_all(text.as_bytes()))?;
        }
    }
    Ok(())
}
