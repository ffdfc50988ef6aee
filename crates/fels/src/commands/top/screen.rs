//! The live view: frames, keys, and what of both is on the terminal.

use std::io;
use std::time::{Duration, Instant};

use control::api::client::Client;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Text};
use ratatui::widgets::{Cell, Row, Table, TableState};
use ratatui::{DefaultTerminal, Frame as Area};

use super::super::node::failure;
use super::super::table::Align;
use super::frame::{Frame, Order, Taken};
use super::text::{self, Rows};
use crate::message::Failure;

/// Characters of a text, where there is too little room for all of them: the names of others may be as long as they like.
const MAX_TEXT: usize = 24;
/// Between two columns.
const SPACING: u16 = 2;
const REVERSED: Style = Style::new().add_modifier(Modifier::REVERSED);
const BOLD: Style = Style::new().add_modifier(Modifier::BOLD);

/// What is looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Page {
    #[default]
    Volumes,
    Sessions,
    Members,
}

const PAGES: [(Page, &str); 3] =
    [(Page::Volumes, "volumes"), (Page::Sessions, "sessions"), (Page::Members, "members")];

/// What is on the screen.
#[derive(Default)]
pub struct Screen {
    pub frame: Frame,
    pub page: Page,
    pub order: Order,
    /// The volume that is chosen, whatever its place is.
    pub chosen: Option<String>,
    /// Why the node did not answer the last time.
    pub trouble: Option<String>,
}

/// Until somebody ends it.
pub fn run(client: &Client, interval: Duration, order: Order) -> Result<(), Failure> {
    let before = Taken::from(client).map_err(|error| failure(&error))?;
    let mut terminal = ratatui::try_init().map_err(|error| failed(&error))?;
    let shown = show(&mut terminal, client, interval, order, before).map_err(|error| failed(&error));
    ratatui::restore();
    shown
}

fn failed(error: &io::Error) -> Failure {
    Failure::new(format!("the terminal cannot be used: {error}"), Some("`fels top --once` prints a table"))
}

fn show(
    terminal: &mut DefaultTerminal,
    client: &Client,
    interval: Duration,
    order: Order,
    mut before: Taken,
) -> io::Result<()> {
    // What is there already; rates are known after the first interval.
    let mut screen = Screen { frame: Frame::between(&before, &before, order), order, ..Screen::default() };
    let mut next = Instant::now() + interval;
    loop {
        terminal.draw(|area| screen.draw(area))?;
        if event::poll(next.saturating_duration_since(Instant::now()))? {
            if let Event::Key(key) = event::read()?
                && screen.press(key)
            {
                return Ok(());
            }
            continue;
        }
        next = Instant::now() + interval;
        match Taken::from(client) {
            Ok(after) => {
                screen.frame = Frame::between(&before, &after, screen.order);
                screen.trouble = None;
                before = after;
            }
            Err(error) => screen.trouble = Some(error.to_string()),
        }
    }
}

impl Screen {
    /// Whether it ends.
    pub fn press(&mut self, key: KeyEvent) -> bool {
        if key.kind == KeyEventKind::Release {
            return false;
        }
        let page = PAGES.iter().position(|(page, _)| *page == self.page).unwrap_or_default();
        match key.code {
            KeyCode::Char('q') | KeyCode::Esc => return true,
            KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => return true,
            KeyCode::Right | KeyCode::Tab => self.page = PAGES[(page + 1) % PAGES.len()].0,
            KeyCode::Left => self.page = PAGES[(page + PAGES.len() - 1) % PAGES.len()].0,
            KeyCode::Up => self.choose(|at| at.saturating_sub(1)),
            KeyCode::Down => self.choose(|at| at + 1),
            KeyCode::Char('s') => {
                self.order = self.order.next();
                self.frame.sort(self.order);
            }
            _ => {}
        }
        false
    }

    /// Where the chosen volume is: it stays chosen while others pass it.
    fn at(&self) -> usize {
        let is_chosen = |volume: &super::frame::Volume| Some(&volume.name) == self.chosen.as_ref();
        self.frame.volumes.iter().position(is_chosen).unwrap_or_default()
    }

    fn choose(&mut self, move_to: impl FnOnce(usize) -> usize) {
        let last = self.frame.volumes.len().saturating_sub(1);
        let at = move_to(self.at()).min(last);
        self.chosen = self.frame.volumes.get(at).map(|volume| volume.name.clone());
    }

    pub fn draw(&self, area: &mut Area) {
        let volume = self.frame.volumes.get(self.at()).filter(|_| self.page == Page::Volumes);
        let layers = volume.map(|volume| text::layers(volume).rows.len().max(2));
        let below = Constraint::Length(layers.map_or(0, |rows| rows as u16 + 1));
        let [head, main, time, foot] =
            Layout::vertical([Constraint::Length(2), Constraint::Min(3), below, Constraint::Length(1)])
                .areas(area.area());
        area.render_widget(self.head(), head);
        match self.page {
            Page::Volumes => draw_table(area, main, &text::volumes(&self.frame), Some(self.at())),
            Page::Sessions => draw_table(area, main, &text::sessions(&self.frame), None),
            Page::Members => draw_table(area, main, &text::members(&self.frame), None),
        }
        if let Some(volume) = volume {
            if volume.time.followed > 0 {
                draw_table(area, time, &text::layers(volume), None);
            } else {
                let nothing =
                    format!("time of {}: nothing was followed through its layers lately", volume.name);
                area.render_widget(Line::raw(nothing), time);
            }
        }
        area.render_widget(Line::styled("q ends  up/down volume  left/right page  s sort", REVERSED), foot);
    }

    fn head(&self) -> Text<'_> {
        let pages = PAGES.iter().map(|(page, name)| {
            let style = if *page == self.page { REVERSED } else { Style::new() };
            ratatui::text::Span::styled(format!(" {name} "), style)
        });
        let below = match &self.trouble {
            Some(trouble) => format!("the node does not answer: {trouble}"),
            None => format!("up {:.0} s, by {:?}", self.frame.uptime_s, self.order).to_lowercase(),
        };
        Text::from(vec![pages.collect::<Line>(), Line::raw(below)])
    }
}

/// A table as wide as its cells; the line of `chosen` is always in sight.
/// Where there is too little room texts are cut, and then the columns at the right are left out: all of them a bit narrower would tell nothing.
fn draw_table(area: &mut Area, place: Rect, rows: &Rows, chosen: Option<usize>) {
    let room = usize::from(place.width);
    let is_whole =
        (0..rows.columns.len()).map(|column| width(&rows.rows, column) + usize::from(SPACING)).sum::<usize>()
            <= room + usize::from(SPACING);
    let most = if is_whole { room } else { room.min(MAX_TEXT) };
    let cut = |row: &Vec<String>| {
        let cells = row.iter().zip(&rows.columns);
        let cells =
            cells.map(|(cell, align)| if *align == Align::Left { end_of(cell, most) } else { cell.clone() });
        cells.collect::<Vec<_>>()
    };
    let shown: Vec<_> = rows.rows.iter().map(cut).collect();
    let mut end = 0;
    let fits = |width: &usize| {
        end += width + usize::from(SPACING);
        end <= usize::from(place.width + SPACING)
    };
    let widths = (0..rows.columns.len()).map(|column| width(&shown, column)).take_while(fits);
    let widths: Vec<_> = widths.map(|width| Constraint::Length(width as u16)).collect();
    let cells = |row: &Vec<String>| {
        let cells = row.iter().zip(&rows.columns).take(widths.len()).map(|(cell, align)| {
            let text = Text::raw(cell.clone());
            Cell::from(if *align == Align::Right { text.right_aligned() } else { text })
        });
        Row::new(cells.collect::<Vec<_>>())
    };
    let Some((head, rest)) = shown.split_first() else { return };
    let table =
        Table::new(rest.iter().map(&cells), &widths).header(cells(head).style(BOLD)).column_spacing(SPACING);
    let mut state = TableState::new().with_selected(chosen);
    area.render_stateful_widget(table.row_highlight_style(REVERSED), place, &mut state);
}

fn width(rows: &[Vec<String>], column: usize) -> usize {
    rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0)
}

/// The end of a text that is too long: it is what tells names apart that begin alike.
fn end_of(text: &str, most: usize) -> String {
    let count = text.chars().count();
    if count <= most {
        return text.to_owned();
    }
    "\u{2026}".chars().chain(text.chars().skip(count + 1 - most)).collect()
}
