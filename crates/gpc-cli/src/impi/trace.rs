//! Formats the events of a session in columns: time, client or direction, command, and details.

use std::time::Duration;

use gpc_impi::client::ClientEvent;
use gpc_impi::server::Event;
use gpc_impi::wire::{Label, Method};

/// Returns a line of the server's trace, without a line break.
pub(super) fn line(at: Duration, event: &Event) -> String {
    let rest = match event {
        Event::Connected(conn, from) => row(&connection(conn.0), "", &format!("from {from}")),
        Event::Refused(conn, why) => row(&connection(conn.0), "", &format!("closed: {why}")),
        Event::Unaccepted(why) => {
            row("all", "", &format!("no connection can be accepted until some end: {why}"))
        }
        Event::Proved(conn, Method::None) => row(&connection(conn.0), "AUTH", "none"),
        Event::Proved(conn, Method::Key) => row(&connection(conn.0), "AUTH", "key"),
        Event::Joined(conn, rank) => row(&client(*rank), "IMPI", &connection(conn.0)),
        Event::Freed(rank, why) => {
            row(&client(*rank), "", &format!("lost, another may come in its place: {why}"))
        }
        Event::Complete => row("all", "IMPI", "all clients have joined"),
        Event::Sent(rank, label, len) => row(&client(*rank), "COLL", &values(*label, *len)),
        Event::Ignored(rank, command, len) => {
            row(&client(*rank), "", &format!("command {command:#010x} with {len} bytes is ignored"))
        }
        Event::Doubted(rank, label, why) => row(&client(*rank), "COLL", &format!("{label:<16}  {why}")),
        Event::Unchecked(rank, label, processes) => {
            let what =
                format!("{label:<16}  {processes} processes are too many to be compared with each other");
            row(&client(*rank), "COLL", &what)
        }
        Event::Answered(label, mask, len) => {
            row("all", "COLL", &format!("{}  mask {mask:#010x}", values(*label, *len)))
        }
        Event::Done(rank) => row(&client(*rank), "DONE", ""),
        Event::AllDone => row("all", "DONE", ""),
        Event::Ended(rank) => row(&client(*rank), "FINI", ""),
        Event::Lost(rank, why) => row(&client(*rank), "", &format!("lost before its FINI: {why}")),
        other => other.to_string(),
    };
    timed(at, &rest)
}

/// Returns a line of a client's trace, without a line break.
pub(super) fn client_line(at: Duration, event: &ClientEvent) -> String {
    let (sent, received) = ("sent", "received");
    let rest = match event {
        ClientEvent::Connected(from, to) => row("connected", "", &format!("to {to} from {from}")),
        ClientEvent::Auth(Method::None) => row(received, "AUTH", "none"),
        ClientEvent::Auth(Method::Key) => row(received, "AUTH", "key"),
        ClientEvent::Joined(rank, size) => row(received, "IMPI", &format!("client {rank} of {size}")),
        ClientEvent::Sent(label, len) => row(sent, "COLL", &values(*label, *len)),
        ClientEvent::Answered(label, mask, len) => {
            row(received, "COLL", &format!("{}  mask {mask:#010x}", values(*label, *len)))
        }
        ClientEvent::Unknown(label, len) => {
            row(received, "COLL", &format!("{}  unknown here", values(*label, *len)))
        }
        ClientEvent::Ignored(command, len) => {
            row(received, "", &format!("unknown {command} with {len} bytes is ignored"))
        }
        ClientEvent::Doubted(label, why) => row("doubted", "COLL", &format!("{label:<16}  {why}")),
        ClientEvent::Done => row(sent, "DONE", ""),
        ClientEvent::AllDone(true) => row(received, "DONE", "all clients are done"),
        ClientEvent::AllDone(false) => row(received, "DONE", "all clients are done, without gpc's labels"),
        ClientEvent::Ended => row(sent, "FINI", ""),
        ClientEvent::Lost(why) => row("lost", "", why),
        other => other.to_string(),
    };
    timed(at, &rest)
}

fn timed(at: Duration, rest: &str) -> String {
    format!("{:>10.6}  {}", at.as_secs_f64(), rest.trim_end())
}

/// Whether an event is printed without a trace: a client or connection is refused, lost or doubted.
pub(super) fn is_trouble(event: &Event) -> bool {
    matches!(
        event,
        Event::Unaccepted(_)
            | Event::Refused(..)
            | Event::Freed(..)
            | Event::Doubted(..)
            | Event::Unchecked(..)
            | Event::Partial { .. }
            | Event::Ignored(..)
            | Event::Lost(..)
    )
}

/// Whether strangers can cause the event any number of times.
pub(super) fn is_coming_and_going(event: &Event) -> bool {
    matches!(
        event,
        Event::Unaccepted(_)
            | Event::Connected(..)
            | Event::Refused(..)
            | Event::Proved(..)
            | Event::Joined(..)
            | Event::Freed(..)
    )
}

/// Whether an event of a client's session is printed without a trace.
pub(super) fn is_doubt(event: &ClientEvent) -> bool {
    matches!(event, ClientEvent::Doubted(..) | ClientEvent::Ignored(..))
}

fn row(who: &str, command: &str, what: &str) -> String {
    format!("{who:<14}  {command:<4}  {what}")
}

fn connection(number: u64) -> String {
    format!("connection {number}")
}

fn client(rank: u32) -> String {
    format!("client {rank:>2}")
}

fn values(label: Label, len: usize) -> String {
    format!("{label:<16}  {len:>10} bytes")
}

#[cfg(test)]
mod tests {
    use gpc_impi::server::ConnId;

    use super::*;

    #[test]
    fn the_columns_line_up() {
        let events = [
            Event::Connected(ConnId(0), "127.0.0.1:4000".into()),
            Event::Proved(ConnId(0), Method::Key),
            Event::Joined(ConnId(0), 1),
            Event::Sent(31, Label::C_COLL_MAXLINEAR, 4),
            Event::Answered(Label::H_PORT, 5, 5_242_880),
            Event::AllDone,
        ];
        let lines: Vec<String> =
            (0..).zip(&events).map(|(at, event)| line(Duration::from_millis(at * 700), event)).collect();
        assert_eq!(
            lines,
            [
                "  0.000000  connection 0          from 127.0.0.1:4000",
                "  0.700000  connection 0    AUTH  key",
                "  1.400000  client  1       IMPI  connection 0",
                "  2.100000  client 31       COLL  C_COLL_MAXLINEAR           4 bytes",
                "  2.800000  all             COLL  H_PORT               5242880 bytes  mask 0x00000005",
                "  3.500000  all             DONE",
            ]
        );
    }

    #[test]
    fn the_columns_of_a_client_are_the_same() {
        let events = [
            ClientEvent::Auth(Method::None),
            ClientEvent::Sent(Label::H_PORT, 12),
            ClientEvent::Answered(Label::H_PORT, 7, 28),
            ClientEvent::Ended,
        ];
        let lines: Vec<String> =
            events.iter().map(|event| client_line(Duration::from_millis(1), event)).collect();
        assert_eq!(
            lines,
            [
                "  0.001000  received        AUTH  none",
                "  0.001000  sent            COLL  H_PORT                    12 bytes",
                "  0.001000  received        COLL  H_PORT                    28 bytes  mask 0x00000007",
                "  0.001000  sent            FINI",
            ]
        );
    }

    #[test]
    fn events_printed_without_a_trace_are_trouble() {
        assert!(is_trouble(&Event::Freed(0, String::new())));
        assert!(!is_trouble(&Event::Done(0)));
    }
}
