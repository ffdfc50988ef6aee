//! How everything is that has a limit, who is to be told, and what waits for being sent: a state machine without I/O and without a
//! clock.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::fmt::Write as _;
use std::time::Duration;

use monitor::event::Event;
use monitor::limit::rules::{BUILT_IN, BuiltIn, Rule};
use monitor::limit::source::Memory;
use monitor::limit::{Judge, Level, words};
use monitor::metric::View;
use serde::{Deserialize, Serialize};

use super::file::Kept;
use super::said::{Change, change, digest};
use crate::config::{Alert, Config, DEFAULT, Remind};
use crate::events::Record;
use crate::moment::Moment;

/// Things that are held against limits, at most.
const MAX_ENTRIES: usize = 10_000;
/// Messages that wait at most; the oldest ones go.
pub const MAX_WAITING: usize = 500;
/// Changes of one moment that a receiver gets each in a message of its own; more come in one.
const MAX_AT_ONCE: usize = 10;
/// Changes that such a message tells, the worst ones; of the others how many there are. All that may wait has to fit the file.
const MAX_TOLD: usize = 20;
/// How long after the first failure a message is tried again; twice as long after each further one.
const FIRST_PAUSE_S: u64 = 10;
/// No longer than this.
const LONGEST_PAUSE_S: u64 = 3600;
/// After this long a message is given up.
const GIVEN_UP_AFTER_S: u64 = 3 * 24 * 3600;
/// How long something that has no figures any more is still shown.
const FORGOTTEN_AFTER_S: u64 = 3600;
const DAY_S: u64 = 24 * 3600;
/// How often what is usual is kept.
const LEARNED_EVERY_S: u64 = 3600;

/// One thing, held against one limit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// The limit.
    pub rule: String,
    /// How it is: `unknown`, `ok`, `warning` or `critical`.
    #[serde(with = "super::file::level")]
    pub level: Level,
    /// Since when.
    pub since: Moment,
    /// The level that people were told of last.
    #[serde(with = "super::file::level")]
    pub told: Level,
    /// When they were told, or reminded.
    pub told_at: Moment,
    /// What is the matter.
    pub sentence: String,
    /// What can be done.
    pub hint: String,
    /// The figure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<f64>,
    /// Somebody sees to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub acknowledged: Option<Acknowledged>,
    /// Nobody is told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub muted: Option<Muted>,
}

/// Who sees to an alert.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Acknowledged {
    /// Who.
    pub who: String,
    /// Since when.
    pub at: Moment,
}

/// That nobody is told of an alert.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Muted {
    /// Who wished it.
    pub who: String,
    /// Until when.
    pub until: Moment,
}

/// Who gets a message.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Target {
    /// A mail address.
    Mail(String),
    /// The webhook of the `[[alert]]` of that name: its address is a secret, and stays in the configuration.
    Webhook(String),
}

impl std::fmt::Display for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Mail(address) => f.write_str(address),
            Self::Webhook(name) => write!(f, "webhook of {name}"),
        }
    }
}

/// Something that is to be told to somebody.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Message {
    /// One more than that of the one before; a receiver that gets one twice knows it by this.
    pub id: u64,
    /// When it was made.
    pub at: Moment,
    /// Whom.
    pub to: Target,
    /// In a line.
    pub subject: String,
    /// All of it.
    pub text: String,
    /// The same for programs.
    pub body: serde_json::Value,
    /// How often it was tried.
    #[serde(skip)]
    pub tries: u32,
    /// When it may be tried again.
    #[serde(skip)]
    pub not_before: Option<Moment>,
}

/// The state of everything.
pub struct Board {
    kept: Kept,
    judges: HashMap<String, Judge>,
    memory: Memory,
    /// It is not as the file has it.
    is_changed: bool,
    /// When what is usual was kept.
    learned: Option<Moment>,
}

impl Board {
    /// As it was kept.
    pub fn new(kept: Kept) -> Board {
        let judges =
            kept.alerts.iter().map(|(id, entry)| (id.clone(), Judge::resumed(entry.level))).collect();
        let memory = Memory { baselines: kept.baselines(), ..Memory::default() };
        Board { kept, judges, memory, is_changed: false, learned: None }
    }

    /// What is to be kept, if that is another state than was kept.
    pub fn to_keep(&mut self) -> Option<Kept> {
        if !std::mem::take(&mut self.is_changed) {
            return None;
        }
        self.kept.set_baselines(&self.memory.baselines);
        Some(self.kept.clone())
    }

    /// It was not kept.
    pub fn keep_again(&mut self) {
        self.is_changed = true;
    }

    /// All things by their ids.
    pub fn list(&self) -> Vec<(String, Entry)> {
        self.kept.alerts.iter().map(|(id, entry)| (id.clone(), entry.clone())).collect()
    }

    /// Messages that wait.
    pub fn waiting(&self) -> usize {
        self.kept.queue.len()
    }

    /// Somebody sees to it.
    pub fn acknowledge(&mut self, id: &str, who: &str, at: Moment) -> bool {
        let Some(entry) = self.kept.alerts.get_mut(id) else { return false };
        entry.acknowledged = Some(Acknowledged { who: who.to_owned(), at });
        self.is_changed = true;
        true
    }

    /// Nobody is told, or somebody is again.
    pub fn mute(&mut self, id: &str, muted: Option<Muted>) -> bool {
        let Some(entry) = self.kept.alerts.get_mut(id) else { return false };
        entry.muted = muted;
        self.is_changed = true;
        true
    }

    /// Holds the figures of a look against all limits, and makes the messages that follow. `at` is of a clock that never goes back, `node` what the
    /// node is called.
    pub fn look(
        &mut self,
        view: &View,
        config: &Config,
        at: Duration,
        now: Moment,
        node: &str,
    ) -> Vec<Event> {
        let mut events = Vec::new();
        let mut seen = HashSet::new();
        for rule in rules(config) {
            for reading in rule.source.readings(view, &rule.only, &mut self.memory) {
                let id = id(&rule, &reading.labels);
                if seen.insert(id.clone()) {
                    let words = |level| words::say(&rule, &reading.labels, level, reading.value);
                    events.extend(self.hold(&rule, &id, at, now, reading.value, words));
                }
            }
        }
        self.miss(&seen, config, at, now);
        self.tell(config, now, node);
        // What is usual changes with every look, and need not be known to the minute.
        if now.since(*self.learned.get_or_insert(now)) >= LEARNED_EVERY_S {
            (self.learned, self.is_changed) = (Some(now), true);
        }
        events
    }

    /// Holds a figure against its limit.
    fn hold(
        &mut self,
        rule: &Rule,
        id: &str,
        at: Duration,
        now: Moment,
        value: Option<f64>,
        words: impl Fn(Level) -> (String, String),
    ) -> Option<Event> {
        if !self.kept.alerts.contains_key(id) && self.kept.alerts.len() >= MAX_ENTRIES {
            return None;
        }
        let level = self.judges.entry(id.to_owned()).or_default().judge(&rule.limit, at, value);
        let fresh = || Entry {
            rule: rule.name.clone(),
            level: Level::Unknown,
            since: now,
            told: Level::Ok,
            told_at: now,
            sentence: String::new(),
            hint: String::new(),
            value: None,
            acknowledged: None,
            muted: None,
        };
        let entry = self.kept.alerts.entry(id.to_owned()).or_insert_with(fresh);
        // As long as the level is that of a figure of before, so is what is said of it.
        let value = value.filter(|value| value.is_finite());
        if value.is_some() || level == Level::Unknown || entry.sentence.is_empty() {
            (entry.sentence, entry.hint) = words(level);
            entry.value = value;
        }
        if level == entry.level {
            return None;
        }
        let was = std::mem::replace(&mut entry.level, level);
        entry.since = now;
        // Where nobody knew for a while, it is worse than what was told before, or it is not.
        let known = if was == Level::Unknown { entry.told } else { was };
        if level > known || level == Level::Ok {
            entry.acknowledged = None;
        }
        self.is_changed = true;
        let is_news = was.is_bad() || level.is_bad();
        is_news.then(|| Event::AlertChanged {
            alert: id.to_owned(),
            from: was.name().to_owned(),
            to: level.name().to_owned(),
            why: entry.sentence.clone(),
        })
    }

    /// What had no figures in a look.
    fn miss(&mut self, seen: &HashSet<String>, config: &Config, at: Duration, now: Moment) {
        let rules: HashMap<String, Rule> = rules(config).map(|rule| (rule.name.clone(), rule)).collect();
        let missing: Vec<String> =
            self.kept.alerts.keys().filter(|id| !seen.contains(*id)).cloned().collect();
        for id in missing {
            let Some(entry) = self.kept.alerts.get_mut(&id) else { continue };
            let limit = rules.get(&entry.rule).map(|rule| rule.limit);
            let level = limit.map(|limit| self.judges.entry(id.clone()).or_default().judge(&limit, at, None));
            match level {
                Some(level) if level != entry.level => {
                    (entry.level, entry.since, entry.value) = (level, now, None);
                    self.is_changed = true;
                }
                Some(Level::Unknown) if now.since(entry.since) < FORGOTTEN_AFTER_S => {}
                Some(Level::Ok | Level::Warning | Level::Critical) => {}
                // Nobody looks at it any more, or it is not there any more.
                Some(Level::Unknown) | None => {
                    self.kept.alerts.remove(&id);
                    self.judges.remove(&id);
                    self.is_changed = true;
                }
            }
        }
    }

    /// Makes the messages that are due.
    fn tell(&mut self, config: &Config, now: Moment, node: &str) {
        let mut changes = Vec::new();
        for (id, entry) in &mut self.kept.alerts {
            if entry.muted.as_ref().is_some_and(|muted| muted.until <= now) {
                entry.muted = None;
                self.is_changed = true;
            }
            // What is of a time to come was told by a clock that was wrong.
            if entry.told_at > now {
                entry.told_at = now;
                self.is_changed = true;
            }
            if entry.muted.is_some() || entry.level == Level::Unknown {
                continue;
            }
            let is_due = match reminder(config, &entry.rule) {
                Remind::Never => false,
                Remind::Every(time) => now.since(entry.told_at) >= time.as_secs(),
            };
            let is_reminder = entry.level == entry.told;
            if is_reminder && !(entry.level.is_bad() && entry.acknowledged.is_none() && is_due) {
                continue;
            }
            changes.push(change(id, entry, is_reminder, now, node));
            (entry.told, entry.told_at) = (entry.level, now);
            self.is_changed = true;
        }
        self.enqueue(config, &changes, now, node);
    }

    /// One message for each change and each receiver; of many changes at once, one for all of them.
    fn enqueue(&mut self, config: &Config, changes: &[Change], now: Moment, node: &str) {
        let mut to: BTreeMap<String, (Target, Vec<&Change>)> = BTreeMap::new();
        for change in changes {
            for target in targets(config, &change.rule) {
                to.entry(format!("{target:?}")).or_insert_with(|| (target, Vec::new())).1.push(change);
            }
        }
        for (target, mut changes) in to.into_values() {
            if changes.len() <= MAX_AT_ONCE {
                for change in changes {
                    let (subject, text) = (change.subject.clone(), change.text.clone());
                    self.push(target.clone(), now, subject, text, change.body.clone());
                }
                continue;
            }
            let subject = format!("[{node}] {} alerts changed at once", changes.len());
            let more = changes.len().saturating_sub(MAX_TOLD);
            changes.sort_by_key(|change| std::cmp::Reverse(change.level));
            changes.truncate(MAX_TOLD);
            let mut text = changes.iter().map(|change| change.text.as_str()).collect::<Vec<_>>().join("\n\n");
            if more > 0 {
                // Writing to a String does not fail.
                let _ = write!(text, "\nand {more} more: fels alert list --all\n");
            }
            let bodies: Vec<_> = changes.iter().map(|change| change.body.clone()).collect();
            let ids: Vec<_> = changes.iter().map(|change| change.id.as_str()).collect();
            let body = serde_json::json!({ "kind": "changes", "node": node, "alerts": ids, "changes": bodies, "more": more });
            self.push(target, now, subject, text, body);
        }
    }

    fn push(&mut self, to: Target, at: Moment, subject: String, text: String, body: serde_json::Value) {
        self.kept.next_message += 1;
        let id = self.kept.next_message;
        let message = Message { id, at, to, subject, text, body, tries: 0, not_before: None };
        self.kept.queue.push_back(message);
        if self.kept.queue.len() > MAX_WAITING
            && let Some(lost) = self.kept.queue.pop_front()
        {
            tracing::error!("{} is not told, as too many messages wait: {}", lost.to, lost.subject);
        }
        self.is_changed = true;
    }

    /// Whether the summary of the day is to be made now. The first day there is none: nothing is known of it.
    pub fn is_digest_due(&mut self, config: &Config, now: Moment) -> bool {
        let Some(minute) = config.mail.as_ref().and_then(|mail| mail.digest_minute) else { return false };
        let today = now.unix() / DAY_S;
        if self.kept.digest_day.is_none() {
            let is_past = now.unix() % DAY_S >= u64::from(minute) * 60;
            self.kept.digest_day = Some(if is_past { today } else { today.saturating_sub(1) });
            self.is_changed = true;
        }
        // A day behind tomorrow is of a clock that was wrong.
        let is_sent = |day: u64| (today..=today + 1).contains(&day);
        now.unix() % DAY_S >= u64::from(minute) * 60 && !self.kept.digest_day.is_some_and(is_sent)
    }

    /// Makes the summary of the day, with the events of it, the newest first.
    pub fn digest(&mut self, config: &Config, events: &[Record], now: Moment, node: &str) {
        self.kept.digest_day = Some(now.unix() / DAY_S);
        self.is_changed = true;
        let (subject, text, body) = digest(&self.kept.alerts, events, now, node);
        let default = config.alerts.iter().find(|alert| alert.name == DEFAULT);
        for address in default.and_then(|alert| alert.mail.clone()).unwrap_or_default() {
            self.push(Target::Mail(address), now, subject.clone(), text.clone(), body.clone());
        }
    }

    /// Messages that can be tried now: of each receiver the oldest one, so that he gets them in order.
    pub fn due(&self, now: Moment) -> Vec<Message> {
        let mut receivers = HashSet::new();
        let first = self.kept.queue.iter().filter(|message| receivers.insert(message.to.clone()));
        // Nothing pauses for longer: what does is of a clock that was set back since.
        let pauses = |until: Moment| until > now && until.since(now) <= LONGEST_PAUSE_S;
        first.filter(|message| !message.not_before.is_some_and(pauses)).cloned().collect()
    }

    /// When the next one can be tried.
    pub fn next_due(&self) -> Option<Moment> {
        self.kept.queue.iter().filter_map(|message| message.not_before).min()
    }

    /// A message has arrived.
    pub fn delivered(&mut self, id: u64) {
        self.kept.queue.retain(|message| message.id != id);
        self.is_changed = true;
    }

    /// A message has not arrived. Says whether it is given up.
    pub fn failed(&mut self, id: u64, now: Moment) -> bool {
        let Some(message) = self.kept.queue.iter_mut().find(|message| message.id == id) else { return false };
        if now.since(message.at) >= GIVEN_UP_AFTER_S {
            self.delivered(id);
            return true;
        }
        let pause = FIRST_PAUSE_S.saturating_mul(1 << message.tries.min(20)).min(LONGEST_PAUSE_S);
        message.tries = message.tries.saturating_add(1);
        message.not_before = Some(now.after(pause));
        false
    }
}

/// All limits that are looked at: those that every node has, as they are changed, and one's own.
pub fn rules(config: &Config) -> impl Iterator<Item = Rule> + '_ {
    let section = |name: &str| config.alerts.iter().find(|alert| alert.name == name);
    let usual = BUILT_IN.iter().filter(move |rule| section(rule.name).is_none()).map(BuiltIn::rule);
    let own = config.alerts.iter().filter(|alert| alert.enabled).filter_map(|alert| alert.rule.clone());
    usual.chain(own)
}

/// What the section of a limit says, or that of all others.
fn said<'c, T>(
    config: &'c Config,
    rule: &str,
    of: impl Fn(&'c Alert) -> Option<T>,
) -> Option<(&'c Alert, T)> {
    let sections = [rule, DEFAULT].into_iter();
    let mut sections = sections.filter_map(|name| config.alerts.iter().find(|alert| alert.name == name));
    sections.find_map(|alert| of(alert).map(|said| (alert, said)))
}

/// How often people are reminded of what is bad about a limit.
pub(crate) fn reminder(config: &Config, rule: &str) -> Remind {
    said(config, rule, |alert| alert.remind).map_or_else(Remind::default, |(_, remind)| remind)
}

/// Who is told of a limit.
pub(crate) fn targets(config: &Config, rule: &str) -> Vec<Target> {
    let mail = said(config, rule, |alert| alert.mail.clone()).map_or_else(Vec::new, |(_, mail)| mail);
    let webhook = said(config, rule, |alert| alert.webhook.as_ref());
    let webhook = webhook.map(|(alert, _)| Target::Webhook(alert.name.clone()));
    mail.into_iter().map(Target::Mail).chain(webhook).collect()
}

/// By which an alert is known: its limit, and what it is of.
fn id(rule: &Rule, labels: &[(&'static str, String)]) -> String {
    labels.iter().fold(rule.name.clone(), |id, (_, value)| id + ":" + value)
}

/// What is kept of the queue and the entries.
pub(super) type Queue = VecDeque<Message>;
