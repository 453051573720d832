//! Lengths of level-n data.

/// By position: bytes of the level-n data of a subtree to which each id contributes `value` bytes. Each value is
/// preceded by its length, or by its number of parts; a value among higher ones is lifted by one count for each level.
pub(super) fn lengths(parents: &[u32], heights: &[u16], value: u32) -> Vec<u64> {
    let count = |number: u64| u64::from(number.checked_ilog10().unwrap_or_default()) + 2;
    let lifted = |levels: u16| u64::from(levels) * count(1);
    let own = count(value.into()) + u64::from(value);
    let (mut lengths, mut children) = (vec![own; heights.len()], vec![0; heights.len()]);
    // Preorder: a child comes after its parent.
    for place in (0..heights.len()).rev() {
        let (height, parent) = (heights[place], parents[place] as usize);
        if height > 0 {
            lengths[place] += count(children[place] + 1) + lifted(height - 1);
        }
        if place > 0 {
            lengths[parent] += lengths[place] + lifted(heights[parent] - 1 - height);
            children[parent] += 1;
        }
    }
    lengths
}
