//! The client's side of PMI without I/O: encodes requests and parses responses.
//!
//! Source: PMI-1 and PMI-2 as MPICH's `hydra` and Slurm serve them. Both work in lock-step: one request, one response.
//! A server's response is validated, and its length is bounded.

use super::messages::{ANSWER_MAX, Answer, Ask, Fault};
use super::process::Process;
use super::{one, two};

/// A version of the protocol.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Version {
    /// PMI-1: lines.
    One,
    /// PMI-2: an opening line, then messages with a length prefix.
    Two,
}

/// One session with a PMI server.
#[derive(Debug)]
pub(super) struct Client {
    version: Version,
    process: Process,
    asked: Option<Ask>,
    /// The bytes of the response that have arrived.
    came: Vec<u8>,
}

impl Client {
    pub(super) fn new(version: Version, process: Process) -> Client {
        Client { version, process, asked: None, came: Vec::new() }
    }

    pub(super) fn process(&self) -> &Process {
        &self.process
    }

    pub(super) fn version(&self) -> Version {
        self.version
    }

    /// The first requests, in this order. In port mode, [`Ask::Port`] precedes them.
    pub(super) const OPENING: [Ask; 4] = [Ask::Init, Ask::Register, Ask::Name, Ask::Mapping];

    /// Encodes a request. The rest of an earlier response is discarded.
    pub(super) fn ask(&mut self, ask: Ask) -> Vec<u8> {
        let bytes = match self.version {
            Version::One => one::question(&self.process, &ask),
            Version::Two => two::question(&self.process, &ask),
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
            Version::One => one::answer(&mut self.process, &ask, text),
            Version::Two => two::answer(&mut self.process, &ask, text),
        }?;
        self.asked = None;
        Ok(Some(answer))
    }
}

#[cfg(test)]
mod tests {
    use gpc_trees::Id;
    use proptest::prelude::*;

    use super::*;

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
            let mut client = Client::new(version, Process::default());
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
                let mut client = Client::new(version, Process::default());
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

    /// A value may be the secret of the job, and errors go to logs.
    #[test]
    fn an_invalid_answer_to_a_get_is_not_quoted() {
        for (version, text) in [
            (Version::One, "cmd=nonsense value=5ec7e7\n"),
            (Version::One, "cmd=get_result rc=0 value=5ec7e7\n5ec7e7\n"),
            (Version::Two, "    25cmd=nonsense;value=5ec7e7"),
            (Version::Two, "5ec7e7cmd=kvs-get-response;"),
        ] {
            let mut client = Client::new(version, Process::default());
            client.ask(Ask::Get { of: 0, key: "k".into() });
            let fault = client.take(text.as_bytes()).unwrap_err();
            assert!(matches!(&fault, Fault::Nonsense(why) if !why.contains("5ec7e7")), "{fault}");
            client.ask(Ask::Fence);
            let fault = client.take(text.as_bytes()).unwrap_err().to_string();
            assert!(fault.contains("5ec7e7"), "other responses are quoted: {fault}");
        }
    }

    #[test]
    fn one_request_has_one_answer() {
        for (version, text) in [
            (Version::One, "cmd=barrier_out\ncmd=barrier_out\n"),
            (Version::Two, "    29cmd=kvs-fence-response;rc=0;;;x"),
        ] {
            let mut client = Client::new(version, Process::default());
            client.ask(Ask::Fence);
            assert!(matches!(client.take(text.as_bytes()), Err(Fault::Nonsense(_))), "{text}");
        }
    }

    #[test]
    fn an_answer_without_an_end_costs_no_more_than_its_bound() {
        for version in [Version::One, Version::Two] {
            let mut client = Client::new(version, Process::default());
            client.ask(Ask::Init);
            let faults = (0..100).find_map(|_| client.take(&[b'x'; 1000]).err());
            assert_eq!(faults, Some(Fault::TooLong));
            assert!(client.came.len() <= ANSWER_MAX);
        }
    }
}
