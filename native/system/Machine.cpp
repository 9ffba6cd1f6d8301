#include "Machine.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <set>
#include <sstream>
#include <thread>
#include <vector>

#include "processorName.h"

#ifdef __linux__
#include <sched.h>
#endif
#ifdef __APPLE__
#include <mach/mach.h>
#include <sys/sysctl.h>
#endif

namespace spillway {

namespace {

constexpr uint64_t kUnlimited = std::numeric_limits<uint64_t>::max();

#ifdef __linux__

std::string firstLine(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// A number at the start of a file; "max" and anything else that is no number count as `otherwise`.
uint64_t numberIn(const std::string& path, uint64_t otherwise) {
  const std::string line = firstLine(path);
  char* end = nullptr;
  const unsigned long long value = std::strtoull(line.c_str(), &end, 10);
  return line.empty() || line[0] < '0' || line[0] > '9' || end == line.c_str() ? otherwise : value;
}

// The value after `name` in files such as /proc/meminfo and memory.stat.
uint64_t fieldIn(const std::string& path, const std::string& name) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (line.compare(0, name.size(), name) == 0) return std::strtoull(line.c_str() + name.size(), nullptr, 10);
  }
  return 0;
}

// Folders of the process's cgroup and its parents, for one controller; limits hold on every level.
std::vector<std::string> cgroupFolders(const std::string& controller) {
  std::ifstream file("/proc/self/cgroup");
  std::vector<std::string> folders;
  for (std::string line; std::getline(file, line);) {
    const size_t first = line.find(':');
    const size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const bool unified = controllers == ",,";
    if (!unified && controllers.find("," + controller + ",") == std::string::npos) continue;
    const std::string root = unified ? "/sys/fs/cgroup" : "/sys/fs/cgroup/" + controller;
    // Inside a container the path may name folders of the host that are not visible here; the mount's root is looked at
    // in any case.
    for (std::string path = line.substr(second + 1); !path.empty() && path != "/"; path.resize(path.rfind('/'))) {
      folders.push_back(root + path);
      if (path.rfind('/') == std::string::npos) break;
    }
    folders.push_back(root);
  }
  return folders;
}

void capMemory(uint64_t& total, uint64_t& available) {
  for (const std::string& folder : cgroupFolders("memory")) {
    const GroupMemory group = groupMemory(folder);
    total = std::min(total, group.limit);
    available = std::min(available, group.available);
  }
}

// Processors' worth of time that quotas leave.
double capProcessors(double processors) {
  for (const std::string& folder : cgroupFolders("cpu")) {
    double quota = 0, period = 0;
    std::istringstream unified(firstLine(folder + "/cpu.max"));
    if (!(unified >> quota >> period)) {
      quota = static_cast<double>(numberIn(folder + "/cpu.cfs_quota_us", 0));
      period = static_cast<double>(numberIn(folder + "/cpu.cfs_period_us", 0));
    }
    if (quota > 0 && period > 0) processors = std::min(processors, quota / period);
  }
  return processors;
}

// Cores of the processors that may be used; where the kernel does not say whose core one is, it is one by itself.
unsigned coresOf(const cpu_set_t& allowed) {
  std::set<std::string> cores;
  for (unsigned processor = 0; processor < CPU_SETSIZE; processor++) {
    if (!CPU_ISSET(processor, &allowed)) continue;
    const std::string name = std::to_string(processor);
    const std::string siblings = firstLine("/sys/devices/system/cpu/cpu" + name + "/topology/thread_siblings_list");
    cores.insert(siblings.empty() ? name : siblings);
  }
  return static_cast<unsigned>(cores.size());
}

uint64_t cacheBytes(int level, const char* unwantedType) {
  for (int index = 0; index < 8; index++) {
    const std::string folder = "/sys/devices/system/cpu/cpu0/cache/index" + std::to_string(index);
    if (numberIn(folder + "/level", 0) != static_cast<uint64_t>(level) || firstLine(folder + "/type") == unwantedType)
      continue;
    const std::string size = firstLine(folder + "/size");  // "48K"
    const uint64_t number = std::strtoull(size.c_str(), nullptr, 10);
    return size.find('M') != std::string::npos   ? number << 20
           : size.find('K') != std::string::npos ? number << 10
                                                 : number;
  }
  return 0;
}

#endif

#ifdef __APPLE__

uint64_t systemNumber(const char* name) {
  uint64_t value = 0;
  size_t bytes = sizeof(value);
  return sysctlbyname(name, &value, &bytes, nullptr, 0) == 0 ? value : 0;
}

#endif

}  // namespace

#ifdef __linux__

// Files that were read, on whichever list of the kernel's, are given up when memory is short: a model that was hashed
// and read fills a group. What is mapped may be the programs that run.
GroupMemory groupMemory(const std::string& folder) {
  GroupMemory group{kUnlimited, kUnlimited};
  for (const bool unified : {true, false}) {
    const uint64_t limit = numberIn(folder + (unified ? "/memory.max" : "/memory.limit_in_bytes"), kUnlimited);
    if (limit == kUnlimited) continue;
    const uint64_t used = numberIn(folder + (unified ? "/memory.current" : "/memory.usage_in_bytes"), 0);
    const auto stat = [&](const char* ofVersion2, const char* ofVersion1) {
      return fieldIn(folder + "/memory.stat", std::string(unified ? ofVersion2 : ofVersion1) + " ");
    };
    const uint64_t files = stat("inactive_file", "total_inactive_file") + stat("active_file", "total_active_file");
    const uint64_t cache = files - std::min(files, stat("file_mapped", "total_mapped_file"));
    const uint64_t held = used - std::min(used, cache);
    group.limit = std::min(group.limit, limit);
    group.available = std::min(group.available, limit - std::min(limit, held));
  }
  return group;
}

#endif

Machine inspectMachine() {
  Machine machine{};
  machine.processors = std::max(1u, std::thread::hardware_concurrency());
  machine.processorSeconds = machine.processors;
  machine.cores = machine.processors;
#ifdef __linux__
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof(allowed), &allowed) == 0 && CPU_COUNT(&allowed) > 0) {
    machine.processors = static_cast<unsigned>(CPU_COUNT(&allowed));
    machine.cores = coresOf(allowed);
  }
  machine.processorSeconds = capProcessors(machine.processors);
  machine.processors = std::max(1u, static_cast<unsigned>(std::ceil(machine.processorSeconds - 0.001)));
  std::ifstream processors("/proc/cpuinfo");
  machine.processorName = processorName(processors);
  machine.memoryBytes = static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  machine.availableBytes = fieldIn("/proc/meminfo", "MemAvailable:") * 1024;
  capMemory(machine.memoryBytes, machine.availableBytes);
  machine.l1dBytes = cacheBytes(1, "Instruction");
  machine.l2Bytes = cacheBytes(2, "Instruction");
  machine.l3Bytes = cacheBytes(3, "Instruction");
#elif defined(__APPLE__)
  char name[256] = "";
  size_t bytes = sizeof(name) - 1;
  if (sysctlbyname("machdep.cpu.brand_string", name, &bytes, nullptr, 0) == 0) machine.processorName = name;
  // Where some are slower than others: the fast ones.
  const uint64_t fast = systemNumber("hw.perflevel0.physicalcpu");
  if (const uint64_t cores = fast > 0 ? fast : systemNumber("hw.physicalcpu"); cores > 0)
    machine.cores = static_cast<unsigned>(cores);
  machine.memoryBytes = systemNumber("hw.memsize");
  vm_statistics64_data_t pages{};
  mach_msg_type_number_t count = HOST_VM_INFO64_COUNT;
  if (host_statistics64(mach_host_self(), HOST_VM_INFO64, reinterpret_cast<host_info64_t>(&pages), &count) ==
      KERN_SUCCESS) {
    machine.availableBytes =
        (uint64_t(pages.free_count) + pages.inactive_count) * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  }
  machine.l1dBytes = systemNumber("hw.l1dcachesize");
  machine.l2Bytes = systemNumber("hw.l2cachesize");
  machine.l3Bytes = systemNumber("hw.l3cachesize");
#endif
  machine.cores = std::min(machine.cores, machine.processors);
  if (machine.processorName.empty()) machine.processorName = "unknown";
  return machine;
}

}  // namespace spillway
