//! The limit of open files: every connection takes one.

use crate::message::Message;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Below this the ten thousand connections that a node is to bear do not fit, with the volumes' files and the
/// rings beside them.
const ENOUGH: u64 = 16_384;

/// Raises the limit of open files as far as this process may, logs it, and warns if that is not far enough.
pub fn raise_open_files() {
    let before = getrlimit(Resource::Nofile);
    let wanted = Rlimit { current: before.maximum, maximum: before.maximum };
    if let Err(error) = setrlimit(Resource::Nofile, wanted) {
        tracing::warn!(%error, "the limit of open files cannot be raised");
    }
    let limit = getrlimit(Resource::Nofile).current;
    tracing::info!(limit = limit.map_or("none".to_owned(), |limit| limit.to_string()), "open files");
    if let Some(warning) = warning(limit) {
        warning.warn();
    }
}

fn warning(limit: Option<u64>) -> Option<Message> {
    let limit = limit.filter(|limit| *limit < ENOUGH)?;
    let sentence = format!("this process may have {limit} files open: that is its bound on connections too");
    Some(Message::new(sentence).hint(format!(
        "raise the hard limit to {ENOUGH} or more: LimitNOFILE= in the systemd unit, or ulimit -Hn before the start"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_low_limit_is_warned_of_and_a_high_one_is_not() {
        assert!(warning(Some(ENOUGH - 1)).is_some());
        assert!(warning(Some(ENOUGH)).is_none());
        assert!(warning(None).is_none(), "unlimited");
    }

    #[test]
    fn the_limit_is_raised_to_the_hard_one() {
        raise_open_files();
        let limit = getrlimit(Resource::Nofile);
        assert_eq!(limit.current, limit.maximum);
    }
}
