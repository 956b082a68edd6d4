//! TASK/SUBMIT_MANY: accepts several tasks, all of them or none.

use std::collections::{BTreeMap, BTreeSet};

use super::{Checked, Companions, Found};
use crate::requests::{Code, Controller, Refusal, Reply, words};
use api::wire::requests::submit::Submit;
use api::wire::requests::submit::many::SubmitMany;
use base::{Fields, Now, Requirements, TaskId, TaskRecord};

/// The place of a task in the request.
enum Place {
    /// Accepted before.
    Before(TaskId),
    /// The same as the task at this place, with the same key.
    SameAs(usize),
    /// To be accepted.
    New(Box<Checked>),
}

/// The tasks of a request that have been checked, in the form that the check of the next one needs.
#[derive(Default)]
struct Batch {
    places: Vec<Place>,
    companions: Companions,
    /// The place and the fields of each key.
    keys: BTreeMap<String, (usize, Fields)>,
    count: usize,
    bytes: usize,
    needs: BTreeSet<Requirements>,
}

impl Controller {
    pub(in crate::requests) fn submit_many(&mut self, now: Now, many: SubmitMany) -> Reply {
        self.submit_all_checked(now, many).unwrap_or_else(Reply::Refused)
    }

    fn submit_all_checked(&mut self, now: Now, many: SubmitMany) -> Result<Reply, Refusal> {
        self.check_open()?;
        let mut batch = Batch::default();
        for (index, submit) in many.tasks.into_iter().enumerate() {
            let place = self.check_one(now, submit, index, &mut batch).map_err(|refusal| refusal.about(index))?;
            batch.places.push(place);
        }
        Ok(self.accept_many(now, batch))
    }

    fn accept_many(&mut self, now: Now, batch: Batch) -> Reply {
        let (mut ids, mut duplicates, mut warnings) = (Vec::new(), Vec::new(), Vec::new());
        for (index, place) in batch.places.into_iter().enumerate() {
            ids.push(match place {
                Place::Before(task) => {
                    duplicates.push(index);
                    task
                }
                Place::SameAs(other) => {
                    duplicates.push(index);
                    ids[other]
                }
                Place::New(checked) => {
                    warnings.extend(checked.warnings.iter().map(|warning| format!("{index}: {warning}")));
                    self.accept(now, *checked)
                }
            });
        }
        self.dispatch(now);
        if let Some(task) = ids.last() {
            self.inform_if_waiting(*task);
        }
        let warning = (!warnings.is_empty()).then(|| warnings.join("; "));
        Reply::SubmittedMany { tasks: ids, duplicates, warning }
    }

    /// Checks one task, after those before it.
    fn check_one(&mut self, now: Now, submit: Submit, index: usize, batch: &mut Batch) -> Result<Place, Refusal> {
        if let Some(key) = submit.submit_key() {
            if let Some((other, fields)) = batch.keys.get(&key) {
                return if is_equal(fields, &submit.fields) {
                    Ok(Place::SameAs(*other))
                } else {
                    Err(key_twice(&key, *other))
                };
            }
            batch.keys.insert(key, (index, submit.fields.clone()));
        }
        let checked = match self.check_submit(now, submit)? {
            Found::Before(task) => return Ok(Place::Before(task)),
            Found::New(checked) => checked,
        };
        let needs = &checked.submit.policy.needs;
        batch.count += 1;
        batch.bytes += size_of::<TaskRecord>() + checked.submitted.len();
        let is_new = self.queue.other_needs(needs) > 0 && !batch.needs.contains(needs);
        self.check_queue_for(needs, batch.count, batch.bytes, batch.needs.len())?;
        if is_new {
            batch.needs.insert(needs.clone());
        }
        if let Some(relations) = &checked.submit.relations {
            self.check_relations_of(relations, &checked.submit, &batch.companions)?;
        }
        batch.companions.add(&checked.submit);
        Ok(Place::New(Box::new(checked)))
    }
}

/// Whether two tasks have the same fields, in any order.
fn is_equal(one: &Fields, other: &Fields) -> bool {
    one.len() == other.len() && one.iter().all(|(name, value)| other.get(name) == Some(value))
}

fn key_twice(key: &str, other: usize) -> Refusal {
    let message =
        format!("{} {key} is that of task {other} of this request, which has other fields", words::SUBMIT_KEY);
    Refusal::new(Code::BadField, message)
}
