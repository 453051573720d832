//! The file store: stored state is read back, and other files are rejected.

#![cfg(feature = "store")]

use std::collections::BTreeSet;
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use crate::support::maps::Maps;
use bytes::Bytes;
use chained_gpc::{Job, Secret};
use gpc_rendezvous::machine::{
    Change, Service, StoredController, StoredRegistrant, StoredResource, StoredState,
};
use gpc_rendezvous::store::FileStore;
use gpc_rendezvous::{
    Fault, FaultKind, Handle, Joint, Limits, Parent, RankChoice, ResourceId, Store as _, StoreError, Token,
    Unit,
};
use proptest::prelude::*;
use proptest::sample::Index;
use redb::{ReadableDatabase as _, TableDefinition};

fn text(length: usize) -> impl Strategy<Value = String> {
    prop::collection::vec(any::<char>(), 1..length).prop_map(String::from_iter)
}

fn token() -> impl Strategy<Value = Token> {
    "[!-~]{1,128}".prop_map(|text| Token::new(&text).unwrap())
}

fn id() -> impl Strategy<Value = ResourceId> {
    (0..4_u8).prop_map(|number| ResourceId([number; 16]))
}

fn fault() -> impl Strategy<Value = Fault> {
    let kind = prop::sample::select(FaultKind::ALL);
    (kind, text(20), any::<Option<u64>>(), prop::option::of(text(10)))
        .prop_map(|(kind, message, rank, task)| Fault { rank, task, ..Fault::new(kind, message) })
}

fn resource() -> impl Strategy<Value = StoredResource> {
    let joint = (any::<[u8; 16]>(), any::<[u8; 32]>())
        .prop_map(|(job, secret)| Joint { job: Job(job), secret: Secret::new(&secret).unwrap() });
    let rank = prop_oneof![Just(RankChoice::Assign), any::<u64>().prop_map(RankChoice::Rank)];
    let parent = ("[!->@-~]{1,40}", any::<[u8; 16]>(), rank).prop_map(|(service, id, rank)| Parent {
        handle: Handle::new(service, ResourceId(id)).unwrap(),
        rank,
    });
    let numbers = (8..40_u32, 1..9_u16, any::<u64>(), any::<u64>(), any::<Option<[u8; 16]>>());
    let others =
        (prop::option::of(joint), prop::option::of(parent), token(), prop::option::weighted(0.2, fault()));
    (numbers, others).prop_map(
        |((capacity, level, created, expires, job), (joint, parent, token, failed))| StoredResource {
            capacity,
            level,
            created,
            expires,
            job: job.map(Job),
            joint,
            parent,
            token,
            failed,
        },
    )
}

fn change() -> impl Strategy<Value = Change> {
    let unit = || prop_oneof![Just(Unit::Own), (0..4_u32).prop_map(Unit::Rank)];
    let data = prop_oneof![
        8 => prop::collection::vec(any::<u8>(), 0..40),
        1 => (0..20_000_usize).prop_map(|length| vec![7; length]),
    ];
    let registrant =
        (id(), 0..8_u32, token(), any::<Option<u64>>(), data).prop_map(|(id, rank, token, lease, data)| {
            Change::Registrant(id, rank, StoredRegistrant { token, lease }, Bytes::from(data))
        });
    let controller =
        (id(), unit(), text(20), token(), any::<Option<u64>>()).prop_map(|(id, unit, name, token, lease)| {
            Change::Controller(id, unit, StoredController { name, token, lease })
        });
    prop_oneof![
        1 => (id(), resource()).prop_map(|(id, resource)| Change::Resource(id, resource)),
        6 => registrant,
        2 => (id(), 0..8_u32, token(), any::<Option<u64>>())
            .prop_map(|(id, rank, token, lease)| Change::Lease(id, rank, StoredRegistrant { token, lease })),
        2 => (id(), 0..8_u32).prop_map(|(id, rank)| Change::Withdrawn(id, rank)),
        2 => controller,
        1 => (id(), unit()).prop_map(|(id, unit)| Change::Released(id, unit)),
        1 => id().prop_map(Change::Ended),
    ]
}

/// Changes that refer to existing resources only, and leases of existing registrants only.
fn history() -> impl Strategy<Value = Vec<Vec<Change>>> {
    let first = prop::collection::vec(resource(), 4).prop_map(|resources| {
        let created = (0..).zip(resources).map(|(id, kept)| Change::Resource(ResourceId([id; 16]), kept));
        created.collect::<Vec<Change>>()
    });
    let rest = prop::collection::vec(prop::collection::vec(change(), 0..12), 0..6);
    (first, rest).prop_map(|(first, rest)| {
        let (mut all, mut there, mut registrants) = (vec![first], vec![true; 4], BTreeSet::new());
        for mut turn in rest {
            turn.retain(|change| match change {
                Change::Resource(id, _) => {
                    there[usize::from(id.0[0])] = true;
                    true
                }
                Change::Ended(id) => {
                    registrants.retain(|(of, _)| of != id);
                    std::mem::replace(&mut there[usize::from(id.0[0])], false)
                }
                Change::Registrant(id, rank, ..) => {
                    let is_there = there[usize::from(id.0[0])];
                    registrants.extend(is_there.then_some((*id, *rank)));
                    is_there
                }
                Change::Withdrawn(id, rank) => {
                    registrants.remove(&(*id, *rank));
                    there[usize::from(id.0[0])]
                }
                Change::Lease(id, rank, _) => registrants.contains(&(*id, *rank)),
                Change::Controller(id, ..) | Change::Released(id, _) => there[usize::from(id.0[0])],
            });
            all.push(turn);
        }
        all
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn stored_changes_are_read_back(history in history(), again in 0..6_usize) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store");
        let (mut store, mut maps) = (FileStore::open(&path).unwrap(), Maps::default());
        for (turn, changes) in history.iter().enumerate() {
            store.save(7, changes).unwrap();
            maps.save(changes);
            if turn == again {
                drop(store);
                store = FileStore::open(&path).unwrap();
            }
        }
        drop(store);
        let kept = FileStore::open(&path).unwrap().load().unwrap();
        prop_assert_eq!(&kept, &StoredState { now: (!history.is_empty()).then_some(7), ..maps.load() });
        let restored = |kept| format!("{:?}", Service::restored(Limits::default(), kept, 1000));
        prop_assert_eq!(restored(kept), restored(maps.load()));
    }
}

fn example() -> Vec<Change> {
    let token = |name: &str| Token::new(name).unwrap();
    let id = ResourceId([1; 16]);
    let resource = StoredResource {
        capacity: 200,
        level: 1,
        created: 1,
        expires: u64::MAX,
        job: None,
        joint: Some(Joint { job: Job([1; 16]), secret: Secret::new(&[0xcd; 32]).unwrap() }),
        parent: None,
        token: token("above"),
        failed: None,
    };
    let registrant = |rank: u32| {
        let kept = StoredRegistrant { token: token(&format!("registrant-{rank}")), lease: Some(5) };
        Change::Registrant(id, rank, kept, vec![rank as u8; 300].into())
    };
    let controller = StoredController { name: "c".into(), token: token("c"), lease: None };
    let first = [Change::Resource(id, resource), Change::Controller(id, Unit::Own, controller)];
    first.into_iter().chain((0..100).map(registrant)).collect()
}

/// A store with some content, and its bytes.
fn stored(folder: &Path) -> (PathBuf, Vec<u8>) {
    let path = folder.join("store");
    let mut store = FileStore::open(&path).unwrap();
    store.save(7, &example()).unwrap();
    drop(store);
    let bytes = fs::read(&path).unwrap();
    (path, bytes)
}

fn error(path: &Path) -> StoreError {
    let opened = FileStore::open(path).and_then(|mut store| store.load());
    let error = opened.expect_err("it is no store");
    assert_eq!(error.file, path.display().to_string());
    error
}

#[test]
fn only_its_owner_can_read_it() {
    let folder = tempfile::tempdir().unwrap();
    let (path, _) = stored(folder.path());
    assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
    for mode in [0o640, 0o604, 0o620, 0o666] {
        fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        let why = error(&path).why;
        assert!(why.contains(&format!("{mode:o}")) && why.contains("chmod 600"), "{why}");
    }
    fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
    FileStore::open(&path).unwrap();
}

#[test]
fn one_store_is_open_once() {
    let folder = tempfile::tempdir().unwrap();
    let (path, _) = stored(folder.path());
    let open = FileStore::open(&path).unwrap();
    assert!(error(&path).why.contains("another process has it open"));
    drop(open);
    FileStore::open(&path).unwrap();
}

#[test]
fn another_file_is_refused_and_left_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("letter");
    for content in [&b"Dear all"[..], &[0; 100_000], b"redb\x1a\x0a\xa9\x0d\x0a", &[b'x'; 9000]] {
        fs::write(&path, content).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        let why = error(&path).why;
        assert!(why.contains("no store of a rendezvous service"), "{why}");
        assert_eq!(fs::read(&path).unwrap(), content);
    }
    let why = error(folder.path()).why;
    assert!(why.contains("irectory"), "{why}");
    error(&folder.path().join("there/is/no/such"));
}

#[test]
fn an_empty_file_becomes_a_store() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    fs::write(&path, b"").unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
    let kept = FileStore::open(&path).unwrap().load().unwrap();
    assert!(kept.resources.is_empty());
}

#[test]
fn a_database_of_others_and_a_store_of_another_version_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (path, _) = stored(folder.path());
    let meta: TableDefinition<'_, &str, &str> = TableDefinition::new("meta");
    let set = |format: &str| {
        let database = redb::Database::open(&path).unwrap();
        let writing = database.begin_write().unwrap();
        writing.open_table(meta).unwrap().insert("format", format).unwrap();
        writing.commit().unwrap();
    };
    set("gpc rendezvous store 3\n");
    let why = error(&path).why;
    assert!(why.contains(r"store 3\n`") && why.contains("`gpc rendezvous store 2`"), "{why}");
    // A store of the previous version is converted.
    set("gpc rendezvous store 1");
    let before = FileStore::open(&path).unwrap().load().unwrap();
    assert_eq!(before.resources.len(), 1);
    let database = redb::Database::open(&path).unwrap();
    let reading = database.begin_read().unwrap();
    let format = reading.open_table(meta).unwrap().get("format").unwrap().unwrap();
    assert_eq!(format.value(), "gpc rendezvous store 2");

    let other = folder.path().join("other");
    let database = redb::Database::create(&other).unwrap();
    let writing = database.begin_write().unwrap();
    let table: TableDefinition<'_, u64, u64> = TableDefinition::new("numbers");
    writing.open_table(table).unwrap().insert(1, 2).unwrap();
    writing.commit().unwrap();
    drop(database);
    fs::set_permissions(&other, Permissions::from_mode(0o600)).unwrap();
    assert!(error(&other).why.contains("no store of a rendezvous service"));
    let database = redb::Database::open(&other).unwrap();
    assert_eq!(database.begin_read().unwrap().list_tables().unwrap().count(), 1);
}

/// Records that are intact for the database may still be invalid. Errors do not quote them, because they contain
/// secrets.
#[test]
fn a_record_that_is_none_is_an_error() {
    const RESOURCES: TableDefinition<'_, &[u8; 16], &[u8]> = TableDefinition::new("resources");
    const REGISTRANTS: TableDefinition<'_, (&[u8; 16], u32), &[u8]> = TableDefinition::new("registrants");
    let folder = tempfile::tempdir().unwrap();
    let (path, bytes) = stored(folder.path());
    let whole = {
        let database = redb::Database::open(&path).unwrap();
        let reading = database.begin_read().unwrap();
        let record = reading.open_table(RESOURCES).unwrap().get(&[1; 16]).unwrap().unwrap();
        String::from_utf8(record.value().to_vec()).unwrap()
    };
    assert!(whole.contains("cdcd"), "the secret is in it: {whole}");
    let insert = |change: &dyn Fn(&redb::WriteTransaction)| {
        fs::write(&path, &bytes).unwrap();
        let database = redb::Database::open(&path).unwrap();
        let writing = database.begin_write().unwrap();
        change(&writing);
        writing.commit().unwrap();
        drop(database);
        let why = error(&path).why;
        assert!(why.starts_with("it is damaged: resource 01010101…"), "{why}");
        assert!(!why.contains("cdcd"), "{why}");
    };
    let texts = [
        String::new(),
        "{}".into(),
        whole.replace("\"capacity\":200", "\"capacity\":0"),
        whole.replace("\"capacity\":200", "\"capacity\":99"),
        whole.replace("\"capacity\":200", "\"capacity\":\"cdcd\""),
        whole.replace("\"level\":1", "\"level\":0"),
        whole.replace("\"above\"", "\"a b\""),
        whole.replace("cdcd", "cdc"),
        whole.replace(
            "\"failed\":null",
            "\"failed\":{\"code\":\"no\",\"message\":\"\",\"rank\":null,\"task\":null}",
        ),
    ];
    for text in texts {
        assert_ne!(text, whole);
        insert(&|writing| {
            writing.open_table(RESOURCES).unwrap().insert(&[1; 16], text.as_bytes()).unwrap();
        });
    }
    insert(&|writing| drop(writing.open_table(RESOURCES).unwrap().remove(&[1; 16]).unwrap()));
    insert(&|writing| {
        let record = &b"{\"token\":\"t\",\"lease\":null}"[..];
        writing.open_table(REGISTRANTS).unwrap().insert((&[1; 16], 150), record).unwrap();
    });
}

/// A damaged file is rejected, or its state can still be read: the state is never wrong, and reading never panics.
#[test]
fn a_damaged_file_is_an_error() {
    #[derive(Clone, Debug)]
    enum Damage {
        Cut(Index),
        Flip(Vec<(Index, u8)>),
        Zero(Index, usize),
    }
    let damage = prop_oneof![
        2 => any::<Index>().prop_map(Damage::Cut),
        4 => prop::collection::vec((any::<Index>(), 0..8_u8), 1..4).prop_map(Damage::Flip),
        2 => (any::<Index>(), 1..9000_usize).prop_map(|(at, count)| Damage::Zero(at, count)),
    ];
    let folder = tempfile::tempdir().unwrap();
    let (path, bytes) = stored(folder.path());
    let whole = FileStore::open(&path).unwrap().load().unwrap();
    // The first pages change most often.
    let place = |at: &Index| if at.index(2) == 0 { at.index(8192) } else { at.index(bytes.len()) };
    let config = ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() };
    let result = proptest::test_runner::TestRunner::new(config).run(&damage, |damage| {
        let mut damaged = bytes.clone();
        match &damage {
            Damage::Cut(at) => damaged.truncate(at.index(bytes.len())),
            Damage::Flip(flips) => flips.iter().for_each(|(at, bit)| damaged[place(at)] ^= 1 << bit),
            Damage::Zero(at, count) => {
                let from = place(at);
                damaged[from..(from + count).min(bytes.len())].fill(0);
            }
        }
        fs::write(&path, &damaged).unwrap();
        let opened =
            catch_unwind(AssertUnwindSafe(|| FileStore::open(&path).and_then(|mut store| store.load())));
        match opened {
            Ok(Ok(kept)) if damaged.is_empty() => prop_assert!(kept.resources.is_empty()),
            Ok(Ok(kept)) => prop_assert_eq!(kept, whole.clone()),
            Ok(Err(error)) => prop_assert!(!error.why.is_empty()),
            Err(_) => prop_assert!(false, "a panic"),
        }
        Ok(())
    });
    result.unwrap_or_else(|error| panic!("{error}"));
}
