//! The section `[nbd]`.

use super::error::Problems;
use super::key::Key;
use super::portal::{self, ReadPortals};
use super::table::Value;
use super::volume::lexical;
use ring::CongestionControl;
use std::net::SocketAddr;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The port that IANA has given to NBD.
const PORT: u16 = 10809;
/// `sun_path` of the kernel holds 108 bytes, the last of them zero.
const MAX_SOCKET_BYTES: usize = 107;

pub(super) const KEYS: &[Key] = &[
    Key {
        name: "listen",
        takes: "list of `\"address:port\"` on loopback",
        default: "`[\"127.0.0.1:10809\"]`",
        says: "Where NBD is served; `[]` with `socket` is the unix socket alone.",
    },
    Key {
        name: "socket",
        takes: "a path, relative to `data`, up to 107 bytes",
        default: "none",
        says: "A unix socket on which NBD is served too, for the user who runs fels (mode 0600).",
    },
    portal::CONGESTION_CONTROL,
];

/// The NBD server.
#[derive(Debug, Clone, PartialEq)]
pub struct Nbd {
    /// Where it listens; port 0 where the kernel is to choose.
    pub listen: Vec<SocketAddr>,
    /// Its unix socket; the data directory stands in front if the path was relative.
    pub socket: Option<PathBuf>,
    /// What decides how fast its connections send.
    pub congestion_control: CongestionControl,
}

/// The section with the places that later checks point to.
#[derive(Debug)]
pub(super) struct ReadNbd {
    pub nbd: Nbd,
    /// One for each portal; empty when the default holds.
    pub listen_spans: Vec<Range<usize>>,
    pub socket_span: Range<usize>,
}

impl ReadNbd {
    /// The portals that the file names, each with its place.
    pub fn portals(&self) -> impl Iterator<Item = (&SocketAddr, &Range<usize>)> {
        self.nbd.listen.iter().zip(&self.listen_spans)
    }
}

/// `None` without the section: NBD has no authentication, so nobody gets it who does not ask for it.
pub(super) fn read(problems: &mut Problems<'_>, value: Option<Value<'_>>, data: &Path) -> Option<ReadNbd> {
    let table = value?.table(problems, "a section", "in [nbd]", KEYS)?;
    let socket = table.value("socket");
    let mut read = ReadNbd {
        nbd: Nbd {
            listen: Vec::new(),
            socket: socket.and_then(|value| read_socket(problems, value, data)),
            congestion_control: portal::congestion_control(problems, &table),
        },
        listen_spans: Vec::new(),
        socket_span: socket.map_or(table.span(), Value::span),
    };
    let Some(value) = table.value("listen") else {
        read.nbd.listen.push(portal::loopback(PORT));
        return Some(read);
    };
    let ReadPortals { listen, spans } = portal::read(problems, value, PORT, socket.is_some());
    (read.nbd.listen, read.listen_spans) = (listen, spans);
    Some(read)
}

fn read_socket(problems: &mut Problems<'_>, value: Value<'_>, data: &Path) -> Option<PathBuf> {
    let text = value.string(problems, "a path")?;
    let path = lexical(&data.join(lexical(Path::new(text))));
    if path.file_name().is_none() || text.ends_with('/') {
        problems.add(value.span(), format!("`{text}` names no file"));
        return None;
    }
    if path.as_os_str().as_bytes().len() > MAX_SOCKET_BYTES {
        problems.add_hint(
            value.span(),
            format!("the path of the socket is longer than {MAX_SOCKET_BYTES} bytes: {}", path.display()),
            "take a shorter absolute path, such as \"/run/fels/nbd.sock\"",
        );
        return None;
    }
    Some(path)
}
