//! A process that says hello under an id whose link, of another run of that id, still stands: it waits until that one is known to live, or not.
//!
//! Which of two runs is the later one nobody can tell: clocks are set, and anybody can name any number. So their order decides nothing. An id that was started again finds its
//! old link gone, or gone at once, since the system closes what a process leaves behind; what was stopped, or cut off, does not answer; and who does answer keeps its link.
//! Source: docs/wire.md, "One link per pair".

use std::collections::BTreeMap;
use std::time::Duration;

use gpc_trees::Id;

use super::greeting::Stage;
use super::machine::{Book, Peering};
use super::output::Output;
use super::peer::LinkKey;
use crate::chain::Time;
use crate::wire::head::GoodbyeReason;
use crate::wire::{CauseKind, Hello};

/// How long a link may take to answer a PING when another run of its id is there: longer than a busy machine needs, shorter than the limits of most calls.
pub const ANSWER_LIMIT: Duration = Duration::from_secs(2);

/// Processes that wait so at a node, for an id one at most. Only where a host was cut off, and its processes run elsewhere now, is it more than a few; those above it are told to try again.
const HELD_MAX: usize = 128;

/// Those that wait, by the id that they claim; the link of each of these ids is up.
#[derive(Debug, Default)]
pub(super) struct Held(BTreeMap<Id, LinkKey>);

impl Held {
    pub(super) fn remove(&mut self, id: Id, key: LinkKey) {
        if self.0.get(&id) == Some(&key) {
            self.0.remove(&id);
        }
    }
}

impl<B: Book> Peering<B> {
    /// Whether anybody waits for the link of another run of its id.
    #[inline]
    pub fn holds_any(&self) -> bool {
        !self.held.0.is_empty()
    }

    /// Another run of an id than the one whose link is up has said hello: that one is asked for a heartbeat, and the other waits for it.
    pub(super) fn hold(&mut self, old: LinkKey, key: LinkKey, hello: Hello) {
        let id = hello.from;
        let before = self.held.0.get(&id).copied();
        let key_of = |key| self.greetings.get(&key).and_then(|greeting| greeting.key);
        let same_key = before.is_some_and(|before| key_of(before) == key_of(key));
        let said =
            before.and_then(|before| self.greetings.get(&before)).map(|held| (&held.stage, held.until));
        let until = match (before, said) {
            // It has given that attempt up, and tries anew.
            (Some(before), Some((Stage::OnHold(said), until)))
                if same_key
                    && said.incarnation == hello.incarnation
                    && said.generation < hello.generation =>
            {
                self.end_greeting(before);
                self.close(before);
                until
            }
            (Some(_), _) => {
                let text = format!("another process that says it is id {id} waits already: try again");
                return self.refuse(key, GoodbyeReason::Refused, text);
            }
            (None, _) if self.held.0.len() >= HELD_MAX => {
                let text = format!("{HELD_MAX} processes wait already for links of earlier ones: try again");
                return self.refuse(key, GoodbyeReason::Refused, text);
            }
            (None, _) => None,
        };
        let Some(greeting) = self.greetings.get_mut(&key) else { return };
        greeting.enter(Stage::OnHold(hello));
        let source = greeting.source;
        self.half_open.remove(key, source);
        self.held.0.insert(id, key);
        self.give_until(key, until);
        if until.is_none() {
            self.outputs.push_back(Output::Ask { key: old, peer: id });
        }
    }

    /// How long the answer may take of a peer that was [asked](Output::Ask): it may have announced a pause.
    pub fn hold_until(&mut self, id: Id, at: Time) {
        if let Some(&key) = self.held.0.get(&id) {
            self.give_until(key, Some(at));
        }
    }

    /// The run of an id whose link is up lives: another one that waits for that link is refused.
    pub fn lives(&mut self, id: Id) {
        if let Some(key) = self.held.0.remove(&id) {
            let text = format!(
                "another process is linked as id {id}, and answers: each process needs an id of its own"
            );
            self.refuse(key, GoodbyeReason::Refused, text);
        }
    }

    /// The link that another run of an id waits for has not answered.
    pub(super) fn no_answer(&mut self, id: Id) {
        // A key may have been listed meanwhile that this one has not: then the link stays, silent as it is.
        let welcome = self.held.0.get(&id).is_some_and(|held| self.has_another_key(*held, id).is_none());
        if let Some(old) = self.up(id).filter(|_| welcome) {
            self.replace(old, id, CauseKind::LostIncarnation);
        }
        self.take_place(id);
    }

    /// The link of an id is gone: another run of it that waits for that takes its place. What was lost is told before.
    pub(super) fn take_place(&mut self, id: Id) {
        let Some(key) = self.held.0.remove(&id) else { return };
        if let Some(Stage::OnHold(hello)) = self.greetings.get(&key).map(|greeting| &greeting.stage) {
            let hello = *hello;
            match self.has_another_key(key, id) {
                None => self.stands(key, &hello),
                Some((reason, text)) => self.refuse(key, reason, text),
            }
        }
    }
}
