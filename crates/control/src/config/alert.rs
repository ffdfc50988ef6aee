//! The sections `[[alert]]`: limits, and who is told.

use super::HIDDEN;
use super::error::Problems;
use super::key::Key;
use super::mail;
use super::table::{Table, Value};
use crate::alerts::webhook::Url;
use monitor::limit::rules::{self, BUILT_IN, Rule, built_in};
use monitor::limit::{Limit, Side};
use std::collections::HashSet;
use std::time::Duration;

/// The section that says who is told of all that say nothing themselves.
pub const DEFAULT: &str = "default";
/// Sections at most.
const MAX_ALERTS: usize = 256;
/// Mail addresses of a section at most.
const MAX_ADDRESSES: usize = 16;
/// How long something has to be bad without a wish, for limits of one's own.
const USUAL_FOR: Duration = Duration::from_secs(60);
/// The longest time that can be wished.
const LONGEST: Duration = Duration::from_secs(365 * 24 * 60 * 60);
/// How often somebody is reminded without a wish.
const USUAL_REMINDER: Duration = Duration::from_secs(24 * 60 * 60);
/// Less would be no reminder, but a nuisance.
const SHORTEST_REMINDER: Duration = Duration::from_secs(60);

pub(super) const KEYS: &[Key] = &[
    Key {
        name: "name",
        takes: "a name of one's own, as the name of a volume; that of a limit that every node has; or `default`",
        default: "required",
        says: "What it is called. A limit that every node has is changed by its name; `default` says who is told of all that say nothing themselves.",
    },
    Key {
        name: "metric",
        takes: "a metric, such as `\"fels_pool_usage_ratio\"`; of histograms with `:mean`, `:p50` or `:p99` behind it; counters are rates per second",
        default: "required for limits of one's own",
        says: "What is looked at.",
    },
    Key {
        name: "labels",
        takes: "a table such as `{ volume = \"db\" }`",
        default: "`{}`: all",
        says: "Of that, only what has these labels.",
    },
    Key {
        name: "when",
        takes: "`\"above\"` or `\"below\"`",
        default: "`\"above\"`",
        says: "On which side of its bounds it is bad.",
    },
    Key { name: "warning", takes: "a number", default: "none", says: "From where on it is a warning." },
    Key {
        name: "critical",
        takes: "a number, not less far than `warning`",
        default: "none",
        says: "From where on it is critical.",
    },
    Key {
        name: "hysteresis",
        takes: "a number",
        default: "`0`",
        says: "By how much a bound has to be left again for it to be well.",
    },
    Key {
        name: "for",
        takes: "a time such as `\"5m\"`",
        default: "`\"1m\"`",
        says: "How long it has to be bad until somebody is told, and well until that is told.",
    },
    Key {
        name: "mail",
        takes: "list of mail addresses, up to 16",
        default: "as `default` says",
        says: "Who is told by mail; needs `[mail]`. `[]` is nobody.",
    },
    Key {
        name: "webhook",
        takes: "`https://host/path`; on this machine also `http://`",
        default: "as `default` says",
        says: "Where changes are sent by POST, as JSON. It is treated as a secret, as many have one in it.",
    },
    Key {
        name: "remind",
        takes: "a time from `\"1m\"`, or `\"never\"`",
        default: "`\"24h\"`",
        says: "How often those who are told are reminded of what is still bad and nobody has acknowledged.",
    },
    Key {
        name: "enabled",
        takes: "`true` or `false`",
        default: "`true`",
        says: "Whether it is looked at at all.",
    },
];

/// A limit, or a change of one that every node has, and who is told.
#[derive(Debug, Clone, PartialEq)]
pub struct Alert {
    /// What it is called.
    pub name: String,
    /// What is held against which limit; none for [`DEFAULT`].
    pub rule: Option<Rule>,
    /// Whether it is looked at.
    pub enabled: bool,
    /// Who is told by mail, if it says so.
    pub mail: Option<Vec<String>>,
    /// Where changes are sent, if it says so.
    pub webhook: Option<Url>,
    /// How often somebody is reminded, if it says so.
    pub remind: Option<Remind>,
}

/// How often somebody is reminded of what is still bad.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Remind {
    /// Not at all.
    Never,
    /// Every so often.
    Every(Duration),
}

impl Default for Remind {
    fn default() -> Remind {
        Remind::Every(USUAL_REMINDER)
    }
}

pub(super) fn read_all(problems: &mut Problems<'_>, value: Option<Value<'_>>, has_mail: bool) -> Vec<Alert> {
    let Some(value) = value else { return Vec::new() };
    if !value.is_list() {
        let hint = "write [[alert]] with two brackets: there can be several";
        problems.add_hint(value.span(), "`alert` takes sections [[alert]]", hint);
        return Vec::new();
    }
    let values = value.list(problems, "sections [[alert]]");
    if values.len() > MAX_ALERTS {
        problems.add(value.span(), format!("there are more than {MAX_ALERTS} sections [[alert]]"));
    }
    let mut seen = HashSet::new();
    let mut alerts = Vec::new();
    for value in values {
        let Some(alert) = read(problems, value, has_mail) else { continue };
        if !seen.insert(alert.name.clone()) {
            problems.add(value.span(), format!("there are two alerts `{}`", alert.name));
        }
        alerts.push(alert);
    }
    alerts
}

fn read(problems: &mut Problems<'_>, value: Value<'_>, has_mail: bool) -> Option<Alert> {
    let title = match value.peek("name") {
        Some(name) if super::volume::is_name(name) => format!("in [[alert]] `{name}`"),
        _ => "in [[alert]]".to_owned(),
    };
    let table = value.table(problems, "sections [[alert]]", title, KEYS)?;
    let Some(name) = table.value("name") else {
        if table.lacks("name") {
            problems.add_hint(table.span(), "[[alert]] has no `name`", "add name = \"slow-reads\"");
        }
        return None;
    };
    let text = name.string(problems, "a name")?;
    if !super::volume::is_name(text) || text.len() > 64 || text.contains(':') {
        let hint = "use up to 64 lower-case letters, digits, - and ., with a letter or digit first and last";
        problems.add_hint(name.span(), "that cannot be the name of an alert", hint);
        return None;
    }
    let mail = table.value("mail").map(|value| read_mail(problems, value, has_mail));
    let webhook = table.value("webhook").and_then(|value| read_webhook(problems, value));
    let remind = table.value("remind").and_then(|value| read_reminder(problems, value));
    let enabled = table.value("enabled").and_then(|value| value.boolean(problems)).unwrap_or(true);
    let rule = if text == DEFAULT {
        no_rule(problems, &table);
        None
    } else {
        Some(read_rule(problems, &table, text)?)
    };
    Some(Alert { name: text.to_owned(), rule, enabled, mail, webhook, remind })
}

/// `default` is no limit.
fn no_rule(problems: &mut Problems<'_>, table: &Table<'_>) {
    for key in ["metric", "labels", "when", "warning", "critical", "hysteresis", "for", "enabled"] {
        if let Some(value) = table.value(key) {
            let hint = "it says who is told of all that say nothing: give the limit another name";
            problems.add_hint(value.span(), format!("`{key}` has no meaning in the alert `{DEFAULT}`"), hint);
        }
    }
}

fn read_rule(problems: &mut Problems<'_>, table: &Table<'_>, name: &str) -> Option<Rule> {
    let known = built_in(name).map(rules::BuiltIn::rule);
    let mut rule = match (known, table.value("metric")) {
        (Some(rule), None) => rule,
        (Some(_), Some(value)) => {
            let hint = "leave `metric` out, or give the limit another name";
            problems.add_hint(
                value.span(),
                format!("`{name}` is a limit that every node has, of something else"),
                hint,
            );
            return None;
        }
        (None, Some(value)) => own_rule(problems, value, name)?,
        (None, None) => {
            let names: Vec<_> = BUILT_IN.iter().map(|rule| rule.name).collect();
            let hint = format!(
                "add metric = \"fels_pool_usage_ratio\"; limits that every node has are {}",
                names.join(", ")
            );
            problems.add_hint(table.span(), format!("the alert `{name}` has no `metric`"), hint);
            return None;
        }
    };
    if let Some(value) = table.value("labels") {
        let names = rule.source.family().labels;
        rule.only = value.texts(problems, names)?;
    }
    if let Some(value) = table.value("when") {
        rule.limit.side = match value.string(problems, "\"above\" or \"below\"")? {
            "above" => Side::Above,
            "below" => Side::Below,
            _ => {
                problems.add(value.span(), "`when` takes \"above\" or \"below\"");
                return None;
            }
        };
    }
    for (key, place) in [("warning", &mut rule.limit.warning), ("critical", &mut rule.limit.critical)] {
        if let Some(value) = table.value(key) {
            *place = Some(value.number(problems)?);
        }
    }
    if let Some(value) = table.value("hysteresis") {
        rule.limit.hysteresis = value.number(problems)?;
        if rule.limit.hysteresis < 0.0 {
            problems.add(value.span(), "`hysteresis` is less than nothing");
        }
    }
    if let Some(value) = table.value("for") {
        let time =
            value.duration(problems, "a time such as \"5m\", up to a year", Duration::ZERO..=LONGEST)?;
        (rule.limit.raise_after, rule.limit.clear_after) = (time, time);
    }
    check(problems, table, &rule);
    Some(rule)
}

fn own_rule(problems: &mut Problems<'_>, value: Value<'_>, name: &str) -> Option<Rule> {
    let metric = value.string(problems, "a metric")?;
    let source = match rules::source(metric) {
        Ok(source) => source,
        Err(why) => {
            let shown: String = metric.chars().take(64).collect();
            let hint = "/metrics of a node has all of them that it measures";
            problems.add_hint(value.span(), format!("`{shown}` {why}"), hint);
            return None;
        }
    };
    let limit = Limit {
        side: Side::Above,
        warning: None,
        critical: None,
        hysteresis: 0.0,
        raise_after: USUAL_FOR,
        clear_after: USUAL_FOR,
    };
    Some(Rule { name: name.to_owned(), source, only: Vec::new(), limit })
}

fn check(problems: &mut Problems<'_>, table: &Table<'_>, rule: &Rule) {
    let Limit { side, warning, critical, .. } = rule.limit;
    if warning.is_none() && critical.is_none() {
        let hint = "add warning = 0.9, critical = 0.95, or one of them";
        problems.add_hint(table.span(), format!("the alert `{}` has no bound", rule.name), hint);
    }
    if let (Some(warning), Some(critical)) = (warning, critical) {
        let is_right = if side == Side::Above { critical >= warning } else { critical <= warning };
        if !is_right {
            let place = table.value("critical").or(table.value("warning")).map_or(table.span(), Value::span);
            let hint = "exchange them, or see `when`";
            problems.add_hint(place, "it would be critical before it is a warning", hint);
        }
    }
}

fn read_mail(problems: &mut Problems<'_>, value: Value<'_>, has_mail: bool) -> Vec<String> {
    let values = value.list(problems, "a list such as [\"ops@example.org\"]");
    if values.len() > MAX_ADDRESSES {
        problems.add_hint(
            value.span(),
            format!("more than {MAX_ADDRESSES} mail addresses"),
            "make a list of them on the mail server",
        );
    }
    if !values.is_empty() && !has_mail {
        let hint = "add [mail] with server = \"mail.example.org\" and from = \"san1@example.org\"";
        problems.add_hint(value.span(), "there is no [mail], which says how messages are sent", hint);
    }
    values.into_iter().filter_map(|value| mail::address(problems, value)).collect()
}

fn read_webhook(problems: &mut Problems<'_>, value: Value<'_>) -> Option<Url> {
    let text = value.string(problems, "an address such as https://example.org/hook")?;
    if text == HIDDEN {
        let hint = "write it there; `fels dump --secrets` prints a configuration with all of them";
        problems.add_hint(value.span(), "this address was hidden when the configuration was printed", hint);
        return None;
    }
    Url::read(text)
        .map_err(|why| problems.add_hint(value.span(), format!("`webhook` {why}"), "write https://HOST/PATH"))
        .ok()
}

fn read_reminder(problems: &mut Problems<'_>, value: Value<'_>) -> Option<Remind> {
    if value.is_text("never") {
        return Some(Remind::Never);
    }
    value
        .duration(problems, "a time from \"1m\" to a year, or \"never\"", SHORTEST_REMINDER..=LONGEST)
        .map(Remind::Every)
}
