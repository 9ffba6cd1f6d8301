// The race detector. Kernels compiled with -fsanitize=thread call the functions at the end before every access to
// memory; what that option would link to is not linked. Each byte of device memory and of shared memory keeps who wrote
// it and read it last. Two accesses of which one is a write race when different threads make them and nothing lies
// between: a barrier of their block, or an operation of their warp. Atomic operations do not come by here.
#include <atomic>
#include <map>
#include <string>
#include <vector>

#include "internal.h"

namespace spillway::emulator {
namespace {

struct Access {
  uint32_t block = 0;  // serial number over all launches, 0: none
  uint16_t thread = 0;
  uint16_t barriers = 0;
  uint16_t warpSyncs = 0;
  bool oneWarp = true;  // of readers: all of them were lanes of this thread's warp
  bool oneThread = true;
};

struct Cell {
  Access write, read;
};

struct Region {
  unsigned char* begin;
  size_t bytes;
  bool shared;
  std::vector<Cell> cells;  // made at the first access
};

std::map<unsigned char*, Region> regions;
Region* lastRegion = nullptr;
void* sharedRegion = nullptr;
uint32_t blockSerial = 0, firstOfGrid = 0;
std::atomic<bool> anyHook = false;

Region* find(unsigned char* address) {
  if (lastRegion != nullptr && address >= lastRegion->begin && address < lastRegion->begin + lastRegion->bytes)
    return lastRegion;
  auto next = regions.upper_bound(address);
  if (next == regions.begin()) return nullptr;
  Region& region = std::prev(next)->second;
  if (address >= region.begin + region.bytes) return nullptr;
  return lastRegion = &region;
}

// Whether `before` is sure to have happened before what `now` does.
bool isOrdered(const Access& before, const ThreadClock& now) {
  if (before.block < firstOfGrid || before.block == 0) return true;
  if (before.block != blockSerial) return false;
  if (before.thread == now.thread && before.oneThread) return true;
  if (before.barriers != static_cast<uint16_t>(now.barriers)) return true;
  const bool sameWarp = before.oneWarp && before.thread / 32 == now.thread / 32;
  return sameWarp && before.warpSyncs != static_cast<uint16_t>(now.warpSyncs);
}

[[noreturn]] void report(const Region& region, const unsigned char* address, const Access& before, const char* what) {
  const std::string message = std::string("a race: ") + what + " byte " + std::to_string(address - region.begin) +
                              (region.shared ? " of shared memory" : " of an allocation") + ", after thread " +
                              std::to_string(before.thread) +
                              (before.block == blockSerial ? " of this block" : " of another block");
  fail(message.c_str());
}

void check(Region& region, unsigned char* address, const ThreadClock& now, bool write) {
  Cell& cell = region.cells[static_cast<size_t>(address - region.begin)];
  if (!isOrdered(cell.write, now)) report(region, address, cell.write, write ? "writes" : "reads");
  const Access mine = {blockSerial,
                       static_cast<uint16_t>(now.thread),
                       static_cast<uint16_t>(now.barriers),
                       static_cast<uint16_t>(now.warpSyncs),
                       true,
                       true};
  if (write) {
    if (!isOrdered(cell.read, now)) report(region, address, cell.read, "writes (what has been read)");
    cell.write = mine;
    return;
  }
  Access& read = cell.read;
  const bool stands = read.block == blockSerial && read.barriers == mine.barriers;
  if (!stands && read.block >= firstOfGrid && read.block != 0 && read.block != blockSerial)
    return;  // another block's reading stays: any later write races with it
  const bool oneThread = !stands || (read.oneThread && read.thread == mine.thread);
  const bool oneWarp = !stands || (read.oneWarp && read.thread / 32 == mine.thread / 32);
  read = mine;
  read.oneThread = oneThread;
  read.oneWarp = oneWarp;
}

void hook(const void* address, size_t bytes, bool write) {
  if (!anyHook) anyHook = true;
  if (runningThread() != nullptr) noteAccess(address, bytes, write);
}

}  // namespace

bool detectsRaces() { return anyHook; }

void noteMemory(void* begin, size_t bytes) {
  regions[static_cast<unsigned char*>(begin)] = {static_cast<unsigned char*>(begin), bytes, false, {}};
}

void forgetMemory(void* begin) {
  lastRegion = nullptr;
  regions.erase(static_cast<unsigned char*>(begin));
}

void beginGridRaces() { firstOfGrid = blockSerial + 1; }

void beginBlockRaces(void* shared, size_t sharedBytes) {
  blockSerial++;
  if (sharedRegion != nullptr) forgetMemory(sharedRegion);
  sharedRegion = shared;
  noteMemory(shared, sharedBytes);
  regions[static_cast<unsigned char*>(shared)].shared = true;
}

void noteAccess(const void* at, size_t bytes, bool write) {
  if (!anyHook) return;
  const ThreadClock* now = runningThread();
  unsigned char* address = static_cast<unsigned char*>(const_cast<void*>(at));
  Region* region = find(address);
  if (region == nullptr) return;
  if (region->cells.empty()) region->cells.resize(region->bytes);
  const size_t left = static_cast<size_t>(region->begin + region->bytes - address);
  for (size_t i = 0; i < (bytes < left ? bytes : left); i++) check(*region, address + i, *now, write);
}

}  // namespace spillway::emulator

using spillway::emulator::hook;

extern "C" {
void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
void __tsan_vptr_update(void**, void*) {}
void __tsan_vptr_read(void**) {}
#define SPILLWAY_ACCESS(bytes)                                                      \
  void __tsan_read##bytes(void* address) { hook(address, bytes, false); }           \
  void __tsan_write##bytes(void* address) { hook(address, bytes, true); }           \
  void __tsan_unaligned_read##bytes(void* address) { hook(address, bytes, false); } \
  void __tsan_unaligned_write##bytes(void* address) { hook(address, bytes, true); }
SPILLWAY_ACCESS(1)
SPILLWAY_ACCESS(2)
SPILLWAY_ACCESS(4)
SPILLWAY_ACCESS(8)
SPILLWAY_ACCESS(16)
// Reference counts of the host code that is compiled with the kernels: atomic, so no race.
int __tsan_atomic32_fetch_add(volatile int* address, int value, int) {
  return __atomic_fetch_add(address, value, __ATOMIC_SEQ_CST);
}
int __tsan_atomic32_fetch_sub(volatile int* address, int value, int) {
  return __atomic_fetch_sub(address, value, __ATOMIC_SEQ_CST);
}
void __tsan_read_range(void* address, size_t bytes) { hook(address, bytes, false); }
void __tsan_write_range(void* address, size_t bytes) { hook(address, bytes, true); }
}
