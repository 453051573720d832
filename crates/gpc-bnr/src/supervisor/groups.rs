//! The processes of each group: their start, end and kill.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::Duration;

use chained_gpc::{Clock, TimeLimit};
use rustix::process::{Pid, Signal};

use super::cgroup::Cgroup;
use super::killing::{KillAction, Killing, PAUSE, PAUSE_MAX, STUBBORN};
use super::orders::{Recipients, SupervisorEvent};
use super::system::{EndedChild, Machine, System};
use super::tree::Variable;
use super::{EMPTY_LIMIT, GROUP, env_value};
use crate::exit::Exit;
use crate::names::{GroupId, Member, Rank};

/// Time for moving processes into a control group in one step; other groups wait meanwhile. Each search freezes all
/// processes found. If a program starts others faster than that, a later step freezes the next ones.
const FILL_LIMIT: Duration = Duration::from_millis(500);

/// Delay before a child of unknown group is examined again. Loading a program takes less.
const UNKNOWN_PAUSE: Duration = Duration::from_millis(5);

/// The end by SIGKILL.
const KILLED: Exit = Exit::Signal(9);

/// Most time that such a child delays the end of an otherwise empty group.
const UNKNOWN_LIMIT: Duration = Duration::from_secs(1);

/// All processes that were started here and have not ended.
pub(super) struct Groups<S = Machine> {
    system: S,
    /// Number of processes killed by the kernel for lack of memory that have been accounted to exits.
    memory_kills: u64,
    groups: BTreeMap<GroupId, Group>,
    running: HashMap<Pid, Member>,
    /// Other descendants, seen below the processes of a group.
    descendants: HashMap<Pid, GroupId>,
    /// Whether this process has no children.
    childless: bool,
    /// A control group that is still populated, from the kill of some group.
    cgroup: Option<Cgroup>,
}

/// The group that a child of this process belongs to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Owner {
    Group(GroupId),
    /// Unknown for good: the child ends with this process at the latest.
    Nobody,
    /// Unknown at the moment: its program is being loaded, or it is a zombie. No killed group counts as empty until it
    /// is known.
    Unknown,
}

#[derive(Default)]
struct Group {
    /// The value of [`GROUP`] in the environment of its processes.
    tag: Option<Vec<u8>>,
    running: BTreeMap<Rank, Pid>,
    /// Processes that are in a process group of others, which gets no signal here.
    joined: HashSet<Pid>,
    /// Process groups of its processes, including ended ones.
    process_groups: HashSet<Pid>,
    killing: Option<Killing>,
    /// Start of the time in which only a child of unknown group may be left, and the time of its next examination.
    unknown: Option<(Duration, Duration)>,
}

/// The rest of a group.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Remaining {
    Nothing,
    /// Perhaps a child whose group is unknown.
    Unknown,
    Some,
}

impl<S: System> Groups<S> {
    pub(super) fn new(system: S) -> Groups<S> {
        Groups {
            memory_kills: system.memory_kills().unwrap_or(0),
            system,
            groups: BTreeMap::new(),
            running: HashMap::new(),
            descendants: HashMap::new(),
            childless: false,
            cgroup: None,
        }
    }

    /// Adds a process that was started; `is_joined`: in a process group of others.
    pub(super) fn insert(&mut self, member: Member, pid: Pid, env: &[(Vec<u8>, Vec<u8>)], is_joined: bool) {
        self.childless = false;
        let group = self.groups.entry(member.group).or_default();
        if group.tag.is_none() {
            group.tag = env_value(env, GROUP).map(<[u8]>::to_vec);
        }
        group.running.insert(member.rank, pid);
        if is_joined { &mut group.joined } else { &mut group.process_groups }.insert(pid);
        self.running.insert(pid, member);
    }

    /// Takes the exit status of all ended children.
    pub(super) fn reap(&mut self, mut tell: impl FnMut(SupervisorEvent)) {
        // Terminates: each iteration takes an ended child, and children are finite.
        loop {
            match self.system.take_ended() {
                EndedChild::Ended(pid, exit) => {
                    self.descendants.remove(&pid);
                    let Some(member) = self.running.remove(&pid) else { continue };
                    if let Some(group) = self.groups.get_mut(&member.group) {
                        group.running.remove(&member.rank);
                        group.joined.remove(&pid);
                    }
                    tell(SupervisorEvent::Ended(member, self.exit(member.group, exit)));
                }
                EndedChild::NoChildren => {
                    self.childless = true;
                    return;
                }
                EndedChild::NoneYet => return,
            }
        }
    }

    /// How a process ended. If it died by SIGKILL without an order, and the control group counts one more kill for lack
    /// of memory, the kernel killed it.
    fn exit(&mut self, group: GroupId, exit: Exit) -> Exit {
        if exit == KILLED && !self.is_killed(group) && self.system.memory_kills() > Some(self.memory_kills) {
            self.memory_kills += 1;
            return Exit::OutOfMemory;
        }
        exit
    }

    /// Sends a signal to the process group of each running process. SIGTSTP becomes SIGSTOP: the system drops SIGTSTP
    /// in an orphaned process group, and a group with a session of its own is one.
    pub(super) fn signal(&mut self, group: GroupId, signal: u8, to: Recipients) {
        let signal = match Signal::from_named_raw(signal.into()) {
            Some(Signal::TSTP) => Signal::STOP,
            Some(signal) => signal,
            None => return,
        };
        let Some(group) = self.groups.get(&group) else { return };
        for pid in group.running.values() {
            match (group.joined.contains(pid), to) {
                (false, _) => self.system.signal_process_group(*pid, signal),
                (true, Recipients::All) => self.system.signal_child(*pid, signal),
                (true, Recipients::NotJoined) => {}
            }
        }
    }

    /// Begins to kill a group, or shortens the grace period.
    pub(super) fn kill(&mut self, group: GroupId, now: Duration, grace: Option<Duration>) {
        match &mut self.groups.entry(group).or_default().killing {
            Some(killing) => killing.order_again(now, grace),
            none => *none = Some(Killing::new(now, grace)),
        }
    }

    /// Whether a group is being killed.
    pub(super) fn is_killed(&self, group: GroupId) -> bool {
        self.groups.get(&group).is_some_and(|group| group.killing.is_some())
    }

    /// Time of the next step of a kill.
    pub(super) fn next(&self) -> Option<Duration> {
        let next = |group: &Group| {
            let next = group.killing.as_ref()?.next();
            Some(group.unknown.map_or(next, |(_, again)| again.min(next)))
        };
        self.groups.values().filter_map(next).min()
    }

    /// Takes the next steps of all kills.
    pub(super) fn step(&mut self, clock: &Clock, mut tell: impl FnMut(SupervisorEvent)) {
        let now = clock.now();
        let killed = self.groups.iter().filter(|(_, group)| group.killing.is_some());
        for id in killed.map(|(id, _)| *id).collect::<Vec<_>>() {
            let mut empty = self.check_empty(id, now);
            if !empty {
                let Some(Group { killing: Some(killing), .. }) = self.groups.get_mut(&id) else { continue };
                match killing.step(now) {
                    KillAction::Wait => {}
                    KillAction::Terminate => self.terminate(id),
                    KillAction::Kill => self.kill_now(id),
                    KillAction::Enclose => self.enclose(id, clock),
                    KillAction::GiveUp => empty = true,
                }
            }
            if empty {
                self.emptied(id, &mut tell);
            }
        }
    }

    /// Searches for the rest of a group. Returns whether nothing is left, or its state was unknown for too long.
    fn check_empty(&mut self, id: GroupId, now: Duration) -> bool {
        // While one of its processes runs, a search for others is unnecessary.
        let runs = self.groups.get(&id).is_some_and(|group| !group.running.is_empty());
        let remaining = match (runs, self.childless) {
            (true, _) => Remaining::Some,
            (false, true) => Remaining::Nothing,
            (false, false) => self.remaining_of(id),
        };
        let Some(group) = self.groups.get_mut(&id) else { return false };
        if remaining != Remaining::Unknown {
            group.unknown = None;
            return remaining == Remaining::Nothing;
        }
        let since = group.unknown.map_or(now, |(since, _)| since);
        group.unknown = Some((since, now.saturating_add(UNKNOWN_PAUSE)));
        now >= since.saturating_add(UNKNOWN_LIMIT)
    }

    fn emptied(&mut self, id: GroupId, tell: &mut impl FnMut(SupervisorEvent)) {
        let Some(group) = self.groups.remove(&id) else { return };
        for (rank, pid) in group.running {
            // It was given up: SIGKILL is pending, so it executes no more of its program.
            self.running.remove(&pid);
            tell(SupervisorEvent::Ended(Member { group: id, rank }, KILLED));
        }
        self.descendants.retain(|_, group| *group != id);
        // The control group may still hold processes of another group.
        self.cgroup = self.cgroup.take().and_then(|cgroup| cgroup.remove().err());
        tell(SupervisorEvent::Emptied(id));
    }

    /// The children of this process that belong to a group: its processes and adopted descendants.
    fn remaining(&self, id: GroupId) -> Vec<Pid> {
        let children = self.system.tree().children(self.system.me());
        children.into_iter().filter(|pid| self.owner(*pid) == Owner::Group(id)).collect()
    }

    /// The rest of a group whose processes have ended.
    fn remaining_of(&self, id: GroupId) -> Remaining {
        let mut remaining = Remaining::Nothing;
        for child in self.system.tree().children(self.system.me()) {
            match self.owner(child) {
                Owner::Group(owner) if owner == id => return Remaining::Some,
                Owner::Unknown => remaining = Remaining::Unknown,
                Owner::Group(_) | Owner::Nobody => {}
            }
        }
        remaining
    }

    /// The group of a child of this process.
    fn owner(&self, pid: Pid) -> Owner {
        if let Some(member) = self.running.get(&pid) {
            return Owner::Group(member.group);
        }
        if let Some(group) = self.descendants.get(&pid) {
            return Owner::Group(*group);
        }
        let Some(process_group) = self.system.process_group(pid) else { return Owner::Nobody };
        let of_process_group = |group: &Group| group.process_groups.contains(&process_group);
        if let Some((id, _)) = self.groups.iter().find(|(_, group)| of_process_group(group)) {
            return Owner::Group(*id);
        }
        let Variable::Value(tag) = self.system.tag(pid) else { return Owner::Unknown };
        if let Some((id, _)) = self.groups.iter().find(|(_, group)| tag.is_some() && group.tag == tag) {
            return Owner::Group(*id);
        }
        // Its group is unknown: it ends with the last group that is killed.
        let alone = self.groups.values().all(|group| group.killing.is_some());
        let last = if alone { self.groups.keys().next_back() } else { None };
        last.map_or(Owner::Nobody, |id| Owner::Group(*id))
    }

    /// Sends SIGTERM to the process groups of a group, and to the processes in a process group of others. Records the
    /// descendants first, since their parents may end.
    fn terminate(&mut self, id: GroupId) {
        let below = self.record_descendants(id);
        self.signal_process_groups(id, Signal::TERM);
        let joined = self.groups.get(&id).map(|group| group.joined.clone()).unwrap_or_default();
        for pid in joined {
            let shared = self.system.process_group(pid);
            self.system.signal_child(pid, Signal::TERM);
            for (pid, parent) in &below {
                if self.system.process_group(*pid) == shared {
                    self.system.signal_below(*parent, *pid, Signal::TERM);
                }
            }
        }
    }

    /// Sends SIGKILL to all processes of a group.
    fn kill_now(&mut self, id: GroupId) {
        let below = self.record_descendants(id);
        // Parents before children: a script whose program is killed would go on with the next line.
        self.signal_process_groups(id, Signal::KILL);
        for child in self.remaining(id) {
            self.system.signal_child(child, Signal::KILL);
        }
        for (pid, parent) in below {
            self.system.signal_below(parent, pid, Signal::KILL);
        }
    }

    /// Kills all processes of a group. Freezes and kills the remaining ones in a control group, whatever they start and
    /// whatever user they run as.
    fn enclose(&mut self, id: GroupId, clock: &Clock) {
        self.kill_now(id);
        let Some(cgroup) = self.cgroup.take().or_else(|| self.system.make_cgroup()) else { return };
        fill(&cgroup, &clock.limit(FILL_LIMIT), || {
            let me = self.system.me();
            let here = self.remaining(id).into_iter().map(|child| (child, me));
            let below = self.record_descendants(id);
            here.chain(below).collect()
        });
        self.cgroup = cgroup.remove().err();
    }

    /// Finds and records the descendants of a group's processes, each with its parent.
    fn record_descendants(&mut self, id: GroupId) -> Vec<(Pid, Pid)> {
        let tree = self.system.tree();
        let below: Vec<_> = self.remaining(id).into_iter().flat_map(|child| tree.below(child)).collect();
        self.descendants.extend(below.iter().map(|(pid, _)| (*pid, id)));
        below
    }

    fn signal_process_groups(&mut self, id: GroupId, signal: Signal) {
        let Some(group) = self.groups.get(&id) else { return };
        let running: HashSet<Pid> = group.running.values().copied().collect();
        for pid in &group.process_groups {
            // The id of the process group is not reused while its first process or another child of this process is in
            // it.
            if running.contains(pid) || self.system.has_child_in(*pid) {
                self.system.signal_process_group(*pid, signal);
            }
        }
    }

    /// Kills all processes and waits for their ends, up to [`EMPTY_LIMIT`].
    pub(super) fn end(&mut self, clock: &Clock) {
        let limit = clock.limit(EMPTY_LIMIT);
        let stubborn = clock.limit(STUBBORN);
        let mut pause = PAUSE;
        // Terminates with the last child or the time limit.
        loop {
            self.reap(drop);
            if self.childless || limit.is_over() {
                // A process that cannot be killed keeps the control group.
                let _ = self.cgroup.take().map(Cgroup::remove);
                return;
            }
            let below = self.system.tree().below(self.system.me());
            for pid in self.running.keys() {
                // The process id is not reused until its exit status is taken above.
                self.system.signal_process_group(*pid, Signal::KILL);
            }
            for (pid, parent) in below {
                self.system.signal_below(parent, pid, Signal::KILL);
            }
            if stubborn.is_over()
                && let Some(cgroup) = self.cgroup.take().or_else(|| self.system.make_cgroup())
            {
                let limit = clock.limit(limit.left().unwrap_or_default().min(FILL_LIMIT));
                fill(&cgroup, &limit, || self.system.tree().below(self.system.me()));
                self.cgroup = Some(cgroup);
            }
            self.system.pause(pause);
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }
}

/// Moves all processes that `find` returns, each with its parent, into a control group. Stops when no new ones are
/// found or the time is over, then kills them.
fn fill(cgroup: &Cgroup, limit: &TimeLimit, mut find: impl FnMut() -> Vec<(Pid, Pid)>) {
    let mut inside = HashSet::new();
    // Running processes may start others, frozen ones do not: mostly the second search finds none.
    let mut news = true;
    while std::mem::take(&mut news) && !limit.is_over() {
        for (pid, parent) in find() {
            if limit.is_over() {
                break;
            }
            news |= !inside.contains(&pid) && cgroup.take(parent, pid) && inside.insert(pid);
        }
    }
    cgroup.kill();
}

#[cfg(test)]
mod tests;
