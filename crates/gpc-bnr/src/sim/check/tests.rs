//! Tests of the checkers: each passes a sound history, and finds the error in a doctored one.

use std::sync::Arc;
use std::time::Duration;

use super::check;
use crate::exit::{Death, Exit};
use crate::fault::{Fault, FaultKind};
use crate::names::{GroupId, Member, Set};
use crate::request::{Answer, Client, Pair, Request};
use crate::roster::{Roster, Span};
use crate::sim::programs::{common, once, together, value};
use crate::sim::seen::Seen;
use crate::spec::{Block, LEFT_OUT, Layout, OnDeath, Readers, Spec};

const GROUP: GroupId = GroupId(1);
const FIRST: Member = Member { group: GROUP, rank: 0 };
const SECOND: Member = Member { group: GROUP, rank: 1 };
const TOOL: Client = Client::Tool(0);

/// Time between two observations, in microseconds.
const STEP: u64 = 1_000;

/// A history with its times.
#[derive(Default)]
struct Story {
    seen: Vec<Seen>,
    times: Vec<u64>,
    /// Additional delay of the next observation, in microseconds.
    later: u64,
}

fn process(member: Member) -> Client {
    Client::Process(member)
}

/// Serials of the requests that tests modify.
const SPAWN: u64 = 1;
const SUBSCRIBE: u64 = 2;
const PUT: u64 = 3;
const FENCE: u64 = 5;
const GET: u64 = 6;

impl Story {
    fn see(&mut self, seen: Seen) {
        let later = std::mem::take(&mut self.later);
        self.times.push(self.times.last().map_or(0, |last| last + STEP + later));
        self.seen.push(seen);
    }

    fn ask(&mut self, client: Client, serial: u64, request: Request) {
        self.see(Seen::Asked { client, serial, request });
    }

    fn answer(&mut self, client: Client, serial: u64, answer: Result<Answer, Fault>, at_once: bool) {
        self.see(Seen::Answered { client, serial, answer, at_once });
    }

    fn asks(&mut self, client: Client, serial: u64, request: Request) {
        self.ask(client, serial, request);
        self.answer(client, serial, Ok(Answer::Done), true);
    }

    /// The place of an observation.
    fn place(&self, is: impl Fn(&Seen) -> bool) -> usize {
        self.seen.iter().position(is).unwrap()
    }

    fn answered(&self, member: Member, wanted: u64) -> usize {
        self.place(|seen| matches!(seen, Seen::Answered { client, serial, .. } if (*client, *serial) == (process(member), wanted)))
    }

    /// Inserts an observation before another one.
    fn insert(&mut self, at: usize, seen: Seen) {
        self.seen.insert(at, seen);
        self.times.insert(at, self.times[at]);
    }

    fn remove(&mut self, at: usize) {
        self.seen.remove(at);
        self.times.remove(at);
    }

    fn replace(&mut self, at: usize, with: Result<Answer, Fault>) {
        let Seen::Answered { answer, .. } = &mut self.seen[at] else { panic!("{:?}", self.seen[at]) };
        *answer = with;
    }

    /// Adds observations before the processes end.
    fn goes_on(&mut self, more: impl FnOnce(&mut Story)) {
        let end = over(self, FIRST);
        let tail = self.seen.split_off(end);
        self.times.truncate(end);
        more(self);
        tail.into_iter().for_each(|seen| self.see(seen));
    }

    /// Delays the next observation.
    fn waits(&mut self, seconds: u64) {
        self.later = seconds * 1_000_000;
    }

    /// Delays all observations from a place on.
    fn delay(&mut self, from: usize, by: Duration) {
        self.times[from..].iter_mut().for_each(|time| *time += by.as_micros() as u64);
    }

    /// The names of the checkers that find violations.
    fn found(&self) -> Vec<&'static str> {
        let mut names: Vec<_> =
            check(&self.seen, &self.times, 0).into_iter().map(|violation| violation.checker).collect();
        names.dedup();
        names
    }
}

fn layout() -> Arc<Layout> {
    let block = |node, first| Block { node, spec: 0, first, count: 1 };
    Arc::new(Layout {
        group: GROUP,
        parent: None,
        database: "own".into(),
        specs: vec![Spec::default()],
        blocks: vec![block(0, 0), block(1, 1)],
        on_death: OnDeath::Kill,
        preputs: Vec::new(),
        input: Readers::None,
        pmix: None,
    })
}

fn spawn() -> Request {
    Request::SpawnMultiple {
        specs: vec![Spec { count: 2, ..Spec::default() }],
        preputs: Vec::new(),
        on_death: OnDeath::Kill,
        input: Readers::None,
    }
}

fn spawned() -> Result<Answer, Fault> {
    Ok(Answer::Spawned { group: GROUP, errors: vec![0, 0], same_domain: true })
}

fn subscribed(group: GroupId) -> Result<Answer, Fault> {
    let span = Span { group, first: 0, count: 2 };
    Ok(Answer::Rosters(vec![Roster { group, database: "own".into(), spans: vec![span] }]))
}

fn put(key: Vec<u8>, value: Vec<u8>) -> Request {
    Request::Put { database: "own".into(), pair: Pair { key, value }, advice: None }
}

fn get(key: Vec<u8>) -> Request {
    Request::Get { database: "own".into(), key }
}

fn fence(limit: Option<Duration>) -> Request {
    Request::Fence { over: Set::Group(GROUP), limit, tag: Vec::new() }
}

fn fault(kind: FaultKind) -> Fault {
    Fault::new(kind, "as told")
}

/// Two processes on two nodes put, fence, and read each other's put; a tool deposits a name and looks it up; all end
/// well.
fn sound(limit: Option<Duration>) -> Story {
    let mut story = Story::default();
    story.ask(TOOL, SPAWN, spawn());
    story.see(Seen::Started { layout: layout() });
    [FIRST, SECOND].into_iter().for_each(|member| story.see(Seen::Runs { member }));
    story.answer(TOOL, SPAWN, spawned(), false);
    let pair = Pair { key: b"name".to_vec(), value: b"here".to_vec() };
    story.asks(TOOL, SPAWN + 1, Request::Deposit(pair.clone()));
    story.ask(TOOL, SPAWN + 2, Request::Lookup { name: pair.key, wait: None });
    story.answer(TOOL, SPAWN + 2, Ok(Answer::Value(pair.value)), false);
    for member in [FIRST, SECOND] {
        story.ask(process(member), SUBSCRIBE, Request::Subscribe(GROUP));
        story.answer(process(member), SUBSCRIBE, subscribed(GROUP), true);
        story.asks(process(member), PUT, put(once(0, member), value(0, member)));
        story.asks(process(member), PUT + 1, put(together(0), value(0, member)));
    }
    [FIRST, SECOND].into_iter().for_each(|member| story.ask(process(member), FENCE, fence(limit)));
    for member in [FIRST, SECOND] {
        story.answer(process(member), FENCE, Ok(Answer::Done), false);
    }
    for (member, other) in [(FIRST, SECOND), (SECOND, FIRST)] {
        story.ask(process(member), GET, get(once(0, other)));
        story.answer(process(member), GET, Ok(Answer::Value(value(0, other))), true);
        story.ask(process(member), GET + 1, get(together(0)));
        story.answer(process(member), GET + 1, Ok(Answer::Value(value(0, SECOND))), true);
    }
    [FIRST, SECOND].into_iter().for_each(|member| story.see(Seen::Over { member, exit: Exit::Code(0) }));
    story.see(Seen::Ends);
    [0, 1].into_iter().for_each(|id| story.see(Seen::Ended(id)));
    story
}

/// The checkers that find violations in a sound history with one change.
fn doctored(change: impl FnOnce(&mut Story)) -> Vec<&'static str> {
    let mut story = sound(None);
    change(&mut story);
    story.found()
}

fn over(story: &Story, of: Member) -> usize {
    story.place(|seen| matches!(seen, Seen::Over { member, .. } if *member == of))
}

#[test]
fn a_sound_history_passes() {
    assert!(sound(None).found().is_empty(), "{:?}", check(&sound(None).seen, &sound(None).times, 0));
    assert!(sound(Some(Duration::from_secs(1))).found().is_empty());
}

#[test]
fn answers_that_are_missing_or_come_twice() {
    let lost = doctored(|story| {
        story.ask(TOOL, 90, Request::Groups);
    });
    assert_eq!(lost, ["answers"]);
    let twice = doctored(|story| {
        let at = story.answered(FIRST, PUT);
        let again = story.seen[at].clone();
        story.insert(at, again);
    });
    assert_eq!(twice, ["answers"]);
}

#[test]
fn meetings_without_a_member_that_disagree_or_fail_without_a_reason() {
    let alone = doctored(|story| {
        let at = story.answered(SECOND, FENCE);
        story.remove(at);
        let asked = story.place(|seen| matches!(seen, Seen::Asked { client, serial, .. } if (*client, *serial) == (process(SECOND), FENCE)));
        story.remove(asked);
    });
    assert!(alone.contains(&"meetings"), "{alone:?}");
    let torn = doctored(|story| {
        let at = story.answered(SECOND, FENCE);
        story.replace(at, Err(fault(FaultKind::TimedOut)));
    });
    assert!(torn.contains(&"agreement"), "{torn:?}");
    let baseless = doctored(|story| {
        for member in [FIRST, SECOND] {
            let at = story.answered(member, FENCE);
            story.replace(at, Err(fault(FaultKind::MemberDied)));
        }
    });
    assert!(baseless.contains(&"reasons"), "{baseless:?}");
}

/// What the checkers say if both processes bring data to a fence, and are told this.
fn exchanged(told: [Answer; 2]) -> Vec<&'static str> {
    doctored(|story| {
        story.goes_on(|story| {
            for (member, data) in [(FIRST, b"a"), (SECOND, b"b")] {
                let (over, tag, data) = (Set::Group(GROUP), b"data".to_vec(), data.to_vec());
                story.ask(process(member), 20, Request::Exchange { over, limit: None, tag, data });
            }
            for (member, answer) in [FIRST, SECOND].into_iter().zip(told) {
                story.answer(process(member), 20, Ok(answer), false);
            }
        });
    })
}

#[test]
fn data_of_a_fence_that_are_lost_doubled_or_swapped() {
    let told = |data: &[u8]| Answer::Value(data.to_vec());
    assert_eq!(exchanged([told(b"ab"), told(b"ab")]), [""; 0]);
    for wrong in [told(b"a"), told(b"ba"), told(b"abb"), told(b""), Answer::Done] {
        assert_eq!(exchanged([told(b"ab"), wrong]), ["exchanged"]);
    }
    let data = doctored(|story| {
        for member in [FIRST, SECOND] {
            let at = story.answered(member, FENCE);
            story.replace(at, Ok(told(b"")));
        }
    });
    assert_eq!(data, ["exchanged"], "no data were requested");
}

#[test]
fn members_that_are_told_different_deaths_or_a_consequence() {
    let death = |member, exit| Death { member, exit, finalized: false };
    let failed = |deaths: Vec<Death>| Err(Fault { deaths, ..fault(FaultKind::MemberDied) });
    let told = |first: Vec<Death>, second: Vec<Death>| {
        doctored(|story| {
            let at = story.answered(FIRST, FENCE);
            story.replace(at, failed(first));
            let at = story.answered(SECOND, FENCE);
            story.replace(at, failed(second));
        })
    };
    let later = vec![death(SECOND, Exit::Code(0))];
    assert!(told(later.clone(), later.clone()).contains(&"causes"));
    assert!(told(later, vec![death(FIRST, Exit::Code(0))]).contains(&"causes"));
}

#[test]
fn a_limit_that_passes_without_naming_who_is_missing_or_names_who_is_not() {
    let told = |missing: Vec<Member>| {
        doctored(|story| {
            story.goes_on(|story| {
                story.ask(process(FIRST), 20, fence(Some(Duration::from_secs(1))));
                story.waits(1);
                let late = Fault { missing, ..fault(FaultKind::TimedOut) };
                story.answer(process(FIRST), 20, Err(late), false);
            });
        })
    };
    assert_eq!(told(vec![SECOND]), [""; 0]);
    assert_eq!((told(vec![]), told(vec![FIRST, SECOND])), (vec!["missing"], vec!["missing"]));
}

#[test]
fn a_subscription_that_gets_the_deaths_of_another_group() {
    let other = doctored(|story| {
        let at = story.answered(FIRST, SUBSCRIBE);
        story.replace(at, subscribed(GroupId(9)));
    });
    assert_eq!(other, ["subscribed"]);
}

/// What the checkers say if a client spawns two processes, is answered with these errors or not at all, and the tool
/// then subscribes to the deaths of this number of processes, which it also gets as the size.
fn empty(starter: Client, soft: bool, errors: Option<[i32; 2]>, count: u32) -> Vec<&'static str> {
    let group = GroupId(7);
    doctored(|story| {
        story.goes_on(|story| {
            let info = if soft { vec![("soft".to_owned(), b"0:9".to_vec())] } else { Vec::new() };
            let specs = vec![Spec { count: 2, info, ..Spec::default() }];
            let (preputs, on_death) = (Vec::new(), OnDeath::Kill);
            story.ask(starter, 20, Request::SpawnMultiple { specs, preputs, on_death, input: Readers::None });
            if let Some(errors) = errors.map(Vec::from) {
                story.answer(starter, 20, Ok(Answer::Spawned { group, errors, same_domain: true }), false);
            }
            let members = (0..count).map(|rank| Member { group, rank });
            let roster = Answer::Rosters(vec![Roster::new(group, "none".into(), members)]);
            story.ask(TOOL, 21, Request::Subscribe(group));
            story.answer(TOOL, 21, Ok(roster.clone()), false);
            story.ask(TOOL, 22, Request::Members(group));
            story.answer(TOOL, 22, Ok(roster), false);
            story.ask(TOOL, 23, Request::Size(group));
            story.answer(TOOL, 23, Ok(Answer::Number(count.into())), false);
        });
    })
}

/// `soft` allowed 0 processes, and none could be started. A subscription to this group listed no processes, which the
/// checker refused: it took the group for one that was still open, since no node had started it.
#[test]
fn a_group_without_processes_has_no_deaths() {
    let none = Some([LEFT_OUT; 2]);
    assert_eq!(empty(TOOL, true, none, 0), [""; 0]);
    assert_eq!(empty(TOOL, true, none, 2), ["subscribed", "sizes", "members"]);
    // The starter ends before it is answered.
    assert_eq!(empty(process(FIRST), true, None, 0), [""; 0]);
    assert_eq!(empty(process(FIRST), false, None, 0), ["subscribed"]);
    // The group could not be started, and has two numbers.
    assert_eq!(empty(TOOL, true, Some([125, 2]), 0), ["subscribed"]);
    assert_eq!(empty(TOOL, true, Some([125, 2]), 2), [""; 0]);
}

#[test]
fn a_meeting_that_outlasts_its_limit() {
    let mut story = sound(Some(Duration::from_secs(1)));
    let at = story.answered(FIRST, FENCE);
    story.delay(at, Duration::from_secs(30));
    assert_eq!(story.found(), ["limits"]);
}

#[test]
fn notices_of_no_death_and_failures_before_their_notice() {
    let death = |exit| Death { member: SECOND, exit, finalized: false };
    let alive = doctored(|story| {
        let at = over(story, FIRST);
        story.insert(at, Seen::Noticed { client: process(FIRST), death: death(Exit::Code(1)) });
    });
    assert_eq!(alive, ["notices"]);
    let never = doctored(|story| {
        let at = over(story, FIRST);
        story.remove(at);
        let ends = story.place(|seen| matches!(seen, Seen::Ends));
        story.delay(ends, Duration::from_secs(100));
    });
    assert!(never.contains(&"notices"), "{never:?}");
    let late = doctored(|story| {
        let at = story.answered(FIRST, FENCE);
        let failed = Fault { deaths: vec![death(Exit::Code(1))], ..fault(FaultKind::MemberDied) };
        story.replace(at, Err(failed));
        story.insert(at, Seen::Over { member: SECOND, exit: Exit::Code(1) });
    });
    assert!(late.contains(&"told-first"), "{late:?}");
}

#[test]
fn reads_of_nothing_from_elsewhere_or_of_two_values() {
    let missing = doctored(|story| {
        let at = story.answered(FIRST, GET);
        story.replace(at, Err(fault(FaultKind::NotFound)));
    });
    assert_eq!(missing, ["reads"]);
    let elsewhere = doctored(|story| {
        let at = story.answered(FIRST, GET);
        let Seen::Answered { at_once, .. } = &mut story.seen[at] else { panic!() };
        *at_once = false;
    });
    assert_eq!(elsewhere, ["reads"]);
    let two = doctored(|story| {
        let at = story.answered(FIRST, GET + 1);
        story.replace(at, Ok(Answer::Value(value(0, FIRST))));
    });
    assert_eq!(two, ["stamps"]);
}

#[test]
fn processes_that_stay_that_are_killed_for_nothing_or_never_began() {
    let stays = doctored(|story| {
        let at = over(story, FIRST);
        story.insert(
            at,
            Seen::Answered { client: TOOL, serial: 90, answer: Ok(Answer::Done), at_once: false },
        );
        story.insert(at, Seen::Asked { client: TOOL, serial: 90, request: Request::Kill(GROUP) });
    });
    assert_eq!(stays, ["kills"]);
    let lives_on = doctored(|story| {
        let first = over(story, FIRST);
        story.seen[first] = Seen::Over { member: FIRST, exit: Exit::Code(1) };
        story.delay(first + 1, Duration::from_secs(100));
    });
    assert!(lives_on.contains(&"along"), "{lives_on:?}");
    let killed = doctored(|story| {
        let at = over(story, FIRST);
        story.insert(at, Seen::Kills { id: 1, group: GROUP });
    });
    assert_eq!(killed, ["killed"]);
    let never = doctored(|story| {
        let at = story.place(|seen| matches!(seen, Seen::Runs { member } if *member == SECOND));
        story.remove(at);
    });
    assert!(never.contains(&"spawns"), "{never:?}");
}

#[test]
fn numbers_given_twice_and_names_of_nobody() {
    let twice = doctored(|story| {
        let at = over(story, FIRST);
        story.insert(at, Seen::Answered { client: TOOL, serial: 90, answer: spawned(), at_once: false });
        story.insert(at, Seen::Asked { client: TOOL, serial: 90, request: spawn() });
    });
    assert_eq!(twice, ["numbers"]);
    let nobodys = doctored(|story| {
        let at = story.place(
            |seen| matches!(seen, Seen::Answered { client: TOOL, serial, .. } if *serial == SPAWN + 2),
        );
        story.replace(at, Ok(Answer::Value(b"elsewhere".to_vec())));
    });
    assert_eq!(nobodys, ["names"]);
}

#[test]
fn parts_that_end_too_early_what_is_left_and_a_domain_that_hangs() {
    let early = doctored(|story| {
        let at = story.place(|seen| matches!(seen, Seen::Ends));
        story.remove(at);
    });
    assert_eq!(early, ["ends"]);
    let left = doctored(|story| {
        story.see(Seen::Left("node 1 keeps a timer".into()));
    });
    assert_eq!(left, ["left"]);
    let hangs = doctored(|story| {
        let at = story.place(|seen| matches!(seen, Seen::Ends));
        story.insert(at, Seen::Calm);
    });
    assert_eq!(hangs, ["liveness"]);
}

#[test]
fn a_value_that_was_put_over_comes_again() {
    let reads = |found: Vec<u8>| {
        doctored(|story| {
            story.goes_on(|story| {
                let fences = |story: &mut Story, serial| {
                    [FIRST, SECOND]
                        .into_iter()
                        .for_each(|member| story.ask(process(member), serial, fence(None)));
                    for member in [FIRST, SECOND] {
                        story.answer(process(member), serial, Ok(Answer::Done), false);
                    }
                };
                story.asks(process(FIRST), 20, put(common(), value(1, FIRST)));
                fences(story, 21);
                story.asks(process(SECOND), 22, put(common(), value(2, SECOND)));
                fences(story, 23);
                story.ask(process(FIRST), 24, get(common()));
                story.answer(process(FIRST), 24, Ok(Answer::Value(found)), true);
            });
        })
    };
    assert_eq!(reads(value(2, SECOND)), [""; 0]);
    assert_eq!(reads(value(1, FIRST)), ["overwritten"]);
    assert_eq!(reads(value(9, FIRST)), ["overwritten"], "nobody has put that");
}

#[test]
fn databases_that_are_destroyed_and_what_was_put_beforehand() {
    let named = |destroyed: bool| {
        doctored(|story| {
            story.goes_on(|story| {
                let (database, key) = ("named".to_owned(), b"a".to_vec());
                let pair = Pair { key: key.clone(), value: b"1".to_vec() };
                story.asks(TOOL, 20, Request::Create(Some(database.clone())));
                story.asks(TOOL, 21, Request::Put { database: database.clone(), pair, advice: None });
                if destroyed {
                    story.asks(TOOL, 22, Request::Destroy(database.clone()));
                }
                story.ask(TOOL, 23, Request::Get { database, key });
                story.answer(TOOL, 23, Ok(Answer::Value(b"1".to_vec())), true);
            });
        })
    };
    assert_eq!((named(false), named(true)), (vec![], vec!["destroyed"]));
    let given = |answer: Result<Answer, Fault>| {
        doctored(|story| {
            let at = story.place(|seen| matches!(seen, Seen::Started { .. }));
            let preputs = vec![(b"given".to_vec(), b"1".to_vec())];
            let layout = Layout { preputs, ..Layout::clone(&layout()) };
            story.seen[at] = Seen::Started { layout: Arc::new(layout) };
            story.goes_on(|story| {
                story.ask(process(FIRST), 20, get(b"given".to_vec()));
                story.answer(process(FIRST), 20, answer, true);
            });
        })
    };
    assert_eq!(given(Ok(Answer::Value(b"1".to_vec()))), [""; 0]);
    assert_eq!(given(Err(fault(FaultKind::NotFound))), ["given"]);
}

#[test]
fn sizes_that_are_wrong_and_names_that_were_withdrawn() {
    let size = |size| {
        doctored(|story| {
            story.goes_on(|story| {
                story.ask(TOOL, 20, Request::Size(GROUP));
                story.answer(TOOL, 20, Ok(Answer::Number(size)), false);
            });
        })
    };
    assert_eq!((size(2), size(3)), (vec![], vec!["sizes"]));
    let withdrawn = |found: Result<Answer, Fault>| {
        doctored(|story| {
            story.goes_on(|story| {
                story.asks(TOOL, 20, Request::Withdraw(b"name".to_vec()));
                story.ask(TOOL, 21, Request::Lookup { name: b"name".to_vec(), wait: None });
                story.answer(TOOL, 21, found, false);
            });
        })
    };
    assert_eq!(withdrawn(Err(fault(FaultKind::NotFound))), [""; 0]);
    assert_eq!(withdrawn(Ok(Answer::Value(b"here".to_vec()))), ["names"]);
}

#[test]
fn notices_that_come_late_and_members_that_wait_for_what_has_failed() {
    let noticed = |seconds| {
        doctored(|story| {
            let at = over(story, FIRST);
            story.remove(at);
            let at = over(story, SECOND) + 1;
            let tail = story.seen.split_off(at);
            story.times.truncate(at);
            story.waits(seconds);
            let death = Death { member: SECOND, exit: Exit::Code(0), finalized: true };
            [FIRST, SECOND]
                .into_iter()
                .for_each(|member| story.see(Seen::Noticed { client: process(member), death }));
            story.waits(100);
            tail.into_iter().for_each(|seen| story.see(seen));
        })
    };
    // A process that has not ended when its domain does requires no notice.
    assert!(!noticed(1).contains(&"notices"), "{:?}", noticed(1));
    assert!(noticed(20).contains(&"notices"));
    let comes_late = |seconds| {
        doctored(|story| {
            story.goes_on(|story| {
                story.ask(process(FIRST), 20, fence(Some(Duration::from_secs(1))));
                story.waits(1);
                let late = Fault { missing: vec![SECOND], ..fault(FaultKind::TimedOut) };
                story.answer(process(FIRST), 20, Err(late.clone()), false);
                story.ask(process(SECOND), 20, fence(None));
                story.waits(seconds);
                story.answer(process(SECOND), 20, Err(late), false);
            });
        })
    };
    assert_eq!((comes_late(1), comes_late(15)), (vec![], vec!["limits"]));
}

#[test]
fn a_group_that_goes_with_one_that_has_left_well() {
    let killed = |takes_part: bool, says_goodbye: bool| {
        doctored(|story| {
            story.goes_on(|story| {
                if takes_part {
                    story.asks(process(FIRST), 20, Request::Init);
                }
                if says_goodbye {
                    story.asks(process(FIRST), 21, Request::Finalize);
                }
            });
            let at = over(story, SECOND);
            story.insert(at, Seen::Kills { id: 1, group: GROUP });
        })
    };
    assert_eq!(killed(true, false), [""; 0], "without a word");
    assert_eq!((killed(true, true), killed(false, false)), (vec!["killed"], vec!["killed"]));
}

#[test]
fn a_kill_that_takes_very_long() {
    let takes = |seconds| {
        doctored(|story| {
            story.goes_on(|story| {
                story.ask(TOOL, 20, Request::Kill(GroupId(7)));
                story.waits(seconds);
                story.answer(TOOL, 20, Err(fault(FaultKind::DomainEnded)), false);
            });
        })
    };
    assert_eq!((takes(1), takes(20)), (vec![], vec!["kills"]));
}

/// Both members split their group: the first one by color 1, the second one by this color. They get these groups, and
/// ask for the members of the second one.
fn split(color: Option<u32>, told: [Answer; 2], members: &[Member]) -> Vec<&'static str> {
    doctored(|story| {
        story.goes_on(|story| {
            let split = |color, key| Request::Split { group: GROUP, color, key, limit: None };
            story.ask(process(FIRST), 20, split(Some(1), 5));
            story.ask(process(SECOND), 20, split(color, 4));
            let [first, second] = told;
            story.answer(process(FIRST), 20, Ok(first), false);
            story.answer(process(SECOND), 20, Ok(second), false);
            story.ask(process(FIRST), 21, Request::Members(GroupId(8)));
            let roster = Roster::new(GroupId(8), "kvs".into(), members.iter().copied());
            story.answer(process(FIRST), 21, Ok(Answer::Rosters(vec![roster])), false);
        });
    })
}

#[test]
fn groups_of_a_split_that_mix_colors_or_have_other_members() {
    let group = |group| Answer::Group(GroupId(group));
    let both = || [group(8), group(8)];
    // The second one has the smaller key.
    assert_eq!(split(Some(1), both(), &[SECOND, FIRST]), [""; 0]);
    assert_eq!(split(Some(1), both(), &[FIRST, SECOND]), ["members"]);
    assert_eq!(split(Some(1), both(), &[SECOND]), ["members"]);
    assert!(split(Some(1), [group(8), group(9)], &[FIRST]).contains(&"colors"));
    assert_eq!(split(Some(2), [group(8), group(9)], &[FIRST]), [""; 0]);
    assert!(split(Some(2), both(), &[FIRST]).contains(&"numbers"));
    assert_eq!(split(None, [group(8), Answer::Done], &[FIRST]), [""; 0]);
    assert!(split(None, both(), &[FIRST]).contains(&"colors"));
    assert!(split(Some(1), [group(8), Answer::Done], &[SECOND, FIRST]).contains(&"colors"));
}
