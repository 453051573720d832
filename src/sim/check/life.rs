//! Signs of life: asked only of those whose answers are awaited; nobody is given up who was heard, and nobody is asked for ever.

use std::collections::{BTreeMap, BTreeSet};

use gpc_trees::Id;

use super::book::Book;
use super::{Findings, Observation};
use crate::wire::message::Answer;
use crate::wire::{CallId, Message};

const NAME: &str = "life";

/// What one id knows of another whom it has asked.
#[derive(Default)]
struct Peer {
    /// Calls in which an answer is awaited.
    awaited: BTreeSet<CallId>,
    /// When it was asked first and last, and heard last.
    first_asked: u64,
    last_asked: u64,
    heard: u64,
    /// How often it was asked since.
    asked: u32,
}

/// Who has asked whom. Empty where no signs of life are asked for.
#[derive(Default)]
pub(super) struct Life {
    /// How often silent peers are asked, and how long one may be silent, nanoseconds.
    rules: Option<(u64, u64)>,
    peers: BTreeMap<(Id, Id), Peer>,
    /// Who was asked by whom, and has not said yes by the end of its input.
    questions: BTreeSet<(Id, Id)>,
}

/// How often a peer must have been asked before it is given up.
const ASKED_MIN: u32 = 2;

impl Life {
    pub(super) fn observe(&mut self, book: &Book, seen: &Observation<'_>, findings: &mut Findings) {
        let now = findings.at;
        match seen {
            Observation::Heartbeat { every_ns, dead_after_ns } => {
                self.rules = Some((*every_ns, *dead_after_ns))
            }
            Observation::Sent { from, to, message: Message::Ping } => {
                let wrong = self.asks(book, *from, *to, now);
                self.peers.get_mut(&(*from, *to)).into_iter().for_each(|peer| peer.asked += 1);
                wrong.into_iter().for_each(|what| findings.add(NAME, format!("id {from} {what}")));
            }
            Observation::Abandoned { at, peer } => {
                let wrong = self.gives_up(*at, *peer, now);
                wrong.into_iter().for_each(|what| findings.add(NAME, format!("id {at} {what}")));
            }
            Observation::Received { at, from, message: Message::Ping } => {
                self.questions.insert((*at, *from));
                self.heard(*at, *from, now);
            }
            Observation::Sent { from, to, message: Message::Pong } => {
                self.questions.remove(&(*from, *to));
            }
            Observation::Held { id, .. } => {
                while let Some(&(_, asker)) = self.questions.range((*id, 0)..=(*id, Id::MAX)).next() {
                    self.questions.remove(&(*id, asker));
                    findings.add(NAME, format!("id {id} gives {asker} no sign of life, which asked for one"));
                }
            }
            _ if self.rules.is_none() => {}
            Observation::Sent { from, to, message: Message::Request(request) } => {
                let first = Peer { first_asked: now, ..Peer::default() };
                let peer = self.peers.entry((*from, *to)).or_insert(first);
                peer.last_asked = now;
                peer.awaited.insert(request.call);
            }
            Observation::Received { at, from, message } => {
                let Some(peer) = self.heard(*at, *from, now) else { return };
                // More is to come of a reply whose head has.
                if let Message::Response(response) = message
                    && !matches!(response.answer, Answer::Arriving(_))
                {
                    peer.awaited.remove(&response.call);
                }
            }
            Observation::LinkEnded { at, peer } => {
                let peer = self.peers.get_mut(&(*at, *peer));
                peer.into_iter().for_each(|peer| peer.awaited.clear());
            }
            Observation::Ended { id } => {
                self.peers.retain(|(at, _), _| at != id);
                self.questions.retain(|(at, _)| at != id);
            }
            _ => {}
        }
    }

    /// Something came to an id from a peer whom it has asked.
    fn heard(&mut self, at: Id, from: Id, now: u64) -> Option<&mut Peer> {
        let peer = self.peers.get_mut(&(at, from))?;
        (peer.heard, peer.asked) = (now, 0);
        Some(peer)
    }

    /// An id asks a peer for a sign of life; what is wrong with that.
    fn asks(&self, book: &Book, id: Id, peer: Id, now: u64) -> Option<String> {
        let Some((every, dead_after)) = self.rules else {
            return Some(format!("asks {peer} for a sign of life, and none are to be asked for"));
        };
        let known = self.peers.get(&(id, peer)).filter(|peer| !peer.awaited.is_empty());
        let Some(known) = known else {
            return Some(format!("asks {peer} for a sign of life, whose answer it does not await"));
        };
        let awake = book.resumed.get(&id).copied().unwrap_or_default();
        let silent = now - known.heard.max(known.last_asked).max(awake).min(now);
        // It looks at its peers from time to time only.
        (silent > dead_after + 2 * every).then(|| {
            format!("asks {peer} again, which has been silent for {silent} ns and is dead after {dead_after}")
        })
    }

    /// An id gives a peer up; what is wrong with that.
    fn gives_up(&self, id: Id, peer: Id, now: u64) -> Option<String> {
        let Some((_, dead_after)) = self.rules else {
            return Some(format!("gives {peer} up, and nobody is to be given up"));
        };
        let Some(known) = self.peers.get(&(id, peer)) else {
            return Some(format!("gives {peer} up, whom it never asked"));
        };
        let silent = now - known.heard.max(known.first_asked);
        if silent < dead_after {
            return Some(format!("gives {peer} up after {silent} ns, where {dead_after} must pass"));
        }
        let asked = known.asked;
        (asked < ASKED_MIN).then(|| format!("gives {peer} up, whom it has asked {asked} times"))
    }
}
