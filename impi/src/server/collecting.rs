//! What clients say under labels, when a label is answered, and how the session comes to its end: COLL, DONE and FINI.
//!
//! Source: IMPI, "Startup": the commands COLL, DONE and FINI, and its examples of per-client and per-host labels.

use bytes::Bytes;

use super::joining::length;
use super::seat::Seat;
use super::{Check, ConnId, Event, Failure, Rank, Server, check};
use crate::wire::{Command, Label, Relay, coll, command};

/// Labels of one client in all, many times those that are known: each is a broadcast that waits for whoever does not read, however short it is.
const LABELS_MAX: u32 = 4096;

/// Unknown commands of one client: each is told to those who look on.
const IGNORED_MAX: u32 = 1000;

impl Server {
    /// What a client says, apart from what is said before it is one.
    pub(super) fn client(
        &mut self,
        id: ConnId,
        rank: Rank,
        command: Command,
        payload: Bytes,
    ) -> Result<(), String> {
        let Some(seat) = self.seats[rank as usize].as_mut() else { return Ok(()) };
        let empty = || match payload.len() {
            0 => Ok(()),
            len => Err(length(&command.to_string(), 0, len)),
        };
        match command {
            Command::Coll => self.collect(id, rank, &payload)?,
            Command::Done if seat.done => return Err("DONE a second time".into()),
            Command::Done => {
                empty()?;
                seat.done = true;
                seat.said.done();
                self.event(Event::Done(rank));
                self.answer();
            }
            Command::Fini if !seat.done => return Err("FINI before DONE".into()),
            Command::Fini if self.relaying.owes(rank) => {
                return Err("FINI before it has answered what this project's server has asked".into());
            }
            Command::Fini => {
                empty()?;
                seat.ended = true;
                self.event(Event::Ended(rank));
                self.end_if_all_are_gone();
            }
            Command::Auth | Command::Impi => return Err(format!("{command} a second time")),
            Command::Other(number) if self.settings.relay.is_some() && Relay::name_of(number).is_some() => {
                self.count(id, &payload);
                match Relay::read(number, &payload) {
                    Some(Ok(said)) => self.relay_said(rank, said)?,
                    Some(Err(error)) => return Err(error.to_string()),
                    None => {}
                }
            }
            Command::Other(number) => {
                seat.ignored += 1;
                if seat.ignored > IGNORED_MAX {
                    return Err(format!("more than {IGNORED_MAX} commands that are not known"));
                }
                self.count(id, &payload);
                self.event(Event::Ignored(rank, number, payload.len()));
            }
        }
        Ok(())
    }

    /// Counts a command against what a client may send.
    fn count(&mut self, id: ConnId, payload: &Bytes) {
        if let Some(conn) = self.conns.get_mut(&id) {
            conn.received += 8 + payload.len();
        }
    }

    fn collect(&mut self, id: ConnId, rank: Rank, payload: &Bytes) -> Result<(), String> {
        let Some(label) = payload.first_chunk().map(|label| Label(u32::from_be_bytes(*label))) else {
            return Err(format!("COLL with {} bytes, and its label has 4", payload.len()));
        };
        let values = payload.slice(4..);
        let Some(seat) = self.seats[rank as usize].as_mut() else { return Ok(()) };
        if seat.done {
            return Err(format!("COLL {label} after DONE"));
        }
        if label == Label::NONE {
            return Err("COLL with label 0, which stands for no label".into());
        }
        if seat.sent.contains_key(&label) || self.answered >= Some(label) {
            return Err(format!("COLL {label} when it was sent or broadcast already: labels ascend"));
        }
        if seat.labels == LABELS_MAX {
            return Err(format!("more than {LABELS_MAX} labels"));
        }
        seat.labels += 1;
        let (doubt, unchecked) = match self.settings.check {
            Check::Off => (None, None),
            _ => {
                let doubt = check::wrong(label, &values, seat.highest, &seat.said);
                seat.said.learn(label, &values);
                (doubt, check::too_many(label, &values))
            }
        };
        self.count(id, payload);
        self.event(Event::Sent(rank, label, values.len()));
        if let Some(processes) = unchecked {
            self.event(Event::Unchecked(rank, label, processes));
        }
        if let Some(why) = doubt {
            if self.settings.check == Check::Refuse {
                return Err(format!("COLL {label}: {why}"));
            }
            self.event(Event::Doubted(rank, label, why));
        }
        if let Some(seat) = self.seats[rank as usize].as_mut() {
            seat.highest = seat.highest.max(Some(label));
            seat.sent.insert(label, values);
        }
        self.answer();
        Ok(())
    }

    /// Broadcasts what everybody has sent or moved past: known labels that nobody has sent, too, without values. Then DONE, when all are done.
    pub(super) fn answer(&mut self) {
        if !self.complete || self.over {
            return;
        }
        let passed = self.seats.iter().flatten().map(Seat::passed).min().flatten();
        if let Some(passed) = passed.filter(|passed| self.answered < Some(*passed)) {
            for label in self.unanswered(passed) {
                if let Err(failure) = self.broadcast(label) {
                    return self.fail(failure);
                }
            }
            self.answered = Some(passed);
        }
        // The highest label of all may be answered before: what counts is DONE itself.
        if self.relaying.is_idle() && self.seats.iter().flatten().all(|seat| seat.done) {
            self.over = true;
            self.event(Event::AllDone);
            self.send_all(&command(Command::Done, &[]));
            self.end_if_all_are_gone();
        }
    }

    /// The labels up to this one that are to be broadcast, in order.
    fn unanswered(&self, passed: Label) -> Vec<Label> {
        let sent = self.seats.iter().flatten().flat_map(|seat| seat.sent.range(..=passed));
        let known = Label::KNOWN.into_iter().filter(|label| Some(*label) > self.answered && *label <= passed);
        let mut labels: Vec<Label> = sent.map(|(label, _)| *label).chain(known).collect();
        labels.sort_unstable();
        labels.dedup();
        labels
    }

    fn broadcast(&mut self, label: Label) -> Result<(), Failure> {
        let mut values: Vec<(Rank, Bytes)> = Vec::new();
        for (rank, seat) in (0..).zip(self.seats.iter_mut().flatten()) {
            values.extend(seat.sent.remove(&label).map(|sent| (rank, sent)));
        }
        let len = values.iter().map(|(_, value)| value.len() as u64).sum();
        let limit = self.settings.broadcast_max;
        let longest = values.iter().map(|(rank, value)| (value.len(), *rank)).max();
        if let Some((most_len, most)) = longest.filter(|_| len > limit as u64) {
            return Err(Failure::TooLong { label, len, most, most_len, limit });
        }
        let mask = values.iter().fold(0, |mask, (rank, _)| mask | 1u32 << rank);
        let bytes = coll(label, Some(mask), values.iter().map(|(_, value)| &value[..]));
        self.event(Event::Answered(label, mask, bytes.len() - 16));
        let all = u32::MAX >> (32 - self.settings.clients);
        let said = label.is_known() && mask != 0 && mask != all && self.settings.check != Check::Off;
        if said && !std::mem::replace(&mut self.told_partial, true) {
            let without = (0..self.settings.clients).filter(|rank| mask >> rank & 1 == 0).collect();
            self.event(Event::Partial(label, without));
        }
        self.deliver(label, bytes);
        if label == Label::C_VERSION {
            self.relay_begins(&values);
        }
        Ok(())
    }
}
