//! Cached values: what is asked of a store about them, and how it answers.

use std::sync::Arc;

use super::Trouble;
use crate::clock::Time;
use crate::lease::{CoreId, Token};

/// Something asked of a store about one cached value.
#[derive(Clone, Debug)]
pub struct ValueCommand {
    /// The full key of the value.
    pub key: Arc<str>,
    /// Full key of the plain lock that whoever loads the value holds, prefix included.
    pub lock: Arc<str>,
    /// What.
    pub op: ValueOp,
    /// The sender's name for it.
    pub call: u64,
}

/// What is asked. In terms of [`Entry`], a value is fresh while more of its ttl is left than it is kept for after that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ValueOp {
    /// The value, fresh or not.
    Read,
    /// Whether a load failed a while ago, if asked; else the value if it is fresh; else whether it may be loaded; else to be told
    /// when there is something to see.
    Look {
        /// The turn that has the lock, if it is ours: then there is nobody to wait for.
        token: Option<Token>,
        /// Whether to hear of a load that failed a while ago.
        backs_off: bool,
        /// Who is told.
        core: CoreId,
    },
    /// A load is over. Does nothing unless the turn still has the lock; doesn't free it.
    Finish {
        /// The turn.
        token: Token,
        /// What came of it.
        load: Load,
    },
    /// Changes the value by somebody's order. A load that is under way is not to undo that, so its lock goes to whoever comes next.
    Overrule(Order),
}

/// What came of a load. Those who wait are told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Load {
    /// A value, and how long to keep it, ms; `None`: for ever.
    Value(Arc<[u8]>, Option<u64>),
    /// Nothing that is to be kept; which nothing is for the callers to know.
    Nothing(u8),
    /// An error, in words for the callers; for so many ms nobody loads it again who has an older value.
    Error(Arc<str>, u64),
}

/// What is to become of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Order {
    /// Another one, and how long to keep it, ms; `None`: for ever.
    Set(Arc<[u8]>, Option<u64>),
    /// None.
    Delete,
    /// Not fresh any more: none if it isn't kept longer.
    Expire,
}

/// The answer to a [`ValueCommand`].
#[derive(Debug)]
pub struct ValueReply {
    /// What was asked.
    pub command: ValueCommand,
    /// The instant before it was handed to the socket.
    pub sent: Time,
    /// What came of it.
    pub answer: ValueAnswer,
}

/// What came of a command about a value.
#[derive(Clone, Debug)]
pub enum ValueAnswer {
    /// Read, look: here it is, and how much of its ttl is left, ms; `None`: it has none.
    Found(Vec<u8>, Option<u64>),
    /// Read: there is none. Look: nobody loads it.
    Absent,
    /// Look: it is being loaded; what is left of the lock's ttl, ms. The core will be told.
    Taken(Option<u64>),
    /// Look: a load failed a while ago.
    Failed(String),
    /// Finish: done, or the turn didn't have the lock. Overrule: whether there was a value.
    Done(bool),
    /// Finish: the key holds something that is no cached value, and was left as it was.
    Foreign,
    /// The server refused.
    Refused(Trouble),
    /// It was sent, and the connection broke.
    Unanswered(Trouble),
    /// It wasn't sent, for want of a connection.
    Unsent,
}

/// What a store says of its own accord about a value that somebody here looked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValueSignal {
    /// The full key of the value.
    pub key: Arc<str>,
    /// What.
    pub news: ValueNews,
}

/// What there is to see.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ValueNews {
    /// A look is worth it.
    Changed,
    /// A load brought nothing that is kept.
    Nothing(u8),
    /// A load failed.
    Error(String),
}

/// A value as it stands in the store: `hf1 kind spent kept`, a line feed, the value. Readable, and told apart from what others write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// A letter that says how the value is written.
    pub kind: u8,
    /// How long the load took, ms.
    pub spent: u64,
    /// How long the value is kept after it stopped being fresh, ms.
    pub kept: u64,
    /// The value.
    pub payload: &'a [u8],
}

/// How every entry begins.
pub const ENTRY: &str = "hf1 ";

impl<'a> Entry<'a> {
    /// The bytes.
    pub fn to_bytes(self) -> Vec<u8> {
        let mut bytes = format!("{ENTRY}{} {} {}\n", char::from(self.kind), self.spent, self.kept).into_bytes();
        bytes.extend_from_slice(self.payload);
        bytes
    }

    /// `None`: this isn't one.
    pub fn parse(bytes: &'a [u8]) -> Option<Entry<'a>> {
        let rest = bytes.strip_prefix(ENTRY.as_bytes())?;
        // A header has 45 bytes at the most.
        let end = rest.iter().take(64).position(|byte| *byte == b'\n')?;
        let (header, payload) = (std::str::from_utf8(rest.get(..end)?).ok()?, rest.get(end + 1..)?);
        let mut words = header.split(' ');
        let (kind, spent, kept) = (words.next()?, words.next()?, words.next()?);
        match (kind.as_bytes(), words.next()) {
            ([kind], None) => {
                Some(Entry { kind: *kind, spent: spent.parse().ok()?, kept: kept.parse().ok()?, payload })
            }
            _ => None,
        }
    }

    /// Whether a value of which so much ttl is left is fresh.
    pub fn is_fresh(&self, left: Option<u64>) -> bool {
        left.is_none_or(|left| left > self.kept)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_what_it_was() {
        let entry = Entry { kind: b'j', spent: 12, kept: 30_000, payload: b"{\"a\":\"\n\"}" };
        let bytes = entry.to_bytes();
        assert_eq!(bytes, b"hf1 j 12 30000\n{\"a\":\"\n\"}");
        assert_eq!(Entry::parse(&bytes), Some(entry));
        assert!(entry.is_fresh(None) && entry.is_fresh(Some(30_001)) && !entry.is_fresh(Some(30_000)));
    }

    #[test]
    fn what_others_wrote_is_none() {
        for text in [
            "",
            "hf1",
            "hf1 ",
            "hf1 j 1 1",
            "hf1 jj 1 1\n",
            "hf1 j 1\n",
            "hf1 j 1 x\n",
            "hf1 j 1 1 1\n",
            "{\"a\":1}\n",
        ] {
            assert_eq!(Entry::parse(text.as_bytes()), None, "{text:?}");
        }
    }
}
