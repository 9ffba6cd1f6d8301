#include "Transfer.h"

#include <sys/stat.h>
#include <time.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <new>

#include "diskSystem.h"

namespace spillway {

namespace {

constexpr size_t kAlignment = DirectFile::kAlignment;
constexpr int kMostFruitless =
    1000;  // attempts of one request; those that the system asks to repeat later are a millisecond apart

bool hasTails(const DirectFile::ReadRange* ranges, size_t count, size_t blockBytes) {
  return std::any_of(ranges, ranges + count,
                     [&](const DirectFile::ReadRange& range) { return range.bytes % blockBytes != 0; });
}

}  // namespace

Transfer::Transfer(const Source& source, IoQueue& queue, const DirectFile::ReadRange* ranges, size_t count,
                   const DirectFile::Pieces* pieces)
    : source_(source), queue_(queue), ranges_(ranges), count_(count), pieces_(pieces), tails_(nullptr, std::free) {
  const unsigned depth = source.options.depth;
  slots_.resize(depth);
  decided_.reserve(depth);
  for (unsigned tag = depth; tag-- > 0;) free_.push_back(tag);
  if (hasTails(ranges, count, source.blockBytes)) {
    void* block = nullptr;
    if (posix_memalign(&block, kAlignment, depth * kAlignment) != 0) throw std::bad_alloc();
    tails_.reset(static_cast<uint8_t*>(block));
  }
}

Transfer::~Transfer() {
  while (inFlight_ != 0) {
    queue_.wait();
    inFlight_--;
  }
}

Transfer::Failure Transfer::run() {
  for (;;) {
    issue();
    if (handOver()) continue;
    if (free_.size() == slots_.size()) return failure_;
    const IoResult result = wait();
    settle(result.tag, result.result);
  }
}

void Transfer::issue() {
  while (!failure_.failed && !free_.empty() && next(&slots_[free_.back()], free_.back())) {
    const unsigned tag = free_.back();
    free_.pop_back();
    attempt(tag);
  }
}

// The next request of the ranges, in order; none where the next range has to wait for memory.
bool Transfer::next(Slot* slot, unsigned tag) {
  while (range_ < count_ && rangeDone_ == ranges_[range_].bytes) {
    range_++;
    rangeDone_ = 0;
  }
  if (range_ == count_) return false;
  if (pieces_ != nullptr) {
    pieces_->check();
    if (rangeDone_ == 0 && !open()) return false;
  }
  const DirectFile::ReadRange& range = ranges_[range_];
  const size_t left = range.bytes - rangeDone_;
  uint8_t* memory = (pieces_ != nullptr ? open_.back().memory : static_cast<uint8_t*>(range.destination)) + rangeDone_;
  const size_t block = source_.blockBytes;
  if (left < block) {
    // A direct read moves whole blocks; the caller's memory ends before this one does.
    *slot = {range_, range.offset + rangeDone_, tails_.get() + tag * kAlignment, left, block, 0, 0, 0, false, memory};
    rangeDone_ += left;
  } else {
    const size_t bytes = std::min(source_.options.requestBytes, left / block * block);
    *slot = {range_, range.offset + rangeDone_, memory, bytes, bytes, 0, 0, 0, false, nullptr};
    rangeDone_ += bytes;
  }
  return true;
}

bool Transfer::open() {
  const DirectFile::ReadRange& range = ranges_[range_];
  uint8_t* memory = pieces_->next(range.offset - ranges_[0].offset, open_.empty());
  if (memory == nullptr) return false;
  open_.push_back({memory, range.bytes});
  return true;
}

// One range, if all of it has come: whoever takes it may need a while, and have memory for the next one then.
bool Transfer::handOver() {
  if (open_.empty() || open_.front().left != 0) return false;
  queue_.submit();
  const DirectFile::ReadRange& range = ranges_[handedOver_];
  uint8_t* memory = open_.front().memory;
  open_.pop_front();
  handedOver_++;
  pieces_->full(range.offset - ranges_[0].offset, memory, range.bytes);
  return true;
}

void Transfer::attempt(unsigned tag) {
  Slot& slot = slots_[tag];
  IoRequest request{source_.writing, source_.descriptor, slot.offset + slot.done, slot.memory + slot.done,
                    slot.bytes - slot.done};
  slot.direct = source_.direct.load(std::memory_order_relaxed);
  slot.most = request.bytes;
  if (source_.options.faults != nullptr) {
    const int64_t fault = source_.options.faults->before(source_.writing ? DiskOperation::Write : DiskOperation::Read,
                                                         request.offset, request.bytes);
    if (fault < 0) {
      decided_.push_back({tag, fault == DiskFaults::kEnd ? 0 : fault});
      return;
    }
    if (fault > 0) slot.most = std::min(slot.most, static_cast<size_t>(fault));
  }
  queue_.start(tag, request);
  inFlight_++;
}

IoResult Transfer::wait() noexcept {
  if (decided_.empty()) {
    inFlight_--;
    return queue_.wait();
  }
  const IoResult result = decided_.back();
  decided_.pop_back();
  return result;
}

void Transfer::settle(unsigned tag, int64_t result) {
  Slot& slot = slots_[tag];
  if (result == -EINVAL && slot.direct) {
    // Some file systems accept O_DIRECT and refuse the reads, or want more than our alignment.
    // The flag goes first: whoever sees `direct` cleared may rely on it.
    disk::setDirect(source_.descriptor, false);
    disk::readNothingAhead(source_.descriptor);
    source_.direct.store(false);
    return again(tag, EINVAL);
  }
  if (result == -EINTR || result == -EAGAIN) return again(tag, static_cast<int>(-result));
  if (result < 0) {
    fail(slot, static_cast<int>(-result));
    return finish(tag);
  }
  if (result == 0) {
    if (source_.writing) return again(tag, EIO);
    fail(slot, 0);
    return finish(tag);
  }
  const size_t before = slot.done;
  slot.done += std::min(static_cast<size_t>(result), slot.most);
  if (slot.done >= slot.needed) {
    if (source_.options.faults != nullptr && !source_.writing)
      source_.options.faults->afterRead(slot.offset, slot.memory, slot.needed);
    if (slot.destination != nullptr) std::memcpy(slot.destination, slot.memory, slot.needed);
    if (!slot.direct && !source_.writing) disk::dropFromCache(source_.descriptor, slot.offset, slot.bytes);
    if (pieces_ != nullptr) open_[slot.range - handedOver_].left -= slot.needed;
    return finish(tag);
  }
  if (!source_.writing && endsAt(slot.offset + slot.done)) {
    fail(slot, 0);
    return finish(tag);
  }
  // A direct request can go on only where a block begins.
  if (slot.direct) slot.done = slot.done / source_.blockBytes * source_.blockBytes;
  if (slot.done > before) {
    slot.fruitless = 0;
    if (givenUp(slot)) return finish(tag);
    attempt(tag);
  } else {
    again(tag, EIO);
  }
}

void Transfer::again(unsigned tag, int error) {
  Slot& slot = slots_[tag];
  if (givenUp(slot)) return finish(tag);
  if (++slot.fruitless > kMostFruitless) {
    fail(slot, error);
    return finish(tag);
  }
  if (error == EAGAIN) {
    const timespec millisecond{0, 1000000};
    nanosleep(&millisecond, nullptr);
  }
  attempt(tag);
}

void Transfer::finish(unsigned tag) { free_.push_back(tag); }

void Transfer::fail(const Slot& slot, int error) {
  if (!failure_.failed || slot.range < failure_.range) failure_ = {true, slot.range, slot.offset + slot.done, error};
}

bool Transfer::endsAt(uint64_t offset) const {
  struct stat facts{};
  return fstat(source_.descriptor, &facts) == 0 && offset >= static_cast<uint64_t>(facts.st_size);
}

}  // namespace spillway
