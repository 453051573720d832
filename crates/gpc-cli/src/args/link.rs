//! The argument for the kind of links.

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};

use chained_gpc::runtime::LinkKind;

/// Parser of a kind of links, with help for each.
pub(super) fn link_parser() -> impl TypedValueParser<Value = LinkKind> {
    let named = |link: LinkKind, help: &'static str| PossibleValue::new(link.name()).help(help);
    PossibleValuesParser::new([
        named(LinkKind::Tcp, "TCP on the loopback interface"),
        named(LinkKind::Unix, "Unix sockets"),
        named(LinkKind::Shm, "Rings in shared memory, set up over Unix sockets"),
    ])
    .try_map(|name| name.parse())
}
