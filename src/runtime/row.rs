//! Rows of addresses: consecutive ids listen at addresses that follow a rule. Thousands of addresses take a few bytes
//! each, and each is made on demand.
//!
//! Processes that are started together receive the addresses of all in this form. With a table of one line for each
//! process, made, sent and read for every process, time and memory would grow with the square of their number. Never
//! does I/O.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::ops::Range;
use std::str::FromStr;
use std::sync::Arc;

use gpc_trees::Id;

use super::Address;
use crate::transport::UNIX_PATH;

/// Number of digits of the highest id.
const ID_DIGITS: usize = 10;

/// Maximum length of a text that an error quotes, characters.
const QUOTED_MAX: usize = 40;

/// Maximum length of a prefix of names, bytes: with the `@` of the text form and any id, the name is shorter than a
/// path may be.
const PREFIX_MAX: usize = UNIX_PATH - 1 - "@".len() - ID_DIGITS;

/// The addresses of consecutive ids.
///
/// As text: `names FIRST COUNT PREFIX`, `ports FIRST HOST-IP PORT PORT ...` or `host FIRST COUNT`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AddressRow {
    ids: Range<Id>,
    rule: Rule,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum Rule {
    /// A TCP port for each id, in order.
    Ports { host: IpAddr, ports: Arc<[u16]> },
    /// Abstract Unix sockets: the prefix, and the id in decimal.
    Names { prefix: Arc<str> },
    /// The network of the program.
    Host,
}

/// Why addresses or a text are not a valid row.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AddressRowError {
    /// The row would exceed the highest id.
    #[error("{count} ids from {first} on are more than there are")]
    Ids {
        /// The first id.
        first: Id,
        /// The number of ids.
        count: usize,
    },
    /// The system would truncate the names, or the text would not parse again.
    #[error("`{0}` begins no names of sockets: it must have 1 to {PREFIX_MAX} bytes, and no white space")]
    Prefix(String),
    /// Text of another form.
    #[error(
        "`{0}` is no row of addresses: write names FIRST COUNT PREFIX, ports FIRST HOST-IP PORT PORT ... or host FIRST COUNT"
    )]
    Text(String),
}

impl AddressRow {
    /// Creates a row of ids from `first` on that listen at TCP ports of one host.
    ///
    /// # Errors
    /// If there are more ports than ids.
    pub fn ports(first: Id, host: IpAddr, ports: Vec<u16>) -> Result<AddressRow, AddressRowError> {
        let count = ports.len();
        let end = Id::try_from(count).ok().and_then(|count| first.checked_add(count));
        let end = end.ok_or(AddressRowError::Ids { first, count })?;
        Ok(AddressRow { ids: first..end, rule: Rule::Ports { host, ports: ports.into() } })
    }

    /// Creates a row of ids that listen at abstract Unix sockets, whose names are `prefix` and the id in decimal.
    ///
    /// # Errors
    /// If the prefix is empty or has white space, or a name might be longer than the system allows.
    pub fn names(ids: Range<Id>, prefix: &str) -> Result<AddressRow, AddressRowError> {
        match prefix.len() {
            1..=PREFIX_MAX if !prefix.contains(char::is_whitespace) => {
                Ok(AddressRow { ids, rule: Rule::Names { prefix: prefix.into() } })
            }
            _ => Err(AddressRowError::Prefix(prefix.into())),
        }
    }

    /// Creates a row of ids that the [network of the program](crate::HostNetwork) reaches.
    pub fn host(ids: Range<Id>) -> AddressRow {
        AddressRow { ids, rule: Rule::Host }
    }

    /// The ids.
    pub fn ids(&self) -> Range<Id> {
        self.ids.clone()
    }

    /// The IP address of the host of all ids, if it is not surely this one.
    pub(super) fn remote_ip(&self) -> Option<IpAddr> {
        match self.rule {
            Rule::Ports { host, .. } => Address::Tcp(SocketAddr::new(host, 0)).remote_ip(),
            Rule::Names { .. } | Rule::Host => None,
        }
    }

    /// The address of an id; `None` if it is not in the row.
    pub fn address(&self, id: Id) -> Option<Address> {
        if !self.ids.contains(&id) {
            return None;
        }
        match &self.rule {
            Rule::Ports { host, ports } => {
                let port = ports.get((id - self.ids.start) as usize)?;
                Some(Address::Tcp(SocketAddr::new(*host, *port)))
            }
            Rule::Names { prefix } => Some(Address::Abstract(format!("{prefix}{id}"))),
            Rule::Host => Some(Address::Host),
        }
    }
}

impl fmt::Display for AddressRow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.rule {
            Rule::Names { prefix } => write!(f, "names {} {} {prefix}", self.ids.start, self.ids.len()),
            Rule::Host => write!(f, "host {} {}", self.ids.start, self.ids.len()),
            Rule::Ports { host, ports } => {
                write!(f, "ports {} {host}", self.ids.start)?;
                ports.iter().try_for_each(|port| write!(f, " {port}"))
            }
        }
    }
}

impl FromStr for AddressRow {
    type Err = AddressRowError;

    fn from_str(text: &str) -> Result<AddressRow, AddressRowError> {
        let no_row = || AddressRowError::Text(text.chars().take(QUOTED_MAX).collect());
        let mut words = text.split_ascii_whitespace();
        let (kind, first, third) = (words.next(), words.next(), words.next());
        let first: Id = first.and_then(|first| first.parse().ok()).ok_or_else(no_row)?;
        let third = third.ok_or_else(no_row)?;
        let ids = || {
            let count: u32 = third.parse().map_err(|_| no_row())?;
            let end = first.checked_add(count);
            end.map(|end| first..end).ok_or(AddressRowError::Ids { first, count: count as usize })
        };
        match kind {
            Some("names") => {
                let (Some(prefix), None) = (words.next(), words.next()) else { return Err(no_row()) };
                AddressRow::names(ids()?, prefix)
            }
            Some("host") if words.next().is_none() => ids().map(AddressRow::host),
            Some("ports") => {
                let host = third.parse().map_err(|_| no_row())?;
                let ports = words.map(str::parse).collect::<Result<_, _>>().map_err(|_| no_row())?;
                AddressRow::ports(first, host, ports)
            }
            _ => Err(no_row()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_row_has_an_address_for_each_of_its_ids() {
        let host = [127, 0, 0, 1].into();
        let ports = AddressRow::ports(3, host, vec![70, 80, 90]).unwrap();
        let names = AddressRow::names(3..6, "job-").unwrap();
        for (id, port, name) in [(3, "127.0.0.1:70", "unix:@job-3"), (5, "127.0.0.1:90", "unix:@job-5")] {
            assert_eq!(ports.address(id), Some(port.parse().unwrap()));
            assert_eq!(names.address(id), Some(name.parse().unwrap()));
        }
        for id in [0, 2, 6, Id::MAX] {
            assert_eq!((ports.address(id), names.address(id)), (None, None));
        }
        assert_eq!((ports.ids(), names.ids()), (3..6, 3..6));
    }

    #[test]
    fn text_of_another_form_is_rejected() {
        let host = [127, 0, 0, 1].into();
        let error = AddressRow::ports(Id::MAX - 1, host, vec![1, 2]).unwrap_err();
        assert_eq!(error.to_string(), "2 ids from 4294967294 on are more than there are");
        assert!(AddressRow::ports(Id::MAX, host, vec![]).unwrap().ids().is_empty());
        assert!(AddressRow::names(0..1, "").is_err());
        let longest = "a".repeat(96);
        let row = AddressRow::names(Id::MAX - 1..Id::MAX, &longest).unwrap();
        let address = row.address(Id::MAX - 1).unwrap();
        assert_eq!(address.to_string().parse(), Ok(address), "the longest name can be written, and read");
        let error = AddressRow::names(0..1, &"a".repeat(97)).unwrap_err();
        assert!(error.to_string().ends_with("must have 1 to 96 bytes, and no white space"), "{error}");
    }

    #[test]
    fn a_row_reads_as_it_prints() {
        for text in [
            "names 1 4095 gpc-7-",
            "names 4294967290 5 a",
            "ports 1 127.0.0.1 80 65535",
            "ports 7 ::1",
            "host 3 9",
        ] {
            assert_eq!(text.parse::<AddressRow>().unwrap().to_string(), text);
        }
        for text in [
            "",
            "names",
            "names 1 2",
            "names 1 2 a b",
            "names -1 2 a",
            "names 4294967290 6 a",
            "host 1",
            "host 1 2 3",
            "host 4294967290 6",
            "ports 1",
            "ports 1 here 80",
            "ports 1 127.0.0.1 65536",
            "ports 4294967295 127.0.0.1 1",
            "rows 1 2 a",
        ] {
            assert!(text.parse::<AddressRow>().is_err(), "{text}");
        }
    }

    proptest! {
        /// A row is equivalent to the list of its addresses, and no other text parses as one.
        #[test]
        fn a_row_is_a_list_of_addresses(
            first in prop_oneof![0..100u32, Id::MAX - 40..=Id::MAX],
            ports in vec(any::<u16>(), 0..50),
            prefix in "[a-z@-]{0,99}",
        ) {
            let host = IpAddr::from([127, 0, 0, 1]);
            let fits = u64::from(first) + ports.len() as u64 <= u64::from(Id::MAX);
            let row = AddressRow::ports(first, host, ports.clone());
            prop_assert_eq!(row.is_ok(), fits);
            if let Ok(row) = row {
                let model: BTreeMap<Id, Address> =
                    (first..).zip(ports).map(|(id, port)| (id, Address::Tcp((host, port).into()))).collect();
                prop_assert_eq!(row.ids().filter_map(|id| Some((id, row.address(id)?))).collect::<BTreeMap<_, _>>(), model);
                prop_assert_eq!(row.to_string().parse(), Ok(row.clone()));
                let names = AddressRow::names(row.ids(), &prefix);
                prop_assert_eq!(names.is_ok(), (1..=96).contains(&prefix.len()));
                if let Ok(names) = names {
                    prop_assert_eq!(names.to_string().parse(), Ok(names.clone()));
                    for id in names.ids() {
                        let address = names.address(id).unwrap();
                        prop_assert_eq!(address.to_string(), format!("unix:@{prefix}{id}"));
                        prop_assert_eq!(address.to_string().parse(), Ok(address));
                    }
                }
            }
        }

        #[test]
        fn any_text_is_a_row_or_refused(text in "(names|ports|x)( [0-9a-z.:]{0,11}){0,5}") {
            if let Ok(row) = text.parse::<AddressRow>() {
                prop_assert_eq!(row.to_string().parse(), Ok(row));
            }
        }
    }
}
