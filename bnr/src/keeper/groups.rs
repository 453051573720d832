//! The processes of each group, and how they end.
#![allow(clippy::disallowed_methods, reason = "the keeper's own end is bounded by the clock")]

use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::{Duration, Instant};

use chained_gpc::launch::memory_kills;
use rustix::event::{Timespec, poll};
use rustix::io::Errno;
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, WaitOptions, WaitStatus, getpgid, getpid, kill_process,
    kill_process_group, wait, waitid,
};

use super::cgroup::Cgroup;
use super::killing::{Do, Killing, PAUSE, PAUSE_MAX, STUBBORN};
use super::orders::KeeperEvent;
use super::tree::{Told, Tree, signal_below, variable};
use super::{EMPTY_LIMIT, GROUP, told};
use crate::exit::Exit;
use crate::names::{GroupId, Member, Rank};

/// How long at a time processes are put into a control group: other groups wait meanwhile. Each look freezes all that were there; who starts others faster than that is frozen with its next ones in a later turn.
const FILL_LIMIT: Duration = Duration::from_millis(500);

/// When a child is looked at again of which nothing can be said: a program is loaded in less.
const UNKNOWN_PAUSE: Duration = Duration::from_millis(5);

/// The end by SIGKILL.
const KILLED: Exit = Exit::Signal(9);

/// How long such a child may hold up a group that is empty but for it.
const UNKNOWN_LIMIT: Duration = Duration::from_secs(1);

/// All that was started here and has not ended.
#[derive(Default)]
pub(super) struct Groups {
    /// How many processes the kernel has killed for want of memory, as far as their ends were told so.
    memory_kills: u64,
    groups: BTreeMap<GroupId, Group>,
    running: HashMap<Pid, Member>,
    /// Other descendants that were seen below a group's processes.
    seen: HashMap<Pid, GroupId>,
    /// Whether this process has no children at all.
    childless: bool,
    /// What was needed for some group, and is not empty yet.
    cgroup: Option<Cgroup>,
}

/// Whose a child of this process is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Owner {
    Group(GroupId),
    /// Nothing says it: it ends with this process, if not before.
    Nobody,
    /// Nothing says it at this moment: its program is being loaded, or it has ended and is to be reaped. No group that is killed is empty before that is known.
    Unknown,
}

/// One group.
#[derive(Default)]
struct Group {
    /// What its processes have in [`GROUP`].
    tag: Option<Vec<u8>>,
    running: BTreeMap<Rank, Pid>,
    /// Process groups of its processes, those that have ended among them.
    process_groups: HashSet<Pid>,
    killing: Option<Killing>,
    /// Since when nothing of it is left but, perhaps, a child whose owner is unknown; and when that is looked at again.
    unknown: Option<(Duration, Duration)>,
}

/// What of a group is left.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Left {
    Nothing,
    /// A child whose owner is unknown.
    Unknown,
    Some,
}

impl Groups {
    pub(super) fn new() -> Groups {
        Groups { memory_kills: memory_kills().unwrap_or(0), ..Groups::default() }
    }

    /// A process was started.
    pub(super) fn insert(&mut self, member: Member, pid: Pid, env: &[(Vec<u8>, Vec<u8>)]) {
        self.childless = false;
        let group = self.groups.entry(member.group).or_default();
        if group.tag.is_none() {
            group.tag = told(env, GROUP).map(<[u8]>::to_vec);
        }
        group.running.insert(member.rank, pid);
        group.process_groups.insert(pid);
        self.running.insert(pid, member);
    }

    /// Takes the exit status of all that have ended.
    pub(super) fn reap(&mut self, mut tell: impl FnMut(KeeperEvent)) {
        // Ends: each turn takes a child that has ended, and there are finitely many.
        loop {
            match wait(WaitOptions::NOHANG) {
                Ok(Some((pid, status))) => {
                    self.seen.remove(&pid);
                    let Some(member) = self.running.remove(&pid) else { continue };
                    if let Some(group) = self.groups.get_mut(&member.group) {
                        group.running.remove(&member.rank);
                    }
                    tell(KeeperEvent::Ended(member, self.exit(member.group, status)));
                }
                Err(Errno::INTR) => {}
                Err(Errno::CHILD) => {
                    self.childless = true;
                    return;
                }
                Ok(None) | Err(_) => return,
            }
        }
    }

    /// How a process has ended. One that has SIGKILL without an order for it has it from the kernel, if this counts one more process of the control group that it has killed for want of memory.
    fn exit(&mut self, group: GroupId, status: WaitStatus) -> Exit {
        let exit = exit(status);
        if exit == KILLED && !self.is_killed(group) && memory_kills() > Some(self.memory_kills) {
            self.memory_kills += 1;
            return Exit::OutOfMemory;
        }
        exit
    }

    /// Sends a signal to the process group of each process that runs. SIGTSTP becomes SIGSTOP: the system drops SIGTSTP in an orphaned process group, and a group with a session of its own is one.
    pub(super) fn signal(&self, group: GroupId, signal: u8) {
        let signal = match Signal::from_named_raw(signal.into()) {
            Some(Signal::TSTP) => Signal::STOP,
            Some(signal) => signal,
            None => return,
        };
        for pid in self.groups.get(&group).into_iter().flat_map(|group| group.running.values()) {
            // It may have ended, or be another user's by now.
            let _ = kill_process_group(*pid, signal);
        }
    }

    /// A group is to be killed.
    pub(super) fn kill(&mut self, group: GroupId, now: Duration, grace: Option<Duration>) {
        match &mut self.groups.entry(group).or_default().killing {
            Some(killing) => killing.again(now, grace),
            none => *none = Some(Killing::new(now, grace)),
        }
    }

    /// Whether a group is being killed.
    pub(super) fn is_killed(&self, group: GroupId) -> bool {
        self.groups.get(&group).is_some_and(|group| group.killing.is_some())
    }

    /// When a kill gets on by the time alone.
    pub(super) fn next(&self) -> Option<Duration> {
        let next = |group: &Group| {
            let next = group.killing.as_ref()?.next();
            Some(group.unknown.map_or(next, |(_, again)| again.min(next)))
        };
        self.groups.values().filter_map(next).min()
    }

    /// Gets on with the groups that are being killed.
    pub(super) fn step(&mut self, now: Duration, mut tell: impl FnMut(KeeperEvent)) {
        let killed = self.groups.iter().filter(|(_, group)| group.killing.is_some());
        for id in killed.map(|(id, _)| *id).collect::<Vec<_>>() {
            let mut empty = self.is_empty(id, now);
            if !empty {
                let Some(Group { killing: Some(killing), .. }) = self.groups.get_mut(&id) else { continue };
                match killing.step(now) {
                    Do::Wait => {}
                    Do::Ask => self.ask(id),
                    Do::Kill => self.kill_now(id),
                    Do::Enclose => self.enclose(id),
                    Do::GiveUp => empty = true,
                }
            }
            if empty {
                self.emptied(id, &mut tell);
            }
        }
    }

    /// Whether nothing of a group is left.
    fn is_empty(&mut self, id: GroupId, now: Duration) -> bool {
        // While one of its processes runs it is not empty; so nobody looks for others then.
        let runs = self.groups.get(&id).is_some_and(|group| !group.running.is_empty());
        let left = match (runs, self.childless) {
            (true, _) => Left::Some,
            (false, true) => Left::Nothing,
            (false, false) => self.left_of(id),
        };
        let Some(group) = self.groups.get_mut(&id) else { return false };
        if left != Left::Unknown {
            group.unknown = None;
            return left == Left::Nothing;
        }
        let since = group.unknown.map_or(now, |(since, _)| since);
        group.unknown = Some((since, now.saturating_add(UNKNOWN_PAUSE)));
        now >= since.saturating_add(UNKNOWN_LIMIT)
    }

    fn emptied(&mut self, id: GroupId, tell: &mut impl FnMut(KeeperEvent)) {
        let Some(group) = self.groups.remove(&id) else { return };
        for (rank, pid) in group.running {
            // It was given up: it has SIGKILL, and does nothing of its own any more.
            self.running.remove(&pid);
            tell(KeeperEvent::Ended(Member { group: id, rank }, KILLED));
        }
        self.seen.retain(|_, group| *group != id);
        // Those of another group may still be in it.
        self.cgroup = self.cgroup.take().and_then(|cgroup| cgroup.remove().err());
        tell(KeeperEvent::Emptied(id));
    }

    /// The children of this process that belong to a group: its processes, and what it has left.
    fn left(&self, id: GroupId) -> Vec<Pid> {
        let children = Tree::look().children(getpid());
        children.into_iter().filter(|pid| self.owner(*pid) == Owner::Group(id)).collect()
    }

    /// What is left of a group whose processes have ended.
    fn left_of(&self, id: GroupId) -> Left {
        let mut left = Left::Nothing;
        for child in Tree::look().children(getpid()) {
            match self.owner(child) {
                Owner::Group(owner) if owner == id => return Left::Some,
                Owner::Unknown => left = Left::Unknown,
                Owner::Group(_) | Owner::Nobody => {}
            }
        }
        left
    }

    /// Whose a child of this process is.
    fn owner(&self, pid: Pid) -> Owner {
        if let Some(member) = self.running.get(&pid) {
            return Owner::Group(member.group);
        }
        if let Some(group) = self.seen.get(&pid) {
            return Owner::Group(*group);
        }
        let Ok(process_group) = getpgid(Some(pid)) else { return Owner::Nobody };
        let of_process_group = |group: &Group| group.process_groups.contains(&process_group);
        if let Some((id, _)) = self.groups.iter().find(|(_, group)| of_process_group(group)) {
            return Owner::Group(*id);
        }
        let Told::Value(tag) = variable(pid, GROUP) else { return Owner::Unknown };
        if let Some((id, _)) = self.groups.iter().find(|(_, group)| tag.is_some() && group.tag == tag) {
            return Owner::Group(*id);
        }
        // Nothing says whose it is: it goes with the last that is killed.
        let alone = self.groups.values().all(|group| group.killing.is_some());
        let last = if alone { self.groups.keys().next_back() } else { None };
        last.map_or(Owner::Nobody, |id| Owner::Group(*id))
    }

    /// SIGTERM for the process groups of a group. What is below them is noted: it may be nobody's soon.
    fn ask(&mut self, id: GroupId) {
        self.note(id);
        self.signal_process_groups(id, Signal::TERM);
    }

    /// SIGKILL for all that is there of a group.
    fn kill_now(&mut self, id: GroupId) {
        let below = self.note(id);
        // Parents before their children: a script whose program is killed goes on with the next line.
        self.signal_process_groups(id, Signal::KILL);
        for child in self.left(id) {
            // A child of this process has its number until its exit status is taken here. It may be another user's.
            let _ = kill_process(child, Signal::KILL);
        }
        below.into_iter().for_each(|(pid, parent)| signal_below(parent, pid, Signal::KILL));
    }

    /// Kills all that is there of a group, and frozen what has not gone: nobody gets away by starting others, or by being another user's.
    fn enclose(&mut self, id: GroupId) {
        self.kill_now(id);
        let Some(cgroup) = self.cgroup.take().or_else(Cgroup::make) else { return };
        fill(&cgroup, Instant::now() + FILL_LIMIT, || {
            let here = self.left(id).into_iter().map(|child| (child, getpid()));
            let below = self.note(id);
            here.chain(below).collect()
        });
        self.cgroup = cgroup.remove().err();
    }

    /// Looks for what is below the processes of a group, each with its parent.
    fn note(&mut self, id: GroupId) -> Vec<(Pid, Pid)> {
        let tree = Tree::look();
        let below: Vec<_> = self.left(id).into_iter().flat_map(|child| tree.below(child)).collect();
        self.seen.extend(below.iter().map(|(pid, _)| (*pid, id)));
        below
    }

    fn signal_process_groups(&self, id: GroupId, signal: Signal) {
        let Some(group) = self.groups.get(&id) else { return };
        let running: HashSet<Pid> = group.running.values().copied().collect();
        for pid in &group.process_groups {
            // Its number is nobody else's as long as its first process, or another child of this one, is in it.
            if running.contains(pid) || has_child_in(*pid) {
                // All of them may be another user's.
                let _ = kill_process_group(*pid, signal);
            }
        }
    }

    /// Kills everything, and waits until it has gone, but no longer than [`EMPTY_LIMIT`].
    pub(super) fn end(&mut self) {
        let until = Instant::now() + EMPTY_LIMIT;
        let stubborn = Instant::now() + STUBBORN;
        let mut pause = PAUSE;
        // Ends: with the last child, or the time.
        loop {
            self.reap(drop);
            if self.childless || Instant::now() >= until {
                // What cannot be killed keeps it.
                let _ = self.cgroup.take().map(Cgroup::remove);
                return;
            }
            let below = Tree::look().below(getpid());
            for pid in self.running.keys() {
                // Its number is its own until its exit status is taken above. It may be another user's.
                let _ = kill_process_group(*pid, Signal::KILL);
            }
            below.into_iter().for_each(|(pid, parent)| signal_below(parent, pid, Signal::KILL));
            if Instant::now() >= stubborn
                && let Some(cgroup) = self.cgroup.take().or_else(Cgroup::make)
            {
                let limit = until.min(Instant::now() + FILL_LIMIT);
                fill(&cgroup, limit, || Tree::look().below(getpid()));
                self.cgroup = Some(cgroup);
            }
            // The end of a child interrupts it.
            let _ = poll(&mut [], Some(&Timespec { tv_sec: 0, tv_nsec: pause.subsec_nanos().into() }));
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }
}

/// Puts all processes into a control group that are found, each with its parent, until there are no others or the time is over, and kills them.
fn fill(cgroup: &Cgroup, until: Instant, mut find: impl FnMut() -> Vec<(Pid, Pid)>) {
    let mut inside = HashSet::new();
    // Who runs meanwhile may start others, who is inside does not: mostly the second look finds nobody.
    let mut news = true;
    while std::mem::take(&mut news) && Instant::now() < until {
        for (pid, parent) in find() {
            if Instant::now() >= until {
                break;
            }
            news |= !inside.contains(&pid) && cgroup.take(parent, pid) && inside.insert(pid);
        }
    }
    cgroup.kill();
}

/// Whether a child of this process is in a process group, so that its number is no other's.
fn has_child_in(process_group: Pid) -> bool {
    let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    waitid(WaitId::Pgid(Some(process_group)), look).is_ok()
}

fn exit(status: WaitStatus) -> Exit {
    let small = |number: Option<i32>| number.and_then(|number| u8::try_from(number).ok());
    match (small(status.exit_status()), small(status.terminating_signal())) {
        (Some(code), _) => Exit::Code(code),
        (None, Some(signal)) => Exit::Signal(signal),
        // Nothing else ends a process.
        (None, None) => Exit::Code(1),
    }
}
