//! What is measured, by its address.
//!
//! A kind of target more is a variant here, a line in [`SCHEMES`], and an initiator.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use crate::pool::{PoolSpec, PoolTarget};
use wire::iscsi::IscsiName;
use wire::nvme::{NSID_ALL, nqn, tcp};

/// The environment variable that holds the CHAP secret when the address does not.
pub const CHAP_SECRET_VARIABLE: &str = "FELS_CHAP_SECRET";
/// The port of iSCSI.
const ISCSI_PORT: u16 = 3260;
/// The port of NBD.
const NBD_PORT: u16 = 10809;

/// Every scheme and how its addresses look.
pub const SCHEMES: [(&str, &str); 7] = [
    ("iscsi", "iscsi://[user[%secret]@]host[:port]/iqn/lun"),
    ("nvme", "nvme://host[:port]/nqn/nsid"),
    ("nbd", "nbd://host[:port]/export"),
    ("nbd+unix", "nbd+unix:///export?socket=PATH"),
    ("file", "file:PATH (a file or a block device)"),
    ("pool", crate::pool::FORM),
    ("null", "null: (nothing at all: the lab's own ceiling)"),
];

/// A name and a secret.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    /// `CHAP_N`.
    pub user: String,
    /// Never printed.
    pub secret: String,
}

impl fmt::Debug for Credentials {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Credentials({})", self.user)
    }
}

/// A logical unit of an iSCSI target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IscsiTarget {
    /// Host name or address.
    pub host: String,
    /// TCP port.
    pub port: u16,
    /// The target's iSCSI name.
    pub name: String,
    /// Logical unit number.
    pub lun: u16,
    /// What we prove to the target with CHAP.
    pub chap: Option<Credentials>,
    /// What the target has to prove to us (mutual CHAP). Not part of the address.
    pub mutual: Option<Credentials>,
}

/// A namespace of an NVM subsystem, over TCP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NvmeTarget {
    /// Host name or address.
    pub host: String,
    /// TCP port.
    pub port: u16,
    /// The subsystem's NQN.
    pub name: String,
    /// Namespace identifier.
    pub nsid: u32,
}

/// Where an NBD server is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NbdAddress {
    /// Over the network.
    Inet {
        /// Host name or address.
        host: String,
        /// TCP port.
        port: u16,
    },
    /// At a unix socket.
    Unix(PathBuf),
}

/// An export of an NBD server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NbdTarget {
    /// The server.
    pub address: NbdAddress,
    /// The export; empty is the server's default.
    pub export: String,
}

/// What is measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// iSCSI, with our own initiator.
    Iscsi(IscsiTarget),
    /// NVMe/TCP, with our own host.
    Nvme(NvmeTarget),
    /// An NBD export, with our own client.
    Nbd(NbdTarget),
    /// A file or block device of this machine.
    File(PathBuf),
    /// A pool that the lab makes in its own process.
    Pool(PoolTarget),
    /// Completes at once.
    Null,
}

/// The address makes no sense.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("target {address:?}: {problem}; hint: {hint}")]
pub struct TargetError {
    address: String,
    problem: String,
    hint: String,
}

impl FromStr for Target {
    type Err = TargetError;

    fn from_str(address: &str) -> Result<Self, TargetError> {
        parse(address).map_err(|(problem, hint)| TargetError {
            address: without_secret(address),
            problem,
            hint,
        })
    }
}

impl fmt::Display for Target {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Target::Iscsi(target) => {
                formatter.write_str("iscsi://")?;
                if let Some(chap) = &target.chap {
                    write!(formatter, "{}@", chap.user)?;
                }
                write_host(formatter, &target.host, target.port)?;
                write!(formatter, "/{}/{}", target.name, target.lun)
            }
            Target::Nvme(target) => {
                formatter.write_str("nvme://")?;
                write_host(formatter, &target.host, target.port)?;
                write!(formatter, "/{}/{}", target.name, target.nsid)
            }
            Target::Nbd(NbdTarget { address: NbdAddress::Inet { host, port }, export }) => {
                formatter.write_str("nbd://")?;
                write_host(formatter, host, *port)?;
                write!(formatter, "/{export}")
            }
            Target::Nbd(NbdTarget { address: NbdAddress::Unix(path), export }) => {
                write!(formatter, "nbd+unix:///{export}?socket={}", path.display())
            }
            Target::File(path) => write!(formatter, "file:{}", path.display()),
            Target::Pool(pool) => write!(formatter, "{}", pool.spec()),
            Target::Null => formatter.write_str("null:"),
        }
    }
}

fn write_host(formatter: &mut fmt::Formatter<'_>, host: &str, port: u16) -> fmt::Result {
    let (open, close) = if host.contains(':') { ("[", "]") } else { ("", "") };
    write!(formatter, "{open}{host}{close}:{port}")
}

/// Whether a text is an NVMe qualified name; what is wrong if it is none.
pub fn check_nqn(name: &str) -> Result<(), String> {
    nqn::check(name).map_err(|error| error.to_string())
}

type Problem = (String, String);

fn problem(problem: impl Into<String>, hint: impl Into<String>) -> Problem {
    (problem.into(), hint.into())
}

fn form(scheme: &str) -> String {
    let known = SCHEMES.iter().find(|(name, _)| *name == scheme);
    known.map_or_else(String::new, |(_, form)| format!("write it as {form}"))
}

fn all_forms() -> String {
    let forms: Vec<_> = SCHEMES.iter().map(|(_, form)| *form).collect();
    format!("use one of {}", forms.join(", "))
}

fn parse(address: &str) -> Result<Target, Problem> {
    let Some((scheme, rest)) = address.split_once(':') else {
        let hint = if address.starts_with('/') { format!("write file:{address}") } else { all_forms() };
        return Err(problem("no scheme", hint));
    };
    match scheme {
        "iscsi" => parse_iscsi(rest).map(Target::Iscsi),
        "nvme" => parse_nvme(rest).map(Target::Nvme),
        "nbd" => parse_nbd(rest).map(Target::Nbd),
        "nbd+unix" => parse_nbd_unix(rest).map(Target::Nbd),
        "file" => match rest.strip_prefix("//").unwrap_or(rest) {
            "" => Err(problem("no path", form("file"))),
            path => Ok(Target::File(path.into())),
        },
        "pool" => match PoolSpec::parse(rest) {
            Ok(spec) => Ok(Target::Pool(PoolTarget::new(spec))),
            Err(wrong) => Err(problem(wrong, form("pool"))),
        },
        "null" if rest.is_empty() => Ok(Target::Null),
        "null" => Err(problem("null: takes nothing behind it", form("null"))),
        other => Err(problem(format!("the scheme {other:?} is not known"), all_forms())),
    }
}

fn parse_iscsi(rest: &str) -> Result<IscsiTarget, Problem> {
    let wrong = |what: &str| problem(what, form("iscsi"));
    let rest = rest.strip_prefix("//").ok_or_else(|| wrong("no // behind iscsi:"))?;
    let mut parts = rest.split('/');
    let authority = parts.next().unwrap_or_default();
    let (Some(name), Some(lun), None) = (parts.next(), parts.next(), parts.next()) else {
        return Err(wrong("it takes host, target name and logical unit number"));
    };
    // The secret may hold an @, a host may not.
    let (login, host) = match authority.rsplit_once('@') {
        Some((login, host)) => (Some(login), host),
        None => (None, authority),
    };
    let (host, port) = parse_host(host, ISCSI_PORT).ok_or_else(|| wrong("host and port make no sense"))?;
    let name = IscsiName::parse(name).map_err(|error| {
        problem(
            format!("{name:?} is no iSCSI name ({error})"),
            "a name looks like iqn.2026-11.internal.fels:demo; a server lists its own in discovery",
        )
    })?;
    let lun = lun.parse().ok().filter(|&lun: &u16| lun < 1 << 14);
    let lun = lun.ok_or_else(|| wrong("the logical unit number is no number below 16384"))?;
    let chap = login.map(parse_login).transpose()?;
    Ok(IscsiTarget { host, port, name: name.as_str().to_owned(), lun, chap, mutual: None })
}

fn parse_nbd(rest: &str) -> Result<NbdTarget, Problem> {
    let wrong = |what: &str| problem(what, form("nbd"));
    let rest = rest.strip_prefix("//").ok_or_else(|| wrong("no // behind nbd:"))?;
    let (authority, export) = rest.split_once('/').unwrap_or((rest, ""));
    let (host, port) = parse_host(authority, NBD_PORT).ok_or_else(|| wrong("host and port make no sense"))?;
    Ok(NbdTarget { address: NbdAddress::Inet { host, port }, export: parse_export(export)? })
}

fn parse_nbd_unix(rest: &str) -> Result<NbdTarget, Problem> {
    let wrong = |what: &str| problem(what, form("nbd+unix"));
    let rest = rest.strip_prefix("///").ok_or_else(|| wrong("no /// behind nbd+unix:"))?;
    let (export, path) = rest.split_once("?socket=").ok_or_else(|| wrong("no socket is named"))?;
    if path.is_empty() {
        return Err(wrong("the path of the socket is empty"));
    }
    Ok(NbdTarget { address: NbdAddress::Unix(path.into()), export: parse_export(export)? })
}

fn parse_export(export: &str) -> Result<String, Problem> {
    if export.len() > wire::nbd::MAX_STRING {
        let hint = "`nbdinfo --list` shows the exports of a server";
        return Err(problem("the export's name is longer than 4096 bytes", hint));
    }
    Ok(export.to_owned())
}

fn parse_nvme(rest: &str) -> Result<NvmeTarget, Problem> {
    let wrong = |what: &str| problem(what, form("nvme"));
    let rest = rest.strip_prefix("//").ok_or_else(|| wrong("no // behind nvme:"))?;
    let mut parts = rest.split('/');
    let authority = parts.next().unwrap_or_default();
    let (Some(name), Some(nsid), None) = (parts.next(), parts.next(), parts.next()) else {
        return Err(wrong("it takes host, subsystem name and namespace identifier"));
    };
    let (host, port) =
        parse_host(authority, tcp::PORT).ok_or_else(|| wrong("host and port make no sense"))?;
    nqn::check(name).map_err(|error| {
        problem(
            format!("{name:?} is no NQN ({error})"),
            "a name looks like nqn.2026-11.internal.fels:demo; nvme discover lists those of a server",
        )
    })?;
    let nsid = nsid.parse().ok().filter(|&nsid| nsid != 0 && nsid != NSID_ALL);
    let nsid = nsid.ok_or_else(|| wrong("the namespace identifier is no number from 1 on"))?;
    Ok(NvmeTarget { host, port, name: name.to_owned(), nsid })
}

fn parse_host(authority: &str, default: u16) -> Option<(String, u16)> {
    let (host, port) = match authority.strip_prefix('[') {
        Some(rest) => rest.split_once(']')?,
        None => match authority.find(':') {
            Some(colon) => authority.split_at(colon),
            None => (authority, ""),
        },
    };
    let port = match port {
        "" => default,
        port => port.strip_prefix(':')?.parse().ok().filter(|&port| port != 0)?,
    };
    (!host.is_empty()).then(|| (host.to_owned(), port))
}

fn parse_login(login: &str) -> Result<Credentials, Problem> {
    let (user, secret) = match login.split_once('%') {
        Some((user, secret)) => (user, Some(secret.to_owned())),
        None => (login, std::env::var(CHAP_SECRET_VARIABLE).ok()),
    };
    let secret = secret.filter(|secret| !secret.is_empty()).ok_or_else(|| {
        problem(
            format!("there is a user ({user}) but no secret"),
            format!("set {CHAP_SECRET_VARIABLE} in the environment, or write user%secret@"),
        )
    })?;
    if user.is_empty() {
        return Err(problem("the user has no name", form("iscsi")));
    }
    Ok(Credentials { user: user.to_owned(), secret })
}

/// An address, or a word that may be one, without its secret: error messages end up in logs.
pub fn without_secret(address: &str) -> String {
    match (address.find('%'), address.rfind('@')) {
        (Some(start), Some(end)) if start < end => format!("{}%...{}", &address[..start], &address[end..]),
        _ => address.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn iscsi(address: &str) -> IscsiTarget {
        match address.parse().unwrap() {
            Target::Iscsi(target) => target,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn addresses_of_every_kind() {
        let target = iscsi("iscsi://user%se@cr%et@[::1]:16000/iqn.2026-11.internal.fels:demo/3");
        assert_eq!((target.host.as_str(), target.port, target.lun), ("::1", 16000, 3));
        assert_eq!(target.name, "iqn.2026-11.internal.fels:demo");
        let chap = target.chap.unwrap();
        assert_eq!((chap.user.as_str(), chap.secret.as_str()), ("user", "se@cr%et"));
        assert_eq!(iscsi("iscsi://localhost/iqn.2026-11.internal.fels:demo/0").port, 3260);
        let Ok(Target::Nvme(target)) = "nvme://[::1]/nqn.2026-11.internal.fels:demo/2".parse() else {
            panic!("no NVMe target");
        };
        assert_eq!((target.host.as_str(), target.port, target.nsid), ("::1", 4420, 2));
        assert_eq!(target.name, "nqn.2026-11.internal.fels:demo");
        assert_eq!("file:/dev/sdb".parse(), Ok(Target::File("/dev/sdb".into())));
        assert_eq!("file:///a".parse(), Ok(Target::File("/a".into())));
        assert_eq!("null:".parse(), Ok(Target::Null));
        let nbd = |address, export: &str| Ok(Target::Nbd(NbdTarget { address, export: export.to_owned() }));
        let inet = |host: &str, port| NbdAddress::Inet { host: host.to_owned(), port };
        assert_eq!("nbd://[::1]:17000/demo".parse(), nbd(inet("::1", 17000), "demo"));
        assert_eq!("nbd://localhost".parse(), nbd(inet("localhost", 10809), ""));
        let unix = NbdAddress::Unix("/run/nbd.sock".into());
        assert_eq!("nbd+unix:///demo?socket=/run/nbd.sock".parse(), nbd(unix, "demo"));
    }

    #[test]
    fn an_address_prints_as_it_is_written_but_for_the_secret() {
        let written = "iscsi://user%secret@[::1]:16000/iqn.2026-11.internal.fels:demo/3";
        for nbd in ["nbd://[::1]:17000/demo", "nbd+unix:///demo?socket=nbd.sock"] {
            assert_eq!(nbd.parse::<Target>().unwrap().to_string(), nbd);
        }
        let printed = written.parse::<Target>().unwrap().to_string();
        assert_eq!(printed, "iscsi://user@[::1]:16000/iqn.2026-11.internal.fels:demo/3");
        let written = "nvme://[::1]:17000/nqn.2026-11.internal.fels:demo/3";
        assert_eq!(written.parse::<Target>().unwrap().to_string(), written);
    }

    #[test]
    fn nonsense_is_refused_with_a_hint() {
        for (address, part) in [
            ("/dev/sdb", "write file:/dev/sdb"),
            ("ftp://x", "\"ftp\" is not known; hint: use one of iscsi://"),
            ("iscsi://host/iqn.2026-11.internal.fels:demo", "it takes host, target name"),
            ("iscsi://host:0/iqn.2026-11.internal.fels:demo/0", "host and port"),
            ("iscsi://host/nonsense/0", "is no iSCSI name"),
            ("iscsi://host/iqn.2026-11.internal.fels:demo/99999", "below 16384"),
            ("nvme://host/nqn.2026-11.internal.fels:demo", "it takes host, subsystem name"),
            ("nvme://host/nqn.2026-11.internal.fels:demo/0", "from 1 on"),
            ("nvme://host/iqn.2026-11.internal.fels:demo/1", "is no NQN"),
            ("nbd:demo", "no // behind nbd:"),
            ("nbd://host:port/demo", "host and port"),
            ("nbd+unix:///demo", "no socket is named; hint: write it as nbd+unix:///export?socket=PATH"),
            ("file:", "no path"),
            ("null:x", "takes nothing"),
        ] {
            let error = address.parse::<Target>().unwrap_err().to_string();
            assert!(error.contains(part) && error.contains("hint: "), "{address}: {error}");
        }
    }

    #[test]
    fn a_secret_is_not_in_an_error() {
        let error = "iscsi://user%topsecret@host:x/iqn.2026-11.internal.fels:demo/0".parse::<Target>();
        assert!(!error.unwrap_err().to_string().contains("topsecret"));
    }
}
