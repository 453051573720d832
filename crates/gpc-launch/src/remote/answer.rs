//! The reports of an agent to the agent above, one line each:
//!
//! - `chained-gpc-agent 1` first, after any output of a login shell of that host.
//! - `here ID LOOPBACK ADDRESS KEY PLACE`: a process, with its address on loopback, its address for other hosts (`-` if
//!   there is none), its public key, and the machine and network that it is in.
//! - `down FIRST COUNT WHY`: ids whose process could not be started.
//! - `wait`: still starting. `done`: every id of the share has been reported with `here` or `down`.
//! - `lost FIRST COUNT WHY`: ids of processes that have gone after that.

use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;

use gpc_trees::Id;

use super::share::REMOTE_PROCESSES_MAX;
use chained_gpc::link::peering::PublicKey;
use chained_gpc::wire::Shown;

/// The first line of an agent: a name, and the version of its reports and orders.
pub(super) const GREETING: &str = "chained-gpc-agent 1";
pub(super) const GREETING_NAME: &str = "chained-gpc-agent ";
pub(super) const GREETING_VERSION: &str = "1";

/// Maximum length of a line, bytes: the longest reason, with four bytes for each character, and a margin.
pub(super) const LINE_MAX: usize = 4096;

/// Maximum length of a reason, characters: some lines of a command's output.
pub(super) const WHY_MAX: usize = 600;

/// Maximum length of the name of a place, bytes.
const PLACE_MAX: usize = 80;

/// A process that runs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct StartReport {
    pub(super) id: Id,
    pub(super) loopback: SocketAddr,
    /// Its address for other hosts, if it has one.
    pub(super) address: Option<SocketAddr>,
    pub(super) key: PublicKey,
    /// Processes of the same place reach each other on loopback.
    pub(super) place: String,
}

/// Ids whose processes do not run, and why: one line, escaped for a terminal.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct LossReport {
    pub(super) first: Id,
    pub(super) count: u32,
    pub(super) why: String,
}

/// A line of an agent after its greeting.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Answer {
    Started(StartReport),
    Down(LossReport),
    Wait,
    Done,
    Lost(LossReport),
}

impl LossReport {
    pub(super) fn new(first: Id, count: u32, why: &str) -> LossReport {
        let cut: String = why.chars().take(WHY_MAX).collect();
        LossReport { first, count, why: Shown(&cut).to_string().chars().take(WHY_MAX).collect() }
    }

    /// Whether an id is among them.
    pub(super) fn has(&self, id: Id) -> bool {
        id >= self.first && id - self.first < self.count
    }

    fn parse(text: &str) -> Option<LossReport> {
        let mut words = text.splitn(3, ' ');
        let (first, count, why) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?, words.next()?);
        let ids = 1..=REMOTE_PROCESSES_MAX;
        (ids.contains(&first) && ids.contains(&count)).then(|| LossReport::new(first, count, why))
    }
}

impl StartReport {
    fn parse(text: &str) -> Option<StartReport> {
        let words: Vec<&str> = text.split(' ').take(6).collect();
        let [id, loopback, address, key, place] = words[..] else { return None };
        let loopback: SocketAddr = loopback.parse().ok()?;
        let address = match address {
            "-" => None,
            address => Some(address.parse().ok()?),
        };
        let is_place =
            (1..=PLACE_MAX).contains(&place.len()) && place.bytes().all(|byte| byte.is_ascii_graphic());
        let here = StartReport {
            id: id.parse().ok()?,
            loopback,
            address,
            key: key.parse().ok()?,
            place: place.into(),
        };
        (is_place && loopback.ip().is_loopback()).then_some(here)
    }
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let gone = |f: &mut fmt::Formatter<'_>, word, gone: &LossReport| {
            write!(f, "{word} {} {} {}", gone.first, gone.count, gone.why)
        };
        match self {
            Answer::Started(StartReport { id, loopback, address, key, place }) => match address {
                Some(address) => write!(f, "here {id} {loopback} {address} {key} {place}"),
                None => write!(f, "here {id} {loopback} - {key} {place}"),
            },
            Answer::Down(down) => gone(f, "down", down),
            Answer::Wait => f.write_str("wait"),
            Answer::Done => f.write_str("done"),
            Answer::Lost(lost) => gone(f, "lost", lost),
        }
    }
}

impl FromStr for Answer {
    type Err = ();

    fn from_str(line: &str) -> Result<Answer, ()> {
        let answer = match line.split_once(' ') {
            Some(("here", rest)) => StartReport::parse(rest).map(Answer::Started),
            Some(("down", rest)) => LossReport::parse(rest).map(Answer::Down),
            Some(("lost", rest)) => LossReport::parse(rest).map(Answer::Lost),
            None if line == "wait" => Some(Answer::Wait),
            None if line == "done" => Some(Answer::Done),
            _ => None,
        };
        answer.ok_or(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn answers_read_as_they_are_written() {
        let here = StartReport {
            id: 3,
            loopback: "127.0.0.1:5".parse().unwrap(),
            address: Some("[fd00::1]:6".parse().unwrap()),
            key: PublicKey([7; 32]),
            place: "boot:4026531840".into(),
        };
        let apart = StartReport { address: None, ..here.clone() };
        let gone = LossReport::new(2, 5, "exit status 255: ssh: No route\x1b[2J\nto host");
        assert_eq!(gone.why, r"exit status 255: ssh: No route\u{1b}[2J\nto host");
        assert!(gone.has(2) && gone.has(6) && !gone.has(7) && !gone.has(1));
        // Each of these characters is six when it is escaped.
        assert_eq!(LossReport::new(1, 1, &"\x1b".repeat(WHY_MAX)).why.len(), WHY_MAX);
        for answer in [
            Answer::Started(here),
            Answer::Started(apart),
            Answer::Down(gone.clone()),
            Answer::Lost(gone),
            Answer::Wait,
            Answer::Done,
        ] {
            let line = answer.to_string();
            assert!(!line.contains('\n') && line.len() <= LINE_MAX);
            assert_eq!(line.parse(), Ok(answer));
        }
    }

    #[test]
    fn the_greeting_is_its_name_and_its_version() {
        assert_eq!(GREETING, format!("{GREETING_NAME}{GREETING_VERSION}"));
    }

    #[test]
    fn what_is_no_answer_is_refused() {
        let key = "00".repeat(32);
        for line in [
            "",
            "here",
            "wait ",
            "down 0 1 x",
            "down 1 0 x",
            "down 1 1",
            "lost 1 99999 x",
            &format!("here 1 10.0.0.1:5 - {key} a"),
            &format!("here 1 127.0.0.1:5 - {key}"),
            &format!("here 1 127.0.0.1:5 - {key} a b"),
        ] {
            assert_eq!(line.parse::<Answer>(), Err(()), "{line}");
        }
    }

    proptest! {
        #[test]
        fn any_line_is_an_answer_or_refused(line in "(here|down|lost|wait|done)? ?[0-9]{0,3} ?.{0,40}") {
            if let Ok(answer) = line.parse::<Answer>() {
                prop_assert_eq!(answer.to_string().parse(), Ok(answer));
            }
        }
    }
}
