//! Slow links: long data take time there, but no peer is given up because of that, and no other message has to wait for
//! them.
//!
//! These tests take seconds, since they check times. Every bound allows for a busy machine. Real links of a limited
//! rate are tested by `.ci/system`.
#![cfg(target_os = "linux")]
#![allow(
    clippy::disallowed_methods,
    reason = "a wire has a rate, and what is held here is how long things take on it"
)]

mod wire;

use std::process::{Child, Command};
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use chained_gpc::Placement;
use chained_gpc::runtime::Listener;
use chained_gpc::runtime::{Address, Peers};
use chained_gpc::{
    Call, CallError, CallHandle, FuncHandle, Functions, Heartbeat, LinkKind, Node, Outcome, Stage,
};

use gpc_test_support::ports;
use rustix::process::{Pid, Signal, kill_process};
use wire::Wire;

/// A third of the default, with rates three times as high as the documented ones.
const DEAD_AFTER: Duration = Duration::from_secs(3);

/// Delay that a busy machine may add.
const SLACK: Duration = Duration::from_secs(3);

/// No call here takes half of this time.
const LIMIT: Duration = Duration::from_secs(60);

/// Serializes the tests, since each needs an idle machine.
static ALONE: Mutex<()> = Mutex::new(());

/// Id 0, and id 1 at the other end of a wire.
struct Pair {
    root: Node,
    _other: Node,
    wire: Wire,
    length: FuncHandle,
    small: FuncHandle,
    fill: FuncHandle,
}

impl Pair {
    fn over(address: Address, link: LinkKind, bytes_per_s: u64) -> Pair {
        let functions = Functions::new();
        let length = functions.at(Placement::Inline).func("length", |request, reply| {
            reply.data = request.data().len().to_string().into_bytes();
            Ok(())
        });
        let small = functions.at(Placement::Inline).func("small", |_, _| Ok(()));
        let fill = functions.at(Placement::Inline).func("fill", |request, reply| {
            let bytes: usize = String::from_utf8_lossy(request.header()).parse().map_err(|_| "a number")?;
            reply.data = if request.me() == 1 { vec![7; bytes] } else { Vec::new() };
            Ok(())
        });
        let heartbeat = Some(Heartbeat::dead_after(DEAD_AFTER));
        let builder = |id| Node::builder(id).functions(&functions).heartbeat(heartbeat).link(link);
        let other = builder(1).listener(Listener::bind(&address).unwrap()).start().unwrap();
        let wire = Wire::to(other.address().unwrap(), bytes_per_s).unwrap();
        let peers: Peers = [(1, wire.address.clone())].into_iter().collect();
        let root = builder(0).peers(peers).start().unwrap();
        let [length, small, fill] = [length, small, fill].map(Result::unwrap);
        Pair { root, _other: other, wire, length, small, fill }
    }

    fn tcp(bytes_per_s: u64) -> Pair {
        Pair::over("127.0.0.1:0".parse().unwrap(), LinkKind::Tcp, bytes_per_s)
    }

    fn call(&self, func: FuncHandle) -> Call {
        Call::new(func).ids(0..2).limit(LIMIT)
    }

    fn long_data(&self, bytes: usize) -> CallHandle {
        self.root.call(self.call(self.length).data(vec![1; bytes])).unwrap()
    }

    /// Returns the time of a small call.
    fn small_call(&self) -> Duration {
        let begun = Instant::now();
        self.root.call(self.call(self.small)).unwrap().wait().unwrap();
        begun.elapsed()
    }
}

fn end_of(mut handle: CallHandle) -> Result<Outcome, CallError> {
    handle.wait_for(LIMIT).expect("the call ends")
}

/// Of a megabyte at 20 kB/s, or six at 200 kB/s, all was in the socket when the first PING was queued behind it. Ten
/// seconds later the peer was given up, while it was still reading.
#[test]
fn long_data_on_a_slow_link_are_no_silence() {
    let _alone = ALONE.lock();
    for (bytes_per_s, bytes) in [(60_000, 600_000), (300_000, 3_000_000)] {
        let pair = Pair::tcp(bytes_per_s);
        let outcome = end_of(pair.long_data(bytes)).unwrap_or_else(|error| panic!("{bytes_per_s}: {error}"));
        let replies = outcome.replies().unwrap();
        assert_eq!(replies[1].data, bytes.to_string().into_bytes());
    }
}

#[test]
fn a_long_reply_on_a_slow_link_is_no_silence() {
    let _alone = ALONE.lock();
    let pair = Pair::tcp(60_000);
    let outcome = end_of(pair.root.call(pair.call(pair.fill).header("600000")).unwrap()).unwrap();
    assert_eq!(outcome.replies().unwrap()[1].data.len(), 600_000);
}

/// The same through a Unix socket, whose buffered data are on the reader's side.
#[test]
fn a_slow_reader_of_a_unix_socket_is_not_given_up() {
    let _alone = ALONE.lock();
    let folder = tempfile::tempdir().unwrap();
    let pair = Pair::over(Address::Unix(folder.path().join("node")), LinkKind::Unix, 300_000);
    assert_eq!(end_of(pair.long_data(3_000_000)).unwrap().ids().len(), 2);
}

/// The opposite case: bytes that the wire still accepts for a while count as a heartbeat, but no longer than that.
#[test]
fn a_peer_that_is_cut_off_under_long_data_is_found() {
    let _alone = ALONE.lock();
    let pair = Pair::tcp(300_000);
    let long = pair.long_data(30_000_000);
    pair.wire.wait_for(600_000);
    pair.wire.cut();
    let cut = Instant::now();
    let Err(CallError::Failed(failure)) = end_of(long) else { panic!("nobody can have it all") };
    let found = cut.elapsed();
    assert_eq!((failure.cause().id, failure.cause().stage), (1, Stage::Link), "{failure}");
    assert!(failure.cause().message.contains("no heartbeat"), "{failure}");
    assert!(found < DEAD_AFTER + SLACK, "{found:?}");
}

/// With segments of 256 KiB, two of them ahead of the socket and up to 4 MiB in it, a small call beside long data took
/// up to five seconds on a link of 1 MB/s.
#[test]
fn small_calls_do_not_wait_for_long_data_on_a_slow_link() {
    let _alone = ALONE.lock();
    let pair = Pair::tcp(1_000_000);
    let mut alone: Vec<Duration> = (0..20).map(|_| pair.small_call()).collect();
    alone.sort();
    let down = || pair.long_data(4_000_000);
    let up = || pair.root.call(pair.call(pair.fill).header("4000000")).unwrap();
    for (way, long) in [("down", &down as &dyn Fn() -> CallHandle), ("up", &up)] {
        let mut long = long();
        let mut beside = Vec::new();
        while long.test().is_none() {
            beside.push(pair.small_call());
            thread::sleep(Duration::from_millis(5));
        }
        beside.sort();
        let (median, most) = (beside[beside.len() / 2], beside[beside.len() - 1]);
        println!(
            "{way}: alone {:?}, beside long data {median:?}, {most:?} at most of {}",
            alone[10],
            beside.len()
        );
        // The buffer of the wire, and the data that may be queued before it.
        assert!(median < alone[10] + Duration::from_millis(250), "{way}: {median:?}");
        assert!(most < alone[10] + Duration::from_millis(600), "{way}: {most:?}");
    }
}

/// A reader that stops now and then is slow, too, on every kind of link: its process is stopped most of the time. A
/// peer that was stopped for good while it took data from shared memory was never detected. The PINGs found room in the
/// ring, and that counted as a heartbeat.
#[test]
fn a_process_that_stands_still_now_and_then_is_not_given_up_and_one_that_stands_still_is() {
    let _alone = ALONE.lock();
    for (link, name) in [(LinkKind::Tcp, "tcp"), (LinkKind::Unix, "unix"), (LinkKind::Shm, "shm")] {
        let folder = tempfile::tempdir().unwrap();
        let address = match link {
            LinkKind::Tcp => format!("127.0.0.1:{}", ports::free::<1>()[0].port()),
            _ => format!("unix:{}", folder.path().join("node").display()),
        };
        let file = folder.path().join("peers");
        std::fs::write(&file, format!("1 {address}\n")).unwrap();
        let arguments = ["node", "--id", "1", "--link", name, "--listen", &address, "--peers"];
        let process = Command::new(env!("CARGO_BIN_EXE_gpc")).args(arguments).arg(&file).spawn().unwrap();
        let process = Stopped(process);
        let functions = Functions::new();
        // A replacement of the command's function that ignores its data.
        let sum = functions.at(Placement::Inline).func("sum", |_, _| Ok(())).unwrap();
        let address: Address = address.parse().unwrap();
        wait_until_listening(&address);
        let peers = [(1, address)].into_iter().collect();
        let heartbeat = Some(Heartbeat::dead_after(DEAD_AFTER));
        let builder = Node::builder(0).functions(&functions).peers(peers).link(link).heartbeat(heartbeat);
        let root = builder.start().unwrap();
        let call = |bytes| Call::new(sum).ids(0..2).limit(LIMIT).data(vec![5; bytes]);
        let mut long = root.call(call(200_000_000)).unwrap();
        for _ in 0..8 {
            process.signal(Signal::STOP);
            thread::sleep(DEAD_AFTER / 3);
            process.signal(Signal::CONT);
            thread::sleep(Duration::from_millis(20));
        }
        assert_eq!(end_of(long).unwrap_or_else(|error| panic!("{name}: {error}")).ids().len(), 2);
        process.signal(Signal::STOP);
        let begun = Instant::now();
        long = root.call(call(200_000_000)).unwrap();
        let Err(CallError::Failed(failure)) = end_of(long) else {
            panic!("{name}: a stopped process answers")
        };
        assert!(failure.cause().message.contains("no heartbeat"), "{name}: {failure}");
        assert!(begun.elapsed() < DEAD_AFTER + SLACK, "{name}: {:?}", begun.elapsed());
    }
}

/// A process that ends with the test.
struct Stopped(Child);

impl Stopped {
    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.0), signal).unwrap();
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        // The process may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn wait_until_listening(address: &Address) {
    let begun = Instant::now();
    while !address.is_answered(Duration::from_secs(1)) {
        assert!(begun.elapsed() < LIMIT, "the node does not listen");
        thread::sleep(Duration::from_millis(10));
    }
}

/// A root takes a long reply as fast as it arrives, so all of it waits for the wire at once. While that was more than 4
/// MiB, the child returned no credit, and after 256 small calls the next one waited for seconds.
#[test]
fn a_long_reply_does_not_hold_back_the_credit_of_small_calls() {
    let _alone = ALONE.lock();
    let pair = Pair::tcp(2_000_000);
    let mut long = pair.root.call(pair.call(pair.fill).header("16000000")).unwrap();
    let mut longest = Duration::ZERO;
    for _ in 0..40 {
        let begun = Instant::now();
        let small: Vec<_> = (0..16).map(|_| pair.root.call(pair.call(pair.small)).unwrap()).collect();
        small.into_iter().for_each(|call| drop(call.wait().unwrap()));
        longest = longest.max(begun.elapsed());
    }
    assert!(long.test().is_none(), "the reply has taken no longer than 640 small calls");
    assert!(longest < Duration::from_secs(2), "{longest:?}");
    assert_eq!(end_of(long).unwrap().replies().unwrap()[1].data.len(), 16_000_000);
}
