//! Intervals around medians and ratios, from repetitions alone: no distribution of the times is assumed.
//!
//! Both kinds count ranks. A median lies between the lowest and the highest of n repetitions unless all of them are on
//! one side of it, which has the probability 2 / 2^n. A ratio of two runs lies among the ratios of all pairs of their
//! repetitions. How far from the ends follows from how the ranks of two equal samples mix (Mann and Whitney's U; the
//! estimate is that of Hodges and Lehmann).

use crate::quantile::median;

/// Minimum confidence of the interval of a median: that of five repetitions from the lowest to the highest is 93.75 %.
const MEDIAN_CONFIDENCE: f64 = 0.93;

/// Minimum confidence of the interval of a ratio.
const RATIO_CONFIDENCE: f64 = 0.95;

/// Confidence below which the interval of a ratio is meaningless: that of three repetitions against three is 90 %.
pub(super) const WORTH_SAYING: f64 = 0.89;

/// Number of repetitions of a run up to which ranks are counted; with more, their sum is nearly normal.
const COUNTED_MAX: usize = 20;

/// An estimate with its interval.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Estimate {
    pub(super) value: f64,
    pub(super) low: f64,
    pub(super) high: f64,
    /// Probability that the interval contains the estimated value, 0 to 1.
    pub(super) confidence: f64,
}

/// Estimates the median of repetitions; `None` for none.
pub(super) fn estimate(values: &[f64]) -> Option<Estimate> {
    let value = median(values)?;
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let n = sorted.len();
    let confidence = |cut: usize| 1.0 - 2.0 * at_most_heads(cut, n);
    // Moves inward from the ends as long as the confidence allows.
    let cut = (1..n / 2).take_while(|&cut| confidence(cut) >= MEDIAN_CONFIDENCE).last().unwrap_or(0);
    let (low, high) = (sorted[cut], sorted[n - 1 - cut]);
    Some(Estimate { value, low, high, confidence: confidence(cut).max(0.0) })
}

/// Returns the probability that at most this many of `n` coins show heads.
fn at_most_heads(heads: usize, n: usize) -> f64 {
    let mut term = 0.5f64.powi(i32::try_from(n).unwrap_or(i32::MAX));
    let mut sum = term;
    for k in 1..=heads {
        term *= (n + 1 - k) as f64 / k as f64;
        sum += term;
    }
    sum
}

/// Estimates the ratio of one run's repetitions to another's, all of them positive; `None` if a run has none.
pub(super) fn ratio(now: &[f64], before: &[f64]) -> Option<Estimate> {
    let pairs = now.iter().flat_map(|now| before.iter().map(move |before| now / before));
    let mut ratios: Vec<f64> = pairs.collect();
    ratios.sort_unstable_by(f64::total_cmp);
    let value = median(&ratios)?;
    let (cut, confidence) = cut(now.len(), before.len());
    Some(Estimate { value, low: ratios[cut], high: ratios[ratios.len() - 1 - cut], confidence })
}

/// Returns the number of pairs at each end outside the interval of a ratio, and the confidence of the interval.
fn cut(one: usize, other: usize) -> (usize, f64) {
    let pairs = one * other;
    if one.max(other) > COUNTED_MAX {
        let (one, other) = (one as f64, other as f64);
        let deviation = (one * other * (one + other + 1.0) / 12.0).sqrt();
        // 95 in 100 normal values are within 1.96 deviations.
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

/// Returns for every u the number of ways to mix two samples such that one exceeds the other in u of their pairs.
///
/// These are the coefficients of a Gaussian binomial: the product over i of (1 - q^(other + i)) / (1 - q^i). They are
/// whole numbers below 2^53, so the values are exact.
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
    use gpc_sim::Random;
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
        // Critical values of U at 5 %, two-sided.
        for (one, other, critical) in
            [(4, 4, 0), (5, 5, 2), (6, 6, 5), (8, 10, 17), (10, 10, 23), (20, 20, 127)]
        {
            let (cut, confidence) = cut(one, other);
            assert!(cut == critical && confidence >= 0.95, "{one} against {other}: {cut}, {confidence}");
        }
        assert!(close(cut(3, 3).1, 0.9) && close(cut(2, 2).1, 1.0 - 2.0 / 6.0));
        assert_eq!(cut(1, 1), (0, 0.0));
        // The normal approximation continues where counting ends.
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

    /// For samples that differ by a factor, the interval contains the factor about as often as its confidence says.
    #[test]
    fn intervals_are_as_wide_as_they_must_be() {
        let mut random = Random::new(7);
        // A skewed distribution, as that of times.
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
