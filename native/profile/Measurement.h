// One thing that is measured, a little in every round: so a neighbour who is busy for a second spoils some samples of
// everything and not all of one thing.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "Figure.h"

namespace spillway {

class Workbench;

class Measurement {
 public:
  virtual ~Measurement() = default;
  virtual std::string name() const = 0;  // for people who wait
  // Takes some more samples. Throws Error(Cancelled).
  virtual void round(Workbench& bench) = 0;
  // What has been found, once there was a round.
  virtual void report(MachineFigures& into) const = 0;
};

std::unique_ptr<Measurement> measureMemory();
// kind: f32, f16, q8 or q4.
std::unique_ptr<Measurement> measureMatmul(const std::string& kind);
// kind: f16, q8 or q4.
std::unique_ptr<Measurement> measureAttention(const std::string& kind);
std::unique_ptr<Measurement> measureCacheStore();
std::unique_ptr<Measurement> measureRows();
std::unique_ptr<Measurement> measureSampling();
std::unique_ptr<Measurement> measureTask();
std::unique_ptr<Measurement> measureDisk();
// All that is measured on the GPU that the options name: its memory is reserved until the last of these goes. Defined
// by the library that is linked, spillway_gpu or spillway_gpu_none. Throws Error(InvalidArgument) for a device that
// there is not, Error(Memory) where it, or the host, has too little.
std::vector<std::unique_ptr<Measurement>> measureGpu(Workbench& bench);

}  // namespace spillway
