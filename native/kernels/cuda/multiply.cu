#include "Matmul.h"
#include "asyncCopy.h"
#include "panel.h"
#include "tensorCore.h"

namespace spillway::cuda {
namespace {

constexpr unsigned kWarps = 4;
constexpr unsigned kStages = 3;

// A chunk of a panel's inputs is what one stage of a warp's ring buffer holds: about 2 KiB of values, and their scales.
template <WeightType Type>
struct Chunk {
  using Panel = PanelOf<Type>;
  // Types with super blocks need whole ones.
  static constexpr unsigned kGroups = Panel::kSuper               ? kSuperGroups
                                      : Panel::kGroupBytes >= 512 ? 2048 / Panel::kGroupBytes
                                                                  : 8;
  static constexpr unsigned kValueBytes = kGroups * Panel::kGroupBytes;
  static constexpr unsigned kScaleBytes = kGroups / Panel::kGroupsPerScales * Panel::kScaleStride;
  static constexpr unsigned kBytes = kValueBytes + kScaleBytes;
};

template <WeightType Type>
struct Product {
  DeviceMatrix weights;
  size_t panelBytes;
  const uint16_t* x;
  size_t xStride;
  const float* factors;
  size_t rows;
  const float* bias;
  float* output;
  size_t outputStride;
};

// The warp's lanes ask for one chunk of the panel.
template <WeightType Type>
__device__ __forceinline__ void fetchChunk(const uint8_t* panel, size_t inputs, unsigned chunk, unsigned lane,
                                           uint8_t* to) {
  using Panel = PanelOf<Type>;
  const size_t first = size_t{chunk} * Chunk<Type>::kGroups * kGroupInputs;
  size_t valueBytes, scaleBytes = 0;
  if constexpr (Panel::kQuantised) {
    const size_t groups = inputs / kGroupInputs - first / kGroupInputs;
    valueBytes = groups * Panel::kGroupBytes;
    scaleBytes = groups / Panel::kGroupsPerScales * Panel::kScaleStride;
  } else {
    valueBytes = (inputs - first) * kPanelOutputs * Panel::kElementBytes;
  }
  if (valueBytes > Chunk<Type>::kValueBytes) valueBytes = Chunk<Type>::kValueBytes;
  if (scaleBytes > Chunk<Type>::kScaleBytes) scaleBytes = Chunk<Type>::kScaleBytes;
  const uint8_t* values = panel + first / kGroupInputs * Panel::kGroupBytes;
  for (size_t at = 16 * lane; at < valueBytes; at += 16 * kWarp) copy16Async(to + at, values + at);
  if constexpr (Panel::kQuantised) {
    const uint8_t* scales = panel + Panel::scalesBegin(inputs) + size_t{chunk} * Chunk<Type>::kScaleBytes;
    for (size_t at = 16 * lane; at < scaleBytes; at += 16 * kWarp)
      copy16Async(to + Chunk<Type>::kValueBytes + at, scales + at);
  }
}

// A block takes one panel of 16 outputs and 16 * Tiles rows. Its four warps share out the chunks of inputs.
// Lane 4 group + part holds weights of outputs group and group + 8, inputs 8 part and on of a group of 32: two steps of
// the tensor cores.
template <WeightType Type, int Tiles>
__global__ __launch_bounds__(kWarps* kWarp) void multiplyKernel(Product<Type> product) {
  uint8_t* shared = sharedAs<uint8_t>();
  const unsigned warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp, column = lane / 4, part = lane % 4;
  const size_t inputs = product.weights.inputs;
  const uint8_t* panel = product.weights.panels + blockIdx.x * product.panelBytes;
  const size_t firstRow = size_t{blockIdx.y} * 16 * Tiles;
  const unsigned chunks =
      static_cast<unsigned>((inputs + Chunk<Type>::kGroups * kGroupInputs - 1) / (Chunk<Type>::kGroups * kGroupInputs));
  uint8_t* ring = shared + warp * kStages * Chunk<Type>::kBytes;

  float sums[Tiles][2][4] = {};
#pragma unroll
  for (unsigned stage = 0; stage + 1 < kStages; stage++) {
    const unsigned chunk = warp + stage * kWarps;
    if (chunk < chunks) fetchChunk<Type>(panel, inputs, chunk, lane, ring + stage * Chunk<Type>::kBytes);
    commitCopies();
  }
  unsigned turn = 0;
  for (unsigned chunk = warp; chunk < chunks; chunk += kWarps, turn++) {
    waitForCopies<kStages - 2>();
    __syncwarp();  // all lanes' copies are there, and all lanes are done with the stage that is filled next
    const unsigned ahead = chunk + (kStages - 1) * kWarps;
    if (ahead < chunks)
      fetchChunk<Type>(panel, inputs, ahead, lane, ring + (turn + kStages - 1) % kStages * Chunk<Type>::kBytes);
    commitCopies();
    const uint8_t* stage = ring + turn % kStages * Chunk<Type>::kBytes;
    const unsigned inputsLeft = static_cast<unsigned>(inputs - size_t{chunk} * Chunk<Type>::kGroups * kGroupInputs);
    for (unsigned group = 0; group < Chunk<Type>::kGroups && group * kGroupInputs < inputsLeft; group++) {
      uint32_t b[2][4];
#pragma unroll
      for (unsigned side = 0; side < 2; side++)
        weightsOfPart<Type>(stage + group * PanelOf<Type>::kGroupBytes, stage + Chunk<Type>::kValueBytes, group,
                            column + 8 * side, part, inputsLeft - group * static_cast<unsigned>(kGroupInputs), b[side]);
      const size_t at = (size_t{chunk} * Chunk<Type>::kGroups + group) * kGroupInputs + 8 * part;
#pragma unroll
      for (int tile = 0; tile < Tiles; tile++) {
        uint4 values[2];
#pragma unroll
        for (unsigned i = 0; i < 2; i++) {
          const size_t row = firstRow + 16 * tile + column + 8 * i;
          values[i] = row < product.rows ? *reinterpret_cast<const uint4*>(product.x + row * product.xStride + at)
                                         : uint4{0, 0, 0, 0};
        }
        const uint32_t a[2][4] = {{values[0].x, values[1].x, values[0].y, values[1].y},
                                  {values[0].z, values[1].z, values[0].w, values[1].w}};
#pragma unroll
        for (unsigned side = 0; side < 2; side++) {
          mma16x8x16(sums[tile][side], a[0], b[side]);
          mma16x8x16(sums[tile][side], a[1], b[side] + 2);
        }
      }
    }
  }

  // The warps' sums, added in order of the warps. The rings are done with.
  float* partials = sharedAs<float>();
  __syncthreads();
#pragma unroll
  for (int tile = 0; tile < Tiles; tile++)
#pragma unroll
    for (int side = 0; side < 2; side++)
#pragma unroll
      for (int i = 0; i < 4; i++) {
        const unsigned row = 16 * tile + column + 8 * (i / 2), output = 8 * side + 2 * part + i % 2;
        partials[(warp * 16 * Tiles + row) * kPanelOutputs + output] = sums[tile][side][i];
      }
  __syncthreads();
  for (unsigned i = threadIdx.x; i < 16 * Tiles * kPanelOutputs; i += kWarps * kWarp) {
    const size_t row = firstRow + i / kPanelOutputs, output = blockIdx.x * kPanelOutputs + i % kPanelOutputs;
    if (row >= product.rows || output >= product.weights.outputs) continue;
    float total = partials[i];
#pragma unroll
    for (unsigned other = 1; other < kWarps; other++) total += partials[other * 16 * Tiles * kPanelOutputs + i];
    total *= product.factors[row];
    product.output[row * product.outputStride + output] =
        product.bias == nullptr ? total : total + product.bias[output];
  }
}

template <WeightType Type, int Tiles>
void run(cudaStream_t stream, const Product<Type>& product) {
  constexpr size_t kRingBytes = kWarps * kStages * Chunk<Type>::kBytes,
                   kPartialBytes = kWarps * 16 * Tiles * kPanelOutputs * sizeof(float);
  const dim3 grid(divideUp(product.weights.outputs, kPanelOutputs), divideUp(product.rows, 16 * Tiles));
  launch("multiply", multiplyKernel<Type, Tiles>, grid, kWarps * kWarp,
         kRingBytes > kPartialBytes ? kRingBytes : kPartialBytes, stream, product);
}

}  // namespace

void multiply(cudaStream_t stream, const DeviceMatrix& weights, const HalfRows& x, const float* bias, float* output,
              size_t outputStride) {
  withWeightType(weights.type, [&](auto type) {
    constexpr WeightType kType = decltype(type)::value;
    const Product<kType> product = {weights,     panelStride<kType>(weights.inputs),
                                    x.values,    halfColumns(x.columns),
                                    x.factors,   x.rows,
                                    bias,        output,
                                    outputStride};
    if (x.rows <= 16)
      run<kType, 1>(stream, product);
    else
      run<kType, 4>(stream, product);
  });
}

}  // namespace spillway::cuda
