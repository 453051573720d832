//! Standard input of the process that reads it, where that is on this node.

use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;
use std::sync::mpsc::SyncSender;

use bytes::{Buf as _, Bytes};
use chained_gpc::{Deferred, Reply};
use rustix::io::Errno;

/// Who waits until some input has been taken.
pub(super) enum From {
    /// A thread of this process.
    Here(SyncSender<io::Result<()>>),
    /// Another node.
    Node(Deferred),
}

impl From {
    fn tell(self, result: io::Result<()>) {
        match (self, result) {
            // Nobody waits any more: fine.
            (From::Here(then), result) => drop(then.send(result)),
            (From::Node(answer), Ok(())) => answer.reply(Reply::default()),
            (From::Node(answer), Err(error)) => answer.fail(error),
        }
    }
}

/// Input on its way into the pipe. Bounded, since whoever gives some waits until it is taken.
#[derive(Default)]
pub(super) struct Feeding {
    pipe: Option<OwnedFd>,
    /// Whether there has been a pipe, which is closed now.
    closed: bool,
    queue: VecDeque<(Bytes, From)>,
}

impl Feeding {
    /// The process that reads is being started.
    pub(super) fn open(&mut self, pipe: OwnedFd) {
        self.pipe = Some(pipe);
        self.write();
    }

    /// More input; without bytes, its end.
    pub(super) fn take(&mut self, data: Bytes, from: From) {
        self.queue.push_back((data, from));
        self.write();
    }

    /// Writes as much as the pipe takes.
    pub(super) fn write(&mut self) {
        while let Some((data, _)) = self.queue.front_mut() {
            let result = match &self.pipe {
                None if self.closed => Err(ErrorKind::BrokenPipe.into()),
                None => return,
                Some(_) if data.is_empty() => Ok(self.close()),
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
                from.tell(result);
            }
        }
    }

    fn close(&mut self) {
        self.pipe = None;
        self.closed = true;
    }
}
