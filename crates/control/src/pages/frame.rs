//! What is around every page: where one is, who one is, how the node is.

use std::sync::LazyLock;

use axum::http::StatusCode;

use super::asker::Asker;
use super::parts::State;
use super::{House, assets};
use crate::api::Problem;
use crate::api::model::NodeStatus;
use crate::api::people::model::Me;
use crate::people::Role;

/// The parts of the dashboard, as its navigation has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Overview,
    Pools,
    Volumes,
    Initiators,
    Alerts,
    Events,
    Graphs,
    Lab,
    Audit,
    Settings,
}

impl Place {
    const ALL: [Place; 10] = [
        Place::Overview,
        Place::Pools,
        Place::Volumes,
        Place::Initiators,
        Place::Alerts,
        Place::Events,
        Place::Graphs,
        Place::Lab,
        Place::Audit,
        Place::Settings,
    ];

    fn entry(self) -> (&'static str, &'static str) {
        match self {
            Self::Overview => ("/", "Overview"),
            Self::Pools => ("/pools", "Pools"),
            Self::Volumes => ("/volumes", "Volumes"),
            Self::Initiators => ("/initiators", "Initiators"),
            Self::Alerts => ("/alerts", "Alerts"),
            Self::Events => ("/events", "Events"),
            Self::Graphs => ("/graphs", "Graphs"),
            Self::Lab => ("/lab", "Lab"),
            Self::Audit => ("/audit", "Audit"),
            Self::Settings => ("/settings", "Settings"),
        }
    }
}

/// An entry of the navigation.
pub(super) struct Entry {
    pub path: &'static str,
    pub name: &'static str,
    pub is_here: bool,
}

/// What is around a page.
pub(super) struct Frame {
    pub title: String,
    pub node: &'static str,
    pub entries: Vec<Entry>,
    pub me: Option<Me>,
    pub status: Option<NodeStatus>,
    /// What was done just now, a sentence each.
    pub said: Vec<String>,
    pub style: String,
    pub script: String,
    pub icon: String,
    /// The page whose parts change by themselves.
    pub live: Option<String>,
}

/// The name of this machine.
static NODE: LazyLock<String> = LazyLock::new(|| {
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    name.split('.').next().unwrap_or_default().to_owned()
});

impl Frame {
    /// Around a page for somebody who may look at least.
    pub async fn new(
        house: &House,
        asker: &Asker,
        place: impl Into<Option<Place>>,
        title: &str,
    ) -> Result<Frame, Problem> {
        let place = place.into();
        let me: Me = asker.get("/v1/me").await?;
        let status = asker.get::<NodeStatus>("/v1/status").await?;
        let said = asker.query.as_deref().and_then(|query| query.strip_prefix("said="));
        let may_see = |other: &Place| *other != Place::Audit || me.role == Some(Role::Admin);
        let entries = Place::ALL.into_iter().filter(may_see).map(|other| {
            let (path, name) = other.entry();
            Entry { path, name, is_here: Some(other) == place }
        });
        Ok(Frame {
            entries: entries.collect(),
            me: Some(me),
            status: Some(status),
            said: said.and_then(|id| house.notes.take(id)).unwrap_or_default(),
            ..Frame::bare(title)
        })
    }

    /// Around a page for who has not come in.
    pub fn bare(title: &str) -> Frame {
        Frame {
            title: title.to_owned(),
            node: &NODE,
            entries: Vec::new(),
            me: None,
            status: None,
            said: Vec::new(),
            style: assets::style(),
            script: assets::script(),
            icon: assets::icon(),
            live: None,
        }
    }

    /// Parts of this page change by themselves.
    pub fn live(mut self, asker: &Asker) -> Frame {
        self.live = Some(asker.path.clone());
        self
    }

    fn may(&self, role: Role) -> bool {
        // Without users who looks is nobody, and changes nothing.
        self.me.as_ref().is_some_and(|me| me.who != "nobody" && me.role >= Some(role))
    }

    /// Whether who looks may change pools and volumes.
    pub fn may_operate(&self) -> bool {
        self.may(Role::Operator)
    }

    /// Whether who looks may change who else may.
    pub fn may_administer(&self) -> bool {
        self.may(Role::Admin)
    }

    /// Refuses a form to who could not send it. The API would refuse it too; this saves him the typing.
    pub fn needs_operator(&self) -> Result<(), Problem> {
        self.needs(Role::Operator)
    }

    /// So too.
    pub fn needs_admin(&self) -> Result<(), Problem> {
        self.needs(Role::Admin)
    }

    fn needs(&self, role: Role) -> Result<(), Problem> {
        if self.may(role) {
            return Ok(());
        }
        let (kind, title, status) = if self.is_new() {
            ("unauthorized", "Nobody knows who you are", StatusCode::UNAUTHORIZED)
        } else {
            ("forbidden", "That is not allowed", StatusCode::FORBIDDEN)
        };
        Err(Problem {
            kind: format!("urn:fels:{kind}"),
            title: title.to_owned(),
            status: status.as_u16(),
            detail: format!("this needs the role {role}, and you have {}", self.role()),
            hint: Some("ask an admin for the role".to_owned()),
            fields: Box::default(),
        })
    }

    /// The version of the configuration that the page shows.
    pub fn version(&self) -> String {
        self.status.as_ref().map(|status| status.version.clone()).unwrap_or_default()
    }

    /// Whether there are no users yet.
    pub fn is_new(&self) -> bool {
        self.me.as_ref().is_some_and(|me| me.who == "nobody")
    }

    /// What goes with every change.
    pub fn csrf(&self) -> &str {
        self.me.as_ref().and_then(|me| me.csrf.as_deref()).unwrap_or_default()
    }

    /// The user, if it is one.
    pub fn user(&self) -> Option<&str> {
        self.me.as_ref().and_then(|me| me.user.as_deref())
    }

    /// The role, as a word.
    pub fn role(&self) -> &'static str {
        self.me.as_ref().and_then(|me| me.role).map_or("", Role::name)
    }

    /// How the node is.
    pub fn state(&self) -> Option<State> {
        self.status.as_ref().map(|status| State::of_health(status.state))
    }
}
