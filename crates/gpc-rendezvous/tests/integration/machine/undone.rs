//! Batches of requests that are undone: nothing of them is visible, and a store that took them has their undoing.

use chained_gpc::Job;
use gpc_rendezvous::machine::{Change, Input, Millis, Output, RandomValues, Service, Ticket};
use gpc_rendezvous::{Life, Limits, RankChoice, Request, ResourceId, Scope, Spec, Token, Unit};
use proptest::prelude::*;

use crate::support::maps::Maps;

/// The time of all inputs, so that a lease that begins anew ends when it did before.
const NOW: Millis = 1000;

const JOB: Job = Job([7; 16]);

fn id(number: u8) -> ResourceId {
    ResourceId([number; 16])
}

fn token(number: u8) -> Token {
    Token::new(&format!("t{number}")).unwrap()
}

fn life() -> impl Strategy<Value = Life> {
    prop_oneof![Just(Life::Unseen), Just(Life::Lease(10)), Just(Life::Member(1))]
}

fn unit() -> impl Strategy<Value = Unit> {
    prop_oneof![Just(Unit::Own), (0..3_u32).prop_map(Unit::Rank)]
}

/// A request that may change the state.
fn request() -> impl Strategy<Value = Request> {
    let of = (0..3_u8).prop_map(id);
    let tokens = (0..5_u8).prop_map(token);
    let wanted = prop_oneof![Just(RankChoice::Assign), (0..3_u64).prop_map(RankChoice::Rank)];
    prop_oneof![
        2 => (0..3_u8, 1..4_u64, any::<bool>()).prop_map(|(number, capacity, with_job)| {
            let random = RandomValues { id: id(number), token: token(9), joint: None };
            Request::Create { spec: Spec { job: with_job.then_some(JOB), ..Spec::new(capacity) }, random }
        }),
        6 => (of.clone(), wanted, tokens.clone(), life()).prop_map(|(resource, rank, token, life)| {
            let data = token.as_str().to_owned().into();
            Request::Register { resource, rank, token, data, life }
        }),
        2 => (of.clone(), 0..3_u64, tokens.clone())
            .prop_map(|(resource, rank, token)| Request::Withdraw { resource, rank, token }),
        3 => (of.clone(), unit(), tokens.clone(), life()).prop_map(|(resource, unit, token, life)| {
            Request::Control { resource, unit, name: "task".into(), token, life }
        }),
        2 => (of.clone(), unit(), tokens, any::<bool>()).prop_map(|(resource, unit, token, lost)| {
            Request::Release { resource, unit, token, lost: lost.then(|| "it broke".into()) }
        }),
        1 => of.prop_map(Request::Destroy),
        1 => Just(Request::EndJob(JOB)),
    ]
}

/// A request of the time before a batch, when tasks wait as well.
fn earlier() -> impl Strategy<Value = Request> {
    let wait = (0..3_u8, prop::option::of(0..5_u8)).prop_map(|(number, of)| Request::Wait {
        resource: id(number),
        of: Scope::Own,
        until: Some(NOW + 50),
        token: of.map(token),
    });
    prop_oneof![4 => request(), 1 => wait]
}

fn changes(service: &mut Service) -> Vec<Change> {
    let outputs = std::iter::from_fn(|| service.next_output());
    let changes = outputs.filter_map(|output| match output {
        Output::Store(change) => Some(change),
        Output::Answer(..) | Output::ParentAction(..) => None,
    });
    changes.collect()
}

/// The whole state but for the memory of ended resources.
fn state(service: &Service) -> String {
    let text = format!("{service:?}");
    text.split_once(" ended: ").unwrap().0.to_owned()
}

proptest! {
    /// A registration that the store could not take was refused, and yet it counted: it took a rank, and completed its
    /// resource.
    #[test]
    fn what_is_undone_leaves_nothing(
        before in prop::collection::vec(earlier(), 0..40),
        batch in prop::collection::vec(request(), 1..12),
    ) {
        let mut service = Service::new(Limits::default());
        let mut maps = Maps::default();
        for (number, request) in before.into_iter().enumerate() {
            service.handle(NOW, Input::Ask(Ticket(number as u64), request));
            maps.save(&changes(&mut service));
        }
        service.handle(NOW, Input::Tick);
        let (was, kept) = (state(&service), maps.clone());
        let batch: Vec<Request> = batch.into_iter().filter(|request| service.adds(request)).collect();
        service.begin();
        for (number, request) in batch.into_iter().enumerate() {
            service.handle(NOW, Input::Ask(Ticket(1000 + number as u64), request));
        }
        let asked = changes(&mut service);
        service.roll_back();
        let undoing = changes(&mut service);
        prop_assert_eq!(state(&service), was);
        // The store has taken the batch, or has not.
        let mut taken = maps.clone();
        taken.save(&asked);
        for mut store in [taken, maps] {
            store.save(&undoing);
            prop_assert_eq!(&store, &kept);
        }
    }
}
