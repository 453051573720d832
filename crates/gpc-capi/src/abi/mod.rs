//! The C interface itself: exported functions, their types, and the border between C and Rust. All `unsafe` code of the
//! crate is in this folder.
//!
//! An exported function is `unsafe extern "C"`, and its body is one call of `border`. Inside, all
//! pointers are checked and converted by `Pointers`; handles are looked up and never followed.
#![allow(unsafe_code)]
#![allow(
    clippy::missing_safety_doc,
    reason = "the documentation of each function, for C, says what it needs"
)]
#![allow(non_camel_case_types, reason = "types have their names of C")]

#[cfg(feature = "bnr")]
#[allow(non_snake_case, reason = "functions have their names of C")]
pub mod bnr;
#[cfg(feature = "bnr")]
#[allow(non_snake_case, reason = "functions have their names of C")]
pub mod bnr_groups;
#[cfg(feature = "bnr")]
#[allow(non_snake_case, reason = "functions have their names of C")]
pub mod bnr_spawn;
#[cfg(feature = "bnr")]
pub mod bnr_types;
pub mod call;
pub mod call_replies;
pub(crate) mod callees;
pub mod context;
pub mod errors;
pub(crate) mod exclusive;
pub(crate) mod fork;
pub(crate) mod frames;
pub mod functions;
#[cfg(feature = "impi")]
pub mod impi;
#[cfg(feature = "impi")]
pub mod impi_types;
pub mod level;
#[cfg(feature = "plugins")]
pub mod loading;
pub mod members;
pub(crate) mod near;
pub mod network;
pub mod outcome;
#[cfg_attr(
    not(feature = "plugins"),
    allow(dead_code, reason = "the tables are for those that load plug-ins")
)]
pub mod plugin;
pub(crate) mod pointers;
pub mod progress;
#[cfg(feature = "rendezvous")]
pub mod rendezvous;
#[cfg(feature = "rendezvous")]
pub mod rendezvous_types;
pub mod reply;
pub mod request;
pub mod secrets;
#[cfg(feature = "rendezvous")]
pub mod subscription;
pub mod token;
pub mod tree;
pub mod types;
