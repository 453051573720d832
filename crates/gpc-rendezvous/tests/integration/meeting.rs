//! Meetings of a job's tasks, in one process and in several, some of which are killed.

mod killed;

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use chained_gpc::{Call, CauseKind, FuncHandle, Functions, Id, IdList, Job, LinkKind, LocalNodes};
use gpc_rendezvous::meeting::{ClientResource, MeetError, Plan, Resource, Tasks};
use gpc_rendezvous::native::{Client, Host};
use gpc_rendezvous::{
    Completion, Fault, FaultKind, Handle, Life, Limits, RankChoice, Scope, Spec, Token, Unit,
};
use gpc_test_support::waiting::until;

/// Longer than any successful step takes.
const PATIENCE: Duration = Duration::from_secs(60);

/// A short limit, for tests in which it passes.
const SHORT: Duration = Duration::from_millis(200);

/// One task for each id, and a service on id 0, which need not be one of a meeting's tasks.
struct World {
    nodes: LocalNodes,
    tasks: Vec<Tasks>,
    /// The services, on the ids that have one.
    hosts: Vec<Option<Host>>,
}

impl World {
    /// `controlling` returns the controlling task of each id's job.
    fn start(n: u32, controlling: impl Fn(Id) -> Id) -> World {
        let functions: Vec<Functions> = (0..n).map(|_| Functions::new()).collect();
        let start = |id: Id| Tasks::register(&functions[id as usize], controlling(id)).unwrap();
        let tasks = (0..n).map(start).collect();
        let host = |id: Id| {
            let serves = id == 0 || controlling(id) == id;
            serves.then(|| Host::register(&functions[id as usize], Limits::default()).unwrap())
        };
        let hosts: Vec<Option<Host>> = (0..n).map(host).collect();
        let nodes = LocalNodes::start_with(n, LinkKind::Unix, &Functions::new(), |id, builder| {
            builder.functions(&functions[id as usize])
        });
        let nodes = nodes.unwrap();
        for (id, host) in (0..).zip(&hosts) {
            host.iter().for_each(|host| host.attach(nodes.node(id)).unwrap());
        }
        World { nodes, tasks, hosts }
    }

    fn client(&self, me: Id, service: Id) -> Client {
        Client::new(self.nodes.node(me).caller(), Job::default(), service)
    }

    fn reached(&self, me: Id, service: Id, handle: &Handle) -> Arc<dyn Resource> {
        Arc::new(ClientResource::new(self.client(me, service), handle.clone()))
    }

    /// Runs the meeting of these tasks, each on a thread of its own.
    fn meet(&self, ids: &[Id], plan: impl Fn(Id) -> Plan) -> Vec<Result<Completion, MeetError>> {
        thread::scope(|scope| {
            let meet = |id: &Id| {
                let (id, plan) = (*id, plan(*id));
                scope.spawn(move || self.tasks[id as usize].meet(self.nodes.node(id), plan))
            };
            let threads: Vec<_> = ids.iter().map(meet).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        })
    }
}

fn text(result: &Result<Completion, MeetError>) -> String {
    String::from_utf8(result.as_ref().unwrap().data.to_vec()).unwrap()
}

fn fault(result: &Result<Completion, MeetError>) -> &Fault {
    match result {
        Err(MeetError::Fault(fault)) => fault,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_tasks_of_a_job_meet_by_calls_alone_and_meet_again() {
    let world = World::start(5, |_| 1);
    for (round, size) in [(0, 1), (1, 100_000), (2, 0)] {
        // Ranks go by the list, whose first id is not the controlling task.
        let ids = IdList::try_from(chained_gpc::Ids::from([3, 1, 4, 0, 2])).unwrap();
        let data = |id: Id| format!("{id}").repeat(size);
        let ended = world.meet(&[0, 1, 2, 3, 4], |id| Plan::new(ids.clone(), data(id), PATIENCE));
        let whole: String = ids.iter().map(|id| format!("{} {}", data(id).len(), data(id))).collect();
        for ended in &ended {
            assert!(text(ended) == format!("5 {whole}"), "round {round}");
            assert_eq!(ended.as_ref().unwrap().level, 1);
        }
    }
}

#[test]
fn one_task_meets_itself() {
    let world = World::start(1, |_| 0);
    assert_eq!(text(&world.meet(&[0], |_| Plan::new(0..1, "alone", PATIENCE))[0]), "1 5 alone");
}

/// The level-1 resources are at the controlling tasks, their parent is at a node of neither job.
#[test]
fn two_jobs_meet_through_a_service_on_a_third_node() {
    let world = World::start(7, |id| if id < 4 { 1 } else { 4 });
    let spec = Spec { level: Some(2), joint: true, ..Spec::new(2) };
    let top = world.client(6, 0).create(&spec).unwrap();
    let own = |controlling| world.client(controlling, controlling).create(&Spec::new(3)).unwrap();
    let jobs = [own(1), own(4)];
    let plan = |id: Id| {
        let (job, controlling) = if id < 4 { (0, 1) } else { (1, 4) };
        let plan = Plan::new(controlling..controlling + 3, format!("task {id}"), PATIENCE);
        let plan = plan.at(world.reached(id, controlling, &jobs[job]));
        if id == controlling {
            plan.below(world.reached(id, 0, &top), RankChoice::Rank(job as u64))
        } else {
            plan
        }
    };
    let ended = world.meet(&[1, 2, 3, 4, 5, 6], plan);
    let job = |ids: std::ops::Range<Id>| ids.map(|id| format!("6 task {id}")).collect::<String>();
    let whole = format!("2 3 {}3 {}", job(1..4), job(4..7));
    for result in &ended {
        assert_eq!(text(result), whole);
        let (completion, first) = (result.as_ref().unwrap(), ended[0].as_ref().unwrap());
        assert_eq!((completion.level, &completion.joint), (2, &first.joint));
        assert!(completion.joint.is_some());
    }
}

/// Each job gathers by a call; one of them has a single task.
#[test]
fn jobs_that_gather_by_themselves_need_the_resource_above_alone() {
    let world = World::start(4, |id| if id < 3 { 1 } else { 3 });
    let top = world.client(2, 0).create(&Spec { level: Some(2), ..Spec::new(2) }).unwrap();
    let plan = |id: Id| {
        let ids = if id < 3 { 1..3 } else { 3..4 };
        Plan::new(ids, format!("{id}"), PATIENCE).below(world.reached(id, 0, &top), RankChoice::Assign)
    };
    let ended = world.meet(&[1, 2, 3], plan);
    // Ranks are assigned in the order of arrival.
    let whole = text(&ended[0]);
    assert!(["2 2 1 11 21 1 3", "2 1 1 32 1 11 2"].contains(&whole.as_str()), "{whole}");
    assert!(ended.iter().all(|ended| text(ended) == whole));
}

/// A single task with a parent resource does not wait at its level-1 resource.
#[test]
fn a_single_task_registers_and_does_not_subscribe() {
    let world = World::start(2, |id| id);
    let top = world.client(1, 0).create(&Spec { level: Some(2), ..Spec::new(1) }).unwrap();
    // This resource expects another registrant, which never arrives.
    let own = world.client(1, 1).create(&Spec::new(2)).unwrap();
    let plan = |_| {
        let plan = Plan::new(1..2, "x", PATIENCE).at(world.reached(1, 1, &own));
        plan.below(world.reached(1, 0, &top), RankChoice::Rank(0))
    };
    assert_eq!(text(&world.meet(&[1], plan)[0]), "1 1 1 x");
    assert_eq!(world.client(1, 1).properties(&own).unwrap().tally, 1);
}

#[test]
fn what_ends_the_top_ends_every_task() {
    let world = World::start(4, |id| if id == 0 { 0 } else { 1 });
    let client = world.client(3, 0);
    let top = client.create(&Spec { level: Some(2), ..Spec::new(2) }).unwrap();
    let plan = |id: Id| Plan::new(1..4, "x", PATIENCE).below(world.reached(id, 0, &top), RankChoice::Rank(0));
    let ended = thread::scope(|scope| {
        let destroys = scope.spawn(|| {
            until("the job waits above", || client.properties(&top).unwrap().waiting > 0);
            client.destroy(&top).unwrap();
        });
        let ended = world.meet(&[1, 2, 3], plan);
        destroys.join().unwrap();
        ended
    });
    assert!(ended.iter().all(|ended| fault(ended).kind == FaultKind::Destroyed));
    assert!(ended.iter().all(|one| fault(one) == fault(&ended[0])));
}

/// The other job's controlling task is lost while this one waits at the parent.
#[test]
fn a_job_whose_controlling_task_is_lost_is_named_to_all_of_the_other() {
    let mut world = World::start(5, |id| if id < 4 { 1 } else { 4 });
    let top = world.client(1, 0).create(&Spec { level: Some(2), ..Spec::new(2) }).unwrap();
    let token = Token::new("four").unwrap();
    let lost = world.client(4, 0);
    lost.control(&top, Unit::Rank(1), "job B on id 4", &token, Life::Member(0)).unwrap();
    let lost = world.nodes.take(4);
    let client = world.client(1, 0);
    let plan = |id: Id| Plan::new(1..4, "x", PATIENCE).below(world.reached(id, 0, &top), RankChoice::Rank(0));
    let ended = thread::scope(|scope| {
        let (client, top) = (&client, &top);
        scope.spawn(move || {
            until("the job waits above", || client.properties(top).unwrap().waiting > 0);
            drop(lost);
        });
        world.meet(&[1, 2, 3], plan)
    });
    for ended in &ended {
        assert_eq!((fault(ended).kind, fault(ended).rank), (FaultKind::ControllerLost, Some(1)));
        assert_eq!(fault(ended).task.as_deref(), Some("job B on id 4"));
    }
}

/// A task is lost before it has joined: the others get its name.
#[test]
fn a_task_that_does_not_come_is_named_to_the_others() {
    let mut world = World::start(4, |_| 0);
    drop(world.nodes.take(2));
    let ended = world.meet(&[0, 1, 3], |_| Plan::new(0..4, "x", PATIENCE).start(Duration::ZERO));
    for ended in &ended {
        assert_eq!((fault(ended).kind, fault(ended).rank), (FaultKind::NotRegistered, Some(2)), "{ended:?}");
        assert!(fault(ended).message.contains("rank 2, id 2"), "{ended:?}");
    }
    // The same at a resource, where no other task takes its rank in time.
    let own = world.client(0, 0).create(&Spec::new(4)).unwrap();
    let plan = |id| {
        let limit = if id == 0 { SHORT } else { PATIENCE };
        Plan::new(0..4, "x", limit).at(world.reached(id, 0, &own))
    };
    for ended in world.meet(&[0, 1, 3], plan) {
        assert_eq!(fault(&ended).kind, FaultKind::NotRegistered);
        assert!(fault(&ended).rank.is_some(), "{ended:?}");
        assert!(fault(&ended).message.contains("missing are the ranks 2"), "{ended:?}");
    }
}

/// A job that fails will not register above: the tasks of the other jobs there learn why.
#[test]
fn a_failed_job_is_released_above_with_its_reason() {
    let mut world = World::start(4, |id| if id == 0 { 0 } else { 1 });
    let top = world.client(0, 0).create(&Spec { level: Some(2), ..Spec::new(2) }).unwrap();
    drop(world.nodes.take(3));
    let plan = |id: Id| {
        let plan = Plan::new(1..4, "x", PATIENCE).start(Duration::ZERO);
        plan.below(world.reached(id, 0, &top), RankChoice::Rank(1))
    };
    let ended = world.meet(&[1, 2], plan);
    assert!(ended.iter().all(|ended| fault(ended).kind == FaultKind::NotRegistered), "{ended:?}");
    let above = world.client(0, 0).properties(&top).unwrap().failed.expect("it is released").message;
    assert!(above.contains("id 1") && above.contains("rank 2, id 3, has not come"), "{above}");
}

/// The controlling task may ask for the data of a task before it has joined the meeting.
#[test]
fn a_question_that_comes_early_is_answered_when_the_task_joins() {
    let world = World::start(2, |_| 0);
    let header = [&[2_u8][..], &0_u64.to_le_bytes()].concat();
    let ask = |name| {
        let call = Call::new(FuncHandle::named(name)).ids([1]).header(header.clone()).watch();
        world.nodes.root().call(call).unwrap()
    };
    let gather = ask("gpc.rendezvous.gather");
    // Requests are served in their order.
    ask("gpc.rendezvous.announced").wait().unwrap();
    let ended = world.meet(&[1], |_| Plan::new(0..2, "mine", SHORT));
    assert!(matches!(ended[0], Err(MeetError::Late { .. })), "{ended:?}");
    assert_eq!(gather.wait().unwrap().replies().unwrap()[0].data, "mine");
}

/// The task joins long after the announcement.
#[test]
fn who_comes_late_is_told_at_once() {
    let world = World::start(3, |_| 0);
    let ended = world.meet(&[0, 1], |id| Plan::new(0..3, "x", if id == 0 { SHORT } else { PATIENCE }));
    let late = world.meet(&[2], |_| Plan::new(0..3, "x", Duration::ZERO));
    assert_eq!(fault(&ended[0]).kind, FaultKind::NotRegistered);
    assert_eq!((fault(&ended[1]), fault(&late[0])), (fault(&ended[0]), fault(&ended[0])));
    // The tasks can meet again.
    let ended = world.meet(&[0, 1, 2], |id| Plan::new(0..3, format!("{id}"), PATIENCE));
    assert!(ended.iter().all(|ended| text(ended) == "3 1 01 11 2"));
}

#[test]
fn who_waits_for_nothing_is_told_whom_it_has_waited_for() {
    let world = World::start(2, |_| 0);
    let ended = world.meet(&[1], |_| Plan::new(0..2, "x", SHORT));
    assert!(matches!(ended[0], Err(MeetError::Late { from: 0, limit: SHORT })), "{ended:?}");
    let ended = world.meet(&[1], |_| Plan::new(1..2, "x", SHORT));
    assert!(matches!(ended[0], Err(MeetError::NotAmong(0))), "{ended:?}");
}

#[test]
fn nobody_but_the_controlling_task_announces_or_gathers() {
    let world = World::start(3, |_| 0);
    for name in ["gpc.rendezvous.announce", "gpc.rendezvous.gather"] {
        let call = Call::new(FuncHandle::named(name)).ids([1]).header(&[1, 0, 0, 0, 0, 0, 0, 0, 0, 4][..]);
        let error = world.nodes.node(2).call(call.clone().watch()).unwrap().wait().unwrap_err();
        let cause = error.cause().unwrap();
        assert_eq!((cause.id, cause.kind), (1, CauseKind::Failed));
        assert!(cause.message.contains("the controlling task here is id 0"), "{cause:?}");
        // Requests of the controlling task must be well-formed, too.
        for header in
            [&b""[..], b"\x02", b"\x01\0\0\0\0\0\0\0\0\x04", b"\x01\xff\xff\xff\xff\xff\xff\xff\xff\x07"]
        {
            let call = Call::new(FuncHandle::named(name)).ids([1]).header(header).watch();
            if name.ends_with("announce") || header.len() < 9 || header[1] == 0xff {
                let error = world.nodes.node(0).call(call).unwrap().wait().unwrap_err();
                assert_eq!(error.kind(), Some(CauseKind::Failed), "{header:?}");
            }
        }
    }
}

/// The functions of a task do not interfere with clients that use resources only.
#[test]
fn a_service_and_tasks_are_on_one_node() {
    let world = World::start(2, |_| 0);
    assert!(world.hosts[0].is_some());
    let client = world.client(1, 0);
    let handle = client.create(&Spec::new(1)).unwrap();
    let token = Token::new("t").unwrap();
    client.register(&handle, RankChoice::Assign, &token, "x".into(), Life::Unseen).unwrap();
    assert_eq!(client.wait(&handle, Scope::Own, None, PATIENCE).unwrap().unwrap().data, "1 1 x");
}

/// A process that anyone can start on the network announced the end of a meeting, with data of its own.
#[test]
fn the_functions_of_meetings_need_a_proved_link() {
    let functions = Functions::new();
    let _tasks = Tasks::register(&functions, 0).unwrap();
    let nodes = LocalNodes::start(2, LinkKind::Tcp, &functions).unwrap();
    for name in ["gpc.rendezvous.announce", "gpc.rendezvous.gather", "gpc.rendezvous.announced"] {
        let call = Call::new(FuncHandle::named(name)).ids([0]).watch();
        let error = nodes.node(1).call(call).unwrap().wait().unwrap_err();
        assert!(error.to_string().contains("is not authenticated"), "{name}: {error}");
    }
}
