//! What goes over the wire: answers and wishes, as JSON. Sizes are bytes, times seconds; what is not known is left out.

mod activity;
mod desired;
mod graphs;
mod io;

pub use activity::*;
pub use desired::*;
pub use graphs::*;
pub use io::Io;

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::moment::Moment;

/// All pools of the node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Pools {
    /// In the order of the configuration.
    pub pools: Vec<Pool>,
}

/// A pool as it is now.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Pool {
    /// Its name.
    pub name: String,
    /// Its identity: 32 hexadecimal digits.
    pub id: String,
    /// How its members are arranged: `single`, `raid0`, `raid1`, `raid10`, `raid5` or `raid6`.
    pub raid: String,
    /// Bytes that lie together on one member.
    pub unit_bytes: u32,
    /// Whether every block has a checksum, which is verified whenever it is read.
    pub integrity: bool,
    /// Bytes that volumes can have in all.
    pub size_bytes: u64,
    /// Bytes that belong to no volume.
    pub free_bytes: u64,
    /// Bytes of each member that the pool uses.
    pub member_bytes: u64,
    /// How it is, in a word.
    pub state: PoolState,
    /// How it is, in a sentence.
    pub sentence: String,
    /// Its slots, in order.
    pub members: Vec<Member>,
    /// Its spares, in the order in which they are taken.
    pub spares: Vec<Spare>,
    /// What was noticed since the node was started.
    pub blocks: Blocks,
    /// The scrub that runs, or the last one since the node was started.
    pub scrub: Scrub,
    /// The volumes on it.
    pub volumes: Vec<PoolVolume>,
    /// What volumes have asked of it since the node was started; only where pools are asked about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub io: Option<Io>,
}

/// How a pool is, in a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PoolState {
    /// All members have everything.
    Ok,
    /// A member is being given what it lacks, and none is out.
    Rebuilding,
    /// A member is out.
    Degraded,
    /// More members failed than can be done without: nothing is written any more.
    Failed,
}

/// One slot of a pool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Member {
    /// Its number.
    pub slot: usize,
    /// Which of the pool's sets it belongs to: a pool of raid0 or raid10 that was extended has several. Of raid10, two
    /// slots after each other from the first one on hold the same.
    #[serde(default)]
    pub set: usize,
    /// The file or device, if one is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub place: Option<String>,
    /// How it is.
    pub state: MemberState,
    /// Why it is out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
    /// How far its rebuilding is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub progress: Option<Progress>,
    /// It takes several times as long as the others, and has for a while.
    pub slow: bool,
    /// Microseconds that it took to answer reads of late, on average.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_us: Option<u64>,
    /// Microseconds that it took to answer writes of late, on average.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub write_us: Option<u64>,
    /// What the slot was asked for since the node was started, whatever for; only where pools are asked about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub io: Option<Io>,
}

/// A member that waits for another one to fail.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Spare {
    /// What it is known by: 32 hexadecimal digits.
    pub id: String,
    /// The file or device, if it is there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub place: Option<String>,
}

/// How a slot is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum MemberState {
    /// It has everything.
    InSync,
    /// It is given what it lacks.
    Rebuilding,
    /// It is not used.
    Out,
}

/// How far something is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Progress {
    /// Bytes of a member that are done.
    pub done_bytes: u64,
    /// Of so many.
    pub total_bytes: u64,
    /// Bytes of a member in a second, over the last while.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes_per_s: Option<u64>,
    /// Seconds until the end, if it goes on like that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub left_s: Option<u64>,
}

impl Progress {
    /// Of a hundred, rounded down: what is not done is never told as done.
    pub fn percent(&self) -> u64 {
        (u128::from(self.done_bytes) * 100).checked_div(u128::from(self.total_bytes)).unwrap_or(100) as u64
    }
}

/// Blocks of 4 KiB, counted since the node was started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Blocks {
    /// Their checksum did not fit.
    pub wrong: u64,
    /// A member could not read them.
    pub unreadable: u64,
    /// They were rebuilt and written again.
    pub repaired: u64,
    /// Nothing could rebuild them.
    pub lost: u64,
}

/// What a scrub has found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Scrub {
    /// Whether one runs now.
    pub runs: bool,
    /// How many were begun since the node was started.
    pub begun: u64,
    /// How far it is, or how far the last one came.
    pub progress: Progress,
    /// Blocks that were wrong or unreadable.
    pub bad: u64,
    /// Of those, rebuilt and written again.
    pub repaired: u64,
    /// Of those, lost: nothing could rebuild them.
    pub lost: u64,
    /// Rows whose blocks fit their checksums and not one another; they were made even.
    pub uneven: u64,
}

/// A volume on a pool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct PoolVolume {
    /// Its name.
    pub name: String,
    /// Its size.
    pub size_bytes: u64,
    /// How far that is, if nobody has it any more and its bytes are being destroyed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub destroying: Option<Progress>,
}

/// What goes on in the background, or went on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Jobs {
    /// What goes on, in the order of the pools, then changes; then what has ended, the last one first.
    pub jobs: Vec<Job>,
}

/// Which jobs are asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct JobsAsked {
    /// Also those that ended lately.
    #[serde(default)]
    pub ended: bool,
}

/// Something that takes a while.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Job {
    /// By which it is known: `scrub:tank`, `rebuild:tank:3`, `change:7`. The next one of the kind may have the same.
    pub id: String,
    /// What is done.
    pub kind: JobKind,
    /// What is done, in words.
    pub title: String,
    /// How it is.
    pub state: JobState,
    /// When it was seen first.
    #[schema(value_type = String, format = DateTime)]
    pub begun: Moment,
    /// When it was seen to be over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub ended: Option<Moment>,
    /// How it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sentence: Option<String>,
    /// Whether it can be ended by `DELETE`.
    pub can_be_ended: bool,
    /// To which pool, where it is of one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub pool: String,
    /// To which of its slots.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slot: Option<usize>,
    /// To which of its volumes.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub volume: String,
    /// How far it is; 0 of 0 where nobody knows.
    pub progress: Progress,
}

impl Job {
    /// One that runs, of which nothing else is said yet.
    pub(in crate::api) fn begun(title: String) -> Job {
        Job {
            id: String::new(),
            kind: JobKind::Change,
            title,
            state: JobState::Running,
            begun: Moment::from_unix(0),
            ended: None,
            sentence: None,
            can_be_ended: false,
            pool: String::new(),
            slot: None,
            volume: String::new(),
            progress: Progress::default(),
        }
    }
}

/// How a job is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum JobState {
    /// It goes on.
    Running,
    /// All of it was done.
    Done,
    /// It was ended where it was.
    Ended,
    /// It could not be done.
    Failed,
}

/// What a job does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum JobKind {
    /// Verifies a pool.
    Scrub,
    /// Gives a member what it lacks.
    Rebuild,
    /// Destroys the bytes of a volume that was deleted.
    Destroy,
    /// Makes what somebody has asked for.
    Change,
}

/// What was done, or would be.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Change {
    /// Whether it was done; not if only the plan was asked for.
    pub done: bool,
    /// A sentence for each step.
    pub steps: Vec<String>,
    /// The `[[pool]]` table that the configuration needs from now on, where it changes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub configuration: Option<String>,
    /// Whether the node has written that into its configuration by itself.
    #[serde(default)]
    pub written: bool,
    /// The pool afterwards.
    pub pool: Pool,
}

/// How something is to be done.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Wish {
    /// Say what would be done, and do nothing.
    #[serde(default)]
    pub dry_run: bool,
}

/// A member that is to come in.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct MemberWish {
    /// The file or device: an absolute path. Without one it is the place that the slot's member had.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<String>,
    /// Say what would be done, and do nothing.
    #[serde(default)]
    pub dry_run: bool,
}

/// Members that are to be further ones.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct FurtherWish {
    /// The files or devices: absolute paths.
    #[serde(default)]
    pub places: Vec<String>,
    /// Bytes of files that are made; as many as members of the pool have where nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub member_bytes: Option<u64>,
    /// Say what would be done, and do nothing.
    #[serde(default)]
    pub dry_run: bool,
}

/// Who uses the volumes of the node now.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Initiators {
    /// By protocol, then by name.
    pub initiators: Vec<Initiator>,
}

/// Somebody who uses volumes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Initiator {
    /// `iscsi`, `nvme` or `nbd`.
    pub protocol: String,
    /// The name of the initiator or host; for NBD, which asks nobody who he is, where it comes from.
    pub name: String,
    /// What it has open.
    pub sessions: Vec<Session>,
}

/// An iSCSI session, an NVMe controller or an NBD connection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Session {
    /// What tells it from others: its TSIH, its controller identifier, or where it comes from.
    pub id: String,
    /// The volumes that it uses; none in discovery.
    pub volumes: Vec<String>,
    /// Its connections; of an NVMe controller that of its admin queue.
    pub connections: Vec<Connection>,
    /// The core on which it lives.
    pub shard: usize,
    /// What was done for the connections that it has now.
    #[serde(default)]
    pub io: Io,
}

/// A connection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Connection {
    /// Where it comes from.
    pub from: String,
    /// By which portal, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
}
