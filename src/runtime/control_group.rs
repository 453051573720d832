//! Files of the control groups that contain this process, of both versions.

use std::fs;
use std::path::{Path, PathBuf};

/// Returns the files of a controller for this process: first that of its own group, then those of the enclosing groups.
/// `unified` is the file's name in version 2, `own` that in version 1.
pub fn files(controller: &str, unified: &str, own: &str) -> Vec<PathBuf> {
    files_of(&fs::read_to_string("/proc/self/cgroup").unwrap_or_default(), controller, unified, own)
}

/// The same for a given content of `/proc/self/cgroup`.
pub(super) fn files_of(groups: &str, controller: &str, unified: &str, own: &str) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for line in groups.lines() {
        let mut fields = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else { continue };
        let (root, name) = match controllers {
            "" => (PathBuf::from("/sys/fs/cgroup"), unified),
            _ if controllers.split(',').any(|one| one == controller) => {
                (Path::new("/sys/fs/cgroup").join(controller), own)
            }
            _ => continue,
        };
        // In a container the group may have another path: then the root of the hierarchy has the file.
        let group = Path::new(path.trim_start_matches('/'));
        files.extend(group.ancestors().map(|group| root.join(group).join(name)));
    }
    files
}

/// The number in a file, if there is one.
pub fn number(file: &Path) -> Option<u64> {
    fs::read_to_string(file).ok()?.trim().parse().ok()
}

/// Number of processes of this process's group that the kernel has killed for lack of memory; `None` if no group
/// reports it.
pub fn memory_kills() -> Option<u64> {
    files("memory", "memory.events", "memory.oom_control").iter().find_map(|file| {
        let events = fs::read_to_string(file).ok()?;
        kills_of(&events)
    })
}

fn kills_of(events: &str) -> Option<u64> {
    events.lines().find_map(|line| line.strip_prefix("oom_kill "))?.trim().parse().ok()
}

/// Returns the file of the group that allows no further process, and its limit.
pub fn full_of_processes() -> Option<(PathBuf, u64)> {
    let limits = files("pids", "pids.max", "pids.max").into_iter();
    let mut limits = limits.filter_map(|file| Some((number(&file)?, file)));
    let full = limits.find(|(most, file)| {
        number(&file.with_file_name("pids.current")).is_some_and(|current| current >= *most)
    });
    full.map(|(most, file)| (file, most))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kills_for_memory_are_counted_as_both_versions_write_them() {
        assert_eq!(kills_of("low 0\noom 3\noom_kill 2\noom_group_kill 0\n"), Some(2));
        assert_eq!(kills_of("oom_kill_disable 0\nunder_oom 0\noom_kill 7\n"), Some(7));
        assert_eq!(kills_of("oom_kill much\n"), None);
        assert_eq!(kills_of(""), None);
    }
}
