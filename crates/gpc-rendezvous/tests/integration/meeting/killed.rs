//! Tasks in processes of their own, some of which are killed while others wait.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use chained_gpc::{Functions, Id, Job, Listener, Node, Peers};
use gpc_rendezvous::meeting::{ClientResource, Plan, Tasks};
use gpc_rendezvous::native::{Client, Host};
use gpc_rendezvous::{Handle, Limits, Spec};
use gpc_test_support::waiting::until;

use super::PATIENCE;

/// Environment variable with the task of a child process: `ID HANDLE PEERS`, where the handle may be `-`.
const TASK: &str = "GPC_TEST_TASK";

/// A task in a process of its own, which is killed when the test ends, if not before.
struct Process {
    child: Child,
    lines: BufReader<ChildStdout>,
}

impl Process {
    /// Runs [`a_task_of_another_process`] with this id.
    fn start(id: Id, handle: Option<&Handle>, peers: &str) -> Process {
        let handle = handle.map_or("-".to_owned(), Handle::to_string);
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "meeting::killed::a_task_of_another_process", "--nocapture", "--quiet"])
            .env(TASK, format!("{id} {handle} {peers}"))
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        Process { child, lines }
    }

    /// The rest of the next line that contains `word`.
    fn says(&mut self, word: &str) -> String {
        let mut line = String::new();
        // Ends: with the process.
        while self.lines.read_line(&mut line).unwrap() > 0 {
            if let Some((_, said)) = line.trim_end().split_once(word) {
                return said.to_owned();
            }
            line.clear();
        }
        panic!("it ended without saying {word}")
    }

    /// Kills it with SIGKILL.
    fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Unique addresses for `n` ids.
fn peers(test: &str, n: u32) -> String {
    let line = |id| format!("{id} unix:@gpc-rendezvous-{test}-{}-{id}", std::process::id());
    (0..n).map(line).collect::<Vec<String>>().join(";")
}

fn start(id: Id, peers: &str, functions: &Functions) -> Node {
    let peers: Peers = peers.replace(';', "\n").parse().unwrap();
    let listener = Listener::bind(&peers.address(id).unwrap()).unwrap();
    Node::builder(id).peers(peers).listener(listener).functions(functions).start().unwrap()
}

/// Not a test by itself: the body of the child processes. Each joins a meeting of four tasks, with id 0 as controlling
/// task.
#[test]
fn a_task_of_another_process() {
    let Ok(task) = std::env::var(TASK) else { return };
    let [id, handle, peers] = task.splitn(3, ' ').collect::<Vec<_>>()[..] else { panic!("{task}") };
    let id: Id = id.parse().unwrap();
    let functions = Functions::new();
    let tasks = Tasks::register(&functions, 0).unwrap();
    let node = start(id, peers, &functions);
    // The tasks that id 0 asks may still be starting; id 0 itself runs before they meet.
    let start = if id == 0 { PATIENCE } else { Duration::ZERO };
    let plan = Plan::new(0..4, format!("{id}"), PATIENCE).start(start);
    let plan = match handle {
        "-" => plan,
        handle => {
            let handle = handle.parse().unwrap();
            plan.at(Arc::new(ClientResource::new(Client::of(node.caller(), &handle).unwrap(), handle)))
        }
    };
    if id != 0 {
        node.wait_for_peers([0], PATIENCE).unwrap();
    }
    println!("\nmeets now");
    match tasks.meet(&node, plan) {
        Ok(completion) => println!("\nends {}", String::from_utf8_lossy(&completion.data)),
        Err(error) => println!("\nends {error}"),
    }
}

/// Ids 1 and 2 wait for id 0, which waits for id 3, which never joins. Then id 0 is killed.
#[test]
fn a_controlling_task_that_is_killed_is_named_to_all_who_wait() {
    let peers = peers("controlling", 4);
    let functions = Functions::new();
    // Id 3 is this process, which never provides its data.
    let _tasks = Tasks::register(&functions, 0).unwrap();
    let _node = start(3, &peers, &functions);
    let mut processes: Vec<Process> = [0, 1, 2].map(|id| Process::start(id, None, &peers)).into();
    processes.iter_mut().for_each(|process| drop(process.says("meets ")));
    processes[0].kill();
    for other in &mut processes[1..] {
        let said = other.says("ends ");
        assert!(said.starts_with("the controlling task, id 0, is lost: "), "{said}");
    }
}

/// A registrant is killed before all have registered, and another process takes its rank.
#[test]
fn a_registrant_that_is_killed_makes_room_for_another_one() {
    let peers = peers("registrant", 4);
    let functions = Functions::new();
    let tasks = Tasks::register(&functions, 0).unwrap();
    let host = Host::register(&functions, Limits::default()).unwrap();
    let node = start(0, &peers, &functions);
    host.attach(&node).unwrap();
    let client = Client::new(node.caller(), Job::default(), 0);
    let handle = client.create(&Spec::new(4)).unwrap();
    let tally = |wanted| until("the tally", || client.properties(&handle).unwrap().tally == wanted);
    let mut dies = Process::start(2, Some(&handle), &peers);
    tally(1);
    dies.kill();
    tally(0);
    let mut others: Vec<Process> = [1, 2, 3].map(|id| Process::start(id, Some(&handle), &peers)).into();
    let plan = Plan::new(0..4, "0", PATIENCE);
    let plan = plan.at(Arc::new(ClientResource::new(client.clone(), handle.clone())));
    let completion = tasks.meet(&node, plan).unwrap();
    assert_eq!(completion.data, "4 1 01 11 21 3");
    for other in &mut others {
        assert_eq!(other.says("ends "), "4 1 01 11 21 3");
    }
    // The shutdown leaves time for the last answers.
    node.shutdown(Duration::from_secs(1));
}
