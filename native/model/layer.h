// A decoder's parts over a pass's operations: the tasks of src/bindings/Addon.ts (COMPUTE_PARTS). What a layer is
// made of follows from the weights that it has, layer by layer.
#pragma once
#include <memory>

#include "Pass.h"

namespace spillway {

std::unique_ptr<TaskResult> computePart(const Pass& pass, ComputePart part, size_t layer);
// All parts of all layers, `attending` being the pass that attends: in measuring passes, so that their scratches know
// their peaks.
void computeAll(const Pass& pass, const Pass& attending);

// Output projection, residual, feed-forward block.
void finishLayer(const Pass& pass, size_t layer);

// Throws Error(InvalidArgument) unless keys and values in the activations are those that this layer projected for this
// batch; they count as used up then.
void takeKeys(const Batch& batch, Activations& activations, size_t layer);

}  // namespace spillway
