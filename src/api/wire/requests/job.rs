//! JOB/QUERY, JOB/DETAILS, JOB/KILL, JOB/RETRY, JOB/HOLD and JOB/RELEASE: a job, which is all tasks that share a name.

pub mod results;

use std::time::Duration;

use super::{Ask, Code, Kind, Listing, Reader, Refusal, Request, json, words};
use crate::wire::client::view;
use crate::wire::relations;
use base::json::ObjectWriter;
use base::words::kind;
use base::{Fields, JobName, JobStatus, JobView, Outcome, Phase, Scalar, Wall};

/// The state of a job.
pub const JOB_QUERY: Kind = Kind::question("JOB/QUERY", |reader| Ok(Request::JobQuery(name(&reader)?, reader.wait()?)));

/// All jobs, in pages.
pub const JOB_DETAILS: Kind = Kind::question("JOB/DETAILS", |mut reader| Ok(Request::JobDetails(reader.page()?)));

/// Ends the tasks of a job.
pub const JOB_KILL: Kind = Kind::order("JOB/KILL", |reader| {
    let reason = super::kill::reason(&reader);
    Ok(Request::JobOrder(name(&reader)?, JobOrder::Kill(reason)))
});

/// Starts another round of the failed tasks of a job, and of the tasks that were skipped because of them.
pub const JOB_RETRY: Kind = Kind::order("JOB/RETRY", |reader| Ok(Request::JobOrder(name(&reader)?, JobOrder::Retry)));

/// Prevents the tasks of a job from starting.
pub const JOB_HOLD: Kind =
    Kind::order("JOB/HOLD", |reader| Ok(Request::JobOrder(name(&reader)?, JobOrder::Hold(true))));

/// Permits the held tasks of a job to start.
pub const JOB_RELEASE: Kind =
    Kind::order("JOB/RELEASE", |reader| Ok(Request::JobOrder(name(&reader)?, JobOrder::Hold(false))));

/// A change of all tasks of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JobOrder {
    /// End them, with the reason given by the sender.
    Kill(Option<std::sync::Arc<str>>),
    /// Another round of the failed ones.
    Retry,
    /// Hold them; with false, release them.
    Hold(bool),
}

fn name(reader: &Reader<'_>) -> Result<JobName, Refusal> {
    match reader.fields.get(words::JOB) {
        Some(value) => relations::job_name(value),
        None => {
            let message = format!("{} has no {}; set it to the name of a job", reader.kind.word, words::JOB);
            Err(Refusal::new(Code::BadField, message))
        }
    }
}

/// Requests the state of a job; with a time, the reply waits until all its tasks have finished or the time has passed.
#[must_use]
pub fn query(job: &str, wait: Option<Duration>) -> Ask<JobAnswer> {
    let ask = JOB_QUERY.ask().with(words::JOB, job);
    match wait {
        Some(wait) => ask.with(words::WAIT, super::query::millis(wait)),
        None => ask,
    }
}

/// Requests jobs, newest first. The controller may return fewer than `limit`: request the next page from there.
#[must_use]
pub fn jobs(offset: u64, limit: u64) -> Ask<Listing<JobAnswer>> {
    JOB_DETAILS.ask_for_rows().with(words::OFFSET, offset).with(words::LIMIT, limit)
}

/// Changes all tasks of a job; the answer is their number.
#[must_use]
pub fn order(job: &str, order: &JobOrder) -> Ask<Concerned> {
    let kind = match order {
        JobOrder::Kill(_) => JOB_KILL,
        JobOrder::Retry => JOB_RETRY,
        JobOrder::Hold(true) => JOB_HOLD,
        JobOrder::Hold(false) => JOB_RELEASE,
    };
    let ask = kind.ask().with(words::JOB, job);
    match order {
        JobOrder::Kill(Some(reason)) => ask.with(words::REASON, &**reason),
        JobOrder::Kill(None) | JobOrder::Retry | JobOrder::Hold(_) => ask,
    }
}

view! {
    /// The answer to an order about a job.
    Concerned {
        /// Number of tasks that it has changed.
        count: u64 = |fields| fields.count(words::COUNT).unwrap_or_default();
        /// Why some tasks were left as they were.
        warning: Option<&str> = |fields| fields.text(words::WARNING);
    }
}

view! {
    /// The state of a job.
    JobAnswer {
        /// Name of the job.
        name: &str = |fields| fields.text(words::JOB).unwrap_or_default();
        /// Number of its tasks.
        total: u64 = |fields| fields.count(words::TOTAL).unwrap_or_default();
        /// Moment of acceptance of its oldest task.
        submitted_at: Option<Wall> = |fields| fields.moment(words::SUBMIT_TIME);
        /// Moment of its end, if all its tasks have finished.
        ended_at: Option<Wall> = |fields| fields.moment(words::END_TIME);
        /// The median of its run times, in seconds.
        run_p50: Option<f64> = |fields| fields.get(words::RUN_P50)?.as_f64();
        /// Their 90th percentile, in seconds.
        run_p90: Option<f64> = |fields| fields.get(words::RUN_P90)?.as_f64();
        /// The longest of them, in seconds.
        run_max: Option<f64> = |fields| fields.get(words::RUN_MAX)?.as_f64();
        /// Why no more tasks of it start.
        reason: Option<&str> = |fields| fields.text(words::REASON);
    }
}

impl JobAnswer {
    /// Number of its tasks in a phase.
    #[must_use]
    pub fn in_phase(&self, phase: Phase) -> u64 {
        self.fields().count(words::phase(phase)).unwrap_or_default()
    }

    /// Number of its tasks with an outcome.
    #[must_use]
    pub fn with_outcome(&self, outcome: Outcome) -> u64 {
        self.fields().count(words::outcome(outcome)).unwrap_or_default()
    }

    /// Number of its tasks whose outcome counts as failed.
    #[must_use]
    pub fn failed(&self) -> u64 {
        let failures = Outcome::ALL.into_iter().filter(|outcome| outcome.counts_as_failed());
        failures.map(|outcome| self.with_outcome(outcome)).sum()
    }
}

/// Writes the state of a job, its name first.
pub(in crate::wire) fn write(view: &JobView, writer: &mut ObjectWriter<'_>) {
    writer.text(words::JOB, view.name.as_str());
    write_state(view, writer);
}

fn write_state(view: &JobView, writer: &mut ObjectWriter<'_>) {
    writer.literal(words::TOTAL, view.total());
    for (phase, count) in Phase::ALL.into_iter().zip(view.phases) {
        writer.literal(words::phase(phase), count);
    }
    for (outcome, count) in Outcome::ALL.into_iter().zip(view.outcomes) {
        writer.literal(words::outcome(outcome), count);
    }
    writer.moment(words::SUBMIT_TIME, view.submitted_at);
    match view.ended_at {
        Some(at) => writer.moment(words::END_TIME, at),
        None => writer.scalar(words::END_TIME, &Scalar::Null),
    }
    let times = view.run_times;
    for (word, time) in [
        (words::RUN_P50, times.map(|times| times.p50)),
        (words::RUN_P90, times.map(|times| times.p90)),
        (words::RUN_MAX, times.map(|times| times.max)),
    ] {
        writer.scalar(word, &time.map_or(Scalar::Null, |time| Scalar::from(time.as_secs_f64())));
    }
    writer.maybe_text(words::REASON, view.stopped.map(|stop| stop.to_string()));
}

/// Writes the row of a job.
pub(in crate::wire) fn write_row(view: &JobView, writer: &mut ObjectWriter<'_>) {
    writer.object(view.name.as_str(), |writer| write(view, writer));
}

/// Writes the answer to an order.
pub(in crate::wire) fn write_concerned(count: usize, warning: Option<&str>, writer: &mut ObjectWriter<'_>) {
    writer.literal(words::COUNT, count);
    writer.maybe_text(words::WARNING, warning);
}

/// Writes the state of a job for its receivers and for subscribers, who can select one job by the first bytes.
#[must_use]
pub fn encode_status(status: &JobStatus) -> Vec<u8> {
    let mut out = Vec::with_capacity(512);
    let mut writer = ObjectWriter::typed(&mut out, kind::JOB_STATUS);
    writer.text(words::JOB, status.view.name.as_str());
    writer.literal(words::SEQ, status.seq);
    write_state(&status.view, &mut writer);
    writer.end();
    out
}

/// The first bytes of every published state of a job.
#[must_use]
pub fn status_prefix(job: &JobName) -> String {
    format!("{{\"{}\":\"{}\",\"{}\":\"{job}\"", words::TYPE, kind::JOB_STATUS, words::JOB)
}

/// Reads a published state; `None` for any other message.
#[must_use]
pub fn read_status(frame: &[u8]) -> Option<JobAnswer> {
    let fields = json::parse(frame, &json::FieldLimits::TRUSTED).ok()?;
    (fields.text(words::TYPE) == Some(kind::JOB_STATUS)).then(|| fields.into())
}

/// The stored part of a job's state.
pub mod memo {
    use super::{Fields, words};
    use base::json::FieldLimits;
    use base::{JobMemo, JobStop, Scalar, json};

    /// As a JSON object.
    #[must_use]
    pub fn encode(memo: &JobMemo) -> String {
        let mut fields = Fields::new().with(words::SEQ, memo.seq_max);
        if let Some(max) = memo.fails_max {
            fields.set(words::JOB_MAX_FAILS, max);
        }
        if let Some(stop) = memo.stopped {
            fields.set(words::STOPPED_AT, stop.fails);
        }
        // In microseconds, because a whole number is read back exactly.
        fields.set(words::COUNTED_FROM, memo.counted_from.micros());
        format!("{{{}}}", json::members(&fields))
    }

    /// Reads it; `None` for a text that [`encode`] cannot have written.
    #[must_use]
    pub fn decode(text: &str) -> Option<JobMemo> {
        let fields = json::parse(text.as_bytes(), &FieldLimits::TRUSTED).ok()?;
        let small = |word| match fields.get(word).map(Scalar::as_u64) {
            None => Some(None),
            Some(number) => number.and_then(|number| u32::try_from(number).ok()).map(Some),
        };
        Some(JobMemo {
            fails_max: small(words::JOB_MAX_FAILS)?,
            stopped: small(words::STOPPED_AT)?.map(|fails| JobStop { fails }),
            counted_from: base::Wall::from_micros(fields.count(words::COUNTED_FROM)?),
            seq_max: fields.count(words::SEQ)?,
        })
    }
}

/// The refusal of a job that is stopped.
#[must_use]
pub fn stopped(view: &JobName, stop: impl std::fmt::Display) -> Refusal {
    let message =
        format!("{} {view} takes no more tasks: {stop}; JOB/RETRY repeats the failed ones and goes on", words::JOB);
    Refusal::new(Code::NotAllowed, message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::{JobMemo, JobStop, RunTimes};

    #[test]
    fn every_count_is_shown_even_if_it_is_zero() {
        let view = JobView {
            name: JobName::new("j").unwrap(),
            phases: [1, 0, 0, 2, 0, 3],
            outcomes: [1, 0, 2, 0, 0, 0, 0],
            submitted_at: Wall::from_micros(1_480_000_000_120_000),
            ended_at: None,
            run_times: Some(RunTimes {
                p50: Duration::from_millis(500),
                p90: Duration::from_secs(1),
                max: Duration::from_secs(2),
            }),
            stopped: None,
        };
        let status = encode_status(&JobStatus { view, seq: 7, receivers: Vec::new() });
        assert!(status.starts_with(status_prefix(&JobName::new("j").unwrap()).as_bytes()));
        assert_eq!(read_status(&status).map(|job| (job.total(), job.in_phase(Phase::Running))), Some((6, 2)));
        assert_eq!(
            String::from_utf8(status).unwrap(),
            r#"{"__TYPE__":"JOB/STATUS","__JOB__":"j","__SEQ__":7,"__TOTAL__":6,"WAITING":1,"DISPATCHED":0,"PREPARING":0,"RUNNING":2,"ENDED":0,"FINISHED":3,"SUCCEEDED":1,"FAILED":0,"TIMED_OUT":2,"EXPIRED":0,"KILLED":0,"LOST":0,"SKIPPED":0,"__SUBMIT_TIME__":1480000000.120000,"__END_TIME__":null,"__RUN_P50__":0.5,"__RUN_P90__":1.0,"__RUN_MAX__":2.0}"#
        );
    }

    #[test]
    fn a_memo_reads_back() {
        let memo = JobMemo {
            fails_max: Some(3),
            stopped: Some(JobStop { fails: 3 }),
            counted_from: Wall::from_micros(1_480_000_000_120_001),
            seq_max: 1 << 40,
        };
        for memo in [JobMemo::default(), memo] {
            assert_eq!(memo::decode(&memo::encode(&memo)), Some(memo));
        }
        assert_eq!(memo::decode("{}"), None);
    }
}
