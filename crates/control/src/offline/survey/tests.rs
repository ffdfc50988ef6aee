use super::*;
use plane::pool::Level;
use plane::pool::format::{CatalogueReference, End, Geometry, Slot};

/// What a member of `tank`, raid5 of three, says: its slot, and how the others were when it was written last.
fn member(slot: u8, generation: u64, states: [SlotState; 3]) -> Seen {
    let slots = states.iter().enumerate();
    let slots = slots.map(|(slot, state)| Slot { member: [slot as u8 + 1; 16], state: *state });
    let label = Label {
        pool: [9; 16],
        member: [slot + 1; 16],
        generation,
        slot: Some(slot.into()),
        end: End::Head,
        integrity: true,
        clean: true,
        geometry: Geometry::plan(Level::Raid5, 3, 65536, 64 << 20, 16, 1 << 20).unwrap(),
        retired: 1,
        catalogue: CatalogueReference { generation: 1, volumes: 0, checksum: 0, copy: 0 },
        name: "tank".to_owned(),
        slots: slots.collect(),
        spares: vec![[7; 16]],
        scrub: None,
    };
    Seen::Member(Box::new(MemberLabel { label, bytes: 64 << 20, volumes: Some(Vec::new()) }))
}

const GOOD: [SlotState; 3] = [SlotState::InSync; 3];
/// The second one went out.
const LESS: [SlotState; 3] =
    [SlotState::InSync, SlotState::Out { cause: Cause::Missing, since: 5 }, SlotState::InSync];

fn found(seen: Vec<(&str, Seen)>) -> Survey {
    survey(seen.into_iter().map(|(path, seen)| (PathBuf::from(path), seen)).collect())
}

fn one(seen: Vec<(&str, Seen)>) -> FoundPool {
    let mut survey = found(seen);
    assert_eq!(survey.pools.len(), 1, "{survey:?}");
    survey.pools.remove(0)
}

fn conditions(pool: &FoundPool) -> Vec<String> {
    pool.slots.iter().map(FoundSlot::condition).collect()
}

#[test]
fn members_are_put_into_their_slots_in_any_order() {
    let pool = one(vec![("/c", member(2, 3, GOOD)), ("/a", member(0, 3, GOOD)), ("/b", member(1, 3, GOOD))]);
    assert_eq!(pool.found(), ["/a", "/b", "/c"].map(PathBuf::from));
    assert_eq!(conditions(&pool), ["in sync"; 3]);
    assert!(pool.survival().is_whole && pool.survival().gone == 0);
}

#[test]
fn one_that_is_missing_and_one_that_is_stale_are_told_apart() {
    let pool = one(vec![("/a", member(0, 3, GOOD)), ("/c", member(2, 3, GOOD))]);
    assert_eq!(conditions(&pool), ["in sync", "missing", "in sync"]);
    assert!(pool.survival().is_whole);
    assert!(pool.table().to_string().contains("\"missing-member-1\""));
    assert_eq!(pool.named().len(), 3, "each slot has a path");
    // The pool went on without /b, whose own label says that all is well.
    let pool = one(vec![("/b", member(1, 3, GOOD)), ("/a", member(0, 5, LESS)), ("/c", member(2, 5, LESS))]);
    assert_eq!(conditions(&pool)[1], "stale: went out (missing); gets what it missed");
    assert!(pool.survival().is_whole && pool.survival().gone == 1);
    let pool = one(vec![("/b", member(1, 3, GOOD)), ("/a", member(0, 5, LESS))]);
    assert!(!pool.survival().is_whole, "one missing and one stale are too many");
}

#[test]
fn copies_spares_and_what_was_replaced_are_no_slots() {
    let spare = |id: u8| match member(0, 4, GOOD) {
        Seen::Member(mut seen) => {
            seen.label.member = [id; 16];
            Seen::Member(seen)
        }
        _ => unreachable!("it is a member"),
    };
    let pool = one(vec![
        ("/old", member(0, 2, GOOD)),
        ("/a", member(0, 5, GOOD)),
        ("/same", member(0, 5, GOOD)),
        ("/spare", spare(7)),
        ("/gone", spare(8)),
    ]);
    assert_eq!(pool.found(), [PathBuf::from("/a")], "the newest one counts");
    assert_eq!(pool.spares, [PathBuf::from("/spare")]);
    let unfit: Vec<_> = pool.unfit.iter().map(|(path, why)| format!("{} {why}", path.display())).collect();
    assert_eq!(
        unfit,
        ["/same is a copy of /a", "/gone was a member once, and was replaced", "/old is an older copy of /a"]
    );
}

#[test]
fn what_is_no_member_is_told_with_what_it_is() {
    let survey = found(vec![
        ("/none", Seen::Missing),
        ("/blank", Seen::Blank { bytes: 9 }),
        ("/letter", Seen::Other("has something else on it".to_owned())),
        ("/busy", Seen::InUse),
    ]);
    assert!(survey.pools.is_empty());
    let others: Vec<_> =
        survey.others.iter().map(|(path, why)| format!("{} {why}", path.display())).collect();
    assert_eq!(
        others,
        ["/none is not there, or empty", "/blank is blank", "/letter has something else on it"]
    );
    assert_eq!(survey.in_use, [PathBuf::from("/busy")]);
}

/// Both halves of a pool were each used without the other: that one gets from the other what it missed was said, and no node opened
/// the two.
#[test]
fn one_that_was_used_without_the_others_is_not_stale() {
    let alone = [SlotState::Out { cause: Cause::Missing, since: 6 }, SlotState::InSync, SlotState::InSync];
    let pool = one(vec![("/b", member(1, 7, alone)), ("/a", member(0, 9, LESS)), ("/c", member(2, 9, LESS))]);
    assert_eq!(conditions(&pool), ["in sync", "missing", "in sync"]);
    assert_eq!((pool.parted.as_slice(), pool.unfit.len()), ([PathBuf::from("/b")].as_slice(), 1));
    // One that never went on by itself only lacks something.
    let pool = one(vec![("/b", member(1, 4, GOOD)), ("/a", member(0, 9, LESS)), ("/c", member(2, 9, LESS))]);
    assert!(pool.parted.is_empty() && pool.unfit.is_empty());
}
