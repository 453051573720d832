//! A node for tests: it starts helper processes as the nodes of one job, and answers their upcalls.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use gpc_pmix::server::{
    Answer, Event, Events, Info, Job, NodeRanks, Order, Process, Upcall, Variables, encode_order,
};

/// Longest wait for anything. Long enough for a busy machine.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

/// The helper, which cargo builds before it runs the tests of a package.
pub(crate) fn helper_program() -> PathBuf {
    let tests = std::env::current_exe().unwrap();
    let path = tests.ancestors().nth(2).unwrap().join("examples/pmix_server");
    assert!(path.is_file(), "run `cargo build --package gpc-pmix --example pmix_server` first");
    path
}

/// A helper process and its socket.
pub(crate) struct Helper {
    pub(crate) child: Child,
    /// `None` once the node has closed it.
    pub(crate) socket: Option<UnixStream>,
}

/// A process of a job.
pub(crate) struct Started {
    pub(crate) process: Process,
    pub(crate) child: Child,
}

/// An upcall that waits for those of other nodes.
type Waiting = Vec<(usize, u64, Vec<u8>)>;

/// The nodes of a job, and its processes.
pub(crate) struct World {
    pub(crate) helpers: Vec<Helper>,
    pub(crate) events: Receiver<(usize, Option<Event>)>,
    pub(crate) started: Vec<Started>,
    /// Upcalls in the order of their arrival.
    pub(crate) upcalls: Vec<Upcall>,
    /// Events that answer orders.
    answers: Vec<(usize, Event)>,
    jobs: BTreeMap<String, Job>,
    collectives: BTreeMap<(&'static str, Vec<Process>), Waiting>,
    published: Vec<(Process, Info)>,
    fetches: Vec<(usize, u64)>,
    /// Lookups that wait for all their keys: node, number and keys.
    lookups: Vec<(usize, u64, Vec<String>)>,
}

impl World {
    /// Starts helpers with these names. Without libpmix it returns `None`.
    pub(crate) fn start(hosts: &[&str]) -> Option<World> {
        World::start_with(hosts, None)
    }

    /// The same with helpers that have the libpmix of a folder.
    pub(crate) fn start_with(hosts: &[&str], library: Option<&Path>) -> Option<World> {
        let (sender, events) = channel();
        let helpers =
            hosts.iter().enumerate().map(|(node, host)| helper(node, host, library, &sender)).collect();
        let mut world = World {
            helpers,
            events,
            started: Vec::new(),
            upcalls: Vec::new(),
            answers: Vec::new(),
            jobs: BTreeMap::new(),
            collectives: BTreeMap::new(),
            published: Vec::new(),
            fetches: Vec::new(),
            lookups: Vec::new(),
        };
        for node in 0..hosts.len() {
            match world.answer(node, |event| matches!(event, Event::Ready(_) | Event::Failed(_))) {
                Event::Failed(why) if why.contains("libpmix.so.2: cannot open shared object file") => {
                    println!("skipped: needs libpmix (Debian: libpmix2)");
                    return None;
                }
                Event::Failed(why) => panic!("{why}"),
                _ => {}
            }
        }
        Some(world)
    }

    pub(crate) fn order(&mut self, node: usize, order: &Order) {
        let mut bytes = BytesMut::new();
        encode_order(order, &mut bytes).unwrap();
        self.helpers[node].socket.as_mut().unwrap().write_all(&bytes).unwrap();
    }

    /// Waits for the answer to an order. Upcalls that arrive before it are answered.
    pub(crate) fn answer(&mut self, node: usize, is_it: impl Fn(&Event) -> bool) -> Event {
        let end = Instant::now() + LIMIT;
        loop {
            if let Some(at) = self.answers.iter().position(|(of, event)| *of == node && is_it(event)) {
                return self.answers.remove(at).1;
            }
            let left = end.saturating_duration_since(Instant::now());
            let (from, event) = self.events.recv_timeout(left).expect("an answer of a helper");
            self.take(from, event.expect("a helper that lives"));
        }
    }

    /// Registers a job on all nodes. `spread` has the ranks of each node.
    pub(crate) fn register(
        &mut self,
        namespace: &str,
        hosts: &[&str],
        spread: &[Vec<u32>],
        parent: Option<Process>,
    ) {
        let nodes = hosts.iter().zip(spread);
        let nodes: Vec<NodeRanks> = nodes
            .map(|(host, ranks)| NodeRanks { host: (*host).to_owned(), ranks: ranks.clone(), before: 0 })
            .collect();
        let size = nodes.iter().map(|node| node.ranks.len()).sum::<usize>();
        let size = u32::try_from(size).unwrap();
        for node in 0..self.helpers.len() {
            let here = Some(u32::try_from(node).unwrap());
            let job = Job {
                namespace: namespace.to_owned(),
                parent: parent.clone(),
                slots: size,
                nodes: nodes.clone(),
                here,
                applications: vec![size],
            };
            self.jobs.insert(namespace.to_owned(), job.clone());
            self.order(node, &Order::Register(job));
            let registered = self.answer(node, |event| matches!(event, Event::Registered { .. }));
            assert_eq!(registered, Event::Registered { namespace: namespace.to_owned(), failed: None });
        }
    }

    /// The variables of a process.
    pub(crate) fn prepare(&mut self, node: usize, process: &Process) -> Variables {
        let user = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        self.order(node, &Order::Prepare { process: process.clone(), user });
        let wanted = process.clone();
        match self
            .answer(node, |event| matches!(event, Event::Environment { process, .. } if *process == wanted))
        {
            Event::Environment { variables: Ok(variables), .. } => variables,
            other => panic!("{other:?}"),
        }
    }

    /// Starts the processes of a registered job.
    pub(crate) fn run(&mut self, namespace: &str, program: &Path, arguments: &[&str]) {
        self.run_with(namespace, program, arguments, &Vec::new());
    }

    /// The same with further variables.
    fn run_with(&mut self, namespace: &str, program: &Path, arguments: &[&str], more: &Variables) {
        let job = self.jobs[namespace].clone();
        for (node, ranks) in job.nodes.iter().enumerate() {
            for &rank in &ranks.ranks {
                let process = Process { namespace: namespace.to_owned(), rank };
                let mut variables = more.clone();
                variables.extend(self.prepare(node, &process));
                let child = self.command(program, arguments, &variables).spawn().unwrap();
                self.started.push(Started { process, child });
            }
        }
    }

    /// A command with the variables of a process.
    pub(crate) fn command(&self, program: &Path, arguments: &[&str], variables: &Variables) -> Command {
        use std::ffi::OsStr;
        use std::os::unix::ffi::OsStrExt as _;
        let mut command = Command::new(program);
        let variables =
            variables.iter().map(|(name, value)| (OsStr::from_bytes(name), OsStr::from_bytes(value)));
        command
            .args(arguments)
            .envs(variables)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// Answers upcalls until all processes have ended. Returns their exit codes and output in the order of their ranks.
    pub(crate) fn finish(&mut self) -> Vec<(Option<i32>, String)> {
        let end = Instant::now() + LIMIT;
        while self.started.iter_mut().any(|started| started.child.try_wait().unwrap().is_none()) {
            assert!(Instant::now() < end, "all processes end");
            self.serve(Duration::from_millis(5));
        }
        let outputs = self.started.drain(..).map(|started| {
            let output = started.child.wait_with_output().unwrap();
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            (output.status.code(), text(&output.stdout) + &text(&output.stderr))
        });
        outputs.collect()
    }

    /// Answers the upcalls that arrive within this time.
    pub(crate) fn serve(&mut self, time: Duration) {
        if let Ok((node, Some(event))) = self.events.recv_timeout(time) {
            self.take(node, event);
        }
    }

    /// Answers upcalls until this is so.
    pub(crate) fn serve_until(&mut self, what: &str, mut is_so: impl FnMut(&mut World) -> bool) {
        let end = Instant::now() + LIMIT;
        while !is_so(self) {
            assert!(Instant::now() < end, "{what}");
            self.serve(Duration::from_millis(5));
        }
    }

    /// Whether a node waits for others in a fence.
    pub(crate) fn waits(&self) -> bool {
        !self.collectives.is_empty()
    }

    fn take(&mut self, node: usize, event: Event) {
        match event {
            Event::Upcall { serial, upcall } => {
                self.upcalls.push(upcall.clone());
                self.upcall(node, serial, upcall);
            }
            Event::Data { serial, data } if serial >= FETCH => {
                let (from, upcall) = self.fetches[usize::try_from(serial - FETCH).unwrap()];
                self.order(from, &Order::Answer { serial: upcall, answer: data.map(Answer::Data) });
            }
            other => self.answers.push((node, other)),
        }
    }

    fn upcall(&mut self, node: usize, serial: u64, upcall: Upcall) {
        let answer = match upcall {
            Upcall::Connected(_) | Upcall::Event { .. } => return,
            Upcall::Fence { processes, data, .. } => {
                return self.collective("fence", processes, node, serial, data);
            }
            Upcall::Connect { processes, .. } => {
                return self.collective("connect", processes, node, serial, Vec::new());
            }
            Upcall::Disconnect { processes, .. } => {
                return self.collective("disconnect", processes, node, serial, Vec::new());
            }
            Upcall::Fetch { process, .. } => return self.fetch(node, serial, process),
            Upcall::Publish { process, info } => {
                let pairs = info.into_iter().filter(|info| !info.key.starts_with("pmix."));
                self.published.extend(pairs.map(|info| (process.clone(), info)));
                for (node, serial, keys) in std::mem::take(&mut self.lookups) {
                    self.look_up(node, serial, keys, true);
                }
                Ok(Answer::Done)
            }
            Upcall::Lookup { keys, info, .. } => {
                let is_waiting = info.iter().any(|info| info.key == "pmix.wait");
                return self.look_up(node, serial, keys, is_waiting);
            }
            Upcall::Unpublish { keys, .. } => {
                self.published.retain(|(_, info)| !keys.contains(&info.key));
                Ok(Answer::Done)
            }
            Upcall::Spawn { process, applications, .. } => {
                let application = &applications[0];
                let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
                let program = text(&application.program);
                let arguments: Vec<String> = application.arguments.iter().map(|one| text(one)).collect();
                let namespace = format!("spawned-{serial}");
                let hosts: Vec<String> =
                    self.jobs[&process.namespace].nodes.iter().map(|node| node.host.clone()).collect();
                let hosts: Vec<&str> = hosts.iter().map(String::as_str).collect();
                let mut spread = vec![Vec::new(); hosts.len()];
                (0..application.count).for_each(|rank| spread[rank as usize % hosts.len()].push(rank));
                self.register(&namespace, &hosts, &spread, Some(process));
                let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
                self.run_with(&namespace, Path::new(&program), &arguments, &application.environment);
                Ok(Answer::Spawned(namespace))
            }
            Upcall::Abort { .. } => {
                self.started.iter_mut().for_each(|started| started.child.kill().unwrap());
                Ok(Answer::Done)
            }
            _ => Ok(Answer::Done),
        };
        self.order(node, &Order::Answer { serial, answer });
    }

    fn look_up(&mut self, node: usize, serial: u64, keys: Vec<String>, is_waiting: bool) {
        let found = self.published.iter().filter(|(_, info)| keys.contains(&info.key));
        let found: Vec<(Process, Info)> = found.cloned().collect();
        if is_waiting && found.len() < keys.len() {
            return self.lookups.push((node, serial, keys));
        }
        self.order(node, &Order::Answer { serial, answer: Ok(Answer::Found(found)) });
    }

    /// One upcall of each node that has members, then one answer to each.
    fn collective(
        &mut self,
        what: &'static str,
        mut set: Vec<Process>,
        node: usize,
        serial: u64,
        data: Vec<u8>,
    ) {
        set.sort();
        let members = |node: usize| {
            let jobs = set.iter().map(|process| (&self.jobs[&process.namespace], process.rank));
            jobs.into_iter().any(|(job, rank)| {
                let ranks = &job.nodes[node].ranks;
                if rank == gpc_pmix::server::ALL { !ranks.is_empty() } else { ranks.contains(&rank) }
            })
        };
        let expected = (0..self.helpers.len()).filter(|&node| members(node)).count();
        let waiting = self.collectives.entry((what, set.clone())).or_default();
        waiting.push((node, serial, data));
        if waiting.len() < expected {
            return;
        }
        let mut waiting = self.collectives.remove(&(what, set)).unwrap();
        waiting.sort();
        let all: Vec<u8> = waiting.iter().flat_map(|(_, _, data)| data.iter().copied()).collect();
        for (node, serial, _) in waiting {
            let answer = if what == "fence" { Answer::Data(all.clone()) } else { Answer::Done };
            self.order(node, &Order::Answer { serial, answer: Ok(answer) });
        }
    }

    fn fetch(&mut self, node: usize, serial: u64, process: Process) {
        let job = &self.jobs[&process.namespace];
        let at = job.nodes.iter().position(|node| node.ranks.contains(&process.rank)).unwrap();
        let number = FETCH + self.fetches.len() as u64;
        self.fetches.push((node, serial));
        self.order(at, &Order::Data { serial: number, process });
    }

    /// Closes the sockets and waits for the helpers. All must end normally.
    pub(crate) fn end(mut self) {
        for helper in &mut self.helpers {
            let socket = helper.socket.take().unwrap();
            socket.shutdown(std::net::Shutdown::Both).unwrap();
        }
        for helper in &mut self.helpers {
            let status = wait(&mut helper.child);
            assert!(status.success(), "{status}");
        }
    }
}

/// Numbers of requests begin here.
const FETCH: u64 = 1000;

/// The reason why a helper with the libpmix of a folder and these variables cannot work.
pub(crate) fn refusal(library: &Path, variables: &[(&str, &str)]) -> String {
    let variables = [&[("LD_LIBRARY_PATH", library.to_str().unwrap())], variables].concat();
    match first_event(&[], &variables) {
        Event::Failed(why) => why,
        other => panic!("{other:?}"),
    }
}

/// The first event of a helper with these arguments and variables, whose node goes at once.
pub(crate) fn first_event(arguments: &[&str], variables: &[(&str, &str)]) -> Event {
    let (own, other) = UnixStream::pair().unwrap();
    own.shutdown(std::net::Shutdown::Write).unwrap();
    let mut command = Command::new(helper_program());
    command.args(arguments).envs(variables.iter().copied());
    let mut child = command.stdin(Stdio::from(OwnedFd::from(other))).spawn().unwrap();
    // The command holds the other end of the socket.
    drop(command);
    let (mut events, mut bytes) = (Events::default(), Vec::new());
    (&own).read_to_end(&mut bytes).unwrap();
    events.push(&bytes);
    assert!(wait(&mut child).success());
    events.next_event().unwrap().unwrap()
}

/// Waits for a process within the limit.
pub(crate) fn wait(child: &mut Child) -> std::process::ExitStatus {
    let end = Instant::now() + LIMIT;
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status;
        }
        assert!(Instant::now() < end, "a process that ends");
        thread::sleep(Duration::from_millis(2));
    }
}

fn helper(
    node: usize,
    host: &str,
    library: Option<&Path>,
    sender: &Sender<(usize, Option<Event>)>,
) -> Helper {
    let (own, other) = UnixStream::pair().unwrap();
    let mut command = Command::new(helper_program());
    command.arg(host).stdin(Stdio::from(OwnedFd::from(other)));
    if let Some(library) = library {
        command.env("LD_LIBRARY_PATH", library);
    }
    let child = command.spawn().unwrap();
    let (mut reading, sender) = (own.try_clone().unwrap(), sender.clone());
    thread::spawn(move || {
        let (mut events, mut bytes) = (Events::default(), vec![0; 1 << 16]);
        loop {
            match reading.read(&mut bytes) {
                Ok(0) | Err(_) => break,
                Ok(length) => events.push(&bytes[..length]),
            }
            while let Some(event) = events.next_event().unwrap() {
                // The world may have ended.
                let _ = sender.send((node, Some(event)));
            }
        }
        let _ = sender.send((node, None));
    });
    Helper { child, socket: Some(own) }
}

impl Drop for World {
    fn drop(&mut self) {
        for started in &mut self.started {
            let _ = started.child.kill();
            let _ = started.child.wait();
        }
        for helper in &mut self.helpers {
            if helper.socket.take().is_some() {
                let _ = helper.child.kill();
                let _ = helper.child.wait();
            }
        }
    }
}
