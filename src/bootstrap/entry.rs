//! The entry of a process, which it publishes before it knows the others: its host, its addresses, and its public key.
//!
//! An entry is one line of text, which every launcher's space can carry: `1,HOST,REACH,KEY,ADDRESS,...`, where `-`
//! means no key. The reader trusts none of it: it checks every field and bounds its length.

use std::fmt;
use std::str::FromStr;

use gpc_trees::Id;

use super::variables::HOST_ADDRESS;
use crate::link::peering::PublicKey;
use crate::runtime::Address;
use crate::wire::Shown;

/// The version of the text.
const FORM: &str = "1";

/// Maximum number of addresses of one process.
pub const ADDRESSES_MAX: usize = 4;

/// Maximum length of a host name, bytes, as in the domain name system.
pub const HOST_MAX: usize = 255;

/// Maximum length of an address as text: the longest abstract name and its prefix.
const ADDRESS_MAX: usize = 128;

/// Maximum length of an entry, bytes.
pub const ENTRY_MAX: usize = 2 + HOST_MAX + 1 + 16 + 1 + 64 + ADDRESSES_MAX * (1 + ADDRESS_MAX);

/// The entry that a process publishes about itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    /// The name of its host, of letters, digits, `-`, `.` and `_`.
    pub host: String,
    /// A digest of machine and network namespace. Equal values mean that two processes reach each other over loopback
    /// addresses and abstract Unix sockets, as far as the system reports it.
    pub reach: u64,
    /// The public key of its node, for TCP.
    pub key: Option<PublicKey>,
    /// Where it listens: 1 to [`ADDRESSES_MAX`] addresses.
    pub addresses: Vec<Address>,
}

/// Text that is not an entry, and why.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("`{text}` is no entry of a process: {why}")]
pub struct EntryError {
    text: String,
    why: String,
}

impl Entry {
    /// Returns the address at which this process reaches another one.
    ///
    /// # Errors
    /// If there is none: the other process listens only on its own host, and this process is on another one.
    pub fn address_of(&self, id: Id, other: &Entry) -> Result<Address, String> {
        let beyond = other.addresses.iter().find(|address| !address.is_local());
        let local = other.addresses.iter().find(|address| address.is_local());
        let near = self.reach == other.reach;
        match if near { local.or(beyond) } else { beyond } {
            Some(address) => Ok(address.clone()),
            None => Err(format!(
                "id {id} on host {} listens for its own host alone, and this process on host {} is on another one or in another network namespace: name the address that others reach with {}",
                other.host, self.host, HOST_ADDRESS
            )),
        }
    }
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{FORM},{},{:016x},", self.host, self.reach)?;
        match self.key {
            Some(key) => write!(f, "{key}")?,
            None => f.write_str("-")?,
        }
        self.addresses.iter().try_for_each(|address| write!(f, ",{address}"))
    }
}

impl FromStr for Entry {
    type Err = EntryError;

    fn from_str(text: &str) -> Result<Entry, EntryError> {
        let error = |why: String| EntryError { text: Shown(text).to_string(), why };
        let fault = |why: &str| error(why.into());
        if text.len() > ENTRY_MAX {
            return Err(fault("it is too long"));
        }
        let mut words = text.split(',');
        if words.next() != Some(FORM) {
            return Err(fault("it is of another form: all processes run the same version"));
        }
        let host = words.next().filter(|host| is_host(host)).ok_or_else(|| fault("it names no host"))?;
        let reach = words.next().filter(|word| word.len() == 16 && !word.starts_with('+'));
        let reach = reach.and_then(|word| u64::from_str_radix(word, 16).ok());
        let reach = reach.ok_or_else(|| fault("it does not say what reaches it"))?;
        let key = match words.next() {
            None | Some("-") => None,
            Some(key) => Some(key.parse().map_err(|fault| error(format!("{fault}")))?),
        };
        let mut addresses = Vec::new();
        for address in words {
            if addresses.len() == ADDRESSES_MAX {
                return Err(fault("it has too many addresses"));
            }
            let plain = address.bytes().all(|byte| byte.is_ascii_graphic());
            match address.parse() {
                Ok(address) if plain => addresses.push(address),
                Ok(_) => return Err(fault("an address has letters that none should have")),
                Err(fault) => return Err(error(format!("{fault}"))),
            }
        }
        match addresses.is_empty() {
            true => Err(fault("it has no address")),
            false => Ok(Entry { host: host.into(), reach, key, addresses }),
        }
    }
}

/// Whether a text is a valid host name in an entry.
fn is_host(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    (1..=HOST_MAX).contains(&text.len()) && text.bytes().all(plain)
}

/// Converts a host name for an entry: other characters become `_`.
pub(super) fn host_name(name: &str) -> String {
    let plain = |character: char| match is_host(character.encode_utf8(&mut [0; 4])) {
        true => character,
        false => '_',
    };
    let name: String = name.trim().chars().map(plain).take(HOST_MAX).collect();
    if name.is_empty() { "unknown".into() } else { name }
}

#[cfg(test)]
pub(super) mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::link::peering::KEY_LENGTH;

    fn address() -> impl Strategy<Value = Address> {
        prop_oneof![
            "[a-z0-9.-]{1,100}".prop_map(Address::Abstract),
            any::<std::net::SocketAddrV4>().prop_map(|address| Address::Tcp(address.into())),
            any::<std::net::Ipv6Addr>().prop_map(|ip| Address::Tcp((ip, 7).into())),
        ]
    }

    pub(crate) fn entry() -> impl Strategy<Value = Entry> {
        let key = prop::option::of(any::<[u8; KEY_LENGTH]>().prop_map(PublicKey));
        let addresses = prop::collection::vec(address(), 1..=ADDRESSES_MAX);
        ("[A-Za-z0-9._-]{1,255}", any::<u64>(), key, addresses)
            .prop_map(|(host, reach, key, addresses)| Entry { host, reach, key, addresses })
    }

    #[test]
    fn the_faults_of_an_entry_are_named() {
        let fault = |text: &str| text.parse::<Entry>().unwrap_err().to_string();
        let reach = "0123456789abcdef";
        for (text, why) in [
            ("2,h", "another form"),
            ("1,", "names no host"),
            ("1,a b", "names no host"),
            ("1,h,12,-,127.0.0.1:1", "what reaches it"),
            (&format!("1,h,{reach},-"), "no address"),
            (&format!("1,h,{reach},xy,127.0.0.1:1"), "no public key"),
            (&format!("1,h,{reach},-,nowhere"), "is no address"),
            (&format!("1,h,{reach},-,unix:@a b"), "letters"),
            (&format!("1,h,{reach},-{}", ",127.0.0.1:1".repeat(5)), "too many"),
            (&"x".repeat(9999), "too long"),
        ] {
            assert!(fault(text).contains(why), "{}", fault(text));
        }
    }

    #[test]
    fn a_process_is_reached_where_it_can_be() {
        let entry = |host: &str, reach, addresses: &[&str]| Entry {
            host: host.into(),
            reach,
            key: None,
            addresses: addresses.iter().map(|address| address.parse().unwrap()).collect(),
        };
        let me = entry("a", 1, &["unix:@me"]);
        let at = |other: &Entry| me.address_of(5, other).map(|address| address.to_string());
        assert_eq!(at(&entry("a", 1, &["10.0.0.1:7", "unix:@x"])).unwrap(), "unix:@x");
        assert_eq!(at(&entry("a", 1, &["10.0.0.1:7"])).unwrap(), "10.0.0.1:7");
        assert_eq!(at(&entry("b", 2, &["unix:@x", "127.0.0.1:7", "10.0.0.1:7"])).unwrap(), "10.0.0.1:7");
        // The names of hosts decide nothing: containers of one host have one each, and machines may share one.
        assert_eq!(at(&entry("b", 1, &["10.0.0.1:7", "unix:@x"])).unwrap(), "unix:@x");
        assert_eq!(at(&entry("a", 2, &["unix:@x", "10.0.0.1:7"])).unwrap(), "10.0.0.1:7");
        let error = at(&entry("b", 2, &["unix:@x", "127.0.0.1:7"])).unwrap_err();
        assert!(error.starts_with("id 5 on host b listens for its own host alone"), "{error}");
        assert!(error.contains("host a") && error.contains("GPC_HOST_ADDRESS"), "{error}");
    }

    #[test]
    fn any_name_of_a_host_becomes_one() {
        for (name, host) in
            [("n17.cluster\n", "n17.cluster"), ("a b,c", "a_b_c"), ("", "unknown"), ("é", "_")]
        {
            assert_eq!(host_name(name), host);
        }
        assert_eq!(host_name(&"x".repeat(9999)).len(), HOST_MAX);
    }

    proptest! {
        #[test]
        fn an_entry_reads_as_it_is_written(entry in entry()) {
            let text = entry.to_string();
            prop_assert!(text.len() <= ENTRY_MAX);
            prop_assert!(text.bytes().all(|byte| byte.is_ascii_graphic() && !b"=;".contains(&byte)));
            prop_assert_eq!(text.parse(), Ok(entry));
        }

        #[test]
        fn any_text_is_an_entry_or_refused(text in "(1,)?[ -~]{0,60}(,[0-9a-f]{16},-,)?.{0,40}") {
            if let Ok(entry) = text.parse::<Entry>() {
                prop_assert_eq!(entry.to_string().parse(), Ok(entry));
            }
        }
    }
}
