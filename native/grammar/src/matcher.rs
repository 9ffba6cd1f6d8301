//! One row's place in its grammar.
use std::sync::Arc;

use anyhow::{ensure, Result};
use llguidance::toktrie::TokenId;
use llguidance::Matcher;

use crate::vocabulary::{standing, Vocabulary};

pub struct RowMatcher {
    vocabulary: Arc<Vocabulary>,
    matcher: Matcher,
    begun: bool,
    mask: Vec<u32>,
}

#[derive(Clone, Copy)]
pub struct Place {
    /// The text so far is a whole one.
    pub accepting: bool,
    /// Nothing can follow it.
    pub ended: bool,
}

fn has(bits: &[u32], id: TokenId) -> bool {
    bits.get(id as usize / 32).is_some_and(|word| word >> (id % 32) & 1 == 1)
}

impl RowMatcher {
    pub fn new(vocabulary: Arc<Vocabulary>, matcher: Matcher) -> Self {
        RowMatcher { vocabulary, matcher, begun: false, mask: Vec::new() }
    }

    pub fn into_matcher(self) -> Matcher {
        self.matcher
    }

    /// A bit for each token that may come next.
    pub fn mask(&mut self) -> Result<&[u32]> {
        let found = standing(!self.begun, || self.matcher.compute_mask_or_eos())?;
        let bits = found.as_slice();
        self.mask.clear();
        self.mask.extend(self.vocabulary.usable.iter().zip(bits).map(|(usable, word)| usable & word));
        if !self.begun {
            let trie = self.vocabulary.factory.tok_env().tok_trie();
            // A token that is forced is one of those with its text: which of them begins an answer is for the model to say.
            let forced = (found.num_set() == 1).then(|| found.first_bit_set().map(|id| trie.token(id as TokenId))).flatten();
            for &(token, alias) in &self.vocabulary.firsts {
                let (word, bit) = (token as usize / 32, 1 << (token % 32));
                self.mask[word] &= !bit;
                if alias.is_some_and(|alias| has(bits, alias) || forced.is_some_and(|text| text == trie.token(alias))) {
                    self.mask[word] |= bit;
                }
            }
        }
        ensure!(self.mask.iter().any(|&word| word != 0), "no token can come next");
        Ok(&self.mask)
    }

    /// Goes on to the place behind a token, which the mask has.
    pub fn consume(&mut self, token: TokenId) -> Result<Place> {
        let mut id = token;
        if !self.begun {
            if let Some((_, alias)) = self.vocabulary.firsts.iter().find(|(first, _)| *first == token) {
                id = alias.ok_or_else(|| anyhow::anyhow!("token {token} cannot begin an answer"))?;
            }
        }
        self.matcher.consume_token(id)?;
        self.begun = true;
        self.place()
    }

    /// Goes on behind the tokens that must come next: each is the only one that the mask would have. At most as many as there is room for. @returns how many, and the place behind them
    pub fn consume_forced(&mut self, forced: &mut [TokenId]) -> Result<(usize, Place)> {
        let mut count = 0;
        if !forced.is_empty() && self.begun && !self.matcher.is_stopped() {
            // What has no token stands behind the others: the next mask is empty.
            for token in self.matcher.compute_ff_tokens().into_iter().take_while(|&token| has(&self.vocabulary.usable, token)).take(forced.len()) {
                self.matcher.consume_token(token)?;
                forced[count] = token;
                count += 1;
            }
        }
        Ok((count, self.place()?))
    }

    fn place(&mut self) -> Result<Place> {
        Ok(Place { accepting: self.matcher.is_accepting()?, ended: self.matcher.is_stopped() })
    }
}
