//! Tests of bootstrap: threads take the part of processes, which learn of each other through a space or an exchange of
//! their own.

mod fake;
mod wrong;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Barrier, Mutex};
use std::thread;
use std::time::Duration;

use chained_gpc::bootstrap::{Bootstrap, BootstrapError, Farewell, Meeting, MeetingLimit, Member};
use chained_gpc::runtime::Loss;
use chained_gpc::{Address, Call, Functions, Id, IdList, LinkKind, Tree};

use fake::Table;

/// Long enough for everything that succeeds.
const PATIENCE: Duration = Duration::from_secs(60);

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

/// Runs a process on a thread for each id.
fn processes<T: Send + 'static>(count: u32, each: impl Fn(Id) -> T + Send + Sync + 'static) -> Vec<T> {
    let each = Arc::new(each);
    let start = |id| {
        let each = each.clone();
        thread::spawn(move || each(id))
    };
    let threads: Vec<_> = (0..count).map(start).collect();
    threads.into_iter().map(|thread| thread.join().unwrap()).collect()
}

/// Calls all ids from this one, along a list in which neighbours have not been linked before.
fn call_all(member: &Member) {
    let func = member.functions().named("id").unwrap();
    let ids = IdList::range(0..member.count()).with_first(member.id());
    let outcome = member.call(Call::new(func).ids(ids).tree(Tree::Chain)).unwrap().wait().unwrap();
    let replies = outcome.replies().unwrap();
    assert_eq!(replies.len(), member.count() as usize);
    assert!(replies.iter().all(|reply| reply.data == reply.id.to_string().as_bytes()));
}

#[test]
fn all_know_all_when_any_of_them_does() {
    for (count, one_host, link) in [
        (9, Some(true), LinkKind::DEFAULT),
        (5, Some(true), LinkKind::Tcp),
        (4, None, LinkKind::DEFAULT),
        (1, None, LinkKind::DEFAULT),
    ] {
        let table = Table::new();
        let (spaces, all_called) = (table.clone(), Barrier::new(count as usize));
        let members = processes(count, move |id| {
            let mut space = spaces.space(id, count);
            space.one_host = one_host;
            let bootstrap = Bootstrap::with_space(Box::new(space)).unwrap();
            assert_eq!(
                (bootstrap.id(), bootstrap.count(), bootstrap.launcher()),
                (Some(id), Some(count), "fake")
            );
            let bootstrap = bootstrap.limit(PATIENCE).link(link);
            // Where the launcher does not report hosts.
            let local = std::net::IpAddr::from([127, 0, 0, 1]);
            let bootstrap = if one_host.is_none() { bootstrap.host_address(local) } else { bootstrap };
            let mut member = bootstrap.start(&functions(), |builder| builder.workers(1)).unwrap();
            call_all(&member);
            all_called.wait();
            let seen =
                (member.job(), member.secret().cloned(), member.peers().clone(), member.hosts().clone());
            let loss = member.serve_until_left().unwrap();
            assert_eq!(loss, Loss::Left, "id {id}");
            member.finish(PATIENCE).unwrap();
            seen
        });
        let (job, secret, peers, hosts) = &members[0];
        for (id, (other_job, other_secret, other_peers, other_hosts)) in members.iter().enumerate() {
            assert!(other_job == job && other_secret == secret && other_hosts == hosts);
            assert!(other_peers.iter().eq(peers.iter()) && other_peers.job() == Some(*job));
            let tcp = peers.iter().all(|(_, address)| matches!(address, Address::Tcp(_)));
            assert_eq!(tcp, one_host.is_none() || link == LinkKind::Tcp);
            // Over TCP each id is known by its key, to all but itself.
            let keys = (0..count).filter(|other| other_peers.key(*other).is_some());
            let expected = (0..count).filter(|other| tcp && *other as usize != id);
            assert!(!cfg!(feature = "noise") || keys.eq(expected), "id {id} of {count}");
        }
        assert_eq!((hosts.len(), peers.len()), (1, count as usize));
        assert_eq!(table.finished(), (0..count).collect::<Vec<_>>());
        assert!(count > 1 || table.len() == 0, "one process asks nobody");
    }
}

/// Nodes without a thread: the thread that starts them drives them, and the inner ones of the tree pass on what the
/// others wait for.
#[test]
fn polled_members_know_all_and_serve() {
    for count in [1, 2, 9] {
        let table = Table::new();
        let spaces = table.clone();
        let left = processes(count, move |id| {
            let mut space = spaces.space(id, count);
            space.one_host = Some(true);
            let functions = functions();
            let (func, finished) = (functions.named("id").unwrap(), Arc::new(AtomicU32::new(0)));
            let finishing = finished.clone();
            let finish = functions.func("finish", move |_, _| {
                finishing.fetch_add(1, Ordering::SeqCst);
                Ok(())
            });
            let bootstrap = Bootstrap::with_space(Box::new(space)).unwrap().limit(PATIENCE);
            let mut member = bootstrap.start_polled(&functions, |builder| builder).unwrap();
            let ids = IdList::range(0..count).with_first(id);
            let call = member.call(Call::new(func).ids(ids).tree(Tree::Chain)).unwrap();
            assert_eq!(member.wait(call).unwrap().replies().unwrap().len(), count as usize);
            let call = Call::new(finish.unwrap()).ids([0]);
            let call = member.call(if id == 0 { call } else { call.watch() }).unwrap();
            member.wait(call).unwrap();
            // Terminates: each of the others makes its call, or the test ends at its limit.
            while id == 0 && finished.load(Ordering::SeqCst) < count {
                member.progress(Duration::from_millis(100)).unwrap();
            }
            let loss = member.serve_until_left().unwrap();
            member.finish(PATIENCE).unwrap();
            loss
        });
        assert!(left.iter().all(|loss| *loss == Loss::Left), "{left:?}");
        assert_eq!(table.finished(), (0..count).collect::<Vec<_>>());
    }
}

#[test]
fn an_exchange_of_the_programs_own_is_enough() {
    for count in [1u32, 2, 7] {
        let all: Arc<Mutex<Vec<Vec<u8>>>> = Arc::new(Mutex::new(vec![Vec::new(); count as usize]));
        let barrier = Arc::new(Barrier::new(count as usize));
        processes(count, move |id| {
            let (all, met) = (all.clone(), barrier.clone());
            let exchange = move |mine: &[u8]| -> Result<Vec<Vec<u8>>, String> {
                all.lock().unwrap()[id as usize] = mine.to_vec();
                met.wait();
                Ok(all.lock().unwrap().clone())
            };
            let bootstrap = Bootstrap::with_allgather(id, count, exchange).unwrap();
            let local = std::net::IpAddr::from([127, 0, 0, 1]);
            let mut member = bootstrap.host_address(local).start(&functions(), |builder| builder).unwrap();
            call_all(&member);
            barrier.wait();
            assert_eq!(member.serve_until_left().unwrap(), Loss::Left);
            member.finish(PATIENCE).unwrap();
        });
    }
}

/// Ids are unknown until all have met; the first one to add its entry gets the last id.
#[test]
fn processes_that_know_no_id_get_one_when_they_meet() {
    let count = 5u32;
    let all: Arc<Mutex<Vec<Vec<u8>>>> = Arc::default();
    let barrier = Arc::new(Barrier::new(count as usize));
    let (job, secret) = (chained_gpc::Job::random(), chained_gpc::Secret::random().unwrap());
    let members = processes(count, move |_| {
        let (all, met, secret) = (all.clone(), barrier.clone(), secret.clone());
        let meet = move |mine: &str, within: MeetingLimit| -> Result<Meeting, String> {
            assert!(within.limit == PATIENCE && within.left > PATIENCE / 2 && within.left <= PATIENCE);
            all.lock().unwrap().push(mine.into());
            met.wait();
            let entries: Vec<Vec<u8>> = all.lock().unwrap().iter().rev().cloned().collect();
            let id = entries.iter().position(|entry| entry == mine.as_bytes()).unwrap() as Id;
            let groups = (0..count).map(|id| format!("job-{}", id / 2)).collect();
            Ok(Meeting { id, entries, groups, job, secret, farewell: Farewell::default() })
        };
        let bootstrap = Bootstrap::with_meeting("test", meet).limit(PATIENCE);
        assert_eq!((bootstrap.id(), bootstrap.count(), bootstrap.launcher()), (None, None, "test"));
        let local = std::net::IpAddr::from([127, 0, 0, 1]);
        let mut member = bootstrap.host_address(local).start(&functions(), |builder| builder).unwrap();
        call_all(&member);
        barrier.wait();
        assert_eq!((member.count(), member.job()), (count, job));
        let seen = (member.id(), member.hosts().clone());
        assert_eq!(member.serve_until_left().unwrap(), Loss::Left);
        member.finish(PATIENCE).unwrap();
        seen
    });
    let ids: std::collections::BTreeSet<Id> = members.iter().map(|(id, _)| *id).collect();
    assert!(ids.into_iter().eq(0..count));
    let hosts = &members[0].1;
    assert_eq!((hosts.len(), hosts.host(1), hosts.host(4)), (3, Some("job-0"), Some("job-2")));
}

/// Processes of a launcher meet others through its space: the launcher learns of their end when they end.
#[test]
fn what_is_to_be_said_to_a_launcher_is_handed_on() {
    let count = 3u32;
    let (table, barrier) = (Table::new(), Barrier::new(count as usize));
    let (all, said) = (Mutex::<BTreeMap<Id, String>>::default(), Arc::<Mutex<Vec<Id>>>::default());
    let (job, shared) = (chained_gpc::Job::random(), Arc::new((table, barrier, all, said)));
    let seen = shared.clone();
    processes(count, move |id| {
        let (shared, unsaid) = (seen.clone(), seen.clone());
        let meet = move |mine: &str, within: MeetingLimit| -> Result<Meeting, BootstrapError> {
            let (table, barrier, all, said) = &*shared;
            let first = Bootstrap::with_space(Box::new(table.space(id, count)))?.limit(within.left);
            let first = first.start(&functions(), |builder| builder)?;
            all.lock().unwrap().insert(id, mine.into());
            barrier.wait();
            let launcher = first.leave(PATIENCE);
            let said = said.clone();
            let ours = Farewell::new(move || -> Result<(), String> {
                said.lock().unwrap().push(id);
                Ok(())
            });
            let entries: Vec<Vec<u8>> =
                all.lock().unwrap().values().map(|text| text.clone().into()).collect();
            let groups = vec!["all".into(); entries.len()];
            let secret = chained_gpc::Secret::new(&[7; 32]).unwrap();
            Ok(Meeting { id, entries, groups, job, secret, farewell: ours.then(launcher) })
        };
        let bootstrap = Bootstrap::with_meeting("test", meet).limit(PATIENCE);
        let local = std::net::IpAddr::from([127, 0, 0, 1]);
        let mut member = bootstrap.host_address(local).start(&functions(), |builder| builder).unwrap();
        call_all(&member);
        let (table, barrier, _, said) = &*unsaid;
        barrier.wait();
        assert!(table.finished().is_empty() && said.lock().unwrap().is_empty());
        barrier.wait();
        assert_eq!(member.serve_until_left().unwrap(), Loss::Left);
        member.finish(PATIENCE).unwrap();
    });
    let (table, _, _, said) = &*shared;
    assert_eq!((table.finished().len(), said.lock().unwrap().len()), (3, 3));
}

#[test]
fn a_meeting_that_comes_to_nothing_says_so() {
    type Change = fn(&mut Meeting);
    let start = |change: Change| {
        let meet = move |mine: &str, _| -> Result<Meeting, String> {
            let (entries, groups) = (vec![mine.into()], vec!["g".into()]);
            let (job, secret) = (chained_gpc::Job::random(), chained_gpc::Secret::random().unwrap());
            let farewell = Farewell::default();
            let mut meeting = Meeting { id: 0, entries, groups, job, secret, farewell };
            change(&mut meeting);
            if meeting.groups.len() > 2 { Err("nobody came".into()) } else { Ok(meeting) }
        };
        let bootstrap = Bootstrap::with_meeting("test", meet).host_address([127, 0, 0, 1].into());
        bootstrap.start(&functions(), |builder| builder).map(drop).unwrap_err().to_string()
    };
    let changes: [(Change, &str); 5] = [
        (|meeting| meeting.groups = vec!["g".into(); 3], "the processes have not met: nobody came"),
        (|meeting| meeting.groups.clear(), "there are 0 groups' names for 1 processes"),
        (|meeting| meeting.id = 1, "what stands at id 1 of 1 is not what this process has said"),
        (|meeting| meeting.entries[0] = b"nonsense".to_vec(), "what stands at id 0 of 1 is not"),
        (
            |meeting| {
                meeting.entries.push(b"nonsense".to_vec());
                meeting.groups.push("g".into());
            },
            "what id 1 says of itself is of no use: `nonsense` is no entry",
        ),
    ];
    for (change, why) in changes {
        let error = start(change);
        assert!(error.contains(why), "{error}");
    }
}

/// Id 0 left as soon as its call was over. Ids that had never been linked with it took it for lost: the call had
/// reached them from another id.
#[test]
fn id_0_may_leave_at_once_where_all_know_all() {
    let count = 6u32;
    for _ in 0..5 {
        let all: Arc<Mutex<Vec<Vec<u8>>>> = Arc::new(Mutex::new(vec![Vec::new(); count as usize]));
        let barrier = Arc::new(Barrier::new(count as usize));
        let losses = processes(count, move |id| {
            let (all, met) = (all.clone(), barrier.clone());
            let exchange = move |mine: &[u8]| -> Result<Vec<Vec<u8>>, String> {
                all.lock().unwrap()[id as usize] = mine.to_vec();
                met.wait();
                Ok(all.lock().unwrap().clone())
            };
            let bootstrap = Bootstrap::with_allgather(id, count, exchange).unwrap();
            let local = std::net::IpAddr::from([127, 0, 0, 1]);
            let mut member = bootstrap.host_address(local).start(&functions(), |builder| builder).unwrap();
            if id == 0 {
                // Along the chain only id 1 is linked with id 0.
                call_all(&member);
            }
            let loss = member.serve_until_left().unwrap();
            member.finish(PATIENCE).unwrap();
            loss
        });
        assert_eq!(losses, vec![Loss::Left; count as usize]);
    }
}

#[test]
fn an_exchange_of_the_programs_own_that_fails_says_so() {
    let start = |result: Result<Vec<Vec<u8>>, String>| {
        let bootstrap = Bootstrap::with_allgather(1, 2, move |_| result).unwrap();
        bootstrap.start(&functions(), |builder| builder).map(drop).unwrap_err().to_string()
    };
    for (result, why) in [
        (Err("the network is down".to_owned()), "the network is down"),
        (Ok(vec![]), "what 0 processes say, and there are 2"),
        (Ok(vec![vec![0xff], vec![]]), "what id 0 says of itself is of no use: it is no text"),
        (Ok(vec![b"nonsense".to_vec(), vec![]]), "`nonsense` is no entry"),
        (Ok(vec![b"1,h,0123456789abcdef,-,unix:@a".to_vec(); 2]), "what id 1 has given is not at its place"),
    ] {
        let error = start(result);
        assert!(error.contains(why), "{error}");
    }
    let refused = Bootstrap::with_allgather(2, 2, |_| Ok::<_, String>(vec![])).unwrap_err();
    assert!(matches!(refused, BootstrapError::Variables { .. }), "{refused}");
}

/// An id between id 0 and another one in the tree leaves before id 0 does: the other one continues.
#[test]
fn who_leaves_early_takes_nobody_along() {
    let (table, count) = (Table::new(), 4);
    let (left, called) = (Arc::new(Barrier::new(4)), Arc::new(Barrier::new(3)));
    processes(count, move |id| {
        let bootstrap = Bootstrap::with_space(Box::new(table.space(id, count))).unwrap();
        let mut member = bootstrap.limit(PATIENCE).start(&functions(), |builder| builder).unwrap();
        // In the binomial tree over four, id 3 is below id 2.
        if id == 2 {
            member.finish(PATIENCE).unwrap();
            left.wait();
            return;
        }
        left.wait();
        if id == 0 {
            let func = member.functions().named("id").unwrap();
            let ids = IdList::from_ids([0, 3, 1]).unwrap();
            // Id 3 has learned that id 2 has left, and is up.
            let call = || Call::new(func).ids(ids.clone()).tree(Tree::Flat);
            assert_eq!(member.call(call()).unwrap().wait().unwrap().replies().unwrap().len(), 3);
            called.wait();
            assert_eq!(member.call(call()).unwrap().wait().unwrap().replies().unwrap().len(), 3);
            member.finish(PATIENCE).unwrap();
            return;
        }
        called.wait();
        assert_eq!(member.serve_until_left().unwrap(), Loss::Left, "id {id}");
        member.finish(PATIENCE).unwrap();
    });
}
