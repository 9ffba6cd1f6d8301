// The runtime's calls. Memory has the exact size that was asked for and begins as all ones (NaN); streams queue
// closures that run when somebody waits.
#include <stdlib.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "internal.h"

// What has been recorded last: a stream that waits for the event waits for this record.
struct spillway_emulator_event {
  std::shared_ptr<bool> record = std::make_shared<bool>(true);
};

namespace spillway::emulator {

struct Task {
  std::function<void()> run;
  std::shared_ptr<bool> waitsFor;  // null, or what must be true before
  std::shared_ptr<bool> record;    // null, or what becomes true
};

struct Stream {
  std::deque<Task> tasks;
};

namespace {

// Of architecture 9.0, the most there is; kernels for all architectures hold themselves to 99 KiB.
constexpr size_t kMostShared = 227 * 1024;

struct Memory {
  size_t bytes;
  bool pinned;
};

// Every call takes it: blocks of kernels run one after another, on whichever host thread waits.
std::recursive_mutex mutex;
using Lock = std::lock_guard<std::recursive_mutex>;

// What tests have planted.
std::condition_variable_any resumed;
bool paused = false;
size_t waits = 0, forgottenWait = SIZE_MAX;
const Stream* hurried =
    nullptr;  // forgot to wait: its work goes first, for that is the order in which the mistake shows
size_t kernelsToBreak = SIZE_MAX;
bool broken = false;

std::map<void*, Memory> allocations;
std::map<void*, size_t> registered;
bool pinnable = true;
std::vector<std::unique_ptr<Stream>> streams;
size_t deviceBytes = size_t{1} << 30;
int devices = 1;
thread_local cudaError_t lastError = cudaSuccess;

size_t bytesInUse(bool pinned) {
  size_t sum = 0;
  for (const auto& [pointer, memory] : allocations) sum += memory.pinned == pinned ? memory.bytes : 0;
  return sum;
}

cudaError_t allocate(void** pointer, size_t bytes, bool pinned) {
  if (!pinned && bytesInUse(false) + bytes > deviceBytes) return lastError = cudaErrorMemoryAllocation;
  if (posix_memalign(pointer, pinned ? 4096 : 256, bytes) != 0) return lastError = cudaErrorMemoryAllocation;
  memset(*pointer, 0xff, bytes);
  allocations[*pointer] = {bytes, pinned};
  noteMemory(*pointer, bytes);
  return cudaSuccess;
}

// As on the device, work that is under way may use the memory: it is finished first.
cudaError_t release(void* pointer, bool pinned) {
  if (pointer == nullptr) return cudaSuccess;
  const auto found = allocations.find(pointer);
  if (found == allocations.end() || found->second.pinned != pinned) return lastError = cudaErrorInvalidValue;
  drain(nullptr);
  forgetMemory(pointer);
  allocations.erase(found);
  free(pointer);
  return cudaSuccess;
}

bool runnable(const Stream& stream) {
  return !stream.tasks.empty() && (stream.tasks.front().waitsFor == nullptr || *stream.tasks.front().waitsFor);
}

// Runs one task of any stream that has one to run; false if there is none.
bool runOne() {
  std::vector<Stream*> candidates;
  for (const auto& stream : streams)
    if (runnable(*stream)) candidates.push_back(stream.get());
  if (candidates.empty()) return false;
  const auto first = std::find(candidates.begin(), candidates.end(), hurried);
  Stream* stream = first != candidates.end() ? *first : candidates[draw(candidates.size())];
  const Task task = std::move(stream->tasks.front());
  stream->tasks.pop_front();
  task.run();
  return true;
}

// Others may give the device more to do in between, and now and then they are given time for it.
void runUntil(const std::function<bool()>& finished) {
  if (!finished() && draw(4) == 3) {
    mutex.unlock();
    std::this_thread::sleep_for(std::chrono::microseconds(100));
    mutex.lock();
  }
  while (!finished()) {
    if (paused) {
      resumed.wait(mutex);
      continue;
    }
    if (!runOne()) throw KernelError("streams wait for events that nothing will record");
    mutex.unlock();
    std::this_thread::yield();
    mutex.lock();
  }
}

// A device that has failed does nothing more, and says so to everybody.
void fail() {
  broken = true;
  for (const auto& stream : streams) {
    for (const Task& task : stream->tasks) {
      if (task.record != nullptr) *task.record = true;
    }
    stream->tasks.clear();
  }
}
cudaError_t outcome() { return broken ? lastError = cudaErrorLaunchFailure : cudaSuccess; }

bool allIdle() {
  for (const auto& stream : streams)
    if (!stream->tasks.empty()) return false;
  return true;
}

// Work without a stream waits for all other work, and is done at once.
void enqueue(Stream* stream, std::function<void()> run, std::shared_ptr<bool> waitsFor = nullptr,
             std::shared_ptr<bool> record = nullptr) {
  if (broken) {
    if (record != nullptr) *record = true;
    return;
  }
  if (stream != nullptr) {
    stream->tasks.push_back({std::move(run), std::move(waitsFor), std::move(record)});
    return;
  }
  drain(nullptr);
  run();
}

}  // namespace

void drain(Stream* stream) {
  runUntil([stream] { return stream == nullptr ? allIdle() : stream->tasks.empty(); });
}

void launch(const char* name, dim3 grid, dim3 block, size_t sharedBytes, Stream* stream, std::function<void()> thread) {
  const Lock lock(mutex);
  const size_t threads = size_t{block.x} * block.y * block.z;
  const bool fits = threads > 0 && threads <= 1024 && grid.x > 0 && grid.y > 0 && grid.z > 0 && grid.y <= 65535 &&
                    grid.z <= 65535 && sharedBytes <= kMostShared;
  if (!fits) {
    lastError = cudaErrorInvalidConfiguration;
    return;
  }
  enqueue(stream, [=] {
    if (kernelsToBreak != SIZE_MAX && kernelsToBreak-- == 0) return fail();
    runGrid(name, grid, block, sharedBytes, thread);
  });
  outcome();
}

void setDeviceBytes(size_t bytes) { deviceBytes = bytes; }
size_t deviceBytesInUse() { return bytesInUse(false); }
size_t pinnedBytesInUse() { return bytesInUse(true); }
void setDevices(int count) { devices = count; }
void setPinnable(bool value) { pinnable = value; }
size_t registeredBytes() {
  size_t sum = 0;
  for (const auto& [pointer, bytes] : registered) sum += bytes;
  return sum;
}
bool idle() {
  const Lock lock(mutex);
  return allIdle();
}
void abandonStreams() {
  for (const auto& stream : streams) stream->tasks.clear();
}
void pause() {
  const Lock lock(mutex);
  paused = true;
}
void resume() {
  {
    const Lock lock(mutex);
    paused = false;
  }
  resumed.notify_all();
}
size_t streamWaits() {
  const Lock lock(mutex);
  return waits;
}
void forgetWait(size_t index) {
  const Lock lock(mutex);
  forgottenWait = index == SIZE_MAX ? SIZE_MAX : waits + index;
  hurried = nullptr;
}
void breakAt(size_t kernel) {
  const Lock lock(mutex);
  kernelsToBreak = kernel;
  broken = false;
  lastError = cudaSuccess;
}

}  // namespace spillway::emulator

using namespace spillway::emulator;

cudaError_t cudaMalloc(void** pointer, size_t bytes) {
  const Lock lock(mutex);
  return allocate(pointer, bytes, false);
}
cudaError_t cudaFree(void* pointer) {
  const Lock lock(mutex);
  return release(pointer, false);
}
cudaError_t cudaHostAlloc(void** pointer, size_t bytes, unsigned) {
  const Lock lock(mutex);
  return allocate(pointer, bytes, true);
}
cudaError_t cudaFreeHost(void* pointer) {
  const Lock lock(mutex);
  return release(pointer, true);
}
cudaError_t cudaHostRegister(void* pointer, size_t bytes, unsigned) {
  const Lock lock(mutex);
  if (!pinnable || bytes == 0 || registered.count(pointer) != 0) return lastError = cudaErrorInvalidValue;
  registered[pointer] = bytes;
  return cudaSuccess;
}
cudaError_t cudaHostUnregister(void* pointer) {
  const Lock lock(mutex);
  drain(nullptr);  // copies that are under way read it
  return registered.erase(pointer) == 1 ? cudaSuccess : lastError = cudaErrorInvalidValue;
}

cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  const Lock lock(mutex);
  *total = deviceBytes;
  *free = deviceBytes - bytesInUse(false);
  return cudaSuccess;
}

// CUDA takes a null pointer where there is nothing to copy; memcpy does not.
static void copyBytes(void* to, const void* from, size_t bytes) {
  if (bytes != 0) memcpy(to, from, bytes);
}

cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind) {
  const Lock lock(mutex);
  enqueue(nullptr, [=] { copyBytes(to, from, bytes); });
  return outcome();
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind, cudaStream_t stream) {
  const Lock lock(mutex);
  enqueue(stream, [=] { copyBytes(to, from, bytes); });
  return outcome();
}
cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t stream) {
  const Lock lock(mutex);
  enqueue(stream, [=] {
    if (bytes != 0) memset(to, value, bytes);
  });
  return outcome();
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  const Lock lock(mutex);
  streams.push_back(std::make_unique<Stream>());
  *stream = streams.back().get();
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  const Lock lock(mutex);
  drain(stream);
  for (size_t i = 0; i < streams.size(); i++)
    if (streams[i].get() == stream) {
      streams.erase(streams.begin() + static_cast<std::ptrdiff_t>(i));
      return cudaSuccess;
    }
  return lastError = cudaErrorInvalidValue;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  const Lock lock(mutex);
  drain(stream);
  return outcome();
}
// A question lets some of the work go on, as time does; that the answer is no counts as an error.
cudaError_t cudaStreamQuery(cudaStream_t stream) {
  const Lock lock(mutex);
  if (!paused) runOne();
  return stream->tasks.empty() ? outcome() : lastError = cudaErrorNotReady;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  const Lock lock(mutex);
  if (waits++ == forgottenWait)
    hurried = stream;
  else
    enqueue(stream, [] {}, event->record);
  return outcome();
}
cudaError_t cudaLaunchHostFunc(cudaStream_t stream, void (*function)(void*), void* data) {
  const Lock lock(mutex);
  enqueue(stream, [=] { function(data); });
  return outcome();
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  const Lock lock(mutex);
  *event = new spillway_emulator_event();
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  const Lock lock(mutex);
  delete event;
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  const Lock lock(mutex);
  event->record = std::make_shared<bool>(false);
  enqueue(stream, [record = event->record] { *record = true; }, nullptr, event->record);
  return outcome();
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  const Lock lock(mutex);
  runUntil([record = event->record] { return *record; });
  return outcome();
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  const Lock lock(mutex);
  if (!paused) runOne();
  return *event->record ? outcome() : lastError = cudaErrorNotReady;
}

cudaError_t cudaDeviceSynchronize() {
  const Lock lock(mutex);
  drain(nullptr);
  return outcome();
}
cudaError_t cudaGetLastError() {
  const Lock lock(mutex);
  return std::exchange(lastError, cudaSuccess);
}
cudaError_t cudaSetDevice(int device) {
  const Lock lock(mutex);
  return device < 0 || device >= devices ? lastError = cudaErrorInvalidDevice : cudaSuccess;
}
cudaError_t cudaGetDeviceCount(int* count) {
  const Lock lock(mutex);
  if (devices == 0) return lastError = cudaErrorInsufficientDriver;
  *count = devices;
  return cudaSuccess;
}
cudaError_t cudaDriverGetVersion(int* version) {
  *version = 12080;
  return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  const Lock lock(mutex);
  if (device < 0 || device >= devices) return lastError = cudaErrorInvalidValue;
  *properties = {"emulated GPU", deviceBytes, 9, 0, 1};
  return cudaSuccess;
}
const char* cudaGetErrorString(cudaError_t error) {
  switch (error) {
    case cudaSuccess: return "no error";
    case cudaErrorInvalidValue: return "invalid argument";
    case cudaErrorMemoryAllocation: return "out of memory";
    case cudaErrorInvalidConfiguration: return "invalid configuration argument";
    case cudaErrorInvalidDevice: return "invalid device ordinal";
    case cudaErrorNoDevice: return "no CUDA-capable device is detected";
    case cudaErrorInsufficientDriver: return "CUDA driver version is insufficient for CUDA runtime version";
    case cudaErrorNotReady: return "device not ready";
    default: return "unspecified launch failure";
  }
}
