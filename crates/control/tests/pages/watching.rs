//! Pages that say what is the matter, what happened and what was measured.

use std::path::Path;
use std::time::{Duration, Instant};

use control::Node;
use control::api::client::Client;
use control::api::model::Change;
use control::people::Role;
use control::reports;
use serde_json::json;

use crate::browser::{Browser, node, user};

/// A node looks at itself every ten seconds.
const SOON: Duration = Duration::from_secs(40);

/// A page, as soon as it says something.
fn until(browser: &mut Browser, path: &str, words: &str) -> String {
    let end = Instant::now() + SOON;
    loop {
        let answer = browser.get(path);
        if answer.status == 200 && answer.page.contains(words) {
            return answer.page;
        }
        assert!(Instant::now() < end, "{path} does not say {words}: {}", answer.page);
        std::thread::sleep(Duration::from_millis(100));
    }
}

fn pull(directory: &Path) {
    let client = Client::new(directory).unwrap();
    let _: Change = client.post("/v1/pools/tank/members/1/offline", &json!({})).unwrap();
}

fn people(directory: &Path) -> (Node, Browser, Browser) {
    user(directory, "alice", Role::Admin);
    user(directory, "otto", Role::Operator);
    user(directory, "vera", Role::Viewer);
    let (node, address) = node(directory);
    let (operator, viewer) = (Browser::came_in(address, "otto"), Browser::came_in(address, "vera"));
    (node, operator, viewer)
}

#[test]
fn an_alert_is_on_its_page_and_on_the_overview_until_somebody_mutes_it() {
    let directory = tempfile::tempdir().unwrap();
    let (node, mut operator, mut viewer) = people(directory.path());
    assert!(until(&mut operator, "/alerts", "well</span>").contains("No limit is crossed"));
    pull(directory.path());
    let id = "pool-degraded:tank";
    let page = until(&mut operator, "/alerts", "1 alert is critical");
    assert!(page.contains("can lose no more") && page.contains("Nobody sees to it yet"), "{page}");
    assert!(page.contains(&format!("action=\"/alerts/{id}/ack\"")), "{page}");
    // Of a pool the overview says what the pool says of itself.
    let overview = until(&mut operator, "/", "Open pool tank");
    assert!(!overview.contains("Open alert"), "{overview}");
    // As bad as its limit, which is looked at every ten seconds.
    until(&mut operator, "/", "verdict-critical");
    assert!(
        overview.contains("<span class=\"tile-name\">Alerts</span> <span class=\"tile-figure\">1</span>")
    );

    let seen = viewer.get("/alerts").page;
    assert!(seen.contains("can lose no more") && !seen.contains("/ack") && !seen.contains("/mute"), "{seen}");
    let forged = viewer.get("/").field("csrf");
    for deed in ["ack", "mute", "unmute"] {
        let path = format!("/alerts/{id}/{deed}");
        assert_eq!(viewer.get(&path).status, 403, "{path}");
        let refused = viewer.send(&path, &[("csrf", &forged), ("for_s", "3600")]);
        assert_eq!(refused.status, 403, "{path}: {}", refused.page);
    }
    assert_eq!(viewer.send("/alerts/test", &[("csrf", &forged)]).status, 403);
    assert!(operator.get("/alerts").page.contains("Nobody sees to it yet"), "a viewer has changed nothing");

    let csrf = operator.get("/alerts").field("csrf");
    let ack = format!("/alerts/{id}/ack");
    for (origin, csrf) in [("http://localhost", ""), ("http://evil.example", csrf.as_str())] {
        assert_eq!(operator.send_from(origin, &ack, &[("csrf", csrf)]).status, 403, "{origin}");
    }
    let done = operator.send(&ack, &[("csrf", &csrf)]);
    let after = done.header("location").unwrap().to_owned();
    assert!(done.status == 303 && after.starts_with("/alerts?said="), "{after}");
    let page = operator.get(&after).page;
    assert!(
        page.contains("otto sees to pool-degraded:tank") && page.contains("otto</strong> sees to it"),
        "{page}"
    );

    let mute = format!("/alerts/{id}/mute");
    assert!(operator.get(&mute).page.contains("can lose no more"), "it says what is muted");
    let wrong = operator.send(&mute, &[("csrf", &csrf), ("for_s", "soon")]);
    assert!(wrong.status == 422 && wrong.page.contains("id=\"for_s-wrong\""), "{}", wrong.page);
    let wrong = operator.send(&mute, &[("csrf", &csrf), ("for_s", "99999999")]);
    assert_eq!(wrong.status, 400, "{}", wrong.page);
    assert_eq!(operator.send(&mute, &[("csrf", &csrf), ("for_s", "28800")]).status, 303);
    let page = operator.get("/alerts").page;
    assert!(page.contains("1 alert is muted") && page.contains("Muted until"), "{page}");
    assert!(operator.get("/").page.contains("1 muted"));
    assert_eq!(operator.send(&format!("/alerts/{id}/unmute"), &[("csrf", &csrf)]).status, 303);
    assert!(operator.get("/alerts").page.contains("1 alert is critical"));
    assert_eq!(operator.get("/alerts/none/ack").status, 404);
    assert_eq!(operator.get(&format!("/alerts/{id}/forget")).status, 404);

    let told = until(&mut viewer, "/events?text=SEES%20to", "otto sees to alert");
    assert!(!told.contains("can lose no more"), "{told}");
    node.shutdown().unwrap();
}

#[test]
fn an_alert_that_no_pool_tells_of_is_what_the_overview_says_with_who_sees_to_it() {
    let directory = tempfile::tempdir().unwrap();
    let own = "[[alert]]\nname = \"up\"\nmetric = \"fels_uptime_seconds\"\nwarning = 0\nfor = \"0s\"\n";
    user(directory.path(), "alice", Role::Admin);
    let (first, address) = node(directory.path());
    let mut admin = Browser::came_in(address, "alice");
    assert!(until(&mut admin, "/", "class=\"verdict").contains("verdict-ok"));
    let form = admin.get("/settings/configuration");
    let (csrf, version) = (form.field("csrf"), form.field("version"));
    let text = std::fs::read_to_string(directory.path().join("fels.toml")).unwrap() + own;
    let fields = [("csrf", csrf.as_str()), ("version", &version), ("text", &text), ("step", "apply")];
    let done = admin.send("/settings/configuration", &fields);
    assert_eq!(done.status, 303, "{}", done.page);
    let page = until(&mut admin, "/", "Open alert up");
    assert!(page.contains("href=\"/alerts#alert-up\"") && page.contains("verdict-warning"), "{page}");
    let csrf = admin.get("/alerts").field("csrf");
    assert_eq!(admin.send("/alerts/up/ack", &[("csrf", &csrf)]).status, 303);
    let page = admin.get("/").page;
    assert!(page.contains("alice sees to it") && page.contains("verdict-warning"), "{page}");
    assert_eq!(admin.send("/alerts/up/mute", &[("csrf", &csrf), ("for_s", "3600")]).status, 303);
    let page = admin.get("/").page;
    assert!(page.contains("verdict-ok") && !page.contains("Open alert"), "{page}");
    let limits = admin.get("/alerts").page;
    assert!(limits.contains("fels_uptime_seconds") && limits.contains("pool-degraded"), "{limits}");
    first.shutdown().unwrap();
}

#[test]
fn events_are_found_by_how_bad_they_are_and_by_a_word_and_followed() {
    let directory = tempfile::tempdir().unwrap();
    let (node, mut operator, mut viewer) = people(directory.path());
    pull(directory.path());
    let page = until(&mut viewer, "/events", "is out");
    assert!(page.contains("href=\"/pools/tank\"") && page.contains("the node serves"), "{page}");
    assert!(page.contains("data-page=\"/events\""), "it is not live: {page}");
    let bad = viewer.get("/events?severity=warning").page;
    assert!(bad.contains("is out") && !bad.contains("the node serves"), "{bad}");
    assert!(bad.contains("data-page=\"/events?severity=warning\""), "{bad}");
    assert!(viewer.get("/events?severity=critical&text=no+such+thing").page.contains("Nothing like that"));
    let found = viewer.get("/events?text=m1.IMG").page;
    assert!(found.contains("is out") && !found.contains("came in from"), "{found}");
    // What was refused is told as what it is.
    let hostile = "%3Cscript%3Ealert(1)%3C%2Fscript%3E";
    operator.send("/login", &[("name", "<script>alert(1)</script>"), ("password", "x")]);
    let told = viewer.get(&format!("/events?text={hostile}")).page;
    assert!(!told.contains("<script>alert") && told.contains("value=\"&#60;script"), "{told}");
    let old = viewer.get("/events?before=2").page;
    assert!(old.contains("Newest ones") && !old.contains("data-page="), "{old}");
    assert_eq!(viewer.get("/events?before=x").status, 200);
    node.shutdown().unwrap();
}

#[test]
fn what_is_measured_has_pages_and_is_shown_where_it_matters() {
    let directory = tempfile::tempdir().unwrap();
    let (node, _, mut viewer) = people(directory.path());
    let page = until(&mut viewer, "/graphs", "/graphs/volume_operations%40db");
    assert!(page.contains("/graphs/process_cpu_seconds") && page.contains("Members of pools"), "{page}");
    assert!(viewer.get("/graphs?find=no+such+thing").page.contains("No graph has that"));
    let volume = until(&mut viewer, "/volumes/db", "/graphs/volume_operations%40db/day.svg");
    assert!(volume.contains("alt=\"Operations of volumes, volume db: the last 24 hours\""), "{volume}");
    assert!(viewer.get("/pools/tank").page.contains("/graphs/member_state%40tank/day.svg"));
    let one = viewer.get("/graphs/volume_operations%40db").page;
    for span in ["day", "week", "month", "year"] {
        assert!(one.contains(&format!("/graphs/volume_operations%40db/{span}.svg")), "{span}: {one}");
    }
    assert!(one.contains("href=\"/volumes/db\"") && one.contains("/graphs/volume_bytes%40db"), "{one}");
    let picture = viewer.get("/graphs/volume_operations%40db/day.svg?width=380&at=17");
    assert_eq!(picture.status, 200);
    assert!(picture.page.contains("<svg") && picture.page.contains("width=\"380\""), "{}", picture.page);
    assert_eq!(viewer.get("/graphs/none").status, 404);
    assert_eq!(viewer.get("/graphs/..%2Fv1").status, 404);
    let mut stranger = Browser::new(node.api().http()[0]);
    let picture = stranger.get("/graphs/volume_operations%40db/day.svg");
    assert!(picture.status >= 300 && !picture.page.contains("<svg"), "{}", picture.status);
    node.shutdown().unwrap();
}

#[test]
fn reports_of_the_lab_are_shown_and_nothing_else_of_the_data_directory_is() {
    let directory = tempfile::tempdir().unwrap();
    let (node, _, mut viewer) = people(directory.path());
    assert!(viewer.get("/lab").page.contains("--keep"));
    let hostile = "<script>alert(1)</script>";
    let summary = r#"{"operations":10,"iops":1250.0,"mib_per_s":4.9,"latency_us":{"mean":800,"p50":700,"p99":2500,"max":9000}}"#;
    let text = format!(
        r#"{{"schema":1,"version":"0.1.0","ended_unix_s":1795207267,"host":{{"name":"lab1","kernel":"6.1","cpus":2}},"target":"{hostile}",
        "profile":"vmware","tests":[{{"name":"{hostile}","total":{summary},"reads":{summary},"writes":{summary},"seconds":[{{"span_s":1,"iops":5}}]}}]}}"#
    );
    let kept = reports::keep(directory.path(), "vmware", control::moment::Moment::now(), &text).unwrap();
    let name = kept.file_name().unwrap().to_str().unwrap().to_owned();
    let list = viewer.get("/lab").page;
    assert!(
        list.contains("Profile vmware") && list.contains(&name) && !list.contains("<script>alert"),
        "{list}"
    );
    let page = viewer.get(&format!("/lab/{name}")).page;
    assert!(page.contains("1.25 k IO/s") && !page.contains("<script>alert"), "{page}");
    let picture = viewer.get(&format!("/lab/{name}/picture.svg"));
    assert!(picture.page.contains("<svg") && !picture.page.contains("<script"), "{}", picture.page);
    let policy = picture.header("content-security-policy").unwrap();
    assert!(policy.contains("default-src 'none'") && policy.contains("sandbox"), "{policy}");
    let raw = viewer.get(&format!("/v1/lab/{name}"));
    assert_eq!(
        (raw.header("content-type"), raw.header("x-content-type-options")),
        (Some("application/json"), Some("nosniff"))
    );
    assert_eq!(raw.page, text);
    for bad in ["..%2Fpeople.json", "%2e%2e%2fnode.toml", "..%2Falerts.json", "none.json", "%00.json"] {
        for path in [format!("/lab/{bad}"), format!("/lab/{bad}/picture.svg"), format!("/v1/lab/{bad}")] {
            assert_eq!(viewer.get(&path).status, 404, "{path}");
        }
    }
    node.shutdown().unwrap();
}
