//! The device server over a volume in RAM, driven as a session drives it.

mod data;
mod state;

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use ring::{Buffer, Options, Reactor};
use wire::scsi::luns::Lun;
use wire::scsi::{AdditionalSense, Sense, SenseKey, Status};

use super::*;
use crate::disk::MemoryDisk;
use crate::error::ErrorKind;
use crate::layers::{Count, Counted, Delay, Fault, Faults, Layer, Stack};
use crate::request::{Extent, Geometry, Verb};
use crate::shard::{Peers, Shard};
use crate::volume::{Backing, Channel, Limits, Volume, VolumeOptions};

const BLOCK: usize = 512;
const BLOCKS: u64 = 4096;
const PORT: TargetPort = TargetPort { relative: 1, group: 1 };

/// Says of the disk below what a test wants said.
struct Claims(fn(&mut Geometry));

impl Layer for Claims {
    fn name(&self) -> &'static str {
        "claims"
    }

    fn geometry(&self, mut below: Geometry) -> Geometry {
        (self.0)(&mut below);
        below
    }
}

/// A logical unit, one nexus that has nothing pending, and what went down to the volume.
struct Bench {
    unit: Arc<Unit>,
    logical_unit: LogicalUnit,
    nexus: Nexus,
    counted: Rc<Cell<Counted>>,
    faults: Faults,
}

/// Runs a test on a reactor, over a volume whose geometry `claims` may change.
fn with_claims<F: Future<Output = ()> + 'static>(
    claims: fn(&mut Geometry),
    test: impl FnOnce(Bench) -> F + 'static,
) {
    with_slow_writes(claims, Duration::ZERO, test);
}

/// The same, and each write takes `write` to get to the volume's disk.
fn with_slow_writes<F: Future<Output = ()> + 'static>(
    claims: fn(&mut Geometry),
    write: Duration,
    test: impl FnOnce(Bench) -> F + 'static,
) {
    with_top(Claims(claims), write, test);
}

/// The same with this layer above all.
fn with_top<F: Future<Output = ()> + 'static>(
    top: impl Layer,
    write: Duration,
    test: impl FnOnce(Bench) -> F + 'static,
) {
    let reactor = Reactor::new(&Options::default()).unwrap();
    let ring = reactor.ring().clone();
    reactor.block_on(async move {
        let options = VolumeOptions {
            name: "demo".into(),
            id: *b"\x01\x23\x45\x67\x89\xab\x4d\xef\x81\x23\x45\x67\x89\xab\xcd\xef",
            bytes: BLOCKS * BLOCK as u64,
            block_size: BLOCK as u32,
            backing: Backing::Memory,
            limits: Limits::default(),
            may_grow: false,
            faults: None,
        };
        let memory = Arc::new(ring::Memory::new(options.bytes).unwrap());
        let (volume, _) = Volume::prepare(&ring, options, &crate::pool::Pools::default()).await.unwrap();
        let (count, faults) = (Count::default(), Faults::default());
        let counted = count.0.clone();
        let delay = Delay { ring: ring.clone(), read: Duration::ZERO, write, flush: Duration::ZERO };
        let layers: Vec<Box<dyn Layer>> =
            vec![Box::new(top), Box::new(count), Box::new(delay), Box::new(faults.clone())];
        let disk = Box::new(MemoryDisk::new(&ring, memory, BLOCK as u32));
        let channel = Rc::new(Channel::new(0, Arc::new(volume), Stack::new(ring.clone(), layers, disk)));
        let (peers, mut mail) = Peers::new(1);
        let shard = Shard::new(0, ring, peers, mail.remove(0), vec![channel.clone()]);
        let unit = Unit::new("iqn.2026-11.internal.fels:demo", channel.geometry().write_cache);
        let logical_unit = LogicalUnit::new(unit.clone(), shard, channel);
        let nexus = unit.attach(PORT, None);
        test(Bench { unit, logical_unit, nexus, counted, faults }).await;
    });
}

fn with<F: Future<Output = ()> + 'static>(test: impl FnOnce(Bench) -> F + 'static) {
    with_claims(|_| {}, test);
}

impl Bench {
    async fn run_as(&self, nexus: &Nexus, lun: Option<Lun>, cdb: &[u8], data_out: &[u8]) -> Response {
        let prepared = match self.logical_unit.prepare(nexus, lun, cdb, data_out.len() as u32) {
            Ok(prepared) => prepared,
            Err(response) => return response,
        };
        let taken = data_out.len().min(prepared.data_out() as usize);
        let response = self.logical_unit.execute(nexus, prepared, Buffer::copy_of(&data_out[..taken])).await;
        assert!(response.data_in.len() <= prepared.data_in() as usize, "{cdb:02x?}");
        response
    }

    async fn run(&self, cdb: &[u8], data_out: &[u8]) -> Response {
        self.run_as(&self.nexus, Some(Lun::ZERO), cdb, data_out).await
    }

    /// Runs and expects GOOD; returns data-in.
    async fn good(&self, cdb: &[u8], data_out: &[u8]) -> Vec<u8> {
        let response = self.run(cdb, data_out).await;
        assert_eq!(response.status, Status::Good, "{cdb:02x?}: {:?}", response.sense);
        response.data_in.to_vec()
    }

    /// Runs and expects CHECK CONDITION; returns the sense data as an initiator reads it.
    async fn refused(&self, cdb: &[u8], data_out: &[u8]) -> Sense {
        let response = self.run(cdb, data_out).await;
        assert_eq!(response.status, Status::CheckCondition, "{cdb:02x?}");
        Sense::decode(&response.sense_bytes().unwrap()).unwrap()
    }

    async fn read(&self, lba: u32, blocks: u16) -> Vec<u8> {
        self.good(&ten(0x28, 0, lba, blocks), &[]).await
    }

    async fn write(&self, lba: u32, data: &[u8]) {
        self.good(&ten(0x2a, 0, lba, (data.len() / BLOCK) as u16), data).await;
    }
}

/// A ten byte CDB of the READ(10) form.
fn ten(opcode: u8, flags: u8, lba: u32, blocks: u16) -> [u8; 10] {
    let [a, b, c, d] = lba.to_be_bytes();
    let [high, low] = blocks.to_be_bytes();
    [opcode, flags, a, b, c, d, 0, high, low, 0]
}

/// A sixteen byte CDB of the READ(16) form.
fn sixteen(opcode: u8, flags: u8, lba: u64, blocks: u32) -> [u8; 16] {
    let mut cdb = [0; 16];
    cdb[0] = opcode;
    cdb[1] = flags;
    cdb[2..10].copy_from_slice(&lba.to_be_bytes());
    cdb[10..14].copy_from_slice(&blocks.to_be_bytes());
    cdb
}

const TEST_UNIT_READY: [u8; 6] = [0; 6];
