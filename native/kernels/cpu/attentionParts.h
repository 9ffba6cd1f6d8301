// What all kinds of attention share: which positions a query sees, where their keys and values are, merging partials,
// and the way through a block's context. Included by sources that are compiled for each instruction set (simd.h).
//
// What one query computes, whatever stands beside it: for every part of kPartTokens positions, from a multiple of it
// on, of which it sees some, in order,
//   score[t] = (q . k[t]) scaled, biased, or capped
//   partial  = (maximum, sum of exp(score - maximum), those weights times values)   sums lane by lane, then one tree
//   merged   = both rescaled to the larger maximum and added; the first partial as it is
// and the merged values are divided by the merged sum. Tiles of queries, key blocks and value vectors only choose what
// shares a load.
#pragma once
#include "AttentionKernels.h"
#include "prefetchLine.h"
#include "attentionSoftmax.h"
#include "window.h"

namespace spillway::SPILLWAY_ISA {

constexpr int kTileQueries = SPILLWAY_ISA_LEVEL == 2 ? 8 : 4;
static_assert(kTileQueries <= static_cast<int>(kMostTileQueries), "a tile has to fit into the workspace");
constexpr uint32_t kPartBlocks = kPartTokens / kKeyBlock;
constexpr float kLeastScaled = 1e-30f;  // below it numbers count as zero, so that the inverse of a step is finite

// After the last position that a token sees.
static inline uint32_t seenEnd(const AttentionBlock& block, uint32_t token) {
  const uint32_t position = block.firstPosition + token;
  if (block.keys == 0) return position + 1;
  return block.window != 0 && block.keys - position > block.window ? position + block.window : block.keys;
}

static inline Range visible(const AttentionBlock& block, uint32_t token, uint32_t partStart) {
  const uint32_t position = block.firstPosition + token;
  const uint32_t inWindow = spillway::firstSeen(block.window, position);
  const uint32_t first = inWindow > block.firstKey ? inWindow : block.firstKey;
  const uint32_t begin = first > partStart ? first - partStart : 0;
  const uint32_t last = seenEnd(block, token), end = last < partStart ? 0 : last - partStart;
  return {begin < kPartTokens ? begin : kPartTokens, end < kPartTokens ? end : kPartTokens};
}

// What each of Q queries from `first` on sees of a part, and the blocks of 16 that some of them sees.
template <int Q>
struct TileRanges {
  Range of[Q];
  uint32_t fromBlock, toBlock;
  TileRanges(const AttentionBlock& block, uint32_t first, uint32_t partStart) {
    for (uint32_t i = 0; i < Q; i++) of[i] = visible(block, (first + i) / block.groupHeads, partStart);
    fromBlock = of[0].begin / kKeyBlock;
    toBlock = (of[Q - 1].end + kKeyBlock - 1) / kKeyBlock;
  }
};

// The first position that is in the window of some query of the block, and the first that some of them sees.
static inline uint32_t firstInWindow(const AttentionBlock& block) {
  return spillway::firstSeen(block.window, block.firstPosition);
}
static inline uint32_t firstSeenBy(const AttentionBlock& block) {
  const uint32_t inWindow = firstInWindow(block);
  return inWindow > block.firstKey ? inWindow : block.firstKey;
}

// ---- Where keys and values are.

// Decoding reads every key and value once, and pages lie anywhere: without asking for memory early each of them would
// begin by waiting for it. While a block of 16 keys or values is worked on, the one that comes Format::kBlocksAhead
// later is asked for, as many bytes of it as of this one.

// Asks for `bytes` of memory, at least one and whole lines.
static inline void prefetch(const uint8_t* ahead, size_t bytes) {
  for (size_t i = 0; i < bytes; i += kCacheLine) prefetchLine(ahead + i);
}

// The blocks of 16 keys and values of one part, those that some query sees: `fromBlock` to `toBlock`. After the keys
// come the first values, and after the values the next part's keys, to be asked for.
struct Part {
  uint32_t start;  // its first position
  uint32_t fromBlock, toBlock;
  bool allValues;  // are read, after the keys
  const uint8_t* keys[kPartBlocks + kMostBlocksAhead];
  const uint8_t* values[kPartBlocks + kMostBlocksAhead];
};

struct BlockPlaces {
  explicit BlockPlaces(const AttentionBlock& attention)
      : pages(attention.pages),
        blocksPerPage(attention.layout.pageTokens / kKeyBlock),
        keysOffset(cacheKeysOffset(attention.layout, attention.kvHead)),
        valuesOffset(cacheValuesOffset(attention.layout, attention.kvHead)),
        keyBytes(cacheKeyBlockBytes(attention.layout)),
        valueBytes(cacheValueBlockBytes(attention.layout)),
        next(attention.next) {}

  // The part that begins at `start`, of the blocks of 16 positions from `first` to `end`, counted from position 0;
  // after it `blocksAhead` blocks.
  void locate(uint32_t start, uint32_t first, uint32_t end, uint32_t blocksAhead, Part* part) const {
    const uint32_t before = start / kKeyBlock;
    part->start = start;
    part->fromBlock = first > before ? first - before : 0;
    part->toBlock = end - before < kPartBlocks ? end - before : kPartBlocks;
    uint32_t page = (before + part->fromBlock) / blocksPerPage, inPage = (before + part->fromBlock) % blocksPerPage;
    const uint32_t last =
        part->toBlock + (before + part->toBlock + blocksAhead <= end ? blocksAhead : end - before - part->toBlock);
    for (uint32_t b = part->fromBlock; b < last; b++) {
      const uint8_t* keys = pages[page] + keysOffset + inPage * keyBytes;
      if (b < part->toBlock) {
        part->keys[b] = keys;
        part->values[b] = pages[page] + valuesOffset + inPage * valueBytes;
      } else {
        part->values[b] = keys;
      }
      if (++inPage == blocksPerPage) inPage = 0, page++;
    }
    const uint32_t blocks = part->toBlock - part->fromBlock;
    for (uint32_t i = 0; i < blocksAhead; i++)
      part->keys[part->toBlock + i] = part->values[part->fromBlock + (i < blocks ? i : blocks - 1)];
    for (uint32_t b = last; b < part->toBlock + blocksAhead; b++)
      part->values[b] = next[b - last] != nullptr ? next[b - last] : part->values[part->toBlock - 1];
  }

  const uint8_t* const* pages;
  uint32_t blocksPerPage;
  size_t keysOffset, valuesOffset, keyBytes, valueBytes;
  const uint8_t* const* next;
};

// ---- What a block keeps.

struct Workspace {
  float* part;              // [attentionPartFloats()]
  float *queries, *merged;  // [queries][cacheValueStride()]
  float *maximum, *sum;     // [queries]
  float* quantised;         // [queries][attentionQuantisedFloats()]
  float *scores, *partial;  // of a tile: [queries][kPartTokens], [queries][cacheValueStride()]
  float* weights;           // of a tile: [queries][attentionWeightFloats()]
};

static Workspace carve(const AttentionBlock& block, uint32_t queryCount) {
  const size_t queries = (static_cast<size_t>(queryCount) + 15) / 16 * 16;
  const size_t stride = cacheValueStride(block.layout);
  Workspace work;
  float* next = block.workspace;
  work.part = next, next += attentionPartFloats(block.layout);
  work.queries = next, next += queries * stride;
  work.merged = next, next += queries * stride;
  work.maximum = next, next += queries;
  work.sum = next, next += queries;
  work.scores = next, next += kMostTileQueries * kPartTokens;
  work.partial = next, next += kMostTileQueries * stride;
  work.weights = next, next += kMostTileQueries * attentionWeightFloats(block.layout);
  work.quantised = next;
  return work;
}

static inline void fill(float* p, float value, size_t n) {
  for (size_t i = 0; i < n; i++) p[i] = value;
}

// Whether a query has seen nothing so far, or nothing that counts.
static inline bool isNew(const Workspace& work, uint32_t q) { return work.sum[q] == 0.0f; }

// Adds the partials of Q queries, beginning with `first`, to what is merged so far.
template <int Q>
static void combineSplits(const Workspace& work, uint32_t first, const float* partMaximum, const float* partSum,
                          size_t stride) {
  const f32x16 before = loadPartial(work.maximum + first, Q), part = loadPartial(partMaximum, Q),
               highest = max(before, part);
  float mergedFactors[16], partialFactors[16];
  store(mergedFactors, exp(sub(before, highest)));
  store(partialFactors, exp(sub(part, highest)));
  for (int q = 0; q < Q; q++) {
    float* merged = work.merged + (first + q) * stride;
    const float* added = work.partial + q * stride;
    if (isNew(work, first + q)) {
      for (size_t d = 0; d < stride; d += 16) store(merged + d, load(added + d));
      work.maximum[first + q] = partMaximum[q];
      work.sum[first + q] = partSum[q];
      continue;
    }
    const f32x16 mergedFactor = set1(mergedFactors[q]), partialFactor = set1(partialFactors[q]);
    for (size_t d = 0; d < stride; d += 16)
      store(merged + d, fma(load(added + d), partialFactor, mul(load(merged + d), mergedFactor)));
    work.sum[first + q] = __builtin_fmaf(partSum[q], partialFactors[q], work.sum[first + q] * mergedFactors[q]);
    if (partMaximum[q] > work.maximum[first + q]) work.maximum[first + q] = partMaximum[q];
  }
}

// What a query's scores get for each key, by the key's position, or null.
static inline const float* biasesOf(const AttentionBlock& block, uint32_t query) {
  const uint32_t token = query / block.groupHeads, head = query % block.groupHeads;
  if (block.biases != nullptr) return block.biases + head * block.biasHeadStride + token * block.biasStride;
  if (block.distances == nullptr) return nullptr;
  return block.distances + head * block.distanceStride + block.distanceStride / 2 - (block.firstPosition + token);
}

static inline ScoreRule ruleOf(const AttentionBlock& block, uint32_t query) {
  const bool biased = block.slopes != nullptr;
  return {block.scale,
          biased,
          biased && block.roundToBfloat16,
          biased ? block.slopes[query % block.groupHeads] : 0.0f,
          static_cast<float>(block.firstPosition + query / block.groupHeads),
          block.capScale,
          biasesOf(block, query)};
}

// A head's queries of two tokens lie a whole row apart, too far for the processor's own prefetching.
constexpr uint32_t kQueryTokensAhead = 8;

// Copies the block's queries to where they are worked on.
template <typename Format>
static void takeQueries(const AttentionBlock& block, const Workspace& work) {
  const size_t stride = cacheValueStride(block.layout), headDim = block.layout.headDim;
  const uint32_t group = block.groupHeads;
  for (uint32_t q = 0; q < block.tokens * group; q++) {
    if (q % group == 0 && q / group + kQueryTokensAhead < block.tokens)
      prefetch(reinterpret_cast<const uint8_t*>(block.queries + (q / group + kQueryTokensAhead) * block.queryStride),
               group * headDim * sizeof(float));
    const float* from = block.queries + q / group * block.queryStride + q % group * headDim;
    for (size_t d = 0; d < headDim; d += 16)
      store(work.queries + q * stride + d, loadPartial(from + d, headDim - d < 16 ? headDim - d : 16));
    Format::prepareQuery(block.layout, work, q);
  }
}

// A query's sum of weights, its sink's among them: far above all scores it is infinite, and the outputs are zero.
static inline float sumWithSink(const AttentionBlock& block, const Workspace& work, uint32_t q) {
  if (block.sinks == nullptr) return work.sum[q];
  float weights[16];
  store(weights, exp(set1(block.sinks[q % block.groupHeads] - work.maximum[q])));
  return work.sum[q] + weights[0];
}

// outputs = sums over values / sums of weights, or both by themselves
static inline void writeOutputs(const AttentionBlock& block, const Workspace& work) {
  const size_t stride = cacheValueStride(block.layout), headDim = block.layout.headDim;
  const uint32_t group = block.groupHeads;
  for (uint32_t q = 0; q < block.tokens * group; q++) {
    float* to = block.outputs + q / group * block.outputStride + q % group * headDim;
    if (block.partials != nullptr) {
      float* partial = block.partials + q / group * block.partialStride + 2 * (q % group);
      partial[0] = work.maximum[q];
      partial[1] = work.sum[q];
    }
    const f32x16 sum = set1(block.partials != nullptr ? 1.0f : sumWithSink(block, work, q));
    for (size_t d = 0; d < headDim; d += 16)
      storePartial(to + d, div(load(work.merged + q * stride + d), sum), headDim - d < 16 ? headDim - d : 16);
  }
}

// body.tile<Q>(q) for the queries from `q` to `last`, in the largest tiles that there are.
template <typename Body>
static inline void forTiles(uint32_t q, uint32_t last, const Body& body) {
  for (; q + kTileQueries <= last; q += kTileQueries) body.template tile<kTileQueries>(q);
  if (kTileQueries > 4 && q + 4 <= last) body.template tile<4>(q), q += 4;
  if (q + 3 == last) body.template tile<3>(q);
  if (q + 2 == last) body.template tile<2>(q);
  if (q + 1 == last) body.template tile<1>(q);
}

// What a Format is: how keys and values of one type are worked on.
//   kBlocksAhead                     at most kMostBlocksAhead
//   prepareQuery(layout, work, q)    after work.queries[q] has been filled
//   preparePart(layout, work, part)  before queries meet it
//   score<Q>(layout, work, part, first, fromBlock, toBlock, scores, scoreStride)
//                                    plain products of Q queries with blocks of 16 keys of a part, to
//                                    scores[16 (block - fromBlock) + lane]
//   sum<Q>(block, work, part, first, partial)
//                                    the weights in work.scores times the values that each query sees
//   kSplitsParts                     whether a part's sum can be made piece by piece:
//   add<Q>(part, valueStride, weights, begin, end, sums)
//                                    adds the values of these positions
//   Gather                           values of single tokens (sparseAttention.h)
template <typename Format>
struct PartTiles {
  const AttentionBlock& block;
  const Workspace& work;
  const Part& part;
  template <int Q>
  void tile(uint32_t first) const {
    const uint32_t group = block.groupHeads;
    const size_t stride = cacheValueStride(block.layout);
    const uint32_t from = visible(block, first / group, part.start).begin / kKeyBlock;
    const uint32_t to = (visible(block, (first + Q - 1) / group, part.start).end + kKeyBlock - 1) / kKeyBlock;
    Format::template score<Q>(block.layout, work, part, first, from, to, work.scores + from * kKeyBlock, kPartTokens);
    float maximum[Q], sum[Q];
    bool allNew = true;
    for (uint32_t i = 0; i < Q; i++) {
      softmaxPartial(ruleOf(block, first + i), work.scores + i * kPartTokens, part.start,
                     visible(block, (first + i) / group, part.start), &maximum[i], &sum[i]);
      allNew = allNew && isNew(work, first + i);
    }
    if (allNew) {
      // As in nearly all short contexts: nothing to merge with.
      Format::template sum<Q>(block, work, part, first, work.merged + first * stride);
      for (uint32_t i = 0; i < Q; i++) work.maximum[first + i] = maximum[i], work.sum[first + i] = sum[i];
      return;
    }
    Format::template sum<Q>(block, work, part, first, work.partial);
    combineSplits<Q>(work, first, maximum, sum, stride);
  }
};

// What a block's queries see of one part.
template <typename Format>
static void attendPart(const AttentionBlock& block, const Workspace& work, const Part& part) {
  // Ranges move on with the token, so the tokens that see anything of this part are consecutive.
  uint32_t from = 0, to = block.tokens;
  while (visible(block, from, part.start).end == 0) from++;
  while (visible(block, to - 1, part.start).begin == kPartTokens) to--;
  Format::preparePart(block.layout, work, part);
  forTiles(from * block.groupHeads, to * block.groupHeads, PartTiles<Format>{block, work, part});
}

// Some consecutive tokens of a block as a block of their own.
static inline AttentionBlock tokensOf(const AttentionBlock& block, uint32_t first, uint32_t count) {
  AttentionBlock some = block;
  some.tokens = count;
  some.firstPosition = block.firstPosition + first;
  some.queries = block.queries + first * block.queryStride;
  some.outputs = block.outputs + first * block.outputStride;
  if (block.partials != nullptr) some.partials = block.partials + first * block.partialStride;
  if (block.otherScores != nullptr) some.otherScores = block.otherScores + first * block.otherTokenStride;
  if (block.biases != nullptr) some.biases = block.biases + first * block.biasStride;
  if (block.cuts != nullptr) some.cuts = block.cuts + first * block.partialStride / 2;
  return some;
}

// How many of a block's first tokens are a prompt's.
static inline uint32_t promptTokensOf(const AttentionBlock& block) {
  if (block.denseBefore <= block.firstPosition) return 0;
  const uint32_t left = block.denseBefore - block.firstPosition;
  return left < block.tokens ? left : block.tokens;
}

// Every query takes the values of all keys that it sees.
template <typename Format>
static void attendDensely(const AttentionBlock& block) {
  const uint32_t queries = block.tokens * block.groupHeads;
  const Workspace work = carve(block, queries);
  takeQueries<Format>(block, work);
  fill(work.maximum, kLowest, queries);
  fill(work.sum, 0.0f, queries);

  const uint32_t firstSeen = firstSeenBy(block), end = seenEnd(block, block.tokens - 1);
  const BlockPlaces places(block);
  Part part;
  part.allValues = true;
  for (uint32_t start = firstSeen / kPartTokens * kPartTokens; start < end; start += kPartTokens) {
    places.locate(start, firstSeen / kKeyBlock, (end + kKeyBlock - 1) / kKeyBlock, Format::kBlocksAhead, &part);
    attendPart<Format>(block, work, part);
  }
  writeOutputs(block, work);
}

}  // namespace spillway::SPILLWAY_ISA
