//! What the device server says of itself, and what it remembers.

use wire::scsi::inquiry::{BlockLimits, StandardSummary, find_naa};
use wire::scsi::sense::SenseFormat;

use super::*;

const MODE_CACHING: [u8; 6] = [0x1a, 0x08, 0x08, 0, 255, 0];
const MODE_CONTROL: [u8; 6] = [0x1a, 0x08, 0x0a, 0, 255, 0];

/// A volatile write cache.
fn cached(geometry: &mut Geometry) {
    geometry.write_cache = true;
}

/// MODE SELECT(6) of what MODE SENSE said, with one byte of the page changed.
async fn select(bench: &Bench, sense: [u8; 6], position: usize, mask: u8) -> Response {
    let mut list = bench.good(&sense, &[]).await;
    list[..3].fill(0);
    list[4 + position] ^= mask;
    bench.run(&[0x15, 0x10, 0, 0, list.len() as u8, 0], &list).await
}

#[test]
fn other_logical_units_are_not_there() {
    with(|bench| async move {
        for lun in [None, Lun::new(1), Lun::new(300)] {
            let run = async |cdb: &[u8]| bench.run_as(&bench.nexus, lun, cdb, &[]).await;
            let inquiry = run(&[0x12, 0, 0, 0, 96, 0]).await;
            let summary = StandardSummary::decode(&inquiry.data_in).unwrap();
            assert_eq!((summary.qualifier, summary.device_type), (3, 0x1f));
            let luns = run(&[0xa0, 0, 0, 0, 0, 0, 0, 0, 0, 64, 0, 0]).await;
            assert_eq!(luns.data_in[..], [0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
            let sense = run(&[0x03, 0, 0, 0, 252, 0]).await;
            assert_eq!(sense.status, Status::Good);
            let sense = Sense::decode(&sense.data_in).unwrap();
            assert_eq!(sense.additional, AdditionalSense::LOGICAL_UNIT_NOT_SUPPORTED);
            for cdb in [&TEST_UNIT_READY[..], &ten(0x28, 0, 0, 1), &[0xff; 6]] {
                let sense = run(cdb).await.sense.unwrap();
                assert_eq!(sense.additional, AdditionalSense::LOGICAL_UNIT_NOT_SUPPORTED);
            }
        }
    });
}

#[test]
fn commands_that_come_later_are_refused_by_operation_code() {
    with(|bench| async move {
        for opcode in [0x16, 0x17, 0x48, 0x56, 0x57, 0x5e, 0x5f, 0x83, 0x84, 0x9c, 0xa4, 0xff] {
            let mut cdb = [0; 16];
            cdb[0] = opcode;
            let sense = bench.refused(&cdb, &[]).await;
            assert_eq!(sense.additional, AdditionalSense::INVALID_COMMAND_OPERATION_CODE, "{opcode:02x}");
        }
        // REPORT TARGET PORT GROUPS is a service action of an operation code that is there: then the field pointer
        // says that it is the service action.
        let sense = bench.refused(&[0xa3, 0x0a, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0], &[]).await;
        assert_eq!(sense, Sense::invalid_field(wire::scsi::FieldPointer::cdb_bit(1, 4)));
    });
}

#[test]
fn inquiry_is_cut_at_the_allocation_length() {
    with(|bench| async move {
        for length in [0, 5, 36, 96, 255] {
            let data = bench.good(&[0x12, 0, 0, 0, length, 0], &[]).await;
            assert_eq!(data.len(), usize::from(length).min(96));
        }
        let data = bench.good(&[0x12, 0, 0, 2, 0, 0], &[]).await;
        assert_eq!(&data[8..32], b"FELS    VIRTUAL-DISK    ");
    });
}

#[test]
fn every_listed_page_can_be_read_and_says_what_it_is() {
    with(|bench| async move {
        let pages = bench.good(&[0x12, 1, 0, 0, 255, 0], &[]).await;
        assert!(pages[4..].is_sorted());
        for &code in &pages[4..] {
            let page = bench.good(&[0x12, 1, code, 0, 255, 0], &[]).await;
            assert_eq!(page[1], code);
            assert_eq!(usize::from(u16::from_be_bytes([page[2], page[3]])), page.len() - 4);
            if code == 0x80 {
                assert_eq!(&page[4..], b"0123456789ab4def8123456789abcdef");
            }
            if code == 0x83 {
                assert_eq!(find_naa(&page).unwrap()[0] >> 4, 3);
                let text = String::from_utf8_lossy(&page);
                assert!(text.contains("iqn.2026-11.internal.fels:demo,t,0x0001"));
            }
            if code == 0xb0 {
                let limits = BlockLimits::decode(&page).unwrap();
                assert_eq!(limits.maximum_transfer, 16384);
                assert_eq!((limits.maximum_compare_and_write, limits.optimal_granularity), (255, 8));
                assert!(limits.write_same_non_zero);
            }
        }
        let sense = bench.refused(&[0x12, 1, 0xb7, 0, 255, 0], &[]).await;
        assert_eq!(sense.additional, AdditionalSense::INVALID_FIELD_IN_CDB);
    });
}

#[test]
fn capacity_in_both_forms() {
    with(|bench| async move {
        let ten = bench.good(&[0x25, 0, 0, 0, 0, 0, 0, 0, 0, 0], &[]).await;
        assert_eq!(ten, [0, 0, 0x0f, 0xff, 0, 0, 2, 0]);
        for length in [0, 15, 32, 64] {
            let data = bench.good(&sixteen(0x9e, 0x10, 0, length), &[]).await;
            assert_eq!(data.len(), length.min(32) as usize);
        }
        let data = bench.good(&sixteen(0x9e, 0x10, 0, 32), &[]).await;
        // 4096 byte physical blocks, provisioning that reads zeros.
        assert_eq!((data[13], data[14]), (3, 0xc0));
    });
}

#[test]
fn report_luns_wants_room_for_one_entry() {
    with(|bench| async move {
        let sense = bench.refused(&[0xa0, 0, 0, 0, 0, 0, 0, 0, 0, 8, 0, 0], &[]).await;
        assert_eq!(sense.additional, AdditionalSense::INVALID_FIELD_IN_CDB);
        let sense = bench.refused(&[0xa0, 0, 3, 0, 0, 0, 0, 0, 0, 64, 0, 0], &[]).await;
        assert_eq!(sense.additional, AdditionalSense::INVALID_FIELD_IN_CDB);
    });
}

#[test]
fn unit_attentions_are_told_once_and_not_to_the_exempt() {
    with(|bench| async move {
        let nexus = bench.unit.attach(PORT, Some(UnitAttention::PowerOnOrReset));
        let run = async |cdb: &[u8]| bench.run_as(&nexus, Some(Lun::ZERO), cdb, &[]).await;
        assert_eq!(run(&[0x12, 0, 0, 0, 96, 0]).await.status, Status::Good);
        assert_eq!(run(&[0xa0, 0, 0, 0, 0, 0, 0, 0, 0, 64, 0, 0]).await.status, Status::Good);
        let sense = run(&TEST_UNIT_READY).await.sense.unwrap();
        assert_eq!(sense, Sense::unit_attention(AdditionalSense::POWER_ON_OR_RESET_OCCURRED));
        assert_eq!(run(&TEST_UNIT_READY).await.status, Status::Good);
        bench.unit.establish_all(UnitAttention::CapacityChanged);
        let data = run(&[0x03, 0, 0, 0, 252, 0]).await.data_in;
        assert_eq!(Sense::decode(&data).unwrap().additional, AdditionalSense::CAPACITY_DATA_HAS_CHANGED);
        assert_eq!(run(&TEST_UNIT_READY).await.status, Status::Good);
        let sense = bench.refused(&TEST_UNIT_READY, &[]).await;
        assert_eq!(sense.additional, AdditionalSense::CAPACITY_DATA_HAS_CHANGED);
    });
}

#[test]
fn a_write_cache_that_is_switched_off_makes_writes_durable() {
    with_claims(cached, |bench| async move {
        let other = bench.unit.attach(PORT, None);
        bench.write(0, &[1; BLOCK]).await;
        assert_eq!(bench.counted.get().durable_writes, 0);
        bench.good(&ten(0x2a, 0x08, 0, 1), &[1; BLOCK]).await;
        assert_eq!(bench.counted.get().durable_writes, 1);
        assert_eq!(bench.good(&MODE_CACHING, &[]).await[6], 0x04);
        let response = select(&bench, MODE_CACHING, 2, 0x04).await;
        assert_eq!(response.status, Status::Good);
        assert_eq!(bench.counted.get().flushes, 1);
        assert_eq!(bench.good(&MODE_CACHING, &[]).await[6], 0x00);
        bench.write(0, &[2; BLOCK]).await;
        assert_eq!(bench.counted.get().durable_writes, 2);
        // The other nexus is told, the one that did it is not.
        bench.good(&TEST_UNIT_READY, &[]).await;
        let told = bench.run_as(&other, Some(Lun::ZERO), &TEST_UNIT_READY, &[]).await;
        assert_eq!(told.sense.unwrap().additional, AdditionalSense::MODE_PARAMETERS_CHANGED);
    });
}

#[test]
fn a_fua_read_sends_the_cache_to_the_medium_first() {
    with_claims(cached, |bench| async move {
        bench.read(0, 1).await;
        assert_eq!(bench.counted.get().flushes, 0);
        bench.good(&ten(0x28, 0x08, 0, 1), &[]).await;
        assert_eq!(bench.counted.get().flushes, 1);
    });
}

#[test]
fn a_cache_that_is_not_there_cannot_be_switched_on() {
    with(|bench| async move {
        assert_eq!(bench.good(&MODE_CACHING, &[]).await[6], 0x00);
        let response = select(&bench, MODE_CACHING, 2, 0x04).await;
        let sense = response.sense.unwrap();
        assert_eq!(sense.additional, AdditionalSense::INVALID_FIELD_IN_PARAMETER_LIST);
    });
}

#[test]
fn sense_data_follows_d_sense() {
    with(|bench| async move {
        assert_eq!(bench.run(&[0xff; 6], &[]).await.sense_bytes().unwrap()[0], 0x70);
        select(&bench, MODE_CONTROL, 2, 0x04).await;
        let response = bench.run(&[0xff; 6], &[]).await;
        assert_eq!(response.sense_format, SenseFormat::Descriptor);
        assert_eq!(response.sense_bytes().unwrap()[0], 0x72);
    });
}

#[test]
fn software_write_protection_refuses_writes_only() {
    with(|bench| async move {
        select(&bench, MODE_CONTROL, 4, 0x08).await;
        bench.read(0, 1).await;
        let sense = bench.refused(&ten(0x2a, 0, 0, 1), &[0; BLOCK]).await;
        assert_eq!(sense.key, SenseKey::DataProtect);
        assert_eq!(bench.good(&MODE_CONTROL, &[]).await[2] & 0x80, 0x80);
        select(&bench, MODE_CONTROL, 4, 0x08).await;
        bench.write(0, &[0; BLOCK]).await;
    });
}

#[test]
fn a_read_only_volume_says_so() {
    with_claims(
        |geometry| geometry.read_only = true,
        |bench| async move {
            let sense = bench.refused(&ten(0x2a, 0, 0, 1), &[0; BLOCK]).await;
            assert_eq!(sense.additional, AdditionalSense::WRITE_PROTECTED);
            assert_eq!(bench.good(&MODE_CONTROL, &[]).await[2] & 0x80, 0x80);
        },
    );
}

#[test]
fn a_stopped_unit_is_not_ready_until_it_is_started() {
    with(|bench| async move {
        bench.good(&[0x1b, 0, 0, 0, 0, 0], &[]).await;
        assert_eq!(bench.counted.get().flushes, 1);
        for cdb in [&TEST_UNIT_READY[..], &ten(0x28, 0, 0, 1), &ten(0x35, 0, 0, 0)] {
            let sense = bench.refused(cdb, &[]).await;
            assert_eq!(sense.key, SenseKey::NotReady);
            assert_eq!(sense.additional, AdditionalSense::INITIALIZING_COMMAND_REQUIRED);
        }
        bench.good(&[0x12, 0, 0, 0, 96, 0], &[]).await;
        let data = bench.good(&[0x03, 0, 0, 0, 252, 0], &[]).await;
        assert_eq!(Sense::decode(&data).unwrap().key, SenseKey::NotReady);
        bench.good(&[0x1b, 0, 0, 0, 1, 0], &[]).await;
        bench.read(0, 1).await;
        // No power conditions, nothing to eject.
        for flags in [0x10, 0x02] {
            let sense = bench.refused(&[0x1b, 0, 0, 0, flags, 0], &[]).await;
            assert_eq!(sense.additional, AdditionalSense::INVALID_FIELD_IN_CDB);
        }
    });
}

#[test]
fn removal_is_prevented_as_long_as_the_nexus_is_there() {
    with(|bench| async move {
        let eject = [0x1b, 0, 0, 0, 0x02, 0];
        let other = bench.unit.attach(PORT, None);
        bench.run_as(&other, Some(Lun::ZERO), &[0x1e, 0, 0, 0, 1, 0], &[]).await;
        let sense = bench.refused(&eject, &[]).await;
        assert_eq!(sense.additional, AdditionalSense::MEDIUM_REMOVAL_PREVENTED);
        drop(other);
        let sense = bench.refused(&eject, &[]).await;
        assert_eq!(sense.additional, AdditionalSense::INVALID_FIELD_IN_CDB);
    });
}

#[test]
fn a_reset_restores_the_mode_parameters_and_tells_everybody() {
    with(|bench| async move {
        select(&bench, MODE_CONTROL, 2, 0x04).await;
        bench.good(&[0x1b, 0, 0, 0, 0, 0], &[]).await;
        bench.unit.reset(UnitAttention::LogicalUnitReset);
        let sense = bench.refused(&TEST_UNIT_READY, &[]).await;
        assert_eq!(sense.additional, AdditionalSense::BUS_DEVICE_RESET_OCCURRED);
        bench.good(&TEST_UNIT_READY, &[]).await;
        assert_eq!(bench.unit.sense_format(), SenseFormat::Fixed);
    });
}

#[test]
fn every_reported_command_is_known_to_the_device_server() {
    with(|bench| async move {
        let all = bench.good(&[0xa3, 0x0c, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0, 0], &[]).await;
        for descriptor in all[4..].chunks_exact(8) {
            let mut cdb = [0; 16];
            cdb[0] = descriptor[0];
            cdb[1] = descriptor[3];
            let response = bench.run(&cdb, &[]).await;
            let additional = response.sense.map(|sense| sense.additional);
            assert_ne!(additional, Some(AdditionalSense::INVALID_COMMAND_OPERATION_CODE), "{cdb:02x?}");
            // The probe may have stopped the unit.
            bench.good(&[0x1b, 0, 0, 0, 1, 0], &[]).await;
        }
    });
}

#[test]
fn switching_the_cache_off_waits_for_writes_on_their_way_to_it() {
    with_slow_writes(cached, Duration::from_millis(20), |bench| async move {
        let bench = Rc::new(bench);
        let ring = bench.logical_unit.shard.ring().clone();
        let order = Rc::new(std::cell::RefCell::new(Vec::new()));
        let write = {
            let (bench, order) = (bench.clone(), order.clone());
            async move {
                bench.write(0, &[1; BLOCK]).await;
                order.borrow_mut().push("written");
            }
        };
        ring.spawn(write);
        ring.yield_now().await;
        assert_eq!(bench.counted.get().writes, 1);
        let response = select(&bench, MODE_CACHING, 2, 0x04).await;
        assert_eq!(response.status, Status::Good);
        order.borrow_mut().push("off");
        assert_eq!(*order.borrow(), ["written", "off"]);
    });
}
