//! The second half of the bootstrap: three calls through the tree, after which every process knows all others.
//!
//! Id 0 gathers the entries with one call, whose replies are aggregated on the way. A second call sends all entries to
//! every id, and each id replies once it has learned them. A third call announces that all ids have. So a process that
//! has its [`Member`](super::Member) may call any other id. If one fails, id 0 announces that to the ids that it
//! reaches.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use gpc_trees::Id;

use super::driven::{Driven, await_item};
use super::entry::Entry;
use super::exchange::TREE;
use super::watch::Watch;
use super::{BootstrapError, table};
use crate::TimeLimit;
use crate::chain::Reply;
use crate::runtime::{Access, Call, Deferred, FuncHandle, Functions, Placement};
use crate::wire::Shown;
use crate::wire::message::CallId;

/// The names of the functions.
const ENTRY: &str = "gpc.bootstrap.entry";
const SAY: &str = "gpc.bootstrap.say";
const UP: &str = "gpc.bootstrap.up";

/// The header of a call of `SAY`: the kind of announcement.
const TABLE: &[u8] = b"table";
const GO: &[u8] = b"go";
const GIVE_UP: &[u8] = b"give up";

/// Maximum number of unread announcements of id 0, which sends each kind once.
const ANNOUNCEMENTS_MAX: usize = 3;

/// How often a waiting process checks whether its parent is there.
const CHECK_INTERVAL: Duration = Duration::from_millis(250);

/// Time limit of the call by which id 0 announces that it gives up.
const GIVE_UP_LIMIT: Duration = Duration::from_secs(2);

/// An announcement of id 0.
enum Announcement {
    Table(Bytes, Deferred),
    /// By this call.
    Go(CallId),
    GivenUp(String),
}

/// The functions of one process, and the announcements of id 0 that they have received.
pub(super) struct Rounds {
    entry: FuncHandle,
    say: FuncHandle,
    up: FuncHandle,
    announcements: Arc<Queue>,
}

#[derive(Default)]
struct Queue {
    announcements: Mutex<VecDeque<Announcement>>,
    came: Condvar,
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, VecDeque<Announcement>> {
        // No code panics while it holds the lock.
        self.announcements.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues an announcement for the waiting thread; returns false if the queue is full.
    fn push(&self, announcement: Announcement) -> bool {
        let mut queue = self.lock();
        let room = queue.len() < ANNOUNCEMENTS_MAX;
        if room {
            queue.push_back(announcement);
            self.came.notify_all();
        }
        room
    }

    fn pop(&self, limit: Duration) -> Option<Announcement> {
        let queue = self.lock();
        let waits = |queue: &mut VecDeque<Announcement>| queue.is_empty();
        let (mut queue, _) =
            self.came.wait_timeout_while(queue, limit, waits).unwrap_or_else(PoisonError::into_inner);
        queue.pop_front()
    }
}

impl Rounds {
    /// Registers the functions beside those of the program.
    pub(super) fn register(functions: &Functions, mine: &Entry) -> Result<Rounds, BootstrapError> {
        // All of them are short: inline dispatch on the node's own thread avoids waking another thread.
        let functions = functions.at(Placement::Inline);
        let announcements = Arc::new(Queue::default());
        let queue = announcements.clone();
        // This function carries no addresses, so it accepts links that are not authenticated. A node that is built
        // without `noise` has only such links over TCP, even on one host.
        let up = functions.deferring(UP, move |request, token| match request.root() {
            0 if request.me() == 0 => token.reply(Reply::default()),
            0 => drop(answered(token, queue.push(Announcement::Go(request.call())))),
            _ => token.fail("only id 0 says that all are up"),
        })?;
        // Only an authenticated id 0 may announce the addresses of the others.
        let functions = functions.access(Access::Proved);
        let text = mine.to_string().into_bytes();
        let entry = functions.func(ENTRY, move |_, reply| {
            reply.data = text.clone();
            Ok(())
        })?;
        let queue = announcements.clone();
        let say = functions.deferring(SAY, move |request, token| {
            if request.root() != 0 {
                return token.fail("only id 0 says where all are");
            }
            if request.me() == 0 {
                return token.reply(Reply::default());
            }
            let refused = match request.header() {
                TABLE => !queue.push(Announcement::Table(request.data_bytes(), token)),
                GO => answered(token, queue.push(Announcement::Go(request.call()))),
                GIVE_UP => {
                    let why = Shown(&String::from_utf8_lossy(request.data())).to_string();
                    answered(token, queue.push(Announcement::GivenUp(why)))
                }
                _ => answered(token, false),
            };
            if refused {
                tracing::debug!(id = request.me(), "what id 0 has said came too often");
            }
        })?;
        Ok(Rounds { entry, say, up, announcements })
    }

    /// The part of id 0: gathers the entries, and returns them once every id has them. `learn` receives all entries.
    pub(super) fn lead(
        &self,
        node: &mut dyn Driven,
        count: u32,
        limit: &TimeLimit,
        learn: impl FnOnce(&mut dyn Driven, &[Entry]) -> Result<(), BootstrapError>,
    ) -> Result<Vec<Entry>, BootstrapError> {
        let entries = self.lead_all(node, count, limit, learn);
        entries.inspect_err(|error| self.give_up(node, count, error))
    }

    /// Announces to all reachable ids that the exchange has failed. The others detect that this process has gone.
    fn give_up(&self, node: &mut dyn Driven, count: u32, error: &BootstrapError) {
        let text = error.to_string().into_bytes();
        let call = self.say(GIVE_UP, count).data(text).partial().limit(GIVE_UP_LIMIT);
        let _ = node.complete(call);
    }

    /// For processes that all know each other already. Id 0 calls every id, so that each is linked with the id that it
    /// watches. Otherwise id 0 could leave before another id has seen it.
    pub(super) fn go(
        &self,
        node: &mut dyn Driven,
        watch: Option<&mut Watch>,
        count: u32,
        limit: &TimeLimit,
    ) -> Result<(), BootstrapError> {
        let Some(watch) = watch else {
            let call = Call::new(self.up).ids(0..count).tree(TREE).limit(left(limit));
            return node
                .complete(call)
                .map(drop)
                .map_err(BootstrapError::from)
                .inspect_err(|error| self.give_up(node, count, error));
        };
        self.receive_go(node, watch, limit)
    }

    fn receive_go(
        &self,
        node: &mut dyn Driven,
        watch: &mut Watch,
        limit: &TimeLimit,
    ) -> Result<(), BootstrapError> {
        match self.receive(node, watch, limit)? {
            Announcement::Go(call) => {
                // The children wait for it, and id 0 for their answers.
                node.pass_on(call, left(limit));
                Ok(())
            }
            Announcement::GivenUp(why) => Err(BootstrapError::GivenUp(why)),
            Announcement::Table(_, token) => {
                token.fail("the addresses of all came though they are known");
                Err(useless(0, "it says where all are, who know it".into()))
            }
        }
    }

    fn lead_all(
        &self,
        node: &mut dyn Driven,
        count: u32,
        limit: &TimeLimit,
        learn: impl FnOnce(&mut dyn Driven, &[Entry]) -> Result<(), BootstrapError>,
    ) -> Result<Vec<Entry>, BootstrapError> {
        let gather = Call::new(self.entry).ids(0..count).tree(TREE).limit(left(limit));
        let gathered = node.complete(gather)?;
        let mut entries = Vec::new();
        for reply in gathered.replies().map_err(|error| useless(0, error.to_string()))? {
            let text = String::from_utf8_lossy(&reply.data);
            entries
                .push(text.parse().map_err(|fault: super::EntryError| useless(reply.id, fault.to_string()))?);
        }
        // Before the others go on: their calls may pass through this id.
        learn(node, &entries)?;
        let text = table::to_text(&entries);
        node.complete(self.say(TABLE, count).data(text).limit(left(limit)))?;
        node.complete(self.say(GO, count).limit(left(limit)))?;
        Ok(entries)
    }

    fn say(&self, what: &'static [u8], count: u32) -> Call {
        Call::new(self.say).ids(0..count).tree(TREE).header(what)
    }

    /// The part of any other id. `learn` receives all entries, and returns when calls reach these ids.
    pub(super) fn follow(
        &self,
        node: &mut dyn Driven,
        watch: &mut Watch,
        count: u32,
        limit: &TimeLimit,
        learn: impl FnOnce(&mut dyn Driven, &[Entry]) -> Result<(), BootstrapError>,
    ) -> Result<Vec<Entry>, BootstrapError> {
        let (text, token) = match self.receive(node, watch, limit)? {
            Announcement::Table(text, token) => (text, token),
            Announcement::GivenUp(why) => return Err(BootstrapError::GivenUp(why)),
            Announcement::Go(_) => {
                return Err(useless(0, "it says that all are known before it says where".into()));
            }
        };
        let entries = table::parse(&text, count).map_err(|why| useless(0, why));
        let entries = match entries.and_then(|entries| learn(node, &entries).map(|()| entries)) {
            Ok(entries) => entries,
            Err(error) => {
                token.fail(error.to_string());
                return Err(error);
            }
        };
        token.reply(Reply::default());
        self.receive_go(node, watch, limit).map(|()| entries)
    }

    /// Waits for an announcement of id 0, as long as one can arrive.
    fn receive(
        &self,
        node: &mut dyn Driven,
        watch: &mut Watch,
        limit: &TimeLimit,
    ) -> Result<Announcement, BootstrapError> {
        let whole = left(limit);
        // Terminates: the time limit passes.
        loop {
            let left = left(limit);
            let pop = |limit| self.announcements.pop(limit);
            if let Some(announcement) = await_item(node, left.min(CHECK_INTERVAL), pop) {
                return Ok(announcement);
            }
            // An announcement that was received before id 0 went is still valid.
            if watch.detect_loss() {
                let announcement = self.announcements.pop(Duration::ZERO);
                return announcement.ok_or_else(|| BootstrapError::Gone(watch.watched()));
            }
            if left.is_zero() {
                return Err(BootstrapError::Late { from: watch.watched(), limit: whole });
            }
        }
    }
}

/// Replies to an announcement; returns true if the queue was full.
fn answered(token: Deferred, kept: bool) -> bool {
    match kept {
        true => token.reply(Reply::default()),
        false => token.fail("this id does not expect that"),
    }
    !kept
}

fn useless(of: Id, why: String) -> BootstrapError {
    BootstrapError::Entry { of, why }
}

fn left(limit: &TimeLimit) -> Duration {
    limit.left().unwrap_or_default()
}

#[cfg(test)]
mod tests;
