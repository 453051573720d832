//! `gpc impi server`: one session, from the address on standard output to the FINI of the last client.

use std::net::{IpAddr, SocketAddr};
use std::process::ExitCode;
use std::time::Duration;

use chained_gpc::bootstrap::host_addresses;
use gpc_impi::serve::{Listener, ServeError};
use gpc_impi::server::{Event, Failure, Settings};

use super::line_writer::LineWriter;
use super::methods::{self, Environment};
use super::trace;
use crate::args::impi::ServerArgs;
use crate::interrupt::Interrupt;
use crate::refused::Refused;
use crate::{CommandResult, FAILED, stdout};

/// Maximum number of warnings without a trace: strangers that connect and leave must not fill a disk.
const PRINTED_MAX: usize = 100;

/// Maximum number of trace lines about connections that come and go: they must not fill a disk either. For 32 clients
/// that connect again and again, this is ample.
const TRACED_MAX: usize = 10_000;

/// Runs the sub-command.
pub(super) fn run(args: &ServerArgs) -> CommandResult {
    let mut settings = settings(args)?;
    settings.check = args.check.into();
    settings.limit = args.time_limit.into();
    let address = SocketAddr::new(args.bind, args.port);
    let listening = Listener::bind(address);
    let listener = listening.map_err(|error| format!("cannot listen at {address}: {error}"))?;
    let printed = reached_at(listener.local_addr()?)?;
    let stopper = listener.stopper();
    let interrupt = Interrupt::listen(move || stopper.stop())?;
    stdout::write(|out| writeln!(out, "{printed}"))?;
    let mut printer = EventPrinter {
        trace: args.trace,
        counted_lines: 0,
        lost: LostClients::default(),
        writer: LineWriter::start()?,
    };
    let served = listener.serve(settings, |at, event| printer.print(at, event));
    let (status, last) = match (served, interrupt.exit_status()) {
        (Ok(()), _) => (ExitCode::SUCCESS, None),
        (Err(error @ ServeError::Stopped(_)), Some(status)) => {
            (ExitCode::from(status), Some(error.to_string()))
        }
        (Err(ServeError::Session(failure)), _) => {
            (ExitCode::from(FAILED), Some(printer.lost.summary(&failure)))
        }
        (Err(error), _) => (ExitCode::from(FAILED), Some(error.to_string())),
    };
    // If standard error is not read, the exit status still reports the result.
    printer.writer.end(last.as_deref().map(said));
    Ok(status)
}

fn settings(args: &ServerArgs) -> Result<Settings, Refused> {
    let environment = Environment::of_this_process();
    let methods = methods::of_server(args.auth.as_ref(), &environment, args.bind.is_loopback())?;
    if Duration::from(args.time_limit).is_zero() {
        return Err("--time-limit 0s leaves no time to join; such as 10m does".into());
    }
    Ok(Settings::new(args.clients, methods))
}

/// Returns the address for clients. If the server listens at all addresses, it is the one on the route to other
/// networks.
fn reached_at(listens: SocketAddr) -> Result<SocketAddr, String> {
    if !listens.ip().is_unspecified() {
        return Ok(listens);
    }
    let addresses = host_addresses();
    let found = of_kind(&addresses, listens.ip()).ok_or_else(|| {
        "this machine does not know by which of its addresses others reach it: name it with --bind".to_owned()
    })?;
    Ok(SocketAddr::new(found, listens.port()))
}

/// Returns the first address that reaches a socket at the wildcard address `all`; a wildcard socket of IPv6 is also
/// reached by IPv4.
fn of_kind(addresses: &[IpAddr], all: IpAddr) -> Option<IpAddr> {
    let same = addresses.iter().find(|address| address.is_ipv4() == all.is_ipv4());
    same.or_else(|| addresses.first().filter(|_| all.is_ipv6())).copied()
}

/// Returns a line of the command itself.
fn said(text: &str) -> String {
    format!("gpc: {}", chained_gpc::Shown(text))
}

/// Prints events to standard error. Texts from peers are escaped in events.
struct EventPrinter {
    trace: bool,
    /// Number of lines that count toward the maximum.
    counted_lines: usize,
    lost: LostClients,
    writer: LineWriter,
}

/// Clients that were lost after all were done. The reason is printed when it happens, which may be long before the end.
#[derive(Debug, Default)]
struct LostClients(Vec<u32>);

impl LostClients {
    /// Returns the message at the end of a failed session.
    fn summary(&self, failure: &Failure) -> String {
        let ranks: Vec<String> = self.0.iter().map(u32::to_string).collect();
        match &ranks[..] {
            [] => failure.to_string(),
            [rank] => format!("client {rank} was lost after all were done, before its FINI"),
            ranks => format!("clients {} were lost after all were done, before their FINI", ranks.join(", ")),
        }
    }
}

impl EventPrinter {
    fn print(&mut self, at: Duration, event: &Event) {
        if let Event::Lost(rank, _) = event {
            self.lost.0.push(*rank);
        }
        let (counted, most, more) = match self.trace {
            true => (trace::is_coming_and_going(event), TRACED_MAX, "more connections are not shown"),
            false if !trace::is_trouble(event) => return,
            false => (true, PRINTED_MAX, "more of this kind is not told; --trace shows everything"),
        };
        // Clients are few, so their loss is always printed.
        let counted = counted && !matches!(event, Event::Lost(..));
        self.counted_lines += usize::from(counted);
        if !counted || self.counted_lines <= most {
            self.writer.line(if self.trace { trace::line(at, event) } else { said(&event.to_string()) });
        } else if self.counted_lines == most + 1 {
            self.writer.line(said(more));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_is_of_the_kind_that_is_listened_at() {
        let ip = |text: &str| text.parse::<IpAddr>().unwrap();
        let both = [ip("10.0.0.1"), ip("fd00::1")];
        assert_eq!(of_kind(&both, ip("0.0.0.0")), Some(both[0]));
        assert_eq!(of_kind(&both, ip("::")), Some(both[1]));
        assert_eq!(of_kind(&both[..1], ip("::")), Some(both[0]));
        assert_eq!(of_kind(&both[1..], ip("0.0.0.0")), None);
        let listens = "127.0.0.3:5".parse().unwrap();
        assert_eq!(reached_at(listens), Ok(listens));
        assert_eq!(
            "[::1]:5".parse().map(|listens| reached_at(listens).unwrap().to_string()),
            Ok("[::1]:5".into())
        );
    }
}
