//! The outputs of a connection, in any protocol.

use bytes::Bytes;

use crate::domain::Serial;
use crate::pmi::NodeRequest;
use crate::request::Request;

/// An output of a connection.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ProtocolOutput {
    /// A request. Abort has no answer; every other request is answered once.
    Request(Serial, Request),
    /// A request among the processes of a group on one node: [`Attributes`](crate::pmi::Attributes) answers it, without
    /// the domain.
    NodeRequest(Serial, NodeRequest),
    /// Bytes for the client.
    Send(Bytes),
    /// A client on the port sends this secret to identify its process. Its bytes wait until
    /// [`Conversation::identified`](crate::protocol::Conversation::identified) is called.
    Identify(String),
    /// Close the connection, for this reason. No output follows.
    Close(String),
}
