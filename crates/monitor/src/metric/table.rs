//! Every metric of a node.
//!
//! A row is all that has to be said of one; a collector refers to it by its name here. What has no sample is not shown
//! anywhere, so a row costs nothing until somebody measures it.

use super::definition::Group::{Initiator, Layer, Member, Pool, Portal, Process, Volume};
use super::definition::Kind::{Counter, Gauge, Histogram};
use super::definition::Unit::{Bytes, Celsius, Count, Ratio, Seconds, State};
use super::definition::{Family, Field, Munin};

/// Makes a static of each row, and the list of all.
macro_rules! families {
    ($($group:ident $kind:ident $unit:ident $row:ident $name:literal [$($label:literal),*] $title:literal, $help:literal
       $(, $munin:expr)?;)+) => {
        $(
            #[doc = $help]
            pub static $row: Family = Family {
                name: $name, help: $help, unit: $unit, kind: $kind, labels: &[$($label),*], title: $title,
                group: $group, munin: families!(@munin $($munin)?),
            };
        )+
        /// All of them, in the order in which they are shown.
        pub static ALL: &[&Family] = &[$(&$row),+];
    };
    (@munin) => { None };
    (@munin $munin:expr) => { Some(&$munin) };
}

/// What most graphs of Munin have in common.
const PLAIN: Munin = Munin {
    plugin: "",
    graph: "",
    category: "disk",
    axis: "",
    scale: 1.0,
    fields: &[],
    each: false,
    warning: None,
    critical: None,
};

/// A graph that is a plugin of its own.
const fn plugin(name: &'static str, category: &'static str, axis: &'static str) -> Munin {
    Munin { plugin: name, graph: name, category, axis, ..PLAIN }
}

/// A graph of the stock plugin `diskstats`: volumes in the place of disks.
const fn diskstats(graph: &'static str, axis: &'static str, fields: &'static [Field]) -> Munin {
    Munin { plugin: "diskstats", graph, axis, fields, each: true, ..PLAIN }
}

/// With limits in Munin's words.
const fn limited(graph: Munin, warning: Option<&'static str>, critical: Option<&'static str>) -> Munin {
    Munin { warning, critical, ..graph }
}

/// Of Munin's limits alarm is what is outside: these states are 0 when all is well, 1 when something is missing, 2 when
/// that is serious.
const fn state(name: &'static str) -> Munin {
    limited(plugin(name, "disk", "0 well, 1 not whole, 2 broken"), Some(":0"), Some(":1"))
}

const fn scaled(graph: Munin, scale: f64) -> Munin {
    Munin { scale, ..graph }
}

const READS_AND_WRITES: &[Field] =
    &[Field { verb: "read", name: "rdio" }, Field { verb: "write", name: "wrio" }];
const BYTES_READ_AND_WRITTEN: &[Field] =
    &[Field { verb: "read", name: "rdbytes" }, Field { verb: "write", name: "wrbytes" }];
const WAITS: &[Field] = &[Field { verb: "read", name: "rdwait" }, Field { verb: "write", name: "wrwait" }];

families! {
    // group kind unit, the row, its name, labels; title, help; Munin.
    Volume Counter Count VOLUME_OPERATIONS "fels_volume_operations_total" ["volume", "verb"] "Operations of volumes",
        "Operations that ended, well or not.", diskstats("diskstats_iops", "IOs/second", READS_AND_WRITES);
    Volume Counter Bytes VOLUME_BYTES "fels_volume_bytes_total" ["volume", "verb"] "Throughput of volumes",
        "Bytes that were read and written.", diskstats("diskstats_throughput", "Bytes/second", BYTES_READ_AND_WRITTEN);
    Volume Histogram Seconds VOLUME_LATENCY "fels_volume_latency_seconds" ["volume", "verb"] "Latency of volumes",
        "Time from a request to its answer.", diskstats("diskstats_latency", "Seconds", WAITS);
    Volume Gauge Count VOLUME_IN_FLIGHT "fels_volume_in_flight" ["volume"] "Queue of volumes",
        "Requests that are not answered yet.", plugin("volume_queue", "disk", "Requests");
    Volume Counter Count VOLUME_ERRORS "fels_volume_errors_total" ["volume"] "Errors of volumes",
        "Operations that ended with an error.", plugin("volume_errors", "disk", "Errors/second");
    Volume Counter Seconds VOLUME_BUSY "fels_volume_busy_seconds_total" ["volume"] "Utilisation of volumes",
        "Time in which something was in flight.",
        scaled(Munin { each: true, ..diskstats("diskstats_utilization", "% busy", &[]) }, 100.0);
    Volume Gauge Count VOLUME_SESSIONS "fels_volume_sessions" ["volume", "protocol"] "Sessions of volumes",
        "Sessions, controllers and connections that use the volume.", plugin("volume_sessions", "network", "Sessions");
    Volume Gauge Bytes VOLUME_CAPACITY "fels_volume_capacity_bytes" ["volume"] "Capacity of volumes",
        "Bytes that initiators see.";

    Layer Counter Seconds LAYER_TIME "fels_layer_time_seconds_total" ["volume", "layer"] "Time by layer",
        "Time that requests of the volume spent in the layer itself, without those below it.";
    Layer Gauge Ratio LAYER_SHARE "fels_layer_share_ratio" ["volume", "layer", "of"] "Share of layers",
        "Part of the time of requests that the layer has: of all of them (mean), or of the slowest hundredth (p99).";

    Portal Counter Count PORTAL_OPERATIONS "fels_portal_operations_total" ["protocol", "address", "verb"]
        "Operations of portals", "Operations of initiators that came in by the portal and ended, well or not.", Munin {
            fields: READS_AND_WRITES, ..plugin("portal_iops", "network", "IOs/second") };
    Portal Counter Bytes PORTAL_BYTES "fels_portal_bytes_total" ["protocol", "address", "verb"] "Throughput of portals",
        "Bytes that went through the portal.", Munin {
            fields: BYTES_READ_AND_WRITTEN, ..plugin("portal_throughput", "network", "Bytes/second") };
    Portal Histogram Seconds PORTAL_LATENCY "fels_portal_latency_seconds" ["protocol", "address", "verb"]
        "Latency of portals", "Time from an operation that came in by the portal to its answer.", Munin {
            fields: WAITS, ..plugin("portal_latency", "network", "Seconds") };
    Portal Gauge Count PORTAL_IN_FLIGHT "fels_portal_in_flight" ["protocol", "address"] "Queue of portals",
        "Operations that came in by the portal and are not answered yet.";
    Portal Counter Count PORTAL_ERRORS "fels_portal_errors_total" ["protocol", "address"] "Errors of portals",
        "Operations that came in by the portal and ended with an error.";
    Portal Gauge Count PORTAL_CONNECTIONS "fels_portal_connections" ["protocol", "address"] "Connections of portals",
        "Connections that are open.", plugin("portal_connections", "network", "Connections");
    Portal Gauge Ratio PORTAL_EVENNESS "fels_portal_evenness_ratio" ["protocol"] "Evenness of portals",
        "What the idlest portal that is used moves as a part of what the busiest does; unknown while there is little to do.",
        limited(plugin("portal_evenness", "network", "idlest / busiest"), Some("0.5:"), None);

    Initiator Counter Count INITIATOR_OPERATIONS "fels_initiator_operations_total" ["protocol", "initiator", "verb"]
        "Operations of initiators", "Operations of the initiator that ended, well or not.";
    Initiator Counter Bytes INITIATOR_BYTES "fels_initiator_bytes_total" ["protocol", "initiator", "verb"]
        "Throughput of initiators", "Bytes that the initiator read and wrote.";
    Initiator Counter Count INITIATOR_ERRORS "fels_initiator_errors_total" ["protocol", "initiator"]
        "Errors of initiators", "Operations of the initiator that ended with an error.";
    Initiator Gauge Count INITIATOR_SESSIONS "fels_initiator_sessions" ["protocol", "initiator"]
        "Sessions of initiators", "Sessions, controllers and connections that the initiator has open.";
    Initiator Gauge Count INITIATORS_LEFT_OUT "fels_initiators_left_out" [] "Initiators without series",
        "Initiators that have no series of their own, as others have moved more; they are in the sums of their portals.";

    Pool Counter Count POOL_OPERATIONS "fels_pool_operations_total" ["pool", "verb"] "Operations of pools",
        "Operations of all volumes on the pool.";
    Pool Counter Bytes POOL_BYTES "fels_pool_bytes_total" ["pool", "verb"] "Throughput of pools",
        "Bytes that volumes on the pool read and wrote.", Munin {
            fields: BYTES_READ_AND_WRITTEN, ..plugin("pool_throughput", "disk", "Bytes/second") };
    Pool Histogram Seconds POOL_LATENCY "fels_pool_latency_seconds" ["pool", "verb"] "Latency of pools",
        "Time from a request to the pool to its end.";
    Pool Gauge Count POOL_IN_FLIGHT "fels_pool_in_flight" ["pool"] "Queue of pools",
        "Requests that the pool has not ended yet.";
    Pool Counter Count POOL_ERRORS "fels_pool_errors_total" ["pool"] "Errors of pools",
        "Operations that the pool ended with an error.";
    Pool Gauge Bytes POOL_CAPACITY "fels_pool_capacity_bytes" ["pool"] "Capacity of pools",
        "Bytes that volumes can have in all.";
    Pool Gauge Bytes POOL_USED "fels_pool_used_bytes" ["pool"] "Use of pools", "Bytes that volumes have.";
    Pool Gauge Ratio POOL_USAGE "fels_pool_usage_ratio" ["pool"] "Usage of pools", "Part of the pool that is used.",
        limited(scaled(plugin("df", "disk", "% used"), 100.0), Some("92"), Some("98"));
    Pool Gauge State POOL_STATE "fels_pool_state" ["pool"] "State of pools",
        "0 when all members are in sync, 1 while some are not, 2 when the pool has failed.", state("raid_units");
    Pool Gauge Count POOL_DEGRADED_SLOTS "fels_pool_degraded_slots" ["pool"] "Degraded slots of pools",
        "Slots whose member is out or is rebuilt.";
    Pool Gauge Count POOL_REDUNDANCY "fels_pool_redundant_members" ["pool"] "Redundancy of pools",
        "Members that may fail yet, whichever they are, without loss of data.";
    Pool Counter Count POOL_CHECKSUM_ERRORS "fels_pool_checksum_errors_total" ["pool"] "Checksum errors of pools",
        "Blocks that were not what had been written.", plugin("pool_checksum_errors", "disk", "Blocks/second");
    Pool Counter Count POOL_UNREADABLE "fels_pool_unreadable_blocks_total" ["pool"] "Unreadable blocks of pools",
        "Blocks that a member could not read.";
    Pool Counter Count POOL_REPAIRED "fels_pool_repaired_blocks_total" ["pool"] "Repaired blocks of pools",
        "Blocks that were rebuilt from the others and written again.";
    Pool Counter Count POOL_UNREPAIRABLE "fels_pool_unrepairable_blocks_total" ["pool"] "Unrepairable blocks of pools",
        "Blocks that nothing could rebuild: what was in them is lost.";
    Pool Gauge Count POOL_SCRUB_ERRORS "fels_pool_scrub_errors" ["pool"] "Scrub errors of pools",
        "Bad blocks that the scrub that runs, or the last one, has found.",
        limited(plugin("scrub_errors", "disk", "Blocks"), None, Some(":0"));
    Pool Gauge Ratio POOL_SCRUB_PROGRESS "fels_pool_scrub_progress_ratio" ["pool"] "Scrub of pools",
        "Part of the pool that the running scrub has verified; 1 when none runs.";
    Pool Gauge State POOL_WRITE_CACHE_SAFE "fels_pool_write_cache_safe" ["pool"] "Write cache of pools",
        "1 when what was acknowledged survives a power cut, 0 when a cache of a member may lose it.",
        limited(plugin("write_cache_safe", "disk", "1 safe, 0 not"), None, Some("1:"));

    Member Counter Count MEMBER_OPERATIONS "fels_member_operations_total" ["pool", "slot", "verb"]
        "Operations of members", "Requests to the member that ended, well or not.", Munin {
            fields: READS_AND_WRITES, ..plugin("member_iops", "disk", "IOs/second") };
    Member Counter Bytes MEMBER_BYTES "fels_member_bytes_total" ["pool", "slot", "verb"] "Throughput of members",
        "Bytes that were read from the member and written to it.", Munin {
            fields: BYTES_READ_AND_WRITTEN, ..plugin("member_throughput", "disk", "Bytes/second") };
    Member Histogram Seconds MEMBER_LATENCY "fels_member_latency_seconds" ["pool", "slot", "verb"]
        "Latency of members", "Time that the member took.", Munin {
            fields: WAITS, ..plugin("member_latency", "disk", "Seconds") };
    Member Gauge Count MEMBER_IN_FLIGHT "fels_member_in_flight" ["pool", "slot"] "Queue of members",
        "Requests that the member has not ended yet.", plugin("member_queue", "disk", "Requests");
    Member Counter Count MEMBER_ERRORS "fels_member_errors_total" ["pool", "slot"] "Errors of members",
        "Requests that the member ended with an error, or did not answer in time.",
        plugin("member_errors", "disk", "Errors/second");
    Member Gauge State MEMBER_STATE "fels_member_state" ["pool", "slot"] "State of members",
        "0 when the member is in sync, 1 while it is rebuilt, 2 when it is out.", state("raid_members");
    Member Gauge Ratio MEMBER_REBUILT "fels_member_rebuilt_ratio" ["pool", "slot"] "Rebuilding of members",
        "Part of the member that is good; 1 when it is in sync.",
        scaled(plugin("raid_rebuild", "disk", "% rebuilt"), 100.0);
    Member Gauge Celsius MEMBER_TEMPERATURE "fels_member_temperature_celsius" ["pool", "slot"]
        "Temperature of members", "What the disk says of its temperature.",
        limited(plugin("hddtemp", "sensors", "Degrees Celsius"), Some("57"), Some("60"));
    Member Gauge State MEMBER_SMART "fels_member_smart_state" ["pool", "slot"] "SMART state of members",
        "0 when the disk says that it is well, 1 when it has reported trouble, 2 when it expects to fail.",
        state("smart_state");

    Process Counter Seconds PROCESS_CPU "fels_process_cpu_seconds_total" [] "CPU time of the process",
        "CPU time of all threads.", scaled(plugin("fels_cpu", "system", "% of a core"), 100.0);
    Process Counter Seconds SHARD_CPU "fels_shard_cpu_seconds_total" ["shard"] "CPU time of shards",
        "CPU time of the shard's thread.", scaled(plugin("fels_shards", "system", "% of a core"), 100.0);
    Process Gauge Bytes PROCESS_MEMORY "fels_process_resident_memory_bytes" [] "Memory of the process",
        "Memory that is resident.", plugin("fels_memory", "system", "Bytes");
    Process Gauge Count PROCESS_FILES "fels_process_open_files" [] "Open files of the process",
        "Descriptors that are open.";
    Process Gauge Bytes SHARD_BUFFERS "fels_shard_buffers_bytes" ["shard"] "Buffers of shards",
        "Bytes of buffers that are in use.";
    Process Counter Count RING_SUBMISSIONS "fels_ring_submissions_total" ["shard"] "Submissions to rings",
        "Operations that were handed to the kernel.";
    Process Counter Count RING_COMPLETIONS "fels_ring_completions_total" ["shard"] "Completions of rings",
        "What the kernel has said of operations: of most that they have ended.";
    Process Counter Count RING_ENTERS "fels_ring_enters_total" ["shard"] "Calls into the kernel",
        "System calls that a ring took.";
    Process Counter Count RING_SLEEPS "fels_ring_sleeps_total" ["shard"] "Sleeps of shards",
        "Times that the shard had nothing to do and slept.";
    Process Counter Count RING_DIRECT "fels_ring_direct_total" ["shard"] "Transfers past the ring",
        "Receives and sends of a connection that is alone, which the shard asks itself.";
    Process Counter Count RING_STEPS_BROKEN "fels_ring_steps_broken_total" ["shard"] "Steps broken",
        "Times that the shard answered what came together in two parts, so that it and its peer work at the same time.";
    Process Counter Seconds BUSY_POLL "fels_shard_busy_poll_seconds_total" ["shard", "outcome"] "Busy polling of shards",
        "Time in which the shard looked for something to do: with success (found), or in vain, and slept all the same (vain).",
        scaled(plugin("fels_busy_poll", "system", "% of a core"), 100.0);
    Process Gauge Seconds BUSY_POLL_MOST "fels_shard_busy_poll_most_seconds" ["shard"] "Longest look",
        "How long the shard looks for something to do at most before it sleeps.";
    Process Gauge Seconds UPTIME "fels_uptime_seconds" [] "Uptime", "Time since the node was started.",
        scaled(plugin("uptime", "system", "Days"), 1.0 / 86_400.0);
    Process Gauge Count BUILD "fels_build_info" ["version"] "Build", "1; the label says which build this is.";
}
