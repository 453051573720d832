//! The orders of a started process: the same for all processes of a launch, and so short that they are in the control
//! link before the process runs.
//!
//! They are text, one line each: `wait adaptive`, `link shm`, `dead-after 10000000000ns`, the common job (`job` and 32
//! digits), a row of addresses (`names 1 4095 gpc-7-`), `peer ID ADDRESS`, or `peer ID ADDRESS KEY`, for each other
//! node, the secret of the job (`secret` and its digits), and `end`. They contain the secret, so they are sent over the
//! control link alone. The reader trusts nothing in them: everything is checked and bounded.

use std::fmt;
use std::str::FromStr;

use zeroize::Zeroizing;

use super::quoted::quoted;
use super::{NodeSettings, OrdersError};
use chained_gpc::link::peering::Secret;
use chained_gpc::runtime::{AddressRow, Peers};

/// The line that ends orders.
pub(super) const END: &str = "end\n";

/// The orders that a [launch](super::Launch) sends to every process, as text in its control link.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Orders {
    /// The addresses of the nodes that are launched together.
    pub row: AddressRow,
    /// Other nodes, whose addresses precede those of the row, and the common job, if it is named.
    pub others: Peers,
    /// The settings of every node.
    pub settings: NodeSettings,
    /// The secret of the job.
    pub secret: Option<Secret>,
}

impl Orders {
    /// Returns the addresses of all nodes.
    pub fn peers(&self) -> Peers {
        let mut peers = Peers::from(self.row.clone());
        for (id, address) in self.others.iter() {
            peers.insert(id, address);
            self.others.key(id).into_iter().for_each(|key| peers.set_key(id, key));
        }
        self.others.job().into_iter().for_each(|job| peers.set_job(job));
        peers
    }
}

impl Orders {
    /// Returns their text, for the control link. It contains the secret.
    pub fn to_text(&self) -> Zeroizing<String> {
        let open = Open(self).to_string();
        let secret = self.secret.as_ref().map(Secret::to_text).unwrap_or_default();
        // Allocated at full length, so that no reallocation leaves a copy of the secret behind.
        let mut text =
            Zeroizing::new(String::with_capacity(open.len() + SECRET.len() + secret.len() + 2 + END.len()));
        text.push_str(&open);
        if self.secret.is_some() {
            [SECRET, " ", &secret, "\n"].into_iter().for_each(|part| text.push_str(part));
        }
        text.push_str(END);
        text
    }
}

/// The first word of the line of the secret.
const SECRET: &str = "secret";

/// All lines but the secret and the end.
struct Open<'a>(&'a Orders);

impl fmt::Display for Open<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Orders { row, others, settings, secret: _ } = self.0;
        write!(f, "{settings}")?;
        others.job().iter().try_for_each(|job| writeln!(f, "job {job}"))?;
        writeln!(f, "{row}")?;
        others.iter().try_for_each(|(id, address)| match others.key(id) {
            Some(key) => writeln!(f, "peer {id} {address} {key}"),
            None => writeln!(f, "peer {id} {address}"),
        })
    }
}

impl FromStr for Orders {
    type Err = OrdersError;

    /// Parses the text, with or without the line that ends it.
    fn from_str(text: &str) -> Result<Orders, OrdersError> {
        let (mut row, mut others, mut settings) = (None, String::new(), NodeSettings::default());
        let mut secret = None;
        for line in text.strip_suffix(END).unwrap_or(text).lines() {
            if settings.read_line(line)? {
                continue;
            }
            match line.split_once(' ') {
                // As in a peers file.
                Some(("job", _)) => {
                    others.push_str(line);
                    others.push('\n');
                }
                Some(("peer", peer)) => {
                    others.push_str(peer);
                    others.push('\n');
                }
                Some((SECRET, digits)) => secret = Some(digits.parse()?),
                Some(("names" | "ports", _)) => row = Some(line.parse()?),
                _ => return Err(OrdersError::Unknown(quoted(line))),
            }
        }
        Ok(Orders { row: row.ok_or(OrdersError::NoRow)?, others: others.parse()?, settings, secret })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;
    use chained_gpc::runtime::{Job, LinkKind, Wait};

    #[test]
    fn orders_read_as_they_are_written() {
        let row = "names 1 63 gpc-1-";
        let text = format!("wait adaptive\nlink shm\n{row}\nend\n");
        let mut orders: Orders = text.parse().unwrap();
        assert_eq!((orders.settings, &**orders.to_text()), (NodeSettings::default(), &*text));
        orders.others.insert(0, "127.0.0.1:1".parse().unwrap());
        orders.others.insert(2, "unix:@two".parse().unwrap());
        orders.others.set_job(Job([0x1d; 16]));
        orders.row = "ports 1 127.0.0.1 5 6".parse().unwrap();
        orders.settings = NodeSettings {
            dead_after: Some(Duration::from_millis(1500)),
            wait: Wait::Spin(Duration::from_micros(50)),
            link: LinkKind::Tcp,
            processes: std::num::NonZeroU32::new(64),
        };
        orders.others.set_key(2, chained_gpc::PublicKey([0xab; 32]));
        orders.secret = Some(Secret::new(&[0x5e; 40]).unwrap());
        let text = orders.to_text();
        assert!(!format!("{orders:?}").contains("5e5e"));
        assert_eq!(text.parse(), Ok(orders.clone()));
        let whole = text.capacity();
        assert_eq!(text.len(), whole, "nothing of it was copied elsewhere");
        assert_eq!(text.strip_suffix(END).unwrap().parse(), Ok(orders.clone()));
        let job = "1d".repeat(16);
        assert!(text.contains(&format!("\njob {job}\n")) && text.contains(&"5e".repeat(40)));
        let key = "ab".repeat(32);
        assert_eq!(
            orders.peers().to_string(),
            format!("job {job}\n0 127.0.0.1:1\n1 127.0.0.1:5\n2 unix:@two {key}\n")
        );
    }

    #[test]
    fn what_is_no_orders_is_named() {
        let read = |text: &str| text.parse::<Orders>().unwrap_err().to_string();
        assert_eq!(read(""), "there is no row of addresses");
        assert_eq!(read("end\n"), "there is no row of addresses");
        assert_eq!(read("nonsense\n"), "`nonsense` is no order");
        assert_eq!(read("names 1 2 a\nwait long\n"), "`long` is no length of time in ns");
        assert_eq!(
            read("names 1 2 a\nlink rope\n"),
            "link: `rope` is no kind of link: write tcp, unix or shm"
        );
        assert!(read("names 1 2 a\ndead-after never\n").starts_with("`never` is no length"));
        assert!(read("names 1 2 a\njob x\n").ends_with("`x` is no job: write 32 hexadecimal digits"));
        let error = read("names 1 2 a\nsecret 4711\n");
        assert!(error.starts_with("the secret of the job: ") && !error.contains("4711"), "{error}");
        assert!(!read("names 1 2 a\nsecret  4712 4713\n").contains("471"));
        assert!(read("names 1 x a\n").contains("is no row of addresses"));
        assert!(
            read("names 1 2 a\npeer 5 unix:@a\npeer 6\n")
                .starts_with("the other nodes: peers file, line 2: ")
        );
    }

    proptest! {
        #[test]
        fn any_text_is_orders_or_refused(
            lines in prop::collection::vec(
                ("(wait|link|dead-after|job|names|ports|secret|peer|end|x)", "( [0-9a-z.:@]{0,20}){0,4}"),
                0..6,
            ),
            secret in prop::collection::vec(any::<u8>(), 0..40),
        ) {
            let mut text: String = lines.iter().map(|(word, rest)| format!("{word}{rest}\n")).collect();
            let digits: String = secret.iter().map(|byte| format!("{byte:02x}")).collect();
            text.push_str(&format!("names 1 2 a\nsecret {digits}\n"));
            match text.parse::<Orders>() {
                Ok(orders) => prop_assert_eq!(orders.to_text().parse(), Ok(orders)),
                // An error quotes nothing of the secret's line.
                Err(error) => prop_assert!(secret.len() < 4 || !error.to_string().contains(&digits)),
            }
        }
    }
}
