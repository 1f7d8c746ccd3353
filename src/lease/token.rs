//! Who owns a key: the name of one turn of one core.

use std::fmt;
use std::time::Duration;

/// What every value of ours begins with. A release that changes what the values mean changes this, and the
/// two are then foreign to each other: never unsafe, only unacquainted.
pub const VERSION: &str = "hf1.";

/// One turn of a core on a lock: the value of the key, and the argument of every command about it.
///
/// Chosen by the core *before* its first command and never used twice, so that a command which arrives late
/// or twice can only ever speak of its own turn. Whole tokens are compared, never cores.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Token {
    core: u128,
    turn: u64,
    claim_millis: u32,
}

impl Token {
    /// Its number among its core's turns.
    pub fn turn(self) -> u64 {
        self.turn
    }

    /// Whether both are turns of one core.
    pub fn is_of_same_core(self, other: Token) -> bool {
        self.core == other.core
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // `p`: this core finds its turn by asking; `h` is for cores that can be told by push.
        write!(
            f,
            "{VERSION}p.{:032x}.{}.{}",
            self.core, self.turn, self.claim_millis
        )
    }
}

/// Names the turns of one core. Never reset: a name used twice would let an old command touch a new turn.
#[derive(Debug)]
pub struct Turns {
    core: u128,
    next: u64,
}

impl Turns {
    /// For a core with `core` as its 128 random bits.
    pub fn new(core: u128) -> Turns {
        Turns { core, next: 1 }
    }

    /// A token that was never used.
    pub fn next(&mut self, claim: Duration) -> Token {
        let turn = self.next;
        self.next += 1;
        Token {
            core: self.core,
            turn,
            claim_millis: claim.as_millis() as u32,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_written_with_version_kind_core_turn_and_claim() {
        let mut turns = Turns::new(0xabc);
        let claim = Duration::from_millis(3_100);
        assert_eq!(
            turns.next(claim).to_string(),
            "hf1.p.00000000000000000000000000000abc.1.3100"
        );
        assert_eq!(
            turns.next(claim).to_string(),
            "hf1.p.00000000000000000000000000000abc.2.3100"
        );
    }
}
