//! Reports of agents, in every order. `worlds` has whole launches in virtual time.

use std::num::NonZeroU32;

use proptest::prelude::*;

use super::super::answer::StartReport;
use super::*;
use chained_gpc::link::peering::PublicKey;

pub(super) const LIMIT: Duration = Duration::from_secs(30);

pub(super) fn hosts(count: u32, each: u32) -> Share {
    let host = |place| HostIds { first: 1 + place * each, count: each, name: format!("h{place}") };
    (0..count).map(host).collect()
}

pub(super) fn here(id: Id) -> Answer {
    Answer::Started(StartReport {
        id,
        loopback: "127.0.0.1:5".parse().unwrap(),
        address: None,
        key: PublicKey([0; 32]),
        place: "a".into(),
    })
}

/// A start of hosts with one process each, whose first agent has sent these lines.
fn started(count: u32, fan_out: u32, lines: &[&str]) -> Starting {
    let mut starting = Starting::new(NonZeroU32::new(fan_out).unwrap(), LIMIT, 7);
    starting.start_all(&hosts(count, 1), Duration::ZERO);
    lines.iter().for_each(|line| starting.line(0, line, Duration::ZERO));
    starting
}

fn outputs(starting: &mut Starting) -> Vec<Output> {
    std::iter::from_fn(|| starting.next_output()).collect()
}

/// The reports that go up.
fn reports(starting: &mut Starting) -> Vec<Answer> {
    let up = |output| if let Output::Up(answer) = output { Some(answer) } else { None };
    outputs(starting).into_iter().filter_map(up).collect()
}

proptest! {
    /// Invalid lines do no harm.
    #[test]
    fn any_lines_are_taken_or_cost_the_agent(lines in proptest::collection::vec("(chained-gpc-agent 1|done|wait|down [1-9] [1-9] x|lost 2 1 y|[a-z ]{0,9})", 0..20)) {
        let mut starting = Starting::new(NonZeroU32::new(2).unwrap(), LIMIT, 7);
        starting.start_all(&hosts(5, 1), Duration::ZERO);
        for line in lines {
            starting.line(0, &line, Duration::ZERO);
        }
        let outputs: Vec<Output> = std::iter::from_fn(|| starting.next_output()).collect();
        let killed = outputs.iter().filter(|output| matches!(output, Output::Kill { .. })).count();
        let there = outputs.iter().any(|output| matches!(output, Output::Up(Answer::Started(_))));
        prop_assert!(killed <= 1 && !there);
    }
}

#[test]
fn why_a_host_is_lost_is_said_with_its_own_words() {
    let mut starting = Starting::new(NonZeroU32::new(2).unwrap(), LIMIT, 7);
    starting.start_all(&hosts(2, 3), Duration::ZERO);
    starting.log_line(0, "ssh: connect to host h0 port 22: No route to host\r");
    starting.fail(0, "exit status 255", Duration::ZERO);
    starting.line(1, "Last login: today", Duration::ZERO);
    starting.tick(LIMIT);
    let ups: Vec<Answer> = std::iter::from_fn(|| starting.next_output())
        .filter_map(|output| if let Output::Up(answer) = output { Some(answer) } else { None })
        .collect();
    let [Answer::Down(first), Answer::Down(second)] = &ups[..] else { panic!("{ups:?}") };
    assert_eq!((first.first, first.count), (1, 3));
    assert_eq!(first.why, "host h0: exit status 255: ssh: connect to host h0 port 22: No route to host");
    assert_eq!(
        second.why,
        "host h1: it did not answer within 30 s: it said `Last login: today`, which is nothing of this program"
    );
    assert!(starting.is_done());
}

/// What ssh prints if the server has too many logins at a time.
const DROPPED: &str = "kex_exchange_identification: Connection closed by remote host";

fn drop_connection(starting: &mut Starting, now: Duration) {
    starting.log_line(0, DROPPED);
    starting.end(0, "exit status 255", now);
}

/// Lets time pass until the agent is started again; returns the time.
fn until_started_again(starting: &mut Starting) -> Duration {
    let spawn = Output::Spawn { agent: 0, share: hosts(1, 1), same_host: false };
    loop {
        let next = starting.deadline().unwrap();
        starting.tick(next - Duration::from_nanos(1));
        assert_eq!(outputs(starting), []);
        starting.tick(next);
        match &outputs(starting)[..] {
            [Output::KeepAlive] => {}
            [output] | [output, Output::KeepAlive] if *output == spawn => return next,
            other => panic!("{other:?}"),
        }
    }
}

/// Of 40 names of one host, whose server dropped logins at random, some failed in each run.
#[test]
fn a_dropped_connection_is_tried_again_after_a_pause_up_to_a_number() {
    let mut starting = started(1, 1, &[]);
    assert_eq!(outputs(&mut starting).len(), 1);
    let mut now = Duration::ZERO;
    for _ in 1..ATTEMPTS_MAX {
        drop_connection(&mut starting, now);
        assert!(!starting.is_done());
        let again = until_started_again(&mut starting);
        assert!(again > now && again < LIMIT, "{again:?}");
        now = again;
    }
    drop_connection(&mut starting, now);
    let [Answer::Down(loss)] = &reports(&mut starting)[..] else { panic!("it is given up") };
    assert_eq!(loss.why, format!("host h0: exit status 255 at each attempt: {DROPPED}"));
    assert!(starting.is_done());
}

#[test]
fn an_attempt_that_succeeds_is_like_the_first() {
    let mut starting = started(2, 1, &["Last login: today"]);
    drop_connection(&mut starting, LIMIT / 4);
    let again = starting.deadline().unwrap();
    starting.tick(again);
    for line in [GREETING, &here(1).to_string(), &here(2).to_string(), "done"] {
        starting.line(0, line, again);
    }
    assert_eq!(reports(&mut starting), [here(1), here(2)]);
    assert!(starting.is_done());
}

/// The limit of a start counts from the first attempt.
#[test]
fn no_attempt_begins_at_the_limit_or_later() {
    for (before, again) in [(Duration::from_secs(3), true), (Duration::from_nanos(1), false)] {
        let mut starting = started(1, 1, &[]);
        starting.tick(LIMIT - before);
        drop_connection(&mut starting, LIMIT - before);
        let losses = reports(&mut starting).len();
        assert_eq!((losses, starting.is_done()), (usize::from(!again), !again), "{before:?}");
        if again {
            until_started_again(&mut starting);
            starting.tick(LIMIT);
            let [Answer::Down(loss)] = &reports(&mut starting)[..] else { panic!("it is given up") };
            assert_eq!(loss.why, "host h0: it did not answer within 30 s");
        }
    }
}

#[test]
fn a_clear_answer_and_an_agent_that_has_spoken_are_not_tried_again() {
    let ends = |lines: &[&str], log: &str, how: &str, same_host| {
        let mut starting = Starting::new(NonZeroU32::MIN, LIMIT, 7);
        match same_host {
            true => starting.start_below(&hosts(1, 2), Duration::ZERO),
            false => starting.start_all(&hosts(1, 1), Duration::ZERO),
        }
        lines.iter().for_each(|line| starting.line(0, line, Duration::ZERO));
        starting.log_line(0, log);
        starting.end(0, how, Duration::ZERO);
        starting.is_done()
    };
    assert!(!ends(&[], DROPPED, "exit status 255", false));
    assert!(ends(&[], "you@h0: Permission denied (publickey).", "exit status 255", false));
    assert!(ends(&[], DROPPED, "exit status 1", false));
    assert!(ends(&[GREETING], DROPPED, "exit status 255", false));
    assert!(ends(&[], DROPPED, "exit status 255", true), "no connection leads to the own host");
}

/// Agents that wait for another attempt count as unanswered: other hosts do not take their places.
#[test]
fn pauses_hold_the_number_of_connections_down() {
    let mut starting = started(100, 100, &[]);
    let first = outputs(&mut starting).len();
    drop_connection(&mut starting, Duration::ZERO);
    assert_eq!((first, outputs(&mut starting).len()), (100, 0));
    let mut narrow = started(1, 1, &[]);
    narrow.add(vec![hosts(1, 1); 70], false, Duration::ZERO);
    assert_eq!(outputs(&mut narrow).len(), UNANSWERED_MAX);
    drop_connection(&mut narrow, Duration::ZERO);
    narrow.fill(Duration::ZERO);
    assert_eq!(outputs(&mut narrow), []);
}

/// An agent of another version read the task, ended, and its host was said not to answer.
#[test]
fn an_agent_of_another_version_is_named_at_once() {
    let mut starting = started(2, 2, &["Last login: today", "chained-gpc-agent 2"]);
    let reported = reports(&mut starting);
    let [Answer::Down(loss)] = &reported[..] else { panic!("{reported:?}") };
    assert!(
        loss.why.starts_with(
            "host h0: its program speaks version 2 of the agents' protocol, and this one version 1: "
        ),
        "{}",
        loss.why
    );
}

#[test]
fn who_is_lost_after_that_takes_its_share_along_and_nobody_is_started_again() {
    let mut starting = Starting::new(NonZeroU32::new(1).unwrap(), LIMIT, 7);
    starting.start_all(&hosts(2, 1), Duration::ZERO);
    for line in [GREETING, &here(1).to_string(), &here(2).to_string(), "done", "lost 2 1 host h1: killed"] {
        starting.line(0, line, Duration::ZERO);
    }
    assert!(starting.is_done());
    starting.fail(0, "exit status 1", LIMIT);
    let outputs: Vec<Output> = std::iter::from_fn(|| starting.next_output()).collect();
    let lost = |first, count, why| Output::Up(Answer::Lost(LossReport::new(first, count, why)));
    assert_eq!(outputs[1..3], [Output::Up(here(1)), Output::Up(here(2))]);
    assert_eq!(
        outputs[3..],
        [lost(2, 1, "host h1: killed"), Output::Kill { agent: 0 }, lost(1, 2, "host h0: exit status 1")]
    );
}

/// An agent that reported the same loss again and again filled the memory of all agents above it.
#[test]
fn a_loss_is_reported_once() {
    let lines = [GREETING, &here(1).to_string(), &here(2).to_string(), &here(3).to_string()];
    for is_done in [false, true] {
        let mut starting = started(3, 1, &lines);
        if is_done {
            starting.line(0, "done", LIMIT / 2);
        }
        starting.line(0, "lost 3 1 host h2: killed", LIMIT / 2);
        // The agent above it is lost later, with all that it has started.
        starting.line(0, "lost 2 2 host h1: killed", LIMIT / 2);
        let before = outputs(&mut starting);
        assert!(!before.iter().any(|output| matches!(output, Output::Kill { .. })), "{before:?}");
        starting.line(0, "lost 3 1 host h2: killed", LIMIT / 2);
        let after = outputs(&mut starting);
        assert_eq!(after[0], Output::Kill { agent: 0 }, "{after:?}");
        let Output::Up(Answer::Lost(loss) | Answer::Down(loss)) = &after[1] else { panic!("{after:?}") };
        assert!(loss.why.contains("it says `lost 3 1 host h2: killed`"), "{}", loss.why);
        assert_eq!(loss.count, if is_done { 3 } else { 1 });
    }
}

#[test]
fn a_report_that_cannot_be_true_costs_the_agent() {
    let (first, second) = (here(1).to_string(), here(2).to_string());
    for lies in [
        &[&*second][..],
        &["wait"],
        &["done"],
        &["lost 1 1 x"],
        &["down 1 1 x"],
        &[GREETING],
        &[&first, &first],
        &[&first, "down 1 1 x"],
        &[&first, "done"],
        &[&first, "down 2 3 x"],
        &[&first, "down 2 1 x", &second],
        &[&first, "down 2 1 x", "lost 2 1 x"],
        &[&first, "lost 2 1 x"],
        &[&first, "lost 1 4 x"],
        &[&first, &second, "down 3 1 x", "lost 2 3 x"],
        &[&first, &second, "down 3 1 x", "done", "wait"],
        &[&first, &second, "down 3 1 x", "done", "done"],
        &[&first, &second, "down 3 1 x", "done", "lost 3 1 x"],
        &[&first, &second, "down 3 1 x", "done", &first],
        &[&first, "here 4 127.0.0.1:1 - x y"],
    ] {
        let mut starting = started(3, 1, &[GREETING]);
        let (lie, true_lines) = lies.split_last().unwrap();
        true_lines.iter().for_each(|line| starting.line(0, line, Duration::ZERO));
        let killed = |starting: &mut Starting| {
            outputs(starting).iter().filter(|output| matches!(output, Output::Kill { .. })).count()
        };
        assert_eq!(killed(&mut starting), 0, "{lies:?}");
        starting.line(0, lie, Duration::ZERO);
        assert_eq!(killed(&mut starting), 1, "{lies:?}");
    }
}

/// The limits of an agent: each valid line begins a new one, up to the limit of the whole start.
#[test]
fn an_agent_may_report_until_its_limit() {
    let nanosecond = Duration::from_nanos(1);
    let (first, second) = (here(1).to_string(), here(2).to_string());
    for (lines, why) in [
        (&[][..], "host h0: it did not answer within 30 s"),
        (&[GREETING], "host h0: it did not answer within 30 s"),
        (&[GREETING, &first], "host h0: it fell silent for 30 s while it was starting others"),
        (&[GREETING, &first, "wait"], "host h0: it fell silent for 30 s while it was starting others"),
        (&[GREETING, &first, &second], "host h0: it fell silent for 30 s while it was starting others"),
    ] {
        let mut starting = started(9, 1, &[]);
        let mut last = Duration::ZERO;
        // A line of a login shell begins no new limit.
        starting.line(0, "Welcome", Duration::from_secs(29));
        for line in lines {
            last += LIMIT - nanosecond;
            starting.tick(last);
            starting.line(0, line, last);
        }
        assert!(starting.deadline().unwrap() <= last + LIMIT);
        starting.tick(last + LIMIT - nanosecond);
        assert_eq!(reports(&mut starting), [], "{lines:?}");
        starting.tick(last + LIMIT);
        let reports = reports(&mut starting);
        let [Answer::Down(loss)] = &reports[..] else { panic!("{lines:?}: {reports:?}") };
        assert!(loss.why.starts_with(why), "{}", loss.why);
    }
}

/// An agent that reported that it waits, and nothing else, kept the start open for ever.
#[test]
fn an_agent_does_not_keep_the_start_open_by_waiting() {
    let mut starting = started(2, 1, &[GREETING, &here(1).to_string()]);
    let whole = LIMIT * LIMITS_EACH * 2;
    let mut now = Duration::ZERO;
    while now + LIMIT / 4 < whole {
        now += LIMIT / 4;
        starting.line(0, "wait", now);
        starting.tick(now);
        assert_eq!(reports(&mut starting), [], "{now:?}");
    }
    starting.tick(whole - Duration::from_nanos(1));
    assert_eq!(reports(&mut starting), []);
    starting.tick(whole);
    let reports = reports(&mut starting);
    let [Answer::Down(loss)] = &reports[..] else { panic!("{reports:?}") };
    assert_eq!(loss.why, "host h0: it was still starting others after 180 s");
}

/// An agent may be done, and live for any time.
#[test]
fn an_agent_that_is_done_has_no_limit_and_is_kept_alive() {
    let mut starting = started(1, 1, &[GREETING, &here(1).to_string(), "done"]);
    assert_eq!(reports(&mut starting), [here(1)]);
    let mut now = Duration::ZERO;
    for _ in 0..400 {
        let due = starting.deadline().unwrap();
        assert_eq!(due, now + ALIVE_PAUSE);
        starting.tick(due - Duration::from_nanos(1));
        assert_eq!(outputs(&mut starting), []);
        starting.tick(due);
        assert_eq!(outputs(&mut starting), [Output::KeepAlive]);
        now = due;
    }
    starting.fail(0, "exit status 1", now);
    assert_eq!((starting.deadline(), starting.is_done()), (None, true));
    let _ = outputs(&mut starting);
    starting.tick(now + LIMIT);
    assert_eq!(outputs(&mut starting), []);
}

#[test]
fn the_longest_limit_does_not_overflow() {
    let mut starting = Starting::new(NonZeroU32::MIN, Duration::MAX, 7);
    starting.start_all(&hosts(3, 2), Duration::from_secs(9));
    starting.tick(Duration::from_secs(1 << 40));
    assert_eq!(reports(&mut starting), []);
}

#[test]
fn as_many_lines_of_a_login_shell_are_passed_over_as_may_be() {
    let mut starting = started(2, 1, &["y"; NOISE_MAX as usize]);
    assert_eq!(reports(&mut starting), []);
    starting.line(0, "z", Duration::ZERO);
    let reports = reports(&mut starting);
    let [Answer::Down(loss)] = &reports[..] else { panic!("{reports:?}") };
    assert_eq!(loss.why, "host h0: it says much that is nothing of this program, such as `z`");
}

/// The last lines of the command that reaches a host explain why it failed. Later lines are log lines of the agent.
#[test]
fn the_last_lines_of_a_log_explain_a_failure_and_later_ones_are_forwarded() {
    let mut starting = started(2, 1, &[]);
    for line in ["1", "2", " ", "3", "4", "5", &"l".repeat(LOG_LINE_MAX + 1)] {
        starting.log_line(0, line);
    }
    starting.fail(0, "exit status 255", Duration::ZERO);
    let long = "l".repeat(LOG_LINE_MAX);
    let first = LossReport::new(1, 1, &format!("host h0: exit status 255: 3; 4; 5; {long}"));
    assert_eq!(reports(&mut starting), [Answer::Down(first)]);
    starting.line(1, GREETING, Duration::ZERO);
    starting.line(1, &here(2).to_string(), Duration::ZERO);
    starting.log_line(1, "it works");
    assert_eq!(outputs(&mut starting), [Output::Log { line: "it works".into() }]);
}

#[test]
fn late_events_of_a_lost_agent_change_nothing() {
    let mut starting = started(2, 1, &[]);
    starting.fail(0, "exit status 1", Duration::ZERO);
    let _ = outputs(&mut starting);
    for number in [0, 7] {
        starting.line(number, GREETING, Duration::ZERO);
        starting.log_line(number, "late");
        starting.fail(number, "again", Duration::ZERO);
    }
    assert_eq!(outputs(&mut starting), []);
}
