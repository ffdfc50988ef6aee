//! A host of few words.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use plane::volume::Backing;
use wire::nvme::fabrics::{
    Connect, ConnectAttributes, ConnectData, ConnectResult, ControllerConfiguration, Property, PropertySet,
    PropertySize,
};
use wire::nvme::io::{BlockRange, Opcode};
use wire::nvme::tcp::{
    CapsuleCmd, CapsuleResp, CommonHeader, DigestFlags, Framing, H2CData, ICReq, PduFlags, PduType, R2T,
};
use wire::nvme::{CNTLID_DYNAMIC, Command, CommandFlags, Completion, NqnField, SglDescriptor, Status};

use super::{BYTES, DEPTH, Node, SUBSYSTEM, least_of_windows};

/// One queue.
pub struct Queue {
    stream: TcpStream,
}

impl Queue {
    fn join(portal: SocketAddr, connect: Connect, cntlid: u16) -> (Queue, Completion) {
        let mut bytes = [0; ICReq::LENGTH];
        ICReq::new(0, DigestFlags::empty(), 0).encode(&mut bytes);
        let mut queue = Queue { stream: TcpStream::connect(portal).unwrap() };
        queue.stream.write_all(&bytes).unwrap();
        assert_eq!(queue.receive().0.pdu_type, PduType::IC_RESP);
        let data = ConnectData {
            hostid: [7; 16],
            cntlid,
            subnqn: NqnField::new(SUBSYSTEM),
            hostnqn: NqnField::new("nqn.2014-08.com.example:host"),
        };
        let mut bytes = [0; ConnectData::LENGTH];
        data.encode(&mut bytes);
        let completion = queue.ask(connect.command(1), &bytes);
        (queue, completion)
    }

    /// The admin queue of a controller that is ready, and an I/O queue that wants or does not want SQHD.
    pub fn of_a_controller(portal: SocketAddr, cattr: ConnectAttributes) -> (Queue, Queue) {
        let connect = Connect { sqsize: 31, ..Connect::default() };
        let (mut admin, completion) = Queue::join(portal, connect, CNTLID_DYNAMIC);
        let value = ControllerConfiguration::ENABLED.0.into();
        let enable = PropertySet { size: PropertySize::FOUR, offset: Property::CC, value };
        admin.ask(enable.command(2), &[]);
        let connect = Connect { qid: 1, sqsize: 127, cattr, ..Connect::default() };
        let (queue, _) = Queue::join(portal, connect, ConnectResult::from_result(completion.result).cntlid);
        (admin, queue)
    }

    fn ask(&mut self, command: Command, data: &[u8]) -> Completion {
        self.send(command, data);
        let (header, pdu) = self.receive();
        assert_eq!(header.pdu_type, PduType::CAPSULE_RESP);
        let completion = CapsuleResp::decode(pdu.first_chunk().unwrap()).completion;
        assert_eq!(completion.status, Status::SUCCESSFUL_COMPLETION);
        completion
    }

    fn send(&mut self, command: Command, data: &[u8]) {
        let mut bytes = [0; CapsuleCmd::LENGTH];
        CapsuleCmd::new(Framing::default(), command, data.len() as u32).encode(&mut bytes);
        self.stream.write_all(&[&bytes, data].concat()).unwrap();
    }

    /// The next PDU.
    fn receive(&mut self) -> (CommonHeader, Vec<u8>) {
        let mut bytes = vec![0; CommonHeader::LENGTH];
        self.stream.read_exact(&mut bytes).unwrap();
        let header = CommonHeader::decode(bytes.first_chunk().unwrap());
        bytes.resize(header.plen as usize, 0);
        self.stream.read_exact(&mut bytes[CommonHeader::LENGTH..]).unwrap();
        (header, bytes)
    }

    /// Reads, and writes with data in the capsule and with data that is asked for; `rounds` times as many as are under
    /// way at once. Gives how many reads ended without a completion.
    fn work(&mut self, rounds: u64) -> u64 {
        let data = [7; BYTES];
        let mut without_completion = 0;
        for round in 0..rounds {
            for at in 0..DEPTH {
                let length = BYTES as u32;
                let (opcode, sgl, sent) = match at % 4 {
                    0 | 2 => (Opcode::READ, SglDescriptor::transport(length), &[][..]),
                    1 => (Opcode::WRITE, SglDescriptor::in_capsule(0, length), &data[..]),
                    _ => (Opcode::WRITE, SglDescriptor::transport(length), &[][..]),
                };
                let slba = (round * DEPTH + at) % 512 * 8;
                let range = BlockRange { slba, nlb: 7, ..BlockRange::default() };
                let command = range.command(opcode, at as u16, 1, sgl);
                self.send(Command { flags: CommandFlags::SGL, ..command }, sent);
            }
            let mut done = 0;
            while done < DEPTH {
                let (header, pdu) = self.receive();
                match header.pdu_type {
                    PduType::R2T => self.send_data(&R2T::decode(pdu.first_chunk().unwrap()), &data),
                    PduType::C2H_DATA if header.flags.contains(PduFlags::SUCCESS) => {
                        without_completion += 1;
                        done += 1;
                    }
                    PduType::C2H_DATA => {}
                    _ => {
                        let completion = CapsuleResp::decode(pdu.first_chunk().unwrap()).completion;
                        assert_eq!(completion.status, Status::SUCCESSFUL_COMPLETION);
                        done += 1;
                    }
                }
            }
        }
        without_completion
    }

    /// All that an R2T asks for.
    fn send_data(&mut self, r2t: &R2T, data: &[u8]) {
        assert_eq!((r2t.r2to, r2t.r2tl as usize), (0, data.len()));
        let mut bytes = [0; H2CData::LENGTH];
        H2CData::new(Framing::default(), r2t.cccid, r2t.ttag, 0, r2t.r2tl, true).encode(&mut bytes);
        self.stream.write_all(&[&bytes, data].concat()).unwrap();
    }
}

fn allocations_per_thousand(backing: Backing, cattr: ConnectAttributes) -> u64 {
    let node = Node::start(backing);
    let (admin, mut queue) = Queue::of_a_controller(node.portals.nvme[0], cattr);
    queue.work(500);
    let rounds = 1000 / DEPTH + 1;
    let does_without = cattr.contains(ConnectAttributes::DISABLE_SQ_FLOW_CONTROL);
    let least = least_of_windows(&node, || {
        let without_completion = queue.work(rounds);
        assert_eq!(without_completion, if does_without { rounds * DEPTH / 2 } else { 0 });
    });
    drop((queue, admin));
    node.stop();
    least
}

#[test]
fn nvme_commands_of_a_volume_in_ram_allocate_nothing() {
    for cattr in [ConnectAttributes::empty(), ConnectAttributes::DISABLE_SQ_FLOW_CONTROL] {
        assert_eq!(allocations_per_thousand(Backing::Memory, cattr), 0, "{cattr:?}");
    }
}

#[test]
fn nvme_commands_of_a_volume_in_a_file_allocate_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let backing = Backing::File(directory.path().join("demo.img"));
    assert_eq!(allocations_per_thousand(backing, ConnectAttributes::DISABLE_SQ_FLOW_CONTROL), 0);
}
