// Every kind of decoder, as a change of the small one.
#pragma once
#include "modelFixture.h"

namespace spillway::fixture {

struct Case {
  const char* name;
  void (*change)(DecoderSpec&);
  bool optional = true;  // with every weight that a decoder of the kind may have, or with none of them
};

inline void rotary(DecoderSpec& spec, RotaryStyle style, uint32_t dims, float scale = 1) {
  spec.rotaryStyle = style;
  spec.rotaryDims = dims;
  spec.rotaryTables[0].frequencies.resize(dims / 2);
  spec.rotaryTables[0].scale = scale;
}

inline const Case kCases[] = {
    {"llama", [](DecoderSpec&) {}, false},
    {"llama_biases", [](DecoderSpec&) {}},
    {"mistral_window",
     [](DecoderSpec& s) {
       rotary(s, RotaryStyle::Halves, 16);
       s.layerSpecs[0].window = s.layerSpecs[1].window = 5;
     },
     false},
    {"qwen3_head_norms",
     [](DecoderSpec& s) {
       rotary(s, RotaryStyle::Halves, 16);
       s.qkNorm = QueryKeyNorm::Head;
     },
     false},
    {"phi3_partial_rotary_scaled", [](DecoderSpec& s) { rotary(s, RotaryStyle::Halves, 12, 1.19f); }, false},
    {"gemma3",
     [](DecoderSpec& s) {
       rotary(s, RotaryStyle::Halves, 16);
       s.residual = Residual::Sandwich;
       s.qkNorm = QueryKeyNorm::Head;
       s.activation = Activation::GeluTanh;
       s.embeddingScale = 6.93f;
       s.rotaryTables.push_back(s.rotaryTables[0]);
       for (float& f : s.rotaryTables[1].frequencies) f *= 0.125f;
       s.layerSpecs[0] = {7, 1, false};
     },
     false},
    {"opt",
     [](DecoderSpec& s) {
       s.norm = NormKind::Layer;
       s.position = PositionKind::Learned;
       s.rotaryTables.clear();
       s.rotaryDims = 0;
       s.learnedOffset = 2;
       s.feedForward = FeedForwardKind::Plain;
       s.activation = Activation::Relu;
       s.kvHeads = 4;
     }},
    {"opt_350m",
     [](DecoderSpec& s) {
       s.norm = NormKind::Layer;
       s.residual = Residual::Post;
       s.finalNorm = false;
       s.embeddingSize = 20;
       s.position = PositionKind::Learned;
       s.learnedOffset = 2;
       s.feedForward = FeedForwardKind::Plain;
       s.activation = Activation::Relu;
     }},
    {"gpt_neox_two_norms",
     [](DecoderSpec& s) {
       rotary(s, RotaryStyle::Halves, 4);
       s.norm = NormKind::Layer;
       s.residual = Residual::Parallel;
       s.feedForward = FeedForwardKind::Plain;
       s.activation = Activation::Gelu;
     }},
    {"falcon_one_norm",
     [](DecoderSpec& s) {
       s.norm = NormKind::Layer;
       s.residual = Residual::Parallel;
       s.feedForward = FeedForwardKind::Plain;
       s.activation = Activation::Gelu;
       s.kvHeads = 1;
     },
     false},
    {"falcon_alibi",
     [](DecoderSpec& s) {
       s.norm = NormKind::Layer;
       s.residual = Residual::Parallel;
       s.feedForward = FeedForwardKind::Plain;
       s.activation = Activation::Gelu;
       s.position = PositionKind::Alibi;
       s.alibiSlopes = {0.5f, 0.31f, 0.125f, 0.07f};
       s.alibiRoundToBfloat16 = true;
     }},
    {"alibi",
     [](DecoderSpec& s) {
       s.position = PositionKind::Alibi;
       s.alibiSlopes = {0.5f, 0.31f, 0.125f, 0.07f};
     }},
    {"bloom",
     [](DecoderSpec& s) {
       s.norm = NormKind::Layer;
       s.embeddingNorm = true;
       s.feedForward = FeedForwardKind::Plain;
       s.activation = Activation::GeluTanh;
       s.position = PositionKind::Alibi;
       s.alibiSlopes = {0.5f, 0.31f, 0.125f, 0.07f};
     }},
    {"mixtral",
     [](DecoderSpec& s) {
       s.feedForward = FeedForwardKind::Experts;
       s.experts = 5;
       s.expertsPerToken = 2;
     },
     false},
    {"gemma2",
     [](DecoderSpec& s) {
       rotary(s, RotaryStyle::Halves, 16);
       s.residual = Residual::Sandwich;
       s.activation = Activation::GeluTanh;
       s.embeddingScale = 6.93f;
       s.layerSpecs[0].window = 7;
       s.attentionSoftCap = 0.8f;
       s.logitSoftCap = 2;
     },
     false},
    {"gpt_oss",
     [](DecoderSpec& s) {
       rotary(s, RotaryStyle::Halves, 16, 1.35f);
       s.layerSpecs[0].window = 7;
       s.attentionSinks = true;
       s.feedForward = FeedForwardKind::Experts;
       s.activation = Activation::ClampedSwiglu;
       s.experts = 5;
       s.expertsPerToken = 2;
     }},
    {"smollm3_unrotated_layer",
     [](DecoderSpec& s) {
       rotary(s, RotaryStyle::Halves, 16);
       s.layerSpecs[1].rotaryTable = LayerSpec::kNoRotation;
     },
     false},
    {"granite_scales",
     [](DecoderSpec& s) {
       s.embeddingScale = 6;
       s.residualScale = 0.4f;
       s.logitScale = 0.3f;
     },
     false},
    {"olmo2_branch_norms",
     [](DecoderSpec& s) {
       rotary(s, RotaryStyle::Halves, 16);
       s.residual = Residual::Branch;
       s.qkNorm = QueryKeyNorm::Row;
     },
     false},
    {"hunyuan_norms_after_rotation",
     [](DecoderSpec& s) {
       rotary(s, RotaryStyle::Halves, 16);
       s.qkNorm = QueryKeyNorm::Rotated;
     },
     false},
    {"cohere2",
     [](DecoderSpec& s) {
       s.norm = NormKind::Layer;
       s.residual = Residual::Parallel;
       s.qkNorm = QueryKeyNorm::Layer;
       s.logitScale = 0.25f;
       s.residualScale = 0.7f;
       s.layerSpecs[0].window = 7;
       s.layerSpecs[1].rotaryTable = LayerSpec::kNoRotation;
     },
     false},
    {"nemotron",
     [](DecoderSpec& s) {
       rotary(s, RotaryStyle::Halves, 8);
       s.norm = NormKind::Layer;
       s.feedForward = FeedForwardKind::Plain;
       s.activation = Activation::ReluSquared;
     }},
    {"qwen2_moe_shared_gate",
     [](DecoderSpec& s) {
       s.feedForward = FeedForwardKind::Experts;
       s.experts = 5;
       s.expertsPerToken = 2;
       s.router.normalised = false;
       s.sharedSize = 24;
       s.sharedGate = true;
     },
     false},
    {"glm4_moe",
     [](DecoderSpec& s) {
       s.feedForward = FeedForwardKind::Experts;
       s.experts = 6;
       s.expertsPerToken = 2;
       s.router = {RouterScore::Sigmoid, true, 1.5f, 0, true, 3, 2, GroupScore::BestTwo};
       s.sharedSize = 24;
       s.denseSize = 56;
       s.layerSpecs[0].dense = true;
     },
     false},
    {"persimmon",
     [](DecoderSpec& s) {
       rotary(s, RotaryStyle::Halves, 8);
       s.norm = NormKind::Layer;
       s.qkNorm = QueryKeyNorm::Layer;
       s.feedForward = FeedForwardKind::Plain;
       s.activation = Activation::ReluSquared;
     }},
};

}  // namespace spillway::fixture
