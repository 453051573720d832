//! The committed header is what cbindgen makes of the sources. To make it anew: `GPC_WRITE_HEADER=1 cargo test -p
//! gpc-capi header`.

use std::fs;
use std::path::Path;

/// The header as the sources define it.
fn generated() -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut config = cbindgen::Config::from_file(root.join("cbindgen.toml")).unwrap();
    config.trailer = Some(fs::read_to_string(root.join("include/chained_gpc.hpp.in")).unwrap());
    let files =
        ["status", "abi/types", "abi/errors", "abi/context", "abi/network", "abi/functions", "abi/request"]
            .into_iter()
            .chain([
                "abi/reply",
                "abi/token",
                "abi/call",
                "abi/outcome",
                "abi/tree",
                "abi/progress",
                "abi/members",
            ])
            .chain(["abi/secrets", "abi/level", "abi/plugin"]);
    let sources = files.fold(cbindgen::Builder::new().with_config(config), |builder, file| {
        builder.with_src(root.join("src").join(file).with_extension("rs"))
    });
    let mut header = Vec::new();
    sources.generate().unwrap().write(&mut header);
    String::from_utf8(header).unwrap()
}

#[test]
fn the_header_is_that_of_the_sources() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("include/chained_gpc.h");
    let generated = generated();
    if std::env::var_os("GPC_WRITE_HEADER").is_some() {
        fs::write(&file, &generated).unwrap();
    }
    let committed = fs::read_to_string(&file).unwrap();
    assert!(committed == generated, "write it anew: GPC_WRITE_HEADER=1 cargo test -p gpc-capi header");
}
