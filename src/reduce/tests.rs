//! Reductions against plain loops over numbers, for every type, length and order.

use proptest::prelude::*;

use super::*;

/// Merges the data of several ids, in order.
fn merged(reduction: Reduction, replies: &[Vec<u8>]) -> Result<Vec<u8>, ReductionError> {
    let mut own = replies.first().cloned().unwrap_or_default();
    replies.iter().skip(1).try_for_each(|more| reduction.merge(&mut own, more))?;
    Ok(own)
}

/// All reductions, one for each type.
fn all() -> Vec<Reduction> {
    let of_type = |of: NumberType| {
        ["sum", "min", "max", "min-id", "max-id"]
            .map(|name| format!("{name}:{of}"))
            .into_iter()
            .chain([format!("top:{of}:3")])
    };
    let plain = ["and", "or", "xor", "first", "concat", "histogram"].map(String::from);
    NumberType::ALL.into_iter().flat_map(of_type).chain(plain).map(|text| text.parse().unwrap()).collect()
}

#[test]
fn each_reduction_is_read_as_it_is_written_and_has_a_name_of_its_own() {
    let mut names: Vec<String> = all().iter().map(Reduction::name).collect();
    for reduction in all() {
        assert_eq!(reduction.to_string().parse(), Ok(reduction));
    }
    let count = names.len();
    names.sort();
    names.dedup();
    assert_eq!((names.len(), count), (36, 36));
    assert_eq!(Reduction::top::<f32>(7).name(), "reduce:top:f32:7");
    for (text, why) in [
        ("sum", "`sum` needs the type of the numbers: u32, u64, i64, f32 or f64, as in sum:f64"),
        ("sum:u8", "`u8` is no type of numbers: write u32, u64, i64, f32 or f64"),
    ] {
        assert_eq!(text.parse::<Reduction>().unwrap_err().to_string(), why);
    }
    for text in ["", "product:f64", "sum:f64:", "xor:u32", "top:f64", "top:f64:0", "top:f64:x", "top:f64:1:2"]
    {
        assert_eq!(text.parse::<Reduction>(), Err(ReductionError::Unknown(text.into())), "{text}");
    }
}

#[test]
fn lengths_that_differ_and_parts_of_numbers_are_refused_and_nothing_is_changed() {
    for reduction in all() {
        for (own, more) in [(16, 8), (8, 16), (24, 23), (23, 24), (23, 23), (0, 23)] {
            let (mut data, more) = (vec![1; own], vec![2; more]);
            let before = data.clone();
            if reduction.merge(&mut data, &more).is_err() {
                assert_eq!(data, before, "{reduction}");
            } else {
                let lax = matches!(reduction.to_string().as_str(), "first" | "concat")
                    || reduction.number_type().is_none() && (own == more.len() || own == 0)
                    || reduction.has_ids() && own % 12 == 0 && more.len() % 12 == 0
                    || reduction.to_string() == "histogram" && own % 16 == 0 && more.len() % 16 == 0
                    || reduction.to_string().starts_with("top:") && own % 8 == 0 && more.len() % 8 == 0;
                assert!(lax, "{reduction} has merged {} bytes into {own}", more.len());
            }
        }
    }
    let error = Reduction::sum::<u32>().merge(&mut vec![0; 8], &[0; 4]).unwrap_err();
    assert_eq!(error, ReductionError::Lengths { own: 8, more: 4 });
    let error = Reduction::max_with_id::<u64>().merge(&mut vec![0; 13], &[0; 13]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "13 bytes are no whole elements of 12 bytes: a number (u64) and an id of 4 bytes"
    );
}

/// A root that only watches, and a function that has nothing to give, leave no data.
#[test]
fn empty_data_stand_for_nothing() {
    for reduction in all() {
        let full = match reduction.to_string().as_str() {
            "histogram" => histogram_bytes([(1, 2)]),
            _ if reduction.has_ids() => vec![1; reduction.number_type().unwrap().size() + 4],
            _ => vec![1; 8],
        };
        for replies in [[vec![], full.clone()], [full.clone(), vec![]]] {
            assert_eq!(merged(reduction, &replies), Ok(full.clone()), "{reduction}");
        }
        assert_eq!(merged(reduction, &[vec![], vec![]]), Ok(vec![]), "{reduction}");
    }
}

#[test]
fn floating_point_numbers_have_a_total_order() {
    let of = |reduction, numbers: [f64; 3]| {
        let replies = numbers.map(|number| bytes_of(&[number]));
        numbers_of(&merged(reduction, &replies).unwrap())[0]
    };
    fn numbers_of(bytes: &[u8]) -> Vec<f64> {
        numbers(bytes).unwrap().into_owned()
    }
    assert!(of(Reduction::max::<f64>(), [1.0, f64::NAN, 2.0]).is_nan());
    assert_eq!(of(Reduction::min::<f64>(), [1.0, f64::NAN, 2.0]), 1.0);
    assert!(of(Reduction::min::<f64>(), [0.0, -0.0, 0.0]).is_sign_negative());
    assert!(of(Reduction::max::<f64>(), [-0.0, 0.0, -0.0]).is_sign_positive());
}

#[test]
fn numbers_are_borrowed_where_they_lie_aligned() {
    let bytes = bytes_of(&[1_u64, 2, 3]);
    let shifted = [&[9], &bytes[..]].concat();
    // One of the two is aligned at most.
    let owned = [&bytes[..], &shifted[1..]].map(|bytes| {
        let found = numbers::<u64>(bytes).unwrap();
        assert_eq!(*found, [1, 2, 3]);
        matches!(found, std::borrow::Cow::Owned(_))
    });
    assert!(owned[0] || owned[1]);
    assert!(numbers::<u32>(&[]).unwrap().is_empty());
}

/// Numbers that meet each other often, and all others.
fn number() -> impl Strategy<Value = f64> + Clone {
    prop_oneof![(-3_i8..4).prop_map(f64::from), any::<f64>(), Just(f64::NAN), Just(-0.0)]
}

fn rows<T: std::fmt::Debug + Clone>(
    one: impl Strategy<Value = T> + Clone,
) -> impl Strategy<Value = Vec<Vec<T>>> {
    (1_usize..9)
        .prop_flat_map(move |len| prop::collection::vec(prop::collection::vec(one.clone(), len), 1..6))
}

/// Element by element, from the first row to the last.
fn folded<T: Number>(rows: &[Vec<T>], fold: impl Fn(T, T) -> T) -> Vec<u8> {
    let columns = 0..rows[0].len();
    let fold = |column: usize| rows.iter().map(|row| row[column]).reduce(&fold).unwrap();
    bytes_of(&columns.map(fold).collect::<Vec<T>>())
}

proptest! {
    #[test]
    fn integers_are_combined_element_by_element(rows in rows(any::<i64>())) {
        let replies: Vec<Vec<u8>> = rows.iter().map(|row| bytes_of(row)).collect();
        for (reduction, fold) in [
            (Reduction::sum::<i64>(), i64::wrapping_add as fn(i64, i64) -> i64),
            (Reduction::min::<i64>(), |a, b| a.min(b)),
            (Reduction::max::<i64>(), |a, b| a.max(b)),
            (Reduction::and(), |a, b| a & b),
            (Reduction::or(), |a, b| a | b),
            (Reduction::xor(), |a, b| a ^ b),
            (Reduction::first(), |a, _| a),
        ] {
            prop_assert_eq!(merged(reduction, &replies), Ok(folded(&rows, fold)), "{}", reduction);
        }
        prop_assert_eq!(merged(Reduction::concatenation(), &replies), Ok(replies.concat()));
    }

    #[test]
    fn narrow_and_floating_numbers_are_combined_with_their_own_width(rows in rows(any::<u32>())) {
        let floats: Vec<Vec<f32>> = rows.iter().map(|row| row.iter().map(|bits| f32::from_bits(*bits)).collect()).collect();
        let replies: Vec<Vec<u8>> = rows.iter().map(|row| bytes_of(row)).collect();
        prop_assert_eq!(merged(Reduction::sum::<u32>(), &replies), Ok(folded(&rows, u32::wrapping_add)));
        let sum = merged(Reduction::sum::<f32>(), &replies).unwrap();
        let wanted = folded(&floats, |a, b| a + b);
        let same = sum.chunks(4).zip(wanted.chunks(4)).all(|(one, other)| {
            let [one, other] = [one, other].map(|bytes| f32::from_le_bytes(bytes.try_into().unwrap()));
            one == other || one.is_nan() && other.is_nan()
        });
        prop_assert!(same);
        let least = folded(&floats, |a, b| if b.total_cmp(&a).is_lt() { b } else { a });
        prop_assert_eq!(merged(Reduction::min::<f32>(), &replies), Ok(least));
    }

    /// What is merged as it arrives must not depend on the order, and what is associative not on the tree.
    #[test]
    fn order_and_tree_matter_only_where_it_is_said(
        rows in rows(number()),
        rotate in 0_usize..6,
        split in 0_usize..6,
    ) {
        for reduction in all() {
            let of_id = |(id, row): (usize, &Vec<f64>)| match reduction.to_string().as_str() {
                "histogram" => histogram_bytes(row.iter().map(|number| (*number as i64 % 4, number.to_bits() >> 1))),
                _ if reduction.has_ids() && reduction.number_type() == Some(NumberType::F64) => located_bytes(row, id as u32),
                // Whole elements of 8 and of 12 bytes.
                _ => bytes_of(row).repeat(3),
            };
            let replies: Vec<Vec<u8>> = rows.iter().enumerate().map(of_id).collect();
            let whole = merged(reduction, &replies).unwrap();
            if reduction.is_commutative() {
                let mut turned = replies.clone();
                turned.rotate_left(rotate % replies.len());
                // A list of one id is not merged, so not sorted.
                if replies.len() > 1 {
                    prop_assert_eq!(merged(reduction, &turned), Ok(whole.clone()), "{}", reduction);
                }
            }
            let sums_floats = matches!(reduction.to_string().as_str(), "sum:f32" | "sum:f64");
            let split = split % replies.len();
            if !sums_floats && replies.len() > 1 {
                let (left, right) = replies.split_at(split);
                let two = [merged(reduction, left).unwrap(), merged(reduction, right).unwrap()];
                prop_assert_eq!(merged(reduction, &two), Ok(whole), "{}", reduction);
            }
        }
    }

    #[test]
    fn numbers_keep_their_ids(rows in rows(number())) {
        let replies: Vec<Vec<u8>> = rows.iter().enumerate().map(|(id, row)| located_bytes(row, id as u32)).collect();
        let mut listed: Vec<(f64, u32)> = rows.iter().zip(0..).flat_map(|(row, id)| row.iter().map(move |number| (*number, id))).collect();
        listed.sort_by(|(a, i), (b, j)| b.total_cmp(a).then(i.cmp(j)));
        if replies.len() > 1 {
            let top = located::<f64>(&merged(Reduction::top::<f64>(4), &replies).unwrap()).unwrap();
            let same = top.iter().map(|found| (found.number.to_bits(), found.id));
            prop_assert!(same.eq(listed.iter().take(4).map(|(number, id)| (number.to_bits(), *id))));
        }
        let first: Vec<(f64, u32)> = rows.iter().zip(0..).map(|(row, id)| (row[0], id)).collect();
        let max = located::<f64>(&merged(Reduction::max_with_id::<f64>(), &replies).unwrap()).unwrap()[0];
        let wanted = first.iter().copied().reduce(|a, b| if b.0.total_cmp(&a.0).is_gt() { b } else { a }).unwrap();
        prop_assert_eq!((max.number.to_bits(), max.id), (wanted.0.to_bits(), wanted.1));
        let min = located::<f64>(&merged(Reduction::min_with_id::<f64>(), &replies).unwrap()).unwrap()[0];
        let wanted = first.iter().copied().reduce(|a, b| if b.0.total_cmp(&a.0).is_lt() { b } else { a }).unwrap();
        prop_assert_eq!((min.number.to_bits(), min.id), (wanted.0.to_bits(), wanted.1));
    }

    #[test]
    fn histograms_add_their_counts(rows in prop::collection::vec(prop::collection::vec((-3_i64..4, any::<u64>()), 0..6), 1..5)) {
        let replies: Vec<Vec<u8>> = rows.iter().map(|row| histogram_bytes(row.iter().copied())).collect();
        let mut wanted = std::collections::BTreeMap::new();
        for (bucket, count) in rows.iter().flatten() {
            let sum: &mut u64 = wanted.entry(*bucket).or_default();
            *sum = sum.saturating_add(*count);
        }
        prop_assert_eq!(histogram(&merged(Reduction::histogram(), &replies).unwrap()), Ok(wanted));
    }
}
