//! The space of a launcher that serves PMI: requests over the socket to the server.

use std::io::{self, ErrorKind};
use std::time::Duration;

use gpc_trees::Id;

use super::client::{Client, Version};
use super::link::Link;
use super::messages::{Answer, Ask, Fault};
use super::process::Process;
use crate::bootstrap::{Space, SpaceError};
use crate::{Clock, TimeLimit};

/// Longest time limit of a response that depends on no other process. One thread of a server may serve a thousand
/// processes.
const ANSWER_LIMIT: Duration = Duration::from_secs(30);

/// A space whose server speaks PMI-1 or PMI-2.
#[derive(Debug)]
pub(super) struct PmiSpace {
    client: Client,
    link: Link,
    clock: Clock,
}

/// Why a space did not open.
pub(super) enum Unopened {
    /// The server does not support this version. It may support another one over the same link.
    OtherVersion(Link, SpaceError),
    /// Another version cannot help.
    Failed(SpaceError),
}

impl From<SpaceError> for Unopened {
    fn from(error: SpaceError) -> Unopened {
        Unopened::Failed(error)
    }
}

impl PmiSpace {
    /// Opens the session. In port mode the server first reports the id of this process.
    pub(super) fn open(
        link: Link,
        version: Version,
        process: Process,
        (clock, limit): (&Clock, &TimeLimit),
    ) -> Result<PmiSpace, Unopened> {
        let port = process.count == 0;
        let mut space = PmiSpace { client: Client::new(version, process), link, clock: clock.clone() };
        let first = port.then_some(Ask::Port);
        for ask in first.into_iter().chain(Client::OPENING) {
            let doing = purpose(&ask, space.client.process());
            match space.ask(ask.clone(), limit.left().unwrap_or_default()) {
                Ok(_) => {}
                Err(Failed::Fault(fault @ Fault::Refused(_))) if ask == Ask::Init => {
                    let error = space.error(doing, &fault.to_string());
                    return Err(Unopened::OtherVersion(space.link, error));
                }
                Err(failed) => return Err(space.error(doing, &failed.to_string()).into()),
            }
        }
        Ok(space)
    }

    /// A space whose session is open, for the servers of tests.
    #[cfg(test)]
    pub(super) fn of(version: Version, process: Process, link: Link, clock: Clock) -> PmiSpace {
        PmiSpace { client: Client::new(version, process), link, clock }
    }

    fn ask(&mut self, ask: Ask, limit: Duration) -> Result<Answer, Failed> {
        // Only a fence waits for other processes.
        let limit = if ask == Ask::Fence { limit } else { limit.min(ANSWER_LIMIT) };
        let failed = |error| Failed::Link(error, limit);
        let within = self.clock.limit(limit);
        self.link.say(&self.client.ask(ask), &within).map_err(failed)?;
        // Terminates: the length of a response is bounded.
        loop {
            let came = self.link.hear(&within).map_err(failed)?;
            if let Some(answer) = self.client.take(&came)? {
                return Ok(answer);
            }
        }
    }

    fn error(&self, doing: String, why: &str) -> SpaceError {
        SpaceError { launcher: self.launcher(), doing, why: why.into() }
    }

    fn done(&mut self, ask: Ask, limit: Duration) -> Result<Answer, SpaceError> {
        let doing = purpose(&ask, self.client.process());
        self.ask(ask, limit).map_err(|failed| self.error(doing, &failed.to_string()))
    }
}

impl Space for PmiSpace {
    fn launcher(&self) -> &'static str {
        match self.client.version() {
            Version::One => "PMI-1",
            Version::Two => "PMI-2",
        }
    }

    fn id(&self) -> Id {
        self.client.process().id
    }

    fn count(&self) -> u32 {
        self.client.process().count
    }

    fn name(&self) -> &str {
        &self.client.process().name
    }

    fn one_host(&self) -> Option<bool> {
        self.client.process().one_host
    }

    fn value_max(&self) -> usize {
        self.client.process().value_max
    }

    fn put(&mut self, key: &str, value: &str, limit: Duration) -> Result<(), SpaceError> {
        let ask = Ask::Put { key: key.into(), value: value.into() };
        self.done(ask, limit).map(drop)
    }

    fn fence(&mut self, limit: Duration) -> Result<(), SpaceError> {
        self.done(Ask::Fence, limit).map(drop)
    }

    fn get(&mut self, of: Id, key: &str, limit: Duration) -> Result<String, SpaceError> {
        let ask = Ask::Get { of, key: key.into() };
        match self.done(ask.clone(), limit)? {
            Answer::Value(value) => Ok(value),
            Answer::Missing(why) => Err(self.error(purpose(&ask, self.client.process()), &why)),
            Answer::Done => {
                Err(self.error(purpose(&ask, self.client.process()), "the server gives no value"))
            }
        }
    }

    fn finish(&mut self, limit: Duration) -> Result<(), SpaceError> {
        self.done(Ask::Finish, limit)?;
        self.link.finished();
        Ok(())
    }
}

/// The request in words, for errors.
fn purpose(ask: &Ask, process: &Process) -> String {
    match ask {
        Ask::Port => "to say which process this is".into(),
        Ask::Init => "to open the conversation with the launcher's server".into(),
        Ask::Register => "to register with the launcher's server".into(),
        Ask::Name => "to ask for the name of the job".into(),
        Ask::Mapping => "to ask which processes share a host".into(),
        Ask::Put { key, .. } => format!("to put `{key}`"),
        Ask::Fence => format!("to wait until all {} processes have come to the fence", process.count),
        Ask::Get { of, key } => format!("to get `{key}` of id {of}"),
        Ask::Finish => "to say that this process will end in order".into(),
    }
}

/// Why a request has no response.
#[derive(Debug, thiserror::Error)]
enum Failed {
    #[error(transparent)]
    Fault(#[from] Fault),
    #[error("{}", error_text(.0, *.1))]
    Link(io::Error, Duration),
}

fn error_text(error: &io::Error, limit: Duration) -> String {
    match error.kind() {
        ErrorKind::UnexpectedEof | ErrorKind::BrokenPipe | ErrorKind::ConnectionReset => {
            "the server has closed its end: the launcher has died, or ends the job".into()
        }
        ErrorKind::TimedOut => {
            // Rounds the rest of a limit up to milliseconds, for the message.
            let millis = u64::try_from(limit.as_micros().div_ceil(1000)).unwrap_or(u64::MAX);
            format!("there was no answer within {:?}", Duration::from_millis(millis))
        }
        _ => error.to_string(),
    }
}
