//! Standard input and output of processes.

use super::*;
use crate::host::outflow::WINDOW;
use crate::streams::Stream;

/// Output of a process is read to its end, and waits for the writer within the window of its node.
#[test]
fn a_process_that_writes_more_than_the_window_waits_for_the_writer() {
    let mut rig = Rig::new();
    let (_, mut processes) = rig.start(1, false);
    let line = [vec![b'x'; 1023], b"\n".to_vec()].concat();
    let mut wrote = 0;
    // Until the node reads no more: the pipe is full.
    for _ in 0..4 * WINDOW / 1024 {
        match processes[0].out.write(&line) {
            Ok(count) => wrote += count,
            Err(_) => {
                let before = rig.engine.snapshot();
                rig.turns();
                if rig.engine.snapshot() == before {
                    break;
                }
            }
        }
    }
    assert!((WINDOW..2 * WINDOW + (128 << 10)).contains(&wrote), "{wrote} bytes were taken");
    let held = rig.engine.snapshot();
    assert!(
        held.count("unsent output") + held.count("output in transit") <= WINDOW + (128 << 10),
        "{held:?}"
    );
    assert_eq!(held.count("output pipes"), 2);
    let mut read = 0;
    for _ in 0..64 {
        read += rig.written().iter().map(|(_, _, text)| text.len()).sum::<usize>();
    }
    processes[0].out.write_all(b"\n").unwrap();
    rig.turns();
    read += rig.written().iter().map(|(_, _, text)| text.len()).sum::<usize>();
    assert_eq!(read, wrote + 1);
    rig.ends_all(processes);
    rig.assert_empty();
}

/// The last line of a process that ends without a line end, and what it wrote just before its end, are output.
#[test]
fn the_end_of_output_is_written_and_waited_for() {
    let mut rig = Rig::new();
    let (_, mut processes) = rig.start(1, false);
    processes[0].out.write_all(b"one\ntwo").unwrap();
    rig.turns();
    let member = processes[0].member;
    assert_eq!(rig.written(), [(member, Stream::Out, "one\n".into())]);
    let (done, drained) = mpsc::sync_channel(1);
    rig.send(EngineMessage::Drain(done));
    rig.turns();
    assert!(drained.try_recv().is_err(), "the process may write more");
    rig.ends_all(processes);
    rig.until(|rig| rig.engine.snapshot().count("output pipes") == 0);
    assert!(drained.try_recv().is_err(), "the last line is not written yet");
    assert_eq!(rig.written(), [(member, Stream::Out, "two".into())]);
    drained.try_recv().unwrap();
    rig.assert_empty();
}

#[test]
fn an_error_of_the_writer_is_reported() {
    let mut rig = Rig::new();
    let (_, mut processes) = rig.start(1, false);
    processes[0].out.write_all(b"one\n").unwrap();
    rig.turns();
    assert_eq!(rig.writings.try_recv().unwrap().len(), 1);
    rig.send(EngineMessage::Written(Err(ErrorKind::BrokenPipe.into())));
    rig.turns();
    assert!(rig.events.try_iter().any(|event| matches!(event, HostEvent::Output(_))));
    assert_eq!(rig.engine.snapshot().count("output in transit"), 0);
}

#[test]
fn input_waits_for_its_reader_and_ends_with_it() {
    let mut rig = Rig::new();
    let early = rig.feed(b"early ");
    assert!(early.try_recv().is_err(), "no process reads yet");
    let (_, mut processes) = rig.start(1, true);
    assert!(early.try_recv().unwrap().is_ok());
    // More than the pipe takes.
    let long = vec![b'y'; 200_000];
    let fed = rig.feed(&long);
    let next = rig.feed(b"z");
    assert!(fed.try_recv().is_err() && next.try_recv().is_err());
    let mut read = Vec::new();
    for _ in 0..64 {
        read.extend(processes[0].reads().unwrap_or_default());
        rig.turns();
    }
    assert!(fed.try_recv().unwrap().is_ok() && next.try_recv().unwrap().is_ok());
    assert_eq!(read, [b"early ".as_slice(), &long, b"z"].concat());
    assert!(rig.feed(b"").try_recv().unwrap().is_ok());
    rig.until(|_| processes[0].reads() == Some(Vec::new()));
    assert!(rig.feed(b"more").try_recv().unwrap().is_err());
    assert_eq!(rig.engine.snapshot().count("input pipes"), 0);
    rig.ends_all(processes);
    rig.assert_empty();
}

/// Input of a process that had ended was kept, and its feeder waited for ever.
#[test]
fn input_of_a_process_that_has_ended_is_refused() {
    let mut rig = Rig::new();
    let (_, processes) = rig.start(1, true);
    let fed = rig.feed(&vec![b'y'; 200_000]);
    assert!(fed.try_recv().is_err());
    rig.ends_all(processes);
    let mut refused = None;
    rig.until(|_| {
        refused = refused.take().or(fed.try_recv().ok());
        refused.is_some()
    });
    assert!(refused.unwrap().is_err());
    assert!(rig.feed(b"more").try_recv().unwrap().is_err());
    rig.assert_empty();
    // The next group that reads has an input of its own.
    let (_, mut processes) = rig.start(1, true);
    assert!(rig.feed(b"again").try_recv().unwrap().is_ok());
    assert_eq!(processes[0].reads().as_deref(), Some(b"again".as_slice()));
    rig.ends_all(processes);
    rig.assert_empty();
}

/// The end of a group closed the input of a later one.
#[test]
fn the_end_of_another_group_does_not_end_the_input() {
    let mut rig = Rig::new();
    let (_, first) = rig.start(1, true);
    let (_, mut second) = rig.start(1, true);
    rig.ends_all(first);
    assert!(rig.feed(b"still").try_recv().unwrap().is_ok());
    assert_eq!(second[0].reads().as_deref(), Some(b"still".as_slice()));
    rig.ends_all(second);
    rig.assert_empty();
}
