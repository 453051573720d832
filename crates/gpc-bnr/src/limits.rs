//! Bounds of a domain: sizes, counts and time limits.

use std::time::Duration;

/// Bounds. A request beyond them is refused with [`TooLarge`](crate::FaultKind::TooLarge), which names the bound.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Limits {
    /// Bytes of a key or of a global name. The source has 64; PMI clients use up to 256.
    pub key: usize,
    /// Bytes of a value. The source has 3,072; 64 KiB suffice for what GASNet and OpenSHMEM put.
    pub value: usize,
    /// Bytes of a database name.
    pub name: usize,
    /// Bytes of the keys and values of one database, as each node stores it.
    pub database: usize,
    /// Number of databases.
    pub databases: usize,
    /// Number of global names.
    pub names: usize,
    /// Number of processes in a group.
    pub group: u32,
    /// Number of groups at a time, including ended groups that are not yet forgotten.
    pub groups: usize,
    /// Bytes of the arguments and the environment of one spawn.
    pub spawn: usize,
    /// Number of unanswered requests of one process.
    pub waiting: usize,
    /// Default time limit of a collective request.
    pub fence: Duration,
    /// Default time limit of a request to other nodes.
    pub ask: Duration,
    /// Time between SIGTERM and SIGKILL when a group is killed.
    pub grace: Duration,
}

impl Limits {
    /// The first of these limits that exceeds `most`, in words; `None` if all are within. Durations are not compared.
    pub fn beyond(&self, most: &Limits) -> Option<&'static str> {
        let counts = [
            ("bytes of a key", self.key, most.key),
            ("bytes of a value", self.value, most.value),
            ("bytes of a database's name", self.name, most.name),
            ("bytes of a database", self.database, most.database),
            ("databases", self.databases, most.databases),
            ("global names", self.names, most.names),
            ("processes of a group", self.group as usize, most.group as usize),
            ("groups", self.groups, most.groups),
            ("bytes of a spawn", self.spawn, most.spawn),
            ("requests that wait", self.waiting, most.waiting),
        ];
        counts.into_iter().find(|(_, own, most)| own > most).map(|(what, ..)| what)
    }
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            key: 256,
            value: 64 << 10,
            name: 256,
            database: 256 << 20,
            databases: 4096,
            names: 1 << 16,
            group: 1 << 20,
            groups: 1 << 16,
            spawn: 16 << 20,
            waiting: 1024,
            fence: Duration::from_secs(600),
            ask: Duration::from_secs(60),
            grace: Duration::from_secs(2),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_beyond_is_named() {
        let most = Limits::default();
        assert_eq!(most.beyond(&most), None);
        let less = Limits { value: 1, database: 1, ..most };
        assert_eq!((less.beyond(&most), most.beyond(&less)), (None, Some("bytes of a value")));
        let fewer = Limits { waiting: most.waiting - 1, ..most };
        assert_eq!(most.beyond(&fewer), Some("requests that wait"));
        // Durations are the domain's own choice.
        let longer = Limits { fence: most.fence * 2, ..most };
        assert_eq!(longer.beyond(&most), None);
    }
}
