// Rows whose first keys are the same, attended to together: tiles of queries of several rows share the loads of keys
// and values that these have in common. What one query computes stays as it is (attentionParts.h), so bits do not
// depend on who is beside it. Included by sources that are compiled for each instruction set.
#pragma once
#include "attentionParts.h"

namespace spillway::SPILLWAY_ISA {

// Tokens of several rows, one block of each, their queries one after another.
struct RowsTogether {
  const AttentionBlock* rows;
  uint32_t count;
  uint32_t firstQuery[kMostBlockRows + 1];
  Workspace work;

  RowsTogether(const AttentionBlock* blocks, uint32_t blockCount) : rows(blocks), count(blockCount) {
    firstQuery[0] = 0;
    for (uint32_t r = 0; r < count; r++) firstQuery[r + 1] = firstQuery[r] + rows[r].tokens * rows[r].groupHeads;
    work = carve(rows[0], firstQuery[count]);
  }
  // The workspace as a row's own block sees it.
  Workspace workOf(uint32_t row) const {
    const size_t q = firstQuery[row], stride = cacheValueStride(rows[0].layout);
    Workspace own = work;
    own.queries += q * stride, own.merged += q * stride, own.maximum += q, own.sum += q;
    own.quantised += q * attentionQuantisedFloats(rows[0].layout);
    return own;
  }
  uint32_t end(uint32_t row) const { return rows[row].firstPosition + rows[row].tokens; }
  uint32_t queries() const { return firstQuery[count]; }
  // The row that a query belongs to, which is `row` or one after it.
  uint32_t rowOf(uint32_t query, uint32_t row = 0) const {
    while (firstQuery[row + 1] <= query) row++;
    return row;
  }
  // body(row, from, to) for the queries of each row among those from `first` to `last`, which begin in `row` or after
  // it.
  template <typename Body>
  void forRows(uint32_t row, uint32_t first, uint32_t last, const Body& body) const {
    for (uint32_t q = first; q < last;) {
      row = rowOf(q, row);
      const uint32_t to = firstQuery[row + 1] < last ? firstQuery[row + 1] : last;
      body(row, q, to);
      q = to;
    }
  }
};

// Where the plain scores of a tile's queries go: those of its first one for a part's first key, and from query to
// query.
struct TileScores {
  uint32_t first;
  float* scores;
  size_t stride;
  float* of(uint32_t query, uint32_t block) const { return scores + (query - first) * stride + block * kKeyBlock; }
};

// Scores of queries of one row for the blocks of 16 keys that are its own.
template <typename Format>
struct OwnScores {
  const RowsTogether& together;
  const Part& part;
  uint32_t from, to;
  TileScores scores;
  template <int Q>
  void tile(uint32_t first) const {
    Format::template score<Q>(together.rows[0].layout, together.work, part, first, from, to, scores.of(first, from),
                              scores.stride);
  }
};

// Their weights times the values from position `from` of the part on, added to the sums.
template <typename Format>
struct OwnValues {
  const RowsTogether& together;
  const Part& part;
  uint32_t row, from, tileFirst;
  float* sums;
  template <int Q>
  void tile(uint32_t first) const {
    const AttentionBlock& block = together.rows[row];
    const size_t stride = cacheValueStride(block.layout);
    const uint32_t local = first - together.firstQuery[row], i = first - tileFirst;
    const float* weights = together.work.scores + i * kPartTokens;
    const uint32_t all = visible(block, local / block.groupHeads, part.start).end;
    if (from < all) Format::template add<Q>(part, stride, weights, from, all, sums + i * stride);
    for (uint32_t q = 0; q < Q; q++) {
      const uint32_t end = visible(block, (local + q) / block.groupHeads, part.start).end,
                     begin = from < all ? all : from;
      if (begin < end)
        Format::template add<1>(part, stride, weights + q * kPartTokens, begin, end, sums + (i + q) * stride);
    }
  }
};

// One part, for consecutive rows whose first `common` blocks of 16 keys in it are the same, and seen by all of their
// tokens.
template <typename Format>
struct SharedTiles {
  const RowsTogether& together;
  const Part* parts;
  uint32_t firstRow, common;

  template <int Q>
  void tile(uint32_t first) const {
    const AttentionBlock* rows = together.rows;
    const Workspace& work = together.work;
    const CacheLayout& layout = rows[0].layout;
    const size_t stride = cacheValueStride(layout);
    const uint32_t start = parts[firstRow].start;
    Format::template score<Q>(layout, work, parts[firstRow], first, 0, common, work.scores, kPartTokens);
    float maximum[Q], sum[Q];
    bool allNew = true;
    together.forRows(
        firstRow, first, first + Q, [&](uint32_t row, uint32_t from, uint32_t to) __attribute__((always_inline)) {
          const AttentionBlock& block = rows[row];
          const uint32_t local = from - together.firstQuery[row], group = block.groupHeads;
          const uint32_t blocks =
              (visible(block, (local + to - from - 1) / group, start).end + kKeyBlock - 1) / kKeyBlock;
          if (blocks > common)
            forTiles(from, to,
                     OwnScores<Format>{together, parts[row], common, blocks, {first, work.scores, kPartTokens}});
          for (uint32_t q = from; q < to; q++) {
            const uint32_t i = q - first, own = q - together.firstQuery[row];
            softmaxPartial(ruleOf(block, own), work.scores + i * kPartTokens, start, visible(block, own / group, start),
                           &maximum[i], &sum[i]);
            allNew = allNew && isNew(work, q);
          }
        });
    float* sums = allNew ? work.merged + first * stride : work.partial;
    // As queries of one token that sees no more than what is common.
    AttentionBlock seen = rows[firstRow];
    seen.groupHeads = Q;
    seen.window = 0;
    seen.firstPosition = start + common * kKeyBlock - 1;
    Format::template sum<Q>(seen, work, parts[firstRow], 0, sums);
    if constexpr (Format::kSplitsParts) {
      together.forRows(
          firstRow, first, first + Q, [&](uint32_t row, uint32_t from, uint32_t to) __attribute__((always_inline)) {
            forTiles(from, to, OwnValues<Format>{together, parts[row], row, common * kKeyBlock, first, sums});
          });
    }
    if (!allNew) return combineSplits<Q>(work, first, maximum, sum, stride);
    for (uint32_t i = 0; i < Q; i++) work.maximum[first + i] = maximum[i], work.sum[first + i] = sum[i];
  }
};

// How many of the first `most` blocks of 16 keys of a part are the same for two rows.
static inline uint32_t sameBlocks(const Part& a, const Part& b, uint32_t most) {
  uint32_t same = 0;
  while (same < most && a.keys[same] == b.keys[same]) same++;
  return same;
}

// How many of a part's first blocks of 16 keys are the same for two rows, and seen by all of their tokens.
static inline uint32_t commonBlocks(const AttentionBlock& a, const Part& partA, const AttentionBlock& b,
                                    const Part& partB) {
  const uint32_t seen = (a.firstPosition < b.firstPosition ? a.firstPosition : b.firstPosition) + 1;
  return sameBlocks(partA, partB, seen < partA.start + kPartTokens ? (seen - partA.start) / kKeyBlock : kPartBlocks);
}

// Rows that are dense, see all keys before them, and have some of the first ones in common.
template <typename Format>
static void attendTogether(const AttentionBlock* rows, uint32_t count) {
  const RowsTogether together(rows, count);
  uint32_t end = 0;
  for (uint32_t r = 0; r < count; r++) {
    const Workspace own = together.workOf(r);
    takeQueries<Format>(rows[r], own);
    if (together.end(r) > end) end = together.end(r);
  }
  fill(together.work.maximum, kLowest, together.queries());
  fill(together.work.sum, 0.0f, together.queries());

  Part parts[kMostBlockRows];
  for (uint32_t start = 0; start < end; start += kPartTokens) {
    for (uint32_t r = 0; r < count; r++) {
      parts[r].allValues = true;
      if (together.end(r) > start)
        BlockPlaces(rows[r]).locate(start, 0, (together.end(r) + kKeyBlock - 1) / kKeyBlock, Format::kBlocksAhead,
                                    &parts[r]);
    }
    for (uint32_t first = 0, last; first < count; first = last) {
      last = first + 1;
      if (together.end(first) <= start) continue;
      uint32_t common = 0;
      for (; last < count && rows[first].firstPosition >= start && rows[last].firstPosition >= start; last++) {
        const uint32_t same = commonBlocks(rows[first], parts[first], rows[last], parts[last]);
        // Where sums cannot be split, scores in common alone do not make up for what is done query by query: with 144
        // of 400 keys such a part is 7% slower.
        if (same == 0 || same < common || (!Format::kSplitsParts && same < kPartBlocks)) break;
        if (common == 0) common = same;
      }
      if (common > 0) {
        Format::preparePart(rows[first].layout, together.work, parts[first]);
        forTiles(together.firstQuery[first], together.firstQuery[last],
                 SharedTiles<Format>{together, parts, first, common});
      } else {
        attendPart<Format>(rows[first], together.workOf(first), parts[first]);
      }
    }
  }
  for (uint32_t r = 0; r < count; r++) writeOutputs(rows[r], together.workOf(r));
}

}  // namespace spillway::SPILLWAY_ISA
