//! Kills, signals, ends of processes and of the domain.

use super::*;
use crate::fault::FaultKind;
use crate::supervisor::Recipients;

/// A process finalized and ended. The node learned of the end first, and took it for a failure.
#[test]
fn requests_before_the_end_count_before_the_end() {
    let mut rig = Rig::new();
    let (group, mut processes) = rig.start(2, false);
    let _subscribed = rig.ask(Request::Subscribe(group));
    for process in &mut processes {
        process.asks(&Request::Init);
    }
    rig.turns();
    processes[0].asks(&Request::Finalize);
    rig.supervisor.tell(&SupervisorEvent::Ended(processes[0].member, Exit::Code(0)));
    rig.supervisor.tell(&SupervisorEvent::Ended(processes[1].member, Exit::Code(0)));
    rig.turns();
    let death = |event| match event {
        HostEvent::Death(death) => Some((death.member.rank, death.finalized)),
        _ => None,
    };
    assert_eq!(rig.events.try_iter().filter_map(death).collect::<Vec<_>>(), [(0, true), (1, false)]);
}

#[test]
fn a_kill_is_ordered_once_and_answered_when_nothing_is_left() {
    let mut rig = Rig::new();
    let (group, processes) = rig.start(1, false);
    let (one, two) = (rig.ask(Request::Kill(group)), rig.ask(Request::Kill(group)));
    let grace = Some(Limits::default().grace);
    let kills: Vec<_> = rig.supervisor.orders().into_iter().map(|(order, _)| order).collect();
    assert_eq!(kills, [SupervisorOrder::Kill { group, grace }]);
    let member = processes[0].member;
    drop(processes);
    rig.ends(member, Exit::Signal(15));
    assert!(one.try_recv().is_err() && two.try_recv().is_err(), "descendants may be left");
    rig.tell(SupervisorEvent::Emptied(group));
    assert_eq!((one.try_recv().unwrap(), two.try_recv().unwrap()), (Ok(Answer::Done), Ok(Answer::Done)));
    rig.assert_empty();
}

#[test]
fn a_signal_goes_to_the_groups_that_run() {
    let mut rig = Rig::new();
    let (first, processes) = rig.start(1, false);
    let (second, _others) = rig.start(1, false);
    let (third, _more) = rig.start(1, false);
    rig.ends_all(processes);
    let signals = |rig: &mut Rig| -> Vec<_> {
        let signal = |(order, _)| match order {
            SupervisorOrder::Signal { group, signal, to } => (group, signal, to),
            other => panic!("{other:?}"),
        };
        rig.supervisor.orders().into_iter().map(signal).collect()
    };
    let (all, some) = (Recipients::All, Recipients::NotJoined);
    rig.send(EngineMessage::Signal { group: None, signal: 10, to: all });
    rig.turns();
    assert_eq!(signals(&mut rig), [(second, 10, all), (third, 10, all)]);
    rig.send(EngineMessage::Signal { group: Some(third), signal: 12, to: some });
    rig.turns();
    assert_eq!(signals(&mut rig), [(third, 12, some)]);
    assert_ne!(first, third);
}

/// The node kept each group that had ended, and all that had waited for it.
#[test]
fn many_groups_leave_nothing() {
    let mut rig = Rig::with(None, true);
    for number in 1..20 {
        let (group, mut processes) = rig.start(2, number % 2 == 0);
        assert_eq!(group, GroupId(number));
        processes[0].asks(&Request::Init);
        processes[1].out.write_all(b"some output").unwrap();
        rig.turns();
        rig.ends_all(processes);
        rig.until(|rig| rig.engine.snapshot().count("output pipes") == 0);
        rig.written();
        rig.assert_empty();
    }
}

/// A process that has registered and closes its link counts as failed after 10 s.
#[test]
fn a_process_without_a_link_has_ten_seconds_to_end() {
    let mut rig = Rig::new();
    let (group, mut processes) = rig.start(1, false);
    let process = &mut processes[0];
    process.asks(&Request::Init);
    rig.turns();
    let (other, _peer) = UnixStream::pair().unwrap();
    drop(std::mem::replace(&mut process.link, other));
    rig.until(|rig| rig.engine.snapshot().count("links") == 0);
    rig.passes(9_999);
    assert!(rig.supervisor.orders().is_empty());
    rig.passes(1);
    let kills = rig.supervisor.orders();
    assert!(
        matches!(kills[..], [(SupervisorOrder::Kill { group: killed, .. }, _)] if killed == group),
        "{kills:?}"
    );
    assert!(rig.events.try_iter().any(|event| matches!(event, HostEvent::Aborted { code: 1, .. })));
}

#[test]
fn the_end_kills_all_groups_and_answers_everything() {
    let mut rig = Rig::new();
    let (group, processes) = rig.start(1, false);
    let (done, ended) = mpsc::sync_channel(1);
    rig.send(EngineMessage::End(done));
    rig.turns();
    let kills = rig.supervisor.orders();
    assert!(
        matches!(kills[..], [(SupervisorOrder::Kill { group: killed, .. }, _)] if killed == group),
        "{kills:?}"
    );
    assert!(!rig.engine.over && ended.try_recv().is_err());
    let late = rig.ask(Request::Groups).try_recv().unwrap();
    assert_eq!(late.unwrap_err().kind, FaultKind::DomainEnded);
    let member = processes[0].member;
    drop(processes);
    rig.ends(member, Exit::Signal(9));
    rig.tell(SupervisorEvent::Emptied(group));
    assert!(rig.engine.over);
    rig.assert_empty();
    let Rig { engine, events, .. } = rig;
    let mut over = false;
    engine.run(|| over = true);
    assert!(over && ended.try_recv().is_ok());
    assert!(matches!(events.try_iter().last(), Some(HostEvent::Ended)));
}

/// A group that cannot be killed held up the end of the domain. It ends after the grace period and the limit of a
/// request.
#[test]
fn the_end_waits_as_long_as_the_limits_say() {
    let mut rig = Rig::new();
    let _group = rig.start(1, false);
    let (done, _ended) = mpsc::sync_channel(1);
    rig.send(EngineMessage::End(done));
    rig.turns();
    let limits = Limits::default();
    let wait = (limits.grace + limits.ask).as_millis() as u64;
    rig.passes(wait - 1);
    assert!(!rig.engine.over);
    rig.passes(1);
    assert!(rig.engine.over);
}

#[test]
fn a_process_that_has_finalized_may_run_on_without_a_link() {
    let mut rig = Rig::new();
    let (_, mut processes) = rig.start(1, false);
    let process = &mut processes[0];
    process.asks(&Request::Init);
    process.asks(&Request::Finalize);
    rig.turns();
    let (other, _peer) = UnixStream::pair().unwrap();
    drop(std::mem::replace(&mut process.link, other));
    rig.turns();
    rig.passes(60_000);
    assert!(rig.supervisor.orders().is_empty());
}
