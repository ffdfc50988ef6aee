//! From what a configuration names to a pool that is open: made when all of its members are blank, imported otherwise, and
//! nobody's bytes are ever overwritten.

use std::io::ErrorKind;
use std::sync::Arc;

use ring::{Buffer, File, Ring};

use super::admit::MemberLocks;
use super::format::{DEFAULT_CATALOGUE_BLOCKS, End, Label, VolumeEntry};
use super::layout::members;
use super::level::Level;
use super::member::{Layers, Member, MemberError, Place};
use super::open::{
    Labelled, Pool, PoolError, PoolOptions, choose, never_came_in, newest, read_label, was_replaced,
};
use super::volumes::VolumeWish;
use crate::disk::FileError;
use crate::layers::{Layer, Spindle, Spinning, SpinningDisk};
use crate::limits::POOL_MEMBER_STALL;
use crate::request::Request;
use crate::volume::VolumeOptions;

/// What has to be zero at both ends of a member that counts as blank: partition tables, file systems and the labels of
/// other volume managers all have something there.
pub(super) const BLANK_ENDS: u64 = 1 << 20;

/// Another one has its place meanwhile: a spare, by itself.
const REPLACED: &str = "was a member once and was replaced";

/// A cut came before the pool was extended by it.
const NEVER_CAME_IN: &str = "was to be a further member, and the pool was not extended";

const SOMETHING_ELSE: &str = "has no label of a pool, but something else on it";

/// A pool as a configuration names it.
#[derive(Clone, Debug)]
pub struct PoolPlan {
    /// Its name.
    pub name: String,
    /// How its members are arranged.
    pub level: Level,
    /// Bytes of a unit.
    pub unit: u32,
    /// Whether checksums are kept and verified.
    pub integrity: bool,
    /// In the order of their slots when it is made; any order when it is imported.
    pub members: Vec<MemberPlan>,
    /// Blank ones become spares of the pool; those that it has already are found by what they say themselves.
    pub spares: Vec<MemberPlan>,
}

/// A member as a configuration names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberPlan {
    /// Where it is.
    pub place: Place,
    /// Bytes of the file that is made when it is missing.
    pub create_bytes: Option<u64>,
    /// The disk that it behaves like: for measuring.
    pub spinning: Option<SpinningDisk>,
}

impl MemberPlan {
    /// What lies over the member: one disk for all cores.
    fn layers(&self) -> Result<Option<Layers>, PoolError> {
        let Some(disk) = self.spinning.clone() else { return Ok(None) };
        let spindle = Spindle::new(disk).map_err(MemberError::from)?;
        Ok(Some(Arc::new(move |ring: &Ring| -> Vec<Box<dyn Layer>> {
            vec![Box::new(Spinning { ring: ring.clone(), spindle: spindle.clone() })]
        })))
    }
}

/// A member that was named and is not in use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Absent {
    /// Where it was looked for.
    pub place: Place,
    /// A sentence's end: "there is no such file".
    pub why: String,
}

/// A pool that is open, with what is to be told of its beginning.
pub struct Assembled {
    pool: Pool,
    /// Members that were named and are not in use.
    pub absent: Vec<Absent>,
    /// It was made now.
    pub is_new: bool,
}

/// What is found at a member's place.
pub(super) enum Found {
    /// Nothing, or an empty file.
    Missing,
    /// Nothing but zeroes.
    Blank(Opened),
    /// A member of some pool.
    Labelled(Opened, Box<Label>),
    /// Not to be used: a sentence's end.
    Unusable(String),
    /// It does not work, or does not answer: a sentence's end.
    Broken(String),
}

pub(super) struct Opened {
    pub(super) member: Member,
    pub(super) lock: Option<File>,
}

/// Opens the pool. The locks live on `ring`'s core: keep them as long as the pool.
pub async fn assemble(
    ring: &Ring,
    plan: &PoolPlan,
    cores: usize,
) -> Result<(Assembled, MemberLocks), PoolError> {
    let mut found = look_at_all(ring, &plan.members).await?;
    let mut spares = look_at_all(ring, &plan.spares).await?;
    let tails: Vec<u64> = found.iter().chain(&spares).filter_map(Found::tail).collect();
    look_again(ring, &plan.members, &mut found, &tails).await?;
    look_again(ring, &plan.spares, &mut spares, &tails).await?;
    if found.iter().chain(&spares).any(|found| matches!(found, Found::Labelled(..))) {
        import(ring, plan, found, spares, cores).await
    } else {
        make(ring, plan, found, spares, cores).await
    }
}

impl Found {
    /// Where the label at the tail of a member is.
    fn tail(&self) -> Option<u64> {
        match self {
            Found::Labelled(_, label) => Some(label.geometry.label_place(End::Tail)),
            _ => None,
        }
    }
}

async fn look_at_all(ring: &Ring, plans: &[MemberPlan]) -> Result<Vec<Found>, PoolError> {
    let mut found = Vec::with_capacity(plans.len());
    for plan in plans {
        found.push(look(ring, &plan.place, plan.layers()?, &[]).await?);
    }
    Ok(found)
}

/// One that seems to have no label, or to be blank, may have lost that at its head, and be larger than it has to be: then the others
/// say where the one at its tail is.
async fn look_again(
    ring: &Ring,
    plans: &[MemberPlan],
    found: &mut [Found],
    tails: &[u64],
) -> Result<(), PoolError> {
    for (plan, found) in plans.iter().zip(found) {
        if matches!(found, Found::Unusable(_) | Found::Blank(_)) && !tails.is_empty() {
            // One that is locked could not be opened again.
            *found = Found::Missing;
            *found = look(ring, &plan.place, plan.layers()?, tails).await?;
        }
    }
    Ok(())
}

/// What is at a place. `tails`: where other members of the pool have their labels, beside the beginning and the end.
pub(super) async fn look(
    ring: &Ring,
    place: &Place,
    layers: Option<Layers>,
    tails: &[u64],
) -> Result<Found, PoolError> {
    let (member, lock) = match Member::open(ring, place.clone(), None, layers).await {
        Ok(opened) => opened,
        Err(MemberError::File(FileError::Open { source, .. })) if source.kind() == ErrorKind::NotFound => {
            return Ok(Found::Missing);
        }
        // A disk that died; anything else is for somebody to mend before the pool goes on without the member.
        Err(MemberError::File(FileError::Open { source, .. })) if is_dead(&source) => {
            return Ok(Found::Broken(format!("cannot be opened: {source}")));
        }
        Err(error) => return Err(error.into()),
    };
    if member.bytes() == 0 {
        let is_empty = lock.is_some_and(|file| file.length().is_ok_and(|length| length == 0));
        return Ok(if is_empty { Found::Missing } else { Found::Unusable(SOMETHING_ELSE.to_owned()) });
    }
    let label = match read_label(ring, &member, tails).await {
        Ok(label) => label,
        // The pool goes on without it if it can, as with a disk that died.
        Err(PoolError::Io { cause, .. }) => return Ok(Found::Broken(format!("cannot be used: {cause}"))),
        Err(PoolError::Refused { why, .. }) => {
            let place = format!("{place}: ");
            return Ok(Found::Unusable(why.strip_prefix(&place).unwrap_or(&why).to_owned()));
        }
        Err(error) => return Err(error),
    };
    Ok(match label {
        Some(label) if member.bytes() < label.geometry.bytes => Found::Unusable(format!(
            "has {} bytes, as a member of {} it had {}: its end is gone",
            member.bytes(),
            label.name,
            label.geometry.bytes
        )),
        Some(label) => Found::Labelled(Opened { member, lock }, Box::new(label)),
        None => match is_blank(ring, &member).await? {
            Some(true) => Found::Blank(Opened { member, lock }),
            Some(false) => Found::Unusable(SOMETHING_ELSE.to_owned()),
            None => Found::Broken("cannot be read".to_owned()),
        },
    })
}

/// What the kernel says of a disk that is there and does not work.
fn is_dead(error: &std::io::Error) -> bool {
    const EIO: i32 = 5;
    const ENXIO: i32 = 6;
    const ENODEV: i32 = 19;
    const ENOMEDIUM: i32 = 123;
    matches!(error.raw_os_error(), Some(EIO | ENXIO | ENODEV | ENOMEDIUM))
}

/// Whether both ends of a member are zero; `None` when they cannot be read.
pub(super) async fn is_blank(ring: &Ring, member: &Member) -> Result<Option<bool>, PoolError> {
    let stack = member.stack(ring)?;
    let length = member.bytes().min(BLANK_ENDS);
    for place in [0, member.bytes() - length] {
        let read = stack.submit(Request::read(place, Buffer::new(length as usize)));
        let Some(completion) = ring.timeout(POOL_MEMBER_STALL, read).await else { return Ok(None) };
        if completion.result.is_err() {
            return Ok(None);
        }
        if completion.buffer.iter().any(|&byte| byte != 0) {
            return Ok(Some(false));
        }
    }
    Ok(Some(true))
}

async fn make(
    ring: &Ring,
    plan: &PoolPlan,
    found: Vec<Found>,
    spares: Vec<Found>,
    cores: usize,
) -> Result<(Assembled, MemberLocks), PoolError> {
    let refused = |why: String| PoolError::Refused { pool: plan.name.clone(), why };
    // All of them are judged before the first one is touched.
    for (found, member) in found.iter().chain(&spares).zip(plan.members.iter().chain(&plan.spares)) {
        let place = &member.place;
        match found {
            Found::Unusable(why) | Found::Broken(why) => {
                return Err(refused(format!(
                    "{place} {why}; hint: a pool is made of blank members only: take it from the list, or wipe it if nobody \
                     needs what is on it"
                )));
            }
            Found::Missing if member.create_bytes.is_none() => {
                return Err(refused(format!(
                    "{place} is not there; hint: correct the path, or give `member_size`, with which missing files are made"
                )));
            }
            _ => {}
        }
    }
    let (mut opened, locks) = (Vec::with_capacity(found.len()), MemberLocks::default());
    for (found, plan) in found.into_iter().zip(&plan.members) {
        let Opened { member, lock } = take(ring, found, plan).await?;
        locks.keep(member.place(), lock);
        opened.push(member);
    }
    let smallest = opened.iter().map(Member::bytes).min().unwrap_or(0);
    let mut waiting = Vec::with_capacity(spares.len());
    for (found, plan) in spares.into_iter().zip(&plan.spares) {
        let Opened { member, lock } = take(ring, found, plan).await?;
        if member.bytes() < smallest {
            return Err(refused(format!(
                "the spare {} has {} bytes, the smallest member {smallest}; hint: give one that is as large",
                plan.place,
                member.bytes()
            )));
        }
        locks.keep(member.place(), lock);
        waiting.push(member);
    }
    for member in opened.iter().filter(|member| member.bytes() > smallest) {
        let unused = member.bytes() - smallest;
        tracing::warn!(
            pool = plan.name,
            "{unused} bytes of {} are not used: the smallest member has {smallest}",
            member.place()
        );
    }
    let options = PoolOptions {
        name: plan.name.clone(),
        level: plan.level,
        unit: plan.unit,
        integrity: plan.integrity,
        catalogue_blocks: DEFAULT_CATALOGUE_BLOCKS,
        journal_bytes: None,
    };
    let pool = Pool::make(ring, &options, opened, cores).await?;
    for spare in waiting {
        pool.add_spare(ring, spare).await?;
    }
    Ok((Assembled { pool, absent: Vec::new(), is_new: true }, locks))
}

/// What is at a place that is to be blank; a file is made when there is none.
async fn take(ring: &Ring, found: Found, plan: &MemberPlan) -> Result<Opened, PoolError> {
    if let Found::Blank(opened) = found {
        return Ok(opened);
    }
    let (member, lock) = Member::open(ring, plan.place.clone(), plan.create_bytes, plan.layers()?).await?;
    Ok(Opened { member, lock })
}

async fn import(
    ring: &Ring,
    plan: &PoolPlan,
    found: Vec<Found>,
    spares: Vec<Found>,
    cores: usize,
) -> Result<(Assembled, MemberLocks), PoolError> {
    let (mut labelled, mut absent, locks) = (Vec::new(), Vec::new(), MemberLocks::default());
    let mut blank = Vec::new();
    for (found, plan) in spares.into_iter().zip(&plan.spares) {
        match found {
            Found::Labelled(Opened { member, lock }, label) => {
                locks.keep(member.place(), lock);
                labelled.push(Labelled { member: member.into(), label: *label });
            }
            Found::Missing if plan.create_bytes.is_none() => {
                absent.push(Absent { place: plan.place.clone(), why: "is not there, or empty".to_owned() });
            }
            Found::Unusable(why) | Found::Broken(why) => {
                absent.push(Absent { place: plan.place.clone(), why });
            }
            found => blank.push((found, plan)),
        }
    }
    for (found, plan) in found.into_iter().zip(&plan.members) {
        let why = match found {
            Found::Labelled(Opened { member, lock }, label) => {
                locks.keep(member.place(), lock);
                labelled.push(Labelled { member: member.into(), label: *label });
                continue;
            }
            Found::Missing => "is not there, or empty".to_owned(),
            Found::Blank(_) => "is blank: it has no label of a pool, and is not touched".to_owned(),
            Found::Unusable(why) | Found::Broken(why) => why,
        };
        absent.push(Absent { place: plan.place.clone(), why });
    }
    for absent in &absent {
        tracing::warn!(pool = plan.name, "{} counts as missing: it {}", absent.place, absent.why);
    }
    let named = labelled.len();
    absent.extend(leave_aside(
        plan,
        &mut labelled,
        never_came_in,
        NEVER_CAME_IN,
        "give it to `fels pool add` again",
    ));
    let strangers = named - labelled.len();
    let hint = "take it from the list, or wipe it and add it as a spare";
    absent.extend(leave_aside(plan, &mut labelled, was_replaced, REPLACED, hint));
    // Those may be given to it again, or to somebody else.
    for absent in &absent {
        locks.release(&absent.place);
    }
    let label = choose(&plan.name, &labelled)?;
    fits(plan, &label, strangers)?;
    no_copies(plan, &labelled)?;
    let slots = labelled.iter().map(|one| (one.member.place().clone(), label.slot_of(&one.label.member)));
    let slots: Vec<_> = slots.collect();
    let pool = Pool::open_labelled(ring, &plan.name, labelled, cores).await?;
    for slot in members(pool.shared().out()) {
        let place = slots.iter().find(|(_, other)| *other == Some(slot)).map(|(place, _)| place);
        if let Some(place) = place {
            let why = "is out of date: the pool went on without it".to_owned();
            tracing::warn!(pool = plan.name, "{place} counts as missing: it {why}");
            absent.push(Absent { place: place.clone(), why });
        }
    }
    for (found, spare) in blank {
        let Opened { member, lock } = take(ring, found, spare).await?;
        match pool.add_spare(ring, member).await {
            Ok(()) => locks.keep(&spare.place, lock),
            Err(error) => {
                let why = "cannot be a spare".to_owned();
                tracing::warn!(pool = plan.name, "{error}");
                absent.push(Absent { place: spare.place.clone(), why });
            }
        }
    }
    Ok((Assembled { pool, absent, is_new: false }, locks))
}

/// Takes out those of which the newest label says what `is_left` does: the pool goes on without them.
fn leave_aside(
    plan: &PoolPlan,
    labelled: &mut Vec<Labelled>,
    is_left: fn(&Label, &Label) -> bool,
    why: &str,
    hint: &str,
) -> Vec<Absent> {
    let Some(label) = newest(labelled).map(|newest| newest.label.clone()) else { return Vec::new() };
    let left = labelled.extract_if(.., |other| is_left(&label, &other.label));
    left.map(|other| {
        let place = other.member.place().clone();
        tracing::warn!(pool = plan.name, "{place} {why}; hint: {hint}");
        Absent { place, why: why.to_owned() }
    })
    .collect()
}

/// Whether the members say what the configuration says. `strangers`: so many that it names never were members.
fn fits(plan: &PoolPlan, label: &Label, strangers: usize) -> Result<(), PoolError> {
    let geometry = &label.geometry;
    let refused = |why: String| Err(PoolError::Refused { pool: plan.name.clone(), why });
    let on_off = |value: bool| if value { "with" } else { "without" };
    if label.name != plan.name {
        return refused(format!(
            "its members are those of the pool {}; hint: give it that name, or name other members",
            label.name
        ));
    }
    if geometry.level != plan.level {
        let (is, said) = (geometry.level, plan.level);
        return refused(format!(
            "it is {is}, not {said}; hint: set raid = \"{is}\": a level cannot be changed"
        ));
    }
    if geometry.unit != plan.unit {
        let (is, said) = (geometry.unit, plan.unit);
        return refused(format!(
            "its unit has {is} bytes, not {said}; hint: set unit = {is}: it cannot be changed"
        ));
    }
    if label.integrity != plan.integrity {
        let (is, said) = (on_off(label.integrity), on_off(plan.integrity));
        let hint = format!("set integrity = {}: it cannot be changed", label.integrity);
        return refused(format!("it was made {is} checksums, not {said}; hint: {hint}"));
    }
    let (is, said) = (label.slots.len() + label.spares.len(), plan.members.len().saturating_sub(strangers));
    if usize::from(geometry.slots) > said + plan.spares.len() || said > is {
        return refused(format!(
            "it has {is} members, not {said}; hint: name all of them, also those that are missing"
        ));
    }
    Ok(())
}

/// Two members that say that they are the same one were copied from each other.
fn no_copies(plan: &PoolPlan, labelled: &[Labelled]) -> Result<(), PoolError> {
    for (index, one) in labelled.iter().enumerate() {
        if let Some(other) = labelled[..index].iter().find(|other| other.label.member == one.label.member) {
            let why = format!(
                "{} and {} are the same member: one is a copy of the other; hint: keep the one that was used last",
                other.member.place(),
                one.member.place()
            );
            return Err(PoolError::Refused { pool: plan.name.clone(), why });
        }
    }
    Ok(())
}

impl Assembled {
    #[cfg(test)]
    pub(super) fn of_pool(pool: Pool) -> Assembled {
        Assembled { pool, absent: Vec::new(), is_new: false }
    }

    /// The pool.
    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    /// Bytes that belong to no volume.
    pub fn free_bytes(&self) -> u64 {
        let geometry = &self.pool.shared().geometry;
        let volumes = self.pool.volumes();
        let extents = volumes.iter().flat_map(|volume| &volume.extents);
        let taken: u64 = extents.map(|extent| extent.rows * geometry.row_bytes_of(extent.first_row)).sum();
        geometry.pool_bytes() - taken
    }

    /// The volume in the pool's catalogue, entered there if it is new, and made larger if that is wished.
    pub async fn volume(&self, ring: &Ring, options: &VolumeOptions) -> Result<VolumeEntry, PoolError> {
        let VolumeOptions { id, ref name, bytes, block_size, .. } = *options;
        let no_volume = |why: String| Err(self.pool.no_volume(name, why));
        let there = self.pool.volumes().iter().find(|volume| volume.name == *name).cloned();
        let wish = match there {
            None => VolumeWish::Add { id, name: name.clone(), bytes, block_size },
            Some(there) if there.block_size != block_size => {
                let is = there.block_size;
                return no_volume(format!(
                    "its blocks have {is} bytes, not {block_size}; hint: set block_size = {is}: it cannot be changed"
                ));
            }
            Some(there) if there.bytes < bytes && options.may_grow => {
                VolumeWish::Resize { name: name.clone(), bytes }
            }
            Some(there) if there.bytes != bytes => {
                return no_volume(format!(
                    "it has {} bytes there, not {bytes}; hint: set `size` to what it has",
                    there.bytes
                ));
            }
            Some(there) => return Ok(there),
        };
        let is_new = matches!(wish, VolumeWish::Add { .. });
        let entry = self.pool.change_volumes(ring, wish).await?;
        let done = if is_new { "made" } else { "made larger" };
        tracing::info!(pool = self.pool.shared().name, volume = options.name, "{done}");
        Ok(entry.expect("it was made just now"))
    }
}

#[cfg(test)]
mod tests;
