//! A node of a domain whose supervisor, processes and clock the test plays: no process is started, and no time passes.

mod ends;
mod links;
mod others;
mod output;
mod starts;

use std::fs::File;
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use chained_gpc::{Caller, Clock};
use mio::{Events, Interest, Poll};

use super::calls::Handles;
use super::engine::{Engine, Parts};
use super::events::HostEvent;
use super::listeners::Listeners;
use super::mailbox::{EngineMessage, Mailbox};
use super::outflow::{Destination, Outflow, Writing};
use super::sources::{Source, WAKER};
use super::supervisor::SupervisorCommand;
use crate::codec::{DOWN_MAX, Down, Frame, MAGIC, decode_down, encode_up, take_frame};
use crate::domain::{Domain, Serial, Settings};
use crate::exit::Exit;
use crate::fault::Fault;
use crate::limits::Limits;
use crate::names::{GroupId, Member};
use crate::request::{Answer, Request};
use crate::spec::{OnDeath, Readers, Spec};
use crate::supervisor::stand_in::StandIn;
use crate::supervisor::{SupervisorEvent, SupervisorOrder};

const ME: u32 = 7;

/// A pending answer of the node.
type Pending = Receiver<Result<Answer, Fault>>;

struct Rig {
    engine: Engine,
    mailbox: Mailbox,
    events: Receiver<HostEvent>,
    writings: Receiver<Writing>,
    /// The time on the node's clock, in milliseconds.
    millis: Arc<AtomicU64>,
    supervisor: StandIn,
    poll: (Events, Vec<u8>),
}

/// A process as the supervisor gets it.
struct Process {
    member: Member,
    order: SupervisorOrder,
    input: File,
    out: File,
    err: File,
    link: UnixStream,
    received: BytesMut,
    serial: Serial,
}

impl Rig {
    fn new() -> Rig {
        Rig::with(None, false)
    }

    fn with(tools: Option<UnixListener>, port: bool) -> Rig {
        Rig::among(&[ME], None, (tools, port))
    }

    /// A node of a domain of these nodes, which calls the others with this caller. The first node is the head.
    fn among(
        nodes: &[u32],
        caller: Option<(Handles, Caller)>,
        (tools, port): (Option<UnixListener>, bool),
    ) -> Rig {
        let millis = Arc::new(AtomicU64::new(5_000));
        let read = millis.clone();
        let clock = Clock::reading(move || Duration::from_millis(read.load(Ordering::Relaxed)));
        let poll = Poll::new().unwrap();
        let (mailbox, inbox) = Mailbox::new(poll.registry(), WAKER).unwrap();
        let (sender, events) = mpsc::channel();
        let (writer, writings) = mpsc::sync_channel(4);
        let settings = Settings {
            me: ME,
            nodes: nodes.to_vec(),
            runs: true,
            name: "d0".into(),
            limits: Limits::default(),
            slots: std::collections::BTreeMap::new(),
            addresses: std::collections::BTreeMap::new(),
            host: "here".into(),
            dead_after: None,
        };
        let destination = match nodes.first() == Some(&ME) {
            true => Destination::Written(writer),
            false => Destination::Sent,
        };
        let (calls, caller) = caller.unzip();
        let mut engine = Engine::new(Parts {
            poll,
            mailbox: mailbox.clone(),
            inbox,
            me: ME,
            nodes: nodes.to_vec(),
            name: "d0".into(),
            domain: Domain::new(settings, clock.now()),
            clock: clock.clone(),
            outflow: Outflow::new(ME, nodes.to_vec(), destination),
            supervisor: SupervisorCommand { program: "/nowhere/supervisor".into(), args: Vec::new() },
            pmix: None,
            starts_at_once: false,
            listeners: Listeners::open(tools, port).unwrap(),
            events: Some(sender),
            calls,
            caller,
        });
        let (ours, mut supervisor) = StandIn::supervisor(clock);
        supervisor.greet();
        let both = Interest::READABLE | Interest::WRITABLE;
        engine.sources.watch(Source::Supervisor, ours.socket().as_raw_fd(), both).unwrap();
        engine.supervisor.process = Some(ours);
        let poll = (Events::with_capacity(64), vec![0; 64 << 10]);
        Rig { engine, mailbox, events, writings, millis, supervisor, poll }
    }

    /// Some turns of the loop: what the node can do now, it has done.
    fn turns(&mut self) {
        (0..8).for_each(|_| self.turn());
    }

    fn turn(&mut self) {
        // Wakes the loop, so that it does not wait.
        self.send(EngineMessage::CallReady(u64::MAX));
        self.engine.turn(&mut self.poll.0, &mut self.poll.1);
    }

    /// Turns until something is so. The system may deliver the bytes of a TCP connection a little later.
    #[track_caller]
    fn until(&mut self, mut is_so: impl FnMut(&mut Rig) -> bool) {
        for _ in 0..100_000 {
            if is_so(self) {
                return self.turns();
            }
            self.turn();
            std::thread::yield_now();
        }
        panic!("it does not become so");
    }

    fn send(&self, message: EngineMessage) {
        assert!(self.mailbox.send(message).is_ok());
    }

    /// Moves the clock.
    fn passes(&mut self, millis: u64) {
        self.millis.fetch_add(millis, Ordering::Relaxed);
        self.turns();
    }

    fn ask(&mut self, request: Request) -> Pending {
        let (sender, answer) = mpsc::channel();
        let callback = Box::new(move |answer| drop(sender.send(answer)));
        self.send(EngineMessage::Ask { request: Box::new(request), callback });
        self.turns();
        answer
    }

    fn spawns(&mut self, spec: Spec, input: bool) -> Pending {
        let (specs, preputs) = (vec![spec], Vec::new());
        let input = if input { Readers::First } else { Readers::None };
        self.ask(Request::SpawnMultiple { specs, preputs, on_death: OnDeath::Kill, input })
    }

    /// The starts that have been ordered.
    fn ordered(&mut self) -> Vec<Process> {
        self.supervisor
            .orders()
            .into_iter()
            .map(|(order, descriptors)| Process::new(order, descriptors))
            .collect()
    }

    fn tell(&mut self, event: SupervisorEvent) {
        self.supervisor.tell(&event);
        self.turns();
    }

    /// Starts processes. The number of a process's group is its process id.
    fn start(&mut self, count: u32, input: bool) -> (GroupId, Vec<Process>) {
        let answer = self.spawns(spec(count), input);
        let processes = self.ordered();
        assert_eq!(processes.len(), count as usize);
        for process in &processes {
            self.tell(SupervisorEvent::Started(process.member, 1_000_000 + process.member.rank));
        }
        match answer.try_recv() {
            Ok(Ok(Answer::Spawned { group, .. })) => (group, processes),
            other => panic!("{other:?}"),
        }
    }

    fn ends(&mut self, member: Member, exit: Exit) {
        self.tell(SupervisorEvent::Ended(member, exit));
    }

    /// The processes of a group end, and nothing of it is left.
    fn ends_all(&mut self, processes: Vec<Process>) {
        let members: Vec<Member> = processes.iter().map(|process| process.member).collect();
        drop(processes);
        members.iter().for_each(|member| self.ends(*member, Exit::Code(0)));
        let group = members[0].group;
        let kills = self.supervisor.orders();
        let is_kill = |order: &SupervisorOrder| matches!(order, SupervisorOrder::Kill { group: killed, .. } if *killed == group);
        assert!(kills.iter().any(|(order, _)| is_kill(order)), "{kills:?}");
        self.tell(SupervisorEvent::Emptied(group));
    }

    fn feed(&mut self, bytes: &[u8]) -> Receiver<std::io::Result<()>> {
        let (done, fed) = mpsc::sync_channel(1);
        self.send(EngineMessage::Feed { data: Bytes::copy_from_slice(bytes), done });
        self.turns();
        fed
    }

    /// The writer writes all that it has got. Returns it: rank, stream, text.
    fn written(&mut self) -> Vec<(Member, crate::streams::Stream, String)> {
        let mut all = Vec::new();
        while let Ok(pieces) = self.writings.try_recv() {
            all.extend(pieces.into_iter().map(|piece| {
                (piece.member, piece.stream, String::from_utf8_lossy(&piece.bytes).into_owned())
            }));
            self.send(EngineMessage::Written(Ok(())));
            self.turns();
        }
        all
    }

    /// Nothing is left at the node, once processes without a link have had their time to end.
    #[track_caller]
    fn assert_empty(&mut self) {
        self.turns();
        self.passes(10_000);
        // A process that another test starts holds copies of all descriptors for a moment, so ends arrive later.
        for _ in 0..20_000 {
            if self.engine.snapshot().left(&[]).is_empty() {
                return;
            }
            self.millis.fetch_add(1, Ordering::Relaxed);
            self.turn();
            std::thread::yield_now();
        }
        assert_eq!(self.engine.snapshot().left(&[]), []);
    }
}

impl Process {
    fn new(order: SupervisorOrder, descriptors: Vec<OwnedFd>) -> Process {
        let SupervisorOrder::Start { member, .. } = &order else { panic!("{order:?}") };
        let [input, out, err, link] = <[OwnedFd; 4]>::try_from(descriptors).unwrap();
        let link = UnixStream::from(link);
        link.set_nonblocking(true).unwrap();
        rustix::io::ioctl_fionbio(&input, true).unwrap();
        rustix::io::ioctl_fionbio(&out, true).unwrap();
        let member = *member;
        let (input, out, err) = (input.into(), out.into(), err.into());
        Process { member, order, input, out, err, link, received: BytesMut::new(), serial: 0 }
    }

    /// Sends a request, and returns its number.
    fn asks(&mut self, request: &Request) -> Serial {
        if self.serial == 0 {
            self.link.write_all(&MAGIC).unwrap();
        }
        self.serial += 1;
        self.link.write_all(&encode_up(self.serial, request).unwrap()).unwrap();
        self.serial
    }

    /// What the node has sent.
    fn answers(&mut self) -> Vec<Down> {
        let mut buffer = [0; 4096];
        while let Ok(count @ 1..) = self.link.read(&mut buffer) {
            self.received.extend_from_slice(&buffer[..count]);
        }
        let mut answers = Vec::new();
        while let Ok(Frame::Whole(body)) = take_frame(&mut self.received, DOWN_MAX) {
            answers.push(decode_down(&body).unwrap());
        }
        answers
    }

    fn reads(&mut self) -> Option<Vec<u8>> {
        let mut buffer = [0; 1 << 17];
        match self.input.read(&mut buffer) {
            Ok(count) => Some(buffer[..count].to_vec()),
            Err(error) if error.kind() == ErrorKind::WouldBlock => None,
            Err(error) => panic!("{error}"),
        }
    }
}

fn spec(count: u32) -> Spec {
    Spec { count, program: b"/bin/sh".to_vec(), ..Spec::default() }
}
