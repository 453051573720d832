//! Nodes that have ended leave no descriptors and no threads in their process. This test counts, so it is alone in its
//! process.
#![cfg(target_os = "linux")]

use std::error::Error;
use std::fs;
use std::time::Duration;

use chained_gpc::runtime::{Listener, Peers};
use chained_gpc::{Call, FunctionResult, Functions, LinkKind, LocalNodes, Node, Reply, Streaming, Tree};
use gpc_test_support::nodes::{assert_polled_idle, drive, polled};
use gpc_test_support::process::{descriptors, status_number};
use gpc_test_support::waiting::until;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

const LIMIT: Duration = Duration::from_secs(30);

/// Descriptors and threads of this process.
fn held() -> (usize, usize) {
    (descriptors("self"), status_number("self", "Threads") as usize)
}

fn run(link: LinkKind, workers: usize, end: impl FnOnce(LocalNodes)) -> Result<(), Box<dyn Error>> {
    let functions = Functions::new();
    let echo = functions.func("echo", |request, reply| {
        reply.data = request.data().to_vec();
        Ok(())
    })?;
    let nodes = LocalNodes::start_with(12, link, &functions, |_, builder| builder.workers(workers))?;
    for root in 0..12 {
        let call = Call::new(echo).ids(0..12).data(vec![1; 100_000]);
        nodes.node(root).call(call)?.wait_for(LIMIT).expect("it ends")?;
    }
    end(nodes);
    Ok(())
}

/// Nodes that end in the middle of work: no listener at the other end, no answer from there, a dropped polled node.
fn broken(functions: &Functions) -> Result<(), Box<dyn Error>> {
    let func = functions.func("broken", |_, _| Ok(()))?;
    let gone = Listener::bind(&LinkKind::Tcp.fresh_address(1))?;
    let silent = Listener::bind(&LinkKind::Tcp.fresh_address(2))?;
    let peers: Peers = [(1, gone.address()?), (2, silent.address()?)].into_iter().collect();
    drop(gone);
    let node = Node::builder(0).functions(functions).peers(peers.clone()).start()?;
    let mut refused = node.call(Call::new(func).ids(0..2))?;
    assert!(refused.wait_for(LIMIT).expect("it ends").is_err());
    let mut waiting = node.call(Call::new(func).ids(0..3))?;
    drop(node);
    assert!(waiting.wait_for(LIMIT).expect("it ends").is_err());
    let mut polled = Node::builder(0).functions(functions).peers(peers).polled()?;
    let _lost = polled.call(Call::new(func).ids(0..3))?;
    polled.progress(Duration::ZERO)?;
    Ok(())
}

/// The descriptors that nodes count themselves are those that the process has for them.
fn nodes_count_their_descriptors() -> Result<(), Box<dyn Error>> {
    let functions = Functions::new();
    let func = functions.func("nothing", |_, _| Ok(()))?;
    for link in [LinkKind::Tcp, LinkKind::Unix, LinkKind::Shm] {
        let before = held().0;
        let mut nodes = polled(3, link, &functions);
        for linked in [false, true] {
            if linked {
                let handle = nodes[0].call(Call::new(func).ids(0..3).tree(Tree::Chain))?;
                drive(&mut nodes, handle)?;
                assert_polled_idle(&mut nodes);
            }
            let counted: usize = nodes.iter().map(|node| node.snapshot().count("descriptors")).sum();
            assert_eq!(held().0 - before, counted, "{link:?}");
        }
    }
    Ok(())
}

/// A node that connected to hundreds of ids at once held, beside each socket, a descriptor of the memory that it
/// offered. It ran out of descriptors.
fn connecting_takes_one_descriptor_for_each_peer() -> Result<(), Box<dyn Error>> {
    const PEERS: u32 = 100;
    let functions = Functions::new();
    let func = functions.func("nothing", |_, _| Ok(()))?;
    let listen = |id| Listener::bind(&LinkKind::Shm.fresh_address(id));
    let listeners = (1..=PEERS).map(listen).collect::<Result<Vec<_>, _>>()?;
    let addresses = listeners.iter().map(Listener::address).collect::<Result<Vec<_>, _>>()?;
    let builder = Node::builder(0).functions(&functions).peers((1..).zip(addresses).collect());
    let mut node = builder.link(LinkKind::Shm).polled()?;
    let mut handle = node.call(Call::new(func).ids(0..PEERS + 1).tree(Tree::Flat))?;
    let before = getrlimit(Resource::Nofile);
    // The folder that is read to count is open meanwhile.
    let enough = held().0 as u64 - 1 + u64::from(PEERS) + 4;
    setrlimit(Resource::Nofile, Rlimit { current: Some(enough), ..before })?;
    let turned = node.progress(Duration::ZERO);
    setrlimit(Resource::Nofile, before)?;
    turned?;
    let ended = handle.test();
    assert!(ended.is_none(), "it waits for answers that nobody gives: {ended:?}");
    Ok(())
}

/// Number of mapped pieces of long data.
fn mapped_pieces() -> usize {
    fs::read_to_string("/proc/self/maps").expect("Linux has it").matches("memfd:gpc-data").count()
}

/// Counts its data, and stores none.
struct Count(usize);

impl Streaming for Count {
    fn segment(&mut self, bytes: &[u8]) -> FunctionResult {
        self.0 += bytes.len();
        Ok(())
    }

    fn finish(&mut self, _: &chained_gpc::Request<'_>, reply: &mut Reply) -> FunctionResult {
        reply.data = self.0.to_string().into_bytes();
        Ok(())
    }
}

/// Long data are passed by descriptor and mapped. Neither descriptors nor mappings are left when their calls have
/// ended, well or not, while the nodes stay up.
fn long_data_leave_nothing_behind() -> Result<(), Box<dyn Error>> {
    let functions = Functions::new();
    let count = functions.func("count", |request, reply| {
        reply.data = request.data().len().to_string().into_bytes();
        Ok(())
    })?;
    let as_they_come = functions.streaming("as they come", |_| Ok(Count(0)))?;
    let fails = functions.func("fails", |_, _| Err("no".into()))?;
    let nodes = LocalNodes::start(5, LinkKind::Shm, &functions)?;
    let chain = |func| Call::new(func).ids(0..5).tree(Tree::Chain);
    nodes.node(0).call(chain(count))?.wait_for(LIMIT).expect("it ends")?;
    let before = held();
    let long = vec![1; 5 << 20];
    for func in [count, as_they_come] {
        for call in [chain(func), chain(func).forward_first(), chain(func).tree(Tree::Flat).forward_first()] {
            let ended = nodes.node(0).call(call.data(long.clone()))?.wait_for(LIMIT).expect("it ends")?;
            let replies = ended.replies()?;
            assert!(replies.len() == 5 && replies.iter().all(|reply| reply.data[..] == *b"5242880"));
        }
    }
    let call = chain(fails).forward_first().data(long);
    assert!(nodes.node(0).call(call)?.wait_for(LIMIT).expect("it ends").is_err());
    // A flat tree has opened links of its own.
    let links = 3;
    until("no data are left", || held().0 <= before.0 + 2 * links && mapped_pieces() == 0);
    drop(nodes);
    Ok(())
}

#[test]
fn nothing_is_left_of_nodes_that_have_ended() -> Result<(), Box<dyn Error>> {
    let before = held();
    for link in [LinkKind::Tcp, LinkKind::Unix, LinkKind::Shm] {
        run(link, 1, |nodes| nodes.shutdown(LIMIT))?;
        run(link, 1, drop)?;
        if cfg!(feature = "rayon") {
            run(link, 3, |nodes| nodes.shutdown(LIMIT))?;
        }
    }
    // The thread that guards functions ends by itself after the last node, and has descriptors until then.
    until("no guard of functions is left", || held() == before);
    nodes_count_their_descriptors()?;
    broken(&Functions::new())?;
    connecting_takes_one_descriptor_for_each_peer()?;
    long_data_leave_nothing_behind()?;
    until("no descriptors and threads are left", || held() == before);
    Ok(())
}
