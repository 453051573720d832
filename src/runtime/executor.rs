//! The executor: runs functions on the worker threads of a class, or on the driving thread.
//!
//! The chain decides how many functions run concurrently; the executor only provides the threads. Results return
//! through the [mailbox](super::mailbox).

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::thread;

use crossbeam::channel::{Receiver, Sender, unbounded};

use super::deadlock_check;
use super::function_error;
use super::functions::{Entry, Functions, Inline};
use super::functions_error::FunctionsError;
use super::placement::Placement;
use super::quick_hash::QuickHash;
use super::request::{ChildReply, Deferred, Request};
use super::run::{LazyRun, Run};
use super::shared_state::SharedState;
use super::stream::{resume, take};
use crate::branch_hint::unlikely;
use crate::chain::{Input, Job, JobResult, Work};
use crate::wire::{CallId, CauseKind, Reason};

/// Runs the functions of one node.
pub(super) struct Executor {
    shared: Arc<SharedState>,
    used: UsedFunctions,
    /// By class: the default workers, then those of the named executors.
    workers: Vec<Workers>,
    /// The job that the leading thread runs outside its loop, at most one. It counts as one of the default workers.
    leader_job: Option<WorkerJob>,
    /// Whether the leading thread runs default functions.
    leads: bool,
    /// Functions that run on workers, and those that hold a token to reply with: at most one for each call in flight.
    runs: HashMap<CallId, Arc<Run>>,
}

/// Cache of used functions, so that a job takes no lock: a registered function never changes. At most as many as are
/// registered.
#[derive(Default)]
struct UsedFunctions {
    entries: Vec<(u64, Entry)>,
    /// For each entry, the number of consecutive long runs on the leading thread. From [`LONG_RUNS`] on, it counts the
    /// runs on a worker since.
    long: Vec<u8>,
    places: HashMap<u64, usize, QuickHash>,
    /// Index of the last used function: most calls have the same function as the call before.
    last: usize,
    /// Index of the function that the leading thread ran last.
    leader_index: usize,
}

impl UsedFunctions {
    /// Whether the leading thread should run the last used function: its recent runs were short, or long ago. Counts
    /// the runs on a worker.
    fn runs_on_leader(&mut self) -> bool {
        let Some(long) = self.long.get_mut(self.last) else { return true };
        if *long >= LONG_RUNS {
            *long = if *long == LONG_RUNS + WORKER_RUNS { LONG_RUNS - 1 } else { *long + 1 };
        }
        *long < LONG_RUNS
    }

    /// The function of this handle; `None` if it is not registered.
    #[inline(always)]
    fn get(&mut self, functions: &Functions, handle: u64) -> Option<&Entry> {
        if unlikely(self.entries.get(self.last).is_none_or(|(last, _)| *last != handle)) {
            self.look_up(functions, handle);
        }
        self.entries.get(self.last).filter(|(last, _)| *last == handle).map(|(_, entry)| entry)
    }

    #[cold]
    fn look_up(&mut self, functions: &Functions, handle: u64) {
        // The caller checks for `None`.
        let _ = self.entry(functions, handle);
    }

    fn entry(&mut self, functions: &Functions, handle: u64) -> Result<&Entry, FunctionsError> {
        if self.entries.get(self.last).is_none_or(|(last, _)| *last != handle) {
            self.last = match self.places.get(&handle) {
                Some(place) => *place,
                None => {
                    self.entries.push((handle, functions.entry(handle)?));
                    self.long.push(0);
                    let place = self.entries.len() - 1;
                    self.places.insert(handle, place);
                    place
                }
            };
        }
        self.entries.get(self.last).map(|(_, entry)| entry).ok_or(FunctionsError::Unknown(handle))
    }
}

/// The workers of one class.
enum Workers {
    /// The thread that drives the node.
    DrivingThread,
    /// Threads of its own, started one by one as jobs arrive: a node whose functions are all inline has none. They end
    /// when the sender is dropped. The channel is bounded by the chain, which runs at most one job for each worker.
    Threads { class: u8, count: usize, started: usize, jobs: (Sender<WorkerJob>, Receiver<WorkerJob>) },
    /// A pool of threads, all started at once.
    #[cfg(feature = "rayon")]
    Pool(rayon::ThreadPool),
}

impl Workers {
    /// Whether this class runs one function at a time.
    fn is_one(&self) -> bool {
        matches!(self, Workers::DrivingThread | Workers::Threads { count: 1, .. })
    }
}

/// Number of consecutive long runs from which on a function goes to a worker at once.
const LONG_RUNS: u8 = 2;

/// Number of runs on a worker before the leading thread tries the function again.
const WORKER_RUNS: u8 = 64;

/// A job that does not run inside the loop.
pub(super) struct WorkerJob {
    job: Job,
    run: Arc<Run>,
}

impl Executor {
    /// Creates an executor with this number of threads of each class. If `on_driving_thread` is set, functions of the
    /// default class run on the thread that drives the node.
    pub(super) fn new(
        shared: &Arc<SharedState>,
        workers: &[usize],
        on_driving_thread: bool,
    ) -> io::Result<Executor> {
        let workers = workers.iter().zip(0..).map(|(workers, class)| match (class, workers) {
            (0, _) if on_driving_thread => Ok(Workers::DrivingThread),
            (0, 2..) => pool(shared, *workers),
            (class, workers) => {
                Ok(Workers::Threads { class, count: *workers, started: 0, jobs: unbounded() })
            }
        });
        let workers = workers.collect::<io::Result<Vec<Workers>>>()?;
        let leads = !matches!(workers.first(), Some(Workers::DrivingThread));
        let used = UsedFunctions::default();
        Ok(Executor { shared: shared.clone(), used, workers, leader_job: None, leads, runs: HashMap::new() })
    }

    /// Returns the function of a handle if it qualifies for the fast path: it runs on this thread, and its reply is
    /// complete when it returns.
    #[inline(always)]
    pub(super) fn inline_entry(&mut self, handle: u64) -> Option<&Entry> {
        let on_driving_thread = matches!(self.workers.first(), Some(Workers::DrivingThread));
        let entry = self.used.get(&self.shared.functions, handle)?;
        let inline = match entry.inline {
            Inline::OnDrivingThread => on_driving_thread,
            Inline::Always => true,
            Inline::Never => false,
        };
        inline.then_some(entry)
    }

    /// Whether the leading thread may run one more default function outside the loop, behind `waiting` short requests.
    /// If several functions may run at once, it runs one only while no other runs or waits: others need the loop.
    fn may_lead(&self, waiting: usize) -> bool {
        let one = self.workers.first().is_some_and(Workers::is_one);
        self.leads && self.leader_job.is_none() && (one || waiting == 0 && self.runs.is_empty())
    }

    /// Whether the leading thread runs this function outside the loop, for a short request behind `waiting` others.
    pub(super) fn runs_outside_loop(&mut self, handle: u64, waiting: usize) -> bool {
        let may_lead = self.may_lead(waiting);
        let entry = self.used.get(&self.shared.functions, handle);
        may_lead
            && entry.is_some_and(|entry| entry.inline == Inline::OnDrivingThread)
            && self.used.runs_on_leader()
    }

    /// Returns the function of a handle for a run outside the loop.
    pub(super) fn take_leader_function(&mut self, handle: u64) -> Option<Entry> {
        let entry = self.used.get(&self.shared.functions, handle).cloned();
        self.used.leader_index = self.used.last;
        entry
    }

    /// Registers a function that continues while another thread drives the node.
    pub(super) fn keep_running(&mut self, call: CallId, run: Arc<Run>) {
        self.runs.insert(call, run);
    }

    /// Whether a job waits to run outside the loop.
    pub(super) fn has_leader_job(&self) -> bool {
        self.leader_job.is_some()
    }

    /// The last used function.
    pub(super) fn last_used(&self) -> Option<&Entry> {
        self.used.entries.get(self.used.last).map(|(_, entry)| entry)
    }

    /// Stops the function of a call that has ended here: it runs, or holds a token.
    #[cold]
    pub(super) fn stop(&mut self, call: CallId) {
        if let Some(run) = self.runs.remove(&call) {
            run.stop();
        }
    }

    /// Number of functions that run on workers or hold a token.
    #[cfg(feature = "snapshot")]
    pub(super) fn runs(&self) -> usize {
        self.runs.len()
    }

    /// Handles the result of a function that ran elsewhere, or the reply of its token.
    pub(super) fn handle_result(&mut self, input: &Input) {
        match input {
            Input::Ran { result: JobResult::Deferred, .. } => {}
            // If the function took a token and then failed, this notifies the token's holder. In all other cases the
            // run is no longer used.
            Input::Ran { call, .. } => self.stop(*call),
            Input::Answered { call, .. } => drop(self.runs.remove(call)),
            _ => {}
        }
    }

    /// Takes the job that waits to run outside the loop.
    #[inline]
    pub(super) fn take_leader_job(&mut self) -> Option<WorkerJob> {
        self.leader_job.take()
    }

    /// Returns a job that has not run.
    pub(super) fn put_back(&mut self, job: WorkerJob) {
        self.leader_job = Some(job);
    }

    /// Records that the last function on the leading thread returned in time.
    pub(super) fn note_short_run(&mut self) {
        if let Some(long) = self.used.long.get_mut(self.used.leader_index) {
            *long = 0;
        }
    }

    /// Records that the last function on the leading thread took too long.
    pub(super) fn note_long_run(&mut self) {
        if let Some(long) = self.used.long.get_mut(self.used.leader_index) {
            *long = long.saturating_add(1).min(LONG_RUNS);
        }
    }

    /// From now on the leading thread runs no function outside the loop.
    pub(super) fn stop_leading(&mut self) {
        self.leads = false;
    }

    /// Passes a job to a worker.
    pub(super) fn hand_to_worker(&mut self, WorkerJob { job, .. }: WorkerJob) {
        // The result of a worker arrives through the mailbox.
        let _ = self.run(job);
    }

    /// Runs a job, or passes it to a worker. Returns the result if there is one at once.
    pub(super) fn run(&mut self, job: Job) -> Option<Input> {
        let may_lead = self.may_lead(0);
        let Executor { shared, used, workers, leader_job, runs, .. } = self;
        // Makes this function the last used one.
        let _ = used.get(&shared.functions, handle(&job));
        let runs_outside_loop = may_lead && used.runs_on_leader();
        let entry = used.entry(&shared.functions, handle(&job));
        let class = match &entry {
            Ok(entry) => match shared.executors.class(&entry.placement) {
                Some(class) => class,
                None => return Some(executor_missing(&entry.placement, &job)),
            },
            Err(_) => 0,
        };
        let inline = entry.as_ref().is_ok_and(|entry| entry.placement == Placement::Inline);
        if class == 0 && !inline && runs_outside_loop {
            let run = Arc::<Run>::default();
            runs.insert(job.call, run.clone());
            used.leader_index = used.last;
            *leader_job = Some(WorkerJob { job, run });
            return None;
        }
        match workers.get_mut(usize::from(class)) {
            Some(Workers::Threads { class, count, started, jobs }) if !inline => {
                let call = job.call;
                if *started < *count {
                    match start_worker(shared.clone(), *class, *started, jobs.1.clone()) {
                        Ok(()) => *started += 1,
                        Err(error) if *started == 0 => {
                            return Some(failed(
                                call,
                                format!("cannot start a thread for functions: {error}"),
                            ));
                        }
                        // The existing threads take turns.
                        Err(_) => {}
                    }
                }
                let run = Arc::<Run>::default();
                runs.insert(call, run.clone());
                // Cannot fail: its receiver is stored beside it.
                jobs.0
                    .send(WorkerJob { job, run })
                    .err()
                    .map(|_| failed(call, "the worker threads are gone".into()))
            }
            #[cfg(feature = "rayon")]
            Some(Workers::Pool(pool)) if !inline => {
                let (shared, run) = (shared.clone(), Arc::<Run>::default());
                runs.insert(job.call, run.clone());
                pool.spawn(move || shared.mailbox.result(on_worker(&shared, 0, WorkerJob { job, run })));
                None
            }
            _ => {
                let (call, existing) = (job.call, runs.get(&job.call).cloned());
                let run = LazyRun::new(existing, may_defer(&job));
                let input = finish(entry, shared, job, &run);
                match (run.into_deferred(), &input) {
                    (Some(run), Input::Ran { result: JobResult::Deferred, .. }) => {
                        drop(runs.insert(call, run))
                    }
                    (Some(run), _) => run.stop(),
                    (None, _) => {}
                }
                Some(input)
            }
        }
    }
}

impl Drop for Executor {
    /// The node ends: running functions are notified, those that wait for a worker never begin, and holders of tokens
    /// learn that the call is over.
    fn drop(&mut self) {
        for workers in &self.workers {
            if let Workers::Threads { jobs: (_, waiting), .. } = workers {
                waiting.try_iter().for_each(drop);
            }
        }
        self.runs.drain().for_each(|(_, run)| run.stop());
    }
}

/// The failure of a function that the node cannot run at present.
#[cold]
fn failed(call: CallId, why: String) -> Input {
    Input::Ran { call, result: JobResult::Refused(Box::new(Reason::new(CauseKind::Busy, why))) }
}

/// The failure of a function whose executor this node lacks.
#[cold]
fn executor_missing(placement: &Placement, job: &Job) -> Input {
    let Placement::Executor(name) = placement else {
        return failed(job.call, "it has no place to run".into());
    };
    let why = format!(
        "this node has no executor `{name}`, on which the function runs: build it with Builder::executor"
    );
    let reason = Box::new(Reason::new(CauseKind::UnknownExecutor, why));
    Input::Ran { call: job.call, result: JobResult::Refused(reason) }
}

/// Starts one more thread of a class.
fn start_worker(
    shared: Arc<SharedState>,
    class: u8,
    index: usize,
    jobs: Receiver<WorkerJob>,
) -> io::Result<()> {
    let name = match usize::from(class).checked_sub(1).and_then(|place| shared.executors.0.get(place)) {
        Some(name) => format!("gpc-{}-{name}-{index}", shared.id),
        None => format!("gpc-{}-worker", shared.id),
    };
    // The channel ends when the executor, which holds its sender, is dropped.
    let work = move || jobs.iter().for_each(|job| shared.mailbox.result(on_worker(&shared, class, job)));
    thread::Builder::new().name(name).spawn(work).map(drop)
}

#[cfg(feature = "rayon")]
fn pool(shared: &SharedState, workers: usize) -> io::Result<Workers> {
    let me = shared.id;
    let name = move |index| format!("gpc-{me}-worker-{index}");
    let pool = rayon::ThreadPoolBuilder::new().num_threads(workers).thread_name(name).build();
    pool.map(Workers::Pool).map_err(io::Error::other)
}

#[cfg(not(feature = "rayon"))]
fn pool(_: &SharedState, workers: usize) -> io::Result<Workers> {
    let message = format!("{workers} workers need the crate's feature `rayon`");
    Err(io::Error::new(io::ErrorKind::Unsupported, message))
}

fn handle(job: &Job) -> u64 {
    match job.work {
        Work::Func | Work::More(_) => job.request.func,
        Work::Callback { .. } => job.request.callback.unwrap_or_default(),
    }
}

/// Whether the function of a job may request a token. A func has its token from the beginning or not at all, except a
/// streaming one.
fn may_defer(job: &Job) -> bool {
    matches!(job.work, Work::Callback { .. } | Work::More(_))
}

/// Runs the function of a job to its end, on a worker of a class.
pub(super) fn on_worker(shared: &Arc<SharedState>, class: u8, WorkerJob { job, run }: WorkerJob) -> Input {
    let (call, number) = (job.call, handle(&job));
    let entry = shared.functions.entry(number);
    let name = entry.as_ref().ok().map(|entry| entry.name.clone());
    let run = LazyRun::new(Some(run), may_defer(&job));
    deadlock_check::as_function(shared.clone(), class, call, name, || {
        finish(entry.as_ref().map_err(Clone::clone), shared, job, &run)
    })
}

/// Runs the function of a job to its end.
fn finish(
    entry: Result<&Entry, FunctionsError>,
    shared: &Arc<SharedState>,
    job: Job,
    run: &LazyRun,
) -> Input {
    let call = job.call;
    let result = match result(entry, shared, job, run) {
        JobResult::Replied(_) if run.is_deferred() => JobResult::Deferred,
        result => result,
    };
    Input::Ran { call, result }
}

fn result(
    entry: Result<&Entry, FunctionsError>,
    shared: &Arc<SharedState>,
    mut job: Job,
    run: &LazyRun,
) -> JobResult {
    let entry = match entry {
        Ok(entry) => entry,
        Err(error) => return JobResult::Refused(function_error::not_run(&error)),
    };
    // Data are absent only in a call with a streaming func.
    let data = job.request.data.as_bytes().unwrap_or_default();
    let work = std::mem::replace(&mut job.work, Work::Func);
    let request = Request::of_job(&**shared, &job, &data, run);
    let _entered = entry.span(&request).entered();
    match work {
        Work::Func if entry.streams() => {
            let begun = entry.begin(&request);
            run.may_defer.set(true);
            take(begun, &request, &job.request.data)
        }
        Work::More(taken) => take(resume(taken), &request, &job.request.data),
        Work::Func => entry.execute(&request, || Deferred::new(job.call, &shared.mailbox, run.defer())),
        Work::Callback { from, child, own } => {
            let (header, data) = (child.header.as_slice(), child.data.as_slice());
            entry.merge(&request, &ChildReply { from, header: &header, data: &data }, own)
        }
    }
}

#[cfg(test)]
mod tests;
