#include "fileGroups.h"

#include <string.h>

namespace spillway {
namespace {

uint16_t half(const uint8_t* bytes) { return static_cast<uint16_t>(bytes[0] | (bytes[1] << 8)); }

// 32 nibbles: the low ones are the first 16 values.
void nibbles16(const uint8_t* bytes, uint8_t* values) {
  for (int i = 0; i < 16; i++) {
    values[i] = bytes[i] & 15;
    values[16 + i] = bytes[i] >> 4;
  }
}

// Bit i of a little-endian word of 32 becomes bit 4 of value i.
void fifthBits(const uint8_t* bytes, uint8_t* values) {
  for (int i = 0; i < 32; i++) values[i] |= static_cast<uint8_t>(((bytes[i / 8] >> (i % 8)) & 1) << 4);
}

// K types keep 64 values in 32 bytes of nibbles: the low ones are the first 32.
void nibbles32(const uint8_t* bytes, uint8_t* values) {
  for (int i = 0; i < 32; i++) {
    values[i] = bytes[i] & 15;
    values[32 + i] = bytes[i] >> 4;
  }
}

// 128 values in 32 bytes of bit pairs: pair p of byte i is value 32 p + i.
void pairs32(const uint8_t* bytes, uint8_t* values) {
  for (int p = 0; p < 4; p++)
    for (int i = 0; i < 32; i++) values[32 * p + i] = (bytes[i] >> (2 * p)) & 3;
}

// Q4_K and Q5_K: eight 6-bit scales and eight 6-bit minimums in twelve bytes. The first four of each stand in the low
// six bits of bytes 0-3 and 4-7, the others are put together from the nibbles of bytes 8-11 and the two high bits of
// the former.
void sixBitScales(const uint8_t* bytes, uint8_t* scales, uint8_t* minimums) {
  for (int i = 0; i < 4; i++) {
    scales[i] = bytes[i] & 63;
    minimums[i] = bytes[4 + i] & 63;
    scales[4 + i] = static_cast<uint8_t>((bytes[8 + i] & 15) | ((bytes[i] >> 2) & 0x30));
    minimums[4 + i] = static_cast<uint8_t>((bytes[8 + i] >> 4) | ((bytes[4 + i] >> 2) & 0x30));
  }
}

void noBlocks(const uint8_t*, FileBlock&) {}

void readQ4_0(const uint8_t* bytes, FileBlock& block) {
  block.scale = half(bytes);
  nibbles16(bytes + 2, block.values);
}

void readMXFP4(const uint8_t* bytes, FileBlock& block) {
  block.scale = bytes[0];
  nibbles16(bytes + 1, block.values);
}

void readQ4_1(const uint8_t* bytes, FileBlock& block) {
  block.scale = half(bytes);
  block.offset = half(bytes + 2);
  nibbles16(bytes + 4, block.values);
}

void readQ4_G64(const uint8_t* bytes, FileBlock& block) {
  block.scale = half(bytes);
  block.offset = half(bytes + 2);
  nibbles32(bytes + 4, block.values);
}

void readQ5_0(const uint8_t* bytes, FileBlock& block) {
  block.scale = half(bytes);
  nibbles16(bytes + 6, block.values);
  fifthBits(bytes + 2, block.values);
}

void readQ5_1(const uint8_t* bytes, FileBlock& block) {
  block.scale = half(bytes);
  block.offset = half(bytes + 2);
  nibbles16(bytes + 8, block.values);
  fifthBits(bytes + 4, block.values);
}

void readQ8_0(const uint8_t* bytes, FileBlock& block) {
  block.scale = half(bytes);
  for (int i = 0; i < 32; i++) block.values[i] = bytes[2 + i] ^ 0x80;
}

void readQ2_K(const uint8_t* bytes, FileBlock& block) {
  memcpy(block.scales, bytes, 16);
  pairs32(bytes + 16, block.values);
  pairs32(bytes + 48, block.values + 128);
  block.scale = half(bytes + 80);
  block.offset = half(bytes + 82);
}

void readQ3_K(const uint8_t* bytes, FileBlock& block) {
  pairs32(bytes + 32, block.values);
  pairs32(bytes + 64, block.values + 128);
  for (int bit = 0; bit < 8; bit++)
    for (int i = 0; i < 32; i++) block.values[32 * bit + i] |= static_cast<uint8_t>(((bytes[i] >> bit) & 1) << 2);
  // Scale i: four low bits in a nibble of bytes 0-7, two high bits in a pair of bytes 8-11; 32 is subtracted.
  const uint8_t* scales = bytes + 96;
  for (int i = 0; i < 16; i++) {
    const int low = (scales[i % 8] >> (4 * (i / 8))) & 15;
    const int high = (scales[8 + i % 4] >> (2 * (i / 4))) & 3;
    block.scales[i] = static_cast<uint8_t>((low | (high << 4)) - 32);
  }
  block.scale = half(bytes + 108);
}

void readQ45K(const uint8_t* bytes, bool fiveBits, FileBlock& block) {
  block.scale = half(bytes);
  block.offset = half(bytes + 2);
  sixBitScales(bytes + 4, block.scales, block.scales + 8);
  const uint8_t* low = bytes + (fiveBits ? 48 : 16);
  for (int i = 0; i < 4; i++) nibbles32(low + 32 * i, block.values + 64 * i);
  if (!fiveBits) return;
  for (int bit = 0; bit < 8; bit++)
    for (int i = 0; i < 32; i++) block.values[32 * bit + i] |= static_cast<uint8_t>(((bytes[16 + i] >> bit) & 1) << 4);
}

void readQ4_K(const uint8_t* bytes, FileBlock& block) { readQ45K(bytes, false, block); }
void readQ5_K(const uint8_t* bytes, FileBlock& block) { readQ45K(bytes, true, block); }

void readQ6_K(const uint8_t* bytes, FileBlock& block) {
  // Each half of 128 values: 64 bytes whose low nibbles are the first 64 values, 32 bytes of bit pairs.
  for (int part = 0; part < 2; part++) {
    uint8_t* values = block.values + 128 * part;
    uint8_t high[128];
    pairs32(bytes + 128 + 32 * part, high);
    for (int i = 0; i < 64; i++) {
      const uint8_t byte = bytes[64 * part + i];
      values[i] = static_cast<uint8_t>((byte & 15) | (high[i] << 4));
      values[64 + i] = static_cast<uint8_t>((byte >> 4) | (high[64 + i] << 4));
    }
  }
  memcpy(block.scales, bytes + 192, 16);
  block.scale = half(bytes + 208);
}

void readIQ4_XS(const uint8_t* bytes, FileBlock& block) {
  block.scale = half(bytes);
  // Scale i: two high bits in a pair of bytes 2-3, four low bits in a nibble of bytes 4-7; 32 is subtracted.
  for (int i = 0; i < 8; i++) {
    const int low = (bytes[4 + i / 2] >> (4 * (i % 2))) & 15, high = (half(bytes + 2) >> (2 * i)) & 3;
    block.scales[i] = static_cast<uint8_t>((low | (high << 4)) - 32);
    nibbles16(bytes + 8 + 16 * i, block.values + 32 * i);
  }
}

// An infinite scale becomes NaN: infinity times what a row's company makes of its rounding, nothing, is NaN beside
// others and is not alone; NaN is so in any company.
uint16_t withoutInfinity(uint16_t half) {
  constexpr uint16_t kInfinity = 0x7c00, kSign = 0x8000, kNaN = 0x7e00;
  return (half & ~kSign) == kInfinity ? kNaN : half;
}

void readBlock(WeightType type, const uint8_t* bytes, FileBlock& block) {
  switch (type) {
#define SPILLWAY_WEIGHT_TYPE(name, id, elements, blockBytes, bits, codebook, zero, scales, reader) \
  case WeightType::name: return reader(bytes, block);
#include "WeightTypes.def"
  }
}

}  // namespace

void readFileBlock(WeightType type, const uint8_t* bytes, FileBlock& block) {
  block.offset = 0;
  readBlock(type, bytes, block);
  block.scale = withoutInfinity(block.scale);
  block.offset = withoutInfinity(block.offset);
}

}  // namespace spillway
