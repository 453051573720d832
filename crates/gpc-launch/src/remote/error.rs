//! The errors of a launch over hosts.

use std::collections::BTreeMap;
use std::fmt;
use std::io;

use gpc_trees::Id;

use super::share::{NAME_MAX, REMOTE_PROCESSES_MAX};
use chained_gpc::bootstrap::HostList;

/// Maximum number of causes that an error lists; of the rest it has the number.
const CAUSES_MAX: usize = 8;

/// Maximum length of the ids or hosts of one cause, characters.
const LIST_MAX: usize = 400;

/// What stands for the name of a host in a cause that several hosts share.
const HOST: &str = "HOST";

/// Ids whose processes do not run, with the host and the reason.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct LostProcesses {
    /// The first of consecutive ids.
    pub first: Id,
    /// Number of ids.
    pub count: u32,
    /// In words: the host, what happened, and its output. One line, escaped for a terminal.
    pub why: String,
}

impl LostProcesses {
    /// Whether an id is among them.
    pub(super) fn has(&self, id: Id) -> bool {
        id >= self.first && id - self.first < self.count
    }

    /// The name of the host, and what happened there. A name has no blank, so the first `: ` ends it.
    fn host_and_cause(&self) -> Option<(&str, &str)> {
        self.why.strip_prefix("host ")?.split_once(": ")
    }
}

/// Why processes on other hosts could not be started. No process is left running then.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RemoteError {
    /// The plan has no host.
    #[error("no host is named")]
    NoHost,
    /// A name that is not valid in a command.
    #[error(
        "`{0}` is no name of a host: it has 1 to {NAME_MAX} printing characters and does not begin with `-`"
    )]
    Name(String),
    /// The same host twice. The plan has the number of slots of each host instead.
    #[error("host {0} is named twice: name it once, with its number of slots")]
    Twice(String),
    /// A host without a slot.
    #[error("host {0} has no slot: leave it out, or give it at least one")]
    NoSlot(String),
    /// More than [`REMOTE_PROCESSES_MAX`] processes.
    #[error("{0} processes are too many: start at most {REMOTE_PROCESSES_MAX}")]
    TooMany(u64),
    /// Hosts that have not reported, or have sent invalid lines.
    #[error("{}", LossList(.0))]
    Hosts(Vec<LostProcesses>),
    /// A system call has failed: for a secret, a thread, or a wait.
    #[error("cannot {0}: {1}")]
    System(&'static str, #[source] io::Error),
    /// The observer of the start has given up.
    #[error("starting the processes was interrupted")]
    Stopped,
}

/// Displays the hosts that were not started, folded by cause.
struct LossList<'a>(&'a [LostProcesses]);

/// Losses of the same cause.
struct Cause<'a> {
    /// The cause, with [`HOST`] in place of the host's name.
    text: String,
    losses: Vec<&'a LostProcesses>,
}

/// Folds losses by cause, in the order of the first loss of each.
fn fold(losses: &[LostProcesses]) -> Vec<Cause<'_>> {
    let (mut causes, mut places) = (Vec::<Cause<'_>>::new(), BTreeMap::new());
    for lost in losses {
        let text = lost.host_and_cause().map_or_else(|| lost.why.clone(), |(host, why)| unnamed(why, host));
        let place = *places.entry(text.clone()).or_insert(causes.len());
        match causes.get_mut(place) {
            Some(cause) => cause.losses.push(lost),
            None => causes.push(Cause { text, losses: vec![lost] }),
        }
    }
    causes
}

/// Returns a text with `HOST` in place of a host's name, where that is a word of its own. So texts about several hosts
/// can be compared. Of `USER@HOST`, the part after the last `@` is a name as well: `ssh` names it alone.
pub fn unnamed(text: &str, host: &str) -> String {
    let whole = replaced(text, host);
    match host.rsplit_once('@') {
        Some((_, bare)) if !bare.is_empty() => replaced(&whole, bare),
        _ => whole,
    }
}

fn replaced(text: &str, host: &str) -> String {
    let is_part = |character: char| character.is_alphanumeric() || "._-".contains(character);
    let (mut replaced, mut from) = (String::new(), 0);
    for (at, found) in text.match_indices(host) {
        let (before, behind) = (&text[..at], &text[at + found.len()..]);
        if !before.ends_with(is_part) && !behind.starts_with(is_part) {
            replaced.push_str(&text[from..at]);
            replaced.push_str(HOST);
            from = at + found.len();
        }
    }
    replaced + &text[from..]
}

impl fmt::Display for LossList<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ids: u32 = self.0.iter().map(|lost| lost.count).sum();
        write!(f, "{ids} {} could not be started", if ids == 1 { "process" } else { "processes" })?;
        let causes = fold(self.0);
        for cause in causes.iter().take(CAUSES_MAX) {
            write!(f, "\n{cause}")?;
        }
        match causes.len().saturating_sub(CAUSES_MAX) {
            0 => Ok(()),
            1 => f.write_str("\nand one more cause"),
            more => write!(f, "\nand {more} more causes"),
        }
    }
}

/// Displays the ids, the hosts and the cause: `ids 3,7-8, hosts b[3,7]: ...`.
impl fmt::Display for Cause<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut hosts: Vec<&str> =
            self.losses.iter().filter_map(|lost| lost.host_and_cause()).map(|(host, _)| host).collect();
        hosts.dedup();
        match self.losses[..] {
            [lost] => write!(f, "{lost}"),
            [first, ..] if hosts.len() < 2 => write!(f, "{}, {}", self.ids(), first.why),
            _ => write!(f, "{}, hosts {}: {}", self.ids(), cut(folded(&hosts)), self.text),
        }
    }
}

impl Cause<'_> {
    /// The ids, such as `ids 3,7-8`. Consecutive ids share a range.
    fn ids(&self) -> String {
        let mut ranges: Vec<(Id, Id)> = Vec::new();
        for lost in &self.losses {
            let last = lost.first + (lost.count - 1);
            match ranges.last_mut() {
                Some((_, end)) if *end + 1 == lost.first => *end = last,
                _ => ranges.push((lost.first, last)),
            }
        }
        let range = |&(first, last): &(Id, Id)| match first == last {
            true => first.to_string(),
            false => format!("{first}-{last}"),
        };
        format!("ids {}", cut(ranges.iter().map(range).collect::<Vec<_>>().join(",")))
    }
}

/// Compresses names of hosts. Names that no list of hosts has are listed as they are.
fn folded(hosts: &[&str]) -> String {
    let names = hosts.iter().map(|&name| name.to_owned());
    HostList::new(names).map_or_else(|_| hosts.join(","), |hosts| hosts.to_string())
}

/// Cuts a long list.
fn cut(list: String) -> String {
    match list.char_indices().nth(LIST_MAX) {
        Some((end, _)) => format!("{}...", &list[..end]),
        None => list,
    }
}

/// Displays the ids and the reason: `id 3, host b: ...`.
impl fmt::Display for LostProcesses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.count {
            1 => write!(f, "id {}, {}", self.first, self.why),
            count => write!(f, "ids {}-{}, {}", self.first, self.first + (count - 1), self.why),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lost(first: Id, count: u32, host: &str, cause: &str) -> LostProcesses {
        LostProcesses { first, count, why: format!("host {host}: {cause}") }
    }

    #[test]
    fn causes_are_listed_up_to_a_number() {
        let all = |count| {
            let lost = |place: Id| lost(2 * place, 2, &format!("h{place}"), &format!("exit status {place}"));
            RemoteError::Hosts((1..=count).map(lost).collect()).to_string()
        };
        let text = all(20);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "40 processes could not be started");
        assert_eq!(lines[1], "ids 2-3, host h1: exit status 1");
        assert_eq!((lines.len(), lines[9]), (10, "and 12 more causes"));
        assert!(all(9).ends_with("\nand one more cause") && all(8).ends_with("host h8: exit status 8"));
        let one = RemoteError::Hosts(vec![lost(7, 1, "h7", "exit status 255")]).to_string();
        assert_eq!(one, "1 process could not be started\nid 7, host h7: exit status 255");
    }

    #[test]
    fn hosts_share_a_cause_in_which_only_their_names_differ() {
        let ssh =
            |host: &str| format!("exit status 255: ssh: connect to host {host} port 22: No route to host");
        let text = RemoteError::Hosts(vec![
            lost(1, 2, "b03", &ssh("b03")),
            lost(3, 2, "a", "it did not answer within 30 s"),
            lost(5, 2, "b07", &ssh("b07")),
            lost(7, 1, "b08", &ssh("b08")),
            lost(9, 1, "b9", &ssh("b03")),
            lost(10, 1, "c", "killed"),
            lost(12, 1, "c", "killed"),
        ])
        .to_string();
        let lines: Vec<&str> = text.lines().skip(1).collect();
        assert_eq!(
            lines,
            [
                &format!("ids 1-2,5-7, hosts b[03,07-08]: {}", ssh("HOST"))[..],
                "ids 3-4, host a: it did not answer within 30 s",
                &format!("id 9, host b9: {}", ssh("b03")),
                "ids 10,12, host c: killed",
            ]
        );
    }

    #[test]
    fn a_name_is_replaced_where_it_is_a_word() {
        assert_eq!(unnamed("a: cat a.b a-b a (a) aa, a", "a"), "HOST: cat a.b a-b HOST (HOST) aa, HOST");
        assert_eq!(unnamed("to [fe80::1]:22", "fe80::1"), "to [HOST]:22");
        assert_eq!(unnamed("me@b: a host b, x@b, b2", "me@b"), "HOST: a host HOST, x@HOST, b2");
        assert_eq!(unnamed("me@: a", "me@"), "HOST: a");
    }

    #[test]
    fn long_lists_are_cut() {
        let losses: Vec<LostProcesses> =
            (1..2000).map(|id| lost(2 * id, 1, &format!("h{}x{id}", id % 7), "killed")).collect();
        let text = RemoteError::Hosts(losses).to_string();
        assert!(text.len() < 1_000 && text.ends_with("...: killed"), "{text}");
    }
}
