//! Requests that the head serves, for clients at any node.

use super::faults::{group_open, no_database, no_group};
use super::group::{Group, Stage};
use super::pending::Requester;
use super::{Domain, Output};
use crate::fault::{Fault, FaultKind};
use crate::names::{GroupId, Set};
use crate::request::{Answer, Client, Pair, Request};
use crate::roster::{Roster, Span};
use crate::spec::OnDeath;

impl Domain {
    /// Serves a request of a client at any node.
    pub(super) fn serve_at_head(&mut self, requester: Requester, client: Client, request: Request) {
        if let Some(group) = self.awaited(&request)
            && let Ok(known) = self.group_mut(group)
        {
            return known.waiting.push((requester, client, request));
        }
        let result = match request {
            Request::Size(group) => self.size(group).map(Answer::Number),
            Request::Open { over, .. } => self.open_group(over).map(Answer::Group),
            Request::Spawn { group, specs, preputs, on_death } => {
                self.spawn(group, specs, preputs, on_death).map(|()| Answer::Done)
            }
            Request::Close { over, group, .. } => return self.close(requester, &over, group),
            Request::SpawnMultiple { specs, preputs, on_death, input } => {
                return self.spawn_multiple(requester, client, (specs, preputs), on_death, input);
            }
            Request::Free(group) => self.free(group),
            Request::Kill(group) => {
                self.report_kill(client, group);
                return self.kill_group(group, requester);
            }
            Request::Status(group) => self.status(group).map(|status| Answer::Groups(vec![status])),
            Request::Groups => Ok(Answer::Groups(self.all_status())),
            Request::Subscribe(group) => self.subscribed(group),
            Request::Members(group) => self.members(client, group),
            Request::Abort { code, message } => self.aborted(client, code, message),
            Request::Create(name) => self.create_database(name).map(Answer::Name),
            Request::Destroy(name) => return self.destroy_database(requester, &name),
            Request::Databases => Ok(Answer::Names(self.database_names())),
            Request::Deposit(pair) => self.deposit(pair),
            Request::Withdraw(name) => self.withdraw(&name),
            Request::Lookup { name, wait: Some(wait) } => {
                return self.await_name(requester, client, name, wait);
            }
            Request::Lookup { name, wait: None } => self.lookup(&name),
            Request::Put { database, pair, .. } => self.put_at_head(&database, pair, client),
            Request::Get { database, key } => return self.get_at_head(requester, database, key),
            Request::Iterate(database) => return self.iterate_at_head(requester, database),
            Request::Fetch(member) => return self.fetch_at_head(requester, member),
            Request::Layout(group) => self.layout_of(group),
            Request::Init
            | Request::Finalize
            | Request::Fence { .. }
            | Request::Exchange { .. }
            | Request::Merge { .. }
            | Request::Split { .. }
            | Request::Limits => {
                Err(Fault::new(FaultKind::Unsupported, "that is asked of a process's own node"))
            }
        };
        self.settle(requester, result);
    }

    /// The group whose number of processes must be final before a request is served: while the nodes check a group,
    /// they may leave out some. Who asks for the size also waits for an open group.
    fn awaited(&self, request: &Request) -> Option<GroupId> {
        let (group, waits_for_open) = match request {
            Request::Size(group) => (*group, true),
            Request::Members(group) | Request::Layout(group) => (*group, false),
            Request::Fetch(member) => (member.group, false),
            _ => return None,
        };
        let known = self.group(group).ok()?;
        let is_open = matches!(known.stage, Stage::Open(_));
        (known.may_shrink() || is_open && waits_for_open).then_some(group)
    }

    fn size(&self, group: GroupId) -> Result<u64, Fault> {
        Ok(self.roster_of(group).ok_or_else(|| no_group(group))?.size())
    }

    fn aborted(&mut self, client: Client, code: u8, message: String) -> Result<Answer, Fault> {
        let Client::Process(member) = client else {
            return Err(Fault::new(FaultKind::Unsupported, "a tool has no group to abort"));
        };
        self.outputs.push_back(Output::Aborted { member, code, message });
        self.kill_group(member.group, Requester::Nobody);
        Ok(Answer::Done)
    }

    /// The processes of a group, for a client at any node.
    fn members(&self, client: Client, group: GroupId) -> Result<Answer, Fault> {
        let roster = self.group(group).and_then(|_| self.roster_of(group).ok_or_else(|| group_open(group)));
        roster.map(|roster| Answer::Rosters(vec![roster])).map_err(|mut fault| {
            if let Client::Process(member) = client {
                fault.message = format!("the processes of {group}, for {member}: {}", fault.message);
            }
            fault
        })
    }

    /// The processes whose deaths a subscriber to a group receives.
    fn subscribed(&self, group: GroupId) -> Result<Answer, Fault> {
        self.group(group)?;
        // Processes may still be spawned into an open group.
        let whole = || Roster { group, database: String::new(), spans: vec![Span::whole(group)] };
        Ok(Answer::Rosters(vec![self.roster_of(group).unwrap_or_else(whole)]))
    }

    /// A node's first put into a database that it has no copy of.
    fn put_at_head(&mut self, database: &str, pair: Pair, client: Client) -> Result<Answer, Fault> {
        if !self.database_exists(database) {
            return Err(no_database(database));
        }
        let member = match client {
            Client::Process(member) => Some(member),
            Client::Tool(_) => None,
        };
        self.databases.put(database, pair, member, &self.settings.limits)?;
        Ok(Answer::Done)
    }

    fn get_at_head(&mut self, requester: Requester, database: String, key: Vec<u8>) {
        if !self.database_exists(&database) {
            return self.settle(requester, Err(no_database(&database)));
        }
        match self.databases.get(&database).and_then(|copy| copy.get(&key)).cloned() {
            Some(value) => self.settle(requester, Ok(Answer::Value(value))),
            None => self.find(requester, database, key),
        }
    }

    fn iterate_at_head(&mut self, requester: Requester, database: String) {
        if !self.database_exists(&database) {
            return self.settle(requester, Err(no_database(&database)));
        }
        self.list(requester, database);
    }

    fn open_group(&mut self, over: Set) -> Result<GroupId, Fault> {
        let parent = match &over {
            Set::Group(group) => self.spans(*group).first().map(|span| span.group),
            Set::Members(members) => members.first().map(|member| member.group),
        };
        let stage = Stage::Open(Some(over));
        self.new_group(Group::new(stage, parent, OnDeath::default(), self.now))
    }
}
