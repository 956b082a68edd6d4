//! Tests of the signs in outputs.

use super::*;
use jiff::Timestamp;
use jiff::tz::TimeZone;

/// 2026-01-10 22:30 in UTC.
const NOW: &str = "2026-01-10T22:30:00Z";

fn zones(name: Option<&str>) -> TimeZone {
    name.and_then(|name| TimeZone::get(name).ok()).unwrap_or(TimeZone::UTC)
}

fn read(exit: i32, out: &str, err: &str) -> Option<Sign> {
    let now: Timestamp = NOW.parse().unwrap();
    let now = Wall::from_micros(u64::try_from(now.as_microsecond()).unwrap());
    Signs::new(&[]).unwrap().read(&Said { exit: ExitCode(exit), out, err }, now, &zones)
}

/// The limit in an output of a failed run, in seconds; `None` if no time is named.
#[track_caller]
fn limit(out: &str) -> Option<u64> {
    match read(1, out, "") {
        Some(Sign::Limited { retry_after, .. }) => retry_after.map(|time| time.as_secs()),
        other => panic!("{out}: {other:?}"),
    }
}

#[test]
fn the_limits_of_the_known_services_are_seen_with_their_reset_time() {
    let epoch = NOW.parse::<Timestamp>().unwrap().as_second() + 500;
    let hour = 3600;
    for (out, seconds) in [
        (format!("Claude AI usage limit reached|{epoch}"), Some(500)),
        (format!("Claude AI usage limit reached|{epoch}000"), Some(500)),
        ("5-hour limit reached ∙ resets 3am".into(), Some(4 * hour + 1800)),
        ("5-hour limit reached ∙ resets 11pm".into(), Some(1800)),
        // 23:15 in UTC.
        ("You've hit your limit · resets 12:15am (Europe/Berlin)".into(), Some(2700)),
        ("You’ve hit your session limit · resets 11:30pm (UTC)".into(), Some(hour)),
        ("Weekly limit reached ∙ resets Jan 12, 5pm".into(), Some(42 * hour + 1800)),
        ("Session limit reached".into(), None),
        ("API Error: 429 {\"type\":\"error\",\"error\":{\"type\":\"rate_limit_error\"}}".into(), None),
        ("ERROR: You've hit your usage limit. Upgrade or try again in 2 days 3 hours 5 minutes.".into(), Some(51 * hour + 300)),
        ("You've hit your usage limit. To get more access now, try again in 2h 5m".into(), Some(2 * hour + 300)),
        ("You've hit your usage limit, try again at 11:45 PM.".into(), Some(hour + 900)),
        ("Rate limit reached for gpt-5 in organization x. Please try again in 1.2s.".into(), Some(1)),
        ("{\"error\":{\"type\":\"usage_limit_reached\",\"message\":\"limit\",\"resets_in_seconds\":3600}}".into(), Some(3600)),
        ("exceeded retry limit, last status: 429 Too Many Requests".into(), None),
        ("[API Error: You have exhausted your capacity on this model. Your quota will reset after 2h13m5s.]".into(), Some(7985)),
        ("Quota exceeded for quota metric 'Gemini 2.5 Pro Requests'. Please retry in 34.07s".into(), Some(34)),
        ("{\"error\":{\"code\":429,\"status\":\"RESOURCE_EXHAUSTED\",\"message\":\"m\",\"details\":[{\"retryDelay\":\"34s\"}]}}".into(), Some(34)),
        ("usage limit reached, resets 2026-01-10T23:00:00Z".into(), Some(1800)),
        ("usage limit reached, resets 2026-01-11T00:00:00+01:00".into(), Some(1800)),
        ("usage limit reached until 2026-01-10 23:00".into(), Some(1800)),
        ("usage limit reached, retry-after: 90".into(), Some(90)),
        ("API Error: Rate limit reached".into(), None),
        ("Error: rate limit exceeded, retry-after: 90".into(), Some(90)),
        ("HTTP 429\nRetry-After: 90".into(), Some(90)),
        ("You have hit your usage limit. Try again in 2 hours.".into(), Some(2 * hour)),
        ("\x1b[31mYou've hit your limit · \x1b[1mresets 11pm\x1b[0m".into(), Some(1800)),
        // Far away, and in the past.
        ("usage limit reached, resets 2027-01-01T00:00:00Z".into(), Some(RETRY_AFTER_MAX.as_secs())),
        ("Claude AI usage limit reached|1700000000".into(), None),
    ] {
        assert_eq!(limit(&out), seconds, "{out}");
    }
}

#[test]
fn a_limit_in_the_known_json_form_is_seen_whatever_the_exit_code() {
    let claude = |is_error: bool, text: &str| {
        format!(
            "{{\"type\":\"result\",\"subtype\":\"success\",\"is_error\":{is_error},\"result\":\"{text}\",\"total_cost_usd\":0}}"
        )
    };
    let limit = "Claude AI usage limit reached|1768086000";
    for exit in [0, 1] {
        for out in [claude(true, limit), format!("{{\"type\":\"system\"}}\n{}\n", claude(true, limit))] {
            let Some(Sign::Limited { retry_after, text }) = read(exit, &out, "") else { panic!("{out}") };
            assert_eq!((retry_after, text.as_str()), (Some(Duration::from_secs(1800)), limit));
        }
        assert_eq!(read(exit, &claude(false, limit), ""), None, "an answer with exit code {exit}");
        let gemini = "{\"error\":{\"type\":\"Error\",\"message\":\"Quota exceeded for x\",\"code\":1}}";
        assert!(matches!(read(exit, "", gemini), Some(Sign::Limited { .. })));
        let codex = "{\"type\":\"turn.failed\",\"error\":{\"message\":\"You've hit your usage limit.\"}}";
        assert!(matches!(read(exit, codex, ""), Some(Sign::Limited { .. })));
    }
}

#[test]
fn an_answer_about_limits_is_an_answer() {
    let limit = "Claude AI usage limit reached|1768086000\n";
    assert_eq!(read(0, limit, limit), None, "it has succeeded");
    let essay = format!("{limit}{}", "The error above appears when a quota is used up.\nIt is harmless.\n".repeat(3));
    assert_eq!(read(1, &essay, "segmentation fault\n"), None, "the run has failed long after that line");
    let paragraph = format!("{} usage limit reached", "word ".repeat(200));
    assert_eq!(read(1, &paragraph, ""), None, "a message is short");
    let json = "{\"response\":\"You've hit your usage limit means that…\",\"stats\":{}}";
    assert_eq!(read(1, json, "Killed"), None);
    for failure in [
        "error: test rate_limit_test failed: expected 429 Too Many Requests",
        "I wrote a handler that prints 'Claude AI usage limit reached' when",
        "The API doc explains that a usage limit reached error returns 429.",
        "exit",
        "cannot find the limit of x",
        "speed limit reached 50",
        "line 429 has too many words",
    ] {
        assert_eq!(read(1, failure, failure), None, "{failure}");
    }
}

#[test]
fn a_state_that_only_a_person_can_change_is_a_trouble() {
    for text in [
        "Invalid API key · Please run /login",
        "API Error: 401 {\"error\":{\"type\":\"authentication_error\",\"message\":\"OAuth token has expired.\"}}",
        "Credit balance is too low",
        "tee: x: No space left on device",
        "Error: Not logged in",
    ] {
        assert_eq!(read(1, "", text), Some(Sign::Trouble(text.to_owned())), "{text}");
        assert_eq!(read(0, text, text), None, "{text}");
    }
}

#[test]
fn patterns_of_the_user_replace_the_built_in_ones() {
    let now = Wall::from_micros(0);
    let read = |patterns: &[&str], text: &str| {
        let patterns: Vec<String> = patterns.iter().map(|pattern| (*pattern).to_owned()).collect();
        Signs::new(&patterns).unwrap().read(&Said { exit: ExitCode(1), out: text, err: "" }, now, &zones)
    };
    let limited = |sign: Option<Sign>| matches!(sign, Some(Sign::Limited { .. }));
    assert!(limited(read(&["over quota", "slow down"], "please slow down")));
    assert!(!limited(read(&["over quota"], "usage limit reached")));
    assert!(!limited(read(&[""], "usage limit reached")));
    assert!(Signs::new(&["(".to_owned()]).unwrap_err().contains("\"(\""));
}
