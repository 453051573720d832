//! Compressed lists of hosts, as cluster managers write them: `a,b[01-64,70],c[1-2]-x`.
//!
//! Several brackets in one name stand for all combinations, and the last one varies fastest: `r[0-1]n[0-1]` is
//! `r0n0,r0n1,r1n0,r1n1`. Leading zeros are kept. So are the order and duplicates; the caller defines what a duplicate
//! means. The length of a list is computed before it is expanded: `[0-999999999]` is 15 bytes of text.
//!
//! Source: the host lists of Slurm (`SLURM_STEP_NODELIST`, `scontrol show hostnames`); no part of the protocol.

use std::fmt;
use std::str::FromStr;

use crate::wire::Shown;

/// Maximum number of hosts of a list: as many as Slurm can have nodes.
pub const HOSTS_MAX: usize = 65_536;

/// Maximum number of slots of a host: more than any machine runs processes at a time.
pub const SLOTS_MAX: u32 = 65_536;

/// Maximum length of a host name, bytes: a DNS name has 253, and a user name may precede it.
const HOST_MAX: usize = 320;

/// Maximum length of the text of a list, bytes: the longest variable of an environment on Linux.
pub(super) const TEXT_MAX: usize = 128 << 10;

/// Maximum number of digits of a number in a bracket, so that numbers fit into `u64`.
const DIGITS_MAX: usize = 18;

/// Names of hosts, at least one, in order.
///
/// ```
/// use chained_gpc::bootstrap::HostList;
///
/// let hosts: HostList = "a,b[08-10,70],c[1-2]-x".parse()?;
/// let names: Vec<&str> = hosts.iter().collect();
/// assert_eq!(names, ["a", "b08", "b09", "b10", "b70", "c1-x", "c2-x"]);
/// assert_eq!(hosts.to_string(), "a,b[08-10,70],c[1-2]-x");
/// # Ok::<(), chained_gpc::bootstrap::HostListError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HostList {
    names: Vec<String>,
}

/// Why a text or a list of names is not a list of hosts.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HostListError {
    /// No host at all, or none between two commas.
    #[error("there is an empty name: write hosts with one comma between two of them, such as a,b[01-64]")]
    Empty,
    /// A bracket that is not closed, not opened, or nested.
    #[error("the brackets of `{0}` do not match")]
    Brackets(String),
    /// The text in brackets is not a list of numbers and ranges.
    #[error(
        "`{range}` of `{item}` is no range of numbers: write such as 7 or 01-64, with at most {DIGITS_MAX} digits, the smaller number first, and as many digits in both if there are zeros before them"
    )]
    Range {
        /// The range.
        range: String,
        /// The item that has it.
        item: String,
    },
    /// A character that is invalid in a host name, or a leading hyphen, which programs take for an option.
    #[error(
        "`{0}` is no name of a host: it has ASCII letters, digits and . _ - + @ : %, and does not begin with a hyphen"
    )]
    Name(String),
    /// A name of more than 320 bytes.
    #[error("`{0}` is too long a name of a host: {HOST_MAX} bytes are the most")]
    Long(String),
    /// More than [`HOSTS_MAX`] hosts.
    #[error("there are too many hosts: {HOSTS_MAX} are the most")]
    Many,
    /// A text of more than 128 KiB.
    #[error("the list of hosts is too long: {TEXT_MAX} bytes are the most")]
    Text,
    /// The text after the colon of an item of a [`SlotList`](super::SlotList) is not a number of slots.
    #[error("`{0}` has no number of slots after its colon: write HOST:K with K from 1 to {SLOTS_MAX}")]
    Slots(String),
    /// A name with colons that is not an IPv6 address.
    #[error("`{0}` has colons and is no IPv6 address: write HOST:K for a host with K slots")]
    Address(String),
    /// A host has more than [`SLOTS_MAX`] slots in all.
    #[error("host {0} has too many slots: {SLOTS_MAX} are the most")]
    ManySlots(String),
}

impl HostList {
    /// Creates a list of these names, in this order.
    ///
    /// # Errors
    /// If there is no name, there are too many, or one is not a valid host name.
    pub fn new(names: impl IntoIterator<Item = String>) -> Result<HostList, HostListError> {
        let names: Vec<String> = names.into_iter().take(HOSTS_MAX + 1).collect();
        match names.len() {
            0 => return Err(HostListError::Empty),
            count if count > HOSTS_MAX => return Err(HostListError::Many),
            _ => {}
        }
        names.iter().try_for_each(|name| check(name))?;
        Ok(HostList { names })
    }

    /// Number of hosts, at least 1.
    #[expect(clippy::len_without_is_empty, reason = "it is never empty")]
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// The host at an index, from 0.
    pub fn get(&self, place: usize) -> Option<&str> {
        self.names.get(place).map(String::as_str)
    }

    /// The hosts, in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &str> {
        self.names.iter().map(String::as_str)
    }
}

impl FromStr for HostList {
    type Err = HostListError;

    fn from_str(text: &str) -> Result<HostList, HostListError> {
        if text.len() > TEXT_MAX {
            return Err(HostListError::Text);
        }
        let mut names = Vec::new();
        for item in items(text)? {
            let parts = parts(item)?;
            // All brackets of one name together may stand for at most as many hosts as the list has left.
            let each =
                parts.iter().map(|part| part.ranges.iter().map(Range::count).fold(0, u64::saturating_add));
            let count = each.fold(1, u64::saturating_mul);
            if count > (HOSTS_MAX - names.len()) as u64 {
                return Err(HostListError::Many);
            }
            unfold(&parts, String::new(), &mut names)?;
        }
        Ok(HostList { names })
    }
}

/// Splits a text at the commas outside brackets.
pub(super) fn items(text: &str) -> Result<Vec<&str>, HostListError> {
    let (mut items, mut start, mut inside) = (Vec::new(), 0, false);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'[' if inside => return Err(HostListError::Brackets(shown(text))),
            b'[' => inside = true,
            b']' if !inside => return Err(HostListError::Brackets(shown(text))),
            b']' => inside = false,
            b',' if !inside => {
                items.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    items.push(&text[start..]);
    match (inside, items.iter().any(|item| item.is_empty())) {
        (true, _) => Err(HostListError::Brackets(shown(text))),
        (_, true) => Err(HostListError::Empty),
        _ => Ok(items),
    }
}

/// Plain text, and the ranges of the bracket after it.
struct Part<'a> {
    plain: &'a str,
    ranges: Vec<Range>,
}

/// Parses one item, whose brackets match. The text after the last bracket gets one range without digits.
fn parts(item: &str) -> Result<Vec<Part<'_>>, HostListError> {
    let (mut parts, mut rest) = (Vec::new(), item);
    while let Some((plain, behind)) = rest.split_once('[') {
        let (inside, behind) = behind.split_once(']').ok_or_else(|| HostListError::Brackets(shown(item)))?;
        let ranges = inside.split(',').map(|range| Range::parse(range, item)).collect::<Result<_, _>>()?;
        parts.push(Part { plain, ranges });
        rest = behind;
    }
    parts.push(Part { plain: rest, ranges: vec![Range { first: 0, last: 0, digits: None }] });
    Ok(parts)
}

/// Appends every name that the parts stand for. The depth of the recursion is the number of brackets in one name; each
/// branch ends with [`check`].
fn unfold(parts: &[Part<'_>], name: String, names: &mut Vec<String>) -> Result<(), HostListError> {
    // A prefix that is too long ends the branch. This bounds the depth as well, since a bracket adds at least one
    // digit.
    if name.len() > HOST_MAX {
        return Err(HostListError::Long(shown(&name)));
    }
    let Some((part, rest)) = parts.split_first() else {
        check(&name)?;
        names.push(name);
        return Ok(());
    };
    for range in &part.ranges {
        for number in range.first..=range.last {
            let longer = match range.digits {
                Some(digits) => format!("{name}{}{number:0digits$}", part.plain),
                None => format!("{name}{}", part.plain),
            };
            unfold(rest, longer, names)?;
        }
    }
    Ok(())
}

/// Consecutive numbers, each with at least `digits` digits. Without digits the range adds an empty text, once.
struct Range {
    first: u64,
    last: u64,
    digits: Option<usize>,
}

impl Range {
    /// Number of values; both ends are below 10^18.
    fn count(&self) -> u64 {
        self.last - self.first + 1
    }

    /// Parses a range of an item.
    fn parse(text: &str, item: &str) -> Result<Range, HostListError> {
        let refused = || HostListError::Range { range: shown(text), item: shown(item) };
        let number = |digits: &str| {
            let plain = !digits.is_empty()
                && digits.len() <= DIGITS_MAX
                && digits.bytes().all(|byte| byte.is_ascii_digit());
            plain.then(|| digits.parse::<u64>().ok()).flatten().ok_or_else(refused)
        };
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        let range = Range { first: number(first)?, last: number(last)?, digits: Some(first.len()) };
        // The last number has the digits that counting up yields: `08-10` and `98-102`, never `1-010`.
        let counted = format!("{:0digits$}", range.last, digits = first.len());
        if range.first > range.last || counted != last {
            return Err(refused());
        }
        Ok(range)
    }
}

/// Checks that a name is a valid host name.
fn check(name: &str) -> Result<(), HostListError> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-+@:%".contains(&byte);
    match name {
        "" => Err(HostListError::Empty),
        _ if name.len() > HOST_MAX => Err(HostListError::Long(shown(name))),
        _ if name.starts_with('-') || !name.bytes().all(plain) => Err(HostListError::Name(shown(name))),
        _ => Ok(()),
    }
}

/// The part of a text that an error quotes.
pub(super) fn shown(text: &str) -> String {
    let mut start: String = text.chars().take(80).collect();
    if start.len() < text.len() {
        start.push('…');
    }
    Shown(&start).to_string()
}

impl fmt::Display for HostList {
    /// Writes the compressed form: neighbours that differ in the last number of their names share a bracket. The text
    /// parses again unless it exceeds 128 KiB.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.iter().collect();
        f.write_str(&folded(&names).join(","))
    }
}

/// Returns the items of the compressed form of these names.
pub(super) fn folded(names: &[&str]) -> Vec<String> {
    let (mut rest, mut items) = (names, Vec::new());
    while let [first, ..] = rest {
        let alike = Numbered::of(first).map(|first| {
            let same = |name: &&&str| Numbered::of(name).is_some_and(|name| name.is_like(&first));
            rest.iter().take_while(same).count()
        });
        let (run, others) = rest.split_at(alike.unwrap_or(1));
        items.push(match Numbered::of(first) {
            Some(numbered) if run.len() > 1 => {
                format!("{}[{}]{}", numbered.before, ranges(run), numbered.behind)
            }
            _ => (*first).to_owned(),
        });
        rest = others;
    }
    items
}

/// A name, split at its last number.
struct Numbered<'a> {
    before: &'a str,
    digits: &'a str,
    behind: &'a str,
}

impl Numbered<'_> {
    fn of(name: &str) -> Option<Numbered<'_>> {
        let end = name.rfind(|c: char| c.is_ascii_digit())? + 1;
        let head = name[..end].trim_end_matches(|c: char| c.is_ascii_digit()).len();
        // Of a longer number, only the last digits count.
        let start = head.max(end.saturating_sub(DIGITS_MAX));
        Some(Numbered { before: &name[..start], digits: &name[start..end], behind: &name[end..] })
    }

    fn is_like(&self, other: &Numbered<'_>) -> bool {
        (self.before, self.behind) == (other.before, other.behind)
    }
}

/// Returns the bracket's text for names that differ only in their last number.
fn ranges(run: &[&str]) -> String {
    let mut numbers = run.iter().filter_map(|name| Numbered::of(name)).map(|name| name.digits).peekable();
    let mut text = String::new();
    while let Some(first) = numbers.next() {
        let mut last = first;
        // A range continues while the next number is what counting up yields.
        while let Some(next) = numbers.next_if(|next| follows(first, last, next)) {
            last = next;
        }
        let comma = if text.is_empty() { "" } else { "," };
        text.push_str(comma);
        text.push_str(first);
        if last != first {
            text.push('-');
            text.push_str(last);
        }
    }
    text
}

/// Whether `next` is the number after `last`, with at least as many digits as `first`.
fn follows(first: &str, last: &str, next: &str) -> bool {
    // Both have at most 18 digits, so the addition never overflows.
    let counted = last.parse::<u64>().map(|last| format!("{:0digits$}", last + 1, digits = first.len()));
    counted.is_ok_and(|counted| counted == next)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(text: &str) -> String {
        match text.parse::<HostList>() {
            Ok(hosts) => hosts.iter().collect::<Vec<_>>().join(" "),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn lists_unfold_in_their_order_with_their_zeros() {
        assert_eq!(read("a"), "a");
        assert_eq!(read("a,b[01-03,7],c[1-2]-x"), "a b01 b02 b03 b7 c1-x c2-x");
        assert_eq!(read("n[098-101]"), "n098 n099 n100 n101");
        assert_eq!(read("n[8-11]"), "n8 n9 n10 n11");
        assert_eq!(read("n[98-102]"), "n98 n99 n100 n101 n102");
        assert_eq!(read("n[5,3,4-4]"), "n5 n3 n4");
        assert_eq!(read("r[0-1]n[00-01].x"), "r0n00.x r0n01.x r1n00.x r1n01.x");
        assert_eq!(read("[1-2]"), "1 2");
        assert_eq!(read("you@a,a,fe80::1%eth0"), "you@a a fe80::1%eth0");
        assert_eq!(read("n+[1-2]_x,n_1"), "n+1_x n+2_x n_1");
        // The caller defines what a duplicate means.
        assert_eq!(read("n[1-2,2]"), "n1 n2 n2");
    }

    #[test]
    fn what_is_no_list_is_refused_with_what_is_wrong() {
        for empty in ["", ",", "a,", ",a", "a,,b"] {
            assert!(read(empty).starts_with("there is an empty name"), "{empty}");
        }
        for brackets in ["a[", "a]", "a[[1]]", "a[1", "a[1]]", "a[1,b", "a][1"] {
            assert!(read(brackets).starts_with("the brackets of `"), "{brackets}");
        }
        for range in
            ["[]", "[-]", "[1-]", "[-1]", "[2-1]", "[1-010]", "[01-2]", "[a]", "[1-2-3]", "[+1]", "[1,]"]
        {
            assert!(read(&format!("a{range}")).contains("` is no range of numbers"), "{range}");
        }
        for name in ["-oProxyCommand=x", "a b", " a", "a\n", "ä", "a/b", "a;b", "$(x)", "-[1-2]"] {
            assert!(read(name).contains("` is no name of a host"), "{name}");
        }
        assert_eq!(
            read("a\u{1b}[1-0]"),
            r"`1-0` of `a\u{1b}[1-0]` is no range of numbers: write such as 7 or 01-64, with at most 18 digits, the smaller number first, and as many digits in both if there are zeros before them"
        );
        assert!(read("a\u{1b}b").starts_with(r"`a\u{1b}b` is no name"));
    }

    #[test]
    fn a_short_text_never_becomes_a_long_list() {
        assert_eq!(read("a[0-65535]").split(' ').count(), HOSTS_MAX);
        let many = "there are too many hosts: 65536 are the most";
        assert_eq!(read("a[0-65536]"), many);
        assert_eq!(read("b,a[0-65535]"), many);
        assert_eq!(read("a[0-999999999999999999]"), many);
        assert_eq!(read(&format!("a{}", "[0-999999999999999999]".repeat(1_000))), many);
        assert_eq!(read(&format!("a{}", "[0-1]".repeat(17))), many);
        assert!(read("a[0-1000000000000000000]").contains("is no range"));
        assert!(read(&format!("a{}", "[1]".repeat(20_000))).contains("too long a name"));
        assert!(read(&"a".repeat(321)).ends_with("…` is too long a name of a host: 320 bytes are the most"));
        assert_eq!(
            read(&"a".repeat(TEXT_MAX + 1)),
            "the list of hosts is too long: 131072 bytes are the most"
        );
        assert_eq!(HostList::new([]), Err(HostListError::Empty));
        assert_eq!(HostList::new((0..).map(|id| format!("a{id}"))), Err(HostListError::Many));
        assert!(matches!(HostList::new(["a,b".to_owned()]), Err(HostListError::Name(_))));
    }

    #[test]
    fn neighbours_share_a_bracket() {
        let short = |names: &str| HostList::new(names.split(' ').map(str::to_owned)).unwrap().to_string();
        assert_eq!(short("a"), "a");
        assert_eq!(short("a1"), "a1");
        assert_eq!(short("n08 n09 n10 n70 m1 m2"), "n[08-10,70],m[1-2]");
        assert_eq!(short("n8 n9 n10"), "n[8-10]");
        assert_eq!(short("n9 n010"), "n[9,010]");
        assert_eq!(short("n2 n1 n1"), "n[2,1,1]");
        assert_eq!(short("r1n1.x r1n2.x r2n1.x"), "r1n[1-2].x,r2n1.x");
        let nines = "9".repeat(18);
        assert_eq!(
            short(&format!("a{nines} a1{}", "0".repeat(18))),
            format!("a{nines},a1{}", "0".repeat(18))
        );
    }

    /// Names with common parts, so that brackets occur.
    fn names() -> impl Strategy<Value = Vec<String>> {
        prop::collection::vec("[ab]{1,2}[0-9]{0,3}(-[xy]|[0-9]{20})?|a[0-2]|n0?[0-9]{1,2}", 1..40)
    }

    proptest! {
        #[test]
        fn a_list_reads_back_as_it_was_compressed(names in names()) {
            let hosts = HostList::new(names.clone()).unwrap();
            let text = hosts.to_string();
            prop_assert!(text.len() <= names.join(",").len() + 2 * names.len());
            prop_assert_eq!(text.parse(), Ok(hosts));
        }

        #[test]
        fn any_text_is_a_list_of_names_or_refused(text in "[ab0-9,\\[\\]\\-. é]{0,40}|\\PC{0,40}") {
            if let Ok(hosts) = text.parse::<HostList>() {
                prop_assert!((1..=HOSTS_MAX).contains(&hosts.len()));
                prop_assert!(hosts.iter().all(|name| check(name).is_ok()));
                prop_assert_eq!(hosts.to_string().parse(), Ok(hosts));
            }
        }
    }
}
