//! What a run tells about how far it is.

use super::*;
use base::Progress;

fn told(effects: &[Effect]) -> Vec<f64> {
    let fraction = |effect: &Effect| match effect {
        Effect::Send(FromAgent::Report(report)) => report.progress.as_ref().map(|progress| progress.fraction()),
        _ => None,
    };
    effects.iter().filter_map(fraction).collect()
}

/// The moments of the looks within a time, since its begin.
fn looks(host: &mut Host, within: Duration) -> Vec<Duration> {
    let (begin, end) = (host.now.mono, host.now.mono + within);
    let mut looks = Vec::new();
    while let Some((at, _)) = host.slot.poll_timeout().filter(|(at, _)| *at <= end) {
        host.now.mono = at;
        host.slot.handle_timeout(host.now);
        while let Some(effect) = host.slot.poll_effect(host.now) {
            if effect == Effect::LookAtProgress {
                looks.push(at.since(begin));
            }
        }
    }
    host.now.mono = end;
    looks
}

#[test]
fn a_run_is_looked_at_soon_after_its_start_and_after_a_change() {
    let mut host = Host::running();
    let ms = Duration::from_millis;
    assert_eq!(looks(&mut host, ms(1_000)), [ms(250)]);
    // However often the file changes, the next look comes after a pause.
    host.slot.handle_progress_change(host.now);
    assert_eq!(looks(&mut host, ms(499)), []);
    assert_eq!(looks(&mut host, ms(1)), [ms(1)]);
    host.end(0);
    assert_eq!(looks(&mut host, INTERVAL * 3), [], "no run is left");
}

#[test]
fn news_are_told_once_and_only_while_it_runs() {
    let mut host = Host::running();
    let progress = Progress::new(0.4, "tile 12 of 30");
    host.slot.handle_progress(host.now, progress.clone());
    assert_eq!(told(&host.pass(Duration::from_secs(1))), [0.4]);
    host.slot.handle_progress(host.now, progress);
    host.slot.handle_progress(host.now, None);
    assert_eq!(told(&host.settle()), Vec::<f64>::new());
    assert_eq!(told(&host.end(0)), Vec::<f64>::new());
    host.slot.handle_progress(host.now, Progress::new(0.5, ""));
    assert_eq!(told(&host.settle()), Vec::<f64>::new());
}
