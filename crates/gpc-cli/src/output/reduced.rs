//! The data of a reduction as numbers.

use std::fmt;

use chained_gpc::Id;
use chained_gpc::reduce::{Number, NumberType, Reduction, ReductionError, histogram, located, numbers};
use serde::Serialize;

/// The elements of a reduced reply. In JSON a list: numbers, pairs of a number and an id, or pairs of a bucket and a
/// count.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Reduced(Vec<Element>);

#[derive(Clone, PartialEq, Debug, Serialize)]
#[serde(untagged)]
enum Element {
    Whole(u64),
    Signed(i64),
    Single(f32),
    Double(f64),
    Located(Box<Element>, Id),
    Bucket(i64, u64),
}

impl Reduced {
    /// The elements of a reduction's data; `None` if they have no numbers.
    ///
    /// # Errors
    /// The data are not whole elements: a function that is not merged anywhere has written them.
    pub fn of(reduction: Reduction, data: &[u8]) -> Result<Option<Reduced>, ReductionError> {
        let elements = match reduction.number_type() {
            Some(NumberType::U32) => elements(reduction, data, |number: u32| Element::Whole(number.into())),
            Some(NumberType::U64) => elements(reduction, data, Element::Whole),
            Some(NumberType::I64) => elements(reduction, data, Element::Signed),
            Some(NumberType::F32) => elements(reduction, data, Element::Single),
            Some(NumberType::F64) => elements(reduction, data, Element::Double),
            _ if reduction == Reduction::histogram() => {
                let buckets = histogram(data)?.into_iter();
                Ok(buckets.map(|(bucket, count)| Element::Bucket(bucket, count)).collect())
            }
            _ => return Ok(None),
        };
        elements.map(|elements| Some(Reduced(elements)))
    }
}

fn elements<T: Number>(
    reduction: Reduction,
    data: &[u8],
    element: fn(T) -> Element,
) -> Result<Vec<Element>, ReductionError> {
    if reduction.has_ids() {
        let found = located::<T>(data)?.into_iter();
        return Ok(found.map(|found| Element::Located(Box::new(element(found.number)), found.id)).collect());
    }
    Ok(numbers::<T>(data)?.iter().copied().map(element).collect())
}

impl fmt::Display for Reduced {
    /// In a line: `3 4.5`, with ids `4.5 (id 7)`, and buckets `-1: 20`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, element) in self.0.iter().enumerate() {
            let gap = match (index, element) {
                (0, _) => "",
                (_, Element::Located(..) | Element::Bucket(..)) => ", ",
                _ => " ",
            };
            write!(f, "{gap}{element}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Element {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Element::Whole(number) => number.fmt(f),
            Element::Signed(number) => number.fmt(f),
            Element::Single(number) => number.fmt(f),
            Element::Double(number) => number.fmt(f),
            Element::Located(number, id) => write!(f, "{number} (id {id})"),
            Element::Bucket(bucket, count) => write!(f, "{bucket}: {count}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use chained_gpc::reduce::{bytes_of, histogram_bytes, located_bytes};

    use super::*;

    #[test]
    fn numbers_are_shown_by_their_type() {
        let shown = |reduction, data: &[u8]| {
            let reduced = Reduced::of(reduction, data).unwrap().unwrap();
            (reduced.to_string(), serde_json::to_string(&reduced).unwrap())
        };
        let both = |text: &str, json: &str| (text.to_owned(), json.to_owned());
        assert_eq!(shown(Reduction::sum::<u32>(), &bytes_of(&[1_u32, 2])), both("1 2", "[1,2]"));
        assert_eq!(shown(Reduction::min::<i64>(), &bytes_of(&[-1_i64])), both("-1", "[-1]"));
        assert_eq!(shown(Reduction::sum::<f32>(), &bytes_of(&[0.1_f32])), both("0.1", "[0.1]"));
        assert_eq!(shown(Reduction::sum::<f64>(), &bytes_of(&[f64::NAN])), both("NaN", "[null]"));
        let data = located_bytes(&[2.5, 3.0], 7);
        let wanted = both("2.5 (id 7), 3 (id 7)", "[[2.5,7],[3.0,7]]");
        assert_eq!(shown(Reduction::max_with_id::<f64>(), &data), wanted);
        let data = histogram_bytes([(3, 4), (-1, 20)]);
        assert_eq!(shown(Reduction::histogram(), &data), both("-1: 20, 3: 4", "[[-1,20],[3,4]]"));
        assert_eq!(Reduced::of(Reduction::xor(), &[1]), Ok(None));
        assert!(Reduced::of(Reduction::sum::<u64>(), &[1]).is_err());
    }
}
