//! A registrant's data, and the result of their validation. Long data are validated before they reach the service,
//! because the service thread could answer no other request meanwhile.

use bytes::Bytes;
use chained_gpc::Shown;
use chained_gpc::wire::level::{Limits, validate};

use super::{Fault, FaultKind};

/// Data of a registrant. The service validates plain data ([`From`]) itself; callers validate long data with
/// [`RegistrantData::checked`].
#[derive(Clone, Debug)]
pub struct RegistrantData {
    pub(super) data: Bytes,
    /// The resource level for which the data were validated, and the result.
    checked: Option<(u16, Result<(), Fault>)>,
}

impl RegistrantData {
    /// Validates data for a resource of this level, in time proportional to their length. If the data are invalid, the
    /// service returns the fault at registration, unless it rejects the registration for another reason.
    pub fn checked(level: u16, data: Bytes) -> RegistrantData {
        let checked = Some((level, check(level, &data)));
        RegistrantData { data, checked }
    }

    /// The data.
    pub fn data(&self) -> &Bytes {
        &self.data
    }

    /// The resource level for which the data were validated.
    pub fn checked_for(&self) -> Option<u16> {
        self.checked.as_ref().map(|(level, _)| *level)
    }

    /// Checks that a resource of this level can take the data. Validates them unless that was done for this level.
    pub(super) fn fits(&self, level: u16) -> Result<(), Fault> {
        match &self.checked {
            Some((checked, found)) if *checked == level => found.clone(),
            _ => check(level, &self.data),
        }
    }
}

impl<T: Into<Bytes>> From<T> for RegistrantData {
    fn from(data: T) -> RegistrantData {
        RegistrantData { data: data.into(), checked: None }
    }
}

/// Validates data as level-n data of the level below. Level 0 is arbitrary bytes.
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

    /// One malformed registration of 64 MiB blocked all other callers for seconds, because the service thread validated
    /// it.
    #[test]
    fn data_are_validated_once_for_each_level() {
        let (whole, broken) = (Bytes::from_static(b"1 1 a"), Bytes::from_static(b"1 9 a"));
        // This value cannot be built outside the module. It shows that the data are not validated again.
        let believed = RegistrantData { data: broken.clone(), checked: Some((2, Ok(()))) };
        assert_eq!(believed.fits(2), Ok(()));
        for level in [3, 64] {
            assert_eq!(believed.fits(level).unwrap_err().kind, FaultKind::Malformed);
        }
        for data in [whole, broken] {
            for level in [0, 1, 2, 3] {
                let plain = RegistrantData::from(data.clone());
                assert_eq!(plain.checked_for(), None);
                for checked in [1, 2, 3] {
                    assert_eq!(RegistrantData::checked(checked, data.clone()).fits(level), plain.fits(level));
                }
            }
        }
        let broken = RegistrantData::checked(2, Bytes::from_static(b"1 9 a"));
        assert_eq!(broken.fits(2).unwrap_err().kind, FaultKind::Malformed);
    }
}
