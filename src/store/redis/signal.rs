//! What the scripts publish.

use crate::lease::{Push, Token};
use crate::store::{News, Signal, ValueNews, ValueSignal};

/// `g token last block more key`, `w token key` or `t token key`; `None` if it is neither, as from a release that says other things.
pub(super) fn parse(text: &str) -> Option<Signal> {
    let (kind, rest) = text.split_once(' ')?;
    let (token, rest) = rest.split_once(' ')?;
    let token = Token::parse(token)?;
    let (news, key) = match kind {
        "g" => {
            let (last, rest) = rest.split_once(' ')?;
            let (block, rest) = rest.split_once(' ')?;
            let (more, key) = rest.split_once(' ')?;
            let push = Push { last: last.parse().ok()?, block: block.parse().ok()?, more: more == "1" };
            (News::Granted(push), key)
        }
        "w" => (News::Wanted, rest),
        "t" => (News::TakenAway, rest),
        _ => return None,
    };
    Some(Signal { key: key.into(), token, news })
}

/// `v key`, `nCODE key` or `eLENGTH error key`; `None` if it is neither.
pub(super) fn parse_value(text: &str) -> Option<ValueSignal> {
    let (kind, rest) = text.split_once(' ')?;
    let (news, key) = match kind.split_at_checked(1)? {
        ("v", "") => (ValueNews::Changed, rest),
        ("n", which) => (ValueNews::Nothing(which.parse().ok()?), rest),
        ("e", length) => {
            let (words, rest) = rest.split_at_checked(length.parse().ok()?)?;
            (ValueNews::Error(words.to_owned()), rest.strip_prefix(' ')?)
        }
        _ => return None,
    };
    Some(ValueSignal { key: key.into(), news })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests {
    use super::*;

    #[test]
    fn keys_may_have_blanks() {
        let token = "hf1.h.00000000000000000000000000000abc.2.3100";
        let signal = parse(&format!("g {token} 1796052001232567 16 1 lock:a b ")).unwrap();
        assert_eq!((&*signal.key, signal.token.to_string()), ("lock:a b ", token.to_owned()));
        let News::Granted(push) = signal.news else { panic!("{signal:?}") };
        assert_eq!((push.last, push.block, push.more), (1_796_052_001_232_567, 16, true));
        assert!(matches!(parse(&format!("w {token} k")).unwrap().news, News::Wanted));
        assert!(matches!(parse(&format!("t {token} k")).unwrap().news, News::TakenAway));
    }

    #[test]
    fn errors_may_have_blanks() {
        let signal = parse_value("e6 {a: 1} cache: a").unwrap();
        assert_eq!((&*signal.key, signal.news), ("cache: a", ValueNews::Error("{a: 1}".to_owned())));
    }

    #[test]
    fn what_is_not_understood_is_nothing() {
        for text in ["", "v", "vx k", "n k", "n300 k", "e k", "e9 k", "g k"] {
            assert!(parse_value(text).is_none(), "{text}");
        }
        for text in ["", "g", "g hf2.h.1.2.3 1 1 1 k", "x hf1.h.00000000000000000000000000000abc.2.3100 k"] {
            assert!(parse(text).is_none(), "{text}");
        }
    }
}
