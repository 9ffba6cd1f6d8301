// Rows of integers that quantisers packed into words (GPTQ, AWQ, compressed-tensors), as blocks or floats of the same
// values.
#pragma once
#include <cstdint>
#include <vector>

#include "../system/File.h"
#include "Weights.h"

namespace spillway {

// The run's rows in the binding's type. Throws FileError, naming file and role, for what the type cannot hold exactly.
void readPackedRows(const WeightBinding& binding, const WeightSegment& run, const std::vector<File>& files,
                    uint8_t* rows);

// Bytes of each of its tensors, all of them.
uint64_t packedValueBytes(const WeightBinding& binding);
uint64_t packedScaleBytes(const WeightBinding& binding);
uint64_t packedZeroBytes(const WeightBinding& binding);

}  // namespace spillway
