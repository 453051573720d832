//! Conflicts between two runs of an id: a new connection waits until the link of the other run is known to be alive or
//! closed.
//!
//! The order of two runs is unknown: clocks may be set back, and a process can send any incarnation. So the order of
//! incarnations decides nothing. If an id is restarted, the system closes the link of its old process at once. If the
//! old process is stopped or cut off, it does not answer. If it answers, it keeps its link. Source: docs/wire.md, "One
//! link per pair".

use std::time::Duration;

use gpc_trees::Id;

use super::greeting::Stage;
use super::machine::{Book, Peering};
use super::output::Output;
use super::peer::LinkKey;
use crate::chain::Time;
use crate::wire::head::GoodbyeReason;
use crate::wire::{CauseKind, Hello};

/// Time limit for the PONG while another run of the id waits. It is longer than a busy machine needs, and shorter than
/// the limits of most calls.
pub const ANSWER_LIMIT: Duration = Duration::from_secs(2);

/// Maximum number of waiting processes at a node; each id has at most one. More than a few wait only if a host was cut
/// off and its processes run elsewhere now. Further ones are rejected, and try again later.
const WAITING_RUNS_MAX: usize = 128;

impl<B: Book> Peering<B> {
    /// Whether a connection waits for the link of another run of its id.
    #[inline]
    pub fn has_waiting_runs(&self) -> bool {
        !self.waiting_runs.0.is_empty()
    }

    /// Handles a hello of another run while a link is up: sends a PING on the link, and makes the new connection wait
    /// for the PONG.
    pub(super) fn hold(&mut self, old: LinkKey, key: LinkKey, hello: Hello) {
        let id = hello.from;
        let before = self.waiting_runs.0.get(&id).copied();
        let key_of = |key| self.greetings.get(&key).and_then(|greeting| greeting.key);
        let same_key = before.is_some_and(|before| key_of(before) == key_of(key));
        let earlier = before
            .and_then(|before| self.greetings.get(&before))
            .map(|waiting| (&waiting.stage, waiting.until));
        let until = match (before, earlier) {
            // The same run has given up that attempt and tries again.
            (Some(before), Some((Stage::OnHold(earlier), until)))
                if same_key
                    && earlier.incarnation == hello.incarnation
                    && earlier.generation < hello.generation =>
            {
                self.end_greeting(before);
                self.close(before);
                until
            }
            (Some(_), _) => {
                let text = format!("another process that claims id {id} waits already: try again");
                return self.reject(key, GoodbyeReason::Refused, text);
            }
            (None, _) if self.waiting_runs.0.len() >= WAITING_RUNS_MAX => {
                let text = format!(
                    "{WAITING_RUNS_MAX} processes wait already for the links of earlier ones: try again"
                );
                return self.reject(key, GoodbyeReason::Refused, text);
            }
            (None, _) => None,
        };
        let Some(greeting) = self.greetings.get_mut(&key) else { return };
        greeting.enter(Stage::OnHold(hello));
        let source = greeting.source;
        self.half_open.remove(key, source);
        self.waiting_runs.0.insert(id, key);
        self.set_deadline(key, until);
        if until.is_none() {
            self.outputs.push_back(Output::SendPing { key: old, peer: id });
        }
    }

    /// Sets the time limit for the PONG of a peer after an [`Output::SendPing`]: the peer may have announced a pause.
    pub fn set_answer_limit(&mut self, id: Id, at: Time) {
        if let Some(&key) = self.waiting_runs.0.get(&id) {
            self.set_deadline(key, Some(at));
        }
    }

    /// Rejects a waiting run of an id, because the run whose link is up is alive.
    pub fn reject_waiting_run(&mut self, id: Id) {
        if let Some(key) = self.waiting_runs.0.remove(&id) {
            let text = format!(
                "another process is linked as id {id}, and answers: each process needs an id of its own"
            );
            self.reject(key, GoodbyeReason::Refused, text);
        }
    }

    /// Handles the missing answer of a link that another run of its id waits for.
    pub(super) fn handle_missing_answer(&mut self, id: Id) {
        // A key that the waiting run has not proved may have been listed meanwhile. Then the old link stays, although
        // it is silent.
        let welcome =
            self.waiting_runs.0.get(&id).is_some_and(|waiting| self.key_objection(*waiting, id).is_none());
        if let Some(old) = self.up(id).filter(|_| welcome) {
            self.replace_link(old, id, CauseKind::LostIncarnation);
        }
        self.promote_waiting_run(id);
    }

    /// Makes the connection of a waiting run the link of its id, or rejects it if it has not proved the listed key. If
    /// the old link is lost, its loss has already been output.
    pub(super) fn promote_waiting_run(&mut self, id: Id) {
        let Some(key) = self.waiting_runs.0.remove(&id) else { return };
        if let Some(Stage::OnHold(hello)) = self.greetings.get(&key).map(|greeting| &greeting.stage) {
            let hello = *hello;
            match self.key_objection(key, id) {
                None => self.accept_hello(key, &hello),
                Some((reason, text)) => self.reject(key, reason, text),
            }
        }
    }
}
