//! The variables that launchers set in the environment of their processes, as one table, and how started processes are
//! kept from inheriting them.
//!
//! A process that inherits `PMI_RANK` acts as if the launcher had started it, and waits for others that do not know it.
//! So each start of a process [scrubs](scrub) the environment. User settings for launchers (`OMPI_MCA_btl`,
//! `SLURM_JOB_ID`) stay: a started program may run a launcher of its own.

mod inherited;

use std::io;
use std::process::Command;

pub(crate) use inherited::take_socket;
pub use inherited::{inherit_nothing, inherited_socket};

/// The variable of the descriptor that a PMI server's clients inherit.
pub(crate) const PMI_FD: &str = "PMI_FD";

/// Variables that identify a process of a launcher, or its server. A `*` at the end matches any suffix.
const OF_LAUNCHERS: &[&str] = &[
    // PMI-1, PMI-2 and PMIx, and the launchers of MPICH and Cray.
    "PMI_*",
    "PMI2_*",
    "PMIX_*",
    "HYDI_*",
    "HYDRA_*",
    "MPI_LOCALNRANKS",
    "MPI_LOCALRANKID",
    "MPIR_CVAR_CH3_INTERFACE_HOSTNAME",
    "PALS_*",
    // Open MPI's; version 5 also has those of PRRTE.
    "OMPI_COMM_WORLD_*",
    "OMPI_APP_CTX_NUM_PROCS",
    "OMPI_ARGV",
    "OMPI_COMMAND",
    "OMPI_FILE_LOCATION",
    "OMPI_FIRST_RANKS",
    "OMPI_NUM_APP_CTX",
    "OMPI_UNIVERSE_SIZE",
    "OMPI_MCA_ess*",
    "OMPI_MCA_orte_*",
    "OMPI_MCA_pmix*",
    "ORTE_*",
    "PRTE_LAUNCHED",
    // By which Open MPI 4 knows that it has a launcher.
    "JSM_JSRUN_PORT",
    // A step of Slurm. Variables of the whole job stay.
    "SLURM_GTIDS",
    "SLURM_LAUNCH_NODE_IPADDR",
    "SLURM_LOCALID",
    "SLURM_MPI_TYPE",
    "SLURM_NODEID",
    "SLURM_PMI*",
    "SLURM_PROCID",
    "SLURM_SRUN_COMM_*",
    "SLURM_STEP*",
    "SLURM_TASK_PID",
    "FLUX_*",
    // Pods of Kubernetes.
    "JOB_COMPLETION_INDEX",
    "GPC_COUNT",
    "GPC_SERVICE",
    // The rendezvous of a job, by either name.
    "GPC_JOB_HANDLE",
    "GPC_MULTIJOB_HANDLE",
    "GPC_SUBJOB_RANK",
    "GLOBUS_GRAM_JOB_HANDLE",
    "GLOBUS_GRAM_MULTIJOB_HANDLE",
    "GLOBUS_GRAM_SUBJOB_RANK",
    // The node of BNR.
    "GPC_BNR_*",
    // The server of IMPI, the number of this client, and its authentication. All implementations use these names.
    "GPC_IMPI_*",
    "IMPI_AUTH_*",
];

/// Whether a variable identifies a process of a launcher, or its server.
pub(crate) fn is_of_launcher(name: &str) -> bool {
    OF_LAUNCHERS.iter().any(|known| match known.strip_suffix('*') {
        Some(prefix) => name.starts_with(prefix),
        None => name == *known,
    })
}

/// Removes the variables of this process's launcher from the environment of a process to be started.
pub fn scrub(command: &mut Command) {
    // All launchers' variables are UTF-8.
    let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    for name in names.filter(|name| is_of_launcher(name)) {
        command.env_remove(name);
    }
}

/// Sets close-on-exec on the socket that the launcher has passed to this process.
///
/// # Errors
/// The system's.
pub fn keep_socket() -> io::Result<()> {
    match std::env::var(PMI_FD).ok().and_then(|number| number.parse().ok()) {
        Some(number) => inherited::close_on_exec(number),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_of_launchers_are_told_from_settings_of_people() {
        for name in ["PMI_FD", "PMI_RANK", "PMIX_RANK", "PMIX_SERVER_URI41", "SLURM_STEP_ID", "SLURM_PROCID"]
        {
            assert!(is_of_launcher(name), "{name}");
        }
        for name in ["PATH", "PMI", "SLURM_JOB_ID", "OMPI_MCA_btl", "OMPI_UNIVERSE_SIZES", "XPMI_FD", ""] {
            assert!(!is_of_launcher(name), "{name}");
        }
    }

    #[test]
    fn what_is_scrubbed_is_what_this_process_has() {
        let mut command = Command::new("true");
        scrub(&mut command);
        let removed: Vec<String> =
            command.get_envs().map(|(name, _)| name.to_str().unwrap().to_owned()).collect();
        let mut expected: Vec<String> =
            std::env::vars().map(|(name, _)| name).filter(|name| is_of_launcher(name)).collect();
        expected.sort();
        assert_eq!(removed, expected);
    }
}
