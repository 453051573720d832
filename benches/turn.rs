//! Benchmark of calls at a node that has many other links, and connections without a hello: they must cost as much as
//! at a node without any.
#![allow(missing_docs)]
#![allow(clippy::disallowed_methods, reason = "a benchmark measures time")]

use std::io::{Read as _, Write as _};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixStream};
use std::time::{Duration, Instant};

use chained_gpc::Placement;
use chained_gpc::wire::Hello;
use chained_gpc::wire::frame::{FRAME_HEADER, FrameHeader, Kind};
use chained_gpc::{Address, Call, FuncHandle, Functions, Id, LinkKind, PolledNode};
use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use gpc_test_support::nodes;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Links beside the one that a call uses: each takes two descriptors of this process.
const LINKS: [u32; 4] = [0, 100, 1000, 5000];

fn hello(from: Id) -> Vec<u8> {
    let hello = Hello {
        from,
        to: 1,
        incarnation: 1,
        generation: 1,
        hiwater: 4,
        job: Default::default(),
        rings: false,
        extents: false,
    };
    let payload = hello.emit();
    let header = FrameHeader { length: payload.len() as u32, kind: Kind::Hello, flags: 0 };
    [&header.emit()[..], &payload].concat()
}

/// A root, and the node that it calls, without threads.
struct Pair {
    nodes: [PolledNode; 2],
    func: FuncHandle,
    name: SocketAddr,
}

impl Pair {
    fn new() -> Pair {
        let functions = Functions::new();
        let func = functions.at(Placement::Inline).func("nothing", |_, _| Ok(())).expect("a fresh name");
        let nodes = nodes::polled_pair(LinkKind::Unix, &functions, |builder| builder);
        let Some(Address::Abstract(name)) = nodes[1].address() else { panic!("a name was asked for") };
        let name = SocketAddr::from_abstract_name(name).expect("a short name");
        Pair { nodes, func, name }
    }

    /// Connects another peer to the node, with a link or without.
    fn stranger(&mut self, id: Id, greets: bool) -> UnixStream {
        let mut stranger = UnixStream::connect_addr(&self.name).expect("the node listens");
        if greets {
            stranger.set_nonblocking(true).expect("a socket");
            stranger.write_all(&hello(id)).expect("a new socket has room");
            let mut answer = [0; FRAME_HEADER + 32];
            while stranger.read(&mut answer).is_err() {
                self.nodes[1].progress(Duration::ZERO).expect("the poll works");
            }
        }
        stranger
    }

    fn call(&mut self) {
        let mut handle = self.nodes[0].call(Call::new(self.func).ids(0..2)).expect("a good call");
        loop {
            nodes::turn(&mut self.nodes);
            if let Some(ended) = handle.test() {
                ended.expect("it ends well");
                return;
            }
        }
    }
}

fn a_call_beside_links(criterion: &mut Criterion) {
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }).expect("up to the hard limit");
    let most = limit.maximum.unwrap_or(u64::MAX) / 4;
    let mut group = criterion.benchmark_group("a_call_beside_links");
    for links in LINKS.into_iter().filter(|links| u64::from(*links) <= most) {
        let mut pair = Pair::new();
        let _held: Vec<UnixStream> = (0..links).map(|id| pair.stranger(1000 + id, true)).collect();
        group.bench_function(BenchmarkId::new("one_is_silent", links), |bencher| {
            // A new one for each measurement, since a connection without a hello is closed after some seconds.
            bencher.iter_custom(|calls| {
                let _silent = pair.stranger(0, false);
                pair.call();
                let begun = Instant::now();
                (0..calls).for_each(|_| pair.call());
                begun.elapsed()
            });
        });
    }
    group.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(20).measurement_time(Duration::from_secs(2));
    targets = a_call_beside_links
}
criterion_main!(benches);
