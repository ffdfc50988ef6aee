//! A pool as a bed wishes it, rendered as the `[[pool]]` table of the configuration file.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

/// Bytes of what a pool keeps a checksum of.
pub const BLOCK: usize = 4096;

/// One `[[pool]]` table.
#[derive(Clone, Debug)]
pub struct Pool {
    name: String,
    raid: String,
    members: Vec<String>,
    member_size: Option<String>,
    extra: String,
}

impl Pool {
    /// A pool on the files `m0.img` and so on of the data directory, of 64 MiB each.
    pub fn files(name: &str, raid: &str, count: usize) -> Self {
        let members = (0..count).map(|index| format!("m{index}.img"));
        Self::on(name, raid, members).member_size("64MiB")
    }

    /// A pool on files or devices that are there.
    pub fn on<M: AsRef<str>>(name: &str, raid: &str, members: impl IntoIterator<Item = M>) -> Self {
        let members = members.into_iter().map(|member| member.as_ref().to_owned()).collect();
        Self { name: name.into(), raid: raid.into(), members, member_size: None, extra: String::new() }
    }

    /// The size of files that are made.
    #[must_use]
    pub fn member_size(mut self, size: &str) -> Self {
        self.member_size = Some(size.into());
        self
    }

    /// Lines put at the end of its table.
    #[must_use]
    pub fn extra(mut self, lines: &str) -> Self {
        self.extra = lines.into();
        self
    }

    pub(crate) fn to_toml(&self) -> String {
        let Self { name, raid, members, .. } = self;
        let size = self.member_size.iter().map(|size| format!("member_size = \"{size}\"\n"));
        let size = size.collect::<String>();
        format!(
            "[[pool]]\nname = \"{name}\"\nraid = \"{raid}\"\nmembers = {members:?}\n{size}{}\n\n",
            self.extra
        )
    }
}

/// Flips a byte in the last block of the file that is full of `value`: the one in its place, behind what the journal has.
pub fn damage(member: &Path, value: u8) {
    let bytes = std::fs::read(member).expect("a member");
    let full = |block: &[u8]| block.iter().all(|byte| *byte == value);
    let place = bytes.chunks_exact(BLOCK).rposition(full).expect("a block of that value") * BLOCK;
    let file = File::options().write(true).open(member).expect("a member");
    file.write_all_at(&[!value], place as u64 + 1234).and_then(|()| file.sync_all()).expect("a write");
}
