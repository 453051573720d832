//! PMI spawns: the blocks of lines of PMI-1, and the message of PMI-2. All specs of one spawn form one group.

use std::collections::BTreeMap;

use super::message::Fields;
use super::text::number;
use crate::request::{Pair, Request};
use crate::spec::{OnDeath, Readers, Spec};

/// Most specs of one spawn.
const SPECS_MAX: usize = 4096;

/// A spawn that is being received.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(super) struct Draft {
    specs: Vec<Spec>,
    /// Pairs to put before the start, from all blocks. A later value of a key replaces the earlier one.
    pairs: BTreeMap<Vec<u8>, Vec<u8>>,
    /// Pairs of the current block. Older clients of MPICH repeat them in every block, newer ones send them in the
    /// first.
    preputs: Names,
    /// The current spec.
    spec: Spec,
    info: Names,
    args: Option<u32>,
    /// Announced number of specs.
    total: Option<u32>,
    /// The first error found.
    wrong: Option<String>,
}

/// Names and values, received one by one.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
struct Names {
    names: Vec<Vec<u8>>,
    values: Vec<Vec<u8>>,
    count: Option<u32>,
}

impl Names {
    fn pairs(self, what: &str) -> Result<Vec<Pair>, String> {
        let said = self.count.is_none_or(|count| usize::try_from(count) == Ok(self.names.len()));
        if self.names.len() != self.values.len() || !said {
            return Err(format!("its {what} are not as many as it says"));
        }
        let pairs = self.names.into_iter().zip(self.values);
        Ok(pairs.map(|(key, value)| Pair { key, value }).collect())
    }
}

/// Whether a name is this stem followed by a number.
fn numbered(name: &[u8], stem: &[u8]) -> bool {
    let digits = name.strip_prefix(stem).unwrap_or_default();
    !digits.is_empty() && digits.iter().all(u8::is_ascii_digit)
}

impl Draft {
    fn wrong(&mut self, why: impl Into<String>) {
        self.wrong.get_or_insert(why.into());
    }

    fn count(&mut self, name: &str, value: &[u8]) -> Option<u32> {
        let count = number(value);
        if count.is_none() {
            self.wrong(format!("its {name} is no number"));
        }
        count
    }

    /// Handles a line of a PMI-1 block, except its first and last line.
    pub(super) fn line(&mut self, name: &[u8], value: &[u8]) {
        match name {
            b"nprocs" => self.spec.count = self.count("nprocs", value).unwrap_or_default(),
            b"execname" => self.spec.program = value.to_vec(),
            b"totspawns" => {
                let total = self.count("totspawns", value);
                if self.total.is_some() && self.total != total {
                    self.wrong("its blocks differ in how many there are");
                }
                self.total = total;
            }
            b"spawnssofar" => {
                let number = self.count("spawnssofar", value);
                if number.and_then(|number| usize::try_from(number).ok()) != Some(self.specs.len() + 1) {
                    self.wrong("its blocks are not in order");
                }
            }
            b"argcnt" => self.args = self.count("argcnt", value),
            b"preput_num" => self.preputs.count = self.count("preput_num", value),
            b"info_num" => self.info.count = self.count("info_num", value),
            name if numbered(name, b"arg") => self.spec.args.push(value.to_vec()),
            name if numbered(name, b"preput_key_") => self.preputs.names.push(value.to_vec()),
            name if numbered(name, b"preput_val_") => self.preputs.values.push(value.to_vec()),
            name if numbered(name, b"info_key_") => self.info.names.push(value.to_vec()),
            name if numbered(name, b"info_val_") => self.info.values.push(value.to_vec()),
            // Unknown lines are ignored: other clients may send more.
            _ => {}
        }
    }

    fn take_preputs(&mut self) {
        match std::mem::take(&mut self.preputs).pairs("keys to be put") {
            Ok(pairs) => self.pairs.extend(pairs.into_iter().map(|pair| (pair.key, pair.value))),
            Err(why) => self.wrong(why),
        }
    }

    /// Ends a block. Returns whether it was the last one.
    pub(super) fn end(&mut self) -> bool {
        let mut spec = std::mem::take(&mut self.spec);
        let (info, args) = (std::mem::take(&mut self.info), self.args.take());
        match info.pairs("info keys") {
            Ok(pairs) => {
                let named = |pair: Pair| (String::from_utf8_lossy(&pair.key).into_owned(), pair.value);
                spec.info = pairs.into_iter().map(named).collect();
            }
            Err(why) => self.wrong(why),
        }
        self.take_preputs();
        if args.is_some_and(|args| usize::try_from(args) != Ok(spec.args.len())) {
            self.wrong("its arguments are not as many as it says");
        }
        if spec.program.is_empty() {
            self.wrong("it names no program");
        }
        if self.total.is_none() {
            self.wrong("it does not say how many blocks there are");
        }
        if self.specs.len() == SPECS_MAX {
            self.wrong(format!("it has more than {SPECS_MAX} blocks"));
        }
        self.specs.push(spec);
        let total = self.total.and_then(|total| usize::try_from(total).ok()).unwrap_or_default();
        // After an error the number of further blocks is unknown; the client waits for an answer.
        self.specs.len() >= total || self.specs.len() > SPECS_MAX
    }

    /// Parses the PMI-2 spawn message.
    pub(super) fn of_message(fields: &Fields<'_>) -> Draft {
        let mut draft = Draft::default();
        let mut begun = false;
        for (name, value) in &fields.0 {
            match *name {
                b"ncmds" => draft.total = draft.count("ncmds", value),
                b"preputcount" => draft.preputs.count = draft.count("preputcount", value),
                name if numbered(name, b"ppkey") => draft.preputs.names.push(value.to_vec()),
                name if numbered(name, b"ppval") => draft.preputs.values.push(value.to_vec()),
                b"subcmd" => {
                    if begun {
                        draft.end();
                    }
                    begun = true;
                    draft.spec.program = value.to_vec();
                }
                b"maxprocs" => draft.spec.count = draft.count("maxprocs", value).unwrap_or_default(),
                b"argc" => draft.args = draft.count("argc", value),
                b"infokeycount" => draft.info.count = draft.count("infokeycount", value),
                name if numbered(name, b"argv") => draft.spec.args.push(value.to_vec()),
                name if numbered(name, b"infokey") => draft.info.names.push(value.to_vec()),
                name if numbered(name, b"infoval") => draft.info.values.push(value.to_vec()),
                _ => {}
            }
        }
        if begun {
            draft.end();
        }
        draft
    }

    /// The request.
    ///
    /// # Errors
    /// A short description of the error in the spawn.
    pub(super) fn request(self) -> Result<Request, String> {
        if let Some(wrong) = self.wrong {
            return Err(wrong);
        }
        if self.total.and_then(|total| usize::try_from(total).ok()) != Some(self.specs.len())
            || self.specs.is_empty()
        {
            return Err("its programs are not as many as it says".into());
        }
        let preputs = self.pairs.into_iter().map(|(key, value)| Pair { key, value }).collect();
        Ok(Request::SpawnMultiple {
            specs: self.specs,
            preputs,
            on_death: OnDeath::default(),
            input: Readers::None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pmi::text::split;

    /// A draft from lines, and whether the spawn is complete.
    fn of_lines(lines: &str) -> (Draft, bool) {
        let (mut draft, mut ended) = (Draft::default(), false);
        for line in lines.lines() {
            match line {
                "mcmd=spawn" => {}
                "endcmd" => ended = draft.end(),
                line => {
                    let (name, value) = split(line.as_bytes());
                    draft.line(name, value);
                }
            }
        }
        (draft, ended)
    }

    const TWO: &str = "mcmd=spawn\nnprocs=2\nexecname=./a b\ntotspawns=2\nspawnssofar=1\nargcnt=2\narg1=x y\narg2=\npreput_num=1\npreput_key_0=PARENT_ROOT_PORT_NAME\npreput_val_0=tag#0$x=1 $\ninfo_num=1\ninfo_key_0=wdir\ninfo_val_0=/tmp\nendcmd\nmcmd=spawn\nnprocs=1\nexecname=b\ntotspawns=2\nspawnssofar=2\nargcnt=0\ninfo_num=0\nendcmd\n";

    #[test]
    fn blocks_make_one_spawn() {
        let (draft, ended) = of_lines(TWO);
        assert!(ended);
        let first = Spec {
            count: 2,
            program: b"./a b".to_vec(),
            args: vec![b"x y".to_vec(), Vec::new()],
            info: vec![("wdir".into(), b"/tmp".to_vec())],
            ..Spec::default()
        };
        let second = Spec { count: 1, program: b"b".to_vec(), ..Spec::default() };
        let preput = Pair { key: b"PARENT_ROOT_PORT_NAME".to_vec(), value: b"tag#0$x=1 $".to_vec() };
        let expected = Request::SpawnMultiple {
            specs: vec![first, second],
            preputs: vec![preput],
            on_death: OnDeath::Kill,
            input: Readers::None,
        };
        assert_eq!(draft.request(), Ok(expected.clone()));
        let message = b"cmd=spawn;ncmds=2;preputcount=1;ppkey0=PARENT_ROOT_PORT_NAME;ppval0=tag#0$x=1 $;subcmd=./a b;maxprocs=2;argc=2;argv0=x y;argv1=;infokeycount=1;infokey0=wdir;infoval0=/tmp;subcmd=b;maxprocs=1;argc=0;";
        assert_eq!(Draft::of_message(&Fields::of(message).unwrap()).request(), Ok(expected));
    }

    /// Older clients of MPICH repeat the pairs to put in every block. The second block made the spawn fail, since its
    /// count was taken for that of all blocks.
    #[test]
    fn what_is_put_beforehand_may_stand_in_every_block() {
        let again = "argcnt=0\npreput_num=1\npreput_key_0=PARENT_ROOT_PORT_NAME\npreput_val_0=tag#0$x=1 $\n";
        let (first, _) = of_lines(TWO);
        for second in [again, "argcnt=0\npreput_num=0\n"] {
            let (draft, ended) = of_lines(&TWO.replace("argcnt=0\n", second));
            assert!(ended);
            assert_eq!(draft.request(), first.clone().request(), "{second}");
        }
        let (draft, _) = of_lines(&TWO.replace("argcnt=0\n", &again.replace("NAME", "OTHER")));
        let Ok(Request::SpawnMultiple { preputs, .. }) = draft.request() else { panic!() };
        assert_eq!(preputs.len(), 2);
    }

    #[test]
    fn what_makes_no_sense_is_said() {
        for (from, to, why) in [
            ("nprocs=2", "nprocs=two", "nprocs is no number"),
            ("nprocs=2", "nprocs=-1", "nprocs is no number"),
            ("execname=b\n", "", "names no program"),
            ("argcnt=2", "argcnt=4000000000", "arguments are not as many"),
            ("preput_num=1", "preput_num=2", "keys to be put are not as many"),
            ("preput_val_0=tag#0$x=1 $\n", "", "keys to be put are not as many"),
            ("info_num=1", "info_num=0", "info keys are not as many"),
            ("spawnssofar=2", "spawnssofar=3", "not in order"),
            ("totspawns=2\nspawnssofar=2", "totspawns=3\nspawnssofar=2", "differ in how many"),
        ] {
            let (draft, _) = of_lines(&TWO.replace(from, to));
            let said = draft.request().unwrap_err();
            assert!(said.contains(why), "{to}: {said}");
        }
        // Of several errors the first one is told.
        let (draft, _) = of_lines(&TWO.replace("nprocs=2", "nprocs=two").replace("execname=b\n", ""));
        assert!(draft.request().unwrap_err().contains("nprocs is no number"));
        let (draft, ended) = of_lines("nprocs=1\nexecname=a\nendcmd");
        assert!(ended && draft.request().unwrap_err().contains("how many blocks"));
        for message in [
            "cmd=spawn;",
            "cmd=spawn;ncmds=0;",
            "cmd=spawn;ncmds=2;subcmd=a;maxprocs=1;argc=0;",
            "cmd=spawn;subcmd=a;maxprocs=1;",
        ] {
            assert!(
                Draft::of_message(&Fields::of(message.as_bytes()).unwrap()).request().is_err(),
                "{message}"
            );
        }
    }

    #[test]
    fn blocks_have_a_bound() {
        let mut draft = Draft::default();
        draft.line(b"totspawns", b"4000000000");
        let blocks = (0..).take_while(|_| !draft.end()).count();
        assert_eq!(blocks, SPECS_MAX);
    }
}
