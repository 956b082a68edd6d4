//! The relations of a task to others, read from the submitted fields: `__JOB__` with its options, and `__AFTER__`.

use std::sync::Arc;

use super::typed::{bad, truth, whole};
use base::code::{Code, Refusal, shown};
use base::{
    Fields, JobName, Membership, PortName, Prior, Relations, Scalar, StepName, StepPlace, Term, Wanted, json, words,
};

/// Reads the job and the dependencies of a task; `None` if it has neither, which costs one look at each field.
///
/// # Errors
/// -1007 when a field has an invalid value or lacks the field that it belongs to, -1004 for a term with an invalid task id, -1008
/// for more than `terms_max` terms.
pub(super) fn read(fields: &Fields, terms_max: usize) -> Result<Option<Arc<Relations>>, Refusal> {
    const NAMES: [&str; 4] = [words::JOB, words::AFTER, words::JOB_MAX_FAILS, words::JOB_PUSH];
    if !fields.iter().any(|(name, _)| NAMES.contains(&name)) {
        return Ok(None);
    }
    let relations = Relations { job: membership(fields)?, after: after(fields, terms_max)?, step: None };
    Ok((relations.job.is_some() || !relations.after.is_empty()).then(|| Arc::new(relations)))
}

fn membership(fields: &Fields) -> Result<Option<Membership>, Refusal> {
    let name = fields.get(words::JOB).map(job_name).transpose()?;
    let fails_max = whole(fields, words::JOB_MAX_FAILS, u32::MAX)?;
    if let (Some(0), Some(value)) = (fails_max, fields.get(words::JOB_MAX_FAILS)) {
        return Err(bad(words::JOB_MAX_FAILS, value, "a number of failed tasks, from 1 on"));
    }
    let is_pushed = truth(fields, words::JOB_PUSH)?.unwrap_or_default();
    let Some(name) = name else {
        let lonely = [(words::JOB_MAX_FAILS, fails_max.is_some()), (words::JOB_PUSH, is_pushed)];
        return match lonely.into_iter().find(|(_, stands)| *stands) {
            Some((word, _)) => Err(missing(word, words::JOB)),
            None => Ok(None),
        };
    };
    if is_pushed && fields.get(words::ADDRESS).is_none() {
        return Err(missing(words::JOB_PUSH, words::ADDRESS));
    }
    Ok(Some(Membership { name, fails_max, is_pushed }))
}

fn missing(word: &str, needed: &str) -> Refusal {
    Refusal::new(Code::BadField, format!("{word} has no meaning without {needed}; send both"))
}

/// Reads the value of `__JOB__`.
pub(super) fn job_name(value: &Scalar) -> Result<JobName, Refusal> {
    let Some(text) = value.as_text() else { return Err(bad(words::JOB, value, "a text: the name of a job")) };
    JobName::new(text).map_err(|error| Refusal::new(Code::BadField, format!("{}: {error}", words::JOB)))
}

fn after(fields: &Fields, terms_max: usize) -> Result<Vec<Term>, Refusal> {
    let Some(value) = fields.get(words::AFTER) else { return Ok(Vec::new()) };
    let Some(text) = value.as_text().filter(|text| !text.is_empty()) else {
        return Err(bad(words::AFTER, value, "a text: one or more terms, separated by commas"));
    };
    let count = text.split(',').count();
    if count > terms_max {
        let message = format!("{} has {count} terms; at most {terms_max} are accepted (AFTER_TERMS_MAX)", words::AFTER);
        return Err(Refusal::new(Code::LimitReached, message));
    }
    let mut terms = text.split(',').map(term).collect::<Result<Vec<_>, _>>()?;
    // The order of terms has no meaning, and a term twice counts once.
    terms.sort();
    terms.dedup();
    Ok(terms)
}

/// One term: a task or `job:NAME`, alone, as `any:TERM` or as `failed:TERM`.
fn term(text: &str) -> Result<Term, Refusal> {
    let wanted = |wanted: &Wanted| text.starts_with(wanted.prefix()).then_some(*wanted);
    // Tries the prefixes in reverse order, because the first one is empty.
    let wanted = Wanted::ALL.iter().rev().find_map(wanted).unwrap_or(Wanted::Success);
    let of = &text[wanted.prefix().len()..];
    if let Some(name) = of.strip_prefix(Prior::JOB) {
        let name = JobName::new(name)
            .map_err(|error| Refusal::new(Code::BadField, format!("{} {}: {error}", words::AFTER, shown(text))))?;
        return Ok(Term { wanted, of: Prior::Job(name) });
    }
    if of.is_empty() || of.contains(|c: char| c == ':' || c.is_whitespace() || c.is_control()) {
        let message = format!(
            "{} {} is not a term: write a task id or job:NAME, alone or after any: or failed:, without blanks",
            words::AFTER,
            shown(text)
        );
        return Err(Refusal::new(Code::BadField, message));
    }
    Ok(Term { wanted, of: Prior::Task(of.parse().map_err(|_| Refusal::no_such_task(of))?) })
}

/// Reads the relations of a stored task, which may be one of a step graph. Present limits do not apply; `None` for an invalid
/// value.
pub(super) fn restore(fields: &Fields, may_be_of_a_step: bool) -> Option<Option<Arc<Relations>>> {
    let relations = read(fields, usize::MAX).ok()?;
    if !may_be_of_a_step || fields.get(words::GRAPH_ID).is_none() {
        return Some(relations);
    }
    let step = Some(place(fields)?);
    Some(Some(Arc::new(Relations { step, ..relations.map(Arc::unwrap_or_clone).unwrap_or_default() })))
}

/// The fields with the place of a task in a step graph, as members of a JSON object.
#[must_use]
pub fn write_place(place: &StepPlace) -> String {
    let StepPlace { graph, step, prepares, partition } = place;
    let mut fields = Fields::new()
        .with(words::JOB, graph.to_string())
        .with(words::GRAPH_ID, graph.to_string())
        .with(words::STEP, step.as_str())
        .with(words::ROLE, if prepares.is_some() { PREPARE } else { MAIN });
    if let Some(port) = prepares {
        fields.set(words::PORT, port.as_str());
    }
    json::members(&fields.with(words::PARTITION, *partition))
}

fn place(fields: &Fields) -> Option<StepPlace> {
    Some(StepPlace {
        graph: fields.text(words::GRAPH_ID)?.parse().ok()?,
        step: StepName::new(fields.text(words::STEP)?).ok()?,
        prepares: match fields.text(words::ROLE)? {
            MAIN => None,
            PREPARE => Some(PortName::new(fields.text(words::PORT)?).ok()?),
            _ => return None,
        },
        partition: u32::try_from(fields.count(words::PARTITION)?).ok()?,
    })
}

/// The values of `__ROLE__`.
const MAIN: &str = "MAIN";
const PREPARE: &str = "PREPARE";

/// Writes the numbers of the terms that have not been met.
pub(super) fn write_unmet(unmet: &[u16]) -> String {
    unmet.iter().map(u16::to_string).collect::<Vec<_>>().join(",")
}

/// Reads the numbers of unmet terms; `None` for a number that no term has.
pub(super) fn read_unmet(text: Option<&str>, terms: usize) -> Option<Vec<u16>> {
    let Some(text) = text else { return Some(Vec::new()) };
    let number = |part: &str| part.parse().ok().filter(|number: &u16| usize::from(*number) < terms);
    text.split(',').map(number).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TASK: &str = "TASK_1480000000.120000_AZazA";

    fn after_of(text: impl Into<Scalar>) -> Result<Vec<String>, i32> {
        let read = read(&Fields::new().with(words::AFTER, text), 4).map_err(|refusal| refusal.code.number())?;
        Ok(read.unwrap().after.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn terms_are_tasks_and_jobs_with_the_end_that_is_wanted() {
        for text in [TASK.to_owned(), format!("any:{TASK}"), format!("failed:{TASK}")] {
            assert_eq!(after_of(text.as_str()), Ok(vec![text]));
        }
        for text in ["job:a.b-C_1", "any:job:any", "failed:job:job"] {
            assert_eq!(after_of(text), Ok(vec![text.to_owned()]));
        }
        assert_eq!(after_of(format!("job:a,{TASK},job:a")), Ok(vec![TASK.to_owned(), "job:a".to_owned()]));
    }

    #[test]
    fn blanks_nesting_and_strange_names_are_refused() {
        for text in [
            "",
            ",",
            " job:a",
            "job:a ,job:b",
            "any:any:job:a",
            "failed:any:job:a",
            "job:job:a",
            "job:",
            "any:",
            "job:a/b",
            "job:__a",
            "x:job:a",
        ] {
            assert_eq!(after_of(text), Err(-1007), "{text:?}");
        }
        assert_eq!(after_of(5u32), Err(-1007));
        assert_eq!(after_of("TASK_1"), Err(-1004));
        assert_eq!(after_of("nonsense"), Err(-1004));
        assert_eq!(after_of("job:a,job:a,job:a,job:a,job:a"), Err(-1008), "limits are about what is sent");
    }

    #[test]
    fn the_fields_beside_a_job_need_it() {
        let code = |fields: Fields| read(&fields, 4).map_err(|refusal| refusal.code.number());
        let job = || Fields::new().with(words::JOB, "a");
        assert_eq!(code(Fields::new().with("x", 1u32)), Ok(None));
        for fields in [
            Fields::new().with(words::JOB, "a/b"),
            Fields::new().with(words::JOB, 5u32),
            Fields::new().with(words::JOB_MAX_FAILS, 5u32),
            Fields::new().with(words::JOB_PUSH, true),
            job().with(words::JOB_MAX_FAILS, 0u32),
            job().with(words::JOB_MAX_FAILS, "1"),
            job().with(words::JOB_PUSH, true),
            job().with(words::JOB_PUSH, "yes").with(words::ADDRESS, "tcp://127.0.0.1:1"),
        ] {
            assert_eq!(code(fields.clone()), Err(-1007), "{fields:?}");
        }
        let read = code(job().with(words::JOB_MAX_FAILS, 3u32)).unwrap().unwrap();
        assert_eq!(
            read.job,
            Some(Membership { name: JobName::new("a").unwrap(), fails_max: Some(3), is_pushed: false })
        );
    }

    #[test]
    fn unmet_terms_read_back() {
        for unmet in [&[][..], &[0], &[0, 7, 999]] {
            let text = (!unmet.is_empty()).then(|| write_unmet(unmet));
            assert_eq!(read_unmet(text.as_deref(), 1000).as_deref(), Some(unmet));
        }
        assert_eq!(read_unmet(Some("7"), 7), None);
    }
}
