// The few system calls on files that differ between systems. All return 0 or an errno.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>

namespace spillway::disk {

// Reads and writes bypass the page cache from now on, or not; EINVAL and the like where the file system cannot.
int setDirect(int descriptor, bool direct);
// Bytes that a direct read has to begin and end at whole multiples of, and its memory, too: a power of two up to
// `most`, which it is where the system does not say.
size_t directBlock(int descriptor, size_t most);
// The system reads no further than it is asked to, so that there is nothing else to drop.
void readNothingAhead(int descriptor);
// Pages of this part leave the page cache. Written ones must be on the disk; others stay.
void dropFromCache(int descriptor, uint64_t offset, uint64_t bytes);
// Pages of this part are written to the disk; where the system has no call for a part, nothing happens until sync().
int flushRange(int descriptor, uint64_t offset, uint64_t bytes);
// Blocks for [0, bytes), and at least that length.
int reserve(int descriptor, uint64_t bytes);
int sync(int descriptor);
// The names in a folder are on the disk.
int syncFolder(const std::string& folder);
// "" and "name" are in ".".
std::string folderOf(const std::string& path);

}  // namespace spillway::disk
