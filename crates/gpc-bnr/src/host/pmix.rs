//! The PMIx server of a node in the event loop: groups start once it has prepared them, and fail with it.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::sync::Arc;
use std::time::Duration;

use gpc_pmix::server::Event;
use mio::Interest;

use super::engine::{Engine, Errno};
use super::helper::Helper;
use super::sources::Source;
use crate::domain::{Input, Serial};
use crate::names::{GroupId, Member, Rank};
use crate::pmix::{Action, Variables};
use crate::request::{Client, Request};
use crate::spec::Layout;
use crate::start_error::StartError;

/// Time limit for the server to prepare a group. The helper loads a library and writes some files for each process.
const PREPARE_LIMIT: Duration = Duration::from_secs(60);

/// Prefix of variables that are advice of the server: parameters of Open MPI.
const ADVICE: &[u8] = b"OMPI_MCA_";

/// Most reads from the helper in one iteration of the loop.
const READS_MAX: usize = 64;

/// Exit status of a job whose server is gone.
const SERVER_LOST: u8 = 1;

impl Engine {
    /// Starts a group's processes here, once the server has prepared them if it is served.
    pub(super) fn start_served(&mut self, layout: Arc<Layout>) {
        let Some(plan) = layout.pmix.as_ref().filter(|_| layout.ranks_on(self.me).next().is_some()) else {
            return self.start(layout, &BTreeMap::new());
        };
        let host = plan.hosts.iter().find(|(id, _)| *id == self.me).map(|(_, host)| host.clone());
        let ready = match &self.pmix.unavailable {
            Some(why) if !plan.required => Err(why.clone()),
            _ => self.ensure_helper(&host.unwrap_or_else(|| self.host.clone())),
        };
        if let Err(why) = ready {
            return self.start_unserved(layout, &why);
        }
        let group = layout.group;
        let until = self.now().saturating_add(PREPARE_LIMIT);
        let user = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        self.pmix.translation.serve(layout.clone(), user);
        self.pmix.starting.insert(group, (layout, until));
    }

    /// The server cannot serve a group: starts it without one, or not at all.
    fn start_unserved(&mut self, layout: Arc<Layout>, why: &str) {
        if layout.pmix.as_ref().is_none_or(|plan| !plan.required) {
            tracing::info!(node = self.me, why, "programs that may need PMIx start without it");
            self.pmix.unavailable = Some(why.to_owned());
            return self.start(layout, &BTreeMap::new());
        }
        let mut error = StartError {
            errno: Errno::IO,
            status: StartError::REFUSED,
            host: String::new(),
            why: format!("its PMIx server cannot serve it: {why}"),
        };
        self.host.clone_into(&mut error.host);
        let ranks = layout.ranks_on(self.me).map(|rank| (rank, Err(error.clone()))).collect();
        self.inputs.push_back(Input::Started { group: layout.group, ranks });
    }

    fn ensure_helper(&mut self, host: &str) -> Result<(), String> {
        if self.pmix.helper.is_some() {
            return Ok(());
        }
        let Some(command) = &self.pmix.command else {
            return Err("this node runs none: `gpc` was built without the feature `pmix`".into());
        };
        let started = Helper::start(command, host, self.clock.clone());
        let helper = started.map_err(|error| format!("its helper cannot be started: {error}"))?;
        let interest = Interest::READABLE | Interest::WRITABLE;
        let watched = self.sources.watch(Source::Pmix, helper.descriptor(), interest);
        watched.map_err(|error| format!("its helper cannot be watched: {error}"))?;
        self.pmix.helper = Some(helper);
        Ok(())
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
                }
                Ok(Some(Event::Failed(why))) => return self.lose_helper(&why),
                Ok(Some(event)) => {
                    tracing::trace!(node = self.me, ?event);
                    let now = self.now();
                    self.pmix.translation.event(event, now);
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

    /// Writes what waits for the helper.
    pub(super) fn flush_helper(&mut self) {
        if let Some(helper) = &mut self.pmix.helper
            && let Err(why) = helper.flush()
        {
            self.lose_helper(&why);
        }
    }

    /// A group is prepared, or cannot be.
    fn prepared(&mut self, group: GroupId, prepared: Result<BTreeMap<Rank, Variables>, String>) {
        let Some((layout, _)) = self.pmix.starting.remove(&group) else { return };
        match prepared {
            Ok(mut variables) => {
                // What the user has set, as it is inherited, counts more than the server's advice.
                let is_set = |name: &[u8]| {
                    name.starts_with(ADVICE) && std::env::var_os(OsStr::from_bytes(name)).is_some()
                };
                variables.values_mut().for_each(|of_rank| of_rank.retain(|(name, _)| !is_set(name)));
                self.start(layout, &variables);
            }
            Err(why) => self.start_unserved(layout, &why),
        }
    }

    /// A group that is being prepared is killed. Returns whether it was.
    pub(super) fn stop_preparing(&mut self, group: GroupId) -> bool {
        let Some((layout, _)) = self.pmix.starting.remove(&group) else { return false };
        self.pmix.translation.emptied(group);
        let why = "the group is killed already";
        let mut error = StartError::new(Errno::CANCELED, StartError::REFUSED, why);
        self.host.clone_into(&mut error.host);
        let ranks = layout.ranks_on(self.me).map(|rank| (rank, Err(error.clone()))).collect();
        self.inputs.push_back(Input::Started { group, ranks });
        true
    }

    /// Gives up what is due.
    pub(super) fn check_pmix(&mut self) {
        let now = self.now();
        let late = self.pmix.starting.iter().filter(|(_, (_, until))| *until <= now);
        let late: Vec<GroupId> = late.map(|(group, _)| *group).collect();
        for group in late {
            let why = format!("it has not prepared the processes within {} s", PREPARE_LIMIT.as_secs());
            self.pmix.translation.not_prepared(group, why);
        }
        self.pmix.translation.time_passed(now);
    }

    /// The helper is gone or useless: the groups that it serves fail. A later group gets another one.
    fn lose_helper(&mut self, why: &str) {
        let Some(helper) = self.pmix.helper.take() else { return };
        self.sources.forget(Source::Pmix, Some(helper.descriptor()));
        // Ends it, and removes what it has left.
        drop(helper);
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
    pub(super) fn served_ended(&mut self, member: Member) {
        self.pmix.translation.ended(member);
        if self.pmix.unlinked.remove(&member) {
            self.inputs.push_back(Input::Gone(Client::Process(member)));
        }
    }
}
