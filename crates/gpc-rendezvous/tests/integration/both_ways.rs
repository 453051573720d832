//! One service that is accessible over HTTP and on a node: each job uses either way.
#![cfg(feature = "http")]

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use chained_gpc::{Functions, Id, Job, LinkKind, LocalNodes};
use gpc_rendezvous::client::{self, ClientOptions};
use gpc_rendezvous::http::{Options, Server};
use gpc_rendezvous::meeting::{ClientResource, MeetError, Plan, Resource, Tasks};
use gpc_rendezvous::native::{Client, Host};
use gpc_rendezvous::{Completion, FaultKind, Handle, RankChoice, Spec};

/// Longer than any successful step takes.
const PATIENCE: Duration = Duration::from_secs(60);

/// The service, on id 0 and over HTTP, and two jobs: ids 1 to 3, and ids 4 and 5.
struct World {
    server: Server,
    _host: Host,
    nodes: LocalNodes,
    tasks: Vec<Tasks>,
    http: Arc<client::Client>,
}

fn job(id: Id) -> std::ops::Range<Id> {
    if id < 4 { 1..4 } else { 4..6 }
}

impl World {
    fn start() -> World {
        let server = Server::start(Options::new(([127, 0, 0, 1], 0).into())).unwrap();
        let functions: Vec<Functions> = (0..6).map(|_| Functions::new()).collect();
        let register = |(id, functions)| Tasks::register(functions, job(id).start).unwrap();
        let tasks = (0..).zip(&functions).map(register).collect();
        let host = Host::on_desk(&functions[0], server.desk().clone()).unwrap();
        let nodes = LocalNodes::start_with(6, LinkKind::Unix, &Functions::new(), |id, builder| {
            builder.functions(&functions[id as usize])
        });
        let nodes = nodes.unwrap();
        host.attach(nodes.root()).unwrap();
        let http = Arc::new(client::Client::new(&ClientOptions::default()).unwrap());
        World { server, _host: host, nodes, tasks, http }
    }

    fn native(&self, id: Id) -> Client {
        Client::new(self.nodes.node(id).caller(), Job::default(), 0)
    }

    /// The same resource, accessed over HTTP.
    fn over_http(&self, handle: &Handle) -> Arc<dyn Resource> {
        let handle = Handle::new(self.server.url(), handle.resource()).unwrap();
        Arc::new(ClientResource::new(self.http.clone(), handle))
    }

    fn on_node(&self, id: Id, handle: &Handle) -> Arc<dyn Resource> {
        Arc::new(ClientResource::new(self.native(id), handle.clone()))
    }

    fn meet(&self, plan: impl Fn(Id) -> Plan) -> Vec<Result<Completion, MeetError>> {
        thread::scope(|scope| {
            let meet = |id: Id| {
                let (tasks, node, plan) = (&self.tasks[id as usize], self.nodes.node(id), plan(id));
                scope.spawn(move || tasks.meet(node, plan))
            };
            let threads: Vec<_> = (1..6).map(meet).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        })
    }
}

/// The first job uses resources over HTTP only. The second gathers by a call, and registers with the parent through
/// nodes.
#[test]
fn one_job_meets_over_http_and_the_other_by_nodes() {
    let world = World::start();
    let top = world.native(1).create(&Spec { level: Some(2), joint: true, ..Spec::new(2) }).unwrap();
    let own = world.native(1).create(&Spec::new(3)).unwrap();
    let ended = world.meet(|id| {
        let plan = Plan::new(job(id), format!("{id}"), PATIENCE);
        match id {
            1 => plan.at(world.over_http(&own)).below(world.over_http(&top), RankChoice::Rank(0)),
            2 | 3 => plan.at(world.over_http(&own)),
            _ => plan.below(world.on_node(id, &top), RankChoice::Rank(1)),
        }
    });
    for ended in &ended {
        let completion = ended.as_ref().unwrap();
        assert_eq!(completion.data, "2 3 1 11 21 32 1 41 5");
        assert!(completion.joint.is_some());
    }
    let joint = |ended: &Result<Completion, MeetError>| ended.as_ref().unwrap().joint.clone();
    assert!(ended.iter().all(|one| joint(one) == joint(&ended[0])));
}

/// The service controls units that a node creates, like those created over HTTP.
#[test]
fn the_service_controls_the_units_of_nodes() {
    let world = World::start();
    let top = world.native(1).create(&Spec { level: Some(2), ..Spec::new(1) }).unwrap();
    let above = Handle::new(world.server.url(), top.resource()).unwrap();
    let parent = gpc_rendezvous::Parent { handle: above, rank: RankChoice::Rank(0) };
    let own = world.native(1).create(&Spec { parent: Some(parent), ..Spec::new(1) }).unwrap();
    let token = gpc_rendezvous::Token::new("t").unwrap();
    let resource = world.on_node(2, &own);
    resource.register(RankChoice::Assign, &token, "x".into()).unwrap();
    let completion = resource.wait(gpc_rendezvous::Scope::Top, &token, PATIENCE).unwrap().unwrap();
    assert_eq!((completion.level, &completion.data[..]), (2, &b"1 1 1 x"[..]));
}

/// Faults are the same either way, and so is the fault of an unreachable service.
#[test]
fn both_ways_say_the_same() {
    let world = World::start();
    let handle = world.native(1).create(&Spec::new(1)).unwrap();
    let token = gpc_rendezvous::Token::new("t").unwrap();
    for resource in [world.over_http(&handle), world.on_node(3, &handle)] {
        let fault = resource.register(RankChoice::Rank(1), &token, "x".into()).unwrap_err();
        assert_eq!((fault.kind, fault.rank), (FaultKind::RankOutOfRange, Some(1)));
        assert_eq!(resource.wait(gpc_rendezvous::Scope::Own, &token, Duration::ZERO), Ok(None));
        assert_eq!(resource.properties().unwrap().missing, [0]);
    }
    let World { server, nodes, http, .. } = world;
    let gone = Handle::new(server.url(), handle.resource()).unwrap();
    server.shutdown(Duration::from_secs(1));
    drop(http);
    // `ClientOptions` is non-exhaustive, so other packages cannot construct it directly.
    let mut options = ClientOptions::default();
    options.limit = Duration::from_millis(50);
    let resource = ClientResource::new(Arc::new(client::Client::new(&options).unwrap()), gone);
    assert_eq!(resource.properties().unwrap_err().kind, FaultKind::Unavailable);
    drop(nodes);
}
