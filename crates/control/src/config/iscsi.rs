//! The section `[iscsi]`.

use super::chap::{self, ChapUser};
use super::error::Problems;
use super::key::Key;
use super::portal::{self, ReadPortals};
use super::table::Value;
use ring::CongestionControl;
use std::net::SocketAddr;
use std::ops::Range;
use std::time::Duration;

/// The port that IANA has given to iSCSI.
const PORT: u16 = 3260;
const NOP_INTERVAL: Duration = Duration::from_secs(15);
const NOP_TIMEOUT: Duration = Duration::from_secs(15);
const HOUR: Duration = Duration::from_secs(3600);

pub(super) const KEYS: &[Key] = &[
    Key {
        name: "listen",
        takes: "list of `\"address:port\"`",
        default: "`[\"127.0.0.1:3260\"]`",
        says: "Portals. Port 0 lets the kernel choose one, which is printed at start.",
    },
    Key {
        name: "nop_interval",
        takes: "seconds or `\"15s\"`, 0 to 1h",
        default: "`15`",
        says: "A connection that was silent for so long is asked for a sign of life (NOP-In); 0 never asks.",
    },
    Key {
        name: "nop_timeout",
        takes: "seconds or `\"15s\"`, 1s to 1h",
        default: "`15`",
        says: "A connection that does not answer for so long is closed; so is one that answers, and for 30 seconds takes nothing of what \
               is sent or sends nothing of the data of its writes.",
    },
    Key {
        name: "discovery_chap",
        takes: "list of CHAP users",
        default: "`[]`: no CHAP",
        says: "Who may ask for the list of targets.",
    },
    portal::CONGESTION_CONTROL,
];

/// The iSCSI target.
#[derive(Debug, Clone, PartialEq)]
pub struct Iscsi {
    /// Portals, at least one; port 0 where the kernel is to choose.
    pub listen: Vec<SocketAddr>,
    /// Silence after which a connection is asked for a sign of life; `None` never asks.
    pub nop_interval: Option<Duration>,
    /// Time to answer that, then the connection is closed.
    pub nop_timeout: Duration,
    /// Users of discovery sessions; empty is discovery without authentication.
    pub discovery_chap: Vec<ChapUser>,
    /// What decides how fast its connections send.
    pub congestion_control: CongestionControl,
}

/// The section with the places that later checks point to.
#[derive(Debug)]
pub(super) struct ReadIscsi {
    pub iscsi: Iscsi,
    /// One for each portal; empty when the default holds.
    pub listen_spans: Vec<Range<usize>>,
    /// Users of discovery are given, be they right or wrong.
    pub has_discovery_chap: bool,
}

pub(super) fn read(problems: &mut Problems<'_>, value: Option<Value<'_>>) -> ReadIscsi {
    let mut read = ReadIscsi {
        iscsi: Iscsi {
            listen: Vec::new(),
            nop_interval: Some(NOP_INTERVAL),
            nop_timeout: NOP_TIMEOUT,
            discovery_chap: Vec::new(),
            congestion_control: CongestionControl::Auto,
        },
        listen_spans: Vec::new(),
        has_discovery_chap: false,
    };
    let table = value.and_then(|value| value.table(problems, "a section", "in [iscsi]", KEYS));
    if let Some(table) = table {
        if let Some(value) = table.value("listen") {
            let ReadPortals { listen, spans } = portal::read(problems, value, PORT, false);
            (read.iscsi.listen, read.listen_spans) = (listen, spans);
        }
        if let Some(value) = table.value("nop_interval") {
            let takes = "a time from 0 to 1h";
            let time = value.duration(problems, takes, Duration::ZERO..=HOUR);
            read.iscsi.nop_interval = time.filter(|time| !time.is_zero());
        }
        if let Some(value) = table.value("nop_timeout") {
            let takes = "a time from 1s to 1h";
            let time = value.duration(problems, takes, Duration::from_secs(1)..=HOUR);
            read.iscsi.nop_timeout = time.unwrap_or(NOP_TIMEOUT);
        }
        read.iscsi.congestion_control = portal::congestion_control(problems, &table);
        if let Some(value) = table.value("discovery_chap") {
            read.has_discovery_chap = value.is_filled_list();
            read.iscsi.discovery_chap = chap::users(problems, value, "in `discovery_chap` of [iscsi]");
        }
    }
    if read.iscsi.listen.is_empty() {
        read.iscsi.listen.push(portal::loopback(PORT));
    }
    read
}
