//! A node with few file descriptors, and strangers that hold as many as they get.

use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use chained_gpc::link::{Context, Event, HIWATER, Inbox, Outbox};
use chained_gpc::wire::{CallId, Hello, Message, Request};
use chained_gpc::{Functions, IdList, Tree};
use rustix::process::{Resource, Rlimit, getrlimit, prlimit};
use smallvec::SmallVec;

use crate::processes::joined::Set;
use crate::processes::support::{Gpc, Process, until};

/// Number of descriptors of the node.
const LIMIT: u64 = 256;

/// Number of strangers, each with a connection.
const STRANGERS: u32 = 400;

/// The first id of the strangers.
const UNLISTED: u32 = 1000;

/// Longest wait for any message from a node.
const PATIENCE: Duration = Duration::from_secs(60);

/// A peer that speaks to a node by hand.
struct Stranger {
    stream: UnixStream,
    inbox: Inbox,
    outbox: Outbox,
}

/// Accepts everything.
struct Everything;

impl Context for Everything {
    fn tree(&self, _: u64) -> Option<Tree> {
        None
    }

    fn awaits(&self, _: CallId) -> bool {
        true
    }

    fn reply_max(&self) -> u64 {
        1 << 20
    }
}

/// Incarnation of the next peer that sends a hello.
static RUNS: AtomicU64 = AtomicU64::new(1);

impl Stranger {
    fn connect(set: &Set) -> Stranger {
        let stream = UnixStream::connect(set.socket(1)).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Stranger { stream, inbox: Inbox::new(), outbox: Outbox::new() }
    }

    /// Connects, and sends a hello with this id: an id from [`UNLISTED`] on is in no peers file.
    fn greet(set: &Set, id: u32) -> Stranger {
        let mut stranger = Stranger::connect(set);
        let hello = Hello {
            from: id,
            to: 1,
            // A later run than any before: the node may not have seen the end of the last one yet.
            incarnation: RUNS.fetch_add(1, Ordering::Relaxed),
            generation: 1,
            hiwater: HIWATER,
            job: Default::default(),
            rings: false,
            extents: false,
        };
        stranger.outbox.push_hello(&hello);
        stranger.flush();
        stranger
    }

    fn flush(&mut self) {
        while self.outbox.prepare() {
            let mut parts = SmallVec::new();
            self.outbox.parts(&mut parts);
            let bytes: Vec<u8> = parts.iter().flat_map(|part| part.to_vec()).collect();
            drop(parts);
            self.outbox.mark_written(bytes.len());
            // If the node has closed the connection, the write fails.
            let _ = self.stream.write_all(&bytes);
        }
    }

    /// Returns the next event from the node; `None` if it has closed the connection.
    fn next(&mut self) -> Option<Event> {
        let (mut buffer, mut events) = ([0; 4096], Vec::new());
        while events.is_empty() {
            match self.stream.read(&mut buffer) {
                Ok(0) => return None,
                Ok(count) => self.inbox.feed(&buffer[..count], &Everything, &mut events).unwrap(),
                Err(error) if error.kind() == ErrorKind::ConnectionReset => return None,
                Err(error) => panic!("nothing comes: {error}"),
            }
        }
        Some(events.remove(0))
    }

    fn is_greeted(&mut self) {
        let answer = self.next();
        assert!(matches!(answer, Some(Event::Hello(_))), "{answer:?}");
    }

    /// Calls a built-in function at the node.
    fn ask(&mut self, id: u32, func: &str, header: &str) {
        let func = Functions::new().func(func, |_, _| Ok(())).unwrap().number();
        let limit = 10 * PATIENCE;
        let call = CallId { root: id, sequence: 1 };
        let request = Request {
            func,
            reply_wanted: true,
            limit,
            left: limit,
            header: header.to_owned().into(),
            ..Request::new(call, IdList::range(1..2))
        };
        self.outbox.add_credit(1);
        self.outbox.push(Message::Request(Arc::new(request)));
        self.flush();
    }

    fn is_answered(&mut self) {
        let answer = self.next();
        assert!(matches!(answer, Some(Event::Response(_))), "{answer:?}");
    }
}

/// Starts nodes, of which the first has few descriptors.
fn crowded() -> Set {
    let set = Set::over_unix();
    let limit = Rlimit { current: Some(LIMIT), ..getrlimit(Resource::Nofile) };
    prlimit(Some(first(&set).pid), Resource::Nofile, limit).unwrap();
    set
}

fn first(set: &Set) -> Process {
    set.nodes[0].process()
}

/// Four hundred connections that had sent a hello locked out new roots while they were held, and a root only learned
/// that no reply came.
#[test]
fn who_is_idle_longest_makes_room_for_a_new_root() {
    let set = crowded();
    // An id of the file has been idle longest.
    let mut listed = Stranger::greet(&set, 0);
    listed.is_greeted();
    let mut strangers: Vec<Stranger> = (UNLISTED..UNLISTED + STRANGERS)
        .map(|id| {
            let mut stranger = Stranger::greet(&set, id);
            stranger.is_greeted();
            stranger
        })
        .collect();
    let (mut oldest, mut newest) = (strangers.remove(0), strangers.pop().unwrap());
    match oldest.next() {
        Some(Event::Goodbye(said)) => {
            assert!(said.text.contains("no file descriptor left"), "{}", said.text);
        }
        other => panic!("a goodbye is to come, but: {other:?}"),
    }
    newest.ask(UNLISTED + STRANGERS - 1, "echo", "");
    newest.is_answered();
    listed.ask(0, "echo", "");
    listed.is_answered();
    for root in [7, 8] {
        assert_eq!(set.call(root, "--ids 1-3"), [root.into(), 1, 2, 3]);
    }
    // Silent connections do not lock out any id either.
    let _silent: Vec<Stranger> = (0..STRANGERS).map(|_| Stranger::connect(&set)).collect();
    for root in [7, 8] {
        assert_eq!(set.call(root, "--ids 1-3"), [root.into(), 1, 2, 3]);
    }
    drop(strangers);
    set.end();
}

/// If all links are in use, a stranger is told so, and the ids of the file are served from reserved descriptors.
#[test]
fn where_all_links_are_in_use_a_new_root_is_told_so_and_listed_ids_are_served() {
    let set = crowded();
    let mut strangers: Vec<Stranger> =
        (UNLISTED..UNLISTED + 100).map(|id| Stranger::greet(&set, id)).collect();

    for (id, stranger) in (UNLISTED..).zip(&mut strangers) {
        stranger.is_greeted();
        stranger.ask(id, "sleep", "600s");
    }
    let mut said = None;
    for id in UNLISTED + 100..UNLISTED + STRANGERS {
        let mut stranger = Stranger::greet(&set, id);
        match stranger.next() {
            Some(Event::Hello(_)) => stranger.ask(id, "sleep", "600s"),
            Some(Event::Goodbye(goodbye)) => said = Some(goodbye.text),
            other => panic!("a hello is to come, or a goodbye, but: {other:?}"),
        }
        strangers.push(stranger);
    }
    let said = said.expect("some are too many");
    assert!(said.contains("id 1 has no file descriptor left") && said.contains("ulimit -n 256"), "{said}");
    // In the meantime the node has checked again for an idle link.
    until("an unlisted root is told", || {
        let ended =
            Gpc::start(&format!("call echo --peers {} --id 7 --ids 1 --time-limit 1s", set.peers())).end();
        assert!(
            ended.said().contains("no file descriptor left") || !ended.said().contains("stage link"),
            "{}",
            ended.said()
        );
        ended.said().contains("stage link")
    });
    for _ in 0..3 {
        Stranger::greet(&set, 0).is_greeted();
    }
    assert!(first(&set).ticks().is_some(), "the node is there");
}
