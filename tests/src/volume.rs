//! A volume as a bed wishes it, rendered as the `[[volume]]` table of the configuration file.

use std::fmt::Write as _;

/// One `[[volume]]` table.
#[derive(Clone, Debug)]
pub struct Volume {
    name: String,
    size: String,
    /// The line that says where its bytes live.
    place: String,
    block_size: u32,
    chap: Option<(String, String)>,
    chap_mutual: Option<(String, String)>,
    extra: String,
    nbd: Option<bool>,
}

impl Volume {
    /// A volume whose `backing` value is written as given, e.g. `{ null = true }`.
    pub fn new(name: &str, size: &str, backing: &str) -> Self {
        Self {
            name: name.into(),
            size: size.into(),
            place: format!("backing = {backing}"),
            block_size: 512,
            chap: None,
            chap_mutual: None,
            extra: String::new(),
            nbd: None,
        }
    }

    /// A volume in memory; it is empty again after a restart.
    pub fn memory(name: &str, size: &str) -> Self {
        Self::new(name, size, "{ memory = true }")
    }

    /// A volume in the file `NAME.img` of the data directory.
    pub fn file(name: &str, size: &str) -> Self {
        Self::new(name, size, &format!("{{ file = \"{name}.img\" }}"))
    }

    /// A volume on a pool of the bed.
    pub fn on_pool(name: &str, size: &str, pool: &str) -> Self {
        Self { place: format!("pool = \"{pool}\""), ..Self::new(name, size, "") }
    }

    /// Logical block size in bytes, 512 or 4096.
    #[must_use]
    pub fn block_size(mut self, bytes: u32) -> Self {
        self.block_size = bytes;
        self
    }

    /// The initiator has to prove that it knows `secret` (one-way CHAP).
    #[must_use]
    pub fn chap(mut self, user: &str, secret: &str) -> Self {
        self.chap = Some((user.into(), secret.into()));
        self
    }

    /// The target proves itself too, as `user` with `secret` (mutual CHAP).
    #[must_use]
    pub fn chap_mutual(mut self, user: &str, secret: &str) -> Self {
        self.chap_mutual = Some((user.into(), secret.into()));
        self
    }

    /// Lines put at the end of its table.
    #[must_use]
    pub fn extra(mut self, lines: &str) -> Self {
        self.extra = lines.into();
        self
    }

    /// Whether it is an NBD export, said outright.
    #[must_use]
    pub fn nbd(mut self, exported: bool) -> Self {
        self.nbd = Some(exported);
        self
    }

    /// Target name of the volume.
    pub fn target(&self) -> String {
        target(&self.name)
    }

    pub(crate) fn to_toml(&self) -> String {
        let Self { name, size, place, block_size, .. } = self;
        let mut text =
            format!("[[volume]]\nname = \"{name}\"\nsize = \"{size}\"\n{place}\nblock_size = {block_size}\n");
        if let Some((user, secret)) = &self.chap {
            let _ = writeln!(text, "chap = [{{ user = \"{user}\", secret = \"{secret}\" }}]");
        }
        if let Some((user, secret)) = &self.chap_mutual {
            let _ = writeln!(text, "chap_mutual = {{ user = \"{user}\", secret = \"{secret}\" }}");
        }
        if let Some(nbd) = self.nbd {
            let _ = writeln!(text, "nbd = {nbd}");
        }
        text + &self.extra
    }
}

/// Target name of the volume called `name`.
pub fn target(name: &str) -> String {
    format!("iqn.2026-11.internal.fels:{name}")
}
