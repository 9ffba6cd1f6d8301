#include "Matmul.h"
#include "panel.h"

namespace spillway::cuda {
namespace {

constexpr unsigned kThreads = 256;
constexpr unsigned kParts = 4;        // of a group: eight inputs each
constexpr unsigned kBlockGroups = 8;  // so that a warp writes 512 bytes in a row

// A block takes a panel and eight groups of its inputs; a thread two outputs' weights of one part.
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
    uint16_t* to = halves + ((blockIdx.x * size_t{kPanelOutputs} + output) * groups + group) * kGroupInputs + 8 * part;
    *reinterpret_cast<uint4*>(to) = uint4{words[0], words[1], words[2], words[3]};
  }
}

}  // namespace

void unpackHalves(cudaStream_t stream, const DeviceMatrix& weights, uint32_t firstOutput, uint32_t outputs,
                  uint16_t* halves) {
  withWeightType(weights.type, [&](auto type) {
    constexpr WeightType kType = decltype(type)::value;
    const size_t panelBytes = panelStride<kType>(weights.inputs);
    const dim3 grid(divideUp(outputs, kPanelOutputs), divideUp(divideUp(weights.inputs, kGroupInputs), kBlockGroups));
    launch("unpackHalves", unpackHalvesKernel<kType>, grid, kThreads, 0, stream,
           weights.panels + firstOutput / kPanelOutputs * panelBytes, panelBytes, weights.inputs, halves);
  });
}

}  // namespace spillway::cuda
