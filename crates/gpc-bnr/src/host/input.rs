//! Standard input for the process that reads it, if that process is on this node.

use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;
use std::sync::mpsc::SyncSender;

use bytes::{Buf as _, Bytes};
use chained_gpc::{Deferred, Reply};
use rustix::io::Errno;

use crate::names::GroupId;

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
