//! The codecs that a read or write meets.

use std::hint::black_box;

use wire::iscsi::digest::crc32c;
use wire::iscsi::frame::BHS_LENGTH;
use wire::iscsi::{Bhs, DataIn, DataInFlags, ScsiCommand, ScsiCommandFlags, SerialNumber, U24};
use wire::nbd::{self, SimpleReply};
use wire::nvme::io::{BlockRange, Opcode};
use wire::nvme::tcp::{C2HData, CapsuleCmd, Framing, PduFlags};
use wire::nvme::{Command, CommandFlags, SglDescriptor};

use super::BYTES;
use crate::meter::measure_all;

pub fn measure() {
    iscsi();
    nvme();
    nbd();
}

fn iscsi() {
    let command = ScsiCommand {
        flags: ScsiCommandFlags::READ | ScsiCommandFlags::FINAL,
        initiator_task_tag: 7,
        expected_data_transfer_length: BYTES as u32,
        cmd_sn: SerialNumber(7),
        ..ScsiCommand::default()
    };
    let mut bhs: Bhs = [0; BHS_LENGTH];
    command.encode(&mut bhs);
    measure_all("decode-scsi-command", || {
        black_box(ScsiCommand::decode(black_box(&bhs)));
    });
    let data_in = DataIn {
        flags: DataInFlags::FINAL | DataInFlags::STATUS,
        data_segment_length: U24::saturating(BYTES),
        initiator_task_tag: 7,
        ..DataIn::default()
    };
    measure_all("encode-data-in", || black_box(&data_in).encode(black_box(&mut bhs)));
    measure_all("crc32c-header", || {
        black_box(crc32c(black_box(&bhs)));
    });
}

fn nvme() {
    let sgl = SglDescriptor::transport(BYTES as u32);
    let range = BlockRange { slba: 8, nlb: 7, ..BlockRange::default() };
    let command = Command { flags: CommandFlags::SGL, ..range.command(Opcode::READ, 7, 1, sgl) };
    let mut capsule = [0; CapsuleCmd::LENGTH];
    CapsuleCmd::new(Framing::default(), command, 0).encode(&mut capsule);
    measure_all("decode-capsule-cmd", || {
        black_box(CapsuleCmd::decode(black_box(&capsule)));
    });
    let mut bytes = [0; C2HData::LENGTH];
    let flags = PduFlags::LAST_PDU | PduFlags::SUCCESS;
    measure_all("encode-c2h-data", || {
        C2HData::new(black_box(Framing::default()), flags, 7, 0, BYTES as u32).encode(black_box(&mut bytes));
    });
}

fn nbd() {
    let request = nbd::Request {
        flags: nbd::CommandFlags::empty(),
        command: nbd::Command::READ,
        cookie: 7,
        offset: 4096,
        length: BYTES as u32,
    };
    let bytes = request.encode();
    measure_all("decode-nbd-request", || {
        black_box(nbd::Request::decode(black_box(&bytes)).ok());
    });
    let reply = SimpleReply { error: nbd::Errno::OK, cookie: 7 };
    measure_all("encode-nbd-reply", || {
        black_box(black_box(reply).encode());
    });
}
