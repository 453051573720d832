//! Calls that arrive before their handlers: processes register on their own.
//!
//! Such a call holds no worker. It waits in a bounded queue until its handler is registered, then the worker of its
//! level executes it. A thread, which exists only while calls wait, passes them on and fails those whose time is over.
#![allow(clippy::disallowed_methods, reason = "the thread waits by its own clock")]

use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use chained_gpc::{Deferred, WithCode};

use super::early_calls::{Handlers, LIMIT, Waiting};
use super::jobs::Job;
use super::levels::LEVELS;
use super::mutex::lock;
use super::shared::Shared;
use super::table::Missing;
use super::types::Handler;
use crate::status::{CGPC_ERR_BUSY, CGPC_ERR_FUNCTION};

/// How soon a worker is asked again after the node was too busy to pass calls on.
const RETRY: Duration = Duration::from_millis(100);

/// Executes a call, or lets it wait for its handlers.
pub(super) fn submit(shared: &Arc<Shared>, job: Job, token: Deferred) {
    let mut handlers = lock(&shared.handlers);
    let handle = match handlers.table.find(job.handles) {
        Err(Missing::Yet(handle)) if !handlers.ended => handle,
        found => {
            drop(handlers);
            return execute(shared, job, found, token);
        }
    };
    let to = job.to;
    let gone = handlers.early.take_all(|waiting| waiting.token.is_cancelled());
    let added = handlers.early.add(job, token, Instant::now());
    handlers.changes += 1;
    let watched = std::mem::replace(&mut handlers.early.watched, true);
    drop(handlers);
    drop(gone);
    if let Err((token, why)) = added {
        token.fail(WithCode::new(CGPC_ERR_BUSY.into(), Missing::Yet(handle).in_words(to, &why)));
    }
    if !watched {
        let watching = shared.clone();
        let thread = std::thread::Builder::new().name("gpc-armci-early".into());
        if thread.spawn(move || watch(&watching)).is_err() {
            // The next early call tries again; those that wait end with their callers' limit.
            lock(&shared.handlers).early.watched = false;
        }
    }
}

/// Executes a call whose handlers were looked up, and sends its reply.
fn execute(shared: &Shared, job: Job, found: Result<Handler, Missing>, token: Deferred) {
    let done = match found {
        Ok(handler) => job.run(&shared.turn, handler, || token.is_cancelled()),
        Err(missing) => Err(WithCode::new(CGPC_ERR_FUNCTION.into(), missing.in_words(job.to, ""))),
    };
    match done {
        Ok(reply) => token.reply(reply),
        Err(error) => token.fail(error),
    }
}

/// Executes the early calls of a level that have their handlers now, on the worker of the level.
pub(super) fn execute_ready(shared: &Shared, level: usize) {
    let mut handlers = lock(&shared.handlers);
    // Terminates: each iteration takes a call out of a bounded queue; new calls that are ready do not enter it.
    loop {
        let Handlers { table, early, .. } = &mut *handlers;
        let Some(Waiting { job, token, .. }) = early.take_first(level, |job| table.is_ready(job.handles))
        else {
            break;
        };
        let found = table.find(job.handles);
        drop(handlers);
        execute(shared, job, found, token);
        handlers = lock(&shared.handlers);
    }
    handlers.early.asked[level] = false;
    handlers.changes += 1;
    drop(handlers);
    shared.changed.notify_all();
}

/// What the thread of the queue has to do.
struct Due {
    /// Calls whose time is over, with the handlers that they lack.
    late: Vec<(Waiting<Deferred>, Missing)>,
    /// Levels whose workers are to be asked.
    levels: Vec<usize>,
    /// When the next call is late.
    next: Option<Instant>,
}

impl Handlers {
    fn due(&mut self, now: Instant) -> Due {
        let Handlers { table, early, ended, .. } = self;
        let is_late = |waiting: &Waiting<Deferred>| {
            *ended
                || waiting.token.is_cancelled()
                || waiting.until <= now && !table.is_ready(waiting.job.handles)
        };
        let late = early.take_all(is_late);
        let late = late.into_iter().map(|waiting| {
            let missing = table.find(waiting.job.handles).err().unwrap_or(Missing::Released(0));
            (waiting, missing)
        });
        let late = late.collect();
        let is_asked = |level: &usize| {
            let is_next =
                |waiting: &Waiting<_>| waiting.job.level == *level && table.is_ready(waiting.job.handles);
            !early.asked[*level] && early.waiting.iter().any(is_next)
        };
        let levels: Vec<usize> = (0..LEVELS).filter(is_asked).collect();
        levels.iter().for_each(|level| early.asked[*level] = true);
        let unready = early.waiting.iter().filter(|waiting| !table.is_ready(waiting.job.handles));
        Due { late, levels, next: unready.map(|waiting| waiting.until).min() }
    }
}

/// Watches the queue until it is empty.
fn watch(shared: &Arc<Shared>) {
    let mut handlers = lock(&shared.handlers);
    // Terminates: each call has its limit or its handler, and the end of the layer takes all.
    while !handlers.early.waiting.is_empty() {
        let (changes, ended) = (handlers.changes, handlers.ended);
        let Due { late, levels, next } = handlers.due(Instant::now());
        drop(handlers);
        for (Waiting { job, token, .. }, missing) in late {
            let why = if ended { "it leaves" } else { "the limit of a minute has passed" };
            token.fail(WithCode::new(CGPC_ERR_FUNCTION.into(), missing.in_words(job.to, why)));
        }
        let is_asked = levels.into_iter().all(|level| ask(shared, level));
        handlers = lock(&shared.handlers);
        if handlers.changes == changes {
            let pause = next.map_or(LIMIT, |next| next.saturating_duration_since(Instant::now()));
            let pause = if is_asked { pause } else { pause.min(RETRY) };
            let waited = shared.changed.wait_timeout(handlers, pause);
            handlers = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
    handlers.early.watched = false;
}

/// Asks the worker of a level to execute its calls, by a call of this process to itself; returns whether it will.
fn ask(shared: &Arc<Shared>, level: usize) -> bool {
    let asking = shared.clone();
    let failed = move || {
        let mut handlers = lock(&asking.handlers);
        handlers.early.asked[level] = false;
        handlers.changes += 1;
        drop(handlers);
        asking.changed.notify_all();
    };
    let started = shared
        .home()
        .and_then(|home| home.context.call(home.call_at(home.numbers.early[level], home.me as i32)?));
    match started {
        Ok(call) => {
            call.on_end(move |ended| {
                if ended.is_err() {
                    failed()
                }
            });
            true
        }
        Err(_) => {
            failed();
            false
        }
    }
}
