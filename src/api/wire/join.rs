//! How a machine hands over its public key: one request to the machine that has invited it, and one answer.

use base::json::FieldLimits;
use base::{AgentId, Fields, Host, PublicKey, Scalar, json, words};

/// The kind of both messages.
const JOIN: &str = "KEYS/JOIN";

const KEY: &str = "__KEY__";
const NAME: &str = "__NAME__";
const REP_PORT: &str = "__REP_PORT__";
const PUB_PORT: &str = "__PUB_PORT__";
const REFUSED: &str = "__REFUSED__";
const MAY_COMMAND: &str = "__MAY_COMMAND__";
const HOSTS: &str = "__HOSTS__";

/// Enough for either message. Anything longer is neither.
const LIMITS: FieldLimits =
    FieldLimits { message_bytes: 4096, fields: 16, name_bytes: 64, value_bytes: 1024, command_bytes: 1024 };

/// A machine that asks for access.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Newcomer {
    /// The name that it has chosen. Like the id of an agent, it is valid as a file name.
    pub name: AgentId,
    /// Its public key.
    pub key: PublicKey,
}

/// The answer to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Admission {
    /// Its key is accepted from now on, at these ports of the controller.
    Accepted {
        /// The port for requests.
        requests: u16,
        /// The port for broadcasts, if it is open.
        broadcasts: Option<u16>,
        /// Whether the controller takes commands and changes of tools with its key.
        may_command: bool,
        /// The hosts of the controllers that may lead, as parts of endpoints, if there are several.
        hosts: Vec<String>,
    },
    /// Its key is refused. The sentence says why.
    Refused(String),
}

impl Newcomer {
    /// The bytes of its request.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        json::to_vec(&typed().with(NAME, self.name.as_str()).with(KEY, self.key.to_string()))
    }

    /// Reads a request; `None` if it is none.
    #[must_use]
    pub fn parse(frame: &[u8]) -> Option<Self> {
        let fields = fields(frame)?;
        let name = AgentId::new(&text(&fields, NAME)?).ok()?;
        Some(Self { name, key: PublicKey::parse(&text(&fields, KEY)?).ok()? })
    }
}

impl Admission {
    /// The bytes of the answer.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let fields = match self {
            Self::Accepted { requests, broadcasts, may_command, hosts } => {
                let mut fields = typed().with(REP_PORT, u64::from(*requests)).with(MAY_COMMAND, *may_command);
                if !hosts.is_empty() {
                    fields = fields.with(HOSTS, hosts.join(","));
                }
                match broadcasts {
                    Some(port) => fields.with(PUB_PORT, u64::from(*port)),
                    None => fields,
                }
            }
            Self::Refused(why) => typed().with(REFUSED, why.as_str()),
        };
        json::to_vec(&fields)
    }

    /// Reads an answer; `None` if it is none.
    #[must_use]
    pub fn parse(frame: &[u8]) -> Option<Self> {
        let fields = fields(frame)?;
        if let Some(why) = text(&fields, REFUSED) {
            return Some(Self::Refused(why));
        }
        let port = |name| fields.get(name).and_then(Scalar::as_u64).and_then(|port| u16::try_from(port).ok());
        let may_command = fields.flag(MAY_COMMAND);
        let hosts = text(&fields, HOSTS).unwrap_or_default();
        let hosts = hosts.split(',').filter_map(|host| Some(Host::parse(host)?.in_endpoint())).collect();
        Some(Self::Accepted { requests: port(REP_PORT)?, broadcasts: port(PUB_PORT), may_command, hosts })
    }
}

fn typed() -> Fields {
    Fields::new().with(words::TYPE, JOIN)
}

fn fields(frame: &[u8]) -> Option<Fields> {
    let fields = json::parse(frame, &LIMITS).ok()?;
    (text(&fields, words::TYPE)? == JOIN).then_some(fields)
}

fn text(fields: &Fields, name: &str) -> Option<String> {
    fields.text(name).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let newcomer = Newcomer { name: AgentId::new("lab-7").unwrap(), key: PublicKey::from_bytes([7; 32]) };
        assert_eq!(Newcomer::parse(&newcomer.encode()), Some(newcomer));
        for admission in [
            Admission::Accepted { requests: 15555, broadcasts: Some(15556), may_command: true, hosts: vec![] },
            Admission::Accepted {
                requests: 1,
                broadcasts: None,
                may_command: false,
                hosts: vec!["10.0.0.1".into(), "lab.example".into()],
            },
            Admission::Refused("no".into()),
        ] {
            assert_eq!(Admission::parse(&admission.encode()), Some(admission));
        }
    }

    #[test]
    fn what_is_something_else_is_nothing() {
        let key = PublicKey::from_bytes([7; 32]).to_string();
        for (kind, name, key) in
            [("TASK/SUBMIT", "a", &*key), (JOIN, "../a", &key), (JOIN, ".a", &key), (JOIN, "a", "k")]
        {
            let fields = Fields::new().with(words::TYPE, kind).with(NAME, name).with(KEY, key);
            assert_eq!(Newcomer::parse(&json::to_vec(&fields)), None, "{kind} {name} {key}");
        }
        assert_eq!(Newcomer::parse(b"{}"), None);
        assert_eq!(Admission::parse(br#"{"__TYPE__":"KEYS/JOIN","__REP_PORT__":70000}"#), None);
    }
}
