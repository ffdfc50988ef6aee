//! What is known of an interval, how it is printed, and what the screen shows of it.

use super::frame::{Frame, Order, Taken};
use super::screen::{Page, Screen};
use super::text;
use control::api::model::{
    Activity, Connection, Initiator, Initiators, Io, LayerTime, Pools, Session, Times, VolumeActivity,
};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent};

#[expect(clippy::cast_sign_loss, reason = "times are not negative")]
fn taken(uptime_s: f64, volumes: Vec<VolumeActivity>) -> Taken {
    let connections = vec![Connection { from: "127.0.0.1:4000".to_owned(), to: None }];
    // Ten writes of 512 bytes a second.
    let writes = (uptime_s * 10.0) as u64;
    let (written_bytes, taken_us) = (writes * 512, writes * 40);
    let io = Io { writes, written_bytes, taken_us, in_flight: 1, ..Io::default() };
    let session = Session { id: "1".to_owned(), volumes: vec!["db".to_owned()], connections, shard: 1, io };
    let initiator =
        Initiator { protocol: "nbd".to_owned(), name: "somebody".to_owned(), sessions: vec![session] };
    Taken {
        activity: Activity { uptime_s, volumes },
        initiators: Initiators { initiators: vec![initiator] },
        pools: Pools::default(),
    }
}

fn volume(name: &str, reads: u64, read_bytes: u64, taken_s: f64) -> VolumeActivity {
    VolumeActivity { name: name.to_owned(), reads, read_bytes, taken_s, ..VolumeActivity::default() }
}

fn frame() -> Frame {
    let layer = |layer: &str, mean_us, mean_share, slowest_us, slowest_share| LayerTime {
        layer: layer.to_owned(),
        mean_us,
        mean_share,
        slowest_us,
        slowest_share,
    };
    let layers = vec![layer("limit", 25.0, 0.25, 900.0, 0.9), layer("disk", 75.0, 0.75, 100.0, 0.1)];
    let time = Times { followed: 9, mean_us: 100.0, slowest_us: 1000.0, layers };
    let before = taken(10.0, vec![volume("db", 1000, 0, 1.0), volume("a", 5, 0, 0.0)]);
    let db = VolumeActivity { time, in_flight: 3, ..volume("db", 3000, 8_192_000, 1.5) };
    let after = taken(12.0, vec![volume("a", 5, 0, 0.0), db, volume("new", 7, 7, 0.0)]);
    Frame::between(&before, &after, Order::Iops)
}

#[test]
fn rates_are_those_of_the_interval() {
    let frame = frame();
    let names: Vec<_> = frame.volumes.iter().map(|volume| volume.name.as_str()).collect();
    assert_eq!(names, ["db", "a", "new"]);
    let db = &frame.volumes[0];
    assert_eq!((db.reads_per_s, db.read_bytes_per_s, db.mean_us), (1000.0, 4_096_000.0, Some(250.0)));
    assert_eq!((frame.volumes[1].mean_us, frame.volumes[2].reads_per_s), (None, 0.0), "not known yet");
    // The node was started again in between.
    let again = Frame::between(
        &taken(900.0, vec![volume("db", 99, 0, 9.0)]),
        &taken(1.0, vec![volume("db", 3, 0, 0.1)]),
        Order::Name,
    );
    assert_eq!((again.volumes[0].reads_per_s, again.volumes[0].mean_us), (0.0, None));
}

#[test]
fn a_frame_is_printed_as_tables() {
    let expected = "\
in 2.0 s:

volume  reads/s  writes/s  read/s  written/s      mean  slowest  queue  sessions  errors
db         1000         0  4.1 MB        0 B  250.0 us  1.00 ms      3         0       0
a             0         0     0 B        0 B         -        -      0         0       0
new           0         0     0 B        0 B         -        -      0         0       0

time of db     mean   share   slowest   share
limit       25.0 us  25.0 %  900.0 us  90.0 %
disk        75.0 us  75.0 %  100.0 us  10.0 %

protocol  initiator  session  volumes  reads/s  writes/s  read/s  written/s     mean  queue  errors  connections  shard
nbd       somebody   1        db             0        10     0 B     5.1 kB  40.0 us      1       0            1      1
";
    assert_eq!(text::of(&frame()), expected);
}

fn drawn(screen: &Screen) -> String {
    drawn_on(screen, 96)
}

fn drawn_on(screen: &Screen, columns: u16) -> String {
    let mut terminal = Terminal::new(TestBackend::new(columns, 14)).unwrap();
    terminal.draw(|area| screen.draw(area)).unwrap();
    terminal.backend().to_string()
}

#[test]
fn keys_turn_pages_choose_sort_and_end() {
    let mut screen = Screen { frame: frame(), ..Screen::default() };
    let press = |screen: &mut Screen, code| screen.press(KeyEvent::from(code));
    let first = drawn(&screen);
    assert!(first.contains("time of db") && first.contains("90.0 %"), "{first}");
    assert!(!press(&mut screen, KeyCode::Down));
    assert_eq!(screen.chosen.as_deref(), Some("a"));
    assert!(drawn(&screen).contains("time of a: nothing was followed"));
    // It stays chosen where it is now.
    for _ in 0..3 {
        press(&mut screen, KeyCode::Char('s'));
    }
    assert_eq!((screen.order, screen.frame.volumes[0].name.as_str()), (Order::Name, "a"));
    assert_eq!(screen.chosen.as_deref(), Some("a"));
    press(&mut screen, KeyCode::Up);
    assert_eq!(screen.chosen.as_deref(), Some("a"));
    for _ in 0..9 {
        press(&mut screen, KeyCode::Down);
    }
    assert_eq!(screen.chosen.as_deref(), Some("new"));
    press(&mut screen, KeyCode::Right);
    assert!(screen.page == Page::Sessions && drawn(&screen).contains("somebody"));
    press(&mut screen, KeyCode::Right);
    press(&mut screen, KeyCode::Right);
    assert!(screen.page == Page::Volumes);
    press(&mut screen, KeyCode::Left);
    assert!(screen.page == Page::Members);
    assert!(press(&mut screen, KeyCode::Char('q')) && press(&mut screen, KeyCode::Esc));
    // Nothing to show is no trouble, and a node that is gone is told.
    let empty = Screen { trouble: Some("no node runs".to_owned()), ..Screen::default() };
    assert!(drawn(&empty).contains("no node runs"));
}

/// A host that calls itself as NVMe has it left no room for any figure on a usual terminal, and a long name of a volume left nothing at all on a small one.
#[test]
fn a_long_name_hides_no_figures() {
    let name = "nqn.2014-08.org.nvmexpress:uuid:0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0";
    let mut frame = frame();
    frame.sessions[0].initiator = name.to_owned();
    frame.volumes[0].name = "x".repeat(40) + "-last";
    let mut screen = Screen { frame, page: Page::Sessions, ..Screen::default() };
    let usual = drawn_on(&screen, 80);
    assert!(usual.contains("writes/s") && usual.contains("-8796-a5b4c3d2e1f0"), "{usual}");
    let wide = drawn_on(&screen, 200);
    assert!(wide.contains(name) && wide.contains("shard"), "{wide}");
    screen.page = Page::Volumes;
    let small = drawn_on(&screen, 20);
    assert!(small.contains("\u{2026}xxxx") && small.contains("-last"), "{small}");
}

#[test]
fn an_interval_is_one_that_makes_sense() {
    assert_eq!(super::interval("0.5"), Ok(std::time::Duration::from_millis(500)));
    for wrong in ["0", "-1", "nan", "1e9", "soon"] {
        assert!(super::interval(wrong).is_err(), "{wrong}");
    }
}
