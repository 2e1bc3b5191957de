//! What `top` shows and how keys change it: no terminal, no connection.
//!
//! ```text
//! answers ─► App::hear ─┐                      ┌─► reads, for the connection
//!                       ├─► App: table, walk ──┤
//! keys ────► App::press ┘                      └─► drawn as it is
//! ```

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::detail::{Detail, Values};
use super::rates::{Rates, Reading, Sort};

/// The most characters of a filter.
const FILTER_LEN_MAX: usize = 60;
/// The most steps of a walk that are remembered.
const WALK_LEN_MAX: usize = 1000;
/// Rows that a page moves, as long as nothing was drawn.
const PAGE_ROWS: usize = 10;

/// What is to be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ask {
    /// The table, and of an element these handlers.
    Refresh(Option<(String, Vec<String>)>),
    /// An element.
    Open(String),
    /// A handler of an element.
    Read(String, String),
}

/// What was answered.
#[derive(Clone, Debug)]
pub enum Told {
    /// The table.
    Reading(Reading),
    /// An element; none if it is gone.
    Opened(String, Option<Detail>),
    /// Handlers of an element.
    Values(String, Values),
}

/// What the cursor can stand on while an element is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Item {
    /// Neighbour so and so of port so and so.
    Peer(usize, usize),
    /// A handler.
    Handler(usize),
}

/// Where the shown part of what is longer than the screen begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Scroll {
    /// The first line.
    pub line: usize,
    /// Whether the cursor must be seen.
    pub follows: bool,
    /// Lines there is room for.
    pub rows: usize,
}

/// See the module.
#[derive(Debug)]
pub struct App {
    /// Where the router is.
    pub place: String,
    /// Seconds between readings.
    pub interval_s: f64,
    last: Option<Reading>,
    /// The result of the last two readings.
    pub rates: Option<Rates>,
    /// Readings with rates, so far.
    pub refreshes: u64,
    pub sort: Sort,
    pub filter: String,
    /// Whether the filter is being typed.
    pub is_typing: bool,
    pub shows_help: bool,
    /// What went wrong last.
    pub message: String,
    /// The element that is selected in the table.
    pub selected: Option<String>,
    /// The first row of the table that is shown.
    pub table_scroll: Scroll,
    /// Elements that were walked through; the last is shown. None: the table.
    pub walk: Vec<String>,
    /// What is known of the last.
    pub detail: Option<Detail>,
    /// Number of the item of the element that the cursor stands on.
    pub cursor: usize,
    /// The handler whose whole answer is shown.
    pub unfolded: Option<String>,
    pub scroll: Scroll,
    asks: Vec<Ask>,
    /// Whether it is over.
    pub quits: bool,
}

impl App {
    /// Of a router at `place`.
    pub fn new(place: String, interval_s: f64, sort: Sort) -> Self {
        Self {
            place,
            interval_s,
            last: None,
            rates: None,
            refreshes: 0,
            sort,
            filter: String::new(),
            is_typing: false,
            shows_help: false,
            message: String::new(),
            selected: None,
            table_scroll: Scroll::default(),
            walk: Vec::new(),
            detail: None,
            cursor: 0,
            unfolded: None,
            scroll: Scroll::default(),
            asks: Vec::new(),
            quits: false,
        }
    }

    /// What is to be read now.
    pub fn take_asks(&mut self) -> Vec<Ask> {
        std::mem::take(&mut self.asks)
    }

    /// What is to be read regularly.
    pub fn refresh(&self) -> Ask {
        Ask::Refresh(self.detail.as_ref().map(|detail| {
            let mut names = detail.watched();
            names.extend(self.unfolded.clone().filter(|name| !names.contains(name)));
            let is_long = |name: &String| {
                let mut handlers = detail.handlers.iter();
                handlers.any(|handler| handler.name == *name && !handler.is_watched())
            };
            names.retain(|name| !is_long(name));
            (detail.name.clone(), names)
        }))
    }

    /// Takes an answer.
    pub fn hear(&mut self, told: Told) {
        match told {
            Told::Reading(reading) => {
                self.refreshes += u64::from(self.last.is_some());
                self.rates = Some(reading.since(self.last.as_ref()));
                self.last = Some(reading);
            }
            // What is no longer shown is no longer of interest.
            Told::Opened(name, _) if self.walk.last() != Some(&name) => {}
            Told::Opened(name, None) => {
                self.message = format!("element '{name}' no longer exists");
                self.back();
            }
            Told::Opened(_, detail) => self.detail = detail,
            Told::Values(name, values) => {
                if let Some(detail) = self.detail.as_mut().filter(|detail| detail.name == name) {
                    detail.take(values);
                }
            }
        }
    }

    /// Rows of the table: indices of elements.
    pub fn rows(&self) -> Vec<usize> {
        self.rates.as_ref().map_or(Vec::new(), |rates| rates.sorted(self.sort, &self.filter))
    }

    /// The row that is selected: where it is now, or the first.
    pub fn selected_row(&self, rows: &[usize]) -> usize {
        let (Some(rates), Some(selected)) = (&self.rates, &self.selected) else { return 0 };
        rows.iter().position(|&idx| rates.elements[idx].name == *selected).unwrap_or(0)
    }

    /// All that the cursor can stand on.
    pub fn items(&self) -> Vec<Item> {
        let Some(detail) = &self.detail else { return Vec::new() };
        let ports = detail.ports.iter().enumerate();
        let peers = ports.flat_map(|(port, known)| {
            (0..known.peers.len()).map(move |peer| Item::Peer(port, peer))
        });
        peers.chain((0..detail.handlers.len()).map(Item::Handler)).collect()
    }

    /// Obeys a key.
    pub fn press(&mut self, key: KeyEvent) {
        let is_control = key.modifiers.contains(KeyModifiers::CONTROL);
        self.message.clear();
        if is_control {
            self.quits |= matches!(key.code, KeyCode::Char('c' | 'd'));
        } else if self.is_typing {
            self.type_filter(key.code);
        } else if self.shows_help {
            self.shows_help = false;
            self.quits = key.code == KeyCode::Char('q');
        } else {
            self.command(key.code);
        }
    }

    fn type_filter(&mut self, code: KeyCode) {
        match code {
            KeyCode::Char(c) if self.filter.chars().count() < FILTER_LEN_MAX => self.filter.push(c),
            KeyCode::Backspace => {
                self.filter.pop();
            }
            KeyCode::Esc => {
                self.filter.clear();
                self.is_typing = false;
            }
            KeyCode::Enter => self.is_typing = false,
            // Rows can be chosen from while they are being filtered.
            KeyCode::Up | KeyCode::Down => self.command(code),
            _ => {}
        }
    }

    fn command(&mut self, code: KeyCode) {
        let page = match self.walk.is_empty() {
            true => self.table_scroll.rows,
            false => self.scroll.rows,
        };
        let page = if page == 0 { PAGE_ROWS } else { page };
        match code {
            KeyCode::Char('q') => self.quits = true,
            KeyCode::Char('?' | 'h') => self.shows_help = true,
            KeyCode::Char('s') => self.sort = self.sort.next(),
            KeyCode::Char('/') => {
                self.leave();
                self.is_typing = true;
            }
            KeyCode::Up | KeyCode::Char('k') => self.step(-1),
            KeyCode::Down | KeyCode::Char('j') => self.step(1),
            KeyCode::PageUp => self.page(-(page as isize)),
            KeyCode::PageDown => self.page(page as isize),
            KeyCode::Home => self.step(isize::MIN),
            KeyCode::End => self.step(isize::MAX),
            KeyCode::Enter | KeyCode::Right => self.enter(),
            KeyCode::Backspace | KeyCode::Left => self.back(),
            KeyCode::Esc if self.walk.is_empty() => self.filter.clear(),
            KeyCode::Esc => self.leave(),
            _ => {}
        }
    }

    /// Moves the selection, or the cursor.
    fn step(&mut self, by: isize) {
        let to = |at: usize, len: usize| at.saturating_add_signed(by).min(len.saturating_sub(1));
        if self.walk.is_empty() {
            let rows = self.rows();
            let row = to(self.selected_row(&rows), rows.len());
            let name = |rates: &Rates| rows.get(row).map(|&idx| rates.elements[idx].name.clone());
            self.selected = self.rates.as_ref().and_then(name);
            self.table_scroll.follows = true;
        } else {
            self.cursor = to(self.cursor, self.items().len());
            self.scroll.follows = true;
            if by == isize::MIN {
                (self.scroll.line, self.scroll.follows) = (0, false);
            }
        }
    }

    /// Moves the selection by a page, or what is shown of an element.
    fn page(&mut self, by: isize) {
        if self.walk.is_empty() {
            return self.step(by);
        }
        self.scroll.line = self.scroll.line.saturating_add_signed(by);
        self.scroll.follows = false;
    }

    /// Goes where the selection or the cursor points.
    fn enter(&mut self) {
        if self.walk.is_empty() {
            let rows = self.rows();
            let row = self.selected_row(&rows);
            let Some(rates) = &self.rates else { return };
            let Some(&idx) = rows.get(row) else { return };
            let name = rates.elements[idx].name.clone();
            self.selected = Some(name.clone());
            return self.go(name);
        }
        let (item, detail) = (self.items().get(self.cursor).copied(), self.detail.as_ref());
        let (Some(item), Some(detail)) = (item, detail) else { return };
        match item {
            Item::Peer(port, peer) => self.go(detail.ports[port].peers[peer].name.clone()),
            Item::Handler(idx) => {
                let handler = &detail.handlers[idx];
                let name = handler.name.clone();
                if self.unfolded.as_ref() == Some(&name) {
                    self.unfolded = None;
                } else if handler.is_readable() {
                    self.asks.push(Ask::Read(detail.name.clone(), name.clone()));
                    self.unfolded = Some(name);
                }
                self.scroll.follows = true;
            }
        }
    }

    /// Shows an element.
    fn go(&mut self, name: String) {
        if self.walk.len() == WALK_LEN_MAX {
            self.walk.remove(0);
        }
        self.walk.push(name);
        self.open();
    }

    /// Shows what was shown before.
    fn back(&mut self) {
        self.walk.pop();
        self.open();
    }

    /// Shows the table.
    fn leave(&mut self) {
        self.walk.clear();
        self.open();
    }

    fn open(&mut self) {
        (self.detail, self.cursor, self.unfolded) = (None, 0, None);
        self.scroll = Scroll { rows: self.scroll.rows, ..Scroll::default() };
        match self.walk.last().cloned() {
            Some(name) => self.asks.push(Ask::Open(name)),
            None => self.table_scroll.follows = true,
        }
    }
}

impl Scroll {
    /// Makes `line` of `len` be seen if it must be, on so many rows.
    pub fn fit(&mut self, line: usize, len: usize, rows: usize) {
        self.rows = rows;
        if std::mem::take(&mut self.follows) {
            self.line = self.line.clamp((line + 1).saturating_sub(rows.max(1)), line);
        }
        self.line = self.line.min(len.saturating_sub(rows));
    }
}

#[cfg(test)]
pub mod tests {
    use std::time::Instant;

    use super::super::detail::tests::{answer, queue};
    use super::super::rates::tests::{AFTER, BEFORE};
    use super::*;

    /// An app that heard two readings.
    pub fn app() -> App {
        let mut app = App::new("router.sock".into(), 0.5, Sort::Rate);
        for text in [BEFORE, AFTER] {
            let reading = Reading::parse(text, Instant::now()).expect("it is right");
            app.hear(Told::Reading(reading));
        }
        app
    }

    /// Presses keys: letters as they are, others by name between angle brackets.
    pub fn press(app: &mut App, keys: &str) {
        let mut rest = keys;
        while let Some(c) = rest.chars().next() {
            let (code, len) = match (c, rest.find('>')) {
                ('<', Some(end)) => {
                    let code = match &rest[1..end] {
                        "up" => KeyCode::Up,
                        "down" => KeyCode::Down,
                        "enter" => KeyCode::Enter,
                        "back" => KeyCode::Backspace,
                        "esc" => KeyCode::Esc,
                        "end" => KeyCode::End,
                        "pageup" => KeyCode::PageUp,
                        other => panic!("no key {other}"),
                    };
                    (code, end + 1)
                }
                _ => (KeyCode::Char(c), c.len_utf8()),
            };
            app.press(KeyEvent::new(code, KeyModifiers::NONE));
            rest = &rest[len..];
        }
    }

    /// An app that shows the queue.
    pub fn app_at_queue() -> App {
        let mut app = app();
        press(&mut app, "<down><enter>");
        app.hear(Told::Opened("q".into(), Some(queue())));
        app
    }

    #[test]
    fn the_selection_follows_its_element_and_the_filter_is_typed() {
        let mut app = app();
        press(&mut app, "<down>");
        assert_eq!(app.selected.as_deref(), Some("q"));
        press(&mut app, "s");
        assert_eq!((app.sort, app.selected_row(&app.rows())), (Sort::Cost, 1));
        press(&mut app, "ss");
        assert_eq!((app.sort, app.selected_row(&app.rows())), (Sort::Drops, 0));
        press(&mut app, "/dISq<back>");
        assert_eq!((app.filter.as_str(), app.rows()), ("dIS", vec![2]));
        press(&mut app, "<enter><enter>");
        assert_eq!(app.take_asks(), [Ask::Open("sink".into())]);
        press(&mut app, "<back><esc>");
        assert_eq!((app.walk.len(), app.rows().len()), (0, 3));
        press(&mut app, "/x<esc>");
        assert_eq!((app.filter.as_str(), app.is_typing, app.quits), ("", false, false));
        press(&mut app, "<end><down>");
        assert_eq!(app.selected_row(&app.rows()), 2);
        press(&mut app, "q");
        assert!(app.quits);
    }

    #[test]
    fn a_walk_goes_to_neighbours_and_back() {
        let mut app = app_at_queue();
        assert_eq!(app.take_asks(), [Ask::Open("q".into())]);
        let names = vec!["length".to_owned(), "capacity".to_owned()];
        assert_eq!(app.refresh(), Ask::Refresh(Some(("q".into(), names))));
        press(&mut app, "<down><enter>");
        assert_eq!((app.walk.join(" "), app.detail.is_none()), ("q t".into(), true));
        // The answer about an element that was left is not taken for another.
        app.hear(Told::Opened("q".into(), Some(queue())));
        assert!(app.detail.is_none() && app.refresh() == Ask::Refresh(None));
        app.hear(Told::Opened("t".into(), None));
        assert_eq!(
            (app.walk.join(" "), app.message.as_str()),
            ("q".into(), "element 't' no longer exists")
        );
        assert_eq!(app.take_asks(), [Ask::Open("t".into()), Ask::Open("q".into())]);
        press(&mut app, "<back>");
        assert!(app.walk.is_empty() && app.selected.as_deref() == Some("q"));
        // The table that is left to has no more to go back to.
        press(&mut app, "<back>");
        assert!(app.walk.is_empty() && !app.quits);
    }

    #[test]
    fn long_answers_are_read_when_they_are_asked_for() {
        let mut app = app_at_queue();
        app.take_asks();
        press(&mut app, "<down><down><down><down><down><enter>");
        assert_eq!(app.take_asks(), [Ask::Read("q".into(), "table".into())]);
        app.hear(Told::Values("q".into(), vec![("table".into(), Ok(answer("1\n2\n")))]));
        let table = &app.detail.as_ref().expect("it is shown").handlers[2];
        assert_eq!(table.value, Some(Ok(answer("1\n2\n"))));
        let Ask::Refresh(Some((_, names))) = app.refresh() else { panic!("it is shown") };
        assert!(!names.contains(&"table".to_owned()));
        // Enter once more folds it; one with a parameter, or to write, is not asked.
        press(&mut app, "<enter><down><enter><down><enter>");
        assert_eq!((app.take_asks().len(), app.unfolded.clone()), (0, None));
    }

    #[test]
    fn what_must_be_seen_is_seen() {
        let mut scroll = Scroll { line: 0, follows: true, rows: 0 };
        scroll.fit(9, 20, 5);
        assert_eq!(scroll.line, 5);
        scroll.fit(0, 20, 5);
        assert_eq!(scroll.line, 5);
        scroll.line = 100;
        scroll.fit(0, 20, 5);
        assert_eq!(scroll.line, 15);
        scroll.fit(0, 3, 5);
        assert_eq!(scroll.line, 0);
        scroll.follows = true;
        scroll.fit(0, 0, 0);
        assert_eq!(scroll.line, 0);
    }
}
