//! Fences, connects, disconnects and groups of PMIx: the node enters for each of its members, the first of which
//! carries the data.

use std::collections::BTreeSet;
use std::time::Duration;

use gpc_pmix::server::{ALL, Answer as Reply, LOCAL_STATUS, Process};

use super::directives::{ASSIGN_ID, flag, timeout};
use super::pending::{Entry, Kind, Meeting, MeetingAnswer, Next, Part, Pending};
use super::status::{self, status_of};
use super::{JOB_LIMIT, Translation, group_data};
use crate::fault::Fault;
use crate::names::{Member, Set};
use crate::request::{Answer, Client, Request};

impl Kind {
    /// The tag of the fence; `name` is that of a group of PMIx.
    fn tag(self, name: &str) -> Vec<u8> {
        let kind = match self {
            Kind::Fence => "pmix",
            Kind::Connect => "pmix-connect",
            Kind::Disconnect => "pmix-disconnect",
            Kind::Construct => "pmix-construct:",
            Kind::Destruct => "pmix-destruct:",
        };
        [kind.as_bytes(), &group_data::short_name(name)].concat()
    }

    /// Processes connect at once after they have exchanged their names: the limit of the domain counts.
    fn limit(self) -> Option<Duration> {
        (self != Kind::Connect).then_some(JOB_LIMIT)
    }
}

impl Translation {
    /// The members here enter a collective request.
    pub(super) fn meet(&mut self, upcall: u64, entry: Entry) -> Result<(), i32> {
        let groups = self.names.groups(&entry.processes).ok_or(status::NOT_FOUND)?;
        // The other nodes count on the members here, so an unknown job is no error: its size is asked for.
        let Some(over) = self.set_of(&entry.processes)? else {
            self.with_groups(upcall, groups, Next::Enter(entry));
            return Ok(());
        };
        let members = self.members_here(&over);
        if members.is_empty() {
            return Err(status::BAD_PARAM);
        }
        let Entry { kind, name, processes, data, info, supported } = entry;
        let connects = if matches!(kind, Kind::Connect | Kind::Construct) { groups } else { BTreeSet::new() };
        let answer = match kind {
            Kind::Fence => MeetingAnswer::Data,
            Kind::Construct => MeetingAnswer::Group { members: processes, has_id: flag(&info, ASSIGN_ID) },
            _ => MeetingAnswer::Done,
        };
        let outcome = if supported { Ok(Vec::new()) } else { Err(status::NOT_SUPPORTED) };
        let meeting = Meeting { open: members.len(), outcome, connects, answer };
        self.upcalls.insert(upcall, Pending::Meeting(meeting));
        // A member here is lost, though its process may run on, or the call could not be told, or what it requires is
        // not supported: it fails at all nodes at once.
        // libpmix may list the directives of all members.
        let is_lost = info
            .iter()
            .any(|info| info.key == LOCAL_STATUS && info.value.bytes.iter().any(|byte| *byte != 0));
        let limit = match is_lost || !supported {
            true => Some(Duration::ZERO),
            false => timeout(&info).or(kind.limit()),
        };
        let mut data = Some(data);
        for member in members {
            let (over, tag) = (over.clone(), kind.tag(&name));
            let request = match data.take() {
                Some(data) => Request::Exchange { over, limit, tag, data },
                None => Request::Fence { over, limit, tag },
            };
            self.ask(Client::Process(member), upcall, Part::Member, request);
        }
        Ok(())
    }

    /// The set that a list of processes describes; `None` if it names all of a job whose size is unknown here.
    fn set_of(&self, processes: &[Process]) -> Result<Option<Set>, i32> {
        if let [Process { namespace, rank: ALL }] = processes {
            let group = self.names.group(namespace).ok_or(status::NOT_FOUND)?;
            return Ok(Some(Set::Group(group)));
        }
        let mut members = BTreeSet::new();
        for process in processes {
            let group = self.names.group(&process.namespace).ok_or(status::NOT_FOUND)?;
            if process.rank == ALL {
                let Some(known) = self.groups.get(&group) else { return Ok(None) };
                members.extend((0..known.layout.size()).map(|rank| Member { group, rank }));
            } else {
                members.insert(self.names.member(process).ok_or(status::BAD_PARAM)?);
            }
        }
        Ok(Some(Set::Members(members)))
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
        let connects = std::mem::take(&mut meeting.connects);
        let answer = std::mem::replace(&mut meeting.answer, MeetingAnswer::Done);
        let answer = outcome.and_then(|data| match answer {
            MeetingAnswer::Done => Ok(Reply::Done),
            MeetingAnswer::Data => Ok(Reply::Data(data)),
            MeetingAnswer::Group { members, has_id } => {
                group_data::infos(&data, &members, has_id).map(Reply::Infos).ok_or(status::ERROR)
            }
        });
        match answer {
            Ok(answer) => self.with_groups(upcall, connects, Next::Answer(answer)),
            Err(status) => self.finish(upcall, Err(status)),
        }
    }
}
