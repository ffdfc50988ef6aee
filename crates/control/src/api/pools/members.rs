//! Members that go, come back, and are replaced.

use std::path::{Path as FilePath, PathBuf};

use axum::Json;
use axum::extract::State;
use plane::pool::{Assembled, Handle, MemberLocks, MemberState, Place, Seen, admit, inspect};
use plane::shard::Peers;
use tokio::sync::oneshot;

use super::super::model::{Change, MemberWish, Wish};
use super::super::wish::{Body, Names};
use super::super::{Context, Problem};
use super::joining::join;
use super::{change, configuration, find, followed, until};
use crate::administration::{PoolEdit, point};
use crate::offline::{is_device, is_unfit};
use crate::size::display_bytes;
use crate::store::pending::{Joining, absolute};

/// Bytes that a path has at most (`PATH_MAX`).
const MAX_PLACE_BYTES: usize = 4096;

/// Takes a member out: it is not read and not written until it is brought back.
#[utoipa::path(
    post, path = "/v1/pools/{pool}/members/{slot}/offline", tag = "pools",
    params(
        ("pool" = String, Path, description = "The name of the pool."),
        ("slot" = usize, Path, description = "The number of the slot.")
    ),
    request_body = Option<Wish>,
    responses(
        (status = 200, body = Change),
        (status = 400, body = Problem, description = "The request is not understood."),
        (status = 404, body = Problem, description = "There is no such pool or slot."),
        (status = 409, body = Problem, description = "The pool cannot do without the member."),
        (status = 413, body = Problem, description = "The request is too large."),
        (status = 503, body = Problem, description = "It was not done in time.")
    )
)]
pub(in super::super) async fn offline(
    State(context): State<Context>,
    Names((name, slot)): Names<(String, String)>,
    Body(wish): Body<Wish>,
) -> Result<Json<Change>, Problem> {
    let node = context.clone();
    node.change(async move {
        let (pool, handle) = find(&context, &name)?;
        let slot = number(&handle, &slot)?;
        if is_out(&handle, slot) {
            let steps = vec![format!("member {slot} of pool {name} is out already: nothing to do")];
            return Ok(change(&context, &pool, wish.dry_run, steps));
        }
        handle.check_spared(slot)?;
        if !wish.dry_run {
            take_out(&handle, slot).await?;
        }
        let steps = vec![format!(
            "take member {slot} out of pool {name}; what is written meanwhile is noted, and given to it when it is back"
        )];
        Ok(change(&context, &pool, wish.dry_run, steps))
    }).await
}

/// Brings a member back that is out: it gets what it missed. With another place it may have moved there.
#[utoipa::path(
    post, path = "/v1/pools/{pool}/members/{slot}/online", tag = "pools",
    params(
        ("pool" = String, Path, description = "The name of the pool."),
        ("slot" = usize, Path, description = "The number of the slot.")
    ),
    request_body = Option<MemberWish>,
    responses(
        (status = 200, body = Change),
        (status = 400, body = Problem, description = "The request is not understood."),
        (status = 404, body = Problem, description = "There is no such pool or slot."),
        (status = 409, body = Problem, description = "The member cannot be taken."),
        (status = 413, body = Problem, description = "The request is too large."),
        (status = 503, body = Problem, description = "It was not done in time.")
    )
)]
pub(in super::super) async fn online(
    State(context): State<Context>,
    Names((name, slot)): Names<(String, String)>,
    Body(wish): Body<MemberWish>,
) -> Result<Json<Change>, Problem> {
    let node = context.clone();
    node.change(async move {
        let (pool, handle) = find(&context, &name)?;
        let slot = number(&handle, &slot)?;
        let given = wish.place.as_deref().map(place).transpose()?;
        if !is_out(&handle, slot) {
            let steps = vec![format!("member {slot} of pool {name} is in use: nothing to do")];
            return Ok(change(&context, &pool, wish.dry_run, steps));
        }
        let place = match given {
            Some(path) => Place::Path(path),
            None => known_place(&pool, &handle, slot)?,
        };
        let steps =
            vec![format!("bring {place} back into slot {slot} of pool {name}, and give it what it missed")];
        if !wish.dry_run {
            // What is told of it afterwards has to be of after the labels.
            settled(&handle, slot).await?;
            let joining = joining(&name, &place, None);
            let work = bring_in(context.peers(), &handle, slot, place, false);
            join(&context, joining, work).await?;
        }
        let change = change(&context, &pool, wish.dry_run, steps);
        Ok(followed(&context, &handle, PoolEdit::default(), change).await)
    })
    .await
}

/// Puts another file or disk in the place of a member, which goes out; it gets everything from the others.
#[utoipa::path(
    post, path = "/v1/pools/{pool}/members/{slot}/replace", tag = "pools",
    params(
        ("pool" = String, Path, description = "The name of the pool."),
        ("slot" = usize, Path, description = "The number of the slot.")
    ),
    request_body = MemberWish,
    responses(
        (status = 200, body = Change),
        (status = 400, body = Problem, description = "The request is not understood."),
        (status = 404, body = Problem, description = "There is no such pool or slot."),
        (status = 409, body = Problem, description = "The pool cannot do without the member, or the other one is not blank."),
        (status = 413, body = Problem, description = "The request is too large."),
        (status = 503, body = Problem, description = "It was not done in time.")
    )
)]
pub(in super::super) async fn replace(
    State(context): State<Context>,
    Names((name, slot)): Names<(String, String)>,
    Body(wish): Body<MemberWish>,
) -> Result<Json<Change>, Problem> {
    let node = context.clone();
    node.change(async move {
        let (pool, handle) = find(&context, &name)?;
        let slot = number(&handle, &slot)?;
        let Some(given) = &wish.place else {
            return Err(Problem::bad_request("nobody said what is to take its place").hint("give `place`"));
        };
        let path = place(given)?;
        let was_out = is_out(&handle, slot);
        if !was_out {
            handle.check_spared(slot)?;
        }
        // Before the one that is there goes out.
        let is_missing = fit(&context, &handle, &path).await?;
        let mut steps = Vec::new();
        if !was_out {
            steps.push(format!("take member {slot} out of pool {name}"));
        }
        if is_missing {
            steps.push(format!("make {} with {}", path.display(), display_bytes(handle.member_bytes())));
        }
        steps.push(format!(
            "put {} into slot {slot}, and give it everything from the other members",
            path.display()
        ));
        if !wish.dry_run {
            let place = Place::Path(path.clone());
            let joining = joining(&name, &place, (!was_out).then_some(slot));
            join(&context, joining, put(&context, &handle, slot, place, is_missing)).await?;
        }
        let changed = configuration(&context, &handle, &[(slot, &path)]);
        let change = change(&context, &pool, wish.dry_run, steps);
        let change = Change { configuration: Some(changed), ..change };
        Ok(followed(&context, &handle, PoolEdit::default(), change).await)
    })
    .await
}

/// Puts another one into a slot; the one that is there goes out, unless it is out already.
async fn put(
    context: &Context,
    handle: &Handle,
    slot: usize,
    place: Place,
    is_missing: bool,
) -> Result<(), Problem> {
    let was_out = is_out(handle, slot);
    let before = handle.place(slot).filter(|_| !was_out);
    if !was_out {
        take_out(handle, slot).await?;
        point("out");
    }
    settled(handle, slot).await?;
    let taken = bring_in(context.peers(), handle, slot, place, is_missing).await;
    if let (Err(_), Some(before)) = (&taken, before) {
        // The one that was there is better than none.
        bring_in(context.peers(), handle, slot, before, false).await?;
    }
    taken
}

/// What a pool is given; memory is nothing that outlives a node.
pub(super) fn joining(pool: &str, place: &Place, instead_of: Option<usize>) -> Vec<Joining> {
    let Place::Path(path) = place else { return Vec::new() };
    vec![Joining { pool: pool.to_owned(), place: absolute(path), instead_of }]
}

fn number(handle: &Handle, text: &str) -> Result<usize, Problem> {
    let slot = text.parse().map_err(|_| {
        let shown: String = text.chars().take(64).collect();
        Problem::bad_request(format!("`{shown}` is no number of a slot"))
    })?;
    handle.check(slot)?;
    Ok(slot)
}

pub(super) fn place(text: &str) -> Result<PathBuf, Problem> {
    let path = FilePath::new(text);
    if text.len() > MAX_PLACE_BYTES || text.contains('\0') {
        return Err(Problem::bad_request("the place is no path"));
    }
    if !path.is_absolute() {
        let hint = "give it from the root on: the node runs in a directory of its own";
        return Err(Problem::bad_request(format!("{text} is not an absolute path")).hint(hint));
    }
    if let Some(why) = is_unfit(path) {
        return Err(Problem::refused(format!("{text} {why}")).hint("give a file or a disk"));
    }
    Ok(path.to_owned())
}

pub(super) fn is_out(handle: &Handle, slot: usize) -> bool {
    handle.status().members[slot].state == MemberState::Out
}

async fn take_out(handle: &Handle, slot: usize) -> Result<(), Problem> {
    handle.offline(slot)?;
    settled(handle, slot).await
}

/// Waits until the labels say that a slot is out.
async fn settled(handle: &Handle, slot: usize) -> Result<(), Problem> {
    until("taking the member out", || handle.status().members[slot].cause.is_some()).await
}

/// Where the member of a slot is expected: where it was, or the only one that was not there when the node was started.
pub(super) fn known_place(pool: &Assembled, handle: &Handle, slot: usize) -> Result<Place, Problem> {
    let status = handle.status();
    if let Some(place) = handle.place(slot) {
        return Ok(place);
    }
    let unknown = status.members.iter().filter(|member| member.place.is_none()).count();
    if let ([absent], 1) = (&pool.absent[..], unknown) {
        return Ok(absent.place.clone());
    }
    let detail = format!("nobody knows where member {slot} of pool {} is", status.name);
    Err(Problem::bad_request(detail)
        .hint("say where: with `place`, or as the last word of `fels pool online`"))
}

/// Whether what is at a path can take the place of a member; true if it is to be made.
pub(super) async fn fit(context: &Context, handle: &Handle, path: &FilePath) -> Result<bool, Problem> {
    judge(handle, path, seen(context, path).await?)
}

/// What is at a path.
pub(super) async fn seen(context: &Context, path: &FilePath) -> Result<Seen, Problem> {
    let (tell, told) = oneshot::channel();
    let place = Place::Path(path.to_owned());
    context.peers().tell(0, move |shard| {
        let ring = shard.ring().clone();
        shard.ring().spawn(async move {
            tell.send(inspect(&ring, &place).await).ok();
        });
    });
    told.await.map_err(|_| Problem::late("the node is stopping"))
}

/// As [`fit`], of what was seen there.
pub(super) fn judge(handle: &Handle, path: &FilePath, seen: Seen) -> Result<bool, Problem> {
    let (wanted, shown) = (handle.member_bytes(), path.display());
    let refused = |detail: String| {
        Problem::refused(detail).hint("give another one, or wipe it if nobody needs what is on it")
    };
    match seen {
        Seen::Missing if is_device(path) => Err(Problem::refused(format!("there is no device {shown}"))),
        Seen::Missing if !path.parent().is_some_and(FilePath::is_dir) => {
            Err(Problem::refused(format!("there is no directory for {shown}"))
                .hint("make it first, or correct the path"))
        }
        Seen::Missing => Ok(true),
        Seen::Blank { bytes } if bytes < wanted => {
            Err(Problem::refused(format!("{shown} has {bytes} bytes, members of this pool have {wanted}"))
                .hint("give one that is as large"))
        }
        Seen::Blank { .. } => Ok(false),
        Seen::InUse => Err(Problem::refused(format!("{shown} is in use, here or by another process"))
            .hint("give another file or disk")),
        Seen::Member(seen) => Err(refused(format!("{shown} is a member of the pool {}", seen.label.name))),
        Seen::Other(why) => Err(refused(format!("{shown} {why}"))),
    }
}

/// Lets the first shard open a member and give it to the pool.
pub(super) async fn bring_in(
    peers: &Peers,
    handle: &Handle,
    slot: usize,
    place: Place,
    make: bool,
) -> Result<(), Problem> {
    let (tell, told) = oneshot::channel();
    let handle = handle.clone();
    peers.tell(0, move |shard| {
        let ring = shard.ring().clone();
        let Some(locks) = shard.service::<MemberLocks>() else { return };
        shard.ring().spawn(async move {
            tell.send(admit(&ring, &locks, &handle, slot, place, make).await).ok();
        });
    });
    told.await.map_err(|_| Problem::late("the node is stopping"))?.map_err(Problem::from)
}
