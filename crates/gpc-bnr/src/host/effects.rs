//! Carries out the outputs of the domain's state machine, and the requests of the application that bypass it.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::SyncSender;
use std::time::Duration;

use bytes::Bytes;
use chained_gpc::trees::Id;
use mio::Interest;

use super::calls::{CallParameters, reply};
use super::clients::Link;
use super::engine::{END_LIMIT, Engine, Errno, HostCallPurpose, STREAM_LIMIT};
use super::events::HostEvent;
use super::input::InputSender;
use super::mpi::MpiFacts;
use super::orders::ReplyTarget;
use super::owner::OWNER;
use super::private::PrivateFiles;
use super::processes::{NodeInfo, PreparedProcess, check, free_port, prepare, raise_descriptors};
use super::sources::Source;
use crate::codec::encode_order;
use crate::domain::{CallNumber, Input, Output, Serial};
use crate::fault::{Fault, FaultKind};
use crate::names::{GroupId, Member, Rank};
use crate::order::Order;
use crate::pmix::{SERVER, Variables};
use crate::protocol::Conversation;
use crate::request::{Answer, Client};
use crate::spec::{Block, Layout};
use crate::start_error::StartError;
use crate::supervisor::{Recipients, Supervisor, SupervisorOrder};

impl Engine {
    pub(super) fn carry_out(&mut self, output: Output) {
        match output {
            Output::Answer { client, serial, answer } => self.answer(client, serial, answer),
            Output::Notice { client, death } => {
                if client == OWNER {
                    self.event(HostEvent::Death(death));
                } else if client == SERVER {
                    self.pmix.translation().notice(&death);
                } else if let Some(link) = self.links.clients.get_mut(&client) {
                    link.notice(death);
                    self.links.touched.insert(client);
                }
            }
            Output::Call { call, ids, order, partial, limit } => self.call(call, ids, &order, partial, limit),
            Output::Cancel(call) => {
                if let Some(calls) = &mut self.calls {
                    calls.cancel(
                        |purpose| matches!(purpose, HostCallPurpose::Domain(number) if *number == call),
                    );
                }
                self.orders.cancel_own(call);
            }
            Output::Report { token, report } => match self.orders.remove(token) {
                Some(ReplyTarget::Deferred(answer)) => answer.reply(reply(&report)),
                Some(ReplyTarget::Own(call)) => {
                    let reports = vec![(self.me, Ok(report))];
                    self.inputs.push_back(Input::Called { call, reports });
                }
                None => {}
            },
            Output::Check(layout) if layout.pmix.is_some() => self.prepare_group(layout),
            Output::Check(layout) => self.check(&layout),
            Output::Fetch { number, member } => {
                self.pmix.translation().question(number, member);
            }
            Output::Forgotten(group) => self.pmix.translation().forgotten(group),
            Output::Start(layout) => self.start_served(layout),
            Output::Kill { group, grace } => self.kill(group, grace),
            Output::Signal(group, signal) => {
                self.send_order(SupervisorOrder::Signal { group, signal, to: Recipients::All }, Vec::new())
            }
            Output::Aborted { member, code, message } => {
                self.event(HostEvent::Aborted { member, code, message });
            }
            Output::NotStarted(failure) => self.event(HostEvent::NotStarted(failure)),
            Output::Spawned { group, count } => {
                // Another group may read.
                self.stdio.left_out.clear();
                self.event(HostEvent::Spawned { group, count });
            }
            Output::Killed { group, by, dead } => self.event(HostEvent::Killed { group, by, dead }),
            Output::Begun(hosts) => self.event(HostEvent::Begun(hosts)),
            Output::Warning(message) => self.warn(message),
            Output::End => self.over = true,
        }
    }

    pub(super) fn answer(&mut self, client: Client, serial: Serial, answer: Result<Answer, Fault>) {
        if client == OWNER {
            self.owner.answer(serial, answer);
        } else if self.pmix.translation().is_own(client, serial) {
            self.pmix.translation().answered(client, serial, answer);
        } else if let Some(link) = self.links.clients.get_mut(&client) {
            link.answered(serial, answer);
            self.links.touched.insert(client);
        }
    }

    /// Makes a call of the machine. A call to this node alone becomes an input of the machine.
    pub(super) fn call(
        &mut self,
        call: CallNumber,
        ids: Vec<Id>,
        order: &Arc<Order>,
        partial: bool,
        limit: Duration,
    ) {
        if ids == [self.me] {
            let token = self.orders.token();
            self.orders.insert(token, ReplyTarget::Own(call));
            self.inputs.push_back(Input::Order { token, root: self.me, order: (**order).clone() });
            return;
        }
        let Some(calls) = &mut self.calls else {
            let fault = Fault::new(FaultKind::System, "this domain has one node, and no way to another");
            let reports = ids.into_iter().map(|id| (id, Err(fault.clone()))).collect();
            return self.inputs.push_back(Input::Called { call, reports });
        };
        let parameters =
            CallParameters { func: calls.handles.order, ids, data: encode_order(order), partial, limit };
        if let Err((purpose, ids, error)) = calls.make(parameters, HostCallPurpose::Domain(call)) {
            self.call_ended(purpose, &ids, Err(error));
        }
    }

    /// Starts the processes of a group, with these variables for the PMIx server.
    pub(super) fn start(&mut self, layout: Arc<Layout>, variables: &BTreeMap<Rank, Variables>) {
        let ranks = layout.ranks_on(self.me).collect();
        if let Some((group, ranks)) = self.local.starting.begin(layout.group, ranks) {
            return self.inputs.push_back(Input::Started { group, ranks });
        }
        self.local.groups.insert(layout.group, layout.clone());
        let neighbours: Vec<_> = layout.ranks_on(self.me).collect();
        let supervised = self.ensure_supervisor().map_err(|error| without_supervisor(&error));
        let private =
            supervised.and_then(|()| PrivateFiles::create(&layout.specs).map_err(|error| unprepared(&error)));
        let private = match private {
            Ok(private) => private,
            Err(error) => {
                let members = neighbours.into_iter().map(|rank| Member { group: layout.group, rank });
                return members.for_each(|member| self.started(member, Err(error.clone())));
            }
        };
        let cpus = layout.cpus_on(self.me);
        for (local, &rank) in neighbours.iter().enumerate() {
            let member = Member { group: layout.group, rank };
            let spec = layout.spec_of(rank);
            let image = match spec.map(|spec| self.local.programs.lock().image(spec)).transpose() {
                Ok(image) => image.flatten(),
                Err(error) => {
                    self.started(member, Err(error));
                    continue;
                }
            };
            let position = (local, neighbours.len());
            let own_input = self.stdio.own_input.as_ref();
            let prepared = self.links.listeners.issue_secret(member).and_then(|port| {
                let cpus = cpus.get(&rank).copied();
                let (me, domain, private) = (self.me, self.name.as_str(), &private);
                let image = image.as_deref();
                let pmix = variables.get(&rank).map_or(&[][..], Vec::as_slice);
                let node = NodeInfo { me, position, cpus, domain, port, own_input, private, image, pmix };
                prepare(&layout, rank, &node)
            });
            if let Err(error) = prepared.and_then(|prepared| self.begin(member, prepared)) {
                self.started(member, Err(unprepared(&error)));
            }
        }
        if !private.is_empty() {
            self.local.private.insert(layout.group, private);
        }
    }

    /// Checks whether processes can be started, one for each program.
    fn check(&mut self, layout: &Layout) {
        let group = layout.group;
        let mine: Vec<&Block> = layout.blocks.iter().filter(|block| block.node == self.me).collect();
        let mut failed = Vec::new();
        let mut facts = MpiFacts::default();
        for (number, spec) in (0..).zip(&layout.specs) {
            let blocks = mine.iter().filter(|block| block.spec == number);
            let ranks: Vec<Rank> = blocks.flat_map(|block| block.first..block.first + block.count).collect();
            if ranks.is_empty() {
                continue;
            }
            let checked = check(spec, &self.local.programs.lock());
            if let Err(mut error) = checked.and_then(|found| facts.add(spec, found, self.pmix.is_available()))
            {
                self.host.clone_into(&mut error.host);
                failed.push((ranks, error));
            }
        }
        let port = match layout.needs_port_at(self.me).then(free_port) {
            Some(Ok(port)) => Some(port),
            None => None,
            Some(Err(error)) => {
                let errno = error.raw_os_error().unwrap_or(Errno::IO);
                let mut error = StartError::new(errno, StartError::REFUSED, "no port is free");
                self.host.clone_into(&mut error.host);
                failed.push((vec![0], error));
                None
            }
        };
        let (pmix, mpi) = (facts.need, facts.mpi());
        self.inputs.push_back(Input::Checked { group, failed, port, pmix, mpi });
    }

    pub(super) fn begin(&mut self, member: Member, prepared: PreparedProcess) -> io::Result<()> {
        let client = Client::Process(member);
        self.sources.watch(Source::Client(client), prepared.link.as_raw_fd(), Interest::READABLE)?;
        let link = Link::new(prepared.link, Conversation::new(), self.links.unread.clone());
        self.links.clients.insert(client, link);
        for output in [prepared.out, prepared.err] {
            let number = self.sources.next_source;
            self.sources.next_source += 1;
            self.sources.watch(Source::Output(number), output.pipe().as_raw_fd(), Interest::READABLE)?;
            self.stdio.outputs.insert(number, output);
        }
        if let Some(input) = prepared.input {
            self.sources.watch(Source::Input(member.rank), input.as_raw_fd(), Interest::WRITABLE)?;
            self.stdio.input.open(input, member);
            self.write_input();
        }
        if let Some(process_group) = prepared.joins {
            self.send_order(SupervisorOrder::Join { member, process_group }, Vec::new());
        }
        self.send_order(prepared.order, prepared.theirs);
        Ok(())
    }

    pub(super) fn ensure_supervisor(&mut self) -> io::Result<()> {
        if self.supervisor.process.is_none() {
            let supervisor =
                Supervisor::start(&self.supervisor.command.program, &self.supervisor.command.args)?;
            self.sources.watch(
                Source::Supervisor,
                supervisor.socket().as_raw_fd(),
                Interest::READABLE | Interest::WRITABLE,
            )?;
            self.supervisor.process = Some(supervisor);
            raise_descriptors();
        }
        Ok(())
    }

    pub(super) fn send_order(&mut self, order: SupervisorOrder, descriptors: Vec<OwnedFd>) {
        if let Some(supervisor) = &mut self.supervisor.process {
            supervisor.order(order, descriptors);
            // Sends at once, so that descriptors wait as briefly as possible. A failure is detected at the end of the
            // iteration.
            let _ = supervisor.flush();
        }
    }

    pub(super) fn kill(&mut self, group: GroupId, grace: Option<Duration>) {
        if self.supervisor.process.is_some() && self.local.groups.contains_key(&group) {
            self.send_order(SupervisorOrder::Kill { group, grace }, Vec::new());
        } else {
            self.emptied(group);
        }
    }

    pub(super) fn signal(&mut self, group: Option<GroupId>, signal: u8, to: Recipients) {
        let groups: Vec<GroupId> = match group {
            Some(group) => vec![group],
            None => self.domain.running(),
        };
        for group in groups {
            if self.nodes.len() == 1 {
                self.send_order(SupervisorOrder::Signal { group, signal, to }, Vec::new());
                continue;
            }
            let Some(calls) = &mut self.calls else { continue };
            let data = encode_order(&Order::Signal(group, signal));
            let parameters = CallParameters {
                func: calls.handles.order,
                ids: self.nodes.clone(),
                data,
                partial: true,
                limit: END_LIMIT,
            };
            // An unreached node is lost, and its processes with it.
            let _ = calls.make(parameters, HostCallPurpose::Signal);
        }
    }

    /// Queues standard input for a process of this node.
    pub(super) fn take_input(&mut self, data: Bytes, from: InputSender) {
        self.stdio.input.take(data, from);
        self.write_input();
    }

    /// Writes queued input. A pipe that is closed is watched no more.
    pub(super) fn write_input(&mut self) {
        self.stdio.input.write();
        for rank in self.stdio.input.take_closed() {
            self.sources.forget(Source::Input(rank), None);
        }
    }

    /// Passes standard input to the processes that read it, at whatever nodes. A node that does not take it delays none
    /// of the others, and is left out from then on.
    pub(super) fn feed(&mut self, data: Bytes, done: SyncSender<io::Result<()>>) {
        let readers = self.domain.readers();
        if readers.iter().all(|node| *node == self.me) {
            return self.take_input(data, InputSender::Local(done));
        }
        let nodes = self.stdio.fed(readers, data.is_empty());
        if nodes.is_empty() {
            // The receiver may have stopped waiting.
            let _ = done.send(Err(io::ErrorKind::BrokenPipe.into()));
            return;
        }
        let Some(calls) = &mut self.calls else { return };
        let parameters = CallParameters {
            func: calls.handles.input,
            ids: nodes,
            data,
            partial: true,
            limit: STREAM_LIMIT,
        };
        if let Err((purpose, ids, error)) = calls.make(parameters, HostCallPurpose::Feed(done)) {
            self.call_ended(purpose, &ids, Err(error));
        }
    }

    /// Sends output up, or writes it at the head.
    pub(super) fn send_output(&mut self) {
        self.stdio.outflow.write();
        while let Some((up, data)) = self.stdio.outflow.next_call() {
            let Some(calls) = &mut self.calls else { return };
            let parameters = CallParameters {
                func: calls.handles.output,
                ids: vec![up],
                data,
                partial: false,
                limit: STREAM_LIMIT,
            };
            if let Err((purpose, ids, error)) = calls.make(parameters, HostCallPurpose::Output(up)) {
                // Too many calls are in flight: the next iteration tries again.
                self.call_ended(purpose, &ids, Err(error));
                return;
            }
        }
    }

    pub(super) fn drain(&mut self, done: SyncSender<()>) {
        self.stdio.drains.push(done);
        let others: Vec<Id> = self.nodes.iter().copied().filter(|id| *id != self.me).collect();
        let (Some(calls), false) = (&mut self.calls, others.is_empty()) else { return };
        let parameters = CallParameters {
            func: calls.handles.flush,
            ids: others,
            data: Bytes::new(),
            partial: true,
            limit: STREAM_LIMIT,
        };
        self.stdio.flushing += 1;
        if let Err((purpose, ids, error)) = calls.make(parameters, HostCallPurpose::Flush) {
            self.call_ended(purpose, &ids, Err(error));
        }
    }
}

/// The error of a process whose descriptors could not be created.
fn unprepared(error: &io::Error) -> StartError {
    let errno = error.raw_os_error().unwrap_or(Errno::IO);
    StartError::new(errno, StartError::REFUSED, "its pipes, its socket or its private files cannot be made")
}

/// The error of processes that have no supervisor to start them.
fn without_supervisor(error: &io::Error) -> StartError {
    let errno = error.raw_os_error().unwrap_or(Errno::IO);
    let why = format!("the keeper, which starts processes, cannot be started: {error}");
    StartError { errno, status: StartError::REFUSED, host: String::new(), why }
}
