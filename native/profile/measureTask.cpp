// What a task costs beside its work: its way through a queue, and waking the threads for each of its parallel loops.
#include "../system/TaskQueue.h"
#include "Measurement.h"
#include "taskChain.h"

namespace spillway {

namespace {

constexpr double kSeconds = 0.02;  // a round
constexpr size_t kTasks = 64;      // a sample; they are queued ahead, as those of a run are
// A layer is three tasks (project, attend, finish) with five, one and ten loops: norms, quantising activations,
// products, rotation, sums.
constexpr size_t kLoops = 5;

class TaskMeasurement final : public Measurement {
 public:
  std::string name() const override { return "the cost of a task"; }

  void round(Workbench& bench) override {
    threads_ = bench.all().threads();
    CompletionChannel channel([] {});
    EventTable events;
    TaskQueue queue("spillway-probe", events, channel);
    bench.sample(samples_, kSeconds, 3, [&] {
      return secondsOfTask(events, channel, kTasks, [&](const std::vector<EventId>& after) {
        return queue.submit(
            [&bench, this]() -> std::unique_ptr<TaskResult> {
              for (size_t loop = 0; loop < kLoops; loop++) bench.all().parallelFor(threads_, [](size_t, unsigned) {});
              return nullptr;
            },
            after);
      });
    });
  }

  void report(MachineFigures& into) const override {
    Figure& figure = samples_.report(into, "task");
    figure.threads = threads_;
  }

 private:
  unsigned threads_ = 1;
  Samples samples_;
};

}  // namespace

std::unique_ptr<Measurement> measureTask() { return std::make_unique<TaskMeasurement>(); }

}  // namespace spillway
