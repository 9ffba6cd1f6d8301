#include "Matmul.h"

#include <algorithm>
#include <string>

#include "../../runtime/Error.h"
#include "../../runtime/ThreadPool.h"
#include "epilogue.h"

namespace spillway {
namespace {

size_t ceilDivide(size_t a, size_t b) { return (a + b - 1) / b; }

// A loop's index costs well under a microsecond to hand out; an item should take several.
constexpr size_t kItemsPerThread = 8;  // so that threads end at nearly the same time
// On AMX an item begins by bringing its rows into the nearest cache, so it should have some panels to multiply them with.
constexpr size_t kTileItemsPerThread = 4;

// What an item computes before its epilogue: products, and those with the job's factor. They stay in the cache of the thread.
constexpr size_t kTotalsBytes = 256 * 1024;
constexpr size_t kWorkerBytes = kMatmulWorkspaceBytes + kTotalsBytes;

// What the cut of a job follows from.
struct Route {
  bool rounded;
  RoundedInput form;
  bool tiles() const { return rounded && form == RoundedInput::Bfloat16; }
  size_t mostRows() const { return rounded ? mostRounded(form) : kMatmulBlockRows; }
  size_t rowsTogether() const { return rounded ? spillway::rowsTogether(form) : kTileRows; }
  // Time, in multiply-adds: on AMX weights are unpacked for each block of rows, which takes about as long as multiplying it.
  size_t cost(size_t weights, size_t rows) const { return weights * (tiles() ? ceilDivide(rows, mostRows()) * mostRows() : rows); }
  size_t leastItem() const { return tiles() ? 4000 * 1000 : 200 * 1000; }
  size_t panelsTogether(WeightType type) const { return rounded && !tiles() ? panelsPerTile(panelFormat(type)) : 2; }
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

// Whether products go through an item's totals. Tiles always do: in an output of other outputs' size they might stand in each other's way in the nearest cache.
bool hasTotals(const MatmulJob& job, const Route& route) { return route.tiles() || job.epilogue != Epilogue::Store; }

// From row to row of an item's totals: an odd number of cache lines, so that 64 rows of one panel are spread over all sets of the nearest cache.
size_t totalsStride(size_t panels) { return (panels | 1) * kPanelOutputs; }

size_t matricesOf(const MatmulJob& job) { return job.factor == nullptr ? 1 : 2; }

// share: of all jobs' cost, for one item.
Cut cutJob(const MatmulJob& job, const Route& route, size_t rows, size_t share) {
  const WeightMatrix& weights = *job.weights;
  Cut cut;
  cut.rowBlocks = ceilDivide(rows, route.mostRows());
  const size_t together = route.rowsTogether();
  cut.rowsPerBlock = ceilDivide(ceilDivide(rows, cut.rowBlocks), together) * together;  // at most mostRows, being whole tiles too
  cut.rowBlocks = ceilDivide(rows, cut.rowsPerBlock);
  const size_t panels = ceilDivide(weights.outputs, kPanelOutputs);
  const size_t panelCost = std::max<size_t>(1, matricesOf(job) * route.cost(kPanelOutputs * weights.inputs, std::min(rows, cut.rowsPerBlock)));
  const size_t wanted = std::max<size_t>(1, std::max(share, route.leastItem()) / panelCost);
  const size_t panelsTogether = job.rounded != nullptr ? 2 : route.panelsTogether(weights.type);  // 32 columns of the next product are rounded together
  cut.panelsPerBlock = ceilDivide(std::min(wanted, panels), panelsTogether) * panelsTogether;
  if (hasTotals(job, route)) {
    const size_t most = kTotalsBytes / (matricesOf(job) * cut.rowsPerBlock * kPanelOutputs * sizeof(float)) - 1;  // see totalsStride
    if (cut.panelsPerBlock > most) cut.panelsPerBlock = most / panelsTogether * panelsTogether;
  }
  cut.panelBlocks = ceilDivide(panels, cut.panelsPerBlock);
  return cut;
}

// One item of one of several jobs.
struct Item {
  const MatmulJob* job;  // null beyond the last one of all
  Route route;
  Cut cut;
  size_t index;  // in the job
  // Neighbouring items share panels rather than rows, so that a panel's second use finds it in the cache.
  size_t firstRow() const { return index % cut.rowBlocks * cut.rowsPerBlock; }
  size_t firstPanel() const { return index / cut.rowBlocks * cut.panelsPerBlock; }
};

// share: of all jobs' cost, for one item.
Item itemAt(const Compute& compute, const MatmulJob* jobs, size_t jobCount, size_t rows, size_t share, size_t index) {
  for (const MatmulJob* job = jobs; job < jobs + jobCount; job++) {
    const Route route = routeOf(compute, job->weights->type);
    const Cut cut = cutJob(*job, route, rows, share);
    if (index < cut.items()) return {job, route, cut, index};
    index -= cut.items();
  }
  return {nullptr, {}, {}, 0};
}

const uint8_t* panelsOf(const WeightMatrix& weights, const Item& item) { return weights.panels + item.firstPanel() * panelBytes(weights.type, weights.inputs); }

// Without its output. next: MatmulBlock::next.
MatmulBlock blockOf(const MatmulKernels& kernels, const WeightMatrix& weights, const float* bias, const MatrixInput& input, const Item& item, const uint8_t* next) {
  const size_t firstRow = item.firstRow(), firstOutput = item.firstPanel() * kPanelOutputs;
  MatmulBlock block;
  block.type = weights.type;
  block.inputs = weights.inputs;
  block.panels = panelsOf(weights, item);
  block.panelBytes = panelBytes(weights.type, weights.inputs);
  block.outputs = std::min(weights.outputs - firstOutput, item.cut.panelsPerBlock * kPanelOutputs);
  block.rows = std::min(input.rows - firstRow, item.cut.rowsPerBlock);
  block.rounded = input.rounded == nullptr ? nullptr : input.rounded + roundedBytes(kernels.rounded, firstRow, input.columns);
  block.values = input.values == nullptr ? nullptr : input.values + firstRow * input.stride;
  block.valueStride = input.stride;
  block.bias = bias == nullptr ? nullptr : bias + firstOutput;
  block.output = nullptr;
  block.outputStride = 0;
  block.shiftsAreFree = kernels.shiftsAreFree;
  block.next = next;
  return block;
}

void multiply(const Compute& compute, const Route& route, const MatmulBlock& block, uint8_t* workspace) {
  if (route.rounded) compute.kernels.matmul.multiplyRounded(block, workspace);
  else compute.kernels.matmul.multiplyFloat(block, workspace);
}

// next: what the same thread is most likely to do after this one.
void runItem(const Compute& compute, const Item& item, const Item& next, const MatrixInput& input, uint8_t* workspace) {
  const MatmulJob& job = *item.job;
  const Cut& cut = item.cut;
  const uint8_t* after = next.job == nullptr ? nullptr : panelsOf(*next.job->weights, next);
  const uint8_t* afterFirst = job.factor == nullptr ? after : panelsOf(*job.factor, item);
  MatmulBlock block = blockOf(compute.kernels.matmul, *job.weights, job.bias, input, item, afterFirst);
  const size_t firstOutput = item.firstPanel() * kPanelOutputs;
  if (!hasTotals(job, item.route)) {
    block.output = job.output + item.firstRow() * job.outputStride + firstOutput;
    block.outputStride = job.outputStride;
    return multiply(compute, item.route, block, workspace);
  }
  ItemTotals totals{reinterpret_cast<float*>(workspace + kMatmulWorkspaceBytes), nullptr, totalsStride(cut.panelsPerBlock), item.firstRow(), block.rows, firstOutput, block.outputs};
  block.output = totals.product;
  block.outputStride = totals.stride;
  multiply(compute, item.route, block, workspace);
  if (job.factor != nullptr) {
    MatmulBlock second = blockOf(compute.kernels.matmul, *job.factor, job.factorBias, input, item, after);
    second.output = totals.product + cut.rowsPerBlock * totals.stride;
    second.outputStride = totals.stride;
    multiply(compute, routeOf(compute, job.factor->type), second, workspace);
    totals.factor = second.output;
  }
  endItem(compute, job, totals, input.rows);
}

void check(const Compute& compute, const MatmulJob& job, const MatrixInput& input) {
  for (const WeightMatrix* weights : {job.weights, job.factor}) {
    if (weights == nullptr) continue;
    if (weights->inputs != input.columns)
      throw Error(ErrorCode::InvalidArgument, "a product of " + std::to_string(input.columns) + " columns with weights of " + std::to_string(weights->inputs) + " inputs");
    const bool rounded = usesRoundedInput(compute, weights->type);
    if (rounded && input.rounded == nullptr) throw Error(ErrorCode::InvalidArgument, "a product of rounded activations whose input was not rounded");
    if (!rounded && input.values == nullptr) throw Error(ErrorCode::InvalidArgument, "a product of float activations whose input was only rounded");
    if (rounded != usesRoundedInput(compute, job.weights->type) || weights->outputs != job.weights->outputs)
      throw Error(ErrorCode::InvalidArgument, "a gated product of matrices that are not alike");
  }
}

}  // namespace

// body(first row, rows, worker) for all tiles of rows that are rounded together, in parallel.
template <typename Body>
static void forRowTiles(const Compute& compute, size_t rows, size_t columns, Body body) {
  const size_t together = rowsTogether(compute.kernels.matmul.rounded);
  const size_t tiles = ceilDivide(rows, together);
  const size_t tilesPerItem = std::max<size_t>(1, 16384 / (together * columns));
  compute.pool.parallelFor(ceilDivide(tiles, tilesPerItem), [&](size_t item, unsigned worker) {
    const size_t end = std::min(tiles, (item + 1) * tilesPerItem);
    for (size_t tile = item * tilesPerItem; tile < end; tile++) body(tile * together, std::min(together, rows - tile * together), worker);
  });
}

bool usesRoundedInput(const Compute& compute, WeightType type) { return compute.precision == Precision::Default && takesRounded(compute.kernels.matmul.rounded, type); }

MatrixInput prepareInput(const Compute& compute, const float* values, size_t rows, size_t columns, size_t stride, bool round, Scratch& scratch) {
  MatrixInput input{values, rows, columns, stride, nullptr};
  if (!round || rows == 0) return input;
  const MatmulKernels& kernels = compute.kernels.matmul;
  input.rounded = takeRounded(compute, rows, columns, scratch).rounded;
  if (input.rounded == nullptr) return input;
  uint8_t* rounded = const_cast<uint8_t*>(input.rounded);
  const size_t together = rowsTogether(kernels.rounded);
  forRowTiles(compute, rows, columns, [&](size_t row, size_t count, unsigned) {
    kernels.roundRows(values + row * stride, stride, std::min(together, count), columns, rounded + roundedBytes(kernels.rounded, row, columns));
  });
  return input;
}

MatrixInput takeRounded(const Compute& compute, size_t rows, size_t columns, Scratch& scratch) {
  if (compute.kernels.matmul.rounded == RoundedInput::Groups && columns % kGroupInputs != 0)
    throw Error(ErrorCode::InvalidArgument, "8-bit activations come in groups of 32: " + std::to_string(columns) + " columns");
  return {nullptr, rows, columns, columns, scratch.take<uint8_t>(roundedBytes(compute.kernels.matmul.rounded, rows, columns))};
}

MatrixInput prepareRounded(const Compute& compute, const RowMaker& maker, size_t rows, size_t columns, Scratch& scratch) {
  const MatmulKernels& kernels = compute.kernels.matmul;
  const size_t tileFloats = rowsTogether(kernels.rounded) * columns;
  const MatrixInput input = takeRounded(compute, rows, columns, scratch);
  const size_t mark = scratch.used();
  float* made = scratch.take<float>(tileFloats * compute.pool.threads());
  uint8_t* rounded = const_cast<uint8_t*>(input.rounded);
  if (rounded != nullptr) {
    forRowTiles(compute, rows, columns, [&](size_t row, size_t count, unsigned worker) {
      float* tile = made + worker * tileFloats;
      for (size_t i = 0; i < count; i++) maker.make(maker.context, row + i, tile + i * columns);
      kernels.roundRows(tile, columns, count, columns, rounded + roundedBytes(kernels.rounded, row, columns));
    });
  }
  scratch.release(mark);
  return input;
}

void matmul(const Compute& compute, const MatmulJob* jobs, size_t jobCount, const MatrixInput& input, Scratch& scratch) {
  const size_t mark = scratch.used();
  uint8_t* workspaces = scratch.take<uint8_t>(compute.pool.threads() * kWorkerBytes);
  if (workspaces != nullptr && input.rows > 0) {
    size_t cost = 0;
    bool tiles = false;
    for (size_t j = 0; j < jobCount; j++) {
      check(compute, jobs[j], input);
      const WeightMatrix& weights = *jobs[j].weights;
      const Route route = routeOf(compute, weights.type);
      cost += matricesOf(jobs[j]) * route.cost(size_t{weights.outputs} * weights.inputs, input.rows);
      tiles = tiles || route.tiles();
    }
    const size_t share = cost / (compute.pool.threads() * (tiles ? kTileItemsPerThread : kItemsPerThread));
    size_t items = 0;
    for (size_t j = 0; j < jobCount; j++) items += cutJob(jobs[j], routeOf(compute, jobs[j].weights->type), input.rows, share).items();
    compute.pool.parallelFor(items, [&](size_t item, unsigned worker) {
      const auto at = [&](size_t index) { return itemAt(compute, jobs, jobCount, input.rows, share, index); };
      runItem(compute, at(item), at(item + compute.pool.threads()), input, workspaces + worker * kWorkerBytes);
    });
  }
  scratch.release(mark);
}

}  // namespace spillway
