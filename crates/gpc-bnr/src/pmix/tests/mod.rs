//! Tests of the translation between upcalls of PMIx and requests of the domain.

mod group;
mod model;
mod names_published;
mod required;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use gpc_pmix::server::{ALL, Answer as Reply, Application, Event, Info, Order, Process, Upcall, Value};

use super::{Action, SERVER, Translation, status};
use crate::domain::Serial;
use crate::exit::{Death, Exit};
use crate::fault::{Fault, FaultKind};
use crate::names::{GroupId, Member, Set};
use crate::request::{Answer, Client, Request};
use crate::spec::{Block, Layout, OnDeath, PmixHost, PmixPlan, Readers, Spec};

fn layout(group: u32, on_death: OnDeath) -> Arc<Layout> {
    let block = |node, spec, first, count| Block { node, spec, first, count };
    Arc::new(Layout {
        group: GroupId(group),
        parent: None,
        database: format!("kvs_x_{group}"),
        specs: vec![Spec::default(), Spec::default()],
        blocks: vec![block(7, 0, 0, 1), block(5, 0, 1, 2), block(7, 1, 3, 1)],
        on_death,
        preputs: Vec::new(),
        input: Readers::None,
        pmix: Some(PmixPlan { required: true, hosts: vec![host(5, "five", 9), host(7, "seven", 0)] }),
    })
}

fn host(node: u32, name: &str, before: u32) -> PmixHost {
    PmixHost { node, name: name.into(), before }
}

fn process(group: u32, rank: u32) -> Process {
    Process { namespace: format!("kvs_x_{group}"), rank }
}

fn member(group: u32, rank: u32) -> Member {
    Member { group: GroupId(group), rank }
}

fn client(rank: u32) -> Client {
    Client::Process(member(1, rank))
}

fn info(key: &str, bytes: &[u8]) -> Info {
    Info::new(key, Value { kind: 3, bytes: bytes.to_vec() })
}

/// A translation at node 5, and what it did.
struct Node {
    translation: Translation,
    upcall: u64,
}

impl Node {
    fn empty() -> Node {
        Node { translation: Translation::new(5, "x"), upcall: 0 }
    }

    /// With group 1, whose ranks 1 and 2 run here.
    fn with_group(on_death: OnDeath) -> Node {
        let mut node = Node::empty();
        node.translation.serve(layout(1, on_death), (1, 2));
        node.registered(1);
        for rank in [1, 2] {
            node.event(Event::Environment { process: process(1, rank), variables: Ok(Vec::new()) });
        }
        node.actions();
        node
    }

    fn actions(&mut self) -> Vec<Action> {
        std::iter::from_fn(|| self.translation.next_action()).collect()
    }

    fn event(&mut self, event: Event) {
        self.translation.event(event);
    }

    fn registered(&mut self, group: u32) {
        self.event(Event::Registered { namespace: format!("kvs_x_{group}"), failed: None });
    }

    /// A process calls up. Returns the requests that follow.
    fn calls(&mut self, upcall: Upcall) -> Vec<(Client, Serial, Request)> {
        self.upcall += 1;
        self.event(Event::Upcall { serial: self.upcall, upcall });
        self.requests()
    }

    fn requests(&mut self) -> Vec<(Client, Serial, Request)> {
        let mut requests = Vec::new();
        let mut rest = Vec::new();
        for action in self.actions() {
            match action {
                Action::Request { client, serial, request } => requests.push((client, serial, request)),
                action => rest.push(action),
            }
        }
        rest.into_iter().for_each(|action| self.translation.actions.push_back(action));
        requests
    }

    fn answers(&mut self, client: Client, serial: Serial, answer: Result<Answer, Fault>) {
        assert!(self.translation.is_own(client, serial));
        self.translation.answered(client, serial, answer);
    }

    /// The answers to upcalls.
    fn replies(&mut self) -> Vec<(u64, Result<Reply, i32>)> {
        let reply = |action| match action {
            Action::Order(Order::Answer { serial, answer }) => Some((serial, answer)),
            _ => None,
        };
        self.actions().into_iter().filter_map(reply).collect()
    }

    fn reply(&mut self) -> Result<Reply, i32> {
        let mut replies = self.replies();
        assert_eq!(replies.len(), 1);
        let (serial, reply) = replies.remove(0);
        assert_eq!(serial, self.upcall);
        reply
    }
}

fn fault(kind: FaultKind) -> Fault {
    Fault::new(kind, "why")
}

#[test]
fn a_group_is_registered_with_its_nodes_and_programs() {
    let mut node = Node::empty();
    let mut spawned = Layout::clone(&layout(4, OnDeath::Kill));
    spawned.parent = Some(GroupId(2));
    spawned.specs[0].info.push(("pmix-parent".into(), b"6".to_vec()));
    node.translation.serve(Arc::new(spawned), (10, 20));
    let actions = node.actions();
    let Action::Order(Order::Register(job)) = &actions[0] else { panic!("{actions:?}") };
    assert_eq!((job.namespace.as_str(), job.parent.as_ref()), ("kvs_x_4", Some(&process(2, 6))));
    let nodes: Vec<_> = job.nodes.iter().map(|node| (node.host.as_str(), node.ranks.as_slice())).collect();
    assert_eq!(nodes, [("seven", &[0, 3][..]), ("five", &[1, 2])]);
    assert_eq!((job.nodes[0].before, job.nodes[1].before), (0, 9));
    assert_eq!((job.here, job.slots, job.applications.as_slice()), (Some(1), 4, &[3, 1][..]));
    let prepare = |rank| Action::Order(Order::Prepare { process: process(4, rank), user: (10, 20) });
    assert_eq!(actions[1..3], [prepare(1), prepare(2)]);
    // Its processes connect with the parent's.
    assert!(matches!(
        actions[3],
        Action::Request { client: SERVER, request: Request::Layout(GroupId(2)), .. }
    ));
}

#[test]
fn a_group_is_prepared_when_it_is_registered_and_all_have_variables() {
    let variables = |rank: u32| vec![(b"RANK".to_vec(), rank.to_string().into_bytes())];
    let tell = |node: &mut Node, rank| {
        let variables = Ok(variables(rank));
        node.event(Event::Environment { process: process(1, rank), variables });
    };
    let mut node = Node::empty();
    node.translation.serve(layout(1, OnDeath::Kill), (1, 2));
    node.actions();
    [1, 2].into_iter().for_each(|rank| tell(&mut node, rank));
    assert_eq!(node.actions(), [], "it is not registered yet");
    node.registered(1);
    let all = BTreeMap::from([(1, variables(1)), (2, variables(2))]);
    assert_eq!(node.actions(), [Action::Prepared(GroupId(1), Ok(all))]);
    tell(&mut node, 1);
    node.registered(1);
    assert_eq!(node.actions(), [], "once");
    assert!(node.translation.serves(GroupId(1)) && !node.translation.serves(GroupId(2)));

    let failed: [fn() -> Event; 2] = [
        || Event::Registered { namespace: "kvs_x_1".into(), failed: Some("full".into()) },
        || Event::Environment { process: process(1, 2), variables: Err("full".into()) },
    ];
    for event in failed {
        let mut node = Node::empty();
        node.translation.serve(layout(1, OnDeath::Kill), (1, 2));
        node.actions();
        node.event(event());
        let actions = node.actions();
        assert_eq!(actions[0], Action::Order(Order::Forget("kvs_x_1".into())));
        assert!(matches!(&actions[1], Action::Prepared(GroupId(1), Err(why)) if why.ends_with("full")));
        assert!(!node.translation.serves(GroupId(1)));
    }
}

#[test]
fn a_node_enters_a_fence_for_each_member_and_one_carries_the_data() {
    let mut node = Node::with_group(OnDeath::Kill);
    let fence = |processes| Upcall::Fence { processes, data: b"data".to_vec(), info: Vec::new() };
    let over = Set::Group(GroupId(1));
    let asked = node.calls(fence(vec![process(1, ALL)]));
    let [(one, at_one, first), (two, at_two, second)] = &asked[..] else { panic!("{asked:?}") };
    assert_eq!((*one, *two), (client(1), client(2)));
    let (limit, tag) = (Some(super::JOB_LIMIT), b"pmix".to_vec());
    let data = b"data".to_vec();
    assert_eq!(*first, Request::Exchange { over: over.clone(), limit, tag: tag.clone(), data });
    assert_eq!(*second, Request::Fence { over, limit, tag });
    node.answers(*one, *at_one, Ok(Answer::Value(b"all".to_vec())));
    assert_eq!(node.replies(), []);
    node.answers(*two, *at_two, Ok(Answer::Done));
    assert_eq!(node.reply(), Ok(Reply::Data(b"all".to_vec())));

    // A set of members of which one is here; a time limit; and failures.
    let some = vec![process(1, 0), process(1, 2)];
    let limited = vec![info("pmix.timeout", &[3, 0, 0, 0])];
    let asked = node.calls(Upcall::Fence { processes: some, data: Vec::new(), info: limited });
    let [(two, at_two, Request::Exchange { over, limit, .. })] = &asked[..] else { panic!("{asked:?}") };
    assert_eq!(*over, Set::Members([member(1, 0), member(1, 2)].into()));
    assert_eq!((*two, *limit), (client(2), Some(Duration::from_secs(3))));
    node.answers(*two, *at_two, Err(fault(FaultKind::TimedOut)));
    assert_eq!(node.reply(), Err(status::TIMEOUT));
    // A process has left the server and runs on: all others fail at once.
    let lost = vec![info("pmix.loc.col.st", &[0xcc, 0xff, 0xff, 0xff])];
    let asked = node.calls(Upcall::Fence { processes: vec![process(1, 2)], data: Vec::new(), info: lost });
    assert!(matches!(asked[0].2, Request::Exchange { limit: Some(Duration::ZERO), .. }));
    node.answers(asked[0].0, asked[0].1, Err(fault(FaultKind::TimedOut)));
    node.replies();
    let elsewhere = [vec![process(1, 0)], vec![process(9, 0)], vec![], vec![process(1, u32::MAX)]];
    for processes in elsewhere {
        assert_eq!(node.calls(fence(processes)), []);
        assert!(node.reply().is_err());
    }
}

/// The domain does not answer the requests of a process that has ended.
#[test]
fn a_member_that_ends_in_a_fence_fails_it() {
    let mut node = Node::with_group(OnDeath::Notify);
    let processes = vec![process(1, ALL)];
    let asked =
        node.calls(Upcall::Fence { processes: processes.clone(), data: Vec::new(), info: Vec::new() });
    node.translation.ended(member(1, 1), Exit::Code(0));
    let late = &asked[0];
    node.answers(late.0, late.1, Ok(Answer::Value(Vec::new())));
    assert_eq!(node.replies(), []);
    node.answers(asked[1].0, asked[1].1, Ok(Answer::Done));
    assert_eq!(node.reply(), Err(status::PROC_ABORTED));
    let asked = node.calls(Upcall::Fence { processes, data: Vec::new(), info: Vec::new() });
    assert!(matches!(asked[..], [(two, _, Request::Exchange { .. })] if two == client(2)));
}

#[test]
fn processes_come_and_go() {
    let mut node = Node::with_group(OnDeath::Kill);
    let asked = node.calls(Upcall::Connected(process(1, 1)));
    assert!(matches!(asked[..], [(one, _, Request::Init)] if one == client(1)));
    assert_eq!(node.replies(), [], "the server answers it itself");
    assert!(node.translation.speaks(member(1, 1)) && !node.translation.speaks(member(1, 2)));
    let asked = node.calls(Upcall::Finalized(process(1, 1)));
    assert!(matches!(asked[..], [(one, _, Request::Finalize)] if one == client(1)));
    assert_eq!(node.reply(), Ok(Reply::Done));
    node.translation.ended(member(1, 1), Exit::Code(0));
    node.translation.ended(member(1, 1), Exit::Code(0));
    assert_eq!(node.actions(), [Action::Order(Order::Ended(process(1, 1)))]);
    assert_eq!(node.calls(Upcall::Connected(process(1, 1))), [], "it has ended");
    node.translation.emptied(GroupId(1));
    assert_eq!(node.actions(), [Action::Order(Order::Forget("kvs_x_1".into()))]);
    assert!(!node.translation.serves(GroupId(1)));
}

/// libpmix counts a process that has never connected in each fence, and the others waited for ever.
#[test]
fn a_job_whose_processes_wait_for_one_that_never_connected_ends() {
    let message = "g1.1 has ended before PMIx_Init, and libpmix would let the others wait for it".to_owned();
    let abort = Request::Abort { code: 1, message };
    let mut node = Node::with_group(OnDeath::Notify);
    node.translation.ended(member(1, 1), Exit::Code(0));
    assert_eq!(node.requests(), [], "no request is open");
    let asked = node.calls(Upcall::Connected(process(1, 2)));
    assert!(asked.iter().any(|(of, _, request)| (*of, request) == (client(2), &abort)), "{asked:?}");
    let mut node = Node::with_group(OnDeath::Notify);
    node.calls(Upcall::Connected(process(1, 2)));
    node.translation.ended(member(1, 1), Exit::Code(0));
    assert!(node.requests().iter().any(|(of, _, request)| (*of, request) == (client(2), &abort)));
    node.translation.ended(member(1, 1), Exit::Code(0));
    assert_eq!(node.requests(), [], "once");
    let mut node = Node::with_group(OnDeath::Notify);
    node.calls(Upcall::Connected(process(1, 2)));
    node.translation.ended(member(1, 2), Exit::Code(0));
    assert_eq!(node.requests(), [], "it had connected");
    let mut node = Node::with_group(OnDeath::Kill);
    node.calls(Upcall::Connected(process(1, 2)));
    node.translation.ended(member(1, 1), Exit::Code(3));
    assert_eq!(node.requests(), [], "the domain ends the job with that status");
}

#[test]
fn an_abort_is_a_success_only_with_status_0() {
    for (status, code) in [(7, 7), (0, 0), (256, 1), (-1, 255), (300, 44)] {
        let mut node = Node::with_group(OnDeath::Kill);
        let (process, message) = (process(1, 1), b"why\xff".to_vec());
        let asked = node.calls(Upcall::Abort { process, status, message, processes: Vec::new() });
        let message = "why\u{fffd}".to_owned();
        assert_eq!(asked[0].2, Request::Abort { code, message });
        assert_eq!(node.reply(), Ok(Reply::Done));
    }
    let mut node = Node::with_group(OnDeath::Kill);
    let processes = vec![process(3, 0)];
    let upcall = Upcall::Abort { process: process(1, 1), status: 1, message: Vec::new(), processes };
    assert_eq!(node.calls(upcall)[0].2, Request::Kill(GroupId(3)));
}

#[test]
fn data_of_processes_are_asked_for_a_bounded_number_at_a_time() {
    let mut node = Node::with_group(OnDeath::Kill);
    let mut asked = Vec::new();
    for _ in 0..super::FETCHES_MAX + 2 {
        asked.extend(node.calls(Upcall::Fetch { process: process(1, 0), info: Vec::new() }));
    }
    assert_eq!(asked.len(), super::FETCHES_MAX);
    assert!(asked.iter().all(|(of, _, what)| (*of, what) == (SERVER, &Request::Fetch(member(1, 0)))));
    node.answers(SERVER, asked[0].1, Ok(Answer::Value(b"d".to_vec())));
    assert_eq!(node.requests().len(), 1);
    assert_eq!(node.replies(), [(1, Ok(Reply::Data(b"d".to_vec())))]);
    node.answers(SERVER, asked[1].1, Err(fault(FaultKind::NodeLost)));
    assert_eq!(node.replies(), [(2, Err(status::UNREACH))]);
    node.calls(Upcall::Fetch { process: process(1, ALL), info: Vec::new() });
    assert_eq!(node.reply(), Err(status::NOT_FOUND), "the data of a whole job");
}

#[test]
fn other_nodes_get_the_data_of_processes_here() {
    let mut node = Node::with_group(OnDeath::Kill);
    node.translation.question(8, member(1, 2));
    assert_eq!(node.actions(), [Action::Order(Order::Data { serial: 8, process: process(1, 2) })]);
    node.event(Event::Data { serial: 8, data: Ok(b"d".to_vec()) });
    assert_eq!(node.actions(), [Action::Fetched(8, Ok(b"d".to_vec()))]);
    node.event(Event::Data { serial: 8, data: Ok(Vec::new()) });
    assert_eq!(node.actions(), []);
    for elsewhere in [member(1, 0), member(2, 1)] {
        node.translation.question(9, elsewhere);
        assert!(matches!(&node.actions()[..], [Action::Fetched(9, Err(_))]));
    }
}

#[test]
fn a_spawned_job_is_registered_before_its_name_is_told() {
    let mut node = Node::with_group(OnDeath::Kill);
    let application = Application {
        program: b"child".to_vec(),
        arguments: vec![b"a".to_vec()],
        environment: vec![(b"PMIX_RANK".to_vec(), b"1".to_vec()), (b"A".to_vec(), b"b".to_vec())],
        folder: None,
        count: 3,
        info: vec![info("pmix.host", b"here")],
    };
    let all = vec![info("pmix.wdir", b"/tmp"), info("pmix.host", b"there"), info("other", b"?")];
    let spawn = |application: &Application| Upcall::Spawn {
        process: process(1, 2),
        info: all.clone(),
        applications: vec![application.clone()],
    };
    let asked = node.calls(spawn(&application));
    let [(two, serial, Request::SpawnMultiple { specs, .. })] = &asked[..] else { panic!("{asked:?}") };
    assert_eq!((*two, specs[0].count, specs[0].env.len()), (client(2), 3, 1));
    let hints = ["wdir", "host", "pmix", "pmix-parent"].map(|key| specs[0].hint(key).unwrap());
    assert_eq!(hints, [&b"/tmp"[..], b"here", b"always", b"2"]);
    let spawned = |errors| Ok(Answer::Spawned { group: GroupId(3), errors, same_domain: true });
    node.answers(*two, *serial, spawned(vec![0, 0, -1]));
    let asked = node.requests();
    assert_eq!((asked[0].0, &asked[0].2), (SERVER, &Request::Layout(GroupId(3))));
    node.answers(SERVER, asked[0].1, Ok(Answer::Layout(layout(3, OnDeath::Kill))));
    assert!(
        matches!(&node.actions()[..], [Action::Order(Order::Register(job))] if job.namespace == "kvs_x_3")
    );
    node.registered(3);
    assert_eq!(node.reply(), Ok(Reply::Spawned("kvs_x_3".into())));

    let asked = node.calls(spawn(&application));
    node.answers(asked[0].0, asked[0].1, spawned(vec![0, 2, 0]));
    assert_eq!(node.reply(), Err(status::FAILED_TO_LAUNCH));
}

#[test]
fn jobs_that_connect_are_registered_with_each_other() {
    let mut node = Node::with_group(OnDeath::Kill);
    let processes = vec![process(1, 1), process(2, 0)];
    let asked = node.calls(Upcall::Connect { processes: processes.clone(), info: Vec::new() });
    assert_eq!(asked.len(), 1);
    node.answers(asked[0].0, asked[0].1, Ok(Answer::Value(Vec::new())));
    let asked = node.requests();
    assert_eq!(asked[0].2, Request::Layout(GroupId(2)));
    node.answers(SERVER, asked[0].1, Err(fault(FaultKind::NoGroup)));
    assert_eq!(node.reply(), Err(status::NOT_FOUND));
    let asked = node.calls(Upcall::Disconnect { processes, info: Vec::new() });
    node.answers(asked[0].0, asked[0].1, Ok(Answer::Value(Vec::new())));
    assert_eq!(node.reply(), Ok(Reply::Done));
}

/// A rank at node A spawned a job onto C, and all of both jobs connected. B, which did not know the new job, answered
/// its ranks at once, and those at A and C waited for them.
#[test]
fn a_node_that_does_not_know_a_job_asks_for_it_before_it_connects() {
    let mut node = Node::with_group(OnDeath::Kill);
    let processes = vec![process(1, ALL), process(2, ALL)];
    let asked = node.calls(Upcall::Connect { processes: processes.clone(), info: Vec::new() });
    let [(SERVER, serial, Request::Layout(GroupId(2)))] = asked[..] else { panic!("{asked:?}") };
    node.answers(SERVER, serial, Ok(Answer::Layout(layout(2, OnDeath::Kill))));
    assert_eq!(node.requests(), []);
    node.registered(2);
    let asked = node.requests();
    let all = (1..3).flat_map(|group| (0..4).map(move |rank| member(group, rank))).collect();
    let [(one, first, Request::Exchange { over, limit: None, .. }), (two, second, _)] = &asked[..] else {
        panic!("{asked:?}")
    };
    assert_eq!((*one, *two, over), (client(1), client(2), &Set::Members(all)));
    node.answers(*one, *first, Ok(Answer::Value(Vec::new())));
    node.answers(*two, *second, Ok(Answer::Done));
    assert_eq!(node.reply(), Ok(Reply::Done));

    // A job that the domain does not know, and a member that ends before its job is known.
    let unknown = vec![process(1, ALL), process(3, ALL)];
    let asked = node.calls(Upcall::Connect { processes: unknown.clone(), info: Vec::new() });
    node.answers(SERVER, asked[0].1, Err(fault(FaultKind::NoGroup)));
    assert_eq!(node.reply(), Err(status::NOT_FOUND));
    let asked = node.calls(Upcall::Connect { processes: unknown, info: Vec::new() });
    [1, 2].into_iter().for_each(|rank| node.translation.ended(member(1, rank), Exit::Code(0)));
    node.answers(SERVER, asked[0].1, Ok(Answer::Layout(layout(3, OnDeath::Kill))));
    node.registered(3);
    assert_eq!(node.replies().last(), Some(&(node.upcall, Err(status::BAD_PARAM))));
}

/// A server knew each job that its processes had ever spawned, as long as one of its own ran; and one whose layout came
/// after all had ended, for ever.
#[test]
fn jobs_elsewhere_are_forgotten() {
    let forget = |group| Action::Order(Order::Forget(format!("kvs_x_{group}")));
    let connects = |node: &mut Node| {
        let processes = vec![process(1, ALL), process(2, ALL)];
        node.calls(Upcall::Connect { processes, info: Vec::new() })[0].1
    };
    let mut node = Node::with_group(OnDeath::Kill);
    let asked = connects(&mut node);
    node.answers(SERVER, asked, Ok(Answer::Layout(layout(2, OnDeath::Kill))));
    node.registered(2);
    node.actions();
    node.translation.forgotten(GroupId(1));
    assert_eq!(node.actions(), [], "its processes run here");
    node.translation.forgotten(GroupId(2));
    assert_eq!(node.actions(), [forget(2)]);

    let mut node = Node::with_group(OnDeath::Kill);
    let asked = connects(&mut node);
    node.translation.emptied(GroupId(1));
    assert_eq!(node.actions(), [forget(1)]);
    node.answers(SERVER, asked, Ok(Answer::Layout(layout(2, OnDeath::Kill))));
    assert_eq!(node.reply(), Err(status::NOT_FOUND));
    assert_eq!(node.actions(), [], "it is not registered");
}

#[test]
fn whole_jobs_are_killed_and_the_rest_is_not_supported() {
    let mut node = Node::with_group(OnDeath::Kill);
    let control =
        |targets, key: &str| Upcall::Control { process: process(1, 1), targets, info: vec![info(key, &[1])] };
    let asked = node.calls(control(vec![process(3, ALL)], "pmix.jctrl.kill"));
    assert_eq!(asked[0].2, Request::Kill(GroupId(3)));
    node.answers(asked[0].0, asked[0].1, Ok(Answer::Done));
    assert_eq!(node.reply(), Ok(Reply::Done));
    assert_eq!(node.calls(control(Vec::new(), "pmix.jctrl.term"))[0].2, Request::Kill(GroupId(1)));
    node.replies();
    for (targets, key) in [(vec![process(1, 0)], "pmix.jctrl.kill"), (Vec::new(), "pmix.jctrl.pause")] {
        assert_eq!(node.calls(control(targets, key)), []);
        assert_eq!(node.reply(), Err(status::NOT_SUPPORTED));
    }
    let event = Upcall::Event { code: 1, source: process(1, 1), range: 5, info: Vec::new() };
    assert_eq!(node.calls(event), []);
    assert_eq!(node.reply(), Err(status::NOT_SUPPORTED));
}

#[test]
fn a_failure_is_notified_where_the_job_goes_on() {
    let death = |exit, finalized| Death { member: member(1, 0), exit, finalized };
    let mut node = Node::with_group(OnDeath::Notify);
    node.translation.notice(&death(Exit::Code(0), true));
    assert_eq!(node.actions(), []);
    node.translation.notice(&death(Exit::Signal(9), false));
    let actions = node.actions();
    let [Action::Order(Order::Notify { code, source, to, info })] = &actions[..] else {
        panic!("{actions:?}")
    };
    assert_eq!((*code, source, to.as_str()), (status::PROC_ABORTED, &process(1, 0), "kvs_x_1"));
    assert_eq!((info[0].key.as_str(), info[0].value.as_process()), ("pmix.evproc", Some(process(1, 0))));
    let mut node = Node::with_group(OnDeath::Kill);
    node.translation.notice(&death(Exit::Signal(9), false));
    assert_eq!(node.actions(), [], "the job is killed");
}

#[test]
fn without_its_helper_a_node_serves_nobody() {
    let mut node = Node::with_group(OnDeath::Kill);
    node.translation.serve(layout(2, OnDeath::Kill), (1, 2));
    node.translation.question(8, member(1, 2));
    let fence = Upcall::Fence { processes: vec![process(1, ALL)], data: Vec::new(), info: Vec::new() };
    let asked = node.calls(fence);
    assert_eq!(node.translation.lost("it is gone"), [member(1, 1)]);
    let actions = node.actions();
    assert!(
        matches!(&actions[..], [
        Action::Fetched(8, Err(_)),
        Action::Prepared(GroupId(2), Err(why)),
    ] if why == "it is gone"),
        "{actions:?}"
    );
    node.answers(asked[0].0, asked[0].1, Ok(Answer::Done));
    assert_eq!(node.actions(), []);
    assert!(!node.translation.serves(GroupId(1)));
}

#[test]
fn namespaces_are_those_of_the_domain() {
    let names = super::names::Names::new("x");
    assert_eq!(names.namespace(GroupId(7)), "kvs_x_7");
    assert_eq!(names.group("kvs_x_7"), Some(GroupId(7)));
    for foreign in ["kvs_y_7", "kvs_x_", "kvs_x_+7", "kvs_x_07", "kvs_x_7 ", "kvs_x_4294967296"] {
        assert_eq!(names.group(foreign), None, "{foreign}");
    }
    assert_eq!(names.member(&process(7, 3)), Some(member(7, 3)));
    assert_eq!(names.member(&process(7, ALL)), None);
}
