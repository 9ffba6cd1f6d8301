#include "NativeRuntime.h"

#include <algorithm>
#include <utility>

#include "AddonData.h"
#include "arguments.h"
#include "bytesToJavaScript.h"
#include "completionsToJavaScript.h"
#include "parseOptions.h"

namespace spillway {

namespace {

constexpr uint64_t kMostSafe = (uint64_t(1) << 53) - 1;
constexpr napi_type_tag kTypeTag = {0x5b1f7e0a9c2d4f63, 0x8a4be9d15f70c216};

uint32_t readHandle(const Napi::Value& value, const char* name) {
  return static_cast<uint32_t>(readInteger(value, name, 0, INT32_MAX));
}

// Absent means -1.
int32_t readBuffer(const Napi::Value& value, const char* name) {
  if (value.IsUndefined() || (value.IsNumber() && readNumber(value, name) == kNoBuffer)) return kNoBuffer;
  return static_cast<int32_t>(readInteger(value, name, 0, INT32_MAX));
}

}  // namespace

Napi::Function NativeRuntime::define(Napi::Env env) {
  return DefineClass(env, "NativeRuntime",
                     {
                         InstanceAccessor<&NativeRuntime::bytes>("bytes"),
                         InstanceAccessor<&NativeRuntime::instructionSet>("instructionSet"),
                         InstanceAccessor<&NativeRuntime::gpuProducts>("gpuProducts"),
                         InstanceAccessor<&NativeRuntime::longPromptTokens>("longPromptTokens"),
                         InstanceAccessor<&NativeRuntime::moved>("moved"),
                         InstanceMethod<&NativeRuntime::load>("load"),
                         InstanceMethod<&NativeRuntime::onCompleted>("onCompleted"),
                         InstanceMethod<&NativeRuntime::createRow>("createRow"),
                         InstanceMethod<&NativeRuntime::freeRow>("freeRow"),
                         InstanceMethod<&NativeRuntime::createActivations>("createActivations"),
                         InstanceMethod<&NativeRuntime::freeActivations>("freeActivations"),
                         InstanceMethod<&NativeRuntime::createBatch>("createBatch"),
                         InstanceMethod<&NativeRuntime::freeBatch>("freeBatch"),
                         InstanceMethod<&NativeRuntime::submitCompute>("submitCompute"),
                         InstanceMethod<&NativeRuntime::submitLoadWeight>("submitLoadWeight"),
                         InstanceMethod<&NativeRuntime::createHiddenStore>("createHiddenStore"),
                         InstanceMethod<&NativeRuntime::freeHiddenStore>("freeHiddenStore"),
                         InstanceMethod<&NativeRuntime::submitLoadCache>("submitLoadCache"),
                         InstanceMethod<&NativeRuntime::submitStoreCache>("submitStoreCache"),
                         InstanceMethod<&NativeRuntime::submitLoadActivation>("submitLoadActivation"),
                         InstanceMethod<&NativeRuntime::submitStoreActivation>("submitStoreActivation"),
                         InstanceMethod<&NativeRuntime::submitReadHidden>("submitReadHidden"),
                         InstanceMethod<&NativeRuntime::giveBackHidden>("giveBackHidden"),
                         InstanceMethod<&NativeRuntime::createEvent>("createEvent"),
                         InstanceMethod<&NativeRuntime::completeEvent>("completeEvent"),
                         InstanceMethod<&NativeRuntime::failEvent>("failEvent"),
                         InstanceMethod<&NativeRuntime::writeHidden>("writeHidden"),
                         InstanceMethod<&NativeRuntime::writeRows>("writeRows"),
                         InstanceMethod<&NativeRuntime::writeAttended>("writeAttended"),
                         InstanceMethod<&NativeRuntime::appendTokens>("appendTokens"),
                         InstanceMethod<&NativeRuntime::readPages>("readPages"),
                         InstanceMethod<&NativeRuntime::writePages>("writePages"),
                         InstanceMethod<&NativeRuntime::cancelAll>("cancelAll"),
                         InstanceMethod<&NativeRuntime::close>("close"),
                     });
}

NativeRuntime* NativeRuntime::Unwrap(Napi::Object object) {
  bool ours = false;
  const Napi::Env env = object.Env();
  if (!object.IsObject() || napi_check_object_type_tag(env, object, &kTypeTag, &ours) != napi_ok || !ours) {
    throw toJavaScript(env, Error(ErrorCode::InvalidArgument, "this: found something else, expected a NativeRuntime"));
  }
  return ObjectWrap::Unwrap(object);
}

NativeRuntime::NativeRuntime(const Napi::CallbackInfo& info) : ObjectWrap(info), env_(info.Env()) {
  guarded(env_, [&] {
    AddonData* data = env_.GetInstanceData<AddonData>();
    const std::unique_ptr<RuntimeOptions> options = data == nullptr ? nullptr : std::move(data->opening);
    if (options == nullptr) throw Error(ErrorCode::InvalidArgument, "a NativeRuntime is made by openRuntime() alone");
    timeOriginSeconds_ = data->timeOriginSeconds;

    runtime_ = std::make_unique<Runtime>(
        std::move(*options), [this] { napi_call_threadsafe_function(wake_, nullptr, napi_tsfn_nonblocking); });
    bytes_ = runtime_->bytes();
    instructionSet_ = runtime_->instructionSet();
    gpuProducts_ = runtime_->gpuProducts();
    longPromptTokens_ = runtime_->longPromptTokens();
    // Nothing wakes JavaScript before the first task, so there is time to make the function that does.
    const Napi::String name = Napi::String::New(env_, "spillway");
    if (napi_create_threadsafe_function(env_, nullptr, nullptr, name, 0, 1, nullptr, nullptr, this, wakeJavaScript,
                                        &wake_) != napi_ok) {
      throw Error(ErrorCode::Internal, "cannot create a thread-safe function");
    }
    napi_unref_threadsafe_function(env_, wake_);
    // Hooks run last in, first out: ours comes before the thread-safe function's own end.
    napi_add_env_cleanup_hook(env_, environmentEnds, this);
    napi_type_tag_object(env_, Value(), &kTypeTag);
  });
}

NativeRuntime::~NativeRuntime() { shutDown(); }

void NativeRuntime::environmentEnds(void* self) { static_cast<NativeRuntime*>(self)->shutDown(); }

void NativeRuntime::shutDown() {
  if (runtime_ != nullptr) {
    runtime_->close();
    runtime_->join();
    bytesRead_ = runtime_->moved().read.load();
    bytesWritten_ = runtime_->moved().written.load();
  }
  runtime_.reset();  // has joined, so that nobody calls `wake_` from here on
  if (wake_ == nullptr) return;
  napi_release_threadsafe_function(std::exchange(wake_, nullptr), napi_tsfn_abort);
  napi_remove_env_cleanup_hook(env_, environmentEnds, this);
}

Runtime& NativeRuntime::open() {
  if (runtime_ == nullptr || runtime_->closing()) throw Error(ErrorCode::InvalidArgument, "the runtime is closed");
  return *runtime_;
}

Runtime& NativeRuntime::openForTasks(const char* call) {
  Runtime& runtime = open();
  if (onCompleted_.IsEmpty())
    throw Error(ErrorCode::InvalidArgument, std::string(call) + ": onCompleted() must be called first");
  return runtime;
}

Napi::Value NativeRuntime::submitted(EventId event) {
  tasksUnderWay_++;
  updateBusy();
  return Napi::Number::New(env_, static_cast<double>(event));
}

void NativeRuntime::updateBusy() {
  const bool busy = tasksUnderWay_ != 0 || loading_.has_value() || !closing_.empty();
  if (busy == busy_ || wake_ == nullptr) return;
  busy_ = busy;
  if (busy) {
    Ref();
    napi_ref_threadsafe_function(env_, wake_);
  } else {
    napi_unref_threadsafe_function(env_, wake_);
    Unref();
  }
}

Napi::Value NativeRuntime::bytes(const Napi::CallbackInfo&) {
  if (runtime_ != nullptr && runtime_->loaded()) bytes_ = runtime_->bytes();
  return bytesToJavaScript(env_, bytes_);
}

Napi::Value NativeRuntime::gpuProducts(const Napi::CallbackInfo&) { return Napi::String::New(env_, gpuProducts_); }

Napi::Value NativeRuntime::longPromptTokens(const Napi::CallbackInfo&) {
  return Napi::Number::New(env_, longPromptTokens_);
}

Napi::Value NativeRuntime::instructionSet(const Napi::CallbackInfo&) {
  return Napi::String::New(env_, instructionSetName(instructionSet_));
}

Napi::Value NativeRuntime::moved(const Napi::CallbackInfo&) {
  const bool open = runtime_ != nullptr;
  Napi::Object object = Napi::Object::New(env_);
  object.Set("read", static_cast<double>(open ? runtime_->moved().read.load() : bytesRead_));
  object.Set("written", static_cast<double>(open ? runtime_->moved().written.load() : bytesWritten_));
  return object;
}

Napi::Value NativeRuntime::load(const Napi::CallbackInfo& info) {
  return guarded(env_, [&]() -> Napi::Value {
    const Napi::Function progress = readFunction(info[0], "onProgress");
    loadEvent_ = open().load();
    onProgress_ = Napi::Persistent(progress);
    loading_ = Napi::Promise::Deferred::New(env_);
    updateBusy();
    return loading_->Promise();
  });
}

Napi::Value NativeRuntime::onCompleted(const Napi::CallbackInfo& info) {
  return guarded(env_, [&] {
    const Napi::Function callback = readFunction(info[0], "callback");
    open();
    if (!onCompleted_.IsEmpty())
      throw Error(ErrorCode::InvalidArgument, "onCompleted: found a second call, expected one");
    onCompleted_ = Napi::Persistent(callback);
    return env_.Undefined();
  });
}

Napi::Value NativeRuntime::createRow(const Napi::CallbackInfo& info) {
  return guarded(env_, [&] {
    SequenceOptions options = parseSequenceOptions(info[0]);
    return Napi::Number::New(env_, open().createSequence(std::move(options)));
  });
}

Napi::Value NativeRuntime::freeRow(const Napi::CallbackInfo& info) {
  return guarded(env_, [&] {
    open().freeSequence(readHandle(info[0], "row"));
    return env_.Undefined();
  });
}

Napi::Value NativeRuntime::createActivations(const Napi::CallbackInfo& info) {
  return guarded(env_, [&] {
    const uint64_t tokens = readInteger(info[0], "tokens", 1, UINT32_MAX);
    return Napi::Number::New(env_, open().createActivations(static_cast<uint32_t>(tokens)));
  });
}

Napi::Value NativeRuntime::freeActivations(const Napi::CallbackInfo& info) {
  return guarded(env_, [&] {
    open().freeActivations(readHandle(info[0], "activations"));
    return env_.Undefined();
  });
}

Napi::Value NativeRuntime::createBatch(const Napi::CallbackInfo& info) {
  return guarded(env_, [&] {
    const std::vector<int32_t> rows = readInt32Array(info[0], "rows");
    const std::vector<int32_t> pages = readInt32Array(info[1], "pages");
    const std::vector<int32_t> copies =
        info[2].IsUndefined() ? std::vector<int32_t>() : readInt32Array(info[2], "copies");
    const std::vector<int32_t> comes =
        info[3].IsUndefined() ? std::vector<int32_t>() : readInt32Array(info[3], "comes");
    return Napi::Number::New(env_, open().createBatch(rows, pages, copies, comes));
  });
}

Napi::Value NativeRuntime::freeBatch(const Napi::CallbackInfo& info) {
  return guarded(env_, [&] {
    open().freeBatch(readHandle(info[0], "batch"));
    return env_.Undefined();
  });
}

Napi::Value NativeRuntime::submitCompute(const Napi::CallbackInfo& info) {
  return guarded(env_, [&] {
    const auto part = static_cast<ComputePart>(readInteger(info[0], "part", 0, kComputeParts - 1));
    const uint32_t layer = readHandle(info[1], "layer");
    const uint32_t batch = readHandle(info[2], "batch");
    const uint32_t activations = readHandle(info[3], "activations");
    const std::vector<EventId> after = parseEvents(info[4], "after");
    const int32_t buffer = readBuffer(info[5], "buffer");
    const int32_t cacheBuffer = readBuffer(info[6], "cacheBuffer");
    return submitted(
        openForTasks("submitCompute").submitCompute(part, layer, batch, activations, after, buffer, cacheBuffer));
  });
}

Napi::Value NativeRuntime::submitLoadWeight(const Napi::CallbackInfo& info) {
  return guarded(env_, [&] {
    const uint32_t layer = readHandle(info[0], "layer");
    const uint32_t buffer = readHandle(info[1], "buffer");
    const std::vector<EventId> after = parseEvents(info[2], "after");
    const bool chosen = !info[3].IsUndefined() && readBoolean(info[3], "chosen");
    return submitted(openForTasks("submitLoadWeight").submitLoadWeight(layer, buffer, after, chosen));
  });
}

Napi::Value NativeRuntime::createHiddenStore(const Napi::CallbackInfo& info) {
  return guarded(env_, [&] {
    const uint64_t tokens = readInteger(info[0], "tokens", 1, UINT32_MAX);
    const uint64_t residentTokens = readInteger(info[1], "residentTokens", 0, UINT32_MAX);
    return Napi::Number::New(
        env_, open().createHiddenStore(static_cast<uint32_t>(tokens), static_cast<uint32_t>(residentTokens)));
  });
}

Napi::Value NativeRuntime::freeHiddenStore(const Napi::CallbackInfo& info) {
  return guarded(env_, [&] {
    const uint32_t store = readHandle(info[0], "store");
    open().freeHiddenStore(store);
    return env_.Undefined();
  });
}

Napi::Value NativeRuntime::submitMove(const Napi::CallbackInfo& info, const char* call, const char* const (&names)[3],
                                      Move move) {
  return guarded(env_, [&] {
    const uint32_t first = readHandle(info[0], names[0]);
    const uint32_t second = readHandle(info[1], names[1]);
    const uint32_t third = readHandle(info[2], names[2]);
    const std::vector<EventId> after = parseEvents(info[3], "after");
    return submitted((openForTasks(call).*move)(first, second, third, after));
  });
}

Napi::Value NativeRuntime::submitLoadCache(const Napi::CallbackInfo& info) {
  return submitMove(info, "submitLoadCache", {"layer", "batch", "buffer"}, &Runtime::submitLoadCache);
}

Napi::Value NativeRuntime::submitStoreCache(const Napi::CallbackInfo& info) {
  return submitMove(info, "submitStoreCache", {"layer", "batch", "buffer"}, &Runtime::submitStoreCache);
}

Napi::Value NativeRuntime::submitLoadActivation(const Napi::CallbackInfo& info) {
  return submitMove(info, "submitLoadActivation", {"store", "activations", "tokens"}, &Runtime::submitLoadActivation);
}

Napi::Value NativeRuntime::submitStoreActivation(const Napi::CallbackInfo& info) {
  return submitMove(info, "submitStoreActivation", {"store", "activations", "tokens"}, &Runtime::submitStoreActivation);
}

Napi::Value NativeRuntime::submitReadHidden(const Napi::CallbackInfo& info) {
  return guarded(env_, [&] {
    const uint32_t activations = readHandle(info[0], "activations");
    const uint64_t tokens = readInteger(info[1], "tokens", 1, UINT32_MAX);
    const std::vector<EventId> after = parseEvents(info[2], "after");
    return submitted(
        openForTasks("submitReadHidden").submitReadHidden(activations, static_cast<uint32_t>(tokens), after));
  });
}

Napi::Value NativeRuntime::giveBackHidden(const Napi::CallbackInfo& info) {
  return guarded(env_, [&] {
    if (!info[0].IsTypedArray() || info[0].As<Napi::TypedArray>().TypedArrayType() != napi_float32_array)
      refuseArgument("hidden", info[0], "a Float32Array");
    spare_.giveBack(info[0].As<Napi::Float32Array>());
    return env_.Undefined();
  });
}

Napi::Value NativeRuntime::createEvent(const Napi::CallbackInfo&) {
  return guarded(env_, [&] { return submitted(openForTasks("createEvent").createEvent()); });
}

Napi::Value NativeRuntime::completeEvent(const Napi::CallbackInfo& info) {
  return guarded(env_, [&] {
    const EventId event = readInteger(info[0], "event", 1, kMostSafe);
    open().completeEvent(event);
    return env_.Undefined();
  });
}

Napi::Value NativeRuntime::failEvent(const Napi::CallbackInfo& info) {
  return guarded(env_, [&] {
    const EventId event = readInteger(info[0], "event", 1, kMostSafe);
    const std::string message = readString(info[1], "message");
    open().failEvent(event, message);
    return env_.Undefined();
  });
}

Napi::Value NativeRuntime::writeHidden(const Napi::CallbackInfo& info) {
  return guarded(env_, [&] {
    const uint32_t activations = readHandle(info[0], "activations");
    const auto [hidden, count] = viewFloat32Array(info[1], "hidden");
    const bool branch = !info[2].IsUndefined() && readBoolean(info[2], "branch");
    open().writeHidden(activations, hidden, count, branch);
    return env_.Undefined();
  });
}

Napi::Value NativeRuntime::writeRows(const Napi::CallbackInfo& info) {
  return guarded(env_, [&] {
    const uint32_t activations = readHandle(info[0], "activations"), batch = readHandle(info[1], "batch");
    const uint64_t layer = readInteger(info[2], "layer", 0, UINT32_MAX);
    const auto [rows, count] = viewFloat32Array(info[3], "rows");
    open().writeRows(activations, batch, static_cast<uint32_t>(layer), rows, count);
    return env_.Undefined();
  });
}

Napi::Value NativeRuntime::writeAttended(const Napi::CallbackInfo& info) {
  return guarded(env_, [&] {
    const uint32_t activations = readHandle(info[0], "activations");
    const auto [attended, count] = viewFloat32Array(info[1], "attended");
    open().writeAttended(activations, attended, count);
    return env_.Undefined();
  });
}

Napi::Value NativeRuntime::appendTokens(const Napi::CallbackInfo& info) {
  return guarded(env_, [&] {
    const std::vector<int32_t> rows = readInt32Array(info[0], "rows");
    const std::vector<int32_t> tokens = readInt32Array(info[1], "tokens");
    open().appendTokens(rows, tokens);
    return env_.Undefined();
  });
}

Napi::Value NativeRuntime::readPages(const Napi::CallbackInfo& info) {
  return guarded(env_, [&] {
    const std::vector<int32_t> pages = readInt32Array(info[0], "pages");
    const std::vector<uint8_t> bytes = open().readPages(pages);
    Napi::Uint8Array array = Napi::Uint8Array::New(env_, bytes.size());
    std::copy(bytes.begin(), bytes.end(), array.Data());
    return array;
  });
}

Napi::Value NativeRuntime::writePages(const Napi::CallbackInfo& info) {
  return guarded(env_, [&] {
    const std::vector<int32_t> pages = readInt32Array(info[0], "pages");
    const std::vector<uint8_t> bytes = readUint8Array(info[1], "bytes");
    open().writePages(pages, bytes);
    return env_.Undefined();
  });
}

Napi::Value NativeRuntime::cancelAll(const Napi::CallbackInfo&) {
  return guarded(env_, [&] {
    open().cancelAll();
    return env_.Undefined();
  });
}

Napi::Value NativeRuntime::close(const Napi::CallbackInfo&) {
  return guarded(env_, [&]() -> Napi::Value {
    const Napi::Promise::Deferred deferred = Napi::Promise::Deferred::New(env_);
    if (runtime_ == nullptr) {
      deferred.Resolve(env_.Undefined());
    } else {
      closing_.push_back(deferred);
      updateBusy();
      runtime_->close();
    }
    return deferred.Promise();
  });
}

void NativeRuntime::wakeJavaScript(napi_env env, napi_value, void* context, void*) {
  if (env == nullptr) return;  // the environment is ending, and `context` with it
  auto* self = static_cast<NativeRuntime*>(context);
  try {
    const Napi::HandleScope scope(env);
    const Napi::Object pinned = self->Value();  // callbacks may drop the last reference
    if (!pinned.IsEmpty()) self->drain();
  } catch (const Napi::Error& error) {
    napi_fatal_exception(env, error.Value());  // what a callback threw becomes an uncaught exception, as for any event
  } catch (...) {
    // Nothing of ours throws anything else but bad_alloc; there is nobody to tell.
  }
}

void NativeRuntime::drain() {
  if (runtime_ == nullptr) return;
  std::vector<Completion> completions;
  takeCompletions(completions);
  // A wake-up that came between taking and looking here was coalesced into this one, so what it was for is taken now.
  const bool closed = runtime_->closed();
  if (closed) takeCompletions(completions);
  tasksUnderWay_ -= completions.size();
  const uint64_t loaded = runtime_->loadedBytes();
  const bool progressed = std::exchange(reportedBytes_, loaded) != loaded && !onProgress_.IsEmpty();
  const Napi::Function onProgress = progressed ? onProgress_.Value() : Napi::Function();
  if (!loading_) onProgress_.Reset();
  const Napi::Function onCompleted = completions.empty() ? Napi::Function() : onCompleted_.Value();
  if (closed) settleClose();
  updateBusy();

  // Callbacks last, each whatever the other does: they may call anything of this object, or throw.
  std::optional<Napi::Error> thrown;
  const auto call = [&](const Napi::Function& callback, std::initializer_list<napi_value> arguments) {
    try {
      callback.Call(arguments);
    } catch (const Napi::Error& error) {
      thrown = error;
    }
  };
  if (progressed) call(onProgress, {Napi::Number::New(env_, static_cast<double>(loaded))});
  if (!completions.empty()) call(onCompleted, {completionsToJavaScript(env_, completions, timeOriginSeconds_, spare_)});
  if (thrown) throw *thrown;
}

void NativeRuntime::takeCompletions(std::vector<Completion>& completions) {
  runtime_->channel().take(taken_);
  for (Completion& completion : taken_) {
    if (completion.event == loadEvent_)
      settleLoad(completion);
    else
      completions.push_back(std::move(completion));
  }
  taken_.clear();
}

void NativeRuntime::settleLoad(const Completion& completion) {
  if (completion.failed) {
    loading_->Reject(errorValue(env_, errorCodeName(completion.code), completion.message, completion.fileError.get()));
  } else {
    loading_->Resolve(env_.Undefined());
  }
  loading_.reset();
}

void NativeRuntime::settleClose() {
  std::vector<Napi::Promise::Deferred> closing = std::move(closing_);
  closing_.clear();
  updateBusy();
  shutDown();
  spare_.clear();
  onCompleted_.Reset();  // it leads back to this object by way of its device, and would keep both, and all that a
                         // device has seen, for ever
  for (const Napi::Promise::Deferred& deferred : closing) deferred.Resolve(env_.Undefined());
}

}  // namespace spillway
