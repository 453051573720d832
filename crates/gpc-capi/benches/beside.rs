//! A call from C beside the same call from Rust, in one run.
//!
//! There are three kinds of nodes: all nodes have threads (`threads`); the caller drives its own node, as a program
//! does, and the others have threads (`caller`); one thread drives all nodes (`polled`), so that nothing but
//! instructions counts. The nodes of Rust and of C live in this process. Blocks of calls of both take turns, so that
//! both meet the same machine. Each round gives a ratio; the table has their mean and its 95 % interval. `cargo bench
//! -p gpc-capi --bench beside -- 2 8` measures over 2 and 8 nodes only, `-- polled` one kind only.
//!
//! Polled nodes are driven by as many calls of `progress` in both. The README has the figures. Instructions vary less
//! than times: run it in callgrind, and compare the inclusive costs of `<C as Side>::call` and `<RustPolled as
//! Side>::call`.
#![allow(unsafe_code, missing_docs)]
#![allow(clippy::print_stdout, clippy::disallowed_methods, reason = "a benchmark measures and prints")]

use std::ffi::{CString, c_int, c_void};
use std::hint::black_box;
use std::ptr::{null, null_mut};
use std::time::{Duration, Instant};

use chained_gpc::{
    Call, FuncHandle, Functions, LinkKind, LocalNodes, Node, Peers, Placement, PolledNode, Tree, Wait,
};
use gpc_capi::abi::call::*;
use gpc_capi::abi::context::*;
use gpc_capi::abi::functions::*;
use gpc_capi::abi::outcome::*;
use gpc_capi::abi::progress::*;
use gpc_capi::abi::reply::*;
use gpc_capi::abi::request::*;
use gpc_capi::abi::tree::*;
use gpc_capi::abi::types::*;
use gpc_capi::status::{CGPC_OK, CGPC_PENDING};
use gpc_test_support::nodes;

/// Time of one block: long beside the clock, short beside what changes on a machine.
const BLOCK: Duration = Duration::from_millis(10);

/// Pairs of blocks in a round.
const PAIRS: usize = 20;

/// Rounds, each with nodes of its own: where the system places their threads lasts, and changes the times by half.
const ROUNDS: usize = 12;

/// Factor of a 95 % interval by Student's distribution, for this number of rounds.
const STUDENT: f64 = 2.201;

/// The kinds of nodes, as the command line names them.
const KINDS: [&str; 3] = ["polled", "caller", "threads"];

const DATA: [u8; 64] = [7; 64];

/// A kind of node, of which a group makes calls.
trait Side {
    /// Makes a call over all nodes and waits for its end.
    fn call(&mut self);
}

struct RustPolled(Vec<PolledNode>, FuncHandle);

struct RustThreads(LocalNodes, FuncHandle, u32);

struct RustCaller {
    root: PolledNode,
    others: Vec<Node>,
    echo: FuncHandle,
}

fn register_echo(functions: &Functions) -> FuncHandle {
    let echo = functions.at(Placement::Inline).func("echo", |request, reply| {
        reply.data = request.data().to_vec();
        Ok(())
    });
    echo.expect("a fresh name")
}

fn call(echo: FuncHandle, n: u32) -> Call {
    Call::new(echo).ids(0..n).tree(Tree::Binomial).data(DATA.to_vec())
}

impl Side for RustPolled {
    fn call(&mut self) {
        let RustPolled(nodes, echo) = self;
        let mut handle = nodes[0].call(call(*echo, nodes.len() as u32)).expect("the node takes the call");
        // Terminates: the call has a time limit.
        loop {
            if let Some(ended) = handle.test() {
                return drop(ended.expect("the call ends well"));
            }
            nodes::turn(nodes);
        }
    }
}

impl Side for RustThreads {
    fn call(&mut self) {
        let RustThreads(nodes, echo, n) = self;
        drop(nodes.root().call(call(*echo, *n)).and_then(|call| call.wait()).expect("the call ends well"));
    }
}

impl RustCaller {
    /// Each node has functions of its own, as contexts of C have.
    fn start(n: u32, link: LinkKind) -> RustCaller {
        let (listeners, addresses) = link.listen(0..n).expect("fresh addresses");
        let peers = Peers::from(addresses);
        let mut handles = Vec::new();
        let builder = |(id, listener)| {
            let functions = Functions::new();
            handles.push(register_echo(&functions));
            let builder = Node::builder(id).functions(&functions).peers(peers.clone()).wait(Wait::Block);
            builder.listener(listener).link(link)
        };
        let mut builders = (0..n).zip(listeners).map(builder);
        let root = builders.next().expect("a first node").polled().expect("a node");
        let others = builders.map(|builder| builder.start().expect("a node")).collect();
        RustCaller { root, others, echo: handles[0] }
    }
}

impl Side for RustCaller {
    fn call(&mut self) {
        let call = self.root.call(call(self.echo, self.others.len() as u32 + 1));
        drop(self.root.wait(call.expect("the node takes the call")).expect("the call ends well"));
    }
}

/// Contexts of C. The functions are reached as a program in C reaches them, not inlined.
struct C {
    contexts: Vec<*mut cgpc_context>,
    tree: *mut cgpc_tree,
    echo: cgpc_function,
    polled: Polled,
}

/// The nodes without a thread.
#[derive(Clone, Copy, PartialEq)]
enum Polled {
    Nothing,
    Caller,
    All,
}

type View = unsafe extern "C" fn(*const cgpc_request, *mut *const c_void, *mut usize) -> c_int;
type Set = unsafe extern "C" fn(*mut cgpc_reply, *const c_void, usize) -> c_int;
type Run = unsafe extern "C" fn(*mut cgpc_context, *const cgpc_call_args, *mut *mut cgpc_outcome) -> c_int;
type Start = unsafe extern "C" fn(*mut cgpc_context, *const cgpc_call_args, *mut *mut cgpc_call) -> c_int;
type Test = unsafe extern "C" fn(*mut cgpc_call, *mut *mut cgpc_outcome) -> c_int;
type Progress = unsafe extern "C" fn(*mut cgpc_context, usize, *mut usize) -> c_int;

unsafe extern "C-unwind" fn echo(
    request: *const cgpc_request,
    reply: *mut cgpc_reply,
    _: *mut c_void,
) -> c_int {
    let (mut data, mut length) = (null(), 0usize);
    // SAFETY: the handles are those of this function.
    unsafe {
        is_ok(black_box(cgpc_request_data as View)(request, &raw mut data, &raw mut length));
        black_box(cgpc_reply_set_data as Set)(reply, data, length)
    }
}

fn is_ok(status: c_int) {
    assert_eq!(status, CGPC_OK);
}

impl C {
    fn start(n: u32, polled: Polled) -> C {
        let link = LinkKind::default();
        let addresses: Vec<_> = (0..n).map(|id| link.fresh_address(id)).collect();
        let peers: String = addresses.iter().enumerate().map(|(id, at)| format!("{id} {at}\n")).collect();
        let peers = CString::new(peers).expect("a text");
        let mut function = 0;
        let start = |(id, address): (u32, &chained_gpc::Address)| {
            let listen = CString::new(address.to_string()).expect("a text");
            let mut context = null_mut();
            // SAFETY: all pointers are of values that outlive the call that uses them.
            unsafe {
                is_ok(cgpc_context_new(&raw mut context));
                let mut options = std::mem::zeroed::<cgpc_function_options>();
                is_ok(cgpc_function_options_init(&raw mut options, size_of_val(&options)));
                options.flags = CGPC_INLINE;
                let name = c"echo".as_ptr();
                is_ok(cgpc_register(
                    context,
                    name,
                    Some(echo),
                    null_mut(),
                    &raw const options,
                    &raw mut function,
                ));
                let mut options = std::mem::zeroed::<cgpc_options>();
                is_ok(cgpc_options_init(&raw mut options, size_of_val(&options)));
                (options.id, options.listen, options.peers) = (id, listen.as_ptr(), peers.as_ptr());
                let is_polled = polled == Polled::All || polled == Polled::Caller && id == 0;
                options.flags = if is_polled { CGPC_POLLED } else { 0 };
                options.wait = CGPC_WAIT_BLOCK;
                is_ok(cgpc_start(context, &raw const options));
            }
            context
        };
        let contexts: Vec<_> = (0..).zip(&addresses).map(start).collect();
        let mut tree = null_mut();
        // SAFETY: as above.
        is_ok(unsafe { cgpc_tree_named(contexts[0], c"binomial".as_ptr(), &raw mut tree) });
        C { contexts, tree, echo: function, polled }
    }
}

impl Side for C {
    fn call(&mut self) {
        let run = black_box(cgpc_call_run as Run);
        let start = black_box(cgpc_call_start as Start);
        let test = black_box(cgpc_call_test as Test);
        let progress = black_box(cgpc_progress as Progress);
        let mut outcome: *mut cgpc_outcome = null_mut();
        // SAFETY: all pointers are of values that outlive the call that uses them; the handles are not freed before.
        unsafe {
            let mut args = std::mem::zeroed::<cgpc_call_args>();
            is_ok(cgpc_call_args_init(&raw mut args, size_of_val(&args)));
            (args.func, args.tree, args.id_count) = (self.echo, self.tree, self.contexts.len());
            (args.data, args.data_len) = (DATA.as_ptr().cast(), DATA.len());
            if self.polled != Polled::All {
                is_ok(run(self.contexts[0], &raw const args, &raw mut outcome));
                return is_ok(cgpc_outcome_free(outcome));
            }
            let mut call = null_mut();
            is_ok(start(self.contexts[0], &raw const args, &raw mut call));
            // Terminates: the call has a time limit.
            while test(call, &raw mut outcome) == CGPC_PENDING {
                self.contexts.iter().for_each(|context| is_ok(progress(*context, 0, null_mut())));
            }
            is_ok(cgpc_call_free(call));
            is_ok(cgpc_outcome_free(outcome));
        }
    }
}

impl Drop for C {
    fn drop(&mut self) {
        // SAFETY: the handles are not used afterwards.
        unsafe {
            is_ok(cgpc_tree_free(self.tree));
            self.contexts.iter().for_each(|context| is_ok(cgpc_finalize(*context, 1_000_000)));
        }
    }
}

/// Time of a call in a block of this number, seconds.
fn block(side: &mut dyn Side, calls: u32) -> f64 {
    let begun = Instant::now();
    (0..calls).for_each(|_| side.call());
    begun.elapsed().as_secs_f64() / f64::from(calls)
}

/// Compares both in turns, with new nodes in each round, and prints a line.
fn compare(what: &str, n: u32, start: impl Fn() -> (Box<dyn Side>, Box<dyn Side>)) {
    let (mut times, mut logs) = ([0.0; 2], Vec::new());
    for _ in 0..ROUNDS {
        let (mut rust, mut c) = start();
        let warm = block(&mut *rust, 100).max(block(&mut *c, 100));
        let calls = (BLOCK.as_secs_f64() / warm).ceil().max(1.0) as u32;
        let mut sum = 0.0;
        for pair in 0..PAIRS {
            let mut both = [0.0; 2];
            // Each kind is first in half of the pairs.
            for of in [pair % 2, 1 - pair % 2] {
                both[of] = block(if of == 0 { &mut *rust } else { &mut *c }, calls);
            }
            times = [times[0] + both[0], times[1] + both[1]];
            sum += (both[1] / both[0]).ln();
        }
        logs.push(sum / PAIRS as f64);
    }
    let count = ROUNDS as f64;
    let mean = logs.iter().sum::<f64>() / count;
    let variance = logs.iter().map(|log| (log - mean).powi(2)).sum::<f64>() / (count - 1.0);
    let around = STUDENT * (variance / count).sqrt();
    let [rust, c] = times.map(|time| time / (count * PAIRS as f64) * 1e6);
    let [low, ratio, high] = [mean - around, mean, mean + around].map(f64::exp);
    println!(
        "{what:12} {n:3} nodes: Rust {rust:9.2} us, C {c:9.2} us, C/Rust {ratio:.3} [{low:.3}, {high:.3}]"
    );
}

fn main() {
    let asked: Vec<u32> = std::env::args().filter_map(|argument| argument.parse().ok()).collect();
    let sizes = if asked.is_empty() { vec![2, 8, 64] } else { asked };
    let functions = Functions::new();
    let echo = register_echo(&functions);
    let link = LinkKind::default();
    let is_wanted = |kind: &str| {
        let mut kinds = std::env::args().filter(|argument| KINDS.contains(&argument.as_str())).peekable();
        kinds.peek().is_none() || kinds.any(|wanted| wanted == kind)
    };
    for &n in sizes.iter().filter(|_| is_wanted("polled")) {
        compare("polled", n, || {
            let rust = RustPolled(nodes::polled(n, link, &functions), echo);
            (Box::new(rust), Box::new(C::start(n, Polled::All)))
        });
    }
    for &n in sizes.iter().filter(|_| is_wanted("caller")) {
        compare("caller", n, || {
            let rust = RustCaller::start(n, link);
            (Box::new(rust), Box::new(C::start(n, Polled::Caller)))
        });
    }
    for &n in sizes.iter().filter(|_| is_wanted("threads")) {
        compare("threads", n, || {
            // Nodes that poll before they sleep take the cores from each other.
            let nodes = LocalNodes::start_with(n, link, &functions, |_, node| node.wait(Wait::Block));
            let rust = RustThreads(nodes.expect("nodes start"), echo, n);
            (Box::new(rust), Box::new(C::start(n, Polled::Nothing)))
        });
    }
}
