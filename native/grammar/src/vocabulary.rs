//! A tokenizer's tokens as bytes.
use std::cell::Cell;
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
}

thread_local! {
    /// Whether the text that is tokenized begins an answer. The crate asks its environment without saying where the text stands.
    static AT_FIRST: Cell<bool> = const { Cell::new(false) };
}

/// Runs work on a matcher that is, or is not, before an answer's first token.
pub fn standing<T>(at_first: bool, work: impl FnOnce() -> T) -> T {
    AT_FIRST.set(at_first);
    let result = work();
    AT_FIRST.set(false);
    result
}

/// Text that a grammar forces has one tokenization: the longest token first, again and again. (It is not always that of the model's own tokenizer, which only merges tell;
/// on the texts of schemas, names between quotes, it nearly always is.) Its last tokens are left to the masks where what follows may make longer ones of them.
struct Environment {
    /// With all ids, those of `firsts`, too.
    all: TokTrie,
    /// The tokens that may stand at an answer's beginning, and those behind; none where all are the same.
    split: Option<(TokTrie, TokTrie)>,
    /// All that can be tokenized at all is by taking the longest token. Where it is not, nothing is forced.
    closed: bool,
    /// Stands for a byte that there is no token for. It is no token of the model's: no mask has it.
    none: TokenId,
}

impl Environment {
    fn longest(&self, trie: &TokTrie, bytes: &[u8]) -> (TokenId, usize) {
        match trie.prefix_token_id(bytes) {
            (_, 0) => (self.none, bytes.len()),
            found => found,
        }
    }
}

impl TokenizerEnv for Environment {
    fn tok_trie(&self) -> &TokTrie {
        &self.all
    }
    fn tokenize_bytes(&self, bytes: &[u8]) -> Vec<TokenId> {
        let (first, others) = self.split.as_ref().map_or((&self.all, &self.all), |(first, others)| (first, others));
        let mut tokens = Vec::new();
        let mut at = 0;
        while at < bytes.len() {
            let (token, length) = self.longest(if at == 0 && AT_FIRST.get() { first } else { others }, &bytes[at..]);
            tokens.push(token);
            at += length;
        }
        tokens
    }
    fn tokenize_is_canonical(&self) -> bool {
        self.closed
    }
}

/// Whether each byte of a token is a token itself.
fn closed(words: &[Vec<u8>]) -> bool {
    let mut single = [false; 256];
    words.iter().filter(|word| word.len() == 1).for_each(|word| single[word[0] as usize] = true);
    words.iter().flatten().all(|&byte| single[byte as usize])
}

impl Vocabulary {
    /// `tokens`: bytes of each, empty for those that no answer may have. `firsts`: of those that differ there, the bytes at the beginning of an answer.
    pub fn new(tokens: &[&[u8]], firsts: &[(u32, &[u8])], ends: &[u32]) -> Result<Self> {
        let count = tokens.len();
        let is_end: HashSet<u32> = ends.iter().copied().collect();
        let mut words: Vec<Vec<u8>> = tokens.iter().enumerate().map(|(id, bytes)| if is_end.contains(&(id as u32)) { vec![] } else { usable(bytes) }).collect();
        let others = words.clone();
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
        let none = words.len() as TokenId;
        words.push(vec![MARKER]);
        let trie_of = |words: &[Vec<u8>]| TokTrie::from(&TokRxInfo::new(words.len() as u32, ends.first().copied().unwrap_or(INVALID_TOKEN)), words);
        let mut all = trie_of(&words);
        if !ends.is_empty() {
            all = all.with_eos_tokens(ends);
        }
        let closed = closed(&others);
        let split = (closed && !aliases.is_empty()).then(|| {
            let mut first = words.clone();
            aliases.iter().for_each(|&(token, _)| first[token as usize].clear());
            // Of two tokens with one text it is the one that has it everywhere.
            let plain: HashSet<Vec<u8>> = first[..count].iter().cloned().collect();
            first[count..none as usize].iter_mut().filter(|word| plain.contains(*word)).for_each(Vec::clear);
            (trie_of(&first), trie_of(&others))
        });
        let environment: TokEnv = Arc::new(Environment { all, split, closed, none });
        let capabilities = InferenceCapabilities { ff_tokens: closed, ..Default::default() };
        let mut factory = ParserFactory::new(&environment, capabilities, &SlicedBiasComputer::general_slices())?;
        factory.quiet();
        Ok(Vocabulary { factory, firsts: aliases, usable: bits })
    }
}

/// The bytes that the trie has of a token.
fn usable(bytes: &[u8]) -> Vec<u8> {
    if bytes.len() > MOST_TOKEN_BYTES || bytes.contains(&MARKER) {
        return vec![];
    }
    bytes.to_vec()
}
