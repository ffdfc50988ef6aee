mod commands;
mod framing;
mod structures;

use proptest::prelude::*;

use super::command::{Command, CommandFlags, SglDescriptor, SglKind};

/// Any command a peer may send.
pub(super) fn any_command() -> impl Strategy<Value = Command> {
    any::<[u8; 64]>().prop_map(|bytes| Command::decode(&bytes))
}

#[test]
fn a_command_lies_where_the_standard_says() {
    let command = Command {
        opcode: 0x02,
        flags: CommandFlags::SGL,
        cid: 0x1234,
        nsid: 0x0102_0304,
        cdw2: 2,
        cdw3: 3,
        mptr: 0x1112_1314_1516_1718,
        sgl: SglDescriptor { address: 8, length: 0x2000, kind: SglKind::TRANSPORT_DATA_BLOCK },
        cdw10: 10,
        cdw11: 11,
        cdw12: 12,
        cdw13: 13,
        cdw14: 14,
        cdw15: 15,
    };
    let mut bytes = [0xff; 64];
    command.encode(&mut bytes);
    #[rustfmt::skip]
    assert_eq!(bytes, [
        0x02, 0x40, 0x34, 0x12, 4, 3, 2, 1, 2, 0, 0, 0, 3, 0, 0, 0,
        0x18, 0x17, 0x16, 0x15, 0x14, 0x13, 0x12, 0x11,
        8, 0, 0, 0, 0, 0, 0, 0, 0x00, 0x20, 0, 0, 0, 0, 0, 0x5a,
        10, 0, 0, 0, 11, 0, 0, 0, 12, 0, 0, 0, 13, 0, 0, 0, 14, 0, 0, 0, 15, 0, 0, 0,
    ]);
    assert_eq!(Command::decode(&bytes), command);
}
