//! Every function of the headers: what its documentation must say, and a generated program that calls each of them with
//! null, with wrong, freed and stale handles, from within a function, after the end of its context, and in a forked
//! child.

use std::fmt::Write as _;
use std::fs;

use crate::programs::{package, succeeds_in};
use crate::services::{Service, impi_server};

/// A function of the header.
struct Function {
    name: String,
    /// Its comment, on one line.
    about: String,
    /// The types of its parameters.
    parameters: Vec<String>,
}

/// The types of handles.
const HANDLES: [&str; 12] = [
    "cgpc_context *",
    "cgpc_call *",
    "cgpc_outcome *",
    "cgpc_request *",
    "cgpc_reply *",
    "cgpc_token *",
    "cgpc_tree *",
    "cgpc_events *",
    "cgpc_rendezvous *",
    "cgpc_completion *",
    "cgpc_subscription *",
    "cgpc_impi *",
];

/// Structures that begin with their size.
const SIZED: [&str; 14] = [
    "cgpc_options",
    "cgpc_exchange",
    "cgpc_network",
    "cgpc_function_options",
    "cgpc_streaming",
    "cgpc_call_args",
    "cgpc_error",
    "cgpc_coverage",
    "cgpc_event",
    "cgpc_rendezvous_options",
    "cgpc_rendezvous_spec",
    "cgpc_rendezvous_properties_of",
    "cgpc_notification",
    "cgpc_impi_options",
];

impl Function {
    /// The type of its handle, if it has one: the first parameter.
    fn handle(&self) -> Option<&'static str> {
        let first = self.parameters.first()?.trim_start_matches("const ");
        HANDLES.into_iter().find(|handle| *handle == first)
    }

    /// A call of it with null in place of each pointer, and 0 in place of each number.
    fn with_nothing(&self) -> String {
        let zeros: Vec<String> = self.parameters.iter().map(|kind| zero(kind)).collect();
        format!("{}({})", self.name, zeros.join(", "))
    }

    /// A call of it with this handle, and arguments that are right as far as that is possible.
    fn with(&self, handle: &str) -> String {
        let first = format!("({})(uintptr_t){handle}", self.parameters[0]);
        let rest = self.parameters[1..].iter().map(|kind| right(kind));
        let all: Vec<String> = [first].into_iter().chain(rest).collect();
        format!("{}({})", self.name, all.join(", "))
    }
}

fn zero(kind: &str) -> String {
    if kind.ends_with('*') || kind.ends_with("_fn") { "NULL".into() } else { "0".into() }
}

fn right(kind: &str) -> String {
    let plain = kind.trim_start_matches("const ").trim_end_matches([' ', '*']);
    match kind {
        _ if SIZED.contains(&plain) => format!("&({plain}){{.size = sizeof({plain})}}"),
        "const char *" => "\"x\"".into(),
        _ if kind.ends_with('*') => format!("({kind})(void *)room"),
        _ if kind.ends_with("_fn") => format!("({kind})does_nothing"),
        _ => "1".into(),
    }
}

/// The functions of all headers.
fn functions() -> Vec<Function> {
    ["chained_gpc.h", "gpc_rendezvous.h", "impi.h"].into_iter().flat_map(functions_of).collect()
}

/// The functions of a header, in its order.
fn functions_of(header: &str) -> Vec<Function> {
    let header = fs::read_to_string(package().join("include").join(header)).unwrap();
    let header = header.split("#include <algorithm>").next().unwrap();
    let mut about = String::new();
    let mut functions = Vec::new();
    let mut lines = header.lines();
    while let Some(line) = lines.next() {
        if let Some(text) = line.strip_prefix("//") {
            about.push_str(text);
            continue;
        }
        let is_prototype = ["int cgpc_", "uint32_t cgpc_", "const char *cgpc_"];
        if is_prototype.iter().any(|start| line.starts_with(start)) {
            let mut whole = line.to_owned();
            while !whole.ends_with(';') {
                whole.push_str(lines.next().unwrap().trim_start());
                whole.push(' ');
                whole.truncate(whole.trim_end().len());
            }
            let (start, parameters) = whole.trim_end_matches(");").split_once('(').unwrap();
            let name = start.trim_start_matches("const char *").rsplit(' ').next().unwrap();
            functions.push(Function {
                name: name.into(),
                about: about.clone(),
                parameters: parameters
                    .split(',')
                    .map(kind_of)
                    .filter(|kind| kind != "void" && !kind.is_empty())
                    .collect(),
            });
        }
        about.clear();
    }
    functions
}

/// The type of a parameter without its name.
fn kind_of(parameter: &str) -> String {
    let text = parameter.trim().replace("struct ", "");
    let end = text.trim_end_matches(|c: char| c.is_ascii_alphanumeric() || c == '_');
    if end.is_empty() { text } else { end.trim_end().to_owned() }
}

/// The functions whose nulls and zeros are right: pure ones, and those that draw nothing from their pointers.
const CONTENT_WITH_NOTHING: [&str; 3] = ["cgpc_version", "cgpc_level_aggregate", "cgpc_level_count"];

#[test]
fn each_function_says_from_where_it_may_be_called() {
    let functions = functions();
    assert!(functions.len() > 100, "{}", functions.len());
    for Function { name, about, .. } in &functions {
        let says = ["ay be called", "rom within", "rom one thread"];
        assert!(says.iter().any(|text| about.contains(text)), "{name}: {about}");
    }
}

/// A handle that is stored for the caller is freed by somebody: the documentation says by whom.
#[test]
fn each_function_that_stores_a_handle_says_who_frees_it() {
    for Function { name, about, parameters, .. } in functions() {
        let stores = HANDLES.iter().any(|handle| parameters.iter().any(|kind| *kind == format!("{handle}*")));
        let says = [
            "ree it with",
            "frees",
            "finalized elsewhere",
            "rest is as for",
            "As\n",
            "As cgpc_",
            "see cgpc_",
        ];
        assert!(!stores || says.iter().any(|text| about.contains(text)), "{name}: {about}");
    }
}

const START: &str = r#"
#include <sys/wait.h>
#include "check.h"
#include "gpc_rendezvous.h"
#include "impi.h"

static char room[8192];
/* Stands for each function; as a destructor it may be called. */
static void does_nothing(void) {}
static void wrong(int status, int line) {
    if (status != CGPC_ERR_ARGUMENT) {
        fprintf(stderr, "line %d: %d\n", line, status);
        explain();
        abort();
    }
}
static void known(long status, int line) {
    if (status < CGPC_ERR_SERVER || status == CGPC_ERR_INTERNAL || (status > CGPC_NONE && status != (long)CGPC_VERSION)) {
        fprintf(stderr, "line %d: %ld\n", line, status);
        abort();
    }
}
#define WRONG(call) wrong(call, __LINE__)
static cgpc_context *context, *ended;
static cgpc_call *call;
static cgpc_outcome *outcome;
static cgpc_token *token;
static cgpc_tree *tree;
static cgpc_events *events;
static cgpc_rendezvous *rendezvous;
static cgpc_completion *completion;
static cgpc_subscription *subscription;
static cgpc_impi *impi;
static const cgpc_request *request;
static cgpc_reply *reply;
static void nothing(void);
static void handles(void);
static void forked(void);
"#;

const END: &str = r#"
/* In a function: its own handles are valid there, and all wrong uses are errors as elsewhere. */
static int inside(const cgpc_request *of, cgpc_reply *own, void *arg) {
    pid_t child;
    int status = 0;
    (void)arg;
    request = of;
    reply = own;
    nothing();
    handles();
    IS(CGPC_ERR_DEADLOCK, cgpc_finalize(context, 0));
    IS(CGPC_ERR_DEADLOCK, cgpc_serve(context));
    IS(CGPC_ERR_STATE, cgpc_start(context, NULL));
    IS(CGPC_ERR_STATE, cgpc_start_launched(context, NULL));
    IS(CGPC_ERR_UNSUPPORTED, cgpc_progress(context, 0, NULL));
    OK(cgpc_explain("it does not fail"));
    child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        forked();
        _exit(0);
    }
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    return 0;
}

static int plain(const cgpc_request *of, cgpc_reply *own, void *arg) {
    (void)of;
    (void)own;
    (void)arg;
    return 0;
}

static int keeps(const cgpc_request *of, cgpc_token *promise, void *arg) {
    (void)of;
    (void)arg;
    token = promise;
    return 0;
}

/* Handles of the services. */
static void serves(void) {
    cgpc_rendezvous_spec spec = {.size = sizeof spec, .capacity = 1};
    cgpc_impi_options options = {.size = sizeof options};
    char resource[CGPC_HANDLE_SIZE];
    OK(cgpc_rendezvous_new(NULL, &rendezvous));
    OK(cgpc_rendezvous_create(rendezvous, getenv("SERVICE"), &spec, resource, sizeof resource, NULL));
    OK(cgpc_rendezvous_register(rendezvous, resource, 0, "token", "x", 1, 0, NULL, NULL, NULL));
    OK(cgpc_rendezvous_wait(rendezvous, resource, CGPC_SCOPE_OWN, NULL, 60000000, &completion));
    OK(cgpc_rendezvous_subscribe(rendezvous, resource, 0, NULL, NULL, NULL, NULL, &subscription));
    OK(cgpc_impi_connect(getenv("SERVER"), &options, 60000000, &impi));
}

int main(void) {
    cgpc_call_args args = {.size = sizeof args};
    cgpc_function func = 0, keeping = 0, plain_number = 0;
    OK(cgpc_context_new(&ended));
    OK(cgpc_finalize(ended, 0));
    OK(cgpc_context_new(&context));
    OK(cgpc_register(context, "inside", inside, NULL, NULL, &func));
    OK(cgpc_register(context, "plain", plain, NULL, NULL, &plain_number));
    OK(cgpc_register_deferring(context, "keeps", keeps, NULL, NULL, &keeping));
    nothing();
    start_all(&context, 1, 0);
    OK(cgpc_tree_named(context, "binary", &tree));
    OK(cgpc_events_open(context, &events));
    serves();
    args.id_count = 1;
    args.func = keeping;
    OK(cgpc_call_start(context, &args, &call));
    IS(CGPC_PENDING, cgpc_call_wait(call, 0, NULL));
    while (__atomic_load_n(&token, __ATOMIC_SEQ_CST) == NULL) {
        usleep(1000);
    }
    args.func = plain_number;
    OK(cgpc_call_run(context, &args, &outcome));
    args.func = func;
    OK(cgpc_call_run(context, &args, NULL));
    nothing();
    handles();
    OK(cgpc_token_free(token));
    OK(cgpc_call_free(call));
    OK(cgpc_outcome_free(outcome));
    OK(cgpc_tree_free(tree));
    OK(cgpc_events_free(events));
    OK(cgpc_subscription_free(subscription));
    OK(cgpc_completion_free(completion));
    OK(cgpc_rendezvous_free(rendezvous));
    OK(cgpc_impi_free(impi));
    OK(cgpc_finalize(context, 0));
    nothing();
    handles();
    puts("done");
    return 0;
}
"#;

/// The variable of the program with a handle of this type.
fn variable(handle: &str) -> &str {
    handle.trim_start_matches("cgpc_").trim_end_matches(" *")
}

#[test]
fn every_function_refuses_wrong_arguments_everywhere() {
    let mut code = START.to_owned();
    let functions = functions();
    code.push_str("static void nothing(void) {\n");
    for function in &functions {
        let call = function.with_nothing();
        match &*function.name {
            // Texts, and nothing to be wrong.
            "cgpc_strerror" | "cgpc_last_message" => {
                writeln!(code, "CHECK({call} != NULL);").unwrap();
            }
            name if CONTENT_WITH_NOTHING.contains(&name) => {
                writeln!(code, "known({call}, __LINE__);").unwrap()
            }
            _ => writeln!(code, "WRONG({call});").unwrap(),
        }
    }
    code.push_str("}\nstatic void handles(void) {\n");
    for function in &functions {
        let Some(own) = function.handle() else { continue };
        let other = if own == "cgpc_tree *" { "events" } else { "tree" };
        for handle in [other, "ended", "room", "1", "UINTPTR_MAX"] {
            writeln!(code, "WRONG({});", function.with(handle)).unwrap();
        }
    }
    code.push_str("}\nstatic void forked(void) {\n");
    for function in &functions {
        let Some(handle) = function.handle() else { continue };
        writeln!(code, "IS(CGPC_ERR_FORKED, {});", function.with(variable(handle))).unwrap();
    }
    code.push_str("}\n");
    code.push_str(END);
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("every.c");
    fs::write(&source, code).unwrap();
    // A child lacks the threads whose stacks refer to the parent's memory, so that looks leaked there.
    let (service, server) = (Service::start(), impi_server(1));
    let variables = [("SERVICE", service.url()), ("SERVER", server.as_str())];
    succeeds_in("cc", "gnu11", source.to_str().unwrap(), "detect_leaks=0", &variables);
}
