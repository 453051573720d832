//! The orders of an agent, in two parts, as lines of text.
//!
//! The *task*, at its start: the greeting, `limit` (the maximum silence of another agent while it starts), `fan-out`,
//! `network`, `rsh` and `program` and `argument` (how agents of other hosts are started, one word a line), the settings
//! of nodes, and its share as `host FIRST COUNT NAME` lines, its own host first; `start` ends it.
//!
//! The *book*, once all agents that could be started have reported: `job`, `secret`, `root ID KEY`, and a line `peer ID
//! ADDRESS KEY` for each process; `go` ends it. It travels down the tree unchanged. The secret is sent through standard
//! input alone, never in a command line or the environment.
//!
//! At any time: `alive`, a keep-alive line. The reader trusts nothing: everything is checked and bounded.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::num::NonZeroU32;
use std::time::Duration;

use gpc_trees::Id;
use zeroize::Zeroizing;

use super::answer::GREETING;
use super::network::Network;
use super::share::{HostIds, REMOTE_PROCESSES_MAX, Share, is_share};
use super::words;
use crate::quoted::quoted;
use crate::settings::Nanos;
use crate::{NodeSettings, OrdersError};
use chained_gpc::link::peering::{PublicKey, Secret};
use chained_gpc::runtime::Peers;

/// Ends a task.
pub(super) const START: &str = "start";

/// Ends a book.
pub(super) const GO: &str = "go";

/// The keep-alive line.
pub(super) const ALIVE: &str = "alive";

/// Maximum length of a line, bytes: a word with all of its bytes escaped, and its key.
pub(super) const LINE_MAX: usize = 3 * words::WORD_MAX + 64;

/// Maximum length of a task or book, bytes: a line with the longest name for each possible process.
pub(super) const PART_MAX: usize = REMOTE_PROCESSES_MAX as usize * 400;

/// Maximum number of words of a command.
const WORDS_MAX: usize = 1000;

/// The task of an agent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Task {
    pub(super) limit: Duration,
    pub(super) fan_out: NonZeroU32,
    pub(super) network: Option<Network>,
    /// The command that runs another one on a host, as in [`RemotePlan::rsh`](super::RemotePlan::rsh).
    pub(super) rsh: Vec<OsString>,
    /// The program of agents on other hosts.
    pub(super) program: OsString,
    /// Its arguments.
    pub(super) arguments: Vec<OsString>,
    pub(super) settings: NodeSettings,
    pub(super) share: Share,
}

/// The addresses of all processes, and the secret that authenticates them.
#[derive(Debug)]
pub(super) struct Book {
    /// With the job, and the key of the root.
    pub(super) peers: Peers,
    pub(super) secret: Secret,
}

/// Text that is not a valid task or book. The error quotes nothing of a book.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TaskError {
    /// The greeting of another program, or of another version of this one.
    #[error("`{0}` is not the greeting of this version: all hosts need the same version of the program")]
    Greeting(String),
    /// An invalid line of a task.
    #[error("`{0}` is no line of a task")]
    Line(String),
    /// An invalid setting.
    #[error(transparent)]
    Setting(#[from] OrdersError),
    /// The hosts are not a share.
    #[error("the hosts of the task are not a share of a tree")]
    Share,
    /// A required line is missing.
    #[error("the {0} is missing")]
    Missing(&'static str),
    /// The book is invalid.
    #[error("the book of addresses: {0}")]
    Book(&'static str),
}

impl Task {
    /// Returns the text of this task with another share.
    pub(super) fn text_for(&self, share: &[HostIds]) -> String {
        let mut text = format!("{GREETING}\nlimit {}\nfan-out {}\n", Nanos(self.limit), self.fan_out);
        // Writing to a string does not fail.
        let _ = self.network.iter().try_for_each(|network| writeln!(text, "network {network}"));
        let words = self.rsh.iter().map(|word| ("rsh", word));
        let words = words.chain([("program", &self.program)]);
        let words = words.chain(self.arguments.iter().map(|word| ("argument", word)));
        for (name, word) in words {
            let _ = writeln!(text, "{name} {}", words::written(word));
        }
        let _ = write!(text, "{}", self.settings);
        for HostIds { first, count, name } in share {
            let _ = writeln!(text, "host {first} {count} {name}");
        }
        text.push_str(START);
        text.push('\n');
        text
    }

    /// Parses a complete task, with or without the line that ends it.
    pub(super) fn parse(text: &str) -> Result<Task, TaskError> {
        let mut lines = text.lines();
        let greeting = lines.next().unwrap_or_default();
        if greeting != GREETING {
            return Err(TaskError::Greeting(quoted(greeting)));
        }
        let (mut limit, mut fan_out, mut network, mut program) = (None, None, None, None);
        let (mut rsh, mut arguments, mut share) = (Vec::new(), Vec::new(), Share::new());
        let mut settings = NodeSettings::default();
        for line in lines.take_while(|line| *line != START) {
            let bad = || TaskError::Line(quoted(line));
            if settings.read_line(line)? {
                continue;
            }
            let (name, rest) = line.split_once(' ').ok_or_else(bad)?;
            let word = || words::read(rest).ok_or_else(bad);
            match name {
                "limit" => limit = Some(rest.parse::<Nanos>()?.0),
                "fan-out" => fan_out = Some(rest.parse().map_err(|_| bad())?),
                "network" => network = Some(rest.parse().map_err(|_| bad())?),
                "program" => program = Some(word()?),
                "rsh" if rsh.len() < WORDS_MAX => rsh.push(word()?),
                "argument" if arguments.len() < WORDS_MAX => arguments.push(word()?),
                "host" => share.push(HostIds::parse(rest).ok_or_else(bad)?),
                _ => return Err(bad()),
            }
        }
        if !is_share(&share) {
            return Err(TaskError::Share);
        }
        Ok(Task {
            limit: limit.ok_or(TaskError::Missing("limit"))?,
            fan_out: fan_out.ok_or(TaskError::Missing("fan-out"))?,
            network,
            rsh,
            program: program.ok_or(TaskError::Missing("program"))?,
            arguments,
            settings,
            share,
        })
    }
}

impl Book {
    /// Returns the text. `root` has only a key, and no address: it does not listen.
    pub(super) fn write(peers: &Peers, secret: &Secret, root: (Id, PublicKey)) -> Zeroizing<String> {
        let len: usize = peers.len() * 160 + 4096;
        // Allocated at full length, so that no reallocation leaves a copy of the secret behind.
        let mut text = Zeroizing::new(String::with_capacity(len));
        text.push_str("secret ");
        text.push_str(&secret.to_text());
        let _ = write!(text, "\nroot {} {}\n", root.0, root.1);
        for line in peers.to_string().lines() {
            let _ = if line.starts_with("job ") {
                writeln!(text, "{line}")
            } else {
                writeln!(text, "peer {line}")
            };
        }
        text.push_str(GO);
        text.push('\n');
        text
    }

    /// Parses a complete book, with or without the line that ends it.
    pub(super) fn parse(text: &str) -> Result<Book, TaskError> {
        let (mut file, mut secret, mut root) = (String::new(), None, None);
        for line in text.lines().take_while(|line| *line != GO) {
            match line.split_once(' ') {
                Some(("secret", text)) => {
                    secret = Some(text.parse::<Secret>().map_err(|_| TaskError::Book("its secret is none"))?)
                }
                Some(("root", rest)) => {
                    root = rest
                        .split_once(' ')
                        .and_then(|(id, key)| Some((id.parse::<Id>().ok()?, key.parse::<PublicKey>().ok()?)))
                }
                Some(("job", _)) => file.extend([line, "\n"]),
                Some(("peer", peer)) => file.extend([peer, "\n"]),
                _ => return Err(TaskError::Book("it has a line that is none of it")),
            }
        }
        let mut peers: Peers =
            file.parse().map_err(|_| TaskError::Book("its addresses are not what they should be"))?;
        let (root, key) = root.ok_or(TaskError::Missing("root"))?;
        if peers.job().is_none() {
            return Err(TaskError::Missing("job"));
        }
        peers.set_key(root, key);
        Ok(Book { peers, secret: secret.ok_or(TaskError::Missing("secret"))? })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use chained_gpc::wire::Job;

    fn task() -> Task {
        let host = |first, name: &str| HostIds { first, count: 2, name: name.into() };
        Task {
            limit: Duration::from_secs(30),
            fan_out: NonZeroU32::new(8).unwrap(),
            network: "10.0.0.0/8".parse().ok(),
            rsh: ["ssh", "-o", "Proxy Command=a%b"].map(OsString::from).to_vec(),
            program: "/opt/my tools/gpc".into(),
            arguments: ["node", "--agent"].map(OsString::from).to_vec(),
            settings: NodeSettings { dead_after: Some(Duration::from_secs(2)), ..NodeSettings::default() },
            share: vec![host(3, "b"), host(5, "root@c")],
        }
    }

    #[test]
    fn a_task_reads_as_it_is_written() {
        let task = task();
        let text = task.text_for(&task.share);
        assert!(text.ends_with("host 5 2 root@c\nstart\n") && text.contains("\nargument node\n"), "{text}");
        assert_eq!(Task::parse(&text), Ok(task.clone()));
        let plain =
            Task { network: None, rsh: Vec::new(), share: vec![task.share[1].clone()], ..task.clone() };
        assert_eq!(Task::parse(&plain.text_for(&plain.share)), Ok(plain));
    }

    #[test]
    fn what_is_no_task_is_named() {
        let task = task();
        let text = task.text_for(&task.share);
        let refused = |from: &str, to: &str| Task::parse(&text.replace(from, to)).unwrap_err().to_string();
        assert!(refused("agent 1\n", "agent 2\n").contains("all hosts need the same version"));
        assert_eq!(refused("limit", "limits"), "`limits 30000000000ns` is no line of a task");
        assert_eq!(refused("fan-out 8", "fan-out 0"), "`fan-out 0` is no line of a task");
        assert_eq!(refused("host 5", "host 6"), "the hosts of the task are not a share of a tree");
        assert_eq!(refused("fan-out 8\n", ""), "the fan-out is missing");
        assert!(refused("dead-after 2", "dead-after x").contains("is no length of time"));
        assert_eq!(Task::parse("").unwrap_err(), TaskError::Greeting(String::new()));
    }

    #[test]
    fn a_book_reads_as_it_is_written_and_its_errors_say_nothing_of_it() {
        let mut peers: Peers = "1 127.0.0.1:5\n2 10.0.0.1:6\n".parse().unwrap();
        peers.set_key(1, PublicKey([1; 32]));
        peers.set_job(Job([9; 16]));
        let secret = Secret::new(&[0xab; 32]).unwrap();
        let text = Book::write(&peers, &secret, (0, PublicKey([3; 32])));
        assert!(text.len() < text.capacity());
        let book = Book::parse(&text).unwrap();
        peers.set_key(0, PublicKey([3; 32]));
        assert_eq!((book.peers, book.secret), (peers, secret));
        for (from, to) in [
            ("secret ", "secret x"),
            ("peer 2", "peer 1"),
            ("job", "jobs"),
            ("root 0", "root"),
            ("\nsecret", "\nsecrets"),
        ] {
            let error = Book::parse(&format!("\n{}", *text).replace(from, to)).unwrap_err().to_string();
            assert!(!error.contains("abab"), "{error}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_a_task_and_a_book_or_refused(text in "(chained-gpc-agent 1\n)?((host|limit|rsh|job|peer|secret|root) [a-z0-9.: ]{0,12}\n){0,6}") {
            let _ = Book::parse(&text);
            if let Ok(task) = Task::parse(&text) {
                prop_assert_eq!(Task::parse(&task.text_for(&task.share)), Ok(task.clone()));
            }
        }
    }
}
