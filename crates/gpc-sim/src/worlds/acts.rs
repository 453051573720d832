//! Text form of faults at events, and of the command line that repeats a run.

use super::{Fault, Scenario};

/// A list of faults at events that cannot be parsed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "`{text}` is no fault of these worlds at an event: write FAULT@EVENT, such as crash@30, several with a comma between them; the faults are {known}"
)]
pub struct FaultError {
    /// Beginning of the wrong part.
    text: String,
    /// Names of all faults.
    known: String,
}

/// Parses a list of faults and events, such as `crash@30,link@41`; `none` is the empty list.
///
/// # Errors
/// The first part that is not a fault at an event.
pub fn parse_acts<F: Fault>(text: &str) -> Result<Vec<(u64, F)>, FaultError> {
    let act = |part: &str| {
        let (name, event) = part.trim().split_once('@')?;
        let fault = F::ALL.iter().find(|fault| fault.to_string() == name)?;
        Some((event.parse().ok()?, *fault))
    };
    let wrong = |part: &str| {
        let known: Vec<String> = F::ALL.iter().map(ToString::to_string).collect();
        FaultError { text: part.chars().take(40).collect(), known: known.join(", ") }
    };
    if text == "none" {
        return Ok(Vec::new());
    }
    text.split(',').map(|part| act(part).ok_or_else(|| wrong(part))).collect()
}

/// Text form of such a list.
pub fn acts_text<F: Fault>(acts: &[(u64, F)]) -> String {
    let all: Vec<String> = acts.iter().map(|(event, fault)| format!("{fault}@{event}")).collect();
    if all.is_empty() { "none".into() } else { all.join(",") }
}

impl<F: Fault> Scenario<F> {
    /// Command line that repeats the run.
    pub fn replay(&self) -> String {
        let acts = self.acts.as_ref().map_or_else(String::new, |acts| format!(" --acts {}", acts_text(acts)));
        format!("gpc sim -n {} --{} --seed {}{acts} --trace", self.n, F::OPTION, self.seed)
    }
}
