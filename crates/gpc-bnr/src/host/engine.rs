//! The event loop of one node of a domain: passes events to the state machine and carries out its outputs.

use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::os::fd::AsRawFd as _;
use std::sync::mpsc::{Receiver, Sender, SyncSender};
use std::time::Duration;

use chained_gpc::trees::{Id, IdList};
use chained_gpc::{Clock, Deferred, Reply};
use mio::{Events, Poll};

use super::calls::{CallResult, Calls, Handles, reports};
use super::clients::Link;
use super::events::HostEvent;
use super::foreign::SilentProcesses;
use super::helper::PmixCommand;
use super::input::InputSender;
use super::links::Links;
use super::listeners::Listeners;
use super::local::Local;
use super::mailbox::{EngineMessage, Mailbox};
use super::orders::{PendingOrders, ReplyTarget};
use super::outflow::Outflow;
use super::owner::{OWNER, Owner};
use super::pmix_state::PmixState;
use super::processes::ReadOutcome;
use super::shared::Part;
use super::sources::{Source, Sources};
use super::stdio::{Stdio, is_cut};
use super::supervisor::{SupervisorCommand, SupervisorState};
use crate::causes::is_loss;
use crate::domain::{CallNumber, Domain, Input, Serial};
use crate::names::{GroupId, Member};
use crate::open_mpi;
use crate::order::Order;
use crate::request::{Client, Request};
use crate::start_error::StartError;
use crate::supervisor::SupervisorEvent;

/// Most events of the system per poll.
const EVENTS: usize = 512;

/// Most messages of other threads per iteration.
const MESSAGES_MAX: usize = 1024;

/// Time limit of calls for output and input: a day, since a person may leave output in a pager. Calls that take longer
/// are repeated.
pub(super) const STREAM_LIMIT: Duration = Duration::from_secs(24 * 3600);

/// Time that the other nodes have to end.
pub(super) const END_LIMIT: Duration = Duration::from_secs(10);

/// The purpose of a call.
pub(super) enum HostCallPurpose {
    Domain(CallNumber),
    Output(Id),
    Flush,
    Feed(SyncSender<io::Result<()>>),
    Signal,
}

/// Parameters of the loop.
pub(super) struct Parts {
    pub(super) poll: Poll,
    pub(super) mailbox: Mailbox,
    pub(super) inbox: Receiver<EngineMessage>,
    pub(super) me: Id,
    pub(super) nodes: Vec<Id>,
    pub(super) name: String,
    pub(super) domain: Domain,
    pub(super) clock: Clock,
    pub(super) outflow: Outflow,
    pub(super) supervisor: SupervisorCommand,
    pub(super) pmix: Option<PmixCommand>,
    /// Whether this node runs processes for certain, so the supervisor is started at once.
    pub(super) starts_at_once: bool,
    pub(super) listeners: Listeners,
    pub(super) events: Option<Sender<HostEvent>>,
    pub(super) calls: Option<Handles>,
    pub(super) caller: Option<chained_gpc::Caller>,
}

/// The event loop.
pub(super) struct Engine {
    pub(super) sources: Sources,
    pub(super) mailbox: Mailbox,
    pub(super) inbox: Receiver<EngineMessage>,
    pub(super) me: Id,
    pub(super) nodes: Vec<Id>,
    pub(super) name: String,
    /// Host name, for messages.
    pub(super) host: String,
    pub(super) domain: Domain,
    pub(super) clock: Clock,
    pub(super) inputs: VecDeque<Input>,
    pub(super) calls: Option<Calls<HostCallPurpose>>,
    pub(super) orders: PendingOrders,
    pub(super) owner: Owner,
    pub(super) links: Links,
    pub(super) local: Local,
    pub(super) supervisor: SupervisorState,
    pub(super) pmix: PmixState,
    pub(super) stdio: Stdio,
    pub(super) over: bool,
}

impl Engine {
    pub(super) fn new(parts: Parts) -> Engine {
        let calls = parts.caller.zip(parts.calls).map(|(caller, handles)| {
            Calls::new(parts.me, caller, handles, &parts.name, parts.mailbox.clone())
        });
        let pmix = PmixState::new(parts.pmix, parts.me, &parts.name);
        let mut engine = Engine {
            pmix,
            sources: Sources::new(parts.poll),
            mailbox: parts.mailbox,
            inbox: parts.inbox,
            me: parts.me,
            nodes: parts.nodes,
            name: parts.name,
            host: host_name(),
            domain: parts.domain,
            clock: parts.clock,
            inputs: VecDeque::new(),
            calls,
            orders: PendingOrders::default(),
            owner: Owner::new(parts.events),
            links: Links::new(parts.listeners),
            local: Local::default(),
            supervisor: SupervisorState {
                process: None,
                command: parts.supervisor,
                starts_at_once: parts.starts_at_once,
                lost: None,
            },
            stdio: Stdio::new(parts.outflow),
            over: false,
        };
        engine.watch_listeners();
        engine
    }

    /// The part of this node in the domain, for other threads.
    pub(super) fn part(&self) -> Part {
        Part {
            mailbox: self.mailbox.clone(),
            head: self.nodes.first().copied().unwrap_or(self.me),
            programs: self.local.programs.clone(),
        }
    }

    /// Runs until the domain has ended.
    pub(super) fn run(mut self, over: impl FnOnce()) {
        let mut events = Events::with_capacity(EVENTS);
        let mut buffer = vec![0; 64 << 10];
        if self.supervisor.starts_at_once {
            // The supervisor starts up while requests arrive. If it cannot be started, the first start of a process
            // reports the error.
            let _ = self.ensure_supervisor();
        }
        self.run_machine();
        // Terminates with the domain.
        while !self.over {
            self.turn(&mut events, &mut buffer);
        }
        over();
        self.end();
    }

    /// Waits for events and handles them.
    pub(super) fn turn(&mut self, events: &mut Events, buffer: &mut [u8]) {
        match self.sources.wait(events, self.poll_limit()) {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => {
                self.warn(format!("the loop of a domain's node cannot wait: {error}"));
                self.over = true;
                return;
            }
            Ok(()) => self.mark_ready(events),
        }
        self.take_messages();
        self.read(buffer);
        self.check_silent();
        self.check_pmix();
        self.close_late();
        self.inputs.push_back(Input::Time);
        self.run_machine();
    }

    fn mark_ready(&mut self, events: &Events) {
        for event in events {
            let source = self.sources.report(event.token());
            if event.is_read_closed() {
                let link = source.and_then(|source| self.links.of_source(source));
                link.into_iter().for_each(Link::hung_up);
            }
        }
    }

    pub(super) fn now(&self) -> Duration {
        self.clock.now()
    }

    /// Time until the next poll must return; `None` if only events matter.
    fn poll_limit(&self) -> Option<Duration> {
        let full = !self.stdio.outflow.has_room();
        if self.sources.has_ready(|source| matches!(source, Source::Output(_)) && full) {
            return Some(Duration::ZERO);
        }
        let unidentified = self.links.unidentified.values().next().map(|unidentified| unidentified.until);
        let deadlines = [self.domain.deadline(), self.local.silent.due(), self.pmix.deadline(), unidentified];
        deadlines.into_iter().flatten().min().map(|deadline| deadline.saturating_sub(self.now()))
    }

    /// Takes the messages of other threads.
    fn take_messages(&mut self) {
        for _ in 0..MESSAGES_MAX {
            match self.inbox.try_recv() {
                Ok(message) => self.take_message(message),
                Err(_) => return,
            }
        }
        // There may be more messages: wakes the loop at once.
        let _ = self.mailbox.send(EngineMessage::CallReady(u64::MAX));
    }

    fn take_message(&mut self, message: EngineMessage) {
        match message {
            EngineMessage::Order { root, order, answer } => self.take_order(root, *order, answer),
            EngineMessage::Cancelled(token) => {
                if self.orders.remove(token).is_some() {
                    self.inputs.push_back(Input::Cancelled(token));
                }
            }
            EngineMessage::CallReady(number) => self.call_ready(number),
            EngineMessage::Ask { request, callback } => {
                let serial = self.owner.add(callback);
                self.inputs.push_back(Input::Request { client: OWNER, serial, request: *request });
            }
            EngineMessage::Batches { data, answer } => self.stdio.outflow.relay(
                data,
                Box::new(|arrived| match arrived {
                    Ok(()) => answer.reply(Reply::default()),
                    Err(why) => answer.fail(why),
                }),
            ),
            EngineMessage::Flush { answer } => self.stdio.flushes.push(answer),
            EngineMessage::Input { data, answer } => self.take_input(data, InputSender::Node(answer)),
            EngineMessage::Feed { data, done } => self.feed(data, done),
            EngineMessage::Signal { group, signal, to } => self.signal(group, signal, to),
            EngineMessage::Written(result) => {
                self.stdio.outflow.written();
                if let Err(error) = result {
                    self.event(HostEvent::Output(error));
                }
            }
            EngineMessage::Drain(done) => self.drain(done),
            #[cfg(feature = "snapshot")]
            // The receiver may have stopped waiting.
            EngineMessage::Snapshot(done) => drop(done.send(self.snapshot())),
            EngineMessage::End(done) => {
                self.owner.ending.push(done);
                self.inputs.push_back(Input::End);
            }
        }
    }

    fn take_order(&mut self, root: Id, order: Order, answer: Deferred) {
        let token = self.orders.token();
        if let Order::Lost(ids) = &order {
            ids.iter().for_each(|id| self.stdio.outflow.lost(*id));
        }
        let mailbox = self.mailbox.clone();
        answer.on_cancel(move || drop(mailbox.send(EngineMessage::Cancelled(token))));
        self.orders.insert(token, ReplyTarget::Deferred(answer));
        self.inputs.push_back(Input::Order { token, root, order });
    }

    fn call_ready(&mut self, number: u64) {
        let Some(calls) = &mut self.calls else { return };
        let Some((purpose, ids, ended)) = calls.poll(number) else { return };
        self.call_ended(purpose, &ids, ended);
    }

    pub(super) fn call_ended(&mut self, purpose: HostCallPurpose, ids: &[Id], ended: CallResult) {
        match purpose {
            HostCallPurpose::Domain(call) => {
                let reports = reports(ids, &ended);
                self.inputs.push_back(Input::Called { call, reports });
            }
            HostCallPurpose::Output(up) => {
                let error = ended.err();
                if error.as_ref().and_then(|error| error.cause()).is_some_and(|cause| is_loss(cause.kind)) {
                    self.stdio.outflow.lost(up);
                }
                self.stdio.outflow.called(error.map_or(Ok(()), |error| Err(error.to_string())));
            }
            HostCallPurpose::Flush => self.stdio.flushing -= 1,
            HostCallPurpose::Feed(done) => {
                // The receiver may have stopped waiting.
                let _ = done.send(self.fed(ids, ended));
            }
            HostCallPurpose::Signal => {}
        }
    }

    /// A piece of standard input was passed to nodes, or could not be. Warns of nodes that get no more, although their
    /// processes may read on.
    fn fed(&mut self, ids: &[Id], ended: CallResult) -> io::Result<()> {
        let broken = |why: String| Err(io::Error::new(ErrorKind::BrokenPipe, why));
        let outcome = match ended {
            Ok(outcome) => outcome,
            Err(error) => {
                self.warn(format!("the standard input of all processes was cut: {error}"));
                return broken(error.to_string());
            }
        };
        let (is_taken, left_out) = self.stdio.passed(ids, |id| outcome.reply(id).is_some());
        let cut = left_out.into_iter().filter(|id| is_cut(outcome.cause(*id).map(|cause| cause.kind)));
        if let Some(cut) = IdList::from_ids(cut).ok().filter(|cut| !cut.is_empty()) {
            let why = "it may lack pieces, since a node on the way was lost or did not answer";
            self.warn(format!("the standard input of nodes {cut} was cut: {why}"));
        }
        if is_taken { Ok(()) } else { broken("no process reads it any more".into()) }
    }

    /// Reads a bounded amount from each descriptor that is ready.
    fn read(&mut self, buffer: &mut [u8]) {
        for key in self.sources.ready() {
            let Some(source) = self.sources.get(key) else {
                self.sources.exhausted(key);
                continue;
            };
            let more = match source {
                Source::Client(client) => self.read_client(client, buffer),
                Source::Unidentified(number) => self.read_unidentified(number, buffer),
                Source::Output(number) => self.read_output(number, buffer),
                Source::Input(_) => {
                    self.write_input();
                    false
                }
                Source::Supervisor => self.read_supervisor(buffer),
                Source::Pmix => self.read_helper(buffer),
                Source::Tools => self.accept_tool(),
                Source::Port => self.accept_processes(),
            };
            if !more {
                self.sources.exhausted(key);
            }
        }
    }

    fn read_output(&mut self, number: u64, buffer: &mut [u8]) -> bool {
        if !self.stdio.outflow.has_room() {
            return true;
        }
        let Some(output) = self.stdio.outputs.get_mut(&number) else { return false };
        let outflow = &mut self.stdio.outflow;
        match output.read(buffer, |piece| outflow.take(piece)) {
            ReadOutcome::More => true,
            ReadOutcome::Empty => false,
            ReadOutcome::End => {
                let output = self.stdio.outputs.remove(&number);
                self.sources
                    .forget(Source::Output(number), output.as_ref().map(|output| output.pipe().as_raw_fd()));
                false
            }
        }
    }

    fn read_supervisor(&mut self, buffer: &mut [u8]) -> bool {
        for _ in 0..MESSAGES_MAX {
            let Some(supervisor) = &mut self.supervisor.process else { return false };
            match supervisor.event() {
                Ok(Some(event)) => self.take_supervisor_event(event, buffer),
                Ok(None) => return false,
                Err(error) => {
                    self.lose_supervisor(&error);
                    return false;
                }
            }
        }
        true
    }

    fn take_supervisor_event(&mut self, event: SupervisorEvent, buffer: &mut [u8]) {
        match event {
            SupervisorEvent::Started(member, pid) => {
                self.local.alive.insert(member);
                if !self.pmix.serves(member.group) {
                    self.local.silent.insert(member, pid, self.now());
                }
                self.started(member, Ok(pid));
            }
            SupervisorEvent::NotStarted(member, error) => self.started(member, Err(error)),
            SupervisorEvent::Ended(member, exit) => {
                self.local.alive.remove(&member);
                self.local.silent.remove(member);
                // Requests that the process sent before its end count.
                self.read_rest(Client::Process(member), buffer);
                self.inputs.push_back(Input::Ended { member, exit });
                self.served_ended(member, exit);
            }
            SupervisorEvent::Emptied(group) => self.emptied(group),
        }
    }

    /// Aborts the job of a process that uses an unsupported MPI library: it would consider itself alone.
    fn check_silent(&mut self) {
        if let Some((member, library)) = self.local.silent.check(self.now()) {
            let message = open_mpi::silent_message(&library, self.pmix.unavailable.as_deref());
            let request = Request::Abort { code: StartError::REFUSED, message };
            let client = Client::Process(member);
            // The abort has no answer.
            self.inputs.push_back(Input::Request { client, serial: Serial::MAX, request });
        }
    }

    pub(super) fn started(&mut self, member: Member, mut result: Result<u32, StartError>) {
        if let Err(error) = &mut result {
            self.host.clone_into(&mut error.host);
        }
        if let Some((group, ranks)) = self.local.starting.record(member, result) {
            self.inputs.push_back(Input::Started { group, ranks });
        }
    }

    /// The supervisor is gone: nothing can be started, and the ends of running processes are not reported.
    pub(super) fn lose_supervisor(&mut self, error: &io::Error) {
        let why = error.to_string();
        // A second one that has started nothing is no news.
        if self.supervisor.lost.as_ref() != Some(&why) || !self.local.alive.is_empty() {
            let lost =
                if self.local.alive.is_empty() { "it had none left" } else { "its processes are lost" };
            self.warn(format!("the keeper of this host's processes is gone ({why}): {lost}"));
            self.supervisor.lost = Some(why);
        }
        let supervisor = self.supervisor.process.take();
        self.sources.forget(
            Source::Supervisor,
            supervisor.as_ref().map(|supervisor| supervisor.socket().as_raw_fd()),
        );
        if let Some(supervisor) = supervisor {
            supervisor.abandon();
        }
        let mut lost = StartError::new(Errno::CHILD, StartError::REFUSED, "its keeper is gone");
        self.host.clone_into(&mut lost.host);
        for (group, ranks) in self.local.starting.fail(&lost) {
            self.inputs.push_back(Input::Started { group, ranks });
        }
        self.local.silent = SilentProcesses::default();
        for member in std::mem::take(&mut self.local.alive) {
            self.inputs.push_back(Input::Ended { member, exit: crate::Exit::Signal(9) });
            self.served_ended(member, crate::Exit::Signal(9));
        }
        for group in self.local.groups.keys().copied().collect::<Vec<_>>() {
            self.emptied(group);
        }
    }

    /// Nothing of a group is left here: removes what the node holds for its processes.
    pub(super) fn emptied(&mut self, group: GroupId) {
        self.links.attributes.forget(group);
        self.links.listeners.forget(group);
        self.local.private.remove(&group);
        self.pmix.translation().emptied(group);
        if let Some(layout) = self.local.groups.remove(&group)
            && layout.reads_on(self.me)
            && self.stdio.own_input.is_none()
        {
            self.stdio.input.ended(group);
            self.write_input();
        }
        self.inputs.push_back(Input::Emptied(group));
    }

    /// Passes all inputs to the state machine, carries out its outputs, and writes the results.
    fn run_machine(&mut self) {
        self.handle_inputs();
        if self.flush_helper() {
            // The groups that the helper served fail now, and not at the next event.
            self.handle_inputs();
        }
        if let Some(supervisor) = &mut self.supervisor.process
            && let Err(error) = supervisor.flush()
        {
            self.lose_supervisor(&error);
        }
        self.send_output();
        self.flush_clients();
        self.stdio.answer_flushed();
    }

    fn handle_inputs(&mut self) {
        self.carry_out_pmix();
        // Terminates: an output adds an input only for a call of this node to itself, and for the PMIx server. The
        // machine makes a bounded number of such calls for each input from outside.
        while let Some(input) = self.inputs.pop_front() {
            let now = self.now();
            tracing::trace!(node = self.me, ?input);
            self.domain.handle(input, now);
            while let Some(output) = self.domain.next_output() {
                tracing::trace!(node = self.me, ?output);
                self.carry_out(output);
            }
            self.carry_out_pmix();
        }
    }

    /// The domain has ended: the supervisor ends all processes and itself.
    fn end(mut self) {
        self.stdio.outflow.drop_all();
        if let Some(supervisor) = self.supervisor.process.take() {
            supervisor.end(END_LIMIT);
        }
        self.event(HostEvent::Ended);
        self.owner.end();
    }

    pub(super) fn event(&self, event: HostEvent) {
        self.owner.event(event);
    }

    pub(super) fn warn(&self, message: String) {
        tracing::warn!(node = self.me, "{message}");
        self.event(HostEvent::Warning(message));
    }
}

pub(super) fn host_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    name.trim_end().to_owned()
}

/// Error numbers of the system.
pub(super) struct Errno;

impl Errno {
    /// No such child process.
    pub(super) const CHILD: i32 = rustix::io::Errno::CHILD.raw_os_error();
    /// Input/output error.
    pub(super) const IO: i32 = rustix::io::Errno::IO.raw_os_error();
}
