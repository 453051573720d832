//! Requests that the head serves, for clients at any node.

use super::faults::{no_database, no_group};
use super::group::{Group, Stage};
use super::pending::Requester;
use super::{Domain, Output};
use crate::fault::{Fault, FaultKind};
use crate::names::{GroupId, Set};
use crate::request::{Answer, Client, Pair, Request};
use crate::spec::OnDeath;

impl Domain {
    /// Serves a request of a client at any node.
    pub(super) fn serve_at_head(&mut self, requester: Requester, client: Client, request: Request) {
        let result = match request {
            Request::Size(group) => match self.size(&requester, group) {
                Some(size) => size.map(Answer::Number),
                None => return,
            },
            Request::Open { over, .. } => self.open_group(over).map(Answer::Group),
            Request::Spawn { group, specs, preputs, on_death } => {
                self.spawn(group, specs, preputs, on_death).map(|()| Answer::Done)
            }
            Request::Close { over, group, .. } => return self.close(requester, &over, group),
            Request::SpawnMultiple { specs, preputs, on_death, input } => {
                return self.spawn_multiple(requester, client, (specs, preputs), on_death, input);
            }
            Request::Merge { first, second, .. } => self.merge_groups(first, second).map(Answer::Group),
            Request::Free(group) => self.free(group),
            Request::Kill(group) => {
                self.report_kill(client, group);
                return self.kill_group(group, requester);
            }
            Request::Status(group) => self.status(group, true).map(|status| Answer::Groups(vec![status])),
            Request::Groups => Ok(Answer::Groups(self.all_status())),
            Request::Subscribe(group) => self.subscribed_groups(group),
            Request::Abort { code, message } => self.aborted(client, code, message),
            Request::Create(name) => self.create_database(name).map(Answer::Name),
            Request::Destroy(name) => return self.destroy_database(requester, &name),
            Request::Databases => Ok(Answer::Names(self.database_names())),
            Request::Deposit(pair) => self.deposit(pair),
            Request::Withdraw(name) => self.withdraw(&name),
            Request::Lookup(name) => self.lookup(&name),
            Request::Put { database, pair, .. } => self.put_at_head(&database, pair, client),
            Request::Get { database, key } => return self.get_at_head(requester, database, key),
            Request::Iterate(database) => return self.iterate_at_head(requester, database),
            Request::Fetch(member) => return self.fetch_at_head(requester, member),
            Request::Layout(group) => self.layout_of(group),
            Request::Init
            | Request::Finalize
            | Request::Fence { .. }
            | Request::Exchange { .. }
            | Request::Limits => {
                Err(Fault::new(FaultKind::Unsupported, "that is asked of a process's own node"))
            }
        };
        self.settle(requester, result);
    }

    /// Number of processes of a group. `None` while the group is open: the receiver is queued.
    fn size(&mut self, requester: &Requester, group: GroupId) -> Option<Result<u64, Fault>> {
        let mut size = 0;
        for base in self.bases(group) {
            let known = self.head.as_mut().and_then(|head| head.groups.get_mut(&base));
            let Some(known) = known else { return Some(Err(no_group(base))) };
            match &known.layout {
                Some(layout) => size += u64::from(layout.size()),
                None => {
                    known.sizes.push(requester.clone());
                    return None;
                }
            }
        }
        Some(Ok(size))
    }

    fn aborted(&mut self, client: Client, code: u8, message: String) -> Result<Answer, Fault> {
        let Client::Process(member) = client else {
            return Err(Fault::new(FaultKind::Unsupported, "a tool has no group to abort"));
        };
        self.outputs.push_back(Output::Aborted { member, code, message });
        self.kill_group(member.group, Requester::Nobody);
        Ok(Answer::Done)
    }

    /// The status, without processes, of the groups whose deaths a subscriber to a group receives.
    fn subscribed_groups(&self, group: GroupId) -> Result<Answer, Fault> {
        let bases = self.bases(group).into_iter();
        bases.map(|base| self.status(base, false)).collect::<Result<_, _>>().map(Answer::Groups)
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
            Set::Group(group) => self.bases(*group).first().copied(),
            Set::Members(members) => members.first().map(|member| member.group),
        };
        let stage = Stage::Open(Some(over));
        self.new_group(Group::new(stage, parent, OnDeath::default(), self.now))
    }
}
