// Large blocks of memory, read and copied.
#include <algorithm>
#include <cstring>

#include "Measurement.h"
#include "Workbench.h"

namespace spillway {

namespace {

constexpr double kSeconds = 0.03;  // a round
constexpr size_t kChunk = size_t{1} << 20;

// Four sums, so that the loads do not wait for each other.
uint64_t sumOf(const uint8_t* bytes, size_t count) {
  uint64_t sums[4] = {};
  for (size_t at = 0; at + 32 <= count; at += 32) {
    uint64_t words[4];
    std::memcpy(words, bytes + at, 32);
    for (int i = 0; i < 4; i++) sums[i] += words[i];
  }
  return sums[0] + sums[1] + sums[2] + sums[3];
}

class MemoryMeasurement final : public Measurement {
 public:
  std::string name() const override { return "memory"; }

  void round(Workbench& bench) override {
    const size_t half = bench.memoryBytes() / 2 / kChunk * kChunk;
    uint8_t* memory = bench.memory();
    bench.all().parallelFor(bench.memoryBytes() / kChunk, [&](size_t chunk, unsigned) {
      std::memset(memory + chunk * kChunk, static_cast<int>(chunk % 251), kChunk);
    });
    settings_ = bench.settings(false);
    reads_.resize(settings_.size());
    copies_.resize(settings_.size());
    for (size_t i = 0; i < settings_.size(); i++) {
      ThreadPool& pool = *settings_[i].pool;
      const size_t bytes = 2 * half;
      bench.sample(reads_[i], kSeconds, 2, [&] {
        return timed([&] {
                 std::vector<uint64_t> sums(pool.threads() * kLine);
                 pool.parallelFor(bytes / kChunk, [&](size_t chunk, unsigned worker) {
                   sums[worker * kLine] += sumOf(memory + chunk * kChunk, kChunk);
                 });
                 for (const uint64_t sum : sums) sum_ += sum;
               }) /
               static_cast<double>(bytes);
      });
      if (bench.options().speedOnly) continue;
      bench.sample(copies_[i], kSeconds, 2, [&] {
        return timed([&] {
                 pool.parallelFor(half / kChunk, [&](size_t chunk, unsigned) {
                   std::memcpy(memory + half + chunk * kChunk, memory + chunk * kChunk, kChunk);
                 });
               }) /
               static_cast<double>(half);
      });
    }
    sink_ = sum_;
  }

  void report(MachineFigures& into) const override {
    for (size_t i = 0; i < settings_.size(); i++) {
      for (const bool read : {true, false}) {
        const Samples& samples = read ? reads_[i] : copies_[i];
        if (samples.count() == 0) continue;
        Figure& figure = samples.report(into, read ? "memory-read" : "memory-copy");
        figure.threads = settings_[i].pool->threads();
      }
    }
  }

 private:
  static constexpr size_t kLine = 8;  // words: each thread's sum has a cache line of its own
  std::vector<ComputeSetting> settings_;
  std::vector<Samples> reads_, copies_;  // by setting
  uint64_t sum_ = 0;
  volatile uint64_t sink_ = 0;  // what is read has to be of some use, or the compiler reads nothing
};

}  // namespace

std::unique_ptr<Measurement> measureMemory() { return std::make_unique<MemoryMeasurement>(); }

}  // namespace spillway
