//! What the documentation says about the configuration is what the reader takes.

use control::Config;
use control::config::{reference_table, sections};
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn page(path: &str) -> String {
    let path = root().join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The blocks of a page that are marked as TOML.
fn blocks(page: &str) -> impl Iterator<Item = &str> {
    page.split("```toml\n").skip(1).filter_map(|rest| rest.split("```").next())
}

#[test]
fn the_reference_has_every_key_as_it_is_declared() {
    let reference = page("docs/reference/configuration.md");
    for (section, keys) in sections() {
        let table = reference_table(keys);
        assert!(reference.contains(&table), "the table of {section} has to be:\n{table}");
    }
}

#[test]
fn every_example_in_the_documentation_is_taken() {
    for (path, at_least) in [
        ("README.md", 1),
        ("docs/reference/configuration.md", 3),
        ("docs/guides/first-volume.md", 1),
        ("docs/guides/chap.md", 2),
        ("docs/guides/nbd.md", 1),
        ("docs/guides/pools.md", 2),
        ("docs/guides/monitoring.md", 1),
        ("docs/guides/alerts.md", 2),
    ] {
        let text = page(path);
        let mut count = 0;
        for block in blocks(&text) {
            count += 1;
            if let Err(errors) = Config::parse(block, path) {
                panic!("an example in {path} is refused:\n{errors}");
            }
        }
        assert!(count >= at_least, "{path} has {count} examples");
    }
}

#[test]
fn the_configuration_of_make_run_listens_on_this_machine_only() {
    let config = Config::parse(&page("examples/demo.toml"), "examples/demo.toml").unwrap();
    assert_eq!(config.volumes.len(), 1);
    assert!(config.iscsi.listen.iter().all(|portal| portal.ip().is_loopback()));
}

#[test]
fn the_links_of_the_pages_lead_somewhere() {
    for path in [
        "README.md",
        "docs/reference/configuration.md",
        "docs/guides/first-volume.md",
        "docs/guides/chap.md",
        "docs/guides/nbd.md",
        "docs/guides/pools.md",
        "docs/guides/people.md",
        "docs/guides/monitoring.md",
        "docs/guides/graphs.md",
        "docs/guides/debian.md",
        "docs/guides/alerts.md",
        "docs/formats/alerts.md",
        "docs/guides/volumes.md",
        "docs/formats/store.md",
        "docs/reference/commands.md",
        "docs/reference/control-api.md",
        "docs/formats/data-directory.md",
        "docs/formats/people.md",
        "docs/formats/audit.md",
        "docs/formats/events.md",
    ] {
        let here = root().join(path);
        for link in page(path).split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let file = link.split('#').next().unwrap_or_default();
            if file.is_empty() || file.starts_with("http") {
                continue;
            }
            let target = here.parent().unwrap().join(file);
            assert!(target.exists(), "{path} links to {link}");
        }
    }
}

#[test]
fn the_reference_has_every_path_of_the_control_api() {
    let reference = page("docs/reference/control-api.md");
    let document = serde_json::to_value(control::api::document()).unwrap();
    let mut table = String::new();
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            let row = format!(
                "| `{path}` | {} | {} |\n",
                method.to_uppercase(),
                operation["summary"].as_str().unwrap()
            );
            assert!(reference.contains(&row), "it lacks {row}");
            table.push_str(&row);
        }
    }
    assert_eq!(reference.matches("\n| `/").count(), table.lines().count(), "it has more than there is");
}

/// Of keys, and of how initiators leave.
const ROWS_OF_OTHER_TABLES: usize = 10;

#[test]
fn the_page_of_the_event_log_has_every_event() {
    let page = page("docs/formats/events.md");
    for (name, about) in monitor::event::Event::ALL {
        let row = format!("| `{name}` | {about} |\n");
        assert!(page.contains(&row), "it lacks {row}");
    }
    assert_eq!(
        page.matches("\n| `").count(),
        monitor::event::Event::ALL.len() + ROWS_OF_OTHER_TABLES,
        "it has more than there is"
    );
}

#[test]
fn the_guide_has_every_limit_that_every_node_has() {
    let guide = page("docs/guides/alerts.md");
    for rule in monitor::limit::rules::BUILT_IN {
        let row = format!("| `{}` | {} |\n", rule.name, rule.about);
        assert!(guide.contains(&row), "it lacks {row}");
    }
}
