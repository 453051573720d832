//! A service with a minimal driver: it handles each input and sorts its outputs before the next.

use std::collections::BTreeMap;

use bytes::Bytes;
use chained_gpc::{Id, Job, Secret};
use gpc_rendezvous::machine::{Input, Millis, Output, ParentAction, RandomValues, Service, Ticket};
use gpc_rendezvous::{
    Answer, Completion, Fault, Joint, Life, Limits, Properties, RankChoice, Registration, Request,
    ResourceId, Scope, Spec, Token, Unit,
};

use super::maps::Maps;

pub(crate) type Outcome = Result<Answer, Fault>;

pub(crate) struct Driven {
    pub(crate) service: Service,
    pub(crate) limits: Limits,
    pub(crate) now: Millis,
    pub(crate) kept: Maps,
    /// Actions at parents since the last check.
    pub(crate) ups: Vec<(ResourceId, ParentAction)>,
    answers: BTreeMap<Ticket, Outcome>,
    tickets: u64,
    ids: u8,
}

pub(crate) fn token(name: &str) -> Token {
    Token::new(name).unwrap()
}

pub(crate) fn id(number: u8) -> ResourceId {
    ResourceId([number; 16])
}

pub(crate) fn joint() -> Joint {
    Joint { job: Job([7; 16]), secret: Secret::new(&[8; 32]).unwrap() }
}

impl Driven {
    pub(crate) fn new(limits: Limits) -> Driven {
        let (kept, ups, answers) = (Maps::default(), Vec::new(), BTreeMap::new());
        Driven { service: Service::new(limits), limits, now: 1000, kept, ups, answers, tickets: 0, ids: 0 }
    }

    /// Restarts the service with its stored state, as after SIGKILL. Waits get no answer.
    pub(crate) fn restart(&mut self) {
        self.service = Service::restored(self.limits, self.kept.load(), self.now);
        self.answers.clear();
        self.drain();
    }

    /// Advances the time, with an input at each deadline of the service.
    pub(crate) fn at(&mut self, now: Millis) {
        while let Some(at) = self.service.deadline().filter(|at| *at <= now) {
            self.now = self.now.max(at);
            self.input(Input::Tick);
        }
        self.now = now;
    }

    pub(crate) fn input(&mut self, input: Input) {
        self.service.handle(self.now, input);
        self.drain();
    }

    fn drain(&mut self) {
        while let Some(output) = self.service.next_output() {
            match output {
                Output::Answer(ticket, outcome) => {
                    assert!(self.answers.insert(ticket, outcome).is_none(), "a second answer to {ticket:?}");
                }
                Output::Store(change) => self.kept.save(&[change]),
                Output::ParentAction(id, up) => self.ups.push((id, up)),
            }
        }
    }

    pub(crate) fn ask(&mut self, request: Request) -> Ticket {
        self.tickets += 1;
        let ticket = Ticket(self.tickets);
        self.input(Input::Ask(ticket, request));
        ticket
    }

    /// The answer, if there is one by now.
    pub(crate) fn answer(&self, ticket: Ticket) -> Option<Outcome> {
        self.answers.get(&ticket).cloned()
    }

    /// The answer to a request that is answered immediately.
    pub(crate) fn told(&mut self, request: Request) -> Outcome {
        let ticket = self.ask(request);
        self.answer(ticket).expect("it is answered at once")
    }

    pub(crate) fn try_create(&mut self, spec: Spec) -> Result<ResourceId, Fault> {
        self.ids += 1;
        let joint = spec.joint.then(joint);
        let random = RandomValues { id: id(self.ids), token: token(&format!("above-{}", self.ids)), joint };
        match self.told(Request::Create { spec, random })? {
            Answer::Created(id) => Ok(id),
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn create(&mut self, spec: Spec) -> ResourceId {
        self.try_create(spec).unwrap()
    }

    pub(crate) fn register_with(
        &mut self,
        resource: ResourceId,
        rank: RankChoice,
        name: &str,
        data: &[u8],
        life: Life,
    ) -> Result<Registration, Fault> {
        let data = Bytes::copy_from_slice(data).into();
        match self.told(Request::Register { resource, rank, token: token(name), data, life })? {
            Answer::Registered(registered) => Ok(registered),
            other => panic!("{other:?}"),
        }
    }

    /// Registers with the name as token and data.
    pub(crate) fn register(
        &mut self,
        resource: ResourceId,
        rank: RankChoice,
        name: &str,
    ) -> Result<Registration, Fault> {
        self.register_with(resource, rank, name, name.as_bytes(), Life::Unseen)
    }

    pub(crate) fn wait(&mut self, resource: ResourceId) -> Ticket {
        self.ask(Request::Wait { resource, of: Scope::Own, until: None, token: None })
    }

    /// The completion that a wait returns immediately.
    pub(crate) fn completion(&mut self, resource: ResourceId) -> Result<Completion, Fault> {
        let ticket = self.wait(resource);
        match self.answer(ticket).expect("it is known")? {
            Answer::Completed(completion) => Ok(completion),
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn control(&mut self, resource: ResourceId, unit: Unit, name: &str, life: Life) -> Outcome {
        self.told(Request::Control { resource, unit, name: name.into(), token: token(name), life })
    }

    pub(crate) fn properties(&mut self, resource: ResourceId) -> Properties {
        match self.told(Request::Properties(resource)) {
            Ok(Answer::Properties(properties)) => *properties,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn lost(&mut self, member: Id) {
        self.input(Input::Lost { member, why: "the cable\nis cut".into() });
    }

    /// Checks that nothing is left of ended resources.
    pub(crate) fn assert_empty(&self) {
        assert_eq!((self.service.load(), self.service.deadline()), ((0, 0, 0), None));
        assert!(self.service.is_empty(), "{:?}", self.service);
        assert_eq!(self.kept, Maps::default());
    }
}
