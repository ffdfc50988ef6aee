//! Lists of addresses to listen on, as every protocol has them.

use super::error::Problems;
use super::table::Value;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::ops::Range;

/// The portals of a list, with the place of each.
#[derive(Debug, Default)]
pub(super) struct ReadPortals {
    pub listen: Vec<SocketAddr>,
    pub spans: Vec<Range<usize>>,
}

/// The default portal of a protocol.
pub(super) fn loopback(port: u16) -> SocketAddr {
    SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port)
}

/// Reads `listen`. An empty list is refused unless `may_be_empty`. `port` is the usual one, for hints.
pub(super) fn read(
    problems: &mut Problems<'_>,
    value: Value<'_>,
    port: u16,
    may_be_empty: bool,
) -> ReadPortals {
    let mut read = ReadPortals::default();
    let portals = value.list(problems, &format!("a list such as [\"127.0.0.1:{port}\"]"));
    if portals.is_empty() && value.is_list() && !may_be_empty {
        let hint = format!("write listen = [\"127.0.0.1:{port}\"]");
        problems.add_hint(value.span(), "`listen` names no portal", hint);
    }
    for portal in portals {
        let takes = format!("an address and a port such as \"127.0.0.1:{port}\"");
        let Some(text) = portal.string(problems, &takes) else { continue };
        match text.parse() {
            Ok(address) => {
                read.listen.push(address);
                read.spans.push(portal.span());
            }
            Err(_) => refuse(problems, text, portal.span(), port),
        }
    }
    read
}

fn refuse(problems: &mut Problems<'_>, text: &str, span: Range<usize>, port: u16) {
    let hint = match text.trim_matches(['[', ']']).parse::<IpAddr>() {
        Ok(IpAddr::V4(address)) => format!("add the port: \"{address}:{port}\""),
        Ok(IpAddr::V6(address)) => format!("add the port: \"[{address}]:{port}\""),
        Err(_) => {
            format!(
                "names are not resolved here: write an address, such as \"127.0.0.1:{port}\" or \"[::1]:{port}\""
            )
        }
    };
    problems.add_hint(span, format!("`{text}` is not an address and a port"), hint);
}
