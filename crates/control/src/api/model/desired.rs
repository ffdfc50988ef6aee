//! What is wished of a node, and how it is told: volumes, the configuration, portals, the node as a whole.

use std::fmt;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// All volumes of the node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Volumes {
    /// In the order of the configuration.
    pub volumes: Vec<Volume>,
    /// The version of the configuration that they are from.
    pub version: String,
}

/// A volume as it is wished, and whether it is so.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Volume {
    /// Its name.
    pub name: String,
    /// Its identity: a UUID, stable as long as its name.
    pub id: String,
    /// Its size.
    pub size_bytes: u64,
    /// Bytes of a logical block.
    pub block_size: u32,
    /// Where its bytes live: `file`, `device`, `pool`, `memory` or `null`.
    pub backing: String,
    /// The file or device, or the name of the pool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub place: Option<String>,
    /// How it is, in a word.
    pub state: VolumeState,
    /// What differs from what is wished, in a sentence.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// What initiators get of it together, at most.
    pub limits: VolumeLimits,
    /// A name for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub alias: Option<String>,
    /// Its iSCSI target, whose LUN 0 it is.
    pub target: String,
    /// The users of CHAP that may log in; none is no CHAP.
    pub chap_users: Vec<String>,
    /// The initiators that may use it; none is all.
    pub allow: Vec<String>,
    /// Whether it is offered over NBD, where the node serves that.
    pub nbd: bool,
    /// The NQN of its NVMe subsystem, if it is offered over NVMe.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subsystem: Option<String>,
    /// Its number in the subsystem (NSID), while it is served there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nsid: Option<u32>,
    /// The NVMe hosts that may use it; none is all.
    pub hosts: Vec<String>,
}

/// What initiators get of a volume together; what is left out has no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct VolumeLimits {
    /// Requests in a second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub iops: Option<u64>,
    /// Bytes in a second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_per_s: Option<u64>,
}

/// How a volume is, in a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum VolumeState {
    /// It is served as it is wished.
    Serving,
    /// It is switched off, as it is wished.
    Disabled,
    /// It is not yet as it is wished.
    Waiting,
}

/// A pool that is to be.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PoolWish {
    /// Its keys.
    #[serde(default)]
    pub pool: PoolSettings,
    /// Its members have it already: it is opened with what is on it.
    #[serde(default)]
    pub existing: bool,
    /// The version of the configuration that this is meant for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Say what would be done, and do nothing.
    #[serde(default)]
    pub dry_run: bool,
}

/// The keys of a pool, as in the configuration; those that are left out have their defaults.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PoolSettings {
    /// Its name: lower-case letters, digits, `-`, `.` and `:`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// How its members are arranged: `single`, `raid0`, `raid1`, `raid10`, `raid5` or `raid6`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raid: Option<String>,
    /// Files and devices: absolute paths. All of them blank, or not there yet.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub members: Vec<String>,
    /// Bytes of the files that are made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub member_size: Option<Quantity>,
    /// Members that wait for one to fail.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub spares: Vec<String>,
    /// Bytes that lie together on one member, as `"64KiB"`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit: Option<Quantity>,
    /// Whether every block has a checksum.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub integrity: Option<bool>,
}

/// A size or rate: a number of bytes, or a text such as `"10GiB"`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(untagged)]
pub enum Quantity {
    /// Bytes.
    Number(u64),
    /// A number and its unit.
    Text(String),
}

/// The keys of a volume, as in the configuration; those that are left out have their defaults, or stay as they are.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct VolumeSettings {
    /// Its name: lower-case letters, digits, `-`, `.` and `:`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Its size, a multiple of `block_size`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<Quantity>,
    /// Where its bytes live, if not on a pool. Without both it is the only pool of the node, or a file of its name in the data directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backing: Option<BackingWish>,
    /// The pool that its bytes live on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pool: Option<String>,
    /// 512 or 4096.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub block_size: Option<u64>,
    /// Who may log in over iSCSI.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chap: Option<Vec<ChapWish>>,
    /// What the target proves itself with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chap_mutual: Option<ChapWish>,
    /// Initiators that may see it and log in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allow: Option<Vec<String>>,
    /// A name for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alias: Option<String>,
    /// Whether it is offered over NBD.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nbd: Option<bool>,
    /// Whether it is offered over NVMe.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nvme: Option<bool>,
    /// Its NVMe subsystem.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subsystem: Option<String>,
    /// Its number in the subsystem.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nsid: Option<u32>,
    /// NVMe hosts that may see it and connect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hosts: Option<Vec<String>>,
    /// What initiators get of it together, at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<LimitsWish>,
    /// Whether it is served.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
}

/// What initiators are to get of a volume together; what is left out has no limit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct LimitsWish {
    /// Requests in a second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub iops: Option<u64>,
    /// Bytes in a second, as `"200MB/s"`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub throughput: Option<Quantity>,
}

/// Where the bytes of a volume live: one of these.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct BackingWish {
    /// A file, relative to the data directory, made if missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// Main memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<bool>,
    /// Nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub null: Option<bool>,
    /// A block device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
}

/// A user of CHAP; its secret is never told again.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ChapWish {
    /// Its name.
    pub user: String,
    /// The secret, 12 to 255 bytes; this or `secret_file`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(write_only)]
    pub secret: Option<String>,
    /// A file of the node's that holds the secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_file: Option<String>,
}

impl fmt::Debug for ChapWish {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("ChapWish").field("user", &self.user).finish_non_exhaustive()
    }
}

/// A volume that is to be.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct VolumeWish {
    /// Its keys.
    #[serde(default)]
    pub volume: VolumeSettings,
    /// Its bytes are there already, and are taken as they are; else what is there is left alone, and the wish refused.
    #[serde(default)]
    pub existing: bool,
    /// The version of the configuration that this is meant for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Say what would be done, and do nothing.
    #[serde(default)]
    pub dry_run: bool,
}

/// What is to be otherwise of a volume.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct VolumeChange {
    /// Keys that get other values.
    #[serde(default)]
    pub set: VolumeSettings,
    /// Keys that get their defaults.
    #[serde(default)]
    pub unset: Vec<String>,
    /// The version of the configuration that this is meant for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Say what would be done, and do nothing.
    #[serde(default)]
    pub dry_run: bool,
}

/// How a pool is to go.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PoolEnd {
    /// The version of the configuration that this is meant for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Say what would be done, and do nothing.
    #[serde(default)]
    pub dry_run: bool,
}

/// How a volume is to go.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct VolumeEnd {
    /// Its bytes stay where they are.
    #[serde(default)]
    pub keep_data: bool,
    /// The version of the configuration that this is meant for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Say what would be done, and do nothing.
    #[serde(default)]
    pub dry_run: bool,
}

/// What was done to the configuration and the node, or would be.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Changed {
    /// Whether it was done; not if only the plan was asked for.
    pub done: bool,
    /// A sentence for each step.
    pub steps: Vec<String>,
    /// The version of the configuration afterwards.
    pub version: String,
    /// The volume that it was about, as it is afterwards, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volume: Option<Volume>,
}

/// The configuration, or a part of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ConfigurationText {
    /// The text, in TOML. Secrets are replaced by `***`, which is not taken again, unless they were asked for.
    pub text: String,
    /// The version of the whole.
    pub version: String,
    /// The file that has it.
    pub path: String,
}

/// A configuration that is to be in the place of the one of now.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ConfigurationWish {
    /// The text, in TOML.
    #[serde(default)]
    pub text: Option<String>,
    /// The version that it is to replace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Say what would be done, and do nothing.
    #[serde(default)]
    pub dry_run: bool,
}

/// Where the node listens.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PortalList {
    /// In the order of the configuration.
    pub portals: Vec<Portal>,
}

/// One place where the node listens.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Portal {
    /// `iscsi`, `nbd`, `nvme` or `nvme-discovery`.
    pub protocol: String,
    /// Address and port, or the path of a unix socket.
    pub address: String,
}

/// The node at one look.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NodeStatus {
    /// The worst of what was found.
    pub state: Health,
    /// How it is, in a sentence.
    pub sentence: String,
    /// What is to be seen to, the worst first.
    pub findings: Vec<Finding>,
    /// How many volumes are served.
    pub volumes: usize,
    /// How many pools are open.
    pub pools: usize,
    /// How many portals are listened on.
    pub portals: usize,
    /// The version of the configuration.
    pub version: String,
}

/// How something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Health {
    /// All is well.
    Ok,
    /// Somebody should look at it.
    Warning,
    /// Data is lost, or cannot be had.
    Critical,
}

/// Something to be seen to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Finding {
    /// How bad it is.
    pub state: Health,
    /// What it is: a sentence.
    pub sentence: String,
    /// What to do next.
    pub hint: String,
    /// The pool that it is about, if it is about one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pool: Option<String>,
    /// The volume that it is about, if it is about one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volume: Option<String>,
    /// The alert that it is, if it is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alert: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wish_knows_every_key_of_a_volume_and_no_other() {
        let schema = serde_json::to_value(<VolumeSettings as utoipa::PartialSchema>::schema()).unwrap();
        let mut known: Vec<_> =
            schema["properties"].as_object().unwrap().keys().map(String::as_str).collect();
        let mut declared: Vec<_> = crate::config::volume_keys().collect();
        known.sort_unstable();
        declared.sort_unstable();
        assert_eq!(known, declared);
    }

    #[test]
    fn a_secret_is_not_shown_by_a_wish() {
        let chap =
            ChapWish { user: "alice".into(), secret: Some("hush-hush-hush".into()), secret_file: None };
        let shown = format!("{:?}", VolumeSettings { chap: Some(vec![chap]), ..VolumeSettings::default() });
        assert!(shown.contains("alice") && !shown.contains("hush"), "{shown}");
    }
}
