//! What every task of a job has: the functions by which its controlling task gathers and announces, and what has been said by them.

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

/// Meetings that may have been announced and not been waited for: a job has one at a time, and begins the next one when it is over.
const AHEAD_MAX: u64 = 4;

/// Announcements that the controlling task keeps for those whom it did not reach. No task is behind by more: the others wait for it at the next one.
const KEPT: usize = 2;

/// Bytes before the answer in the header of an announcement: the version, and the number of the meeting.
const PREFIX: usize = 9;

/// The part of one task in the meetings of its job. Cloning shares it.
///
/// Functions are registered beside those of the program, whose names begin with `gpc.rendezvous.`; so each task needs [`Functions`] of its own. They are restricted to links that are [proved](Access::Proved), and do what the controlling task says alone, by the word of the members: see [the module](super).
#[derive(Clone, Debug)]
pub struct Tasks {
    pub(super) shared: Arc<Shared>,
}

/// What the functions and a task that waits have in common.
#[derive(Debug)]
pub(super) struct Shared {
    /// The controlling task.
    pub(super) controlling: Id,
    pub(super) functions: Handles,
    state: Mutex<State>,
    changed: Condvar,
    /// Whoever meets has this: a task is in one meeting at a time.
    meeting: Mutex<()>,
}

/// The functions by their handles.
#[derive(Clone, Copy, Debug)]
pub(super) struct Handles {
    /// Takes an announcement.
    pub(super) announce: FuncHandle,
    /// Answers with what the task brings, when it has come.
    pub(super) gather: FuncHandle,
    /// What was announced, as far as it was.
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
    /// The number of the meeting that this task is in, or comes to next. All tasks of a job count the same meetings.
    current: u64,
    /// What was announced, by meeting.
    announced: BTreeMap<u64, Ended>,
    /// What this task brings to the current meeting.
    brought: Option<Bytes>,
    /// Whether the controlling task has said or asked anything: it has been started.
    spoken: bool,
    /// By meeting, who has asked for what this task brings, and waits until it comes.
    asked: BTreeMap<u64, Deferred>,
}

impl Tasks {
    /// Registers the functions. All tasks of a job name the same controlling task; by custom it is the one with rank 0.
    ///
    /// # Errors
    /// When they are registered already.
    pub fn register(functions: &Functions, controlling: Id) -> Result<Tasks, FunctionsError> {
        let shared = Arc::new(Shared {
            controlling,
            functions: Handles::new(),
            state: Mutex::default(),
            changed: Condvar::new(),
            meeting: Mutex::default(),
        });
        // None of them takes time.
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

    /// Meets: returns with the data of all when all have come. All tasks of a job come to the same meetings, one after the other.
    ///
    /// It waits, so the thread that drives the node does not call it.
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

    /// The end of a meeting alone: the controlling task, which has followed a rendezvous by itself, announces what has come of it to these tasks. The others [meet](Self::meet).
    ///
    /// Tasks that are lost are left out, with a warning in the log.
    ///
    /// # Errors
    /// [`MeetError`]: when this is not the controlling task, or the call is refused before anything is sent.
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

    /// Takes part in the next meeting of these tasks.
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
        // Nothing that a panic leaves behind matters here.
        let _alone = shared.meeting.lock().unwrap_or_else(PoisonError::into_inner);
        let meeting = shared.come(data);
        let met = meet(shared, meeting);
        shared.leave(meeting, me == shared.controlling);
        met
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing panics while it is held.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// This task has come to the next meeting, with its data; its number.
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

    /// This task is no longer in the meeting.
    fn leave(&self, meeting: u64, controlling: bool) {
        let mut state = self.state();
        state.current = meeting + 1;
        state.brought = None;
        // Those that asked for what is over fail without an answer.
        let over = state.asked.remove(&meeting);
        let kept = if controlling { KEPT } else { 0 };
        while state.announced.range(..=meeting).count() > kept {
            state.announced.pop_first();
        }
        drop(state);
        drop(over);
    }

    /// The controlling task has announced something.
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
        // What was announced first stands: it is announced again to those whom it did not reach.
        if meeting >= state.current {
            state.announced.entry(meeting).or_insert(ended);
            self.changed.notify_all();
        }
        Ok(())
    }

    /// The controlling task asks for what this one brings.
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

    /// Nobody but the controlling task has something to say. That the call is its own is a member's word: members trust each other here.
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

    /// Whether a meeting may be spoken of by now.
    fn expected(&self, state: &State, meeting: u64) -> Result<(), String> {
        match meeting < state.current.saturating_add(AHEAD_MAX) {
            true => Ok(()),
            false => Err(format!(
                "this task is in meeting {}, and was not in those before {meeting}",
                state.current
            )),
        }
    }

    /// Whether the controlling task has been started, as far as it has been heard of.
    pub(super) fn has_spoken(&self) -> bool {
        self.state().spoken
    }

    /// What was announced of the current meeting; waits for it at most so long.
    pub(super) fn wait(&self, meeting: u64, limit: Duration) -> Option<Ended> {
        let missing = |state: &mut State| !state.announced.contains_key(&meeting);
        let (state, _) = self
            .changed
            .wait_timeout_while(self.state(), limit, missing)
            .unwrap_or_else(PoisonError::into_inner);
        state.announced.get(&meeting).cloned()
    }
}

/// The header of a question of a meeting.
pub(super) fn question(meeting: u64) -> Vec<u8> {
    [&[VERSION][..], &meeting.to_le_bytes()].concat()
}

/// Which meeting a header speaks of.
fn number(header: &[u8]) -> Option<u64> {
    let (version, rest) = header.split_first()?;
    let number = rest.first_chunk()?;
    (*version == VERSION).then(|| u64::from_le_bytes(*number))
}

/// The header and the data of an announcement.
pub(super) fn announcement(meeting: u64, ended: &Ended) -> (Vec<u8>, Bytes) {
    let (answer, data) = encode_answer(&ended.clone().map(Answer::Completed));
    ([question(meeting), answer].concat(), data)
}

/// That a task is lost which controls.
pub(super) fn controller_lost(id: Id, why: impl std::fmt::Display) -> Fault {
    let message = format!("the controlling task, id {id}, is lost: {why}");
    Fault::new(FaultKind::ControllerLost, message).of_task(format!("id {id}"))
}
