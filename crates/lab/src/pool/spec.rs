//! A pool as an address describes it: `pool:raid6?members=6&on=memory`. Where values are lists, it describes several.

use std::fmt;
use std::path::PathBuf;

use plane::layers::{Order, SpinningDisk};
use plane::pool::Level;
use plane::pool::format::DEFAULT_UNIT;

/// How addresses of pools look.
pub const FORM: &str = "pool:LEVEL[?members=6&on=memory|DIRECTORY&spinning=no|7200|10000|15000&order=arrival|elevator&cache=0&\
                        integrity=on|off&unit=64KiB&size=256MiB]";
/// Most pools that one address describes.
const MOST: usize = 64;
/// Beside its share of the data, a member has labels, a journal, tables and what rounding takes.
const EXTRA_BYTES: u64 = 16 << 20;

/// Where the members of a pool are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Members {
    /// In main memory.
    Memory,
    /// In files that are made in this directory, and removed at the end.
    Files(PathBuf),
}

/// A pool that the lab makes, measures in its own process, and throws away.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolSpec {
    /// How its members are arranged.
    pub level: Level,
    /// How many there are.
    pub members: u16,
    /// Where they are.
    pub on: Members,
    /// Revolutions a minute of the disks that its members behave like.
    pub spinning: Option<u32>,
    /// Whom those disks serve next.
    pub order: Order,
    /// Bytes of their write caches.
    pub cache_bytes: u64,
    /// Whether checksums are kept and verified.
    pub integrity: bool,
    /// Bytes of a unit.
    pub unit_bytes: u32,
    /// Bytes of its volume.
    pub size_bytes: u64,
}

/// A sentence without hint: whoever reports it shows [`FORM`].
type Wrong = String;

impl PoolSpec {
    /// With what holds when nothing is said.
    pub fn new(level: Level) -> PoolSpec {
        let members = match level {
            Level::Single => 1,
            Level::Raid1 => 2,
            Level::Raid0 | Level::Raid10 | Level::Raid5 | Level::Raid6 => 6,
        };
        PoolSpec {
            level,
            members,
            on: Members::Memory,
            spinning: None,
            order: Order::Arrival,
            cache_bytes: 0,
            integrity: true,
            unit_bytes: DEFAULT_UNIT,
            size_bytes: 256 << 20,
        }
    }

    /// Bytes of a member that holds its share of the volume.
    pub fn member_bytes(&self) -> u64 {
        let data = u64::from(self.level.data_units(self.members));
        let rows = self.size_bytes.div_ceil(data * u64::from(self.unit_bytes));
        let share = rows * u64::from(self.unit_bytes);
        // The journal takes a 64th, tables and their second copy less than another one.
        (share + share / 16 + EXTRA_BYTES).next_multiple_of(1 << 20)
    }

    /// What stands behind `pool:`, which is one pool.
    pub fn parse(text: &str) -> Result<PoolSpec, Wrong> {
        match &PoolSpec::parse_all(text)?[..] {
            [one] => Ok(one.clone()),
            several => Err(format!("these are {} pools, here one is wanted", several.len())),
        }
    }

    /// All that stands behind `pool:`: each value may be a list with commas, and every combination is a pool. The first
    /// key changes least.
    pub fn parse_all(text: &str) -> Result<Vec<PoolSpec>, Wrong> {
        let (levels, rest) = text.split_once('?').unwrap_or((text, ""));
        let mut specs = Vec::new();
        for level in levels.split(',') {
            let level = level.parse().map_err(|_| format!("{level:?} is no RAID level"))?;
            specs.push(PoolSpec::new(level));
        }
        for part in rest.split('&').filter(|part| !part.is_empty()) {
            let (key, values) = part.split_once('=').ok_or_else(|| format!("{part:?} has no value"))?;
            let mut all = Vec::new();
            for spec in &specs {
                for value in values.split(',') {
                    let mut spec = spec.clone();
                    spec.set(key, value)?;
                    all.push(spec);
                }
            }
            if all.len() > MOST {
                return Err(format!("these are more than {MOST} pools"));
            }
            specs = all;
        }
        specs.iter().try_for_each(PoolSpec::check)?;
        Ok(specs)
    }

    fn set(&mut self, key: &str, value: &str) -> Result<(), Wrong> {
        let wrong = || format!("{key}={value} makes no sense");
        match (key, value) {
            // Levels that take one number only keep it, so that one address describes them all.
            ("members", _) => {
                let members = value.parse().map_err(|_| wrong())?;
                if self.level.slots().count() > 1 {
                    self.members = members;
                }
            }
            ("on", "memory") => self.on = Members::Memory,
            ("on", "") => return Err(wrong()),
            ("on", directory) => self.on = Members::Files(directory.into()),
            ("spinning", "no") => self.spinning = None,
            ("spinning", _) => {
                let rpm = value.parse().map_err(|_| wrong())?;
                SpinningDisk::of_rpm(rpm).ok_or_else(wrong)?;
                self.spinning = Some(rpm);
            }
            ("order", "arrival") => self.order = Order::Arrival,
            ("order", "elevator") => self.order = Order::Elevator,
            ("cache", _) => self.cache_bytes = bytes(value).ok_or_else(wrong)?,
            ("integrity", "on") => self.integrity = true,
            ("integrity", "off") => self.integrity = false,
            ("unit", _) => {
                let unit = bytes(value).and_then(|bytes| u32::try_from(bytes).ok()).ok_or_else(wrong)?;
                self.unit_bytes = unit;
            }
            ("size", _) => self.size_bytes = bytes(value).ok_or_else(wrong)?,
            ("order" | "integrity", _) => return Err(wrong()),
            _ => return Err(format!("there is no {key:?}")),
        }
        Ok(())
    }

    fn check(&self) -> Result<(), Wrong> {
        let PoolSpec { level, members, unit_bytes, size_bytes, .. } = *self;
        if !level.takes(members) {
            return Err(format!("{level} cannot have {members} members"));
        }
        if !unit_bytes.is_power_of_two() || !(4 << 10..=1 << 20).contains(&unit_bytes) {
            return Err("the unit is no power of two from 4KiB to 1MiB".to_owned());
        }
        if !(1 << 20..=1 << 40).contains(&size_bytes) || !size_bytes.is_multiple_of(4096) {
            return Err("the size is no multiple of 4KiB from 1MiB to 1TiB".to_owned());
        }
        self.disk(0).map_or(Ok(()), |disk| disk.check().map_err(|error| error.to_string()))
    }

    /// The disk that the member of a slot behaves like.
    pub fn disk(&self, slot: u16) -> Option<SpinningDisk> {
        let disk = SpinningDisk::of_rpm(self.spinning?)?;
        // No two platters stand alike.
        let seed = u64::from(slot);
        Some(SpinningDisk { order: self.order, write_cache_bytes: self.cache_bytes, seed, ..disk })
    }

    /// Everything that two pools may differ in, by name.
    pub fn factors(&self) -> [(&'static str, String); 9] {
        let on = match &self.on {
            Members::Memory => "memory".to_owned(),
            Members::Files(directory) => directory.display().to_string(),
        };
        let order = match self.order {
            Order::Arrival => "arrival",
            Order::Elevator => "elevator",
        };
        [
            ("level", self.level.to_string()),
            ("members", self.members.to_string()),
            ("on", on),
            ("spinning", self.spinning.map_or_else(|| "no".to_owned(), |rpm| rpm.to_string())),
            ("order", order.to_owned()),
            ("cache", size(self.cache_bytes)),
            ("integrity", if self.integrity { "on" } else { "off" }.to_owned()),
            ("unit", size(u64::from(self.unit_bytes))),
            ("size", size(self.size_bytes)),
        ]
    }

    /// A name for each of several pools: the level, and whatever else differs between them.
    pub fn names(specs: &[PoolSpec]) -> Vec<String> {
        let name = |spec: &PoolSpec| {
            let mut name = spec.level.to_string();
            for (index, (key, value)) in spec.factors().into_iter().enumerate().skip(1) {
                let differs =
                    |other: &PoolSpec| other.level == spec.level && other.factors()[index].1 != value;
                if specs.iter().any(differs) {
                    name.extend([" ", key, "=", value.as_str()]);
                }
            }
            name
        };
        specs.iter().map(name).collect()
    }
}

impl fmt::Display for PoolSpec {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plain = PoolSpec::new(self.level).factors();
        write!(formatter, "pool:{}", self.level)?;
        let mut mark = '?';
        for ((key, value), (_, plain)) in self.factors().into_iter().zip(plain).skip(1) {
            if value != plain {
                write!(formatter, "{mark}{key}={value}")?;
                mark = '&';
            }
        }
        Ok(())
    }
}

/// As people write it: 256MiB, 64k, 4096.
fn bytes(text: &str) -> Option<u64> {
    let lower = text.to_ascii_lowercase();
    let plain = lower.trim_end_matches("ib");
    let (digits, shift) = match plain.char_indices().last()? {
        (at, 'k') => (&plain[..at], 10),
        (at, 'm') => (&plain[..at], 20),
        (at, 'g') => (&plain[..at], 30),
        (at, 't') => (&plain[..at], 40),
        _ => (plain, 0),
    };
    digits.parse::<u64>().ok()?.checked_mul(1 << shift)
}

fn size(bytes: u64) -> String {
    let units = [(40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")];
    let whole = |(shift, _): &(u32, &str)| bytes > 0 && bytes.trailing_zeros() >= *shift;
    units
        .into_iter()
        .find(whole)
        .map_or_else(|| bytes.to_string(), |(shift, unit)| format!("{}{unit}", bytes >> shift))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_prints_as_it_is_written() {
        for text in [
            "pool:raid6",
            "pool:single",
            "pool:raid10?members=8&on=/tmp/x&spinning=7200&order=elevator&cache=16MiB&integrity=off&unit=16KiB&size=1GiB",
        ] {
            let spec = PoolSpec::parse(text.strip_prefix("pool:").unwrap()).unwrap();
            assert_eq!(spec.to_string(), text);
        }
        let spec = PoolSpec::parse("raid1?size=512m&unit=4096").unwrap();
        assert_eq!((spec.members, spec.size_bytes, spec.unit_bytes), (2, 512 << 20, 4096));
        assert_eq!(spec.disk(0), None);
        let disk = PoolSpec::parse("raid0?spinning=15000").unwrap();
        assert!(disk.disk(1).unwrap().rpm == 15_000 && disk.disk(1) != disk.disk(2));
    }

    #[test]
    fn lists_describe_every_combination() {
        let specs = PoolSpec::parse_all("raid10,raid6?integrity=on,off&spinning=no,7200").unwrap();
        let names = PoolSpec::names(&specs);
        assert_eq!(names.len(), 8);
        assert_eq!(names[0], "raid10 spinning=no integrity=on");
        assert_eq!(names[7], "raid6 spinning=7200 integrity=off");
        assert_eq!(PoolSpec::names(&PoolSpec::parse_all("raid0,raid6").unwrap()), ["raid0", "raid6"]);
        let levels = PoolSpec::parse_all("single,raid0,raid1,raid10,raid5,raid6?members=4").unwrap();
        assert_eq!(levels.iter().map(|spec| spec.members).collect::<Vec<_>>(), [1, 4, 4, 4, 4, 4]);
    }

    #[test]
    fn nonsense_is_refused() {
        for (text, part) in [
            ("raid7", "no RAID level"),
            ("raid6?members=3", "raid6 cannot have 3"),
            ("raid6?members=x", "members=x makes no sense"),
            ("raid6?integrity=maybe", "integrity=maybe makes no sense"),
            ("raid6?spinning=1", "spinning=1 makes no sense"),
            ("raid6?cache=2g&spinning=7200", "a buffer of"),
            ("raid6?unit=3k", "no power of two"),
            ("raid6?size=0", "no multiple of 4KiB from 1MiB"),
            ("raid6?size=99999999999t", "makes no sense"),
            ("raid6?on=", "on= makes no sense"),
            ("raid6?color=red", "there is no \"color\""),
            ("raid6?members", "has no value"),
            ("raid0,raid6", "these are 2 pools"),
            ("raid6?size=1m,2m,3m,4m,5m,6m,7m,8m,9m&unit=4k,8k,16k,32k,64k,128k,256k,512k", "more than 64"),
        ] {
            let error = PoolSpec::parse(text).unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
