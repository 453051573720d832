//! The work of a call at this process: a handler, its arguments, and room for its reply.

use std::ffi::c_int;

use chained_gpc::{Reply, Request, WithCode};

use super::levels::{self, Turn};
use super::types::{CHAINED_PREFIX, ChainedFunc, EXEC_PREFIX, Handler, Plain};
use crate::abi::callees::no_unwind;
use crate::status::CGPC_ERR_LENGTH;

/// Phases and results of plain handlers.
const GPC_INIT: c_int = 1;
const GPC_WAIT: c_int = 3;
const GPC_DONE: c_int = 4;

/// Longest reply header or data that a handler gets room for: the length is the caller's word.
const ROOM_MAX: u64 = 256 << 20;

/// The type of a handler: the argument of the call says it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Form {
    Plain,
    Chained,
}

/// A call at this process, with arguments of its own: handlers may change them, and expect them aligned.
pub(super) struct Job {
    form: Form,
    pub(super) level: usize,
    /// The handlers that it needs: func, and callback or 0.
    pub(super) handles: [c_int; 2],
    tree: c_int,
    pub(super) to: c_int,
    from: c_int,
    header: Vec<u8>,
    data: Vec<u8>,
    /// Room for reply header and reply data.
    rooms: [u64; 2],
    /// The ids of its subtree.
    ids: Vec<c_int>,
}

impl Job {
    /// The job of a request.
    ///
    /// # Errors
    /// If the request is not one of this layer.
    pub(super) fn of(form: Form, level: usize, request: &Request<'_>) -> Result<Job, WithCode> {
        let prefix = match form {
            Form::Plain => EXEC_PREFIX,
            Form::Chained => CHAINED_PREFIX,
        };
        let ([first, second, third], data) = parted(request.data(), prefix)?;
        let room = |length: c_int| u64::try_from(length).unwrap_or_default();
        let (handles, tree, rooms, ids) = match form {
            Form::Plain => ([first, 0], 0, [room(second), room(third)], Vec::new()),
            Form::Chained => {
                let limits = request.reply_limits();
                ([first, second], third, [limits.header_max, limits.data_max], ids_of(request))
            }
        };
        let (to, from) = (request.me() as c_int, request.root() as c_int);
        let (header, data) = (request.header().to_vec(), data.to_vec());
        Ok(Job { form, level, handles, tree, to, from, header, data, rooms, ids })
    }

    /// Bytes that it keeps while it waits.
    pub(super) fn bytes(&self) -> usize {
        self.header.len() + self.data.len() + self.ids.len() * size_of::<c_int>()
    }

    /// Executes it; `is_cancelled` says whether its reply is still wanted.
    ///
    /// # Errors
    /// The failure of the handler, or a reply for which there is no room.
    pub(super) fn run(
        self,
        turn: &Turn,
        handler: Handler,
        is_cancelled: impl Fn() -> bool,
    ) -> Result<Reply, WithCode> {
        let level = self.level;
        levels::run(turn, level, || match self.form {
            Form::Plain => self.plain(turn, handler, is_cancelled),
            Form::Chained => self.chained(handler),
        })
    }

    /// Calls a plain handler, until it is done.
    fn plain(
        mut self,
        turn: &Turn,
        handler: Handler,
        is_cancelled: impl Fn() -> bool,
    ) -> Result<Reply, WithCode> {
        // SAFETY: the application registered it for plain calls, whose handlers have this type; the argument of the
        // call says which type a number has.
        let handler: Plain = unsafe { std::mem::transmute::<Handler, Plain>(handler) };
        let [(mut rhdr, rhlen), (mut rdata, rdlen)] = [room(self.rooms[0])?, room(self.rooms[1])?];
        let (mut rhsize, mut rdsize, mut phase) = (0, 0, GPC_INIT);
        let code = loop {
            // SAFETY: as above; the buffers have these lengths, and live until the handler has returned.
            let code = no_unwind(|| unsafe {
                handler(
                    self.to,
                    self.from,
                    self.header.as_mut_ptr(),
                    self.header.len() as c_int,
                    self.data.as_mut_ptr(),
                    self.data.len() as c_int,
                    rhdr.as_mut_ptr(),
                    rhlen,
                    &raw mut rhsize,
                    rdata.as_mut_ptr(),
                    rdlen,
                    &raw mut rdsize,
                    phase,
                )
            });
            if code <= 0 || code == GPC_DONE || is_cancelled() {
                break code;
            }
            phase = GPC_WAIT;
            levels::while_waiting(turn, std::thread::yield_now);
        };
        replied(code, (rhdr, rhsize, "rhsize"), (rdata, rdsize, "rdsize"))
    }

    /// Calls the func of a chained call.
    fn chained(mut self, handler: Handler) -> Result<Reply, WithCode> {
        // SAFETY: the application passed it as the func of a chained call, which has this type.
        let handler: ChainedFunc = unsafe { std::mem::transmute::<Handler, ChainedFunc>(handler) };
        let [(mut rhdr, mut rhlen), (mut rdata, mut rdlen)] = [room(self.rooms[0])?, room(self.rooms[1])?];
        let [func, callback] = self.handles;
        // SAFETY: as above; the buffers have these lengths, and live until the handler has returned.
        let code = no_unwind(|| unsafe {
            handler(
                func,
                callback,
                self.header.as_mut_ptr(),
                self.header.len() as c_int,
                self.data.as_mut_ptr(),
                self.data.len() as c_int,
                rhdr.as_mut_ptr(),
                &raw mut rhlen,
                rdata.as_mut_ptr(),
                &raw mut rdlen,
                self.ids.len() as c_int,
                self.ids.as_mut_ptr(),
                self.tree,
            )
        });
        replied(code, (rhdr, rhlen, "rhlen"), (rdata, rdlen, "rdlen"))
    }
}

/// The numbers before the data, and the data.
pub(super) fn parted(data: &[u8], prefix: usize) -> Result<([c_int; 3], &[u8]), WithCode> {
    let (numbers, rest) = data.split_at_checked(prefix).ok_or_else(|| {
        WithCode::new(CGPC_ERR_LENGTH.into(), "the request is not one of this library's ARMCI layer")
    })?;
    let mut parsed = [0; 3];
    for (number, bytes) in parsed.iter_mut().zip(numbers.chunks_exact(4)) {
        *number = c_int::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
    }
    Ok((parsed, rest))
}

/// The ids of a subtree, as C has them.
pub(super) fn ids_of(request: &Request<'_>) -> Vec<c_int> {
    request.ids().iter().map(|id| id as c_int).collect()
}

/// The length of a room, as C has it.
fn room_length(max: u64) -> Result<c_int, WithCode> {
    c_int::try_from(max).ok().filter(|_| max <= ROOM_MAX).ok_or_else(|| {
        let message =
            format!("the caller takes replies of {max} bytes, and a handler has room for {ROOM_MAX} at most");
        WithCode::new(CGPC_ERR_LENGTH.into(), message)
    })
}

/// A buffer of a handler, and its length as C has it. Its memory is taken when it is written.
pub(super) fn room(max: u64) -> Result<(Vec<u8>, c_int), WithCode> {
    let length = room_length(max)?;
    Ok((vec![0; length as usize], length))
}

/// A buffer, what the handler says that it has written there, and the name of that argument.
type Written<'a> = (Vec<u8>, c_int, &'a str);

/// The reply of a handler that has returned a code.
pub(super) fn replied(code: c_int, header: Written<'_>, data: Written<'_>) -> Result<Reply, WithCode> {
    if code < 0 {
        return Err(WithCode::new(code.into(), format!("the handler returned {code}")));
    }
    Ok(Reply { header: cut(header)?, data: cut(data)?, ..Reply::default() })
}

/// Cuts a buffer to what a handler says that it has written.
fn cut((mut buffer, written, name): Written<'_>) -> Result<Vec<u8>, WithCode> {
    let length = usize::try_from(written).ok().filter(|length| *length <= buffer.len()).ok_or_else(|| {
        let message =
            format!("the handler set {name} to {written}, and the buffer has {} bytes", buffer.len());
        WithCode::new(CGPC_ERR_LENGTH.into(), message)
    })?;
    buffer.truncate(length);
    Ok(buffer)
}

#[cfg(test)]
impl Job {
    /// A job that needs these handlers.
    pub(super) fn needing(handles: [c_int; 2], level: usize, bytes: usize) -> Job {
        let (form, data) = (Form::Plain, vec![0; bytes]);
        let (header, ids, rooms) = (Vec::new(), Vec::new(), [0; 2]);
        Job { form, level, handles, tree: 0, to: 0, from: 0, header, data, rooms, ids }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The length is the caller's word: a handler had room for any, and the memory was taken.
    #[test]
    fn a_handler_has_room_for_256_mib_at_most() {
        assert_eq!(room_length(256 << 20).unwrap(), 256 << 20);
        for max in [(256 << 20) + 1, 1 << 31, u64::MAX] {
            let Err(error) = room(max) else { panic!("a room of {max} bytes") };
            assert_eq!(error.code(), i64::from(CGPC_ERR_LENGTH));
            assert_eq!(
                error.to_string(),
                format!(
                    "the caller takes replies of {max} bytes, and a handler has room for 268435456 at most"
                )
            );
        }
        assert_eq!(room(3).unwrap(), (vec![0; 3], 3));
    }

    #[test]
    fn a_reply_is_what_the_handler_has_written() {
        let buffer = || vec![7; 4];
        let reply = replied(4, (buffer(), 0, "rhsize"), (buffer(), 4, "rdsize")).unwrap();
        assert_eq!((reply.header, reply.data), (vec![], vec![7; 4]));
        for written in [-1, 5] {
            let error = replied(0, (buffer(), 1, "rhsize"), (buffer(), written, "rdsize")).unwrap_err();
            assert_eq!(error.code(), i64::from(CGPC_ERR_LENGTH));
            assert!(error.to_string().contains(&format!("rdsize to {written}")), "{error}");
        }
        assert_eq!(replied(-7, (buffer(), 0, ""), (buffer(), 0, "")).unwrap_err().code(), -7);
    }

    #[test]
    fn a_request_begins_with_its_numbers() {
        let data: Vec<u8> =
            [-100, 5, c_int::MIN].iter().flat_map(|number: &c_int| number.to_le_bytes()).collect();
        let with = [&*data, b"rest"].concat();
        assert_eq!(parted(&with, EXEC_PREFIX).unwrap(), ([-100, 5, c_int::MIN], &b"rest"[..]));
        assert!(parted(&data[..11], EXEC_PREFIX).is_err());
    }
}
