// Top-k sparse attention (FlexGen, section 4.2): a query scores every key that it sees, and takes the values of the
// best ones alone. Included by sources that are compiled for each instruction set.
#pragma once
#include "attentionParts.h"
#include "sharedAttention.h"
#include "topK.h"

namespace spillway::SPILLWAY_ISA {

// Floats as integers in the same order, and back.
static inline int32_t orderOf(float x) {
  const int32_t bits = static_cast<int32_t>(bitsOfFloat(x));
  return bits ^ (bits >> 31 & 0x7fffffff);
}
static inline float atOrder(int64_t order) {
  const int32_t bits = static_cast<int32_t>(order);
  return floatFromBits(static_cast<uint32_t>(bits ^ (bits >> 31 & 0x7fffffff)));
}

// How many of n numbers are not below the threshold; a NaN is not.
static inline uint32_t countFrom(const float* scores, uint32_t n, float threshold) {
  const f32x16 least = set1(threshold);
  uint32_t count = 0, i = 0;
  for (; i + 16 <= n; i += 16) count += static_cast<uint32_t>(__builtin_popcount(notLess(load(scores + i), least)));
  if (i < n)
    count += static_cast<uint32_t>(
        __builtin_popcount(notLess(loadPartial(scores + i, n - i), least) & ((1u << (n - i)) - 1)));
  return count;
}

// Copies those that are not below the threshold, in order. Returns how many they are. Writes within `n` numbers,
// rounded up to 16.
static inline uint32_t copyFrom(const float* scores, uint32_t n, float threshold, float* to) {
  const f32x16 least = set1(threshold);
  uint32_t count = 0;
  for (uint32_t i = 0; i < n; i += 16) {
    const uint32_t left = n - i < 16 ? n - i : 16;
    const f32x16 some = left == 16 ? load(scores + i) : loadPartial(scores + i, left);
    const uint32_t lanes = notLess(some, least) & ((1u << left) - 1);
    storeSelected(to + count, some, lanes);
    count += static_cast<uint32_t>(__builtin_popcount(lanes));
  }
  return count;
}

// The same of their indices.
static inline uint32_t indicesFrom(const float* scores, uint32_t n, float threshold, uint32_t* to) {
  const f32x16 least = set1(threshold);
  i32x16 index = sub(asInt(add(load(kLanes), set1(8388608.0f))),
                     asInt(set1(8388608.0f)));  // 2^23: whole numbers stand in the low bits
  uint32_t count = 0;
  for (uint32_t i = 0; i < n; i += 16) {
    const uint32_t left = n - i < 16 ? n - i : 16;
    const f32x16 some = left == 16 ? load(scores + i) : loadPartial(scores + i, left);
    const uint32_t lanes = notLess(some, least) & ((1u << left) - 1);
    storeSelected(reinterpret_cast<float*>(to + count), asFloat(index), lanes);
    count += static_cast<uint32_t>(__builtin_popcount(lanes));
    index = add(index, set1Int(16));
  }
  return count;
}

// Indices of the `count` largest of n scores, ascending; of equal ones the later. NaN counts as largest: it has to show
// in the result, so with more than `count` of them all are taken. 1 <= count <= n < 2^24. Returns how many. `chosen`
// and `candidates` have room for n, rounded up to 16.
static inline uint32_t selectLargest(const float* scores, uint32_t n, uint32_t count, uint32_t* chosen,
                                     float* candidates) {
  // Bisection for a threshold that parts the count largest from the rest: by value first, which usually takes a dozen
  // steps, then by representation, which ends. All numbers at or above `low` are at least count; those at or above
  // `high` are fewer. As soon as few are left above `low`, only they are looked at.
  int64_t low = orderOf(-kInfinity), high = static_cast<int64_t>(orderOf(kInfinity)) + 1;
  f32x16 largest = set1(kLowest), smallest = set1(-kLowest);
  for (uint32_t i = 0; i < n; i += 16) {
    const uint32_t left = n - i < 16 ? n - i : 16;
    const f32x16 some = left == 16 ? load(scores + i) : loadPartial(scores + i, left, scores[i]);
    largest = max(some, largest);
    smallest = min(some, smallest);
  }
  const float most = reduceMax(largest), least = -reduceMax(neg(smallest));
  const float* among = scores;
  uint32_t amongCount = n;
  float threshold = least;
  uint32_t found = countFrom(scores, n, threshold);
  if (found >= count)
    low = orderOf(threshold);
  else
    high = orderOf(threshold);
  float from = least, to = most;
  for (int step = 0; found != count && high - low > 1; step++) {
    const float middle = from + (to - from) * 0.5f;
    const bool byValue = step < 20 && orderOf(middle) > low && orderOf(middle) < high;
    const int64_t order = byValue ? orderOf(middle) : low + (high - low) / 2;
    threshold = atOrder(order);
    found = countFrom(among, amongCount, threshold);
    if (found >= count) {
      low = order;
      from = threshold;
      if (among == scores && found <= n / 3)
        amongCount = copyFrom(scores, n, threshold, candidates), among = candidates;
    } else {
      high = order;
      to = threshold;
    }
  }
  if (found != count) {
    threshold = atOrder(low);
    found = countFrom(among, amongCount, threshold);
  }
  if (found == count) return indicesFrom(scores, n, threshold, chosen);
  uint32_t kept = 0, surplus = found - count;
  for (uint32_t i = 0; i < n; i++) {
    chosen[kept] = i;
    if (scores[i] < threshold) continue;
    if (surplus > 0 && scores[i] == threshold)
      surplus--;
    else
      kept++;
  }
  return kept;
}

// Softmax of scores in place, n of them and -infinity up to the next multiple of 16.
static inline void softmaxOf(float* scores, uint32_t n, float* maximum, float* sum) {
  f32x16 best = set1(kLowest);
  for (uint32_t i = 0; i < n; i += 16) best = max(load(scores + i), best);
  *maximum = reduceMax(best);
  const f32x16 highest = set1(*maximum);
  f32x16 total = zero();
  for (uint32_t i = 0; i < n; i += 16) {
    const f32x16 weight = expOfNegative(sub(load(scores + i), highest));
    store(scores + i, weight);
    total = add(total, weight);
  }
  *sum = reduceAdd(total);
}

// Of the keys that compete, chosen ones of n in all, ascending from position `first` on: where they end.
static inline AttentionCut cutOf(const float* scores, const uint32_t* chosen, uint32_t kept, uint32_t first) {
  AttentionCut cut = kNoKey;
  for (uint32_t i = kept; i-- > 0;) {
    const uint32_t order = scoreOrder(bitsOfFloat(scores[chosen[i]]));
    if (order <= cut.order) cut = {order, first + chosen[i]};
  }
  return cut;
}

// Sets a bit for each position, ascending; others may set some of the same words.
static inline void note(const uint32_t* positions, uint32_t count, uint64_t* bits) {
  for (uint32_t i = 0; i < count;) {
    const uint32_t word = positions[i] / 64;
    uint64_t some = 0;
    for (; i < count && positions[i] / 64 == word; i++) some |= uint64_t{1} << positions[i] % 64;
    __atomic_fetch_or(&bits[word], some, __ATOMIC_RELAXED);
  }
}

// Where the values of single positions are.
struct ValuePlaces {
  explicit ValuePlaces(const AttentionBlock& block)
      : places(block),
        pageTokens(block.layout.pageTokens),
        inverse(((uint64_t{1} << 40) + pageTokens - 1) / pageTokens) {}
  // The block of 16 that holds a position below 2^28.
  const uint8_t* blockOf(uint32_t position) const {
    const auto page = static_cast<uint32_t>(
        position * inverse >> 40);  // position / pageTokens: exact, for inverse is too large by less than one
    return places.pages[page] + places.valuesOffset + (position - page * pageTokens) / kKeyBlock * places.valueBytes;
  }
  BlockPlaces places;
  uint32_t pageTokens;
  uint64_t inverse;
};

// sums[16 v + lane] = sum over the kept tokens, in order, of weight * value, for the V vectors from `element` on, all
// of one group. Weights are zero from `kept` up to the next multiple of 16. Tokens lie anywhere, so the memory of
// sixteen is asked for while the sixteen before are worked on.
template <typename Format, int V>
static void gatherValues(const AttentionBlock& block, const ValuePlaces& places, const uint32_t* positions,
                         const float* weights, uint32_t kept, size_t element, float* sums) {
  typename Format::template Gather<V> gather(block.layout, element);
  const uint8_t* blocks[2][16];
  const auto ask = [&](uint32_t first, const uint8_t** to) {
    for (uint32_t i = 0; i < 16 && first + i < kept; i++) {
      to[i] = places.blockOf(positions[first + i]);
      gather.ask(to[i], positions[first + i] % kKeyBlock);
    }
  };
  ask(0, blocks[0]);
  for (uint32_t first = 0; first < kept; first += 16) {
    const uint8_t** now = blocks[first / 16 % 2];
    ask(first + 16, blocks[first / 16 % 2 ^ 1]);
    gather.add(now, positions + first, weights + first, kept - first < 16 ? kept - first : 16);
  }
  gather.write(sums);
}

// Plain scores of a tile of queries for all keys from position `from` on; they stand as from position `base` on.
// Multiples of 16.
template <typename Format>
struct SparseScores {
  const AttentionBlock& block;
  const Workspace& work;
  uint32_t firstQuery, base, from;
  float* scores;
  size_t scoreStride;
  template <int Q>
  void tile(uint32_t first) const {
    const BlockPlaces places(block);
    Part part;
    part.allValues = false;
    for (uint32_t start = from / kPartTokens * kPartTokens; start <= block.firstPosition; start += kPartTokens) {
      places.locate(start, from / kKeyBlock, block.firstPosition / kKeyBlock + 1, Format::kBlocksAhead, &part);
      // The values are not read as they lie, the next part's keys are.
      for (uint32_t i = 0; i < Format::kBlocksAhead; i++) part.keys[part.toBlock + i] = part.values[part.toBlock + i];
      float* to = scores + (first - firstQuery) * scoreStride;
      Format::template score<Q>(block.layout, work, part, first, part.fromBlock, part.toBlock,
                                to + (start + part.fromBlock * kKeyBlock - base), scoreStride);
    }
  }
};

// A query that keeps the best of its keys: which ones compete, and where their scores are worked on.
struct SparseQuery {
  uint32_t position;   // its own: of the newest key
  uint32_t base;       // of the first score, a multiple of 16
  uint32_t firstSeen;  // those before `firstHere` have their scores elsewhere
  uint32_t firstHere;
  float* weights;  // room for all scores, and for as many positions
  uint32_t* chosen;
};

// Plain scores of query `q` of a block to the values of the keys that it keeps, for one token or more; or only to which
// keys these are.
template <typename Format>
static void takeBest(const AttentionBlock& block, const Workspace& work, const ValuePlaces& places,
                     const SparseQuery& query, uint32_t q, float* scores) {
  const auto [position, base, firstSeen, firstHere, weights, chosen] = query;
  const uint32_t seen = position - firstSeen + 1, count = topK(block.keep, seen);
  const size_t stride = cacheValueStride(block.layout);
  finishAll(ruleOf(block, q), scores, base, {firstHere - base, position + 1 - base});
  for (uint32_t t = firstSeen; t < firstHere; t++) scores[t - base] = block.otherScores[q * block.otherStride + t];
  // The newest key is always kept, the others compete.
  const float* own = scores + (firstSeen - base);
  uint32_t kept = count > 1 ? selectLargest(own, seen - 1, count - 1, chosen, weights) : 0;
  if (block.cuts != nullptr) block.cuts[q] = cutOf(own, chosen, kept, firstSeen);
  uint32_t elsewhere = 0;
  while (elsewhere < kept && chosen[elsewhere] < firstHere - firstSeen) elsewhere++;
  kept -= elsewhere;
  for (uint32_t i = 0; elsewhere != 0 && i < kept; i++) chosen[i] = chosen[i + elsewhere];
  chosen[kept++] = seen - 1;
  for (uint32_t i = 0; i < kept; i++) weights[i] = own[chosen[i]], chosen[i] += firstSeen;
  if (block.chosen != nullptr) return note(chosen, kept, block.chosen);
  for (uint32_t i = kept; i % 16 != 0; i++) weights[i] = -kInfinity;
  softmaxOf(weights, kept, &work.maximum[q], &work.sum[q]);
  float* sums = work.merged + q * stride;
  size_t element = 0;
  for (; element + 64 <= stride; element += 64)
    gatherValues<Format, 4>(block, places, chosen, weights, kept, element, sums + element);
  switch ((stride - element) / 16) {
    case 3: gatherValues<Format, 3>(block, places, chosen, weights, kept, element, sums + element); break;
    case 2: gatherValues<Format, 2>(block, places, chosen, weights, kept, element, sums + element); break;
    case 1: gatherValues<Format, 1>(block, places, chosen, weights, kept, element, sums + element); break;
    default: break;
  }
}

// One token. Keys before block.firstKey compete with the scores that they have elsewhere, where these are known.
template <typename Format>
static void attendSparsely(const AttentionBlock& block) {
  const uint32_t position = block.firstPosition, firstHere = firstSeenBy(block),
                 firstSeen = block.otherScores == nullptr ? firstHere : firstInWindow(block),
                 base = firstSeen / 16 * 16;
  const size_t scoreStride = attentionSparseStride(position - base + 1);
  const Workspace work = carve(block, block.groupHeads);
  takeQueries<Format>(block, work);
  float* scores = block.sparseSpace;
  float* weights = scores + kMostTileQueries * scoreStride;
  const SparseQuery query = {position,  base,    firstSeen,
                             firstHere, weights, reinterpret_cast<uint32_t*>(weights + scoreStride)};
  const ValuePlaces places(block);
  for (uint32_t first = 0; first < block.groupHeads; first += kMostTileQueries) {
    const uint32_t last = first + kMostTileQueries < block.groupHeads ? first + kMostTileQueries : block.groupHeads;
    forTiles(first, last, SparseScores<Format>{block, work, first, base, firstHere / 16 * 16, scores, scoreStride});
    for (uint32_t q = first; q < last; q++)
      takeBest<Format>(block, work, places, query, q, scores + (q - first) * scoreStride);
  }
  if (block.chosen == nullptr) writeOutputs(block, work);
}

// Plain scores of a tile of queries of several rows, from position 0 on, for all keys that any of these rows has: the
// first ones that all of them have are met once.
template <typename Format>
struct SparseScoresTogether {
  const RowsTogether& together;
  uint32_t firstQuery;
  float* scores;
  size_t scoreStride;
  template <int Q>
  void tile(uint32_t first) const {
    const uint32_t firstRow = together.rowOf(first), lastRow = together.rowOf(first + Q - 1, firstRow);
    uint32_t longest = 0;
    for (uint32_t row = firstRow; row <= lastRow; row++)
      longest = together.end(row) > longest ? together.end(row) : longest;
    Part parts[kTileQueries];
    for (uint32_t start = 0; start < longest; start += kPartTokens) {
      uint32_t common = kPartBlocks;
      for (uint32_t row = firstRow; row <= lastRow; row++) {
        Part& part = parts[row - firstRow];
        part.allValues = false;
        part.toBlock = 0;
        if (together.end(row) > start) {
          BlockPlaces(together.rows[row])
              .locate(start, 0, (together.end(row) + kKeyBlock - 1) / kKeyBlock, Format::kBlocksAhead, &part);
          // The values are not read as they lie, the next part's keys are.
          for (uint32_t i = 0; i < Format::kBlocksAhead; i++)
            part.keys[part.toBlock + i] = part.values[part.toBlock + i];
        }
        common = sameBlocks(parts[0], part, part.toBlock < common ? part.toBlock : common);
      }
      const TileScores to = {firstQuery, scores + start, scoreStride};
      if (common > 0)
        Format::template score<Q>(together.rows[0].layout, together.work, parts[0], first, 0, common, to.of(first, 0),
                                  scoreStride);
      together.forRows(firstRow, first, first + Q,
                       [&](uint32_t row, uint32_t from, uint32_t last) __attribute__((always_inline)) {
                         const Part& part = parts[row - firstRow];
                         if (part.toBlock > common)
                           forTiles(from, last, OwnScores<Format>{together, part, common, part.toBlock, to});
                       });
    }
  }
};

// Rows of which all tokens are sparse, see all keys before them, and have some of the first ones in common. Each keeps
// keys of its own.
template <typename Format>
static void attendSparselyTogether(const AttentionBlock* rows, uint32_t count) {
  const RowsTogether together(rows, count);
  uint32_t longest = 0;
  for (uint32_t r = 0; r < count; r++) {
    takeQueries<Format>(rows[r], together.workOf(r));
    if (together.end(r) > longest) longest = together.end(r);
  }
  const size_t scoreStride = attentionSparseStride(longest);
  float* scores = rows[0].sparseSpace;
  float* weights = scores + kMostTileQueries * scoreStride;
  for (uint32_t first = 0; first < together.queries(); first += kMostTileQueries) {
    const uint32_t last = first + kMostTileQueries < together.queries() ? first + kMostTileQueries : together.queries();
    forTiles(first, last, SparseScoresTogether<Format>{together, first, scores, scoreStride});
    together.forRows(0, first, last, [&](uint32_t row, uint32_t from, uint32_t to) {
      const AttentionBlock& block = rows[row];
      const Workspace work = together.workOf(row);
      const ValuePlaces places(block);
      for (uint32_t q = from; q < to; q++) {
        const uint32_t own = q - together.firstQuery[row];
        const SparseQuery query = {block.firstPosition + own / block.groupHeads,      0, 0, 0, weights,
                                   reinterpret_cast<uint32_t*>(weights + scoreStride)};
        takeBest<Format>(block, work, places, query, own, scores + (q - first) * scoreStride);
      }
    });
  }
  for (uint32_t r = 0; r < count; r++)
    if (rows[r].chosen == nullptr) writeOutputs(rows[r], together.workOf(r));
}

// Tokens of a single row that are sparse go one by one: each keeps keys of its own.
template <typename Format>
static void attendAs(const AttentionBlock* blocks, uint32_t count) {
  const AttentionBlock& block = blocks[0];
  if (count > 1)
    return isSparse(block, block.firstPosition) ? attendSparselyTogether<Format>(blocks, count)
                                                : attendTogether<Format>(blocks, count);
  const uint32_t dense = block.keep < 1.0f ? promptTokensOf(block) : block.tokens;
  if (dense > 0) attendDensely<Format>(tokensOf(block, 0, dense));
  for (uint32_t token = dense; token < block.tokens; token++) attendSparsely<Format>(tokensOf(block, token, 1));
}

}  // namespace spillway::SPILLWAY_ISA
