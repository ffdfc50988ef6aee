//! The sections `[[pool]]`.

use super::error::Problems;
use super::key::Key;
use super::spinning;
use super::table::{Table, Value};
use super::volume::{file_path, is_device, is_name};
use plane::layers::SpinningDisk;
use plane::pool::Level;
use plane::pool::format::{DEFAULT_UNIT, label};
use std::ops::Range;
use std::path::{Path, PathBuf};

pub(super) const KEYS: &[Key] = &[
    Key {
        name: "name",
        takes: "as the name of a volume, up to 64",
        default: "required",
        says: "Its name, by which volumes take it. It stands on the members and cannot be changed.",
    },
    Key {
        name: "raid",
        takes: "`\"single\"`, `\"raid0\"`, `\"raid1\"`, `\"raid10\"`, `\"raid5\"` or `\"raid6\"`",
        default: "required",
        says: "How the members are arranged.",
    },
    Key {
        name: "members",
        takes: "list of files, relative to `data`, and devices such as `\"/dev/sdb\"`; or of the table below",
        default: "required",
        says: "What the pool lives on: 1 for single, 2 to 64 for raid0, 2 to 4 for raid1, an even number from 4 to 64 for raid10, 3 to 64 for raid5, 4 to 64 for raid6.",
    },
    Key {
        name: "member_size",
        takes: "`\"1GiB\"`, `\"10GB\"` or bytes",
        default: "none: files have to be there",
        says: "Bytes of the files that are made when the pool is made, and of spares that are made later.",
    },
    Key {
        name: "spares",
        takes: "list of files and devices, up to 16",
        default: "`[]`",
        says: "Members that wait: when one fails or stays away, a spare takes its place by itself and is rebuilt. As large as the others; for levels with redundancy. A blank one, or a missing file when there is `member_size`, becomes a spare at the start.",
    },
    Key {
        name: "unit",
        takes: "a power of two from `\"4KiB\"` to `\"1MiB\"`",
        default: "`\"64KiB\"`",
        says: "Bytes that lie together on one member.",
    },
    Key {
        name: "integrity",
        takes: "`true` or `false`",
        default: "`true`",
        says: "Whether every block has a checksum, which is verified whenever it is read.",
    },
    Key {
        name: "spinning",
        takes: "`{}` or the table below",
        default: "none: as fast as they are",
        says: "Each member takes the time of a disk that turns. For measuring.",
    },
];

pub(super) const MEMBER_KEYS: &[Key] = &[Key {
    name: "memory",
    takes: "`\"1GiB\"`, `\"10GB\"` or bytes",
    default: "required",
    says: "Main memory; empty again after each start, so that all members of the pool have to be memory. For measuring.",
}];

/// A pool.
#[derive(Debug, Clone, PartialEq)]
pub struct Pool {
    /// Its name.
    pub name: String,
    /// How its members are arranged.
    pub level: Level,
    /// Its members.
    pub members: Vec<Member>,
    /// Members that wait for one to fail; none is memory.
    pub spares: Vec<Member>,
    /// Bytes of members that are files and are made.
    pub member_bytes: Option<u64>,
    /// Bytes that lie together on one member.
    pub unit_bytes: u32,
    /// Whether every block has a checksum.
    pub integrity: bool,
    /// The disk that each member behaves like.
    pub spinning: Option<SpinningDisk>,
}

/// A member of a pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Member {
    /// A file; the path has the data directory in front if it was relative.
    File(PathBuf),
    /// A block device.
    Device(PathBuf),
    /// Main memory of so many bytes.
    Memory(u64),
}

impl Member {
    /// The file or device.
    pub fn path(&self) -> Option<&Path> {
        match self {
            Self::File(path) | Self::Device(path) => Some(path),
            Self::Memory(_) => None,
        }
    }
}

/// A pool with the places that later checks point to. Where something was missing or wrong, a neutral value stands in, and
/// the problem is reported already.
#[derive(Debug)]
pub(super) struct ReadPool {
    pub pool: Pool,
    pub name_span: Range<usize>,
    /// Of the list as a whole.
    pub members_span: Range<usize>,
    /// One for each member.
    pub member_spans: Vec<Range<usize>>,
    /// One for each spare.
    pub spare_spans: Vec<Range<usize>>,
    /// All of the arrangement is there and right, so that sizes can be computed.
    pub is_whole: bool,
}

pub(super) fn read_all(problems: &mut Problems<'_>, value: Option<Value<'_>>, data: &Path) -> Vec<ReadPool> {
    let Some(value) = value else { return Vec::new() };
    if !value.is_list() {
        let hint = "write [[pool]] with two brackets: there can be several";
        problems.add_hint(value.span(), "`pool` takes sections [[pool]]", hint);
        return Vec::new();
    }
    let pools = value.list(problems, "sections [[pool]]");
    pools.into_iter().filter_map(|value| read(problems, value, data)).collect()
}

fn read(problems: &mut Problems<'_>, value: Value<'_>, data: &Path) -> Option<ReadPool> {
    let title = match value.peek("name") {
        Some(name) if is_pool_name(name) => format!("in [[pool]] `{name}`"),
        _ => "in [[pool]]".to_owned(),
    };
    let table = value.table(problems, "sections [[pool]]", title, KEYS)?;
    for (key, example) in [
        ("name", "name = \"tank\""),
        ("raid", "raid = \"raid6\""),
        ("members", "members = [\"m0.img\", \"m1.img\"]"),
    ] {
        if table.lacks(key) {
            let title = table.title().trim_start_matches("in ");
            problems.add_hint(table.span(), format!("{title} has no `{key}`"), format!("add {example}"));
        }
    }
    let level = table.value("raid").and_then(|value| read_level(problems, value));
    let unit_bytes = table.value("unit").map_or(Some(DEFAULT_UNIT), |value| read_unit(problems, value));
    let (members, member_spans) = read_members(problems, &table, data);
    let name = table.value("name");
    let spares = table.value("spares");
    let (spares, spare_spans) = spares.map_or_else(Default::default, |value| {
        let without = level.filter(|level| level.redundancy(*level.slots().end()) == 0);
        read_spares(problems, value, without, data)
    });
    if let Some(span) = spare_spans.first()
        && members.iter().any(|member| matches!(member, Member::Memory(_)))
    {
        let hint = "leave the spares out: a pool of memory begins anew with each start";
        problems.add_hint(span.clone(), "a pool whose members are memory has no spares", hint);
    }
    let pool = Pool {
        name: name.and_then(|value| read_name(problems, value)).unwrap_or_default(),
        level: level.unwrap_or(Level::Single),
        member_bytes: read_member_size(problems, &table, &members),
        members,
        spares,
        unit_bytes: unit_bytes.unwrap_or(DEFAULT_UNIT),
        integrity: table.value("integrity").and_then(|value| value.boolean(problems)).unwrap_or(true),
        spinning: table.value("spinning").and_then(|value| spinning::read(problems, value)),
    };
    let place = |value: Option<Value<'_>>| value.map_or(table.span(), Value::span);
    let members = table.value("members");
    let count = members.filter(|value| value.is_list()).map(|value| value.list(problems, "").len());
    let takes =
        level.zip(count).is_some_and(|(level, count)| check_count(problems, level, count, place(members)));
    let all_read = count == Some(pool.members.len());
    Some(ReadPool {
        pool,
        name_span: place(name),
        members_span: place(members),
        member_spans,
        spare_spans,
        is_whole: takes && all_read && unit_bytes.is_some(),
    })
}

fn is_pool_name(name: &str) -> bool {
    name.len() <= label::MAX_NAME_BYTES && is_name(name)
}

fn read_name(problems: &mut Problems<'_>, value: Value<'_>) -> Option<String> {
    let name = value.string(problems, "a name")?;
    if is_pool_name(name) {
        return Some(name.to_owned());
    }
    let most = label::MAX_NAME_BYTES;
    let shown: String = name.chars().take(most).collect();
    let hint = format!(
        "use up to {most} lower-case letters, digits, - . and :, with a letter or digit first and last"
    );
    problems.add_hint(value.span(), format!("`{shown}` cannot be the name of a pool"), hint);
    None
}

fn read_level(problems: &mut Problems<'_>, value: Value<'_>) -> Option<Level> {
    let text = value.string(problems, "a RAID level such as \"raid6\"")?;
    text.parse().map_err(|error| add_text(problems, value.span(), &error)).ok()
}

/// Reports an error of the layers below, whose text ends with its hint.
pub(super) fn add_text(problems: &mut Problems<'_>, span: Range<usize>, error: &dyn std::error::Error) {
    let text = error.to_string();
    match text.split_once("; hint: ") {
        Some((message, hint)) => problems.add_hint(span, message, hint),
        None => problems.add(span, text),
    }
}

fn read_unit(problems: &mut Problems<'_>, value: Value<'_>) -> Option<u32> {
    let bytes = value.bytes(problems)?;
    let unit =
        u32::try_from(bytes).ok().filter(|unit| unit.is_power_of_two() && (4 << 10..=1 << 20).contains(unit));
    if unit.is_none() {
        let hint = "\"64KiB\" suits most; larger ones suit large requests, smaller ones spread small writes";
        problems.add_hint(value.span(), "`unit` takes a power of two from \"4KiB\" to \"1MiB\"", hint);
    }
    unit
}

/// The spares that can be read, each with its place. `without`: the level, if it has no redundancy.
fn read_spares(
    problems: &mut Problems<'_>,
    value: Value<'_>,
    without: Option<Level>,
    data: &Path,
) -> (Vec<Member>, Vec<Range<usize>>) {
    let values = value.list(problems, "a list of files and devices");
    if let Some(level) = without.filter(|_| !values.is_empty()) {
        let hint = "leave them out, or take a level with redundancy";
        problems.add_hint(
            value.span(),
            format!("spares are of no use with {level}: nothing rebuilds them"),
            hint,
        );
    }
    if values.len() > label::MAX_SPARES {
        let most = label::MAX_SPARES;
        problems.add_hint(value.span(), format!("a pool has up to {most} spares"), "leave some of them out");
    }
    let mut read = Vec::with_capacity(values.len());
    for value in values {
        if value.is_table() {
            let hint = "name a file or a device: memory would be empty after each start";
            problems.add_hint(value.span(), "a spare cannot be memory", hint);
        } else if let Some(member) = read_member(problems, value, data) {
            read.push((member, value.span()));
        }
    }
    read.into_iter().unzip()
}

/// The members that can be read, each with its place.
fn read_members(
    problems: &mut Problems<'_>,
    table: &Table<'_>,
    data: &Path,
) -> (Vec<Member>, Vec<Range<usize>>) {
    let Some(value) = table.value("members") else { return Default::default() };
    let values = value.list(problems, "a list of files and devices");
    let read =
        values.into_iter().filter_map(|value| Some((read_member(problems, value, data)?, value.span())));
    let (members, spans): (Vec<_>, Vec<_>) = read.unzip();
    let in_memory = |member: &Member| matches!(member, Member::Memory(_));
    if members.iter().any(in_memory)
        && let Some(lasting) = members.iter().position(|member| !in_memory(member))
    {
        problems.add_hint(
            spans[lasting].clone(),
            "some members of this pool are memory, and this one is not",
            "memory is empty after each start: take it for all members, or for none",
        );
    }
    (members, spans)
}

fn read_member(problems: &mut Problems<'_>, value: Value<'_>, data: &Path) -> Option<Member> {
    if value.is_table() {
        let table = value.table(problems, "{ memory = \"1GiB\" }", "in `members`", MEMBER_KEYS)?;
        if table.lacks("memory") {
            problems.add_hint(
                value.span(),
                "this member has no `memory`",
                "write { memory = \"1GiB\" }, or a file",
            );
        }
        return table.value("memory")?.bytes(problems).map(Member::Memory);
    }
    let path = file_path(problems, value, data)?;
    Some(if is_device(&path) { Member::Device(path) } else { Member::File(path) })
}

fn read_member_size(problems: &mut Problems<'_>, table: &Table<'_>, members: &[Member]) -> Option<u64> {
    let value = table.value("member_size")?;
    let bytes = value.bytes(problems)?;
    if !members.is_empty() && !members.iter().any(|member| matches!(member, Member::File(_))) {
        let hint = "leave it out: it is the size of the files that are made";
        problems.add_hint(value.span(), "no member of this pool is a file", hint);
        return None;
    }
    Some(bytes)
}

fn check_count(problems: &mut Problems<'_>, level: Level, count: usize, span: Range<usize>) -> bool {
    let slots = u16::try_from(count).unwrap_or(u16::MAX);
    if !level.takes(slots) {
        add_text(problems, span, &plane::pool::format::PlanError::Members { level, slots });
    }
    level.takes(slots)
}
