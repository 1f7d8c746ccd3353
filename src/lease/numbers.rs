//! The fencing numbers a turn may give to its holders.

/// Numbers reserved for a turn and not yet given out. A hard limit: a number past the reserved ones could
/// be another owner's.
#[derive(Debug, Default)]
pub struct Numbers {
    next: u64,
    end: u64,
    /// A later block, used when the first is empty.
    more: Option<(u64, u64)>,
}

/// How many one command reserves at the most. Numbers must be reserved more slowly than one per microsecond, or
/// the counter would run ahead of the clock that replaces it when it is lost.
pub const LARGEST_BLOCK: u32 = 1024;

impl Numbers {
    /// The block of `count` numbers that ends with `last`.
    pub fn block(last: u64, count: u32) -> Numbers {
        Numbers { next: last + 1 - u64::from(count).min(last), end: last + 1, more: None }
    }

    /// Adds a block that was reserved later.
    pub fn add(&mut self, last: u64, count: u32) {
        let block = Numbers::block(last, count);
        if self.next >= self.end {
            *self = block;
        } else {
            self.more = Some((block.next, block.end));
        }
    }

    /// The next number, if one is left.
    pub fn take(&mut self) -> Option<u64> {
        if self.next >= self.end {
            (self.next, self.end) = self.more.take()?;
        }
        let number = self.next;
        self.next += 1;
        Some(number)
    }

    /// How many are left.
    pub fn left(&self) -> u64 {
        let more = self.more.map_or(0, |(next, end)| end - next);
        self.end.saturating_sub(self.next) + more
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_used_up_in_order_and_not_beyond() {
        let mut numbers = Numbers::block(102, 3);
        assert_eq!(numbers.take(), Some(100));
        numbers.add(205, 2);
        assert_eq!(numbers.left(), 4);
        let rest: Vec<_> = std::iter::from_fn(|| numbers.take()).collect();
        assert_eq!(rest, [101, 102, 204, 205]);
        assert_eq!(numbers.take(), None);
    }
}
