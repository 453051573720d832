//! Processes of other users of the machine, which can connect to any abstract name and take any free one. Threads that
//! the system counts as another user's take their part: that needs root.
#![cfg(target_os = "linux")]

use std::fs::{Permissions, set_permissions};
use std::io::{Read as _, Write as _};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::thread;

use chained_gpc::link::{Event, HIWATER, Inbox};
use chained_gpc::runtime::{Address, Builder, Listener};
use chained_gpc::wire::Hello;
use chained_gpc::wire::frame::Kind;
use chained_gpc::wire::head::GoodbyeReason;
use chained_gpc::{Call, CauseKind, Functions, LinkKind, Node, Stage};
use rustix::process::Uid;
use rustix::thread::set_thread_res_uid;

use super::common::{LIMIT, assert_cause, cause_of, ids, limited, who};
use super::raw::{EARLY, Everything, frame};

/// The number of `nobody` on most systems, and never that of this test.
const OTHER: u32 = 65_534;

/// Runs `work` as another user; `None` if this process may not.
fn as_other<T: Send>(work: impl FnOnce() -> T + Send) -> Option<T> {
    thread::scope(|scope| {
        let other = scope.spawn(|| {
            let user = Uid::from_raw(OTHER);
            set_thread_res_uid(user, user, user).is_ok().then(work)
        });
        other.join().expect("it ends")
    })
}

#[allow(clippy::print_stderr, reason = "whoever runs the tests is to know")]
fn skips() -> bool {
    let skips = as_other(|| ()).is_none();
    if skips {
        eprintln!("skipped: needs root");
    }
    skips
}

/// An abstract address, and a path where every user may connect and listen.
fn addresses(folder: &tempfile::TempDir, name: &str) -> [Address; 2] {
    set_permissions(folder.path(), Permissions::from_mode(0o777)).unwrap();
    [LinkKind::Unix.fresh_address(1), Address::Unix(folder.path().join(name))]
}

fn place(address: &Address) -> SocketAddr {
    match address {
        Address::Abstract(name) => SocketAddr::from_abstract_name(name).unwrap(),
        Address::Unix(path) => SocketAddr::from_pathname(path).unwrap(),
        other => panic!("a Unix socket is asked for, and not {other}"),
    }
}

/// A node that listens at this address.
fn listening(builder: Builder, address: &Address) -> Node {
    let node = builder.listener(Listener::bind(address).unwrap()).start().unwrap();
    if let Address::Unix(path) = address {
        set_permissions(path, Permissions::from_mode(0o777)).unwrap();
    }
    node
}

fn hello() -> Vec<u8> {
    let hello = Hello {
        from: 7,
        to: 1,
        incarnation: EARLY,
        generation: 1,
        hiwater: HIWATER,
        job: Default::default(),
        rings: false,
        extents: false,
    };
    frame(Kind::Hello, &hello.emit())
}

/// The first frame that a node sends in answer to another user's hello.
fn answer_to_other(address: &Address) -> Event {
    let said = as_other(|| {
        let mut stream = UnixStream::connect_addr(&place(address)).unwrap();
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        // A node that has closed the connection reads nothing.
        let _ = stream.write_all(&hello());
        let (mut inbox, mut events) = (Inbox::new(), Vec::new());
        let mut buffer = [0; 1024];
        while events.is_empty() {
            let count = stream.read(&mut buffer).unwrap();
            assert!(count > 0, "it says nothing");
            inbox.feed(&buffer[..count], &Everything, &mut events).unwrap();
        }
        events.remove(0)
    });
    said.expect("root may")
}

/// Another user of the machine sent a hello as a deeper id before its parent connected, and forged the result of a
/// call.
#[test]
fn another_user_who_connects_is_told_so_and_not_heard() {
    limited(|| {
        if skips() {
            return;
        }
        let functions = Functions::new();
        let folder = tempfile::tempdir().unwrap();
        for (link, name) in [(LinkKind::Unix, "unix"), (LinkKind::Shm, "shm")] {
            for address in addresses(&folder, name) {
                let node = Node::builder(1).functions(&functions).link(link);
                let node = listening(node, &address);
                let Event::Goodbye(said) = answer_to_other(&address) else { panic!("it is refused") };
                assert_eq!(said.reason, GoodbyeReason::Refused);
                assert!(said.text.contains("65534") && said.text.contains("allows"), "{}", said.text);
                drop(node);
                let allows = Node::builder(1).functions(&functions).link(link).allow_users([OTHER]);
                let _allows = listening(allows, &address);
                assert!(matches!(answer_to_other(&address), Event::Hello(_)));
            }
        }
    });
}

/// A process that takes the name of an ended one would be sent its messages.
#[test]
fn another_user_who_listens_where_an_id_should_gets_not_a_byte() {
    limited(|| {
        if skips() {
            return;
        }
        let functions = Functions::new();
        let who = who(&functions);
        let folder = tempfile::tempdir().unwrap();
        for (link, name) in [(LinkKind::Unix, "unix"), (LinkKind::Shm, "shm")] {
            for address in addresses(&folder, name) {
                let listener = as_other(|| UnixListener::bind_addr(&place(&address)).unwrap()).unwrap();
                let peers = || [(5, address.clone())].into_iter().collect();
                let root = || Node::builder(0).functions(&functions).peers(peers()).link(link);
                let wary = root().start().unwrap();
                let cause = cause_of(wary.call(Call::new(who).ids(ids("0,5"))).unwrap());
                assert_cause(&cause, 5, Stage::Link, "65534");
                assert_eq!(cause.kind, CauseKind::NotAuthorised, "{cause}");
                assert!(cause.message.contains(&address.to_string()), "{cause}");
                let mut got = Vec::new();
                listener.accept().unwrap().0.read_to_end(&mut got).unwrap();
                assert!(got.is_empty(), "{got:?}");
                let trusting = root().allow_users([OTHER]).start().unwrap();
                let _call = trusting.call(Call::new(who).ids(ids("0,5"))).unwrap();
                let mut hello = [0; 8];
                listener.accept().unwrap().0.read_exact(&mut hello).unwrap();
                assert_eq!(hello[4], Kind::Hello as u8);
            }
        }
    });
}
