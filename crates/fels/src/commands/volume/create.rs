//! `fels volume create`.

use super::super::node::{ChangeFlags, failure, tell};
use super::settings;
use crate::message::Failure;
use clap::Args;
use control::api::model::{BackingWish, Changed, ChapWish, Quantity, VolumeSettings, VolumeWish};
use std::path::{Path, PathBuf};

/// Make a volume and serve it
///
/// Without --pool, --file, --device, --memory and --null it lives on the only pool of the node, or in the file NAME.img in its data directory.
#[derive(Debug, Args)]
pub struct Create {
    /// Its name: lower-case letters, digits, - . and :
    name: String,

    /// Its size, such as 10GiB
    #[arg(long, value_name = "SIZE")]
    size: String,

    /// The pool that its bytes live on
    #[arg(long, value_name = "POOL", group = "place")]
    pool: Option<String>,

    /// The file that its bytes live in, relative to the data directory of the node
    #[arg(long, value_name = "FILE", group = "place")]
    file: Option<String>,

    /// The block device that its bytes live on; what is on it is overwritten by initiators
    #[arg(long, value_name = "PATH", group = "place")]
    device: Option<String>,

    /// It lives in memory, and is empty again after each start
    #[arg(long, group = "place")]
    memory: bool,

    /// It has no bytes: for measuring
    #[arg(long, group = "place")]
    null: bool,

    /// Take the bytes that are there already as they are
    #[arg(long)]
    existing: bool,

    /// Bytes of a logical block: 512 or 4096
    #[arg(long, value_name = "BYTES")]
    block_size: Option<u64>,

    /// A name for people
    #[arg(long, value_name = "TEXT")]
    alias: Option<String>,

    /// An initiator that may use it, such as iqn.2004-10.com.example:host; all, if none is named
    #[arg(long, value_name = "NAME")]
    allow: Vec<String>,

    /// A user of CHAP, and the file that holds its secret in its only line: USER=FILE
    #[arg(long, value_name = "USER=FILE")]
    chap: Vec<String>,

    /// Any other key of [[volume]], such as nvme=false
    #[arg(long = "set", value_name = "KEY=VALUE")]
    others: Vec<String>,

    #[command(flatten)]
    how: ChangeFlags,
}

pub fn run(arguments: &Create) -> Result<(), Failure> {
    let client = arguments.how.node.client()?;
    let wish = VolumeWish {
        volume: volume(arguments)?,
        existing: arguments.existing,
        version: None,
        dry_run: arguments.how.dry_run,
    };
    let changed: Changed = client.post("/v1/volumes", &wish).map_err(|error| failure(&error))?;
    tell(&changed, arguments.how.json)
}

fn volume(arguments: &Create) -> Result<VolumeSettings, Failure> {
    let backing = BackingWish {
        file: arguments.file.clone(),
        device: arguments.device.clone(),
        memory: arguments.memory.then_some(true),
        null: arguments.null.then_some(true),
    };
    let list = |list: &[String]| (!list.is_empty()).then(|| list.to_vec());
    let chap = arguments.chap.iter().map(|user| chap_user(user)).collect::<Result<Vec<_>, _>>()?;
    let others = settings(&arguments.others)?;
    Ok(VolumeSettings {
        name: Some(arguments.name.clone()),
        size: Some(Quantity::Text(arguments.size.clone())),
        backing: (backing != BackingWish::default()).then_some(backing).or(others.backing),
        pool: arguments.pool.clone().or(others.pool),
        block_size: arguments.block_size.or(others.block_size),
        alias: arguments.alias.clone().or(others.alias),
        allow: list(&arguments.allow).or(others.allow),
        chap: (!chap.is_empty()).then_some(chap).or(others.chap),
        ..others
    })
}

/// The secret does not stand on the command line, which everybody on the machine can read.
fn chap_user(word: &str) -> Result<ChapWish, Failure> {
    let hint = "write the secret into a file of mode 0600, and its name behind: --chap alice=/etc/fels/alice";
    let Some((user, file)) = word.split_once('=') else {
        return Err(Failure::usage(format!("`{word}` is not USER=FILE"), hint));
    };
    let path: PathBuf = super::super::pool::absolute(Path::new(file))?;
    Ok(ChapWish { user: user.to_owned(), secret: None, secret_file: Some(path.display().to_string()) })
}
