//! `key=value` and `key:=JSON` on the command line.

use clap::builder::{OsStringValueParser, TypedValueParser};

use api::wire::requests::submit::is_reserved;
use base::{Fields, Scalar, json, os_text};

use term::exit::Failure;

/// Reads arguments, in the form of [`base::os_text()`].
pub(super) fn parser() -> impl TypedValueParser<Value = Parameter> {
    os_argument().try_map(|argument| parse(&argument))
}

/// A parser for one argument in that form, as text.
pub(super) fn os_argument() -> impl TypedValueParser<Value = String> {
    OsStringValueParser::new().map(|argument| os_text(&argument))
}

/// The syntax of parameters, for --help.
pub(super) const HELP: &str = "key=value sends a text; key:=JSON sends a number, true, false, null or a quoted text";

/// One parameter.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Parameter {
    name: String,
    value: Scalar,
}

/// Reads one argument.
pub(super) fn parse(text: &str) -> Result<Parameter, String> {
    let Some((name, value)) = text.split_once('=') else {
        return Err(format!("it has no '='; {HELP}"));
    };
    let (name, value) = match name.strip_suffix(':') {
        Some(name) => {
            let value = json::scalar(value).map_err(|why| format!("{why}; a text is sent with key=value"))?;
            (name, value)
        }
        None => (name, Scalar::from(value)),
    };
    if name.is_empty() {
        return Err(format!("it has no key before the '='; {HELP}"));
    }
    Ok(Parameter { name: name.to_owned(), value })
}

/// Combines the parameters of a task.
pub(super) fn collect(parameters: &[Parameter]) -> Result<Fields, Failure> {
    if let Some(Parameter { name, .. }) = parameters.iter().find(|parameter| is_reserved(&parameter.name)) {
        return Err(Failure::usage(format!("{name} is not a parameter: the command sets it itself")));
    }
    filter(parameters)
}

/// Combines the fields by which tasks are selected.
pub(super) fn filter(parameters: &[Parameter]) -> Result<Fields, Failure> {
    let mut fields = Fields::new();
    for Parameter { name, value } in parameters {
        if fields.get(name).is_some() {
            return Err(Failure::usage(format!("{name} occurs twice")));
        }
        fields.set(name, value.clone());
    }
    Ok(fields)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> (String, Scalar) {
        let parameter = parse(text).unwrap();
        (parameter.name, parameter.value)
    }

    #[test]
    fn the_first_equals_sign_ends_the_key() {
        assert_eq!(parsed("a=b=c"), ("a".into(), "b=c".into()));
        assert_eq!(parsed("a="), ("a".into(), "".into()));
        assert_eq!(parsed("n=5"), ("n".into(), "5".into()));
        assert_eq!(parsed("a b=:= "), ("a b".into(), ":= ".into()));
    }

    #[test]
    fn a_colon_sends_json() {
        assert_eq!(parsed("n:=5"), ("n".into(), 5u32.into()));
        assert_eq!(parsed("n:=\"5\""), ("n".into(), "5".into()));
        assert_eq!(parsed("n:=true"), ("n".into(), true.into()));
        assert_eq!(parsed("n:=null"), ("n".into(), Scalar::Null));
        assert_eq!(parsed("n:=-0.5"), ("n".into(), Scalar::from(-0.5)));
    }

    #[test]
    fn what_cannot_be_sent_is_refused_with_a_way_out() {
        for (text, part) in [
            ("a", "no '='"),
            ("=b", "no key"),
            (":=1", "no key"),
            ("a:=x", "not JSON"),
            ("a:=", "not JSON"),
            ("a:=[1]", "nested"),
            ("a:={}", "nested"),
            ("a:=18446744073709551616", "18446744073709551616, which needs more than 64 bits"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(part) && error.contains("key"), "{text}: {error}");
        }
    }

    #[test]
    fn each_parameter_is_there_once() {
        let parameters = |texts: &[&str]| texts.iter().map(|text| parse(text).unwrap()).collect::<Vec<_>>();
        assert_eq!(collect(&parameters(&["a=1", "b:=2"])), Ok(Fields::new().with("a", "1").with("b", 2u32)));
        assert_eq!(collect(&parameters(&["a=1", "a=2"])).unwrap_err().exit, 2);
    }
}
