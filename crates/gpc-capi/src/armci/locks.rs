//! The lock of each process, which callers and handlers take in turn.
//!
//! The process whose lock it is keeps the queue. While others wait, it watches the holder by a call that ends only with
//! the holder: a lost holder gives nothing back, so those that wait fail, and the lock is free.

use std::ffi::c_int;
use std::sync::Arc;

use chained_gpc::runtime::FunctionResult;
use chained_gpc::{CallError, CauseKind, Deferred, Outcome, Reply, Request, WithCode};

use super::lock_queue::Watch;
use super::mutex::lock;
use super::shared::{Layer, Shared, layer};
use crate::abi::pointers::border;
use crate::error::Result;
use crate::status::{CGPC_ERR_CALL, CGPC_OK};

/// Waits until this process has the lock of a process. 0, or a negative status: also if the holder was lost.
#[unsafe(no_mangle)]
pub extern "C" fn ARMCI_Gpc_lock(proc: c_int) -> c_int {
    // SAFETY: no pointer is followed.
    unsafe { border(|_| acquire(&*layer()?, proc, b"w").map(|_| CGPC_OK)) }
}

/// Takes the lock of a process if it is free: 1 if this process has it now, else 0; or a negative status.
#[unsafe(no_mangle)]
pub extern "C" fn ARMCI_Gpc_trylock(proc: c_int) -> c_int {
    // SAFETY: no pointer is followed.
    unsafe { border(|_| Ok(acquire(&*layer()?, proc, b"t")?.into())) }
}

/// Gives the lock of a process back. 0, or a negative status if this process does not have it.
#[unsafe(no_mangle)]
pub extern "C" fn ARMCI_Gpc_unlock(proc: c_int) -> c_int {
    // SAFETY: no pointer is followed.
    unsafe {
        border(|_| {
            let layer = layer()?;
            layer.run(layer.call_at(layer.numbers.unlock, proc)?)?;
            Ok(CGPC_OK)
        })
    }
}

/// Whether the lock was taken.
fn acquire(layer: &Layer, proc: c_int, how: &'static [u8]) -> Result<bool> {
    let outcome = layer.run(layer.call_at(layer.numbers.lock, proc)?.header(how))?;
    Ok(outcome.reply(proc as u32).is_some_and(|reply| reply.data == b"y"))
}

fn answer(token: Deferred, taken: bool) {
    let data = if taken { b"y".to_vec() } else { b"n".to_vec() };
    token.reply(Reply { data, ..Reply::default() });
}

/// Takes the lock for the caller, now or when it is free.
pub(super) fn take(shared: &Arc<Shared>, request: &Request<'_>, token: Deferred) {
    let mut queue = lock(&shared.lock);
    let caller = request.root();
    let answered = match queue.holder {
        None => {
            // A free lock has no watch.
            queue.pass_to(Some(caller)).end();
            Some((token, true))
        }
        Some(_) if request.header() == b"t" => Some((token, false)),
        Some(_) => {
            // Callers that have given up take no place.
            queue.waiting.retain(|(_, token)| !token.is_cancelled());
            queue.waiting.push_back((caller, token));
            None
        }
    };
    let watched = match &answered {
        Some((_, true)) => None,
        _ => queue.begin_watch(request.me()),
    };
    drop(queue);
    if let Some((token, taken)) = answered {
        answer(token, taken);
    }
    if let Some(watched) = watched {
        watch(shared, watched);
    }
}

/// Gives the lock to the next one that waits for it.
pub(super) fn give_back(shared: &Arc<Shared>, request: &Request<'_>, _reply: &mut Reply) -> FunctionResult {
    let mut queue = lock(&shared.lock);
    if queue.holder != Some(request.root()) {
        return Err(
            format!("process {} does not have the lock of process {}", request.root(), request.me()).into()
        );
    }
    // Callers that have given up are passed over.
    let next = loop {
        match queue.waiting.pop_front() {
            Some((_, token)) if token.is_cancelled() => {}
            next => break next,
        }
    };
    let before = queue.pass_to(next.as_ref().map(|(caller, _)| *caller));
    let watched = if queue.waiting.is_empty() { None } else { queue.begin_watch(request.me()) };
    drop(queue);
    before.end();
    if let Some((_, token)) = next {
        answer(token, true);
    }
    if let Some(watched) = watched {
        watch(shared, watched);
    }
    Ok(())
}

/// Watches a holder, by a call to it that ends when it is lost.
fn watch(shared: &Arc<Shared>, (holder, number): (u32, u64)) {
    let started =
        shared.home().and_then(|home| home.context.call(home.call_at(home.numbers.held, holder as i32)?));
    let canceller = started.as_ref().ok().map(|call| call.canceller());
    if let Ok(call) = started {
        let shared = shared.clone();
        call.on_end(move |ended| holder_ended(&shared, (holder, number), &ended));
    }
    let mut queue = lock(&shared.lock);
    // If the lock was passed on meanwhile, or the holder was lost, nothing is left to watch.
    let is_current = queue.holders == number && matches!(queue.watch, Watch::Starting);
    let watch = canceller.map_or(Watch::None, Watch::Watching);
    match is_current {
        true => queue.watch = watch,
        false => {
            drop(queue);
            watch.end();
        }
    }
}

/// Ends the wait for a holder whose watch has ended.
fn holder_ended(
    shared: &Shared,
    (holder, number): (u32, u64),
    ended: &std::result::Result<Outcome, CallError>,
) {
    let why = match ended {
        Err(CallError::Failed(failure)) => failure.cause().clone(),
        // This process ends, or the call was ended here.
        _ => return,
    };
    let mut queue = lock(&shared.lock);
    if queue.holders != number {
        return;
    }
    queue.watch = Watch::None;
    // A holder that is busy is not lost: the next caller that waits tries again.
    if matches!(why.kind, CauseKind::Busy | CauseKind::NoMemory | CauseKind::Cancelled | CauseKind::TimeLimit)
    {
        return;
    }
    let waiting = std::mem::take(&mut queue.waiting);
    queue.pass_to(None).end();
    drop(queue);
    for (_, token) in waiting {
        let message = format!("process {holder}, which had the lock, was lost: {why}");
        token.fail(WithCode::new(CGPC_ERR_CALL.into(), message));
    }
}

/// Answers a process whose lock this one has: when it leaves, or not at all.
pub(super) fn held(shared: &Arc<Shared>, _request: &Request<'_>, token: Deferred) {
    let mut watchers = lock(&shared.watchers);
    // At most one for each process that is watched at present.
    watchers.retain(|watcher| !watcher.is_cancelled());
    watchers.push(token);
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::armci::levels;
    use crate::armci::process::{end, started};
    use crate::status::CGPC_ERR_CALL;

    /// Two handlers that waited for each other's locks waited for 30 days.
    #[test]
    fn a_handler_waits_for_a_lock_within_its_limit() {
        let layer = started(Duration::from_millis(50)).unwrap();
        assert!(acquire(&layer, 0, b"w").unwrap(), "the application has it");
        let error = levels::run(&layer.shared.turn, 0, || acquire(&layer, 0, b"w").unwrap_err());
        assert_eq!(error.status, CGPC_ERR_CALL);
        let begin =
            "a handler of process 0 has waited 50ms: do handlers or holders of locks wait for each other?";
        assert!(error.message.starts_with(begin), "{}", error.message);
        assert!(!acquire(&layer, 0, b"t").unwrap());
        layer.run(layer.call_at(layer.numbers.unlock, 0).unwrap()).unwrap();
        assert!(acquire(&layer, 0, b"t").unwrap(), "the handler has given up");
        let gives_back = || layer.run(layer.call_at(layer.numbers.unlock, 0).unwrap()).map(drop);
        gives_back().unwrap();
        let error = gives_back().unwrap_err();
        assert!(error.message.contains("process 0 does not have the lock of process 0"), "{}", error.message);
        end(&layer).unwrap();
    }
}
