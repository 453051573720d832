//! One task's part in the meetings of its job, and the functions that it registers for them.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use chained_gpc::{Access, Clock, Functions, FunctionsError, Id, IdList, Node, Placement};

use super::message::number;
use super::shared::Shared;
use super::{MeetError, Plan};
use crate::machine::{Answer, Completion, Fault};
use crate::native::encode_answer;

/// One task's part in the meetings of its job. Clones share the state.
///
/// The functions are registered beside those of the program, with names that begin with `gpc.rendezvous.`; so each task
/// needs its own [`Functions`]. They are restricted to links that are [proved](Access::Proved), and obey the
/// controlling task alone, as far as members vouch for it: see [the module](super).
#[derive(Clone, Debug)]
pub struct Tasks {
    pub(super) shared: Arc<Shared>,
}

impl Tasks {
    /// Registers the functions. All tasks of a job name the same controlling task; by custom it is the one with rank 0.
    ///
    /// # Errors
    /// Returns an error if the functions are registered already.
    pub fn register(functions: &Functions, controlling: Id) -> Result<Tasks, FunctionsError> {
        let shared = Arc::new(Shared::new(controlling));
        // All three are short.
        let functions = functions.at(Placement::Inline).access(Access::Proved);
        let heard = shared.clone();
        functions
            .func("gpc.rendezvous.announce", move |request, _| Ok(heard.handle_announcement(request)?))?;
        let asked = shared.clone();
        functions.deferring("gpc.rendezvous.gather", move |request, token| asked.gather(request, token))?;
        let told = shared.clone();
        functions.func("gpc.rendezvous.announced", move |request, reply| {
            let meeting = number(request.header()).ok_or("this is no question of a meeting")?;
            let known = told.announced(meeting);
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
        let (controls, clock) = (node.id() == self.shared.controlling, Clock::system());
        self.run_meeting(node, &plan.ids, &plan.data, |shared, meeting| match controls {
            true => super::lead::lead(shared, node, &clock, meeting, &plan),
            false => super::follow::follow(shared, node, &clock, meeting, &plan),
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
        self.run_meeting(node, ids, &Bytes::new(), |shared, meeting| {
            super::lead::announce(shared, node, meeting, ids, ended, limit)
        })
    }

    /// Runs this task's part in the next meeting.
    fn run_meeting<T>(
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
        let meeting = shared.join_next(data);
        let met = meet(shared, meeting);
        shared.leave(meeting, me == shared.controlling);
        met
    }
}
