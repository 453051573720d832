//! Benchmark of authentication and encryption: the handshake and the sealing alone; and a connection, a call and long
//! data over TCP without a secret, authenticated, and encrypted. All nodes are in this process, on loopback.
#![allow(missing_docs)]
#![allow(clippy::unwrap_used, reason = "a benchmark that cannot go on fails")]

use std::hint::black_box;
use std::time::Duration;

use chained_gpc::link::peering::{Crypto, Handshake, Noise, Role, Session, TAG};
use chained_gpc::runtime::{Builder, Listener, Peers};
use chained_gpc::{
    Call, FuncHandle, Functions, Id, Job, LinkKind, Node, Peer, PolledNode, PrivateKey, Secret, Tree,
};
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};

const LIMIT: Duration = Duration::from_secs(60);

fn secret() -> Secret {
    Secret::new(&[1; 32]).unwrap()
}

/// Cryptography with random numbers that cost nothing.
fn noise(key: u8) -> Noise {
    let mut next = u64::from(key);
    let fill = move |bytes: &mut [u8]| {
        next += 1;
        bytes.iter_mut().zip(next.to_le_bytes().iter().cycle()).for_each(|(to, from)| *to = *from);
        Ok(())
    };
    Noise::new(&secret(), Job::default(), PrivateKey::new([key; 32]), Box::new(fill))
}

/// Runs both sides of a handshake.
fn shake(one: &mut Noise, two: &mut Noise) -> [Box<dyn Session>; 2] {
    let mut one = one.begin(Role::First, b"prologue").unwrap();
    let mut two = two.begin(Role::Second, b"prologue").unwrap();
    let pass = |from: &mut dyn Handshake, to: &mut dyn Handshake, payload: &[u8]| {
        let mut message = Vec::new();
        from.write(payload, &mut message).unwrap();
        to.read(&message, &mut vec![0; payload.len()]).unwrap();
    };
    pass(&mut *one, &mut *two, &[0; 8]);
    pass(&mut *two, &mut *one, &[0; 4]);
    pass(&mut *one, &mut *two, &[]);
    [one.into_session().unwrap(), two.into_session().unwrap()]
}

fn cryptography(criterion: &mut Criterion) {
    let (mut one, mut two) = (noise(1), noise(2));
    criterion.bench_function("proof/handshake, both sides", |bencher| {
        bencher.iter(|| black_box(shake(&mut one, &mut two)));
    });
    let mut group = criterion.benchmark_group("proof/sealed and opened");
    for bytes in [64, 65_519] {
        let [mut one, mut two] = shake(&mut noise(1), &mut noise(2));
        let (plain, mut record) = (vec![7; bytes], vec![0; bytes + TAG]);
        let mut opened = vec![0; bytes + TAG];
        group.throughput(Throughput::Bytes(bytes as u64));
        group.bench_function(BenchmarkId::from_parameter(bytes), |bencher| {
            bencher.iter(|| {
                let sealed = one.seal(&plain, &mut record).unwrap();
                two.open(&record[..sealed], &mut opened).unwrap()
            });
        });
    }
}

/// Kinds of links.
const WAYS: [&str; 3] = ["plain", "proved", "sealed"];

fn builder(way: &str, id: Id, functions: &Functions) -> Builder {
    let builder = Node::builder(id).functions(functions).link(LinkKind::Tcp);
    match way {
        "plain" => builder,
        "proved" => builder.secret(secret()),
        _ => builder.secret(secret()).encrypt_loopback(),
    }
}

/// A root that this thread drives, and other nodes with threads of their own.
fn set(way: &str, n: u32, functions: &Functions) -> (PolledNode, Vec<Node>) {
    let (listeners, row) = LinkKind::Tcp.listen(0..n).unwrap();
    let peers = Peers::from(row);
    let mut listeners = listeners.into_iter();
    let mut next = |id: Id| -> (Builder, Listener) {
        (builder(way, id, functions).peers(peers.clone()), listeners.next().unwrap())
    };
    let (root, listener) = next(0);
    let root = root.listener(listener).polled().unwrap();
    let others = (1..n).map(|id| {
        let (node, listener) = next(id);
        node.listener(listener).start().unwrap()
    });
    (root, others.collect())
}

fn links(criterion: &mut Criterion) {
    let functions = Functions::new();
    let who = functions.func("who", |_, reply| {
        reply.data = vec![1; 8];
        Ok(())
    });
    let who = who.unwrap();
    connecting(criterion, &functions, who);
    for n in [2, 64] {
        calls(criterion, &functions, who, n, 0);
    }
    calls(criterion, &functions, who, 2, 64 << 20);
}

/// Measures a call that must open its link.
fn connecting(criterion: &mut Criterion, functions: &Functions, who: FuncHandle) {
    let mut group = criterion.benchmark_group("connecting and a first call");
    for way in WAYS {
        let (mut root, others) = set(way, 2, functions);
        let peer = Peer::new(1, others[0].address().unwrap().clone());
        group.bench_function(way, |bencher| {
            bencher.iter(|| {
                root.forget(1).unwrap();
                root.learn(peer.clone()).unwrap();
                let handle = root.call(Call::new(who).ids(0..2)).unwrap();
                root.wait(handle).unwrap()
            });
        });
    }
}

fn calls(criterion: &mut Criterion, functions: &Functions, who: FuncHandle, n: u32, bytes: usize) {
    let what = if bytes == 0 { "a call".to_owned() } else { format!("{} MiB", bytes >> 20) };
    let mut group = criterion.benchmark_group(format!("{what}, {n} nodes"));
    let data = chained_gpc::Bytes::from(vec![7; bytes]);
    if bytes > 0 {
        group.throughput(Throughput::Bytes(bytes as u64)).sample_size(20);
    }
    for way in WAYS {
        let (mut root, _others) = set(way, n, functions);
        root.wait_for_peers(0..2, LIMIT).unwrap();
        group.bench_function(way, |bencher| {
            bencher.iter(|| {
                let call = Call::new(who).ids(0..n).tree(Tree::Binomial).data(data.clone());
                let handle = root.call(call).unwrap();
                root.wait(handle).unwrap()
            });
        });
    }
}

criterion_group!(proof, cryptography, links);
criterion_main!(proof);
