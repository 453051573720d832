//! The PMIx server of a node in the event loop: groups start once it has prepared them, and fail with it.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use gpc_pmix::server::Event;
use mio::Interest;

use super::engine::{Engine, Errno};
use super::helper::Helper;
use super::processes::check;
use super::sources::Source;
use crate::domain::{Input, Serial};
use crate::exit::Exit;
use crate::names::{GroupId, Member, Rank};
use crate::pmix::{Action, Variables};
use crate::request::{Client, Request};
use crate::spec::{Layout, PmixNeed};
use crate::start_error::StartError;

/// Time limit for the server to prepare a group. The helper loads a library and writes some files for each process.
const PREPARE_LIMIT: Duration = Duration::from_secs(60);

/// The same for a group that may need no server: it starts without one then.
const ATTEMPT_LIMIT: Duration = Duration::from_secs(10);

/// Time in which a group that is prepared must be started: other nodes may prepare for longer. A group that is never
/// started, since another node cannot, is forgotten then.
const READY_LIMIT: Duration = Duration::from_secs(120);

/// Prefix of variables that are advice of the server: parameters of Open MPI.
const ADVICE: &[u8] = b"OMPI_MCA_";

/// MPICH from version 5 on refuses to choose between PMI and PMIx. It always has PMI-1, which most builds of it have
/// alone.
const MPICH_CHOICE: (&[u8], &[u8]) = (b"MPIR_CVAR_PMI_VERSION", b"1");

/// Prefix of the folders of servers.
const FOLDER: &[u8] = b"gpc-pmix-";

/// Most reads from the helper in one iteration of the loop.
const READS_MAX: usize = 64;

/// Exit status of a job whose server is gone.
const SERVER_LOST: u8 = 1;

impl Engine {
    /// Prepares the server for a group that is to be started here.
    pub(super) fn prepare_group(&mut self, layout: Arc<Layout>) {
        let Some(plan) = &layout.pmix else { return };
        let host = plan.hosts.iter().find(|host| host.node == self.me).map(|host| host.name.clone());
        let ready = match &self.pmix.unavailable {
            Some(why) if !plan.required => Err(why.clone()),
            _ => self.ensure_helper(&host.unwrap_or_else(|| self.host.clone()), &layout),
        };
        if let Err(why) = ready {
            return self.prepare_without(&layout, &why);
        }
        let until = self.now().saturating_add(if plan.required { PREPARE_LIMIT } else { ATTEMPT_LIMIT });
        let user = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        self.pmix.translation.serve(layout.clone(), user);
        self.pmix.preparing.insert(layout.group, (layout, until));
    }

    /// The server cannot serve a group, which may do without it or fails.
    fn prepare_without(&mut self, layout: &Layout, why: &str) {
        let group = layout.group;
        if layout.pmix.as_ref().is_none_or(|plan| !plan.required) {
            tracing::info!(node = self.me, why, "programs that may need PMIx start without it");
            return self.prepared_for(group, Vec::new());
        }
        let error = self.unserved(why);
        self.prepared_for(group, vec![(layout.ranks_on(self.me).collect(), error)]);
    }

    fn prepared_for(&mut self, group: GroupId, failed: Vec<(Vec<Rank>, StartError)>) {
        let pmix = PmixNeed::No;
        self.inputs.push_back(Input::Checked { group, failed, port: None, pmix, mpi: None });
    }

    fn unserved(&self, why: &str) -> StartError {
        StartError {
            errno: Errno::IO,
            status: StartError::REFUSED,
            host: self.host.clone(),
            why: format!("its PMIx server cannot serve it: {why}"),
        }
    }

    /// Starts a group's processes here, with the variables that the server has prepared.
    pub(super) fn start_served(&mut self, layout: Arc<Layout>) {
        let ready = self.pmix.ready.remove(&layout.group);
        let required = layout.pmix.as_ref().is_some_and(|plan| plan.required);
        if ready.is_none() && required && layout.ranks_on(self.me).next().is_some() {
            let error = self.unserved("it has forgotten the group, since the start came late");
            let ranks = layout.ranks_on(self.me).map(|rank| (rank, Err(error.clone()))).collect();
            return self.inputs.push_back(Input::Started { group: layout.group, ranks });
        }
        self.start(layout, &ready.map(|(variables, _)| variables).unwrap_or_default());
    }

    fn ensure_helper(&mut self, host: &str, layout: &Layout) -> Result<(), String> {
        if self.pmix.helper.is_some() {
            return Ok(());
        }
        let Some(command) = &self.pmix.command else {
            return Err("this node runs none: `gpc` was built without the feature `pmix`".into());
        };
        let own = self.own_pmix(layout);
        let started = Helper::start(command, host, own.as_deref(), self.clock.clone());
        let helper = started.map_err(|error| format!("its helper cannot be started: {error}"))?;
        let interest = Interest::READABLE | Interest::WRITABLE;
        let watched = self.sources.watch(Source::Pmix, helper.descriptor(), interest);
        watched.map_err(|error| format!("its helper cannot be watched: {error}"))?;
        self.pmix.helper = Some(helper);
        Ok(())
    }

    /// The libpmix that a program of a group here brings along.
    fn own_pmix(&self, layout: &Layout) -> Option<PathBuf> {
        let mine = layout.blocks.iter().filter(|block| block.node == self.me);
        let numbers: BTreeSet<u32> = mine.map(|block| block.spec).collect();
        let mut specs = numbers.into_iter().filter_map(|number| layout.specs.get(number as usize));
        specs.find_map(|spec| check(spec, &self.local.programs.lock()).ok()?.own_pmix)
    }

    /// Reads the events of the helper.
    pub(super) fn read_helper(&mut self, buffer: &mut [u8]) -> bool {
        for _ in 0..READS_MAX {
            let Some(helper) = &mut self.pmix.helper else { return false };
            match helper.read(buffer) {
                Ok(true) => {}
                Ok(false) => return false,
                Err(why) => {
                    self.lose_helper(&why);
                    return false;
                }
            }
            self.take_helper_events();
        }
        true
    }

    fn take_helper_events(&mut self) {
        // Terminates: the helper has sent a bounded number of events.
        loop {
            let Some(helper) = &mut self.pmix.helper else { return };
            match helper.event() {
                Ok(Some(Event::Ready(version))) => {
                    tracing::debug!(node = self.me, %version, "the PMIx server runs");
                    self.pmix.unavailable = None;
                }
                Ok(Some(Event::Failed(why))) => {
                    self.pmix.unavailable = Some(why.clone());
                    return self.lose_helper(&why);
                }
                Ok(Some(event)) => {
                    tracing::trace!(node = self.me, ?event);
                    self.pmix.translation.event(event);
                }
                Ok(None) => return,
                Err(why) => return self.lose_helper(&why),
            }
        }
    }

    /// Carries out what the translation wants.
    pub(super) fn carry_out_pmix(&mut self) {
        // Terminates: an action adds none, except the loss of the helper, which adds a bounded number once.
        while let Some(action) = self.pmix.translation.next_action() {
            tracing::trace!(node = self.me, ?action);
            match action {
                Action::Order(order) => {
                    let Some(helper) = &mut self.pmix.helper else { continue };
                    if let Err(why) = helper.order(order) {
                        self.lose_helper(&why);
                    }
                }
                Action::Request { client, serial, request } => {
                    self.inputs.push_back(Input::Request { client, serial, request });
                }
                Action::Prepared(group, prepared) => self.prepared(group, prepared),
                Action::Fetched(number, data) => self.inputs.push_back(Input::Fetched { number, data }),
            }
        }
    }

    /// Writes what waits for the helper. Returns whether the helper is lost.
    pub(super) fn flush_helper(&mut self) -> bool {
        let Some(Err(why)) = self.pmix.helper.as_mut().map(Helper::flush) else { return false };
        self.lose_helper(&why);
        true
    }

    /// A group is prepared, or cannot be.
    fn prepared(&mut self, group: GroupId, prepared: Result<BTreeMap<Rank, Variables>, String>) {
        let Some((layout, _)) = self.pmix.preparing.remove(&group) else { return };
        let mut variables = match prepared {
            Ok(variables) => variables,
            Err(why) => return self.prepare_without(&layout, &why),
        };
        let inherited = |name: &[u8]| std::env::var_os(OsStr::from_bytes(name));
        let is_set = |name: &[u8]| inherited(name).is_some_and(|value| is_wish(name, value.as_bytes()));
        for of_rank in variables.values_mut() {
            of_rank.push((MPICH_CHOICE.0.to_vec(), MPICH_CHOICE.1.to_vec()));
            of_rank.retain(|(name, _)| !is_set(name));
        }
        let until = self.now().saturating_add(READY_LIMIT);
        self.pmix.ready.insert(group, (variables, until));
        self.prepared_for(group, Vec::new());
    }

    /// Ends preparations whose time limit has passed, and drops prepared groups that were not started in time.
    pub(super) fn check_pmix(&mut self) {
        let now = self.now();
        for group in due(&self.pmix.preparing, now) {
            self.pmix.translation.not_prepared(group, "it has not prepared the processes in time".into());
        }
        for group in due(&self.pmix.ready, now) {
            self.pmix.ready.remove(&group);
            self.pmix.translation.emptied(group);
        }
    }

    /// The helper is gone or useless: the groups that it serves fail. A later group gets another one.
    fn lose_helper(&mut self, why: &str) {
        let Some(helper) = self.pmix.helper.take() else { return };
        self.sources.forget(Source::Pmix, Some(helper.descriptor()));
        // Ends it, and removes what it has left.
        drop(helper);
        self.pmix.ready.clear();
        for member in self.pmix.translation.lost(why) {
            let message = format!("the PMIx server of node {} on host {} is gone: {why}", self.me, self.host);
            let request = Request::Abort { code: SERVER_LOST, message };
            // The abort has no answer.
            self.inputs.push_back(Input::Request {
                client: Client::Process(member),
                serial: Serial::MAX,
                request,
            });
        }
    }

    /// A process here has ended.
    pub(super) fn served_ended(&mut self, member: Member, exit: Exit) {
        self.pmix.translation.ended(member, exit);
        if self.pmix.unlinked.remove(&member) {
            self.inputs.push_back(Input::Gone(Client::Process(member)));
        }
    }
}

/// Whether an inherited variable is a wish of the user, which counts more than the server's advice. A node that was
/// started by a process of another job inherits the advice of that job's server, whose folders end with that job.
fn is_wish(name: &[u8], value: &[u8]) -> bool {
    let path = value.split(|byte| *byte == b'/');
    (name == MPICH_CHOICE.0 || name.starts_with(ADVICE))
        && !path.into_iter().any(|part| part.starts_with(FOLDER))
}

/// The groups whose time has passed.
fn due<T>(groups: &BTreeMap<GroupId, (T, Duration)>, now: Duration) -> Vec<GroupId> {
    groups.iter().filter(|(_, (_, until))| *until <= now).map(|(group, _)| *group).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A script of a served job that ran `gpc run` passed on the folders of its own job, which end with it.
    #[test]
    fn advice_of_another_server_is_no_wish_of_the_user() {
        let backing = b"OMPI_MCA_btl_vader_backing_directory";
        assert!(is_wish(backing, b"/dev/shm") && is_wish(b"OMPI_MCA_btl", b"self,tcp"));
        assert!(!is_wish(backing, b"/dev/shm/gpc-pmix-1f-0/1,x"));
        assert!(!is_wish(b"PMIX_RANK", b"0"));
        assert!(is_wish(b"MPIR_CVAR_PMI_VERSION", b"x"));
    }
}
