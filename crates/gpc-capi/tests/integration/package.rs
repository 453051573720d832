//! The installed package: what make installs, found by pkg-config and CMake; the program of docs/c.md under a launcher.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::programs::package;

pub(crate) fn has(program: &str) -> bool {
    let found = Command::new(program).arg("--version").output().is_ok_and(|output| output.status.success());
    if !found {
        println!("skipped: needs {program}");
    }
    found
}

pub(crate) fn succeeds(command: &mut Command) -> Output {
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {}\n{said}", output.status);
    output
}

/// Installs the libraries of this build into a folder.
pub(crate) fn install(prefix: &Path) {
    let libraries = std::env::current_exe().unwrap().parent().unwrap().to_owned();
    succeeds(
        Command::new("make")
            .arg("-C")
            .arg(package())
            .args(["install", "SERVICES=1"])
            .args([format!("PREFIX={}", prefix.display()), format!("LIBRARIES={}", libraries.display())]),
    );
}

/// What pkg-config says of the library, in words.
pub(crate) fn flags(prefix: &Path, arguments: &[&str]) -> Vec<String> {
    flags_of("chained_gpc", prefix, arguments)
}

fn flags_of(name: &str, prefix: &Path, arguments: &[&str]) -> Vec<String> {
    let mut command = Command::new("pkg-config");
    command.env("PKG_CONFIG_PATH", prefix.join("lib/pkgconfig")).args(arguments).arg(name);
    let output = String::from_utf8(succeeds(&mut command).stdout).unwrap();
    output.split_whitespace().map(str::to_owned).collect()
}

/// The code of docs/c.md: a program, a counter, a barrier, a network, a rendezvous, a session of IMPI, and BNR.
pub(crate) fn page() -> [String; 7] {
    let page = fs::read_to_string(package().join("../../docs/c.md")).unwrap();
    let mut codes = page.split("```c\n").skip(1).map(|rest| rest.split("```").next().unwrap().to_owned());
    std::array::from_fn(|_| codes.next().unwrap())
}

/// Compiles a program as the page says.
pub(crate) fn program(prefix: &Path, name: &str, code: &str) -> PathBuf {
    let (source, program) = (prefix.join(name).with_extension("c"), prefix.join(name));
    fs::write(&source, code).unwrap();
    succeeds(
        Command::new("cc").arg(source).args(flags(prefix, &["--cflags", "--libs"])).arg("-o").arg(&program),
    );
    program
}

/// What a reader of the page adds to its counter and its barrier.
const COUNTS: &str = r#"
int main(void) {
    cgpc_context *context;
    cgpc_call_args here = {.size = sizeof here};
    cgpc_function next_number;
    uint32_t id, turn, first = 0;
    must(cgpc_context_new(&context));
    must(cgpc_register(context, "next", next, NULL, NULL, &next_number));
    must(cgpc_register_deferring(context, "arrive", arrive, context, NULL, &here.func));
    must(cgpc_start_launched(context, NULL));
    must(cgpc_id(context, &id));
    here.ids = &first;
    here.id_count = 1;
    here.flags = id == first ? 0 : CGPC_WATCH;
    for (turn = 0; turn < 100; turn++) take_number(context, next_number, id);
    must(cgpc_call_run(context, &here, NULL));
    if (id == 0) printf("%llu numbers\n", (unsigned long long)take_number(context, next_number, id));
    must(cgpc_call_run(context, &here, NULL));
    return must(cgpc_finalize(context, 1000000));
}
"#;

/// A network as a reader has it before: two contexts in one process.
const HAS_NETWORK: &str = r#"
#include <sys/uio.h>
static cgpc_context *contexts[2];
static void my_network_handler(cgpc_context *context, uint32_t from, const void *message, size_t length);
static int my_network_has_room(uint32_t to) { return to < 2; }
static int my_network_send(uint32_t to, struct iovec *pieces, size_t count) {
    char message[8192];
    size_t at = 0, piece;
    for (piece = 0; piece < count; at += pieces[piece++].iov_len)
        memcpy(message + at, pieces[piece].iov_base, pieces[piece].iov_len);
    my_network_handler(contexts[to], !to, message, at);
    return 0;
}
"#;

/// The rest of that program.
const USES_NETWORK: &str = r#"
int main(void) {
    cgpc_call_args args = {.size = sizeof args, .id_count = 2};
    uint32_t id, sum;
    size_t length = sizeof sum;
    for (id = 0; id < 2; id++) {
        must(cgpc_context_new(&contexts[id]));
        must(cgpc_register(contexts[id], "square", square, NULL, NULL, &args.func));
        must(cgpc_register_callback(contexts[id], "add", add, NULL, NULL, &args.callback));
        start(contexts[id], id, 2);
    }
    must(cgpc_call_run_into(contexts[1], &args, NULL, NULL, &sum, &length, NULL));
    printf("%u\n", sum);
    for (id = 0; id < 2; id++) must(cgpc_finalize(contexts[id], 0));
    return 0;
}
"#;

#[test]
fn an_installed_library_is_found_and_its_page_holds() {
    if !(has("cc") && has("make") && has("pkg-config")) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let prefix = folder.path();
    install(prefix);
    let [first, counter, barrier, network, ..] = page();
    assert!(first.lines().filter(|line| !line.is_empty()).count() <= 40, "a first program is short");
    let begin = first.split("static int square").next().unwrap();
    let counts = program(prefix, "counter", &[begin, &counter, &barrier, COUNTS].concat());
    let parts = [first.split("int main").next().unwrap(), HAS_NETWORK, &network, USES_NETWORK];
    let network = program(prefix, "network", &parts.concat());
    let output = succeeds(Command::new(&network).env("LD_LIBRARY_PATH", prefix.join("lib")));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "1\n");
    let program = program(prefix, "sum", &first);
    let alone = Command::new(&program).env("LD_LIBRARY_PATH", prefix.join("lib")).output().unwrap();
    assert!(String::from_utf8_lossy(&alone.stderr).contains("no launcher"), "{alone:?}");
    if has("mpiexec.mpich") {
        let mut command = Command::new("mpiexec.mpich");
        let output =
            succeeds(command.args(["-n", "4"]).arg(&program).env("LD_LIBRARY_PATH", prefix.join("lib")));
        assert_eq!(String::from_utf8_lossy(&output.stdout), "the sum of 4 squares is 14\n");
        let mut command = Command::new("mpiexec.mpich");
        let output =
            succeeds(command.args(["-n", "5"]).arg(&counts).env("LD_LIBRARY_PATH", prefix.join("lib")));
        assert_eq!(String::from_utf8_lossy(&output.stdout), "500 numbers\n");
    }
    succeeds(
        Command::new("cc")
            .args(["-std=gnu17", "-Wall", "-Werror"])
            .arg(package().join("tests/c/armci.c"))
            .args(flags_of("chained_gpc_armci", prefix, &["--cflags", "--libs"]))
            .arg("-o")
            .arg(prefix.join("armci")),
    );
    succeeds(Command::new(prefix.join("armci")).env("LD_LIBRARY_PATH", prefix.join("lib")));
    for compiler in ["cc", "clang"] {
        if !has(compiler) {
            continue;
        }
        let linked = prefix.join("static");
        let static_flags = flags(prefix, &["--static", "--libs-only-l"]);
        succeeds(
            Command::new(compiler)
                .arg(prefix.join("sum.c"))
                .args(flags(prefix, &["--cflags"]))
                .arg(prefix.join("lib/libchained_gpc.a"))
                .args(static_flags.iter().filter(|flag| *flag != "-lchained_gpc"))
                .arg("-o")
                .arg(&linked),
        );
        // It needs no shared library of ours, and has no launcher either.
        let alone = Command::new(linked).output().unwrap();
        assert!(String::from_utf8_lossy(&alone.stderr).contains("no launcher"), "{alone:?}");
    }
}

/// All files and links below a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().map(|entry| entry.unwrap().path());
    entries
        .flat_map(|path| if path.is_dir() && !path.is_symlink() { files(&path) } else { vec![path] })
        .collect()
}

/// Packages are built in a folder of their own, and name the final one.
#[test]
fn an_installation_into_a_folder_of_a_package_names_no_other_and_is_removed() {
    if !has("make") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let libraries = std::env::current_exe().unwrap().parent().unwrap().to_owned();
    let make = |what: &str| {
        let mut command = Command::new("make");
        command.arg("-C").arg(package());
        command.args([what, "SERVICES=1", "PREFIX=/opt/gpc", "LIBDIR=/opt/gpc/lib/x"]);
        command.arg(format!("DESTDIR={}", folder.path().display()));
        succeeds(command.arg(format!("LIBRARIES={}", libraries.display())));
    };
    make("install");
    let installed = files(folder.path());
    assert!(installed.len() > 10, "{installed:?}");
    for path in &installed {
        assert!(path.starts_with(folder.path().join("opt/gpc")), "{path:?}");
        let text = fs::read_to_string(path).unwrap_or_default();
        assert!(!text.contains(folder.path().to_str().unwrap()), "{path:?}");
        assert!(
            !text.contains('@') || path.extension().is_some_and(|end| end == "h"),
            "{path:?}: not filled"
        );
    }
    make("uninstall");
    assert_eq!(files(folder.path()), [""; 0].map(PathBuf::from));
}

#[test]
fn cmake_finds_the_installed_library() {
    if !(has("cmake") && has("cc") && has("make")) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let prefix = folder.path();
    install(prefix);
    fs::write(
        prefix.join("main.c"),
        "#include <chained_gpc.h>\nint main(void) { return cgpc_version() != CGPC_VERSION; }\n",
    )
    .unwrap();
    let project = "cmake_minimum_required(VERSION 3.10)\nproject(test C)\nfind_package(chained_gpc 0.1 REQUIRED)\n\
        foreach(kind chained_gpc static armci)\nadd_executable(test-${kind} main.c)\n\
        target_link_libraries(test-${kind} chained_gpc::${kind})\nendforeach()\n";
    fs::write(prefix.join("CMakeLists.txt"), project).unwrap();
    let build = prefix.join("build");
    let search = format!("-DCMAKE_PREFIX_PATH={}", prefix.display());
    succeeds(Command::new("cmake").arg("-S").arg(prefix).arg("-B").arg(&build).arg(search));
    succeeds(Command::new("cmake").arg("--build").arg(&build));
    for kind in ["chained_gpc", "static", "armci"] {
        succeeds(&mut Command::new(build.join(format!("test-{kind}"))));
    }
}

#[test]
fn only_functions_of_the_interface_are_exported() {
    if !has("nm") {
        return;
    }
    let library = std::env::current_exe().unwrap().parent().unwrap().join("libgpc_capi.so");
    let output = succeeds(Command::new("nm").args(["-D", "--defined-only"]).arg(library));
    let output = String::from_utf8(output.stdout).unwrap();
    let names: Vec<&str> = output.lines().filter_map(|line| line.split_whitespace().nth(2)).collect();
    let headers = [
        "chained_gpc.h",
        "bnr.h",
        "gpc_rendezvous.h",
        "impi.h",
        "armci/armci.h",
        "armci/gpc.h",
        "armci/message.h",
    ];
    let header: String = headers
        .iter()
        .map(|name| fs::read_to_string(package().join("include").join(name)).unwrap())
        .collect();
    assert!(names.len() > 90);
    for name in names {
        assert!(header.contains(&format!("{name}(")), "{name} is not in a header");
    }
}
