//! Property tests that can be run again: the seed is part of what they say when they fail.

use std::hash::{BuildHasher, Hasher, RandomState};

use proptest::strategy::Strategy;
use proptest::test_runner::{Config, RngAlgorithm, RngSeed, TestCaseError, TestRunner};

/// `cases` unless `PROPTEST_CASES` says otherwise; `PROPTEST_RNG_SEED` repeats a run.
pub fn check<S: Strategy>(cases: u32, inputs: S, test: impl Fn(S::Value) -> Result<(), TestCaseError>) {
    let mut config = Config {
        failure_persistence: None,
        max_shrink_iters: 20_000,
        // Without optimization, the default one takes most of the time.
        rng_algorithm: RngAlgorithm::XorShift,
        ..Config::default()
    };
    if std::env::var_os("PROPTEST_CASES").is_none() {
        config.cases = cases;
    }
    let seed = match config.rng_seed {
        RngSeed::Fixed(seed) => seed,
        RngSeed::Random => RandomState::new().build_hasher().finish(),
    };
    config.rng_seed = RngSeed::Fixed(seed);
    if let Err(error) = TestRunner::new(config).run(&inputs, test) {
        panic!("PROPTEST_RNG_SEED={seed} fails: {error}");
    }
}
