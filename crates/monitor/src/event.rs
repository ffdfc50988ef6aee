//! What happens to a node: one enum, each event with a name that stays, its fields, how bad it is, and one sentence.
//!
//! A row of the table below is all that has to be said of an event. Whoever notices something makes one; what is done with
//! it (kept, told, mailed) knows none of them by name.

#[cfg(test)]
mod tests;

use std::fmt;
use std::str::FromStr;

/// How bad something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// Good to know.
    Info,
    /// To be seen to, when it suits.
    Warning,
    /// To be seen to now.
    Critical,
}

impl Severity {
    /// All of them, the least bad first.
    pub const ALL: [Severity; 3] = [Severity::Info, Severity::Warning, Severity::Critical];

    /// In a word.
    pub fn name(self) -> &'static str {
        match self {
            Self::Info => "info",
            Self::Warning => "warning",
            Self::Critical => "critical",
        }
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Severity {
    type Err = NoSeverity;

    fn from_str(text: &str) -> Result<Severity, NoSeverity> {
        Severity::ALL.into_iter().find(|severity| severity.name() == text).ok_or(NoSeverity)
    }
}

/// There is no such word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("how bad something is, is `info`, `warning` or `critical`")]
pub struct NoSeverity;

/// A field of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Field {
    /// A name, a place, a sentence.
    Text(String),
    /// How many, or which.
    Number(u64),
}

impl From<&String> for Field {
    fn from(text: &String) -> Field {
        Field::Text(text.clone())
    }
}

impl From<&u64> for Field {
    fn from(number: &u64) -> Field {
        Field::Number(*number)
    }
}

/// Makes the enum and all that follows from its rows.
macro_rules! events {
    ($($variant:ident $name:literal $about:literal { $($field:ident: $type:ty),* } $severity:expr, $sentence:expr;)+) => {
        /// Something that happened.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub enum Event {
            $(
                #[doc = $about]
                $variant { $(#[doc = concat!("Its `", stringify!($field), "`.")] $field: $type),* },
            )+
        }

        impl Event {
            /// The name and the meaning of every event, in the order of the documentation.
            pub const ALL: &[(&str, &str)] = &[$(($name, $about)),+];

            /// By which programs know it.
            pub fn name(&self) -> &'static str {
                match self { $(Self::$variant { .. } => $name),+ }
            }

            /// How bad it is.
            #[allow(unused_variables, reason = "it may depend on some of the fields")]
            pub fn severity(&self) -> Severity {
                match self { $(Self::$variant { $($field),* } => $severity),+ }
            }

            /// What happened, for people: a sentence without a full stop.
            #[allow(unused_variables, reason = "it need not say all of them")]
            pub fn sentence(&self) -> String {
                match self { $(Self::$variant { $($field),* } => $sentence.to_string()),+ }
            }

            /// What it is about, by name.
            pub fn fields(&self) -> Vec<(&'static str, Field)> {
                match self { $(Self::$variant { $($field),* } => vec![$((stringify!($field), Field::from($field))),*]),+ }
            }
        }
    };
}

use Severity::{Critical, Info, Warning};

events! {
    NodeStarted "node-started" "The node serves." { version: String } Info, format!("the node serves, fels {version}");
    NodeStopping "node-stopping" "The node was told to end." {} Info, "the node was told to end, and drains";
    ConfigurationChanged "configuration-changed" "The node has another configuration." { version: String, steps: u64 } Info,
        format!("the configuration was changed, version {version}: {}", counted(*steps, "step"));
    VolumeCreated "volume-created" "A volume is served that was not." { volume: String, bytes: u64 } Info,
        format!("volume {volume} is served, {bytes} bytes");
    VolumeChanged "volume-changed" "A volume was changed in use." { volume: String, what: String } Info,
        format!("volume {volume} was changed: {what}");
    VolumeWithdrawn "volume-withdrawn" "A volume is served no more; its bytes stay." { volume: String } Info,
        format!("volume {volume} is served no more; its bytes stay");
    VolumeDeleted "volume-deleted" "A volume was deleted with its bytes." { volume: String } Info,
        format!("volume {volume} was deleted with its bytes");
    PoolOpened "pool-opened" "A pool was opened, or made, while the node serves." { pool: String } Info,
        format!("pool {pool} was opened");
    PoolClosed "pool-closed" "A pool was closed; what is on it stays." { pool: String } Info, format!("pool {pool} was closed");
    PortalsChanged "portals-changed" "The node listens elsewhere." { what: String } Info, format!("the node listens {what}");
    MemberFaulted "member-faulted" "A member of a pool is used no more." { pool: String, slot: u64, place: String, cause: String }
        Warning, format!("member {slot} of pool {pool} is out{}{}", at(place), because(cause));
    MemberReturned "member-returned" "A member came back, and is given what it missed." { pool: String, slot: u64, place: String }
        Info, format!("member {slot} of pool {pool} is back{}, and is given what it lacks", at(place));
    MemberReplaced "member-replaced" "Another member took the place of one, and is given everything."
        { pool: String, slot: u64, place: String }
        Info, format!("member {slot} of pool {pool} was replaced{}, and is given everything", at(place));
    SpareTookOver "spare-took-over" "A spare took the place of a member that is out." { pool: String, slot: u64, place: String }
        Warning, format!("a spare took over as member {slot} of pool {pool}{}, and is given everything", at(place));
    MemberRebuilt "member-rebuilt" "A member has everything again." { pool: String, slot: u64 } Info,
        format!("member {slot} of pool {pool} is rebuilt");
    MemberSlow "member-slow" "A member takes several times as long as the others." { pool: String, slot: u64, place: String }
        Warning, format!("member {slot} of pool {pool} is much slower than the others{}", at(place));
    MemberQuick "member-quick" "A member that was slow is as fast as the others." { pool: String, slot: u64 } Info,
        format!("member {slot} of pool {pool} is as fast as the others again");
    PoolFailed "pool-failed" "More members are out than the pool can do without." { pool: String } Critical,
        format!("pool {pool} has failed: more members are out than it can do without, and nothing is written any more");
    ScrubBegun "scrub-begun" "All of a pool is being verified." { pool: String } Info, format!("a scrub of pool {pool} has begun");
    ScrubEnded "scrub-ended" "A scrub is over." { pool: String, bad: u64, repaired: u64, lost: u64 }
        if *lost > 0 { Critical } else if *bad > 0 { Warning } else { Info },
        format!("the scrub of pool {pool} is over: {}, {repaired} repaired, {lost} lost", counted(*bad, "bad block"));
    BlocksRepaired "blocks-repaired" "Blocks that were bad were rebuilt and written again." { pool: String, count: u64 } Warning,
        format!("{} of pool {pool} {} bad, and {} rebuilt from the others", counted(*count, "block"), were(*count), were(*count));
    BlocksUnrepairable "blocks-unrepairable" "Blocks are lost: nothing could rebuild them." { pool: String, count: u64 } Critical,
        format!("{} of pool {pool} {} lost: nothing could rebuild {}", counted(*count, "block"), if *count == 1 { "is" } else { "are" },
            if *count == 1 { "it" } else { "them" });
    UserCameIn "user-came-in" "Somebody came in with a password." { user: String, from: String } Info,
        format!("{user} came in from {from}");
    LoginRefused "login-refused" "Somebody tried a wrong password or a name that there is not." { from: String } Warning,
        format!("a login from {from} was refused");
    LoginLocked "login-locked" "Passwords were tried too often." { from: String } Warning,
        format!("logins from {from} are refused for a while: there were too many");
    InitiatorLoggedIn "initiator-logged-in" "An initiator has a session, a controller or an export."
        { protocol: String, initiator: String, from: String, target: String } Info,
        format!("{initiator} logged in to {target} ({protocol}), from {from}");
    InitiatorLoggedOut "initiator-logged-out" "That is over: in an orderly way, because it was lost, or because the node keeps it out."
        { protocol: String, initiator: String, from: String, target: String, how: String, why: String }
        if how == "lost" { Warning } else { Info },
        format!("{initiator} {} {target} ({protocol}), from {from}{}", parting(how), because(why));
    InitiatorRefused "initiator-refused" "An initiator was not let in: it may not use what it wants, or could not prove who it is."
        { protocol: String, initiator: String, from: String, target: String, why: String } Warning,
        format!("{initiator} was not let in to {target} ({protocol}), from {from}{}", because(why));
    AlertChanged "alert-changed" "A limit was crossed, in one direction or the other." { alert: String, from: String, to: String, why: String }
        match to.as_str() { "critical" => Critical, "warning" => Warning, _ => Info },
        format!("alert {alert} is {to}, and was {from}: {why}");
    AlertAcknowledged "alert-acknowledged" "Somebody sees to an alert." { alert: String, who: String } Info,
        format!("{who} sees to alert {alert}");
    AlertMuted "alert-muted" "Nobody is told of an alert for a while." { alert: String, who: String, until: String } Info,
        format!("{who} has muted alert {alert} until {until}");
    AlertUnmuted "alert-unmuted" "An alert is told again." { alert: String, who: String } Info,
        format!("{who} lets alert {alert} be told again");
    AlertDelivered "alert-delivered" "A message has arrived." { to: String, about: String } Info, format!("{to} was told: {about}");
    AlertUndelivered "alert-undelivered" "A message could not be delivered, and is tried again or given up."
        { to: String, about: String, why: String } Warning, format!("{to} could not be told: {why}; it was: {about}");
}

/// `1 block`, `2 blocks`.
fn counted(count: u64, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}

fn were(count: u64) -> &'static str {
    if count == 1 { "was" } else { "were" }
}

/// How somebody went.
fn parting(how: &str) -> &'static str {
    match how {
        "orderly" => "logged out of",
        "kept out" => "was sent away from",
        _ => "was lost by",
    }
}

fn at(place: &str) -> String {
    if place.is_empty() { String::new() } else { format!(" ({place})") }
}

fn because(cause: &str) -> String {
    if cause.is_empty() { String::new() } else { format!(": {cause}") }
}
