//! What is on a file or disk, without a pool being opened; and how a member is made blank again.

use std::io::ErrorKind;

use ring::{Buffer, Ring};

use super::assemble::{BLANK_ENDS, Found, Opened, look};
use super::format::{BLOCK, End, Label, VolumeEntry, catalogue};
use super::member::{Member, MemberError, Place};
use super::open::PoolError;
use crate::disk::FileError;
use crate::layers::Stack;
use crate::request::Request;

/// What is at a place.
#[derive(Debug)]
pub enum Seen {
    /// Nothing, or an empty file.
    Missing,
    /// Nothing but zeroes at both ends, so that it can become a member.
    Blank {
        /// How large it is.
        bytes: u64,
    },
    /// A member of some pool.
    Member(Box<MemberLabel>),
    /// Another process has it.
    InUse,
    /// Something else; a sentence's end says what.
    Other(String),
}

/// What a member says of itself.
#[derive(Clone, Debug)]
pub struct MemberLabel {
    /// Its newest label.
    pub label: Label,
    /// How large the file or disk is.
    pub bytes: u64,
    /// The volumes of the pool as this member knows them; `None` when its catalogue cannot be read.
    pub volumes: Option<Vec<VolumeEntry>>,
}

/// Looks what is at a place. Nothing is written, and nothing stays locked.
pub async fn inspect(ring: &Ring, place: &Place) -> Seen {
    let (member, label) = match look(ring, place, None, &[]).await {
        Ok(Found::Missing) => return Seen::Missing,
        Ok(Found::Blank(Opened { member, .. })) => return Seen::Blank { bytes: member.bytes() },
        Ok(Found::Unusable(why) | Found::Broken(why)) => return Seen::Other(why),
        Ok(Found::Labelled(Opened { member, .. }, label)) => (member, label),
        Err(PoolError::Member(MemberError::File(FileError::Locked { .. }))) => return Seen::InUse,
        Err(PoolError::Member(MemberError::File(FileError::Open { source, .. }))) => {
            return Seen::Other(match source.kind() {
                ErrorKind::PermissionDenied => "may not be opened by this user".to_owned(),
                _ => format!("cannot be opened: {source}"),
            });
        }
        Err(error) => return Seen::Other(format!("cannot be used: {error}")),
    };
    let bytes = member.bytes();
    let volumes = match member.stack(ring) {
        Ok(stack) => read_volumes(&stack, &label).await,
        Err(_) => None,
    };
    Seen::Member(Box::new(MemberLabel { label: *label, bytes, volumes }))
}

async fn read_volumes(stack: &Stack, label: &Label) -> Option<Vec<VolumeEntry>> {
    if label.catalogue.volumes == 0 {
        return Some(Vec::new());
    }
    let length = catalogue::blocks(label.catalogue.volumes) as usize * BLOCK;
    for end in End::BOTH {
        let place = label.geometry.catalogue_place(end, label.catalogue.copy);
        let read = stack.submit(Request::read(place, Buffer::new(length))).await;
        if read.result.is_ok()
            && let Ok(volumes) = catalogue::decode(&read.buffer, &label.catalogue, &label.geometry)
        {
            return Some(volumes);
        }
    }
    None
}

/// Makes a member of the pool `pool` blank again: labels, catalogues and what else is in the first and the last MiB become
/// zeroes, durably. The rest of its bytes stay; without a label nobody finds them. Anything else is refused.
pub async fn wipe(ring: &Ring, place: &Place, pool: &[u8; 16]) -> Result<(), PoolError> {
    let failed = |cause: String| PoolError::Io { pool: String::new(), place: place.to_string(), cause };
    let Found::Labelled(Opened { member, lock }, label) = look(ring, place, None, &[]).await? else {
        return Err(failed("it is no member of a pool any more".to_owned()));
    };
    if label.pool != *pool {
        return Err(failed(format!("it is a member of another pool now, {}", label.name)));
    }
    write_ends(ring, &member, &label).await.map_err(failed)?;
    drop(lock);
    Ok(())
}

async fn write_ends(ring: &Ring, member: &Member, label: &Label) -> Result<(), String> {
    let stack = member.stack(ring).map_err(|error| error.to_string())?;
    let length = member.bytes().min(BLANK_ENDS);
    // The tail of what the pool used may be before that of the disk.
    let tail = label.geometry.bytes - label.geometry.bytes.min(BLANK_ENDS);
    // The head last: as long as it is there, what was begun can be begun again.
    for place in [member.bytes() - length, tail, 0] {
        let request = Request::write(place, Buffer::zeroed(length as usize));
        stack.submit(request).await.result.map_err(|error| error.to_string())?;
        stack.submit(Request::flush()).await.result.map_err(|error| error.to_string())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
