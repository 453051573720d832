//! A channel between threads for the few values of a question and its answers.
//!
//! The channels of the standard library and of crossbeam are faster under load, and bring 10 KB of code for each type
//! of value. This one is a queue under a lock.

use std::collections::VecDeque;
use std::sync::mpsc::{RecvError, RecvTimeoutError, SendError};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Creates a channel without a bound: its users send a bounded number of values.
pub fn channel<T>() -> (Sender<T>, Receiver<T>) {
    let state = State { values: VecDeque::new(), senders: 1, is_received: true };
    let shared = Arc::new(Shared { state: Mutex::new(state), changed: Condvar::new() });
    (Sender(Arc::clone(&shared)), Receiver(shared))
}

/// The end that sends.
#[derive(Debug)]
pub struct Sender<T>(Arc<Shared<T>>);

/// The end that receives.
#[derive(Debug)]
pub struct Receiver<T>(Arc<Shared<T>>);

#[derive(Debug)]
struct Shared<T> {
    state: Mutex<State<T>>,
    changed: Condvar,
}

#[derive(Debug)]
struct State<T> {
    values: VecDeque<T>,
    senders: usize,
    /// Whether the receiver exists.
    is_received: bool,
}

impl<T> State<T> {
    fn is_to_wait(&self) -> bool {
        self.values.is_empty() && self.senders > 0
    }
}

impl<T> Shared<T> {
    /// No code of the application runs under the lock, so the state is valid after any panic.
    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Sender<T> {
    /// Queues a value.
    ///
    /// # Errors
    /// If the receiver was dropped.
    pub fn send(&self, value: T) -> Result<(), SendError<T>> {
        let mut state = self.0.lock();
        if !state.is_received {
            drop(state);
            return Err(SendError(value));
        }
        state.values.push_back(value);
        drop(state);
        self.0.changed.notify_one();
        Ok(())
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Sender<T> {
        self.0.lock().senders += 1;
        Sender(Arc::clone(&self.0))
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        self.0.lock().senders -= 1;
        self.0.changed.notify_one();
    }
}

impl<T> Receiver<T> {
    /// Waits for a value.
    ///
    /// # Errors
    /// If all senders were dropped, and no value is left.
    pub fn recv(&self) -> Result<T, RecvError> {
        let waited = self.0.changed.wait_while(self.0.lock(), |state| state.is_to_wait());
        waited.unwrap_or_else(PoisonError::into_inner).values.pop_front().ok_or(RecvError)
    }

    /// Waits for a value up to `limit`.
    ///
    /// # Errors
    /// As for [`recv`](Self::recv), and if the time has passed.
    pub fn recv_timeout(&self, limit: Duration) -> Result<T, RecvTimeoutError> {
        let waited = self.0.changed.wait_timeout_while(self.0.lock(), limit, |state| state.is_to_wait());
        let mut state = waited.unwrap_or_else(PoisonError::into_inner).0;
        let none =
            if state.senders == 0 { RecvTimeoutError::Disconnected } else { RecvTimeoutError::Timeout };
        state.values.pop_front().ok_or(none)
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.is_received = false;
        let rest = std::mem::take(&mut state.values);
        drop(state);
        drop(rest);
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn values_arrive_in_order_and_the_rest_after_the_last_sender() {
        let (sender, receiver) = channel();
        let other = sender.clone();
        sender.send(1).unwrap();
        drop(sender);
        other.send(2).unwrap();
        assert_eq!((receiver.recv(), receiver.recv_timeout(LONG)), (Ok(1), Ok(2)));
        assert_eq!(receiver.recv_timeout(Duration::ZERO), Err(RecvTimeoutError::Timeout));
        other.send(3).unwrap();
        drop(other);
        // What was sent is there, and nothing more can come: no wait is needed to know it.
        assert_eq!(receiver.recv_timeout(Duration::ZERO), Ok(3));
        assert_eq!(receiver.recv_timeout(Duration::ZERO), Err(RecvTimeoutError::Disconnected));
        assert_eq!(receiver.recv(), Err(RecvError));
    }

    #[test]
    fn a_waiting_receiver_is_woken_by_a_value_and_by_the_end_of_the_senders() {
        let (sender, receiver) = channel();
        thread::scope(|scope| {
            let waits = scope.spawn(|| (receiver.recv_timeout(LONG), receiver.recv_timeout(LONG)));
            sender.send(7).unwrap();
            drop(sender);
            assert_eq!(waits.join().unwrap(), (Ok(7), Err(RecvTimeoutError::Disconnected)));
        });
    }

    #[test]
    fn without_a_receiver_values_come_back_and_queued_ones_are_dropped() {
        let (sender, receiver) = channel();
        let value = Arc::new(());
        sender.send(Arc::clone(&value)).unwrap();
        drop(receiver);
        assert_eq!(Arc::strong_count(&value), 1);
        assert!(sender.send(value).is_err());
    }
}
