#include "CudaBackend.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "../../model/layer.h"
#include "../../system/DirectFile.h"
#include "../../system/Error.h"
#include "AttentionTables.h"

namespace spillway {

namespace {

constexpr uint64_t kLeastPinned = uint64_t(1) << 20;
constexpr size_t kMostOthersPinned = size_t(16) << 20;  // of all but weights
constexpr uint32_t kMostBuffers = 1u << 12;
// That copy for the link: as many as fill it, each at 10 GB/s or so, of no more than a share of all.
constexpr unsigned kMostCopiers = 4, kThreadsForACopier = 4;
constexpr uint32_t kMostRows = 65535;  // of a grid's third dimension

template <typename Number>
[[noreturn]] void refuse(const char* field, Number found, const std::string& expected) {
  throw Error(ErrorCode::InvalidArgument,
              std::string(field) + ": found " + std::to_string(found) + ", expected " + expected);
}

const BackendParts& checked(const BackendParts& parts) {
  const RuntimeOptions& options = parts.options;
  const GpuOptions& gpu = *options.gpu;
  if (gpu.pinnedBytes < kLeastPinned)
    refuse("gpu.pinnedBytes", gpu.pinnedBytes, "at least " + std::to_string(kLeastPinned));
  if (gpu.buffers > kMostBuffers) refuse("gpu.buffers", gpu.buffers, "at most " + std::to_string(kMostBuffers));
  if (gpu.buffers == 0 && parts.weights.mostStreamedBytes() != 0)
    refuse("gpu.buffers", 0, "1 or more: some of each layer is not on the device for good");
  if (options.limits.rowsPerSquare > kMostRows)
    refuse("limits.rowsPerSquare", options.limits.rowsPerSquare, "at most " + std::to_string(kMostRows) + " with gpu");
  if (uint64_t(options.pages) + gpu.pages > INT32_MAX)
    refuse("gpu.pages", gpu.pages, "at most " + std::to_string(INT32_MAX - options.pages) + " beside those in memory");
  if (gpu.cacheBuffers > kMostBuffers)
    refuse("gpu.cacheBuffers", gpu.cacheBuffers, "at most " + std::to_string(kMostBuffers));
  if ((gpu.cacheBuffers == 0) != (gpu.cacheBufferPages == 0))
    refuse("gpu.cacheBufferPages", gpu.cacheBufferPages,
           gpu.cacheBuffers == 0 ? "0, since gpu.cacheBuffers is 0" : "1 or more, since there are gpu.cacheBuffers");
  if (gpu.sharesAttention && (gpu.cacheBuffers == 0 || options.pages == 0))
    refuse("gpu.sharesAttention", 1, "false: it takes pages in memory, and gpu.cacheBuffers to which they come");
  if (uint64_t(gpu.cacheBuffers) * gpu.cacheBufferPages > INT32_MAX)
    refuse("gpu.cacheBufferPages", gpu.cacheBufferPages,
           "at most " + std::to_string(INT32_MAX / gpu.cacheBuffers) + " of each buffer");
  if (gpu.cacheBuffers != 0 && options.spill && options.spill->pages != 0 && options.spill->buffers != gpu.cacheBuffers)
    refuse("spill.buffers", options.spill->buffers, "as many as gpu.cacheBuffers, " + std::to_string(gpu.cacheBuffers));
  return parts;
}

// Of each layer, what does not come from a store again and again.
std::optional<uint64_t> keptLayerBytes(const RuntimeOptions& options) {
  if (!options.weights) return {};
  const uint64_t device = options.gpu->residentLayerBytes, host = options.weights->residentLayerBytes;
  return host > std::numeric_limits<uint64_t>::max() - device ? std::numeric_limits<uint64_t>::max() : device + host;
}

// Large enough that a copy costs more than its start, and small enough that many are read, or on the link, at once: the
// disk's requests fill two or three.
size_t weightPieces(size_t bytes) {
  constexpr size_t kPieces = 32, kFewest = 4, kLeast = size_t(4) << 20, kMost = size_t(16) << 20;
  return std::max(kFewest, bytes / std::clamp(bytes / kPieces, kLeast, kMost));
}

size_t multiplied(uint64_t count, uint64_t bytes, const char* what) {
  if (bytes != 0 && count > std::numeric_limits<int64_t>::max() / bytes)
    throw Error(ErrorCode::Memory, std::string(what) + ": the bytes overflow");
  return static_cast<size_t>(count * bytes);
}

}  // namespace

std::unique_ptr<Backend> makeCudaBackend(const BackendParts& parts) { return std::make_unique<CudaBackend>(parts); }

CudaBackend::CudaBackend(const BackendParts& parts)
    : parts_(parts),
      spec_(parts.options.decoder),
      hostWeights_(spec_, parts.options.bindings, parts.options.files, keptLayerBytes(parts.options)),
      weights_(checked(parts).weights, hostWeights_),
      pageBytes_(parts.hostPages.pageBytes()),
      cacheBytes_(CacheMemory(parts.hostPages.layout(), CacheGroups(spec_.layers), parts.options.gpu->pages).bytes()),
      constantBytes_(Scratch::aligned(parts.options.limits.tokensPerSquare * sizeof(uint32_t)) +
                     Scratch::aligned(spec_.alibiSlopes.size() * sizeof(float))),
      fetcher_(*parts.options.gpu, parts.hostPages, hostPages_) {
  pages_.first = parts.options.pages;
  pages_.count = parts.options.gpu->pages;
  pages_.pageBytes = pageBytes_;
  measureScratch();
}

CudaBackend::~CudaBackend() {
  // Other threads than those that made them may end streams and free memory.
  try {
    if (device_ != nullptr) device_->use();
  } catch (const Error&) {}
}

CudaPass CudaBackend::passOf(const Batch& batch, Activations& activations, Scratch& scratch, Scratch& host,
                             Link* link) const {
  return {spec_,
          parts_.weights,
          parts_.compute,
          batch,
          activations,
          scratch,
          host,
          link,
          parts_.options.keepKeys,
          pages_,
          constants_,
          parts_.hostPages,
          hostPages_.pinned(),
          parts_.options.gpu->cacheBuffers != 0,
          attendsApart(),
          mostPageEntries(parts_.options),
          {wantsLibrary(), parts_.options.gpu->longPromptTokens, libraryProducts_.get()}};
}

template <typename Visit>
void CudaBackend::forProducts(Visit visit) const {
  if (!wantsLibrary()) return;
  for (size_t layer = 0; layer < spec_.layers; layer++) {
    const LayerWeights& weights = parts_.weights.layer(layer);
    for (const StoredMatrix* matrix :
         {&weights.q, &weights.k, &weights.v, &weights.o, &weights.gate, &weights.up, &weights.down})
      if (present(*matrix)) visit(*matrix);
  }
}

void CudaBackend::measureScratch() {
  Batch batch;
  batch.ranges.resize(parts_.options.limits.rowsPerSquare);
  batch.tokens.resize(parts_.options.limits.tokensPerSquare);
  Activations activations(spec_, 0, true);
  Scratch scratch(nullptr, 0), host(nullptr, 0), scratchApart(nullptr, 0), hostApart(nullptr, 0);
  const CudaPass pass = passOf(batch, activations, scratch, host, nullptr);
  computeAll(pass, attendsApart() ? passOf(batch, activations, scratchApart, hostApart, nullptr) : pass);
  compute_.scratchBytes = scratch.peak();
  forProducts([&](const StoredMatrix& matrix) {
    compute_.scratchBytes =
        std::max(compute_.scratchBytes, cuda::CublasLtProducts::tryBytes(matrix.outputs, matrix.inputs));
  });
  compute_.hostBytes = host.peak();
  attend_.scratchBytes = scratchApart.peak();
  attend_.hostBytes = hostApart.peak();
}

bool CudaBackend::reachesHostPages() const {
  return parts_.options.gpu->cacheBuffers != 0 || (parts_.compute.precision == Precision::Default &&
                                                   cuda::hasPrefillAttention(rangeLayout(parts_.hostPages.layout())));
}

// Each way; where there are hidden stores.
size_t CudaBackend::hiddenPassageBytes() const {
  return parts_.options.spill
             ? DirectFile::aligned(size_t(parts_.options.limits.tokensPerSquare) * spec_.hiddenSize * sizeof(float))
             : 0;
}

void CudaBackend::addBytes(RuntimeBytes& bytes) const {
  bytes.weights = weights_.hostBytes();
  bytes.weightBuffers = 0;
  bytes.scratch = compute_.hostBytes + attend_.hostBytes + 2 * hiddenPassageBytes();
  bytes.activations = 0;
  bytes.gpu = this->bytes();
}

GpuBytes CudaBackend::bytes() const {
  const GpuOptions& gpu = *parts_.options.gpu;
  GpuBytes bytes;
  bytes.weights = Device::aligned(parts_.weights.bytes());
  bytes.weightBuffers =
      Device::aligned(multiplied(gpu.buffers, parts_.weights.mostStreamedBytes(), "the weight buffers on the device"));
  bytes.cache = Device::aligned(cacheBytes_);
  bytes.cacheBuffers = Device::aligned(fetcher_.bytes());
  bytes.scratch =
      Device::aligned(compute_.scratchBytes) + Device::aligned(attend_.scratchBytes) + Device::aligned(constantBytes_);
  bytes.activations = Device::aligned(Activations::bytesFor(spec_, parts_.options.limits.tokensPerSquare, true));
  bytes.unpinned = weights_.unpinnedBytes();
  if (parts_.hostPages.data() != nullptr && reachesHostPages() && !hostPages_.pinned())
    bytes.unpinned += parts_.hostPages.bytes();
  for (size_t layer = 0; layer < spec_.layers; layer++) bytes.streamedFromStore.push_back(weights_.storeBytes(layer));
  return bytes;
}

void CudaBackend::reserve() {
  const GpuOptions& gpu = *parts_.options.gpu;
  const GpuBytes sizes = bytes();
  device_ = std::make_shared<Device>(gpu.device, gpu.memoryBytes);
  weightMemory_ = device_->take(sizes.weights, "the weights");
  bufferMemory_ = device_->take(sizes.weightBuffers, "the weight buffers");
  cacheMemory_ = device_->take(sizes.cache, "the KV cache");
  cacheBufferMemory_ = device_->take(sizes.cacheBuffers, "buffers of the KV cache");
  constantMemory_ = device_->take(constantBytes_, "scratch memory");
  parts_.weights.place(weightMemory_.data());
  if (sizes.weightBuffers != 0) buffers_.place(gpu.buffers, parts_.weights.mostStreamedBytes(), bufferMemory_.data());
  bufferOrder_.resize(gpu.buffers);
  pages_.data = cacheMemory_.data();
  weights_.reserve();
  reserve(compute_);
  reserve(attend_);
  hiddenUp_ = Arena(hiddenPassageBytes(), "activations");
  hiddenDown_ = Arena(hiddenPassageBytes(), "activations");
  reserveLinks(sizes);
  reserveConstants();
  openLibrary();
}

void CudaBackend::reserve(Workplace& workplace) {
  workplace.scratch = device_->take(workplace.scratchBytes, "scratch memory");
  workplace.host = Arena(workplace.hostBytes, "scratch memory");
}

std::string CudaBackend::gpuProducts() const {
  return libraryProducts_ == nullptr ? "own" : "cublaslt " + std::to_string(libraryProducts_->version());
}

void CudaBackend::openLibrary() {
  if (!wantsLibrary()) return;
  std::string whyNot;
  libraryProducts_ = cuda::CublasLtProducts::open(whyNot);
  if (libraryProducts_ == nullptr) {
    if (parts_.options.gpu->products == GpuProducts::Auto) return;
    throw Error(ErrorCode::InvalidArgument, "gpu.products: found cublaslt, expected own: " + whyNot);
  }
  // Shapes that it has no algorithm for are left to the kernels.
  forProducts([&](const StoredMatrix& matrix) {
    libraryProducts_->prepare(compute_.link->stream(), matrix.outputs, matrix.inputs, compute_.scratch.data());
  });
}

// Of what is pinned, weights have all that the others do not: half of it at least, and more brings the others nothing.
// Of theirs half is for tasks, a quarter each for hidden states on their way up and down. Where pages of the cache come
// and go, these have half of what tasks and hidden states had; attention that is apart has half of what tasks have.
void CudaBackend::reserveLinks(const GpuBytes& sizes) {
  pinned_.emplace(cuda::MemoryKind::Pinned, parts_.options.gpu->pinnedBytes);
  const size_t bytes = pinned_->capacityBytes();
  uint8_t* data = pinned_->take(bytes, nullptr, "pieces that cross the link").data;
  const auto add = [&](std::optional<Link>& link, StreamIndex index, Uploads uploads, size_t all, size_t pieces) {
    const size_t piece = all / pieces / DirectFile::kAlignment * DirectFile::kAlignment;
    link.emplace(*device_, done_, index, uploads, data, piece, pieces);
    data += piece * pieces;
  };
  const bool fetches = sizes.cacheBuffers != 0;
  const size_t less = fetches ? 2 : 1, tasks = attendsApart() ? 2 : 1;
  const size_t others = std::min(bytes / 2, kMostOthersPinned), weights = bytes - others;
  add(weightLink_, StreamIndex::Weights, Uploads::CopyEngine, weights, weightPieces(weights));
  add(compute_.link, StreamIndex::Compute, Uploads::Kernel, others / (2 * tasks * less), 8);
  if (attendsApart()) add(attend_.link, StreamIndex::Attend, Uploads::Kernel, others / (2 * tasks * less), 8);
  add(upLink_, StreamIndex::Up, Uploads::Kernel, others / (4 * less), 2);
  add(downLink_, StreamIndex::Down, Uploads::CopyEngine, others / (4 * less), 2);
  if (fetches || (parts_.options.spill && parts_.options.spill->pages != 0)) {
    pagesFirst_.emplace();
    weightLink_->giveWayTo(*pagesFirst_, fetches);
  }
  if (!fetches) return;
  fetcher_.reserve(cacheBufferMemory_.data(), *pagesFirst_, [&](std::optional<Link>& link, StreamIndex index) {
    add(link, index, index == StreamIndex::CacheUp ? Uploads::Kernel : Uploads::CopyEngine, others / 4, 4);
  });
}

void CudaBackend::reserveConstants() {
  std::vector<uint32_t> places(parts_.options.limits.tokensPerSquare);
  for (size_t i = 0; i < places.size(); i++) places[i] = static_cast<uint32_t>(i);
  Scratch constants(constantMemory_.data(), constantMemory_.bytes());
  auto* onDevice = constants.take<uint32_t>(places.size());
  compute_.link->upload(onDevice, places.data(), places.size() * sizeof(uint32_t));
  constants_.places = onDevice;
  if (spec_.position == PositionKind::Alibi) {
    auto* slopes = constants.take<float>(spec_.alibiSlopes.size());
    compute_.link->upload(slopes, spec_.alibiSlopes.data(), spec_.alibiSlopes.size() * sizeof(float));
    constants_.slopes = slopes;
  }
  compute_.link->finish();
}

void CudaBackend::load(WeightStore& store, LoadProgress& progress) {
  weightLink_->use();
  weights_.load(store, *weightLink_, progress);
  pinHostPages(progress);
  divideThreads();
}

void CudaBackend::load(const std::vector<File>& files, LoadProgress& progress) {
  weightLink_->use();
  weights_.load(files, parts_.compute.pool, *weightLink_, progress);
  pinHostPages(progress);
  divideThreads();
}

void CudaBackend::pinHostPages(const LoadProgress& progress) {
  if (!reachesHostPages()) return;
  HostPin::makeResident(parts_.hostPages.data(), parts_.hostPages.bytes(), parts_.compute.pool,
                        [&] { progress.check(); });
  hostPages_ = HostPin(parts_.hostPages.data(), parts_.hostPages.bytes());
}

// What is pinned is moved by the device, and all threads compute. What is not, and hidden states, which a store has,
// are copied by threads beside them: left to one, that one is the link; left to all, those that attend wait for them
// (LM-Offload, section 4).
void CudaBackend::divideThreads() {
  const unsigned threads = parts_.compute.pool.threads(),
                 copying = std::min(threads / kThreadsForACopier, kMostCopiers);
  const bool fetches = parts_.options.gpu->cacheBuffers != 0, unpinned = bytes().unpinned != 0;
  if (copying < 2 || (!unpinned && hiddenPassageBytes() == 0)) return;
  copiers_.emplace(copying);
  for (std::optional<Link>* link : {&weightLink_, &upLink_, &downLink_, &compute_.link, &attend_.link})
    if (*link) (*link)->copyBy(*copiers_);
  if (fetches) fetcher_.copyBy(*copiers_);
  // What is copied all the time; pages that prompts alone attend to on the device are not.
  const bool always = weights_.unpinnedBytes() != 0 || (fetches && unpinned);
  if (always) parts_.compute.pool.reduce(threads - copying);
}

void CudaBackend::loadWeight(uint32_t layer, uint32_t buffer, WeightStore* store, const std::atomic<bool>& stopped,
                             Launch& launch) {
  Link& link = *weightLink_;
  link.use();
  WeightBuffers::Filling filling(buffers_, buffer);
  link.after(launch.before);
  bufferOrder_.fill(buffer, link);
  link.launch(launch, [&] { weights_.loadLayer(layer, filling.data(), store, link, stopped); });
  filling.finish(layer);
}

std::unique_ptr<TaskResult> CudaBackend::compute(ComputePart part, uint32_t layer, const Batch& batch,
                                                 Activations& activations, int32_t buffer, const Staging& staging,
                                                 Launch& launch) {
  Workplace& place = part == ComputePart::Attend && attendsApart() ? attend_ : compute_;
  Link& link = *place.link;
  link.use();
  link.after(launch.before);
  Scratch scratch(place.scratch.data(), place.scratch.bytes()), host(place.host.data(), place.host.bytes());
  std::optional<WeightBuffers::Use> use;
  if (buffer != kNoBuffer) {
    use.emplace(buffers_, static_cast<uint32_t>(buffer), layer);
    bufferOrder_.read(static_cast<uint32_t>(buffer), link);
  }
  CudaPass pass = passOf(batch, activations, scratch, host, &link);
  if (use) pass.streamed = use->data();
  pass.staged = staging.data;
  pass.stagedBytes = staging.placeBytes;
  const FetchedPages* fetched = batch.fetchedIn(spec_.layerSpecs[layer].window);
  if (staging.buffer != kNoBuffer && fetched != nullptr && fetched->any()) {
    pass.fetched = fetched;
    pass.fetchedData = fetcher_.attend(*pass.fetched, staging, link);
    pass.fetchNext = [&](size_t group) { fetcher_.next(*pass.fetched, group, layer, staging, link); };
  }
  std::unique_ptr<TaskResult> result;
  link.launch(launch, [&] { result = computePart(pass, part, layer); });
  return result;
}

void CudaBackend::readPages(const std::function<void()>& read) { pagesFirst_->onDisk(read); }

void CudaBackend::loadCache(uint32_t layer, const FetchedPages& pages, const Staging& staging,
                            const std::function<void()>& readDisk, Launch& launch) {
  fetcher_.load(pages, layer, staging, readDisk, launch);
}

void CudaBackend::storeCache(uint32_t layer, const FetchedPages& pages, const Staging& staging, Launch& launch) {
  fetcher_.store(pages, layer, staging, launch);
}

std::shared_ptr<Activations> CudaBackend::createActivations(uint32_t tokens) {
  struct Owner {
    std::shared_ptr<Device> device;
    Device::Piece piece;
  };
  auto owner = std::make_shared<Owner>();
  owner->device = device_;
  owner->piece = device_->take(Activations::bytesFor(spec_, tokens, true), "activations");
  uint8_t* data = owner->piece.data();
  return std::make_shared<Activations>(spec_, tokens, true, std::move(owner), data);
}

void CudaBackend::readHidden(const Activations& activations, float* to, size_t count, const Launch& launch) {
  std::lock_guard<std::mutex> lock(downMutex_);
  downLink_->use();
  downLink_->after(launch.before);
  downLink_->download(to, activations.hidden, count * sizeof(float));
  downLink_->finish();
}

// What is uploaded may change when it returns.
void CudaBackend::upload(Activations& activations, const void* from, size_t count, Launch& launch) {
  std::lock_guard<std::mutex> lock(upMutex_);
  upLink_->use();
  upLink_->after(launch.before);
  upLink_->launch(launch, [&] { upLink_->upload(activations.hidden, from, count * sizeof(float)); });
}

void CudaBackend::writeHidden(Activations& activations, const float* from, size_t count) {
  Launch launch;
  upload(activations, from, count, launch);
  launch.left->await();
}

void CudaBackend::storeHidden(HiddenStore& store, DirectFile* file, const Activations& activations, uint32_t tokens,
                              const Launch& launch) {
  readHidden(activations, reinterpret_cast<float*>(hiddenDown_.data()), size_t(tokens) * spec_.hiddenSize, launch);
  store.store(file, hiddenDown_.data(), tokens);
}

void CudaBackend::loadHidden(HiddenStore& store, DirectFile* file, Activations& activations, uint32_t tokens,
                             Launch& launch) {
  store.load(file, hiddenUp_.data(), tokens);
  upload(activations, hiddenUp_.data(), size_t(tokens) * spec_.hiddenSize, launch);
}

}  // namespace spillway
