// Keys and values on their way into the cache: rounded to 16 bits, or quantised.
#include "Measurement.h"
#include "cachePages.h"

namespace spillway {

namespace {

constexpr double kSeconds = 0.015;  // a kind and round
constexpr const char* kKinds[] = {"f16", "q8", "q4"};

class CacheStoreMeasurement final : public Measurement {
 public:
  std::string name() const override { return "quantising keys and values"; }

  void round(Workbench& bench) override {
    threads_ = bench.all().threads();
    set_ = bench.best();
    const Kernels& kernels = kernelsFor(set_);
    for (size_t kind = 0; kind < std::size(kKinds); kind++) {
      const CacheLayout layout = {cacheTypeOf(kKinds[kind]), kProfileKvHeads, kProfileHeadDim,
                                  bench.options().pageTokens};
      const size_t width = static_cast<size_t>(layout.kvHeads) * layout.headDim, bytes = cachePageBytes(layout);
      const size_t pages = bench.memoryBytes() / bytes;
      if (numbers_.empty()) numbers_ = plainNumbers(2 * width * kTokens);
      size_t next = 0;
      // One new token for each of many rows: what the rows' pages are, the memory decides.
      const auto store = [&] {
        const double seconds = timed([&] {
          bench.all().parallelFor(kTokens / kTogether, [&](size_t part, unsigned) {
            for (size_t token = part * kTogether; token < (part + 1) * kTogether; token++)
              cacheStore(kernels, layout, bench.memory() + (next + token) % pages * bytes,
                         static_cast<uint32_t>((next + token) / pages % layout.pageTokens),
                         &numbers_[2 * token * width], &numbers_[(2 * token + 1) * width]);
          });
        });
        next += kTokens;
        return seconds / static_cast<double>(2 * width * kTokens);
      };
      bench.sample(samples_[kind], kSeconds, 3, store);
    }
  }

  void report(MachineFigures& into) const override {
    for (size_t kind = 0; kind < std::size(kKinds); kind++) {
      Figure& figure = samples_[kind].report(into, "cache-store");
      figure.kind = kKinds[kind];
      figure.instructionSet = instructionSetName(set_);
      figure.threads = threads_;
    }
  }

 private:
  static constexpr size_t kTokens = 512;
  static constexpr size_t kTogether = 4;  // that a thread takes at a time
  unsigned threads_ = 1;
  InstructionSet set_ = InstructionSet::Scalar;
  std::vector<float> numbers_;
  Samples samples_[std::size(kKinds)];
};

}  // namespace

std::unique_ptr<Measurement> measureCacheStore() { return std::make_unique<CacheStoreMeasurement>(); }

}  // namespace spillway
