//! State that the functions of a task share with the task in a meeting.

use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use chained_gpc::{Deferred, FuncHandle, Id, Reply, Request};

use super::MeetingOutcome;
use super::message::{PREFIX, number};
use crate::machine::{Answer, Fault, FaultKind};
use crate::native::decode_answer;

/// Most meetings that may be announced before this task joins them. A job has one meeting at a time, and begins the
/// next when it is over.
const AHEAD_MAX: u64 = 4;

/// Announcements that the controlling task retains for tasks that these did not reach. No task is further behind,
/// because the others wait for it at the next meeting.
const KEPT: usize = 2;

/// State shared by the functions and a waiting task.
#[derive(Debug)]
pub(super) struct Shared {
    /// The controlling task.
    pub(super) controlling: Id,
    pub(super) functions: Handles,
    state: Mutex<State>,
    changed: Condvar,
    /// Held during a meeting: a task is in one meeting at a time.
    pub(super) meeting: Mutex<()>,
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
    announced: BTreeMap<u64, MeetingOutcome>,
    /// This task's data for the current meeting.
    brought: Option<Bytes>,
    /// Whether the controlling task has sent anything, and so has started.
    spoken: bool,
    /// Requests for this task's data that wait until it joins, by meeting.
    asked: BTreeMap<u64, Deferred>,
}

impl State {
    /// This task's data for a meeting; `None` if it has yet to join.
    fn data_for(&self, meeting: u64) -> Result<Option<Bytes>, String> {
        match meeting < self.current {
            true => Err("this task has left that meeting".into()),
            false => Ok(self.brought.clone().filter(|_| meeting == self.current)),
        }
    }
}

impl Shared {
    pub(super) fn new(controlling: Id) -> Shared {
        Shared {
            controlling,
            functions: Handles::new(),
            state: Mutex::default(),
            changed: Condvar::new(),
            meeting: Mutex::default(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Code under this lock cannot panic, so a poisoned lock is still consistent.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Joins the next meeting with this task's data, and returns its number.
    pub(super) fn join_next(&self, data: &Bytes) -> u64 {
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
    pub(super) fn leave(&self, meeting: u64, controlling: bool) {
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
    pub(super) fn handle_announcement(&self, request: &Request<'_>) -> Result<(), String> {
        self.check(request.root())?;
        self.take_announcement(request.header(), request.data_bytes())
    }

    fn take_announcement(&self, header: &[u8], data: Bytes) -> Result<(), String> {
        let meeting = number(header).ok_or("this is no announcement")?;
        let answer = decode_answer(header.get(PREFIX..).unwrap_or_default(), data);
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
    pub(super) fn gather(&self, request: &Request<'_>, token: Deferred) {
        let checked = self
            .check(request.root())
            .and_then(|()| Ok(number(request.header()).ok_or("this is no question of a meeting")?));
        let mut state = self.state();
        let sought = checked.and_then(|meeting| {
            self.expected(&state, meeting)?;
            state.data_for(meeting).map(|data| (meeting, data))
        });
        // The token is used without the lock.
        match sought {
            Ok((meeting, None)) => {
                let before = state.asked.insert(meeting, token);
                drop(state);
                drop(before);
            }
            Ok((_, Some(data))) => {
                drop(state);
                token.reply(Reply::shared(data));
            }
            Err(why) => {
                drop(state);
                token.fail(why);
            }
        }
    }

    /// Checks that a request comes from the controlling task. Members vouch for the root of a call, and they trust each
    /// other here.
    fn check(&self, root: Id) -> Result<(), String> {
        match root == self.controlling {
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

    /// The announcement of a meeting, if it has arrived.
    pub(super) fn announced(&self, meeting: u64) -> Option<MeetingOutcome> {
        self.state().announced.get(&meeting).cloned()
    }

    /// The announcement of a meeting; waits for it at most `limit`.
    pub(super) fn wait(&self, meeting: u64, limit: Duration) -> Option<MeetingOutcome> {
        let missing = |state: &mut State| !state.announced.contains_key(&meeting);
        let (state, _) = self
            .changed
            .wait_timeout_while(self.state(), limit, missing)
            .unwrap_or_else(PoisonError::into_inner);
        state.announced.get(&meeting).cloned()
    }
}

/// The fault for a lost controlling task.
pub(super) fn controller_lost(id: Id, why: impl std::fmt::Display) -> Fault {
    let message = format!("the controlling task, id {id}, is lost: {why}");
    Fault::new(FaultKind::ControllerLost, message).of_task(format!("id {id}"))
}

#[cfg(test)]
mod tests {
    use super::super::message::announcement;
    use super::*;
    use crate::machine::Completion;

    fn ended(text: &'static str) -> MeetingOutcome {
        Ok(Completion { level: 1, data: text.into(), joint: None })
    }

    fn announce(shared: &Shared, meeting: u64, text: &'static str) -> Result<(), String> {
        let (header, data) = announcement(meeting, &ended(text));
        shared.take_announcement(&header, data)
    }

    #[test]
    fn meetings_of_one_task_follow_each_other() {
        let shared = Shared::new(0);
        let data = |meeting| shared.state().data_for(meeting);
        assert_eq!((data(0), data(3)), (Ok(None), Ok(None)));
        // Announcements may come before the task joins; the first one counts.
        assert_eq!(announce(&shared, 0, "first"), Ok(()));
        assert_eq!(announce(&shared, 0, "second"), Ok(()));
        assert_eq!(announce(&shared, AHEAD_MAX - 1, "ahead"), Ok(()));
        assert!(announce(&shared, AHEAD_MAX, "too far").is_err());
        assert_eq!(shared.join_next(&"mine".into()), 0);
        assert_eq!((data(0), data(1)), (Ok(Some("mine".into())), Ok(None)));
        assert_eq!(shared.wait(0, Duration::ZERO), Some(ended("first")));
        assert_eq!(shared.wait(1, Duration::ZERO), None);
        shared.leave(0, false);
        // Nothing is left of the meeting, and the next one has no data yet.
        assert_eq!((shared.announced(0), data(1)), (None, Ok(None)));
        assert!(data(0).is_err());
        assert_eq!(announce(&shared, 0, "late"), Ok(()));
        assert_eq!(shared.announced(0), None);
        assert_eq!(announce(&shared, AHEAD_MAX, "not too far now"), Ok(()));
        assert_eq!(shared.join_next(&"next".into()), 1);
        assert_eq!(shared.announced(AHEAD_MAX - 1), Some(ended("ahead")));
    }

    #[test]
    fn the_controlling_task_keeps_its_last_announcements() {
        let shared = Shared::new(0);
        for (meeting, text) in [(0, "a"), (1, "b"), (2, "c")] {
            assert_eq!(shared.join_next(&Bytes::new()), meeting);
            assert_eq!(announce(&shared, meeting, text), Ok(()));
            shared.leave(meeting, true);
        }
        let kept = [0, 1, 2].map(|meeting| shared.announced(meeting));
        assert_eq!(kept, [None, Some(ended("b")), Some(ended("c"))]);
    }

    #[test]
    fn only_the_controlling_task_is_obeyed_and_has_spoken_then() {
        let shared = Shared::new(7);
        assert!(shared.check(6).is_err() && !shared.has_spoken());
        assert!(shared.check(7).is_ok() && shared.has_spoken());
    }
}
