//! Work by counts of allocations: of a call from C beside one from Rust, and of registrations.
#![allow(unsafe_code, clippy::unwrap_used)]

use std::ffi::{CString, c_int, c_void};
use std::ptr::{null, null_mut};

use chained_gpc::{Call, FuncHandle, Functions, LinkKind, Placement, PolledNode, Tree};
use gpc_capi::abi::call::*;
use gpc_capi::abi::context::*;
use gpc_capi::abi::functions::*;
use gpc_capi::abi::outcome::*;
use gpc_capi::abi::progress::*;
use gpc_capi::abi::reply::*;
use gpc_capi::abi::request::*;
use gpc_capi::abi::types::*;
use gpc_capi::status::{CGPC_OK, CGPC_PENDING};
use gpc_test_support::memory::{Counting, OfThread};
use gpc_test_support::nodes;

#[global_allocator]
static COUNTING: Counting<OfThread> = Counting::new();

/// Calls before counting begins: links are up, and every list has its final size.
const WARM_UP: u32 = 300;

/// Calls that are counted: a rare event, such as the growth of a list, is spread over them.
const COUNTED: u32 = 500;

const DATA: [u8; 64] = [7; 64];

/// Two nodes that this thread drives, and the allocations in each one's turns.
trait Pair {
    fn start(&mut self);

    /// Drops the outcome of the call, if it has ended.
    fn has_ended(&mut self) -> bool;

    fn turn(&mut self, node: usize);
}

/// Allocations per call in the steady state: of the caller and in its turns, and in the turns of the other node.
fn allocations(pair: &mut dyn Pair) -> [f64; 2] {
    let mut counts = [0; 2];
    for number in 0..WARM_UP + COUNTED {
        let mut count = |of: usize, work: &mut dyn FnMut()| {
            let before = OfThread::allocations();
            work();
            counts[of] += if number < WARM_UP { 0 } else { OfThread::allocations() - before };
        };
        let mut has_ended = false;
        count(0, &mut || pair.start());
        // Terminates: the call has a time limit.
        while !has_ended {
            count(0, &mut || pair.turn(0));
            count(1, &mut || pair.turn(1));
            count(0, &mut || has_ended = pair.has_ended());
        }
    }
    counts.map(|count| count as f64 / f64::from(COUNTED))
}

struct Rust {
    nodes: Vec<PolledNode>,
    echo: FuncHandle,
    call: Option<chained_gpc::CallHandle>,
}

impl Pair for Rust {
    fn start(&mut self) {
        let call = Call::new(self.echo).ids(0..2).tree(Tree::Binary).data(DATA.to_vec());
        self.call = Some(self.nodes[0].call(call).unwrap());
    }

    fn has_ended(&mut self) -> bool {
        self.call.as_mut().and_then(|call| call.test()).map(|ended| ended.unwrap()).is_some()
    }

    fn turn(&mut self, node: usize) {
        nodes::turn(&mut self.nodes[node..=node]);
    }
}

struct C {
    contexts: Vec<*mut cgpc_context>,
    echo: cgpc_function,
    call: *mut cgpc_call,
}

unsafe extern "C-unwind" fn echo(
    request: *const cgpc_request,
    reply: *mut cgpc_reply,
    _: *mut c_void,
) -> c_int {
    let (mut data, mut length) = (null(), 0);
    // SAFETY: the handles are those of this function.
    unsafe {
        cgpc_request_data(request, &raw mut data, &raw mut length);
        cgpc_reply_set_data(reply, data, length)
    }
}

fn is_ok(status: c_int) {
    assert_eq!(status, CGPC_OK);
}

/// A context with its functions: the number of the last one.
fn registered(names: &[CString]) -> (*mut cgpc_context, cgpc_function) {
    let (mut context, mut function) = (null_mut(), 0);
    // SAFETY: all pointers are of values that outlive the call that uses them.
    unsafe {
        is_ok(cgpc_context_new(&raw mut context));
        let mut options = std::mem::zeroed::<cgpc_function_options>();
        is_ok(cgpc_function_options_init(&raw mut options, size_of_val(&options)));
        options.flags = CGPC_INLINE;
        for name in names {
            let (options, function) = (&raw const options, &raw mut function);
            is_ok(cgpc_register(context, name.as_ptr(), Some(echo), null_mut(), options, function));
        }
    }
    (context, function)
}

impl C {
    fn new() -> C {
        let addresses: Vec<_> = (0..2).map(|id| LinkKind::default().fresh_address(id)).collect();
        let peers: String = addresses.iter().enumerate().map(|(id, at)| format!("{id} {at}\n")).collect();
        let peers = CString::new(peers).unwrap();
        let (mut contexts, mut function) = (Vec::new(), 0);
        for (id, address) in (0..).zip(&addresses) {
            let (context, echo) = registered(&[c"echo".to_owned()]);
            let listen = CString::new(address.to_string()).unwrap();
            // SAFETY: all pointers are of values that outlive the call that uses them.
            unsafe {
                let mut options = std::mem::zeroed::<cgpc_options>();
                is_ok(cgpc_options_init(&raw mut options, size_of_val(&options)));
                (options.id, options.flags) = (id, CGPC_POLLED);
                (options.listen, options.peers) = (listen.as_ptr(), peers.as_ptr());
                is_ok(cgpc_start(context, &raw const options));
            }
            contexts.push(context);
            function = echo;
        }
        C { contexts, echo: function, call: null_mut() }
    }
}

impl Pair for C {
    fn start(&mut self) {
        // SAFETY: all pointers are of values that outlive the call that uses them.
        unsafe {
            let mut args = std::mem::zeroed::<cgpc_call_args>();
            is_ok(cgpc_call_args_init(&raw mut args, size_of_val(&args)));
            (args.func, args.id_count) = (self.echo, 2);
            (args.data, args.data_len) = (DATA.as_ptr().cast(), DATA.len());
            is_ok(cgpc_call_start(self.contexts[0], &raw const args, &raw mut self.call));
        }
    }

    fn has_ended(&mut self) -> bool {
        let mut outcome = null_mut();
        // SAFETY: as above; the handles are freed once.
        unsafe {
            match cgpc_call_test(self.call, &raw mut outcome) {
                CGPC_PENDING => return false,
                status => is_ok(status),
            }
            is_ok(cgpc_call_free(self.call));
            is_ok(cgpc_outcome_free(outcome));
        }
        true
    }

    fn turn(&mut self, node: usize) {
        // SAFETY: the handle is valid.
        is_ok(unsafe { cgpc_progress(self.contexts[node], 0, null_mut()) });
    }
}

impl Drop for C {
    fn drop(&mut self) {
        // SAFETY: the handles are not used afterwards.
        self.contexts.iter().for_each(|context| is_ok(unsafe { cgpc_finalize(*context, 0) }));
    }
}

/// Beside Rust's, a call from C has two allocations: behind the handles of the call and of its outcome. At the other
/// nodes there are none.
#[test]
fn a_call_from_c_allocates_no_more_than_one_from_rust_and_two_handles() {
    let functions = Functions::new();
    let echo = functions.at(Placement::Inline).func("echo", |request, reply| {
        reply.data = request.data().to_vec();
        Ok(())
    });
    let nodes = nodes::polled(2, LinkKind::default(), &functions);
    let rust = allocations(&mut Rust { nodes, echo: echo.unwrap(), call: None });
    let c = allocations(&mut C::new());
    assert!(c[0] <= rust[0] + 2.05, "at the caller: {c:?} beside {rust:?}");
    assert!(c[1] <= rust[1] + 0.05, "at the other node: {c:?} beside {rust:?}");
}

/// A table that is copied, or moved to one of the next size, for each function makes the work of many quadratic.
#[test]
fn registering_ten_thousand_functions_is_linear() {
    let cost_of = |count: u32| {
        let names: Vec<CString> = (0..count).map(|n| CString::new(format!("f{n:06}")).unwrap()).collect();
        let ((context, _), cost) = OfThread::cost(|| registered(&names));
        // SAFETY: the handle is not used afterwards.
        is_ok(unsafe { cgpc_finalize(context, 0) });
        cost
    };
    // The first context also makes what all share.
    cost_of(1);
    let (few, many) = (cost_of(1_000), cost_of(10_000));
    // A table that doubles may have doubled once more.
    assert!(many.taken <= 2 * 10 * few.taken, "{many:?} beside {few:?}");
    assert!(many.allocations <= 11 * few.allocations, "{many:?} beside {few:?}");
}
