//! Who owns a key: the name of one turn of one core.

use std::fmt;
use std::time::Duration;

/// What every value of ours begins with. A release that changes what the values mean changes this, and the
/// two are then foreign to each other: never unsafe, only unacquainted.
pub const VERSION: &str = "hf1.";

/// The 128 random bits of a core.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct CoreId(u128);

impl CoreId {
    /// With these bits.
    pub fn new(bits: u128) -> CoreId {
        CoreId(bits)
    }

    /// Appends them in hexadecimal. By hand, because it happens with every command.
    fn write_to(self, text: &mut String) {
        for place in (0..32).rev() {
            let four = (self.0 >> (4 * place)) as u32 & 0xf;
            text.push(char::from_digit(four, 16).unwrap_or('0'));
        }
    }
}

impl fmt::Display for CoreId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = String::with_capacity(32);
        self.write_to(&mut text);
        f.write_str(&text)
    }
}

impl fmt::Debug for CoreId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// One turn of a core on a lock: the value of the key, and the argument of every command about it.
///
/// Chosen by the core *before* its first command and never used twice, so that a command which arrives late
/// or twice can only ever speak of its own turn. Whole tokens are compared, never cores.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Token {
    core: CoreId,
    turn: u64,
    claim_millis: u32,
    told: bool,
}

impl Token {
    /// The token that this text shows; `None` if it is none of ours.
    pub fn parse(text: &str) -> Option<Token> {
        let (kind, rest) = text.strip_prefix(VERSION)?.split_once('.')?;
        let told = match kind {
            "h" => true,
            "p" => false,
            _ => return None,
        };
        let (core, numbers) = rest.split_once('.')?;
        let (turn, claim) = numbers.split_once('.')?;
        let core = CoreId(u128::from_str_radix(core, 16).ok()?);
        let token = Token { core, turn: turn.parse().ok()?, claim_millis: claim.parse().ok()?, told };
        // Whole tokens are compared: another spelling would be another one.
        (token.to_string() == text).then_some(token)
    }

    /// Its number among its core's turns.
    pub fn turn(self) -> u64 {
        self.turn
    }

    /// Whose turn it is.
    pub fn core(self) -> CoreId {
        self.core
    }

    /// Whether its core is told by push when it is granted. Otherwise it finds out by asking.
    pub fn is_told(self) -> bool {
        self.told
    }

    /// The server's first ttl of a lease that is granted to it in the queue.
    pub fn claim(self) -> Duration {
        Duration::from_millis(self.claim_millis.into())
    }

    /// Appends what [`Display`](fmt::Display) shows.
    pub fn write_to(self, text: &mut String) {
        let mut digits = itoa::Buffer::new();
        text.push_str(VERSION);
        text.push_str(if self.told { "h." } else { "p." });
        self.core.write_to(text);
        text.push('.');
        text.push_str(digits.format(self.turn));
        text.push('.');
        text.push_str(digits.format(self.claim_millis));
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = String::with_capacity(64);
        self.write_to(&mut text);
        f.write_str(&text)
    }
}

/// Names the turns of one core. Never reset: a name used twice would let an old command touch a new turn.
#[derive(Debug)]
pub struct Turns {
    core: CoreId,
    next: u64,
}

impl Turns {
    /// For this core.
    pub fn new(core: CoreId) -> Turns {
        Turns { core, next: 1 }
    }

    /// A token that was never used. `claim`: for how long a lease that is granted to it in the queue lasts at first;
    /// `told`: it is told of that by push.
    pub fn next(&mut self, claim: Duration, told: bool) -> Token {
        let turn = self.next;
        self.next += 1;
        let claim_millis = claim.as_millis().min(u32::MAX.into()) as u32;
        Token { core: self.core, turn, claim_millis, told }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_written_with_version_kind_core_turn_and_claim() {
        let mut turns = Turns::new(CoreId::new(0xabc));
        let claim = Duration::from_millis(3_100);
        assert_eq!(turns.next(claim, false).to_string(), "hf1.p.00000000000000000000000000000abc.1.3100");
        let second = turns.next(claim, true);
        let text = "hf1.h.00000000000000000000000000000abc.2.3100";
        assert_eq!(second.to_string(), text);
        assert_eq!(Token::parse(text), Some(second));
    }

    #[test]
    fn what_is_no_token_is_not_read_as_one() {
        for text in ["", "hf1.p.", "hf1.p.abc.1.2", "hf1.q.00000000000000000000000000000abc.2.3100", "hf1.p.é.1.2"] {
            assert_eq!(Token::parse(text), None, "{text}");
        }
        assert_eq!(Token::parse("hf1.p.00000000000000000000000000000abc.02.3100"), None);
        assert_eq!(Token::parse("hf1.p.00000000000000000000000000000ABC.2.3100"), None);
    }
}
