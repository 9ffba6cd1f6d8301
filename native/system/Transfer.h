// One call's worth of reading or writing: cuts ranges into requests, keeps a number of them in flight, and carries on
// with what comes back short.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "DirectFile.h"
#include "IoQueue.h"

namespace spillway {

class Transfer {
 public:
  struct Source {
    int descriptor;
    bool writing;
    std::atomic<bool>& direct;  // of the descriptor; cleared when the file system turns out not to allow it
    const DirectOptions& options;
    size_t blockBytes;  // that a direct read moves whole
  };
  // What went wrong: of the first range that something did, the first thing.
  struct Failure {
    bool failed = false;
    size_t range = 0;     // which of the ranges
    uint64_t offset = 0;  // of the request; how far the data went
    int error = 0;        // errno; 0: the file's end
  };

  // pieces: whose memory the ranges are read to, in place of their destinations, and who takes them; null where they
  // have destinations. Throws std::bad_alloc only.
  Transfer(const Source& source, IoQueue& queue, const DirectFile::ReadRange* ranges, size_t count,
           const DirectFile::Pieces* pieces = nullptr);
  ~Transfer();  // waits for what is in flight
  Transfer(const Transfer&) = delete;
  Transfer& operator=(const Transfer&) = delete;

  // Throws what `pieces` does; some may be in flight then.
  Failure run();

 private:
  // A range that has memory of `pieces` and was not handed over yet.
  struct Open {
    uint8_t* memory;
    size_t left;  // bytes that have not come
  };
  // A request that is under way, perhaps in several attempts.
  struct Slot {
    size_t range;
    uint64_t offset;
    uint8_t* memory;
    size_t needed;  // bytes wanted
    size_t bytes;   // asked for: aligned for direct reads
    size_t done;
    size_t most;           // of the last attempt: what a test lets it report
    int fruitless;         // attempts in a row that moved nothing
    bool direct;           // the last attempt was
    uint8_t* destination;  // of a tail, which goes through a buffer of ours; else null
  };

  void issue();
  bool next(Slot* slot, unsigned tag);
  bool open();
  bool handOver();
  void attempt(unsigned tag);
  void settle(unsigned tag, int64_t result);
  void finish(unsigned tag);
  void again(unsigned tag, int error);
  void fail(const Slot& slot, int error);
  // Ranges before the one that failed are brought to their end.
  bool givenUp(const Slot& slot) const { return failure_.failed && slot.range >= failure_.range; }
  bool endsAt(uint64_t offset) const;
  IoResult wait() noexcept;

  const Source source_;
  IoQueue& queue_;
  const DirectFile::ReadRange* ranges_;
  size_t count_;
  const DirectFile::Pieces* pieces_;
  std::deque<Open> open_;  // from range `handedOver_` on
  size_t handedOver_ = 0;
  size_t range_ = 0;  // where the next request comes from
  size_t rangeDone_ = 0;
  std::vector<Slot> slots_;  // by tag
  std::vector<unsigned> free_;
  std::vector<IoResult> decided_;                    // results that came without a request
  std::unique_ptr<uint8_t, void (*)(void*)> tails_;  // an aligned block for each tag, where a range ends crookedly
  size_t inFlight_ = 0;                              // those of `decided_` not counted
  Failure failure_;
};

}  // namespace spillway
