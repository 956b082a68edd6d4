//! Archives of tools and files of tasks, by their digests, and what the names of tools stand for.
//!
//! A file is there when its row in `files` is; its parts come before that. What only a leader may change carries its epoch: a row is
//! locked for it, so that a take-over comes before such a change or after it.

use base::{Epoch, ToolDigest};

use crate::{Error, Session, schema};

/// Bytes of a part, except the last one of a file.
pub const PART_BYTES: u64 = 256 << 10;

impl Session {
    /// The files that are whole, each with its size in bytes.
    ///
    /// # Errors
    /// When the server does not answer.
    pub fn files(&mut self) -> Result<Vec<(ToolDigest, u64)>, Error> {
        let rows = self.query(async |client| client.query(schema::GET_FILES, &[]).await)?;
        let file = |row: &tokio_postgres::Row| {
            let bytes = u64::try_from(row.get::<_, i64>(1)).ok()?;
            Some((row.get::<_, &str>(0).parse().ok()?, bytes))
        };
        Ok(rows.iter().filter_map(file).collect())
    }

    /// Puts a part of a file, whatever was there.
    ///
    /// # Errors
    /// When the server does not answer.
    pub fn put_part(&mut self, digest: &ToolDigest, number: u64, part: &[u8]) -> Result<(), Error> {
        let digest = digest.to_string();
        self.query(async |client| client.execute(schema::PUT_PART, &[&digest, &signed(number), &part]).await)?;
        Ok(())
    }

    /// All parts of a file are there. False if some are not.
    ///
    /// # Errors
    /// When the server does not answer.
    pub fn put_file(&mut self, digest: &ToolDigest, bytes: u64) -> Result<bool, Error> {
        let (digest, parts) = (digest.to_string(), signed(bytes.div_ceil(PART_BYTES)));
        let put =
            self.query(async |client| client.execute(schema::PUT_FILE, &[&digest, &signed(bytes), &parts]).await)?;
        Ok(put == 1)
    }

    /// A part of a file.
    ///
    /// # Errors
    /// When the server does not answer.
    pub fn part(&mut self, digest: &ToolDigest, number: u64) -> Result<Option<Vec<u8>>, Error> {
        let digest = digest.to_string();
        let row = self.query(async |client| client.query_opt(schema::GET_PART, &[&digest, &signed(number)]).await)?;
        Ok(row.map(|row| row.get(0)))
    }

    /// Removes a file. False if the controller of this epoch does not lead.
    ///
    /// # Errors
    /// When the server does not answer.
    pub fn remove_file(&mut self, epoch: Epoch, digest: &ToolDigest) -> Result<bool, Error> {
        let (epoch, digest) = (signed(epoch.number), digest.to_string());
        let row = self.query(async |client| client.query_one(schema::REMOVE_FILE, &[&epoch, &digest]).await)?;
        Ok(row.get(0))
    }

    /// Removes the parts that no file has.
    ///
    /// # Errors
    /// When the server does not answer.
    pub fn remove_loose_parts(&mut self) -> Result<(), Error> {
        self.query(async |client| client.execute(schema::REMOVE_LOOSE_PARTS, &[]).await).map(drop)
    }

    /// The lines of the log of the tools, oldest first.
    ///
    /// # Errors
    /// When the server does not answer.
    pub fn tool_log(&mut self) -> Result<Vec<String>, Error> {
        let rows = self.query(async |client| client.query(schema::GET_TOOL_LOG, &[]).await)?;
        Ok(rows.iter().map(|row| row.get(0)).collect())
    }

    /// Adds a line to the log of the tools. False if the controller of this epoch does not lead.
    ///
    /// # Errors
    /// When the server does not answer.
    pub fn add_to_tool_log(&mut self, epoch: Epoch, line: &str) -> Result<bool, Error> {
        let epoch = signed(epoch.number);
        let added = self.query(async |client| client.execute(schema::ADD_TO_TOOL_LOG, &[&line, &epoch]).await)?;
        Ok(added == 1)
    }
}

fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
