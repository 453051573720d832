//! The commands by which a broadcast goes through nodes of the clients: of this project, and sent only among those who have named [`PRIVATE_MAJOR`](super::PRIVATE_MAJOR). `docs/impi-wire.md` has them byte by byte.
//!
//! They go beyond the source.

use std::net::Ipv6Addr;

use bytes::{BufMut, Bytes, BytesMut};

use super::Label;

const RELAY: u32 = 0x4750_5231;
const NODE: u32 = 0x4750_4E31;
const NODES: u32 = 0x4750_4C31;
const BROADCAST: u32 = 0x4750_4231;
const REACHED: u32 = 0x4750_4431;

/// Longest name of a tree, bytes: `kary:4294967295` has 15, and costs of links some more.
pub const TREE_MAX: usize = 64;

/// Bytes of a job.
pub const JOB_LEN: usize = 16;

/// One of these commands.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Relay {
    /// RELAY, from the server: broadcasts are to go along this tree; where does the client's node listen?
    Tree(String),
    /// NODE, from a client: there; `None` where it has none.
    Node(Option<NodeAt>),
    /// NODES, from the server: the job of all nodes, and by client rank where they listen.
    Nodes {
        /// The job.
        job: [u8; JOB_LEN],
        /// One for each client.
        nodes: Vec<Option<NodeAt>>,
    },
    /// BROADCAST, from the server to one client: the payload of a COLL, for all nodes.
    Broadcast(Bytes),
    /// REACHED, from that client: the clients, it being one of them, that have the values of this label.
    Reached(Label, u32),
}

/// Where a client's node listens.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NodeAt {
    /// Its address; IPv4 as `::ffff:a.b.c.d`.
    pub address: Ipv6Addr,
    /// Its TCP port, not 0.
    pub port: u16,
    /// The key that it is known by, not all zero.
    pub key: Option<[u8; 32]>,
}

/// A payload that is none of its command.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RelayError {
    /// Its length.
    #[error("{command} with {found} bytes, and it has {expected}")]
    Length {
        /// The command.
        command: &'static str,
        /// How long it may be.
        expected: &'static str,
        /// How long it is.
        found: usize,
    },
    /// A name that no tree has.
    #[error("RELAY names the tree `{0}`, which is none of the built-in ones")]
    Tree(String),
    /// Where nothing listens.
    #[error(
        "{command} says that a node listens at {address}, port {port}: an address is not all zero, and ports are 1 to 65535"
    )]
    Address {
        /// The command.
        command: &'static str,
        /// The address.
        address: Ipv6Addr,
        /// The port.
        port: u32,
    },
}

impl NodeAt {
    /// Bytes of one.
    pub const LEN: usize = 52;

    fn put(node: Option<&NodeAt>, bytes: &mut BytesMut) {
        let Some(node) = node else { return bytes.put_bytes(0, NodeAt::LEN) };
        bytes.put_slice(&node.address.octets());
        bytes.put_u32(node.port.into());
        bytes.put_slice(&node.key.unwrap_or([0; 32]));
    }

    /// `None` for zeros.
    fn read(command: &'static str, bytes: &[u8; NodeAt::LEN]) -> Result<Option<NodeAt>, RelayError> {
        if *bytes == [0; NodeAt::LEN] {
            return Ok(None);
        }
        let address =
            bytes.first_chunk::<16>().map_or(Ipv6Addr::UNSPECIFIED, |octets| Ipv6Addr::from(*octets));
        let port = bytes[16..].first_chunk().map_or(0, |port| u32::from_be_bytes(*port));
        let key = bytes.last_chunk::<32>().copied().filter(|key| *key != [0; 32]);
        let nowhere =
            address.is_unspecified() || address.to_ipv4_mapped().is_some_and(|it| it.is_unspecified());
        match u16::try_from(port) {
            Ok(port @ 1..) if !nowhere => Ok(Some(NodeAt { address, port, key })),
            _ => Err(RelayError::Address { command, address, port }),
        }
    }
}

impl Relay {
    /// The name of such a command by its number.
    pub fn name_of(number: u32) -> Option<&'static str> {
        Some(match number {
            RELAY => "RELAY",
            NODE => "NODE",
            NODES => "NODES",
            BROADCAST => "BROADCAST",
            REACHED => "REACHED",
            _ => return None,
        })
    }

    /// The number of this one.
    pub fn number(&self) -> u32 {
        match self {
            Relay::Tree(_) => RELAY,
            Relay::Node(_) => NODE,
            Relay::Nodes { .. } => NODES,
            Relay::Broadcast(_) => BROADCAST,
            Relay::Reached(..) => REACHED,
        }
    }

    /// The command, with its head.
    pub fn to_bytes(&self) -> Bytes {
        let mut payload = BytesMut::new();
        match self {
            Relay::Tree(tree) => payload.put_slice(tree.as_bytes()),
            Relay::Node(None) => {}
            Relay::Node(node) => NodeAt::put(node.as_ref(), &mut payload),
            Relay::Nodes { job, nodes } => {
                payload.put_slice(job);
                nodes.iter().for_each(|node| NodeAt::put(node.as_ref(), &mut payload));
            }
            Relay::Broadcast(values) => payload.put_slice(values),
            Relay::Reached(label, mask) => {
                payload.put_u32(label.0);
                payload.put_u32(*mask);
            }
        }
        [&head(self.number(), payload.len())[..], &payload].concat().into()
    }

    /// The head of a BROADCAST, whose payload is that of a COLL and need not be copied.
    pub fn broadcast_head(payload: usize) -> Bytes {
        Bytes::copy_from_slice(&head(BROADCAST, payload))
    }

    /// Of the number in a head, and the payload; `None` where the number is that of another command. Nothing is stored that is longer than the payload.
    pub fn read(number: u32, payload: &Bytes) -> Option<Result<Relay, RelayError>> {
        let command = Relay::name_of(number)?;
        let wrong = |expected| Err(RelayError::Length { command, expected, found: payload.len() });
        Some(match number {
            RELAY => tree(payload),
            NODE if payload.is_empty() => Ok(Relay::Node(None)),
            // A client that has none says it without a payload, so that there is one way.
            NODE => match <&[u8; NodeAt::LEN]>::try_from(&payload[..]) {
                Ok(bytes) => NodeAt::read(command, bytes).and_then(|node| match node {
                    Some(node) => Ok(Relay::Node(Some(node))),
                    None => Err(RelayError::Address { command, address: Ipv6Addr::UNSPECIFIED, port: 0 }),
                }),
                Err(_) => wrong("0 or 52"),
            },
            NODES => match payload.split_first_chunk() {
                Some((job, nodes)) if (nodes as &[u8]).len().is_multiple_of(NodeAt::LEN) => {
                    let nodes = nodes.as_chunks().0.iter().map(|node| NodeAt::read(command, node));
                    nodes.collect::<Result<_, _>>().map(|nodes| Relay::Nodes { job: *job, nodes })
                }
                _ => wrong("16, and 52 for each client"),
            },
            BROADCAST if payload.len() < 8 => wrong("8, for label and mask, and the values"),
            BROADCAST => Ok(Relay::Broadcast(payload.clone())),
            _ => match payload[..].try_into().map(u64::from_be_bytes) {
                Ok(number) => Ok(Relay::Reached(Label((number >> 32) as u32), number as u32)),
                Err(_) => wrong("8, for label and mask"),
            },
        })
    }
}

fn tree(payload: &[u8]) -> Result<Relay, RelayError> {
    if payload.is_empty() || payload.len() > TREE_MAX {
        return Err(RelayError::Length { command: "RELAY", expected: "1 to 64", found: payload.len() });
    }
    match std::str::from_utf8(payload) {
        Ok(name) if name.bytes().all(|byte| byte.is_ascii_graphic()) => Ok(Relay::Tree(name.to_owned())),
        _ => Err(RelayError::Tree(payload.escape_ascii().to_string())),
    }
}

fn head(number: u32, payload: usize) -> [u8; 8] {
    (u64::from(number) << 32 | u64::from(payload as u32)).to_be_bytes()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn node() -> impl Strategy<Value = NodeAt> {
        let key = prop::option::of(any::<[u8; 32]>().prop_filter("a key", |key| *key != [0; 32]));
        (1u128.., 1u16.., key)
            .prop_map(|(address, port, key)| NodeAt { address: address.into(), port, key })
            .prop_filter("an address", |node| {
                node.address.to_ipv4_mapped().is_none_or(|address| !address.is_unspecified())
            })
    }

    fn relay() -> impl Strategy<Value = Relay> {
        prop_oneof![
            "[!-~]{1,64}".prop_map(Relay::Tree),
            prop::option::of(node()).prop_map(Relay::Node),
            (any::<[u8; 16]>(), prop::collection::vec(prop::option::of(node()), 0..=32))
                .prop_map(|(job, nodes)| Relay::Nodes { job, nodes }),
            prop::collection::vec(any::<u8>(), 8..100).prop_map(|payload| Relay::Broadcast(payload.into())),
            any::<(u32, u32)>().prop_map(|(label, mask)| Relay::Reached(Label(label), mask)),
        ]
    }

    proptest! {
        #[test]
        fn a_command_reads_as_it_is_written(relay in relay()) {
            let bytes = relay.to_bytes();
            let head = u64::from_be_bytes(bytes[..8].try_into().unwrap());
            prop_assert_eq!(head as u32 as usize, bytes.len() - 8);
            prop_assert_eq!((head >> 32) as u32, relay.number());
            if let Relay::Broadcast(payload) = &relay {
                prop_assert_eq!(&Relay::broadcast_head(payload.len())[..], &bytes[..8]);
            }
            prop_assert_eq!(Relay::read(relay.number(), &bytes.slice(8..)), Some(Ok(relay)));
        }

        /// What can be read is written as the same bytes: there is one way to say each thing.
        #[test]
        fn any_payload_is_a_command_or_refused(
            number in prop::sample::select(vec![RELAY, NODE, NODES, BROADCAST, REACHED]),
            payload in prop::collection::vec(prop_oneof![3 => Just(0u8), 1 => any::<u8>()], 0..200),
        ) {
            let payload = Bytes::from(payload);
            if let Ok(relay) = Relay::read(number, &payload).unwrap() {
                prop_assert_eq!(relay.to_bytes().slice(8..), payload);
            }
        }
    }

    #[test]
    fn what_is_wrong_with_a_payload_is_said() {
        let said = |number, payload: &[u8]| {
            let payload = Bytes::copy_from_slice(payload);
            Relay::read(number, &payload).unwrap().unwrap_err().to_string()
        };
        let mut entry = [0; 52];
        entry[15] = 1;
        for (number, payload, words) in [
            (RELAY, vec![], "RELAY with 0 bytes, and it has 1 to 64"),
            (RELAY, vec![b'a'; 65], "RELAY with 65 bytes"),
            (RELAY, b"bin\nary".to_vec(), "`bin\\nary`"),
            (NODE, vec![1; 51], "NODE with 51 bytes, and it has 0 or 52"),
            (NODE, vec![0; 52], "listens at ::, port 0"),
            (NODE, entry.to_vec(), "listens at ::1, port 0"),
            (NODE, [&[1; 16][..], &[0, 1, 0, 0], &[0; 32]].concat(), "port 65536"),
            (NODE, [&[0; 10][..], &[255, 255, 0, 0, 0, 0, 0, 0, 0, 9], &[0; 32]].concat(), "port 9"),
            (NODES, vec![0; 15], "NODES with 15 bytes"),
            (NODES, vec![0; 16 + 51], "16, and 52 for each client"),
            (NODES, vec![1; 16 + 52], "NODES says that a node listens"),
            (BROADCAST, vec![0; 7], "BROADCAST with 7 bytes"),
            (REACHED, vec![0; 9], "REACHED with 9 bytes"),
        ] {
            let said = said(number, &payload);
            assert!(said.contains(words), "{said}");
        }
        assert_eq!(Relay::read(0x4E4F_4E45, &Bytes::new()), None);
    }
}
