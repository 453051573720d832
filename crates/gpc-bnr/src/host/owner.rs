//! The application that runs this node, such as `gpc run`: its requests, and the events for it.

use std::collections::BTreeMap;
use std::sync::mpsc::{Sender, SyncSender};

use super::events::HostEvent;
use super::mailbox::AnswerCallback;
use crate::domain::Serial;
use crate::fault::{Fault, FaultKind};
use crate::request::{Answer, Client};

/// The client that stands for the application.
pub(super) const OWNER: Client = Client::Tool(0);

/// The application.
#[derive(Default)]
pub(super) struct Owner {
    /// Receivers of answers.
    callbacks: BTreeMap<Serial, AnswerCallback>,
    next_serial: Serial,
    events: Option<Sender<HostEvent>>,
    /// Receivers that wait for the end of the domain.
    pub(super) ending: Vec<SyncSender<()>>,
}

impl Owner {
    pub(super) fn new(events: Option<Sender<HostEvent>>) -> Owner {
        Owner { events, ..Owner::default() }
    }

    /// Adds a request, and returns its number.
    pub(super) fn add(&mut self, callback: AnswerCallback) -> Serial {
        let serial = self.next_serial;
        self.next_serial += 1;
        self.callbacks.insert(serial, callback);
        serial
    }

    /// Number of unanswered requests.
    #[cfg(feature = "snapshot")]
    pub(super) fn len(&self) -> usize {
        self.callbacks.len()
    }

    pub(super) fn answer(&mut self, serial: Serial, answer: Result<Answer, Fault>) {
        if let Some(callback) = self.callbacks.remove(&serial) {
            callback(answer);
        }
    }

    pub(super) fn event(&self, event: HostEvent) {
        // The receiver may have stopped listening.
        let _ = self.events.as_ref().map(|events| events.send(event));
    }

    /// The domain has ended: answers all requests.
    pub(super) fn end(&mut self) {
        let ended = || Fault::new(FaultKind::DomainEnded, "the domain has ended");
        std::mem::take(&mut self.callbacks).into_values().for_each(|callback| callback(Err(ended())));
        for done in self.ending.drain(..) {
            // The receiver may have stopped waiting.
            let _ = done.send(());
        }
    }
}
