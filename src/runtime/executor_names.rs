//! The names of a node's executors, and the classes of workers that follow from them.

use super::functions::Functions;
use super::placement::Placement;
use super::{metrics_function, recorder_function};
use crate::wire::message::Classes;

/// Maximum number of named executors: a node has a few. A class is one of 64 bits, and the default workers are one
/// class.
pub(super) const EXECUTORS_MAX: usize = 63;

/// The names of a node's executors. The class of each is its index, from 1 on; the class behind them is that of the
/// [recorder's function](recorder_function), which never waits behind another one.
#[derive(Clone, Debug, Default)]
pub(super) struct ExecutorNames(pub(super) Vec<String>);

impl ExecutorNames {
    /// The class of a placement; `None` if there is no such executor.
    pub(super) fn class(&self, placement: &Placement) -> Option<u8> {
        match placement {
            Placement::Default | Placement::Inline => Some(0),
            Placement::Executor(name) => {
                let place = self.0.iter().position(|known| known == name)?;
                Some(place as u8 + 1)
            }
        }
    }

    /// The classes of workers that run these functions. A function of an executor that this node lacks is rejected when
    /// it should run.
    pub(super) fn classes(&self, functions: &Functions, func: u64, callback: Option<u64>) -> Classes {
        let others =
            || functions.classes(func, callback, |placement| self.class(placement).unwrap_or_default());
        self.recorder_class(func).unwrap_or_else(others)
    }

    /// The class of the recorder's function, if it is that.
    pub(super) fn recorder_class(&self, func: u64) -> Option<Classes> {
        let reports = [recorder_function::NUMBER, metrics_function::NUMBER];
        reports.contains(&func).then(|| Classes { func: self.0.len() as u8 + 1, callback: 0 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_workers_are_the_first_class_and_each_executor_has_the_next() {
        let names = ExecutorNames(vec!["io".into(), "solve".into()]);
        let at = |name: &'static str| names.class(&Placement::Executor(name.into()));
        assert_eq!([at("io"), at("solve"), at("else")], [Some(1), Some(2), None]);
        assert_eq!(
            [Placement::Default, Placement::Inline].map(|placement| names.class(&placement)),
            [Some(0); 2]
        );
        let functions = Functions::new();
        let func = functions.at(Placement::Executor("solve".into())).func("f", |_, _| Ok(())).unwrap();
        let lacks = functions.at(Placement::Executor("else".into())).func("g", |_, _| Ok(())).unwrap();
        assert_eq!(
            names.classes(&functions, func.number(), Some(lacks.number())),
            Classes { func: 2, callback: 0 }
        );
    }
}
