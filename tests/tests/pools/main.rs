//! Volumes on pools, from the configuration to what initiators see.

mod administration;
mod crash;
mod damage;
mod extend;
mod load;
mod loop_devices;
mod members;

use beds::Tool;

/// qemu-io with these commands on a URL.
fn qemu_io(url: &str, commands: &[&str]) -> Tool {
    let tool = Tool::new("qemu-io").args(["-f", "raw"]);
    commands.iter().fold(tool, |tool, command| tool.args(["-c", command])).arg(url)
}
