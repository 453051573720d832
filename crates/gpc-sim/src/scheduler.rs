//! Gives the cores of a host to its processes: the steps of worlds with shared cores.

use gpc_trees::Id;

use super::cores::{HostCores, Task};
use super::event::Event;
use super::world::World;

impl World {
    /// Queues an event that needs a core; returns an event that happens at once.
    pub(super) fn share_cores(&mut self, event: Event) -> Option<Event> {
        if self.cores.is_none() {
            return Some(event);
        }
        match event {
            Event::Arrive(parcel) => self.give(parcel.to, Event::Arrive(parcel)),
            Event::Ran { id, .. } | Event::Answered { id, .. } => self.give(id, event),
            Event::Start(index) => match self.calls.all[index].plan.ids.first() {
                Some(root) => {
                    // From here on the application waits, also for its own process to wake up.
                    self.calls.all[index].started = self.now;
                    self.give(root, event);
                }
                None => return Some(event),
            },
            Event::Handle(parcel) => {
                let id = parcel.to;
                let parcel = *parcel;
                self.handle(parcel);
                self.go_on(id);
            }
            Event::Turn(id) => self.turn(id),
            Event::Worked { id, then } => {
                self.release(id);
                return self.share_cores(*then);
            }
            other => return Some(other),
        }
        None
    }

    /// Runs a function for `ns` nanoseconds.
    pub(super) fn work(&mut self, id: Id, ns: u64, then: Event) {
        match &mut self.cores {
            Some(cores) if ns > 0 => {
                let host = self.hosts.host_of(id) as usize;
                cores.hosts[host].ready.push_back(Task::Job { ns, then });
                self.dispatch(host);
            }
            _ => self.queue.push(self.now + ns, then),
        }
    }

    fn host_of(&self, id: Id) -> usize {
        self.hosts.host_of(id) as usize
    }

    /// Gives an event to a process, which becomes ready if it was asleep.
    fn give(&mut self, id: Id, event: Event) {
        let host = self.host_of(id);
        let Some(cores) = &mut self.cores else { return };
        let process = &mut cores.processes[id as usize];
        process.given.push_back(event);
        if !process.awake {
            process.awake = true;
            cores.hosts[host].ready.push_back(Task::Process(id));
            self.dispatch(host);
        }
    }

    /// Gives free cores to ready tasks.
    fn dispatch(&mut self, host: usize) {
        while let Some(cores) = &mut self.cores {
            let HostCores { free, ready, wakes } = &mut cores.hosts[host];
            let Some(task) = (*free > 0).then(|| ready.pop_front()).flatten() else { return };
            *free -= 1;
            *wakes += 1;
            match task {
                Task::Process(id) => {
                    let others = *wakes - cores.processes[id as usize].slept_at;
                    let wake_ns = cores.sharing.waking_ns(others);
                    self.hosts.occupy(id, self.now, wake_ns);
                    self.go_on(id);
                }
                Task::Job { ns, then } => {
                    let id = then.at().unwrap_or_default();
                    let at = self.now + cores.sharing.wake_ns + ns;
                    self.queue.push(at, Event::Worked { id, then: Box::new(then) });
                }
            }
        }
    }

    /// Schedules the next step of a process that has a core, after its current work.
    fn go_on(&mut self, id: Id) {
        let at = self.hosts.busy_until(id).max(self.now);
        self.queue.push(at, Event::Turn(id));
    }

    /// Handles the next event of a process that has a core, or lets it sleep.
    fn turn(&mut self, id: Id) {
        if self.hosts.busy_until(id) > self.now {
            return self.go_on(id);
        }
        let Some(cores) = &mut self.cores else { return };
        let process = &mut cores.processes[id as usize];
        match process.given.pop_front() {
            None => {
                process.awake = false;
                process.slept_at = cores.hosts[self.hosts.host_of(id) as usize].wakes;
                self.release(id);
            }
            // `Event::Handle` continues the process.
            Some(Event::Arrive(parcel)) => self.arrive(parcel),
            Some(event) => {
                self.handle_now(event);
                self.go_on(id);
            }
        }
    }

    fn release(&mut self, id: Id) {
        let host = self.host_of(id);
        if let Some(cores) = &mut self.cores {
            cores.hosts[host].free += 1;
            self.dispatch(host);
        }
    }
}

#[cfg(test)]
mod tests {
    use gpc_trees::Tree;
    use proptest::prelude::*;

    use crate::cost::{Costs, LinkCost, Sharing};
    use crate::{Scenario, run};

    fn took(scenario: &Scenario) -> u64 {
        let report = run(scenario);
        assert_eq!(report.violations, [], "{}", scenario.replay());
        report.calls.last().and_then(|call| call.took_ns).unwrap()
    }

    fn sharing(cores: u32, wake_ns: u64, cold_ns: u64) -> Option<Sharing> {
        Some(Sharing { cores: cores.try_into().unwrap(), wake_ns, cold_ns })
    }

    fn scenario(n: u32, tree: Tree, latency_ns: u64, overhead_ns: u64) -> Scenario {
        let cost = LinkCost { latency_ns, overhead_ns, gap_ns: 0, byte_ps: 0 };
        let costs = Costs { host: cost, rack: cost, elsewhere: cost };
        Scenario { costs, reply_bytes: Some(0), ..Scenario::new(n, tree) }
    }

    #[test]
    fn three_processes_on_one_core_take_turns() {
        let alone = scenario(3, Tree::Flat, 100, 10);
        // The root sends twice. The second request arrives at 120 and is handled at 130; its answer arrives at 250.
        assert_eq!(took(&alone), 20 + 100 + 10 + 10 + 100 + 10);
        let two = Scenario { sharing: sharing(2, 5, 0), ..alone.clone() };
        // The same with three wake-ups: the root at the start, the child, and the root for the first answer. For the
        // second answer the root is awake.
        assert_eq!(took(&two), 5 + 20 + 100 + 5 + 10 + 10 + 100 + 10 + 5);
        let one = Scenario { sharing: sharing(1, 5, 0), ..alone };
        // The children run one after the other, from 115 to 140 and to 165. The second answer arrives at 265, when the
        // root sleeps again.
        assert_eq!(took(&one), 165 + 100 + 5 + 10);
    }

    #[test]
    fn cold_processes_wake_up_more_slowly() {
        let hot = scenario(2, Tree::Flat, 100, 10);
        let cold = |cold_ns| took(&Scenario { sharing: sharing(1, 0, cold_ns), ..hot.clone() });
        // The root wakes up at the start and for the answer, the child once, each after 1 to 3 wake-ups of 32.
        assert_eq!(cold(0), took(&hot));
        let extra = cold(320) - cold(0);
        assert!((30..=90).contains(&extra), "{extra}");
        let sharing = Sharing { cores: 1.try_into().unwrap(), wake_ns: 7, cold_ns: u64::MAX };
        assert_eq!((sharing.waking_ns(0), sharing.waking_ns(1 << 40)), (7, u64::MAX));
    }

    #[test]
    fn functions_share_the_cores() {
        let call = Scenario { func_ns: 1000, ..scenario(9, Tree::Flat, 100, 10) };
        let with = |cores| took(&Scenario { sharing: sharing(cores, 0, 0), ..call.clone() });
        assert!(with(1) >= 9 * 1000, "nine functions, one core");
        assert!(with(3) >= 3 * 1000 && with(3) < with(1));
        assert_eq!(with(64), took(&call));
    }

    #[test]
    fn hosts_have_cores_of_their_own() {
        let call = Scenario { hosts: Some(4), ..scenario(16, Tree::Flat, 100, 50) };
        let spread = took(&Scenario { sharing: sharing(1, 0, 0), ..call.clone() });
        let together = took(&Scenario { sharing: sharing(1, 0, 0), hosts: None, ..call });
        assert!(spread < together, "{spread} {together}");
    }

    fn trees() -> impl Strategy<Value = Tree> {
        let k = |k: u32| Tree::Kary(k.try_into().unwrap());
        prop_oneof![
            Just(Tree::Binary),
            Just(Tree::Binomial),
            Just(Tree::Flat),
            Just(Tree::Chain),
            (1..9u32).prop_map(k)
        ]
    }

    proptest! {
        /// With a core for each process and free wake-ups, the result is plain LogGP. With fewer cores a call ends no
        /// earlier, and never before its work could be done.
        #[test]
        fn cores_only_ever_delay(
            (n, tree) in (1..40u32, trees()), (latency, overhead, gap) in (0..5000u64, 1..3000u64, 0..4000u64),
            (func_ns, cores) in (0..2000u64, 1..5u32), (calls, wake) in (1..4u32, 0..2000u64),
        ) {
            let mut alone = Scenario { func_ns, calls, ..scenario(n, tree, latency, overhead) };
            alone.costs.elsewhere.gap_ns = gap;
            let plain = took(&alone);
            prop_assert_eq!(took(&Scenario { sharing: sharing(2 * n, 0, 0), ..alone.clone() }), plain);
            let few = took(&Scenario { sharing: sharing(cores, 0, 0), ..alone.clone() });
            let work = 4 * u64::from(n - 1) * overhead + u64::from(n) * func_ns;
            prop_assert!(few >= plain.max(work / u64::from(cores)), "{} {} {}", few, plain, work);
            let woken = took(&Scenario { sharing: sharing(2 * n, wake, 0), ..alone });
            // A wake-up may be hidden while a link is still busy with the previous message. Two calls with a gap of 597
            // and a wake-up of 1 took as long as without the wake-up. The root of a second call may also be awake since
            // the first. Without latency it is busy from its first message to its last, which hides the wake-ups of
            // other ids.
            let hidden = if gap > overhead || calls > 1 { wake } else { 0 };
            prop_assert!(woken + hidden >= plain + wake, "{} {}", woken, plain);
        }
    }
}
