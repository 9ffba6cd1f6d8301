// The processor's name in Linux's /proc/cpuinfo.
#pragma once
#include <istream>
#include <string>

namespace spillway {

// The "model name" where there is one. ARM's processors have numbers of who made them and of what they are instead:
// names of common ones ("Neoverse-N1"), of others the numbers ("ARM 0x41 0xfff"); of unlike cores all, with commas.
// Empty where it says neither.
std::string processorName(std::istream& cpuinfo);

}  // namespace spillway
