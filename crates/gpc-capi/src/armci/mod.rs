//! ARMCI's interface for global procedure calls, on contexts: plain calls as programs know them, and the chained call.
//!
//! Source: the ARMCI design of chained GPC (2007), and the interface of `gpc.h` in Global Arrays. The headers are in
//! `include/armci`. This layer has global state, because its interface has no context: one node for the process.
#![allow(unsafe_code)]
#![allow(non_snake_case, reason = "functions have their names of C")]
#![allow(clippy::missing_safety_doc, reason = "the headers say what each function needs")]

mod addresses;
mod calls;
mod collective;
mod early;
mod early_calls;
mod executing;
mod handlers;
mod jobs;
mod levels;
mod lock_queue;
mod locks;
mod memory;
mod mutex;
mod process;
mod shared;
mod table;
mod types;

pub use calls::*;
pub use handlers::{ARMCI_Gpc_register, ARMCI_Gpc_release};
pub use locks::{ARMCI_Gpc_lock, ARMCI_Gpc_trylock, ARMCI_Gpc_unlock};
pub use memory::{ARMCI_Free, ARMCI_Gpc_translate, ARMCI_Malloc};
pub use process::*;
