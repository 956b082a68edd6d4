//! Here-documents: their ends, and their texts, in which no value is safe.

use super::Misplaced;
use super::scanner::{HereDocument, METACHARACTERS, Scan, Scanner, Unit};

impl Scanner {
    /// Reads the word after `<<`.
    pub(super) fn delimiter(&mut self) -> Scan {
        let strips_tabs = self.skip_if('-');
        while self.skip_if(' ') || self.skip_if('\t') {}
        let (mut delimiter, mut quote, mut is_quoted) = (String::new(), None, false);
        while let Some(unit) = self.peek() {
            let Unit::Letter(letter) = unit else { return Err(Misplaced::HereDocument) };
            if quote.is_none() && METACHARACTERS.contains(letter) {
                break;
            }
            self.at += 1;
            match letter {
                '$' | '`' | '\n' | '\\' => self.doubts("a here-document whose end is not a plain word"),
                '\'' | '"' if quote.is_none() => (quote, is_quoted) = (Some(letter), true),
                letter if quote == Some(letter) => quote = None,
                letter => delimiter.push(letter),
            }
        }
        if self.substitutions > 0 {
            self.doubts("a here-document in $(…)");
        }
        self.here_documents.push(HereDocument { delimiter, strips_tabs, is_quoted });
        Ok(())
    }

    /// Reads the texts of the here-documents of a line, which follow its end.
    pub(super) fn read_here_documents(&mut self) -> Scan {
        for document in std::mem::take(&mut self.here_documents) {
            while self.peek().is_some() {
                let line = self.line()?;
                if !document.is_quoted && line.ends_with('\\') {
                    self.doubts("a continued line in a here-document");
                }
                let line = if document.strips_tabs { line.trim_start_matches('\t') } else { &line };
                if line == document.delimiter {
                    break;
                }
            }
        }
        Ok(())
    }

    fn line(&mut self) -> Result<String, Misplaced> {
        let mut line = String::new();
        while let Some(unit) = self.next() {
            match unit {
                Unit::Letter('\n') => break,
                Unit::Letter(letter) => line.push(letter),
                Unit::Value => return Err(Misplaced::HereDocument),
            }
        }
        Ok(line)
    }
}
