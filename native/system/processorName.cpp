#include "processorName.h"

#include <algorithm>
#include <cstring>
#include <vector>

namespace spillway {
namespace {

struct Core {
  const char *implementer, *part, *name;
};

// Those that servers, boards and Linux on Apple's machines have (Linux: arch/arm64/include/asm/cputype.h).
constexpr Core kCores[] = {
    {"0x41", "0xd03", "Cortex-A53"},   {"0x41", "0xd05", "Cortex-A55"},  {"0x41", "0xd07", "Cortex-A57"},
    {"0x41", "0xd08", "Cortex-A72"},   {"0x41", "0xd09", "Cortex-A73"},  {"0x41", "0xd0a", "Cortex-A75"},
    {"0x41", "0xd0b", "Cortex-A76"},   {"0x41", "0xd0c", "Neoverse-N1"}, {"0x41", "0xd0d", "Cortex-A77"},
    {"0x41", "0xd40", "Neoverse-V1"},  {"0x41", "0xd41", "Cortex-A78"},  {"0x41", "0xd44", "Cortex-X1"},
    {"0x41", "0xd49", "Neoverse-N2"},  {"0x41", "0xd4f", "Neoverse-V2"}, {"0x61", "0x022", "Icestorm-M1"},
    {"0x61", "0x023", "Firestorm-M1"}, {"0xc0", "0xac3", "Ampere-1"},    {"0xc0", "0xac4", "Ampere-1A"},
};

// What stands after the colon; empty if the line is of another field.
std::string valueOf(const std::string& line, const char* field) {
  const size_t length = std::strlen(field), colon = line.find(':');
  if (colon == std::string::npos || line.compare(0, length, field) != 0 ||
      line.find_first_not_of(" \t", length) != colon)
    return {};
  const size_t begin = line.find_first_not_of(" \t", colon + 1);
  return begin == std::string::npos ? std::string() : line.substr(begin);
}

std::string coreName(const std::string& implementer, const std::string& part) {
  for (const Core& core : kCores)
    if (implementer == core.implementer && part == core.part) return core.name;
  return "ARM " + implementer + " " + part;
}

}  // namespace

std::string processorName(std::istream& cpuinfo) {
  std::string implementer;
  std::vector<std::string> cores;
  for (std::string line; std::getline(cpuinfo, line);) {
    const std::string model = valueOf(line, "model name");
    if (!model.empty()) return model;
    const std::string maker = valueOf(line, "CPU implementer");
    if (!maker.empty()) implementer = maker;
    const std::string part = valueOf(line, "CPU part");
    if (part.empty()) continue;
    const std::string name = coreName(implementer, part);
    if (std::find(cores.begin(), cores.end(), name) == cores.end()) cores.push_back(name);
  }
  std::string all;
  for (const std::string& core : cores) all += (all.empty() ? "" : ", ") + core;
  return all;
}

}  // namespace spillway
