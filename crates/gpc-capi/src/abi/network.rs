//! Networks of the application: it sends and delivers the messages of a context.

use std::ffi::{c_char, c_int, c_void};
use std::io::IoSlice;
use std::sync::Arc;

use chained_gpc::runtime::AddressRow;
use chained_gpc::{HostNetwork, HostPort, Id, Node, NotDelivered, NotSent, Peers};

use super::callees::{Argument, no_unwind};
use super::context::{CGPC_POLLED, configure, listening, options_or_default};
use super::pointers::{border, object};
use super::types::{cgpc_context, cgpc_network, cgpc_options, cgpc_part};
use crate::context::{Context, Driven, PortCell, Running, Started};
use crate::error::{Error, Result};
use crate::status::*;

/// What `send` of a cgpc_network returns if the message cannot be taken now.
pub const CGPC_WOULD_BLOCK: c_int = 1;

/// Length of the longest message if the application names none, bytes.
const MESSAGE_MAX: usize = 64 << 10;

/// A network of the application.
struct CNetwork {
    send: unsafe extern "C-unwind" fn(u32, *const cgpc_part, usize, *mut c_void) -> c_int,
    message_max: usize,
    argument: Argument,
    port: PortCell,
}

impl HostNetwork for CNetwork {
    fn send(&self, to: Id, parts: &[IoSlice<'_>]) -> std::result::Result<(), NotSent> {
        let (first, arg) = (parts.as_ptr().cast::<cgpc_part>(), self.argument.pointer());
        // SAFETY: the documentation of `cgpc_network` says what the function gets. An `IoSlice` is a `struct iovec`, as
        // a `cgpc_part` is: a pointer and a length. The parts live during the call.
        match no_unwind(|| unsafe { (self.send)(to, first, parts.len(), arg) }) {
            0 => Ok(()),
            CGPC_WOULD_BLOCK => Err(NotSent::WouldBlock),
            code => Err(NotSent::Lost(format!("`send` returned {code}"))),
        }
    }

    fn message_max(&self) -> usize {
        self.message_max
    }

    fn starts(&self, port: HostPort) {
        self.port.set(port);
    }
}

/// Starts the node of a context whose messages go over a network of the application: its active messages, MPI, queues
/// between threads. The ids 0 to `count` - 1 are reached over it, but for those with an address of their own in the
/// option `peers`. The network keeps the messages of each pair of ids in order, and loses none unless it reports
/// cgpc_peer_lost. It says truly which id has sent a message: nothing is proved or encrypted.
///
/// Of the options, `id` is not used. Pass each message that arrives to cgpc_deliver, also while this function runs.
/// `network` itself is not used after the call. The argument is released when the context has ended, and if the start
/// fails.
///
/// Errors: CGPC_ERR_STATE if the context was started, CGPC_ERR_ARGUMENT, CGPC_ERR_SYSTEM. Not from within functions.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cgpc_start_network(
    context: *mut cgpc_context,
    network: *const cgpc_network,
    options: *const cgpc_options,
) -> c_int {
    // SAFETY: the documentation demands valid pointers.
    unsafe {
        border(|c| {
            let cgpc_network { id, count, send, message_max, arg, release, .. } = c.sized(network)?;
            // From here on the argument is released whatever happens.
            let argument = Argument::new(arg, release);
            let context = object::<Context, _>(context)?;
            let options = options_or_default(c, options)?;
            let send = send.ok_or_else(|| Error::argument("the field `send` is null"))?;
            if id >= count {
                let message = format!("the field `id` is {id}, and there are {count} processes");
                return Err(Error::argument(message));
            }
            let message_max = if message_max == 0 { MESSAGE_MAX } else { message_max };
            context.start(|| {
                let mut peers = Peers::from(AddressRow::host(0..count));
                if let Some(others) = c.text_if_any(options.peers, "peers")? {
                    others.parse::<Peers>()?.iter().for_each(|(id, address)| drop(peers.insert(id, address)));
                }
                context.set_place(id, count);
                let network = Arc::new(CNetwork { send, message_max, argument, port: context.port.clone() });
                let builder = configure(c, &options, Node::builder(id))?.peers(peers).host(network);
                let builder = builder.functions(context.registry.functions());
                let builder = listening(c, &options, builder)?;
                Ok(match options.flags & CGPC_POLLED {
                    0 => Started::running(Running::Node(builder.start()?), count),
                    _ => Started::polled(Driven::Node(Box::new(builder.polled()?)), count),
                })
            })?;
            Ok(CGPC_OK)
        })
    }
}

/// Delivers a whole message that another id has sent over the network of the application. The bytes are copied. What
/// waits for the context is bounded: a peer sends no more than it was told to. Never waits. May be called from any
/// thread, also within `send` of another context.
///
/// Errors: CGPC_ERR_STATE before cgpc_start_network, CGPC_ERR_DATA if the bytes are no message of a context,
/// CGPC_ERR_ENDED.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cgpc_deliver(
    context: *mut cgpc_context,
    from: u32,
    message: *const c_void,
    length: usize,
) -> c_int {
    // SAFETY: the documentation demands valid pointers.
    unsafe {
        border(|c| {
            let message = c.bytes(message, length, "message")?;
            port(context)?.deliver(from, message).map_err(|error| {
                let status = match error {
                    NotDelivered::Ended => CGPC_ERR_ENDED,
                    _ => CGPC_ERR_DATA,
                };
                Error::new(status, error.to_string())
            })?;
            Ok(CGPC_OK)
        })
    }
}

/// Reports that the network of the application cannot reach an id any more: its link is lost, and calls that need it
/// fail, or go on without it. `why` is for people; it may be null. A later process of the id may link again. May be
/// called from any thread.
///
/// Errors: CGPC_ERR_STATE before cgpc_start_network.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cgpc_peer_lost(context: *mut cgpc_context, id: u32, why: *const c_char) -> c_int {
    // SAFETY: the documentation demands valid pointers.
    unsafe {
        border(|c| {
            let why = c.text_if_any(why, "why")?.unwrap_or("the application does not say why");
            port(context)?.peer_lost(id, why);
            Ok(CGPC_OK)
        })
    }
}

/// Reports that the network of the application takes messages for an id again, after `send` returned CGPC_WOULD_BLOCK.
/// May be called from any thread.
///
/// Errors: CGPC_ERR_STATE before cgpc_start_network.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cgpc_writable(context: *mut cgpc_context, id: u32) -> c_int {
    // SAFETY: the documentation demands valid pointers.
    unsafe {
        border(|_| {
            port(context)?.writable(id);
            Ok(CGPC_OK)
        })
    }
}

/// Where the messages for a context are delivered.
fn port(context: *mut cgpc_context) -> Result<HostPort> {
    let none = || Error::new(CGPC_ERR_STATE, "the context has no network: call cgpc_start_network");
    object::<Context, _>(context)?.port.get().ok_or_else(none)
}
