// Measuring this machine: what comes out is sane, limits are kept, nothing is left. No figure is compared with a
// clock.
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <thread>

#include "../../profile/Measurement.h"
#include "../../profile/measureMachine.h"

namespace {
using namespace spillway;

struct Folder {
  Folder() : path(std::filesystem::temp_directory_path() / ("spillway-profile-" + std::to_string(getpid()))) {
    std::filesystem::create_directories(path);
  }
  ~Folder() { std::filesystem::remove_all(path); }
  size_t files() const { return static_cast<size_t>(std::distance(std::filesystem::directory_iterator(path), {})); }
  std::filesystem::path path;
};

ProfileOptions quick() {
  ProfileOptions options;
  options.threads = 2;
  options.instructionSets = {bestInstructionSet()};
  options.tokenCounts = {1, 5};
  options.memoryBytes = kLeastProfileMemory;
  options.budget = 0.001;
  return options;
}

MachineFigures measured(std::unique_ptr<Measurement> measurement, const ProfileOptions& options) {
  ProfileProgress progress;
  Workbench bench(options, progress);
  measurement->round(bench);
  measurement->round(bench);
  MachineFigures figures;
  measurement->report(figures);
  for (const Figure& figure : figures.figures) {
    EXPECT_TRUE(std::isfinite(figure.perSecond) && figure.perSecond > 0) << figure.what << " " << figure.kind;
    EXPECT_TRUE(std::isfinite(figure.spread) && figure.spread >= 0) << figure.what << " " << figure.kind;
    EXPECT_GE(figure.samples, 1u) << figure.what << " " << figure.kind;
  }
  return figures;
}

std::vector<std::string> names(const MachineFigures& figures) {
  std::vector<std::string> names;
  for (const Figure& figure : figures.figures)
    names.push_back(figure.what + (figure.kind.empty() ? "" : " " + figure.kind) +
                    (figure.threads == 0 ? "" : " x" + std::to_string(figure.threads)));
  return names;
}

TEST(Samples, MedianAndSpread) {
  Samples samples;
  EXPECT_EQ(samples.median(), 0);
  EXPECT_EQ(samples.spread(), 0);
  for (const double seconds : {4.0, 1.0, 100.0, 2.0, 3.0}) samples.add(seconds);
  EXPECT_EQ(samples.count(), 5u);
  EXPECT_EQ(samples.median(), 3.0);  // one that a neighbour spoiled is of no weight
  EXPECT_DOUBLE_EQ(samples.spread(), (4.0 - 2.0) / 2 / 3.0);
  samples.add(2.0);
  EXPECT_DOUBLE_EQ(samples.median(), 2.5);
}

TEST(Samples, DisturbedOnesCountOnlyWhereThereIsLittleElse) {
  Samples samples;
  samples.add(10, true);
  samples.add(1);
  samples.add(2);
  EXPECT_EQ(samples.median(), 2);
  EXPECT_EQ(samples.count(), 3u);
  samples.add(1.5);
  EXPECT_EQ(samples.median(), 1.5);
  EXPECT_EQ(samples.count(), 3u);
}

TEST(Profile, RefusesOptionsThatMakeNoSense) {
  ProfileProgress progress;
  const auto refused = [&](auto change) {
    ProfileOptions options = quick();
    change(options);
    try {
      measureMachine(options, progress);
      return false;
    } catch (const Error& error) {
      return error.code() == ErrorCode::InvalidArgument;
    }
  };
  EXPECT_TRUE(refused([](ProfileOptions& options) { options.threads = 0; }));
  EXPECT_TRUE(refused([](ProfileOptions& options) { options.instructionSets.clear(); }));
  EXPECT_TRUE(refused([](ProfileOptions& options) { options.tokenCounts = {0}; }));
  EXPECT_TRUE(refused([](ProfileOptions& options) { options.weights = {}; }));
  EXPECT_TRUE(refused([](ProfileOptions& options) { options.weights = {"q4", "q3"}; }));
  EXPECT_TRUE(refused([](ProfileOptions& options) { options.memoryBytes = 1; }));
  EXPECT_TRUE(refused([](ProfileOptions& options) { options.budget = 0; }));
  EXPECT_TRUE(refused([](ProfileOptions& options) { options.budget = std::nan(""); }));
}

TEST(Profile, MemoryIsReadAndCopied) {
  EXPECT_EQ(names(measured(measureMemory(), quick())),
            (std::vector<std::string>{"memory-read x2", "memory-copy x2", "memory-read x1", "memory-copy x1"}));
  ProfileOptions options = quick();
  options.threads = 1;
  EXPECT_EQ(names(measured(measureMemory(), options)), (std::vector<std::string>{"memory-read x1", "memory-copy x1"}));
  // A thread for each core is a number of its own where it is neither all nor one.
  options.threads = 4;
  options.coreThreads = 2;
  EXPECT_EQ(names(measured(measureMemory(), options)),
            (std::vector<std::string>{"memory-read x4", "memory-copy x4", "memory-read x1", "memory-copy x1",
                                      "memory-read x2", "memory-copy x2"}));
}

TEST(Profile, ProductsOfEveryKindSetAndNumberOfThreads) {
  ProfileOptions options = quick();
  if (bestInstructionSet() != InstructionSet::Scalar) options.instructionSets.push_back(InstructionSet::Scalar);
  for (const std::string kind : {"q4", "q8", "f16", "f32", "q4_k", "q6_k"}) {
    const MachineFigures figures = measured(measureMatmul(kind), options);
    // Rows of K-quants are whole blocks of 256.
    const size_t fewest = kind == "q4_k" || kind == "q6_k" ? 512 : 576;
    std::set<std::string> seen;
    for (const Figure& figure : figures.figures) {
      EXPECT_EQ(figure.what, "matmul");
      EXPECT_EQ(figure.kind, kind);
      EXPECT_EQ(figure.inputs, figure.inputs < 4096 ? fewest : 4096);
      seen.insert(figure.instructionSet + " x" + std::to_string(figure.threads) + " " + std::to_string(figure.tokens) +
                  (figure.inputs < 4096 ? " short" : ""));
    }
    const std::string best = instructionSetName(bestInstructionSet());
    std::set<std::string> expected = {best + " x2 1",       best + " x2 5",       best + " x1 1",
                                      best + " x1 5",       best + " x2 1 short", best + " x2 5 short",
                                      best + " x1 1 short", best + " x1 5 short"};
    if (options.instructionSets.size() > 1) expected.insert({"scalar x2 1", "scalar x2 5"});
    EXPECT_EQ(seen, expected);
  }
}

TEST(Profile, AttentionOverEveryKindOfCache) {
  for (const char* kind : {"f16", "q8", "q4"}) {
    const MachineFigures figures = measured(measureAttention(kind), quick());
    std::map<std::string, int> seen;
    for (const Figure& figure : figures.figures) {
      EXPECT_EQ(figure.kind, kind);
      seen[figure.what + " " + std::to_string(figure.groupHeads) + " x" + std::to_string(figure.threads)]++;
    }
    std::map<std::string, int> expected{{"attention-decode 1 x1", 1},  {"attention-decode 1 x2", 1},
                                        {"attention-decode 4 x1", 1},  {"attention-decode 4 x2", 1},
                                        {"attention-prefill 4 x1", 1}, {"attention-prefill 4 x2", 1}};
    if (std::string(kind) == "f16") expected.insert({{"attention-short 1 x1", 1}, {"attention-short 1 x2", 1}});
    EXPECT_EQ(seen, expected);
  }
}

TEST(Profile, PagesOfAnySize) {
  ProfileOptions options = quick();
  options.threads = 1;
  for (const uint32_t pageTokens : {16u, 256u}) {
    options.pageTokens = pageTokens;
    measured(measureAttention("q4"), options);
    measured(measureCacheStore(), options);
    measured(measureRows(), options);
  }
}

TEST(Profile, QuantisingSamplingAndTasks) {
  EXPECT_EQ(names(measured(measureCacheStore(), quick())),
            (std::vector<std::string>{"cache-store f16 x2", "cache-store q8 x2", "cache-store q4 x2"}));
  EXPECT_EQ(names(measured(measureSampling(), quick())),
            (std::vector<std::string>{"sample-greedy x2", "sample-top-p x2"}));
  EXPECT_EQ(names(measured(measureTask(), quick())), (std::vector<std::string>{"task x2"}));
}

ProfileOptions withDisk(const std::string& folder, uint64_t bytes) {
  ProfileOptions options = quick();
  options.diskFolder = folder;
  options.diskBytes = bytes;
  return options;
}

#ifdef __linux__
// Bytes of the open files of a folder that have no name any more.
uint64_t namelessBytes(const std::filesystem::path& folder) {
  uint64_t bytes = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code error;
    const std::string target = std::filesystem::read_symlink(entry.path(), error).string();
    struct stat facts{};
    if (target.rfind(folder.string(), 0) == 0 && stat(entry.path().c_str(), &facts) == 0)
      bytes += static_cast<uint64_t>(facts.st_size);
  }
  return bytes;
}

TEST(ProfileDisk, StaysWithinItsBytesAndLeavesNothing) {
  Folder folder;
  constexpr uint64_t kBytes = (uint64_t{20} << 20) + 1;
  ProfileProgress progress;
  const ProfileOptions options = withDisk(folder.path / "made", kBytes);
  Workbench bench(options, progress);
  MachineFigures figures;
  {
    const auto disk = measureDisk();
    disk->round(bench);
    EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path / "made"), {}),
              0);  // without a name already
    disk->report(figures);
    if (figures.leftOut.empty()) {
      EXPECT_GT(namelessBytes(folder.path), 0u);
      EXPECT_LE(namelessBytes(folder.path), kBytes);
    }
  }
  EXPECT_EQ(namelessBytes(folder.path), 0u);
  if (!figures.leftOut.empty()) GTEST_SKIP() << figures.leftOut[0].reason;
  std::map<std::string, int> seen;
  for (const Figure& figure : figures.figures) {
    seen[figure.what]++;
    EXPECT_GT(figure.perSecond, 0) << figure.what;
  }
  seen.erase("disk-read-blocks");  // only where so little is read at a time
  EXPECT_EQ(seen, (std::map<std::string, int>{
                      {"disk-read", 6}, {"disk-read-layers", 1}, {"disk-read-pages", 1}, {"disk-write", 3}}));
}
#endif

#ifdef __linux__
// Returns when the processor was taken from this process meanwhile.
void loseTheProcessor() {
  cpu_set_t before, here;
  ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
  CPU_ZERO(&here);
  CPU_SET(sched_getcpu(), &here);
  ASSERT_EQ(sched_setaffinity(0, sizeof here, &here), 0);
  std::atomic<bool> stop{false};
  std::thread neighbour([&] {
    while (!stop.load()) {}
  });
  const auto taken = [] {
    rusage usage{};
    return getrusage(RUSAGE_SELF, &usage) == 0 ? usage.ru_nivcsw : 0;
  };
  for (const long start = taken(); taken() == start;) sched_yield();
  stop = true;
  neighbour.join();
  sched_setaffinity(0, sizeof before, &before);
}

TEST(Workbench, APauseIsNotWhatFewUnitsTake) {
  ProfileOptions options = quick();
  options.budget = 1;
  ProfileProgress progress;
  Workbench bench(options, progress);
  size_t calls = 0;
  const size_t units = bench.unitsPerSample(48, 1 << 20, [&](size_t count) {
    if (++calls != 2) return static_cast<double>(count) * 1e-5;
    loseTheProcessor();
    return 0.055;
  });
  EXPECT_EQ(units, 480u);
}

TEST(Workbench, TakesMoreSamplesWhereThoseItHasWereDisturbed) {
  ProfileOptions options = quick();
  options.budget = 1;
  ProfileProgress progress;
  Workbench bench(options, progress);
  Samples samples;
  size_t calls = 0;
  bench.sample(samples, 0, 3, [&] {
    if (++calls > 2) return 1.0;
    loseTheProcessor();
    return 9.0;
  });
  EXPECT_GE(calls, 5u);
  EXPECT_EQ(samples.median(), 1);
}
#endif

TEST(ProfileDisk, IsLeftOutWhereItCannotBeMeasured) {
  Folder folder;
  const auto reason = [&](const ProfileOptions& options) {
    const MachineFigures figures = measured(measureDisk(), options);
    EXPECT_TRUE(figures.figures.empty());
    EXPECT_EQ(figures.leftOut.size(), 1u);
    return figures.leftOut.empty() ? std::string() : figures.leftOut[0].reason;
  };
  EXPECT_NE(reason(withDisk(folder.path, 1 << 20)).find("1048576 allowed; expected 16777216"), std::string::npos);
  std::ofstream(folder.path / "file").put('x');
  EXPECT_NE(reason(withDisk(folder.path / "file" / "below", 32 << 20)), "");
  for (const char* fault : {"allocate:1:ENOSPC", "open:1:EACCES", "write:3:EIO", "read:2:EIO"}) {
    setenv("SPILLWAY_DISK_FAULTS", fault, 1);
    EXPECT_NE(reason(withDisk(folder.path, 32 << 20)), "") << fault;
    unsetenv("SPILLWAY_DISK_FAULTS");
  }
  EXPECT_EQ(folder.files(), 1u);
}

TEST(Profile, EverythingInOrderWithProgress) {
  Folder folder;
  ProfileOptions options = withDisk(folder.path, 16 << 20);
  options.tokenCounts = {2};
  options.threads = 1;
  ProfileProgress progress;
  std::vector<size_t> steps;
  progress.changed = [&] {
    size_t done, total;
    std::string what;
    progress.get(done, total, what);
    EXPECT_LE(done, total);
    EXPECT_NE(what, "");
    steps.push_back(done);
  };
  const MachineFigures figures = measureMachine(options, progress);
  EXPECT_TRUE(std::is_sorted(steps.begin(), steps.end()));
  EXPECT_EQ(std::set<size_t>(steps.begin(), steps.end()).size(), 16u);  // fifteen things, and the end
  EXPECT_EQ(std::count_if(figures.figures.begin(), figures.figures.end(),
                          [](const Figure& figure) { return figure.what == "matmul"; }),
            12);  // six kinds, long and short
  EXPECT_EQ(folder.files(), 0u);
}

TEST(Profile, SpeedAlone) {
  Folder folder;
  ProfileOptions options = withDisk(folder.path, 16 << 20);
  options.speedOnly = true;
  options.weights = {"q4"};
  ProfileProgress progress;
  const MachineFigures figures = measureMachine(options, progress);
  const std::vector<std::string> found = names(figures);
  std::set<std::string> expected{"memory-read x2", "matmul q4 x2"};
  if (figures.leftOut.empty()) expected.insert("disk-read");
  EXPECT_EQ(std::set<std::string>(found.begin(), found.end()), expected);
}

TEST(Profile, StopsInTheMiddle) {
  ProfileProgress progress;
  ProfileOptions options = quick();
  progress.changed = [&] {
    size_t done, total;
    std::string what;
    progress.get(done, total, what);
    if (done == 2) progress.stopped.store(true);
  };
  try {
    measureMachine(options, progress);
    FAIL() << "not stopped";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::Cancelled);
  }
  size_t done, total;
  std::string what;
  progress.get(done, total, what);
  EXPECT_EQ(done, 2u);
}

}  // namespace
