//! Sending what waits, until it has arrived: what the server has not taken is tried again, also after a restart.

use std::sync::Arc;
use std::time::Duration;

use monitor::event::Event;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::board::{Message, Target};
use super::mail::{self, Letter};
use super::{Alerts, Tried, webhook};
use crate::administration::Administration;
use crate::config::{Config, DEFAULT};
use crate::moment::Moment;

/// How often it is looked whether a message is to be tried again.
const LOOK: Duration = Duration::from_secs(5);
/// How long one attempt may take.
const PATIENCE: Duration = Duration::from_secs(120);
/// How long a test of all receivers may take: its answer is waited for, and not much longer.
const TEST_PATIENCE: Duration = Duration::from_secs(40);
/// Attempts at once.
const MAX_AT_ONCE: usize = 8;

/// Sends what waits, for as long as it is polled.
pub(super) async fn run(alerts: Alerts, administration: Arc<Administration>) {
    loop {
        let due = alerts.board().due(Moment::now());
        if due.is_empty() {
            // Where nothing waits, nobody has to look.
            let waits = alerts.waiting() > 0;
            tokio::select! {
                () = alerts.0.waiting.notified() => {}
                () = tokio::time::sleep(LOOK), if waits => {}
            }
            continue;
        }
        let state = administration.state();
        let config = &state.running;
        let mut sending = JoinSet::new();
        for message in due.into_iter().take(MAX_AT_ONCE) {
            let (config, node) = (config.clone(), alerts.0.node.clone());
            sending.spawn(async move {
                let sent = send(&config, &node, &message).await;
                (message, sent)
            });
        }
        while let Some(done) = sending.join_next().await {
            if let Ok((message, sent)) = done {
                settle(&alerts, message, sent).await;
            }
        }
    }
}

/// Forgets what has arrived, and keeps that it has; what has not is tried again.
async fn settle(alerts: &Alerts, message: Message, sent: Result<(), String>) {
    let (to, about) = (message.to.to_string(), message.subject.clone());
    alerts
        .change(|board| match sent {
            Ok(()) => {
                board.delivered(message.id);
                ((), vec![Event::AlertDelivered { to, about }])
            }
            Err(why) => {
                let is_given_up = board.failed(message.id, Moment::now());
                tracing::warn!("{to} could not be told: {why}");
                // Once, and not with each attempt of three days.
                let why = if is_given_up { format!("{why}; it is given up") } else { why };
                let is_told = is_given_up || message.tries == 0;
                ((), is_told.then_some(Event::AlertUndelivered { to, about, why }).into_iter().collect())
            }
        })
        .await
        // One that has arrived is sent again after a restart: it has the same id.
        .ok();
}

async fn send(config: &Config, node: &str, message: &Message) -> Result<(), String> {
    let attempt = async {
        match &message.to {
            Target::Mail(to) => {
                let mail = config.mail.as_ref().ok_or("there is no [mail] in the configuration")?;
                // Which message it is, whoever counts: a node that begins anew counts anew, at another time.
                let id = format!("<fels.{}.{}@{}>", message.at.unix(), message.id, domain(node));
                let letter = Letter { to, subject: &message.subject, text: &message.text, id };
                mail::send(mail, &letter).await
            }
            Target::Webhook(name) => {
                let url = url(config, name).ok_or("there is no webhook in the configuration any more")?;
                let mut body = message.body.clone();
                body["message"] = format!("{}.{}", message.at.unix(), message.id).into();
                webhook::post(url, &body).await
            }
        }
    };
    let late = || Err(format!("it was not taken within {} seconds", PATIENCE.as_secs()));
    tokio::time::timeout(PATIENCE, attempt).await.unwrap_or_else(|_| late())
}

fn url<'c>(config: &'c Config, name: &str) -> Option<&'c webhook::Url> {
    config.alerts.iter().find(|alert| alert.name == name)?.webhook.as_ref()
}

/// What stands behind the @ of a message's identity.
fn domain(node: &str) -> String {
    let domain: String =
        node.chars().filter(|one| one.is_ascii_alphanumeric() || matches!(one, '.' | '-')).collect();
    if domain.is_empty() { "fels".to_owned() } else { domain }
}

/// Sends a message to everybody that the configuration names, to several at once: one that does not answer keeps nobody from being tried.
pub(super) async fn test(config: &Config, node: &str) -> Vec<Tried> {
    let mut targets: Vec<Target> = Vec::new();
    for alert in &config.alerts {
        let mail = alert.mail.iter().flatten().cloned().map(Target::Mail);
        let webhook = alert.webhook.iter().map(|_| Target::Webhook(alert.name.clone()));
        targets.extend(mail.chain(webhook));
    }
    // Each once, those of `default` first: the order is that of the answer.
    targets.sort_by_key(|target| *target != Target::Webhook(DEFAULT.to_owned()));
    let mut seen = std::collections::HashSet::new();
    targets.retain(|target| seen.insert(target.clone()));
    let (config, room) = (Arc::new(config.clone()), Arc::new(Semaphore::new(MAX_AT_ONCE)));
    let until = Instant::now() + TEST_PATIENCE;
    let mut trying = Vec::new();
    for (number, to) in targets.into_iter().enumerate() {
        let at = Moment::now();
        let message = Message {
            id: number as u64,
            at,
            subject: format!("[{node}] this is a test"),
            text: format!("Somebody has asked {node} at {at} whether its alerts reach you. They do."),
            body: serde_json::json!({ "kind": "test", "node": node, "at": at }),
            to,
            tries: 0,
            not_before: None,
        };
        let to = message.to.to_string();
        let (config, node, room) = (config.clone(), node.to_owned(), room.clone());
        let attempt = tokio::spawn(tokio::time::timeout_at(until, async move {
            let _place = room.acquire().await;
            send(&config, &node, &message).await
        }));
        trying.push((to, attempt));
    }
    let mut tried = Vec::new();
    for (to, attempt) in trying {
        let late = || Err(format!("it was not taken within {} seconds", TEST_PATIENCE.as_secs()));
        let sent = attempt.await.map(|sent| sent.unwrap_or_else(|_| late()));
        let error = sent.unwrap_or_else(|error| Err(error.to_string())).err();
        tried.push(Tried { to, error });
    }
    tried
}
