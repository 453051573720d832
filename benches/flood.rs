//! Benchmark of calls beside a peer that requests as much work as its credit allows. It has 120 requests of 116 bytes
//! in flight, each over four billion ids that do not exist.
#![allow(missing_docs)]
#![allow(clippy::print_stdout, reason = "a benchmark says what it has measured")]
#![allow(clippy::disallowed_methods, reason = "a benchmark measures time")]

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use chained_gpc::link::{Context, Event, Inbox, Outbox};
use chained_gpc::wire::{CallId, Hello, Message, Request};
use chained_gpc::{Address, Call, FuncHandle, Functions, IdList, Listener, Node, Peers, Placement, Tree};
use criterion::{Criterion, criterion_group, criterion_main};
use smallvec::SmallVec;

/// Requests of the flood in flight: with those not acknowledged yet, as many as a link has credit for.
const REQUESTS: u64 = 120;

const FLOODER: u32 = 7;

struct Everything;

impl Context for Everything {
    fn tree(&self, _: u64) -> Option<Tree> {
        None
    }

    fn awaits(&self, _: CallId) -> bool {
        true
    }

    fn reply_max(&self) -> u64 {
        1 << 30
    }
}

/// The peer, which sends a new request for each answer.
struct Flooder {
    stream: TcpStream,
    outbox: Outbox,
    inbox: Inbox,
    func: FuncHandle,
    sent: u64,
}

impl Flooder {
    fn new(address: &Address, func: FuncHandle) -> Flooder {
        let Address::Tcp(address) = address else { panic!("the node listens on TCP") };
        let stream = TcpStream::connect(address).expect("the node listens");
        stream.set_read_timeout(Some(Duration::from_millis(100))).expect("a limit that is not zero");
        let mut flooder = Flooder { stream, outbox: Outbox::new(), inbox: Inbox::new(), func, sent: 0 };
        let (from, to, incarnation, generation, hiwater) = (FLOODER, 1, 1000, 1, 256);
        let (rings, extents) = (false, false);
        let job = Default::default();
        flooder.outbox.push_hello(&Hello { from, to, incarnation, generation, hiwater, job, rings, extents });
        flooder.flush();
        flooder
    }

    fn send(&mut self) {
        let minute = Duration::from_secs(600);
        let call = CallId { root: FLOODER, sequence: self.sent };
        let unknown = IdList::range(1_000_000..u32::MAX - 1).with_first(1);
        let request = Request {
            func: self.func.number(),
            partial: true,
            reply_wanted: true,
            total: u32::MAX,
            limit: minute,
            left: minute,
            ..Request::new(call, unknown)
        };
        self.sent += 1;
        self.outbox.add_credit(1);
        self.outbox.push(Message::Request(Arc::new(request)));
        self.flush();
    }

    fn flush(&mut self) {
        while self.outbox.prepare() {
            let count = {
                let mut parts = SmallVec::new();
                self.outbox.parts(&mut parts);
                self.stream.write_vectored(&parts).expect("the node takes what it has credit for")
            };
            self.outbox.mark_written(count);
        }
    }

    fn run(mut self, ends: &AtomicBool) -> u64 {
        let (mut buffer, mut answers) = ([0; 65_536], 0);
        (0..REQUESTS).for_each(|_| self.send());
        while !ends.load(Ordering::Relaxed) {
            let Ok(count) = self.stream.read(&mut buffer) else { continue };
            let mut events = Vec::new();
            self.inbox
                .feed(&buffer[..count], &Everything, &mut events)
                .expect("a node keeps to the protocol");
            for event in events {
                match event {
                    Event::Response(_) => {
                        answers += 1;
                        self.send();
                    }
                    Event::Ping => {
                        self.outbox.push(Message::Pong);
                        self.flush();
                    }
                    _ => {}
                }
            }
        }
        answers
    }
}

fn flood(criterion: &mut Criterion) {
    let functions = Functions::new();
    let nothing = functions.at(Placement::Inline).func("nothing", |_, _| Ok(())).expect("a fresh name");
    let local = "127.0.0.1:0".parse().expect("an address");
    let listeners = [0, 1].map(|_| Listener::bind(&Address::Tcp(local)).expect("it is free"));
    let addresses = [0, 1].map(|id: usize| listeners[id].address().expect("it is bound"));
    let peers: Peers = (0..).zip(addresses.clone()).collect();
    let mut ids = 0..;
    let [root, node] = listeners.map(|listener| {
        let id = ids.next().expect("they do not end");
        let builder = Node::builder(id).functions(&functions).peers(peers.clone()).listener(listener);
        builder.start().expect("a node")
    });
    let call = || {
        let begun = Instant::now();
        root.call(Call::new(nothing).ids([0, 1])).expect("it begins").wait().expect("it ends");
        begun.elapsed()
    };
    let mut group = criterion.benchmark_group("flood");
    group.sample_size(20);
    group.bench_function("call alone", |bencher| bencher.iter(call));
    let (flooder, ends) = (Flooder::new(&addresses[1], nothing), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let flooding = scope.spawn(|| flooder.run(&ends));
        std::thread::sleep(Duration::from_millis(100));
        let mut longest = Duration::ZERO;
        group.bench_function("call beside the flood", |bencher| {
            bencher.iter(|| longest = longest.max(call()));
        });
        ends.store(true, Ordering::Relaxed);
        let answers = flooding.join().expect("it ends");
        println!("longest call beside the flood: {longest:?}; requests of the flood answered: {answers}");
    });
    group.finish();
    let begun = Instant::now();
    node.shutdown(Duration::from_secs(1));
    println!("the node ended after {:?}", begun.elapsed());
    root.shutdown(Duration::from_secs(1));
}

criterion_group!(benches, flood);
criterion_main!(benches);
