// Which results the kernels give, as a number: what was computed under it may be kept, and gone on with, under the same
// one alone.
#pragma once
#include <cstdint>

namespace spillway {

// To be raised with every change by which any model's tokens or log-probabilities may come out otherwise, be it in the
// last bit, on any device: another order of a sum, another rounding or approximation, another choice of algorithm by
// shape or length; in sampling, too, and in what native/model makes of the kernels. So do changes to tokenizers, chat
// templates and readers that alter what a row or a model's file is taken to mean. Not what is only faster or lies
// elsewhere, nor families of models that were refused before.
constexpr uint32_t kNumericsVersion = 6;

}  // namespace spillway
