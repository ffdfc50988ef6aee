//! The configuration as a text that is edited in place: comments, order and formatting of what is not meant stay.
//!
//! Nothing is checked here. What comes out is read as a whole by the reader of the configuration.

use std::path::{Path, PathBuf};

use toml_edit::{Array, ArrayOfTables, DocumentMut, InlineTable, Item, Table, TableLike, Value};

use crate::config::lexical;

/// Keys of a section and what they are to be.
pub type Settings = serde_json::Map<String, serde_json::Value>;

/// Why a text cannot be edited.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum EditError {
    /// It is no TOML.
    #[error("the configuration cannot be edited: {0}")]
    Syntax(String),
    /// There is no such section.
    #[error("there is no {section} {name}")]
    Missing {
        /// `volume` or `pool`.
        section: &'static str,
        /// Its name.
        name: String,
    },
    /// There is one already.
    #[error("there is a volume {0} already")]
    Taken(String),
    /// There is one already.
    #[error("there is a pool {0} already")]
    PoolTaken(String),
}

/// A configuration that is edited.
pub struct Document(DocumentMut);

const VOLUME: &str = "volume";
const POOL: &str = "pool";

impl Document {
    /// Reads a text.
    pub fn parse(text: &str) -> Result<Document, EditError> {
        text.parse()
            .map(Document)
            .map_err(|error: toml_edit::TomlError| EditError::Syntax(error.message().into()))
    }

    /// The text as it is now.
    pub fn text(&self) -> String {
        self.0.to_string()
    }

    /// Adds a volume behind the others.
    pub fn add_volume(&mut self, settings: &Settings) -> Result<(), EditError> {
        let name = settings.get("name").and_then(|name| name.as_str()).unwrap_or_default();
        if self.find(VOLUME, name).is_ok() {
            return Err(EditError::Taken(name.to_owned()));
        }
        self.add(VOLUME, settings);
        Ok(())
    }

    /// Adds a pool behind the others.
    pub fn add_pool(&mut self, settings: &Settings) -> Result<(), EditError> {
        let name = settings.get("name").and_then(|name| name.as_str()).unwrap_or_default();
        if self.find(POOL, name).is_ok() {
            return Err(EditError::PoolTaken(name.to_owned()));
        }
        self.add(POOL, settings);
        Ok(())
    }

    fn add(&mut self, section: &str, settings: &Settings) {
        let entry = self.0.as_table_mut().entry(section).or_insert(Item::ArrayOfTables(ArrayOfTables::new()));
        if let Some(array) = entry.as_array_mut() {
            let mut table = InlineTable::new();
            fill(&mut table, settings);
            array.push(table);
        } else if let Some(tables) = entry.as_array_of_tables_mut() {
            let mut table = Table::new();
            table.decor_mut().set_prefix("\n");
            fill(&mut table, settings);
            tables.push(table);
        }
    }

    /// Changes keys of a volume, and takes others away.
    pub fn change_volume(&mut self, name: &str, set: &Settings, unset: &[String]) -> Result<(), EditError> {
        let table = self.find(VOLUME, name)?;
        for key in unset {
            table.remove(key);
        }
        fill(table, set);
        Ok(())
    }

    /// Takes a volume out. Comments right above it go with it, those further up stay.
    pub fn remove_volume(&mut self, name: &str) -> Result<(), EditError> {
        self.remove(VOLUME, name)
    }

    /// Takes the table of a pool away, as that of a volume.
    pub fn remove_pool(&mut self, name: &str) -> Result<(), EditError> {
        self.remove(POOL, name)
    }

    fn remove(&mut self, section: &'static str, name: &str) -> Result<(), EditError> {
        let missing = || EditError::Missing { section, name: name.to_owned() };
        let item = self.0.get_mut(section).ok_or_else(missing)?;
        if let Some(array) = item.as_array_mut() {
            let is_it = |value: &Value| value.as_inline_table().is_some_and(|table| is_named(table, name));
            let place = array.iter().position(is_it).ok_or_else(missing)?;
            array.remove(place);
            return Ok(());
        }
        let tables = item.as_array_of_tables_mut().ok_or_else(missing)?;
        let place = tables.iter().position(|table| is_named(table, name)).ok_or_else(missing)?;
        let above = tables.get(place).and_then(|table| table.decor().prefix()?.as_str()).unwrap_or_default();
        let kept = above.rfind("\n\n").map_or("", |end| &above[..=end]).to_owned();
        tables.remove(place);
        if let Some(next) = tables.get_mut(place) {
            let below = next.decor().prefix().and_then(|prefix| prefix.as_str()).unwrap_or_default();
            let prefix = format!("{kept}{below}");
            next.decor_mut().set_prefix(prefix);
        } else {
            let is_empty = tables.is_empty();
            if is_empty {
                self.0.remove(section);
            }
            let trailing = format!("{kept}{}", self.0.trailing().as_str().unwrap_or_default());
            self.0.set_trailing(trailing);
        }
        Ok(())
    }

    /// The section of one volume, alone.
    pub fn volume_alone(&self, name: &str) -> Option<String> {
        let item = self.0.get(VOLUME)?;
        let mut table = if let Some(array) = item.as_array() {
            let inline = array.iter().filter_map(Value::as_inline_table);
            inline.into_iter().find(|table| is_named(*table, name))?.clone().into_table()
        } else {
            item.as_array_of_tables()?.iter().find(|table| is_named(*table, name))?.clone()
        };
        table.decor_mut().set_prefix("");
        let mut tables = ArrayOfTables::new();
        tables.push(table);
        let mut document = DocumentMut::new();
        document.insert(VOLUME, Item::ArrayOfTables(tables));
        Some(document.to_string())
    }

    /// Lets a pool name these members. Those that it names already stay where they stand and as they are written; the others take the
    /// places of those that are members no more, and come behind the last one when there are more. `data` is what relative paths are relative to.
    pub fn set_members(&mut self, pool: &str, members: &[PathBuf], data: &Path) -> Result<(), EditError> {
        let table = self.find(POOL, pool)?;
        let Some(array) = table.get_mut("members").and_then(Item::as_array_mut) else { return Ok(()) };
        let named: Vec<_> =
            array.iter().map(|value| value.as_str().map(|text| resolved(data, text))).collect();
        let mut new = members.iter().filter(|member| !named.contains(&Some(resolved_path(member))));
        for (place, name) in named.iter().enumerate() {
            let Some(name) = name else { continue };
            if members.iter().any(|member| resolved_path(member) == *name) {
                continue;
            }
            let Some(member) = new.next() else { break };
            put(array, place, member);
        }
        // Further members of a pool that was extended.
        for member in new {
            array.push(member.display().to_string());
        }
        Ok(())
    }

    /// Lets a pool name one spare more, or no more those that `gone` says.
    pub fn set_spares(
        &mut self,
        pool: &str,
        added: Option<&Path>,
        gone: impl Fn(&Path) -> bool,
        data: &Path,
    ) -> Result<(), EditError> {
        let table = self.find(POOL, pool)?;
        let is_there = table.contains_key("spares");
        if !is_there && added.is_none() {
            return Ok(());
        }
        let entry = table.entry("spares").or_insert(Item::Value(Array::new().into()));
        let Some(array) = entry.as_array_mut() else { return Ok(()) };
        array.retain(|value| !value.as_str().is_some_and(|text| gone(&resolved(data, text))));
        let names = |value: &Value, path| value.as_str().is_some_and(|text| resolved(data, text) == path);
        if let Some(path) = added
            && !array.iter().any(|value| names(value, resolved_path(path)))
        {
            array.push(path.display().to_string());
        }
        if array.is_empty() {
            table.remove("spares");
        }
        Ok(())
    }

    /// Gives a key of a pool another value, if it is there.
    pub fn update_pool(&mut self, pool: &str, key: &str, value: &str) -> Result<(), EditError> {
        let table = self.find(POOL, pool)?;
        if table.contains_key(key) {
            set(table, key, value.into());
        }
        Ok(())
    }

    fn find(&mut self, section: &'static str, name: &str) -> Result<&mut dyn TableLike, EditError> {
        let missing = || EditError::Missing { section, name: name.to_owned() };
        match self.0.get_mut(section).ok_or_else(missing)? {
            Item::ArrayOfTables(tables) => {
                let table = tables.iter_mut().find(|table| is_named(*table, name));
                table.map(|table| table as &mut dyn TableLike).ok_or_else(missing)
            }
            Item::Value(Value::Array(array)) => {
                let mut tables = array.iter_mut().filter_map(Value::as_inline_table_mut);
                let table = tables.find(|table| is_named(*table, name));
                table.map(|table| table as &mut dyn TableLike).ok_or_else(missing)
            }
            _ => Err(missing()),
        }
    }
}

fn is_named(table: &dyn TableLike, name: &str) -> bool {
    table.get("name").and_then(Item::as_str) == Some(name)
}

/// Sets keys in the order of the reference.
fn fill(table: &mut dyn TableLike, settings: &Settings) {
    let mut keys: Vec<_> = settings.keys().collect();
    let place = |key: &str| crate::config::volume_keys().position(|known| known == key);
    keys.sort_by_key(|key| place(key).unwrap_or(usize::MAX));
    for key in keys {
        if let Some(value) = value_of(&settings[key]) {
            set(table, key, value);
        }
    }
}

/// Gives a key a value, and leaves what is written around the old one.
fn set(table: &mut dyn TableLike, key: &str, mut value: Value) {
    if let Some(Item::Value(old)) = table.get(key) {
        *value.decor_mut() = old.decor().clone();
    }
    if let Some(item) = table.get_mut(key) {
        *item = Item::Value(value);
    } else {
        table.insert(key, Item::Value(value));
    }
}

fn put(array: &mut Array, place: usize, path: &Path) {
    let mut value = Value::from(path.display().to_string());
    if let Some(old) = array.get(place) {
        *value.decor_mut() = old.decor().clone();
    }
    array.replace_formatted(place, value);
}

/// A value of JSON in TOML, which has no null.
fn value_of(json: &serde_json::Value) -> Option<Value> {
    use serde_json::Value as Json;
    Some(match json {
        Json::Null => return None,
        Json::Bool(value) => Value::from(*value),
        Json::Number(number) => match number.as_i64() {
            Some(number) => Value::from(number),
            // The reader says what is wrong with it.
            None => Value::from(number.to_string()),
        },
        Json::String(text) => Value::from(text.as_str()),
        Json::Array(values) => Value::Array(values.iter().filter_map(value_of).collect()),
        Json::Object(object) => {
            let entries = object.iter().filter_map(|(key, value)| Some((key.as_str(), value_of(value)?)));
            Value::InlineTable(entries.collect())
        }
    })
}

fn resolved(data: &Path, text: &str) -> PathBuf {
    resolved_path(&data.join(text))
}

fn resolved_path(path: &Path) -> PathBuf {
    std::path::absolute(path).map_or_else(|_| path.to_owned(), |path| lexical(&path))
}

#[cfg(test)]
mod tests;
