//! The node that is asked.

use crate::message::Failure;
use control::api::client::Client;
use control::api::model::{Member, Pool, Pools};
use std::path::Path;

use super::super::node::encoded;
pub use super::super::node::{NodeFlags, failure};

/// A path of the API to a pool.
pub fn path_of(pool: &str, rest: &str) -> String {
    format!("/v1/pools/{}{rest}", encoded(pool))
}

pub fn one(client: &Client, name: &str) -> Result<Pool, Failure> {
    client.get(&path_of(name, "")).map_err(|error| failure(&error))
}

pub fn all(client: &Client) -> Result<Vec<Pool>, Failure> {
    client.get::<Pools>("/v1/pools").map(|pools| pools.pools).map_err(|error| failure(&error))
}

/// The member that is meant: by the number of its slot, its path, or the last part of that if no other has the same.
pub fn member<'p>(pool: &'p Pool, wanted: &str) -> Result<&'p Member, Failure> {
    let by_number = wanted.parse::<usize>().ok().and_then(|slot| pool.members.get(slot));
    if let Some(member) = by_number {
        return Ok(member);
    }
    let path = std::path::absolute(wanted).ok();
    let place = |member: &&Member| member.place.as_deref().map(Path::new).map(Path::to_owned);
    if let Some(member) = pool.members.iter().find(|member| place(member).is_some() && place(member) == path)
    {
        return Ok(member);
    }
    let named =
        |member: &&Member| place(member).is_some_and(|place| place.file_name() == Some(wanted.as_ref()));
    let mut named = pool.members.iter().filter(named);
    match (named.next(), named.next()) {
        (Some(member), None) => Ok(member),
        (Some(_), Some(_)) => Err(Failure::new(
            format!("several members of pool {} are called {wanted}", pool.name),
            Some("give the number of the slot, or the whole path"),
        )),
        (None, _) => Err(Failure::new(
            format!("pool {} has no member {wanted}", pool.name),
            Some(&format!(
                "give the number of a slot, as `fels pool status {}` shows them, or its path",
                pool.name
            )),
        )),
    }
}
