//! Lists of faults: all of a kind of worlds, and some at events as text.

use super::Fault;

/// Lists faults with their names: an enum `Fault` with its names as text, `name` and `ALL`.
#[doc(hidden)]
#[macro_export]
macro_rules! __faults {
    ($($(#[$doc:meta])* $name:ident = $text:literal,)*) => {
        /// Something that goes wrong.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
        pub enum Fault {
            $($(#[$doc])* $name,)*
        }

        impl Fault {
            /// All of them.
            pub const ALL: [Fault; [$($text),*].len()] = [$(Fault::$name),*];

            /// Its name.
            pub fn name(self) -> &'static str {
                match self {
                    $(Fault::$name => $text,)*
                }
            }
        }

        impl ::std::fmt::Display for Fault {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                f.write_str(self.name())
            }
        }
    };
}

/// A text that names no fault at an event.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "`{text}` is no fault of these worlds at an event: write FAULT@EVENT, such as crash@30, several with a comma between them; the faults are {known}"
)]
pub struct FaultError {
    /// Its beginning.
    text: String,
    /// The faults that there are.
    known: String,
}

/// Reads a list of faults and events, such as `crash@30,link@41`; `none` is an empty one.
///
/// # Errors
/// The first part that is none.
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

/// The same list as text.
pub fn acts_text<F: Fault>(acts: &[(u64, F)]) -> String {
    let all: Vec<String> = acts.iter().map(|(event, fault)| format!("{fault}@{event}")).collect();
    if all.is_empty() { "none".into() } else { all.join(",") }
}
