//! Real NBD clients use a volume: libnbd's tools, QEMU's, and fio.

mod copy;
mod fio;
mod info;
mod qemu;

use beds::Tool;

fn qemu_io(url: &str, commands: &[&str]) -> Tool {
    let tool = Tool::new("qemu-io").args(["-f", "raw"]);
    commands.iter().fold(tool, |tool, command| tool.args(["-c", command])).arg(url)
}
