//! Measures the cost of a registrant at one resource, in process, by the number of registrants. Variants are the state
//! machine alone, the service thread, and the thread with a store. Also compares level-n data with a plain copy.

#![allow(missing_docs, reason = "criterion's macros write functions")]

use std::sync::mpsc::channel;
use std::time::Duration;

use bytes::Bytes;
use chained_gpc::wire::level::{Leaves, Limits as LevelLimits, validate};
use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use gpc_rendezvous::machine::{Input, Output, RandomValues, Service, Ticket, join_data};
use gpc_rendezvous::{
    Answer, Life, Limits, RankChoice, Request, ResourceId, Scope, ServiceThread, Spec, Store, Token,
};

const REGISTRANTS: [u32; 3] = [1000, 10_000, 100_000];

/// Length of a task's data, such as its address, bytes.
const CONTACT: usize = 64;

/// Number of requests in progress at a time.
const WINDOW: u32 = 16_384;

const RESOURCE: ResourceId = ResourceId([1; 16]);

fn create(capacity: u32) -> Request {
    let random = RandomValues { id: RESOURCE, token: token(u32::MAX), joint: None };
    Request::Create { spec: Spec::new(capacity.into()), random }
}

#[expect(clippy::unwrap_used, reason = "a number is a token")]
fn token(number: u32) -> Token {
    Token::new(&format!("{number:032}")).unwrap()
}

/// All registrations, each followed by a wait.
fn requests(registrants: u32) -> Vec<Request> {
    let data = Bytes::from(vec![7; CONTACT]);
    let register = |number| {
        let (token, data, life) = (token(number), data.clone(), Life::Lease(60_000));
        Request::Register { resource: RESOURCE, rank: RankChoice::Assign, token, data: data.into(), life }
    };
    let wait = |number| {
        let (of, token) = (Scope::Own, Some(token(number)));
        Request::Wait { resource: RESOURCE, of, until: None, token }
    };
    (0..registrants).flat_map(|number| [register(number), wait(number)]).collect()
}

/// All register and wait, and receive the completion.
fn meet(requests: Vec<Request>, registrants: u32) {
    let (mut service, mut completed) = (Service::new(Limits::default()), 0);
    service.handle(1, Input::Ask(Ticket(u64::MAX), create(registrants)));
    for (ticket, request) in (0..).zip(requests) {
        service.handle(1, Input::Ask(Ticket(ticket), request));
        while let Some(output) = service.next_output() {
            completed += u32::from(matches!(output, Output::Answer(_, Ok(Answer::Completed(_)))));
        }
    }
    assert_eq!(completed, registrants);
}

/// The same through the service thread.
fn meet_at_desk(requests: Vec<Request>, registrants: u32, store: Option<Box<dyn Store>>) {
    #[expect(clippy::unwrap_used, reason = "a machine without a thread measures nothing")]
    let service_thread = ServiceThread::start(Limits::default(), store, |_, _| {}).unwrap();
    let (told, answers) = channel();
    let ask = |request| {
        let told = told.clone();
        service_thread.desk().ask(request, move |answer| drop(told.send(answer))).detach();
    };
    ask(create(registrants));
    let (mut registered, mut completed) = (0, 0);
    let mut count = || match answers.recv() {
        Ok(Ok(Answer::Registered(_))) => registered += 1,
        Ok(Ok(Answer::Completed(_))) => completed += 1,
        Ok(Ok(_)) => {}
        other => panic!("{other:?}"),
    };
    count();
    for (asked, request) in (0..).zip(requests) {
        ask(request);
        // Requests in progress must fit into the service's queue.
        if asked > WINDOW && asked % 2 == 0 {
            count();
        }
    }
    // Each registrant has two answers, and some have been counted.
    for _ in 0..2 * registrants - registrants.saturating_sub(1 + WINDOW / 2) {
        count();
    }
    assert_eq!((registered, completed), (registrants, registrants));
}

fn registrants(criterion: &mut Criterion) {
    for registrants in REGISTRANTS {
        let requests = requests(registrants);
        let mut group = criterion.benchmark_group(format!("meet/{registrants}"));
        group.sample_size(10).measurement_time(Duration::from_secs(5));
        group.throughput(Throughput::Elements(registrants.into()));
        group.bench_function("machine", |bencher| {
            bencher.iter_batched(
                || requests.clone(),
                |requests| meet(requests, registrants),
                BatchSize::PerIteration,
            );
        });
        group.bench_function("keeper", |bencher| {
            bencher.iter_batched(
                || requests.clone(),
                |requests| meet_at_desk(requests, registrants, None),
                BatchSize::PerIteration,
            );
        });
        #[cfg(feature = "store")]
        group.bench_function("keeper-with-store", |bencher| {
            bencher.iter_batched(
                || (requests.clone(), stored()),
                |(requests, (folder, store))| {
                    meet_at_desk(requests, registrants, Some(Box::new(store)));
                    folder
                },
                BatchSize::PerIteration,
            );
        });
        group.finish();
    }
}

#[cfg(feature = "store")]
#[expect(clippy::unwrap_used, reason = "a disk that cannot be written to measures nothing")]
fn stored() -> (tempfile::TempDir, gpc_rendezvous::store::FileStore) {
    let folder = tempfile::tempdir().unwrap();
    let store = gpc_rendezvous::store::FileStore::open(&folder.path().join("store")).unwrap();
    (folder, store)
}

/// Level-n data of 4 KiB from each registrant, in comparison with a copy of them into new memory.
fn level(criterion: &mut Criterion) {
    let members: Vec<Bytes> = (0..8192_u32).map(|member| vec![member as u8; 4096].into()).collect();
    let (data, _) = join_data(1, members.iter());
    let (above, _) = join_data(2, [&data].into_iter());
    let mut group = criterion.benchmark_group("level/4KiB");
    group.sample_size(20).throughput(Throughput::Bytes(data.len() as u64));
    group.bench_function("copy-members", |bencher| {
        bencher.iter(|| {
            let mut out = Vec::with_capacity(data.len());
            members.iter().for_each(|member| out.extend_from_slice(member));
            out
        });
    });
    group.bench_function("joined", |bencher| bencher.iter(|| join_data(1, members.iter())));
    group.bench_function("copy-whole", |bencher| bencher.iter(|| data.to_vec()));
    group.bench_function("validate", |bencher| {
        bencher.iter(|| validate(2, &above, LevelLimits::default()));
    });
    group.bench_function("leaves-copied", |bencher| {
        bencher.iter(|| {
            let mut out = Vec::with_capacity(data.len());
            for leaf in Leaves::new(1, &data, LevelLimits::default()).flatten() {
                out.extend_from_slice(leaf);
            }
            out
        });
    });
    group.finish();
}

criterion_group!(benches, registrants, level);
criterion_main!(benches);
