use llguidance::api::ParserLimits;

/// What compiling and each mask may cost; beyond that the grammar is refused, or the row is an error. They count steps, not time, so that results stay the same.
pub fn limits() -> ParserLimits {
    ParserLimits {
        max_items_in_row: 10_000,
        initial_lexer_fuel: 2_000_000,
        step_lexer_fuel: 200_000,
        step_max_items: 100_000,
        max_lexer_states: 20_000,
        max_grammar_size: 500_000,
        precompute_large_lexemes: true,
        verbose_errors: false,
    }
}
