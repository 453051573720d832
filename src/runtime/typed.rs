//! Functions, arguments, results and errors with types (feature `serde`): encoded with postcard.

use std::any::type_name;
use std::fmt::Display;

use gpc_trees::Id;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::call::Call;
use super::function_error::WithCode;
use super::functions::Functions;
use super::functions_error::FunctionsError;
use super::handles::FuncHandle;
use super::outcome::{Outcome, RepliesError};
use super::request::Request;
use crate::wire::Cause;

/// A value that cannot be encoded, or bytes that are no value of a type.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TypedError {
    /// The value cannot be encoded.
    #[error("a value of the type {of} cannot be encoded: {why}")]
    Encode {
        /// The type.
        of: &'static str,
        /// The reason.
        why: postcard::Error,
    },
    /// The bytes are no value of the type.
    #[error("{what} is no value of the type {of} ({why}): both sides must use the same type")]
    Decode {
        /// The bytes, in words.
        what: String,
        /// The type.
        of: &'static str,
        /// The reason.
        why: String,
    },
    /// The replies are not valid.
    #[error(transparent)]
    Replies(#[from] RepliesError),
}

impl Functions {
    /// Registers a func whose argument and result have types: it gets the decoded [data](Request::data) of the request,
    /// and its result is the data of the reply. An error fails the call: its text is the message of the
    /// [`Cause`], and [`Cause::typed`] gives the error itself, if it takes at most
    /// [`DETAIL_MAX`](crate::wire::DETAIL_MAX) bytes.
    ///
    /// The types are not sent: all processes must use the same ones. Bytes that do not fit a type, or are left over,
    /// are an error that names the type.
    ///
    /// ```
    /// use std::fmt;
    ///
    /// use chained_gpc::{Call, Functions, LinkKind, LocalNodes};
    /// use serde::{Deserialize, Serialize};
    ///
    /// #[derive(Serialize, Deserialize)]
    /// struct Key {
    ///     table: String,
    ///     row: u64,
    /// }
    ///
    /// #[derive(Serialize, Deserialize, PartialEq, Debug)]
    /// enum LookUpError {
    ///     NoTable(String),
    /// }
    ///
    /// impl fmt::Display for LookUpError {
    ///     fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    ///         let LookUpError::NoTable(table) = self;
    ///         write!(f, "no table is named {table}")
    ///     }
    /// }
    ///
    /// let functions = Functions::new();
    /// let lookup = functions.typed("lookup", |request, key: Key| match key.table.as_str() {
    ///     "squares" => Ok((request.me(), key.row * key.row)),
    ///     _ => Err(LookUpError::NoTable(key.table)),
    /// })?;
    /// let nodes = LocalNodes::start(3, LinkKind::Unix, &functions)?;
    /// let call = |table: &str| {
    ///     let key = Key { table: table.into(), row: 7 };
    ///     let call = Call::new(lookup).ids(0..3).typed(&key)?;
    ///     nodes.root().call(call)?.wait().map_err(Box::<dyn std::error::Error>::from)
    /// };
    /// assert_eq!(call("squares")?.typed::<(u32, u64)>()?, [(0, (0, 49)), (1, (1, 49)), (2, (2, 49))]);
    ///
    /// let error = call("cubes").unwrap_err();
    /// let error = error.downcast::<chained_gpc::CallError>()?;
    /// let cause = error.cause().expect("the call failed at an id");
    /// assert_eq!(cause.typed::<LookUpError>()?, LookUpError::NoTable("cubes".into()));
    /// assert_eq!(cause.message, "no table is named cubes");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As for [`func`](Self::func).
    pub fn typed<A, R, E, F>(&self, name: &str, func: F) -> Result<FuncHandle, FunctionsError>
    where
        A: DeserializeOwned,
        R: Serialize,
        E: Display + Serialize,
        F: Fn(&Request<'_>, A) -> Result<R, E> + Send + Sync + 'static,
    {
        self.func(name, move |request, reply| {
            let argument = decode(request.data(), || "the data of the request".into())?;
            match func(request, argument) {
                Ok(result) => reply.data = encode(&result)?,
                Err(error) => return Err(WithCode::new(0, error.to_string()).detail(encode(&error)?).into()),
            }
            Ok(())
        })
    }
}

impl Call {
    /// Sets the data of the request: the argument of a [typed](Functions::typed) func.
    ///
    /// # Errors
    /// [`TypedError::Encode`].
    pub fn typed<A: Serialize + ?Sized>(self, argument: &A) -> Result<Call, TypedError> {
        Ok(self.data(encode(argument)?))
    }
}

impl Outcome {
    /// The results of a [typed](Functions::typed) func, in the caller's order. With a callback there is one, that of
    /// the root.
    ///
    /// # Errors
    /// [`TypedError::Decode`], with the first id whose reply is of another type; [`TypedError::Replies`].
    pub fn typed<R: DeserializeOwned>(&self) -> Result<Vec<(Id, R)>, TypedError> {
        let replies = self.replies_ref()?.into_iter();
        replies
            .map(|reply| Ok((reply.id, decode(reply.data, || format!("the reply of id {}", reply.id))?)))
            .collect()
    }
}

impl Cause {
    /// The error that a [typed](Functions::typed) func has returned.
    ///
    /// # Errors
    /// [`TypedError::Decode`] if the cause has another error: the function is not typed, its error was too long to be
    /// sent, or the id failed otherwise.
    pub fn typed<E: DeserializeOwned>(&self) -> Result<E, TypedError> {
        decode(&self.detail, || format!("the detail of the cause of id {}", self.id))
    }
}

fn encode<T: Serialize + ?Sized>(value: &T) -> Result<Vec<u8>, TypedError> {
    postcard::to_stdvec(value).map_err(|why| TypedError::Encode { of: type_name::<T>(), why })
}

fn decode<T: DeserializeOwned>(bytes: &[u8], what: impl FnOnce() -> String) -> Result<T, TypedError> {
    let why = match postcard::take_from_bytes(bytes) {
        Ok((value, [])) => return Ok(value),
        Ok((_, rest)) => format!("{} of {} bytes are left over", rest.len(), bytes.len()),
        Err(error) => error.to_string(),
    };
    Err(TypedError::Decode { what: what(), of: type_name::<T>(), why })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_of_another_type_are_refused_with_its_name() {
        let bytes = encode(&(300_u32, "abc")).unwrap();
        let what = || "it".to_owned();
        assert_eq!(decode::<(u32, String)>(&bytes, what), Ok((300, "abc".into())));
        let error = decode::<u32>(&bytes, what).unwrap_err().to_string();
        assert_eq!(
            error,
            "it is no value of the type u32 (4 of 6 bytes are left over): both sides must use the same type"
        );
        for len in 0..bytes.len() {
            assert!(decode::<(u32, String)>(&bytes[..len], what).is_err(), "{len}");
        }
    }

    /// The length of a list is announced by a peer, so no memory is allocated for it.
    #[test]
    fn an_announced_length_takes_no_memory() {
        let longest = encode(&u64::MAX).unwrap();
        assert!(decode::<Vec<[u64; 4]>>(&longest, || "it".into()).is_err());
        assert!(decode::<String>(&longest, || "it".into()).is_err());
    }
}
