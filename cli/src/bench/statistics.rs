//! Intervals around medians and ratios, from repetitions alone: nothing is assumed of how times are distributed.
//!
//! Both count ranks. A median lies between the lowest and the highest of n repetitions unless all of them fell on one side of it, which happens
//! twice in 2^n. A ratio of two runs lies among the ratios of their repetitions in pairs, and how far from the ends follows from how the ranks of
//! two equal samples are mixed (Mann and Whitney's U; the estimate is Hodges and Lehmann's).

use crate::quantile::median;

/// The least confidence that the interval of a median is to have: what five repetitions from the lowest to the highest give, 93.75 %.
const MEDIAN_CONFIDENCE: f64 = 0.93;

/// The least confidence that the interval of a ratio is to have.
const RATIO_CONFIDENCE: f64 = 0.95;

/// Under this, a ratio's interval says nothing: that of three repetitions against three has 90 %.
pub(super) const WORTH_SAYING: f64 = 0.89;

/// Repetitions of each run up to which ranks are counted; above, their sum is as good as normal.
const COUNTED_MAX: usize = 20;

/// An estimate, and where what it estimates lies.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Estimate {
    pub(super) value: f64,
    pub(super) low: f64,
    pub(super) high: f64,
    /// How probably it lies there: 0 to 1.
    pub(super) confidence: f64,
}

/// The median of repetitions; `None` of none.
pub(super) fn estimate(values: &[f64]) -> Option<Estimate> {
    let value = median(values)?;
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let n = sorted.len();
    let confidence = |cut: usize| 1.0 - 2.0 * at_most_heads(cut, n);
    // From the ends inward, as long as the confidence allows it.
    let cut = (1..n / 2).take_while(|&cut| confidence(cut) >= MEDIAN_CONFIDENCE).last().unwrap_or(0);
    let (low, high) = (sorted[cut], sorted[n - 1 - cut]);
    Some(Estimate { value, low, high, confidence: confidence(cut).max(0.0) })
}

/// How probable it is that of `n` coins at most so many show heads.
fn at_most_heads(heads: usize, n: usize) -> f64 {
    let mut term = 0.5f64.powi(i32::try_from(n).unwrap_or(i32::MAX));
    let mut sum = term;
    for k in 1..=heads {
        term *= (n + 1 - k) as f64 / k as f64;
        sum += term;
    }
    sum
}

/// The ratio of one run's repetitions to another's, all of them positive; `None` where one has none.
pub(super) fn ratio(now: &[f64], before: &[f64]) -> Option<Estimate> {
    let pairs = now.iter().flat_map(|now| before.iter().map(move |before| now / before));
    let mut ratios: Vec<f64> = pairs.collect();
    ratios.sort_unstable_by(f64::total_cmp);
    let value = median(&ratios)?;
    let (cut, confidence) = cut(now.len(), before.len());
    Some(Estimate { value, low: ratios[cut], high: ratios[ratios.len() - 1 - cut], confidence })
}

/// How many of the pairs at each end the interval of a ratio leaves out, and the confidence that remains.
fn cut(one: usize, other: usize) -> (usize, f64) {
    let pairs = one * other;
    if one.max(other) > COUNTED_MAX {
        let (one, other) = (one as f64, other as f64);
        let deviation = (one * other * (one + other + 1.0) / 12.0).sqrt();
        // Of 95 in 100 normal values none is farther out.
        let cut = (one * other / 2.0 - 1.96 * deviation).floor().max(0.0) as usize;
        return (cut.min((pairs - 1) / 2), RATIO_CONFIDENCE);
    }
    let ways = ways(one, other);
    let all: f64 = ways.iter().sum();
    let mut below = 0.0;
    let mut best = (0, (1.0 - 2.0 * ways[0] / all).max(0.0));
    for (cut, ways) in ways.iter().enumerate().take(pairs.div_ceil(2)) {
        below += ways;
        let confidence = 1.0 - 2.0 * below / all;
        if confidence < RATIO_CONFIDENCE {
            break;
        }
        best = (cut, confidence);
    }
    best
}

/// In how many ways two samples can be mixed so that in u of their pairs the one is above the other, for every u.
///
/// These are the coefficients of a Gaussian binomial: the product over i of (1 - q^(other + i)) / (1 - q^i). Whole numbers below 2^53, so exact.
fn ways(one: usize, other: usize) -> Vec<f64> {
    let pairs = one * other;
    let mut ways = vec![0.0; pairs + 1];
    ways[0] = 1.0;
    for i in 1..=one {
        for u in (other + i..=pairs).rev() {
            ways[u] -= ways[u - other - i];
        }
        for u in i..=pairs {
            ways[u] += ways[u - i];
        }
    }
    ways
}

#[cfg(test)]
mod tests {
    use super::*;
    use chained_gpc::sim::Random;
    use proptest::prelude::*;

    fn close(one: f64, other: f64) -> bool {
        (one - other).abs() < 1e-9
    }

    #[test]
    fn a_few_repetitions_give_their_lowest_and_highest() {
        assert_eq!(estimate(&[]), None);
        assert_eq!(estimate(&[7.0]), Some(Estimate { value: 7.0, low: 7.0, high: 7.0, confidence: 0.0 }));
        let five = estimate(&[3.0, 9.0, 1.0, 4.0, 5.0]).unwrap();
        assert_eq!(five, Estimate { value: 4.0, low: 1.0, high: 9.0, confidence: 0.9375 });
        let nine = estimate(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0]).unwrap();
        assert!(
            (nine.low, nine.high) == (2.0, 8.0) && close(nine.confidence, 1.0 - 20.0 / 512.0),
            "{nine:?}"
        );
    }

    #[test]
    fn ranks_are_mixed_as_the_tables_have_it() {
        assert_eq!(ways(1, 3), [1.0; 4]);
        assert_eq!(ways(2, 2), [1.0, 1.0, 2.0, 1.0, 1.0]);
        assert!(close(ways(20, 20).iter().sum(), 137_846_528_820.0));
        // Critical values of U at 5 %, from two sides.
        for (one, other, critical) in
            [(4, 4, 0), (5, 5, 2), (6, 6, 5), (8, 10, 17), (10, 10, 23), (20, 20, 127)]
        {
            let (cut, confidence) = cut(one, other);
            assert!(cut == critical && confidence >= 0.95, "{one} against {other}: {cut}, {confidence}");
        }
        assert!(close(cut(3, 3).1, 0.9) && close(cut(2, 2).1, 1.0 - 2.0 / 6.0));
        assert_eq!(cut(1, 1), (0, 0.0));
        // The normal approximation goes on where counting ends.
        assert!((130..=145).contains(&cut(21, 20).0), "{:?}", cut(21, 20));
    }

    #[test]
    fn a_difference_is_seen_and_none_is_not() {
        let faster = ratio(&[10.0, 11.0, 10.5, 10.2, 10.9], &[20.0, 21.0, 20.5, 20.2, 22.0]).unwrap();
        let middle = (0.50..0.52).contains(&faster.value);
        assert!(middle && faster.low > 0.45 && faster.high < 0.56, "{faster:?}");
        let same = ratio(&[10.0, 11.0, 10.5, 10.2, 10.9], &[10.1, 10.8, 10.6, 10.3, 11.2]).unwrap();
        assert!(same.low < 1.0 && same.high > 1.0, "{same:?}");
        assert_eq!(ratio(&[], &[1.0]), None);
    }

    /// Of samples that differ by a factor, the interval has the factor about as often as it says.
    #[test]
    fn intervals_are_as_wide_as_they_must_be() {
        let mut random = Random::new(7);
        // Skewed, as times are.
        let mut sample = |factor: f64| -> Vec<f64> {
            (0..6)
                .map(|_| factor * (1.0 + random.below(1000) as f64 * random.below(1000) as f64 / 1e6))
                .collect()
        };
        let (mut median_within, mut ratio_within) = (0, 0);
        for _ in 0..2000 {
            let one = sample(1.3);
            let ratio = ratio(&one, &sample(1.0)).unwrap();
            ratio_within += u32::from(ratio.low <= 1.3 && 1.3 <= ratio.high);
            // The median of a product of two uniform numbers, from x (1 - ln x) = 1/2.
            let middle = 1.3 * (1.0 + 0.186_68);
            let estimate = estimate(&one).unwrap();
            median_within += u32::from(estimate.low <= middle && middle <= estimate.high);
        }
        assert!((1880..=1990).contains(&ratio_within), "{ratio_within}");
        assert!((1900..=1990).contains(&median_within), "{median_within}");
    }

    proptest! {
        #[test]
        fn an_estimate_lies_in_its_interval(
            now in prop::collection::vec(1.0f64..1e9, 1..40),
            before in prop::collection::vec(1.0f64..1e9, 1..40),
        ) {
            for estimate in [estimate(&now), ratio(&now, &before)] {
                let Estimate { value, low, high, confidence } = estimate.unwrap();
                prop_assert!(low <= value && value <= high && (0.0..=1.0).contains(&confidence));
            }
        }
    }
}
