//! The server over sockets, within one process. Tests of whole programs are in `crates/gpc-cli/tests/integration/impi`.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::TcpStream;
use std::thread;
use std::time::Duration;

use gpc_impi::serve::{Listener, ServeError};
use gpc_impi::server::{Event, Failure, Settings, SettingsError};
use gpc_impi::wire::{Command, Methods, command};

/// A time limit that is long enough for any machine: it passes only if something is broken.
const PATIENCE: Duration = Duration::from_secs(60);

fn listener() -> Listener {
    Listener::bind("127.0.0.1:0".parse().unwrap()).unwrap()
}

fn settings(clients: u32) -> Settings {
    Settings::new(clients, Methods { none: true, key: None })
}

#[test]
fn a_session_is_stopped_before_it_begins_and_while_it_lasts() {
    let early = listener();
    early.stopper().stop();
    assert!(matches!(early.serve(settings(2), |_, _| {}), Err(ServeError::Stopped(_))));
    let listener = listener();
    let (stopper, address) = (listener.stopper(), listener.local_addr().unwrap());
    let late = stopper.clone();
    // It is stopped from its event callback, and from another thread.
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let served = thread::spawn(move || {
        listener.serve(settings(2), |_, event| {
            if matches!(event, Event::Proved(..)) {
                stopper.stop();
            }
        })
    });
    stream.write_all(&command(Command::Auth, &[1])).unwrap();
    let error = served.join().unwrap().unwrap_err();
    assert_eq!(
        error.to_string(),
        "the server was stopped before the session was over: clients 0, 1 did not join; is each started, with this address and its rank?"
    );
    // The session has ended, so this has no effect.
    late.stop();
    // The connection is closed, with or without the answer to AUTH.
    let mut rest = Vec::new();
    let ended = stream.read_to_end(&mut rest).map_err(|error| error.kind());
    assert!(matches!(ended, Ok(0 | 8) | Err(ErrorKind::ConnectionReset)), "{ended:?}");
}

#[test]
fn a_session_that_cannot_be_is_not_served() {
    let served = listener().serve(settings(33), |_, _| {});
    assert!(matches!(served, Err(ServeError::Settings(SettingsError::Clients(33)))));
}

#[test]
fn the_time_goes_on_and_ends_the_session() {
    let mut settings = settings(1);
    settings.limit = Duration::from_millis(50);
    let listener = listener();
    let _silent = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let mut times = Vec::new();
    let served = listener.serve(settings, |at, _| times.push(at));
    assert!(matches!(served, Err(ServeError::Session(Failure::Late { .. }))));
    assert!(!times.is_empty() && times.is_sorted());
}

#[test]
fn a_client_that_says_everything_and_closes_its_side_gets_everything() {
    let listener = listener();
    let address = listener.local_addr().unwrap();
    let served = thread::spawn(move || listener.serve(settings(2), |_, _| {}));
    let clients: Vec<TcpStream> = (0..2)
        .map(|rank| {
            let mut client = TcpStream::connect(address).unwrap();
            client.set_read_timeout(Some(PATIENCE)).unwrap();
            let said = [command(Command::Auth, &[1]), command(Command::Impi, &[rank])].concat();
            let ends = [command(Command::Done, &[]), command(Command::Fini, &[])].concat();
            client.write_all(&[said, ends].concat()).unwrap();
            client.shutdown(std::net::Shutdown::Write).unwrap();
            client
        })
        .collect();
    for mut client in clients {
        let mut got = Vec::new();
        client.read_to_end(&mut got).unwrap();
        // AUTH, IMPI, and 14 labels without values.
        assert!(got.len() == 8 + 12 + 14 * 16 + 8 && got.ends_with(b"DONE\0\0\0\0"), "{got:?}");
    }
    served.join().unwrap().unwrap();
}
