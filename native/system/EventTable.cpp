#include "EventTable.h"

#include <algorithm>
#include <climits>
#include <string>
#include <utility>

namespace spillway {

EventId EventTable::create() {
  std::lock_guard<std::mutex> lock(mutex_);
  recent_.push_back(State::Pending);
  return first_ + recent_.size() - 1;
}

EventId EventTable::last() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return first_ + recent_.size() - 1;
}

void EventTable::launched(EventId event, std::shared_ptr<Fence> fence) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    recent_[event - first_] = State::Launched;
    fences_.emplace(event, std::move(fence));
  }
  poke();
}

void EventTable::complete(EventId event, bool failed) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    recent_[event - first_] = failed ? State::Failed : State::Done;
    fences_.erase(event);
    for (; !recent_.empty() && !open(recent_.front(), Until::Completed); recent_.pop_front(), first_++) {
      if (recent_.front() != State::Failed) continue;
      const auto run = failed_.empty() ? failed_.end() : std::prev(failed_.end());
      if (run != failed_.end() && run->second + 1 == first_)
        run->second = first_;
      else
        failed_.emplace_hint(failed_.end(), first_, first_);
    }
  }
  poke();
}

void EventTable::poke() {
  changes_.fetch_add(1);
  if (sleepers_.load() != 0) parking_.wake(changes_, INT_MAX);
}

EventTable::State EventTable::stateOf(EventId event) const {
  std::lock_guard<std::mutex> lock(mutex_);
  return find(event);
}

EventTable::State EventTable::find(EventId event) const {
  if (event >= first_) return recent_[event - first_];
  auto run = failed_.upper_bound(event);
  if (run == failed_.begin()) return State::Done;
  return (--run)->second >= event ? State::Failed : State::Done;
}

bool EventTable::reached(const std::vector<EventId>& events, Until until) const {
  return std::none_of(events.begin(), events.end(),
                      [this, until](EventId event) { return open(stateOf(event), until); });
}

EventTable::Outcome EventTable::fences(const std::vector<EventId>& events, std::vector<std::shared_ptr<Fence>>& into,
                                       EventId* failed) const {
  std::lock_guard<std::mutex> lock(mutex_);
  for (const EventId event : events) {
    const State state = find(event);
    if (state == State::Failed) return *failed = event, Outcome::Failed;
    if (state == State::Launched) into.push_back(fences_.at(event));
  }
  return Outcome::Done;
}

std::vector<EventId> EventTable::stillToAwait(const std::vector<EventId>& events) const {
  std::vector<EventId> open;
  const EventId latest = last();
  for (EventId event : events) {
    if (event == 0 || event > latest) {
      throw Error(ErrorCode::InvalidArgument,
                  "after: found event " + std::to_string(event) + ", expected one of 1 to " + std::to_string(latest));
    }
    if (stateOf(event) != State::Done) open.push_back(event);
  }
  return open;
}

}  // namespace spillway
