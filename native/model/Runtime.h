// One opened model: its weights, its cache, its rows, and the queue that computes. Free of JavaScript; the addon is a
// thin layer over it.
//
// Everything but submitted work runs on the owner's thread, which is one thread: handles need no locks.
#pragma once
#include <atomic>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "../kernels/cpu/InstructionSet.h"
#include "../runtime/CompletionChannel.h"
#include "../runtime/DiskTraffic.h"
#include "../runtime/EventTable.h"
#include "../runtime/ExtentPool.h"
#include "../runtime/File.h"
#include "../runtime/Launch.h"
#include "../runtime/SpillFile.h"
#include "../runtime/TaskQueue.h"
#include "../runtime/ThreadPool.h"
#include "Activations.h"
#include "Batch.h"
#include "CacheSpill.h"
#include "DecoderSpec.h"
#include "HandleTable.h"
#include "HiddenStore.h"
#include "PagePool.h"
#include "Pass.h"
#include "StagingBuffers.h"
#include "WeightBuffers.h"
#include "WeightLoader.h"
#include "WeightStore.h"
#include "Weights.h"

namespace spillway {

// Weights from a store instead of the model's files.
struct StoredWeights {
  std::string store;  // path
  std::string fingerprint;
  uint64_t residentLayerBytes = 0;  // of each layer's block; the rest streams
  uint32_t buffers = 1;             // that layers stream into
};

// Room on disk for what does not fit into memory while the runtime lives.
struct SpillOptions {
  std::string folder;
  uint32_t pages = 0;        // of the cache, for every layer
  uint32_t buffers = 0;      // for staging; 0 where there are no pages
  uint32_t bufferPages = 0;  // of one layer that a buffer has places for; likewise
  uint64_t hiddenBytes = 0;  // for hidden stores
};

// Whose products a device computes with: its own kernels' alone, or, for long prompts, cuBLASLt's.
enum class GpuProducts : uint8_t {
  Own,
  CublasLt,  // an error where it cannot be used
  Auto,      // CublasLt where it can be used, else Own
};

// A device that computes, instead of the processor (src/bindings/Addon.ts).
struct GpuOptions {
  uint32_t device = 0;
  uint64_t memoryBytes = 0;
  uint64_t pinnedBytes = 0;
  uint32_t pages = 0;  // of the cache, for every layer
  uint64_t residentLayerBytes = 0;
  uint32_t buffers = 0;
  GpuProducts products = GpuProducts::Own;
  uint32_t longPromptTokens = 128;  // a prompt of as many is long: GpuPass.h. Others only in tests
};

struct RuntimeOptions {
  DecoderSpec decoder;
  std::vector<WeightBinding> bindings;
  std::vector<std::string> files;
  Precision precision = Precision::Default;
  uint32_t threads = 1;
  InstructionSet instructionSet = InstructionSet::Scalar;
  CacheType cacheType = CacheType::F32;
  float keepKeys = 1;  // above 0; below 1: sparse attention
  uint32_t pageTokens = 32;
  uint32_t pages = 1;
  Limits limits;
  std::optional<StoredWeights> weights;
  std::optional<SpillOptions> spill;
  std::optional<GpuOptions> gpu;
  IoBackend diskBackend = IoBackend::Auto;
  DiskFaults* diskFaults = nullptr;  // tests only; must outlive the runtime
};

// Of the device.
struct GpuBytes {
  size_t weights = 0;
  size_t weightBuffers = 0;  // all of them
  size_t cache = 0;
  size_t scratch = 0;
  size_t activations = 0;  // of one buffer of limits.tokensPerSquare tokens
  std::vector<uint64_t>
      streamedFromStore;  // of RuntimeBytes::streamed, what comes from the store, not from host memory
};

struct RuntimeBytes {
  size_t weights = 0;        // resident ones
  size_t weightBuffers = 0;  // all of them
  size_t cache = 0;
  size_t scratch = 0;
  size_t activations = 0;  // of one buffer of limits.tokensPerSquare tokens
  size_t staging = 0;      // buffers for pages on disk, all of them
  uint64_t spill = 0;      // of the spill file, on disk
  size_t pageSlot = 0;     // of it, a page of one layer
  std::vector<uint64_t>
      streamed;  // what is read of each layer's block each time that it is loaded; 0 where all of it is resident
  std::optional<GpuBytes> gpu;  // where a device computes: what is in its memory. The numbers above are the host's then
};

enum class ComputePart : uint8_t { Embed, Project, Attend, Finish, Head };
constexpr uint32_t kComputeParts = 5;
constexpr int32_t kNoBuffer = -1;

class GpuModel;

// The model itself: what tasks work with. Checked against each other, reserved by reserve().
class Model {
 public:
  // Throws Error(InvalidArgument) and FileError for options that contradict themselves or each other. Opens no file,
  // reserves nothing.
  explicit Model(RuntimeOptions&& options);
  ~Model();

  // Opens the files, checks every binding against their sizes, reserves all memory and the spill file.
  // traffic: if given, counts what is read from the store and moved to and from the spill file; must outlive the model.
  void reserve(DiskTraffic* traffic = nullptr);
  RuntimeBytes bytes() const;
  void load(LoadProgress& progress);
  // What follows is done when it returns, but for what it leaves on a device in `launch`.
  // Reads what streams of a layer into a buffer. Throws FileError; Error(InvalidArgument) where the buffer is in use.
  void loadWeight(uint32_t layer, uint32_t buffer, const std::atomic<bool>& stopped, Launch& launch);
  // Throws Error(InvalidArgument) where the part needs what streams of the layer and the buffer does not hold it.
  std::unique_ptr<TaskResult> compute(ComputePart part, uint32_t layer, const Batch& batch, Activations& activations,
                                      int32_t buffer, int32_t cacheBuffer, Launch& launch);
  // Throw FileError; Error(InvalidArgument) where the buffer is in use, or does not hold what attention left of the
  // square.
  void loadCache(uint32_t layer, const Batch& batch, uint32_t buffer, const std::atomic<bool>& stopped);
  void storeCache(uint32_t layer, const Batch& batch, uint32_t buffer);
  // For so many tokens, where this model computes.
  std::shared_ptr<Activations> createActivations(uint32_t tokens);
  // Hidden states between activations and a store; by one thread at a time each. Throw as HiddenStore does.
  void storeHidden(HiddenStore& store, const Activations& activations, uint32_t tokens, const Launch& launch);
  void loadHidden(HiddenStore& store, Activations& activations, uint32_t tokens, Launch& launch);
  // Hidden states between activations and the caller: the first `count` numbers. By one thread at a time each. Written
  // ones are there when it returns.
  void readHidden(const Activations& activations, float* to, size_t count, const Launch& launch);
  void writeHidden(Activations& activations, const float* from, size_t count);
  // The spill file; null where there is none.
  DirectFile* spillFile() { return spillFile_ == nullptr ? nullptr : &spillFile_->file(); }
  // Of the spill file, for hidden stores.
  const std::shared_ptr<ExtentPool>& hiddenExtents() const { return hiddenExtents_; }

  // What multiplies on the GPU, once reserved: see GpuModel. Empty where the processor computes.
  std::string gpuProducts() const;
  const DecoderSpec& spec() const { return options_.decoder; }
  const RuntimeOptions& options() const { return options_; }
  bool streams(size_t layer) const { return weights_.layerBlock(layer).streams(); }

 private:
  uint64_t spilledCacheBytes() const;
  size_t hiddenPassageBytes() const;
  // attend(the staging buffer's memory, null where there is none)
  template <typename Attend>
  void attendStaged(const Batch& batch, uint32_t layer, int32_t buffer, Attend attend);
  uint32_t window(uint32_t layer) const { return options_.decoder.layerSpecs[layer].window; }

  RuntimeOptions options_;
  Weights weights_;
  std::unique_ptr<WeightStore> store_;
  WeightBuffers buffers_;
  PagePool cache_;
  std::unique_ptr<SpillFile> spillFile_;
  std::unique_ptr<CacheSpill> cacheSpill_;
  std::shared_ptr<ExtentPool> hiddenExtents_;
  StagingBuffers staging_;
  ThreadPool pool_;
  Compute compute_;
  size_t scratchBytes_;
  Arena scratch_;
  std::vector<File> files_;
  // Where a device computes: the weights, cut where host memory's part of each layer ends (`weights_` is cut where the
  // device's ends), and the rest.
  std::unique_ptr<Weights> hostWeights_;
  std::unique_ptr<GpuModel> gpu_;
  Arena hiddenUp_, hiddenDown_;  // hidden states on their way between the device and the spill file
};

class Runtime {
 public:
  // wake: see CompletionChannel; called until join() has returned.
  Runtime(RuntimeOptions&& options, std::function<void()> wake);
  ~Runtime();  // close() and join()
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

  const RuntimeBytes& bytes() const { return bytes_; }
  InstructionSet instructionSet() const { return instructionSet_; }
  const std::string& gpuProducts() const { return gpuProducts_; }  // see Model
  // Prompts of as many tokens are multiplied in another way than those of fewer: the bits of all of their tokens depend
  // on it. 0: all are multiplied alike.
  uint32_t longPromptTokens() const { return longPromptTokens_; }
  CompletionChannel& channel() { return channel_; }

  // Queues the reading of all weights; its event completes like any other. Once only.
  EventId load();
  uint64_t loadedBytes() const { return progress_.bytes.load(); }

  uint32_t createRow(RowOptions&& options);
  void freeRow(uint32_t row);  // refused while a batch with it has tasks under way
  uint32_t createActivations(uint32_t tokens);
  void freeActivations(uint32_t activations);
  // Hidden states of `tokens` tokens between layers, the first residentTokens in memory, the rest in the spill file.
  // What a store has there is free again once it is freed and no task uses it.
  uint32_t createHiddenStore(uint32_t tokens, uint32_t residentTokens);
  void freeHiddenStore(uint32_t store);
  uint32_t createBatch(const std::vector<int32_t>& rows, const std::vector<int32_t>& pages,
                       const std::vector<int32_t>& copies = {});
  void freeBatch(uint32_t batch);
  // buffer: where the layer was loaded to, if the part needs what streams of it; else kNoBuffer.
  // cacheBuffer: where the square's pages on disk are staged, for attention; kNoBuffer if it stages none.
  EventId submitCompute(ComputePart part, uint32_t layer, uint32_t batch, uint32_t activations,
                        const std::vector<EventId>& after, int32_t buffer = kNoBuffer, int32_t cacheBuffer = kNoBuffer);
  // On the queue of disk reads, or on that of the link where a device computes. Refused where nothing of the layer
  // streams.
  EventId submitLoadWeight(uint32_t layer, uint32_t buffer, const std::vector<EventId>& after);
  // Pages of the batch that are complete on disk, into a staging buffer; pages that became complete, from there to the
  // disk. Loads go on the queue of disk reads, stores on that of disk writes. Both accept a square that has nothing to
  // move.
  EventId submitLoadCache(uint32_t layer, uint32_t batch, uint32_t buffer, const std::vector<EventId>& after);
  EventId submitStoreCache(uint32_t layer, uint32_t batch, uint32_t buffer, const std::vector<EventId>& after);
  // The first `tokens` hidden states, from a store into activations and back. Queues as above.
  EventId submitLoadActivation(uint32_t store, uint32_t activations, uint32_t tokens,
                               const std::vector<EventId>& after);
  EventId submitStoreActivation(uint32_t store, uint32_t activations, uint32_t tokens,
                                const std::vector<EventId>& after);
  const DiskTraffic& moved() const { return traffic_; }
  // Tasks that were launched on a device and are not yet reported.
  size_t computesUnderWay() const { return compute_.underWay(); }
  size_t loadsUnderWay() const { return link_ == nullptr ? 0 : link_->underWay(); }

  // Peers: where the spec holds a part of a model's layers, hidden states come in and go out, and sampled tokens come
  // back. Copies the first `tokens` hidden states out of activations, on a queue of its own; the completion's result is
  // a HiddenResult.
  EventId submitReadHidden(uint32_t activations, uint32_t tokens, const std::vector<EventId>& after);
  // An event that no task completes, but completeEvent() or failEvent(), once. Tasks may wait for it like for any
  // other; cancelAll() and close() fail it.
  EventId createEvent();
  void completeEvent(EventId event);
  void failEvent(EventId event, const std::string& message);
  // Both at once, on the owner's thread. No task that has started, or can start before an event that the owner has yet
  // to complete, may use what they write.
  void writeHidden(uint32_t activations, const float* hidden, size_t count);  // whole tokens
  void appendTokens(const std::vector<int32_t>& rows,
                    const std::vector<int32_t>& tokens);  // of the rows, one token each
  void cancelAll();

  // Refuses everything from now on and cancels what has not started; a thread frees the model's memory and says so
  // through the channel's wake-up: closed() holds then. Does not wait. Idempotent.
  void close();
  bool closing() const { return closing_; }
  bool closed() const { return closed_.load(); }
  void join();  // waits for the threads; after close()

 private:
  size_t ahead() const;  // of its queues
  void checkOpen() const;
  void settle(EventId event, bool failed, ErrorCode code, std::string message);
  void cancelPromised();
  void checkLoaded(const char* call) const;
  bool needsBuffer(ComputePart part, uint32_t layer) const;
  void checkSquare(uint32_t layer, const Batch& batch) const;
  void checkCacheMove(const char* call, uint32_t layer, const Batch& batch, uint32_t buffer) const;
  void checkSpills(const char* call) const;
  void checkHiddenMove(const HiddenStore& store, const Activations& activations, uint32_t tokens) const;

  InstructionSet instructionSet_;
  std::string gpuProducts_;
  uint32_t longPromptTokens_ = 0;
  RuntimeBytes bytes_;
  std::unique_ptr<Model> model_;  // freed by the queue's thread
  DecoderSpec spec_;
  BatchBounds bounds_;
  uint32_t buffers_ = 0;       // 0 where nothing streams
  uint32_t cacheBuffers_ = 0;  // 0 where no pages are on disk
  HandleTable<Row> rows_;
  HandleTable<Batch> batches_;
  HandleTable<Activations> activations_;
  HandleTable<HiddenStore> hiddenStores_;
  LoadProgress progress_;
  DiskTraffic traffic_;
  std::set<EventId> promised_;  // of createEvent(), not yet completed
  bool loading_ = false;
  bool closing_ = false;
  std::atomic<bool> loaded_{false};
  std::atomic<bool> closed_{false};
  CompletionChannel channel_;
  EventTable events_;
  std::unique_ptr<TaskQueue> diskRead_;   // where layers stream, or there are spill options
  std::unique_ptr<TaskQueue> diskWrite_;  // where there are spill options
  std::unique_ptr<TaskQueue> peers_;      // where hidden states go to or come from peers
  std::unique_ptr<TaskQueue> link_;       // where layers are loaded into a device
  TaskQueue compute_;                     // last: its thread uses all of the above
};

}  // namespace spillway
