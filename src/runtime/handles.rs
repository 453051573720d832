//! Handles: what calls name functions by. A handle holds 64 bits of the function's name and what it is, so the same name is the same handle in every process, without talking to anyone.
//!
//! Source: the ARMCI design of chained GPC (2007), "Interface and parameters" (func, callback) and "Alternative approach" (one function with phases).

/// Handle of a func: what a call executes at each id.
///
/// Registering a function gives its handle; a program that does not implement the function makes the handle from its name, and calls it [without taking part](crate::Call::watch). Handles of the same name are equal, wherever they were made:
///
/// ```
/// use chained_gpc::{FuncHandle, Functions};
///
/// const HELLO: FuncHandle = FuncHandle::named("hello");
///
/// let functions = Functions::new();
/// assert_eq!(functions.func("hello", |_, _| Ok(()))?, HELLO);
/// # Ok::<(), chained_gpc::FunctionsError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct FuncHandle {
    name: u64,
    phased: bool,
}

/// Handle of a callback: what merges replies. It is made like a [`FuncHandle`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct CallbackHandle {
    name: u64,
}

impl FuncHandle {
    /// The handle of the func, deferring or streaming function of this name.
    pub const fn named(name: &str) -> FuncHandle {
        FuncHandle { name: number(name), phased: false }
    }

    /// The handle of the phased function of this name, which merges replies itself.
    pub const fn phased(name: &str) -> FuncHandle {
        FuncHandle { name: number(name), phased: true }
    }

    /// The number on the wire: the 64-bit FNV-1a hash of the name.
    pub const fn number(self) -> u64 {
        self.name
    }

    /// Whether the function merges replies itself, in its phase [`Phase::Wait`](super::Phase::Wait).
    pub const fn is_phased(self) -> bool {
        self.phased
    }
}

impl CallbackHandle {
    /// The handle of the callback of this name.
    pub const fn named(name: &str) -> CallbackHandle {
        CallbackHandle { name: number(name) }
    }

    /// The number on the wire: the 64-bit FNV-1a hash of the name.
    pub const fn number(self) -> u64 {
        self.name
    }
}

/// What a name is on the wire. 0 means no function there, so a name whose hash that is takes the number beside it.
pub(super) const fn number(name: &str) -> u64 {
    match gpc_trees::name_hash(name) {
        0 => 1,
        hash => hash,
    }
}

/// What merges replies: a callback, or a func with phases.
pub trait Merges: Copy + sealed::Sealed {
    /// The number on the wire.
    fn number(self) -> u64;
}

impl Merges for CallbackHandle {
    fn number(self) -> u64 {
        self.name
    }
}

impl Merges for FuncHandle {
    fn number(self) -> u64 {
        self.name
    }
}

mod sealed {
    /// The library's own handles alone.
    pub trait Sealed {}

    impl Sealed for super::CallbackHandle {}
    impl Sealed for super::FuncHandle {}
}
