//! A service, its store, and the process that they are in.

use std::collections::BTreeMap;

use gpc_rendezvous::machine::{Input, Millis, Output, Service, Ticket};
use gpc_rendezvous::{Answer, Fault, Limits, Request, ResourceId};

use super::driver::Driver;
use super::maps::Maps;

/// Who asks.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Asker {
    Task(usize),
    /// A controlling driver of a resource, in a run of its site's process.
    Driver(usize, u32, ResourceId),
}

pub(crate) type Outcome = Result<Answer, Fault>;

/// What comes to a site.
#[derive(Clone, Debug)]
pub(crate) enum Mail {
    /// With the asker's number of the request.
    Ask(Asker, u64, Request),
    HangUp(Asker, u64),
    Input(Input),
}

pub(crate) struct Site {
    /// None while the process is down.
    pub(crate) service: Option<Service>,
    /// How many processes there have been.
    pub(crate) runs: u32,
    pub(crate) kept: Maps,
    pub(crate) inbox: Vec<Mail>,
    /// When it is woken next; at the end of time if it is not.
    pub(crate) wake: Millis,
    pub(crate) drivers: BTreeMap<ResourceId, Driver>,
    asked: BTreeMap<Ticket, (Asker, u64)>,
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

    /// The process ends; what was kept stays.
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
            Mail::Ask(asker, number, request) => {
                self.tickets += 1;
                let ticket = Ticket(self.tickets);
                self.asked.insert(ticket, (asker, number));
                service.handle(now, Input::Ask(ticket, request));
            }
            Mail::HangUp(asker, number) => {
                let of_asker = |ticket: &(&Ticket, &(Asker, u64))| *ticket.1 == (asker, number);
                let gone: Vec<Ticket> =
                    self.asked.iter().filter(of_asker).map(|(ticket, _)| *ticket).collect();
                for ticket in gone {
                    self.asked.remove(&ticket);
                    service.handle(now, Input::Gone(ticket));
                }
            }
            Mail::Input(input) => service.handle(now, input),
        }
    }

    pub(crate) fn outputs(&mut self) -> Vec<Output> {
        let service = self.service.iter_mut();
        service.flat_map(|service| std::iter::from_fn(|| service.next_output())).collect()
    }

    /// Whose answer it is, if anybody still listens.
    pub(crate) fn asker(&mut self, ticket: Ticket) -> Option<(Asker, u64)> {
        self.asked.remove(&ticket)
    }

    /// What is answered at once, to nobody.
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
