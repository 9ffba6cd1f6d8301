// The JavaScript object around a Runtime: src/bindings/Addon.ts, NativeRuntime.
#pragma once
#include <napi.h>

#include <memory>
#include <optional>
#include <vector>

#include "../runtime/Runtime.h"
#include "SpareArrays.h"

namespace spillway {

class NativeRuntime : public Napi::ObjectWrap<NativeRuntime> {
 public:
  static Napi::Function define(Napi::Env env);
  // Shadows ObjectWrap's, through which every method goes: a `this` that is no NativeRuntime is refused instead of
  // being misread.
  static NativeRuntime* Unwrap(Napi::Object object);

  explicit NativeRuntime(const Napi::CallbackInfo& info);
  ~NativeRuntime() override;

 private:
  Napi::Value bytes(const Napi::CallbackInfo& info);
  Napi::Value instructionSet(const Napi::CallbackInfo& info);
  Napi::Value gpuProducts(const Napi::CallbackInfo& info);
  Napi::Value longPromptTokens(const Napi::CallbackInfo& info);
  Napi::Value moved(const Napi::CallbackInfo& info);
  Napi::Value load(const Napi::CallbackInfo& info);
  Napi::Value onCompleted(const Napi::CallbackInfo& info);
  Napi::Value createRow(const Napi::CallbackInfo& info);
  Napi::Value freeRow(const Napi::CallbackInfo& info);
  Napi::Value createActivations(const Napi::CallbackInfo& info);
  Napi::Value freeActivations(const Napi::CallbackInfo& info);
  Napi::Value createBatch(const Napi::CallbackInfo& info);
  Napi::Value freeBatch(const Napi::CallbackInfo& info);
  Napi::Value submitCompute(const Napi::CallbackInfo& info);
  Napi::Value submitLoadWeight(const Napi::CallbackInfo& info);
  Napi::Value createHiddenStore(const Napi::CallbackInfo& info);
  Napi::Value freeHiddenStore(const Napi::CallbackInfo& info);
  Napi::Value submitLoadCache(const Napi::CallbackInfo& info);
  Napi::Value submitStoreCache(const Napi::CallbackInfo& info);
  Napi::Value submitLoadActivation(const Napi::CallbackInfo& info);
  Napi::Value submitStoreActivation(const Napi::CallbackInfo& info);
  Napi::Value submitReadHidden(const Napi::CallbackInfo& info);
  Napi::Value giveBackHidden(const Napi::CallbackInfo& info);
  Napi::Value createEvent(const Napi::CallbackInfo& info);
  Napi::Value completeEvent(const Napi::CallbackInfo& info);
  Napi::Value failEvent(const Napi::CallbackInfo& info);
  Napi::Value writeHidden(const Napi::CallbackInfo& info);
  Napi::Value writeRows(const Napi::CallbackInfo& info);
  Napi::Value writeAttended(const Napi::CallbackInfo& info);
  Napi::Value appendTokens(const Napi::CallbackInfo& info);
  Napi::Value readPages(const Napi::CallbackInfo& info);
  Napi::Value writePages(const Napi::CallbackInfo& info);
  Napi::Value cancelAll(const Napi::CallbackInfo& info);
  Napi::Value close(const Napi::CallbackInfo& info);

  Runtime& open();                          // throws once close() was called
  Runtime& openForTasks(const char* call);  // likewise, and before onCompleted()
  // Calls of the shape submit(three small integers, after): `names` are theirs.
  using Move = EventId (Runtime::*)(uint32_t first, uint32_t second, uint32_t third, const std::vector<EventId>& after);
  Napi::Value submitMove(const Napi::CallbackInfo& info, const char* call, const char* const (&names)[3], Move move);
  Napi::Value submitted(EventId event);
  void updateBusy();  // keeps the process and this object alive while there is something to wait for, and only then
  void drain();       // on the JavaScript thread, after a wake-up
  void takeCompletions(std::vector<Completion>& completions);  // but for load's, which it settles
  void settleLoad(const Completion& completion);
  void settleClose();
  void shutDown();  // joins the threads, frees everything; at the end of the environment or of the object
  static void wakeJavaScript(napi_env env, napi_value callback, void* context, void* data);
  static void environmentEnds(void* self);

  Napi::Env env_;
  std::unique_ptr<Runtime> runtime_;
  RuntimeBytes bytes_;
  InstructionSet instructionSet_ = InstructionSet::Scalar;
  std::string gpuProducts_;
  uint32_t longPromptTokens_ = 0;
  double timeOriginSeconds_ = 0;
  napi_threadsafe_function wake_ = nullptr;
  bool busy_ = false;
  size_t tasksUnderWay_ = 0;
  uint64_t bytesRead_ = 0, bytesWritten_ = 0;  // once the runtime is gone

  Napi::FunctionReference onCompleted_;
  Napi::FunctionReference onProgress_;
  std::optional<Napi::Promise::Deferred> loading_;
  EventId loadEvent_ = 0;
  uint64_t reportedBytes_ = 0;
  std::vector<Napi::Promise::Deferred> closing_;
  std::vector<Completion> taken_;
  SpareArrays spare_;  // of hidden states that went to peers
};

}  // namespace spillway
