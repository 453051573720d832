//! Fixed parts are read as they are written, and each limit holds on both sides.

use proptest::prelude::*;

use super::*;

const CALL: CallId = CallId { root: 3, sequence: 7 << 40 };

fn request() -> RequestHead {
    RequestHead {
        call: CALL,
        position: 1,
        total: 9,
        func: 2,
        callback: 3,
        tree: 4,
        tree_param: 5,
        ids_form: IdsForm::Runs,
        ids_count: 6,
        header_len: 7,
        data_len: 8 << 33,
        has_reply_limits: false,
        has_parts: false,
        limit: Duration::from_micros(9),
        age: Duration::from_millis(10),
        shape_count: 11,
        skipped: 12,
        left: Duration::from_millis(13),
    }
}

fn response(kind: AnswerKind) -> ResponseHead {
    ResponseHead { call: CALL, level: 2, kind, header_len: 0, data_len: 0, report_len: 0, trace_len: 0 }
}

fn read_request(head: &RequestHead) -> Result<RequestHead, FrameError> {
    let mut bytes = Vec::new();
    head.emit(&mut bytes);
    assert_eq!(bytes.len(), RequestHead::LENGTH);
    let bits = [(head.has_reply_limits, flags::REPLY_LIMITS), (head.has_parts, flags::SCATTER)];
    RequestHead::parse(bits.iter().filter(|(set, _)| *set).map(|(_, bit)| bit).sum(), &bytes)
}

fn read_response(head: &ResponseHead) -> Result<ResponseHead, FrameError> {
    let mut bytes = Vec::new();
    head.emit(&mut bytes);
    assert_eq!(bytes.len(), ResponseHead::LENGTH);
    ResponseHead::parse(&bytes)
}

#[test]
fn ids_shape_and_header_of_a_request_have_limits() {
    for ids_form in [IdsForm::Runs, IdsForm::Listed] {
        let head = RequestHead { ids_form, ..request() };
        assert_eq!(read_request(&head), Ok(head));
        assert_eq!(head.prefix_len(), 6 * ids_form.entry() as u64 + 4 * 11 + 7);
        let limited = RequestHead { has_reply_limits: true, ..head };
        assert_eq!((read_request(&limited), limited.prefix_len()), (Ok(limited), head.prefix_len() + 16));
        let header = |header_len| read_request(&RequestHead { header_len, ..head }).is_ok();
        assert_eq!([HEADER_MAX as u32, HEADER_MAX as u32 + 1].map(header), [true, false]);
        let entries = PREFIX_MAX as u32 / ids_form.entry() as u32;
        let fits = |ids_count, shape_count, header_len| {
            read_request(&RequestHead { ids_count, shape_count, header_len, ..head }).is_ok()
        };
        assert!(fits(entries, 0, 0) && fits(0, PREFIX_MAX as u32 / 4, 0));
        assert!(!fits(entries, 0, 1) && !fits(entries, 1, 0) && !fits(u32::MAX, u32::MAX, 0));
    }
    assert!(RequestHead::parse(0, &[0; RequestHead::LENGTH - 1]).is_err());
    let mut other_form = [0; RequestHead::LENGTH];
    other_form[44] = 2;
    assert!(matches!(
        RequestHead::parse(0, &other_form),
        Err(FrameError::BadField { field: "ids form", .. })
    ));
}

#[test]
fn the_lengths_of_parts_follow_listed_ids() {
    let head = RequestHead { has_parts: true, ids_form: IdsForm::Listed, ..request() };
    assert_eq!(read_request(&head), Ok(head));
    assert_eq!(head.prefix_len(), 6 * (4 + 8) + 4 * 11 + 7);
    let runs = RequestHead { ids_form: IdsForm::Runs, ..head };
    assert!(matches!(read_request(&runs), Err(FrameError::BadField { field: "ids form", .. })));
    let long = RequestHead { ids_count: PREFIX_MAX as u32 / 12 + 1, header_len: 0, shape_count: 0, ..head };
    assert!(read_request(&long).is_err());
    let fits = RequestHead { ids_count: PREFIX_MAX as u32 / 12, ..long };
    assert_eq!(read_request(&fits), Ok(fits));
}

#[test]
fn times_are_rounded_up_and_end_at_the_largest_number() {
    let ms = |micros| whole_ms(Duration::from_micros(micros));
    assert_eq!([ms(0), ms(1), ms(1000), ms(1001), whole_ms(Duration::MAX)], [0, 1, 1, 2, u32::MAX]);
    let pause = |length| parse_pause(&emit_pause(length)).unwrap();
    assert_eq!([Duration::ZERO, Duration::from_nanos(1)].map(pause), [0, 1].map(Duration::from_millis));
    assert_eq!(pause(Duration::MAX), Duration::from_millis(u32::MAX.into()));
    assert!(parse_pause(&[0; 3]).is_err() && parse_pause(&[0; 5]).is_err());
}

#[test]
fn an_answer_brings_what_its_kind_allows() {
    use AnswerKind::{Completed, Failed, Partial, Reply};
    for (kind, replies, reports) in
        [(Completed, false, false), (Reply, true, false), (Failed, false, true), (Partial, true, true)]
    {
        let head = response(kind);
        assert_eq!(read_response(&head), Ok(head));
        for reply in [ResponseHead { header_len: 1, ..head }, ResponseHead { data_len: 1, ..head }] {
            assert_eq!(read_response(&reply).is_ok(), replies, "{kind:?}");
        }
        assert_eq!(read_response(&ResponseHead { report_len: 1, ..head }).is_ok(), reports, "{kind:?}");
        let traced = |trace_len| read_response(&ResponseHead { trace_len, ..head }).is_ok();
        assert_eq!([traced(20), traced(40), traced(21)], [replies, replies, false], "{kind:?}");
        assert!(!traced((TRACE_MAX / 20 * 20 + 20) as u32), "a trace has its own limit");
    }
    let partial = |header_len, data_len, report_len| {
        read_response(&ResponseHead { header_len, data_len, report_len, ..response(Partial) })
    };
    let longest = partial(1, u64::MAX - 1 - REPORT_MAX as u64, REPORT_MAX as u32).unwrap();
    assert_eq!((longest.reply_len(), longest.body_len()), (u64::MAX - REPORT_MAX as u64, u64::MAX));
    assert!(partial(0, 0, REPORT_MAX as u32 + 1).is_err(), "a report has its own limit");
    assert!(partial(1, u64::MAX, 0).is_err() && partial(1, u64::MAX - 1, 1).is_err());
    let mut other = [0; ResponseHead::LENGTH];
    other[6] = 4;
    assert!(ResponseHead::parse(&other).is_err());
    (other[6], other[7]) = (0, 1);
    assert!(ResponseHead::parse(&other).is_err(), "a reserved byte");
}

#[test]
fn windows_extents_credit_and_goodbyes_are_as_long_as_they_say() {
    for of_response in [false, true] {
        let (window, mut bytes) = (WindowRef { call: CALL, of_response, limit: 5 << 40 }, Vec::new());
        window.emit(&mut bytes);
        assert_eq!(WindowRef::parse(u8::from(of_response) * flags::OF_RESPONSE, &bytes), Ok(window));
        assert!(
            WindowRef::parse(0, &[&bytes[..], &[0]].concat()).is_err()
                && WindowRef::parse(0, &bytes[1..]).is_err()
        );
    }
    let extent = |length| {
        let mut bytes = Vec::new();
        ExtentRef { call: CALL, length }.emit(&mut bytes);
        ExtentRef::parse(&bytes).map(|read| assert_eq!(read, ExtentRef { call: CALL, length })).is_ok()
    };
    assert_eq!(
        [EXTENT_MIN - 1, EXTENT_MIN, EXTENT_MAX, EXTENT_MAX + 1].map(extent),
        [false, true, true, false]
    );
    assert_eq!(parse_credit(&1u32.to_le_bytes()), Ok(1));
    assert!(
        parse_credit(&[0; 4]).is_err() && parse_credit(&[1; 5]).is_err() && parse_credit(&[1; 3]).is_err()
    );
    let text = "ü".repeat(200);
    let goodbye = Goodbye { reason: GoodbyeReason::LinkClosed, text: text.clone() };
    let cut = Goodbye { text: text[..254].into(), ..goodbye };
    assert_eq!(Goodbye::parse(&goodbye.emit()), Ok(cut), "a character is not cut in two");
    assert!(
        Goodbye::parse(&[0; 257]).is_err() && Goodbye::parse(&[5]).is_err() && Goodbye::parse(&[]).is_err()
    );
}

proptest! {
    #[test]
    fn fixed_parts_are_read_as_they_are_written(
        numbers in any::<([u32; 6], [u64; 5], bool)>(),
        times in any::<(u64, u32, u32)>(),
        of_reply in (any::<u16>(), any::<u32>(), any::<u32>()),
    ) {
        let ([root, position, total, tree_param, shape_count, skipped], [sequence, func, callback, tree, data_len], runs) = numbers;
        let (limit, age, left) = times;
        let call = CallId { root, sequence };
        let ms = |ms: u32| Duration::from_millis(ms.into());
        let head = RequestHead {
            call, position, total, func, callback, tree, tree_param, skipped, data_len,
            ids_form: if runs { IdsForm::Runs } else { IdsForm::Listed },
            shape_count: shape_count % 1000,
            limit: Duration::from_micros(limit), age: ms(age), left: ms(left),
            ..request()
        };
        prop_assert_eq!(read_request(&head), Ok(head));
        let (level, header_len, data_len) = of_reply;
        let (header_len, data_len) = (header_len.into(), data_len.into());
        let head = ResponseHead { call, level, header_len, data_len, ..response(AnswerKind::Reply) };
        prop_assert_eq!(read_response(&head), Ok(head));
        let mut bytes = Vec::new();
        CallRef(call).emit(&mut bytes);
        prop_assert_eq!(CallRef::parse(Kind::Cancel, &bytes), Ok(CallRef(call)));
        bytes[4] = 1;
        prop_assert!(CallRef::parse(Kind::Cancel, &bytes).is_err());
    }
}
