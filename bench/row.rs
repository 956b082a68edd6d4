//! The result of a case: one line of the table.

use super::Case;
use super::samples::Spread;

/// The unit of the numbers of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    /// Seconds.
    Seconds,
    /// Operations per second.
    PerSecond,
    /// Bytes.
    Bytes,
    /// A share of one processor core.
    Cores,
    /// A ratio of two numbers of the same unit.
    Ratio,
}

impl Unit {
    /// Its identifier for programs.
    #[must_use]
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Seconds => "seconds",
            Self::PerSecond => "per_second",
            Self::Bytes => "bytes",
            Self::Cores => "cores",
            Self::Ratio => "ratio",
        }
    }

    /// A number with this unit, for people.
    #[must_use]
    pub(crate) fn show(self, value: f64) -> String {
        match self {
            Self::Seconds if value.abs() < 1e-3 => format!("{:.0} us", value * 1e6),
            Self::Seconds if value.abs() < 1.0 => format!("{:.2} ms", value * 1e3),
            Self::Seconds => format!("{value:.2} s"),
            Self::PerSecond if value < 100.0 => format!("{value:.1}/s"),
            Self::PerSecond => format!("{value:.0}/s"),
            Self::Bytes if value.abs() < 1e4 => format!("{value:.0} B"),
            Self::Bytes => format!("{:.1} MB", value / 1e6),
            Self::Cores => format!("{:.2} %", value * 100.0),
            Self::Ratio => format!("{value:.2}"),
        }
    }
}

/// The rival of a measurement.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Rival {
    /// Its name.
    pub(crate) name: String,
    /// Its numbers, from the same rounds.
    pub(crate) spread: Spread,
}

/// The goal of a measurement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Goal {
    /// As text.
    pub(crate) text: String,
    /// Whether it is reached.
    pub(crate) is_met: bool,
}

/// A measured value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Measured {
    /// The description of the value.
    pub(crate) what: String,
    /// The unit of all numbers, except for the ratio.
    pub(crate) unit: Unit,
    /// The numbers.
    pub(crate) spread: Spread,
    /// The numbers of the rival.
    pub(crate) rival: Option<Rival>,
    /// The median divided by the median of the rival.
    pub(crate) ratio: Option<f64>,
    /// The goal, if there is one.
    pub(crate) goal: Option<Goal>,
}

/// A line of the table.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Row {
    /// The value was measured.
    Measured(Case, Measured),
    /// The value was not measured, because this machine lacks something.
    Skipped(Case, String),
    /// The measurement failed.
    Failed(Case, String),
}

impl Row {
    /// The case of the row.
    #[must_use]
    pub(crate) const fn case(&self) -> Case {
        match self {
            Self::Measured(case, _) | Self::Skipped(case, _) | Self::Failed(case, _) => *case,
        }
    }
}

impl Measured {
    pub(crate) fn new(what: impl Into<String>, unit: Unit, rounds: &[f64]) -> Self {
        Self { what: what.into(), unit, spread: Spread::of(rounds), rival: None, ratio: None, goal: None }
    }

    pub(crate) fn against(mut self, name: impl Into<String>, rounds: &[f64]) -> Self {
        let spread = Spread::of(rounds);
        self.ratio = (spread.median != 0.0).then(|| self.spread.median / spread.median);
        self.rival = Some(Rival { name: name.into(), spread });
        self
    }

    pub(crate) fn goal(mut self, text: impl Into<String>, is_met: impl FnOnce(&Self) -> bool) -> Self {
        self.goal = Some(Goal { text: text.into(), is_met: is_met(&self) });
        self
    }

    pub(crate) fn goal_ratio_at_least(self, least: f64) -> Self {
        self.goal(format!("ratio at least {least}"), |row| row.ratio.is_some_and(|ratio| ratio >= least))
    }

    pub(crate) fn goal_ratio_at_most(self, most: f64) -> Self {
        self.goal(format!("ratio at most {most}"), |row| row.ratio.is_some_and(|ratio| ratio <= most))
    }

    pub(crate) fn goal_below(self, limit: f64) -> Self {
        let text = format!("below {}", self.unit.show(limit));
        self.goal(text, |row| row.spread.median < limit)
    }

    /// Whether the median exceeds that of the rival by at most so much.
    pub(crate) fn goal_beyond_rival(self, limit: f64) -> Self {
        let text = format!("within {} of it", self.unit.show(limit));
        self.goal(text, |row| row.beyond_rival().is_some_and(|beyond| beyond <= limit))
    }

    /// The excess of the median over that of the rival.
    #[must_use]
    pub(crate) fn beyond_rival(&self) -> Option<f64> {
        self.rival.as_ref().map(|rival| self.spread.median - rival.spread.median)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_goal_looks_at_medians() {
        let row = || Measured::new("x", Unit::Seconds, &[1.0, 9.0, 2.0]).against("y", &[4.0, 4.0, 1.0]);
        assert_eq!((row().ratio, row().beyond_rival()), (Some(0.5), Some(-2.0)));
        let met = |row: Measured| row.goal.is_some_and(|goal| goal.is_met);
        assert!(met(row().goal_ratio_at_least(0.5)) && !met(row().goal_ratio_at_least(0.51)));
        assert!(met(row().goal_ratio_at_most(0.5)) && !met(row().goal_ratio_at_most(0.49)));
        assert!(met(row().goal_below(2.1)) && !met(row().goal_below(2.0)));
        assert!(met(row().goal_beyond_rival(-2.0)) && !met(row().goal_beyond_rival(-2.5)));
    }

    #[test]
    fn a_rival_of_nothing_makes_no_ratio() {
        let row = Measured::new("x", Unit::Seconds, &[1.0]).against("y", &[]).goal_ratio_at_least(0.1);
        assert_eq!(row.ratio, None);
        assert!(!row.goal.unwrap().is_met);
    }

    #[test]
    fn numbers_are_shown_in_the_unit_that_fits() {
        let shown =
            [(Unit::Seconds, 0.000_25), (Unit::Seconds, 0.0125), (Unit::Seconds, 2.0), (Unit::PerSecond, 1500.4)];
        assert_eq!(shown.map(|(unit, value)| unit.show(value)), ["250 us", "12.50 ms", "2.00 s", "1500/s"]);
        let shown = [(Unit::Bytes, 700.0), (Unit::Bytes, 1.5e8), (Unit::Cores, 0.005), (Unit::Ratio, 1.25)];
        assert_eq!(shown.map(|(unit, value)| unit.show(value)), ["700 B", "150.0 MB", "0.50 %", "1.25"]);
    }
}
