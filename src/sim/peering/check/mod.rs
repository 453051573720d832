//! What must hold of every world, judged from what was seen of its processes and connections, apart from the world and from the machine under test.
//!
//! - `authentic`: who comes up as an id was a process of that id and run, a member where that is proved, with the key that is listed for it, and at the other end of this very connection: each side has taken exactly what the
//!   other has written. So nothing that was recorded, reflected or changed comes up. And no process with another key takes a link's place while that link answers.
//! - `words`: who has not proved itself is told nothing but that it is refused, and is given a second message for a first one alone that a member has made.
//! - `sealed`: where a side asks for encryption, no link comes up without; where who has connected does not, none with.
//! - `events`: links of a peer come and go by turns.
//! - `ledger`: a connection is closed once, and nothing is asked of one that is closed.
//! - `rules`: what a process does about each message and each hello is what docs/wire.md says.
//! - `standing`: what both sides of a link agree on is what they have said.
//! - `one-link`, `bounded`, `liveness`: at rest both ends of a link are links, nothing else is left, and who was wanted is linked.

mod kinds;
mod rules;
mod said;
mod steps;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use gpc_trees::Id;

pub use self::rules::Input;
use self::rules::Known;
use crate::peering::{
    FIRST_LENGTH, HALF_OPEN_PER_SOURCE, LENGTH_BYTES, LinkKey, Proof, PublicKey, SECOND_LENGTH, Source,
    THIRD_LENGTH, Wanted,
};
use crate::sim::check::Violation;
use crate::wire::{CauseKind, Job};

/// Bytes of the preamble and the first message, and of those and the third.
const FIRST_SAID: usize = 8 + LENGTH_BYTES + FIRST_LENGTH;
const THIRD_SAID: usize = FIRST_SAID + LENGTH_BYTES + THIRD_LENGTH;

/// Bytes of the second message.
const SECOND_SAID: usize = LENGTH_BYTES + SECOND_LENGTH;

/// A proof that is refused.
const REFUSED: [u8; LENGTH_BYTES] = [0; LENGTH_BYTES];

/// What a hello in clear is told by who asks for a proof: GOODBYE (refused), `refused`.
const REFUSED_IN_CLEAR: &[u8] = b"\x08\x00\x00\x00\x07\x00\x00\x00\x02refused";

/// Violations that one run reports.
const VIOLATIONS_MAX: usize = 16;

/// More half-open connections than all other addresses of a world together ever have.
pub(super) const HALF_OPEN_OF_OTHERS: usize = 32;

/// A process, by the order in which they began.
pub type Process = usize;

/// One end of a connection.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct End {
    /// Whose.
    pub process: Process,
    /// Its name there.
    pub key: LinkKey,
}

/// Who a process is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Who {
    /// Its id.
    pub id: Id,
    /// This run of it.
    pub incarnation: u64,
    /// The secret and the job that it has, if it has any.
    pub psk: Option<u64>,
    /// Its key.
    pub key: PublicKey,
    /// Its job.
    pub job: Job,
    /// Requests that it takes.
    pub hiwater: u32,
}

/// A member that is no process of its own here.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Member {
    /// The secret and the job that it has, if it has any.
    pub psk: Option<u64>,
    /// Who it proves to be.
    pub proves: Id,
    /// Who it says that it is, and which run.
    pub says: (Id, u64),
    /// Its key.
    pub key: PublicKey,
}

/// What a world has seen.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Seen {
    /// A process begins.
    Began(Who),
    /// A process ends.
    Died(Process),
    /// A connection is there.
    Opened {
        /// This end of it.
        end: End,
        /// The process at the other end, if it is one: told when its end is there, too.
        mate: Option<End>,
        /// Whether this side has connected.
        ours: bool,
        /// Whether this side asks for a proof.
        proves: bool,
        /// Whether this side asks for encryption.
        encrypts: bool,
        /// For whom this side has connected.
        to: Option<Id>,
        /// Where the other side has connected from.
        source: Option<Source>,
        /// Who is at the other end, if it is no process.
        member: Option<Member>,
        /// Whether memory for rings is offered.
        rings: bool,
        /// Whether a connection by this way is to be refused at once.
        unpermitted: bool,
    },
    /// A member that is no process of its own here, and lies about its id, has said this.
    MemberSaid(Vec<u8>),
    /// The machine was given bytes.
    Took(End, Vec<u8>),
    /// The machine writes bytes.
    Wrote(End, Vec<u8>),
    /// A connection is closed, or has ended.
    Closed(End),
    /// A connection is finished: it is closed when what was written has left.
    Finished(End),
    /// A connection is a link.
    Up {
        /// This end of it.
        end: End,
        /// With whom.
        peer: Id,
        /// Which run of it.
        incarnation: u64,
        /// How it was proved.
        proof: Proof,
        /// Whether it is encrypted.
        sealed: bool,
        /// The key that is listed for the peer.
        listed: Option<PublicKey>,
    },
    /// A link is closed for another one. `answers`: its other end has been living, awake and reached for longer than it has to answer.
    Replaced {
        /// The link.
        end: End,
        /// With whom.
        peer: Id,
        /// See above.
        answers: bool,
    },
    /// What a link is like: whether this side has answered, whether rings are used, and data by descriptor.
    Standing {
        /// This end of it.
        end: End,
        /// See above.
        accepted: bool,
        /// See above.
        rings: bool,
        /// See above.
        extents: bool,
        /// Requests that the peer takes.
        hiwater: u32,
    },
    /// The link of a peer is asked, for another run of it.
    Asked(End, Id),
    /// It is told that a connection was refused.
    Refused(End),
    /// A peer was learned, and perhaps its key was listed: the link that the machine says to have proved that key before, and the one that it says to have proved another.
    Lists {
        /// Whose.
        process: Process,
        /// Of whom.
        peer: Id,
        /// See above.
        confirms: Option<LinkKey>,
        /// See above.
        contradicts: Option<LinkKey>,
    },
    /// The connections that the machine says to be half open, and since when each is.
    Waiting(Process, Vec<(LinkKey, Option<u64>)>),
    /// An input of the machine.
    Input(Process, Input),
    /// All that came of it is carried out; so many proofs the machine has answered.
    Settled(Process, u64),
    /// Something of an id is remembered, which is no peer and has no link.
    Remembers(Process, Id),
    /// What waits for a peer is lost; whether there was a link.
    Lost(Process, Id, bool),
    /// As what a link is told to be lost, just before it is.
    LostBy(Process, Id, CauseKind),
    /// The driver has closed a link, or an attempt, itself.
    Dropped(Process, Id),
    /// Something is to go to a peer: what the machine says of its link.
    Wants(Process, Id, Wanted),
    /// A process waits for a connection that a peer is said to open; that one takes a link for standing that this one has closed before, or waits as well.
    InVain(Process, Id),
    /// How many connections of others are no links yet.
    HalfOpen(Process, usize),
    /// At rest: what is left at a process beside its links.
    Rest {
        /// Whose.
        process: Process,
        /// Entries of its tables of connections that are no links.
        unfinished: usize,
        /// Whether somebody waits for a link to be gone.
        holds: bool,
        /// Whether anything is still due, or awaited.
        due: bool,
    },
    /// At rest: this peer was wanted, and there is no link.
    Missing(Process, Id),
}

#[derive(Debug)]
struct Connection {
    to: Option<Id>,
    source: Option<Source>,
    member: Option<Member>,
    rings: bool,
    unpermitted: bool,
    since: u64,
    mate: Option<End>,
    ours: bool,
    proves: bool,
    encrypts: bool,
    took: Vec<u8>,
    wrote: Vec<u8>,
    open: bool,
    finished: bool,
    up: Option<Id>,
}

/// Judges what was seen.
#[derive(Debug, Default)]
pub struct Checkers {
    processes: Vec<(Who, bool)>,
    ends: BTreeMap<End, Connection>,
    links: BTreeMap<(Process, Id), End>,
    /// What members have said that are no processes here.
    members: Vec<Vec<u8>>,
    /// Links that were replaced though they answered: whose they were, until it is seen by whom.
    replaced: BTreeMap<(Process, Id), Process>,
    kinds: kinds::Kinds,
    found: Vec<Violation>,
    at: u64,
    nodes: Vec<rules::Node>,
    step: rules::Step,
}

impl Checkers {
    /// What was found so far.
    pub fn violations(&self) -> &[Violation] {
        &self.found
    }

    pub(super) fn add(&mut self, checker: &'static str, what: String) {
        if self.found.len() < VIOLATIONS_MAX {
            self.found.push(Violation { checker, at_ns: self.at, what });
        }
    }

    /// Takes what was seen at a moment, nanoseconds.
    pub fn see(&mut self, at: u64, seen: Seen) {
        self.at = at;
        let wrong = self.kinds.observe(&seen);
        wrong.into_iter().for_each(|what| self.add("events", what));
        match seen {
            Seen::Began(who) => {
                self.processes.push((who, true));
                self.nodes.push(Default::default());
            }
            Seen::Died(process) => self.died(process),
            Seen::Opened { .. } => self.opened(seen),
            Seen::Took(end, bytes) => {
                if let Some(connection) = self.ends.get_mut(&end) {
                    let before = connection.took.len();
                    connection.took.extend_from_slice(&bytes);
                    self.rules_took(end, before);
                }
            }
            Seen::MemberSaid(bytes) => self.members.push(bytes),
            Seen::Wrote(end, bytes) => self.wrote(end, &bytes),
            Seen::Closed(end) => self.closed(end),
            Seen::Finished(end) => self.finished(end),
            Seen::Up { end, peer, incarnation, proof, sealed, listed } => {
                self.up(end, peer, incarnation, sealed, (proof, listed));
            }
            Seen::Replaced { end, peer, answers } => self.was_replaced(end, peer, answers),
            Seen::Lost(process, peer, stood) => self.lost(process, peer, stood),
            Seen::LostBy(..) => {}
            Seen::Dropped(process, peer) => self.dropped(process, peer),
            Seen::Standing { .. } => self.standing(&seen),
            Seen::Asked(end, peer) => {
                self.is_open(end, "an answer");
                self.rules_asked(peer);
            }
            Seen::Refused(end) => self.rules_refused(end),
            Seen::Input(process, input) => self.rules_input(process, input),
            Seen::Lists { process, peer, confirms, contradicts } => {
                self.lists(process, peer, confirms, contradicts);
            }
            Seen::Waiting(process, waiting) => self.waiting(process, &waiting),
            Seen::Settled(process, proofs) => self.rules_settled(process, proofs),
            Seen::Remembers(process, peer) => {
                self.add("bounded", format!("process {process} remembers id {peer}, which is no peer"));
            }
            Seen::HalfOpen(process, count) if count > HALF_OPEN_PER_SOURCE + HALF_OPEN_OF_OTHERS => {
                self.add(
                    "bounded",
                    format!("process {process} keeps {count} half-open connections of one address"),
                );
            }
            Seen::HalfOpen(..) => {}
            Seen::Wants(process, peer, wanted) => self.wants(process, peer, wanted),
            Seen::InVain(process, peer) => {
                let what = format!("process {process} waits for a connection of id {peer}, which opens none");
                self.add("liveness", what);
            }
            Seen::Rest { process, unfinished, holds, due } => self.rest(process, unfinished, holds, due),
            Seen::Missing(process, peer) => {
                let id = self.processes.get(process).map_or(0, |(who, _)| who.id);
                self.add(
                    "liveness",
                    format!("id {id} has no link with id {peer}, which it wants, long after all faults"),
                );
            }
        }
    }

    fn opened(&mut self, seen: Seen) {
        let Seen::Opened { end, mate, ours, proves, encrypts, to, source, member, rings, unpermitted } = seen
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

    /// What a link is like is what both have said, and no more than was offered.
    fn standing(&mut self, seen: &Seen) {
        let Seen::Standing { end, accepted, rings, extents, hiwater } = *seen else { return };
        let Some(connection) = self.ends.get(&end) else { return };
        let answer = connection.first(connection.ours);
        let (Some(said::First::Hello(answer)), Some(said::First::Hello(theirs))) =
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
        self.known(process, peer).into_iter().for_each(Known::is_not_awaited);
        self.is_absent(process, peer);
    }

    /// Whoever asks for the way to a peer hears how far the link has come.
    fn wants(&mut self, process: Process, peer: Id, wanted: Wanted) {
        let link = self.links.get(&(process, peer)).map(|end| end.key);
        let known = self.known(process, peer).copied().unwrap_or_default();
        let comes = known.attempt.is_some() || known.awaited.is_some();
        let right = match wanted {
            _ if known.perhaps_awaited => true,
            Wanted::Up(key) => link == Some(key),
            Wanted::Coming => link.is_none() && comes,
            Wanted::Open | Wanted::Unknown => link.is_none() && !comes,
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

    /// Whether a connection is one that something may be asked of.
    fn is_open(&mut self, end: End, what: &str) -> bool {
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
        if self.is_open(end, "its last byte") {
            self.ends.get_mut(&end).into_iter().for_each(|connection| connection.finished = true);
            self.rules_closed(end, true);
        }
    }

    fn wrote(&mut self, end: End, bytes: &[u8]) {
        if !self.is_open(end, "a byte") {
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

    /// What is wrong with what an unproved side was told.
    fn words(&self, end: End) -> Option<String> {
        let connection = self.ends.get(&end).filter(|connection| connection.proves && !connection.ours)?;
        let (took, wrote) = (&connection.took, &connection.wrote);
        let second = wrote.len() >= SECOND_SAID && wrote.starts_with(&(SECOND_LENGTH as u16).to_le_bytes());
        if second && !self.is_of_a_member(end.process, took) {
            return Some(format!("{end:?} proves itself to who has not made the first message"));
        }
        if took.len() >= THIRD_SAID && self.is_third_genuine(connection) {
            return None;
        }
        let rest = if second { &wrote[SECOND_SAID..] } else { &wrote[..] };
        let known = rest.is_empty() || rest == REFUSED || !second && rest == REFUSED_IN_CLEAR;
        (!known).then(|| format!("{end:?} says {rest:02x?} to who is not proved"))
    }

    /// Whether a first message was made by a member, at whatever time.
    fn is_of_a_member(&self, process: Process, took: &[u8]) -> bool {
        let psk = |process: Process| self.processes.get(process).and_then(|(who, _)| who.psk);
        let Some(first) = took.get(..FIRST_SAID) else { return false };
        let by_process = self.ends.iter().any(|(end, connection)| {
            connection.ours && connection.wrote.starts_with(first) && psk(end.process) == psk(process)
        });
        by_process || self.members.iter().any(|said| said.starts_with(first))
    }

    fn is_third_genuine(&self, connection: &Connection) -> bool {
        let third = &connection.took[FIRST_SAID..THIRD_SAID];
        let mate = connection.mate.and_then(|mate| self.ends.get(&mate));
        let by_member = self.members.iter().any(|said| said.starts_with(third));
        by_member
            || mate.is_some_and(|mate| {
                mate.wrote.get(..THIRD_SAID) == connection.took.get(..THIRD_SAID)
                    && mate.took.get(..SECOND_SAID) == connection.wrote.get(..SECOND_SAID)
            })
    }

    fn up(&mut self, end: End, peer: Id, incarnation: u64, sealed: bool, by: (Proof, Option<PublicKey>)) {
        if !self.is_open(end, "a link") {
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

    /// Whether who has connected asks for encryption: members that are no processes here always do.
    fn asks_for_encryption(&self, end: End) -> bool {
        let Some(connection) = self.ends.get(&end) else { return false };
        let mate = connection.mate.and_then(|mate| self.ends.get(&mate));
        match connection.ours {
            true => connection.encrypts,
            false => mate.is_none_or(|mate| mate.encrypts),
        }
    }

    /// Why who is up is not who it is said to be.
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
            // The last word is not heard yet.
            false => connection.wrote.starts_with(&other.took),
        };
        if connection.took != other.wrote || !heard {
            return Some("what it has written is not what came".into());
        }
        if !connection.proves {
            return None;
        }
        if !connection.ours && other.took.len() < SECOND_SAID {
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
        if !self.is_open(end, "a last word") {
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
