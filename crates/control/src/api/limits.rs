//! Which limits hold, and who is told when one is crossed.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use monitor::limit::Side;
use monitor::limit::rules::{BUILT_IN, Rule, built_in};
use monitor::limit::source::Source;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::Context;
use crate::alerts::board::{reminder, targets};
use crate::config::{Config, Remind};

/// All limits of the node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Limits {
    /// Those that every node has, then those of the configuration.
    pub limits: Vec<Limit>,
}

/// A limit, and who is told when it is crossed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Limit {
    /// By which it is known and changed.
    pub name: String,
    /// What it says, of a limit that every node has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub about: Option<String>,
    /// The metric that its bounds are of, as the configuration writes it; none where they are of something that follows from several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metric: Option<String>,
    /// Of that, only what has these labels.
    pub labels: BTreeMap<String, String>,
    /// On which side of its bounds it is bad: `above` or `below`.
    pub when: String,
    /// From where on it is a warning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warning: Option<f64>,
    /// From where on it is critical.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub critical: Option<f64>,
    /// Seconds that it has to be bad.
    pub raise_after_s: u64,
    /// Seconds that it has to be well again.
    pub clear_after_s: u64,
    /// Whether it is looked at.
    pub enabled: bool,
    /// Who is told: mail addresses, and `webhook of NAME`.
    pub told: Vec<String>,
    /// How often they are reminded of what is still bad, in seconds; nothing: never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remind_s: Option<u64>,
}

/// Lists the limits that things are held against, with who is told.
#[utoipa::path(get, path = "/v1/alerts/limits", tag = "alerts", responses((status = 200, body = Limits)))]
pub(super) async fn list(State(context): State<Context>) -> Json<Limits> {
    Json(Limits { limits: all(&context.administration().state().running) })
}

fn all(config: &Config) -> Vec<Limit> {
    let section = |name: &str| config.alerts.iter().find(|alert| alert.name == name);
    let usual = BUILT_IN.iter().map(|usual| {
        let changed = section(usual.name);
        let rule = changed.and_then(|alert| alert.rule.clone()).unwrap_or_else(|| usual.rule());
        (rule, changed.is_none_or(|alert| alert.enabled))
    });
    let own = config.alerts.iter().filter(|alert| built_in(&alert.name).is_none());
    let own = own.filter_map(|alert| Some((alert.rule.clone()?, alert.enabled)));
    usual.chain(own).map(|(rule, enabled)| limit(config, &rule, enabled)).collect()
}

fn limit(config: &Config, rule: &Rule, enabled: bool) -> Limit {
    let seconds = |remind| match remind {
        Remind::Never => None,
        Remind::Every(time) => Some(time.as_secs()),
    };
    Limit {
        name: rule.name.clone(),
        about: built_in(&rule.name).map(|usual| usual.about.to_owned()),
        metric: metric(&rule.source),
        labels: rule.only.iter().cloned().collect(),
        when: if rule.limit.side == Side::Above { "above" } else { "below" }.to_owned(),
        warning: rule.limit.warning,
        critical: rule.limit.critical,
        raise_after_s: rule.limit.raise_after.as_secs(),
        clear_after_s: rule.limit.clear_after.as_secs(),
        enabled,
        told: targets(config, &rule.name).iter().map(ToString::to_string).collect(),
        remind_s: seconds(reminder(config, &rule.name)),
    }
}

/// What a bound is of, as the configuration writes it.
fn metric(source: &Source) -> Option<String> {
    match source {
        Source::Figure(family, None) => Some(family.name.to_owned()),
        Source::Figure(family, Some(part)) => Some(format!("{}:{}", family.name, part.name())),
        Source::Growth(_) | Source::PoolHealth | Source::AgainstHistory(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits(text: &str) -> Vec<Limit> {
        all(&Config::parse(text, "test").unwrap())
    }

    #[test]
    fn every_node_has_limits_and_nobody_is_told_unless_somebody_is_named() {
        let all = limits("");
        assert_eq!(all.len(), BUILT_IN.len());
        assert!(all.iter().all(|limit| limit.told.is_empty() && limit.enabled && limit.about.is_some()));
        let full = all.iter().find(|limit| limit.name == "pool-full").unwrap();
        assert_eq!((full.metric.as_deref(), full.warning), (Some("fels_pool_usage_ratio"), Some(0.92)));
    }

    #[test]
    fn what_the_configuration_says_holds_and_a_webhook_is_not_told() {
        let all = limits(
            "[mail]\nserver = \"127.0.0.1\"\ntls = \"none\"\nfrom = \"san1@example.org\"\n\
             [[alert]]\nname = \"default\"\nmail = [\"ops@example.org\"]\nwebhook = \"https://hook.example/s3cret\"\nremind = \"never\"\n\
             [[alert]]\nname = \"pool-full\"\nwarning = 0.8\nmail = [\"disks@example.org\"]\nenabled = false\n\
             [[alert]]\nname = \"slow\"\nmetric = \"fels_volume_latency_seconds:p99\"\nlabels = { volume = \"db\" }\nwarning = 0.02\n",
        );
        let of = |name: &str| all.iter().find(|limit| limit.name == name).unwrap();
        assert_eq!(all.len(), BUILT_IN.len() + 1);
        assert_eq!(of("pool-degraded").told, ["ops@example.org", "webhook of default"]);
        assert_eq!(of("pool-degraded").remind_s, None);
        let full = of("pool-full");
        assert_eq!((full.warning, full.enabled), (Some(0.8), false));
        assert_eq!(full.told, ["disks@example.org", "webhook of default"]);
        let slow = of("slow");
        assert_eq!(slow.metric.as_deref(), Some("fels_volume_latency_seconds:p99"));
        assert_eq!((slow.labels["volume"].as_str(), slow.about.as_ref()), ("db", None));
        assert!(!serde_json::to_string(&all).unwrap().contains("s3cret"));
    }
}
