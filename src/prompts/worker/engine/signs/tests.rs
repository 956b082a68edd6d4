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
    Signs::new(None).unwrap().read(&OutputEnds { exit: ExitCode(exit), out, err }, now, &zones)
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
        let codex = "{\"type\":\"turn.failed\",\"error\":{\"message\":\"You've hit your usage limit.\"}}";
        assert!(matches!(read(exit, codex, ""), Some(Sign::Limited { .. })));
    }
}

#[test]
fn a_used_up_quota_is_a_limit_if_it_comes_back_by_itself() {
    let text = "You exceeded your current quota, please check your plan and billing details. Please retry in 53.2s.";
    let json = |text: &str, code: u16| {
        format!(r#"{{"session_id":"x","error":{{"type":"Error","message":"{text}","code":{code}}}}}"#)
    };
    let soon = Some(Duration::from_secs_f64(53.2));
    let tagged = format!("[429] {text}");
    for (out, err, after) in [
        (json(text, 429), String::new(), soon),
        (String::new(), json(&tagged, 429), soon),
        (String::new(), json(&tagged, 1), soon),
        (String::new(), format!("Error: {text}"), soon),
        (json("slow down", 429), String::new(), None),
        (
            "You're out of extra usage · resets 5pm (UTC)".to_owned(),
            String::new(),
            Some(Duration::from_secs(18 * 3600 + 1800)),
        ),
    ] {
        let Some(Sign::Limited { retry_after, .. }) = read(1, &out, &err) else { panic!("{out}{err}") };
        assert_eq!(retry_after, after, "{out}{err}");
    }
    let codex = "ERROR: Quota exceeded. Check your plan and billing details.";
    assert_eq!(read(1, "", codex), Some(Sign::Trouble(codex.to_owned())));
    assert_eq!(read(1, &json("slow down", 500), ""), None);
}

#[test]
fn a_part_of_an_answer_that_mentions_a_limit_is_no_limit() {
    let turns = r#"{"type":"result","subtype":"error_max_turns","is_error":true,"result":"Claude AI usage limit reached|1768086000"}"#;
    let pretty = turns.replace(',', ",\n");
    for out in [turns, &format!("[{turns}]"), &pretty] {
        assert_eq!((read(0, out, ""), read(1, out, "")), (None, None), "{out}");
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
        Signs::new(None).unwrap().limited_by(&patterns).unwrap().read(
            &OutputEnds { exit: ExitCode(1), out: text, err: "" },
            now,
            &zones,
        )
    };
    let limited = |sign: Option<Sign>| matches!(sign, Some(Sign::Limited { .. }));
    assert!(limited(read(&["over quota", "slow down"], "please slow down")));
    assert!(!limited(read(&["over quota"], "usage limit reached")));
    assert!(!limited(read(&[""], "usage limit reached")));
    assert!(Signs::new(None).unwrap().limited_by(&["(".to_owned()]).unwrap_err().contains("\"(\""));
}

#[test]
fn wordings_of_the_user_add_to_the_built_in_ones() {
    let own = "limits = ['slow down']\n[oracle]\ntroubles = ['no such oracle']\n";
    let signs = Signs::new(Some(own)).unwrap();
    let read =
        |text: &str| signs.read(&OutputEnds { exit: ExitCode(1), out: text, err: "" }, Wall::from_micros(0), &zones);
    assert!(matches!(read("please slow down"), Some(Sign::Limited { .. })));
    assert!(matches!(read("usage limit reached"), Some(Sign::Limited { .. })));
    assert_eq!(read("no such oracle"), Some(Sign::Trouble("no such oracle".into())));
    assert!(
        ["claude", "codex", "gemini", "oracle"].into_iter().all(|program| signs.has_wording_of(program))
            && !signs.has_wording_of("sh")
    );
    for (bad, part) in
        [("limits = 1", "limits"), ("[x]\nlimit = []", "unknown field `limit`"), ("limits = ['(']", "\"(\"")]
    {
        let why = Signs::new(Some(bad)).unwrap_err();
        assert!(why.contains(part), "{bad}: {why}");
    }
}

/// The outputs of the known command lines, as far as they matter here.
mod samples {
    pub(super) const CLAUDE_LIMIT: &str = r#"{"type":"result","subtype":"success","is_error":true,"duration_ms":731,"duration_api_ms":0,"num_turns":1,"result":"Claude AI usage limit reached|1768086000","session_id":"2d1a5e0c","total_cost_usd":0,"usage":{"input_tokens":0,"output_tokens":0}}"#;
    pub(super) const CLAUDE_OVERLOADED: &str = r#"{"type":"result","subtype":"error_during_execution","is_error":true,"num_turns":3,"result":"API Error: 529 {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}","total_cost_usd":0.01}"#;
    pub(super) const CLAUDE_QUOTES: &str = r#"{"type":"result","subtype":"success","is_error":false,"duration_ms":9120,"num_turns":1,"result":"When the CLI prints:\n\nClaude AI usage limit reached|1768086000\n\nwait for the reset. The API says {\"error\":{\"type\":\"rate_limit_error\"}}.","session_id":"2d1a5e0c","total_cost_usd":0.0731935,"usage":{"input_tokens":4,"output_tokens":112}}"#;
    pub(super) const CLAUDE_TURNS: &str = r#"{"type":"result","subtype":"error_max_turns","is_error":true,"num_turns":10,"session_id":"x","total_cost_usd":0.4}"#;
    pub(super) const CODEX_LIMIT: &str = r#"{"type":"thread.started","thread_id":"0199a213"}
{"type":"turn.started"}
{"type":"error","message":"You've hit your usage limit. Upgrade to Pro or try again in 2 hours 5 minutes."}
{"type":"turn.failed","error":{"message":"You've hit your usage limit. Upgrade to Pro or try again in 2 hours 5 minutes."}}
"#;
    pub(super) const CODEX_QUOTES: &str = r#"{"type":"thread.started","thread_id":"0199a213"}
{"type":"item.completed","item":{"id":"item_0","type":"agent_message","text":"{\"error\":{\"type\":\"usage_limit_reached\"}} means: status: 429 Too Many Requests"}}
{"type":"turn.completed","usage":{"input_tokens":24763,"cached_input_tokens":24448,"output_tokens":122}}
"#;
    /// The last message alone, which the prompt has asked to be JSON.
    pub(super) const CODEX_ANSWER: &str =
        r#"{"error":{"type":"usage_limit_reached","message":"You've hit your usage limit.","resets_in_seconds":3600}}"#;
    pub(super) const GEMINI_LIMIT: &str = "{\n  \"session_id\": \"a\",\n  \"error\": {\n    \"type\": \"Error\",\n    \"message\": \"You have exhausted your capacity on this model. Your quota will reset after 2h13m5s.\",\n    \"code\": 1\n  }\n}\n";
    pub(super) const GEMINI_QUOTES: &str = "{\n  \"response\": \"RESOURCE_EXHAUSTED means:\\nQuota exceeded for quota metric\",\n  \"stats\": {\n    \"models\": {\"gemini-2.5-pro\": {\"tokens\": {\"total\": 812}}}\n  }\n}\n";
}

#[test]
fn real_limits_of_the_known_command_lines_are_seen_in_their_json() {
    for (exit, out, err, seconds) in [
        (0, samples::CLAUDE_LIMIT, "", Some(1800)),
        (1, samples::CLAUDE_LIMIT, "", Some(1800)),
        (1, samples::CLAUDE_OVERLOADED, "", None),
        (0, samples::CODEX_LIMIT, "", Some(7500)),
        (1, samples::CODEX_LIMIT, "", Some(7500)),
        (1, "", samples::GEMINI_LIMIT, Some(7985)),
        (1, samples::GEMINI_LIMIT, "", Some(7985)),
    ] {
        let Some(Sign::Limited { retry_after, .. }) = read(exit, out, err) else { panic!("{exit}: {out}{err}") };
        assert_eq!(retry_after.map(|time| time.as_secs()), seconds, "{out}{err}");
    }
}

#[test]
fn an_answer_in_json_that_quotes_a_limit_is_no_limit() {
    for (exit, out, err) in [
        (0, samples::CLAUDE_QUOTES, ""),
        (1, samples::CLAUDE_QUOTES, ""),
        (1, samples::CLAUDE_TURNS, ""),
        (0, samples::CODEX_QUOTES, ""),
        (1, samples::CODEX_QUOTES, "Killed"),
        (0, samples::CODEX_ANSWER, ""),
        (0, samples::GEMINI_QUOTES, ""),
        (1, samples::GEMINI_QUOTES, "Killed"),
        // An error that was tried again, before the answer.
        (0, samples::GEMINI_QUOTES, samples::GEMINI_LIMIT),
    ] {
        assert_eq!(read(exit, out, err), None, "{exit}: {out}{err}");
    }
}

#[test]
fn a_cost_is_a_price_and_no_number_of_tokens() {
    for (out, cost) in [
        (samples::CLAUDE_QUOTES, Some(0.073_194)),
        (samples::CLAUDE_LIMIT, Some(0.0)),
        (samples::CLAUDE_TURNS, Some(0.4)),
        (samples::CODEX_QUOTES, None),
        (samples::GEMINI_QUOTES, None),
        (r#"{"type":"result","total_cost_usd":-1}"#, None),
        (r#"{"type":"result","total_cost_usd":"1"}"#, None),
        (r#"{"total_cost_usd":1}"#, None),
        ("it has cost total_cost_usd: 5", None),
    ] {
        assert_eq!(super::cost(out).map(Usd::dollars), cost, "{out}");
    }
    let stream = format!("{{\"type\":\"system\"}}\n{}\n", samples::CLAUDE_QUOTES);
    assert_eq!(super::cost(&stream), Usd::from_dollars(0.073_193_5));
}
