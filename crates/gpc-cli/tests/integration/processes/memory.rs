//! Memory of a node process. With a limit of half a gibibyte it survives whatever its peers send or leave unread, and
//! an idle node returns the memory of past traffic.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use chained_gpc::Placement;
use chained_gpc::wire::frame::{FrameHeader, Kind, WINDOW};
use chained_gpc::wire::head::{AnswerKind, CallRef, ResponseHead};
use chained_gpc::wire::prefix::request_head;
use chained_gpc::wire::{Body, CallId, Hello, Request};
use chained_gpc::{Functions, IdList, Tree};
use rustix::process::Signal;

use crate::processes::support::{Gpc, run, until};

const MIB: usize = 1 << 20;

/// Half a gibibyte of address space: the program, its threads and their allocators take 150 MiB of it.
const ADDRESSES: &str = "-v 524288";

/// No node takes a tenth of this time to read or to answer.
const LIMIT: Duration = Duration::from_secs(60);

/// A node with id 1, in its own process.
struct Target {
    node: Gpc,
    address: String,
    peers: tempfile::NamedTempFile,
}

impl Target {
    fn start(limit: &str) -> Target {
        static COUNT: AtomicU8 = AtomicU8::new(200);
        // Loopback addresses of this process and node only, so that no other test has the port.
        let (pid, count) = (std::process::id().to_be_bytes(), COUNT.fetch_add(1, Ordering::Relaxed));
        let address = |id| format!("127.{}.{}.{count}:{}", pid[2] | 0x80, pid[3], 7000 + id);
        let mut peers = tempfile::NamedTempFile::new().unwrap();
        (0..2).for_each(|id| writeln!(peers, "{id} {}", address(id)).unwrap());
        let (address, path) = (address(1), peers.path().display());
        let line = format!("node --id 1 --listen {address} --peers {path} --link tcp");
        let node = Gpc::start_under(limit, &line);
        node.until_said("gpc: id 1 listens");
        Target { node, address, peers }
    }

    /// Connects a stranger that sends a hello with this id.
    fn stranger(&self, id: u32) -> Stranger {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_write_timeout(Some(LIMIT)).unwrap();
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        let (incarnation, generation, hiwater) = (1000, 1, 512);
        let hello = Hello {
            from: id,
            to: 1,
            incarnation,
            generation,
            hiwater,
            job: Default::default(),
            rings: false,
            extents: false,
        };
        stream.write_all(&frame(Kind::Hello, 0, &hello.emit())).unwrap();
        stream.read_exact(&mut [0; 56]).unwrap();
        Stranger { stream, id }
    }

    /// Checks that the node still serves others.
    #[track_caller]
    fn serves(&self) {
        let call =
            format!("call echo --id 0 --peers {} --link tcp --header hello", self.peers.path().display());
        let ended = run(&call);
        assert_eq!(ended.code(), Some(0), "{}", ended.stderr);
    }

    fn end(self) {
        self.node.process().kill(Signal::INT);
        assert_eq!(self.node.end().code(), Some(0));
    }
}

/// A peer that sends and does not read.
struct Stranger {
    stream: TcpStream,
    id: u32,
}

impl Stranger {
    /// Sends bytes; returns whether the node still accepts them.
    fn send(&mut self, bytes: &[u8]) -> bool {
        self.stream.write_all(bytes).is_ok()
    }

    fn call(&self, sequence: u64) -> CallId {
        CallId { root: self.id, sequence }
    }

    /// Returns a request for id 1 and the ids after it, without its data.
    fn request(&self, sequence: u64, func: &str, ids: IdList, header: &[u8], data_len: u64) -> Vec<u8> {
        let mut functions = Functions::new();
        let func = named(&mut functions, func);
        let whole = Request {
            func,
            reply_wanted: true,
            limit: Duration::from_secs(600),
            left: Duration::from_secs(600),
            tree: Ok(Tree::Chain),
            header: header.to_vec().into(),
            data: Body::arriving(data_len).0,
            ..Request::new(self.call(sequence), ids)
        };
        framed(&whole)
    }

    fn segment(&self, sequence: u64, len: usize) -> Vec<u8> {
        let mut payload = Vec::new();
        CallRef(self.call(sequence)).emit(&mut payload);
        payload.resize(payload.len() + len, 1);
        frame(Kind::Segment, 0, &payload)
    }
}

/// Returns the frame of a request, without its data.
fn framed(whole: &Request) -> Vec<u8> {
    let head = request_head(whole);
    let mut payload = Vec::new();
    head.emit(&mut payload);
    chained_gpc::wire::prefix::emit_prefix(whole, head.ids_form, &mut payload);
    // The part beyond one frame is sent as segments, or never.
    payload.truncate(MIB);
    frame(Kind::Request, 1, &payload)
}

/// Returns the number of a built-in function.
fn named(functions: &mut Functions, name: &str) -> u64 {
    functions.at(Placement::Inline).func(name, |_, _| Ok(())).unwrap().number()
}

fn frame(kind: Kind, flags: u8, payload: &[u8]) -> Vec<u8> {
    let header = FrameHeader { length: payload.len() as u32, kind, flags };
    [&header.emit()[..], payload].concat()
}

/// Some thousand bytes of requests for 64 MiB each, whose answers were not read, took 7.7 GiB.
#[test]
fn a_node_survives_a_peer_that_asks_for_much_and_reads_nothing() {
    let target = Target::start(ADDRESSES);
    let mut stranger = target.stranger(50);
    for sequence in 0..120 {
        let ids = IdList::range(1..2);
        let request = stranger.request(sequence, "fill", ids, (32 * MIB).to_string().as_bytes(), 0);
        assert!(stranger.send(&request));
    }
    target.serves();
    target.end();
}

/// Each PING took a PONG, and each response to an unknown call a CANCEL: 678 MB in 14 s, 2 GiB in 10 s.
#[test]
fn a_node_survives_peers_that_have_it_answer_and_do_not_read() {
    let target = Target::start(ADDRESSES);
    let mut asks = target.stranger(50);
    let pings = frame(Kind::Ping, 0, &[]).repeat(25_000);
    assert!((0..40).all(|_| asks.send(&pings)), "to ask is no fault");
    let mut answers = target.stranger(51);
    let long = |sequence| {
        let (call, kind, data_len) = (CallId { root: 1, sequence }, AnswerKind::Reply, WINDOW + 1);
        let mut payload = Vec::new();
        ResponseHead { call, level: 0, kind, header_len: 0, data_len, report_len: 0, trace_len: 0 }
            .emit(&mut payload);
        frame(Kind::Response, 0, &payload)
    };
    let many: Vec<u8> = (0..10_000).flat_map(long).collect();
    // A CANCEL is half as long as the response to it; the data that wait for a peer are bounded by some tens of MiB.
    assert!((0..1000).any(|_| !answers.send(&many)), "its link is closed");
    target.serves();
    target.end();
}

/// The code allowed 512 incomplete requests of 64 MiB each on a link, with data of 8 GiB each.
#[test]
fn a_node_survives_requests_that_are_never_whole() {
    let target = Target::start(ADDRESSES);
    let mut ids = target.stranger(50);
    let scattered = IdList::from_ids((0..1 << 20).map(|id| 2 * id + 1)).unwrap();
    let begun = ids.request(0, "echo", scattered, b"", 0);
    let sequence_at = 8 + 8;
    for sequence in 0..200u64 {
        let mut begun = begun.clone();
        begun[sequence_at..][..8].copy_from_slice(&sequence.to_le_bytes());
        if !ids.send(&begun) || !ids.send(&ids.segment(sequence, 900 << 10)) {
            break;
        }
    }
    target.serves();
    let mut data = target.stranger(51);
    for sequence in 0..100 {
        let request = data.request(sequence, "echo", IdList::range(1..2), b"", 64 << 20);
        if !data.send(&request) || !(0..4).all(|_| data.send(&data.segment(sequence, MIB - 64))) {
            break;
        }
    }
    target.serves();
    target.end();
}

/// On each link, a frame of a mebibyte could wait for its last byte, and 256 requests of that size for their turn.
#[test]
fn a_node_survives_many_peers_that_each_take_what_a_link_may() {
    let target = Target::start(ADDRESSES);
    let mut strangers: Vec<Stranger> = (100..300).map(|id| target.stranger(id)).collect();
    for stranger in &mut strangers {
        let frame = frame(Kind::Request, 0, &vec![0; MIB]);
        // The node may refuse it, and close the connection, at any byte.
        let _ = stranger.send(&frame[..MIB]);
    }
    target.serves();
    let mut sleepers: Vec<Stranger> = (300..310).map(|id| target.stranger(id)).collect();
    for stranger in &mut sleepers {
        for sequence in 0..100 {
            let mut request = stranger.request(sequence, "sleep", IdList::range(1..2), b"3s", 500 << 10);
            request.resize(request.len() + (500 << 10), 0);
            let length = request.len() as u32 - 8;
            request[..4].copy_from_slice(&length.to_le_bytes());
            if !stranger.send(&request) {
                break;
            }
        }
    }
    // Requests that wait for their turn are dropped with their link.
    drop((strangers, sleepers));
    target.serves();
    target.end();
}

/// After calls with 15 KB each and a thousand in flight, a node held 59 MiB permanently instead of 5.
#[test]
fn an_idle_node_gives_its_memory_back_to_the_system() {
    const KIB: u64 = 1 << 10;
    let target = Target::start("-c 0");
    target.serves();
    let before = target.node.process().own_kib();
    let peers = target.peers.path().display().to_string();
    for traffic in [
        "bench echo --bytes 15k --in-flight 1000 --repeat 1 --rounds 3000",
        "bench --bytes 64 --reply-bytes 32M --repeat 1 --rounds 3",
        "bench echo --bytes 16M --repeat 1 --rounds 3",
    ] {
        let ended = run(&format!("{traffic} --id 0 --peers {peers}"));
        assert_eq!(ended.code(), Some(0), "{}", ended.stderr);
        let given_back = || target.node.process().own_kib() <= before + 8 * KIB;
        until(&format!("within 8 MiB of {before} KiB is left of {traffic}"), given_back);
    }
    // The longest reply has 32 MiB; code that was mapped after the peak is subtracted from it.
    assert!(target.node.process().own_kib_max() > before + 24 * KIB, "it has held more");
    target.end();
}

/// A call over four ids died of SIGXFSZ without a message, since the system counts shared memory as a file. With a
/// limit between the sizes of rings and of long data, the data caused it.
#[test]
fn a_limit_of_files_takes_shared_memory_away_and_nothing_else() {
    for (limit, data) in [("-f 100", 0), ("-f 600", 0), ("-f 600", 3 * MIB)] {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), vec![b'x'; data]).unwrap();
        let line = format!("call digest -n 4 --link shm --tree chain --data {}", file.path().display());
        let call = Gpc::start_under(limit, &format!("{line} --time-limit 1m"));
        let ended = call.end();
        assert_eq!(ended.code(), Some(0), "under {limit}: {}", ended.stderr);
    }
}

/// One member sent 250 requests, each over four billion ids that do not exist, in 30 kB. The node answered no other
/// peer for half a minute, even after that member had left, and ignored SIGTERM.
#[test]
fn a_node_serves_and_ends_beside_requests_over_billions_of_ids() {
    let target = Target::start("-n 1024");
    let func = named(&mut Functions::new(), "echo");
    let mut floods = [50, 51].map(|id| target.stranger(id));
    for flood in &mut floods {
        for sequence in 0..250 {
            let unknown = IdList::range(1_000_000..u32::MAX - 1).with_first(1);
            let minutes = Duration::from_secs(600);
            let request = Request {
                func,
                partial: true,
                reply_wanted: true,
                total: u32::MAX,
                limit: minutes,
                left: minutes,
                ..Request::new(flood.call(sequence), unknown)
            };
            assert!(flood.send(&framed(&request)));
        }
    }
    let line =
        format!("call echo --id 0 --peers {} --link tcp --time-limit 10s", target.peers.path().display());
    let ended = run(&line);
    assert_eq!(ended.code(), Some(0), "{}", ended.stderr);
    // One of them leaves, and the other one stays.
    let [_stays, leaves] = floods;
    drop(leaves);
    let ended = run(&line);
    assert_eq!(ended.code(), Some(0), "{}", ended.stderr);
    target.end();
}
