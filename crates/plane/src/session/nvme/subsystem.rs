//! What hosts connect to: subsystems and their namespaces.

/// A volume as a namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Namespace {
    /// NSID, from 1.
    pub nsid: u32,
    /// The volume's place in [`crate::shard::Shard::volumes`].
    pub volume: usize,
    /// NGUID and UUID.
    pub id: [u8; 16],
}

/// A subsystem: what hosts connect to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subsystem {
    /// Its name.
    pub nqn: String,
    /// Its namespaces in rising order of their NSIDs; a namespace that was taken away leaves a gap.
    pub namespaces: Vec<Namespace>,
    /// The hosts that may connect; none means all.
    pub hosts: Option<Vec<String>>,
    /// Serial number: 20 characters of the first namespace's identity.
    pub serial: String,
}

impl Subsystem {
    /// A subsystem without namespaces. `id`: of its first volume, for the serial number.
    pub fn new(nqn: &str, id: [u8; 16]) -> Subsystem {
        let serial = id.iter().take(10).fold(String::new(), |serial, byte| format!("{serial}{byte:02x}"));
        Subsystem { nqn: nqn.to_owned(), namespaces: Vec::new(), hosts: None, serial }
    }

    /// Adds a volume as the next namespace. `hosts`: who may use it, empty means all; only who may use every volume may
    /// use the subsystem.
    pub fn add(&mut self, volume: usize, id: [u8; 16], hosts: &[String]) {
        let nsid = self.namespaces.last().map_or(1, |last| last.nsid + 1);
        self.add_as(nsid, volume, id, hosts);
    }

    /// As [`Subsystem::add`], with a number that is higher than those before.
    pub fn add_as(&mut self, nsid: u32, volume: usize, id: [u8; 16], hosts: &[String]) {
        if !hosts.is_empty() {
            let admitted = self.hosts.take().unwrap_or_else(|| hosts.to_vec());
            self.hosts = Some(admitted.into_iter().filter(|host| hosts.contains(host)).collect());
        }
        self.namespaces.push(Namespace { nsid, volume, id });
    }

    /// Whether `host` may connect.
    pub fn admits(&self, host: &str) -> bool {
        self.hosts.as_ref().is_none_or(|hosts| hosts.iter().any(|admitted| admitted == host))
    }

    /// The namespace with this NSID.
    pub fn namespace(&self, nsid: u32) -> Option<&Namespace> {
        let place = self.namespaces.binary_search_by_key(&nsid, |namespace| namespace.nsid);
        place.ok().map(|place| &self.namespaces[place])
    }

    /// NSIDs whose namespace is another one here than in `other`, in rising order.
    pub fn differences(&self, other: &Subsystem) -> Vec<u32> {
        let nsids = |one: &Subsystem, two: &Subsystem| -> Vec<u32> {
            let differs = |namespace: &&Namespace| two.namespace(namespace.nsid) != Some(*namespace);
            one.namespaces.iter().filter(differs).map(|namespace| namespace.nsid).collect()
        };
        let mut changed = nsids(self, other);
        changed.extend(nsids(other, self));
        changed.sort_unstable();
        changed.dedup();
        changed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_who_may_use_every_volume_may_use_the_subsystem() {
        let hosts = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let mut subsystem = Subsystem::new("nqn.2026-11.internal.fels:shared", [0xab; 16]);
        subsystem.add(3, [1; 16], &[]);
        assert!(subsystem.admits("a") && subsystem.admits("c"));
        subsystem.add(4, [2; 16], &hosts(&["a", "b"]));
        subsystem.add(5, [3; 16], &hosts(&["b", "c"]));
        assert!(subsystem.admits("b") && !subsystem.admits("a") && !subsystem.admits("c"));
        subsystem.add(6, [4; 16], &hosts(&["a"]));
        assert!(!subsystem.admits("a") && !subsystem.admits("b"), "nobody may use all of them");
        assert_eq!(subsystem.namespace(2).unwrap().volume, 4);
        assert!(subsystem.namespace(0).is_none() && subsystem.namespace(5).is_none());
        assert_eq!(subsystem.serial.len(), 20);
    }

    #[test]
    fn what_came_went_or_became_another_is_a_difference() {
        let mut old = Subsystem::new("nqn.2026-11.internal.fels:shared", [1; 16]);
        (0..4).for_each(|volume| old.add(volume, [volume as u8; 16], &[]));
        let mut new = old.clone();
        assert!(new.differences(&old).is_empty());
        new.namespaces.remove(0);
        new.namespaces[1].volume = 7;
        new.add(4, [4; 16], &[]);
        assert_eq!(new.differences(&old), [1, 3, 5]);
        assert_eq!(old.differences(&new), [1, 3, 5]);
        assert_eq!(new.namespace(4).unwrap().volume, 3, "the others keep their places");
    }
}
