//! Tests of the search for circles, with small made-up crates.

use super::*;

/// The circles of a crate that has these files, described.
fn circles_of(files: &[(&str, &str)]) -> Vec<String> {
    let text = |file: &str| files.iter().find(|(name, _)| *name == file).map(|(_, text)| (*text).to_owned());
    let imports = imports::between_files(&modules::read("lib.rs", &text));
    imports::circles(&imports).iter().map(|circle| describe("src", circle, &imports)).collect()
}

const PAIR: &str = "src: 2 files import each other:\n  a.rs uses b.rs: B\n  b.rs uses a.rs: A";

#[test]
fn a_circle_is_described_with_its_items() {
    let root = ("lib.rs", "mod a;\nmod b;\n");
    let a = ("a.rs", "use crate::b::B;\npub struct A(B);");
    assert_eq!(circles_of(&[root, a, ("b.rs", "use crate::a::A;\npub struct B(Option<Box<A>>);")]), [PAIR]);
    assert_eq!(circles_of(&[root, a, ("b.rs", "pub struct B;")]), [""; 0]);
}

#[test]
fn a_circle_may_pass_through_many_files() {
    let files = [
        ("lib.rs", "mod a;\nmod b;\nmod c;\nmod d;"),
        ("a.rs", "use super::{b::{B, C}, d::D};\npub fn a() {}"),
        ("b.rs", "pub use super::c::C;\npub struct B;"),
        ("c.rs", "use super::a::a as other;\npub struct C;"),
        ("d.rs", "pub struct D;"),
    ];
    let circle = "src: 3 files import each other:\n  a.rs uses b.rs: B\n  a.rs uses c.rs: C\n  \
        b.rs uses c.rs: C\n  c.rs uses a.rs: a";
    assert_eq!(circles_of(&files), [circle]);
}

#[test]
fn paths_in_code_count() {
    let root = ("lib.rs", "mod a;\nmod b;");
    let a = ("a.rs", "pub struct A;\npub fn f() -> crate::b::B { crate::b::B }");
    for b in [
        "pub struct B;\nfn f() { let _ = super::a::A; }",
        "pub struct B;\nuse super::a;\nfn f(_: a::A) {}",
        "pub struct B;\nfn f() { assert!(matches!(x, Some(super::a::A))); }",
        "#[derive(Parser)]\npub struct B { #[arg(value_parser = crate::a::A)] field: u32 }",
        "pub struct B;\nfn f() { use crate::a::A; }",
        "pub struct B;\nuse super::a::*;\nfn f(_: A) {}",
        "pub struct B;\nimpl B { fn f() -> impl Iterator<Item = super::a::A> {} }",
        "pub struct B;\nmod inner { fn f(_: super::super::a::A) {} }",
    ] {
        assert_eq!(circles_of(&[root, a, ("b.rs", b)]), [PAIR], "{b}");
    }
}

#[test]
fn what_is_not_a_use_does_not_count() {
    let root = ("lib.rs", "mod a;\nmod b;");
    let a = ("a.rs", "pub struct A;\npub fn f(_: crate::b::B) {}");
    for b in [
        "//! [`crate::a::A`]\npub struct B;",
        "pub struct B;\nfn f() { let _ = \"crate::a::A\"; }",
        "pub(in crate::a) struct B;",
        "pub struct B;\nuse other::a::A;\nfn f(_: ::a::A) {}",
        "pub struct B;\nmod a { pub struct A; }\nfn f(_: a::A) {}",
    ] {
        assert_eq!(circles_of(&[root, a, ("b.rs", b)]), [""; 0], "{b}");
    }
}

#[test]
fn tests_do_not_count() {
    let root = ("lib.rs", "mod a;\nmod b;");
    let a = ("a.rs", "pub struct A;\npub fn f(_: crate::b::B) {}");
    for b in [
        "pub struct B;\n#[cfg(test)]\nmod tests { use super::super::a::A; }",
        "pub struct B;\n#[cfg(test)]\nmod tests;",
        "pub struct B;\n#[cfg(all(test, target_os = \"linux\"))]\nmod tests { use crate::a::A; }",
        "pub struct B;\n#[cfg(test)]\nuse crate::a::A;",
        "pub struct B;\nimpl B { #[cfg(test)] fn f(_: crate::a::A) {} }",
    ] {
        assert_eq!(circles_of(&[root, a, ("b.rs", b)]), [""; 0], "{b}");
    }
    let b = "pub struct B;\n#[cfg(not(test))]\nuse crate::a::A;";
    assert_eq!(circles_of(&[root, a, ("b.rs", b)]), [PAIR]);
}

#[test]
fn re_exports_are_seen_through() {
    // `a` and `b` use each other's folder, and no file of it that uses them.
    let harmless = [
        ("lib.rs", "mod a;\nmod b;\npub use a::A;"),
        ("a/mod.rs", "mod inner;\nmod user;\npub use inner::A;"),
        ("a/inner.rs", "pub struct A;"),
        ("a/user.rs", "use crate::b::B;"),
        ("b.rs", "use crate::A;\npub struct B(A);"),
    ];
    assert_eq!(circles_of(&harmless), [""; 0]);
    let mut circle = harmless;
    circle[2].1 = "pub struct A;\nfn f(_: crate::b::B) {}";
    let text = "src: 2 files import each other:\n  a/inner.rs uses b.rs: B\n  b.rs uses a/inner.rs: A";
    assert_eq!(circles_of(&circle), [text]);
}

/// A module may name what is in its own modules, which may use what it defines, as long as it does not import it.
#[test]
fn a_folder_that_imports_from_its_modules_counts() {
    let circles = |collects: &str| {
        let root = format!("mod b;\n{collects}\nconst LIMIT: u32 = 1;");
        circles_of(&[
            ("lib.rs", "mod a;"),
            ("a/mod.rs", &root),
            ("a/b.rs", "pub struct B;\nfn f() { super::LIMIT; }"),
        ])
    };
    let circle = "src: 2 files import each other:\n  a/b.rs uses a/mod.rs: LIMIT\n  a/mod.rs uses a/b.rs: B";
    for import in ["use b::B;", "use self::b::{B as Other};", "fn f(_: self::b::B) {}"] {
        assert_eq!(circles(import), [circle], "{import}");
    }
    for import in
        ["pub use b::B;", "pub(crate) use b::*;", "pub use b::B;\nfn f(_: B) {}", "fn f(_: b::B) {}"]
    {
        assert_eq!(circles(import), [""; 0], "{import}");
    }
}

#[test]
fn items_of_macros_and_renamed_items_of_other_crates_belong_to_their_file() {
    let root = ("lib.rs", "mod a;\nmod b;");
    for a in ["items! { A }", "pub use other::B as A;"] {
        let a = format!("use super::b::B;\n{a}");
        assert_eq!(
            circles_of(&[root, ("a.rs", &a), ("b.rs", "use crate::a::A;\npub struct B;")]),
            [PAIR],
            "{a}"
        );
    }
}

#[test]
fn names_of_modules_functions_and_macros_are_told_apart() {
    let files = [
        ("lib.rs", "mod run;\nmod user;\npub use run::run;"),
        ("run.rs", "pub fn run() {}\npub struct Run;\n#[macro_export]\nmacro_rules! list { () => {} }"),
        ("user.rs", "use crate::run;\nfn f() { run(); }"),
    ];
    assert_eq!(circles_of(&files), [""; 0]);
    for call in ["crate::run();", "crate::run::Run;", "crate::run::run();", "crate::list!();"] {
        let item =
            call.trim_start_matches("crate::").trim_start_matches("run::").trim_end_matches(['(', ')', ';']);
        let user = format!("pub struct User;\nfn f() {{ {call} }}");
        let run = format!("{}\nuse crate::user::User;", files[1].1);
        let circle = format!(
            "src: 2 files import each other:\n  run.rs uses user.rs: User\n  user.rs uses run.rs: {item}"
        );
        assert_eq!(
            circles_of(&[files[0], ("run.rs", run.leak()), ("user.rs", user.leak())]),
            [circle],
            "{call}"
        );
    }
}
