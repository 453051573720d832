//! Who has failed: what is said of it, and the exit status of the job.

use std::collections::{BTreeMap, BTreeSet};

use chained_gpc::wire::Shown;
use gpc_bnr::names::{GroupId, Member, Rank};
use gpc_bnr::{Death, Exit};

use super::{ranks, signals};
use crate::say;

/// How many kinds of failure are told of; the first cause is the first of them.
const TOLD_MAX: usize = 8;

/// The signals by which a group is ended after one of its processes has failed.
const ENDED_BY: [Exit; 2] = [Exit::Signal(15), Exit::Signal(9)];

/// What has failed, in the order in which it became known.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(super) struct Failures {
    /// The status of the first.
    status: Option<u8>,
    told: Vec<Told>,
    /// Kinds beyond those that are told of.
    more: usize,
    /// Processes that were ended since another one of their group had failed.
    ended: BTreeMap<GroupId, u32>,
    /// Whether ends still count: not those of processes that this command has killed itself.
    closed: bool,
    /// Whether one death in a group is the end of it.
    kills: bool,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum Told {
    /// Processes of a group have ended in the same way.
    Ended { group: GroupId, exit: Exit, finalized: bool, ranks: BTreeSet<Rank> },
    /// One has asked for the end of its job.
    Aborted { member: Member, code: u8, message: String },
}

impl Failures {
    /// Nothing has failed. `kills`: one death takes its group along, so that what follows is its consequence.
    pub(super) fn new(kills: bool) -> Failures {
        Failures { kills, ..Failures::default() }
    }

    /// The exit status of the job, if it is that of a process that has failed.
    pub(super) fn status(&self) -> Option<u8> {
        self.status
    }

    /// From now on processes end because this command kills them.
    pub(super) fn close(&mut self) {
        self.closed = true;
    }

    /// Whether a process of a group has failed.
    pub(super) fn has(&self, group: GroupId) -> bool {
        self.told.iter().any(|told| match told {
            Told::Ended { group: of, .. } => *of == group,
            Told::Aborted { member, .. } => member.group == group,
        })
    }

    /// A process has asked for the end of its job.
    pub(super) fn aborted(&mut self, member: Member, code: u8, message: String) {
        self.status.get_or_insert(code);
        self.tell(Told::Aborted { member, code, message });
    }

    /// A process has ended.
    pub(super) fn ended(&mut self, death: &Death) {
        let Death { member, exit, finalized } = *death;
        if death.is_clean() || self.closed {
            return;
        }
        if self.kills && ENDED_BY.contains(&exit) && self.has(member.group) {
            *self.ended.entry(member.group).or_default() += 1;
            return;
        }
        // Who leaves others waiting has not succeeded, whatever its status says.
        self.status.get_or_insert(exit.status().max(1));
        for told in &mut self.told {
            if let Told::Ended { group, exit: how, finalized: said, ranks } = told
                && (*group, *how, *said) == (member.group, exit, finalized)
            {
                ranks.insert(member.rank);
                return;
            }
        }
        self.tell(Told::Ended { group: member.group, exit, finalized, ranks: [member.rank].into() });
    }

    fn tell(&mut self, told: Told) {
        match self.told.len() < TOLD_MAX {
            true => self.told.push(told),
            false => self.more += 1,
        }
    }

    /// Tells of them, on standard error.
    pub(super) fn say(&self) {
        self.lines().iter().for_each(|line| say(line));
    }

    fn lines(&self) -> Vec<String> {
        let mut lines: Vec<String> = self.told.iter().map(Told::line).collect();
        if self.more > 0 {
            lines.push(format!("{} more have failed in other ways", self.more));
        }
        let ended = self.ended.iter().take(TOLD_MAX).map(|(group, count)| match count {
            1 => format!("one more process of {group} was killed since then"),
            count => format!("{count} more processes of {group} were killed since then"),
        });
        lines.extend(ended);
        lines
    }
}

impl Told {
    fn line(&self) -> String {
        match self {
            Told::Aborted { member, code, message } if message.is_empty() => {
                format!("{member} has ended the job with status {code}")
            }
            Told::Aborted { member, code, message } => {
                format!("{member} has ended the job with status {code}: {}", Shown(message.trim_end()))
            }
            Told::Ended { group, exit, finalized, ranks } => {
                let how = match exit {
                    Exit::Signal(signal) => {
                        format!("killed by signal {}", signals::name(i32::from(*signal)))
                    }
                    Exit::Code(0) if !finalized => {
                        "ended with status 0, but without finalizing: others may have waited for that".into()
                    }
                    Exit::Code(code) => format!("ended with status {code}"),
                    Exit::Node(id) => format!("lost with node {id}"),
                    Exit::Never => "never started".into(),
                };
                format!("{group}.{}: {how}", ranks::shown(ranks.iter().copied()))
            }
        }
    }
}

#[cfg(test)]
mod tests {
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
        assert_eq!((lines.len(), lines[TOLD_MAX].as_str()), (9, "193 more have failed in other ways"));
    }

    #[test]
    fn an_end_without_goodbye_is_a_failure() {
        let mut failures = Failures::new(true);
        failures.ended(&Death { finalized: false, ..death(0, Exit::Code(0)) });
        assert_eq!(failures.status(), Some(1));
        assert!(failures.lines()[0].contains("without finalizing"));
    }

    #[test]
    fn an_abort_says_why_and_harms_no_terminal() {
        let mut failures = Failures::new(true);
        failures.aborted(member(1), 42, "\u{1b}[2Jno\n".into());
        failures.ended(&death(0, Exit::Signal(9)));
        assert_eq!(failures.status(), Some(42));
        let lines = [
            "g1.1 has ended the job with status 42: \\u{1b}[2Jno",
            "one more process of g1 was killed since then",
        ];
        assert_eq!(failures.lines(), lines);
    }

    #[test]
    fn what_is_killed_by_this_command_has_not_failed() {
        let mut failures = Failures::new(true);
        failures.close();
        failures.ended(&death(0, Exit::Signal(15)));
        assert_eq!((failures.status(), failures.lines()), (None, vec![]));
    }
}
