// What a task on the device costs beside its work: its way through a queue that runs ahead, starting its kernels, and the fence behind them.
#include "../../kernels/cuda/RowKernels.h"
#include "../../runtime/TaskQueue.h"
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
    const Device::Piece x = gpu_->take(kValues * 4, "profiling the GPU's tasks"), y = gpu_->take(kValues * 4, "profiling the GPU's tasks");
    gpu_->link().finish();
    const size_t tasks = gpu_->small() ? kSmallTasks : kTasks;
    CompletionChannel channel([] {});
    EventTable events;
    TaskQueue queue("spillway-probe", events, channel, kAhead);
    std::vector<Completion> completions;
    bench.sample(samples_, gpu_->small() ? 0 : GpuBench::kSeconds, 3, [&] {
      const double seconds = timed([&] {
        EventId last = 0;
        for (size_t task = 0; task < tasks; task++) {
          const std::vector<EventId> after = last == 0 ? std::vector<EventId>() : std::vector<EventId>{last};
          last = queue.launch(
              [&](Launch& launch) -> std::unique_ptr<TaskResult> {
                Link& link = gpu_->link();
                link.use();
                link.after(launch.before);
                for (size_t kernel = 0; kernel < kKernels; kernel++) cuda::add(link.stream(), reinterpret_cast<const float*>(x.data()), reinterpret_cast<float*>(y.data()), kValues);
                launch.left = link.fence();
                return nullptr;
              },
              after);
        }
        EventId failed = 0;
        if (events.await({last}, EventTable::Until::Completed, &failed, [] { return false; }) == EventTable::Outcome::Failed)
          throw Error(ErrorCode::Internal, "CUDA: the device failed while it was measured");
      });
      channel.take(completions);
      return seconds / static_cast<double>(tasks);
    });
    queue.stop();
    queue.join();
  }

  void report(MachineFigures& into) const override {
    Figure figure;
    figure.what = "gpu-task";
    samples_.describe(figure);
    into.figures.push_back(figure);
  }

 private:
  SharedGpuBench gpu_;
  Samples samples_;
};

}  // namespace

std::unique_ptr<Measurement> measureGpuTask(SharedGpuBench gpu) { return std::make_unique<GpuTaskMeasurement>(std::move(gpu)); }

}  // namespace spillway
