//! A node that starts processes and serves their requests.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Command, ExitStatus};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use gpc_bnr::names::{GroupId, Member, Rank, Set};
use gpc_bnr::protocol::{Attributes, Conversation, ProtocolOutput};
use gpc_bnr::request::{Answer, Identity, Pair, Request};
use gpc_bnr::{Fault, FaultKind, Spec};
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::process::{Pid, Signal, kill_process};

/// Time limit for everything that succeeds.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

type Serial = u64;

/// The result of a run.
#[derive(Debug)]
pub(crate) struct Ran {
    /// Lines on standard output of all processes, unordered.
    pub(crate) lines: BTreeSet<String>,
    /// Exit status of each process of the first group.
    pub(crate) ends: BTreeMap<Rank, ExitStatus>,
    /// Status and message of an abort.
    pub(crate) aborted: Option<(u8, String)>,
    /// Reasons of closed connections.
    pub(crate) closed: Vec<String>,
    /// Number of fence requests.
    pub(crate) fences: usize,
    /// Standard error of all processes.
    pub(crate) errors: String,
}

/// A program to run.
pub(crate) struct Job {
    pub(crate) spec: Spec,
    /// Whether clients that request PMI 1.1 are answered 1.2.
    pub(crate) groups: bool,
}

struct Group {
    size: u32,
    parent: Option<GroupId>,
    /// The index of each rank's spec.
    specs: Vec<u32>,
}

#[derive(Default)]
struct World {
    /// MPICH's processes name their shared objects after their database, so each run needs another name.
    name: String,
    groups: BTreeMap<GroupId, Group>,
    links: BTreeMap<Member, (UnixStream, Conversation)>,
    pids: BTreeMap<Member, Pid>,
    values: BTreeMap<(String, Vec<u8>), Vec<u8>>,
    names: BTreeMap<Vec<u8>, Vec<u8>>,
    /// The members that wait in each fence.
    fences: BTreeMap<(Set, Vec<u8>), BTreeMap<Member, Serial>>,
    attributes: Attributes,
    aborted: Option<(u8, String)>,
    closed: Vec<String>,
    fenced: usize,
    with_groups: bool,
    output: Option<(File, File)>,
    ended: Option<Sender<(Member, ExitStatus)>>,
}

/// Processes are started one at a time, so that none inherits the socket of another.
static STARTING: Mutex<()> = Mutex::new(());

/// Runs a program until all processes that it leads to have ended.
pub(crate) fn run(job: Job) -> Ran {
    let folder = tempfile::tempdir().unwrap();
    let files: [PathBuf; 2] = ["out", "err"].map(|name| folder.path().join(name));
    let open = |path: &PathBuf| File::options().create(true).append(true).open(path).unwrap();
    let (sender, ends) = channel();
    let world = Arc::new(Mutex::new(World {
        name: folder.path().file_name().unwrap().to_str().unwrap().replace('.', ""),
        with_groups: job.groups,
        output: Some((open(&files[0]), open(&files[1]))),
        ended: Some(sender),
        ..World::default()
    }));
    start(&world, &mut world.lock().unwrap(), None, &[job.spec], Vec::new()).unwrap();
    let ends = wait(&world, &ends);
    let [out, errors] = files.map(|path| String::from_utf8_lossy(&std::fs::read(path).unwrap()).into_owned());
    let mut world = world.lock().unwrap();
    Ran {
        lines: out.lines().map(str::to_owned).collect(),
        ends,
        aborted: world.aborted.take(),
        closed: std::mem::take(&mut world.closed),
        fences: world.fenced,
        errors,
    }
}

/// Waits until all processes have ended; kills them if they take too long.
fn wait(world: &Arc<Mutex<World>>, ends: &Receiver<(Member, ExitStatus)>) -> BTreeMap<Rank, ExitStatus> {
    let mut statuses = BTreeMap::new();
    while !world.lock().unwrap().pids.is_empty() {
        let Ok((member, status)) = ends.recv_timeout(PATIENCE) else {
            let left: Vec<Member> = world.lock().unwrap().pids.keys().copied().collect();
            world.lock().unwrap().kill();
            panic!("{left:?} have not ended");
        };
        let mut world = world.lock().unwrap();
        world.pids.remove(&member);
        if member.group == GroupId(1) {
            statuses.insert(member.rank, status);
        }
        if !status.success() {
            world.kill();
        }
    }
    statuses
}

/// Starts a group. Returns the system's error number if a process cannot be started.
fn start(
    shared: &Arc<Mutex<World>>,
    world: &mut World,
    parent: Option<GroupId>,
    specs: &[Spec],
    preputs: Vec<Pair>,
) -> Result<(GroupId, u32), i32> {
    let group = GroupId(u32::try_from(world.groups.len()).unwrap() + 1);
    let of = |(number, spec): (u32, &Spec)| vec![number; usize::try_from(spec.count).unwrap()];
    let of_rank: Vec<u32> = (0..).zip(specs).flat_map(of).collect();
    let size = u32::try_from(of_rank.len()).unwrap();
    world.groups.insert(group, Group { size, parent, specs: of_rank.clone() });
    let mapping =
        Pair { key: b"PMI_process_mapping".to_vec(), value: format!("(vector,(0,1,{size}))").into() };
    for pair in preputs.into_iter().chain([mapping]) {
        world.values.insert((world.database(group), pair.key), pair.value);
    }
    for (rank, number) in (0..).zip(of_rank) {
        let spec = &specs[usize::try_from(number).unwrap()];
        process(shared, world, Member { group, rank }, size, spec)
            .map_err(|error| error.raw_os_error().unwrap_or(1))?;
    }
    Ok((group, size))
}

fn process(
    shared: &Arc<Mutex<World>>,
    world: &mut World,
    member: Member,
    size: u32,
    spec: &Spec,
) -> std::io::Result<()> {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let (ours, theirs) = UnixStream::pair()?;
    let mut command = Command::new(text(&spec.program));
    command.args(spec.args.iter().map(|arg| text(arg)));
    let inherited: Vec<String> =
        std::env::vars().map(|(name, _)| name).filter(|name| name.starts_with("PMI")).collect();
    for name in &inherited {
        command.env_remove(name);
    }
    // For Debian's MPICH, which has no other device and ignores the variable.
    command.env("MPIR_CVAR_CH4_NETMOD", "ofi");
    command.env("PMI_FD", theirs.as_raw_fd().to_string());
    command.env("PMI_RANK", member.rank.to_string()).env("PMI_SIZE", size.to_string());
    if member.group != GroupId(1) {
        command.env("PMI_SPAWNED", "1");
    }
    command.envs(spec.env.iter().map(|(name, value)| (text(name), text(value))));
    if let Some((_, folder)) = spec.info.iter().find(|(name, _)| name == "wdir") {
        command.current_dir(text(folder));
    }
    let (out, err) = world.output.as_ref().unwrap();
    command.stdout(out.try_clone()?).stderr(err.try_clone()?).stdin(std::process::Stdio::null());
    let mut child = {
        let _one = STARTING.lock().unwrap();
        fcntl_setfd(&theirs, FdFlags::empty())?;
        command.spawn()
    }?;
    world.pids.insert(member, Pid::from_child(&child));
    let conversation = Conversation::new();
    let conversation = if world.with_groups { conversation.with_groups() } else { conversation };
    let mut reader = ours.try_clone()?;
    world.links.insert(member, (ours, conversation));
    let ended = world.ended.clone().unwrap();
    let shared = shared.clone();
    thread::spawn(move || {
        let mut buffer = [0; 4096];
        while let Ok(count @ 1..) = reader.read(&mut buffer) {
            hear(&shared, member, &buffer[..count]);
        }
        shared.lock().unwrap().attributes.gone(member);
    });
    thread::spawn(move || {
        let status = child.wait().unwrap();
        let _ = ended.send((member, status));
    });
    Ok(())
}

/// Handles bytes from a process, and sends all resulting answers.
fn hear(shared: &Arc<Mutex<World>>, member: Member, bytes: &[u8]) {
    let mut world = shared.lock().unwrap();
    world.links.get_mut(&member).unwrap().1.bytes(bytes);
    let mut heard = vec![member];
    while let Some(member) = heard.pop() {
        while let Some(said) = world.links.get_mut(&member).unwrap().1.next() {
            let answers = match said {
                ProtocolOutput::Request(serial, request) => world.ask(shared, member, serial, request),
                ProtocolOutput::NodeRequest(serial, ask) => world.attributes.ask(member, serial, ask),
                ProtocolOutput::Send(bytes) => {
                    // The process may have ended.
                    let _ = world.links[&member].0.try_clone().unwrap().write_all(&bytes);
                    Vec::new()
                }
                ProtocolOutput::Identify(_) => panic!("nobody has come to a port"),
                ProtocolOutput::Close(why) => {
                    world.closed.push(why);
                    Vec::new()
                }
            };
            for (member, serial, answer) in answers {
                world.links.get_mut(&member).unwrap().1.answered(serial, answer);
                heard.push(member);
            }
        }
    }
}

impl World {
    fn database(&self, group: GroupId) -> String {
        format!("kvs_{}_{}", self.name, group.0)
    }

    fn kill(&self) {
        for pid in self.pids.values() {
            let _ = kill_process(*pid, Signal::KILL);
        }
    }

    /// Handles a request. Returns the answers that are ready now.
    fn ask(
        &mut self,
        shared: &Arc<Mutex<World>>,
        member: Member,
        serial: Serial,
        request: Request,
    ) -> Vec<(Member, Serial, Result<Answer, Fault>)> {
        let missing = || Fault::new(FaultKind::NotFound, "there is no such thing");
        let answer = match request {
            Request::Fence { over, tag, .. } => return self.fence(member, serial, over, tag),
            Request::Abort { code, message } => {
                self.aborted.get_or_insert((code, message));
                self.kill();
                return Vec::new();
            }
            Request::Init => Ok(Answer::Identity(self.identity(member))),
            Request::Finalize => Ok(Answer::Done),
            Request::Put { database, pair, .. } => {
                self.values.insert((database, pair.key), pair.value);
                Ok(Answer::Done)
            }
            Request::Get { database, key } => {
                self.values.get(&(database, key)).cloned().map(Answer::Value).ok_or_else(missing)
            }
            Request::Deposit(pair) if self.names.contains_key(&pair.key) => {
                Err(Fault::new(FaultKind::NameExists, "there is such a name"))
            }
            Request::Deposit(pair) => {
                self.names.insert(pair.key, pair.value);
                Ok(Answer::Done)
            }
            Request::Lookup { name, .. } => {
                self.names.get(&name).cloned().map(Answer::Value).ok_or_else(missing)
            }
            Request::Withdraw(name) => self.names.remove(&name).map(|_| Answer::Done).ok_or_else(missing),
            Request::SpawnMultiple { specs, preputs, .. } => {
                let spawned = start(shared, self, Some(member.group), &specs, preputs);
                let number = |group, errors| Answer::Spawned { group, errors, same_domain: true };
                Ok(match spawned {
                    Ok((group, size)) => number(group, vec![0; usize::try_from(size).unwrap()]),
                    Err(error) => number(GroupId(0), vec![error]),
                })
            }
            other => panic!("{member} asks for {other:?}"),
        };
        vec![(member, serial, answer)]
    }

    fn identity(&self, member: Member) -> Identity {
        let group = &self.groups[&member.group];
        Identity {
            member,
            size: group.size,
            parent: group.parent,
            database: self.database(member.group),
            spec: group.specs[usize::try_from(member.rank).unwrap()],
            neighbours: (0..group.size).collect(),
        }
    }

    fn fence(
        &mut self,
        member: Member,
        serial: Serial,
        over: Set,
        tag: Vec<u8>,
    ) -> Vec<(Member, Serial, Result<Answer, Fault>)> {
        let all: BTreeSet<Member> = match &over {
            Set::Group(group) => {
                (0..self.groups[group].size).map(|rank| Member { group: *group, rank }).collect()
            }
            Set::Members(members) => members.clone(),
        };
        assert!(all.contains(&member));
        let inside = self.fences.entry((over.clone(), tag.clone())).or_default();
        assert_eq!(inside.insert(member, serial), None, "{member} is in this fence already");
        if !all.iter().all(|member| inside.contains_key(member)) {
            return Vec::new();
        }
        self.fenced += 1;
        let inside = self.fences.remove(&(over, tag)).unwrap();
        inside.into_iter().map(|(member, serial)| (member, serial, Ok(Answer::Done))).collect()
    }
}
