//! Where functions run: on the worker threads of a class, or here.
//!
//! The chain decides how many run at once; the executor only provides the hands. Results come back through the [mailbox](super::mailbox).

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::thread;

use crossbeam::channel::{Receiver, Sender, unbounded};

use super::function_error;
use super::functions::{Entry, Functions, Spot};
use super::functions_error::FunctionsError;
use super::placement::Placement;
use super::quick_hash::QuickHash;
use super::request::{ChildReply, Deferred, Request};
use super::run::{LazyRun, Run};
use super::side::Side;
use super::stream::{resume, take};
use super::waiting;
use crate::chain::{Input, Job, JobResult, Work};
use crate::hint::unlikely;
use crate::wire::message::Classes;
use crate::wire::{CallId, CauseKind, Reason};

/// Most executors with names: a node has a few; a class is a bit of 64, and the default workers are one of them.
pub(super) const EXECUTORS_MAX: usize = 63;

/// The names of a node's executors; the class of each is its place, from 1 on.
#[derive(Clone, Debug, Default)]
pub(super) struct Names(pub(super) Vec<String>);

impl Names {
    /// The class of a placement; none if there is no such executor.
    pub(super) fn class(&self, placement: &Placement) -> Option<u8> {
        match placement {
            Placement::Default | Placement::Inline => Some(0),
            Placement::Executor(name) => {
                let place = self.0.iter().position(|known| known == name)?;
                Some(place as u8 + 1)
            }
        }
    }

    /// Which workers run these functions. Those of an executor that this node lacks are refused when it is their turn.
    pub(super) fn classes(&self, functions: &Functions, func: u64, callback: Option<u64>) -> Classes {
        functions.classes(func, callback, |placement| self.class(placement).unwrap_or_default())
    }
}

/// Runs the functions of one node.
pub(super) struct Executor {
    side: Arc<Side>,
    entries: Known,
    /// The default workers, and behind them those of the executors with names.
    hands: Vec<Hands>,
    /// Functions that run on workers, and those that have kept a token to answer with: no more than the calls in flight.
    runs: HashMap<CallId, Arc<Run>>,
}

/// The functions that have been asked for. A function once registered never changes, so that nothing is locked for a job; at most as many as are registered.
#[derive(Default)]
struct Known {
    entries: Vec<(u64, Entry)>,
    places: HashMap<u64, usize, QuickHash>,
    /// The place of the one that was asked for last: most calls are of the same function as the one before.
    last: usize,
}

impl Known {
    /// The same, or none if there is no such function.
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
                    let place = self.entries.len() - 1;
                    self.places.insert(handle, place);
                    place
                }
            };
        }
        self.entries.get(self.last).map(|(_, entry)| entry).ok_or(FunctionsError::Unknown(handle))
    }
}

enum Hands {
    /// The thread that drives the node.
    Here,
    /// Threads of its own, one at a time as jobs come: a node whose functions are all inline has none. They end when the sender is dropped. The channel holds at most the jobs that the chain hands out: one for each.
    Threads { class: u8, workers: usize, started: usize, jobs: (Sender<Handed>, Receiver<Handed>) },
    /// Several, from the beginning.
    #[cfg(feature = "rayon")]
    Pool(rayon::ThreadPool),
}

/// A job for another thread.
struct Handed {
    job: Job,
    run: Arc<Run>,
}

impl Executor {
    /// Functions run on so many threads of each class; those of the default class on the thread that drives the node, if `here`.
    pub(super) fn new(side: &Arc<Side>, workers: &[usize], here: bool) -> io::Result<Executor> {
        let hands = workers.iter().zip(0..).map(|(workers, class)| match (class, workers) {
            (0, _) if here => Ok(Hands::Here),
            (0, 2..) => pool(side, *workers),
            (class, workers) => {
                Ok(Hands::Threads { class, workers: *workers, started: 0, jobs: unbounded() })
            }
        });
        let hands = hands.collect::<io::Result<Vec<Hands>>>()?;
        Ok(Executor { side: side.clone(), entries: Known::default(), hands, runs: HashMap::new() })
    }

    /// The function under a handle, if it runs on this thread for whoever asks, and answers when it ends.
    #[inline(always)]
    pub(super) fn on_the_spot(&mut self, handle: u64) -> Option<&Entry> {
        let here = matches!(self.hands.first(), Some(Hands::Here));
        let entry = self.entries.get(&self.side.functions, handle)?;
        let inline = match entry.spot {
            Spot::Here => here,
            Spot::Anywhere => true,
            Spot::No => false,
        };
        inline.then_some(entry)
    }

    /// The function that was asked for last.
    pub(super) fn again(&self) -> Option<&Entry> {
        self.entries.entries.get(self.entries.last).map(|(_, entry)| entry)
    }

    /// A call is over here whose function runs, or has kept a token.
    #[cold]
    pub(super) fn stop(&mut self, call: CallId) {
        if let Some(run) = self.runs.remove(&call) {
            run.stop();
        }
    }

    /// Something has come of a function that ran elsewhere, or of its token.
    pub(super) fn heed(&mut self, input: &Input) {
        match input {
            Input::Ran { result: JobResult::Deferred, .. } => {}
            // Whoever was given a token, and then failed, is told; of one that has answered nobody asks.
            Input::Ran { call, .. } => self.stop(*call),
            Input::Answered { call, .. } => drop(self.runs.remove(call)),
            _ => {}
        }
    }

    /// Runs a job, or hands it to someone who will. What comes back at once is returned.
    pub(super) fn run(&mut self, job: Job) -> Option<Input> {
        let Executor { side, entries, hands, runs } = self;
        let entry = entries.entry(&side.functions, handle(&job));
        let class = match &entry {
            Ok(entry) => match side.executors.class(&entry.placement) {
                Some(class) => class,
                None => return Some(lacking(&entry.placement, &job)),
            },
            Err(_) => 0,
        };
        let inline = entry.as_ref().is_ok_and(|entry| entry.placement == Placement::Inline);
        match hands.get_mut(usize::from(class)) {
            Some(Hands::Threads { class, workers, started, jobs }) if !inline => {
                let call = job.call;
                if *started < *workers {
                    match start_worker(side.clone(), *class, *started, jobs.1.clone()) {
                        Ok(()) => *started += 1,
                        Err(error) if *started == 0 => {
                            return Some(failed(
                                call,
                                format!("cannot start a thread for functions: {error}"),
                            ));
                        }
                        // Those that there are take their turns.
                        Err(_) => {}
                    }
                }
                let run = Arc::<Run>::default();
                runs.insert(call, run.clone());
                // Its receiver lies beside it.
                jobs.0
                    .send(Handed { job, run })
                    .err()
                    .map(|_| failed(call, "the worker threads are gone".into()))
            }
            #[cfg(feature = "rayon")]
            Some(Hands::Pool(pool)) if !inline => {
                let (side, run) = (side.clone(), Arc::<Run>::default());
                runs.insert(job.call, run.clone());
                pool.spawn(move || side.mailbox.result(on_worker(&side, 0, Handed { job, run })));
                None
            }
            _ => {
                let (call, known) = (job.call, runs.get(&job.call).cloned());
                let run = LazyRun::new(known, may_defer(&job));
                let input = finish(entry, side, job, &run);
                match (run.kept(), &input) {
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
    /// The node ends: functions that run are told so, those that wait for a worker do not begin, and who keeps a token learns that nobody waits for it.
    fn drop(&mut self) {
        for hands in &self.hands {
            if let Hands::Threads { jobs: (_, waiting), .. } = hands {
                waiting.try_iter().for_each(drop);
            }
        }
        self.runs.drain().for_each(|(_, run)| run.stop());
    }
}

/// The node cannot run a function at the moment.
#[cold]
fn failed(call: CallId, why: String) -> Input {
    Input::Ran { call, result: JobResult::Refused(Box::new(Reason::new(CauseKind::Busy, why))) }
}

/// A function of an executor that this node lacks.
#[cold]
fn lacking(placement: &Placement, job: &Job) -> Input {
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
fn start_worker(side: Arc<Side>, class: u8, index: usize, jobs: Receiver<Handed>) -> io::Result<()> {
    let name = match usize::from(class).checked_sub(1).and_then(|place| side.executors.0.get(place)) {
        Some(name) => format!("gpc-{}-{name}-{index}", side.id),
        None => format!("gpc-{}-worker", side.id),
    };
    // The channel ends when the executor has gone, which holds its sender.
    let work = move || jobs.iter().for_each(|handed| side.mailbox.result(on_worker(&side, class, handed)));
    thread::Builder::new().name(name).spawn(work).map(drop)
}

#[cfg(feature = "rayon")]
fn pool(side: &Side, workers: usize) -> io::Result<Hands> {
    let me = side.id;
    let name = move |index| format!("gpc-{me}-worker-{index}");
    let pool = rayon::ThreadPoolBuilder::new().num_threads(workers).thread_name(name).build();
    pool.map(Hands::Pool).map_err(io::Error::other)
}

#[cfg(not(feature = "rayon"))]
fn pool(_: &Side, workers: usize) -> io::Result<Hands> {
    let message = format!("{workers} workers need the crate's feature `rayon`");
    Err(io::Error::new(io::ErrorKind::Unsupported, message))
}

fn handle(job: &Job) -> u64 {
    match job.work {
        Work::Func | Work::More(_) => job.request.func,
        Work::Callback { .. } => job.request.callback.unwrap_or_default(),
    }
}

/// Whether the function of a job may ask for a token: a func has it from the beginning or not at all, but for one that takes its data as they come.
fn may_defer(job: &Job) -> bool {
    matches!(job.work, Work::Callback { .. } | Work::More(_))
}

/// Runs the function of a job to its end, on a worker of a class.
fn on_worker(side: &Arc<Side>, class: u8, Handed { job, run }: Handed) -> Input {
    let (call, number) = (job.call, handle(&job));
    let entry = side.functions.entry(number);
    let name = entry.as_ref().ok().map(|entry| entry.name.clone());
    let run = LazyRun::new(Some(run), may_defer(&job));
    waiting::running(side, class, call, name, || {
        finish(entry.as_ref().map_err(Clone::clone), side, job, &run)
    })
}

/// Runs the function of a job to its end.
fn finish(entry: Result<&Entry, FunctionsError>, side: &Arc<Side>, job: Job, run: &LazyRun) -> Input {
    let call = job.call;
    let result = match result(entry, side, job, run) {
        JobResult::Replied(_) if run.is_deferred() => JobResult::Deferred,
        result => result,
    };
    Input::Ran { call, result }
}

fn result(entry: Result<&Entry, FunctionsError>, side: &Arc<Side>, mut job: Job, run: &LazyRun) -> JobResult {
    let entry = match entry {
        Ok(entry) => entry,
        Err(error) => return JobResult::Refused(function_error::not_run(&error)),
    };
    // They are missing only in a call whose func takes them as they come.
    let data = job.request.data.as_bytes().unwrap_or_default();
    let work = std::mem::replace(&mut job.work, Work::Func);
    let request = Request::of_job(side, &job, &data, run);
    match work {
        Work::Func if entry.streams() => {
            let begun = entry.begin(&request);
            run.may_defer.set(true);
            take(begun, &request, &job.request.data)
        }
        Work::More(taken) => take(resume(taken), &request, &job.request.data),
        Work::Func => entry.execute(&request, || Deferred::new(job.call, &side.mailbox, run.defer())),
        Work::Callback { from, child, own } => {
            let (header, data) = (child.header.as_slice(), child.data.as_slice());
            entry.merge(&request, &ChildReply { from, header: &header, data: &data }, own)
        }
    }
}
