//! What a process that is launched is told: the same for all, and so short that it is in the control link before the process runs.
//!
//! Text, a line for each: `wait adaptive`, `link shm`, `dead-after 10000000000ns`, the job of all of them (`job` and 32 digits), a row of addresses (`names 1 4095 gpc-7-`), `peer ID ADDRESS` for each other node, and `end`. Who reads it trusts none of it: everything is checked and bounded.

use std::fmt;
use std::str::FromStr;

use super::NodeSettings;
use crate::runtime::{AddressRow, AddressRowError, LinkKindError, Peers, PeersError};

/// The line that ends orders.
pub(super) const END: &str = "end\n";

/// Longest line that is quoted in an error, characters.
const QUOTED_MAX: usize = 40;

/// What every process of a [launch](super::Launch) is told, as text in its control link.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Orders {
    /// Where those listen that are launched together.
    pub row: AddressRow,
    /// Other nodes, whose addresses come before those of the row, and the job of all of them, if it is named.
    pub others: Peers,
    /// The settings of every node.
    pub settings: NodeSettings,
}

/// Text that is no orders.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OrdersError {
    /// Where they listen.
    #[error(transparent)]
    Row(#[from] AddressRowError),
    /// There is no row of addresses.
    #[error("there is no row of addresses")]
    NoRow,
    /// Other nodes.
    #[error("the other nodes: {0}")]
    Others(#[from] PeersError),
    /// What links are made of.
    #[error("link: {0}")]
    Link(#[from] LinkKindError),
    /// A length of time.
    #[error("`{0}` is no length of time in ns")]
    Time(String),
    /// Anything else.
    #[error("`{0}` is no order")]
    Unknown(String),
}

impl Orders {
    /// Where everybody listens.
    pub fn peers(&self) -> Peers {
        let mut peers = Peers::from(self.row.clone());
        for (id, address) in self.others.iter() {
            peers.insert(id, address);
        }
        self.others.job().into_iter().for_each(|job| peers.set_job(job));
        peers
    }
}

impl fmt::Display for Orders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.settings)?;
        self.others.job().iter().try_for_each(|job| writeln!(f, "job {job}"))?;
        writeln!(f, "{}", self.row)?;
        self.others.iter().try_for_each(|(id, address)| writeln!(f, "peer {id} {address}"))?;
        f.write_str(END)
    }
}

impl FromStr for Orders {
    type Err = OrdersError;

    /// Reads what was printed, with or without the line that ends it.
    fn from_str(text: &str) -> Result<Orders, OrdersError> {
        let (mut row, mut others, mut settings) = (None, String::new(), NodeSettings::default());
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
                Some(("names" | "ports", _)) => row = Some(line.parse()?),
                _ => return Err(OrdersError::Unknown(quoted(line))),
            }
        }
        Ok(Orders { row: row.ok_or(OrdersError::NoRow)?, others: others.parse()?, settings })
    }
}

/// As much of a line as an error quotes.
pub(super) fn quoted(text: &str) -> String {
    text.chars().take(QUOTED_MAX).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::runtime::{Job, LinkKind, Wait};

    #[test]
    fn orders_read_as_they_are_written() {
        let row = "names 1 63 gpc-1-";
        let text = format!("wait adaptive\nlink shm\n{row}\nend\n");
        let mut orders: Orders = text.parse().unwrap();
        assert_eq!((orders.settings, orders.to_string()), (NodeSettings::default(), text));
        orders.others.insert(0, "127.0.0.1:1".parse().unwrap());
        orders.others.insert(2, "unix:@two".parse().unwrap());
        orders.others.set_job(Job([0x1d; 16]));
        orders.row = "ports 1 127.0.0.1 5 6".parse().unwrap();
        orders.settings = NodeSettings {
            dead_after: Some(Duration::from_millis(1500)),
            wait: Wait::Spin(Duration::from_micros(50)),
            link: LinkKind::Tcp,
        };
        let text = orders.to_string();
        assert_eq!(text.parse(), Ok(orders.clone()));
        assert_eq!(text.strip_suffix(END).unwrap().parse(), Ok(orders.clone()));
        let job = "1d".repeat(16);
        assert!(text.contains(&format!("\njob {job}\n")), "{text}");
        assert_eq!(
            orders.peers().to_string(),
            format!("job {job}\n0 127.0.0.1:1\n1 127.0.0.1:5\n2 unix:@two\n")
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
        assert!(read("names 1 x a\n").contains("is no row of addresses"));
        assert!(
            read("names 1 2 a\npeer 5 unix:@a\npeer 6\n")
                .starts_with("the other nodes: peers file, line 2: ")
        );
    }
}
