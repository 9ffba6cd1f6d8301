#include "Attention.h"

#include <algorithm>
#include <string>

#include "../../system/Error.h"
#include "../../system/ThreadPool.h"
#include "window.h"

namespace spillway {
namespace {

struct Run {
  const CacheLayout& layout;
  const AttentionShape& shape;
  const AttentionRow* rows;
  size_t queryStride, outputStride;
  const Kernels& kernels;
  bool exact;
  const size_t* firstToken;  // [rowCount + 1]: tokens before each row
  // Rows in a row that have their first keys in common are a bundle; most rows are one by themselves.
  const size_t* firstRow;    // [bundles + 1]: of each bundle
  const size_t* firstBlock;  // [bundles + 1]: blocks of queries before each bundle
  size_t bundles;
  uint32_t blockTokens, promptBlockTokens;
  float* workspaces;
  size_t workspaceFloats, sparseFloats;  // of one worker
};

// So many shares a thread, at least, for all threads to end together.
constexpr size_t kSharesPerThread = 8;
// Blocks of prompts are the larger the better, so that fewer shares have to do.
constexpr size_t kPromptSharesPerThread = 4;

// Whether a row's first tokens are attended to by rounded keys and values.
bool isPrompt(const Run& run, const AttentionRow& row) {
  return roundsPrompts(run.layout, run.exact) && row.firstPosition < row.denseBefore;
}
uint32_t blockTokensOf(const Run& run, size_t bundle) {
  return isPrompt(run, run.rows[run.firstRow[bundle]]) ? run.promptBlockTokens : run.blockTokens;
}

size_t alignedFloats(size_t floats) { return Scratch::aligned(floats * sizeof(float)) / sizeof(float); }

size_t denseFloats(const CacheLayout& layout, uint32_t heads) {
  return alignedFloats(attentionWorkspaceFloats(layout, heads / layout.kvHeads));
}
size_t sparseFloats(size_t tokens) { return alignedFloats(attentionSparseFloats(tokens)); }

// The longest context of a query that is sparse; 0 if none is.
size_t sparseTokensOf(const AttentionShape& shape, const AttentionRow* rows, size_t rowCount) {
  size_t most = 0;
  if (shape.keep >= 1.0f) return most;
  for (size_t row = 0; row < rowCount; row++) {
    const size_t end = static_cast<size_t>(rows[row].firstPosition) + rows[row].tokens;
    if (rows[row].tokens > 0 && end > rows[row].denseBefore) most = std::max(most, end);
  }
  return most;
}

// A block of queries of a bundle, and the KV head that they meet.
struct Place {
  size_t row;         // of the first token
  size_t token, end;  // counted through all rows
  uint32_t kvHead;
};

Place placeOf(const Run& run, size_t index) {
  const size_t block = index / run.layout.kvHeads;
  const size_t bundle =
      static_cast<size_t>(std::upper_bound(run.firstBlock, run.firstBlock + run.bundles + 1, block) - run.firstBlock) -
      1;
  const size_t firstRow = run.firstRow[bundle], lastRow = run.firstRow[bundle + 1];
  const uint32_t blockTokens = blockTokensOf(run, bundle);
  const size_t token = run.firstToken[firstRow] + (block - run.firstBlock[bundle]) * blockTokens;
  const size_t row =
      static_cast<size_t>(std::upper_bound(run.firstToken + firstRow, run.firstToken + lastRow + 1, token) -
                          run.firstToken) -
      1;
  return {row, token, std::min(token + blockTokens, run.firstToken[lastRow]),
          static_cast<uint32_t>(index % run.layout.kvHeads)};
}

// That of the next index: mostly the same block's next KV head.
Place placeAfter(const Run& run, size_t index, Place place) {
  if (++place.kvHead < run.layout.kvHeads) return place;
  return placeOf(run, index + 1);
}

// Where the first keys are that are read at a place, block by block; null beyond those.
void firstKeys(const Run& run, const Place& place, const uint8_t* (&keys)[kMostBlocksAhead]) {
  const AttentionRow& range = run.rows[place.row];
  const uint32_t position = range.firstPosition + static_cast<uint32_t>(place.token - run.firstToken[place.row]),
                 blocksPerPage = run.layout.pageTokens / kKeyBlock;
  const uint32_t first = std::max(range.firstKey, firstSeen(run.shape.window, position)) / kKeyBlock;
  const size_t offset = cacheKeysOffset(run.layout, place.kvHead), bytes = cacheKeyBlockBytes(run.layout);
  uint32_t page = first / blocksPerPage, inPage = first % blocksPerPage;
  for (uint32_t i = 0; i < kMostBlocksAhead && first + i <= position / kKeyBlock; i++) {
    keys[i] = range.pages[page] + offset + inPage * bytes;
    if (++inPage == blocksPerPage) inPage = 0, page++;
  }
}

// Some tokens of one row, and the KV head that they meet.
void describe(const Run& run, size_t row, uint32_t kvHead, uint32_t firstToken, uint32_t tokens,
              AttentionBlock* block) {
  const AttentionRow& range = run.rows[row];
  AttentionBlock& task = *block;
  const uint32_t group = run.shape.heads / run.layout.kvHeads;
  const size_t firstElement = static_cast<size_t>(kvHead) * group * run.layout.headDim;
  task.layout = run.layout;
  task.pages = range.pages;
  task.kvHead = kvHead;
  task.groupHeads = group;
  task.queries = range.queries + firstToken * run.queryStride + firstElement;
  task.queryStride = run.queryStride;
  task.outputs = range.outputs + firstToken * run.outputStride + firstElement;
  task.outputStride = run.outputStride;
  task.firstPosition = range.firstPosition + firstToken;
  task.tokens = tokens;
  const bool capped = run.shape.softCap > 0;
  task.capScale = capped ? run.shape.scale / run.shape.softCap : 0.0f;
  task.scale = capped ? run.shape.softCap : run.shape.scale;
  task.window = run.shape.window;
  task.slopes = run.shape.alibiSlopes == nullptr ? nullptr : run.shape.alibiSlopes + kvHead * group;
  task.roundToBfloat16 = run.shape.alibiRoundToBfloat16;
  task.sinks = run.shape.sinks == nullptr ? nullptr : run.shape.sinks + kvHead * group;
  task.distances =
      run.shape.distances == nullptr ? nullptr : run.shape.distances + kvHead * group * run.shape.distanceStride;
  task.distanceStride = run.shape.distanceStride;
  task.biases =
      range.biases == nullptr
          ? nullptr
          : range.biases + (static_cast<size_t>(kvHead) * group * range.tokens + firstToken) * range.biasStride;
  task.biasStride = range.biasStride;
  task.biasHeadStride = range.tokens * range.biasStride;
  task.keys = range.keys;
  task.exact = run.exact;
  task.keep = run.shape.keep;
  task.denseBefore = range.denseBefore;
  task.firstKey = range.firstKey;
  const size_t firstQuery = static_cast<size_t>(firstToken) * run.shape.heads + static_cast<size_t>(kvHead) * group;
  task.partials = range.partials == nullptr ? nullptr : range.partials + 2 * firstQuery;
  task.partialStride = 2 * static_cast<size_t>(run.shape.heads);
  task.otherScores = range.otherScores == nullptr ? nullptr : range.otherScores + firstQuery * range.otherStride;
  task.otherStride = range.otherStride;
  task.otherTokenStride = range.otherStride * run.shape.heads;
  task.cuts = range.cuts == nullptr ? nullptr : range.cuts + firstQuery;
  task.chosen =
      range.chosen == nullptr ? nullptr : range.chosen + kvHead * chosenWords(range.firstPosition, range.tokens);
  std::fill(std::begin(task.next), std::end(task.next), nullptr);
}

// `next`: the place that the same thread is most likely to take after this one, or null.
void attendOne(const Run& run, const Place& place, const Place* next, unsigned worker) {
  AttentionBlock tasks[kMostBlockRows];
  uint32_t count = 0;
  for (size_t token = place.token, row = place.row; token < place.end; token = run.firstToken[++row]) {
    const uint32_t firstToken = static_cast<uint32_t>(token - run.firstToken[row]),
                   tokens = static_cast<uint32_t>(std::min(place.end, run.firstToken[row + 1]) - token);
    if (tokens > 0) describe(run, row, place.kvHead, firstToken, tokens, &tasks[count++]);
  }
  if (next != nullptr) firstKeys(run, *next, tasks[count - 1].next);
  tasks[0].workspace = run.workspaces + worker * (run.workspaceFloats + run.sparseFloats);
  tasks[0].sparseSpace = tasks[0].workspace + run.workspaceFloats;
  run.kernels.attention.attendBlocks(tasks, count);
}

// Whether rows have so many of their first keys in common, seen by all of their tokens, that they are better looked at
// together. Of prompts whole parts are shared alone.
constexpr uint32_t kLeastCommonTokens = 64;

bool attendsTogether(const Run& run, const AttentionRow& a, const AttentionRow& b) {
  const auto end = [](const AttentionRow& row) { return row.firstPosition + row.tokens; };
  const auto isDense = [&](const AttentionRow& row) { return run.shape.keep >= 1.0f || end(row) <= row.denseBefore; };
  const bool prompt = isPrompt(run, a);
  const uint32_t least = prompt ? kPartTokens : kLeastCommonTokens;
  const auto suits = [&](const AttentionRow& row) {
    return row.tokens > 0 && row.firstPosition >= least && row.firstKey == 0 && row.partials == nullptr &&
           row.cuts == nullptr && (run.shape.window == 0 || end(row) <= windowTokens(run.shape.window)) &&
           (prompt ? isPrompt(run, row) && end(row) <= row.denseBefore
                   : !isPrompt(run, row) && (isDense(row) || row.firstPosition >= row.denseBefore));
  };
  // Rows of many tokens fill their tiles by themselves.
  const uint32_t blockTokens = prompt ? run.promptBlockTokens : run.blockTokens;
  if (std::min(a.tokens, b.tokens) >= blockTokens || !suits(a) || !suits(b) || isDense(a) != isDense(b)) return false;
  for (uint32_t page = 0; page * run.layout.pageTokens < least; page++)
    if (a.pages[page] != b.pages[page]) return false;
  return true;
}

}  // namespace

size_t cachePageBytes(const CacheLayout& layout) {
  if (layout.pageTokens == 0 || layout.pageTokens % kKeyBlock != 0 || layout.pageTokens > kMaxPageTokens)
    throw Error(ErrorCode::InvalidArgument, "a cache page holds " + std::to_string(layout.pageTokens) +
                                                " tokens; expected a multiple of 16 up to 4096");
  if (layout.latent && (isQuantised(layout.type) || layout.kvHeads != 1 || layout.headDim > kMaxLatentDim))
    throw Error(ErrorCode::InvalidArgument, "latent rows have " + std::to_string(layout.kvHeads) + " heads of " +
                                                std::to_string(layout.headDim) +
                                                " elements; expected one of at most 1024, in floats of 32 or 16 bits");
  if (layout.headDim == 0 || (layout.headDim > kMaxHeadDim && !layout.latent))
    throw Error(ErrorCode::InvalidArgument,
                "attention heads have " + std::to_string(layout.headDim) + " elements; expected 1 to 512");
  if (layout.kvHeads == 0)
    throw Error(ErrorCode::InvalidArgument, "attention has no key-value heads; expected at least 1");
  return layout.kvHeads * cacheHeadBytes(layout);
}

void cacheStore(const Kernels& kernels, const CacheLayout& layout, uint8_t* page, uint32_t index, const float* keys,
                const float* values) {
  kernels.attention.storeToken(layout, page, index, keys, values);
}

size_t attentionScratchBytes(const CacheLayout& layout, uint32_t heads, size_t rowCount, unsigned threads,
                             size_t sparseTokens) {
  const size_t floats = denseFloats(layout, heads) + sparseFloats(sparseTokens);
  return 3 * Scratch::aligned((rowCount + 1) * sizeof(size_t)) + threads * floats * sizeof(float);
}

void attend(const Compute& compute, const CacheLayout& layout, const AttentionShape& shape, const AttentionRow* rows,
            size_t rowCount, size_t queryStride, size_t outputStride, Scratch& scratch) {
  const size_t mark = scratch.used();
  size_t* firstToken = scratch.take<size_t>(rowCount + 1);
  size_t* firstRow = scratch.take<size_t>(rowCount + 1);
  size_t* firstBlock = scratch.take<size_t>(rowCount + 1);
  const size_t dense = denseFloats(layout, shape.heads), sparse = sparseFloats(sparseTokensOf(shape, rows, rowCount));
  float* workspaces = scratch.take<float>((dense + sparse) * compute.pool.threads());

  const uint32_t group = shape.heads / layout.kvHeads;
  Run run = {layout,
             shape,
             rows,
             queryStride,
             outputStride,
             compute.kernels,
             compute.precision == Precision::Float32,
             firstToken,
             firstRow,
             firstBlock,
             0,
             attentionBlockTokens(kQueriesPerBlock, group),
             attentionBlockTokens(kPromptQueries, group),
             workspaces,
             dense,
             sparse};
  bool prompts = false;
  firstToken[0] = 0;
  for (size_t row = 0; row < rowCount; row++) {
    firstToken[row + 1] = firstToken[row] + rows[row].tokens;
    prompts = prompts || isPrompt(run, rows[row]);
    // A prompt's block may be of all rows of a bundle.
    const bool full = row > 0 && isPrompt(run, rows[row]) && row - firstRow[run.bundles - 1] == kMostBlockRows;
    if (row == 0 || full || !attendsTogether(run, rows[row - 1], rows[row])) firstRow[run.bundles++] = row;
  }
  firstRow[run.bundles] = rowCount;
  const size_t threads = compute.pool.threads();
  // Queries of several rows fill whole tiles where a block holds some; and bundles are fewer than their rows: where
  // threads would go without, blocks of fewer tokens, down to one tile.
  for (uint32_t tokens = run.blockTokens; run.bundles < rowCount && tokens > 0; tokens--) {
    if (tokens * group % kMostTileQueries != 0) continue;
    run.blockTokens = tokens;
    break;
  }
  for (;;) {
    firstBlock[0] = 0;
    for (size_t bundle = 0; bundle < run.bundles; bundle++) {
      const size_t tokens = firstToken[firstRow[bundle + 1]] - firstToken[firstRow[bundle]];
      const uint32_t blockTokens = blockTokensOf(run, bundle);
      firstBlock[bundle + 1] = firstBlock[bundle] + (tokens + blockTokens - 1) / blockTokens;
    }
    const size_t shares = firstBlock[run.bundles] * layout.kvHeads;
    const bool fewerOfPrompts = prompts && shares < kPromptSharesPerThread * threads &&
                                run.promptBlockTokens * group > kQueriesPerBlock && run.promptBlockTokens > 1;
    const bool fewer = run.bundles < rowCount && shares < 2 * threads && run.blockTokens * group > kMostTileQueries &&
                       run.blockTokens > 1;
    if (!fewerOfPrompts && !fewer) break;
    if (fewerOfPrompts) run.promptBlockTokens /= 2;
    if (fewer) run.blockTokens /= 2;
  }
  const size_t blocks = firstBlock[run.bundles];
  // A thread takes a row's KV heads one after another where there is work enough for all threads, so that it knows what
  // to ask memory for next.
  const size_t all = blocks * layout.kvHeads;
  const size_t span = std::max<size_t>(1, std::min<size_t>(layout.kvHeads, all / (threads * kSharesPerThread)));
  compute.pool.parallelFor((all + span - 1) / span, [&run, all, span](size_t share, unsigned worker) {
    const size_t first = share * span, last = std::min(all, first + span);
    Place place = placeOf(run, first), next = place;
    for (size_t index = first; index < last; index++, place = next) {
      const bool isLast = index + 1 == all;
      if (!isLast) next = placeAfter(run, index, place);
      attendOne(run, place, isLast ? nullptr : &next, worker);
    }
  });
  scratch.release(mark);
}

}  // namespace spillway
