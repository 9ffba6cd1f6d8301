// The disk, through the file and the requests that stores and spill files use. What is written has no name any more
// once the file is open, so its space is free again however the process ends.
#include <algorithm>
#include <atomic>
#include <filesystem>
#include <iterator>
#include <utility>
#include <vector>

#include "../system/IoQueue.h"
#include "../system/SpillFile.h"
#include "../system/Transfer.h"
#include "Measurement.h"
#include "Workbench.h"

namespace spillway {

namespace {

constexpr double kSeconds = 0.08;        // a round, for the engine's own requests
constexpr double kOtherSeconds = 0.03;   // for others
constexpr double kSpeedSeconds = 0.2;    // where only the disk's speed is looked at
constexpr double kMostWriteSeconds = 1;  // for the first filling: slow disks are read in what there was time to write
constexpr size_t kLargeLayer = size_t{16} << 20;    // bytes that one call moves
constexpr size_t kSmallLayer = size_t{2176} << 10;  // no whole number of requests, as layers are; the next layer's do
                                                    // not begin before the last of these has come
constexpr size_t kPage = size_t{64} << 10;
constexpr size_t kBlock = size_t{1} << 10;  // what sparse attention reads of a page, on average
// As many requests as a call of pages has: slow disks answer some 100 a second.
constexpr size_t kBlocksCall = size_t{256} << 10;
constexpr uint64_t kUnit = uint64_t{1} << 20;
constexpr uint64_t kLeastBytes = 16 * kUnit;
const DirectOptions kEngines;  // how the engine reads and writes

// Pages and blocks are scattered; else it is one range after another.
enum class What { Read, ReadSmallLayers, ReadPages, ReadBlocks, Write };

struct Way {
  What what;
  size_t requestBytes;
  unsigned depth;
};
const Way kWays[] = {
    {What::Read, kEngines.requestBytes, kEngines.depth},
    {What::ReadSmallLayers, kEngines.requestBytes, kEngines.depth},
    {What::Write, kEngines.requestBytes, kEngines.depth},
    {What::ReadPages, kEngines.requestBytes, kEngines.depth},
    {What::ReadBlocks, kEngines.requestBytes, kEngines.depth},
    {What::Read, size_t{128} << 10, 1},
    {What::Read, size_t{128} << 10, 8},
    {What::Read, size_t{1} << 20, 1},
    {What::Read, size_t{1} << 20, 32},
    {What::Read, size_t{4} << 20, 4},
    {What::Write, size_t{128} << 10, 8},
    {What::Write, size_t{1} << 20, 1},
};

const char* nameOf(What what) {
  switch (what) {
    case What::Read: return "disk-read";
    case What::ReadSmallLayers: return "disk-read-layers";
    case What::ReadPages: return "disk-read-pages";
    case What::ReadBlocks: return "disk-read-blocks";
    case What::Write: break;
  }
  return "disk-write";
}

// Seconds a byte, of all bytes over all of the time: a disk that stalls now and then costs runs their mean, which
// medians of calls would not show. The first way is how the engine reads; ways that were not measured are 0.
struct Round {
  double ways[std::size(kWays)] = {};
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
      for (size_t way = 0; way < (speedOnly ? 1 : std::size(kWays)); way++)
        round.ways[way] = secondsPerByte(bench, kWays[way]);
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
    for (const Round& round : rounds_) usual.add(round.ways[0]);
    for (size_t way = 0; way < std::size(kWays); way++) {
      // Disks that are shared change their speed from round to round: how ways of asking compare is taken from within
      // rounds.
      Samples samples;
      for (const Round& round : rounds_)
        if (round.ways[way] > 0) samples.add(round.ways[way] * (way == 0 ? 1 : usual.median() / round.ways[0]));
      if (samples.count() == 0) continue;
      const What what = kWays[way].what;
      Figure& figure = samples.report(into, nameOf(what));
      figure.requestBytes = what == What::ReadPages         ? kPage
                            : what == What::ReadBlocks      ? kBlock
                            : what == What::ReadSmallLayers ? kSmallLayer
                                                            : kWays[way].requestBytes;
      figure.depth = kWays[way].depth;
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
      return giveUp(options.diskFolder + ": found " + std::to_string(space.available) +
                    " bytes free, of which a quarter may be used, and " + std::to_string(options.diskBytes) +
                    " allowed; expected " + std::to_string(kLeastBytes) + " to measure with");
    call_ = std::min<size_t>(
        {kLargeLayer, static_cast<size_t>(bytes_ / 4 / kUnit * kUnit), bench.memoryBytes() / 2 / kUnit * kUnit});
    file_ = std::make_unique<SpillFile>(options.diskFolder, bytes_);
    fillMemory(bench);
    const double begin = monotonicSeconds();
    uint64_t written = 0;
    while (written + call_ <= bytes_ && (written < kLeastBytes || monotonicSeconds() - begin < kMostWriteSeconds)) {
      bench.check();
      file_->file().write(
          written, call_,
          memory(bench, call_));  // not a sample: fresh blocks take longer, and a spill file's are used again and again
      written += call_;
    }
    bytes_ = written;  // whole calls
    if (!file_->file().direct())
      giveUp(options.diskFolder +
             ": its file system has no direct input and output, so that what would be measured is the page cache");
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

  // Two buffers in turn, as layers have them. It matters: what is read into memory that was written a moment ago comes
  // slower on some machines.
  uint8_t* memory(Workbench& bench, size_t bytes) {
    second_ = !second_;
    return bench.memory() + (second_ ? bytes : 0);
  }

  double secondsPerByte(Workbench& bench, const Way& way) {
    const bool engines = way.requestBytes == kEngines.requestBytes && way.depth == kEngines.depth;
    DirectOptions options;
    options.requestBytes = way.requestBytes;
    options.depth = way.depth;
    const std::unique_ptr<IoQueue> queue = engines ? nullptr : makeIoQueue(file_->file().backend(), way.depth, nullptr);
    const size_t piece = way.what == What::ReadPages ? kPage : way.what == What::ReadBlocks ? kBlock : 0;
    // File systems that read larger blocks only are not asked for these.
    if (piece == kBlock && kBlock % file_->file().blockBytes() != 0) return 0;
    const size_t call = std::min(way.what == What::ReadSmallLayers ? kSmallLayer
                                 : way.what == What::ReadBlocks    ? kBlocksCall
                                                                   : call_,
                                 call_);
    std::vector<DirectFile::ReadRange> ranges;
    double seconds = 0;
    uint64_t moved = 0;
    const double end = monotonicSeconds() + (bench.options().speedOnly ? kSpeedSeconds
                                             : engines                 ? kSeconds
                                                                       : kOtherSeconds) *
                                                bench.options().budget;
    do {
      bench.check();
      ranges.clear();
      uint8_t* to = memory(bench, call);
      if (piece != 0) {
        for (size_t i = 0; i < call / piece; i++) {
          random_ = random_ * 6364136223846793005u + 1442695040888963407u;
          ranges.push_back({(random_ >> 33) % (bytes_ / piece) * piece, piece, to + i * piece});
        }
      } else {
        if (next_ + call > bytes_) next_ = 0;
        ranges.push_back({next_, call, to});
        next_ += call;
      }
      seconds += timed([&] { move(way, options, queue.get(), ranges); });
      moved += call;
    } while (monotonicSeconds() < end);
    return seconds / static_cast<double>(moved);
  }

  void move(const Way& way, const DirectOptions& options, IoQueue* queue,
            const std::vector<DirectFile::ReadRange>& ranges) {
    DirectFile& file = file_->file();
    if (queue == nullptr) {
      if (way.what == What::Write)
        file.write(ranges[0].offset, ranges[0].bytes, ranges[0].destination);
      else
        file.read(ranges.data(), ranges.size());
      return;
    }
    std::atomic<bool> direct{file.direct()};
    Transfer transfer({file.descriptor(), way.what == What::Write, direct, options, file.blockBytes()}, *queue,
                      ranges.data(), ranges.size());
    const Transfer::Failure failure = transfer.run();
    if (failure.failed)
      throw FileError(file.path(), "offset " + std::to_string(failure.offset), "error " + std::to_string(failure.error),
                      "bytes that were written before");
  }

  std::unique_ptr<SpillFile> file_;
  uint64_t bytes_ = 0;
  size_t call_ = 0;
  bool second_ = false;  // of the two buffers
  uint64_t next_ = 0;
  uint64_t random_ = 1;
  std::string reason_;  // why there are no figures
  std::vector<Round> rounds_;
};

}  // namespace

std::unique_ptr<Measurement> measureDisk() { return std::make_unique<DiskMeasurement>(); }

}  // namespace spillway
