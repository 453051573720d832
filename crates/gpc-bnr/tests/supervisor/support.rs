//! A supervisor for the tests, and the output of its processes.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::File;
use std::io::{ErrorKind, Read as _};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use gpc_bnr::Exit;
use gpc_bnr::names::{GroupId, Member};
use gpc_bnr::supervisor::{Recipients, Supervisor, SupervisorEvent, SupervisorOrder, run, stdin_control};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// Time limit for everything, on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Variable that tells this program to act as the supervisor.
const ROLE: &str = "BNR_TEST_KEEPER";

pub(crate) const SIGTERM: u8 = 15;
pub(crate) const SIGKILL: u8 = 9;

/// The supervisor: runs if the program was started with [`command`].
#[test]
fn the_supervisor_itself() {
    if std::env::var_os(ROLE).is_some() {
        let ended = run(stdin_control().unwrap());
        std::process::exit(i32::from(ended.is_err()));
    }
}

/// The command of the supervisor, preceded by a shell script.
pub(crate) fn command(before: &str) -> (OsString, Vec<OsString>) {
    let exe = std::env::current_exe().unwrap();
    let script = format!("{before}\n{ROLE}=1 exec \"$0\" \"$@\"");
    let words = ["support::the_supervisor_itself", "--exact", "--nocapture", "--test-threads=1"];
    let mut args = vec![OsString::from("-c"), script.into(), exe.into()];
    args.extend(words.map(OsString::from));
    ("/bin/sh".into(), args)
}

pub(crate) fn member(group: u32, rank: u32) -> Member {
    Member { group: GroupId(group), rank }
}

/// A supervisor whose events the tests await.
pub(crate) struct Harness {
    pub(crate) supervisor: Supervisor,
    domain: String,
}

/// This side of a started process: its output, and the socket to the node.
pub(crate) struct Process {
    pub(crate) member: Member,
    pub(crate) out: UnixStream,
    pub(crate) link: UnixStream,
}

impl Harness {
    pub(crate) fn new() -> Harness {
        Harness::behind("")
    }

    /// The supervisor is started after this shell script.
    pub(crate) fn behind(before: &str) -> Harness {
        let (program, args) = command(before);
        // Several tests of this program run at the same time.
        static COUNT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let number = COUNT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let domain = format!("test{}x{number}", std::process::id());
        let mut supervisor = Supervisor::start(Path::new(&program), &args).unwrap();
        // Orders wait until the supervisor has sent its version.
        while !supervisor.flush().unwrap() {
            assert!(ready(supervisor.socket(), PollFlags::IN), "the supervisor sends nothing");
            assert_eq!(supervisor.event().unwrap(), None);
        }
        Harness { supervisor, domain }
    }

    pub(crate) fn words(&self, member: Member, program: &str, args: &[&str]) -> SupervisorOrder {
        SupervisorOrder::Start {
            member,
            program: program.into(),
            args: args.iter().map(|arg| arg.as_bytes().to_vec()).collect(),
            env: vec![(b"GPC_BNR_GROUP".to_vec(), format!("{}/{}", self.domain, member.group).into_bytes())],
            wdir: None,
            bind: None,
            image: None,
        }
    }

    /// Orders the start of a process.
    pub(crate) fn order(&mut self, order: SupervisorOrder) -> Process {
        let process = self.queue(order);
        // The rest is sent while events are awaited.
        let _ = self.supervisor.flush();
        process
    }

    /// Queues the start of a process; several are sent in one message while events are awaited.
    pub(crate) fn queue(&mut self, order: SupervisorOrder) -> Process {
        let SupervisorOrder::Start { member, .. } = order else { panic!("{order:?}") };
        // A socket: it reports its end when all processes that have the other end open have ended.
        let (out, theirs) = UnixStream::pair().unwrap();
        let (link, their_link) = UnixStream::pair().unwrap();
        out.set_read_timeout(Some(PATIENCE)).unwrap();
        link.set_read_timeout(Some(PATIENCE)).unwrap();
        let theirs = OwnedFd::from(theirs);
        let nothing = File::open("/dev/null").unwrap();
        let descriptors = vec![nothing.into(), theirs.try_clone().unwrap(), theirs, their_link.into()];
        self.supervisor.order(order, descriptors);
        Process { member, out, link }
    }

    /// Starts a shell.
    pub(crate) fn shell(&mut self, member: Member, script: &str) -> Process {
        let process = self.order(self.words(member, "sh", &["-c", script]));
        assert!(matches!(self.event(), SupervisorEvent::Started(started, _) if started == member));
        process
    }

    /// The next event.
    pub(crate) fn event(&mut self) -> SupervisorEvent {
        self.try_event().unwrap()
    }

    pub(crate) fn try_event(&mut self) -> std::io::Result<SupervisorEvent> {
        loop {
            let _ = self.supervisor.flush();
            if let Some(event) = self.supervisor.event()? {
                return Ok(event);
            }
            let has_gone = self.supervisor.flush()?;
            let mut interest = PollFlags::IN;
            interest.set(PollFlags::OUT, !has_gone);
            assert!(ready(self.supervisor.socket(), interest), "the supervisor sends nothing");
        }
    }

    pub(crate) fn kill(&mut self, group: u32, grace: Option<Duration>) {
        self.supervisor.order(SupervisorOrder::Kill { group: GroupId(group), grace }, Vec::new());
        self.supervisor.flush().unwrap();
    }

    pub(crate) fn signal(&mut self, group: u32, signal: u8) {
        self.supervisor.order(
            SupervisorOrder::Signal { group: GroupId(group), signal, to: Recipients::All },
            Vec::new(),
        );
        self.supervisor.flush().unwrap();
    }

    /// Takes events until the group is empty. Returns the exits of its processes.
    pub(crate) fn emptied(&mut self, group: u32) -> Vec<(u32, Exit)> {
        let mut ended = Vec::new();
        loop {
            match self.event() {
                SupervisorEvent::Ended(member, exit) => {
                    assert_eq!(member.group, GroupId(group));
                    ended.push((member.rank, exit));
                }
                SupervisorEvent::Emptied(id) => {
                    assert_eq!(id, GroupId(group));
                    return ended;
                }
                other => panic!("{other:?}"),
            }
        }
    }

    /// The children of the supervisor, including zombies.
    pub(crate) fn children(&self) -> BTreeSet<u32> {
        let mut children = BTreeSet::new();
        for task in std::fs::read_dir(format!("/proc/{}/task", self.supervisor.id())).unwrap() {
            let list = std::fs::read_to_string(task.unwrap().path().join("children")).unwrap();
            children.extend(list.split_whitespace().map(|pid| pid.parse::<u32>().unwrap()));
        }
        children
    }
}

impl Process {
    /// All output of the process and its descendants, until all have ended.
    pub(crate) fn all(mut self) -> String {
        let mut text = String::new();
        self.out.read_to_string(&mut text).unwrap();
        text
    }

    /// The next line.
    pub(crate) fn line(&mut self) -> String {
        let mut line = Vec::new();
        let mut byte = [0];
        loop {
            self.out.read_exact(&mut byte).unwrap();
            if byte == *b"\n" {
                return String::from_utf8(line).unwrap();
            }
            line.push(byte[0]);
        }
    }

    /// Whether any process still has the output open.
    pub(crate) fn is_there(&mut self) -> bool {
        self.out.set_nonblocking(true).unwrap();
        let read = self.out.read(&mut [0; 100]);
        self.out.set_nonblocking(false).unwrap();
        match read {
            Ok(count) => count > 0,
            Err(error) => error.kind() == ErrorKind::WouldBlock,
        }
    }
}

/// Waits for a descriptor. Returns whether it was ready in time.
pub(crate) fn ready(descriptor: impl AsFd, interest: PollFlags) -> bool {
    let patience = Timespec { tv_sec: PATIENCE.as_secs().cast_signed(), tv_nsec: 0 };
    poll(&mut [PollFd::new(&descriptor, interest)], Some(&patience)).unwrap() > 0
}
