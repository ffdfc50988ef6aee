//! READ (10) from its header to its Data-In, and WRITE (10) with immediate data to its response.

use ring::sim::Outsider;
use wire::iscsi::frame::BHS_LENGTH;
use wire::iscsi::{
    Bhs, Immediate, Isid, LoginFlags, LoginRequest, LoginStage, LoginTransit, Opcode, ScsiCommand,
    ScsiCommandFlags, SerialNumber, U24,
};

use super::node::{Node, TARGET};
use super::{BLOCK, BYTES, measure_requests, offset};

const READ_10: u8 = 0x28;
const WRITE_10: u8 = 0x2a;

pub fn measure() {
    let node = Node::start();
    let mut line = node.connect(&node.portals.iscsi);
    log_in(&mut line);
    let mut sent = 0;
    // The first command is told that the session is new.
    line.send(&command(&mut sent, 0, ScsiCommandFlags::empty(), 0, 0)).expect("the node takes commands");
    let answer = line.receive(BHS_LENGTH).expect("the node answers");
    line.receive(usize::from(answer[7]).next_multiple_of(4)).expect("the sense data");
    measure_requests(
        "iscsi-write-4k",
        &mut line,
        BHS_LENGTH,
        |number, out| {
            out.extend(command(&mut sent, WRITE_10, ScsiCommandFlags::WRITE, number, BYTES));
            out.extend([number as u8; BYTES]);
        },
        |answer| assert_eq!((answer[0] & 0x3f, answer[3]), (Opcode::ScsiResponse as u8, 0), "GOOD"),
    );
    measure_requests(
        "iscsi-read-4k",
        &mut line,
        BHS_LENGTH + BYTES,
        |number, out| out.extend(command(&mut sent, READ_10, ScsiCommandFlags::READ, number, 0)),
        |answer| assert_eq!((answer[0] & 0x3f, answer[3]), (Opcode::DataIn as u8, 0), "GOOD"),
    );
}

fn log_in(line: &mut Outsider) {
    let text = format!(
        "InitiatorName=iqn.2026-11.internal.test:host\0SessionType=Normal\0TargetName={TARGET}\0\
         InitialR2T=Yes\0ImmediateData=Yes\0"
    );
    let request = LoginRequest {
        immediate: Immediate(true),
        flags: LoginFlags::TRANSIT,
        transit: LoginTransit::new(LoginStage::LoginOperationalNegotiation, LoginStage::FullFeaturePhase),
        data_segment_length: U24::saturating(text.len()),
        isid: Isid::random(1, 1),
        ..LoginRequest::default()
    };
    let mut bhs: Bhs = [0; BHS_LENGTH];
    request.encode(&mut bhs);
    let mut bytes = [&bhs, text.as_bytes()].concat();
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    line.send(&bytes).expect("the node takes a login");
    let answer = line.receive(BHS_LENGTH).expect("the node answers");
    assert_eq!(answer[36], 0, "the login");
    let text = usize::from(answer[6]) << 8 | usize::from(answer[7]);
    line.receive(text.next_multiple_of(4)).expect("the keys");
}

/// The next command, of 4 KiB unless it is TEST UNIT READY, with so much immediate data to follow.
fn command(sent: &mut u32, opcode: u8, flags: ScsiCommandFlags, number: u64, data: usize) -> Bhs {
    let mut cdb = [0; 16];
    cdb[0] = opcode;
    let bytes = if opcode == 0 { 0 } else { BYTES };
    cdb[2..6].copy_from_slice(&((offset(number) / BLOCK as u64) as u32).to_be_bytes());
    cdb[7..9].copy_from_slice(&((bytes / BLOCK) as u16).to_be_bytes());
    let command = ScsiCommand {
        flags: flags | ScsiCommandFlags::FINAL,
        data_segment_length: U24::saturating(data),
        initiator_task_tag: *sent,
        expected_data_transfer_length: bytes as u32,
        cmd_sn: SerialNumber(*sent),
        cdb: if opcode == 0 { [0; 16] } else { cdb },
        ..ScsiCommand::default()
    };
    *sent += 1;
    let mut bhs: Bhs = [0; BHS_LENGTH];
    command.encode(&mut bhs);
    bhs
}
