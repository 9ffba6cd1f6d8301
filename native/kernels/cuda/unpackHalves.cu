#include "Matmul.h"
#include "panel.h"

namespace spillway::cuda {
namespace {

// A part's eight weights to their places among the group's halves.
__device__ __forceinline__ void storePart(const uint32_t words[4], unsigned part, uint16_t* group) {
#pragma unroll
  for (unsigned pair = 0; pair < 4; pair++) *reinterpret_cast<uint32_t*>(group + halfPlace(pair, part)) = words[pair];
}

constexpr unsigned kThreads = 256;
constexpr unsigned kParts = 4;        // of a group: eight inputs each
constexpr unsigned kBlockGroups = 8;  // so that a warp writes 512 bytes in a row

// Quantised types. A block takes a panel and eight groups of its inputs; a thread two outputs' weights of one part.
template <WeightType Type>
__global__ __launch_bounds__(kThreads) void unpackHalvesKernel(const uint8_t* panels, size_t panelBytes,
                                                               uint32_t inputs, uint16_t* halves) {
  using Panel = PanelOf<Type>;
  const uint8_t* panel = panels + blockIdx.x * panelBytes;
  const size_t groups = (size_t{inputs} + kGroupInputs - 1) / kGroupInputs;
  const unsigned part = threadIdx.x % kParts;
  const size_t group = size_t{blockIdx.y} * kBlockGroups + threadIdx.x / kParts % kBlockGroups;
  if (group >= groups) return;
  const size_t left = inputs - group * kGroupInputs;
  for (unsigned output = threadIdx.x / (kParts * kBlockGroups); output < kPanelOutputs;
       output += kThreads / (kParts * kBlockGroups)) {
    uint32_t words[4];
    weightsOfPart<Type>(panel + group * Panel::kGroupBytes, panel + Panel::scalesBegin(inputs),
                        static_cast<unsigned>(group), output, part,
                        left < kGroupInputs ? static_cast<unsigned>(left) : static_cast<unsigned>(kGroupInputs), words);
    storePart(words, part, halves + ((blockIdx.x * size_t{kPanelOutputs} + output) * groups + group) * kGroupInputs);
  }
}

// Float types, whose panels have the outputs side by side where halves have the inputs: a block turns eight groups of
// inputs round in shared memory.
constexpr unsigned kBlockInputs = kBlockGroups * kGroupInputs;
constexpr unsigned kPairs = kPanelOutputs / 2;  // of outputs: a word of an input each

// Where an input's words begin. One more than they are, and one more a group: the lanes of a warp, which write 32
// inputs in a row and read the inputs of eight groups' four parts, meet in no bank.
__device__ __forceinline__ unsigned wordsOfInput(unsigned input) {
  return input * (kPairs + 1) + input / static_cast<unsigned>(kGroupInputs);
}
constexpr size_t kTurnedWords = kBlockInputs * (kPairs + 1) + kBlockGroups;

template <WeightType Type>
__global__ __launch_bounds__(kThreads) void unpackFloatsKernel(const uint8_t* panels, size_t panelBytes,
                                                               uint32_t inputs, uint16_t* halves) {
  static_assert(kThreads == kBlockInputs && kThreads == kPairs * kParts * kBlockGroups);
  constexpr unsigned kInputBytes = kPanelOutputs * PanelOf<Type>::kElementBytes;
  uint32_t* turned = sharedAs<uint32_t>();
  const size_t input = size_t{blockIdx.y} * kBlockInputs + threadIdx.x;
  uint4 values[kInputBytes / sizeof(uint4)] = {};
  if (input < inputs) {
    const uint8_t* from = panels + blockIdx.x * panelBytes + input * kInputBytes;
#pragma unroll
    for (unsigned i = 0; i < kInputBytes / sizeof(uint4); i++) values[i] = loadAt<uint4>(from, i);
  }
  const auto half = [&](unsigned output) -> uint32_t {
    const uint8_t* bytes = reinterpret_cast<const uint8_t*>(values);
    if constexpr (Type == WeightType::F16) return loadAt<uint16_t>(bytes, output);
    return toHalf(floatElement<Type>(bytes, output));
  };
#pragma unroll
  for (unsigned pair = 0; pair < kPairs; pair++)
    turned[wordsOfInput(threadIdx.x) + pair] = half(2 * pair + 1) << 16 | half(2 * pair);
  __syncthreads();

  const unsigned pair = threadIdx.x / (kParts * kBlockGroups), part = threadIdx.x % kParts,
                 inBlock = threadIdx.x / kParts % kBlockGroups;
  const size_t groups = (size_t{inputs} + kGroupInputs - 1) / kGroupInputs,
               group = size_t{blockIdx.y} * kBlockGroups + inBlock;
  if (group >= groups) return;
  uint32_t both[8];
#pragma unroll
  for (unsigned i = 0; i < 8; i++)
    both[i] = turned[wordsOfInput(inBlock * static_cast<unsigned>(kGroupInputs) + 8 * part + i) + pair];
#pragma unroll
  for (unsigned side = 0; side < 2; side++) {
    uint32_t words[4];
#pragma unroll
    for (unsigned word = 0; word < 4; word++) {
      const unsigned first = word / 2 * 4 + word % 2;
      words[word] = __byte_perm(both[first], both[first + 2], side == 0 ? 0x5410 : 0x7632);
    }
    const size_t output = blockIdx.x * size_t{kPanelOutputs} + 2 * pair + side;
    storePart(words, part, halves + (output * groups + group) * kGroupInputs);
  }
}

}  // namespace

void unpackHalves(cudaStream_t stream, const DeviceMatrix& weights, uint32_t firstOutput, uint32_t outputs,
                  uint16_t* halves) {
  withWeightType(weights.type, [&](auto type) {
    constexpr WeightType kType = decltype(type)::value;
    const size_t panelBytes = panelStride<kType>(weights.inputs);
    const dim3 grid(divideUp(outputs, kPanelOutputs), divideUp(divideUp(weights.inputs, kGroupInputs), kBlockGroups));
    const uint8_t* panels = weights.panels + firstOutput / kPanelOutputs * panelBytes;
    if constexpr (PanelOf<kType>::kQuantised)
      launch("unpackHalves", unpackHalvesKernel<kType>, grid, kThreads, 0, stream, panels, panelBytes, weights.inputs,
             halves);
    else
      launch("unpackFloats", unpackFloatsKernel<kType>, grid, kThreads, kTurnedWords * sizeof(uint32_t), stream, panels,
             panelBytes, weights.inputs, halves);
  });
}

}  // namespace spillway::cuda
