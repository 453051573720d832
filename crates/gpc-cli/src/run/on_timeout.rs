//! The command of `--on-timeout`: a process on each node that runs processes of the job, with the ids of these.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::time::Duration;

use gpc_bnr::names::{GroupId, Rank};
use gpc_bnr::request::GroupStatus;
use gpc_bnr::{Death, Spec};
use gpc_trees::Id;

use super::failures::FIRST;

/// Time for the command: a debugger that attaches to many processes takes some of it.
pub(super) const LIMIT: Duration = Duration::from_secs(60);

/// Maximum number of process ids: with seven digits each, Linux allows no more in one variable.
const PIDS_MAX: usize = 16_000;

/// The processes of the command as a group.
#[derive(Debug)]
pub(super) struct CommandGroup {
    group: GroupId,
    ends: Vec<Death>,
}

impl CommandGroup {
    /// A group of which no process has ended.
    pub(super) fn new(group: GroupId) -> CommandGroup {
        CommandGroup { group, ends: Vec::new() }
    }

    /// Takes the end of a process, if it is one of these.
    pub(super) fn takes(&mut self, death: &Death) -> bool {
        let is_own = death.member.group == self.group;
        if is_own {
            self.ends.push(*death);
        }
        is_own
    }

    /// How its processes have ended, so far.
    pub(super) fn ends(&self) -> &[Death] {
        &self.ends
    }
}

/// Returns the processes of the command, one on each node that runs processes of these groups, by node. Each starts in
/// the folder of the first process there, as `specs` of the first group have it.
pub(super) fn processes(command: &OsStr, groups: &[GroupStatus], specs: &[Spec]) -> Vec<(Id, Spec)> {
    // A derived group has the processes of others.
    let mut pids = BTreeMap::<Id, BTreeSet<u32>>::new();
    let mut folders = BTreeMap::<Id, Vec<u8>>::new();
    for group in groups {
        for member in group.members.iter().filter(|member| member.death.is_none()) {
            pids.entry(member.node).or_default().extend(member.pid);
            if let (true, Some(folder)) = (group.group == FIRST, folder_of(specs, member.rank)) {
                folders.entry(member.node).or_insert_with(|| folder.to_vec());
            }
        }
    }
    let process = |(node, pids): (Id, BTreeSet<u32>)| {
        let pids: Vec<String> = pids.iter().take(PIDS_MAX).map(u32::to_string).collect();
        let folder = folders.remove(&node).map(|folder| ("wdir".to_owned(), folder));
        let place = ("places".to_owned(), node.to_string().into_bytes());
        let partial = ("start".to_owned(), b"partial".to_vec());
        let spec = Spec {
            count: 1,
            program: b"/bin/sh".to_vec(),
            args: vec![b"-c".to_vec(), command.as_bytes().to_vec()],
            env: vec![(b"GPC_PIDS".to_vec(), pids.join(" ").into_bytes())],
            info: folder.into_iter().chain([place, partial]).collect(),
        };
        (node, spec)
    };
    pids.into_iter().filter(|(_, pids)| !pids.is_empty()).map(process).collect()
}

/// The folder of a rank.
fn folder_of(specs: &[Spec], rank: Rank) -> Option<&[u8]> {
    let mut after = 0;
    let own = specs.iter().find(|spec| {
        after += spec.count;
        rank < after
    });
    own?.info.iter().find(|(key, _)| key == "wdir").map(|(_, folder)| folder.as_slice())
}

#[cfg(test)]
mod tests {
    use gpc_bnr::Exit;
    use gpc_bnr::names::Member;
    use gpc_bnr::request::{GroupState, MemberStatus};

    use super::*;

    fn group(number: u32, members: &[(Rank, Id, u32)]) -> GroupStatus {
        let member = |(rank, node, pid): &(Rank, Id, u32)| MemberStatus {
            rank: *rank,
            node: *node,
            pid: Some(*pid),
            death: None,
        };
        GroupStatus {
            group: GroupId(number),
            parent: None,
            state: GroupState::Running,
            database: String::new(),
            program: Vec::new(),
            age: Duration::ZERO,
            members: members.iter().map(member).collect(),
        }
    }

    /// The command ran where the job was started, and not where its processes were.
    #[test]
    fn each_node_gets_the_ids_of_its_own_processes() {
        let in_folder = |folder: &str, count| {
            let info = vec![("wdir".to_owned(), folder.as_bytes().to_vec())];
            Spec { count, info, ..Spec::default() }
        };
        let specs = [in_folder("/a", 2), in_folder("/b", 2)];
        let mut first = group(1, &[(0, 1, 10), (1, 2, 20), (2, 2, 21), (3, 3, 30), (4, 4, 40)]);
        let member = Member { group: FIRST, rank: 4 };
        first.members[4].death = Some(Death { member, exit: Exit::Code(0), finalized: true });
        // It has spawned one more, and is merged with it.
        let groups = [first, group(2, &[(0, 5, 50)]), group(3, &[(0, 1, 10), (1, 2, 20), (2, 5, 50)])];
        let processes = processes(OsStr::new("gdb -p"), &groups, &specs);
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        let shown = |(node, spec): &(Id, Spec)| {
            assert_eq!((spec.count, &spec.args[1][..]), (1, &b"gdb -p"[..]));
            let info = spec.info.iter().map(|(key, value)| format!("{key}={}", text(value)));
            (*node, text(&spec.env[0].1), info.collect::<Vec<_>>().join(" "))
        };
        let shown: Vec<_> = processes.iter().map(shown).collect();
        let expected = [
            (1, "10", "wdir=/a places=1 start=partial"),
            (2, "20 21", "wdir=/a places=2 start=partial"),
            (3, "30", "wdir=/b places=3 start=partial"),
            (5, "50", "places=5 start=partial"),
        ];
        assert_eq!(shown, expected.map(|(node, pids, info)| (node, pids.to_owned(), info.to_owned())));
    }

    #[test]
    fn a_variable_has_so_many_ids() {
        let members: Vec<_> = (0..PIDS_MAX as u32 + 9).map(|rank| (rank, 1, 1_000_000 + rank)).collect();
        let processes = processes(OsStr::new("c"), &[group(1, &members)], &[]);
        let length = processes[0].1.env[0].1.len();
        assert!(length < 128 << 10, "{length}");
    }
}
