//! A site: a service, its store, and their process.

use std::collections::BTreeMap;

use gpc_rendezvous::machine::{Input, Millis, Output, Service, Ticket};
use gpc_rendezvous::{Answer, Fault, Limits, Request, ResourceId};

use super::driver::Driver;
use crate::support::maps::Maps;

/// Sender of a request.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Requester {
    Task(usize),
    /// The driver of a resource, in one run of its site's process.
    Driver(usize, u32, ResourceId),
}

pub(crate) type Outcome = Result<Answer, Fault>;

/// A message to a site.
#[derive(Clone, Debug)]
pub(crate) enum Mail {
    /// A request, with the sender's number of it.
    Ask(Requester, u64, Request),
    HangUp(Requester, u64),
    Input(Input),
}

pub(crate) struct Site {
    /// `None` while the process is down.
    pub(crate) service: Option<Service>,
    /// Number of restarts of the process.
    pub(crate) runs: u32,
    pub(crate) kept: Maps,
    pub(crate) inbox: Vec<Mail>,
    /// Time of the next wake-up; the end of time if there is none.
    pub(crate) wake: Millis,
    pub(crate) drivers: BTreeMap<ResourceId, Driver>,
    asked: BTreeMap<Ticket, (Requester, u64)>,
    tickets: u64,
}

impl Site {
    pub(crate) fn new() -> Site {
        Site {
            service: Some(Service::new(Limits::default())),
            runs: 0,
            kept: Maps::default(),
            inbox: Vec::new(),
            wake: Millis::MAX,
            drivers: BTreeMap::new(),
            asked: BTreeMap::new(),
            tickets: 0,
        }
    }

    /// Ends the process; the stored state stays.
    pub(crate) fn crash(&mut self) {
        self.service = None;
        self.runs += 1;
        self.wake = Millis::MAX;
        self.inbox.clear();
        self.drivers.clear();
        self.asked.clear();
    }

    pub(crate) fn restart(&mut self, now: Millis) {
        self.service = Some(Service::restored(Limits::default(), self.kept.load(), now));
    }

    pub(crate) fn take(&mut self, now: Millis, mail: Mail) {
        let Some(service) = &mut self.service else { return };
        match mail {
            Mail::Ask(requester, number, request) => {
                self.tickets += 1;
                let ticket = Ticket(self.tickets);
                self.asked.insert(ticket, (requester, number));
                service.handle(now, Input::Ask(ticket, request));
            }
            Mail::HangUp(requester, number) => {
                let of_requester = |ticket: &(&Ticket, &(Requester, u64))| *ticket.1 == (requester, number);
                let gone: Vec<Ticket> =
                    self.asked.iter().filter(of_requester).map(|(ticket, _)| *ticket).collect();
                for ticket in gone {
                    self.asked.remove(&ticket);
                    service.handle(now, Input::Cancelled(ticket));
                }
            }
            Mail::Input(input) => service.handle(now, input),
        }
    }

    pub(crate) fn outputs(&mut self) -> Vec<Output> {
        let service = self.service.iter_mut();
        service.flat_map(|service| std::iter::from_fn(|| service.next_output())).collect()
    }

    /// The sender of the request, if the answer is still awaited.
    pub(crate) fn requester(&mut self, ticket: Ticket) -> Option<(Requester, u64)> {
        self.asked.remove(&ticket)
    }

    /// The immediate answer to a request of the checker.
    pub(crate) fn look(&mut self, now: Millis, request: Request) -> Option<Outcome> {
        let service = self.service.as_mut()?;
        service.handle(now, Input::Ask(Ticket(0), request));
        let mut outcome = None;
        let mut others = Vec::new();
        while let Some(output) = service.next_output() {
            match output {
                Output::Answer(Ticket(0), answer) => outcome = Some(answer),
                other => others.push(other),
            }
        }
        assert!(others.is_empty(), "nothing is due: {others:?}");
        outcome
    }
}
