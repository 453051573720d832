//! Tests of id lists against plain vectors.

use gpc_trees::{DuplicateId, Group, Id, IdList, Ids, IdsError, Run, RunError};
use proptest::prelude::*;
use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};

/// Distinct ids of a few runs, some backward, some adjacent, some at either end.
fn ids() -> impl Strategy<Value = Vec<Id>> {
    let first = prop_oneof![0..80u32, (u32::MAX - 30)..=u32::MAX];
    let run = (first, 1..12u32).prop_map(|(first, count)| first..=first.saturating_add(count - 1));
    prop::collection::vec(run, 0..8).prop_map(|runs| {
        let mut seen = HashSet::new();
        runs.into_iter().flatten().filter(|&id| seen.insert(id)).collect()
    })
}

/// Ids and a window on them.
fn window() -> impl Strategy<Value = (Vec<Id>, Group)> {
    ids().prop_flat_map(|ids| {
        let len = ids.len() as u32;
        (Just(ids), 0..=len)
            .prop_flat_map(move |(ids, start)| (Just(ids), Just(start), 0..=len - start))
            .prop_map(|(ids, start, len)| (ids, Group { start, len }))
    })
}

fn cut(ids: &[Id], group: Group) -> &[Id] {
    &ids[group.start as usize..][..group.len as usize]
}

/// Checks that every query of a list has the result of the vector.
fn assert_same(list: &IdList, model: &[Id]) {
    assert!(list.iter().eq(model.iter().copied()), "{list:?} is not {model:?}");
    assert_eq!(list.len() as usize, model.len());
    assert_eq!(list.iter().len(), model.len());
    assert_eq!(list.is_empty(), model.is_empty());
    assert_eq!(list.first(), model.first().copied());
    for (position, &id) in (0..).zip(model) {
        assert_eq!(list.id(position), Some(id));
        assert_eq!(list.position(id), Some(position));
    }
    assert_eq!(list.id(list.len()), None);
    assert_eq!(list.id(u32::MAX), None);
    for id in (0..100).chain(u32::MAX - 40..=u32::MAX) {
        assert_eq!(list.contains(id), model.contains(&id));
    }
    let runs: Vec<Run> = list.runs().collect();
    assert!(runs.iter().all(|run| run.count > 0));
    assert!(runs.windows(2).all(|pair| pair[0].first.checked_add(pair[0].count) != Some(pair[1].first)));
    let of_run = |run: &Run| (0..run.count).map(|offset| run.first + offset).collect::<Vec<_>>();
    assert_eq!(runs.iter().flat_map(of_run).collect::<Vec<_>>(), model);
    assert_eq!(list.runs().count(), runs.len(), "counted without a visit of each");
}

proptest! {
    #[test]
    fn a_list_is_its_ids(model in ids()) {
        let list = IdList::from_ids(model.iter().copied()).unwrap();
        assert_same(&list, &model);
        assert_same(&IdList::from_runs(list.runs()).unwrap(), &model);
        assert_same(&IdList::from_runs(model.iter().map(|&first| Run { first, count: 1 })).unwrap(), &model);
    }

    #[test]
    fn slices_and_slices_of_them_are_those_of_the_vector(
        (model, outer) in window(),
        inner in (any::<prop::sample::Index>(), any::<prop::sample::Index>()),
    ) {
        let list = IdList::from_ids(model.iter().copied()).unwrap();
        let (slice, model) = (list.slice(outer), cut(&model, outer));
        assert_same(&slice, model);
        let start = inner.0.index(model.len() + 1) as u32;
        let inner = Group { start, len: inner.1.index((outer.len - start) as usize + 1) as u32 };
        assert_same(&slice.slice(inner), cut(model, inner));
    }

    #[test]
    fn a_slice_equals_the_list_of_its_ids((model, group) in window()) {
        let slice = IdList::from_ids(model.iter().copied()).unwrap().slice(group);
        let alone = IdList::from_ids(cut(&model, group).iter().copied()).unwrap();
        prop_assert_eq!(&slice, &alone);
        let state = RandomState::new();
        prop_assert_eq!(state.hash_one(&slice), state.hash_one(&alone));
        if let Some((last, rest)) = cut(&model, group).split_last() {
            prop_assert_ne!(&slice, &IdList::from_ids(rest.iter().copied()).unwrap());
            let other = rest.iter().copied().chain([last ^ 0x1000]);
            prop_assert_ne!(&slice, &IdList::from_ids(other).unwrap());
        }
    }

    #[test]
    fn text_parses_to_the_same_list((model, group) in window()) {
        let slice = IdList::from_ids(model.iter().copied()).unwrap().slice(group);
        let text = slice.to_string();
        prop_assert_eq!(&text.parse::<IdList>().unwrap(), &slice);
        let spaced = text.replace('-', " - ").replace(',', " ,\t");
        prop_assert_eq!(&spaced.parse::<IdList>().unwrap(), &slice);
    }

    #[test]
    fn an_id_moves_to_the_front((model, group) in window(), id in prop_oneof![0..100u32, u32::MAX - 40..=u32::MAX]) {
        let slice = IdList::from_ids(model.iter().copied()).unwrap().slice(group);
        let moved: Vec<Id> =
            [id].into_iter().chain(cut(&model, group).iter().copied().filter(|&other| other != id)).collect();
        assert_same(&slice.with_first(id), &moved);
    }

    #[test]
    fn an_order_permutes((model, group) in window(), seed in any::<u64>()) {
        let slice = IdList::from_ids(model.iter().copied()).unwrap().slice(group);
        let mut order: Vec<u32> = (0..group.len).collect();
        order.sort_by_key(|&position| (u64::from(position) + 1).wrapping_mul(seed | 1));
        let permuted: Vec<Id> = order.iter().map(|&position| cut(&model, group)[position as usize]).collect();
        assert_same(&slice.permuted(&order), &permuted);
    }

    #[test]
    fn a_repeated_id_is_named_with_its_places(ids in prop::collection::vec(0..40u32, 0..12)) {
        let mut places: HashMap<Id, Vec<usize>> = HashMap::new();
        for (place, &id) in ids.iter().enumerate() {
            places.entry(id).or_default().push(place);
        }
        let lowest = places.iter().filter(|(_, places)| places.len() > 1).map(|(&id, _)| id).min();
        match (IdList::from_ids(ids.iter().copied()), lowest) {
            (Ok(list), None) => assert_same(&list, &ids),
            (Err(DuplicateId { id, first, second }), Some(lowest)) => {
                prop_assert_eq!(id, lowest);
                prop_assert!(first < second);
                prop_assert_eq!((ids[first as usize], ids[second as usize]), (id, id));
            }
            (answer, lowest) => prop_assert!(false, "{:?} where {:?} is repeated", answer, lowest),
        }
    }

    #[test]
    fn overlapping_runs_are_refused_as_their_ids_are(
        runs in prop::collection::vec((prop_oneof![0..40u32, u32::MAX - 20..=u32::MAX], 1..15u32), 0..6),
    ) {
        let runs: Vec<Run> = runs.into_iter().map(|(first, count)| Run { first, count }).collect();
        let answer = IdList::from_runs(runs.iter().copied());
        if let Some(index) = runs.iter().position(|run| run.first.checked_add(run.count - 1).is_none()) {
            prop_assert_eq!(answer, Err(RunError::PastEnd { index, run: runs[index] }));
        } else {
            let ids = runs.iter().flat_map(|run| (0..run.count).map(|offset| run.first + offset));
            match (answer, IdList::from_ids(ids)) {
                (Ok(list), Ok(same)) => prop_assert_eq!(list, same),
                (Err(RunError::Duplicate(duplicate)), Err(same)) => prop_assert_eq!(duplicate.id, same.id),
                (one, other) => prop_assert!(false, "{:?} and {:?}", one, other),
            }
        }
    }

    #[test]
    fn any_text_is_a_list_or_an_error(text in "[0-9, -]{0,30}|\\PC{0,60}") {
        if let Ok(list) = text.parse::<IdList>() {
            prop_assert_eq!(list.to_string().parse::<IdList>(), Ok(list));
        }
    }
}

#[test]
fn ranges_are_their_ids() {
    assert_same(&IdList::range(3..9), &[3, 4, 5, 6, 7, 8]);
    assert_same(&IdList::range(5..5), &[]);
    let (low, high) = (3, 9);
    assert_same(&IdList::range(high..low), &[]);
    assert_same(&IdList::default(), &[]);
    assert_eq!(IdList::range(0..u32::MAX).len(), u32::MAX);
    assert_eq!(IdList::range(0..u32::MAX).id(u32::MAX - 1), Some(u32::MAX - 1));
}

#[test]
fn empty_slices_at_either_end_are_empty() {
    for list in [IdList::range(u32::MAX - 3..u32::MAX), "1,3,5".parse().unwrap()] {
        for start in 0..=3 {
            assert!(list.slice(Group { start, len: 0 }).is_empty());
        }
    }
    let last = IdList::from_ids([u32::MAX]).unwrap();
    assert!(last.slice(Group { start: 1, len: 0 }).is_empty());
}

#[test]
#[should_panic(expected = "reaches past a list of 3 ids")]
fn a_slice_past_the_end_panics_as_documented() {
    let _ = IdList::range(0..3).slice(Group { start: u32::MAX, len: 2 });
}

#[test]
#[should_panic(expected = "names each position once")]
fn an_order_that_repeats_a_position_panics_as_documented() {
    let _ = IdList::range(0..3).permuted(&[0, 1, 1]);
}

/// `0..=u32::MAX` stopped one short, and `8..0` was the empty list: a call over such a range went to other ids, without
/// an error.
#[test]
fn a_range_is_what_it_says_or_is_refused() {
    let list = |ids: Ids| ids.list().map(|list| list.to_string());
    let (start, end) = (8, 0);
    assert_eq!(list((start..end).into()), Err(IdsError::Backward { start, end }));
    assert_eq!(list((start..=end).into()), Err(IdsError::Backward { start, end }));
    assert_eq!(list((5..5).into()), Ok(String::new()));
    assert_eq!(list((0..=u32::MAX).into()), Err(IdsError::TooMany));
    assert_eq!(list((0..=u32::MAX - 1).into()), Ok("0-4294967294".into()));
    assert_eq!(list((0..u32::MAX).into()), Ok("0-4294967294".into()));
    assert_eq!(list((1..=u32::MAX).into()), Ok("1-4294967295".into()));
    assert_eq!(list((u32::MAX..=u32::MAX).into()), Ok("4294967295".into()));
    assert_eq!(list((7..=7).into()), Ok("7".into()));
    let mut used_up = 7..=7;
    used_up.next();
    assert_eq!(list(used_up.into()), Ok(String::new()));
}

#[test]
fn a_list_is_made_of_what_holds_ids() {
    let model = [3, 1, 2];
    let expected = IdList::from_ids(model).unwrap();
    assert_eq!(IdList::try_from(model.to_vec()), Ok(expected.clone()));
    assert_eq!(IdList::try_from(&model.to_vec()), Ok(expected.clone()));
    assert_eq!(IdList::try_from(model), Ok(expected.clone()));
    assert_eq!(IdList::try_from(&model), Ok(expected.clone()));
    assert_eq!(IdList::try_from(&model[..]), Ok(expected.clone()));
    assert_eq!(IdList::try_from(Ids::from(&expected)), Ok(expected.clone()));
    assert_eq!(model.into_iter().collect::<Ids>(), expected.clone().into());
    assert_eq!(model.iter().collect::<Ids>(), expected.into());
    let twice = IdsError::Duplicate(DuplicateId { id: 1, first: 0, second: 2 });
    assert_eq!(IdList::try_from([1, 2, 1]), Err(twice));
    assert_eq!(Ids::from(vec![1, 2, 1]).list(), Err(twice));
    assert_eq!(IdList::try_from(1..3), Ok(IdList::range(1..3)));
    assert!(Ids::from([]).list().unwrap().is_empty());
}

#[test]
fn wrong_runs_are_refused_by_number() {
    let refused = |runs: &[(Id, u32)]| {
        IdList::from_runs(runs.iter().map(|&(first, count)| Run { first, count })).unwrap_err()
    };
    assert_eq!(refused(&[(1, 1), (3, 0)]), RunError::Empty { index: 1 });
    let run = Run { first: u32::MAX, count: 2 };
    assert_eq!(refused(&[(1, 1), (5, 2), (u32::MAX, 2)]), RunError::PastEnd { index: 2, run });
    assert_eq!(refused(&[(0, u32::MAX), (u32::MAX, 1)]), RunError::TooMany { index: 1 });
    assert_eq!(refused(&[(0, u32::MAX), (5, 1)]), RunError::TooMany { index: 1 });
    let duplicate = DuplicateId { id: 12, first: 2, second: 5 };
    assert_eq!(refused(&[(10, 5), (12, 1)]), RunError::Duplicate(duplicate));
    assert_eq!(duplicate.to_string(), "id 12 is listed twice, at positions 2 and 5");
}

#[test]
fn lists_print_as_they_are_written() {
    for text in ["", "0", "0-63,70,65", "5,4,3", "4294967295", "0-1,4294967294-4294967295"] {
        assert_eq!(text.parse::<IdList>().unwrap().to_string(), text);
    }
    assert_eq!(" 1 - 2 ,3 , 5".parse::<IdList>().unwrap().to_string(), "1-3,5");
}

#[test]
fn wrong_text_says_which_piece_and_why() {
    let told = |text: &str| text.parse::<IdList>().unwrap_err().to_string();
    assert_eq!(
        told("0-3,x7"),
        "piece 2 of the list of ids, \"x7\": not a decimal number; write ids and ascending ranges, as in 0-63,70,65"
    );
    assert!(told("1,,2").starts_with("piece 2 of the list of ids, \"\": a number is missing"));
    assert!(told("1,2-").starts_with("piece 2 of the list of ids, \"2-\": a number is missing"));
    assert!(told("+1").starts_with("piece 1 of the list of ids, \"+1\": not a decimal number"));
    assert!(told("4294967296").contains("the number is over 4294967295"));
    assert_eq!(told("9-3"), "piece 1 of the list of ids, \"9-3\": a range ascends, the lower id comes first");
    assert_eq!(
        told("0-63,70,65,10-12"),
        "piece 4 of the list of ids, \"10-12\": id 10 is listed twice, at positions 10 and 66"
    );
    assert!(told("0-4294967295").contains("more than 4294967295 ids in all"));
    assert!(told("0-4294967294,4294967295").starts_with("piece 2"));
    assert!(told(&"x".repeat(1000)).len() < 200);
}

/// The positions are those of the list, in order, whichever run has the lower ids.
#[test]
fn the_positions_of_a_repeated_id_are_in_the_order_of_the_list() {
    for (text, id, first, second) in
        [("3-9,5", 5, 2, 7), ("5,3-9", 5, 0, 3), ("8-9,3-8", 8, 0, 7), ("1-4,0-1", 1, 0, 5)]
    {
        let ids = text.split(',').flat_map(|run| {
            let (first, last) = run.split_once('-').unwrap_or((run, run));
            first.parse::<Id>().unwrap()..=last.parse::<Id>().unwrap()
        });
        assert_eq!(IdList::from_ids(ids), Err(DuplicateId { id, first, second }), "{text}");
    }
}
