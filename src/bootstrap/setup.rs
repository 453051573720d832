//! What a process knows before it has a node: its id, how many there are, and by which means the rest is exchanged.

use std::fmt;
use std::time::Duration;

use gpc_trees::Id;

use super::{BootstrapError, LIMIT, Resolve, Rule, Space, read_secret};
use crate::peering::Secret;

/// An exchange of an embedder's own: gives what this process has, and gets what all of them have given, by id.
type Allgather = dyn FnOnce(&[u8]) -> Result<Vec<Vec<u8>>, BootstrapError>;

/// By which means processes that do not know each other yet exchange what they need.
pub(super) enum Means {
    /// The key-value space of a launcher.
    Space(Box<dyn Space>),
    /// An exchange of an embedder's own.
    Allgather(Box<Allgather>),
    /// None: where each process is follows from its id.
    Rule(Ruled),
}

/// A rule, and what goes with it.
pub(super) struct Ruled {
    pub(super) rule: Rule,
    pub(super) resolve: Resolve,
    /// `None` where all are on this host.
    pub(super) secret: Option<Secret>,
}

/// A process that knows its id and how many there are, and can get to know the others.
pub struct Bootstrap {
    pub(super) id: Id,
    pub(super) count: u32,
    pub(super) launcher: &'static str,
    pub(super) means: Means,
    pub(super) limit: Duration,
}

impl Bootstrap {
    /// By means of a launcher's key-value space.
    ///
    /// # Errors
    /// When the space says of itself what cannot be: an id that is not below the number of ids.
    pub fn with_space(space: Box<dyn Space>) -> Result<Bootstrap, BootstrapError> {
        let (id, count, launcher) = (space.id(), space.count(), space.launcher());
        Bootstrap::new(id, count, launcher, Means::Space(space))
    }

    /// By means of an exchange of the program's own: `exchange` gives what this process has to all others, and returns what each has given, by id. It is called once, by all of them.
    ///
    /// # Errors
    /// When the id is not below the number of ids.
    pub fn with_allgather<E: fmt::Display>(
        id: Id,
        count: u32,
        exchange: impl FnOnce(&[u8]) -> Result<Vec<Vec<u8>>, E> + 'static,
    ) -> Result<Bootstrap, BootstrapError> {
        let exchange =
            |mine: &[u8]| exchange(mine).map_err(|error| BootstrapError::Allgather(error.to_string()));
        Bootstrap::new(id, count, "allgather", Means::Allgather(Box::new(exchange)))
    }

    /// By a rule: nothing is exchanged before the nodes are there. Reads the file of the secret.
    ///
    /// # Errors
    /// When that file cannot be read, or others can read it.
    pub fn with_rule(rule: Rule, resolve: Resolve) -> Result<Bootstrap, BootstrapError> {
        let (id, count, launcher) = (rule.id(), rule.count(), rule.launcher());
        let secret = rule.secret_file().map(|file| read_secret(file)).transpose()?;
        Bootstrap::new(id, count, launcher, Means::Rule(Ruled { rule, resolve, secret }))
    }

    fn new(id: Id, count: u32, launcher: &'static str, means: Means) -> Result<Bootstrap, BootstrapError> {
        match id < count {
            true => Ok(Bootstrap { id, count, launcher, means, limit: LIMIT }),
            false => {
                let why =
                    format!("it says that this is id {id} of {count}: ids are 0 to {}", i64::from(count) - 1);
                Err(BootstrapError::Variables { launcher, why })
            }
        }
    }

    /// The id of this process.
    pub fn id(&self) -> Id {
        self.id
    }

    /// How many processes were started together.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Which launcher has started this process, for people: `PMI-1`, `PMIx`.
    pub fn launcher(&self) -> &'static str {
        self.launcher
    }

    /// How long the exchange may take, 60 s by default.
    #[must_use]
    pub fn limit(self, limit: Duration) -> Bootstrap {
        Bootstrap { limit, ..self }
    }
}

impl fmt::Debug for Bootstrap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Bootstrap({} of {} by {})", self.id, self.count, self.launcher)
    }
}
