//! The head of a domain, as a job uses it. Tests replace it, and the time that passes in its waits.

use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use gpc_bnr::Fault;
use gpc_bnr::host::{Host, HostEvent};
use gpc_bnr::names::GroupId;
use gpc_bnr::request::{Answer, Request};

use super::input::{self, Reading};

/// Receives an answer.
pub(super) type AnswerCallback = Box<dyn FnOnce(Result<Answer, Fault>) + Send>;

/// The head of a domain.
pub(super) trait Head {
    /// The events of the domain.
    fn events(&self) -> &Receiver<HostEvent>;
    /// Waits for the next message of a channel, at most for the limit.
    fn receive<T>(&self, from: &Receiver<T>, limit: Duration) -> Result<T, RecvTimeoutError>;
    /// Sends a request and waits for the answer.
    fn ask(&self, request: Request, limit: Duration) -> Result<Answer, Fault>;
    /// Sends a request; the answer goes to the callback.
    fn ask_then(&self, request: Request, callback: AnswerCallback);
    /// Asks for a message when all output of processes that have ended by now is written.
    fn drain(&self) -> Receiver<()>;
    /// Sends a signal to the processes of all groups.
    fn signal_all(&self, signal: u8);
    /// Sends a signal to the processes that are not in the process group of this process.
    fn signal_others(&self, signal: u8);
    /// Begins to read standard input for rank 0.
    fn read_input(&self) -> Reading;
}

impl Head for Host {
    fn events(&self) -> &Receiver<HostEvent> {
        self.events()
    }

    fn receive<T>(&self, from: &Receiver<T>, limit: Duration) -> Result<T, RecvTimeoutError> {
        from.recv_timeout(limit)
    }

    fn ask(&self, request: Request, limit: Duration) -> Result<Answer, Fault> {
        self.ask(request, limit)
    }

    fn ask_then(&self, request: Request, callback: AnswerCallback) {
        self.ask_then(request, callback);
    }

    fn drain(&self) -> Receiver<()> {
        self.drain()
    }

    fn signal_all(&self, signal: u8) {
        self.signal(None::<GroupId>, signal);
    }

    fn signal_others(&self, signal: u8) {
        self.signal_others(signal);
    }

    fn read_input(&self) -> Reading {
        input::read(self.feeder())
    }
}
