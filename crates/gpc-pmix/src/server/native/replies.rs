//! Replies to upcalls: the callbacks of libpmix, each called once with the node's answer.
#![allow(unsafe_code)]

use std::ffi::{CString, c_void};
use std::ptr;

use super::info_array::InfoArray;
use super::lent::Lent;
use crate::abi::server::{InfoCallback, LookupCallback, ModexCallback, OpCallback, SpawnCallback};
use crate::abi::{ERROR, NOT_FOUND, SUCCESS, Status};
use crate::server::orders::{Answer, Info, Process};

/// The pointer that libpmix gets back with its callback.
pub(in crate::server) struct Caller(pub(super) *mut c_void);

// SAFETY: libpmix allows its callbacks to be called by any thread; this crate does not use the pointer itself.
unsafe impl Send for Caller {}

/// How an upcall is answered.
pub(in crate::server) enum Reply {
    Done(Option<OpCallback>, Caller),
    Data(Option<ModexCallback>, Caller),
    Found(Option<LookupCallback>, Caller),
    Spawned(Option<SpawnCallback>, Caller),
    Info(Option<InfoCallback>, Caller),
}

impl Reply {
    /// Whether the reply is for this caller.
    pub(super) fn is_of(&self, data: *mut c_void) -> bool {
        let (Reply::Done(_, caller)
        | Reply::Data(_, caller)
        | Reply::Found(_, caller)
        | Reply::Spawned(_, caller)
        | Reply::Info(_, caller)) = self;
        caller.0 == data
    }

    /// Whether the callback changes libpmix's own state, so that it must run on libpmix's thread. The others pass their
    /// arguments to that thread themselves.
    pub(super) fn is_bound_to_thread(&self) -> bool {
        matches!(self, Reply::Found(..) | Reply::Info(..))
    }

    /// Calls the callback. An answer of another kind is an error for the process.
    pub(in crate::server) fn send(self, answer: Result<Answer, Status>) {
        // A node that answers an error with the number of success has answered an error.
        let answer = answer.map_err(|status| if status == SUCCESS { ERROR } else { status });
        match self {
            Reply::Done(Some(callback), Caller(caller)) => {
                let status = done(answer);
                // SAFETY: the callback and the pointer are of one upcall, and used once. So are those below.
                unsafe { callback(status, caller) };
            }
            Reply::Info(Some(callback), Caller(caller)) => send_infos(callback, caller, answer),
            Reply::Data(Some(callback), Caller(caller)) => send_data(callback, caller, answer),
            Reply::Found(Some(callback), Caller(caller)) => send_found(callback, caller, answer),
            Reply::Spawned(Some(callback), Caller(caller)) => send_spawned(callback, caller, answer),
            // Without a callback, libpmix does not wait for the answer.
            Reply::Done(None, _)
            | Reply::Info(None, _)
            | Reply::Data(None, _)
            | Reply::Found(None, _)
            | Reply::Spawned(None, _) => {}
        }
    }
}

fn done(answer: Result<Answer, Status>) -> Status {
    match answer {
        Ok(Answer::Done) => SUCCESS,
        Ok(_) => ERROR,
        Err(status) => status,
    }
}

/// libpmix reads the data later, on its own thread, and then releases them.
fn send_data(callback: ModexCallback, caller: *mut c_void, answer: Result<Answer, Status>) {
    let data = match answer {
        Ok(Answer::Data(data)) => data,
        Ok(Answer::Done) => Vec::new(),
        other => {
            let status = done(other);
            // SAFETY: the callback and the pointer are of one upcall, and used once.
            return unsafe { callback(status, ptr::null(), 0, caller, None, ptr::null_mut()) };
        }
    };
    if data.is_empty() {
        // SAFETY: as above.
        return unsafe { callback(SUCCESS, ptr::null(), 0, caller, None, ptr::null_mut()) };
    }
    let kept = Box::new(data);
    let (first, size) = (kept.as_ptr(), kept.len());
    let kept = Box::into_raw(kept).cast::<c_void>();
    // SAFETY: as above. The data stay until `release` is called with them.
    unsafe { callback(SUCCESS, first.cast(), size, caller, Some(release), kept) };
}

/// Frees the data of an answer.
unsafe extern "C" fn release(kept: *mut c_void) {
    // SAFETY: libpmix passes the pointer of `send_data` once, after it has used the data.
    drop(unsafe { Box::from_raw(kept.cast::<Vec<u8>>()) });
}

/// libpmix reads the pairs later, on its own thread, and then releases them.
fn send_infos(callback: InfoCallback, caller: *mut c_void, answer: Result<Answer, Status>) {
    let (status, array) = match answer {
        Ok(Answer::Infos(infos)) => match InfoArray::new(&infos) {
            Some(array) => (SUCCESS, Some(array)),
            None => (ERROR, None),
        },
        other => (done(other), None),
    };
    let Some(array) = array.filter(|array| array.count() > 0) else {
        // SAFETY: the callback and the pointer are of one upcall, and used once. There is nothing to release.
        return unsafe { callback(status, ptr::null_mut(), 0, caller, None, ptr::null_mut()) };
    };
    let (first, count) = (array.first(), array.count());
    let kept = Box::into_raw(Box::new(array)).cast::<c_void>();
    // SAFETY: as above. The pairs stay until `release_infos` is called with them.
    unsafe { callback(status, first, count, caller, Some(release_infos), kept) };
}

/// Frees the pairs of an answer.
unsafe extern "C" fn release_infos(kept: *mut c_void) {
    // SAFETY: libpmix passes the pointer of `send_infos` once, after it has used the pairs.
    drop(unsafe { Box::from_raw(kept.cast::<InfoArray>()) });
}

/// libpmix copies the pairs before the callback returns.
fn send_found(callback: LookupCallback, caller: *mut c_void, answer: Result<Answer, Status>) {
    let found: Vec<(Process, Info)> = match answer {
        Ok(Answer::Found(found)) => found,
        other => {
            let status = done(other);
            let status = if status == SUCCESS { ERROR } else { status };
            // SAFETY: the callback and the pointer are of one upcall, and used once.
            return unsafe { callback(status, ptr::null_mut(), 0, caller) };
        }
    };
    let mut lent = Lent::default();
    match lent.published(&found) {
        // SAFETY: as above; the pairs live until the callback has returned.
        Ok(first) if !found.is_empty() => unsafe { callback(SUCCESS, first, found.len(), caller) },
        // SAFETY: as above.
        Ok(_) => unsafe { callback(NOT_FOUND, ptr::null_mut(), 0, caller) },
        // SAFETY: as above.
        Err(_) => unsafe { callback(ERROR, ptr::null_mut(), 0, caller) },
    }
}

/// libpmix copies the namespace before the callback returns.
fn send_spawned(callback: SpawnCallback, caller: *mut c_void, answer: Result<Answer, Status>) {
    let (status, namespace) = match answer {
        Ok(Answer::Spawned(namespace)) => match CString::new(namespace) {
            Ok(namespace) => (SUCCESS, namespace),
            Err(_) => (ERROR, CString::default()),
        },
        Ok(_) => (ERROR, CString::default()),
        Err(status) => (status, CString::default()),
    };
    let first = if status == SUCCESS { namespace.as_ptr().cast_mut() } else { ptr::null_mut() };
    // SAFETY: the callback and the pointer are of one upcall, and used once; the text lives until it has returned.
    unsafe { callback(status, first, caller) };
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::ffi::{CStr, c_char};
    use std::slice;

    use super::*;
    use crate::abi::server::ReleaseCallback;
    use crate::abi::{PublishedData, STRING};
    use crate::server::orders::Value;

    thread_local! {
        /// What the callbacks of a test were called with.
        static CALLS: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
    }

    fn note(call: String) {
        CALLS.with_borrow_mut(|calls| calls.push(call));
    }

    fn calls() -> Vec<String> {
        CALLS.with_borrow_mut(std::mem::take)
    }

    unsafe extern "C" fn on_done(status: Status, caller: *mut c_void) {
        note(format!("done {status} {}", caller.addr()));
    }

    unsafe extern "C" fn on_data(
        status: Status,
        data: *const c_char,
        size: usize,
        caller: *mut c_void,
        release: Option<ReleaseCallback>,
        kept: *mut c_void,
    ) {
        // SAFETY: the data are valid until they are released.
        let data = if size == 0 { &[] } else { unsafe { slice::from_raw_parts(data.cast::<u8>(), size) } };
        note(format!("data {status} {data:?} {} {}", caller.addr(), release.is_some()));
        if let Some(release) = release {
            // SAFETY: it is released once.
            unsafe { release(kept) };
        }
    }

    unsafe extern "C" fn on_found(
        status: Status,
        found: *mut PublishedData,
        count: usize,
        caller: *mut c_void,
    ) {
        // SAFETY: there are this many pairs.
        let found = if count == 0 { &[] } else { unsafe { slice::from_raw_parts(found, count) } };
        let ranks: Vec<u32> = found.iter().map(|pair| pair.process.rank).collect();
        let is_text = found.iter().all(|pair| pair.value.kind == STRING);
        note(format!("found {status} {ranks:?} {is_text} {}", caller.addr()));
    }

    unsafe extern "C" fn on_spawned(status: Status, namespace: *mut c_char, caller: *mut c_void) {
        // SAFETY: it is a text or null.
        let name = if namespace.is_null() { c"none" } else { unsafe { CStr::from_ptr(namespace) } };
        note(format!("spawned {status} {} {}", name.to_str().unwrap(), caller.addr()));
    }

    unsafe extern "C" fn on_info(
        status: Status,
        infos: *mut crate::abi::Info,
        count: usize,
        caller: *mut c_void,
        release: Option<ReleaseCallback>,
        kept: *mut c_void,
    ) {
        // SAFETY: there are this many pairs, until they are released.
        let infos = if count == 0 { &mut [] } else { unsafe { slice::from_raw_parts_mut(infos, count) } };
        let kinds: Vec<u16> = infos.iter().map(|info| info.value.kind).collect();
        note(format!("info {status} {kinds:?} {} {}", caller.addr(), release.is_some()));
        if let Some(release) = release {
            // SAFETY: it is released once.
            unsafe { release(kept) };
        }
    }

    #[test]
    fn infos_are_lent_until_they_are_released() {
        let infos = vec![Info::new("id", Value::size(7)), Info::new("data", Value::object(vec![1, 2, 3]))];
        let mut unusable = infos.clone();
        unusable[0].value.bytes.clear();
        let answers = [
            Ok(Answer::Infos(infos)),
            Ok(Answer::Infos(Vec::new())),
            Ok(Answer::Done),
            Err(-24),
            Ok(Answer::Infos(unusable)),
        ];
        for answer in answers {
            Reply::Info(Some(on_info), caller()).send(answer);
        }
        let expected = [
            "info 0 [4, 27] 77 true",
            "info 0 [] 77 false",
            "info 0 [] 77 false",
            "info -24 [] 77 false",
            "info -1 [] 77 false",
        ];
        assert_eq!(calls(), expected);
    }

    fn caller() -> Caller {
        Caller(ptr::without_provenance_mut(77))
    }

    #[test]
    fn each_answer_reaches_its_callback_once() {
        Reply::Done(Some(on_done), caller()).send(Ok(Answer::Done));
        Reply::Done(Some(on_done), caller()).send(Err(-25));
        Reply::Data(Some(on_data), caller()).send(Ok(Answer::Data(vec![1, 2])));
        Reply::Data(Some(on_data), caller()).send(Ok(Answer::Done));
        Reply::Data(Some(on_data), caller()).send(Err(-46));
        let process = Process { namespace: "job".into(), rank: 5 };
        let info = Info::new("k", Value::text("v"));
        Reply::Found(Some(on_found), caller()).send(Ok(Answer::Found(vec![(process, info)])));
        Reply::Found(Some(on_found), caller()).send(Ok(Answer::Found(Vec::new())));
        Reply::Found(Some(on_found), caller()).send(Err(-1));
        Reply::Spawned(Some(on_spawned), caller()).send(Ok(Answer::Spawned("job.2".into())));
        Reply::Spawned(Some(on_spawned), caller()).send(Err(-10));
        let expected = [
            "done 0 77",
            "done -25 77",
            "data 0 [1, 2] 77 true",
            "data 0 [] 77 false",
            "data -46 [] 77 false",
            "found 0 [5] true 77",
            "found -46 [] true 77",
            "found -1 [] true 77",
            "spawned 0 job.2 77",
            "spawned -10 none 77",
        ];
        assert_eq!(calls(), expected);
    }

    #[test]
    fn an_answer_of_another_kind_or_an_error_without_a_number_is_an_error() {
        Reply::Done(Some(on_done), caller()).send(Ok(Answer::Data(vec![1])));
        Reply::Done(Some(on_done), caller()).send(Err(0));
        Reply::Data(Some(on_data), caller()).send(Ok(Answer::Spawned("x".into())));
        Reply::Found(Some(on_found), caller()).send(Ok(Answer::Done));
        Reply::Spawned(Some(on_spawned), caller()).send(Ok(Answer::Spawned("a\0b".into())));
        Reply::Done(None, caller()).send(Ok(Answer::Done));
        let expected =
            ["done -1 77", "done -1 77", "data -1 [] 77 false", "found -1 [] true 77", "spawned -1 none 77"];
        assert_eq!(calls(), expected);
    }
}
