//! What the cores notice of initiators, as events.

use monitor::event::Event;
use plane::session::notice::{Notice, What};

/// The event of a notice.
pub(crate) fn event(notice: Notice) -> Event {
    let Notice { protocol, initiator, from, target, what } = notice;
    let protocol = protocol.to_owned();
    match what {
        What::CameIn => Event::InitiatorLoggedIn { protocol, initiator, from, target },
        What::Left(how, why) => {
            let how = how.name().to_owned();
            Event::InitiatorLoggedOut { protocol, initiator, from, target, how, why }
        }
        What::Refused(why) => Event::InitiatorRefused { protocol, initiator, from, target, why },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use monitor::event::Severity;
    use plane::session::notice::Leaving;

    fn of(what: What) -> Event {
        let [initiator, from, target] = ["iqn.a", "10.0.0.1:4000", "iqn.fels:db"].map(str::to_owned);
        event(Notice { protocol: "iscsi", initiator, from, target, what })
    }

    #[test]
    fn an_initiator_that_is_lost_or_refused_is_to_be_seen_to() {
        let left = |how, why: &str| of(What::Left(how, why.to_owned()));
        let told = [
            of(What::CameIn),
            left(Leaving::Orderly, ""),
            left(Leaving::KeptOut, "the node is stopping"),
            left(Leaving::Lost, "it said nothing"),
            of(What::Refused("there is no such target".to_owned())),
        ];
        let severities = told.each_ref().map(Event::severity);
        let (info, warning) = (Severity::Info, Severity::Warning);
        assert_eq!(severities, [info, info, info, warning, warning]);
        let sentences = told.map(|event| event.sentence());
        assert_eq!(
            sentences,
            [
                "iqn.a logged in to iqn.fels:db (iscsi), from 10.0.0.1:4000",
                "iqn.a logged out of iqn.fels:db (iscsi), from 10.0.0.1:4000",
                "iqn.a was sent away from iqn.fels:db (iscsi), from 10.0.0.1:4000: the node is stopping",
                "iqn.a was lost by iqn.fels:db (iscsi), from 10.0.0.1:4000: it said nothing",
                "iqn.a was not let in to iqn.fels:db (iscsi), from 10.0.0.1:4000: there is no such target",
            ]
        );
    }
}
