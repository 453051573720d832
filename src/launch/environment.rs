//! What of the environment is not for processes on other hosts, and not for those that are started there: variables by which a launcher, or the ssh server of an outer session, tells its own processes who they are.

use std::env;
use std::process::Command;

/// How the names of such variables begin.
const FOREIGN: [&str; 14] = [
    "PMI_",
    "PMI2_",
    "PMIX_",
    "HYDRA_",
    "HYDI_",
    "MPI_LOCAL",
    "OMPI_",
    "PRTE_",
    "PRRTE_",
    "SLURM_",
    "FLUX_",
    "JOB_COMPLETION_INDEX",
    "SSH_CONNECTION",
    "SSH_CLIENT",
];

/// Those that name an allocation of Slurm and no process of it: `srun` in place of ssh needs them.
const KEPT: [&str; 3] = ["SLURM_CONF", "SLURM_JOB_ID", "SLURM_JOBID"];

/// Whether a variable is one of another launcher's.
pub(super) fn is_foreign(name: &str) -> bool {
    !KEPT.contains(&name) && FOREIGN.iter().any(|beginning| name.starts_with(beginning))
}

/// Keeps those variables from a process.
pub(super) fn keep_out(command: &mut Command) {
    let names = env::vars_os().map(|(name, _)| name);
    for name in names.filter(|name| name.to_str().is_some_and(is_foreign)) {
        command.env_remove(name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_of_launchers_are_known() {
        for name in ["PMI_RANK", "PMIX_NAMESPACE", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "SSH_CONNECTION"] {
            assert!(is_foreign(name), "{name}");
        }
        for name in ["PATH", "HOME", "SSH_AUTH_SOCK", "GPC_LOG", "XPMI_RANK", "SLURM_JOB_ID"] {
            assert!(!is_foreign(name), "{name}");
        }
    }
}
