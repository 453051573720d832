//! A slow wire: a proxy that passes a limited number of bytes per second each way, with little buffer space before it.

use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use chained_gpc::runtime::Address;
use socket2::{Domain, Protocol, SockAddr, Socket, Type};

/// Size of the system's buffer before the wire, in bytes: the system doubles it, and lets the peer send about half.
const BUFFER: usize = 16 << 10;

/// Bytes of a TCP segment, as on Ethernet; a segment of the loopback interface is longer than the buffer.
const MSS: u32 = 1448;

/// Interval at which bytes pass.
const TICK: Duration = Duration::from_millis(10);

/// A wire to a node. Its threads end with the connections.
pub(crate) struct Wire {
    /// Address of the near end.
    pub(crate) address: Address,
    passed: Arc<AtomicU64>,
    cut: Arc<AtomicBool>,
}

enum Listening {
    Tcp(Socket),
    Unix(UnixListener),
}

impl Wire {
    /// Creates a wire to a listening node; both ends have the same kind of address.
    pub(crate) fn to(node: &Address, bytes_per_s: u64) -> io::Result<Wire> {
        let (listening, address) = match node {
            Address::Tcp(_) => {
                let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP))?;
                socket.set_recv_buffer_size(BUFFER)?;
                socket.set_tcp_mss(MSS)?;
                socket.bind(&SockAddr::from(std::net::SocketAddr::from(([127, 0, 0, 1], 0))))?;
                socket.listen(16)?;
                let address = socket.local_addr()?.as_socket().map(Address::Tcp);
                (Listening::Tcp(socket), address.ok_or_else(|| io::Error::other("no address"))?)
            }
            _ => {
                let folder = tempfile::tempdir()?.keep();
                let path = folder.join("wire");
                (Listening::Unix(UnixListener::bind(&path)?), Address::Unix(path))
            }
        };
        let (passed, cut) = (Arc::<AtomicU64>::default(), Arc::<AtomicBool>::default());
        let wire = Wire { address, passed: passed.clone(), cut: cut.clone() };
        let node = node.clone();
        thread::spawn(move || {
            // Ends with the process of the test: connections may arrive at any time.
            while let Ok((near, far)) = listening.next_pair(&node) {
                let Ok((near_too, far_too)) = near.try_clone().and_then(|near| Ok((near, far.try_clone()?)))
                else {
                    return;
                };
                let (passed, cut) = (passed.clone(), cut.clone());
                let (passed_too, cut_too) = (passed.clone(), cut.clone());
                thread::spawn(move || pass(near, far, bytes_per_s, &passed, &cut));
                thread::spawn(move || pass(far_too, near_too, bytes_per_s, &passed_too, &cut_too));
            }
        });
        Ok(wire)
    }

    /// Waits until this number of bytes has passed.
    pub(crate) fn wait_for(&self, bytes: u64) {
        while self.passed.load(Ordering::Relaxed) < bytes {
            thread::sleep(TICK);
        }
    }

    /// Stops all bytes from now on, without an error at either end.
    pub(crate) fn cut(&self) {
        self.cut.store(true, Ordering::Relaxed);
    }
}

impl Listening {
    /// Accepts the next connection, and opens one to the node.
    fn next_pair(&self, node: &Address) -> io::Result<(Socket, Socket)> {
        match (self, node) {
            (Listening::Tcp(socket), Address::Tcp(to)) => {
                let (near, _) = socket.accept()?;
                let far = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP))?;
                far.set_recv_buffer_size(BUFFER)?;
                far.set_tcp_mss(MSS)?;
                far.connect(&SockAddr::from(*to))?;
                near.set_tcp_nodelay(true)?;
                far.set_tcp_nodelay(true)?;
                Ok((near, far))
            }
            (Listening::Unix(listener), Address::Unix(to)) => {
                let (near, _) = listener.accept()?;
                Ok((near.into(), UnixStream::connect(to)?.into()))
            }
            _ => Err(io::Error::other("a wire is of one kind")),
        }
    }
}

/// Passes bytes on at the rate of the wire until one side closes.
fn pass(mut from: Socket, mut to: Socket, bytes_per_s: u64, passed: &AtomicU64, cut: &AtomicBool) {
    let most = (bytes_per_s * TICK.as_millis() as u64 / 1000).max(1) as usize;
    let mut buffer = vec![0; most];
    let mut free = Instant::now();
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        // The wire is busy with the bytes before, and then with these.
        free = free.max(Instant::now()) + Duration::from_nanos(count as u64 * 1_000_000_000 / bytes_per_s);
        thread::sleep(free.saturating_duration_since(Instant::now()));
        while cut.load(Ordering::Relaxed) {
            thread::park();
        }
        if to.write_all(&buffer[..count]).is_err() {
            break;
        }
        passed.fetch_add(count as u64, Ordering::Relaxed);
    }
    // A side that is already closed needs nothing more.
    let _ = to.shutdown(Shutdown::Write);
    let _ = from.shutdown(Shutdown::Read);
}
