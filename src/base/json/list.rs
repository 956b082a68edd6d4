//! The one list that a request may have: flat objects, each parsed separately, so that a refusal can name its index.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, SeqAccess, Visitor};

use super::{FieldLimits, FlatObject, MapAccess, OneValue, Value};
use crate::Fields;
use crate::code::{Code, Refusal};

/// The objects of a list, or the first flaw of each.
#[derive(Debug, PartialEq)]
pub struct List {
    name: &'static str,
    items_max: usize,
    /// The items that are kept: at most `items_max`.
    pub items: Vec<Result<Fields, Refusal>>,
    /// Number of all items; `None` if no list has been found.
    pub len: Option<usize>,
}

impl List {
    /// A list that is the value of this field. Items beyond the maximum are counted but not kept.
    pub const fn named(name: &'static str, items_max: usize) -> Self {
        Self { name, items_max, items: Vec::new(), len: None }
    }

    pub(super) fn is_named(&self, name: &str) -> bool {
        self.name == name
    }
}

/// Reads the value of the list's field. A value that is not a list is returned like that of any other field.
pub(super) struct ListValue<'a> {
    pub(super) list: &'a mut List,
    pub(super) limits: &'a FieldLimits,
}

impl<'de> DeserializeSeed<'de> for ListValue<'_> {
    type Value = Option<Value>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Option<Value>, D::Error> {
        deserializer.deserialize_any(self)
    }
}

macro_rules! scalars {
    ($($visit:ident($type:ty);)+) => {
        $(fn $visit<E: Error>(self, value: $type) -> Result<Self::Value, E> {
            OneValue.$visit(value).map(Some)
        })+
    };
}

impl<'de> Visitor<'de> for ListValue<'_> {
    type Value = Option<Value>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Option<Value>, A::Error> {
        let Self { list, limits } = self;
        let mut len = 0;
        while list.items.len() < list.items_max
            && let Some(item) = seq.next_element_seed(Item { limits })?
        {
            list.items.push(item);
            len += 1;
        }
        while list.items.len() == list.items_max && seq.next_element_seed(OneValue)?.is_some() {
            len += 1;
        }
        list.len = Some(len);
        Ok(None)
    }

    fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
        OneValue.visit_unit().map(Some)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        OneValue.visit_map(map).map(Some)
    }

    scalars! {
        visit_bool(bool);
        visit_u64(u64);
        visit_i64(i64);
        visit_f64(f64);
        visit_str(&str);
        visit_string(String);
    }
}

/// One item. A value that is not an object is a flaw of the item, but invalid JSON is a flaw of the whole message.
struct Item<'a> {
    limits: &'a FieldLimits,
}

impl<'de> DeserializeSeed<'de> for Item<'_> {
    type Value = Result<Fields, Refusal>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl Item<'_> {
    fn no_object() -> Result<Fields, Refusal> {
        Err(Refusal::new(Code::BadField, "an item of the list is not an object; send a flat object for each task"))
    }
}

macro_rules! no_objects {
    ($($visit:ident($type:ty);)+) => {
        $(fn $visit<E>(self, _: $type) -> Result<Self::Value, E> {
            Ok(Self::no_object())
        })+
    };
}

impl<'de> Visitor<'de> for Item<'_> {
    type Value = Result<Fields, Refusal>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        let mut refusal = None;
        let object = FlatObject { limits: self.limits, refusal: &mut refusal, list: None };
        let fields = object.visit_map(map)?;
        Ok(refusal.map_or(Ok(fields), Err))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<Self::Value, A::Error> {
        OneValue.visit_seq(seq).map(|_| Self::no_object())
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(Self::no_object())
    }

    no_objects! {
        visit_bool(bool);
        visit_u64(u64);
        visit_i64(i64);
        visit_f64(f64);
        visit_str(&str);
        visit_string(String);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::parse_with_list;

    const LIMITS: FieldLimits =
        FieldLimits { message_bytes: 4096, fields: 4, name_bytes: 8, value_bytes: 16, command_bytes: 32 };

    fn read(text: &str) -> Result<(Fields, List), i32> {
        let mut list = List::named("l", 3);
        let fields = parse_with_list(text.as_bytes(), &LIMITS, &mut list);
        fields.map(|fields| (fields, list)).map_err(|rejected| rejected.refusal.code.number())
    }

    #[test]
    fn each_item_is_read_for_itself() {
        let (fields, list) = read(r#"{"a":1,"l":[{"x":"1"},{"x":[]},7],"b":2}"#).unwrap();
        assert_eq!((fields.len(), list.len), (2, Some(3)));
        let codes: Vec<_> = list.items.iter().map(|item| item.as_ref().map_err(|flaw| flaw.code.number())).collect();
        assert_eq!(codes, [Ok(&Fields::new().with("x", "1")), Err(-1007), Err(-1007)]);
    }

    #[test]
    fn what_is_too_much_is_counted() {
        let (_, list) = read(r#"{"l":[{},{},{},{},[[]]]}"#).unwrap();
        assert_eq!((list.items.len(), list.len), (3, Some(5)));
    }

    #[test]
    fn a_list_is_nowhere_else() {
        assert_eq!(read(r#"{"l":5}"#).unwrap().0, Fields::new().with("l", 5u32));
        for (text, code) in [(r#"{"k":[{}]}"#, -1007), (r#"{"l":{}}"#, -1007), (r#"{"l":[{"a":1,"a":2}]}"#, -1001)] {
            assert_eq!(read(text).map(drop), Err(code), "{text}");
        }
        assert_eq!(
            read(r#"{"l":[{"l":[]}]}"#).unwrap().1.items[0].as_ref().map_err(|flaw| flaw.code),
            Err(Code::BadField)
        );
    }
}
