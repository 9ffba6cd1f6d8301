// Threads of the addon: named, and deaf to signals, which belong to the process's main thread.
#pragma once
#include <functional>
#include <thread>

namespace spillway {

// name: at most 15 characters, as Linux allows. Throws Error(Memory) where the system refuses another thread.
std::thread startThread(const char* name, std::function<void()> body);

}  // namespace spillway
