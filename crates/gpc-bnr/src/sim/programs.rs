//! Programs of the processes in a world. All members of a group know its rounds, and each member may deviate from them.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use gpc_sim::Random;

use super::config::Config;
use crate::domain::Serial;
use crate::exit::Exit;
use crate::fault::Fault;
use crate::names::{GroupId, Member, Set};
use crate::request::{Answer, Client, Pair, Request};
use crate::spec::{Layout, OnDeath, Readers, Spec};

/// The next action of a process.
pub(super) enum Program {
    Asks(Serial, Request),
    Ends(Exit),
    Waits(u64),
}

/// One step of a process.
#[derive(Clone, Debug)]
enum Step {
    Ask(Request),
    /// Sends a request and continues before the answer.
    Also(Request),
    Wait(u64),
    /// After a fence: if it has succeeded, reads the earlier puts of its members.
    Read {
        round: u32,
        of: Vec<Member>,
        own: GroupId,
        keys: Keys,
    },
    /// Spawns into the group that was opened over a set, and closes it.
    CloseOpened {
        over: Set,
        first: bool,
    },
    /// Puts the number of the group that it has spawned, for its own group.
    TellChild,
    /// Reads the number of the child group, and merges with it.
    MergeChild,
    /// Requests the members of the group that the last answer has made of others.
    EnterDerived {
        round: u32,
    },
    /// Puts into the database of that group, fences over it, reads, and may split it again.
    UseDerived {
        group: GroupId,
        round: u32,
    },
    Leave,
    /// Runs on without further requests.
    Stay,
}

/// The keys that a process reads after a fence.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Keys {
    All,
    /// Those that a member puts in this round only.
    Once,
}

struct Mind {
    member: Option<Member>,
    steps: VecDeque<Step>,
    serial: Serial,
    waiting: Option<Serial>,
    /// The answer to the last request.
    last: Option<Result<Answer, Fault>>,
    spawned: Option<GroupId>,
    over: bool,
    begun: bool,
}

pub(super) struct Programs {
    config: Config,
    seed: u64,
    random: Random,
    layouts: BTreeMap<GroupId, Layout>,
    minds: BTreeMap<Client, Mind>,
    /// Whether the final test group has been requested.
    probing: bool,
}

/// Values of a process's first argument.
const MERGES: &[u8] = b"merges";
const PROBE: &[u8] = b"probe";

/// More rounds than any program has.
pub(super) const ROUNDS_MAX: u32 = 20;

fn one_in(random: &mut Random, times: u64) -> bool {
    times != 0 && random.below(times) == 0
}

pub(super) fn value(round: u32, member: Member) -> Vec<u8> {
    format!("{round} of {member}").into_bytes()
}

/// The data that a member brings to a fence: often none, sometimes many.
fn brought(random: &mut Random, round: u32, member: Member) -> Vec<u8> {
    let times = [0, 1, 1, 40][random.below(4) as usize];
    format!("{round} of {member};").repeat(times).into_bytes()
}

/// The key that a member puts in this round only.
pub(super) fn once(round: u32, member: Member) -> Vec<u8> {
    format!("once {round} {member}").into_bytes()
}

/// The key that a member puts again in each round.
pub(super) fn again(member: Member) -> Vec<u8> {
    format!("again {member}").into_bytes()
}

/// The key that all members of a fence put before it, with different values.
pub(super) fn together(round: u32) -> Vec<u8> {
    format!("together {round}").into_bytes()
}

/// The key that all members put before every fence.
pub(super) fn common() -> Vec<u8> {
    b"shared".to_vec()
}

const OWN: &str = "kvs_0123456789abcdef_";

/// Rounds of keys in the databases of groups that were made of others: of the first one by a split, and by a merge. No
/// program has as many rounds.
const SPLIT_ROUND: u32 = 14;
const MERGED_ROUND: u32 = 17;

fn own(group: GroupId) -> String {
    format!("{OWN}{}", group.0)
}

/// The group that has this database.
pub(super) fn group_of(database: &str) -> Option<GroupId> {
    database.strip_prefix(OWN)?.parse().ok().map(GroupId)
}

impl Programs {
    pub(super) fn new(config: Config, seed: u64) -> Programs {
        Programs {
            config,
            seed,
            random: Random::new(seed ^ 77),
            layouts: BTreeMap::new(),
            minds: BTreeMap::new(),
            probing: false,
        }
    }

    pub(super) fn know(&mut self, layout: &Layout) {
        self.layouts.insert(layout.group, layout.clone());
    }

    pub(super) fn over(&mut self, client: Client) {
        if let Some(mind) = self.minds.get_mut(&client) {
            mind.over = true;
        }
    }

    pub(super) fn begin(&mut self, client: Client) {
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

    /// The tool spawns groups and watches them.
    fn tool(&mut self) -> VecDeque<Step> {
        let mut steps = VecDeque::new();
        for number in 0..1 + self.random.below(self.config.groups) {
            let specs = self.specs(&[]);
            let on_death = if one_in(&mut self.random, 2) { OnDeath::Notify } else { OnDeath::Kill };
            let preputs = vec![pair(b"given", b"1")];
            let spawn = Request::SpawnMultiple { specs, preputs, on_death, input: Readers::None };
            if one_in(&mut self.random, self.config.kills) {
                steps.push_back(Step::Also(spawn));
                steps.push_back(Step::Wait(self.random.below(12)));
                steps.push_back(Step::Also(Request::Kill(GroupId(1 + number as u32))));
            } else {
                steps.push_back(Step::Ask(spawn));
            }
            steps.push_back(Step::Wait(self.random.below(200)));
        }
        for group in 1..4 {
            steps.push_back(Step::Ask(Request::Subscribe(GroupId(group))));
        }
        for _ in 0..8 {
            steps.push_back(Step::Wait(self.random.below(800)));
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
            // Of any number, and of none.
            info: if count % 2 == 1 { vec![("soft".into(), b"0:9".to_vec())] } else { Vec::new() },
            ..Spec::default()
        };
        let specs = if self.config.processes > 2 { 1 + self.random.below(2) } else { 1 };
        (0..specs).map(|_| spec(self.random.below(self.config.processes))).collect()
    }

    fn noise(&mut self, member: Option<Member>) -> Option<Request> {
        if !one_in(&mut self.random, self.config.noise) {
            return None;
        }
        let group = GroupId(1 + self.random.below(6) as u32);
        let name = format!("named {}", self.random.below(2));
        let pair = pair(
            format!("key {}", self.random.below(3)).as_bytes(),
            format!("{}", self.random.below(99)).as_bytes(),
        );
        Some(match self.random.below(19) {
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
            15 => Request::Lookup { name: pair.key, wait: None },
            16 => Request::Free(group),
            17 => Request::Size(member.map_or(group, |member| member.group)),
            _ => Request::Get { database: own(group), key: b"given".to_vec() },
        })
    }

    /// After all faults: starts a new group with one process for each node.
    pub(super) fn probe(&mut self, nodes: u32) {
        let spec =
            Spec { count: nodes, program: b"./a".to_vec(), args: vec![PROBE.to_vec()], ..Spec::default() };
        let spawn = Request::SpawnMultiple {
            specs: vec![spec],
            preputs: Vec::new(),
            on_death: OnDeath::Notify,
            input: Readers::None,
        };
        if let Some(mind) = self.minds.get_mut(&Client::Tool(0)).filter(|mind| !mind.over) {
            mind.waiting = None;
            mind.steps = VecDeque::from([Step::Ask(spawn)]);
        }
        self.probing = true;
    }

    /// Whether a group is the final test group.
    pub(super) fn is_probe(&self, group: GroupId) -> bool {
        self.layouts.get(&group).is_some_and(is_probe)
    }

    /// Whether a kill of this group, by a process that is late, may be one of the final test group: a group without a
    /// layout may become it.
    fn may_be_probe(&self, group: GroupId) -> bool {
        self.is_probe(group) || self.probing && !self.layouts.contains_key(&group)
    }

    fn probes(&self, layout: &Layout, member: Member) -> Vec<Step> {
        let database = layout.database.clone();
        let put = Pair { key: once(0, member), value: value(0, member) };
        let of = (0..layout.size()).map(|rank| Member { group: member.group, rank }).collect();
        vec![
            Step::Ask(Request::Init),
            Step::Ask(Request::Put { database, pair: put, advice: None }),
            Step::Ask(Request::Fence { over: Set::Group(member.group), limit: None, tag: Vec::new() }),
            Step::Read { round: 0, of, own: member.group, keys: Keys::Once },
            Step::Leave,
        ]
    }

    /// The steps of a process. The members, purpose and tag of each round are the same for the whole group.
    fn process(&mut self, member: Member) -> VecDeque<Step> {
        let layout = self.layouts[&member.group].clone();
        if self.is_probe(member.group) {
            return VecDeque::from(self.probes(&layout, member));
        }
        let merges = layout.specs.iter().any(|spec| spec.args.first().is_some_and(|arg| arg == MERGES));
        let mut shared = Random::new(self.seed ^ u64::from(member.group.0));
        let mut steps = VecDeque::new();
        if !one_in(&mut self.random, 9) {
            steps.push_back(Step::Ask(Request::Init));
        }
        if let Some((key, _)) = layout.preputs.first().filter(|_| one_in(&mut self.random, 3)) {
            let (database, key) = (layout.database.clone(), key.clone());
            steps.push_back(Step::Ask(Request::Get { database, key }));
        }
        if let (true, Some(parent)) = (merges, layout.parent) {
            steps.push_back(Step::Ask(Request::Merge { first: member.group, second: parent, limit: None }));
            steps.push_back(Step::EnterDerived { round: MERGED_ROUND });
        }
        let mut spawned = merges || member.group.0 > 3;
        let mut split = false;
        for round in 0..2 + (shared.below(4) + self.config.rounds) as u32 {
            self.round(&mut steps, &mut shared, &layout, member, round);
            if !spawned && one_in(&mut shared, 4) {
                spawned = true;
                self.merging(&mut steps, member);
            }
            if !split && one_in(&mut shared, 5) {
                split = true;
                steps.push_back(Step::Ask(choice(&mut self.random, member.group, self.config.short_limits)));
                steps.push_back(Step::EnterDerived { round: SPLIT_ROUND });
            }
        }
        if one_in(&mut self.random, 4) {
            steps.push_back(Step::Wait(self.random.below(20_000)));
        }
        steps.push_back(Step::Leave);
        steps
    }

    fn round(
        &mut self,
        steps: &mut VecDeque<Step>,
        shared: &mut Random,
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
        let whole = one_in(shared, 2);
        let some: Vec<Member> = all.iter().copied().filter(|_| whole || one_in(shared, 2)).collect();
        let over = match shared.below(2) {
            0 if whole => Set::Group(member.group),
            _ => Set::Members(some.iter().copied().collect()),
        };
        let tag = if one_in(shared, 3) { b"tag".to_vec() } else { Vec::new() };
        let opens = one_in(shared, 5);
        let beside = one_in(shared, 4);
        if one_in(&mut self.random, 4) {
            let most = if one_in(&mut self.random, 20) { 30_000 } else { 300 };
            steps.push_back(Step::Wait(self.random.below(most)));
        }
        if let Some(request) = self.noise(Some(member)) {
            steps.push_back(Step::Also(request));
        }
        if !some.contains(&member) {
            return;
        }
        if one_in(&mut self.random, self.config.absent) {
            return steps.push_back(Step::Stay);
        }
        if beside {
            let (over, tag) = (over.clone(), b"beside".to_vec());
            steps.push_back(Step::Also(Request::Fence { over, limit: None, tag }));
        }
        let limit = one_in(&mut self.random, self.config.short_limits)
            .then(|| Duration::from_millis(self.random.below(500)));
        let stray = one_in(&mut self.random, self.config.mismatches);
        if opens != stray {
            let over = over.clone();
            steps.push_back(Step::Ask(Request::Open { over: over.clone(), limit }));
            if !stray {
                steps.push_back(Step::CloseOpened { over, first: some.first() == Some(&member) });
            }
            return;
        }
        for key in [together(round), common()] {
            let pair = Pair { key, value: value(round, member) };
            let database = layout.database.clone();
            steps.push_back(Step::Ask(Request::Put { database, pair, advice: None }));
        }
        // Members with data and without them meet in one fence.
        let brings = one_in(shared, 2) && !one_in(&mut self.random, 4);
        steps.push_back(Step::Ask(match brings {
            true => Request::Exchange { over, limit, tag, data: brought(&mut self.random, round, member) },
            false => Request::Fence { over, limit, tag },
        }));
        steps.push_back(Step::Read { round, of: some, own: member.group, keys: Keys::All });
    }

    /// Rank 0 spawns a group, and all processes merge with it.
    fn merging(&mut self, steps: &mut VecDeque<Step>, member: Member) {
        if member.rank == 0 {
            let specs = self.specs(&[MERGES]);
            let on_death = OnDeath::Notify;
            steps.push_back(Step::Ask(Request::SpawnMultiple {
                specs,
                preputs: Vec::new(),
                on_death,
                input: Readers::None,
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
        steps.push_back(Step::EnterDerived { round: MERGED_ROUND });
    }

    pub(super) fn answered(&mut self, client: Client, serial: Serial, answer: &Result<Answer, Fault>) {
        let Some(mind) = self.minds.get_mut(&client) else { return };
        if mind.waiting == Some(serial) {
            mind.waiting = None;
            mind.last = Some(answer.clone());
        }
    }

    /// Whether a client can continue.
    pub(super) fn wants(&self, client: Client) -> bool {
        self.minds.get(&client).is_some_and(|mind| mind.begun && !mind.over && mind.waiting.is_none())
    }

    /// The actions of a client until it waits.
    pub(super) fn next(&mut self, client: Client) -> Vec<Program> {
        let mut done = Vec::new();
        while self.wants(client) {
            let Some(step) = self.minds.get_mut(&client).and_then(|mind| mind.steps.pop_front()) else {
                break;
            };
            if matches!(step, Step::Ask(Request::Kill(group)) | Step::Also(Request::Kill(group)) if self.may_be_probe(group))
            {
                continue;
            }
            let Some(mind) = self.minds.get_mut(&client) else { break };
            match step {
                Step::Ask(request) => done.push(mind.ask(request, true)),
                Step::Also(request) => done.push(mind.ask(request, false)),
                Step::Wait(millis) => {
                    done.push(Program::Waits(millis + 1));
                    break;
                }
                step => {
                    // Groups spawn groups, up to a limit.
                    let child = mind.member.is_some_and(|member| {
                        member.group.0 < 9 && one_in(&mut self.random, 1 + u64::from(member.rank))
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
        let leaves_well = !one_in(&mut self.random, 8);
        let Some(mind) = self.minds.get_mut(&client) else { return };
        let Some(member) = mind.member else { return };
        let probe = self.layouts.get(&member.group).is_some_and(is_probe);
        match step {
            Step::Read { round, of, own: group, keys } => {
                if matches!(mind.last, Some(Ok(Answer::Done | Answer::Value(_)))) {
                    mind.read(round, &of, group, keys);
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
            Step::EnterDerived { round } => {
                if let Some(Ok(Answer::Group(group))) = mind.last {
                    mind.next_steps(vec![
                        Step::Ask(Request::Members(group)),
                        Step::UseDerived { group, round },
                    ]);
                }
            }
            Step::UseDerived { group, round } => {
                // All members of the group split it, or none does.
                let shared = Random::new(self.seed ^ u64::from(group.0) << 20);
                let split = choice(&mut self.random, group, self.config.short_limits);
                mind.use_derived((group, round), member, shared, split);
            }
            Step::Leave => {
                if leaves_well || probe {
                    done.push(mind.ask(Request::Finalize, false));
                }
                done.push(Program::Ends(Exit::Code(0)));
            }
            Step::Stay => mind.steps.clear(),
            Step::Ask(_) | Step::Also(_) | Step::Wait(_) => {}
        }
    }
}

impl Mind {
    /// Takes these steps before the others.
    fn next_steps(&mut self, steps: Vec<Step>) {
        steps.into_iter().rev().for_each(|step| self.steps.push_front(step));
    }

    /// Uses a group that was made of others: its database, its fence and its deaths.
    fn use_derived(
        &mut self,
        (group, round): (GroupId, u32),
        member: Member,
        mut shared: Random,
        split: Request,
    ) {
        let Some(Ok(Answer::Rosters(rosters))) = &self.last else { return };
        let of: Vec<Member> = rosters.iter().flat_map(|roster| roster.members()).collect();
        let splits = one_in(&mut shared, 2) && round != SPLIT_ROUND + 1 && round != MERGED_ROUND + 2;
        let frees = one_in(&mut shared, 4) && of.first() == Some(&member);
        let pair = Pair { key: once(round, member), value: value(round, member) };
        let over = Set::Group(group);
        let mut steps = vec![
            Step::Ask(Request::Put { database: own(group), pair, advice: None }),
            Step::Ask(Request::Fence { over, limit: None, tag: Vec::new() }),
            Step::Read { round, of, own: group, keys: Keys::Once },
            Step::Ask(Request::Subscribe(group)),
            Step::Ask(Request::Size(group)),
        ];
        if splits {
            steps.extend([Step::Ask(split), Step::EnterDerived { round: round + 1 }]);
        }
        if frees {
            steps.push(Step::Ask(Request::Free(group)));
        }
        self.next_steps(steps);
    }

    /// Reads the puts of a fence's members.
    fn read(&mut self, round: u32, of: &[Member], group: GroupId, which: Keys) {
        let mut keys = Vec::new();
        for other in of {
            keys.push(once(round, *other));
            if which == Keys::All {
                keys.push(again(*other));
                keys.extend(round.checked_sub(1).map(|before| once(before, *other)));
            }
        }
        if which == Keys::All {
            keys.extend([together(round), common()]);
        }
        for key in keys.into_iter().rev() {
            self.steps.push_front(Step::Ask(Request::Get { database: own(group), key }));
        }
    }

    fn ask(&mut self, request: Request, waits: bool) -> Program {
        self.serial += 1;
        if waits {
            self.waiting = Some(self.serial);
            self.last = None;
        }
        Program::Asks(self.serial, request)
    }
}

/// A member's part in a split: often of two groups, sometimes of none.
fn choice(random: &mut Random, group: GroupId, short_limits: u64) -> Request {
    let color = (!one_in(random, 6)).then(|| random.below(2) as u32);
    let limit = one_in(random, short_limits).then(|| Duration::from_millis(random.below(500)));
    Request::Split { group, color, key: random.below(3) as i32 - 1, limit }
}

/// Whether a request starts the final test group.
pub(super) fn is_probing(request: &Request) -> bool {
    matches!(request, Request::SpawnMultiple { specs, .. } if specs.iter().any(|spec| spec.args.first().is_some_and(|arg| arg == PROBE)))
}

pub(super) fn is_probe(layout: &Layout) -> bool {
    layout.specs.iter().any(|spec| spec.args.first().is_some_and(|arg| arg == PROBE))
}

fn pair(key: &[u8], value: &[u8]) -> Pair {
    Pair { key: key.to_vec(), value: value.to_vec() }
}
