#include "WeightLoader.h"

#include "../system/Arena.h"
#include "../system/Error.h"
#include "WeightUnit.h"

namespace spillway {

void loadWeights(const Weights& weights, const std::vector<File>& files, ThreadPool& pool, LoadProgress& progress) {
  const std::vector<WeightUnit> units = weightUnits(weights, 0, weights.placed().size());
  const size_t stride = Scratch::aligned(mostFileBytes(units));
  const Arena buffers(stride * pool.threads(), "reading the weights");

  pool.parallelFor(units.size(), [&](size_t index, unsigned worker) {
    progress.check();
    const WeightUnit& unit = units[index];
    packUnit(unit, files, buffers.data() + worker * stride,
             weights.memory(weights.blocks()[unit.weight->block]) + unit.offset());
    progress.add(unit.fileBytes());
  });
}

}  // namespace spillway
