//! Checks invalid requests from ids that have no part in a call: each is refused at once, with its reason, to its
//! sender, and changes nothing else.
//!
//! Such a refusal answers no real request: no other checker sees it.

use std::collections::BTreeMap;

use gpc_trees::Id;

use super::Observation;
use super::findings::Findings;
use crate::ranges::forget;
use chained_gpc::wire::message::{Answer, Message, Response};
use chained_gpc::wire::{CallId, CauseKind, Stage};

const NAME: &str = "requests";

/// Possible reasons, of this request or of any request of the call at that id.
const REFUSALS: [CauseKind; 6] = [
    CauseKind::BadRequest,
    CauseKind::BadTree,
    CauseKind::UnknownTree,
    CauseKind::SecondParent,
    CauseKind::AlreadyEnded,
    CauseKind::ShuttingDown,
];

/// Invalid requests of a call from one id to another.
#[derive(Default)]
struct Count {
    unanswered: u32,
    /// Refusals in flight.
    under_way: u32,
}

impl Count {
    fn leaves(&mut self) -> Option<()> {
        self.unanswered = self.unanswered.checked_sub(1)?;
        self.under_way += 1;
        Some(())
    }

    fn comes(&mut self) -> Option<()> {
        self.under_way = self.under_way.checked_sub(1)?;
        Some(())
    }
}

/// Requests that have arrived, by receiver, sender and call. Bounded by the lies of a run.
#[derive(Default)]
pub(super) struct Requests {
    asked: BTreeMap<(Id, Id), BTreeMap<CallId, Count>>,
}

impl Requests {
    /// Handles an observation; returns whether it concerns only such a request.
    #[inline(always)]
    pub(super) fn observe(&mut self, seen: &Observation<'_>, findings: &mut Findings) -> bool {
        if let Observation::Misdirected { at, from, call } = seen {
            self.asked.entry((*at, *from)).or_default().entry(*call).or_default().unanswered += 1;
            return true;
        }
        if self.asked.is_empty() {
            return false;
        }
        match seen {
            Observation::Sent { from, to, message: Message::Response(response) } => {
                self.count_refusal((*from, *to), response, Count::leaves)
            }
            Observation::Received { at, from, message: Message::Response(response) } => {
                self.count_refusal((*from, *at), response, Count::comes)
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

    /// Counts an answer if it is the refusal of such a request, between the same two ids. Returns whether it is;
    /// `counts` updates the count.
    fn count_refusal(
        &mut self,
        (asked, requester): (Id, Id),
        response: &Response,
        counts: fn(&mut Count) -> Option<()>,
    ) -> bool {
        let count = self.asked.get_mut(&(asked, requester)).and_then(|calls| calls.get_mut(&response.call));
        refuses(asked, response) && count.and_then(counts).is_some()
    }

    /// Checks that such a request is answered by the end of its input.
    fn judge(&mut self, id: Id, findings: &mut Findings) {
        let here = self.asked.range_mut((id, 0)..=(id, Id::MAX));
        let calls = here.flat_map(|((_, from), calls)| calls.iter_mut().map(move |it| (*from, it)));
        for (from, (call, count)) in calls.filter(|(_, (_, count))| count.unanswered > 0) {
            count.unanswered = 0;
            findings.add(
                NAME,
                format!("id {id} does not refuse what {from} sends it as a request of call {call}"),
            );
        }
    }
}

/// Whether an id refuses a request for one of the possible reasons.
fn refuses(id: Id, response: &Response) -> bool {
    let Answer::Failed(failure) = &response.answer else { return false };
    let cause = &failure.cause;
    (cause.id, cause.stage) == (id, Stage::Setup) && REFUSALS.contains(&cause.kind)
}
