// Tasks on a device end later than their work returns: they are launched, and done when the device has come so far. A
// task that only the device has to order after another one may be launched after it at once.
#pragma once
#include <memory>
#include <vector>

namespace spillway {

// The end of what a task has left under way on a device.
class Fence {
 public:
  virtual ~Fence() = default;
  // Returns when it has come to pass; by one thread. Throws Error where the device failed.
  virtual void await() = 0;

  double endSeconds = 0;  // monotonicSeconds(), once the task has completed
};

// How a task stands to others on the device.
struct Launch {
  std::vector<std::shared_ptr<Fence>>
      before;                   // what it waits for and is still under way: the device must not begin earlier
  std::shared_ptr<Fence> left;  // set by the task where it leaves something under way
};

}  // namespace spillway
