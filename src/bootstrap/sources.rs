//! Which launcher has started this process: the ordered list of those that are known, and how each is recognized by its variables.
//!
//! Pure over a map of variables. The first source that recognizes its variables counts. A source that sees variables of its launcher, and lacks one that it needs, says so as an error: a process that was started among
//! others must never take itself for a single one.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{Bootstrap, BootstrapError, Resolve, Rule, pmi, rule};

/// The environment of a process. What is not UTF-8 is not in it: no launcher's variables are so.
pub type Variables = BTreeMap<String, String>;

/// A launcher that was recognized: what is needed to reach it.
pub(super) trait Source: std::fmt::Debug {
    /// Reaches the launcher, which takes at most this long.
    ///
    /// # Errors
    /// When it is not there, or says nonsense.
    fn open(self: Box<Self>, limit: Duration) -> Result<Bootstrap, BootstrapError>;
}

/// Looks for the variables of one launcher: `None` if they are not there, an error if only some of them are.
type Find = fn(&Variables) -> Option<Result<Box<dyn Source>, BootstrapError>>;

/// All of them. Before the others come those with a server of their own, which know most; a rule for addresses comes behind them.
const SOURCES: &[Find] = &[pmi::find, pmix, slurm, kubernetes];

/// What a launcher that speaks PMIx sets. Such a process is for the package `gpc-pmix`, which looks for them before this list is asked.
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
    /// Reads the secret. Nothing is asked of anybody: names are looked up when their addresses are needed.
    fn open(self: Box<Self>, limit: Duration) -> Result<Bootstrap, BootstrapError> {
        Ok(Bootstrap::with_rule(*self, Resolve::default())?.limit(limit))
    }
}

/// The launcher of these variables; `None` if there is none.
///
/// # Errors
/// When its variables are incomplete, or wrong.
pub(super) fn find(variables: &Variables) -> Result<Option<Box<dyn Source>>, BootstrapError> {
    SOURCES.iter().find_map(|find| find(variables)).transpose()
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

    /// Under `srun --mpi=pmix` the variables of a step are there, too, and each task would listen by the rule.
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
