//! Sorting and collecting in little code, for work that is seldom or short.
//!
//! The sort of the standard library is some 5 KB of code for each type of items, and so is a map that is collected,
//! which sorts first. With a few dozen types that is a twentieth of the library for C.

use std::cmp::Ordering;

/// Items that are sorted by exchanging neighbours.
const SHORT: usize = 12;

/// Sorts items by a key. Equal ones keep their order.
pub fn sort_by_key<T, K: Ord>(items: &mut [T], key: impl Fn(&T) -> K) {
    sort_by(items, |one, other| key(one).cmp(&key(other)));
}

/// Sorts items by a comparison. Equal ones keep their order.
pub fn sort_by<T>(items: &mut [T], compare: impl Fn(&T, &T) -> Ordering) {
    if items.len() <= SHORT {
        // By insertion, without memory.
        for end in 1..items.len() {
            let mut at = end;
            while at > 0 && compare(&items[at - 1], &items[at]) == Ordering::Greater {
                items.swap(at - 1, at);
                at -= 1;
            }
        }
        return;
    }
    let mut order = order(items.len(), &|one, other| compare(&items[one], &items[other]));
    for start in 0..items.len() {
        let mut at = start;
        // Ends: each step gives a place its item, and a place that has its own item ends the loop.
        loop {
            let from = std::mem::replace(&mut order[at], at);
            if from == start {
                break;
            }
            items.swap(at, from);
            at = from;
        }
    }
}

/// The indexes of items in sorted order.
fn order(len: usize, compare: &dyn Fn(usize, usize) -> Ordering) -> Vec<usize> {
    let mut order: Vec<usize> = (0..len).collect();
    order.sort_by(|one, other| compare(*one, *other));
    order
}

/// Collects items one by one. Of two values with the same key the later one counts.
pub fn collected<T, C: Default + Extend<T>>(items: impl IntoIterator<Item = T>) -> C {
    let mut all = C::default();
    all.extend(items);
    all
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn items_are_sorted_as_the_standard_library_sorts_them(items in prop::collection::vec((0u8..9, any::<u16>()), 0..40)) {
            let (mut sorted, mut expected) = (items.clone(), items);
            sort_by_key(&mut sorted, |(key, _)| *key);
            expected.sort_by_key(|(key, _)| *key);
            prop_assert_eq!(&sorted, &expected);
            sort_by(&mut sorted, |one, other| other.cmp(one));
            expected.sort_by(|one, other| other.cmp(one));
            prop_assert_eq!(sorted, expected);
        }

        #[test]
        fn a_map_has_the_last_value_of_each_key(items in prop::collection::vec((0u8..9, any::<u16>()), 0..40)) {
            let map: BTreeMap<u8, u16> = collected(items.clone());
            prop_assert_eq!(map, items.into_iter().collect::<BTreeMap<_, _>>());
        }
    }
}
