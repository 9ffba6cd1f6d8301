#include "CublasLt.h"

#include <dlfcn.h>
#include <glob.h>

#include <cstdlib>
#include <type_traits>
#include <vector>

namespace spillway::cuda {
namespace {

using cublaslt::Functions;

constexpr size_t kOldest = 11, kNewest = 13;  // major versions
#if defined(__CUDACC__)
constexpr const char* kVariable = "SPILLWAY_CUBLASLT";
#else
constexpr const char* kVariable = "SPILLWAY_EMULATED_CUBLASLT";  // the real one cannot work in emulated streams
#endif

#if defined(__CUDACC__)
// The wheels' folders: nvidia/cublas/lib, since CUDA 13 nvidia/cu13/lib.
void addWheels(const std::string& base, std::vector<std::string>& files) {
  glob_t found{};
  if (glob((base + "/lib/python3*/*-packages/nvidia/*/lib/libcublasLt.so.1[1-3]").c_str(), 0, nullptr, &found) == 0)
    for (size_t i = found.gl_pathc; i > 0; i--) files.emplace_back(found.gl_pathv[i - 1]);  // newest last
  globfree(&found);
}
#endif

std::vector<std::string> candidates(const std::string& named) {
  if (!named.empty()) return {named};
  std::vector<std::string> files;
#if defined(__CUDACC__)
  for (size_t major = kNewest; major >= kOldest; major--) files.push_back("libcublasLt.so." + std::to_string(major));
  for (const char* variable : {"VIRTUAL_ENV", "CONDA_PREFIX"}) {
    const char* folder = std::getenv(variable);
    if (folder != nullptr && *folder != 0) addWheels(folder, files);
  }
  const char* home = std::getenv("HOME");
  if (home != nullptr && *home != 0) addWheels(std::string(home) + "/.local", files);
  for (const char* folder : {"/usr/local", "/usr"}) addWheels(folder, files);
#endif
  return files;
}

// The first function that is not there; null if all are.
const char* resolve(void* file, Functions& functions) {
  const char* missing = nullptr;
  const auto find = [&](auto& function, const char* name) {
    void* found = dlsym(file, name);
    if (found == nullptr && missing == nullptr) missing = name;
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(found);
  };
  find(functions.version, "cublasLtGetVersion");
  find(functions.create, "cublasLtCreate");
  find(functions.destroy, "cublasLtDestroy");
  find(functions.createProduct, "cublasLtMatmulDescCreate");
  find(functions.setProduct, "cublasLtMatmulDescSetAttribute");
  find(functions.destroyProduct, "cublasLtMatmulDescDestroy");
  find(functions.createLayout, "cublasLtMatrixLayoutCreate");
  find(functions.destroyLayout, "cublasLtMatrixLayoutDestroy");
  find(functions.createPreference, "cublasLtMatmulPreferenceCreate");
  find(functions.setPreference, "cublasLtMatmulPreferenceSetAttribute");
  find(functions.destroyPreference, "cublasLtMatmulPreferenceDestroy");
  find(functions.find, "cublasLtMatmulAlgoGetHeuristic");
  find(functions.check, "cublasLtMatmulAlgoCheck");
  find(functions.read, "cublasLtMatmulAlgoConfigGetAttribute");
  find(functions.multiply, "cublasLtMatmul");
  return missing;
}

}  // namespace

std::shared_ptr<const CublasLt> CublasLt::open(std::string& whyNot) {
  whyNot = std::string("no libcublasLt was found (") + kVariable + " may name its file)";
  const char* variable = std::getenv(kVariable);
  const std::string named = variable == nullptr ? "" : variable;
  for (const std::string& path : candidates(named)) {
    // Never closed again: it has threads and handlers of its own.
    void* file = dlopen(path.c_str(), RTLD_LAZY | RTLD_LOCAL);
    if (file == nullptr) {
      const char* reason = dlerror();
      if (!named.empty()) whyNot = reason == nullptr ? path + " cannot be opened" : reason;
      continue;
    }
    Functions functions{};
    if (const char* missing = resolve(file, functions)) {
      whyNot = path + ": found no function " + missing;
      continue;
    }
    const size_t version = functions.version(), major = version / (version < 100000 ? 1000 : 10000);
    if (major < kOldest || major > kNewest) {
      whyNot = path + ": found version " + std::to_string(version) + ", expected " + std::to_string(kOldest) + " to " +
               std::to_string(kNewest) + " as its major version";
      continue;
    }
    void* library = nullptr;
    const int status = functions.create(&library);
    cudaGetLastError();  // a driver that is too old for this file is no error of ours
    if (status == cublaslt::kSuccess) {
      whyNot.clear();
      return std::shared_ptr<const CublasLt>(new CublasLt(functions, library, path));
    }
    whyNot = path + ": cublasLtCreate gives status " + std::to_string(status);
  }
  return nullptr;
}

}  // namespace spillway::cuda
