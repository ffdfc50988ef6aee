//! The power fails between any two operations, and whatever was not synchronised may be there or not.

use super::*;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

/// A disk: files by number, and names. What was not synchronised is lost when the power fails, or is not.
#[derive(Default)]
struct Model {
    left: Cell<usize>,
    state: RefCell<State>,
}

#[derive(Clone, Default)]
struct State {
    contents: Vec<Content>,
    names: BTreeMap<PathBuf, usize>,
    durable_names: BTreeMap<PathBuf, usize>,
}

#[derive(Clone, Default)]
struct Content {
    text: String,
    durable: String,
}

impl Model {
    fn with(path: &Path, text: &str) -> Model {
        let content = Content { text: text.into(), durable: text.into() };
        let names = BTreeMap::from([(path.to_owned(), 0)]);
        let state = State { contents: vec![content], names: names.clone(), durable_names: names };
        Model { left: Cell::new(usize::MAX), state: RefCell::new(state) }
    }

    fn step(&self) -> io::Result<std::cell::RefMut<'_, State>> {
        let left = self.left.get().checked_sub(1).ok_or(io::ErrorKind::Other)?;
        self.left.set(left);
        Ok(self.state.borrow_mut())
    }

    /// All that can be read at `path` after the power has failed now.
    fn readings(&self, path: &Path) -> Vec<Option<String>> {
        let state = self.state.borrow();
        let mut readings = Vec::new();
        for names in [&state.names, &state.durable_names] {
            match names.get(path) {
                None => readings.push(None),
                Some(file) => {
                    let Content { text, durable } = &state.contents[*file];
                    readings.extend([Some(text.clone()), Some(durable.clone())]);
                }
            }
        }
        readings
    }
}

impl Files for Model {
    type File = usize;

    fn create(&self, path: &Path) -> io::Result<usize> {
        let mut state = self.step()?;
        state.contents.push(Content::default());
        let file = state.contents.len() - 1;
        state.names.insert(path.to_owned(), file);
        Ok(file)
    }

    fn liken(&self, _: &usize, _: &Path) -> io::Result<()> {
        self.step().map(drop)
    }

    fn write(&self, file: &mut usize, text: &str) -> io::Result<()> {
        self.step()?.contents[*file].text.push_str(text);
        Ok(())
    }

    fn sync(&self, file: &usize) -> io::Result<()> {
        let mut state = self.step()?;
        let content = &mut state.contents[*file];
        content.durable.clone_from(&content.text);
        Ok(())
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = self.step()?;
        let file = state.names.remove(from).ok_or(io::ErrorKind::NotFound)?;
        state.names.insert(to.to_owned(), file);
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.step()?.names.remove(path).map(drop).ok_or(io::ErrorKind::NotFound.into())
    }

    fn sync_directory(&self, _: &Path) -> io::Result<()> {
        let mut state = self.step()?;
        state.durable_names = state.names.clone();
        Ok(())
    }
}

#[test]
fn at_any_power_cut_there_is_the_old_text_or_the_new_one_and_after_the_end_the_new_one() {
    let path = Path::new("/etc/fels.toml");
    let mut cut = 0;
    loop {
        let model = Model::with(path, "old");
        model.left.set(cut);
        let done = replace(&model, path, "new").is_ok();
        for read in model.readings(path) {
            let read = read.expect("there is always one");
            assert!(read == "new" || (!done && read == "old"), "{read:?} after {cut} operations");
        }
        if done {
            break;
        }
        cut += 1;
    }
    assert_eq!(cut, 6, "the operations of replacing a file");
}

#[test]
fn what_is_removed_does_not_come_back() {
    let path = Path::new("/data/pending.toml");
    let model = Model::with(path, "old");
    remove(&model, path).unwrap();
    assert_eq!(model.readings(path), [None, None]);
    remove(&model, path).unwrap();
}

#[test]
fn mode_and_owner_stay_and_nothing_else_is_left() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("fels.toml");
    std::fs::write(&path, "old").unwrap();
    std::fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
    let me = rustix::process::geteuid().as_raw();
    // Only root can give files away.
    if me == 0 {
        std::os::unix::fs::chown(&path, Some(12), Some(34)).unwrap();
    }
    std::fs::write(new_name(&path), "of a process that died").unwrap();
    replace(&System, &path, "new").unwrap();
    let after = std::fs::metadata(&path).unwrap();
    assert_eq!(after.mode() & 0o7777, 0o640);
    assert_eq!((after.uid(), after.gid()), if me == 0 { (12, 34) } else { (me, after.gid()) });
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "new");
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1);
}

#[test]
fn one_that_is_new_is_its_owners_alone() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("fels.toml");
    replace(&System, &path, "new").unwrap();
    assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o7777, 0o600);
}

#[test]
fn what_cannot_be_written_leaves_the_old_one() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("fels.toml");
    std::fs::write(&path, "old").unwrap();
    std::fs::create_dir(new_name(&path)).unwrap();
    assert!(write(&System, &path, "new").is_err());
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "old");
}
