#include "Checksum.h"

#include <cstring>

#if defined(__x86_64__)
#include <nmmintrin.h>
#ifdef __clang__
#define SPILLWAY_CRC_TARGET __attribute__((target("crc32")))
#else
#define SPILLWAY_CRC_TARGET __attribute__((target("sse4.2")))
#endif
#define SPILLWAY_CRC_HARDWARE 1
#elif defined(__aarch64__)
#include <arm_acle.h>
#ifdef __linux__
#include <sys/auxv.h>
#endif
#ifdef __clang__
#define SPILLWAY_CRC_TARGET __attribute__((target("crc")))
#else
#define SPILLWAY_CRC_TARGET __attribute__((target("+crc")))
#endif
#define SPILLWAY_CRC_HARDWARE 1
#endif

#include "CpuFeatures.h"

namespace spillway {

namespace {

constexpr uint32_t kPolynomial = 0x82f63b78;  // Castagnoli's, the lowest power in the highest bit

// entry[k][b]: what byte b, followed by k zero bytes, does to the register.
struct ByteTables {
  uint32_t entry[8][256];
  ByteTables() {
    for (uint32_t byte = 0; byte < 256; byte++) {
      uint32_t value = byte;
      for (int bit = 0; bit < 8; bit++) value = (value >> 1) ^ (value & 1 ? kPolynomial : 0);
      entry[0][byte] = value;
    }
    for (int k = 1; k < 8; k++) {
      for (uint32_t byte = 0; byte < 256; byte++)
        entry[k][byte] = (entry[k - 1][byte] >> 8) ^ entry[0][entry[k - 1][byte] & 0xff];
    }
  }
};

const ByteTables& byteTables() {
  static const ByteTables tables;
  return tables;
}

uint32_t word32(const uint8_t* p) { return p[0] | uint32_t(p[1]) << 8 | uint32_t(p[2]) << 16 | uint32_t(p[3]) << 24; }

// The register itself, without the complements at the beginning and the end.
uint32_t advanceByTable(uint32_t value, const uint8_t* data, size_t bytes) {
  const auto& entry = byteTables().entry;
  for (; bytes >= 8; data += 8, bytes -= 8) {
    const uint32_t low = value ^ word32(data), high = word32(data + 4);
    value = entry[7][low & 0xff] ^ entry[6][low >> 8 & 0xff] ^ entry[5][low >> 16 & 0xff] ^ entry[4][low >> 24] ^
            entry[3][high & 0xff] ^ entry[2][high >> 8 & 0xff] ^ entry[1][high >> 16 & 0xff] ^ entry[0][high >> 24];
  }
  for (; bytes > 0; data++, bytes--) value = (value >> 8) ^ entry[0][(value ^ *data) & 0xff];
  return value;
}

#ifdef SPILLWAY_CRC_HARDWARE

// What `Bytes` zero bytes do to the register. It is linear over the register's bits, so four tables of a byte each say
// it all.
template <size_t Bytes>
struct ZeroBytes {
  uint32_t entry[4][256];
  ZeroBytes() {
    uint32_t ofBit[32];
    for (int bit = 0; bit < 32; bit++) {
      uint32_t value = uint32_t{1} << bit;
      for (size_t i = 0; i < Bytes; i++) value = (value >> 8) ^ byteTables().entry[0][value & 0xff];
      ofBit[bit] = value;
    }
    for (int k = 0; k < 4; k++) {
      for (int byte = 0; byte < 256; byte++) {
        uint32_t value = 0;
        for (int bit = 0; bit < 8; bit++) value ^= byte >> bit & 1 ? ofBit[8 * k + bit] : 0;
        entry[k][byte] = value;
      }
    }
  }
  uint32_t operator()(uint32_t value) const {
    return entry[0][value & 0xff] ^ entry[1][value >> 8 & 0xff] ^ entry[2][value >> 16 & 0xff] ^ entry[3][value >> 24];
  }
};

#if defined(__x86_64__)
SPILLWAY_CRC_TARGET inline uint64_t advance8(uint64_t value, uint64_t word) { return _mm_crc32_u64(value, word); }
SPILLWAY_CRC_TARGET inline uint64_t advance1(uint64_t value, uint8_t byte) {
  return _mm_crc32_u8(static_cast<uint32_t>(value), byte);
}
bool hasInstructions() { return cpuFeatures().sse42; }
#else
SPILLWAY_CRC_TARGET inline uint64_t advance8(uint64_t value, uint64_t word) {
  return __crc32cd(static_cast<uint32_t>(value), word);
}
SPILLWAY_CRC_TARGET inline uint64_t advance1(uint64_t value, uint8_t byte) {
  return __crc32cb(static_cast<uint32_t>(value), byte);
}
bool hasInstructions() {
#ifdef __APPLE__
  return true;
#else
  constexpr unsigned long kCrc32 = 1ul << 7;  // HWCAP_CRC32
  return (getauxval(AT_HWCAP) & kCrc32) != 0;
#endif
}
#endif

SPILLWAY_CRC_TARGET inline uint64_t word64(const uint8_t* p) {
  uint64_t word;
  std::memcpy(&word, p, sizeof(word));
  return word;
}

// An instruction takes three cycles and one can start each cycle, so three stretches advance together; then the first
// two are moved past what follows them.
template <size_t Stretch>
SPILLWAY_CRC_TARGET uint64_t advanceThree(uint64_t value, const uint8_t*& data, size_t& bytes) {
  static const ZeroBytes<Stretch> pastOne;
  for (; bytes >= 3 * Stretch; data += 3 * Stretch, bytes -= 3 * Stretch) {
    uint64_t second = 0, third = 0;
    for (size_t i = 0; i < Stretch; i += 8) {
      value = advance8(value, word64(data + i));
      second = advance8(second, word64(data + Stretch + i));
      third = advance8(third, word64(data + 2 * Stretch + i));
    }
    value = pastOne(static_cast<uint32_t>(value)) ^ second;
    value = pastOne(static_cast<uint32_t>(value)) ^ third;
  }
  return value;
}

SPILLWAY_CRC_TARGET uint32_t advanceByInstruction(uint32_t before, const uint8_t* data, size_t bytes) {
  uint64_t value = before;
  value = advanceThree<8192>(value, data, bytes);
  value = advanceThree<256>(value, data, bytes);
  for (; bytes >= 8; data += 8, bytes -= 8) value = advance8(value, word64(data));
  for (; bytes > 0; data++, bytes--) value = advance1(value, *data);
  return static_cast<uint32_t>(value);
}

#endif

}  // namespace

bool crc32cInHardware() {
#ifdef SPILLWAY_CRC_HARDWARE
  static const bool has = hasInstructions();
  return has;
#else
  return false;
#endif
}

uint32_t crc32cByTable(uint32_t before, const void* data, size_t bytes) {
  return ~advanceByTable(~before, static_cast<const uint8_t*>(data), bytes);
}

uint32_t crc32c(uint32_t before, const void* data, size_t bytes) {
#ifdef SPILLWAY_CRC_HARDWARE
  if (crc32cInHardware()) return ~advanceByInstruction(~before, static_cast<const uint8_t*>(data), bytes);
#endif
  return crc32cByTable(before, data, bytes);
}

}  // namespace spillway
