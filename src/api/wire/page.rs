//! Lists in pages: the requested part of a list, and its encoding.

use base::json::ObjectWriter;
use base::words;

/// A part of a list, newest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Page {
    /// The number of entries to skip.
    pub offset: usize,
    /// The maximum number of entries.
    pub limit: Option<usize>,
}

/// The position of a page in its list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageOf {
    /// The number of entries before the page.
    pub offset: usize,
    /// The requested maximum of entries.
    pub asked: Option<usize>,
    /// The number of entries of the whole list.
    pub total: usize,
}

/// The maximum size of a page in bytes: it ends early beyond this, and the client requests the rest.
#[derive(Clone, Copy, Debug)]
pub struct PageBytes(pub usize);

impl PageOf {
    /// Writes the total number, then entries until the page is full, and a warning if the client requested more entries
    /// than it gets.
    pub(super) fn write<T>(
        self,
        rows: &[T],
        what: &str,
        page_bytes: PageBytes,
        writer: &mut ObjectWriter<'_>,
        write: impl Fn(&T, &mut ObjectWriter<'_>),
    ) {
        writer.literal(words::TOTAL, self.total);
        let mut shown = 0;
        for row in rows {
            write(row, writer);
            shown += 1;
            if writer.bytes() > page_bytes.0 {
                break;
            }
        }
        let end = self.offset.saturating_add(shown);
        let is_cut = end < self.total && self.asked.is_none_or(|asked| shown < asked);
        let (total, offset) = (self.total, words::OFFSET);
        let warning = || format!("{shown} of {total} {what} are shown; request the others with {offset} {end}");
        writer.maybe_text(words::WARNING, is_cut.then(warning).as_deref());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::json;
    use base::json::FieldLimits;

    fn warning(page: PageOf, rows: &[&str], page_bytes: usize) -> Option<String> {
        let mut out = Vec::new();
        let mut writer = ObjectWriter::new(&mut out);
        page.write(rows, "rows", PageBytes(page_bytes), &mut writer, |row, writer| writer.text(row, "value"));
        writer.end();
        let fields = json::parse(&out, &FieldLimits::TRUSTED).unwrap();
        fields.text(words::WARNING).map(str::to_owned)
    }

    #[test]
    fn a_page_that_is_cut_says_what_is_missing_and_where_to_go_on() {
        let page = |asked, total| PageOf { offset: 10, asked, total };
        assert_eq!(warning(page(None, 13), &["a", "b", "c"], 1000), None);
        assert_eq!(warning(page(Some(3), 99), &["a", "b", "c"], 1000), None, "as many as were asked for");
        let more = "3 of 99 rows are shown; request the others with __OFFSET__ 13";
        assert_eq!(warning(page(None, 99), &["a", "b", "c"], 1000).as_deref(), Some(more));
        let full = "1 of 13 rows are shown; request the others with __OFFSET__ 11";
        assert_eq!(warning(page(None, 13), &["a", "b", "c"], 10).as_deref(), Some(full), "cut by its bytes");
    }
}
