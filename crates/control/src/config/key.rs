//! The declaration of a key, from which the reader and the reference are made.

/// One key of the configuration.
#[derive(Debug, Clone, Copy)]
pub struct Key {
    /// Its name, as written.
    pub name: &'static str,
    /// What it takes.
    pub takes: &'static str,
    /// What holds when it is not there.
    pub default: &'static str,
    /// What it does.
    pub says: &'static str,
}

/// Every section by its title, with its keys, in the order of the reference.
pub fn sections() -> [(&'static str, &'static [Key]); 15] {
    [
        ("top level", super::node::KEYS),
        ("[iscsi]", super::iscsi::KEYS),
        ("[nbd]", super::nbd::KEYS),
        ("[nvme]", super::nvme::KEYS),
        ("[http]", super::http::KEYS),
        ("[munin]", super::munin::KEYS),
        ("[mail]", super::mail::KEYS),
        ("[[alert]]", super::alert::KEYS),
        ("[[pool]]", super::pool::KEYS),
        ("members", super::pool::MEMBER_KEYS),
        ("spinning", super::spinning::KEYS),
        ("[[volume]]", super::volume::KEYS),
        ("backing", super::volume::BACKING_KEYS),
        ("limits", super::volume::LIMIT_KEYS),
        ("CHAP users", super::chap::KEYS),
    ]
}

/// The table of a section as it stands in `docs/reference/configuration.md`.
pub fn reference_table(keys: &[Key]) -> String {
    let rows = keys
        .iter()
        .map(|Key { name, takes, default, says }| format!("| `{name}` | {takes} | {default} | {says} |\n"));
    let head = "| key | takes | default | does |\n|---|---|---|---|\n";
    std::iter::once(head.to_owned()).chain(rows).collect()
}
