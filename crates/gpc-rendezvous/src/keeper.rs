//! The service thread: takes requests from a queue, stores all changes of a turn together, and then sends the answers.
//!
//! In each turn, the requests that change the stored state run last. If the store refuses their changes, they are undone
//! and fail, and the service continues with requests that do not need the store: see `unkept`.

mod unkept;

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use chained_gpc::{Id, Job, Secret};

use crate::clock::Clock;
use crate::machine::{
    Above, Answer, Change, Drawn, Fault, FaultKind, ID_LENGTH, Input, Joint, Kept, Limits, Millis, Output,
    Request, ResourceId, Service, Spec, Ticket, Token, Up,
};
use crate::store::{Store, StoreError};
use unkept::{Asks, Unkept};

/// Most requests in the queue: some 10,000 tasks may ask at one moment.
const QUEUE: usize = 1 << 16;

/// Most requests in one turn. Their changes are stored together before the first of them is answered, so a longer turn
/// would delay that answer.
const TURN: usize = 4096;

/// Longest sleep of the thread. Cancelled requests are removed at least this often.
const SLEEP: Duration = Duration::from_secs(1);

/// Interval at which the time is stored if nothing else changes, milliseconds. After a crash, lifetimes are extended by
/// at most this time.
const TIME_KEPT: Millis = 60_000;

/// Callback for an answer. It runs on the service thread and must not block.
type Then = Box<dyn FnOnce(Result<Answer, Fault>) + Send>;

/// Callback of the driver that carries out [`Up`] outputs. It runs on the service thread and must not block.
type Upward = Box<dyn FnMut(ResourceId, Up) + Send>;

/// The callback of one request. It is called exactly once, even if the service ends.
struct Reply {
    then: Option<Then>,
}

enum Task {
    /// A request. The flag is set when its caller cancels it.
    Ask(Ticket, Request, Reply, Arc<AtomicBool>),
    Input(Input),
    End,
}

/// A running service. Dropping it ends the service and answers all waiting requests.
#[derive(Debug)]
pub struct Keeper {
    desk: Desk,
    thread: Option<JoinHandle<()>>,
}

/// Submits requests to a service. Cheap to clone.
#[derive(Clone)]
pub struct Desk {
    tasks: SyncSender<Task>,
    tickets: Arc<AtomicU64>,
    /// Tickets of cancelled requests. A caller may cancel on the service thread, which must not wait for room in its
    /// own queue. There are at most as many tickets as requests.
    gone: Arc<Mutex<Vec<Ticket>>>,
    /// Why the store cannot be written at present.
    failed: Arc<Mutex<Option<StoreError>>>,
    /// Whether the service has ended.
    over: Arc<AtomicBool>,
    clock: Clock,
}

/// A request in progress. Dropping it cancels the request.
#[derive(Debug)]
pub struct Asked {
    desk: Desk,
    ticket: Ticket,
    /// Whether the request is cancelled; for a service that has yet to take it from the queue.
    gone: Arc<AtomicBool>,
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

impl Keeper {
    /// Starts a service with the state that the store holds. `upward` receives the [`Up`] outputs, for resources that
    /// have a parent.
    ///
    /// # Errors
    /// Returns an error if the store cannot be read or the thread cannot be started.
    pub fn start(
        limits: Limits,
        mut store: Option<Box<dyn Store>>,
        upward: impl FnMut(ResourceId, Up) + Send + 'static,
    ) -> io::Result<Keeper> {
        let kept = store.as_mut().map_or_else(|| Ok(Kept::default()), |store| store.load());
        let mut kept = kept.map_err(io::Error::other)?;
        // If the machine's clock was set back, time must still not be before what is stored.
        let newest = kept.resources.iter().map(|(_, resource)| resource.created).max();
        let clock = Clock::not_before(newest.unwrap_or_default());
        // Lifetimes do not pass while the service is down, whatever the machine's clock says: each resource keeps its
        // remaining lifetime.
        let shift = kept.now.map_or(0, |then| clock.now().wrapping_sub(then).cast_signed());
        let lives = kept.resources.iter_mut().map(|(_, resource)| &mut resource.expires);
        lives.for_each(|expires| *expires = expires.saturating_add_signed(shift));
        let service = Service::restored(limits, kept, clock.now());
        let (tasks, taken) = sync_channel(QUEUE);
        let (tickets, failed) = (Arc::default(), Arc::new(Mutex::new(None)));
        let gone = Arc::<Mutex<Vec<Ticket>>>::default();
        let over = Arc::<AtomicBool>::default();
        let (gone_too, failed_too, over_too) = (Arc::clone(&gone), Arc::clone(&failed), Arc::clone(&over));
        let desk = Desk { tasks, tickets, gone: gone_too, failed: failed_too, over: over_too, clock };
        let (upward, waiting, writes) = (Box::new(upward), HashMap::new(), Vec::new());
        let later = Vec::new();
        let (most, unkept, time_kept) = (limits.waiting, None, clock.now());
        let run = Run {
            service,
            store,
            upward,
            waiting,
            writes,
            later,
            most,
            unkept,
            gone,
            failed,
            over,
            clock,
            shift,
            time_kept,
        };
        let thread = thread::Builder::new().name("rendezvous".into()).spawn(move || run.serve(&taken))?;
        Ok(Keeper { desk, thread: Some(thread) })
    }

    /// The desk that submits requests to this service.
    pub fn desk(&self) -> &Desk {
        &self.desk
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        // Blocks while the queue is full; the service takes from it until it has ended.
        let _ = self.desk.tasks.send(Task::End);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Desk {
    /// Submits a request. `then` is called once with the answer, on the service thread, and must not block. If the
    /// queue is full or the service has ended, `then` is called immediately on this thread. If the returned value is
    /// dropped earlier, `then` may never be called.
    pub fn ask(&self, request: Request, then: impl FnOnce(Result<Answer, Fault>) + Send + 'static) -> Asked {
        let ticket = Ticket(self.tickets.fetch_add(1, Ordering::Relaxed));
        let gone = Arc::new(AtomicBool::new(false));
        let reply = Reply { then: Some(Box::new(then)) };
        let task = Task::Ask(ticket, request, reply, Arc::clone(&gone));
        let refused = match self.tasks.try_send(task) {
            Ok(()) => None,
            Err(TrySendError::Full(task)) => {
                let message = "the service is full: too many ask at the same time; ask again a little later";
                Some((task, Fault::new(FaultKind::ServiceFull, message)))
            }
            Err(TrySendError::Disconnected(task)) => Some((task, ended())),
        };
        let detached = refused.is_some();
        if let Some((Task::Ask(_, _, reply, _), fault)) = refused {
            reply.give(Err(fault));
        }
        Asked { desk: self.clone(), ticket, gone, detached }
    }

    /// Requests a new resource, and draws the random values for it.
    ///
    /// # Errors
    /// Returns an error if the system has no randomness.
    pub fn create(
        &self,
        spec: Spec,
        then: impl FnOnce(Result<Answer, Fault>) + Send + 'static,
    ) -> io::Result<Asked> {
        let drawn = draw(spec.joint)?;
        Ok(self.ask(Request::Create { spec, drawn }, then))
    }

    /// Reports the outcome at the parent of a resource. Waits for room in the queue, so it must not be called on the
    /// service thread.
    pub fn above(&self, of: ResourceId, above: Above) {
        let _ = self.tasks.send(Task::Input(Input::Above(of, above)));
    }

    /// Reports the loss of the link to a node, after all earlier requests from this thread. Does not block. Returns
    /// `false` if the queue is full: the loss must then be reported again, before the node's next request.
    pub fn lost(&self, member: Id, why: String) -> bool {
        let told = self.tasks.try_send(Task::Input(Input::Lost { member, why }));
        // If the service has ended, there is nothing to report.
        !matches!(told, Err(TrySendError::Full(_)))
    }

    /// The service's time, by which leases, waits and lifetimes are measured: the machine's time when the service
    /// started, plus the time since. Later changes of the machine's clock have no effect.
    pub fn now(&self) -> Millis {
        self.clock.now()
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

impl Asked {
    /// Lets the request run without a way to cancel it.
    pub fn detach(mut self) {
        self.detached = true;
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        if !self.detached {
            // Before the list: if the service takes the request from its queue after it read the list, it sees this
            // flag.
            self.gone.store(true, Ordering::Release);
            locked(&self.desk.gone).push(self.ticket);
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
pub(crate) fn draw(joint: bool) -> io::Result<Drawn> {
    let (id, token) = (Secret::random()?, draw_token()?);
    let mut bytes = [0; ID_LENGTH];
    bytes.copy_from_slice(&id.as_bytes()[..ID_LENGTH]);
    let joint = match joint {
        true => Some(Joint { job: Job::random(), secret: Secret::random()? }),
        false => None,
    };
    Ok(Drawn { id: ResourceId(bytes), token, joint })
}

fn ended() -> Fault {
    Fault::new(FaultKind::Unavailable, "the service has ended")
}

/// Locks a mutex. Code under these locks cannot panic, so a poisoned lock is still consistent.
fn locked<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// State of the service thread.
struct Run {
    service: Service,
    store: Option<Box<dyn Store>>,
    upward: Upward,
    waiting: HashMap<Ticket, (Reply, Asks)>,
    /// Requests of this turn that change the stored state. It is empty while the store fails.
    writes: Vec<(Ticket, Request)>,
    /// Reads and waits that came after these, and follow them.
    later: Vec<(Ticket, Request)>,
    /// Most waits at a time.
    most: usize,
    /// Changes that the store has yet to take, if its last write failed.
    unkept: Option<Unkept>,
    gone: Arc<Mutex<Vec<Ticket>>>,
    failed: Arc<Mutex<Option<StoreError>>>,
    over: Arc<AtomicBool>,
    clock: Clock,
    /// Difference between the service's time and the time by which the store counts lifetimes, which stands still while
    /// the service is down.
    shift: i64,
    /// The time that was stored last.
    time_kept: Millis,
}

impl Run {
    fn serve(mut self, tasks: &Receiver<Task>) {
        // The restored service may have outputs.
        self.turn();
        let mut going = true;
        // Ends: with `Task::End`, or when the last desk is dropped.
        while going {
            going = match tasks.recv_timeout(self.sleep()) {
                Ok(task) => self.take(task) && self.take_more(tasks),
                Err(RecvTimeoutError::Timeout) => {
                    self.let_go();
                    self.service.handle(self.clock.now(), Input::Tick);
                    true
                }
                Err(RecvTimeoutError::Disconnected) => false,
            };
            self.turn();
        }
        self.end(tasks);
    }

    fn sleep(&self) -> Duration {
        let again = self.unkept.as_ref().map(|unkept| unkept.again);
        let at = self.service.deadline().into_iter().chain(again).min();
        at.map_or(SLEEP, |at| Duration::from_millis(at.saturating_sub(self.clock.now())).min(SLEEP))
    }

    fn take_more(&mut self, tasks: &Receiver<Task>) -> bool {
        let more = tasks.try_iter().take(TURN - 1).all(|task| self.take(task));
        self.let_go();
        more
    }

    /// Removes the cancelled requests. A cancellation takes effect at the next turn, within [`SLEEP`].
    fn let_go(&mut self) {
        // The lock is released before the loop: dropping a request may submit another one.
        let gone = std::mem::take(&mut *locked(&self.gone));
        gone.into_iter().for_each(|ticket| self.let_one_go(ticket));
    }

    fn let_one_go(&mut self, ticket: Ticket) {
        // Most cancelled requests have been answered already.
        if let Some((reply, _)) = self.waiting.remove(&ticket) {
            reply.forget();
            self.service.handle(self.clock.now(), Input::Gone(ticket));
        }
    }

    fn take(&mut self, task: Task) -> bool {
        match task {
            Task::Ask(_, request, reply, _) if self.unkept.is_some() && self.service.adds(&request) => {
                let fault = self.unkept.as_ref().map(Unkept::fault);
                reply.give(Err(fault.unwrap_or_else(ended)));
            }
            Task::Ask(ticket, request, reply, gone) => {
                let asks = Asks::of(&request);
                self.waiting.insert(ticket, (reply, asks));
                if self.store.is_some() && self.service.adds(&request) {
                    self.writes.push((ticket, request));
                } else if !self.writes.is_empty() && !matches!(asks, Asks::Write(_)) {
                    self.later.push((ticket, request));
                } else {
                    self.service.handle(self.clock.now(), Input::Ask(ticket, request));
                }
                if gone.load(Ordering::Acquire) {
                    self.let_one_go(ticket);
                }
            }
            Task::Input(input) => {
                // A node is lost after its earlier requests.
                if matches!(input, Input::Lost { .. }) && !self.writes.is_empty() {
                    self.turn();
                }
                self.service.handle(self.clock.now(), input);
            }
            Task::End => return false,
        }
        true
    }

    /// Stores the changes of this turn, then sends the answers. If the store does not take them, the requests that ask
    /// for changes are undone and refused.
    fn turn(&mut self) {
        let writes = std::mem::take(&mut self.writes);
        let tickets: Vec<Ticket> = writes.iter().map(|(ticket, _)| *ticket).collect();
        let now = self.clock.now();
        if !writes.is_empty() {
            // No timer expires within the batch.
            self.service.handle(now, Input::Tick);
        }
        let (changes, outputs) = self.outputs();
        self.service.begin();
        for (ticket, request) in writes {
            self.service.handle(now, Input::Ask(ticket, request));
        }
        let (asked, answers) = self.outputs();
        match self.keep(changes, asked, false) {
            Ok(()) => {
                self.service.commit();
                outputs.into_iter().chain(answers).for_each(|output| self.pass(output));
            }
            Err(fault) => {
                self.service.roll_back();
                let (undoing, _) = self.outputs();
                self.unkept.iter_mut().for_each(|unkept| unkept.undo(&undoing));
                outputs.into_iter().for_each(|output| self.pass(output));
                tickets.into_iter().for_each(|ticket| self.give(ticket, Err(fault.clone())));
            }
        }
        self.follow(now);
        let late = self.unkept.as_mut().map(|unkept| unkept.late(self.clock.now()));
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
                Output::Keep(change) => changes.push(change),
                output => others.push(output),
            }
        }
        (changes, others)
    }

    /// Passes an output on. While the store fails, an output that depends on changes yet to be stored is held back or
    /// replaced by a fault.
    fn pass(&mut self, output: Output) {
        let Some(unkept) = &mut self.unkept else { return self.put(output) };
        let asks = match &output {
            Output::Answer(ticket, _) => self.waiting.get(ticket).map(|(_, asks)| *asks),
            _ => None,
        };
        if let Some(output) = unkept.pass(asks, output) {
            self.put(output);
        }
    }

    fn put(&mut self, output: Output) {
        match output {
            Output::Answer(ticket, answer) => self.give(ticket, answer),
            Output::Up(id, up) => (self.upward)(id, up),
            Output::Keep(_) => {}
        }
    }

    /// Stores changes, earlier changes that failed to be stored, changes that requests ask for, and the time. After a
    /// failure the store is retried when the retry is due, or now if `at_once` is set.
    ///
    /// # Errors
    /// The fault for the requests, whose changes are not stored. All other changes are held for the next retry.
    fn keep(&mut self, changes: Vec<Change>, asked: Vec<Change>, at_once: bool) -> Result<(), Fault> {
        let now = self.clock.now();
        let Some(store) = &mut self.store else { return Ok(()) };
        let mut stored = match &mut self.unkept {
            None => changes.clone(),
            Some(unkept) => {
                unkept.add(changes.clone());
                if now < unkept.again && !at_once {
                    return Ok(());
                }
                unkept.changes()
            }
        };
        stored.extend(asked);
        let time = now.saturating_sub(self.time_kept) >= TIME_KEPT && !self.service.is_empty();
        if stored.is_empty() && self.unkept.is_none() && !time && !at_once {
            return Ok(());
        }
        let counted = |millis: Millis| millis.saturating_add_signed(self.shift.saturating_neg());
        for change in &mut stored {
            if let Change::Resource(_, resource) = change {
                resource.expires = counted(resource.expires);
            }
        }
        match store.keep(counted(now), &stored) {
            Ok(()) => {
                self.time_kept = now;
                self.recover();
                Ok(())
            }
            Err(error) => Err(self.fall_back(now, changes, error)),
        }
    }

    /// The store has taken all changes: sends the answers that waited for them.
    fn recover(&mut self) {
        let Some(unkept) = self.unkept.take() else { return };
        tracing::warn!("the store of the rendezvous service can be written again");
        *locked(&self.failed) = None;
        unkept.released().for_each(|output| self.put(output));
    }

    /// The store has failed: holds the changes that no request asks for until the next retry, and returns the fault for
    /// requests.
    fn fall_back(&mut self, now: Millis, changes: Vec<Change>, error: StoreError) -> Fault {
        *locked(&self.failed) = Some(error.clone());
        let unkept = self.unkept.get_or_insert_with(|| {
            tracing::error!(%error, "the rendezvous service cannot write its store: it refuses what it has to keep, goes on with everything else, and tries again");
            let mut unkept = Unkept::new(error.clone(), self.most);
            unkept.add(changes);
            unkept
        });
        unkept.failed(now, error);
        unkept.fault()
    }

    fn give(&mut self, ticket: Ticket, answer: Result<Answer, Fault>) {
        if let Some((reply, _)) = self.waiting.remove(&ticket) {
            reply.give(answer);
        }
    }

    /// Ends the service: answers the requests that wait and those still in the queue.
    fn end(mut self, tasks: &Receiver<Task>) {
        // If it fails, nothing is left to refuse.
        let _ = self.keep(Vec::new(), Vec::new(), true);
        self.over.store(true, Ordering::Release);
        for (reply, _) in self.waiting.into_values() {
            reply.give(Err(ended()));
        }
        for task in tasks.try_iter() {
            if let Task::Ask(_, _, reply, _) = task {
                reply.give(Err(ended()));
            }
        }
    }
}
