// The disk, through the file and the requests that stores and spill files use. What is written has no name any more once the file is open, so its
// space is free again however the process ends.
#include <algorithm>
#include <atomic>
#include <filesystem>
#include <iterator>
#include <utility>
#include <vector>

#include "../runtime/IoQueue.h"
#include "../runtime/SpillFile.h"
#include "../runtime/Transfer.h"
#include "Measurement.h"
#include "Workbench.h"

namespace spillway {

namespace {

constexpr double kSeconds = 0.08;        // a round, for the engine's own requests
constexpr double kOtherSeconds = 0.03;   // for others
constexpr double kMostWriteSeconds = 1;  // for the first filling: slow disks are read in what there was time to write
constexpr size_t kMostCall = size_t{32} << 20;  // bytes that one call moves: about a layer
constexpr size_t kPage = size_t{64} << 10;
constexpr uint64_t kUnit = uint64_t{1} << 20;
constexpr uint64_t kLeastBytes = 16 * kUnit;
const DirectOptions kEngines;  // how the engine reads and writes

struct Way {
  bool writing;
  bool pages;  // scattered ones; else one range after another
  size_t requestBytes;
  unsigned depth;
};
const Way kWays[] = {
    {false, false, kEngines.requestBytes, kEngines.depth}, {true, false, kEngines.requestBytes, kEngines.depth}, {false, true, kEngines.requestBytes, kEngines.depth},
    {false, false, size_t{128} << 10, 1},                  {false, false, size_t{128} << 10, 8},                  {false, false, size_t{1} << 20, 1},
    {false, false, size_t{1} << 20, 32},                   {false, false, size_t{4} << 20, 4},                    {true, false, size_t{128} << 10, 8},
    {true, false, size_t{1} << 20, 1},
};

// The first way is how the engine reads.
struct Round {
  Samples ways[std::size(kWays)];
};

class DiskMeasurement final : public Measurement {
 public:
  std::string name() const override { return "disk"; }

  void round(Workbench& bench) override {
    if (!reason_.empty()) return;
    try {
      if (!file_) open(bench);
      if (!reason_.empty()) return;
      const bool speedOnly = bench.options().speedOnly;
      if (!speedOnly) fillMemory(bench);  // the others used it meanwhile
      Round& round = rounds_.emplace_back();
      for (size_t way = 0; way < (speedOnly ? 1 : std::size(kWays)); way++) takeSamples(bench, kWays[way], round.ways[way]);
    } catch (const Error& error) {
      if (error.code() != ErrorCode::File) throw;
      giveUp(error.what());
    }
  }

  void report(MachineFigures& into) const override {
    if (!reason_.empty()) {
      into.leftOut.push_back({"disk", reason_});
      return;
    }
    Samples usual;
    for (const Round& round : rounds_) usual.add(round.ways[0], 1);
    for (size_t way = 0; way < std::size(kWays); way++) {
      // Disks that are shared change their speed from round to round: how ways of asking compare is taken from within rounds.
      Samples samples;
      for (const Round& round : rounds_) samples.add(round.ways[way], way == 0 ? 1 : usual.median() / round.ways[0].median());
      if (samples.count() == 0) continue;
      Figure figure;
      figure.what = kWays[way].pages ? "disk-read-pages" : kWays[way].writing ? "disk-write" : "disk-read";
      figure.requestBytes = kWays[way].pages ? kPage : kWays[way].requestBytes;
      figure.depth = kWays[way].depth;
      samples.describe(figure);
      into.figures.push_back(figure);
    }
  }

 private:
  void giveUp(const std::string& reason) {
    reason_ = reason;
    file_.reset();
  }

  void open(Workbench& bench) {
    const ProfileOptions& options = bench.options();
    std::error_code error;
    std::filesystem::create_directories(options.diskFolder, error);
    const std::filesystem::space_info space = std::filesystem::space(options.diskFolder, error);
    if (error) return giveUp(options.diskFolder + ": " + error.message());
    const uint64_t room = space.available / 4;  // most of what is free stays free
    bytes_ = std::min<uint64_t>(options.diskBytes, room) / (8 * kUnit) * (8 * kUnit);
    if (bytes_ < kLeastBytes)
      return giveUp(options.diskFolder + ": found " + std::to_string(space.available) + " bytes free, of which a quarter may be used, and " + std::to_string(options.diskBytes) +
                    " allowed; expected " + std::to_string(kLeastBytes) + " to measure with");
    call_ = std::min<size_t>({kMostCall, static_cast<size_t>(bytes_ / 8), bench.memoryBytes() / kUnit * kUnit});
    file_ = std::make_unique<SpillFile>(options.diskFolder, bytes_);
    fillMemory(bench);
    const double begin = monotonicSeconds();
    uint64_t written = 0;
    while (written + call_ <= bytes_ && (written < kLeastBytes || monotonicSeconds() - begin < kMostWriteSeconds)) {
      bench.check();
      file_->file().write(written, call_, memory(bench));  // not a sample: fresh blocks take longer, and a spill file's are used again and again
      written += call_;
    }
    bytes_ = written;  // whole calls
    if (!file_->file().direct()) giveUp(options.diskFolder + ": its file system has no direct input and output, so that what would be measured is the page cache");
  }

  // What cannot be compressed: some disks would gain by it.
  void fillMemory(Workbench& bench) const {
    uint64_t state = 88172645463325252u;
    auto* words = reinterpret_cast<uint64_t*>(bench.memory());
    for (size_t i = 0; i < std::min<uint64_t>(bytes_, bench.memoryBytes() / kUnit * kUnit) / sizeof(uint64_t); i++) {
      state ^= state << 13, state ^= state >> 7, state ^= state << 17;
      words[i] = state;
    }
  }

  // For the next call: other memory than for the last one, as with layers, so that none of it is in a cache.
  uint8_t* memory(Workbench& bench) {
    if (at_ + call_ > bench.memoryBytes()) at_ = 0;
    return bench.memory() + std::exchange(at_, at_ + call_);
  }

  void takeSamples(Workbench& bench, const Way& way, Samples& samples) {
    const bool engines = way.requestBytes == kEngines.requestBytes && way.depth == kEngines.depth;
    DirectOptions options;
    options.requestBytes = way.requestBytes;
    options.depth = way.depth;
    const std::unique_ptr<IoQueue> queue = engines ? nullptr : makeIoQueue(file_->file().backend(), way.depth, nullptr);
    std::vector<DirectFile::ReadRange> ranges;
    bench.sample(samples, engines ? kSeconds : kOtherSeconds, 2, [&] {
      ranges.clear();
      if (way.pages) {
        uint8_t* to = memory(bench);
        for (size_t i = 0; i < call_ / kPage; i++) {
          random_ = random_ * 6364136223846793005u + 1442695040888963407u;
          ranges.push_back({(random_ >> 33) % (bytes_ / kPage) * kPage, kPage, to + i * kPage});
        }
      } else {
        ranges.push_back({next_, call_, memory(bench)});
        next_ = (next_ + call_) % bytes_;
      }
      return timed([&] { move(way, options, queue.get(), ranges); }) / static_cast<double>(call_);
    });
  }

  void move(const Way& way, const DirectOptions& options, IoQueue* queue, const std::vector<DirectFile::ReadRange>& ranges) {
    DirectFile& file = file_->file();
    if (queue == nullptr) {
      if (way.writing) file.write(ranges[0].offset, ranges[0].bytes, ranges[0].destination);
      else file.read(ranges.data(), ranges.size());
      return;
    }
    std::atomic<bool> direct{file.direct()};
    Transfer transfer({file.descriptor(), way.writing, direct, options}, *queue, ranges.data(), ranges.size());
    const Transfer::Failure failure = transfer.run();
    if (failure.failed) throw FileError(file.path(), "offset " + std::to_string(failure.offset), "error " + std::to_string(failure.error), "bytes that were written before");
  }

  std::unique_ptr<SpillFile> file_;
  uint64_t bytes_ = 0;
  size_t call_ = 0;
  size_t at_ = 0;  // in the memory
  uint64_t next_ = 0;
  uint64_t random_ = 1;
  std::string reason_;  // why there are no figures
  std::vector<Round> rounds_;
};

}  // namespace

std::unique_ptr<Measurement> measureDisk() { return std::make_unique<DiskMeasurement>(); }

}  // namespace spillway
