//! `fels volume set`, `resize`, `limit`, `enable` and `disable`.

use super::super::node::{ChangeFlags, failure, tell};
use super::{one_of, path_of, settings};
use crate::message::Failure;
use clap::Args;
use control::api::client::Client;
use control::api::model::{Changed, LimitsWish, Quantity, VolumeChange, VolumeLimits, VolumeSettings};

/// Change keys of a volume in use: who may use it, its alias, its protocols
///
/// Values are JSON, or else text: fels volume set db alias=database nbd=false. Who may not use it any more is asked to go, and closed.
#[derive(Debug, Args)]
pub struct Set {
    /// The volume
    name: String,

    /// Keys of [[volume]] and what they are to be
    #[arg(value_name = "KEY=VALUE", required_unless_present = "unset")]
    keys: Vec<String>,

    /// A key that is to have its default again
    #[arg(long, value_name = "KEY")]
    unset: Vec<String>,

    #[command(flatten)]
    how: ChangeFlags,
}

/// Make a volume larger while it is used; initiators are told
#[derive(Debug, Args)]
pub struct Resize {
    /// The volume
    name: String,

    /// Its new size, such as 20GiB; or how much more, such as +10GiB
    size: String,

    #[command(flatten)]
    how: ChangeFlags,
}

/// Limit what initiators get of a volume together
///
/// What is not named stays as it is; `none` takes a limit away.
#[derive(Debug, Args)]
pub struct Limit {
    /// The volume
    name: String,

    /// Requests in a second, or none
    #[arg(long, value_name = "COUNT", required_unless_present = "throughput")]
    iops: Option<String>,

    /// Bytes in a second, such as 200MB/s, or none
    #[arg(long, value_name = "RATE")]
    throughput: Option<String>,

    #[command(flatten)]
    how: ChangeFlags,
}

/// Serve a volume again that was switched off
#[derive(Debug, Args)]
pub struct Enable {
    /// The volume
    name: String,

    #[command(flatten)]
    how: ChangeFlags,
}

/// Switch a volume off: initiators are asked to go, it is drained and closed, and its bytes stay
#[derive(Debug, Args)]
pub struct Disable {
    /// The volume
    name: String,

    #[command(flatten)]
    how: ChangeFlags,
}

pub fn set(arguments: &Set) -> Result<(), Failure> {
    let wish = VolumeChange {
        set: settings(&arguments.keys)?,
        unset: arguments.unset.clone(),
        ..VolumeChange::default()
    };
    change(&arguments.how.node.client()?, &arguments.name, wish, &arguments.how)
}

pub fn resize(arguments: &Resize) -> Result<(), Failure> {
    let client = arguments.how.node.client()?;
    let (size, version) = match arguments.size.strip_prefix('+') {
        None => (Quantity::Text(arguments.size.clone()), None),
        Some(more) => {
            let (volume, version) = one_of(&client, &arguments.name)?;
            let more = control::size::parse_bytes(more).map_err(|why| {
                Failure::usage(format!("`{more}` is not a size: {why}"), "write it as in +10GiB")
            })?;
            (Quantity::Number(volume.size_bytes.saturating_add(more)), Some(version))
        }
    };
    let set = VolumeSettings { size: Some(size), ..VolumeSettings::default() };
    let wish = VolumeChange { set, version, ..VolumeChange::default() };
    change(&client, &arguments.name, wish, &arguments.how)
}

pub fn limit(arguments: &Limit) -> Result<(), Failure> {
    let client = arguments.how.node.client()?;
    let (volume, version) = one_of(&client, &arguments.name)?;
    let limits = limits(arguments, volume.limits)?;
    let mut wish = VolumeChange { version: Some(version), ..VolumeChange::default() };
    if limits == LimitsWish::default() {
        wish.unset.push("limits".to_owned());
    } else {
        wish.set.limits = Some(limits);
    }
    change(&client, &arguments.name, wish, &arguments.how)
}

fn limits(arguments: &Limit, now: VolumeLimits) -> Result<LimitsWish, Failure> {
    let iops = match arguments.iops.as_deref() {
        None => now.iops,
        Some("none") => None,
        Some(count) => Some(count.parse().map_err(|_| {
            Failure::usage(
                format!("`{count}` is no number of requests"),
                "write it as in --iops 5000, or --iops none",
            )
        })?),
    };
    let throughput = match arguments.throughput.as_deref() {
        None => now.bytes_per_s.map(Quantity::Number),
        Some("none") => None,
        Some(rate) => Some(Quantity::Text(rate.to_owned())),
    };
    Ok(LimitsWish { iops, throughput })
}

pub fn enable(arguments: &Enable) -> Result<(), Failure> {
    switch(&arguments.name, true, &arguments.how)
}

pub fn disable(arguments: &Disable) -> Result<(), Failure> {
    switch(&arguments.name, false, &arguments.how)
}

fn switch(name: &str, on: bool, how: &ChangeFlags) -> Result<(), Failure> {
    let wish = if on {
        VolumeChange { unset: vec!["enabled".to_owned()], ..VolumeChange::default() }
    } else {
        let set = VolumeSettings { enabled: Some(false), ..VolumeSettings::default() };
        VolumeChange { set, ..VolumeChange::default() }
    };
    change(&how.node.client()?, name, wish, how)
}

fn change(client: &Client, name: &str, wish: VolumeChange, how: &ChangeFlags) -> Result<(), Failure> {
    let wish = VolumeChange { dry_run: how.dry_run, ..wish };
    let changed: Changed = client.patch(&path_of(name), &wish).map_err(|error| failure(&error))?;
    tell(&changed, how.json)
}
