// Which events have completed, and which of them failed; shared by all queues of a runtime, so that a task on one may
// wait for a task on another. Tasks on a device are under way for a time before they complete: what is on the same
// device need not wait for more. An event can be waited for only after it was created, so there are no cycles and no
// deadlocks.
#pragma once
#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "CompletionChannel.h"
#include "Launch.h"
#include "Parking.h"

namespace spillway {

class EventTable {
 public:
  EventId create();
  // Its task is under way, up to the fence; complete() follows.
  void launched(EventId event, std::shared_ptr<Fence> fence);
  void complete(EventId event, bool failed);
  EventId last() const;  // 0 before the first

  // Throws Error(InvalidArgument) for an event that was never created. Leaves out what has completed well, so most
  // lists come back empty.
  std::vector<EventId> stillToAwait(const std::vector<EventId>& events) const;

  enum class Until { Launched, Completed };
  // Whether all of them have come so far, well or not.
  bool reached(const std::vector<EventId>& events, Until until) const;

  enum class Outcome { Done, Failed, Interrupted };
  // The fences of those that are under way. Failed, with the first such event, where one has failed.
  Outcome fences(const std::vector<EventId>& events, std::vector<std::shared_ptr<Fence>>& into, EventId* failed) const;
  // Waits until all have come so far, or `interrupted()`, which is looked at again after each change and each poke().
  template <typename Interrupted>
  Outcome await(const std::vector<EventId>& events, Until until, EventId* failed, Interrupted interrupted) {
    for (;;) {
      const uint32_t seen = changes_.load();
      if (interrupted()) return Outcome::Interrupted;
      bool pending = false;
      for (EventId event : events) {
        const State state = stateOf(event);
        if (state == State::Failed) return *failed = event, Outcome::Failed;
        pending |= open(state, until);
      }
      if (!pending) return Outcome::Done;
      awaitChange(seen);
    }
  }
  // Of any event, and by poke(): how many there have been, and until there has been another.
  uint32_t changes() const { return changes_.load(); }
  void awaitChange(uint32_t seen) {
    if (spinUntil([&] { return changes_.load() != seen; })) return;
    sleepers_.fetch_add(1);
    if (changes_.load() == seen) parking_.wait(changes_, seen);
    sleepers_.fetch_sub(1);
  }
  void poke();

 private:
  enum class State : uint8_t { Pending, Launched, Done, Failed };
  static bool open(State state, Until until) {
    return state == State::Pending || (state == State::Launched && until == Until::Completed);
  }
  State find(EventId event) const;  // with the mutex held
  State stateOf(EventId event) const;

  mutable std::mutex mutex_;
  EventId first_ = 1;  // of `recent_`; all events before it have completed
  std::deque<State> recent_;
  std::map<EventId, std::shared_ptr<Fence>> fences_;  // of those that are under way
  std::map<EventId, EventId> failed_;                 // runs of failed events before `first_`: first to last
  std::atomic<uint32_t> changes_{0};
  std::atomic<uint32_t> sleepers_{0};
  Parking parking_;
};

}  // namespace spillway
