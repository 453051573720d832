//! The lock of each process, which callers and handlers take in turn.

use std::ffi::c_int;

use chained_gpc::runtime::FunctionResult;
use chained_gpc::{Deferred, Reply, Request};

use super::shared::{Layer, Shared, layer, lock};
use crate::abi::pointers::border;
use crate::error::Result;
use crate::status::CGPC_OK;

/// Waits until this process has the lock of a process. 0, or a negative status.
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
pub(super) fn take(shared: &Shared, request: &Request<'_>, token: Deferred) {
    let mut queue = lock(&shared.lock);
    let caller = request.root();
    match queue.holder {
        None => queue.holder = Some(caller),
        Some(_) if request.header() == b"t" => {
            drop(queue);
            return answer(token, false);
        }
        Some(_) => return queue.waiting.push_back((caller, token)),
    }
    drop(queue);
    answer(token, true);
}

/// Gives the lock to the next one that waits for it.
pub(super) fn give_back(shared: &Shared, request: &Request<'_>, _reply: &mut Reply) -> FunctionResult {
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
    queue.holder = next.as_ref().map(|(caller, _)| *caller);
    drop(queue);
    if let Some((_, token)) = next {
        answer(token, true);
    }
    Ok(())
}
