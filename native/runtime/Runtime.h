// One opened model: its weights, its cache, its sequences, and the queue that computes. Free of JavaScript; the addon
// is a thin layer over it.
//
// Everything but submitted work runs on the owner's thread, which is one thread: handles need no locks.
#pragma once
#include <atomic>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "../system/CompletionChannel.h"
#include "../system/EventTable.h"
#include "../system/TaskQueue.h"
#include "HandleTable.h"
#include "Model.h"
#include "makeBatch.h"

namespace spillway {

class Runtime {
 public:
  // wake: see CompletionChannel; called until join() has returned.
  Runtime(RuntimeOptions&& options, std::function<void()> wake);
  ~Runtime();  // close() and join()
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

  const RuntimeBytes& bytes() const { return bytes_; }  // what is pinned is known once loaded() holds
  bool loaded() const { return loaded_.load(); }
  InstructionSet instructionSet() const { return instructionSet_; }
  const std::string& gpuProducts() const { return gpuProducts_; }  // see Model
  // Prompts of as many tokens are multiplied in another way than those of fewer: the bits of all of their tokens depend
  // on it. 0: all are multiplied alike.
  uint32_t longPromptTokens() const { return longPromptTokens_; }
  CompletionChannel& channel() { return channel_; }

  // Queues the reading of all weights; its event completes like any other. Once only.
  EventId load();
  uint64_t loadedBytes() const { return progress_.bytes.load(); }

  uint32_t createSequence(SequenceOptions&& options);
  void freeSequence(uint32_t row);  // refused while a batch with it has tasks under way
  uint32_t createActivations(uint32_t tokens);
  void freeActivations(uint32_t activations);
  // Hidden states of `tokens` tokens between layers, the first residentTokens in memory, the rest in the spill file.
  // What a store has there is free again once it is freed and no task uses it.
  uint32_t createHiddenStore(uint32_t tokens, uint32_t residentTokens);
  void freeHiddenStore(uint32_t store);
  uint32_t createBatch(const std::vector<int32_t>& rows, const std::vector<int32_t>& pages,
                       const std::vector<int32_t>& copies = {}, const std::vector<int32_t>& comes = {});
  void freeBatch(uint32_t batch);
  // buffer: where the layer was loaded to, if the part needs what streams of it; else kNoBuffer.
  // cacheBuffer: where the square's pages on disk are staged, for attention; kNoBuffer if it stages none.
  EventId submitCompute(ComputePart part, uint32_t layer, uint32_t batch, uint32_t activations,
                        const std::vector<EventId>& after, int32_t buffer = kNoBuffer, int32_t cacheBuffer = kNoBuffer);
  // On the queue of disk reads, or on that of the link where a device computes. Refused where nothing of the layer
  // streams.
  // chosen: experts may be left out until tasks that compute have chosen some.
  EventId submitLoadWeight(uint32_t layer, uint32_t buffer, const std::vector<EventId>& after, bool chosen = false);
  // Pages of the batch that are complete on disk, into a staging buffer; pages that became complete, from there to the
  // disk. Loads go on the queue of disk reads, stores on that of disk writes. Where pages come to a device
  // (GpuOptions:: cacheBuffers) they, and those in host memory, go on to the buffer there of the same number, and all
  // pages with new tokens come back from it; on queues of their own. Both accept a square that has nothing to move.
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
  size_t cacheLoadsUnderWay() const { return cacheUp_ == nullptr ? 0 : cacheUp_->underWay(); }

  // Peers: where the spec holds a part of a model's layers, hidden states come in and go out, and sampled tokens come
  // back. Copies the first `tokens` hidden states out of activations, on a queue of its own; the completion's result is
  // a HiddenResult. Of a share of each layer, the parts Output and FeedForward have one, too: this share's branch; and
  // Embed, whose hidden states go to the other shares.
  EventId submitReadHidden(uint32_t activations, uint32_t tokens, const std::vector<EventId>& after);
  // An event that no task completes, but completeEvent() or failEvent(), once. Tasks may wait for it like for any
  // other; cancelAll() and close() fail it.
  EventId createEvent();
  void completeEvent(EventId event);
  void failEvent(EventId event, const std::string& message);
  // Both at once, on the owner's thread. No task that has started, or can start before an event that the owner has yet
  // to complete, may use what they write.
  // branch: what all shares' branches add, instead.
  void writeHidden(uint32_t activations, const float* hidden, size_t count, bool branch = false);  // whole tokens
  // Where a share attends to some rows: queries, keys and values of all heads of a batch's tokens, one token after the
  // other, for its attention in that layer; and, in place of queries, what attention has given of this share's heads of
  // all rows.
  void writeRows(uint32_t activations, uint32_t batch, uint32_t layer, const float* rows, size_t count);
  void writeAttended(uint32_t activations, const float* attended, size_t count);
  void appendTokens(const std::vector<int32_t>& rows,
                    const std::vector<int32_t>& tokens);  // of the rows, one token each
  // Keys and values of whole pages in memory, of all layers, for engines that compute prompts for each other: see
  // Model. At once, on the owner's thread: no task that has started, or can start before the owner submits more, may
  // use pages that are written, or write those that are read.
  std::vector<uint8_t> readPages(const std::vector<int32_t>& pages) const;
  void writePages(const std::vector<int32_t>& pages, const std::vector<uint8_t>& bytes);
  void cancelAll();

  // Refuses everything from now on and cancels what has not started; a thread frees the model's memory and says so
  // through the channel's wake-up: closed() holds then. Does not wait. Idempotent.
  void close();
  bool closing() const { return closing_; }
  bool closed() const { return closed_.load(); }
  void join();  // waits for the threads; after close()

 private:
  size_t ahead() const;  // of its queues
  template <typename Body>
  void forOthers(Body body);
  void checkOpen() const;
  void settle(EventId event, bool failed, ErrorCode code, std::string message);
  void cancelPromised();
  void checkLoaded(const char* call) const;
  bool needsBuffer(ComputePart part, uint32_t layer) const;
  // What a part has computed of so many tokens for other engines; null where it is for none.
  std::unique_ptr<HiddenResult> goingToPeers(ComputePart part, const Activations& activations, size_t tokens) const;
  bool needsCacheBuffer(uint32_t layer, const Batch& batch) const;
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
  std::vector<bool> statesTaken_;  // by rows
  uint32_t buffers_ = 0;           // 0 where nothing streams
  uint32_t cacheBuffers_ = 0;      // 0 where no pages move
  HandleTable<Sequence> sequences_;
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
  std::unique_ptr<TaskQueue> diskRead_;             // where layers stream, or there are spill options
  std::unique_ptr<TaskQueue> diskWrite_;            // where there are spill options
  std::unique_ptr<TaskQueue> peers_;                // where hidden states go to or come from peers
  std::unique_ptr<TaskQueue> link_;                 // where layers are loaded into a device
  std::unique_ptr<TaskQueue> cacheUp_, cacheDown_;  // where pages of the cache come to a device and go back
  std::unique_ptr<TaskQueue> attend_;               // where the processor attends beside a device
  TaskQueue compute_;                               // last: its thread uses all of the above
};

}  // namespace spillway
