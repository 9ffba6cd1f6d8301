// Tokens' keys and values to 8 or 4 bits, as the CPU rounds them (kernels/cpu/quantiseToken.cpp): step by step the same
// operations, so that both write the same bytes.
#include "storeQuantisedTokens.h"

#include "QuantisedPages.h"
#include "hadamard.h"
#include "halfFloat.h"
#include "reduce.h"

namespace spillway::cuda {
namespace {

constexpr uint32_t kThreads = 128;
constexpr float kMagic = 8388608.0f;  // 2^23: what is added to it is rounded to an integer

// A group of numbers in a warp's registers: a lane has numbers `lane` and `lane + 32`.
struct Group {
  float x[2];
  uint32_t count;
  __device__ __forceinline__ uint32_t element(uint32_t i) const { return threadIdx.x % kWarp + 32 * i; }
};

struct Scale {
  uint16_t scale, minimum;
};

// The largest half that is not above x, and the smallest that is not below it; |x| at most kLargestHalf.
__device__ __forceinline__ uint16_t halfBelow(float x) {
  const uint16_t half = toHalf(x);
  if (!(fromHalf(half) > x)) return half;
  return static_cast<uint16_t>((half & 0x8000u) != 0 ? half + 1u : half == 0 ? 0x8001u : half - 1u);
}
__device__ __forceinline__ uint16_t halfAbove(float x) { return static_cast<uint16_t>(halfBelow(-x) ^ 0x8000u); }

__device__ __forceinline__ float stepOf(float scale) { return scale > 0.0f ? scale : 1.0f; }

// What the group loses with these scales, squared and summed: sixteen sums of every sixteenth number, then a tree.
__device__ __forceinline__ float squaredError(const Group& group, Scale halves, float levels) {
  const float scale = fromHalf(halves.scale), minimum = fromHalf(halves.minimum), inverse = 1.0f / stepOf(scale);
  float squares[2];
#pragma unroll
  for (uint32_t i = 0; i < 2; i++) {
    const float code = (fminf(levels, fmaxf(0.0f, (group.x[i] - minimum) * inverse)) + kMagic) - kMagic,
                off = fmaf(code, scale, minimum) - group.x[i];
    squares[i] = group.element(i) < group.count ? off * off : 0.0f;
  }
  // Lanes below 16 have these in order.
  float sum = squares[0] + __shfl_xor_sync(kAllLanes, squares[0], 16);
  sum += squares[1];
  sum += __shfl_xor_sync(kAllLanes, squares[1], 16);
#pragma unroll
  for (int lanes = 8; lanes > 0; lanes /= 2) sum += __shfl_xor_sync(kAllLanes, sum, lanes);
  return __shfl_sync(kAllLanes, sum, 0);
}

// Codes of the group, and its scale. Beyond the largest half numbers are clamped to it; NaN and infinity make the
// minimum NaN, so that they show. What fills up the last sixteen has the first number's code, as on the CPU.
__device__ __forceinline__ Scale quantise(Group& group, float levels, bool narrow, uint32_t codes[2]) {
  float largest = -kLargestHalf, negatedSmallest = -kLargestHalf;
  bool odd = false;
#pragma unroll
  for (uint32_t i = 0; i < 2; i++) {
    group.x[i] = clampFinite(group.x[i], kLargestHalf);
    codes[i] = 0;
    if (group.element(i) >= group.count) continue;
    odd = odd || group.x[i] - group.x[i] != 0.0f;
    largest = fmaxf(largest, group.x[i]);
    negatedSmallest = fmaxf(negatedSmallest, -group.x[i]);
  }
  if (__any_sync(kAllLanes, odd)) return {0, 0x7e00};
  const float top = warpMaximum(largest), bottom = -warpMaximum(negatedSmallest),
              first = __shfl_sync(kAllLanes, group.x[0], 0);
#pragma unroll
  for (uint32_t i = 0; i < 2; i++)
    if (group.element(i) >= group.count) group.x[i] = first;
  Scale best;
  best.minimum = halfBelow(bottom);
  best.scale = halfAbove((top - fromHalf(best.minimum)) / levels);
  if (narrow) {
    const float range = top - bottom;
    float least = squaredError(group, best, levels);
    for (int narrowed = 1; narrowed <= kNarrowerRanges; narrowed++) {
      const float cut = 0.5f * kNarrowerBy * static_cast<float>(narrowed) * range;
      const Scale tried = {toHalf((range - 2.0f * cut) / levels), toHalf(bottom + cut)};
      const float error = squaredError(group, tried, levels);
      if (error < least) least = error, best = tried;
    }
  }
  const float minimum = fromHalf(best.minimum), step = stepOf(fromHalf(best.scale));
#pragma unroll
  for (uint32_t i = 0; i < 2; i++) {
    const float code = fminf(levels, fmaxf(0.0f, (group.x[i] - minimum) / step));
    if (group.element(i) < (group.count + 15) / 16 * 16) codes[i] = __float_as_uint(code + kMagic) & 0xffu;
  }
  return best;
}

// A token's bytes in a block of keys: words of 4 (8 bits) or 8 elements that follow each other, a line apart.
template <int Bits>
__device__ __forceinline__ void storeKeyCodes(const Group& group, const uint32_t codes[2], uint32_t first,
                                              uint32_t token, uint8_t* block) {
#pragma unroll
  for (uint32_t i = 0; i < 2; i++) {
    const uint32_t element = group.element(i);
    if (Bits == 8) {
      if (element < group.count)
        block[(first + element) / 4 * kCacheLine + 4 * token + element % 4] = static_cast<uint8_t>(codes[i]);
      continue;
    }
    const uint32_t high = __shfl_down_sync(kAllLanes, codes[i], 4);
    if (element % 8 < 4 && element / 8 * 8 < group.count)
      block[(first + element) / 8 * kCacheLine + 4 * token + element % 4] = static_cast<uint8_t>(codes[i] | high << 4);
  }
}

// A token's bytes in its quad of values: lines of 16 (8 bits) or 32 elements, a word each.
template <int Bits>
__device__ __forceinline__ void storeValueCodes(const Group& group, const uint32_t codes[2], uint32_t first,
                                                uint32_t inQuad, uint8_t* quad) {
#pragma unroll
  for (uint32_t i = 0; i < 2; i++) {
    const uint32_t element = group.element(i);
    if (Bits == 8) {
      if (element < group.count)
        quad[(first + element) / 16 * kCacheLine + element % 16 * 4 + inQuad] = static_cast<uint8_t>(codes[i]);
      continue;
    }
    const uint32_t high = __shfl_down_sync(kAllLanes, codes[i], 16);
    if (element % 32 < 16 && 32 * i < group.count)
      quad[(first + element) / 32 * kCacheLine + element % 16 * 4 + inQuad] =
          static_cast<uint8_t>(codes[i] | high << 4);
  }
}

// A block a token and KV head, a warp a group of its keys or values.
template <int Bits>
__global__ void storeQuantisedTokensKernel(CacheLayout layout, const AttentionToken* tokens, const float* keys,
                                           const float* values, size_t stride) {
  const AttentionToken token = tokens[blockIdx.x];
  const QuantisedHead head = quantisedHead(layout, token.pages, blockIdx.y);
  const uint32_t inBlock = token.position % kKeyBlock;
  const size_t from = blockIdx.x * stride + size_t{blockIdx.y} * layout.headDim;
  uint8_t* keyBlock = const_cast<uint8_t*>(head.keyBlock(token.position));
  uint8_t* valueBlock = const_cast<uint8_t*>(head.valueBlock(token.position));
  for (uint32_t index = threadIdx.x / kWarp; index < 2 * head.groups; index += kThreads / kWarp) {
    const bool isKey = index < head.groups;
    const uint32_t g = isKey ? index : index - head.groups, first = g * kCacheGroup;
    Group group;
    group.count = layout.headDim - first < kCacheGroup ? layout.headDim - first : kCacheGroup;
#pragma unroll
    for (uint32_t i = 0; i < 2; i++)
      group.x[i] = group.element(i) < group.count ? (isKey ? keys : values)[from + first + group.element(i)] : 0.0f;
    const bool turns = Bits == 4 && isKey;
    if (turns) {
      const uint32_t bits = hadamardBits(group.count);
      // Clamped, so that what comes out is within the range of halves.
#pragma unroll
      for (uint32_t i = 0; i < 2; i++) group.x[i] = clampFinite(group.x[i], kLargestHalf * hadamardQueryFactor(bits));
      hadamard(group.x, bits);
#pragma unroll
      for (uint32_t i = 0; i < 2; i++) group.x[i] *= hadamardKeyFactor(bits);
    }
    uint32_t codes[2];
    const Scale scale = quantise(group, Bits == 8 ? 255.0f : 15.0f, turns, codes);
    uint8_t* scales;
    if (isKey) {
      storeKeyCodes<Bits>(group, codes, first, inBlock, keyBlock);
      scales = keyBlock + (head.keyLines + g) * kCacheLine;
    } else {
      storeValueCodes<Bits>(group, codes, first, inBlock % 4, valueBlock + inBlock / 4 * head.valueLines * kCacheLine);
      scales = valueBlock + (4 * head.valueLines + g) * kCacheLine;
    }
    if (threadIdx.x % kWarp == 0) {
      uint16_t* halves = reinterpret_cast<uint16_t*>(scales);
      halves[inBlock] = scale.scale;
      halves[kKeyBlock + inBlock] = scale.minimum;
    }
  }
}

}  // namespace

void storeQuantisedTokens(cudaStream_t stream, const CacheLayout& layout, const AttentionToken* tokens, size_t count,
                          const float* keys, const float* values, size_t stride) {
  const auto kernel = layout.type == CacheType::Q8 ? storeQuantisedTokensKernel<8> : storeQuantisedTokensKernel<4>;
  launch("storeQuantisedTokens", kernel, dim3(static_cast<unsigned>(count), layout.kvHeads), kThreads, 0, stream,
         layout, tokens, keys, values, stride);
}

}  // namespace spillway::cuda
