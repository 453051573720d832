//! The stage within a cluster: one chained call gathers the entries at the root, and another announces the outcome. A
//! third one waits at all processes meanwhile.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use chained_gpc::bootstrap::{Bootstrap, Farewell, Meeting, MeetingLimit};
use chained_gpc::wire::CallId;
use chained_gpc::{
    Access, Call, CallError, CallHandle, CauseKind, Clock, Deferred, FuncHandle, Functions, Id, Node,
    Placement, Reply, Request, TimeLimit,
};

use super::answer::Answer;
use super::pending_call::PendingCall;
use super::root_client::{ProcessEntry, join_session};
use super::{JoinError, OwnProcess, Setup};
use crate::session::Session;

/// Names of the functions.
const SAYS: &str = "gpc.impi.says";
const HOLD: &str = "gpc.impi.hold";
const ANNOUNCE: &str = "gpc.impi.announce";

/// Header of an announcement: success or failure.
const MET: &[u8] = b"met";
const GIVEN_UP: &[u8] = b"given up";

/// Least time for an announcement, because one about an expired time limit is made after that limit. The other
/// processes wait longer by this time.
const ANNOUNCE_MIN: Duration = Duration::from_secs(5);

/// Interval at which a waiting process asks whether the root lives, if no call of the root shows it.
const ASK_EVERY: Duration = Duration::from_secs(1);

/// Time limit for the root to answer.
const ASK_LIMIT: Duration = Duration::from_secs(5);

/// Time for calls to end after the announcement.
const LEAVE_LIMIT: Duration = Duration::from_secs(10);

/// State shared by the functions and the waiting process.
#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// The root's call that waits here until the announcement.
    pending: PendingCall<CallId, Deferred>,
    /// The root's announcement: the text of the outcome, or the reason for the failure.
    announced: Option<Result<String, String>>,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        // Code under this lock cannot panic, so a poisoned lock is still consistent.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits at most `limit` for the announcement, or for the end of the waiting call.
    fn wait(&self, limit: Duration) -> RootStatus {
        let nothing = |state: &mut State| state.announced.is_none() && !state.pending.has_ended();
        let waited = self.changed.wait_timeout_while(self.state(), limit, nothing);
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        match state.announced.clone() {
            Some(announced) => RootStatus::Announced(announced),
            None if state.pending.take_end() => RootStatus::Nothing { asks: true },
            None => RootStatus::Nothing { asks: state.pending.is_nothing() },
        }
    }

    /// Waits for the announcement within a time limit. `ask` asks whether the root lives.
    fn follow<E>(&self, patience: &TimeLimit, mut ask: impl FnMut() -> Result<(), E>) -> Following<E> {
        // Ends: when the time limit has passed.
        loop {
            let left = patience.left();
            let asks = match self.wait(ASK_EVERY.min(left.unwrap_or_default())) {
                RootStatus::Announced(announced) => return Following::Announced(announced),
                RootStatus::Nothing { .. } if left.is_none() => return Following::Late,
                RootStatus::Nothing { asks } => asks,
            };
            if asks && let Err(error) = ask() {
                // An announcement that arrived before the root went counts.
                return match self.wait(Duration::ZERO) {
                    RootStatus::Announced(announced) => Following::Announced(announced),
                    RootStatus::Nothing { .. } => Following::Lost(error),
                };
            }
        }
    }
}

/// How the wait for the root's announcement has ended.
enum Following<E> {
    Announced(Result<String, String>),
    /// The root has gone.
    Lost(E),
    Late,
}

/// What a process knows about its root.
enum RootStatus {
    Announced(Result<String, String>),
    /// There is no announcement. `asks` is true if no call of the root waits here, whose end would reveal that the root
    /// has gone.
    Nothing {
        asks: bool,
    },
}

/// Handles of the functions of one process.
#[derive(Clone, Copy)]
struct Handles {
    says: FuncHandle,
    hold: FuncHandle,
    announce: FuncHandle,
}

/// Registers the functions. They are restricted to proved links, because the announcement contains the addresses of all
/// others.
fn register(functions: &Functions, mine: &str, shared: &Arc<Shared>) -> Result<Handles, JoinError> {
    let functions = functions.at(Placement::Inline).access(Access::Proved);
    let text = format!("{} {mine}", std::process::id()).into_bytes();
    let says = functions.func(SAYS, move |_, reply| {
        reply.data = text.clone();
        Ok(())
    })?;
    let holds = shared.clone();
    let hold = functions.deferring(HOLD, move |request, token| holds.hold(request, token))?;
    let hears = shared.clone();
    let announce = functions.func(ANNOUNCE, move |request, _| Ok(hears.handle_announcement(request)?))?;
    Ok(Handles { says, hold, announce })
}

impl Shared {
    /// Lets a call of the root wait.
    fn hold(self: &Arc<Shared>, request: &Request<'_>, token: Deferred) {
        match (request.root(), request.me()) {
            (0, 0) => token.reply(Reply::default()),
            (0, _) => {
                let (waits, call) = (self.clone(), token.call());
                if !self.admits(call) {
                    return token.fail("this process waits already, or has been told");
                }
                // If the call has ended by now, the handler runs immediately on this thread: no lock may be held here.
                token.on_cancel(move || {
                    if waits.state().pending.end(call) {
                        waits.changed.notify_all();
                    }
                });
                match self.store(call, token) {
                    Some(token) => token.reply(Reply::default()),
                    None => self.changed.notify_all(),
                }
            }
            _ => token.fail("only the root of a cluster keeps its processes waiting"),
        }
    }

    fn handle_announcement(&self, request: &Request<'_>) -> Result<(), &'static str> {
        if request.root() != 0 {
            return Err("only the root of a cluster announces");
        }
        let text = String::from_utf8_lossy(request.data()).into_owned();
        let announced = match request.header() {
            MET => Ok(text),
            GIVEN_UP => Err(text),
            _ => return Err("this is no announcement"),
        };
        self.announce(announced);
        Ok(())
    }

    /// Whether a call of the root may wait here.
    fn admits(&self, call: CallId) -> bool {
        let mut state = self.state();
        state.announced.is_none() && state.pending.begin(call)
    }

    /// Stores the token of an admitted call. Returns the token if it must be answered at once: the call has ended, or
    /// an announcement has arrived meanwhile, which found no token to answer.
    fn store(&self, call: CallId, token: Deferred) -> Option<Deferred> {
        let mut state = self.state();
        match state.announced {
            Some(_) => Some(token),
            None => state.pending.store_token(call, token),
        }
    }

    /// The first announcement counts.
    fn announce(&self, announced: Result<String, String>) {
        self.state().announced.get_or_insert(announced);
        self.changed.notify_all();
    }
}

/// One process's part in the meeting of the clusters.
pub(super) fn meet(
    setup: Setup,
    cluster: Option<Bootstrap>,
    mine: &str,
    within: MeetingLimit,
    clock: &Clock,
) -> Result<Meeting, JoinError> {
    let (left, patience) = (clock.limit(within.left), patience(clock, within.left));
    let Some(cluster) = cluster else {
        let processes = [ProcessEntry::new(0, std::process::id(), mine)?];
        let (answer, session) = join_session(&setup, &processes, (within.limit, &left), || true)?;
        return meeting(setup, answer, mine, farewell(session));
    };
    let (functions, shared) = (Functions::new(), Arc::<Shared>::default());
    let handles = register(&functions, mine, &shared)?;
    let member =
        cluster.limit(within.left).start(&functions, |builder| builder).map_err(JoinError::Cluster)?;
    let limit = within.limit;
    let (node, count) = (member.node(), member.count());
    let part = Part { setup: &setup, shared: &shared, handles, node, count, left, patience, limit };
    let ended = match member.id() {
        0 => part.lead().map(|(answer, session)| (answer, farewell(session))),
        _ => part.follow().map(|answer| (answer, Farewell::default())),
    };
    // Calls that pass through this process end before it leaves.
    let launcher = member.leave(LEAVE_LIMIT);
    let (answer, ours) = ended?;
    meeting(setup, answer, mine, ours.then(launcher))
}

/// The time limit of a process that is not the root: the root announces an expired time limit after that limit.
fn patience(clock: &Clock, left: Duration) -> TimeLimit {
    clock.limit(left.saturating_add(ANNOUNCE_MIN))
}

fn farewell(session: Session) -> Farewell {
    Farewell::new(move || session.finish())
}

/// The result of the meeting for the process with the entry `mine`.
fn meeting(setup: Setup, answer: Answer, mine: &str, farewell: Farewell) -> Result<Meeting, JoinError> {
    let id = answer.ids.iter().position(|(_, text)| text == mine);
    let id = id.and_then(|id| Id::try_from(id).ok()).ok_or(JoinError::NotOurs { rank: setup.rank })?;
    let (groups, entries) = answer.ids.into_iter().map(|(group, text)| (group, text.into_bytes())).unzip();
    Ok(Meeting { id, entries, groups, job: answer.job, secret: setup.secret, farewell })
}

/// A process of a cluster.
struct Part<'a> {
    setup: &'a Setup,
    shared: &'a Shared,
    handles: Handles,
    node: &'a Node,
    /// Number of processes of the cluster.
    count: u32,
    left: TimeLimit,
    patience: TimeLimit,
    /// Time limit of the whole bootstrap, of which a part has passed already.
    limit: Duration,
}

impl Part<'_> {
    fn left(&self) -> Duration {
        self.left.left().unwrap_or_default()
    }

    fn call(&self, func: FuncHandle) -> Call {
        Call::new(func).ids(0..self.count).limit(self.left())
    }

    /// The root's part. It announces a failure, too.
    fn lead(&self) -> Result<(Answer, Session), JoinError> {
        let mut processes = Vec::new();
        let led = self.join_as_root(&mut processes);
        if let Err(error) = &led {
            let call = self.call(self.handles.announce).header(GIVEN_UP).data(error.to_string().into_bytes());
            let told = self.node.call(call.limit(ANNOUNCE_MIN).partial()).and_then(CallHandle::wait);
            // A process that the announcement does not reach sees that this process leaves.
            drop(told);
        }
        led
    }

    fn join_as_root(&self, processes: &mut Vec<ProcessEntry>) -> Result<(Answer, Session), JoinError> {
        let gathered = self.node.call(self.call(self.handles.says)).and_then(CallHandle::wait);
        let gathered = gathered.map_err(|error| self.lost(&[], error))?;
        let replies = gathered.replies().map_err(|error| {
            let why = error.to_string();
            JoinError::Nonsense { who: OwnProcess { id: 0, known: None }, why }
        })?;
        for reply in replies {
            processes.push(parse(reply.id, &reply.data)?);
        }
        let lost = |error| self.lost(processes, error);
        let mut held = self.hold_others().map_err(lost)?;
        let mut gone = None;
        let goes_on = || {
            if let Some(ended) = held.as_mut().and_then(CallHandle::test) {
                // The outcome of a call is returned once.
                (held, gone) = (None, ended.err());
            }
            gone.is_none()
        };
        let spoken = join_session(self.setup, processes, (self.limit, &self.left), goes_on);
        if let Some(error) = gone {
            return Err(lost(error));
        }
        let (answer, session) = spoken?;
        let call = self.call(self.handles.announce).header(MET).data(answer.to_text().into_bytes());
        let told = self.node.call(call.limit(self.left().max(ANNOUNCE_MIN))).and_then(CallHandle::wait);
        told.map_err(lost)?;
        // The announcement has reached all. A process that is lost from now on is lost to all clusters, and detected
        // there.
        let _ = held.and_then(|mut held| held.wait_for(LEAVE_LIMIT));
        Ok((answer, session))
    }

    /// Starts a call that waits at all others, and fails when one of them is lost; `None` if there are no others.
    fn hold_others(&self) -> Result<Option<CallHandle>, CallError> {
        if self.count == 1 {
            return Ok(None);
        }
        // Longer than the session, so that the session reports an expired time limit.
        let hold = self.call(self.handles.hold).limit(self.left() + ANNOUNCE_MIN);
        self.node.call(hold).map(Some)
    }

    /// The lost process, as far as the failed call names it.
    fn lost(&self, processes: &[ProcessEntry], error: CallError) -> JoinError {
        let rank = self.setup.rank;
        match error.cause() {
            Some(cause) if cause.kind != CauseKind::TimeLimit => {
                let known = processes.iter().find(|process| process.id == cause.id).map(ProcessEntry::who);
                JoinError::Lost {
                    rank,
                    who: known.unwrap_or(OwnProcess { id: cause.id, known: None }),
                    error,
                }
            }
            _ => JoinError::Call { rank, error },
        }
    }

    /// The part of every other process: waits for the announcement while the root lives.
    fn follow(&self) -> Result<Answer, JoinError> {
        let rank = self.setup.rank;
        match self.shared.follow(&self.patience, || self.ask()) {
            Following::Announced(announced) => self.finish(announced),
            Following::Lost(error) => Err(JoinError::Root { rank, error }),
            Following::Late => Err(JoinError::Late { rank, limit: self.limit }),
        }
    }

    /// Asks the root whether it lives.
    fn ask(&self) -> Result<(), CallError> {
        let call = Call::new(self.handles.says).ids([0]).watch().limit(ASK_LIMIT);
        self.node.call(call)?.wait().map(drop)
    }

    fn finish(&self, announced: Result<String, String>) -> Result<Answer, JoinError> {
        let held = self.shared.state().pending.take();
        held.into_iter().for_each(|held| held.reply(Reply::default()));
        let rank = self.setup.rank;
        let text = announced.map_err(|why| JoinError::GivenUp { rank, why })?;
        Answer::parse(&text)
            .map_err(|why| JoinError::Nonsense { who: OwnProcess { id: 0, known: None }, why })
    }
}

/// Parses the reply of a process: its process id, and its entry.
fn parse(id: Id, data: &[u8]) -> Result<ProcessEntry, JoinError> {
    let text = String::from_utf8_lossy(data);
    let nonsense =
        || JoinError::Nonsense { who: OwnProcess { id, known: None }, why: text.clone().into_owned() };
    let (pid, mine) = text.split_once(' ').ok_or_else(nonsense)?;
    ProcessEntry::new(id, pid.parse().map_err(|_| nonsense())?, mine)
}

#[cfg(test)]
mod tests;
