//! One look at the node: all is well, or what to do next.

use axum::Json;
use axum::extract::State;
use monitor::limit::Level;

use super::model::{Finding, Health, NodeStatus, Pool, PoolState};
use super::{Context, pools, portals};
use crate::administration::State as Wished;
use crate::alerts::Entry;
use crate::diff::diff;
use crate::plan::served;

/// Tells at one look how the node is: all is well, or what to do next.
#[utoipa::path(get, path = "/v1/status", tag = "node", responses((status = 200, body = NodeStatus)))]
pub(super) async fn look(State(context): State<Context>) -> Json<NodeStatus> {
    let state = context.administration().state();
    let pools = pools::look(&context);
    let mut findings: Vec<_> = pools.iter().flat_map(of_pool).collect();
    let alerts = of_alerts(&context, &mut findings);
    findings.extend(alerts);
    findings.extend(of_wishes(&context, &state));
    // Those that are equally bad stay in their order.
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.state));
    let health = findings.first().map_or(Health::Ok, |finding| finding.state);
    let (volumes, portals) = (served(&state.running).count(), portals::all(&context).len());
    Json(NodeStatus {
        state: health,
        sentence: sentence(health, &findings, volumes),
        findings,
        volumes,
        pools: pools.len(),
        portals,
        version: state.document.version.to_string(),
    })
}

fn sentence(health: Health, findings: &[Finding], volumes: usize) -> String {
    match (health, findings.len(), volumes) {
        (Health::Ok, _, 0) => {
            "all is well, and no volume is served yet: `fels volume create` makes one".to_owned()
        }
        (Health::Ok, ..) => "all is well".to_owned(),
        (Health::Warning, 1, _) => "there is something to be seen to".to_owned(),
        (Health::Warning, count, _) => format!("there are {count} things to be seen to"),
        (Health::Critical, ..) if findings.iter().any(is_of_data) => {
            "data is lost, or cannot be had".to_owned()
        }
        (Health::Critical, ..) => "something has to be done now".to_owned(),
    }
}

/// Whether it is not a limit that was crossed, but what limits are there to prevent.
fn is_of_data(finding: &Finding) -> bool {
    finding.state == Health::Critical && finding.alert.is_none()
}

fn of_pool(pool: &Pool) -> Vec<Finding> {
    let name = &pool.name;
    let finding = |state, hint: String| {
        let sentence = format!("pool {name}: {}", pool.sentence);
        Finding { state, sentence, hint, pool: Some(name.clone()), volume: None, alert: None }
    };
    let mut findings = Vec::new();
    match pool.state {
        PoolState::Failed => findings
            .push(finding(Health::Critical, "bring its members back, and start the node again".to_owned())),
        PoolState::Degraded => findings.push(finding(
            Health::Warning,
            format!("see `fels pool status {name}`: bring the member back, or put another one in its place"),
        )),
        PoolState::Ok | PoolState::Rebuilding if pool.members.iter().any(|member| member.slow) => findings
            .push(finding(
                Health::Warning,
                format!("look at the slow member, or replace it: fels pool replace {name}"),
            )),
        PoolState::Ok | PoolState::Rebuilding => {}
    }
    if pool.blocks.lost > 0 {
        findings.push(Finding {
            state: Health::Critical,
            sentence: format!("pool {name} has lost {} blocks since the node was started", pool.blocks.lost),
            hint: "the log names them; writing them again, as from a backup, makes them good".to_owned(),
            pool: Some(name.clone()),
            volume: None,
            alert: None,
        });
    }
    findings
}

/// What pools say of themselves, and say better.
const OF_POOLS: [&str; 2] = ["pool-degraded", "block-unrepairable"];

/// What has crossed a limit, unless nobody wants to hear of it. What a pool says of itself is not said twice, but is as bad as its limit.
fn of_alerts(context: &Context, said: &mut [Finding]) -> Vec<Finding> {
    let alerts = context.alerts().list().into_iter();
    let mut findings = Vec::new();
    for (id, entry) in alerts.filter(|(_, entry)| entry.level.is_bad() && entry.muted.is_none()) {
        let pool = id.strip_prefix(entry.rule.as_str()).and_then(|rest| rest.strip_prefix(':'));
        let is_of_pool = pool.is_some() && OF_POOLS.contains(&entry.rule.as_str());
        match said.iter_mut().find(|finding| is_of_pool && finding.pool.as_deref() == pool) {
            Some(finding) => raise(finding, id, entry.level),
            None => findings.push(of_alert(id, entry)),
        }
    }
    findings
}

fn raise(finding: &mut Finding, id: String, level: Level) {
    if level == Level::Critical && finding.state == Health::Warning {
        (finding.state, finding.alert) = (Health::Critical, Some(id));
    }
}

fn of_alert(id: String, entry: Entry) -> Finding {
    let hint = match entry.acknowledged {
        Some(seen) => format!("{} sees to it; {}", seen.who, entry.hint),
        None => format!("{}; if somebody sees to it: fels alert ack {id}", entry.hint),
    };
    let state = if entry.level == Level::Critical { Health::Critical } else { Health::Warning };
    Finding { state, sentence: entry.sentence, hint, pool: None, volume: None, alert: Some(id) }
}

fn of_wishes(context: &Context, state: &Wished) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut warn = |volume: Option<&String>, sentence: String, hint: String| {
        findings.push(Finding {
            state: Health::Warning,
            sentence,
            hint,
            pool: None,
            volume: volume.cloned(),
            alert: None,
        });
    };
    let path = context.told_path(context.administration().store().path());
    if !state.running.monitoring {
        warn(
            None,
            "the node does not monitor itself: no limit is watched, and nothing is kept for graphs"
                .to_owned(),
            "take `monitoring = false` out of the configuration, and start the node again".to_owned(),
        );
    }
    for (name, why) in &state.undone {
        warn(
            Some(name),
            format!("volume {name} is not as it is wished: {why}"),
            format!("fels apply -f {path}   tries it again"),
        );
    }
    if context.administration().is_changed_elsewhere() {
        warn(
            None,
            format!("{path} was changed by hand, and the node does not know it yet"),
            format!(
                "fels apply -f {path} --dry-run   says what it would do, and without --dry-run it is done"
            ),
        );
    }
    let steps = diff(&state.running, &state.document.config).unwrap_or_default();
    for step in steps.iter().filter(|step| step.is_later()) {
        warn(
            None,
            format!("this waits {}", step.sentence()),
            "start the node again when it suits".to_owned(),
        );
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sentence_says_how_bad_it_is() {
        let finding = Finding {
            state: Health::Warning,
            sentence: String::new(),
            hint: String::new(),
            pool: None,
            volume: None,
            alert: None,
        };
        assert_eq!(sentence(Health::Ok, &[], 1), "all is well");
        assert!(sentence(Health::Ok, &[], 0).contains("fels volume create"));
        assert_eq!(
            sentence(Health::Warning, std::slice::from_ref(&finding), 1),
            "there is something to be seen to"
        );
        assert_eq!(
            sentence(Health::Warning, &[finding.clone(), finding.clone()], 1),
            "there are 2 things to be seen to"
        );
        let lost = Finding { state: Health::Critical, ..finding };
        let limit = Finding { alert: Some("pool-full:tank".to_owned()), ..lost.clone() };
        assert_eq!(
            sentence(Health::Critical, std::slice::from_ref(&limit), 1),
            "something has to be done now"
        );
        assert_eq!(sentence(Health::Critical, &[limit, lost], 1), "data is lost, or cannot be had");
    }
}
