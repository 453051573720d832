//! `rules`: what a process does about each message and each hello is what docs/wire.md says ("HELLO", "Proof", "One link per pair"), judged from what both sides of the connection have said and from what it was told of the others.
//!
//! Each input of the machine is a step: what is to come of it is worked out when it comes, and compared with what came of it when all is carried out.

use std::collections::{BTreeMap, BTreeSet};

use gpc_trees::Id;

use super::said::{First, first, second};
use super::{Checkers, Connection, End, FIRST_SAID, Process, SECOND_SAID, THIRD_SAID};
use crate::peering::{HALF_OPEN_MAX, HALF_OPEN_PER_SOURCE, LinkKey, Proof, PublicKey, Source};
use crate::wire::Hello;
use crate::wire::head::GoodbyeReason;

/// Those that wait for links of other runs, at a process.
const HELD_MAX: usize = 128;

/// Of so many ids that were forgotten since, the count of links is kept for sure; of so many it is not.
const FORGOTTEN: [u64; 2] = [1000, 1100];

/// What happens after its time is too late by this much: longer than a process stands still.
pub(super) const LATE: u64 = 20_000_000_000;

/// An input of a machine that is not seen otherwise.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Input {
    /// A connection to a peer could not be begun.
    NotOpened(Id),
    /// Our connection stands.
    Stands(LinkKey),
    /// A connection has ended, by the other side.
    Ended(LinkKey),
    /// What is due happens.
    Tick,
    /// A peer's link has answered.
    Answers(Id),
    /// Until when a peer may take to answer, nanoseconds.
    AnswersUntil(Id, u64),
    /// From now on a peer is known, perhaps with its key.
    Knows(Id, Option<PublicKey>),
    /// An attempt to connect is given up for another one.
    GivesUp(Id),
    /// A peer is known no more; the book has been told.
    Forgets(Id),
    /// Whether there is no room for ids that are no peers.
    Full(bool),
    /// The one that has waited longest for a hello makes room.
    MakesRoom(Option<LinkKey>),
    /// The link, or the attempt, of a silent peer was closed.
    Abandons(Id),
    /// A link is closed, since its peer has another key than it has proved.
    Contradicts(Id),
}

/// Who waits for the link of another run of its id.
#[derive(Clone, Copy, Debug)]
pub(super) struct Held {
    pub(super) key: LinkKey,
    pub(super) hello: Hello,
    pub(super) until: Option<u64>,
}

/// What a process knows of an id.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Known {
    run: u64,
    said: u32,
    /// The highest generation that its last run has said, at least and at most: who is no peer may be forgotten.
    heard: [u32; 2],
    pub(super) attempt: Option<LinkKey>,
    pub(super) held: Option<Held>,
    /// How many others had been forgotten when it was.
    forgotten: Option<u64>,
    /// What was counted of it may be forgotten.
    vague: bool,
    /// Until when its own connection is awaited.
    pub(super) awaited: Option<u64>,
    /// Its own connection may be awaited: what this side has heard of that was changed on the way.
    pub(super) perhaps_awaited: bool,
    /// How its link was proved.
    proof: Option<Proof>,
}

/// What one process has been told, and has heard.
#[derive(Default, Debug)]
pub(super) struct Node {
    book: BTreeMap<Id, Option<PublicKey>>,
    pub(super) known: BTreeMap<Id, Known>,
    pub(super) half_open: BTreeSet<LinkKey>,
    sources: BTreeMap<Option<Source>, BTreeSet<LinkKey>>,
    full: bool,
    proofs: u64,
    forgotten: u64,
}

/// What is to come of an input.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Expected {
    /// The second message.
    Second,
    /// The word that a proof is refused.
    Denied,
    /// A refusal without words, in clear.
    DeniedInClear,
    /// A refusal, in words.
    Refused(GoodbyeReason),
    /// It becomes the link; a link and an attempt that go for it.
    Up { replaces: Option<LinkKey>, prefers: Option<LinkKey> },
    /// It waits; another one that goes for it, or else the link is asked.
    Held(Option<LinkKey>),
    /// Our connection becomes the link.
    Link,
    /// Our connection fails.
    Fails,
    /// The same, and the other side is told that it is of another job.
    FailsOfAnotherJob,
    /// Another connection of the peer is awaited.
    Waits,
}

/// What brought a step about.
#[derive(Clone, Debug)]
pub(super) enum Why {
    Accepts(LinkKey, Option<LinkKey>),
    Hears(LinkKey),
    Input(Input),
}

/// One input, and what came of it.
#[derive(Default, Debug)]
pub(super) struct Step {
    pub(super) why: Option<Why>,
    pub(super) expected: Option<(LinkKey, Expected)>,
    pub(super) closed: Vec<LinkKey>,
    pub(super) finished: Vec<LinkKey>,
    pub(super) up: Vec<LinkKey>,
    pub(super) replaced: Vec<LinkKey>,
    pub(super) lost: Vec<(Id, bool)>,
    pub(super) asked: Vec<Id>,
    pub(super) refused: Vec<LinkKey>,
    /// One that has waited for a link, and does so no more.
    pub(super) was_held: Option<LinkKey>,
    /// Until when the link may take that another run of its id waits for.
    pub(super) until: Option<u64>,
    pub(super) seconds: u64,
}

impl Known {
    /// No connection of its own is awaited any more.
    pub(super) fn is_not_awaited(&mut self) {
        (self.awaited, self.perhaps_awaited) = (None, false);
    }

    /// There is no link with an id, nor an attempt: who is no peer, and was never connected to, may be forgotten.
    fn absent(&mut self, is_peer: bool, forgotten: &mut u64) {
        if is_peer || self.attempt.is_some() {
            return;
        }
        if self.said == 0 {
            self.heard[0] = 0;
        } else {
            *forgotten += 1;
            self.forgotten = Some(*forgotten);
        }
    }

    /// Something is to do with an id again that was forgotten, when so many had been: what was counted of it is known still, or not.
    fn recall(&mut self, others: u64) {
        match self.forgotten.take().map_or(0, |at| others - at) {
            since if since > FORGOTTEN[1] => (self.said, self.heard) = (0, [0; 2]),
            since if since > FORGOTTEN[0] => self.vague = true,
            _ => {}
        }
    }

    fn heard(&mut self, run: u64, generation: u32) {
        if self.run != run {
            (self.run, self.heard) = (run, [0; 2]);
        }
        self.heard = self.heard.map(|heard| heard.max(generation));
    }
}

impl Node {
    /// Whether a key is listed for an id.
    pub(super) fn lists(&self, id: Id) -> bool {
        self.book.get(&id).is_some_and(Option::is_some)
    }
}

impl Connection {
    /// Whether the first frame was written when so many bytes were.
    fn said_before(&self, before: usize) -> bool {
        let proof = match (self.proves, self.ours) {
            (false, _) => 0,
            (true, true) => THIRD_SAID,
            (true, false) => SECOND_SAID,
        };
        self.wrote.get(proof..before).is_some_and(|bytes| first(bytes, self.proves).is_some())
    }

    /// The first frame behind the proof that came, or that was written.
    pub(super) fn first(&self, took: bool) -> Option<First> {
        first(self.behind_proof(took)?, self.proves)
    }

    /// What was written behind the first frame.
    pub(super) fn second_written(&self) -> Option<First> {
        second(self.behind_proof(false)?, self.proves)
    }

    /// The bytes behind the proof that came, or that were written.
    fn behind_proof(&self, took: bool) -> Option<&[u8]> {
        let proof = match (self.proves, took == self.ours) {
            (false, _) => 0,
            (true, true) => SECOND_SAID,
            (true, false) => THIRD_SAID,
        };
        let bytes = if took { &self.took } else { &self.wrote };
        // Who proves nothing to who asks for it, or proves to who does not, is no matter of hellos.
        if !self.ours && self.took.starts_with(b"cGPC") != self.proves {
            return None;
        }
        bytes.get(proof..)
    }
}

impl Checkers {
    fn id(&self, process: Process) -> Id {
        self.processes.get(process).map_or(0, |(who, _)| who.id)
    }

    pub(super) fn known(&mut self, process: Process, id: Id) -> Option<&mut Known> {
        Some(self.nodes.get_mut(process)?.known.entry(id).or_default())
    }

    fn link(&self, process: Process, id: Id) -> Option<LinkKey> {
        self.links.get(&(process, id)).map(|end| end.key)
    }

    pub(super) fn wrong(&mut self, end: End, what: &str) {
        self.add("rules", format!("{end:?} {what}"));
    }

    /// Whether all that came on a connection is what its other end has said.
    pub(super) fn is_genuine(&self, connection: &Connection) -> bool {
        let took = &connection.took[..];
        if let Some(mate) = connection.mate.and_then(|mate| self.ends.get(&mate)) {
            return mate.wrote.starts_with(took);
        }
        let said = |part: &[u8]| part.is_empty() || self.members.iter().any(|said| said.starts_with(part));
        let step = if connection.ours { SECOND_SAID } else { FIRST_SAID };
        let (begin, rest) = took.split_at(step.min(took.len()));
        connection.member.is_some() && connection.proves && said(begin) && said(rest)
    }

    /// The key that the other end of a connection proves, where it does.
    fn key_of(&self, connection: &Connection) -> Option<PublicKey> {
        let mate = connection.mate.and_then(|mate| self.processes.get(mate.process));
        let key = mate.map(|(who, _)| who.key).or(connection.member.map(|member| member.key));
        key.filter(|_| connection.proves)
    }

    fn has_another_key(&self, process: Process, connection: &Connection, id: Id) -> bool {
        let listed = self.nodes.get(process).and_then(|node| node.book.get(&id).copied().flatten());
        // Who has connected from an address is of no user that is known.
        let proves = connection.proves || connection.source.is_some();
        proves && listed.is_some() && listed != self.key_of(connection)
    }

    /// A connection is there.
    pub(super) fn rules_opened(&mut self, end: End, to: Option<Id>, source: Option<Source>) {
        let Some(node) = self.nodes.get_mut(end.process) else { return };
        if let Some(to) = to {
            let before = node.known.entry(to).or_default().attempt.replace(end.key);
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
        self.step.why = Some(Why::Accepts(end.key, room));
    }

    /// A connection is half open no more.
    pub(super) fn leaves(&mut self, end: End) {
        let source = self.ends.get(&end).and_then(|connection| connection.source);
        let Some(node) = self.nodes.get_mut(end.process) else { return };
        node.half_open.remove(&end.key);
        if let Some(keys) = node.sources.get_mut(&source) {
            keys.remove(&end.key);
        }
    }

    /// Bytes have come: `before` so many were there.
    pub(super) fn rules_took(&mut self, end: End, before: usize) {
        self.step.why = Some(Why::Hears(end.key));
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
            false if connection.proves && now(FIRST_SAID) => Some(self.proof(end, connection)),
            false if connection.proves && now(THIRD_SAID) => {
                let id = self.claimed(connection).unwrap_or_default();
                let refused = Expected::Refused(GoodbyeReason::Refused);
                self.has_another_key(end.process, connection, id).then_some(refused)
            }
            false => match connection.first(true) {
                Some(First::Hello(hello)) => self.hello(end, connection, &hello),
                _ => None,
            },
        };
        if let Some(Expected::Held(Some(before))) = expected {
            let known = self.nodes.get(end.process).into_iter().flat_map(|node| node.known.values());
            self.step.until = known
                .filter_map(|known| known.held)
                .find(|held| held.key == before)
                .and_then(|held| held.until);
        }
        self.step.expected = expected.map(|expected| (end.key, expected));
    }

    /// Who the other end proves to be.
    fn claimed(&self, connection: &Connection) -> Option<Id> {
        let mate = connection.mate.and_then(|mate| self.processes.get(mate.process));
        let id = mate.map(|(who, _)| who.id).or(connection.member.map(|member| member.proves));
        id.filter(|_| connection.proves)
    }

    /// What is to come of a first message.
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

    /// What is to come of the hello of who has connected.
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
        let known = node.known.get(&id).copied().unwrap_or_default();
        let Some(link) = self.link(end.process, id) else {
            let ours = known.attempt.and_then(|key| self.ends.get(&End { key, ..end }));
            let said = ours.is_some_and(|ours| matches!(ours.first(false), Some(First::Hello(_))));
            return Some(match said && who.id < id {
                true => Expected::Refused(GoodbyeReason::Duplicate),
                false => Expected::Up { replaces: None, prefers: known.attempt },
            });
        };
        let standing = self.ends.get(&End { key: link, ..end })?;
        let (key, pinned) = (self.key_of(connection), self.key_of(standing));
        if hello.incarnation != known.run || key.is_some() != pinned.is_some() {
            return Some(self.waits(end, connection, hello));
        }
        if key != pinned {
            return Some(refused);
        }
        match hello.generation {
            generation if generation > known.heard[1] => {
                Some(Expected::Up { replaces: Some(link), prefers: None })
            }
            generation if generation <= known.heard[0] => Some(Expected::Refused(GoodbyeReason::Duplicate)),
            _ => None,
        }
    }

    /// What is to come of the hello of another run than the one whose link is up.
    fn waits(&self, end: End, connection: &Connection, hello: &Hello) -> Expected {
        let refused = Expected::Refused(GoodbyeReason::Refused);
        let Some(node) = self.nodes.get(end.process) else { return refused };
        let Some(held) = node.known.get(&hello.from).and_then(|known| known.held) else {
            let many = node.known.values().filter(|known| known.held.is_some()).count() >= HELD_MAX;
            return if many { refused } else { Expected::Held(None) };
        };
        let other = self.ends.get(&End { key: held.key, ..end });
        let same_key = other.is_some_and(|other| self.key_of(other) == self.key_of(connection));
        let anew = held.hello.incarnation == hello.incarnation && held.hello.generation < hello.generation;
        if same_key && anew { Expected::Held(Some(held.key)) } else { refused }
    }

    /// What is to come of the answer to our hello.
    fn answer(&self, end: End, connection: &Connection) -> Option<Expected> {
        let (who, _) = self.processes.get(end.process)?;
        let peer = connection.to?;
        match connection.first(true)? {
            First::Goodbye(GoodbyeReason::Duplicate) => Some(Expected::Waits),
            First::Hello(hello) if hello.job != who.job => Some(Expected::FailsOfAnotherJob),
            First::Hello(hello) => {
                let fits = (hello.from, hello.to) == (peer, who.id)
                    && (!hello.extents || hello.rings)
                    && (!hello.rings || connection.rings)
                    && !self.has_another_key(end.process, connection, peer);
                Some(if fits { Expected::Link } else { Expected::Fails })
            }
            _ => Some(Expected::Fails),
        }
    }

    /// Bytes are written: `before` so many were.
    pub(super) fn rules_wrote(&mut self, end: End, before: usize) {
        let Some(connection) = self.ends.get(&end) else { return };
        let peer = connection.to;
        let wrote = &connection.wrote;
        if connection.said_before(before) {
            return;
        }
        let second = connection.proves && !connection.ours && before == 0 && wrote.len() == SECOND_SAID;
        let hello = match (connection.first(false), connection.first(true)) {
            (Some(First::Hello(hello)), theirs) => Some((hello, theirs)),
            _ => None,
        };
        if second {
            self.step.seconds += 1;
            self.nodes.get_mut(end.process).into_iter().for_each(|node| node.proofs += 1);
        }
        let Some((hello, theirs)) = hello else { return };
        let Some((who, _)) = self.processes.get(end.process) else { return };
        let to = peer.or(match theirs {
            Some(First::Hello(theirs)) => Some(theirs.from),
            _ => None,
        });
        let says = (hello.from, Some(hello.to), hello.job, hello.incarnation, hello.hiwater);
        if says != (who.id, to, who.job, who.incarnation, who.hiwater) {
            self.wrong(end, &format!("says {hello:?}, which is not what it is"));
        }
        match (peer, theirs) {
            (Some(peer), _) => self.says(end, peer, hello.generation),
            (None, Some(First::Hello(theirs))) => {
                let others = self.nodes.get(end.process).map_or(0, |node| node.forgotten);
                let Some(known) = self.known(end.process, theirs.from) else { return };
                known.recall(others);
                let (said, vague) = (known.said, known.vague);
                if !vague && hello.generation != said.max(theirs.generation) {
                    self.wrong(
                        end,
                        &format!(
                            "answers generation {} with {}, having said {said}",
                            theirs.generation, hello.generation
                        ),
                    );
                }
            }
            _ => {}
        }
    }

    /// A first hello goes out, with this generation.
    fn says(&mut self, end: End, peer: Id, generation: u32) {
        self.known(end.process, peer).into_iter().for_each(Known::is_not_awaited);
        let Some(node) = self.nodes.get_mut(end.process) else { return };
        let others = node.forgotten;
        let known = node.known.entry(peer).or_default();
        known.recall(others);
        let said = known.said;
        let [least, most] = known.heard.map(|heard| heard.max(said) + 1);
        known.said = generation;
        if !std::mem::take(&mut known.vague) && !(least..=most).contains(&generation) {
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
                node.known.get_mut(id).into_iter().for_each(|known| known.recall(node.forgotten));
            }
            Input::Forgets(id) => {
                node.book.remove(id);
                node.forgotten += 1;
                if let Some(known) = node.known.get_mut(id).filter(|known| known.forgotten.is_none()) {
                    known.forgotten = Some(node.forgotten);
                }
            }
            Input::AnswersUntil(id, until) => {
                let held = node.known.get_mut(id).and_then(|known| known.held.as_mut());
                held.into_iter().for_each(|held| held.until = Some(*until));
                return self.step.until = Some(*until);
            }
            Input::Full(full) => return node.full = *full,
            _ => {}
        }
        self.step.why = Some(Why::Input(input));
    }

    /// A connection is a link.
    pub(super) fn rules_up(&mut self, end: End, peer: Id, run: u64, proof: Proof) {
        self.leaves(end);
        let Some(connection) = self.ends.get(&end) else { return };
        let generation = match connection.first(true) {
            Some(First::Hello(hello)) => hello.generation,
            _ => 0,
        };
        let at = self.at;
        let cause = self.step.why.clone();
        let Some(known) = self.known(end.process, peer) else { return };
        known.heard(run, generation);
        known.is_not_awaited();
        known.proof = Some(proof);
        if known.attempt == Some(end.key) {
            known.attempt = None;
        }
        let held = known.held.take_if(|held| held.key == end.key);
        let early = held.and_then(|held| held.until);
        self.step.was_held = held.map(|held| held.key).or(self.step.was_held);
        if early.is_some_and(|until| until > at) && matches!(cause, Some(Why::Input(Input::Tick))) {
            self.wrong(end, "takes the place of a link that had more time to answer");
        }
        self.step.up.push(end.key);
    }

    /// A connection is closed, or is to be when all is written.
    pub(super) fn rules_closed(&mut self, end: End, finished: bool) {
        self.leaves(end);
        let genuine = self.ends.get(&end).is_some_and(|connection| self.is_genuine(connection));
        if let Some(node) = self.nodes.get_mut(end.process) {
            for known in node.known.values_mut() {
                known.perhaps_awaited |= known.attempt == Some(end.key) && !genuine;
                known.attempt = known.attempt.filter(|key| *key != end.key);
                if let Some(held) = known.held.take_if(|held| held.key == end.key) {
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
        self.known(process, peer).into_iter().for_each(Known::is_not_awaited);
        self.is_absent(process, peer);
    }

    /// There is neither a link with an id nor an attempt.
    pub(super) fn is_absent(&mut self, process: Process, peer: Id) {
        let Some(node) = self.nodes.get_mut(process) else { return };
        let is_peer = node.book.contains_key(&peer);
        let just = matches!(self.step.why, Some(Why::Input(Input::Forgets(id))) if id == peer);
        if let Some(known) = node.known.get_mut(&peer).filter(|_| !just) {
            known.absent(is_peer, &mut node.forgotten);
        }
    }

    /// A peer is learned, and perhaps a key of it: what is said of the link that there is.
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
        let proof = self.nodes.get(process).and_then(|node| node.known.get(&peer)?.proof);
        let same = listed.is_some() && key == listed;
        let confirmed = (same && proof == Some(Proof::Secret)).then_some(link.key);
        let contradicted = (listed.is_some() && !same && proof != Some(Proof::User)).then_some(link.key);
        if (confirms, contradicts) != (confirmed, contradicted) {
            let what = format!(
                "has the key {key:?}, listed is {listed:?}: it confirms {confirms:?}, contradicts {contradicts:?}"
            );
            self.wrong(link, &what);
        }
        if let Some(known) = self.known(process, peer).filter(|_| confirmed.is_some()) {
            known.proof = Some(Proof::Key);
        }
    }

    /// The connections that are said to be half open are those that are.
    pub(super) fn waiting(&mut self, process: Process, said: &[(LinkKey, Option<u64>)]) {
        let Some(node) = self.nodes.get(process) else { return };
        let since = |key| self.ends.get(&End { process, key }).map(|connection| connection.since);
        if !node.half_open.iter().map(|key| (*key, since(*key))).eq(said.iter().copied()) {
            let what = format!("process {process} says that {said:?} wait, and {:?} do", node.half_open);
            self.add("rules", what);
        }
    }

    /// All that came of an input is carried out; so many proofs the machine has answered.
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
            Some(Why::Input(Input::NotOpened(id))) => Some((id, false)),
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
