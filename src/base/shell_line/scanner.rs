//! Reads a line as a shell does, as far as needed to determine the place of each value.

use super::words::{VALUE, Words};
use super::{LinePart, Misplaced, Place};

/// Maximum nesting of brackets. No person writes a line with more.
const DEPTH_MAX: u32 = 50;

pub(super) const METACHARACTERS: &str = " \t\n;&|()<>";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    Letter(char),
    Value,
}

/// See [`Place::all`].
pub(super) fn places<'a>(parts: impl Iterator<Item = LinePart<'a>>) -> Result<Vec<Place>, (usize, Misplaced)> {
    let mut units = Vec::new();
    for part in parts {
        match part {
            LinePart::Text(text) => units.extend(text.chars().map(Unit::Letter)),
            LinePart::Value => units.push(Unit::Value),
            LinePart::Word => units.push(Unit::Letter('0')),
        }
    }
    let mut scanner = Scanner { units, ..Scanner::default() };
    match scanner.commands(false) {
        Ok(()) => Ok(scanner.places),
        Err(why) => Err((scanner.places.len(), why)),
    }
}

#[derive(Debug, Default)]
pub(super) struct Scanner {
    units: Vec<Unit>,
    pub(super) at: usize,
    places: Vec<Place>,
    /// A text that shells may read differently: the place of any value after it is uncertain.
    doubt: Option<&'static str>,
    /// Number of expansions `${…}` around the current position.
    expansions: u32,
    /// Number of substitutions `$(…)` around the current position.
    pub(super) substitutions: u32,
    depth: u32,
    /// Here-documents whose text begins on the next line.
    pub(super) here_documents: Vec<HereDocument>,
}

/// A here-document whose text has not been read.
#[derive(Debug)]
pub(super) struct HereDocument {
    pub(super) delimiter: String,
    pub(super) strips_tabs: bool,
    pub(super) is_quoted: bool,
}

pub(super) type Scan = Result<(), Misplaced>;

impl Scanner {
    pub(super) fn peek(&self) -> Option<Unit> {
        self.peek_at(0)
    }

    fn peek_at(&self, further: usize) -> Option<Unit> {
        self.units.get(self.at + further).copied()
    }

    pub(super) fn next(&mut self) -> Option<Unit> {
        let unit = self.peek()?;
        self.at += 1;
        Some(unit)
    }

    pub(super) fn skip_if(&mut self, letter: char) -> bool {
        let found = self.peek() == Some(Unit::Letter(letter));
        self.at += usize::from(found);
        found
    }

    pub(super) fn doubts(&mut self, what: &'static str) {
        self.doubt.get_or_insert(what);
    }

    fn put(&mut self, place: Place) -> Scan {
        if let Some(what) = self.doubt {
            return Err(Misplaced::Doubt(what));
        }
        if self.expansions > 0 {
            return Err(Misplaced::Parameter);
        }
        self.places.push(place);
        Ok(())
    }

    /// Reads commands up to the end of the line, or to the parenthesis that closes them.
    fn commands(&mut self, is_nested: bool) -> Scan {
        let mut words = Words::default();
        while let Some(unit) = self.next() {
            match unit {
                Unit::Value => self.bare(&mut words)?,
                Unit::Letter(')') if is_nested => break,
                Unit::Letter(letter) => self.command_letter(letter, &mut words)?,
            }
        }
        Ok(())
    }

    fn command_letter(&mut self, letter: char, words: &mut Words) -> Scan {
        match letter {
            '\\' => self.backslash(words)?,
            '\'' => self.single(words)?,
            '"' => self.double(words)?,
            '$' => self.dollar(words, false)?,
            '`' => self.backticks(words)?,
            '#' if words.word.is_none() => self.comment()?,
            ' ' | '\t' => self.end_word(words),
            '\n' => {
                self.end_word(words);
                words.end_command();
                self.read_here_documents()?;
            }
            '&' if self.peek() == Some(Unit::Letter('>')) => self.end_word(words),
            ';' | '&' | '|' | ')' => {
                self.end_word(words);
                words.end_command();
            }
            '(' => {
                self.end_word(words);
                let is_arithmetic = self.skip_if('(');
                self.deeper(|inner| if is_arithmetic { inner.arithmetic('(', ')', 2) } else { inner.commands(true) })?;
            }
            '<' | '>' => {
                self.end_word(words);
                words.is_target = true;
                if letter == '<' && self.skip_if('<') && !self.skip_if('<') {
                    self.delimiter()?;
                    words.is_target = false;
                }
                let _ = self.skip_if('&') || self.skip_if('|');
            }
            other => words.push(other),
        }
        Ok(())
    }

    fn end_word(&mut self, words: &mut Words) {
        if self.substitutions > 0 && words.word.as_deref().is_some_and(|word| ["case", "[["].contains(&word)) {
            // The parenthesis after a pattern does not close the substitution.
            self.doubts("`case` or `[[` in $(…)");
        }
        words.end_word();
    }

    /// Reads the contents of any brackets.
    fn deeper(&mut self, read: impl FnOnce(&mut Self) -> Scan) -> Scan {
        if self.depth == DEPTH_MAX {
            self.doubts("deeply nested parentheses");
            return Ok(());
        }
        self.depth += 1;
        read(self)?;
        self.depth -= 1;
        Ok(())
    }

    /// Handles a value outside quotes.
    fn bare(&mut self, words: &mut Words) -> Scan {
        let ends = |unit: Option<Unit>, ends: &str| match unit {
            None => true,
            Some(Unit::Letter(letter)) => ends.contains(letter),
            Some(Unit::Value) => false,
        };
        let is_word = words.word.is_none() && ends(self.peek(), METACHARACTERS);
        words.check_reader(is_word)?;
        let before = self.at.checked_sub(2).and_then(|at| self.units.get(at)).copied();
        let is_apart = is_word && ends(before, " \t\n") && ends(self.peek(), " \t\n");
        let is_number = words.is_subscript() || words.is_compared(&self.next_word());
        words.push(VALUE);
        match (is_number, is_apart) {
            (true, _) => self.put(Place::Arithmetic),
            (false, true) => self.put(Place::Apart),
            (false, false) => self.put(Place::Bare),
        }
    }

    /// Handles a value in quotes, which `close` ends.
    fn in_quotes(&mut self, words: &mut Words, close: char, place: Place) -> Scan {
        let is_alone = words.word.as_deref() == Some("")
            && self.peek() == Some(Unit::Letter(close))
            && self.peek_at(1).is_none_or(|unit| matches!(unit, Unit::Letter(it) if METACHARACTERS.contains(it)));
        words.check_reader(is_alone)?;
        let is_number = words.is_compared(&self.next_word());
        words.push(VALUE);
        self.put(if is_number { Place::Arithmetic } else { place })
    }

    /// The word after the current one, which ends at its first blank.
    fn next_word(&self) -> String {
        let letters = self.units.get(self.at..).unwrap_or_default().iter().map_while(|unit| match unit {
            Unit::Letter(letter) => Some(*letter),
            Unit::Value => Some(VALUE),
        });
        let blank = |letter: &char| *letter == ' ' || *letter == '\t';
        letters.skip_while(|letter| !blank(letter)).skip_while(blank).take_while(|letter| !blank(letter)).collect()
    }

    /// Handles a backslash outside single quotes: the next character is literal.
    fn backslash(&mut self, words: &mut Words) -> Scan {
        match self.peek() {
            Some(Unit::Value) => Err(Misplaced::Backslash),
            // A shell removes both, so the characters around them become adjacent.
            Some(Unit::Letter('\n')) => {
                let before = self.at.checked_sub(2).and_then(|at| self.units.get(at)).copied();
                if matches!(before, Some(Unit::Letter('$' | '<' | '(' | '&' | '>' | '|'))) {
                    self.doubts("a continued line");
                }
                self.at += 1;
                if self.peek() == Some(Unit::Value) && matches!(before, Some(Unit::Letter('$'))) {
                    return Err(Misplaced::Dollar);
                }
                Ok(())
            }
            Some(Unit::Letter(letter)) => {
                self.at += 1;
                words.push(letter);
                Ok(())
            }
            None => Ok(()),
        }
    }

    fn single(&mut self, words: &mut Words) -> Scan {
        words.open();
        while let Some(unit) = self.next() {
            match unit {
                Unit::Letter('\'') => break,
                Unit::Letter(letter) => self.quoted_letter(letter, words),
                Unit::Value => self.in_quotes(words, '\'', Place::Single)?,
            }
        }
        Ok(())
    }

    fn double(&mut self, words: &mut Words) -> Scan {
        words.open();
        while let Some(unit) = self.next() {
            match unit {
                Unit::Letter('"') => break,
                Unit::Letter('\\') => self.backslash(words)?,
                Unit::Letter('$') => self.dollar(words, true)?,
                Unit::Letter('`') => self.backticks(words)?,
                Unit::Letter(letter) => self.quoted_letter(letter, words),
                Unit::Value => self.in_quotes(words, '"', Place::Double)?,
            }
        }
        Ok(())
    }

    fn quoted_letter(&mut self, letter: char, words: &mut Words) {
        if letter == '\n' && !self.here_documents.is_empty() {
            self.doubts("a here-document with a quotation of several lines before it");
        }
        words.push(letter);
    }

    /// Reads the construct that a dollar sign begins.
    fn dollar(&mut self, words: &mut Words, in_double: bool) -> Scan {
        words.push('$');
        match self.peek() {
            Some(Unit::Value) if !in_double => return Err(Misplaced::Dollar),
            Some(Unit::Letter('(')) if self.peek_at(1) == Some(Unit::Letter('(')) => {
                self.at += 2;
                self.deeper(|inner| inner.arithmetic('(', ')', 2))?;
            }
            Some(Unit::Letter('(')) => {
                self.at += 1;
                if !self.here_documents.is_empty() {
                    self.doubts("$(…) on the line of a here-document");
                }
                self.substitutions += 1;
                self.deeper(|inner| inner.commands(true))?;
                self.substitutions -= 1;
            }
            Some(Unit::Letter('[')) => {
                self.at += 1;
                self.deeper(|inner| inner.arithmetic('[', ']', 1))?;
            }
            Some(Unit::Letter('{')) => {
                self.at += 1;
                self.deeper(|inner| inner.expansion(words, in_double))?;
            }
            Some(Unit::Letter('\'')) if !in_double => {
                self.at += 1;
                self.dollar_quotes()?;
            }
            // A variable with a one-character name.
            Some(Unit::Letter('$' | '#' | '!')) => self.at += 1,
            _ => {}
        }
        Ok(())
    }

    /// Reads `$'…'`. In bash, a backslash in it escapes a quote; in other shells it does not.
    fn dollar_quotes(&mut self) -> Scan {
        while let Some(unit) = self.next() {
            match unit {
                Unit::Letter('\'') => break,
                Unit::Letter('\\') => {
                    if self.skip_if('\'') {
                        self.doubts(r"\' in $'…'");
                    } else if self.peek() != Some(Unit::Value) {
                        self.at += 1;
                    }
                }
                Unit::Letter(_) => {}
                Unit::Value => return Err(Misplaced::DollarQuotes),
            }
        }
        Ok(())
    }

    fn backticks(&mut self, words: &mut Words) -> Scan {
        words.push('`');
        while let Some(unit) = self.next() {
            match unit {
                Unit::Letter('`') => break,
                Unit::Letter('\\') if self.peek() != Some(Unit::Value) => self.at += 1,
                Unit::Letter(letter) => self.quoted_letter(letter, words),
                Unit::Value => return Err(Misplaced::Backticks),
            }
        }
        Ok(())
    }

    /// Reads `${…}`. The meaning of quotes in it depends on the operator and on the shell.
    fn expansion(&mut self, words: &mut Words, in_double: bool) -> Scan {
        if let Some(Unit::Letter(' ' | '\t' | '\n' | '|')) = self.peek() {
            self.doubts("${ with a blank");
        }
        self.expansions += 1;
        while let Some(unit) = self.next() {
            match unit {
                Unit::Letter('}') => break,
                Unit::Letter('\\') => self.backslash(words)?,
                Unit::Letter('\'') if in_double => self.doubts("a quote in \"${…}\""),
                Unit::Letter('\'') => self.single(words)?,
                Unit::Letter('"') => {
                    if in_double {
                        self.doubts("a quote in \"${…}\"");
                    }
                    self.double(words)?;
                }
                Unit::Letter('$') => self.dollar(words, in_double)?,
                Unit::Letter('`') => self.backticks(words)?,
                Unit::Letter(_) => {}
                Unit::Value => self.put(Place::Bare)?,
            }
        }
        self.expansions -= 1;
        Ok(())
    }

    /// Reads an arithmetic expression after its opening brackets. Two parentheses may also open two subshells.
    fn arithmetic(&mut self, open: char, close: char, opened: u32) -> Scan {
        let mut left = opened;
        while let Some(unit) = self.next() {
            match unit {
                Unit::Letter(letter) if letter == open => left += 1,
                Unit::Letter(letter) if letter == close => {
                    left -= 1;
                    if left + 1 == opened && opened == 2 && self.peek() != Some(Unit::Letter(close)) {
                        self.doubts("two subshells that begin with ((");
                    }
                    if left == 0 {
                        break;
                    }
                }
                Unit::Letter('\'' | '"' | '\\' | '`' | '\n') => self.doubts("a quote in an arithmetic expression"),
                Unit::Letter('#') if self.begins_word() => self.doubts("# in an arithmetic expression"),
                Unit::Letter('$') => self.dollar(&mut Words::default(), true)?,
                Unit::Letter(_) => {}
                Unit::Value => self.put(Place::Arithmetic)?,
            }
        }
        Ok(())
    }

    /// Whether the character just read follows one that ends a word.
    fn begins_word(&self) -> bool {
        let before = self.at.checked_sub(2).and_then(|at| self.units.get(at));
        matches!(before, Some(Unit::Letter(letter)) if METACHARACTERS.contains(*letter))
    }

    fn comment(&mut self) -> Scan {
        while let Some(unit) = self.peek() {
            match unit {
                Unit::Letter('\n') => break,
                Unit::Letter(_) => self.at += 1,
                Unit::Value => return Err(Misplaced::Comment),
            }
        }
        Ok(())
    }
}
