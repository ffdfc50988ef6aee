//! The section `[mail]`.

use super::chap::read_secret_file;
use super::error::Problems;
use super::key::Key;
use super::table::{Table, Value};
use std::path::PathBuf;

/// The roots that Debian has, as most others have them.
const ROOTS: &str = "/etc/ssl/certs/ca-certificates.crt";
/// When the digest is sent without a wish.
const DIGEST_MINUTE: u32 = 7 * 60;

pub(super) const KEYS: &[Key] = &[
    Key {
        name: "server",
        takes: "a host name or an address",
        default: "required",
        says: "The mail server (SMTP) that takes messages to everybody.",
    },
    Key {
        name: "port",
        takes: "1 to 65535",
        default: "`587`, `465` with `tls = \"tls\"`, `25` with `\"none\"`",
        says: "Its port.",
    },
    Key {
        name: "tls",
        takes: "`\"starttls\"`, `\"tls\"` or `\"none\"`",
        default: "`\"starttls\"`",
        says: "How it is made safe: asked for and then required, from the first byte on, or not at all. `\"none\"` takes no `user`, but for a server on this machine.",
    },
    Key { name: "user", takes: "a name", default: "none", says: "Who sends; needs `password_file`." },
    Key {
        name: "password_file",
        takes: "a file, relative to the current directory",
        default: "none",
        says: "A file that holds the password in its only line and that nobody but its owner may read. It is read for every message.",
    },
    Key { name: "from", takes: "a mail address", default: "required", says: "Who the messages are from." },
    Key {
        name: "ca",
        takes: "a PEM file, relative to the current directory",
        default: "the roots of the system",
        says: "The roots that vouch for the certificate of the server.",
    },
    Key {
        name: "digest",
        takes: "a time in UTC such as `\"07:00\"`, or `\"never\"`",
        default: "`\"07:00\"`",
        says: "When a summary of the last day is sent to those of the `[[alert]]` called `default`.",
    },
];

/// How messages are sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mail {
    /// The mail server.
    pub server: String,
    /// Its port.
    pub port: u16,
    /// How it is made safe.
    pub tls: MailTls,
    /// Who sends, and the file with the password.
    pub user: Option<(String, PathBuf)>,
    /// Who the messages are from.
    pub from: String,
    /// The roots that vouch for the server.
    pub ca: PathBuf,
    /// Minutes after midnight, UTC, at which the digest is sent.
    pub digest_minute: Option<u32>,
}

/// How the way to a mail server is made safe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MailTls {
    /// By STARTTLS, which is required.
    StartTls,
    /// From the first byte on.
    Tls,
    /// Not at all.
    None,
}

/// A mail address, if it is one.
pub(super) fn address(problems: &mut Problems<'_>, value: Value<'_>) -> Option<String> {
    let text = value.string(problems, "a mail address")?;
    if text.parse::<lettre::Address>().is_ok() {
        return Some(text.to_owned());
    }
    let shown: String = text.chars().take(64).collect();
    let hint = "write it as somebody@example.org, without a name in front";
    problems.add_hint(value.span(), format!("`{shown}` is no mail address"), hint);
    None
}

pub(super) fn read(problems: &mut Problems<'_>, value: Option<Value<'_>>) -> Option<Mail> {
    let table = value?.table(problems, "a section", "in [mail]", KEYS)?;
    for (key, example) in
        [("server", "server = \"mail.example.org\""), ("from", "from = \"san1@example.org\"")]
    {
        if table.lacks(key) {
            problems.add_hint(table.span(), format!("[mail] has no `{key}`"), format!("add {example}"));
        }
    }
    let tls = table.value("tls").map_or(Some(MailTls::StartTls), |value| read_tls(problems, value));
    let usual = match tls {
        Some(MailTls::StartTls) | None => 587,
        Some(MailTls::Tls) => 465,
        Some(MailTls::None) => 25,
    };
    let port = table.value("port").map_or(Some(usual), |value| {
        let port = value.integer(problems, "a port from 1 to 65535", 1..=65535)?;
        u16::try_from(port).ok()
    });
    let server = table.value("server").and_then(|value| read_server(problems, value));
    let user = read_user(problems, &table);
    let digest = table.value("digest").map_or(Ok(Some(DIGEST_MINUTE)), |value| read_digest(problems, value));
    let ca = table.value("ca").map_or(Some(ROOTS), |value| value.string(problems, "a file"));
    let from = table.value("from").and_then(|value| address(problems, value));
    let (server, tls) = (server?, tls?);
    if let (Some(value), MailTls::None, false) = (table.value("user"), tls, is_here(&server)) {
        let hint = "leave `tls` out, or `user`";
        problems.add_hint(value.span(), "without TLS everybody on the way could read the password", hint);
        return None;
    }
    Some(Mail {
        server,
        port: port?,
        tls,
        user,
        from: from?,
        ca: PathBuf::from(ca?),
        digest_minute: digest.ok()?,
    })
}

/// Whether a server is on this machine.
fn is_here(server: &str) -> bool {
    server == "localhost" || server.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

fn read_server(problems: &mut Problems<'_>, value: Value<'_>) -> Option<String> {
    let text = value.string(problems, "a host name or an address")?;
    let is_host = |byte: u8| byte.is_ascii_alphanumeric() || b".-:_".contains(&byte);
    if text.len() <= 253 && text.bytes().all(is_host) {
        return Some(text.to_owned());
    }
    let hint = "write it as mail.example.org, and its port with `port`";
    problems.add_hint(value.span(), "`server` takes a host name or an address", hint);
    None
}

fn read_tls(problems: &mut Problems<'_>, value: Value<'_>) -> Option<MailTls> {
    let takes = "`\"starttls\"`, `\"tls\"` or `\"none\"`";
    match value.string(problems, takes)? {
        "starttls" => Some(MailTls::StartTls),
        "tls" => Some(MailTls::Tls),
        "none" => Some(MailTls::None),
        _ => {
            problems.add(value.span(), format!("`tls` takes {takes}"));
            None
        }
    }
}

fn read_user(problems: &mut Problems<'_>, table: &Table<'_>) -> Option<(String, PathBuf)> {
    for (there, lacks) in [("user", "password_file"), ("password_file", "user")] {
        if let Some(value) = table.value(there).filter(|_| table.lacks(lacks)) {
            problems.add_hint(value.span(), format!("`{there}` needs `{lacks}`"), "give both, or neither");
        }
    }
    let user = table.value("user").and_then(|value| value.string(problems, "a name"));
    let file = table.value("password_file")?;
    let path = file.string(problems, "a file")?;
    problems.named.push(path.into());
    if let Err((why, hint)) = read_secret_file(path) {
        problems.add_hint(file.span(), format!("the password file {path} {why}"), hint);
        return None;
    }
    Some((user?.to_owned(), PathBuf::from(path)))
}

/// The minute, or none for never. What is wrong is reported.
fn read_digest(problems: &mut Problems<'_>, value: Value<'_>) -> Result<Option<u32>, ()> {
    let takes = "a time in UTC such as \"07:00\", or \"never\"";
    let text = value.string(problems, takes).ok_or(())?;
    if text == "never" {
        return Ok(None);
    }
    let minute = || {
        let (hour, minute) = text.split_once(':')?;
        let number = |text: &str, most: u32| {
            let number: u32 = text.parse().ok()?;
            (text.len() == 2 && number <= most).then_some(number)
        };
        Some(number(hour, 23)? * 60 + number(minute, 59)?)
    };
    let minute = minute();
    if minute.is_none() {
        problems.add(value.span(), format!("`digest` takes {takes}"));
    }
    minute.map(Some).ok_or(())
}
