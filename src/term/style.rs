//! Screens and their colours. All parts that come from outside are made printable in one place.

use anstyle::{AnsiColor, Style};
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

use base::{Outcome, ShownState, beginning, printable};

/// How a screen is drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Look {
    /// Columns of the terminal; `None` if lines are not cut.
    pub width: Option<usize>,
    /// Whether the reader is at a terminal, where columns without information are left out.
    pub is_terminal: bool,
    /// Whether colours are used.
    pub is_coloured: bool,
}

impl Look {
    /// Without colours, for a terminal of this width if there is one.
    pub const fn plain(width: Option<usize>) -> Self {
        Self { width, is_terminal: width.is_some(), is_coloured: false }
    }
}

/// No style.
pub const PLAIN: Style = Style::new();
/// For what a reader looks for first.
pub const STRONG: Style = Style::new().bold();
/// For what can be skipped.
pub const FAINT: Style = Style::new().dimmed();
/// For success.
pub const GOOD: Style = AnsiColor::Green.on_default();
/// For failure.
pub const BAD: Style = AnsiColor::Red.on_default();
/// For what may need attention.
pub const ODD: Style = AnsiColor::Yellow.on_default();
pub(crate) const BUSY: Style = AnsiColor::Cyan.on_default();

/// The colour of a state.
pub const fn of_state(state: ShownState) -> Style {
    match state {
        ShownState::Running | ShownState::Starting | ShownState::Ending => BUSY,
        ShownState::Waiting => PLAIN,
        ShownState::Held => ODD,
        ShownState::Finished(Outcome::Succeeded) => GOOD,
        ShownState::Finished(Outcome::Skipped | Outcome::Killed) => ODD,
        ShownState::Finished(_) => BAD,
    }
}

/// A text in a colour, if there are colours.
fn styled(style: Style, text: &str, is_coloured: bool) -> String {
    if !is_coloured || style == PLAIN || text.trim().is_empty() {
        return text.to_owned();
    }
    format!("{style}{text}{style:#}")
}

/// A screen: lines of parts.
#[derive(Debug)]
pub struct Screen {
    look: Look,
    lines: Vec<Vec<(Style, String)>>,
}

impl Screen {
    /// A screen without lines.
    pub const fn new(look: Look) -> Self {
        Self { look, lines: Vec::new() }
    }

    /// How it is drawn.
    pub const fn look(&self) -> Look {
        self.look
    }

    /// Adds a line of untrusted parts.
    pub fn line<'a>(&mut self, parts: impl IntoIterator<Item = (Style, &'a str)>) {
        self.lines.push(parts.into_iter().map(|(style, text)| (style, printable(text))).collect());
    }

    /// Adds a line without colours.
    pub fn plain(&mut self, text: &str) {
        self.line([(PLAIN, text)]);
    }

    /// Adds a text after a name, in as many lines as necessary. The name takes `columns` columns.
    pub fn named(&mut self, (name, columns): (&str, usize), style: Style, text: &str) {
        self.behind((FAINT, name, columns), style, text);
    }

    /// As [`Self::named`], with a style for the name.
    pub fn behind(&mut self, (name_style, name, columns): (Style, &str, usize), style: Style, text: &str) {
        let room = self.look.width.filter(|width| *width > columns + ROOM_MIN).map(|width| width - columns);
        let mut name = aligned(name, columns, false);
        for line in wrapped(&printable(text), room) {
            self.line([(name_style, name.as_str()), (style, line.trim_end())]);
            name = " ".repeat(columns);
        }
    }

    /// Adds an empty line.
    pub fn gap(&mut self) {
        self.lines.push(Vec::new());
    }

    /// Adds lines of untrusted parts.
    pub(crate) fn lines(&mut self, lines: Vec<Vec<(Style, String)>>) {
        for line in lines {
            self.line(line.iter().map(|(style, text)| (*style, text.as_str())));
        }
    }

    /// Adds parts in as many lines as necessary, broken between the parts.
    pub fn flow(&mut self, parts: Vec<(Style, String)>) {
        let width = self.look.width.filter(|width| *width > 0).unwrap_or(usize::MAX);
        let mut lines: Vec<Vec<(Style, String)>> = vec![Vec::new()];
        let mut used = 0;
        let mut parts = parts.into_iter().peekable();
        while let Some((style, text)) = parts.next() {
            // No line begins with a comma or colon, so that of the next part needs room after this one.
            let is_mark = |text: &str| text.starts_with([',', ':']);
            let mark = usize::from(parts.peek().is_some_and(|(_, next)| is_mark(next)));
            if used > 0 && used + text.trim_end().width() + mark > width && !is_mark(&text) {
                lines.push(Vec::new());
                used = 0;
            }
            used += text.width();
            if let Some(line) = lines.last_mut() {
                line.push((style, text));
            }
        }
        self.lines(lines);
    }

    /// Cuts a screen that is taller than the terminal. Its gaps go first, then its last lines, which the last shown
    /// line counts.
    pub fn cut(&mut self, lines_max: usize, command: &str) {
        if self.lines.len() <= lines_max {
            return;
        }
        self.lines.retain(|line| !line.is_empty());
        if self.lines.len() <= lines_max {
            return;
        }
        let all = self.lines.len();
        let about = |kept: usize| {
            let mut about = Self::new(self.look);
            about.flow(vec![(FAINT, format!("… {} more lines:", all - kept)), (FAINT, format!(" {command}"))]);
            about.lines
        };
        let kept = lines_max.saturating_sub(about(0).len());
        let about = about(kept);
        self.lines.truncate(kept);
        self.lines.extend(about);
        self.lines.truncate(lines_max);
    }

    /// Its lines, each as parts that are printable.
    pub fn into_lines(self) -> Vec<Vec<(Style, String)>> {
        self.lines
    }

    /// The number of lines.
    pub const fn height(&self) -> usize {
        self.lines.len()
    }

    /// The text without trailing blanks. A line that is too long for the terminal is cut.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for parts in &self.lines {
            text.push_str(&self.drawn(parts));
            text.push('\n');
        }
        text
    }

    fn drawn(&self, parts: &[(Style, String)]) -> String {
        let last = parts.iter().rposition(|(_, text)| !text.trim_end().is_empty());
        // Trailing blanks are not drawn.
        let before = parts.iter().take(last.unwrap_or_default()).map(|(_, text)| text.width()).sum::<usize>();
        let whole = before + last.map_or(0, |last| parts[last].1.trim_end().width());
        let mut left = self.look.width.filter(|width| *width > 0 && *width < whole);
        let mut line = String::new();
        for (number, (style, text)) in parts.iter().enumerate() {
            let mut text = match last {
                Some(last) if number < last => text.clone(),
                Some(last) if number == last => text.trim_end().to_owned(),
                _ => break,
            };
            if let Some(room) = left {
                if text.width() >= room {
                    // The added blank makes the mark appear even if a part ends exactly at the edge.
                    text = beginning(&format!("{text} "), room);
                    line.push_str(&styled(*style, &text, self.look.is_coloured));
                    break;
                }
                left = Some(room - text.width());
            }
            line.push_str(&styled(*style, &text, self.look.is_coloured));
        }
        line
    }
}

/// Minimum columns of a wrapped text. In fewer columns, lines are cut instead.
const ROOM_MIN: usize = 20;

/// A text in lines that fit, broken between words, or within a word that is longer than a line.
pub fn wrapped(text: &str, room: Option<usize>) -> Vec<String> {
    let Some(room) = room else { return vec![text.to_owned()] };
    let mut lines = Vec::new();
    let (mut line, mut used) = (String::new(), 0);
    for word in text.split_inclusive(' ') {
        if used > 0 && used + word.trim_end().width() > room {
            // No line begins with blanks.
            if word.trim().is_empty() {
                continue;
            }
            lines.push(std::mem::take(&mut line));
            used = 0;
        }
        for letter in word.chars() {
            let columns = letter.width().unwrap_or_default();
            if used > 0 && used + columns > room && letter != ' ' {
                lines.push(std::mem::take(&mut line));
                used = 0;
            }
            line.push(letter);
            used += columns;
        }
    }
    lines.push(line);
    lines
}

/// A text padded to the width of a column.
pub(crate) fn aligned(text: &str, width: usize, is_number: bool) -> String {
    // `{text:width$}` counts characters, of which some take two columns and some none.
    let blanks = " ".repeat(width.saturating_sub(text.width()));
    if is_number { blanks + text } else { text.to_owned() + &blanks }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn screen(width: Option<usize>, is_coloured: bool) -> String {
        let mut screen = Screen::new(Look { width, is_terminal: true, is_coloured });
        screen.line([(BAD, "failed"), (PLAIN, "  a\u{1b}]0;x\u{7}b"), (FAINT, "  ")]);
        screen.text()
    }

    #[test]
    fn what_comes_from_elsewhere_is_text() {
        assert_eq!(screen(None, false), "failed  a\u{fffd}]0;x\u{fffd}b\n");
        assert_eq!(screen(None, true), "\u{1b}[31mfailed\u{1b}[0m  a\u{fffd}]0;x\u{fffd}b\n");
    }

    #[test]
    fn parts_flow_into_lines_that_fit_with_their_commas() {
        let parts = |texts: &[&str]| texts.iter().map(|text| (PLAIN, (*text).to_owned())).collect::<Vec<_>>();
        for width in 6..14 {
            let mut screen = Screen::new(Look::plain(Some(width)));
            screen.flow(parts(&["12 ok", ", ", "3 bad", ", ", "244 k"]));
            let text = screen.text();
            assert!(text.lines().all(|line| line.width() <= width) && !text.contains('…'), "{width}: {text}");
            assert_eq!(text.replace(['\n', ' '], ""), "12ok,3bad,244k", "{width}");
        }
    }

    #[test]
    fn a_long_text_is_broken_between_words() {
        let mut screen = Screen::new(Look::plain(Some(30)));
        screen.named(("why", 5), PLAIN, "corrupt header in the file   film7.mov");
        screen.named(("x", 5), PLAIN, "");
        screen.named(("id", 5), PLAIN, "at /a/path/of/thirty-five/letters/long.sock");
        assert_eq!(
            screen.text(),
            "why  corrupt header in the\n     file   film7.mov\nx\n\
             id   at\n     /a/path/of/thirty-five/le\n     tters/long.sock\n"
        );
    }

    #[test]
    fn a_line_is_cut_at_the_edge_and_its_colour_ends() {
        assert_eq!(screen(Some(4), false), "fai…\n");
        assert_eq!(screen(Some(4), true), "\u{1b}[31mfai…\u{1b}[0m\n");
        assert_eq!(screen(Some(10), false), "failed  a…\n");
        assert_eq!(screen(Some(6), false), "faile…\n");
        assert_eq!(screen(Some(0), false), screen(None, false), "a terminal without a size");
    }
}
