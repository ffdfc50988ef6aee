use super::*;

fn announced(text: &str, portals: &[&str]) -> String {
    let config = Config::parse(text, "fels.toml").unwrap();
    let iscsi = portals.iter().map(|portal| portal.parse().unwrap()).collect();
    let portals = Portals { iscsi, ..Portals::default() };
    announcement(&config, &portals, &[])
}

fn volume(name: &str, more: &str) -> String {
    format!("[[volume]]\nname = \"{name}\"\nsize = \"1GiB\"\nbacking = {{ file = \"{name}.img\" }}\n{more}\n")
}

#[test]
fn a_volume_is_announced_with_a_line_to_paste_for_each_initiator() {
    assert_eq!(
        announced(&volume("demo", ""), &["127.0.0.1:3260", "[::1]:3260"]),
        "\
listening on 127.0.0.1:3260
listening on [::1]:3260

demo: 1GiB in fels-data/demo.img, blocks of 512 bytes
  target      iqn.2026-11.internal.fels:demo, LUN 0
  open-iscsi  iscsiadm -m discovery -t sendtargets -p 127.0.0.1:3260
              iscsiadm -m node -T iqn.2026-11.internal.fels:demo -p 127.0.0.1:3260 --login
  libiscsi    iscsi-inq iscsi://127.0.0.1:3260/iqn.2026-11.internal.fels:demo/0
  qemu        qemu-io -f raw -c 'read 0 64k' iscsi://127.0.0.1:3260/iqn.2026-11.internal.fels:demo/0
              qemu-system-x86_64 -drive file=iscsi://127.0.0.1:3260/iqn.2026-11.internal.fels:demo/0,format=raw,if=virtio
  measure     fels lab run vmware --target iscsi://127.0.0.1:3260/iqn.2026-11.internal.fels:demo/0 --time 10
"
    );
}

#[test]
fn nbd_has_its_lines_where_the_volume_is_an_export() {
    let text = format!("[nbd]\n{}{}", volume("demo", ""), volume("hidden", "nbd = false"));
    let config = Config::parse(&text, "fels.toml").unwrap();
    let iscsi = vec!["127.0.0.1:3260".parse().unwrap()];
    let tcp = vec!["0.0.0.0:10809".parse().unwrap()];
    let socket = Some("fels-data/nbd.sock".into());
    let said = announcement(
        &config,
        &Portals { iscsi: iscsi.clone(), nbd: tcp, nbd_socket: socket.clone(), ..Portals::default() },
        &[],
    );
    assert!(
        said.contains("listening on 0.0.0.0:10809 for NBD\nlistening on fels-data/nbd.sock for NBD\n"),
        "{said}"
    );
    let lines = "\
  nbd         nbdinfo nbd://127.0.0.1:10809/demo
              qemu-io -f raw -c 'read 0 64k' nbd://127.0.0.1:10809/demo
              nbd-client -N demo 127.0.0.1 10809 /dev/nbd0
";
    assert!(said.contains(lines) && !said.contains("10809/hidden"), "{said}");
    let said = announcement(&config, &Portals { iscsi, nbd_socket: socket, ..Portals::default() }, &[]);
    assert!(said.contains("nbdinfo 'nbd+unix:///demo?socket=fels-data/nbd.sock'\n"), "{said}");
    assert!(said.contains("nbd-client -N demo -unix fels-data/nbd.sock /dev/nbd0\n"), "{said}");
}

#[test]
fn a_volume_with_chap_shows_its_user_and_never_its_secret() {
    let text = "[iscsi]\ndiscovery_chap = [{ user = \"finder\", secret = \"finder-finder-1\" }]\n".to_owned()
        + &volume(
            "demo",
            "chap = [{ user = \"alice\", secret = \"alice-alice-1\" }]\nchap_mutual = { user = \"t\", secret = \"target-target-1\" }\nallow = [\"iqn.2004-10.com.example:a\", \"iqn.2004-10.com.example:b\"]",
        );
    let said = announced(&text, &["0.0.0.0:3260"]);
    assert_eq!(
        said,
        "\
listening on 0.0.0.0:3260

demo: 1GiB in fels-data/demo.img, blocks of 512 bytes
  target      iqn.2026-11.internal.fels:demo, LUN 0
  CHAP        user alice; write its secret where SECRET stands
  initiator   iqn.2004-10.com.example:a and 1 more, and no other
  open-iscsi  iscsiadm -m node -T iqn.2026-11.internal.fels:demo -p 127.0.0.1:3260 -o new
              iscsiadm -m node -T iqn.2026-11.internal.fels:demo -p 127.0.0.1:3260 -o update -n node.session.auth.authmethod -v CHAP
              iscsiadm -m node -T iqn.2026-11.internal.fels:demo -p 127.0.0.1:3260 -o update -n node.session.auth.username -v alice
              iscsiadm -m node -T iqn.2026-11.internal.fels:demo -p 127.0.0.1:3260 -o update -n node.session.auth.password -v SECRET
              iscsiadm -m node -T iqn.2026-11.internal.fels:demo -p 127.0.0.1:3260 --login
  libiscsi    iscsi-inq iscsi://alice%SECRET@127.0.0.1:3260/iqn.2026-11.internal.fels:demo/0
  qemu        qemu-io -f raw -c 'read 0 64k' iscsi://alice%SECRET@127.0.0.1:3260/iqn.2026-11.internal.fels:demo/0
              qemu-system-x86_64 -drive file=iscsi://alice%SECRET@127.0.0.1:3260/iqn.2026-11.internal.fels:demo/0,format=raw,if=virtio
  measure     fels lab run vmware --target iscsi://alice%SECRET@127.0.0.1:3260/iqn.2026-11.internal.fels:demo/0 --time 10
"
    );
}

#[test]
fn a_user_that_a_shell_would_split_is_quoted_and_kept_out_of_urls() {
    let said = announced(
        &volume("demo", "chap = [{ user = \"al'ice; rm @x\", secret = \"alice-alice-1\" }]"),
        &["[::]:3260"],
    );
    assert!(said.contains(r"node.session.auth.username -v 'al'\''ice; rm @x'"), "{said}");
    assert!(said.contains("iscsi-inq iscsi://[::1]:3260/iqn"), "{said}");
}

#[test]
fn every_backing_has_its_words() {
    for (given, words) in [
        ("{ memory = true }", "in memory,"),
        ("{ null = true }", "in nothing (writes are dropped),"),
        ("{ device = \"/dev/sdb\" }", "in /dev/sdb,"),
    ] {
        let text = volume("demo", "").replace("{ file = \"demo.img\" }", given);
        let said = announced(&text, &["127.0.0.1:3260"]);
        assert!(said.contains(words), "{said}");
    }
}

#[test]
fn many_volumes_are_cut_short_and_none_is_told() {
    let text: String = (0..MAX_DESCRIBED + 3).map(|index| volume(&format!("v{index}"), "")).collect();
    let said = announced(&text, &["127.0.0.1:3260"]);
    assert!(said.ends_with("\nand 3 volumes more, connected to in the same way\n"), "{said}");
    let said = announced("", &["127.0.0.1:3260"]);
    assert!(
        said.ends_with(
            "\nno volume is configured: `fels volume create demo --size 1GiB` makes one while the node runs\n"
        ),
        "{said}"
    );
}

#[test]
fn a_volume_over_nvme_is_announced_with_its_namespace() {
    let shared = "subsystem = \"shared\"\nhosts = [\"nqn.2014-08.com.example:a\"]";
    let hidden = "subsystem = \"shared\"\nnvme = false";
    let text =
        "[nvme]\n".to_owned() + &volume("one", shared) + &volume("two", hidden) + &volume("three", shared);
    let mut config = Config::parse(&text, "fels.toml").unwrap();
    control::number_namespaces(&mut config);
    let portals = |portals: [&str; 1]| portals.map(|portal| portal.parse().unwrap()).to_vec();
    let portals = Portals {
        iscsi: portals(["127.0.0.1:3260"]),
        nvme: portals(["127.0.0.1:4420"]),
        nvme_discovery: portals(["127.0.0.1:8009"]),
        ..Portals::default()
    };
    let said = announcement(&config, &portals, &[]);
    let listening = "\
listening on 127.0.0.1:3260
listening on 127.0.0.1:4420 for NVMe/TCP
listening on 127.0.0.1:8009 for NVMe/TCP discovery

one: 1GiB";
    assert!(said.starts_with(listening), "{said}");
    let third = "\
  subsystem   nqn.2026-11.internal.fels:shared, namespace 2
  host        nqn.2014-08.com.example:a, and no other
  nvme-cli    nvme discover -t tcp -a 127.0.0.1 -s 8009
              nvme connect -t tcp -a 127.0.0.1 -s 4420 -n nqn.2026-11.internal.fels:shared
  measure     fels lab run vmware --target nvme://127.0.0.1:4420/nqn.2026-11.internal.fels:shared/2 --time 10
";
    assert!(said.ends_with(third), "{said}");
    assert_eq!(said.matches("  subsystem ").count(), 2, "{said}");
}
