//! The service thread: takes requests from a queue, stores all changes of a turn together, and then sends the answers.
//!
//! In each turn, the requests that change the stored state run last. If the store refuses their changes, they are
//! undone and fail, and the service continues with requests that do not need the store: see `unsaved`.

mod unsaved;

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use chained_gpc::{Clock, Id, Job, Secret};

use crate::machine::{
    Answer, Change, Fault, FaultKind, ID_LENGTH, Input, Joint, Limits, Millis, Output, ParentAction,
    ParentOutcome, RandomValues, Request, ResourceId, Service, Spec, StoredState, Ticket, Token,
};
use crate::store::{Store, StoreError};
use unsaved::{StoreUse, UnsavedChanges};

/// Most requests in the queue: some 10,000 tasks may ask at one moment.
const QUEUE: usize = 1 << 16;

/// Most requests in one turn. Their changes are stored together before the first of them is answered, so a longer turn
/// would delay that answer.
const TURN: usize = 4096;

/// Longest sleep of the thread. Cancelled requests are removed at least this often.
const SLEEP: Duration = Duration::from_secs(1);

/// Interval at which the time is stored if nothing else changes, milliseconds. After a crash, lifetimes are extended by
/// at most this time.
const TIME_STORED_EVERY: Millis = 60_000;

/// Callback for an answer. It runs on the service thread and must not block.
type Continuation = Box<dyn FnOnce(Result<Answer, Fault>) + Send>;

/// Callback of the driver that carries out [`ParentAction`] outputs. It runs on the service thread and must not block.
type ParentActionHandler = Box<dyn FnMut(ResourceId, ParentAction) + Send>;

/// The callback of one request. It is called exactly once, even if the service ends.
struct Reply {
    then: Option<Continuation>,
}

enum Command {
    /// A request. The flag is set when its caller cancels it.
    Ask(Ticket, Request, Reply, Arc<AtomicBool>),
    Input(Input),
    End,
}

/// A running service. Dropping it ends the service and answers all waiting requests.
#[derive(Debug)]
pub struct ServiceThread {
    desk: Desk,
    thread: Option<JoinHandle<()>>,
}

/// Submits requests to a service. Cheap to clone.
#[derive(Clone)]
pub struct Desk {
    commands: SyncSender<Command>,
    tickets: Arc<AtomicU64>,
    /// Tickets of cancelled requests. A caller may cancel on the service thread, which must not wait for room in its
    /// own queue. There are at most as many tickets as requests.
    cancelled: Arc<Mutex<Vec<Ticket>>>,
    /// Why the store cannot be written at present.
    failed: Arc<Mutex<Option<StoreError>>>,
    /// Whether the service has ended.
    over: Arc<AtomicBool>,
    clock: Clock,
}

/// A request in progress. Dropping it cancels the request.
#[derive(Debug)]
pub struct PendingRequest {
    desk: Desk,
    ticket: Ticket,
    /// Whether the request is cancelled; for a service that has yet to take it from the queue.
    cancelled: Arc<AtomicBool>,
    detached: bool,
}

impl Reply {
    fn give(mut self, answer: Result<Answer, Fault>) {
        if let Some(then) = self.then.take() {
            then(answer);
        }
    }

    fn forget(mut self) {
        self.then = None;
    }
}

/// Answers a request that the service left in its queue: the request arrived after the service had answered all others
/// and ended.
impl Drop for Reply {
    fn drop(&mut self) {
        if let Some(then) = self.then.take() {
            then(Err(ended()));
        }
    }
}

impl ServiceThread {
    /// Starts a service with the state that the store holds. `on_parent_action` receives the [`ParentAction`] outputs,
    /// for resources that have a parent.
    ///
    /// # Errors
    /// Returns an error if the store cannot be read or the thread cannot be started.
    pub fn start(
        limits: Limits,
        store: Option<Box<dyn Store>>,
        on_parent_action: impl FnMut(ResourceId, ParentAction) + Send + 'static,
    ) -> io::Result<ServiceThread> {
        let (state, desk, taken) =
            ThreadState::new(Clock::since_1970, limits, store, Box::new(on_parent_action))?;
        let thread = thread::Builder::new().name("rendezvous".into()).spawn(move || state.serve(&taken))?;
        Ok(ServiceThread { desk, thread: Some(thread) })
    }

    /// The desk that submits requests to this service.
    pub fn desk(&self) -> &Desk {
        &self.desk
    }
}

impl Drop for ServiceThread {
    fn drop(&mut self) {
        // Blocks while the queue is full; the service takes from it until it has ended.
        let _ = self.desk.commands.send(Command::End);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Desk {
    /// Submits a request. `then` is called once with the answer, on the service thread, and must not block. If the
    /// queue is full or the service has ended, `then` is called immediately on this thread. If the returned value is
    /// dropped earlier, `then` may never be called.
    pub fn ask(
        &self,
        request: Request,
        then: impl FnOnce(Result<Answer, Fault>) + Send + 'static,
    ) -> PendingRequest {
        let ticket = Ticket(self.tickets.fetch_add(1, Ordering::Relaxed));
        let cancelled = Arc::new(AtomicBool::new(false));
        let reply = Reply { then: Some(Box::new(then)) };
        let command = Command::Ask(ticket, request, reply, Arc::clone(&cancelled));
        let refused = match self.commands.try_send(command) {
            Ok(()) => None,
            Err(TrySendError::Full(command)) => {
                let message = "the service is full: too many ask at the same time; ask again a little later";
                Some((command, Fault::new(FaultKind::ServiceFull, message)))
            }
            Err(TrySendError::Disconnected(command)) => Some((command, ended())),
        };
        let detached = refused.is_some();
        if let Some((Command::Ask(_, _, reply, _), fault)) = refused {
            reply.give(Err(fault));
        }
        PendingRequest { desk: self.clone(), ticket, cancelled, detached }
    }

    /// Requests a new resource, and draws the random values for it.
    ///
    /// # Errors
    /// Returns an error if the system has no randomness.
    pub fn create(
        &self,
        spec: Spec,
        then: impl FnOnce(Result<Answer, Fault>) + Send + 'static,
    ) -> io::Result<PendingRequest> {
        let random = draw(spec.joint)?;
        Ok(self.ask(Request::Create { spec, random }, then))
    }

    /// Reports the outcome at the parent of a resource. Waits for room in the queue, so it must not be called on the
    /// service thread.
    pub fn report_outcome(&self, of: ResourceId, above: ParentOutcome) {
        let _ = self.commands.send(Command::Input(Input::ParentOutcome(of, above)));
    }

    /// Reports the loss of the link to a node, after all earlier requests from this thread. Does not block. Returns
    /// `false` if the queue is full: the loss must then be reported again, before the node's next request.
    pub fn report_loss(&self, member: Id, why: String) -> bool {
        let sent = self.commands.try_send(Command::Input(Input::Lost { member, why }));
        // If the service has ended, there is nothing to report.
        !matches!(sent, Err(TrySendError::Full(_)))
    }

    /// The service's time, by which leases, waits and lifetimes are measured: the machine's time when the service
    /// started, plus the time since. Later changes of the machine's clock have no effect.
    pub fn now(&self) -> Millis {
        millis(self.clock.now())
    }

    /// Why the store cannot be written, if so. Until it can be written again, requests that need it are rejected.
    pub fn failed(&self) -> Option<StoreError> {
        locked(&self.failed).clone()
    }

    /// Whether the service has ended and rejects all requests.
    pub fn has_ended(&self) -> bool {
        self.over.load(Ordering::Acquire)
    }
}

impl fmt::Debug for Desk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Desk")
    }
}

impl PendingRequest {
    /// Lets the request run without a way to cancel it.
    pub fn detach(mut self) {
        self.detached = true;
    }
}

impl Drop for PendingRequest {
    fn drop(&mut self) {
        if !self.detached {
            // Before the list: if the service takes the request from its queue after it read the list, it sees this
            // flag.
            self.cancelled.store(true, Ordering::Release);
            locked(&self.desk.cancelled).push(self.ticket);
        }
    }
}

/// Draws a random token.
///
/// # Errors
/// Returns an error if the system has no randomness.
pub fn draw_token() -> io::Result<Token> {
    Token::new(&Secret::random()?.to_text()).ok_or_else(|| io::Error::other("no token was drawn"))
}

/// Draws the random values for a resource.
pub(crate) fn draw(joint: bool) -> io::Result<RandomValues> {
    let (id, token) = (Secret::random()?, draw_token()?);
    let mut bytes = [0; ID_LENGTH];
    bytes.copy_from_slice(&id.as_bytes()[..ID_LENGTH]);
    let joint = match joint {
        true => Some(Joint { job: Job::random(), secret: Secret::random()? }),
        false => None,
    };
    Ok(RandomValues { id: ResourceId(bytes), token, joint })
}

/// A time since 1970, in milliseconds.
fn millis(time: Duration) -> Millis {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

fn ended() -> Fault {
    Fault::new(FaultKind::Unavailable, "the service has ended")
}

/// Locks a mutex. Code under these locks cannot panic, so a poisoned lock is still consistent.
fn locked<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// State of the service thread.
struct ThreadState {
    service: Service,
    store: Option<Box<dyn Store>>,
    on_parent_action: ParentActionHandler,
    waiting: HashMap<Ticket, (Reply, StoreUse)>,
    /// Requests of this turn that change the stored state. It is empty while the store fails.
    writes: Vec<(Ticket, Request)>,
    /// Reads and waits that came after these, and follow them.
    later: Vec<(Ticket, Request)>,
    /// Most waits at a time.
    most: usize,
    /// Changes that the store has yet to take, if its last write failed.
    unsaved: Option<UnsavedChanges>,
    cancelled: Arc<Mutex<Vec<Ticket>>>,
    failed: Arc<Mutex<Option<StoreError>>>,
    over: Arc<AtomicBool>,
    clock: Clock,
    /// Difference between the service's time and the time by which the store counts lifetimes, which stands still while
    /// the service is down.
    shift: i64,
    /// The time that was stored last.
    time_stored: Millis,
}

impl ThreadState {
    /// The state of a service that begins with what the store holds, its desk, and the queue between them. `clock`
    /// makes a clock that shows at least the given time since 1970.
    fn new(
        clock: impl FnOnce(Duration) -> Clock,
        limits: Limits,
        mut store: Option<Box<dyn Store>>,
        on_parent_action: ParentActionHandler,
    ) -> io::Result<(ThreadState, Desk, Receiver<Command>)> {
        let stored = store.as_mut().map_or_else(|| Ok(StoredState::default()), |store| store.load());
        let mut stored = stored.map_err(io::Error::other)?;
        // If the machine's clock was set back, time must still not be before what is stored.
        let newest = stored.resources.iter().map(|(_, resource)| resource.created).max();
        let clock = clock(Duration::from_millis(newest.unwrap_or_default()));
        let now = millis(clock.now());
        // Lifetimes do not pass while the service is down, whatever the machine's clock says: each resource keeps its
        // remaining lifetime.
        let shift = stored.now.map_or(0, |then| now.wrapping_sub(then).cast_signed());
        let lives = stored.resources.iter_mut().map(|(_, resource)| &mut resource.expires);
        lives.for_each(|expires| *expires = expires.saturating_add_signed(shift));
        let service = Service::restored(limits, stored, now);
        let (commands, taken) = sync_channel(QUEUE);
        let desk = Desk {
            commands,
            tickets: Arc::default(),
            cancelled: Arc::default(),
            failed: Arc::default(),
            over: Arc::default(),
            clock: clock.clone(),
        };
        let state = ThreadState {
            service,
            store,
            on_parent_action,
            waiting: HashMap::new(),
            writes: Vec::new(),
            later: Vec::new(),
            most: limits.waiting,
            unsaved: None,
            cancelled: Arc::clone(&desk.cancelled),
            failed: Arc::clone(&desk.failed),
            over: Arc::clone(&desk.over),
            clock,
            shift,
            time_stored: now,
        };
        Ok((state, desk, taken))
    }

    fn now(&self) -> Millis {
        millis(self.clock.now())
    }

    fn serve(mut self, commands: &Receiver<Command>) {
        // The restored service may have outputs.
        self.turn();
        // Ends: with `Command::End`, or when the last desk is dropped.
        loop {
            let first = match commands.recv_timeout(self.sleep()) {
                Ok(command) => Some(command),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => break,
            };
            if !self.step(first, commands) {
                break;
            }
        }
        self.end(commands);
    }

    /// One turn: takes a command and those behind it, or lets the time pass. Returns `false` if the service is to end.
    fn step(&mut self, first: Option<Command>, commands: &Receiver<Command>) -> bool {
        let goes_on = match first {
            Some(command) => self.take(command) && self.take_more(commands),
            None => {
                self.remove_cancelled();
                self.service.handle(self.now(), Input::Tick);
                true
            }
        };
        self.turn();
        goes_on
    }

    fn sleep(&self) -> Duration {
        let again = self.unsaved.as_ref().map(|unsaved| unsaved.again);
        let at = self.service.deadline().into_iter().chain(again).min();
        at.map_or(SLEEP, |at| Duration::from_millis(at.saturating_sub(self.now())).min(SLEEP))
    }

    fn take_more(&mut self, commands: &Receiver<Command>) -> bool {
        let more = commands.try_iter().take(TURN - 1).all(|command| self.take(command));
        self.remove_cancelled();
        more
    }

    /// Removes the cancelled requests. A cancellation takes effect at the next turn, within [`SLEEP`].
    fn remove_cancelled(&mut self) {
        // The lock is released before the loop: dropping a request may submit another one.
        let cancelled = std::mem::take(&mut *locked(&self.cancelled));
        cancelled.into_iter().for_each(|ticket| self.remove_request(ticket));
    }

    fn remove_request(&mut self, ticket: Ticket) {
        // Most cancelled requests have been answered already.
        if let Some((reply, _)) = self.waiting.remove(&ticket) {
            reply.forget();
            self.service.handle(self.now(), Input::Cancelled(ticket));
        }
    }

    fn take(&mut self, command: Command) -> bool {
        match command {
            Command::Ask(_, request, reply, _) if self.unsaved.is_some() && self.service.adds(&request) => {
                let fault = self.unsaved.as_ref().map(UnsavedChanges::fault);
                reply.give(Err(fault.unwrap_or_else(ended)));
            }
            Command::Ask(ticket, request, reply, cancelled) => {
                let store_use = StoreUse::of(&request);
                self.waiting.insert(ticket, (reply, store_use));
                if self.store.is_some() && self.service.adds(&request) {
                    self.writes.push((ticket, request));
                } else if !self.writes.is_empty() && !matches!(store_use, StoreUse::Write(_)) {
                    self.later.push((ticket, request));
                } else {
                    self.service.handle(self.now(), Input::Ask(ticket, request));
                }
                if cancelled.load(Ordering::Acquire) {
                    self.remove_request(ticket);
                }
            }
            Command::Input(input) => {
                // A node is lost after its earlier requests.
                if matches!(input, Input::Lost { .. }) && !self.writes.is_empty() {
                    self.turn();
                }
                self.service.handle(self.now(), input);
            }
            Command::End => return false,
        }
        true
    }

    /// Stores the changes of this turn, then sends the answers. If the store does not take them, the requests that ask
    /// for changes are undone and refused.
    fn turn(&mut self) {
        let writes = std::mem::take(&mut self.writes);
        let tickets: Vec<Ticket> = writes.iter().map(|(ticket, _)| *ticket).collect();
        let now = self.now();
        if !writes.is_empty() {
            // No timer expires within the batch.
            self.service.handle(now, Input::Tick);
        }
        let (changes, outputs) = self.outputs();
        self.service.begin();
        for (ticket, request) in writes {
            self.service.handle(now, Input::Ask(ticket, request));
        }
        let (requested, answers) = self.outputs();
        match self.store_changes(changes, requested, false) {
            Ok(()) => {
                self.service.commit();
                outputs.into_iter().chain(answers).for_each(|output| self.pass(output));
            }
            Err(fault) => {
                self.service.roll_back();
                let (undoing, _) = self.outputs();
                self.unsaved.iter_mut().for_each(|unsaved| unsaved.undo(&undoing));
                outputs.into_iter().for_each(|output| self.pass(output));
                tickets.into_iter().for_each(|ticket| self.give(ticket, Err(fault.clone())));
            }
        }
        self.follow(now);
        let now = self.now();
        let late = self.unsaved.as_mut().map(|unsaved| unsaved.late(now));
        late.into_iter().flatten().for_each(|ticket| self.give(ticket, Ok(Answer::NotYet)));
    }

    /// Handles the reads and waits that follow the requests for changes, at the same time: no timer expires, so there
    /// are no changes.
    fn follow(&mut self, now: Millis) {
        for (ticket, request) in std::mem::take(&mut self.later) {
            // It may be cancelled by now.
            if self.waiting.contains_key(&ticket) {
                self.service.handle(now, Input::Ask(ticket, request));
            }
        }
        let (_, outputs) = self.outputs();
        outputs.into_iter().for_each(|output| self.pass(output));
    }

    /// The outputs of the service: changes to store, and others.
    fn outputs(&mut self) -> (Vec<Change>, Vec<Output>) {
        let (mut changes, mut others) = (Vec::new(), Vec::new());
        while let Some(output) = self.service.next_output() {
            match output {
                Output::Store(change) => changes.push(change),
                output => others.push(output),
            }
        }
        (changes, others)
    }

    /// Passes an output on. While the store fails, an output that depends on changes yet to be stored is held back or
    /// replaced by a fault.
    fn pass(&mut self, output: Output) {
        let Some(unsaved) = &mut self.unsaved else { return self.put(output) };
        let store_use = match &output {
            Output::Answer(ticket, _) => self.waiting.get(ticket).map(|(_, store_use)| *store_use),
            _ => None,
        };
        if let Some(output) = unsaved.pass(store_use, output) {
            self.put(output);
        }
    }

    fn put(&mut self, output: Output) {
        match output {
            Output::Answer(ticket, answer) => self.give(ticket, answer),
            Output::ParentAction(id, up) => (self.on_parent_action)(id, up),
            Output::Store(_) => {}
        }
    }

    /// Stores changes, earlier changes that failed to be stored, changes that requests ask for, and the time. After a
    /// failure the store is retried when the retry is due, or now if `at_once` is set.
    ///
    /// # Errors
    /// The fault for the requests, whose changes are not stored. All other changes are held for the next retry.
    fn store_changes(
        &mut self,
        changes: Vec<Change>,
        requested: Vec<Change>,
        at_once: bool,
    ) -> Result<(), Fault> {
        let now = self.now();
        let Some(store) = &mut self.store else { return Ok(()) };
        let mut stored = match &mut self.unsaved {
            None => changes.clone(),
            Some(unsaved) => {
                unsaved.add(changes.clone());
                if now < unsaved.again && !at_once {
                    return Ok(());
                }
                unsaved.changes()
            }
        };
        stored.extend(requested);
        let time = now.saturating_sub(self.time_stored) >= TIME_STORED_EVERY && !self.service.is_empty();
        if stored.is_empty() && self.unsaved.is_none() && !time && !at_once {
            return Ok(());
        }
        let counted = |millis: Millis| millis.saturating_add_signed(self.shift.saturating_neg());
        for change in &mut stored {
            if let Change::Resource(_, resource) = change {
                resource.expires = counted(resource.expires);
            }
        }
        match store.save(counted(now), &stored) {
            Ok(()) => {
                self.time_stored = now;
                self.recover();
                Ok(())
            }
            Err(error) => Err(self.fall_back(now, changes, error)),
        }
    }

    /// The store has taken all changes: sends the answers that waited for them.
    fn recover(&mut self) {
        let Some(unsaved) = self.unsaved.take() else { return };
        tracing::warn!("the store of the rendezvous service can be written again");
        *locked(&self.failed) = None;
        unsaved.released().for_each(|output| self.put(output));
    }

    /// The store has failed: holds the changes that no request asks for until the next retry, and returns the fault for
    /// requests.
    fn fall_back(&mut self, now: Millis, changes: Vec<Change>, error: StoreError) -> Fault {
        *locked(&self.failed) = Some(error.clone());
        let unsaved = self.unsaved.get_or_insert_with(|| {
            tracing::error!(%error, "the rendezvous service cannot write its store: it refuses what it has to keep, goes on with everything else, and tries again");
            let mut unsaved = UnsavedChanges::new(error.clone(), self.most);
            unsaved.add(changes);
            unsaved
        });
        unsaved.failed(now, error);
        unsaved.fault()
    }

    fn give(&mut self, ticket: Ticket, answer: Result<Answer, Fault>) {
        if let Some((reply, _)) = self.waiting.remove(&ticket) {
            reply.give(answer);
        }
    }

    /// Ends the service: answers the requests that wait and those still in the queue.
    fn end(mut self, commands: &Receiver<Command>) {
        // If it fails, nothing is left to refuse.
        let _ = self.store_changes(Vec::new(), Vec::new(), true);
        self.over.store(true, Ordering::Release);
        for (reply, _) in self.waiting.into_values() {
            reply.give(Err(ended()));
        }
        // Bounded, because a callback may ask again. Dropping the queue answers the requests that arrive later.
        for command in commands.try_iter().take(QUEUE) {
            if let Command::Ask(_, _, reply, _) = command {
                reply.give(Err(ended()));
            }
        }
    }
}

#[cfg(test)]
mod tests;
#[cfg(all(test, feature = "client", feature = "store"))]
mod worlds;
