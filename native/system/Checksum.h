// CRC-32C (Castagnoli), by the processor's own instructions where it has them.
#pragma once
#include <cstddef>
#include <cstdint>

namespace spillway {

// The checksum of all bytes so far, given that of the bytes before these (0 before the first): crc32c(crc32c(0, a), b)
// is that of a followed by b.
uint32_t crc32c(uint32_t before, const void* data, size_t bytes);

// The same, by tables; and whether crc32c() uses instructions here.
uint32_t crc32cByTable(uint32_t before, const void* data, size_t bytes);
bool crc32cInHardware();

}  // namespace spillway
