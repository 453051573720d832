//! The observations, indexed for the checkers.

use std::collections::{BTreeMap, BTreeSet};

use chained_gpc::trees::Id;

use crate::domain::Serial;
use crate::exit::{Death, Exit};
use crate::fault::{Fault, FaultKind};
use crate::names::{GroupId, Member, Set};
use crate::request::{Answer, Client, Request};
use crate::sim::seen::Seen;
use crate::spec::{LEFT_OUT, Layout, Spec};

/// A collective request as its members count it: set, tag and number.
pub(super) type Meeting = (Set, Vec<u8>, u64);

/// A member's part in a collective request.
pub(super) struct Part<'a> {
    pub(super) member: Member,
    /// Places of the request and the answer in the history.
    pub(super) asked: usize,
    pub(super) answered: Option<(usize, &'a Result<Answer, Fault>)>,
    pub(super) what: &'a Request,
}

/// The place of an answer in the history, the answer, and whether it was immediate.
pub(super) type RecordedAnswer<'a> = (usize, &'a Result<Answer, Fault>, bool);

pub(super) struct History<'a> {
    pub(super) seen: &'a [Seen],
    times: &'a [u64],
    pub(super) head: Id,
    pub(super) layouts: BTreeMap<GroupId, &'a Layout>,
    /// Place from which other nodes may declare a node lost.
    pub(super) disturbed: BTreeMap<Id, usize>,
    pub(super) crashed: BTreeMap<Id, usize>,
    pub(super) over: BTreeMap<Member, (usize, Exit)>,
    pub(super) runs: BTreeMap<Member, usize>,
    pub(super) gone: BTreeMap<Client, usize>,
    pub(super) ends: Option<usize>,
    /// The members of groups that were made of others, by rank.
    pub(super) derived: BTreeMap<GroupId, Vec<Member>>,
    /// Groups that were started without any process, as `soft` allows. No node takes part in their start.
    empty: BTreeSet<GroupId>,
    pub(super) requests: BTreeMap<(Client, Serial), (usize, &'a Request)>,
    pub(super) answers: BTreeMap<(Client, Serial), RecordedAnswer<'a>>,
    /// Answers without a request, repeated answers, and answers to clients that have left.
    pub(super) bad_answers: Vec<(usize, String)>,
    pub(super) meetings: BTreeMap<Meeting, Vec<Part<'a>>>,
}

/// For each client and group: the places from which it receives the deaths of these processes, or of all.
#[derive(Clone, Default)]
pub(super) struct Watched(BTreeMap<(Client, GroupId), Vec<Watch>>);

/// The place from which deaths are received, and the processes; `None` for all of the group.
type Watch = (usize, Option<BTreeSet<Member>>);

impl Watched {
    fn add(&mut self, client: Client, group: GroupId, at: usize, of: Option<BTreeSet<Member>>) {
        self.0.entry((client, group)).or_default().push((at, of));
    }

    /// The place from which a client receives the death of a process.
    pub(super) fn since(&self, client: Client, member: Member) -> Option<usize> {
        let watches = self.0.get(&(client, member.group))?.iter();
        let of_it = watches.filter(|(_, of)| of.as_ref().is_none_or(|of| of.contains(&member)));
        of_it.map(|(at, _)| *at).min()
    }

    /// The clients, and the groups of the processes whose deaths they receive.
    pub(super) fn groups(&self) -> impl Iterator<Item = (Client, GroupId)> + '_ {
        self.0.keys().copied()
    }

    /// The tools that watch `parent` at this place also watch `group` from there on.
    fn inherit(&mut self, parent: GroupId, group: GroupId, at: usize) {
        let watches = |of: &GroupId, from: &[Watch]| *of == parent && from.iter().any(|(from, _)| *from < at);
        let watching = self
            .0
            .iter()
            .filter(|((client, of), from)| matches!(client, Client::Tool(_)) && watches(of, from));
        let tools: Vec<Client> = watching.map(|((tool, _), _)| *tool).collect();
        tools.into_iter().for_each(|tool| self.add(tool, group, at, None));
    }
}

impl<'a> History<'a> {
    pub(super) fn new(seen: &'a [Seen], times: &'a [u64], head: Id) -> History<'a> {
        let mut history = History {
            seen,
            times,
            head,
            layouts: BTreeMap::new(),
            disturbed: BTreeMap::new(),
            crashed: BTreeMap::new(),
            over: BTreeMap::new(),
            runs: BTreeMap::new(),
            gone: BTreeMap::new(),
            ends: None,
            derived: BTreeMap::new(),
            empty: BTreeSet::new(),
            requests: BTreeMap::new(),
            answers: BTreeMap::new(),
            bad_answers: Vec::new(),
            meetings: BTreeMap::new(),
        };
        seen.iter().enumerate().for_each(|(at, seen)| history.take(at, seen));
        history.meetings = history.all_meetings();
        history.derive();
        history
    }

    fn take(&mut self, at: usize, seen: &'a Seen) {
        match seen {
            Seen::Asked { client, serial, request } => {
                self.requests.insert((*client, *serial), (at, request));
            }
            Seen::Answered { client, serial, answer, at_once } => {
                self.answered(at, *client, *serial, answer, *at_once);
            }
            Seen::Started { layout } => drop(self.layouts.insert(layout.group, layout)),
            Seen::Runs { member } => drop(self.runs.insert(*member, at)),
            Seen::Over { member, exit } => drop(self.over.insert(*member, (at, *exit))),
            Seen::Gone { client } => drop(self.gone.insert(*client, at)),
            Seen::Crashed(id) => drop(self.crashed.entry(*id).or_insert(at)),
            Seen::Disturbed(id) => drop(self.disturbed.entry(*id).or_insert(at)),
            Seen::Ends => self.ends = self.ends.or(Some(at)),
            Seen::Noticed { .. }
            | Seen::Spawned(_)
            | Seen::Ended(_)
            | Seen::Kills { .. }
            | Seen::Calm
            | Seen::Left(_)
            | Seen::Busy(_)
            | Seen::Holds(..) => {}
        }
    }

    fn answered(
        &mut self,
        at: usize,
        client: Client,
        serial: Serial,
        answer: &'a Result<Answer, Fault>,
        at_once: bool,
    ) {
        if !self.requests.contains_key(&(client, serial)) {
            return self
                .bad_answers
                .push((at, format!("{client:?} is answered what it has not asked: {serial}")));
        }
        if self.gone.contains_key(&client) {
            self.bad_answers.push((at, format!("{client:?} is answered after it has gone")));
        }
        if let Ok(Answer::Spawned { group, errors, .. }) = answer
            && errors.iter().all(|error| *error == LEFT_OUT)
        {
            self.empty.insert(*group);
        }
        if self.answers.insert((client, serial), (at, answer, at_once)).is_some() {
            self.bad_answers.push((at, format!("{client:?} is answered {serial} twice")));
        }
    }

    pub(super) fn time(&self, at: usize) -> u64 {
        self.times.get(at).copied().unwrap_or_default()
    }

    pub(super) fn node_of(&self, client: Client) -> Option<Id> {
        match client {
            Client::Tool(_) => Some(self.head),
            Client::Process(member) => self.layouts.get(&member.group)?.node_of(member.rank),
        }
    }

    /// Whether other nodes may have declared a node lost by then.
    pub(super) fn is_disturbed(&self, id: Id, at: usize) -> bool {
        self.disturbed.get(&id).is_some_and(|since| *since < at)
    }

    pub(super) fn any_disturbed(&self, at: usize) -> bool {
        self.disturbed.values().any(|since| *since < at)
    }

    /// Whether a client's node, or the head, may have been declared lost by then.
    pub(super) fn is_excused(&self, client: Client, at: usize) -> bool {
        self.is_disturbed(self.head, at) || self.node_of(client).is_none_or(|id| self.is_disturbed(id, at))
    }

    /// Whether an answer is unnecessary: the client, or its node, is gone.
    pub(super) fn is_away(&self, client: Client) -> bool {
        let over = matches!(client, Client::Process(member) if self.over.contains_key(&member));
        over || self.node_of(client).is_none_or(|id| self.crashed.contains_key(&id))
    }

    /// Whether all processes ended long ago, so that what they left behind is killed.
    pub(super) fn is_quiet(&self, at: usize) -> bool {
        self.over.values().all(|(over, _)| self.time(*over) + 10_000_000 < self.time(at))
    }

    /// Whether somebody waits for the size of a group.
    pub(super) fn waits_for_size(&self, at: usize) -> bool {
        self.requests.iter().any(|(asked, (since, request))| {
            let waits = || self.answers.get(asked).is_none_or(|(answered, ..)| *answered > at);
            *since < at && matches!(request, Request::Size(_)) && waits()
        })
    }

    /// Whether there was enough time for all nodes to learn of an event before the domain ended.
    pub(super) fn is_settled(&self, at: usize) -> bool {
        self.ends.is_none_or(|ends| self.time(at) + 40_000_000 < self.time(ends))
    }

    /// Whether a client has asked by then to free a group.
    pub(super) fn is_freed(&self, group: GroupId, at: usize) -> bool {
        self.requests.values().any(|(asked, request)| *asked <= at && **request == Request::Free(group))
    }

    /// Whether a group may be removed by then: it was freed, and so was each derived group with one of the processes
    /// that were started in it.
    pub(super) fn is_removed(&self, group: GroupId, at: usize) -> bool {
        let mut derived = self.derived.keys().filter(|derived| self.bases(**derived).contains(&group));
        self.is_freed(group, at) && derived.all(|derived| self.is_freed(*derived, at))
    }

    /// The groups in which the processes of a group were started.
    pub(super) fn bases(&self, group: GroupId) -> BTreeSet<GroupId> {
        match self.derived.get(&group) {
            Some(members) => members.iter().map(|member| member.group).collect(),
            None => BTreeSet::from([group]),
        }
    }

    /// The processes of a group by rank; `None` if it has not started, as far as is seen.
    pub(super) fn list(&self, group: GroupId) -> Option<Vec<Member>> {
        let started = || {
            let size = self.layouts.get(&group)?.size();
            Some((0..size).map(|rank| Member { group, rank }).collect())
        };
        let empty = || self.empty.contains(&group).then(Vec::new);
        self.derived.get(&group).cloned().or_else(started).or_else(empty)
    }

    /// Whether a group may have been started without any process, and its starter has left before the answer.
    pub(super) fn may_be_empty(&self, group: GroupId) -> bool {
        let is_soft = |specs: &[Spec]| specs.iter().all(|spec| spec.hint("soft").is_some());
        let is_answered = |asked| matches!(self.answers.get(asked), Some((_, Ok(_), _)));
        self.requests.iter().any(|(asked, (_, request))| match request {
            Request::SpawnMultiple { specs, .. } => is_soft(specs) && !is_answered(asked),
            Request::Spawn { group: into, specs, .. } => *into == group && is_soft(specs),
            _ => false,
        })
    }

    /// Derives the members of the groups that merges and splits have made, from what their members asked for.
    fn derive(&mut self) {
        let mut made: BTreeMap<GroupId, (&Meeting, &Request)> = BTreeMap::new();
        for (meeting, parts) in &self.meetings {
            for part in parts {
                if let (Request::Merge { .. } | Request::Split { .. }, Some((_, Ok(Answer::Group(group))))) =
                    (part.what, part.answered)
                {
                    made.insert(*group, (meeting, part.what));
                    made.extend(self.split_beside(meeting, *group, part.what));
                }
            }
        }
        let mut derived = BTreeMap::new();
        let list = |derived: &BTreeMap<GroupId, Vec<Member>>, group: GroupId| {
            derived.get(&group).cloned().or_else(|| self.list(group)).unwrap_or_default()
        };
        // A group has a higher number than those that it was made of.
        for (group, (meeting, request)) in made {
            let members = match request {
                Request::Merge { first, second, .. } => {
                    [list(&derived, *first.min(second)), list(&derived, *first.max(second))].concat()
                }
                Request::Split { group: old, color, .. } => {
                    let key = |member: &Member| {
                        self.meetings[meeting].iter().find_map(|part| match part.what {
                            Request::Split { color: theirs, key, .. }
                                if part.member == *member && theirs == color =>
                            {
                                Some(*key)
                            }
                            _ => None,
                        })
                    };
                    let old = list(&derived, *old);
                    let mut chosen: Vec<(i32, usize)> = old
                        .iter()
                        .enumerate()
                        .filter_map(|(place, member)| Some((key(member)?, place)))
                        .collect();
                    chosen.sort_unstable();
                    chosen.into_iter().map(|(_, place)| old[place]).collect()
                }
                _ => continue,
            };
            derived.insert(group, members);
        }
        self.derived = derived;
    }

    /// The groups of the split that made this one. Their numbers follow each other in the order of the colors; members
    /// whose node was lost have got no answer.
    fn split_beside<'b>(
        &'b self,
        meeting: &'b Meeting,
        group: GroupId,
        request: &Request,
    ) -> impl Iterator<Item = (GroupId, (&'b Meeting, &'b Request))> {
        let colors: BTreeMap<u32, &Request> = self.meetings[meeting]
            .iter()
            .filter_map(|part| match part.what {
                Request::Split { color: Some(color), .. } => Some((*color, part.what)),
                _ => None,
            })
            .collect();
        let first = match request {
            Request::Split { color: Some(own), .. } => {
                group.0.checked_sub(colors.range(..own).count() as u32)
            }
            _ => None,
        };
        let beside = move |(place, (_, what))| Some((GroupId(first? + place), (meeting, what)));
        (0..).zip(colors).filter_map(beside)
    }

    pub(super) fn members(&self, set: &Set, request: &Request) -> BTreeSet<Member> {
        let of_group = |group: GroupId| self.list(group).unwrap_or_default();
        match (request, set) {
            (Request::Merge { first, second, .. }, _) => {
                [*first, *second].into_iter().flat_map(of_group).collect()
            }
            (_, Set::Group(group)) => of_group(*group).into_iter().collect(),
            (_, Set::Members(members)) => members.clone(),
        }
    }

    /// The set and tag of a collective request.
    fn set_and_tag(&self, request: &Request) -> Option<(Set, Vec<u8>)> {
        let (set, tag) = match request {
            Request::Fence { over, tag, .. } | Request::Exchange { over, tag, .. } => (over, tag.clone()),
            Request::Open { over, .. } | Request::Close { over, .. } => (over, Vec::new()),
            Request::Split { group, .. } => return Some((Set::Group(*group), b"\0split".to_vec())),
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

    fn all_meetings(&self) -> BTreeMap<Meeting, Vec<Part<'a>>> {
        let mut counts: BTreeMap<(Member, Set, Vec<u8>), u64> = BTreeMap::new();
        let mut meetings: BTreeMap<Meeting, Vec<Part<'a>>> = BTreeMap::new();
        for (at, seen) in self.seen.iter().enumerate() {
            let Seen::Asked { client: Client::Process(member), serial, request } = seen else { continue };
            let Some((set, tag)) = self.set_and_tag(request) else { continue };
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
                answered: answer.map(|(at, answer, _)| (*at, *answer)),
                what: request,
            });
        }
        meetings
    }

    /// The error in a reported death, if it did not happen.
    pub(super) fn was_no_death(&self, death: &Death, at: usize) -> Option<String> {
        let true_so = match death.exit {
            Exit::Node(id) => self.is_disturbed(id, at) || self.is_disturbed(self.head, at),
            // The node could not start it, or never received the order.
            Exit::Never => self.runs.get(&death.member).is_none_or(|_| self.any_disturbed(at)),
            exit => self.over.get(&death.member).is_some_and(|(over, how)| *over < at && *how == exit),
        };
        (!true_so).then(|| format!("told of a death that was none: {death:?}"))
    }

    /// The deaths that clients receive since they have subscribed to them.
    pub(super) fn subscriptions(&self) -> Watched {
        let mut since = Watched::default();
        for ((client, serial), (_, request)) in &self.requests {
            let (Request::Subscribe(group), Some((at, Ok(_), _))) =
                (request, self.answers.get(&(*client, *serial)))
            else {
                continue;
            };
            let members = self.derived.get(group);
            for base in self.bases(*group) {
                let of_base = |members: &Vec<Member>| {
                    members.iter().copied().filter(|member| member.group == base).collect()
                };
                since.add(*client, base, *at, members.map(of_base));
            }
        }
        since
    }

    /// The deaths that clients may, and those that they must receive: by their
    /// [`subscriptions`](Self::subscriptions), and by those that follow from them. A tool at the head that watches a
    /// group also watches the groups that its processes spawn, unless the first was removed before.
    pub(super) fn watched(&self) -> (Watched, Watched) {
        let (mut may, mut must) = (self.subscriptions(), self.subscriptions());
        for (at, seen) in self.seen.iter().enumerate() {
            let Seen::Spawned(group) = seen else { continue };
            let Some(parent) = self.layouts.get(group).and_then(|layout| layout.parent) else { continue };
            may.inherit(parent, *group, at);
            if !self.may_be_removed(parent, at) {
                must.inherit(parent, *group, at);
            }
        }
        (may, must)
    }

    /// Whether a request to free a group, which was not refused, may have been carried out by then.
    fn may_be_removed(&self, group: GroupId, at: usize) -> bool {
        self.requests.iter().any(|(client, (asked, request))| {
            let is_refused = || self.answers.get(client).is_some_and(|(_, answer, _)| answer.is_err());
            *asked <= at && **request == Request::Free(group) && !is_refused()
        })
    }
}

fn merge_tag(first: GroupId, second: GroupId) -> Vec<u8> {
    format!("\0merge {} {}", first.min(second), first.max(second)).into_bytes()
}
