//! Every edit is read as what was meant, and the rest of the text stays as it was.

use super::*;
use crate::Config;
use crate::config::{Machine, Member};
use proptest::prelude::*;
use serde_json::json;

const TEXT: &str = "\
# The store of the laboratory.

# The first one.
[[volume]]
name = \"first\"   # its name
size = \"1MiB\"    # more by and by
backing = { memory = true }

[iscsi]
# Loopback, until there is CHAP.
listen = [\"127.0.0.1:0\"]

# The second one,
# for the cluster.
[[volume]]
name = \"second\"
size = 2097152
backing = { null = true }
alias = 'two' # why not

# The end.
";

fn settings(value: serde_json::Value) -> Settings {
    let serde_json::Value::Object(settings) = value else { panic!("{value}") };
    settings
}

fn edited(text: &str, edit: impl FnOnce(&mut Document) -> Result<(), EditError>) -> String {
    let mut document = Document::parse(text).unwrap();
    edit(&mut document).unwrap();
    document.text()
}

fn read(text: &str) -> Config {
    let machine = Machine { cores: 2, memory_bytes: 8 << 30 };
    Config::parse_for(text, "fels.toml", machine).unwrap_or_else(|errors| panic!("{errors}\n{text}"))
}

#[test]
fn a_change_leaves_every_comment_and_the_order() {
    let text = edited(TEXT, |document| {
        document.change_volume("first", &settings(json!({ "size": "2MiB", "enabled": false })), &[])?;
        document.change_volume("second", &settings(json!({ "alias": "zwei" })), &["nbd".to_owned()])
    });
    let expected = TEXT
        .replace("size = \"1MiB\"    #", "size = \"2MiB\"    #")
        .replace("{ memory = true }\n", "{ memory = true }\nenabled = false\n")
        .replace("'two' # why", "\"zwei\" # why");
    assert_eq!(text, expected);
}

#[test]
fn a_volume_comes_behind_the_others_and_its_keys_are_in_the_order_of_the_reference() {
    let new =
        json!({ "alias": "3", "backing": { "memory": true }, "size": 512, "name": "third", "allow": [] });
    let text = edited(TEXT, |document| document.add_volume(&settings(new)));
    let section = "\n[[volume]]\nname = \"third\"\nsize = 512\nbacking = { memory = true }\nallow = []\nalias = \"3\"\n";
    assert_eq!(text, TEXT.replace("why not\n", &format!("why not\n{section}")));
    let names = read(&text).volumes.into_iter().map(|volume| volume.name).collect::<Vec<_>>();
    assert_eq!(names, ["first", "second", "third"]);
}

#[test]
fn what_goes_takes_its_own_comment_along_and_no_other() {
    let text = edited(TEXT, |document| document.remove_volume("first"));
    assert!(text.contains("# The store of the laboratory.") && text.contains("# The second one,"), "{text}");
    assert!(!text.contains("# The first one.") && text.contains("# The end."), "{text}");
    assert_eq!(read(&text).volumes.len(), 1);
    let none = edited(&text, |document| document.remove_volume("second"));
    assert!(
        none.contains("# The store of the laboratory.") && !none.contains("# for the cluster."),
        "{none}"
    );
    assert!(read(&none).volumes.is_empty());
    let again = settings(json!({ "name": "a", "size": 512, "backing": { "null": true } }));
    assert_eq!(read(&edited(&none, |document| document.add_volume(&again))).volumes.len(), 1);
}

#[test]
fn sections_may_be_written_as_a_list() {
    let text = "volume = [{ name = \"a\", size = 512, backing = { null = true } }] # all\n";
    let text = edited(text, |document| {
        document.add_volume(&settings(json!({ "name": "b", "size": 512, "backing": { "null": true } })))?;
        document.change_volume("a", &settings(json!({ "size": 1024 })), &[])
    });
    let sizes: Vec<_> = read(&text).volumes.iter().map(|volume| volume.size_bytes).collect();
    assert!(sizes == [1024, 512] && text.ends_with("# all\n"), "{text}");
    let alone = Document::parse(&text).unwrap().volume_alone("a").unwrap();
    assert_eq!(read(&alone).volumes[0].size_bytes, 1024, "{alone}");
    let text = edited(&text, |document| document.remove_volume("a"));
    assert_eq!(read(&text).volumes[0].name, "b");
}

#[test]
fn one_volume_alone_is_what_makes_it_again() {
    let alone = Document::parse(TEXT).unwrap().volume_alone("second").unwrap();
    assert_eq!(read(&alone).volumes, &read(TEXT).volumes[1..]);
    assert!(Document::parse(TEXT).unwrap().volume_alone("third").is_none());
}

#[test]
fn what_is_not_there_and_what_is_there_already_is_said() {
    let mut document = Document::parse(TEXT).unwrap();
    let missing = EditError::Missing { section: "volume", name: "none".into() };
    assert_eq!(
        document.remove_volume("none"),
        Err(EditError::Missing { section: "volume", name: "none".into() })
    );
    assert_eq!(document.change_volume("none", &Settings::new(), &[]), Err(missing));
    let taken = document.add_volume(&settings(json!({ "name": "first" })));
    assert_eq!(taken, Err(EditError::Taken("first".into())));
    assert_eq!(document.text(), TEXT);
}

const POOL_TEXT: &str = "\
data = \"/srv\"
[[pool]]
name = \"tank\"
raid = \"raid5\"
members = [
    \"m0.img\", # in the first drawer
    \"/srv/m1.img\",
    \"/dev/sdb\",
]
member_size = \"64MiB\"
spares = [\"s.img\", \"t.img\"]
";

#[test]
fn members_that_go_are_replaced_where_they_stood() {
    let data = Path::new("/srv");
    let members: Vec<PathBuf> = ["/srv/new.img", "/dev/sdb", "/srv/m0.img"].map(PathBuf::from).to_vec();
    let text = edited(POOL_TEXT, |document| document.set_members("tank", &members, data));
    assert_eq!(text, POOL_TEXT.replace("/srv/m1.img", "/srv/new.img"));
    // One that nobody knows where it is stays as it was.
    let members: Vec<PathBuf> = ["/srv/m1.img", "/dev/sdc"].map(PathBuf::from).to_vec();
    let text = edited(POOL_TEXT, |document| document.set_members("tank", &members, data));
    assert_eq!(text, POOL_TEXT.replace("\"m0.img\"", "\"/dev/sdc\""));
}

#[test]
fn spares_come_and_go_and_the_size_of_members_follows() {
    let data = Path::new("/srv");
    let gone = |path: &Path| path == Path::new("/srv/s.img");
    let text = edited(POOL_TEXT, |document| {
        document.set_spares("tank", Some(Path::new("/dev/sdx")), gone, data)?;
        document.update_pool("tank", "member_size", "128MiB")?;
        document.update_pool("tank", "unit", "64KiB")
    });
    let pool = read(&text).pools.remove(0);
    assert_eq!(pool.spares, [Member::File("/srv/t.img".into()), Member::Device("/dev/sdx".into())]);
    assert_eq!(pool.member_bytes, Some(128 << 20));
    assert!(!text.contains("unit"), "{text}");
    let text = edited(&text, |document| document.set_spares("tank", None, |_| true, data));
    assert!(!text.contains("spares"), "{text}");
    let text = edited(&text, |document| document.set_spares("tank", None, |_| true, data));
    let text =
        edited(&text, |document| document.set_spares("tank", Some(Path::new("/dev/sdx")), |_| false, data));
    assert_eq!(read(&text).pools[0].spares.len(), 1, "{text}");
}

fn any_settings() -> impl Strategy<Value = Settings> {
    let text = prop_oneof!["[ -~]{1,20}", "\\PC{1,8}", Just("\"'\\\n".to_owned())];
    let quoted = text.prop_filter("no control characters", |text| !text.chars().any(char::is_control));
    (any::<Option<bool>>(), prop::option::of(quoted), 1..1000_u64, any::<bool>()).prop_map(
        |(nbd, alias, blocks, as_text)| {
            let mut settings = Settings::new();
            settings.insert(
                "size".into(),
                if as_text { json!(format!("{blocks}KiB")) } else { json!(blocks * 1024) },
            );
            settings.extend(nbd.map(|nbd| ("nbd".into(), json!(nbd))));
            settings.extend(alias.map(|alias| ("alias".into(), json!(alias))));
            settings
        },
    )
}

#[derive(Clone, Debug)]
enum Edit {
    Add(u8, Settings),
    Change(u8, Settings, bool),
    Remove(u8),
}

fn any_edit() -> impl Strategy<Value = Edit> {
    prop_oneof![
        (0..6_u8, any_settings()).prop_map(|(name, settings)| Edit::Add(name, settings)),
        (0..6_u8, any_settings(), any::<bool>())
            .prop_map(|(name, set, unset)| Edit::Change(name, set, unset)),
        (0..6_u8).prop_map(Edit::Remove),
    ]
}

proptest! {
    #[test]
    fn edits_are_read_as_what_was_meant(edits in prop::collection::vec(any_edit(), 1..12)) {
        let mut text = TEXT.to_owned();
        for edit in edits {
            let before = read(&text).volumes;
            let mut expected = before.clone();
            let mut document = Document::parse(&text).unwrap();
            let name = |number: &u8| format!("v{number}");
            let place = |number: &u8| before.iter().position(|volume| volume.name == name(number));
            let given = |volume: &mut crate::config::Volume, set: &Settings| {
                if let Some(alias) = set.get("alias") {
                    volume.alias = alias.as_str().map(str::to_owned);
                }
                if let Some(nbd) = set.get("nbd") {
                    volume.nbd = nbd.as_bool().unwrap();
                }
                volume.size_bytes = match &set["size"] {
                    serde_json::Value::String(text) => crate::size::parse_bytes(text).unwrap(),
                    number => number.as_u64().unwrap(),
                };
            };
            let done = match &edit {
                Edit::Add(number, settings) => {
                    let mut settings = settings.clone();
                    settings.insert("name".into(), json!(name(number)));
                    settings.insert("backing".into(), json!({ "null": true }));
                    if place(number).is_none() {
                        let mut volume = before.iter().find(|volume| volume.name == "second").unwrap().clone();
                        volume.name = name(number);
                        volume.alias = None;
                        volume.nvme.subsystem = name(number);
                        given(&mut volume, &settings);
                        expected.push(volume);
                    }
                    document.add_volume(&settings)
                }
                Edit::Change(number, set, unset) => {
                    let unset = if *unset { vec!["alias".to_owned()] } else { Vec::new() };
                    if let Some(place) = place(number) {
                        if !unset.is_empty() {
                            expected[place].alias = None;
                        }
                        given(&mut expected[place], set);
                    }
                    document.change_volume(&name(number), set, &unset)
                }
                Edit::Remove(number) => {
                    if let Some(place) = place(number) {
                        expected.remove(place);
                    }
                    document.remove_volume(&name(number))
                }
            };
            let is_there = matches!(&edit, Edit::Add(number, _) if place(number).is_none())
                || matches!(&edit, Edit::Change(number, ..) | Edit::Remove(number) if place(number).is_some());
            prop_assert_eq!(done.is_ok(), is_there);
            text = document.text();
            prop_assert_eq!(&read(&text).volumes, &expected, "{}", text);
            for comment in ["# The store of", "# The first", "# its name", "# Loopback", "# for the cluster", "# why not", "# The end."] {
                prop_assert!(text.contains(comment), "{} is lost in {}", comment, text);
            }
        }
    }
}
