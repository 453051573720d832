//! What a node of a domain holds while nothing is under way, counted by itself. For the simulator, and for tests.

use super::Domain;
use super::local::LocalGroup;
use super::outgoing::CallPurpose;
use super::pending::PendingOrder;
use super::timers::Timer;
use crate::request::Client;

impl Domain {
    /// Counts by name. All are zero once every request is answered and all processes have ended.
    ///
    /// The watch between the head and the other nodes does not count, nor the late check of a process whose link has
    /// closed, nor what is retained on purpose: groups that were not freed, deaths, databases that were created, and
    /// outcomes of collective requests.
    pub fn held(&self) -> Vec<(&'static str, usize)> {
        let (local, collective) = (&self.local, &self.collective);
        let orders = self.pending.orders.values().filter(|order| **order != PendingOrder::Watch);
        let lasts = |timer: &&Timer| matches!(timer, Timer::Watch | Timer::Unwatched | Timer::Unlinked(_));
        let timers = self.timers.all().filter(|timer| !lasts(timer));
        let watches = |purpose: &&CallPurpose| matches!(purpose, CallPurpose::Watch | CallPurpose::Probe);
        let groups = || local.groups.values();
        let processes = || groups().flat_map(|group| group.processes.values());
        let forgotten =
            self.deaths.known.keys().chain(self.deaths.subscribers.keys()).chain(local.groups.keys());
        let forgotten = forgotten.chain(self.rosters.keys());
        let mut held = vec![
            ("requests of clients", self.pending.requests.values().map(|serials| serials.len()).sum()),
            ("orders to this node", orders.count()),
            ("puts that wait for the head", self.pending.puts.len()),
            ("questions to the PMIx server", self.pending.fetches.pending.len()),
            ("waits for global names", self.head.as_ref().map_or(0, |head| head.awaited.len())),
            ("calls of the domain", self.outgoing.purposes().filter(|purpose| !watches(purpose)).count()),
            ("timers", timers.count()),
            ("bounded timers", self.timers.bounded()),
            ("checks", local.checks.len()),
            ("groups being started", groups().filter(|group| group.starting.is_some()).count()),
            ("groups that are not empty", groups().filter(|group| !group.emptied).count()),
            ("waits for groups to be empty", groups().map(|group| group.waiting.len()).sum()),
            ("processes that have not ended", processes().filter(|process| !process.ended).count()),
            ("logs of processes", processes().filter(|process| !process.log.is_empty()).count()),
            (
                "groups that were forgotten",
                forgotten.filter(|group| local.forgotten.contains(**group)).count(),
            ),
            ("subscriptions of ended processes", self.ended_subscribers()),
            ("databases of groups without a process", self.lifeless_databases()),
            ("deaths that were not delivered", self.deaths.undelivered.waiting.len()),
            ("deliveries of deaths", usize::from(self.deaths.undelivered.in_flight.is_some())),
            ("collective requests", collective.meetings.len()),
            ("early releases", collective.early.len()),
            ("collections", collective.collections.len()),
        ];
        held.extend(self.held_by_head());
        held
    }

    fn ended_subscribers(&self) -> usize {
        let subscribers = self.deaths.subscribers.values().flat_map(|clients| clients.keys());
        let ended = |client: &&Client| match client {
            Client::Process(member) => !self.is_alive_here(*member),
            Client::Tool(_) => false,
        };
        subscribers.filter(ended).count()
    }

    /// The own databases of groups here whose processes have all ended, wherever they were.
    fn lifeless_databases(&self) -> usize {
        let is_lifeless = |group: &&LocalGroup| {
            let dead = self.deaths.known.get(&group.layout.group).map_or(0, |deaths| deaths.len());
            dead as u64 >= u64::from(group.layout.size())
                && self.databases.get(&group.layout.database).is_some()
        };
        self.local.groups.values().filter(is_lifeless).count()
    }

    fn held_by_head(&self) -> Vec<(&'static str, usize)> {
        let Some(head) = &self.head else { return Vec::new() };
        let groups = || head.groups.values();
        let prefix = self.own_prefix();
        let ended = |name: &&str| {
            let number = name.strip_prefix(&prefix).and_then(|number| number.parse().ok());
            number.is_some()
                && !head.groups.iter().any(|(group, known)| !known.over && Some(group.0) == number)
        };
        // Derived groups need some of them.
        let freed = head.groups.iter().filter(|(_, group)| group.freed && group.over);
        vec![
            ("groups that wait for the nodes", head.queued.len()),
            ("receivers of starts", groups().filter(|group| group.start.starter.is_some()).count()),
            ("parts of starts", groups().map(|group| group.start.parts).sum()),
            ("parts of kills", groups().map(|group| group.kill.parts).sum()),
            ("receivers of kills", groups().map(|group| group.kill.killers.len()).sum()),
            (
                "requests that wait for sizes",
                groups().filter(|group| group.layout.is_some()).map(|group| group.waiting.len()).sum(),
            ),
            ("waits for several groups", head.joined.len()),
            ("receivers of removals", head.databases.values().map(Vec::len).sum()),
            (
                "freed groups that have ended",
                freed.filter(|(group, _)| !head.listed.contains_key(group)).count(),
            ),
            ("databases of ended groups", self.databases.names().filter(ended).count()),
        ]
    }
}
