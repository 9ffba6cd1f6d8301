#include "Device.h"

#include "../../kernels/cuda/Devices.h"
#include "../../system/Error.h"

namespace spillway {

Device::Device(uint32_t index, size_t memoryBytes) : index_(static_cast<int>(index)) {
  const size_t count = cuda::listGpus().size();
  if (count == 0)
    throw Error(ErrorCode::InvalidArgument,
                "gpu.device: found " + std::to_string(index) +
                    ", expected none: there is no NVIDIA GPU with a driver that this addon can use");
  if (index >= count)
    throw Error(ErrorCode::InvalidArgument,
                "gpu.device: found " + std::to_string(index) + ", expected an index under " + std::to_string(count));
  use();
  pool_.emplace(cuda::MemoryKind::Device, memoryBytes);
}

void Device::use() const { cuda::check(cudaSetDevice(index_), "cudaSetDevice"); }

Device::Piece Device::take(size_t bytes, const std::string& what) {
  if (bytes == 0) return {};
  std::lock_guard<std::mutex> lock(mutex_);
  use();
  return {*this, pool_->take(bytes, nullptr, what)};
}

void Device::giveBack(const cuda::MemoryPool::Block& block) {
  std::lock_guard<std::mutex> lock(mutex_);
  try {
    use();
    pool_->giveBack(block, nullptr);
  } catch (const Error&) {
    // A device that has failed gives no events any more: what is left of the reservation is lost until the runtime is
    // closed.
  }
}

}  // namespace spillway
