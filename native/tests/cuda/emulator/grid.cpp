// Runs a grid: blocks one after another, a block's threads as fibers that go on until they wait for others.
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "Fiber.h"
#include "internal.h"

uint3 threadIdx, blockIdx;
dim3 blockDim, gridDim;

namespace spillway::emulator {
namespace {

enum class State : uint8_t { Ready, AtBarrier, AtWarp, Done };

struct Copy {
  void* to;
  const void* from;
  size_t bytes, zeros;
};

struct Thread {
  uint3 index;
  State state;
  ThreadClock clock;
  const char* file;  // of the barrier it waits at
  int line;
  std::vector<Copy> copies;               // not yet committed
  std::vector<std::vector<Copy>> groups;  // committed, oldest first
  std::vector<std::function<void()>> products;
  std::deque<std::vector<std::function<void()>>> productGroups;
};

struct Warp {
  unsigned arrived = 0;  // lanes waiting
  unsigned mask = 0;     // of the operation they wait for; lanes with another mask make another operation
  void* values[32] = {};
  unsigned masks[32] = {};
  WarpOperation operations[32] = {};
};

struct Block {
  const char* kernel;
  const std::function<void()>* body;
  unsigned threads;
  std::vector<Thread> state;
  std::vector<Warp> warps;
  std::vector<unsigned> ready;
  unsigned done = 0;  // threads that have ended
  unsigned current = 0;
  std::unique_ptr<unsigned char[]> shared;
  std::string error;
};

// Of this host thread: while one runs a kernel, others run the host code that is compiled with the kernels, and the
// race detector's hooks with it.
thread_local Block* running = nullptr;
std::vector<std::unique_ptr<Fiber>> fibers;
std::mt19937_64 generator;
bool ordered = true;

void makeReady(unsigned thread) {
  running->state[thread].state = State::Ready;
  running->ready.push_back(thread);
}

std::string place(unsigned thread) {
  return std::string(running->kernel) + ": block (" + std::to_string(blockIdx.x) + ", " + std::to_string(blockIdx.y) +
         ", " + std::to_string(blockIdx.z) + "), thread " + std::to_string(thread);
}

void threadEntry() {
  (*running->body)();
  Thread& self = running->state[running->current];
  self.state = State::Done;
  running->done++;
  Fiber::suspend();
}

void becomeCurrent(unsigned thread) {
  running->current = thread;
  threadIdx = running->state[thread].index;
}

// Every thread waits for others or has ended: either all are at one barrier, or the kernel is wrong.
void releaseBarrier() {
  Block& block = *running;
  unsigned atWarp = block.threads, other = block.threads, first = block.threads;
  for (unsigned i = 0; i < block.threads; i++) {
    const Thread& thread = block.state[i];
    if (thread.state == State::AtWarp && atWarp == block.threads) atWarp = i;
    if (thread.state == State::AtBarrier && first == block.threads) first = i;
    if (thread.state == State::AtBarrier &&
        (thread.line != block.state[first].line || thread.file != block.state[first].file))
      other = i;
  }
  if (atWarp < block.threads) throw KernelError(place(atWarp) + " waits in a warp operation for lanes that never come");
  if (other < block.threads)
    throw KernelError(place(other) + " waits at the barrier in line " + std::to_string(block.state[other].line) +
                      ", thread " + std::to_string(first) + " at the one in line " +
                      std::to_string(block.state[first].line));
  if (block.done > 0)
    throw KernelError(place(first) + " waits at the barrier in line " + std::to_string(block.state[first].line) +
                      " after other threads have ended");
  for (unsigned i = 0; i < block.threads; i++) {
    block.state[i].clock.barriers++;
    makeReady(i);
  }
}

void runBlock(size_t sharedBytes) {
  Block& block = *running;
  block.done = 0;
  block.ready.clear();
  block.warps.assign((block.threads + 31) / 32, Warp());
  memset(block.shared.get(), 0xff, sharedBytes);
  beginBlockRaces(block.shared.get(), sharedBytes);
  for (unsigned i = 0; i < block.threads; i++) {
    Thread& thread = block.state[i];
    thread.state = State::Ready;
    thread.clock = {i, 0, 0};
    // What a thread of the block before left unfinished.
    thread.copies.clear();
    thread.groups.clear();
    thread.products.clear();
    thread.productGroups.clear();
    fibers[i]->reset(threadEntry);
  }
  for (unsigned i = block.threads; i-- > 0;) block.ready.push_back(i);
  while (block.done < block.threads) {
    if (block.ready.empty()) releaseBarrier();
    // The last of the list, or any of it: as even as by a remainder, without the division, which each switch of threads
    // would wait for.
    if (!ordered) std::swap(block.ready.back(), block.ready[(generator() >> 32) * block.ready.size() >> 32]);
    const unsigned thread = block.ready.back();
    block.ready.pop_back();
    becomeCurrent(thread);
    fibers[thread]->resume();
    if (!block.error.empty()) throw KernelError(block.error);
  }
}

}  // namespace

size_t draw(size_t below) { return ordered ? 0 : generator() % below; }

void setSeed(uint64_t seed) {
  ordered = seed == 0;
  generator.seed(seed);
}

void fail(const char* message) {
  running->error = place(running->current) + ": " + message;
  Fiber::suspend();
  __builtin_unreachable();
}

void runGrid(const char* name, dim3 grid, dim3 block, size_t sharedBytes, const std::function<void()>& thread) {
  Block state;
  state.kernel = name;
  state.body = &thread;
  state.threads = block.x * block.y * block.z;
  state.state.resize(state.threads);
  for (unsigned i = 0; i < state.threads; i++)
    state.state[i].index = {i % block.x, i / block.x % block.y, i / (block.x * block.y)};
  state.shared.reset(new unsigned char[sharedBytes]);
  while (fibers.size() < state.threads) fibers.push_back(std::make_unique<Fiber>());
  running = &state;
  gridDim = grid;
  blockDim = block;
  beginGridRaces();
  try {
    const size_t blocks = size_t{grid.x} * grid.y * grid.z;
    for (size_t i = 0; i < blocks; i++) {
      blockIdx = {static_cast<unsigned>(i % grid.x), static_cast<unsigned>(i / grid.x % grid.y),
                  static_cast<unsigned>(i / grid.x / grid.y)};
      runBlock(sharedBytes);
    }
  } catch (...) {
    running = nullptr;
    throw;
  }
  running = nullptr;
}

void barrier(const char* file, int line) {
  Thread& self = running->state[running->current];
  self.state = State::AtBarrier;
  self.file = file;
  self.line = line;
  Fiber::suspend();
}

unsigned laneOf() { return running->current % 32; }

void collective(unsigned mask, WarpOperation operation, void* mine, void (*complete)(void* const lanes[32])) {
  Block& block = *running;
  const unsigned self = block.current, lane = self % 32, first = self - lane;
  Warp& warp = block.warps[self / 32];
  if ((mask >> lane & 1) == 0) fail("a warp operation whose mask leaves out the lane that calls it");
  warp.values[lane] = mine;
  warp.masks[lane] = mask;
  warp.operations[lane] = operation;
  warp.arrived |= 1u << lane;
  if ((warp.arrived & mask) != mask) {
    block.state[self].state = State::AtWarp;
    Fiber::suspend();
    return;
  }
  void* lanes[32];
  for (unsigned i = 0; i < 32; i++) {
    lanes[i] = mask >> i & 1 ? warp.values[i] : nullptr;
    if (lanes[i] == nullptr) continue;
    if (warp.masks[i] != mask || warp.operations[i] != operation)
      fail("lanes of a warp meet in different operations, or with different masks");
  }
  complete(lanes);
  warp.arrived &= ~mask;
  for (unsigned i = 0; i < 32; i++) {
    if ((mask >> i & 1) == 0) continue;
    block.state[first + i].clock.warpSyncs++;
    if (i != lane) makeReady(first + i);
  }
}

unsigned ballot(unsigned mask, bool vote) {
  struct Vote {
    bool mine;
    unsigned all;
  } state = {vote, 0};
  collective(mask, WarpOperation::Vote, &state, [](void* const lanes[32]) {
    unsigned all = 0;
    for (int i = 0; i < 32; i++)
      if (lanes[i] != nullptr && static_cast<Vote*>(lanes[i])->mine) all |= 1u << i;
    for (int i = 0; i < 32; i++)
      if (lanes[i] != nullptr) static_cast<Vote*>(lanes[i])->all = all;
  });
  return state.all;
}

void* sharedMemory() { return running->shared.get(); }

void queueCopy(void* to, const void* from, size_t bytes, size_t zeros) {
  running->state[running->current].copies.push_back({to, from, bytes, zeros});
}

void commitCopies() {
  Thread& self = running->state[running->current];
  self.groups.push_back(std::move(self.copies));
  self.copies.clear();
}

void waitForCopies(unsigned groupsLeft) {
  Thread& self = running->state[running->current];
  while (self.groups.size() > groupsLeft) {
    for (const Copy& copy : self.groups.front()) {
      noteAccess(copy.from, copy.bytes, false);
      noteAccess(copy.to, copy.bytes + copy.zeros, true);
      memcpy(copy.to, copy.from, copy.bytes);
      memset(static_cast<char*>(copy.to) + copy.bytes, 0, copy.zeros);
    }
    self.groups.erase(self.groups.begin());
  }
}

void queueProduct(std::function<void()> product) {
  running->state[running->current].products.push_back(std::move(product));
}

void commitProducts() {
  Thread& self = running->state[running->current];
  self.productGroups.push_back(std::move(self.products));
  self.products.clear();
}

void waitForProducts(unsigned groupsLeft) {
  Thread& self = running->state[running->current];
  while (self.productGroups.size() > groupsLeft) {
    // Taken out first: a product waits for the other lanes.
    const std::vector<std::function<void()>> group = std::move(self.productGroups.front());
    self.productGroups.pop_front();
    for (const std::function<void()>& product : group) product();
  }
}

const ThreadClock* runningThread() { return running == nullptr ? nullptr : &running->state[running->current].clock; }

}  // namespace spillway::emulator
