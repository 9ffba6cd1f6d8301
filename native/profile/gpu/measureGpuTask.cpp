// What a task on the device costs beside its work: its way through a queue that runs ahead, starting its kernels, and
// the fence after them.
#include "../../kernels/cuda/RowKernels.h"
#include "../../system/TaskQueue.h"
#include "../taskChain.h"
#include "gpuMeasurements.h"

namespace spillway {

namespace {

constexpr size_t kTasks = 64, kSmallTasks = 4;  // a sample; they are queued, as those of a run are
constexpr size_t kAhead = 4;                    // as Runtime has it
// Of a layer's three tasks: norms, rounding, products, rotation, attention, sums.
constexpr size_t kKernels = 6;
constexpr size_t kValues = 256;  // that a kernel adds to: next to nothing

class GpuTaskMeasurement final : public Measurement {
 public:
  explicit GpuTaskMeasurement(SharedGpuBench gpu) : gpu_(std::move(gpu)) {}

  std::string name() const override { return "the cost of a task on the GPU"; }

  void round(Workbench& bench) override {
    const Device::Piece x = gpu_->take(kValues * 4, "profiling the GPU's tasks"),
                        y = gpu_->take(kValues * 4, "profiling the GPU's tasks");
    gpu_->link().finish();
    const size_t tasks = gpu_->small() ? kSmallTasks : kTasks;
    CompletionChannel channel([] {});
    EventTable events;
    TaskQueue queue("spillway-probe", events, channel, kAhead);
    bench.sample(samples_, gpu_->small() ? 0 : GpuBench::kSeconds, 3, [&] {
      return secondsOfTask(events, channel, tasks, [&](const std::vector<EventId>& after) {
        return queue.launch(
            [&](Launch& launch) -> std::unique_ptr<TaskResult> {
              Link& link = gpu_->link();
              link.use();
              link.after(launch.before);
              for (size_t kernel = 0; kernel < kKernels; kernel++)
                cuda::add(link.stream(), reinterpret_cast<const float*>(x.data()), reinterpret_cast<float*>(y.data()),
                          kValues);
              launch.left = link.fence();
              return nullptr;
            },
            after);
      });
    });
    queue.stop();
    queue.join();
  }

  void report(MachineFigures& into) const override { samples_.report(into, "gpu-task"); }

 private:
  SharedGpuBench gpu_;
  Samples samples_;
};

}  // namespace

std::unique_ptr<Measurement> measureGpuTask(SharedGpuBench gpu) {
  return std::make_unique<GpuTaskMeasurement>(std::move(gpu));
}

}  // namespace spillway
