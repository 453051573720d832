//! How a connection becomes the link of two nodes: the hellos, and which of two connections stands.
//!
//! Source: docs/wire.md, "HELLO" and "One link per pair"; the rules themselves are in `peer`.

use gpc_trees::Id;
use tracing::{debug, warn};

use super::events::Loss;
use super::link::{HIWATER, Phase, Progress};
use super::links::{Arrival, GREETING_LIMIT, Links};
use super::peer::{LinkKey, PeerEntry, State, Verdict};
use super::shm::RingSocket;
use crate::chain::Time;
use crate::wire::head::{Goodbye, GoodbyeReason};
use crate::wire::{CauseKind, Hello};

impl Links {
    /// Our connection stands: say who we are.
    pub(super) fn greet(&mut self, key: LinkKey, to: Id) {
        let generation = self.peers.get(&to).map_or(0, |peer| peer.generation).saturating_add(1);
        let hello = self.hello(to, generation);
        let Some(link) = self.links.get_mut(key) else { return };
        // With the rings that it offers, if there are any.
        let hello = Hello { extents: link.socket.ring().is_some(), ..hello };
        link.phase = Phase::Greeting(to);
        link.outbox.hello(&hello);
        link.mark(&mut self.dirty, key);
    }

    fn hello(&self, to: Id, generation: u32) -> Hello {
        Hello {
            from: self.me,
            to,
            incarnation: self.incarnation,
            generation,
            hiwater: HIWATER,
            job: self.job,
            rings: false,
            extents: false,
        }
    }

    /// The hello of someone who has connected.
    pub(super) fn accepted(&mut self, now: Time, key: LinkKey, hello: Hello) {
        // First of all: whatever else is wrong with it comes from this.
        if self.refuses_job(now, key, &hello) {
            return;
        }
        if hello.to != self.me {
            let text = format!("this is id {}, not {}", self.me, hello.to);
            return self.refuse(now, key, GoodbyeReason::Refused, text);
        }
        if hello.rings {
            let text = "a first hello takes no rings: nobody has offered any".to_owned();
            return self.refuse(now, key, GoodbyeReason::Refused, text);
        }
        if hello.from == self.me {
            let text = format!("id {} is here itself: each process needs an id of its own", self.me);
            return self.refuse(now, key, GoodbyeReason::Refused, text);
        }
        if let Some(text) = self.refuses_stranger(now, hello.from) {
            return self.refuse(now, key, GoodbyeReason::Refused, text);
        }
        let peer = self.peers.entry(hello.from).or_insert_with(PeerEntry::new);
        match peer.judge(self.me, &hello) {
            Verdict::Duplicate => {
                let text = "the other connection stands".to_owned();
                return self.refuse(now, key, GoodbyeReason::Duplicate, text);
            }
            Verdict::Prefer(ours) => {
                peer.state = State::Absent;
                self.discard(ours);
            }
            Verdict::Hold(old) => return self.hold(now, old, key, hello),
            Verdict::Replace(Some(old)) => {
                // Who connects anew lives.
                self.turn_away(now, hello.from);
                self.replace(old, hello.from, CauseKind::LinkLost);
            }
            Verdict::Replace(None) => self.expected(hello.from),
        }
        self.stands(key, &hello);
    }

    /// Of all connections with this peer the one stands that this hello came on.
    pub(super) fn stands(&mut self, key: LinkKey, hello: &Hello) {
        if self.answer(key, hello) {
            self.establish(key, hello);
        } else if self.up(hello.from).is_none() {
            // Our own attempt, if there was one, has made room for this one: what waits for it waits for nothing.
            self.lose(hello.from, "it went before the answer to its hello was written");
        }
    }

    /// Answers the hello of someone who has connected. What follows goes through the rings, if there are any: so the answer is written before. False when it cannot be; then there is no link.
    fn answer(&mut self, key: LinkKey, hello: &Hello) -> bool {
        let mut answer = self.hello(hello.from, hello.generation);
        let Some(link) = self.links.get_mut(key) else { return false };
        answer.rings = link.socket.ring().is_some_and(RingSocket::has_memory);
        answer.extents = answer.rings && hello.extents;
        link.outbox.hello(&answer);
        if answer.rings && (!matches!(link.flush(Time::default), Progress::Waiting) || !link.outbox.is_idle())
        {
            self.close(key, "the answer to its hello cannot be written");
            return false;
        }
        self.settle(key, &answer);
        true
    }

    /// From the hellos on, bytes go through the rings, or never do. False when they should and there are none.
    fn settle(&mut self, key: LinkKey, answer: &Hello) -> bool {
        let Some(link) = self.links.get_mut(key) else { return false };
        let settled = match link.socket.ring_mut() {
            Some(socket) if answer.rings => {
                if answer.extents {
                    link.extents.keep_place();
                }
                socket.use_rings(answer.extents)
            }
            Some(socket) => {
                socket.use_none();
                true
            }
            None => !answer.rings,
        };
        self.watched.watch(key, link);
        settled
    }

    /// A later connection takes a link's place: whoever is at the other end of the old one is told, for it may be another process of the same id.
    pub(super) fn replace(&mut self, old: LinkKey, from: Id, kind: CauseKind) {
        if let Some(link) = self.links.get_mut(old) {
            let text = format!("id {from} has connected anew, perhaps from another process");
            link.outbox.goodbye(&Goodbye { reason: GoodbyeReason::Duplicate, text });
            link.loss = Loss::Replaced;
            // What does not go out at once is of no use any more.
            let _ = link.flush(Time::default);
        }
        self.close_for(old, kind, "it has connected anew");
    }

    /// The answer to our hello.
    pub(super) fn greeted(&mut self, key: LinkKey, peer: Id, hello: Hello) -> Result<(), String> {
        self.check_job(key, &hello)?;
        if (hello.from, hello.to) != (peer, self.me) {
            return Err(format!("it is id {} and takes this one for id {}", hello.from, hello.to));
        }
        if hello.extents && !hello.rings {
            return Err("it takes data by descriptor, and no rings, beside which alone they come".into());
        }
        if !self.settle(key, &hello) {
            return Err("it takes rings that nobody has offered".into());
        }
        self.establish(key, &hello);
        Ok(())
    }

    /// Our hello was refused.
    pub(super) fn refused(
        &mut self,
        now: Time,
        key: LinkKey,
        peer: Id,
        goodbye: Goodbye,
    ) -> Result<(), String> {
        if goodbye.reason == GoodbyeReason::OtherJob {
            warn!(id = self.me, peer, text = %goodbye.text, "the node there is of another job");
        }
        if goodbye.reason != GoodbyeReason::Duplicate {
            return Err(format!("it refused the connection: {}", goodbye.text));
        }
        if let Some(entry) = self.peers.get(&peer)
            && entry.state == State::Connecting(key)
        {
            self.expect(peer, now.plus(GREETING_LIMIT));
        }
        self.discard(key);
        Ok(())
    }

    pub(super) fn refuse(&mut self, now: Time, key: LinkKey, reason: GoodbyeReason, text: String) {
        debug!(id = self.me, %text, "a connection is refused");
        self.say_goodbye(now, key, reason, text);
    }

    /// Both hellos are through.
    fn establish(&mut self, key: LinkKey, hello: &Hello) {
        let Some(link) = self.links.get_mut(key) else { return };
        let peer = self.peers.entry(hello.from).or_insert_with(PeerEntry::new);
        if peer.incarnation != hello.incarnation {
            peer.incarnation = hello.incarnation;
            peer.generation = 0;
        }
        peer.generation = peer.generation.max(hello.generation);
        peer.state = State::Up(key);
        link.phase = Phase::Up(hello.from);
        link.outbox.grant(hello.hiwater);
        for message in peer.pending.drain(..) {
            link.push(message);
        }
        link.mark(&mut self.dirty, key);
        debug!(
            id = self.me,
            peer = hello.from,
            generation = hello.generation,
            over = link.socket.name(),
            "link up"
        );
        self.give_until(key, None);
        self.tell_up(hello.from, hello.incarnation);
        self.arrivals.push_back(Arrival::Up { peer: hello.from, incarnation: hello.incarnation });
    }
}
