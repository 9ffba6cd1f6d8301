// Threads that share the iterations of one loop at a time; those who call for several take turns. The caller takes
// part; helpers spin briefly, then sleep.
#pragma once
#include <cstddef>
#include <memory>
#include <type_traits>

namespace spillway {

class ThreadPool {
 public:
  // threads: in all, the caller of parallelFor included; at least 1. They are started by the first loop that has work
  // for them.
  explicit ThreadPool(unsigned threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  unsigned threads() const;
  // To so many, at least 1: the others' processors are for other work from then on. Not while a loop runs.
  void reduce(unsigned threads);

  // Calls body(context, index, worker) once for every index in [0, count), in no particular order, worker in [0,
  // threads()). Each thread begins with indices of its own, the same ones in loops of the same length, so that it finds
  // in its caches what it left there. Who has none left takes over others', one at a time: a thread that the system
  // took away delays no more than the index it is at. Returns when all are done; the first exception is rethrown here.
  // Not reentrant. At most 2^32 - 1 indices.
  using Body = void (*)(void* context, size_t index, unsigned worker);
  void parallelFor(size_t count, Body body, void* context);

  template <typename Function>
  void parallelFor(size_t count, Function&& function) {
    parallelFor(
        count,
        [](void* context, size_t index, unsigned worker) {
          (*static_cast<std::remove_reference_t<Function>*>(context))(index, worker);
        },
        const_cast<void*>(static_cast<const void*>(&function)));
  }

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace spillway
