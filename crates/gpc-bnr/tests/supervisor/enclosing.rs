//! Processes that SIGKILL alone does not end, with a delegated control group. The test creates the group and gives it
//! to another user, as a system does.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use gpc_bnr::Exit;
use rustix::process::geteuid;

use crate::support::{Harness, SIGKILL, member};

/// A user without privileges.
const NOBODY: u32 = 65534;

/// A control group that belongs to another user.
struct Delegated(PathBuf);

impl Delegated {
    /// `None` if there is no cgroup v2, or this process may not create the group.
    fn new() -> Option<Delegated> {
        let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
        let mount = mounts.lines().find(|line| line.contains(" - cgroup2 "))?.split(' ').nth(4)?;
        // Each test has a group of its own; one that an earlier process of this number has left is no reason to skip.
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let make = |_| {
            let number = COUNT.fetch_add(1, Ordering::Relaxed);
            let folder = Path::new(mount).join(format!("gpc-test-{}-{number}", std::process::id()));
            fs::create_dir(&folder).ok().map(|()| Delegated(folder))
        };
        let delegated = (0..8).find_map(make)?;
        // Where no hierarchy is mounted, it is a plain folder.
        delegated.0.join("cgroup.procs").exists().then_some(())?;
        for file in ["", "cgroup.procs"] {
            chown(delegated.0.join(file), Some(NOBODY), Some(NOBODY)).ok()?;
        }
        Some(delegated)
    }

    fn groups_below(&self) -> usize {
        let entries = fs::read_dir(&self.0).unwrap().flatten();
        entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())).count()
    }
}

impl Drop for Delegated {
    fn drop(&mut self) {
        // Cleans up after a failed test.
        let _ = fs::write(self.0.join("cgroup.kill"), "1");
        let _ = fs::remove_dir(&self.0);
    }
}

/// A set-user-ID program that runs as root: only root may signal it.
fn set_user_id(folder: &Path) -> Option<PathBuf> {
    let found = Command::new("sh").args(["-c", "command -v setpriv"]).output().ok()?;
    let found = String::from_utf8(found.stdout).ok()?;
    let copy = folder.join("become-root");
    fs::copy(found.trim(), &copy).ok()?;
    fs::set_permissions(folder, fs::Permissions::from_mode(0o755)).ok()?;
    fs::set_permissions(&copy, fs::Permissions::from_mode(0o4755)).ok()?;
    Some(copy)
}

/// Whether another user can execute the program of these tests: not in a folder that belongs to root alone.
fn is_executable_for_nobody() -> bool {
    let nobody = NOBODY.to_string();
    let user = ["--reuid", &nobody, "--regid", &nobody, "--clear-groups"];
    let exe = std::env::current_exe().unwrap();
    Command::new("setpriv")
        .args(user)
        .args(["test", "-x"])
        .arg(exe)
        .status()
        .is_ok_and(|status| status.success())
}

/// The process was given up after 10 s, and ran on.
#[test]
fn who_has_become_another_user_is_killed_by_the_control_group() {
    let folder = tempfile::tempdir().unwrap();
    let delegated = Delegated::new().filter(|_| geteuid().is_root());
    let (Some(delegated), Some(become_root)) = (delegated, set_user_id(folder.path())) else {
        return eprintln!("skipped: needs root, cgroup v2 and setpriv");
    };
    // With a clone in a private folder the test failed: the supervisor could not start.
    if !is_executable_for_nobody() {
        return eprintln!("skipped: needs a target folder that other users can read");
    }
    let procs = delegated.0.join("cgroup.procs");
    let as_nobody = format!(
        "if [ $(id -u) = 0 ]; then echo $$ > {}; exec setpriv --reuid {NOBODY} --regid {NOBODY} --clear-groups sh -c 'BNR_TEST_KEEPER=1 exec \"$0\" \"$@\"' \"$0\" \"$@\"; fi",
        procs.display()
    );
    let mut harness = Harness::behind(&as_nobody);
    let script = format!("exec {} --reuid 0 sh -c 'id -u; id -ru; exec sleep 600'", become_root.display());
    let mut process = harness.shell(member(1, 0), &script);
    assert_eq!((process.line(), process.line()), ("0".into(), "0".into()), "it is root");
    harness.kill(1, None);
    assert_eq!(harness.emptied(1), [(0, Exit::Signal(SIGKILL))]);
    // No process has its output open any more.
    assert_eq!(process.all(), "");
    assert_eq!(delegated.groups_below(), 0);
}
