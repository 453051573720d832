//! The functions of this layer that execute handlers: plain calls, chained calls, and the merge of replies.

use std::ffi::c_int;
use std::sync::Arc;

use chained_gpc::runtime::FunctionResult;
use chained_gpc::{ChildReply, Deferred, Reply, Request, WithCode};

use super::early::submit;
use super::jobs::{Form, Job, ids_of, parted, replied, room};
use super::levels;
use super::mutex::lock;
use super::shared::Shared;
use super::table::Missing;
use super::types::{CHAINED_PREFIX, ChainedCallback, Handler, gpc_hdl_t};
use crate::abi::callees::no_unwind;
use crate::status::CGPC_ERR_FUNCTION;

/// Executes a plain handler.
pub(super) fn exec(shared: &Arc<Shared>, level: usize, request: &Request<'_>, token: Deferred) {
    match Job::of(Form::Plain, level, request) {
        Ok(job) => submit(shared, job, token),
        Err(error) => token.fail(error),
    }
}

/// Executes the func of a chained call.
pub(super) fn chained(shared: &Arc<Shared>, level: usize, request: &Request<'_>, token: Deferred) {
    request.set_context(gpc_hdl_t { proc_: request.root() as c_int, ..gpc_hdl_t::EMPTY });
    match Job::of(Form::Chained, level, request) {
        Ok(job) => submit(shared, job, token),
        Err(error) => token.fail(error),
    }
}

/// Extends a reply to the room that a callback may use; returns the buffer and its length.
fn extended(part: &[u8], max: u64) -> Result<(Vec<u8>, c_int), WithCode> {
    let (mut buffer, room) = room(max)?;
    buffer.resize(buffer.len().max(part.len()), 0);
    buffer[..part.len()].copy_from_slice(part);
    Ok((buffer, room))
}

/// Merges a child's reply of a chained call by its callback, which was there when func began.
pub(super) fn merge(
    shared: &Shared,
    level: usize,
    request: &Request<'_>,
    child: &ChildReply<'_>,
    own: &mut Reply,
) -> FunctionResult {
    let ([_, callback, _], _) = parted(request.data(), CHAINED_PREFIX)?;
    let missing = |missing: Missing| {
        WithCode::new(CGPC_ERR_FUNCTION.into(), missing.in_words(request.me() as c_int, ""))
    };
    let handler = lock(&shared.handlers).table.one(callback).map_err(missing)?;
    // SAFETY: the application passed it as the callback of a chained call, which has this type.
    let handler: ChainedCallback = unsafe { std::mem::transmute::<Handler, ChainedCallback>(handler) };
    let limits = request.reply_limits();
    let (mut header, mut data) = (child.header.to_vec(), child.data.to_vec());
    let had = [own.header.len() as c_int, own.own_data().len() as c_int];
    let (mut rhdr, mut rhlen) = extended(&std::mem::take(&mut own.header), limits.header_max)?;
    let (mut rdata, mut rdlen) = extended(&std::mem::take(own.own_data()), limits.data_max)?;
    let mut ids = ids_of(request);
    let mut context = request.take_context::<gpc_hdl_t>().unwrap_or(gpc_hdl_t::EMPTY);
    // The lengths of this id's own reply: on entry, rhlen and rdlen are the room.
    context.ahdl.data[2..].copy_from_slice(&had);
    let merges = || {
        // SAFETY: as above; the buffers have these lengths, and live until the handler has returned.
        no_unwind(|| unsafe {
            handler(
                child.from as c_int,
                header.as_mut_ptr(),
                header.len() as c_int,
                data.as_mut_ptr(),
                data.len() as c_int,
                rhdr.as_mut_ptr(),
                &raw mut rhlen,
                rdata.as_mut_ptr(),
                &raw mut rdlen,
                ids.len() as c_int,
                ids.as_mut_ptr(),
                &raw mut context,
            )
        })
    };
    let code = levels::run(&shared.turn, level, merges);
    request.set_context(context);
    *own = replied(code, (rhdr, rhlen, "rhlen"), (rdata, rdlen, "rdlen"))?;
    Ok(())
}
