//! Judges a world from what was seen alone.

use std::collections::{BTreeMap, BTreeSet};

use chained_gpc::trees::Id;
use gpc_bnr::domain::Serial;
use gpc_bnr::names::{GroupId, Member, Rank, Set};
use gpc_bnr::request::{Answer, Client, Request};
use gpc_bnr::{Death, Exit, Fault, FaultKind, Layout, OnDeath};

use crate::programs::{again, once};
use crate::world::Seen;

/// A collective request, as its members count them: what the set is, which tag it has, and the number.
type Meeting = (Set, Vec<u8>, u64);

/// More rounds than a program has.
const ROUNDS_MAX: u32 = 20;

/// A member's part in a meeting.
struct Part {
    member: Member,
    /// Where in the history it was asked, and answered.
    asked: usize,
    answered: Option<(usize, Result<Answer, Fault>)>,
    what: Request,
}

/// Where in the history something was answered, what, and whether at once.
type Told<'a> = (usize, &'a Result<Answer, Fault>, bool);

struct History<'a> {
    seen: &'a [Seen],
    /// When each was seen, in microseconds.
    times: &'a [u64],
    layouts: BTreeMap<GroupId, &'a Layout>,
    crashed: BTreeMap<Id, usize>,
    over: BTreeMap<Member, (usize, Exit)>,
    runs: BTreeMap<Member, usize>,
    gone: BTreeMap<Client, usize>,
    ends: Option<usize>,
    merged: BTreeMap<GroupId, (GroupId, GroupId)>,
    requests: BTreeMap<(Client, Serial), (usize, &'a Request)>,
    answers: BTreeMap<(Client, Serial), Told<'a>>,
}

/// # Errors
/// What is wrong.
pub(crate) fn check(seen: &[Seen], times: &[u64], head: Id) -> Result<(), String> {
    let history = History::new(seen, times)?;
    history.all_are_answered(head)?;
    history.meetings(head)?;
    history.reads()?;
    history.notices()?;
    history.kills()?;
    history.spawns()?;
    history.ends()
}

impl<'a> History<'a> {
    fn new(seen: &'a [Seen], times: &'a [u64]) -> Result<History<'a>, String> {
        let mut history = History {
            seen,
            times,
            layouts: BTreeMap::new(),
            crashed: BTreeMap::new(),
            over: BTreeMap::new(),
            runs: BTreeMap::new(),
            gone: BTreeMap::new(),
            ends: None,
            merged: BTreeMap::new(),
            requests: BTreeMap::new(),
            answers: BTreeMap::new(),
        };
        for (at, seen) in seen.iter().enumerate() {
            match seen {
                Seen::Asked { client, serial, request } => {
                    history.requests.insert((*client, *serial), (at, request));
                }
                Seen::Answered { client, serial, answer, at_once } => {
                    history.answered(at, *client, *serial, answer, *at_once)?
                }
                Seen::Started { layout } => drop(history.layouts.insert(layout.group, layout)),
                Seen::Runs { member } => drop(history.runs.insert(*member, at)),
                Seen::Over { member, exit } => drop(history.over.insert(*member, (at, *exit))),
                Seen::Gone { client } => drop(history.gone.insert(*client, at)),
                Seen::Crashed(id) => drop(history.crashed.insert(*id, at)),
                Seen::Ends => history.ends = history.ends.or(Some(at)),
                Seen::Noticed { .. } | Seen::Ended(_) => {}
            }
        }
        Ok(history)
    }

    fn answered(
        &mut self,
        at: usize,
        client: Client,
        serial: Serial,
        answer: &'a Result<Answer, Fault>,
        at_once: bool,
    ) -> Result<(), String> {
        let Some((_, request)) = self.requests.get(&(client, serial)) else {
            return Err(format!("{client:?} is answered what it has not asked: {serial}"));
        };
        if let (Request::Merge { first, second, .. }, Ok(Answer::Group(group))) = (request, answer) {
            self.merged.insert(*group, (*first.min(second), *first.max(second)));
        }
        if self.gone.contains_key(&client) {
            return Err(format!("{client:?} is answered after it has gone"));
        }
        match self.answers.insert((client, serial), (at, answer, at_once)) {
            Some(_) => Err(format!("{client:?} is answered {serial} twice")),
            None => Ok(()),
        }
    }

    fn node_of(&self, client: Client, head: Id) -> Option<Id> {
        match client {
            Client::Tool(_) => Some(head),
            Client::Process(member) => self.layouts.get(&member.group)?.node_of(member.rank),
        }
    }

    /// Whether nobody needs to be answered any more: who has asked is gone, or its node.
    fn is_away(&self, client: Client, head: Id) -> bool {
        let over = matches!(client, Client::Process(member) if self.over.contains_key(&member));
        over || self.node_of(client, head).is_none_or(|id| self.crashed.contains_key(&id))
    }

    fn all_are_answered(&self, head: Id) -> Result<(), String> {
        for ((client, serial), (_, request)) in &self.requests {
            let answered = self.answers.contains_key(&(*client, *serial));
            if !answered && !matches!(request, Request::Abort { .. }) && !self.is_away(*client, head) {
                return Err(format!("{client:?} is never answered {request:?}"));
            }
        }
        Ok(())
    }

    fn bases(&self, group: GroupId) -> Vec<GroupId> {
        match self.merged.get(&group) {
            Some((first, second)) => [self.bases(*first), self.bases(*second)].concat(),
            None => vec![group],
        }
    }

    fn members(&self, set: &Set, request: &Request) -> BTreeSet<Member> {
        let of_group = |group: GroupId| {
            let size = self.layouts.get(&group).map_or(0, |layout| layout.size());
            (0..size).map(move |rank| Member { group, rank })
        };
        match (request, set) {
            (Request::Merge { first, second, .. }, _) => {
                [self.bases(*first), self.bases(*second)].concat().into_iter().flat_map(of_group).collect()
            }
            (_, Set::Group(group)) => self.bases(*group).into_iter().flat_map(of_group).collect(),
            (_, Set::Members(members)) => members.clone(),
        }
    }

    /// The set and tag of a collective request.
    fn kind(&self, request: &Request) -> Option<(Set, Vec<u8>)> {
        let (set, tag) = match request {
            Request::Fence { over, tag, .. } => (over, tag.clone()),
            Request::Open { over, .. } | Request::Close { over, .. } => (over, Vec::new()),
            Request::Merge { first, second, .. } => {
                return Some((Set::Group(*first.min(second)), merge_tag(*first, *second)));
            }
            _ => return None,
        };
        let whole = match set {
            Set::Members(members) => members
                .first()
                .map(|first| Set::Group(first.group))
                .filter(|all| self.members(all, request) == *members),
            Set::Group(_) => None,
        };
        Some((whole.unwrap_or_else(|| set.clone()), tag))
    }

    fn all_meetings(&self) -> BTreeMap<Meeting, Vec<Part>> {
        let mut counts: BTreeMap<(Member, Set, Vec<u8>), u64> = BTreeMap::new();
        let mut meetings: BTreeMap<Meeting, Vec<Part>> = BTreeMap::new();
        for (at, seen) in self.seen.iter().enumerate() {
            let Seen::Asked { client: Client::Process(member), serial, request } = seen else { continue };
            let Some((set, tag)) = self.kind(request) else { continue };
            let answer = self.answers.get(&(Client::Process(*member), *serial));
            let refused = |answer: &Result<Answer, Fault>| matches!(answer, Err(fault) if fault.kind == FaultKind::NotMember);
            if answer.is_some_and(|(_, answer, at_once)| *at_once && refused(answer)) {
                continue;
            }
            let count = counts.entry((*member, set.clone(), tag.clone())).or_default();
            let meeting = (set, tag, *count);
            *count += 1;
            meetings.entry(meeting).or_default().push(Part {
                member: *member,
                asked: at,
                answered: answer.map(|(at, answer, _)| (*at, (*answer).clone())),
                what: request.clone(),
            });
        }
        meetings
    }

    fn meetings(&self, head: Id) -> Result<(), String> {
        for (meeting, parts) in self.all_meetings() {
            let told = |what: &str| format!("meeting {meeting:?}: {what}");
            let members = self.members(&meeting.0, &parts[0].what);
            let first = parts
                .iter()
                .filter(|part| matches!(part.answered, Some((_, Ok(_)))))
                .min_by_key(|part| part.answered.as_ref().map(|(at, _)| *at));
            if let Some((done, _)) = first.and_then(|part| part.answered.as_ref()) {
                let entered =
                    parts.iter().filter(|part| part.asked < *done).map(|part| part.member).collect();
                if members != entered {
                    return Err(told(&format!(
                        "completes before all have entered: {:?} of {members:?}",
                        entered
                    )));
                }
                self.no_other_end(&meeting, &parts, head)?;
                let same = |part: &Part| {
                    std::mem::discriminant(&part.what) == std::mem::discriminant(&parts[0].what)
                };
                if !parts.iter().all(same) {
                    return Err(told("completes though its members want different things"));
                }
            }
            for part in &parts {
                self.in_time(part).map_err(|what| told(&what))?;
                if let Some((_, Err(fault))) = &part.answered {
                    self.has_reason(&members, &parts, fault, part).map_err(|what| told(&what))?;
                }
            }
        }
        Ok(())
    }

    /// Whoever says how long it waits waits no longer, but for calls that are late or fail.
    fn in_time(&self, part: &Part) -> Result<(), String> {
        let (Request::Fence { limit: Some(limit), .. } | Request::Open { limit: Some(limit), .. }) =
            &part.what
        else {
            return Ok(());
        };
        let Some((answered, _)) = &part.answered else { return Ok(()) };
        let waited = self.times[*answered] - self.times[part.asked];
        if u128::from(waited) > limit.as_micros() + 8_000_000 {
            return Err(format!("{} waits for {waited} microseconds, its limit is {limit:?}", part.member));
        }
        Ok(())
    }

    /// Where one has succeeded, nobody who lives has failed.
    fn no_other_end(&self, meeting: &Meeting, parts: &[Part], head: Id) -> Result<(), String> {
        let coordinator = match &meeting.0 {
            Set::Group(group) if !self.merged.contains_key(group) && !meeting.1.starts_with(b"\0") => {
                Some(Member { group: *group, rank: 0 })
            }
            Set::Members(members) => members
                .first()
                .copied()
                .filter(|first| members.iter().all(|member| member.group == first.group)),
            Set::Group(_) => None,
        };
        let coordinator = coordinator.map_or(Some(head), |first| self.node_of(Client::Process(first), head));
        if coordinator.is_none_or(|id| self.crashed.contains_key(&id)) {
            return Ok(());
        }
        for part in parts {
            let client = Client::Process(part.member);
            match &part.answered {
                Some((_, Err(fault)))
                    if fault.kind != FaultKind::DomainEnded && !self.is_away_by_node(client, head) =>
                {
                    return Err(format!(
                        "meeting {meeting:?} succeeds, and fails at {} with {fault:?}",
                        part.member
                    ));
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn is_away_by_node(&self, client: Client, head: Id) -> bool {
        self.node_of(client, head).is_none_or(|id| self.crashed.contains_key(&id))
    }

    /// A meeting fails for a reason that has happened before, and names it.
    fn has_reason(
        &self,
        members: &BTreeSet<Member>,
        parts: &[Part],
        fault: &Fault,
        part: &Part,
    ) -> Result<(), String> {
        let at = part.answered.as_ref().map_or(0, |(at, _)| *at);
        let limited = |part: &Part| match &part.what {
            Request::Fence { limit, .. }
            | Request::Open { limit, .. }
            | Request::Close { limit, .. }
            | Request::Merge { limit, .. } => limit.is_some(),
            _ => false,
        };
        for death in &fault.deaths {
            let known = self.layouts.contains_key(&death.member.group);
            if known && !members.contains(&death.member) {
                return Err(format!("fails with the death of somebody else: {death:?}"));
            }
            self.has_died(death, at)?;
            self.was_noticed_before(death, part, at)?;
        }
        let good = match fault.kind {
            FaultKind::MemberDied => !fault.deaths.is_empty(),
            FaultKind::NodeLost => {
                fault.node.is_some_and(|node| self.crashed.get(&node).is_some_and(|crash| *crash < at))
            }
            FaultKind::TimedOut => {
                // Without a limit of its own somebody waits a minute; in none of these worlds that is how long a call takes.
                let times = || parts.iter().map(|part| self.times[part.asked]);
                let late = times().max() > times().min().map(|first| first + 50_000_000);
                parts.iter().any(limited) || parts.len() < members.len() || late
            }
            FaultKind::Mismatch => parts
                .iter()
                .any(|other| std::mem::discriminant(&other.what) != std::mem::discriminant(&parts[0].what)),
            FaultKind::DomainEnded => self.ends.is_some_and(|ends| ends < at) || !self.crashed.is_empty(),
            // Of groups that were freed meanwhile, or that nothing was spawned into.
            FaultKind::NoGroup
            | FaultKind::BadRequest
            | FaultKind::NotMember
            | FaultKind::GroupClosed
            | FaultKind::NotStarted => {
                !matches!(&part.what, Request::Fence { over: Set::Group(group), .. } if !self.merged.contains_key(group))
            }
            _ => false,
        };
        if good { Ok(()) } else { Err(format!("fails at {} without a reason: {fault:?}", part.member)) }
    }

    fn has_died(&self, death: &Death, at: usize) -> Result<(), String> {
        let true_so = match death.exit {
            Exit::Node(id) => self.crashed.get(&id).is_some_and(|crash| *crash < at),
            // Its node could not start it, or was never told to.
            Exit::Never => !self.runs.contains_key(&death.member),
            exit => self.over.get(&death.member).is_some_and(|(over, how)| *over < at && *how == exit),
        };
        if true_so { Ok(()) } else { Err(format!("tells of a death that was none: {death:?}")) }
    }

    /// Since when a client is told of the deaths of a group.
    fn subscriptions(&self) -> BTreeMap<(Client, GroupId), usize> {
        let mut since = BTreeMap::new();
        for ((client, serial), (_, request)) in &self.requests {
            let (Request::Subscribe(group), Some((at, Ok(_), _))) =
                (request, self.answers.get(&(*client, *serial)))
            else {
                continue;
            };
            for base in self.bases(*group) {
                let first = since.entry((*client, base)).or_insert(*at);
                *first = (*first).min(*at);
            }
        }
        since
    }

    fn was_noticed_before(&self, death: &Death, part: &Part, at: usize) -> Result<(), String> {
        let client = Client::Process(part.member);
        let since = self.subscriptions();
        if since.get(&(client, death.member.group)).is_none_or(|since| *since > at) {
            return Ok(());
        }
        let noticed = self.seen[..at].iter().any(|seen| matches!(seen, Seen::Noticed { client: of, death: told } if *of == client && told.member == death.member));
        if noticed {
            Ok(())
        } else {
            Err(format!("{client:?} was not told of {death:?} before the meeting failed"))
        }
    }

    /// Deaths are told once to each subscriber, and never to others.
    fn notices(&self) -> Result<(), String> {
        let since = self.subscriptions();
        let mut told = BTreeSet::new();
        for (at, seen) in self.seen.iter().enumerate() {
            let Seen::Noticed { client, death } = seen else { continue };
            if since.get(&(*client, death.member.group)).is_none_or(|since| *since > at) {
                return Err(format!("{client:?} is told of {death:?}, and has not asked"));
            }
            if !told.insert((*client, death.member)) {
                return Err(format!("{client:?} is told twice of {death:?}"));
            }
            self.has_died(death, at)?;
        }
        let head_crashed = self.crashed.contains_key(&3);
        for (client, group) in since.keys() {
            if head_crashed || self.is_away(*client, 3) || self.freed(*group) {
                continue;
            }
            for (member, (at, _)) in
                self.over.range(Member { group: *group, rank: 0 }..=Member { group: *group, rank: Rank::MAX })
            {
                let in_time = self.is_settled(*at);
                if in_time && !self.lost_with_its_node(*member) && !told.contains(&(*client, *member)) {
                    return Err(format!("{client:?} is never told that {member} has ended"));
                }
            }
        }
        Ok(())
    }

    /// Nobody can say how a process has ended whose node crashed soon after.
    fn lost_with_its_node(&self, member: Member) -> bool {
        self.is_away_by_node(Client::Process(member), 3)
    }

    /// Whether all had time to hear of something before the domain ended.
    fn is_settled(&self, at: usize) -> bool {
        self.ends.is_none_or(|ends| self.times[at] + 60_000_000 < self.times[ends])
    }

    fn freed(&self, group: GroupId) -> bool {
        // Whoever subscribes to a group that is gone is refused: nobody counts on the rest.
        self.requests.values().any(|(_, request)| **request == Request::Free(group))
    }

    /// After a fence, what each of its members had put before is read at the first look, and nothing older.
    fn reads(&self) -> Result<(), String> {
        let fences = Fences::new(self);
        for ((client, serial), (_, request)) in &self.requests {
            let (Client::Process(reader), Request::Get { key, database }) = (client, request) else {
                continue;
            };
            let Some((at, answer, at_once)) = self.answers.get(&(*client, *serial)) else { continue };
            let Some(entered) = fences.put_before(*reader, key, *at) else { continue };
            let text = String::from_utf8_lossy(key);
            if matches!(answer, Err(fault) if fault.kind == FaultKind::DomainEnded) {
                continue;
            }
            let Ok(Answer::Value(found)) = answer else {
                return Err(format!(
                    "{reader} reads {text} of {database} after a fence, and is told {answer:?}"
                ));
            };
            if !at_once {
                return Err(format!("{reader} reads {text} after a fence, and its node asks others"));
            }
            // Whoever is in the fence may have put again since; rounds grow.
            if round_of(found) < Some(entered) {
                let found = String::from_utf8_lossy(found);
                return Err(format!(
                    "{reader} reads an old value of {text}: {found}, of round {entered} at least"
                ));
            }
        }
        Ok(())
    }

    /// When a kill is answered nothing is left; and a group whose member dies abnormally goes with it.
    fn kills(&self) -> Result<(), String> {
        for ((client, serial), (_, request)) in &self.requests {
            let Request::Kill(group) = request else { continue };
            let Some((at, Ok(_), _)) = self.answers.get(&(*client, *serial)) else { continue };
            for base in self.bases(*group) {
                self.none_left(base, *at)?;
            }
        }
        for (group, _) in self.layouts.iter().filter(|(_, layout)| layout.on_death == OnDeath::Kill) {
            let of_group = |member: &&Member| member.group == *group && !self.lost_with_its_node(**member);
            let abnormal =
                self.over.iter().filter(|(member, (_, exit))| of_group(member) && *exit != Exit::Code(0));
            let Some(first) = abnormal.map(|(_, (at, _))| *at).min() else { continue };
            if self.crashed.contains_key(&3) || !self.is_settled(first) {
                continue;
            }
            for (member, runs) in self.runs.iter().filter(|(member, _)| of_group(member)) {
                let over = self.over.get(member).map_or(u64::MAX, |(over, _)| self.times[*over]);
                // Long enough for calls that are late or fail, and for a node that is told after others.
                if over > self.times[first].max(self.times[*runs]) + 6_000_000 {
                    return Err(format!("{member} lives on, long after another one of its group has died"));
                }
            }
        }
        Ok(())
    }

    fn none_left(&self, group: GroupId, at: usize) -> Result<(), String> {
        for (member, runs) in self.runs.iter().filter(|(member, _)| member.group == group) {
            let over = self.over.get(member).is_some_and(|(over, _)| *over <= at);
            if !over && *runs < at && !self.is_away_by_node(Client::Process(*member), 3) {
                return Err(format!("{member} is left after its group was killed"));
            }
            if *runs > at {
                return Err(format!("{member} is started after its group was killed"));
            }
        }
        Ok(())
    }

    /// What is said to be started has been started, and what is not has not.
    fn spawns(&self) -> Result<(), String> {
        for ((client, serial), (at, answer, _)) in &self.answers {
            let Ok(Answer::Spawned { group, errors, .. }) = answer else { continue };
            let _ = serial;
            let Some(layout) = self.layouts.get(group) else {
                if errors.iter().all(|error| *error != 0) {
                    continue;
                }
                return Err(format!("{client:?} is told that {group} was started, and nobody has"));
            };
            if errors.len() != layout.size() as usize {
                return Err(format!("{group} has {} processes, and {} errors", layout.size(), errors.len()));
            }
            for (rank, error) in errors.iter().enumerate() {
                let member = Member { group: *group, rank: rank as Rank };
                let runs = self.runs.get(&member).is_some_and(|runs| runs < at);
                if *error == 0 && !runs {
                    return Err(format!("{member} is said to be started, and is not"));
                }
            }
            if errors.iter().any(|error| *error != 0) {
                self.none_left(*group, *at)?;
            }
        }
        Ok(())
    }

    /// Each node ends once.
    fn ends(&self) -> Result<(), String> {
        let mut ended = BTreeSet::new();
        for seen in self.seen {
            if let Seen::Ended(id) = seen
                && !ended.insert(*id)
            {
                return Err(format!("node {id} ends twice"));
            }
        }
        Ok(())
    }
}

/// Who puts a key; where in the history, and in which round.
type Puts = (Member, Vec<(usize, u32)>);

/// The fences that have succeeded, and what was put.
struct Fences {
    /// Of each member, where it was answered, and when each of the set had come to that fence.
    done: BTreeMap<Member, BTreeMap<usize, BTreeMap<Member, usize>>>,
    /// Of each key, who has put it where, and the round.
    puts: BTreeMap<Vec<u8>, Puts>,
}

impl Fences {
    fn new(history: &History<'_>) -> Fences {
        let mut done: BTreeMap<Member, BTreeMap<usize, BTreeMap<Member, usize>>> = BTreeMap::new();
        for parts in history.all_meetings().into_values() {
            let came: BTreeMap<Member, usize> = parts.iter().map(|part| (part.member, part.asked)).collect();
            for part in &parts {
                if let (Request::Fence { .. }, Some((at, Ok(_)))) = (&part.what, &part.answered) {
                    done.entry(part.member).or_default().insert(*at, came.clone());
                }
            }
        }
        let mut puts: BTreeMap<Vec<u8>, Puts> = BTreeMap::new();
        for (at, seen) in history.seen.iter().enumerate() {
            if let Seen::Asked { client: Client::Process(member), request: Request::Put { pair, .. }, .. } =
                seen
                && is_own(&pair.key, *member)
                && let Some(round) = round_of(&pair.value)
            {
                puts.entry(pair.key.clone()).or_insert((*member, Vec::new())).1.push((at, round));
            }
        }
        Fences { done, puts }
    }

    /// The round that the owner of a key had put before it came to the reader's last fence.
    fn put_before(&self, reader: Member, key: &[u8], at: usize) -> Option<u32> {
        let (_, came) = self.done.get(&reader)?.range(..at).next_back()?;
        let (owner, puts) = self.puts.get(key)?;
        let came = came.get(owner)?;
        puts.iter().rfind(|(put, _)| put < came).map(|(_, round)| *round)
    }
}

/// Whether a key is one that its member alone puts.
fn is_own(key: &[u8], member: Member) -> bool {
    again(member) == key || (0..ROUNDS_MAX).any(|round| once(round, member) == key)
}

fn round_of(value: &[u8]) -> Option<u32> {
    String::from_utf8_lossy(value).split(' ').next()?.parse().ok()
}

fn merge_tag(first: GroupId, second: GroupId) -> Vec<u8> {
    format!("\0merge {} {}", first.min(second), first.max(second)).into_bytes()
}
