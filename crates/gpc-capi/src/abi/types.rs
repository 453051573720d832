//! Types of the C interface: opaque handles, structures, and pointers to functions of the application.

use std::ffi::{c_char, c_int, c_void};

use super::pointers::versioned;

/// The functions and the node of one id in this process. A process may have several.
pub enum cgpc_context {}
/// A call in flight.
pub enum cgpc_call {}
/// The result of a call that started: replies, and the state of each id. Also of a call that failed.
pub enum cgpc_outcome {}
/// The promise of a reply that is sent later, from any thread.
pub enum cgpc_token {}
/// A tree of a call.
pub enum cgpc_tree {}
/// A subscription to the events of peers.
pub enum cgpc_events {}
/// What a function is to execute. Exists while the function runs, on its thread.
pub enum cgpc_request {}
/// The reply of this id. Exists while the function runs, on its thread.
pub enum cgpc_reply {}

/// The number of a function: it follows from the name, and is the same in every process. 0 is no function.
pub type cgpc_function = u64;

/// A child's reply, for a callback. The bytes are valid while the callback runs.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct cgpc_child {
    /// The child.
    pub from: u32,
    /// The reply header of its subtree.
    pub header: *const c_void,
    /// Length of the header, bytes.
    pub header_len: usize,
    /// The reply data of its subtree.
    pub data: *const c_void,
    /// Length of the data, bytes.
    pub data_len: usize,
}

/// A func: executes a request at one id and fills the reply. Returns 0, or a code of its own for a failure, which the
/// caller gets. Runs on a thread of the context, or in cgpc_progress.
pub type cgpc_func_fn = Option<
    unsafe extern "C-unwind" fn(
        request: *const cgpc_request,
        reply: *mut cgpc_reply,
        arg: *mut c_void,
    ) -> c_int,
>;

/// A callback: merges a child's reply into the reply of this id. Returns as a func.
pub type cgpc_callback_fn = Option<
    unsafe extern "C-unwind" fn(
        request: *const cgpc_request,
        child: *const cgpc_child,
        own: *mut cgpc_reply,
        arg: *mut c_void,
    ) -> c_int,
>;

/// A func that replies later: it keeps the token, returns 0, and replies from any thread. If it returns another value,
/// the call fails at this id, and the token is freed.
pub type cgpc_deferring_fn = Option<
    unsafe extern "C-unwind" fn(
        request: *const cgpc_request,
        token: *mut cgpc_token,
        arg: *mut c_void,
    ) -> c_int,
>;

/// Begins to receive the data of a call: stores a state of the application. Returns as a func.
pub type cgpc_begin_fn = Option<
    unsafe extern "C-unwind" fn(
        request: *const cgpc_request,
        state: *mut *mut c_void,
        arg: *mut c_void,
    ) -> c_int,
>;

/// Receives the next bytes of the data, at least one. Returns as a func.
pub type cgpc_segment_fn =
    Option<unsafe extern "C-unwind" fn(state: *mut c_void, bytes: *const c_void, len: usize) -> c_int>;

/// Ends the data, and fills the reply. Returns as a func.
pub type cgpc_finish_fn = Option<
    unsafe extern "C-unwind" fn(
        state: *mut c_void,
        request: *const cgpc_request,
        reply: *mut cgpc_reply,
    ) -> c_int,
>;

/// Releases something of the application. Called exactly once, on any thread; it must not wait.
pub type cgpc_release_fn = Option<unsafe extern "C-unwind" fn(arg: *mut c_void)>;

/// Runs once when a call has ended. `status` is CGPC_OK, CGPC_ERR_CALL or another error; the last error of the thread
/// tells more. `outcome` belongs to the function, which frees it; null if there is none. It runs on the thread that
/// drives the node, so it must be short and never wait; it may start calls.
pub type cgpc_end_fn =
    Option<unsafe extern "C-unwind" fn(status: c_int, outcome: *mut cgpc_outcome, arg: *mut c_void)>;

/// Appends the children of a position, in tree order: writes at most `capacity` positions and returns how many there
/// are. Position 0 is the root. Called twice for each position, with equal results.
pub type cgpc_children_fn = Option<
    unsafe extern "C-unwind" fn(
        position: u32,
        count: u32,
        children: *mut u32,
        capacity: usize,
        arg: *mut c_void,
    ) -> usize,
>;

/// Splits a list of `count` ids, at least 2, of which the first is the receiver: cuts the rest into consecutive
/// groups, writes at most `capacity` lengths of groups, and returns how many there are. The lengths add up to one
/// less than `count`. The first id of each group is a child, and the group is its subtree. The same count has the
/// same groups in every process.
pub type cgpc_split_fn = Option<
    unsafe extern "C-unwind" fn(count: u32, groups: *mut u32, capacity: usize, arg: *mut c_void) -> usize,
>;

/// Receives the next part of level-n data. Another result than 0 ends the iteration.
pub type cgpc_part_fn =
    Option<unsafe extern "C-unwind" fn(bytes: *const c_void, len: usize, arg: *mut c_void) -> c_int>;

/// Exchanges equal parts of all processes: the part of process i is at `all + i * len` afterwards, as MPI_Allgather
/// does. Returns 0, or another value for a failure.
pub type cgpc_allgather_fn = Option<
    unsafe extern "C-unwind" fn(mine: *const c_void, len: usize, all: *mut c_void, arg: *mut c_void) -> c_int,
>;

/// Waits for all processes. Returns 0, or another value for a failure.
pub type cgpc_barrier_fn = Option<unsafe extern "C-unwind" fn(arg: *mut c_void) -> c_int>;

/// Threads for functions, which no other functions occupy.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct cgpc_executor {
    /// The name, by which functions are placed there.
    pub name: *const c_char,
    /// Number of threads, 1 to 4096.
    pub workers: u32,
}

/// The settings of a context. A field that is 0 or null has its default. cgpc_options_init sets all to 0.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct cgpc_options {
    /// sizeof(cgpc_options).
    pub size: usize,
    /// The id of this process. The launcher or the exchange sets it where one is used.
    pub id: u32,
    /// CGPC_POLLED and others.
    pub flags: u32,
    /// The address to listen at: "127.0.0.1:7000", "unix:/path", "unix:@name". Null: others reach this process only
    /// over links that it has opened.
    pub listen: *const c_char,
    /// The addresses of the others: lines of an id and an address, as in a peers file.
    pub peers: *const c_char,
    /// The job, 16 bytes: processes of different jobs do not link.
    pub job: *const u8,
    /// The secret of the job: links over TCP are proved by it, and encrypted between hosts.
    pub secret: *const u8,
    /// Length of the secret, 32 to 1024 bytes.
    pub secret_len: usize,
    /// The private key of this id, 32 bytes.
    pub key: *const u8,
    /// Number of functions that may run at once, 1 by default; never two of one call.
    pub workers: u32,
    /// Number of `executors`.
    pub executor_count: u32,
    /// Threads for functions that are placed there.
    pub executors: *const cgpc_executor,
    /// CGPC_WAIT_ADAPTIVE and others: how the thread of the context waits.
    pub wait: i32,
    /// CGPC_LINK_DEFAULT and others: how to link with processes of this host.
    pub link: i32,
    /// For CGPC_WAIT_SPIN: how long the thread polls before it sleeps, microseconds.
    pub spin_us: u64,
    /// How long a silent peer is waited for before it is given up, microseconds; 10 s by default.
    pub heartbeat_us: u64,
    /// Limit of the memory for messages of peers, bytes.
    pub memory_max: u64,
    /// Limit of the data of a request, bytes.
    pub data_max: u64,
    /// Limit of the reply of a subtree, bytes.
    pub reply_max: u64,
    /// Time limit of the bootstrap, microseconds; 60 s by default.
    pub limit_us: u64,
}

/// The processes of an exchange of the application's own, such as an MPI communicator.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct cgpc_exchange {
    /// sizeof(cgpc_exchange).
    pub size: usize,
    /// The number of this process, which becomes its id.
    pub rank: u32,
    /// Number of processes.
    pub count: u32,
    /// Exchanges parts of equal length. Called twice by cgpc_start_exchange, on the calling thread.
    pub allgather: cgpc_allgather_fn,
    /// Waits for all. May be null.
    pub barrier: cgpc_barrier_fn,
    /// Passed to both.
    pub arg: *mut c_void,
}

/// A part of a message, with the layout of `struct iovec`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct cgpc_part {
    /// The bytes.
    pub bytes: *const c_void,
    /// Number of bytes.
    pub length: usize,
}

/// Sends one message to an id: the bytes of all parts, in order, which are valid during the call. Returns 0;
/// CGPC_WOULD_BLOCK if it takes nothing of the message now, and then calls cgpc_writable when it does; another value if
/// the id cannot be reached. Called on the thread that drives the context; it must not wait or throw, and may call
/// cgpc_deliver of other contexts.
pub type cgpc_send_fn = Option<
    unsafe extern "C-unwind" fn(to: u32, parts: *const cgpc_part, count: usize, arg: *mut c_void) -> c_int,
>;

/// A network of the application, which carries messages between ids that it knows.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct cgpc_network {
    /// sizeof(cgpc_network).
    pub size: usize,
    /// The id of this process.
    pub id: u32,
    /// Number of processes.
    pub count: u32,
    /// Sends a message.
    pub send: cgpc_send_fn,
    /// Length of the longest message that `send` takes, at least 64 bytes; 65,536 by default.
    pub message_max: usize,
    /// Passed to `send`.
    pub arg: *mut c_void,
    /// Releases the argument. May be null.
    pub release: cgpc_release_fn,
}

/// How a function is registered. A field that is 0 or null has its default.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct cgpc_function_options {
    /// sizeof(cgpc_function_options).
    pub size: usize,
    /// CGPC_INLINE, CGPC_COMMUTATIVE.
    pub flags: u32,
    /// CGPC_ACCESS_ANYONE and others: who may call it.
    pub access: i32,
    /// The executor that runs it. Null: the workers of the context.
    pub executor: *const c_char,
    /// For CGPC_ACCESS_IDS: the ids.
    pub access_ids: *const u32,
    /// Number of `access_ids`.
    pub access_count: usize,
    /// Releases the function's argument: once, when the function was released or the context freed, and no call runs
    /// it. Also if the registration fails.
    pub release: cgpc_release_fn,
}

/// The code of a streaming function, which receives its data while they arrive.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct cgpc_streaming {
    /// sizeof(cgpc_streaming).
    pub size: usize,
    /// Begins; must not be null.
    pub begin: cgpc_begin_fn,
    /// Receives bytes; must not be null.
    pub segment: cgpc_segment_fn,
    /// Ends; must not be null.
    pub finish: cgpc_finish_fn,
    /// Releases the state: once after a successful begin, also if the call fails. May be null.
    pub release: cgpc_release_fn,
}

/// One call. A field that is 0 or null has its default. cgpc_call_args_init sets all to 0.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct cgpc_call_args {
    /// sizeof(cgpc_call_args).
    pub size: usize,
    /// The func.
    pub func: cgpc_function,
    /// The callback; 0: the replies of all ids are aggregated.
    pub callback: cgpc_function,
    /// The header of the request: extra arguments. Copied before the call returns.
    pub header: *const c_void,
    /// Length of the header, bytes: at most 65535.
    pub header_len: usize,
    /// The data of the request.
    pub data: *const c_void,
    /// Length of the data, bytes.
    pub data_len: usize,
    /// Null: the data are copied before the call returns. Otherwise they are not copied, and must stay unchanged until
    /// this function releases them: exactly once, on any thread, also if the call is rejected with any error but
    /// CGPC_ERR_ARGUMENT or CGPC_ERR_FORKED.
    pub data_release: cgpc_release_fn,
    /// Passed to `data_release`.
    pub data_release_arg: *mut c_void,
    /// The ids that execute, in the order of the replies. Null: the ids first_id, first_id + 1 and so on. The caller is
    /// added as the first if the list lacks it, unless it only watches.
    pub ids: *const u32,
    /// Number of ids.
    pub id_count: usize,
    /// The first id if `ids` is null.
    pub first_id: u32,
    /// CGPC_PARTIAL and others.
    pub flags: u32,
    /// The tree; null: the one that is predicted to be the fastest, as "auto" of cgpc_tree_named.
    pub tree: *const cgpc_tree,
    /// With CGPC_REPLY_LIMITS: the longest reply header that one id may write, bytes; with a callback also the merged
    /// one. Not for the default aggregate.
    pub reply_header_max: u64,
    /// With CGPC_REPLY_LIMITS: the same for reply data.
    pub reply_data_max: u64,
    /// The time limit, microseconds; 60 s by default, or the rest of the limit of the call whose function makes this
    /// one.
    pub limit_us: u64,
}

/// A failure in detail.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct cgpc_error {
    /// sizeof(cgpc_error).
    pub size: usize,
    /// The status that the failed function returned.
    pub status: i32,
    /// Whether a call failed at an id: the fields from `id` to `code` are set. 0 or 1.
    pub has_cause: i32,
    /// The id that failed.
    pub id: u32,
    /// CGPC_STAGE_FUNC and others: where the call was.
    pub stage: u32,
    /// CGPC_KIND_FAILED and others: why, for a program. Of CGPC_ERR_FAULT, the number of the fault.
    pub kind: u32,
    /// The code that the application's function returned; 0 if it has none.
    pub code: i64,
    /// What failed, where, and what to do. Belongs to the thread, and is valid until a function of this library fails
    /// on it.
    pub message: *const c_char,
}

/// Number of ids with each state. They add up to the number of ids of the call.
#[derive(Clone, Copy, Default)]
#[repr(C)]
pub struct cgpc_coverage {
    /// sizeof(cgpc_coverage).
    pub size: usize,
    /// Executed the call.
    pub done: u32,
    /// Reported a failure.
    pub failed: u32,
    /// Surely never got the request: safe to call again.
    pub unreached: u32,
    /// Got the request perhaps, and may have executed.
    pub unknown: u32,
}

/// An event of a peer.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct cgpc_event {
    /// sizeof(cgpc_event).
    pub size: usize,
    /// The peer.
    pub id: u32,
    /// CGPC_PEER_UP or CGPC_PEER_LOST.
    pub kind: i32,
    /// The run of the peer: a restarted process of the same id has another number.
    pub incarnation: u64,
    /// CGPC_LOSS_LEFT and others, for a lost peer.
    pub loss: i32,
    /// Why, for people; cut to fit.
    pub reason: [c_char; 244],
}

/// Level-n data that are to be aggregated.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct cgpc_leveled {
    /// The level.
    pub level: u16,
    /// The data.
    pub data: *const c_void,
    /// Length of the data, bytes.
    pub data_len: usize,
}

versioned! {
    cgpc_options 136,
    cgpc_exchange 40,
    cgpc_network 48,
    cgpc_function_options 48,
    cgpc_streaming 40,
    cgpc_call_args 128,
    cgpc_error 48,
    cgpc_coverage 24,
    cgpc_event 272,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::pointers::Versioned;

    /// A structure that grows keeps the size of its first version here, and leaves this list.
    #[test]
    fn structures_have_the_sizes_of_their_first_version() {
        fn is_first<T: Versioned>() {
            assert_eq!(std::mem::size_of::<T>(), T::FIRST, "{}", T::NAME);
        }
        is_first::<cgpc_options>();
        is_first::<cgpc_exchange>();
        is_first::<cgpc_network>();
        is_first::<cgpc_function_options>();
        is_first::<cgpc_streaming>();
        is_first::<cgpc_call_args>();
        is_first::<cgpc_error>();
        is_first::<cgpc_coverage>();
        is_first::<cgpc_event>();
    }
}
