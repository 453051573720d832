//! Tests of the output: table, JSON and units.

use super::*;
use chained_gpc::wire::CauseKind;

fn reply(id: Id, header: &str, data: impl Into<Content>) -> Reply {
    Reply { id, header: header.into(), data: data.into() }
}

fn outcome() -> Outcome {
    Outcome {
        func: "echo".into(),
        tree: "binary".into(),
        nodes: 3,
        root: 0,
        root_part: RootPart::Listed,
        partial: false,
        callback: None,
        no_reply: false,
        level: 1,
        wall_us: 850,
        coverage: Counts { done: 3, ..Counts::default() },
        cause: None,
        missing: vec![],
        replies: vec![reply(0, "", "hello"), reply(2, "", vec![0xff, 0x00]), reply(1, "", "a \"b\"\n")],
        reduced: None,
        repeat: None,
    }
}

fn failed() -> Outcome {
    let cause =
        Cause::new(5, chained_gpc::wire::Stage::Callback, CauseKind::Failed, "it was asked to fail here");
    Outcome {
        func: "fail".into(),
        tree: "kary:4".into(),
        nodes: 12,
        root: 0,
        root_part: RootPart::Listed,
        partial: false,
        callback: None,
        no_reply: false,
        level: 3,
        wall_us: 12_345,
        coverage: CoverageCounts { done: 1, failed: 1, unreached: 4, unknown: 6 }.into(),
        cause: Some(FirstCause::from(&cause)),
        missing: vec![Missing { id: 5, status: "failed", cause: Some(FirstCause::from(&cause)) }],
        replies: vec![],
        reduced: None,
        repeat: None,
    }
}

fn json(outcome: &Outcome) -> String {
    let mut out = Vec::new();
    outcome.write_json(&mut out).unwrap();
    String::from_utf8(out).unwrap()
}

fn table(outcome: &Outcome, width: Width) -> String {
    let mut out = Vec::new();
    write_table(outcome, width, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn a_table_says_what_merged_and_what_was_not_requested() {
    let merged = Outcome { callback: Some("sum".into()), ..outcome() };
    assert!(table(&merged, Width::Unlimited).contains("\necho and sum over 3 ids: binary tree, 1 level\n"));
    let dropped = Outcome { no_reply: true, replies: vec![], ..outcome() };
    let said = "no replies were requested: an id that is done has executed echo";
    assert!(table(&dropped, Width::Unlimited).ends_with(&format!("per level\n{said}\n")));
    let both = Outcome { no_reply: true, ..merged };
    assert!(table(&both, Width::Unlimited).ends_with(&format!("{said}; sum got empty replies\n")));
}

#[test]
fn the_json_is_that_of_the_documentation() {
    let expected = concat!(
        r#"{"func":"echo","tree":"binary","nodes":3,"root":0,"root_part":"listed","partial":false,"callback":null,"no_reply":false,"level":1,"wall_us":850,"#,
        r#""coverage":{"done":3,"failed":0,"unreached":0,"unknown":0},"cause":null,"missing":[],"replies":["#,
        r#"{"id":0,"header":"","data":"hello"},{"id":2,"header":"","data":{"base64":"/wA="}},"#,
        r#"{"id":1,"header":"","data":"a \"b\"\n"}],"reduced":null,"repeat":null}"#,
        "\n"
    );
    assert_eq!(json(&outcome()), expected);
    let expected = concat!(
        r#"{"func":"fail","tree":"kary:4","nodes":12,"root":0,"root_part":"listed","partial":false,"callback":null,"no_reply":false,"level":3,"wall_us":12345,"#,
        r#""coverage":{"done":1,"failed":1,"unreached":4,"unknown":6},"#,
        r#""cause":{"id":5,"stage":"callback","kind":"failed","code":0,"message":"it was asked to fail here"},"#,
        r#""missing":[{"id":5,"status":"failed","#,
        r#""cause":{"id":5,"stage":"callback","kind":"failed","code":0,"message":"it was asked to fail here"}}],"replies":[],"reduced":null,"repeat":null}"#,
        "\n"
    );
    assert_eq!(json(&failed()), expected);
    let repeat = Repeat::of_times_us(&mut [30, 10, 20]);
    let expected = r#""repeat":{"calls":3,"median_us":20,"p90_us":30,"p99_us":30}}"#;
    assert!(json(&Outcome { repeat, ..outcome() }).trim_end().ends_with(expected));
}

/// The JSON of a partial call counted the missing ids without naming them: programs had to guess from the replies,
/// which a reduction does not have.
#[test]
fn what_is_missing_of_a_partial_call_has_its_reasons() {
    let cause = Cause::new(5, chained_gpc::wire::Stage::Func, CauseKind::Failed, "it\u{1b} was asked to")
        .with_code(-7);
    let missing = vec![
        Missing { id: 5, status: "failed", cause: Some(FirstCause::from(&cause)) },
        Missing { id: 11, status: "unknown", cause: None },
    ];
    let outcome =
        Outcome { nodes: 5, partial: true, missing, cause: Some(FirstCause::from(&cause)), ..outcome() };
    let shown = table(&outcome, Width::Unlimited);
    let expected = "\nid  status     why\n 5  failed     func (failed, code -7): it\\u{1b} was asked to\n11  unknown\n\necho over 5 ids";
    assert!(shown.contains(expected), "{shown}");
    let json: serde_json::Value = serde_json::from_str(&json(&outcome)).unwrap();
    let expected = serde_json::json!([
        { "id": 5, "status": "failed", "cause": { "id": 5, "stage": "func", "kind": "failed", "code": -7, "message": "it\u{1b} was asked to" } },
        { "id": 11, "status": "unknown", "cause": null },
    ]);
    assert_eq!(json["missing"], expected);
    assert!(!table(&Outcome { partial: false, ..outcome }, Width::Unlimited).contains("unknown"));
}

/// The message of a failed node contained the sequences that clear a screen, and lines of its own. The terminal of the
/// caller executed them.
#[test]
fn a_hostile_cause_is_escaped_and_bounded() {
    let message =
        format!("\u{1b}[2J\u{1b}]0;owned\u{7}\ngpc: all is well\n\u{9b}31m\u{202e}{}", "x".repeat(65_536));
    let mut cause = Cause::new(5, chained_gpc::wire::Stage::Func, CauseKind::Failed, "");
    cause.message = message;
    let first = FirstCause::from(&cause);
    let missing = vec![Missing { id: 5, status: "failed", cause: Some(first.clone()) }];
    let outcome = Outcome { nodes: 5, partial: true, missing, cause: Some(first.clone()), ..outcome() };
    let said = r"\u{1b}[2J\u{1b}]0;owned\u{7}\ngpc: all is well\n\u{9b}31m\u{202e}xxx";
    for shown in [first.to_string(), cause.to_string(), table(&outcome, Width::Unlimited)] {
        assert!(shown.contains(said), "{shown:.200}");
        assert!(shown.chars().all(|c| c == '\n' || !chained_gpc::wire::shown::is_obeyed(c)));
        assert!(shown.chars().count() < chained_gpc::wire::shown::SHOWN_MAX + 300, "{}", shown.len());
    }
    assert_eq!(cause.to_string().lines().count(), 1);
    let json = json(&outcome);
    assert!(json.trim_end().chars().all(|c| !chained_gpc::wire::shown::is_obeyed(c)));
    let value: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(value["cause"]["message"], cause.message, "programs get what was said");
}

/// `--ids 1-3` called four ids, and the output did not name the added one.
#[test]
fn the_summary_says_what_the_root_is() {
    let of = |root_part| table(&Outcome { root: 7, root_part, ..outcome() }, Width::Unlimited);
    assert!(of(RootPart::Listed).contains("echo over 3 ids: binary tree"));
    assert!(
        of(RootPart::Added)
            .contains("over 3 ids, id 7 among them as the root, which --ids leaves out: binary")
    );
    assert!(of(RootPart::Watching).contains("over 3 ids, called by id 7, which only watches: binary tree"));
}

#[test]
fn the_table_has_a_line_per_id_and_a_summary() {
    let expected = "\
id  data
 0  hello
 2  \u{fffd}\\u{0}
 1  a \"b\"\\n

echo over 3 ids: binary tree, 1 level
done 3 of 3 in 850 µs, 850 µs per level
";
    assert_eq!(table(&outcome(), Width::Unlimited), expected);
    let expected = "\
fail over 12 ids: kary:4 tree, 3 levels
done 1 of 12, failed 1, unreached 4, unknown 6 in 12.3 ms
";
    assert_eq!(table(&failed(), Width::Unlimited), expected);
}

#[test]
fn headers_have_a_column_where_there_are_any_and_data_are_cut_to_the_terminal() {
    let replies = vec![reply(7, "x", ""), reply(1000, "", "a".repeat(100)), reply(8, &"h".repeat(40), "b")];
    let repeat = Repeat::of_times_us(&mut [1500; 1000]);
    let table = table(&Outcome { replies, repeat, level: 0, ..outcome() }, Width::Columns(70));
    let header = "h".repeat(31);
    let expected = format!(
        "  id  header                            data
   7  x
1000                                    {}…
   8  {header}…  b

echo over 3 ids: binary tree, 0 levels
done 3 of 3 in 850 µs
1000 calls: median 1.50 ms, p90 1.50 ms, p99 1.50 ms
",
        "a".repeat(29)
    );
    assert_eq!(table, expected);
    assert!(table.lines().all(|line| line.chars().count() <= 70));
}

#[test]
fn a_call_is_complete_when_every_id_is_done() {
    assert!(outcome().is_complete());
    assert!(!failed().is_complete());
    assert!(!Outcome { nodes: 4, ..outcome() }.is_complete());
}

#[test]
fn percentiles_are_those_of_the_sorted_times() {
    assert_eq!(Repeat::of_times_us(&mut []), None);
    let one = Repeat { calls: 1, median_us: 7, p90_us: 7, p99_us: 7 };
    assert_eq!(Repeat::of_times_us(&mut [7]), Some(one));
    let mut hundred: Vec<u64> = (1..=100).rev().collect();
    let expected = Repeat { calls: 100, median_us: 50, p90_us: 90, p99_us: 99 };
    assert_eq!(Repeat::of_times_us(&mut hundred), Some(expected));
    assert_eq!(Repeat::of_times_us(&mut [1, 2, 3]).map(|repeat| repeat.median_us), Some(2));
}

/// Kinds that programs match have stable names in the JSON; text for people has kind and code after the stage. An
/// unknown kind is shown as its number.
#[test]
fn kinds_and_codes_are_shown() {
    let shown = |cause: Cause| FirstCause::from(&cause).to_string();
    let lost = Cause::new(5, chained_gpc::wire::Stage::Link, CauseKind::LinkLost, "gone");
    assert_eq!(shown(lost.clone()), "id 5 failed at stage link (link-lost): gone");
    assert_eq!(shown(lost.clone()), lost.to_string());
    let other =
        Cause::new(5, chained_gpc::wire::Stage::Func, CauseKind::from_number(60_000), "so").with_code(3);
    assert_eq!(shown(other.clone()), "id 5 failed at stage func (kind-60000, code 3): so");
    assert_eq!(shown(other.clone()), other.to_string());
    let json = serde_json::to_value(FirstCause::from(&other)).unwrap();
    let expected =
        serde_json::json!({ "id": 5, "stage": "func", "kind": "kind-60000", "code": 3, "message": "so" });
    assert_eq!(json, expected);
}

/// The bytes of a reduced reply are numbers, and mean nothing as text.
#[test]
fn a_reduced_reply_is_shown_as_numbers() {
    use chained_gpc::reduce::{Reduction, bytes_of};
    let data = bytes_of(&[0.5, 1e300]);
    let reduced = Reduced::of(Reduction::sum::<f64>(), &data).unwrap();
    let shown = table(&Outcome { reduced, replies: vec![reply(0, "", data)], ..outcome() }, Width::Unlimited);
    assert!(shown.starts_with("id  data\n 0  0.5 1000000"), "{shown}");
}
