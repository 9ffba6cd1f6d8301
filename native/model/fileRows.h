// Rows of weights out of a model's files, in whatever order their bytes lie there.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "../system/File.h"
#include "Weights.h"

namespace spillway {

// The run's rows, fileRowBytes() each, one after another: as their type has them, but for 8-bit floats, which stay as
// they are unless they lie with a row for each input. Throws FileError, naming file and role.
void readFileRows(const WeightBinding& binding, const WeightSegment& run, const std::vector<File>& files,
                  uint8_t* rows);

// `rows` pieces of `bytes`, each `pitch` after the one before.
void readEvery(const File& file, uint64_t offset, size_t bytes, uint32_t rows, size_t pitch, const std::string& label,
               uint8_t* to);

}  // namespace spillway
