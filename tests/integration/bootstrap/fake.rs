//! A launcher's space within one process: a shared table, and a fence for all members.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use chained_gpc::Id;
use chained_gpc::bootstrap::{Space, SpaceError};

/// State that all processes share.
#[derive(Default)]
pub(crate) struct Table {
    state: Mutex<State>,
    came: Condvar,
}

#[derive(Default)]
struct State {
    values: BTreeMap<String, String>,
    /// Ids that wait at the fence.
    waiting: BTreeSet<Id>,
    /// Number of completed fences.
    passed: u32,
    /// Ids that have reported an orderly end.
    finished: BTreeSet<Id>,
}

impl Table {
    pub(crate) fn new() -> Arc<Table> {
        Arc::default()
    }

    /// The space as the process of an id sees it.
    pub(crate) fn space(self: &Arc<Table>, id: Id, count: u32) -> FakeSpace {
        FakeSpace { table: self.clone(), id, count, one_host: Some(true), fences: 0 }
    }

    /// Ids that have reported an orderly end.
    pub(crate) fn finished(&self) -> Vec<Id> {
        self.state.lock().unwrap().finished.iter().copied().collect()
    }

    /// Number of values in the table.
    pub(crate) fn len(&self) -> usize {
        self.state.lock().unwrap().values.len()
    }
}

pub(crate) struct FakeSpace {
    table: Arc<Table>,
    id: Id,
    count: u32,
    pub(crate) one_host: Option<bool>,
    fences: u32,
}

impl FakeSpace {
    fn error(&self, doing: &str, why: &str) -> SpaceError {
        SpaceError { launcher: self.launcher(), doing: doing.into(), why: why.into() }
    }
}

impl Space for FakeSpace {
    fn launcher(&self) -> &'static str {
        "fake"
    }

    fn id(&self) -> Id {
        self.id
    }

    fn count(&self) -> u32 {
        self.count
    }

    fn name(&self) -> &str {
        "fake-1"
    }

    fn one_host(&self) -> Option<bool> {
        self.one_host
    }

    fn value_max(&self) -> usize {
        255
    }

    fn put(&mut self, key: &str, value: &str, _: Duration) -> Result<(), SpaceError> {
        assert!(value.len() <= self.value_max() && key.len() <= 60, "{key}");
        let plain = |byte: u8| byte.is_ascii_graphic() && !b"=;".contains(&byte);
        assert!(value.bytes().all(plain), "{value}");
        let before = self.table.state.lock().unwrap().values.insert(key.into(), value.into());
        assert_eq!(before, None, "{key} is put once");
        Ok(())
    }

    fn fence(&mut self, limit: Duration) -> Result<(), SpaceError> {
        self.fences += 1;
        let mut state = self.table.state.lock().unwrap();
        assert!(state.waiting.insert(self.id), "each process waits once");
        if state.waiting.len() == self.count as usize {
            state.waiting.clear();
            state.passed += 1;
            self.table.came.notify_all();
        }
        let shut = |state: &mut State| state.passed < self.fences;
        let (state, ended) = self.table.came.wait_timeout_while(state, limit, shut).unwrap();
        match ended.timed_out() {
            true => {
                let missing: Vec<Id> = (0..self.count).filter(|id| !state.waiting.contains(id)).collect();
                Err(self.error("to wait at the fence", &format!("id {missing:?} did not come")))
            }
            false => Ok(()),
        }
    }

    fn get(&mut self, of: Id, key: &str, _: Duration) -> Result<String, SpaceError> {
        assert!(self.fences > 0, "what others put is there behind the fence");
        let found = self.table.state.lock().unwrap().values.get(key).cloned();
        found.ok_or_else(|| self.error(&format!("to get {key} of id {of}"), "there is none"))
    }

    fn finish(&mut self, _: Duration) -> Result<(), SpaceError> {
        self.table.state.lock().unwrap().finished.insert(self.id);
        Ok(())
    }
}
