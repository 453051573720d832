//! The coordinator of a meeting: one call that stands until all nodes have their processes in, and one that releases them.

use chained_gpc::Id;

use super::Output;
use super::meeting::{Key, Leading};
use super::node::{Domain, Flight, ReplyTo};
use crate::exit::Death;
use crate::fault::{Fault, FaultKind};
use crate::names::{GroupId, Member, Set};
use crate::order::{Entry, Epoch, Order, Purpose, Report};
use crate::request::{Answer, Client, Request};

impl Domain {
    /// Begins to collect, once.
    pub(super) fn coordinate(&mut self, (key, epoch): &(Key, Epoch), purpose: Purpose) {
        let epoch = *epoch;
        let here = self.lines.entry(key.clone()).or_default().meetings.entry(epoch).or_default();
        if !matches!(here.leading, Leading::No) {
            return;
        }
        here.purpose.get_or_insert_with(|| purpose.clone());
        if let Err(fault) = self.is_possible(key) {
            return self.fail(key, epoch, fault);
        }
        let nodes = self.nodes_of(&key.set);
        // Its members wait as long as they want to: their limits end it.
        let limit = std::time::Duration::from_secs(365 * 24 * 3600);
        let order = Order::Collect { meeting: key.meeting(epoch), purpose };
        let call = self.call_within(nodes, order, false, limit, Flight::Collect(key.clone(), epoch));
        self.lead(key, epoch, Leading::Collecting(call));
    }

    fn lead(&mut self, key: &Key, epoch: Epoch, leading: Leading) {
        if let Some(here) = self.lines.get_mut(key).and_then(|line| line.meetings.get_mut(&epoch)) {
            here.leading = leading;
        }
    }

    /// Whether all members of a set are there and alive.
    fn is_possible(&self, key: &Key) -> Result<(), Fault> {
        let groups: Vec<_> = match &key.set {
            Set::Group(group) => vec![*group],
            Set::Groups(groups) => groups.iter().copied().collect(),
            Set::Members(members) => members.iter().map(|member| member.group).collect(),
        };
        for group in groups {
            if !self.groups.contains_key(&group) {
                let open = self.head.as_ref().is_some_and(|head| head.is_open(group));
                let (kind, why) = match open {
                    true => (FaultKind::GroupOpen, "is not closed yet"),
                    false => (FaultKind::NoGroup, "does not run"),
                };
                return Err(Fault::new(kind, format!("the group {group} {why}")));
            }
        }
        self.dead_of(&key.set).map_or(Ok(()), |death| Err(Fault::died(vec![death])))
    }

    /// All have come, or something is wrong.
    pub(super) fn collected(&mut self, key: &Key, epoch: Epoch, reports: &[(Id, Result<Report, Fault>)]) {
        let mut entries: Vec<Entry> = Vec::new();
        let mut fault: Option<Fault> = None;
        for (_, report) in reports {
            match report {
                Ok(Report::Entries(some)) => entries.extend(some.iter().cloned()),
                Ok(_) => fault = Some(Fault::new(FaultKind::System, "a node answers what makes no sense")),
                // Which node is to blame is said at one of them.
                Err(why) => {
                    let better =
                        fault.as_ref().is_none_or(|known| known.node.is_none() && why.node.is_some());
                    fault = if better { Some(why.clone()) } else { fault };
                }
            }
        }
        let bytes: usize = entries.iter().map(|entry| entry.pair.key.len() + entry.pair.value.len()).sum();
        if bytes > self.settings.limits.database {
            let message = format!(
                "{bytes} bytes were put before one fence: at most {} fit",
                self.settings.limits.database
            );
            fault.get_or_insert(Fault::new(FaultKind::TooLarge, message));
        }
        if let Some(fault) = fault {
            return self.release(key, epoch, Err(fault));
        }
        // The group that is opened has the group of the first of the set as its parent.
        let of = |group: &GroupId| Member { group: *group, rank: 0 };
        let first = match &key.set {
            Set::Group(group) => Some(of(group)),
            Set::Groups(groups) => groups.first().map(of),
            Set::Members(members) => members.first().copied(),
        };
        let asker = first.map_or(Client::Tool(0), Client::Process);
        let here = self.lines.get(key).and_then(|line| line.meetings.get(&epoch));
        let request = match here.and_then(|here| here.purpose.as_ref()) {
            Some(Purpose::Open) => Request::Open { over: key.set.clone(), limit: None },
            Some(Purpose::Close(group)) => {
                Request::Close { over: key.set.clone(), group: *group, limit: None }
            }
            Some(Purpose::Merge(first, second)) => {
                Request::Merge { first: *first, second: *second, limit: None }
            }
            Some(Purpose::Fence) | None => return self.release(key, epoch, Ok((entries, Answer::Done))),
        };
        self.lead(key, epoch, Leading::Asking(entries));
        self.ask_head(asker, request, ReplyTo::Meeting(key.clone(), epoch));
    }

    /// The head has done what the meeting was for.
    pub(super) fn met(&mut self, key: &Key, epoch: Epoch, answer: Result<Answer, Fault>) {
        let here = self.lines.get_mut(key).and_then(|line| line.meetings.get_mut(&epoch));
        let Some(here) = here else { return };
        if let Leading::Asking(entries) = std::mem::take(&mut here.leading) {
            self.release(key, epoch, answer.map(|answer| (entries, answer)));
        }
    }

    /// A meeting that this node coordinates cannot be.
    pub(super) fn fail(&mut self, key: &Key, epoch: Epoch, fault: Fault) {
        let here = self.lines.entry(key.clone()).or_default().meetings.entry(epoch).or_default();
        match here.leading {
            // What was said to all stands; what the head does is known soon.
            Leading::Released | Leading::Asking(_) => return,
            Leading::Collecting(call) => {
                self.calls.remove(&call);
                self.outputs.push_back(Output::Cancel(call));
            }
            Leading::No => {}
        }
        self.release(key, epoch, Err(fault));
    }

    fn release(&mut self, key: &Key, epoch: Epoch, outcome: Result<(Vec<Entry>, Answer), Fault>) {
        self.lead(key, epoch, Leading::Released);
        let deaths: Vec<Death> = outcome.as_ref().err().map(|fault| fault.deaths.clone()).unwrap_or_default();
        let mut nodes = self.nodes_of(&key.set);
        nodes.retain(|node| !self.lost.contains(node));
        let here = nodes.contains(&self.settings.me);
        if !nodes.is_empty() {
            let order = Order::Release { meeting: key.meeting(epoch), deaths, outcome };
            self.call(nodes, order, true, Flight::Nothing);
        }
        if !here {
            // The coordinator has no part in it: nobody comes here later.
            if let Some(line) = self.lines.get_mut(key) {
                line.meetings.remove(&epoch);
                if line.meetings.is_empty() {
                    self.lines.remove(key);
                }
            }
        }
    }
}
