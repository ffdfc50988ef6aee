//! READ and WRITE with simple replies.

use wire::nbd::{
    ClientFlags, Command, CommandFlags, Errno, ExportNameReply, Greeting, OptionCode, Request,
    SIMPLE_REPLY_LENGTH, SimpleReply, encode_option,
};

use super::node::{EXPORT, Node};
use super::{BYTES, measure_requests, offset};

pub fn measure() {
    let node = Node::start();
    let mut line = node.connect(&node.portals.nbd);
    line.receive(Greeting::LENGTH).expect("a greeting");
    let mut bytes = ClientFlags::all().bits().to_be_bytes().to_vec();
    encode_option(OptionCode::EXPORT_NAME, EXPORT.as_bytes(), &mut bytes);
    line.send(&bytes).expect("the server takes options");
    line.receive(ExportNameReply::LENGTH).expect("the export");
    measure_requests(
        "nbd-write-4k",
        &mut line,
        SIMPLE_REPLY_LENGTH,
        |number, out| {
            out.extend(request(Command::WRITE, number));
            out.extend([number as u8; BYTES]);
        },
        check,
    );
    measure_requests(
        "nbd-read-4k",
        &mut line,
        SIMPLE_REPLY_LENGTH + BYTES,
        |number, out| out.extend(request(Command::READ, number)),
        check,
    );
}

fn request(command: Command, number: u64) -> impl IntoIterator<Item = u8> {
    let (offset, length) = (offset(number), BYTES as u32);
    Request { flags: CommandFlags::empty(), command, cookie: number, offset, length }.encode()
}

fn check(answer: &[u8]) {
    let reply = SimpleReply::decode(answer.first_chunk().expect("a reply")).expect("a reply");
    assert_eq!(reply.error, Errno::OK);
}
