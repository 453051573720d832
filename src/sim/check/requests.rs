//! Requests that are none, from one who has no part in the call: each is refused at once for what is wrong with it, to the one who sent it, and changes nothing else.
//!
//! Its answer is an answer of nobody's: no other checker sees it.

use std::collections::BTreeMap;

use gpc_trees::Id;

use super::{Findings, Observation, forget};
use crate::wire::message::{Answer, Message, Response};
use crate::wire::{CallId, CauseKind, Stage};

const NAME: &str = "requests";

/// What may be wrong with it, or with any request of that call there.
const REFUSALS: [CauseKind; 6] = [
    CauseKind::BadRequest,
    CauseKind::BadTree,
    CauseKind::UnknownTree,
    CauseKind::SecondParent,
    CauseKind::AlreadyEnded,
    CauseKind::ShuttingDown,
];

/// By the id that was asked, the one who asked it, and the call: requests without an answer, and answers under way.
#[derive(Default)]
pub(super) struct Requests {
    asked: BTreeMap<(Id, Id), BTreeMap<CallId, (u32, u32)>>,
}

impl Requests {
    /// Looks at something; says whether it is of such a request, and of nothing else.
    #[inline(always)]
    pub(super) fn observe(&mut self, seen: &Observation<'_>, findings: &mut Findings) -> bool {
        if let Observation::Misdirected { at, from, call } = seen {
            self.asked.entry((*at, *from)).or_default().entry(*call).or_default().0 += 1;
            return true;
        }
        if self.asked.is_empty() {
            return false;
        }
        match seen {
            Observation::Sent { from, to, message: Message::Response(response) } => {
                self.answers(*from, *to, response)
            }
            Observation::Received { at, from, message: Message::Response(response) } => {
                self.hears(*at, *from, response)
            }
            Observation::Held { id, .. } => {
                self.judge(*id, findings);
                false
            }
            Observation::Ended { id } => {
                forget(&mut self.asked, (*id, 0)..=(*id, Id::MAX));
                false
            }
            _ => false,
        }
    }

    fn answers(&mut self, id: Id, to: Id, response: &Response) -> bool {
        let asked = self.asked.get_mut(&(id, to)).and_then(|calls| calls.get_mut(&response.call));
        match asked {
            Some((asked, under_way)) if *asked > 0 && refuses(id, response) => {
                *asked -= 1;
                *under_way += 1;
                true
            }
            _ => false,
        }
    }

    fn hears(&mut self, at: Id, id: Id, response: &Response) -> bool {
        let asked = self.asked.get_mut(&(id, at)).and_then(|calls| calls.get_mut(&response.call));
        match asked {
            Some((_, under_way)) if *under_way > 0 && refuses(id, response) => {
                *under_way -= 1;
                true
            }
            _ => false,
        }
    }

    /// After the input that such a request was, it is answered.
    fn judge(&mut self, id: Id, findings: &mut Findings) {
        let here = self.asked.range_mut((id, 0)..=(id, Id::MAX));
        let calls =
            here.flat_map(|((_, from), calls)| calls.iter_mut().map(|(call, asked)| (*from, *call, asked)));
        for (from, call, (asked, _)) in calls.filter(|(_, _, (asked, _))| *asked > 0) {
            *asked = 0;
            findings.add(
                NAME,
                format!("id {id} does not refuse what {from} sends it as a request of call {call}"),
            );
        }
    }
}

/// Whether an id refuses a request for one of the reasons there may be.
fn refuses(id: Id, response: &Response) -> bool {
    let Answer::Failed(failure) = &response.answer else { return false };
    let cause = &failure.cause;
    (cause.id, cause.stage) == (id, Stage::Setup) && REFUSALS.contains(&cause.kind)
}
