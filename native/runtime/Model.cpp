#include "Model.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <string>
#include <utility>

#include "../system/Clock.h"
#include "../system/Error.h"
#include "../model/stagedPages.h"

namespace spillway {

namespace {

constexpr uint32_t kMostThreads = 1024;
constexpr uint32_t kMostTokens = 1u << 16;
constexpr uint32_t kMostBuffers = 1u << 12;
constexpr unsigned kSpillDepth = 128;                    // requests in flight: pages are small
constexpr uint64_t kMostSpillBytes = uint64_t(1) << 52;  // exact in JavaScript, and far below where offsets end

void checkRange(const char* field, uint32_t value, uint32_t most) {
  if (value >= 1 && value <= most) return;
  throw Error(ErrorCode::InvalidArgument,
              std::string(field) + ": found " + std::to_string(value) + ", expected 1 to " + std::to_string(most));
}

void check(const SpillOptions& spill) {
  const auto refuse = [](const char* field, uint64_t found, const std::string& expected) {
    throw Error(ErrorCode::InvalidArgument,
                std::string("spill.") + field + ": found " + std::to_string(found) + ", expected " + expected);
  };
  if (spill.pages > INT32_MAX) refuse("pages", spill.pages, "0 to " + std::to_string(INT32_MAX));
  if (spill.hiddenBytes > kMostSpillBytes)
    refuse("hiddenBytes", spill.hiddenBytes, "at most " + std::to_string(kMostSpillBytes));
  if (spill.pages == 0) {
    if (spill.buffers != 0) refuse("buffers", spill.buffers, "0, since spill.pages is 0");
    if (spill.bufferPages != 0) refuse("bufferPages", spill.bufferPages, "0, since spill.pages is 0");
    return;
  }
  checkRange("spill.buffers", spill.buffers, kMostBuffers);
  checkRange("spill.bufferPages", spill.bufferPages, INT32_MAX);
}

constexpr uint32_t kMostStates = 1u << 20;

// Groups counted from 0, without a gap.
void checkGroups(const RuntimeOptions& options) {
  const std::vector<uint32_t>& groups = options.cacheGroups;
  if (groups.empty()) return;
  const auto refuse = [](const std::string& found, const std::string& expected) {
    throw Error(ErrorCode::InvalidArgument, "cache.groups: found " + found + ", expected " + expected);
  };
  if (groups.size() != options.decoder.layers)
    refuse(std::to_string(groups.size()) + " integers",
           "one for each of " + std::to_string(options.decoder.layers) + " layers");
  std::vector<bool> named(groups.size(), false);
  for (const uint32_t group : groups) {
    if (group >= named.size())
      refuse(std::to_string(group), "a group under " + std::to_string(named.size()) + ", the layers");
    named[group] = true;
  }
  const size_t count = static_cast<size_t>(std::count(named.begin(), named.end(), true));
  if (std::any_of(named.begin() + static_cast<ptrdiff_t>(count), named.end(), [](bool each) { return each; }))
    refuse("no layer in some group", "groups counted from 0 without a gap");
  if (count > 1 && options.gpu)
    refuse(std::to_string(count) + " groups beside a GPU", "one: its pages are those of all layers");
}

// An encoder is computed by the processor, and its keys and values do not outlast a layer.
void checkEncoder(const RuntimeOptions& options) {
  if (options.gpu) throw Error(ErrorCode::InvalidArgument, "gpu: found one beside an encoder, expected the processor");
  if (options.spill && options.spill->pages != 0)
    throw Error(ErrorCode::InvalidArgument, "spill.pages: found " + std::to_string(options.spill->pages) +
                                                " beside an encoder, expected none: there is no cache to keep");
}

RuntimeOptions checked(RuntimeOptions&& options) {
  validate(options.decoder);
  checkRange("threads", options.threads, kMostThreads);
  if (!options.gpu || options.gpu->pages == 0 || options.pages != 0)
    checkRange("cache.pages", options.pages, INT32_MAX);
  checkRange("limits.tokensPerSquare", options.limits.tokensPerSquare, kMostTokens);
  checkRange("limits.rowsPerSquare", options.limits.rowsPerSquare, options.limits.tokensPerSquare);
  if (options.pageTokens < 16 || options.pageTokens > 256 || (options.pageTokens & (options.pageTokens - 1)) != 0) {
    throw Error(ErrorCode::InvalidArgument,
                "cache.pageTokens: found " + std::to_string(options.pageTokens) + ", expected 16, 32, 64, 128 or 256");
  }
  if (!(options.keepKeys > 0 && options.keepKeys <= 1)) {
    throw Error(ErrorCode::InvalidArgument,
                "sparseAttention: found " + std::to_string(options.keepKeys) + ", expected above 0 and at most 1");
  }
  if (!machineHas(options.instructionSet)) {
    throw Error(ErrorCode::InvalidArgument,
                std::string("instructionSet: found ") + instructionSetName(options.instructionSet) +
                    ", expected one that this machine has, such as " + instructionSetName(bestInstructionSet()));
  }
  if (options.gpu && options.decoder.shares > 1)
    throw Error(ErrorCode::InvalidArgument, "gpu: found one beside decoder.share, expected the processor to compute");
  if (options.decoder.attendsByRows() && options.spill && options.spill->pages != 0)
    throw Error(ErrorCode::InvalidArgument, "spill.pages: found " + std::to_string(options.spill->pages) +
                                                " beside decoder.share.attention, expected none");
  if (!options.decoder.causal) checkEncoder(options);
  if (options.gpu && !options.decoder.pooledLayers.empty())
    throw Error(ErrorCode::InvalidArgument, "gpu: found one beside layers over pooled states, expected the processor");
  if (options.weights && !options.gpu) checkRange("weights.buffers", options.weights->buffers, kMostBuffers);
  if (options.spill) check(*options.spill);
  checkGroups(options);
  if (options.gpu && options.decoder.needsProcessor())
    throw Error(ErrorCode::InvalidArgument,
                "gpu: found one for a model of the family " + options.decoder.family +
                    ", which has parts that are computed by the processor alone, expected the processor to compute");
  if (options.decoder.latent.rank != 0 && isQuantised(options.cacheType))
    throw Error(ErrorCode::InvalidArgument,
                "cache.type: found one of integers for a model that keeps latent rows, expected f16 or f32");
  if (options.decoder.remembers() || options.states != 0) checkRange("states", options.states, kMostStates);
  return std::move(options);
}

// Of each layer, where it is computed with.
std::optional<uint64_t> residentLayerBytes(const RuntimeOptions& options) {
  if (options.gpu) return options.gpu->residentLayerBytes;
  return options.weights ? std::optional<uint64_t>(options.weights->residentLayerBytes) : std::nullopt;
}

size_t stagingBytes(const RuntimeOptions& options, size_t slotBytes) {
  if (!options.spill) return 0;
  const uint64_t places = uint64_t(options.spill->buffers) * options.spill->bufferPages;  // at most 2^43
  if (places > kMostSpillBytes / slotBytes) throw Error(ErrorCode::Memory, "the staging buffers' bytes overflow");
  return static_cast<size_t>(places * slotBytes);
}

CacheGroups groupsOf(const RuntimeOptions& options) {
  if (!options.decoder.causal) return CacheGroups::ofEncoder(options.decoder.layers);
  std::vector<uint32_t> groups = options.cacheGroups;
  groups.resize(options.decoder.layers, 0);
  for (size_t layer = 0; layer < groups.size(); layer++)
    if (options.decoder.layerSpecs[layer].mixer != Mixer::Attention) groups[layer] = CacheGroups::kNone;
  std::vector<uint32_t> pagesOf;
  for (const LayerSpec& layer : options.decoder.layerSpecs)
    pagesOf.push_back(layer.keysOf == LayerSpec::kOwnKeys ? CacheGroups::kNone : layer.keysOf);
  return CacheGroups(std::move(groups), pagesOf);
}

// read(): returns the bytes that it read.
template <typename Read>
std::unique_ptr<PagesRead> timed(Read read) {
  auto result = std::make_unique<PagesRead>();
  result->startSeconds = monotonicSeconds();
  result->bytes = read();
  result->endSeconds = monotonicSeconds();
  return result;
}

// Of each layer.
std::vector<CacheLayout> layoutsOf(const RuntimeOptions& options) {
  const DecoderSpec& spec = options.decoder;
  std::vector<CacheLayout> layouts;
  // Sparse attention takes few values: of pages on disk these come once keys have been scored.
  const bool keysApart = options.keepKeys < 1 && options.spill && options.spill->pages != 0 && !options.gpu &&
                         spec.latent.rank == 0 && spec.evictionWindow == 0;
  for (const LayerSpec& layer : spec.layerSpecs)
    layouts.push_back({options.cacheType, spec.cachedHeads(layer), spec.headDimOf(layer), options.pageTokens,
                       spec.latent.rank != 0, keysApart});
  return layouts;
}

}  // namespace

Model::Model(RuntimeOptions&& options)
    : options_(checked(std::move(options))),
      weights_(options_.decoder, options_.bindings, options_.files, residentLayerBytes(options_)),
      cache_(layoutsOf(options_), groupsOf(options_), options_.pages, &options_.decoder, options_.states),
      pool_(options_.threads),
      compute_{kernelsFor(options_.instructionSet), pool_, options_.precision},
      backend_((options_.gpu ? makeCudaBackend : makeCpuBackend)({options_, weights_, cache_, compute_})) {
  options_.bindings.clear();
  if (options_.spill && uint64_t(cache_.groups().width()) * options_.spill->pages >
                            kMostSpillBytes / DirectFile::aligned(cache_.pageBytes())) {
    throw Error(ErrorCode::Memory, "the spill file's bytes overflow");
  }
  (void)stagingBytes(options_, DirectFile::aligned(cache_.pageBytes()));
}

// What the spill file begins with; hidden stores come after it.
uint64_t Model::spilledCacheBytes() const {
  return options_.spill
             ? uint64_t(cache_.groups().width()) * options_.spill->pages * DirectFile::aligned(cache_.pageBytes())
             : 0;
}

void Model::reserve(DiskTraffic* traffic) {
  DirectOptions disk;
  disk.backend = options_.diskBackend;
  disk.faults = options_.diskFaults;
  disk.traffic = traffic;
  if (options_.weights) {
    store_ = std::make_unique<WeightStore>(options_.weights->store, options_.weights->fingerprint,
                                           backend_->storedWeights(), disk);
  } else {
    for (const std::string& path : options_.files) files_.emplace_back(path);
    weights_.checkFiles(files_);
  }
  cache_.reserve();  // before a device pins it
  backend_->reserve();
  const uint64_t cacheBytes = spilledCacheBytes();
  const uint64_t spillBytes = bytes().spill;
  if (spillBytes != 0) {
    disk.depth = kSpillDepth;
    spillFile_ = std::make_unique<SpillFile>(options_.spill->folder, spillBytes, disk);
  }
  hiddenExtents_ = std::make_shared<ExtentPool>(cacheBytes, spillBytes - cacheBytes);
  if (cacheBytes != 0) {
    const SpillOptions& spill = *options_.spill;
    const size_t slotBytes = DirectFile::aligned(cache_.pageBytes());
    cacheSpill_ = std::make_unique<CacheSpill>(*spillFile(), options_.decoder.firstLayer, cache_.groups(), spill.pages,
                                               slotBytes, cache_.layouts(), bytes().held, spill.gapBytes);
    staging_.reserve(spill.buffers, spill.bufferPages * slotBytes);
  } else if (options_.gpu) {
    staging_.reserve(options_.gpu->cacheBuffers, 0);
  }
}

RuntimeBytes Model::bytes() const {
  RuntimeBytes bytes;
  backend_->addBytes(bytes);
  bytes.cache = cache_.bytes();
  bytes.state = cache_.stateBytes();
  bytes.pageSlot = DirectFile::aligned(cache_.pageBytes());
  for (uint32_t layer = 0; cacheSpill_ != nullptr && layer < options_.decoder.layers; layer++)
    if (cache_.layout(layer).keysApart) bytes.pageKeys = std::max(bytes.pageKeys, cacheSpill_->keyBytes(layer));
  bytes.spillBlock = spillFile_ == nullptr ? DirectFile::kAlignment : spillFile_->file().blockBytes();
  bytes.staging = stagingBytes(options_, bytes.pageSlot);
  if (cache_.layout().keysApart) bytes.held = bytes.staging;
  bytes.spill = spilledCacheBytes() + (options_.spill ? DirectFile::aligned(options_.spill->hiddenBytes) : 0);
  for (size_t layer = 0; layer < options_.decoder.layers; layer++)
    bytes.streamed.push_back(weights_.layerBlock(layer).streamedBytes());
  for (size_t layer = 0; layer < options_.decoder.layers; layer++)
    bytes.streamedExperts.push_back(bytes.streamed[layer] - weights_.streamedBeforeExperts(layer));
  return bytes;
}

void Model::load(LoadProgress& progress) {
  if (store_ != nullptr)
    backend_->load(*store_, progress);
  else
    backend_->load(files_, progress);
}

void Model::loadWeight(uint32_t layer, uint32_t buffer, bool chosen, const std::atomic<bool>& stopped, Launch& launch) {
  if (chosen && options_.decoder.hasExperts(options_.decoder.layerSpecs[layer]))
    backend_->loadChosen(layer, buffer, store_.get(), stopped, launch);
  else
    backend_->loadWeight(layer, buffer, store_.get(), stopped, launch);
}

Staging Model::staging(uint8_t* data, uint32_t buffer) const {
  return {data, DirectFile::aligned(cache_.pageBytes()), static_cast<int32_t>(buffer)};
}

template <typename Attend>
std::unique_ptr<TaskResult> Model::attendStaged(const Batch& batch, uint32_t layer, int32_t buffer,
                                                const std::atomic<bool>& stopped, Attend attend) {
  if (buffer == kNoBuffer) {
    attend({});
    return nullptr;
  }
  const FetchedPages* fetched = batch.fetchedIn(window(layer));
  bool loads = fetched != nullptr && fetched->loads;
  forStagedPages(batch, cache_.groups().groupOf(layer), window(layer), options_.pageTokens,
                 [&](const StagedPage& page) { return !(loads |= page.loaded); });
  using Purpose = StagingBuffers::Purpose;
  StagingBuffers::Use use(staging_, static_cast<uint32_t>(buffer), {batch.serial, layer},
                          loads ? Purpose::AttendLoaded : Purpose::AttendFresh);
  Staging staged = staging(use.data(), static_cast<uint32_t>(buffer));
  std::unique_ptr<PagesRead> read;
  if (loads && cache_.layout().keysApart) {
    staged.loadValues = [&](const uint64_t* const* chosen) {
      read = timed([&] { return cacheSpill_->loadValues(layer, window(layer), batch, chosen, use.data(), stopped); });
    };
  }
  attend(staged);
  use.finish();
  return read;
}

std::unique_ptr<TaskResult> Model::loadCache(uint32_t layer, const Batch& batch, uint32_t buffer,
                                             const std::atomic<bool>& stopped, Launch& launch) {
  const FetchedPages* fetched = batch.fetchedIn(window(layer));
  const bool staged = keeps(layer) && stages(batch, cache_.groups().groupOf(layer), window(layer), options_.pageTokens);
  if (!staged && (fetched == nullptr || !fetched->loads)) return nullptr;
  StagingBuffers::Use use(staging_, buffer, {batch.serial, layer}, StagingBuffers::Purpose::Load);
  std::unique_ptr<PagesRead> read;
  const auto readDisk = [&] {
    if (!staged) return;
    backend_->readPages(
        [&] { read = timed([&] { return cacheSpill_->load(layer, window(layer), batch, use.data(), stopped); }); });
  };
  if (fetched != nullptr)
    backend_->loadCache(layer, *fetched, staging(use.data(), buffer), readDisk, launch);
  else
    readDisk();
  use.finish();
  return cache_.layout().keysApart ? std::move(read) : nullptr;
}

void Model::storeCache(uint32_t layer, const Batch& batch, uint32_t buffer, Launch& launch) {
  const FetchedPages* fetched = batch.fetchedIn(window(layer));
  const bool staged = keeps(layer) && stages(batch, cache_.groups().groupOf(layer), window(layer), options_.pageTokens);
  if (!staged && (fetched == nullptr || !fetched->stores)) return;
  const StagingBuffers::Use use(staging_, buffer, {batch.serial, layer}, StagingBuffers::Purpose::Store);
  if (fetched != nullptr) backend_->storeCache(layer, *fetched, staging(use.data(), buffer), launch);
  if (staged) cacheSpill_->store(layer, window(layer), batch, use.data());
}

std::shared_ptr<Activations> Model::createActivations(uint32_t tokens) { return backend_->createActivations(tokens); }

void Model::storeHidden(HiddenStore& store, const Activations& activations, uint32_t tokens, const Launch& launch) {
  backend_->storeHidden(store, spillFile(), activations, tokens, launch);
}

void Model::loadHidden(HiddenStore& store, Activations& activations, uint32_t tokens, Launch& launch) {
  backend_->loadHidden(store, spillFile(), activations, tokens, launch);
}

void Model::readHidden(const Activations& activations, float* to, size_t count, const Launch& launch) {
  backend_->readHidden(activations, to, count, launch);
}

void Model::writeHidden(Activations& activations, const float* from, size_t count) {
  backend_->writeHidden(activations, from, count);
}

// move(a page's bytes, how many they are), of one layer after the other.
template <typename Move>
void Model::eachPage(const std::vector<int32_t>& pages, Move move) const {
  const CacheGroups& groups = cache_.groups();
  if (options_.gpu || !options_.decoder.causal || options_.decoder.remembers() || groups.count() != 1)
    throw Error(ErrorCode::InvalidArgument,
                "pages: found a model on a device, or one whose layers do not all keep all positions of a row in "
                "memory, expected one whose layers do");
  for (const int32_t page : pages)
    if (page < 0 || uint32_t(page) >= cache_.pages())
      throw Error(ErrorCode::InvalidArgument, "pages: found page " + std::to_string(page) + ", expected one of the " +
                                                  std::to_string(cache_.pages()) + " in memory");
  for (uint32_t layer = 0; layer < options_.decoder.layers; layer++) {
    if (!groups.keepsOwn(layer)) continue;
    const size_t bytes = cachePageBytes(cache_.layout(layer));
    for (const int32_t page : pages) move(cache_.page(layer, static_cast<size_t>(page)), bytes);
  }
}

size_t Model::bytesOfPages(size_t count) const {
  size_t bytes = 0;
  for (uint32_t layer = 0; layer < options_.decoder.layers; layer++)
    if (cache_.groups().keepsOwn(layer)) bytes += count * cachePageBytes(cache_.layout(layer));
  return bytes;
}

void Model::readPages(const std::vector<int32_t>& pages, uint8_t* to) const {
  eachPage(pages, [&to](const uint8_t* page, size_t bytes) { to = std::copy_n(page, bytes, to); });
}

void Model::writePages(const std::vector<int32_t>& pages, const uint8_t* from) {
  eachPage(pages, [&from](uint8_t* page, size_t bytes) {
    std::copy_n(from, bytes, page);
    from += bytes;
  });
}

std::unique_ptr<TaskResult> Model::compute(ComputePart part, uint32_t layer, const Batch& batch,
                                           Activations& activations, int32_t buffer, int32_t cacheBuffer,
                                           const std::atomic<bool>& stopped, Launch& launch) {
  if (part != ComputePart::Attend) return backend_->compute(part, layer, batch, activations, buffer, {}, launch);
  return attendStaged(batch, layer, cacheBuffer, stopped, [&](const Staging& staging) {
    backend_->compute(part, layer, batch, activations, buffer, staging, launch);
  });
}

}  // namespace spillway
