#include "Grammar.h"

#include <algorithm>
#include <limits>

#include "../system/Error.h"
#include "grammar.h"

namespace spillway {

namespace {

// What is forced beyond these comes with the next token.
constexpr size_t kMostForced = 256;

// Where the crate writes what failed.
class Failure {
 public:
  const SpillwayMessage* operator&() { return &message_; }
  const char* text() const { return text_; }

 private:
  char text_[2048] = "";
  SpillwayMessage message_{text_, sizeof text_};
};

template <typename Handle>
std::shared_ptr<void> owned(Handle* handle, void (*release)(Handle*), const Failure& failure) {
  if (handle == nullptr) throw Error(ErrorCode::InvalidArgument, failure.text());
  return {handle, [release](void* each) { release(static_cast<Handle*>(each)); }};
}

}  // namespace

#ifdef SPILLWAY_GRAMMARS

bool hasGrammars() { return true; }

Vocabulary::Vocabulary(const TokenTexts& texts) : tokens_(texts.lengths.size()) {
  const SpillwayTokens tokens{texts.bytes.data(),
                              texts.lengths.data(),
                              static_cast<uint32_t>(texts.lengths.size()),
                              texts.firstTokens.data(),
                              texts.firstBytes.data(),
                              texts.firstLengths.data(),
                              static_cast<uint32_t>(texts.firstTokens.size()),
                              texts.ends.data(),
                              static_cast<uint32_t>(texts.ends.size())};
  Failure failure;
  handle_ = owned(spillway_vocabulary(&tokens, &failure), spillway_vocabulary_free, failure);
}

Grammar::Grammar(const Vocabulary& vocabulary, GrammarKind kind, const std::string& text)
    : tokens_(vocabulary.tokens_) {
  const SpillwayText bytes{reinterpret_cast<const uint8_t*>(text.data()), text.size()};
  Failure failure;
  handle_ = owned(spillway_grammar(static_cast<SpillwayVocabulary*>(vocabulary.handle_.get()),
                                   static_cast<uint32_t>(kind), bytes, &failure),
                  spillway_grammar_free, failure);
}

void GrammarMatcher::mask(float* logits, size_t vocabulary) {
  forced_.clear();
  if (!open()) return;
  Failure failure;
  if (matcher_ == nullptr) {
    SpillwayMatcher* made = spillway_matcher(static_cast<SpillwayGrammar*>(grammar_->handle_.get()), &failure);
    if (made == nullptr) return fail(failure.text());
    matcher_ = owned(made, spillway_matcher_free, failure);
  }
  const uint32_t* bits = spillway_matcher_mask(static_cast<SpillwayMatcher*>(matcher_.get()), &failure);
  if (bits == nullptr) return fail(failure.text());
  const size_t known = grammar_->tokens_;
  for (size_t first = 0; first < vocabulary; first += 32) {
    const uint32_t word = first < known ? bits[first / 32] : 0;
    if (word == UINT32_MAX) continue;
    for (size_t i = first; i < vocabulary && i < first + 32; i++) {
      // A NaN is below nothing.
      if ((word >> (i - first) & 1) == 0 && logits[i] < std::numeric_limits<float>::infinity())
        logits[i] = -std::numeric_limits<float>::infinity();
    }
  }
}

void GrammarMatcher::append(int32_t token, size_t mostForced) {
  forced_.clear();
  if (!open() || matcher_ == nullptr) return;
  Failure failure;
  forced_.resize(std::min(mostForced, kMostForced));
  SpillwayForced forced{forced_.data(), forced_.size(), 0};
  const int32_t place = spillway_matcher_consume(static_cast<SpillwayMatcher*>(matcher_.get()),
                                                 static_cast<uint32_t>(token), &forced, &failure);
  forced_.resize(forced.count);
  if (place < 0) return fail(failure.text());
  place_ = (place & 2) != 0 ? Place::Ended : (place & 1) != 0 ? Place::Accepting : Place::Open;
}

#else

bool hasGrammars() { return false; }

Vocabulary::Vocabulary(const TokenTexts&) : tokens_(0) {
  throw Error(ErrorCode::InvalidArgument, "this build has no grammars: cargo was not found when it was made");
}
Grammar::Grammar(const Vocabulary&, GrammarKind, const std::string&) : tokens_(0) {}
void GrammarMatcher::mask(float*, size_t) {}
void GrammarMatcher::append(int32_t, size_t) {}

#endif

void GrammarMatcher::fail(const std::string& message) {
  place_ = Place::Failed;
  message_ = message;
  matcher_.reset();
}

}  // namespace spillway
