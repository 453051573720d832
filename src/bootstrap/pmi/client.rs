//! The client's side of PMI without I/O: what is asked becomes bytes, bytes that come become answers.
//!
//! Source: PMI-1 and PMI-2 as MPICH's `hydra` and Slurm serve them. Both are in lock-step: one question, one answer. What a server sends is believed as far as it makes sense, and bounded.

use gpc_trees::Id;

use super::{one, two};
use crate::wire::Shown;

/// Longest answer, bytes: a value of the longest length that is used here, and words around it.
pub(super) const ANSWER_MAX: usize = 16 << 10;

/// Longest value that is put, bytes, whatever a server allows: longer ones are put in parts.
pub(super) const VALUE_MAX: usize = 4096;

/// Shortest limit of a server for its values that leaves room for anything.
const VALUE_MIN: usize = 17;

/// Which of the two protocols is spoken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Version {
    /// Lines.
    One,
    /// An opening line, then messages with their lengths before them.
    Two,
}

/// One question.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Ask {
    /// Port mode: which process has connected.
    Port,
    /// Which version both speak.
    Init,
    /// PMI-1: how long values may be. PMI-2: who this process is.
    Register,
    /// What the set of processes is called.
    Name,
    /// Which processes share a host.
    Mapping,
    /// Puts a value.
    Put {
        /// Its key.
        key: String,
        /// The value.
        value: String,
    },
    /// All are to come here.
    Fence,
    /// Gets a value.
    Get {
        /// Who has put it.
        of: Id,
        /// Its key.
        key: String,
    },
    /// This process ends in order.
    Finish,
}

/// An answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Answer {
    /// It is done; what the server said of itself is known to the client.
    Done,
    /// The value that was asked for.
    Value(String),
    /// There is no such value.
    Missing(String),
}

/// What is wrong with what a server has said; its words are escaped and bounded.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub(super) enum Fault {
    /// It refuses what was asked.
    #[error("the server refuses it: `{0}`")]
    Refused(String),
    /// It is no answer to what was asked.
    #[error("the server answers with nonsense: `{0}`")]
    Nonsense(String),
    /// It does not end.
    #[error("the server's answer is longer than {ANSWER_MAX} bytes")]
    TooLong,
    /// It says something of this process that cannot be.
    #[error("the server says that this is id {id} of {count}, and its variables say id {told} of {of}")]
    OtherId {
        /// Its id, says the server.
        id: Id,
        /// How many there are, says the server.
        count: u32,
        /// Its id, say the variables.
        told: Id,
        /// How many there are, say the variables.
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

/// What is known of this process and those that were started with it.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(super) struct Known {
    /// The id of this process.
    pub(super) id: Id,
    /// How many there are; 0 before a server in port mode has said it.
    pub(super) count: u32,
    /// What the launcher calls them.
    pub(super) name: String,
    /// What Slurm calls the job, which it wants to be told.
    pub(super) job: Option<String>,
    /// Longest value, bytes.
    pub(super) value_max: usize,
    /// Whether all are on one host.
    pub(super) one_host: Option<bool>,
}

impl Known {
    /// Believes how long a value may be, its end included.
    pub(super) fn set_value_max(&mut self, max: usize) -> Option<()> {
        self.value_max = (max >= VALUE_MIN).then(|| (max - 1).min(VALUE_MAX))?;
        Some(())
    }
}

/// One conversation.
#[derive(Debug)]
pub(super) struct Client {
    version: Version,
    known: Known,
    asked: Option<Ask>,
    /// What has come of the answer.
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

    /// What is asked first, in this order; [`Ask::Port`] comes before it in port mode.
    pub(super) const OPENING: [Ask; 4] = [Ask::Init, Ask::Register, Ask::Name, Ask::Mapping];

    /// The bytes of a question. Whatever was left of the answer before is forgotten.
    pub(super) fn ask(&mut self, ask: Ask) -> Vec<u8> {
        let bytes = match self.version {
            Version::One => one::question(&self.known, &ask),
            Version::Two => two::question(&self.known, &ask),
        };
        self.asked = Some(ask);
        self.came.clear();
        bytes
    }

    /// Takes what has come; the answer, once it is whole.
    ///
    /// # Errors
    /// When it is no answer to what was asked, does not end, or there is more than was asked for.
    pub(super) fn take(&mut self, bytes: &[u8]) -> Result<Option<Answer>, Fault> {
        let is_get = matches!(self.asked, Some(Ask::Get { .. }));
        self.take_any(bytes).map_err(|fault| match fault {
            // What was asked for may be a secret: nothing of it is quoted.
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

/// Whether all processes are on one host, by `PMI_process_mapping`: `(vector,(FIRST_HOST,HOSTS,PROCESSES_ON_EACH),...)`. `None` for anything else.
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
        /// Whatever a server says, in whatever pieces, is an answer or is refused, and costs no more than its bound.
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

        /// An answer is the same in whatever pieces it comes.
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
