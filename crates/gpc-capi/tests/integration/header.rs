//! The committed headers are what cbindgen makes of the sources. To make them anew: `GPC_WRITE_HEADER=1 cargo test -p
//! gpc-capi header`.

use std::fs;

use crate::programs::package;

/// A header: its file, the sources that it is made of, and what it has beside functions and their types.
struct Header {
    name: &'static str,
    sources: &'static [&'static str],
    /// Types that no function takes.
    export: &'static [&'static str],
}

const CORE: Header = Header {
    name: "chained_gpc",
    sources: &[
        "status",
        "abi/types",
        "abi/errors",
        "abi/context",
        "abi/network",
        "abi/functions",
        "abi/request",
        "abi/reply",
        "abi/token",
        "abi/call",
        "abi/call_replies",
        "abi/outcome",
        "abi/tree",
        "abi/progress",
        "abi/members",
        "abi/secrets",
        "abi/level",
        "abi/plugin",
    ],
    export: &["cgpc_plugin"],
};

/// Those that stand on the first.
const SERVICES: [Header; 3] = [
    Header {
        name: "bnr",
        sources: &["abi/bnr_types", "abi/bnr", "abi/bnr_groups", "abi/bnr_spawn"],
        export: &[],
    },
    Header {
        name: "gpc_rendezvous",
        sources: &["abi/rendezvous_types", "abi/rendezvous", "abi/subscription"],
        export: &[],
    },
    Header {
        name: "impi",
        sources: &["abi/impi_types", "abi/impi"],
        export: &[
            "IMPI_Int8",
            "IMPI_Cmd",
            "IMPI_Client_auth",
            "IMPI_Server_auth",
            "IMPI_Auth_key",
            "IMPI_Client_impi",
            "IMPI_Server_impi",
            "IMPI_Coll",
            "IMPI_Chdr",
            "IMPI_Version",
        ],
    },
];

/// A header as the sources define it.
fn generated(header: &Header) -> String {
    let mut config = cbindgen::Config::from_file(package().join("cbindgen.toml")).unwrap();
    let beside =
        |end: &str| fs::read_to_string(package().join("include").join(format!("{}.{end}", header.name)));
    if header.name != CORE.name {
        config.header = Some(beside("h.in").unwrap().trim_end().to_owned());
        config.include_guard = Some(format!("{}_H", header.name.to_uppercase()));
        config.includes = vec!["chained_gpc.h".into()];
        config.sys_includes.clear();
    }
    config.trailer = beside("hpp.in").ok();
    config.export.include = header.export.iter().map(|name| (*name).to_owned()).collect();
    let builder = cbindgen::Builder::new().with_config(config);
    let sources = header.sources.iter().fold(builder, |builder, file| {
        builder.with_src(package().join("src").join(file).with_extension("rs"))
    });
    let mut text = Vec::new();
    sources.generate().unwrap().write(&mut text);
    String::from_utf8(text).unwrap()
}

#[test]
fn the_headers_are_those_of_the_sources() {
    for header in SERVICES.iter().chain([&CORE]) {
        let file = package().join("include").join(header.name).with_extension("h");
        let generated = generated(header);
        if std::env::var_os("GPC_WRITE_HEADER").is_some() {
            fs::write(&file, &generated).unwrap();
        }
        let committed = fs::read_to_string(&file).unwrap();
        assert!(committed == generated, "write it anew: GPC_WRITE_HEADER=1 cargo test -p gpc-capi header");
    }
}
