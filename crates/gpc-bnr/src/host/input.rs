//! Standard input for the process that reads it, if that process is on this node.

use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;
use std::sync::mpsc::SyncSender;

use bytes::Bytes;
use chained_gpc::{Deferred, Reply};
use rustix::io::Errno;

use crate::names::{GroupId, Member, Rank};

/// Standard input of a command, as the descriptor that its only reader gets. So nothing is read that the reader does
/// not read, and a terminal stays a terminal.
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

/// Input on its way into the pipes. Bounded, since each sender waits until its input is written to all of them: the
/// slowest reader sets the pace.
#[derive(Default)]
pub(super) struct InputQueue {
    pipes: Vec<ReaderPipe>,
    /// Whether all pipes have been closed.
    closed: bool,
    /// Ranks whose pipes have been closed lately.
    closed_ranks: Vec<Rank>,
    queue: VecDeque<(Bytes, InputSender)>,
}

/// The pipe to a process that reads.
struct ReaderPipe {
    reader: Member,
    pipe: OwnedFd,
    /// Number of bytes of the first queued input that are in the pipe.
    written: usize,
}

/// Result of writing to one pipe.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Written {
    /// All of the input.
    All,
    /// The pipe is full.
    Some,
    /// The process reads no more.
    Broken,
}

impl ReaderPipe {
    fn write(&mut self, data: &[u8]) -> Written {
        // Terminates: each iteration writes some bytes or returns; signals are finite.
        while let Some(rest) = data.get(self.written..).filter(|rest| !rest.is_empty()) {
            match rustix::io::write(&self.pipe, rest) {
                Ok(count) => self.written += count,
                Err(Errno::AGAIN) => return Written::Some,
                Err(Errno::INTR) => {}
                Err(_) => return Written::Broken,
            }
        }
        Written::All
    }
}

impl InputQueue {
    /// Adds the pipe to a process that reads, which is being started.
    pub(super) fn open(&mut self, pipe: OwnedFd, reader: Member) {
        // Only one group reads at a time.
        self.pipes.retain(|open| open.reader.group == reader.group);
        self.pipes.push(ReaderPipe { reader, pipe, written: 0 });
        self.closed = false;
    }

    /// A group that was to read has ended: refuses further input, unless another group reads.
    pub(super) fn ended(&mut self, group: GroupId) {
        if self.pipes.first().is_none_or(|open| open.reader.group == group) {
            self.close();
        }
    }

    /// Number of processes that may still read.
    #[cfg(any(test, feature = "snapshot"))]
    pub(super) fn open_pipes(&self) -> usize {
        self.pipes.len()
    }

    /// Number of queued inputs.
    #[cfg(feature = "snapshot")]
    pub(super) fn len(&self) -> usize {
        self.queue.len()
    }

    /// Returns the ranks whose pipes were closed since the last call.
    pub(super) fn take_closed(&mut self) -> Vec<Rank> {
        std::mem::take(&mut self.closed_ranks)
    }

    /// Queues input; no bytes mean its end.
    pub(super) fn take(&mut self, data: Bytes, from: InputSender) {
        self.queue.push_back((data, from));
    }

    /// Writes as much as the pipes take.
    pub(super) fn write(&mut self) {
        // Terminates: each iteration takes an input from the queue, or returns.
        while let Some((data, _)) = self.queue.front() {
            let result = if self.pipes.is_empty() {
                match self.closed {
                    true => Err(ErrorKind::BrokenPipe.into()),
                    false => return,
                }
            } else if data.is_empty() {
                self.close();
                Ok(())
            } else {
                let written: Vec<Written> = self.pipes.iter_mut().map(|open| open.write(data)).collect();
                self.remove_broken(&written);
                if written.contains(&Written::Some) {
                    return;
                }
                self.pipes.iter_mut().for_each(|open| open.written = 0);
                if self.pipes.is_empty() { Err(ErrorKind::BrokenPipe.into()) } else { Ok(()) }
            };
            if let Some((_, from)) = self.queue.pop_front() {
                from.answer(result);
            }
        }
    }

    fn remove_broken(&mut self, written: &[Written]) {
        let mut results = written.iter();
        let closed = &mut self.closed_ranks;
        self.pipes.retain(|open| {
            let is_broken = results.next() == Some(&Written::Broken);
            closed.extend(is_broken.then_some(open.reader.rank));
            !is_broken
        });
        self.closed |= self.pipes.is_empty();
    }

    fn close(&mut self) {
        self.closed_ranks.extend(self.pipes.drain(..).map(|open| open.reader.rank));
        self.closed = true;
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::sync::mpsc::sync_channel;

    use super::*;

    const fn member(group: u32, rank: Rank) -> Member {
        Member { group: GroupId(group), rank }
    }

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
        input.open(pipe.into(), member(2, 0));
        input.ended(GroupId(1));
        assert!(input.open_pipes() == 1 && write(&mut input, "text").is_ok());
        input.ended(GroupId(2));
        assert!(input.open_pipes() == 0);
        assert_eq!(write(&mut input, "more").unwrap_err().kind(), ErrorKind::BrokenPipe);
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        assert_eq!(text, "text");
        // The next group has its own.
        let (_reader, pipe) = io::pipe().unwrap();
        input.open(pipe.into(), member(3, 0));
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

    #[test]
    fn all_readers_have_a_copy_and_one_that_reads_no_more_delays_none() {
        let mut input = InputQueue::default();
        let mut pipes: Vec<_> = (0..3).map(|_| io::pipe().unwrap()).collect();
        let mut readers = Vec::new();
        for (rank, (reader, pipe)) in (0..).zip(pipes.drain(..)) {
            rustix::io::ioctl_fionbio(&pipe, true).unwrap();
            rustix::io::ioctl_fionbio(&reader, true).unwrap();
            input.open(pipe.into(), member(1, rank));
            readers.push(reader);
        }
        drop(readers.remove(1));
        // More than a pipe holds.
        let text: Vec<u8> = (0..200_000).map(|at| at as u8).collect();
        let (done, result) = sync_channel(1);
        input.take(Bytes::from(text.clone()), InputSender::Local(done));
        input.write();
        assert_eq!(input.take_closed(), [1]);
        let mut got = [Vec::new(), Vec::new()];
        // Terminates: each turn takes what the pipes hold.
        while got.iter().any(|got| got.len() < text.len()) {
            let mut taken = 0;
            for (reader, got) in readers.iter_mut().zip(&mut got) {
                let mut buffer = vec![0; 70_000];
                let count = reader.read(&mut buffer).unwrap_or(0);
                got.extend_from_slice(&buffer[..count]);
                taken += count;
            }
            assert!(taken > 0, "what a pipe had no room for is lost");
            input.write();
        }
        assert!(result.try_recv().unwrap().is_ok() && got == [text.clone(), text]);
        drop(readers);
        assert_eq!(write(&mut input, "more").unwrap_err().kind(), ErrorKind::BrokenPipe);
    }
}
