//! What the programs of a group on one node need: a PMIx server, or another MPI than the others have.

use crate::open_mpi::{mixture, refusal};
use crate::spec::{Mpi, PmixNeed, Spec};
use crate::start_error::StartError;
use crate::supervisor::ProgramFacts;

/// What is known of the programs so far.
#[derive(Default, Debug)]
pub(super) struct MpiFacts {
    pub(super) need: PmixNeed,
    open_mpi: Option<String>,
    mpich: Option<String>,
}

impl MpiFacts {
    /// Adds a program.
    ///
    /// # Errors
    /// It needs a server that it does not get, or has another MPI than an earlier one.
    pub(super) fn add(
        &mut self,
        spec: &Spec,
        found: ProgramFacts,
        is_available: bool,
    ) -> Result<(), StartError> {
        let never = spec.hint("pmix") == Some(b"never");
        if let Some(library) = found.open_mpi.as_ref().filter(|_| never || !is_available) {
            return Err(refusal(library, is_available));
        }
        self.open_mpi = self.open_mpi.take().or(found.open_mpi);
        self.mpich = self.mpich.take().or(found.mpich);
        if let (Some(open_mpi), Some(mpich)) = (&self.open_mpi, &self.mpich) {
            return Err(mixture(open_mpi, mpich));
        }
        if is_available && !never {
            self.need = self.need.max(found.need);
        }
        Ok(())
    }

    /// The MPI of the programs.
    pub(super) fn mpi(self) -> Option<Mpi> {
        let open = self.open_mpi.map(|library| Mpi { open: true, library });
        open.or(self.mpich.map(|library| Mpi { open: false, library }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(open_mpi: Option<&str>, mpich: Option<&str>, need: PmixNeed) -> ProgramFacts {
        ProgramFacts {
            open_mpi: open_mpi.map(Into::into),
            mpich: mpich.map(Into::into),
            need,
            own_pmix: None,
        }
    }

    fn hinted(hint: Option<&str>) -> Spec {
        let info = hint.map(|hint| ("pmix".to_owned(), hint.as_bytes().to_vec()));
        Spec { info: info.into_iter().collect(), ..Spec::default() }
    }

    #[test]
    fn the_greatest_need_counts_where_a_server_is_available() {
        let mut all = MpiFacts::default();
        for need in [PmixNeed::Maybe, PmixNeed::Sure, PmixNeed::No] {
            all.add(&hinted(None), facts(None, None, need), true).unwrap();
        }
        assert_eq!((all.need, all.mpi()), (PmixNeed::Sure, None));
        let mut none = MpiFacts::default();
        none.add(&hinted(None), facts(None, None, PmixNeed::Maybe), false).unwrap();
        none.add(&hinted(Some("never")), facts(None, None, PmixNeed::Sure), true).unwrap();
        assert_eq!(none.need, PmixNeed::No);
    }

    #[test]
    fn open_mpi_without_a_server_and_two_mpis_in_one_world_are_refused() {
        let open = || facts(Some("libmpi.so.40"), None, PmixNeed::Sure);
        let why = |spec: Spec, available| MpiFacts::default().add(&spec, open(), available).unwrap_err().why;
        assert!(why(hinted(Some("never")), true).contains("(libmpi.so.40)"));
        assert!(why(hinted(Some("never")), true).contains("`--pmix never`"));
        assert!(why(hinted(None), false).contains("without the feature `pmix`"));
        let mpich = || facts(None, Some("libmpich.so.12"), PmixNeed::No);
        for (found, open) in [(open(), true), (mpich(), false)] {
            let mut one = MpiFacts::default();
            one.add(&hinted(None), found, true).unwrap();
            assert_eq!(one.mpi().map(|mpi| mpi.open), Some(open));
        }
        for pair in [[open(), mpich()], [mpich(), open()]] {
            let mut all = MpiFacts::default();
            let [first, second] = pair;
            all.add(&hinted(None), first, true).unwrap();
            let error = all.add(&hinted(None), second, true).unwrap_err();
            assert!(
                error.why.contains("(libmpich.so.12)") && error.why.contains("one world"),
                "{}",
                error.why
            );
        }
    }
}
