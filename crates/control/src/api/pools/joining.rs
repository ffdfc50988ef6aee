//! Giving a pool a member, whole or not at all: what is noted before is settled by the next start, if the node dies in between.

use std::future::Future;

use plane::pool::{Assembled, Handle, Place, PoolPlan, Pools};
use plane::shard::Peers;

use super::super::{Context, Problem, handle};
use super::members::{bring_in, is_out, known_place};
use crate::administration::{Administration, PoolEdit, point};
use crate::store::pending::{Joining, Pending, absolute};

/// Gives a pool what is noted as `joining` by `work`. When that is refused nothing is noted any more; of what was not answered in time
/// nobody knows the end, and the next start settles it.
pub(super) async fn join(
    context: &Context,
    joining: Vec<Joining>,
    work: impl Future<Output = Result<(), Problem>>,
) -> Result<(), Problem> {
    let Some(pool) = joining.first().map(|joining| joining.pool.clone()) else { return work.await };
    context.administration().begin_joining(joining).await?;
    point("joining");
    let done = work.await;
    if done.as_ref().is_err_and(|problem| !problem.is_late()) {
        context.administration().end_joining(&pool).await;
    }
    point("joined");
    done
}

/// Lets a pool that is about to be opened have what it was given before the node died.
pub(crate) fn add(pending: &Pending, plans: &mut [PoolPlan]) {
    for joining in &pending.joining {
        let Some(slots) = joining.slots() else { continue };
        let is_it = |place: &Place| matches!(place, Place::Path(path) if absolute(path) == joining.place);
        let Some(plan) = plans.iter_mut().find(|plan| plan.name == joining.pool) else { continue };
        let is_named = plan.members.iter().chain(&plan.spares).any(|member| is_it(&member.place));
        if let (false, Some(first)) = (is_named, plan.members.first()) {
            let place = Place::Path(joining.place.clone());
            let member = plane::pool::MemberPlan { place, create_bytes: None, ..first.clone() };
            // What has taken a slot is known by its label; a slot more is a member more.
            let places = if slots > plan.members.len() { &mut plan.members } else { &mut plan.spares };
            places.push(member);
        }
    }
}

/// Completes or undoes in pools that are open what a node that died was giving them. What cannot be settled now waits for the next start.
pub(crate) async fn settle(administration: &Administration, pools: &Pools, peers: &Peers) {
    for joining in administration.state().joining() {
        let Some(pool) = pools.find(&joining.pool) else { continue };
        let handle = handle(&pool);
        if let Some(slot) =
            joining.instead_of.filter(|slot| joining.slots().is_none() && is_out(&handle, *slot))
        {
            bring_back(peers, &pool, &handle, slot).await;
        }
        let edit = PoolEdit::of(&handle, PoolEdit::default());
        match administration.follow(&edit).await {
            Ok(()) => administration.end_joining(&joining.pool).await,
            Err(error) => tracing::warn!(
                pool = joining.pool,
                "the configuration does not say what the pool is by now: {error}"
            ),
        }
    }
}

async fn bring_back(peers: &Peers, pool: &Assembled, handle: &Handle, slot: usize) {
    let back = async { bring_in(peers, handle, slot, known_place(pool, handle, slot)?, false).await };
    let name = handle.status().name;
    match back.await {
        Ok(()) => tracing::warn!(
            pool = name,
            "member {slot} is back: the node ended before another one had taken its place"
        ),
        Err(problem) => {
            tracing::error!(pool = name, "member {slot} went out for another one that never came: {problem}");
        }
    }
}
