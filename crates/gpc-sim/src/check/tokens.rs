//! Checks that deferred replies and running functions are informed when their call ends without their answer.

use std::collections::{BTreeMap, BTreeSet};

use gpc_trees::Id;

use super::book::Book;
use super::findings::Findings;
use super::refusing::is_refusal;
use super::{FunctionEnd, Observation};
use crate::ranges::{NAMES, forget};
use crate::ranked::IdSet;
use chained_gpc::wire::message::Answer;
use chained_gpc::wire::{CallId, Message};

const NAME: &str = "tokens";

/// The functions of a call at an id.
#[derive(Default)]
struct TokenCounts {
    /// Number of running functions.
    running: u32,
    /// Number of tokens kept, and of tokens used.
    kept: u32,
    used: u32,
    stopped: bool,
}

/// The tokens of all ids.
#[derive(Default)]
pub(super) struct Tokens {
    tokens: BTreeMap<(Id, CallId), TokenCounts>,
    /// Ids that have had a token: a quick test, since a million ids are asked and most have none.
    whose: IdSet,
    /// Calls that have ended at an id in its present input.
    ended: BTreeSet<(Id, CallId)>,
}

impl Tokens {
    #[inline(always)]
    pub(super) fn observe(&mut self, book: &Book, seen: &Observation<'_>, findings: &mut Findings) {
        match seen {
            Observation::Began { id, call, .. } if book.small(*call).is_some() => {
                self.of(*id, *call).running += 1;
            }
            Observation::Ran { id, call, end } => {
                let counted = book.small(*call).is_some();
                if counted && let Some(token) = self.tokens.get_mut(&(*id, *call)) {
                    token.running = token.running.saturating_sub(1);
                }
                if *end == FunctionEnd::Deferred {
                    self.of(*id, *call).kept += 1;
                }
            }
            Observation::Received { at, from, message: Message::Cancel(call) } => {
                // A partial call may have another parent by now.
                let own = book.small(*call).filter(|it| !it.plan.partial && !it.is_copied());
                if own.and_then(|it| it.parent(it.position(*at)?)) == Some(*from) {
                    self.ends(*at, *call);
                }
            }
            Observation::TokenUsed { id, call } => self.of(*id, *call).used += 1,
            Observation::Stopped { id, call } => self.of(*id, *call).stopped = true,
            Observation::Sent { from, message: Message::Response(response), .. }
                if !is_refusal(*from, response) && !matches!(response.answer, Answer::Arriving(_)) =>
            {
                self.ends(*from, response.call);
            }
            Observation::Finished { call, .. } => self.ends(call.root, *call),
            Observation::Ended { id } => {
                forget(&mut self.tokens, (*id, NAMES[0])..=(*id, NAMES[1]));
            }
            Observation::Held { id, .. } if !self.ended.is_empty() => {
                for (at, call) in std::mem::take(&mut self.ended) {
                    let informed = self.tokens.get(&(at, call)).is_none_or(|token| token.stopped);
                    if at == *id && !informed {
                        findings.add(
                            NAME,
                            format!(
                                "id {id} ends call {call}, and does not tell the function that runs, or keeps its token"
                            ),
                        );
                    }
                }
            }
            _ => {}
        }
    }

    fn of(&mut self, id: Id, call: CallId) -> &mut TokenCounts {
        self.whose.insert(id);
        self.tokens.entry((id, call)).or_default()
    }

    fn ends(&mut self, id: Id, call: CallId) {
        let waits = |token: &TokenCounts| token.kept > token.used || token.running > 0;
        if self.whose.contains(id) && self.tokens.get(&(id, call)).is_some_and(waits) {
            self.ended.insert((id, call));
        }
    }
}
