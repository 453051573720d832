//! Percentiles of measured values.

/// Returns the smallest of the sorted values such that at least `percent` in 100 values do not exceed it; `None` for no
/// values.
pub(super) fn percentile<T: Copy>(sorted: &[T], percent: usize) -> Option<T> {
    let rank = (sorted.len() * percent).div_ceil(100);
    sorted.get(rank.max(1) - 1).copied()
}

/// Returns the median of values in any order: the mean of the two middle ones if their number is even, `None` for no
/// values.
pub(super) fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let upper = *sorted.get(sorted.len() / 2)?;
    match sorted.len() % 2 {
        0 => Some(f64::midpoint(sorted[sorted.len() / 2 - 1], upper)),
        _ => Some(upper),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_is_one_of_the_values() {
        assert_eq!(percentile::<u64>(&[], 50), None);
        assert_eq!([0, 50, 99, 100].map(|percent| percentile(&[7], percent)), [Some(7); 4]);
        let hundred: Vec<u64> = (1..=100).collect();
        assert_eq!(
            [1, 50, 90, 99, 100].map(|percent| percentile(&hundred, percent)),
            [1, 50, 90, 99, 100].map(Some)
        );
        assert_eq!(percentile(&[1, 2, 3], 50), Some(2));
    }

    #[test]
    fn a_median_is_the_middle() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 8.0]), Some(3.0));
    }
}
