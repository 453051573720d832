//! How a process is started on another host: the command of `--launcher`.

use std::env;
use std::ffi::{OsStr, OsString};

use clap::ValueEnum;

use crate::allocated::system_of;
use crate::files::in_path;
use chained_gpc::bootstrap::{BatchSystem, SlotList};

/// What starts the processes on the hosts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Launcher {
    /// The command of --rsh, or `ssh -o BatchMode=yes`
    Ssh,
    /// `srun`, within an allocation of Slurm
    Slurm,
    /// `ssh` and `pbs_attach`: the processes belong to the job of PBS
    Pbs,
    /// `blaunch`, within a job of LSF
    Lsf,
    /// `qrsh -inherit`, within a job of SGE
    Sge,
    /// None: the hosts are this machine
    Fork,
}

/// A step for each host, in the resources of the job. The environment of the job may ask for several tasks on each
/// node; each option here overrides its variable. The task is not bound to a core, since it starts others.
const SRUN: [&str; 10] = [
    "srun",
    "--quiet",
    "--nodes=1",
    "--ntasks=1",
    "--ntasks-per-node=1",
    "--nodelist={host}",
    "--mpi=none",
    "--cpu-bind=none",
    "--overlap",
    "--kill-on-bad-exit=1",
];

impl Launcher {
    /// The launcher for these hosts if none is named: that of the job which includes this process and these hosts, if
    /// its command is there; otherwise ssh. `pbs_attach` must be asked for, since not every PBS lets jobs attach.
    pub(super) fn of(hosts: &SlotList) -> Launcher {
        match system_of(hosts) {
            Some(BatchSystem::Slurm) if is_command("srun") => Launcher::Slurm,
            Some(BatchSystem::Lsf) if is_command("blaunch") => Launcher::Lsf,
            Some(BatchSystem::Sge) if is_command("qrsh") => Launcher::Sge,
            _ => Launcher::Ssh,
        }
    }

    /// Whether only the process that the batch system has started reaches the hosts, and no process on one of them.
    pub(super) fn is_flat(self) -> bool {
        match self {
            Launcher::Lsf | Launcher::Sge => true,
            Launcher::Ssh | Launcher::Slurm | Launcher::Pbs | Launcher::Fork => false,
        }
    }

    /// Returns the words of the command, with `{host}` for the host. The list is empty if the processes run on this
    /// machine; `None` stands for the default.
    ///
    /// PBS's own `pbsdsh` and `pbs_tmrsh` cannot be used: they pass neither standard input nor standard output on.
    ///
    /// # Errors
    /// If this process is in no job of PBS.
    pub(super) fn words(self) -> Result<Option<Vec<OsString>>, String> {
        Ok(match self {
            Launcher::Ssh => None,
            Launcher::Fork => Some(Vec::new()),
            Launcher::Slurm => Some(SRUN.map(OsString::from).to_vec()),
            Launcher::Lsf => Some(["blaunch", "{host}"].map(OsString::from).to_vec()),
            Launcher::Sge => Some(["qrsh", "-inherit", "{host}"].map(OsString::from).to_vec()),
            Launcher::Pbs => {
                let Some(job) = env::var_os("PBS_JOBID").filter(|job| !job.is_empty()) else {
                    return Err("--launcher pbs: PBS_JOBID is not set: run this within a job of PBS".into());
                };
                let ssh = ["ssh", "-o", "BatchMode=yes", "{host}", "pbs_attach", "-j"];
                Some(ssh.iter().map(OsString::from).chain([job]).collect())
            }
        })
    }
}

/// Whether a command is in `PATH`.
fn is_command(name: &str) -> bool {
    in_path(OsStr::new(name), &env::var_os("PATH").unwrap_or_default()).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_launcher_has_its_command() {
        for launcher in [Launcher::Slurm, Launcher::Lsf, Launcher::Sge] {
            let words = launcher.words().unwrap().unwrap();
            assert_eq!(words.iter().filter(|word| word.to_str().unwrap().contains("{host}")).count(), 1);
        }
        assert_eq!((Launcher::Ssh.words(), Launcher::Fork.words()), (Ok(None), Ok(Some(Vec::new()))));
        assert!(is_command("sh") && !is_command("no-such-command"));
    }
}
