//! The helper process of a node's PMIx server: its start, its socket, and its end.

use std::ffi::OsString;
use std::io::{self, Read as _, Write as _};
use std::net::Shutdown;
use std::os::fd::{AsRawFd as _, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use bytes::BytesMut;
use chained_gpc::Clock;
use gpc_launch::name_of;
use gpc_pmix::server::{Event, Events, Order, encode_order, remove_leftovers};

use crate::supervisor::wait_for;

/// The command of a PMIx server: a program that calls [`gpc_pmix::server::run`] on its standard input. The name of the
/// node's host follows its arguments, and the libpmix of its programs if they bring one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PmixCommand {
    /// The program.
    pub program: PathBuf,
    /// Its arguments.
    pub args: Vec<OsString>,
}

/// Most bytes of orders that wait for the helper to read: several times the longest one. A helper that does not read
/// them has failed.
const QUEUE_MAX: usize = 256 << 20;

/// Time between the end of the helper's socket and its exit: the system closes its descriptors first.
const EXIT_LIMIT: Duration = Duration::from_millis(100);

/// Status of an answer that does not fit: `PMIX_ERR_OUT_OF_RESOURCE`.
const TOO_LONG: i32 = -29;

/// Time that the helper has to end: it removes a folder.
const END_LIMIT: Duration = Duration::from_secs(2);

/// A running helper. Dropping it ends it.
pub(super) struct Helper {
    child: Child,
    socket: UnixStream,
    events: Events,
    queue: BytesMut,
    clock: Clock,
}

impl Helper {
    /// Starts the helper of a node whose host has this name, with the libpmix that its programs bring. It has a process
    /// group of its own, so that Ctrl-C at a terminal does not reach it.
    ///
    /// # Errors
    /// A system error: the program cannot be started.
    pub(super) fn start(
        command: &PmixCommand,
        host: &str,
        own: Option<&Path>,
        clock: Clock,
    ) -> io::Result<Helper> {
        let (socket, theirs) = UnixStream::pair()?;
        socket.set_nonblocking(true)?;
        let mut process = Command::new(&command.program);
        // Process lists show the program's own name.
        process.arg0(name_of(&command.program));
        // The variables of a launcher would make the server its client.
        chained_gpc::bootstrap::scrub(&mut process);
        process.args(&command.args).arg(host).args(own);
        process.stdin(Stdio::from(OwnedFd::from(theirs))).stdout(Stdio::null()).process_group(0);
        let child = process.spawn()?;
        Ok(Helper { child, socket, events: Events::default(), queue: BytesMut::new(), clock })
    }

    pub(super) fn descriptor(&self) -> RawFd {
        self.socket.as_raw_fd()
    }

    /// Queues an order. An answer that is too long becomes an error.
    ///
    /// # Errors
    /// The order is too long, or the helper does not read.
    pub(super) fn order(&mut self, order: Order) -> Result<(), String> {
        if let Err(error) = encode_order(&order, &mut self.queue) {
            let Order::Answer { serial, .. } = order else { return Err(error.to_string()) };
            let refused = Order::Answer { serial, answer: Err(TOO_LONG) };
            encode_order(&refused, &mut self.queue).map_err(|error| error.to_string())?;
        }
        if self.queue.len() > QUEUE_MAX {
            return Err(format!("it has not read {QUEUE_MAX} bytes of orders"));
        }
        Ok(())
    }

    /// Writes queued orders as far as the socket takes them.
    ///
    /// # Errors
    /// The helper has ended.
    pub(super) fn flush(&mut self) -> Result<(), String> {
        // Terminates: each iteration writes something, or ends the loop.
        while !self.queue.is_empty() {
            match self.socket.write(&self.queue) {
                Ok(0) => return Err(self.reason("its socket is closed")),
                Ok(count) => drop(self.queue.split_to(count)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.reason(&error.to_string())),
            }
        }
        Ok(())
    }

    /// Reads once. Returns whether there may be more.
    ///
    /// # Errors
    /// The helper has ended.
    pub(super) fn read(&mut self, buffer: &mut [u8]) -> Result<bool, String> {
        match self.socket.read(buffer) {
            Ok(0) => Err(self.reason("it has closed its socket")),
            Ok(count) => {
                self.events.push(&buffer[..count]);
                Ok(true)
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(true),
            Err(error) => Err(self.reason(&error.to_string())),
        }
    }

    /// The next event.
    ///
    /// # Errors
    /// The bytes are invalid.
    pub(super) fn event(&mut self) -> Result<Option<Event>, String> {
        self.events.next_event().map_err(|error| error.to_string())
    }

    /// How the helper has ended, if it has; otherwise what was noticed.
    fn reason(&mut self, noticed: &str) -> String {
        wait_for(&mut self.child, &self.clock.limit(EXIT_LIMIT));
        match self.child.try_wait() {
            Ok(Some(status)) => format!("it has ended: {status}"),
            _ => noticed.to_owned(),
        }
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        // The helper ends when its socket is closed.
        let _ = self.socket.shutdown(Shutdown::Both);
        if !wait_for(&mut self.child, &self.clock.limit(END_LIMIT)) {
            // It may have ended meanwhile.
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
        remove_leftovers();
    }
}
