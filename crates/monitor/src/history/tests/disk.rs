//! A disk that loses power at a chosen write: what was not synchronised is there, is not, or is half there.

use super::super::medium::{Medium, Part};
use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex};

const SECTOR: usize = 512;
type Sectors = HashMap<(u8, u64), [u8; SECTOR]>;

fn key(part: Part) -> u8 {
    match part {
        Part::Journal => 255,
        Part::Archive(number) => number,
    }
}

#[derive(Default)]
struct State {
    durable: Sectors,
    /// Written since the last synchronisation of its part.
    cached: Sectors,
    names: Option<Vec<u8>>,
    /// Writes and synchronisations so far.
    done: usize,
    /// Power goes away at this one.
    cut_at: Option<usize>,
    /// No room for more groups than these.
    reserve_at_most: Option<u64>,
    random: fastrand::Rng,
}

impl State {
    fn sector(&self, key: (u8, u64)) -> [u8; SECTOR] {
        self.cached.get(&key).or_else(|| self.durable.get(&key)).copied().unwrap_or([0; SECTOR])
    }

    fn is_cut(&mut self) -> io::Result<bool> {
        let cut = self.cut_at;
        if cut.is_some_and(|cut| self.done > cut) {
            return Err(io::Error::other("no power"));
        }
        self.done += 1;
        Ok(cut.is_some_and(|cut| self.done > cut))
    }
}

#[derive(Clone, Default)]
pub struct Disk(Arc<Mutex<State>>);

impl Disk {
    pub fn new(seed: u64) -> Self {
        let disk = Self::default();
        disk.0.lock().unwrap().random = fastrand::Rng::with_seed(seed);
        disk
    }

    /// How many writes and synchronisations there were.
    pub fn done(&self) -> usize {
        self.0.lock().unwrap().done
    }

    /// Power goes away after so many more.
    pub fn cut_after(&self, more: usize) {
        let mut state = self.0.lock().unwrap();
        state.cut_at = Some(state.done + more);
    }

    pub fn reserve_at_most(&self, bytes: u64) {
        self.0.lock().unwrap().reserve_at_most = Some(bytes);
    }

    /// Power comes back, or the process was killed: then everything that was written is there.
    pub fn restart(&self, with_power_cut: bool) {
        let mut state = self.0.lock().unwrap();
        let state = &mut *state;
        for (key, sector) in state.cached.drain() {
            let old = state.durable.entry(key).or_insert([0; SECTOR]);
            match if with_power_cut { state.random.u8(..4) } else { 0 } {
                0 | 1 => *old = sector,
                2 => {}
                _ => {
                    let torn = state.random.usize(..SECTOR);
                    old[..torn].copy_from_slice(&sector[..torn]);
                }
            }
        }
        state.cut_at = None;
    }

    /// Changes bytes as a bad medium does.
    pub fn spoil(&self, part: Part) {
        let mut state = self.0.lock().unwrap();
        let state = &mut *state;
        for ((of, _), sector) in &mut state.durable {
            if *of == key(part) {
                sector[state.random.usize(..SECTOR)] ^= 1 << state.random.u8(..8);
            }
        }
    }
}

impl Medium for Disk {
    fn read(&self, part: Part, offset: u64, into: &mut [u8]) -> io::Result<()> {
        let state = self.0.lock().unwrap();
        assert!(offset.is_multiple_of(SECTOR as u64), "reads are of whole blocks");
        for (sector, into) in (offset / SECTOR as u64..).zip(into.chunks_mut(SECTOR)) {
            into.copy_from_slice(&state.sector((key(part), sector))[..into.len()]);
        }
        Ok(())
    }

    fn write(&mut self, part: Part, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let mut state = self.0.lock().unwrap();
        let cut = state.is_cut()?;
        assert!(offset.is_multiple_of(SECTOR as u64), "writes begin with a sector");
        for (sector, bytes) in (offset / SECTOR as u64..).zip(bytes.chunks(SECTOR)) {
            // A write that is cut is there in any part.
            if !cut || state.random.bool() {
                let mut whole = state.sector((key(part), sector));
                whole[..bytes.len()].copy_from_slice(bytes);
                state.cached.insert((key(part), sector), whole);
            }
        }
        if cut { Err(io::Error::other("power went away")) } else { Ok(()) }
    }

    fn sync(&mut self, part: Part) -> io::Result<()> {
        let mut state = self.0.lock().unwrap();
        if state.is_cut()? {
            return Err(io::Error::other("power went away"));
        }
        let State { durable, cached, .. } = &mut *state;
        cached.retain(|at, sector| {
            let other = at.0 != key(part);
            if !other {
                durable.insert(*at, *sector);
            }
            other
        });
        Ok(())
    }

    fn reserve(&mut self, _part: Part, bytes: u64) -> io::Result<()> {
        let most = self.0.lock().unwrap().reserve_at_most;
        if most.is_some_and(|most| bytes > most) { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
    }

    fn check_room(&self, _bytes: u64) -> io::Result<()> {
        let is_full = self.0.lock().unwrap().reserve_at_most == Some(0);
        if is_full { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
    }

    fn names(&self) -> io::Result<Option<Vec<u8>>> {
        Ok(self.0.lock().unwrap().names.clone())
    }

    fn replace_names(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut state = self.0.lock().unwrap();
        let cut = state.is_cut()?;
        // Renamed or not.
        if !cut || state.random.bool() {
            state.names = Some(bytes.to_vec());
        }
        if cut { Err(io::Error::other("power went away")) } else { Ok(()) }
    }
}
