//! Handlers: functions of the application, by the numbers that ARMCI gives them.

use std::ffi::c_int;

use super::types::Handler;

/// The number of the first handler; the next ones count down from it, as ARMCI's do.
const FIRST: c_int = -100;

/// Handlers by their place: none where one was released.
#[derive(Default)]
pub(super) struct Table(Vec<Option<Handler>>);

/// A handler that is not there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Missing {
    /// It may be registered later.
    Yet(c_int),
    Released(c_int),
    /// The number is not one of a handler.
    Never(c_int),
}

impl Missing {
    /// The failure of a call at a process, and why it does not wait.
    pub(super) fn in_words(self, process: c_int, why: &str) -> String {
        let why = if why.is_empty() { String::new() } else { format!(": {why}") };
        match self {
            Missing::Yet(handle) => format!("process {process} has not registered the handler {handle}{why}"),
            Missing::Released(handle) => format!("process {process} has released the handler {handle}"),
            Missing::Never(handle) => format!("{handle} is not the number of a handler"),
        }
    }
}

impl Table {
    pub(super) fn add(&mut self, handler: Handler) -> c_int {
        self.0.push(Some(handler));
        FIRST - (self.0.len() - 1) as c_int
    }

    /// The handler with a number.
    pub(super) fn one(&self, handle: c_int) -> std::result::Result<Handler, Missing> {
        match self.0.get(place(handle)) {
            Some(Some(handler)) => Ok(*handler),
            Some(None) => Err(Missing::Released(handle)),
            None if handle <= FIRST => Err(Missing::Yet(handle)),
            None => Err(Missing::Never(handle)),
        }
    }

    /// The func of a call; its callback, if it has one, is there, too.
    pub(super) fn find(&self, [func, callback]: [c_int; 2]) -> std::result::Result<Handler, Missing> {
        let func = self.one(func)?;
        if callback != 0 {
            self.one(callback)?;
        }
        Ok(func)
    }

    /// Releases the handler with a number, if there is one.
    pub(super) fn release(&mut self, handle: c_int) {
        if let Some(handler) = self.0.get_mut(place(handle)) {
            *handler = None;
        }
    }

    /// Whether no registration can change what becomes of a call of these handlers.
    pub(super) fn is_ready(&self, handles: [c_int; 2]) -> bool {
        !matches!(self.find(handles), Err(Missing::Yet(_)))
    }
}

fn place(handle: c_int) -> usize {
    usize::try_from(i64::from(FIRST) - i64::from(handle)).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    unsafe extern "C-unwind" fn handler() -> i32 {
        0
    }

    #[test]
    fn a_call_waits_only_for_handlers_that_may_still_come() {
        let mut table = Table::default();
        assert_eq!([table.add(handler), table.add(handler)], [-100, -101]);
        table.release(-101);
        table.release(7);
        let missing = |handles| table.find(handles).err();
        assert_eq!((missing([-100, 0]), missing([-100, -100])), (None, None));
        assert_eq!(
            (missing([-101, 0]), missing([-100, -101])),
            (Some(Missing::Released(-101)), Some(Missing::Released(-101)))
        );
        assert_eq!(
            (missing([-102, 0]), missing([-100, -103])),
            (Some(Missing::Yet(-102)), Some(Missing::Yet(-103)))
        );
        for number in [-99, 0, 7, c_int::MAX] {
            assert_eq!(missing([number, 0]), Some(Missing::Never(number)));
        }
        assert_eq!(missing([c_int::MIN, 0]), Some(Missing::Yet(c_int::MIN)));
        assert!(table.is_ready([-100, -101]) && table.is_ready([5, 0]) && !table.is_ready([-100, -102]));
    }

    #[test]
    fn a_missing_handler_is_named_with_its_process() {
        let words = Missing::Yet(-103).in_words(2, "the limit has passed");
        assert_eq!(words, "process 2 has not registered the handler -103: the limit has passed");
        assert_eq!(Missing::Released(-100).in_words(1, ""), "process 1 has released the handler -100");
    }
}
