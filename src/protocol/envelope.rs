//! The frames around a request: added by a REQ socket, and to be returned by the REP side (RFC 28).

/// The frames that are returned unchanged before a reply: routing ids and the empty delimiter.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ReplyTo(Vec<Vec<u8>>);

impl ReplyTo {
    /// The envelope of a request that did not arrive by ZMTP: its door gets this frame back.
    #[must_use]
    pub fn of(frame: Vec<u8>) -> Self {
        Self(vec![frame])
    }

    /// The frame that identifies the peer at the controller's ROUTER.
    #[must_use]
    pub fn peer(&self) -> &[u8] {
        self.0.first().map_or(&[], Vec::as_slice)
    }

    /// The frames of a reply with this body.
    #[must_use]
    pub fn frames(self, body: Vec<u8>) -> Vec<Vec<u8>> {
        let mut frames = self.0;
        frames.push(body);
        frames
    }
}

/// One message as a ROUTER received it.
#[derive(Debug, PartialEq, Eq)]
pub enum Received {
    /// A request: one frame after the delimiter.
    Request(ReplyTo, Vec<u8>),
    /// More than one frame after the delimiter: it can be answered, but not read.
    ExtraFrames(ReplyTo),
    /// A message that cannot be answered.
    Drop,
}

/// Splits a message at its first empty frame. The first frame is the routing id that the controller's ROUTER added; the
/// transport limits the number of frames after it.
#[must_use]
pub fn open(mut frames: Vec<Vec<u8>>) -> Received {
    let Some(delimiter) = frames.iter().skip(1).position(Vec::is_empty).map(|at| at + 1) else {
        return Received::Drop;
    };
    let mut body = frames.split_off(delimiter + 1);
    let reply_to = ReplyTo(frames);
    match (body.pop(), body.is_empty()) {
        (None, _) => Received::Drop,
        (Some(body), true) => Received::Request(reply_to, body),
        (Some(_), false) => Received::ExtraFrames(reply_to),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frames(parts: &[&str]) -> Vec<Vec<u8>> {
        parts.iter().map(|part| part.as_bytes().to_vec()).collect()
    }

    /// HAZARDS row W5.
    #[test]
    fn the_envelope_goes_back_as_it_came() {
        let Received::Request(reply_to, body) = open(frames(&["id", "hop", "", "{}"])) else { panic!() };
        assert_eq!(body, b"{}");
        assert_eq!(reply_to.frames(b"r".to_vec()), frames(&["id", "hop", "", "r"]));
    }

    #[test]
    fn what_has_no_delimiter_or_no_data_is_dropped() {
        for parts in [&["id"][..], &["id", "{}"], &["id", ""], &["id", "a", "b"]] {
            assert_eq!(open(frames(parts)), Received::Drop, "{parts:?}");
        }
    }

    #[test]
    fn extra_frames_can_be_answered() {
        assert_eq!(open(frames(&["id", "", "", ""])), Received::ExtraFrames(ReplyTo(frames(&["id", ""]))));
        assert_eq!(open(frames(&["id", "", "a", "b"])), Received::ExtraFrames(ReplyTo(frames(&["id", ""]))));
    }

    /// An empty body is a request that is not JSON, and a REQ peer waits for its answer.
    #[test]
    fn an_empty_body_is_a_request() {
        assert_eq!(open(frames(&["id", "", ""])), Received::Request(ReplyTo(frames(&["id", ""])), vec![]));
    }
}
