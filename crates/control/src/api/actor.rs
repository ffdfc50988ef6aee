//! Who asks, and whether he may.

use std::fmt;
use std::net::SocketAddr;

use super::Problem;
use crate::moment::Moment;
use crate::people::Role;
use crate::people::token::Digest;

/// Who is at the other end of a connection, as far as the connection shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peer {
    /// A process of this machine, on the unix socket (`SO_PEERCRED`).
    Local {
        /// Its user, as the kernel knows it.
        uid: u32,
    },
    /// Somebody over TCP.
    Remote {
        /// His address.
        address: SocketAddr,
        /// Whether he came to an address that only this machine has.
        is_loopback: bool,
        /// Whether nobody on the way can read or change what is said.
        is_encrypted: bool,
    },
}

impl Peer {
    /// Whether it is on this machine.
    pub fn is_near(&self) -> bool {
        matches!(self, Self::Local { .. } | Self::Remote { is_loopback: true, .. })
    }

    /// Where it is, without a port: `socket` on this machine's own.
    pub(super) fn host(&self) -> String {
        match self {
            Self::Local { .. } => "socket".to_owned(),
            Self::Remote { address, .. } => address.ip().to_string(),
        }
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Local { .. } => f.write_str("socket"),
            Self::Remote { address, .. } => address.fmt(f),
        }
    }
}

/// Who somebody has shown to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Who {
    /// He has not said.
    Nobody,
    /// The user of the node or root, on the unix socket.
    Local {
        /// Which of them.
        uid: u32,
    },
    /// A program with a token.
    Token {
        /// Whose.
        user: String,
        /// Which.
        name: String,
        /// Until when.
        expires: Moment,
    },
    /// A browser that came in with a password.
    Session {
        /// Whose.
        user: String,
        /// What goes with every change.
        csrf: Digest,
        /// Until when at most.
        expires: Moment,
    },
}

/// Who asks, from where, and what he may.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Actor {
    /// Who.
    pub who: Who,
    /// From where.
    pub from: Peer,
    /// What he may do, if anything.
    pub role: Option<Role>,
}

impl Actor {
    /// How he has shown who he is, if he had to.
    pub fn by(&self) -> Option<String> {
        match &self.who {
            Who::Nobody | Who::Local { .. } => None,
            Who::Token { name, .. } => Some(format!("token {name}")),
            Who::Session { .. } => Some("session".to_owned()),
        }
    }

    /// The user, if it is one.
    pub fn user(&self) -> Option<&str> {
        match &self.who {
            Who::Nobody | Who::Local { .. } => None,
            Who::Token { user, .. } | Who::Session { user, .. } => Some(user),
        }
    }
}

impl fmt::Display for Actor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.who {
            Who::Nobody => f.write_str("nobody"),
            Who::Local { uid } => write!(f, "uid {uid}"),
            Who::Token { user, .. } | Who::Session { user, .. } => f.write_str(user),
        }
    }
}

/// Who may come a way at least.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Least {
    /// Whoever it is.
    Anybody,
    /// Who is on this machine, whoever it is, and viewers.
    Near,
    /// Who has that role, or a higher one.
    Role(Role),
    /// The user that the path names, and admins.
    Own,
}

/// Who may see the figures of the node.
pub const NEAR: Least = Least::Near;
/// Who may look.
pub const VIEWER: Least = Least::Role(Role::Viewer);
/// Who may change things.
pub const OPERATOR: Least = Least::Role(Role::Operator);
/// Who may say who else may.
pub const ADMIN: Least = Least::Role(Role::Admin);
/// Whose it is, and who may say who else may.
pub const OWN: Least = Least::Own;

impl Least {
    /// As the description of the API has it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Anybody => "anybody",
            Self::Near => "near",
            Self::Role(role) => role.name(),
            Self::Own => "own",
        }
    }

    /// Why somebody may not come this way, if he may not. `named` is the user that the path names.
    pub fn refusal(self, actor: &Actor, named: Option<&str>) -> Option<Problem> {
        let needed = match self {
            Self::Anybody => return None,
            Self::Near if actor.from.is_near() => return None,
            Self::Near => Role::Viewer,
            Self::Role(needed) => needed,
            Self::Own if named.is_some() && actor.user() == named => return None,
            Self::Own => Role::Admin,
        };
        let Some(role) = actor.role else { return Some(unknown(actor)) };
        if role >= needed {
            return None;
        }
        if actor.who == Who::Nobody {
            return Some(unknown(actor));
        }
        let problem =
            Problem::forbidden(format!("this needs the role {needed}, and {actor} has {role} here"));
        Some(match &actor.who {
            Who::Token { user, name, .. } => problem.hint(format!(
                "the token {name} of {user} has no more: come with one that has, if {user} may have it"
            )),
            _ => problem.hint("ask an admin for the role: `fels user role NAME ROLE`"),
        })
    }
}

/// Nobody, where somebody is needed.
fn unknown(actor: &Actor) -> Problem {
    let problem = Problem::unauthorized("this needs somebody who has shown who he is");
    if actor.role.is_some() {
        return problem.hint("there are no users yet, so that only looking is allowed here: make one on this machine with `fels user add NAME --role admin`");
    }
    problem.hint("come in by `/v1/login`, or send a token, `Authorization: Bearer fels_...`, as `fels token create` makes it")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn actor(who: Who, role: Option<Role>) -> Actor {
        Actor { who, from: Peer::Local { uid: 0 }, role }
    }

    fn token(user: &str, role: Role) -> Actor {
        let (user, name, expires) = (user.to_owned(), "backup".to_owned(), Moment::from_unix(1));
        actor(Who::Token { user, name, expires }, Some(role))
    }

    #[test]
    fn each_role_may_what_it_may_and_no_more() {
        for (have, least, may) in [
            (Role::Viewer, VIEWER, true),
            (Role::Viewer, OPERATOR, false),
            (Role::Viewer, Least::Role(Role::Admin), false),
            (Role::Operator, VIEWER, true),
            (Role::Operator, OPERATOR, true),
            (Role::Operator, Least::Role(Role::Admin), false),
            (Role::Admin, VIEWER, true),
            (Role::Admin, OPERATOR, true),
            (Role::Admin, Least::Role(Role::Admin), true),
        ] {
            let refusal = least.refusal(&token("alice", have), None);
            assert_eq!(refusal.is_none(), may, "{have} on {least:?}");
            if let Some(problem) = refusal {
                assert!(problem.status == 403 && problem.hint.is_some(), "{problem:?}");
            }
        }
    }

    #[test]
    fn what_is_ones_own_is_for_oneself_and_for_admins() {
        let own = |actor: &Actor, named: Option<&str>| Least::Own.refusal(actor, named).is_none();
        assert!(own(&token("alice", Role::Viewer), Some("alice")));
        assert!(!own(&token("alice", Role::Operator), Some("bob")));
        assert!(own(&token("alice", Role::Admin), Some("bob")));
        assert!(!own(&token("alice", Role::Operator), None), "a path that names nobody is nobody's own");
        assert!(!own(&actor(Who::Nobody, Some(Role::Viewer)), None));
        assert!(own(&actor(Who::Local { uid: 0 }, Some(Role::Admin)), Some("bob")));
    }

    #[test]
    fn figures_are_for_this_machine_and_for_viewers() {
        let from = |is_loopback| Peer::Remote {
            address: "127.0.0.1:4000".parse().unwrap(),
            is_loopback,
            is_encrypted: false,
        };
        let refusal =
            |is_loopback, who, role| NEAR.refusal(&Actor { who, from: from(is_loopback), role }, None);
        assert_eq!(refusal(true, Who::Nobody, None), None);
        assert_eq!(refusal(false, Who::Nobody, None).unwrap().status, 401);
        assert_eq!(refusal(false, token("alice", Role::Viewer).who, Some(Role::Viewer)), None);
        assert_eq!(NEAR.refusal(&actor(Who::Local { uid: 0 }, Some(Role::Admin)), None), None);
    }

    #[test]
    fn nobody_is_asked_who_he_is() {
        for (role, words) in [(None, "Bearer"), (Some(Role::Viewer), "fels user add")] {
            let problem = OPERATOR.refusal(&actor(Who::Nobody, role), None).unwrap();
            assert_eq!(problem.status, 401);
            assert!(problem.hint.unwrap().contains(words), "{role:?}");
        }
        assert!(VIEWER.refusal(&actor(Who::Nobody, None), None).is_some());
        assert!(VIEWER.refusal(&actor(Who::Nobody, Some(Role::Viewer)), None).is_none());
    }
}
