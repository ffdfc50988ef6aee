//! `fels lab compare`: several targets in turns.

use super::flags::{LoadFlags, OpenFlags};
use super::progress::ProgressLine;
use super::{failure, keep, stop_flag, write_and_print};
use crate::message::Failure;
use clap::Args;
use lab::Target;
use lab::compare::{self, CompareOptions, CompareReport, NamedTarget};
use lab::pool::{PoolSpec, PoolTarget};
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  fels lab compare nvme://127.0.0.1/nqn.2026-11.internal.fels:demo/1 nbd://127.0.0.1/demo --profile vmware --time 30
  fels lab compare old=file:/dev/sdb new=file:/dev/sdc --rw randrw --rwmix 70 --bs 8k --rounds 7 --json both.json
  fels lab compare 'pool:raid10,raid6?integrity=off,on' --rw randread --depth 32 --time 2 --rounds 5
  fels lab compare 'pool:raid10,raid6?on=memory,/srv/tmp&size=1GiB' 'pool:raid10,raid6?spinning=7200&size=1GiB' --rw randwrite";

/// Run one profile against several targets in turns, and print the factors between them
///
/// Every round measures each target once, and begins with the next one. The table has medians over the rounds, as
/// factors of the first target, with the least and the most beside; it says which figures are doubtful: identical
/// samples, a machine that drifts, a lab that is the limit. Writes destroy what is there.
///
/// Ctrl-C prints what was measured before the measurement at hand; a second one ends at once. Ends with 1 if a target went
/// away or a block was wrong.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Compare {
    /// Two targets or more, the first is the base: addresses as of `fels lab run --target`, or name=address
    ///
    /// A pool that the lab makes for itself is pool:LEVEL?KEY=VALUE&..., with the keys members, on (memory, or a directory for
    /// files), spinning (no, or revolutions a minute), order, cache, integrity, unit and size. Values may be lists with commas:
    /// every combination is a target, and a table says what each key does. Its processor time is in that of the lab.
    #[arg(value_name = "[NAME=]URL", required = true, value_parser = named)]
    targets: Vec<Named>,
    /// A profile of `fels lab profiles`; without one, the flags below are the load
    #[arg(long, value_name = "NAME")]
    profile: Option<String>,
    /// How often every target is measured on every test
    #[arg(long, value_name = "N", default_value_t = 3)]
    rounds: usize,
    #[command(flatten)]
    load: LoadFlags,
    #[command(flatten)]
    open: OpenFlags,
    /// Write everything measured to FILE, every sample too; - is the standard output, instead of the table
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Keep everything measured beside the node that works in DATA_DIR: its dashboard shows it
    #[arg(long, value_name = "DATA_DIR")]
    keep: Option<PathBuf>,
    /// Do not measure the lab itself in every round
    #[arg(long)]
    no_ceiling: bool,
}

/// A target, or pools that one address describes; and a name if one was given.
#[derive(Clone, Debug, PartialEq)]
struct Named {
    name: Option<String>,
    targets: Vec<Target>,
}

fn named(text: &str) -> Result<Named, String> {
    // Addresses have a colon before they have an equals sign.
    let name = text.split_once('=').filter(|(name, _)| !name.contains([':', '/']));
    let (name, address) = name.map_or((None, text), |(name, address)| (Some(name), address));
    if name.is_some_and(|name| name.trim().is_empty()) {
        return Err("the name before the = is empty".to_owned());
    }
    if lab::profile::find(text).is_some() {
        return Err(format!("this is a profile; hint: write --profile {text}"));
    }
    let lists = address.strip_prefix("pool:").and_then(|specs| PoolSpec::parse_all(specs).ok());
    let targets = match lists {
        Some(specs) => specs.into_iter().map(|spec| Target::Pool(PoolTarget::new(spec))).collect(),
        None => vec![address.parse::<Target>().map_err(|error| error.to_string())?],
    };
    Ok(Named { name: name.map(str::to_owned), targets })
}

/// Every target, with the name that it was given: several of one address have it in front of their own.
fn each(named: &[Named]) -> Vec<(Option<String>, &Target)> {
    let specs: Vec<PoolSpec> =
        named.iter().flat_map(|named| &named.targets).filter_map(spec).cloned().collect();
    let mut pools = PoolSpec::names(&specs).into_iter();
    let mut all = Vec::new();
    for Named { name, targets } in named {
        for target in targets {
            let own = spec(target).and_then(|_| pools.next());
            let name = match (name, own) {
                (Some(name), Some(own)) if targets.len() > 1 => Some(format!("{name} {own}")),
                (Some(name), _) => Some(name.clone()),
                (None, own) => own,
            };
            all.push((name, target));
        }
    }
    all
}

fn spec(target: &Target) -> Option<&PoolSpec> {
    match target {
        Target::Pool(pool) => Some(pool.spec()),
        _ => None,
    }
}

/// Names for the columns: what was given, or the scheme; with a number where that is not enough.
fn names(targets: &[(Option<String>, &Target)]) -> Vec<String> {
    let scheme = |target: &Target| target.to_string().split(':').next().unwrap_or_default().to_owned();
    let plain: Vec<String> =
        targets.iter().map(|(name, target)| name.clone().unwrap_or_else(|| scheme(target))).collect();
    let numbered = |(index, name): (usize, &String)| {
        let others = plain.iter().filter(|other| *other == name).count();
        let place = 1 + plain[..index].iter().filter(|other| *other == name).count();
        let given = targets[index].0.is_some();
        if others > 1 && !given { format!("{name}-{place}") } else { name.clone() }
    };
    plain.iter().enumerate().map(numbered).collect()
}

pub fn run(arguments: &Compare) -> Result<(), Failure> {
    let targets = each(&arguments.targets);
    if targets.len() < 2 {
        return Err(Failure::usage(
            "one target only: there is nothing to compare it with",
            "name another one behind it, or use `fels lab run`",
        ));
    }
    let names = names(&targets);
    let targets = targets.into_iter().zip(names).map(|((_, target), name)| {
        arguments.open.complete(target).map(|target| NamedTarget { name, target })
    });
    let options = CompareOptions {
        targets: targets.collect::<Result<_, _>>()?,
        profile: arguments.profile.clone(),
        tests: arguments.load.tests(arguments.profile.as_deref())?,
        rounds: arguments.rounds,
        open: arguments.open.options(),
        threads: arguments.load.threads,
        ceiling: !arguments.no_ceiling,
    };
    let stop = stop_flag()?;
    let mut line = ProgressLine::with_every_end();
    let result = compare::compare(&options, |progress| line.show(progress), &stop);
    line.clear();
    let report = result.map_err(|error| failure(&error))?;
    let kept = keep(arguments.keep.as_deref(), "compare", report.ended_unix_s, || report.to_json());
    let json = arguments.json.as_deref();
    let written = write_and_print(json, || report.to_json(), || compare::table(&report));
    Failure::together([verdict(&report), written, kept])
}

fn verdict(report: &CompareReport) -> Result<(), Failure> {
    match (report.wrong_blocks(), report.lost.as_slice()) {
        (0, []) => Ok(()),
        (0, lost) => {
            let told: Vec<_> =
                lost.iter().map(|lost| format!("{} was lost in round {}", lost.target, lost.round)).collect();
            Err(Failure::new(
                told.join(", "),
                Some("look at its log; the table has what was measured before"),
            ))
        }
        (wrong, _) => Err(Failure::new(
            format!("{wrong} blocks are wrong"),
            Some("the target lost or changed data: keep its files and logs"),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(texts: &[&str]) -> Vec<String> {
        names(&each(&texts.iter().map(|text| named(text).unwrap()).collect::<Vec<_>>()))
    }

    #[test]
    fn columns_are_named_by_people_or_by_schemes() {
        let unix = "nbd+unix:///demo?socket=/run/a=b";
        assert_eq!(of(&["null:", unix, "disk=file:/a"]), ["null", "nbd+unix", "disk"]);
        assert_eq!(of(&["file:/a", "file:/b", "nbd://host/x"]), ["file-1", "file-2", "nbd"]);
        assert_eq!(of(&["file:/a=b"]), ["file"]);
        assert_eq!(named(&format!("old={unix}")).unwrap().targets[0].to_string(), unix);
        let pools = of(&["pool:raid10,raid6?integrity=on,off", "disks=pool:raid6?spinning=7200", "null:"]);
        assert_eq!(pools[0], "raid10 integrity=on");
        assert_eq!(pools[3], "raid6 spinning=no integrity=off");
        assert_eq!(pools[4..], ["disks", "null"]);
        for (text, part) in [
            ("=null:", "is empty"),
            ("a=ftp://x", "hint: use one of"),
            ("old", "no scheme"),
            ("pool:raid7,raid6", "no RAID level; hint: write it as pool:LEVEL"),
        ] {
            let error = named(text).unwrap_err();
            assert!(error.contains(part), "{error}");
        }
    }
}
