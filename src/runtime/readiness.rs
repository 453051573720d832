//! The readiness of a link's socket, as the system reports it.

/// The events of a socket.
#[derive(Clone, Copy, Debug)]
pub(super) struct Readiness {
    pub(super) readable: bool,
    pub(super) writable: bool,
    /// The peer has closed its end, or the connection broke.
    pub(super) closed: bool,
}

impl From<&mio::event::Event> for Readiness {
    fn from(event: &mio::event::Event) -> Readiness {
        let closed = event.is_read_closed() || event.is_write_closed() || event.is_error();
        Readiness { readable: event.is_readable() || closed, writable: event.is_writable(), closed }
    }
}
