//! The server over sockets: a thin driver of [`server::Server`](crate::server::Server), on the calling thread.
//!
//! It reads at most 64 KiB from a connection before the others have their turn. A broadcast is stored once, and the
//! queues of all clients share it. A client that does not read delays no other client. If its queue reaches 1 GiB, or
//! has waited for two minutes (Linux), the client is lost.
//!
//! Source: IMPI, "Startup": the server.

mod driver;
mod error;
mod link;
mod stopper;

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use chained_gpc::Clock;
use mio::net::TcpListener;
use mio::{Interest, Poll, Waker};

use self::driver::{Driver, LISTENER, STOPPER};
pub use self::error::ServeError;
pub use self::stopper::Stopper;
use crate::server::{Event, Server, Settings};

/// A socket that listens for the clients of one session.
#[derive(Debug)]
pub struct Listener {
    listener: TcpListener,
    poll: Poll,
    stopper: Stopper,
}

impl Listener {
    /// Listens from now on: clients that connect before [`serve`](Self::serve) wait. If the port is 0, the system
    /// chooses one.
    ///
    /// # Errors
    /// Returns an error if the address does not belong to this machine, or is taken.
    pub fn bind(address: SocketAddr) -> io::Result<Listener> {
        let poll = Poll::new()?;
        let mut listener = TcpListener::bind(address)?;
        poll.registry().register(&mut listener, LISTENER, Interest::READABLE)?;
        let waker = Waker::new(poll.registry(), STOPPER)?;
        Ok(Listener { listener, poll, stopper: Stopper::new(waker) })
    }

    /// The address of the listening socket.
    ///
    /// # Errors
    /// Returns the system's error.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// A handle that ends the session early.
    pub fn stopper(&self) -> Stopper {
        self.stopper.clone()
    }

    /// Serves one session until it is over; returns `Ok` when all clients have sent FINI. `on_event` receives each
    /// event, with the time since the call. It must not block, because the sockets wait for it.
    ///
    /// At the end, outgoing bytes have 5 s to leave.
    ///
    /// # Errors
    /// Returns the first cause, as [`ServeError`].
    pub fn serve(self, settings: Settings, on_event: impl FnMut(Duration, &Event)) -> Result<(), ServeError> {
        self.serve_by(Clock::system(), settings, on_event)
    }

    /// Like [`serve`](Self::serve), by this clock, which shows zero.
    fn serve_by(
        self,
        clock: Clock,
        settings: Settings,
        on_event: impl FnMut(Duration, &Event),
    ) -> Result<(), ServeError> {
        let server = Server::new(settings)?;
        let Listener { listener, poll, stopper } = self;
        Driver::new(poll, listener, server, clock, on_event).run(&stopper)
    }
}
