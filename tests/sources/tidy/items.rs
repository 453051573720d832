//! Checks of items: fields of structs, names of functions that change what they ask about, and `unsafe`.

use proc_macro2::{TokenStream, TokenTree};
use syn::visit::{self, Visit};
use syn::{Fields, FnArg, ItemStruct, Meta, Signature, Type};

/// Fields of a struct. One with more has several roles.
const FIELDS_MAX: usize = 20;

/// First words of functions that answer a question.
const QUESTIONS: [&str; 3] = ["is_", "has_", "may_"];

/// The files with `unsafe`, or all files of a folder. ARCHITECTURE.md says why each has it.
pub(crate) const UNSAFE: [&str; 16] = [
    "src/launchers/inherited.rs",
    "src/transport/shm/mapping.rs",
    "src/transport/shm/mapping/sealed.rs",
    "src/transport/shm/mapping/trim.rs",
    "crates/gpc-bnr/src/supervisor/spawn.rs",
    "crates/gpc-launch/src/remote/tied.rs",
    "crates/gpc-capi/src/abi/*.rs",
    "crates/gpc-capi/src/armci/*.rs",
    "crates/gpc-cli/src/allocator.rs",
    "crates/gpc-cli/src/inherited.rs",
    "crates/gpc-plugin/src/*.rs",
    "crates/gpc-pmix/src/abi.rs",
    "crates/gpc-pmix/src/abi/*.rs",
    "crates/gpc-pmix/src/library.rs",
    "crates/gpc-pmix/src/server/native/*.rs",
    "crates/gpc-test-support/src/memory.rs",
];

/// The entry of [`UNSAFE`] that a file belongs to: the file, or its folder if that is listed.
pub(crate) fn unsafe_place(file: &str) -> &str {
    let folders = UNSAFE.iter().filter_map(|entry| Some((*entry, entry.strip_suffix("*.rs")?)));
    let is_in = |folder: &str| file.strip_prefix(folder).is_some_and(|rest| !rest.contains('/'));
    folders.filter(|(_, folder)| is_in(folder)).map(|(entry, _)| entry).next().unwrap_or(file)
}

/// Structs with too many fields. Structs of command-line arguments have as many fields as the command has options.
pub(crate) fn large_structs(text: &str) -> Vec<String> {
    faults(text, |faults, item| {
        let Item::Struct(item) = item else { return };
        let Fields::Named(fields) = &item.fields else { return };
        let count = fields.named.len();
        let derives = item.attrs.iter().filter_map(|attribute| match &attribute.meta {
            Meta::List(list) if list.path.is_ident("derive") => Some(&list.tokens),
            _ => None,
        });
        let mut derived = derives.flat_map(|tokens| tokens.clone());
        let is_of_clap = derived.any(|token| token.to_string() == "Args" || token.to_string() == "Parser");
        if count > FIELDS_MAX && !is_of_clap {
            faults.push(format!("`{}` has {count} fields, over {FIELDS_MAX}: divide it by role", item.ident));
        }
    })
}

/// Functions whose names ask a question, and that can change something.
pub(crate) fn changing_questions(text: &str) -> Vec<String> {
    faults(text, |faults, item| {
        let Item::Function(function) = item else { return };
        let name = function.ident.to_string();
        let is_mutable =
            |ty: &Type| matches!(ty, Type::Reference(reference) if reference.mutability.is_some());
        let changes = function.inputs.iter().any(|input| match input {
            FnArg::Receiver(receiver) => receiver.mutability.is_some() || is_mutable(&receiver.ty),
            FnArg::Typed(argument) => is_mutable(&argument.ty),
        });
        if changes && QUESTIONS.iter().any(|question| name.starts_with(question)) {
            faults.push(format!("`{name}` takes `&mut`: a question changes nothing"));
        }
    })
}

/// Whether the code has the word `unsafe`.
pub(crate) fn has_unsafe(text: &str) -> bool {
    fn is_in(tokens: TokenStream) -> bool {
        tokens.into_iter().any(|token| match token {
            TokenTree::Ident(ident) => ident == "unsafe",
            TokenTree::Group(group) => is_in(group.stream()),
            _ => false,
        })
    }
    is_in(text.parse().expect("it is Rust"))
}

/// An item that a check looks at.
enum Item<'a> {
    Struct(&'a ItemStruct),
    Function(&'a Signature),
}

/// Collects the faults that `check` finds in the items of a file.
fn faults(text: &str, check: impl Fn(&mut Vec<String>, Item<'_>)) -> Vec<String> {
    let mut visitor = Items { faults: Vec::new(), check };
    visitor.visit_file(&syn::parse_file(text).expect("it is Rust"));
    visitor.faults
}

struct Items<F> {
    faults: Vec<String>,
    check: F,
}

impl<'ast, F: Fn(&mut Vec<String>, Item<'_>)> Visit<'ast> for Items<F> {
    fn visit_item_struct(&mut self, item: &'ast ItemStruct) {
        (self.check)(&mut self.faults, Item::Struct(item));
        visit::visit_item_struct(self, item);
    }

    fn visit_signature(&mut self, signature: &'ast Signature) {
        (self.check)(&mut self.faults, Item::Function(signature));
        visit::visit_signature(self, signature);
    }
}

#[test]
fn a_listed_folder_stands_for_its_files() {
    assert_eq!(unsafe_place("crates/gpc-capi/src/abi/call.rs"), "crates/gpc-capi/src/abi/*.rs");
    for file in ["crates/gpc-capi/src/calls.rs", "crates/gpc-capi/src/abi/deeper/call.rs"] {
        assert_eq!(unsafe_place(file), file);
    }
}

#[test]
fn large_structs_are_seen() {
    let structure = |derived: &str, fields: usize| {
        let fields: String = (0..fields).map(|number| format!("f{number}: u32, ")).collect();
        format!("mod m {{ #[derive(Debug, {derived})]\npub(crate) struct Large<T> {{ {fields} }} }}")
    };
    assert_eq!(large_structs(&structure("Clone", FIELDS_MAX)), [""; 0]);
    let fault = "`Large` has 21 fields, over 20: divide it by role";
    assert_eq!(large_structs(&structure("Clone", FIELDS_MAX + 1)), [fault]);
    for derived in ["Args", "Parser", "clap::Args"] {
        assert_eq!(large_structs(&structure(derived, FIELDS_MAX + 1)), [""; 0]);
    }
}

#[test]
fn changing_questions_are_seen() {
    for (function, name) in [
        ("impl A { fn is_full(&mut self) -> bool { true } }", "is_full"),
        ("impl A { fn has_room(self: &mut A) -> bool { true } }", "has_room"),
        ("impl A { fn may_run(mut self) -> bool { true } }", "may_run"),
        ("trait A { fn is_full(&mut self) -> bool; }", "is_full"),
        ("fn a() { fn is_full(_: u32, list: &mut Vec<u32>) -> bool { true } }", "is_full"),
    ] {
        assert_eq!(
            changing_questions(function),
            [format!("`{name}` takes `&mut`: a question changes nothing")]
        );
    }
    for function in [
        "impl A { fn is_full(&self, list: &Vec<u32>) -> bool { true } }",
        "impl A { fn island(&mut self) -> bool { true } }",
        "fn is_full(mut count: u32) -> bool { true }",
    ] {
        assert_eq!(changing_questions(function), [""; 0], "{function}");
    }
}

#[test]
fn unsafe_code_is_seen() {
    for code in ["unsafe fn f() {}", "unsafe impl A for B {}", "fn f() { g(|| unsafe { h() }) }"] {
        assert!(has_unsafe(code), "{code}");
    }
    for code in ["// unsafe", "#![deny(unsafe_code)]", "/// unsafe\nfn f() { \"unsafe\"; }"] {
        assert!(!has_unsafe(code), "{code}");
    }
}
