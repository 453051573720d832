//! The server over sockets: a thin driver of [`server::Server`](crate::server::Server), on the thread that calls it.
//!
//! It reads at most 64 KiB of a connection at a time and then looks at the others; a broadcast is one piece of memory that waits in the queues of all clients. What waits for a client that does not read delays nobody; where it is 1 GiB, or has waited for two minutes (Linux), the client is lost.
//!
//! Source: IMPI, "Startup": the server.

#![allow(clippy::disallowed_methods, reason = "it tells the machine what time it is")]

mod driver;
mod error;
mod link;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use mio::net::TcpListener;
use mio::{Interest, Poll, Token, Waker};

use self::driver::Driver;
pub use self::error::ServeError;
use crate::server::{Event, Server, Settings};

/// What is told of the listening socket.
const LISTENER: Token = Token(0);

/// What is told when the server is to stop.
const STOPPER: Token = Token(1);

/// A socket that listens for the clients of one session.
#[derive(Debug)]
pub struct Listener {
    listener: TcpListener,
    poll: Poll,
    stopper: Stopper,
}

/// Ends a [session that is served](Listener::serve), from another thread.
#[derive(Clone, Debug)]
pub struct Stopper(Arc<Stopping>);

#[derive(Debug)]
struct Stopping {
    told: AtomicBool,
    waker: Waker,
}

impl Stopper {
    /// The session ends soon, with [`ServeError::Stopped`]; one that has not begun, when it does.
    pub fn stop(&self) {
        self.0.told.store(true, Ordering::Release);
        // It fails where the session has ended already.
        let _ = self.0.waker.wake();
    }

    fn is_told(&self) -> bool {
        self.0.told.load(Ordering::Acquire)
    }
}

impl Listener {
    /// Listens from now on: who comes before [`serve`](Self::serve) waits. With port 0 the system chooses one.
    ///
    /// # Errors
    /// When the address is not this machine's, or is taken.
    pub fn bind(address: SocketAddr) -> io::Result<Listener> {
        let poll = Poll::new()?;
        let mut listener = TcpListener::bind(address)?;
        poll.registry().register(&mut listener, LISTENER, Interest::READABLE)?;
        let waker = Waker::new(poll.registry(), STOPPER)?;
        let stopper = Stopper(Arc::new(Stopping { told: AtomicBool::new(false), waker }));
        Ok(Listener { listener, poll, stopper })
    }

    /// Where it listens.
    ///
    /// # Errors
    /// When the system does not say.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// What ends the session early.
    pub fn stopper(&self) -> Stopper {
        self.stopper.clone()
    }

    /// Serves one session until it is over: `Ok` when all clients have sent FINI. `on_event` is told what happens, with the time since the call; the sockets wait for it, so that it must not write to what may block.
    ///
    /// What still waits to be sent at the end has 5 s to leave.
    ///
    /// # Errors
    /// [`ServeError`]: the first cause.
    pub fn serve(self, settings: Settings, on_event: impl FnMut(Duration, &Event)) -> Result<(), ServeError> {
        let server = Server::new(settings)?;
        let Listener { listener, poll, stopper } = self;
        Driver::new(poll, listener, server, Instant::now(), on_event).run(&stopper)
    }
}
