//! Collects files from the hosts, into a folder for each host.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use chained_gpc::runtime::FuncHandle;
use chained_gpc::{Call, CallTree, Id};
use indicatif::ProgressBar;

use super::hosts::{Hosts, token};
use super::incoming::Incoming;
use super::piece::digest;
use super::read::{MOST, ReadReply, ReadRequest};
use super::receive::READ;
use crate::Failure;

/// Most bytes that the replies to one call have together, in this process, from up to 1,024 hosts.
const ALL: u64 = 64 << 20;

/// Fewest bytes of a piece: shorter ones would cost more for the call than for their bytes.
const LEAST: u32 = 64 << 10;

/// A file that comes in from a host.
struct Coming {
    incoming: Incoming,
    /// What the first reply said of it.
    first: ReadReply,
}

/// Number of bytes that each of so many hosts sends at once.
fn most(hosts: usize) -> u32 {
    let each = ALL / hosts.max(1) as u64;
    u32::try_from(each).unwrap_or(MOST).clamp(LEAST, MOST)
}

/// Collects files from all hosts that have not failed, each into `folder/HOST`. Returns the number of bytes, and
/// whether all were collected and no signal has come.
///
/// # Errors
/// If a call fails as a whole.
pub(super) fn collect(
    hosts: &mut Hosts<'_>,
    paths: &[PathBuf],
    folder: &Path,
    tree: &CallTree,
    progress: &ProgressBar,
) -> Result<(u64, bool), Failure> {
    let mut bytes = 0;
    for path in paths {
        let token = token()?;
        let (mut offset, mut coming) = (0, BTreeMap::new());
        let mut reading = hosts.left().to_vec();
        // Ends: each turn reads more of the files, and a file has an end.
        while !reading.is_empty() {
            let most = most(reading.len());
            let asked = ReadRequest { offset, most, path };
            let call = Call::new(FuncHandle::named(READ)).tree(tree.clone()).header(asked.header());
            let Some(handle) = hosts.call(call, &reading)? else { break };
            let Some(outcome) = hosts.wait(handle)? else { return Ok((bytes, false)) };
            for reply in outcome.replies()? {
                let piece = (offset, most, &reply.header, &reply.data);
                let host = hosts.name(reply.id);
                let taken = take(&mut coming, (reply.id, &host), (path, folder, token), piece);
                if let Err(why) = taken {
                    coming.remove(&reply.id);
                    hosts.fail(reply.id, why);
                    continue;
                }
                bytes += reply.data.len() as u64;
                progress.set_position(bytes);
            }
            offset += u64::from(most);
            reading.retain(|id| coming.contains_key(id) && hosts.left().contains(id));
        }
    }
    Ok((bytes, true))
}

/// Takes a piece; the last one puts the file into its place, and removes it from those that come in.
fn take(
    coming: &mut BTreeMap<Id, Coming>,
    (id, host): (Id, &str),
    (path, folder, token): (&Path, &Path, u64),
    (offset, most, header, data): (u64, u32, &Bytes, &Bytes),
) -> Result<(), String> {
    let found =
        ReadReply::parse(header).ok_or("its reply is not understood: run the same version of gpc there")?;
    if digest(data) != found.digest {
        return Err(format!("the bytes of {} that came are not those that were sent", path.display()));
    }
    if offset == 0 {
        let incoming = create(host, path, folder, found.mode, token)?;
        coming.insert(id, Coming { incoming, first: found });
    }
    let Some(Coming { incoming, first }) = coming.get(&id) else { return Ok(()) };
    if (first.total, first.changed) != (found.total, found.changed) {
        return Err(format!("{} was changed while it was read", path.display()));
    }
    let end = offset + data.len() as u64;
    if data.len() as u64 != found.total.saturating_sub(offset).min(most.into()) {
        return Err(format!("{} has {} bytes, and {end} came", path.display(), found.total));
    }
    let place = incoming.target().to_owned();
    let cannot = |error| format!("cannot write {} here: {error}", place.display());
    incoming.write(data, offset).map_err(cannot)?;
    if end == found.total {
        coming.remove(&id).map_or(Ok(()), |done| done.incoming.put()).map_err(cannot)?;
    }
    Ok(())
}

/// Creates the file of a host, and the folder of the host.
fn create(host: &str, path: &Path, folder: &Path, mode: u32, token: u64) -> Result<Incoming, String> {
    let name = path.file_name().ok_or_else(|| format!("{} names no file", path.display()))?;
    // A host's name has no slash, but may be two dots.
    if host.trim_matches('.').is_empty() {
        return Err(format!("`{host}` is no name of a folder"));
    }
    let folder = folder.join(host);
    let create = || {
        fs::create_dir_all(&folder)?;
        // Its owner may always write, or a second run could not replace it.
        Incoming::create(&folder.join(name), mode | 0o200, token)
    };
    create().map_err(|error| format!("cannot write into {} here: {error}", folder.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_hosts_together_send_no_more_than_this_process_takes() {
        assert_eq!((most(0), most(1), most(4)), (MOST, MOST, MOST));
        for hosts in [5, 16, 100, 1024] {
            assert!(u64::from(most(hosts)) * hosts as u64 <= ALL, "{hosts}");
        }
        // At most 16,384 hosts are started: 1 GiB.
        assert_eq!(most(16_384), LEAST);
    }

    #[test]
    fn a_host_has_a_folder_of_its_own() {
        let folder = tempfile::tempdir().unwrap();
        let made = create("b1", Path::new("/var/log/x"), folder.path(), 0o400, 1).unwrap();
        assert_eq!(made.target(), folder.path().join("b1/x"));
        for (host, path) in [("..", "x"), (".", "x"), ("b", "/"), ("b", "..")] {
            assert!(create(host, Path::new(path), folder.path(), 0o400, 1).is_err(), "{host} {path}");
        }
    }

    #[test]
    fn pieces_of_a_host_become_its_file_and_wrong_ones_do_not() {
        let folder = tempfile::tempdir().unwrap();
        let mut coming = BTreeMap::new();
        let found = |changed, total, bytes: &[u8]| {
            let found = ReadReply { total, mode: 0o600, changed: [changed; 3], digest: digest(bytes) };
            Bytes::from(found.header())
        };
        let mut piece = |offset, header: Bytes, bytes: &'static [u8]| {
            let data = Bytes::from_static(bytes);
            let at = (Path::new("/x/log"), folder.path(), 7);
            let taken = take(&mut coming, (3, "b3"), at, (offset, 3, &header, &data));
            if taken.is_err() {
                coming.remove(&3);
            }
            taken.map(|()| coming.len())
        };
        assert_eq!(piece(0, found(1, 5, b"abc"), b"abc"), Ok(1));
        assert_eq!(piece(3, found(1, 5, b"de"), b"de"), Ok(0));
        let path = folder.path().join("b3/log");
        assert_eq!(fs::read(&path).unwrap(), b"abcde");
        for (header, bytes, why) in [
            (found(2, 5, b"de"), &b"de"[..], "was changed while it was read"),
            (found(1, 6, b"de"), b"de", "was changed while it was read"),
            (found(1, 5, b"dE"), b"de", "not those that were sent"),
            (found(1, 5, b"def"), b"def", "has 5 bytes, and 6 came"),
            (found(1, 5, b"d"), b"d", "has 5 bytes, and 4 came"),
            (found(1, 5, b""), b"", "has 5 bytes, and 3 came"),
            (Bytes::new(), b"de", "not understood"),
        ] {
            assert_eq!(piece(0, found(1, 5, b"ABC"), b"ABC"), Ok(1));
            let refused = piece(3, header, bytes).unwrap_err();
            assert!(refused.contains(why), "{refused}");
        }
        assert_eq!(fs::read(&path).unwrap(), b"abcde");
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
    }
}
