//! Spares: members that wait for one to fail.

use axum::Json;
use axum::extract::State;
use plane::pool::format::Id;
use plane::pool::{Handle, MemberLocks, Place, admit_spare, release_spare};
use tokio::sync::oneshot;

use super::super::model::{Change, MemberWish, Wish};
use super::super::wish::{Body, Names};
use super::super::{Context, Problem};
use super::joining::join;
use super::members::{fit, joining, place};
use super::{change, configuration, find, followed, until};
use crate::administration::PoolEdit;
use crate::offline::survival::hex;
use crate::size::display_bytes;
use crate::store::pending;

/// Gives a pool a spare, which takes the place of a member that fails, by itself.
#[utoipa::path(
    post, path = "/v1/pools/{pool}/spares", tag = "pools",
    params(("pool" = String, Path, description = "The name of the pool.")),
    request_body = MemberWish,
    responses(
        (status = 200, body = Change),
        (status = 400, body = Problem, description = "The request is not understood."),
        (status = 404, body = Problem, description = "There is no such pool."),
        (status = 409, body = Problem, description = "It cannot be a spare of this pool."),
        (status = 413, body = Problem, description = "The request is too large."),
        (status = 503, body = Problem, description = "It was not done in time.")
    )
)]
pub(in super::super) async fn add(
    State(context): State<Context>,
    Names(name): Names<String>,
    Body(wish): Body<MemberWish>,
) -> Result<Json<Change>, Problem> {
    let node = context.clone();
    node.change(async move {
        let (pool, handle) = find(&context, &name)?;
        let Some(given) = &wish.place else {
            return Err(Problem::bad_request("nobody said what is to be a spare").hint("give `place`"));
        };
        let path = place(given)?;
        handle.check_spares()?;
        let is_missing = fit(&context, &handle, &path).await?;
        let mut steps = Vec::new();
        if is_missing {
            steps.push(format!("make {} with {}", path.display(), display_bytes(handle.member_bytes())));
        }
        steps.push(format!(
            "make {} a spare of pool {name}: it takes the place of a member that fails, by itself",
            path.display()
        ));
        if !wish.dry_run {
            let place = Place::Path(path.clone());
            let joining = joining(&name, &place, None);
            join(&context, joining, bring_in(&context, &handle, place, is_missing)).await?;
        }
        let changed = (!wish.dry_run).then(|| configuration(&context, &handle, &[]));
        let change = change(&context, &pool, wish.dry_run, steps);
        let change = Change { configuration: changed, ..change };
        let edit = PoolEdit { added: Some(path), ..PoolEdit::default() };
        Ok(followed(&context, &handle, edit, change).await)
    })
    .await
}

/// Lets the first shard open a spare and give it to the pool.
async fn bring_in(context: &Context, handle: &Handle, place: Place, make: bool) -> Result<(), Problem> {
    let (tell, told) = oneshot::channel();
    let handle = handle.clone();
    context.peers().tell(0, move |shard| {
        let ring = shard.ring().clone();
        let Some(locks) = shard.service::<MemberLocks>() else { return };
        shard.ring().spawn(async move {
            tell.send(admit_spare(&ring, &locks, &handle, place, make).await).ok();
        });
    });
    told.await.map_err(|_| Problem::late("the node is stopping"))?.map_err(Problem::from)
}

/// Takes a spare away; it is blank again if it is there.
#[utoipa::path(
    delete, path = "/v1/pools/{pool}/spares/{id}", tag = "pools",
    params(
        ("pool" = String, Path, description = "The name of the pool."),
        ("id" = String, Path, description = "What the spare is known by: 32 hexadecimal digits.")
    ),
    request_body = Option<Wish>,
    responses(
        (status = 200, body = Change),
        (status = 400, body = Problem, description = "The request is not understood."),
        (status = 404, body = Problem, description = "There is no such pool or spare."),
        (status = 409, body = Problem, description = "It cannot be done now."),
        (status = 413, body = Problem, description = "The request is too large."),
        (status = 503, body = Problem, description = "It was not done in time.")
    )
)]
pub(in super::super) async fn remove(
    State(context): State<Context>,
    Names((name, id)): Names<(String, String)>,
    Body(wish): Body<Wish>,
) -> Result<Json<Change>, Problem> {
    let node = context.clone();
    node.change(async move {
        let (pool, handle) = find(&context, &name)?;
        let spares = handle.status().spares;
        let Some(spare) = spares.into_iter().find(|spare| hex(&spare.id) == id) else {
            return Err(Problem::not_found(format!("pool {name} has no such spare"))
                .hint("its status lists those that it has"));
        };
        let place = handle.spare_place(&spare.id);
        let shown = place
            .as_ref()
            .map_or_else(|| "a spare that is not there".to_owned(), |place| context.told(place));
        let steps = vec![format!("take {shown} from the spares of pool {name}")];
        let removed = match &place {
            Some(Place::Path(path)) => Some(pending::absolute(path)),
            _ => None,
        };
        if !wish.dry_run {
            handle.remove_spare(&spare.id)?;
            let is_there = |id: &Id| handle.status().spares.iter().any(|spare| spare.id == *id);
            until("taking the spare away", || !is_there(&spare.id)).await?;
            let handle = handle.clone();
            context.peers().tell(0, move |shard| {
                if let (Some(locks), Some(place)) = (shard.service::<MemberLocks>(), &place) {
                    release_spare(&locks, &handle, place);
                }
            });
        }
        let changed = (!wish.dry_run).then(|| configuration(&context, &handle, &[]));
        let change = change(&context, &pool, wish.dry_run, steps);
        let change = Change { configuration: changed, ..change };
        Ok(followed(&context, &handle, PoolEdit { removed, ..PoolEdit::default() }, change).await)
    })
    .await
}
