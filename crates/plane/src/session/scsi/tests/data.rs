//! Commands that move or compare data.

use wire::scsi::unmap::{self, BlockDescriptor};

use super::*;
use crate::error::Error;
use crate::layers::Next;
use crate::request::Run;

#[test]
fn what_is_written_is_read_in_every_form() {
    with(|bench| async move {
        let data: Vec<u8> = (0..3 * BLOCK).map(|index| index as u8 ^ 0x5a).collect();
        bench.good(&[0x0a, 0, 0, 7, 3, 0], &data).await;
        assert_eq!(bench.good(&[0x08, 0, 0, 7, 3, 0], &[]).await, data);
        bench.good(&ten(0x2a, 0, 20, 3), &data).await;
        assert_eq!(bench.read(20, 3).await, data);
        bench.good(&[0xaa, 0, 0, 0, 0, 30, 0, 0, 0, 3, 0, 0], &data).await;
        assert_eq!(bench.good(&[0xa8, 0, 0, 0, 0, 30, 0, 0, 0, 3, 0, 0], &[]).await, data);
        bench.good(&sixteen(0x8a, 0, BLOCKS - 3, 3), &data).await;
        assert_eq!(bench.good(&sixteen(0x88, 0, BLOCKS - 3, 3), &[]).await, data);
    });
}

#[test]
fn ranges_beyond_the_end_are_out_of_range_for_every_medium_command() {
    with(|bench| async move {
        let mut block = [0xa5; 2 * BLOCK];
        for (opcode, data) in
            [(0x88, 0), (0x8a, 1), (0x8b, 1), (0x8e, 1), (0x8f, 0), (0x90, 0), (0x91, 0), (0x93, 1)]
        {
            for lba in [BLOCKS, BLOCKS + 1, 1 << 63, u64::MAX] {
                let cdb = sixteen(opcode, 0, lba, 1);
                let sense = bench.refused(&cdb, &block[..data * BLOCK]).await;
                assert_eq!(sense.additional, AdditionalSense::LBA_OUT_OF_RANGE, "{cdb:02x?}");
            }
            let cdb = sixteen(opcode, 0, BLOCKS - 1, 2);
            let sense = bench.refused(&cdb, &block[..2 * data * BLOCK]).await;
            assert_eq!(sense.additional, AdditionalSense::LBA_OUT_OF_RANGE, "{cdb:02x?}");
        }
        block.fill(0);
        let mut cdb = sixteen(0x89, 0, BLOCKS, 0);
        cdb[13] = 1;
        assert_eq!(bench.refused(&cdb, &block).await.additional, AdditionalSense::LBA_OUT_OF_RANGE);
        let cdb = [0x9e, 0x12, 0, 0, 0, 0, 0, 0, 0x10, 0, 0, 0, 0, 24, 0, 0];
        assert_eq!(bench.refused(&cdb, &[]).await.additional, AdditionalSense::LBA_OUT_OF_RANGE);
    });
}

#[test]
fn a_length_of_zero_does_nothing_up_to_the_end_of_the_medium() {
    with(|bench| async move {
        for opcode in [0x88, 0x8a, 0x8b, 0x8e, 0x8f, 0x90, 0x91] {
            assert!(bench.good(&sixteen(opcode, 0, BLOCKS, 0), &[]).await.is_empty());
            let sense = bench.refused(&sixteen(opcode, 0, BLOCKS + 1, 0), &[]).await;
            assert_eq!(sense.additional, AdditionalSense::LBA_OUT_OF_RANGE);
        }
        bench.good(&sixteen(0x89, 0, 0, 0), &[]).await;
        // WSNZ.
        let sense = bench.refused(&sixteen(0x93, 0, 0, 0), &[0; BLOCK]).await;
        assert_eq!(sense.additional, AdditionalSense::INVALID_FIELD_IN_CDB);
    });
}

#[test]
fn a_transfer_beyond_the_limit_points_at_the_length() {
    with_claims(
        |geometry| geometry.blocks = 1 << 20,
        |bench| async move {
            let sense = bench.refused(&sixteen(0x88, 0, 0, 16385), &[]).await;
            assert_eq!(sense.additional, AdditionalSense::INVALID_FIELD_IN_CDB);
            let pointer = wire::scsi::FieldPointer::cdb(10);
            assert_eq!(sense.key_specific, Some(wire::scsi::sense::SenseKeySpecific::Field(pointer)));
            let sense = bench.refused(&sixteen(0x8f, 0, 0, 16385), &[]).await;
            assert_eq!(sense.additional, AdditionalSense::INVALID_FIELD_IN_CDB);
            assert_eq!(bench.good(&sixteen(0x88, 0, 0, 4096), &[]).await.len(), 4096 * BLOCK);
        },
    );
}

#[test]
fn a_write_that_brings_less_writes_its_whole_blocks_and_refuses_parts() {
    with(|bench| async move {
        bench.write(0, &[b'a'; 4 * BLOCK]).await;
        bench.good(&ten(0x2a, 0, 0, 2), &[b'b'; BLOCK]).await;
        assert_eq!(bench.read(0, 2).await, [[b'b'; BLOCK], [b'a'; BLOCK]].concat());
        bench.good(&ten(0x2a, 0, 0, 1), &[]).await;
        let sense = bench.refused(&ten(0x2a, 0, 2, 1), &[b'c'; 200]).await;
        assert_eq!(sense.additional, AdditionalSense::INVALID_FIELD_IN_COMMAND_INFORMATION_UNIT);
        assert_eq!(bench.read(2, 1).await, [b'a'; BLOCK]);
        bench.good(&ten(0x2a, 0, 2, 1), &[b'd'; 2 * BLOCK]).await;
        assert_eq!(bench.read(2, 2).await, [[b'd'; BLOCK], [b'a'; BLOCK]].concat());
    });
}

#[test]
fn verify_compares_what_it_is_told_to() {
    with(|bench| async move {
        let data = [[1; BLOCK], [2; BLOCK], [2; BLOCK]].concat();
        bench.write(10, &data).await;
        bench.good(&ten(0x2f, 0x00, 10, 3), &[]).await;
        bench.good(&ten(0x2f, 0x02, 10, 3), &data).await;
        bench.good(&ten(0x2f, 0x06, 11, 2), &[2; BLOCK]).await;
        let mut wrong = data.clone();
        wrong[BLOCK + 3] = 9;
        let sense = bench.refused(&ten(0x2f, 0x02, 10, 3), &wrong).await;
        assert_eq!((sense.key, sense.information), (SenseKey::Miscompare, Some(515)));
        let sense = bench.refused(&ten(0x2f, 0x06, 10, 3), &[2; BLOCK]).await;
        assert_eq!((sense.key, sense.information), (SenseKey::Miscompare, Some(0)));
        // Data that nobody asked for is not looked at.
        bench.good(&ten(0x2f, 0x00, 10, 3), &wrong).await;
    });
}

#[test]
fn write_and_verify_reads_back() {
    with(|bench| async move {
        bench.good(&ten(0x2e, 0x02, 5, 2), &[7; 2 * BLOCK]).await;
        assert_eq!(bench.read(5, 2).await, [7; 2 * BLOCK]);
        bench.good(&ten(0x2e, 0x00, 5, 1), &[8; BLOCK]).await;
        let counted = bench.counted.get();
        assert_eq!((counted.writes, counted.reads), (2, 3));
        let fault = Fault { verb: Verb::Read, extent: Extent::new(5 * 512, 512), kind: ErrorKind::Medium };
        bench.faults.plant(fault);
        let sense = bench.refused(&ten(0x2e, 0x00, 5, 1), &[8; BLOCK]).await;
        assert_eq!(sense.additional, AdditionalSense::UNRECOVERED_READ_ERROR);
        assert_eq!(sense.information, Some(5));
    });
}

#[test]
fn compare_and_write_says_where_the_difference_is() {
    with(|bench| async move {
        let mut cdb = sixteen(0x89, 0, 3, 0);
        cdb[13] = 1;
        bench.write(3, &[b'B'; BLOCK]).await;
        for at in [0, 1, 255, 511] {
            let mut data = [[b'B'; BLOCK], [b'C'; BLOCK]].concat();
            data[at] = b'Z';
            let sense = bench.refused(&cdb, &data).await;
            assert_eq!(sense.key, SenseKey::Miscompare);
            assert_eq!(sense.additional, AdditionalSense::MISCOMPARE_DURING_VERIFY);
            assert_eq!(sense.information, Some(at as u64));
        }
        assert_eq!(bench.read(3, 1).await, [b'B'; BLOCK]);
        bench.good(&cdb, &[[b'B'; BLOCK], [b'C'; BLOCK]].concat()).await;
        assert_eq!(bench.read(3, 1).await, [b'C'; BLOCK]);
        // The data has to be twice the blocks, no more and no less.
        for length in [0, BLOCK, 4 * BLOCK] {
            let sense = bench.refused(&cdb, &vec![b'C'; length]).await;
            assert_eq!(sense.additional, AdditionalSense::INVALID_FIELD_IN_CDB);
        }
    });
}

#[test]
fn compare_and_write_of_256_blocks_wraps_to_none_and_is_refused() {
    with(|bench| async move {
        let sense = bench.refused(&sixteen(0x89, 0, 0, 0), &vec![0; 512 * BLOCK]).await;
        assert_eq!(sense.additional, AdditionalSense::INVALID_FIELD_IN_CDB);
    });
}

#[test]
fn compare_and_writes_of_one_block_do_not_interleave() {
    // Slow writes let the others look between reading and writing, if anything lets them.
    with_slow_writes(
        |_| {},
        Duration::from_millis(2),
        |bench| async move {
            bench.write(0, &[0; BLOCK]).await;
            let bench = Rc::new(bench);
            let mut cdb = sixteen(0x89, 0, 0, 0);
            cdb[13] = 1;
            let wins = Rc::new(Cell::new(0));
            let ring = bench.logical_unit.shard.ring().clone();
            let left = Rc::new(Cell::new(8));
            for index in 1..=8_u8 {
                let (bench, wins, left) = (bench.clone(), wins.clone(), left.clone());
                ring.spawn(async move {
                    let response = bench.run(&cdb, &[[0; BLOCK], [index; BLOCK]].concat()).await;
                    if response.status == Status::Good {
                        wins.set(wins.get() + 1);
                    }
                    left.set(left.get() - 1);
                });
            }
            while left.get() > 0 {
                ring.yield_now().await;
            }
            assert_eq!(wins.get(), 1);
        },
    );
}

#[test]
fn or_write_sets_bits() {
    with(|bench| async move {
        bench.write(9, &[0x0f; 2 * BLOCK]).await;
        bench.good(&sixteen(0x8b, 0, 9, 2), &[0xa0; 2 * BLOCK]).await;
        assert_eq!(bench.read(9, 2).await, [0xaf; 2 * BLOCK]);
    });
}

#[test]
fn write_same_repeats_a_block_and_knows_zeros() {
    with(|bench| async move {
        let pattern: Vec<u8> = (0..BLOCK).map(|index| index as u8).collect();
        bench.good(&sixteen(0x93, 0, 1, 4000), &pattern).await;
        // 4000 blocks are more than one buffer of a fill.
        assert_eq!(bench.counted.get().writes, 2);
        assert_eq!(bench.read(4000, 1).await, pattern);
        assert_eq!(bench.read(4001, 1).await, [0; BLOCK]);
        bench.good(&ten(0x41, 0, 1, 10), &[0; BLOCK]).await;
        bench.good(&sixteen(0x93, 0x08, 11, 10), &[0; BLOCK]).await;
        bench.good(&sixteen(0x93, 0x09, 21, 10), &[]).await;
        bench.good(&sixteen(0x93, 0x01, 31, 10), &[]).await;
        assert_eq!(bench.counted.get().zeroes, 4);
        assert_eq!(bench.read(1, 40).await, vec![0; 40 * BLOCK]);
        assert_eq!(bench.read(41, 1).await, pattern);
        // A pattern with UNMAP is still that pattern afterwards.
        bench.good(&sixteen(0x93, 0x08, 1, 2), &pattern).await;
        assert_eq!(bench.read(2, 1).await, pattern);
        for length in [BLOCK / 2, 2 * BLOCK] {
            let sense = bench.refused(&sixteen(0x93, 0x08, 0, 1), &vec![0; length]).await;
            assert_eq!(sense.key, SenseKey::IllegalRequest);
        }
    });
}

fn unmap_list(ranges: &[(u64, u32)]) -> Vec<u8> {
    let descriptors: Vec<_> = ranges.iter().map(|&(lba, blocks)| BlockDescriptor { lba, blocks }).collect();
    let mut list = Vec::new();
    unmap::encode(&descriptors, &mut list);
    list
}

#[test]
fn unmap_is_carried_out_in_full_or_not_at_all() {
    with(|bench| async move {
        bench.write(0, &[1; 32 * BLOCK]).await;
        let list = unmap_list(&[(1, 3), (9, 0), (16, 8), (BLOCKS, 0)]);
        bench.good(&ten(0x42, 0, 0, list.len() as u16), &list).await;
        assert_eq!(bench.read(1, 3).await, [0; 3 * BLOCK]);
        assert_eq!(bench.read(4, 12).await, [1; 12 * BLOCK]);
        assert_eq!(bench.read(16, 8).await, [0; 8 * BLOCK]);
        let list = unmap_list(&[(4, 1), (BLOCKS, 1)]);
        let sense = bench.refused(&ten(0x42, 0, 0, list.len() as u16), &list).await;
        assert_eq!(sense.additional, AdditionalSense::LBA_OUT_OF_RANGE);
        assert_eq!(bench.read(4, 1).await, [1; BLOCK]);
        bench.good(&ten(0x42, 0, 0, 0), &[]).await;
        let sense = bench.refused(&ten(0x42, 0, 0, 40), &list[..24]).await;
        assert_eq!(sense.additional, AdditionalSense::PARAMETER_LIST_LENGTH_ERROR);
    });
}

#[test]
fn unmap_of_too_many_blocks_or_descriptors_is_refused() {
    with_claims(
        |geometry| geometry.blocks = 1 << 40,
        |bench| async move {
            let list = unmap_list(&[(0, 1 << 19), (0, (1 << 19) + 1)]);
            let sense = bench.refused(&ten(0x42, 0, 0, list.len() as u16), &list).await;
            assert_eq!(sense.additional, AdditionalSense::INVALID_FIELD_IN_PARAMETER_LIST);
            let list = unmap_list(&[(0, 1); 257]);
            let sense = bench.refused(&ten(0x42, 0, 0, list.len() as u16), &list).await;
            assert_eq!(sense.key, SenseKey::IllegalRequest);
            assert_eq!(bench.counted.get().discards, 0);
        },
    );
}

#[test]
fn a_volume_without_discard_claims_none() {
    with_claims(
        |geometry| geometry.discard = false,
        |bench| async move {
            let list = unmap_list(&[(0, 1)]);
            let sense = bench.refused(&ten(0x42, 0, 0, list.len() as u16), &list).await;
            assert_eq!(sense.additional, AdditionalSense::INVALID_COMMAND_OPERATION_CODE);
            let sense = bench.refused(&sixteen(0x93, 0x08, 0, 1), &[0; BLOCK]).await;
            assert_eq!(sense.additional, AdditionalSense::INVALID_FIELD_IN_CDB);
            let capacity = bench.good(&sixteen(0x9e, 0x10, 0, 32), &[]).await;
            assert_eq!(capacity[14], 0);
            let page = bench.good(&[0x12, 1, 0xb2, 0, 255, 0], &[]).await;
            assert_eq!(page[5], 0);
            let report = bench.good(&[0xa3, 0x0c, 1, 0x42, 0, 0, 0, 0, 1, 0, 0, 0], &[]).await;
            assert_eq!(report, [0, 1, 0, 0]);
        },
    );
}

#[test]
fn lba_status_tells_mapped_from_deallocated() {
    with(|bench| async move {
        bench.write(8, &[1; 8 * BLOCK]).await;
        let status = |lba: u8, length: u8| [0x9e, 0x12, 0, 0, 0, 0, 0, 0, 0, lba, 0, 0, 0, length, 0, 0];
        let runs: Vec<_> = wire::scsi::lba_status::decode(&bench.good(&status(0, 255), &[]).await).collect();
        let expected = [(0, 8, 1), (8, 8, 0), (16, BLOCKS as u32 - 16, 1)];
        let found: Vec<_> = runs.iter().map(|run| (run.lba, run.blocks, run.provisioning as u8)).collect();
        assert_eq!(found, expected);
        let one = bench.good(&status(11, 24), &[]).await;
        assert_eq!(one.len(), 24);
        let run = wire::scsi::lba_status::decode(&one).next().unwrap();
        assert_eq!((run.lba, run.blocks), (11, 5));
    });
}

/// Blocks of 4096 bytes over a file system that gives space by the KiB: this much of it, and nothing else.
struct Kibibytes(std::ops::Range<u64>);

impl Layer for Kibibytes {
    fn name(&self) -> &'static str {
        "kibibytes"
    }

    fn geometry(&self, mut below: Geometry) -> Geometry {
        (below.block_size, below.blocks) = (4096, below.blocks / 8);
        below
    }

    fn allocation(&self, extent: Extent, _: Next<'_>) -> Result<Run, Error> {
        let edges = [self.0.start << 10, self.0.end << 10];
        let end = edges.into_iter().find(|edge| *edge > extent.offset).unwrap_or(u64::MAX);
        let mapped = self.0.contains(&(extent.offset >> 10));
        Ok(Run { length: end.saturating_sub(extent.offset).min(extent.length), mapped })
    }
}

#[test]
fn a_block_with_space_for_part_of_it_is_not_deallocated() {
    // The second half of block 1 and the first quarter of block 2.
    with_top(Kibibytes(6..9), Duration::ZERO, |bench| async move {
        let cdb = [0x9e, 0x12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 255, 0, 0];
        let runs: Vec<_> = wire::scsi::lba_status::decode(&bench.good(&cdb, &[]).await).collect();
        let states = runs.iter().flat_map(|run| vec![run.provisioning as u8; run.blocks as usize]);
        let mut expected = vec![1; BLOCKS as usize / 8];
        expected[1..3].fill(0);
        assert_eq!(states.collect::<Vec<_>>(), expected);
    });
}

#[test]
fn without_a_write_cache_nothing_is_flushed_for_fua() {
    with(|bench| async move {
        bench.good(&ten(0x2a, 0x08, 0, 1), &[1; BLOCK]).await;
        bench.good(&ten(0x28, 0x18, 0, 1), &[]).await;
        let counted = bench.counted.get();
        assert_eq!((counted.durable_writes, counted.flushes), (0, 0));
        bench.good(&ten(0x35, 0, 0, 0), &[]).await;
        assert_eq!(bench.counted.get().flushes, 1);
    });
}

#[test]
fn failures_of_the_volume_become_their_own_sense_data() {
    with(|bench| async move {
        let cases = [
            (ErrorKind::Medium, SenseKey::MediumError, AdditionalSense::UNRECOVERED_READ_ERROR),
            (ErrorKind::Failed, SenseKey::HardwareError, AdditionalSense::INTERNAL_TARGET_FAILURE),
            (ErrorKind::Aborted, SenseKey::AbortedCommand, AdditionalSense::IO_PROCESS_TERMINATED),
        ];
        for (kind, key, additional) in cases {
            bench.faults.clear();
            bench.faults.plant(Fault { verb: Verb::Read, extent: Extent::new(0, 1 << 20), kind });
            let sense = bench.refused(&ten(0x28, 0, 0, 1), &[]).await;
            assert_eq!((sense.key, sense.additional), (key, additional));
        }
        bench.faults.clear();
        let fault = Fault { verb: Verb::Write, extent: Extent::new(0, 512), kind: ErrorKind::NoSpace };
        bench.faults.plant(fault);
        let sense = bench.refused(&ten(0x2a, 0, 0, 1), &[1; BLOCK]).await;
        assert_eq!(sense.additional, AdditionalSense::SPACE_ALLOCATION_FAILED_WRITE_PROTECT);
        bench.faults.plant(Fault { verb: Verb::Flush, extent: Extent::default(), kind: ErrorKind::Write });
        let sense = bench.refused(&ten(0x35, 0, 0, 0), &[]).await;
        assert_eq!(sense.additional, AdditionalSense::WRITE_ERROR);
    });
}

#[test]
fn a_command_on_its_way_is_small() {
    with(|bench| async move {
        let prepare =
            |cdb: &[u8], out| bench.logical_unit.prepare(&bench.nexus, Some(Lun::ZERO), cdb, out).unwrap();
        let read = prepare(&ten(0x28, 0, 0, 1), 0);
        // The session keeps one of these per command, in pooled memory.
        let future = bench.logical_unit.execute(&bench.nexus, read, Buffer::empty());
        assert!(size_of_val(&future) <= 1024, "{} bytes", size_of_val(&future));
        future.await;
    });
}
