#include "GpuWeights.h"

#include <algorithm>
#include <cstring>

#include "../../model/WeightUnit.h"

namespace spillway {

GpuWeights::GpuWeights(const Weights& device, const Weights& host)
    : device_(device), host_(host), parts_(device.blocks().size()) {
  for (size_t b = 0; b < parts_.size(); b++) {
    const Weights::Block& there = device.blocks()[b];
    const Weights::Block& here = host.blocks()[b];
    if (!there.streams()) continue;
    const uint64_t end = here.streams() ? here.streamedFrom() : there.streamedFrom() + there.streamedBytes();
    parts_[b] = {there.streamedFrom(), end, hostBytes_};
    hostBytes_ += end - there.streamedFrom();
  }
}

void GpuWeights::reserve() { memory_ = Arena(hostBytes_, "the weights"); }

void GpuWeights::finishLoading(Link& link) {
  link.finish();
  pin_ = HostPin(memory_.data(), hostBytes_);
}

void GpuWeights::putThere(size_t block, uint64_t offset, const uint8_t* data, uint64_t bytes, Link& link) {
  const Weights::Block& there = device_.blocks()[block];
  if (offset < there.residentBytes)
    link.upload(device_.memory(there) + offset, data, std::min(bytes, there.residentBytes - offset));
}

void GpuWeights::putHere(size_t block, uint64_t offset, const uint8_t* data, uint64_t bytes) {
  const HostPart& part = parts_[block];
  const uint64_t begin = std::max(offset, part.begin), end = std::min(offset + bytes, part.end);
  if (begin < end)
    std::memcpy(memory_.data() + part.place + (begin - part.begin), data + (begin - offset), end - begin);
}

void GpuWeights::load(WeightStore& store, Link& link, LoadProgress& progress) {
  store.loadResident(progress, [&](size_t block, uint64_t offset, const uint8_t* data, uint64_t bytes) {
    putThere(block, offset, data, bytes, link);
    putHere(block, offset, data, bytes);
  });
  finishLoading(link);
}

void GpuWeights::load(const std::vector<File>& files, ThreadPool& pool, Link& link, LoadProgress& progress) {
  const std::vector<WeightUnit> units = weightUnits(device_, 0, device_.placed().size());
  uint64_t most = 0;
  for (const WeightUnit& unit : units) most = std::max(most, unit.bytes());
  const size_t readStride = Scratch::aligned(mostFileBytes(units)), packedStride = Scratch::aligned(most),
               stride = readStride + packedStride;
  const Arena buffers(stride * pool.threads(), "reading the weights");
  for (size_t first = 0; first < units.size(); first += pool.threads()) {
    const size_t some = std::min<size_t>(pool.threads(), units.size() - first);
    pool.parallelFor(some, [&](size_t i, unsigned) {
      progress.check();
      uint8_t* buffer = buffers.data() + i * stride;
      const WeightUnit& unit = units[first + i];
      packUnit(unit, files, buffer, buffer + readStride);
      putHere(unit.weight->block, unit.offset(), buffer + readStride, unit.bytes());
    });
    for (size_t i = 0; i < some; i++) {
      const WeightUnit& unit = units[first + i];
      putThere(unit.weight->block, unit.offset(), buffers.data() + i * stride + readStride, unit.bytes(), link);
      progress.add(unit.fileBytes());
    }
  }
  finishLoading(link);
}

void GpuWeights::loadLayer(size_t layer, uint8_t* buffer, WeightStore* store, Link& link,
                           const std::atomic<bool>& stopped) {
  const HostPart& part = parts_[layer + 1];
  const uint64_t bytes = part.end - part.begin;
  const uint8_t* here = memory_.data() + part.place;
  if (pin_.pinned())
    link.sendPinned(buffer, here, bytes, stopped);
  else
    link.upload(buffer, here, bytes);
  if (host_.layerBlock(layer).streams()) {
    size_t filling = 0;
    const auto next = [&](uint64_t, bool wait) {
      uint8_t* piece = wait ? link.nextPiece() : link.freePiece(filling);
      if (piece != nullptr) filling++;
      return piece;
    };
    const auto full = [&](uint64_t offset, uint64_t piece) {
      link.send(buffer + bytes + offset, piece);
      filling--;
    };
    store->readStreamed(layer, {link.pieceBytes(), next, full}, stopped);
  }
}

}  // namespace spillway
