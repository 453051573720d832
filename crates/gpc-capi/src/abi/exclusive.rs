//! A value that one thread uses at a time, and for which no thread sleeps.
//!
//! A lock of the standard library costs two atomic exchanges, this one one; a program takes it for each turn of a node.

use std::cell::UnsafeCell;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

/// After this many yields a thread sleeps. With a real-time priority it would keep the user of the value from running.
const YIELDS: u32 = 100;

/// Length of such a sleep.
const PAUSE: Duration = Duration::from_micros(50);

/// The value.
pub(crate) struct Exclusive<T> {
    /// The number of the thread that uses it; 0 if none does.
    user: AtomicU64,
    value: UnsafeCell<T>,
}

// SAFETY: only the thread that has stored its number in `user` reaches the value, until it stores 0: so the value moves
// between threads, and no two use it at once.
unsafe impl<T: Send> Sync for Exclusive<T> {}

/// A use of the value, which ends with it.
pub(crate) struct Use<'a, T>(&'a Exclusive<T>, PhantomData<&'a mut T>);

impl<T: Default> Default for Exclusive<T> {
    fn default() -> Exclusive<T> {
        Exclusive::new(T::default())
    }
}

impl<T> Exclusive<T> {
    pub(crate) fn new(value: T) -> Exclusive<T> {
        Exclusive { user: AtomicU64::new(0), value: UnsafeCell::new(value) }
    }

    /// Uses the value in the thread of this number, which is not 0.
    ///
    /// # Errors
    /// The number of the thread that uses it.
    #[inline]
    pub(crate) fn try_use(&self, thread: u64) -> Result<Use<'_, T>, u64> {
        debug_assert_ne!(thread, 0);
        self.user.compare_exchange(0, thread, Ordering::Acquire, Ordering::Relaxed)?;
        Ok(Use(self, PhantomData))
    }

    /// Uses the value, once another thread's use has ended. For uses of a few instructions.
    #[allow(
        clippy::disallowed_methods,
        reason = "the end of a use is no event: that would cost more than the use"
    )]
    pub(crate) fn use_soon(&self) -> Use<'_, T> {
        let mut attempts = 0;
        // Terminates: each use lasts a few instructions, and its thread runs while this one sleeps.
        loop {
            match self.try_use(1) {
                Ok(value) => return value,
                Err(_) if attempts < YIELDS => thread::yield_now(),
                Err(_) => thread::sleep(PAUSE),
            }
            attempts += 1;
        }
    }

    /// The number of the thread that uses it; 0 if none does.
    pub(crate) fn user(&self) -> u64 {
        self.user.load(Ordering::Relaxed)
    }
}

impl<T> Deref for Use<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: this is the only use, which `&self` borrows.
        unsafe { &*self.0.value.get() }
    }
}

impl<T> DerefMut for Use<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: this is the only use, which `&mut self` borrows exclusively.
        unsafe { &mut *self.0.value.get() }
    }
}

impl<T> Drop for Use<'_, T> {
    fn drop(&mut self) {
        self.0.user.store(0, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_thread_uses_it_at_a_time() {
        let value = Exclusive::new(0);
        let mut used = value.try_use(7).ok().unwrap();
        *used += 1;
        assert_eq!((value.user(), value.try_use(8).err(), value.try_use(7).err()), (7, Some(7), Some(7)));
        drop(used);
        assert_eq!((value.user(), *value.try_use(8).ok().unwrap()), (0, 1));
    }

    #[test]
    fn no_use_of_many_threads_is_lost() {
        let value = Exclusive::new(0u32);
        let count = |thread| {
            let mut done = 0;
            // Terminates: the thread that has it gives it back at once.
            while done < 1000 {
                match value.try_use(thread) {
                    Ok(mut used) => {
                        *used += 1;
                        done += 1;
                    }
                    Err(_) => thread::yield_now(),
                }
            }
        };
        thread::scope(|scope| (1..=4).for_each(|thread| drop(scope.spawn(move || count(thread)))));
        assert_eq!(*value.try_use(9).ok().unwrap(), 4000);
    }
}
