//! Our own NVMe/TCP host: an admin queue and one I/O queue a session, each a connection.

mod connect;
mod controller;
mod outbox;
mod queue;
mod receive;

#[cfg(test)]
mod tests;

use std::cell::Cell;
use std::future::ready;
use std::rc::Rc;
use std::time::Duration;

use ring::{Buffer, Instant, Ring, Shared};
use wire::nvme::Status;
use wire::nvme::admin::Abort;
use wire::nvme::admin::features::{Feature, SetFeatures};
use wire::nvme::admin::identify::OptionalCommands;
use wire::nvme::command::{Command, Fuse, SglDescriptor};
use wire::nvme::io::{
    self, BlockRange, DatasetAttributes, DatasetManagement, DatasetRange, Opcode, RangeFlags,
};

pub use connect::ConnectError;

use super::operation::{self, Operation};
use super::table::{Connection, Finished, Pending, Transfer};
use super::{Cause, Geometry, IoError, OpenError, OpenOptions};
use crate::target::NvmeTarget;
use controller::Facts;
use queue::Asked;
pub(super) use queue::Queue;

/// Pause before a command that may be repeated is sent again.
const RETRY_PAUSE: Duration = Duration::from_millis(1);
/// How long the shutdown may take.
const SHUTDOWN_PATIENCE: Duration = Duration::from_secs(5);
/// Most blocks of one command: NLB has 16 bits.
const MAX_BLOCKS: u64 = 1 << 16;

/// A session with one namespace. Clones share it; when the last one goes, so do the connections.
#[derive(Clone)]
pub struct NvmeSession(Rc<Owner>);

pub(super) struct Owner {
    ring: Ring,
    admin: Rc<Queue>,
    queue: Rc<Queue>,
    nsid: u32,
    geometry: Geometry,
    facts: Facts,
    timeout: Duration,
    retries: Cell<u64>,
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.queue.fail("the session was dropped");
        self.admin.fail("the session was dropped");
    }
}

/// A command that was sent and whose end nobody has waited for yet.
pub struct Outstanding(Pending<Queue>);

impl Outstanding {
    /// Waits for its end: the completion's dwords 0 and 1; the buffer of a read comes back.
    pub async fn end(self) -> (Result<u64, IoError>, Buffer) {
        let (result, _, buffer) = self.0.await.parts();
        (result, buffer)
    }
}

impl NvmeSession {
    /// Connects the admin queue, enables the controller, asks what it and the namespace are like, and connects an
    /// I/O queue for as many commands as the options say.
    pub(super) async fn open(
        ring: &Ring,
        target: &NvmeTarget,
        options: &OpenOptions,
    ) -> Result<NvmeSession, OpenError> {
        let opened = controller::open(ring, target, options).await?;
        Ok(NvmeSession(Rc::new(Owner {
            ring: ring.clone(),
            admin: opened.admin,
            queue: opened.queue,
            nsid: target.nsid,
            geometry: opened.geometry,
            facts: opened.facts,
            timeout: options.timeout,
            retries: Cell::new(0),
        })))
    }

    /// What the namespace is like.
    pub fn geometry(&self) -> Geometry {
        self.0.geometry
    }

    /// The namespace.
    pub fn nsid(&self) -> u32 {
        self.0.nsid
    }

    /// The reactor on which it lives.
    pub fn ring(&self) -> &Ring {
        &self.0.ring
    }

    /// Commands that were sent again.
    pub fn retries(&self) -> u64 {
        self.0.retries.get()
    }

    /// See [`super::Session::room`].
    pub fn room(&self) -> u32 {
        self.0.queue.limit() as u32
    }

    /// Why the connection is gone, if it is.
    pub fn lost(&self) -> Option<String> {
        self.0.queue.lost().map(|reason| reason.to_string())
    }

    /// Bytes that go along with a command on the I/O queue.
    pub fn in_capsule(&self) -> u32 {
        self.0.facts.in_capsule
    }

    /// See [`super::Session::heard`].
    pub fn heard(&self) -> Instant {
        self.0.queue.table().heard
    }

    /// Read.
    pub async fn read(&self, offset: u64, buffer: Buffer) -> (Result<(), IoError>, Buffer) {
        let wanted = buffer.len();
        let command = match self.0.range(Opcode::READ, offset, wanted as u64, RangeFlags::empty()) {
            Ok(command) => command,
            Err(error) => return (Err(error), buffer),
        };
        let finished = self.0.retried("Read", command, Transfer::In(buffer)).await;
        let (result, received, buffer) = finished.parts();
        (whole(result, received, wanted), buffer)
    }

    /// See [`super::Session::read_unseen`].
    pub fn read_unseen(&self, offset: u64, length: usize) -> Operation<'_> {
        self.0.begin("Read", Opcode::READ, offset, RangeFlags::empty(), length, Transfer::Unseen(length))
    }

    /// Write.
    pub fn write(&self, offset: u64, data: Shared, fua: bool) -> Operation<'_> {
        let flags = if fua { RangeFlags::FORCE_UNIT_ACCESS } else { RangeFlags::empty() };
        self.0.begin("Write", Opcode::WRITE, offset, flags, data.len(), Transfer::Out(data))
    }

    /// Flush of the namespace.
    pub async fn flush(&self) -> Result<(), IoError> {
        let command = io::command(Opcode::FLUSH, 0, self.0.nsid);
        self.0.retried("Flush", command, Transfer::Nothing).await.result.map(|_| ())
    }

    /// Dataset Management with AD, in as many commands as the controller's limits ask for.
    pub async fn discard(&self, offset: u64, length: u64) -> Result<(), IoError> {
        if !self.0.geometry.discard {
            return Err(Cause::Unsupported("Dataset Management").into());
        }
        let block_size = u64::from(self.0.geometry.block_size);
        let mut slba = offset / block_size;
        let end = (offset + length) / block_size;
        while slba < end {
            let blocks = (end - slba).min(u64::from(self.0.facts.dataset_blocks)) as u32;
            let mut range = [0; DatasetRange::LENGTH];
            DatasetRange { attributes: 0, length: blocks, slba }.encode(&mut range);
            let command = DatasetManagement { nr: 0, attributes: DatasetAttributes::DEALLOCATE };
            let command = command.command(0, self.0.nsid, SglDescriptor::NOTHING);
            let transfer = Transfer::Out(Buffer::copy_of(&range).share());
            self.0.retried("Dataset Management", command, transfer).await.result?;
            slba += u64::from(blocks);
        }
        Ok(())
    }

    /// Write Zeroes; of the flags DEALLOCATE and FORCE_UNIT_ACCESS mean something.
    pub async fn write_zeroes(&self, offset: u64, length: u64, flags: RangeFlags) -> Result<(), IoError> {
        self.0.needs(OptionalCommands::WRITE_ZEROES, "Write Zeroes")?;
        let command = self.0.range(Opcode::WRITE_ZEROES, offset, length, flags)?;
        self.0.retried("Write Zeroes", command, Transfer::Nothing).await.result.map(|_| ())
    }

    /// Compare: a difference is the error COMPARE_FAILURE.
    pub async fn compare(&self, offset: u64, data: Shared) -> Result<(), IoError> {
        self.0.needs(OptionalCommands::COMPARE, "Compare")?;
        let command = self.0.range(Opcode::COMPARE, offset, data.len() as u64, RangeFlags::empty())?;
        self.0.retried("Compare", command, Transfer::Out(data)).await.result.map(|_| ())
    }

    /// Verify.
    pub async fn verify(&self, offset: u64, length: u64) -> Result<(), IoError> {
        self.0.needs(OptionalCommands::VERIFY, "Verify")?;
        let command = self.0.range(Opcode::VERIFY, offset, length, RangeFlags::empty())?;
        self.0.retried("Verify", command, Transfer::Nothing).await.result.map(|_| ())
    }

    /// Compare and Write, fused: the results of both. With `fua` what was written is on stable media.
    pub async fn compare_and_write(
        &self,
        offset: u64,
        expected: Shared,
        data: Shared,
        fua: bool,
    ) -> [Result<(), IoError>; 2] {
        let both = || -> Result<[Pending<Queue>; 2], IoError> {
            if !self.0.facts.fused || self.0.queue.limit() < 2 {
                return Err(Cause::Unsupported("the fused Compare and Write").into());
            }
            let none = RangeFlags::empty();
            let flags = if fua { RangeFlags::FORCE_UNIT_ACCESS } else { none };
            let mut first = self.0.range(Opcode::COMPARE, offset, expected.len() as u64, none)?;
            let mut second = self.0.range(Opcode::WRITE, offset, data.len() as u64, flags)?;
            first.flags = first.flags.with_fuse(Fuse::First);
            second.flags = second.flags.with_fuse(Fuse::Second);
            Ok(self
                .0
                .queue
                .pair([("Compare", first, Transfer::Out(expected)), ("Write", second, Transfer::Out(data))]))
        };
        match both() {
            Ok([first, second]) => [first.await.result.map(|_| ()), second.await.result.map(|_| ())],
            Err(error) => [Err(error.clone()), Err(error)],
        }
    }

    /// Any command on the I/O queue, without retries. CID and SGL1 are set here.
    pub async fn raw(
        &self,
        command: Command,
        input: Buffer,
        output: Shared,
    ) -> (Result<u64, IoError>, Buffer) {
        Outstanding(self.0.queue.command("command", command, either(input, output))).end().await
    }

    /// Any command on the admin queue, without retries. CID and SGL1 are set here.
    pub async fn raw_admin(
        &self,
        command: Command,
        input: Buffer,
        output: Shared,
    ) -> (Result<u64, IoError>, Buffer) {
        Outstanding(self.0.admin.command("admin command", command, either(input, output))).end().await
    }

    /// Sends a read and does not wait for it.
    pub fn begin_read(&self, offset: u64, buffer: Buffer) -> Result<Outstanding, IoError> {
        let command = self.0.range(Opcode::READ, offset, buffer.len() as u64, RangeFlags::empty())?;
        Ok(Outstanding(self.0.queue.command("Read", command, Transfer::In(buffer))))
    }

    /// Sends a write and does not wait for it.
    pub fn begin_write(&self, offset: u64, data: Shared) -> Result<Outstanding, IoError> {
        let command = self.0.range(Opcode::WRITE, offset, data.len() as u64, RangeFlags::empty())?;
        Ok(Outstanding(self.0.queue.command("Write", command, Transfer::Out(data))))
    }

    /// Sends an Asynchronous Event Request; it may wait for ever.
    pub fn begin_event_request(&self) -> Outstanding {
        Outstanding(self.0.admin.event_request())
    }

    /// Abort of a command on the I/O queue: whether it was aborted.
    pub async fn abort(&self, command: &Outstanding) -> Result<bool, IoError> {
        let abort = Abort { sqid: controller::IO_QUEUE, cid: command.0.cid() }.command(0);
        let finished = self.0.admin.command("Abort", abort, Transfer::Nothing).await;
        finished.result.map(Abort::was_aborted)
    }

    /// Switches the volatile write cache on or off, for this controller: Set Features.
    pub async fn set_write_cache(&self, on: bool) -> Result<(), IoError> {
        let feature = SetFeatures {
            feature: Feature::VOLATILE_WRITE_CACHE,
            value: u32::from(on),
            ..SetFeatures::default()
        };
        let command = feature.command(0, SglDescriptor::NOTHING);
        self.0.admin.command("Set Features", command, Transfer::Nothing).await.result.map(|_| ())
    }

    /// Controller Level Reset (Base 2.1 section 3.7.2), which ends the session: when it succeeds, no command of it is
    /// under way any more, whatever was heard of them.
    pub async fn reset(&self) -> Result<(), IoError> {
        let Owner { ring, admin, queue, facts, .. } = &*self.0;
        // The I/O connection ends before the reset is done.
        admin.part(queue);
        let result = controller::reset(ring, admin, facts.ready_time).await;
        queue.fail("the controller was reset");
        admin.fail("the controller was reset");
        result
    }

    /// Shuts the controller down and closes the connections. Errors do not matter any more.
    pub async fn shut_down(&self) {
        let Owner { ring, admin, queue, .. } = &*self.0;
        admin.leave();
        queue.leave();
        if admin.lost().is_none() {
            ring.timeout(SHUTDOWN_PATIENCE, controller::shut_down(ring, admin)).await;
        }
        queue.fail("the session was closed");
        admin.fail("the session was closed");
    }
}

fn either(input: Buffer, output: Shared) -> Transfer {
    match (input.is_empty(), output.is_empty()) {
        (false, _) => Transfer::In(input),
        (true, false) => Transfer::Out(output),
        (true, true) => Transfer::Nothing,
    }
}

impl Owner {
    fn range(&self, opcode: Opcode, offset: u64, length: u64, flags: RangeFlags) -> Result<Command, IoError> {
        let block_size = u64::from(self.geometry.block_size);
        let blocks = length / block_size;
        if blocks == 0 || blocks > MAX_BLOCKS {
            return Err(Cause::Unsupported("a command of no block, or of more than 65536").into());
        }
        let range = BlockRange { slba: offset / block_size, nlb: (blocks - 1) as u16, flags, dtype: 0 };
        Ok(range.command(opcode, 0, self.nsid, SglDescriptor::NOTHING))
    }

    fn begin(
        &self,
        name: &'static str,
        opcode: Opcode,
        offset: u64,
        flags: RangeFlags,
        length: usize,
        transfer: Transfer,
    ) -> Operation<'_> {
        match self.range(opcode, offset, length as u64, flags) {
            Ok(command) => Operation::nvme(self, self.queue.command(name, command, transfer)),
            Err(error) => Operation::later(ready(Err(error))),
        }
    }

    fn needs(&self, command: OptionalCommands, name: &'static str) -> Result<(), IoError> {
        if self.facts.commands.contains(command) { Ok(()) } else { Err(Cause::Unsupported(name).into()) }
    }

    /// Sends a command until it ended for good: what the controller asks to repeat is repeated.
    async fn retried(&self, name: &'static str, command: Command, mut transfer: Transfer) -> Finished<Asked> {
        let mut since = None::<Instant>;
        loop {
            let finished = self.queue.command(name, command, transfer).await;
            let now = self.ring.now();
            if !may_be_repeated(&finished) || now.since(*since.get_or_insert(now)) >= self.timeout {
                return finished;
            }
            self.ring.sleep(RETRY_PAUSE).await;
            self.retries.set(self.retries.get() + 1);
            transfer = finished.transfer;
        }
    }
}

impl operation::Owner for Owner {
    type Connection = Queue;

    async fn again(&self, mut finished: Finished<Asked>) -> Result<(), IoError> {
        let wanted = finished.transfer.expected();
        if may_be_repeated(&finished) {
            self.ring.sleep(RETRY_PAUSE).await;
            self.retries.set(self.retries.get() + 1);
            let Asked { name, command, .. } = finished.request;
            finished = self.retried(name, command, finished.transfer).await;
        }
        whole(finished.result, finished.received, wanted)
    }
}

/// Whether an end means "not now": repeating the command makes sense, and soon.
fn may_be_repeated(finished: &Finished<Asked>) -> bool {
    let Err(error) = &finished.result else { return false };
    let Cause::Nvme { status, .. } = error.cause() else { return false };
    let soon = [
        Status::COMMAND_INTERRUPTED,
        Status::TRANSIENT_TRANSPORT_ERROR,
        Status::NAMESPACE_NOT_READY,
        Status::ASYMMETRIC_ACCESS_TRANSITION,
    ];
    !status.is_final() && soon.contains(&status.plain())
}

fn whole(result: Result<u64, IoError>, moved: usize, wanted: usize) -> Result<(), IoError> {
    result?;
    if moved == wanted {
        return Ok(());
    }
    Err(Cause::Short { moved: moved as u64, wanted: wanted as u64 }.into())
}
