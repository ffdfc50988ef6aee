//! I/O commands: NVM Command Set 1.1 section 3.3, carried out on the volumes.

use std::rc::Rc;
use std::sync::atomic::Ordering;

use ring::{Buffer, Soon};
use wire::nvme::io::{
    BlockRange, Copy, CopyRange, CopyRanges, DatasetAttributes, DatasetManagement, DatasetRange,
    DatasetRanges, Opcode, RangeFlags,
};
use wire::nvme::{Command, DataPlace, Fuse, NSID_ALL, Status, fabrics};

use super::connection::Outcome;
use super::errors::status_of;
use super::queue::{Namespaces, Queue};
use crate::limits::{COMPARE_BYTES, COPY_BYTES, FILL_BYTES, TRANSFER_BYTES};
use crate::memory_gate::wait_for_memory;
use crate::request::{Extent, Flags, Request, Verb};
use crate::volume::Channel;

/// The namespaces of a queue, by NSID from 1 on; a gap is a namespace that was taken away.
pub type Channels = [Option<Rc<Channel>>];

/// The namespace a command is for.
fn channel(channels: &Channels, nsid: u32) -> Result<&Rc<Channel>, Status> {
    let index = usize::try_from(nsid).ok().and_then(|nsid| nsid.checked_sub(1));
    let channel = index.and_then(|index| channels.get(index)).and_then(Option::as_ref);
    channel.ok_or(Status::INVALID_NAMESPACE_OR_FORMAT.do_not_retry())
}

/// The bytes that a range of blocks names.
fn extent(channel: &Channel, slba: u64, blocks: u64) -> Result<Extent, Status> {
    let geometry = channel.geometry();
    match slba.checked_add(blocks) {
        Some(end) if end <= geometry.blocks => {
            let block_size = u64::from(geometry.block_size);
            Ok(Extent::new(slba * block_size, blocks * block_size))
        }
        _ => Err(Status::LBA_OUT_OF_RANGE.do_not_retry()),
    }
}

/// A command that will come. Only a hint.
pub fn expect(command: &Command, channels: &Channels, soon: Soon) {
    let verb = match Opcode(command.opcode) {
        Opcode::READ => Verb::Read,
        Opcode::WRITE => Verb::Write,
        _ => return,
    };
    if let Ok(channel) = channel(channels, command.nsid) {
        let range = BlockRange::of(command);
        if let Ok(extent) = extent(channel, range.slba, range.blocks().into()) {
            channel.expect(verb, extent, soon);
        }
    }
}

/// Whether a command is a Write to a volume that needs no copy of its data.
pub fn is_prompt_write(command: &Command, channels: &Channels) -> bool {
    Opcode(command.opcode) == Opcode::WRITE
        && channel(channels, command.nsid).is_ok_and(|channel| channel.is_prompt())
}

/// Whether a command waits for its turn within the limits of its volume.
pub fn is_limited(command: &Command, channels: &Channels) -> bool {
    channel(channels, command.nsid).is_ok_and(|channel| channel.is_limited())
}

/// Where a Read, or a Write with all of its data, of which `came` bytes came with it, goes to that may wait for nothing and
/// need no copy.
pub fn prompt<'a>(
    command: &Command,
    channels: &'a Channels,
    came: usize,
) -> Option<(&'a Channel, Verb, Extent)> {
    let opcode = Opcode(command.opcode);
    if !matches!(opcode, Opcode::READ | Opcode::WRITE) {
        return None;
    }
    let channel = channel(channels, command.nsid).ok().filter(|channel| channel.is_prompt())?;
    let (extent, _) = transfer(channel, command).ok()?;
    if u64::from(command.sgl.length) != extent.length {
        return None;
    }
    match (opcode, command.data_place(came as u32).ok()?) {
        (Opcode::READ, DataPlace::CommandBuffer { .. }) if came == 0 => Some((channel, Verb::Read, extent)),
        (Opcode::WRITE, DataPlace::InCapsule { offset: 0, .. }) => Some((channel, Verb::Write, extent)),
        _ => None,
    }
}

/// A range of a read, write or compare: it has to fit into one transfer (MDTS).
fn transfer(channel: &Channel, command: &Command) -> Result<(Extent, RangeFlags), Status> {
    let range = BlockRange::without_protection(command)?;
    let extent = extent(channel, range.slba, u64::from(range.blocks()))?;
    if extent.length > TRANSFER_BYTES as u64 {
        return Err(Status::INVALID_FIELD_IN_COMMAND.do_not_retry());
    }
    Ok((extent, range.flags))
}

/// Bytes that the host sends with a command; refuses what can be refused before they come.
pub fn output(command: &Command, channels: &Channels) -> Result<u32, Status> {
    if command.opcode == fabrics::OPCODE {
        return Ok(0);
    }
    let flushes_all = command.opcode == Opcode::FLUSH.0 && command.nsid == NSID_ALL;
    if flushes_all {
        return Ok(0);
    }
    let fused = command.fuse();
    let may_fuse = matches!(
        (fused, Opcode(command.opcode)),
        (Fuse::First, Opcode::COMPARE) | (Fuse::Second, Opcode::WRITE)
    );
    if fused != Fuse::Normal && !may_fuse {
        return Err(Status::INVALID_FIELD_IN_COMMAND.do_not_retry());
    }
    match Opcode(command.opcode) {
        Opcode::FLUSH => channel(channels, command.nsid).map(|_| 0),
        Opcode::READ => {
            let channel = channel(channels, command.nsid)?;
            let (extent, _) = transfer(channel, command)?;
            let length = u64::from(command.sgl.length);
            if length == extent.length { Ok(0) } else { Err(Status::DATA_SGL_LENGTH_INVALID.do_not_retry()) }
        }
        Opcode::WRITE | Opcode::COMPARE => {
            let channel = channel(channels, command.nsid)?;
            let (extent, _) = transfer(channel, command)?;
            if fused != Fuse::Normal && extent.length > COMPARE_BYTES as u64 {
                return Err(Status::ATOMIC_WRITE_UNIT_EXCEEDED.do_not_retry());
            }
            Ok(extent.length as u32)
        }
        Opcode::WRITE_ZEROES | Opcode::VERIFY => {
            let channel = channel(channels, command.nsid)?;
            let range = BlockRange::without_protection(command)?;
            extent(channel, range.slba, u64::from(range.blocks())).map(|_| 0)
        }
        Opcode::DATASET_MANAGEMENT => {
            channel(channels, command.nsid)?;
            Ok(DatasetManagement::of(command).data_length() as u32)
        }
        Opcode::COPY => {
            channel(channels, command.nsid)?;
            let copy = Copy::of(command)?;
            if copy.desfmt != 0 {
                return Err(Status::INVALID_FIELD_IN_COMMAND.do_not_retry());
            }
            Ok(copy.data_length() as u32)
        }
        _ => Err(Status::INVALID_COMMAND_OPCODE.do_not_retry()),
    }
}

/// Whether the blocks that a command names tell the length of its data.
pub fn is_counted_in_blocks(command: &Command) -> bool {
    matches!(Opcode(command.opcode), Opcode::READ | Opcode::WRITE | Opcode::COMPARE)
}

/// What a command is among the operations of a host; none of those that move no blocks of its own.
pub fn verb(command: &Command) -> Option<Verb> {
    match Opcode(command.opcode) {
        Opcode::READ => Some(Verb::Read),
        Opcode::WRITE => Some(Verb::Write),
        Opcode::FLUSH => Some(Verb::Flush),
        Opcode::DATASET_MANAGEMENT => Some(Verb::Discard),
        Opcode::WRITE_ZEROES => Some(Verb::WriteZeroes),
        _ => None,
    }
}

/// Bytes that the host gets from a command.
pub fn input(command: &Command) -> usize {
    if command.opcode == Opcode::READ.0 { command.sgl.length as usize } else { 0 }
}

/// Carries out a command that [`output`] has accepted; `data` is what the host sent.
pub async fn execute(queue: &Rc<Queue>, namespaces: &Namespaces, command: &Command, data: Buffer) -> Outcome {
    let channels = &*namespaces.now();
    let result = match Opcode(command.opcode) {
        Opcode(fabrics::OPCODE) => return super::controller::on_io_queue(command),
        Opcode::READ => read(channels, command).await,
        Opcode::WRITE => write(queue, channels, command, data).await,
        // Boxed, so that the future of a read or a write stays small; these are rare or long.
        _ => Box::pin(rarely(queue, namespaces, channels, command, data)).await,
    };
    match result {
        Ok(outcome) => {
            namespaces.counters.count(command.opcode, command.sgl.length);
            outcome
        }
        Err(status) => Outcome::failed(status),
    }
}

async fn rarely(
    queue: &Rc<Queue>,
    namespaces: &Namespaces,
    channels: &Channels,
    command: &Command,
    data: Buffer,
) -> Result<Outcome, Status> {
    match Opcode(command.opcode) {
        Opcode::FLUSH => flush(channels, command).await,
        Opcode::COMPARE => compare(channels, command, &data).await,
        Opcode::WRITE_ZEROES => write_zeroes(queue, channels, command).await,
        Opcode::DATASET_MANAGEMENT => dataset(queue, channels, command, &data).await,
        Opcode::VERIFY => {
            let bytes = verify(queue, channels, command).await?;
            namespaces.counters.count_verified(bytes);
            Ok(Outcome::done())
        }
        Opcode::COPY => copy(queue, channels, command, &data).await,
        _ => Err(Status::INVALID_COMMAND_OPCODE.do_not_retry()),
    }
}

async fn submit(channel: &Channel, request: Request, name: &str) -> Result<Buffer, Status> {
    let completion = channel.submit(request).await;
    match completion.result {
        Ok(()) => Ok(completion.buffer),
        Err(error) => Err(status_of(&error, name, channel.volume().name())),
    }
}

async fn read(channels: &Channels, command: &Command) -> Result<Outcome, Status> {
    let channel = channel(channels, command.nsid)?;
    let (extent, _) = transfer(channel, command)?;
    if let Some(data) = channel.lend(extent) {
        return Ok(Outcome::with_data(data));
    }
    let request = Request::read(extent.offset, Buffer::new(extent.length as usize));
    Ok(Outcome::with_data(submit(channel, request, "Read").await?.share()))
}

/// On stable media if the command says so, or if the host has switched the write cache off.
fn durability(queue: &Queue, channel: &Channel, flags: RangeFlags) -> Flags {
    let cached = channel.geometry().write_cache;
    let wanted =
        flags.contains(RangeFlags::FORCE_UNIT_ACCESS) || !queue.link.write_cache.load(Ordering::Acquire);
    if cached && wanted { Flags::FUA } else { Flags::empty() }
}

async fn write(
    queue: &Queue,
    channels: &Channels,
    command: &Command,
    data: Buffer,
) -> Result<Outcome, Status> {
    let channel = channel(channels, command.nsid)?;
    let (extent, flags) = transfer(channel, command)?;
    let request = Request::write(extent.offset, data).with(durability(queue, channel, flags));
    submit(channel, request, "Write").await?;
    Ok(Outcome::done())
}

/// A command of many steps ends with its queue: whoever waits for the end of the queue waits for one step.
fn goes_on(queue: &Queue) -> Result<(), Status> {
    if queue.is_open() { Ok(()) } else { Err(Status::COMMAND_ABORTED_DUE_TO_SQ_DELETION) }
}

async fn flush(channels: &Channels, command: &Command) -> Result<Outcome, Status> {
    if command.nsid == NSID_ALL {
        for channel in channels.iter().flatten() {
            submit(channel, Request::flush(), "Flush").await?;
        }
    } else {
        submit(channel(channels, command.nsid)?, Request::flush(), "Flush").await?;
    }
    Ok(Outcome::done())
}

async fn compare(channels: &Channels, command: &Command, expected: &Buffer) -> Result<Outcome, Status> {
    let channel = channel(channels, command.nsid)?;
    let (extent, _) = transfer(channel, command)?;
    let request = Request::read(extent.offset, Buffer::new(extent.length as usize));
    let found = submit(channel, request, "Compare").await?;
    if found[..] == expected[..] { Ok(Outcome::done()) } else { Err(Status::COMPARE_FAILURE.do_not_retry()) }
}

async fn write_zeroes(queue: &Queue, channels: &Channels, command: &Command) -> Result<Outcome, Status> {
    let channel = channel(channels, command.nsid)?;
    let range = BlockRange::without_protection(command)?;
    let extent = extent(channel, range.slba, u64::from(range.blocks()))?;
    let mut flags = durability(queue, channel, range.flags);
    let geometry = channel.geometry();
    if range.flags.contains(RangeFlags::DEALLOCATE) && geometry.discard && geometry.discard_zeroes {
        flags |= Flags::MAY_UNMAP;
    }
    submit(channel, Request::plain(Verb::WriteZeroes, extent).with(flags), "Write Zeroes").await?;
    Ok(Outcome::done())
}

async fn dataset(
    queue: &Queue,
    channels: &Channels,
    command: &Command,
    data: &Buffer,
) -> Result<Outcome, Status> {
    let channel = channel(channels, command.nsid)?;
    let management = DatasetManagement::of(command);
    let ranges = DatasetRanges::decode(data, management.ranges())?;
    // Everything is checked before anything is given back.
    let checked: Result<Vec<Extent>, Status> = ranges
        .iter()
        .filter(|range: &DatasetRange| range.length > 0)
        .map(|range| extent(channel, range.slba, u64::from(range.length)))
        .collect();
    let checked = checked?;
    if management.attributes.contains(DatasetAttributes::DEALLOCATE) && channel.geometry().discard {
        for extent in checked {
            goes_on(queue)?;
            submit(channel, Request::plain(Verb::Discard, extent), "Dataset Management").await?;
        }
    }
    // The other attributes are hints that nothing here could use.
    Ok(Outcome::done())
}

/// Reads what is to be verified; gives how many bytes that were.
async fn verify(queue: &Queue, channels: &Channels, command: &Command) -> Result<u64, Status> {
    let channel = channel(channels, command.nsid)?;
    let range = BlockRange::without_protection(command)?;
    let extent = extent(channel, range.slba, u64::from(range.blocks()))?;
    let mut done = 0;
    while done < extent.length {
        let length = (extent.length - done).min(FILL_BYTES as u64);
        wait_for_memory(queue.shard.ring(), length as usize, || queue.is_open()).await;
        goes_on(queue)?;
        let request = Request::read(extent.offset + done, Buffer::new(length as usize));
        submit(channel, request, "Verify").await?;
        done += length;
    }
    Ok(extent.length)
}

async fn copy(
    queue: &Queue,
    channels: &Channels,
    command: &Command,
    data: &Buffer,
) -> Result<Outcome, Status> {
    let channel = channel(channels, command.nsid)?;
    let copy = Copy::of(command)?;
    let ranges = CopyRanges::decode(data, copy.ranges())?;
    let blocks = |range: &CopyRange| u64::from(range.nlb) + 1;
    let total: u64 = ranges.iter().map(|range| blocks(&range)).sum();
    let target = extent(channel, copy.sdlba, total)?;
    if target.length > COPY_BYTES as u64 {
        return Err(Status::COMMAND_SIZE_LIMIT_EXCEEDED.do_not_retry());
    }
    let sources: Result<Vec<Extent>, Status> =
        ranges.iter().map(|range| extent(channel, range.slba, blocks(&range))).collect();
    let sources = sources?;
    if sources.iter().any(|source| source.overlaps(target)) {
        return Err(Status::OVERLAPPING_I_O_RANGE.do_not_retry());
    }
    let fua = if copy.force_unit_access { RangeFlags::FORCE_UNIT_ACCESS } else { RangeFlags::empty() };
    let flags = durability(queue, channel, fua);
    let mut at = target.offset;
    for source in sources {
        let mut done = 0;
        while done < source.length {
            let length = (source.length - done).min(FILL_BYTES as u64);
            wait_for_memory(queue.shard.ring(), length as usize, || queue.is_open()).await;
            goes_on(queue)?;
            let request = Request::read(source.offset + done, Buffer::new(length as usize));
            let data = submit(channel, request, "Copy").await?;
            submit(channel, Request::write(at, data).with(flags), "Copy").await?;
            done += length;
            at += length;
        }
    }
    Ok(Outcome::done())
}

/// Compare and Write as one: nobody sees anything between them.
pub async fn compare_and_write(
    queue: &Rc<Queue>,
    namespaces: &Namespaces,
    (compare, expected): (&Command, &Buffer),
    (write, data): (&Command, Buffer),
) -> (Outcome, Outcome) {
    match fused(queue, &namespaces.now(), (compare, expected), (write, data)).await {
        Ok(()) => {
            namespaces.counters.count(compare.opcode, compare.sgl.length);
            namespaces.counters.count(write.opcode, write.sgl.length);
            (Outcome::done(), Outcome::done())
        }
        Err(Half::First(status)) => {
            (Outcome::failed(status), Outcome::failed(Status::COMMAND_ABORTED_DUE_TO_FAILED_FUSED_COMMAND))
        }
        Err(Half::Second(status)) => (Outcome::done(), Outcome::failed(status)),
    }
}

enum Half {
    First(Status),
    Second(Status),
}

async fn fused(
    queue: &Rc<Queue>,
    channels: &Channels,
    (compare, expected): (&Command, &Buffer),
    (write, data): (&Command, Buffer),
) -> Result<(), Half> {
    let channel = channel(channels, compare.nsid).map_err(Half::First)?;
    let (extent, _) = transfer(channel, compare).map_err(Half::First)?;
    let (target, flags) = transfer(channel, write).map_err(Half::Second)?;
    if write.nsid != compare.nsid || target != extent {
        return Err(Half::First(Status::INVALID_FIELD_IN_COMMAND.do_not_retry()));
    }
    let name = channel.volume().name();
    let held = channel.exclusive(&queue.shard, extent).await;
    let read = held.submit(Request::read(extent.offset, Buffer::new(extent.length as usize))).await;
    if let Err(error) = read.result {
        return Err(Half::First(status_of(&error, "Compare", name)));
    }
    if read.buffer[..] != expected[..] {
        return Err(Half::First(Status::COMPARE_FAILURE.do_not_retry()));
    }
    let request = Request::write(extent.offset, data).with(durability(queue, channel, flags));
    let written = held.submit(request).await;
    written.result.map_err(|error| Half::Second(status_of(&error, "Write", name)))
}
