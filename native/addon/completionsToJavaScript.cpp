#include "completionsToJavaScript.h"

#include <algorithm>
#include <cstring>

#include "../model/ComputeTask.h"
#include "../system/Error.h"

namespace spillway {

namespace {

template <typename Array, typename T>
Array typedArray(Napi::Env env, const std::vector<T>& values) {
  Array array = Array::New(env, values.size());
  if (!values.empty()) std::memcpy(array.Data(), values.data(), values.size() * sizeof(T));
  return array;
}

Napi::Object headToJavaScript(Napi::Env env, EventId event, const HeadResult& head) {
  Napi::Object object = Napi::Object::New(env);
  object.Set("event", static_cast<double>(event));
  object.Set("rows", typedArray<Napi::Int32Array>(env, head.rows));
  object.Set("tokens", typedArray<Napi::Int32Array>(env, head.tokens));
  object.Set("logprobs", typedArray<Napi::Float32Array>(env, head.logprobs));
  object.Set("topCounts", typedArray<Napi::Int32Array>(env, head.topCounts));
  object.Set("topTokens", typedArray<Napi::Int32Array>(env, head.topTokens));
  object.Set("topLogprobs", typedArray<Napi::Float32Array>(env, head.topLogprobs));
  object.Set("certainties", typedArray<Napi::Float32Array>(env, head.certainties));
  object.Set("places", typedArray<Napi::Int32Array>(env, head.places));
  object.Set("forcedCounts", typedArray<Napi::Int32Array>(env, head.forcedCounts));
  object.Set("forcedTokens", typedArray<Napi::Int32Array>(env, head.forcedTokens));
  Napi::Array failures = Napi::Array::New(env, head.failures.size());
  for (size_t i = 0; i < head.failures.size(); i++) failures.Set(static_cast<uint32_t>(i), head.failures[i]);
  object.Set("failures", failures);
  object.Set("embedded", typedArray<Napi::Int32Array>(env, head.embedded));
  object.Set("embeddings", typedArray<Napi::Float32Array>(env, head.embeddings));
  object.Set("scored", typedArray<Napi::Int32Array>(env, head.scored));
  object.Set("scores", typedArray<Napi::Float32Array>(env, head.scores));
  return object;
}

}  // namespace

Napi::Object completionsToJavaScript(Napi::Env env, const std::vector<Completion>& completions,
                                     double timeOriginSeconds, SpareArrays& spare) {
  Napi::Float64Array events = Napi::Float64Array::New(env, completions.size() * 4);
  Napi::Array errors = Napi::Array::New(env);
  Napi::Array heads = Napi::Array::New(env);
  Napi::Array hidden = Napi::Array::New(env);
  Napi::Array read = Napi::Array::New(env);
  double* entry = events.Data();
  for (const Completion& completion : completions) {
    Napi::HandleScope scope(env);
    *entry++ = static_cast<double>(completion.event);
    *entry++ = completion.startSeconds - timeOriginSeconds;
    *entry++ = completion.endSeconds - timeOriginSeconds;
    *entry++ = completion.failed ? 1 : 0;
    if (completion.failed) {
      Napi::Object error = Napi::Object::New(env);
      error.Set("event", static_cast<double>(completion.event));
      error.Set("code", errorCodeName(completion.code));
      error.Set("message", completion.message);
      if (completion.fileError != nullptr) {
        error.Set("file", completion.fileError->file);
        error.Set("field", completion.fileError->field);
        error.Set("found", completion.fileError->found);
        error.Set("expected", completion.fileError->expected);
      }
      errors.Set(errors.Length(), error);
    }
    const auto* head = dynamic_cast<const HeadResult*>(completion.result.get());
    if (head != nullptr && (!head->rows.empty() || !head->scored.empty())) {
      heads.Set(heads.Length(), headToJavaScript(env, completion.event, *head));
    }
    if (const auto* states = dynamic_cast<const HiddenResult*>(completion.result.get())) {
      Napi::Object entry = Napi::Object::New(env);
      entry.Set("event", static_cast<double>(completion.event));
      Napi::Float32Array array = spare.take(env, states->hidden.size());
      std::copy(states->hidden.begin(), states->hidden.end(), array.Data());
      entry.Set("hidden", array);
      hidden.Set(hidden.Length(), entry);
    }
    if (const auto* pages = dynamic_cast<const PagesRead*>(completion.result.get())) {
      Napi::Object entry = Napi::Object::New(env);
      entry.Set("event", static_cast<double>(completion.event));
      entry.Set("bytes", static_cast<double>(pages->bytes));
      entry.Set("start", pages->startSeconds - timeOriginSeconds);
      entry.Set("end", pages->endSeconds - timeOriginSeconds);
      read.Set(read.Length(), entry);
    }
  }
  Napi::Object object = Napi::Object::New(env);
  object.Set("events", events);
  object.Set("errors", errors);
  object.Set("heads", heads);
  object.Set("hidden", hidden);
  object.Set("read", read);
  return object;
}

}  // namespace spillway
