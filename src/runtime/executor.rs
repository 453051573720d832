//! Where functions run: on a worker thread, on a pool, or here.
//!
//! The chain decides how many run at once; the executor only provides the hands. Results come back through the [`Mailbox`].

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::thread;

use crossbeam::channel::{Receiver, Sender, unbounded};
use gpc_trees::Id;

use super::function_error;
use super::functions::{Entry, Functions, FunctionsError};
use super::mailbox::Mailbox;
use super::quick_hash::QuickHash;
use super::request::{ChildReply, Deferred, Request};
use super::stream::{resume, take};
use crate::chain::{Input, Job, JobResult, Work};
use crate::hint::unlikely;
use crate::wire::{CauseKind, Reason};

/// Runs the functions of one node.
pub(super) struct Executor {
    me: Id,
    functions: Functions,
    entries: Known,
    mailbox: Arc<Mailbox>,
    hands: Hands,
}

/// The functions that have been asked for. A function once registered never changes, so that nothing is locked for a job; at most as many as are registered.
#[derive(Default)]
struct Known {
    entries: Vec<(u32, Entry)>,
    places: HashMap<u32, usize, QuickHash>,
    /// The place of the one that was asked for last: most calls are of the same function as the one before.
    last: usize,
}

impl Known {
    /// The same, or none if there is no such function.
    #[inline(always)]
    fn get(&mut self, functions: &Functions, handle: u32) -> Option<&Entry> {
        if unlikely(self.entries.get(self.last).is_none_or(|(last, _)| *last != handle)) {
            self.look_up(functions, handle);
        }
        self.entries.get(self.last).filter(|(last, _)| *last == handle).map(|(_, entry)| entry)
    }

    #[cold]
    fn look_up(&mut self, functions: &Functions, handle: u32) {
        // Who asks sees for himself whether it is there.
        let _ = self.entry(functions, handle);
    }

    fn entry(&mut self, functions: &Functions, handle: u32) -> Result<&Entry, FunctionsError> {
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
    /// One thread of its own, from the first job on: a node whose functions are all inline has none. It ends when the sender is dropped. The channel holds at most the jobs that the
    /// chain hands out: one.
    Thread(Option<Sender<Job>>),
    /// Several.
    #[cfg(feature = "rayon")]
    Pool(rayon::ThreadPool),
}

impl Executor {
    /// Functions run on the thread that drives the node.
    pub(super) fn here(me: Id, functions: Functions, mailbox: Arc<Mailbox>) -> Executor {
        Executor { me, functions, entries: Known::default(), mailbox, hands: Hands::Here }
    }

    /// Functions run on `workers` threads.
    pub(super) fn threads(
        me: Id,
        workers: usize,
        functions: Functions,
        mailbox: Arc<Mailbox>,
    ) -> io::Result<Executor> {
        let hands = match workers {
            0 | 1 => Hands::Thread(None),
            _ => pool(me, workers)?,
        };
        Ok(Executor { me, functions, entries: Known::default(), mailbox, hands })
    }

    /// The function under a handle, if it runs on this thread, and answers when it ends.
    #[inline(always)]
    pub(super) fn on_the_spot(&mut self, handle: u32) -> Option<&Entry> {
        let here = matches!(self.hands, Hands::Here);
        let entry = self.entries.get(&self.functions, handle)?;
        ((here || entry.inline) && entry.answers_at_its_end()).then_some(entry)
    }

    /// The function that was asked for last.
    pub(super) fn again(&self) -> Option<&Entry> {
        self.entries.entries.get(self.entries.last).map(|(_, entry)| entry)
    }

    /// Runs a job, or hands it to someone who will. What comes back at once is returned.
    pub(super) fn run(&mut self, job: Job) -> Option<Input> {
        let entry = self.entries.entry(&self.functions, handle(&job));
        match &mut self.hands {
            Hands::Here => Some(finish(entry, &self.mailbox, job)),
            _ if entry.as_ref().is_ok_and(|entry| entry.inline) => Some(finish(entry, &self.mailbox, job)),
            Hands::Thread(worker) => {
                let call = job.call;
                let refused = |why: String| {
                    let reason = Box::new(Reason::new(CauseKind::Busy, why));
                    Some(Input::Ran { call, result: JobResult::Refused(reason) })
                };
                if worker.is_none() {
                    match start_worker(self.me, self.functions.clone(), self.mailbox.clone()) {
                        Ok(sender) => *worker = Some(sender),
                        Err(error) => {
                            return refused(format!("cannot start a thread for functions: {error}"));
                        }
                    }
                }
                // The worker lives as long as this sender.
                match worker.as_ref().map(|worker| worker.send(job)) {
                    Some(Ok(())) => None,
                    Some(Err(_)) | None => refused("the worker thread is gone".into()),
                }
            }
            #[cfg(feature = "rayon")]
            Hands::Pool(pool) => {
                let (functions, mailbox) = (self.functions.clone(), self.mailbox.clone());
                pool.spawn(move || mailbox.result(look_up(&functions, &mailbox, job)));
                None
            }
        }
    }
}

fn start_worker(me: Id, functions: Functions, mailbox: Arc<Mailbox>) -> io::Result<Sender<Job>> {
    let (sender, jobs): (Sender<Job>, Receiver<Job>) = unbounded();
    let work = move || jobs.iter().for_each(|job| mailbox.result(look_up(&functions, &mailbox, job)));
    thread::Builder::new().name(format!("gpc-{me}-worker")).spawn(work)?;
    Ok(sender)
}

#[cfg(feature = "rayon")]
fn pool(me: Id, workers: usize) -> io::Result<Hands> {
    let name = move |index| format!("gpc-{me}-worker-{index}");
    let pool = rayon::ThreadPoolBuilder::new().num_threads(workers).thread_name(name).build();
    pool.map(Hands::Pool).map_err(io::Error::other)
}

#[cfg(not(feature = "rayon"))]
fn pool(_: Id, workers: usize) -> io::Result<Hands> {
    let message = format!("{workers} workers need the crate's feature `rayon`");
    Err(io::Error::new(io::ErrorKind::Unsupported, message))
}

fn handle(job: &Job) -> u32 {
    match job.work {
        Work::Func | Work::More(_) => job.request.func,
        Work::Callback { .. } => job.request.callback.unwrap_or_default(),
    }
}

/// Runs the function of a job to its end, on a thread that has no list of its own.
fn look_up(functions: &Functions, mailbox: &Arc<Mailbox>, job: Job) -> Input {
    let entry = functions.entry(handle(&job));
    finish(entry.as_ref().map_err(Clone::clone), mailbox, job)
}

/// Runs the function of a job to its end.
fn finish(entry: Result<&Entry, FunctionsError>, mailbox: &Arc<Mailbox>, job: Job) -> Input {
    let call = job.call;
    Input::Ran { call, result: result(entry, mailbox, job) }
}

fn result(entry: Result<&Entry, FunctionsError>, mailbox: &Arc<Mailbox>, job: Job) -> JobResult {
    let entry = match entry {
        Ok(entry) => entry,
        Err(error) => return JobResult::Refused(function_error::not_run(&error)),
    };
    // They are missing only in a call whose func takes them as they come.
    let data = job.request.data.as_bytes().unwrap_or_default();
    let request = Request::new(job.me, job.parent, &job.request, &data);
    match job.work {
        Work::Func if entry.streams() => take(entry.begin(&request), &job.request.data),
        Work::More(taken) => take(resume(taken), &job.request.data),
        Work::Func => entry.execute(&request, || {
            let mailbox = mailbox.clone();
            Deferred::new(job.call, move |call, result| mailbox.result(Input::Answered { call, result }))
        }),
        Work::Callback { from, child, own } => {
            let (header, data) = (child.header.as_slice(), child.data.as_slice());
            entry.merge(&request, &ChildReply { from, header: &header, data: &data }, own)
        }
    }
}
