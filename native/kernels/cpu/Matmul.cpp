#include "Matmul.h"

#include <algorithm>
#include <string>

#include "../../runtime/Error.h"
#include "../../runtime/ThreadPool.h"

namespace spillway {
namespace {

size_t ceilDivide(size_t a, size_t b) { return (a + b - 1) / b; }

// A loop's index costs well under a microsecond to hand out; an item should take several.
constexpr size_t kItemsPerThread = 8;  // so that threads end at nearly the same time

// What the cut of a job follows from.
struct Route {
  bool rounded;
  RoundedInput form;
  bool tiles() const { return rounded && form == RoundedInput::Bfloat16; }
  // Time, in multiply-adds: on AMX unpacking a weight takes as long as multiplying it with 80 rows.
  size_t cost(size_t weights, size_t rows) const { return weights * (tiles() ? rows + 80 : rows); }
  size_t leastItem() const { return tiles() ? 2400 * 1000 : 200 * 1000; }
  size_t panelsTogether(WeightType type) const { return rounded && !tiles() ? panelsPerTile(panelFormat(type)) : 2; }
  // Of long inputs 64 rows at a time: their totals stay in registers, where those of more rows would go to the output and back for each part of the inputs.
  size_t mostRows(size_t inputs) const { return tiles() && inputs > kShortInputs ? 64 : kMatmulBlockRows; }
  static constexpr size_t kShortInputs = 1024;
  size_t rowsTogether() const { return rounded ? spillway::rowsTogether(form) : kTileRows; }
};

Route routeOf(const Compute& compute, WeightType type) { return {usesRoundedInput(compute, type), compute.kernels.matmul.rounded}; }

// One job cut into blocks of panels by blocks of rows.
struct Cut {
  size_t panelsPerBlock;
  size_t panelBlocks;
  size_t rowsPerBlock;
  size_t rowBlocks;
  size_t items() const { return panelBlocks * rowBlocks; }
};

// share: of all jobs' cost, for one item.
Cut cutJob(const WeightMatrix& weights, const Route& route, size_t rows, size_t share) {
  Cut cut;
  cut.rowBlocks = ceilDivide(rows, route.mostRows(weights.inputs));
  const size_t together = route.rowsTogether();
  cut.rowsPerBlock = ceilDivide(ceilDivide(rows, cut.rowBlocks), together) * together;  // at most mostRows, being whole tiles too
  cut.rowBlocks = ceilDivide(rows, cut.rowsPerBlock);
  const size_t panels = ceilDivide(weights.outputs, kPanelOutputs);
  const size_t panelCost = std::max<size_t>(1, route.cost(kPanelOutputs * weights.inputs, std::min(rows, cut.rowsPerBlock)));
  const size_t wanted = std::max<size_t>(1, std::max(share, route.leastItem()) / panelCost);
  const size_t panelsTogether = route.panelsTogether(weights.type);
  cut.panelsPerBlock = ceilDivide(wanted, panelsTogether) * panelsTogether;
  cut.panelBlocks = ceilDivide(panels, cut.panelsPerBlock);
  return cut;
}

MatmulBlock blockOf(const MatmulJob& job, const MatrixInput& input, RoundedInput form, const Cut& cut, size_t item) {
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
  block.rounded = input.rounded == nullptr ? nullptr : input.rounded + roundedBytes(form, firstRow, input.columns);
  block.values = input.values + firstRow * input.stride;
  block.valueStride = input.stride;
  block.bias = job.bias == nullptr ? nullptr : job.bias + firstOutput;
  block.output = job.output + firstRow * job.outputStride + firstOutput;
  block.outputStride = job.outputStride;
  return block;
}

}  // namespace

bool usesRoundedInput(const Compute& compute, WeightType type) { return compute.precision == Precision::Default && takesRounded(compute.kernels.matmul.rounded, type); }

MatrixInput prepareInput(const Compute& compute, const float* values, size_t rows, size_t columns, size_t stride, bool round, Scratch& scratch) {
  MatrixInput input{values, rows, columns, stride, nullptr};
  if (!round || rows == 0) return input;
  const MatmulKernels& kernels = compute.kernels.matmul;
  if (kernels.rounded == RoundedInput::Groups && columns % kGroupInputs != 0)
    throw Error(ErrorCode::InvalidArgument, "8-bit activations come in groups of 32: " + std::to_string(columns) + " columns");
  uint8_t* rounded = scratch.take<uint8_t>(roundedBytes(kernels.rounded, rows, columns));
  if (rounded == nullptr) return input;
  input.rounded = rounded;
  const size_t together = rowsTogether(kernels.rounded);
  const size_t tiles = ceilDivide(rows, together);
  const size_t tilesPerItem = std::max<size_t>(1, 16384 / (together * columns));
  compute.pool.parallelFor(ceilDivide(tiles, tilesPerItem), [&](size_t item, unsigned) {
    const size_t end = std::min(tiles, (item + 1) * tilesPerItem);
    for (size_t tile = item * tilesPerItem; tile < end; tile++) {
      const size_t row = tile * together;
      kernels.roundRows(values + row * stride, stride, std::min(together, rows - row), columns, rounded + roundedBytes(kernels.rounded, row, columns));
    }
  });
  return input;
}

void matmul(const Compute& compute, const MatmulJob* jobs, size_t jobCount, const MatrixInput& input, Scratch& scratch) {
  const size_t mark = scratch.used();
  uint8_t* workspaces = scratch.take<uint8_t>(compute.pool.threads() * kMatmulWorkspaceBytes);
  if (workspaces != nullptr && input.rows > 0) {
    size_t cost = 0;
    for (size_t j = 0; j < jobCount; j++) {
      const WeightMatrix& weights = *jobs[j].weights;
      if (weights.inputs != input.columns)
        throw Error(ErrorCode::InvalidArgument,
                    "a product of " + std::to_string(input.columns) + " columns with weights of " + std::to_string(weights.inputs) + " inputs");
      const Route route = routeOf(compute, weights.type);
      if (route.rounded && input.rounded == nullptr)
        throw Error(ErrorCode::InvalidArgument, "a product of rounded activations whose input was not rounded");
      cost += route.cost(size_t{weights.outputs} * weights.inputs, input.rows);
    }
    const size_t share = cost / (compute.pool.threads() * kItemsPerThread);
    size_t items = 0;
    for (size_t j = 0; j < jobCount; j++) items += cutJob(*jobs[j].weights, routeOf(compute, jobs[j].weights->type), input.rows, share).items();
    compute.pool.parallelFor(items, [&](size_t item, unsigned worker) {
      const MatmulJob* job = jobs;
      Route route;
      Cut cut;
      for (;; job++) {
        route = routeOf(compute, job->weights->type);
        cut = cutJob(*job->weights, route, input.rows, share);
        if (item < cut.items()) break;
        item -= cut.items();
      }
      const MatmulBlock block = blockOf(*job, input, route.form, cut, item);
      uint8_t* workspace = workspaces + worker * kMatmulWorkspaceBytes;
      if (route.rounded)
        compute.kernels.matmul.multiplyRounded(block, workspace);
      else
        compute.kernels.matmul.multiplyFloat(block, workspace);
    });
  }
  scratch.release(mark);
}

}  // namespace spillway
