// Pages of the KV cache in 4 or 8 bits, to store and to move; attention reads pages that were turned back into halves.
//
// A head's vector of one token is cut into groups of 64 elements, the last one filled up with zeros that take no part. Of a group:
//   scale = (largest - smallest) / (2^bits - 1) and minimum = smallest, both rounded to half
//   q = (x - minimum) / scale to the nearest integer, from 0 to 2^bits - 1;  x is read back as fma(scale, q, minimum), rounded to half, 65504 at most
// A quantised page holds, one KV head after another, the keys and then the values of each: for every token [groups][64 q], then for every token
// [groups]{half scale, half minimum}. 4-bit numbers stand two a byte, the even element low. So a page is read and written token by token, and
// a token that was never stored harms no other. A group with a NaN or an infinity comes back as NaN.
#pragma once
#include "../cpu/CacheLayout.h"
#include "gpu.h"

namespace spillway::cuda {

__host__ __device__ inline uint32_t quantisedGroups(const CacheLayout& layout) { return (layout.headDim + kCacheGroup - 1) / kCacheGroup; }
// Of the keys or the values of one KV head. bits: 4 or 8.
__host__ __device__ inline size_t quantisedSideBytes(const CacheLayout& layout, uint32_t bits) {
  return size_t{layout.pageTokens} * quantisedGroups(layout) * (kCacheGroup * bits / 8 + 4);
}
inline size_t quantisedPageBytes(const CacheLayout& layout, uint32_t bits) { return 2 * layout.kvHeads * quantisedSideBytes(layout, bits); }

// layout is the plain pages', of halves. Addresses of pages are in device memory; page i of one becomes page i of the other, all tokens of it.
void quantisePages(cudaStream_t stream, const CacheLayout& layout, uint32_t bits, const uint8_t* const* plain, uint8_t* const* quantised, size_t pages);
void dequantisePages(cudaStream_t stream, const CacheLayout& layout, uint32_t bits, const uint8_t* const* quantised, uint8_t* const* plain, size_t pages);

}  // namespace spillway::cuda
