// What compute tasks are, and what they hand over to the caller (COMPUTE_PARTS of src/bindings/Addon.ts).
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "../system/CompletionChannel.h"

namespace spillway {

// Output, FeedForward and Add are what Finish is where engines share each layer (DecoderSpec::shares): the first two
// leave this share's sum of a branch, which becomes that of all shares before the next one begins. Layer is Project,
// Attend and Finish in one task.
enum class ComputePart : uint8_t { Embed, Project, Attend, Finish, Head, Output, FeedForward, Add, Layer };
constexpr uint32_t kComputeParts = 9;
constexpr int32_t kNoBuffer = -1;

struct HeadResult : TaskResult {
  // Rows that sampled, in the batch's order. A token below 0 is none, for the row's logits are not finite (kNotFinite):
  // -2 - layer, where the hidden state that they come from was not finite after that layer already; -1 where it was
  // after all of them, and where nobody looked (on a device).
  std::vector<int32_t> rows, tokens, topCounts, topTokens;
  std::vector<float> logprobs, topLogprobs;
  // How likely each row's token was under the model's own distribution over those that its grammar allowed; NaN where
  // there was no other, and of rows that did not want it. Empty where none did.
  std::vector<float> certainties;
  // Where their grammars are after the token, of rows that have one (GrammarMatcher::Place, -1 of the others); empty
  // where none has. Of those that failed, why, in the same order.
  std::vector<int32_t> places;
  std::vector<std::string> failures;
  // Tokens that follow each row's token for sure, as its grammar has it: how many, and one row's after another's;
  // empty where no row has a grammar.
  std::vector<int32_t> forcedCounts, forcedTokens;
  // Which of `rows` have an embedding instead, and these one after another: [embedded, hiddenSize].
  std::vector<int32_t> embedded;
  std::vector<float> embeddings;
  // Rows that scored: handle, first position, count for each; their log-probabilities one after another, NaN where the
  // logits are not finite.
  std::vector<int32_t> scored;
  std::vector<float> scores;
};

// What was read of a square's pages on disk where ranges choose among their keys, and when: nobody waits for it.
struct PagesRead : TaskResult {
  uint64_t bytes = 0;
  double startSeconds = 0, endSeconds = 0;
  bool isAwaited() const override { return false; }
};

// What submitReadHidden() copied, what a share has embedded, or what its branch adds; where it attends to some rows,
// also what it has projected of each token, queries, keys and values, and what attention gives.
struct HiddenResult : TaskResult {
  std::vector<float> hidden;  // [tokens, hiddenSize]
};

}  // namespace spillway
