//! Read, answered by a C2HData with SUCCESS, and Write with its data in the capsule.

use ring::sim::Outsider;
use wire::nvme::fabrics::{
    Connect, ConnectAttributes, ConnectData, ConnectResult, ControllerConfiguration, Property, PropertySet,
    PropertySize,
};
use wire::nvme::io::{BlockRange, Opcode};
use wire::nvme::tcp::{
    C2HData, CapsuleCmd, CapsuleResp, CommonHeader, DigestFlags, Framing, ICReq, ICResp, PduFlags, PduType,
};
use wire::nvme::{CNTLID_DYNAMIC, Command, CommandFlags, Completion, NqnField, SglDescriptor, Status};

use super::node::{Node, SUBSYSTEM};
use super::{BLOCK, BYTES, measure_requests, offset};

pub fn measure() {
    let node = Node::start();
    let mut admin = node.connect(&node.portals.nvme);
    let connect = Connect { sqsize: 31, ..Connect::default() };
    let cntlid = ConnectResult::from_result(join(&mut admin, connect, CNTLID_DYNAMIC).result).cntlid;
    let enable = PropertySet {
        size: PropertySize::FOUR,
        offset: Property::CC,
        value: ControllerConfiguration::ENABLED.0.into(),
    };
    ask(&mut admin, enable.command(2), &[]);
    let mut line = node.connect(&node.portals.nvme);
    let cattr = ConnectAttributes::DISABLE_SQ_FLOW_CONTROL;
    join(&mut line, Connect { qid: 1, sqsize: 127, cattr, ..Connect::default() }, cntlid);
    measure_requests(
        "nvme-write-4k",
        &mut line,
        CapsuleResp::LENGTH,
        |number, out| {
            let sgl = SglDescriptor::in_capsule(0, BYTES as u32);
            out.extend(capsule(blocks(Opcode::WRITE, number, sgl), &[number as u8; BYTES]));
        },
        |answer| assert_eq!(completion(answer).status, Status::SUCCESSFUL_COMPLETION),
    );
    measure_requests(
        "nvme-read-4k",
        &mut line,
        C2HData::LENGTH + BYTES,
        |number, out| {
            let sgl = SglDescriptor::transport(BYTES as u32);
            out.extend(capsule(blocks(Opcode::READ, number, sgl), &[]));
        },
        |answer| {
            let header = CommonHeader::decode(answer.first_chunk().expect("a header"));
            assert_eq!(header.pdu_type, PduType::C2H_DATA);
            assert!(header.flags.contains(PduFlags::SUCCESS | PduFlags::LAST_PDU));
        },
    );
}

fn blocks(opcode: Opcode, number: u64, sgl: SglDescriptor) -> Command {
    let nlb = (BYTES / BLOCK - 1) as u16;
    let range = BlockRange { slba: offset(number) / BLOCK as u64, nlb, ..BlockRange::default() };
    Command { flags: CommandFlags::SGL, ..range.command(opcode, number as u16, 1, sgl) }
}

fn capsule(command: Command, data: &[u8]) -> Vec<u8> {
    let mut bytes = [0; CapsuleCmd::LENGTH];
    CapsuleCmd::new(Framing::default(), command, data.len() as u32).encode(&mut bytes);
    [&bytes, data].concat()
}

fn completion(answer: &[u8]) -> Completion {
    CapsuleResp::decode(answer.first_chunk().expect("a capsule")).completion
}

/// Makes a connection a queue.
fn join(line: &mut Outsider, connect: Connect, cntlid: u16) -> Completion {
    let mut bytes = [0; ICReq::LENGTH];
    ICReq::new(0, DigestFlags::empty(), 0).encode(&mut bytes);
    line.send(&bytes).expect("the controller takes an ICReq");
    line.receive(ICResp::LENGTH).expect("the controller answers");
    let data = ConnectData {
        hostid: [7; 16],
        cntlid,
        subnqn: NqnField::new(SUBSYSTEM),
        hostnqn: NqnField::new("nqn.2014-08.com.example:host"),
    };
    let mut bytes = [0; ConnectData::LENGTH];
    data.encode(&mut bytes);
    ask(line, connect.command(1), &bytes)
}

fn ask(line: &mut Outsider, command: Command, data: &[u8]) -> Completion {
    line.send(&capsule(command, data)).expect("the controller takes commands");
    let completion = completion(&line.receive(CapsuleResp::LENGTH).expect("the controller answers"));
    assert_eq!(completion.status, Status::SUCCESSFUL_COMPLETION);
    completion
}
