//! Names the shared library for the linker of programs: `libchained_gpc.so.0`.

fn main() {
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libchained_gpc.so.0");
    println!("cargo::rerun-if-changed=build.rs");
}
