//! Our own iSCSI initiator: RFC 7143, one connection a session, error recovery level 0.

mod chap;
mod connection;
mod login;
mod outbox;
mod parameters;
mod receive;

#[cfg(test)]
mod tests;

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use ring::{Buffer, Instant, Ring, Shared};
use wire::iscsi::{Lun, TaskManagementFunction, TaskManagementResponseCode};
use wire::scsi::capacity::{CAPACITY_16_LENGTH, Capacity};
use wire::scsi::cdb::{Transfer as Range, WriteSame, encode};
use wire::scsi::inquiry::{self, BLOCK_LIMITS_LENGTH, BlockLimits, STANDARD_LENGTH, StandardSummary};
use wire::scsi::unmap::{self, BlockDescriptor};
use wire::scsi::{SenseKey, Status};

pub use login::LoginError;
pub use parameters::{Disagreement, Parameters, Wishes};

use super::operation::{self, Operation};
use super::table::{Connection, Finished, Pending, Transfer};
use super::{Cause, Geometry, IoError, OpenError, OpenOptions, connect, reach};
use crate::target::IscsiTarget;
pub(super) use connection::Inner;
use connection::{Asked, Request};

/// Unit attentions in a row that are taken in silently.
const MAX_ATTENTIONS: u32 = 8;
/// Pause before a busy target is asked again.
const BUSY_PAUSE: Duration = Duration::from_millis(1);
/// How long a logout may take.
const LOGOUT_PATIENCE: Duration = Duration::from_secs(5);

/// A session with one logical unit. Clones share it; when the last one goes, so does the connection.
#[derive(Clone)]
pub struct IscsiSession(Rc<Owner>);

pub(super) struct Owner {
    ring: Ring,
    inner: Rc<Inner>,
    geometry: Geometry,
    limits: BlockLimits,
    timeout: Duration,
    retries: Cell<u64>,
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.inner.fail("the session was dropped");
    }
}

/// A command that was sent and whose end nobody has waited for yet: for tests of task management.
pub struct Outstanding(Pending<Inner>);

impl Outstanding {
    /// Waits for its end; the buffer of a read comes back.
    pub async fn end(self) -> (Result<(), IoError>, Buffer) {
        let (result, _, buffer) = self.0.await.parts();
        (result.map(|_| ()), buffer)
    }
}

impl IscsiSession {
    /// Connects, logs in, waits until the unit is ready, and learns its size.
    pub(super) async fn open(
        ring: &Ring,
        target: &IscsiTarget,
        options: &OpenOptions,
    ) -> Result<IscsiSession, OpenError> {
        let (socket, address) = reach(ring, &target.host, target.port).await?;
        let (socket, logged_in) = match login::login(ring, &socket, target, options, chap::OFFER).await {
            Err(LoginError::Refused { .. }) if target.chap.is_some() => {
                let socket = connect(ring, address).await?;
                let logged_in = login::login(ring, &socket, target, options, chap::PLAIN_OFFER).await?;
                (socket, logged_in)
            }
            first => (socket, first?),
        };
        let inner = Inner::start(ring, socket, logged_in, Lun::from_index(target.lun), options.timeout);
        let geometry =
            Geometry { block_size: 0, physical_block_size: 0, size: 0, maximum_transfer: 0, discard: false };
        let mut owner = Owner {
            ring: ring.clone(),
            inner,
            geometry,
            limits: BlockLimits::default(),
            timeout: options.timeout,
            retries: Cell::new(0),
        };
        owner.learn().await?;
        Ok(IscsiSession(Rc::new(owner)))
    }

    /// What the unit is like.
    pub fn geometry(&self) -> Geometry {
        self.0.geometry
    }

    /// What was agreed in the login.
    pub fn parameters(&self) -> Parameters {
        self.0.inner.parameters
    }

    /// Commands that were sent again.
    pub fn retries(&self) -> u64 {
        self.0.retries.get()
    }

    /// See [`super::Session::room`].
    pub fn room(&self) -> u32 {
        self.0.inner.room()
    }

    /// Why the connection is gone, if it is.
    pub fn lost(&self) -> Option<String> {
        self.0.inner.lost().map(|reason| reason.to_string())
    }

    /// See [`super::Session::heard`].
    pub fn heard(&self) -> Instant {
        self.0.inner.table().heard
    }

    /// READ(10) or READ(16).
    pub async fn read(&self, offset: u64, buffer: Buffer) -> (Result<(), IoError>, Buffer) {
        let wanted = buffer.len();
        let cdb = read_cdb(self.0.range(offset, wanted as u64, false));
        let (result, _, buffer) = self.0.retried("READ", cdb, Transfer::In(buffer)).await.parts();
        (whole(result, wanted), buffer)
    }

    /// See [`super::Session::read_unseen`].
    pub fn read_unseen(&self, offset: u64, length: usize) -> Operation<'_> {
        let cdb = read_cdb(self.0.range(offset, length as u64, false));
        Operation::iscsi(&self.0, self.0.inner.command("READ", cdb, Transfer::Unseen(length)))
    }

    /// WRITE(10) or WRITE(16).
    pub fn write(&self, offset: u64, data: Shared, fua: bool) -> Operation<'_> {
        let range = self.0.range(offset, data.len() as u64, fua);
        let cdb = encode::write_10(range).unwrap_or_else(|| encode::write_16(range)).padded();
        Operation::iscsi(&self.0, self.0.inner.command("WRITE", cdb, Transfer::Out(data)))
    }

    /// SYNCHRONIZE CACHE of the whole unit.
    pub async fn flush(&self) -> Result<(), IoError> {
        let cdb = encode::synchronize_cache_16(0, 0).padded();
        self.0.retried("SYNCHRONIZE CACHE", cdb, Transfer::Nothing).await.result.map(|_| ())
    }

    /// UNMAP, in as many commands as the unit's limits ask for.
    pub async fn discard(&self, offset: u64, length: u64) -> Result<(), IoError> {
        if !self.0.geometry.discard {
            return Err(Cause::Unsupported("UNMAP").into());
        }
        let block_size = u64::from(self.0.geometry.block_size);
        let mut lba = offset / block_size;
        let end = (offset + length) / block_size;
        while lba < end {
            let blocks = (end - lba).min(u64::from(self.0.limits.maximum_unmap)) as u32;
            let mut list = Vec::new();
            unmap::encode(&[BlockDescriptor { lba, blocks }], &mut list);
            let cdb = encode::unmap(list.len() as u16).padded();
            let transfer = Transfer::Out(Buffer::copy_of(&list).share());
            self.0.retried("UNMAP", cdb, transfer).await.result?;
            lba += u64::from(blocks);
        }
        Ok(())
    }

    /// WRITE SAME(16): the one block of `data` over `length` bytes.
    pub async fn write_same(&self, offset: u64, length: u64, data: Shared) -> Result<(), IoError> {
        let Range { lba, blocks, .. } = self.0.range(offset, length, false);
        let cdb = encode::write_same_16(WriteSame { lba, blocks, unmap: false, ndob: false }).padded();
        self.0.retried("WRITE SAME", cdb, Transfer::Out(data)).await.result.map(|_| ())
    }

    /// Any command, without retries: the status of the device server is the result, bytes moved its value.
    pub async fn raw(&self, cdb: [u8; 16], input: Buffer, output: Shared) -> (Result<u32, IoError>, Buffer) {
        let transfer = match (input.is_empty(), output.is_empty()) {
            (false, _) => Transfer::In(input),
            (true, false) => Transfer::Out(output),
            (true, true) => Transfer::Nothing,
        };
        let (result, _, buffer) = self.0.inner.command("command", cdb, transfer).await.parts();
        (result.map(|moved| moved as u32), buffer)
    }

    /// Sends a read and does not wait for it.
    pub fn begin_read(&self, offset: u64, buffer: Buffer) -> Outstanding {
        let range = self.0.range(offset, buffer.len() as u64, false);
        Outstanding(self.0.inner.command("READ", encode::read_16(range).padded(), Transfer::In(buffer)))
    }

    /// Sends a write and does not wait for it.
    pub fn begin_write(&self, offset: u64, data: Shared) -> Outstanding {
        let range = self.0.range(offset, data.len() as u64, false);
        Outstanding(self.0.inner.command("WRITE", encode::write_16(range).padded(), Transfer::Out(data)))
    }

    /// Sends any command that sends data, and does not wait for it.
    pub fn begin(&self, cdb: [u8; 16], data: Shared) -> Outstanding {
        Outstanding(self.0.inner.command("command", cdb, Transfer::Out(data)))
    }

    /// The reactor that it lives on.
    pub fn ring(&self) -> &Ring {
        &self.0.ring
    }

    /// ABORT TASK. An aborted command has no answer of its own: drop it after FUNCTION COMPLETE.
    pub async fn abort(&self, command: &Outstanding) -> Result<TaskManagementResponseCode, IoError> {
        self.manage(TaskManagementFunction::ABORT_TASK, Some(command.0.tag())).await
    }

    /// LOGICAL UNIT RESET.
    pub async fn reset_unit(&self) -> Result<TaskManagementResponseCode, IoError> {
        self.manage(TaskManagementFunction::LOGICAL_UNIT_RESET, None).await
    }

    async fn manage(
        &self,
        function: TaskManagementFunction,
        referenced: Option<u32>,
    ) -> Result<TaskManagementResponseCode, IoError> {
        let finished = self.0.inner.task_management(function, referenced).await;
        finished.result.map(|code| TaskManagementResponseCode(code as u8))
    }

    /// Closes the session. Errors do not matter any more.
    pub async fn logout(&self) {
        let inner = &self.0.inner;
        if inner.lost().is_none() {
            self.0.ring.timeout(LOGOUT_PATIENCE, inner.logout()).await;
        }
        inner.fail("the session was closed");
    }
}

/// What a command has met so far.
#[derive(Default)]
struct Patience {
    attentions: u32,
    busy_since: Option<Instant>,
}

impl operation::Owner for Owner {
    type Connection = Inner;

    async fn again(&self, mut finished: Finished<Asked>) -> Result<(), IoError> {
        let wanted = finished.transfer.length();
        if self.repeats(&finished, &mut Patience::default()).await
            && let Request::Scsi(cdb) = finished.request.request
        {
            finished = self.retried(finished.request.name, cdb, finished.transfer).await;
        }
        whole(finished.result, wanted)
    }
}

impl Owner {
    fn range(&self, offset: u64, length: u64, fua: bool) -> Range {
        let block_size = u64::from(self.geometry.block_size);
        Range { lba: offset / block_size, blocks: (length / block_size) as u32, dpo: false, fua }
    }

    /// Sends a command until it ended for good: unit attentions and a busy target are met by trying again.
    async fn retried(&self, name: &'static str, cdb: [u8; 16], mut transfer: Transfer) -> Finished<Asked> {
        let mut patience = Patience::default();
        loop {
            let finished = self.inner.command(name, cdb, transfer).await;
            if !self.repeats(&finished, &mut patience).await {
                return finished;
            }
            transfer = finished.transfer;
        }
    }

    /// Whether a command is to be sent again, once it may be.
    async fn repeats(&self, finished: &Finished<Asked>, patience: &mut Patience) -> bool {
        let Err(error) = &finished.result else { return false };
        let Cause::Scsi { status, sense } = error.cause() else { return false };
        let attention = sense.is_some_and(|sense| sense.key == SenseKey::UnitAttention);
        let busy = [Status::Busy as u8, Status::TaskSetFull as u8].contains(status);
        let now = self.ring.now();
        if attention && patience.attentions < MAX_ATTENTIONS {
            patience.attentions += 1;
        } else if busy && now.since(*patience.busy_since.get_or_insert(now)) < self.timeout {
            self.ring.sleep(BUSY_PAUSE).await;
        } else {
            return false;
        }
        self.retries.set(self.retries.get() + 1);
        true
    }

    /// The first commands of a session.
    async fn learn(&mut self) -> Result<(), OpenError> {
        let start = |command| move |source| OpenError::Start { command, source };
        let input = |length: usize| Transfer::In(Buffer::zeroed(length));
        let cdb = encode::inquiry(None, STANDARD_LENGTH as u16).padded();
        let (result, _, buffer) = self.retried("INQUIRY", cdb, input(STANDARD_LENGTH)).await.parts();
        let length = result.map_err(start("INQUIRY"))? as usize;
        let summary = StandardSummary::decode(&buffer[..length.min(buffer.len())]);
        if !summary.is_some_and(|summary| summary.qualifier == 0 && summary.device_type == 0) {
            return Err(OpenError::Unusable(
                "there is no disk at this logical unit number; hint: the first one is 0, with tgt 1"
                    .to_owned(),
            ));
        }
        let cdb = encode::test_unit_ready().padded();
        let ready = self.retried("TEST UNIT READY", cdb, Transfer::Nothing).await;
        ready.result.map_err(start("TEST UNIT READY"))?;
        let cdb = encode::read_capacity_16(CAPACITY_16_LENGTH as u32).padded();
        let (result, _, buffer) = self.retried("READ CAPACITY", cdb, input(CAPACITY_16_LENGTH)).await.parts();
        let length = result.map_err(start("READ CAPACITY"))? as usize;
        let capacity = Capacity::decode_16(&buffer[..length.min(buffer.len())]).filter(|capacity| {
            let size = capacity.block_size;
            size.is_power_of_two() && (512..=1 << 16).contains(&size)
        });
        let size = capacity.and_then(|capacity| capacity.blocks.checked_mul(u64::from(capacity.block_size)));
        let (Some(capacity), Some(size)) = (capacity, size) else {
            return Err(OpenError::Unusable("the answer to READ CAPACITY makes no sense".to_owned()));
        };
        self.limits = self.block_limits().await;
        // A unit attention for the new session is usual and says nothing about the load.
        self.retries.set(0);
        let most = match self.limits.maximum_transfer {
            0 => ring::LARGEST as u32,
            blocks => blocks.saturating_mul(capacity.block_size).min(ring::LARGEST as u32),
        };
        self.geometry = Geometry {
            block_size: capacity.block_size,
            physical_block_size: capacity.block_size << capacity.physical_exponent.min(8),
            size,
            maximum_transfer: most,
            discard: capacity.provisioning
                && self.limits.maximum_unmap > 0
                && self.limits.maximum_unmap_descriptors > 0,
        };
        Ok(())
    }

    /// Page B0h; a unit without it has no limits.
    async fn block_limits(&self) -> BlockLimits {
        let page = Some(inquiry::page::BLOCK_LIMITS);
        let cdb = encode::inquiry(page, BLOCK_LIMITS_LENGTH as u16).padded();
        let input = Transfer::In(Buffer::zeroed(BLOCK_LIMITS_LENGTH));
        let (result, _, buffer) = self.retried("INQUIRY", cdb, input).await.parts();
        let length = result.map_or(0, |length| length as usize);
        BlockLimits::decode(&buffer[..length.min(buffer.len())]).unwrap_or_default()
    }
}

fn read_cdb(range: Range) -> [u8; 16] {
    encode::read_10(range).unwrap_or_else(|| encode::read_16(range)).padded()
}

fn whole(result: Result<u64, IoError>, wanted: usize) -> Result<(), IoError> {
    match result? {
        moved if moved == wanted as u64 => Ok(()),
        moved => Err(Cause::Short { moved, wanted: wanted as u64 }.into()),
    }
}
