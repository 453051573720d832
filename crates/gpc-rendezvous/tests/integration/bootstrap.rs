//! Bootstrap by rendezvous with a service on a node: processes, simulated by threads, form one set of nodes.

use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Duration;

use chained_gpc::bootstrap::{BootstrapError, Member};
use chained_gpc::{Call, Functions, Id, IdList, Job, LinkKind, LocalNodes, Loss, Tree};
use gpc_rendezvous::bootstrap::{Resources, with_resources};
use gpc_rendezvous::meeting::{ClientResource, Resource};
use gpc_rendezvous::native::{Client, Host};
use gpc_rendezvous::{Handle, Limits, RankChoice, Spec};
use gpc_test_support::waiting::until;

/// Longer than any successful step takes.
const PATIENCE: Duration = Duration::from_secs(60);

/// A service on id 0 of nodes that are separate from the set. Each process accesses it through one of the other nodes.
struct Service {
    nodes: LocalNodes,
    _host: Host,
}

impl Service {
    fn start(processes: u32) -> Service {
        let functions = Functions::new();
        let host = Host::register(&functions, Limits::default()).unwrap();
        let nodes = LocalNodes::start(processes + 1, LinkKind::Unix, &functions).unwrap();
        host.attach(nodes.root()).unwrap();
        Service { nodes, _host: host }
    }

    fn client(&self, process: u32) -> Client {
        Client::new(self.nodes.node(process + 1).caller(), Job::default(), 0)
    }

    fn create(&self, spec: Spec) -> Handle {
        self.client(0).create(&spec).unwrap()
    }

    fn reached(&self, process: u32, handle: &Handle) -> Arc<dyn Resource> {
        Arc::new(ClientResource::new(self.client(process), handle.clone()))
    }
}

/// The functions of one process.
fn functions() -> Functions {
    let functions = Functions::new();
    functions
        .func("id", |request, reply| {
            reply.data = request.me().to_string().into_bytes();
            Ok(())
        })
        .unwrap();
    functions
}

fn start(resources: Resources, limit: Duration) -> Result<Member, BootstrapError> {
    let bootstrap = with_resources(resources).limit(limit).host_address([127, 0, 0, 1].into());
    bootstrap.start(&functions(), |builder| builder)
}

/// Runs each process on a thread of its own.
fn processes<T: Send>(count: u32, each: impl Fn(u32) -> T + Sync) -> Vec<T> {
    thread::scope(|scope| {
        let each = &each;
        let threads: Vec<_> = (0..count).map(|process| scope.spawn(move || each(process))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

/// Calls all ids from this one, along a chain.
fn call_all(member: &Member) {
    let ids = IdList::range(0..member.count()).with_first(member.id());
    let call = Call::new(member.functions().named("id").unwrap()).ids(ids).tree(Tree::Chain);
    let replies = member.call(call).unwrap().wait().unwrap().replies().unwrap();
    assert_eq!(replies.len(), member.count() as usize);
    assert!(replies.iter().all(|reply| reply.data == reply.id.to_string().as_bytes()));
}

/// Calls all other processes, is called by them, and returns the member's view of the set.
fn in_set(mut member: Member, called: &Barrier) -> (Id, u32, Job, Vec<String>) {
    call_all(&member);
    called.wait();
    let groups = (0..member.count()).map(|id| member.hosts().host(id).unwrap().to_owned()).collect();
    let seen = (member.id(), member.count(), member.job(), groups);
    assert_eq!(member.serve_until_left().unwrap(), Loss::Left);
    member.finish(PATIENCE).unwrap();
    seen
}

/// Subjob 0 has four processes, subjob 1 has two. Ids go by subjob, then by rank, in any order of arrival.
#[test]
fn processes_of_two_jobs_become_one_set() {
    let (service, called) = (Service::start(6), Barrier::new(6));
    let top = service.create(Spec { level: Some(2), joint: true, ..Spec::new(2) });
    let jobs = [4, 2].map(|capacity| service.create(Spec::new(capacity)));
    let seen = processes(6, |process| {
        let (subjob, rank) = if process < 4 { (0, process) } else { (1, process - 4) };
        let resources = Resources {
            job: service.reached(process, &jobs[subjob]),
            rank: RankChoice::Rank(rank.into()),
            multijob: Some(service.reached(process, &top)),
            subjob: RankChoice::Rank(subjob as u64),
        };
        in_set(start(resources, PATIENCE).unwrap(), &called)
    });
    let groups = [[0; 4].as_slice(), &[1; 2]].concat();
    let groups: Vec<String> = groups.iter().map(|subjob| format!("subjob-{subjob}")).collect();
    let job = seen[0].2;
    for (process, seen) in (0..).zip(&seen) {
        assert_eq!((seen.0, seen.1, &seen.3), (process, 6, &groups));
        assert!(seen.2 == job && !job.is_none(), "one job of all of them");
    }
}

#[test]
fn one_job_is_a_set_too_with_ranks_as_they_are_assigned() {
    let (service, called) = (Service::start(3), Barrier::new(3));
    let own = service.create(Spec { joint: true, ..Spec::new(3) });
    let mut seen = processes(3, |process| {
        let job = service.reached(process, &own);
        let resources =
            Resources { job, rank: RankChoice::Assign, multijob: None, subjob: RankChoice::Assign };
        in_set(start(resources, PATIENCE).unwrap(), &called)
    });
    seen.sort();
    assert!(seen.iter().map(|seen| seen.0).eq(0..3));
    assert!(seen.iter().all(|seen| seen.3 == ["job"; 3]));
}

fn refused(service: &Service, own: &Handle, limit: Duration) -> String {
    let job = service.reached(0, own);
    let resources = Resources { job, rank: RankChoice::Assign, multijob: None, subjob: RankChoice::Assign };
    start(resources, limit).map(drop).unwrap_err().to_string()
}

#[test]
fn the_error_names_why_there_is_no_set() {
    let service = Service::start(1);
    let without = service.create(Spec::new(1));
    let error = refused(&service, &without, PATIENCE);
    assert!(error.contains("create the resource at the top with --joint"), "{error}");
    let two = service.create(Spec { joint: true, ..Spec::new(2) });
    // The message had the remaining part of the limit, rounded: on a busy machine it differed from the limit that the
    // user had set.
    let error = refused(&service, &two, Duration::from_secs(2));
    assert!(error.contains("within 2s; 1 of 2 have registered; rank 1 is missing"), "{error}");
    // A process that gives up withdraws its registration, so that another one can replace it.
    assert_eq!(service.client(0).properties(&two).unwrap().tally, 0);
    // Another process registers data that are not an entry.
    let liar = service.create(Spec { joint: true, ..Spec::new(2) });
    let token = gpc_rendezvous::Token::new("liar").unwrap();
    service.reached(0, &liar).register(RankChoice::Rank(0), &token, "nonsense".into()).unwrap();
    let error = refused(&service, &liar, PATIENCE);
    assert!(
        error.contains("rank 0 has registered what no process of this version says of itself"),
        "{error}"
    );
    service.client(0).destroy(&two).unwrap();
    let error = refused(&service, &two, PATIENCE);
    assert!(error.contains("the resource was destroyed on request"), "{error}");
}

/// The process with rank 0 of subjob 1 is lost before its whole subjob has registered.
#[test]
fn a_subjob_that_loses_its_controlling_process_is_named() {
    let mut service = Service::start(2);
    let top = service.create(Spec { level: Some(2), joint: true, ..Spec::new(2) });
    let one = service.create(Spec::new(1));
    let lost = service.reached(1, &top);
    let token = gpc_rendezvous::Token::new("controls").unwrap();
    lost.control(gpc_rendezvous::Unit::Rank(1), "the process of subjob 1", &token).unwrap();
    let resources = Resources {
        job: service.reached(0, &one),
        rank: RankChoice::Assign,
        multijob: Some(service.reached(0, &top)),
        subjob: RankChoice::Rank(0),
    };
    let lost = service.nodes.take(2);
    let client = service.client(0);
    let error = thread::scope(|scope| {
        scope.spawn(|| {
            until("the first waits above", || client.properties(&top).unwrap().waiting > 0);
            drop(lost);
        });
        start(resources, PATIENCE).map(drop).unwrap_err().to_string()
    });
    assert!(
        error.contains("the controlling task of the unit with rank 1, the process of subjob 1, is lost"),
        "{error}"
    );
}
