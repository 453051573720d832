//! Rules for registering functions, and what the node knows about a function before a call.

use super::*;

#[test]
fn a_name_has_the_same_handle_everywhere() {
    let (here, there) = (Functions::new(), Functions::new());
    let one = here.func("one", |_, _| Ok(())).unwrap();
    there.func("other", |_, _| Ok(())).unwrap();
    assert_eq!(there.func("one", |_, _| Ok(())).unwrap(), one);
    assert_eq!((one, one.number()), (FuncHandle::named("one"), gpc_trees::name_hash("one")));
    assert!(there.phased("p", |_, _, _| Ok(())).unwrap().is_phased() && !one.is_phased());
    assert_eq!(there.named("p").unwrap(), FuncHandle::phased("p"));
}

/// These two names are known to have the same 64-bit FNV-1a hash.
#[test]
fn names_that_meet_are_refused() {
    let (one, other) = ("8yn0iYCKYHlIj4-BwPqk", "GReLUrM4wMqfg9yzV3KQ");
    let functions = Functions::new();
    functions.func(one, |_, _| Ok(())).unwrap();
    let refused = functions.callback(other, |_, _, _| Ok(())).unwrap_err();
    assert_eq!(refused, FunctionsError::Clash { old: one.into(), new: other.into() });
    assert!(matches!(functions.named(other), Err(FunctionsError::UnknownName(..))));
}

#[test]
fn errors_name_the_function_and_the_reason() {
    let functions = Functions::new();
    functions.callback("merge", |_, _, _| Ok(())).unwrap();
    let twice = functions.func("merge", |_, _| Ok(())).unwrap_err();
    assert_eq!(twice, FunctionsError::Duplicate("merge".into()));
    assert_eq!(functions.func("", |_, _| Ok(())).unwrap_err(), FunctionsError::Name(0));
    let message = functions.named("merge").unwrap_err().to_string();
    assert_eq!(message, "`merge` is a callback, but a func is needed here");
    let message = functions.check_func(FuncHandle::named("merge")).unwrap_err().to_string();
    assert_eq!(message, "`merge` is a callback, but a func is needed here");
    functions.func("f", |_, _| Ok(())).unwrap();
    let message = functions.check_func(FuncHandle::phased("f")).unwrap_err().to_string();
    assert_eq!(message, "`f` is a func, but a func with phases is needed here");
    assert!(functions.named("nothing").unwrap_err().to_string().contains("these are: f, merge"));
    let nothing = FuncHandle::named("nothing");
    assert_eq!(functions.check_func(nothing).unwrap_err(), FunctionsError::Unknown(nothing.number()));
}

#[test]
fn a_name_has_255_bytes_at_most() {
    let functions = Functions::new();
    let longest = "n".repeat(255);
    assert_eq!(functions.func(&longest, |_, _| Ok(())), Ok(FuncHandle::named(&longest)));
    let longer = "n".repeat(256);
    assert_eq!(functions.func(&longer, |_, _| Ok(())), Err(FunctionsError::Name(256)));
    assert_eq!(functions.names(), [longest]);
}

/// Functions of each kind at places of their own, and the class of a place.
struct Placed {
    functions: Functions,
    func: FuncHandle,
    callback: CallbackHandle,
    phased: FuncHandle,
}

fn placed() -> Placed {
    let functions = Functions::new();
    let at = |place: &'static str| functions.at(Placement::Executor(place.into()));
    Placed {
        func: at("1").func("func", |_, _| Ok(())).unwrap(),
        callback: at("2").callback("callback", |_, _, _| Ok(())).unwrap(),
        phased: at("3").phased("phased", |_, _, _| Ok(())).unwrap(),
        functions: functions.clone(),
    }
}

fn class(placement: &Placement) -> u8 {
    let Placement::Executor(place) = placement else { panic!("no place of its own: {placement:?}") };
    place.parse().unwrap()
}

#[test]
fn func_and_callback_have_the_classes_of_their_own_places() {
    let Placed { functions, func, callback, phased } = placed();
    let of_call = |func, callback, watch| {
        functions.of_call(func, callback, watch, class).map(|(classes, _)| (classes.func, classes.callback))
    };
    assert_eq!(of_call(func, None, false), Ok((1, 0)));
    assert_eq!(of_call(func, Some(callback), false), Ok((1, 2)));
    assert_eq!(of_call(phased, None, false), Ok((3, 3)), "it merges where it runs");
    assert_eq!(of_call(phased, Some(callback), false), Err(FunctionsError::MergesItself("phased".into())));
    // A caller that only watches need not have func, unless func merges.
    let (unknown, other) = (FuncHandle::named("unknown"), FuncHandle::phased("unknown"));
    assert_eq!(of_call(unknown, Some(callback), true), Ok((0, 2)));
    assert_eq!(of_call(unknown, None, false), Err(FunctionsError::Unknown(unknown.number())));
    assert_eq!(of_call(other, None, true), Err(FunctionsError::Unknown(other.number())));

    let classes = |func: FuncHandle, callback: Option<CallbackHandle>| {
        let of = functions.classes(func.number(), callback.map(CallbackHandle::number), class);
        (of.func, of.callback)
    };
    assert_eq!(classes(func, Some(callback)), (1, 2));
    assert_eq!((classes(phased, None), classes(unknown, None)), ((3, 0), (0, 0)));
}

#[test]
fn a_function_merges_in_list_order_until_it_is_declared_commutative() {
    let Placed { functions, func, callback, phased } = placed();
    let of_call =
        |func, callback| functions.of_call(func, callback, false, class).map(|(_, merging)| merging).unwrap();
    let merging = || {
        assert_eq!(functions.merging(callback.number()), of_call(func, Some(callback)));
        assert_eq!(functions.merging(phased.number()), of_call(phased, None));
        [of_call(func, Some(callback)), of_call(phased, None)]
    };
    let listed = Merging::default();
    assert_eq!(merging(), [listed; 2]);
    functions.commutative(callback).unwrap();
    assert_eq!(merging(), [Merging::AsTheyCome, listed]);
    functions.commutative(phased).unwrap();
    assert_eq!(merging(), [Merging::AsTheyCome; 2]);
    assert_eq!(of_call(func, None), listed);
    assert!(matches!(functions.commutative(func), Err(FunctionsError::OtherKind { .. })));
}

/// Which functions may be executed where their request was read: those of anyone, whose reply is complete when they
/// return.
#[test]
fn a_function_takes_the_fast_path_where_it_may_run_at_once() {
    let all = Functions::new();
    let inline = |functions: &Functions, name: &str| {
        functions.func(name, |_, _| Ok(())).unwrap();
        all.entry(number(name)).unwrap().inline
    };
    assert_eq!(inline(&all, "default"), Inline::OnDrivingThread);
    assert_eq!(inline(&all.at(Placement::Inline), "inline"), Inline::Always);
    assert_eq!(inline(&all.at(Placement::Executor("io".into())), "elsewhere"), Inline::Never);
    for access in [Access::Proved, Access::Listed, Access::Ids(gpc_trees::IdList::range(0..3))] {
        let name = format!("{access:?}");
        assert_eq!(inline(&all.access(access).at(Placement::Inline), &name), Inline::Never);
    }
    all.deferring("later", |_, _| {}).unwrap();
    all.callback("merges", |_, _, _| Ok(())).unwrap();
    all.phased("both", |_, _, _| Ok(())).unwrap();
    let inlines = ["later", "merges", "both"].map(|name| all.entry(number(name)).unwrap().inline);
    assert_eq!(inlines, [Inline::Never, Inline::Never, Inline::OnDrivingThread]);
}
