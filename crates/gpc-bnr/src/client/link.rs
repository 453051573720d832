//! The link to a node: any number of threads send requests, and one thread reads the node's messages.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::{self, ThreadId};
use std::time::Duration;

use bytes::BytesMut;
use chained_gpc::{Clock, TimeLimit};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, Shutdown, recv, send, shutdown};

use super::notices::{Sink, Subscriptions};
use super::puts::Puts;
use crate::codec::{DOWN_MAX, Down, Frame, MAGIC, decode_down, encode_up, take_frame};
use crate::domain::Serial;
use crate::fault::{Fault, FaultKind};
use crate::names::GroupId;
use crate::native::UNANSWERED_MAX;
use crate::request::{Answer, Request};

/// Bytes read at a time.
const CHUNK: usize = 64 << 10;

/// Time for which the node may accept no bytes. A node reads all the time.
const STUCK: Duration = Duration::from_secs(60);

/// A limit longer than the life of any process.
const FAR: Duration = Duration::from_secs(1 << 30);

/// The answer to a request.
type AnswerResult = Result<Answer, Fault>;

/// The receiver of an answer.
enum AnswerTarget {
    /// A thread that waits for it, or has waited.
    Answer(Sender<AnswerResult>),
    /// The same; if the answer is not a fault, the deaths of the group go to the sink from now on.
    Subscription(Sender<AnswerResult>, Sink),
    /// A put into this database.
    Put(String),
}

struct State {
    next: Serial,
    open: BTreeMap<Serial, AnswerTarget>,
    puts: Puts,
    /// The reason why the link is closed.
    broken: Option<Fault>,
}

struct Shared {
    socket: OwnedFd,
    /// Held while a frame is written.
    writing: Mutex<()>,
    state: Mutex<State>,
    /// Signals an answer or the end of the link.
    changed: Condvar,
    reader: OnceLock<ThreadId>,
}

/// A link to a node. Dropping it closes the link.
pub(super) struct Link {
    shared: Arc<Shared>,
    margin: Duration,
    clock: Clock,
}

impl Drop for Link {
    fn drop(&mut self) {
        self.shared.break_off(&closed("the link to the node was closed here"));
    }
}

fn closed(why: impl Into<String>) -> Fault {
    Fault::new(FaultKind::Link, why)
}

impl Link {
    /// Starts the conversation with the node at the other end of a socket. Answers are awaited for `margin` longer than
    /// the limits of their requests, by this clock.
    ///
    /// # Errors
    /// System errors.
    pub(super) fn begin(socket: OwnedFd, margin: Duration, clock: Clock) -> io::Result<Link> {
        let stream = UnixStream::from(socket);
        stream.set_nonblocking(false)?;
        stream.set_write_timeout(Some(STUCK))?;
        stream.set_read_timeout(None)?;
        let state = State { next: 0, open: BTreeMap::new(), puts: Puts::default(), broken: None };
        let shared = Arc::new(Shared {
            socket: stream.into(),
            writing: Mutex::default(),
            state: Mutex::new(state),
            changed: Condvar::new(),
            reader: OnceLock::new(),
        });
        // If the node is gone, the first request fails.
        shared.write(&MAGIC);
        let reads = Arc::clone(&shared);
        thread::Builder::new().name("bnr".into()).spawn(move || read(&reads))?;
        Ok(Link { shared, margin, clock })
    }

    /// How long to wait for an answer.
    fn waits(&self, limit: Duration) -> Result<TimeLimit, Fault> {
        if self.shared.reader.get() == Some(&thread::current().id()) {
            let message =
                "a callback of deaths cannot ask its node: who runs it is the one who reads the answers";
            return Err(Fault::new(FaultKind::BadRequest, message));
        }
        Ok(self.clock.limit(limit.saturating_add(self.margin).min(FAR)))
    }

    /// Sends a request and waits for its answer, up to the limit plus the margin.
    pub(super) fn ask(&self, request: &Request, limit: Duration) -> AnswerResult {
        let (sender, receiver) = channel();
        self.ask_and_wait(request, limit, AnswerTarget::Answer(sender), &receiver)
    }

    /// Subscribes to the deaths of a group.
    pub(super) fn subscribe(&self, group: GroupId, sink: Sink, limit: Duration) -> Result<(), Fault> {
        let (sender, receiver) = channel();
        let target = AnswerTarget::Subscription(sender, sink);
        let answered = self.ask_and_wait(&Request::Subscribe(group), limit, target, &receiver);
        answered.and_then(super::answers::one_roster).map(drop)
    }

    fn ask_and_wait(
        &self,
        request: &Request,
        limit: Duration,
        target: AnswerTarget,
        receiver: &Receiver<AnswerResult>,
    ) -> AnswerResult {
        let patience = self.waits(limit)?;
        self.shared.send(request, target, &patience)?;
        match receiver.recv_timeout(patience.left().unwrap_or_default()) {
            Ok(answered) => answered,
            Err(RecvTimeoutError::Timeout) => Err(late(&patience)),
            // The sender's holder sends an answer before it drops the sender.
            Err(RecvTimeoutError::Disconnected) => Err(self.shared.broken()),
        }
    }

    /// Sends a put without waiting for its answer.
    pub(super) fn put(&self, database: &str, request: &Request, limit: Duration) -> Result<(), Fault> {
        let patience = self.waits(limit)?;
        self.shared.send(request, AnswerTarget::Put(database.into()), &patience)
    }

    /// Waits until all earlier puts into a database are answered, and returns the fault of the first refused one.
    pub(super) fn commit(&self, database: &str, limit: Duration) -> Result<(), Fault> {
        let patience = self.waits(limit)?;
        let mut state = self.shared.state();
        let last = state.puts.last(database);
        while !last.is_none_or(|last| state.puts.are_in(database, last)) {
            if let Some(fault) = &state.broken {
                return Err(fault.clone());
            }
            state = self.shared.changed(state, &patience).ok_or_else(|| late(&patience))?;
        }
        state.puts.take_refused(database).map_or(Ok(()), Err)
    }

    /// Sends a request that has no answer.
    pub(super) fn say(&self, request: &Request) -> Result<(), Fault> {
        let serial = {
            let mut state = self.shared.state();
            state.broken.clone().map_or(Ok(()), Err)?;
            state.take_serial()
        };
        self.shared.write(&encode_up(serial, request)?);
        self.shared.state().broken.clone().map_or(Ok(()), Err)
    }

    /// Closes the link. Later requests fail with this reason.
    pub(super) fn end(&self, why: &str) {
        self.shared.break_off(&closed(why));
    }
}

fn late(patience: &TimeLimit) -> Fault {
    let patience = patience.duration();
    Fault::new(FaultKind::TimedOut, format!("the node has not answered within {patience:?}"))
}

impl State {
    fn take_serial(&mut self) -> Serial {
        let serial = self.next;
        self.next += 1;
        serial
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a change; `None` if the time limit is over.
    fn changed<'a>(
        &self,
        state: MutexGuard<'a, State>,
        patience: &TimeLimit,
    ) -> Option<MutexGuard<'a, State>> {
        let left = patience.left()?;
        let (state, _) = self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner);
        Some(state)
    }

    fn broken(&self) -> Fault {
        self.state().broken.clone().unwrap_or_else(|| closed("the link to the node has ended"))
    }

    /// Sends a request once fewer than [`UNANSWERED_MAX`] are unanswered.
    fn send(&self, request: &Request, target: AnswerTarget, patience: &TimeLimit) -> Result<(), Fault> {
        let serial = {
            let mut state = self.state();
            // Terminates at the time limit at the latest.
            loop {
                if let Some(fault) = &state.broken {
                    return Err(fault.clone());
                }
                if state.open.len() < UNANSWERED_MAX {
                    break;
                }
                state = self.changed(state, patience).ok_or_else(|| {
                    let message = format!("{UNANSWERED_MAX} requests of this process are unanswered");
                    Fault::new(FaultKind::TimedOut, message)
                })?;
            }
            let serial = state.take_serial();
            if let AnswerTarget::Put(database) = &target {
                state.puts.made(database, serial);
            }
            state.open.insert(serial, target);
            serial
        };
        match encode_up(serial, request) {
            Ok(frame) => self.write(&frame),
            Err(fault) => {
                let mut state = self.state();
                if let Some(AnswerTarget::Put(database)) = state.open.remove(&serial) {
                    state.puts.unmade(&database, serial);
                }
                self.changed.notify_all();
                return Err(fault);
            }
        }
        Ok(())
    }

    /// Writes all bytes. If that fails, the link is closed.
    fn write(&self, mut bytes: &[u8]) {
        let turn = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        while !bytes.is_empty() {
            match send(&self.socket, bytes, SendFlags::NOSIGNAL) {
                Ok(count) => bytes = &bytes[count..],
                Err(Errno::INTR) => {}
                Err(error) => {
                    let why = match error {
                        Errno::AGAIN => format!("the node has read nothing for {STUCK:?}"),
                        error => gone(&error.to_string()),
                    };
                    drop(turn);
                    return self.break_off(&closed(why));
                }
            }
        }
    }

    /// Closes the link, unless it is closed already, and fails all waiting requests.
    fn break_off(&self, fault: &Fault) {
        let open = {
            let mut state = self.state();
            if state.broken.is_none() {
                state.broken = Some(fault.clone());
            }
            std::mem::take(&mut state.open)
        };
        // The socket may be shut down already.
        let _ = shutdown(&self.socket, Shutdown::Both);
        for target in open.into_values() {
            if let AnswerTarget::Answer(sender) | AnswerTarget::Subscription(sender, ..) = target {
                // The receiver may have stopped waiting.
                let _ = sender.send(Err(self.broken()));
            }
        }
        self.changed.notify_all();
    }
}

fn gone(why: &str) -> String {
    format!(
        "the node of this process is gone ({why}): with it its domain has ended, or `gpc run` has been killed"
    )
}

/// Closes the link when the reader thread ends, also by a panic.
struct Ending<'a>(&'a Shared);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.break_off(&closed("a callback of deaths has panicked: nobody reads the answers of the node"));
    }
}

/// Reads until the link closes.
fn read(shared: &Shared) {
    let ending = Ending(shared);
    // Only this thread sets it.
    let _ = shared.reader.set(thread::current().id());
    let why = reads(shared);
    shared.break_off(&closed(why));
    drop(ending);
}

/// Reads the messages of the node. Returns the reason for the end.
fn reads(shared: &Shared) -> String {
    let (mut come, mut subscriptions) = (BytesMut::new(), Subscriptions::default());
    let mut chunk = vec![0; CHUNK];
    loop {
        match recv(&shared.socket, &mut chunk[..], RecvFlags::empty()) {
            Ok((0, _)) => return gone("it has closed the link"),
            Ok((count, _)) => come.extend_from_slice(&chunk[..count]),
            Err(Errno::INTR) => continue,
            Err(error) => return gone(&error.to_string()),
        }
        loop {
            let body = match take_frame(&mut come, DOWN_MAX) {
                Ok(Frame::Whole(body)) => body,
                Ok(Frame::Part) => break,
                Err(error) => return format!("the node says {error}"),
            };
            match decode_down(&body) {
                Ok(Down::Notice(death)) => subscriptions.tell(death),
                Ok(Down::Answer(serial, answered)) => {
                    if let Err(why) = answer(shared, &mut subscriptions, serial, answered) {
                        return why;
                    }
                }
                Err(error) => return format!("the node says what makes no sense: {error}"),
            }
        }
    }
}

/// Delivers an answer.
fn answer(
    shared: &Shared,
    subscriptions: &mut Subscriptions,
    serial: Serial,
    answered: AnswerResult,
) -> Result<(), String> {
    let mut state = shared.state();
    let target = state.open.remove(&serial);
    if let Some(AnswerTarget::Put(database)) = &target {
        state.puts.answered(database, serial, answered.as_ref().err().cloned());
    }
    let known = serial < state.next;
    drop(state);
    shared.changed.notify_all();
    let sender = match target {
        Some(AnswerTarget::Answer(sender)) => sender,
        Some(AnswerTarget::Subscription(sender, sink)) => {
            if let Ok(Answer::Rosters(groups)) = &answered {
                subscriptions.add(groups.iter().flat_map(|roster| &roster.spans).copied().collect(), sink);
            }
            sender
        }
        Some(AnswerTarget::Put(_)) => return Ok(()),
        // The link was closed here, or the answer refuses an abort.
        None if known => return Ok(()),
        None => return Err(format!("the node answers the request {serial}, which was not made")),
    };
    // The receiver may have stopped waiting.
    let _ = sender.send(answered);
    Ok(())
}

#[cfg(test)]
mod tests;
