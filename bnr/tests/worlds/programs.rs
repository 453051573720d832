//! What the processes of a world do: each group has rounds that all its members know, and each member may stray from them.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use gpc_bnr::domain::Serial;
use gpc_bnr::names::{GroupId, Member, Set};
use gpc_bnr::request::{Answer, Client, Pair, Request};
use gpc_bnr::{Exit, Fault, Layout, OnDeath, Spec};

use crate::rng::Rng;
use crate::world::Config;

/// What a process does next.
pub(crate) enum Program {
    Asks(Serial, Request),
    Ends(Exit),
    Waits(u64),
}

/// One step of a process.
#[derive(Clone, Debug)]
enum Step {
    Ask(Request),
    /// Asks, and goes on before it is answered.
    Also(Request),
    Wait(u64),
    /// The last collective request was a fence: reads what those of its set have put before, when it has succeeded.
    Read {
        round: u32,
        of: Vec<Member>,
        own: GroupId,
    },
    /// Opens, spawns and closes a group over a set.
    CloseOpened {
        over: Set,
        first: bool,
    },
    /// Tells its group about the group that it has spawned.
    TellChild,
    /// Reads who the child is, and merges with it.
    MergeChild,
    /// Fences over the merged group, and asks its size.
    FenceMerged,
    Leave,
}

struct Mind {
    member: Option<Member>,
    steps: VecDeque<Step>,
    serial: Serial,
    waiting: Option<Serial>,
    /// The answer to what was asked last.
    last: Option<Result<Answer, Fault>>,
    spawned: Option<GroupId>,
    over: bool,
    begun: bool,
}

pub(crate) struct Programs {
    config: Config,
    seed: u64,
    rng: Rng,
    layouts: BTreeMap<GroupId, Layout>,
    minds: BTreeMap<Client, Mind>,
}

/// What a process is told by its first argument.
const MERGES: &[u8] = b"merges";

pub(crate) fn value(round: u32, member: Member) -> Vec<u8> {
    format!("{round} of {member}").into_bytes()
}

/// The key that a member puts once a round.
pub(crate) fn once(round: u32, member: Member) -> Vec<u8> {
    format!("once {round} {member}").into_bytes()
}

/// The key that it puts again each round.
pub(crate) fn again(member: Member) -> Vec<u8> {
    format!("again {member}").into_bytes()
}

fn own(group: GroupId) -> String {
    format!("kvs_0123456789abcdef_{}", group.0)
}

impl Programs {
    pub(crate) fn new(config: Config, seed: u64) -> Programs {
        Programs { config, seed, rng: Rng::new(seed ^ 77), layouts: BTreeMap::new(), minds: BTreeMap::new() }
    }

    pub(crate) fn know(&mut self, layout: &Layout) {
        self.layouts.insert(layout.group, layout.clone());
    }

    pub(crate) fn over(&mut self, client: Client) {
        if let Some(mind) = self.minds.get_mut(&client) {
            mind.over = true;
        }
    }

    pub(crate) fn begin(&mut self, client: Client) {
        let steps = match client {
            Client::Tool(_) => self.tool(),
            Client::Process(member) => self.process(member),
        };
        let member = match client {
            Client::Process(member) => Some(member),
            Client::Tool(_) => None,
        };
        let mind = Mind {
            member,
            steps,
            serial: 0,
            waiting: None,
            last: None,
            spawned: None,
            over: false,
            begun: true,
        };
        self.minds.insert(client, mind);
    }

    /// The tool spawns groups, and watches them.
    fn tool(&mut self) -> VecDeque<Step> {
        let mut steps = VecDeque::new();
        for _ in 0..1 + self.rng.below(2) {
            let specs = self.specs(&[]);
            let on_death = if self.rng.one_in(2) { OnDeath::Notify } else { OnDeath::Kill };
            steps.push_back(Step::Ask(Request::SpawnMultiple {
                specs,
                preputs: vec![pair(b"given", b"1")],
                on_death,
                input: false,
            }));
            steps.push_back(Step::Wait(self.rng.below(200)));
        }
        for group in 1..4 {
            steps.push_back(Step::Ask(Request::Subscribe(GroupId(group))));
        }
        for _ in 0..8 {
            steps.push_back(Step::Wait(self.rng.below(800)));
            if let Some(request) = self.noise(None) {
                steps.push_back(Step::Also(request));
            }
        }
        steps
    }

    fn specs(&mut self, args: &[&[u8]]) -> Vec<Spec> {
        let spec = |count: u64| Spec {
            count: 1 + count as u32,
            program: b"./a".to_vec(),
            args: args.iter().map(|arg| arg.to_vec()).collect(),
            ..Spec::default()
        };
        (0..1 + self.rng.below(2)).map(|_| spec(self.rng.below(4))).collect()
    }

    fn noise(&mut self, member: Option<Member>) -> Option<Request> {
        if !self.rng.one_in(self.config.noise) {
            return None;
        }
        let group = GroupId(1 + self.rng.below(6) as u32);
        let name = format!("named {}", self.rng.below(2));
        let pair = pair(
            format!("key {}", self.rng.below(3)).as_bytes(),
            format!("{}", self.rng.below(99)).as_bytes(),
        );
        Some(match self.rng.below(19) {
            0 => Request::Kill(group),
            1 => Request::Status(group),
            2 => Request::Groups,
            3..=6 => Request::Subscribe(group),
            7 => Request::Create(Some(name)),
            8 => Request::Create(None),
            9 => Request::Destroy(name),
            10 => Request::Put { database: name, pair, advice: None },
            11 => Request::Get { database: name, key: pair.key },
            12 => Request::Iterate(name),
            13 => Request::Deposit(pair),
            14 => Request::Withdraw(pair.key),
            15 => Request::Lookup(pair.key),
            16 => Request::Free(group),
            17 => Request::Size(member.map_or(group, |member| member.group)),
            _ => Request::Get { database: own(group), key: b"given".to_vec() },
        })
    }

    /// Who takes part in a round, what they do, and by which tag: the same for all of a group.
    fn process(&mut self, member: Member) -> VecDeque<Step> {
        let layout = self.layouts[&member.group].clone();
        let merges = layout.specs.iter().any(|spec| spec.args.first().is_some_and(|arg| arg == MERGES));
        let mut shared = Rng::new(self.seed ^ u64::from(member.group.0));
        let mut steps = VecDeque::new();
        if !self.rng.one_in(9) {
            steps.push_back(Step::Ask(Request::Init));
        }
        if let (true, Some(parent)) = (merges, layout.parent) {
            steps.push_back(Step::Ask(Request::Merge { first: member.group, second: parent, limit: None }));
            steps.push_back(Step::FenceMerged);
        }
        let mut spawned = merges || member.group.0 > 3;
        for round in 0..2 + (shared.below(4) + self.config.rounds) as u32 {
            self.round(&mut steps, &mut shared, &layout, member, round);
            if !spawned && shared.one_in(4) {
                spawned = true;
                self.merging(&mut steps, member);
            }
        }
        steps.push_back(Step::Leave);
        steps
    }

    fn round(
        &mut self,
        steps: &mut VecDeque<Step>,
        shared: &mut Rng,
        layout: &Layout,
        member: Member,
        round: u32,
    ) {
        for key in [once(round, member), again(member)] {
            let pair = Pair { key, value: value(round, member) };
            steps.push_back(Step::Ask(Request::Put {
                database: layout.database.clone(),
                pair,
                advice: None,
            }));
        }
        let all: Vec<Member> = (0..layout.size()).map(|rank| Member { group: member.group, rank }).collect();
        let whole = shared.one_in(2);
        let some: Vec<Member> = all.iter().copied().filter(|_| whole || shared.one_in(2)).collect();
        let over = match shared.below(2) {
            0 if whole => Set::Group(member.group),
            _ => Set::Members(some.iter().copied().collect()),
        };
        let tag = if shared.one_in(3) { b"tag".to_vec() } else { Vec::new() };
        let opens = shared.one_in(5);
        if self.rng.one_in(4) {
            let most = if self.rng.one_in(20) { 30_000 } else { 300 };
            steps.push_back(Step::Wait(self.rng.below(most)));
        }
        if let Some(request) = self.noise(Some(member)) {
            steps.push_back(Step::Also(request));
        }
        if !some.contains(&member) {
            return;
        }
        let limit =
            self.rng.one_in(self.config.short_limits).then(|| Duration::from_millis(self.rng.below(500)));
        let stray = self.rng.one_in(self.config.mismatches);
        if opens != stray {
            let over = over.clone();
            steps.push_back(Step::Ask(Request::Open { over: over.clone(), limit }));
            if !stray {
                steps.push_back(Step::CloseOpened { over, first: some.first() == Some(&member) });
            }
            return;
        }
        steps.push_back(Step::Ask(Request::Fence { over, limit, tag }));
        steps.push_back(Step::Read { round, of: some, own: member.group });
    }

    /// Rank 0 spawns a group, and all merge with it.
    fn merging(&mut self, steps: &mut VecDeque<Step>, member: Member) {
        if member.rank == 0 {
            let specs = self.specs(&[MERGES]);
            let on_death = OnDeath::Notify;
            steps.push_back(Step::Ask(Request::SpawnMultiple {
                specs,
                preputs: Vec::new(),
                on_death,
                input: false,
            }));
            steps.push_back(Step::TellChild);
        }
        steps.push_back(Step::Ask(Request::Fence {
            over: Set::Group(member.group),
            limit: None,
            tag: b"child".to_vec(),
        }));
        steps.push_back(Step::Ask(Request::Get { database: own(member.group), key: b"child".to_vec() }));
        steps.push_back(Step::MergeChild);
        steps.push_back(Step::FenceMerged);
    }

    pub(crate) fn answered(&mut self, client: Client, serial: Serial, answer: &Result<Answer, Fault>) {
        let Some(mind) = self.minds.get_mut(&client) else { return };
        if mind.waiting == Some(serial) {
            mind.waiting = None;
            mind.last = Some(answer.clone());
        }
    }

    /// Whether a client goes on.
    pub(crate) fn wants(&self, client: Client) -> bool {
        self.minds.get(&client).is_some_and(|mind| mind.begun && !mind.over && mind.waiting.is_none())
    }

    /// What a client does until it waits.
    pub(crate) fn next(&mut self, client: Client) -> Vec<Program> {
        let mut done = Vec::new();
        while self.wants(client) {
            let Some(mind) = self.minds.get_mut(&client) else { break };
            let Some(step) = mind.steps.pop_front() else { break };
            match step {
                Step::Ask(request) => done.push(mind.ask(request, true)),
                Step::Also(request) => done.push(mind.ask(request, false)),
                Step::Wait(millis) => {
                    done.push(Program::Waits(millis + 1));
                    break;
                }
                step => {
                    // Groups spawn groups, though not for ever.
                    let child = mind.member.is_some_and(|member| {
                        member.group.0 < 9 && self.rng.one_in(1 + u64::from(member.rank))
                    });
                    let specs = if child { self.specs(&[]) } else { Vec::new() };
                    self.go_on(client, step, specs, &mut done);
                    if matches!(done.last(), Some(Program::Ends(_))) {
                        break;
                    }
                }
            }
        }
        done
    }

    fn go_on(&mut self, client: Client, step: Step, specs: Vec<Spec>, done: &mut Vec<Program>) {
        let leaves_well = !self.rng.one_in(8);
        let Some(mind) = self.minds.get_mut(&client) else { return };
        let Some(member) = mind.member else { return };
        match step {
            Step::Read { round, of, own: group } => {
                if matches!(mind.last, Some(Ok(Answer::Done))) {
                    for other in of.into_iter().rev() {
                        if round > 0 {
                            let key = once(round - 1, other);
                            mind.steps.push_front(Step::Ask(Request::Get { database: own(group), key }));
                        }
                        for key in [once(round, other), again(other)] {
                            mind.steps.push_front(Step::Ask(Request::Get { database: own(group), key }));
                        }
                    }
                }
            }
            Step::CloseOpened { over, first } => {
                let Some(Ok(Answer::Group(group))) = mind.last else { return };
                mind.steps.push_front(Step::Ask(Request::Close { over, group, limit: None }));
                if first && !specs.is_empty() {
                    mind.steps.push_front(Step::Ask(Request::Spawn {
                        group,
                        specs,
                        preputs: Vec::new(),
                        on_death: None,
                    }));
                }
            }
            Step::TellChild => {
                if let Some(Ok(Answer::Spawned { group, .. })) = &mind.last {
                    mind.spawned = Some(*group);
                    let pair = pair(b"child", group.0.to_string().as_bytes());
                    let database = own(member.group);
                    mind.steps.push_front(Step::Ask(Request::Put { database, pair, advice: None }));
                }
            }
            Step::MergeChild => {
                if let Some(Ok(Answer::Value(child))) = &mind.last {
                    let child = String::from_utf8_lossy(child).parse().map(GroupId);
                    let second = child.unwrap_or(member.group);
                    mind.steps.push_front(Step::Ask(Request::Merge {
                        first: member.group,
                        second,
                        limit: None,
                    }));
                }
            }
            Step::FenceMerged => {
                if let Some(Ok(Answer::Group(group))) = mind.last {
                    mind.steps.push_front(Step::Ask(Request::Size(group)));
                    let over = Set::Group(group);
                    mind.steps.push_front(Step::Ask(Request::Fence { over, limit: None, tag: Vec::new() }));
                }
            }
            Step::Leave => {
                if leaves_well {
                    done.push(mind.ask(Request::Finalize, false));
                }
                done.push(Program::Ends(Exit::Code(0)));
            }
            Step::Ask(_) | Step::Also(_) | Step::Wait(_) => {}
        }
    }
}

impl Mind {
    fn ask(&mut self, request: Request, waits: bool) -> Program {
        self.serial += 1;
        if waits {
            self.waiting = Some(self.serial);
            self.last = None;
        }
        Program::Asks(self.serial, request)
    }
}

fn pair(key: &[u8], value: &[u8]) -> Pair {
    Pair { key: key.to_vec(), value: value.to_vec() }
}
