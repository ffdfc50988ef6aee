//! What happened between two looks at a node.

use clap::ValueEnum;
use control::api::client::{Client, ClientError};
use control::api::model::{self, Activity, Initiators, Io, MemberState, Pools, Times, VolumeActivity};
use serde::Serialize;

/// A look at a node.
pub struct Taken {
    pub activity: Activity,
    pub initiators: Initiators,
    pub pools: Pools,
}

impl Taken {
    pub fn from(client: &Client) -> Result<Taken, ClientError> {
        Ok(Taken {
            activity: client.get("/v1/activity")?,
            initiators: client.get("/v1/initiators")?,
            pools: client.get("/v1/pools")?,
        })
    }
}

/// What stands first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Order {
    /// Most requests a second
    #[default]
    Iops,
    /// Most bytes a second
    Throughput,
    /// Longest time of a request
    Latency,
    /// By name
    Name,
}

impl Order {
    /// The next one, in a circle.
    pub fn next(self) -> Order {
        match self {
            Self::Iops => Self::Throughput,
            Self::Throughput => Self::Latency,
            Self::Latency => Self::Name,
            Self::Name => Self::Iops,
        }
    }
}

/// What happened in an interval.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Frame {
    /// Seconds since the node was started.
    pub uptime_s: f64,
    /// Seconds of the interval.
    pub interval_s: f64,
    pub volumes: Vec<Volume>,
    pub sessions: Vec<Session>,
    pub members: Vec<Member>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Volume {
    pub name: String,
    pub reads_per_s: f64,
    pub writes_per_s: f64,
    pub read_bytes_per_s: f64,
    pub written_bytes_per_s: f64,
    pub errors: u64,
    pub in_flight: u64,
    pub sessions: u64,
    /// Microseconds of a read or write in this interval.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mean_us: Option<f64>,
    pub time: Times,
}

impl Volume {
    pub fn iops(&self) -> f64 {
        self.reads_per_s + self.writes_per_s
    }

    pub fn bytes_per_s(&self) -> f64 {
        self.read_bytes_per_s + self.written_bytes_per_s
    }
}

/// What somebody asked for, or something was asked for, in an interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Rates {
    pub reads_per_s: f64,
    pub writes_per_s: f64,
    pub read_bytes_per_s: f64,
    pub written_bytes_per_s: f64,
    pub errors: u64,
    pub in_flight: u64,
    /// Microseconds of a read or write in this interval.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mean_us: Option<f64>,
}

impl Rates {
    /// Of what was not there at the first look nothing is known yet.
    #[expect(clippy::cast_precision_loss, reason = "figures for people")]
    fn between(then: Option<Io>, now: Io, interval_s: f64) -> Rates {
        let then = then.unwrap_or(now);
        let grown = |of: fn(&Io) -> u64| of(&now).saturating_sub(of(&then));
        let rate = |of| if interval_s > 0.0 { grown(of) as f64 / interval_s } else { 0.0 };
        let requests = grown(|io| io.reads + io.writes);
        Rates {
            reads_per_s: rate(|io| io.reads),
            writes_per_s: rate(|io| io.writes),
            read_bytes_per_s: rate(|io| io.read_bytes),
            written_bytes_per_s: rate(|io| io.written_bytes),
            errors: grown(|io| io.errors),
            in_flight: now.in_flight,
            mean_us: (requests > 0).then(|| grown(|io| io.taken_us) as f64 / requests as f64),
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Session {
    pub protocol: String,
    pub initiator: String,
    pub id: String,
    pub volumes: Vec<String>,
    pub connections: usize,
    pub shard: usize,
    #[serde(flatten)]
    pub rates: Rates,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Member {
    pub pool: String,
    pub slot: usize,
    pub state: &'static str,
    pub slow: bool,
    #[serde(flatten)]
    pub rates: Rates,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_us: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub write_us: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub place: Option<String>,
}

impl Frame {
    /// A node that was started again in between has done nothing that is known.
    pub fn between(before: &Taken, after: &Taken, order: Order) -> Frame {
        let interval_s = (after.activity.uptime_s - before.activity.uptime_s).max(0.0);
        let volume = |now: &VolumeActivity| {
            let then = before.activity.volumes.iter().find(|then| then.name == now.name);
            volume(then.unwrap_or(now), now, interval_s)
        };
        let mut frame = Frame {
            uptime_s: after.activity.uptime_s,
            interval_s,
            volumes: after.activity.volumes.iter().map(volume).collect(),
            sessions: sessions(&before.initiators, &after.initiators, interval_s),
            members: members(&before.pools, &after.pools, interval_s),
        };
        frame.sort(order);
        frame
    }

    /// What is equal stands by its name.
    pub fn sort(&mut self, order: Order) {
        let key = |volume: &Volume| match order {
            Order::Iops => volume.iops(),
            Order::Throughput => volume.bytes_per_s(),
            Order::Latency => volume.mean_us.unwrap_or_default(),
            Order::Name => 0.0,
        };
        self.volumes.sort_by(|a, b| key(b).total_cmp(&key(a)).then_with(|| a.name.cmp(&b.name)));
    }
}

#[expect(clippy::cast_precision_loss, reason = "figures for people")]
fn volume(then: &VolumeActivity, now: &VolumeActivity, interval_s: f64) -> Volume {
    let grown = |before: u64, after: u64| after.saturating_sub(before) as f64;
    let rate = |before, after| if interval_s > 0.0 { grown(before, after) / interval_s } else { 0.0 };
    let requests = grown(then.reads, now.reads) + grown(then.writes, now.writes);
    let taken_s = (now.taken_s - then.taken_s).max(0.0);
    Volume {
        name: now.name.clone(),
        reads_per_s: rate(then.reads, now.reads),
        writes_per_s: rate(then.writes, now.writes),
        read_bytes_per_s: rate(then.read_bytes, now.read_bytes),
        written_bytes_per_s: rate(then.written_bytes, now.written_bytes),
        errors: now.errors.saturating_sub(then.errors),
        in_flight: now.in_flight,
        sessions: now.sessions,
        mean_us: (requests > 0.0).then(|| taken_s * 1e6 / requests),
        time: now.time.clone(),
    }
}

fn sessions(before: &Initiators, told: &Initiators, interval_s: f64) -> Vec<Session> {
    let then = |of: &model::Initiator, id: &str| {
        let same = |one: &&model::Initiator| one.protocol == of.protocol && one.name == of.name;
        let sessions = before.initiators.iter().find(same).map_or(&[][..], |one| &one.sessions);
        sessions.iter().find(|session| session.id == id).map(|session| session.io)
    };
    let all = told.initiators.iter().flat_map(|initiator| {
        initiator.sessions.iter().map(|session| Session {
            protocol: initiator.protocol.clone(),
            initiator: initiator.name.clone(),
            id: session.id.clone(),
            volumes: session.volumes.clone(),
            connections: session.connections.len(),
            shard: session.shard,
            rates: Rates::between(then(initiator, &session.id), session.io, interval_s),
        })
    });
    all.collect()
}

fn members(before: &Pools, told: &Pools, interval_s: f64) -> Vec<Member> {
    let then =
        |pool: &str, slot: usize| before.pools.iter().find(|one| one.name == pool)?.members.get(slot)?.io;
    let all = told.pools.iter().flat_map(|pool| {
        pool.members.iter().map(|member| Member {
            pool: pool.name.clone(),
            slot: member.slot,
            state: match member.state {
                MemberState::InSync => "in sync",
                MemberState::Rebuilding => "rebuilding",
                MemberState::Out => "out",
            },
            slow: member.slow,
            rates: Rates::between(then(&pool.name, member.slot), member.io.unwrap_or_default(), interval_s),
            read_us: member.read_us,
            write_us: member.write_us,
            place: member.place.clone(),
        })
    });
    all.collect()
}
