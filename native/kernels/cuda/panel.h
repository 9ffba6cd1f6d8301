// Weights out of a panel (kernels/cpu/panelLayout.h), for one type of weights at a time.
#pragma once
#include "../cpu/panelLayout.h"
#include "halfFloat.h"

namespace spillway::cuda {

template <WeightType Type>
struct PanelOf {
  static constexpr PanelFormat kFormat = panelFormat(Type);
  // One by one: device code may use a constant's value, but not the object in host memory.
  static constexpr ScaleKind kKind = kFormat.kind;
  static constexpr int kBits = kFormat.bits, kZero = kFormat.zero;
  static constexpr bool kCodebook = kFormat.codebook != nullptr;
  // Four numbers of the codebook from number `first` on.
  static constexpr uint32_t codebookWord(int first) {
    uint32_t word = 0;
    if constexpr (kCodebook)
      for (int i = 3; i >= 0; i--) word = word << 8 | kFormat.codebook->numbers[first + i];
    return word;
  }
  static constexpr bool kOffset = kFormat.offset;
  static constexpr bool kQuantised = kKind != ScaleKind::None;
  static constexpr bool kSuper = isSuper(kKind);
  static constexpr unsigned kElementBytes = Type == WeightType::F32 ? 4 : 2;  // of float types
  static constexpr unsigned kGroupBytes =
      kQuantised ? kFormat.bits * kVectorBytes : kGroupInputs * kPanelOutputs * kElementBytes;
  static constexpr unsigned kScaleStride = scaleStride(kKind), kGroupsPerScales = groupsPerScales(kKind);
  // Of so many groups, the first of which begins a block of scales; of all groups where they have the same.
  static constexpr size_t scaleBytes(size_t groups) {
    return kKind == ScaleKind::Row ? 2 * kPanelOutputs : groups / kGroupsPerScales * kScaleStride;
  }
  // From the beginning of a panel to its scales.
  static constexpr size_t scalesBegin(size_t inputs) { return inputs / kGroupInputs * kGroupBytes; }
};

template <typename T>
__device__ __forceinline__ T loadAt(const uint8_t* bytes, size_t index) {
  return reinterpret_cast<const T*>(bytes)[index];
}

// Four stored numbers of one output, a byte each: vector v (0 to 7) of a group.
template <int Bits>
__device__ __forceinline__ uint32_t storedFour(const uint8_t* group, unsigned output, unsigned v) {
  const auto word = [=](unsigned vector) { return loadAt<uint32_t>(group + vector * kVectorBytes, output); };
  if constexpr (Bits == 8) return word(v);
  if constexpr (Bits == 4 || Bits == 5 || Bits == 6) {
    const uint32_t low = word(v / 2) >> (4 * (v % 2)) & 0x0f0f0f0fu;
    if constexpr (Bits == 5) return low | (word(4) >> v & 0x01010101u) << 4;
    if constexpr (Bits == 6) return low | (word(4 + v / 4) >> (2 * (v % 4)) & 0x03030303u) << 4;
    return low;
  }
  const uint32_t pairs = word(v / 4) >> (2 * (v % 4)) & 0x03030303u;
  if constexpr (Bits == 3) return pairs | (word(2) >> v & 0x01010101u) << 2;
  return pairs;
}

// What is multiplied, a byte each: what these numbers stand for.
template <WeightType Type>
__device__ __forceinline__ uint32_t numbersOfFour(const uint8_t* group, unsigned output, unsigned v) {
  using Panel = PanelOf<Type>;
  const uint32_t stored = storedFour<Panel::kBits>(group, output, v);
  if constexpr (!Panel::kCodebook) {
    return stored;
  } else {
    // A byte of eight is chosen by three bits of a selector's nibble; the fourth bit says of which eight.
    constexpr uint32_t kWords[4] = {Panel::codebookWord(0), Panel::codebookWord(4), Panel::codebookWord(8),
                                    Panel::codebookWord(12)};
    const uint32_t nibbles = stored | stored >> 4, selector = ((nibbles & 0xffu) | (nibbles >> 8 & 0xff00u)) & 0x7777u;
    const uint32_t upper = (stored >> 3 & 0x01010101u) * 0xffu;
    return (__byte_perm(kWords[0], kWords[1], selector) & ~upper) |
           (__byte_perm(kWords[2], kWords[3], selector) & upper);
  }
}

struct ScaleAndOffset {
  float scale, offset;
};

// Of half a group: inputs 0-15 or 16-31. `group` counts from `scales`, which for types with super blocks, or pairs of
// groups, is the beginning of one.
template <WeightType Type>
__device__ __forceinline__ ScaleAndOffset scaleOf(const uint8_t* scales, unsigned output, unsigned group,
                                                  unsigned half) {
  using Panel = PanelOf<Type>;
  if constexpr (!Panel::kSuper) {
    const uint8_t* at = scales + group / Panel::kGroupsPerScales * Panel::kScaleStride;
    if constexpr (Panel::kKind == ScaleKind::Exponent) {
      // Two factors: the smallest powers are subnormal, the largest have no exponent left.
      const uint32_t exponent = at[output], half = exponent / 2;
      return {__uint_as_float((half + 63) << 23) * __uint_as_float((exponent - half + 63) << 23), 0.0f};
    }
    const float scale = fromHalf(loadAt<uint16_t>(at, output));
    if constexpr (Panel::kOffset) return {scale, fromHalf(loadAt<uint16_t>(at + 32, output))};
    return {scale, 0.0f};
  } else {
    const uint8_t* at = scales + group / kSuperGroups * Panel::kScaleStride;
    const unsigned inSuper = group % kSuperGroups;
    const float first = fromHalf(loadAt<uint16_t>(at, output));
    if constexpr (Panel::kKind == ScaleKind::SuperSigned || Panel::kKind == ScaleKind::SuperGroups) {
      const unsigned index = Panel::kKind == ScaleKind::SuperSigned ? 2 * inSuper + half : inSuper;
      const uint8_t scale = at[32 + kPanelOutputs * index + output];
      return {first * static_cast<float>(static_cast<int8_t>(scale)), 0.0f};
    } else {
      const float second = fromHalf(loadAt<uint16_t>(at + 32, output));
      if constexpr (Panel::kKind == ScaleKind::SuperNibbles) {
        const uint8_t both = at[64 + kPanelOutputs * (2 * inSuper + half) + output];
        return {first * static_cast<float>(both & 15), -(second * static_cast<float>(both >> 4))};
      } else {
        const uint8_t* pair = at + 64 + 2 * kPanelOutputs * inSuper;
        return {first * static_cast<float>(pair[output]), -(second * static_cast<float>(pair[kPanelOutputs + output]))};
      }
    }
  }
}

template <WeightType Type>
__device__ __forceinline__ float floatElement(const uint8_t* values, size_t index) {
  if constexpr (Type == WeightType::F32) return loadAt<float>(values, index);
  const uint16_t bits = loadAt<uint16_t>(values, index);
  return Type == WeightType::F16 ? fromHalf(bits) : fromBfloat16(bits);
}

// One weight, exactly.
template <WeightType Type>
__device__ __forceinline__ float weightAt(const uint8_t* panel, size_t inputs, unsigned output, size_t input) {
  using Panel = PanelOf<Type>;
  if constexpr (!Panel::kQuantised) {
    return floatElement<Type>(panel, input * kPanelOutputs + output);
  } else {
    const size_t group = input / kGroupInputs;
    const unsigned inGroup = static_cast<unsigned>(input % kGroupInputs);
    const uint32_t four = numbersOfFour<Type>(panel + group * Panel::kGroupBytes, output, inGroup / 4);
    const ScaleAndOffset by =
        scaleOf<Type>(panel + Panel::scalesBegin(inputs), output, static_cast<unsigned>(group), inGroup / 16);
    const float scaled =
        by.scale * static_cast<float>(static_cast<int>(four >> (8 * (inGroup % 4)) & 255) - Panel::kZero);
    return Panel::kOffset ? scaled + by.offset : scaled;
  }
}

// Eight weights of one output as halves, inputs 8 part and on of a group, two a word in the order of HalfRows. `values`
// is the group's, inputsLeft how many inputs the matrix has from the group's first on (float types; the rest counts as
// zero).
template <WeightType Type>
__device__ __forceinline__ void weightsOfPart(const uint8_t* values, const uint8_t* scales, unsigned group,
                                              unsigned output, unsigned part, unsigned inputsLeft, uint32_t words[4]) {
  using Panel = PanelOf<Type>;
  if constexpr (!Panel::kQuantised) {
    const auto half = [=](unsigned i) -> uint32_t {
      const unsigned input = 8 * part + i;
      if (input >= inputsLeft) return 0;
      if constexpr (Type == WeightType::F16) return loadAt<uint16_t>(values, input * kPanelOutputs + output);
      return toHalf(floatElement<Type>(values, input * kPanelOutputs + output));
    };
#pragma unroll
    for (int word = 0; word < 4; word++) {
      const unsigned first = word / 2 * 4 + word % 2;
      words[word] = half(first + 2) << 16 | half(first);
    }
  } else {
    const ScaleAndOffset by = scaleOf<Type>(scales, output, group, part / 2);
#pragma unroll
    for (int v = 0; v < 2; v++) {
      const uint32_t four = numbersOfFour<Type>(values, output, 2 * part + v);
      if constexpr (Panel::kSuper || Panel::kKind == ScaleKind::Exponent) {
        // Scales of super blocks are products with more bits than a half has, powers of two are beyond its range.
        const auto weight = [=](int i) {
          return fmaf(by.scale, static_cast<float>(static_cast<int>(four >> (8 * i) & 255) - Panel::kZero), by.offset);
        };
        words[2 * v] = packHalves(weight(0), weight(2));
        words[2 * v + 1] = packHalves(weight(1), weight(3));
      } else {
        // 0x6400 is the half 1024, whose last bit counts 1: with q in its low bits it is 1024 + q. Two numbers at a
        // time, no conversion.
        constexpr uint32_t kOne = 0x3c003c00u;
        constexpr uint32_t kLess = 0xe400e400u + (Panel::kZero << 16 | Panel::kZero);  // -(1024 + zero)
        const uint32_t scale = static_cast<uint32_t>(toHalf(by.scale)) << 16 | toHalf(by.scale);
        const uint32_t offset = static_cast<uint32_t>(toHalf(by.offset)) << 16 | toHalf(by.offset);
        const uint32_t even = fmaHalves((four & 0x00ff00ffu) | 0x64006400u, kOne, kLess);
        const uint32_t odd = fmaHalves((four >> 8 & 0x00ff00ffu) | 0x64006400u, kOne, kLess);
        words[2 * v] = fmaHalves(even, scale, offset);
        words[2 * v + 1] = fmaHalves(odd, scale, offset);
      }
    }
  }
}

// Bytes of a panel on the device, as panelBytes() in kernels/cpu/Matmul.h.
template <WeightType Type>
size_t panelStride(size_t inputs) {
  using Panel = PanelOf<Type>;
  const size_t bytes = Panel::kQuantised ? Panel::scalesBegin(inputs) + scalesBytes(Panel::kFormat, inputs)
                                         : inputs * kPanelOutputs * Panel::kElementBytes;
  return (bytes + 63) / 64 * 64;
}

}  // namespace spillway::cuda
