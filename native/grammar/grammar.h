/* The crate's face. Messages are cut to their room; a failed call has written one. No function may be called by two
 * threads with one matcher. */
#pragma once
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct SpillwayVocabulary SpillwayVocabulary;
typedef struct SpillwayGrammar SpillwayGrammar;
typedef struct SpillwayMatcher SpillwayMatcher;

typedef struct {
  const uint8_t* bytes; /* UTF-8 */
  size_t length;
} SpillwayText;

typedef struct {
  char* text;
  size_t room;
} SpillwayMessage;

/* Bytes of tokens, one after another; of those that no answer may have, none. */
typedef struct {
  const uint8_t* tokenBytes;
  const uint32_t* tokenLengths;
  uint32_t tokens;
  /* Tokens that add another text where an answer begins, and that. */
  const uint32_t* firstTokens;
  const uint8_t* firstBytes;
  const uint32_t* firstLengths;
  uint32_t firsts;
  const uint32_t* ends;
  uint32_t endCount;
} SpillwayTokens;

/* Null if it failed. */
SpillwayVocabulary* spillway_vocabulary(const SpillwayTokens* tokens, const SpillwayMessage* message);
void spillway_vocabulary_free(SpillwayVocabulary* vocabulary);

/* kind: 0 JSON Schema, 1 regular expression, 2 Lark, 3 choices (a JSON array of strings), 4 composed (JSON: "lark", a
 * grammar in which "schemas" are @s0, @s1, …). Any thread. Null if it failed. Keeps what it needs of the vocabulary. */
SpillwayGrammar* spillway_grammar(const SpillwayVocabulary* vocabulary, uint32_t kind, SpillwayText text,
                                  const SpillwayMessage* message);
void spillway_grammar_free(SpillwayGrammar* grammar);

/* One row's place in the grammar, before its first token. Any thread. Null if it failed. Keeps what it needs of the
 * grammar. */
SpillwayMatcher* spillway_matcher(const SpillwayGrammar* grammar, const SpillwayMessage* message);
void spillway_matcher_free(SpillwayMatcher* matcher);

/* The tokens that may come next, a bit each, 32 a word, from the lowest: valid until the next call. Never none. Null if
 * it failed. */
const uint32_t* spillway_matcher_mask(SpillwayMatcher* matcher, const SpillwayMessage* message);

/* Tokens that must come next: written there, as many as there is room for. */
typedef struct {
  uint32_t* tokens;
  size_t room;
  size_t count;
} SpillwayForced;

/* Goes on after a token of the mask, and after those that must follow it, as far as there is room for them. -1:
   failed. Else bits: 1, the text so far is a whole one; 2, and nothing can follow it. */
int32_t spillway_matcher_consume(SpillwayMatcher* matcher, uint32_t token, SpillwayForced* forced,
                                 const SpillwayMessage* message);

#ifdef __cplusplus
}
#endif
