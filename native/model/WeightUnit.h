// Consecutive rows of one weight, as many as one thread reads from the model's files and packs at a time.
#pragma once
#include <vector>

#include "../system/File.h"
#include "Weights.h"

namespace spillway {

struct WeightUnit {
  const Weights::Placed* weight;
  uint32_t firstRow;  // of a matrix: of a panel
  uint32_t rows;

  uint64_t fileBytes() const;  // of its rows in the model's files, the buffer's size; what lies between them aside
  uint64_t offset() const;     // of what it packs, in the weight's block
  uint64_t bytes() const;      // of what it packs, with the padding that ends the weight
};

// All of the weights placed from `first` to `end`, in order of their offsets.
std::vector<WeightUnit> weightUnits(const Weights& weights, size_t first, size_t end);
// What the hungriest of them reads.
uint64_t mostFileBytes(const std::vector<WeightUnit>& units);

// Reads the unit into `buffer` and packs it to `place`, 64-byte aligned: unit.bytes() of it, all written.
// Throws FileError, naming file and role, for what cannot be read.
void packUnit(const WeightUnit& unit, const std::vector<File>& files, uint8_t* buffer, uint8_t* place);

}  // namespace spillway
