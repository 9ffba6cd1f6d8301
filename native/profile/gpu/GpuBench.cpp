#include "GpuBench.h"

#include "../../kernels/cpu/Matmul.h"
#include "../../kernels/cuda/Matmul.h"

namespace spillway {

namespace {

constexpr uint64_t kMostMemory = uint64_t{768} << 20;  // several times what caches hold
constexpr size_t kMostPinned = size_t{32} << 20;
constexpr size_t kLinkPiece = size_t{256} << 10;
constexpr size_t kLinkPieces = 2;
// Every byte of what is computed with.
constexpr int kFilling = 0x25;
// A device that takes so long for two times four million operations is none to run models on.
constexpr double kSlowSeconds = 1e-3;

}  // namespace

GpuBench::GpuBench(const Workbench& bench)
    : memoryBytes_(std::min(bench.options().gpu->memoryBytes, kMostMemory) >> 20 << 20),
      device_(bench.options().gpu->device, memoryBytes_),
      pinned_(cuda::MemoryKind::Pinned, std::min<size_t>(kMostPinned, memoryBytes_ / 4) + kLinkPieces * kLinkPiece),
      linkMemory_(pinned_.take(kLinkPieces * kLinkPiece, nullptr, "profiling the GPU")),
      pinnedMemory_(pinned_.take(std::min<size_t>(kMostPinned, memoryBytes_ / 4), nullptr, "profiling the GPU")),
      link_(device_, done_, StreamIndex::Compute, Uploads::Kernel, linkMemory_.data, kLinkPiece, kLinkPieces) {
  std::fill_n(pinnedMemory_.data, pinnedMemory_.bytes, static_cast<uint8_t>(kFilling));
  small_ = bench.glance() || isSlow();
}

Device::Piece GpuBench::take(size_t bytes, const char* what) {
  Device::Piece piece = device_.take(bytes, what);
  cuda::check(cudaMemsetAsync(piece.data(), kFilling, piece.bytes(), stream()), "cudaMemsetAsync");
  return piece;
}

bool GpuBench::isSlow() {
  constexpr uint32_t kOutputs = 256, kInputs = 1024;
  constexpr size_t kRows = 16;
  const Device::Piece weights = take(packedBytes(WeightType::Q4_0, kOutputs, kInputs), "profiling the GPU"),
                      values = take(kRows * kInputs * 2, "profiling the GPU"),
                      factors = take(kRows * 4, "profiling the GPU"),
                      outputs = take(kRows * kOutputs * 4, "profiling the GPU");
  const cuda::HalfRows rows{reinterpret_cast<uint16_t*>(values.data()), reinterpret_cast<float*>(factors.data()), kRows,
                            kInputs};
  const auto product = [&] {
    return timedLaunches(1, [&] {
      cuda::multiply(stream(), {WeightType::Q4_0, kOutputs, kInputs, weights.data()}, rows,
                     {nullptr, reinterpret_cast<float*>(outputs.data()), kOutputs});
    });
  };
  product();  // brings the code to the device
  return std::min(product(), product()) > kSlowSeconds;
}

}  // namespace spillway
