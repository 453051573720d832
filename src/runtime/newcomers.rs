//! A process that says hello under an id whose link, of another run of that id, still stands: it waits until that one is known to live, or not.
//!
//! Which of two runs is the later one nobody can tell: clocks are set, and anybody can name any number. So their order decides nothing. An id that was started again finds its
//! old link gone, or gone at once, since the system closes what a process leaves behind; what was stopped, or cut off, does not answer; and who does answer keeps its link.
//! Source: docs/wire.md, "One link per pair".

use std::collections::BTreeMap;
use std::time::Duration;

use gpc_trees::Id;
use tracing::debug;

use super::link::Phase;
use super::links::Links;
use super::peer::LinkKey;
use crate::chain::Time;
use crate::hint::unlikely;
use crate::wire::head::GoodbyeReason;
use crate::wire::{CauseKind, Hello, Message};

/// How long a link may take to answer a PING when another run of its id is there: longer than a busy machine needs, shorter than the limits of most calls.
pub(super) const ANSWER_LIMIT: Duration = Duration::from_secs(2);

/// Processes that wait so at a node, for an id one at most. Only where a host was cut off, and its processes run elsewhere now, is it more than a few; those above it are told to try again.
const NEWCOMERS_MAX: usize = 128;

/// One that waits.
#[derive(Debug)]
struct Newcomer {
    key: LinkKey,
    hello: Hello,
}

/// Those that wait, by the id that they claim; the link of each of these ids is up.
#[derive(Debug, Default)]
pub(super) struct Newcomers(BTreeMap<Id, Newcomer>);

impl Links {
    /// Another run of an id than the one whose link is up has said hello: that one is asked for a heartbeat, and the other waits for it.
    pub(super) fn hold(&mut self, now: Time, old: LinkKey, key: LinkKey, hello: Hello) {
        let id = hello.from;
        let until = match self.newcomers.0.get(&id).map(|held| (held.key, held.hello)) {
            // It has given that attempt up, and tries anew.
            Some((before, said))
                if said.incarnation == hello.incarnation && said.generation < hello.generation =>
            {
                let until = self.links.get(before).and_then(|link| link.deadline);
                self.close(before, "it has connected anew");
                until
            }
            Some(_) => {
                let text = format!("another process that says it is id {id} waits already: try again");
                return self.refuse(now, key, GoodbyeReason::Refused, text);
            }
            None if self.newcomers.0.len() >= NEWCOMERS_MAX => {
                let text =
                    format!("{NEWCOMERS_MAX} processes wait already for links of earlier ones: try again");
                return self.refuse(now, key, GoodbyeReason::Refused, text);
            }
            None => None,
        };
        if until.is_none()
            && let Some(link) = self.links.get_mut(old)
        {
            link.outbox.push(Message::Ping);
            link.mark(&mut self.dirty, old);
        }
        let Some(link) = self.links.get_mut(key) else { return };
        link.phase = Phase::OnHold(id);
        self.newcomers.0.insert(id, Newcomer { key, hello });
        // One that has announced a pause answers when that is over.
        let answered = self.answers_from(now, old).plus(ANSWER_LIMIT);
        self.give_until(key, Some(until.unwrap_or(answered)));
        debug!(id = self.me, peer = id, "another run of it waits until the link of this one answers or not");
    }

    /// A link has answered a PING: who waits for it to be gone waits in vain.
    #[inline]
    pub(super) fn answered_ping(&mut self, now: Time, key: LinkKey, id: Id) {
        if unlikely(!self.newcomers.0.is_empty()) {
            self.lives(now, key, id);
        }
    }

    #[cold]
    fn lives(&mut self, now: Time, key: LinkKey, id: Id) {
        // What a process said before it was killed may be read when it is gone: its end is behind it.
        let stands = self.links.get(key).is_some_and(|link| !link.socket.is_ended());
        if stands {
            self.turn_away(now, id);
        }
    }

    /// The run of an id whose link is up lives: another one that waits for that link is refused.
    pub(super) fn turn_away(&mut self, now: Time, id: Id) {
        if let Some(Newcomer { key, .. }) = self.newcomers.0.remove(&id) {
            let text = format!(
                "another process is linked as id {id}, and answers: each process needs an id of its own"
            );
            self.refuse(now, key, GoodbyeReason::Refused, text);
        }
    }

    /// The link that another run of an id waits for has not answered.
    pub(super) fn no_answer(&mut self, id: Id) {
        match self.up(id) {
            Some(old) => self.replace(old, id, CauseKind::LostIncarnation),
            None => self.take_place(id),
        }
    }

    /// The link of an id is gone: another run of it that waits for that takes its place. The chain has been told, or is, before anything comes from the new one.
    pub(super) fn take_place(&mut self, id: Id) {
        let Some(Newcomer { key, hello }) = self.newcomers.0.remove(&id) else { return };
        self.stands(key, &hello);
    }

    /// A connection that waited is gone itself.
    pub(super) fn gone_on_hold(&mut self, key: LinkKey, id: Id) {
        if self.newcomers.0.get(&id).is_some_and(|held| held.key == key) {
            self.newcomers.0.remove(&id);
        }
    }
}
