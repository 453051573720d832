//! The crate `gpc-plugin` declares the types of plug-ins a second time, without this library. Both must be the same.

use std::any::type_name;
use std::mem::{align_of, size_of};

use gpc_capi::abi::{functions, plugin, types};
use gpc_plugin::abi as other;

/// The type of a field, without the modules of its parts.
fn type_of<T, F>(_: impl Fn(&T) -> F) -> String {
    ["gpc_capi::abi::types::", "gpc_capi::abi::plugin::", "gpc_plugin::abi::"]
        .iter()
        .fold(type_name::<F>().to_owned(), |name, module| name.replace(module, ""))
}

/// Compares two structures: size, and the place and the type of each field. The list of fields is complete, or it does
/// not compile.
macro_rules! same {
    ($name:ident in $module:ident: $($field:ident)+) => {{
        use {$module::$name as Own, other::$name as Other};
        let _ = |own: Own, other: Other| {
            let Own { $($field: _),+ } = own;
            let Other { $($field: _),+ } = other;
        };
        assert_eq!(
            (size_of::<Own>(), align_of::<Own>()),
            (size_of::<Other>(), align_of::<Other>()),
            stringify!($name)
        );
        $(
            let name = concat!(stringify!($name), ".", stringify!($field));
            assert_eq!(std::mem::offset_of!(Own, $field), std::mem::offset_of!(Other, $field), "{name}");
            assert_eq!(type_of(|own: &Own| own.$field), type_of(|other: &Other| other.$field), "{name}");
        )+
    }};
}

#[test]
fn the_crate_for_plugins_has_the_layout_of_the_header() {
    same!(cgpc_plugin in plugin: magic version reserved load);
    same!(cgpc_plugin_table in plugin: size version add request reply token level error);
    same!(cgpc_plugin_add in plugin: func callback phased deferring streaming tree release);
    same!(cgpc_plugin_request in plugin: me parent root sequence position total header data data_length ids func
        callback reply_limits tree set_value value reply_wanted remaining is_cancelled defer);
    same!(cgpc_plugin_reply in plugin: set_header set_data append resize data header explain);
    same!(cgpc_plugin_token in plugin: reply fail is_cancelled free);
    same!(cgpc_plugin_level in plugin: aggregate each count);
    same!(cgpc_plugin_error in plugin: last text refuse);
    same!(cgpc_child in types: from header header_len data data_len);
    same!(cgpc_function_options in types: size flags access executor access_ids access_count release);
    same!(cgpc_streaming in types: size begin segment finish release);
    same!(cgpc_error in types: size status has_cause id stage kind code message);
    same!(cgpc_leveled in types: level data data_len);
    assert_eq!(
        (plugin::CGPC_PLUGIN_MAGIC, plugin::CGPC_PLUGIN_VERSION),
        (other::CGPC_PLUGIN_MAGIC, other::CGPC_PLUGIN_VERSION)
    );
    assert_eq!(plugin::CGPC_PLUGIN_MAGIC.to_le_bytes(), *b"cgpcplug");
}

/// A comparison that could not fail would be worth nothing.
#[test]
fn types_that_differ_are_told_apart() {
    struct One {
        func: unsafe extern "C" fn(*const types::cgpc_request, *mut u32) -> i32,
    }
    struct Two {
        func: unsafe extern "C" fn(*const other::cgpc_request, *mut u64) -> i32,
    }
    assert_eq!(type_of(|one: &One| one.func), "unsafe extern \"C\" fn(*const cgpc_request, *mut u32) -> i32");
    assert_ne!(type_of(|one: &One| one.func), type_of(|two: &Two| two.func));
}

#[test]
fn numbers_that_the_crate_repeats_are_those_of_the_header() {
    assert_eq!(gpc_plugin::PANICKED, gpc_capi::status::CGPC_ERR_EXCEPTION);
    assert_eq!(
        (other::CGPC_INLINE, other::CGPC_COMMUTATIVE),
        (functions::CGPC_INLINE, functions::CGPC_COMMUTATIVE)
    );
}
