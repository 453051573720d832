//! `gpc rendezvous serve`: a service over HTTP, until a signal stops it.

use std::process::ExitCode;
use std::sync::mpsc;
use std::time::Duration;

use chained_gpc::Secret;
use gpc_rendezvous::http::{Options, Server, Tls};
use gpc_rendezvous::store::FileStore;
use gpc_rendezvous::token::ServiceToken;
use gpc_rendezvous::{Limits, Store};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::private::TokenFile;
use super::{private, token};
use crate::args::rendezvous::ServeArgs;
use crate::interrupt::Interrupt;
use crate::{CommandResult, Failure, files, logs, say, stdout};

/// Time that requests in progress get when the service is stopped.
const END: Duration = Duration::from_secs(3);

/// Descriptors that are not connections: the store, the listener, connections to services above.
const OTHERS: u64 = 256;

/// Runs the sub-command.
pub(super) fn run(args: &ServeArgs) -> CommandResult {
    logs::start_warnings();
    let (wake, woken) = mpsc::channel();
    let _interrupt = Interrupt::listen(move || {
        // The receiver lives as long as the handler.
        let _ = wake.send(());
    })?;
    private::remove_left();
    let (token, file) = tokens(args)?;
    let mut options = Options::new(args.listen);
    let page_file = match &token {
        Some(_) => None,
        None => {
            let page = ServiceToken::of(&Secret::random()?);
            let file = TokenFile::somewhere(&page)?;
            options.page_token = Some(page);
            Some(file)
        }
    };
    options.url = args.url.as_ref().map(|url| url.as_str().to_owned());
    options.token = token;
    options.insecure = args.insecure;
    options.limits = limits(args);
    options.ca = args.ca.clone();
    options.above = args.above.clone();
    if let Some(connections) = args.connections_max {
        options.connections = connections as usize;
    }
    options.connections = provided(options.connections);
    options.tls = args.tls_cert.clone().zip(args.tls_key.clone()).map(|(cert, key)| Tls { cert, key });
    if let Some(path) = &args.store {
        files::outlive_size_limit()?;
        options.store = Some(Box::new(FileStore::open(path)?) as Box<dyn Store>);
    }
    let server = Server::start(options)?;
    stdout::write(|out| writeln!(out, "{}", server.url()))?;
    if let Some(file) = page_file.as_ref() {
        say(&format!("the page of the service asks for a token, which is in {}", file.path().display()));
    }
    // Ends with a signal. The sender lives as long as the handler.
    let _ = woken.recv();
    server.shutdown(END);
    drop((file, page_file));
    Ok(ExitCode::SUCCESS)
}

/// Raises the limit so that this process can have a descriptor for each connection; returns the number of connections
/// that the system allows.
fn provided(connections: usize) -> usize {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let needed = connections as u64 + OTHERS;
    let most = maximum.map_or(needed, |maximum| maximum.min(needed));
    if current.is_none_or(|current| current >= needed) {
        return connections;
    }
    let raised = setrlimit(Resource::Nofile, Rlimit { current: Some(most), maximum }).is_ok();
    let descriptors = if raised { most } else { current.unwrap_or(most) };
    if descriptors == needed {
        return connections;
    }
    let fewer = descriptors.saturating_sub(OTHERS).max(1);
    say(&format!(
        "at most {fewer} connections at a time, not {connections}: this process may have {descriptors} descriptors; for more raise the hard limit (`ulimit -Hn`)"
    ));
    usize::try_from(fewer).unwrap_or(connections)
}

/// Returns the token that clients need, and the file where processes started here find it.
fn tokens(args: &ServeArgs) -> Result<(Option<ServiceToken>, Option<TokenFile>), Failure> {
    let of_secret = match args.insecure {
        true => None,
        false => token::of_secret(args.secret_file.as_deref())?,
    };
    let Some(path) = &args.token_file else { return Ok((of_secret, None)) };
    let token = match of_secret {
        Some(token) => token,
        // Another run left the token together with handles; tasks still have both.
        None if path.exists() => token::read(path)?,
        None => ServiceToken::of(&Secret::random()?),
    };
    // A store outlives this run, and its handles are useful only with this token.
    let file = TokenFile::at(path, &token, args.store.is_some())?;
    Ok((Some(token), Some(file)))
}

fn limits(args: &ServeArgs) -> Limits {
    let mut limits = Limits::default();
    let set = |limit: &mut u64, to: Option<u64>| *limit = to.unwrap_or(*limit);
    set(&mut limits.data, args.data_max.map(|size| size.0));
    set(&mut limits.held, args.held_max.map(|size| size.0));
    set(&mut limits.lifetime_max, args.lifetime_max.map(|span| span.duration().as_millis() as u64));
    limits.lifetime = limits.lifetime.min(limits.lifetime_max);
    limits.capacity = args.capacity_max.unwrap_or(limits.capacity);
    limits.resources = args.resources_max.map_or(limits.resources, |most| most as usize);
    limits.waiting = args.waiting_max.map_or(limits.waiting, |most| most as usize);
    limits
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(clap::Parser)]
    struct Serve {
        #[command(flatten)]
        args: ServeArgs,
    }

    fn limits_of(words: &str) -> Limits {
        let words = std::iter::once("serve").chain(words.split_whitespace());
        limits(&<Serve as clap::Parser>::try_parse_from(words).unwrap().args)
    }

    #[test]
    fn limits_are_those_of_the_options() {
        assert_eq!(limits_of(""), Limits::default());
        let found =
            limits_of("--data-max 7 --held-max 8 --capacity-max 9 --resources-max 10 --waiting-max 11");
        assert_eq!((found.data, found.held, found.capacity), (7, 8, 9));
        assert_eq!((found.resources, found.waiting), (10, 11));
        let Limits { lifetime, lifetime_max, .. } = Limits::default();
        assert_eq!((found.lifetime, found.lifetime_max), (lifetime, lifetime_max));
        // The default lifetime is within the limit.
        let found = limits_of("--lifetime-max 90s");
        assert_eq!((found.lifetime, found.lifetime_max), (90_000, 90_000));
        let found = limits_of("--lifetime-max 2h");
        assert_eq!((found.lifetime, found.lifetime_max), (lifetime, 7_200_000));
    }
}
