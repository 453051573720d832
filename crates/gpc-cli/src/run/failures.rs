//! Failures of a job: their messages, and the exit status.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use chained_gpc::wire::Shown;
use gpc_bnr::names::{GroupId, Member, Rank};
use gpc_bnr::{Death, Exit, StartFailure};
use gpc_trees::Id;
use rustix::io::Errno;

use super::{ranks, signals};
use crate::say;

/// Maximum number of reported kinds of failure; the first cause is the first of them.
const REPORTED_MAX: usize = 8;

/// The group that `gpc run` starts; processes spawn all others.
pub(super) const FIRST: GroupId = GroupId(1);

/// The signals that end a group after one of its processes has failed.
const ENDED_BY: [Exit; 2] = [Exit::Signal(15), Exit::Signal(9)];

/// Failures in the order in which they became known.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(super) struct Failures {
    /// Status of the first failure.
    status: Option<u8>,
    reported: Vec<ReportedFailure>,
    /// Number of further kinds, which are not reported.
    more: usize,
    /// Number of processes that were ended because another one of their group failed.
    ended: BTreeMap<GroupId, u32>,
    /// Groups that a process killed, in that order.
    killed: Vec<KilledGroup>,
    /// Number of processes of each group that have ended.
    dead: BTreeMap<GroupId, usize>,
    /// Whether later ends are ignored, since this command kills the processes itself.
    closed: bool,
    /// Whether one death ends the group.
    kills: bool,
}

/// A group that a process killed: the ends of its processes from then on are not failures.
#[derive(Clone, PartialEq, Eq, Debug)]
struct KilledGroup {
    group: GroupId,
    by: Member,
    /// Number of its processes that had ended before.
    dead: usize,
    /// Number of its processes that have ended since.
    ended: usize,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum ReportedFailure {
    /// Processes of a group that ended in the same way.
    Ended { group: GroupId, exit: Exit, finalized: bool, ranks: BTreeSet<Rank> },
    /// A process that requested the end of its job.
    Aborted { member: Member, code: u8, message: String },
}

impl Failures {
    /// No failures. `kills`: one death ends its group, so that later deaths are its consequence.
    pub(super) fn new(kills: bool) -> Failures {
        Failures { kills, ..Failures::default() }
    }

    /// Returns the exit status of the job, if a process that failed determines it.
    pub(super) fn status(&self) -> Option<u8> {
        self.status
    }

    /// Ignores the ends of processes from now on, since this command kills them.
    pub(super) fn close(&mut self) {
        self.closed = true;
    }

    /// Whether a process of a group has failed.
    pub(super) fn has(&self, group: GroupId) -> bool {
        self.reported.iter().any(|reported| match reported {
            ReportedFailure::Ended { group: of, .. } => *of == group,
            ReportedFailure::Aborted { member, .. } => member.group == group,
        })
    }

    /// Returns the nodes with which processes were lost.
    pub(super) fn lost_nodes(&self) -> Vec<Id> {
        let lost = |reported: &ReportedFailure| match reported {
            ReportedFailure::Ended { exit: Exit::Node(id), .. } => Some(*id),
            ReportedFailure::Ended { .. } | ReportedFailure::Aborted { .. } => None,
        };
        self.reported.iter().filter_map(lost).collect()
    }

    /// Whether a process has requested the end of its job, so that its own end is not a consequence of another's.
    fn has_aborted(&self, of: Member) -> bool {
        self.reported
            .iter()
            .any(|reported| matches!(reported, ReportedFailure::Aborted { member, .. } if *member == of))
    }

    /// Records that a process requested the end of its job.
    pub(super) fn aborted(&mut self, member: Member, code: u8, message: String) {
        self.status.get_or_insert(code);
        self.report(ReportedFailure::Aborted { member, code, message });
    }

    /// Records that a process requested the end of a group, of which `dead` processes had ended before.
    pub(super) fn killed(&mut self, group: GroupId, by: Member, dead: usize) {
        if self.killed.iter().all(|killed| killed.group != group) {
            self.killed.push(KilledGroup { group, by, dead, ended: 0 });
        }
    }

    /// Records the end of a process.
    pub(super) fn ended(&mut self, death: &Death) {
        let Death { member, exit, finalized } = *death;
        let dead = self.dead.entry(member.group).or_default();
        *dead += 1;
        let killed = self.killed.iter_mut().find(|killed| killed.group == member.group);
        if let Some(killed) = killed.filter(|killed| *dead > killed.dead) {
            killed.ended += 1;
            return;
        }
        // If a process was never started, the process that spawned it already has the error.
        if death.is_clean() || self.closed || exit == Exit::Never {
            return;
        }
        if self.kills && self.has_aborted(member) {
            return;
        }
        if self.kills && ENDED_BY.contains(&exit) && self.has(member.group) {
            *self.ended.entry(member.group).or_default() += 1;
            return;
        }
        // A process that left others waiting has failed, whatever its status.
        self.status.get_or_insert(exit.status().max(1));
        for reported in &mut self.reported {
            if let ReportedFailure::Ended { group, exit: how, finalized: said, ranks } = reported
                && (*group, *how, *said) == (member.group, exit, finalized)
            {
                ranks.insert(member.rank);
                return;
            }
        }
        self.report(ReportedFailure::Ended {
            group: member.group,
            exit,
            finalized,
            ranks: [member.rank].into(),
        });
    }

    fn report(&mut self, reported: ReportedFailure) {
        match self.reported.len() < REPORTED_MAX {
            true => self.reported.push(reported),
            false => self.more += 1,
        }
    }

    /// Prints the failures to standard error.
    pub(super) fn say(&self) {
        self.lines().iter().for_each(|line| say(line));
    }

    fn lines(&self) -> Vec<String> {
        let mut lines: Vec<String> = self.reported.iter().map(ReportedFailure::line).collect();
        if self.more > 0 {
            lines.push(format!("{} more have failed in other ways", self.more));
        }
        let ended = self.ended.iter().take(REPORTED_MAX).map(|(group, count)| match count {
            1 => format!("one more process of {group} was killed since then"),
            count => format!("{count} more processes of {group} were killed since then"),
        });
        lines.extend(ended);
        let killed = self.killed.iter().take(REPORTED_MAX).map(|KilledGroup { group, by, ended, .. }| {
            let processes = if *ended == 1 { "process" } else { "processes" };
            format!("{by} has killed {group}: {ended} {processes} ended by that")
        });
        lines.extend(killed);
        if self.killed.len() > REPORTED_MAX {
            lines.push(format!("{} more groups were killed by processes", self.killed.len() - REPORTED_MAX));
        }
        lines
    }
}

impl ReportedFailure {
    fn line(&self) -> String {
        match self {
            ReportedFailure::Aborted { member, code, message } if message.is_empty() => {
                format!("{member} has ended the job with status {code}")
            }
            ReportedFailure::Aborted { member, code, message } => {
                format!("{member} has ended the job with status {code}: {}", Shown(message.trim_end()))
            }
            ReportedFailure::Ended { group, exit, finalized, ranks } => {
                let how = match exit {
                    Exit::Code(0) if !finalized => {
                        "ended with status 0, but without finalizing: others may have waited for that".into()
                    }
                    exit => how(*exit),
                };
                format!("{group}.{}: {how}", ranks::shown(ranks.iter().copied()))
            }
        }
    }
}

/// Describes how a process ended.
pub(super) fn how(exit: Exit) -> String {
    match exit {
        Exit::Signal(signal) => format!("killed by signal {}", signals::name(i32::from(signal))),
        Exit::Code(code) => format!("ended with status {code}"),
        Exit::OutOfMemory => {
            "killed by signal 9 (SIGKILL), by the kernel: its control group or its host is out of memory; start fewer processes there, or raise the limit".into()
        }
        Exit::Node(id) => format!("lost with node {id}"),
        Exit::Never => "never started".into(),
    }
}

/// Reports why the first group was not started, and returns the exit status. `errors` has for each rank 0, or the
/// number of the system's error.
pub(super) fn say_not_started(failures: &[StartFailure], errors: &[i32], nodes: usize) -> u8 {
    for failure in failures.iter().take(REPORTED_MAX) {
        say(&not_started(failure, nodes));
    }
    let named = |rank: Rank| failures.iter().any(|failure| failure.ranks.contains(&rank));
    // Ranks that were not started because of others are not reported.
    let own = |error: i32| error != 0 && error != Errno::CANCELED.raw_os_error();
    let unnamed = (0..).zip(errors).filter(|&(rank, &error)| own(error) && !named(rank));
    let unnamed: Vec<(Rank, i32)> = unnamed.map(|(rank, error)| (rank, *error)).collect();
    if let Some((_, error)) = unnamed.first() {
        let ranks = ranks::shown(unnamed.iter().map(|(rank, _)| *rank));
        say(&format!("rank {ranks} could not be started: {}", io::Error::from_raw_os_error(*error)));
    }
    failures.first().map_or(crate::FAILED, |failure| failure.error.status)
}

/// Describes processes that could not be started: program, ranks, node, and reason.
pub(super) fn not_started(failure: &StartFailure, nodes: usize) -> String {
    let StartFailure { group, node, ranks, program, error } = failure;
    let program = String::from_utf8_lossy(program);
    let ranks = ranks::shown(ranks.iter().copied());
    let ranks = if *group == FIRST { format!("rank {ranks}") } else { format!("{group}.{ranks}") };
    let host = if error.host.is_empty() { String::new() } else { format!(", host {}", Shown(&error.host)) };
    let node = if nodes > 1 { format!(", node {node}") } else { String::new() };
    format!("cannot start {} ({ranks}{host}{node}): {}", Shown(&program), Shown(&error.why))
}

#[cfg(test)]
mod tests {
    use gpc_bnr::StartError;

    use super::*;

    const fn member(rank: Rank) -> Member {
        Member { group: GroupId(1), rank }
    }

    fn death(rank: Rank, exit: Exit) -> Death {
        Death { member: member(rank), exit, finalized: true }
    }

    #[test]
    fn the_first_that_failed_gives_the_status_and_the_first_line() {
        let mut failures = Failures::new(true);
        failures.ended(&death(0, Exit::Code(0)));
        assert_eq!((failures.status(), failures.lines()), (None, vec![]));
        failures.ended(&death(2, Exit::Signal(11)));
        failures.ended(&death(1, Exit::Signal(15)));
        failures.ended(&death(3, Exit::Signal(9)));
        failures.ended(&death(4, Exit::Code(7)));
        let lines = [
            "g1.2: killed by signal 11 (SIGSEGV)",
            "g1.4: ended with status 7",
            "2 more processes of g1 were killed since then",
        ];
        assert_eq!((failures.status(), failures.lines()), (Some(139), lines.map(str::to_owned).to_vec()));
    }

    #[test]
    fn those_that_ended_in_the_same_way_share_a_line_and_lines_are_few() {
        let mut failures = Failures::new(false);
        (0..1000).for_each(|rank| failures.ended(&death(rank, Exit::Signal(9))));
        assert_eq!(failures.lines(), ["g1.0-999: killed by signal 9 (SIGKILL)"]);
        (1..=200).for_each(|code| failures.ended(&death(u32::from(code), Exit::Code(code))));
        let lines = failures.lines();
        assert_eq!((lines.len(), lines[REPORTED_MAX].as_str()), (9, "193 more have failed in other ways"));
    }

    /// A missing folder on one node was reported as "there is no such program", without the host and the folder. For a
    /// group that a process had spawned nothing was reported.
    #[test]
    fn a_failed_start_names_program_ranks_host_node_and_reason() {
        let error = StartError { host: "c2".into(), ..StartError::new(2, 126, "cannot enter the folder /x") };
        let mut failure = StartFailure {
            group: GroupId(1),
            node: 7,
            ranks: vec![1, 2, 5],
            program: b"no\x1bpe".to_vec(),
            error,
        };
        let why = "cannot enter the folder /x: No such file or directory";
        let line = format!("cannot start no\\u{{1b}}pe (rank 1-2,5, host c2, node 7): {why}");
        assert_eq!(not_started(&failure, 2), line);
        failure.group = GroupId(3);
        assert_eq!(
            not_started(&failure, 1),
            format!("cannot start no\\u{{1b}}pe (g3.1-2,5, host c2): {why}")
        );
        assert_eq!(say_not_started(&[failure], &[0, 2, 2, 0, 13, 2], 2), 126);
        assert_eq!(say_not_started(&[], &[0, 5], 2), 1);
    }

    #[test]
    fn an_end_without_goodbye_is_a_failure() {
        let mut failures = Failures::new(true);
        failures.ended(&Death { finalized: false, ..death(0, Exit::Code(0)) });
        assert_eq!(failures.status(), Some(1));
        assert!(failures.lines()[0].contains("without finalizing"));
    }

    /// After an abort in a group of 3, "3 more processes" were killed: the count included the process that had
    /// requested it.
    #[test]
    fn an_abort_says_why_and_harms_no_terminal() {
        let mut failures = Failures::new(true);
        failures.aborted(member(1), 42, "\u{1b}[2Jno\n".into());
        failures.ended(&death(0, Exit::Signal(9)));
        failures.ended(&death(1, Exit::Signal(15)));
        assert_eq!(failures.status(), Some(42));
        let lines = [
            "g1.1 has ended the job with status 42: \\u{1b}[2Jno",
            "one more process of g1 was killed since then",
        ];
        assert_eq!(failures.lines(), lines);
    }

    /// A rank that the kernel killed for lack of memory was "killed by signal 9", and no reason was given.
    #[test]
    fn a_kill_for_memory_is_reported_as_such() {
        let mut failures = Failures::new(true);
        failures.ended(&death(1, Exit::OutOfMemory));
        failures.ended(&death(2, Exit::OutOfMemory));
        let lines = failures.lines();
        assert_eq!((failures.status(), lines.len()), (Some(137), 1));
        assert!(lines[0].starts_with("g1.1-2: killed by signal 9 (SIGKILL), by the kernel"), "{lines:?}");
        assert!(lines[0].contains("out of memory"), "{lines:?}");
    }

    /// A program that received the error of a spawn, and continued, was a failed job at its end.
    #[test]
    fn what_was_never_started_has_not_failed() {
        let mut failures = Failures::new(true);
        failures.ended(&death(0, Exit::Never));
        assert_eq!((failures.status(), failures.lines()), (None, vec![]));
    }

    /// A program started a group, and ended it by `kill` when it was no longer needed: the run ended with status 143.
    #[test]
    fn what_a_process_has_killed_has_not_failed() {
        let mut failures = Failures::new(true);
        let child = |rank| Member { group: GroupId(2), rank };
        failures.killed(GroupId(2), member(0), 0);
        for (rank, exit) in [(0, Exit::Signal(15)), (1, Exit::Signal(9)), (2, Exit::Code(1))] {
            failures.ended(&Death { member: child(rank), ..death(0, exit) });
        }
        assert_eq!(failures.status(), None);
        assert_eq!(failures.lines(), ["g1.0 has killed g2: 3 processes ended by that"]);
        // The other processes still decide, and earlier failures remain failures.
        failures.ended(&death(1, Exit::Code(3)));
        failures.killed(GroupId(1), member(0), 1);
        failures.ended(&death(0, Exit::Signal(15)));
        assert_eq!(failures.status(), Some(3));
        assert_eq!(failures.lines()[0], "g1.1: ended with status 3");
        // Deaths before a kill may be reported after it.
        failures.killed(GroupId(3), member(0), 1);
        let early = Member { group: GroupId(3), rank: 1 };
        failures.ended(&Death { member: early, ..death(0, Exit::Code(4)) });
        assert_eq!(failures.lines()[1], "g3.1: ended with status 4");
    }

    #[test]
    fn what_is_killed_by_this_command_has_not_failed() {
        let mut failures = Failures::new(true);
        failures.close();
        failures.ended(&death(0, Exit::Signal(15)));
        assert_eq!((failures.status(), failures.lines()), (None, vec![]));
    }
}
