//! Limits of an agent's session, on both sides of each.

use proptest::prelude::*;

use super::*;
use crate::NodeSettings;
use crate::remote::share::HostIds;

const START_LIMIT: Duration = Duration::from_secs(40);

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn task() -> Task {
    Task {
        limit: START_LIMIT,
        fan_out: std::num::NonZeroU32::MIN,
        network: None,
        rsh: vec!["ssh".into()],
        program: "gpc".into(),
        arguments: Vec::new(),
        settings: NodeSettings::default(),
        share: vec![HostIds { first: 1, count: 2, name: "a".into() }],
    }
}

/// A session that has its task since `now`.
fn begun(now: Duration) -> Session {
    let mut session = Session::new(now);
    let orders = session.receive(task().text_for(&task().share).as_bytes(), now).unwrap();
    assert!(matches!(&orders[..], [Order::Task(received)] if *received == task()));
    session
}

/// Every launch over hosts would end after two minutes if keep-alive lines did not count.
#[test]
fn an_agent_outlives_any_time_with_keep_alive_lines_and_two_minutes_without() {
    let mut session = begun(seconds(7));
    for now in (7..4000).step_by(15) {
        assert!(!session.is_abandoned(seconds(now)));
        assert!(session.receive(b"alive\n", seconds(now)).unwrap().is_empty());
    }
    let last = seconds(3997);
    assert!(!session.is_abandoned(last + SILENCE_MAX));
    assert!(session.is_abandoned(last + SILENCE_MAX + Duration::from_nanos(1)));
    assert_eq!(SILENCE_MAX, seconds(120));
    // Before its task, too.
    let idle = Session::new(seconds(5));
    assert!(!idle.is_abandoned(seconds(125)) && idle.is_abandoned(seconds(126)));
    assert_eq!((idle.wait_limit(seconds(5)), idle.wait_limit(seconds(200))), (seconds(120), WAIT_MIN));
}

#[test]
fn an_agent_that_starts_others_reports_each_quarter_of_the_limit_until_it_is_done() {
    let mut session = begun(seconds(1));
    assert_eq!(session.wait_limit(seconds(1)), seconds(10));
    assert_eq!(session.report(false, seconds(10)), None);
    assert_eq!(session.report(false, seconds(11)), Some(Answer::Wait));
    assert_eq!(session.report(false, seconds(20)), None);
    assert_eq!(session.report(false, seconds(21)), Some(Answer::Wait));
    assert_eq!(session.report(true, seconds(22)), Some(Answer::Done));
    assert_eq!(session.report(true, seconds(60)), None, "it is done once");
    assert_eq!(session.wait_limit(seconds(61)), seconds(60));
    assert_eq!(Session::new(seconds(1)).report(true, seconds(90)), None, "it has no task");
}

/// The pause between reports begins with the task, however late that comes. If it is longer than the silence that ends
/// an agent, the agent wakes for that silence: its root may be gone.
#[test]
fn an_agent_wakes_for_its_report_and_for_the_end_of_its_root() {
    let begun = |limit| {
        let task = Task { limit, ..task() };
        let mut session = Session::new(seconds(1));
        session.receive(task.text_for(&task.share).as_bytes(), seconds(31)).unwrap();
        session
    };
    let mut session = begun(START_LIMIT);
    assert_eq!(session.wait_limit(seconds(31)), seconds(10));
    assert_eq!(session.report(false, seconds(40)), None);
    assert_eq!(session.report(false, seconds(41)), Some(Answer::Wait));
    assert_eq!(begun(seconds(4000)).wait_limit(seconds(31)), SILENCE_MAX);
}

#[test]
fn orders_are_accepted_once_and_in_their_order() {
    let said = |session: &mut Session, text: &str| match session.receive(text.as_bytes(), seconds(1)) {
        Ok(orders) => orders.len().to_string(),
        Err(error) => error.to_string(),
    };
    assert_eq!(said(&mut begun(seconds(1)), "go\n"), "this agent was told to go before it was done");
    let mut done = begun(seconds(1));
    assert_eq!(done.report(true, seconds(1)), Some(Answer::Done));
    let book = done.receive(b"alive\nsecret 1\npeer", seconds(2)).unwrap();
    assert!(book.is_empty());
    let book = done.receive(b" 2\nalive\ngo\nalive\n", seconds(3)).unwrap();
    assert!(matches!(&book[..], [Order::Book(text)] if **text == "secret 1\npeer 2\ngo\n"));
    for more in ["go\n", "secret 1\n", "start\n"] {
        let mut session = begun(seconds(1));
        let _ = session.report(true, seconds(1));
        assert_eq!(said(&mut session, "go\nalive\n"), "1");
        assert_eq!(said(&mut session, more), "this agent was told more than there is to say");
    }
    assert_eq!(
        said(&mut Session::new(seconds(1)), "start\n"),
        "what this agent was told: `start` is not the greeting of this version: all hosts need the same version of the program"
    );
    let long = "x".repeat(LINE_MAX + 1);
    assert_eq!(said(&mut Session::new(seconds(1)), &long), "this agent was told a line that is too long");
}

#[test]
fn orders_without_an_end_have_a_bound() {
    let mut session = begun(seconds(1));
    let line = format!("{}\n", "x".repeat(LINE_MAX));
    let fits = PART_MAX / line.len();
    for _ in 0..fits {
        assert!(session.receive(line.as_bytes(), seconds(1)).unwrap().is_empty());
    }
    let error = session.receive(line.as_bytes(), seconds(1)).unwrap_err().to_string();
    assert!(error.ends_with("more than there is to say") && session.part.len() <= PART_MAX, "{error}");
}

proptest! {
    /// Orders do not depend on how their bytes arrive, and keep-alive lines never become a part of them.
    #[test]
    fn orders_arrive_in_any_pieces(cut in 1usize..60, alive in any::<bool>()) {
        let text = task().text_for(&task().share);
        let text = if alive { text.replace('\n', "\nalive\n") } else { text };
        let mut session = Session::new(seconds(1));
        let mut orders = Vec::new();
        for piece in text.as_bytes().chunks(cut) {
            orders.extend(session.receive(piece, seconds(1)).unwrap());
        }
        prop_assert!(matches!(&orders[..], [Order::Task(received)] if *received == task()));
    }
}
