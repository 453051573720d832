//! The start of one process's part of the tree: the agents that it starts, their reports, and the take-over of the
//! share of one that fails. Does no I/O. Inputs are lines, ends of processes and the time; outputs are processes to
//! start and to kill, and reports.
//!
//! An agent that does not report, ends, or sends an invalid line costs only its own host. The rest of its share is
//! split as the agent would have split it, and those agents are started from here. Its earlier reports about its share
//! are discarded, since its processes end with it. Once the agent is done, nothing is started again: its share is lost.
//!
//! Every wait has an end: an agent has `limit` to report, and may then never be silent for that long until it is done.
//! The number of ids of its share bounds the whole time. Each failed agent removes an id from the rest, so the starts
//! end as well.
//!
//! Memory follows the share: each id is reported once, and lost once.

use std::collections::VecDeque;
use std::num::NonZeroU32;
use std::time::Duration;

use gpc_trees::Id;

use super::answer::{Answer, GREETING, GREETING_NAME, GREETING_VERSION, LossReport, WHY_MAX};
use super::retry::{ATTEMPTS_MAX, Pauses, is_dropped};
use super::share::{HostIds, Share, extent, other_hosts, same_host};
use crate::quoted::quoted;
use chained_gpc::wire::Shown;

/// Maximum number of lines that a login shell of a host may print before the agent's greeting.
const NOISE_MAX: u32 = 100;

/// Number of standard error lines that are kept for the error of an agent.
const LOG_LINES_MAX: usize = 4;

/// Maximum length of each of them, characters.
const LOG_LINE_MAX: usize = 200;

/// Interval of keep-alive lines to the agents below, which end after two minutes without any.
const ALIVE_PAUSE: Duration = Duration::from_secs(15);

/// Maximum time of a start for each id of a share, in limits: a process that fails may take one to greet, one to
/// report, and one to fall silent. Without this bound an agent that reports only that it waits would keep the start
/// open.
const LIMITS_EACH: u32 = 3;

/// Maximum number of agents that are being started from here and have not reported. Many hosts may be down, and each
/// attempt costs a process and up to the whole limit.
const UNANSWERED_MAX: usize = 64;

/// An action for the driver.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Output {
    /// Start an agent with this share: on its host, or as a child process if it is the same host.
    Spawn { agent: usize, share: Share, same_host: bool },
    /// Kill the process that was started for the agent.
    Kill { agent: usize },
    /// Send this report to the agent above.
    Up(Answer),
    /// A log line of an agent, or of the command that started it.
    Log { line: String },
    /// Send a keep-alive line to all agents.
    KeepAlive,
}

/// All agents that were started from here.
#[derive(Debug)]
pub(super) struct Starting {
    fan_out: NonZeroU32,
    limit: Duration,
    /// By number; `None` for an agent that has failed or gone.
    agents: Vec<Option<Agent>>,
    /// Shares that wait until fewer agents are unanswered, each with whether it is on this host.
    waiting: VecDeque<(Share, bool)>,
    outputs: VecDeque<Output>,
    /// When the last keep-alive lines were sent.
    alive_at: Duration,
    pauses: Pauses,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    /// Its connection was dropped. It is started again at this time.
    Paused(Duration),
    /// Nothing has arrived from it.
    Launched,
    /// Its greeting has arrived.
    Greeted,
    /// It has reported its addresses.
    Reported,
    /// It has reported every id of its share.
    Done,
}

/// The state of an id, as an agent has reported it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum IdState {
    Unknown,
    Running,
    /// Its process was not started, or was lost later.
    Gone,
}

#[derive(Debug)]
struct Agent {
    share: Share,
    same_host: bool,
    phase: Phase,
    /// Number of attempts to start it.
    attempts: u32,
    begun: Duration,
    /// When it was first started, or sent its last valid line.
    last_line: Duration,
    noise: u32,
    /// The last line before its greeting.
    last_noise: String,
    log: VecDeque<String>,
    /// Its reports about its share, which count once it is done.
    answers: Vec<Answer>,
    /// By id from the first of its share.
    ids: Vec<IdState>,
}

impl Starting {
    /// Creates an empty start. `limit` is the maximum silence of an agent. `seed` varies the pauses before agents are
    /// started again.
    pub(super) fn new(fan_out: NonZeroU32, limit: Duration, seed: u64) -> Starting {
        Starting {
            fan_out,
            limit,
            agents: Vec::new(),
            waiting: VecDeque::new(),
            outputs: VecDeque::new(),
            alive_at: Duration::ZERO,
            pauses: Pauses::new(seed),
        }
    }

    /// Starts the agents that the first id of a share starts: its siblings on its host, and the agents of other hosts.
    pub(super) fn start_below(&mut self, share: &[HostIds], now: Duration) {
        let Some(own) = share.first() else { return };
        // Other hosts first: they take longer.
        self.add(other_hosts(share, self.fan_out), false, now);
        self.add(same_host(own, self.fan_out), true, now);
    }

    /// Starts agents for all hosts of a list, as the root does, which is on none of them.
    pub(super) fn start_all(&mut self, share: &[HostIds], now: Duration) {
        // The root stands before the first of them.
        let root = HostIds { first: 0, count: 1, name: String::new() };
        let list: Share = std::iter::once(root).chain(share.iter().cloned()).collect();
        self.add(other_hosts(&list, self.fan_out), false, now);
    }

    /// Returns the next action; must be called until it returns `None`.
    pub(super) fn next_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// Whether the state of every id is known.
    pub(super) fn is_done(&self) -> bool {
        self.waiting.is_empty() && self.agents.iter().flatten().all(|agent| agent.phase == Phase::Done)
    }

    /// When [`tick`](Self::tick) is due, unless a line arrives before.
    pub(super) fn deadline(&self) -> Option<Duration> {
        let open = self.agents.iter().flatten().filter(|agent| agent.phase != Phase::Done);
        let alive = self.has_agents().then(|| self.alive_at.saturating_add(ALIVE_PAUSE));
        open.map(|agent| agent.deadline(self.limit)).chain(alive).min()
    }

    /// Gives up the agents that have been silent, or are starting others, for too long. Starts those again whose pause
    /// is over. Keeps the rest alive.
    pub(super) fn tick(&mut self, now: Duration) {
        for number in 0..self.agents.len() {
            let Some(agent) = &mut self.agents[number] else { continue };
            if let Phase::Paused(until) = agent.phase {
                if now >= until {
                    let share = agent.start_again();
                    self.outputs.push_back(Output::Spawn { agent: number, share, same_host: false });
                }
                continue;
            }
            if agent.phase != Phase::Done && now >= agent.deadline(self.limit) {
                let why = agent.lateness(self.limit, now);
                self.fail(number, &why, now);
            }
        }
        if self.has_agents() && now >= self.alive_at.saturating_add(ALIVE_PAUSE) {
            self.alive_at = now;
            self.outputs.push_back(Output::KeepAlive);
        }
    }

    fn has_agents(&self) -> bool {
        self.agents.iter().any(Option::is_some)
    }

    /// Handles a line of an agent's standard output.
    pub(super) fn line(&mut self, number: usize, line: &str, now: Duration) {
        let Some(Some(agent)) = self.agents.get_mut(number) else { return };
        if agent.phase == Phase::Launched {
            if line == GREETING {
                (agent.phase, agent.last_line) = (Phase::Greeted, now);
            } else if let Some(version) = line.strip_prefix(GREETING_NAME) {
                let why = format!(
                    "its program speaks version {} of the agents' protocol, and this one version {GREETING_VERSION}: all hosts need the same version of the program",
                    quoted(version)
                );
                self.fail(number, &why, now);
            } else if agent.noise < NOISE_MAX {
                agent.noise += 1;
                agent.last_noise = quoted(line);
            } else {
                // This error quotes the line already; `explain` must not repeat it.
                agent.noise = 0;
                let why = format!("it says much that is nothing of this program, such as `{}`", quoted(line));
                self.fail(number, &why, now);
            }
            return;
        }
        match line.parse().map_err(|()| quoted(line)).and_then(|answer| agent.take(answer, line)) {
            Ok(Some(lost)) => self.outputs.push_back(Output::Up(lost)),
            Ok(None) => {
                agent.last_line = now;
                if agent.phase == Phase::Done {
                    self.outputs.extend(agent.answers.drain(..).map(Output::Up));
                }
                self.fill(now);
            }
            Err(line) => self.fail(number, &format!("it says `{line}`, which no agent says here"), now),
        }
    }

    /// Handles a log line of an agent, or of the command that started it.
    pub(super) fn log_line(&mut self, number: usize, line: &str) {
        let Some(Some(agent)) = self.agents.get_mut(number) else { return };
        if matches!(agent.phase, Phase::Launched | Phase::Greeted) {
            let cut: String = line.chars().take(LOG_LINE_MAX).collect();
            let full = agent.log.len() == LOG_LINES_MAX;
            agent.log.drain(..usize::from(full));
            agent.log.extend((!cut.trim().is_empty()).then_some(cut));
        } else {
            self.outputs.push_back(Output::Log { line: line.into() });
        }
    }

    fn add(&mut self, shares: Vec<Share>, same_host: bool, now: Duration) {
        self.waiting.extend(shares.into_iter().map(|share| (share, same_host)));
        self.fill(now);
    }

    /// Starts waiting shares, as far as the bound allows.
    fn fill(&mut self, now: Duration) {
        let unanswered =
            |agent: &&Agent| matches!(agent.phase, Phase::Paused(_) | Phase::Launched | Phase::Greeted);
        let mut open = self.agents.iter().flatten().filter(unanswered).count();
        while open < UNANSWERED_MAX.max(self.fan_out.get() as usize) {
            let Some((share, same_host)) = self.waiting.pop_front() else { return };
            let agent = self.agents.len();
            self.agents.push(Some(Agent::new(share.clone(), same_host, now)));
            self.outputs.push_back(Output::Spawn { agent, share, same_host });
            open += 1;
        }
    }

    /// Handles the end of an agent's process, or of the command that was to start it. If the connection was dropped
    /// before the agent has spoken, the agent is started again after a pause.
    pub(super) fn end(&mut self, number: usize, how: &str, now: Duration) {
        let Some(Some(agent)) = self.agents.get_mut(number) else { return };
        let log = agent.log.iter().map(String::as_str);
        if agent.phase != Phase::Launched || agent.same_host || !is_dropped(how, log) {
            return self.fail(number, how, now);
        }
        let again = now.saturating_add(self.pauses.after(agent.attempts));
        if agent.attempts < ATTEMPTS_MAX && again < agent.deadline(self.limit) {
            agent.phase = Phase::Paused(again);
        } else {
            // Without their number, which differs from host to host: equal causes are folded.
            self.fail(number, &format!("{how} at each attempt"), now);
        }
    }

    /// Gives up an agent whose process has ended or is invalid: kills it, and starts the rest of its share from here.
    pub(super) fn fail(&mut self, number: usize, why: &str, now: Duration) {
        let Some(agent) = self.agents.get_mut(number).and_then(Option::take) else { return };
        self.outputs.push_back(Output::Kill { agent: number });
        let why = agent.explain(why);
        let (first, count) = extent(&agent.share);
        if agent.phase == Phase::Done {
            return self.outputs.push_back(Output::Up(Answer::Lost(LossReport::new(first, count, &why))));
        }
        let Some(own) = agent.share.first() else { return };
        // On its own host only one process has failed. On another host all processes count as failed, since the host
        // does not report.
        let gone = if agent.same_host { 1 } else { own.count };
        self.outputs.push_back(Output::Up(Answer::Down(LossReport::new(first, gone, &why))));
        match agent.same_host {
            true => self.add(same_host(own, self.fan_out), true, now),
            false => self.add(other_hosts(&agent.share, self.fan_out), false, now),
        }
        self.fill(now);
    }
}

impl Agent {
    fn new(share: Share, same_host: bool, now: Duration) -> Agent {
        let ids = vec![IdState::Unknown; extent(&share).1 as usize];
        Agent {
            share,
            same_host,
            phase: Phase::Launched,
            attempts: 1,
            begun: now,
            last_line: now,
            noise: 0,
            last_noise: String::new(),
            log: VecDeque::new(),
            answers: Vec::new(),
            ids,
        }
    }

    /// Begins another attempt; returns the share.
    fn start_again(&mut self) -> Share {
        self.attempts += 1;
        self.phase = Phase::Launched;
        self.noise = 0;
        self.log.clear();
        self.share.clone()
    }

    /// When it is given up or started again, unless it is done.
    fn deadline(&self, limit: Duration) -> Duration {
        if let Phase::Paused(until) = self.phase {
            return until;
        }
        self.last_line.saturating_add(limit).min(self.begun.saturating_add(self.longest_start(limit)))
    }

    /// Maximum time until it is done.
    fn longest_start(&self, limit: Duration) -> Duration {
        limit.saturating_mul(LIMITS_EACH.saturating_mul(extent(&self.share).1))
    }

    /// Returns why it is given up at its deadline.
    fn lateness(&self, limit: Duration, now: Duration) -> String {
        let seconds = limit.as_secs_f64();
        match self.phase {
            Phase::Paused(_) | Phase::Launched | Phase::Greeted => {
                format!("it did not answer within {seconds} s")
            }
            _ if now >= self.last_line.saturating_add(limit) => {
                format!("it fell silent for {seconds} s while it was starting others")
            }
            _ => format!("it was still starting others after {} s", self.longest_start(limit).as_secs_f64()),
        }
    }

    /// Checks a report against the earlier ones; returns it if it goes up at once. The error is the line, as an error
    /// message quotes it.
    fn take(&mut self, answer: Answer, line: &str) -> Result<Option<Answer>, String> {
        let bad = || quoted(line);
        let own = extent(&self.share).0;
        match (self.phase, answer) {
            (Phase::Done, Answer::Lost(lost)) => {
                self.mark_lost(lost.first, lost.count).ok_or_else(bad)?;
                return Ok(Some(Answer::Lost(lost)));
            }
            (Phase::Greeted, Answer::Started(here)) if here.id == own => {
                self.mark_reported(own, 1, IdState::Running).ok_or_else(bad)?;
                self.answers.push(Answer::Started(here));
                self.phase = Phase::Reported;
            }
            (Phase::Reported, Answer::Wait) => {}
            (Phase::Reported, Answer::Started(here)) => {
                self.mark_reported(here.id, 1, IdState::Running).ok_or_else(bad)?;
                self.answers.push(Answer::Started(here));
            }
            (Phase::Reported, Answer::Down(down)) => {
                self.mark_reported(down.first, down.count, IdState::Gone).ok_or_else(bad)?;
                self.answers.push(Answer::Down(down));
            }
            // A process that it has started has gone while it is starting others.
            (Phase::Reported, Answer::Lost(lost)) => {
                self.mark_lost(lost.first, lost.count).ok_or_else(bad)?;
                self.answers.push(Answer::Lost(lost));
            }
            (Phase::Reported, Answer::Done) if !self.ids.contains(&IdState::Unknown) => {
                self.phase = Phase::Done
            }
            _ => return Err(bad()),
        }
        Ok(None)
    }

    /// The states of these ids; `None` if one of them is not in the share.
    fn states(&mut self, first: Id, count: u32) -> Option<&mut [IdState]> {
        let start = first.checked_sub(extent(&self.share).0)? as usize;
        self.ids.get_mut(start..start.checked_add(count as usize)?)
    }

    /// Stores the first report of these ids; `None` if one was reported before.
    fn mark_reported(&mut self, first: Id, count: u32, state: IdState) -> Option<()> {
        let states = self.states(first, count)?;
        let is_new = states.iter().all(|&state| state == IdState::Unknown);
        is_new.then(|| states.fill(state))
    }

    /// Stores the loss of these ids. The first of them is the lost agent, the others are those that it has started.
    /// `None` if that agent did not run: a loss that is reported again and again would take memory each time.
    fn mark_lost(&mut self, first: Id, count: u32) -> Option<()> {
        let states = self.states(first, count)?;
        let is_new = states.first() == Some(&IdState::Running) && !states.contains(&IdState::Unknown);
        is_new.then(|| states.fill(IdState::Gone))
    }

    /// Returns the reason of a failure, with the host and its output.
    fn explain(&self, why: &str) -> String {
        let name = self.share.first().map_or("", |host| host.name.as_str());
        let mut text = format!("host {name}: {why}");
        let log: Vec<String> = self.log.iter().map(|line| Shown(line.trim_end()).to_string()).collect();
        if !log.is_empty() {
            text.push_str(": ");
            text.push_str(&log.join("; "));
        } else if self.phase == Phase::Launched && self.noise > 0 {
            text.push_str(&format!(": it said `{}`, which is nothing of this program", self.last_noise));
        }
        text.chars().take(WHY_MAX).collect()
    }
}

#[cfg(test)]
mod tests;
#[cfg(test)]
mod worlds;
