//! Resolves host names within a time limit.
//!
//! The system's look-up may block as long as its resolver decides, and cannot be interrupted. So it runs on a thread of
//! its own. The caller gives up after its limit, and the thread ends with its look-up. At most [`LOOK_UPS_MAX`] run
//! concurrently in the process, even if some of them hang.
#![allow(
    clippy::disallowed_methods,
    reason = "a name service is waited for by the clock, each wait with a limit"
)]

use std::fmt;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr, ToSocketAddrs as _};
use std::sync::{Arc, Condvar, LazyLock, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::channel::channel;
use crate::wire::Shown;

/// Maximum number of concurrent look-ups: enough for the neighbours of a process in a tree. Each that hangs occupies a
/// thread.
pub const LOOK_UPS_MAX: usize = 8;

/// Why a look-up has not ended in time.
pub(crate) const NO_ANSWER: &str = "the name service does not answer";

/// A function that returns the addresses of a host.
type LookUp = dyn Fn(&str) -> io::Result<Vec<IpAddr>> + Send + Sync;

/// Resolves names within a time limit. Clones share the bound on concurrent look-ups; all that come from
/// [`system`](Self::system) share that of the process.
///
/// ```
/// use std::time::Duration;
///
/// use chained_gpc::Resolver;
///
/// // An address needs no look-up.
/// let found = Resolver::system().addresses("127.0.0.1:4000", Duration::from_secs(5))?;
/// assert_eq!(found, ["127.0.0.1:4000".parse()?]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Resolver {
    look_up: Arc<LookUp>,
    slots: Arc<Slots>,
}

impl Resolver {
    /// Returns the system's resolver: `/etc/hosts`, the domain name system, and its other configured sources.
    pub fn system() -> Resolver {
        static SYSTEM: LazyLock<Resolver> = LazyLock::new(|| {
            Resolver::by(|name| Ok((name, 0).to_socket_addrs()?.map(|address| address.ip()).collect()))
        });
        SYSTEM.clone()
    }

    /// Creates a resolver from a function that returns the addresses of a host, best first. It is called on several
    /// threads concurrently.
    pub fn by(look_up: impl Fn(&str) -> io::Result<Vec<IpAddr>> + Send + Sync + 'static) -> Resolver {
        Resolver { look_up: Arc::new(look_up), slots: Arc::default() }
    }

    /// Returns the addresses of a host, best first. A numeric address is returned at once.
    ///
    /// # Errors
    /// If the look-up fails, finds nothing, or does not end within `limit`: with the name and the time.
    pub fn host(&self, name: &str, limit: Duration) -> io::Result<Vec<IpAddr>> {
        let begun = Instant::now();
        self.look_up(name, limit).map_err(|error| {
            let (name, tenths) = (Shown(name), (begun.elapsed().as_millis() + 50) / 100);
            let took = format!("{}.{} s", tenths / 10, tenths % 10);
            let why = format!("cannot find the address of `{name}`, after {took}: {error}");
            io::Error::new(error.kind(), why)
        })
    }

    /// The same, but the error has only the reason.
    pub(crate) fn look_up(&self, name: &str, limit: Duration) -> io::Result<Vec<IpAddr>> {
        if let Ok(address) = name.parse() {
            return Ok(vec![address]);
        }
        let begun = Instant::now();
        let Some(slot) = Slots::take(&self.slots, limit) else {
            let why = format!("{NO_ANSWER}, not even to {LOOK_UPS_MAX} earlier look-ups");
            return Err(io::Error::new(ErrorKind::TimedOut, why));
        };
        let (found, wait) = channel();
        let (owned, look_up) = (name.to_owned(), Arc::clone(&self.look_up));
        let work = move || {
            let answer = look_up(&owned);
            drop(slot);
            // The caller may have given up.
            let _ = found.send(answer);
        };
        thread::Builder::new().name("gpc-resolve".into()).spawn(work)?;
        match wait.recv_timeout(limit.saturating_sub(begun.elapsed())) {
            Ok(Ok(addresses)) if addresses.is_empty() => {
                Err(io::Error::new(ErrorKind::NotFound, "it has no address"))
            }
            Ok(answer) => answer,
            Err(_) => Err(io::Error::new(ErrorKind::TimedOut, NO_ANSWER)),
        }
    }

    /// Returns the addresses of `HOST:PORT`, best first.
    ///
    /// # Errors
    /// As for [`host`](Self::host), and if the text has another form.
    pub fn addresses(&self, server: &str, limit: Duration) -> io::Result<Vec<SocketAddr>> {
        if let Ok(address) = server.parse() {
            return Ok(vec![address]);
        }
        let parts = server.rsplit_once(':').and_then(|(host, port)| Some((host, port.parse().ok()?)));
        let Some((host, port)) = parts.filter(|(host, _)| !host.is_empty()) else {
            let why = format!("`{}` is not of the form HOST:PORT", Shown(server));
            return Err(io::Error::new(ErrorKind::InvalidInput, why));
        };
        Ok(self.host(host, limit)?.into_iter().map(|ip| SocketAddr::new(ip, port)).collect())
    }
}

impl fmt::Debug for Resolver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Resolver")
    }
}

/// The number of running look-ups.
#[derive(Debug, Default)]
struct Slots {
    taken: Mutex<usize>,
    freed: Condvar,
}

impl Slots {
    fn taken(&self) -> MutexGuard<'_, usize> {
        // No code panics while it holds the lock.
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a slot once one is free; `None` if none is free within the limit.
    fn take(slots: &Arc<Slots>, limit: Duration) -> Option<Slot> {
        let full = |taken: &mut usize| *taken >= LOOK_UPS_MAX;
        let waited = slots.freed.wait_timeout_while(slots.taken(), limit, full);
        let (mut taken, waited) = waited.unwrap_or_else(PoisonError::into_inner);
        (!waited.timed_out()).then(|| {
            *taken += 1;
            Slot(Arc::clone(slots))
        })
    }
}

/// A running look-up's slot; its drop frees it.
struct Slot(Arc<Slots>);

impl Drop for Slot {
    fn drop(&mut self) {
        *self.0.taken() -= 1;
        self.0.freed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    const LONG: Duration = Duration::from_secs(3600);
    const SHORT: Duration = Duration::from_millis(20);

    /// With a resolver that never responded, a program waited for ever, despite its time limit.
    #[test]
    fn a_look_up_that_hangs_ends_with_the_limit_and_names_the_host() {
        let gate = Arc::new(Barrier::new(2));
        let held = gate.clone();
        let hangs = Resolver::by(move |_| {
            held.wait();
            Ok(vec![[10, 0, 0, 1].into()])
        });
        let error = hangs.addresses("head.cluster:4000", SHORT).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TimedOut);
        let text = error.to_string();
        assert!(text.starts_with("cannot find the address of `head.cluster`, after 0."), "{text}");
        assert!(text.ends_with("the name service does not answer"), "{text}");
        gate.wait();
    }

    #[test]
    fn no_more_look_ups_run_at_once_than_the_bound_and_a_free_slot_is_taken() {
        let gate = Arc::new(Barrier::new(LOOK_UPS_MAX + 1));
        let (held, calls) = (gate.clone(), Arc::new(AtomicUsize::new(0)));
        let counted = calls.clone();
        let hangs = Resolver::by(move |_| {
            // The later look-ups do not wait.
            if counted.fetch_add(1, Ordering::SeqCst) < LOOK_UPS_MAX {
                held.wait();
            }
            Ok(vec![[10, 0, 0, 1].into()])
        });
        for _ in 0..LOOK_UPS_MAX {
            assert_eq!(hangs.host("a", SHORT).unwrap_err().kind(), ErrorKind::TimedOut);
        }
        let text = hangs.host("b", SHORT).unwrap_err().to_string();
        assert!(text.contains("`b`") && text.ends_with("not even to 8 earlier look-ups"), "{text}");
        thread::scope(|scope| {
            let waits = scope.spawn(|| hangs.clone().host("c", LONG));
            gate.wait();
            assert_eq!(waits.join().unwrap().unwrap(), [IpAddr::from([10, 0, 0, 1])]);
        });
        assert_eq!(calls.load(Ordering::SeqCst), LOOK_UPS_MAX + 1, "`b` was never looked up");
    }

    /// A thread that already slept was not woken: it found the slot when its time was over.
    #[test]
    fn a_freed_slot_wakes_a_waiting_thread() {
        let slots = Arc::<Slots>::default();
        let mut taken: Vec<Slot> =
            (0..LOOK_UPS_MAX).filter_map(|_| Slots::take(&slots, Duration::ZERO)).collect();
        assert!(taken.len() == LOOK_UPS_MAX && Slots::take(&slots, Duration::ZERO).is_none());
        let begins = Barrier::new(2);
        let woken = thread::scope(|scope| {
            (0..20).all(|_| {
                let waits = scope.spawn(|| {
                    begins.wait();
                    Slots::take(&slots, Duration::from_secs(10))
                });
                begins.wait();
                // Long enough for it to fall asleep, nearly always.
                thread::sleep(Duration::from_millis(5));
                taken.pop();
                let woken = (0..500).any(|_| {
                    thread::sleep(Duration::from_millis(if waits.is_finished() { 0 } else { 10 }));
                    waits.is_finished()
                });
                taken.push(waits.join().unwrap().expect("a slot is free"));
                woken
            })
        });
        assert!(woken);
        drop(taken);
        assert_eq!(*slots.taken(), 0);
    }

    #[test]
    fn numeric_addresses_need_no_look_up() {
        let never = Resolver::by(|name| panic!("{name} is looked up"));
        for (text, ip) in [("10.0.0.7:80", "10.0.0.7"), ("[::1]:80", "::1")] {
            assert_eq!(never.addresses(text, SHORT).unwrap(), [SocketAddr::new(ip.parse().unwrap(), 80)]);
            assert_eq!(never.host(ip, SHORT).unwrap(), [ip.parse::<IpAddr>().unwrap()]);
        }
        for bad in ["", "host", "host:", ":80", "host:65536", "host:x"] {
            let error = never.addresses(bad, SHORT).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
        }
        let text = never.host("broken", LONG).unwrap_err().to_string();
        assert!(text.contains("`broken`"), "a look-up that panics ends the wait, too: {text}");
    }

    #[test]
    fn a_name_without_an_address_is_named() {
        let none = Resolver::by(|name| match name {
            "gone" => Err(io::Error::other("Name or service not known")),
            _ => Ok(Vec::new()),
        });
        for (name, why) in [("gone", "Name or service not known"), ("empty", "it has no address")] {
            let text = none.host(name, LONG).unwrap_err().to_string();
            assert!(text.contains(&format!("`{name}`")) && text.ends_with(why), "{text}");
        }
    }
}
