// Reads from disk by back end, request size and requests in flight; writes; checksums. The file is removed at the end.
//   disk [folder=.] [MiB=512, at most 1024] [seconds a line=0.6]
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <memory>
#include <string>
#include <vector>

#include "../system/Arena.h"
#include "../system/Checksum.h"
#include "../system/Clock.h"
#include "../system/DirectFile.h"
#include "../system/Error.h"

namespace {
using namespace spillway;

constexpr size_t kCall = size_t{64} << 20;  // bytes of one call: about a layer

double processorSeconds() {
  timespec now;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

// Calls move(offset) over the file again and again for a while; prints bytes a second of the whole and of the best
// call, and what of a core it took.
template <typename Move>
void measure(const char* name, uint64_t fileBytes, size_t callBytes, double seconds, Move move) {
  double best = 0;
  size_t calls = 0;
  const double begin = monotonicSeconds(), processor = processorSeconds();
  do {
    const double start = monotonicSeconds();
    move(calls * callBytes % (fileBytes / callBytes * callBytes));
    best = std::max(best, static_cast<double>(callBytes) / (monotonicSeconds() - start));
    calls++;
  } while (monotonicSeconds() - begin < seconds);
  const double wall = monotonicSeconds() - begin;
  std::printf("%-46s %6.2f GB/s (best call %.2f), %3.0f%% of a core\n", name,
              static_cast<double>(calls * callBytes) / wall / 1e9, best / 1e9,
              (processorSeconds() - processor) / wall * 100);
}

void measureReads(const std::string& path, uint64_t bytes, double seconds, uint8_t* memory) {
  for (const bool direct : {true, false}) {
    for (const IoBackend backend : {IoBackend::Ring, IoBackend::Threads}) {
      for (const size_t request : {size_t{128} << 10, size_t{512} << 10, size_t{1} << 20, size_t{4} << 20}) {
        for (const unsigned depth : {1u, 2u, 4u, 8u, 16u}) {
          if (!direct && (request != size_t{1} << 20 || depth % 4 != 0)) continue;
          DirectOptions options;
          options.backend = backend;
          options.direct = direct;
          options.requestBytes = request;
          options.depth = depth;
          try {
            DirectFile file(path, DirectFile::Access::Read, options);
            char name[96];
            std::snprintf(name, sizeof(name), "read %s %s, %zu KiB, %u in flight", ioBackendName(file.backend()),
                          file.direct() ? "direct" : "buffered", request >> 10, depth);
            measure(name, bytes, kCall, seconds, [&](uint64_t offset) { file.read(offset, kCall, memory); });
          } catch (const Error& error) {
            std::printf("read %s: %s\n", ioBackendName(backend), error.what());
            break;
          }
        }
      }
    }
  }
}

void measureSmallPages(const std::string& path, uint64_t bytes, double seconds, uint8_t* memory) {
  constexpr size_t kPage = size_t{64} << 10;
  constexpr size_t kPages = 256;  // of one call
  for (const IoBackend backend : {IoBackend::Ring, IoBackend::Threads}) {
    for (const unsigned depth : {8u, 32u}) {
      DirectOptions options;
      options.backend = backend;
      options.depth = depth;
      DirectFile file(path, DirectFile::Access::Read, options);
      std::vector<DirectFile::ReadRange> ranges(kPages);
      uint64_t state = 1;
      char name[96];
      std::snprintf(name, sizeof(name), "read %s, scattered 64 KiB pages, %u in flight", ioBackendName(file.backend()),
                    depth);
      measure(name, bytes, kPage * kPages, seconds, [&](uint64_t) {
        for (size_t i = 0; i < kPages; i++) {
          state = state * 6364136223846793005u + 1442695040888963407u;
          ranges[i] = {(state >> 33) % (bytes / kPage) * kPage, kPage, memory + i * kPage};
        }
        file.read(ranges.data(), ranges.size());
      });
    }
  }
}

// Layers of a small model, into two buffers: of small pages that lie here and there, as in memory that has been in use
// for long, and as Arena gives them. In turn, for disks change their speed.
void measureMemoryPages(const std::string& path, uint64_t bytes, double seconds) {
  constexpr size_t kLayer = size_t{2160} << 10, kPage = 4096;
  Arena huge(2 * kLayer, "the benchmark"), small(2 * kLayer, "the benchmark"), others(2 * kLayer, "the benchmark");
#ifdef MADV_NOHUGEPAGE
  for (const Arena* arena : {&small, &others}) madvise(arena->data(), arena->bytes(), MADV_NOHUGEPAGE);
#endif
  for (size_t i = 0; i < 2 * kLayer / kPage; i++) {
    const size_t page = i * 7 % (2 * kLayer / kPage) * kPage;
    small.data()[page] = others.data()[page] = 1;
  }
  DirectFile file(path);
  for (int round = 0; round < 3; round++) {
    for (const Arena* arena : {&small, &huge}) {
      size_t call = 0;
      measure(arena == &huge ? "read layers of 2160 KiB into huge pages" : "read layers of 2160 KiB into small pages",
              bytes, kLayer, seconds,
              [&](uint64_t offset) { file.read(offset, kLayer, arena->data() + call++ % 2 * kLayer); });
    }
  }
}

// Layers that go through pieces of memory, as those of a GPU: each piece waited for before the next is asked for, and
// with the requests in flight across their borders; as they are, and with checksums. In turn, for disks change their
// speed.
void measurePieces(const std::string& path, uint64_t bytes, double seconds, uint8_t* memory) {
  constexpr size_t kPiece = size_t{4} << 20, kPieces = 8;
  const auto place = [memory](uint64_t at) { return memory + at / kPiece % kPieces * kPiece; };
  DirectFile file(path);
  uint32_t sum = 0;
  for (int round = 0; round < 10; round++) {
    const bool checked = round % 2 == 1;
    const auto work = [&](const uint8_t* piece) {
      if (checked) sum = crc32c(sum, piece, kPiece);
    };
    const std::string name = checked ? "read and check pieces of 4 MiB" : "read pieces of 4 MiB";
    measure((name + ", one by one").c_str(), bytes, kCall, seconds, [&](uint64_t offset) {
      for (uint64_t at = 0; at < kCall; at += kPiece) {
        file.read(offset + at, kPiece, place(at));
        work(place(at));
      }
    });
    measure((name + ", 8 in flight").c_str(), bytes, kCall, seconds, [&](uint64_t offset) {
      uint64_t done = 0;
      const auto next = [&](uint64_t at, bool) { return at - done < kPieces * kPiece ? place(at) : nullptr; };
      const auto full = [&](uint64_t, const uint8_t* piece, size_t some) {
        work(piece);
        done += some;
      };
      file.read(offset, kCall, {kPiece, next, full, [] {}});
    });
  }
  std::printf("(sum %08x)\n", sum);
}

void measureWrites(const std::string& path, uint64_t bytes, double seconds, const uint8_t* memory) {
  for (const bool direct : {true, false}) {
    for (const IoBackend backend : {IoBackend::Ring, IoBackend::Threads}) {
      DirectOptions options;
      options.backend = backend;
      options.direct = direct;
      DirectFile file(path, DirectFile::Access::ReadWrite, options);
      char name[96];
      std::snprintf(name, sizeof(name), "write %s %s, 1024 KiB, 8 in flight", ioBackendName(file.backend()),
                    file.direct() ? "direct" : "buffered");
      measure(name, bytes, kCall, seconds, [&](uint64_t offset) { file.write(offset, kCall, memory); });
    }
  }
}

void measureChecksum(double seconds, const uint8_t* memory) {
  uint32_t sum = 0;
  measure(crc32cInHardware() ? "crc32c, instructions, 64 MiB" : "crc32c, tables, 64 MiB", kCall, kCall, seconds,
          [&](uint64_t) { sum = crc32c(sum, memory, kCall); });
  constexpr size_t kCached = size_t{256} << 10;
  measure("crc32c, 256 KiB", kCached, kCached, seconds, [&](uint64_t) { sum = crc32c(sum, memory, kCached); });
  measure("crc32c, tables, 256 KiB", kCached, kCached, seconds,
          [&](uint64_t) { sum = crc32cByTable(sum, memory, kCached); });
  std::printf("(sum %08x)\n", sum);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string folder = argc > 1 ? argv[1] : ".";
  const uint64_t bytes = static_cast<uint64_t>(std::clamp(argc > 2 ? std::atoi(argv[2]) : 512, 64, 1024)) << 20;
  const double seconds = argc > 3 ? std::clamp(std::atof(argv[3]), 0.1, 10.0) : 0.6;
  const std::string path = folder + "/spillway-disk-bench-" + std::to_string(getpid());
  struct Remove {
    const std::string& path;
    ~Remove() { std::remove(path.c_str()); }
  } remove{path};
  try {
    Arena arena(kCall, "the benchmark");
    uint64_t state = 1;
    for (size_t i = 0; i < kCall; i += 8) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      std::memcpy(arena.data() + i, &state, 8);
    }
    measureChecksum(seconds, arena.data());
    {
      DirectFile file(path, DirectFile::Access::Create);
      file.allocate(bytes);
      for (uint64_t offset = 0; offset < bytes; offset += kCall)
        file.write(offset, std::min<size_t>(kCall, bytes - offset), arena.data());
      file.sync();
    }
    measureWrites(path, bytes, seconds, arena.data());
    measureReads(path, bytes, seconds, arena.data());
    measureSmallPages(path, bytes, seconds, arena.data());
    measureMemoryPages(path, bytes, seconds);
    measurePieces(path, bytes, seconds, arena.data());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
