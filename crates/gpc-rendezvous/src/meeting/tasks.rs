//! Functions and state that every task of a job needs for its meetings.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use chained_gpc::{
    Access, Deferred, FuncHandle, Functions, FunctionsError, Id, IdList, Node, Placement, Reply, Request,
};

use super::{Ended, MeetError, Plan};
use crate::machine::{Answer, Completion, Fault, FaultKind};
use crate::native::{VERSION, decode_answer, encode_answer};

/// Most meetings that may be announced before this task joins them. A job has one meeting at a time, and begins the
/// next when it is over.
const AHEAD_MAX: u64 = 4;

/// Announcements that the controlling task retains for tasks that these did not reach. No task is further behind,
/// because the others wait for it at the next meeting.
const KEPT: usize = 2;

/// Bytes before the answer in the header of an announcement: the version, and the number of the meeting.
const PREFIX: usize = 9;

/// One task's part in the meetings of its job. Clones share the state.
///
/// The functions are registered beside those of the program, with names that begin with `gpc.rendezvous.`; so each task
/// needs its own [`Functions`]. They are restricted to links that are [proved](Access::Proved), and obey the
/// controlling task alone, as far as members vouch for it: see [the module](super).
#[derive(Clone, Debug)]
pub struct Tasks {
    pub(super) shared: Arc<Shared>,
}

/// State shared by the functions and a waiting task.
#[derive(Debug)]
pub(super) struct Shared {
    /// The controlling task.
    pub(super) controlling: Id,
    pub(super) functions: Handles,
    state: Mutex<State>,
    changed: Condvar,
    /// Held during a meeting: a task is in one meeting at a time.
    meeting: Mutex<()>,
}

/// Handles of the functions.
#[derive(Clone, Copy, Debug)]
pub(super) struct Handles {
    /// Receives an announcement.
    pub(super) announce: FuncHandle,
    /// Replies with the task's data, once the task has joined the meeting.
    pub(super) gather: FuncHandle,
    /// Replies with the announcement, if there is one.
    pub(super) announced: FuncHandle,
}

impl Handles {
    fn new() -> Handles {
        Handles {
            announce: FuncHandle::named("gpc.rendezvous.announce"),
            gather: FuncHandle::named("gpc.rendezvous.gather"),
            announced: FuncHandle::named("gpc.rendezvous.announced"),
        }
    }
}

#[derive(Debug, Default)]
struct State {
    /// Number of the meeting that this task is in, or joins next. All tasks of a job count the same meetings.
    current: u64,
    /// Announcements by meeting.
    announced: BTreeMap<u64, Ended>,
    /// This task's data for the current meeting.
    brought: Option<Bytes>,
    /// Whether the controlling task has sent anything, and so has started.
    spoken: bool,
    /// Requests for this task's data that wait until it joins, by meeting.
    asked: BTreeMap<u64, Deferred>,
}

impl Tasks {
    /// Registers the functions. All tasks of a job name the same controlling task; by custom it is the one with rank 0.
    ///
    /// # Errors
    /// Returns an error if the functions are registered already.
    pub fn register(functions: &Functions, controlling: Id) -> Result<Tasks, FunctionsError> {
        let shared = Arc::new(Shared {
            controlling,
            functions: Handles::new(),
            state: Mutex::default(),
            changed: Condvar::new(),
            meeting: Mutex::default(),
        });
        // All three are short.
        let functions = functions.at(Placement::Inline).access(Access::Proved);
        let heard = shared.clone();
        functions.func("gpc.rendezvous.announce", move |request, _| Ok(heard.hear(request)?))?;
        let asked = shared.clone();
        functions.deferring("gpc.rendezvous.gather", move |request, token| asked.gather(request, token))?;
        let told = shared.clone();
        functions.func("gpc.rendezvous.announced", move |request, reply| {
            let meeting = number(request.header()).ok_or("this is no question of a meeting")?;
            let known = told.state().announced.get(&meeting).cloned();
            let answer = known.map_or(Ok(Answer::NotYet), |ended| ended.map(Answer::Completed));
            (reply.header, reply.shared) = encode_answer(&answer);
            Ok(())
        })?;
        Ok(Tasks { shared })
    }

    /// The controlling task.
    pub fn controlling(&self) -> Id {
        self.shared.controlling
    }

    /// Joins the next meeting, and returns its completion. All tasks of a job join the same meetings, one after
    /// another.
    ///
    /// This blocks, so the thread that drives the node must not call it.
    ///
    /// # Errors
    /// [`MeetError`].
    pub fn meet(&self, node: &Node, plan: Plan) -> Result<Completion, MeetError> {
        let controls = node.id() == self.shared.controlling;
        self.come(node, &plan.ids, &plan.data, |shared, meeting| match controls {
            true => super::lead::lead(shared, node, meeting, &plan),
            false => super::follow::follow(shared, node, meeting, &plan),
        })
    }

    /// Announces an outcome without gathering: for a controlling task that took part in a rendezvous by other means.
    /// The other tasks [meet](Self::meet).
    ///
    /// Lost tasks are left out, with a warning in the log.
    ///
    /// # Errors
    /// Returns [`MeetError`] if this is not the controlling task, or if the call is rejected before anything is sent.
    pub fn announce(
        &self,
        node: &Node,
        ids: &IdList,
        ended: &Result<Completion, Fault>,
        limit: Duration,
    ) -> Result<(), MeetError> {
        if node.id() != self.shared.controlling {
            return Err(MeetError::NotControlling(node.id()));
        }
        self.come(node, ids, &Bytes::new(), |shared, meeting| {
            super::lead::announce(shared, node, meeting, ids, ended, limit)
        })
    }

    /// Runs this task's part in the next meeting.
    fn come<T>(
        &self,
        node: &Node,
        ids: &IdList,
        data: &Bytes,
        meet: impl FnOnce(&Shared, u64) -> Result<T, MeetError>,
    ) -> Result<T, MeetError> {
        let (shared, me) = (&*self.shared, node.id());
        if let Some(id) = [me, shared.controlling].into_iter().find(|id| !ids.contains(*id)) {
            return Err(MeetError::NotAmong(id));
        }
        // The lock guards no data, so a panic under it does no harm.
        let _alone = shared.meeting.lock().unwrap_or_else(PoisonError::into_inner);
        let meeting = shared.come(data);
        let met = meet(shared, meeting);
        shared.leave(meeting, me == shared.controlling);
        met
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        // Code under this lock cannot panic, so a poisoned lock is still consistent.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Joins the next meeting with this task's data, and returns its number.
    fn come(&self, data: &Bytes) -> u64 {
        let mut state = self.state();
        state.brought = Some(data.clone());
        let meeting = state.current;
        let asked = state.asked.remove(&meeting);
        drop(state);
        if let Some(asked) = asked {
            asked.reply(Reply::shared(data.clone()));
        }
        meeting
    }

    /// Leaves the meeting.
    fn leave(&self, meeting: u64, controlling: bool) {
        let mut state = self.state();
        state.current = meeting + 1;
        state.brought = None;
        // Dropped without a reply, so the requests fail.
        let over = state.asked.remove(&meeting);
        let kept = if controlling { KEPT } else { 0 };
        while state.announced.range(..=meeting).count() > kept {
            state.announced.pop_first();
        }
        drop(state);
        drop(over);
    }

    /// Handles an announcement of the controlling task.
    fn hear(&self, request: &Request<'_>) -> Result<(), String> {
        self.check(request)?;
        let header = request.header();
        let meeting = number(header).ok_or("this is no announcement")?;
        let answer = decode_answer(header.get(PREFIX..).unwrap_or_default(), request.data_bytes());
        let ended = match answer.map_err(|error| format!("the announcement makes no sense: {error}"))? {
            Ok(Answer::Completed(completion)) => Ok(completion),
            Ok(_) => return Err("what is announced is no end of a rendezvous".into()),
            Err(fault) => Err(fault),
        };
        let mut state = self.state();
        self.expected(&state, meeting)?;
        // The first announcement counts. A repeated one is for tasks that the first did not reach.
        if meeting >= state.current {
            state.announced.entry(meeting).or_insert(ended);
            self.changed.notify_all();
        }
        Ok(())
    }

    /// Handles the controlling task's request for this task's data.
    fn gather(&self, request: &Request<'_>, token: Deferred) {
        let checked = self.check(request).and_then(|()| {
            let meeting = number(request.header()).ok_or("this is no question of a meeting")?;
            self.expected(&self.state(), meeting).map(|()| meeting)
        });
        let meeting = match checked {
            Ok(meeting) => meeting,
            Err(why) => return token.fail(why),
        };
        let mut state = self.state();
        if meeting < state.current {
            drop(state);
            return token.fail("this task has left that meeting");
        }
        match state.brought.clone().filter(|_| meeting == state.current) {
            Some(data) => {
                drop(state);
                token.reply(Reply::shared(data));
            }
            None => {
                let before = state.asked.insert(meeting, token);
                drop(state);
                drop(before);
            }
        }
    }

    /// Checks that a request comes from the controlling task. Members vouch for the root of a call, and they trust each
    /// other here.
    fn check(&self, request: &Request<'_>) -> Result<(), String> {
        match request.root() == self.controlling {
            true => {
                self.state().spoken = true;
                Ok(())
            }
            false => Err(format!(
                "the controlling task here is id {}, and nobody else announces or gathers",
                self.controlling
            )),
        }
    }

    /// Checks that a meeting is not too far ahead.
    fn expected(&self, state: &State, meeting: u64) -> Result<(), String> {
        match meeting < state.current.saturating_add(AHEAD_MAX) {
            true => Ok(()),
            false => Err(format!(
                "this task is in meeting {}, and was not in those before {meeting}",
                state.current
            )),
        }
    }

    /// Whether the controlling task has sent anything, and so has started.
    pub(super) fn has_spoken(&self) -> bool {
        self.state().spoken
    }

    /// The announcement of a meeting; waits for it at most `limit`.
    pub(super) fn wait(&self, meeting: u64, limit: Duration) -> Option<Ended> {
        let missing = |state: &mut State| !state.announced.contains_key(&meeting);
        let (state, _) = self
            .changed
            .wait_timeout_while(self.state(), limit, missing)
            .unwrap_or_else(PoisonError::into_inner);
        state.announced.get(&meeting).cloned()
    }
}

/// Header of a question about a meeting.
pub(super) fn question(meeting: u64) -> Vec<u8> {
    [&[VERSION][..], &meeting.to_le_bytes()].concat()
}

/// Number of the meeting in a header.
fn number(header: &[u8]) -> Option<u64> {
    let (version, rest) = header.split_first()?;
    let number = rest.first_chunk()?;
    (*version == VERSION).then(|| u64::from_le_bytes(*number))
}

/// Header and data of an announcement.
pub(super) fn announcement(meeting: u64, ended: &Ended) -> (Vec<u8>, Bytes) {
    let (answer, data) = encode_answer(&ended.clone().map(Answer::Completed));
    ([question(meeting), answer].concat(), data)
}

/// The fault for a lost controlling task.
pub(super) fn controller_lost(id: Id, why: impl std::fmt::Display) -> Fault {
    let message = format!("the controlling task, id {id}, is lost: {why}");
    Fault::new(FaultKind::ControllerLost, message).of_task(format!("id {id}"))
}
