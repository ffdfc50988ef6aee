//! Named loads: each is a table of tests, as it was published.

use std::time::Duration;

use crate::load::Load;

/// One test of a profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProfileTest {
    /// As it is printed.
    pub name: &'static str,
    /// Bytes of an operation.
    pub block_size: u32,
    /// Operations of 100 that read.
    pub read_percent: u8,
    /// Operations of 100 that go to a random place.
    pub random_percent: u8,
    /// Jobs.
    pub jobs: u32,
    /// Operations in flight for each.
    pub depth: u32,
}

/// A named series of tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Profile {
    /// What it is called.
    pub name: &'static str,
    /// What it is about, in one line.
    pub about: &'static str,
    /// How long each test takes, in seconds.
    pub time_s: u64,
    /// How long each runs before it is measured, in seconds.
    pub warm_up_s: u64,
    /// Bytes of the target that are used; the whole if there is no number.
    pub size: Option<u64>,
    /// In this order.
    pub tests: &'static [ProfileTest],
}

const fn vmware(name: &'static str, block_size: u32, read_percent: u8, random_percent: u8) -> ProfileTest {
    ProfileTest { name, block_size, read_percent, random_percent, jobs: 1, depth: 64 }
}

/// Every profile.
pub const PROFILES: &[Profile] = &[
    Profile {
        name: "vmware",
        about: "the four IOMETER tests of the unofficial storage performance thread: 1 worker, 64 outstanding",
        time_s: 120,
        warm_up_s: 5,
        size: None,
        tests: &[
            vmware("Max Throughput-100%Read", 32 << 10, 100, 0),
            vmware("RealLife-60%Rand-65%Read", 8 << 10, 65, 60),
            vmware("Max Throughput-50%Read", 32 << 10, 50, 0),
            vmware("Random-8k-70%Read", 8 << 10, 70, 100),
        ],
    },
    Profile {
        name: "database",
        about: "random 8k, 70 % read, 16 jobs with 16 in flight each, fresh data for every write",
        time_s: 180,
        warm_up_s: 5,
        size: None,
        tests: &[ProfileTest {
            name: "Random-8k-70%Read-16x16",
            block_size: 8 << 10,
            read_percent: 70,
            random_percent: 100,
            jobs: 16,
            depth: 16,
        }],
    },
];

/// The profile of that name.
pub fn find(name: &str) -> Option<&'static Profile> {
    PROFILES.iter().find(|profile| profile.name == name)
}

impl Profile {
    /// Its loads, by name.
    pub fn loads(&self) -> impl Iterator<Item = (&'static str, Load)> {
        self.tests.iter().map(|test| {
            let load = Load {
                read_percent: test.read_percent,
                random_percent: test.random_percent,
                block_size: test.block_size,
                depth: test.depth,
                jobs: test.jobs,
                size: self.size,
                time: Duration::from_secs(self.time_s),
                warm_up: Duration::from_secs(self.warm_up_s),
                ..Load::default()
            };
            (test.name, load)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn profiles_are_as_published() {
        let vmware: Vec<_> = find("vmware").unwrap().loads().collect();
        assert_eq!(vmware.len(), 4);
        let (name, load) = &vmware[1];
        assert_eq!(*name, "RealLife-60%Rand-65%Read");
        assert_eq!((load.block_size, load.read_percent, load.random_percent), (8192, 65, 60));
        assert!(vmware.iter().all(|(_, load)| load.jobs * load.depth == 64));
        let (_, database) = find("database").unwrap().loads().next().unwrap();
        assert_eq!((database.jobs * database.depth, database.time.as_secs()), (256, 180));
        assert_eq!(find("nothing"), None);
    }
}
