//! The crate `gpc-plugin` with nodes of this process: what its functions get, and how they fail.
#![allow(unsafe_code, reason = "a plug-in defines a symbol of C")]

use std::cell::Cell;
use std::sync::{Condvar, Mutex};
use std::time::Duration;

use chained_gpc::{
    Call, CallbackHandle, CauseKind, FuncHandle, Functions, LinkKind, LocalNodes, Tree, TreeName,
};
use gpc_capi::abi::{loading, plugin, types};
use gpc_plugin::{Child, Failure, PANICKED, Plugin, Refused, Reply, Request, Token};

gpc_plugin::plugin!(load);

thread_local! {
    /// Whether the plug-in refuses. It is loaded by the thread of a test.
    static REFUSES: Cell<bool> = const { Cell::new(false) };
}

/// The reply of id 1 in a call of `first-is-last`.
static FIRST: (Mutex<Option<Token>>, Condvar) = (Mutex::new(None), Condvar::new());

/// Time limit of what takes no time unless something is broken.
const LIMIT: Duration = Duration::from_secs(10);

type R<'a> = Request<'a>;

fn load(plugin: &Plugin) -> Result<(), Refused> {
    if REFUSES.get() {
        return Err("not on this \0 machine".into());
    }
    plugin.func("where", |request: &R<'_>, reply: &mut Reply<'_>| {
        let parent = request.parent().map_or("-".into(), |parent| parent.to_string());
        let (me, root, position, total) = (request.me(), request.root(), request.position(), request.total());
        let limited = request.remaining() > Duration::ZERO && !request.is_cancelled();
        reply.set_header(request.header());
        reply.header().reverse();
        reply.append(format!("{me} {parent} {root} {position} {total} ").as_bytes());
        reply.append(format!("{} {limited} {:?}", request.reply_wanted(), request.data()).as_bytes());
        reply.data().make_ascii_uppercase();
        Ok(())
    })?;
    plugin.inline().func("fails", |request: &R<'_>, _: &mut Reply<'_>| match request.header() {
        b"zero" => Err(Failure::new(0, "a code of 0")),
        b"text" => Err("a \0 text".into()),
        b"panic" => panic!("at id {}", request.me()),
        _ => Err(Failure::new(-7, "seven")),
    })?;
    plugin.callback("joins", |request: &R<'_>, child: &Child<'_>, own: &mut Reply<'_>| {
        assert!(request.header() != b"panic in callback", "it merges {}", child.from);
        own.append(format!("<{}", child.from).as_bytes());
        own.append(child.data);
        own.append(b">");
        Ok(())
    })?;
    plugin.phased("counts", |_: &R<'_>, child: Option<&Child<'_>>, own: &mut Reply<'_>| {
        match child {
            None => own.set_data(&[1]),
            Some(child) => own.data()[0] += child.data[0],
        }
        Ok(())
    })?;
    plugin.deferring("later", |request: &R<'_>, token: Token| match request.header() {
        b"panic" => panic!("with a token"),
        b"drop" => drop(token),
        b"fail" => token.fail(Failure::new(9, "later, too")),
        _ => {
            std::thread::spawn(move || {
                let word = if token.is_cancelled() { "no" } else { "yes" };
                token.reply(b"head", word.as_bytes());
            });
        }
    })?;
    // Id 1 replies once the reply of id 2 has been merged.
    plugin.deferring("first-is-last", |request: &R<'_>, token: Token| match request.me() {
        1 => {
            *FIRST.0.lock().unwrap() = Some(token);
            FIRST.1.notify_all();
        }
        2 => drop(std::thread::spawn(move || {
            // Id 1 may not have begun yet.
            let first = FIRST.0.lock().unwrap();
            drop(FIRST.1.wait_timeout_while(first, LIMIT, |first| first.is_none()).unwrap());
            token.reply(b"", b"");
        })),
        _ => token.reply(b"", b""),
    })?;
    plugin.commutative().callback(
        "frees-the-first",
        |_: &R<'_>, child: &Child<'_>, own: &mut Reply<'_>| {
            own.append(child.from.to_string().as_bytes());
            if child.from == 2 {
                let first = FIRST.0.lock().unwrap().take().ok_or("id 1 has not begun")?;
                first.reply(b"", b"");
            }
            Ok(())
        },
    )?;
    plugin.tree("split-panics", |_| panic!("no tree"))?;
    plugin.tree("pairs", |n| (1..n).step_by(2).map(|at| 2.min(n - at)).collect())
}

/// What the plug-in exports, as the program sees it.
fn exported() -> plugin::cgpc_plugin {
    // SAFETY: the layouts are equal: a test of gpc-capi compares them.
    unsafe { std::mem::transmute::<gpc_plugin::abi::cgpc_plugin, plugin::cgpc_plugin>(cgpc_plugin_entry) }
}

fn nodes(functions: &Functions) -> LocalNodes {
    loading::register(&exported(), functions).unwrap();
    LocalNodes::start(5, LinkKind::Unix, functions).unwrap()
}

fn call(func: &str) -> Call {
    Call::new(FuncHandle::named(func)).ids(0..5).tree(Tree::Binary)
}

#[test]
fn functions_get_what_the_call_has() {
    let functions = Functions::new();
    let nodes = nodes(&functions);
    let outcome = nodes.root().call(call("where").header("abc").data(vec![7, 8])).unwrap().wait().unwrap();
    let reply = outcome.reply(4).unwrap();
    assert_eq!(reply.header, b"cba");
    assert_eq!(String::from_utf8_lossy(reply.data), "4 3 0 4 5 TRUE TRUE [7, 8]");
    assert!(outcome.reply(0).unwrap().data.starts_with(b"0 - 0 0 5 "));
}

#[test]
fn callbacks_phases_and_trees_merge() {
    let functions = Functions::new();
    let nodes = nodes(&functions);
    let pairs = functions.named_tree(&"pairs".parse::<TreeName>().unwrap()).unwrap();
    let joins = call("later").callback(CallbackHandle::named("joins")).tree(pairs);
    let outcome = nodes.root().call(joins).unwrap().wait().unwrap();
    assert_eq!(outcome.data(), &b"yes<1yes<2yes>><3yes<4yes>>"[..]);
    let counts = Call::new(FuncHandle::phased("counts")).ids(0..5);
    assert_eq!(nodes.root().call(counts).unwrap().wait().unwrap().data(), &[5][..]);
}

/// In the order of the ids, id 2 would wait for id 1, which waits for id 2.
#[test]
fn a_commutative_callback_gets_replies_as_they_arrive() {
    let functions = Functions::new();
    let nodes = nodes(&functions);
    let call = Call::new(FuncHandle::named("first-is-last")).ids([0, 1, 2]).tree(Tree::Flat);
    let call = call.callback(CallbackHandle::named("frees-the-first")).limit(LIMIT);
    let outcome = nodes.root().call(call).unwrap().wait().unwrap();
    assert_eq!(outcome.data(), &b"21"[..]);
}

#[test]
fn failures_and_panics_are_codes_with_a_message() {
    let functions = Functions::new();
    let nodes = nodes(&functions);
    let failed = |func: &str, header: &'static str| {
        let call = call(func).callback(CallbackHandle::named("joins")).header(header);
        let error = nodes.root().call(call).unwrap().wait().unwrap_err();
        let cause = error.cause().unwrap().clone();
        (cause.kind, cause.code, cause.message)
    };
    let panicked = i64::from(PANICKED);
    for (func, header, kind, code, message) in [
        ("fails", "", CauseKind::Failed, -7, "seven"),
        ("fails", "zero", CauseKind::Failed, 1, "a code of 0"),
        ("fails", "text", CauseKind::Failed, 1, "a   text"),
        ("fails", "panic", CauseKind::Failed, panicked, "it panicked: at id 0"),
        ("later", "fail", CauseKind::Failed, 9, "later, too"),
        ("later", "panic", CauseKind::Failed, panicked, "it panicked before it replied"),
        ("where", "panic in callback", CauseKind::Failed, panicked, "it panicked: it merges "),
    ] {
        let (is, its_code, said) = failed(func, header);
        assert!(
            (is, its_code) == (kind, code) && said.starts_with(message),
            "{header}: {is} {its_code} {said}"
        );
    }
    assert_eq!(failed("later", "drop").0, CauseKind::NoAnswer);
    let bad = functions.named_tree(&"split-panics".parse::<TreeName>().unwrap()).unwrap();
    let error = nodes.root().call(call("where").tree(bad)).map(drop).unwrap_err();
    assert!(error.to_string().contains("split-panics") || error.to_string().contains("group"), "{error}");
    // The nodes go on.
    assert!(nodes.root().call(call("where")).unwrap().wait().unwrap().is_complete());
}

#[test]
fn a_plugin_refuses_with_a_text_and_a_name_is_taken_once() {
    let functions = Functions::new();
    loading::register(&exported(), &functions).unwrap();
    let again = loading::register(&exported(), &functions).unwrap_err();
    assert_eq!(again, "a function named `where` is registered already: give this one another name");
    REFUSES.set(true);
    let why = loading::register(&exported(), &Functions::new());
    assert_eq!(why.unwrap_err(), "not on this   machine");
    // What one plug-in has said is not what the next one says.
    unsafe extern "C-unwind" fn silent(
        _: *const plugin::cgpc_plugin_table,
        _: *mut types::cgpc_context,
    ) -> i32 {
        gpc_capi::status::CGPC_ERR_UNSUPPORTED
    }
    let silent = plugin::cgpc_plugin { load: Some(silent), ..exported() };
    let why = loading::register(&silent, &Functions::new());
    assert_eq!(why.unwrap_err(), "its function `load` returned -18 (not supported here)");
}

#[test]
fn a_plugin_of_another_version_is_not_asked() {
    let of = |version| loading::register(&plugin::cgpc_plugin { version, ..exported() }, &Functions::new());
    assert!(
        of(plugin::CGPC_PLUGIN_VERSION + 1000)
            .unwrap_err()
            .starts_with("it is for version 2.0 of the tables")
    );
    assert!(
        of(plugin::CGPC_PLUGIN_VERSION + 1).unwrap_err().starts_with("it is for version 1.1 of the tables")
    );
    assert!(of(0).unwrap_err().starts_with("it is for version 0.0 of the tables"));
    let without = plugin::cgpc_plugin { load: None, ..exported() };
    let why = loading::register(&without, &Functions::new()).unwrap_err();
    assert_eq!(why, "the field `load` of its cgpc_plugin_entry is null");
}
