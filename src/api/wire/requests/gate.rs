//! GATE/SET and GATE/QUERY: settings and states of gates.

use std::time::Duration;

use super::{Ask, Code, Kind, Listing, Refusal, Request, json, words};
use crate::wire::client::view;
use crate::wire::typed::{ahead, ahead_text, bad, moment, seconds, whole};
use base::json::{FieldLimits, ObjectWriter};
use base::{Fields, GateSettings, GateVerdict, GateView, Label, Pace, Scalar, Wall};

/// Changes the settings of a gate.
pub const GATE_SET: Kind = Kind::order("GATE/SET", |reader| {
    let (name, change) = (name(&reader.fields)?, change(&reader.fields)?);
    if name.is_of_service() && (change.running_max.is_some() || change.pace.is_some()) {
        let (max, starts) = (words::MAX_RUNNING, words::MAX_STARTS);
        let message = format!(
            "the gate {name} is that of the service: it takes no {max} and no {starts}, only {}",
            words::CLOSED_UNTIL
        );
        return Err(Refusal::new(Code::BadField, message));
    }
    Ok(Request::GateSet(name, Box::new(change)))
});

/// Requests the state of a gate, or of all gates.
pub const GATE_QUERY: Kind = Kind::question("GATE/QUERY", |reader| {
    let is_one = reader.fields.get(words::GATE).is_some();
    Ok(Request::GateQuery(is_one.then(|| name(&reader.fields)).transpose()?))
});

/// The word for a gate that is closed.
const CLOSED: &str = "CLOSED";

/// The changes of a GATE/SET: `None` leaves a setting unchanged, `Some(None)` removes the limit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GateChange {
    /// `__MAX_RUNNING__`
    pub running_max: Option<Option<u32>>,
    /// `__MAX_STARTS__` with `__INTERVAL__`
    pub pace: Option<Option<Pace>>,
    /// `__CLOSED_UNTIL__`
    pub closed_until: Option<Option<Wall>>,
    /// As `closed_until`, but counted from the arrival of the request.
    pub closed_for: Option<Duration>,
}

impl GateChange {
    /// Applies the changes. `now` is the moment of their arrival.
    pub fn apply(&self, settings: &mut GateSettings, now: Wall) {
        if let Some(running_max) = self.running_max {
            settings.running_max = running_max;
        }
        if let Some(pace) = self.pace {
            settings.pace = pace;
        }
        if let Some(time) = self.closed_for {
            settings.closed_until = Some(now + time);
        } else if let Some(closed_until) = self.closed_until {
            settings.closed_until = closed_until;
        }
    }
}

/// Requests the state of a gate. A gate that is neither set nor named by a task is open.
#[must_use]
pub fn gate(name: &str) -> Ask<GateRow> {
    GATE_QUERY.ask().with(words::GATE, name)
}

/// Requests the states of all known gates, in the order of their names.
#[must_use]
pub fn gates() -> Ask<Listing<GateRow>> {
    GATE_QUERY.ask_for_rows()
}

/// Changes the settings of a gate.
#[must_use]
pub fn set(name: &str, change: &GateChange) -> Ask<()> {
    let mut ask = GATE_SET.demand().with(words::GATE, name);
    if let Some(max) = change.running_max {
        ask = ask.with(words::MAX_RUNNING, max.map_or(Scalar::Null, Scalar::from));
    }
    match change.pace {
        None => {}
        Some(None) => ask = ask.with(words::MAX_STARTS, Scalar::Null),
        Some(Some(Pace { starts, interval })) => {
            ask = ask.with(words::MAX_STARTS, starts).with(words::INTERVAL, interval.as_secs_f64());
        }
    }
    if let Some(time) = change.closed_for {
        ask = ask.with(words::CLOSED_UNTIL, ahead_text(time));
    } else if let Some(until) = change.closed_until {
        ask = ask.with(words::CLOSED_UNTIL, until.as_ref().map_or(Scalar::Null, |at: &Wall| at.unix_seconds().into()));
    }
    ask
}

/// The name of the gate.
fn name(fields: &Fields) -> Result<Label, Refusal> {
    let Some(value) = fields.get(words::GATE) else {
        return Err(Refusal::new(Code::BadField, format!("{} is missing; set it to the name of a gate", words::GATE)));
    };
    let text = value.as_text().ok_or_else(|| bad(words::GATE, value, "the name of a gate"))?;
    Label::of_gate(text).map_err(|error| Refusal::new(Code::BadField, format!("{}: {error}", words::GATE)))
}

/// The changes of a GATE/SET. `null` removes a limit; 0 seconds open the gate.
fn change(fields: &Fields) -> Result<GateChange, Refusal> {
    let unset = |name| fields.get(name) == Some(&Scalar::Null);
    let running_max =
        if unset(words::MAX_RUNNING) { Some(None) } else { whole(fields, words::MAX_RUNNING, u32::MAX)?.map(Some) };
    let closed_for = ahead(fields, words::CLOSED_UNTIL)?;
    let closed_until = if closed_for.is_some() {
        None
    } else if unset(words::CLOSED_UNTIL) {
        Some(None)
    } else {
        moment(fields, words::CLOSED_UNTIL)?.map(|at| (at > Wall::default()).then_some(at))
    };
    Ok(GateChange { running_max, pace: pace(fields)?, closed_until, closed_for })
}

fn pace(fields: &Fields) -> Result<Option<Option<Pace>>, Refusal> {
    let Some(starts) = fields.get(words::MAX_STARTS) else {
        return match fields.get(words::INTERVAL) {
            None => Ok(None),
            Some(interval) => {
                let (starts, name) = (words::MAX_STARTS, words::INTERVAL);
                Err(Refusal::new(Code::BadField, format!("{name} is {interval}, but {starts} is missing; send both")))
            }
        };
    };
    if *starts == Scalar::Null {
        return Ok(Some(None));
    }
    let wanted = format!("a whole number from 1 to {}", Pace::STARTS_MAX);
    let count = whole(fields, words::MAX_STARTS, Pace::STARTS_MAX)?.filter(|count| *count > 0);
    let count = count.ok_or_else(|| bad(words::MAX_STARTS, starts, &wanted))?;
    let interval = seconds(fields, words::INTERVAL)?.filter(|interval| !interval.is_zero());
    let Some(interval) = interval else {
        let (starts, interval) = (words::MAX_STARTS, words::INTERVAL);
        return Err(Refusal::new(Code::BadField, format!("{starts} needs {interval}, in seconds, more than 0")));
    };
    Ok(Some(Some(Pace { starts: count, interval })))
}

/// Writes the settings of a gate.
fn write_settings(settings: &GateSettings, out: &mut ObjectWriter<'_>) {
    out.maybe(words::MAX_RUNNING, settings.running_max);
    if let Some(pace) = settings.pace {
        out.literal(words::MAX_STARTS, pace.starts);
        out.scalar(words::INTERVAL, &Scalar::from(pace.interval.as_secs_f64()));
    }
    out.maybe(words::CLOSED_UNTIL, settings.closed_until);
}

/// Writes the state of a gate.
pub(in crate::wire) fn write(view: &GateView, out: &mut ObjectWriter<'_>) {
    out.text(words::GATE, view.name.as_str());
    out.text(words::STATUS, verdict(view.verdict));
    out.literal(words::RUNNING, view.running);
    out.literal(words::WAITING, view.waiting);
    write_settings(&view.settings, out);
}

const fn verdict(verdict: GateVerdict) -> &'static str {
    match verdict {
        GateVerdict::Open => "OPEN",
        GateVerdict::Full => "FULL",
        GateVerdict::Paced => "PACED",
        GateVerdict::Closed(_) => CLOSED,
    }
}

/// The settings in stored form: a flat object.
#[must_use]
pub fn encode_settings(settings: &GateSettings) -> String {
    let mut out = Vec::new();
    let mut writer = ObjectWriter::new(&mut out);
    write_settings(settings, &mut writer);
    writer.end();
    // Only names and numbers were written.
    String::from_utf8(out).unwrap_or_default()
}

/// Reads settings as written by [`encode_settings`].
#[must_use]
pub fn decode_settings(text: &str) -> Option<GateSettings> {
    let fields = json::parse(text.as_bytes(), &FieldLimits::TRUSTED).ok()?;
    let mut settings = GateSettings::default();
    change(&fields).ok()?.apply(&mut settings, Wall::default());
    Some(settings)
}

view! {
    /// A gate.
    GateRow {
        /// Name of the gate.
        name: &str = |fields| fields.text(words::GATE).unwrap_or_default();
        /// The word for its state: open, full or closed.
        status: &str = |fields| fields.text(words::STATUS).unwrap_or_default();
        /// Number of tasks that have passed it and are with agents.
        running: u64 = |fields| fields.count(words::RUNNING).unwrap_or_default();
        /// The maximum of that number.
        running_max: Option<u64> = |fields| fields.count(words::MAX_RUNNING);
        /// Number of waiting tasks that must pass the gate.
        waiting: u64 = |fields| fields.count(words::WAITING).unwrap_or_default();
        /// The time before which no task passes.
        closed_until: Option<Wall> = |fields| fields.moment(words::CLOSED_UNTIL);
    }
}

impl GateRow {
    /// Whether it is closed until a moment.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.status() == CLOSED
    }

    /// The maximum number of starts, and the time in which they are counted.
    #[must_use]
    pub fn pace(&self) -> Option<(u64, Duration)> {
        let interval = self.0.get(words::INTERVAL)?.as_f64()?;
        Some((self.0.count(words::MAX_STARTS)?, Duration::try_from_secs_f64(interval).ok()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_read_back_as_themselves() {
        let settings = GateSettings {
            running_max: Some(0),
            pace: Some(Pace { starts: 3, interval: Duration::from_millis(1500) }),
            closed_until: Some(Wall::from_micros(1_795_239_916_024_113)),
        };
        assert_eq!(decode_settings(&encode_settings(&settings)), Some(settings));
        assert_eq!(decode_settings("{}"), Some(GateSettings::default()));
    }

    #[test]
    fn null_takes_a_limit_away_and_what_is_not_sent_stays() {
        let fields = Fields::new().with(words::MAX_RUNNING, Scalar::Null).with(words::CLOSED_UNTIL, 0u32);
        let mut settings = GateSettings {
            running_max: Some(3),
            pace: Some(Pace { starts: 1, interval: Duration::from_secs(1) }),
            closed_until: Some(Wall::from_micros(5)),
        };
        change(&fields).unwrap().apply(&mut settings, Wall::default());
        assert_eq!((settings.running_max, settings.closed_until), (None, None));
        assert!(settings.pace.is_some());
        let now = Wall::from_micros(1_795_239_916_000_000);
        change(&Fields::new().with(words::CLOSED_UNTIL, "+2.5")).unwrap().apply(&mut settings, now);
        assert_eq!(settings.closed_until, Some(now + Duration::from_millis(2500)), "by the clock of the controller");
        assert!(change(&Fields::new().with(words::CLOSED_UNTIL, "+x")).is_err());
        assert!(change(&Fields::new().with(words::MAX_STARTS, 5u32)).is_err());
        assert!(change(&Fields::new().with(words::MAX_STARTS, 0u32).with(words::INTERVAL, 1u32)).is_err());
        assert!(change(&Fields::new().with(words::INTERVAL, 1u32)).is_err());
    }
}
