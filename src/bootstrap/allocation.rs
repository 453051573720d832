//! The allocation of a batch system that includes this process: its hosts and their slots, from variables and a file.
//!
//! | system | hosts and slots |
//! |---|---|
//! | Slurm | `SLURM_JOB_NODELIST`, with `SLURM_TASKS_PER_NODE` (`2(x3),1`) or else `SLURM_JOB_CPUS_PER_NODE` |
//! | PBS, Torque | the file `PBS_NODEFILE`: a line for each slot |
//! | LSF | `LSB_MCPU_HOSTS` (`a 4 b 4`), or else the file `LSB_DJOB_HOSTFILE`: a line for each slot |
//! | SGE | the file `PE_HOSTFILE`: a line `HOST SLOTS QUEUE RANGE` for each host |
//!
//! If the variables of several systems are set, the first of this table counts. Nothing here does I/O: the caller reads
//! the file.

use std::fmt;

use super::host_file::{HostFileError, read_host_file};
use super::host_list::{HostList, HostListError, shown};
use super::rule::{Counts, is_slurm_task};
use super::slot_list::{SlotAdder, SlotList, parse_slots};
use super::variables::Variables;

/// A batch system.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum BatchSystem {
    /// Slurm.
    Slurm,
    /// PBS and Torque.
    Pbs,
    /// LSF.
    Lsf,
    /// Sun Grid Engine and its successors.
    Sge,
}

/// The allocation that the variables of a process describe.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Allocation {
    system: BatchSystem,
    source: Source,
    is_task: bool,
}

/// Where the hosts are.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Source {
    /// Slurm's list of nodes, with the name of its variable, and the counts, with theirs.
    Nodes { nodes: Variable, counts: Option<Variable> },
    /// Names and numbers in turn.
    Pairs(Variable),
    /// A file with a line for each slot.
    Lines(Variable),
    /// A file with a line `HOST SLOTS ...` for each host.
    Columns(Variable),
}

/// A variable that is set.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Variable {
    name: &'static str,
    value: String,
}

/// Why the hosts of an allocation are unknown.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AllocationError {
    /// A variable, or the file that it names, has an invalid list of hosts.
    #[error("{system}: {variable}: {why}")]
    Hosts {
        /// The batch system.
        system: BatchSystem,
        /// The variable.
        variable: &'static str,
        /// What is wrong.
        why: HostListError,
    },
    /// The file with a line for each slot is invalid.
    #[error("{system}: the file of {variable}, {why}")]
    File {
        /// The batch system.
        system: BatchSystem,
        /// The variable that names the file.
        variable: &'static str,
        /// What is wrong.
        why: HostFileError,
    },
    /// A text that does not have the form of its variable or file.
    #[error("{system}: {variable}: {why}")]
    Form {
        /// The batch system.
        system: BatchSystem,
        /// The variable.
        variable: &'static str,
        /// What is wrong.
        why: String,
    },
}

impl BatchSystem {
    /// The variables by which an allocation is recognized.
    pub const VARIABLES: &'static str =
        "SLURM_JOB_NODELIST, PBS_NODEFILE, LSB_MCPU_HOSTS, LSB_DJOB_HOSTFILE or PE_HOSTFILE";
}

impl fmt::Display for BatchSystem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            BatchSystem::Slurm => "Slurm",
            BatchSystem::Pbs => "PBS",
            BatchSystem::Lsf => "LSF",
            BatchSystem::Sge => "SGE",
        })
    }
}

impl Allocation {
    /// Returns the allocation of these variables; `None` if they describe none.
    pub fn find(variables: &Variables) -> Option<Allocation> {
        let one = |name: &'static str| {
            let value = variables.get(name).filter(|value| !value.trim().is_empty())?;
            Some(Variable { name, value: value.trim().to_owned() })
        };
        let nodes = |nodes| {
            let counts = one("SLURM_TASKS_PER_NODE").or_else(|| one("SLURM_JOB_CPUS_PER_NODE"));
            (BatchSystem::Slurm, Source::Nodes { nodes, counts })
        };
        let (system, source) = one("SLURM_JOB_NODELIST")
            .map(nodes)
            .or_else(|| Some((BatchSystem::Pbs, Source::Lines(one("PBS_NODEFILE")?))))
            .or_else(|| Some((BatchSystem::Lsf, Source::Pairs(one("LSB_MCPU_HOSTS")?))))
            .or_else(|| Some((BatchSystem::Lsf, Source::Lines(one("LSB_DJOB_HOSTFILE")?))))
            .or_else(|| Some((BatchSystem::Sge, Source::Columns(one("PE_HOSTFILE")?))))?;
        let is_task = system == BatchSystem::Slurm && is_slurm_task(variables);
        Some(Allocation { system, source, is_task })
    }

    /// The batch system.
    pub fn system(&self) -> BatchSystem {
        self.system
    }

    /// Whether this process is a task that the batch system has started (`srun`), perhaps the only one. Then it stays
    /// on its own host: if each task took the whole allocation, everything would run once for each task.
    ///
    /// `SLURM_PROCID` alone does not tell: a batch script has it too, with the value 0. A task also has the number of
    /// its step, and that is not one of those which Slurm gives to the batch script and to the shell of `salloc`.
    pub fn is_task(&self) -> bool {
        self.is_task
    }

    /// The path of the file that [`hosts`](Self::hosts) needs; `None` if the variables have everything.
    pub fn file(&self) -> Option<&str> {
        match &self.source {
            Source::Nodes { .. } | Source::Pairs(_) => None,
            Source::Lines(path) | Source::Columns(path) => Some(&path.value),
        }
    }

    /// Returns the hosts with their slots. `text` is the content of the [file](Self::file), or empty without one.
    ///
    /// # Errors
    /// If the variables or the file are invalid, or contradict each other.
    pub fn hosts(&self, text: &str) -> Result<SlotList, AllocationError> {
        match &self.source {
            Source::Nodes { nodes, counts } => self.of_nodes(nodes, counts.as_ref()),
            Source::Pairs(pairs) => {
                let words: Vec<&str> = pairs.value.split_whitespace().collect();
                self.of_rows(pairs.name, words.chunks(2), "hosts and numbers in turn, such as `a 4 b 4`")
            }
            Source::Columns(path) => {
                let lines = text.lines().filter(|line| !line.trim().is_empty());
                let rows: Vec<Vec<&str>> = lines.map(|line| line.split_whitespace().collect()).collect();
                let rows = rows.iter().map(Vec::as_slice);
                self.of_rows(path.name, rows, "a line `HOST SLOTS QUEUE RANGE` for each host")
            }
            Source::Lines(path) => read_host_file(text).map_err(|why| AllocationError::File {
                system: self.system,
                variable: path.name,
                why,
            }),
        }
    }

    /// The hosts of Slurm's list, each with its count.
    fn of_nodes(&self, nodes: &Variable, counts: Option<&Variable>) -> Result<SlotList, AllocationError> {
        let wrong = |why| self.wrong(nodes.name, why);
        let names: HostList = nodes.value.parse().map_err(wrong)?;
        let slots = match counts {
            None => vec![1; names.len()],
            Some(counts) => {
                let read: Result<Counts, String> = counts.value.parse();
                read.map_err(|why| self.malformed(counts.name, why))?.0
            }
        };
        if slots.len() != names.len() {
            let (name, value) = counts.map_or(("", ""), |counts| (counts.name, counts.value.as_str()));
            let why = format!(
                "`{}` is for {} hosts, and {} `{}` names {}: within a step of some of them, name the hosts with --hosts",
                shown(value),
                slots.len(),
                nodes.name,
                shown(&nodes.value),
                names.len()
            );
            return Err(self.malformed(name, why));
        }
        let mut adding = SlotAdder::default();
        let add = |(name, slots): (&str, u32)| adding.add_one(name, slots);
        names.iter().zip(slots).try_for_each(add).map_err(wrong)?;
        adding.finish().map_err(wrong)
    }

    /// The hosts of rows, which begin with a name and a number.
    fn of_rows<'a>(
        &self,
        variable: &'static str,
        rows: impl Iterator<Item = &'a [&'a str]>,
        form: &str,
    ) -> Result<SlotList, AllocationError> {
        let wrong = |why| self.wrong(variable, why);
        let mut adding = SlotAdder::default();
        for row in rows {
            let refused = || self.malformed(variable, format!("`{}` is not {form}", shown(&row.join(" "))));
            let [name, number, ..] = row else { return Err(refused()) };
            let slots = parse_slots(number).ok_or_else(refused)?;
            let names = HostList::new([(*name).to_owned()]).map_err(wrong)?;
            adding.add(&names, slots).map_err(wrong)?;
        }
        adding.finish().map_err(wrong)
    }

    fn wrong(&self, variable: &'static str, why: HostListError) -> AllocationError {
        AllocationError::Hosts { system: self.system, variable, why }
    }

    fn malformed(&self, variable: &'static str, why: String) -> AllocationError {
        AllocationError::Form { system: self.system, variable, why }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::host_list::HOSTS_MAX;
    use super::*;

    fn find(variables: &[(&str, &str)]) -> Option<Allocation> {
        Allocation::find(&variables.iter().map(|&(name, value)| (name.into(), value.into())).collect())
    }

    fn read(variables: &[(&str, &str)], text: &str) -> String {
        match find(variables) {
            None => "none".into(),
            Some(found) => match found.hosts(text) {
                Ok(hosts) => format!("{} {hosts}", found.system()),
                Err(error) => error.to_string(),
            },
        }
    }

    #[test]
    fn the_hosts_of_each_system_are_found() {
        let nodes = ("SLURM_JOB_NODELIST", "a[1-3,7],b");
        assert_eq!(read(&[nodes], ""), "Slurm a[1-3,7],b");
        let tasks = ("SLURM_TASKS_PER_NODE", "2(x3),1,4");
        let cores = ("SLURM_JOB_CPUS_PER_NODE", "16(x5)");
        assert_eq!(read(&[nodes, cores, tasks], ""), "Slurm a[1-3]:2,a7,b:4");
        assert_eq!(read(&[nodes, cores], ""), "Slurm a[1-3,7]:16,b:16");
        assert_eq!(read(&[("PBS_NODEFILE", "f")], "n1\nn1\nn2\nn1\n"), "PBS n1:3,n2");
        assert_eq!(read(&[("LSB_MCPU_HOSTS", "a 4 b 2 a 1")], ""), "LSF a:5,b:2");
        assert_eq!(read(&[("LSB_DJOB_HOSTFILE", "f")], "a\na\nb\n"), "LSF a:2,b");
        let rows = "node1.x 4 all.q@node1.x UNDEFINED\nnode2.x 1 all.q@node2.x <NULL>\n\n";
        assert_eq!(read(&[("PE_HOSTFILE", "f")], rows), "SGE node1.x:4,node2.x");
        assert_eq!(read(&[("HOME", "/root"), ("PBS_NODEFILE", " ")], ""), "none");
        let file = |name| find(&[(name, "/tmp/f")]).unwrap().file().map(str::to_owned);
        assert_eq!((file("PBS_NODEFILE"), file("LSB_MCPU_HOSTS")), (Some("/tmp/f".into()), None));
    }

    #[test]
    fn the_first_system_counts() {
        let mut all = vec![
            ("SLURM_JOB_NODELIST", "a"),
            ("PBS_NODEFILE", "f"),
            ("LSB_MCPU_HOSTS", "c 1"),
            ("LSB_DJOB_HOSTFILE", "f"),
            ("PE_HOSTFILE", "f"),
        ];
        for expected in ["Slurm a", "PBS b", "LSF c", "LSF b"] {
            assert_eq!(read(&all, "b\n"), expected);
            all.remove(0);
        }
        assert_eq!(read(&all, "b 2 q r\n"), "SGE b:2");
    }

    #[test]
    fn what_contradicts_itself_is_named() {
        let nodes = ("SLURM_JOB_NODELIST", "a[1-3]");
        assert_eq!(
            read(&[nodes, ("SLURM_TASKS_PER_NODE", "2(x2)")], ""),
            "Slurm: SLURM_TASKS_PER_NODE: `2(x2)` is for 2 hosts, and SLURM_JOB_NODELIST `a[1-3]` names 3: within a step of some of them, name the hosts with --hosts"
        );
        assert_eq!(
            read(&[nodes, ("SLURM_TASKS_PER_NODE", "two")], ""),
            "Slurm: SLURM_TASKS_PER_NODE: `two` does not say how many tasks each node has"
        );
        assert!(
            read(&[("SLURM_JOB_NODELIST", "a[1")], "").starts_with("Slurm: SLURM_JOB_NODELIST: the brackets")
        );
        assert!(
            read(&[("PBS_NODEFILE", "f")], "a\n-b\n")
                .starts_with("PBS: the file of PBS_NODEFILE, line 2: `-b` is no name")
        );
        assert!(read(&[("PBS_NODEFILE", "f")], "").contains("line 1: the file ends without a host"));
        let pairs = "LSF: LSB_MCPU_HOSTS: `b` is not hosts and numbers in turn, such as `a 4 b 4`";
        assert_eq!(read(&[("LSB_MCPU_HOSTS", "a 4 b")], ""), pairs);
        assert_eq!(
            read(&[("PE_HOSTFILE", "f")], "a 4 q r\nb many q r\n"),
            "SGE: PE_HOSTFILE: `b many q r` is not a line `HOST SLOTS QUEUE RANGE` for each host"
        );
    }

    /// A batch script has the number of its process, 0, as a task has; the shell of `salloc` may be a step of Slurm's
    /// own.
    #[test]
    fn a_task_of_a_step_is_told_from_a_batch_script() {
        let nodes = ("SLURM_JOB_NODELIST", "a[1-3]");
        let is_task = |more: &[(&str, &str)]| find(&[&[nodes], more].concat()).unwrap().is_task();
        let process = ("SLURM_PROCID", "0");
        assert!(is_task(&[process, ("SLURM_STEP_ID", "0")]));
        assert!(is_task(&[process, ("SLURM_STEPID", "7")]));
        for script in [
            &[][..],
            &[process],
            &[("SLURM_STEP_ID", "0")],
            &[process, ("SLURM_STEP_ID", "4294967291")],
            &[process, ("SLURM_STEP_ID", "4294967290")],
        ] {
            assert!(!is_task(script), "{script:?}");
        }
    }

    proptest! {
        #[test]
        fn any_variables_are_hosts_or_refused(
            place in 0usize..5,
            value in "([ab0-9\\[\\],:() x-]{1,4}|\\PC){0,10}",
            counts in "([0-9x(),]{1,4}){0,4}",
            text in "([ab0-9 \n#=]{1,4}|\\PC){0,12}",
        ) {
            let names = ["SLURM_JOB_NODELIST", "PBS_NODEFILE", "LSB_MCPU_HOSTS", "LSB_DJOB_HOSTFILE", "PE_HOSTFILE"];
            let variables = [(names[place], value.as_str()), ("SLURM_TASKS_PER_NODE", counts.as_str())];
            if let Some(Ok(hosts)) = find(&variables).map(|found| found.hosts(&text)) {
                prop_assert!((1..=HOSTS_MAX).contains(&hosts.len()));
                let file: String =
                    hosts.iter().map(|host| format!("{} {} q r\n", host.name, host.slots)).collect();
                let again = find(&[("PE_HOSTFILE", "f")]).unwrap().hosts(&file);
                prop_assert_eq!(again, Ok(hosts));
            }
        }
    }
}
