//! `gpc impi server`: one session, from the address on standard output to the FINI of the last client.

use std::io::{self, Write as _};
use std::net::{IpAddr, SocketAddr};
use std::process::ExitCode;
use std::time::Duration;

use chained_gpc::Job;
use chained_gpc::bootstrap::host_addresses;
use gpc_impi::serve::{Listener, ServeError};
use gpc_impi::server::{Event, RelaySettings, Settings};

use super::methods::{self, Environment};
use super::trace;
use crate::args::impi::ServerArgs;
use crate::interrupt::Interrupt;
use crate::refused::Refused;
use crate::{CommandResult, logs, say, stdout};

/// Most troubles that are told without a trace: strangers that come and go must not fill a disk.
const TOLD_MAX: usize = 100;

/// Runs the sub-command.
pub(super) fn run(args: &ServerArgs) -> CommandResult {
    logs::start_warnings();
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
    let mut teller = Teller { trace: args.trace, told: 0 };
    let served = listener.serve(settings, |at, event| teller.tell(at, event));
    match (served, interrupt.exit_status()) {
        (Ok(()), _) => Ok(ExitCode::SUCCESS),
        (Err(ServeError::Stopped), Some(status)) => Ok(ExitCode::from(status)),
        (Err(error), _) => Err(error.into()),
    }
}

fn settings(args: &ServerArgs) -> Result<Settings, Refused> {
    let environment = Environment::of_this_process();
    let methods = methods::of_server(args.auth.as_ref(), &environment, args.bind.is_loopback())?;
    let mut settings = Settings::new(args.clients, methods);
    let relay = args.relay.as_deref().map(|tree| RelaySettings::new(tree, Job::random().0));
    settings.relay = relay.transpose().map_err(|error| Refused::Usage(format!("--relay: {error}")))?;
    Ok(settings)
}

/// The address that clients are given: where it listens everywhere, the one on the route to the rest of the world.
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

/// The first address by which a socket is reached that listens at all of a kind: one of IPv6 is reached by IPv4, too.
fn of_kind(addresses: &[IpAddr], all: IpAddr) -> Option<IpAddr> {
    let same = addresses.iter().find(|address| address.is_ipv4() == all.is_ipv4());
    same.or_else(|| addresses.first().filter(|_| all.is_ipv6())).copied()
}

/// Tells on standard error what happens.
struct Teller {
    trace: bool,
    told: usize,
}

impl Teller {
    fn tell(&mut self, at: Duration, event: &Event) {
        if self.trace {
            // Nowhere is left to report that standard error is closed. Texts of peers are escaped in events.
            let _ = writeln!(io::stderr().lock(), "{}", trace::line(at, event));
            return;
        }
        if !trace::is_trouble(event) || self.told > TOLD_MAX {
            return;
        }
        self.told += 1;
        match self.told {
            ..=TOLD_MAX => say(&event.to_string()),
            _ => say("more of this kind is not told; --trace shows everything"),
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
