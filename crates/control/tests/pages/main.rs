//! The pages of the dashboard, as a browser gets them from a node that runs.

mod browser;
mod watching;

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use control::people::Role;
use control::start;

use browser::{Browser, node, user};

const PAGES: [&str; 12] = [
    "/",
    "/pools",
    "/pools/tank",
    "/volumes",
    "/volumes/db",
    "/initiators",
    "/alerts",
    "/events",
    "/graphs",
    "/lab",
    "/settings",
    "/audit",
];

#[test]
fn who_has_not_come_in_is_led_to_where_he_can_and_back() {
    let directory = tempfile::tempdir().unwrap();
    user(directory.path(), "alice", Role::Admin);
    let (node, address) = node(directory.path());
    let mut browser = Browser::new(address);
    for path in PAGES {
        let answer = browser.get(path);
        assert_eq!(answer.status, 303, "{path}");
        assert!(answer.header("location").unwrap().starts_with("/login"), "{path}");
        assert!(!answer.page.contains("tank"), "{path} says something");
    }
    assert_eq!(browser.get("/pools/tank").header("location"), Some("/login?next=%2Fpools%2Ftank"));
    let page = browser.get("/login?next=%2Fpools%2Ftank");
    assert_eq!((page.status, page.field("next").as_str()), (200, "/pools/tank"));
    let wrong = browser
        .send("/login", &[("name", "alice"), ("password", "wrong horse battery"), ("next", "/pools/tank")]);
    assert_eq!(wrong.status, 401);
    assert!(
        wrong.page.contains("not his password") && wrong.page.contains("value=\"alice\""),
        "{}",
        wrong.page
    );
    assert!(!wrong.page.contains("wrong horse"), "a password is not sent back");
    let came = browser
        .send("/login", &[("name", "alice"), ("password", "correct horse battery"), ("next", "/pools/tank")]);
    assert_eq!((came.status, came.header("location")), (303, Some("/pools/tank")));
    let out = browser.send_from(
        "http://evil.example",
        "/login",
        &[("name", "alice"), ("password", "correct horse battery")],
    );
    assert_eq!(out.status, 403, "a page of elsewhere logs nobody in");
    node.shutdown().unwrap();
}

#[test]
fn every_page_is_whole_and_says_to_browsers_what_they_may() {
    let directory = tempfile::tempdir().unwrap();
    user(directory.path(), "alice", Role::Admin);
    let (node, address) = node(directory.path());
    let mut browser = Browser::came_in(address, "alice");
    for path in PAGES.into_iter().chain([
        "/new-pool",
        "/new-volume",
        "/settings/new-user",
        "/settings/configuration",
        "/volumes/db/delete",
        "/alerts/test",
    ]) {
        let answer = browser.get(path);
        assert_eq!(answer.status, 200, "{path}: {}", answer.page);
        assert!(answer.page.contains("<html lang=\"en\">") && answer.page.contains("</html>"), "{path}");
        assert_eq!(answer.page.matches("<h1").count(), 1, "{path}");
        assert_eq!(answer.page.matches("<main").count(), 1, "{path}");
        let policy = answer.header("content-security-policy").unwrap();
        assert!(
            policy.contains("default-src 'none'") && policy.contains("frame-ancestors 'none'"),
            "{policy}"
        );
        assert!(!policy.contains("unsafe"), "{policy}");
        for what in [" style=\"", " onclick=", "<script>", "<style"] {
            assert!(!answer.page.contains(what), "{path} has {what}, which its policy forbids");
        }
        assert_eq!(
            answer.header("referrer-policy"),
            Some("same-origin"),
            "else forms are sent with `Origin: null`"
        );
        for header in ["x-content-type-options", "x-frame-options", "cache-control"] {
            assert!(answer.header(header).is_some(), "{path} without {header}");
        }
    }
    assert_eq!(browser.get("/none").status, 404);
    assert_eq!(browser.get("/pools/none").status, 404);
    assert_eq!(browser.get("/volumes/..%2F..%2Fv1%2Fusers").status, 404);
    let mut rebound = Browser::new(address);
    rebound.cookie.clone_from(&browser.cookie);
    let cookie = rebound.cookie.clone();
    let answer = rebound.exchange(&format!(
        "GET / HTTP/1.1\r\nHost: rebound.example\r\nCookie: {cookie}\r\nConnection: close\r\n\r\n"
    ));
    assert!(answer.status == 403 && !answer.page.contains("tank"), "{}: {}", answer.status, answer.page);
    node.shutdown().unwrap();
}

#[test]
fn a_volume_is_made_changed_and_deleted_by_forms_that_show_their_plan() {
    let directory = tempfile::tempdir().unwrap();
    user(directory.path(), "alice", Role::Admin);
    let (node, address) = node(directory.path());
    let mut browser = Browser::came_in(address, "alice");
    let form = browser.get("/new-volume");
    let (csrf, version) = (form.field("csrf"), form.field("version"));
    let fields = |size: &'static str| {
        vec![
            ("csrf", csrf.clone()),
            ("version", version.clone()),
            ("name", "web".to_owned()),
            ("size", size.to_owned()),
            ("place", "pool tank".to_owned()),
            ("alias", "Web <b>".to_owned()),
        ]
    };
    let send =
        |browser: &mut Browser, mut fields: Vec<(&'static str, String)>, more: &[(&'static str, &str)]| {
            fields.extend(more.iter().map(|(name, value)| (*name, (*value).to_owned())));
            let fields: Vec<_> = fields.iter().map(|(name, value)| (*name, value.as_str())).collect();
            browser.send("/new-volume", &fields)
        };
    let wrong = send(&mut browser, fields("much"), &[]);
    assert_eq!(wrong.status, 400);
    assert!(
        wrong.page.contains("id=\"size-wrong\"") && wrong.page.contains("value=\"much\""),
        "{}",
        wrong.page
    );
    assert!(wrong.page.contains("Web &#60;b&#62;"), "what was typed is kept, and is text: {}", wrong.page);
    let plan = send(&mut browser, fields("4MiB"), &[]);
    assert_eq!(plan.status, 200, "{}", plan.page);
    assert!(plan.page.contains("serve volume web: 4MiB on the pool tank, made now"), "{}", plan.page);
    assert!(!browser.get("/volumes").page.contains("/volumes/web"), "a plan does nothing");
    let edit = send(&mut browser, fields("4MiB"), &[("step", "edit")]);
    assert!(edit.status == 200 && edit.page.contains("value=\"4MiB\""), "{}", edit.page);
    let made = send(&mut browser, fields("4MiB"), &[("step", "apply")]);
    assert_eq!(made.status, 303, "{}", made.page);
    let after = made.header("location").unwrap().to_owned();
    assert!(after.starts_with("/volumes/web?said="), "{after}");
    let page = browser.get(&after);
    assert!(page.page.contains("class=\"said\"") && page.page.contains("Web &#60;b&#62;"), "{}", page.page);
    assert!(!browser.get(&after).page.contains("class=\"said\""), "it is said once");
    let stale = send(&mut browser, fields("4MiB"), &[("step", "apply")]);
    assert_eq!(stale.status, 412);
    assert!(stale.page.contains("another one by now"), "{}", stale.page);
    let form = browser.get("/volumes/web/delete");
    let (csrf, version) = (form.field("csrf"), form.field("version"));
    let delete = |browser: &mut Browser, name: &str, step: &str| {
        browser.send(
            "/volumes/web/delete",
            &[("csrf", &csrf), ("version", &version), ("confirm", name), ("step", step)],
        )
    };
    assert_eq!(delete(&mut browser, "db", "apply").status, 422, "the name has to be typed");
    assert!(delete(&mut browser, "web", "").page.contains("DESTROY"));
    assert_eq!(delete(&mut browser, "web", "apply").status, 303);
    assert_eq!(browser.get("/volumes/web").status, 404);
    node.shutdown().unwrap();
}

#[test]
fn a_form_that_did_not_come_from_a_page_of_the_node_does_nothing() {
    let directory = tempfile::tempdir().unwrap();
    user(directory.path(), "alice", Role::Admin);
    let (node, address) = node(directory.path());
    let mut browser = Browser::came_in(address, "alice");
    let csrf = browser.get("/pools/tank/scrub").field("csrf");
    for (origin, csrf) in
        [("http://localhost", ""), ("http://localhost", "0000"), ("http://evil.example", csrf.as_str())]
    {
        let answer = browser.send_from(origin, "/pools/tank/scrub", &[("csrf", csrf), ("step", "apply")]);
        assert_eq!(answer.status, 403, "{origin} {csrf}: {}", answer.page);
    }
    assert!(browser.get("/pools/tank").page.contains("No scrub since"));
    assert_eq!(browser.send("/pools/tank/scrub", &[("csrf", &csrf), ("step", "apply")]).status, 303);
    assert!(!browser.get("/pools/tank").page.contains("No scrub since"));
    assert_eq!(browser.send("/logout", &[("csrf", "")]).status, 403);
    assert_eq!(browser.send("/logout", &[("csrf", &csrf)]).header("location"), Some("/login"));
    let late = browser.send("/pools/tank/scrub", &[("csrf", &csrf), ("step", "apply")]);
    assert!(late.status == 303 || late.status == 401, "{}", late.status);
    node.shutdown().unwrap();
}

#[test]
fn a_viewer_sees_no_forms_and_is_refused_when_he_sends_them() {
    let directory = tempfile::tempdir().unwrap();
    user(directory.path(), "alice", Role::Admin);
    user(directory.path(), "vera", Role::Viewer);
    user(directory.path(), "otto", Role::Operator);
    let (node, address) = node(directory.path());
    let mut viewer = Browser::came_in(address, "vera");
    for (path, words) in [
        ("/pools", "/new-pool"),
        ("/pools/tank", "/offline"),
        ("/volumes", "/new-volume"),
        ("/volumes/db", "/delete"),
        ("/settings", "/new-user"),
        ("/", "\"/audit\""),
    ] {
        let page = viewer.get(path);
        assert!(page.status == 200 && !page.page.contains(words), "{path} offers {words}");
    }
    for path in [
        "/new-pool",
        "/new-volume",
        "/pools/tank/scrub",
        "/volumes/db/delete",
        "/settings/new-user",
        "/audit",
        "/settings/users/alice/password",
    ] {
        assert_eq!(viewer.get(path).status, 403, "{path}");
    }
    let csrf = viewer.get("/settings/users/vera/password").field("csrf");
    let send = |browser: &mut Browser, csrf: &str, path: &str| {
        browser
            .send(
                path,
                &[
                    ("csrf", csrf),
                    ("step", "apply"),
                    ("confirm", "db"),
                    ("name", "eve"),
                    ("role", "admin"),
                    ("password", "correct horse battery"),
                    ("again", "correct horse battery"),
                    ("size", "9MiB"),
                    ("place", "file"),
                ],
            )
            .status
    };
    for path in [
        "/pools/tank/scrub",
        "/pools/tank/members/0/offline",
        "/volumes/db/delete",
        "/new-volume",
        "/settings/new-user",
    ] {
        assert_eq!(send(&mut viewer, &csrf, path), 403, "{path}");
    }
    let mut operator = Browser::came_in(address, "otto");
    let csrf = operator.get("/pools/tank/scrub").field("csrf");
    assert_eq!(send(&mut operator, &csrf, "/settings/new-user"), 403);
    assert_eq!(send(&mut operator, &csrf, "/pools/tank/scrub"), 303);
    node.shutdown().unwrap();
}

#[test]
fn the_first_admin_is_made_once_by_who_has_the_code() {
    let directory = tempfile::tempdir().unwrap();
    let (node, address) = node(directory.path());
    let mut browser = Browser::new(address);
    let overview = browser.get("/");
    assert!(overview.status == 200 && overview.page.contains("href=\"/setup\""), "{}", overview.page);
    for path in ["/new-volume", "/audit", "/login"] {
        assert_eq!(browser.get(path).header("location"), Some("/setup"), "{path}");
    }
    let file = directory.path().join("setup-code");
    let page = browser.get("/setup");
    assert!(page.page.contains("setup-code"), "{}", page.page);
    let code = std::fs::read_to_string(&file).unwrap();
    assert!(!page.page.contains(code.trim()), "who can load the page is not who can read the file");
    let password = "correct horse battery";
    let make = |browser: &mut Browser, origin: &str, code: &str, again: &str| {
        browser.send_from(
            origin,
            "/setup",
            &[("code", code), ("name", "alice"), ("password", password), ("again", again)],
        )
    };
    let here = "http://localhost";
    let wrong = make(&mut browser, here, &"0".repeat(20), password);
    assert!(wrong.status == 403 && wrong.page.contains("id=\"code-wrong\""), "{}", wrong.page);
    assert!(!wrong.page.contains(password));
    assert_eq!(make(&mut browser, here, &code, "another").status, 422);
    assert_eq!(make(&mut browser, "http://evil.example", &code, password).status, 403);
    assert_eq!(browser.get("/").status, 200, "still nobody");
    let made = make(&mut browser, here, code.trim(), password);
    assert_eq!((made.status, made.header("location")), (303, Some("/")), "{}", made.page);
    assert!(browser.get("/settings").page.contains("alice"));
    assert!(!file.exists(), "it is good for nothing any more");
    let mut other = Browser::new(address);
    assert_eq!(make(&mut other, here, code.trim(), password).header("location"), Some("/login"));
    let log = std::fs::read_to_string(directory.path().join("audit.log")).unwrap();
    assert!(
        log.contains("made the first admin alice") && !log.contains("horse") && !log.contains(code.trim()),
        "{log}"
    );
    node.shutdown().unwrap();
}

#[test]
fn what_somebody_types_is_text_on_every_page() {
    let directory = tempfile::tempdir().unwrap();
    user(directory.path(), "alice", Role::Admin);
    let (node, address) = node(directory.path());
    let mut browser = Browser::came_in(address, "alice");
    let hostile = "<script>alert(1)</script>\"'><!--live x-->";
    // What a path says is in the audit log, and on its page.
    let csrf = browser.get("/new-volume").field("csrf");
    browser.send("/settings/users/%3Cscript%3E/remove", &[("csrf", &csrf), ("confirm", "<script>")]);
    let answer = browser.send(
        "/new-volume",
        &[
            ("csrf", &csrf),
            ("name", hostile),
            ("size", hostile),
            ("place", "pool <script>"),
            ("path", hostile),
            ("allow", hostile),
        ],
    );
    assert!(answer.status >= 400 && !answer.page.contains("<script>alert"), "{}", answer.page);
    for path in [
        "/audit",
        "/events?text=%3Cscript%3Ealert(1)&severity=%3Cscript%3Ealert(1)",
        "/graphs?find=%3Cscript%3Ealert(1)",
        "/graphs/%3Cscript%3Ealert(1)",
        "/alerts/%3Cscript%3Ealert(1)/mute",
        "/lab/%3Cscript%3Ealert(1)",
        "/volumes?find=%3Cscript%3Ealert(1)",
        "/pools/%3Cscript%3Ealert(1)",
        "/login?next=%22%3E%3Cscript%3Ealert(1)",
    ] {
        assert!(!browser.get(path).page.contains("<script>alert"), "{path}");
    }
    node.shutdown().unwrap();
}

#[test]
fn values_are_sent_as_they_change_and_to_nobody_who_may_not_look() {
    let directory = tempfile::tempdir().unwrap();
    user(directory.path(), "alice", Role::Admin);
    let (node, address) = node(directory.path());
    assert_eq!(Browser::new(address).get("/live?page=/").status, 401);
    let mut browser = Browser::came_in(address, "alice");
    assert_eq!(browser.get("/live?page=//elsewhere").status, 200, "and ends at once");
    assert_eq!(browser.get("/live?page=/live").status, 404);
    let csrf = browser.get("/pools/tank/scrub").field("csrf");
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let request = format!(
        "GET /live?page=/pools/tank HTTP/1.1\r\nHost: localhost\r\nCookie: {}\r\n\r\n",
        browser.cookie
    );
    stream.write_all(request.as_bytes()).unwrap();
    let mut said = String::new();
    let mut until = |words: &str| {
        let mut bytes = [0; 4096];
        while !said.contains(words) {
            let count = stream.read(&mut bytes).unwrap();
            assert!(count > 0, "the stream ended: {said}");
            said.push_str(&String::from_utf8_lossy(&bytes[..count]));
        }
    };
    until("No scrub since");
    browser.send("/pools/tank/scrub", &[("csrf", &csrf), ("step", "apply")]);
    until("blocks bad");
    browser.send("/logout", &[("csrf", &csrf)]);
    until("event: end");
    node.shutdown().unwrap();
}

#[test]
fn a_pool_is_entered_by_a_form_and_there_at_the_next_start() {
    let directory = tempfile::tempdir().unwrap();
    user(directory.path(), "alice", Role::Admin);
    let (first, address) = node(directory.path());
    let mut browser = Browser::came_in(address, "alice");
    let form = browser.get("/new-pool");
    assert!(form.page.contains("It is open at once.") && !form.page.contains("next time"), "{}", form.page);
    let (csrf, version) = (form.field("csrf"), form.field("version"));
    let at = |name: &str| directory.path().join(name).display().to_string();
    let send = |browser: &mut Browser, members: &str, size: &str, step: &str| {
        browser.send(
            "/new-pool",
            &[
                ("csrf", &csrf),
                ("version", &version),
                ("name", "rust"),
                ("raid", "raid1"),
                ("members", members),
                ("member_size", size),
                ("step", step),
            ],
        )
    };
    std::fs::write(directory.path().join("precious"), vec![7; 64 << 20]).unwrap();
    for (members, size, field) in [
        (format!("{}\r\n{}", at("a"), at("b")), "", "member_size"),
        (format!("{}\r\n{}", at("a"), at("precious")), "64MiB", "members"),
        (format!("{}\r\n{}", at("a"), at("m0.img")), "64MiB", "members"),
        (at("a"), "64MiB", "members"),
        (format!("{}\r\n{}", at("a"), at("a")), "64MiB", "members"),
        ("a.img\r\nb.img".to_owned(), "64MiB", "members"),
    ] {
        let answer = send(&mut browser, &members, size, "apply");
        assert!(answer.status >= 400, "{members} is taken");
        assert!(answer.page.contains(&format!("id=\"{field}-wrong\"")), "{members}: {}", answer.page);
    }
    let good = format!("{}\r\n{}", at("a"), at("b"));
    let plan = send(&mut browser, &good, "64MiB", "");
    assert!(plan.page.contains("open pool rust: raid1 of 2 members"), "{}", plan.page);
    assert_eq!(send(&mut browser, &good, "64MiB", "apply").status, 303);
    assert!(browser.get("/pools").page.contains("/pools/rust"), "it is open at once");
    first.shutdown().unwrap();
    let store = control::Store::of_directory(directory.path()).unwrap();
    let document = store.read().unwrap();
    let second = start(store, document).unwrap();
    assert!(Browser::came_in(second.api().http()[0], "alice").get("/pools").page.contains("/pools/rust"));
    assert_eq!(std::fs::read(directory.path().join("precious")).unwrap(), vec![7; 64 << 20]);
    second.shutdown().unwrap();
}
