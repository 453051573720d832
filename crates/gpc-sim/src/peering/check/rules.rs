//! `rules`: a process handles each message and each hello as specified in docs/wire.md ("HELLO", "Proof", "One link per
//! pair"). Judged from the bytes of both sides and the other inputs of the process.
//!
//! Each input of the machine is a step: its expected outcome is determined at the input, and compared when all outputs
//! are carried out.

use gpc_trees::Id;

use super::Checkers;
use super::connection::Connection;
use super::first_frames::{FIRST_END, FirstFrame, SECOND_END, THIRD_END, first};
use super::observation::{End, Input, Process};
use super::process_state::PeerState;
use super::step::{Expected, Trigger};
use chained_gpc::link::peering::{HALF_OPEN_MAX, HALF_OPEN_PER_SOURCE, LinkKey, Proof, PublicKey, Source};
use chained_gpc::wire::Hello;
use chained_gpc::wire::head::GoodbyeReason;

/// Largest number of connections that wait for links of other runs, at a process.
const WAITING_MAX: usize = 128;

/// Tolerance for late events: longer than a process pauses.
pub(super) const LATE: u64 = 20_000_000_000;

impl Checkers {
    fn id(&self, process: Process) -> Id {
        self.processes.get(process).map_or(0, |(who, _)| who.id)
    }

    pub(super) fn peer_state(&mut self, process: Process, id: Id) -> Option<&mut PeerState> {
        Some(self.nodes.get_mut(process)?.peers.entry(id).or_default())
    }

    fn link(&self, process: Process, id: Id) -> Option<LinkKey> {
        self.links.get(&(process, id)).map(|end| end.key)
    }

    pub(super) fn wrong(&mut self, end: End, what: &str) {
        self.add("rules", format!("{end:?} {what}"));
    }

    /// Whether all received bytes are those that the other end has sent.
    pub(super) fn is_genuine(&self, connection: &Connection) -> bool {
        let took = &connection.took[..];
        if let Some(mate) = connection.mate.and_then(|mate| self.ends.get(&mate)) {
            return mate.wrote.starts_with(took);
        }
        let sent = |part: &[u8]| part.is_empty() || self.members.iter().any(|sent| sent.starts_with(part));
        let step = if connection.ours { SECOND_END } else { FIRST_END };
        let (begin, rest) = took.split_at(step.min(took.len()));
        connection.member.is_some() && connection.proves && sent(begin) && sent(rest)
    }

    /// The key that the other end of a connection proves, if it does.
    fn key_of(&self, connection: &Connection) -> Option<PublicKey> {
        let mate = connection.mate.and_then(|mate| self.processes.get(mate.process));
        let key = mate.map(|(who, _)| who.key).or(connection.member.map(|member| member.key));
        key.filter(|_| connection.proves)
    }

    fn has_another_key(&self, process: Process, connection: &Connection, id: Id) -> bool {
        let listed = self.nodes.get(process).and_then(|node| node.book.get(&id).copied().flatten());
        // Over an address the system does not report the user.
        let proves = connection.proves || connection.source.is_some();
        proves && listed.is_some() && listed != self.key_of(connection)
    }

    /// A connection is established.
    pub(super) fn rules_opened(&mut self, end: End, to: Option<Id>, source: Option<Source>) {
        let Some(node) = self.nodes.get_mut(end.process) else { return };
        if let Some(to) = to {
            let before = node.peers.entry(to).or_default().attempt.replace(end.key);
            if let Some(before) = before {
                self.wrong(End { key: before, ..end }, "was an attempt to connect, and another one is made");
            }
            return;
        }
        let of_source = node.sources.get(&source).filter(|_| source.is_some());
        let room = match of_source.filter(|keys| keys.len() >= HALF_OPEN_PER_SOURCE) {
            Some(keys) => keys.first().copied(),
            None if node.half_open.len() >= HALF_OPEN_MAX => node.half_open.first().copied(),
            None => None,
        };
        node.half_open.insert(end.key);
        node.sources.entry(source).or_default().insert(end.key);
        self.step.why = Some(Trigger::Accepts(end.key, room));
    }

    /// A connection is no longer half open.
    pub(super) fn leaves(&mut self, end: End) {
        let source = self.ends.get(&end).and_then(|connection| connection.source);
        let Some(node) = self.nodes.get_mut(end.process) else { return };
        node.half_open.remove(&end.key);
        if let Some(keys) = node.sources.get_mut(&source) {
            keys.remove(&end.key);
        }
    }

    /// Bytes have arrived after the first `before` bytes.
    pub(super) fn rules_took(&mut self, end: End, before: usize) {
        self.step.why = Some(Trigger::Hears(end.key));
        let Some(connection) = self.ends.get(&end).filter(|connection| connection.open) else { return };
        if !self.is_genuine(connection) {
            return;
        }
        let now = |place| before < place && connection.took.len() >= place;
        let expected = match connection.ours {
            true => self.answer(end, connection),
            false if now(8) && connection.took.starts_with(b"cGPC") => {
                let clear = connection.encrypts && connection.took.get(6) == Some(&0);
                (clear || !connection.proves).then_some(Expected::Denied)
            }
            false if connection.proves && !connection.took.starts_with(b"cGPC") => {
                first(&connection.took, false).map(|_| Expected::DeniedInClear)
            }
            false if connection.proves && now(FIRST_END) => Some(self.proof(end, connection)),
            false if connection.proves && now(THIRD_END) => {
                let id = self.claimed(connection).unwrap_or_default();
                let refused = Expected::Refused(GoodbyeReason::Refused);
                self.has_another_key(end.process, connection, id).then_some(refused)
            }
            false => match connection.first(true) {
                Some(FirstFrame::Hello(hello)) => self.hello(end, connection, &hello),
                _ => None,
            },
        };
        if let Some(Expected::Held(Some(before))) = expected {
            let states = self.nodes.get(end.process).into_iter().flat_map(|node| node.peers.values());
            self.step.until = states
                .filter_map(|state| state.waiting)
                .find(|held| held.key == before)
                .and_then(|held| held.until);
        }
        self.step.expected = expected.map(|expected| (end.key, expected));
    }

    /// The id that the other end proves.
    fn claimed(&self, connection: &Connection) -> Option<Id> {
        let mate = connection.mate.and_then(|mate| self.processes.get(mate.process));
        let id = mate.map(|(who, _)| who.id).or(connection.member.map(|member| member.proves));
        id.filter(|_| connection.proves)
    }

    /// Expected outcome of a first message.
    fn proof(&self, end: End, connection: &Connection) -> Expected {
        let mate = connection.mate.and_then(|mate| Some((mate, self.ends.get(&mate)?)));
        let psk = |process: Process| self.processes.get(process).and_then(|(who, _)| who.psk);
        let me = self.id(end.process);
        let fits = mate.is_none_or(|(mate, other)| {
            psk(mate.process) == psk(end.process) && other.to == Some(me) && self.id(mate.process) != me
        });
        let fits = fits
            && connection.member.is_none_or(|member| member.psk == psk(end.process) && member.proves != me);
        if fits { Expected::Second } else { Expected::Denied }
    }

    /// Expected outcome of the hello of a connecting side.
    fn hello(&self, end: End, connection: &Connection, hello: &Hello) -> Option<Expected> {
        let (who, _) = self.processes.get(end.process)?;
        let node = self.nodes.get(end.process)?;
        let refused = Expected::Refused(GoodbyeReason::Refused);
        let claimed = self.claimed(connection).unwrap_or(hello.from);
        let id = hello.from;
        if hello.job != who.job {
            return Some(Expected::Refused(GoodbyeReason::OtherJob));
        }
        let wrong = hello.to != who.id || id == who.id || hello.rings || claimed != id;
        let no_room = node.full && !node.book.contains_key(&id);
        if wrong || no_room || self.has_another_key(end.process, connection, id) {
            return Some(refused);
        }
        let state = node.peers.get(&id).copied().unwrap_or_default();
        let Some(link) = self.link(end.process, id) else {
            let ours = state.attempt.and_then(|key| self.ends.get(&End { key, ..end }));
            let sent = ours.is_some_and(|ours| matches!(ours.first(false), Some(FirstFrame::Hello(_))));
            return Some(match sent && who.id < id {
                true => Expected::Refused(GoodbyeReason::Duplicate),
                false => Expected::Up { replaces: None, prefers: state.attempt },
            });
        };
        let standing = self.ends.get(&End { key: link, ..end })?;
        let (key, pinned) = (self.key_of(connection), self.key_of(standing));
        if hello.incarnation != state.run || key.is_some() != pinned.is_some() {
            return Some(self.waits(end, connection, hello));
        }
        if key != pinned {
            return Some(refused);
        }
        match hello.generation {
            generation if generation > state.received[1] => {
                Some(Expected::Up { replaces: Some(link), prefers: None })
            }
            generation if generation <= state.received[0] => {
                Some(Expected::Refused(GoodbyeReason::Duplicate))
            }
            _ => None,
        }
    }

    /// Expected outcome of a hello of another run than the linked one.
    fn waits(&self, end: End, connection: &Connection, hello: &Hello) -> Expected {
        let refused = Expected::Refused(GoodbyeReason::Refused);
        let Some(node) = self.nodes.get(end.process) else { return refused };
        let Some(held) = node.peers.get(&hello.from).and_then(|state| state.waiting) else {
            let many = node.peers.values().filter(|state| state.waiting.is_some()).count() >= WAITING_MAX;
            return if many { refused } else { Expected::Held(None) };
        };
        let other = self.ends.get(&End { key: held.key, ..end });
        let same_key = other.is_some_and(|other| self.key_of(other) == self.key_of(connection));
        let anew = held.hello.incarnation == hello.incarnation && held.hello.generation < hello.generation;
        if same_key && anew { Expected::Held(Some(held.key)) } else { refused }
    }

    /// Expected outcome of the answer to a hello.
    fn answer(&self, end: End, connection: &Connection) -> Option<Expected> {
        let (who, _) = self.processes.get(end.process)?;
        let peer = connection.to?;
        match connection.first(true)? {
            FirstFrame::Goodbye(GoodbyeReason::Duplicate) => Some(Expected::Waits),
            FirstFrame::Hello(hello) if hello.job != who.job => Some(Expected::FailsOfAnotherJob),
            FirstFrame::Hello(hello) => {
                let fits = (hello.from, hello.to) == (peer, who.id)
                    && (!hello.extents || hello.rings)
                    && (!hello.rings || connection.rings)
                    && !self.has_another_key(end.process, connection, peer);
                Some(if fits { Expected::Link } else { Expected::Fails })
            }
            _ => Some(Expected::Fails),
        }
    }

    /// Bytes are written after the first `before` bytes.
    pub(super) fn rules_wrote(&mut self, end: End, before: usize) {
        let Some(connection) = self.ends.get(&end) else { return };
        let peer = connection.to;
        let wrote = &connection.wrote;
        if connection.is_first_written(before) {
            return;
        }
        let second = connection.proves && !connection.ours && before == 0 && wrote.len() == SECOND_END;
        let hello = match (connection.first(false), connection.first(true)) {
            (Some(FirstFrame::Hello(hello)), theirs) => Some((hello, theirs)),
            _ => None,
        };
        if second {
            self.step.seconds += 1;
            self.nodes.get_mut(end.process).into_iter().for_each(|node| node.proofs += 1);
        }
        let Some((hello, theirs)) = hello else { return };
        let Some((who, _)) = self.processes.get(end.process) else { return };
        let to = peer.or(match theirs {
            Some(FirstFrame::Hello(theirs)) => Some(theirs.from),
            _ => None,
        });
        let says = (hello.from, Some(hello.to), hello.job, hello.incarnation, hello.hiwater);
        if says != (who.id, to, who.job, who.incarnation, who.hiwater) {
            self.wrong(end, &format!("says {hello:?}, which is not what it is"));
        }
        match (peer, theirs) {
            (Some(peer), _) => self.check_generation(end, peer, hello.generation),
            (None, Some(FirstFrame::Hello(theirs))) => {
                let others = self.nodes.get(end.process).map_or(0, |node| node.forgotten);
                let Some(state) = self.peer_state(end.process, theirs.from) else { return };
                state.recall(others);
                let (sent, vague) = (state.sent, state.vague);
                if !vague && hello.generation != sent.max(theirs.generation) {
                    self.wrong(
                        end,
                        &format!(
                            "answers generation {} with {}, having said {sent}",
                            theirs.generation, hello.generation
                        ),
                    );
                }
            }
            _ => {}
        }
    }

    /// A first hello is sent with this generation.
    fn check_generation(&mut self, end: End, peer: Id, generation: u32) {
        self.peer_state(end.process, peer).into_iter().for_each(PeerState::stop_awaiting);
        let Some(node) = self.nodes.get_mut(end.process) else { return };
        let others = node.forgotten;
        let state = node.peers.entry(peer).or_default();
        state.recall(others);
        let sent = state.sent;
        let [least, most] = state.received.map(|received| received.max(sent) + 1);
        state.sent = generation;
        if !std::mem::take(&mut state.vague) && !(least..=most).contains(&generation) {
            self.wrong(end, &format!("says generation {generation}, and {least} to {most} is next"));
        }
    }

    /// Another input.
    pub(super) fn rules_input(&mut self, process: Process, input: Input) {
        let Some(node) = self.nodes.get_mut(process) else { return };
        match &input {
            Input::Knows(id, key) => {
                let before = node.book.entry(*id).or_default();
                *before = key.or(*before);
                node.peers.get_mut(id).into_iter().for_each(|state| state.recall(node.forgotten));
            }
            Input::Forgets(id) => {
                node.book.remove(id);
                node.forgotten += 1;
                if let Some(state) = node.peers.get_mut(id).filter(|state| state.forgotten.is_none()) {
                    state.forgotten = Some(node.forgotten);
                }
            }
            Input::AnswersUntil(id, until) => {
                let held = node.peers.get_mut(id).and_then(|state| state.waiting.as_mut());
                held.into_iter().for_each(|held| held.until = Some(*until));
                return self.step.until = Some(*until);
            }
            Input::Full(full) => return node.full = *full,
            _ => {}
        }
        self.step.why = Some(Trigger::Input(input));
    }

    /// A connection becomes a link.
    pub(super) fn rules_up(&mut self, end: End, peer: Id, run: u64, proof: Proof) {
        self.leaves(end);
        let Some(connection) = self.ends.get(&end) else { return };
        let generation = match connection.first(true) {
            Some(FirstFrame::Hello(hello)) => hello.generation,
            _ => 0,
        };
        let at = self.at;
        let cause = self.step.why.clone();
        let Some(state) = self.peer_state(end.process, peer) else { return };
        state.note_received(run, generation);
        state.stop_awaiting();
        state.proof = Some(proof);
        if state.attempt == Some(end.key) {
            state.attempt = None;
        }
        let held = state.waiting.take_if(|held| held.key == end.key);
        let early = held.and_then(|held| held.until);
        self.step.was_held = held.map(|held| held.key).or(self.step.was_held);
        if early.is_some_and(|until| until > at) && matches!(cause, Some(Trigger::Input(Input::Tick))) {
            self.wrong(end, "takes the place of a link that had more time to answer");
        }
        self.step.up.push(end.key);
    }

    /// A connection is closed, or will be once all bytes have left.
    pub(super) fn rules_closed(&mut self, end: End, finished: bool) {
        self.leaves(end);
        let genuine = self.ends.get(&end).is_some_and(|connection| self.is_genuine(connection));
        if let Some(node) = self.nodes.get_mut(end.process) {
            for state in node.peers.values_mut() {
                state.perhaps_awaited |= state.attempt == Some(end.key) && !genuine;
                state.attempt = state.attempt.filter(|key| *key != end.key);
                if let Some(held) = state.waiting.take_if(|held| held.key == end.key) {
                    self.step.was_held = Some(held.key);
                }
            }
        }
        let list = if finished { &mut self.step.finished } else { &mut self.step.closed };
        list.push(end.key);
    }

    pub(super) fn rules_replaced(&mut self, end: End) {
        self.step.replaced.push(end.key);
    }

    pub(super) fn rules_asked(&mut self, peer: Id) {
        self.step.asked.push(peer);
    }

    pub(super) fn rules_refused(&mut self, end: End) {
        self.step.refused.push(end.key);
    }

    pub(super) fn rules_lost(&mut self, process: Process, peer: Id, stood: bool) {
        self.step.lost.push((peer, stood));
        self.peer_state(process, peer).into_iter().for_each(PeerState::stop_awaiting);
        self.note_absence(process, peer);
    }

    /// There is neither a link with an id nor an attempt.
    pub(super) fn note_absence(&mut self, process: Process, peer: Id) {
        let Some(node) = self.nodes.get_mut(process) else { return };
        let is_peer = node.book.contains_key(&peer);
        let just = matches!(self.step.why, Some(Trigger::Input(Input::Forgets(id))) if id == peer);
        if let Some(state) = node.peers.get_mut(&peer).filter(|_| !just) {
            state.absent(is_peer, &mut node.forgotten);
        }
    }

    /// Checks the machine's report on a link when its peer is added, perhaps with a key.
    pub(super) fn lists(
        &mut self,
        process: Process,
        peer: Id,
        confirms: Option<LinkKey>,
        contradicts: Option<LinkKey>,
    ) {
        let link = self.links.get(&(process, peer)).copied();
        let (Some(node), Some(link)) = (self.nodes.get_mut(process), link) else {
            if confirms.or(contradicts).is_some() {
                self.add(
                    "rules",
                    format!("process {process} has no link with id {peer}, and says so of one"),
                );
            }
            return;
        };
        let listed = node.book.get(&peer).copied().flatten();
        let Some(connection) = self.ends.get(&link) else { return };
        let key = self.key_of(connection);
        let proof = self.nodes.get(process).and_then(|node| node.peers.get(&peer)?.proof);
        let same = listed.is_some() && key == listed;
        let confirmed = (same && proof == Some(Proof::Secret)).then_some(link.key);
        let contradicted = (listed.is_some() && !same && proof != Some(Proof::User)).then_some(link.key);
        if (confirms, contradicts) != (confirmed, contradicted) {
            let what = format!(
                "has the key {key:?}, listed is {listed:?}: it confirms {confirms:?}, contradicts {contradicts:?}"
            );
            self.wrong(link, &what);
        }
        if let Some(state) = self.peer_state(process, peer).filter(|_| confirmed.is_some()) {
            state.proof = Some(Proof::Key);
        }
    }

    /// Checks the reported half-open connections.
    pub(super) fn waiting(&mut self, process: Process, reported: &[(LinkKey, Option<u64>)]) {
        let Some(node) = self.nodes.get(process) else { return };
        let since = |key| self.ends.get(&End { process, key }).map(|connection| connection.since);
        if !node.half_open.iter().map(|key| (*key, since(*key))).eq(reported.iter().copied()) {
            let what = format!("process {process} says that {reported:?} wait, and {:?} do", node.half_open);
            self.add("rules", what);
        }
    }

    /// Checks a step after all its outputs; `proofs` is the number of proofs that the machine has answered.
    pub(super) fn rules_settled(&mut self, process: Process, proofs: u64) {
        let step = std::mem::take(&mut self.step);
        let Some(node) = self.nodes.get(process) else { return };
        if node.proofs != proofs {
            let what = format!("process {process} has answered {} proofs, and counts {proofs}", node.proofs);
            self.add("rules", what);
        }
        if let Some((key, expected)) = step.expected {
            self.compare(End { process, key }, expected, &step);
        }
        let not_opened = match step.why {
            Some(Trigger::Input(Input::NotOpened(id))) => Some((id, false)),
            _ => None,
        };
        if not_opened.is_some_and(|lost| step.lost != [lost]) {
            let what =
                format!("process {process} could not begin to connect, and what waits is told {step:?}");
            self.add("rules", what);
        }
        if let Some(key) = step.replaced.first().filter(|_| step.up.len() != step.replaced.len()) {
            self.wrong(End { process, key: *key }, "is closed for another link, which does not come");
        }
        self.closes_rightly(process, &step);
        self.waits_for_too_much(process, &step);
        self.overdue(process, &step);
    }
}
