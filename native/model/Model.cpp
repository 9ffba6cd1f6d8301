#include <string>
#include <utility>

#include "../runtime/Error.h"
#include "Runtime.h"

namespace spillway {

namespace {

constexpr uint32_t kMostThreads = 1024;
constexpr uint32_t kMostTokens = 1u << 16;

void checkRange(const char* field, uint32_t value, uint32_t most) {
  if (value >= 1 && value <= most) return;
  throw Error(ErrorCode::InvalidArgument, std::string(field) + ": found " + std::to_string(value) + ", expected 1 to " + std::to_string(most));
}

RuntimeOptions checked(RuntimeOptions&& options) {
  validate(options.decoder);
  checkRange("threads", options.threads, kMostThreads);
  checkRange("cache.pages", options.pages, INT32_MAX);
  checkRange("limits.tokensPerSquare", options.limits.tokensPerSquare, kMostTokens);
  checkRange("limits.rowsPerSquare", options.limits.rowsPerSquare, options.limits.tokensPerSquare);
  if (options.pageTokens < 16 || options.pageTokens > 256 || (options.pageTokens & (options.pageTokens - 1)) != 0) {
    throw Error(ErrorCode::InvalidArgument, "cache.pageTokens: found " + std::to_string(options.pageTokens) + ", expected 16, 32, 64, 128 or 256");
  }
  if (!machineHas(options.instructionSet)) {
    throw Error(ErrorCode::InvalidArgument, std::string("instructionSet: found ") + instructionSetName(options.instructionSet) +
                                                ", expected one that this machine has, such as " + instructionSetName(bestInstructionSet()));
  }
  return std::move(options);
}

CacheLayout layoutOf(const RuntimeOptions& options) {
  return {options.cacheType, options.decoder.kvHeads, options.decoder.headDim, options.pageTokens};
}

}  // namespace

Model::Model(RuntimeOptions&& options)
    : options_(checked(std::move(options))),
      weights_(options_.decoder, std::move(options_.bindings), options_.files),
      cache_(layoutOf(options_), options_.decoder.layers, options_.pages),
      pool_(options_.threads),
      compute_{kernelsFor(options_.instructionSet), pool_, options_.precision},
      scratchBytes_(measureScratch(options_.decoder, weights_, cache_, compute_, options_.limits)) {}

void Model::reserve() {
  for (const std::string& path : options_.files) files_.emplace_back(path);
  weights_.checkFiles(files_);
  weights_.reserve();
  cache_.reserve();
  scratch_ = Arena(scratchBytes_, "scratch memory");
}

RuntimeBytes Model::bytes() const {
  return {weights_.bytes(), cache_.bytes(), scratchBytes_, Activations::bytesFor(options_.decoder, options_.limits.tokensPerSquare)};
}

std::unique_ptr<TaskResult> Model::compute(ComputePart part, size_t layer, const Batch& batch, Activations& activations) const {
  Scratch scratch(scratch_.data(), scratch_.bytes());
  const Pass pass{options_.decoder, weights_, cache_, compute_, batch, activations, scratch};
  switch (part) {
    case ComputePart::Embed: embed(pass); return nullptr;
    case ComputePart::Project: project(pass, layer); return nullptr;
    case ComputePart::Attend: attendLayer(pass, layer); return nullptr;
    case ComputePart::Finish: finish(pass, layer); return nullptr;
    case ComputePart::Head: return head(pass);
  }
  return nullptr;
}

}  // namespace spillway
