//! Shared by the tests: limits on every wait, and the functions that they call.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use chained_gpc::runtime::{IdReply, ReplyRef};
use chained_gpc::wire::level::{Leaves, Limits};
use chained_gpc::{
    CallError, CallHandle, Cause, Deferred, FuncHandle, Functions, Id, IdList, LinkKind, Outcome, Stage,
};
use gpc_test_support::nodes::LocalNodes;

/// No wait in these tests takes a tenth of this; a longer one is a hang.
pub(crate) const LIMIT: Duration = Duration::from_secs(30);

/// A func whose replies the test gives.
pub(crate) fn hold(functions: &Functions) -> (FuncHandle, mpsc::Receiver<Deferred>) {
    let (tokens, held) = mpsc::channel();
    let hold = functions.deferring("hold", move |_, token| {
        // A test that has ended wants no more tokens.
        let _ = tokens.send(token);
    });
    (hold.expect("a name of its own"), held)
}

/// The kinds of links that `LocalNodes` supports.
pub(crate) const LINKS: [LinkKind; 4] = [LinkKind::Tcp, LinkKind::Unix, LinkKind::Shm, LinkKind::Memory];

/// Those whose nodes listen at an address.
pub(crate) const LISTENING: [LinkKind; 3] = [LinkKind::Tcp, LinkKind::Unix, LinkKind::Shm];

/// Runs a test on a thread of its own, and fails if it does not end: shutting a node down joins its thread, which has
/// no limit.
pub(crate) fn limited(body: impl FnOnce() + Send + 'static) {
    let (done, ended) = mpsc::channel::<Result<(), Box<dyn Any + Send>>>();
    thread::spawn(move || {
        // The receiver exists until a result arrives or the test has failed.
        let _ = done.send(catch_unwind(AssertUnwindSafe(body)));
    });
    match ended.recv_timeout(2 * LIMIT) {
        Ok(Ok(())) => {}
        Ok(Err(panic)) => resume_unwind(panic),
        Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => panic!("the test hangs"),
    }
}

/// The end of a call, within the limit.
pub(crate) fn end_of(mut handle: CallHandle) -> Result<Outcome, CallError> {
    handle.wait_for(LIMIT).expect("the call ends")
}

/// The outcome of a call that must succeed.
pub(crate) fn outcome_of(handle: CallHandle) -> Outcome {
    end_of(handle).unwrap_or_else(|error| panic!("the call is to go well, but: {error}"))
}

/// The replies of a call that must succeed.
pub(crate) fn replies_of(handle: CallHandle) -> Vec<IdReply> {
    let outcome = outcome_of(handle);
    let replies = outcome.replies().expect("replies of this protocol");
    let lent = outcome.replies_ref().expect("as the others");
    assert!(replies.iter().map(|IdReply { id, header, data }| ReplyRef { id: *id, header, data }).eq(lent));
    // Each part of the aggregate, in tree order: headers and data must have the same parts.
    if outcome.ids().len() as usize == replies.len() {
        let by_id = |id| replies.iter().find(|reply| reply.id == id).expect("every id has replied");
        let in_tree_order = || outcome.ids().iter().map(by_id);
        let leaves =
            |blob| Leaves::new(outcome.level(), blob, Limits::default()).map(|leaf| leaf.expect("good data"));
        assert!(leaves(outcome.header()).eq(in_tree_order().map(|reply| &reply.header[..])));
        assert!(leaves(outcome.data()).eq(in_tree_order().map(|reply| &reply.data[..])));
    }
    // Lookup by id gives the same, except for values that could not be merged, which belong to no single id.
    let is_one_of_many = |id| replies.iter().filter(|reply| reply.id == id).count() > 1;
    for IdReply { id, header, data } in replies.iter().filter(|reply| !is_one_of_many(reply.id)) {
        assert_eq!(outcome.reply(*id), Some(ReplyRef { id: *id, header, data }));
    }
    replies
}

/// The ids that have replied, in the order of their replies.
pub(crate) fn ids_of(replies: &[IdReply]) -> Vec<Id> {
    replies.iter().map(|reply| reply.id).collect()
}

/// The first cause of a call that must fail.
pub(crate) fn cause_of(handle: CallHandle) -> Cause {
    match end_of(handle) {
        Err(CallError::Failed(failed)) => failed.cause().clone(),
        other => panic!("the call is to fail at some id, but: {other:?}"),
    }
}

/// Checks id and stage of a failure, and that its message contains these words.
pub(crate) fn assert_cause(cause: &Cause, id: Id, stage: Stage, words: &str) {
    assert_eq!((cause.id, cause.stage), (id, stage), "{cause}");
    assert!(cause.message.contains(words), "`{}` lacks `{words}`", cause.message);
}

/// Parses an id list.
pub(crate) fn ids(text: &str) -> IdList {
    text.parse().expect("an id list")
}

/// Each id replies with its id, and with the request's header after a mark of its own.
pub(crate) fn who(functions: &Functions) -> FuncHandle {
    let who = functions.func("who", |request, reply| {
        reply.data = format!("id {}", request.me()).into_bytes();
        reply.header = [request.me().to_string().as_bytes(), b" got ", request.header()].concat();
        Ok(())
    });
    who.expect("a name of its own")
}

/// Nodes with the function `who`.
pub(crate) fn nodes_of_who(n: u32, link: LinkKind) -> (LocalNodes, FuncHandle) {
    let functions = Functions::new();
    let who = who(&functions);
    (LocalNodes::start(n, link, &functions).expect("nodes start"), who)
}

/// Checks that these ids have replied as `who` does, in this order.
pub(crate) fn assert_who(replies: &[IdReply], ids: &[Id], header: &str) {
    assert_eq!(ids_of(replies), ids);
    for reply in replies {
        assert_eq!(reply.data, format!("id {}", reply.id));
        assert_eq!(reply.header, format!("{} got {header}", reply.id));
    }
}

/// Checksum of bytes: FNV-1a with 64 bits.
pub(crate) fn checksum(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3))
}

/// Bytes without repetition, so that a part in the wrong place is detected.
pub(crate) fn noise(len: usize, seed: u64) -> Vec<u8> {
    let mut state = seed | 1;
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(len);
    bytes
}
