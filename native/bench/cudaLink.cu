// The link between host memory and a real device: bytes/s each way from memory that is pinned as the weights are and
// from memory that is not, how long pinning takes, and how long a small copy waits beside the weights' when those go in
// one piece or in many. Prints JSON.  cudaLink [gibibytes=4] What small copies wait decides whether copies overlap with
// computing at all: page tables, token ids and what the host attended to go by the same engine as the weights. And how
// fast pages of the cache come, by the kernel that brings them, beside weights: what it is worth that these give way;
// and what the processor attends to, of 64 rows of OPT-30B, as halves and as it was copied before.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <vector>

#include "../backend/cuda/HostPin.h"
#include "../kernels/cuda/Devices.h"
#include "../kernels/cuda/Stream.h"
#include "../kernels/cuda/copyPages.h"
#include "../kernels/cuda/copyPinned.h"
#include "../kernels/cuda/gpu.h"
#include "../kernels/cuda/linkHalves.h"
#include "../system/Arena.h"

namespace {
using namespace spillway;
using namespace spillway::cuda;

using Clock = std::chrono::steady_clock;

double secondsSince(Clock::time_point began) { return std::chrono::duration<double>(Clock::now() - began).count(); }

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<long>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

// Plain memory of the device.
struct OnDevice {
  explicit OnDevice(size_t bytes) { check(cudaMalloc(&data, bytes), "cudaMalloc"); }
  ~OnDevice() { cudaFree(data); }
  OnDevice(const OnDevice&) = delete;
  uint8_t* bytes() const { return static_cast<uint8_t*>(data); }
  void* data = nullptr;
};

double bandwidth(size_t bytes, const std::function<void()>& copy) {
  std::vector<double> seconds;
  for (int i = 0; i < 6; i++) {
    const auto began = Clock::now();
    copy();
    if (i > 0) seconds.push_back(secondsSince(began));  // the first pays for what is set up once
  }
  return static_cast<double>(bytes) / median(std::move(seconds));
}

void copyInPieces(uint8_t* to, const uint8_t* from, size_t bytes, size_t piece, cudaMemcpyKind kind,
                  cudaStream_t stream) {
  for (size_t at = 0; at < bytes; at += piece)
    check(cudaMemcpyAsync(to + at, from + at, std::min(piece, bytes - at), kind, stream), "cudaMemcpyAsync");
}

// Seconds that one small copy takes to arrive, again and again for as long as something else is on the link.
struct Waits {
  double median = 0, most = 0;
  size_t count = 0;
};

Waits waitsBeside(const Stream& big, const Stream& small, const std::function<void()>& smallCopy) {
  std::vector<double> waits;
  do {
    const auto began = Clock::now();
    smallCopy();
    small.synchronize();
    waits.push_back(secondsSince(began));
  } while (cudaStreamQuery(big.get()) == cudaErrorNotReady && waits.size() < 100000);
  check(cudaStreamSynchronize(big.get()), "cudaStreamSynchronize");
  return {median(waits), *std::max_element(waits.begin(), waits.end()), waits.size()};
}

void print(const char* name, const Waits& waits, bool last = false) {
  std::printf("    {\"beside\": \"%s\", \"medianSeconds\": %.3g, \"mostSeconds\": %.3g, \"copies\": %zu}%s\n", name,
              waits.median, waits.most, waits.count, last ? "" : ",");
}

// Bytes a second of pages, of 256 KiB, a square's at a time, for as long as `goesOn`.
double pagesPerSecond(const Stream& stream, const uint8_t* from, uint8_t* to, size_t bytes,
                      const std::function<bool()>& goesOn) {
  constexpr size_t kPage = 256 << 10;
  const size_t count = bytes / kPage;
  Arena tableMemory(count * sizeof(PageCopy), "tables");
  auto* table = reinterpret_cast<PageCopy*>(tableMemory.data());
  for (size_t i = 0; i < count; i++) table[i] = {from + i * kPage, to + i * kPage};
  HostPin pin;
  pin = HostPin(tableMemory.data(), count * sizeof(PageCopy));
  std::vector<double> seconds;
  do {
    const auto began = Clock::now();
    copyPages(stream.get(), table, count, kPage);
    stream.synchronize();
    seconds.push_back(secondsSince(began));
  } while (goesOn());
  return static_cast<double>(count * kPage) / median(std::move(seconds));
}

double secondsOf(const Stream& stream, const std::function<void()>& give) {
  std::vector<double> seconds;
  for (int i = 0; i < 50; i++) {
    const auto began = Clock::now();
    give();
    stream.synchronize();
    seconds.push_back(secondsSince(began));
  }
  return median(std::move(seconds));
}

// Queries, keys and values down, outputs up; pinned: twice as many bytes at least as halves of three of these take.
void measureAttention(uint8_t* pinned) {
  constexpr size_t kRows = 64, kHeads = 56, kHeadDim = 128, kValues = kRows * kHeads * kHeadDim;
  const Stream stream;
  OnDevice floats(3 * kValues * sizeof(float)), partials(kRows * kHeads * sizeof(AttentionPartial));
  auto* there = reinterpret_cast<float*>(floats.bytes());
  auto* weights = reinterpret_cast<AttentionPartial*>(partials.bytes());
  auto* halves = reinterpret_cast<uint16_t*>(pinned);
  check(cudaMemset(there, 0, 3 * kValues * sizeof(float)), "cudaMemset");
  check(cudaMemset(weights, 0, kRows * kHeads * sizeof(AttentionPartial)), "cudaMemset");
  const double down = secondsOf(stream, [&] { sendHalves(stream.get(), there, 3 * kValues, halves); });
  const double up = secondsOf(
      stream, [&] { receiveOutputs(stream.get(), halves, weights, kRows * kHeads, uint32_t(kHeadDim), there); });
  const double copied = secondsOf(stream, [&] {
    check(cudaMemcpyAsync(pinned, there, 3 * kValues * sizeof(float), cudaMemcpyDeviceToHost, stream.get()), "down");
  });
  std::printf(
      ",\n  \"attention\": {\"rows\": %zu, \"values\": %zu, \"downSeconds\": %.3g, \"upSeconds\": %.3g, "
      "\"floatsDownSeconds\": %.3g}\n",
      kRows, kHeads * kHeadDim, down, up, copied);
}

void measure(size_t bytes) {
  const Stream up, down, small;
  OnDevice device(bytes), other(bytes), tables(1 << 20);
  Arena memory(bytes, "the benchmark's memory"), plain(bytes, "the benchmark's memory"), tableMemory(1 << 20, "tables");
  std::memset(memory.data(), 0x25, bytes);
  std::memset(plain.data(), 0x25, bytes);
  auto began = Clock::now();
  HostPin pin;
  pin = HostPin(memory.data(), bytes);
  const double registering = secondsSince(began);
  HostPin tablePin;
  tablePin = HostPin(tableMemory.data(), 1 << 20);

  const auto toDevice = [&](const uint8_t* from, size_t piece, cudaStream_t stream) {
    copyInPieces(device.bytes(), from, bytes, piece, cudaMemcpyHostToDevice, stream);
  };
  const double whole = bandwidth(bytes, [&] { toDevice(memory.data(), bytes, up.get()), up.synchronize(); });
  const double pieces = bandwidth(bytes, [&] { toDevice(memory.data(), 4 << 20, up.get()), up.synchronize(); });
  const double unpinned = bandwidth(bytes, [&] { toDevice(plain.data(), bytes, up.get()), up.synchronize(); });
  const auto back = [&] {
    copyInPieces(memory.data(), other.bytes(), bytes, 4 << 20, cudaMemcpyDeviceToHost, down.get());
  };
  const double fromDevice = bandwidth(bytes, [&] { back(), down.synchronize(); });
  // What comes back goes into another half of the same memory than what goes up, so that neither writes what is read.
  const size_t half = bytes / 2;
  const double both = bandwidth(2 * half, [&] {
    copyInPieces(device.bytes(), memory.data(), half, 4 << 20, cudaMemcpyHostToDevice, up.get());
    copyInPieces(memory.data() + half, other.bytes(), half, 4 << 20, cudaMemcpyDeviceToHost, down.get());
    up.synchronize();
    down.synchronize();
  });
  std::printf(
      "  \"bytes\": %zu,\n  \"pinned\": %s,\n  \"registerSeconds\": %.4f,\n  \"toDeviceBytesPerSecond\": %.4g,\n"
      "  \"toDeviceInPiecesBytesPerSecond\": %.4g,\n  \"toDeviceUnpinnedBytesPerSecond\": %.4g,\n"
      "  \"fromDeviceBytesPerSecond\": %.4g,\n  \"bothWaysBytesPerSecond\": %.4g,\n  \"smallCopies\": [\n",
      bytes, pin.pinned() ? "true" : "false", registering, whole, pieces, unpinned, fromDevice, both);

  const size_t table = 64 << 10;
  const auto smallUp = [&] {
    check(cudaMemcpyAsync(tables.bytes(), tableMemory.data(), table, cudaMemcpyHostToDevice, small.get()), "small");
  };
  const auto smallDown = [&] {
    check(cudaMemcpyAsync(tableMemory.data(), tables.bytes(), table, cudaMemcpyDeviceToHost, small.get()), "small");
  };
  std::vector<double> alone;
  for (int i = 0; i < 200; i++) {
    began = Clock::now();
    smallUp();
    small.synchronize();
    alone.push_back(secondsSince(began));
  }
  print("nothing", {median(alone), *std::max_element(alone.begin(), alone.end()), alone.size()});
  struct Way {
    const char* name;
    size_t piece;
  };
  for (const Way& way : {Way{"one copy of all", bytes}, Way{"pieces of 16 MiB", 16 << 20},
                         Way{"pieces of 4 MiB", 4 << 20}, Way{"pieces of 1 MiB", 1 << 20}}) {
    toDevice(memory.data(), way.piece, up.get());
    print(way.name, waitsBeside(up, small, smallUp));
  }
  toDevice(memory.data(), 4 << 20, up.get());
  print("pieces of 4 MiB, the other way", waitsBeside(up, small, smallDown));
  const auto byKernel = [&] { copyPinned(small.get(), tableMemory.data(), tables.bytes(), table); };
  byKernel();
  small.synchronize();
  toDevice(memory.data(), bytes, up.get());
  print("one copy of all, by a kernel", waitsBeside(up, small, byKernel), true);

  if (!pin.pinned()) {  // kernels cannot read it
    std::printf("  ]\n");
    return;
  }
  const size_t pageBytes = std::min(bytes / 4, size_t(64) << 20);
  OnDevice pages(pageBytes);
  const auto pagesBeside = [&](const std::function<bool()>& goesOn) {
    return pagesPerSecond(small, memory.data(), pages.bytes(), pageBytes, goesOn);
  };
  size_t rounds = 0;
  const double pagesAlone = pagesBeside([&] { return ++rounds < 6; });
  began = Clock::now();
  toDevice(memory.data(), bytes, up.get());
  double weightSeconds = 0;
  const double besideOne = pagesBeside([&] {
    if (cudaStreamQuery(up.get()) == cudaErrorNotReady) {
      cudaGetLastError();  // that is no error
      return true;
    }
    weightSeconds = secondsSince(began);
    return false;
  });
  up.synchronize();
  // Weights two pieces at a time: pages that come in between are held up by no more than these.
  Event pieceSent[2];
  size_t piece = 0;
  const double besidePieces = pagesBeside([&] {
    for (int i = 0; i < 16 && piece * (size_t(4) << 20) < bytes; i++, piece++) {
      if (!pieceSent[piece % 2].hasPassed()) break;
      const size_t at = piece * (size_t(4) << 20);
      copyInPieces(device.bytes() + at, memory.data() + at, std::min(size_t(4) << 20, bytes - at), 4 << 20,
                   cudaMemcpyHostToDevice, up.get());
      pieceSent[piece % 2].record(up.get());
    }
    return piece * (size_t(4) << 20) < bytes && ++rounds < 4000;
  });
  up.synchronize();
  std::printf(
      "  ],\n  \"pages\": {\"bytes\": %zu, \"bytesPerSecond\": %.4g, \"besideOneCopyBytesPerSecond\": %.4g,\n"
      "    \"besidePiecesBytesPerSecond\": %.4g, \"weightsBesideBytesPerSecond\": %.4g}",
      pageBytes, pagesAlone, besideOne, besidePieces, static_cast<double>(bytes) / weightSeconds);
  measureAttention(memory.data());
}

}  // namespace

int main(int argc, char** argv) {
  const size_t gibibytes = argc > 1 ? std::max(1, std::atoi(argv[1])) : 4;
  try {
    const std::vector<Gpu> gpus = listGpus();
    if (gpus.empty()) {
      std::fprintf(stderr, "no GPU\n");
      return 1;
    }
    std::printf("{\n  \"device\": \"%s\",\n", gpus[0].name.c_str());
    measure(gibibytes << 30);
    std::printf("}\n");
  } catch (const Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
