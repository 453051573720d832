//! The client's side of PMI without I/O: encodes requests and parses responses.
//!
//! Source: PMI-1 and PMI-2 as MPICH's `hydra` and Slurm serve them. Both work in lock-step: one request, one response.
//! A server's response is validated, and its length is bounded.

use gpc_trees::Id;

use super::{one, two};
use crate::wire::Shown;

/// Maximum length of a response, bytes: the longest value that is used here, and the fields around it.
pub(super) const ANSWER_MAX: usize = 16 << 10;

/// Maximum length of a value that is put, bytes, even if the server allows more. Longer values are put in parts.
pub(super) const VALUE_MAX: usize = 4096;

/// Minimum value limit of a server, bytes, below which it is rejected: a shorter value has no space for data.
const VALUE_MIN: usize = 17;

/// A version of the protocol.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Version {
    /// PMI-1: lines.
    One,
    /// PMI-2: an opening line, then messages with a length prefix.
    Two,
}

/// One request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Ask {
    /// Port mode: which process has connected.
    Port,
    /// Negotiates the version.
    Init,
    /// PMI-1: asks for the maximum length of values. PMI-2: names this process.
    Register,
    /// The name of the set of processes.
    Name,
    /// The processes that share a host.
    Mapping,
    Put {
        key: String,
        value: String,
    },
    /// Waits for all processes.
    Fence,
    Get {
        /// The id that has put the value.
        of: Id,
        key: String,
    },
    /// This process ends normally.
    Finish,
}

/// A response.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Answer {
    /// Success. The client has stored what the server reported about itself.
    Done,
    /// The requested value.
    Value(String),
    /// There is no such value; the server's reason.
    Missing(String),
}

/// An invalid response or a failure of a server. Its text is escaped and bounded.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub(super) enum Fault {
    /// The server refuses the request.
    #[error("the server refuses it: `{0}`")]
    Refused(String),
    /// The response does not match the request.
    #[error("the server answers with nonsense: `{0}`")]
    Nonsense(String),
    /// The response exceeds its maximum length.
    #[error("the server's answer is longer than {ANSWER_MAX} bytes")]
    TooLong,
    /// The server reports another id or count than the variables.
    #[error("the server says that this is id {id} of {count}, and its variables say id {told} of {of}")]
    OtherId {
        /// The id that the server reports.
        id: Id,
        /// The number of processes that the server reports.
        count: u32,
        /// The id in the variables.
        told: Id,
        /// The number of processes in the variables.
        of: u32,
    },
}

impl Fault {
    pub(super) fn refused(text: &str) -> Fault {
        Fault::Refused(Shown(text).to_string())
    }

    pub(super) fn nonsense(text: &str) -> Fault {
        Fault::Nonsense(Shown(text).to_string())
    }
}

/// What a client knows about this process and about the processes that were started with it.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(super) struct Known {
    pub(super) id: Id,
    /// Number of processes; 0 until a server in port mode has reported it.
    pub(super) count: u32,
    /// The launcher's name for the set of processes.
    pub(super) name: String,
    /// Slurm's name of the job, which Slurm's server requires.
    pub(super) job: Option<String>,
    /// Maximum length of a value, bytes.
    pub(super) value_max: usize,
    /// Whether all processes are on one host.
    pub(super) one_host: Option<bool>,
}

impl Known {
    /// Stores the server's value limit, which includes the terminator; `None` if the limit is too small.
    pub(super) fn set_value_max(&mut self, max: usize) -> Option<()> {
        self.value_max = (max >= VALUE_MIN).then(|| (max - 1).min(VALUE_MAX))?;
        Some(())
    }
}

/// One session with a PMI server.
#[derive(Debug)]
pub(super) struct Client {
    version: Version,
    known: Known,
    asked: Option<Ask>,
    /// The bytes of the response that have arrived.
    came: Vec<u8>,
}

impl Client {
    pub(super) fn new(version: Version, known: Known) -> Client {
        Client { version, known, asked: None, came: Vec::new() }
    }

    pub(super) fn known(&self) -> &Known {
        &self.known
    }

    pub(super) fn version(&self) -> Version {
        self.version
    }

    /// The first requests, in this order. In port mode, [`Ask::Port`] precedes them.
    pub(super) const OPENING: [Ask; 4] = [Ask::Init, Ask::Register, Ask::Name, Ask::Mapping];

    /// Encodes a request. The rest of an earlier response is discarded.
    pub(super) fn ask(&mut self, ask: Ask) -> Vec<u8> {
        let bytes = match self.version {
            Version::One => one::question(&self.known, &ask),
            Version::Two => two::question(&self.known, &ask),
        };
        self.asked = Some(ask);
        self.came.clear();
        bytes
    }

    /// Accepts received bytes; returns the response when it is complete.
    ///
    /// # Errors
    /// If the response does not match the request, is too long, or is followed by more bytes.
    pub(super) fn take(&mut self, bytes: &[u8]) -> Result<Option<Answer>, Fault> {
        let is_get = matches!(self.asked, Some(Ask::Get { .. }));
        self.take_any(bytes).map_err(|fault| match fault {
            // The value may be a secret: the error quotes none of it.
            Fault::Nonsense(_) if is_get => Fault::nonsense("something that is no value"),
            fault => fault,
        })
    }

    fn take_any(&mut self, bytes: &[u8]) -> Result<Option<Answer>, Fault> {
        let Some(ask) = self.asked.clone() else { return Err(Fault::nonsense("something unasked")) };
        if self.came.len() + bytes.len() > ANSWER_MAX {
            return Err(Fault::TooLong);
        }
        self.came.extend_from_slice(bytes);
        let is_line = self.version == Version::One || matches!(ask, Ask::Init | Ask::Port);
        let cut = if is_line { one::cut(&self.came, &ask) } else { two::cut(&self.came)? };
        let Some((message, end)) = cut else { return Ok(None) };
        let text =
            std::str::from_utf8(message).map_err(|_| Fault::nonsense(&String::from_utf8_lossy(message)))?;
        if end < self.came.len() {
            let more = String::from_utf8_lossy(&self.came[end..]);
            return Err(Fault::nonsense(&format!("{text} {more}")));
        }
        let answer = match self.version {
            Version::One => one::answer(&mut self.known, &ask, text),
            Version::Two => two::answer(&mut self.known, &ask, text),
        }?;
        self.asked = None;
        Ok(Some(answer))
    }
}

/// Whether all processes are on one host, from `PMI_process_mapping`:
/// `(vector,(FIRST_HOST,HOSTS,PROCESSES_ON_EACH),...)`. `None` for any other text.
pub(super) fn is_one_host(mapping: &str) -> Option<bool> {
    let blocks = mapping.trim().strip_prefix("(vector,(")?.strip_suffix("))")?;
    let mut first = None;
    let mut one = true;
    for block in blocks.split("),(") {
        let mut numbers = block.split(',').map(|number| number.trim().parse::<u32>().ok());
        let (Some(Some(host)), Some(Some(hosts)), Some(Some(_)), None) =
            (numbers.next(), numbers.next(), numbers.next(), numbers.next())
        else {
            return None;
        };
        one &= hosts == 1 && *first.get_or_insert(host) == host;
    }
    Some(one)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_mapping_says_whether_there_is_one_host() {
        for (mapping, one) in [
            ("(vector,(0,1,8))", Some(true)),
            ("(vector,(0,1,4),(0,1,4))", Some(true)),
            ("(vector,(0,2,4))", Some(false)),
            ("(vector,(0,1,4),(1,1,4))", Some(false)),
            ("(vector,(0,1))", None),
            ("(vector,(0,1,x))", None),
            ("(vector,(0,1,4),)", None),
            ("(matrix,(0,1,4))", None),
            ("", None),
        ] {
            assert_eq!(is_one_host(mapping), one, "{mapping}");
        }
    }

    fn asks() -> impl Strategy<Value = Ask> {
        let key = "[a-z.-]{1,20}";
        prop_oneof![
            Just(Ask::Port),
            Just(Ask::Init),
            Just(Ask::Register),
            Just(Ask::Name),
            Just(Ask::Mapping),
            Just(Ask::Fence),
            Just(Ask::Finish),
            (key, "[!-~&&[^;=]]{0,50}").prop_map(|(key, value)| Ask::Put { key, value }),
            (any::<Id>(), key).prop_map(|(of, key)| Ask::Get { of, key }),
        ]
    }

    proptest! {
        /// Any bytes, in any pieces, are a response or are refused, and use memory within the bound.
        #[test]
        fn any_bytes_are_an_answer_or_refused(
            two in any::<bool>(),
            ask in asks(),
            pieces in prop::collection::vec(prop_oneof![
                prop::collection::vec(any::<u8>(), 0..40),
                "(cmd=[a-z_]{1,20}|rc=[0-9]| |;|value=|=|\n|    14)*".prop_map(String::into_bytes),
            ], 0..8),
        ) {
            let version = if two { Version::Two } else { Version::One };
            let mut client = Client::new(version, Known::default());
            let question = client.ask(ask);
            prop_assert!(!question.is_empty());
            for piece in pieces {
                match client.take(&piece) {
                    Ok(None) => prop_assert!(client.came.len() <= ANSWER_MAX),
                    Ok(Some(_)) => prop_assert!(client.take(b"more\n").is_err()),
                    Err(fault) => {
                        prop_assert!(fault.to_string().len() < 10_000);
                        return Ok(());
                    }
                }
                if client.asked.is_none() { return Ok(()) }
            }
        }

        /// A response is the same, however it is split into pieces.
        #[test]
        fn answers_come_in_pieces(value in "[!-~]{0,200}", piece in 1usize..50) {
            let one = format!("cmd=get_result rc=0 msg=success value={value}\n");
            let body = format!("cmd=kvs-get-response;rc=0;found=TRUE;value={};", value.replace(';', ";;"));
            for (version, text) in [
                (Version::One, one),
                (Version::Two, format!("{:6}{body}", body.len())),
                (Version::Two, format!("{:<6}{body}", body.len())),
            ] {
                let mut client = Client::new(version, Known::default());
                client.ask(Ask::Get { of: 0, key: "k".into() });
                let mut answer = None;
                for part in text.as_bytes().chunks(piece) {
                    prop_assert!(answer.is_none());
                    answer = client.take(part).unwrap();
                }
                prop_assert_eq!(answer, Some(Answer::Value(value.clone())));
            }
        }
    }

    #[test]
    fn an_answer_without_an_end_costs_no_more_than_its_bound() {
        for version in [Version::One, Version::Two] {
            let mut client = Client::new(version, Known::default());
            client.ask(Ask::Init);
            let faults = (0..100).find_map(|_| client.take(&[b'x'; 1000]).err());
            assert_eq!(faults, Some(Fault::TooLong));
            assert!(client.came.len() <= ANSWER_MAX);
        }
    }
}
