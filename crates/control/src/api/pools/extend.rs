//! Extending: a pool gets further members.

use std::path::{Path as FilePath, PathBuf};

use axum::Json;
use axum::extract::State;
use plane::pool::{Handle, Level, MemberLocks, Place, Seen, admit_further};
use tokio::sync::oneshot;

use super::super::model::{Change, FurtherWish};
use super::super::wish::{Body, Names};
use super::super::{Context, Problem};
use super::joining::join;
use super::members::{joining, judge, place, seen};
use super::{change, configuration, find, followed};
use crate::administration::PoolEdit;
use crate::size::display_bytes;

/// Gives a pool further members: copies of everything for raid1, new room for raid0 and raid10.
#[utoipa::path(
    post, path = "/v1/pools/{pool}/members", tag = "pools",
    params(("pool" = String, Path, description = "The name of the pool.")),
    request_body = FurtherWish,
    responses(
        (status = 200, body = Change),
        (status = 400, body = Problem, description = "The request is not understood."),
        (status = 404, body = Problem, description = "There is no such pool."),
        (status = 409, body = Problem, description = "The pool can have no further members, or not these, or not all are in sync."),
        (status = 413, body = Problem, description = "The request is too large."),
        (status = 503, body = Problem, description = "It was not done in time.")
    )
)]
pub(in super::super) async fn extend(
    State(context): State<Context>,
    Names(name): Names<String>,
    Body(wish): Body<FurtherWish>,
) -> Result<Json<Change>, Problem> {
    let node = context.clone();
    node.change(async move {
        let (pool, handle) = find(&context, &name)?;
        let paths = places(&wish.places)?;
        handle.check_extension(paths.len())?;
        let bytes = size(&handle, wish.member_bytes)?;
        let (mut steps, mut further) = (Vec::new(), Vec::new());
        for path in &paths {
            let is_missing = fit(&context, &handle, path).await?;
            if is_missing {
                steps.push(format!("make {} with {}", path.display(), display_bytes(bytes)));
            }
            further.push((Place::Path(path.clone()), is_missing.then_some(bytes)));
        }
        steps.extend(told(&handle, &name, &paths));
        let first = handle.status().members.len();
        if !wish.dry_run {
            let joining = further.iter().flat_map(|(place, _)| joining(&name, place, None)).collect();
            join(&context, joining, bring_in(&context, &handle, further)).await?;
        }
        let added: Vec<_> = (first..).zip(paths.iter().map(PathBuf::as_path)).collect();
        let changed = configuration(&context, &handle, &added);
        let change = change(&context, &pool, wish.dry_run, steps);
        let change = Change { configuration: Some(changed), ..change };
        Ok(followed(&context, &handle, PoolEdit::default(), change).await)
    })
    .await
}

/// What becomes of them.
fn told(handle: &Handle, name: &str, paths: &[PathBuf]) -> Vec<String> {
    let all: Vec<_> = paths.iter().map(|path| path.display().to_string()).collect();
    let all = all.join(", ");
    if handle.status().level == Level::Raid1 {
        return vec![format!("add {all} to the copies of pool {name}, and fill from the others what is new")];
    }
    vec![format!("add {all} to pool {name}, as a set of members with new room that volumes can have at once")]
}

/// The paths of what is to come in, each once.
fn places(given: &[String]) -> Result<Vec<PathBuf>, Problem> {
    if given.is_empty() {
        return Err(Problem::bad_request("nobody said which members are to come in").hint("give `places`"));
    }
    let paths = given.iter().map(|text| place(text)).collect::<Result<Vec<_>, _>>()?;
    match paths.iter().enumerate().find(|(index, path)| paths[..*index].contains(path)) {
        Some((_, path)) => {
            Err(Problem::bad_request(format!("{} is named twice", path.display()))
                .hint("name each member once"))
        }
        None => Ok(paths),
    }
}

/// Bytes of files that are made.
fn size(handle: &Handle, wanted: Option<u64>) -> Result<u64, Problem> {
    let least = handle.member_bytes();
    match wanted.filter(|wanted| *wanted < least) {
        Some(wanted) => {
            Err(Problem::bad_request(format!("members of this pool have {least} bytes, not {wanted}"))
                .hint("say more, or nothing: then they are as large as the others"))
        }
        None => Ok(wanted.unwrap_or(least)),
    }
}

/// Whether what is at a path can be a further member; true if it is to be made. One that was to be one and never came in can.
async fn fit(context: &Context, handle: &Handle, path: &FilePath) -> Result<bool, Problem> {
    let seen = match seen(context, path).await? {
        Seen::Member(member) if handle.never_came_in(&member.label) => Seen::Blank { bytes: member.bytes },
        seen => seen,
    };
    judge(handle, path, seen)
}

/// Lets the first shard open the members and give them to the pool.
async fn bring_in(
    context: &Context,
    handle: &Handle,
    further: Vec<(Place, Option<u64>)>,
) -> Result<(), Problem> {
    let (tell, told) = oneshot::channel();
    let handle = handle.clone();
    context.peers().tell(0, move |shard| {
        let ring = shard.ring().clone();
        let Some(locks) = shard.service::<MemberLocks>() else { return };
        shard.ring().spawn(async move {
            tell.send(admit_further(&ring, &locks, &handle, further).await).ok();
        });
    });
    told.await.map_err(|_| Problem::late("the node is stopping"))?.map_err(Problem::from)
}
