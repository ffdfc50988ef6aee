//! The first admin: as long as there are no users, a code in the data directory proves that somebody is on the machine of the node and may
//! read its files. Being on the machine alone is not enough: others may be there too.

use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use super::token::{Digest, random_hex};

/// The file that has the code.
pub const SETUP_FILE: &str = "setup-code";

/// A code that is good for the first admin.
#[derive(Debug)]
pub struct SetupCode {
    digest: Digest,
    path: PathBuf,
}

impl SetupCode {
    /// Makes another one: 80 random bits in a file that only its owner can read.
    pub fn make(data: &Path) -> io::Result<SetupCode> {
        remove(data)?;
        let code = random_hex::<10>().map_err(io::Error::other)?;
        let path = data.join(SETUP_FILE);
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
        file.write_all(format!("{code}\n").as_bytes())?;
        let path = std::path::absolute(&path).unwrap_or(path);
        Ok(SetupCode { digest: Digest::of(code.as_bytes()), path })
    }

    /// Whether it is this one.
    pub fn is(&self, said: &str) -> bool {
        Digest::of(said.trim().as_bytes()).is(&self.digest)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// Removes one that is good for nothing any more.
pub fn remove(data: &Path) -> io::Result<()> {
    match std::fs::remove_file(data.join(SETUP_FILE)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn a_code_is_for_who_may_read_its_file() {
        let data = tempfile::tempdir().unwrap();
        let first = SetupCode::make(data.path()).unwrap();
        let said = std::fs::read_to_string(data.path().join(SETUP_FILE)).unwrap();
        assert_eq!(
            (said.len(), std::fs::metadata(first.path()).unwrap().permissions().mode() & 0o777),
            (21, 0o600)
        );
        assert!(first.is(&said) && first.is(said.trim()));
        assert!(!first.is("") && !first.is(&said[1..]) && !first.is(&"0".repeat(20)));
        let second = SetupCode::make(data.path()).unwrap();
        assert!(!second.is(&said), "each start of a node has its own");
        remove(data.path()).unwrap();
        remove(data.path()).unwrap();
    }
}
