//! Clusters of processes, simulated by threads, form one set of nodes through a server.

use std::net::IpAddr;
use std::sync::{Arc, Barrier, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use chained_gpc::bootstrap::{Bootstrap, BootstrapError, Member};
use chained_gpc::runtime::Loss;
use chained_gpc::{Call, Functions, Id, IdList, Secret, Tree};
use gpc_impi::bootstrap::{Setup, with_cluster};
use gpc_impi::serve::{Listener, ServeError};
use gpc_impi::server::{Event, Settings};
use gpc_impi::wire::{Key, Methods};

/// Longer than any successful step takes.
const PATIENCE: Duration = Duration::from_secs(60);

/// A served session: its result, and its events.
type Served = JoinHandle<(Result<(), ServeError>, Vec<Event>)>;

/// A server for this number of clients, which must have this key if there is one. Returns its address.
fn serve(clients: u32, key: Option<&str>) -> (String, Served) {
    let listener = Listener::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let settings = Settings { limit: PATIENCE, ..Settings::new(clients, methods(key)) };
    let served = thread::spawn(move || {
        let mut events = Vec::new();
        (listener.serve(settings, |_, event| events.push(event.clone())), events)
    });
    (address, served)
}

fn methods(key: Option<&str>) -> Methods {
    let key: Option<Key> = key.map(|key| key.parse().unwrap());
    Methods { none: key.is_none(), key }
}

fn setup(server: &str, rank: u32, key: Option<&str>) -> Setup {
    Setup { server: server.to_owned(), rank, methods: methods(key), secret: Secret::new(&[7; 32]).unwrap() }
}

/// What a process does with its bootstrap.
type Continuation<T> = Arc<dyn Fn(Bootstrap) -> T + Send + Sync>;

/// A thread for each process of a cluster, with this number of processes on each host. Ids are assigned to the hosts in
/// turn.
fn cluster<T: Send + 'static>(setup: &Setup, hosts: &[u32], then: &Continuation<T>) -> Vec<JoinHandle<T>> {
    let count: u32 = hosts.iter().sum();
    let mut places: Vec<(u32, usize)> = hosts
        .iter()
        .enumerate()
        .flat_map(|(host, processes)| (0..*processes).map(move |turn| (turn, host)))
        .collect();
    places.sort_unstable();
    let all: Arc<(Mutex<Vec<Vec<u8>>>, Barrier)> =
        Arc::new((Mutex::new(vec![Vec::new(); count as usize]), Barrier::new(count as usize)));
    let start = |(id, (_, host)): (Id, (u32, usize))| {
        let (setup, all, then) = (setup.clone(), all.clone(), then.clone());
        thread::spawn(move || {
            let address: IpAddr = format!("127.2.{}.{}", setup.rank, host + 1).parse().unwrap();
            let exchange = move |mine: &[u8]| -> Result<Vec<Vec<u8>>, String> {
                all.0.lock().unwrap()[id as usize] = mine.to_vec();
                all.1.wait();
                Ok(all.0.lock().unwrap().clone())
            };
            let own = Bootstrap::with_allgather(id, count, exchange).unwrap().host_address(address);
            then(with_cluster(setup, Some(own)).host_address(address))
        })
    };
    (0..).zip(places).map(start).collect()
}

fn ended<T>(threads: Vec<JoinHandle<T>>) -> Vec<T> {
    threads.into_iter().map(|thread| thread.join().unwrap()).collect()
}

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

/// Calls all ids along a tree that keeps clusters and hosts together.
fn call_all(member: &Member) {
    let ids = IdList::range(0..member.count()).with_first(member.id());
    let tree = member.hosts().layout(&ids, &Tree::Binomial, &chained_gpc::trees::Limits::default()).unwrap();
    let func = member.functions().named("id").unwrap();
    let outcome = member.call(Call::new(func).ids(ids).tree(tree)).unwrap().wait().unwrap();
    assert_eq!(outcome.replies().unwrap().len(), member.count() as usize);
}

/// Three clusters of 3, 2 and 2 hosts, some of them with several processes.
#[test]
fn clusters_of_any_shape_become_one_set() {
    let key = Some("13577531");
    let (server, served) = serve(3, key);
    let barrier = Arc::new(Barrier::new(10));
    let then: Continuation<(Id, Vec<String>, chained_gpc::Job)> = Arc::new(move |bootstrap: Bootstrap| {
        assert_eq!((bootstrap.id(), bootstrap.launcher()), (None, "IMPI"));
        let mut member = bootstrap.limit(PATIENCE).start(&functions(), |builder| builder).unwrap();
        call_all(&member);
        let groups = (0..member.count()).map(|id| member.hosts().host(id).unwrap().to_owned()).collect();
        let seen = (member.id(), groups, member.job());
        barrier.wait();
        assert_eq!(member.serve_until_left().unwrap(), Loss::Left);
        member.finish(PATIENCE).unwrap();
        seen
    });
    let shapes: [&[u32]; 3] = [&[2, 1, 1], &[1, 1], &[1, 3]];
    let threads: Vec<_> = (0..)
        .zip(shapes)
        .flat_map(|(rank, hosts)| cluster(&setup(&server, rank, key), hosts, &then))
        .collect();
    let members = ended(threads);
    let ids: Vec<Id> = members.iter().map(|(id, ..)| *id).collect();
    // In the first cluster, the fourth process is the second one of the first host.
    assert_eq!(ids, [0, 2, 3, 1, 4, 5, 6, 7, 8, 9]);
    let expected = [(0, 1), (0, 1), (0, 2), (0, 3), (1, 1), (1, 2), (2, 1), (2, 2), (2, 2), (2, 2)]
        .map(|(cluster, host)| format!("client-{cluster}/127.2.{cluster}.{host}"));
    assert!(members.iter().all(|(_, groups, job)| *groups == expected && *job == members[0].2));
    let (result, events) = served.join().unwrap();
    result.unwrap();
    assert_eq!(events.iter().filter(|event| event.to_string().contains("FINI")).count(), 3, "{events:?}");
}

/// The errors of a cluster's processes whose bootstrap fails.
fn errors(setup: &Setup, limit: Duration) -> Vec<String> {
    let then: Continuation<BootstrapError> = Arc::new(move |bootstrap: Bootstrap| {
        bootstrap.limit(limit).start(&functions(), |builder| builder).map(drop).unwrap_err()
    });
    ended(cluster(setup, &[1, 1, 1], &then)).iter().map(BootstrapError::to_string).collect()
}

#[test]
fn all_processes_of_a_cluster_are_told_why_there_is_nothing() {
    // Another cluster is missing. The message has the whole limit, although a part of it had passed before.
    let (server, served) = serve(2, None);
    let limit = Duration::from_secs(2);
    for error in errors(&setup(&server, 0, None), limit) {
        assert!(error.contains("not all clients were done within 2s"), "{error}");
    }
    // The rank is too high, so the server closes the connection.
    for error in errors(&setup(&server, 7, None), PATIENCE) {
        assert!(
            error.contains("client 7 at 127.0.0.1") && error.contains("rank is taken or too high"),
            "{error}"
        );
    }
    // There is no server.
    for (id, error) in errors(&setup("127.0.0.1:1", 0, None), PATIENCE).into_iter().enumerate() {
        assert!(error.contains("no connection to the IMPI server `127.0.0.1:1`"), "{error}");
        assert_eq!(error.contains("the root of this cluster, client 0, has given up"), id > 0, "{error}");
    }
    // The server has received no FINI and still waits for both clients; it ends with this process.
    assert!(!served.is_finished());
}

/// If a root panicked during the session, its node leaves, and the other processes detect that.
#[test]
fn a_root_that_goes_is_seen_by_all() {
    let (server, _served) = serve(2, None);
    let setup = setup(&server, 0, None);
    let all = Arc::new((Mutex::new(vec![Vec::new(); 3]), Barrier::new(3)));
    let start = |id: Id| {
        let (all, setup) = (all.clone(), setup.clone());
        thread::spawn(move || {
            let exchange = move |mine: &[u8]| -> Result<Vec<Vec<u8>>, String> {
                all.0.lock().unwrap()[id as usize] = mine.to_vec();
                all.1.wait();
                Ok(all.0.lock().unwrap().clone())
            };
            let own = Bootstrap::with_allgather(id, 3, exchange).unwrap().host_address([127, 2, 9, 1].into());
            match id {
                // A different program from the others': it runs, but has no IMPI functions.
                0 => {
                    own.start(&functions(), |builder| builder).map(drop).err().map(|error| error.to_string())
                }
                _ => {
                    let bootstrap = with_cluster(setup, Some(own)).host_address([127, 2, 9, 1].into());
                    Some(
                        bootstrap
                            .limit(PATIENCE)
                            .start(&functions(), |builder| builder)
                            .map(drop)
                            .unwrap_err()
                            .to_string(),
                    )
                }
            }
        })
    };
    let said = ended((0..3).map(start).collect());
    assert_eq!(said[0], None);
    for said in said[1..].iter().flatten() {
        assert!(said.contains("the root of this cluster, client 0, has gone before"), "{said}");
    }
}
