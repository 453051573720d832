//! The errors of registering and calling functions.

/// A name that cannot be registered, or a handle that cannot be called.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FunctionsError {
    /// The name is taken.
    #[error("a function named `{0}` is registered already: give this one another name")]
    Duplicate(String),
    /// Another name has the same hash.
    #[error("the names `{new}` and `{old}` have the same 64 bits: change one of them by a letter")]
    Clash {
        /// The registered name.
        old: String,
        /// The rejected name.
        new: String,
    },
    /// The name is empty or longer than 255 bytes.
    #[error("a function's name has 1 to 255 bytes; this one has {0}")]
    Name(usize),
    /// No function is registered here under a handle, and this node would have to run it.
    #[error(
        "no function is registered here under the handle {0:#x}: register it under the name that the handle was made of; a caller that does not have it can only watch"
    )]
    Unknown(u64),
    /// No function has this name.
    #[error("no function is named `{0}`; these are: {1}")]
    UnknownName(String, String),
    /// The handle is of another kind than the call needs.
    #[error("`{name}` is a {is}, but a {needed} is needed here")]
    OtherKind {
        /// Its name.
        name: String,
        /// Its kind.
        is: &'static str,
        /// The required kind.
        needed: &'static str,
    },
    /// A func with phases is called together with a callback.
    #[error("`{0}` merges replies itself, in its second phase: call it without a callback")]
    MergesItself(String),
    /// A tree cannot be registered.
    #[error(transparent)]
    Tree(#[from] gpc_trees::RegisterError),
}
