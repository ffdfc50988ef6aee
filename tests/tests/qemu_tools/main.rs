//! QEMU's disk tools use a volume by `iscsi://` (libiscsi inside).

mod chap;
mod convert;
mod digests;
mod patterns;

use beds::{Node, Tool};

fn qemu_io(node: &Node, commands: &[&str]) -> Tool {
    commands
        .iter()
        .fold(Tool::new("qemu-io").args(["-f", "raw"]), |tool, command| tool.args(["-c", command]))
        .arg(node.url("demo"))
}
