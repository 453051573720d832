//! Arrays of numbers as data: little-endian, and borrowed where the bytes are aligned.

use std::borrow::Cow;

use super::call::Call;
use super::outcome::{IdReply, Outcome, ReplyRef};
use super::request::{ChildReply, Request};
use crate::reduce::{Number, ReductionError, bytes_of, numbers};

impl Call {
    /// Sets the [data](Self::data) of the request to these numbers.
    pub fn numbers<T: Number>(self, numbers: &[T]) -> Call {
        self.data(bytes_of(numbers))
    }
}

impl<'a> Request<'a> {
    /// The [data](Self::data) of the request as numbers: borrowed if they are aligned, otherwise copied.
    ///
    /// ```
    /// use chained_gpc::reduce::bytes_of;
    /// use chained_gpc::{Call, Functions, LinkKind, LocalNodes};
    ///
    /// let functions = Functions::new();
    /// let scale = functions.func("scale", |request, reply| {
    ///     let factor = f64::from(request.me());
    ///     let scaled: Vec<f64> = request.numbers::<f64>()?.iter().map(|number| number * factor).collect();
    ///     reply.data = bytes_of(&scaled);
    ///     Ok(())
    /// })?;
    /// let nodes = LocalNodes::start(3, LinkKind::Unix, &functions)?;
    /// let outcome = nodes.root().call(Call::new(scale).ids(0..3).numbers(&[1.5, -1.0]))?.wait()?;
    /// assert_eq!(*outcome.reply(2).expect("it is done").numbers::<f64>()?, [3.0, -2.0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The data are not whole numbers.
    pub fn numbers<T: Number>(&self) -> Result<Cow<'a, [T]>, ReductionError> {
        numbers(self.data())
    }
}

impl<'a> ChildReply<'a> {
    /// The data of the reply as numbers.
    ///
    /// # Errors
    /// As for [`Request::numbers`].
    pub fn numbers<T: Number>(&self) -> Result<Cow<'a, [T]>, ReductionError> {
        numbers(self.data)
    }
}

impl<'a> ReplyRef<'a> {
    /// The data of the reply as numbers.
    ///
    /// # Errors
    /// As for [`Request::numbers`].
    pub fn numbers<T: Number>(&self) -> Result<Cow<'a, [T]>, ReductionError> {
        numbers(self.data)
    }
}

impl IdReply {
    /// The data of the reply as numbers.
    ///
    /// # Errors
    /// As for [`Request::numbers`].
    pub fn numbers<T: Number>(&self) -> Result<Cow<'_, [T]>, ReductionError> {
        numbers(&self.data)
    }
}

impl Outcome {
    /// The data of a call with a callback as numbers: the result of a [`Reduction`](crate::reduce::Reduction).
    ///
    /// # Errors
    /// As for [`Request::numbers`].
    pub fn numbers<T: Number>(&self) -> Result<Cow<'_, [T]>, ReductionError> {
        numbers(self.data())
    }
}
