//! Collection of values, broadcasts, and the end of a session: COLL, DONE and FINI.
//!
//! Source: IMPI, "Startup": the commands COLL, DONE and FINI, and its examples of per-client and per-host labels.

use std::collections::BTreeSet;

use bytes::Bytes;

use super::joining::length;
use super::seat::Seat;
use super::{Check, ConnId, Event, Failure, Rank, Server, check};
use crate::wire::{Command, Label, coll, command};

/// Most labels of one client, many times the known ones. However short it is, each label is a broadcast that queues up
/// for a client that does not read.
const LABELS_MAX: usize = 4096;

/// Most unknown commands of one client: each is an event for observers.
const IGNORED_MAX: u32 = 1000;

impl Server {
    /// Handles a command of a client that has joined.
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
                let doubts = seat.checked.done();
                self.event(Event::Done(rank));
                self.doubt(rank, doubts)?;
                self.answer();
            }
            Command::Fini if !seat.done => return Err("FINI before DONE".into()),
            Command::Fini => {
                empty()?;
                seat.ended = true;
                self.event(Event::Ended(rank));
                self.end_if_all_are_gone();
            }
            Command::Auth | Command::Impi => return Err(format!("{command} a second time")),
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

    /// Counts a command against the limit of bytes that a client may send.
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
        if seat.sent.contains_key(&label) {
            return Err(format!("COLL {label} a second time"));
        }
        if seat.sent.len() == LABELS_MAX {
            return Err(format!("more than {LABELS_MAX} labels"));
        }
        let (doubts, unchecked) = match self.settings.check {
            Check::Off => (Vec::new(), None),
            _ => (seat.checked.check(label, &values), check::too_many(label, &values)),
        };
        seat.unanswered.insert(label);
        let len = values.len();
        seat.sent.insert(label, values);
        self.count(id, payload);
        self.event(Event::Sent(rank, label, len));
        if let Some(processes) = unchecked {
            self.event(Event::Unchecked(rank, label, processes));
        }
        self.doubt(rank, doubts)?;
        if let Some(seat) = self.seats[rank as usize].as_mut() {
            seat.last = Some(label);
        }
        self.answer_if_complete(&[label]);
        Ok(())
    }

    /// Reports implausible values, or rejects them.
    fn doubt(&mut self, rank: Rank, doubts: Vec<(Label, String)>) -> Result<(), String> {
        for (label, why) in doubts {
            if self.settings.check == Check::Refuse {
                return Err(format!("COLL {label}: {why}"));
            }
            self.event(Event::Doubted(rank, label, why));
        }
        Ok(())
    }

    /// Broadcasts all complete labels, and DONE when all clients are done.
    pub(super) fn answer(&mut self) {
        let mut labels: BTreeSet<Label> =
            self.seats.iter().flatten().flat_map(|seat| &seat.unanswered).copied().collect();
        let all_are_done = self.all_are_done();
        // A label that every client leaves out is complete when all are done.
        if all_are_done {
            labels.extend(Label::KNOWN.into_iter().filter(|label| self.senders(*label) == 0));
        }
        self.answer_if_complete(&labels.into_iter().collect::<Vec<Label>>());
        self.forget_complete();
        if all_are_done && !self.ended {
            self.over = true;
            self.event(Event::AllDone);
            self.send_all(&command(Command::Done, &[]));
            self.end_if_all_are_gone();
        }
    }

    /// Broadcasts the complete ones among these labels. A label is complete when each client has sent it or is done.
    fn answer_if_complete(&mut self, labels: &[Label]) {
        if !self.complete || self.over || self.ended {
            return;
        }
        for label in labels {
            if self.is_complete(*label)
                && let Err(failure) = self.broadcast(*label)
            {
                return self.fail(failure);
            }
        }
    }

    /// Drops values that were broadcast without some clients, if these clients are done now and so cannot send theirs
    /// any more.
    fn forget_complete(&mut self) {
        let partial = std::mem::take(&mut self.partial);
        let (complete, partial): (BTreeSet<Label>, BTreeSet<Label>) =
            partial.into_iter().partition(|label| self.is_complete(*label));
        self.partial = partial;
        for seat in self.seats.iter_mut().flatten() {
            for label in &complete {
                seat.sent.get_mut(label).map(std::mem::take);
            }
        }
    }

    /// Broadcasts the lowest label that a client waits for, without the clients that have not sent it.
    ///
    /// A client that sends each label after the broadcast of the previous one is silent while it waits. If it leaves a
    /// label out, it waits for a higher one, while others wait for that label.
    pub(super) fn answer_without_the_missing(&mut self) {
        let Some(label) = self.next_label() else { return };
        if let Err(failure) = self.broadcast(label) {
            self.fail(failure);
        }
    }

    /// Whether every client that is not done waits for a broadcast, and no command is in progress.
    pub(super) fn is_stalled(&self) -> bool {
        let waits = |seat: &Seat| {
            let is_between = || {
                let conn = seat.conn.and_then(|conn| self.conns.get(&conn));
                conn.is_some_and(|conn| conn.reader.is_between())
            };
            seat.done || !seat.unanswered.is_empty() && is_between()
        };
        self.complete && !self.over && !self.all_are_done() && self.seats.iter().flatten().all(waits)
    }

    /// The lowest label that was sent and is still to be broadcast.
    pub(super) fn next_label(&self) -> Option<Label> {
        self.seats.iter().flatten().filter_map(|seat| seat.unanswered.first()).min().copied()
    }

    fn all_are_done(&self) -> bool {
        self.complete && self.seats.iter().flatten().all(|seat| seat.done)
    }

    fn is_complete(&self, label: Label) -> bool {
        self.seats.iter().flatten().all(|seat| seat.done || seat.sent.contains_key(&label))
    }

    /// Mask of the clients that have sent a label.
    fn senders(&self, label: Label) -> u32 {
        let seats = (0..).zip(self.seats.iter().flatten());
        seats.filter(|(_, seat)| seat.sent.contains_key(&label)).fold(0, |mask, (rank, _)| mask | 1 << rank)
    }

    fn broadcast(&mut self, label: Label) -> Result<(), Failure> {
        let complete = self.is_complete(label);
        let mut values: Vec<(Rank, Bytes)> = Vec::new();
        for (rank, seat) in (0..).zip(self.seats.iter_mut().flatten()) {
            seat.unanswered.remove(&label);
            let Some(sent) = seat.sent.get_mut(&label) else { continue };
            // A client that is not done may still send the label; then all values are broadcast again.
            values.push((rank, if complete { std::mem::take(sent) } else { sent.clone() }));
        }
        match complete {
            true => self.partial.remove(&label),
            false => self.partial.insert(label),
        };
        self.last = Some(label);
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
            let without = (0..self.settings.clients).filter(|rank| mask >> rank & 1 == 0);
            let is_done = |rank: &Rank| self.seats[*rank as usize].as_ref().is_some_and(|seat| seat.done);
            let (left_out, unsent): (Vec<Rank>, Vec<Rank>) = without.partition(is_done);
            self.event(Event::Partial { label, left_out, unsent });
        }
        self.send_all(&bytes);
        Ok(())
    }
}
