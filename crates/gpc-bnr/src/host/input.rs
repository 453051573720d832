//! Standard input for the process that reads it, if that process is on this node.

use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;
use std::sync::mpsc::SyncSender;

use bytes::{Buf as _, Bytes};
use chained_gpc::{Deferred, Reply};
use rustix::io::Errno;

use crate::names::GroupId;

/// Standard input of a command, which rank 0 gets itself: it reads no more than it needs, and a terminal is a terminal.
#[derive(Debug)]
pub struct HostInput {
    /// The descriptor.
    pub descriptor: OwnedFd,
    /// The process group that rank 0 joins, of this process's session, so that it may read the terminal of the session.
    /// `None`: rank 0 leads a session of its own.
    pub process_group: Option<u32>,
}

/// The sender of input, which waits until it is written.
pub(super) enum InputSender {
    /// A thread of this process.
    Local(SyncSender<io::Result<()>>),
    /// Another node.
    Node(Deferred),
}

impl InputSender {
    fn answer(self, result: io::Result<()>) {
        match (self, result) {
            // The receiver may have stopped waiting.
            (InputSender::Local(done), result) => drop(done.send(result)),
            (InputSender::Node(answer), Ok(())) => answer.reply(Reply::default()),
            (InputSender::Node(answer), Err(error)) => answer.fail(error),
        }
    }
}

/// Input on its way into the pipe. Bounded, since each sender waits until its input is written.
#[derive(Default)]
pub(super) struct InputQueue {
    pipe: Option<OwnedFd>,
    /// The group whose process reads the pipe.
    reader: Option<GroupId>,
    /// Whether the pipe has been closed.
    closed: bool,
    queue: VecDeque<(Bytes, InputSender)>,
}

impl InputQueue {
    /// Sets the pipe to the process that reads, which is being started.
    pub(super) fn open(&mut self, pipe: OwnedFd, reader: GroupId) {
        self.pipe = Some(pipe);
        self.reader = Some(reader);
        self.closed = false;
    }

    /// A group that was to read has ended: refuses further input, unless another group reads.
    pub(super) fn ended(&mut self, group: GroupId) {
        if self.reader.is_none_or(|reader| reader == group) {
            self.close();
        }
    }

    /// Whether a process may still read.
    pub(super) fn is_open(&self) -> bool {
        self.pipe.is_some()
    }

    /// Number of queued inputs.
    #[cfg(feature = "snapshot")]
    pub(super) fn len(&self) -> usize {
        self.queue.len()
    }

    /// Queues input; no bytes mean its end.
    pub(super) fn take(&mut self, data: Bytes, from: InputSender) {
        self.queue.push_back((data, from));
    }

    /// Writes as much as the pipe takes.
    pub(super) fn write(&mut self) {
        while let Some((data, _)) = self.queue.front_mut() {
            let result = match &self.pipe {
                None if self.closed => Err(ErrorKind::BrokenPipe.into()),
                None => return,
                Some(_) if data.is_empty() => {
                    self.close();
                    Ok(())
                }
                Some(pipe) => match rustix::io::write(pipe, data) {
                    Ok(count) if count < data.len() => {
                        data.advance(count);
                        continue;
                    }
                    Ok(_) => Ok(()),
                    Err(Errno::AGAIN) => return,
                    Err(Errno::INTR) => continue,
                    Err(error) => {
                        self.close();
                        Err(error.into())
                    }
                },
            };
            if let Some((_, from)) = self.queue.pop_front() {
                from.answer(result);
            }
        }
    }

    fn close(&mut self) {
        (self.pipe, self.reader) = (None, None);
        self.closed = true;
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::sync::mpsc::sync_channel;

    use super::*;

    fn write(input: &mut InputQueue, data: &'static str) -> io::Result<()> {
        let (done, result) = sync_channel(1);
        input.take(Bytes::from_static(data.as_bytes()), InputSender::Local(done));
        input.write();
        result.try_recv().expect("the pipe has room, or is closed")
    }

    /// The end of a group that reads nothing closed the input of the one that does.
    #[test]
    fn the_input_ends_with_the_group_that_reads_it() {
        let (mut reader, pipe) = io::pipe().unwrap();
        let mut input = InputQueue::default();
        input.open(pipe.into(), GroupId(2));
        input.ended(GroupId(1));
        assert!(input.is_open() && write(&mut input, "text").is_ok());
        input.ended(GroupId(2));
        assert!(!input.is_open());
        assert_eq!(write(&mut input, "more").unwrap_err().kind(), ErrorKind::BrokenPipe);
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        assert_eq!(text, "text");
        // The next group has its own.
        let (_reader, pipe) = io::pipe().unwrap();
        input.open(pipe.into(), GroupId(3));
        assert!(write(&mut input, "next").is_ok());
    }

    /// Input of a group that never started waited for ever.
    #[test]
    fn input_that_nobody_will_read_is_refused() {
        let mut input = InputQueue::default();
        let (done, result) = sync_channel(1);
        input.take(Bytes::from_static(b"text"), InputSender::Local(done));
        input.write();
        assert!(result.try_recv().is_err(), "a group may still read it");
        input.ended(GroupId(1));
        input.write();
        assert_eq!(result.try_recv().unwrap().unwrap_err().kind(), ErrorKind::BrokenPipe);
    }
}
