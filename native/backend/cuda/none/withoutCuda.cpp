#include "../../Backend.h"

#include "../../../profile/Measurement.h"
#include "../../../profile/Workbench.h"
#include "../../../system/Error.h"

namespace spillway {

std::unique_ptr<Backend> makeCudaBackend(const BackendParts& parts) {
  throw Error(ErrorCode::InvalidArgument, "gpu: found device " + std::to_string(parts.options.gpu->device) +
                                              ", expected none: this addon was built without CUDA");
}

std::vector<std::unique_ptr<Measurement>> measureGpu(Workbench& bench) {
  throw Error(ErrorCode::InvalidArgument, "gpu: found device " + std::to_string(bench.options().gpu->device) +
                                              ", expected none: this addon was built without CUDA");
}

}  // namespace spillway
