#include "Matmul.h"

#include <algorithm>
#include <string>

#include "../../system/Error.h"
#include "../../system/ThreadPool.h"
#include "epilogue.h"
#include "matmulPartition.h"

namespace spillway {
namespace {

// From row to row of an item's accumulators: an odd number of cache lines, so that 64 rows of one panel are spread over
// all sets of the nearest cache.
size_t accumulatorStride(size_t panels) { return (panels | 1) * kPanelOutputs; }

const uint8_t* panelsOf(const WeightMatrix& weights, const Item& item) {
  return weights.panels + item.firstPanel * panelBytes(weights.type, weights.inputs);
}

// Without its output. next: MatmulBlock::next.
MatmulBlock blockOf(const MatmulKernels& kernels, const WeightMatrix& weights, const float* bias,
                    const MatrixInput& input, const Item& item, const uint8_t* next) {
  const size_t firstRow = item.firstRow, firstOutput = item.firstPanel * kPanelOutputs;
  MatmulBlock block;
  block.type = weights.type;
  block.inputs = weights.inputs;
  block.panels = panelsOf(weights, item);
  block.panelBytes = panelBytes(weights.type, weights.inputs);
  block.outputs = std::min(weights.outputs - firstOutput, item.panels * kPanelOutputs);
  block.rows = item.rows;
  block.quantised =
      input.quantised == nullptr ? nullptr : input.quantised + quantisedBytes(input.form, firstRow, input.columns);
  block.values = input.values == nullptr ? nullptr : input.values + firstRow * input.stride;
  block.valueStride = input.stride;
  block.bias = bias == nullptr ? nullptr : bias + firstOutput;
  block.output = nullptr;
  block.outputStride = 0;
  block.mostRowsInPlace = kernels.mostRowsInPlace;
  block.next = next;
  return block;
}

bool takesWords(const Compute& compute, WeightType type) {
  return compute.precision == Precision::Words && isFloatType(type);
}

void multiply(const Compute& compute, const MatmulPath& path, const MatmulBlock& block, uint8_t* workspace) {
  if (path.quantised())
    compute.kernels.matmul.multiplyQuantised(block, workspace);
  else if (takesWords(compute, block.type))
    compute.kernels.matmul.multiplyWords(block, workspace + kWorkerBytes);
  else
    compute.kernels.matmul.multiplyFloat(block, workspace);
}

// after: the panels that the same thread most likely multiplies with next; or null.
void runItem(const Compute& compute, const Item& item, const uint8_t* after, const MatrixInput& input,
             uint8_t* workspace) {
  const MatmulJob& job = *item.job;
  const MatmulPath path = pathOf(compute, job.weights->type);
  const uint8_t* afterFirst = job.factor == nullptr ? after : panelsOf(*job.factor, item);
  MatmulBlock block = blockOf(compute.kernels.matmul, *job.weights, job.bias, input, item, afterFirst);
  const size_t firstOutput = item.firstPanel * kPanelOutputs;
  if (!hasAccumulators(job, path)) {
    block.output = job.output + item.firstRow * job.outputStride + firstOutput;
    block.outputStride = job.outputStride;
    return multiply(compute, path, block, workspace);
  }
  ItemAccumulators accumulators{reinterpret_cast<float*>(workspace + kMatmulWorkspaceBytes),
                                nullptr,
                                accumulatorStride(item.panels),
                                item.firstRow,
                                block.rows,
                                firstOutput,
                                block.outputs};
  block.output = accumulators.product;
  block.outputStride = accumulators.stride;
  multiply(compute, path, block, workspace);
  if (job.factor != nullptr) {
    MatmulBlock second = blockOf(compute.kernels.matmul, *job.factor, job.factorBias, input, item, after);
    second.output = accumulators.product + item.rows * accumulators.stride;
    second.outputStride = accumulators.stride;
    multiply(compute, pathOf(compute, job.factor->type), second, workspace);
    accumulators.factor = second.output;
  }
  endItem(compute, job, accumulators, input.rows);
}

void check(const Compute& compute, const MatmulJob& job, const MatrixInput& input) {
  for (const WeightMatrix* weights : {job.weights, job.factor}) {
    if (weights == nullptr) continue;
    if (weights->inputs != input.columns)
      throw Error(ErrorCode::InvalidArgument, "a product of " + std::to_string(input.columns) +
                                                  " columns with weights of " + std::to_string(weights->inputs) +
                                                  " inputs");
    const QuantisedInput form = quantisedInput(compute, weights->type);
    if (form != QuantisedInput::None && form != input.form)
      throw Error(ErrorCode::InvalidArgument, "a product of rounded activations whose input was not rounded so");
    if (form == QuantisedInput::None && input.values == nullptr)
      throw Error(ErrorCode::InvalidArgument, "a product of float activations whose input was only rounded");
    if (form != quantisedInput(compute, job.weights->type) || weights->outputs != job.weights->outputs)
      throw Error(ErrorCode::InvalidArgument, "a gated product of matrices that are not alike");
  }
}

}  // namespace

// body(first row, rows, worker) for all tiles of rows that are rounded together, in parallel.
template <typename Body>
static void forRowTiles(const Compute& compute, QuantisedInput form, size_t rows, size_t columns, Body body) {
  const size_t together = rowsTogether(form);
  const size_t tiles = ceilDivide(rows, together);
  const size_t tilesPerItem = std::max<size_t>(1, 16384 / (together * columns));
  const size_t threads = compute.pool.threads(), least = ceilDivide(tiles, tilesPerItem);
  const size_t items =
      least == 1 ? 1 : std::min(tiles, ceilDivide(least, threads) * threads);  // as many for each thread, if possible
  compute.pool.parallelFor(items, [&](size_t item, unsigned worker) {
    for (size_t tile = tiles * item / items; tile < tiles * (item + 1) / items; tile++)
      body(tile * together, std::min(together, rows - tile * together), worker);
  });
}

QuantisedInput quantisedInput(const Compute& compute, WeightType type) {
  return compute.precision == Precision::Float32 || takesWords(compute, type)
             ? QuantisedInput::None
             : quantisedFor(compute.kernels.matmul.quantised, type);
}

// Rounds rows that lie together to the input's form, `first` being the first of them.
static void roundRows(const MatmulKernels& kernels, const MatrixInput& input, const float* values, size_t stride,
                      size_t first, size_t rows) {
  uint8_t* to = const_cast<uint8_t*>(input.quantised) + quantisedBytes(input.form, first, input.columns);
  const auto round = input.form == QuantisedInput::Rows ? kernels.quantiseEvenly : kernels.quantiseRows;
  round(values, stride, rows, input.columns, to);
}

MatrixInput prepareInput(const Compute& compute, const float* values, size_t rows, size_t columns, size_t stride,
                         QuantisedInput form, Scratch& scratch) {
  MatrixInput input{values, rows, columns, stride, nullptr};
  if (form == QuantisedInput::None || rows == 0) return input;
  input.form = form;
  input.quantised = allocateQuantised(form, rows, columns, scratch).quantised;
  if (input.quantised == nullptr) return input;
  forRowTiles(compute, form, rows, columns, [&](size_t row, size_t count, unsigned) {
    roundRows(compute.kernels.matmul, input, values + row * stride, stride, row, count);
  });
  return input;
}

MatrixInput allocateQuantised(QuantisedInput form, size_t rows, size_t columns, Scratch& scratch) {
  if (form != QuantisedInput::Bfloat16 && columns % kGroupInputs != 0)
    throw Error(ErrorCode::InvalidArgument,
                "8-bit activations come in groups of 32: " + std::to_string(columns) + " columns");
  return {nullptr, rows, columns, columns, scratch.take<uint8_t>(quantisedBytes(form, rows, columns)), form};
}

MatrixInput prepareQuantised(const Compute& compute, const RowMaker& maker, size_t rows, size_t columns,
                             QuantisedInput form, Scratch& scratch) {
  const size_t tileFloats = rowsTogether(form) * columns;
  const MatrixInput input = allocateQuantised(form, rows, columns, scratch);
  const size_t mark = scratch.used();
  float* made = scratch.take<float>(tileFloats * compute.pool.threads());
  if (input.quantised != nullptr) {
    forRowTiles(compute, form, rows, columns, [&](size_t row, size_t count, unsigned worker) {
      float* tile = made + worker * tileFloats;
      for (size_t i = 0; i < count; i++) maker.make(maker.context, row + i, tile + i * columns);
      roundRows(compute.kernels.matmul, input, tile, columns, row, count);
    });
  }
  scratch.release(mark);
  return input;
}

void matmul(const Compute& compute, const MatmulJob* jobs, size_t jobCount, const MatrixInput& input,
            Scratch& scratch) {
  const size_t mark = scratch.used();
  const bool words =
      std::any_of(jobs, jobs + jobCount, [&](const MatmulJob& job) { return takesWords(compute, job.weights->type); });
  const size_t workerBytes = kWorkerBytes + (words ? kWordWorkspaceBytes : 0);
  uint8_t* workspaces = scratch.take<uint8_t>(compute.pool.threads() * workerBytes);
  if (workspaces != nullptr && input.rows > 0) {
    for (size_t j = 0; j < jobCount; j++) check(compute, jobs[j], input);
    const MatmulPartition partition(compute, jobs, jobCount, input.rows);
    compute.pool.parallelFor(partition.items(), [&](size_t index, unsigned worker) {
      const Item item = partition.item(index);
      const uint8_t* after = nullptr;
      if (!item.samePanelsNext && index + 1 < partition.items()) {
        const Item next = partition.item(index + 1);
        after = panelsOf(*next.job->weights, next);
      }
      runItem(compute, item, after, input, workspaces + worker * workerBytes);
    });
  }
  scratch.release(mark);
}

}  // namespace spillway
