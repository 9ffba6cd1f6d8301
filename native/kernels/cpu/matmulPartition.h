// How a call of matmul() is divided into items: some panels of one job by some rows. Pure. Included by Matmul.cpp.
#pragma once
#include <algorithm>

#include "../../system/ThreadPool.h"
#include "Matmul.h"

namespace spillway {

inline size_t ceilDivide(size_t a, size_t b) { return (a + b - 1) / b; }

// A loop's index costs well under a microsecond to hand out; an item should take several.
constexpr size_t kItemsPerThread = 8;  // so that threads end at nearly the same time
// On AMX an item begins by bringing its rows into the nearest cache, so it should have some panels to multiply them
// with.
constexpr size_t kTileItemsPerThread = 4;
// Threads have rows of their own where there are at least so many for each: each core then needs weights of 4 bits at
// about a byte a cycle. And at least so many times the threads, so that all of them need no more than 4 bytes a cycle
// even where every core has to get them from memory by itself.
constexpr size_t kLeastRowsAThread = 32;
constexpr size_t kLeastRowsAThreadTimes = 8;

// What an item computes before its epilogue: products, and those with the job's factor. They stay in the cache of the
// thread.
constexpr size_t kAccumulatorBytes = 256 * 1024;
constexpr size_t kWorkerBytes = kMatmulWorkspaceBytes + kAccumulatorBytes;

// What the partition of a job follows from.
struct MatmulPath {
  QuantisedInput form;
  bool quantised() const { return form != QuantisedInput::None; }
  bool tiles() const { return form == QuantisedInput::Bfloat16; }
  size_t mostRows() const { return mostQuantised(form); }
  size_t rowsTogether() const { return spillway::rowsTogether(form); }
  // Time, in multiply-adds: on AMX weights are unpacked for each block of rows, which takes about as long as
  // multiplying it.
  size_t cost(size_t weights, size_t rows) const {
    return weights * (tiles() ? ceilDivide(rows, mostRows()) * mostRows() : rows);
  }
  size_t leastItem() const { return tiles() ? 4000 * 1000 : 200 * 1000; }
  size_t panelsTogether() const {
    switch (form) {
      case QuantisedInput::Groups: return kQuantisedPanelsPerTile;
      case QuantisedInput::Rows: return kEvenPanelsPerTile;
      default: return 2;
    }
  }
};

inline MatmulPath pathOf(const Compute& compute, WeightType type) { return {quantisedInput(compute, type)}; }

// Whether products go through an item's accumulators. Tiles always do: in an output of other outputs' size they might
// stand in each other's way in the nearest cache.
inline bool hasAccumulators(const MatmulJob& job, const MatmulPath& path) {
  return path.tiles() || job.epilogue != Epilogue::Store;
}

inline size_t matricesOf(const MatmulJob& job) { return job.factor == nullptr ? 1 : 2; }

struct PanelBlocks {
  size_t panelsPerBlock;
  size_t panelBlocks;
};

struct Item {
  const MatmulJob* job;
  size_t firstRow, rows;
  size_t firstPanel, panels;  // the last ones of a matrix may not all exist
  bool samePanelsNext;        // the next item has them too, for other rows
};

// All jobs' rows are divided alike, into blocks, and neighbouring blocks make a part. Items come part by part; threads
// begin with neighbouring items (ThreadPool::parallelFor), so with a part a thread each computes rows of its own, and
// has in its caches what it finds there later when the next loop is over the same rows. Bringing what another core
// wrote from there takes from 30 to 170 ns a line (two cores of a Zen 4 with one third-level cache and with two).
class MatmulPartition {
 public:
  MatmulPartition(const Compute& compute, const MatmulJob* jobs, size_t jobCount, size_t rows)
      : compute_(compute), jobs_(jobs), rows_(rows) {
    size_t most = kMatmulBlockRows, together = 1, cost = 0;
    bool tiles = false;
    for (const MatmulJob* job = jobs; job < jobs + jobCount; job++) {
      const MatmulPath path = pathOf(compute, job->weights->type);
      most = std::min(most, path.mostRows());
      together = std::max(together, path.rowsTogether());
      // What is rounded after the product lies in tiles of its own, however the product's input does.
      if (job->quantised != nullptr)
        together = std::max(together, spillway::rowsTogether(compute.kernels.matmul.quantised));
      tiles = tiles || path.tiles();
      cost += matricesOf(*job) * path.cost(size_t{job->weights->outputs} * job->weights->inputs, rows);
    }
    const size_t threads = compute.pool.threads();
    share_ = cost / (threads * (tiles ? kTileItemsPerThread : kItemsPerThread));
    // On AMX products are measured with all threads at the same rows.
    const size_t parts =
        tiles ? 1
              : std::max<size_t>(
                    1, std::min(threads, rows / std::max(kLeastRowsAThread, kLeastRowsAThreadTimes * threads)));
    const size_t blocks = ceilDivide(ceilDivide(rows, most), parts) * parts;
    rowsPerBlock_ = ceilDivide(ceilDivide(rows, blocks), together) * together;  // at most `most`, being whole tiles too
    rowBlocks_ = ceilDivide(rows, rowsPerBlock_);
    blocksPerPart_ = ceilDivide(rowBlocks_, parts);
    for (const MatmulJob* job = jobs; job < jobs + jobCount; job++) panelBlocks_ += partitionPanels(*job).panelBlocks;
  }

  size_t items() const { return rowBlocks_ * panelBlocks_; }

  Item item(size_t index) const {
    const size_t firstBlock = index / (blocksPerPart_ * panelBlocks_) * blocksPerPart_;
    const size_t blocks = std::min(blocksPerPart_, rowBlocks_ - firstBlock);  // of the part
    index -= firstBlock * panelBlocks_;
    const MatmulJob* job = jobs_;
    PanelBlocks partition = partitionPanels(*job);
    for (; index >= partition.panelBlocks * blocks; partition = partitionPanels(*++job))
      index -= partition.panelBlocks * blocks;
    // Neighbouring items share panels rather than rows, so that a panel's second use finds it in the cache.
    const size_t firstRow = (firstBlock + index % blocks) * rowsPerBlock_;
    return {job,
            firstRow,
            std::min(rows_ - firstRow, rowsPerBlock_),
            index / blocks * partition.panelsPerBlock,
            partition.panelsPerBlock,
            index % blocks + 1 < blocks};
  }

 private:
  PanelBlocks partitionPanels(const MatmulJob& job) const {
    const WeightMatrix& weights = *job.weights;
    const MatmulPath path = pathOf(compute_, weights.type);
    PanelBlocks partition;
    const size_t panels = ceilDivide(weights.outputs, kPanelOutputs);
    const size_t panelCost = std::max<size_t>(
        1, matricesOf(job) * path.cost(kPanelOutputs * weights.inputs, std::min(rows_, rowsPerBlock_)));
    const size_t wanted = std::max<size_t>(1, std::max(share_, path.leastItem()) / panelCost);
    const size_t panelsTogether =
        job.quantised != nullptr ? 2 : path.panelsTogether();  // 32 columns of the next product are rounded together
    partition.panelsPerBlock = ceilDivide(std::min(wanted, panels), panelsTogether) * panelsTogether;
    if (hasAccumulators(job, path)) {
      const size_t most = kAccumulatorBytes / (matricesOf(job) * rowsPerBlock_ * kPanelOutputs * sizeof(float)) -
                          1;  // one less: see accumulatorStride
      if (partition.panelsPerBlock > most) partition.panelsPerBlock = most / panelsTogether * panelsTogether;
    }
    partition.panelBlocks = ceilDivide(panels, partition.panelsPerBlock);
    return partition;
  }

  const Compute& compute_;
  const MatmulJob* jobs_;
  size_t rows_;
  size_t share_;  // of all jobs' cost, for one item
  size_t rowsPerBlock_, rowBlocks_, blocksPerPart_, panelBlocks_ = 0;
};

}  // namespace spillway
