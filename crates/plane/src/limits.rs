//! Every bound of the data plane, in one place, each with its reason; asserted against each other.

use std::time::Duration;

/// Shards of one node. Beyond it a mailbox to every other shard costs more than it brings.
pub const SHARDS: usize = 64;

/// Bytes that one request moves: what is told to initiators as the maximum transfer length. VMware and Windows use
/// 4 MiB at most, Linux 8 MiB for block devices that allow it.
pub const TRANSFER_BYTES: usize = 8 << 20;

/// Bytes that COMPARE AND WRITE compares: two buffers of it are held while others wait. VMFS compares one block.
pub const COMPARE_BYTES: usize = 128 << 10;

/// Bytes of one internal write when a pattern or zeroes are spread over an extent.
pub const FILL_BYTES: usize = 1 << 20;

/// Largest extent whose memory is brought nearer before its request comes, in bytes: more would not stay near.
pub const EXPECTED_BYTES: u64 = 16 << 10;

/// Connections of one shard, all portals together. Each costs a few KiB while it is idle.
pub const CONNECTIONS_PER_SHARD: usize = 16_384;

/// Connections that have not logged in yet, or not ended their handshake, of one shard: garbage and port scans end
/// here.
pub const LOGINS_PER_SHARD: usize = 1024;

/// Time in which a login or handshake has to be complete. RFC 7143 section 7.11 leaves it to the target, NBD to the
/// server.
pub const LOGIN_TIME: Duration = Duration::from_secs(15);

/// Connections of one iSCSI session (`MaxConnections`).
pub const CONNECTIONS_PER_SESSION: u16 = 8;

/// Sessions of one node: the TSIH has 16 bits and 0 is reserved.
pub const SESSIONS: usize = 65_535;

/// Initiators that a core remembers the numbers of when they have gone.
pub const PAST_INITIATORS: usize = 1024;

/// Things that are noticed before anybody listens, and are kept.
pub const EARLY_NOTICES: usize = 256;

/// Commands that a session may have queued: `MaxCmdSN` - `ExpCmdSN` + 1 at rest. open-iscsi asks for 128 by default.
pub const COMMAND_WINDOW: u32 = 256;

/// Immediate commands and task management functions beyond the window.
pub const IMMEDIATE_COMMANDS: usize = 64;

/// The data segment of a PDU that we take (our `MaxRecvDataSegmentLength`).
pub const RECEIVE_DATA_SEGMENT_BYTES: usize = 256 << 10;

/// The data segment of a PDU that we send, whatever the initiator would take.
pub const SEND_DATA_SEGMENT_BYTES: usize = 1 << 20;

/// `MaxBurstLength` and `FirstBurstLength` that we accept.
pub const BURST_BYTES: usize = 1 << 20;

/// Data segment of login, text, NOP and other small PDUs. RFC 7143 section 13.12: 8192 until negotiated.
pub const TEXT_SEGMENT_BYTES: usize = 64 << 10;

/// Text of one login response: the default `MaxRecvDataSegmentLength`, which holds until full-feature phase.
pub const LOGIN_RESPONSE_BYTES: usize = 8192;

/// Text that a login or text request may spread over PDUs with the C bit. Real ones stay below 2 KiB.
pub const REQUEST_TEXT_BYTES: usize = 64 << 10;

/// Pairs of one login or text request. The standard has 35 keys.
pub const REQUEST_PAIRS: usize = 256;

/// Requests of one login. Mutual CHAP with a text in parts needs about a dozen.
pub const LOGIN_EXCHANGES: u32 = 32;

/// The answer to one `SendTargets`: about ten thousand targets with a portal each.
pub const TEXT_ANSWER_BYTES: usize = 1 << 20;

/// Request buffers of one shard: then all its commands wait. Tests use all of it up, and should not need a machine
/// for themselves.
pub const BUFFER_BYTES_PER_SHARD: usize = if cfg!(test) { 64 << 20 } else { 1 << 30 };

/// Answers waiting to be sent on one connection, those that are being read included; beyond it no further command of
/// it is begun.
pub const SEND_QUEUE_BYTES: usize = 8 << 20;

/// Answers waiting to be sent on one connection at which nothing more is received from it. Commands alone never get
/// there: it is for pings, text and refusals, which wait for nothing.
pub const ANSWER_QUEUE_BYTES: usize = 32 << 20;

/// Time in which a peer has to take some of what we send.
pub const SEND_STALL: Duration = Duration::from_secs(30);

/// Time in which a peer that has begun a request has to send some more of it: where we have no pings to ask it with, and where
/// pings do not tell, as it answers them and owes the data of a write.
pub const RECEIVE_STALL: Duration = Duration::from_secs(30);

/// Time that unasked data of an iSCSI write waits for memory before its command is refused, to be repeated. Short: what is behind
/// it on its connection may be the data for which memory is held.
pub const ISCSI_MEMORY_TIME: Duration = Duration::from_millis(100);

/// NVMe controllers of one node: each has an admin queue and its state.
pub const CONTROLLERS: usize = 16_384;

/// NVMe controllers of one subsystem, or of the discovery service: no subsystem takes the others' places.
pub const CONTROLLERS_PER_SUBSYSTEM: usize = 4096;

/// NVMe controllers of one subsystem that one host has: one for each path, and those of lost paths that still wait for
/// their commands to end.
pub const CONTROLLERS_PER_HOST: usize = 64;

/// Namespaces of one NVMe subsystem, and the highest NSID: what one list of Identify shows.
pub const NVME_NAMESPACES: u32 = 1024;

/// Time in which an NVMe controller that is reset or shut down has to end its commands; afterwards it reports a fatal
/// status. Below what CAP.TO tells hosts to wait.
pub const NVME_RESET_TIME: Duration = Duration::from_secs(20);

/// Time that data in an NVMe capsule waits for memory before its command is refused, to be repeated: hosts give a
/// command 30 seconds, and Linux repeats a refused one five times.
pub const NVME_MEMORY_TIME: Duration = Duration::from_secs(10);

/// I/O queues of one NVMe controller; hosts make one per core.
pub const NVME_QUEUES: u16 = 128;

/// Entries of an NVMe queue (CAP.MQES + 1).
pub const NVME_QUEUE_ENTRIES: u16 = 1024;

/// Data within an NVMe I/O capsule (IOCCSZ): as much as an iSCSI command may bring. Writes up to this need no R2T, which
/// costs a round trip. Its buffer is taken when the capsule comes, as that of data asked for is.
pub const NVME_IN_CAPSULE: u32 = RECEIVE_DATA_SEGMENT_BYTES as u32;

/// Data of one H2CData PDU (MAXH2CDATA).
pub const NVME_MAXH2CDATA: u32 = 1 << 20;

/// Asynchronous Event Requests of one controller (AERL + 1).
pub const NVME_EVENT_REQUESTS: usize = 4;

/// Entries of the error log page of one controller (ELPE + 1).
pub const NVME_ERROR_ENTRIES: usize = 16;

/// Bytes that one NVMe Copy moves: it holds a place in the queue for its time.
pub const COPY_BYTES: usize = 64 << 20;

/// Log lines per second about one kind of trouble with peers; the rest is counted.
pub const LOG_LINES_PER_SECOND: u32 = 20;

/// Time for requests in flight to end when the node stops.
pub const DRAIN_TIME: Duration = Duration::from_secs(20);

/// Logical blocks of one WRITE SAME: as many as WRITE SAME(10) can name. A pattern is written out, so this bounds how
/// long one command keeps a task busy.
pub const WRITE_SAME_BLOCKS: u32 = 65_535;

/// Logical blocks of one UNMAP, over all its descriptors. Initiators split what is larger.
pub const UNMAP_BLOCKS: u32 = 1 << 20;

/// Descriptors of one UNMAP.
pub const UNMAP_DESCRIPTORS: u32 = 256;

/// A SCSI parameter list that is not data: the longest UNMAP list.
pub const PARAMETER_LIST_BYTES: u32 = 8 + 16 * UNMAP_DESCRIPTORS;

/// Descriptors of one GET LBA STATUS answer.
pub const LBA_STATUS_RUNS: usize = 32;

/// Bytes that one GET LBA STATUS looks at: looking keeps the core busy.
pub const LBA_STATUS_BYTES: u64 = 256 << 20;

/// The longest payload of NBD, advertised as maximum block size: what clients assume that do not ask.
pub const NBD_PAYLOAD_BYTES: usize = 32 << 20;

/// The longest payload that is taken and forgotten so that its request can be refused; beyond it the connection ends.
pub const NBD_SKIP_BYTES: usize = 2 * NBD_PAYLOAD_BYTES;

/// Requests in flight of one NBD connection. Clients keep a few hundred at most; the kernel 128 per connection.
pub const NBD_REQUESTS: u32 = 1024;

/// Buffers of requests in flight of one NBD connection; the next request waits. One of the longest is let through.
pub const NBD_BYTES_IN_FLIGHT: usize = 32 << 20;

/// Options of one handshake. `qemu-nbd --list` asks two for every export over one connection.
pub const NBD_OPTIONS: u32 = 32_768;

/// Data of one option: a name of 4096 bytes and a dozen queries of as many.
pub const NBD_OPTION_BYTES: usize = 64 << 10;

/// Data of an option that is taken and forgotten so that it can be refused.
pub const NBD_OPTION_SKIP_BYTES: usize = 1 << 20;

/// A read from here on is looked at for holes first; below it looking costs more than it saves.
pub const NBD_SPARSE_READ_BYTES: u32 = 64 << 10;

/// Chunks of one read with holes; what is left after them is one chunk of data.
pub const NBD_READ_CHUNKS: u32 = 16;

/// Runs of one block status answer: as many as fit a page.
pub const NBD_STATUS_RUNS: usize = 511;

/// Bytes that one block status looks at: looking keeps the core busy.
pub const NBD_STATUS_BYTES: u64 = 1 << 30;

/// Bytes that are trimmed or zeroed at a time, so that others get their turn in between.
pub const NBD_ZERO_BYTES: u64 = 64 << 20;

/// Bytes of a volume on a pool that are given back at a time when it is deleted: what comes meanwhile waits for one of them.
/// Fewer in tests, so that their small volumes have several of them.
pub const ERASE_BYTES: u64 = if cfg!(test) { 128 << 10 } else { 16 << 20 };

/// So long is waited for the end of it; what takes longer goes on in the background.
pub const DESTROY_MOMENT: Duration = Duration::from_secs(5);

/// Locks of rows of one pool; rows that are a multiple of it apart share one. More of them cost memory, fewer make
/// writes wait for one another that have nothing in common.
pub const POOL_ROW_LOCKS: usize = 4096;

/// Bytes that one transaction of a pool's journal brings to one member: more would make small writes wait long.
pub const POOL_TRANSACTION_BYTES: usize = 4 << 20;

/// Time in which a member of a pool has to answer a request. Disks try for 7 to 30 seconds before they give an error;
/// initiators give a command 30 seconds.
pub const POOL_MEMBER_STALL: Duration = Duration::from_secs(15);

/// Time in which a pool has to be closed at the end of the process: one member may stall meanwhile. What is not closed is
/// recovered at the next start.
pub const POOL_CLOSE_TIME: Duration = Duration::from_secs(20);

/// How long a member that is missing at the start is waited for before a spare takes its place: disks that come up late.
pub const POOL_SPARE_GRACE: Duration = Duration::from_secs(120);

/// Time over which the members of a pool are held against one another, and how often it is looked for work for spares.
pub const POOL_WATCH: Duration = Duration::from_secs(10);

/// So many times longer than its siblings a member takes that is slow.
pub const POOL_SLOW_FACTOR: u64 = 4;

/// No member is slow that takes less than this: nobody would notice.
pub const POOL_SLOW_LEAST: Duration = Duration::from_micros(500);

/// Reads or writes in a window below which it says nothing.
pub const POOL_SLOW_REQUESTS: u64 = 16;

/// Windows in a row after which a member counts as slow, or as well again.
pub const POOL_SLOW_WINDOWS: u32 = 3;

/// Bytes a second that scrubbing and rebuilding do at least beside a load, all members together: a pool that is never idle
/// has its redundancy back some day.
pub const POOL_BACKGROUND_FLOOR: u64 = 16 << 20;

/// Bytes a second that scrubbing and rebuilding do at most.
pub const POOL_BACKGROUND_CEILING: u64 = 4 << 30;

const _: () = {
    assert!(POOL_CLOSE_TIME.as_secs() > POOL_MEMBER_STALL.as_secs());
    assert!(POOL_BACKGROUND_FLOOR < POOL_BACKGROUND_CEILING);
    assert!(POOL_TRANSACTION_BYTES <= TRANSFER_BYTES);
    assert!(NBD_PAYLOAD_BYTES <= ring::LARGEST, "a payload fits a buffer");
    assert!(NBD_PAYLOAD_BYTES * 2 <= BUFFER_BYTES_PER_SHARD, "one payload is always let through");
    assert!(NBD_SKIP_BYTES <= u32::MAX as usize, "lengths of requests have 32 bits");
    assert!(NBD_STATUS_BYTES <= u32::MAX as u64, "lengths of runs have 32 bits");
    assert!(TRANSFER_BYTES <= ring::LARGEST, "a transfer fits a buffer");
    assert!(FILL_BYTES <= TRANSFER_BYTES);
    assert!(COMPARE_BYTES * 2 <= TRANSFER_BYTES);
    assert!(PARAMETER_LIST_BYTES <= u16::MAX as u32, "the field of the CDB has 16 bits");
    assert!(TRANSFER_BYTES <= u32::MAX as usize, "lengths of CDBs have 32 bits");
    assert!(TRANSFER_BYTES * 2 <= BUFFER_BYTES_PER_SHARD, "one transfer is always let through");
    assert!(SEND_QUEUE_BYTES + TRANSFER_BYTES < ANSWER_QUEUE_BYTES, "reads do not stop what comes");
    assert!(LOGINS_PER_SHARD <= CONNECTIONS_PER_SHARD);
    assert!(RECEIVE_DATA_SEGMENT_BYTES < 1 << 24, "DataSegmentLength has 24 bits");
    assert!(SEND_DATA_SEGMENT_BYTES < 1 << 24);
    assert!(BURST_BYTES <= TRANSFER_BYTES);
    assert!(TEXT_SEGMENT_BYTES <= REQUEST_TEXT_BYTES, "one text PDU is a whole text");
    assert!(LOGIN_RESPONSE_BYTES <= REQUEST_TEXT_BYTES && REQUEST_TEXT_BYTES <= TEXT_ANSWER_BYTES);
    assert!(RECEIVE_DATA_SEGMENT_BYTES <= BURST_BYTES, "a first burst fits a burst");
    assert!(LOGIN_TIME.as_secs() < SEND_STALL.as_secs() * 2);
    assert!(CONTROLLERS_PER_HOST <= CONTROLLERS_PER_SUBSYSTEM && CONTROLLERS_PER_SUBSYSTEM <= CONTROLLERS);
    assert!(CONTROLLERS < 0xffef, "identifiers of controllers have 16 bits, and some are reserved");
    assert!(NVME_MEMORY_TIME.as_secs() < NVME_RESET_TIME.as_secs());
};
