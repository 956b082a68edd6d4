//! The output of the commands that only query tasks: one answer, or a list of them.

use serde_json::{Value, json};

use super::change::about;
use super::selection::{Scope, Selection};
use api::wire::client::Selector;
use base::Fields;
use llts_client::{Client, ClientError};
use term::exit::{self, Failure};
use term::output::{Output, note, to_value};
use term::session::Session;

/// The two forms of an answer.
pub(super) struct Shown<Answer> {
    /// As JSON.
    pub(super) fields: fn(&Answer) -> &Fields,
    /// To people.
    pub(super) show: fn(&mut Output, &Answer),
}

/// Queries each task of a selection. A selection without ids means the newest task that matches.
///
/// JSON is an object where the selection can mean only one task, otherwise an array.
pub(super) fn each<Answer>(
    session: &mut Session,
    client: &Client,
    selection: &Selection,
    ask: impl Fn(&Selector) -> Result<Answer, ClientError>,
    shown: &Shown<Answer>,
) -> Result<u8, Failure> {
    let mut answers: Vec<Result<Answer, Value>> = Vec::new();
    let mut worst = 0;
    for (id, selector) in selectors(client, selection)? {
        match selector.and_then(|selector| ask(&selector).map_err(Failure::from)) {
            Ok(answer) => answers.push(Ok(answer)),
            // The next task would fail as well.
            Err(failure) if failure.exit == exit::NO_CONTROLLER => return Err(failure),
            Err(failure) => {
                let value = json!({ "task": id, "error": failure.sentence });
                let sentence = id.map_or_else(|| failure.sentence.clone(), |id| about(&id, &failure.sentence));
                if selection.is_single() {
                    return Err(Failure { sentence, ..failure });
                }
                note(&sentence);
                worst = worst.max(failure.exit);
                answers.push(Err(value));
            }
        }
    }
    let out = &mut session.out;
    match answers.as_slice() {
        [Ok(answer)] if out.is_json() && selection.is_single() => out.fields((shown.fields)(answer)),
        all if out.is_json() => {
            let value = |answer: &Result<Answer, Value>| match answer {
                Ok(answer) => to_value((shown.fields)(answer)),
                Err(value) => value.clone(),
            };
            out.value(&all.iter().map(value).collect());
        }
        all => {
            for (number, answer) in all.iter().flatten().enumerate() {
                if number > 0 {
                    out.line("");
                }
                (shown.show)(out, answer);
            }
        }
    }
    Ok(worst)
}

type Asked = (Option<String>, Result<Selector, Failure>);

fn selectors(client: &Client, selection: &Selection) -> Result<Vec<Asked>, Failure> {
    if !selection.has_words() {
        return Ok(vec![(None, selection.newest(client))]);
    }
    let chosen = selection.resolve(client, Scope::Every)?;
    Ok(chosen.into_iter().map(|task| (Some(task.id.clone()), task.state.map(|_| Selector::task(&task.id)))).collect())
}
