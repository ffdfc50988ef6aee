//! The sections `[[volume]]`.

use super::chap::{self, ChapUser};
use super::error::Problems;
use super::key::Key;
use super::nvme::{self, Namespace};
use super::table::{Table, Value};
use crate::size::display_bytes;
use plane::volume::Limits;
use std::ops::Range;
use std::path::{Component, Path, PathBuf};

/// What the names of all targets begin with (RFC 7143 section 4.2.7.4).
pub const IQN_PREFIX: &str = "iqn.2026-11.internal.fels:";
/// An iSCSI name has at most 223 bytes (RFC 7143 section 4.2.7.1).
const MAX_ISCSI_NAME_BYTES: usize = 223;
const MAX_NAME_BYTES: usize = MAX_ISCSI_NAME_BYTES - IQN_PREFIX.len();
/// Far beyond any backing of today, and small enough that no sum of sizes comes near 64 bits.
const MAX_SIZE_BYTES: u64 = 1 << 50;
const MAX_ALIAS_BYTES: usize = 255;
/// Names in the data directory that belong to the node.
const RESERVED_FILES: [&str; 8] = [
    crate::state::NODE_FILE,
    crate::state::NEW_NODE_FILE,
    crate::state::LOCK_FILE,
    crate::api::SOCKET_FILE,
    crate::store::DOCUMENT_FILE,
    crate::store::NEW_DOCUMENT_FILE,
    crate::store::PENDING_FILE,
    crate::store::NEW_PENDING_FILE,
];

pub(super) const KEYS: &[Key] = &[
    Key {
        name: "name",
        takes: "lower-case letters, digits, `-` `.` `:`, up to 197",
        default: "required",
        says: "Its name; the target is `iqn.2026-11.internal.fels:NAME`, LUN 0.",
    },
    Key {
        name: "size",
        takes: "`\"1GiB\"`, `\"512MiB\"`, `\"10GB\"` or bytes, up to 1PiB",
        default: "required",
        says: "Its size, a multiple of `block_size`.",
    },
    Key {
        name: "backing",
        takes: "one of the table below",
        default: "this or `pool`",
        says: "Where its bytes live.",
    },
    Key {
        name: "pool",
        takes: "the name of a `[[pool]]`",
        default: "this or `backing`",
        says: "The pool that its bytes live on; it is entered there when it is new.",
    },
    Key {
        name: "block_size",
        takes: "`512` or `4096`",
        default: "`512`",
        says: "Bytes of a logical block; physical blocks of 4096 are reported with both.",
    },
    Key { name: "chap", takes: "list of CHAP users", default: "`[]`: no CHAP", says: "Who may log in." },
    Key {
        name: "chap_mutual",
        takes: "one CHAP user",
        default: "none",
        says: "What the target proves itself with to initiators that ask for it; needs `chap`.",
    },
    Key {
        name: "allow",
        takes: "list of initiator names",
        default: "`[]`: all",
        says: "Initiators that may see it and log in.",
    },
    Key {
        name: "alias",
        takes: "text, up to 255 bytes",
        default: "none",
        says: "A name for people (TargetAlias, NBD's description).",
    },
    Key {
        name: "nbd",
        takes: "`true` or `false`",
        default: "`true`, but `false` with `chap` or `allow`",
        says: "Whether it is an NBD export too, where there is `[nbd]`. NBD asks nobody who he is.",
    },
    Key {
        name: "nvme",
        takes: "`true` or `false`",
        default: "`true`, but `false` with `chap` or `allow`",
        says: "Whether it is an NVMe namespace too, where there is `[nvme]`; with `chap` or `allow`, `true` needs `hosts`.",
    },
    Key {
        name: "subsystem",
        takes: "a name, as `name`",
        default: "the volume's name",
        says: "Its NVMe subsystem, `nqn.2026-11.internal.fels:SUBSYSTEM`. Volumes that share one are its namespaces.",
    },
    Key {
        name: "nsid",
        takes: "1 to 1024",
        default: "the next that no volume of the subsystem has",
        says: "Its number in the subsystem (NSID), by which hosts know it. The node writes it down when its place in the file does not say it any more.",
    },
    Key {
        name: "hosts",
        takes: "list of host NQNs",
        default: "`[]`: all",
        says: "NVMe hosts that may see it and connect; a subsystem admits who may use all its volumes.",
    },
    Key {
        name: "limits",
        takes: "the table below",
        default: "none",
        says: "What initiators get of it together, at most.",
    },
    Key {
        name: "enabled",
        takes: "`true` or `false`",
        default: "`true`",
        says: "Whether it is served. With `false` nobody can use it, and its bytes stay.",
    },
];

pub(super) const BACKING_KEYS: &[Key] = &[
    Key {
        name: "file",
        takes: "a file, relative to `data`",
        default: "one of these four",
        says: "A sparse file, made if missing.",
    },
    Key {
        name: "memory",
        takes: "`true`",
        default: "one of these four",
        says: "Main memory; empty again after each start.",
    },
    Key {
        name: "null",
        takes: "`true`",
        default: "one of these four",
        says: "Nothing: writes are dropped, reads give zeroes. For measuring.",
    },
    Key {
        name: "device",
        takes: "an absolute path",
        default: "one of these four",
        says: "A block device, such as `/dev/sdb`. What is on it is overwritten by initiators.",
    },
];

pub(super) const LIMIT_KEYS: &[Key] = &[
    Key {
        name: "iops",
        takes: "1 to 1000000000",
        default: "no limit",
        says: "Requests in a second, over all protocols, sessions and cores.",
    },
    Key {
        name: "throughput",
        takes: "`\"200MB/s\"`, `\"1GiB/s\"` or bytes a second",
        default: "no limit",
        says: "Bytes that are read and written in a second.",
    },
];

/// Where the bytes of a volume live.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Backing {
    /// A file; the path has the data directory in front if it was relative.
    File(PathBuf),
    /// Main memory.
    Memory,
    /// Nowhere.
    Null,
    /// A block device.
    Device(PathBuf),
    /// The pool of this name.
    Pool(String),
}

/// A volume.
#[derive(Debug, Clone, PartialEq)]
pub struct Volume {
    /// Its name, fit for an IQN.
    pub name: String,
    /// Its size in bytes, a multiple of `block_size`, at most 1 PiB.
    pub size_bytes: u64,
    /// Where its bytes live.
    pub backing: Backing,
    /// Bytes of a logical block, 512 or 4096.
    pub block_size: u32,
    /// What initiators get of it together, at most.
    pub limits: Limits,
    /// Users that may log in; empty is no authentication.
    pub chap: Vec<ChapUser>,
    /// What the target proves itself with.
    pub chap_mutual: Option<ChapUser>,
    /// Initiators that may log in; empty is all.
    pub allow: Vec<String>,
    /// A name for people.
    pub alias: Option<String>,
    /// Whether it is an NBD export too.
    pub nbd: bool,
    /// How it is offered over NVMe.
    pub nvme: Namespace,
    /// Whether it is served at all.
    pub enabled: bool,
}

impl Volume {
    /// The iSCSI name of its target.
    pub fn target_name(&self) -> String {
        format!("{IQN_PREFIX}{}", self.name)
    }
}

/// A volume with the places that later checks point to. Where something was missing or wrong, a neutral value
/// stands in, and the problem is reported already.
#[derive(Debug)]
pub(super) struct ReadVolume {
    pub volume: Volume,
    pub name_span: Range<usize>,
    pub backing_span: Range<usize>,
    /// Users are given, be they right or wrong.
    pub has_chap: bool,
}

pub(super) fn read_all(
    problems: &mut Problems<'_>,
    value: Option<Value<'_>>,
    data: &Path,
) -> Vec<ReadVolume> {
    let Some(value) = value else { return Vec::new() };
    if !value.is_list() {
        let hint = "write [[volume]] with two brackets: there can be several";
        problems.add_hint(value.span(), "`volume` takes sections [[volume]]", hint);
        return Vec::new();
    }
    let volumes = value.list(problems, "sections [[volume]]");
    volumes.into_iter().filter_map(|value| read(problems, value, data)).collect()
}

fn read(problems: &mut Problems<'_>, value: Value<'_>, data: &Path) -> Option<ReadVolume> {
    let title = match value.peek("name") {
        Some(name) if is_name(name) => format!("in [[volume]] `{name}`"),
        _ => "in [[volume]]".to_owned(),
    };
    let table = value.table(problems, "sections [[volume]]", title, KEYS)?;
    for key in ["name", "size", "backing"] {
        if table.lacks(key) && (key != "backing" || table.lacks("pool")) {
            missing(problems, &table, key);
        }
    }
    let name = table.value("name");
    let (backing, backing_span) = read_place(problems, &table, data);
    let block_size = table.value("block_size").map_or(512, |value| read_block_size(problems, value));
    let of = |key: &str| format!("in `{key}` of {}", table.title().trim_start_matches("in "));
    let has_chap = table.value("chap").is_some_and(Value::is_filled_list);
    let is_guarded = has_chap || table.value("allow").is_some_and(Value::is_filled_list);
    let name_text = name.and_then(|value| read_name(problems, value)).unwrap_or_default();
    let volume = Volume {
        nvme: nvme::of_volume(problems, &table, &name_text, is_guarded, is_name),
        name: name_text,
        size_bytes: table.value("size").map_or(0, |value| read_size(problems, value, block_size)),
        backing: backing.unwrap_or(Backing::Null),
        block_size,
        limits: table.value("limits").map_or_else(Limits::default, |value| read_limits(problems, value)),
        chap: table.value("chap").map_or_else(Vec::new, |value| chap::users(problems, value, &of("chap"))),
        chap_mutual: table
            .value("chap_mutual")
            .and_then(|value| chap::user(problems, value, &of("chap_mutual"))),
        allow: table.value("allow").map_or_else(Vec::new, |value| read_allow(problems, value)),
        alias: table.value("alias").and_then(|value| read_alias(problems, value)),
        nbd: table.value("nbd").and_then(|value| value.boolean(problems)).unwrap_or(!is_guarded),
        enabled: table.value("enabled").and_then(|value| value.boolean(problems)).unwrap_or(true),
    };
    check_mutual(problems, &table, &volume);
    let name_span = name.map_or(table.span(), Value::span);
    Some(ReadVolume { volume, name_span, backing_span, has_chap })
}

fn missing(problems: &mut Problems<'_>, table: &Table<'_>, key: &str) {
    let (what, example) = match key {
        "name" => ("name", "name = \"demo\""),
        "size" => ("size", "size = \"1GiB\""),
        _ => ("backing", "backing = { file = \"demo.img\" }"),
    };
    let title = table.title().trim_start_matches("in ");
    problems.add_hint(table.span(), format!("{title} has no `{what}`"), format!("add {example}"));
}

/// Where the bytes live: `backing` or `pool`, and where that stands.
fn read_place(
    problems: &mut Problems<'_>,
    table: &Table<'_>,
    data: &Path,
) -> (Option<Backing>, Range<usize>) {
    match (table.value("backing"), table.value("pool")) {
        (Some(_), Some(pool)) => {
            let hint = "keep the one that has its bytes";
            problems.add_hint(pool.span(), "this volume has a `backing` and a `pool`", hint);
            (None, pool.span())
        }
        (Some(backing), None) => (read_backing(problems, backing, data), backing.span()),
        (None, Some(pool)) => {
            let name = pool.string(problems, "the name of a pool");
            (name.map(|name| Backing::Pool(name.to_owned())), pool.span())
        }
        (None, None) => (None, table.span()),
    }
}

pub(super) fn is_name(name: &str) -> bool {
    let edge = |c: Option<char>| c.is_some_and(|c| c.is_ascii_lowercase() || c.is_ascii_digit());
    name.len() <= MAX_NAME_BYTES
        && edge(name.chars().next())
        && edge(name.chars().last())
        && name.chars().all(|c| edge(Some(c)) || "-.:".contains(c))
}

fn read_name(problems: &mut Problems<'_>, value: Value<'_>) -> Option<String> {
    let name = value.string(problems, "a name")?;
    if is_name(name) {
        return Some(name.to_owned());
    }
    let shown: String = name.chars().take(MAX_NAME_BYTES).collect();
    let message = if name.len() > MAX_NAME_BYTES {
        format!("this volume name is longer than {MAX_NAME_BYTES} bytes")
    } else {
        format!("`{shown}` cannot be part of a target's name")
    };
    let hint = "use lower-case letters, digits, - . and :, with a letter or digit first and last";
    let suggestion: String = name
        .to_lowercase()
        .chars()
        .map(|c| if "_ /".contains(c) { '-' } else { c })
        .take(MAX_NAME_BYTES)
        .collect();
    let hint = if is_name(&suggestion) && name.len() <= MAX_NAME_BYTES {
        format!("{hint}: `{suggestion}`")
    } else {
        hint.to_owned()
    };
    problems.add_hint(value.span(), message, hint);
    None
}

fn read_block_size(problems: &mut Problems<'_>, value: Value<'_>) -> u32 {
    match value.integer(problems, "512 or 4096", 0..=u64::MAX) {
        Some(4096) => 4096,
        Some(512) | None => 512,
        Some(other) => {
            problems.add(value.span(), format!("`block_size` takes 512 or 4096, this is {other}"));
            512
        }
    }
}

fn read_size(problems: &mut Problems<'_>, value: Value<'_>, block_size: u32) -> u64 {
    let Some(size) = value.bytes(problems) else { return 0 };
    let block = u64::from(block_size);
    if size == 0 {
        problems.add(value.span(), "`size` is 0");
    } else if size > MAX_SIZE_BYTES {
        problems.add(value.span(), format!("`size` is {}, more than 1PiB", display_bytes(size)));
    } else if !size.is_multiple_of(block) {
        let below = size - size % block;
        let nearest = if below == 0 { block } else { below };
        problems.add_hint(
            value.span(),
            format!("`size` is {size} bytes, no multiple of the block size {block}"),
            format!("the nearest size that fits is {}", display_bytes(nearest)),
        );
    } else {
        return size;
    }
    0
}

fn read_backing(problems: &mut Problems<'_>, value: Value<'_>, data: &Path) -> Option<Backing> {
    let takes =
        "one of { file = \"demo.img\" }, { memory = true }, { null = true }, { device = \"/dev/sdb\" }";
    let table = value.table(problems, takes, "in `backing`", BACKING_KEYS)?;
    let given: Vec<_> =
        BACKING_KEYS.iter().filter_map(|key| table.value(key.name).map(|value| (key.name, value))).collect();
    let [(kind, inner)] = given[..] else {
        if BACKING_KEYS.iter().all(|key| table.lacks(key.name)) || given.len() > 1 {
            let count = if given.is_empty() { "none" } else { "more than one" };
            problems.add(value.span(), format!("`backing` takes {takes}; there is {count}"));
        }
        return None;
    };
    match kind {
        "file" => read_file(problems, inner, data),
        "device" => read_device(problems, inner),
        "memory" => inner.only_true(problems).map(|()| Backing::Memory),
        _ => inner.only_true(problems).map(|()| Backing::Null),
    }
}

fn read_file(problems: &mut Problems<'_>, value: Value<'_>, data: &Path) -> Option<Backing> {
    let path = file_path(problems, value, data)?;
    if is_device(&path) {
        let hint = format!("write backing = {{ device = \"{}\" }}", path.display());
        let text = value.string(problems, "a file")?;
        problems.add_hint(value.span(), format!("`{text}` is a device, not a file"), hint);
        return None;
    }
    Some(Backing::File(path))
}

/// Whether a path is that of a device. Shared memory is a file system like any other.
pub(crate) fn is_device(path: &Path) -> bool {
    path.starts_with("/dev") && !path.starts_with("/dev/shm")
}

/// The path of a file, relative to `data`, that is not one of the node's own.
pub(super) fn file_path(problems: &mut Problems<'_>, value: Value<'_>, data: &Path) -> Option<PathBuf> {
    let text = value.string(problems, "a file")?;
    let path = lexical(Path::new(text));
    if path.file_name().is_none() || text.ends_with('/') {
        problems.add(value.span(), format!("`{text}` names no file"));
        return None;
    }
    let path = lexical(&data.join(path));
    if let Some(name) = RESERVED_FILES.iter().find(|name| path == lexical(&data.join(name))) {
        let message = format!("`{name}` in the data directory belongs to the node itself");
        problems.add_hint(value.span(), message, "take another name, such as \"demo.img\"");
        return None;
    }
    Some(path)
}

fn read_device(problems: &mut Problems<'_>, value: Value<'_>) -> Option<Backing> {
    let text = value.string(problems, "a path such as \"/dev/sdb\"")?;
    let path = lexical(Path::new(text));
    if path.is_absolute() {
        return Some(Backing::Device(path));
    }
    let message = format!("`{text}` is not an absolute path");
    let hint = format!("write backing = {{ device = \"/dev/{}\" }}", text.trim_start_matches("dev/"));
    problems.add_hint(value.span(), message, hint);
    None
}

/// `path` without `.` and, where that needs no look at the disk, without `..`; so that one file has one path.
pub(crate) fn lexical(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir if plain.file_name().is_some() => {
                plain.pop();
            }
            other => plain.push(other),
        }
    }
    plain
}

fn read_limits(problems: &mut Problems<'_>, value: Value<'_>) -> Limits {
    let takes = "a table such as { iops = 5000, throughput = \"200MB/s\" }";
    let Some(table) = value.table(problems, takes, "in `limits`", LIMIT_KEYS) else {
        return Limits::default();
    };
    let iops = table
        .value("iops")
        .and_then(|value| value.integer(problems, "a number from 1 to 1000000000", 1..=1_000_000_000));
    let throughput = table.value("throughput").and_then(|value| value.rate(problems));
    Limits { iops, bytes_per_second: throughput }
}

fn read_allow(problems: &mut Problems<'_>, value: Value<'_>) -> Vec<String> {
    let mut allow = Vec::new();
    for entry in value.list(problems, "a list of initiator names") {
        let Some(name) = entry.string(problems, "names of initiators") else { continue };
        if is_initiator_name(name) {
            allow.push(name.to_owned());
        } else {
            problems.add_hint(
                entry.span(),
                format!("`{name}` is not the name of an initiator"),
                "write it as in /etc/iscsi/initiatorname.iscsi: iqn.YYYY-MM.domain[:name], eui. and 16 hex digits, or naa. and 16 or 32",
            );
        }
    }
    allow
}

/// RFC 7143 section 4.2.7: types iqn, eui and naa; normalised names have no upper case letters.
fn is_initiator_name(name: &str) -> bool {
    let hex = |digits: &str| digits.chars().all(|c| c.is_ascii_hexdigit());
    if name.len() > MAX_ISCSI_NAME_BYTES {
        return false;
    }
    if let Some(digits) = name.strip_prefix("eui.") {
        return digits.len() == 16 && hex(digits);
    }
    if let Some(digits) = name.strip_prefix("naa.") {
        return matches!(digits.len(), 16 | 32) && hex(digits);
    }
    let Some(rest) = name.strip_prefix("iqn.") else { return false };
    let digit = |at: usize| rest.as_bytes().get(at).is_some_and(u8::is_ascii_digit);
    let byte = |at: usize, byte: u8| rest.as_bytes().get(at) == Some(&byte);
    (0..4).all(digit)
        && byte(4, b'-')
        && digit(5)
        && digit(6)
        && byte(7, b'.')
        && rest.len() > 8
        && rest.chars().all(|c| !c.is_whitespace() && !c.is_control() && !c.is_uppercase())
}

fn read_alias(problems: &mut Problems<'_>, value: Value<'_>) -> Option<String> {
    let alias = value.string(problems, "a text")?;
    if alias.len() > MAX_ALIAS_BYTES {
        problems.add(value.span(), format!("`alias` is longer than {MAX_ALIAS_BYTES} bytes"));
        return None;
    }
    Some(alias.to_owned())
}

/// RFC 7143 section 9.2.1: the secrets of the two directions must differ; and mutual means both.
fn check_mutual(problems: &mut Problems<'_>, table: &Table<'_>, volume: &Volume) {
    let (Some(value), Some(mutual)) = (table.value("chap_mutual"), &volume.chap_mutual) else { return };
    if table.value("chap").is_none() {
        let hint = "add chap = [{ user = \"alice\", secret = \"...\" }]";
        problems.add_hint(value.span(), "`chap_mutual` is given without `chap`", hint);
    }
    if volume.chap.iter().any(|user| user.secret.expose() == mutual.secret.expose()) {
        problems.add_hint(
            value.span(),
            "`chap_mutual` has the same secret as a user in `chap`",
            "the two directions need different secrets: whoever knows one could answer for the other",
        );
    }
}
