//! Fences, connects and disconnects: the node enters for each of its members, the first of which carries the data.

use std::collections::BTreeSet;
use std::time::Duration;

use gpc_pmix::server::{ALL, Answer as Reply, Info, Process};

use super::directives::{LOCAL_STATUS, find, timeout};
use super::pending::{Meeting, Part, Pending};
use super::status::{self, status_of};
use super::{JOB_LIMIT, Translation};
use crate::fault::Fault;
use crate::names::{Member, Set};
use crate::request::{Answer, Client, Request};

impl Translation {
    pub(super) fn fence(
        &mut self,
        upcall: u64,
        processes: &[Process],
        data: Vec<u8>,
        info: &[Info],
    ) -> Result<(), i32> {
        let meeting = Meeting { open: 0, outcome: Ok(Vec::new()), connects: BTreeSet::new(), has_data: true };
        self.meet((upcall, b"pmix"), processes, data, info, meeting)
    }

    pub(super) fn connect(&mut self, upcall: u64, processes: &[Process], info: &[Info]) -> Result<(), i32> {
        let connects = self.names.groups(processes).ok_or(status::NOT_FOUND)?;
        let meeting = Meeting { open: 0, outcome: Ok(Vec::new()), connects, has_data: false };
        self.meet((upcall, b"pmix-connect"), processes, Vec::new(), info, meeting)
    }

    pub(super) fn disconnect(
        &mut self,
        upcall: u64,
        processes: &[Process],
        info: &[Info],
    ) -> Result<(), i32> {
        let meeting =
            Meeting { open: 0, outcome: Ok(Vec::new()), connects: BTreeSet::new(), has_data: false };
        self.meet((upcall, b"pmix-disconnect"), processes, Vec::new(), info, meeting)
    }

    fn meet(
        &mut self,
        (upcall, tag): (u64, &[u8]),
        processes: &[Process],
        data: Vec<u8>,
        info: &[Info],
        mut meeting: Meeting,
    ) -> Result<(), i32> {
        let over = self.set_of(processes)?;
        let members = self.members_here(&over);
        if members.is_empty() {
            return Err(status::BAD_PARAM);
        }
        meeting.open = members.len();
        self.upcalls.insert(upcall, Pending::Meeting(meeting));
        // A member here is lost, though its process may run on: the request fails at all nodes, at once.
        let is_lost =
            find(info, LOCAL_STATUS).is_some_and(|status| status.bytes.iter().any(|byte| *byte != 0));
        let limit = match is_lost {
            true => Some(Duration::ZERO),
            false => Some(timeout(info).unwrap_or(JOB_LIMIT)),
        };
        let mut data = Some(data);
        for member in members {
            let (over, tag) = (over.clone(), tag.to_vec());
            let request = match data.take() {
                Some(data) => Request::Exchange { over, limit, tag, data },
                None => Request::Fence { over, limit, tag },
            };
            self.ask(Client::Process(member), upcall, Part::Member, request);
        }
        Ok(())
    }

    /// The set that a list of processes describes.
    fn set_of(&self, processes: &[Process]) -> Result<Set, i32> {
        if let [Process { namespace, rank: ALL }] = processes {
            return self.names.group(namespace).map(Set::Group).ok_or(status::NOT_FOUND);
        }
        let mut members = BTreeSet::new();
        for process in processes {
            let group = self.names.group(&process.namespace).ok_or(status::NOT_FOUND)?;
            if process.rank == ALL {
                let size = self.groups.get(&group).ok_or(status::NOT_FOUND)?.layout.size();
                members.extend((0..size).map(|rank| Member { group, rank }));
            } else {
                members.insert(self.names.member(process).ok_or(status::BAD_PARAM)?);
            }
        }
        Ok(Set::Members(members))
    }

    fn members_here(&self, over: &Set) -> Vec<Member> {
        match over {
            Set::Group(group) => {
                let known = self.groups.get(group).into_iter();
                known.flat_map(|known| known.alive()).map(|rank| Member { group: *group, rank }).collect()
            }
            Set::Members(members) => {
                let runs = |member: &&Member| {
                    self.groups.get(&member.group).is_some_and(|known| known.runs(member.rank))
                };
                members.iter().filter(runs).copied().collect()
            }
        }
    }

    /// A member here is answered, or can no longer be.
    pub(super) fn met(&mut self, upcall: u64, _client: Client, answer: Result<Answer, Fault>) {
        let Some(Pending::Meeting(meeting)) = self.upcalls.get_mut(&upcall) else { return };
        meeting.open = meeting.open.saturating_sub(1);
        match answer {
            Ok(Answer::Value(data)) if meeting.outcome.is_ok() => meeting.outcome = Ok(data),
            Err(fault) if meeting.outcome.is_ok() => meeting.outcome = Err(status_of(&fault)),
            _ => {}
        }
        if meeting.open > 0 {
            return;
        }
        let outcome = std::mem::replace(&mut meeting.outcome, Ok(Vec::new()));
        let (connects, has_data) = (std::mem::take(&mut meeting.connects), meeting.has_data);
        match outcome {
            Ok(data) if has_data => self.finish(upcall, Ok(Reply::Data(data))),
            Ok(_) => self.with_groups(upcall, connects, Reply::Done),
            Err(status) => self.finish(upcall, Err(status)),
        }
    }
}
