#include "Thread.h"

#include <pthread.h>
#include <signal.h>

#include <string>
#include <system_error>
#include <utility>

#include "Error.h"

namespace spillway {

std::thread startThread(const char* name, std::function<void()> body) {
  // A new thread inherits the signal mask, so all signals are blocked here for the moment of its birth.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    std::thread thread([name = std::string(name), body = std::move(body)] {
#ifdef __APPLE__
      pthread_setname_np(name.c_str());
#else
      pthread_setname_np(pthread_self(), name.c_str());
#endif
      body();
    });
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    return thread;
  } catch (const std::system_error& error) {
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    throw Error(ErrorCode::Memory, std::string("cannot start the thread ") + name + ": " + error.what());
  }
}

}  // namespace spillway
