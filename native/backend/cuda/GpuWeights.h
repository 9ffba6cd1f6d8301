// Where a model's weights are when a device computes: the first part of every layer's block on the device for good
// (global weights wholly), the next in host memory, the rest in a store. What is not on the device crosses the link
// into buffers there, layer by layer.
#pragma once
#include <atomic>
#include <vector>

#include "../../system/Arena.h"
#include "../../model/WeightBuffers.h"
#include "../../model/WeightStore.h"
#include "../../model/Weights.h"
#include "HostPin.h"
#include "Link.h"

namespace spillway {

class GpuWeights {
 public:
  // device: cut where the device's part ends, and placed there; host: the same weights, cut where host memory's part
  // ends. Reserves nothing.
  GpuWeights(const Weights& device, const Weights& host);

  size_t hostBytes() const { return hostBytes_; }
  uint64_t storeBytes(size_t layer) const {
    return host_.layerBlock(layer).streamedBytes();
  }  // that come from the store each time
  void reserve();
  // Of hostBytes(), once loaded.
  size_t unpinnedBytes() const { return memory_.data() == nullptr || pin_.pinned() ? 0 : hostBytes_; }

  void load(WeightStore& store, Link& link, LoadProgress& progress);
  void load(const std::vector<File>& files, ThreadPool& pool, Link& link, LoadProgress& progress);
  // All of a layer that is not on the device, to `buffer` there; returns when the stream has been given it. store: null
  // where nothing comes from one.
  void loadLayer(size_t layer, uint8_t* buffer, WeightStore* store, Link& link, const std::atomic<bool>& stopped);

 private:
  // Of a block, what is in host memory: [begin, end), multiples of 4096.
  struct HostPart {
    uint64_t begin = 0, end = 0;
    size_t place = 0;
  };
  // Some of a block to where it belongs: to the device, to host memory, to both where the cut goes through 4096 bytes.
  void putThere(size_t block, uint64_t offset, const uint8_t* data, uint64_t bytes, Link& link);
  void putHere(size_t block, uint64_t offset, const uint8_t* data, uint64_t bytes);
  // What is here, once all of it is: threads that read bring in its memory together.
  void finishLoading(Link& link);

  const Weights& device_;
  const Weights& host_;
  std::vector<HostPart> parts_;  // a block each
  size_t hostBytes_ = 0;
  Arena memory_;
  HostPin pin_;  // of all of it
};

}  // namespace spillway
