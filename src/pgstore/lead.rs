//! The row of the leader: who leads, and commits that only the leader can make.

use std::cell::Cell;
use std::pin::Pin;
use std::time::Duration;

use base::{Epoch, Wall};
use futures_util::future::join_all;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Statement};

use crate::batch::Columns;
use crate::connect::Asked;
use crate::error::{is_answer, is_not_leading, said};
use crate::{Batch, CommitError, Error, Session, schema};

/// The controller that leads, or led last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leader {
    /// Its epoch.
    pub epoch: Epoch,
    /// The number of commits, of all epochs.
    pub commits: i64,
    /// Its home and machine.
    pub owner: String,
    /// Where it serves.
    pub address: String,
    /// When it began to lead, by the clock of the server.
    pub since: Wall,
    /// The rest of its lease; zero if that has ended or was given up.
    pub rest: Duration,
}

/// A controller that wants to lead.
#[derive(Clone, Debug)]
pub struct Claim {
    /// Its home and machine: the next life of the same controller does not wait for the lease of the last one.
    pub owner: String,
    /// Where it serves.
    pub address: String,
    /// The epoch of a new queue; its number is also the least one where `accepts_loss`.
    pub first: Epoch,
    /// What this machine has seen of the queue.
    pub seen: Option<Seen>,
    /// Whether a queue that lacks commits is taken as it is.
    pub accepts_loss: bool,
}

/// How far a machine has seen the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Seen {
    /// The epoch.
    pub epoch: Epoch,
    /// The number of commits.
    pub commits: i64,
}

/// What a session that leads knows of the row.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Known {
    seen: Seen,
    /// Whether the last commit had no answer, so that the row has to be read before the next one.
    is_in_doubt: bool,
}

impl Leader {
    /// Its home and machine, without what makes that unique.
    #[must_use]
    pub fn home(&self) -> &str {
        home_of(&self.owner)
    }

    /// Whether the queue goes on elsewhere, at the address.
    #[must_use]
    pub fn is_moved(&self) -> bool {
        self.owner == schema::MOVED
    }

    /// How far the queue is.
    #[must_use]
    pub const fn seen(&self) -> Seen {
        Seen { epoch: self.epoch, commits: self.commits }
    }
}

impl Session {
    /// The controller that leads or led last; none before the first one.
    ///
    /// # Errors
    /// When the server does not answer.
    pub fn leader(&mut self) -> Result<Option<Leader>, Error> {
        let row = self.query(async |client| client.query_opt(schema::GET_LEADER, &[]).await)?;
        let number = |value: i64| u64::try_from(value).unwrap_or_default();
        Ok(row.map(|row| Leader {
            epoch: Epoch { service: number(row.get(0)), number: number(row.get(1)) },
            commits: row.get(2),
            owner: row.get(3),
            address: row.get(4),
            since: Wall::from_micros(number(row.get(5))),
            rest: Duration::from_millis(number(row.get(6))),
        }))
    }

    /// Begins to lead. Returns the epoch, or the controller that leads.
    ///
    /// # Errors
    /// [`Error::Stale`], and when the server does not answer.
    pub fn lead(&mut self, claim: &Claim) -> Result<Result<Epoch, Leader>, Error> {
        let lease = i64::try_from(self.server.0.lease.as_millis()).unwrap_or(i64::MAX);
        let signed = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        loop {
            let found = self.leader()?;
            if !claim.accepts_loss {
                self.refuse_older(claim, found.as_ref())?;
            }
            let (epoch, changed) = match found {
                None => {
                    let (service, epoch) = (signed(claim.first.service), signed(claim.first.number));
                    let made = self.query(async |client| {
                        client
                            .execute(schema::FIRST_LEADER, &[&service, &epoch, &claim.owner, &claim.address, &lease])
                            .await
                    });
                    (claim.first, made?)
                }
                Some(leader) if leader.rest > Duration::ZERO && leader.owner != claim.owner => return Ok(Err(leader)),
                Some(Leader { epoch: before, .. }) => {
                    let next = before.number + 1;
                    let number = if claim.accepts_loss { next.max(claim.first.number) } else { next };
                    let (next, before_number) = (signed(number), signed(before.number));
                    let made = self.query(async |client| {
                        let values: [&(dyn ToSql + Sync); 5] =
                            [&next, &claim.owner, &claim.address, &lease, &before_number];
                        client.execute(schema::NEXT_LEADER, &values).await
                    });
                    (Epoch { number, ..before }, made?)
                }
            };
            // Another one was faster.
            if changed == 0 {
                continue;
            }
            let leader = self.leader()?;
            if let Some(leader) = leader.filter(|leader| leader.epoch == epoch) {
                self.leads = Some(Known { seen: leader.seen(), is_in_doubt: false });
                self.prepare().map_err(|asked| self.explain(asked))?;
                return Ok(Ok(epoch));
            }
        }
    }

    fn refuse_older(&self, claim: &Claim, found: Option<&Leader>) -> Result<(), Error> {
        let Some(seen) = claim.seen else { return Ok(()) };
        let of_service = found.filter(|leader| leader.epoch.service == seen.epoch.service);
        let now = of_service.map_or((0, 0), |leader| (leader.epoch.number, leader.commits));
        if now >= (seen.epoch.number, seen.commits) {
            return Ok(());
        }
        Err(Error::Stale {
            place: self.place(),
            epoch: now.0,
            commits: now.1,
            seen_epoch: seen.epoch.number,
            seen_commits: seen.commits,
        })
    }

    /// How far the queue is, for a session that leads.
    #[must_use]
    pub fn seen(&self) -> Option<Seen> {
        self.leads.map(|known| known.seen)
    }

    /// Makes a commit, all of it or nothing, and renews the lease; a batch without rows only renews it.
    ///
    /// # Errors
    /// [`CommitError`]
    pub fn commit(&mut self, batch: &Batch) -> Result<(), CommitError> {
        // Behind an answer that was lost, the row tells first; and once more if a late commit was faster.
        let mut was_sent = false;
        // A commit that was on its way when its connection broke may still be made.
        let refused =
            |why: String, was_sent| if was_sent { CommitError::Unknown(why) } else { CommitError::Later(why) };
        for attempt in 0..3 {
            let Some(mut known) = self.leads else {
                return Err(CommitError::Deposed(format!(
                    "this controller has never led the queue in {}",
                    self.place()
                )));
            };
            if known.is_in_doubt {
                known = self.settle(known)?;
            }
            match self.try_commit(known.seen, batch) {
                Ok(()) => {
                    let seen = Seen { commits: known.seen.commits + 1, ..known.seen };
                    self.leads = Some(Known { seen, is_in_doubt: false });
                    return Ok(());
                }
                Err(Asked::Failed(error)) if is_not_leading(&error) => self.doubt(),
                Err(Asked::Failed(error)) if is_answer(&error) => {
                    return Err(refused(format!("{}: {}", self.place(), said(&error)), was_sent));
                }
                // The server has closed the connection, as one does that restarts; another one tells.
                Err(Asked::Failed(_)) if attempt == 0 => {
                    was_sent = true;
                    self.doubt();
                }
                Err(Asked::Unconnected(error)) => return Err(refused(error.to_string(), was_sent)),
                Err(asked @ (Asked::Failed(_) | Asked::Silent(_))) => {
                    self.doubt();
                    return Err(CommitError::Unknown(self.explain(asked).to_string()));
                }
            }
        }
        Err(refused(format!("{}: the row of the leader changes all the time", self.place()), was_sent))
    }

    fn doubt(&mut self) {
        if let Some(known) = &mut self.leads {
            known.is_in_doubt = true;
        }
    }

    /// Reads how far the queue is. Until it can, nothing is known of the last commit.
    fn settle(&mut self, known: Known) -> Result<Known, CommitError> {
        let found = self.leader().map_err(|error| CommitError::Unknown(error.to_string()))?;
        let place = self.place();
        let Some(leader) = found else {
            return Err(CommitError::Deposed(format!("the queue in {place} is gone: its tables are empty")));
        };
        if leader.epoch != known.seen.epoch {
            return Err(CommitError::Deposed(format!(
                "the queue in {place} is led by {} at {} in epoch {}, so epoch {} has ended",
                leader.home(),
                leader.address,
                leader.epoch.number,
                known.seen.epoch.number
            )));
        }
        if leader.commits < known.seen.commits {
            return Err(CommitError::Deposed(format!(
                "the queue in {place} is at commit {}, and commit {} was made here: the server has lost accepted tasks, such as a \
                 replica that was promoted too early",
                leader.commits, known.seen.commits
            )));
        }
        let known = Known { seen: leader.seen(), is_in_doubt: false };
        self.leads = Some(known);
        Ok(known)
    }

    fn try_commit(&mut self, seen: Seen, batch: &Batch) -> Result<(), Asked> {
        let statements = batch.statements();
        let lease = i64::try_from(self.server.0.lease.as_millis()).unwrap_or(i64::MAX);
        let epoch = i64::try_from(seen.epoch.number).unwrap_or(i64::MAX);
        self.prepare()?;
        // A statement that the connection has lost is prepared by the next try.
        let prepared = std::mem::take(&mut self.prepared);
        let count = Cell::new(0_i64);
        let made = self.ask(async |client| {
            // All of them leave in one write, and their answers come in one.
            let mut steps: Vec<Step<'_>> = Vec::with_capacity(statements.len() + 3);
            if !statements.is_empty() {
                steps.push(Box::pin(client.batch_execute("BEGIN")));
            }
            let (count, lead_on) = (&count, &prepared[schema::LEAD_ON]);
            steps.push(Box::pin(async move {
                let values: [&(dyn ToSql + Sync); 3] = [&epoch, &seen.commits, &lease];
                count.set(client.query_one(lead_on, &values).await?.get(0));
                Ok(())
            }));
            for (sql, columns) in &statements {
                steps.push(Box::pin(execute(client, &prepared[sql], columns)));
            }
            if !statements.is_empty() {
                steps.push(Box::pin(client.batch_execute("COMMIT")));
            }
            join_all(steps).await.into_iter().collect()
        });
        if let Err(Asked::Failed(error)) = &made
            && error.code() == Some(&SqlState::INVALID_SQL_STATEMENT_NAME)
        {
            // A pooler before the server has changed the connection behind it.
            self.client = None;
        }
        if self.client.is_some() {
            self.prepared = prepared;
        }
        if made.is_ok() {
            self.standbys = usize::try_from(count.get()).unwrap_or_default();
        }
        made
    }

    /// Prepares the statements of commits on a new connection.
    fn prepare(&mut self) -> Result<(), Asked> {
        self.connect().map_err(Asked::Unconnected)?;
        if !self.prepared.is_empty() {
            return Ok(());
        }
        let made = self.ask(async |client| {
            let made = schema::OF_COMMITS.map(|sql| client.prepare(sql));
            join_all(made).await.into_iter().collect::<Result<Vec<_>, _>>()
        });
        match made {
            Ok(made) => {
                self.prepared.extend(schema::OF_COMMITS.into_iter().zip(made));
                Ok(())
            }
            // Nothing of a commit was sent.
            Err(asked) => Err(Asked::Unconnected(self.explain(asked))),
        }
    }

    /// Whether no row is stored.
    ///
    /// # Errors
    /// When the server does not answer.
    pub fn is_empty(&mut self) -> Result<bool, Error> {
        self.query(async |client| Ok(client.query_one(schema::IS_EMPTY, &[]).await?.get(0)))
    }

    /// Tells where the controller of this session serves.
    ///
    /// # Errors
    /// When the server does not answer.
    pub fn tell_address(&mut self, address: &str) -> Result<(), Error> {
        let Some(known) = self.leads else { return Ok(()) };
        let epoch = i64::try_from(known.seen.epoch.number).unwrap_or(i64::MAX);
        self.query(async |client| client.execute(schema::SET_ADDRESS, &[&address, &epoch]).await).map(drop)
    }

    /// Renews the lease of another session, which is busy.
    ///
    /// # Errors
    /// When the server does not answer.
    pub fn renew(&mut self, epoch: Epoch) -> Result<(), Error> {
        let lease = i64::try_from(self.server.0.lease.as_millis()).unwrap_or(i64::MAX);
        let epoch = i64::try_from(epoch.number).unwrap_or(i64::MAX);
        self.query(async |client| client.execute(schema::RENEW, &[&lease, &epoch]).await).map(drop)
    }

    /// Tells that a home waits to lead; it says so again at least every second.
    ///
    /// # Errors
    /// When the server does not answer.
    pub fn stand_by(&mut self, owner: &str) -> Result<(), Error> {
        self.query(async |client| client.execute(schema::STAND_BY, &[&owner]).await).map(drop)
    }

    /// Tells that it does not wait any more.
    ///
    /// # Errors
    /// When the server does not answer.
    pub fn stand_by_no_more(&mut self, owner: &str) -> Result<(), Error> {
        self.query(async |client| client.execute(schema::STAND_BY_NO_MORE, &[&owner]).await).map(drop)
    }

    /// The homes that wait, the first one first.
    ///
    /// # Errors
    /// When the server does not answer.
    pub fn standbys(&mut self) -> Result<Vec<String>, Error> {
        let rows = self.query(async |client| client.query(schema::GET_STANDBYS, &[]).await)?;
        Ok(rows.iter().map(|row| home_of(row.get(0)).to_owned()).collect())
    }

    /// Ends the queue here, because a copy of it counts from now on: no controller leads it any more. `false` if another controller has
    /// led it since it was read.
    ///
    /// # Errors
    /// When the server does not answer.
    pub fn move_to(&mut self, place: &str) -> Result<bool, Error> {
        let Some(known) = self.leads.take() else { return Ok(false) };
        let epoch = i64::try_from(known.seen.epoch.number).unwrap_or(i64::MAX);
        let moved = self.query(async |client| client.execute(schema::MOVE, &[&place, &epoch]).await)?;
        Ok(moved > 0)
    }

    /// Whether the last question was answered, if with a refusal.
    #[must_use]
    pub const fn is_connected(&self) -> bool {
        self.client.is_some()
    }

    /// The number of other homes that waited to lead at the last commit.
    #[must_use]
    pub const fn standby_count(&self) -> usize {
        self.standbys
    }

    /// Gives the lease up, so that another controller can lead at once.
    ///
    /// # Errors
    /// When the server does not answer; the lease ends by itself then.
    pub fn resign(&mut self) -> Result<(), Error> {
        let Some(known) = self.leads.take() else { return Ok(()) };
        let epoch = i64::try_from(known.seen.epoch.number).unwrap_or(i64::MAX);
        self.query(async |client| client.execute(schema::RESIGN, &[&epoch]).await).map(drop)
    }
}

fn home_of(owner: &str) -> &str {
    owner.rsplit_once(' ').map_or(owner, |(home, _)| home)
}

type Step<'a> = Pin<Box<dyn Future<Output = Result<(), tokio_postgres::Error>> + 'a>>;

async fn execute(client: &Client, statement: &Statement, columns: &Columns<'_>) -> Result<(), tokio_postgres::Error> {
    let columns: Vec<&(dyn ToSql + Sync)> = columns.iter().map(|column| -> &(dyn ToSql + Sync) { &**column }).collect();
    client.execute(statement, &columns).await.map(drop)
}
