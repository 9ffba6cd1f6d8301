#include "Matmul.h"

#include <algorithm>
#include <string>

#include "../../runtime/Error.h"
#include "../../runtime/ThreadPool.h"

namespace spillway {
namespace {

size_t ceilDivide(size_t a, size_t b) { return (a + b - 1) / b; }

// A loop's index costs well under a microsecond to hand out; an item should take several.
constexpr size_t kItemOperations = 200 * 1000;  // multiply-adds
constexpr size_t kItemsPerThread = 8;           // so that threads end at nearly the same time

// One job cut into blocks of panels by blocks of rows.
struct Cut {
  size_t panelsPerBlock;
  size_t panelBlocks;
  size_t rowsPerBlock;
  size_t rowBlocks;
  size_t items() const { return panelBlocks * rowBlocks; }
};

Cut cutJob(const WeightMatrix& weights, bool quantisedInput, size_t rows, size_t itemOperations) {
  Cut cut;
  cut.rowBlocks = ceilDivide(rows, kMatmulBlockRows);
  cut.rowsPerBlock = ceilDivide(ceilDivide(rows, cut.rowBlocks), kTileRows) * kTileRows;  // whole tiles; at most kMatmulBlockRows, being whole tiles too
  cut.rowBlocks = ceilDivide(rows, cut.rowsPerBlock);
  const size_t panels = ceilDivide(weights.outputs, kPanelOutputs);
  const size_t panelOperations = std::max<size_t>(1, kPanelOutputs * weights.inputs * std::min(rows, cut.rowsPerBlock));
  const size_t wanted = std::max<size_t>(1, itemOperations / panelOperations);
  const size_t together = quantisedInput ? panelsPerTile(panelFormat(weights.type)) : 2;
  cut.panelsPerBlock = ceilDivide(wanted, together) * together;
  cut.panelBlocks = ceilDivide(panels, cut.panelsPerBlock);
  return cut;
}

size_t operations(const MatmulJob* jobs, size_t jobCount, size_t rows) {
  size_t sum = 0;
  for (size_t j = 0; j < jobCount; j++) sum += size_t{jobs[j].weights->outputs} * jobs[j].weights->inputs * rows;
  return sum;
}

MatmulBlock blockOf(const MatmulJob& job, const MatrixInput& input, const Cut& cut, size_t item) {
  const WeightMatrix& weights = *job.weights;
  // Neighbouring items share panels rather than rows, so that a panel's second use finds it in the cache.
  const size_t firstRow = item % cut.rowBlocks * cut.rowsPerBlock;
  const size_t firstPanel = item / cut.rowBlocks * cut.panelsPerBlock;
  const size_t firstOutput = firstPanel * kPanelOutputs;
  const size_t bytes = panelBytes(weights.type, weights.inputs);
  MatmulBlock block;
  block.type = weights.type;
  block.inputs = weights.inputs;
  block.panels = weights.panels + firstPanel * bytes;
  block.panelBytes = bytes;
  block.outputs = std::min(weights.outputs - firstOutput, cut.panelsPerBlock * kPanelOutputs);
  block.rows = std::min(input.rows - firstRow, cut.rowsPerBlock);
  block.tiles = input.tiles == nullptr ? nullptr : input.tiles + firstRow / kTileRows * kTilesPerGroup * (input.columns / kGroupInputs);
  block.values = input.values + firstRow * input.stride;
  block.valueStride = input.stride;
  block.bias = job.bias == nullptr ? nullptr : job.bias + firstOutput;
  block.output = job.output + firstRow * job.outputStride + firstOutput;
  block.outputStride = job.outputStride;
  return block;
}

}  // namespace

bool usesQuantisedInput(WeightType type, Precision precision) { return precision == Precision::Default && isQuantised(type); }

MatrixInput prepareInput(const Compute& compute, const float* values, size_t rows, size_t columns, size_t stride, bool quantise, Scratch& scratch) {
  MatrixInput input{values, rows, columns, stride, nullptr};
  if (!quantise || rows == 0) return input;
  if (columns % kGroupInputs != 0)
    throw Error(ErrorCode::InvalidArgument, "8-bit activations come in groups of 32: " + std::to_string(columns) + " columns");
  const size_t groups = columns / kGroupInputs;
  const size_t tiles = ceilDivide(rows, kTileRows);
  QuantisedTile* quantised = scratch.take<QuantisedTile>(tiles * kTilesPerGroup * groups);
  if (quantised == nullptr) return input;
  input.tiles = quantised;
  const size_t tilesPerItem = std::max<size_t>(1, 16384 / (kTileRows * columns));
  compute.pool.parallelFor(ceilDivide(tiles, tilesPerItem), [&](size_t item, unsigned) {
    const size_t end = std::min(tiles, (item + 1) * tilesPerItem);
    for (size_t tile = item * tilesPerItem; tile < end; tile++) {
      const size_t row = tile * kTileRows;
      compute.kernels.matmul.quantiseRows(values + row * stride, stride, std::min(kTileRows, rows - row), columns, quantised + tile * kTilesPerGroup * groups);
    }
  });
  return input;
}

void matmul(const Compute& compute, const MatmulJob* jobs, size_t jobCount, const MatrixInput& input, Scratch& scratch) {
  const size_t mark = scratch.used();
  uint8_t* workspaces = scratch.take<uint8_t>(compute.pool.threads() * kMatmulWorkspaceBytes);
  if (workspaces != nullptr && input.rows > 0) {
    const size_t share = operations(jobs, jobCount, input.rows) / (compute.pool.threads() * kItemsPerThread);
    const size_t itemOperations = std::max(share, kItemOperations);
    size_t items = 0;
    for (size_t j = 0; j < jobCount; j++) {
      const WeightMatrix& weights = *jobs[j].weights;
      if (weights.inputs != input.columns)
        throw Error(ErrorCode::InvalidArgument,
                    "a product of " + std::to_string(input.columns) + " columns with weights of " + std::to_string(weights.inputs) + " inputs");
      if (usesQuantisedInput(weights.type, compute.precision) && input.tiles == nullptr)
        throw Error(ErrorCode::InvalidArgument, "a product with quantised weights whose input was not quantised");
      items += cutJob(weights, usesQuantisedInput(weights.type, compute.precision), input.rows, itemOperations).items();
    }
    compute.pool.parallelFor(items, [&](size_t item, unsigned worker) {
      const MatmulJob* job = jobs;
      bool quantised;
      Cut cut;
      for (;; job++) {
        quantised = usesQuantisedInput(job->weights->type, compute.precision);
        cut = cutJob(*job->weights, quantised, input.rows, itemOperations);
        if (item < cut.items()) break;
        item -= cut.items();
      }
      const MatmulBlock block = blockOf(*job, input, cut, item);
      uint8_t* workspace = workspaces + worker * kMatmulWorkspaceBytes;
      if (quantised)
        compute.kernels.matmul.multiplyQuantised(block, workspace);
      else
        compute.kernels.matmul.multiplyFloat(block, workspace);
    });
  }
  scratch.release(mark);
}

}  // namespace spillway
