//! A control group (cgroup v2) for processes that SIGKILL alone does not end. These are programs that start copies of
//! themselves faster than they are found, and programs that run as another user.
//!
//! The control group is created below the supervisor's own when it is needed, and frozen. A process moved into it
//! stops, so it starts no others while the rest is moved. `cgroup.kill` then ends all of them, whatever user they run
//! as. If cgroup v2 is not mounted, or the supervisor may not write there (its own group was not delegated), there is
//! no such control group.
//!
//! It is not used for ordinary starts: moving a process, or the supervisor itself, waits for all processors, which
//! would delay each start.

use std::fs;
use std::io;
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, getpid, pidfd_open};

use super::tree::parent;

/// Number of checks, a millisecond apart, that all killed processes have ended. A frozen process ends at once, unless
/// the system holds it.
const LOOKS: usize = 100;

/// A control group created by the supervisor.
pub(super) struct Cgroup {
    own: PathBuf,
    folder: PathBuf,
}

impl Cgroup {
    /// Creates a frozen control group. `None` if there is no cgroup v2 here, or this process may not create one.
    pub(super) fn make() -> Option<Cgroup> {
        let membership = fs::read_to_string("/proc/self/cgroup").ok()?;
        let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
        let own = place(&membership, &mounts)?;
        let folder = own.join(format!("gpc-keeper-{}", getpid().as_raw_nonzero()));
        match fs::create_dir(&folder) {
            Ok(()) => {}
            // An earlier one remains, since a process has not left it.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(_) => return None,
        }
        let usable = folder.join("cgroup.kill").exists();
        if usable && fs::write(folder.join("cgroup.freeze"), "1").is_ok() {
            return Some(Cgroup { own, folder });
        }
        let _ = fs::remove_dir(&folder);
        None
    }

    /// Moves a process that was found with this parent; returns whether it was moved. A process that has reused its id
    /// in the meantime is moved back.
    pub(super) fn take(&self, found_with: Pid, pid: Pid) -> bool {
        let Ok(pidfd) = pidfd_open(pid, PidfdFlags::empty()) else { return false };
        let is_it = || {
            parent(pid).is_some_and(|parent| parent == found_with || parent == getpid())
                // The pidfd refers to the process that had the id when it was opened; it is readable once that process
                // has ended.
                && matches!(
                    poll(&mut [PollFd::new(&pidfd.as_fd(), PollFlags::IN)], Some(&Timespec::default())),
                    Ok(0)
                )
        };
        if !is_it() || !enter(&self.folder, pid) {
            return false;
        }
        if !is_it() {
            enter(&self.own, pid);
            return false;
        }
        true
    }

    /// Kills all processes in the group, and waits up to a tenth of a second for their ends.
    pub(super) fn kill(&self) {
        // A process that cannot be killed stays frozen and is abandoned later.
        let _ = fs::write(self.folder.join("cgroup.kill"), "1");
        for _ in 0..LOOKS {
            if !self.is_populated() {
                return;
            }
            let _ = poll(&mut [], Some(&Timespec { tv_sec: 0, tv_nsec: 1_000_000 }));
        }
    }

    fn is_populated(&self) -> bool {
        let events = fs::read_to_string(self.folder.join("cgroup.events"));
        events.is_ok_and(|events| events.lines().any(|line| line == "populated 1"))
    }
}

impl Cgroup {
    /// Removes the group if it is empty; otherwise returns it.
    pub(super) fn remove(self) -> Result<(), Cgroup> {
        match fs::remove_dir(&self.folder) {
            Err(_) if self.folder.exists() => Err(self),
            _ => Ok(()),
        }
    }
}

fn enter(folder: &Path, pid: Pid) -> bool {
    fs::write(folder.join("cgroup.procs"), pid.as_raw_nonzero().to_string()).is_ok()
}

/// The directory of this process's own control group, from the system's tables of groups and mounts.
fn place(membership: &str, mounts: &str) -> Option<PathBuf> {
    let path = membership.lines().find_map(|line| line.strip_prefix("0::"))?;
    mounts.lines().find_map(|line| {
        let (mount, kind) = line.split_once(" - ")?;
        if kind.split(' ').next() != Some("cgroup2") {
            return None;
        }
        let mut fields = mount.split(' ').skip(3);
        let (root, point) = (fields.next()?, fields.next()?);
        // Blanks in a path are escaped; such a mount point is skipped.
        let below = path.strip_prefix(root.trim_end_matches('/'))?;
        if !below.is_empty() && !below.starts_with('/') {
            return None;
        }
        (!point.contains('\\')).then(|| Path::new(point).join(below.trim_start_matches('/')))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_own_group_is_found_below_its_mount() {
        let mounts = "\
22 1 0:20 / /proc rw - proc proc rw
30 1 0:26 / /sys/fs/cgroup ro - tmpfs tmpfs rw
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime shared:9 - cgroup2 cgroup2 rw
";
        let at = |membership| place(membership, mounts);
        assert_eq!(at("0::/\n"), Some("/sys/fs/cgroup/unified/".into()));
        assert_eq!(at("9:pids:/x\n0::/a/b c\n"), Some("/sys/fs/cgroup/unified/a/b c".into()));
        assert_eq!(at("9:pids:/x\n"), None);
        assert_eq!(place("0::/a\n", "22 1 0:20 / /proc rw - proc proc rw\n"), None);
        // Only a part of the hierarchy is mounted.
        let part = "41 31 0:38 /box /cgroup rw - cgroup2 cgroup2 rw\n";
        assert_eq!(place("0::/box/a\n", part), Some("/cgroup/a".into()));
        assert_eq!(place("0::/other\n", part), None);
        assert_eq!(place("0::/boxer/a\n", part), None);
        for odd in ["", "x", "a b - cgroup2", " - cgroup2", "1 2 3 / /a\\040b rw - cgroup2 x y"] {
            assert_eq!(place("0::/a\n", odd), None, "{odd}");
        }
    }
}
