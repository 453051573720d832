//! Ends of processes: their effect on the group, the notices to subscribers, and the delivery to all nodes.

use std::collections::BTreeSet;

use chained_gpc::trees::Id;

use super::faults::DEATHS_MAX;
use super::known_deaths::GroupDeaths;
use super::outgoing::Continuation;
use super::{CallNumber, Domain, Output, Serial};
use crate::exit::{Death, Exit};
use crate::fault::Fault;
use crate::names::{GroupId, Member};
use crate::order::Order;
use crate::request::{Answer, Client};
use crate::roster::Span;
use crate::spec::{Layout, OnDeath};

impl Domain {
    /// Learns deaths: notifies subscribers, then applies the effects on groups and collective requests. The head passes
    /// on the new ones, however it has learned of them. Returns them.
    pub(super) fn learn(&mut self, deaths: &[Death]) -> Vec<Death> {
        let mut news = Vec::new();
        for death in deaths {
            let group = death.member.group;
            let number = self.deaths.undelivered.count;
            if !self.local.forgotten.contains(group)
                && self.deaths.known.entry(group).or_default().insert(number, *death)
            {
                self.deaths.undelivered.count += 1;
                news.push(*death);
            }
        }
        for death in &news {
            self.notice(death);
        }
        self.fetches_after_deaths(&news);
        self.awaits_after_deaths(&news);
        let groups: BTreeSet<GroupId> = news.iter().map(|death| death.member.group).collect();
        for group in &groups {
            let abnormal = news.iter().filter(|death| death.member.group == *group);
            if abnormal.clone().any(|death| self.takes_group_along(death)) {
                self.kill_here(*group, None);
            }
            self.lost_processes_end(*group);
            self.drop_database_if_over(*group);
            self.group_died(*group);
            self.derived_died(*group);
        }
        if !groups.is_empty() {
            self.meetings_after_deaths();
        }
        if self.head.is_some() {
            self.pass_on(&news);
        }
        news
    }

    fn notice(&mut self, death: &Death) {
        let Some(clients) = self.deaths.subscribers.get(&death.member.group) else { return };
        let takes = |spans: &Vec<Span>| spans.iter().any(|span| span.contains(death.member));
        for (client, _) in clients.iter().filter(|(_, spans)| takes(spans)) {
            self.outputs.push_back(Output::Notice { client: *client, death: *death });
        }
    }

    /// Whether a death kills the rest of a group that has processes here.
    pub(super) fn takes_group_along(&self, death: &Death) -> bool {
        let local_group = self.local.groups.get(&death.member.group);
        local_group.is_some_and(|local_group| local_group.layout.on_death == OnDeath::Kill)
            && !death.is_clean()
    }

    /// If a reported death means that this node is lost, the head has declared it lost: kills the group here.
    fn lost_processes_end(&mut self, group: GroupId) {
        let Some(deaths) = self.deaths.known.get(&group) else { return };
        let Some(local_group) = self.local.groups.get(&group) else { return };
        let lost = deaths.iter().any(|death| death.exit == Exit::Node(self.settings.me));
        if lost && !local_group.emptied {
            self.kill_here(group, None);
        }
    }

    /// Removes a group's own database after its last process has ended.
    pub(super) fn drop_database_if_over(&mut self, group: GroupId) {
        let Some(local_group) = self.local.groups.get(&group) else { return };
        let dead = self.deaths.known.get(&group).map_or(0, |deaths| deaths.len());
        if dead as u64 >= u64::from(local_group.layout.size()) {
            let database = local_group.layout.database.clone();
            self.destroyed_here(&database);
        }
    }

    /// Learns deaths seen by this node, and passes on the new ones.
    pub(super) fn spread(&mut self, deaths: &[Death]) {
        let news = self.learn(deaths);
        if self.head.is_none() {
            self.pass_on(&news);
        }
    }

    /// Passes on deaths: to the head, which delivers them to all other nodes. So a node needs no link to every other
    /// one, and deaths of many nodes take one call together.
    fn pass_on(&mut self, news: &[Death]) {
        self.deaths.undelivered.waiting.extend(news);
        self.deliver_deaths();
    }

    fn deliver_deaths(&mut self) {
        if self.deaths.undelivered.in_flight.is_some() || self.deaths.undelivered.waiting.is_empty() {
            return;
        }
        let waiting = std::mem::take(&mut self.deaths.undelivered.waiting);
        // A death may be the consequence of earlier ones, so those are sent first.
        let groups: BTreeSet<GroupId> = waiting.iter().map(|death| death.member.group).collect();
        let known = groups.iter().filter_map(|group| self.deaths.known.get(group));
        let mut deaths: Vec<Death> = known.flat_map(|known| known.iter().take(DEATHS_MAX).copied()).collect();
        deaths.extend(waiting);
        let receivers = if self.head.is_some() { self.others() } else { vec![self.head_id()] };
        self.deaths.undelivered.in_flight =
            self.deliver(receivers, Order::Died(deaths), Continuation::Nothing);
    }

    /// A call has ended. If it delivered deaths, the next ones are sent.
    pub(super) fn deaths_delivered(&mut self, call: CallNumber) {
        if self.deaths.undelivered.in_flight == Some(call) {
            self.deaths.undelivered.in_flight = None;
            self.deliver_deaths();
        }
    }

    /// The deaths, not yet known here, of a group's processes on nodes that are gone.
    pub(super) fn deaths_with_nodes(&self, layout: &Layout, gone: impl Fn(Id) -> bool) -> Vec<Death> {
        let blocks = layout.blocks.iter().filter(|block| gone(block.node));
        let deaths = blocks.flat_map(|block| {
            let (node, group) = (block.node, layout.group);
            (block.first..block.first + block.count).map(move |rank| Death {
                member: Member { group, rank },
                exit: Exit::Node(node),
                finalized: false,
            })
        });
        let known = self.deaths.known.get(&layout.group);
        deaths.filter(|death| known.is_none_or(|known| !known.has(death.member.rank))).collect()
    }

    /// The head has returned the processes whose deaths a subscriber receives. Passes them on, then sends the deaths so
    /// far.
    pub(super) fn subscribe(&mut self, client: Client, serial: Serial, result: Result<Answer, Fault>) {
        let groups = match result {
            Ok(Answer::Rosters(groups)) => groups,
            Ok(_) => Vec::new(),
            Err(fault) => return self.answer(client, serial, Err(fault)),
        };
        if !self.pending.contains(client, serial) {
            return;
        }
        self.answer(client, serial, Ok(Answer::Rosters(groups.clone())));
        groups.iter().flat_map(|roster| &roster.spans).for_each(|span| self.add_subscriber(*span, client));
    }

    /// A process of a group has spawned another one: tools that watch the first watch the second from its start on, so
    /// they learn of deaths in their order.
    pub(super) fn watch_spawned(&mut self, parent: GroupId, group: GroupId) {
        let watching = self.deaths.subscribers.get(&parent).into_iter().flat_map(|clients| clients.keys());
        let tools: Vec<Client> =
            watching.filter(|client| matches!(client, Client::Tool(_))).copied().collect();
        tools.into_iter().for_each(|tool| self.add_subscriber(Span::whole(group), tool));
    }

    /// Adds a subscription to the deaths in a span, and sends those so far that the client has not received.
    fn add_subscriber(&mut self, span: Span, client: Client) {
        let of_group = self.deaths.subscribers.entry(span.group).or_default();
        let spans = of_group.entry(client).or_default();
        let covers =
            |one: &Span, other: &Span| one.first <= other.first && one.ranks().end >= other.ranks().end;
        if spans.iter().any(|known| covers(known, &span)) {
            return;
        }
        let before = spans.clone();
        spans.retain(|known| !covers(&span, known));
        spans.push(span);
        let deaths = self.deaths.known.get(&span.group).into_iter().flat_map(GroupDeaths::iter);
        let is_new =
            |member: Member| span.contains(member) && !before.iter().any(|known| known.contains(member));
        for death in deaths.filter(|death| is_new(death.member)) {
            self.outputs.push_back(Output::Notice { client, death: *death });
        }
    }

    /// Removes all state of a group.
    pub(super) fn forget(&mut self, group: GroupId) {
        self.local.forgotten.insert(group);
        self.outputs.push_back(Output::Forgotten(group));
        self.deaths.known.remove(&group);
        self.deaths.subscribers.remove(&group);
        self.forget_roster(group);
        self.collective.epochs.forget(group);
        let forgotten = &self.local.forgotten;
        let processes = self.local.groups.values_mut().flat_map(|here| here.processes.values_mut());
        processes.for_each(|process| process.log.forget(group, |group| forgotten.contains(group)));
        let database = self.database_of(group);
        self.destroyed_here(&database);
        if let Some(local_group) = self.local.groups.get(&group) {
            if local_group.emptied {
                self.local.groups.remove(&group);
            } else {
                // What its processes have left behind is killed first.
                self.kill_here(group, None);
            }
        }
    }
}
