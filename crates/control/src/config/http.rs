//! The section `[http]`.

use super::error::Problems;
use super::key::Key;
use super::portal::{self, ReadPortals};
use super::table::{Table, Value};
use crate::tls::Files;
use std::net::SocketAddr;
use std::ops::Range;
use std::path::PathBuf;

/// Where the control API is found without a wish.
const PORT: u16 = 8420;

pub(super) const KEYS: &[Key] = &[
    Key {
        name: "listen",
        takes: "`\"address:port\"`, or a list of them",
        default: "`\"127.0.0.1:8420\"`",
        says: "Where the control API is served over HTTP. Beyond loopback it needs TLS and a user.",
    },
    Key {
        name: "certificate",
        takes: "a PEM file, relative to the current directory",
        default: "what `fels cert` has made",
        says: "The certificate for TLS, with those that lead to its root; needs `key`. Without one there is no TLS.",
    },
    Key {
        name: "key",
        takes: "a PEM file, relative to the current directory",
        default: "what `fels cert` has made",
        says: "The key of the certificate, which nobody but its owner may read.",
    },
];

/// Where the control API is served over TCP.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Http {
    /// Where it listens; port 0 where the kernel is to choose.
    pub listen: Vec<SocketAddr>,
    /// The certificate and key that are given.
    pub files: Option<Files>,
}

/// The section with the places that later checks point to.
#[derive(Debug)]
pub(super) struct ReadHttp {
    pub http: Http,
    /// One for each portal; empty when the default holds.
    pub listen_spans: Vec<Range<usize>>,
    /// Of the certificate, or else of the section.
    pub files_span: Range<usize>,
}

impl ReadHttp {
    /// The portals that the file names, each with its place.
    pub fn portals(&self) -> impl Iterator<Item = (&SocketAddr, &Range<usize>)> {
        self.http.listen.iter().zip(&self.listen_spans)
    }
}

/// `None` without the section: who does not ask for it has the unix socket.
pub(super) fn read(problems: &mut Problems<'_>, value: Option<Value<'_>>) -> Option<ReadHttp> {
    let table = value?.table(problems, "a section", "in [http]", KEYS)?;
    let files_span = table.value("certificate").map_or(table.span(), Value::span);
    let files = read_files(problems, &table);
    let hint = "listen on all addresses of the machine at once: 0.0.0.0 or [::]";
    let ReadPortals { listen, spans } = portal::one_or_several(problems, &table, PORT, hint);
    Some(ReadHttp { http: Http { listen, files }, listen_spans: spans, files_span })
}

fn read_files(problems: &mut Problems<'_>, table: &Table<'_>) -> Option<Files> {
    let mut path = |key| {
        let value = table.value(key)?;
        value.string(problems, "a file").map(PathBuf::from)
    };
    let (certificate, key) = (path("certificate"), path("key"));
    for (there, lacks) in [("certificate", "key"), ("key", "certificate")] {
        if let Some(value) = table.value(there).filter(|_| table.lacks(lacks)) {
            let hint = "give both, or neither and make one with `fels cert`";
            problems.add_hint(value.span(), format!("`{there}` needs `{lacks}`"), hint);
        }
    }
    let files = Files { certificate: certificate?, key: key? };
    problems.named.extend([files.certificate.clone(), files.key.clone()]);
    Some(files)
}
