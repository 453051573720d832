//! Drives the nodes of a world: passes inputs to the chain and to the domain of a node, and carries out their outputs.
//! Two queues connect chain and domain, since a domain runs on a thread of its own. A queue keeps the order of its
//! messages and delays them a little.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use chained_gpc::chain::{self, Job, JobResult, Output as ChainOutput, Start, Time, Work};
use chained_gpc::trees::{Id, IdList, Tree};
use chained_gpc::wire::level::{Leaves, Limits as LevelLimits};
use chained_gpc::wire::message::SubtreeReply;
use chained_gpc::wire::{Body, CallId, CauseKind, Failure, Message, Reason, Report as Coverage, Status};

use super::events::{Event, Parcel};
use super::network::{Fate, Receipt};
use super::node::{ChainMessage, DomainMessage, NAME, Node, Part, ReplyTarget};
use super::seen::Seen;
use super::world::World;
use crate::causes::{fault_of, report_of};
use crate::codec::{decode_order, encode_order, encode_report};
use crate::domain::{CallNumber, Domain, Input, Output, Settings};
use crate::fault::{Fault, FaultKind};
use crate::limits::Limits;
use crate::order::{Order, Report};

/// The function that carries orders between nodes.
const ORDER: u64 = 0x0bde;

impl World {
    pub(super) fn new_node(&self, id: Id, run: u32) -> Node {
        Node::new(id, run, self.now, self.config.dead_after)
    }

    /// A domain begins at a node.
    pub(super) fn begin_part(&mut self, id: Id, nodes: Vec<Id>, limits: Limits) {
        let runs = id != self.head() || self.config.head_runs;
        let host = format!("host{id}");
        let settings = Settings {
            me: id,
            nodes,
            runs,
            name: NAME.into(),
            limits,
            slots: BTreeMap::new(),
            addresses: BTreeMap::new(),
            host,
            dead_after: None,
        };
        let domain = Domain::new(settings, self.clock());
        let part = Part::new(domain);
        if let Some(node) = self.nodes.get_mut(&id) {
            node.part = Some(part);
        }
        self.run_machine(id);
    }

    pub(super) fn clock(&self) -> Duration {
        Duration::from_micros(self.now)
    }

    /// Passes an input to a chain, and carries out all immediate consequences.
    pub(super) fn chain(&mut self, id: Id, input: chain::Input) {
        let mut inputs = VecDeque::from([input]);
        // Terminates: a function that has run adds one input, and all other consequences take time.
        while let Some(input) = inputs.pop_front() {
            let now = Time::from_nanos(self.now * 1_000);
            let Some(node) = self.nodes.get_mut(&id).filter(|node| node.up) else { return };
            let mut outputs = std::mem::take(&mut self.outputs);
            node.chain.input(now, input, &mut outputs);
            while let Some(output) = outputs.pop_front() {
                self.carry_out_of_chain(id, output, &mut inputs);
            }
            self.outputs = outputs;
        }
        self.settle(id);
    }

    fn carry_out_of_chain(&mut self, id: Id, output: ChainOutput, inputs: &mut VecDeque<chain::Input>) {
        match output {
            ChainOutput::Send { to, message } => self.send(id, to, message),
            ChainOutput::Run(job) => {
                let (call, result) = self.run_order(id, &job);
                inputs.push_back(chain::Input::Ran { call, result });
            }
            ChainOutput::Finished { ticket, result, report, .. } => self.finished(id, ticket, result, report),
            ChainOutput::Stopped(call) => {
                let Some(node) = self.nodes.get_mut(&id) else { return };
                if let Some(token) = node.orders.remove(&call) {
                    self.send_to_domain(id, DomainMessage::Cancelled(token));
                }
            }
            ChainOutput::Abandon { peer } => {
                self.say(format_args!("{id} gives {peer} up"));
                let closed = self.links.abandon(id, peer);
                inputs.push_back(lost(peer, CauseKind::LinkLost, "it is silent", false));
                closed.into_iter().for_each(|epoch| self.tell_loss(peer, id, epoch));
            }
            ChainOutput::Consumed { .. } | ChainOutput::ChildReply { .. } => {}
        }
    }

    /// Runs the function: passes the order to the domain's thread.
    fn run_order(&mut self, id: Id, job: &Job) -> (CallId, JobResult) {
        let call = job.call;
        let failed = |why: &str| (call, JobResult::Failed(why.into()));
        let (Work::Func, Some(data)) = (&job.work, job.request.data.bytes()) else {
            return failed("an order has one part");
        };
        let order = match decode_order(&data) {
            Ok(order) => order,
            Err(error) => return (call, JobResult::Failed(error.to_string().into())),
        };
        let Some(node) = self.nodes.get_mut(&id) else { return failed("it is gone") };
        let begins = match &order {
            Order::Begin { nodes, limits } if node.part.is_none() => Some((nodes.clone(), *limits)),
            _ if node.part.is_none() => {
                return failed("this node has no part in such a domain, or not any more");
            }
            _ => None,
        };
        let token = node.next_token;
        node.next_token += 1;
        node.orders.insert(call, token);
        if let Some((nodes, limits)) = begins {
            self.begin_part(id, nodes, limits);
        }
        self.send_to_domain(id, DomainMessage::Order(token, call.root, Box::new(order), call));
        (call, JobResult::Deferred)
    }

    fn finished(
        &mut self,
        id: Id,
        ticket: u64,
        result: Result<Option<SubtreeReply>, Box<Failure>>,
        coverage: Option<Box<Coverage>>,
    ) {
        let Some((_, ids)) = self.nodes.get(&id).and_then(|node| node.calls.get(&ticket)) else { return };
        let reports = match &result {
            Ok(reply) => replies(ids, reply.as_ref(), coverage.as_deref()),
            Err(failure) => ids.iter().map(|id| (*id, Err(fault_of(&failure.cause)))).collect(),
        };
        self.send_to_domain(id, DomainMessage::Called(ticket, reports));
    }

    /// Queues a message to the domain's thread of a node.
    fn send_to_domain(&mut self, id: Id, message: DomainMessage) {
        let at = self.queued(id, 0);
        self.push_at(id, at, |run| Event::DomainMessage(id, run, message));
    }

    /// Queues a message to the chain of a node.
    fn send_to_chain(&mut self, id: Id, message: ChainMessage) {
        let at = self.queued(id, 1);
        self.push_at(id, at, |run| Event::ChainMessage(id, run, message));
    }

    fn queued(&mut self, id: Id, queue: usize) -> u64 {
        let at = self.now + 1 + self.random.below(30);
        let Some(node) = self.nodes.get_mut(&id) else { return at };
        node.last[queue] = node.last[queue].max(at);
        node.last[queue]
    }

    pub(super) fn push_at(&mut self, id: Id, at: u64, event: impl FnOnce(u32) -> Event) {
        let Some(run) = self.nodes.get(&id).map(|node| node.run) else { return };
        self.push(at, event(run));
    }

    pub(super) fn take_chain_message(&mut self, id: Id, message: ChainMessage) {
        let input = match message {
            ChainMessage::Start(ticket, start) => chain::Input::Start { ticket, start },
            ChainMessage::GiveUp(ticket) => chain::Input::GiveUp { ticket },
            ChainMessage::Answered(call, result) => {
                self.nodes.get_mut(&id).and_then(|node| node.orders.remove(&call));
                chain::Input::Answered { call, result }
            }
        };
        self.chain(id, input);
    }

    pub(super) fn take_domain_message(&mut self, id: Id, message: DomainMessage) {
        let Some(node) = self.nodes.get_mut(&id) else { return };
        let Some(part) = &mut node.part else {
            if let DomainMessage::Order(_, _, _, call) = message {
                self.send_to_chain(id, ChainMessage::Answered(call, Err("the domain has ended".into())));
            }
            return;
        };
        match message {
            DomainMessage::Order(token, root, order, call) => {
                part.reply_targets.insert(token, ReplyTarget::Deferred(call));
                part.inputs.push_back(Input::Order { token, root, order: *order });
            }
            DomainMessage::Cancelled(token) => {
                if part.reply_targets.remove(&token).is_some() {
                    part.inputs.push_back(Input::Cancelled(token));
                }
            }
            DomainMessage::Called(ticket, reports) => {
                let Some((call, _)) = node.calls.remove(&ticket) else { return };
                part.inputs.push_back(Input::Called { call, reports });
            }
        }
        self.run_machine(id);
    }

    /// Passes an input to the machine of a node.
    pub(super) fn input(&mut self, id: Id, input: Input) {
        if let Some(part) = self.nodes.get_mut(&id).filter(|node| node.up).and_then(|node| node.part.as_mut())
        {
            part.inputs.push_back(input);
            self.run_machine(id);
        }
    }

    /// Passes all inputs to the machine, and carries out its outputs.
    fn run_machine(&mut self, id: Id) {
        let now = self.clock();
        // Terminates: an output adds an input only for a call of this node to itself.
        loop {
            let Some(part) = self.nodes.get_mut(&id).and_then(|node| node.part.as_mut()) else { return };
            if let Some(output) = part.domain.next_output() {
                self.carry_out(id, output);
                continue;
            }
            let Some(input) = part.inputs.pop_front() else { break };
            part.domain.handle(input, now);
        }
        self.settle(id);
    }

    fn carry_out(&mut self, id: Id, output: Output) {
        match output {
            Output::Answer { client, serial, answer } => self.answered(client, serial, answer),
            Output::Notice { client, death } => self.see(Seen::Noticed { client, death }),
            Output::Call { call, ids, order, partial, limit } => {
                self.call(id, call, ids, &order, partial, limit);
            }
            Output::Cancel(call) => self.cancel(id, call),
            Output::Report { token, report } => {
                let Some(part) = self.nodes.get_mut(&id).and_then(|node| node.part.as_mut()) else { return };
                match part.reply_targets.remove(&token) {
                    Some(ReplyTarget::Deferred(call)) => {
                        let reply = chain::Reply { shared: encode_report(&report), ..Default::default() };
                        self.send_to_chain(id, ChainMessage::Answered(call, Ok(reply)));
                    }
                    Some(ReplyTarget::Own(call)) => {
                        part.inputs.push_back(Input::Called { call, reports: vec![(id, Ok(report))] });
                    }
                    None => {}
                }
            }
            Output::Check(layout) => self.check(id, &layout),
            // No program of the simulator asks for the data of a process.
            Output::Fetch { .. } => {}
            Output::Start(layout) => self.start(id, layout),
            Output::Kill { group, grace } => {
                self.see(Seen::Kills { id, group });
                let signal = if grace.is_some() && !self.random.chance(1, 3) { 15 } else { 9 };
                let most = grace.map_or(10, |grace| grace.as_micros() as u64 + 10);
                let at = self.now + 1 + self.random.below(most);
                self.push_at(id, at, |run| Event::Killed(id, run, group, signal));
            }
            Output::Signal(..) | Output::Aborted { .. } | Output::NotStarted(_) => {}
            Output::Spawned { group, .. } => self.see(Seen::Spawned(group)),
            Output::Killed { .. } | Output::Forgotten(_) => {}
            Output::Begun(_) => {}
            Output::Warning(message) => self.say(format_args!("{id} warns: {message}")),
            Output::End => self.part_ended(id),
        }
    }

    fn call(
        &mut self,
        id: Id,
        call: CallNumber,
        ids: Vec<Id>,
        order: &Order,
        partial: bool,
        limit: Duration,
    ) {
        self.totals.count_order(order);
        self.say(format_args!("{id} calls {ids:?}: {order:?}"));
        let Some(node) = self.nodes.get_mut(&id) else { return };
        if ids == [id] {
            let token = node.next_token;
            node.next_token += 1;
            let Some(part) = &mut node.part else { return };
            part.reply_targets.insert(token, ReplyTarget::Own(call));
            return part.inputs.push_back(Input::Order { token, root: id, order: order.clone() });
        }
        if self.lasting.is_busy(id, self.now) {
            let fault = Fault::new(FaultKind::System, "a call to other nodes: too many calls at the moment");
            let reports = ids.into_iter().map(|id| (id, Err(fault.clone()))).collect();
            let part = node.part.as_mut();
            return part.into_iter().for_each(|part| {
                part.inputs.push_back(Input::Called { call, reports: Vec::clone(&reports) })
            });
        }
        let ticket = node.next_ticket;
        node.next_ticket += 1;
        let Ok(list) = IdList::from_ids(std::iter::once(id).chain(ids.iter().copied())) else {
            return self
                .see(Seen::Left(format!("node {id} calls a node twice, or itself with others: {ids:?}")));
        };
        node.calls.insert(ticket, (call, ids));
        let start = Start {
            forward_first: true,
            partial,
            watch: true,
            limit,
            tree: Tree::Binomial,
            ids: list,
            header: NAME.into(),
            data: Body::whole(encode_order(order)),
            ..Start::new(ORDER)
        };
        self.send_to_chain(id, ChainMessage::Start(ticket, Box::new(start)));
    }

    fn cancel(&mut self, id: Id, call: CallNumber) {
        let Some(node) = self.nodes.get_mut(&id) else { return };
        let ticket = node.calls.iter().find(|(_, (number, _))| *number == call).map(|(ticket, _)| *ticket);
        if let Some(part) = &mut node.part {
            part.reply_targets
                .retain(|_, asked| !matches!(asked, ReplyTarget::Own(number) if *number == call));
        }
        if let Some(ticket) = ticket {
            node.calls.remove(&ticket);
            self.send_to_chain(id, ChainMessage::GiveUp(ticket));
        }
    }

    /// The thread of a node's part ends: its calls are cancelled, and unanswered orders fail.
    fn part_ended(&mut self, id: Id) {
        self.see(Seen::Ended(id));
        let Some(node) = self.nodes.get_mut(&id) else { return };
        let Some(part) = node.part.take() else { return };
        if !part.domain.is_idle() {
            self.see(Seen::Busy(id));
        }
        let Some(node) = self.nodes.get_mut(&id) else { return };
        let tickets: Vec<u64> = std::mem::take(&mut node.calls).into_keys().collect();
        tickets.into_iter().for_each(|ticket| self.send_to_chain(id, ChainMessage::GiveUp(ticket)));
        for asked in part.reply_targets.into_values() {
            if let ReplyTarget::Deferred(call) = asked {
                let why = Reason::new(CauseKind::NoAnswer, "the token was dropped without an answer");
                self.send_to_chain(id, ChainMessage::Answered(call, Err(Box::new(why))));
            }
        }
        self.processes_end_with(id);
    }

    fn settle(&mut self, id: Id) {
        let Some(node) = self.nodes.get_mut(&id).filter(|node| node.up) else { return };
        let chain = node.chain.next_deadline().map(|due| due.as_nanos().div_ceil(1_000));
        let domain = node.part.as_ref().and_then(|part| part.domain.deadline());
        let due = [chain, domain.map(|due| due.as_micros() as u64)];
        let (run, mut wakes) = (node.run, Vec::new());
        for (which, due) in due.into_iter().enumerate() {
            let due = due.unwrap_or(u64::MAX).max(self.now);
            if due < node.wakes[which] {
                node.wakes[which] = due;
                wakes.push((due, which));
            }
        }
        wakes.into_iter().for_each(|(due, which)| self.push(due, Event::Wakes(id, run, which)));
    }

    pub(super) fn wakes(&mut self, id: Id, which: usize) {
        let Some(node) = self.nodes.get_mut(&id) else { return };
        node.wakes[which] = u64::MAX;
        match which {
            0 => self.chain(id, chain::Input::Tick),
            _ => self.input(id, Input::Time),
        }
        self.settle(id);
    }

    fn send(&mut self, from: Id, to: Id, message: Message) {
        self.totals.messages += 1;
        let opens = matches!(message, Message::Request(_) | Message::Ping);
        let refused = self.lasting.is_refused(from, to, self.now);
        let answers = self.is_up(to) && !refused;
        let begun = self.nodes.get(&from).map_or(0, |node| node.begun);
        let delay = self.delay(from, to);
        match self.links.send(from, to, opens, answers) {
            Fate::Vanishes => {}
            Fate::Refused(epoch) => {
                let at = self.now + delay;
                self.push_at(from, at, |run| Event::Lost(from, run, to, epoch));
            }
            Fate::Goes(epoch) => {
                let at = self.links.in_order(from, to, self.now + delay);
                self.push(at, Event::Arrive(Box::new(Parcel { from, to, epoch, begun, message })));
            }
        }
    }

    /// A message arrives, if the network lets it through.
    pub(super) fn arrive(&mut self, parcel: Parcel) {
        let Parcel { from, to, epoch, begun, message } = parcel;
        if !self.is_up(to) {
            return;
        }
        match self.links.receive(from, to, epoch) {
            Receipt::Dropped => return,
            Receipt::In => {}
            Receipt::InAfterLoss { unreached } => self.lose_link(to, from, unreached),
        }
        if self.links.comes_up(from, to, epoch) {
            self.chain(to, chain::Input::LinkUp { peer: from, incarnation: begun });
        }
        self.chain(to, chain::Input::Message { from, message });
    }

    /// Schedules the time at which an end learns of a loss.
    pub(super) fn tell_loss(&mut self, id: Id, peer: Id, epoch: u32) {
        let delay =
            self.delay(peer, id) + if self.random.chance(1, 4) { self.random.below(300_000) } else { 0 };
        let at = self.now + delay;
        self.push_at(id, at, |run| Event::Lost(id, run, peer, epoch));
    }

    pub(super) fn hears_of_loss(&mut self, id: Id, peer: Id, epoch: u32) {
        if let Some(unreached) = self.links.take_loss(id, peer, epoch) {
            self.lose_link(id, peer, unreached);
        }
    }

    fn lose_link(&mut self, id: Id, peer: Id, unreached: bool) {
        let kind = if unreached { CauseKind::Unreachable } else { CauseKind::LinkLost };
        let why = if unreached { "connection refused" } else { "connection reset" };
        self.say(format_args!("{id} hears of {peer}: {why}"));
        self.chain(id, lost(peer, kind, why, unreached));
    }

    /// State that a node still has when no event is left.
    pub(super) fn left_at(&self, id: Id) -> Option<String> {
        let node = self.nodes.get(&id).filter(|node| node.up)?;
        if node.part.is_some() {
            return Some(format!("node {id} has not ended its part"));
        }
        let (calls, kept, jobs) =
            (node.chain.calls(), node.chain.retained_answers(), node.chain.jobs_running());
        (calls + kept + jobs > 0).then(|| {
            format!("node {id} has {calls} calls, {kept} answers that are kept and {jobs} functions that run")
        })
    }
}

fn lost(peer: Id, kind: CauseKind, why: &str, unreached: bool) -> chain::Input {
    chain::Input::LinkLost { peer, kind, why: why.into(), unreached }
}

/// The report of each id in a call that has succeeded, or the reason why the call has no reports.
fn replies(
    ids: &[Id],
    reply: Option<&SubtreeReply>,
    report: Option<&Coverage>,
) -> Vec<(Id, Result<Report, Fault>)> {
    let done: Vec<Id> = match report {
        Some(report) => {
            let statuses = ids.iter().zip(report.coverage.statuses());
            statuses.filter(|(_, status)| *status == Status::Done).map(|(id, _)| *id).collect()
        }
        None => ids.to_vec(),
    };
    let data = reply.map(|reply| reply.data.to_bytes()).unwrap_or_default();
    let level = reply.map_or(0, |reply| reply.level);
    let leaves: Vec<&[u8]> =
        Leaves::new(level, &data, LevelLimits::default()).filter_map(Result::ok).collect();
    let parts: BTreeMap<Id, &[u8]> = done.into_iter().zip(leaves).collect();
    let each = |id: Id| report_of(id, parts.get(&id).copied(), report.and_then(|report| report.cause_of(id)));
    ids.iter().map(|&id| (id, each(id))).collect()
}
