//! A store in one file: a redb database, with one transaction for all changes that are stored together.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

use bytes::Bytes;
use chained_gpc::Shown;
use redb::backends::FileBackend;
use redb::{
    Database, DatabaseError, ReadableDatabase as _, ReadableTable as _, StorageBackend, Table,
    TableDefinition, TableHandle as _, WriteTransaction,
};
use rustix::process::geteuid;

use super::record;
use super::{Store, StoreError};
use crate::machine::{Change, ID_LENGTH, Millis, ResourceId, StoredState, Unit};

/// A resource, and a rank or a unit of it.
type Part<N> = (&'static [u8; ID_LENGTH], N);

const META: TableDefinition<'_, &str, &str> = TableDefinition::new("meta");
const RESOURCES: TableDefinition<'_, &[u8; ID_LENGTH], &[u8]> = TableDefinition::new("resources");
const REGISTRANTS: TableDefinition<'_, Part<u32>, &[u8]> = TableDefinition::new("registrants");
/// Data of the registrants, unencoded.
const DATA: TableDefinition<'_, Part<u32>, &[u8]> = TableDefinition::new("data");
const CONTROLLERS: TableDefinition<'_, Part<u64>, &[u8]> = TableDefinition::new("controllers");

/// Identifies the file and its format. Every change of the format changes this text.
const FORMAT: &str = "gpc rendezvous store 2";

/// The previous format. It lacks the time, so lifetimes end by the machine's clock.
const FORMAT_1: &str = "gpc rendezvous store 1";

/// Keys of [`META`].
const FORMAT_KEY: &str = "format";
const NOW_KEY: &str = "now";

/// Size of the database cache, bytes. After the start the store reads little.
const CACHE: usize = 32 << 20;

/// Mode bits that let other users read or write the file.
const OTHERS: u32 = 0o077;

/// The root user can read every file anyway.
const ROOT: u32 = 0;

/// Opens the database, also again after an error, when the state of the file is unknown.
type Reopen = Box<dyn Fn() -> Result<Database, String> + Send>;

/// A store in a file.
pub struct FileStore {
    file: String,
    /// `None` after an error, until it is opened again.
    database: Option<Database>,
    reopen: Reopen,
}

impl fmt::Debug for FileStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileStore").field("file", &self.file).finish_non_exhaustive()
    }
}

impl FileStore {
    /// Opens the store in this file, or creates the file. Only its owner may read it, because it holds secrets.
    ///
    /// # Errors
    /// Returns an error if the file cannot be created or read, is open in another process, or is damaged. Also if it
    /// belongs to another user, is readable by others, or is not a store of this version.
    pub fn open(path: &Path) -> Result<FileStore, StoreError> {
        let name = path.display().to_string();
        let opened = file(path);
        let opened = opened.map_err(|why| StoreError { file: Shown(&name).to_string(), why })?;
        // Reopen the same file, even if its path names another file by now.
        let backend = move || {
            let file = opened.try_clone().map_err(said)?;
            FileBackend::new(file).map_err(damaged)
        };
        FileStore::on(backend, &name)
    }

    /// Opens a store on any storage backend.
    pub(crate) fn on<B: StorageBackend>(
        backend: impl Fn() -> Result<B, String> + Send + 'static,
        name: &str,
    ) -> Result<FileStore, StoreError> {
        let reopen = Box::new(move || {
            let database = Database::builder()
                .set_cache_size(CACHE)
                // The start reads everything anyway, and this rejects a file that was changed from outside.
                .set_check_integrity_on_open(true)
                .create_with_backend(backend()?)
                .map_err(damaged)?;
            begin(&database)?;
            Ok(database)
        });
        let mut store = FileStore { file: Shown(name).to_string(), database: None, reopen };
        match store.opened().map(drop) {
            Ok(()) => Ok(store),
            Err(why) => Err(StoreError { file: store.file, why }),
        }
    }

    fn opened(&mut self) -> Result<&Database, String> {
        let database = match self.database.take() {
            Some(database) => database,
            None => (self.reopen)()?,
        };
        Ok(self.database.insert(database))
    }

    fn stored(&mut self) -> Result<StoredState, String> {
        let reading = self.opened()?.begin_read().map_err(said)?;
        let meta = reading.open_table(META).map_err(said)?;
        let now = meta.get(NOW_KEY).map_err(said)?.map(|now| now.value().parse());
        let now = now.transpose().map_err(|_| "it is damaged: its time is no number")?;
        let mut stored = StoredState { now, ..StoredState::default() };
        for entry in reading.open_table(RESOURCES).map_err(said)?.iter().map_err(said)? {
            let (id, bytes) = entry.map_err(said)?;
            let id = ResourceId(*id.value());
            let resource = record::read_resource(bytes.value()).map_err(|why| of_resource(id, why))?;
            stored.resources.push((id, resource));
        }
        let capacity = |id: ResourceId| {
            let at = stored.resources.binary_search_by_key(&id, |(id, _)| *id);
            at.map(|at| stored.resources[at].1.capacity).map_err(|_| of_resource(id, "it is not there"))
        };
        let data = reading.open_table(DATA).map_err(said)?;
        for entry in reading.open_table(REGISTRANTS).map_err(said)?.iter().map_err(said)? {
            let (key, bytes) = entry.map_err(said)?;
            let (id, rank) = (ResourceId(*key.value().0), key.value().1);
            if rank >= capacity(id)? {
                return Err(of_resource(id, format!("rank {rank} is not below the capacity")));
            }
            let registrant = record::read_registrant(bytes.value()).map_err(|why| of_resource(id, why))?;
            let brought = data.get((&id.0, rank)).map_err(said)?;
            let brought = brought.ok_or_else(|| of_resource(id, format!("rank {rank} has no data")))?;
            stored.registrants.push((id, rank, registrant, Bytes::copy_from_slice(brought.value())));
        }
        for entry in reading.open_table(CONTROLLERS).map_err(said)?.iter().map_err(said)? {
            let (key, bytes) = entry.map_err(said)?;
            let (id, number) = (ResourceId(*key.value().0), key.value().1);
            let unit = unit(number).ok_or_else(|| of_resource(id, format!("{number} is no unit")))?;
            capacity(id)?;
            let controller = record::read_controller(bytes.value()).map_err(|why| of_resource(id, why))?;
            stored.controllers.push((id, unit, controller));
        }
        Ok(stored)
    }

    fn change(&mut self, now: Millis, changes: &[Change]) -> Result<(), String> {
        // All or none: dropping an uncommitted transaction rolls it back.
        let writing = self.opened()?.begin_write().map_err(said)?;
        writing.open_table(META).map_err(said)?.insert(NOW_KEY, now.to_string().as_str()).map_err(said)?;
        let mut tables = Tables::open(&writing)?;
        changes.iter().try_for_each(|change| tables.save(change))?;
        drop(tables);
        writing.commit().map_err(said)
    }
}

impl Store for FileStore {
    fn load(&mut self) -> Result<StoredState, StoreError> {
        self.stored().map_err(|why| StoreError { file: self.file.clone(), why })
    }

    fn save(&mut self, now: Millis, changes: &[Change]) -> Result<(), StoreError> {
        self.change(now, changes).map_err(|why| {
            self.database = None;
            StoreError { file: self.file.clone(), why }
        })
    }
}

/// Opens or creates the file, and checks that only its owner can read it.
fn file(path: &Path) -> Result<File, String> {
    let mut options = OpenOptions::new();
    options.read(true).write(true);
    match options.clone().create_new(true).mode(0o600).open(path) {
        Ok(file) => return named(path).map(|()| file),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
        Err(error) => return Err(format!("it cannot be made: {error}")),
    }
    let file = options.open(path).map_err(|error| format!("it cannot be opened for writing: {error}"))?;
    let metadata = file.metadata().map_err(said)?;
    if !metadata.is_file() {
        return Err("it is no file: name a file of its own for the store".into());
    }
    check(metadata.uid(), metadata.mode(), geteuid().as_raw())?;
    Ok(file)
}

/// Checks that a process of user `me` may keep secrets in a file with this owner and mode.
fn check(owner: u32, mode: u32, me: u32) -> Result<(), String> {
    if owner != me && owner != ROOT {
        return Err(format!(
            "it belongs to user {owner}, who can read and change it, and not to user {me} or root: name a file of your own"
        ));
    }
    if mode & OTHERS != 0 {
        return Err(format!(
            "others can read or write it (its mode is {:03o}), and there are secrets in a store: chmod 600 it if it is one",
            mode & 0o777
        ));
    }
    Ok(())
}

/// Syncs the folder of a new file, so that its name survives a crash.
fn named(path: &Path) -> Result<(), String> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let synced = File::open(folder.unwrap_or(Path::new("."))).and_then(|folder| folder.sync_all());
    synced.map_err(|error| format!("its folder cannot be synced: {error}"))
}

/// Initializes an empty database as a store, and rejects any other database.
fn begin(database: &Database) -> Result<(), String> {
    let reading = database.begin_read().map_err(said)?;
    let tables = reading.list_tables().map_err(said)?.map(|table| table.name().to_owned());
    let tables: Vec<String> = tables.collect();
    if tables.is_empty() {
        let writing = database.begin_write().map_err(said)?;
        drop(Tables::open(&writing)?);
        writing.open_table(META).map_err(said)?.insert(FORMAT_KEY, FORMAT).map_err(said)?;
        return writing.commit().map_err(said);
    }
    if !tables.iter().any(|table| table == META.name()) {
        return Err("it is a redb database, but no store of a rendezvous service: name another file".into());
    }
    let meta = reading.open_table(META).map_err(said)?;
    let format = meta.get(FORMAT_KEY).map_err(said)?;
    match format.as_ref().map(|format| format.value()) {
        Some(FORMAT) => Ok(()),
        Some(FORMAT_1) => {
            let writing = database.begin_write().map_err(said)?;
            writing.open_table(META).map_err(said)?.insert(FORMAT_KEY, FORMAT).map_err(said)?;
            writing.commit().map_err(said)
        }
        other => Err(format!(
            "its format is `{}`, and this program knows `{FORMAT}` alone: use the program that made it, or name another file",
            Shown(other.unwrap_or_default())
        )),
    }
}

/// The tables that a transaction writes.
struct Tables<'a> {
    resources: Table<'a, &'static [u8; ID_LENGTH], &'static [u8]>,
    registrants: Table<'a, Part<u32>, &'static [u8]>,
    data: Table<'a, Part<u32>, &'static [u8]>,
    controllers: Table<'a, Part<u64>, &'static [u8]>,
}

impl<'a> Tables<'a> {
    fn open(writing: &'a WriteTransaction) -> Result<Tables<'a>, String> {
        Ok(Tables {
            resources: writing.open_table(RESOURCES).map_err(said)?,
            registrants: writing.open_table(REGISTRANTS).map_err(said)?,
            data: writing.open_table(DATA).map_err(said)?,
            controllers: writing.open_table(CONTROLLERS).map_err(said)?,
        })
    }

    fn save(&mut self, change: &Change) -> Result<(), String> {
        match change {
            Change::Resource(ResourceId(id), resource) => {
                let bytes = record::write_resource(resource)?;
                self.resources.insert(id, bytes.as_slice()).map_err(said)?;
            }
            Change::Registrant(ResourceId(id), rank, registrant, data) => {
                let bytes = record::write_registrant(registrant)?;
                self.registrants.insert((id, *rank), bytes.as_slice()).map_err(said)?;
                // Changes that restore a resource may find its data in place: writing them again would need as much
                // free space.
                let before = self.data.get((id, *rank)).map_err(said)?;
                let same = before.is_some_and(|before| before.value() == &data[..]);
                if !same {
                    self.data.insert((id, *rank), &data[..]).map_err(said)?;
                }
            }
            Change::Lease(ResourceId(id), rank, registrant) => {
                let bytes = record::write_registrant(registrant)?;
                self.registrants.insert((id, *rank), bytes.as_slice()).map_err(said)?;
            }
            Change::Withdrawn(ResourceId(id), rank) => {
                self.registrants.remove((id, *rank)).map_err(said)?;
                self.data.remove((id, *rank)).map_err(said)?;
            }
            Change::Controller(ResourceId(id), unit, controller) => {
                let bytes = record::write_controller(controller)?;
                self.controllers.insert((id, number(*unit)), bytes.as_slice()).map_err(said)?;
            }
            Change::Released(ResourceId(id), unit) => {
                self.controllers.remove((id, number(*unit))).map_err(said)?;
            }
            Change::Ended(ResourceId(id)) => {
                self.resources.remove(id).map_err(said)?;
                let ranks = (id, 0)..=(id, u32::MAX);
                self.registrants.retain_in(ranks.clone(), |_, _| false).map_err(said)?;
                self.data.retain_in(ranks, |_, _| false).map_err(said)?;
                self.controllers.retain_in((id, 0)..=(id, u64::MAX), |_, _| false).map_err(said)?;
            }
        }
        Ok(())
    }
}

/// A unit as a number: 0 for the resource's own unit, rank + 1 for the others.
fn number(unit: Unit) -> u64 {
    match unit {
        Unit::Own => 0,
        Unit::Rank(rank) => u64::from(rank) + 1,
    }
}

fn unit(number: u64) -> Option<Unit> {
    match number.checked_sub(1) {
        None => Some(Unit::Own),
        Some(rank) => u32::try_from(rank).ok().map(Unit::Rank),
    }
}

fn of_resource(id: ResourceId, why: impl std::fmt::Display) -> String {
    format!("it is damaged: resource {}…: {why}", id.short())
}

fn said(error: impl std::fmt::Display) -> String {
    error.to_string()
}

/// Why a database cannot be opened.
fn damaged(error: DatabaseError) -> String {
    match error {
        DatabaseError::DatabaseAlreadyOpen => {
            "another process has it open: end that one, or name another file".into()
        }
        error => format!("it is damaged, or no store of a rendezvous service: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    use redb::ReadableTableMetadata as _;
    use redb::backends::InMemoryBackend;

    use super::*;
    use crate::machine::{StoredController, StoredRegistrant, StoredResource, Token};

    /// A disk with `left` bytes of free space.
    #[derive(Clone, Debug)]
    struct Disk {
        memory: Arc<InMemoryBackend>,
        left: Arc<AtomicU64>,
    }

    impl StorageBackend for Disk {
        fn len(&self) -> io::Result<u64> {
            self.memory.len()
        }

        fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
            self.memory.read(offset, out)
        }

        fn set_len(&self, len: u64) -> io::Result<()> {
            self.memory.set_len(len)
        }

        fn sync_data(&self) -> io::Result<()> {
            self.memory.sync_data()
        }

        fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
            let taken = self
                .left
                .try_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(data.len() as u64));
            taken.map_err(|_| io::Error::from(ErrorKind::StorageFull))?;
            self.memory.write(offset, data)
        }
    }

    fn resource(capacity: u32) -> StoredResource {
        let (level, created, expires, token) = (1, 0, 9, Token::new("t").unwrap());
        let (job, joint, parent, failed) = (None, None, None, None);
        StoredResource { capacity, level, created, expires, job, joint, parent, token, failed }
    }

    fn registrant(rank: u32) -> Change {
        let stored = StoredRegistrant { token: Token::new(&format!("t{rank}")).unwrap(), lease: None };
        Change::Registrant(ResourceId([1; 16]), rank, stored, vec![7; 10_000].into())
    }

    /// After a full disk the store rejected everything until the process was restarted, although there was room again.
    /// The state of the file is unknown after an error, so the store opens it again.
    #[test]
    fn a_disk_that_was_full_is_written_again() {
        let left = Arc::new(AtomicU64::new(1 << 20));
        let disk = Disk { memory: Arc::new(InMemoryBackend::new()), left: Arc::clone(&left) };
        let mut store = FileStore::on(move || Ok(disk.clone()), "disk").unwrap();
        store.save(1, &[Change::Resource(ResourceId([1; 16]), resource(5000))]).unwrap();
        let mut failed = None;
        let mut stored = 0;
        while failed.is_none() && stored < 1000 {
            match store.save(2, &[registrant(stored)]) {
                Ok(()) => stored += 1,
                Err(error) => failed = Some(error),
            }
        }
        let error = failed.expect("1 MiB is not enough for 10 MB");
        assert_eq!(error.file, "disk");
        assert!(error.why.contains("storage space") || error.why.contains("no space"), "{error}");
        assert!(store.save(3, &[registrant(stored)]).is_err(), "it is still full");
        left.store(1 << 30, Ordering::Relaxed);
        store.save(4, &[registrant(stored)]).unwrap();
        let found = store.load().unwrap();
        assert_eq!((found.now, found.registrants.len() as u32), (Some(4), stored + 1));
    }

    /// The changes that undo a refused end of a resource are stored when the disk is full. They wrote the data again,
    /// for which there was no room.
    #[test]
    fn data_that_are_there_need_no_room() {
        let left = Arc::new(AtomicU64::new(1 << 30));
        let disk = Disk { memory: Arc::new(InMemoryBackend::new()), left: Arc::clone(&left) };
        let mut store = FileStore::on(move || Ok(disk.clone()), "disk").unwrap();
        let long = |byte| match registrant(0) {
            Change::Registrant(id, rank, stored, _) => {
                Change::Registrant(id, rank, stored, vec![byte; 1 << 20].into())
            }
            other => other,
        };
        store.save(1, &[long(7)]).unwrap();
        left.store(1 << 19, Ordering::Relaxed);
        store.save(2, &[long(7)]).unwrap();
        assert!(store.save(3, &[long(8)]).is_err());
    }

    /// What has left a resource, and what belonged to one that has ended, stayed in the file for ever. A controlling
    /// task without its resource made the file unreadable.
    #[test]
    fn the_file_has_nothing_of_what_has_gone() {
        let disk = Disk { memory: Arc::new(InMemoryBackend::new()), left: Arc::new(AtomicU64::new(1 << 30)) };
        let mut store = FileStore::on(move || Ok(disk.clone()), "disk").unwrap();
        let id = ResourceId([1; 16]);
        let controller = |unit| {
            let (name, token) = ("c".to_owned(), Token::new("c").unwrap());
            Change::Controller(id, unit, StoredController { name, token, lease: Some(5) })
        };
        let units = [Unit::Own, Unit::Rank(0), Unit::Rank(u32::MAX)];
        let mut changes = vec![Change::Resource(id, resource(8))];
        changes.extend([0, 1, 7].map(registrant));
        changes.extend(units.map(controller));
        store.save(1, &changes).unwrap();
        let lengths = |store: &mut FileStore| {
            let reading = store.opened().unwrap().begin_read().unwrap();
            let resources = reading.open_table(RESOURCES).unwrap().len().unwrap();
            let registrants = reading.open_table(REGISTRANTS).unwrap().len().unwrap();
            let data = reading.open_table(DATA).unwrap().len().unwrap();
            [resources, registrants, data, reading.open_table(CONTROLLERS).unwrap().len().unwrap()]
        };
        assert_eq!(lengths(&mut store), [1, 3, 3, 3]);
        let lease = StoredRegistrant { token: Token::new("t0").unwrap(), lease: Some(9) };
        let other = Change::Registrant(id, 7, lease.clone(), vec![8; 10_000].into());
        let changes = [
            Change::Withdrawn(id, 1),
            Change::Released(id, Unit::Own),
            Change::Lease(id, 0, lease.clone()),
            other,
        ];
        store.save(2, &changes).unwrap();
        assert_eq!(lengths(&mut store), [1, 2, 2, 2]);
        let found = store.load().unwrap();
        assert_eq!((found.now, &found.registrants[0].2), (Some(2), &lease));
        assert_eq!(found.registrants[1].3, vec![8; 10_000]);
        assert_eq!(found.controllers[0].2.lease, Some(5));
        store.save(3, &[Change::Ended(id)]).unwrap();
        assert_eq!(lengths(&mut store), [0, 0, 0, 0]);
        assert_eq!(store.load().unwrap(), StoredState { now: Some(3), ..StoredState::default() });
    }

    /// Only a rank below the capacity can be loaded, and a file of the first format becomes one of the second.
    #[test]
    fn a_rank_at_the_capacity_is_damage_and_an_old_format_is_renewed() {
        let disk = Disk { memory: Arc::new(InMemoryBackend::new()), left: Arc::new(AtomicU64::new(1 << 30)) };
        let again = disk.clone();
        let mut store = FileStore::on(move || Ok(disk.clone()), "disk").unwrap();
        let changes = [Change::Resource(ResourceId([1; 16]), resource(3)), registrant(2)];
        store.save(1, &changes).unwrap();
        assert_eq!(store.load().unwrap().registrants.len(), 1);
        store.save(2, &[registrant(3)]).unwrap();
        assert!(store.load().unwrap_err().why.contains("rank 3 is not below the capacity"));
        let writing = store.opened().unwrap().begin_write().unwrap();
        writing.open_table(META).unwrap().insert(NOW_KEY, "noon").unwrap();
        writing.commit().unwrap();
        assert!(store.load().unwrap_err().why.contains("its time is no number"));
        let writing = store.opened().unwrap().begin_write().unwrap();
        writing.open_table(META).unwrap().insert(FORMAT_KEY, FORMAT_1).unwrap();
        writing.commit().unwrap();
        drop(store);
        let mut store = FileStore::on(move || Ok(again.clone()), "disk").unwrap();
        let reading = store.opened().unwrap().begin_read().unwrap();
        let format = reading.open_table(META).unwrap().get(FORMAT_KEY).unwrap().unwrap();
        assert_eq!(format.value(), FORMAT);
    }

    /// A service of root took a file that another user had created. That user could read all secrets and change the
    /// stored state.
    #[test]
    fn a_file_of_another_user_is_no_store() {
        for (owner, me) in [(1000, 0), (1000, 1001)] {
            let why = check(owner, 0o100_600, me).unwrap_err();
            assert!(why.contains("user 1000") && why.contains(&format!("user {me} or root")), "{why}");
        }
        for (owner, me) in [(0, 0), (1000, 1000), (0, 1000)] {
            assert_eq!(check(owner, 0o100_600, me), Ok(()));
            assert!(check(owner, 0o100_640, me).unwrap_err().contains("640"));
        }
    }

    #[test]
    fn a_disk_that_is_full_from_the_start_is_an_error() {
        for left in [0, 100, 5000] {
            let memory = Arc::new(InMemoryBackend::new());
            let disk = Disk { memory, left: Arc::new(AtomicU64::new(left)) };
            assert!(FileStore::on(move || Ok(disk.clone()), "disk").is_err());
        }
    }

    #[test]
    fn every_unit_has_a_number() {
        for one in [Unit::Own, Unit::Rank(0), Unit::Rank(7), Unit::Rank(u32::MAX)] {
            assert_eq!(unit(number(one)), Some(one));
        }
        assert_eq!((unit((1 << 32) + 1), unit(u64::MAX)), (None, None));
    }
}
