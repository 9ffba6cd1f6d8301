// Top-k sparse attention (FlexGen, section 4.2): a query scores every key that it sees, and takes the values of the best ones alone.
// Included by sources that are compiled for each instruction set.
#pragma once
#include "attentionParts.h"

namespace spillway::SPILLWAY_ISA {

// How many of `seen` keys a query keeps: keep * seen, rounded up; the factor takes back what rounding `keep` to a float may have added.
static inline uint32_t keptKeys(float keep, uint32_t seen) {
  const double kept = static_cast<double>(keep) * (1.0 - 1e-6) * seen;
  const uint32_t whole = static_cast<uint32_t>(kept);
  const uint32_t count = whole < kept ? whole + 1 : whole;
  return count < 1 ? 1 : count < seen ? count : seen;
}

// Floats as integers in the same order, and back.
static inline int32_t orderOf(float x) {
  const int32_t bits = static_cast<int32_t>(bitsOfFloat(x));
  return bits ^ (bits >> 31 & 0x7fffffff);
}
static inline float atOrder(int64_t order) {
  const int32_t bits = static_cast<int32_t>(order);
  return floatFromBits(static_cast<uint32_t>(bits ^ (bits >> 31 & 0x7fffffff)));
}

static inline uint32_t countFrom(const float* scores, uint32_t n, float threshold) {
  const f32x16 least = set1(threshold), one = set1(1.0f);
  f32x16 below = zero();
  uint32_t i = 0;
  for (; i + 16 <= n; i += 16) below = add(below, selectLess(load(scores + i), least, one, zero()));
  if (i < n) below = add(below, selectLess(loadPartial(scores + i, n - i, kInfinity), least, one, zero()));
  return n - static_cast<uint32_t>(reduceAdd(below));
}

// Indices of the `count` largest of n scores, ascending; of equal ones the later. NaN counts as largest: it has to show in the result, so with more than
// `count` of them all are taken. 1 <= count <= n < 2^24. Returns how many.
static inline uint32_t selectLargest(const float* scores, uint32_t n, uint32_t count, uint32_t* chosen) {
  // Bisection for a threshold that parts the count largest from the rest: by value first, which usually takes a dozen steps, then by representation,
  // which ends. All numbers at or above `low` are at least count; those at or above `high` are fewer.
  int64_t low = orderOf(-kInfinity), high = static_cast<int64_t>(orderOf(kInfinity)) + 1;
  f32x16 largest = set1(kLowest), smallest = set1(-kLowest);
  for (uint32_t i = 0; i < n; i += 16) {
    const size_t left = n - i < 16 ? n - i : 16;
    largest = max(loadPartial(scores + i, left, kLowest), largest);
    smallest = min(loadPartial(scores + i, left, -kLowest), smallest);
  }
  const float most = reduceMax(largest), least = -reduceMax(neg(smallest));
  float threshold = least;
  uint32_t found = countFrom(scores, n, threshold);
  if (found >= count) low = orderOf(threshold); else high = orderOf(threshold);
  float from = least, to = most;
  for (int step = 0; found != count && high - low > 1; step++) {
    const float middle = from + (to - from) * 0.5f;
    const bool byValue = step < 20 && orderOf(middle) > low && orderOf(middle) < high;
    const int64_t order = byValue ? orderOf(middle) : low + (high - low) / 2;
    threshold = atOrder(order);
    found = countFrom(scores, n, threshold);
    if (found >= count) {
      low = order;
      from = threshold;
    } else {
      high = order;
      to = threshold;
    }
  }
  if (found != count) {
    threshold = atOrder(low);
    found = countFrom(scores, n, threshold);
  }
  uint32_t kept = 0, surplus = found - count;
  for (uint32_t i = 0; i < n; i++) {
    chosen[kept] = i;
    if (scores[i] < threshold) continue;
    if (surplus > 0 && scores[i] == threshold) surplus--;
    else kept++;
  }
  return kept;
}

// Softmax of scores in place, n of them and -infinity up to the next multiple of 16. Returns the sum.
static inline float softmaxOf(float* scores, uint32_t n) {
  f32x16 best = set1(kLowest);
  for (uint32_t i = 0; i < n; i += 16) best = max(load(scores + i), best);
  const f32x16 highest = set1(reduceMax(best));
  f32x16 total = zero();
  for (uint32_t i = 0; i < n; i += 16) {
    const f32x16 weight = expOfNegative(sub(load(scores + i), highest));
    store(scores + i, weight);
    total = add(total, weight);
  }
  return reduceAdd(total);
}

// sums[16 v + lane] = sum over the kept tokens, in order, of weight * value
template <typename Format, int V>
static void gatherValues(const AttentionBlock& block, const uint32_t* positions, const float* weights, uint32_t kept, size_t element, float* sums) {
  constexpr uint32_t kAhead = 6;  // tokens: they lie anywhere, so memory is asked for early
  const CacheLayout& layout = block.layout;
  const size_t headOffset = block.kvHead * cacheHeadBytes(layout);
  f32x16 sum[V];
  SPILLWAY_UNROLL(4)
  for (int v = 0; v < V; v++) sum[v] = zero();
  for (uint32_t i = 0; i < kept; i++) {
    if (i + kAhead < kept) {
      const uint32_t next = positions[i + kAhead];
      const uint8_t* values = Format::valuesOf(layout, block.pages[next / layout.pageTokens] + headOffset, next % layout.pageTokens, element);
      __builtin_prefetch(values);
      __builtin_prefetch(values + 64);
    }
    f32x16 value[V];
    Format::loadValues(layout, block.pages[positions[i] / layout.pageTokens] + headOffset, positions[i] % layout.pageTokens, element, value);
    const f32x16 weight = set1(weights[i]);
    SPILLWAY_UNROLL(4)
    for (int v = 0; v < V; v++) sum[v] = fma(weight, value[v], sum[v]);
  }
  SPILLWAY_UNROLL(4)
  for (int v = 0; v < V; v++) store(sums + 16 * v, sum[v]);
}

// Plain scores of a tile of queries for all keys that they see; scores begin with the first page seen.
template <typename Format>
struct SparseScores {
  const AttentionBlock& block;
  const Workspace& work;
  uint32_t firstQuery, firstSeen;
  float* scores;
  size_t scoreStride;
  template <int Q>
  void tile(uint32_t first) const {
    const uint32_t pageTokens = block.layout.pageTokens, position = block.firstPosition, lastPage = position / pageTokens;
    const size_t headOffset = block.kvHead * cacheHeadBytes(block.layout);
    float* to = scores + (first - firstQuery) * scoreStride;
    for (uint32_t page = firstSeen / pageTokens; page <= lastPage; page++, to += pageTokens) {
      const Range range = visible(block, 0, page * pageTokens);
      const uint32_t keyBlock = range.begin / kKeyBlock, keyBlocks = (range.end + kKeyBlock - 1) / kKeyBlock - keyBlock;
      const uint8_t* head = block.pages[page] + headOffset;
      const uint8_t* ahead = page < lastPage ? block.pages[page + 1] + headOffset : head;
      Format::template scoreTile<Q>(block, work, head, first, keyBlock, keyBlocks, to + keyBlock * kKeyBlock, scoreStride, ahead);
    }
  }
};

// One token.
template <typename Format>
static void attendSparsely(const AttentionBlock& block) {
  const CacheLayout& layout = block.layout;
  const uint32_t position = block.firstPosition, firstSeen = firstSeenBy(block), base = firstSeen / layout.pageTokens * layout.pageTokens;
  const size_t stride = cacheValueStride(layout), scoreStride = attentionSparseStride(layout, position - base + 1);
  const Workspace work = carve(block);
  takeQueries<Format>(block, work);
  const uint32_t tiled = block.groupHeads < kSparseQueries ? block.groupHeads : kSparseQueries;
  float* scores = block.sparseSpace;
  float* weights = scores + tiled * scoreStride;
  uint32_t* chosen = reinterpret_cast<uint32_t*>(weights + scoreStride);
  const uint32_t seen = position - firstSeen + 1, count = keptKeys(block.keep, seen);

  for (uint32_t first = 0; first < block.groupHeads; first += tiled) {
    const uint32_t last = first + tiled < block.groupHeads ? first + tiled : block.groupHeads;
    forTiles(first, last, SparseScores<Format>{block, work, first, firstSeen, scores, scoreStride});
    for (uint32_t q = first; q < last; q++) {
      float* own = scores + (q - first) * scoreStride;
      const ScoreRule rule = ruleOf(block, q);
      for (uint32_t t = (firstSeen - base) / 16 * 16; t <= position - base; t += 16)
        store(own + t, finishScores(rule, load(own + t), static_cast<float>(base + t), static_cast<float>(firstSeen), static_cast<float>(position + 1)));
      // The newest key is always kept, the others compete.
      own += firstSeen - base;
      uint32_t kept = count > 1 ? selectLargest(own, seen - 1, count - 1, chosen) : 0;
      chosen[kept++] = seen - 1;
      for (uint32_t i = 0; i < kept; i++) weights[i] = own[chosen[i]], chosen[i] += firstSeen;
      for (uint32_t i = kept; i % 16 != 0; i++) weights[i] = -kInfinity;
      work.sum[q] = softmaxOf(weights, kept);
      float* sums = work.merged + q * stride;
      size_t element = 0;
      for (; element + 64 <= stride; element += 64) gatherValues<Format, 4>(block, chosen, weights, kept, element, sums + element);
      switch ((stride - element) / 16) {
        case 3: gatherValues<Format, 3>(block, chosen, weights, kept, element, sums + element); break;
        case 2: gatherValues<Format, 2>(block, chosen, weights, kept, element, sums + element); break;
        case 1: gatherValues<Format, 1>(block, chosen, weights, kept, element, sums + element); break;
        default: break;
      }
    }
  }
  writeOutputs(block, work);
}

// Tokens that are sparse go one by one: each keeps keys of its own.
template <typename Format>
static void attendAs(const AttentionBlock& block) {
  const uint32_t end = block.firstPosition + block.tokens;
  const uint32_t sparseFrom = block.keep < 1.0f ? (block.denseBefore < end ? block.denseBefore : end) : end;
  AttentionBlock part = block;
  part.tokens = sparseFrom > block.firstPosition ? sparseFrom - block.firstPosition : 0;
  if (part.tokens > 0) attendDensely<Format>(part);
  for (uint32_t token = part.tokens; token < block.tokens; token++) {
    AttentionBlock one = block;
    one.tokens = 1;
    one.firstPosition = block.firstPosition + token;
    one.queries = block.queries + token * block.queryStride;
    one.outputs = block.outputs + token * block.outputStride;
    attendSparsely<Format>(one);
  }
}

}  // namespace spillway::SPILLWAY_ISA
