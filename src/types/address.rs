//! placeholder
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PushAddress(String);
#[derive(Clone, Debug, Default)]
pub struct AddressPolicy;
#[derive(Debug, thiserror::Error)]
#[error("bad")]
pub struct AddressError;
impl PushAddress {
    pub fn parse(t: &str, _: &AddressPolicy) -> Result<Self, AddressError> {
        Ok(Self(t.to_owned()))
    }
}
