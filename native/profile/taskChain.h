// Tasks that follow each other through a queue, as those of a run do.
#pragma once
#include <vector>

#include "../system/CompletionChannel.h"
#include "../system/Error.h"
#include "../system/EventTable.h"
#include "Workbench.h"

namespace spillway {

// Seconds of one of `count` tasks, each of which waits for the one before. give(after): gives the queue a task and
// returns its event. Throws Error(Internal) if one fails.
template <typename Give>
double secondsOfTask(EventTable& events, CompletionChannel& channel, size_t count, Give give) {
  std::vector<Completion> completions;
  return timed([&] {
           EventId last = 0;
           for (size_t task = 0; task < count; task++)
             last = give(last == 0 ? std::vector<EventId>() : std::vector<EventId>{last});
           EventId failed = 0;
           if (events.await({last}, EventTable::Until::Completed, &failed, [] { return false; }) ==
               EventTable::Outcome::Failed)
             throw Error(ErrorCode::Internal, "a task failed while the cost of tasks was measured");
           channel.take(completions);
         }) /
         static_cast<double>(count);
}

}  // namespace spillway
