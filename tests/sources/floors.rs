//! Checks the floors of the project: an upper floor uses a lower one, never the reverse, and neighbours do not use each
//! other.
//!
//! ARCHITECTURE.md describes them. A new folder of `src` must be added to the table here, or this test fails.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// A folder of sources, or a file beside them, and all that it may use.
struct Floor {
    folder: &'static str,
    /// Other floors of `src`.
    floors: &'static [&'static str],
    /// Packages.
    packages: &'static [&'static str],
    /// Names that its code, apart from tests, must not use.
    banned: &'static [&'static str],
}

/// System facilities: sockets, threads, files, clocks. Also maps whose order differs in every run.
const SYSTEM: &[&str] =
    &["net", "thread", "fs", "process", "env", "os", "Instant", "SystemTime", "HashMap", "HashSet"];

/// The same, and facilities shared by threads.
const SYSTEM_AND_LOCKS: &[&str] = &[
    "net",
    "thread",
    "fs",
    "process",
    "env",
    "os",
    "Instant",
    "SystemTime",
    "HashMap",
    "HashSet",
    "Mutex",
    "RwLock",
    "Condvar",
    "mpsc",
    "atomic",
];

/// The file that renames maps and gives them a hash with the same order in every run.
const SEEDED: &str = "src/chain/seeded_hash.rs";

const FLOORS: &[Floor] = &[
    Floor { folder: "trees/src", floors: &[], packages: &["smallvec"], banned: SYSTEM },
    Floor { folder: "src/branch_hint.rs", floors: &[], packages: &[], banned: SYSTEM_AND_LOCKS },
    Floor { folder: "src/snapshot.rs", floors: &[], packages: &[], banned: SYSTEM_AND_LOCKS },
    Floor {
        folder: "src/channel.rs",
        floors: &[],
        packages: &[],
        banned: &["net", "thread", "fs", "process", "env"],
    },
    Floor {
        folder: "src/clocks.rs",
        floors: &[],
        packages: &[],
        banned: &["net", "thread", "fs", "process", "env"],
    },
    Floor {
        folder: "src/reduce",
        floors: &[],
        packages: &["gpc_trees", "bytemuck", "thiserror"],
        banned: SYSTEM_AND_LOCKS,
    },
    Floor {
        folder: "src/wire",
        floors: &["branch_hint"],
        packages: &["gpc_trees", "bytes", "smallvec", "thiserror"],
        banned: SYSTEM,
    },
    Floor {
        folder: "src/chain",
        floors: &["branch_hint", "snapshot", "wire"],
        packages: &["gpc_trees", "bytes", "smallvec", "thiserror"],
        banned: SYSTEM_AND_LOCKS,
    },
    Floor {
        folder: "src/link",
        floors: &["branch_hint", "wire", "chain"],
        packages: &["gpc_trees", "bytes", "smallvec", "thiserror", "ring", "snow", "zeroize"],
        banned: SYSTEM,
    },
    Floor {
        folder: "crates/gpc-sim/src",
        floors: &["wire", "chain", "link"],
        packages: &["chained_gpc", "gpc_trees", "bytes", "smallvec", "thiserror", "rayon"],
        banned: SYSTEM_AND_LOCKS,
    },
    Floor {
        folder: "src/transport",
        floors: &["wire", "chain", "link"],
        packages: &["gpc_trees", "bytes", "smallvec", "thiserror", "mio", "rustix", "socket2", "tracing"],
        banned: &["thread"],
    },
    Floor {
        folder: "src/runtime",
        floors: &["branch_hint", "snapshot", "channel", "reduce", "wire", "chain", "link", "transport"],
        packages: &[
            "gpc_trees",
            "bytes",
            "smallvec",
            "thiserror",
            "crossbeam",
            "mio",
            "postcard",
            "rayon",
            "rustix",
            "serde",
            "socket2",
            "tracing",
            "zeroize",
        ],
        banned: &[],
    },
    Floor { folder: "src/launchers", floors: &[], packages: &["rustix"], banned: &["net", "thread"] },
    Floor {
        folder: "crates/gpc-launch/src",
        floors: &["wire", "chain", "link", "runtime", "bootstrap"],
        packages: &["chained_gpc", "gpc_trees", "thiserror", "mio", "rustix", "zeroize"],
        banned: &[],
    },
    Floor {
        folder: "src/bootstrap",
        floors: &["channel", "launchers", "wire", "chain", "link", "runtime"],
        packages: &["gpc_trees", "bytes", "thiserror", "rustix", "tracing", "zeroize"],
        banned: &[],
    },
    Floor {
        folder: "crates/gpc-pmix/src",
        floors: &["channel", "wire", "bootstrap"],
        packages: &["chained_gpc", "bytes", "libloading", "rustix", "thiserror"],
        banned: &["net", "HashMap", "HashSet"],
    },
    Floor {
        folder: "crates/gpc-pmix/src/server/codec",
        floors: &[],
        packages: &["bytes"],
        banned: SYSTEM_AND_LOCKS,
    },
    Floor {
        folder: "crates/gpc-impi/src/wire",
        floors: &[],
        packages: &["bytes", "thiserror", "zeroize"],
        banned: SYSTEM_AND_LOCKS,
    },
    Floor {
        folder: "crates/gpc-impi/src/server",
        floors: &["wire"],
        packages: &["chained_gpc", "bytes", "thiserror"],
        banned: SYSTEM_AND_LOCKS,
    },
    Floor {
        folder: "crates/gpc-impi/src/client",
        floors: &["wire", "server"],
        packages: &["chained_gpc", "bytes", "thiserror"],
        banned: &[
            "thread",
            "fs",
            "process",
            "env",
            "os",
            "Instant",
            "SystemTime",
            "HashMap",
            "HashSet",
            "Mutex",
        ],
    },
    Floor {
        folder: "crates/gpc-impi/src/silence.rs",
        floors: &[],
        packages: &["socket2"],
        banned: &[
            "thread",
            "fs",
            "process",
            "env",
            "os",
            "Instant",
            "SystemTime",
            "HashMap",
            "HashSet",
            "Mutex",
        ],
    },
    Floor {
        folder: "crates/gpc-impi/src/serve",
        floors: &["server", "silence"],
        packages: &["chained_gpc", "bytes", "mio", "socket2", "thiserror"],
        banned: &["thread", "fs", "process", "env", "SystemTime", "HashMap", "HashSet"],
    },
    Floor {
        folder: "crates/gpc-impi/src/hosts_file.rs",
        floors: &["client"],
        packages: &["chained_gpc", "thiserror"],
        banned: &["thread", "fs", "process", "env", "os", "Instant", "SystemTime", "HashMap", "HashSet"],
    },
    Floor {
        folder: "crates/gpc-impi/src/session",
        floors: &["client", "silence"],
        packages: &["chained_gpc", "bytes", "mio", "socket2", "thiserror"],
        banned: &["fs", "process", "env", "SystemTime", "HashMap", "HashSet", "Mutex"],
    },
    Floor {
        folder: "crates/gpc-impi/src/bootstrap",
        floors: &["bootstrap", "book", "client", "server", "session", "wire"],
        packages: &["chained_gpc", "thiserror", "tracing"],
        banned: &["thread", "fs", "os", "SystemTime", "HashMap", "HashSet"],
    },
    Floor {
        folder: "crates/gpc-impi/src/book.rs",
        floors: &["client", "server"],
        packages: &["chained_gpc", "thiserror"],
        banned: &["thread", "fs", "process", "env", "os", "Instant", "SystemTime", "HashMap", "HashSet"],
    },
    Floor {
        folder: "crates/gpc-bnr/src/codec",
        floors: &["wire"],
        packages: &["chained_gpc", "bytes", "thiserror"],
        banned: SYSTEM_AND_LOCKS,
    },
    Floor {
        folder: "crates/gpc-bnr/src/domain",
        floors: &[],
        packages: &["chained_gpc", "thiserror"],
        banned: SYSTEM_AND_LOCKS,
    },
    Floor {
        folder: "crates/gpc-bnr/src/causes.rs",
        floors: &[],
        packages: &["chained_gpc"],
        banned: SYSTEM_AND_LOCKS,
    },
    Floor {
        folder: "crates/gpc-bnr/src/sim",
        floors: &["wire", "chain"],
        packages: &["chained_gpc", "gpc_sim", "thiserror"],
        banned: SYSTEM_AND_LOCKS,
    },
    Floor {
        folder: "crates/gpc-bnr/src/native.rs",
        floors: &[],
        packages: &["chained_gpc", "bytes"],
        banned: SYSTEM_AND_LOCKS,
    },
    Floor {
        folder: "crates/gpc-bnr/src/pmi",
        floors: &[],
        packages: &["chained_gpc", "bytes"],
        banned: SYSTEM_AND_LOCKS,
    },
    Floor {
        folder: "crates/gpc-bnr/src/pmix",
        floors: &[],
        packages: &["chained_gpc", "gpc_pmix"],
        banned: SYSTEM_AND_LOCKS,
    },
    Floor {
        folder: "crates/gpc-bnr/src/protocol.rs",
        floors: &[],
        packages: &["chained_gpc", "bytes"],
        banned: SYSTEM_AND_LOCKS,
    },
    Floor {
        folder: "crates/gpc-bnr/src/client/puts.rs",
        floors: &[],
        packages: &["chained_gpc"],
        banned: SYSTEM_AND_LOCKS,
    },
    Floor {
        folder: "crates/gpc-bnr/src/client",
        floors: &[],
        packages: &["chained_gpc", "gpc_launch", "bytes", "rustix", "thiserror"],
        banned: &["fs", "Command", "SystemTime", "HashMap", "HashSet"],
    },
    Floor {
        folder: "crates/gpc-rendezvous/src/machine",
        floors: &["wire"],
        packages: &["chained_gpc", "bytes", "thiserror"],
        banned: SYSTEM_AND_LOCKS,
    },
    Floor {
        folder: "crates/gpc-bnr/src/streams",
        floors: &[],
        packages: &["bytes", "thiserror"],
        banned: SYSTEM_AND_LOCKS,
    },
    Floor {
        folder: "crates/gpc-bnr/src/supervisor/codec.rs",
        floors: &[],
        packages: &["bytes", "thiserror"],
        banned: SYSTEM_AND_LOCKS,
    },
    Floor {
        folder: "crates/gpc-bnr/src/supervisor/killing.rs",
        floors: &[],
        packages: &[],
        banned: SYSTEM_AND_LOCKS,
    },
    Floor {
        folder: "crates/gpc-bnr/src/supervisor",
        floors: &["bootstrap"],
        packages: &["libc", "chained_gpc", "gpc_launch", "bytes", "rustix", "signal_hook", "thiserror"],
        banned: &["SystemTime", "Mutex", "RwLock", "mpsc"],
    },
    Floor {
        folder: "crates/gpc-rendezvous/src/service_thread.rs",
        floors: &[],
        packages: &["chained_gpc", "tracing"],
        banned: &["net", "fs", "process", "env", "SystemTime"],
    },
    Floor {
        folder: "crates/gpc-rendezvous/src/certificate_file.rs",
        floors: &[],
        packages: &[],
        banned: &["net", "thread", "process", "env", "Instant", "SystemTime", "HashMap", "HashSet"],
    },
    Floor {
        folder: "crates/gpc-rendezvous/src/checking.rs",
        floors: &[],
        packages: &["bytes", "tokio"],
        banned: SYSTEM_AND_LOCKS,
    },
    Floor {
        folder: "crates/gpc-rendezvous/src/native",
        floors: &["runtime", "wire"],
        packages: &["chained_gpc", "bytes", "thiserror", "tracing"],
        banned: &["net", "fs", "process", "env", "HashMap", "HashSet"],
    },
    Floor {
        folder: "crates/gpc-rendezvous/src/meeting",
        floors: &[],
        packages: &["chained_gpc", "bytes", "thiserror", "tracing"],
        banned: &["net", "fs", "process", "env", "HashMap", "HashSet"],
    },
    Floor {
        folder: "crates/gpc-rendezvous/src/bootstrap",
        floors: &["wire", "bootstrap"],
        packages: &["chained_gpc", "bytes", "thiserror", "zeroize"],
        banned: &["net", "thread", "Instant", "SystemTime", "HashMap", "HashSet"],
    },
    Floor {
        folder: "crates/gpc-rendezvous/src/store",
        floors: &[],
        packages: &["chained_gpc", "bytes", "thiserror", "redb", "rustix", "serde", "serde_json", "zeroize"],
        banned: &["net", "thread", "Command", "env", "Instant", "SystemTime", "HashMap", "HashSet"],
    },
    Floor {
        folder: "crates/gpc-rendezvous/src/variables.rs",
        floors: &[],
        packages: &["chained_gpc", "thiserror"],
        banned: &["net", "thread", "fs", "process", "Instant", "SystemTime", "HashMap", "HashSet"],
    },
    Floor {
        folder: "crates/gpc-rendezvous/src/client/exchange.rs",
        floors: &[],
        packages: &["chained_gpc", "base64", "bytes", "hyper", "serde", "serde_json", "zeroize"],
        banned: SYSTEM_AND_LOCKS,
    },
    Floor {
        folder: "crates/gpc-rendezvous/src/client/retry.rs",
        floors: &[],
        packages: &[],
        banned: SYSTEM_AND_LOCKS,
    },
    Floor {
        folder: "crates/gpc-rendezvous/src/client",
        floors: &[],
        packages: &[
            "chained_gpc",
            "base64",
            "bytes",
            "http_body_util",
            "hyper",
            "hyper_rustls",
            "hyper_util",
            "rustls",
            "serde",
            "serde_json",
            "thiserror",
            "tokio",
            "zeroize",
            "tower_service",
        ],
        banned: &["thread", "fs", "process", "env", "SystemTime"],
    },
    Floor {
        folder: "crates/gpc-rendezvous/src/parent_driver.rs",
        floors: &[],
        packages: &["bytes", "tokio", "tracing"],
        banned: &["net", "thread", "fs", "process", "env", "SystemTime"],
    },
    Floor {
        folder: "crates/gpc-cli/src",
        floors: &["reduce", "wire", "chain", "link", "runtime", "bootstrap"],
        packages: &[
            "chained_gpc",
            "gpc_bnr",
            "gpc_capi",
            "gpc_impi",
            "gpc_launch",
            "gpc_pmix",
            "gpc_rendezvous",
            "gpc_sim",
            "gpc_trees",
            "bytes",
            "thiserror",
            "tracing",
            "clap",
            "clap_complete",
            "clap_mangen",
            "serde",
            "serde_json",
            "ring",
            "base64",
            "indicatif",
            "similar",
            "strsim",
            "libmimalloc_sys",
            "mimalloc",
            "signal_hook",
            "tracing_subscriber",
            "rustix",
        ],
        banned: &[],
    },
    Floor {
        folder: "crates/gpc-capi/src",
        floors: &["wire", "runtime", "bootstrap"],
        packages: &[
            "chained_gpc",
            "gpc_bnr",
            "gpc_impi",
            "gpc_pmix",
            "gpc_rendezvous",
            "bytes",
            "libc",
            "libloading",
        ],
        banned: &["net", "SystemTime"],
    },
    Floor {
        folder: "crates/gpc-plugin/src",
        floors: &[],
        packages: &[],
        banned: &["net", "fs", "process", "env", "os", "Instant", "SystemTime", "HashMap", "HashSet"],
    },
    Floor {
        folder: "crates/gpc-test-support/src",
        floors: &["wire"],
        packages: &["chained_gpc"],
        banned: &["SystemTime", "HashMap", "HashSet"],
    },
    Floor {
        folder: "crates/gpc-rendezvous/src/http",
        floors: &["wire", "link", "bootstrap"],
        packages: &[
            "chained_gpc",
            "axum",
            "base64",
            "bytes",
            "http_body_util",
            "hyper",
            "hyper_util",
            "rustls",
            "serde",
            "serde_json",
            "socket2",
            "tokio",
            "tokio_rustls",
            "tracing",
            "zeroize",
        ],
        banned: &["process", "env", "HashMap", "HashSet"],
    },
];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// All Rust files below a folder, in order; or the file itself, if the path is a file.
fn sources(folder: &Path) -> Vec<PathBuf> {
    if folder.is_file() {
        return vec![folder.to_owned()];
    }
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut files: Vec<PathBuf> = entries
        .flat_map(|entry| {
            let path = entry.expect("a folder that can be read").path();
            match path.is_dir() {
                true => sources(&path),
                false => vec![path],
            }
        })
        .filter(|path| path.extension().is_some_and(|extension| extension == "rs"))
        .collect();
    files.sort();
    files
}

/// The text without comments and without the examples in doc comments.
fn code(text: &str) -> String {
    text.lines().map(|line| line.split("//").next().unwrap_or_default()).collect::<Vec<_>>().join("\n")
}

/// The code before the unit tests at the end of a file.
fn without_tests(code: &str) -> &str {
    code.split("#[cfg(test)]").next().unwrap_or_default()
}

/// The paths of a code: `a::b::c` as its words. The braces of a `use` are not expanded; the paths inside are separate.
fn paths(code: &str) -> Vec<Vec<&str>> {
    let is_word = |character: char| character.is_alphanumeric() || character == '_' || character == ':';
    code.split(|character| !is_word(character))
        .filter(|word| word.contains("::"))
        .map(|path| path.split("::").filter(|word| !word.is_empty()).collect())
        .collect()
}

/// First words of the paths in every group that begins like this, such as `crate::{ ... }`.
fn grouped<'a>(code: &'a str, opening: &str) -> Vec<&'a str> {
    let mut firsts = Vec::new();
    for group in code.split(opening).skip(1) {
        let mut depth = 1;
        let inside = |character: char| {
            depth += i32::from(character == '{') - i32::from(character == '}');
            depth == 0
        };
        let group = &group[..group.find(inside).unwrap_or(group.len())];
        // After a comma inside a deeper group the word is not a floor, or has the name of one: neither does harm.
        let starts = group.split(',').map(|path| path.split("::").next().unwrap_or_default().trim());
        firsts.extend(starts);
    }
    firsts
}

/// The manifests of all packages.
const MANIFESTS: [&str; 12] = [
    "Cargo.toml",
    "trees/Cargo.toml",
    "crates/gpc-pmix/Cargo.toml",
    "crates/gpc-rendezvous/Cargo.toml",
    "crates/gpc-impi/Cargo.toml",
    "crates/gpc-cli/Cargo.toml",
    "crates/gpc-capi/Cargo.toml",
    "crates/gpc-plugin/Cargo.toml",
    "crates/gpc-bnr/Cargo.toml",
    "crates/gpc-sim/Cargo.toml",
    "crates/gpc-launch/Cargo.toml",
    "crates/gpc-test-support/Cargo.toml",
];

/// The names of the packages that a manifest allows.
fn dependencies(manifest: &str) -> BTreeSet<String> {
    let manifest = fs::read_to_string(root().join(manifest)).expect("each package has one");
    let dependencies = manifest.split("\n[dependencies]\n").nth(1).expect("a table of dependencies");
    let lines = dependencies.lines().take_while(|line| !line.starts_with('['));
    lines.filter_map(|line| line.split_once(" =")).map(|(name, _)| name.trim().replace('-', "_")).collect()
}

/// The names of all packages that any manifest allows.
fn packages() -> BTreeSet<String> {
    MANIFESTS.into_iter().flat_map(dependencies).collect()
}

/// The folders of `src` and the files beside them: the names that may follow `crate::`.
fn modules() -> BTreeSet<String> {
    let entries = fs::read_dir(root().join("src")).expect("this package has sources").flatten();
    let names = entries.filter_map(|entry| entry.path().file_stem()?.to_str().map(str::to_owned));
    names.filter(|name| name != "lib").collect()
}

/// The name of a floor within `src`.
fn module(floor: &Floor) -> Option<&'static str> {
    Some(floor.folder.strip_prefix("src/")?.trim_end_matches(".rs"))
}

/// Uses in a file that its floor does not allow.
fn trespasses(floor: &Floor, text: &str) -> Vec<String> {
    let (code, modules) = (code(text), modules());
    let mut found = Vec::new();
    // In another package, `crate` and `super` refer to its own modules.
    let library = floor.folder.starts_with("src/");
    let mut named = grouped(&code, if library { "crate::{" } else { "chained_gpc::{" });
    for path in paths(&code) {
        let mut words = path.iter().skip_while(|word| ["super", "self"].contains(*word)).copied();
        let Some(first) = words.next() else { continue };
        // A module of the same file may have the name of a package.
        if path[0] == first && packages().contains(first) && !floor.packages.contains(&first) {
            found.push(format!("package `{first}`"));
        }
        match first {
            "chained_gpc" => named.extend(words.next()),
            "crate" if library => named.extend(words.next()),
            // Enough `super` may lead out of the file's folder.
            _ if library && path[0] == "super" => named.push(first),
            _ => {}
        }
    }
    let own = |name: &str| module(floor) == Some(name) || floor.floors.contains(&name);
    let crossed = |name: &&str| modules.contains(*name) && !own(name);
    found.extend(named.into_iter().filter(crossed).map(|name| format!("floor `{name}`")));
    let plain = without_tests(&code);
    let words = plain.split(|character: char| !character.is_alphanumeric() && character != '_');
    let seen: BTreeSet<&str> = words.collect();
    let parts: BTreeSet<&str> = paths(plain).into_iter().flatten().collect();
    for banned in floor.banned {
        // The name of a type is unambiguous; the name of a module is also a common word.
        let is_type = banned.starts_with(char::is_uppercase);
        if if is_type { seen.contains(banned) } else { parts.contains(banned) } {
            found.push(format!("`{banned}`"));
        }
    }
    found
}

#[test]
fn an_upper_floor_uses_a_lower_one_and_never_the_other_way() {
    let mut found = Vec::new();
    for floor in FLOORS {
        for file in sources(&root().join(floor.folder)) {
            if file.file_name().is_some_and(|name| name == "tests.rs") {
                continue;
            }
            let text = fs::read_to_string(&file).unwrap();
            let name = file.strip_prefix(root()).unwrap().display().to_string();
            let seeded =
                |what: &&String| name == SEEDED && ["`HashMap`", "`HashSet`"].contains(&what.as_str());
            let trespasses = trespasses(floor, &text);
            let rest = trespasses.iter().filter(|what| !seeded(what));
            found.extend(rest.map(|what| format!("{name} uses {what}")));
        }
    }
    assert!(found.is_empty(), "floors are crossed:\n{}", found.join("\n"));
}

#[test]
fn every_module_of_the_sources_has_its_floor() {
    let listed: BTreeSet<String> = FLOORS.iter().filter_map(module).map(str::to_owned).collect();
    assert_eq!(modules(), listed, "give a new one its line in FLOORS, and take out one that is gone");
}

#[test]
fn the_tree_crate_depends_on_smallvec_alone() {
    assert_eq!(dependencies("trees/Cargo.toml").into_iter().collect::<Vec<_>>(), ["smallvec"]);
}

/// A program that only made calls had to build clap, serde and 60 other packages.
#[test]
fn the_library_depends_on_what_its_floors_use_and_on_nothing_of_the_command() {
    let library = FLOORS.iter().filter(|floor| floor.folder.starts_with("src/"));
    let used: BTreeSet<String> =
        library.flat_map(|floor| floor.packages).map(|&name| name.to_owned()).collect();
    assert_eq!(dependencies("Cargo.toml"), used);
}

#[test]
fn what_crosses_a_floor_is_seen() {
    let floor = |folder: &str| FLOORS.iter().find(|floor| floor.folder == folder).unwrap();
    let seen = |folder: &str, text: &str| trespasses(floor(folder), text).join(", ");
    assert_eq!(seen("src/wire", "use crate::chain::Node;"), "floor `chain`");
    assert_eq!(seen("src/branch_hint.rs", "use crate::wire::CallId;"), "floor `wire`");
    assert_eq!(seen("src/chain", "use super::super::runtime::Node;"), "floor `runtime`");
    assert_eq!(seen("src/chain", "fn a() { crate::runtime::node::Node; }"), "floor `runtime`");
    assert_eq!(seen("src/runtime", "use crate::{wire, bootstrap::Entry};"), "floor `bootstrap`");
    assert_eq!(seen("src/runtime", "use crate::{wire::{frame}, chain};\nfn a() { bootstrap; }"), "");
    assert_eq!(seen("src/runtime", "use crate::bootstrap;"), "floor `bootstrap`");
    assert_eq!(
        seen("src/bootstrap", "use crate::branch_hint::likely; use clap::Parser;"),
        "package `clap`, floor `branch_hint`"
    );
    assert_eq!(seen("src/wire", "use mio::Poll;"), "package `mio`");
    assert_eq!(seen("trees/src", "use bytes::Bytes;"), "package `bytes`");
    assert_eq!(seen("src/chain", "use std::net::TcpStream;"), "`net`");
    assert_eq!(seen("src/chain", "use std::{time::Instant, collections::HashMap};"), "`Instant`, `HashMap`");
    assert_eq!(seen("src/chain", "use std::sync::{Arc, Mutex};"), "`Mutex`");
    assert_eq!(seen("src/chain", "// std::net is for others\n#[cfg(test)]\nuse std::thread;"), "");
    assert_eq!(seen("crates/gpc-cli/src", "use chained_gpc::{branch_hint, wire};"), "floor `branch_hint`");
    assert_eq!(seen("crates/gpc-cli/src", "use crate::branch_hint; use mio::Poll;"), "package `mio`");
    assert_eq!(
        seen("crates/gpc-cli/src", "use chained_gpc::Node; use clap::Parser; use std::net::IpAddr;"),
        ""
    );
}
