//! Lists of addresses to listen on, as every protocol has them.

use super::error::Problems;
use super::key::Key;
use super::table::{Table, Value};
use ring::{CongestionControl, MAX_CONGESTION_CONTROL_NAME};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::ops::Range;

/// The same key for every protocol.
pub(super) const CONGESTION_CONTROL: Key = Key {
    name: "congestion_control",
    takes: "a name, such as `\"cubic\"` or `\"dctcp\"`",
    default: "the host's, but not `bbr`",
    says: "What decides how fast connections send. BBR paces, which halves what short and fast links carry: instead of it CUBIC or Reno is taken unless it is named here.",
};

/// Reads `congestion_control`. Whether this host has it shows at start.
pub(super) fn congestion_control(problems: &mut Problems<'_>, table: &Table<'_>) -> CongestionControl {
    let Some(value) = table.value(CONGESTION_CONTROL.name) else { return CongestionControl::Auto };
    let Some(name) = value.string(problems, "a name such as \"cubic\"") else {
        return CongestionControl::Auto;
    };
    let is_name = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_-".contains(&byte);
    if name.is_empty() || name.len() > MAX_CONGESTION_CONTROL_NAME || !name.bytes().all(is_name) {
        let hint = "`sysctl net.ipv4.tcp_available_congestion_control` lists the names of this host";
        problems.add_hint(value.span(), format!("`{name}` is not the name of a congestion control"), hint);
    }
    CongestionControl::Named(name.to_owned())
}

/// Addresses of the control API, and of Munin, at most: each keeps a connection ready for who comes next.
const MAX_ADDRESSES: usize = 16;

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

/// Reads `listen` of those who administer and watch: an address or a list of a few; the usual port on loopback without it. `hint` is for
/// who wants more of them.
pub(super) fn one_or_several(
    problems: &mut Problems<'_>,
    table: &Table<'_>,
    port: u16,
    hint: &str,
) -> ReadPortals {
    let Some(value) = table.value("listen") else {
        return ReadPortals { listen: vec![loopback(port)], spans: Vec::new() };
    };
    let read = if value.is_list() {
        read(problems, value, port, false)
    } else {
        let listen: Vec<_> = one(problems, value, port).into_iter().collect();
        ReadPortals { spans: vec![value.span(); listen.len()], listen }
    };
    if read.listen.len() > MAX_ADDRESSES {
        let message = format!("`listen` takes at most {MAX_ADDRESSES} addresses");
        problems.add_hint(value.span(), message, hint);
    }
    read
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
        if let Some(address) = one(problems, portal, port) {
            read.listen.push(address);
            read.spans.push(portal.span());
        }
    }
    read
}

/// Reads an address and a port. `port` is the usual one, for hints.
pub(super) fn one(problems: &mut Problems<'_>, value: Value<'_>, port: u16) -> Option<SocketAddr> {
    let text = value.string(problems, &format!("an address and a port such as \"127.0.0.1:{port}\""))?;
    let address = text.parse().ok();
    if address.is_none() {
        refuse(problems, text, value.span(), port);
    }
    address
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
