//! The address to which a task is pushed: `__ADDRESS__`, and `__ADDRESS_KEY__` for a receiver that requires CURVE.

use super::rules::Rules;
use super::typed::bad;
use base::code::{Code, Refusal};
use base::{Fields, PublicKey, PushAddress, Scalar, words};

/// Reads both fields, in the same way for a submit and a stored task, so that a task accepted with a key is never pushed without
/// it.
///
/// # Errors
/// -1007 when one of them has an invalid value, or a key cannot be used.
pub(super) fn read(fields: &Fields, rules: &Rules) -> Result<Option<PushAddress>, Refusal> {
    let address = match fields.get(words::ADDRESS) {
        None => None,
        Some(value) => Some(address(value, rules)?),
    };
    let Some(value) = fields.get(words::ADDRESS_KEY) else { return Ok(address) };
    let key = value.as_text().and_then(|text| PublicKey::parse(text).ok());
    let key = key.ok_or_else(|| {
        bad(
            words::ADDRESS_KEY,
            value,
            "the public key of the receiver, which is 40 characters of Z85; `llts keys new` makes one",
        )
    })?;
    let refused = |why: String| Refusal::new(Code::BadField, format!("{} is {key}, {why}", words::ADDRESS_KEY));
    let Some(address) = address else {
        let address = words::ADDRESS;
        return Err(refused(format!("but there is no {address} to push to; set the address as well, or omit the key")));
    };
    Ok(Some(address.with_key(key)))
}

fn address(value: &Scalar, rules: &Rules) -> Result<PushAddress, Refusal> {
    let text = value.as_text().ok_or_else(|| bad(words::ADDRESS, value, "a text such as tcp://127.0.0.1:5000"))?;
    let address = PushAddress::parse(text, &rules.addresses);
    address.map_err(|error| Refusal::new(Code::BadField, format!("{} {error}", words::ADDRESS)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "Yne@$w-vo<fVvi]a<NY6T1ed:M$fCG*[IaLV{hID";

    fn fields(key: impl Into<Scalar>) -> Fields {
        Fields::new().with(words::ADDRESS, "tcp://127.0.0.1:5000").with(words::ADDRESS_KEY, key)
    }

    fn rules() -> Rules {
        Rules::of_history()
    }

    #[test]
    fn the_key_is_a_part_of_the_address() {
        let read = |fields: &Fields| read(fields, &rules()).unwrap();
        let keyed = read(&fields(KEY)).unwrap();
        let plain = read(&Fields::new().with(words::ADDRESS, "tcp://127.0.0.1:5000")).unwrap();
        let other = read(&fields("rq:rM>}U?@Lns47E1%kR.o@n%FcmmsL/@{H8]yf7")).unwrap();
        assert_eq!(keyed.key(), PublicKey::parse(KEY).ok());
        assert_eq!(plain.key(), None);
        assert!(keyed != plain && keyed != other && plain != other);
        assert_eq!(Some(&keyed), read(&fields(KEY)).as_ref());
        assert_eq!(read(&Fields::new()), None);
    }

    #[test]
    fn a_bad_key_is_refused_with_its_value_and_what_to_do() {
        for value in [
            Scalar::from(""),
            Scalar::from("short"),
            Scalar::from(&*format!("{KEY}x")),
            Scalar::from(&*KEY.replace('@', "\"")),
            Scalar::from(&*"é".repeat(20)),
            Scalar::from(&*"#".repeat(40)),
            Scalar::from(5u32),
            Scalar::from(true),
            Scalar::Null,
        ] {
            let refusal = read(&fields(value.clone()), &rules()).unwrap_err();
            assert_eq!(refusal.code, Code::BadField);
            let beginning: String = value.to_string().chars().take(3).collect();
            for part in [words::ADDRESS_KEY, &beginning, "40 characters of Z85", "llts keys new"] {
                assert!(refusal.message.contains(part), "{value:?}: {}", refusal.message);
            }
        }
    }

    #[test]
    fn a_key_without_an_address_is_refused() {
        let alone = read(&Fields::new().with(words::ADDRESS_KEY, KEY), &rules()).unwrap_err();
        assert_eq!(alone.code, Code::BadField);
        assert!(alone.message.contains("no __ADDRESS__") && alone.message.contains(KEY), "{}", alone.message);
    }
}
