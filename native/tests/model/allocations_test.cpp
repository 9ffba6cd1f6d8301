// In the steady state a pass takes no memory from the system: neither from the heap nor as pages that nobody has
// touched before.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#include <sys/resource.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "modelFixture.h"

namespace {

std::atomic<bool> counting{false};
std::atomic<size_t> allocations{0};

void* allocate(std::size_t bytes, std::size_t alignment) {
  if (counting.load(std::memory_order_relaxed)) allocations++;
  void* block = alignment <= alignof(std::max_align_t)
                    ? std::malloc(bytes == 0 ? 1 : bytes)
                    : std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
  if (block == nullptr) throw std::bad_alloc();
  return block;
}

}  // namespace

void* operator new(std::size_t bytes) { return allocate(bytes, 1); }
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return allocate(bytes, static_cast<std::size_t>(alignment));
}
// Inlined where `new` is not, they would look to the compiler as if memory were given back to the wrong place.
[[gnu::noinline]] void operator delete(void* block) noexcept { std::free(block); }
[[gnu::noinline]] void operator delete(void* block, std::size_t) noexcept { std::free(block); }
[[gnu::noinline]] void operator delete(void* block, std::align_val_t) noexcept { std::free(block); }
[[gnu::noinline]] void operator delete(void* block, std::size_t, std::align_val_t) noexcept { std::free(block); }

namespace spillway {
namespace {

using namespace fixture;

constexpr uint32_t kRows = 16;
constexpr int kPasses = 20;

long minorFaults() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_minflt;
}

void checkSteadyState(const DecoderSpec& spec) {
  const TinyModel file(spec, false);
  Model model(file.options());
  model.reserve();
  LoadProgress progress;
  model.load(progress);
  HandleTable<Sequence> rows("row", kRows);
  std::vector<int32_t> ranges, pages;
  for (uint32_t r = 0; r < kRows; r++) {
    const uint32_t handle =
        rows.add(std::make_shared<Sequence>(sequenceOptions(randomTokens(3, spec.vocabularySize, r), 90)));
    for (uint32_t value : {handle, 2u, 1u, uint32_t(HeadMode::Sample), uint32_t(pages.size()), 4u, uint32_t(-1)})
      ranges.push_back(int32_t(value));
    for (int page = 0; page < 4; page++) pages.push_back(int32_t(r) * 4 + page);
  }
  const BatchBounds bounds{file.options().limits, file.options().pages, file.options().pageTokens, spec.contextTokens};
  Activations activations(spec, 64, false);

  // Every pass computes one more token of each row. Making the batch and handing over what was sampled are the only
  // things that take memory.
  size_t ofParts = 0, ofHeads = 0;
  long faults = 0;
  for (int pass = -3; pass < kPasses; pass++) {
    const auto batch = makeBatch(ranges, pages, {}, {}, bounds, rows);
    const long faultsBefore = minorFaults();
    allocations = 0;
    counting = true;
    Launch launch;
    const std::atomic<bool> stopped{false};
    model.compute(ComputePart::Embed, 0, *batch, activations, kNoBuffer, kNoBuffer, stopped, launch);
    for (uint32_t layer = 0; layer < spec.layers; layer++) {
      for (ComputePart part : {ComputePart::Project, ComputePart::Attend, ComputePart::Finish})
        model.compute(part, layer, *batch, activations, kNoBuffer, kNoBuffer, stopped, launch);
    }
    const size_t parts = allocations.exchange(0);
    const auto result = model.compute(ComputePart::Head, 0, *batch, activations, kNoBuffer, kNoBuffer, stopped, launch);
    counting = false;
    if (pass >= 0) {  // the first ones start threads, and touch memory for the first time
      ofParts += parts;
      ofHeads += allocations;
      faults += minorFaults() - faultsBefore;
    }
    for (uint32_t r = 0; r < kRows; r++) ranges[r * kBatchStride + 1]++;
  }
  EXPECT_EQ(ofParts, 0u);
  EXPECT_LE(ofHeads, size_t(kPasses) * 10) << "a head makes its result, a vector of each kind";
  // New pages of the cache are touched now and then; a buffer taken anew for each task would show as several faults a
  // task.
  EXPECT_LT(faults, kPasses * long(2 + 3 * spec.layers) / 2);
}

TEST(SteadyState, APassOfAGatedModelTakesNoMemory) { checkSteadyState(smallSpec()); }

TEST(SteadyState, APassOfAMixtureOfExpertsTakesNoMemory) { checkSteadyState(mixtureSpec(4, 2)); }

}  // namespace
}  // namespace spillway
#endif
