//! A tokenizer's tokens as bytes.
use std::collections::HashSet;
use std::sync::Arc;

use anyhow::{ensure, Result};
use llguidance::earley::SlicedBiasComputer;
use llguidance::toktrie::{InferenceCapabilities, TokEnv, TokRxInfo, TokTrie, TokenId, TokenizerEnv, INVALID_TOKEN};
use llguidance::ParserFactory;

/// Longer tokens are in no vocabulary that is meant seriously, and the trie cannot hold them.
const MOST_TOKEN_BYTES: usize = 1000;
/// The byte that marks special tokens in the trie; UTF-8 has no use for it.
const MARKER: u8 = 0xff;

/// Tokens, and what a grammar is compiled against.
pub struct Vocabulary {
    pub factory: ParserFactory,
    /// Tokens whose text is another one at the beginning of an answer, and the id under which the trie has that; none where there they have no text.
    pub firsts: Vec<(TokenId, Option<TokenId>)>,
    /// Bits of the tokens that may stand in an answer, or end it.
    pub usable: Vec<u32>,
    /// Tokens of one byte each, where each byte of every token is one: whatever can be tokenized at all can be by taking the longest token, again and again.
    pub bytes: Option<[Option<TokenId>; 256]>,
}

/// The crate forces nothing by itself: it would go through all that is forced at once, however long that is (matcher.rs goes token by token).
struct Environment(TokTrie);

impl TokenizerEnv for Environment {
    fn tok_trie(&self) -> &TokTrie {
        &self.0
    }
    fn tokenize_bytes(&self, bytes: &[u8]) -> Vec<TokenId> {
        self.0.greedy_tokenize(bytes)
    }
    fn tokenize_is_canonical(&self) -> bool {
        false
    }
}

impl Vocabulary {
    /// `tokens`: bytes of each, empty for those that no answer may have. `firsts`: of those that differ there, the bytes at the beginning of an answer.
    pub fn new(tokens: &[&[u8]], firsts: &[(u32, &[u8])], ends: &[u32]) -> Result<Self> {
        let count = tokens.len();
        let is_end: HashSet<u32> = ends.iter().copied().collect();
        let mut words: Vec<Vec<u8>> = tokens.iter().enumerate().map(|(id, bytes)| if is_end.contains(&(id as u32)) { vec![] } else { usable(bytes) }).collect();
        let bytes = single_bytes(&words);
        let mut aliases = Vec::with_capacity(firsts.len());
        for &(token, bytes) in firsts {
            ensure!((token as usize) < count, "token {token} of {count}");
            let bytes = usable(bytes);
            aliases.push((token, if bytes.is_empty() { None } else { Some(words.len() as TokenId) }));
            if !bytes.is_empty() {
                words.push(bytes);
            }
        }
        let mut bits = vec![0u32; count.div_ceil(32)];
        for (id, word) in words[..count].iter().enumerate() {
            if !word.is_empty() || is_end.contains(&(id as u32)) {
                bits[id / 32] |= 1 << (id % 32);
            }
        }
        ensure!(ends.iter().all(|&end| (end as usize) < count), "an end token is not among the {count} tokens");
        let mut trie = TokTrie::from(&TokRxInfo::new(words.len() as u32, ends.first().copied().unwrap_or(INVALID_TOKEN)), &words);
        if !ends.is_empty() {
            trie = trie.with_eos_tokens(ends);
        }
        let environment: TokEnv = Arc::new(Environment(trie));
        let mut factory = ParserFactory::new(&environment, InferenceCapabilities::default(), &SlicedBiasComputer::general_slices())?;
        factory.quiet();
        Ok(Vocabulary { factory, firsts: aliases, usable: bits, bytes })
    }
}

fn single_bytes(words: &[Vec<u8>]) -> Option<[Option<TokenId>; 256]> {
    let mut single = [None; 256];
    for (id, word) in words.iter().enumerate().filter(|(_, word)| word.len() == 1) {
        single[word[0] as usize].get_or_insert(id as TokenId);
    }
    words.iter().flatten().all(|&byte| single[byte as usize].is_some()).then_some(single)
}

/// The bytes that the trie has of a token.
fn usable(bytes: &[u8]) -> Vec<u8> {
    if bytes.len() > MOST_TOKEN_BYTES || bytes.contains(&MARKER) {
        return vec![];
    }
    bytes.to_vec()
}
