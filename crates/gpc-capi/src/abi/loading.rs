//! Loads plug-ins into a program that has this crate, such as `gpc`.
//!
//! A library is never unloaded: its functions are in the table of the node, and its threads may run its code.

use std::error::Error as _;
use std::ffi::c_int;
use std::mem;
use std::path::Path;
use std::sync::Arc;

use chained_gpc::Functions;
use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};

use super::callees::no_unwind;
use super::errors::cgpc_strerror;
use super::plugin::{CGPC_PLUGIN_MAGIC, CGPC_PLUGIN_VERSION, TABLE, cgpc_plugin};
use super::pointers::opaque;
use crate::context::Context;
use crate::error::{forget_last, with_last};
use crate::handles::insert;
use crate::status::CGPC_OK;

/// The name of what a plug-in exports.
const ENTRY: &str = "cgpc_plugin_entry";

/// Loads a plug-in, which registers its functions and trees in `functions`. The path is not searched for.
///
/// The caller trusts the file: its code runs with all rights of this process.
///
/// # Errors
/// Why it cannot be loaded, without its path. Some of its functions may be registered then.
pub fn load(path: &Path, functions: &Functions) -> Result<(), String> {
    register(&entry(path)?, functions)
}

/// Checks the version of a plug-in, and lets it register its functions and trees in `functions`.
///
/// # Errors
/// As for [`load`].
pub fn register(plugin: &cgpc_plugin, functions: &Functions) -> Result<(), String> {
    check(plugin)?;
    let load = plugin.load.ok_or_else(|| format!("the field `load` of its {ENTRY} is null"))?;
    let context = Arc::new(Context::of(functions));
    let handle = insert(context.clone()).map_err(|error| error.to_string())?;
    context.set_handle(handle);
    forget_last();
    // SAFETY: the plug-in says that it was compiled for these tables, which live for ever.
    let code = no_unwind(|| unsafe { load(&raw const TABLE, opaque(handle)) });
    match code {
        CGPC_OK => Ok(()),
        code => Err(failure(code)),
    }
}

/// Reads what the library at this path exports. The library stays loaded.
fn entry(path: &Path) -> Result<cgpc_plugin, String> {
    // SAFETY: the constructors of the library run. The caller of `load` trusts it.
    let library = unsafe { Library::open(Some(path), RTLD_NOW | RTLD_LOCAL) }.map_err(|error| {
        let why = error.source().map_or_else(|| error.to_string(), ToString::to_string);
        let shown = format!("{}: ", path.display());
        format!("it is no shared library that can be used here: {}", why.strip_prefix(&shown).unwrap_or(&why))
    })?;
    // SAFETY: the address of the symbol is used as an address alone.
    let found = unsafe { library.get::<*const cgpc_plugin>(ENTRY) }.map(|symbol| *symbol);
    mem::forget(library);
    match found {
        Ok(entry) if !entry.is_null() => {
            // SAFETY: a plug-in exports a constant of this type under this name, and is never unloaded. What another
            // library exports there is checked by its first bytes, as far as that is possible.
            Ok(unsafe { entry.read_unaligned() })
        }
        _ => Err(format!("it is no plug-in: it does not export `{ENTRY}` (see chained_gpc_plugin.h)")),
    }
}

/// Checks that the plug-in was compiled for these tables.
fn check(plugin: &cgpc_plugin) -> Result<(), String> {
    if plugin.magic != CGPC_PLUGIN_MAGIC {
        return Err(format!("its `{ENTRY}` does not begin as that of a plug-in (see chained_gpc_plugin.h)"));
    }
    let parts = |version: u32| (version / 1000, version % 1000);
    let ((major, minor), (known, most)) = (parts(plugin.version), parts(CGPC_PLUGIN_VERSION));
    match major == known && minor <= most {
        true => Ok(()),
        false => Err(format!(
            "it is for version {major}.{minor} of the tables, and this program has {known}.{most}: compile it with the \
            chained_gpc_plugin.h of this program"
        )),
    }
}

/// Says why a plug-in has returned an error.
fn failure(code: c_int) -> String {
    let said = with_last(|last| (last.status == code).then(|| last.message.to_string_lossy().into_owned()));
    let said = said.ok().flatten().filter(|said| !said.is_empty());
    // SAFETY: the text of a status lives for ever.
    let status = unsafe { std::ffi::CStr::from_ptr(cgpc_strerror(code)) }.to_string_lossy();
    match (said, code) {
        (Some(said), _) => said,
        (None, 1..) => format!("its function `load` returned {code}"),
        (None, _) => format!("its function `load` returned {code} ({status})"),
    }
}
