//! The axes of a sweep, which distinguish its rows. Tables have a column for each axis that varies, and state the
//! others once.

use super::key::Key;
use crate::args::Bytes;
use crate::output::Align;

/// One axis.
#[derive(Clone, Copy, Debug)]
pub(super) struct Axis {
    /// Heading of its column.
    pub(super) name: &'static str,
    pub(super) align: Align,
    /// Its value in a table.
    pub(super) value: fn(&Key) -> String,
    /// Its value in words, if it has no column.
    pub(super) said: fn(&Key) -> String,
    /// Its value as a number, if it is one.
    pub(super) number: Option<fn(&Key) -> u32>,
}

/// All axes, in the order of the columns.
pub(super) const AXES: [Axis; 8] = [
    Axis {
        name: "n",
        align: Align::Right,
        value: |key| key.n.to_string(),
        said: |key| format!("n {}", key.n),
        number: Some(|key| key.n),
    },
    Axis {
        name: "tree",
        align: Align::Left,
        value: |key| key.tree.clone(),
        said: |key| key.tree.clone(),
        number: None,
    },
    Axis {
        name: "bytes",
        align: Align::Right,
        value: |key| Bytes(key.bytes).to_string(),
        said: |key| format!("{} bytes", Bytes(key.bytes)),
        number: Some(|key| key.bytes),
    },
    Axis {
        name: "reply",
        align: Align::Right,
        value: reply,
        said: |key| format!("replies of {} bytes", reply(key)),
        number: None,
    },
    Axis {
        name: "in flight",
        align: Align::Right,
        value: |key| key.in_flight.to_string(),
        said: |key| format!("{} in flight", key.in_flight),
        number: Some(|key| key.in_flight),
    },
    Axis {
        name: "link",
        align: Align::Left,
        value: |key| key.link.clone(),
        said: |key| key.link.clone(),
        number: None,
    },
    Axis {
        name: "wait",
        align: Align::Left,
        value: |key| key.wait.clone(),
        said: |key| key.wait.clone(),
        number: None,
    },
    Axis {
        name: "root",
        align: Align::Left,
        value: |key| key.root.clone(),
        said: |key| format!("{} root", key.root),
        number: None,
    },
];

fn reply(key: &Key) -> String {
    key.reply_bytes.map_or("?".into(), |bytes| Bytes(bytes).to_string())
}

/// Returns the axes that vary among some rows, n always, and the axes that do not vary.
pub(super) fn varying(keys: &[&Key]) -> (Vec<Axis>, Vec<Axis>) {
    let varies = |axis: &Axis| keys.iter().any(|key| (axis.value)(key) != (axis.value)(keys[0]));
    // Replies are as long as requests unless another length was requested.
    let echoes = keys.iter().all(|key| key.reply_bytes == Some(key.bytes));
    let shown = AXES.iter().copied().filter(|axis| !(axis.name == "reply" && echoes));
    shown.partition(|axis| axis.name == "n" || varies(axis))
}

/// Describes a row by its values on some axes.
pub(super) fn described(key: &Key, axes: &[Axis]) -> String {
    axes.iter().map(|axis| (axis.said)(key)).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::super::sample::key;
    use super::*;

    #[test]
    fn columns_are_those_that_vary() {
        let names = |axes: &[Axis]| axes.iter().map(|axis| axis.name).collect::<Vec<_>>();
        let (one, other) = (key(2, "flat"), Key { bytes: 4096, reply_bytes: Some(4096), ..key(2, "flat") });
        let (shown, same) = varying(&[&one, &other]);
        assert_eq!(names(&shown), ["n", "bytes"]);
        assert_eq!(described(&one, &same), "flat, 1 in flight, unix, adaptive, polled root");
        let filled = Key { reply_bytes: Some(8), ..one.clone() };
        let (shown, same) = varying(&[&one, &filled]);
        assert_eq!((names(&shown), same.len()), (vec!["n", "reply"], 6));
        assert_eq!(varying(&[]).0.len(), 1);
    }
}
