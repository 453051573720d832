//! Checks and answers hellos.
//!
//! Source: docs/wire.md, "HELLO", "Jobs" and "One link per pair"; the rules for two connections of a pair are in
//! `peer`.

use gpc_trees::Id;

use super::greeting::{FirstFrame, Greeting, Proof, Stage, Transport, hello_flags};
use super::machine::{Book, FeedContext, GREETING_LIMIT, Peering};
use super::output::{NewLink, Output};
use super::peer::{LinkKey, State, Verdict};
use crate::chain::Time;
use crate::wire::frame::Kind;
use crate::wire::head::{Goodbye, GoodbyeReason};
use crate::wire::{CauseKind, Hello, Job};

/// The text for a peer that proves nothing, without a reason.
pub(super) const REFUSED: &str = "refused";

/// The text for both sides if the jobs of two nodes differ.
fn job_mismatch(me: Id, mine: Job, peer: Id, theirs: Job) -> String {
    format!(
        "id {me} is of {}, id {peer} of {}: only nodes of one job link with each other. Give both the peers file of the same job, and the name of that job",
        mine.short(),
        theirs.short()
    )
}

impl<B: Book> Peering<B> {
    pub(super) fn hello(&self, to: Id, generation: u32) -> Hello {
        let me = self.me;
        Hello {
            from: me.me,
            to,
            incarnation: me.incarnation,
            generation,
            hiwater: me.hiwater,
            job: me.job,
            rings: false,
            extents: false,
        }
    }

    /// Sends the hello of this node on its own connection, after the proof if one is needed.
    pub(super) fn send_hello(&mut self, key: LinkKey, to: Id) {
        let generation = self.entry(to).advance_generation();
        let hello = self.hello(to, generation);
        let Some(greeting) = self.greetings.get_mut(&key) else { return };
        // Data by descriptor are offered together with rings.
        let hello = Hello { extents: greeting.rings, ..hello };
        greeting.enter(Stage::Answer);
        self.write_frame(key, Kind::Hello, hello_flags(&hello), &hello.emit());
    }

    /// Writes a frame to a connection.
    fn write_frame(&mut self, key: LinkKey, kind: Kind, flags: u8, payload: &[u8]) {
        let Some(greeting) = self.greetings.get_mut(&key) else { return };
        match greeting.frame(kind, flags, payload) {
            Ok(bytes) => self.outputs.push_back(Output::Write { key, bytes }),
            // A frame of this length can always be sealed.
            Err(_) => self.close(key),
        }
    }

    /// Handles the first frame on an accepted connection.
    pub(super) fn handle_first_frame(&mut self, key: LinkKey, first: FirstFrame, context: &FeedContext) {
        match first {
            FirstFrame::Goodbye(_) => self.fail_protocol(key, &"its first frame is not a hello"),
            FirstFrame::Hello(hello) => self.handle_hello(key, hello, context),
        }
    }

    /// Handles the hello on an accepted connection.
    fn handle_hello(&mut self, key: LinkKey, hello: Hello, context: &FeedContext) {
        let Some(greeting) = self.greetings.get_mut(&key) else { return };
        greeting.rings = context.rings;
        let (claimed, proved) = (greeting.peer.replace(hello.from), greeting.key);
        let known = match greeting.transport {
            Transport::Host(peer) => Some(peer),
            _ => None,
        };
        let objection = self.hello_objection(claimed, known, &hello, context);
        if let Some((reason, text)) = objection.or_else(|| self.key_objection(key, hello.from)) {
            return self.reject(key, reason, text);
        }
        let (me, has_sent) = (self.me.me, self.has_sent_hello(hello.from));
        match self.entry(hello.from).judge(me, &hello, proved, has_sent) {
            Verdict::Duplicate => {
                let text = "the other connection stands".to_owned();
                return self.reject(key, GoodbyeReason::Duplicate, text);
            }
            Verdict::Impostor => {
                let text = format!("id {} is linked, and has another key", hello.from);
                return self.reject(key, GoodbyeReason::Refused, text);
            }
            Verdict::Prefer(ours) => {
                self.set_state(hello.from, State::Absent);
                self.end_greeting(ours);
                self.close(ours);
            }
            Verdict::Hold(old) => return self.hold(old, key, hello),
            Verdict::Replace(Some(old)) => {
                // A peer that connects again is alive.
                self.reject_waiting_run(hello.from);
                self.replace_link(old, hello.from, CauseKind::LinkLost);
            }
            Verdict::Replace(None) => {}
        }
        self.accept_hello(key, &hello);
    }

    /// Whether this node's attempt to connect to a peer has sent its hello. Until then the attempt may fail: the peer
    /// may be a new run at another address.
    fn has_sent_hello(&self, id: Id) -> bool {
        let State::Connecting(key) = self.state(id) else { return false };
        self.greetings.get(&key).is_some_and(|greeting| matches!(greeting.stage, Stage::Answer))
    }

    /// Returns the reason to reject a hello, regardless of other links.
    fn hello_objection(
        &self,
        claimed: Option<Id>,
        known: Option<Id>,
        hello: &Hello,
        context: &FeedContext,
    ) -> Option<(GoodbyeReason, String)> {
        let me = self.me.me;
        // Checked first, because other errors follow from a wrong job.
        if hello.job != self.me.job {
            return Some((GoodbyeReason::OtherJob, job_mismatch(me, self.me.job, hello.from, hello.job)));
        }
        let text = if hello.to != me {
            format!("this is id {me}, not {}", hello.to)
        } else if hello.rings {
            "a first hello cannot accept rings: none were offered".to_owned()
        } else if hello.from == me {
            format!("id {me} is this node: each process needs an id of its own")
        } else if claimed.is_some_and(|claimed| claimed != hello.from) {
            format!("its proof is of id {}, its hello of id {}", claimed.unwrap_or_default(), hello.from)
        } else if let Some(known) = known.filter(|known| *known != hello.from) {
            format!("the program's network reports that id {known} has sent the hello of id {}", hello.from)
        } else {
            context.full.clone().filter(|_| !self.book.contains(hello.from))?
        };
        Some((GoodbyeReason::Refused, text))
    }

    /// Returns the reason to reject a connection: a key is listed for its id, and it has not proved that key. The key
    /// may have been listed a moment ago.
    pub(super) fn key_objection(&self, key: LinkKey, id: Id) -> Option<(GoodbyeReason, String)> {
        let (listed, greeting) = (self.book.key(id)?, self.greetings.get(&key)?);
        let text = match greeting.key {
            _ if greeting.transport.is_known() => return None,
            Some(proved) if proved == listed => return None,
            Some(_) => {
                format!("another key is listed for id {id}: the job's secret alone does not prove that id")
            }
            None => format!("a key is listed for id {id}, and proving a key needs the secret of the job"),
        };
        Some((GoodbyeReason::Refused, text))
    }

    /// Makes this connection the link to the peer, and answers its hello.
    pub(super) fn accept_hello(&mut self, key: LinkKey, hello: &Hello) {
        // At least this node's own generation: a hello of its own that was sent and abandoned must not count as later.
        let generation = self.entry(hello.from).sent_generation.max(hello.generation);
        let mut answer = self.hello(hello.from, generation);
        let Some(greeting) = self.greetings.get_mut(&key) else { return };
        answer.rings = greeting.rings;
        answer.extents = answer.rings && hello.extents;
        self.write_frame(key, Kind::Hello, hello_flags(&answer), &answer.emit());
        self.establish(key, hello, &answer);
    }

    /// Closes a link that a later connection replaces.
    pub(super) fn replace_link(&mut self, old: LinkKey, peer: Id, kind: CauseKind) {
        let incarnation = self.incarnation(peer);
        self.outputs.push_back(Output::Replaced { key: old, peer, incarnation });
        // `set_state` keeps the entry of the peer: it must not be dropped as that of a stranger in between.
        self.set_state(peer, State::Absent);
        let why = "it has connected anew".into();
        self.outputs.push_back(Output::Lost { peer, kind, why, was_up: true });
    }

    /// Handles the first frame on a connection that this node opened.
    pub(super) fn handle_answer_frame(&mut self, now: Time, key: LinkKey, first: FirstFrame) {
        let Some(peer) = self.greetings.get(&key).and_then(|greeting| greeting.peer) else { return };
        match first {
            FirstFrame::Hello(hello) => self.handle_answer(key, peer, &hello),
            FirstFrame::Goodbye(goodbye) => self.handle_rejection(now, key, peer, &goodbye),
        }
    }

    /// Handles the answer to this node's hello.
    fn handle_answer(&mut self, key: LinkKey, peer: Id, hello: &Hello) {
        let me = self.me.me;
        let offered = self.greetings.get(&key).is_some_and(|greeting| greeting.rings);
        let wrong = if hello.job != self.me.job {
            let text = job_mismatch(me, self.me.job, hello.from, hello.job);
            let goodbye = Goodbye { reason: GoodbyeReason::OtherJob, text: text.clone() };
            self.write_frame(key, Kind::Goodbye, 0, &goodbye.emit());
            self.ended(key, None, CauseKind::Unreachable, &text);
            return self.outputs.push_back(Output::Finish { key });
        } else if (hello.from, hello.to) != (peer, me) {
            format!("it is id {} and expects id {} here", hello.from, hello.to)
        } else if hello.extents && !hello.rings {
            "it accepts descriptors without rings, but descriptors need rings".into()
        } else if hello.rings && !offered {
            "it accepts rings that were not offered".into()
        } else if let Some((_, text)) = self.key_objection(key, peer) {
            text
        } else {
            return self.establish(key, hello, hello);
        };
        self.fail_attempt(key, &wrong);
    }

    /// Handles the rejection of this node's hello.
    fn handle_rejection(&mut self, now: Time, key: LinkKey, peer: Id, goodbye: &Goodbye) {
        if goodbye.reason != GoodbyeReason::Duplicate {
            let hint = match goodbye.text == REFUSED {
                true => "; if it has a secret, this node needs the same one",
                false => "",
            };
            return self.fail_attempt(key, &format!("it refused the connection: {}{hint}", goodbye.text));
        }
        if self.state(peer) == State::Connecting(key) {
            self.set_state(peer, State::Expecting(now.plus(GREETING_LIMIT)));
        }
        self.end_greeting(key);
        self.close(key);
    }

    /// Makes the connection a link after both hellos; `answer` is the second of them.
    fn establish(&mut self, key: LinkKey, hello: &Hello, answer: &Hello) {
        let Some(greeting) = self.end_greeting(key) else { return };
        let peer = self.entry(hello.from);
        if peer.incarnation != hello.incarnation {
            peer.incarnation = hello.incarnation;
            peer.received_generation = 0;
        }
        peer.received_generation = peer.received_generation.max(hello.generation);
        self.set_state(hello.from, State::Up(key));
        let listed = self.book.key(hello.from).is_some();
        let accepted = !greeting.is_ours();
        let Greeting { transport, encrypt, session, key: proved, .. } = greeting;
        let proof = match (transport, proved) {
            (Transport::User | Transport::Host(_), _) => Proof::User,
            (_, Some(_)) if listed => Proof::Key,
            (_, Some(_)) => Proof::Secret,
            (_, None) => Proof::None,
        };
        if let Some(peer) = self.peers.get_mut(&hello.from) {
            (peer.pinned, peer.proof) = (proved, proof);
        }
        let (rings, extents) = (answer.rings, answer.extents);
        let session = session.filter(|_| encrypt);
        let new_link = NewLink { key, hello: *hello, accepted, rings, extents, session, proof };
        self.outputs.push_back(Output::Up(Box::new(new_link)));
    }

    /// Rejects an accepted connection with a reason.
    pub(super) fn reject(&mut self, key: LinkKey, reason: GoodbyeReason, text: String) {
        let goodbye = Goodbye { reason, text: text.clone() };
        self.write_frame(key, Kind::Goodbye, 0, &goodbye.emit());
        if let Some(peer) = self.end_greeting(key).and_then(|greeting| greeting.peer) {
            self.forget_stranger(peer);
        }
        self.outputs.push_back(Output::Finish { key });
        if reason != GoodbyeReason::Duplicate {
            self.outputs.push_back(Output::Rejected { key, why: text });
        }
    }

    /// Fails this node's own attempt to connect. Also closes an accepted connection whose peer violates the protocol.
    pub(super) fn fail_attempt(&mut self, key: LinkKey, why: &str) {
        self.ended(key, None, CauseKind::Unreachable, why);
        self.close(key);
    }

    /// Closes a connection whose peer violates the protocol.
    pub(super) fn fail_protocol(&mut self, key: LinkKey, why: &dyn std::fmt::Display) {
        self.fail_attempt(key, &format!("the peer broke the protocol: {why}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_of_a_job_mismatch_fits_into_a_goodbye() {
        let text = job_mismatch(Id::MAX, Job([0xff; 16]), Id::MAX - 1, Job([1; 16]));
        assert!(text.len() <= Goodbye::TEXT_MAX, "{}", text.len());
        assert!(text.starts_with("id 4294967295 is of job ffffffff, id 4294967294 of job 01010101: "));
        assert!(
            job_mismatch(1, Job::default(), 2, Job([1; 16]))
                .contains("id 1 is of no job, id 2 of job 01010101")
        );
    }
}
