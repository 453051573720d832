//! What a registrant brings, and whether that was looked at before it came to the service: looking at long data takes time, in which the service's one thread could answer nobody.

use bytes::Bytes;
use chained_gpc::Shown;
use chained_gpc::wire::level::{Limits, validate};

use super::{Fault, FaultKind};

/// What a registrant brings. Data as they are ([`From`]) are checked by the service; whoever has long ones checks them itself, with [`Brought::checked`].
#[derive(Clone, Debug)]
pub struct Brought {
    pub(super) data: Bytes,
    /// For which level of a resource they were checked, and what came of it.
    checked: Option<(u16, Result<(), Fault>)>,
}

impl Brought {
    /// Checks data for a resource of this level, which takes time that is in proportion to their length. What is wrong with them is said by the service when they are registered, unless it refuses them for another reason.
    pub fn checked(level: u16, data: Bytes) -> Brought {
        let checked = Some((level, check(level, &data)));
        Brought { data, checked }
    }

    /// The data.
    pub fn data(&self) -> &Bytes {
        &self.data
    }

    /// For which level of a resource they were checked.
    pub fn checked_for(&self) -> Option<u16> {
        self.checked.as_ref().map(|(level, _)| *level)
    }

    /// Whether a resource of this level can take them. Looks at the data unless that was done for this level.
    pub(super) fn fits(&self, level: u16) -> Result<(), Fault> {
        match &self.checked {
            Some((checked, found)) if *checked == level => found.clone(),
            _ => check(level, &self.data),
        }
    }
}

impl<T: Into<Bytes>> From<T> for Brought {
    fn from(data: T) -> Brought {
        Brought { data: data.into(), checked: None }
    }
}

/// What a registrant may bring: level-n data of the level below, which are bytes of any kind where that is 0.
fn check(level: u16, data: &[u8]) -> Result<(), Fault> {
    let below = level.saturating_sub(1);
    if below == 0 {
        return Ok(());
    }
    match validate(below, data, Limits::default()) {
        Ok(_) => Ok(()),
        Err(error) => {
            let message = format!(
                "the resource is of level {level}, so its registrants bring level-{below} data, and these are not: {}",
                Shown(&error.to_string())
            );
            Err(Fault::new(FaultKind::Malformed, message))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One malformed registration of 64 MiB held up everybody else for seconds, since the service's thread looked at it.
    #[test]
    fn data_are_looked_at_once_for_each_level() {
        let (whole, broken) = (Bytes::from_static(b"1 1 a"), Bytes::from_static(b"1 9 a"));
        // Nobody can make such a one: it shows that the data are not looked at again.
        let believed = Brought { data: broken.clone(), checked: Some((2, Ok(()))) };
        assert_eq!(believed.fits(2), Ok(()));
        for level in [3, 64] {
            assert_eq!(believed.fits(level).unwrap_err().kind, FaultKind::Malformed);
        }
        for data in [whole, broken] {
            for level in [0, 1, 2, 3] {
                let plain = Brought::from(data.clone());
                assert_eq!(plain.checked_for(), None);
                for checked in [1, 2, 3] {
                    assert_eq!(Brought::checked(checked, data.clone()).fits(level), plain.fits(level));
                }
            }
        }
        let broken = Brought::checked(2, Bytes::from_static(b"1 9 a"));
        assert_eq!(broken.fits(2).unwrap_err().kind, FaultKind::Malformed);
    }
}
