//! The `[[pool]]` table of a configuration that makes a pool, or finds it again.

use std::fmt;
use std::path::{Path, PathBuf};

use plane::pool::Level;
use plane::pool::format::DEFAULT_UNIT;

use crate::size::display_bytes;

/// What the table says.
#[derive(Clone, Debug)]
pub struct PoolTable {
    /// Its name.
    pub name: String,
    /// How its members are arranged.
    pub level: Level,
    /// Bytes of a unit.
    pub unit: u32,
    /// Whether every block has a checksum.
    pub integrity: bool,
    /// For each slot where its member is; none of one that nobody knows.
    pub members: Vec<Option<PathBuf>>,
    /// Where spares are.
    pub spares: Vec<PathBuf>,
    /// Bytes of files that are made.
    pub member_bytes: Option<u64>,
}

/// What stands where the member of a slot is not known: the configuration counts it as missing.
fn unknown(slot: usize) -> PathBuf {
    PathBuf::from(format!("missing-member-{slot}"))
}

fn quoted(path: &Path) -> String {
    toml::Value::String(path.display().to_string()).to_string()
}

impl fmt::Display for PoolTable {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |paths: &mut dyn Iterator<Item = PathBuf>| {
            let lines: Vec<_> = paths.map(|path| format!("    {},\n", quoted(&path))).collect();
            format!("[\n{}]", lines.concat())
        };
        let place =
            |(slot, member): (usize, &Option<PathBuf>)| member.clone().unwrap_or_else(|| unknown(slot));
        writeln!(out, "[[pool]]\nname = \"{}\"\nraid = \"{}\"", self.name, self.level)?;
        writeln!(out, "members = {}", list(&mut self.members.iter().enumerate().map(place)))?;
        if !self.spares.is_empty() {
            writeln!(out, "spares = {}", list(&mut self.spares.iter().cloned()))?;
        }
        if let Some(bytes) = self.member_bytes {
            writeln!(out, "member_size = \"{}\"", display_bytes(bytes))?;
        }
        if self.unit != DEFAULT_UNIT {
            writeln!(out, "unit = \"{}\"", display_bytes(self.unit.into()))?;
        }
        if !self.integrity {
            writeln!(out, "integrity = false")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Config;
    use crate::config::Member;

    #[test]
    fn what_is_printed_is_read_again() {
        let table = PoolTable {
            name: "tank".into(),
            level: Level::Raid5,
            unit: 16 << 10,
            integrity: false,
            members: vec![Some("/srv/a \"b\"\\.img".into()), None, Some("/dev/sdb".into())],
            spares: Vec::new(),
            member_bytes: Some(64 << 20),
        };
        let config = Config::parse(&table.to_string(), "fels.toml").unwrap();
        let pool = &config.pools[0];
        assert_eq!((pool.name.as_str(), pool.level, pool.unit_bytes), ("tank", Level::Raid5, 16 << 10));
        assert!(!pool.integrity && pool.member_bytes == Some(64 << 20));
        let members = [
            Member::File("/srv/a \"b\"\\.img".into()),
            Member::File("fels-data/missing-member-1".into()),
            Member::Device("/dev/sdb".into()),
        ];
        assert_eq!(pool.members, members);
    }

    #[test]
    fn what_is_usual_is_left_out() {
        let table = PoolTable {
            name: "tank".into(),
            level: Level::Single,
            unit: DEFAULT_UNIT,
            integrity: true,
            members: vec![Some("/m0".into())],
            spares: Vec::new(),
            member_bytes: None,
        };
        assert_eq!(
            table.to_string(),
            "[[pool]]\nname = \"tank\"\nraid = \"single\"\nmembers = [\n    \"/m0\",\n]\n"
        );
    }
}
