//! Numbers of NVMe namespaces (NSIDs), which stay with their volumes: to a host another number is another disk.

use std::collections::HashSet;

use crate::config::{Config, MAX_NAMESPACES, Volume};

/// Gives a number to every volume that is served over NVMe and has none: the one that it has in what runs, or the next that nobody
/// had in its subsystem, in the order of the document.
pub fn number(running: Option<&Config>, wished: &mut Config) {
    for place in lacking(wished) {
        let volume = &wished.volumes[place];
        let known = running.and_then(|running| known(running, volume));
        wished.volumes[place].nvme.nsid = known.filter(|nsid| !taken(wished, volume).contains(nsid));
    }
    for place in lacking(wished) {
        let volume = &wished.volumes[place];
        let mut taken = taken(wished, volume);
        taken.extend(running.into_iter().flat_map(|running| self::taken(running, volume)));
        let next = taken.iter().max().map_or(1, |last| last + 1);
        let free = || (1..=MAX_NAMESPACES as u32).find(|nsid| !taken.contains(nsid));
        let nsid = if next <= MAX_NAMESPACES as u32 { next } else { free().unwrap_or(next) };
        wished.volumes[place].nvme.nsid = Some(nsid);
    }
}

/// The places of volumes that the next start would give another number. `numbered` is `document` with all numbers.
pub fn renumbered(document: &Config, numbered: &Config) -> Vec<usize> {
    let mut fresh = document.clone();
    number(None, &mut fresh);
    let differs = |place: &usize| fresh.volumes[*place].nvme.nsid != numbered.volumes[*place].nvme.nsid;
    lacking(document).into_iter().filter(differs).collect()
}

/// The volumes whose number has to be written down, with it: all without one of a subsystem of which the next start would number
/// any otherwise, as one that is written down changes what the others get. `numbered` is `document` with all numbers.
pub fn to_write(document: &Config, numbered: &Config) -> Vec<(String, u32)> {
    let moved: HashSet<&str> = renumbered(document, numbered)
        .into_iter()
        .map(|place| document.volumes[place].nvme.subsystem.as_str())
        .collect();
    let is_open = |place: &usize| moved.contains(document.volumes[*place].nvme.subsystem.as_str());
    let places = lacking(document).into_iter().filter(is_open);
    places
        .filter_map(|place| {
            let volume = &numbered.volumes[place];
            Some((volume.name.clone(), volume.nvme.nsid?))
        })
        .collect()
}

/// The places of volumes that are served over NVMe and have no number.
fn lacking(config: &Config) -> Vec<usize> {
    let lacks = |volume: &Volume| volume.enabled && volume.nvme.is_offered && volume.nvme.nsid.is_none();
    (0..config.volumes.len()).filter(|place| lacks(&config.volumes[*place])).collect()
}

fn known(running: &Config, volume: &Volume) -> Option<u32> {
    let before = running.volumes.iter().find(|before| before.name == volume.name)?;
    before.nvme.nsid.filter(|_| before.nvme.subsystem == volume.nvme.subsystem)
}

/// The numbers of a volume's subsystem.
fn taken(config: &Config, volume: &Volume) -> HashSet<u32> {
    let beside = config.volumes.iter().filter(|other| other.nvme.subsystem == volume.nvme.subsystem);
    beside.filter_map(|other| other.nvme.nsid).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(volumes: &[&str]) -> Config {
        let of = |volume: &&str| {
            let (name, keys) = volume.split_once(' ').unwrap_or((volume, ""));
            format!(
                "[[volume]]\nname = \"{name}\"\nsize = \"1MiB\"\nbacking = {{ memory = true }}\nsubsystem = \"s\"\n{keys}\n"
            )
        };
        let volumes: String = volumes.iter().map(of).collect();
        Config::parse(&format!("[nvme]\n{volumes}"), "a test").unwrap()
    }

    fn numbers(config: &Config) -> Vec<Option<u32>> {
        config.volumes.iter().map(|volume| volume.nvme.nsid).collect()
    }

    fn numbered(running: Option<&Config>, volumes: &[&str]) -> Config {
        let mut config = config(volumes);
        number(running, &mut config);
        config
    }

    #[test]
    fn numbers_stay_with_their_volumes() {
        let first = numbered(None, &["a", "b", "c"]);
        assert_eq!(numbers(&first), [Some(1), Some(2), Some(3)]);
        let second = numbered(Some(&first), &["d", "c", "b"]);
        assert_eq!(numbers(&second), [Some(4), Some(3), Some(2)], "what is new had no number before");
        assert_eq!(numbers(&numbered(Some(&second), &["b nsid = 7", "c"])), [Some(7), Some(3)]);
        let taken = numbered(Some(&second), &["a nsid = 3", "c", "b"]);
        assert_eq!(numbers(&taken), [Some(3), Some(5), Some(2)], "who names a number has it");
        assert_eq!(
            numbers(&numbered(None, &["a nsid = 5", "b", "c enabled = false"])),
            [Some(5), Some(6), None]
        );
        assert_eq!(numbers(&numbered(None, &["a nsid = 1024", "b"])), [Some(1024), Some(1)]);
    }

    #[test]
    fn what_the_next_start_would_number_otherwise_is_written() {
        let first = numbered(None, &["a", "b", "c"]);
        let fewer = ["b", "c"];
        let expected = [("b".to_owned(), 2), ("c".to_owned(), 3)];
        assert_eq!(to_write(&config(&fewer), &numbered(Some(&first), &fewer)), expected);
        let more = ["a", "b", "c", "d"];
        assert_eq!(to_write(&config(&more), &numbered(Some(&first), &more)), []);
    }
}
