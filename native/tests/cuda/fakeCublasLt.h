// A library that stands in for cuBLASLt on the emulated device: what tests tell it, and ask it. It is opened as the
// real one is, by its path.
#pragma once
#include <dlfcn.h>
#include <stddef.h>

#include <atomic>
#include <cstdlib>
#include <functional>
#include <stdexcept>
#include <string>

#include "emulator.h"

namespace spillway::fake {

// Its algorithms, in the order in which it offers them. Only the last two may be used for rows whose bits must not
// depend on their company.
enum Algorithm : int {
  kSplitsInputs,  // says so
  kReducesInParts,
  kWantsWorkspace,
  kNotForFewRows,
  kKnowsItsCompany,  // sums from the other end where there are many rows, and says nothing of it
  kForgetsTheLast,   // leaves out the last input
  kOneSequence,
  kAlgorithms,
};

struct Control {
  // Gives the emulator's stream a task.
  void (*enqueue)(cudaStream_t stream, const std::function<void()>& task);
  size_t version = 130401;
  int createStatus = 0, findStatus = 0, multiplyStatus = 0;
  int first = kSplitsInputs, end = kAlgorithms;  // of the algorithms that it offers
  // What it was asked for.
  std::atomic<size_t> libraries{0}, objects{0}, products{0}, rows{0};
  int used = -1;
};

// Found by whoever asks for cuBLASLt while one of these lives.
class Library {
 public:
  explicit Library(const char* path = SPILLWAY_FAKE_CUBLASLT) : file_(dlopen(path, RTLD_NOW | RTLD_LOCAL)) {
    if (file_ == nullptr) throw std::runtime_error(dlerror());
    auto* find = reinterpret_cast<Control* (*)()>(dlsym(file_, "fakeCublasLtControl"));
    control_ = find == nullptr ? nullptr : find();
    if (control_ != nullptr) {
      control_->version = 130401;
      control_->createStatus = control_->findStatus = control_->multiplyStatus = 0;
      control_->first = kSplitsInputs;
      control_->end = kAlgorithms;
      control_->products = control_->rows = 0;
      control_->used = -1;
      control_->enqueue = [](cudaStream_t stream, const std::function<void()>& task) {
        cudaLaunchHostFunc(
            stream,
            [](void* data) {
              const auto* queued = static_cast<std::function<void()>*>(data);
              (*queued)();
              delete queued;
            },
            new std::function<void()>(task));
      };
    }
    setenv("SPILLWAY_EMULATED_CUBLASLT", path, 1);
  }
  ~Library() { unsetenv("SPILLWAY_EMULATED_CUBLASLT"); }
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;
  Control* operator->() const { return control_; }

 private:
  void* file_;
  Control* control_;
};

}  // namespace spillway::fake
