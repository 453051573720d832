//! The process of `bnr.h`: its link to the node, its open groups, iterations and notices, and faults as errors.
//!
//! A process has one link, and BNR's functions have no handle. So the handle of the link is a state of the process; in
//! a forked child it is an error, as all handles of the parent are.

mod faults;
pub(crate) mod notices;
pub(crate) mod specs;

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use gpc_bnr::client::{Process, Snapshot, Spawned};
use gpc_bnr::names::{GroupId, Set};
use gpc_bnr::request::Pair;
use gpc_bnr::{FaultKind, LEFT_OUT};

use self::notices::{Notice, Notices};
use self::specs::{DATABASE_VARIABLE, Hint};
use crate::abi::bnr_types::{BNR_Group, BNR_Notify_fn};
use crate::abi::near::Held;
use crate::error::Error;
use crate::handles::{Handle, Kind, Object, get, insert, remove};

pub(crate) use self::faults::{as_fault, fault};
pub(crate) use crate::error::Result;

/// The link of this process: the number of its handle, or one of the numbers below, which no handle has.
static LINK: AtomicU64 = AtomicU64::new(BEFORE);

/// The process has not called `BNR_Init`.
const BEFORE: u64 = 0;
/// A thread runs `BNR_Init`.
const STARTING: u64 = 2;
/// The process has called `BNR_Finalize`.
const FINALIZED: u64 = 4;

/// Most hints of one info: the longest lists have a hint for each variable.
const HINTS_MAX: usize = 4096;

/// A process between `BNR_Init` and `BNR_Finalize`.
pub(crate) struct Session {
    pub(crate) process: Process,
    database: String,
    state: Mutex<State>,
    notices: Arc<Notices>,
}

impl Object for Session {
    const KIND: Kind = Kind::Bnr;
}

/// State of the calls of a process.
#[derive(Default)]
struct State {
    /// Groups that this process has opened, and not closed.
    open: BTreeMap<GroupId, Opened>,
    /// Databases of other groups than the own one.
    databases: BTreeMap<GroupId, String>,
    /// Iterations that are under way, by database.
    iterations: BTreeMap<String, Snapshot>,
}

/// An open group.
struct Opened {
    /// The processes that have opened the group; all of them close it.
    over: Set,
    /// The spawns of this process: number of processes, and the function that receives their deaths.
    spawns: Vec<(u32, BNR_Notify_fn)>,
}

/// Hints for a spawn.
#[derive(Default)]
pub(crate) struct Info(Mutex<Vec<Hint>>);

impl Object for Info {
    const KIND: Kind = Kind::BnrInfo;
}

impl Info {
    pub(crate) fn add(&self, key: String, value: Vec<u8>) -> Result<()> {
        let mut hints = lock(&self.0);
        if hints.len() >= HINTS_MAX {
            let message = format!("this info has {HINTS_MAX} hints already");
            return Err(fault(FaultKind::TooLarge, message));
        }
        hints.push((key, value));
        Ok(())
    }

    pub(crate) fn hints(&self) -> Vec<Hint> {
        lock(&self.0).clone()
    }
}

/// No code panics while it holds a lock of this module.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Makes the link of this process.
pub(crate) fn init() -> Result<()> {
    if let Err(number) = LINK.compare_exchange(BEFORE, STARTING, Ordering::SeqCst, Ordering::SeqCst) {
        return Err(match number {
            STARTING => fault(FaultKind::BadRequest, "another thread of this process runs BNR_Init"),
            number => match held(number) {
                Ok(_) => fault(FaultKind::BadRequest, "this process has called BNR_Init before"),
                Err(error) => error,
            },
        });
    }
    let made = Session::new().and_then(|session| insert(Arc::new(session)));
    let number = made.as_ref().map_or(BEFORE, |handle| handle.0);
    LINK.store(number, Ordering::SeqCst);
    made.map(drop)
}

/// The link of this process.
pub(crate) fn session() -> Result<Held<Session>> {
    held(LINK.load(Ordering::SeqCst))
}

fn held(number: u64) -> Result<Held<Session>> {
    match number {
        BEFORE | STARTING => {
            Err(fault(FaultKind::Link, "this process is not linked to a node: call BNR_Init first"))
        }
        FINALIZED => Err(fault(FaultKind::Link, "this process has called BNR_Finalize: it takes part once")),
        number => get(Handle(number)),
    }
}

/// Ends the link of this process.
pub(crate) fn finalize() -> Result<()> {
    let number = LINK.load(Ordering::SeqCst);
    let session = held(number)?;
    // Of two threads, one finalizes.
    if LINK.compare_exchange(number, FINALIZED, Ordering::SeqCst, Ordering::SeqCst).is_err() {
        return held(FINALIZED).map(drop);
    }
    remove::<Session>(Handle(number))?;
    session.notices.end();
    Ok(session.process.finalize()?)
}

impl Session {
    fn new() -> Result<Session> {
        let process = Process::init()?;
        let chosen = std::env::var_os(DATABASE_VARIABLE).and_then(|name| name.into_string().ok());
        let database = chosen.unwrap_or_else(|| process.database().to_owned());
        Ok(Session { process, database, state: Mutex::default(), notices: Arc::default() })
    }

    /// The database that this process is to use.
    pub(crate) fn database(&self) -> &str {
        &self.database
    }

    /// Name of the own database of a group.
    pub(crate) fn database_of(&self, group: GroupId) -> Result<String> {
        if let Some(name) = lock(&self.state).databases.get(&group) {
            return Ok(name.clone());
        }
        let name = self.process.database_of(group)?;
        lock(&self.state).databases.insert(group, name.clone());
        Ok(name)
    }

    /// The rank of this process in a group.
    pub(crate) fn rank_of(&self, group: GroupId) -> Result<u32> {
        Ok(self.process.rank_of(group)?)
    }

    /// Commits the puts of this process into the database of a group, and fences the group.
    ///
    /// # Errors
    /// Those of the fence, or the first refused put. The others wait for the fence, so it takes place in any case.
    pub(crate) fn fence(&self, group: GroupId) -> Result<()> {
        let committed = self.database_of(group).and_then(|name| Ok(self.process.commit(&name)?));
        self.process.fence(&Set::Group(group), None)?;
        committed
    }

    pub(crate) fn open(&self, over: GroupId) -> Result<GroupId> {
        let over = Set::Group(over);
        let group = self.process.open(&over, None)?;
        lock(&self.state).open.insert(group, Opened { over, spawns: Vec::new() });
        Ok(group)
    }

    /// Whether a spawn into a group may have this function: only those that close the group know when it starts.
    pub(crate) fn may_spawn(&self, group: GroupId, function: BNR_Notify_fn) -> Result<()> {
        match function.is_none() || lock(&self.state).open.contains_key(&group) {
            true => Ok(()),
            false => Err(not_opened(group)),
        }
    }

    /// Remembers a spawn into a group for its closing.
    pub(crate) fn spawned(&self, group: GroupId, count: u32, function: BNR_Notify_fn) {
        if let Some(opened) = lock(&self.state).open.get_mut(&group) {
            opened.spawns.push((count, function));
        }
    }

    /// Closes a group that this process has opened. From then on the functions of its spawns receive deaths.
    ///
    /// # Errors
    /// Those of the request. A group with processes that could not be started is one.
    pub(crate) fn close(&self, group: GroupId) -> Result<()> {
        let over = lock(&self.state).open.get(&group).map(|opened| opened.over.clone());
        let over = over.ok_or_else(|| not_opened(group))?;
        let spawned = self.process.close(&over, group, None)?;
        let spawns = lock(&self.state).open.remove(&group).map(|opened| opened.spawns).unwrap_or_default();
        let functions = functions_by_rank(&spawns, &spawned.errors);
        if !functions.is_empty() {
            self.subscribe(group, functions)?;
        }
        whole(&spawned)
    }

    pub(crate) fn free(&self, group: GroupId) -> Result<()> {
        self.process.free(group)?;
        let mut state = lock(&self.state);
        state.open.remove(&group);
        state.databases.remove(&group);
        Ok(())
    }

    /// Calls these functions with the deaths of a group from now on, and with those before.
    pub(crate) fn subscribe(
        &self,
        group: GroupId,
        functions: Vec<(Range<u32>, BNR_Notify_fn)>,
    ) -> Result<()> {
        let notices = self.notices.clone();
        self.process.subscribe_with(group, move |death| {
            let receives = functions.iter().filter(|(ranks, _)| ranks.contains(&death.member.rank));
            for (_, function) in receives {
                notices.add(Notice { function: *function, death });
            }
        })?;
        Ok(())
    }

    /// Calls `run` with each death that is reported: see [`Notices::deliver`].
    pub(crate) fn deliver(&self, run: impl Fn(Notice)) {
        self.notices.deliver(run);
    }

    /// Waits until a death is received: see [`Notices::wait`].
    ///
    /// # Errors
    /// Those of [`Notices::wait`].
    pub(crate) fn wait(&self, limit: Duration, run: impl Fn(Notice)) -> Result<()> {
        self.notices.wait(limit, run)
    }

    /// The first pair of a database, which begins an iteration; `None` if it is empty.
    pub(crate) fn first_pair(&self, database: &str) -> Result<Option<Pair>> {
        let snapshot = self.process.iterate(database)?;
        lock(&self.state).iterations.insert(database.to_owned(), snapshot);
        self.next_pair(database)
    }

    /// The next pair of an iteration; `None` at its end.
    pub(crate) fn next_pair(&self, database: &str) -> Result<Option<Pair>> {
        let mut state = lock(&self.state);
        let Some(snapshot) = state.iterations.get_mut(database) else {
            let message = format!("no iteration of {database} is under way: call BNR_DB_iter_first");
            return Err(fault(FaultKind::BadRequest, message));
        };
        let pair = snapshot.next().cloned();
        if pair.is_none() {
            state.iterations.remove(database);
        }
        Ok(pair)
    }

    pub(crate) fn destroy(&self, database: &str) -> Result<()> {
        lock(&self.state).iterations.remove(database);
        Ok(self.process.destroy(database)?)
    }
}

/// The functions of spawns, with the ranks of their processes. If other processes have spawned into the group as well,
/// the ranks are not known, and each function receives all deaths.
fn functions_by_rank(spawns: &[(u32, BNR_Notify_fn)], errors: &[i32]) -> Vec<(Range<u32>, BNR_Notify_fn)> {
    let requested: usize = spawns.iter().map(|(count, _)| *count as usize).sum();
    let (mut at, mut rank) = (0, 0);
    let mut functions = Vec::new();
    for (count, function) in spawns {
        let end = at + *count as usize;
        let own = errors.get(at..end).unwrap_or_default();
        // Those that `soft` left out have no rank.
        let started = own.iter().filter(|error| **error != LEFT_OUT).count() as u32;
        let ranks = if requested == errors.len() { rank..rank + started } else { 0..u32::MAX };
        if function.is_some() {
            functions.push((ranks, *function));
        }
        (at, rank) = (end, rank + started);
    }
    functions
}

/// Whether all processes of a spawn were started.
///
/// # Errors
/// Some were not.
pub(crate) fn whole(spawned: &Spawned) -> Result<()> {
    let Some((rank, errno)) = spawned.failed().next() else { return Ok(()) };
    let (failed, of) = (spawned.failed().count(), spawned.errors.len());
    let why = std::io::Error::from_raw_os_error(errno);
    let message =
        format!("{failed} of {of} processes of {} were not started; rank {rank}: {why}", spawned.group);
    Err(fault(FaultKind::NotStarted, message))
}

fn not_opened(group: GroupId) -> Error {
    let message =
        format!("this process has not opened {group}, or has closed it: those that open a group close it");
    fault(FaultKind::NotMember, message)
}

/// The group of a number from C.
pub(crate) fn group(number: BNR_Group) -> Result<GroupId> {
    match u32::try_from(number) {
        Ok(0) => Err(fault(FaultKind::BadRequest, "BNR_GROUP_NULL was passed where a group is needed")),
        Ok(number) => Ok(GroupId(number)),
        Err(_) => Err(fault(FaultKind::NoGroup, format!("{number} is not a group"))),
    }
}

/// A number for C.
pub(crate) fn number(number: impl TryInto<i32>) -> Result<i32> {
    number.try_into().map_err(|_| fault(FaultKind::TooLarge, "the number does not fit an int"))
}

#[cfg(test)]
mod tests {
    use gpc_bnr::Exit;

    use super::*;

    extern "C" fn nothing(_: BNR_Group, _: i32, _: i32) -> i32 {
        0
    }

    fn ranks(spawns: &[(u32, bool)], errors: &[i32]) -> Vec<Range<u32>> {
        let spawns: Vec<(u32, BNR_Notify_fn)> =
            spawns.iter().map(|(count, has)| (*count, has.then_some(nothing as _))).collect();
        functions_by_rank(&spawns, errors).into_iter().map(|(ranks, _)| ranks).collect()
    }

    #[test]
    #[allow(clippy::single_range_in_vec_init, reason = "a list of one range is meant")]
    fn a_function_receives_the_deaths_of_its_spawn() {
        assert_eq!(ranks(&[(2, true), (3, true)], &[0; 5]), [0..2, 2..5]);
        assert_eq!(ranks(&[(2, false), (3, true)], &[0, 2, 0, 0, 0]), [2..5]);
        let soft = [0, LEFT_OUT, 0, 0, LEFT_OUT];
        assert_eq!(ranks(&[(2, true), (3, true)], &soft), [0..1, 1..3]);
        assert_eq!(
            ranks(&[(2, true), (1, true)], &[0; 5]),
            [0..u32::MAX, 0..u32::MAX],
            "others have spawned"
        );
        assert_eq!(ranks(&[(2, false)], &[0; 2]), [0..0; 0]);
    }

    #[test]
    fn groups_of_c_are_numbers_from_1() {
        assert_eq!(group(3).unwrap(), GroupId(3));
        assert_eq!([group(0), group(-3)].map(|group| as_fault(group.unwrap_err()).1), [1, 2]);
        assert_eq!((number(7_u64).unwrap(), as_fault(number(1_u64 << 31).unwrap_err()).1), (7, 10));
    }

    #[test]
    fn a_spawn_that_is_not_whole_names_the_first_rank_and_its_error() {
        let spawned =
            |errors: &[i32]| Spawned { group: GroupId(4), errors: errors.to_vec(), same_domain: true };
        assert!(whole(&spawned(&[0, LEFT_OUT])).is_ok());
        let error = whole(&spawned(&[0, 2, 125])).unwrap_err();
        assert!(error.message.starts_with("2 of 3 processes of g4 were not started; rank 1: No such file"));
        assert_eq!(as_fault(error).1, 16);
    }

    #[test]
    fn the_numbers_of_states_are_no_handles() {
        for number in [BEFORE, STARTING, FINALIZED] {
            assert!(Handle(number).place(Kind::Bnr).is_err());
        }
        assert_eq!(Exit::Signal(9).status(), 137);
    }
}
