//! Versions of the protocol, and the division of the clients' concatenated version lists.

/// A version of the protocol.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Version {
    /// Number before the point.
    pub major: u32,
    /// Number after the point.
    pub minor: u32,
}

/// Major number by which clients of this project recognize each other. They support version 0.0 as well.
pub const PRIVATE_MAJOR: u32 = 0x4750_4300;

impl Version {
    /// The version that every client supports.
    pub const MANDATORY: Version = Version { major: 0, minor: 0 };

    /// The version of this project's clients.
    pub const OWN: Version = Version { major: PRIVATE_MAJOR, minor: 1 };

    /// Decodes a version.
    fn of(word: [u8; 8]) -> Version {
        let number = u64::from_be_bytes(word);
        Version { major: (number >> 32) as u32, minor: number as u32 }
    }

    /// Encodes a list of versions.
    pub fn to_bytes(versions: &[Version]) -> Vec<u8> {
        versions
            .iter()
            .flat_map(|version| [version.major.to_be_bytes(), version.minor.to_be_bytes()].concat())
            .collect()
    }
}

impl std::fmt::Display for Version {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// The bytes are not valid version lists.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum VersionsError {
    /// The length is not a multiple of 8 bytes, the size of a version.
    #[error("{0} bytes are not a number of versions of 8 bytes each")]
    Length(usize),
    /// A list does not begin with 0.0.
    #[error("the list begins with version {0}, not with 0.0, which each client speaks")]
    First(Version),
    /// A list does not ascend.
    #[error("version {next} comes after {before}: each list ascends")]
    Order {
        /// A version.
        before: Version,
        /// The next version, which is not higher.
        next: Version,
    },
    /// The number of lists differs from the number of clients.
    #[error("there are the versions of {found} clients, and {clients} have sent theirs")]
    Clients {
        /// Number of lists.
        found: usize,
        /// Number of clients.
        clients: usize,
    },
}

/// Divides the concatenated versions of `clients` clients. Each list ascends strictly from 0.0, so a 0.0 begins the
/// next list. Memory is bounded by the number of clients.
///
/// # Errors
/// Returns the first fault.
pub fn divide(bytes: &[u8], clients: usize) -> Result<Vec<Vec<Version>>, VersionsError> {
    let (words, rest) = bytes.as_chunks::<8>();
    if !rest.is_empty() {
        return Err(VersionsError::Length(bytes.len()));
    }
    let all = || words.iter().map(|word| Version::of(*word));
    let found = all().filter(|version| *version == Version::MANDATORY).count();
    if found > clients {
        return Err(VersionsError::Clients { found, clients });
    }
    let mut lists: Vec<Vec<Version>> = Vec::new();
    for next in all() {
        match lists.last_mut().and_then(|list| list.last().copied().map(|before| (list, before))) {
            _ if next == Version::MANDATORY => lists.push(vec![next]),
            None => return Err(VersionsError::First(next)),
            Some((list, before)) if before < next => list.push(next),
            Some((_, before)) => return Err(VersionsError::Order { before, next }),
        }
    }
    match found == clients {
        true => Ok(lists),
        false => Err(VersionsError::Clients { found, clients }),
    }
}

/// Checks that these are the versions of one client: strictly ascending from 0.0. Allocates no memory.
///
/// # Errors
/// Returns the first fault.
pub fn ascending(bytes: &[u8]) -> Result<(), VersionsError> {
    let (words, rest) = bytes.as_chunks::<8>();
    if !rest.is_empty() {
        return Err(VersionsError::Length(bytes.len()));
    }
    let mut versions = words.iter().map(|word| Version::of(*word));
    let mut before = match versions.next() {
        Some(Version::MANDATORY) => Version::MANDATORY,
        Some(first) => return Err(VersionsError::First(first)),
        None => return Err(VersionsError::Clients { found: 0, clients: 1 }),
    };
    for next in versions {
        if next <= before {
            return Err(VersionsError::Order { before, next });
        }
        before = next;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn version(major: u32, minor: u32) -> Version {
        Version { major, minor }
    }

    #[test]
    fn lists_are_told_apart_by_their_first_version() {
        let lists = vec![
            vec![version(0, 0), Version::OWN],
            vec![version(0, 0)],
            vec![version(0, 0), version(0, 1), version(1, 0)],
        ];
        let bytes = Version::to_bytes(&lists.concat());
        assert_eq!(divide(&bytes, 3), Ok(lists));
        assert_eq!(divide(&[], 0), Ok(Vec::new()));
    }

    #[test]
    fn what_is_wrong_with_them_is_said() {
        let said = |versions: &[Version], clients| {
            divide(&Version::to_bytes(versions), clients).unwrap_err().to_string()
        };
        assert!(said(&[version(1, 0)], 1).contains("begins with version 1.0"));
        assert!(said(&[version(0, 0), version(1, 1), version(1, 0)], 1).contains("1.0 comes after 1.1"));
        assert!(said(&[version(0, 0), version(1, 1), version(1, 1)], 1).contains("1.1 comes after 1.1"));
        assert!(said(&[version(0, 0), version(0, 0)], 1).contains("of 2 clients, and 1 have"));
        assert_eq!(divide(&[0; 9], 1), Err(VersionsError::Length(9)));
        assert_eq!(divide(&[], 1), Err(VersionsError::Clients { found: 0, clients: 1 }));
    }

    #[test]
    fn the_versions_of_one_client_ascend_from_the_first() {
        let said =
            |versions: &[Version]| ascending(&Version::to_bytes(versions)).map_err(|error| error.to_string());
        assert_eq!(said(&[version(0, 0)]), Ok(()));
        assert_eq!(said(&[version(0, 0), version(0, 1), Version::OWN]), Ok(()));
        assert!(said(&[]).unwrap_err().contains("of 0 clients"));
        assert!(said(&[version(0, 1)]).unwrap_err().contains("begins with version 0.1"));
        assert!(said(&[version(0, 0), version(0, 0)]).unwrap_err().contains("0.0 comes after 0.0"));
        assert!(
            said(&[version(0, 0), version(2, 0), version(1, 9)]).unwrap_err().contains("1.9 comes after 2.0")
        );
        assert_eq!(ascending(&[0; 12]), Err(VersionsError::Length(12)));
    }
}
