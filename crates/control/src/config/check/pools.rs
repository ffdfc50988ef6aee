//! What only the whole file shows of pools.

use super::super::error::Problems;
use super::super::pool::{Member, ReadPool, add_text};
use super::super::volume::{Backing, ReadVolume};
use crate::size::display_bytes;
use plane::pool::Level;
use plane::pool::format::{DEFAULT_CATALOGUE_BLOCKS, Geometry, default_journal_bytes};
use std::collections::HashSet;

pub(super) fn names(problems: &mut Problems<'_>, pools: &[ReadPool]) {
    let mut seen = HashSet::new();
    for read in pools {
        let name = read.pool.name.as_str();
        if !name.is_empty() && !seen.insert(name) {
            problems.add(read.name_span.clone(), format!("there are two pools `{name}`"));
        }
    }
}

/// Volumes live on pools that there are.
pub(super) fn known(problems: &mut Problems<'_>, pools: &[ReadPool], volumes: &[ReadVolume]) {
    for read in volumes {
        let Backing::Pool(name) = &read.volume.backing else { continue };
        if pools.iter().any(|other| other.pool.name == *name) {
            continue;
        }
        let names: Vec<_> = pools.iter().map(|read| format!("`{}`", read.pool.name)).collect();
        let hint = if names.is_empty() {
            format!("add a section [[pool]] with name = \"{name}\"")
        } else {
            format!("the pools are {}", names.join(", "))
        };
        problems.add_hint(read.backing_span.clone(), format!("there is no pool `{name}`"), hint);
    }
}

/// As far as can be known without looking at the members, the volumes fit.
pub(super) fn room(problems: &mut Problems<'_>, pools: &[ReadPool], volumes: &[ReadVolume]) {
    for read in pools.iter().filter(|read| read.is_whole) {
        let pool = &read.pool;
        let sizes = pool.members.iter().map(|member| match member {
            Member::File(_) => pool.member_bytes,
            Member::Memory(bytes) => Some(*bytes),
            Member::Device(_) => None,
        });
        let Some(smallest) = sizes.collect::<Option<Vec<_>>>().and_then(|sizes| sizes.into_iter().min())
        else {
            continue;
        };
        let slots = u16::try_from(pool.members.len()).unwrap_or(u16::MAX);
        let journal = default_journal_bytes(smallest);
        match Geometry::plan(pool.level, slots, pool.unit_bytes, smallest, DEFAULT_CATALOGUE_BLOCKS, journal)
        {
            Ok(geometry) => volumes_fit(problems, read, &geometry, volumes),
            Err(error) => add_text(problems, read.members_span.clone(), &error),
        }
    }
}

fn volumes_fit(problems: &mut Problems<'_>, read: &ReadPool, geometry: &Geometry, volumes: &[ReadVolume]) {
    let lives_here = |read_volume: &&ReadVolume| matches!(&read_volume.volume.backing, Backing::Pool(name) if *name == read.pool.name);
    // A pool that was extended may have rows of several widths.
    let step = match geometry.level {
        Level::Raid0 | Level::Raid10 => u64::from(geometry.unit),
        _ => geometry.row_bytes(),
    };
    let mut taken = 0_u64;
    for volume in volumes.iter().filter(lives_here) {
        let rows = volume.volume.size_bytes.div_ceil(step);
        taken = taken.saturating_add(rows.saturating_mul(step));
        if taken > geometry.pool_bytes() {
            // In whole MiB, as people say it.
            let room = geometry.pool_bytes() >> 20 << 20;
            problems.add_hint(
                volume.backing_span.clone(),
                format!(
                    "the volumes of the pool `{}` up to this one take {}, the pool has {}",
                    read.pool.name,
                    display_bytes(taken),
                    display_bytes(room)
                ),
                "make them smaller, or give the pool more or larger members",
            );
            return;
        }
    }
}
