//! Handles, by which calls name functions. A handle holds 64 bits of the function's name and its kind. So the same name
//! has the same handle in every process, without communication.
//!
//! Source: the ARMCI design of chained GPC (2007), "Interface and parameters" (func, callback) and "Alternative
//! approach" (one function with phases).

/// The handle of a func, which a call executes at each id.
///
/// Registering a function returns its handle. A program that does not implement the function makes the handle from its
/// name, and calls it [without taking part](crate::Call::watch). Handles of the same name are equal, wherever they were
/// made:
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

/// The handle of a callback, which merges replies. It is made like a [`FuncHandle`].
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

    /// The handle of a number from the wire.
    pub(super) const fn of_number(name: u64, phased: bool) -> FuncHandle {
        FuncHandle { name, phased }
    }

    /// The number on the wire: the 64-bit FNV-1a hash of the name, or 1 if that hash is 0.
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

    /// The handle of a number from the wire.
    pub(super) const fn of_number(name: u64) -> CallbackHandle {
        CallbackHandle { name }
    }

    /// The number on the wire: the 64-bit FNV-1a hash of the name, or 1 if that hash is 0.
    pub const fn number(self) -> u64 {
        self.name
    }
}

/// The number of a name on the wire. On the wire 0 means no function, so a name with that hash gets the number 1.
pub(super) const fn number(name: &str) -> u64 {
    match gpc_trees::name_hash(name) {
        0 => 1,
        hash => hash,
    }
}

/// A function that merges replies: a callback, or a func with phases.
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
    /// Only the library's own handles implement it.
    pub trait Sealed {}

    impl Sealed for super::CallbackHandle {}
    impl Sealed for super::FuncHandle {}
}
