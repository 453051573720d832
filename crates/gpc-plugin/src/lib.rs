//! Functions, callbacks and trees of your own for the nodes of `gpc`, in a shared library that
//! `gpc node --load` and `gpc call --load` load.
//!
//! The library is a crate of the type `cdylib` that has this one and nothing else of chained-gpc: it calls the program
//! through tables of functions that the program passes.
//!
//! ```
//! use gpc_plugin::{Child, Plugin, Refused, Reply, Request};
//!
//! gpc_plugin::plugin!(load);
//!
//! fn load(plugin: &Plugin) -> Result<(), Refused> {
//!     // Each id counts the words of the data that it gets.
//!     plugin.func("words", |request: &Request, reply: &mut Reply| {
//!         let words = request.data().split(u8::is_ascii_whitespace).filter(|word| !word.is_empty()).count();
//!         reply.set_data(words.to_string().as_bytes());
//!         Ok(())
//!     })?;
//!     // The counts are compared on their way up the tree: the longest text wins, in any order.
//!     plugin.commutative().callback("most", |_: &Request, child: &Child, own: &mut Reply| {
//!         let count = |data: &[u8]| std::str::from_utf8(data).ok().and_then(|text| text.parse::<u64>().ok());
//!         if count(child.data) > count(own.data()) {
//!             own.set_data(child.data);
//!         }
//!         Ok(())
//!     })?;
//!     // A tree: each slice of n ids is cut into three groups of about equal length.
//!     plugin.tree("thirds", |n| (0..3).map(|part| (n - 1 + part) / 3).filter(|&len| len > 0).collect())
//! }
//! ```
//!
//! A function that panics fails the call at this id, with the text of the panic and [`PANICKED`] as its code.
//! `README.md` of the package has the commands, and what holds for plug-ins in any language.

pub mod abi;
mod callees;
mod failure;
mod program;
mod refused;
mod reply;
mod request;
mod token;

pub use failure::{Failure, PANICKED, Result};
pub use program::{Plugin, start};
pub use refused::Refused;
pub use reply::Reply;
pub use request::{Child, Request};
pub use token::Token;

/// Defines what the library exports. The argument is a function `fn(&Plugin) -> Result<(), Refused>`, which registers
/// everything.
#[macro_export]
macro_rules! plugin {
    ($load:expr) => {
        /// What `gpc` looks for in a library that it loads.
        #[unsafe(no_mangle)]
        #[allow(non_upper_case_globals)]
        pub static cgpc_plugin_entry: $crate::abi::cgpc_plugin = {
            unsafe extern "C-unwind" fn cgpc_plugin_load(
                gpc: *const $crate::abi::cgpc_plugin_table,
                context: *mut $crate::abi::cgpc_context,
            ) -> ::std::ffi::c_int {
                // SAFETY: the program that loads the library passes both.
                unsafe { $crate::start(gpc, context, $load) }
            }
            $crate::abi::cgpc_plugin {
                magic: $crate::abi::CGPC_PLUGIN_MAGIC,
                version: $crate::abi::CGPC_PLUGIN_VERSION,
                reserved: 0,
                load: Some(cgpc_plugin_load),
            }
        };
    };
}
