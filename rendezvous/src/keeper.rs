//! The thread that a service lives on: it takes what has been asked meanwhile, keeps all changes at once, and gives the answers.
//!
//! If the store fails, the service goes on with what does not need it: see `unkept`.

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

/// Most that is asked and not yet taken up: some 10,000 tasks may ask in one moment.
const QUEUE: usize = 1 << 16;

/// Most that is taken up before answers are given, so that the first one does not wait long: what is kept in one turn.
const TURN: usize = 4096;

/// Longest sleep: those who no longer wait are let go then.
const SLEEP: Duration = Duration::from_secs(1);

/// How often the time is kept where nothing changes: so much of a lifetime is given again to resources after a crash, milliseconds.
const TIME_KEPT: Millis = 60_000;

/// A ticket that no request has.
const NOBODY: Ticket = Ticket(u64::MAX);

/// What is to be done for who has asked, on the service's thread: it must not wait.
type Then = Box<dyn FnOnce(Result<Answer, Fault>) + Send>;

/// What the controlling driver does with what it is told, on the service's thread: it must not wait.
type Upward = Box<dyn FnMut(ResourceId, Up) + Send>;

/// Who is to be told. That happens once, whatever becomes of the service.
struct Reply {
    then: Option<Then>,
}

enum Task {
    /// With whether somebody waits.
    Ask(Ticket, Request, Reply, Arc<AtomicBool>),
    Input(Input),
    End,
}

/// A service that runs. Dropping it ends the service: those who wait are told.
#[derive(Debug)]
pub struct Keeper {
    desk: Desk,
    thread: Option<JoinHandle<()>>,
}

/// Where a service is asked. Cheap to clone.
#[derive(Clone)]
pub struct Desk {
    tasks: SyncSender<Task>,
    tickets: Arc<AtomicU64>,
    /// Requests for whose answers nobody waits any more: who takes one back may be on the service's own thread, which must not wait for room in its queue. At most as many as were asked.
    gone: Arc<Mutex<Vec<Ticket>>>,
    /// Why the store cannot be written now.
    failed: Arc<Mutex<Option<StoreError>>>,
    /// Whether the service has ended.
    over: Arc<AtomicBool>,
    clock: Clock,
}

/// A request that is under way; dropping it tells the service that nobody waits any more.
#[derive(Debug)]
pub struct Asked {
    desk: Desk,
    ticket: Ticket,
    /// Whether nobody waits any more, for a service that has not taken it up yet.
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

/// The service ended between being asked and taking it up: what was asked after all that waited had been told lay in the queue.
impl Drop for Reply {
    fn drop(&mut self) {
        if let Some(then) = self.then.take() {
            then(Err(ended()));
        }
    }
}

impl Keeper {
    /// Starts a service, with what the store has kept. `upward` is told what to do as the controlling task of resources with a parent.
    ///
    /// # Errors
    /// When the store cannot be read, or there is no thread.
    pub fn start(
        limits: Limits,
        mut store: Option<Box<dyn Store>>,
        upward: impl FnMut(ResourceId, Up) + Send + 'static,
    ) -> io::Result<Keeper> {
        let kept = store.as_mut().map_or_else(|| Ok(Kept::default()), |store| store.load());
        let mut kept = kept.map_err(io::Error::other)?;
        // Not before what was kept, where the machine's clock was set back meanwhile.
        let newest = kept.resources.iter().map(|(_, resource)| resource.created).max();
        let clock = Clock::not_before(newest.unwrap_or_default());
        // Between two runs no lifetime passes, whatever the machine's clock says: what is left is what was left.
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
        let (upward, waiting) = (Box::new(upward), HashMap::new());
        let (most, unkept, time_kept) = (limits.waiting, None, clock.now());
        let run = Run {
            service,
            store,
            upward,
            waiting,
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

    /// Where it is asked.
    pub fn desk(&self) -> &Desk {
        &self.desk
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        // Waits while the queue is full; the service takes from it until it has ended.
        let _ = self.desk.tasks.send(Task::End);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Desk {
    /// Asks. `then` is called once with the answer, on the service's thread, where it must not wait; at once if the service cannot take any more. If what is returned is dropped before, it may not be called.
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

    /// Asks for a new resource, for which everything is drawn that has to be.
    ///
    /// # Errors
    /// When the system has no randomness.
    pub fn create(
        &self,
        spec: Spec,
        then: impl FnOnce(Result<Answer, Fault>) + Send + 'static,
    ) -> io::Result<Asked> {
        let drawn = draw(spec.joint)?;
        Ok(self.ask(Request::Create { spec, drawn }, then))
    }

    /// Says how far the controlling driver has come above a resource. Waits for room in the service's queue, so it must not be called on the service's thread.
    pub fn above(&self, of: ResourceId, above: Above) {
        let _ = self.tasks.send(Task::Input(Input::Above(of, above)));
    }

    /// Says that the link to a node is lost, behind all that it has asked before on this thread. Does not wait: false if the service has no room for it now, and is to be told again before the node asks anything else.
    pub fn lost(&self, member: Id, why: String) -> bool {
        let told = self.tasks.try_send(Task::Input(Input::Lost { member, why }));
        // A service that has ended has lost everybody.
        !matches!(told, Err(TrySendError::Full(_)))
    }

    /// The service's time, by which leases, waits and lifetimes are counted: that of the machine when the service began, and what has passed since. Setting the machine's clock does not change it.
    pub fn now(&self) -> Millis {
        self.clock.now()
    }

    /// Why the store cannot be written now, if so: what needs it is refused until it can be written again.
    pub fn failed(&self) -> Option<StoreError> {
        locked(&self.failed).clone()
    }

    /// Whether the service has ended: no request is taken any more.
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
    /// Goes on without being able to take it back.
    pub fn detach(mut self) {
        self.detached = true;
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        if !self.detached {
            // Before the list: who takes the request up later than it looks there sees this.
            self.gone.store(true, Ordering::Release);
            locked(&self.desk.gone).push(self.ticket);
        }
    }
}

/// A token that nobody else has.
///
/// # Errors
/// When the system has no randomness.
pub fn draw_token() -> io::Result<Token> {
    Token::new(&Secret::random()?.to_text()).ok_or_else(|| io::Error::other("no token was drawn"))
}

/// What is drawn for a resource.
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

/// Nothing that is done under these locks can panic.
fn locked<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What the thread has.
struct Run {
    service: Service,
    store: Option<Box<dyn Store>>,
    upward: Upward,
    waiting: HashMap<Ticket, (Reply, Asks)>,
    /// Most who wait.
    most: usize,
    /// What the store has not taken, where it has failed last.
    unkept: Option<Unkept>,
    gone: Arc<Mutex<Vec<Ticket>>>,
    failed: Arc<Mutex<Option<StoreError>>>,
    over: Arc<AtomicBool>,
    clock: Clock,
    /// How far the service's time is ahead of the time that the store counts lifetimes by, which stands still between two runs.
    shift: i64,
    /// The time that was kept last.
    time_kept: Millis,
}

impl Run {
    fn serve(mut self, tasks: &Receiver<Task>) {
        // What was restored may have something to say.
        self.turn();
        let mut going = true;
        // Ends: with the task that says so, or with the last desk.
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

    /// Those who no longer wait are noticed at the next turn, within [`SLEEP`].
    fn let_go(&mut self) {
        // Not locked any more in the loop: what is let go may itself have asked for something.
        let gone = std::mem::take(&mut *locked(&self.gone));
        gone.into_iter().for_each(|ticket| self.let_one_go(ticket));
    }

    fn let_one_go(&mut self, ticket: Ticket) {
        // Most have had their answer.
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
                self.waiting.insert(ticket, (reply, Asks::of(&request)));
                self.service.handle(self.clock.now(), Input::Ask(ticket, request));
                if gone.load(Ordering::Acquire) {
                    self.let_one_go(ticket);
                }
            }
            Task::Input(input) => {
                self.service.handle(self.clock.now(), input);
            }
            Task::End => return false,
        }
        true
    }

    /// Keeps what has changed, then gives the answers.
    fn turn(&mut self) {
        let (mut changes, mut rest) = (Vec::new(), Vec::new());
        while let Some(output) = self.service.next_output() {
            match output {
                Output::Keep(change) => changes.push(change),
                output => rest.push(output),
            }
        }
        self.keep(changes, false);
        rest.into_iter().for_each(|output| self.pass(output));
        let late = self.unkept.as_mut().map(|unkept| unkept.late(self.clock.now()));
        late.into_iter().flatten().for_each(|ticket| self.give(ticket, Ok(Answer::NotYet)));
    }

    /// Gives an output, as far as it does not tell of what may be lost.
    fn pass(&mut self, output: Output) {
        let Some(unkept) = &mut self.unkept else { return self.put(output) };
        let asks = match &output {
            Output::Answer(ticket, _) => self.waiting.get(ticket).map(|(_, asks)| *asks),
            _ => None,
        };
        // Its handle is not told: it does not stay for its lifetime.
        let created = match &output {
            Output::Answer(_, Ok(Answer::Created(id))) => Some(*id),
            _ => None,
        };
        if let Some(output) = unkept.pass(asks, output) {
            self.put(output);
        }
        if let Some(id) = created {
            self.service.handle(self.clock.now(), Input::Ask(NOBODY, Request::Destroy(id)));
            // Few: those that were created in the turn in which the store failed.
            self.turn();
        }
    }

    fn put(&mut self, output: Output) {
        match output {
            Output::Answer(ticket, answer) => self.give(ticket, answer),
            Output::Up(id, up) => (self.upward)(id, up),
            Output::Keep(_) => {}
        }
    }

    /// Keeps changes, with those that could not be kept before, and the time. Where the store has failed it is tried again when that is due, or `at_once`.
    fn keep(&mut self, changes: Vec<Change>, at_once: bool) {
        let now = self.clock.now();
        let Some(store) = &mut self.store else { return };
        let all = match &mut self.unkept {
            None => changes,
            Some(unkept) => {
                unkept.add(changes);
                if now < unkept.again && !at_once {
                    return;
                }
                unkept.changes()
            }
        };
        let time = now.saturating_sub(self.time_kept) >= TIME_KEPT && !self.service.is_empty();
        if all.is_empty() && self.unkept.is_none() && !time && !at_once {
            return;
        }
        let counted = |millis: Millis| millis.saturating_add_signed(self.shift.saturating_neg());
        let mut stored = all.clone();
        for change in &mut stored {
            if let Change::Resource(_, resource) = change {
                resource.expires = counted(resource.expires);
            }
        }
        match store.keep(counted(now), &stored) {
            Ok(()) => {
                self.time_kept = now;
                self.recover();
            }
            Err(error) => self.fall_back(now, all, error),
        }
    }

    /// The store has taken everything.
    fn recover(&mut self) {
        let Some(unkept) = self.unkept.take() else { return };
        tracing::warn!("the store of the rendezvous service can be written again: everything is kept");
        *locked(&self.failed) = None;
        unkept.released().for_each(|output| self.put(output));
    }

    /// The store has taken nothing.
    fn fall_back(&mut self, now: Millis, changes: Vec<Change>, error: StoreError) {
        if self.unkept.is_none() {
            tracing::error!(%error, "the rendezvous service cannot write its store: it refuses what it has to keep, goes on with everything else, and tries again");
        }
        *locked(&self.failed) = Some(error.clone());
        let most = self.most;
        let unkept = self.unkept.get_or_insert_with(|| Unkept::new(error.clone(), most));
        unkept.add(changes);
        unkept.failed(now, error);
    }

    fn give(&mut self, ticket: Ticket, answer: Result<Answer, Fault>) {
        if let Some((reply, _)) = self.waiting.remove(&ticket) {
            reply.give(answer);
        }
    }

    /// Tells everybody who still waits, or has asked and was not taken up.
    fn end(mut self, tasks: &Receiver<Task>) {
        self.keep(Vec::new(), true);
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
