//! Spawn and job control.

use std::collections::BTreeSet;

use gpc_pmix::server::{Answer as Reply, Application, Info, Process};

use super::Translation;
use super::directives::{HOST, KILL, TERMINATE, WDIR, find, flag};
use super::pending::{Next, Part, Pending};
use super::status::{self, status_of};
use crate::fault::Fault;
use crate::names::Rank;
use crate::request::{Answer, Client, Request};
use crate::spec::{OnDeath, Readers, Spec};

impl Translation {
    /// Spawns a job. Wishes that the domain does not know are ignored, as in MPI.
    pub(super) fn spawn(
        &mut self,
        upcall: u64,
        process: &Process,
        info: &[Info],
        applications: Vec<Application>,
    ) -> Result<(), i32> {
        let member = self.local_member(process).ok_or(status::BAD_PARAM)?;
        if applications.is_empty() {
            return Err(status::BAD_PARAM);
        }
        let specs =
            applications.into_iter().map(|application| spec(application, info, member.rank)).collect();
        self.upcalls.insert(upcall, Pending::Spawn);
        let request = Request::SpawnMultiple {
            specs,
            preputs: Vec::new(),
            on_death: OnDeath::Kill,
            input: Readers::None,
        };
        self.ask(Client::Process(member), upcall, Part::Spawn, request);
        Ok(())
    }

    /// A job was spawned, or could not be.
    pub(super) fn spawned(&mut self, upcall: u64, answer: Result<Answer, Fault>) {
        match answer {
            Ok(Answer::Spawned { group, errors, .. }) if errors.iter().all(|errno| *errno <= 0) => {
                let namespace = self.names.namespace(group);
                self.with_groups(upcall, BTreeSet::from([group]), Next::Answer(Reply::Spawned(namespace)));
            }
            Ok(_) => self.finish(upcall, Err(status::FAILED_TO_LAUNCH)),
            Err(fault) => self.finish(upcall, Err(status_of(&fault))),
        }
    }

    /// Kills jobs. Signals, and processes alone, are not supported.
    pub(super) fn control(
        &mut self,
        upcall: u64,
        process: &Process,
        targets: &[Process],
        info: &[Info],
    ) -> Result<(), i32> {
        let member = self.local_member(process).ok_or(status::BAD_PARAM)?;
        let whole = targets.iter().all(|target| self.names.member(target).is_none());
        if !whole || !(flag(info, KILL) || flag(info, TERMINATE)) {
            return Err(status::NOT_SUPPORTED);
        }
        let groups = match targets.is_empty() {
            true => BTreeSet::from([member.group]),
            false => self.names.groups(targets).ok_or(status::NOT_FOUND)?,
        };
        self.await_several(upcall, groups.len());
        for group in groups {
            self.ask(Client::Process(member), upcall, Part::One, Request::Kill(group));
        }
        Ok(())
    }
}

/// The processes of an application. Its own wishes replace those for the whole job.
fn spec(application: Application, job: &[Info], parent: Rank) -> Spec {
    let wish = |key: &str| {
        let value = find(&application.info, key).or_else(|| find(job, key))?;
        (!value.bytes.is_empty()).then(|| value.bytes.clone())
    };
    let mut info = vec![
        ("pmix".to_owned(), b"always".to_vec()),
        ("pmix-parent".to_owned(), parent.to_string().into_bytes()),
    ];
    let folder = application.folder.clone().or_else(|| wish(WDIR));
    info.extend(folder.map(|folder| ("wdir".to_owned(), folder)));
    info.extend(wish(HOST).map(|host| ("host".to_owned(), host)));
    // The variables by which the spawning process finds its own server.
    let is_own = |name: &[u8]| name.starts_with(b"PMIX_") || name.starts_with(b"PMI_");
    let env = application.environment.into_iter().filter(|(name, _)| !is_own(name)).collect();
    Spec { count: application.count, program: application.program, args: application.arguments, env, info }
}
