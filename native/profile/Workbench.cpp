#include "Workbench.h"

#include <sys/resource.h>

namespace spillway {

namespace {

const ProfileOptions& checked(const ProfileOptions& options) {
  const auto refuse = [](const std::string& what) { throw Error(ErrorCode::InvalidArgument, "profile: " + what); };
  if (options.threads < 1 || options.threads > 1024)
    refuse("threads: found " + std::to_string(options.threads) + ", expected 1 to 1024");
  if (options.coreThreads < 1) refuse("core threads: found none");
  if (options.instructionSets.empty()) refuse("found no instruction set");
  for (const InstructionSet set : options.instructionSets)
    if (!machineHas(set)) refuse(std::string("this machine has no ") + instructionSetName(set));
  if (options.tokenCounts.empty()) refuse("found no number of tokens");
  for (const size_t tokens : options.tokenCounts)
    if (tokens < 1 || tokens > 4096) refuse("tokens: found " + std::to_string(tokens) + ", expected 1 to 4096");
  if (options.weights.empty()) refuse("weights: found none");
  for (const std::string& kind : options.weights)
    if (kind != "q4" && kind != "q8" && kind != "f16" && kind != "f32" && kind != "q4_k" && kind != "q6_k")
      refuse("weights: found " + kind + ", expected q4, q8, f16, f32, q4_k or q6_k");
  if (options.memoryBytes < kLeastProfileMemory || options.memoryBytes > (size_t{4} << 30))
    refuse("memory: found " + std::to_string(options.memoryBytes) + " bytes, expected " +
           std::to_string(kLeastProfileMemory) + " to 4 GiB");
  if (options.gpu && options.gpu->memoryBytes < kLeastGpuProfileMemory)
    refuse("gpu: found " + std::to_string(options.gpu->memoryBytes) + " bytes, expected " +
           std::to_string(kLeastGpuProfileMemory) + " or more");
  if (!(options.budget > 0 && options.budget <= 100)) refuse("budget: expected a number above 0, at most 100");
  return options;
}

}  // namespace

Workbench::Workbench(const ProfileOptions& options, ProfileProgress& progress)
    : options_(checked(options)),
      progress_(progress),
      arena_(options.memoryBytes, "profiling this machine"),
      all_(options.threads),
      one_(1),
      cores_(std::min(options.threads, options.coreThreads)) {}

long Workbench::involuntarySwitches() {
  rusage usage{};
  return getrusage(RUSAGE_SELF, &usage) == 0 ? usage.ru_nivcsw : 0;
}

std::vector<ComputeSetting> Workbench::settings(bool others) {
  std::vector<ComputeSetting> settings = {{best(), &all_, false}};
  if (options_.speedOnly) return settings;
  if (all_.threads() > 1) settings.push_back({best(), &one_, false});
  if (cores_.threads() > 1 && cores_.threads() < all_.threads()) settings.push_back({best(), &cores_, false});
  if (others)
    for (size_t i = 1; i < options_.instructionSets.size(); i++)
      settings.push_back({options_.instructionSets[i], &all_, true});
  return settings;
}

}  // namespace spillway
