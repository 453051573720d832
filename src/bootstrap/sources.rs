//! Detects the launcher of this process: an ordered list of known launchers, each recognized by its variables.
//!
//! Pure functions over a map of variables. The first source that recognizes its variables is used. If a source finds
//! variables of its launcher but lacks a required one, it returns an error. A process that was started with others must
//! never run as a job of one process.

use std::time::Duration;

use super::source::Source;
use super::variables::Variables;
use super::{Bootstrap, BootstrapError, Resolve, Rule, pmi, rule};

/// Looks for the variables of one launcher: `None` if they are not set, an error if only some are set.
type Find = fn(&Variables) -> Option<Result<Box<dyn Source>, BootstrapError>>;

/// All sources. Launchers with a server come first, since they report the most; rules for addresses come last.
const SOURCES: &[Find] = &[pmi::find, pmix, slurm, kubernetes];

/// Recognizes launchers that speak PMIx. The package `gpc-pmix` handles such processes before it uses this list.
fn pmix(variables: &Variables) -> Option<Result<Box<dyn Source>, BootstrapError>> {
    let seen = ["PMIX_NAMESPACE", "PMIX_RANK"].iter().any(|name| variables.contains_key(*name));
    let why = "this program does not speak PMIx: build it with the package gpc-pmix and its `from_env` (the command: with the feature `pmix`), or have the launcher serve PMI-2 (`srun --mpi=pmi2`)";
    seen.then(|| {
        Err(BootstrapError::Variables { launcher: "a launcher that speaks PMIx", why: why.to_owned() })
    })
}

fn slurm(variables: &Variables) -> Option<Result<Box<dyn Source>, BootstrapError>> {
    Some(rule::find_slurm(variables)?.map(|rule| Box::new(rule) as Box<dyn Source>))
}

fn kubernetes(variables: &Variables) -> Option<Result<Box<dyn Source>, BootstrapError>> {
    Some(rule::find_kubernetes(variables)?.map(|rule| Box::new(rule) as Box<dyn Source>))
}

impl Source for Rule {
    /// Reads the secret. Nothing is sent: names are resolved when their addresses are needed.
    fn open(self: Box<Self>, limit: Duration) -> Result<Bootstrap, BootstrapError> {
        Ok(Bootstrap::with_rule(*self, Resolve::default())?.limit(limit))
    }
}

/// Returns the launcher of these variables; `None` if there is none.
///
/// # Errors
/// If its variables are incomplete or invalid.
pub(super) fn find(variables: &Variables) -> Result<Option<Box<dyn Source>>, BootstrapError> {
    SOURCES.iter().find_map(|find| find(variables)).transpose()
}

/// Returns the rule of the launcher of these variables, plain Slurm or Kubernetes; `None` if they are of neither.
///
/// # Errors
/// If its variables are incomplete, or contradict each other.
pub fn rule_of(variables: &Variables) -> Result<Option<Rule>, BootstrapError> {
    rule::find_slurm(variables).or_else(|| rule::find_kubernetes(variables)).transpose()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> String {
        let pair = |word: &str| word.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned()));
        match find(&text.split_whitespace().filter_map(pair).collect()) {
            Ok(None) => "nobody".to_owned(),
            Ok(Some(source)) => format!("{source:?}").chars().take(40).collect(),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn a_process_without_a_launcher_has_no_source() {
        assert_eq!(found(""), "nobody");
        assert_eq!(found("HOME=/root HOSTNAME=web-3 SLURM_JOB_ID=7 OMPI_MCA_btl=tcp"), "nobody");
    }

    /// Under `srun --mpi=pmix` the variables of a step are set as well, and each task would listen as the rule defines.
    #[test]
    fn a_launcher_with_a_server_comes_before_a_rule() {
        let step =
            "SLURM_JOB_ID=1 SLURM_STEP_ID=0 SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=1 SLURM_STEP_NODELIST=a";
        assert!(found(step).starts_with("Rule { launcher: \"Slurm\""), "{}", found(step));
        let with = found(&format!("{step} PMIX_NAMESPACE=n PMIX_RANK=0"));
        assert!(with.contains("gpc-pmix"), "{with}");
        assert!(found("PMIX_RANK=0").contains("gpc-pmix"));
    }
}
