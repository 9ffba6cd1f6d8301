//! One row's place in its grammar.
use std::sync::Arc;

use anyhow::{ensure, Result};
use llguidance::toktrie::{TokTrie, TokenId};
use llguidance::Matcher;

use crate::vocabulary::Vocabulary;

pub struct RowMatcher {
    vocabulary: Arc<Vocabulary>,
    matcher: Matcher,
    begun: bool,
    mask: Vec<u32>,
    /// `mask` is that of the place where the row is.
    masked: bool,
    /// Whether what the grammar leaves no choice about is one token. Some grammars cannot be looked ahead in.
    forces: bool,
    ahead: Ahead,
}

/// Text that must follow, as far as it has been looked for.
#[derive(Default)]
struct Ahead {
    text: Vec<u8>,
    /// After it comes one of several, or the end.
    ends: bool,
}

#[derive(Clone, Copy)]
pub struct Place {
    /// The text so far is a whole one.
    pub accepting: bool,
    /// Nothing can follow it.
    pub ended: bool,
}

fn tokens_of(bits: &[u32]) -> impl Iterator<Item = TokenId> + '_ {
    bits.iter().enumerate().filter(|(_, &word)| word != 0).flat_map(|(at, &word)| (0..32).filter(move |bit| word >> bit & 1 == 1).map(move |bit| at as TokenId * 32 + bit))
}

/// The byte with which all tokens begin; none where one of them has no text, for it ends the answer.
fn first_byte(trie: &TokTrie, bits: &[u32]) -> Option<u8> {
    let mut firsts = tokens_of(bits).map(|token| trie.token(token).first().copied());
    let first = firsts.next()??;
    firsts.all(|other| other == Some(first)).then_some(first)
}

fn has(bits: &[u32], id: TokenId) -> bool {
    bits.get(id as usize / 32).is_some_and(|word| word >> (id % 32) & 1 == 1)
}

impl RowMatcher {
    pub fn new(vocabulary: Arc<Vocabulary>, matcher: Matcher, forces: bool) -> Self {
        RowMatcher { vocabulary, matcher, begun: false, mask: Vec::new(), masked: false, forces, ahead: Ahead::default() }
    }

    /// Whether the grammar can be looked ahead in: some have terminals whose tokens are counted.
    pub fn can_go_back(&mut self) -> bool {
        if self.vocabulary.bytes.is_none() {
            return false;
        }
        let Some(token) = self.mask().ok().and_then(|mask| tokens_of(mask).next()) else { return false };
        let mut trial = self.matcher.deep_clone();
        trial.consume_token(self.id_of(token).unwrap_or(token)).and_then(|()| trial.rollback(1)).is_ok()
    }

    pub fn into_matcher(self) -> Matcher {
        self.matcher
    }

    /// The id under which the trie has a token where the row is; none where it cannot come.
    fn id_of(&self, token: TokenId) -> Option<TokenId> {
        match self.vocabulary.firsts.iter().find(|(first, _)| !self.begun && *first == token) {
            Some(&(_, alias)) => alias,
            None => Some(token),
        }
    }

    /// A bit for each token that may come next. Where the grammar leaves no choice about the text as far as any of them goes, that is one: the longest. (It is not always how the
    /// model's own tokenizer has it, which only merges tell; on texts of schemas, names between quotes, it nearly always is.)
    pub fn mask(&mut self) -> Result<&[u32]> {
        if self.masked {
            return Ok(&self.mask);
        }
        let found = self.matcher.compute_mask_or_eos()?;
        let bits = found.as_slice();
        self.mask.clear();
        self.mask.extend(self.vocabulary.usable.iter().zip(bits).map(|(usable, word)| usable & word));
        if !self.begun {
            for &(token, alias) in &self.vocabulary.firsts {
                let (word, bit) = (token as usize / 32, 1 << (token % 32));
                self.mask[word] &= !bit;
                if alias.is_some_and(|alias| has(bits, alias)) {
                    self.mask[word] |= bit;
                }
            }
        }
        ensure!(self.mask.iter().any(|&word| word != 0), "no token can come next");
        // How an answer's first token is written is the model's to say.
        if self.begun && self.forces {
            if let Some(token) = self.longest_of_one_text()? {
                self.mask.fill(0);
                self.mask[token as usize / 32] = 1 << (token % 32);
            }
        }
        self.masked = true;
        Ok(&self.mask)
    }

    /// The longest token of the mask, where all of them are beginnings of a text that must follow.
    fn longest_of_one_text(&mut self) -> Result<Option<TokenId>> {
        let vocabulary = self.vocabulary.clone();
        let trie = vocabulary.factory.tok_env().tok_trie();
        let (Some(bytes), Some(first)) = (&vocabulary.bytes, first_byte(trie, &self.mask)) else { return Ok(None) };
        let longest = tokens_of(&self.mask).map(|token| (trie.token(token).len(), std::cmp::Reverse(token))).max();
        let Some((length, std::cmp::Reverse(token))) = longest else { return Ok(None) };
        if self.ahead.text.is_empty() {
            self.ahead = Ahead { text: vec![first], ends: false };
        }
        self.look_ahead(length, trie, bytes)?;
        // A longer one goes on with what there is a choice about: whether it is taken is the model's to say.
        Ok((length <= self.ahead.text.len()).then_some(token))
    }

    /// Looks for text that must follow until there are so many bytes: goes byte by byte, and back.
    fn look_ahead(&mut self, length: usize, trie: &TokTrie, bytes: &[Option<TokenId>; 256]) -> Result<()> {
        let mut gone = 0;
        while !self.ahead.ends && self.ahead.text.len() < length {
            for &byte in &self.ahead.text[gone..] {
                let token = bytes[byte as usize].ok_or_else(|| anyhow::anyhow!("byte {byte} is no token"))?;
                self.matcher.consume_token(token)?;
                gone += 1;
            }
            let next = if self.matcher.is_stopped() { None } else { first_byte(trie, self.matcher.compute_mask()?.as_slice()) };
            match next {
                Some(byte) => self.ahead.text.push(byte),
                None => self.ahead.ends = true,
            }
        }
        self.matcher.rollback(gone)
    }

    /// Goes on to the place after a token, which the mask has.
    pub fn consume(&mut self, token: TokenId) -> Result<Place> {
        let id = self.id_of(token).ok_or_else(|| anyhow::anyhow!("token {token} cannot begin an answer"))?;
        self.masked = false;
        self.matcher.consume_token(id)?;
        self.begun = true;
        let text = self.vocabulary.factory.tok_env().tok_trie().token(id);
        if self.ahead.text.starts_with(text) {
            self.ahead.text.drain(..text.len());
        } else {
            self.ahead = Ahead::default();
        }
        let accepting = self.matcher.is_accepting()?;
        Ok(Place { accepting, ended: self.matcher.is_stopped() })
    }

    /// Goes on after the tokens that must come next, each the only one that the mask has: at most as many as there is room for. @returns how many, and the place after them
    pub fn consume_forced(&mut self, forced: &mut [TokenId], mut place: Place) -> (usize, Place) {
        for (count, token) in forced.iter_mut().enumerate() {
            // What goes wrong here is found again by the next mask: what has come before stands.
            let Some(only) = (!place.ended && self.forces).then(|| self.only()).flatten() else { return (count, place) };
            let Ok(behind) = self.consume(only) else { return (count, place) };
            (*token, place) = (only, behind);
        }
        (forced.len(), place)
    }

    /// The only token of the mask, if it has text.
    fn only(&mut self) -> Option<TokenId> {
        let vocabulary = self.vocabulary.clone();
        let mut tokens = tokens_of(self.mask().ok()?);
        let token = tokens.next()?;
        (tokens.next().is_none() && !vocabulary.factory.tok_env().tok_trie().token(token).is_empty()).then_some(token)
    }
}
