//! One core's view of a logical unit, and the way of a command through it.

use std::fmt::Write as _;
use std::rc::Rc;
use std::sync::Arc;

use ring::{Buffer, Soon};
use wire::scsi::cdb::peek_range;
use wire::scsi::{Command, Sense};

use super::absent;
use super::errors::Failures;
use super::prepare::Prepared;
use super::response::Response;
use super::unit::{Nexus, Unit};
use crate::limits;
use crate::request::{Extent, Flags, Geometry, Verb};
use crate::shard::Shard;
use crate::volume::Channel;

/// The device server of one logical unit on one core. Shared by the sessions of that core.
pub struct LogicalUnit {
    unit: Arc<Unit>,
    pub(super) shard: Rc<Shard>,
    pub(super) channel: Rc<Channel>,
    pub(super) failures: Failures,
    serial: String,
}

impl LogicalUnit {
    /// LUN 0 of a target: `unit` is the same on every core, `channel` the volume's handle on this one.
    pub fn new(unit: Arc<Unit>, shard: Rc<Shard>, channel: Rc<Channel>) -> Self {
        let failures = Failures::new(shard.ring().clone(), channel.volume().name().to_owned());
        let serial = channel.volume().id().iter().fold(String::new(), |mut serial, byte| {
            let _ = write!(serial, "{byte:02x}");
            serial
        });
        Self { unit, shard, channel, failures, serial }
    }

    /// What all cores share of it.
    pub fn unit(&self) -> &Arc<Unit> {
        &self.unit
    }

    pub(super) fn geometry(&self) -> Geometry {
        self.channel.geometry()
    }

    pub(super) fn block_size(&self) -> u32 {
        self.geometry().block_size
    }

    /// Logical blocks in a physical one, a power of two.
    pub(super) fn blocks_per_physical(&self) -> u32 {
        let geometry = self.geometry();
        (geometry.physical_block_size / geometry.block_size).max(1)
    }

    /// MAXIMUM COMPARE AND WRITE LENGTH: the field has one byte.
    pub(super) fn maximum_compare_blocks(&self) -> u32 {
        (limits::COMPARE_BYTES as u32 / self.block_size()).min(255)
    }

    /// LBPRZ.
    pub(super) fn reads_zeros(&self) -> bool {
        self.geometry().discard && self.geometry().discard_zeroes
    }

    pub(super) fn read_only(&self) -> bool {
        self.geometry().read_only
    }

    pub(super) fn uuid(&self) -> [u8; 16] {
        self.channel.volume().id()
    }

    /// The unit serial number: the volume's identity in hexadecimal.
    pub(super) fn serial(&self) -> &str {
        &self.serial
    }

    /// Whether commands wait for their turn within the limits of the volume.
    pub fn is_limited(&self) -> bool {
        self.channel.is_limited()
    }

    /// CHECK CONDITION in the sense format that is set.
    pub fn refuse(&self, sense: Sense) -> Response {
        Response::check_condition(sense, self.unit.sense_format())
    }

    /// Flags of a write: onto stable media if the command says so, or if the initiator has switched the write cache
    /// off. Without a volatile cache every write is there anyway.
    pub(super) fn write_flags(&self, fua: bool) -> Flags {
        if self.geometry().write_cache && (fua || !self.unit.write_cache()) {
            Flags::FUA
        } else {
            Flags::empty()
        }
    }

    /// A command with this CDB will come. Only a hint.
    pub fn expect(&self, cdb: &[u8; 16], soon: Soon) {
        if let Some((writes, lba, blocks)) = peek_range(cdb) {
            let verb = if writes { Verb::Write } else { Verb::Read };
            let block_size = u64::from(self.block_size());
            let extent = Extent::new(lba.wrapping_mul(block_size), u64::from(blocks) * block_size);
            self.channel.expect(verb, extent, soon);
        }
    }

    /// Carries out a command. `data_out` holds what has arrived of what [`Prepared::data_out`] asked for.
    ///
    /// The future has to be polled to its end, for an aborted command too, whose response nobody gets: only then is
    /// what it writes out of the way of the next command. Every command is bounded, so that the end is near.
    pub async fn execute(&self, nexus: &Nexus, prepared: Prepared, data_out: Buffer) -> Response {
        if !prepared.here {
            return absent::respond(&prepared.command);
        }
        let result = match prepared.command {
            Command::Read(transfer) => self.read(transfer).await,
            Command::Write(transfer) => self.write(transfer, data_out).await,
            Command::TestUnitReady => Ok(Response::good()),
            // Boxed, so that the future of a read or a write stays small; these are rare or long.
            command => Box::pin(self.execute_rarely(nexus, command, data_out)).await,
        };
        result.unwrap_or_else(|sense| self.refuse(sense))
    }

    async fn execute_rarely(
        &self,
        nexus: &Nexus,
        command: Command,
        data_out: Buffer,
    ) -> Result<Response, Sense> {
        match command {
            Command::Verify(verify) => self.verify(verify, &data_out).await,
            Command::WriteAndVerify(verify) => self.write_and_verify(verify, data_out).await,
            Command::SynchronizeCache { lba, .. } => {
                self.flush("SYNCHRONIZE CACHE", lba).await?;
                Ok(Response::good())
            }
            // Nothing is cached here, so nothing of it fits: GOOD and not CONDITION MET (SBC-4 section 5.11).
            Command::PreFetch { .. } | Command::TestUnitReady => Ok(Response::good()),
            Command::CompareAndWrite(transfer) => self.compare_and_write(transfer, &data_out).await,
            Command::OrWrite(transfer) => self.or_write(transfer, &data_out).await,
            Command::WriteSame(same) => self.write_same(same, &data_out).await,
            Command::Unmap { parameter_list_length } => {
                let list = data_out.get(..usize::from(parameter_list_length));
                self.unmap(list.ok_or(Sense::parameter_list_length_error())?).await
            }
            Command::GetLbaStatus { lba, allocation_length } => self.lba_status(lba, allocation_length),
            Command::ModeSelect(select) => self.mode_select(nexus, &select, &data_out).await,
            Command::StartStop(action) => self.start_stop(action).await,
            Command::PreventAllow { prevent } => {
                nexus.set_prevents_removal(prevent);
                Ok(Response::good())
            }
            Command::RequestSense { descriptor, allocation_length } => {
                Ok(self.request_sense(nexus, descriptor, allocation_length))
            }
            Command::Read(transfer) => self.read(transfer).await,
            Command::Write(transfer) => self.write(transfer, data_out).await,
            Command::Inquiry { .. }
            | Command::ReportLuns { .. }
            | Command::ModeSense(_)
            | Command::ReadCapacity10
            | Command::ReadCapacity16 { .. }
            | Command::ReportSupportedOpcodes { .. }
            | Command::ReportSupportedTaskManagement { .. } => self.describe(nexus, &command),
        }
    }
}
