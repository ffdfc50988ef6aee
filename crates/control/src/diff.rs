//! From what runs and what is wished to the steps in between. Nothing is done here, and nothing is looked at but the two.

#[cfg(test)]
mod tests;

use std::collections::{HashMap, HashSet};

use plane::portals::Portals;
use plane::volume::Limits;
use ring::BusyPoll;

use crate::config::{Backing, Config, Member, Pool, Volume};
use crate::numbers::{number, renumbered};
use crate::plan;
use crate::size::display_bytes;

/// One thing to do.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// A volume is served that was not.
    Add {
        /// As it is to be.
        volume: Box<Volume>,
        /// It is there already, switched off.
        is_known: bool,
    },
    /// A volume that is served becomes another one, in use.
    Alter {
        /// As it is.
        from: Box<Volume>,
        /// As it is to be.
        to: Box<Volume>,
    },
    /// A volume is served no more.
    Remove {
        /// As it is.
        volume: Box<Volume>,
        /// What becomes of its name and its bytes.
        fate: Fate,
    },
    /// A pool is opened, or made of members that are blank.
    OpenPool(Box<Pool>),
    /// A pool is closed; what is on it stays.
    ClosePool(String),
    /// The node listens elsewhere. What becomes different, in words.
    Listen(String),
    /// Only the document changes.
    Note(String),
    /// From the next start of the node on.
    Later {
        /// The volume that it is about, if it is about one.
        volume: Option<String>,
        /// What will be.
        sentence: String,
    },
}

/// What becomes of a volume that is served no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It stays in the configuration, switched off.
    Disabled,
    /// The configuration has it no more; its bytes stay.
    Kept,
    /// Its bytes are destroyed.
    Destroyed,
}

/// What cannot be, now or after a start.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}; hint: {hint}")]
pub struct Impossible {
    message: String,
    hint: String,
}

impl Impossible {
    /// What cannot be: a sentence.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// What can be done instead.
    pub fn hint(&self) -> &str {
        &self.hint
    }
}

impl Step {
    /// What is done, as a sentence without a full stop.
    pub fn sentence(&self) -> String {
        match self {
            Step::Add { volume, .. } => {
                format!(
                    "serve volume {}: {} {}",
                    volume.name,
                    display_bytes(volume.size_bytes),
                    place(&volume.backing)
                )
            }
            Step::Alter { from, to } => {
                format!("change volume {} in use: {}", to.name, changes(from, to).join(", "))
            }
            Step::Remove { volume, fate } => {
                let (name, place) = (&volume.name, place(&volume.backing));
                match (fate, &volume.backing) {
                    (Fate::Disabled, _) => format!("switch volume {name} off; its bytes stay {place}"),
                    (_, Backing::Memory) => {
                        format!("take volume {name} out of service, and give its memory back")
                    }
                    (_, Backing::Null) => format!("take volume {name} out of service; it has no bytes"),
                    (Fate::Destroyed, Backing::File(_) | Backing::Pool(_)) => {
                        format!("take volume {name} out of service, and DESTROY its bytes {place}")
                    }
                    (Fate::Kept | Fate::Destroyed, _) => {
                        format!("take volume {name} out of service; its bytes stay {place}")
                    }
                }
            }
            Step::OpenPool(pool) => {
                let (name, level, count) = (&pool.name, pool.level, pool.members.len());
                let members = if count == 1 { "member" } else { "members" };
                format!("open pool {name}: {level} of {count} {members}, made now if they are blank")
            }
            Step::ClosePool(name) => format!("close pool {name}; what is on it stays"),
            Step::Listen(what) => format!("listen {what}"),
            Step::Note(sentence) => sentence.clone(),
            Step::Later { sentence, .. } => format!("from the next start of the node on: {sentence}"),
        }
    }

    /// Whether it waits for the next start.
    pub fn is_later(&self) -> bool {
        matches!(self, Step::Later { .. })
    }

    fn later(sentence: String) -> Step {
        Step::Later { volume: None, sentence }
    }

    fn volume_later(volume: &Volume, sentence: String) -> Step {
        Step::Later { volume: Some(volume.name.clone()), sentence }
    }
}

/// Where the bytes of a volume are, in words.
pub fn place(backing: &Backing) -> String {
    match backing {
        Backing::File(path) => format!("in {}", path.display()),
        Backing::Device(path) => format!("on {}", path.display()),
        Backing::Pool(name) => format!("on the pool {name}"),
        Backing::Memory => "in memory".to_owned(),
        Backing::Null => "of nothing".to_owned(),
    }
}

/// The steps from what runs to what is wished, in the order of the document: additions and alterations, then removals, then what waits.
pub fn diff(running: &Config, document: &Config) -> Result<Vec<Step>, Impossible> {
    let (mut running, mut wished) = (running.clone(), document.clone());
    number(None, &mut running);
    number(Some(&running), &mut wished);
    let (running, wished) = (&running, &wished);
    let mut steps = Vec::new();
    for volume in &wished.volumes {
        let before = running.volumes.iter().find(|before| before.name == volume.name);
        steps.extend(volume_step(before, volume)?);
    }
    for gone in
        running.volumes.iter().filter(|before| wished.volumes.iter().all(|volume| volume.name != before.name))
    {
        steps.push(if gone.enabled {
            Step::Remove { volume: Box::new(gone.clone()), fate: Fate::Kept }
        } else {
            let place = place(&gone.backing);
            Step::Note(format!("forget volume {}, which is switched off; its bytes stay {place}", gone.name))
        });
    }
    namespaces(&mut steps, running, document, wished);
    pools(&mut steps, running, wished)?;
    portals(&mut steps, running, wished);
    notices(&mut steps, running, wished);
    sections(&mut steps, running, wished);
    Ok(steps)
}

/// The volumes of a configuration: there may be ten thousand.
fn by_name(config: &Config) -> HashMap<&str, &Volume> {
    config.volumes.iter().map(|volume| (volume.name.as_str(), volume)).collect()
}

/// What is numbered otherwise from the next start on is said: to hosts it is another disk.
fn namespaces(steps: &mut Vec<Step>, running: &Config, document: &Config, wished: &Config) {
    if running.nvme.is_none() || wished.nvme.is_none() {
        return;
    }
    // What is another volume then has no number that it could lose.
    let is_later =
        |step: &Step, name: &str| matches!(step, Step::Later { volume: Some(volume), .. } if volume == name);
    for place in renumbered(document, wished) {
        let volume = &wished.volumes[place];
        let Some(nsid) = volume.nvme.nsid else { continue };
        if steps.iter().any(|step| is_later(step, &volume.name)) {
            continue;
        }
        steps.push(Step::later(format!(
            "{} is another namespace of {} than {nsid}; `nsid = {nsid}` on it keeps it that",
            volume.name,
            volume.nvme.subsystem_nqn(),
        )));
    }
}

fn volume_step(before: Option<&Volume>, volume: &Volume) -> Result<Option<Step>, Impossible> {
    let name = &volume.name;
    let Some(before) = before else {
        return Ok(Some(match &volume.backing {
            _ if !volume.enabled => Step::Note(format!("enter volume {name}, switched off: nothing is made")),
            _ => Step::Add { volume: Box::new(volume.clone()), is_known: false },
        }));
    };
    if before == volume {
        return Ok(None);
    }
    let moves = before.backing != volume.backing;
    if !moves && before.size_bytes != volume.size_bytes {
        check_size(before, volume)?;
    }
    if !moves && before.block_size != volume.block_size && matches!(volume.backing, Backing::Pool(_)) {
        return Err(Impossible {
            message: format!(
                "volume {name} has blocks of {} bytes, which cannot be changed on a pool",
                before.block_size
            ),
            hint: "make another volume, and copy what is in this one".to_owned(),
        });
    }
    Ok(Some(match (before.enabled, volume.enabled) {
        (false, false) => Step::Note(format!("change volume {name}, which is switched off")),
        (true, false) => Step::Remove { volume: Box::new(before.clone()), fate: Fate::Disabled },
        (false, true) => Step::Add { volume: Box::new(volume.clone()), is_known: !moves },
        (true, true) if moves => {
            let (from, to) = (place(&before.backing), place(&volume.backing));
            Step::volume_later(volume, format!("volume {name} {to} instead of {from}"))
        }
        (true, true) if before.block_size != volume.block_size => {
            Step::volume_later(volume, format!("volume {name} with blocks of {} bytes", volume.block_size))
        }
        (true, true) => Step::Alter { from: Box::new(before.clone()), to: Box::new(volume.clone()) },
    }))
}

fn check_size(before: &Volume, volume: &Volume) -> Result<(), Impossible> {
    let (name, is, wanted) =
        (&volume.name, display_bytes(before.size_bytes), display_bytes(volume.size_bytes));
    if volume.size_bytes < before.size_bytes {
        return Err(Impossible {
            message: format!(
                "volume {name} has {is} and cannot be made smaller: what is behind {wanted} would be lost"
            ),
            hint: "make another volume, and copy what is in this one".to_owned(),
        });
    }
    if before.enabled && volume.enabled {
        return Ok(());
    }
    Err(Impossible {
        message: format!(
            "volume {name} is to have {wanted} instead of {is}, and is resized only while it is served"
        ),
        hint: format!("`fels volume enable {name}` first"),
    })
}

/// What becomes different of a volume that stays where it is.
pub fn changes(from: &Volume, to: &Volume) -> Vec<String> {
    let mut changes = Vec::new();
    if from.size_bytes != to.size_bytes {
        changes.push(format!(
            "{} instead of {}",
            display_bytes(to.size_bytes),
            display_bytes(from.size_bytes)
        ));
    }
    if from.alias != to.alias {
        changes.push(
            to.alias.as_ref().map_or_else(|| "no alias".to_owned(), |alias| format!("the alias `{alias}`")),
        );
    }
    if from.limits != to.limits {
        changes.push(limits(to.limits));
    }
    if (&from.chap, &from.chap_mutual) != (&to.chap, &to.chap_mutual) {
        changes.push(match to.chap.len() {
            0 => "no CHAP".to_owned(),
            1 => "CHAP, 1 user".to_owned(),
            users => format!("CHAP, {users} users"),
        });
    }
    let who = |list: &[String], all: &str, one: &str| match list.len() {
        0 => format!("for {all}"),
        1 => format!("for 1 {one}"),
        count => format!("for {count} {one}s"),
    };
    if from.allow != to.allow {
        changes.push(who(&to.allow, "all initiators", "initiator"));
    }
    if from.nvme.hosts != to.nvme.hosts {
        changes.push(who(&to.nvme.hosts, "all NVMe hosts", "NVMe host"));
    }
    let offered =
        |yes: bool, by: &str| format!("{} {by}", if yes { "offered over" } else { "not offered over" });
    if from.nbd != to.nbd {
        changes.push(offered(to.nbd, "NBD"));
    }
    if from.nvme.is_offered != to.nvme.is_offered {
        changes.push(offered(to.nvme.is_offered, "NVMe"));
    }
    if from.nvme.subsystem != to.nvme.subsystem {
        changes.push(format!("in the subsystem {}", to.nvme.subsystem_nqn()));
    }
    if let (true, Some(nsid)) = (from.nvme.nsid != to.nvme.nsid && from.nvme.is_offered, to.nvme.nsid) {
        changes.push(format!("as namespace {nsid}"));
    }
    changes
}

/// What a volume may do, in words.
pub fn limits(limits: Limits) -> String {
    let rate = |bytes| format!("{}/s", display_bytes(bytes));
    match (limits.iops, limits.bytes_per_second.map(rate)) {
        (None, None) => "no limits".to_owned(),
        (Some(iops), None) => format!("at most {iops} requests a second"),
        (None, Some(rate)) => format!("at most {rate}"),
        (Some(iops), Some(rate)) => format!("at most {iops} requests a second and {rate}"),
    }
}

fn pools(steps: &mut Vec<Step>, running: &Config, wished: &Config) -> Result<(), Impossible> {
    for pool in &wished.pools {
        let name = &pool.name;
        match running.pools.iter().find(|open| open.name == *name) {
            None => steps.push(Step::OpenPool(Box::new(pool.clone()))),
            Some(open) if open == pool => {}
            Some(open) => {
                check_layout(open, pool)?;
                steps.push(Step::later(format!("pool {name} as it is written then")));
            }
        }
    }
    for open in running.pools.iter().filter(|open| wished.pools.iter().all(|pool| pool.name != open.name)) {
        let name = &open.name;
        // A volume that goes elsewhere with the next start stays until then.
        let is_needed = steps.iter().any(|step| match step {
            Step::Later { volume: Some(volume), .. } => is_on(running, volume, name),
            _ => false,
        });
        steps.push(if is_needed {
            Step::later(format!("pool {name} is left alone; what is on it stays"))
        } else {
            Step::ClosePool(name.clone())
        });
    }
    Ok(())
}

fn is_on(running: &Config, volume: &str, pool: &str) -> bool {
    let is_it =
        |one: &Volume| one.name == volume && one.enabled && one.backing == Backing::Pool(pool.to_owned());
    running.volumes.iter().any(is_it)
}

/// Where is listened changes while sessions stay.
fn portals(steps: &mut Vec<Step>, running: &Config, wished: &Config) {
    let (before, after) = (plan::portals(running), plan::portals(&listening(running, wished)));
    if before == after {
        return;
    }
    let (before, after) = (named(&before), named(&after));
    let only = |these: &[String], others: &[String]| {
        let only: Vec<_> = these.iter().filter(|one| !others.contains(one)).cloned().collect();
        only.join(", ")
    };
    let (opened, closed) = (only(&after, &before), only(&before, &after));
    steps.push(Step::Listen(match (opened.is_empty(), closed.is_empty()) {
        (false, false) => format!("on {opened}, and no more on {closed}; who came in there stays"),
        (false, true) => format!("on {opened} too"),
        (true, false) => format!("no more on {closed}; who came in there stays"),
        (true, true) => "as it is written, with another congestion control or other referrals".to_owned(),
    }));
}

/// Portals in words.
fn named(portals: &Portals) -> Vec<String> {
    let lists = [
        ("iSCSI", &portals.iscsi),
        ("NBD", &portals.nbd),
        ("NVMe", &portals.nvme),
        ("NVMe discovery", &portals.nvme_discovery),
    ];
    let inet = lists
        .into_iter()
        .flat_map(|(protocol, list)| list.iter().map(move |one| format!("{protocol} {one}")));
    let unix = portals.nbd_socket.iter().map(|path| format!("NBD {}", path.display()));
    inet.chain(unix).collect()
}

/// What stands on the members stays; pools in memory begin anew with each start.
fn check_layout(open: &Pool, pool: &Pool) -> Result<(), Impossible> {
    let layout = |pool: &Pool| (pool.level, pool.unit_bytes, pool.integrity, pool.members.len());
    let in_memory = pool.members.iter().all(|member| matches!(member, Member::Memory(_)));
    if in_memory || layout(open) == layout(pool) {
        return Ok(());
    }
    Err(Impossible {
        message: format!("pool {} is {} of {} members, which cannot be changed", open.name, open.level, open.members.len()),
        hint: "write its `raid`, `unit`, `integrity` and the number of members as they were; or make another pool".to_owned(),
    })
}

/// Who is told of what is changed at once.
fn notices(steps: &mut Vec<Step>, running: &Config, wished: &Config) {
    if running.mail != wished.mail {
        steps.push(Step::Note("messages are sent as [mail] is written now".to_owned()));
    }
    if running.alerts != wished.alerts {
        steps.push(Step::Note("limits, and who is told, as they are written in [[alert]] now".to_owned()));
    }
    if running.busy_poll != wished.busy_poll {
        steps.push(Step::Note(match wished.busy_poll {
            BusyPoll::Auto => "shards without work look for some as long as it pays".to_owned(),
            BusyPoll::Most(span) if span.is_zero() => "shards without work sleep at once".to_owned(),
            BusyPoll::Most(span) => {
                format!("shards without work look for some for {} us at most", span.as_micros())
            }
        }));
    }
}

/// What needs a start: everything beside volumes and pools.
fn sections(steps: &mut Vec<Step>, running: &Config, wished: &Config) {
    let mut later = |differs: bool, sentence: String| {
        if differs {
            steps.push(Step::later(sentence));
        }
    };
    let (data, shards) = (wished.data.display(), wished.shards);
    later(
        running.data != wished.data,
        format!("the data directory {data}, with other identities of volumes"),
    );
    later(running.shards != shards, format!("{shards} shards instead of {}", running.shards));
    let off_or_on = if wished.monitoring { "monitoring" } else { "no monitoring" };
    later(running.monitoring != wished.monitoring, format!("{off_or_on}, as `monitoring` says"));
    let timers = |config: &Config| (config.iscsi.nop_interval, config.iscsi.nop_timeout);
    later(timers(running) != timers(wished), "the timers of [iscsi] as they are written then".to_owned());
    later(
        running.iscsi.discovery_chap != wished.iscsi.discovery_chap,
        "who may ask for targets (`discovery_chap`) as it is written then".to_owned(),
    );
    later(running.nvme.is_some() != wished.nvme.is_some(), "[nvme] as it is written then".to_owned());
    later(running.http != wished.http, "[http] as it is written then".to_owned());
    later(running.munin != wished.munin, "[munin] as it is written then".to_owned());
}

/// What runs once the steps of a diff were done: all that is wished, but for what waits for the next start, and for volumes of which
/// `undone` says that it was not done.
pub fn settled(running: &Config, wished: &Config, steps: &[Step], undone: impl Fn(&str) -> bool) -> Config {
    let later = steps.iter().filter_map(|step| match step {
        Step::Later { volume, .. } => volume.as_deref(),
        _ => None,
    });
    let later: HashSet<&str> = later.collect();
    let (before, after) = (by_name(running), by_name(wished));
    let now = |volume: &Volume| {
        let waits = undone(&volume.name) || later.contains(&*volume.name);
        if waits {
            before.get(&*volume.name).map(|before| Volume::clone(before))
        } else {
            Some(volume.clone())
        }
    };
    let mut volumes: Vec<_> = wished.volumes.iter().filter_map(now).collect();
    let is_gone = |volume: &&Volume| !after.contains_key(&*volume.name);
    volumes.extend(running.volumes.iter().filter(is_gone).filter(|volume| undone(&volume.name)).cloned());
    let mut settled = Config {
        mail: wished.mail.clone(),
        alerts: wished.alerts.clone(),
        busy_poll: wished.busy_poll,
        volumes,
        ..running.clone()
    };
    for step in steps {
        match step {
            Step::OpenPool(pool) => settled.pools.push(Pool::clone(pool)),
            Step::ClosePool(name) if !undone(name) => settled.pools.retain(|pool| pool.name != *name),
            Step::Listen(_) => settled = listening(&settled, wished),
            _ => {}
        }
    }
    settled
}

/// What runs, but for where it listens, which is as wished: as far as that needs no start.
pub fn listening(running: &Config, wished: &Config) -> Config {
    let mut config = running.clone();
    config.iscsi.listen.clone_from(&wished.iscsi.listen);
    config.iscsi.congestion_control.clone_from(&wished.iscsi.congestion_control);
    config.nbd.clone_from(&wished.nbd);
    if running.data != wished.data
        && let Some(nbd) = &mut config.nbd
    {
        nbd.socket = running.nbd.as_ref().and_then(|nbd| nbd.socket.clone());
    }
    // Volumes are offered over NVMe by there being a section.
    if running.nvme.is_some() && wished.nvme.is_some() {
        config.nvme.clone_from(&wished.nvme);
    }
    config
}
