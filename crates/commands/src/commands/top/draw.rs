//! Draws an [`App`]: no input, no connection, any backend.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;

use super::app::{App, Item};
use super::columns::{fitting, is_idle, line};
use super::detail::{Detail, Handler};
use super::rates::ElementRates;
use crate::human;
use warpswitch_runtime::client::HandlerValue;

/// Lines of an answer that are shown, folded and unfolded.
const ANSWER_LINES: [usize; 2] = [3, 5000];

/// Keys, for help.
const KEYS: [(&str, &str); 11] = [
    ("↑ ↓  j k", "select an element; in its view, a neighbour or a handler"),
    ("Enter  →", "open the element, go to the neighbour, show the whole handler"),
    ("Back  ←", "go back to the previous view"),
    ("Esc", "go back to the table; there, clear the filter"),
    ("PgUp PgDn", "a page up or down"),
    ("Home End", "to the first, to the last"),
    ("/", "filter elements by name or class"),
    ("s", "sort by packets/s, ns/packet, % core, drops/s, held, order"),
    ("?  h", "this help"),
    ("q  Ctrl-C", "quit; the router keeps running"),
    ("", ""),
];
const MEANING: [&str; 6] = [
    "Rates are those of the last interval. packets/s counts packets in; for sources and",
    "elements that are pulled, packets out. batch is packets per batch. ns/packet and % core",
    "are time in the element itself; 100 % is one core, and elements may use several.",
    "held is the packets that the element holds, a queue for example.",
    "",
    "Press any key to close this help.",
];

/// Styles.
#[derive(Clone, Copy, Debug, Default)]
pub struct Theme {
    heading: Style,
    faint: Style,
    warn: Style,
    name: Style,
    selected: Style,
}

impl Theme {
    /// With colours, or with what is no colour.
    pub fn new(has_colours: bool) -> Self {
        let colour = |style: Style, colour| if has_colours { style.fg(colour) } else { style };
        let bold = Style::new().add_modifier(Modifier::BOLD);
        Self {
            heading: bold,
            faint: Style::new().add_modifier(Modifier::DIM),
            warn: colour(bold, Color::Yellow),
            name: colour(bold, Color::Cyan),
            selected: Style::new().add_modifier(Modifier::REVERSED),
        }
    }
}

/// Draws all of it.
pub fn draw(frame: &mut Frame<'_>, app: &mut App, theme: &Theme) {
    let areas = [Constraint::Length(1), Constraint::Min(0), Constraint::Length(1)];
    let [head, body, foot] = Layout::vertical(areas).areas(frame.area());
    frame.render_widget(Paragraph::new(title(app, theme)), head);
    match (app.shows_help, app.walk.is_empty()) {
        (true, _) => frame.render_widget(Paragraph::new(help(theme)), body),
        (false, true) => draw_table(frame, app, theme, body),
        (false, false) => draw_element(frame, app, theme, body),
    }
    frame.render_widget(Paragraph::new(foot_line(app, theme)), foot);
}

fn title<'a>(app: &App, theme: &Theme) -> Line<'a> {
    let mut spans = vec![Span::styled(format!(" {}", app.place), theme.heading)];
    let Some(rates) = &app.rates else {
        spans.push(Span::styled("  waiting for the router", theme.faint));
        return Line::from(spans);
    };
    let drops: f64 = rates.elements.iter().map(|element| element.drops_per_s).sum();
    let busy: f64 = rates.elements.iter().filter_map(|element| element.percent_of_core).sum();
    let mut told = format!("  {}", human::counted(rates.elements.len(), "element"));
    if rates.counts_costs {
        told += &format!(", {busy:.0} % of a core");
    }
    if drops > 0.0 {
        told += &format!(", {} drops/s", human::scaled(drops));
    }
    spans.push(Span::raw(told));
    spans.push(Span::styled(format!("  every {} s", app.interval_s), theme.faint));
    if !rates.counts_costs {
        let why = "  bytes and times are not measured: run with --control or --stats";
        spans.push(Span::styled(why, theme.warn));
    }
    Line::from(spans)
}

fn foot_line<'a>(app: &App, theme: &Theme) -> Line<'a> {
    if !app.message.is_empty() {
        return Line::styled(format!(" {}", app.message), theme.warn);
    }
    if app.is_typing {
        let keys = Span::styled("  Enter keeps the filter, Esc clears it", theme.faint);
        return Line::from(vec![Span::raw(format!(" /{}▏", app.filter)), keys]);
    }
    let filter = match app.filter.is_empty() {
        true => String::new(),
        false => format!("   filter: {}", app.filter),
    };
    let text = match app.walk.is_empty() {
        true => format!(
            " ↑↓ select  Enter open  / filter  s sort: {}  ? help  q quit{filter}",
            app.sort.heading()
        ),
        false => " ↑↓ move  Enter go  Back return  Esc table  ? help  q quit".to_owned(),
    };
    Line::styled(text, theme.faint)
}

fn help<'a>(theme: &Theme) -> Vec<Line<'a>> {
    let keys = KEYS.iter().map(|(keys, does)| {
        Line::from(vec![Span::styled(format!("  {keys:<11}"), theme.heading), Span::raw(*does)])
    });
    let head = [Line::raw(""), Line::styled("  Keys", theme.name), Line::raw("")];
    let meaning = MEANING.iter().map(|text| Line::raw(format!("  {text}")));
    head.into_iter().chain(keys).chain(meaning).collect()
}

fn draw_table(frame: &mut Frame<'_>, app: &mut App, theme: &Theme, area: Rect) {
    let rows = app.rows();
    let (width, height) = (area.width as usize, (area.height as usize).saturating_sub(1));
    let selected = app.selected_row(&rows);
    let mut scroll = app.table_scroll;
    // The row that is selected moves with every sort.
    scroll.follows |= app.selected.is_some();
    scroll.fit(selected, rows.len(), height);
    app.table_scroll = scroll;
    let Some(rates) = &app.rates else { return };
    let all: Vec<&ElementRates> = rates.elements.iter().collect();
    let columns = fitting(&all, width);
    let heading = |column: &super::columns::Column| match column.sort {
        Some(sort) if sort == app.sort => format!("▾{}", column.heading),
        _ => column.heading.to_owned(),
    };
    let mut lines = vec![Line::styled(line(&columns, heading), theme.heading)];
    for (row, &idx) in rows.iter().enumerate().skip(scroll.line).take(height) {
        let element = &rates.elements[idx];
        let text = line(&columns, |column| (column.cell)(element));
        let style = match element {
            element if is_idle(element) => theme.faint,
            element if element.drops_per_s > 0.0 => theme.warn,
            _ => Style::new(),
        };
        let is_selected = row == selected;
        let style = if is_selected { style.patch(theme.selected) } else { style };
        lines.push(Line::styled(format!("{text:<width$}"), style));
    }
    if rows.is_empty() {
        lines.push(Line::styled("  no element matches the filter", theme.faint));
    }
    frame.render_widget(Paragraph::new(lines), area);
}

fn draw_element(frame: &mut Frame<'_>, app: &mut App, theme: &Theme, area: Rect) {
    let (lines, at) = element_lines(app, theme, area.width as usize);
    app.scroll.fit(at, lines.len(), area.height as usize);
    let lines: Vec<Line<'_>> =
        lines.into_iter().skip(app.scroll.line).take(area.height as usize).collect();
    frame.render_widget(Paragraph::new(lines), area);
}

/// All that is shown of an element, and the line that the cursor stands on.
fn element_lines<'a>(app: &App, theme: &Theme, width: usize) -> (Vec<Line<'a>>, usize) {
    let name = app.walk.last().map_or("", String::as_str);
    let rates = app.rates.as_ref().and_then(|rates| rates.element(name));
    let mut page = Page { lines: Vec::new(), at: 0, theme: *theme, width };
    page.way(app);
    if let Some(rates) = rates {
        page.counts(name, rates);
    }
    let Some(detail) = &app.detail else { return (page.lines, 0) };
    let cursor = app.items().get(app.cursor).copied();
    page.ports(detail, cursor);
    if let Some(rates) = rates.filter(|rates| rates.dropped > 0) {
        page.drops(rates);
    }
    if !detail.config.is_empty() {
        page.heading("Configuration");
        page.text(&detail.config, usize::MAX);
    }
    if !detail.handlers.is_empty() {
        page.heading("Handlers");
    }
    for (idx, handler) in detail.handlers.iter().enumerate() {
        let is_unfolded = app.unfolded.as_ref() == Some(&handler.name);
        page.handler(handler, cursor == Some(Item::Handler(idx)), is_unfolded);
    }
    (page.lines, page.at)
}

/// Lines about an element, as they come.
struct Page<'a> {
    lines: Vec<Line<'a>>,
    /// Where the cursor stands.
    at: usize,
    theme: Theme,
    width: usize,
}

impl Page<'_> {
    /// The elements that were walked through.
    fn way(&mut self, app: &App) {
        let (last, before) = app.walk.split_last().map_or(("", &[][..]), |(l, b)| (l.as_str(), b));
        let way: Vec<&str> = before.iter().rev().take(8).rev().map(String::as_str).collect();
        let way = way.iter().map(|name| format!("{name} › ")).collect::<String>();
        let spans = vec![
            Span::styled(format!(" {way}"), self.theme.faint),
            Span::styled(last.to_owned(), self.theme.name),
        ];
        self.lines.push(Line::from(spans));
    }

    fn heading(&mut self, text: &'static str) {
        self.lines.push(Line::raw(""));
        self.lines.push(Line::styled(format!(" {text}"), self.theme.heading));
    }

    fn counts(&mut self, name: &str, rates: &ElementRates) {
        if let Some(last) = self.lines.last_mut() {
            last.spans.push(Span::raw(format!(" :: {}", rates.class)));
        }
        let known = |value: Option<f64>, unit: &str| {
            value.map_or(String::new(), |value| format!("   {} {unit}", human::scaled(value)))
        };
        debug_assert_eq!(name, rates.name);
        self.lines.push(Line::raw(format!(
            "   {} packets/s{}{}{}{}",
            human::scaled(rates.packets_per_s),
            known(rates.bits_per_s, "bit/s"),
            known(rates.mean_batch, "packets per batch"),
            known(rates.ns_per_packet, "ns/packet"),
            known(rates.percent_of_core, "% of a core"),
        )));
        let bytes = rates.bytes.map_or(String::new(), |b| format!(", {} bytes", human::count(b)));
        let held = match rates.held {
            0 => String::new(),
            held => format!(", holds {}", human::count(held)),
        };
        let packets = human::count(rates.packets);
        self.lines.push(Line::raw(format!("   {packets} packets{bytes} in total{held}")));
    }

    fn ports(&mut self, detail: &Detail, cursor: Option<Item>) {
        if !detail.ports.is_empty() {
            self.heading("Ports");
        }
        for (port, known) in detail.ports.iter().enumerate() {
            let side = if known.is_input { "input" } else { "output" };
            let kind = &known.kind;
            let arrow = if known.is_input { '←' } else { '→' };
            let port_text = format!("{side:>9} {:<4}{kind:<10}", known.number);
            if known.peers.is_empty() {
                self.lines
                    .push(Line::styled(format!(" {port_text}not connected"), self.theme.faint));
            }
            for (peer, other) in known.peers.iter().enumerate() {
                let before = if peer == 0 { port_text.clone() } else { " ".repeat(24) };
                let text = match known.is_input {
                    true => format!("{before}{arrow} {} {}", other.name, other.port),
                    false => format!("{before}{arrow} {} {}", other.port, other.name),
                };
                self.item(text, cursor == Some(Item::Peer(port, peer)));
            }
        }
    }

    /// A line that the cursor can stand on.
    fn item(&mut self, text: String, is_here: bool) {
        let text = cut(&text, self.width.saturating_sub(1));
        let style = if is_here { self.theme.selected } else { Style::new() };
        if is_here {
            self.at = self.lines.len();
        }
        self.lines.push(Line::styled(format!(" {text}"), style));
    }

    fn drops(&mut self, rates: &ElementRates) {
        self.heading("Drops");
        for drop in &rates.drops {
            let per_s = format!("{}/s", human::scaled(drop.per_s));
            let text =
                format!("   {per_s:>10}  {:>14}  {}", human::count(drop.packets), drop.reason);
            let style = if drop.per_s > 0.0 { self.theme.warn } else { Style::new() };
            self.lines.push(Line::styled(cut(&text, self.width), style));
        }
    }

    fn handler(&mut self, handler: &Handler, is_here: bool, is_unfolded: bool) {
        let name = &handler.name;
        let (answer, note) = match &handler.value {
            Some(Ok(answer)) => (Some(answer), String::new()),
            Some(Err(error)) => (None, format!("({error})")),
            None => (None, handler.note().to_owned()),
        };
        let text = answer.map_or("", |answer| answer.text.trim_end());
        let first = if text.contains('\n') { "" } else { text };
        self.item(plain(&format!("  {name:<16}  {first}{note}")), is_here);
        let lines_max = ANSWER_LINES[usize::from(is_unfolded)];
        if text.contains('\n') || is_unfolded && text.chars().count() + 21 > self.width {
            self.text(text, lines_max);
        }
        if let Some(HandlerValue { is_truncated: true, .. }) = answer
            && is_unfolded
        {
            self.lines.push(Line::styled("     and more", self.theme.faint));
        }
    }

    /// Text of several lines, broken where they are too long.
    fn text(&mut self, text: &str, lines_max: usize) {
        let room = self.width.saturating_sub(5).max(10);
        let mut left = lines_max;
        for (idx, line) in text.lines().enumerate() {
            let chars: Vec<char> = plain(line).chars().collect();
            let pieces = chars.chunks(room).map(|piece| piece.iter().collect::<String>());
            for piece in pieces {
                if left == 0 {
                    let rest = text.lines().count() - idx;
                    let rest = human::counted(rest, "line");
                    let told = format!("     and {rest} more: press Enter to show all");
                    return self.lines.push(Line::styled(told, self.theme.faint));
                }
                left -= 1;
                self.lines.push(Line::raw(format!("     {piece}")));
            }
        }
    }
}

/// One line without tabs.
fn plain(text: &str) -> String {
    text.replace('\t', "  ")
}

/// As much of `text` as so many characters hold.
fn cut(text: &str, width: usize) -> String {
    match text.chars().count() > width {
        true => text.chars().take(width.saturating_sub(1)).chain(['…']).collect(),
        false => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    use super::super::app::Told;
    use super::super::app::tests::{app, app_at_queue, press};
    use super::super::detail::tests::{answer, queue};
    use super::*;

    /// What is seen on a screen of this size.
    fn seen(app: &mut App, width: u16, height: u16) -> Vec<String> {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("a screen");
        terminal.draw(|frame| draw(frame, app, &Theme::new(true))).expect("it draws");
        let buffer = terminal.backend().buffer();
        let row = |y| (0..width).map(|x| buffer[(x, y)].symbol()).collect::<String>();
        (0..height).map(|y| row(y).trim_end().to_owned()).collect()
    }

    #[test]
    fn the_table_is_drawn() {
        let mut app = app();
        press(&mut app, "/s<enter>");
        let expected = [
            " router.sock  3 elements, 10 % of a core, 500 drops/s  every 0.5 s",
            "  element  class           ▾packets/s   bit/s   batch   ns/packet   % core    \
             held   drops/s",
            "  src      InfiniteSource       1.00M    512M     100         100       10       \
             -         -",
            "  sink     Discard                  -       -       -           -        -       \
             -         -",
            "",
            " ↑↓ select  Enter open  / filter  s sort: packets/s  ? help  q quit   filter: s",
        ];
        assert_eq!(seen(&mut app, 94, 6), expected);
        // Where there is no room, what is of least use is left out, then names are cut.
        press(&mut app, "<esc>sss<down>");
        let expected = [
            " router.sock  3 elements, 10 % of a core,",
            "  element   packets/s   ns/packet  ▾drops/s",
            "  q                 -           -       500",
            "  src           1.00M         100         -",
            "  sink              -           -         -",
            " ↑↓ select  Enter open  / filter  s sort: d",
        ];
        let seen = seen(&mut app, 43, 6);
        assert_eq!(seen[1..], expected[1..]);
    }

    #[test]
    fn colours_are_left_out_where_they_are_not_wanted() {
        let colours = |has_colours| {
            let mut terminal = Terminal::new(TestBackend::new(80, 20)).expect("a screen");
            let (mut app, theme) = (app_at_queue(), Theme::new(has_colours));
            terminal.draw(|frame| draw(frame, &mut app, &theme)).expect("it draws");
            let cells = terminal.backend().buffer().content();
            assert!(cells.iter().any(|cell| cell.modifier.contains(Modifier::REVERSED)));
            cells.iter().any(|cell| cell.fg != Color::Reset || cell.bg != Color::Reset)
        };
        assert_eq!((colours(true), colours(false)), (true, false));
    }

    #[test]
    fn an_element_is_drawn() {
        let mut app = app_at_queue();
        let long = answer("a\t1\nb\t2\nc\t3\nd\t4\n");
        app.hear(Told::Values("q".into(), vec![("capacity".into(), Ok(long))]));
        let expected = "\x20router.sock  3 elements, 10 % of a core, 500 drops/s  every 0.5 s
 q :: Queue
   0 packets/s   0 bit/s   0 % of a core
   2,000 packets, 128,000 bytes in total, holds 7

 Ports
     input 0   push      ← src [0]
                         ← t [1]
    output 0   pull      → [0] u
    output 1   pull      not connected

 Drops
        400/s             300  full
        100/s              50  unconnected output

 Configuration
     1000, SOURCE true

 Handlers
   length            7
   capacity
     a  1
     b  2
     c  3
     and 1 line more: press Enter to show all
   table             (long: press Enter to read)
   lookup            (takes a parameter)
   reset             (write-only)

 ↑↓ move  Enter go  Back return  Esc table  ? help  q quit";
        assert_eq!(seen(&mut app, 80, 30).join("\n"), expected);
        // The cursor is seen wherever it goes, and so is where one came from.
        press(&mut app, "<down><enter>");
        app.hear(Told::Opened("t".into(), Some(queue())));
        press(&mut app, "<end>");
        let seen = seen(&mut app, 60, 8);
        assert_eq!(seen[6], "   reset             (write-only)");
        press(&mut app, "<pageup><pageup><pageup><pageup><pageup>");
        let seen_above = self::seen(&mut app, 60, 8);
        assert_eq!(seen_above[1], " q › t");
        press(&mut app, "<back>");
        assert_eq!(app.take_asks().len(), 3);
    }

    #[test]
    fn help_and_what_goes_wrong_are_drawn() {
        let mut app = app();
        press(&mut app, "?");
        let help = seen(&mut app, 100, 24).join("\n");
        for text in ["Keys", "go back to the previous view", "100 % is one core", "q  Ctrl-C"] {
            assert!(help.contains(text), "{help}");
        }
        press(&mut app, "x");
        app.message = "element 'x' no longer exists".to_owned();
        assert_eq!(seen(&mut app, 60, 5)[4], " element 'x' no longer exists");
        press(&mut app, "/zz");
        let seen = seen(&mut app, 60, 5);
        assert_eq!(seen[2], "  no element matches the filter");
        assert_eq!(seen[4], " /zz▏  Enter keeps the filter, Esc clears it");
    }

    #[test]
    fn every_screen_of_every_size_is_drawn() {
        for (width, height) in [(1, 1), (2, 3), (10, 2), (20, 5), (40, 10), (300, 100)] {
            let (mut table, mut element) = (app(), app_at_queue());
            press(&mut element, "<end>");
            let long = answer(&"x".repeat(10_000));
            element.hear(Told::Values("q".into(), vec![("length".into(), Ok(long))]));
            for keys in ["", "<down>", "?", "x", "/abc", "<enter>"] {
                press(&mut table, keys);
                press(&mut element, keys);
                seen(&mut table, width, height);
                seen(&mut element, width, height);
            }
            seen(&mut App::new("x".into(), 1.0, Default::default()), width, height);
        }
    }
}
