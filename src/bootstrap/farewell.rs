//! Farewells: what a process sends when its node has left, to its launcher and to the service of its meeting.

use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::{BootstrapError, Space};

/// Time limit of the farewell to a launcher.
const FINISH_LIMIT: Duration = Duration::from_secs(10);

/// One farewell, to one receiver.
type Word = Box<dyn FnOnce() -> Result<(), BootstrapError> + Send>;

/// What a process sends when it ends normally, after its node has left: nothing by default. A [`Member`](super::Member)
/// sends it when it leaves. If there is no member, or the process panics, it is dropped unsent.
#[derive(Default)]
pub struct Farewell {
    /// Behind a lock, so that threads can share a member.
    words: Mutex<Vec<Word>>,
}

impl Farewell {
    /// Creates a farewell from a function. It is called once, perhaps on another thread, and must limit its own time.
    pub fn new<E: fmt::Display>(say: impl FnOnce() -> Result<(), E> + Send + 'static) -> Farewell {
        Farewell::of(move || say().map_err(|error| BootstrapError::Farewell(error.to_string())))
    }

    /// Creates the farewell to the launcher of this space: this process ends normally.
    pub(super) fn to_launcher(mut space: Box<dyn Space>) -> Farewell {
        Farewell::of(move || Ok(space.finish(FINISH_LIMIT)?))
    }

    fn of(say: impl FnOnce() -> Result<(), BootstrapError> + Send + 'static) -> Farewell {
        Farewell { words: Mutex::new(vec![Box::new(say)]) }
    }

    /// Appends `next`.
    #[must_use]
    pub fn then(self, next: Farewell) -> Farewell {
        self.words().append(&mut next.words());
        self
    }

    /// Sends all farewells, even if some fail.
    ///
    /// # Errors
    /// The error of the first one that failed.
    pub fn say(self) -> Result<(), BootstrapError> {
        let words = std::mem::take(&mut *self.words());
        words.into_iter().map(|say| say()).fold(Ok(()), Result::and)
    }

    /// No farewell is sent while the lock is held, so it is valid after any panic.
    fn words(&self) -> MutexGuard<'_, Vec<Word>> {
        self.words.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Farewell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Farewell({} to say)", self.words().len())
    }
}

/// Sends a farewell when it is dropped.
#[derive(Debug)]
pub(super) struct AtEnd(pub(super) Farewell);

impl AtEnd {
    /// Takes the farewell, so that the drop sends nothing.
    pub(super) fn take(&mut self) -> Farewell {
        std::mem::take(&mut self.0)
    }
}

impl Drop for AtEnd {
    fn drop(&mut self) {
        // A process that panics ends without a farewell, so that the launcher ends the others.
        if !std::thread::panicking() {
            let _ = self.take().say();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    /// A farewell of these words, and the list of words sent; the words `no...` fail.
    fn farewell(words: &[&'static str]) -> (Farewell, Arc<Mutex<Vec<&'static str>>>) {
        let said = Arc::<Mutex<Vec<&str>>>::default();
        let one = |word: &'static str| {
            let said = said.clone();
            Farewell::new(move || {
                said.lock().unwrap().push(word);
                if word.starts_with("no") { Err(word) } else { Ok(()) }
            })
        };
        (words.iter().map(|word| one(word)).fold(Farewell::default(), Farewell::then), said)
    }

    #[test]
    fn all_is_said_in_order_and_the_first_error_counts() {
        assert!(Farewell::default().say().is_ok());
        let (all, said) = farewell(&["a", "no b", "no c", "d"]);
        assert_eq!(format!("{all:?}"), "Farewell(4 to say)");
        assert_eq!(all.say().unwrap_err().to_string(), "the farewell of this process: no b");
        assert_eq!(*said.lock().unwrap(), ["a", "no b", "no c", "d"]);
    }

    #[test]
    fn it_is_said_by_who_leaves_and_not_by_who_panics() {
        let (dropped, said) = farewell(&["a"]);
        drop(dropped);
        assert!(said.lock().unwrap().is_empty(), "nobody has left");
        let (mine, said) = farewell(&["a"]);
        drop(AtEnd(mine));
        assert_eq!(*said.lock().unwrap(), ["a"]);
        let (mine, said) = farewell(&["a"]);
        let at_end = AtEnd(mine);
        let panicked = std::thread::spawn(move || {
            let _at_end = at_end;
            panic!("on purpose");
        });
        assert!(panicked.join().is_err());
        assert!(said.lock().unwrap().is_empty());
    }
}
