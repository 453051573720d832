//! Tests of names, wire ids and the registry.

use gpc_trees::{
    Group, Limits, NameError, Radix, RegisterError, Registered, Registry, SplitName, Summary, Tree, TreeName,
    UnknownTree, tree_id,
};
use proptest::prelude::*;
use std::num::NonZeroU32;

fn names() -> impl Strategy<Value = TreeName> {
    let word = "[a-z][a-z0-9_-]{0,63}|[1-9][0-9]{0,9}"
        .prop_filter_map("reserved", |text| text.parse::<SplitName>().ok());
    prop_oneof![
        Just(TreeName::Binary),
        Just(TreeName::Binomial),
        Just(TreeName::Chain),
        Just(TreeName::Flat),
        (1..=u32::MAX).prop_map(|k| TreeName::Kary(NonZeroU32::new(k).unwrap())),
        (2..=u32::MAX).prop_map(|k| TreeName::Knomial(Radix::new(k).unwrap())),
        "\\PC{1,20}".prop_map(TreeName::File),
        word.prop_map(TreeName::Registered),
    ]
}

fn chain(name: &str) -> Registered {
    Registered::new(name, |n, groups| groups.push(Group { start: 1, len: n - 1 })).unwrap()
}

proptest! {
    #[test]
    fn names_round_trip(name in names()) {
        prop_assert_eq!(name.to_string().parse::<TreeName>(), Ok(name.clone()));
        if let Some(tree) = name.built_in() {
            prop_assert_eq!(tree.to_string(), name.to_string());
            prop_assert_eq!(Tree::from_wire(tree.wire_id(), tree.wire_param()), Some(tree));
        }
    }

    #[test]
    fn any_text_is_a_name_or_an_error(text in "[a-z0-9:_-]{0,20}|(kary|knomial|file|flat):?\\PC{0,12}|\\PC{0,90}") {
        match text.parse::<TreeName>() {
            Ok(name) => prop_assert_eq!(name.to_string().parse::<TreeName>(), Ok(name)),
            Err(error) => prop_assert!(!error.to_string().is_empty()),
        }
    }

    #[test]
    fn ids_of_names_lie_between_the_source_and_the_extras(name in "\\PC{0,20}") {
        prop_assert!(tree_id(&name) >= 1 << 63);
    }

    #[test]
    fn the_wire_gives_a_tree_only_as_the_tree_would_write_it(
        id in prop_oneof![0..4u64, 0x8000_0000..0x8000_0008u64, any::<u64>()],
        param in prop_oneof![0..4u32, any::<u32>()],
    ) {
        if let Some(tree) = Tree::from_wire(id, param) {
            prop_assert_eq!((tree.wire_id(), tree.wire_param()), (id, param));
        }
    }
}

#[test]
fn wire_ids_are_as_documented() {
    let ids = |tree: &Tree| (tree.wire_id(), tree.wire_param());
    let k = NonZeroU32::new(8).unwrap();
    assert_eq!(ids(&Tree::default()), (0, 0));
    assert_eq!(ids(&Tree::Binomial), (1, 0));
    assert_eq!(ids(&Tree::Kary(k)), (0x8000_0001, 8));
    assert_eq!(ids(&Tree::Knomial(Radix::new(4).unwrap())), (0x8000_0002, 4));
    assert_eq!(ids(&Tree::Chain), (0x8000_0003, 0));
    assert_eq!(ids(&Tree::Flat), (0x8000_0004, 0));
    let one = gpc_trees::Shape::from_sizes(vec![1]).unwrap();
    assert_eq!(ids(&Tree::Explicit(one)), (0x8000_0005, 0));
    assert_eq!(Tree::EXPLICIT_WIRE_ID, 0x8000_0005);
    for (id, param) in
        [(0, 1), (1, 2), (2, 0), (0x8000_0001, 0), (0x8000_0002, 1), (0x8000_0005, 0), (0x8000_0000, 0)]
    {
        assert_eq!(Tree::from_wire(id, param), None, "{id:#x} {param}");
    }
}

/// Published test vectors of 64-bit FNV-1a.
#[test]
fn the_id_of_a_name_is_its_hash_with_the_top_bit() {
    assert_eq!(tree_id(""), 0xcbf2_9ce4_8422_2325);
    assert_eq!(tree_id("a"), 0xaf63_dc4c_8601_ec8c);
    assert_eq!(tree_id("foobar"), 0x8594_4171_f739_67e8);
    assert_eq!(tree_id("a"), gpc_trees::name_hash("a") | 1 << 63);
}

#[test]
fn wrong_names_say_what_is_allowed() {
    let told = |text: &str| text.parse::<TreeName>().unwrap_err().to_string();
    assert_eq!(
        told("kary:0"),
        "\"kary:0\": the number is too small; write a number from 1 to 4294967295 after the colon, as in kary:8 or \
         knomial:4"
    );
    assert!(told("knomial:1").starts_with("\"knomial:1\": the number is too small; write a number from 2"));
    assert!(told("kary").starts_with("\"kary\": the number is missing"));
    assert!(told("knomial:").starts_with("\"knomial:\": the number is missing"));
    assert!(told("kary:x").starts_with("\"kary:x\": not a decimal number"));
    assert!(told("kary:-1").starts_with("\"kary:-1\": not a decimal number"));
    assert!(told("kary:4294967296").starts_with("\"kary:4294967296\": the number is too large"));
    assert_eq!(
        told("binary:2"),
        "\"binary:2\": only kary, knomial, loggp, file and hosts take something after a colon"
    );
    assert_eq!(
        told("mine:2"),
        "\"mine:2\": only kary, knomial, loggp, file and hosts take something after a colon"
    );
    assert_eq!(told("file:"), "a tree file needs a path, as in file:my.tree");
    assert_eq!(told("file"), "a tree file needs a path, as in file:my.tree");
    for junk in [
        "",
        "Binary",
        "9lives",
        "02",
        "00",
        "+2",
        "-2",
        "4294967296",
        "a b",
        " binary",
        "\u{e4}",
        "-x",
        &"x".repeat(65),
    ] {
        let told = told(junk);
        assert!(told.contains("names no tree: allowed are binary, binomial, kary:K"), "{told}");
    }
    assert!(told("explicit").contains("cannot name a registered split"));
    assert!(told(&"?".repeat(5000)).len() < 400);
    assert_eq!("file:a:b".parse(), Ok(TreeName::File("a:b".to_owned())));
    assert!("x".repeat(64).parse::<TreeName>().is_ok());
}

#[test]
fn a_split_is_not_registered_under_a_word_of_the_built_in_trees() {
    for word in ["binary", "binomial", "kary", "knomial", "chain", "flat", "file", "explicit"] {
        let refused = Registered::new(word, |_, _| {});
        assert_eq!(refused, Err(NameError::Reserved { name: word.to_owned() }));
    }
    assert!(matches!(Registered::new("Mine", |_, _| {}), Err(NameError::NotAName { .. })));
}

/// The source counts trees: 0 and 1 are built in, and any higher number may be registered.
#[test]
fn a_tree_has_a_name_or_a_number() {
    assert_eq!([0, 1].map(TreeName::numbered), [TreeName::Binary, TreeName::Binomial]);
    assert_eq!("hosts+1".parse(), Ok(TreeName::KnownHosts(Tree::Binomial)));
    for taken in ["0", "1"] {
        let refused = Registered::new(taken, |_, _| {});
        assert_eq!(refused, Err(NameError::Reserved { name: taken.to_owned() }));
        assert!(format!("{taken}:2").parse::<TreeName>().is_err());
    }
    let mut registry = Registry::new();
    for number in [2, 17, u32::MAX] {
        let split = chain(&number.to_string());
        registry.register(split.clone()).unwrap();
        assert_eq!(TreeName::numbered(number).to_string(), number.to_string());
        assert_eq!(registry.named(&TreeName::numbered(number)), Ok(Tree::Registered(split)));
    }
    let told = registry.named(&TreeName::numbered(3)).unwrap_err().to_string();
    assert!(told.starts_with("no tree named 3 is registered; there are"), "{told}");
}

#[test]
fn a_registered_split_is_found_by_name_and_by_id() {
    let mut registry = Registry::new();
    let mine = chain("my-chain");
    registry.register(mine.clone()).unwrap();
    let tree = registry.named(&"my-chain".parse().unwrap()).unwrap();
    assert_eq!(tree, Tree::Registered(mine.clone()));
    assert_eq!(tree.to_string(), "my-chain");
    assert_eq!((tree.wire_id(), tree.wire_param()), (tree_id("my-chain"), 0));
    assert_eq!(registry.from_wire(tree_id("my-chain"), 0), Ok(tree.clone()));
    assert_eq!(tree.check(50, &Limits::default()), Ok(Summary { depth: 49, fan_out: 1 }));
    assert_eq!((tree.depth(50), tree.fan_out(50)), (None, None));
    assert!(tree.split(1).unwrap().is_empty());

    let param = UnknownTree::Wire { id: tree_id("my-chain"), param: 1 };
    assert_eq!(registry.from_wire(tree_id("my-chain"), 1), Err(param));
    assert_eq!(registry.named(&TreeName::Binary), Ok(Tree::Binary));
    assert_eq!(registry.from_wire(0x8000_0001, 3), Ok(Tree::Kary(NonZeroU32::new(3).unwrap())));

    let told = registry.named(&"other".parse().unwrap()).unwrap_err().to_string();
    assert_eq!(told, "no tree named other is registered; there are my-chain");
    let told = registry.named(&"file:x.tree".parse().unwrap()).unwrap_err().to_string();
    assert_eq!(told, "the tree file x.tree has to be read first");
    let told = registry.from_wire(0x1234_5678, 0).unwrap_err().to_string();
    assert_eq!(told, "no tree has id 0x12345678 with parameter 0 here; is it registered on every node?");
}

#[test]
fn a_name_is_registered_once() {
    let mut registry = Registry::new();
    registry.register(chain("twice")).unwrap();
    let refused = registry.register(chain("twice")).unwrap_err();
    assert_eq!(refused, RegisterError::Duplicate { name: "twice".parse().unwrap() });
    assert_eq!(refused.to_string(), "a tree named twice is registered already");
}

/// A user-defined split with the groups of a built-in one gets the same check result, although its check calls the
/// function.
#[test]
fn the_check_of_a_registered_split_agrees_with_closed_forms() {
    for built_in in [Tree::Binary, Tree::Binomial, Tree::Knomial(Radix::new(3).unwrap())] {
        let same = built_in.clone();
        let split = move |n, groups: &mut gpc_trees::Groups| groups.extend(same.split(n).unwrap());
        let tree = Tree::Registered(Registered::new("same", split).unwrap());
        for n in (1..300).chain([65_535, 65_536, 1_000_000, u32::MAX]) {
            assert_eq!(tree.check(n, &Limits::default()), built_in.check(n, &Limits::default()), "{n}");
        }
        assert_eq!(gpc_trees::levels(&tree, 1 << 20), gpc_trees::levels(&built_in, 1 << 20));
    }
}
