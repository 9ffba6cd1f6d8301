// Constrained decoding: grammars over a tokenizer's tokens, and sequences' places in them. A thin face of the crate
// here (grammar.h).
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace spillway {

// Whether this build has them. Where it has not, vocabularies and grammars are refused with Error(InvalidArgument).
bool hasGrammars();

// Bytes of each token, one after another; of tokens that no answer may have, none.
struct TokenTexts {
  std::vector<uint8_t> bytes;
  std::vector<uint32_t> lengths;
  // Tokens that add another text where an answer begins, and that.
  std::vector<uint32_t> firstTokens;
  std::vector<uint8_t> firstBytes;
  std::vector<uint32_t> firstLengths;
  std::vector<uint32_t> ends;
};

enum class GrammarKind : uint32_t { JsonSchema, Regex, Lark, Choices, Composed };

// Immutable.
class Vocabulary {
 public:
  // Throws Error(InvalidArgument).
  explicit Vocabulary(const TokenTexts& texts);
  size_t tokens() const { return tokens_; }

 private:
  friend class Grammar;
  size_t tokens_;
  std::shared_ptr<void> handle_;
};

// Immutable: any number of threads may make matchers of it.
class Grammar {
 public:
  // Takes milliseconds, seconds at worst. Throws Error(InvalidArgument) for a text that is none of its kind, has what
  // is not supported, is beyond a limit, or that no answer of the vocabulary's tokens fulfils.
  Grammar(const Vocabulary& vocabulary, GrammarKind kind, const std::string& text);
  size_t tokens() const { return tokens_; }

 private:
  friend class GrammarMatcher;
  size_t tokens_;
  std::shared_ptr<void> handle_;
};

// One sequence's place in its grammar. By one thread at a time.
class GrammarMatcher {
 public:
  enum class Place : uint8_t {
    Open,       // the answer is not a whole one
    Accepting,  // it is, and can go on
    Ended,      // it is, and cannot
    Failed,     // the grammar went beyond a limit, or no token could come next: message() says which
  };

  explicit GrammarMatcher(std::shared_ptr<const Grammar> grammar) : grammar_(std::move(grammar)) {}

  // Logits of tokens that may not come next become -infinity; those that are NaN or +infinity stay, so that they show.
  // Afterwards the place may be Failed; nothing is changed where it is that or Ended.
  void mask(float* logits, size_t vocabulary);
  // Goes on after a token that mask() has left, and after those that must follow it, of which mask() would leave each
  // alone: at most so many.
  void append(int32_t token, size_t mostForced = 0);
  // Those, of the last append().
  const std::vector<uint32_t>& forced() const { return forced_; }
  Place place() const { return place_; }
  const std::string& message() const { return message_; }

 private:
  bool open() const { return place_ == Place::Open || place_ == Place::Accepting; }
  void fail(const std::string& message);

  std::shared_ptr<const Grammar> grammar_;
  std::shared_ptr<void> matcher_;  // made when it is first needed, by whoever computes
  Place place_ = Place::Open;
  std::vector<uint32_t> forced_;
  std::string message_;
};

}  // namespace spillway
