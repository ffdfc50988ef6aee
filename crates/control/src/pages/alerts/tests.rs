//! What is said of alerts, and how what others have named is shown.

use super::*;

fn alert(id: &str, level: &str) -> Alert {
    Alert {
        id: id.to_owned(),
        limit: "pool-full".to_owned(),
        level: level.to_owned(),
        since: Moment::from_unix(1000),
        sentence: format!("volumes have 93.0 % of {id}"),
        hint: "fels pool grow".to_owned(),
        value: Some(0.93),
        acknowledged_by: None,
        muted_until: None,
    }
}

fn limit() -> Limit {
    Limit {
        name: "pool-full".to_owned(),
        about: None,
        metric: Some("fels_pool_usage_ratio".to_owned()),
        labels: [("pool".to_owned(), "tank".to_owned())].into(),
        when: "above".to_owned(),
        warning: Some(0.92),
        critical: None,
        raise_after_s: 300,
        clear_after_s: 0,
        enabled: true,
        told: vec!["ops@example.org".to_owned()],
        remind_s: None,
    }
}

fn shown(alerts: Vec<Alert>, waiting: usize) -> Page {
    let told = AlertList { alerts, waiting };
    Page::of(Frame::bare("Alerts"), &told, &[limit()], Moment::from_unix(8600))
}

#[test]
fn one_look_says_how_many_are_bad_and_what_is_muted_makes_nothing_bad() {
    let said = |alerts: Vec<Alert>| {
        let page = shown(alerts, 0);
        (page.state.kind, page.sentence)
    };
    assert_eq!(said(vec![]), (Kind::Ok, "No limit is crossed".to_owned()));
    assert_eq!(said(vec![alert("a", "ok")]), (Kind::Ok, "No limit is crossed".to_owned()));
    assert_eq!(said(vec![alert("a", "warning")]), (Kind::Warning, "1 alert is to be seen to".to_owned()));
    let muted = Alert { muted_until: Some(Moment::from_unix(9000)), ..alert("b", "critical") };
    assert_eq!(said(vec![muted.clone()]), (Kind::Off, "1 alert is muted".to_owned()));
    let page = shown(vec![alert("c", "critical"), muted, alert("a", "warning"), alert("d", "warning")], 0);
    assert_eq!(page.sentence, "4 alerts: 1 is critical, 2 are to be seen to, 1 is muted");
    let order: Vec<_> = page.bad.iter().map(|alert| alert.id.as_str()).collect();
    assert_eq!((page.state.kind, order), (Kind::Critical, vec!["c", "a", "d", "b"]));
}

#[test]
fn figures_and_bounds_have_the_unit_of_their_metric() {
    let page = shown(vec![alert("tank", "warning"), alert("x", "unknown")], 2);
    assert_eq!(page.bad[0].value.as_deref(), Some("93 %"));
    assert_eq!(
        (page.bad[0].lasts.as_str(), page.waiting.as_str()),
        ("2 h 6 min", "2 messages wait for being sent.")
    );
    assert_eq!(page.well_title, "0 are well, and nobody knows about 1");
    let bound = &page.limits[0];
    assert_eq!((bound.warning.as_str(), bound.critical.as_str()), ("from 92 %", "never"));
    assert_eq!((bound.about.as_str(), bound.lasts.as_str()), ("fels_pool_usage_ratio of pool tank", "5 min"));
    assert_eq!(page.receivers, ["ops@example.org"]);
}

#[test]
fn what_others_have_named_is_text() {
    let hostile = "x:\"><script>alert(1)</script><!--live now-->";
    let mut bad = alert(hostile, "critical");
    bad.acknowledged_by = Some("<b>eve</b>".to_owned());
    bad.hint = "<img src=x>".to_owned();
    let mut page = shown(vec![bad, alert(hostile, "ok")], 0);
    page.receivers = vec!["<i>webhook".to_owned()];
    let text = page.render().unwrap();
    assert!(text.contains("&#60;script&#62;alert(1)"), "{text}");
    for markup in ["<script>alert", "<b>eve", "<img src=x", "<i>webhook"] {
        assert!(!text.contains(markup), "{markup} is in {text}");
    }
    assert_eq!(text.matches("<!--live now-->").count(), 1, "a mark of parts is forged");
    assert!(!text.contains("<form"), "who may do nothing has no forms");
    assert_eq!(address("a:b c/d"), "/alerts#alert-a:b%20c%2Fd");
}
