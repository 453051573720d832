//! Environment variables that tell a started task where its rendezvous is.
//!
//! Source: WS Rendezvous, "Integration with GRAM". The names of the source belong to one launcher. Each variable also
//! has a neutral name; a launcher sets both.

use std::collections::BTreeMap;
use std::path::PathBuf;

use chained_gpc::Shown;

use crate::machine::{Handle, HandleError};

/// Handle of the level-1 resource of the task's own job or subjob.
pub const JOB_HANDLE: [&str; 2] = ["GPC_JOB_HANDLE", "GLOBUS_GRAM_JOB_HANDLE"];

/// Handle of the parent resource, where subjobs meet.
pub const MULTIJOB_HANDLE: [&str; 2] = ["GPC_MULTIJOB_HANDLE", "GLOBUS_GRAM_MULTIJOB_HANDLE"];

/// Rank of the task's subjob at the parent resource.
pub const SUBJOB_RANK: [&str; 2] = ["GPC_SUBJOB_RANK", "GLOBUS_GRAM_SUBJOB_RANK"];

/// Path of the file whose only line is the service's token.
pub const TOKEN_FILE: &str = "GPC_RENDEZVOUS_TOKEN_FILE";

/// Path of the file with the certificates (PEM) of the authority that signed the certificate of an https service.
pub const CA_FILE: &str = "GPC_RENDEZVOUS_CA_FILE";

/// All variables. A process that is started for another purpose must not inherit them.
pub const ALL: [&str; 8] = [
    JOB_HANDLE[0],
    JOB_HANDLE[1],
    MULTIJOB_HANDLE[0],
    MULTIJOB_HANDLE[1],
    SUBJOB_RANK[0],
    SUBJOB_RANK[1],
    TOKEN_FILE,
    CA_FILE,
];

/// Values of the variables. Each may be missing.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Variables {
    /// Resource of the task's own job or subjob.
    pub job: Option<Handle>,
    /// Parent resource.
    pub multijob: Option<Handle>,
    /// Rank of the subjob at the parent resource.
    pub rank: Option<u32>,
    /// File with the service's token.
    pub token_file: Option<PathBuf>,
    /// File with the certificates of https services.
    pub ca_file: Option<PathBuf>,
}

/// An invalid variable. A message never quotes a handle, because a handle is confidential.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum VariablesError {
    /// Two names of the same variable have different values.
    #[error(
        "the variables {one} and {other} mean the same, and have different values: remove the one that is wrong"
    )]
    Disagree {
        /// First name.
        one: &'static str,
        /// Second name.
        other: &'static str,
    },
    /// The value is not a handle.
    #[error("the variable {name}: {why}")]
    Handle {
        /// Name of the variable.
        name: &'static str,
        /// Reason.
        why: HandleError,
    },
    /// The value is not a rank.
    #[error("the variable {name} is `{}`, and not a rank: a number from 0 to {}", Shown(value), u32::MAX)]
    Rank {
        /// Name of the variable.
        name: &'static str,
        /// Value of the variable.
        value: String,
    },
}

impl Variables {
    /// Reads the variables from an environment. An empty value counts as missing.
    ///
    /// # Errors
    /// Returns an error if a value is invalid, or if two names of the same variable have different values.
    pub fn read(environment: &BTreeMap<String, String>) -> Result<Variables, VariablesError> {
        Ok(Variables {
            job: handle(environment, JOB_HANDLE)?,
            multijob: handle(environment, MULTIJOB_HANDLE)?,
            rank: rank(environment, SUBJOB_RANK)?,
            ..Variables::files(environment)
        })
    }

    /// The files alone, which are always valid.
    fn files(environment: &BTreeMap<String, String>) -> Variables {
        let file = |name| value(environment, name).map(PathBuf::from);
        Variables { token_file: file(TOKEN_FILE), ca_file: file(CA_FILE), ..Variables::default() }
    }

    /// Reads the variables from the environment of this process. A value that is not Unicode counts as missing.
    ///
    /// # Errors
    /// See [`Variables::read`].
    pub fn of_this_process() -> Result<Variables, VariablesError> {
        Variables::read(&of_this_process(&ALL))
    }

    /// Reads the names of the files alone from the environment of this process: an invalid variable of another kind is
    /// no error.
    pub fn files_of_this_process() -> Variables {
        Variables::files(&of_this_process(&[TOKEN_FILE, CA_FILE]))
    }

    /// The variables to set for a task, under both names. If a value is `None`, the launcher must remove the variable,
    /// so that the task does not inherit it.
    pub fn to_set(&self) -> Vec<(&'static str, Option<String>)> {
        let both = |names: [&'static str; 2], value: Option<String>| names.map(|name| (name, value.clone()));
        let text = |path: &Option<PathBuf>| path.as_ref().map(|path| path.to_string_lossy().into_owned());
        let handle = |handle: &Option<Handle>| handle.as_ref().map(Handle::to_string);
        let mut set = Vec::with_capacity(ALL.len());
        set.extend(both(JOB_HANDLE, handle(&self.job)));
        set.extend(both(MULTIJOB_HANDLE, handle(&self.multijob)));
        set.extend(both(SUBJOB_RANK, self.rank.map(|rank| rank.to_string())));
        set.push((TOKEN_FILE, text(&self.token_file)));
        set.push((CA_FILE, text(&self.ca_file)));
        set
    }
}

fn of_this_process(names: &[&str]) -> BTreeMap<String, String> {
    names.iter().filter_map(|name| Some(((*name).to_owned(), std::env::var(name).ok()?))).collect()
}

fn value<'a>(environment: &'a BTreeMap<String, String>, name: &str) -> Option<&'a str> {
    environment.get(name).map(|value| value.trim()).filter(|value| !value.is_empty())
}

/// The value under either name, and the name that has it.
fn either<'a>(
    environment: &'a BTreeMap<String, String>,
    names: [&'static str; 2],
) -> Result<Option<(&'static str, &'a str)>, VariablesError> {
    let [one, other] = names;
    match (value(environment, one), value(environment, other)) {
        (Some(first), Some(second)) if first != second => Err(VariablesError::Disagree { one, other }),
        (Some(value), _) => Ok(Some((one, value))),
        (None, value) => Ok(value.map(|value| (other, value))),
    }
}

fn handle(
    environment: &BTreeMap<String, String>,
    names: [&'static str; 2],
) -> Result<Option<Handle>, VariablesError> {
    let found = either(environment, names)?;
    found.map(|(name, text)| text.parse().map_err(|why| VariablesError::Handle { name, why })).transpose()
}

fn rank(
    environment: &BTreeMap<String, String>,
    names: [&'static str; 2],
) -> Result<Option<u32>, VariablesError> {
    let found = either(environment, names)?;
    let rank = |(name, value): (&'static str, &str)| {
        value.parse().map_err(|_| VariablesError::Rank { name, value: value.to_owned() })
    };
    found.map(rank).transpose()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const HANDLE: &str = "http://a:1/rendezvous?000102030405060708090a0b0c0d0e0f";
    const OTHER: &str = "http://a:1/rendezvous?100102030405060708090a0b0c0d0e0f";

    fn read(variables: &[(&str, &str)]) -> Result<Variables, VariablesError> {
        let owned = variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        Variables::read(&owned.collect())
    }

    #[test]
    fn either_name_is_read() {
        for [handle, rank] in
            [["GLOBUS_GRAM_JOB_HANDLE", "GLOBUS_GRAM_SUBJOB_RANK"], ["GPC_JOB_HANDLE", "GPC_SUBJOB_RANK"]]
        {
            let found = read(&[(handle, HANDLE), (rank, "3")]).unwrap();
            assert_eq!((found.job, found.rank, found.multijob), (HANDLE.parse().ok(), Some(3), None));
        }
        assert_eq!(read(&[("GPC_JOB_HANDLE", " "), ("OTHER", "x")]), Ok(Variables::default()));
    }

    #[test]
    fn what_is_wrong_names_the_variable_and_keeps_the_handle_back() {
        let error = |variables: &[(&str, &str)]| read(variables).unwrap_err().to_string();
        let both = error(&[("GPC_JOB_HANDLE", HANDLE), ("GLOBUS_GRAM_JOB_HANDLE", OTHER)]);
        assert!(both.contains("GPC_JOB_HANDLE and GLOBUS_GRAM_JOB_HANDLE"), "{both}");
        let cut = error(&[("GLOBUS_GRAM_MULTIJOB_HANDLE", &HANDLE[..HANDLE.len() - 1])]);
        assert!(cut.contains("GLOBUS_GRAM_MULTIJOB_HANDLE") && !cut.contains("0001"), "{cut}");
        assert!(error(&[("GPC_SUBJOB_RANK", "-1")]).contains("GPC_SUBJOB_RANK is `-1`"));
    }

    proptest! {
        #[test]
        fn what_is_set_is_read(
            job in prop::option::of(any::<[u8; 16]>()), rank: Option<u32>, file in prop::option::of("/[a-z]{1,9}"),
        ) {
            let handle = |id| Handle::new("http://a/rendezvous", crate::ResourceId(id)).unwrap();
            let file = file.map(PathBuf::from);
            let job = job.map(handle);
            let set = Variables { multijob: job.clone(), job, rank, ca_file: file.clone(), token_file: file };
            let environment = set.to_set().into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
            prop_assert_eq!(Variables::read(&environment.collect()), Ok(set.clone()));
            let names: Vec<_> = set.to_set().into_iter().map(|(name, _)| name).collect();
            prop_assert_eq!(names, ALL.to_vec());
        }
    }
}
