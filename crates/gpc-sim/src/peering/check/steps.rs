//! Compares the outcome of a step with the expected one: the second half of [`rules`](super::rules).

use gpc_trees::Id;

use super::Checkers;
use super::connection::Connection;
use super::first_frames::{FirstFrame, REFUSED, first};
use super::observation::{End, Input, Process};
use super::process_state::{PeerState, WaitingConnection};
use super::rules::LATE;
use super::step::{Expected, Step, Trigger};
use chained_gpc::link::peering::{GREETING_LIMIT, LinkKey};
use chained_gpc::wire::frame::{FIRST_MAX, FRAME_HEADER};
use chained_gpc::wire::head::GoodbyeReason;

impl Checkers {
    /// Whether a side has ended by refusing the proof.
    fn denies(&self, end: End) -> bool {
        self.ends.get(&end).is_some_and(|connection| connection.wrote.ends_with(&REFUSED))
    }

    fn first_written(&self, end: End) -> Option<FirstFrame> {
        self.ends.get(&end)?.first(false)
    }

    /// Whether a side has sent a GOODBYE with this reason, after the proof or in clear.
    fn is_refused(&self, end: End, reason: GoodbyeReason) -> bool {
        let written = self.first_written(end).or_else(|| {
            let connection = self.ends.get(&end)?;
            first(&connection.wrote, false)
        });
        written == Some(FirstFrame::Goodbye(reason))
    }

    pub(super) fn compare(&mut self, end: End, expected: Expected, step: &Step) {
        let key = end.key;
        let (closed, finished, up) =
            (step.closed.contains(&key), step.finished.contains(&key), step.up.contains(&key));
        let only = |keys: &[LinkKey], one: Option<LinkKey>| keys.iter().copied().eq(one);
        let peer = self.ends.get(&end).and_then(|connection| connection.to);
        let lost = |stood| step.lost.iter().any(|(id, was)| Some(*id) == peer && *was == stood);
        let logged = step.refused.contains(&key);
        let fits = match expected {
            Expected::Second => step.seconds == 1 && !closed && !finished,
            Expected::Denied => finished && logged && self.denies(end),
            Expected::DeniedInClear => finished && logged && self.is_refused(end, GoodbyeReason::Refused),
            Expected::Refused(reason) => {
                let nothing_else = step.replaced.is_empty() && step.lost.is_empty() && step.asked.is_empty();
                let logs = logged == (reason != GoodbyeReason::Duplicate);
                finished && logs && self.is_refused(end, reason) && nothing_else
            }
            Expected::Up { replaces, prefers } => {
                let lost = step.lost.len() == usize::from(replaces.is_some());
                let others = step.closed.iter().copied().filter(|key| Some(*key) == prefers);
                up && lost && only(&step.replaced, replaces) && others.eq(prefers)
            }
            Expected::Held(takes) => {
                let asked = step.asked.len() == usize::from(takes.is_none());
                let silent = self.first_written(end).is_none();
                !closed && !finished && !up && silent && asked && only(&step.closed, takes)
            }
            Expected::Link => up && step.lost.is_empty(),
            Expected::Fails => (closed || finished) && !up && lost(false),
            Expected::FailsOfAnotherJob => {
                let written = self.ends.get(&end).and_then(Connection::second_written);
                finished
                    && !up
                    && lost(false)
                    && written == Some(FirstFrame::Goodbye(GoodbyeReason::OtherJob))
            }
            Expected::Waits => closed && !up && step.lost.is_empty(),
        };
        if !fits {
            self.wrong(end, &format!("is to be {expected:?}, and what came of it is {step:?}"));
        }
        if let (Expected::Up { replaces: Some(_), .. }, Some(FirstFrame::Hello(hello))) =
            (expected, self.first_read(end))
            && let Some(held) = self.peer_state(end.process, hello.from).and_then(|state| state.waiting)
        {
            let other = End { key: held.key, ..end };
            self.wrong(other, "waits for a link whose process has connected anew, so it lives");
        }
        if let (Expected::Waits, Some(peer)) = (expected, peer) {
            let until = self.at + GREETING_LIMIT.as_nanos() as u64;
            self.peer_state(end.process, peer).into_iter().for_each(|state| state.awaited = Some(until));
        }
        if let (Expected::Held(_), Some(FirstFrame::Hello(hello))) = (expected, self.first_read(end)) {
            let until = step.until;
            if let Some(state) = self.peer_state(end.process, hello.from).filter(|_| fits) {
                state.waiting = Some(WaitingConnection { key, hello, until });
            }
            // A connection that has sent its hello is not half open.
            self.leaves(end);
        }
    }

    fn first_read(&self, end: End) -> Option<FirstFrame> {
        self.ends.get(&end)?.first(true)
    }

    /// Checks that each connection closed in a step had to be closed.
    pub(super) fn closes_rightly(&mut self, process: Process, step: &Step) {
        if let Some(Trigger::Accepts(_, Some(room))) = step.why
            && !step.closed.contains(&room)
        {
            self.wrong(End { process, key: room }, "has waited longest, and does not make room");
        }
        for key in step.closed.iter().chain(&step.finished) {
            let end = End { process, key: *key };
            let Some(connection) = self.ends.get(&end).filter(|connection| connection.up.is_none()) else {
                continue;
            };
            let silent = connection.took.is_empty();
            let honest = !silent && connection.mate.is_some() && self.is_genuine(connection);
            let over = connection.since + GREETING_LIMIT.as_nanos() as u64 <= self.at;
            let judged = step.expected.is_some();
            let (ours, logged) = (connection.ours, step.refused.contains(key));
            let (right, logs) = match &step.why {
                Some(Trigger::Accepts(new, room)) => {
                    (Some(*key) == *room || key == new && connection.unpermitted, true)
                }
                Some(Trigger::Hears(heard)) if heard == key => (judged || ours || !honest, judged || !ours),
                Some(Trigger::Hears(_)) => (judged, false),
                Some(Trigger::Input(Input::Ended(ended))) if ended == key => {
                    (true, !ours && !silent && step.was_held != Some(*key))
                }
                Some(Trigger::Input(Input::Tick)) => {
                    (over || step.was_held == Some(*key), !ours && !silent || step.was_held == Some(*key))
                }
                Some(Trigger::Input(Input::Stands(stands))) if stands == key => {
                    let id = connection.to.unwrap_or_default();
                    let listed = self.nodes.get(process).is_some_and(|node| node.lists(id));
                    (connection.unpermitted || !connection.proves && listed, false)
                }
                Some(Trigger::Input(Input::MakesRoom(oldest))) => (*oldest == Some(*key), true),
                Some(Trigger::Input(
                    Input::Ended(_)
                    | Input::Answers(_)
                    | Input::Forgets(_)
                    | Input::Contradicts(_)
                    | Input::Abandons(_),
                )) => (step.was_held == Some(*key) || ours, step.was_held == Some(*key)),
                Some(Trigger::Input(Input::GivesUp(_))) => (ours, false),
                _ => (false, false),
            };
            if !right {
                self.wrong(end, &format!("is closed for no reason: {step:?}"));
            } else if !judged && logs != logged {
                self.wrong(end, &format!("is closed, and whether that is told is {logged}: {step:?}"));
            }
        }
    }

    /// If the header of a first frame in clear announces more than the maximum, its connection must be closed at once.
    pub(super) fn waits_for_too_much(&mut self, process: Process, step: &Step) {
        let Some(Trigger::Hears(key)) = step.why else { return };
        let end = End { process, key };
        let Some(connection) = self.ends.get(&end).filter(|it| it.open && !it.ours && it.up.is_none()) else {
            return;
        };
        let announced = connection.took.first_chunk().map(|length| u32::from_le_bytes(*length) as usize);
        let announced = announced.filter(|_| connection.took.len() >= FRAME_HEADER);
        let in_clear = !connection.took.starts_with(b"cGPC");
        let ended = step.closed.contains(&key) || step.finished.contains(&key);
        if let Some(length) = announced.filter(|length| in_clear && !ended && *length > FIRST_MAX) {
            self.wrong(end, &format!("is waited for, and announces a first frame of {length} bytes"));
        }
    }

    /// Checks that no deadline was missed, and that no connection waits for a link that is gone.
    pub(super) fn overdue(&mut self, process: Process, step: &Step) {
        let ticked = matches!(step.why, Some(Trigger::Input(Input::Tick)));
        let late = self.at.saturating_sub(if ticked { 0 } else { LATE });
        let Some(node) = self.nodes.get(process) else { return };
        let mut found = Vec::new();
        for (id, state) in &node.peers {
            let Some(held) = state.waiting else { continue };
            let waits = |what: &str| (held.key, format!("waits for the link of id {id}, {what}"));
            if !self.links.contains_key(&(process, *id)) {
                found.push(waits("which is gone"));
            } else if held.until.is_some_and(|until| until <= late) {
                found.push(waits("which has not answered in its time"));
            } else if matches!(step.why, Some(Trigger::Input(Input::Answers(peer))) if peer == *id) {
                found.push(waits("which answers"));
            }
        }
        let awaits = node.peers.iter().filter(|(_, state)| state.awaited.is_some_and(|until| until <= late));
        let awaits: Vec<Id> = awaits.map(|(id, _)| *id).collect();
        let limit = GREETING_LIMIT.as_nanos() as u64;
        let attempts = node.peers.values().filter_map(|state| state.attempt);
        for key in node.half_open.first().copied().into_iter().chain(attempts) {
            let connection = self.ends.get(&End { process, key });
            if connection.is_some_and(|connection| connection.since + limit <= late) {
                found.push((key, "is no link yet, and its time is over".into()));
            }
        }
        for id in awaits {
            self.add("rules", format!("process {process} awaits a connection of id {id} beyond its time"));
            self.peer_state(process, id).into_iter().for_each(PeerState::stop_awaiting);
        }
        for (key, what) in found {
            self.wrong(End { process, key }, &what);
        }
    }
}
