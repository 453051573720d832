//! Checkers of worlds of peers: they judge from observations of processes and connections alone, apart from the world
//! and the machine under test.
//!
//! - `authentic`: a link is with a process of the given id and run, at the other end of the same connection. Each side
//!   has read exactly what the other has written. So recorded, reflected or changed bytes never make a link. With
//!   proofs, the peer is a member and has the key that is listed for its id. A process with another key never replaces
//!   a link that answers.
//! - `words`: an unproved side receives nothing but a refusal. It receives a second message only in answer to a first
//!   message that a member has made.
//! - `sealed`: if a side requires encryption, no link comes up without it; if the connecting side does not, none comes
//!   up with it.
//! - `events`: links with a peer come up and are lost in alternation.
//! - `ledger`: a connection is closed once, and gets no output after it is closed.
//! - `rules`: a process handles each message and each hello as specified in docs/wire.md.
//! - `standing`: the agreed properties of a link are those that both sides have sent.
//! - `one-link`, `bounded`, `liveness`: at rest both ends of a link agree on it, no other state is left, and each
//!   wanted peer is linked.

mod connection;
mod first_frames;
mod loss_kinds;
mod observation;
mod process_state;
mod rules;
mod step;
mod steps;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use gpc_trees::Id;

pub use self::observation::{End, Input, Member, Observation, Process, Who};
use crate::check::Violation;
use chained_gpc::link::peering::{HALF_OPEN_PER_SOURCE, LinkStatus, Proof, PublicKey, SECOND_LENGTH};
use connection::Connection;
use first_frames::{FIRST_END, FirstFrame, REFUSED, REFUSED_IN_CLEAR, SECOND_END, THIRD_END};
use loss_kinds::LossKinds;
use process_state::{PeerState, ProcessState};
use step::Step;

/// Largest number of violations that a run reports.
const VIOLATIONS_MAX: usize = 16;

/// Above the number of half-open connections from all other addresses of a world.
pub(super) const HALF_OPEN_OF_OTHERS: usize = 32;

/// Judges the observations.
#[derive(Debug, Default)]
pub struct Checkers {
    processes: Vec<(Who, bool)>,
    ends: BTreeMap<End, Connection>,
    links: BTreeMap<(Process, Id), End>,
    /// Bytes that members without a process have sent.
    members: Vec<Vec<u8>>,
    /// Links that were replaced although they answered, with the peer's process, until the new link shows its process.
    replaced: BTreeMap<(Process, Id), Process>,
    loss_kinds: LossKinds,
    found: Vec<Violation>,
    at: u64,
    nodes: Vec<ProcessState>,
    step: Step,
}

impl Checkers {
    /// Violations found so far.
    pub fn violations(&self) -> &[Violation] {
        &self.found
    }

    pub(super) fn add(&mut self, checker: &'static str, what: String) {
        if self.found.len() < VIOLATIONS_MAX {
            self.found.push(Violation { checker, at_ns: self.at, what });
        }
    }

    /// Handles an observation at a time in nanoseconds.
    pub fn observe(&mut self, at: u64, seen: Observation) {
        self.at = at;
        let wrong = self.loss_kinds.observe(&seen);
        wrong.into_iter().for_each(|what| self.add("events", what));
        match seen {
            Observation::Began(who) => {
                self.processes.push((who, true));
                self.nodes.push(Default::default());
            }
            Observation::Died(process) => self.died(process),
            Observation::Opened { .. } => self.opened(seen),
            Observation::Took(end, bytes) => {
                if let Some(connection) = self.ends.get_mut(&end) {
                    let before = connection.took.len();
                    connection.took.extend_from_slice(&bytes);
                    self.rules_took(end, before);
                }
            }
            Observation::MemberWrote(bytes) => self.members.push(bytes),
            Observation::Wrote(end, bytes) => self.wrote(end, &bytes),
            Observation::Closed(end) => self.closed(end),
            Observation::Finished(end) => self.finished(end),
            Observation::Up { end, peer, incarnation, proof, sealed, listed } => {
                self.up(end, peer, incarnation, sealed, (proof, listed));
            }
            Observation::Replaced { end, peer, answers } => self.was_replaced(end, peer, answers),
            Observation::Lost(process, peer, stood) => self.lost(process, peer, stood),
            Observation::LostBy(..) => {}
            Observation::Dropped(process, peer) => self.dropped(process, peer),
            Observation::Standing { .. } => self.standing(&seen),
            Observation::Asked(end, peer) => {
                self.check_open(end, "an answer");
                self.rules_asked(peer);
            }
            Observation::Refused(end) => self.rules_refused(end),
            Observation::Input(process, input) => self.rules_input(process, input),
            Observation::Lists { process, peer, confirms, contradicts } => {
                self.lists(process, peer, confirms, contradicts);
            }
            Observation::Waiting(process, waiting) => self.waiting(process, &waiting),
            Observation::Settled(process, proofs) => self.rules_settled(process, proofs),
            Observation::Remembers(process, peer) => {
                self.add("bounded", format!("process {process} remembers id {peer}, which is no peer"));
            }
            Observation::HalfOpen(process, count) if count > HALF_OPEN_PER_SOURCE + HALF_OPEN_OF_OTHERS => {
                self.add(
                    "bounded",
                    format!("process {process} keeps {count} half-open connections of one address"),
                );
            }
            Observation::HalfOpen(..) => {}
            Observation::Wants(process, peer, wanted) => self.wants(process, peer, wanted),
            Observation::InVain(process, peer) => {
                let what = format!("process {process} waits for a connection of id {peer}, which opens none");
                self.add("liveness", what);
            }
            Observation::Rest { process, unfinished, holds, due } => {
                self.rest(process, unfinished, holds, due)
            }
            Observation::Missing(process, peer) => {
                let id = self.processes.get(process).map_or(0, |(who, _)| who.id);
                self.add(
                    "liveness",
                    format!("id {id} has no link with id {peer}, which it wants, long after all faults"),
                );
            }
        }
    }

    fn opened(&mut self, seen: Observation) {
        let Observation::Opened { end, mate, ours, proves, encrypts, to, source, member, rings, unpermitted } =
            seen
        else {
            return;
        };
        let (took, wrote) = (Vec::new(), Vec::new());
        let (open, finished, up, since) = (true, false, None, self.at);
        let connection = Connection {
            to,
            source,
            member,
            rings,
            unpermitted,
            since,
            mate,
            ours,
            proves,
            encrypts,
            took,
            wrote,
            open,
            finished,
            up,
        };
        self.ends.insert(end, connection);
        if let Some(other) = mate.and_then(|mate| self.ends.get_mut(&mate)) {
            other.mate = Some(end);
        }
        self.rules_opened(end, to, source);
    }

    /// The properties of a link are those that both sides have sent, within the offer.
    fn standing(&mut self, seen: &Observation) {
        let Observation::Standing { end, accepted, rings, extents, hiwater } = *seen else { return };
        let Some(connection) = self.ends.get(&end) else { return };
        let answer = connection.first(connection.ours);
        let (Some(FirstFrame::Hello(answer)), Some(FirstFrame::Hello(theirs))) =
            (answer, connection.first(true))
        else {
            return;
        };
        let takes = connection.ours || connection.rings == rings;
        let right = accepted != connection.ours
            && (rings, extents) == (answer.rings, answer.extents)
            && (!extents || rings)
            && (!rings || connection.rings)
            && takes
            && hiwater == theirs.hiwater;
        if !right {
            self.add("standing", format!("{seen:?}, and the answer was {answer:?}, their hello {theirs:?}"));
        }
    }

    fn dropped(&mut self, process: Process, peer: Id) {
        self.links.remove(&(process, peer));
        self.rules_input(process, Input::Abandons(peer));
        self.peer_state(process, peer).into_iter().for_each(PeerState::stop_awaiting);
        self.note_absence(process, peer);
    }

    /// The answer of `want` matches the state of the link.
    fn wants(&mut self, process: Process, peer: Id, wanted: LinkStatus) {
        let link = self.links.get(&(process, peer)).map(|end| end.key);
        let state = self.peer_state(process, peer).copied().unwrap_or_default();
        let comes = state.attempt.is_some() || state.awaited.is_some();
        let right = match wanted {
            _ if state.perhaps_awaited => true,
            LinkStatus::Up(key) => link == Some(key),
            LinkStatus::Opening => link.is_none() && comes,
            LinkStatus::Open | LinkStatus::Unknown => link.is_none() && !comes,
        };
        if !right {
            let there = format!("the link {link:?}, one under way {comes}");
            self.add(
                "rules",
                format!("process {process} says {wanted:?} of id {peer}, and there is {there}"),
            );
        }
    }

    fn died(&mut self, process: Process) {
        self.processes.get_mut(process).into_iter().for_each(|(_, alive)| *alive = false);
        self.ends
            .iter_mut()
            .filter(|(end, _)| end.process == process)
            .for_each(|(_, connection)| connection.open = false);
        self.links.retain(|(of, _), _| *of != process);
    }

    /// Checks that a connection can still get outputs, and returns whether it can.
    fn check_open(&mut self, end: End, what: &str) -> bool {
        let open = self.ends.get(&end).is_some_and(|connection| connection.open && !connection.finished);
        if !open {
            self.add("ledger", format!("{what} is asked of {end:?}, which is closed"));
        }
        open
    }

    fn closed(&mut self, end: End) {
        match self.ends.get_mut(&end) {
            Some(connection) if connection.open => {
                connection.open = false;
                if !connection.finished {
                    self.rules_closed(end, false);
                }
            }
            _ => self.add("ledger", format!("{end:?} is closed twice")),
        }
    }

    fn finished(&mut self, end: End) {
        if self.check_open(end, "its last byte") {
            self.ends.get_mut(&end).into_iter().for_each(|connection| connection.finished = true);
            self.rules_closed(end, true);
        }
    }

    fn wrote(&mut self, end: End, bytes: &[u8]) {
        if !self.check_open(end, "a byte") {
            return;
        }
        let Some(connection) = self.ends.get_mut(&end) else { return };
        let before = connection.wrote.len();
        connection.wrote.extend_from_slice(bytes);
        if connection.unpermitted {
            self.add("words", format!("{end:?} says something by a way that is not permitted"));
        }
        self.rules_wrote(end, before);
        if let Some(what) = self.words(end) {
            self.add("words", what);
        }
    }

    /// Describes what is wrong with the bytes sent to an unproved side.
    fn words(&self, end: End) -> Option<String> {
        let connection = self.ends.get(&end).filter(|connection| connection.proves && !connection.ours)?;
        let (took, wrote) = (&connection.took, &connection.wrote);
        let second = wrote.len() >= SECOND_END && wrote.starts_with(&(SECOND_LENGTH as u16).to_le_bytes());
        if second && !self.is_of_a_member(end.process, took) {
            return Some(format!("{end:?} proves itself to who has not made the first message"));
        }
        if took.len() >= THIRD_END && self.is_third_genuine(connection) {
            return None;
        }
        let rest = if second { &wrote[SECOND_END..] } else { &wrote[..] };
        let permitted = rest.is_empty() || rest == REFUSED || !second && rest == REFUSED_IN_CLEAR;
        (!permitted).then(|| format!("{end:?} says {rest:02x?} to who is not proved"))
    }

    /// Whether a member made this first message, at any time.
    fn is_of_a_member(&self, process: Process, took: &[u8]) -> bool {
        let psk = |process: Process| self.processes.get(process).and_then(|(who, _)| who.psk);
        let Some(first) = took.get(..FIRST_END) else { return false };
        let by_process = self.ends.iter().any(|(end, connection)| {
            connection.ours && connection.wrote.starts_with(first) && psk(end.process) == psk(process)
        });
        by_process || self.members.iter().any(|said| said.starts_with(first))
    }

    fn is_third_genuine(&self, connection: &Connection) -> bool {
        let third = &connection.took[FIRST_END..THIRD_END];
        let mate = connection.mate.and_then(|mate| self.ends.get(&mate));
        let by_member = self.members.iter().any(|said| said.starts_with(third));
        by_member
            || mate.is_some_and(|mate| {
                mate.wrote.get(..THIRD_END) == connection.took.get(..THIRD_END)
                    && mate.took.get(..SECOND_END) == connection.wrote.get(..SECOND_END)
            })
    }

    fn up(&mut self, end: End, peer: Id, incarnation: u64, sealed: bool, by: (Proof, Option<PublicKey>)) {
        if !self.check_open(end, "a link") {
            return;
        }
        let wrong = self.is_another(end, peer, incarnation, by);
        wrong
            .into_iter()
            .for_each(|what| self.add("authentic", format!("id {peer} is up at {end:?}: {what}")));
        let mate = self.ends.get(&end).and_then(|connection| connection.mate).map(|mate| mate.process);
        if self.replaced.remove(&(end.process, peer)).is_some_and(|before| Some(before) != mate) {
            self.add("authentic", format!("id {peer} is up at {end:?} in place of a link that answers"));
        }
        self.rules_up(end, peer, incarnation, by.0);
        let asked = self.asks_for_encryption(end);
        if let Some(connection) = self.ends.get_mut(&end) {
            connection.up = Some(peer);
            if connection.encrypts && !sealed {
                self.add("sealed", format!("id {peer} is up at {end:?} without encryption"));
            } else if sealed && !asked {
                self.add(
                    "sealed",
                    format!("id {peer} is up at {end:?}, encrypted though nobody asks for it"),
                );
            }
        }
        if self.links.insert((end.process, peer), end).is_some() {
            self.add("events", format!("id {peer} is up at process {} a second time", end.process));
        }
    }

    /// Whether the connecting side requires encryption; members without a process always do.
    fn asks_for_encryption(&self, end: End) -> bool {
        let Some(connection) = self.ends.get(&end) else { return false };
        let mate = connection.mate.and_then(|mate| self.ends.get(&mate));
        match connection.ours {
            true => connection.encrypts,
            false => mate.is_none_or(|mate| mate.encrypts),
        }
    }

    /// Describes how a linked peer differs from what the machine reports.
    fn is_another(
        &self,
        end: End,
        peer: Id,
        incarnation: u64,
        by: (Proof, Option<PublicKey>),
    ) -> Option<String> {
        let connection = self.ends.get(&end)?;
        if let Some(member) = connection.member {
            let says = connection.proves && (member.proves, member.says) == (peer, (peer, incarnation));
            let key = by.1.is_none_or(|listed| listed == member.key);
            let honest = says && key && self.is_genuine(connection);
            return (!honest).then(|| format!("it is {member:?}"));
        }
        let Some(mate) = connection.mate else { return Some("nobody of the job is at its other end".into()) };
        let (who, _) = self.processes.get(mate.process)?;
        let (here, _) = self.processes.get(end.process)?;
        if (who.id, who.incarnation) != (peer, incarnation) {
            return Some(format!("it is run {} of id {}", who.incarnation, who.id));
        }
        let Some(other) = self.ends.get(&mate) else { return Some("its other end never was".into()) };
        let heard = match connection.ours {
            true => other.took == connection.wrote,
            // The last message has not arrived yet.
            false => connection.wrote.starts_with(&other.took),
        };
        if connection.took != other.wrote || !heard {
            return Some("what it has written is not what came".into());
        }
        if !connection.proves {
            return None;
        }
        if !connection.ours && other.took.len() < SECOND_END {
            return Some("it has not heard the second message".into());
        }
        if here.psk.is_none() || here.psk != who.psk {
            return Some("it has not the secret".into());
        }
        let (proof, listed) = by;
        match (proof, listed) {
            (Proof::Key, Some(listed)) if listed == who.key => None,
            (Proof::Secret, None) => None,
            _ => Some(format!("it is proved by {proof:?}, listed is {listed:?}, and it has {:?}", who.key)),
        }
    }

    fn was_replaced(&mut self, end: End, peer: Id, answers: bool) {
        if !self.check_open(end, "a last word") {
            return;
        }
        let mate = self.ends.get(&end).and_then(|connection| connection.mate);
        if let Some(mate) = mate.filter(|_| answers) {
            self.replaced.insert((end.process, peer), mate.process);
        }
        self.rules_replaced(end);
        self.closed(end);
    }

    fn lost(&mut self, process: Process, peer: Id, stood: bool) {
        if self.links.remove(&(process, peer)).is_some() != stood {
            let was = if stood { "was none" } else { "was one" };
            self.add("events", format!("process {process} loses its link with id {peer}, and there {was}"));
        }
        self.rules_lost(process, peer, stood);
    }

    fn rest(&mut self, process: Process, unfinished: usize, holds: bool, due: bool) {
        if unfinished > 0 || holds || due {
            let left = format!(
                "{unfinished} entries of connections that are no links, holds {holds}, something due {due}"
            );
            self.add("bounded", format!("at rest process {process} has {left}"));
        }
        let mine = self
            .ends
            .iter()
            .filter(|(end, connection)| end.process == process && connection.open && !connection.finished);
        let (mut left, mut apart) = (Vec::new(), Vec::new());
        for (end, connection) in mine {
            match connection.up {
                Some(peer) if self.links.get(&(process, peer)) == Some(end) => {
                    let other = connection.mate.and_then(|mate| Some((mate, self.ends.get(&mate)?)));
                    if !other.is_some_and(|(mate, other)| {
                        other.open
                            && other.up.is_some_and(|up| self.links.get(&(mate.process, up)) == Some(&mate))
                    }) {
                        apart.push((*end, peer));
                    }
                }
                _ => left.push(*end),
            }
        }
        for (end, peer) in apart {
            self.add("one-link", format!("at rest {end:?} is the link with id {peer} on this side alone"));
        }
        if let Some(end) = left.first() {
            self.add(
                "bounded",
                format!("at rest {} connections are no links and not closed, such as {end:?}", left.len()),
            );
        }
    }
}
