//! Flags that several subcommands share: targets, and loads.

use crate::message::Failure;
use clap::{Args, ValueEnum};
use lab::initiator::OpenOptions;
use lab::load::{Arrivals, Load, Rate};
use lab::profile::{self, PROFILES};
use lab::target::{Credentials, without_secret};
use lab::{Target, Test};
use ring::BusyPoll;
use std::time::Duration;

#[derive(Debug, Args)]
pub struct TargetFlags {
    /// iscsi://[user[%secret]@]host[:port]/iqn/lun, nvme://host[:port]/nqn/nsid, nbd://host[:port]/export,
    /// nbd+unix:///export?socket=PATH, file:PATH or null:
    #[arg(long, value_name = "URL")]
    pub target: Target,
    #[command(flatten)]
    pub open: OpenFlags,
}

// How sessions are opened. No doc comment: clap would show it as that of the command.
#[derive(Debug, Args)]
pub struct OpenFlags {
    /// iSCSI and NVMe: digests of headers
    #[arg(long)]
    header_digest: bool,
    /// iSCSI and NVMe: digests of data
    #[arg(long)]
    data_digest: bool,
    /// iSCSI: the name of this initiator
    #[arg(long, value_name = "IQN")]
    initiator_name: Option<String>,
    /// NVMe: the name of this host
    #[arg(long, value_name = "NQN", value_parser = host_nqn)]
    host_nqn: Option<String>,
    /// iSCSI: the name that the target has to prove (mutual CHAP); its secret is in FELS_CHAP_TARGET_SECRET
    #[arg(long, value_name = "NAME")]
    target_user: Option<String>,
    /// How long a command may take before its connection is given up
    #[arg(long, value_name = "SPAN", value_parser = span, default_value = "30s")]
    timeout: Duration,
}

// A load of one's own, or what is to be changed of a profile.
#[derive(Debug, Args)]
pub struct LoadFlags {
    /// What the operations are; --rwmix and --random change the shares
    #[arg(long, value_enum, conflicts_with = "profile")]
    rw: Option<Pattern>,
    /// Bytes of an operation, such as 4k
    #[arg(long, value_name = "BYTES", value_parser = operation, conflicts_with = "profile")]
    bs: Option<u32>,
    /// Operations in flight for each job
    #[arg(long, value_name = "N")]
    depth: Option<u32>,
    /// Jobs, each with a session of its own
    #[arg(long, value_name = "N")]
    jobs: Option<u32>,
    /// Operations of 100 that read
    #[arg(long, value_name = "PERCENT", conflicts_with = "profile")]
    rwmix: Option<u8>,
    /// Operations of 100 that go to a random place
    #[arg(long, value_name = "PERCENT", conflicts_with = "profile")]
    random: Option<u8>,
    /// How long each test is measured, such as 30s or 2m
    #[arg(long, value_name = "SPAN", value_parser = span)]
    time: Option<Duration>,
    /// How long each test runs before it is measured
    #[arg(long, value_name = "SPAN", value_parser = span)]
    warmup: Option<Duration>,
    /// Open loop: so many operations per second are due, however slow the target is
    #[arg(long, value_name = "IOPS")]
    rate: Option<f64>,
    /// Open loop: when they are due
    #[arg(long, value_enum, requires = "rate", default_value = "poisson")]
    arrivals: ArrivalsFlag,
    /// Bytes of the target that are used, such as 10g; all of it if not given
    #[arg(long, value_name = "BYTES", value_parser = bytes)]
    size: Option<u64>,
    /// Where they begin
    #[arg(long, value_name = "BYTES", value_parser = bytes, default_value = "0")]
    offset: u64,
    /// Write stamped blocks, check every read, and read everything again at the end
    #[arg(long)]
    verify: bool,
    /// Flush after every N writes of a job
    #[arg(long, value_name = "N", default_value_t = 0)]
    flush_every: u64,
    /// Every write goes to stable media before it is acknowledged
    #[arg(long)]
    fua: bool,
    /// Threads of the lab; the smaller of jobs and cores if not given
    #[arg(long, value_name = "N")]
    pub threads: Option<usize>,
    /// How long a thread looks for answers at most before it sleeps, such as 60us; 0s always sleeps at once; auto: 60us, or
    /// 500us while more comes through with these [default: auto]
    #[arg(long, value_name = "SPAN", value_parser = busy_poll)]
    busy_poll: Option<BusyPoll>,
    /// The same seed asks for the same operations
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Pattern {
    Read,
    Write,
    Randread,
    Randwrite,
    Rw,
    Randrw,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum ArrivalsFlag {
    Constant,
    Poisson,
}

/// A number of bytes: k, m, g and t are 1024 and its powers.
pub fn bytes(text: &str) -> Result<u64, String> {
    let lower = text.to_ascii_lowercase();
    let digits = lower.trim_end_matches("ib").trim_end_matches('b');
    let (number, factor) = match digits.char_indices().last() {
        Some((at, 'k')) => (&digits[..at], 1 << 10),
        Some((at, 'm')) => (&digits[..at], 1 << 20),
        Some((at, 'g')) => (&digits[..at], 1 << 30),
        Some((at, 't')) => (&digits[..at], 1u64 << 40),
        _ => (digits, 1),
    };
    let value = number.parse::<u64>().ok().and_then(|number| number.checked_mul(factor));
    value.ok_or_else(|| "write it as 4096, 4k, 1m or 10g".to_owned())
}

/// The bytes of one operation.
fn operation(text: &str) -> Result<u32, String> {
    u32::try_from(bytes(text)?).map_err(|_| "one operation moves less than 4g".to_owned())
}

/// A span of time in seconds, or with us, ms, s, m or h.
pub fn span(text: &str) -> Result<Duration, String> {
    let units = [("us", 0.000_001), ("ms", 0.001), ("s", 1.0), ("m", 60.0), ("h", 3600.0), ("", 1.0)];
    let found = units.iter().find_map(|(unit, seconds)| Some((text.strip_suffix(unit)?, seconds)));
    let value = found.and_then(|(number, seconds)| Some(number.parse::<f64>().ok()? * seconds));
    value
        .filter(|seconds| (0.0..1e7).contains(seconds))
        .map(Duration::from_secs_f64)
        .ok_or_else(|| "write it as 30s, 500ms or 2m".to_owned())
}

fn busy_poll(text: &str) -> Result<BusyPoll, String> {
    if text == "auto" {
        return Ok(BusyPoll::Auto);
    }
    span(text).map(BusyPoll::Most).map_err(|_| "write it as auto, 0s or 60us".to_owned())
}

fn host_nqn(text: &str) -> Result<String, String> {
    lab::target::check_nqn(text).map(|()| text.to_owned())
}

impl TargetFlags {
    pub fn target(&self) -> Result<Target, Failure> {
        self.open.complete(&self.target)
    }
}

impl OpenFlags {
    pub fn options(&self) -> OpenOptions {
        let mut options = OpenOptions {
            header_digest: self.header_digest,
            data_digest: self.data_digest,
            timeout: self.timeout,
            ..OpenOptions::default()
        };
        if let Some(name) = &self.initiator_name {
            options.initiator_name.clone_from(name);
        }
        if let Some(name) = &self.host_nqn {
            options.host_nqn.clone_from(name);
        }
        options
    }

    /// The target as the lab takes it: with what is not part of its address.
    pub fn complete(&self, target: &Target) -> Result<Target, Failure> {
        let mut target = target.clone();
        if let (Target::Iscsi(iscsi), Some(user)) = (&mut target, &self.target_user) {
            let secret = std::env::var("FELS_CHAP_TARGET_SECRET").unwrap_or_default();
            if secret.is_empty() || iscsi.chap.is_none() {
                return Err(Failure::usage(
                    "mutual CHAP needs a user of ours and the secret of the target",
                    "write user%secret@ in the address and set FELS_CHAP_TARGET_SECRET",
                ));
            }
            iscsi.mutual = Some(Credentials { user: user.clone(), secret });
        }
        Ok(target)
    }
}

impl LoadFlags {
    /// Of the profile, or the one test that the flags describe.
    pub fn tests(&self, profile: Option<&str>) -> Result<Vec<Test>, Failure> {
        let Some(name) = profile else {
            let load = self.change(&self.own());
            let kind = if load.random_percent > 0 { "random" } else { "sequential" };
            let name = format!("{kind} {} B {}% read", load.block_size, load.read_percent);
            return Ok(vec![Test { name, load }]);
        };
        let profile = profile::find(name).ok_or_else(|| {
            if name.contains(':') {
                let shown = without_secret(name);
                return Failure::usage(
                    format!("`{shown}` is an address, and no profile"),
                    "give one address, behind --target; without a profile --rw and others say what is asked of it",
                );
            }
            let names: Vec<_> = PROFILES.iter().map(|profile| profile.name).collect();
            Failure::usage(format!("there is no profile {name:?}"), &format!("use {}", names.join(" or ")))
        })?;
        let tests = profile.loads();
        Ok(tests.map(|(name, load)| Test { name: name.to_owned(), load: self.change(&load) }).collect())
    }

    /// The load that --rw and its companions describe.
    fn own(&self) -> Load {
        let (read_percent, random_percent) = match self.rw.unwrap_or(Pattern::Randread) {
            Pattern::Read => (100, 0),
            Pattern::Write => (0, 0),
            Pattern::Randread => (100, 100),
            Pattern::Randwrite => (0, 100),
            Pattern::Rw => (50, 0),
            Pattern::Randrw => (50, 100),
        };
        let standard = Load::default();
        Load {
            read_percent: self.rwmix.unwrap_or(read_percent),
            random_percent: self.random.unwrap_or(random_percent),
            block_size: self.bs.unwrap_or(standard.block_size),
            ..standard
        }
    }

    /// What may be changed of a profile as well.
    fn change(&self, load: &Load) -> Load {
        let arrivals = match self.arrivals {
            ArrivalsFlag::Constant => Arrivals::Constant,
            ArrivalsFlag::Poisson => Arrivals::Poisson,
        };
        Load {
            depth: self.depth.unwrap_or(load.depth),
            jobs: self.jobs.unwrap_or(load.jobs),
            time: self.time.unwrap_or(load.time),
            warm_up: self.warmup.unwrap_or(load.warm_up),
            rate: self.rate.map(|per_second| Rate { per_second, arrivals }),
            size: self.size.or(load.size),
            offset: self.offset,
            verify: self.verify,
            flush_every: self.flush_every,
            fua: self.fua,
            seed: self.seed,
            busy_poll: self.busy_poll.unwrap_or(load.busy_poll),
            ..load.clone()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_spans_are_read_as_people_write_them() {
        assert_eq!((bytes("4k"), bytes("1GiB"), bytes("512")), (Ok(4096), Ok(1 << 30), Ok(512)));
        assert!(bytes("k").is_err() && bytes("-1").is_err() && bytes("99999999999t").is_err());
        assert_eq!((operation("1m"), operation("4294967295")), (Ok(1 << 20), Ok(u32::MAX)));
        assert!(operation("4g").is_err_and(|hint| hint.contains("less than 4g")));
        assert_eq!(
            (span("500ms"), span("60us")),
            (Ok(Duration::from_millis(500)), Ok(Duration::from_micros(60)))
        );
        assert_eq!((span("2m"), span("30")), (Ok(Duration::from_secs(120)), Ok(Duration::from_secs(30))));
        assert!(span("-1s").is_err() && span("x").is_err() && span("nan").is_err());
        assert_eq!(
            (busy_poll("auto"), busy_poll("0s")),
            (Ok(BusyPoll::Auto), Ok(BusyPoll::Most(Duration::ZERO)))
        );
        assert!(busy_poll("x").is_err_and(|hint| hint.contains("auto")));
    }
}
